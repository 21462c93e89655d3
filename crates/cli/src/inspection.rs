//! What is in segments, and where their bytes go: before encoding, by record type, relation and
//! image; after it, by what the codec's streams hold.
//!
//! The names of the fields are those of `walzip inspect --json`: they are added to, never
//! renamed. Every byte of a segment is counted once under `before`.

mod text;

use std::collections::HashMap;
use std::path::Path;

use serde::Serialize;
use walzip_bench::activity::Activity;
use walzip_bench::contents::{Contents, Filter, Relation};
use walzip_codec::{EncodeError, KindAccount, Level};
use walzip_pgformat::wal::SegmentHeader;

/// The version of the JSON form.
const FORMAT: u32 = 1;

/// Everything that was found in some files.
#[derive(Debug, Serialize)]
pub struct Inspection {
    format: u32,
    level: u8,
    files: Vec<FileInspection>,
    original_bytes: u64,
    encoded_bytes: u64,
    activity: Activity,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_per_second: Option<f64>,
    #[serde(flatten)]
    contents: Contents,
    #[serde(skip)]
    shows_streams: bool,
    after: Vec<StreamBytes>,
}

/// One file.
#[derive(Debug, Serialize)]
struct FileInspection {
    path: String,
    members: Vec<Member>,
}

/// One segment, or other data that is encoded at once.
#[derive(Debug, Serialize)]
struct Member {
    original_bytes: u64,
    encoded_bytes: u64,
    /// Nothing for what is no WAL segment.
    segment: Option<Segment>,
}

/// What a segment says of itself.
#[derive(Debug, Serialize)]
struct Segment {
    major: u32,
    timeline: u32,
    start: String,
    segment_size_bytes: u32,
    system_identifier: String,
}

/// The streams of one kind.
#[derive(Debug, Default, Serialize)]
struct StreamBytes {
    category: String,
    kind: &'static str,
    streams: usize,
    stream_bytes: usize,
    encoded_bytes: usize,
}

impl Inspection {
    /// An inspection of no files yet; `level` is used for what is not encoded yet.
    pub fn new(level: Level, filter: Filter) -> Inspection {
        Inspection {
            format: FORMAT,
            level: level.get(),
            files: Vec::new(),
            original_bytes: 0,
            encoded_bytes: 0,
            activity: Activity::default(),
            bytes_per_second: None,
            contents: Contents {
                filter,
                ..Contents::default()
            },
            shows_streams: false,
            after: Vec::new(),
        }
    }

    /// Tells what relations are called.
    pub fn name_relations(&mut self, names: HashMap<Relation, String>) {
        self.contents.relations.names = names;
    }

    /// The clusters that wrote the segments, by their system identifiers; a cluster may repeat.
    pub fn systems(&self) -> impl Iterator<Item = &str> {
        let members = self.files.iter().flat_map(|file| &file.members);
        let segments = members.filter_map(|member| member.segment.as_ref());
        segments.map(|segment| segment.system_identifier.as_str())
    }

    /// Shows the codec's own table as well.
    pub fn show_streams(&mut self) {
        self.shows_streams = true;
    }

    /// Begins a file; what is added belongs to it.
    pub fn begin_file(&mut self, path: &Path) {
        let path = path.display().to_string();
        self.files.push(FileInspection {
            path,
            members: Vec::new(),
        });
    }

    /// Adds a segment, or other data of a member, that has so many bytes encoded.
    pub fn add(
        &mut self,
        original: &[u8],
        encoded_bytes: u64,
        level: Level,
    ) -> Result<(), EncodeError> {
        let segment = SegmentHeader::read(original).ok().map(|header| Segment {
            major: header.version.major,
            timeline: header.timeline.0,
            start: header.start.to_string(),
            segment_size_bytes: header.segment_size,
            system_identifier: header.system_id.to_string(),
        });
        self.contents.add(original);
        self.activity.add(original);
        self.bytes_per_second = self.activity.bytes_per_second();
        for account in walzip_codec::account(original, level)?.unwrap_or_default() {
            self.stream_bytes(&account);
        }
        let original_bytes = original.len() as u64;
        self.original_bytes += original_bytes;
        self.encoded_bytes += encoded_bytes;
        if let Some(file) = self.files.last_mut() {
            file.members.push(Member {
                original_bytes,
                encoded_bytes,
                segment,
            });
        }
        Ok(())
    }

    fn stream_bytes(&mut self, account: &KindAccount) {
        let kind = account.kind.label();
        let index = self.after.iter().position(|after| after.kind == kind);
        let index = index.unwrap_or_else(|| {
            let category = format!("{:?}", account.category);
            self.after.push(StreamBytes {
                category,
                kind,
                ..StreamBytes::default()
            });
            self.after.len() - 1
        });
        let after = &mut self.after[index];
        after.streams += account.streams;
        after.stream_bytes += account.stream_bytes;
        after.encoded_bytes += account.packed_bytes;
    }
}
