//! `backup_manifest`, PostgreSQL's own list of a backup's files (backup_manifest.c).
//!
//! The server writes it while it sends the files, so it proves what arrived: names, sizes and a
//! checksum of each file, the WAL that is needed, and a SHA-256 over all of that.

mod file_crc;
mod writing;

use std::collections::HashMap;

use serde::Deserialize;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};
use walzip_pgformat::{Lsn, TimelineId};

pub(crate) use self::writing::write;
use crate::server::replication::ManifestChecksums;
use crate::wal::text;

/// Why a manifest cannot be believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ManifestError {
    #[error("not a backup manifest: {0}")]
    Json(String),
    #[error("version {0} of the backup manifest is not known")]
    Version(u64),
    #[error("the backup manifest's checksum is {stored}, its content has {computed}")]
    Checksum { stored: String, computed: String },
    #[error("the backup manifest has an unusable entry: {0}")]
    Entry(String),
    #[error("the backup manifest and what the server sent differ: {name} {wrong}")]
    Sent { name: String, wrong: &'static str },
}

/// A file of the backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ManifestFile {
    pub(crate) size_bytes: u64,
    pub(crate) checksum: Option<Checksum>,
}

/// A file as a server sent it.
#[derive(Clone)]
pub(crate) struct SentFile {
    pub(crate) size_bytes: u64,
    /// Over its content.
    pub(crate) hasher: Hasher,
}

impl SentFile {
    fn differs_from(self, listed: &ManifestFile) -> Option<&'static str> {
        if self.size_bytes != listed.size_bytes {
            return Some("was sent with another size");
        }
        let is_same = self.hasher.matches(listed.checksum.as_ref());
        (!is_same).then_some("was sent with another checksum")
    }
}

/// A checksum and how it was computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Checksum {
    algorithm: Algorithm,
    value: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    Crc32c,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
}

/// WAL that the backup needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WalRange {
    pub(crate) timeline: TimelineId,
    pub(crate) start: Lsn,
    pub(crate) end: Lsn,
}

/// A manifest whose checksum is right.
#[derive(Clone, Debug)]
pub(crate) struct PgManifest {
    /// By path below the data directory, as bytes: names need not be UTF-8.
    pub(crate) files: HashMap<Vec<u8>, ManifestFile>,
    /// From the oldest timeline to the newest.
    pub(crate) wal_ranges: Vec<WalRange>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Json {
    #[serde(rename = "PostgreSQL-Backup-Manifest-Version")]
    version: u64,
    #[serde(rename = "Files")]
    files: Vec<JsonFile>,
    #[serde(rename = "WAL-Ranges")]
    wal_ranges: Vec<JsonRange>,
    #[serde(rename = "Manifest-Checksum")]
    manifest_checksum: String,
}

#[derive(Deserialize)]
struct JsonFile {
    #[serde(rename = "Path")]
    path: Option<String>,
    #[serde(rename = "Encoded-Path")]
    encoded_path: Option<String>,
    #[serde(rename = "Size")]
    size_bytes: u64,
    #[serde(rename = "Checksum-Algorithm")]
    algorithm: Option<String>,
    #[serde(rename = "Checksum")]
    checksum: Option<String>,
}

#[derive(Deserialize)]
struct JsonRange {
    #[serde(rename = "Timeline")]
    timeline: u32,
    #[serde(rename = "Start-LSN", with = "text")]
    start: Lsn,
    #[serde(rename = "End-LSN", with = "text")]
    end: Lsn,
}

impl PgManifest {
    /// Whether the files that a server sent are those of its manifest, by size and checksum.
    pub(crate) fn check_sent(
        &self,
        mut sent: HashMap<Vec<u8>, SentFile>,
    ) -> Result<(), ManifestError> {
        for (name, listed) in &self.files {
            let wrong = match sent.remove(name) {
                None => Some("was not sent"),
                Some(file) => file.differs_from(listed),
            };
            if let Some(wrong) = wrong {
                let name = String::from_utf8_lossy(name).into_owned();
                return Err(ManifestError::Sent { name, wrong });
            }
        }
        match sent.into_keys().next() {
            None => Ok(()),
            Some(name) => Err(ManifestError::Sent {
                name: String::from_utf8_lossy(&name).into_owned(),
                wrong: "was sent and is not listed",
            }),
        }
    }

    pub(crate) fn read(content: &[u8]) -> Result<PgManifest, ManifestError> {
        let json: Json = serde_json::from_slice(content)
            .map_err(|error| ManifestError::Json(error.to_string()))?;
        // 1 up to PostgreSQL 16; 2 from 17, which adds the system identifier.
        if !(1..=2).contains(&json.version) {
            return Err(ManifestError::Version(json.version));
        }
        check_own_checksum(content, &json.manifest_checksum)?;
        let mut files = HashMap::with_capacity(json.files.len());
        for file in json.files {
            let (path, file) = read_file(file)?;
            if let Some(path) = files.insert(path.clone(), file).map(|_| path) {
                let path = String::from_utf8_lossy(&path).into_owned();
                return Err(ManifestError::Entry(format!("\"{path}\" is listed twice")));
            }
        }
        let mut wal_ranges: Vec<WalRange> = json
            .wal_ranges
            .into_iter()
            .map(|range| WalRange {
                timeline: TimelineId(range.timeline),
                start: range.start,
                end: range.end,
            })
            .collect();
        wal_ranges.sort_by_key(|range| (range.timeline, range.start));
        if wal_ranges.is_empty() || wal_ranges.iter().any(|range| range.start > range.end) {
            return Err(ManifestError::Entry("WAL ranges that are none".to_owned()));
        }
        Ok(PgManifest { files, wal_ranges })
    }
}

/// The checksum is of everything before the last line, which holds it.
fn check_own_checksum(content: &[u8], stored: &str) -> Result<(), ManifestError> {
    let body = content.strip_suffix(b"\n").unwrap_or(content);
    let lines = body
        .iter()
        .rposition(|&byte| byte == b'\n')
        .map_or(0, |at| at + 1);
    let (covered, _) = content.split_at(lines);
    let computed = hex(&Sha256::digest(covered));
    if computed == stored {
        return Ok(());
    }
    Err(ManifestError::Checksum {
        stored: stored.to_owned(),
        computed,
    })
}

fn read_file(file: JsonFile) -> Result<(Vec<u8>, ManifestFile), ManifestError> {
    let entry = |reason: String| ManifestError::Entry(reason);
    let path = match (file.path, file.encoded_path) {
        (Some(path), None) => path.into_bytes(),
        (None, Some(encoded)) => {
            unhex(&encoded).ok_or_else(|| entry(format!("the path {encoded}")))?
        }
        _ => return Err(entry("a file without a path".to_owned())),
    };
    let checksum = match (file.algorithm, file.checksum) {
        (None, None) => None,
        (Some(algorithm), Some(value)) => {
            let unusable = || entry(format!("checksum {algorithm} {value}"));
            let algorithm = Algorithm::from_name(&algorithm).ok_or_else(unusable)?;
            let value = unhex(&value).ok_or_else(unusable)?;
            Some(Checksum { algorithm, value })
        }
        _ => return Err(entry("half a checksum".to_owned())),
    };
    Ok((
        path,
        ManifestFile {
            size_bytes: file.size_bytes,
            checksum,
        },
    ))
}

impl Algorithm {
    fn from_name(name: &str) -> Option<Algorithm> {
        Some(match name {
            "CRC32C" => Algorithm::Crc32c,
            "SHA224" => Algorithm::Sha224,
            "SHA256" => Algorithm::Sha256,
            "SHA384" => Algorithm::Sha384,
            "SHA512" => Algorithm::Sha512,
            _ => return None,
        })
    }
}

/// Computes a file's checksum piece by piece.
#[derive(Clone)]
pub(crate) enum Hasher {
    None,
    Crc32c(u32),
    Sha224(Sha224),
    Sha256(Sha256),
    Sha384(Sha384),
    Sha512(Sha512),
}

impl Hasher {
    /// The hasher for a file whose checksum this is.
    pub(crate) fn of(checksum: Option<&Checksum>) -> Hasher {
        match checksum.map(|checksum| checksum.algorithm) {
            None => Hasher::None,
            Some(Algorithm::Crc32c) => Hasher::Crc32c(0),
            Some(Algorithm::Sha224) => Hasher::Sha224(Sha224::new()),
            Some(Algorithm::Sha256) => Hasher::Sha256(Sha256::new()),
            Some(Algorithm::Sha384) => Hasher::Sha384(Sha384::new()),
            Some(Algorithm::Sha512) => Hasher::Sha512(Sha512::new()),
        }
    }

    /// The hasher for files of which a server computes this checksum.
    pub(crate) fn for_backup(checksums: ManifestChecksums) -> Hasher {
        match checksums {
            ManifestChecksums::Crc32c => Hasher::Crc32c(0),
            ManifestChecksums::Sha256 => Hasher::Sha256(Sha256::new()),
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Hasher::None => {}
            Hasher::Crc32c(crc) => *crc = crc32c::crc32c_append(*crc, bytes),
            Hasher::Sha224(hasher) => hasher.update(bytes),
            Hasher::Sha256(hasher) => hasher.update(bytes),
            Hasher::Sha384(hasher) => hasher.update(bytes),
            Hasher::Sha512(hasher) => hasher.update(bytes),
        }
    }

    /// Steps over content of which only its CRC-32C is known; whether that can be done.
    pub(crate) fn step_over(&mut self, content_crc: u32, len: usize) -> bool {
        match self {
            Hasher::None => true,
            Hasher::Crc32c(crc) => {
                *crc = file_crc::combined(*crc, content_crc, len);
                true
            }
            _ => false,
        }
    }

    /// Whether the content had this checksum; without one, every content has.
    pub(crate) fn matches(self, checksum: Option<&Checksum>) -> bool {
        let computed = self.finish();
        checksum.is_none_or(|checksum| checksum.value == computed)
    }

    /// The checksum, as a manifest has it.
    fn finish(self) -> Vec<u8> {
        match self {
            Hasher::None => Vec::new(),
            // The manifest has the value as it lay in the server's memory.
            Hasher::Crc32c(crc) => crc.to_le_bytes().to_vec(),
            Hasher::Sha224(hasher) => hasher.finalize().to_vec(),
            Hasher::Sha256(hasher) => hasher.finalize().to_vec(),
            Hasher::Sha384(hasher) => hasher.finalize().to_vec(),
            Hasher::Sha512(hasher) => hasher.finalize().to_vec(),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let pairs = digits.chunks_exact(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(files: &str) -> String {
        let body = format!(
            "{{ \"PostgreSQL-Backup-Manifest-Version\": 1,\n\"Files\": [\n{files}\n],\n\
             \"WAL-Ranges\": [\n{{ \"Timeline\": 1, \"Start-LSN\": \"0/2000028\", \
             \"End-LSN\": \"0/2000138\" }}\n],\n"
        );
        let checksum = hex(&Sha256::digest(body.as_bytes()));
        format!("{body}\"Manifest-Checksum\": \"{checksum}\"}}\n")
    }

    /// The checksum of `123456789`, CRC-32C's check value e3069283, as it lies in memory.
    const ONE_FILE: &str = "{ \"Path\": \"PG_VERSION\", \"Size\": 9, \
        \"Checksum-Algorithm\": \"CRC32C\", \"Checksum\": \"839206e3\" }";

    #[test]
    fn reads_files_and_ranges_and_proves_content() {
        let manifest = PgManifest::read(manifest(ONE_FILE).as_bytes()).expect("valid");
        let file = &manifest.files[b"PG_VERSION".as_slice()];
        assert_eq!(file.size_bytes, 9);
        let proof = |content: &[u8]| {
            let mut hasher = Hasher::of(file.checksum.as_ref());
            hasher.update(content);
            hasher.matches(file.checksum.as_ref())
        };
        assert!(proof(b"123456789"));
        assert!(!proof(b"123456780"));
        let range = manifest.wal_ranges[0];
        assert_eq!((range.start, range.end), (Lsn(0x200_0028), Lsn(0x200_0138)));
    }

    #[test]
    fn proves_content_by_each_of_postgresqls_checksums() {
        let abc = [
            ("CRC32C", "b73f4b36"),
            (
                "SHA224",
                "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7",
            ),
            (
                "SHA256",
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ),
            (
                "SHA384",
                "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed\
                 8086072ba1e7cc2358baeca134c825a7",
            ),
            (
                "SHA512",
                "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
                 2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
            ),
        ];
        for (algorithm, value) in abc {
            let file = format!(
                "{{ \"Path\": \"a\", \"Size\": 3, \"Checksum-Algorithm\": \"{algorithm}\", \
                 \"Checksum\": \"{value}\" }}"
            );
            let manifest = PgManifest::read(manifest(&file).as_bytes()).expect(algorithm);
            let checksum = manifest.files[b"a".as_slice()].checksum.clone();
            let proof = |content: &[u8]| {
                let mut hasher = Hasher::of(checksum.as_ref());
                content.chunks(2).for_each(|piece| hasher.update(piece));
                hasher.matches(checksum.as_ref())
            };
            assert!(proof(b"abc") && !proof(b"abd"), "{algorithm}");
        }
    }

    #[test]
    fn reads_encoded_paths_and_files_without_a_checksum() {
        let text = manifest("{ \"Encoded-Path\": \"61ff\", \"Size\": 0 }");
        let manifest = PgManifest::read(text.as_bytes()).expect("valid");
        assert_eq!(manifest.files[b"a\xff".as_slice()].checksum, None);
    }

    #[test]
    fn refuses_a_manifest_that_was_changed() {
        let changed = manifest(ONE_FILE).replace("\"Size\": 9", "\"Size\": 4");
        let error = PgManifest::read(changed.as_bytes()).expect_err("changed");
        assert!(matches!(error, ManifestError::Checksum { .. }), "{error}");
    }

    #[test]
    fn refuses_entries_that_make_no_sense() {
        let twice = format!("{ONE_FILE},\n{ONE_FILE}");
        let unknown = ONE_FILE.replace("CRC32C", "CRC64");
        for files in [twice.as_str(), unknown.as_str(), "{ \"Size\": 1 }"] {
            let error = PgManifest::read(manifest(files).as_bytes()).expect_err(files);
            assert!(matches!(error, ManifestError::Entry(_)), "{error}");
        }
    }
}
