//! The two repositories: where they are, whether they can be reached, and what is in them, read past
//! everything that stands in the way of the program.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::runtime::Runtime;
use walzip_repo::testing::proxy::{Proxy, Spoilt};
use walzip_repo::testing::servers;
use walzip_repo::{Location, RepoError, Repository, StoreSettings, open_store};

use super::{NUMBERS, Number};
use crate::clusters::site::{Site, succeed};
use crate::random::Random;
use crate::rounds::Checked;

/// How long an operation on the bucket is tried, in seconds.
const TIMEOUT: u32 = 3;

/// How many requests of a hundred go wrong when the service falters.
const FALTERING: usize = 15;

/// How the bucket's service is.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u8)]
pub enum Service {
    /// It answers.
    Well,
    /// Some requests go wrong.
    Falters,
    /// Nobody answers.
    Silent,
    /// Every request is refused.
    Refuses,
    /// Every request is carried out, and no answer comes back.
    Mute,
}

/// Both repositories.
pub struct Places<'a> {
    site: &'a Site,
    runtime: Runtime,
    service: Arc<AtomicU8>,
    bucket: String,
    settings: StoreSettings,
    /// Which one cannot be reached.
    pub away: Option<Number>,
}

/// What one of them holds.
pub struct Held {
    /// The names of WAL files.
    pub wal: BTreeSet<String>,
    /// The finished backups.
    pub backups: BTreeMap<String, Extent>,
}

/// The segments that a backup needs: their timeline, and their numbers.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    pub timeline: u32,
    pub first: u64,
    pub last: u64,
}

/// Where a WAL file begins: its timeline, and the number of the segment; nothing of a history.
pub fn segment_at(name: &str) -> Option<(u32, u64)> {
    crate::clusters::model::segment(name.get(..24)?)
}

/// Whether a file is a history, or begins at such a place or after it.
pub fn is_from(first: (u32, u64), name: &str) -> bool {
    segment_at(name).is_none_or(|(timeline, number)| timeline >= first.0 && number >= first.1)
}

impl Held {
    /// The numbers of whole segments, on whichever timeline: there is one server, whose timelines
    /// follow each other.
    pub fn numbers(&self) -> BTreeSet<u64> {
        let whole = self.wal.iter().filter(|name| name.len() == 24);
        whole.filter_map(|name| Some(segment_at(name)?.1)).collect()
    }

    /// Whether a timeline has lost its history.
    pub fn lacks_history(&self) -> bool {
        let timelines = self.wal.iter().filter_map(|name| Some(segment_at(name)?.0));
        let mut later = timelines.filter(|timeline| *timeline > 1);
        later.any(|timeline| !self.wal.contains(&format!("{timeline:08X}.history")))
    }

    /// Whether something is missing between what is there.
    pub fn has_hole(&self) -> bool {
        let numbers: Vec<u64> = self.numbers().into_iter().collect();
        self.lacks_history() || numbers.windows(2).any(|pair| pair[0] + 1 != pair[1])
    }
}

impl<'a> Places<'a> {
    /// A bucket of its own behind a proxy, encrypted in every second round, and the files that name
    /// both places.
    pub fn prepare(site: &'a Site, seed: u64) -> Checked<Places<'a>> {
        let text = |error: std::io::Error| error.to_string();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(text)?;
        // A seed may be repeated in one process, and a bucket lives as long as its server.
        let bucket = unused(format!("torture-{seed}"));
        let mut settings = servers::moto_bucket(&bucket);
        if seed % 2 == 1 {
            let key_file = site.path("bucket.key");
            let mut make = site.walzip(&["key", "init"]);
            succeed(make.arg(&key_file));
            settings.key_file = Some(key_file);
        }
        let service = Arc::new(AtomicU8::new(Service::Well as u8));
        let state = Arc::clone(&service);
        let plan = move |number, _: &str, _: &str| spoilt(&state, seed, number);
        let proxy = runtime.block_on(async { Proxy::start(servers::moto().port(), plan) });
        let places = Places {
            site,
            runtime,
            service,
            bucket,
            settings,
            away: None,
        };
        places.write_files(proxy.port())?;
        Ok(places)
    }

    fn write_files(&self, port: u16) -> Checked {
        let first = format!("repo = \"{}\"\n", self.site.path("one").display());
        let key_file = self.settings.key_file.iter();
        let key_file: String = key_file
            .map(|path| format!("repo2-key-file = \"{}\"\n", path.display()))
            .collect();
        let second = format!(
            "repo2 = \"s3://{}/db\"\nrepo2-timeout = {TIMEOUT}\n\
             repo2-s3-endpoint = \"http://127.0.0.1:{port}\"\n{key_file}",
            self.bucket
        );
        let credentials = "[default]\naws_access_key_id = key\naws_secret_access_key = secret\n";
        let aws = self.site.create_directory(".aws");
        let files = [
            (self.file("1"), first.clone()),
            (self.file("2"), second.clone()),
            (self.file("12"), first + &second),
            (aws.join("credentials"), credentials.to_owned()),
        ];
        for (path, content) in files {
            fs::write(&path, content).map_err(|error| error.to_string())?;
            self.site.hand_over(&path);
            let own = fs::Permissions::from_mode(0o600);
            fs::set_permissions(&path, own).map_err(|error| error.to_string())?;
        }
        self.archive_into("12")
    }

    /// The configuration file with these repositories.
    pub fn file(&self, numbers: &str) -> PathBuf {
        self.site.path(&format!("walzip-{numbers}.toml"))
    }

    /// Lets the server archive into these, from its next push on.
    pub fn archive_into(&self, numbers: &str) -> Checked {
        let new = self.site.path("active.new");
        fs::write(&new, numbers).map_err(|error| error.to_string())?;
        fs::rename(new, self.site.path("active")).map_err(|error| error.to_string())
    }

    /// The repositories into which the server archives.
    pub fn active(&self) -> Checked<Vec<Number>> {
        let text = fs::read_to_string(self.site.path("active"));
        let text = text.map_err(|error| error.to_string())?;
        let is_named = |number: &Number| text.contains(&number.to_string());
        Ok(NUMBERS.into_iter().filter(is_named).collect())
    }

    /// Whether the server's pushes can succeed.
    pub fn takes_pushes(&self) -> Checked<bool> {
        let active = self.active()?;
        Ok(self.away.is_none_or(|away| !active.contains(&away)))
    }

    /// How the bucket's service is from now on.
    pub fn set_service(&self, service: Service) {
        self.service.store(service as u8, Ordering::SeqCst);
    }

    /// Whether the bucket's service falters.
    pub fn falters(&self) -> bool {
        self.service.load(Ordering::SeqCst) == Service::Falters as u8
    }

    /// Moves the directory out of reach, or puts it back.
    pub fn move_directory(&self, is_away: bool) -> Checked {
        let (here, there) = (self.site.path("one"), self.site.path("elsewhere"));
        let moved = match is_away {
            true => fs::rename(here, there),
            false => fs::rename(there, here),
        };
        moved.map_err(|error| error.to_string())
    }

    /// Where the first repository is at this moment.
    fn directory(&self) -> PathBuf {
        self.site.path(match self.away {
            Some(1) => "elsewhere",
            _ => "one",
        })
    }

    fn open(&self, number: Number) -> Checked<Repository> {
        let plain = StoreSettings::default();
        let (place, settings) = match number {
            1 => (self.directory().display().to_string(), &plain),
            _ => (format!("s3://{}/db", self.bucket), &self.settings),
        };
        let opened = self.runtime.block_on(async {
            let location = Location::parse(&place)?;
            Repository::open(open_store(&location, settings)?).await
        });
        opened.map_err(|error| format!("repository {number}: {error}"))
    }

    /// Reads what a repository holds.
    pub fn held(&self, number: Number) -> Checked<Held> {
        let repository = self.open(number)?;
        let read = async {
            let wal = repository.list_wal().await?;
            let mut backups = Vec::new();
            for label in repository.list_backups().await? {
                match repository.read_backup_json(&label).await {
                    Ok(json) => backups.push((label.to_string(), json)),
                    // An expiry removes it at this moment.
                    Err(RepoError::NotFound { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok((wal, backups))
        };
        let (wal, backups) = self
            .runtime
            .block_on(read)
            .map_err(|error: RepoError| format!("repository {number}: {error}"))?;
        let backups = backups.into_iter().map(|(label, json)| {
            let extent = extent(&json).ok_or_else(|| format!("the description of {label}"))?;
            Ok((label, extent))
        });
        Ok(Held {
            wal: wal.into_iter().map(|entry| entry.name).collect(),
            backups: backups.collect::<Checked<_>>()?,
        })
    }

    /// Reads and decodes WAL files.
    pub fn contents(&self, number: Number, names: &[String]) -> Checked<Vec<(String, Vec<u8>)>> {
        let repository = self.open(number)?;
        let mut contents = Vec::new();
        for name in names {
            let wrong = |what: String| format!("repository {number}: {name}: {what}");
            let object = self.runtime.block_on(repository.get_wal(name));
            let object = object.map_err(|error| wrong(error.to_string()))?;
            // Removed since it was listed: what is missing is looked for elsewhere.
            let Some(object) = object else { continue };
            let content = walzip_codec::decode(&object);
            contents.push((
                name.clone(),
                content.map_err(|error| wrong(error.to_string()))?,
            ));
        }
        Ok(contents)
    }
}

/// A name with a number that no other bucket of this process has.
fn unused(name: String) -> String {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    format!("{name}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn spoilt(state: &AtomicU8, seed: u64, number: u64) -> Spoilt {
    let state = state.load(Ordering::SeqCst);
    let mut random = Random::of_step(seed, number);
    match state {
        state if state == Service::Silent as u8 => Spoilt::Reset,
        state if state == Service::Refuses as u8 => Spoilt::Refused(503),
        state if state == Service::Mute as u8 => Spoilt::AnswerLost,
        state if state == Service::Falters as u8 && random.chance(FALTERING) => {
            match random.below(4) {
                0 => Spoilt::Reset,
                1 => Spoilt::Refused(503),
                2 => Spoilt::AnswerLost,
                _ => Spoilt::Truncated,
            }
        }
        _ => Spoilt::Not,
    }
}

/// What a backup needs, by its description.
fn extent(json: &[u8]) -> Option<Extent> {
    let json: serde_json::Value = serde_json::from_slice(json).ok()?;
    let at = |segment: &serde_json::Value| segment_at(segment.as_str()?);
    let required = json["required_wal"].as_array()?;
    let (timeline, first) = at(&required.first()?["first_segment"])?;
    let (_, last) = at(&required.last()?["last_segment"])?;
    Some(Extent {
        timeline,
        first,
        last,
    })
}
