//! The constants agree with docs/format/repository.md, and what a reader must reject
//! is rejected.

use std::fs::File;
use std::sync::Arc;

use object_store::ObjectStoreExt;
use object_store::path::Path;
use walzip_repo::testing::memory_store;
use walzip_repo::{
    BackupLabel, ClusterIdentity, LocalStore, MAX_OBJECT_BYTES, PART_BYTES, Pin, RepoError,
    Repository, layout,
};

use crate::upgrades::UPGRADED;
use crate::{CLUSTER, new_repository};

const SPECIFICATION: &str = include_str!("../../../../docs/format/repository.md");

/// The rows of the specification's table of constants.
fn specified() -> Vec<(String, String)> {
    let (_, rest) = SPECIFICATION
        .split_once("<!-- constants -->")
        .expect("the specification marks its table of constants");
    let rows = rest.lines().skip_while(|line| !line.starts_with("| `"));
    rows.take_while(|line| line.starts_with("| `"))
        .map(|line| {
            let mut cells = line
                .split('|')
                .map(|cell| cell.trim().trim_matches('`').to_owned());
            cells.next();
            (cells.next().unwrap(), cells.next().unwrap())
        })
        .collect()
}

#[test]
fn constants_are_those_of_the_specification() {
    let actual = [
        ("FORMAT", layout::FORMAT.to_string()),
        ("REPOSITORY_JSON", layout::REPOSITORY_JSON.to_owned()),
        ("CLUSTER_PREFIX", layout::CLUSTER_PREFIX.to_owned()),
        ("CLUSTER_JSON", layout::CLUSTER_JSON.to_owned()),
        ("PACKED_JSON", layout::PACKED_JSON.to_owned()),
        ("PACK_PREFIX", layout::PACK_PREFIX.to_owned()),
        ("WAL_PREFIX", layout::WAL_PREFIX.to_owned()),
        ("ASIDE_PREFIX", layout::ASIDE_PREFIX.to_owned()),
        ("KEYS_PREFIX", layout::KEYS_PREFIX.to_owned()),
        ("VERIFIED_PREFIX", layout::VERIFIED_PREFIX.to_owned()),
        ("WAL_SUFFIX", layout::WAL_SUFFIX.to_owned()),
        ("BACKUP_PREFIX", layout::BACKUP_PREFIX.to_owned()),
        ("BACKUP_STARTED", layout::BACKUP_STARTED.to_owned()),
        ("BACKUP_JSON", layout::BACKUP_JSON.to_owned()),
        ("BACKUP_PINNED", layout::BACKUP_PINNED.to_owned()),
        ("BACKUP_EXPIRING", layout::BACKUP_EXPIRING.to_owned()),
        ("PROBE", layout::PROBE.to_owned()),
        ("MAX_WAL_NAME_CHARS", layout::MAX_WAL_NAME_CHARS.to_string()),
        (
            "MAX_BACKUP_OBJECT_NAME_CHARS",
            layout::MAX_BACKUP_OBJECT_NAME_CHARS.to_string(),
        ),
        (
            "MAX_WAL_OBJECT_BYTES",
            layout::MAX_WAL_OBJECT_BYTES.to_string(),
        ),
        ("MAX_PACK_SEGMENTS", layout::MAX_PACK_SEGMENTS.to_string()),
        (
            "MAX_PACK_ORIGINAL_BYTES",
            layout::MAX_PACK_ORIGINAL_BYTES.to_string(),
        ),
        ("MAX_PACK_BYTES", layout::MAX_PACK_BYTES.to_string()),
        (
            "PACK_SETTLED_SECONDS",
            layout::PACK_SETTLED_SECONDS.to_string(),
        ),
        (
            "MAX_SMALL_JSON_BYTES",
            layout::MAX_SMALL_JSON_BYTES.to_string(),
        ),
        (
            "MAX_STARTED_JSON_BYTES",
            layout::MAX_STARTED_JSON_BYTES.to_string(),
        ),
        (
            "MAX_VERIFIED_JSON_BYTES",
            layout::MAX_VERIFIED_JSON_BYTES.to_string(),
        ),
        (
            "MAX_BACKUP_JSON_BYTES",
            layout::MAX_BACKUP_JSON_BYTES.to_string(),
        ),
        ("PART_BYTES", PART_BYTES.to_string()),
        ("MAX_OBJECT_BYTES", MAX_OBJECT_BYTES.to_string()),
    ];
    let actual: Vec<(String, String)> = actual
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    assert_eq!(specified(), actual);
}

/// The first JSON example after a heading of the specification.
fn example(heading: &str) -> &'static str {
    let (_, rest) = SPECIFICATION.split_once(heading).expect(heading);
    let (_, rest) = rest.split_once("```json\n").expect(heading);
    rest.split_once("```").expect(heading).0
}

#[test]
fn every_example_of_the_specification_has_its_format() {
    for heading in [
        "## repository.json",
        "## cluster/N.json",
        "## cluster.json",
        "## started",
        "## pinned",
        "## expiring",
    ] {
        let fields: serde_json::Value = serde_json::from_str(example(heading)).expect(heading);
        assert_eq!(fields["format"], layout::FORMAT, "{heading}");
    }
}

/// Puts the example of an object below a label.
async fn labelled(heading: &str, name: &str) -> (Repository, BackupLabel) {
    let store = memory_store();
    let repository = new_repository(store.clone()).await;
    let label: BackupLabel = "20261122-220130I".parse().unwrap();
    let key = Path::from(format!("backup/{label}/{name}"));
    store.put(&key, example(heading).into()).await.unwrap();
    (repository, label)
}

#[tokio::test]
async fn the_examples_of_what_is_below_a_label_are_read() {
    let (repository, label) = labelled("## started", "started").await;
    let references = repository.read_claimed_references(&label).await.unwrap();
    assert_eq!(references, Some(vec!["20261121-220130F".to_owned()]));
    let (repository, label) = labelled("## pinned", "pinned").await;
    let pin = repository.read_pin(&label).await.unwrap().unwrap();
    assert_eq!(pin.reason.as_deref(), Some("before the migration"));
    assert_eq!(pin.pinned.to_string(), "2026-11-22T10:00:00Z");
    let (repository, label) = labelled("## expiring", "expiring").await;
    let cluster = repository.read_expiring(&label).await.unwrap().unwrap();
    assert_eq!(cluster.name(), "15-7575000000000000001");
}

async fn open_with(repository_json: &str) -> Result<Repository, RepoError> {
    let store = memory_store();
    let key = Path::from(layout::REPOSITORY_JSON);
    store
        .put(&key, repository_json.to_owned().into())
        .await
        .unwrap();
    Repository::open(store).await
}

#[tokio::test]
async fn the_example_of_the_specification_is_read() {
    let repository = open_with(example("## repository.json")).await.unwrap();
    assert_eq!(
        repository.cluster(),
        ClusterIdentity {
            system_id: 7_575_000_000_000_000_001,
            major: 15
        }
    );
    assert_eq!(repository.created().to_string(), "2026-11-21T22:01:30Z");
}

#[tokio::test]
async fn what_is_written_has_the_fields_of_the_specification() {
    let store = memory_store();
    let repository = new_repository(store.clone()).await;
    repository.register(UPGRADED, false).await.unwrap();
    repository.start_backup().await.unwrap();
    let label = &repository.list_unfinished_backups().await.unwrap()[0];
    let pin = Pin {
        pinned: "2026-11-22T10:00:00Z".parse().unwrap(),
        reason: Some("why".to_owned()),
    };
    repository.pin(label, &pin).await.unwrap();
    repository
        .mark_expiring(label, Some(CLUSTER))
        .await
        .unwrap();
    for (key, heading) in [
        ("repository.json".to_owned(), "## repository.json"),
        ("cluster/2.json".to_owned(), "## cluster/N.json"),
        (
            format!("wal/15-{}/cluster.json", CLUSTER.system_id),
            "## cluster.json",
        ),
        (format!("backup/{label}/started"), "## started"),
        (format!("backup/{label}/pinned"), "## pinned"),
        (format!("backup/{label}/expiring"), "## expiring"),
    ] {
        let written = store
            .get(&Path::from(key))
            .await
            .unwrap()
            .bytes()
            .await
            .unwrap();
        let fields = |json: &[u8]| -> Vec<String> {
            let object: serde_json::Map<_, _> = serde_json::from_slice(json).unwrap();
            object.keys().cloned().collect()
        };
        assert_eq!(fields(&written), fields(example(heading).as_bytes()));
    }
}

#[tokio::test]
async fn a_newer_format_is_refused_naming_both() {
    let json = r#"{"format": 2, "system_identifier": {"new": "shape"}}"#;
    let error = open_with(json).await.unwrap_err();
    let is_newer = matches!(
        error,
        RepoError::NewerFormat {
            found: 2,
            supported: 1
        }
    );
    assert!(is_newer, "{error}");
    assert_eq!(
        error.to_string(),
        "the repository has format 2, this walzip knows formats up to 1"
    );
}

#[tokio::test]
async fn unknown_fields_are_ignored() {
    let json = example("## repository.json").replacen('{', "{\"comment\": [1, 2],", 1);
    open_with(&json).await.unwrap();
}

#[tokio::test]
async fn a_damaged_repository_json_is_refused() {
    let good = example("## repository.json");
    let system_id = "\"7575000000000000001\"";
    let damaged = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        good.replacen(from, to, 1)
    };
    let mut cases = vec![
        String::new(),
        "[]".to_owned(),
        "null".to_owned(),
        good.repeat(2),
        damaged("\"format\": 1", "\"format\": 0"),
        damaged("\"format\": 1", "\"format\": -1"),
        damaged("\"format\": 1", "\"format\": \"1\""),
        damaged("\"format\"", "\"formal\""),
        damaged("\"major\": 15", "\"major\": \"15\""),
        damaged("\"major\": 15", "\"major\": 4294967296"),
        damaged("\"system_identifier\"", "\"system_id\""),
        damaged(system_id, "7575000000000000001"),
        damaged("2026-11-21T22:01:30Z", "yesterday"),
        damaged("true", "\"yes\""),
        " ".repeat(usize::try_from(layout::MAX_SMALL_JSON_BYTES).unwrap()) + good,
    ];
    for bad in [
        "",
        "-1",
        "+1",
        "01",
        " 1",
        "1 ",
        "0x1",
        "18446744073709551616",
    ] {
        cases.push(damaged(system_id, &format!("{bad:?}")));
    }
    cases.extend((0..good.trim_end().len()).map(|end| good[..end].to_owned()));
    for json in cases {
        let error = open_with(&json).await.unwrap_err();
        assert!(
            matches!(error, RepoError::Corrupt { .. }),
            "{json}: {error}"
        );
    }
}

#[tokio::test]
async fn a_wal_object_beyond_any_segment_is_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(LocalStore::new(directory.path()));
    let repository = new_repository(store).await;
    let name = "00000002.history";
    repository.put_wal(name, "x".into()).await.unwrap();
    let key = format!("wal/15-{}/{name}.wz", CLUSTER.system_id);
    // A hole: it has a length and takes no space.
    let file = File::options()
        .write(true)
        .open(directory.path().join(&key))
        .unwrap();
    file.set_len(layout::MAX_WAL_OBJECT_BYTES + 1).unwrap();
    let error = repository.get_wal(name).await.unwrap_err();
    let RepoError::Corrupt {
        key: damaged,
        detail,
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!(damaged, &key);
    assert!(
        detail.contains(&layout::MAX_WAL_OBJECT_BYTES.to_string()),
        "{detail}"
    );
}
