//! Which properties hold on which stores: all on all. A new store joins with one line at the end.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use object_store::ObjectStore;
use walzip_repo::testing::{Faults, FaultyStore, gcs, memory_store, servers};
use walzip_repo::{LocalStore, Location, StoreSettings, open_store};
use walzip_testing::not_run;

use crate::{conformance, encryption, objects, packs, removal};

/// A store, and what must live as long as it.
type TestStore = (Arc<dyn ObjectStore>, Option<Box<dyn Any>>);

fn local() -> TestStore {
    let directory = tempfile::tempdir().unwrap();
    let store_directory = directory.path().join("not/yet/there");
    (
        Arc::new(LocalStore::new(store_directory)),
        Some(Box::new(directory)),
    )
}

fn memory() -> TestStore {
    (memory_store(), None)
}

fn faulty_without_faults() -> TestStore {
    let store = FaultyStore::new(memory_store(), Faults::default());
    (Arc::new(store), None)
}

fn slow() -> TestStore {
    let (inner, directory) = local();
    let faults = Faults {
        seed: 1,
        latency_ms_max: 5,
        ..Faults::default()
    };
    (Arc::new(FaultyStore::new(inner, faults)), directory)
}

/// A name that no other test of this process uses.
pub fn fresh(name: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{name}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn open(location: &str, settings: &StoreSettings) -> Arc<dyn ObjectStore> {
    open_store(&Location::parse(location).unwrap(), settings).unwrap()
}

fn s3() -> TestStore {
    let bucket = fresh("bucket");
    let settings = servers::moto_bucket(&bucket);
    (open(&format!("s3://{bucket}"), &settings), None)
}

fn s3_below_a_prefix() -> TestStore {
    let bucket = fresh("bucket");
    let settings = servers::moto_bucket(&bucket);
    (open(&format!("s3://{bucket}/a b/c"), &settings), None)
}

fn s3_that_checks_signatures() -> TestStore {
    let bucket = fresh("bucket");
    let settings = servers::versitygw_bucket(&bucket);
    (open(&format!("s3://{bucket}/wal"), &settings), None)
}

fn azure() -> TestStore {
    let container = fresh("container");
    let settings = servers::azurite_container(&container);
    (open(&format!("az://{container}/wal"), &settings), None)
}

fn google() -> TestStore {
    (open("gs://bucket/wal", &gcs::start()), None)
}

fn sftp() -> Option<TestStore> {
    let sshd = servers::sshd()
        .map_err(|reason| not_run(&format!("a store over SFTP: {reason}")))
        .ok()?;
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("not yet/there");
    let store = open(&sshd.url(&place).replace(' ', "%20"), &sshd.settings());
    Some((store, Some(Box::new(directory))))
}

/// Encrypted, with a key of its own.
fn encrypted() -> TestStore {
    (encryption::encrypted(memory_store()), None)
}

fn encrypted_on_a_local_disk() -> TestStore {
    let (inner, directory) = local();
    (encryption::encrypted(inner), directory)
}

fn encrypted_in_a_bucket() -> TestStore {
    let (inner, keep) = s3();
    (encryption::encrypted(inner), keep)
}

macro_rules! every_property_holds_on {
    ($($store:ident,)+) => {
        $(mod $store {
            every_property_holds_on! { $store, conformance:
                gets_back_what_was_put,
                says_none_for_what_is_not_there,
                leaves_an_existing_object_alone,
                lets_one_of_many_simultaneous_puts_create,
                lists_wal_by_name_with_sizes_and_times,
                passes_over_objects_that_are_not_its_own,
                initialising_again_is_success_for_the_same_cluster_only,
                simultaneous_initialisations_agree,
                opens_nothing_but_a_repository,
                a_backup_exists_when_it_is_finished,
                streams_backup_objects_of_any_length,
                simultaneous_backups_have_labels_of_their_own,
                a_backup_with_a_missing_object_cannot_be_finished,
                an_object_that_was_not_finished_does_not_exist,
                deletes_what_it_is_told_to,
            }
            every_property_holds_on! { $store, packs:
                a_pack_is_put_once_listed_read_and_removed,
                what_is_packed_is_listed_with_the_rest,
                an_older_reader_finds_no_mark_before_the_first_pack,
                packs_are_set_aside_and_put_back,
            }
            every_property_holds_on! { $store, removal:
                a_label_of_two_attempts_is_given_free,
            }
            every_property_holds_on! { $store, objects:
                a_name_is_given_once_however_many_ask,
                a_range_is_what_was_asked_for,
                what_is_missing_is_not_found,
                lists_what_is_below_a_prefix,
                lists_more_than_one_answer_holds,
                names_are_taken_as_they_are,
                an_object_in_parts_appears_when_it_is_complete,
                an_upload_that_was_given_up_leaves_nothing,
                what_was_deleted_can_be_created_again,
                a_probe_finds_a_store_that_gives_names_once,
            }
        })+
    };
    ($store:ident, $of:ident: $($property:ident,)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $property() {
                let store: Option<super::TestStore> = super::$store().into();
                let Some((store, _keep)) = store else { return };
                super::$of::$property(store).await;
            }
        )+
    };
}

every_property_holds_on!(
    local,
    memory,
    faulty_without_faults,
    slow,
    s3,
    s3_below_a_prefix,
    s3_that_checks_signatures,
    azure,
    google,
    sftp,
    encrypted,
    encrypted_on_a_local_disk,
    encrypted_in_a_bucket,
);
