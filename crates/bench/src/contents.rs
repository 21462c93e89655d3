//! The bytes of segments as PostgreSQL wrote them: by record type, relation and image.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::{Serialize, Serializer};
use walzip_pgformat::rmgr::{record_type_name, rmgr_name};
use walzip_pgformat::wal::{
    Compression, Event, Image, RecordLayout, RelFileLocator, SegmentReader, max_align,
};

/// Which records are counted: those that are of one of each list that is not empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Names of resource managers, in any case.
    pub resource_managers: Vec<String>,
    /// Relations that the record refers to.
    pub relations: Vec<Relation>,
    /// Transactions, by their numbers.
    pub transactions: Vec<u32>,
}

impl Filter {
    fn takes(&self, layout: &RecordLayout) -> bool {
        let name = rmgr_name(layout.header.rmid);
        let is_named = |wanted: &String| wanted.eq_ignore_ascii_case(&name);
        let refers_to = |wanted: &Relation| {
            let mut blocks = layout.blocks.iter();
            blocks.any(|block| Relation::from(block.locator) == *wanted)
        };
        (self.resource_managers.is_empty() || self.resource_managers.iter().any(is_named))
            && (self.relations.is_empty() || self.relations.iter().any(refers_to))
            && (self.transactions.is_empty() || self.transactions.contains(&layout.header.xid))
    }
}

/// What was found in segments.
#[derive(Debug, Default, Serialize)]
pub struct Contents {
    /// What is looked for.
    #[serde(skip)]
    pub filter: Filter,
    /// Every byte, by what it is.
    pub before: Before,
    /// By resource manager and record type.
    #[serde(serialize_with = "rows")]
    pub record_types: HashMap<RecordType, Counts>,
    /// By relation.
    pub relations: Relations,
    /// Page images, by how they are compressed.
    #[serde(serialize_with = "rows")]
    pub images: HashMap<ImageKind, ImageCounts>,
}

/// Every byte of the input, counted once.
#[derive(Debug, Default, Serialize)]
pub struct Before {
    /// Headers of WAL pages.
    pub page_header_bytes: u64,
    /// Record headers, block references and the headers of images.
    pub record_header_bytes: u64,
    /// Data of records and of their blocks.
    pub record_data_bytes: u64,
    /// Page images.
    pub image_bytes: u64,
    /// Parts of records whose other part is in another segment.
    pub fragment_bytes: u64,
    /// Zeros that align records.
    pub padding_bytes: u64,
    /// Zeros behind the last record.
    pub zero_bytes: u64,
    /// Records that the filter leaves out.
    pub left_out_bytes: u64,
    /// What is neither: remains of older segments, or no WAL at all.
    pub other_bytes: u64,
}

/// The name of a record type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct RecordType {
    /// The resource manager's name.
    pub resource_manager: Cow<'static, str>,
    /// The name that the resource manager gives it.
    pub record_type: Cow<'static, str>,
}

/// Relations, and what a server calls them.
#[derive(Debug, Default)]
pub struct Relations {
    /// What references to each amount to.
    pub counts: HashMap<Relation, Counts>,
    /// Names of those that a server was asked for.
    pub names: HashMap<Relation, String>,
}

impl Serialize for Relations {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Row<'a> {
            #[serde(flatten)]
            relation: &'a Relation,
            name: Option<&'a String>,
            #[serde(flatten)]
            counts: &'a Counts,
        }
        let row = |(relation, counts)| Row {
            relation,
            name: self.names.get(relation),
            counts,
        };
        let mut rows: Vec<Row<'_>> = self.counts.iter().map(row).collect();
        rows.sort_by_key(|row| row.relation);
        serializer.collect_seq(rows)
    }
}

/// A relation's file, by the numbers that name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Relation {
    /// The tablespace's OID.
    pub tablespace: u32,
    /// The database's OID, 0 for a shared relation.
    pub database: u32,
    /// The relation's file number.
    pub relation: u32,
}

impl From<RelFileLocator> for Relation {
    fn from(locator: RelFileLocator) -> Relation {
        Relation {
            tablespace: locator.tablespace,
            database: locator.database,
            relation: locator.relation,
        }
    }
}

/// How an image is compressed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ImageKind {
    /// The method, or `none`.
    pub compression: &'static str,
}

/// What records of a type, or references to a relation, amount to.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Counts {
    /// Records, or references.
    pub count: u64,
    /// Headers; with the record type, as one header may name several relations.
    pub header_bytes: u64,
    /// Data; of a relation only what belongs to its blocks.
    pub data_bytes: u64,
    /// Page images.
    pub images: u64,
    /// Their bytes.
    pub image_bytes: u64,
}

/// What images amount to.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct ImageCounts {
    /// Images.
    pub images: u64,
    /// Their bytes in the records.
    pub image_bytes: u64,
    /// The bytes of their pages, holes left out.
    pub page_bytes: u64,
}

impl Counts {
    /// All bytes.
    pub fn bytes(&self) -> u64 {
        self.header_bytes + self.data_bytes + self.image_bytes
    }

    /// Adds another count to this one.
    pub fn add(&mut self, other: &Counts) {
        self.count += other.count;
        self.header_bytes += other.header_bytes;
        self.data_bytes += other.data_bytes;
        self.images += other.images;
        self.image_bytes += other.image_bytes;
    }
}

impl Contents {
    /// Adds the bytes of a segment, or of anything else.
    pub fn add(&mut self, bytes: &[u8]) {
        let Ok(mut reader) = SegmentReader::new(bytes) else {
            self.before.other_bytes += bytes.len() as u64;
            return;
        };
        let version = reader.header().version;
        let mut layout = RecordLayout::default();
        let mut by_number: HashMap<(u8, u8), Counts> = HashMap::new();
        let mut covered = 0;
        while let Some(event) = reader.next_event(&mut layout) {
            covered += match event {
                Event::Record { .. } if !self.filter.takes(&layout) => {
                    let len = u64::from(layout.header.total_len);
                    self.before.left_out_bytes += len;
                    self.aligned(len as usize)
                }
                Event::Record { .. } => {
                    let header = layout.header;
                    let counts = self.record(&layout);
                    by_number
                        .entry((header.rmid, header.info))
                        .or_default()
                        .add(&counts);
                    self.aligned(header.total_len as usize)
                }
                Event::Lead { whole } => {
                    let len = reader.bytes().len();
                    self.before.fragment_bytes += len as u64;
                    if whole { self.aligned(len) } else { len as u64 }
                }
                Event::Tail { .. } => {
                    let len = reader.bytes().len() as u64;
                    self.before.fragment_bytes += len;
                    len
                }
                Event::Other { start, end } => self.other(bytes.get(start..end)),
                Event::RunStart { .. } | Event::RunEnd { .. } => 0,
            };
        }
        self.before.page_header_bytes += (bytes.len() as u64).saturating_sub(covered);
        for ((rmid, info), counts) in by_number {
            let name = RecordType {
                resource_manager: rmgr_name(rmid),
                record_type: record_type_name(version, rmid, info),
            };
            self.record_types.entry(name).or_default().add(&counts);
        }
    }

    /// Counts a record's parts.
    fn record(&mut self, layout: &RecordLayout) -> Counts {
        let mut counts = Counts {
            count: 1,
            data_bytes: layout.main_len as u64,
            ..Counts::default()
        };
        for block in &layout.blocks {
            let data_bytes = u64::from(block.data_len);
            let image_bytes = block.image.map_or(0, |image| u64::from(image.len));
            let images = u64::from(block.image.is_some());
            counts.data_bytes += data_bytes;
            counts.images += images;
            counts.image_bytes += image_bytes;
            let relation = Relation::from(block.locator);
            let reference = Counts {
                count: 1,
                header_bytes: 0,
                data_bytes,
                images,
                image_bytes,
            };
            let of_relations = &mut self.relations.counts;
            of_relations.entry(relation).or_default().add(&reference);
            if let Some(image) = &block.image {
                self.image(image);
            }
        }
        let content = counts.data_bytes + counts.image_bytes;
        counts.header_bytes = u64::from(layout.header.total_len).saturating_sub(content);
        self.before.record_header_bytes += counts.header_bytes;
        self.before.record_data_bytes += counts.data_bytes;
        self.before.image_bytes += counts.image_bytes;
        counts
    }

    fn image(&mut self, image: &Image) {
        let compression = match image.compression {
            Compression::None => "none",
            Compression::Pglz => "pglz",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
            Compression::Unknown => "unknown",
        };
        let counts = self.images.entry(ImageKind { compression }).or_default();
        counts.images += 1;
        counts.image_bytes += u64::from(image.len);
        counts.page_bytes += image.page_len() as u64;
    }

    /// Counts the padding behind `len` bytes; returns both together.
    fn aligned(&mut self, len: usize) -> u64 {
        let aligned = max_align(len);
        self.before.padding_bytes += (aligned - len) as u64;
        aligned as u64
    }

    fn other(&mut self, bytes: Option<&[u8]>) -> u64 {
        let bytes = bytes.unwrap_or_default();
        let len = bytes.len() as u64;
        if bytes.iter().all(|&byte| byte == 0) {
            self.before.zero_bytes += len;
        } else {
            self.before.other_bytes += len;
        }
        len
    }
}

/// A map with its keys in order, each row with the fields of both sides.
fn rows<K, V, S>(map: &HashMap<K, V>, serializer: S) -> Result<S::Ok, S::Error>
where
    K: Serialize + Ord,
    V: Serialize,
    S: Serializer,
{
    #[derive(Serialize)]
    struct Row<'a, K, V> {
        #[serde(flatten)]
        key: &'a K,
        #[serde(flatten)]
        value: &'a V,
    }
    let mut sorted: Vec<_> = map.iter().map(|(key, value)| Row { key, value }).collect();
    sorted.sort_by_key(|row| row.key);
    serializer.collect_seq(sorted)
}
