//! Any record on any page: it does something, and the same again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use walzip_pgformat::Version;
use walzip_pgformat::wal::RecordLayout;
use walzip_replay::{
    Follows, GinRows, PageBytes, PageCache, PageData, PageKey, Record, Revision, Rules,
    omitted_data, redo,
};

const PAGE: usize = 8192;

fuzz_target!(|input: &[u8]| {
    let Some((&[choice, cut], rest)) = input.split_first_chunk() else {
        return;
    };
    let version = Version::from_major(13 + u32::from(choice % 6)).expect("a supported major");
    let len = rest.len() * usize::from(cut) / 256;
    let (bytes, pages) = rest.split_at(len);
    let mut record = bytes.to_vec();
    if let Some(length) = record.first_chunk_mut() {
        *length = (len as u32).to_le_bytes();
    }
    if let Some(padding) = record.get_mut(18..20) {
        padding.fill(0);
    }
    let mut layout = RecordLayout::default();
    if layout.read_unchecked(&record, version).is_err() {
        return;
    }
    let record = Record {
        rules: Rules {
            version,
            revision: match choice / 6 % 4 {
                0 => Revision::First,
                1 => Revision::Second,
                _ => Revision::Third,
            },
        },
        layout: &layout,
        bytes: &record,
    };
    let page = page(pages);
    assert!(replayed(&record, &page) == replayed(&record, &page));
    let after = replayed(&record, &page);
    for (block, after) in layout.blocks.iter().zip(&after) {
        let _ = omitted_data(&record, block, &page, after);
    }
    let mut rows = GinRows::default();
    rows.learn(&record);
    if let Some(data) = PageData::of(&record) {
        for follows in [Follows::Data, Follows::All] {
            let _ = data.whole(&record, &page, &rows, follows);
        }
        let _ = data.rest(&record, &page, &rows);
    }
});

/// The input from the end of a page on backwards, and in its header and line pointers.
fn page(bytes: &[u8]) -> PageBytes {
    let mut page = [0; PAGE];
    let half = (bytes.len() / 2).min(PAGE / 2);
    page[..half].copy_from_slice(&bytes[..half]);
    page[PAGE - half..].copy_from_slice(&bytes[half..2 * half]);
    page
}

fn replayed(record: &Record<'_>, page: &PageBytes) -> Vec<PageBytes> {
    let mut cache = PageCache::new(64);
    let keys: Vec<PageKey> = record.layout.blocks.iter().map(PageKey::from).collect();
    for key in &keys {
        *cache.get_or_new(*key) = *page;
    }
    let _ = redo(record, &mut cache);
    keys.iter().map(|key| *cache.get_or_new(*key)).collect()
}
