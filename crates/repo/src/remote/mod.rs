//! Stores on other hosts, behind HTTP: the clients are `object_store`'s; which credentials and
//! which addresses they get, and how long they may take, is decided here.

mod aws_credentials;
mod aws_profile;
mod azure;
mod gcs;
mod http;
mod listing;
mod s3;

use std::sync::{Arc, Once};
use std::time::Duration;

use object_store::{
    BackoffConfig, Certificate, ClientOptions, ObjectStore, RetryConfig, path::Path,
    prefix::PrefixStore,
};

use self::http::Connector;
use crate::error::RepoError;
use crate::last_failure::LastFailure;
use crate::location::Location;
use crate::location::{BucketLocation, Service};
use crate::store_settings::StoreSettings;

/// How long a connection may take to come about.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Makes the client of a bucket. Nothing is requested yet. `failures` gets what requests fail of.
pub(crate) fn open(
    location: &BucketLocation,
    settings: &StoreSettings,
    failures: &LastFailure,
) -> Result<Arc<dyn ObjectStore>, RepoError> {
    choose_cryptography();
    let connector = Connector::new(settings.timeout(), failures.clone());
    let store = match location.service {
        Service::S3 => s3::open(&location.bucket, settings, connector),
        Service::Gcs => gcs::open(&location.bucket, settings, connector),
        Service::Azure => azure::open(&location.bucket, settings, connector),
    };
    let store = store.map_err(|error| error.at(location))?;
    if location.prefix.is_empty() {
        return Ok(store);
    }
    let prefix = Path::from(location.prefix.as_str());
    Ok(Arc::new(PrefixStore::new(store, prefix)))
}

/// Why no client can be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error(transparent)]
    Client(#[from] object_store::Error),
    #[error("{0}")]
    Settings(String),
}

impl OpenError {
    fn at(self, location: &BucketLocation) -> RepoError {
        RepoError::StoreSettings {
            location: Location::Bucket(location.clone()).to_string(),
            source: Box::new(self),
        }
    }
}

/// TLS needs to know once which implementation it is made of.
fn choose_cryptography() {
    static CHOSEN: Once = Once::new();
    CHOSEN.call_once(|| {
        // Whoever embeds this may have chosen already.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// What the clients of all services have in common.
fn client_options(settings: &StoreSettings) -> Result<ClientOptions, OpenError> {
    // The whole of a request is limited by its size, in `http`.
    let mut options = ClientOptions::new()
        .with_timeout_disabled()
        .with_connect_timeout(CONNECT_TIMEOUT.min(settings.timeout()));
    let bundle = settings.environment.get("AWS_CA_BUNDLE").map(Into::into);
    if let Some(file) = settings.ca_file.clone().or(bundle) {
        let pem = std::fs::read(&file).map_err(|error| {
            OpenError::Settings(format!("cannot read {}: {error}", file.display()))
        })?;
        let certificates = Certificate::from_pem_bundle(&pem)?;
        if certificates.is_empty() {
            let message = format!("{} has no certificates", file.display());
            return Err(OpenError::Settings(message));
        }
        for certificate in certificates {
            options = options.with_root_certificate(certificate);
        }
    }
    Ok(options)
}

/// Requests that the service refuses for the moment are repeated.
fn retries(settings: &StoreSettings) -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(5),
            base: 2.0,
        },
        // Time ends them, a little before the operation's own end hides what failed.
        max_retries: 1000,
        retry_timeout: settings.timeout() * 5 / 6,
    }
}

/// An endpoint as a URL. Whoever wants no encryption says so.
fn endpoint_url(endpoint: &str) -> String {
    let endpoint = endpoint.trim_end_matches('/');
    match endpoint.contains("://") {
        true => endpoint.to_owned(),
        false => format!("https://{endpoint}"),
    }
}

fn is_plain_http(endpoint: &str) -> bool {
    endpoint
        .get(..7)
        .is_some_and(|start| start.eq_ignore_ascii_case("http://"))
}
