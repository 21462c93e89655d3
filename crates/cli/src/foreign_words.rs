//! What pgBackRest, WAL-G and Barman call a command, an option or a key, and how that is done here.

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
        "start",
        "Nothing has to be allowed again: archiving runs as long as archive_command is set.",
    ),
    (
        "stop",
        "Nothing has to be stopped: commands run side by side. Stop the timers and \"walzip serve\" as services.",
    ),
    (
        "switch-wal",
        "\"walzip check\" switches to the next segment, and waits until it is archived.",
    ),
    ("wal-fetch", "\"walzip archive-get\" gets a WAL file."),
    ("wal-push", "\"walzip archive-push\" archives a WAL file."),
    ("wal-verify", "\"walzip verify\" reads all that is there."),
];

/// Options of other programs. Of one name, the first is meant that speaks of options of the command.
const OPTIONS: &[(&str, &str)] = &[
    ("--backup", "--set names a backup to remove."),
    (
        "--backup-standby",
        "-h names the server whose files are copied: that of a standby, where they are to come from there.",
    ),
    (
        "--db-exclude",
        "--database names the databases that are restored.",
    ),
    (
        "--db-include",
        "--database names the databases that are restored.",
    ),
    (
        "--exclude",
        "A backup leaves out what PostgreSQL's own does, and nothing else: keep other files outside the data directory.",
    ),
    ("--link-all", LINKS),
    ("--link-map", LINKS),
    ("--log-level-console", "-v says more, -q less."),
    ("--output", "--json prints JSON."),
    ("--pg-path", "-D names the data directory."),
    ("--pg1-path", "-D names the data directory."),
    (
        "--no-online",
        "A backup is of a running server: start it first. Of a stopped one, copy the data directory and all tablespaces.",
    ),
    (
        "--process-max",
        "A restore takes as many threads as there are processors, and has no option for that.",
    ),
    (
        "--recovery-option",
        "Write other settings into the postgresql.auto.conf of the restored cluster.",
    ),
    ("--repo1-path", "--repo names the repository."),
    ("--repo1-retention-full", KEPT_BACKUPS),
    ("--repo1-retention-full-type", KEPT_TIME),
    ("--set", "--backup names a backup."),
    (
        "--stanza",
        "A repository is for one cluster, and has no stanzas.",
    ),
    (
        "--start-fast",
        "--checkpoint says how a backup begins: fast or spread.",
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
         a recovery does. Without any, it goes to the end of the archive. \"none\" is nearest to --target-immediate, since a \
         backup needs its WAL. For \"preserve\", write your settings into the postgresql.auto.conf of the restored cluster.",
    ),
];

const LINKS: &str = "Directories that were links are restored as directories: move one elsewhere afterwards, and leave a link in its \
     place. -T says where tablespaces go.";

const KEPT_BACKUPS: &str = "The key \"repo-retention-full\" says how many full backups stay; so does the flag of \
     \"walzip expire\".";
const KEPT_TIME: &str =
    "The key \"repo-retention-window\" says for how long back every moment stays, such as \"14d\".";

const CREDENTIALS: &str = "Credentials are in variables, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or in a profile of Amazon's programs.";

/// Keys of other programs' configuration files, without numbers.
const KEYS: &[(&str, &str)] = &[
    (
        "archive-timeout",
        "\"walzip check\" and \"walzip backup\" have the flag --archive-timeout.",
    ),
    (
        "compress-level",
        "The key \"level\" says how hard it compresses, from 1 to 9.",
    ),
    (
        "compress-type",
        "The key \"level\" says how hard it compresses, from 1 to 9.",
    ),
    ("log-level-console", "-v says more, -q less."),
    (
        "pg-database",
        "The key \"dbname\" names the database to connect to.",
    ),
    (
        "pg-host",
        "The key \"host\" names the server; walzip runs where the repository is reached from.",
    ),
    ("pg-path", "The key \"pgdata\" names the data directory."),
    ("pg-port", "The key \"port\" is the server's port."),
    (
        "pg-socket-path",
        "The key \"host\" names the directory of the socket.",
    ),
    ("pg-user", "The key \"user\" names the user to connect as."),
    (
        "repo-cipher-pass",
        "\"walzip key init\" makes a key file, which the key \"repo-key-file\" names.",
    ),
    (
        "repo-cipher-type",
        "\"walzip key init\" makes a key file, which the key \"repo-key-file\" names.",
    ),
    (
        "repo-path",
        "The key \"repo\" names the repository: a path or a URL.",
    ),
    (
        "repo-retention-archive",
        "WAL stays for the backups that the key \"repo-retention-full\" keeps.",
    ),
    (
        "repo-retention-diff",
        "The key \"repo-retention-full\" keeps full backups, and all backups after them.",
    ),
    ("repo-retention-full-type", KEPT_TIME),
    (
        "repo-s3-bucket",
        "The key \"repo\" names the bucket: s3://BUCKET/PREFIX.",
    ),
    ("repo-s3-key", CREDENTIALS),
    ("repo-s3-key-secret", CREDENTIALS),
    (
        "repo-type",
        "The key \"repo\" names the repository: a path, or a URL such as s3://BUCKET/PREFIX.",
    ),
    (
        "stanza",
        "A repository is for one cluster, and has no stanzas.",
    ),
    (
        "start-fast",
        "The option --checkpoint of backup says how one begins: fast or spread.",
    ),
];

/// How a command is called here that has this name elsewhere.
pub fn command(name: &str) -> Option<&'static str> {
    find(COMMANDS, name)
}

/// How an option is called here that has this name elsewhere: what may be said of it, the best first.
pub fn option(name: &str) -> impl Iterator<Item = &'static str> {
    let found = OPTIONS.iter().filter(move |(foreign, _)| *foreign == name);
    found.map(|(_, here)| *here)
}

/// What to write in place of a key of another program's configuration file.
pub fn key(name: &str) -> Option<&'static str> {
    find(KEYS, &without_number(name))
}

/// pgBackRest numbers repositories and clusters: `repo1-path`, `pg1-path`.
fn without_number(name: &str) -> String {
    let numbered = ["repo", "pg"].into_iter().find_map(|group| {
        let rest = name.strip_prefix(group)?;
        Some(format!(
            "{group}{}",
            rest.trim_start_matches(|c: char| c.is_ascii_digit())
        ))
    });
    numbered.unwrap_or_else(|| name.to_owned())
}

fn find(words: &[(&'static str, &'static str)], name: &str) -> Option<&'static str> {
    let found = words.iter().find(|(foreign, _)| *foreign == name);
    found.map(|(_, here)| *here)
}
