//! Measurements over HTTP: `GET /metrics`.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore, watch};

use super::Stop;
use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::metrics::{Metrics, Watched};
use crate::repo_args::Place;

/// Measuring asks the repositories, whose stores bill by request.
const FRESH: Duration = Duration::from_secs(60);
/// Prometheus waits for ten seconds.
const PATIENCE: Duration = Duration::from_secs(5);
/// More than Prometheus takes, and its spare, and a person.
const CONNECTIONS_MAX: usize = 16;
const TIMEOUT: Duration = Duration::from_secs(10);

type Answer = Response<Full<Bytes>>;

/// Listens.
pub(super) async fn bind(address: SocketAddr) -> Result<TcpListener, CommandError> {
    TcpListener::bind(address).await.map_err(|error| {
        let context = format!("cannot listen on {address} (metrics-listen)");
        CommandError::caused(Kind::OptionInvalid, context, &error)
    })
}

/// The last measurements. Measuring may take longer than a client waits.
pub(super) struct Measured<'s> {
    places: &'s [Place],
    watched: Option<&'s Watched>,
    wanted: Notify,
    last: watch::Sender<Option<(Instant, String)>>,
}

impl<'s> Measured<'s> {
    pub(super) fn new(places: &'s [Place], watched: Option<&'s Watched>) -> Measured<'s> {
        Measured {
            places,
            watched,
            wanted: Notify::new(),
            last: watch::Sender::new(None),
        }
    }

    /// Measures whenever somebody asks and the last measurements are old.
    async fn measure(&self) {
        loop {
            self.wanted.notified().await;
            if is_fresh(&self.last.borrow()) {
                continue;
            }
            let measured = Metrics::measure(self.places, self.watched).await;
            match measured.and_then(|metrics| metrics.text()) {
                Ok(text) => {
                    self.last.send_replace(Some((Instant::now(), text)));
                }
                Err(error) => tracing::warn!("{}", error.message()),
            }
        }
    }

    /// Fresh measurements, or older ones where those take too long, or none.
    async fn text(&self) -> Option<String> {
        self.wanted.notify_one();
        let mut last = self.last.subscribe();
        // Nobody can end the sending but the service.
        let _ = tokio::time::timeout(PATIENCE, last.wait_for(is_fresh)).await;
        let last = self.last.borrow();
        last.as_ref().map(|(_, text)| text.clone())
    }
}

fn is_fresh(last: &Option<(Instant, String)>) -> bool {
    last.as_ref().is_some_and(|(at, _)| at.elapsed() < FRESH)
}

/// Answers until the service stops.
pub(super) async fn answer(listener: TcpListener, measured: &Measured<'_>, stop: Stop) {
    let room = Semaphore::new(CONNECTIONS_MAX);
    let mut connections = futures::stream::FuturesUnordered::new();
    let mut measuring = std::pin::pin!(measured.measure());
    loop {
        use futures::StreamExt;
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => match room.try_acquire() {
                    Ok(place) => connections.push(async move {
                        serve(stream, measured).await;
                        drop(place);
                    }),
                    Err(_) => drop(stream),
                },
                // Out of descriptors, for one: it passes.
                Err(error) => {
                    tracing::warn!("a connection to the metrics failed: {error}");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            },
            Some(()) = connections.next() => {}
            () = &mut measuring => {}
            () = stop.clone() => return,
        }
    }
}

async fn serve(stream: TcpStream, measured: &Measured<'_>) {
    let service = service_fn(|request| respond(request, measured));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(TIMEOUT)
        .max_buf_size(16 << 10)
        .serve_connection(TokioIo::new(stream), service);
    // Whatever the other side does is its own affair.
    let _ = tokio::time::timeout(TIMEOUT * 4, connection).await;
}

async fn respond<B>(request: Request<B>, measured: &Measured<'_>) -> Result<Answer, Infallible> {
    let is_asked = request.method() == Method::GET || request.method() == Method::HEAD;
    Ok(match request.uri().path() {
        "/metrics" if is_asked => match measured.text().await {
            Some(text) => text_of(StatusCode::OK, text),
            None => {
                let text = "the first measurement is not done yet\n".to_owned();
                text_of(StatusCode::SERVICE_UNAVAILABLE, text)
            }
        },
        "/" if is_asked => text_of(StatusCode::OK, "walzip: see /metrics\n".to_owned()),
        _ => text_of(StatusCode::NOT_FOUND, "not found\n".to_owned()),
    })
}

fn text_of(status: StatusCode, text: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(text)));
    *answer.status_mut() = status;
    let content_type = hyper::header::HeaderValue::from_static("text/plain; version=0.0.4");
    answer
        .headers_mut()
        .insert(hyper::header::CONTENT_TYPE, content_type);
    answer
}
