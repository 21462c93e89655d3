//! An inspection as a person reads it on a terminal.

use std::collections::HashMap;
use std::fmt;

use walzip_bench::contents::{Counts, Filter, ImageCounts, ImageKind, RecordType, Relation};
use walzip_pgformat::Lsn;

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
        self.write_activity(f)?;
        self.write_before(f)?;
        self.write_record_types(f)?;
        self.write_relations(f)?;
        write_images(f, &self.contents.images)?;
        if self.shows_streams {
            self.write_after(f)?;
        }
        Ok(())
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
    /// From where to where, when, and how fast.
    fn write_activity(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let activity = &self.activity;
        let (Some(first), Some(end)) = (activity.first_position, activity.end_position) else {
            return Ok(());
        };
        write!(f, "Positions {} to {}: ", Lsn(first), Lsn(end))?;
        let of_all = match self.contents.filter == Filter::default() {
            true => "",
            false => ", of the whole files",
        };
        writeln!(
            f,
            "{} records, {} ends of transactions, {} checkpoints{of_all}",
            activity.records, activity.transactions, activity.checkpoints
        )?;
        let (Some(first), Some(last)) = (&activity.first_time, &activity.last_time) else {
            return writeln!(f, "Written at a time that no transaction in it tells");
        };
        write!(f, "Written from {} to {}", first.time, last.time)?;
        match self.bytes_per_second {
            Some(rate) => writeln!(f, ", {:.2} MB/s in the mean", rate / 1e6),
            None => writeln!(f),
        }
    }

    fn write_record_types(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |key: &RecordType| format!("{}/{}", key.resource_manager, key.record_type);
        let heads = [
            "Record type",
            "records",
            "headers",
            "data",
            "images",
            "image bytes",
            "bytes",
            "of all bytes",
        ];
        let types = &self.contents.record_types;
        write_section(f, &heads, self.counts_rows(types, name, true))
    }

    fn write_relations(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let relations = &self.contents.relations;
        let name = |key: &Relation| {
            let numbers = format!("{}/{}/{}", key.tablespace, key.database, key.relation);
            match relations.names.get(key) {
                Some(name) => format!("{numbers} {name}"),
                None => numbers,
            }
        };
        let heads = [
            "Relation",
            "references",
            "data",
            "images",
            "image bytes",
            "bytes",
            "of all bytes",
        ];
        write_section(f, &heads, self.counts_rows(&relations.counts, name, false))
    }

    /// The largest first; those that do not fit are summed in a last row. Every share is of all bytes.
    fn counts_rows<K: Ord>(
        &self,
        map: &HashMap<K, Counts>,
        name: impl Fn(&K) -> String,
        with_headers: bool,
    ) -> Vec<Row> {
        let mut sorted: Vec<(&K, &Counts)> = map.iter().collect();
        sorted.sort_by_key(|(key, counts)| (std::cmp::Reverse(counts.bytes()), *key));
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
            row.push(share(counts.bytes(), self.original_bytes));
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
            ("records that were not asked for", before.left_out_bytes),
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

fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".to_owned(),
        _ => format!("{:.1} %", part as f64 * 100.0 / whole as f64),
    }
}
