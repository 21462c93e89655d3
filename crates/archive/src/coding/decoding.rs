//! An object is decoded on one thread, and hashed and written on another one.
//!
//! What was written is worth nothing before [`decode_to`] returns: only then its hash was compared.

use std::io::{self, Write};
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use walzip_codec::{DecodeToError, HashingOutput};

use crate::coding::two_threads;

/// Pieces, of 128 KB, that are handed over together: the thread is not woken for each.
const BATCH: usize = 4;
/// Batches that may wait to be written.
const WAITING: usize = 4;
/// What a piece has room for, so that its buffer grows once.
const PIECE_LEN: usize = 256 << 10;

/// Decodes all members of an object into an output, which is written to on another thread where
/// there may be one more.
pub(crate) fn decode_to(
    object: &[u8],
    output: &mut (dyn Write + Send),
) -> Result<(), DecodeToError> {
    let output = &Mutex::new(output);
    thread::scope(|scope| {
        let (work, to_do) = sync_channel(WAITING);
        let (used, empty) = channel();
        let write = move || {
            let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
            take(&mut **output, to_do, used)
        };
        let Ok(writer) = thread::Builder::new().spawn_scoped(scope, write) else {
            let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
            return walzip_codec::decode_to(object, &mut *output);
        };
        let mut beside = Beside {
            work,
            empty,
            batch: Vec::with_capacity(BATCH),
        };
        let decoded = walzip_codec::decode_hashed_to(object, &mut beside, two_threads::run_both);
        // Which ends the writer.
        drop(beside);
        let written = writer.join().unwrap_or_else(|panic| resume_unwind(panic));
        match (decoded, written) {
            (Err(DecodeToError::Decode(error)), _) => Err(error.into()),
            (_, Err(error)) => Err(DecodeToError::Write(error)),
            (decoded, Ok(())) => decoded,
        }
    })
}

enum Work {
    Take(Vec<Vec<u8>>),
    /// To say the length and the hash of what was taken since the last time.
    Finish(SyncSender<(u64, [u8; 32])>),
}

/// What the thread does until nobody has work for it any more, or the output takes no more.
fn take(output: &mut dyn Write, to_do: Receiver<Work>, used: Sender<Vec<u8>>) -> io::Result<()> {
    let mut hasher = blake3::Hasher::new();
    for work in to_do {
        match work {
            Work::Take(pieces) => {
                for mut piece in pieces {
                    hasher.update(&piece);
                    output.write_all(&piece)?;
                    piece.clear();
                    // Nobody may need it any more.
                    let _ = used.send(piece);
                }
            }
            Work::Finish(answer) => {
                let hash = hasher.finalize();
                let _ = answer.send((hasher.count(), *hash.as_bytes()));
                hasher.reset();
            }
        }
    }
    Ok(())
}

/// The thread's side that decodes.
struct Beside {
    work: SyncSender<Work>,
    empty: Receiver<Vec<u8>>,
    batch: Vec<Vec<u8>>,
}

impl Beside {
    fn hand_over(&mut self) -> io::Result<()> {
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        self.work.send(Work::Take(batch)).map_err(ended)
    }
}

/// The writer has ended; its own error is the one that counts.
fn ended<E>(_: E) -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

impl HashingOutput for Beside {
    fn empty_piece(&mut self) -> Vec<u8> {
        let empty = self.empty.try_recv();
        empty.unwrap_or_else(|_| Vec::with_capacity(PIECE_LEN))
    }

    fn take(&mut self, piece: Vec<u8>) -> io::Result<()> {
        self.batch.push(piece);
        match self.batch.len() < BATCH {
            true => Ok(()),
            false => self.hand_over(),
        }
    }

    fn finish(&mut self) -> io::Result<(u64, [u8; 32])> {
        self.hand_over()?;
        let (answer, answered) = sync_channel(1);
        self.work.send(Work::Finish(answer)).map_err(ended)?;
        answered.recv().map_err(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::ThreadId;

    use walzip_codec::{DecodeError, Level};

    /// Keeps what it gets until it is full, and the threads that wrote.
    struct Output {
        bytes: Vec<u8>,
        room: usize,
        threads: Vec<ThreadId>,
    }

    impl Output {
        fn of(room: usize) -> Output {
            Output {
                bytes: Vec::new(),
                room,
                threads: Vec::new(),
            }
        }
    }

    impl Write for Output {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.threads.push(thread::current().id());
            if self.bytes.len() + bytes.len() > self.room {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.bytes.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Two members, of which zstd makes little.
    fn object() -> (Vec<u8>, Vec<u8>) {
        let mut state = 1_u32;
        let mut byte = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let original: Vec<u8> = std::iter::repeat_with(&mut byte).take(3 << 20).collect();
        let (first, second) = original.split_at(2 << 20);
        let members = [first, second].map(|part| walzip_codec::encode(part, Level::MIN));
        let members = members.map(|member| member.expect("encoded"));
        (original, members.concat())
    }

    #[test]
    fn what_is_decoded_here_is_written_elsewhere() {
        let (original, object) = object();
        let mut output = Output::of(usize::MAX);
        decode_to(&object, &mut output).expect("decoded");
        assert!(output.bytes == original);
        assert!(output.threads.iter().all(|id| *id == output.threads[0]));
        assert_ne!(output.threads[0], thread::current().id());
    }

    #[test]
    fn an_output_that_takes_no_more_says_why() {
        let (_, object) = object();
        for room in [0, 1 << 20, (3 << 20) - 1] {
            let error = decode_to(&object, &mut Output::of(room)).expect_err("full");
            let DecodeToError::Write(error) = error else {
                panic!("{error}");
            };
            assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{room}");
        }
    }

    /// The hash of either member, with the header's checksum made right: everything can be decoded.
    #[test]
    fn another_hash_is_an_error() {
        let (_, object) = object();
        let first = walzip_codec::Header::read(&object).expect("a header");
        for start in [0, first.member_len as usize] {
            let mut damaged = object.clone();
            let member = &mut damaged[start..];
            let header = walzip_codec::Header::read(member).expect("a header");
            let hash = header.original_hash;
            let at = member.windows(32).position(|bytes| *bytes == hash);
            member[at.expect("a hash")] ^= 1;
            let checksum_at = header.header_len - 4;
            let checksum = crc32c::crc32c(&member[..checksum_at]).to_le_bytes();
            member[checksum_at..header.header_len].copy_from_slice(&checksum);
            let decoded = decode_to(&damaged, &mut Output::of(usize::MAX));
            let is_mismatch = matches!(
                decoded,
                Err(DecodeToError::Decode(DecodeError::HashMismatch))
            );
            assert!(is_mismatch, "{decoded:?}");
        }
    }

    #[test]
    fn a_panic_beside_is_one_here() {
        struct Panics;
        impl Write for Panics {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                panic!("on purpose")
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (_, object) = object();
        let decode = || decode_to(&object, &mut Panics);
        assert!(std::panic::catch_unwind(decode).is_err());
    }
}
