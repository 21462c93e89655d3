//! `START_REPLICATION`: a server's WAL as it is written.
//!
//! The server sends data and keepalives, and is told how far the WAL is received and synced here.
//! A stream ends with its timeline: then the server says which one comes next.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend::{self, CopyData};
use walzip_pgformat::{Lsn, TimelineId};

use super::ServerError;
use super::connection::{Connection, Row, malformed, protocol, read_row, unexpected};
use super::slots::SlotName;

/// Seconds from 1970 to PostgreSQL's epoch, 2000.
const POSTGRES_EPOCH_SECONDS: u64 = 946_684_800;

/// A piece of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamPart {
    /// The next bytes.
    Data {
        /// The position of the first.
        start: Lsn,
        /// The bytes.
        bytes: Bytes,
    },
    /// A sign of life.
    Keepalive {
        /// The server wants to know at once how far we are.
        wants_reply: bool,
    },
    /// The timeline has no more WAL.
    End,
}

/// The timeline that follows the one that was streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextTimeline {
    /// Its number.
    pub timeline: TimelineId,
    /// Where it left the other.
    pub switch: Lsn,
}

/// A server that does not begin to stream within this time, or does not end, is given up.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// WAL under way.
pub struct WalStream<'c> {
    connection: &'c mut Connection,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Copying,
    /// The server has ended the COPY, and waits until we have.
    EndedByServer,
    /// There was no COPY, since the timeline ends where the stream was to begin.
    NotBegun,
}

impl<'c> WalStream<'c> {
    /// Starts it on a replication connection.
    pub async fn start(
        connection: &'c mut Connection,
        slot: &SlotName,
        start: Lsn,
        timeline: TimelineId,
    ) -> Result<WalStream<'c>, ServerError> {
        let query =
            format!("START_REPLICATION SLOT \"{slot}\" PHYSICAL {start} TIMELINE {timeline}");
        connection.send_query(&query).await?;
        let answer = tokio::time::timeout(ANSWER_MAX, connection.receive_copy_both()).await;
        let state = match answer.map_err(|_| ServerError::Silent(ANSWER_MAX))?? {
            None => State::Copying,
            Some(Message::RowDescription(_)) => State::NotBegun,
            Some(other) => return Err(unexpected("START_REPLICATION", &other)),
        };
        Ok(WalStream { connection, state })
    }

    /// The next piece. Nothing is lost when this is dropped before it is done.
    pub async fn next(&mut self) -> Result<StreamPart, ServerError> {
        if self.state != State::Copying {
            return Ok(StreamPart::End);
        }
        match self.connection.receive().await? {
            Message::CopyData(body) => read_part(body.into_bytes()),
            Message::CopyDone => {
                self.state = State::EndedByServer;
                Ok(StreamPart::End)
            }
            // A server that stops says so, and closes the connection.
            Message::CommandComplete(_) => {
                let stopped = std::io::ErrorKind::UnexpectedEof;
                Err(self.connection.lost(stopped.into()))
            }
            other => Err(unexpected("the stream of WAL", &other)),
        }
    }

    /// Tells the server how far WAL is received, and how far it is synced. Nothing is applied here,
    /// and nothing is said to be.
    pub async fn report(
        &mut self,
        written: Lsn,
        flushed: Lsn,
        wants_reply: bool,
    ) -> Result<(), ServerError> {
        if self.state == State::NotBegun {
            return Ok(());
        }
        let message = status(written, flushed, SystemTime::now(), wants_reply);
        let mut buffer = BytesMut::new();
        let message = CopyData::new(message).map_err(malformed)?;
        message.write(&mut buffer);
        self.connection.send(&buffer).await
    }

    /// Ends the stream. If its timeline has ended, the server says which one follows.
    pub async fn finish(self) -> Result<Option<NextTimeline>, ServerError> {
        let finished = tokio::time::timeout(ANSWER_MAX, self.end()).await;
        finished.map_err(|_| ServerError::Silent(ANSWER_MAX))?
    }

    async fn end(self) -> Result<Option<NextTimeline>, ServerError> {
        if self.state != State::NotBegun {
            let mut buffer = BytesMut::new();
            frontend::copy_done(&mut buffer);
            self.connection.send(&buffer).await?;
        }
        let mut next = None;
        loop {
            match self.connection.receive().await? {
                Message::DataRow(row) => {
                    next = Some(read_next(&read_row(&row).map_err(malformed)?)?);
                }
                // What was on its way when the stream was ended here.
                Message::CopyData(_) | Message::CopyDone => {}
                Message::RowDescription(_) | Message::CommandComplete(_) => {}
                Message::ReadyForQuery(_) => return Ok(next),
                other => return Err(unexpected("the end of a stream of WAL", &other)),
            }
        }
    }
}

fn read_part(mut message: Bytes) -> Result<StreamPart, ServerError> {
    let short = |message: &Bytes| {
        protocol(format!(
            "{} bytes in a message of the stream",
            message.len()
        ))
    };
    match message.try_get_u8() {
        Ok(b'w') if message.remaining() >= 24 => {
            let start = Lsn(message.get_u64());
            // The end of the server's WAL, and its clock.
            message.advance(16);
            match start.0.checked_add(message.len() as u64) {
                Some(_) => Ok(StreamPart::Data {
                    start,
                    bytes: message,
                }),
                None => Err(protocol(format!("WAL at {start} beyond the last position"))),
            }
        }
        Ok(b'k') if message.remaining() >= 17 => {
            message.advance(16);
            Ok(StreamPart::Keepalive {
                wants_reply: message.get_u8() != 0,
            })
        }
        Ok(b'w' | b'k') | Err(_) => Err(short(&message)),
        Ok(tag) => Err(protocol(format!("unknown tag {tag} in the stream of WAL"))),
    }
}

/// A standby status update.
fn status(written: Lsn, flushed: Lsn, now: SystemTime, wants_reply: bool) -> Bytes {
    let since_1970 = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let micros = since_1970.as_micros() as i64 - (POSTGRES_EPOCH_SECONDS * 1_000_000) as i64;
    let mut message = BytesMut::with_capacity(34);
    message.put_u8(b'r');
    message.put_u64(written.0);
    message.put_u64(flushed.0);
    // Invalid: a position would release those that wait for remote_apply.
    message.put_u64(0);
    message.put_i64(micros);
    message.put_u8(wants_reply.into());
    message.freeze()
}

fn read_next(row: &Row) -> Result<NextTimeline, ServerError> {
    let column = |at: usize| row.get(at)?.as_deref();
    let next = || {
        Some(NextTimeline {
            timeline: TimelineId(column(0)?.parse().ok()?),
            switch: column(1)?.parse().ok()?,
        })
    };
    next().ok_or_else(|| protocol(format!("the next timeline is {row:?}")))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn data(start: u64, content: &[u8]) -> Bytes {
        let mut message = BytesMut::new();
        message.put_u8(b'w');
        message.put_u64(start);
        message.put_u64(u64::MAX);
        message.put_i64(-1);
        message.extend_from_slice(content);
        message.freeze()
    }

    fn keepalive(reply: u8) -> Bytes {
        let mut message = BytesMut::new();
        message.put_u8(b'k');
        message.put_u64(7);
        message.put_i64(0);
        message.put_u8(reply);
        message.freeze()
    }

    #[test]
    fn reads_data_and_keepalives() {
        let part = StreamPart::Data {
            start: Lsn(5),
            bytes: Bytes::from_static(b"wal"),
        };
        assert_eq!(read_part(data(5, b"wal")).expect("data"), part);
        for (byte, wants_reply) in [(0, false), (1, true)] {
            let part = StreamPart::Keepalive { wants_reply };
            assert_eq!(read_part(keepalive(byte)).expect("a keepalive"), part);
        }
    }

    #[test]
    fn every_truncated_message_is_an_error() {
        for (whole, header_len) in [(data(5, b"wal"), 25), (keepalive(1), 18)] {
            for len in 0..header_len {
                let short = whole.slice(..len);
                assert!(read_part(short).is_err(), "{len} bytes of {whole:?}");
            }
        }
    }

    #[test]
    fn a_message_that_is_not_of_the_stream_is_an_error() {
        assert!(read_part(Bytes::from_static(b"x")).is_err());
        assert!(read_part(data(u64::MAX - 1, b"wal")).is_err());
    }

    #[test]
    fn a_status_says_what_is_written_and_synced_and_that_nothing_is_applied() {
        let now = UNIX_EPOCH + Duration::from_secs(POSTGRES_EPOCH_SECONDS + 1);
        let message = status(Lsn(0x0102), Lsn(3), now, true);
        let mut expected = vec![b'r'];
        expected.extend_from_slice(&0x0102_u64.to_be_bytes());
        expected.extend_from_slice(&3_u64.to_be_bytes());
        expected.extend_from_slice(&0_u64.to_be_bytes());
        expected.extend_from_slice(&1_000_000_i64.to_be_bytes());
        expected.push(1);
        assert_eq!(message, expected);
    }

    #[test]
    fn the_next_timeline_is_a_number_and_a_position() {
        let row =
            |number: &str, position: &str| vec![Some(number.to_owned()), Some(position.to_owned())];
        let next = read_next(&row("2", "0/3000060")).expect("a timeline");
        assert_eq!(
            (next.timeline, next.switch),
            (TimelineId(2), Lsn(0x0300_0060))
        );
        for wrong in [row("", "0/1"), row("2", "x"), vec![], vec![None, None]] {
            assert!(read_next(&wrong).is_err(), "{wrong:?}");
        }
    }
}
