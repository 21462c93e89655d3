//! How long it takes to make a data directory of a backup again.
//!
//! What pg_basebackup wrote to warm up is unpacked by tar and the method's own program; what
//! walzip and pgBackRest wrote is restored by them. None starts a server: recovery is the same for
//! all. walzip and pgBackRest sync what they restore, and check it; tar does neither.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::Command;

use super::measurement::Restored;
use super::on_server::{NO_CONFIGURATION, owners_command};
use super::results::Results;
use crate::contender::find_program;
use crate::package::how_to_install;
use crate::process::{self, Failure, Surroundings};
use crate::report::{Bars, Cell, Table};
use crate::server::Server;
use crate::spread::{Spread, spread};
use crate::usage::Usage;

const TAR: &str = "tar";
/// In the directory of a server.
pub(super) const RESTORED: &str = "restored";
/// In every data directory.
const A_FILE: &str = "PG_VERSION";

/// Lets pg_basebackup write into a file, and unpacks it as often as is asked for.
pub(super) fn unpacked(
    mut backup: Command,
    (method, loops): (&str, u32),
    surroundings: Surroundings<'_>,
) -> Result<Vec<Usage>, Failure> {
    let of = |name: &str| {
        find_program(name, surroundings.search_path).ok_or_else(|| {
            let install = how_to_install(name);
            let reason = format!("cannot be checked: the program {name} is missing ({install})");
            Failure::Io(io::Error::other(reason))
        })
    };
    let (tar, program) = (of(TAR)?, of(method)?);
    let directory = tempfile::TempDir::new_in(surroundings.temp_dir)?;
    let file = directory.path().join("backup");
    backup.stdout(File::create(&file)?);
    process::measure(backup, surroundings)?;
    let mut usages = Vec::new();
    for _ in 0..loops {
        let into = directory.path().join("data");
        fs::create_dir(&into)?;
        rustix::fs::sync();
        let mut unpack = process::measured(&tar, surroundings);
        unpack
            .arg("-I")
            .arg(&program)
            .arg("-xf")
            .arg(&file)
            .arg("-C")
            .arg(&into);
        usages.push(
            process::measure(unpack, surroundings).map_err(|failure| match failure {
                failure if failure.is_no_space() => failure,
                Failure::Cancelled => Failure::Cancelled,
                failure => Failure::Io(io::Error::other(format!(
                    "what it wrote cannot be unpacked: {method}: {failure}"
                ))),
            })?,
        );
        gone(&into)?;
    }
    directory.close()?;
    Ok(usages)
}

/// Lets walzip restore its newest backup as often as is asked for.
pub(super) fn restored(
    server: &Server,
    program: &Path,
    launcher: Option<&Path>,
    loops: u32,
) -> Result<Vec<Usage>, Failure> {
    let mut usages = Vec::new();
    for _ in 0..loops {
        rustix::fs::sync();
        let mut restore = owners_command(server, program, launcher)?;
        restore.env(NO_CONFIGURATION.0, NO_CONFIGURATION.1).args([
            "restore",
            "--repo",
            "repository",
            "-D",
            RESTORED,
        ]);
        usages.push(server.measure(restore)?);
        gone(&server.host().join(RESTORED))?;
    }
    Ok(usages)
}

/// Sees that a data directory was made, and removes it.
pub(super) fn gone(directory: &Path) -> Result<(), Failure> {
    if !directory.join(A_FILE).is_file() {
        let reason = format!("what was restored has no {A_FILE}");
        return Err(Failure::Io(io::Error::other(reason)));
    }
    Ok(fs::remove_dir_all(directory)?)
}

impl Results {
    /// What restoring a row's backup of a data set took.
    fn restoring(
        &self,
        (data_set, row): (usize, usize),
        value: fn(&Restored) -> f64,
    ) -> Option<Spread> {
        let of_both = |of: &&Restored| (of.data_set, of.row) == (data_set, row);
        spread(self.restored.iter().filter(of_both).map(value))
    }

    /// The rows whose backups of a data set were restored, the fastest first.
    fn restored_rows(&self, data_set: usize) -> Vec<(usize, Spread)> {
        let rows = 0..self.rows.len();
        let seconds = |row| self.restoring((data_set, row), |of| of.usage.wall.as_secs_f64());
        let mut found: Vec<_> = rows.filter_map(|row| Some((row, seconds(row)?))).collect();
        found.sort_by(|(_, one), (_, other)| one.median.total_cmp(&other.median));
        found
    }

    /// How long restoring takes; nothing where nothing was restored.
    pub(super) fn restore_table(&self, data_set: usize) -> Option<Table> {
        let heads = ["restored from", "seconds", "spread", "cpu s"];
        let mut table = Table::new(heads).wall(["seconds", "spread"]);
        let rows = self.restored_rows(data_set);
        for (row, seconds) in &rows {
            let cpu = self.restoring((data_set, *row), |of| of.usage.cpu().as_secs_f64());
            let cells = vec![
                Cell::from(self.rows[*row].label.as_str()),
                Cell::number(seconds.median, 2),
                Cell::percent(seconds.half_range),
                Cell::number_or_none(cpu.map(|cpu| cpu.median), 2),
            ];
            table.row_of(self.rows[*row].taker.is_walzip(), cells);
        }
        (!rows.is_empty()).then_some(table)
    }

    /// The same as bars.
    pub(super) fn restore_bars(&self, data_set: usize) -> Bars {
        let mut bars = Bars::new("s", 2).wall();
        for (row, seconds) in self.restored_rows(data_set) {
            let of_row = &self.rows[row];
            bars.of_runs(
                &of_row.label,
                Some(seconds),
                (of_row.taker.is_walzip(), None),
            );
        }
        bars
    }
}
