//! Requests with an end.
//!
//! A service that takes a connection and then says nothing would otherwise be waited for without
//! end. What a request may take grows with what it sends; an answer may take as long as it likes
//! as long as it goes on. What a service says of a failure is shortened to its code and message:
//! some repeat the credentials that they refuse.

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
}

impl Connector {
    /// Requests end within the time of the whole operation, or sooner.
    pub(crate) fn new(operation: Duration) -> Self {
        Self {
            // There has to be time for another attempt.
            idle: IDLE.min(operation / 3),
        }
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let inner = ReqwestConnector::default().connect(options)?;
        let idle = self.idle;
        Ok(HttpClient::new(Limited { inner, idle }))
    }
}

#[derive(Debug)]
struct Limited {
    inner: HttpClient,
    idle: Duration,
}

#[async_trait]
impl HttpService for Limited {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
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
        Ok(HttpResponse::from_parts(parts, body))
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
        rest.split_once(&format!("</{name}>")).map(|(text, _)| text)
    };
    let member = |name: &str| {
        let (_, rest) = refusal.split_once(&format!("\"{name}\""))?;
        let rest = rest.trim_start().strip_prefix(':')?.trim_start();
        rest.strip_prefix('"')?.split('"').next()
    };
    let code = element("Code")
        .or_else(|| member("error"))
        .or_else(|| member("code"));
    let message = element("Message")
        .or_else(|| member("error_description"))
        .or_else(|| member("message"));
    let said: Vec<&str> = code.into_iter().chain(message).collect();
    let printable = |c: &char| !c.is_control();
    let first_line = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    let said: Vec<String> = said.into_iter().map(first_line).collect();
    said.join(": ")
        .chars()
        .filter(printable)
        .take(MESSAGE_CHARS_MAX)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_its_code_and_message() {
        let xml = "<?xml version=\"1.0\"?><Error><Code>InvalidToken</Code><Message>The token is \
                   malformed</Message><Token-0>SECRET</Token-0></Error>";
        assert_eq!(shorten(xml), "InvalidToken: The token is malformed");
        let json = "{\"error\": \"invalid_grant\", \"error_description\": \"too old\"}";
        assert_eq!(shorten(json), "invalid_grant: too old");
        assert_eq!(shorten("<html>SECRET</html>"), "");
        assert_eq!(shorten("<Code>a\nSECRET</Code>"), "a");
    }
}
