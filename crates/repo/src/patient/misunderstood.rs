//! What stores answer that the clients take for something else.

use std::error::Error as StdError;

use object_store::Error;

use super::generic;
use crate::error::RepoError;

/// What S3, Azure and GCS say of a bucket or a container that is not there.
const NO_BUCKET: [&str; 3] = ["NoSuchBucket", "ContainerNotFound", "bucket does not exist"];
/// What versitygw says of an access key that nobody has.
const NO_USER: [&str; 1] = ["XAdminUserNotFound"];
/// What the clients say of an answer with a status that refuses a request, and of one that refuses its credentials.
const REFUSED: [&str; 1] = ["non-2xx status code: 403"];
const UNKNOWN: [&str; 1] = ["non-2xx status code: 401"];
/// Where machines of clouds tell their role's credentials.
const MACHINE_ROLE: &str = "//169.254.169.254/";

/// What S3 says of a request that is signed for another region than the bucket's, and of other signatures.
const MALFORMED: &str = "AuthorizationHeaderMalformed";

/// What the client says of the answer of another region that has the bucket.
const REDIRECTED: &str = "incorrectly configured region";

#[derive(Debug, thiserror::Error)]
#[error("the store has no bucket or container of this name, and walzip makes none")]
struct NoBucket;

#[derive(Debug, thiserror::Error)]
#[error("no credentials were given, and a role of this machine has none")]
struct NoCredentials {
    source: Box<dyn StdError + Send + Sync>,
}

/// What a store's answer means where the client takes it for something else: it reads no more than the
/// status of a request.
pub(super) fn misunderstood(error: Error, location: &str) -> Error {
    let said = std::iter::successors(Some(&error as &(dyn StdError + 'static)), |&error| {
        error.source()
    });
    let said: Vec<String> = said.map(ToString::to_string).collect();
    let says = |words: &[&str]| {
        words
            .iter()
            .any(|word| said.iter().any(|text| text.contains(word)))
    };
    if let (Error::Generic { .. }, Some(detail)) = (&error, wrong_region(&said)) {
        return generic(RepoError::WrongRegion {
            location: location.to_owned(),
            detail,
        });
    }
    match error {
        // Every 404 is an object that is not there.
        Error::NotFound { .. } if says(&NO_BUCKET) => generic(NoBucket),
        Error::NotFound { path, source } if says(&NO_USER) => {
            Error::PermissionDenied { path, source }
        }
        // Without credentials the client asks a cloud's machine for those of its role.
        Error::Generic { source, .. } if says(&[MACHINE_ROLE]) => Error::Unauthenticated {
            path: String::new(),
            source: Box::new(NoCredentials { source }),
        },
        // Of requests for lists the clients tell no refusals apart.
        Error::Generic { source, .. } if says(&REFUSED) => Error::PermissionDenied {
            path: String::new(),
            source,
        },
        Error::Generic { source, .. } if says(&UNKNOWN) => Error::Unauthenticated {
            path: String::new(),
            source,
        },
        error => error,
    }
}

/// What a store says of a wrong region. The innermost error says it without what is around it.
fn wrong_region(said: &[String]) -> Option<String> {
    let innermost = said.iter().rev();
    let says = |text: &&String| text.contains(REDIRECTED);
    if let Some(redirected) = innermost.clone().find(says) {
        return Some(redirected.clone());
    }
    let mut found = innermost.filter_map(|text| text.get(text.find(MALFORMED)?..));
    let is_of_region = |detail: &&str| detail.contains("region") && detail.contains("expecting");
    found.next().filter(is_of_region).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error(
        "400 Bad Request: AuthorizationHeaderMalformed: the region 'us-east-1' is wrong; expecting 'eu-central-1'"
    )]
    struct Refused;

    #[test]
    fn a_wrong_region_is_a_wrong_setting() {
        let error = misunderstood(generic(Refused), "s3://bucket");
        let error = RepoError::from_store("repository.json", error);
        assert!(matches!(error, RepoError::WrongRegion { .. }), "{error:?}");
        assert_eq!(
            error.to_string(),
            "s3://bucket cannot be reached: AuthorizationHeaderMalformed: the region 'us-east-1' is wrong; \
             expecting 'eu-central-1'"
        );
    }

    #[test]
    fn another_regions_redirection_is_told_and_other_signatures_are_not() {
        let said = |text: &str| wrong_region(&["outer".to_owned(), text.to_owned()]);
        let redirected = "Received redirect without LOCATION, this normally indicates an incorrectly configured region";
        assert_eq!(said(redirected).as_deref(), Some(redirected));
        let signature =
            "AuthorizationHeaderMalformed: a non-empty Access Key in the credential of the region";
        assert_eq!(said(signature), None);
    }

    #[derive(Debug, thiserror::Error)]
    #[error(
        "Error performing list request: Server returned non-2xx status code: {0}: AccessDenied"
    )]
    struct List(&'static str);

    #[test]
    fn a_list_that_is_refused_is_a_matter_of_rights() {
        let of = |status| {
            let error = misunderstood(generic(List(status)), "s3://bucket");
            RepoError::from_store("wal", error)
        };
        assert!(matches!(of("403 Forbidden"), RepoError::Permission { .. }));
        assert!(matches!(
            of("401 Unauthorized"),
            RepoError::Permission { .. }
        ));
        assert!(matches!(
            of("400 Bad Request"),
            RepoError::Unavailable { .. }
        ));
    }
}
