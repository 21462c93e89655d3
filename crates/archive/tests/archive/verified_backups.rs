//! Backups that earlier verifications have found whole, and that are no longer what they were.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use walzip_archive::backup::{BackupOptions, backup};
use walzip_archive::init::{Source, init};
use walzip_archive::verify::{FindingKind, Verification, VerifyOptions, verify};
use walzip_repo::{BackupType, LocalStore, Repository};

use crate::cluster::{Shipper, Site, copy_to};

/// A full backup and an incremental one, in a directory.
struct Taken {
    directory: PathBuf,
    repository: Repository,
    full: String,
    incr: String,
}

async fn taken(site: &Site) -> Taken {
    let out = site.directory("out");
    let primary = site.cluster("primary", &copy_to(&out));
    let directory = site.directory("repository");
    let store = Arc::new(LocalStore::new(&directory));
    let source = Source::DataDirectory(primary.data.clone());
    init(store.clone(), &source).await.expect("made");
    let repository = Repository::open(store).await.expect("opened");
    let _shipper = Shipper::start(repository.clone(), out);
    let mut labels = Vec::new();
    for backup_type in [BackupType::Full, BackupType::Incr] {
        let options = BackupOptions {
            backup_type,
            ..BackupOptions::default()
        };
        let record = backup(&repository, &primary.settings(), &options).await;
        labels.push(record.expect("backup").label);
    }
    let incr = labels.pop().expect("a label");
    assert!(incr.ends_with('I'), "{incr}");
    Taken {
        directory,
        repository,
        full: labels.pop().expect("a label"),
        incr,
    }
}

impl Taken {
    fn pack(&self, label: &str) -> PathBuf {
        self.directory.join(format!("backup/{label}/pack.0000"))
    }

    async fn verified(&self, within: Option<SignedDuration>) -> Verification {
        // What is made in the same moment as a note counts as younger.
        tokio::time::sleep(Duration::from_millis(20)).await;
        let options = VerifyOptions {
            verified_within: within,
            notes: true,
            ..VerifyOptions::default()
        };
        verify(&self.repository, &options).await.expect("looked at")
    }

    async fn verified_within_days(&self, days: i64) -> Verification {
        self.verified(Some(SignedDuration::from_hours(24 * days)))
            .await
    }
}

/// The backups that are said to be damaged.
fn damaged(verification: &Verification) -> Vec<&str> {
    let findings = verification.findings.iter();
    let of_backups = findings.filter(|finding| finding.kind == FindingKind::BackupDamaged);
    let mut labels: Vec<&str> = of_backups.map(|finding| finding.object.as_str()).collect();
    labels.dedup();
    labels
}

fn change_a_byte(path: &Path) {
    let mut content = fs::read(path).expect("read");
    let middle = content.len() / 2;
    content[middle] ^= 1;
    fs::write(path, content).expect("written");
}

/// A disk that loses a bit tells nobody, and the times of its files stay.
fn decay(path: &Path) {
    let made = fs::metadata(path).and_then(|of| of.modified());
    change_a_byte(path);
    let file = File::options().write(true).open(path).expect("there");
    file.set_modified(made.expect("a time"))
        .expect("its time is set");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_that_decays_is_found_when_its_note_is_too_old() {
    let Some(site) = Site::new() else { return };
    let taken = taken(&site).await;
    let first = taken.verified_within_days(30).await;
    assert_eq!((first.backups, &first.findings[..]), (2, &[][..]));
    let second = taken.verified_within_days(30).await;
    assert_eq!((second.backups, &second.findings[..]), (0, &[][..]));
    decay(&taken.pack(&taken.full));
    // It is believed for the time that was asked for, and no longer.
    let third = taken.verified_within_days(30).await;
    assert_eq!((third.backups, damaged(&third)), (0, vec![]));
    let later = taken.verified(Some(SignedDuration::from_millis(1))).await;
    assert!(
        damaged(&later).contains(&&*taken.full),
        "{:?}",
        later.findings
    );
    // What was found damaged then is in no note, though older ones have it.
    fs::remove_dir_all(taken.directory.join("verified")).expect("older notes");
    taken.verified(None).await;
    let last = taken.verified_within_days(30).await;
    assert_eq!(last.backups, 2, "{last:?}");
    assert_eq!(damaged(&last), [&*taken.full, &*taken.incr]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_note_does_not_vouch_for_an_object_that_was_replaced() {
    let Some(site) = Site::new() else { return };
    let taken = taken(&site).await;
    assert_eq!(taken.verified_within_days(30).await.backups, 2);
    let pack = taken.pack(&taken.incr);
    let whole = fs::read(&pack).expect("read");
    change_a_byte(&pack);
    for _ in 0..2 {
        let found = taken.verified_within_days(30).await;
        assert_eq!((found.backups, damaged(&found)), (1, vec![&*taken.incr]));
    }
    fs::write(&pack, whole).expect("written");
    let found = taken.verified_within_days(30).await;
    assert_eq!((found.backups, damaged(&found)), (1, vec![]));
    assert_eq!(taken.verified_within_days(30).await.backups, 0);
}

/// The incremental backup has not changed, and cannot be restored all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_note_does_not_vouch_for_a_backup_whose_reference_has_changed() {
    let Some(site) = Site::new() else { return };
    let taken = taken(&site).await;
    assert_eq!(taken.verified_within_days(30).await.backups, 2);
    let pack = taken.pack(&taken.full);
    let whole = fs::read(&pack).expect("read");
    change_a_byte(&pack);
    let found = taken.verified_within_days(30).await;
    assert_eq!(damaged(&found), [&*taken.full, &*taken.incr]);
    // One that is gone has made nothing new.
    fs::write(&pack, whole).expect("written");
    assert_eq!(damaged(&taken.verified_within_days(30).await), [""; 0]);
    let elsewhere = taken.directory.join("elsewhere");
    fs::rename(&pack, &elsewhere).expect("moved");
    let found = taken.verified_within_days(30).await;
    assert_eq!(damaged(&found), [&*taken.full, &*taken.incr]);
    fs::rename(&elsewhere, &pack).expect("moved");
    let whole = taken.directory.join(format!("backup/{}", taken.full));
    fs::rename(&whole, &elsewhere).expect("moved");
    let found = taken.verified_within_days(30).await;
    assert_eq!(damaged(&found), [&*taken.incr]);
}
