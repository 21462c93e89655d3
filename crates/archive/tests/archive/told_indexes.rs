//! Indexes that are told from the rows of their tables, in packs that are small, damaged, or of an
//! earlier attempt.

use object_store::ObjectStoreExt;
use object_store::path::Path as Key;
use walzip_archive::backup::BackupOptions;
use walzip_archive::restore::{RecoveryTarget, restore};
use walzip_archive::verify::{VerifyOptions, verify};
use walzip_codec::Level;

use crate::cluster::{Cluster, Shipper, Site, copy_to, restore_command};
use crate::point_in_time::options;
use crate::resumed::{Place, small};

/// From this level on, indexes are told.
fn telling() -> BackupOptions {
    BackupOptions {
        level: Level::new(3).expect("a level"),
        ..small()
    }
}

/// A table of several chunks, with two indexes in no order of it.
async fn filled(cluster: &Cluster<'_>) {
    cluster
        .sql("CREATE TABLE t (a int, b text COLLATE \"C\")")
        .await;
    cluster
        .sql("INSERT INTO t SELECT hashint4(i), md5(i::text) FROM generate_series(1, 150000) i")
        .await;
    cluster.sql("CREATE INDEX by_a ON t (a)").await;
    cluster.sql("CREATE INDEX by_b ON t (b, a)").await;
    cluster.sql("CHECKPOINT").await;
}

/// By the index, which is compared with the table besides.
const BY_INDEX: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off; \
    SELECT md5(string_agg(b || a, ',' ORDER BY b)) FROM t WHERE b > ''";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_is_not_taken_from_an_attempt_whose_table_was_another_one() {
    let Some(site) = Site::new() else { return };
    let out = site.directory("out");
    let primary = site.cluster("primary", &copy_to(&out));
    let place = Place::of(&primary).await;
    let _shipper = Shipper::start(place.repository.clone(), out);
    filled(&primary).await;
    let left = place.interrupted_after(5, telling()).await;
    place.end_attempts().await;
    // The rows of the indexes change places, and their entries do not change.
    primary
        .sql("UPDATE t SET a = a + 1 WHERE a % 100 = 0")
        .await;
    primary.sql("VACUUM t").await;
    primary.sql("CHECKPOINT").await;
    let record = place.take(&place.repository, &telling()).await;
    let record = record.expect("nothing interrupts it");
    assert_eq!(record.label, left.to_string());
    assert_eq!((record.attempts, record.format), (Some(2), 5));
    place.assert_whole(&record).await;

    let expected = primary.sql(BY_INDEX).await;
    let command = restore_command(&site, &place.repository, "in").await;
    let data = site.directory("restored");
    let options = options(RecoveryTarget::Immediate, &command);
    restore(&place.repository, &data, &options)
        .await
        .expect("restored");
    site.give(&data);
    let restored = site.start(data);
    restored.promoted().await;
    assert_eq!(restored.sql(BY_INDEX).await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_in_damaged_packs_keeps_nobody_waiting() {
    let Some(site) = Site::new() else { return };
    let out = site.directory("out");
    let primary = site.cluster("primary", &copy_to(&out));
    let place = Place::of(&primary).await;
    let _shipper = Shipper::start(place.repository.clone(), out);
    filled(&primary).await;
    let record = place
        .take(&place.repository, &telling())
        .await
        .expect("taken");
    assert_eq!((record.attempts, record.format), (None, 5));
    place.assert_whole(&record).await;
    let packs = record
        .files
        .as_ref()
        .map(|files| &files.packs)
        .expect("packs");
    assert!(packs.len() > 3, "{packs:?}");
    for pack in packs.iter().take(packs.len() - 1) {
        let key = Key::from(format!("backup/{}/{}", record.label, pack.name));
        let whole = place.store.get(&key).await.unwrap().bytes().await.unwrap();
        let mut damaged = whole.to_vec();
        damaged[whole.len() / 2] ^= 1;
        place.store.put(&key, damaged.into()).await.unwrap();
        let damaged = verify(&place.repository, &VerifyOptions::default()).await;
        assert!(!damaged.unwrap().findings.is_empty(), "{}", pack.name);
        place.store.delete(&key).await.unwrap();
        let missing = verify(&place.repository, &VerifyOptions::default()).await;
        assert!(!missing.unwrap().findings.is_empty(), "{}", pack.name);
        place.store.put(&key, whole.into()).await.unwrap();
    }
    place.assert_whole(&record).await;
}
