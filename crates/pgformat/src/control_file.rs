//! The control file, `global/pg_control`: which cluster this is, and in what state.
//!
//! The version of the control file does not tell the major (13 to 16 share 1300), so rows
//! are keyed by the catalog version as well, which every release of a major shares. The
//! two versions stand at the same place in all of them; everything else is believed only
//! after the CRC-32C at the end of the row's layout agrees.

use std::fmt;

use crate::PAGE_SIZE;
use crate::bytes::{read_u32, read_u64};
use crate::units::{Lsn, SystemId, TimelineId};
use crate::version::Version;
use crate::wal_file_name::is_segment_size;

/// What the control file says, as far as archiving and restoring need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlFile {
    /// The number that `initdb` drew for the cluster.
    pub system_id: SystemId,
    /// The row of the cluster's major.
    pub version: &'static Version,
    /// `pg_control_version`.
    pub control_version: u32,
    /// `catalog_version_no`.
    pub catalog_version: u32,
    /// Whether the cluster runs, recovers or is shut down.
    pub state: ClusterState,
    /// When the file was last written, in seconds since 1970.
    pub modified_unix_s: i64,
    /// The position of the latest checkpoint's record.
    pub checkpoint: Lsn,
    /// The position from which recovery would replay (REDO).
    pub redo: Lsn,
    /// The timeline of the latest checkpoint.
    pub timeline: TimelineId,
    /// The timeline before it, equal unless the checkpoint's record begins a timeline.
    pub previous_timeline: TimelineId,
    /// When the latest checkpoint was made, in seconds since 1970.
    pub checkpoint_time_unix_s: i64,
    /// How far recovery must go at least; 0/0 when the cluster is not in archive recovery.
    pub min_recovery: Lsn,
    /// The timeline of `min_recovery`.
    pub min_recovery_timeline: TimelineId,
    /// Where the backup that is being recovered began; 0/0 when none is.
    pub backup_start: Lsn,
    /// Where it ended, if it was taken from a standby.
    pub backup_end: Lsn,
    /// Whether recovery must see the record that ends the backup.
    pub backup_end_required: bool,
    /// How much the cluster writes into its WAL.
    pub wal_level: WalLevel,
    /// The size of the cluster's WAL segments.
    pub segment_size_bytes: u32,
    /// Blocks in each file of a relation's fork but the last (`relseg_size`).
    pub blocks_per_file: u32,
    /// Whether the cluster's pages carry checksums.
    pub data_checksums: bool,
    /// Whether `char` was signed on the machine that made the cluster; known from 18 on.
    /// pglz depends on it.
    pub char_signed: Option<bool>,
}

/// The state of a cluster (`DBState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterState {
    /// Never started since `initdb`.
    StartingUp,
    /// Shut down in order.
    ShutDown,
    /// Shut down in order while in recovery.
    ShutDownInRecovery,
    /// Shutting down.
    ShuttingDown,
    /// In crash recovery.
    InCrashRecovery,
    /// In archive recovery, as a standby is.
    InArchiveRecovery,
    /// Running, or ended without being shut down.
    InProduction,
}

/// The setting `wal_level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WalLevel {
    /// Too little for archiving.
    Minimal,
    /// Enough for archiving and standbys.
    Replica,
    /// Enough for logical decoding too.
    Logical,
}

/// Why the bytes are not a control file that can be believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlFileError {
    /// The file ends before its content does.
    #[error("the control file has {len} bytes, and {needed} are needed")]
    Short {
        /// The bytes there are.
        len: usize,
        /// The bytes needed.
        needed: usize,
    },
    /// No known release has these versions.
    #[error(
        "the control file has version {control_version} and catalog version {catalog_version}, \
         which no supported PostgreSQL release has"
    )]
    UnknownVersion {
        /// `pg_control_version`.
        control_version: u32,
        /// `catalog_version_no`.
        catalog_version: u32,
    },
    /// The content is damaged, or was read while it was being written.
    #[error("the control file's CRC is {stored:08x}, and its content has {computed:08x}")]
    Checksum {
        /// The CRC in the file.
        stored: u32,
        /// The CRC of the content.
        computed: u32,
    },
    /// A field has a value that no server writes.
    #[error("the control file's {field} is {value}")]
    Field {
        /// The field, in the words of `pg_controldata`.
        field: &'static str,
        /// Its value.
        value: u32,
    },
}

/// Where the fields are that are not in the same place in every major.
#[derive(Debug)]
struct Layout {
    checkpoint_time: usize,
    /// The start of a group of fields that moves as one.
    min_recovery: usize,
    page_size: usize,
    wal_page_size: usize,
    data_checksums: usize,
    char_signed: Option<usize>,
    crc: usize,
}

/// One release series: its versions and its layout.
struct Row {
    control_version: u32,
    catalog_version: u32,
    major: u32,
    layout: &'static Layout,
}

const LAYOUT_13: Layout = Layout {
    checkpoint_time: 104,
    min_recovery: 136,
    page_size: 216,
    wal_page_size: 224,
    data_checksums: 252,
    char_signed: None,
    crc: 288,
};

/// One more byte, and the padding that it brings.
const LAYOUT_18: Layout = Layout {
    char_signed: Some(256),
    crc: 292,
    ..LAYOUT_13
};

/// Multixact offsets have 64 bits, and logical decoding, SLRU segments and the initial
/// state of the checksums are noted.
const LAYOUT_19: Layout = Layout {
    checkpoint_time: 112,
    min_recovery: 144,
    page_size: 224,
    wal_page_size: 236,
    data_checksums: 268,
    char_signed: Some(272),
    crc: 308,
};

/// 19 is as of release candidate 1.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row { control_version: 1300, catalog_version: 202007201, major: 13, layout: &LAYOUT_13 },
    Row { control_version: 1300, catalog_version: 202107181, major: 14, layout: &LAYOUT_13 },
    Row { control_version: 1300, catalog_version: 202209061, major: 15, layout: &LAYOUT_13 },
    Row { control_version: 1300, catalog_version: 202307071, major: 16, layout: &LAYOUT_13 },
    Row { control_version: 1700, catalog_version: 202406281, major: 17, layout: &LAYOUT_13 },
    Row { control_version: 1800, catalog_version: 202506291, major: 18, layout: &LAYOUT_18 },
    Row { control_version: 1905, catalog_version: 202610061, major: 19, layout: &LAYOUT_19 },
];

// The fields that every layout has in the same place.
const SYSTEM_ID: usize = 0;
const CONTROL_VERSION: usize = 8;
const CATALOG_VERSION: usize = 12;
const STATE: usize = 16;
const MODIFIED: usize = 24;
const CHECKPOINT: usize = 32;
const REDO: usize = 40;
const TIMELINE: usize = 48;
const PREVIOUS_TIMELINE: usize = 52;

// Distances from `Layout::min_recovery` and `Layout::wal_page_size`.
const MIN_RECOVERY_TIMELINE: usize = 8;
const BACKUP_START: usize = 16;
const BACKUP_END: usize = 24;
const BACKUP_END_REQUIRED: usize = 32;
const WAL_LEVEL: usize = 36;
const SEGMENT_SIZE: usize = 4;
/// After the size of a block.
const BLOCKS_PER_FILE: usize = 4;

impl ControlFile {
    /// Reads the content of `global/pg_control`.
    pub fn read(content: &[u8]) -> Result<Self, ControlFileError> {
        let fields = Fields { content };
        let control_version = fields.u32(CONTROL_VERSION)?;
        let catalog_version = fields.u32(CATALOG_VERSION)?;
        let row = ROWS.iter().find(|row| {
            (row.control_version, row.catalog_version) == (control_version, catalog_version)
        });
        let (layout, version) = row
            .and_then(|row| Some((row.layout, Version::from_major(row.major)?)))
            .ok_or(ControlFileError::UnknownVersion {
                control_version,
                catalog_version,
            })?;
        fields.check_crc(layout.crc)?;
        fields.check_page_sizes(layout)?;
        let group = layout.min_recovery;
        Ok(Self {
            system_id: SystemId(fields.u64(SYSTEM_ID)?),
            version,
            control_version,
            catalog_version,
            state: fields.state()?,
            modified_unix_s: fields.seconds(MODIFIED)?,
            checkpoint: Lsn(fields.u64(CHECKPOINT)?),
            redo: Lsn(fields.u64(REDO)?),
            timeline: TimelineId(fields.u32(TIMELINE)?),
            previous_timeline: TimelineId(fields.u32(PREVIOUS_TIMELINE)?),
            checkpoint_time_unix_s: fields.seconds(layout.checkpoint_time)?,
            min_recovery: Lsn(fields.u64(group)?),
            min_recovery_timeline: TimelineId(fields.u32(group + MIN_RECOVERY_TIMELINE)?),
            backup_start: Lsn(fields.u64(group + BACKUP_START)?),
            backup_end: Lsn(fields.u64(group + BACKUP_END)?),
            backup_end_required: fields.bool(group + BACKUP_END_REQUIRED)?,
            wal_level: fields.wal_level(group + WAL_LEVEL)?,
            segment_size_bytes: fields.segment_size(layout.wal_page_size + SEGMENT_SIZE)?,
            blocks_per_file: fields.u32(layout.page_size + BLOCKS_PER_FILE)?,
            data_checksums: fields.u32(layout.data_checksums)? != 0,
            char_signed: layout.char_signed.map(|at| fields.bool(at)).transpose()?,
        })
    }

    /// Content that says which cluster's WAL this is, and nothing else that is true: for programs
    /// that ask the control file. `None` for a major that is not known.
    pub fn of_wal(
        system_id: SystemId,
        major: u32,
        segment_size_bytes: u32,
        timeline: TimelineId,
    ) -> Option<Vec<u8>> {
        const LEN: usize = 8192;
        const IN_PRODUCTION: u32 = 6;
        let row = ROWS.iter().find(|row| row.major == major)?;
        let layout = row.layout;
        let page_size = PAGE_SIZE as u32;
        let mut content = vec![0; LEN];
        let mut put = |at: usize, value: &[u8]| {
            let place = content.get_mut(at..at + value.len())?;
            place.copy_from_slice(value);
            Some(())
        };
        put(SYSTEM_ID, &system_id.0.to_le_bytes())?;
        for (at, value) in [
            (CONTROL_VERSION, row.control_version),
            (CATALOG_VERSION, row.catalog_version),
            (STATE, IN_PRODUCTION),
            (TIMELINE, timeline.0),
            (PREVIOUS_TIMELINE, timeline.0),
            (layout.min_recovery + WAL_LEVEL, WalLevel::Replica as u32),
            (layout.page_size, page_size),
            (layout.wal_page_size, page_size),
            (layout.wal_page_size + SEGMENT_SIZE, segment_size_bytes),
        ] {
            put(at, &value.to_le_bytes())?;
        }
        let crc = crc32c::crc32c(content.get(..layout.crc)?);
        let place = content.get_mut(layout.crc..layout.crc + 4)?;
        place.copy_from_slice(&crc.to_le_bytes());
        Some(content)
    }
}

struct Fields<'a> {
    content: &'a [u8],
}

impl Fields<'_> {
    fn short(&self, needed: usize) -> ControlFileError {
        ControlFileError::Short {
            len: self.content.len(),
            needed,
        }
    }

    fn u32(&self, at: usize) -> Result<u32, ControlFileError> {
        read_u32(self.content, at).ok_or_else(|| self.short(at + 4))
    }

    fn u64(&self, at: usize) -> Result<u64, ControlFileError> {
        read_u64(self.content, at).ok_or_else(|| self.short(at + 8))
    }

    fn seconds(&self, at: usize) -> Result<i64, ControlFileError> {
        self.u64(at).map(u64::cast_signed)
    }

    fn bool(&self, at: usize) -> Result<bool, ControlFileError> {
        self.content
            .get(at)
            .map(|byte| *byte != 0)
            .ok_or_else(|| self.short(at + 1))
    }

    fn check_crc(&self, at: usize) -> Result<(), ControlFileError> {
        let stored = self.u32(at)?;
        let covered = self.content.get(..at).ok_or_else(|| self.short(at))?;
        match crc32c::crc32c(covered) {
            computed if computed == stored => Ok(()),
            computed => Err(ControlFileError::Checksum { stored, computed }),
        }
    }

    fn check_page_sizes(&self, layout: &Layout) -> Result<(), ControlFileError> {
        let sizes = [
            ("database block size", self.u32(layout.page_size)?),
            ("WAL block size", self.u32(layout.wal_page_size)?),
        ];
        match sizes
            .into_iter()
            .find(|(_, size)| *size as usize != PAGE_SIZE)
        {
            Some((field, value)) => Err(ControlFileError::Field { field, value }),
            None => Ok(()),
        }
    }

    fn state(&self) -> Result<ClusterState, ControlFileError> {
        match self.u32(STATE)? {
            0 => Ok(ClusterState::StartingUp),
            1 => Ok(ClusterState::ShutDown),
            2 => Ok(ClusterState::ShutDownInRecovery),
            3 => Ok(ClusterState::ShuttingDown),
            4 => Ok(ClusterState::InCrashRecovery),
            5 => Ok(ClusterState::InArchiveRecovery),
            6 => Ok(ClusterState::InProduction),
            value => Err(ControlFileError::Field {
                field: "database cluster state",
                value,
            }),
        }
    }

    fn wal_level(&self, at: usize) -> Result<WalLevel, ControlFileError> {
        match self.u32(at)? {
            0 => Ok(WalLevel::Minimal),
            1 => Ok(WalLevel::Replica),
            2 => Ok(WalLevel::Logical),
            value => Err(ControlFileError::Field {
                field: "wal_level setting",
                value,
            }),
        }
    }

    fn segment_size(&self, at: usize) -> Result<u32, ControlFileError> {
        match self.u32(at)? {
            size if is_segment_size(size) => Ok(size),
            value => Err(ControlFileError::Field {
                field: "bytes per WAL segment",
                value,
            }),
        }
    }
}

impl fmt::Display for ClusterState {
    /// In the words of `pg_controldata`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::StartingUp => "starting up",
            Self::ShutDown => "shut down",
            Self::ShutDownInRecovery => "shut down in recovery",
            Self::ShuttingDown => "shutting down",
            Self::InCrashRecovery => "in crash recovery",
            Self::InArchiveRecovery => "in archive recovery",
            Self::InProduction => "in production",
        })
    }
}

impl fmt::Display for WalLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Minimal => "minimal",
            Self::Replica => "replica",
            Self::Logical => "logical",
        })
    }
}
