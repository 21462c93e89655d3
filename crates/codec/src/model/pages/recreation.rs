//! Page images that the server compressed, and what compresses a page again as that server did.

use walzip_pgformat::PAGE_SIZE;
use walzip_pgformat::pglz;
use walzip_pgformat::wal::{Compression, Image};
use zstd_safe::{CCtx, DCtx};

use crate::compressors::lz4_block;
use crate::compressors::trust::Trust;
use crate::compressors::zstd_1_5_7;
use crate::streams::coder::Proof;

/// `ZSTD_CLEVEL_DEFAULT`: the level that PostgreSQL uses.
const ZSTD_LEVEL: i32 = 3;
/// The flag of an image whose compressed bytes are stored.
pub const OPAQUE: u8 = 0;
/// The flag of an image that is recreated by LZ4, libzstd 1.5.2 to 1.5.6, or pglz with a signed
/// `char`.
pub const FIRST: u8 = 1;
/// The flag of an image that is recreated by libzstd 1.5.7, or pglz with an unsigned `char`.
pub const SECOND: u8 = 2;
/// Maximum length of all recreated pages of a segment, as a multiple of the segment's length.
const EXPANSION_MAX: usize = 8;
/// Maximum length of all recreated pages of any segment, in bytes. The memory of the encoder is a
/// small multiple of it.
const RECREATED_MAX: usize = 1 << 30;

/// Compresses pages as servers do, and finds out which one it was.
pub struct Recreation {
    scratch: Box<[u8; PAGE_SIZE]>,
    packed: Vec<u8>,
    zstd: CCtx<'static>,
    zstd_1_5_7: zstd_1_5_7::Compressor,
    unzstd: DCtx<'static>,
    pglz: pglz::Compressor,
    /// The flag of the last recreated image. One server usually wrote all images of a segment.
    likely: u8,
    /// The method of the images before, and whether its compressor is known.
    method: Option<Compression>,
    trust: Trust,
    /// Bytes of pages that may still be recreated.
    budget: usize,
}

impl Recreation {
    /// For a segment of this length.
    pub fn new(segment_len: usize) -> Recreation {
        Recreation {
            scratch: Box::new([0; PAGE_SIZE]),
            packed: Vec::new(),
            zstd: CCtx::create(),
            zstd_1_5_7: zstd_1_5_7::Compressor::new(),
            unzstd: DCtx::create(),
            pglz: pglz::Compressor::new(),
            likely: FIRST,
            method: None,
            trust: Trust::default(),
            budget: segment_len.saturating_mul(EXPANSION_MAX).min(RECREATED_MAX),
        }
    }

    /// The page of this image, without its hole: what was taken apart, or what is to be compressed.
    pub fn page(&mut self, image: &Image) -> &mut [u8] {
        &mut self.scratch[..image.page_len()]
    }

    /// What was compressed last.
    pub fn packed(&self) -> &[u8] {
        &self.packed
    }

    /// Decompresses the image into `scratch`. Returns the flag of the compressor that recreates it.
    pub fn recreate(&mut self, image: &Image, packed: &[u8], proof: Proof) -> u8 {
        if self.budget < image.page_len() || !self.decompress(image, packed) {
            return OPAQUE;
        }
        if self.method != Some(image.compression) {
            self.method = Some(image.compression);
            self.trust = Trust::default();
            self.likely = match proof {
                Proof::Each | Proof::Later => expected(image.compression),
                Proof::LaterByOther => other(expected(image.compression)),
            };
        }
        let later = proof != Proof::Each;
        if !(later && self.trust.is_earned()) {
            let Some(flag) = self.find_compressor(image, packed, later) else {
                self.trust = Trust::default();
                return OPAQUE;
            };
            self.likely = flag;
        }
        self.budget -= image.page_len();
        self.likely
    }

    pub fn decompress(&mut self, image: &Image, packed: &[u8]) -> bool {
        let page_len = image.page_len();
        let page = &mut self.scratch[..page_len];
        let len = match image.compression {
            Compression::Zstd => self.unzstd.decompress(page, packed).ok(),
            Compression::Lz4 => lz4_block::decompress(packed, page),
            Compression::Pglz => pglz::decompress(packed, page).ok().map(|()| page_len),
            Compression::None if packed.len() == page_len => {
                page.copy_from_slice(packed);
                Some(page_len)
            }
            Compression::None | Compression::Unknown => None,
        };
        len == Some(page_len)
    }

    fn find_compressor(&mut self, image: &Image, packed: &[u8], later: bool) -> Option<u8> {
        let other = other(self.likely);
        if self.compress(image, self.likely) && self.packed == packed {
            let told_apart = later
                && !self.trust.is_told_apart()
                && !(self.compress(image, other) && self.packed == packed);
            self.trust.grow(told_apart);
            return Some(self.likely);
        }
        let fits = self.compress(image, other) && self.packed == packed;
        self.trust = Trust::default();
        fits.then(|| {
            self.trust.grow(true);
            other
        })
    }

    /// Compresses the page in `scratch` into `packed`, as the server of this flag does.
    pub fn compress(&mut self, image: &Image, flag: u8) -> bool {
        let page = &self.scratch[..image.page_len()];
        self.packed.clear();
        match (image.compression, flag) {
            (Compression::Zstd, FIRST) => {
                self.packed.reserve(zstd_safe::compress_bound(page.len()));
                let packed = self.zstd.compress(&mut self.packed, page, ZSTD_LEVEL);
                packed.is_ok()
            }
            (Compression::Zstd, SECOND) => {
                self.zstd_1_5_7.compress(page, &mut self.packed, ZSTD_LEVEL)
            }
            (Compression::Lz4, FIRST) => lz4_block::compress(page, &mut self.packed),
            (Compression::Pglz, FIRST | SECOND) => {
                let sign = match flag {
                    FIRST => pglz::CharSign::Signed,
                    _ => pglz::CharSign::Unsigned,
                };
                self.pglz.compress(page, &mut self.packed, sign)
            }
            _ => false,
        }
    }
}

/// The flag to begin with: that of a server on a machine like this one.
fn expected(method: Compression) -> u8 {
    const CHAR_IS_SIGNED: bool = std::ffi::c_char::MIN != 0;
    match method {
        Compression::Pglz if !CHAR_IS_SIGNED => SECOND,
        _ => FIRST,
    }
}

fn other(flag: u8) -> u8 {
    FIRST + SECOND - flag
}
