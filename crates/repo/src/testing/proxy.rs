//! A service's answers, counted and spoilt on their way.
//!
//! Requests go through here to a real server. Which of them fail, and how, is a function of the
//! request's number, so that a failure repeats itself.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::BufReader;
use tokio::net::{TcpListener, TcpStream};

use super::http::{Connection, Message};

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoilt {
    /// Nothing: it is passed on, and so is its answer.
    Not,
    /// It is not passed on; the answer has this status.
    Refused(u16),
    /// It is not passed on; the answer is a page of something else, and says that all is well.
    Page,
    /// It is not passed on, and the connection ends.
    Reset,
    /// It is passed on, and the connection ends without an answer.
    AnswerLost,
    /// The connection ends after half of the answer's body.
    Truncated,
    /// Half of the answer's body, and then nothing for ever.
    Stalled,
    /// Nothing at all for ever.
    Silent,
    /// It is passed on without its `If-None-Match`.
    Unconditional,
    /// The answer is late.
    Late(Duration),
}

/// Decides what happens to a request, by its number from 0 on, its method and its target.
pub type Plan = dyn Fn(u64, &str, &str) -> Spoilt + Send + Sync;

/// A proxy in this runtime.
#[derive(Clone)]
pub struct Proxy {
    port: u16,
    seen: Arc<Mutex<Vec<String>>>,
    numbers: Arc<AtomicU64>,
}

impl Proxy {
    /// Starts one before the server on this port.
    pub fn start(
        server: u16,
        plan: impl Fn(u64, &str, &str) -> Spoilt + Send + Sync + 'static,
    ) -> Proxy {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        listener.set_nonblocking(true).expect("a listener");
        let proxy = Proxy {
            port: listener.local_addr().expect("an address").port(),
            seen: Arc::default(),
            numbers: Arc::default(),
        };
        let plan: Arc<Plan> = Arc::new(plan);
        let own = proxy.clone();
        tokio::spawn(async move {
            let listener = TcpListener::from_std(listener).expect("a listener");
            while let Ok((stream, _)) = listener.accept().await {
                let (own, plan) = (own.clone(), Arc::clone(&plan));
                tokio::spawn(async move {
                    // A connection that ends is what is tested.
                    let _ = own.serve(BufReader::new(stream), server, plan).await;
                });
            }
        });
        proxy
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The requests since this was last asked: method and target.
    pub fn take_seen(&self) -> Vec<String> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut seen)
    }

    /// Counts a request; returns its number.
    fn note(&self, request: &Message) -> u64 {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.push(format!("{} {}", request.method(), request.target()));
        self.numbers.fetch_add(1, Ordering::SeqCst)
    }

    async fn serve(
        &self,
        mut client: Connection,
        server: u16,
        plan: Arc<Plan>,
    ) -> std::io::Result<()> {
        while let Some(mut request) = Message::read(&mut client, false).await? {
            let number = self.note(&request);
            let spoilt = plan(number, request.method(), request.target());
            match spoilt {
                Spoilt::Refused(status) => {
                    refusal(status).write(&mut client, usize::MAX).await?;
                    continue;
                }
                Spoilt::Page => {
                    page().write(&mut client, usize::MAX).await?;
                    continue;
                }
                Spoilt::Reset => return Ok(()),
                Spoilt::Silent => std::future::pending().await,
                Spoilt::Unconditional => {
                    request.headers.retain(|(name, _)| name != "if-none-match")
                }
                Spoilt::Late(pause) => tokio::time::sleep(pause).await,
                _ => {}
            }
            let answer = pass_on(&request, server).await?;
            let half = answer.body.len() / 2;
            match spoilt {
                Spoilt::AnswerLost => return Ok(()),
                Spoilt::Truncated => return answer.write(&mut client, half).await,
                Spoilt::Stalled => {
                    answer.write(&mut client, half).await?;
                    std::future::pending::<()>().await;
                }
                _ => answer.write(&mut client, usize::MAX).await?,
            }
        }
        Ok(())
    }
}

fn page() -> Message {
    let body = "<!DOCTYPE html><html><body>Please sign in</body></html>";
    let headers = [("content-type", "text/html".to_owned())];
    Message::answer("200 OK", &headers, Bytes::from_static(body.as_bytes()))
}

fn refusal(status: u16) -> Message {
    let body = "<Error><Code>Injected</Code><Message>an injected fault</Message>\
                <Token-0>SECRET</Token-0></Error>";
    let status = match status {
        403 => "403 Forbidden",
        409 => "409 Conflict",
        412 => "412 Precondition Failed",
        429 => "429 Too Many Requests",
        500 => "500 Internal Server Error",
        _ => "503 Service Unavailable",
    };
    Message::answer(status, &[], Bytes::from_static(body.as_bytes()))
}

/// The server's own answer, over a connection of its own.
async fn pass_on(request: &Message, server: u16) -> std::io::Result<Message> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).await?;
    let mut connection = BufReader::new(stream);
    let mut request = request.clone();
    let is_kept = |name: &str| {
        !matches!(
            name,
            "connection" | "transfer-encoding" | "content-length" | "expect"
        )
    };
    request.headers.retain(|(name, _)| is_kept(name));
    request
        .headers
        .push(("connection".to_owned(), "close".to_owned()));
    request
        .headers
        .push(("content-length".to_owned(), request.body.len().to_string()));
    request.write(&mut connection, usize::MAX).await?;
    let is_head = request.method() == "HEAD";
    let answer = Message::read(&mut connection, is_head).await?;
    let mut answer = answer.ok_or_else(|| std::io::Error::other("no answer"))?;
    let length = answer.header("content-length").map(str::to_owned);
    answer.headers.retain(|(name, _)| is_kept(name));
    // An answer to HEAD has a length and no body.
    let length = match is_head {
        true => length.unwrap_or_else(|| "0".to_owned()),
        false => answer.body.len().to_string(),
    };
    answer.headers.push(("content-length".to_owned(), length));
    Ok(answer)
}
