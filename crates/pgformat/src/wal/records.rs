//! Records over segments: one that begins in a segment and goes on in the next is put together.

use super::reader::{Event, SegmentReader};
use super::record::RecordLayout;
use super::segment_header::SegmentHeaderError;
use crate::units::Lsn;
use crate::version::Version;

/// Reads the records of segments that follow one another.
#[derive(Debug, Default)]
pub struct Records {
    /// The beginning of a record whose rest is in the next segment.
    broken_off: Option<(Lsn, Vec<u8>)>,
    layout: RecordLayout,
}

/// A record with its parts.
#[derive(Clone, Copy, Debug)]
pub struct ReadRecord<'a> {
    /// Where it begins.
    pub lsn: Lsn,
    /// The version of the segment in which it ends.
    pub version: &'static Version,
    /// The whole of it.
    pub bytes: &'a [u8],
    /// Its parts.
    pub layout: &'a RecordLayout,
}

/// What cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// The segment is none.
    #[error(transparent)]
    Header(#[from] SegmentHeaderError),
    /// A record that lies in several segments was put together, and is none. All others were read.
    #[error("the record at {0}, which goes on in another segment, is no valid record")]
    Broken(Lsn),
}

impl Records {
    /// Hands over the records that end in the next segment, in their order.
    pub fn read(
        &mut self,
        segment: &[u8],
        mut each: impl FnMut(ReadRecord<'_>),
    ) -> Result<(), RecordsError> {
        let begun = self.broken_off.take();
        let mut reader = SegmentReader::new(segment)?;
        self.broken_off = begun;
        let version = reader.header().version;
        let mut broken = None;
        while let Some(event) = reader.next_event(&mut self.layout) {
            match event {
                Event::Record { lsn } => each(ReadRecord {
                    lsn,
                    version,
                    bytes: reader.bytes(),
                    layout: &self.layout,
                }),
                // The rest of a record that was broken off was lost.
                Event::RunStart {
                    remaining_len: 0, ..
                } => self.broken_off = None,
                Event::Tail { lsn } => self.broken_off = Some((lsn, reader.bytes().to_vec())),
                Event::Lead { whole } => {
                    let Some((lsn, mut bytes)) = self.broken_off.take() else {
                        continue;
                    };
                    bytes.extend_from_slice(reader.bytes());
                    if !whole {
                        // A record longer than a segment goes on in the one after.
                        self.broken_off = Some((lsn, bytes));
                    } else if self.layout.read(&bytes, version).is_ok() {
                        each(ReadRecord {
                            lsn,
                            version,
                            bytes: &bytes,
                            layout: &self.layout,
                        });
                    } else {
                        broken.get_or_insert(lsn);
                    }
                }
                _ => {}
            }
        }
        broken.map_or(Ok(()), |lsn| Err(RecordsError::Broken(lsn)))
    }
}
