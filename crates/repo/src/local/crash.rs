//! Every crash that can happen to a put: the process is killed, or the power fails,
//! before each of its operations in turn.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk_error::DiskError;
use super::durable::{Published, Writer};
use super::simulated_disk::{Ignores, SimulatedDisk, Unsynced};

const ROOT: &str = "/srv/archive/repository";
const OBJECT: &str =
    "/srv/archive/repository/wal/15-7/0000000100000000/000000010000000000000001.wz";
const CONTENT: &[u8] = b"the content of an object, in two parts";
const OTHER_CONTENT: &[u8] = b"what had the name before";
/// More than any put needs: a put that still dies here never ends.
const MOST_OPERATIONS: usize = 200;

fn new_disk(ignores: Ignores) -> SimulatedDisk {
    SimulatedDisk::new(Path::new("/srv"), ignores)
}

/// A process that puts the object: a new one knows nothing of earlier ones.
fn create(disk: &SimulatedDisk) -> Result<Published, DiskError> {
    let writer = Arc::new(Writer::new(disk.clone(), PathBuf::from(ROOT)));
    let (first, second) = CONTENT.split_at(11);
    writer.create(Path::new(OBJECT), [first, second])
}

fn replace(disk: &SimulatedDisk, content: &[u8]) -> Result<(), DiskError> {
    let writer = Arc::new(Writer::new(disk.clone(), PathBuf::from(ROOT)));
    writer.replace(Path::new(OBJECT), [content])
}

/// `init` in miniature: makes the directory and the way to it durable.
fn initialise(disk: &SimulatedDisk) -> Result<Published, DiskError> {
    let writer = Arc::new(Writer::new(disk.clone(), PathBuf::from(ROOT)));
    writer.create(&Path::new(ROOT).join("repository.json"), [&b"{}"[..]])
}

fn object(disk: &SimulatedDisk) -> Option<Vec<u8>> {
    disk.read(Path::new(OBJECT))
}

fn power_cuts() -> impl Iterator<Item = Unsynced> {
    [Unsynced::Lost, Unsynced::NamesKept]
        .into_iter()
        .chain((0..40).map(Unsynced::Random))
}

/// Runs a put that dies before each of its operations, then once to its end, and shows
/// each disk with whether the put was acknowledged.
fn die_at_each_operation<T>(
    new_disk: impl Fn() -> SimulatedDisk,
    put: impl Fn(&SimulatedDisk) -> Result<T, DiskError>,
    check: impl Fn(&SimulatedDisk, Option<T>),
) {
    for operation in 0..MOST_OPERATIONS {
        let disk = new_disk();
        disk.die_before(Some(operation));
        let outcome = put(&disk).ok();
        disk.die_before(None);
        let acknowledged = outcome.is_some();
        check(&disk, outcome);
        // Removing the temporary file comes after the acknowledgement is certain.
        if acknowledged && disk.files_in(&Path::new(ROOT).join(".incoming")).is_empty() {
            assert!(operation >= 6, "the put took {operation} operations only");
            return;
        }
    }
    panic!("the put took more than {MOST_OPERATIONS} operations");
}

fn initialised_disk() -> SimulatedDisk {
    let disk = new_disk(Ignores::Nothing);
    initialise(&disk).unwrap();
    disk
}

#[test]
fn a_power_cut_leaves_the_whole_object_or_none() {
    die_at_each_operation(initialised_disk, create, |disk, acknowledged| {
        for unsynced in power_cuts() {
            let found = object(&disk.after_power_cut(unsynced));
            match found {
                Some(found) => assert_eq!(found, CONTENT, "{unsynced:?}"),
                None => assert!(acknowledged.is_none(), "{unsynced:?}"),
            }
        }
    });
}

#[test]
fn readers_see_the_whole_object_or_none_at_every_moment() {
    die_at_each_operation(
        initialised_disk,
        create,
        |disk, acknowledged| match object(disk) {
            Some(found) => assert_eq!(found, CONTENT),
            None => assert!(acknowledged.is_none()),
        },
    );
}

#[test]
fn a_put_repeated_after_a_kill_survives_a_power_cut() {
    die_at_each_operation(initialised_disk, create, |disk, _| {
        create(disk).unwrap();
        for unsynced in power_cuts() {
            let found = object(&disk.after_power_cut(unsynced));
            assert_eq!(found.as_deref(), Some(CONTENT), "{unsynced:?}");
        }
    });
}

#[test]
fn a_put_repeated_after_a_power_cut_survives_another() {
    die_at_each_operation(initialised_disk, create, |disk, _| {
        for unsynced in power_cuts() {
            let disk = disk.after_power_cut(unsynced);
            create(&disk).unwrap();
            let found = object(&disk.after_power_cut(Unsynced::Lost));
            assert_eq!(found.as_deref(), Some(CONTENT), "{unsynced:?}");
        }
    });
}

#[test]
fn initialising_again_after_a_kill_makes_the_whole_way_durable() {
    let disk = || new_disk(Ignores::Nothing);
    die_at_each_operation(disk, initialise, |disk, _| {
        initialise(disk).unwrap();
        create(disk).unwrap();
        let found = object(&disk.after_power_cut(Unsynced::Lost));
        assert_eq!(found.as_deref(), Some(CONTENT));
    });
}

#[test]
fn puts_as_safely_where_there_are_no_hard_links() {
    let disk = || initialised_disk().without_hard_links();
    die_at_each_operation(disk, create, |disk, acknowledged| {
        let was_acknowledged = acknowledged.is_some();
        for unsynced in power_cuts() {
            match object(&disk.after_power_cut(unsynced)) {
                Some(found) => assert_eq!(found, CONTENT, "{unsynced:?}"),
                None => assert!(!was_acknowledged, "{unsynced:?}"),
            }
        }
        create(disk).unwrap();
        assert_eq!(create(disk).unwrap(), Published::Exists);
        let found = object(&disk.after_power_cut(Unsynced::Lost));
        assert_eq!(found.as_deref(), Some(CONTENT));
    });
}

#[test]
fn replacing_leaves_the_old_object_or_the_new_one() {
    let disk = || {
        let disk = initialised_disk();
        replace(&disk, OTHER_CONTENT).unwrap();
        disk
    };
    let put = |disk: &SimulatedDisk| replace(disk, CONTENT);
    die_at_each_operation(disk, put, |disk, acknowledged| {
        for unsynced in power_cuts() {
            let found = object(&disk.after_power_cut(unsynced)).unwrap();
            let is_old = found == OTHER_CONTENT && acknowledged.is_none();
            assert!(is_old || found == CONTENT, "{unsynced:?}: {found:?}");
        }
    });
}

fn remove(disk: &SimulatedDisk) -> Result<(), DiskError> {
    let writer = Arc::new(Writer::new(disk.clone(), PathBuf::from(ROOT)));
    match writer.remove(Path::new(OBJECT)) {
        // What an earlier process removed.
        Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[test]
fn what_was_removed_stays_removed_also_by_who_finds_nothing() {
    for operation in 0..10 {
        let disk = initialised_disk();
        create(&disk).unwrap();
        disk.die_before(Some(operation));
        let first = remove(&disk);
        disk.die_before(None);
        for unsynced in power_cuts() {
            let found = object(&disk.after_power_cut(unsynced));
            assert!(
                found.is_none() || first.is_err(),
                "{operation}, {unsynced:?}"
            );
        }
        // The same disk, another process: the object may have gone, and not durably.
        remove(&disk).unwrap();
        for unsynced in power_cuts() {
            let found = object(&disk.after_power_cut(unsynced));
            assert_eq!(found, None, "{operation}, {unsynced:?}");
        }
    }
}

#[test]
fn a_directory_is_removed_when_nothing_is_in_it_and_can_be_made_again() {
    let disk = initialised_disk();
    create(&disk).unwrap();
    let writer = Arc::new(Writer::new(disk.clone(), PathBuf::from(ROOT)));
    let directory = Path::new(OBJECT).parent().unwrap();
    writer.remove_directory_if_empty(directory).unwrap();
    assert_eq!(object(&disk).as_deref(), Some(CONTENT));
    writer.remove(Path::new(OBJECT)).unwrap();
    writer.remove_directory_if_empty(directory).unwrap();
    writer.remove_directory_if_empty(directory).unwrap();
    // It is durable again for the same process, which had made it before.
    let (first, second) = CONTENT.split_at(11);
    writer.create(Path::new(OBJECT), [first, second]).unwrap();
    let found = object(&disk.after_power_cut(Unsynced::Lost));
    assert_eq!(found.as_deref(), Some(CONTENT));
}

#[test]
fn a_put_leaves_no_temporary_file() {
    let disk = initialised_disk();
    let staging = Path::new(ROOT).join(".incoming");
    assert_eq!(create(&disk).unwrap(), Published::Created);
    assert_eq!(disk.files_in(&staging), Vec::<PathBuf>::new());
    assert_eq!(create(&disk).unwrap(), Published::Exists);
    assert_eq!(disk.files_in(&staging), Vec::<PathBuf>::new());
}

/// The tests above would notice a missing sync: a disk that ignores one kind of sync
/// loses an acknowledged object, or tears it.
#[test]
fn a_disk_that_ignores_syncs_is_found_out() {
    for (ignores, expected) in [
        (Ignores::FileSyncs, Some(Vec::new())),
        (Ignores::DirectorySyncs, None),
    ] {
        let disk = new_disk(ignores);
        initialise(&disk).unwrap();
        create(&disk).unwrap();
        let unsynced = match ignores {
            Ignores::FileSyncs => Unsynced::NamesKept,
            _ => Unsynced::Lost,
        };
        assert_eq!(
            object(&disk.after_power_cut(unsynced)),
            expected,
            "{ignores:?}"
        );
    }
}
