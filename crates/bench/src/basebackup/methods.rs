//! How a base backup is compressed: one table row for each method and level.

use serde::Serialize;

use super::published::PUBLISHED;

/// What takes a base backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "program", rename_all = "kebab-case")]
pub enum Taker {
    /// pg_basebackup, with compression in the server.
    PgBasebackup {
        /// The method, as `--compress=server-METHOD` has it.
        method: &'static str,
        /// The level.
        level: u8,
    },
    /// `pgbackrest backup`, with zstd at level 3 in two processes.
    #[serde(rename = "pgbackrest")]
    PgBackRest,
    /// `walzip backup`.
    Walzip {
        /// The level.
        level: u8,
    },
}

/// The levels of walzip: its default, and one that takes longer for less.
const WALZIP: [u8; 2] = [1, 3];

/// pgBackRest's program.
pub(super) const PGBACKREST: &str = "pgbackrest";
/// What pgBackRest calls the cluster.
pub(super) const PGBACKREST_STANZA: &str = "--stanza=bench";
/// Both for backups and for restoring them.
pub(super) const PGBACKREST_PROCESSES: &str = "--process-max=2";

/// The methods and levels of a first look.
const QUICK: [(&str, u8); 4] = [("gzip", 1), ("lz4", 1), ("zstd", 1), ("zstd", 5)];

impl Taker {
    /// Every taker, pgBackRest where it is installed; with `quick` some of them.
    pub fn all(quick: bool, has_pgbackrest: bool) -> Vec<Taker> {
        let published = PUBLISHED.iter();
        let chosen =
            published.filter(|(method, level, _)| !quick || QUICK.contains(&(method, *level)));
        let mut takers: Vec<Taker> = chosen
            .map(|&(method, level, _)| Taker::PgBasebackup { method, level })
            .collect();
        takers.extend(has_pgbackrest.then_some(Taker::PgBackRest));
        let levels: &[u8] = if quick { &WALZIP[..1] } else { &WALZIP };
        takers.extend(levels.iter().map(|&level| Taker::Walzip { level }));
        takers
    }

    /// Whether it is walzip at some level.
    pub fn is_walzip(&self) -> bool {
        matches!(self, Taker::Walzip { .. })
    }

    /// Whether it is one of those that were published, which are ranked.
    pub fn is_ranked(&self) -> bool {
        matches!(self, Taker::PgBasebackup { .. })
    }

    /// What tables call it.
    pub fn label(&self) -> String {
        match self {
            Taker::PgBasebackup { method, level } => format!("{method}:{level}"),
            Taker::PgBackRest => "pgBackRest zst:3".to_owned(),
            Taker::Walzip { level } => format!("walzip backup -{level}"),
        }
    }

    /// Its published average rank.
    pub fn published_rank(&self) -> Option<f64> {
        let Taker::PgBasebackup { method, level } = self else {
            return None;
        };
        let mut pairs = PUBLISHED.iter();
        pairs
            .find(|(name, number, _)| (name, number) == (method, level))
            .map(|(_, _, rank)| *rank)
    }

    /// The arguments, but for the server's address.
    pub(super) fn arguments(&self) -> Vec<String> {
        match self {
            Taker::PgBasebackup { method, level } => {
                let compress = format!("--compress=server-{method}:{level}");
                let words = [
                    "-c",
                    "fast",
                    "-Ft",
                    "-D",
                    "-",
                    "-X",
                    "none",
                    "--no-manifest",
                ];
                words
                    .iter()
                    .map(ToString::to_string)
                    .chain([compress])
                    .collect()
            }
            Taker::PgBackRest => [
                PGBACKREST_STANZA,
                "--type=full",
                "--compress-type=zst",
                "--compress-level=3",
                PGBACKREST_PROCESSES,
                "--start-fast",
                "--no-archive-check",
                "backup",
            ]
            .map(str::to_owned)
            .to_vec(),
            Taker::Walzip { level } => {
                let level = format!("-{level}");
                ["backup", &level, "--repo", "repository"]
                    .map(str::to_owned)
                    .to_vec()
            }
        }
    }

    /// The command as provenance shows it.
    pub fn command_line(&self) -> String {
        let arguments = self.arguments().join(" ");
        match self {
            Taker::PgBasebackup { .. } => format!("pg_basebackup {arguments} | COUNTER"),
            Taker::PgBackRest => format!("{} {arguments}", PGBACKREST),
            Taker::Walzip { .. } => format!("walzip {arguments}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_methods_and_walzip_take_part() {
        assert_eq!(Taker::all(false, false).len(), 12 + WALZIP.len());
        assert_eq!(Taker::all(false, true).len(), 13 + WALZIP.len());
        assert_eq!(Taker::all(true, false).len(), 5);
        let lz4 = Taker::PgBasebackup {
            method: "lz4",
            level: 1,
        };
        assert_eq!(lz4.published_rank(), Some(1.3));
        assert_eq!(
            lz4.command_line(),
            "pg_basebackup -c fast -Ft -D - -X none --no-manifest --compress=server-lz4:1 | COUNTER"
        );
        assert_eq!(Taker::Walzip { level: 1 }.published_rank(), None);
    }
}
