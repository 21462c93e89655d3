//! Control files that servers of every major wrote, against what those servers said of
//! them through `pg_control_system()`, `pg_control_checkpoint()` and `pg_control_init()`.
//!
//! The files in data/pg_control are the first 512 bytes; zeros follow up to 8192.

use walzip_pgformat::control_file::{ClusterState, ControlFile, ControlFileError, WalLevel};
use walzip_pgformat::{Lsn, SystemId, TimelineId};

struct Expected {
    major: u32,
    content: &'static [u8],
    system_id: u64,
    checkpoint: &'static str,
    redo: &'static str,
    checkpoint_time_unix_s: i64,
    modified_unix_s: i64,
    segment_size_bytes: u32,
}

macro_rules! expected {
    ($major:literal, $system_id:literal, $checkpoint:literal, $redo:literal,
     $checkpoint_time:literal, $modified:literal, $segment_size_mib:literal) => {
        Expected {
            major: $major,
            content: include_bytes!(concat!("../data/pg_control/", $major)),
            system_id: $system_id,
            checkpoint: $checkpoint,
            redo: $redo,
            checkpoint_time_unix_s: $checkpoint_time,
            modified_unix_s: $modified,
            segment_size_bytes: $segment_size_mib << 20,
        }
    };
}

#[rustfmt::skip]
const EXPECTED: &[Expected] = &[
    expected!(13, 7710753557931130150, "0/1813F10", "0/1813ED8", 1795299718, 1795299718, 16),
    expected!(14, 7710753578948390220, "0/A432E8", "0/A432B0", 1795299723, 1795299723, 1),
    expected!(15, 7710753652381998713, "0/17415E0", "0/17415A8", 1795299740, 1795299740, 16),
    expected!(16, 7710753599844916594, "0/17210B0", "0/1721078", 1795299727, 1795299728, 16),
    expected!(17, 7710753619692572057, "0/1723A18", "0/17239C0", 1795299732, 1795299732, 16),
    expected!(18, 7710753637332119026, "0/474D3D0", "0/474D378", 1795299735, 1795299735, 64),
    expected!(19, 7710762807866358763, "0/4000080", "0/4000028", 1795301884, 1795301884, 16),
];

impl Expected {
    /// The bytes that the CRC covers, and its own. Behind them nothing is read.
    fn covered(&self) -> usize {
        match self.major {
            ..18 => 292,
            18 => 296,
            _ => 312,
        }
    }
}

fn lsn(text: &str) -> Lsn {
    text.parse().expect("a position in the table")
}

#[test]
fn reads_the_control_file_of_every_major() {
    for expected in EXPECTED {
        let file = ControlFile::read(expected.content)
            .unwrap_or_else(|error| panic!("{}: {error}", expected.major));
        assert_eq!(file.version.major, expected.major);
        assert_eq!(file.system_id, SystemId(expected.system_id));
        assert_eq!(file.checkpoint, lsn(expected.checkpoint));
        assert_eq!(file.redo, lsn(expected.redo));
        assert_eq!(file.timeline, TimelineId(1));
        assert_eq!(file.previous_timeline, TimelineId(1));
        assert_eq!(file.checkpoint_time_unix_s, expected.checkpoint_time_unix_s);
        assert_eq!(file.modified_unix_s, expected.modified_unix_s);
        assert_eq!(file.segment_size_bytes, expected.segment_size_bytes);
        assert_eq!(file.state, ClusterState::InProduction);
        assert_eq!(file.wal_level, WalLevel::Logical);
        assert!(file.data_checksums);
        assert_eq!(
            (file.min_recovery, file.min_recovery_timeline.0),
            (Lsn(0), 0)
        );
        assert_eq!((file.backup_start, file.backup_end), (Lsn(0), Lsn(0)));
        assert!(!file.backup_end_required);
        assert_eq!(file.char_signed, (expected.major >= 18).then_some(true));
    }
}

#[test]
fn refuses_every_flipped_bit_of_a_control_file() {
    for expected in EXPECTED {
        for bit in 0..expected.covered() * 8 {
            let mut content = expected.content.to_vec();
            content[bit / 8] ^= 1 << (bit % 8);
            assert!(
                ControlFile::read(&content).is_err(),
                "{} bit {bit}",
                expected.major
            );
        }
    }
}

#[test]
fn refuses_every_truncation_of_a_control_file() {
    for expected in EXPECTED {
        let covered = expected.covered();
        for len in 0..covered {
            let error = ControlFile::read(&expected.content[..len]).expect_err("truncated");
            assert!(matches!(error, ControlFileError::Short { .. }), "{error}");
        }
        assert!(ControlFile::read(&expected.content[..covered]).is_ok());
    }
}

#[test]
fn refuses_fields_that_no_server_writes_even_under_a_right_crc() {
    // The offsets of 13 to 17: state, block sizes, segment size, wal_level.
    for (at, value) in [
        (16, 7u32),
        (216, 4096),
        (224, 4096),
        (228, 3 << 20),
        (172, 3),
    ] {
        let mut content = EXPECTED[0].content.to_vec();
        content[at..at + 4].copy_from_slice(&value.to_le_bytes());
        let crc = crc32c::crc32c(&content[..288]);
        content[288..292].copy_from_slice(&crc.to_le_bytes());
        let error = ControlFile::read(&content).expect_err("no server writes this");
        assert!(matches!(error, ControlFileError::Field { value: found, .. } if found == value));
    }
}

#[test]
fn refuses_versions_that_no_release_has() {
    let mut content = EXPECTED[0].content.to_vec();
    content[12..16].copy_from_slice(&202_007_202_u32.to_le_bytes());
    assert_eq!(
        ControlFile::read(&content),
        Err(ControlFileError::UnknownVersion {
            control_version: 1300,
            catalog_version: 202_007_202
        })
    );
}

#[test]
fn a_control_file_made_for_wal_says_whose_it_is() {
    for Expected { major, content, .. } in EXPECTED {
        let real = ControlFile::read(content).expect("a real one");
        let made = ControlFile::of_wal(SystemId(7), *major, 1 << 20, TimelineId(3));
        let made = ControlFile::read(&made.expect("a known major")).expect("readable");
        assert_eq!(made.control_version, real.control_version);
        assert_eq!(made.catalog_version, real.catalog_version);
        assert_eq!(
            (made.system_id, made.timeline),
            (SystemId(7), TimelineId(3))
        );
        assert_eq!(made.segment_size_bytes, 1 << 20);
        assert_eq!(made.wal_level, WalLevel::Replica);
        assert_eq!(made.state, ClusterState::InProduction);
    }
    assert_eq!(
        ControlFile::of_wal(SystemId(7), 12, 1 << 20, TimelineId(1)),
        None
    );
}
