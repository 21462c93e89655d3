//! The tablespaces' links in a tar archive that passes by.
//!
//! A server sends the links of all tablespaces that there are when it comes to them, which are
//! not those that it announced: a tablespace may be created while a backup runs.

use std::collections::BTreeMap;

use tar::{EntryType, Header};

const BLOCK_BYTES: usize = 512;

/// Reads the headers of an archive; its files' content is stepped over.
#[derive(Debug, Default)]
pub(crate) struct TarLinks {
    header: Vec<u8>,
    /// What is left of a file's content, padding included.
    content_bytes: u64,
    found: BTreeMap<u32, String>,
}

impl TarLinks {
    /// Takes the next bytes of the archive.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.content_bytes > 0 {
                let skipped = self.content_bytes.min(bytes.len() as u64);
                self.content_bytes -= skipped;
                bytes = bytes.get(skipped as usize..).unwrap_or_default();
                continue;
            }
            let room = BLOCK_BYTES - self.header.len();
            let (fits, rest) = bytes.split_at(room.min(bytes.len()));
            self.header.extend_from_slice(fits);
            bytes = rest;
            if self.header.len() == BLOCK_BYTES {
                let header = std::mem::take(&mut self.header);
                self.look_at(Header::from_byte_slice(&header));
                self.header = header;
                self.header.clear();
            }
        }
    }

    /// The locations of the tablespaces, by OID.
    pub(crate) fn into_found(self) -> BTreeMap<u32, String> {
        self.found
    }

    fn look_at(&mut self, header: &Header) {
        // What makes no sense here is found when the archive is unpacked.
        let size_bytes = header.entry_size().unwrap_or(0);
        self.content_bytes = size_bytes
            .checked_next_multiple_of(BLOCK_BYTES as u64)
            .unwrap_or(0);
        if header.entry_type() != EntryType::Symlink {
            return;
        }
        let location = header.link_name_bytes();
        if let (Some(oid), Some(location)) = (linked_tablespace(&header.path_bytes()), location) {
            let location = String::from_utf8_lossy(&location).into_owned();
            self.found.insert(oid, location);
        }
    }
}

/// The OID of the tablespace whose link has this path in the data directory.
pub(crate) fn linked_tablespace(path: &[u8]) -> Option<u32> {
    let path = std::str::from_utf8(path).ok()?;
    let path = path.strip_prefix("./").unwrap_or(path);
    let oid: u32 = path.strip_prefix("pg_tblspc/")?.parse().ok()?;
    // One way to write it: no sign, no leading zeros.
    path.ends_with(&format!("/{oid}")).then_some(oid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tar::Builder;

    fn archive() -> Vec<u8> {
        let mut builder = Builder::new(Vec::new());
        let mut header = |name: &str, kind, link: Option<&str>, content: &[u8]| {
            let mut header = Header::new_ustar();
            header.set_entry_type(kind);
            header.set_path(name).expect("a short path");
            if let Some(link) = link {
                header.set_link_name(link).expect("a short path");
            }
            header.set_size(content.len() as u64);
            header.set_cksum();
            builder.append(&header, content).expect("appended");
        };
        // Content that looks like the header of a link.
        let mut forged = Header::new_ustar();
        forged.set_entry_type(EntryType::Symlink);
        forged.set_path("pg_tblspc/1").expect("a short path");
        forged.set_link_name("/forged").expect("a short path");
        header("base/1/2", EntryType::Regular, None, forged.as_bytes());
        header("pg_tblspc", EntryType::Directory, None, b"");
        header("pg_tblspc/16384", EntryType::Symlink, Some("/srv/a"), b"");
        header("base/1/3", EntryType::Regular, None, &[7; 1000]);
        header("pg_tblspc/16400", EntryType::Symlink, Some("/srv/b"), b"");
        header("pg_wal", EntryType::Symlink, Some("/srv/wal"), b"");
        builder.into_inner().expect("finished")
    }

    #[test]
    fn finds_the_links_however_the_archive_is_cut() {
        let archive = archive();
        let expected = BTreeMap::from([(16384, "/srv/a".to_owned()), (16400, "/srv/b".to_owned())]);
        for size in [1, 511, 512, 513, 4000, archive.len()] {
            let mut links = TarLinks::default();
            archive.chunks(size).for_each(|piece| links.feed(piece));
            assert_eq!(links.into_found(), expected, "in pieces of {size}");
        }
    }

    #[test]
    fn knows_the_links_of_tablespaces_by_their_path() {
        assert_eq!(linked_tablespace(b"pg_tblspc/16384"), Some(16384));
        assert_eq!(linked_tablespace(b"./pg_tblspc/16384"), Some(16384));
        for other in [
            "pg_wal",
            "pg_tblspc",
            "pg_tblspc/x",
            "pg_tblspc/+1",
            "pg_tblspc/01",
            "pg_tblspc/1/2",
        ] {
            assert_eq!(linked_tablespace(other.as_bytes()), None, "{other}");
        }
    }
}
