//! The PostgreSQL majors as rows of one table, keyed by the magic number of WAL pages.

/// What differs between majors in the format of the write-ahead log.
#[derive(Debug, PartialEq, Eq)]
pub struct Version {
    /// `XLOG_PAGE_MAGIC`, access/xlog_internal.h.
    pub page_magic: u16,
    /// The PostgreSQL major, for example 15.
    pub major: u32,
    /// The page flag of a page whose first record overwrites a lost continuation
    /// (`XLP_FIRST_IS_OVERWRITE_CONTRECORD`).
    pub overwrite_contrecord: u16,
    /// The page flag that a backup was not running (`XLP_BKP_REMOVABLE`), 0 where it is gone.
    pub backup_removable: u16,
    /// How the flags of a page image are numbered.
    pub image_flags: ImageFlags,
}

/// The numbering of `bimg_info`, access/xlogrecord.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageFlags {
    /// 13 and 14: HAS_HOLE 1, IS_COMPRESSED (pglz) 2, APPLY 4.
    UpTo14,
    /// From 15: HAS_HOLE 1, APPLY 2, COMPRESS_PGLZ 4, COMPRESS_LZ4 8, COMPRESS_ZSTD 16.
    From15,
}

const fn row(page_magic: u16, major: u32, image_flags: ImageFlags) -> Version {
    let renumbered = major >= 19;
    Version {
        page_magic,
        major,
        overwrite_contrecord: if renumbered { 4 } else { 8 },
        backup_removable: if renumbered { 0 } else { 4 },
        image_flags,
    }
}

/// Every supported major. 19's magic is that of release candidate 1.
pub const VERSIONS: &[Version] = &[
    row(0xD106, 13, ImageFlags::UpTo14),
    row(0xD10D, 14, ImageFlags::UpTo14),
    row(0xD110, 15, ImageFlags::From15),
    row(0xD113, 16, ImageFlags::From15),
    row(0xD116, 17, ImageFlags::From15),
    row(0xD118, 18, ImageFlags::From15),
    row(0xD122, 19, ImageFlags::From15),
];

impl Version {
    /// The row of a WAL page's magic number.
    pub fn from_page_magic(page_magic: u16) -> Option<&'static Version> {
        VERSIONS
            .iter()
            .find(|version| version.page_magic == page_magic)
    }

    /// The row of a major.
    pub fn from_major(major: u32) -> Option<&'static Version> {
        VERSIONS.iter().find(|version| version.major == major)
    }
}
