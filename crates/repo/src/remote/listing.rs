//! Whether an answer to a request for a list is one.
//!
//! The clients take every document of XML for a listing, and one without objects in it for an empty one. A page of
//! something between us and the store, which answers 200, would say that the archive has nothing.

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use object_store::client::{HttpError, HttpErrorKind, HttpRequest, HttpResponseBody};

/// No listing is longer: services give some thousand objects at a time.
const LISTING_BYTES_MAX: usize = 64 << 20;
/// The root elements of listings: of S3 and GCS, and of Azure.
const ROOTS: [&[u8]; 2] = [b"<ListBucketResult", b"<EnumerationResults"];

#[derive(Debug, thiserror::Error)]
#[error("the service answers a request for a list with something else")]
struct NoListing;

/// Whether a request asks S3, GCS or Azure for a list.
pub(super) fn is_asked_by(request: &HttpRequest) -> bool {
    let query = request.uri().query().unwrap_or_default();
    let mut pairs = query.split('&');
    request.method() == "GET" && pairs.any(|pair| pair == "list-type=2" || pair == "comp=list")
}

/// Reads a listing to its end. What is none fails as an answer does that did not come.
pub(super) async fn read(body: HttpResponseBody) -> Result<Bytes, HttpError> {
    let no_listing = || HttpError::new(HttpErrorKind::Request, NoListing);
    let mut read = BytesMut::new();
    let mut pieces = body.bytes_stream();
    while let Some(piece) = pieces.next().await {
        read.extend_from_slice(&piece?);
        if read.len() > LISTING_BYTES_MAX {
            return Err(no_listing());
        }
    }
    match is_listing(&read) {
        true => Ok(read.freeze()),
        false => Err(no_listing()),
    }
}

/// Whether the first element of a document is that of a listing. Before it, only a declaration and comments may stand.
fn is_listing(document: &[u8]) -> bool {
    let mut rest = document.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(document);
    loop {
        rest = rest.trim_ascii_start();
        let end: &[u8] = match rest {
            [b'<', b'?', ..] => b"?>",
            [b'<', b'!', b'-', b'-', ..] => b"-->",
            _ => break,
        };
        match rest.windows(end.len()).position(|bytes| bytes == end) {
            Some(at) => rest = rest.get(at + end.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    let after = ROOTS.iter().find_map(|root| rest.strip_prefix(*root));
    after.is_some_and(|after| {
        matches!(after, [b'>' | b'/', ..]) || after.trim_ascii_start() != after
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_no_listing() {
        for listing in [
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult xmlns=\"http://x/\"></ListBucketResult>",
            "\u{feff}<?xml version='1.0'?><EnumerationResults ServiceEndpoint=\"http://x\">",
            "<!-- by a gateway --> <ListBucketResult><Name>x</Name></ListBucketResult>",
            "<ListBucketResult/>",
        ] {
            assert!(is_listing(listing.as_bytes()), "{listing}");
        }
        for other in [
            "",
            "{}",
            "<!DOCTYPE html><html><body>Sign in</body></html>",
            "<html><!-- <ListBucketResult> --></html>",
            "<?xml version=\"1.0\"?><Error><Code>SlowDown</Code></Error>",
            "<?xml version=\"1.0\"",
            "<ListBucketResults>",
        ] {
            assert!(!is_listing(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn requests_for_lists_are_known() {
        let is_asked = |method: &str, uri: &str| {
            let mut request = HttpRequest::new(Bytes::new().into());
            *request.method_mut() = method.parse().expect("a method");
            *request.uri_mut() = uri.parse().expect("a URI");
            is_asked_by(&request)
        };
        assert!(is_asked("GET", "http://x/bucket?list-type=2&prefix=wal%2F"));
        assert!(is_asked("GET", "http://x/c?restype=container&comp=list"));
        assert!(!is_asked("GET", "http://x/bucket/list-type=2"));
        assert!(!is_asked("PUT", "http://x/c/blob?comp=blocklist"));
        assert!(!is_asked("POST", "http://x/bucket?delete"));
    }
}
