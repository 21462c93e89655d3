//! An inspection as a person reads it on a terminal.

use std::collections::HashMap;
use std::fmt;

use walzip_bench::contents::{Counts, ImageCounts, ImageKind, RecordType, Relation};

use super::{Inspection, Member};
use crate::table::{Row, write_section};

/// Rows beyond these are left to `--json`.
const ROWS_MAX: usize = 20;

impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for file in &self.files {
            for member in &file.members {
                writeln!(f, "{}: {member}", file.path)?;
            }
        }
        let sizes = size_line(self.original_bytes, self.encoded_bytes);
        writeln!(
            f,
            "\nTotal: {sizes}, at level {} where it was not encoded yet",
            self.level
        )?;
        self.write_before(f)?;
        write_record_types(f, &self.contents.record_types)?;
        write_relations(f, &self.contents.relations)?;
        write_images(f, &self.contents.images)?;
        self.write_after(f)
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes = size_line(self.original_bytes, self.encoded_bytes);
        match &self.segment {
            Some(segment) => write!(
                f,
                "PostgreSQL {}, system {}, timeline {}, from {}, {sizes}",
                segment.major, segment.system_identifier, segment.timeline, segment.start
            ),
            None => write!(f, "no WAL segment, {sizes}"),
        }
    }
}

fn size_line(original: u64, encoded: u64) -> String {
    format!(
        "{original} bytes, encoded {encoded} ({})",
        share(encoded, original)
    )
}

impl Inspection {
    fn write_before(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = &self.contents.before;
        let parts = [
            ("page images", before.image_bytes),
            ("data of records", before.record_data_bytes),
            ("headers of records", before.record_header_bytes),
            ("headers of WAL pages", before.page_header_bytes),
            ("parts of records", before.fragment_bytes),
            ("padding", before.padding_bytes),
            ("zeros behind the end", before.zero_bytes),
            ("other bytes", before.other_bytes),
        ];
        let rows = parts
            .into_iter()
            .filter(|(_, bytes)| *bytes > 0)
            .map(|(name, bytes)| {
                vec![
                    name.to_owned(),
                    bytes.to_string(),
                    share(bytes, self.original_bytes),
                ]
            });
        write_section(f, &["Before", "bytes", "share"], rows.collect())
    }

    fn write_after(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut after: Vec<_> = self.after.iter().collect();
        after.sort_by_key(|stream| std::cmp::Reverse(stream.encoded_bytes));
        let total: usize = after.iter().map(|stream| stream.encoded_bytes).sum();
        let rows = after.into_iter().map(|stream| {
            vec![
                stream.kind.to_owned(),
                stream.stream_bytes.to_string(),
                stream.encoded_bytes.to_string(),
                share(stream.encoded_bytes as u64, total as u64),
            ]
        });
        write_section(
            f,
            &["After", "in streams", "encoded", "share"],
            rows.collect(),
        )
    }
}

fn write_record_types(
    f: &mut fmt::Formatter<'_>,
    types: &HashMap<RecordType, Counts>,
) -> fmt::Result {
    let name = |key: &RecordType| format!("{}/{}", key.resource_manager, key.record_type);
    let heads = [
        "Record type",
        "records",
        "headers",
        "data",
        "images",
        "image bytes",
        "bytes",
        "share",
    ];
    write_section(f, &heads, counts_rows(types, name, true))
}

fn write_relations(
    f: &mut fmt::Formatter<'_>,
    relations: &HashMap<Relation, Counts>,
) -> fmt::Result {
    let name = |key: &Relation| format!("{}/{}/{}", key.tablespace, key.database, key.relation);
    let heads = [
        "Relation",
        "references",
        "data",
        "images",
        "image bytes",
        "bytes",
        "share",
    ];
    write_section(f, &heads, counts_rows(relations, name, false))
}

fn write_images(
    f: &mut fmt::Formatter<'_>,
    images: &HashMap<ImageKind, ImageCounts>,
) -> fmt::Result {
    let mut sorted: Vec<_> = images.iter().collect();
    sorted.sort_by_key(|(kind, _)| *kind);
    let rows = sorted.into_iter().map(|(kind, counts)| {
        vec![
            kind.compression.to_owned(),
            counts.images.to_string(),
            counts.page_bytes.to_string(),
            counts.image_bytes.to_string(),
        ]
    });
    write_section(
        f,
        &["Image compression", "images", "page bytes", "image bytes"],
        rows.collect(),
    )
}

/// The largest first; those that do not fit are summed in a last row.
fn counts_rows<K: Ord>(
    map: &HashMap<K, Counts>,
    name: impl Fn(&K) -> String,
    with_headers: bool,
) -> Vec<Row> {
    let mut sorted: Vec<(&K, &Counts)> = map.iter().collect();
    sorted.sort_by_key(|(key, counts)| (std::cmp::Reverse(counts.bytes()), *key));
    let total = sorted.iter().map(|(_, counts)| counts.bytes()).sum();
    let row = |name: String, counts: &Counts| {
        let mut row = vec![name, counts.count.to_string()];
        if with_headers {
            row.push(counts.header_bytes.to_string());
        }
        let rest = [
            counts.data_bytes,
            counts.images,
            counts.image_bytes,
            counts.bytes(),
        ];
        row.extend(rest.map(|number| number.to_string()));
        row.push(share(counts.bytes(), total));
        row
    };
    let (shown, rest) = sorted.split_at(sorted.len().min(ROWS_MAX));
    let mut rows: Vec<Row> = shown
        .iter()
        .map(|(key, counts)| row(name(key), counts))
        .collect();
    if !rest.is_empty() {
        let sum = rest.iter().fold(Counts::default(), |mut sum, (_, counts)| {
            sum.add(counts);
            sum
        });
        rows.push(row(format!("{} more", rest.len()), &sum));
    }
    rows
}

fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".to_owned(),
        _ => format!("{:.1} %", part as f64 * 100.0 / whole as f64),
    }
}
