//! One thing that a server was made to do, and what it took.

use serde::{Deserialize, Serialize};

use super::{Server, ServerUsage, Written};
use crate::error::Error;
use crate::usage::Usage;

/// What a server was made to do, measured.
///
/// A checkpoint ends each phase, so that every phase pays for what it leaves to be written, and
/// begins with none of its pages imaged. Its processor time and its bytes count; its wall time
/// and its WAL do not.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Phase {
    /// The client's wall time.
    pub wall_s: f64,
    /// How many transactions there were.
    pub transactions: Option<u64>,
    /// Transactions in a second.
    pub tps: Option<f64>,
    /// Processor time of the server.
    pub server_cpu_s: Option<f64>,
    /// Processor time of the client.
    pub client_cpu_s: f64,
    /// Bytes that the server wrote to its disk, WAL included.
    pub written_bytes: Option<u64>,
    /// Bytes that the server had read from its disk, which no cache had.
    #[serde(default)]
    pub read_bytes: Option<u64>,
    /// The first position of its WAL.
    pub from: u64,
    /// The position behind its WAL.
    pub to: u64,
    /// What is in its WAL.
    pub wal: Written,
}

impl Phase {
    /// The names of what [`Phase::csv`] writes.
    pub(crate) const CSV_HEADER: &'static str = "wall_s,transactions,tps,server_cpu_s,\
        client_cpu_s,written_bytes,read_bytes,wal_bytes,records,record_bytes,images,image_bytes,checkpoints";

    /// The values of a line; nothing where nothing is known.
    pub(crate) fn csv(&self) -> String {
        fn known<T: ToString>(value: Option<T>) -> String {
            value.map_or_else(String::new, |value| value.to_string())
        }
        let wal = &self.wal;
        let counts = [
            wal.bytes,
            wal.records,
            wal.record_bytes,
            wal.images,
            wal.image_bytes,
        ];
        format!(
            "{:.6},{},{},{},{:.6},{},{},{},{}",
            self.wall_s,
            known(self.transactions),
            known(self.tps.map(|tps| format!("{tps:.3}"))),
            known(self.server_cpu_s.map(|seconds| format!("{seconds:.2}"))),
            self.client_cpu_s,
            known(self.written_bytes),
            known(self.read_bytes),
            counts.map(|count| count.to_string()).join(","),
            wal.checkpoints,
        )
    }
}

/// What transactions took.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Ran {
    /// How many there were.
    pub transactions: u64,
    /// Transactions in a second, without the time that connecting took.
    pub tps: f64,
    /// What the client program took.
    pub client: Usage,
}

/// What a client did.
pub(crate) struct Done {
    pub(crate) client: Usage,
    pub(crate) ran: Option<Ran>,
}

impl From<Usage> for Done {
    fn from(client: Usage) -> Done {
        Done { client, ran: None }
    }
}

impl From<Ran> for Done {
    fn from(ran: Ran) -> Done {
        Done {
            client: ran.client,
            ran: Some(ran),
        }
    }
}

impl Server {
    /// Does something, and measures it.
    pub(crate) fn phase<D: Into<Done>>(
        &self,
        act: impl FnOnce(&Server) -> Result<D, Error>,
    ) -> Result<Phase, Error> {
        let (from, before) = (self.wal_position()?, self.usage());
        let Done { client, ran } = act(self)?.into();
        let to = self.wal_position()?;
        self.sql("CHECKPOINT")?;
        let after = self.usage();
        let cpu = before
            .zip(after)
            .map(|(before, after)| after.cpu.saturating_sub(before.cpu));
        let bytes = |of: fn(ServerUsage) -> Option<u64>| {
            before
                .zip(after)
                .and_then(|(before, after)| Some(of(after)?.saturating_sub(of(before)?)))
        };
        Ok(Phase {
            wall_s: client.wall.as_secs_f64(),
            transactions: ran.map(|ran| ran.transactions),
            tps: ran.map(|ran| ran.tps),
            server_cpu_s: cpu.map(|cpu| cpu.as_secs_f64()),
            client_cpu_s: (client.user + client.system).as_secs_f64(),
            written_bytes: bytes(|usage| usage.written_bytes),
            read_bytes: bytes(|usage| usage.read_bytes),
            from,
            to,
            wal: self.written(from..to)?,
        })
    }
}
