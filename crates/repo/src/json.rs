//! The JSON objects of the repository.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::error::RepoError;
use crate::layout::FORMAT;

/// Reads the `format` alone, so that a newer repository is reported as newer whatever
/// else has changed in it.
pub(crate) fn check_format(key: &str, json: &[u8]) -> Result<(), RepoError> {
    #[derive(Deserialize)]
    struct Format {
        format: u64,
    }
    let found = match serde_json::from_slice::<Format>(json) {
        Ok(Format { format }) => format,
        Err(error) => {
            return Err(RepoError::Corrupt {
                key: key.to_owned(),
                detail: error.to_string(),
            });
        }
    };
    match found {
        FORMAT => Ok(()),
        0 => Err(RepoError::Corrupt {
            key: key.to_owned(),
            detail: "format 0 does not exist".to_owned(),
        }),
        _ => Err(RepoError::NewerFormat {
            found,
            supported: FORMAT,
        }),
    }
}

/// Writes a JSON object of ours, for people as well: indented, with a line end.
pub(crate) fn encode_json<T: Serialize>(value: &T) -> Result<Bytes, RepoError> {
    match serde_json::to_vec_pretty(value) {
        Ok(mut json) => {
            json.push(b'\n');
            Ok(json.into())
        }
        Err(error) => Err(RepoError::Corrupt {
            key: "a JSON object to be written".to_owned(),
            detail: error.to_string(),
        }),
    }
}
