//! Requests with an end.
//!
//! A service that takes a connection and then says nothing would otherwise be waited for without
//! end. What a request may take grows with what it sends; an answer may take as long as it likes
//! as long as it goes on. What a service says of a failure is shortened to its code and message:
//! some repeat the credentials that they refuse. What a request fails of is noted for those who wait
//! while the client repeats it.

use std::error::Error as StdError;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use http_body::{Body, Frame, SizeHint};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService, ReqwestConnector,
};
use tokio::time::{Sleep, sleep, timeout};

use crate::last_failure::LastFailure;
use crate::remote::listing;

/// How long a service may say nothing.
const IDLE: Duration = Duration::from_secs(20);
/// How many bytes a second are sent at least. An eighth of that is a slow line already.
const SENT_BYTES_PER_SECOND: u64 = 256 << 10;
/// How much of a refusal is read.
const REFUSAL_BYTES_MAX: usize = 16 << 10;
/// How much of its message is shown.
const MESSAGE_CHARS_MAX: usize = 300;

#[derive(Debug, thiserror::Error)]
#[error("the service did not answer within {} seconds", .0.as_secs())]
struct NoAnswer(Duration);

#[derive(Debug, thiserror::Error)]
#[error("the service sent nothing more for {} seconds", .0.as_secs())]
struct Stalled(Duration);

/// Makes clients whose requests end.
#[derive(Debug)]
pub(crate) struct Connector {
    idle: Duration,
    failures: LastFailure,
}

impl Connector {
    /// Requests end within the time of the whole operation, or sooner.
    pub(crate) fn new(operation: Duration, failures: LastFailure) -> Self {
        Self {
            // There has to be time for another attempt.
            idle: IDLE.min(operation / 3),
            failures,
        }
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let inner = ReqwestConnector::default().connect(options)?;
        let (idle, failures) = (self.idle, self.failures.clone());
        Ok(HttpClient::new(Limited {
            inner,
            idle,
            failures,
        }))
    }
}

#[derive(Debug)]
struct Limited {
    inner: HttpClient,
    idle: Duration,
    failures: LastFailure,
}

impl Limited {
    /// The answer, of which a refusal is shortened. An answer to a request for a list is one.
    async fn answer(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let is_listing = listing::is_asked_by(&request);
        let seconds = request.body().content_length() as u64 / SENT_BYTES_PER_SECOND;
        let limit = self.idle + Duration::from_secs(seconds);
        let answer = timeout(limit, self.inner.execute(request)).await;
        let answer =
            answer.map_err(|_| HttpError::new(HttpErrorKind::Timeout, NoAnswer(limit)))??;
        let (parts, body) = answer.into_parts();
        let body = HttpResponseBody::new(Watched {
            inner: body,
            idle: self.idle,
            silence: None,
        });
        if parts.status.is_client_error() || parts.status.is_server_error() {
            let refusal = shorten(&read_refusal(body).await);
            return Ok(HttpResponse::from_parts(parts, refusal.into()));
        }
        if is_listing && parts.status.is_success() {
            let read = listing::read(body).await?;
            return Ok(HttpResponse::from_parts(parts, read.into()));
        }
        Ok(HttpResponse::from_parts(parts, body))
    }
}

#[async_trait]
impl HttpService for Limited {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let uri = request.uri();
        // Without what may stand before the host: a password is not for the log.
        let (scheme, host) = (uri.scheme_str().unwrap_or("https"), uri.host());
        let port = uri
            .port()
            .map_or_else(String::new, |port| format!(":{port}"));
        let host = format!("{scheme}://{}{port}", host.unwrap_or_default());
        let answer = self.answer(request).await;
        self.failures.note(match &answer {
            Err(error) => Some(format!("cannot reach {host}: {}", causes(error))),
            Ok(answer) if answer.status().is_server_error() => {
                Some(format!("{host} answers {}", answer.status()))
            }
            Ok(_) => None,
        });
        answer
    }
}

/// What a request failed of, without what says no more than that it failed.
fn causes(error: &HttpError) -> String {
    let says_more = |text: &String| {
        !text.starts_with("error sending request") && !text.starts_with("client error (")
    };
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    let mut causes: Vec<String> = causes.map(ToString::to_string).filter(says_more).collect();
    causes.dedup();
    match causes.is_empty() {
        true => error.to_string(),
        false => causes.join(": "),
    }
}

/// A body that fails when nothing comes.
struct Watched {
    inner: HttpResponseBody,
    idle: Duration,
    /// Since the last piece was waited for. Time in which nobody waits is no silence.
    silence: Option<Pin<Box<Sleep>>>,
}

impl Body for Watched {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(context) {
            self.silence = None;
            return Poll::Ready(frame);
        }
        let idle = self.idle;
        let silence = self.silence.get_or_insert_with(|| Box::pin(sleep(idle)));
        match silence.as_mut().poll(context) {
            Poll::Ready(()) => {
                let stalled = HttpError::new(HttpErrorKind::Timeout, Stalled(self.idle));
                Poll::Ready(Some(Err(stalled)))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// The beginning of what a service says of a failure. That it breaks off changes nothing.
async fn read_refusal(body: HttpResponseBody) -> String {
    let mut read = BytesMut::new();
    let mut pieces = body.bytes_stream();
    while let Some(Ok(piece)) = pieces.next().await {
        let room = REFUSAL_BYTES_MAX - read.len();
        read.extend_from_slice(piece.get(..room.min(piece.len())).unwrap_or_default());
        if read.len() == REFUSAL_BYTES_MAX {
            break;
        }
    }
    String::from_utf8_lossy(&read).into_owned()
}

/// Code and message, of XML as storage services send it or of JSON as identity services do.
fn shorten(refusal: &str) -> String {
    let element = |name: &str| {
        let (_, rest) = refusal.split_once(&format!("<{name}>"))?;
        let (text, _) = rest.split_once(&format!("</{name}>"))?;
        Some(unescaped(text))
    };
    let member = |name: &str| {
        let (_, rest) = refusal.split_once(&format!("\"{name}\""))?;
        let rest = rest.trim_start().strip_prefix(':')?.trim_start();
        rest.strip_prefix('"')?.split('"').next().map(str::to_owned)
    };
    let code = element("Code")
        .or_else(|| member("error"))
        .or_else(|| member("code"));
    let message = element("Message")
        .or_else(|| member("error_description"))
        .or_else(|| member("message"));
    let said = code.into_iter().chain(message);
    let printable = |c: &char| !c.is_control();
    let first_line = |text: String| text.lines().next().unwrap_or_default().to_owned();
    let said: Vec<String> = said.map(first_line).collect();
    said.join(": ")
        .chars()
        .filter(printable)
        .take(MESSAGE_CHARS_MAX)
        .collect()
}

/// A text of XML without its entities, as far as services use them. The ampersand comes last: it may be part of
/// what was escaped.
fn unescaped(text: &str) -> String {
    let entities = [
        ("&#34;", "\""),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&apos;", "'"),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&#38;", "&"),
        ("&amp;", "&"),
    ];
    entities
        .into_iter()
        .fold(text.to_owned(), |text, (entity, of)| {
            text.replace(entity, of)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Layer(&'static str, #[source] Option<Box<Layer>>);

    #[tokio::test]
    async fn what_a_request_fails_of_is_noted_with_the_host() {
        super::super::choose_cryptography();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        drop(listener);
        let failures = LastFailure::default();
        let connector = Connector::new(Duration::from_secs(60), failures.clone());
        let client = connector.connect(&ClientOptions::new().with_allow_http(true));
        let mut request = HttpRequest::new(Bytes::new().into());
        let uri = format!("http://{address}/bucket?signature=SECRET").parse();
        *request.uri_mut() = uri.expect("a URI");
        let refused = client.expect("a client").execute(request).await;
        assert!(refused.is_err());
        let said = failures.last_or("no answer");
        let expected = format!("cannot reach http://{address}: ");
        assert!(
            said.starts_with(&expected) && said.contains("refused"),
            "{said}"
        );
        assert!(!said.contains("SECRET"), "{said}");
    }

    #[test]
    fn a_failure_is_told_by_its_causes() {
        let lookup = Layer("failed to lookup address information", None);
        let dns = Layer("dns error", Some(Box::new(lookup)));
        let connect = Layer("client error (Connect)", Some(Box::new(dns)));
        let request = Layer("error sending request", Some(Box::new(connect)));
        let error = HttpError::new(HttpErrorKind::Connect, request);
        assert_eq!(
            causes(&error),
            "dns error: failed to lookup address information"
        );
        let error = HttpError::new(HttpErrorKind::Timeout, NoAnswer(Duration::from_secs(20)));
        assert_eq!(
            causes(&error),
            "the service did not answer within 20 seconds"
        );
    }

    #[test]
    fn a_refusal_is_its_code_and_message() {
        let xml = "<?xml version=\"1.0\"?><Error><Code>InvalidToken</Code><Message>The token is \
                   malformed</Message><Token-0>SECRET</Token-0></Error>";
        assert_eq!(shorten(xml), "InvalidToken: The token is malformed");
        let json = "{\"error\": \"invalid_grant\", \"error_description\": \"too old\"}";
        assert_eq!(shorten(json), "invalid_grant: too old");
        assert_eq!(shorten("<html>SECRET</html>"), "");
        assert_eq!(shorten("<Code>a\nSECRET</Code>"), "a");
        let escaped = "<Message>the region &#39;a&#39; is wrong; &quot;b&#34; &amp;lt;</Message>";
        assert_eq!(shorten(escaped), "the region 'a' is wrong; \"b\" &lt;");
    }
}
