//! Credentials for S3 that are known, or that a program gives out.

use std::fmt;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::{Timestamp, ToSpan};
use object_store::CredentialProvider;
use object_store::aws::AwsCredential;
use serde::Deserialize;
use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// How long before their end credentials are asked for again.
const MARGIN_MINUTES: i64 = 5;
/// How long the program may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Credentials that do not change. They are not shown.
pub(super) struct Static(Arc<AwsCredential>);

impl Static {
    pub(super) fn provider(key: &str, secret: &str, token: Option<&str>) -> Arc<Self> {
        Arc::new(Self(Arc::new(AwsCredential {
            key_id: key.to_owned(),
            secret_key: secret.to_owned(),
            token: token.map(str::to_owned),
        })))
    }
}

impl fmt::Debug for Static {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Static")
    }
}

#[async_trait]
impl CredentialProvider for Static {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        Ok(Arc::clone(&self.0))
    }
}

/// Credentials that the program of a profile's `credential_process` prints.
pub(super) struct ProcessCredentials {
    command: Vec<String>,
    patience: Duration,
    last: Mutex<Option<(Arc<AwsCredential>, Option<Timestamp>)>>,
}

impl fmt::Debug for ProcessCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProcessCredentials")
    }
}

/// What the program prints.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Printed {
    version: u64,
    access_key_id: String,
    secret_access_key: String,
    session_token: Option<String>,
    expiration: Option<Timestamp>,
}

#[derive(Debug, thiserror::Error)]
enum ProcessError {
    #[error("cannot start {program}, the profile's credential_process")]
    Start {
        program: String,
        source: std::io::Error,
    },
    #[error("{program}, the profile's credential_process, did not end in time")]
    Time { program: String },
    #[error("{program}, the profile's credential_process, failed: {status}")]
    Failed {
        program: String,
        status: std::process::ExitStatus,
    },
    /// What it printed instead is not repeated: it may well be a secret.
    #[error("{program}, the profile's credential_process, did not print credentials")]
    Output { program: String },
}

impl From<ProcessError> for object_store::Error {
    fn from(error: ProcessError) -> Self {
        object_store::Error::Generic {
            store: "S3",
            source: Box::new(error),
        }
    }
}

impl ProcessCredentials {
    pub(super) fn new(command: Vec<String>, operation: Duration) -> Self {
        Self {
            command,
            patience: PATIENCE.min(operation),
            last: Mutex::new(None),
        }
    }

    async fn ask(&self) -> Result<Printed, ProcessError> {
        let (program, arguments) = self.command.split_first().map_or(("", &[][..]), |split| {
            let (program, arguments) = split;
            (program.as_str(), arguments)
        });
        let named = || program.to_owned();
        let mut command = Command::new(program);
        command.args(arguments).kill_on_drop(true);
        command.stdin(Stdio::null()).stderr(Stdio::null());
        let output = timeout(self.patience, command.output()).await;
        let output = output.map_err(|_| ProcessError::Time { program: named() })?;
        let output = output.map_err(|source| ProcessError::Start {
            program: named(),
            source,
        })?;
        if !output.status.success() {
            return Err(ProcessError::Failed {
                program: named(),
                status: output.status,
            });
        }
        match serde_json::from_slice::<Printed>(&output.stdout) {
            Ok(printed) if printed.version == 1 => Ok(printed),
            _ => Err(ProcessError::Output { program: named() }),
        }
    }
}

#[async_trait]
impl CredentialProvider for ProcessCredentials {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let mut last = self.last.lock().await;
        if let Some((credential, expiration)) = last.as_ref() {
            let soon = Timestamp::now().saturating_add(MARGIN_MINUTES.minutes());
            if expiration.is_none_or(|end| soon.is_ok_and(|soon| soon < end)) {
                return Ok(Arc::clone(credential));
            }
        }
        let printed = self.ask().await?;
        let credential = Arc::new(AwsCredential {
            key_id: printed.access_key_id,
            secret_key: printed.secret_access_key,
            token: printed.session_token,
        });
        *last = Some((Arc::clone(&credential), printed.expiration));
        Ok(credential)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> ProcessCredentials {
        let command = ["sh", "-c", script].map(str::to_owned).to_vec();
        ProcessCredentials::new(command, Duration::from_secs(20))
    }

    #[tokio::test]
    async fn a_program_is_asked_again_before_its_credentials_end() {
        let directory = tempfile::tempdir().unwrap();
        let calls = directory.path().join("calls");
        let script = |expiration: &str| {
            format!(
                "echo x >> {}; echo '{{\"Version\": 1, \"AccessKeyId\": \"K\", \
                 \"SecretAccessKey\": \"S\", \"Expiration\": \"{expiration}\"}}'",
                calls.display()
            )
        };
        let count = || std::fs::read_to_string(&calls).unwrap().lines().count();
        let lasting = shell(&script("2999-01-01T00:00:00Z"));
        for _ in 0..2 {
            let credential = lasting.get_credential().await.unwrap();
            assert_eq!(
                (credential.key_id.as_str(), &credential.token),
                ("K", &None)
            );
        }
        assert_eq!(count(), 1);
        let ended = shell(&script("2020-01-01T00:00:00Z"));
        for _ in 0..2 {
            ended.get_credential().await.unwrap();
        }
        assert_eq!(count(), 3);
    }

    #[tokio::test]
    async fn what_a_program_prints_instead_is_not_repeated() {
        for script in [
            "echo SECRET",
            "echo SECRET >&2; exit 1",
            "echo '{\"Version\": 2}'",
        ] {
            let error = shell(script).get_credential().await.unwrap_err();
            let text = format!("{error} {error:?}");
            assert!(!text.contains("SECRET") && text.contains("credential_process"));
        }
    }
}
