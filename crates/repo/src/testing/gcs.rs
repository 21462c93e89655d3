//! Google Cloud Storage's XML interface, as far as a repository needs it, in memory.
//!
//! No program does what the service does: those that there are let two creates of one name both
//! succeed, or speak another interface. What this one answers is what the service's manual says.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use percent_encoding::{percent_decode_str, utf8_percent_encode};
use tokio::io::BufReader;
use tokio::net::TcpListener;

use super::http::{Connection, Message};
use super::servers::variables;
use crate::store_settings::StoreSettings;

/// How many keys one answer lists. The service lists 1000; fewer show more.
const KEYS_MAX: usize = 100;

type Query = BTreeMap<String, String>;

#[derive(Default)]
struct Bucket {
    /// Each object with its generation.
    objects: BTreeMap<String, (u64, Bytes)>,
    uploads: BTreeMap<String, BTreeMap<u32, Bytes>>,
    next: u64,
}

/// Starts a service with one bucket, in this runtime, and says how it is reached.
pub fn start() -> StoreSettings {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.set_nonblocking(true).expect("a listener");
    let port = listener.local_addr().expect("an address").port();
    let bucket: Arc<Mutex<Bucket>> = Arc::default();
    tokio::spawn(async move {
        let listener = TcpListener::from_std(listener).expect("a listener");
        while let Ok((stream, _)) = listener.accept().await {
            let bucket = Arc::clone(&bucket);
            tokio::spawn(serve(BufReader::new(stream), bucket));
        }
    });
    StoreSettings {
        gcs_endpoint: Some(format!("http://127.0.0.1:{port}")),
        environment: variables(&[("GOOGLE_BEARER_TOKEN", "token")]),
        ..StoreSettings::default()
    }
}

async fn serve(mut connection: Connection, bucket: Arc<Mutex<Bucket>>) {
    while let Ok(Some(request)) = Message::read(&mut connection, false).await {
        let answer = {
            let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
            bucket.answer(&request)
        };
        let body_bytes = match request.method() {
            "HEAD" => 0,
            _ => answer.body.len(),
        };
        if answer.write(&mut connection, body_bytes).await.is_err() {
            return;
        }
    }
}

fn decoded(text: &str) -> String {
    let text = text.replace('+', " ");
    percent_decode_str(&text).decode_utf8_lossy().into_owned()
}

fn refusal(status: &str, code: &str) -> Message {
    let body = format!("<Error><Code>{code}</Code><Message>{status}</Message></Error>");
    Message::answer(status, &[], body.into())
}

fn xml(body: String) -> Message {
    let kind = [("content-type", "application/xml".to_owned())];
    Message::answer("200 OK", &kind, body.into())
}

impl Bucket {
    fn answer(&mut self, request: &Message) -> Message {
        if request.header("authorization") != Some("Bearer token") {
            return refusal("401 Unauthorized", "AuthenticationRequired");
        }
        let (path, query) = request
            .target()
            .split_once('?')
            .unwrap_or((request.target(), ""));
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let query: Query = pairs
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .map(|(name, value)| (decoded(name), decoded(value)))
            .collect();
        let key = path
            .trim_start_matches('/')
            .split_once('/')
            .map(|(_, key)| decoded(key));
        match (request.method(), key.filter(|key| !key.is_empty())) {
            ("GET", None) => self.list(&query),
            ("PUT", Some(key)) => self.put(&key, &query, request),
            ("POST", Some(key)) => self.post(key, &query, request),
            ("GET" | "HEAD", Some(key)) => self.get(&key, request),
            ("DELETE", Some(key)) => self.delete(&key, &query),
            _ => refusal("400 Bad Request", "InvalidArgument"),
        }
    }

    fn generation(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn put(&mut self, key: &str, query: &Query, request: &Message) -> Message {
        if let (Some(upload), Some(number)) = (query.get("uploadId"), query.get("partNumber")) {
            let number = number.parse().unwrap_or_default();
            let Some(parts) = self.uploads.get_mut(upload) else {
                return refusal("404 Not Found", "NoSuchUpload");
            };
            parts.insert(number, request.body.clone());
            return Message::answer(
                "200 OK",
                &[("etag", format!("\"p{number}\""))],
                Bytes::new(),
            );
        }
        let expected = request.header("x-goog-if-generation-match");
        let found = self
            .objects
            .get(key)
            .map_or(0, |(generation, _)| *generation);
        if expected.is_some_and(|expected| expected != found.to_string()) {
            return refusal("412 Precondition Failed", "PreconditionFailed");
        }
        let generation = self.generation();
        self.objects
            .insert(key.to_owned(), (generation, request.body.clone()));
        let headers = [
            ("etag", format!("\"{generation}\"")),
            ("x-goog-generation", generation.to_string()),
        ];
        Message::answer("200 OK", &headers, Bytes::new())
    }

    fn post(&mut self, key: String, query: &Query, request: &Message) -> Message {
        if query.contains_key("uploads") {
            let upload = format!("upload-{}", self.generation());
            self.uploads.insert(upload.clone(), BTreeMap::new());
            return xml(format!(
                "<InitiateMultipartUploadResult><Bucket>bucket</Bucket><Key>key</Key>\
                 <UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
            ));
        }
        let upload = query
            .get("uploadId")
            .and_then(|upload| self.uploads.remove(upload));
        let Some(parts) = upload else {
            return refusal("404 Not Found", "NoSuchUpload");
        };
        let named = String::from_utf8_lossy(&request.body);
        if named.matches("<PartNumber>").count() != parts.len() || parts.is_empty() {
            return refusal("400 Bad Request", "InvalidPart");
        }
        let content: Vec<u8> = parts.into_values().flatten().collect();
        let generation = self.generation();
        self.objects.insert(key, (generation, content.into()));
        xml(format!(
            "<CompleteMultipartUploadResult><ETag>\"{generation}\"</ETag>\
             </CompleteMultipartUploadResult>"
        ))
    }

    fn get(&self, key: &str, request: &Message) -> Message {
        let Some((generation, content)) = self.objects.get(key) else {
            return refusal("404 Not Found", "NoSuchKey");
        };
        let len = content.len();
        let mut headers = vec![
            ("etag", format!("\"{generation}\"")),
            ("x-goog-generation", generation.to_string()),
            ("last-modified", now("%a, %d %b %Y %H:%M:%S GMT")),
        ];
        let range = request
            .header("range")
            .and_then(|range| range.strip_prefix("bytes="));
        let Some(range) = range else {
            headers.push(("content-length", len.to_string()));
            return Message::answer("200 OK", &headers, content.clone());
        };
        let (start, end) = range.split_once('-').unwrap_or((range, ""));
        let start: usize = start.parse().unwrap_or(0);
        let end = end.parse::<usize>().map_or(len, |end| len.min(end + 1));
        if start >= end {
            return refusal("416 Requested Range Not Satisfiable", "InvalidRange");
        }
        headers.push(("content-range", format!("bytes {start}-{}/{len}", end - 1)));
        headers.push(("content-length", (end - start).to_string()));
        Message::answer("206 Partial Content", &headers, content.slice(start..end))
    }

    fn delete(&mut self, key: &str, query: &Query) -> Message {
        if let Some(upload) = query.get("uploadId") {
            self.uploads.remove(upload);
            return Message::answer("204 No Content", &[], Bytes::new());
        }
        match self.objects.remove(key) {
            Some(_) => Message::answer("204 No Content", &[], Bytes::new()),
            None => refusal("404 Not Found", "NoSuchKey"),
        }
    }

    fn list(&self, query: &Query) -> Message {
        let text = |name: &str| query.get(name).map_or("", String::as_str);
        let (prefix, delimiter) = (text("prefix"), text("delimiter"));
        let after = [
            text("continuation-token"),
            text("start-after"),
            text("start-offset"),
        ];
        let after = after
            .into_iter()
            .find(|after| !after.is_empty())
            .unwrap_or("");
        let mut entries = String::new();
        let mut prefixes = BTreeSet::new();
        let mut listed = 0;
        let mut next = None;
        for (key, (generation, content)) in &self.objects {
            let Some(rest) = key.strip_prefix(prefix) else {
                continue;
            };
            if key.as_str() <= after {
                continue;
            }
            if listed == KEYS_MAX {
                break;
            }
            listed += 1;
            next = Some(key.clone());
            let level = match delimiter {
                "" => None,
                delimiter => rest.split_once(delimiter),
            };
            match level {
                Some((level, _)) => {
                    prefixes.insert(format!("{prefix}{level}{delimiter}"));
                }
                None => entries.push_str(&format!(
                    "<Contents><Key>{}</Key><Size>{}</Size><ETag>\"{generation}\"</ETag>\
                     <LastModified>{}</LastModified></Contents>",
                    encoded(key),
                    content.len(),
                    now("%Y-%m-%dT%H:%M:%S.000Z")
                )),
            }
        }
        for prefix in prefixes {
            let prefix = encoded(&prefix);
            entries.push_str(&format!(
                "<CommonPrefixes><Prefix>{prefix}</Prefix></CommonPrefixes>"
            ));
        }
        let token = match next.filter(|_| listed == KEYS_MAX) {
            Some(key) => format!("<NextContinuationToken>{key}</NextContinuationToken>"),
            None => String::new(),
        };
        xml(format!(
            "<ListBucketResult>{token}{entries}</ListBucketResult>"
        ))
    }
}

/// Keys have no other characters that XML minds.
fn encoded(key: &str) -> String {
    const MINDED: &percent_encoding::AsciiSet =
        &percent_encoding::CONTROLS.add(b'<').add(b'>').add(b'&');
    utf8_percent_encode(key, MINDED).to_string()
}

fn now(format: &str) -> String {
    jiff::Timestamp::now().strftime(format).to_string()
}
