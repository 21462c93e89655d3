//! Receiving from a server that says what a test wants it to say.

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use walzip_pgformat::wal_file_name::SegmentName;
use walzip_repo::ClusterIdentity;

use super::*;

pub(super) const SYSTEM_ID: u64 = 7_600_000_000_000_000_001;
const SIZE: u64 = 1 << 20;

/// A segment of PostgreSQL 15: a page header, and bytes that are no zeros.
pub(super) fn segment(timeline: u32, number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(0xD110u16.to_le_bytes());
    bytes.extend(2u16.to_le_bytes());
    bytes.extend(timeline.to_le_bytes());
    bytes.extend((number * SIZE).to_le_bytes());
    bytes.extend(0u64.to_le_bytes());
    bytes.extend(SYSTEM_ID.to_le_bytes());
    bytes.extend((SIZE as u32).to_le_bytes());
    bytes.extend(8192u32.to_le_bytes());
    bytes.resize(SIZE as usize, 0x55);
    bytes
}

/// A message of the protocol.
fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut message = vec![tag];
    message.extend((body.len() as u32 + 4).to_be_bytes());
    message.extend_from_slice(body);
    message
}

fn data(start: u64, wal: &[u8]) -> Vec<u8> {
    let mut body = BytesMut::new();
    body.put_u8(b'w');
    body.put_u64(start);
    body.put_u64(start);
    body.put_i64(0);
    body.extend_from_slice(wal);
    message(b'd', &body)
}

fn row(columns: &[&str]) -> Vec<u8> {
    let mut body = BytesMut::new();
    body.put_u16(columns.len() as u16);
    for column in columns {
        body.put_u32(column.len() as u32);
        body.extend_from_slice(column.as_bytes());
    }
    message(b'D', &body)
}

fn answer(columns: &[&str]) -> Vec<u8> {
    let mut answer = message(b'T', &[0, 0]);
    answer.extend(row(columns));
    answer.extend(message(b'C', b"SHOW\0"));
    answer.extend(message(b'Z', b"I"));
    answer
}

/// What the server is told: written, synced and applied.
type Status = (u64, u64, u64);

/// Takes one connection, and sends these messages as its stream of WAL from segment 5 on. Notes
/// what it is told.
async fn serve(
    listener: TcpListener,
    stream: Vec<u8>,
    told: &RefCell<Vec<Status>>,
) -> std::io::Result<()> {
    let (mut connection, _) = listener.accept().await?;
    let len = connection.read_u32().await? as usize;
    let mut startup = vec![0; len - 4];
    connection.read_exact(&mut startup).await?;
    let mut hello = message(b'R', &[0, 0, 0, 0]);
    hello.extend(message(b'S', b"server_version\x0015.6\0"));
    hello.extend(message(b'Z', b"I"));
    connection.write_all(&hello).await?;
    let system_id = SYSTEM_ID.to_string();
    loop {
        let (_, query) = read_message(&mut connection).await?;
        let query = String::from_utf8_lossy(&query);
        let query = query.trim_end_matches('\0');
        let answer = match query.split(' ').next().unwrap_or_default() {
            "IDENTIFY_SYSTEM" => answer(&[&system_id, "1", "0/50FFFF0", ""]),
            "READ_REPLICATION_SLOT" => answer(&["physical", "0/500100", "1"]),
            "START_REPLICATION" => break,
            _ if query.contains("archive_mode") => answer(&["off"]),
            _ => answer(&["1MB"]),
        };
        connection.write_all(&answer).await?;
    }
    connection.write_all(&message(b'W', &[0, 0, 0])).await?;
    connection.write_all(&stream).await?;
    loop {
        match read_message(&mut connection).await? {
            (b'd', body) if body.first() == Some(&b'r') => {
                let number = |at: usize| u64::from_be_bytes(body[at..at + 8].try_into().unwrap());
                told.borrow_mut().push((number(1), number(9), number(17)));
            }
            // It is over, and ends with the answer.
            (b'c', _) => {
                let mut end = message(b'c', b"");
                end.extend(message(b'C', b"START_STREAMING\0"));
                end.extend(message(b'Z', b"I"));
                connection.write_all(&end).await?;
            }
            _ => {}
        }
    }
}

async fn read_message(connection: &mut TcpStream) -> std::io::Result<(u8, Vec<u8>)> {
    let tag = connection.read_u8().await?;
    let mut body = vec![0; connection.read_u32().await? as usize - 4];
    connection.read_exact(&mut body).await?;
    Ok((tag, body))
}

/// Repositories that take everything.
#[derive(Default)]
struct Taking(RefCell<Vec<(String, Vec<u8>)>>);

impl Destination for Taking {
    fn begin_session(&self, _: SegmentName) {}

    fn push<'f>(
        &'f self,
        path: &'f Path,
        _: ClusterIdentity,
    ) -> LocalBoxFuture<'f, Result<(), PushFailure>> {
        let name = path.file_name().expect("a name").to_string_lossy();
        let content = fs::read(path).expect("readable");
        self.0.borrow_mut().push((name.into_owned(), content));
        async { Ok(()) }.boxed_local()
    }

    fn stored(
        &self,
        _: ClusterIdentity,
    ) -> LocalBoxFuture<'_, Result<Vec<Vec<SegmentName>>, ArchiveError>> {
        async { Ok(vec![]) }.boxed_local()
    }
}

struct Outcome {
    result: Result<Received, ArchiveError>,
    pushed: Vec<(String, Vec<u8>)>,
    told: Vec<Status>,
    directory: TempDir,
}

/// Receives a stream of WAL until it fails, or for a while.
async fn receive_stream(stream: Vec<u8>) -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let text = format!("host=127.0.0.1 port={port} user=x sslmode=disable");
    let settings = ConnectionSettings::parse(&text).expect("valid");
    let directory = tempfile::tempdir().expect("a directory");
    let options = ReceiveOptions {
        slot: "test".parse().expect("a name"),
        create_slot: false,
        if_not_exists: false,
        directory: directory.path().to_owned(),
        status_interval: Duration::from_secs(10),
        reconnects: false,
        accepts_gap: false,
    };
    let destination = Taking::default();
    let told = RefCell::default();
    let stop = tokio::time::sleep(Duration::from_millis(500));
    let receiving = receive(&settings, &destination, &options, stop);
    let (result, _) = tokio::join!(receiving, serve(listener, stream, &told));
    Outcome {
        result,
        pushed: destination.0.into_inner(),
        told: told.into_inner(),
        directory,
    }
}

#[tokio::test]
async fn whole_segments_are_pushed_and_the_rest_stays() {
    let (five, six) = (segment(1, 5), segment(1, 6));
    let wal = [five.clone(), six[..100_000].to_vec()].concat();
    let mut stream = Vec::new();
    let mut position = 5 * SIZE;
    for piece in wal.chunks(70_000) {
        stream.extend(data(position, piece));
        position += piece.len() as u64;
    }
    let outcome = receive_stream(stream).await;
    let received = outcome.result.expect("it ends when it is asked to");
    assert_eq!(received.synced, Some(Lsn(6 * SIZE + 100_000)));
    assert_eq!(received.stored, Some(Lsn(6 * SIZE)));
    assert_eq!(received.waiting, 0);
    assert!(outcome.pushed == [("000000010000000000000005".to_owned(), five)]);
    let partial = outcome
        .directory
        .path()
        .join("000000010000000000000006.partial");
    let partial = fs::read(partial).expect("there");
    assert!(partial[..100_000] == six[..100_000]);
    assert!(partial[100_000..].iter().all(|&byte| byte == 0));

    // Nothing was reported before anything came, and at last all of it as synced.
    assert_eq!(outcome.told.first(), Some(&(0, 0, 0)));
    let end = 6 * SIZE + 100_000;
    assert_eq!(outcome.told.last(), Some(&(end, end, 0)));
    assert!(outcome.told.is_sorted());
    let is_synced = |(written, synced, applied): &Status| synced == written && *applied == 0;
    assert!(outcome.told.iter().all(is_synced), "{:?}", outcome.told);
}

#[tokio::test]
async fn wal_out_of_order_is_an_error() {
    let wal = segment(1, 5);
    let first = data(5 * SIZE, &wal[..8192]);
    for position in [0, 5 * SIZE, 5 * SIZE + 8191, 5 * SIZE + 8193, 1 << 60] {
        let stream = [first.clone(), data(position, &wal[8192..9000])].concat();
        let outcome = receive_stream(stream).await;
        let error = outcome.result.expect_err("out of order");
        assert!(error.to_string().contains("is to follow"), "{error}");
    }
}

#[tokio::test]
async fn messages_that_make_no_sense_are_errors() {
    let endless = [&[b'd'][..], &u32::MAX.to_be_bytes()].concat();
    let long = [&[b'd'][..], &(i32::MAX as u32).to_be_bytes()].concat();
    let too_short = [&[b'd'][..], &1u32.to_be_bytes()].concat();
    for stream in [
        endless,
        long,
        too_short,
        message(b'd', b""),
        message(b'd', b"w"),
        message(b'd', b"?"),
        message(b'D', &[0, 0]),
        message(b'!', b""),
        data(5 * SIZE, &[7; 8192]),
    ] {
        let outcome = receive_stream(stream.clone()).await;
        let error = outcome.result.expect_err("nonsense");
        let is_protocol = matches!(&error, ArchiveError::Server(ServerError::Protocol(_)));
        assert!(
            is_protocol,
            "{error} after {:?}",
            &stream[..stream.len().min(20)]
        );
    }
}

#[tokio::test]
async fn a_directory_has_one_receiver() {
    let directory = tempfile::tempdir().expect("a directory");
    let first = Directory::open(directory.path()).expect("free");
    let second = Directory::open(directory.path()).expect_err("taken");
    assert!(matches!(second, ArchiveError::Request(_)), "{second}");
    drop(first);
    Directory::open(directory.path()).expect("free again");
}

#[tokio::test]
async fn a_directory_says_where_to_go_on_and_what_is_to_be_pushed() {
    let temporary = tempfile::tempdir().expect("a directory");
    let path = temporary.path();
    let write = |name: &str, content: &[u8]| fs::write(path.join(name), content).expect("written");
    let directory = Directory::open(path).expect("free");
    assert_eq!(directory.place(SIZE as u32).expect("readable"), None);
    let place = |timeline, number: u64| {
        Some(Place {
            timeline: TimelineId(timeline),
            position: Lsn(number * SIZE),
        })
    };
    write("000000010000000000000004", &segment(1, 4));
    assert_eq!(directory.place(SIZE as u32).expect("readable"), place(1, 5));
    write("000000010000000000000005.partial", &segment(1, 5));
    assert_eq!(directory.place(SIZE as u32).expect("readable"), place(1, 5));
    write("00000002.history", b"1\t0/580000\tx\n");
    write("000000020000000000000005.partial", &[0; SIZE as usize]);
    assert_eq!(directory.place(SIZE as u32).expect("readable"), place(2, 5));
    let current = SegmentName::from_number(TimelineId(2), 5, SIZE as u32).expect("a name");
    directory.leave_others(Some(current)).expect("moved");
    write("000000020000000000000005", &segment(1, 5));
    write(".000000020000000000000006.partial.walzip.tmp", b"");
    let waiting = directory.waiting().expect("readable");
    let names: Vec<String> = waiting.iter().map(|file| file.name.to_string()).collect();
    let expected = [
        "000000010000000000000004",
        "000000010000000000000005.partial",
        "00000002.history",
        "000000020000000000000005",
    ];
    assert_eq!(names, expected);
    assert!(waiting[1].path.starts_with(path.join("left")));
    let cluster = directory.cluster().expect("one");
    assert_eq!(cluster.map(|cluster| cluster.system_id), Some(SYSTEM_ID));
}

/// Repositories that refuse one file, for one of two reasons.
struct Refusing {
    name: &'static str,
    is_taken: bool,
    taking: Taking,
}

impl Destination for Refusing {
    fn begin_session(&self, _: SegmentName) {}

    fn push<'f>(
        &'f self,
        path: &'f Path,
        cluster: ClusterIdentity,
    ) -> LocalBoxFuture<'f, Result<(), PushFailure>> {
        if !path.ends_with(self.name) {
            return self.taking.push(path, cluster);
        }
        let failure = PushFailure {
            message: "no".to_owned(),
            is_taken: self.is_taken,
        };
        async { Err(failure) }.boxed_local()
    }

    fn stored(
        &self,
        cluster: ClusterIdentity,
    ) -> LocalBoxFuture<'_, Result<Vec<Vec<SegmentName>>, ArchiveError>> {
        self.taking.stored(cluster)
    }
}

/// Pushes segments 4 and 6, and the partial 5 of a timeline that was left, to repositories that
/// refuse one of them. Returns what was pushed, and what is still there.
async fn push_left(
    name: &'static str,
    is_taken: bool,
    archives: bool,
) -> (Vec<String>, Vec<String>) {
    let temporary = tempfile::tempdir().expect("a directory");
    let directory = Directory::open(temporary.path()).expect("free");
    let left = temporary.path().join("left");
    fs::create_dir(&left).expect("made");
    for (path, number) in [
        (temporary.path().join("000000010000000000000004"), 4),
        (left.join("000000010000000000000005.partial"), 5),
        (temporary.path().join("000000020000000000000006"), 6),
    ] {
        fs::write(path, segment(1, number)).expect("written");
    }
    let destination = Refusing {
        name,
        is_taken,
        taking: Taking::default(),
    };
    let uploads = Uploads::new(&directory, &destination, None);
    let cluster = directory.cluster().expect("one").expect("known");
    uploads.set_server(cluster, SIZE as u32, !archives);
    uploads
        .finish()
        .await
        .expect("a directory that can be read");
    let pushed = destination.taking.0.into_inner().into_iter();
    let waiting = directory.waiting().expect("readable").into_iter();
    (
        pushed.map(|(name, _)| name).collect(),
        waiting.map(|file| file.name.to_string()).collect(),
    )
}

const FOUR: &str = "000000010000000000000004";
const FIVE: &str = "000000010000000000000005.partial";
const SIX: &str = "000000020000000000000006";

#[tokio::test]
async fn what_comes_after_a_file_that_is_refused_waits() {
    let (pushed, waiting) = push_left(FOUR, true, false).await;
    assert_eq!((pushed.len(), waiting.len()), (0, 3));
    let (pushed, waiting) = push_left(FIVE, false, false).await;
    assert_eq!(pushed, [FOUR]);
    assert_eq!(waiting, [FIVE, SIX]);
}

#[tokio::test]
async fn a_partial_segment_is_kept_where_a_server_has_archived_its_own() {
    let (pushed, waiting) = push_left("none", false, false).await;
    assert_eq!(pushed, [FOUR, FIVE, SIX]);
    assert!(waiting.is_empty());
    for (name, archives) in [(FIVE, false), ("none", true)] {
        let (pushed, waiting) = push_left(name, true, archives).await;
        assert_eq!(pushed, [FOUR, SIX]);
        assert_eq!(waiting, [FIVE]);
    }
}
