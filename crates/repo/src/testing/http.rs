//! Messages of HTTP/1.1, as far as tests need them: whole, with a length.

use std::io;

use bytes::Bytes;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// The longest head that is read.
const HEAD_LINES_MAX: usize = 200;

/// A connection, from which messages are read.
pub(super) type Connection = BufReader<TcpStream>;

/// A request or an answer.
#[derive(Clone, Debug)]
pub(super) struct Message {
    /// The first line, without its end.
    pub(super) start: String,
    /// Names in lower case.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Bytes,
}

impl Message {
    pub(super) fn answer(status: &str, headers: &[(&str, String)], body: Bytes) -> Message {
        let mut headers: Vec<(String, String)> = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect();
        if !headers.iter().any(|(name, _)| name == "content-length") {
            headers.push(("content-length".to_owned(), body.len().to_string()));
        }
        Message {
            start: format!("HTTP/1.1 {status}"),
            headers,
            body,
        }
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(found, _)| found == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(super) fn method(&self) -> &str {
        self.start.split(' ').next().unwrap_or_default()
    }

    /// Path and query.
    pub(super) fn target(&self) -> &str {
        self.start.split(' ').nth(1).unwrap_or_default()
    }

    /// The status of an answer.
    pub(super) fn status(&self) -> u16 {
        let status = self.start.split(' ').nth(1);
        status.and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// Reads a request, or an answer to one; nothing at the end of the connection.
    pub(super) async fn read(
        connection: &mut Connection,
        answers_head: bool,
    ) -> io::Result<Option<Message>> {
        let Some(start) = line(connection).await? else {
            return Ok(None);
        };
        let mut headers = Vec::new();
        while let Some(text) = line(connection).await? {
            if text.is_empty() {
                break;
            }
            if headers.len() == HEAD_LINES_MAX {
                return Err(io::Error::other("a head without end"));
            }
            let (name, value) = text.split_once(':').unwrap_or((&text, ""));
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut message = Message {
            start,
            headers,
            body: Bytes::new(),
        };
        let is_answer = message.start.starts_with("HTTP/");
        let has_body = !(answers_head || is_answer && matches!(message.status(), 204 | 304));
        if message.header("expect").is_some() {
            connection
                .write_all(b"HTTP/1.1 100 Continue\r\n\r\n")
                .await?;
        }
        if has_body {
            message.body = message.read_body(connection).await?;
        }
        Ok(Some(message))
    }

    async fn read_body(&self, connection: &mut Connection) -> io::Result<Bytes> {
        let mut body = Vec::new();
        if self.header("transfer-encoding") == Some("chunked") {
            while let Some(size) = line(connection).await? {
                let size = size.split(';').next().unwrap_or_default();
                let size = u64::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
                connection.take(size).read_to_end(&mut body).await?;
                line(connection).await?;
                if size == 0 {
                    break;
                }
            }
        } else if let Some(length) = self.header("content-length") {
            let length = length.parse().map_err(io::Error::other)?;
            connection.take(length).read_to_end(&mut body).await?;
        } else if self.start.starts_with("HTTP/") {
            connection.read_to_end(&mut body).await?;
        }
        Ok(body.into())
    }

    /// Writes it with so many bytes of its body.
    pub(super) async fn write(
        &self,
        connection: &mut Connection,
        body_bytes: usize,
    ) -> io::Result<()> {
        let mut text = format!("{}\r\n", self.start);
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        let mut bytes = text.into_bytes();
        bytes.extend(self.body.iter().take(body_bytes));
        connection.write_all(&bytes).await?;
        connection.flush().await
    }
}

async fn line(connection: &mut Connection) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    if connection.read_until(b'\n', &mut bytes).await? == 0 {
        return Ok(None);
    }
    while matches!(bytes.last(), Some(b'\n' | b'\r')) {
        bytes.pop();
    }
    String::from_utf8(bytes).map(Some).map_err(io::Error::other)
}
