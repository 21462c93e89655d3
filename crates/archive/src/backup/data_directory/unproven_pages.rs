//! Pages with wrong checksums that the WAL has, if their positions are right.
//!
//! A page that is written while it is read may be half old. Its position says that it comes from the WAL. Random
//! bytes have a position as well, which is somewhere: one from beyond the end of the backup is damage.

use std::path::{Path, PathBuf};

use walzip_pgformat::Lsn;

use super::changing_file::UnprovenPage;

/// How many pages are noted, those with the greatest positions.
const NOTED_MAX: usize = 64;
/// How many are named.
const NAMED_MAX: usize = 5;

/// The pages of a copy.
#[derive(Debug, Default)]
pub(crate) struct UnprovenPages {
    noted: Vec<(UnprovenPage, PathBuf)>,
}

impl UnprovenPages {
    /// Adds those of a file.
    pub(super) fn add(&mut self, path: &Path, pages: Vec<UnprovenPage>) {
        if pages.is_empty() {
            return;
        }
        let pages = pages.into_iter().map(|page| (page, path.to_owned()));
        self.noted.extend(pages);
        self.noted
            .sort_by_key(|(page, _)| std::cmp::Reverse(page.lsn));
        self.noted.truncate(NOTED_MAX);
    }

    /// How many of them, as far as they are noted, are from beyond the end of the backup. Some are named.
    pub(crate) fn beyond(&self, end: Lsn) -> u64 {
        let beyond = self.noted.iter().take_while(|(page, _)| page.lsn > end);
        let mut count = 0;
        for (UnprovenPage { lsn, block }, path) in beyond {
            count += 1;
            if count <= NAMED_MAX {
                let path = path.display();
                tracing::warn!(
                    "the checksum of block {block} in {path} is wrong, and its position {lsn} is beyond the WAL, \
                     which has come to {end}"
                );
            }
        }
        count as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_from_beyond_the_end_are_damage() {
        let mut pages = UnprovenPages::default();
        for file in 0u64..10 {
            let page = |number| UnprovenPage {
                lsn: Lsn(file * 100 + number),
                block: 7,
            };
            let path = PathBuf::from(format!("base/5/{file}"));
            pages.add(&path, (0..100).map(page).collect());
        }
        assert_eq!(pages.noted.len(), NOTED_MAX);
        for (end, beyond) in [
            (1000, 0),
            (999, 0),
            (998, 1),
            (990, 9),
            (0, NOTED_MAX as u64),
        ] {
            assert_eq!(pages.beyond(Lsn(end)), beyond, "{end}");
        }
    }
}
