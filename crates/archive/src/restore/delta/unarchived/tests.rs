//! What a restore would lose, and what it would not.

use walzip_pgformat::wal::PageHeader;
use walzip_repo::testing::memory_store;

use super::*;
use crate::wal::testing::{CLUSTER, Record, segment};

/// The number of the segment in which timeline 1 was left.
const FORK: u64 = 0xD;
/// Behind two rows, of 100 and 60 bytes, in it.
const FORK_HISTORY: &str = "1\t0/D000D0\tno recovery target specified\n";

/// An archive, and a data directory.
struct Place {
    repository: Repository,
    directory: tempfile::TempDir,
}

impl Place {
    /// Timeline 1 was left, and timeline 2 has gone on.
    async fn left(history: &str) -> Place {
        let repository = Repository::init(memory_store(), CLUSTER).await;
        let directory = tempfile::tempdir().expect("a directory");
        let status = directory.path().join("pg_wal/archive_status");
        fs::create_dir_all(status).expect("made");
        let place = Place {
            repository: repository.expect("a repository").0,
            directory,
        };
        place.archive("00000002.history", history.as_bytes()).await;
        let later = segment(0x12, &[Record::row(100, 9)]);
        place.archive(&name(2, 0x12), &later).await;
        place
    }

    async fn archive(&self, name: &str, content: &[u8]) {
        let level = walzip_codec::Level::default();
        let object = walzip_codec::encode(content, level).expect("encoded");
        let put = self.repository.put_wal(name, object.into()).await;
        put.expect("stored");
    }

    fn has(&self, name: &str, content: &[u8], status: Option<&str>) {
        let directory = self.directory.path().join("pg_wal");
        fs::write(directory.join(name), content).expect("written");
        if let Some(status) = status {
            let path = directory.join(format!("archive_status/{name}.{status}"));
            fs::write(path, "").expect("written");
        }
    }

    /// The same for a segment of timeline 1.
    fn has_segment(&self, number: u64, records: &[Record], status: Option<&str>) {
        self.has(&name(1, number), &segment(number, records), status);
    }

    /// The numbers of the segments that a restore would lose.
    async fn lost(&self) -> Vec<u64> {
        let lost = find(&self.repository, self.directory.path()).await;
        let number_of = |path: PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            u64::from_str_radix(&name.expect("a name")[16..], 16).expect("a number")
        };
        lost.expect("found").into_iter().map(number_of).collect()
    }
}

fn name(timeline: u32, number: u64) -> String {
    format!("{timeline:08X}00000000{number:08X}")
}

/// What was committed before the fork, and these bytes of more.
fn common_and(more: &[usize]) -> Vec<Record> {
    let common = [100, 60].map(|len| Record::row(len, 1));
    let more = more.iter().map(|&len| Record::row(len, 1));
    common.into_iter().chain(more).collect()
}

const NOTHING: [u64; 0] = [];
const DONE: Option<&str> = Some("done");

/// All of timeline 1 has expired, and of timeline 2 what was before its backup.
#[tokio::test]
async fn what_follows_a_fork_in_its_segment_has_not_expired() {
    let place = Place::left(FORK_HISTORY).await;
    place.has_segment(FORK - 1, &common_and(&[]), DONE);
    place.has_segment(FORK, &common_and(&[]), None);
    assert_eq!(place.lost().await, NOTHING);
    place.has_segment(FORK, &common_and(&[80]), None);
    assert_eq!(place.lost().await, [FORK]);
}

#[tokio::test]
async fn a_segment_that_begins_at_a_fork_is_the_old_servers_own() {
    let place = Place::left("1\t0/E00000\tx\n").await;
    let mut whole = common_and(&[80]);
    whole.push(Record::switch());
    place.has_segment(FORK, &whole, DONE);
    place.has_segment(FORK + 1, &[Record::checkpoint(100)], None);
    assert_eq!(place.lost().await, NOTHING);
    place.has_segment(FORK + 1, &common_and(&[]), None);
    assert_eq!(place.lost().await, [FORK + 1]);
}

/// A cold copy has gone on in the segment in which production was left later.
#[tokio::test]
async fn another_timelines_copy_of_a_segment_is_compared() {
    let place = Place::left(FORK_HISTORY).await;
    let last = segment(FORK - 1, &common_and(&[]));
    place.archive(&name(1, FORK - 1), &last).await;
    let mut of_child = common_and(&[]);
    of_child.push(Record::row(80, 2));
    place
        .archive(&name(2, FORK), &segment(FORK, &of_child))
        .await;
    place.has_segment(FORK, &common_and(&[]), None);
    assert_eq!(place.lost().await, NOTHING);
    // It has stopped before.
    place.has_segment(FORK, &[Record::row(100, 1)], None);
    assert_eq!(place.lost().await, NOTHING);
    place.has_segment(FORK, &[Record::row(100, 3)], None);
    assert_eq!(place.lost().await, [FORK]);
    place.has_segment(FORK, &common_and(&[80]), None);
    assert_eq!(place.lost().await, [FORK]);
    // A standby that was behind has archived its own, too.
    let short = segment(FORK, &[Record::row(100, 1)]);
    place.archive(&name(1, FORK), &short).await;
    place.has_segment(FORK, &common_and(&[]), None);
    assert_eq!(place.lost().await, NOTHING);
    place.has_segment(FORK, &common_and(&[80]), None);
    assert_eq!(place.lost().await, [FORK]);
}

#[tokio::test]
async fn a_copy_that_cannot_be_decoded_is_none() {
    let place = Place::left(FORK_HISTORY).await;
    let last = segment(FORK - 1, &common_and(&[]));
    place.archive(&name(1, FORK - 1), &last).await;
    let level = walzip_codec::Level::default();
    let copy = segment(FORK, &common_and(&[80]));
    let mut copy = walzip_codec::encode(&copy, level).expect("encoded");
    copy.truncate(copy.len() - 8);
    let put = place.repository.put_wal(&name(2, FORK), copy.into()).await;
    put.expect("stored");
    place.has_segment(FORK, &common_and(&[]), None);
    assert_eq!(place.lost().await, [FORK]);
}

/// A segment of a pinned backup stays, and what followed on timeline 1 has expired. The old primary was shut down.
#[tokio::test]
async fn what_expired_behind_a_pinned_backup_before_a_fork_is_not_lost() {
    let place = Place::left("1\t0/E00090\tx\n").await;
    let pinned = segment(3, &common_and(&[]));
    place.archive(&name(1, 3), &pinned).await;
    for number in 2..=FORK {
        place.has_segment(number, &common_and(&[]), DONE);
    }
    place.has_segment(FORK + 1, &[Record::checkpoint(100)], None);
    assert_eq!(place.lost().await, NOTHING);
    // Nobody has noted it as archived.
    let status = format!("pg_wal/archive_status/{}.done", name(1, 7));
    fs::remove_file(place.directory.path().join(status)).expect("removed");
    assert_eq!(place.lost().await, [7]);
}

/// A copy of the server has archived elsewhere.
#[tokio::test]
async fn what_does_not_lead_to_a_fork_is_lost_whatever_was_noted() {
    let pinned = segment(3, &common_and(&[]));
    for stays in [None, Some(pinned)] {
        let place = Place::left("1\t0/E00090\tx\n").await;
        if let Some(pinned) = stays {
            place.archive(&name(1, 3), &pinned).await;
        }
        place.has_segment(FORK - 1, &common_and(&[]), DONE);
        place.has_segment(FORK, &common_and(&[]), DONE);
        assert_eq!(place.lost().await, [FORK - 1, FORK]);
        place.has_segment(FORK + 1, &[Record::checkpoint(90)], None);
        assert_eq!(place.lost().await, [FORK - 1, FORK]);
    }
}

/// The old primary has committed after the fork. As a standby of the new one it was sent what is before that, and noted the
/// segment as archived; another standby has archived it.
#[tokio::test]
async fn what_was_noted_as_archived_is_compared() {
    for history in [FORK_HISTORY, "1\t0/1000000\tx\n"] {
        let place = Place::left(history).await;
        place
            .archive(&name(1, FORK), &segment(FORK, &common_and(&[])))
            .await;
        place.has_segment(FORK, &common_and(&[]), DONE);
        assert_eq!(place.lost().await, NOTHING);
        place.has_segment(FORK, &common_and(&[80]), DONE);
        assert_eq!(place.lost().await, [FORK]);
        // A copy of the server has archived its own there.
        place.has_segment(FORK, &[Record::row(100, 3)], DONE);
        assert_eq!(place.lost().await, [FORK]);
    }
}

/// The server has made the file out of an older one, and gone on with timeline 2.
#[tokio::test]
async fn a_file_that_waits_and_was_never_written_is_not_lost() {
    let place = Place::left(FORK_HISTORY).await;
    let (ready, older) = (Some("ready"), segment(FORK - 2, &common_and(&[])));
    place.has(&name(1, FORK), &older, ready);
    assert_eq!(place.lost().await, [FORK]);
    place.has("00000002.history", FORK_HISTORY.as_bytes(), DONE);
    place.has(&name(2, FORK + 1), &older, None);
    assert_eq!(place.lost().await, NOTHING);
    place.has_segment(FORK, &common_and(&[80]), ready);
    assert_eq!(place.lost().await, [FORK]);
}

/// A server went back in place, and has made a file for later out of the one that timeline 1 had of that number.
#[tokio::test]
async fn a_file_for_later_with_the_parents_wal_is_not_lost() {
    let place = Place::left(FORK_HISTORY).await;
    let parents = segment(0x13, &common_and(&[80]));
    place.has(&name(2, 0x13), &parents, None);
    assert_eq!(place.lost().await, [0x13]);
    place.has("00000002.history", FORK_HISTORY.as_bytes(), DONE);
    // It may be this server's, and the history another one's.
    assert_eq!(place.lost().await, [0x13]);
    place.archive(&name(1, 0x13), &parents).await;
    assert_eq!(place.lost().await, NOTHING);
}

/// A server starts from a file that was cut off, and replays all that it has.
#[tokio::test]
async fn what_is_no_segment_as_it_should_be_may_have_wal() {
    let place = Place::left(FORK_HISTORY).await;
    let whole = segment(FORK, &common_and(&[60]));
    let short = &whole[..whole.len() - 3 * PAGE_SIZE];
    let long = [&whole[..], &[0; PAGE_SIZE]].concat();
    let mut no_first_page = whole.clone();
    no_first_page[..PAGE_SIZE].fill(0);
    let second = PageHeader {
        magic: 0xD110,
        flags: 0,
        timeline: 1,
        address: (FORK << 20) + PAGE_SIZE as u64,
        remaining_len: 0,
    };
    no_first_page[PAGE_SIZE..][..PageHeader::SHORT_LEN].copy_from_slice(&second.to_bytes());
    let mut damaged = whole.clone();
    damaged[70] ^= 1;
    for own in [short, &long, &no_first_page, &damaged] {
        place.has(&name(1, FORK), own, None);
        assert_eq!(place.lost().await, [FORK]);
    }
    place.has(&name(1, FORK), &[], None);
    assert_eq!(place.lost().await, NOTHING);
}

/// Of a record that a standby was writing when its machine stopped, a part is there. The archive has all of it.
#[tokio::test]
async fn a_torn_end_of_what_is_archived_is_not_lost() {
    let place = Place::left("1\t0/1000000\tx\n").await;
    let all = segment(FORK, &common_and(&[80, 90, 200, 30]));
    place.archive(&name(1, FORK), &all).await;
    let remains = segment(FORK - 2, &common_and(&[70, 80, 90, 100]));
    let mut end = all.clone();
    while end.last() == Some(&0) {
        end.pop();
    }
    let begins = [0xD0, 0x120, 0x180, 0x248];
    for sent in 0xD0..end.len() {
        // Half a header with the rest of another may be anybody's.
        let has_half = begins
            .iter()
            .any(|begin| (begin + 1..begin + 24).contains(&sent));
        for rest in [&vec![0; all.len()], &remains] {
            if has_half && *rest == remains {
                continue;
            }
            let torn = [&all[..sent], &rest[sent..]].concat();
            place.has(&name(1, FORK), &torn, None);
            assert_eq!(place.lost().await, NOTHING, "{sent}");
        }
    }
    // What is left of a file that was cut off is archived, or is not.
    place.has(&name(1, FORK), &all[..PAGE_SIZE + 7], None);
    assert_eq!(place.lost().await, NOTHING);
    let other = segment(FORK, &common_and(&[80, 91]));
    place.has(&name(1, FORK), &other[..PAGE_SIZE], None);
    assert_eq!(place.lost().await, [FORK]);
    // Of a record there is damage, and after it own ones.
    let more = segment(FORK, &common_and(&[80, 90, 200, 30, 50, 60]));
    let flipped_at = end.len() - 4;
    for from in [flipped_at, 0x1C0] {
        let mut own = more.clone();
        own[from] ^= 1;
        place.has(&name(1, FORK), &own, None);
        assert_eq!(place.lost().await, [FORK], "{from}");
    }
    // A record of its own, which is damaged.
    let mut other = other;
    other[0x150] ^= 1;
    place.has(&name(1, FORK), &other, None);
    assert_eq!(place.lost().await, [FORK]);
}

/// The archive has its beginning. What follows is damaged, and a server replays nothing of it.
#[tokio::test]
async fn what_follows_damage_behind_what_is_archived_is_lost() {
    let place = Place::left("1\t0/1000000\tx\n").await;
    let archived = segment(FORK, &common_and(&[]));
    place.archive(&name(1, FORK), &archived).await;
    let mut own = segment(FORK, &common_and(&[80, 90]));
    for mark in [None, DONE] {
        place.has(&name(1, FORK), &own, mark);
        assert_eq!(place.lost().await, [FORK]);
    }
    own[0xD0 + 40] ^= 1;
    place.has(&name(1, FORK), &own, None);
    assert_eq!(place.lost().await, [FORK]);
}

/// Nobody has it but this file, or the archive has it under this name or as the whole segment.
#[tokio::test]
async fn a_partial_segment_is_compared() {
    let place = Place::left("1\t0/1000000\tx\n").await;
    let partial = format!("{}.partial", name(1, FORK));
    let long = segment(FORK, &common_and(&[80]));
    let has_lost = async |own: &[u8]| {
        place.has(&partial, own, None);
        let found = find(&place.repository, place.directory.path()).await;
        !found.expect("compared").is_empty()
    };
    assert!(has_lost(&long).await);
    let short = segment(FORK, &common_and(&[]));
    place.archive(&name(1, FORK), &short).await;
    assert!(!has_lost(&short).await);
    assert!(has_lost(&long).await);
    place.archive(&partial, &long).await;
    assert!(!has_lost(&long).await);
}

/// Somebody has put it aside in the data directory, all of which a restore cleans.
#[tokio::test]
async fn a_segment_in_another_place_is_compared() {
    let place = Place::left(FORK_HISTORY).await;
    let data = place.directory.path();
    fs::create_dir_all(data.join("pg_wal.old/save")).expect("made");
    let own = segment(FORK, &common_and(&[80]));
    fs::create_dir_all(data.join("save/global")).expect("made");
    for (before, after) in [
        ("pg_wal.old/save/", ".bak"),
        ("pg_wal/", ".bak"),
        ("", ".bak"),
        ("pg_wal/old.", ""),
        ("pg_wal/BAD20261201", ""),
        ("save/global/", ""),
    ] {
        let path = data.join(format!("{before}{}{after}", name(1, FORK)));
        fs::write(&path, &own).expect("written");
        let found = find(&place.repository, data).await.expect("compared");
        assert_eq!(found, std::slice::from_ref(&path));
        // Another cluster's is nobody's loss here.
        let mut foreign = own.clone();
        foreign[24] ^= 1;
        fs::write(&path, foreign).expect("written");
        assert!(place.lost().await.is_empty());
    }
    place.archive(&name(1, FORK), &own).await;
    fs::write(data.join(name(1, FORK)), &own).expect("written");
    assert!(place.lost().await.is_empty());
}

/// What a standby was sent is in a file that had other WAL.
#[tokio::test]
async fn remains_in_what_was_noted_as_archived_are_not_lost() {
    let place = Place::left(FORK_HISTORY).await;
    let whole = segment(FORK, &common_and(&[]));
    place.archive(&name(1, FORK), &whole).await;
    let remains = segment(FORK - 2, &common_and(&[80, 90, 100]));
    let own = [&whole[..0xD0], &remains[0xD0..]].concat();
    place.has(&name(1, FORK), &own, DONE);
    assert_eq!(place.lost().await, NOTHING);
}

/// The new primary has the end of timeline 1 under the name of a partial segment only.
#[tokio::test]
async fn what_followed_a_timeline_has_come_through_its_fork() {
    let place = Place::left(FORK_HISTORY).await;
    place.has_segment(FORK - 1, &common_and(&[]), DONE);
    let last = segment(0x12, &[Record::row(100, 9)]);
    place.has(&name(2, 0x12), &last, DONE);
    assert_eq!(place.lost().await, [FORK - 1]);
    place.has("00000002.history", FORK_HISTORY.as_bytes(), DONE);
    assert_eq!(place.lost().await, NOTHING);
}
