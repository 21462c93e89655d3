//! The text of `backup.json`, and the hash with which it ends: what it says decides which database is which, and how
//! far a backup reaches, and nothing else would show that a bit of it is another one.

use serde::Serialize;

use crate::error::ArchiveError;

/// What stands before the hash, which is the last field.
const BEFORE_HASH: &[u8] = b",\n  \"blake3\": \"";
/// BLAKE3 in hexadecimal.
const HASH_LEN: usize = 64;
const AFTER_HASH: &[u8] = b"\"\n}\n";

/// The text of a description.
pub(crate) fn write(description: &impl Serialize) -> Result<Vec<u8>, ArchiveError> {
    let internal = |what: String| ArchiveError::Internal(what);
    let mut json =
        serde_json::to_vec_pretty(description).map_err(|error| internal(error.to_string()))?;
    if !json.ends_with(b"\n}") {
        return Err(internal("the description has no fields".to_owned()));
    }
    json.truncate(json.len() - b"\n}".len());
    let hash = blake3::hash(&json);
    json.extend_from_slice(BEFORE_HASH);
    json.extend_from_slice(hash.to_hex().as_bytes());
    json.extend_from_slice(AFTER_HASH);
    Ok(json)
}

/// Whether a text is the one that was written, as far as it ends with a hash: older versions wrote none.
pub(crate) fn is_as_written(json: &[u8]) -> bool {
    let Some(at) = json
        .windows(BEFORE_HASH.len())
        .rposition(|of| of == BEFORE_HASH)
    else {
        return true;
    };
    let (hashed, end) = json.split_at(at);
    let hash = blake3::hash(hashed).to_hex();
    let parts = [BEFORE_HASH, hash.as_bytes(), AFTER_HASH];
    end.len() == BEFORE_HASH.len() + HASH_LEN + AFTER_HASH.len() && *end == parts.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bit_of_a_description_counts() {
        let description = serde_json::json!({ "oid": 16384, "objects": [{ "blake3": "00" }] });
        let json = write(&description).expect("text");
        let text = std::str::from_utf8(&json).expect("text");
        let read: serde_json::Value = serde_json::from_str(text).expect("JSON");
        assert_eq!(read["oid"], 16384);
        assert!(is_as_written(&json));
        let begin = json.len() - HASH_LEN - AFTER_HASH.len();
        for at in (0..begin - BEFORE_HASH.len()).chain(begin..json.len()) {
            for bit in 0..8 {
                let mut flipped = json.clone();
                flipped[at] ^= 1 << bit;
                assert!(!is_as_written(&flipped), "{at}");
            }
        }
        // What older versions wrote, and others with the same fields.
        assert!(is_as_written(b"{\n  \"oid\": 16384\n}\n"));
        assert!(is_as_written(read.to_string().as_bytes()));
        assert!(!is_as_written(&json[..json.len() - 1]));
    }
}
