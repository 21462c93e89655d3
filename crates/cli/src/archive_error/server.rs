//! What PostgreSQL answers, or whoever is in its place.

use walzip_archive::replication::{ServerError, TlsFault};

use super::{KindAndHint, NEEDED_LINK, WRONG_PAGES};
use crate::exit_code::Kind;

/// A role may not do what it was asked to (utils/errcodes.txt).
const INSUFFICIENT_PRIVILEGE: &str = "42501";
/// So its message begins where the system has not let it do something.
const NO_ACCESS: &str = "could not ";
/// What it reads is damaged.
const DATA_CORRUPTED: &str = "XX001";

pub(super) fn kind_and_hint(error: &ServerError) -> KindAndHint {
    match error {
        ServerError::Settings(_) => (Kind::OptionInvalid, None),
        ServerError::TlsNotOffered { .. } => (
            Kind::DbConnect,
            Some(
                "On the server, set ssl = on with a certificate. Or let sslmode=prefer take a \
                 connection without encryption.",
            ),
        ),
        ServerError::Tls { fault, .. } => (Kind::DbConnect, tls(fault)),
        // The reason says what to do.
        ServerError::TlsFile { .. } => (Kind::OptionInvalid, None),
        ServerError::NeitherWay { tls, .. } => kind_and_hint(tls),
        ServerError::Connect { .. } => (
            Kind::DbConnect,
            Some("Is the server running, and do --host and --port (or PGHOST, PGPORT) name it?"),
        ),
        ServerError::Lost { .. } => (
            Kind::DbConnect,
            Some(
                "The server's log says whether it was stopped, or has crashed. When it runs again, repeat the command.",
            ),
        ),
        ServerError::Silent(_) => (Kind::DbConnect, None),
        ServerError::Behind(_) => (
            Kind::DbQuery,
            Some("Without --no-loop it is tried again until it can."),
        ),
        ServerError::Authentication { .. } => (
            Kind::Access,
            Some("A password is taken from the connection string, PGPASSWORD or ~/.pgpass."),
        ),
        ServerError::Unbound { .. } => (
            Kind::Access,
            Some(
                "It needs TLS, and a line hostssl ... scram-sha-256 in pg_hba.conf. Without it, \
                 sslmode=verify-full tells who the server is.",
            ),
        ),
        ServerError::Protocol(_) => (Kind::Protocol, None),
        ServerError::NeededLink(_) => (Kind::FileInvalid, Some(NEEDED_LINK)),
        // Class 28: invalid authorization.
        ServerError::Sql(error) if error.sqlstate.starts_with("28") => (
            Kind::Access,
            Some("Check the user and the password, and pg_hba.conf."),
        ),
        // The server has it for files as well.
        ServerError::Sql(error)
            if error.sqlstate == INSUFFICIENT_PRIVILEGE && error.message.starts_with(NO_ACCESS) =>
        {
            (
                Kind::DbQuery,
                Some(
                    "The server itself may not read the file: give it to the account that the server runs as (chown, chmod).",
                ),
            )
        }
        ServerError::Sql(error) if error.sqlstate == INSUFFICIENT_PRIVILEGE => (
            Kind::DbQuery,
            Some(
                "backup, check and receive need a role with the REPLICATION attribute; docs/errors.md \
                 says under 57 what else.",
            ),
        ),
        ServerError::Sql(error) if error.sqlstate == DATA_CORRUPTED => {
            (Kind::FileInvalid, Some(WRONG_PAGES))
        }
        ServerError::Sql(_) => (Kind::DbQuery, None),
    }
}

fn tls(fault: &TlsFault) -> Option<&'static str> {
    match fault {
        TlsFault::Certificate(_) => Some(
            "sslrootcert (PGSSLROOTCERT, by default ~/.postgresql/root.crt) names the file with the \
             certificate of the server's authority. Is the right server at this address?",
        ),
        TlsFault::Name(_) => Some(
            "Connect by a name that the certificate has, or give the server a certificate for this \
             one. sslmode=verify-ca does not look at the name.",
        ),
        TlsFault::Refused(_) => Some(
            "The server's log says why. It may not trust the certificate that sslcert (PGSSLCERT, \
             by default ~/.postgresql/postgresql.crt) names.",
        ),
        TlsFault::Incompatible(_) => {
            Some("TLS 1.2 or 1.3 is needed. Is PostgreSQL at this address?")
        }
        TlsFault::Broken(_) => Some("The server's log may say why."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use walzip_archive::replication::SqlError;

    #[test]
    fn a_file_that_the_server_may_not_read_is_no_missing_attribute() {
        let hint = |message: &str| {
            let error = ServerError::Sql(SqlError {
                severity: "ERROR".to_owned(),
                sqlstate: INSUFFICIENT_PRIVILEGE.to_owned(),
                message: message.to_owned(),
                detail: None,
                hint: None,
                routine: None,
            });
            kind_and_hint(&error).1.unwrap_or_default()
        };
        let file = hint("could not open file \"./base/5/1259\": Permission denied");
        assert!(file.contains("chown"), "{file}");
        let role = hint("permission denied to start a backup");
        assert!(role.contains("REPLICATION"), "{role}");
    }
}
