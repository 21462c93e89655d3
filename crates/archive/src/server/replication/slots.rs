//! What streaming needs besides the stream: slots, the histories of timelines, and the size of a
//! segment.

use std::fmt;
use std::str::FromStr;

use fallible_iterator::FallibleIterator;
use walzip_pgformat::wal_file_name::is_segment_size;
use walzip_pgformat::{Lsn, TimelineId};

use super::ServerError;
use super::connection::{Connection, Mode, malformed, protocol};
use super::settings::ConnectionSettings;

/// The first major with `READ_REPLICATION_SLOT`.
const FIRST_MAJOR_THAT_READS_SLOTS: u32 = 15;

/// `duplicate_object`.
const EXISTS: &str = "42710";

/// The name of a replication slot: lower-case letters, digits and underscores, at most 63.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotName(String);

impl FromStr for SlotName {
    type Err = ServerError;

    fn from_str(text: &str) -> Result<SlotName, ServerError> {
        let is_known =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        match (1..=63).contains(&text.len()) && text.bytes().all(is_known) {
            true => Ok(SlotName(text.to_owned())),
            false => Err(ServerError::Settings(format!(
                "\"{text}\" cannot be a slot's name: it has lower-case letters, digits and \
                 underscores, 63 at most"
            ))),
        }
    }
}

impl fmt::Display for SlotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// From where on a slot keeps WAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotPosition {
    /// The position.
    pub restart: Lsn,
    /// Its timeline.
    pub timeline: TimelineId,
}

impl Connection {
    /// Makes a physical slot that keeps WAL from now on. One that is there is an error, unless it
    /// may be there.
    pub async fn create_slot(
        &mut self,
        slot: &SlotName,
        may_exist: bool,
    ) -> Result<(), ServerError> {
        let query = format!("CREATE_REPLICATION_SLOT \"{slot}\" PHYSICAL RESERVE_WAL");
        match self.query(&query).await {
            Err(error) if may_exist && error.sqlstate() == Some(EXISTS) => Ok(()),
            other => other.map(|_| ()),
        }
    }

    /// Whether the server tells over the replication protocol where a slot is.
    pub fn can_read_slots(&self) -> Result<bool, ServerError> {
        Ok(self.major()? >= FIRST_MAJOR_THAT_READS_SLOTS)
    }

    /// From where on a slot keeps WAL: nothing where it keeps none or is not there.
    pub async fn read_slot(
        &mut self,
        slot: &SlotName,
    ) -> Result<Option<SlotPosition>, ServerError> {
        let rows = self
            .query(&format!("READ_REPLICATION_SLOT \"{slot}\""))
            .await?;
        let column = |at: usize| rows.first().and_then(|row| row.get(at)?.as_deref());
        let Some(restart) = column(1) else {
            return Ok(None);
        };
        let position = || {
            Some(SlotPosition {
                restart: restart.parse().ok()?,
                timeline: TimelineId(column(2)?.parse().ok()?),
            })
        };
        let position = position();
        position
            .map(Some)
            .ok_or_else(|| protocol(format!("READ_REPLICATION_SLOT returned {rows:?}")))
    }

    /// The content of a timeline's history file.
    pub async fn timeline_history(&mut self, timeline: TimelineId) -> Result<Vec<u8>, ServerError> {
        let rows = self
            .query_rows(&format!("TIMELINE_HISTORY {timeline}"))
            .await?;
        let wrong = || protocol(format!("TIMELINE_HISTORY {timeline} returned no history"));
        let [row] = rows.as_slice() else {
            return Err(wrong());
        };
        let ranges: Vec<_> = row.ranges().collect().map_err(malformed)?;
        let column = |at: usize| row.buffer().get(ranges.get(at)?.clone()?);
        let name = format!("{:08X}.history", timeline.0);
        match (column(0), column(1)) {
            (Some(found), Some(content)) if found == name.as_bytes() => Ok(content.to_vec()),
            _ => Err(wrong()),
        }
    }

    /// The size of the server's segments.
    pub async fn segment_size(&mut self) -> Result<u32, ServerError> {
        let text = self.query_value("SHOW wal_segment_size").await?;
        read_size(&text).ok_or_else(|| protocol(format!("wal_segment_size is \"{text}\"")))
    }

    /// Whether the server archives its WAL itself.
    pub async fn archives(&mut self) -> Result<bool, ServerError> {
        Ok(self.query_value("SHOW archive_mode").await? != "off")
    }
}

/// From where on a slot keeps WAL, as SQL tells it on every major.
pub async fn slot_restart(
    settings: &ConnectionSettings,
    slot: &SlotName,
) -> Result<Lsn, ServerError> {
    let mut sql = Connection::open(settings, Mode::Sql).await?;
    let query = format!("SELECT restart_lsn FROM pg_replication_slots WHERE slot_name = '{slot}'");
    let text = sql.query_value(&query).await?;
    sql.close().await;
    let wrong = |_| protocol(format!("the slot is at \"{text}\""));
    text.parse().map_err(wrong)
}

/// `16MB`, as SHOW has it.
fn read_size(text: &str) -> Option<u32> {
    let (digits, unit) = match text.find(|c: char| !c.is_ascii_digit()) {
        Some(at) => text.split_at(at),
        None => (text, "B"),
    };
    let unit = match unit {
        "B" => 1,
        "kB" => 1 << 10,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        _ => return None,
    };
    let size = digits.parse::<u32>().ok()?.checked_mul(unit)?;
    is_segment_size(size).then_some(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slots_name_is_one_that_needs_no_escape() {
        for text in ["walzip", "node_1", "0"] {
            assert_eq!(text.parse::<SlotName>().expect(text).to_string(), text);
        }
        for text in ["", "Walzip", "a-b", "a\"b", "a b", &"x".repeat(64)] {
            assert!(text.parse::<SlotName>().is_err(), "{text}");
        }
    }

    #[test]
    fn reads_the_size_of_a_segment_with_its_unit() {
        assert_eq!(read_size("1MB"), Some(1 << 20));
        assert_eq!(read_size("16MB"), Some(16 << 20));
        assert_eq!(read_size("1GB"), Some(1 << 30));
        assert_eq!(read_size("16777216"), Some(16 << 20));
        for text in [
            "",
            "MB",
            "3MB",
            "2GB",
            "99999999GB",
            "16 MB",
            "512kB",
            "1TB",
        ] {
            assert_eq!(read_size(text), None, "{text}");
        }
    }
}
