//! What a process took, and what the kernel counted of it.

use std::ops::AddAssign;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What one process took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// From before its start until its end.
    #[serde(rename = "wall_s", with = "seconds")]
    pub wall: Duration,
    /// Processor time in user mode, all threads together.
    #[serde(rename = "user_s", with = "seconds")]
    pub user: Duration,
    /// Processor time in the kernel, all threads together.
    #[serde(rename = "system_s", with = "seconds")]
    pub system: Duration,
    /// The most memory that was resident at a time.
    pub peak_memory_bytes: u64,
    /// What the kernel counted; none without a launcher.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
}

/// What the kernel counted of a process, all threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Page faults that read from a device.
    pub major_faults: u64,
    /// Page faults that did not.
    pub minor_faults: u64,
    /// How often it gave up a processor, to wait for something.
    pub voluntary_switches: u64,
    /// How often a processor was taken from it.
    pub involuntary_switches: u64,
}

impl Counts {
    /// The values, in the order of the fields.
    pub(crate) fn values(self) -> [u64; 4] {
        [
            self.major_faults,
            self.minor_faults,
            self.voluntary_switches,
            self.involuntary_switches,
        ]
    }
}

impl From<[u64; 4]> for Counts {
    fn from(values: [u64; 4]) -> Counts {
        let [
            major_faults,
            minor_faults,
            voluntary_switches,
            involuntary_switches,
        ] = values;
        Counts {
            major_faults,
            minor_faults,
            voluntary_switches,
            involuntary_switches,
        }
    }
}

impl Usage {
    /// Processor time of all kinds.
    pub fn cpu(&self) -> Duration {
        self.user + self.system
    }

    /// Wall, user and system time in seconds, as values of a CSV line.
    pub(crate) fn csv_seconds(&self) -> String {
        let [wall, user, system] =
            [self.wall, self.user, self.system].map(|time| time.as_secs_f64());
        format!("{wall:.6},{user:.6},{system:.6}")
    }
}

/// One process after another.
impl AddAssign for Usage {
    fn add_assign(&mut self, next: Usage) {
        self.wall += next.wall;
        self.user += next.user;
        self.system += next.system;
        self.peak_memory_bytes = self.peak_memory_bytes.max(next.peak_memory_bytes);
        // From the beginning, when nothing ran yet, there is nothing to add to.
        let (before, added) = (
            self.counts.map(Counts::values),
            next.counts.map(Counts::values),
        );
        self.counts = match (before, added) {
            (Some(before), Some(added)) => {
                Some(std::array::from_fn::<_, 4, _>(|at| before[at] + added[at]).into())
            }
            (None, added) => added.map(Counts::from),
            (before, None) => before.map(Counts::from),
        };
    }
}

/// A duration as a number of seconds.
mod seconds {
    use std::time::Duration;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        duration: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(duration.as_secs_f64())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        Duration::try_from_secs_f64(seconds).map_err(D::Error::custom)
    }
}
