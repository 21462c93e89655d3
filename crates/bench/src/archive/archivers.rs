//! The archivers: one table row for each, and how each is made ready and called.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::kind::Kind;
use super::options::MakeRepository;
use super::place::Place;
use crate::contender::find_program;
use crate::launcher::calls::Call;
use crate::process::{self, Failure, Surroundings};

/// An archiver with its settings.
#[derive(Debug)]
pub struct Archiver {
    /// How results name it.
    pub name: &'static str,
    /// Whose it is.
    pub kind: Kind,
    /// Whether it works in the background too.
    pub background: bool,
    /// The level, as its program calls it.
    pub level: &'static str,
}

/// Every archiver, in the order of tables. Ratios compare with the first one that takes part.
#[rustfmt::skip]
pub static ARCHIVERS: &[Archiver] = &[
    Archiver { name: "pgBackRest zst 3", kind: Kind::PgBackRest, background: false, level: "3" },
    Archiver { name: "pgBackRest zst 3, background", kind: Kind::PgBackRest, background: true, level: "3" },
    // It always looks for further segments in the background.
    Archiver { name: "WAL-G zstd", kind: Kind::WalG, background: true, level: "zstd" },
    Archiver { name: "Barman gzip", kind: Kind::Barman, background: false, level: "gzip" },
    Archiver { name: "walzip -1", kind: Kind::Walzip, background: false, level: "-1" },
    Archiver { name: "walzip -1, background", kind: Kind::Walzip, background: true, level: "-1" },
    Archiver { name: "walzip -3", kind: Kind::Walzip, background: false, level: "-3" },
    Archiver { name: "walzip -3, background", kind: Kind::Walzip, background: true, level: "-3" },
];

/// What works in the background does so with so many processes.
const PROCESSES: &str = "2";
/// The name of the cluster where an archiver wants one.
const NAME: &str = "bench";
/// What a server calls a file that it gets.
const WANTED: &str = "pg_wal/RECOVERYXLOG";

/// An archiver that was made ready in a directory of its own.
pub(super) struct Ready<'a> {
    pub(super) archiver: &'static Archiver,
    pub(super) program: &'a Path,
    pub(super) home: &'a Path,
    pub(super) place: &'a Place,
    pub(super) surroundings: Surroundings<'a>,
}

impl Ready<'_> {
    /// Writes its configuration and makes its repository, which is not measured.
    pub(super) fn prepare(&self, make_repository: MakeRepository) -> Result<(), Failure> {
        for directory in ["repo", "spool"] {
            fs::create_dir_all(self.home.join(directory))?;
        }
        match self.archiver.kind {
            Kind::Walzip => {
                let (id, major) = (self.place.system_id, self.place.major);
                let made = make_repository(&self.home.join("repo"), id, major);
                made.map_err(|reason| Failure::Io(std::io::Error::other(reason)))
            }
            Kind::WalG => Ok(()),
            Kind::PgBackRest => {
                fs::write(self.home.join("conf"), self.pgbackrest_conf())?;
                let create = ["--no-online", "stanza-create"].map(str::to_owned);
                let create = self.pgbackrest_stanza().into_iter().chain(create);
                let create: Vec<_> = create.map(Into::into).collect();
                let surroundings = self.surroundings;
                process::run(self.program, &create, &[], Stdio::null(), surroundings)?;
                Ok(())
            }
            Kind::Barman => {
                fs::create_dir_all(self.incoming())?;
                fs::write(self.home.join("conf"), self.barman_conf()?)?;
                Ok(())
            }
        }
    }

    /// The calls that push segments. Barman's commands are those of its own documentation: a copy into
    /// its directory, and what its cron does with what is there.
    pub(super) fn pushes(&self) -> Result<Vec<Call>, Failure> {
        let mut calls = Vec::new();
        for segment in &self.place.segments {
            let path = format!("pg_wal/{}", segment.name);
            let renames = self.place.archived(&segment.name);
            let (program, words) = match self.archiver.kind {
                Kind::Walzip => {
                    let level = self.archiver.level.to_owned();
                    let words = self.walzip("archive-push").into_iter();
                    (
                        self.program.to_owned(),
                        words.chain([level, path]).collect(),
                    )
                }
                Kind::PgBackRest => {
                    let words = self.pgbackrest().into_iter();
                    let push = ["archive-push".to_owned(), path];
                    (self.program.to_owned(), words.chain(push).collect())
                }
                Kind::WalG => (self.program.to_owned(), vec!["wal-push".to_owned(), path]),
                Kind::Barman => {
                    let to = self.text(&self.incoming().join(&segment.name));
                    (self.other_program("cp")?, vec![path, to])
                }
            };
            calls.push(Call {
                program,
                arguments: words,
                renames,
            });
        }
        if self.archiver.kind == Kind::Barman {
            calls.push(Call {
                program: self.program.to_owned(),
                arguments: self.barman(&["archive-wal", NAME]),
                renames: Vec::new(),
            });
        }
        Ok(calls)
    }

    /// The calls that get them back. Each gets the name in `to` that a server would give it.
    pub(super) fn gets(&self, to: &Path) -> Vec<Call> {
        let calls = self.place.segments.iter().map(|segment| {
            let name = segment.name.clone();
            let (mut from, destination) = (self.place.data.join(WANTED), to.join(&name));
            let wanted = WANTED.to_owned();
            let arguments = match self.archiver.kind {
                Kind::Walzip => [self.walzip("archive-get"), vec![name, wanted]].concat(),
                Kind::PgBackRest => {
                    let get = vec!["archive-get".to_owned(), name, wanted];
                    [self.pgbackrest(), get].concat()
                }
                Kind::WalG => vec!["wal-fetch".to_owned(), name, wanted],
                Kind::Barman => {
                    let spool = self.home.join("spool");
                    from = spool.join(&name);
                    self.barman(&["get-wal", NAME, &name, "-o", &self.text(&spool)])
                }
            };
            Call {
                program: self.program.to_owned(),
                arguments,
                renames: vec![(from, destination)],
            }
        });
        calls.collect()
    }

    /// All of the environment of a call.
    pub(super) fn variables(&self) -> Vec<(String, String)> {
        let path = self.surroundings.search_path.to_string_lossy().into_owned();
        let own = match self.archiver.kind {
            Kind::Walzip => vec![("WALZIP_CONFIG", "/dev/null".to_owned())],
            Kind::WalG => vec![
                ("WALG_FILE_PREFIX", self.text(&self.home.join("repo"))),
                ("WALG_COMPRESSION_METHOD", self.archiver.level.to_owned()),
                ("PGDATA", self.text(&self.place.data)),
            ],
            Kind::PgBackRest | Kind::Barman => Vec::new(),
        };
        let all = [
            ("PATH", path),
            ("TMPDIR", self.text(self.surroundings.temp_dir)),
            ("HOME", self.text(self.home)),
            ("LC_ALL", "C".to_owned()),
        ];
        let all = all.into_iter().chain(own);
        all.map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Where it keeps what was pushed.
    pub(super) fn store(&self) -> PathBuf {
        match self.archiver.kind {
            Kind::Walzip => self.home.join("repo/wal"),
            Kind::PgBackRest => self.home.join("repo/archive"),
            Kind::WalG => self.home.join("repo"),
            Kind::Barman => self.home.join("repo").join(NAME).join("wals"),
        }
    }

    /// What a new spool needs: what was fetched ahead is not to be there a second time.
    pub(super) fn empty_spool(&self) -> std::io::Result<()> {
        let spool = self.home.join("spool");
        fs::remove_dir_all(&spool)?;
        fs::create_dir(&spool)
    }

    fn walzip(&self, command: &str) -> Vec<String> {
        let repository = self.text(&self.home.join("repo"));
        let mut words = [command, "--repo", &repository].map(str::to_owned).to_vec();
        if self.archiver.background {
            let spool = self.text(&self.home.join("spool"));
            let background = ["--archive-async", "--spool-path", &spool];
            words.extend(background.map(str::to_owned));
            words.extend(["--process-max", PROCESSES].map(str::to_owned));
        }
        words
    }

    fn pgbackrest_stanza(&self) -> [String; 2] {
        let conf = self.text(&self.home.join("conf"));
        [format!("--config={conf}"), format!("--stanza={NAME}")]
    }

    fn pgbackrest(&self) -> Vec<String> {
        let mut words = self.pgbackrest_stanza().to_vec();
        if self.archiver.background {
            words.push("--archive-async".to_owned());
            words.push(format!("--process-max={PROCESSES}"));
        }
        words
    }

    fn pgbackrest_conf(&self) -> String {
        let (home, data) = (self.text(self.home), self.text(&self.place.data));
        let level = self.archiver.level;
        let as_root = match rustix::process::geteuid().is_root() {
            true => "allow-root=y\n",
            false => "",
        };
        format!(
            "[global]\nrepo1-path={home}/repo\nlog-path={home}\nlock-path={home}\n\
             spool-path={home}/spool\nlog-level-file=off\nlog-level-console=off\n\
             log-level-stderr=warn\ncompress-type=zst\ncompress-level={level}\n{as_root}\
             [{NAME}]\npg1-path={data}\n"
        )
    }

    fn barman(&self, words: &[&str]) -> Vec<String> {
        let conf = self.text(&self.home.join("conf"));
        let all = ["-q", "-c", &conf].into_iter().chain(words.iter().copied());
        all.map(str::to_owned).collect()
    }

    /// A server that nobody connects to: segments come by its directory.
    fn barman_conf(&self) -> Result<String, Failure> {
        let (home, user) = (self.text(self.home), self.user()?);
        let level = self.archiver.level;
        Ok(format!(
            "[barman]\nbarman_home = {home}/repo\nbarman_user = {user}\n\
             barman_lock_directory = {home}\nlog_file = {home}/log\nlog_level = WARNING\n\
             [{NAME}]\ndescription = {NAME}\narchiver = on\nbackup_method = postgres\n\
             backup_options = concurrent_backup\nconninfo = host={home}\ncompression = {level}\n"
        ))
    }

    fn incoming(&self) -> PathBuf {
        self.home.join("repo").join(NAME).join("incoming")
    }

    /// The name of the user that this process runs as.
    fn user(&self) -> Result<String, Failure> {
        let said = self.home.join("user");
        let output = fs::File::create(&said)?.into();
        let id = self.other_program("id")?;
        process::run(&id, &["-un".into()], &[], output, self.surroundings)?;
        Ok(fs::read_to_string(said)?.trim().to_owned())
    }

    fn other_program(&self, name: &str) -> Result<PathBuf, Failure> {
        find_program(name, self.surroundings.search_path).ok_or_else(|| {
            let missing = format!("{name} is not installed");
            Failure::Io(std::io::Error::other(missing))
        })
    }

    /// A path of the temporary directory, whose name was checked to be text.
    fn text(&self, path: &Path) -> String {
        path.to_string_lossy().into_owned()
    }

    /// A call as results show it, without the machine's paths.
    pub(super) fn command(&self, call: &Call) -> String {
        let name = call.program.file_name().unwrap_or_default();
        let mut words = vec![name.to_string_lossy().into_owned()];
        let (home, data) = (self.text(self.home), self.text(&self.place.data));
        let first = self.place.segments.first().map_or("", |first| &first.name);
        words.extend(call.arguments.iter().map(|word| {
            let word = word.replace(&data, "DATA").replace(&home, "HOME");
            word.replace(first, "SEGMENT")
        }));
        words.join(" ")
    }
}
