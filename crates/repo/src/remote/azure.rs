//! Azure Blob Storage.

use std::sync::Arc;

use object_store::ObjectStore;
use object_store::azure::{MicrosoftAzureBuilder, split_sas};

use super::http::Connector;
use super::{OpenError, client_options, endpoint_url, is_plain_http, retries};
use crate::store_settings::StoreSettings;

const KEYS: [&str; 2] = ["AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY"];
const SIGNATURES: [&str; 2] = ["AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY"];
const ACCOUNTS: [&str; 2] = ["AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT"];

/// Credentials are the account's key, a shared access signature, those of an application, or the
/// machine's.
pub(super) fn open(
    container: &str,
    settings: &StoreSettings,
    connector: Connector,
) -> Result<Arc<dyn ObjectStore>, OpenError> {
    let environment = &settings.environment;
    let account = settings.azure_account.as_deref();
    let Some(account) = account.or_else(|| environment.any(&ACCOUNTS)) else {
        return Err(OpenError::Settings(
            "no storage account is named: set repo-azure-account or AZURE_STORAGE_ACCOUNT_NAME"
                .to_owned(),
        ));
    };
    let mut options = client_options(settings)?;
    let mut builder = MicrosoftAzureBuilder::new()
        .with_account(account)
        .with_container_name(container)
        .with_retry(retries(settings))
        .with_http_connector(connector);
    let endpoint = settings.azure_endpoint.as_deref();
    if let Some(endpoint) = endpoint.or_else(|| environment.get("AZURE_STORAGE_ENDPOINT")) {
        let endpoint = endpoint_url(endpoint);
        options = options.with_allow_http(is_plain_http(&endpoint));
        builder = builder.with_endpoint(endpoint);
    }
    if let Some(key) = environment.any(&KEYS) {
        builder = builder.with_access_key(key);
    } else if let Some(signature) = environment.any(&SIGNATURES) {
        let malformed =
            |_| OpenError::Settings("the shared access signature cannot be read".to_owned());
        builder = builder.with_sas_authorization(split_sas(signature).map_err(malformed)?);
    } else if let Some(token) = environment.get("AZURE_STORAGE_TOKEN") {
        builder = builder.with_bearer_token_authorization(token);
    } else {
        builder = with_application(builder, settings);
    }
    Ok(Arc::new(builder.with_client_options(options).build()?))
}

/// What identifies an application, of which the machine's identity needs nothing.
fn with_application(
    mut builder: MicrosoftAzureBuilder,
    settings: &StoreSettings,
) -> MicrosoftAzureBuilder {
    let environment = &settings.environment;
    if let Some(id) = environment.get("AZURE_CLIENT_ID") {
        builder = builder.with_client_id(id);
    }
    if let Some(tenant) = environment.get("AZURE_TENANT_ID") {
        builder = builder.with_tenant_id(tenant);
    }
    if let Some(secret) = environment.get("AZURE_CLIENT_SECRET") {
        builder = builder.with_client_secret(secret);
    }
    if let Some(file) = environment.get("AZURE_FEDERATED_TOKEN_FILE") {
        builder = builder.with_federated_token_file(file);
    }
    builder
}
