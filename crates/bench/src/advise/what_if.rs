//! What another `wal_compression` would have made of the same WAL: its page images are
//! compressed as that setting would, its records put together again, and real programs measured
//! on the segments that come of it.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use walzip_codec::PageImages;
use walzip_pgformat::version::ImageFlags;
use walzip_pgformat::wal::{
    Compression, Event, IMAGE_HAS_HOLE, Image, PageState, RecordLayout, SegmentHeader,
    SegmentReader, SegmentWriter,
};
use walzip_pgformat::{Lsn, PAGE_SIZE};

use crate::error::Error;

/// The settings, as `wal_compression` has them; before 15 `on` means pglz.
pub(super) const SETTINGS: [(&str, Compression); 4] = [
    ("off", Compression::None),
    ("pglz", Compression::Pglz),
    ("lz4", Compression::Lz4),
    ("zstd", Compression::Zstd),
];
/// A page header, and what aligns a record.
const PAGE_EXTRA: usize = 24;
const ALIGN_EXTRA: usize = 8;

/// The WAL under a setting.
#[derive(Clone, Debug, Serialize)]
pub struct WhatIf {
    /// The value of `wal_compression`.
    pub setting: &'static str,
    /// Whether the images in the WAL are compressed so today.
    pub present: bool,
    /// Bytes of WAL, for the segments that were rewritten.
    pub wal_bytes: u64,
    /// Processor seconds for compressing the images in them.
    pub compress_cpu_s: f64,
    /// What programs make of it.
    pub archived: Vec<Archived>,
    #[serde(skip)]
    pub(super) files: Vec<PathBuf>,
}

/// What a program makes of rewritten segments.
#[derive(Clone, Debug, Serialize)]
pub struct Archived {
    /// The program and its level.
    pub label: String,
    /// Bytes of all compressed segments.
    pub bytes: u64,
    /// Processor seconds of compressing them all.
    pub compress_cpu_s: f64,
}

impl WhatIf {
    /// The setting, and whether it is today's.
    pub(super) fn name(&self) -> String {
        match self.present {
            true => format!("{} (today)", self.setting),
            false => self.setting.to_owned(),
        }
    }

    /// What a program makes of it.
    pub fn archived_by(&self, label: &str) -> Option<&Archived> {
        self.archived
            .iter()
            .find(|archived| archived.label == label)
    }
}

/// The settings that a major has.
pub(super) fn settings_of(major: u32) -> &'static [(&'static str, Compression)] {
    if major < 15 {
        &SETTINGS[..2]
    } else {
        &SETTINGS
    }
}

/// Rewrites segments for each setting, into a folder for each.
pub(super) fn rewrite_all(
    segments: &[PathBuf],
    major: u32,
    present: &str,
    directory: &Path,
) -> Result<Vec<WhatIf>, Error> {
    let mut settings = Vec::new();
    for &(setting, method) in settings_of(major) {
        let folder = directory.join(setting);
        fs::create_dir(&folder).map_err(|source| Error::file(&folder, source))?;
        let mut what_if = WhatIf {
            setting,
            present: setting == present,
            wal_bytes: 0,
            compress_cpu_s: 0.0,
            archived: Vec::new(),
            files: Vec::new(),
        };
        for segment in segments {
            let bytes = fs::read(segment).map_err(|source| Error::file(segment, source))?;
            let Ok(mut rewriter) = Rewriter::new(&bytes, method) else {
                continue;
            };
            rewriter.rewrite();
            what_if.wal_bytes += rewriter.written;
            what_if.compress_cpu_s += rewriter.cpu_seconds;
            for written in rewriter.finish() {
                let path = folder.join(format!("{:024X}", what_if.files.len() + 1));
                fs::write(&path, written).map_err(|source| Error::file(&path, source))?;
                what_if.files.push(path);
            }
        }
        settings.push(what_if);
    }
    Ok(settings)
}

/// A segment with nothing in it but its header: what archive_timeout archives when nothing
/// happens.
pub(super) fn empty_segment(like: &[u8]) -> Option<Vec<u8>> {
    let header = SegmentHeader::read(like).ok()?;
    Some(padded(begin(header), header.segment_size))
}

fn begin(header: SegmentHeader) -> SegmentWriter {
    let mut writer = SegmentWriter::new(header, header.segment_size as usize);
    let state = PageState {
        page: 0,
        flags: 0,
        timeline: header.timeline.0,
    };
    writer.start_run(state, 0, Vec::new());
    writer
}

fn padded(mut writer: SegmentWriter, segment_size: u32) -> Vec<u8> {
    let left = (segment_size as usize).saturating_sub(writer.len());
    writer.zeros(left);
    writer.into_bytes()
}

struct Rewriter<'a> {
    reader: SegmentReader<'a>,
    header: SegmentHeader,
    method: Compression,
    images: PageImages,
    writer: SegmentWriter,
    full: Vec<Vec<u8>>,
    prev: Option<u64>,
    written: u64,
    cpu_seconds: f64,
}

impl<'a> Rewriter<'a> {
    fn new(
        segment: &'a [u8],
        method: Compression,
    ) -> Result<Self, walzip_pgformat::wal::SegmentHeaderError> {
        let reader = SegmentReader::new(segment)?;
        let header = *reader.header();
        Ok(Rewriter {
            reader,
            header,
            method,
            images: PageImages::default(),
            writer: begin(header),
            full: Vec::new(),
            prev: None,
            written: 0,
            cpu_seconds: 0.0,
        })
    }

    /// Whole records only: the parts of those that cross the segment's ends are left out.
    fn rewrite(&mut self) {
        let mut layout = RecordLayout::default();
        while let Some(event) = self.reader.next_event(&mut layout) {
            if let Event::Record { .. } = event {
                let record = self.reader.bytes().to_vec();
                self.record(&mut layout, &record);
            }
        }
    }

    fn finish(self) -> Vec<Vec<u8>> {
        let mut segments = self.full;
        segments.push(padded(self.writer, self.header.segment_size));
        segments
    }

    fn record(&mut self, layout: &mut RecordLayout, record: &[u8]) {
        let mut data = Vec::with_capacity(record.len());
        for block in &mut layout.blocks {
            if let Some(image) = &mut block.image {
                self.image(image, record, &mut data);
            }
            let end = block.data_start + usize::from(block.data_len);
            data.extend_from_slice(record.get(block.data_start..end).unwrap_or_default());
        }
        let end = layout.main_start + layout.main_len;
        data.extend_from_slice(record.get(layout.main_start..end).unwrap_or_default());
        let mut rewritten = vec![0; layout.headers_len()];
        rewritten.extend_from_slice(&data);

        self.make_room(rewritten.len());
        let offset = self.writer.next_record_offset();
        layout.header.prev = self.prev.unwrap_or(layout.header.prev);
        layout.write_headers(&mut rewritten);
        self.prev = Some(self.header.start.0 + offset as u64);
        let before = self.writer.len();
        self.writer.record(&rewritten);
        self.written += (self.writer.len() - before) as u64;
    }

    /// Compresses an image as the setting would; what is not understood stays as it is.
    fn image(&mut self, image: &mut Image, record: &[u8], data: &mut Vec<u8>) {
        let stored = record
            .get(image.start..image.start + usize::from(image.len))
            .unwrap_or_default();
        let page_len = image.page_len();
        let page = self.images.decompress(image.compression, stored, page_len);
        let Some(page) = page.map(<[u8]>::to_vec) else {
            data.extend_from_slice(stored);
            return;
        };
        let has_hole = image.flags & IMAGE_HAS_HOLE != 0;
        let start = thread_seconds();
        let packed = self.images.compress(self.method, &page);
        self.cpu_seconds += thread_seconds() - start;
        // With a hole, its length takes two more bytes.
        let packed = packed.filter(|packed| packed.len() + 2 * usize::from(has_hole) < page_len);
        let numbering = self.header.version.image_flags;
        let method = packed.map_or(Compression::None, |_| self.method);
        let bytes = packed.unwrap_or(&page);
        image.flags = image.flags & kept_flags(numbering) | method_flag(method, numbering);
        image.compression = method;
        image.len = bytes.len() as u16;
        data.extend_from_slice(bytes);
    }

    /// Begins another segment where a record would not fit.
    fn make_room(&mut self, len: usize) {
        let extra = (len / PAGE_SIZE + 2) * PAGE_EXTRA + ALIGN_EXTRA;
        let end = self.writer.next_record_offset() + len + extra;
        if end <= self.header.segment_size as usize || self.writer.len() <= PAGE_SIZE {
            return;
        }
        self.header.start = Lsn(self.header.start.0 + u64::from(self.header.segment_size));
        let writer = std::mem::replace(&mut self.writer, begin(self.header));
        self.full.push(padded(writer, self.header.segment_size));
    }
}

/// What an image's flags say beside its compression: that it has a hole and is to be applied.
fn kept_flags(numbering: ImageFlags) -> u8 {
    match numbering {
        ImageFlags::UpTo14 => 0x05,
        ImageFlags::From15 => 0x03,
    }
}

fn method_flag(method: Compression, numbering: ImageFlags) -> u8 {
    match (method, numbering) {
        (Compression::Pglz, ImageFlags::UpTo14) => 0x02,
        (Compression::Pglz, ImageFlags::From15) => 0x04,
        (Compression::Lz4, _) => 0x08,
        (Compression::Zstd, _) => 0x10,
        (Compression::None | Compression::Unknown, _) => 0,
    }
}

/// Processor time: how busy the machine is does not show.
fn thread_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use walzip_pgformat::version::Version;
    use walzip_pgformat::wal::{Block, RecordHeader, RelFileLocator};
    use walzip_pgformat::{SystemId, TimelineId};

    const SEGMENT: u32 = 1 << 20;

    /// A page that compresses, with something of its own.
    fn page(number: u32) -> Vec<u8> {
        let mut page = vec![7; PAGE_SIZE];
        for (at, byte) in page.iter_mut().enumerate().step_by(31) {
            *byte = (number as usize * 13 + at / 31) as u8;
        }
        page
    }

    fn header() -> SegmentHeader {
        SegmentHeader {
            version: Version::from_major(15).unwrap(),
            flags: 0,
            timeline: TimelineId(1),
            start: Lsn(u64::from(SEGMENT)),
            system_id: SystemId(1),
            segment_size: SEGMENT,
            remaining_len: 0,
        }
    }

    /// A segment of uncompressed images, each a record of its own.
    fn segment(images: u32) -> Vec<u8> {
        let mut writer = begin(header());
        let mut prev = 0;
        for number in 0..images {
            let image = Image {
                len: PAGE_SIZE as u16,
                hole_offset: 0,
                hole_len: 0,
                flags: 0x02,
                compression: Compression::None,
                start: 0,
            };
            let mut layout = RecordLayout {
                header: RecordHeader {
                    prev,
                    rmid: walzip_pgformat::rmgr_id::XLOG,
                    info: 0xB0,
                    ..RecordHeader::default()
                },
                blocks: vec![Block {
                    id: 0,
                    fork_flags: Block::HAS_IMAGE,
                    data_len: 0,
                    data_start: 0,
                    image: Some(image),
                    locator: RelFileLocator::default(),
                    number,
                }],
                ..RecordLayout::default()
            };
            let mut record = vec![0; layout.headers_len()];
            record.extend(page(number));
            layout.write_headers(&mut record);
            prev = u64::from(SEGMENT) + writer.next_record_offset() as u64;
            writer.record(&record);
        }
        padded(writer, SEGMENT)
    }

    fn rewritten(segment: &[u8], method: Compression) -> (u64, Vec<Vec<u8>>) {
        let mut rewriter = Rewriter::new(segment, method).unwrap();
        rewriter.rewrite();
        (rewriter.written, rewriter.finish())
    }

    /// The number and method of each image, which has to be of its page.
    fn images_of(segment: &[u8]) -> Vec<(u32, Compression)> {
        let mut reader = SegmentReader::new(segment).unwrap();
        let mut layout = RecordLayout::default();
        let mut images = PageImages::default();
        let mut found = Vec::new();
        while let Some(event) = reader.next_event(&mut layout) {
            let Event::Record { .. } = event else {
                continue;
            };
            let block = layout.blocks[0];
            let image = block.image.unwrap();
            let bytes = &reader.bytes()[image.start..image.start + usize::from(image.len)];
            let back = images.decompress(image.compression, bytes, image.page_len());
            assert_eq!(back, Some(&page(block.number)[..]));
            found.push((block.number, image.compression));
        }
        found
    }

    #[test]
    fn each_setting_carries_the_same_pages_in_less_wal_and_leads_back_to_the_same_bytes() {
        let original = segment(100);
        let (plain, _) = rewritten(&original, Compression::None);
        for (_, method) in SETTINGS {
            let (written, segments) = rewritten(&original, method);
            assert_eq!(segments.len(), 1);
            let expected: Vec<_> = (0..100).map(|number| (number, method)).collect();
            assert_eq!(images_of(&segments[0]), expected);
            if method != Compression::None {
                assert!(written < plain / 2, "{method:?}: {written} of {plain}");
            }
            let (_, back) = rewritten(&segments[0], Compression::None);
            assert!(back == [original.clone()], "{method:?}");
        }
    }

    #[test]
    fn what_does_not_fit_goes_on_in_another_segment() {
        let original = segment(100);
        let mut rewriter = Rewriter::new(&original, Compression::None).unwrap();
        rewriter.rewrite();
        // The same records again, behind the first.
        rewriter.reader = SegmentReader::new(&original).unwrap();
        rewriter.rewrite();
        let segments = rewriter.finish();
        assert_eq!(segments.len(), 2);
        let next = SegmentHeader::read(&segments[1]).unwrap();
        assert_eq!(next.start.0, 2 * u64::from(SEGMENT));
        let all: Vec<u32> = segments
            .iter()
            .flat_map(|segment| images_of(segment))
            .map(|(number, _)| number)
            .collect();
        let expected: Vec<u32> = (0..100).chain(0..100).collect();
        assert_eq!(all, expected);
    }

    #[test]
    fn an_empty_segment_is_one_of_the_same_cluster() {
        let empty = empty_segment(&segment(1)).unwrap();
        assert_eq!(SegmentHeader::read(&empty).unwrap().start, header().start);
        assert_eq!(empty.len(), SEGMENT as usize);
        assert!(images_of(&empty).is_empty());
    }
}
