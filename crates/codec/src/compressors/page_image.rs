//! Compresses and decompresses single page images as the server does, to measure other settings of
//! `wal_compression`. The images of a segment are coded by the model.

use walzip_pgformat::wal::Compression;
use walzip_pgformat::{PAGE_SIZE, pglz};
use zstd_safe::{CCtx, DCtx};

use crate::compressors::lz4_block;

/// `ZSTD_CLEVEL_DEFAULT`: the level that the server uses.
const ZSTD_LEVEL: i32 = 3;

/// Contexts and buffers, reused from image to image.
pub struct PageImages {
    zstd: CCtx<'static>,
    unzstd: DCtx<'static>,
    pglz: pglz::Compressor,
    packed: Vec<u8>,
    page: Vec<u8>,
}

impl Default for PageImages {
    fn default() -> PageImages {
        PageImages {
            zstd: CCtx::create(),
            unzstd: DCtx::create(),
            pglz: pglz::Compressor::new(),
            packed: Vec::new(),
            page: Vec::new(),
        }
    }
}

impl PageImages {
    /// Decompresses an image into the page without its hole. `None` if the image is invalid.
    pub fn decompress(
        &mut self,
        method: Compression,
        image: &[u8],
        page_len: usize,
    ) -> Option<&[u8]> {
        self.page.clear();
        self.page.resize(page_len.min(PAGE_SIZE), 0);
        let page = &mut self.page[..];
        let len = match method {
            Compression::None => {
                page.copy_from_slice(image.get(..page.len())?);
                page_len
            }
            Compression::Pglz => pglz::decompress(image, page).ok().map(|()| page.len())?,
            Compression::Lz4 => lz4_block::decompress(image, page)?,
            Compression::Zstd => self.unzstd.decompress(page, image).ok()?,
            Compression::Unknown => return None,
        };
        (len == page_len).then_some(&self.page[..])
    }

    /// Compresses a page without its hole. `None` if the result is not smaller.
    pub fn compress(&mut self, method: Compression, page: &[u8]) -> Option<&[u8]> {
        self.packed.clear();
        let packed = match method {
            Compression::None | Compression::Unknown => false,
            Compression::Pglz => {
                let sign = pglz::CharSign::Signed;
                self.pglz.compress(page, &mut self.packed, sign)
            }
            Compression::Lz4 => lz4_block::compress(page, &mut self.packed),
            Compression::Zstd => {
                self.packed.reserve(zstd_safe::compress_bound(page.len()));
                let packed = self.zstd.compress(&mut self.packed, page, ZSTD_LEVEL);
                packed.is_ok()
            }
        };
        (packed && self.packed.len() < page.len()).then_some(&self.packed[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_gives_the_page_back_and_refuses_what_is_cut() {
        let page: Vec<u8> = (0..6000u32).map(|at| (at / 7 % 91) as u8).collect();
        let mut images = PageImages::default();
        for method in [Compression::Pglz, Compression::Lz4, Compression::Zstd] {
            let packed = images.compress(method, &page).unwrap().to_vec();
            assert!(packed.len() < page.len() / 2, "{method:?}");
            assert_eq!(
                images.decompress(method, &packed, page.len()),
                Some(&page[..])
            );
            let cut = &packed[..packed.len() / 2];
            assert_eq!(images.decompress(method, cut, page.len()), None);
        }
        assert_eq!(
            images.decompress(Compression::None, &page, page.len()),
            Some(&page[..])
        );
        assert_eq!(images.decompress(Compression::None, &page[1..], 6000), None);
    }

    #[test]
    fn what_does_not_get_smaller_stays_as_it_is() {
        let mut state = 1u64;
        let noise: Vec<u8> = (0..8000)
            .map(|_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        let mut images = PageImages::default();
        for method in [
            Compression::None,
            Compression::Pglz,
            Compression::Lz4,
            Compression::Zstd,
        ] {
            assert_eq!(images.compress(method, &noise), None);
        }
    }
}
