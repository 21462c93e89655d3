//! `walzip info --backup`: one backup, with what is in it.

use std::fmt;
use std::io::Write;

use walzip_archive::info::{BackupInfo, info};
use walzip_archive::{DatabaseRecord, Moment};
use walzip_repo::BackupLabel;

use super::{megabytes, write_notes};
use crate::error::CommandError;
use crate::repo_args::{self, Place};
use crate::runtime;
use crate::table::write_section;

/// Shows a backup of the first repository that has it.
pub(super) fn run(label: &BackupLabel, places: &[Place]) -> Result<(), CommandError> {
    let mut lacking = None;
    for place in places {
        let info = runtime::block_on(async {
            let repository = repo_args::open(place).await?;
            Ok(info(&repository).await?)
        })?;
        match info.backup(label) {
            Ok(backup) => {
                let text = Text { place, backup };
                return write!(std::io::stdout(), "{text}").map_err(CommandError::stdout);
            }
            Err(error) => lacking = Some(error),
        }
    }
    lacking.map_or(Ok(()), |error| Err(error.into()))
}

/// The backup for a person.
struct Text<'a> {
    place: &'a Place,
    backup: &'a BackupInfo,
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let backup = self.backup;
        let server = match backup.from_standby {
            true => "a standby",
            false => "a primary",
        };
        writeln!(f, "repository  {}", self.place)?;
        writeln!(f, "backup      {}, {}", backup.label, backup.backup_type)?;
        writeln!(f, "server      {}, {server}", backup.server_version)?;
        write_moment(f, "began", &backup.start)?;
        write_moment(f, "ended", &backup.stop)?;
        if let (Some(first), Some(last)) = (&backup.first_segment, &backup.last_segment) {
            writeln!(f, "needs WAL   {first} to {last}")?;
        }
        writeln!(
            f,
            "size        {} MB, {} MB stored",
            megabytes(backup.original_bytes),
            megabytes(backup.stored_bytes)
        )?;
        write_notes(f, backup)?;
        let databases = backup.databases.iter().map(database_row);
        write_section(f, &["Database", "OID", ""], databases.collect())?;
        let tablespaces = backup.tablespaces.iter().map(|tablespace| {
            vec![
                shown(tablespace.name.as_deref().unwrap_or_default()),
                tablespace.oid.to_string(),
                shown(&tablespace.location),
            ]
        });
        write_section(
            f,
            &["Tablespace", "OID", "directory"],
            tablespaces.collect(),
        )
    }
}

fn write_moment(f: &mut fmt::Formatter<'_>, what: &str, moment: &Moment) -> fmt::Result {
    let Moment {
        lsn,
        timeline,
        time,
    } = moment;
    writeln!(f, "{what:<12}{time:.0}, {lsn} on timeline {timeline}")
}

fn database_row(database: &DatabaseRecord) -> Vec<String> {
    let mut notes = Vec::new();
    if database.dropped {
        notes.push("dropped while the backup ran".to_owned());
    }
    if database.name_unknown {
        notes.push("its name may have been another one".to_owned());
    }
    if let Some(source) = database.copied_from {
        notes.push(format!("a copy of {source}, which is restored with it"));
    }
    vec![
        shown(&database.name),
        database.oid.to_string(),
        notes.join("; "),
    ]
}

/// A name that a terminal may be shown.
fn shown(name: &str) -> String {
    name.escape_debug().to_string()
}
