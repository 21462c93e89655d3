//! Whose WAL a server writes.

use tracing::warn;
use walzip_archive::replication::{Connection, ServerError};
use walzip_pgformat::SystemId;

/// Everybody may execute it, unless that was revoked.
const QUERY: &str = "SELECT system_identifier FROM pg_control_system()";
/// `insufficient_privilege`.
pub const NO_PRIVILEGE: &str = "42501";

/// The cluster's own number, which its segments have too. Where the role may not ask for it,
/// that is said.
pub async fn system_identifier(sql: &mut Connection) -> Result<Option<SystemId>, ServerError> {
    let value = match sql.query_value(QUERY).await {
        Ok(value) => value,
        Err(error) if error.sqlstate() == Some(NO_PRIVILEGE) => {
            warn!(
                "whether the segments are of this server is not known: the role may not execute \
                 pg_control_system()"
            );
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    match value.parse::<i64>() {
        Ok(number) => Ok(Some(SystemId(number.cast_unsigned()))),
        Err(_) => {
            let message = format!("the system identifier is \"{value}\"");
            Err(ServerError::Protocol(message))
        }
    }
}
