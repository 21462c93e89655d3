//! Whose an archiver is.

use serde::Serialize;

/// Whose an archiver is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// This project's.
    Walzip,
    /// pgBackRest.
    PgBackRest,
    /// WAL-G.
    WalG,
    /// Barman.
    Barman,
}

impl Kind {
    /// Each of them.
    pub const ALL: [Kind; 4] = [Kind::Walzip, Kind::PgBackRest, Kind::WalG, Kind::Barman];

    /// The name of its program, and the word for `--archiver`.
    pub fn program(self) -> &'static str {
        match self {
            Kind::Walzip => "walzip",
            Kind::PgBackRest => "pgbackrest",
            Kind::WalG => "wal-g",
            Kind::Barman => "barman",
        }
    }

    /// How it comes to a machine.
    pub fn install(self) -> &'static str {
        match self {
            Kind::Walzip => "make build",
            Kind::PgBackRest => {
                "apt install pgbackrest; or scripts/fetch-pgbackrest in walzip's source, with the \
                 directory of what its --path prints in PATH"
            }
            Kind::WalG => "the program of a release of WAL-G for PostgreSQL, named wal-g, in PATH",
            Kind::Barman => "apt install barman",
        }
    }

    pub(super) fn version(self) -> &'static [&'static str] {
        match self {
            Kind::PgBackRest => &["version"],
            Kind::Walzip | Kind::WalG | Kind::Barman => &["--version"],
        }
    }
}
