//! What an operator watches, in Prometheus's text format. docs/metrics.md lists it; the alert rules
//! and the dashboard in contrib/ use it.

mod archiver;
mod repositories;

pub use archiver::{Counters, Watched};

use prometheus::core::Collector;
use prometheus::{Encoder, GaugeVec, IntCounterVec, Opts, Registry, TextEncoder};

use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::repo_args::Place;

/// What there is to measure.
pub struct Metrics {
    registry: Registry,
}

impl Metrics {
    /// Measures repositories, and a cluster's archiving if it is known. A repository that cannot be
    /// read is a measurement too.
    pub async fn measure(
        places: &[Place],
        watched: Option<&Watched>,
    ) -> Result<Metrics, CommandError> {
        let metrics = Metrics {
            registry: Registry::new(),
        };
        let version = metrics.gauge("walzip_build_info", "The version", &["version"])?;
        version
            .with_label_values(&[env!("WALZIP_VERSION")])
            .set(1.0);
        if let Some(watched) = watched {
            archiver::measure(&metrics, watched)?;
        }
        repositories::measure(&metrics, places).await?;
        Ok(metrics)
    }

    /// As Prometheus reads it.
    pub fn text(&self) -> Result<String, CommandError> {
        let mut text = Vec::new();
        let encoded = TextEncoder::new().encode(&self.registry.gather(), &mut text);
        encoded.map_err(|error| internal(&error))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn gauge(&self, name: &str, help: &str, labels: &[&str]) -> Result<GaugeVec, CommandError> {
        self.register(GaugeVec::new(Opts::new(name, help), labels))
    }

    fn counter(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> Result<IntCounterVec, CommandError> {
        self.register(IntCounterVec::new(Opts::new(name, help), labels))
    }

    fn register<C: Collector + Clone + 'static>(
        &self,
        made: Result<C, prometheus::Error>,
    ) -> Result<C, CommandError> {
        let made = made.map_err(|error| internal(&error))?;
        let registered = self.registry.register(Box::new(made.clone()));
        registered.map_err(|error| internal(&error))?;
        Ok(made)
    }
}

fn internal(error: &prometheus::Error) -> CommandError {
    CommandError::caused(Kind::Internal, "cannot measure", error)
}
