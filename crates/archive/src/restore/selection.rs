//! Which databases are restored: all, or those that were asked for and those of PostgreSQL.
//!
//! A replay needs the files of all databases. So the relation files of those that are left out
//! are made with their lengths, without content and without taking room; all other files are
//! restored, so that the database can be dropped.
//!
//! The replay makes some databases as copies of others, as it finds these. Such a database is restored with the ones
//! that it is a copy of.

use std::collections::{BTreeMap, BTreeSet};

use walzip_pgformat::relation_file::RelationFile;

use crate::backups::backup_record::{BackupRecord, DatabaseRecord};
use crate::backups::pg_manifest::PgManifest;
use crate::backups::unlogged::UnloggedRelation;
use crate::error::ArchiveError;

/// Databases below are made by initdb (`FirstNormalObjectId`).
const FIRST_OID_OF_USERS: u32 = 16384;
/// PostgreSQL's own databases, which may have been made again under other OIDs.
const ALWAYS: [&str; 3] = ["template0", "template1", "postgres"];

/// What is said before an OID that is also the name of another database.
const BY_OID: &str = "oid:";

/// A database of which nothing but empty files is restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOutDatabase {
    /// Its OID.
    pub oid: u32,
    /// Its name, if the backup says it.
    pub name: Option<String>,
}

/// The databases that are restored.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    /// Their OIDs; nothing where all are.
    included: Option<BTreeSet<u32>>,
    /// Relations of which nothing but the initial fork is restored.
    unlogged: BTreeSet<UnloggedRelation>,
}

impl Selection {
    /// All databases.
    pub(super) fn all() -> Selection {
        Selection::default()
    }

    /// Those that were asked for by name or OID, PostgreSQL's, and what these are copied from; all, where none was
    /// asked for.
    pub(super) fn choose(
        asked: &[String],
        record: &BackupRecord,
        manifest: &PgManifest,
    ) -> Result<Selection, ArchiveError> {
        let unlogged = record.unlogged.iter().copied().collect();
        if asked.is_empty() {
            return Ok(Selection {
                unlogged,
                ..Selection::all()
            });
        }
        let present = present(manifest);
        let always = |database: &&DatabaseRecord| ALWAYS.contains(&database.name.as_str());
        let named = record.databases.iter().filter(always).map(|own| own.oid);
        let initial = present
            .iter()
            .copied()
            .filter(|&oid| oid < FIRST_OID_OF_USERS);
        let mut included: BTreeSet<u32> = named.chain(initial).collect();
        for said in asked {
            included.insert(find(said, record, &present)?);
        }
        add_sources(&mut included, record);
        Ok(Selection {
            included: Some(included),
            unlogged,
        })
    }

    /// Whether the file of this name in the manifest is not there after the restore: the end of the recovery makes it.
    pub(super) fn omits(&self, name: &[u8]) -> bool {
        let is_unlogged = |relation| self.unlogged.contains(&relation);
        !self.unlogged.is_empty() && UnloggedRelation::of_file(name).is_some_and(is_unlogged)
    }

    /// Whether the file of this name in the manifest is left empty.
    pub(super) fn leaves_out(&self, name: &[u8]) -> bool {
        if self.omits(name) {
            return false;
        }
        let Some(included) = &self.included else {
            return false;
        };
        let Ok(name) = std::str::from_utf8(name) else {
            return false;
        };
        let is_left_out = database_of(name).is_some_and(|oid| !included.contains(&oid));
        is_left_out && RelationFile::of_path(name).is_some()
    }

    /// The databases that are left out, and those that the replay makes as copies of them.
    pub(super) fn left_out(
        &self,
        record: &BackupRecord,
        manifest: &PgManifest,
    ) -> Vec<LeftOutDatabase> {
        let Some(included) = &self.included else {
            return Vec::new();
        };
        let mut left_out = present(manifest);
        left_out.retain(|oid| !included.contains(oid));
        let is_empty_copy = |left_out: &BTreeSet<u32>, database: &DatabaseRecord| {
            let source = database.copied_from;
            source.is_some_and(|from| left_out.contains(&from)) && !left_out.contains(&database.oid)
        };
        while let Some(copy) = record
            .databases
            .iter()
            .find(|database| is_empty_copy(&left_out, database))
        {
            left_out.insert(copy.oid);
        }
        let left_out = left_out.into_iter();
        left_out
            .map(|oid| LeftOutDatabase {
                oid,
                name: name_of(oid, record).map(str::to_owned),
            })
            .collect()
    }
}

/// Adds the databases from which the replay copies one that is restored.
fn add_sources(included: &mut BTreeSet<u32>, record: &BackupRecord) {
    let databases = record.databases.iter();
    let copies = databases.filter_map(|database| Some((database.oid, database.copied_from?)));
    let copies: BTreeMap<u32, u32> = copies.collect();
    let shown = |oid| match name_of(oid, record) {
        Some(name) => format!("\"{}\"", name.escape_debug()),
        None => format!("the database with the OID {oid}"),
    };
    let mut to_look_at: Vec<u32> = included.iter().copied().collect();
    while let Some(oid) = to_look_at.pop() {
        if let Some(&from) = copies.get(&oid).filter(|&&from| included.insert(from)) {
            to_look_at.push(from);
            let (copy, source) = (shown(oid), shown(from));
            tracing::warn!(
                "{copy} was made as a copy of {source} while the backup ran, and the replay copies it once more: \
                 {source} is restored too"
            );
        }
    }
}

/// The name of a database, if the backup says it, and a restore has the database.
fn name_of(oid: u32, record: &BackupRecord) -> Option<&str> {
    let mut databases = record.databases.iter();
    let database = databases.find(|database| database.oid == oid && !database.dropped)?;
    Some(&database.name)
}

/// The database that somebody means by this.
fn find(said: &str, record: &BackupRecord, present: &BTreeSet<u32>) -> Result<u32, ArchiveError> {
    let (name, oid) = meaning(said, record, present);
    let is_called = |database: &DatabaseRecord| Some(database.name.as_str()) == name;
    let is_meant = |database: &&DatabaseRecord| {
        let is_named = is_called(database) && !database.name_unknown;
        is_named || Some(database.oid) == oid
    };
    let called = record.databases.iter().filter(is_meant);
    let (dropped, called): (Vec<_>, Vec<_>) = called.partition(|database| database.dropped);
    let mut meant: BTreeSet<u32> = called.iter().map(|database| database.oid).collect();
    // Files of a database that the backup does not name are of one that was not finished, or is gone.
    let may_be_unnamed = record.databases.is_empty();
    meant.extend(oid.filter(|oid| may_be_unnamed && present.contains(oid)));
    if oid.is_some_and(|oid| meant.contains(&oid)) {
        // The number may be a name, too, of a database whose name is not known.
        let there = record.databases.iter().filter(|of| !of.dropped);
        meant.extend(there.filter(|of| is_called(of)).map(|of| of.oid));
    }
    let mut meant_oids = meant.iter();
    match (meant_oids.next(), meant_oids.next()) {
        (Some(&oid), None) => Ok(oid),
        (Some(one), Some(other)) => Err(ArchiveError::Request(format!(
            "\"{said}\" means the databases with the OIDs {one} and {other} of backup {}: say {BY_OID}{one} or \
             {BY_OID}{other}",
            record.label
        ))),
        (None, _) => Err(ArchiveError::Request(not_found(
            said,
            record,
            present,
            !dropped.is_empty(),
        ))),
    }
}

/// The name and the OID that this may be. After the word for an OID it is a name only where no database has the OID:
/// otherwise nobody could say which of two is meant.
fn meaning<'s>(
    said: &'s str,
    record: &BackupRecord,
    present: &BTreeSet<u32>,
) -> (Option<&'s str>, Option<u32>) {
    let by_oid = said.strip_prefix(BY_OID).and_then(|oid| oid.parse().ok());
    let is_there = |oid: &u32| {
        let mut databases = record.databases.iter();
        present.contains(oid) || databases.any(|database| database.oid == *oid)
    };
    match by_oid.filter(is_there) {
        Some(oid) => (None, Some(oid)),
        None => (Some(said), said.parse().ok()),
    }
}

/// Why a backup has no database that is meant by this, and what there is.
fn not_found(
    said: &str,
    record: &BackupRecord,
    present: &BTreeSet<u32>,
    is_dropped: bool,
) -> String {
    let label = &record.label;
    if record.databases.is_empty() {
        let oids: Vec<String> = present.iter().map(u32::to_string).collect();
        return format!(
            "backup {label} does not say what its databases are called: name the database by \
             its OID (SELECT oid, datname FROM pg_database). It has {}",
            oids.join(", ")
        );
    }
    let there = || record.databases.iter().filter(|of| !of.dropped);
    let named = there().filter(|database| !database.name_unknown);
    let names: Vec<String> = named.map(|of| of.name.escape_debug().to_string()).collect();
    let names = names.join(", ");
    let unknown = there().filter(|database| database.name_unknown);
    let unknown = unknown.map(|of| {
        let seen_as = of.name.escape_debug();
        format!("{BY_OID}{} (seen as \"{seen_as}\")", of.oid)
    });
    let unknown: Vec<String> = unknown.collect();
    let is_oid = said
        .strip_prefix(BY_OID)
        .unwrap_or(said)
        .parse::<u32>()
        .is_ok();
    if is_dropped && (unknown.is_empty() || is_oid) {
        return format!(
            "backup {label} has no database {said}: it was dropped while the backup ran. An earlier backup may \
             have it, for a target before the drop: a replay beyond that drops it again"
        );
    }
    if is_dropped {
        return format!(
            "backup {label} may have a database {said}: one of that name was dropped while the backup ran, and others were \
             altered around its end, so that it does not know what they were called then. Name one of those by its OID: {}. An \
             earlier backup may have the one that was dropped, for a target before the drop",
            unknown.join(" or ")
        );
    }
    if unknown.is_empty() || is_oid {
        let all = [names, unknown.join(", ")].join(", ");
        let all = all.trim_end_matches(", ");
        return format!(
            "backup {label} has no database {said}. It has {all}. One that was made later comes with the replay, \
             whichever is restored, unless it is a copy of one that is left out"
        );
    }
    format!(
        "backup {label} may have a database {said}: some were altered around its end, so that it does not know what \
         they were called then. Name one of them by its OID: {}. The others are {names}",
        unknown.join(" or ")
    )
}

/// The OIDs of the databases of which there are files.
fn present(manifest: &PgManifest) -> BTreeSet<u32> {
    let names = manifest.files.keys();
    names
        .filter_map(|name| database_of(std::str::from_utf8(name).ok()?))
        .collect()
}

/// The OID of the database that a file is of.
fn database_of(name: &str) -> Option<u32> {
    let parts: Vec<&str> = name.split('/').collect();
    match parts[..] {
        ["base", database, _] => database.parse().ok(),
        ["pg_tblspc", _, version, database, _] if version.starts_with("PG_") => {
            database.parse().ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backups::pg_manifest::ManifestFile;
    use std::collections::HashMap;

    /// A backup with PostgreSQL's databases and two others, and its manifest.
    fn backup(names: &[(u32, &str)]) -> (BackupRecord, PgManifest) {
        let mut record = crate::restore::directories::tests::record(Vec::new(), Vec::new());
        let named = names
            .iter()
            .map(|&(oid, name)| DatabaseRecord::new(oid, name));
        record.databases = named.collect();
        let files = [
            "base/1/1259",
            "base/4/PG_VERSION",
            "base/5/1259",
            "base/16384/1259",
            "base/16385/1259",
            "pg_tblspc/16400/PG_15_202209061/16386/16390",
            "global/1260",
        ];
        let listed = ManifestFile {
            size_bytes: 0,
            checksum: None,
        };
        let files = files.map(|name| (name.as_bytes().to_vec(), listed.clone()));
        let manifest = PgManifest {
            files: HashMap::from(files),
            wal_ranges: Vec::new(),
        };
        (record, manifest)
    }

    const NAMES: [(u32, &str); 6] = [
        (1, "template1"),
        (4, "template0"),
        (16386, "postgres"),
        (16384, "shop"),
        (16385, "16384"),
        (16387, "new"),
    ];

    fn choose(asked: &str, names: &[(u32, &str)]) -> Result<Selection, ArchiveError> {
        let (record, manifest) = backup(names);
        Selection::choose(&[asked.to_owned()], &record, &manifest)
    }

    #[test]
    fn leaves_out_relation_files_of_other_databases_and_nothing_else() {
        let selection = choose("shop", &NAMES).expect("a database");
        for (name, expected) in [
            ("base/16385/1259", true),
            ("base/16385/1259_fsm", true),
            ("base/16385/16390.1", true),
            ("pg_tblspc/16400/PG_15_202209061/16385/16390", true),
            ("pg_tblspc/16400/PG_15_202209061/16386/16390", false),
            ("base/16385/PG_VERSION", false),
            ("base/16385/pg_filenode.map", false),
            ("base/16384/1259", false),
            ("base/5/1259", false),
            ("global/1260", false),
            ("pg_xact/0000", false),
        ] {
            assert_eq!(selection.leaves_out(name.as_bytes()), expected, "{name}");
            assert!(!Selection::all().leaves_out(name.as_bytes()));
        }
        let (record, manifest) = backup(&NAMES);
        let left_out = selection.left_out(&record, &manifest);
        let expected = LeftOutDatabase {
            oid: 16385,
            name: Some("16384".to_owned()),
        };
        assert_eq!(left_out, [expected]);
    }

    #[test]
    fn files_of_relations_that_became_unlogged_are_not_restored() {
        let (mut record, manifest) = backup(&NAMES);
        record.unlogged = vec![UnloggedRelation {
            tablespace: 1663,
            database: 16385,
            relation: 1259,
        }];
        for asked in [&[][..], &["shop".to_owned()]] {
            let selection = Selection::choose(asked, &record, &manifest).expect("a database");
            for (name, is_omitted) in [
                ("base/16385/1259", true),
                ("base/16385/1259_fsm", true),
                ("base/16385/1259_init", false),
                ("base/16384/1259", false),
            ] {
                assert_eq!(selection.omits(name.as_bytes()), is_omitted, "{name}");
                assert!(!is_omitted || !selection.leaves_out(name.as_bytes()));
            }
        }
        assert!(!Selection::all().omits(b"base/16385/1259"));
    }

    #[test]
    fn names_what_there_is_where_a_database_is_not_known() {
        let refusal = |asked, names: &[_]| choose(asked, names).expect_err(asked).to_string();
        let unknown = refusal("sop", &NAMES);
        assert!(unknown.contains("It has template1, template0, postgres, shop, 16384, new. "));
        let ambiguous = refusal("16384", &NAMES);
        assert!(
            ambiguous.contains("the OIDs 16384 and 16385"),
            "{ambiguous}"
        );
        assert!(
            ambiguous.ends_with("say oid:16384 or oid:16385"),
            "{ambiguous}"
        );
        assert!(
            choose("new", &NAMES).is_ok(),
            "created while the backup ran"
        );
        let unnamed = refusal("shop", &[]);
        assert!(
            unnamed.ends_with("It has 1, 4, 5, 16384, 16385, 16386"),
            "{unnamed}"
        );
        let by_oid = choose("16384", &[]).expect("an OID");
        assert!(by_oid.leaves_out(b"base/16385/1259"));
        let unfinished = refusal("16384", &[(5, "postgres")]);
        assert!(unfinished.contains("has no database 16384"), "{unfinished}");
    }

    #[test]
    fn a_database_is_named_by_its_oid_where_its_name_means_another_one() {
        let names = [(16384, "shop"), (16385, "oid:16386"), (16386, "oid:shop")];
        let restored = |asked, names: &[_]| {
            let chosen = choose(asked, names).expect(asked);
            let files = [16384, 16385, 16386].map(|oid| (oid, format!("base/{oid}/1259")));
            let restored = files
                .iter()
                .filter(|(_, name)| !chosen.leaves_out(name.as_bytes()));
            restored.map(|(oid, _)| *oid).collect::<Vec<u32>>()
        };
        for (asked, oid) in [
            ("oid:16384", 16384),
            ("oid:16386", 16386),
            ("oid:shop", 16386),
            ("16385", 16385),
            ("oid:16385", 16385),
        ] {
            assert_eq!(restored(asked, &names), [oid], "{asked}");
        }
        // Nothing else can be meant.
        let initial = [(1, "template1"), (16384, "shop"), (16385, "oid:1")];
        assert!(restored("oid:1", &initial).is_empty());
        let other = [(16384, "shop"), (16385, "oid:2")];
        assert_eq!(restored("oid:2", &other), [16385]);
        assert_eq!(restored("oid:16385", &[]), [16385]);
        let unknown = choose("oid:9", &names).expect_err("unknown").to_string();
        assert!(unknown.contains("has no database oid:9"), "{unknown}");
    }

    #[test]
    fn a_database_whose_name_is_unknown_is_meant_by_its_oid_alone() {
        let (mut record, manifest) = backup(&NAMES);
        let choose = |asked: &str, record: &BackupRecord| {
            Selection::choose(&[asked.to_owned()], record, &manifest)
        };
        for at in [3, 5] {
            record.databases[at].name_unknown = true;
        }
        for asked in ["shop", "new", "other"] {
            let refusal = choose(asked, &record).expect_err(asked).to_string();
            let seen = r#"by its OID: oid:16384 (seen as "shop") or oid:16387 (seen as "new"). The others are"#;
            assert!(refusal.contains(seen), "{refusal}");
        }
        let chosen = choose("oid:16384", &record).expect("a database");
        assert!(!chosen.leaves_out(b"base/16384/1259"));
        let refusal = choose("oid:99999", &record).expect_err("no database");
        assert!(
            refusal.to_string().contains("has no database oid:99999"),
            "{refusal}"
        );
        // A number that may be the name of another one.
        let mut numbered = record.clone();
        numbered.databases[4].name_unknown = true;
        let refusal = choose("16384", &numbered).expect_err("two").to_string();
        assert!(refusal.ends_with("say oid:16384 or oid:16385"), "{refusal}");
        // Nothing has this OID: it is a name that is not known.
        numbered.databases[4].name = "99999".to_owned();
        assert!(choose("99999", &numbered).is_err());
        // A name that is known is no other database's.
        record.databases[4].name = "known".to_owned();
        let chosen = choose("known", &record).expect("a database");
        assert!(!chosen.leaves_out(b"base/16385/1259"));
        assert!(choose("16384", &record).is_ok());
    }

    #[test]
    fn what_a_database_is_a_copy_of_is_restored_with_it() {
        let (mut record, manifest) = backup(&NAMES);
        record.databases.push(DatabaseRecord::new(16388, "later"));
        let oids = [(16384, 5), (16387, 16385), (16388, 16387)];
        let sources = BTreeMap::from(oids);
        for database in &mut record.databases {
            database.copied_from = sources.get(&database.oid).copied();
        }
        let choose = |asked: &str| {
            let chosen = Selection::choose(&[asked.to_owned()], &record, &manifest);
            let chosen = chosen.expect("a database");
            let left_out = chosen.left_out(&record, &manifest).into_iter();
            left_out.map(|left| left.oid).collect::<Vec<u32>>()
        };
        assert_eq!(choose("later"), [16384]);
        // The copies are empty as the database itself is.
        assert_eq!(choose("shop"), [16385, 16387, 16388]);
        // One that is not restored may be whole.
        assert_eq!(choose("16385"), [16384]);
        record.databases[3].copied_from = Some(16388);
        record.databases[5].copied_from = Some(16384);
        let in_circles = Selection::choose(&["shop".to_owned()], &record, &manifest);
        assert!(in_circles.is_ok());
    }

    #[test]
    fn a_dropped_database_is_not_meant_by_its_name() {
        let (mut record, manifest) = backup(&NAMES);
        record.databases.push(DatabaseRecord {
            dropped: true,
            ..DatabaseRecord::new(16380, "shop")
        });
        let choose = |asked: &str, record: &BackupRecord| {
            Selection::choose(&[asked.to_owned()], record, &manifest)
        };
        let chosen = choose("shop", &record).expect("the one that is there");
        assert!(!chosen.leaves_out(b"base/16384/1259"));
        record.databases[3].dropped = true;
        for asked in ["shop", "16380"] {
            let refusal = choose(asked, &record).expect_err(asked).to_string();
            assert!(
                refusal.contains("dropped while the backup ran"),
                "{refusal}"
            );
        }
        let unknown = choose("sop", &record).expect_err("unknown").to_string();
        assert!(unknown.contains("It has template1, template0, postgres, 16384, new. "));
        // Another one may be called so now.
        let mut renamed = record.clone();
        renamed.databases[5].name_unknown = true;
        let refusal = choose("shop", &renamed)
            .expect_err("a question")
            .to_string();
        assert!(
            refusal.contains(r#"by its OID: oid:16387 (seen as "new"). An earlier"#),
            "{refusal}"
        );
        // Its files are there, and are left empty.
        let chosen = choose("16385", &record).expect("a database");
        let left_out = chosen.left_out(&record, &manifest);
        let expected = LeftOutDatabase {
            oid: 16384,
            name: None,
        };
        assert_eq!(left_out, [expected]);
    }
}
