//! Any bytes as each of the small files beside the WAL, and as their names.
#![no_main]

use libfuzzer_sys::fuzz_target;
use walzip_pgformat::backup_label::{BackupHistory, BackupLabel};
use walzip_pgformat::control_file::ControlFile;
use walzip_pgformat::history::TimelineHistory;
use walzip_pgformat::wal_file_name::WalFileName;
use walzip_pgformat::wal_summary::{self, WalSummaryName};
use walzip_pgformat::{Lsn, TimelineId};

/// Where the CRC stands in the control files of 13 to 17, of 18 and of 19.
const CRC_OFFSETS: [usize; 3] = [288, 292, 308];

fuzz_target!(|bytes: &[u8]| {
    let _: Result<_, _> = ControlFile::read(bytes);
    for at in CRC_OFFSETS {
        let mut believable = bytes.to_vec();
        if let Some((covered, crc)) = believable.split_at_mut_checked(at)
            && let Some(crc) = crc.first_chunk_mut()
        {
            *crc = crc32c::crc32c(covered).to_le_bytes();
            let _: Result<_, _> = ControlFile::read(&believable);
        }
    }
    let _: Result<_, _> = BackupLabel::read(bytes);
    if let Ok(history) = BackupHistory::read(bytes) {
        assert_eq!(
            history.label.start_timeline,
            history.label.start_file.timeline
        );
    }
    if let Ok(history) = TimelineHistory::read(TimelineId(u32::MAX), bytes) {
        for ancestor in &history.ancestors {
            assert!(history.contains(history.timeline_at(ancestor.switch)));
            assert_ne!(history.timeline_at(ancestor.switch), ancestor.timeline);
        }
        assert_eq!(history.timeline_at(Lsn(u64::MAX)), history.timeline);
    }
    // A summary with the first bytes and the checksum of one.
    let mut summary = 0x652B_137B_u32.to_le_bytes().to_vec();
    summary.extend_from_slice(bytes);
    let crc = crc32c::crc32c(&summary);
    summary.extend(crc.to_le_bytes());
    let _: Result<_, _> = wal_summary::read(&summary, |fork| {
        assert!(fork.blocks.len() <= 8 * bytes.len());
    });
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Some(name) = WalSummaryName::read(text)
    {
        assert_eq!(name.to_string(), text);
    }
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(name) = text.parse::<WalFileName>()
    {
        assert_eq!(name.to_string(), text);
    }
});
