//! A manifest of files that no server listed, in the server's own form (backup_manifest.c,
//! PostgreSQL 13 to 18). `Last-Modified` is left out: no program reads it.

use std::collections::HashMap;
use std::fmt::Write as _;

use sha2::{Digest, Sha256};
use walzip_repo::ClusterIdentity;

use super::{Hasher, SentFile, WalRange, hex};

/// From this major on a manifest names the cluster.
const FIRST_MAJOR_OF_VERSION_2: u32 = 17;

/// The manifest of these files, which belong to a backup of this range of WAL.
pub(crate) fn write(
    cluster: ClusterIdentity,
    files: &HashMap<Vec<u8>, SentFile>,
    range: WalRange,
) -> Vec<u8> {
    let mut text = String::new();
    // Writing into memory does not fail.
    let _ = write_lines(&mut text, cluster, files, range);
    let checksum = hex(&Sha256::digest(text.as_bytes()));
    text.push_str(&format!("\"Manifest-Checksum\": \"{checksum}\"}}\n"));
    text.into_bytes()
}

fn write_lines(
    text: &mut String,
    cluster: ClusterIdentity,
    files: &HashMap<Vec<u8>, SentFile>,
    range: WalRange,
) -> std::fmt::Result {
    let version = if cluster.major < FIRST_MAJOR_OF_VERSION_2 {
        1
    } else {
        2
    };
    writeln!(
        text,
        "{{ \"PostgreSQL-Backup-Manifest-Version\": {version},"
    )?;
    if version > 1 {
        writeln!(text, "\"System-Identifier\": {},", cluster.system_id)?;
    }
    writeln!(text, "\"Files\": [")?;
    let mut files: Vec<_> = files.iter().collect();
    files.sort_by_key(|(name, _)| *name);
    for (number, (name, file)) in files.into_iter().enumerate() {
        let separator = if number == 0 { "" } else { ",\n" };
        let path = match str::from_utf8(name) {
            // JSON's own escapes.
            Ok(name) => format!("\"Path\": {}", serde_json::Value::from(name)),
            Err(_) => format!("\"Encoded-Path\": \"{}\"", hex(name)),
        };
        write!(text, "{separator}{{ {path}, \"Size\": {}", file.size_bytes)?;
        if let Some(algorithm) = algorithm(&file.hasher) {
            let checksum = hex(&file.hasher.clone().finish());
            write!(
                text,
                ", \"Checksum-Algorithm\": \"{algorithm}\", \"Checksum\": \"{checksum}\""
            )?;
        }
        write!(text, " }}")?;
    }
    writeln!(text, "\n],\n\"WAL-Ranges\": [")?;
    let WalRange {
        timeline,
        start,
        end,
    } = range;
    write!(
        text,
        "{{ \"Timeline\": {}, \"Start-LSN\": \"{start}\", ",
        timeline.0
    )?;
    writeln!(text, "\"End-LSN\": \"{end}\" }}\n],")
}

fn algorithm(hasher: &Hasher) -> Option<&'static str> {
    Some(match hasher {
        Hasher::None => return None,
        Hasher::Crc32c(_) => "CRC32C",
        Hasher::Sha224(_) => "SHA224",
        Hasher::Sha256(_) => "SHA256",
        Hasher::Sha384(_) => "SHA384",
        Hasher::Sha512(_) => "SHA512",
    })
}

#[cfg(test)]
mod tests {
    use super::super::PgManifest;
    use super::*;
    use crate::server::replication::ManifestChecksums;
    use walzip_pgformat::{Lsn, TimelineId};

    #[test]
    fn is_read_as_it_was_written() {
        let file = |content: &[u8], checksums| {
            let mut hasher = Hasher::for_backup(checksums);
            hasher.update(content);
            let size_bytes = content.len() as u64;
            SentFile { size_bytes, hasher }
        };
        let files = HashMap::from([
            (
                b"PG_VERSION".to_vec(),
                file(b"17\n", ManifestChecksums::Crc32c),
            ),
            (
                b"with \"quotes\"".to_vec(),
                file(b"", ManifestChecksums::Sha256),
            ),
            (b"a\xff".to_vec(), file(b"abc", ManifestChecksums::Sha256)),
        ]);
        let range = WalRange {
            timeline: TimelineId(3),
            start: Lsn(0x1_0200_0028),
            end: Lsn(0x1_0200_0138),
        };
        for major in [13, 17] {
            let cluster = ClusterIdentity {
                system_id: 7_575_000_000_000_000_001,
                major,
            };
            let text = write(cluster, &files, range);
            let manifest = PgManifest::read(&text).expect("a manifest");
            assert_eq!(manifest.wal_ranges, [range]);
            manifest.check_sent(files.clone()).expect("the same files");
        }
    }
}
