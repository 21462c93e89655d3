//! What pgBackRest, WAL-G and Barman call a command or an option, and how that is done here.

/// Commands of other programs.
const COMMANDS: &[(&str, &str)] = &[
    ("backup-fetch", "\"walzip restore\" restores a cluster."),
    ("backup-list", "\"walzip info\" lists the backups."),
    ("backup-push", "\"walzip backup\" takes a backup."),
    ("delete", "\"walzip expire\" removes backups and WAL."),
    ("keep", "\"walzip pin\" keeps a backup."),
    ("list-backup", "\"walzip info\" lists the backups."),
    ("list-backups", "\"walzip info\" lists the backups."),
    ("recover", "\"walzip restore\" restores a cluster."),
    ("show-backup", "\"walzip info\" lists the backups."),
    (
        "stanza-create",
        "\"walzip init\" makes a repository for one cluster.",
    ),
    (
        "stanza-upgrade",
        "\"walzip upgrade\" registers what pg_upgrade made.",
    ),
    (
        "switch-wal",
        "\"walzip check\" switches to the next segment, and waits until it is archived.",
    ),
    ("wal-fetch", "\"walzip archive-get\" gets a WAL file."),
    ("wal-push", "\"walzip archive-push\" archives a WAL file."),
    ("wal-verify", "\"walzip verify\" reads all that is there."),
];

/// Options of other programs.
const OPTIONS: &[(&str, &str)] = &[
    (
        "--db-exclude",
        "--database names the databases that are restored.",
    ),
    (
        "--db-include",
        "--database names the databases that are restored.",
    ),
    ("--log-level-console", "-v says more, -q less."),
    ("--output", "--json prints JSON."),
    ("--pg-path", "-D names the data directory."),
    ("--pg1-path", "-D names the data directory."),
    (
        "--recovery-option",
        "Write other settings into the postgresql.auto.conf of the restored cluster.",
    ),
    ("--repo1-path", "--repo names the repository."),
    ("--set", "--backup names a backup."),
    (
        "--stanza",
        "A repository is for one cluster, and has no stanzas.",
    ),
    (
        "--start-fast",
        "The checkpoint of a backup is always a fast one.",
    ),
    (
        "--tablespace-map",
        "-T, --tablespace-mapping says where a tablespace goes.",
    ),
    (
        "--target",
        "--target-time, --target-lsn, --target-name, --target-xid and --target-immediate say where a recovery ends.",
    ),
    (
        "--type",
        "--target-time, --target-lsn, --target-name, --target-xid, --target-immediate and --standby say what \
         a recovery does.",
    ),
];

/// How a command is called here that has this name elsewhere.
pub fn command(name: &str) -> Option<&'static str> {
    find(COMMANDS, name)
}

/// How an option is called here that has this name elsewhere.
pub fn option(name: &str) -> Option<&'static str> {
    find(OPTIONS, name)
}

fn find(words: &[(&'static str, &'static str)], name: &str) -> Option<&'static str> {
    let found = words.iter().find(|(foreign, _)| *foreign == name);
    found.map(|(_, here)| *here)
}
