//! Amazon S3, and what speaks its protocol.

use std::net::IpAddr;
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};

use super::aws_credentials::{ProcessCredentials, Static};
use super::aws_profile::{Credentials, Profile};
use super::http::Connector;
use super::{OpenError, client_options, endpoint_url, is_plain_http, retries};
use crate::store_settings::{StoreSettings, UriStyle};

const ENDPOINTS: [&str; 2] = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"];
const REGIONS: [&str; 2] = ["AWS_REGION", "AWS_DEFAULT_REGION"];

/// Variables that lead to credentials of the machine, the container or the pod.
const OF_THE_MACHINE: [(&str, AmazonS3ConfigKey); 4] = [
    (
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        AmazonS3ConfigKey::ContainerCredentialsRelativeUri,
    ),
    (
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        AmazonS3ConfigKey::ContainerCredentialsFullUri,
    ),
    (
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
        AmazonS3ConfigKey::ContainerAuthorizationTokenFile,
    ),
    (
        "AWS_EC2_METADATA_SERVICE_ENDPOINT",
        AmazonS3ConfigKey::MetadataEndpoint,
    ),
];

/// Variables of a web identity, which a role is assumed with.
const OF_WEB_IDENTITY: [(&str, AmazonS3ConfigKey); 4] = [
    (
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        AmazonS3ConfigKey::WebIdentityTokenFile,
    ),
    ("AWS_ROLE_ARN", AmazonS3ConfigKey::RoleArn),
    ("AWS_ROLE_SESSION_NAME", AmazonS3ConfigKey::RoleSessionName),
    ("AWS_ENDPOINT_URL_STS", AmazonS3ConfigKey::StsEndpoint),
];

pub(super) fn open(
    bucket: &str,
    settings: &StoreSettings,
    connector: Connector,
) -> Result<Arc<dyn ObjectStore>, OpenError> {
    let environment = &settings.environment;
    let profile = Profile::read(settings)?;
    let mut options = client_options(settings)?;
    let region = settings.s3_region.as_deref();
    let region = region
        .or_else(|| environment.any(&REGIONS))
        .or(profile.region.as_deref());
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(bucket)
        .with_region(region.unwrap_or("us-east-1"))
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .with_retry(retries(settings))
        .with_http_connector(connector);
    let endpoint = settings.s3_endpoint.as_deref();
    let endpoint = endpoint
        .or_else(|| environment.any(&ENDPOINTS))
        .or(profile.endpoint_url.as_deref())
        .map(endpoint_url);
    let style = settings.s3_uri_style;
    let style = style.unwrap_or_else(|| usual_style(bucket, endpoint.as_deref()));
    if let Some(endpoint) = endpoint {
        options = options.with_allow_http(is_plain_http(&endpoint));
        builder = builder.with_endpoint(match style {
            UriStyle::Host => host_endpoint(&endpoint, bucket)?,
            UriStyle::Path => endpoint,
        });
    }
    builder = builder
        .with_virtual_hosted_style_request(style == UriStyle::Host)
        .with_client_options(options);
    builder = with_credentials(builder, profile, settings)?;
    Ok(Arc::new(builder.build()?))
}

/// Amazon wants the bucket in the host's name, which does not work with a dot in it; servers of
/// one's own seldom have names for their buckets.
fn usual_style(bucket: &str, endpoint: Option<&str>) -> UriStyle {
    match endpoint {
        None if !bucket.contains('.') => UriStyle::Host,
        _ => UriStyle::Path,
    }
}

fn host_endpoint(endpoint: &str, bucket: &str) -> Result<String, OpenError> {
    let (scheme, host) = endpoint.split_once("://").unwrap_or(("https", endpoint));
    let name = host.split(['/', ':']).next().unwrap_or_default();
    if host.starts_with('[') || name.parse::<IpAddr>().is_ok() {
        let message = "the endpoint is an address, which needs repo-s3-uri-style = \"path\"";
        return Err(OpenError::Settings(message.to_owned()));
    }
    Ok(format!("{scheme}://{bucket}.{host}"))
}

/// The order is that of Amazon's own programs: keys in variables, a web identity, the profile,
/// the container, the machine.
fn with_credentials(
    mut builder: AmazonS3Builder,
    profile: Profile,
    settings: &StoreSettings,
) -> Result<AmazonS3Builder, OpenError> {
    let environment = &settings.environment;
    let key = environment.get("AWS_ACCESS_KEY_ID");
    let secret = environment.get("AWS_SECRET_ACCESS_KEY");
    match (key, secret) {
        (Some(key), Some(secret)) => {
            let token = environment.get("AWS_SESSION_TOKEN");
            return Ok(builder.with_credentials(Static::provider(key, secret, token)));
        }
        (None, None) => {}
        _ => {
            return Err(OpenError::Settings(
                "only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is set".to_owned(),
            ));
        }
    }
    if environment.get("AWS_WEB_IDENTITY_TOKEN_FILE").is_none() {
        match profile.credentials {
            Some(Credentials::Keys { key, secret, token }) => {
                let provider = Static::provider(&key, &secret, token.as_deref());
                return Ok(builder.with_credentials(provider));
            }
            Some(Credentials::Process(command)) => {
                let provider = ProcessCredentials::new(command, settings.timeout());
                return Ok(builder.with_credentials(Arc::new(provider)));
            }
            None => {}
        }
    }
    for (name, key) in OF_WEB_IDENTITY.into_iter().chain(OF_THE_MACHINE) {
        if let Some(value) = environment.get(name) {
            builder = builder.with_config(key, value);
        }
    }
    Ok(builder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_in_the_hosts_name_where_it_can_be() {
        assert_eq!(usual_style("bucket", None), UriStyle::Host);
        assert_eq!(usual_style("a.bucket", None), UriStyle::Path);
        assert_eq!(usual_style("bucket", Some("https://minio")), UriStyle::Path);
        let at = host_endpoint("https://s3.example.com:9000", "b").unwrap();
        assert_eq!(at, "https://b.s3.example.com:9000");
        assert!(host_endpoint("http://127.0.0.1:5000", "b").is_err());
        assert!(host_endpoint("http://[::1]:5000", "b").is_err());
    }
}
