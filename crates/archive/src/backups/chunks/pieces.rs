//! Pieces: the runs of bytes that a file of a backup consists of, in the streams of this backup and
//! of those that it refers to; and how they stand in the index.

use serde::{Deserialize, Serialize};

use crate::backups::backup_record::REFERENCES_MAX;

/// The backup itself, among those that pieces name. Those that it refers to follow from 1 on.
pub(crate) const OWN: u32 = 0;
/// Pieces of one index, at most: each takes memory. See [`Spread`].
pub(crate) const PIECES_MAX: usize = 1 << 26;
/// So many pieces may be as short as blocks are.
const SHORT_PIECES_MAX: usize = 1 << 22;
/// Beyond them, so many blocks behind a changed one are taken for changed.
const BLOCKS_BEHIND: u32 = 16;
/// Pieces of one line.
pub(crate) const LINE_PIECES_MAX: usize = 256;

/// Numbers of streams in the index: this backup's up to its chunks of changed blocks, from there on,
/// and those of the backups that it refers to.
const PLAIN: u64 = 0;
const CHANGED: u64 = 1;
const REFERENCES: u64 = 2;

/// Consecutive bytes of a file, and where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Piece {
    /// The number of the backup in whose stream they are: 0 for this one.
    pub(crate) backup: u32,
    /// Where they begin there.
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

impl Piece {
    /// Where they end, unless no stream has so many bytes.
    pub(crate) fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.len)
    }
}

/// Adds a piece, to the last one where it continues that.
pub(crate) fn push(pieces: &mut Vec<Piece>, piece: Piece) {
    match pieces.last_mut() {
        Some(last) if last.backup == piece.backup && last.end() == Some(piece.offset) => {
            last.len += piece.len;
        }
        _ => pieces.push(piece),
    }
}

/// Keeps the pieces of a huge database few. Blocks that have not changed, between others that have,
/// take few bytes as changed ones, and their pieces take memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spread {
    pieces: usize,
    /// Blocks since the last one that has changed.
    behind: u32,
}

impl Spread {
    /// So many pieces were there before this file.
    pub(crate) fn of(pieces: usize) -> Spread {
        let behind = BLOCKS_BEHIND;
        Spread { pieces, behind }
    }

    /// Whether the next block would be taken for changed, although it has not.
    pub(crate) fn would_take_for_changed(mut self, pieces: usize) -> bool {
        self.is_taken_for_changed(pieces, false)
    }

    /// Whether the next block, which may be taken for changed, is.
    pub(crate) fn is_taken_for_changed(&mut self, pieces: usize, has_changed: bool) -> bool {
        self.behind = match has_changed {
            true => 0,
            false => self.behind.saturating_add(1),
        };
        let are_many = self.pieces.saturating_add(pieces) > SHORT_PIECES_MAX;
        are_many && self.behind < BLOCKS_BEHIND
    }
}

/// A piece as it stands in a line: its length; the number of the stream, unless that is 0; and where
/// it begins there, unless that is where it is expected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct PieceLine(Vec<u64>);

/// Where the next pieces are expected: in this backup's stream behind the last one; in that of
/// another backup as far behind the last one as the file has come meanwhile.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expected {
    own: [u64; 2],
    references: Vec<u64>,
}

impl Expected {
    /// At the beginnings of all streams; that of the changed blocks is `changed`.
    pub(crate) fn new(changed: u64) -> Expected {
        Expected {
            own: [0, changed],
            references: Vec::new(),
        }
    }

    /// Where the part of this backup's stream that is no changed blocks has come.
    pub(crate) fn plain_end(&self) -> u64 {
        self.own[0]
    }

    /// Where the changed blocks have come.
    pub(crate) fn changed_end(&self) -> u64 {
        self.own[1]
    }

    /// Steps over bytes of this backup that are no changed blocks.
    pub(crate) fn step_over(&mut self, len: u64) -> Result<(), String> {
        step(&mut self.own[0], len)
    }

    fn reference(&mut self, number: u64) -> Result<&mut u64, String> {
        let number = usize::try_from(number)
            .ok()
            .filter(|&number| number < REFERENCES_MAX)
            .ok_or_else(|| "a piece is of an impossible backup".to_owned())?;
        if self.references.len() <= number {
            self.references.resize(number + 1, 0);
        }
        self.references
            .get_mut(number)
            .ok_or_else(|| "a piece is of an impossible backup".to_owned())
    }

    fn passed(&mut self, len: u64) -> Result<(), String> {
        self.references
            .iter_mut()
            .try_for_each(|next| step(next, len))
    }

    /// The piece of a line.
    pub(crate) fn read(&mut self, line: &PieceLine) -> Result<Piece, String> {
        let (len, stream, offset) = match *line.0.as_slice() {
            [len] => (len, PLAIN, None),
            [len, stream] => (len, stream, None),
            [len, stream, offset] if stream >= REFERENCES => (len, stream, Some(offset)),
            _ => return Err("a piece is not understood".to_owned()),
        };
        if len == 0 {
            return Err("a piece has no bytes".to_owned());
        }
        let (backup, offset) = match stream.checked_sub(REFERENCES) {
            None => {
                let next = match stream {
                    PLAIN => &mut self.own[0],
                    _ => &mut self.own[1],
                };
                let offset = *next;
                step(next, len)?;
                (OWN, offset)
            }
            Some(number) => {
                let next = self.reference(number)?;
                let offset = *offset.as_ref().unwrap_or(next);
                *next = offset;
                (number as u32 + 1, offset)
            }
        };
        self.passed(len)?;
        Ok(Piece {
            backup,
            offset,
            len,
        })
    }

    /// The line of a piece; changed blocks begin at `changed` in this backup's stream.
    pub(crate) fn line(&mut self, piece: Piece, changed: u64) -> Result<PieceLine, String> {
        let stream = match piece.backup {
            OWN if piece.offset < changed => PLAIN,
            OWN => CHANGED,
            number => u64::from(number) - 1 + REFERENCES,
        };
        let mut values = vec![piece.len];
        if stream != PLAIN {
            values.push(stream);
        }
        if let Some(number) = stream.checked_sub(REFERENCES)
            && *self.reference(number)? != piece.offset
        {
            values.push(piece.offset);
        }
        let line = PieceLine(values);
        match self.read(&line)? == piece {
            true => Ok(line),
            false => Err("a piece of a file does not follow the one before it".to_owned()),
        }
    }
}

/// Backups that a new one refers to, at most. Chunks of so many can be held in memory while files are put
/// together: blocks of one file that follow one another may lie in all of them.
pub(crate) const REFERENCES_AT_ONCE: usize = 32;

fn step(next: &mut u64, len: u64) -> Result<(), String> {
    let stepped = next.checked_add(len);
    *next = stepped.ok_or_else(|| "its files have an impossible length".to_owned())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(backup: u32, offset: u64, len: u64) -> Piece {
        Piece {
            backup,
            offset,
            len,
        }
    }

    #[test]
    fn pieces_are_read_as_they_were_written_and_few_say_where_they_begin() {
        let pieces = [
            piece(0, 0, 100),
            piece(1, 5000, 8192),
            piece(0, 900, 8192),
            piece(1, 5000 + 2 * 8192, 10),
            piece(2, 70, 10),
            piece(0, 100, 5),
            piece(2, 85, 7),
        ];
        let mut expected = Expected::new(900);
        let lines = pieces.map(|piece| expected.line(piece, 900).expect("in order"));
        let text = serde_json::to_string(&lines).expect("JSON");
        let shown = "[[100],[8192,2,5000],[8192,1],[10,2],[10,3,70],[5],[7,3]]";
        assert_eq!(text, shown);
        let mut expected = Expected::new(900);
        let read = lines.map(|line| expected.read(&line).expect("as written"));
        assert_eq!(read, pieces);
    }

    #[test]
    fn a_stream_is_stepped_from_the_first_piece_of_a_later_one_on() {
        let pieces = [piece(2, 5000, 8192), piece(1, 8192, 10), piece(3, 0, 4)];
        let mut expected = Expected::new(0);
        let lines = pieces.map(|piece| expected.line(piece, 0).expect("in order"));
        let text = serde_json::to_string(&lines).expect("JSON");
        assert_eq!(text, "[[8192,3,5000],[10,2],[4,4]]");
        let mut expected = Expected::new(0);
        let read = lines.map(|line| expected.read(&line).expect("as written"));
        assert_eq!(read, pieces);
    }

    #[test]
    fn what_is_no_piece_is_refused() {
        for text in [
            "[]",
            "[0]",
            "[1,0,0]",
            "[1,1,5]",
            "[1,2,3,4]",
            "[1,9999]",
            "[1,2,18446744073709551615]",
        ] {
            let line: PieceLine = serde_json::from_str(text).expect("numbers");
            assert!(Expected::new(0).read(&line).is_err(), "{text}");
        }
    }

    #[test]
    fn beyond_so_many_pieces_they_are_longer() {
        let taken = |pieces: usize| {
            let mut spread = Spread::of(pieces);
            let blocks = (0..60).map(|block| block == 10 || block == 12);
            let taken = blocks.map(|changed| spread.is_taken_for_changed(3, changed) || changed);
            taken.collect::<Vec<_>>()
        };
        let only: Vec<bool> = (0..60).map(|block| block == 10 || block == 12).collect();
        assert_eq!(taken(SHORT_PIECES_MAX - 3), only);
        let with_those_behind: Vec<bool> = (0..60).map(|block| (10..28).contains(&block)).collect();
        assert_eq!(taken(SHORT_PIECES_MAX), with_those_behind);
    }

    #[test]
    fn pieces_that_continue_each_other_are_one() {
        let mut pieces = vec![piece(1, 0, 8)];
        push(&mut pieces, piece(1, 8, 8));
        push(&mut pieces, piece(2, 16, 8));
        push(&mut pieces, piece(2, 25, 8));
        assert_eq!(pieces, [piece(1, 0, 16), piece(2, 16, 8), piece(2, 25, 8)]);
    }
}
