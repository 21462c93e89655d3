//! The objects of a repository that is copied, by when they are.

use std::collections::BTreeMap;

use object_store::ObjectMeta;

use crate::layout::{
    self, ASIDE_PREFIX, BACKUP_EXPIRING, BACKUP_JSON, BACKUP_PINNED, BACKUP_PREFIX, BACKUP_STARTED,
    CLUSTER_JSON, KEYS_PREFIX, PACKED_JSON, PROBE, REPOSITORY_JSON, VERIFIED_PREFIX, WAL_PREFIX,
};
use crate::names::backup_label::BackupLabel;

/// The end of the keys of timeline histories.
pub(super) const HISTORY_SUFFIX: &str = ".history.wz";

/// The objects of a repository, by when they are copied.
#[derive(Default)]
pub(super) struct Sorted {
    pub(super) marks: Vec<ObjectMeta>,
    pub(super) records: Vec<ObjectMeta>,
    pub(super) histories: Vec<ObjectMeta>,
    /// Set aside as well.
    pub(super) wal: Vec<ObjectMeta>,
    /// The finished backups' objects and the others', by label.
    pub(super) backups: BTreeMap<String, Backup>,
    pub(super) first_record: Vec<ObjectMeta>,
    pub(super) unknown: u64,
}

#[derive(Default)]
pub(super) struct Backup {
    pub(super) started: Vec<ObjectMeta>,
    pub(super) data: Vec<ObjectMeta>,
    pub(super) json: Vec<ObjectMeta>,
    pub(super) pin: Vec<ObjectMeta>,
}

impl Sorted {
    pub(super) fn of(mut objects: Vec<ObjectMeta>) -> Sorted {
        objects.sort_by(|a, b| a.location.cmp(&b.location));
        let mut sorted = Sorted::default();
        for meta in objects {
            let key = meta.location.to_string();
            let (first, rest) = key.split_once('/').unwrap_or((&key, ""));
            match first {
                REPOSITORY_JSON => sorted.first_record.push(meta),
                WAL_PREFIX
                    if rest
                        .split_once('/')
                        .is_some_and(|(_, of)| of == CLUSTER_JSON || of == PACKED_JSON) =>
                {
                    sorted.marks.push(meta);
                }
                WAL_PREFIX if rest.split_once('/').is_some_and(|(_, of)| of == PROBE) => {}
                WAL_PREFIX | ASIDE_PREFIX if key.ends_with(HISTORY_SUFFIX) => {
                    sorted.histories.push(meta);
                }
                WAL_PREFIX | ASIDE_PREFIX => sorted.wal.push(meta),
                BACKUP_PREFIX => sorted.add_of_backup(rest, meta),
                // They are of this store: what was read on it, and the keys of its encryption.
                VERIFIED_PREFIX | KEYS_PREFIX | PROBE => {}
                _ if layout::record_number(&key).is_some() => sorted.records.push(meta),
                _ => sorted.unknown += 1,
            }
        }
        sorted
    }

    /// The bytes of what is copied.
    pub(super) fn size(&self) -> u64 {
        let finished = self
            .backups
            .values()
            .filter(|backup| !backup.json.is_empty());
        let of_backups = finished.flat_map(
            |Backup {
                 started,
                 data,
                 json,
                 pin,
             }| { [started, data, json, pin] },
        );
        let others = [&self.marks, &self.records, &self.histories, &self.wal];
        let all = others
            .into_iter()
            .chain([&self.first_record])
            .chain(of_backups);
        all.flatten().map(|meta| meta.size).sum()
    }

    fn add_of_backup(&mut self, rest: &str, meta: ObjectMeta) {
        match rest.split_once('/') {
            Some((label, object)) if label.parse::<BackupLabel>().is_ok() => {
                let backup = self.backups.entry(label.to_owned()).or_default();
                match object {
                    BACKUP_STARTED => backup.started.push(meta),
                    BACKUP_JSON => backup.json.push(meta),
                    BACKUP_PINNED => backup.pin.push(meta),
                    // The source removes the backup; another one that is copied may need it.
                    BACKUP_EXPIRING => {}
                    _ => backup.data.push(meta),
                }
            }
            _ => self.unknown += 1,
        }
    }
}
