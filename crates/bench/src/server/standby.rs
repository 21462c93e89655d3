//! A standby of a throw-away server, on the same machine, and how far behind it is.
//!
//! What it receives is counted by positions in the WAL: the protocol's own bytes are not in it. How
//! far behind it is, the primary says (`pg_stat_replication`), which a client asks over and over
//! while something else is measured. Both servers share the processors.

use std::fs::{self, File};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{Account, PATIENCE, Server, owned_directory, said, too_slow, wrong};
use crate::error::Error;
use crate::process;

/// How often the primary is asked, in seconds.
const ASK_EVERY: &str = "0.2";
/// How often it is looked whether the standby has caught up.
const LOOK_EVERY: Duration = Duration::from_millis(50);

const LAG: &str = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn), \
    coalesce(extract(epoch FROM replay_lag), 0) FROM pg_stat_replication";
const POSITIONS: &str = "SELECT least(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) - '0/0'";

/// A server that replays what another one writes.
#[derive(Debug)]
pub(crate) struct Standby(Server);

/// What a standby received of something that was done, and how far behind it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Replication {
    /// Bytes of WAL, by positions.
    pub received_bytes: u64,
    /// The most bytes that were written and not replayed, of all moments that were looked at.
    pub lag_bytes_max: u64,
    /// The longest time from writing to replaying that the primary told.
    pub lag_s_max: f64,
    /// From the end of what was done until all of it was replayed.
    pub catch_up_s: f64,
    /// How many moments were looked at.
    pub moments: usize,
}

impl Replication {
    /// The names of what [`Replication::csv`] writes.
    pub(crate) const CSV_HEADER: &'static str =
        "received_bytes,lag_bytes_max,lag_s_max,catch_up_s,moments";

    /// The values of a line; nothing where there was no standby.
    pub(crate) fn csv(of: Option<&Replication>) -> String {
        of.map_or(",,,,".to_owned(), |of| {
            format!(
                "{},{},{:.3},{:.3},{}",
                of.received_bytes, of.lag_bytes_max, of.lag_s_max, of.catch_up_s, of.moments
            )
        })
    }
}

impl Server {
    /// Makes a standby, from a base backup of what there is.
    pub(crate) fn standby(&self) -> Result<Standby, Error> {
        let account = Account::choose()?;
        let directory = owned_directory(&self.installation.temp_dir, account)?;
        let path = directory.path();
        let mut backup = self
            .installation
            .server_command("pg_basebackup", path, account)?;
        backup
            .envs(self.environment())
            .args(["-R", "-c", "fast", "-X", "stream", "-D"])
            .arg(path.join("data"));
        process::measure(backup, self.installation.surroundings(path))
            .map_err(|failure| said("make a standby", &failure))?;
        let postmaster = self.installation.postmaster(path, account, None)?;
        let mut standby = Server {
            postmaster,
            installation: self.installation.clone(),
            settings: self.settings.clone(),
            group: None,
            directory,
        };
        standby.wait_until_ready()?;
        Ok(Standby(standby))
    }
}

impl Standby {
    /// Up to where it has received and replayed.
    fn position(&self) -> Result<u64, Error> {
        let position = self.0.sql(POSITIONS)?;
        position
            .parse()
            .map_err(|_| wrong("a position of the standby", &position))
    }

    /// Waits until it has replayed everything up to a position. Returns how long that took.
    fn catch_up(&self, to: u64) -> Result<Duration, Error> {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            if self.position()? >= to {
                return Ok(begin.elapsed());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Err(self.0.with_log(too_slow("catch up with the primary")))
    }

    /// Does something with the primary, and says what the standby had of it.
    pub(crate) fn watch<T>(
        &self,
        primary: &Server,
        act: impl FnOnce() -> Result<T, Error>,
    ) -> Result<(T, Replication), Error> {
        // What was written before belongs to nobody.
        self.catch_up(primary.flushed_position()?)?;
        let before = self.position()?;
        let asking = Asking::of(primary)?;
        let done = act()?;
        let caught_up = self.catch_up(primary.flushed_position()?)?;
        let lags = asking.end()?;
        let replication = Replication {
            received_bytes: self.position()?.saturating_sub(before),
            lag_bytes_max: lags.iter().map(|(bytes, _)| *bytes).max().unwrap_or(0),
            lag_s_max: lags.iter().map(|(_, seconds)| *seconds).fold(0.0, f64::max),
            catch_up_s: caught_up.as_secs_f64(),
            moments: lags.len(),
        };
        Ok((done, replication))
    }
}

impl Server {
    /// The position up to which the WAL is on the disk, and so can be sent.
    fn flushed_position(&self) -> Result<u64, Error> {
        let position = self.sql("SELECT pg_current_wal_flush_lsn() - '0/0'::pg_lsn")?;
        position
            .parse()
            .map_err(|_| wrong("a position in the WAL", &position))
    }
}

/// A client that asks the primary over and over. It ends with this value.
struct Asking {
    client: Child,
    said: std::path::PathBuf,
}

impl Asking {
    fn of(primary: &Server) -> Result<Asking, Error> {
        let (script, said) = (
            primary.host().join("lag.sql"),
            primary.host().join("lag.txt"),
        );
        fs::write(&script, format!("{LAG} \\watch {ASK_EVERY}\n"))
            .map_err(|source| Error::file(&script, source))?;
        let output = File::create(&said).map_err(|source| Error::file(&said, source))?;
        let surroundings = primary.installation.surroundings(primary.host());
        let program = primary.installation.program("psql")?;
        let mut psql = process::command(&program, surroundings);
        psql.envs(primary.environment())
            .args(["-X", "-A", "-t", "-q", "-F", " ", "-f"])
            .arg(&script)
            .stdout(output)
            .stderr(Stdio::null());
        let client = psql
            .spawn()
            .map_err(|source| Error::file(&program, source))?;
        Ok(Asking { client, said })
    }

    /// What was told: bytes and seconds.
    fn end(mut self) -> Result<Vec<(u64, f64)>, Error> {
        self.stop();
        let text =
            fs::read_to_string(&self.said).map_err(|source| Error::file(&self.said, source))?;
        Ok(lags(&text))
    }

    fn stop(&mut self) {
        // It fails only when the client has ended by itself, which is as good.
        let _ended = self.client.kill();
        let _reaped = self.client.wait();
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The lines with a number of bytes and of seconds; others are titles.
fn lags(text: &str) -> Vec<(u64, f64)> {
    let lines = text.lines().filter_map(|line| {
        let (bytes, seconds) = line.split_once(' ')?;
        let bytes: i64 = bytes.parse().ok()?;
        // A position that was asked for first may be behind one that was asked for last.
        Some((u64::try_from(bytes).unwrap_or(0), seconds.parse().ok()?))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_and_half_lines_are_no_lags() {
        let text = "Wed Nov 25 21:00:00 2026 (every 0.2s)\n\n4096 0.001250\n\n-8 0\n\n77";
        assert_eq!(lags(text), [(4096, 0.00125), (0, 0.0)]);
    }
}
