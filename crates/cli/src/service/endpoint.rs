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
use tokio::sync::{Mutex, Semaphore};

use super::Stop;
use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::metrics::{Metrics, Watched};
use crate::repo_args::Place;

/// Measuring asks the repositories, whose stores bill by request.
const FRESH: Duration = Duration::from_secs(60);
/// More than Prometheus takes, and its spare, and a person.
const CONNECTIONS_MAX: usize = 16;
const TIMEOUT: Duration = Duration::from_secs(30);

type Answer = Response<Full<Bytes>>;

/// Listens.
pub(super) async fn bind(address: SocketAddr) -> Result<TcpListener, CommandError> {
    TcpListener::bind(address).await.map_err(|error| {
        let context = format!("cannot listen on {address} (metrics-listen)");
        CommandError::caused(Kind::OptionInvalid, context, &error)
    })
}

/// The last measurements, for a minute.
pub(super) struct Measured<'s> {
    places: &'s [Place],
    watched: Option<&'s Watched>,
    last: Mutex<Option<(Instant, String)>>,
}

impl<'s> Measured<'s> {
    pub(super) fn new(places: &'s [Place], watched: Option<&'s Watched>) -> Measured<'s> {
        let last = Mutex::default();
        Measured {
            places,
            watched,
            last,
        }
    }

    async fn text(&self) -> Result<String, CommandError> {
        let mut last = self.last.lock().await;
        if let Some((at, text)) = &*last
            && at.elapsed() < FRESH
        {
            return Ok(text.clone());
        }
        let text = Metrics::measure(self.places, self.watched).await?.text()?;
        *last = Some((Instant::now(), text.clone()));
        Ok(text)
    }
}

/// Answers until the service stops.
pub(super) async fn answer(listener: TcpListener, measured: &Measured<'_>, stop: Stop) {
    let room = Semaphore::new(CONNECTIONS_MAX);
    let mut connections = futures::stream::FuturesUnordered::new();
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
            Ok(text) => text_of(StatusCode::OK, text),
            Err(error) => {
                let text = format!("{}\n", error.message());
                text_of(StatusCode::INTERNAL_SERVER_ERROR, text)
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
