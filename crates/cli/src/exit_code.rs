//! The one table of exit codes.
//!
//! PostgreSQL restarts its archiver when a command ends with a code above 125 or by a signal:
//! every code lies below that. A recovery, though, has to stop at trouble, which takes such a
//! code: the restore_command that `restore` writes makes one. Numbers are those of pgBackRest
//! where it knows the same kind of failure, so that existing alerts keep their meaning.
//! docs/errors.md says what to do about each; a test ties the two together.

macro_rules! kinds {
    ($($variant:ident = $code:literal, $name:literal, $meaning:literal;)*) => {
        /// What kind of failure ended a command.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind {
            $(#[doc = $meaning] $variant,)*
        }

        impl Kind {
            /// The exit code; a number is never reused for another kind.
            pub const fn code(self) -> u8 {
                match self { $(Kind::$variant => $code,)* }
            }

            /// The kind of this exit code.
            pub const fn of_code(code: u8) -> Option<Kind> {
                match code { $($code => Some(Kind::$variant),)* _ => None }
            }

            /// The kind's name in messages.
            pub const fn name(self) -> &'static str {
                match self { $(Kind::$variant => $name,)* }
            }
        }

        /// Every kind: code, name and meaning.
        #[cfg(test)]
        const ALL: &[(Kind, &str)] = &[$((Kind::$variant, $meaning),)*];
    };
}

kinds! {
    NotInArchive = 1, "not-in-archive", "the archive does not have the file that was asked for";
    Usage = 2, "usage", "the command line is wrong";
    Internal = 25, "internal", "a fault in walzip itself";
    Damaged = 26, "damaged", "stored data does not match its checksum";
    Config = 27, "config", "the configuration file is wrong";
    FileInvalid = 28, "file-invalid", "a file is not what it has to be";
    Format = 29, "format", "a file is not in a format that this walzip reads";
    OptionInvalid = 31, "option-invalid", "a setting or a request cannot be carried out";
    OptionRequired = 37, "option-required", "a setting that the command needs is missing";
    PgRunning = 38, "pg-running", "a server uses the data directory";
    Protocol = 39, "protocol", "the server answered in a way that walzip does not understand";
    PathNotEmpty = 40, "path-not-empty", "the directory to write into is not empty";
    FileRead = 42, "file-read", "a file cannot be read";
    ArchiveMismatch = 44, "archive-mismatch", "the file belongs to another cluster or major version";
    ArchiveDuplicate = 45, "archive-duplicate", "the archive has different content under this name";
    FileMissing = 55, "file-missing", "a file, or a program that `bench` is to run, does not exist";
    DbConnect = 56, "db-connect", "the server cannot be reached";
    DbQuery = 57, "db-query", "the server refused a query";
    FileWrite = 64, "file-write", "a file cannot be written";
    FeatureNotSupported = 67, "feature-not-supported", "walzip cannot do that yet";
    BackupSetInvalid = 75, "backup-set-invalid", "no backup serves the request";
    ArchiveTimeout = 82, "archive-timeout", "WAL did not arrive in the archive in time";
    FileOwner = 88, "file-owner", "PostgreSQL could not use files that root would own";
    FileExists = 93, "file-exists", "a file would be overwritten";
    Crypto = 95, "crypto", "the repository cannot be decrypted with the keys at hand";
    ParamInvalid = 96, "param-invalid", "a name is not one that PostgreSQL gives to a WAL file";
    Service = 101, "service", "the repository's storage failed";
    RepoInvalid = 103, "repo-invalid", "there is no repository at this place, or a part of it is gone";
    Problems = 104, "problems", "the check ran to its end and found problems";
    Access = 105, "access", "the server or the repository's storage refused access";
    TimelineAmbiguous = 110, "timeline-ambiguous", "two timelines were written to at the same time";
    WalMissing = 111, "wal-missing", "segments are missing before the target";
    TargetNotArchived = 112, "target-not-archived", "the target is not in the archived WAL";
    WalNotArchived = 113, "wal-not-archived", "WAL that is nowhere else would be removed";
    ClockBehind = 114, "clock-behind", "something in the repository is younger than the clock says";
    BeingExpired = 115, "being-expired", "a backup that is needed is being expired";
    Protected = 116, "protected", "an object keeps a backup restorable";
}

#[cfg(test)]
mod tests {
    use super::*;

    fn documented() -> Vec<(u8, String, String)> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors.md");
        let text = std::fs::read_to_string(path).expect("docs/errors.md is readable");
        let rows = text.lines().filter_map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let code = cells.first()?.parse().ok()?;
            Some((
                code,
                cells[1].trim_matches('`').to_owned(),
                cells[2].to_owned(),
            ))
        });
        rows.collect()
    }

    #[test]
    fn the_manual_lists_exactly_these_codes() {
        let table = ALL
            .iter()
            .map(|(kind, meaning)| (kind.code(), kind.name().to_owned(), (*meaning).to_owned()));
        let success = (
            0,
            "success".to_owned(),
            "the command did what it was asked".to_owned(),
        );
        let expected: Vec<_> = std::iter::once(success).chain(table).collect();
        assert_eq!(documented(), expected);
    }

    #[test]
    fn every_code_is_unique_and_harmless_to_postgresql() {
        let codes: Vec<u8> = ALL.iter().map(|(kind, _)| kind.code()).collect();
        assert!(
            codes.windows(2).all(|pair| pair[0] < pair[1]),
            "sorted and unique: {codes:?}"
        );
        assert!(codes.iter().all(|code| (1..=125).contains(code)));
    }
}
