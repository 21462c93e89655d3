//! What servers are made to do: data and transactions that resemble different users'.
//!
//! Each workload first loads data, about 16 MB for each unit of scale, and then runs
//! transactions on it, as many as one likes and as often as one likes. The data is the same for
//! the same seed; the order in which several clients' transactions meet, and the moments at
//! which they happen, are the server's.

mod documents;
mod insert;
pub(crate) mod insert_phases;
mod loader;
mod shop;
mod time_series;
mod trips;
mod words;

use std::ffi::OsString;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use self::loader::{Loader, write_script};
use crate::error::Error;
use crate::server::{Ran, Server, wrong};
use crate::usage::Usage;

/// The seconds over which loaded data is spread: about a year.
const SPREAD_SECONDS: u64 = 31_000_000;

/// What a server is made to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// pgbench's own: updates all over one large table of padded rows.
    Pgbench,
    /// A shop: text, uuid, numeric, jsonb; B-tree and GIN indexes; inserts, updates, deletes.
    Shop,
    /// The insert benchmark: rows in key order under three secondary indexes in random order.
    Insert,
    /// Bulk loads of realistic rows by COPY.
    Copy,
    /// Reports of many devices, and hourly sums of them.
    TimeSeries,
    /// Documents under GIN, GiST, SP-GiST, hash and BRIN indexes.
    Documents,
}

/// How much is done on loaded data.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Transactions {
    /// The scale of the data.
    pub scale: u32,
    /// How many transactions, all clients together; rounded down to a multiple of the clients.
    pub count: u64,
    /// How many clients at a time. COPY always has one.
    pub clients: u32,
    /// What the clients' choices follow from.
    pub seed: u64,
}

/// A kind of transaction.
struct Script {
    name: &'static str,
    /// How often, relative to the others.
    weight: u32,
    /// For pgbench.
    text: String,
}

impl Workload {
    /// Every workload.
    pub const ALL: [Workload; 6] = [
        Workload::Pgbench,
        Workload::Shop,
        Workload::Insert,
        Workload::Copy,
        Workload::TimeSeries,
        Workload::Documents,
    ];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Pgbench => "pgbench",
            Workload::Shop => "shop",
            Workload::Insert => "insert",
            Workload::Copy => "copy",
            Workload::TimeSeries => "time-series",
            Workload::Documents => "documents",
        }
    }

    /// Makes and fills the tables in an empty database. Returns what the client took, or the
    /// clients together.
    pub fn load(self, server: &Server, scale: u32, seed: u64) -> Result<Usage, Error> {
        if self == Workload::Pgbench {
            let scale = scale.to_string();
            let (_, usage) = server.client_output("pgbench", &["-i", "-q", "-s", &scale])?;
            return Ok(usage);
        }
        let scale = u64::from(scale);
        let mut loader = Loader::new(server);
        match self {
            Workload::Pgbench => {}
            Workload::Shop => shop::load(&mut loader, scale, seed)?,
            Workload::Insert => insert::create(&mut loader)?,
            Workload::Copy => trips::load(&mut loader, scale, seed)?,
            Workload::TimeSeries => time_series::load(&mut loader, scale, seed)?,
            Workload::Documents => documents::load(&mut loader, scale, seed)?,
        }
        if self == Workload::Insert {
            let fill = Transactions {
                scale: 1,
                count: scale * insert::ROWS / insert::ROWS_PER_TRANSACTION,
                clients: 1,
                seed,
            };
            self.run(server, &fill)?;
            insert::index(&mut loader)?;
        }
        loader.finish()
    }

    /// Runs transactions on what [`Workload::load`] has made.
    pub fn run(self, server: &Server, how: &Transactions) -> Result<Ran, Error> {
        let scale = u64::from(how.scale);
        match self {
            Workload::Pgbench => pgbench(server, how, &[]),
            Workload::Shop => pgbench(server, how, &shop::scripts(scale)),
            Workload::Insert => pgbench(server, how, &[insert::script()]),
            Workload::TimeSeries => pgbench(server, how, &[time_series::script(scale)]),
            Workload::Documents => pgbench(server, how, &documents::scripts(scale)),
            Workload::Copy => {
                let answer = server.sql("SELECT coalesce(max(id), 0) FROM trips")?;
                let first = answer.parse().map_err(|_| wrong("the last row", &answer))?;
                let mut loader = Loader::new(server);
                let rows = how.count * trips::ROWS_PER_TRANSACTION;
                let from = (first, how.seed);
                trips::copy(&mut loader, rows, trips::ROWS_PER_TRANSACTION, from)?;
                let client = loader.finish()?;
                Ok(Ran {
                    transactions: how.count,
                    tps: how.count as f64 / client.wall.as_secs_f64().max(1e-9),
                    client,
                })
            }
        }
    }
}

/// Runs pgbench with scripts, or with its own transactions.
fn pgbench(server: &Server, how: &Transactions, scripts: &[Script]) -> Result<Ran, Error> {
    let clients = u64::from(how.clients.max(1));
    let each = (how.count / clients).max(1);
    let mut arguments: Vec<OsString> = vec!["-n".into()];
    for (option, value) in [("-c", clients), ("-j", clients), ("-t", each)] {
        arguments.extend([option.into(), value.to_string().into()]);
    }
    arguments.push(format!("--random-seed={}", how.seed).into());
    for script in scripts {
        let mut file = write_script(server, script.name, &script.text)?.into_os_string();
        file.push(format!("@{}", script.weight));
        arguments.extend(["-f".into(), file]);
    }
    let (said, client) = server.client_output("pgbench", &arguments)?;
    // Before 14 there were two such lines, the second without the time of connecting.
    let tps = said
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok())
        .ok_or_else(|| wrong("the transactions per second", &said))?;
    Ok(Ran {
        transactions: each * clients,
        tps,
        client,
    })
}

/// A moment so many seconds after the beginning of loaded data, as COPY reads it.
fn timestamp(second: u64, micros: u64) -> String {
    const BEGIN: i64 = 1_735_689_600;
    let moment = jiff::Timestamp::new(BEGIN.saturating_add_unsigned(second), micros as i32 * 1000);
    moment.map_or_else(
        |_| "infinity".to_owned(),
        |moment| moment.strftime("%Y-%m-%d %H:%M:%S%.f+00").to_string(),
    )
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Workload {
    type Err = Error;

    fn from_str(name: &str) -> Result<Workload, Error> {
        let found = Workload::ALL
            .into_iter()
            .find(|workload| workload.name() == name);
        found.ok_or_else(|| {
            let names = Workload::ALL.map(Workload::name);
            Error::Usage(format!(
                "no workload {name}: there are {}",
                names.join(", ")
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_as_copy_reads_it() {
        assert_eq!(timestamp(0, 0), "2025-01-01 00:00:00+00");
        assert_eq!(timestamp(86_400, 1_500), "2025-01-02 00:00:00.0015+00");
    }

    #[test]
    fn a_workload_is_known_by_its_name_alone() {
        for workload in Workload::ALL {
            assert_eq!(workload.name().parse::<Workload>().unwrap(), workload);
        }
        let error = "tpcc".parse::<Workload>().unwrap_err().to_string();
        assert!(error.contains("there are pgbench, shop"), "{error}");
    }
}
