//! Google Cloud Storage.

use std::sync::Arc;

use object_store::ObjectStore;
use object_store::gcp::GoogleCloudStorageBuilder;

use super::http::Connector;
use super::{OpenError, client_options, endpoint_url, is_plain_http, retries};
use crate::store_settings::StoreSettings;

/// Credentials are those of a service account's key, of the application, or of the machine.
pub(super) fn open(
    bucket: &str,
    settings: &StoreSettings,
    connector: Connector,
) -> Result<Arc<dyn ObjectStore>, OpenError> {
    let environment = &settings.environment;
    let mut options = client_options(settings)?;
    let mut builder = GoogleCloudStorageBuilder::new()
        .with_bucket_name(bucket)
        .with_retry(retries(settings))
        .with_http_connector(connector);
    if let Some(endpoint) = &settings.gcs_endpoint {
        let endpoint = endpoint_url(endpoint);
        options = options.with_allow_http(is_plain_http(&endpoint));
        builder = builder.with_base_url(&endpoint);
    }
    let key_file = ["GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_PATH"];
    if let Some(token) = environment.get("GOOGLE_BEARER_TOKEN") {
        builder = builder.with_bearer_token(token);
    } else if let Some(key) = environment.get("GOOGLE_SERVICE_ACCOUNT_KEY") {
        builder = builder.with_service_account_key(key);
    } else if let Some(path) = environment.any(&key_file) {
        builder = builder.with_service_account_path(path);
    } else if let Some(path) = environment.get("GOOGLE_APPLICATION_CREDENTIALS") {
        builder = builder.with_application_credentials(path);
    }
    Ok(Arc::new(builder.with_client_options(options).build()?))
}
