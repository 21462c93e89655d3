//! A copy of a server archives where the original did: each segment is whole, and they do not follow one another.

use std::ops::Range;

use walzip_archive::ArchiveError;
use walzip_archive::push::{PushOptions, PushOutcome, Pushed, push};
use walzip_archive::verify::{Finding, FindingKind, VerifyOptions, verify};
use walzip_codec::Level;
use walzip_pgformat::PAGE_SIZE;
use walzip_pgformat::wal::{Event, RecordLayout, SegmentHeader, SegmentReader};
use walzip_repo::testing::memory_store;
use walzip_repo::{ClusterIdentity, Repository};
use walzip_testing::samples;

use crate::wal::{PgWal, SEGMENT_SIZE, push_content, repository, segment_name, valid_segment};

/// Segments of a real server, with their names, one after the other.
struct Server(Vec<(String, Vec<u8>)>);

impl Server {
    /// Nothing where there are no samples.
    fn new() -> Option<Server> {
        let of_it = samples::all()
            .iter()
            .filter(|sample| sample.workload == "oltp-steady");
        let segments: Vec<(String, Vec<u8>)> = of_it
            .map(|sample| {
                let name = sample.path.file_name().expect("a name");
                (name.to_string_lossy().into_owned(), sample.read())
            })
            .collect();
        (!segments.is_empty()).then_some(Server(segments))
    }

    async fn repository(&self) -> Repository {
        let header = SegmentHeader::read(&self.0[0].1).expect("a segment");
        let cluster = ClusterIdentity {
            system_id: header.system_id.0,
            major: header.version.major,
        };
        let opened = Repository::init(memory_store(), cluster).await;
        opened.expect("a new repository").0
    }

    async fn push(&self, repository: &Repository, at: usize) -> Result<Pushed, ArchiveError> {
        let (name, content) = &self.0[at];
        push_content(repository, name, content).await
    }

    /// The first segment as a copy of the server has it, whose last record has the same length.
    fn first_of_copy(&self) -> Vec<u8> {
        let mut content = self.0[0].1.clone();
        let start = SegmentHeader::read(&content).expect("a segment").start.0;
        let mut reader = SegmentReader::new(&content).expect("a segment");
        let mut layout = RecordLayout::default();
        let mut tail = None;
        while let Some(event) = reader.next_event(&mut layout) {
            if let Event::Tail { lsn } = event {
                tail = Some((lsn.0 - start) as usize);
            }
        }
        // Of another transaction.
        content[tail.expect("it goes on in the next segment") + 4] ^= 1;
        content
    }
}

fn not_continued(pushed: Result<Pushed, ArchiveError>) -> (String, String, String) {
    match pushed {
        Err(ArchiveError::NotContinued {
            segment,
            before,
            why,
        }) => (segment, before, why),
        other => panic!("{other:?}"),
    }
}

/// As a version did that did not look at the segments beside it.
async fn push_unseen(repository: &Repository, name: &str, content: &[u8]) {
    let object = walzip_codec::encode(content, Level::default()).expect("encoded");
    repository.put_wal(name, object.into()).await.expect("put");
}

async fn findings(repository: &Repository, options: VerifyOptions) -> Vec<Finding> {
    let verified = verify(repository, &options).await.expect("looked at");
    verified.findings
}

#[tokio::test]
async fn a_segment_is_refused_where_the_server_has_another_one_before_it() {
    let repository = repository().await;
    let pushed = push_content(&repository, &segment_name(5), &valid_segment(5, 1)).await;
    pushed.expect("the original's");
    let pg_wal = PgWal::new();
    pg_wal.write(&segment_name(5), &valid_segment(5, 2));
    let next = pg_wal.write(&segment_name(6), &valid_segment(6, 2));
    let options = PushOptions::default();
    let (segment, before, why) = not_continued(push(&repository, &next, &options).await);
    let of = |number| format!("{} in the repository", segment_name(number));
    assert_eq!((segment, before), (segment_name(6), of(5)));
    assert!(why.contains(&pg_wal.path().display().to_string()), "{why}");
    let listed = repository.list_wal().await.expect("listed");
    assert_eq!(listed.len(), 1);
    // What its caller has pushed just now is not asked again.
    let known = PushOptions {
        is_next: true,
        ..PushOptions::default()
    };
    let pushed = push(&repository, &next, &known).await;
    assert_eq!(pushed.expect("new").outcome, PushOutcome::Stored);
    // It is archived: that it is, is no lie.
    let pushed = push(&repository, &next, &options).await;
    assert_eq!(pushed.expect("there").outcome, PushOutcome::AlreadyStored);
}

#[tokio::test]
async fn a_refusal_says_from_where_on_the_archive_is_another_servers() {
    let repository = repository().await;
    for number in 3..=6 {
        let content = valid_segment(number, 1);
        let pushed = push_content(&repository, &segment_name(number), &content).await;
        pushed.expect("the original's");
    }
    let pg_wal = PgWal::new();
    for number in 3..=7 {
        let seed = if number == 3 { 1 } else { 2 };
        pg_wal.write(&segment_name(number), &valid_segment(number, seed));
    }
    let next = pg_wal.path().join(segment_name(7));
    let (_, _, why) = not_continued(push(&repository, &next, &PushOptions::default()).await);
    assert!(
        why.contains(&format!("from {} on", segment_name(4))),
        "{why}"
    );
}

#[tokio::test]
async fn a_segment_follows_what_is_identical_or_not_to_be_compared() {
    let repository = repository().await;
    let pushed = push_content(&repository, &segment_name(5), &valid_segment(5, 1)).await;
    pushed.expect("stored");
    for (number, before) in [
        (6, valid_segment(5, 1)),
        // It is recycled under its name, was cut off, or is not there.
        (6, valid_segment(9, 1)),
        (6, valid_segment(5, 2)[..SEGMENT_SIZE / 2].to_vec()),
        // Nothing is archived before it.
        (9, valid_segment(8, 3)),
    ] {
        let pg_wal = PgWal::new();
        pg_wal.write(&segment_name(number - 1), &before);
        let next = pg_wal.write(&segment_name(number), &valid_segment(number, 1));
        let pushed = push(&repository, &next, &PushOptions::default()).await;
        pushed.expect("it continues the archive, as far as can be told");
    }
    // A damaged one contradicts nothing.
    let put = repository
        .put_wal(&segment_name(20), "no walzip file".into())
        .await;
    put.expect("put");
    let pg_wal = PgWal::new();
    pg_wal.write(&segment_name(20), &valid_segment(20, 1));
    let next = pg_wal.write(&segment_name(21), &valid_segment(21, 1));
    let pushed = push(&repository, &next, &PushOptions::default()).await;
    pushed.expect("stored");
}

#[tokio::test]
async fn where_the_segment_before_is_gone_the_records_tell() {
    let Some(server) = Server::new() else { return };
    let repository = server.repository().await;
    server.push(&repository, 0).await.expect("stored");
    server.push(&repository, 1).await.expect("it continues");

    let repository = server.repository().await;
    let pushed = push_content(&repository, &server.0[0].0, &server.first_of_copy()).await;
    pushed.expect("nothing is before it");
    let (segment, before, why) = not_continued(server.push(&repository, 1).await);
    assert_eq!(segment, server.0[1].0);
    assert_eq!(before, format!("{} in the repository", server.0[0].0));
    assert!(why.contains("checksum"), "{why}");
}

#[tokio::test]
async fn a_verification_finds_where_two_servers_meet() {
    let Some(server) = Server::new() else { return };
    let repository = server.repository().await;
    let noting = || VerifyOptions {
        notes: true,
        verified_within: Some(jiff::SignedDuration::from_hours(24)),
        ..VerifyOptions::default()
    };
    server.push(&repository, 1).await.expect("stored");
    server.push(&repository, 2).await.expect("stored");
    assert_eq!(findings(&repository, noting()).await, []);
    // What is new meets what was found whole before.
    push_unseen(&repository, &server.0[0].0, &server.first_of_copy()).await;
    let found = findings(&repository, noting()).await;
    let [
        Finding {
            kind,
            object,
            detail,
        },
    ] = found.as_slice()
    else {
        panic!("{found:?}");
    };
    assert_eq!(
        (*kind, object),
        (FindingKind::WalNotContinued, &server.0[1].0)
    );
    assert!(
        detail.contains(&server.0[0].0) && detail.contains("checksum"),
        "{detail}"
    );
    // It is found again, by whoever looks.
    assert_eq!(findings(&repository, noting()).await, found);
    assert_eq!(findings(&repository, noting()).await, found);
    assert_eq!(findings(&repository, VerifyOptions::default()).await, found);
    let sample = VerifyOptions {
        sample: Some(100),
        ..VerifyOptions::default()
    };
    assert_eq!(findings(&repository, sample).await, found, "both are in it");
}

#[tokio::test]
async fn a_verification_finds_nothing_where_one_server_has_archived() {
    let Some(server) = Server::new() else { return };
    let repository = server.repository().await;
    for at in 0..server.0.len() {
        server.push(&repository, at).await.expect("stored");
    }
    assert_eq!(findings(&repository, VerifyOptions::default()).await, []);
}

#[tokio::test]
async fn a_gap_is_not_filled_before_another_servers_segment() {
    let Some(server) = Server::new() else { return };
    let repository = server.repository().await;
    server.push(&repository, 1).await.expect("stored");
    let name = &server.0[0].0;
    let pushed = push_content(&repository, name, &server.first_of_copy()).await;
    let (segment, before, why) = not_continued(pushed);
    assert_eq!(
        (&before, segment),
        (name, format!("{} in the repository", server.0[1].0))
    );
    assert!(why.contains("checksum"), "{why}");
    server.push(&repository, 0).await.expect("its own");
}

/// The copy was promoted: its first segment has another name, and its history names the one before.
#[tokio::test]
async fn a_timeline_continues_the_one_that_it_left() {
    let Some(server) = Server::new() else { return };
    let (name, content) = &server.0[1];
    let start = SegmentHeader::read(content).expect("a segment").start.0;
    let of_second = format!("00000002{}", &name[8..]);
    let switch = format!("{:X}/{:X}", start >> 32, (start & 0xFFFF_FFFF) + 0x8000);
    let promoted = PgWal::new();
    let history = format!("1\t{switch}\tno recovery target specified\n");
    promoted.write("00000002.history", history.as_bytes());
    let first = promoted.write(&of_second, content);
    let options = PushOptions::default();

    let repository = server.repository().await;
    server.push(&repository, 0).await.expect("stored");
    let pushed = push(&repository, &first, &options).await;
    pushed.expect("it continues the parent");
    assert_eq!(findings(&repository, VerifyOptions::default()).await, []);

    let repository = server.repository().await;
    let pushed = push_content(&repository, &server.0[0].0, &server.first_of_copy()).await;
    pushed.expect("nothing is before it");
    let (segment, before, _) = not_continued(push(&repository, &first, &options).await);
    let expected = format!("{} in the repository", server.0[0].0);
    assert_eq!((segment, before), (of_second.clone(), expected));
    let unseen = PushOptions {
        is_next: true,
        ..PushOptions::default()
    };
    push(&repository, &first, &unseen).await.expect("stored");
    let found = findings(&repository, VerifyOptions::default()).await;
    let found: Vec<_> = found.iter().map(|of| (of.kind, &of.object)).collect();
    assert_eq!(found, [(FindingKind::WalNotContinued, &of_second)]);
}

/// A server that was promoted, with the first segment of its timeline 2, and where that has left timeline 1.
struct Promoted {
    pg_wal: PgWal,
    /// The name of that segment.
    first: String,
    /// Its name on timeline 1.
    of_parent: String,
}

/// Bytes of the segment that are before the switch.
const BEFORE_SWITCH: usize = 0x8000;

/// Changes the first record from an offset on that lies in one page: it is of another transaction.
fn change_record(content: &mut [u8], from: usize) {
    const CRC: Range<usize> = 20..24;
    let start = SegmentHeader::read(content).expect("a segment").start.0;
    let mut reader = SegmentReader::new(content).expect("a segment");
    let mut layout = RecordLayout::default();
    let mut found = None;
    while let (None, Some(event)) = (&found, reader.next_event(&mut layout)) {
        if let Event::Record { lsn } = event {
            let begin = (lsn.0 - start) as usize;
            let len = u32::from_le_bytes(content[begin..begin + 4].try_into().expect("4 bytes"));
            let record = begin..begin + len as usize;
            let is_in_one_page = record.start / PAGE_SIZE == (record.end - 1) / PAGE_SIZE;
            found = (from <= begin && is_in_one_page).then_some(record);
        }
    }
    let record = &mut content[found.expect("a record")];
    record[4] ^= 1;
    let checksum = crc32c::crc32c(&record[CRC.end..]);
    let checksum = crc32c::crc32c_append(checksum, &record[..CRC.start]);
    record[CRC].copy_from_slice(&checksum.to_le_bytes());
}

impl Promoted {
    /// The segment is that of timeline 1, but for a page header or a record at an offset, if there is one.
    fn new(server: &Server, changed: Option<usize>) -> Promoted {
        let (of_parent, content) = &server.0[1];
        let start = SegmentHeader::read(content).expect("a segment").start.0;
        let switch = start + BEFORE_SWITCH as u64;
        let switch = format!("{:X}/{:X}", switch >> 32, switch & 0xFFFF_FFFF);
        let mut content = content.clone();
        match changed {
            Some(at) if at % PAGE_SIZE < 24 => content[at] ^= 1,
            Some(at) => change_record(&mut content, at),
            None => {}
        }
        let pg_wal = PgWal::new();
        let history = format!("1\t{switch}\tno recovery target specified\n");
        pg_wal.write("00000002.history", history.as_bytes());
        let first = format!("00000002{}", &of_parent[8..]);
        pg_wal.write(&first, &content);
        Promoted {
            pg_wal,
            first,
            of_parent: of_parent.clone(),
        }
    }

    async fn push(&self, repository: &Repository, name: &str) -> Result<Pushed, ArchiveError> {
        let path = self.pg_wal.path().join(name);
        push(repository, &path, &PushOptions::default()).await
    }
}

/// What was in the file before it got its name is left after the last record.
fn cut_short(content: &[u8]) -> Vec<u8> {
    let mut content = content.to_vec();
    let old = content[..BEFORE_SWITCH].to_vec();
    content[BEFORE_SWITCH / 2..][..BEFORE_SWITCH].copy_from_slice(&old);
    content[BEFORE_SWITCH / 2 + BEFORE_SWITCH..].fill(0);
    content
}

/// Two servers that left timeline 1 at the same position have the same history.
#[tokio::test]
async fn a_timeline_has_what_the_one_that_it_left_has_before_the_switch() {
    let Some(server) = Server::new() else { return };
    let whole = server.0[1].1.clone();
    let short = cut_short(&whole);
    for (changed, suffix, archived, is_refused) in [
        (Some(0x4100), "", &whole, true),
        (Some(0x4100), ".partial", &whole, true),
        (None, "", &whole, false),
        (Some(BEFORE_SWITCH + 0x100), "", &whole, false),
        // The timeline in the header of a page.
        (Some(0x4004), "", &whole, false),
        // A server that was promoted had not received all.
        (None, "", &short, false),
        (None, ".partial", &short, false),
    ] {
        let promoted = Promoted::new(&server, changed);
        let name = format!("{}{suffix}", promoted.of_parent);
        for parent_is_first in [true, false] {
            let repository = server.repository().await;
            let parent = async || push_content(&repository, &name, archived).await;
            if parent_is_first {
                parent().await.expect("nothing is beside it");
            }
            let history = promoted.push(&repository, "00000002.history").await;
            let pushed = promoted.push(&repository, &promoted.first).await;
            let (refused, expected) = match parent_is_first {
                true if is_refused => {
                    let of_history = not_continued(history);
                    let of_segment = not_continued(pushed);
                    assert_eq!(of_history, of_segment);
                    let before = format!("{name} in the repository");
                    (of_segment, (promoted.first.clone(), before))
                }
                true => {
                    history.expect("stored");
                    pushed.expect("stored");
                    continue;
                }
                false => {
                    history.expect("stored");
                    pushed.expect("stored");
                    if !is_refused {
                        parent().await.expect("stored");
                        continue;
                    }
                    let first = format!("{} in the repository", promoted.first);
                    (not_continued(parent().await), (first, name.clone()))
                }
            };
            let (segment, before, why) = refused;
            assert_eq!((segment, before), expected, "{why}");
            assert!(why.contains("timeline 2 left timeline 1"), "{why}");
        }
    }
}

#[tokio::test]
async fn a_segment_is_continued_by_the_first_one_of_a_later_timeline() {
    let Some(server) = Server::new() else { return };
    let promoted = Promoted::new(&server, None);
    let repository = server.repository().await;
    let pushed = promoted.push(&repository, &promoted.first).await;
    pushed.expect("stored");
    let name = &server.0[0].0;
    let pushed = push_content(&repository, name, &server.first_of_copy()).await;
    let (segment, before, _) = not_continued(pushed);
    let first = format!("{} in the repository", promoted.first);
    assert_eq!((segment, &before), (first, name));
    server.push(&repository, 0).await.expect("its own");
}

#[tokio::test]
async fn a_verification_finds_what_is_not_the_same_before_a_switch() {
    let Some(server) = Server::new() else { return };
    for (changed, is_found) in [(0x4100, true), (BEFORE_SWITCH + 0x100, false)] {
        let promoted = Promoted::new(&server, Some(changed));
        let repository = server.repository().await;
        server.push(&repository, 0).await.expect("stored");
        let pushed = promoted.push(&repository, &promoted.first).await;
        pushed.expect("stored");
        push_unseen(&repository, &promoted.of_parent, &server.0[1].1).await;
        let noting = || VerifyOptions {
            notes: true,
            verified_within: Some(jiff::SignedDuration::from_hours(24)),
            ..VerifyOptions::default()
        };
        for _ in 0..2 {
            let found = findings(&repository, noting()).await;
            let named: Vec<_> = found.iter().map(|of| (of.kind, &of.object)).collect();
            let expected = (FindingKind::WalNotContinued, &promoted.first);
            assert_eq!(named, Vec::from_iter(is_found.then_some(expected)));
        }
    }
}

#[tokio::test]
async fn samples_vouch_for_no_border_that_nobody_has_seen() {
    let Some(server) = Server::new() else { return };
    let repository = server.repository().await;
    push_unseen(&repository, &server.0[0].0, &server.first_of_copy()).await;
    push_unseen(&repository, &server.0[1].0, &server.0[1].1).await;
    push_unseen(&repository, &server.0[2].0, &server.0[2].1).await;
    for _ in 0..12 {
        let sample = VerifyOptions {
            sample: Some(50),
            notes: true,
            ..VerifyOptions::default()
        };
        findings(&repository, sample).await;
    }
    let within = VerifyOptions {
        verified_within: Some(jiff::SignedDuration::from_hours(24)),
        ..VerifyOptions::default()
    };
    assert_eq!(findings(&repository, within).await.len(), 1);
}
