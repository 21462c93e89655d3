//! Page images that the server compressed, and what compresses a page again as that server did.

use walzip_pgformat::PAGE_SIZE;
use walzip_pgformat::pglz;
use walzip_pgformat::wal::{Compression, Image};
use zstd_safe::{CCtx, DCtx};

use crate::compressors::lz4_block;
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

/// After this number of successive images that one compressor recreated, the encoder assumes that
/// it recreates the next ones, if the other compressor of the method failed on one of them.
const TRUSTED_FROM: u32 = 16;
/// The same number if the other compressor failed on none of them.
const TRUSTED_UNTOLD_FROM: u32 = 64;
/// One of this number of images is still checked then.
const TRIED_OF: u32 = 32;

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
        if self.trust.method != Some(image.compression) {
            self.trust = Trust::of(image.compression);
            self.likely = match proof {
                Proof::Each | Proof::Later => expected(image.compression),
                Proof::LaterByOther => other(expected(image.compression)),
            };
        }
        let later = proof != Proof::Each;
        if !(later && self.trust.is_earned()) {
            let Some(flag) = self.find_compressor(image, packed, later) else {
                self.trust = Trust::of(image.compression);
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
                && !self.trust.told_apart
                && !(self.compress(image, other) && self.packed == packed);
            self.trust.grow(told_apart);
            return Some(self.likely);
        }
        let fits = self.compress(image, other) && self.packed == packed;
        self.trust = Trust::of(image.compression);
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

/// Whether the encoder may assume that a compressor recreates an image, without trying it.
///
/// Used only if a proof by decoding follows, which compresses each page again. Compressing twice
/// would take most of the time of such a segment.
#[derive(Default)]
struct Trust {
    method: Option<Compression>,
    /// Number of successive images that the likely compressor recreated.
    reproduced: u32,
    /// The other compressor failed on one of them.
    told_apart: bool,
    /// Number of images not checked since the last one that was.
    granted: u32,
}

impl Trust {
    fn of(method: Compression) -> Trust {
        Trust {
            method: Some(method),
            ..Trust::default()
        }
    }

    fn is_earned(&mut self) -> bool {
        let enough = match self.told_apart {
            true => TRUSTED_FROM,
            false => TRUSTED_UNTOLD_FROM,
        };
        let earned = self.reproduced >= enough && self.granted + 1 < TRIED_OF;
        if earned {
            self.granted += 1;
        }
        earned
    }

    fn grow(&mut self, told_apart: bool) {
        self.reproduced += 1;
        self.told_apart |= told_apart;
        self.granted = 0;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn trusted(trust: &mut Trust, told_apart: bool, images: u32) -> u32 {
        let earned = (0..images).filter(|_| {
            let earned = trust.is_earned();
            if !earned {
                trust.grow(told_apart);
            }
            earned
        });
        earned.count() as u32
    }

    #[test]
    fn trust_is_earned_and_some_images_are_tried_nevertheless() {
        let mut trust = Trust::of(Compression::Zstd);
        assert_eq!(trusted(&mut trust, true, TRUSTED_FROM), 0);
        let granted = trusted(&mut trust, true, 10 * TRIED_OF);
        assert_eq!(granted, 10 * (TRIED_OF - 1));
        let mut trust = Trust::of(Compression::Pglz);
        assert_eq!(trusted(&mut trust, false, TRUSTED_UNTOLD_FROM), 0);
        assert_eq!(trusted(&mut trust, false, 5), 5);
    }
}
