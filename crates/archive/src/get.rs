//! `get`: a WAL file out of the archive.
//!
//! PostgreSQL asks for files that do not exist, histories and the next segment above all, so
//! "not in the archive" is an answer and not an error. What is delivered was decoded whole, its
//! hash and identity checked, and appears under the destination's name at once or not at all. Until
//! then it is written under another name, on a second thread while it is decoded.
//!
//! A segment whose replay would take the directory of another cluster is not delivered, nor one in which a
//! recovery to a time would end before it is expected to.

pub mod ahead;
pub(crate) mod clock_guard;
pub mod early_end;
pub(crate) mod tablespace_guard;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::{join, join3};
use object_store::ObjectStore;
use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};
use walzip_pgformat::{PAGE_SIZE, TimelineId};
use walzip_repo::{ClusterIdentity, Repository, WalMark, WalPacks};

use crate::archived::stored_wal::{StoredWal, warn_of_late};
use crate::archived::timelines::Timelines;
use crate::cluster;
use crate::coding;
use crate::coding::Beginning;
use crate::error::ArchiveError;
use crate::files::durable;
use crate::files::own_copy::OwnCopy;
use crate::get::clock_guard::ClockGuard;
use crate::get::tablespace_guard::TablespaceGuard;
use crate::packs::{Before, Undecoded, is_damage};
use crate::wal::content;
use crate::wal::expected_end::ExpectedEnd;

/// How to get.
#[derive(Clone, Debug, Default)]
pub struct GetOptions {
    /// The data directory of the cluster that will replay the file. When its control file
    /// exists, it says which cluster's file is meant, of those of the repository.
    /// `restore_command` runs in that directory.
    pub data_directory: Option<PathBuf>,
    /// Where the recovery is expected to end: no segment is delivered in which one to a time would end before.
    pub expected_end: Option<ExpectedEnd>,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Got {
    /// The file is at the destination.
    Found {
        /// The size of the file.
        original_bytes: u64,
        /// Its size as it is stored.
        stored_bytes: u64,
        /// How many segments follow it in its pack, if it is in one: they are decoded after it.
        following: Option<usize>,
    },
    /// The archive has no file of this name.
    NotFound,
}

/// A file that the archive has, and that nobody has decoded yet.
#[derive(Debug)]
pub struct FoundWal {
    name: String,
    stored: StoredWal,
    store: Arc<dyn ObjectStore>,
    cluster: ClusterIdentity,
    options: GetOptions,
}

/// Writes the file of this name to `destination`, which is replaced if it exists.
pub async fn get(
    repository: &Repository,
    name: &str,
    destination: &Path,
    options: &GetOptions,
) -> Result<Got, ArchiveError> {
    match find(repository, name, options).await? {
        Some(found) => found.deliver(destination).await,
        None => Ok(Got::NotFound),
    }
}

/// Finds the file of this name.
///
/// It is asked for twice before it counts as not there. What was looked into first may have been a directory over which
/// nothing was mounted yet: only after the mark was found the answer counts. And between the question for a segment's own
/// object and that for packs, its pack may have been split.
pub async fn find(
    repository: &Repository,
    name: &str,
    options: &GetOptions,
) -> Result<Option<FoundWal>, ArchiveError> {
    let _: WalFileName = name.parse()?;
    let asking = match &options.data_directory {
        Some(data_directory) => cluster::part_of_data_directory(repository, data_directory).await?,
        None => None,
    };
    let repository = asking.as_ref().unwrap_or(repository);
    let (store, cluster) = (repository.store(), repository.cluster());
    let stored = match StoredWal::get(repository, name).await? {
        Some(stored) => Some(stored),
        None => {
            check_not_lost(repository, name).await?;
            StoredWal::get_unopened(store, cluster, name).await?
        }
    };
    Ok(stored.map(|stored| FoundWal {
        name: name.to_owned(),
        stored,
        store: Arc::clone(store),
        cluster,
        options: options.clone(),
    }))
}

/// The same for a cluster whose data directory asks. What is found costs one request, and of a segment
/// another one for packs at the same time: its key and its content say whose it is, and no record has to.
pub async fn find_for_data_directory(
    store: &Arc<dyn ObjectStore>,
    data_directory: &Path,
    name: &str,
    expected_end: Option<ExpectedEnd>,
) -> Result<Option<FoundWal>, ArchiveError> {
    let is_history = matches!(name.parse()?, WalFileName::History(_));
    let cluster = cluster::of_data_directory(data_directory).await?;
    let get = || StoredWal::get_unopened(store, cluster, name);
    // What is not found means nothing before the records and the mark were. Most histories that a server asks for are not
    // there, and each answer of a store on another host takes its time: all three are asked for at once.
    let open = || Repository::open(Arc::clone(store));
    let mark = || WalMark::find(store.as_ref(), cluster);
    let (stored, in_place) = match is_history {
        true => {
            let (stored, opened, mark) = join3(get(), open(), mark()).await;
            (stored?, Some((opened, mark)))
        }
        false => (get().await?, None),
    };
    let stored = match (stored, in_place) {
        (Some(stored), _) => Some(stored),
        (None, in_place) => {
            let (opened, mark) = match in_place {
                Some(in_place) => in_place,
                None => join(open(), mark()).await,
            };
            let what = || data_directory.display().to_string();
            let part = cluster::part_of(&opened?, cluster, what).await?;
            part.check_wal_by(mark).await?;
            let (not_lost, stored) = join(check_not_lost(&part, name), get()).await;
            not_lost?;
            stored?
        }
    };
    Ok(stored.map(|stored| FoundWal {
        name: name.to_owned(),
        stored,
        store: Arc::clone(store),
        cluster,
        options: GetOptions {
            data_directory: Some(data_directory.to_owned()),
            expected_end,
        },
    }))
}

/// Refuses to say that the archive does not have what it should have.
async fn check_not_lost(repository: &Repository, name: &str) -> Result<(), ArchiveError> {
    match name.parse()? {
        WalFileName::History(timeline) => refuse_lost_history(repository, timeline).await,
        _ => Ok(()),
    }
}

impl FoundWal {
    /// How many segments follow it in its pack, if it is in one.
    pub fn following(&self) -> Option<usize> {
        self.stored.following()
    }

    /// Writes it to `destination`. Where an object of its own is damaged, a pack may have the segment
    /// too: whoever packed it was interrupted. Where a segment of a pack does not come out, those
    /// before it may have been passed wrongly: it is tried as its proof was made. An object of its own that came after
    /// the pack is the last to be tried.
    pub async fn deliver(self, destination: &Path) -> Result<Got, ArchiveError> {
        let (name, cluster, options) = (&*self.name, self.cluster, &self.options);
        let (counts, beside) = self.stored.split();
        let is_single = matches!(counts, StoredWal::Single(_));
        let deliver = |stored| deliver_off_the_runtime(stored, cluster, name, destination, options);
        let error = match deliver(counts).await {
            Err(error) if is_damage(&error) => error,
            other => return other,
        };
        let packs = WalPacks::of(&self.store, cluster);
        let again = match StoredWal::get_packed(&packs, name, Before::Decoded).await {
            Ok(Some(packed)) => {
                match is_single {
                    true => tracing::warn!("{error}; it is taken from a pack"),
                    false => tracing::warn!("{error}; all before it in its pack is decoded for it"),
                }
                deliver(packed).await
            }
            _ => Err(error),
        };
        match (again, beside) {
            (Err(error), Some(beside)) if is_damage(&error) => {
                warn_of_late(&error);
                deliver(beside).await
            }
            (again, _) => again,
        }
    }
}

async fn deliver_off_the_runtime(
    stored: StoredWal,
    cluster: ClusterIdentity,
    name: &str,
    destination: &Path,
    options: &GetOptions,
) -> Result<Got, ArchiveError> {
    let file_name: WalFileName = name.parse()?;
    let (stored_bytes, following) = (stored.stored_bytes(), stored.following());
    let destination = destination.to_owned();
    let options = options.clone();
    let delivered = move || {
        let guards = match &file_name {
            WalFileName::Segment(segment) => Guards::of(*segment, cluster, &options),
            _ => Guards::default(),
        };
        deliver(&file_name, stored, cluster, &destination, guards)
    };
    match coding::off_the_runtime(delivered).await {
        Ok(original_bytes) => Ok(Got::Found {
            original_bytes,
            stored_bytes,
            following,
        }),
        Err(error @ ArchiveError::OwnCopyHasMore { .. }) => {
            tracing::warn!("{error}; the server replays its own");
            Ok(Got::NotFound)
        }
        Err(error) => Err(error),
    }
}

/// A history that is not there is the end of PostgreSQL's search for timelines, and the number of
/// its own new one. Where the archive has WAL of that timeline, it would be mixed with another's.
async fn refuse_lost_history(
    repository: &Repository,
    timeline: TimelineId,
) -> Result<(), ArchiveError> {
    let survey = repository.survey_wal().await?;
    let mut timelines = Timelines::read(repository, &survey.histories).await;
    if let Some(failure) = timelines.take_failure() {
        return Err(failure);
    }
    let with_wal = survey.timelines.iter().copied().map(TimelineId);
    let lost = timelines.without_history(with_wal.clone());
    match lost.contains(&timeline) {
        true => Err(timelines.history_lost(vec![timeline], with_wal)),
        false => Ok(()),
    }
}

/// Decodes an object into the destination; returns the size of the file.
fn deliver(
    name: &WalFileName,
    stored: StoredWal,
    cluster: ClusterIdentity,
    destination: &Path,
    guards: Guards<'_>,
) -> Result<u64, ArchiveError> {
    let own = match name {
        WalFileName::Segment(segment) => {
            OwnCopy::beside(destination, *segment).map_err(|error| {
                let path = destination.with_file_name(segment.to_string());
                ArchiveError::file("read", &path, error)
            })?
        }
        _ => None,
    };
    durable::deliver_with(destination, |file| {
        let mut output = Delivery {
            file,
            beginning: Beginning::default(),
            own,
            guards,
        };
        let decoded = stored.deliver_to(&name.to_string(), &mut output);
        decoded.map_err(|failed| match failed {
            Undecoded::Damaged(error) => *error,
            Undecoded::Write(error) => ArchiveError::file("write", destination, error),
        })?;
        let Beginning { page, len } = output.beginning;
        content::check_beginning(name, &page, len, cluster)
            .map_err(|error| ArchiveError::invalid_object(&name.to_string(), error, cluster))?;
        output.guards.finish()?;
        if let Some(own) = &output.own {
            let path = own.path();
            let goes_on = own.goes_on();
            if goes_on.map_err(|error| ArchiveError::file("read", path, error))? {
                let path = path.to_owned();
                return Err(ArchiveError::OwnCopyHasMore { path });
            }
        }
        Ok(len as u64)
    })
}

/// What looks at a segment before a recovery gets it.
#[derive(Default)]
struct Guards<'a> {
    tablespaces: Option<TablespaceGuard<'a>>,
    expected_end: Option<(ExpectedEnd, SegmentName)>,
    clock: Option<ClockGuard>,
    data_directory: Option<&'a Path>,
}

impl<'a> Guards<'a> {
    fn of(segment: SegmentName, cluster: ClusterIdentity, options: &'a GetOptions) -> Guards<'a> {
        let directory = options.data_directory.as_deref();
        let major = cluster.major;
        Guards {
            tablespaces: directory.map(|directory| TablespaceGuard::new(directory, segment, major)),
            expected_end: options.expected_end.map(|end| (end, segment)),
            clock: None,
            data_directory: directory,
        }
    }

    fn begin(&mut self, first_page: &[u8]) {
        if let Some(guard) = &mut self.tablespaces {
            guard.begin(first_page);
        }
        if let Some((end, segment)) = self.expected_end {
            self.clock = ClockGuard::begin(end, segment, first_page);
        }
    }

    fn feed(&mut self, bytes: &[u8]) {
        if let Some(guard) = &mut self.tablespaces {
            guard.feed(bytes);
        }
        if let Some(guard) = &mut self.clock {
            guard.feed(bytes);
        }
    }

    fn finish(self) -> Result<(), ArchiveError> {
        self.tablespaces.map_or(Ok(()), TablespaceGuard::finish)?;
        let directory = self.data_directory;
        self.clock.map_or(Ok(()), |clock| clock.finish(directory))
    }
}

/// Keeps the beginning of what it writes, and shows everything to the guards.
struct Delivery<'a, W> {
    file: W,
    beginning: Beginning,
    /// The server's own copy, to be compared with.
    own: Option<OwnCopy>,
    guards: Guards<'a>,
}

impl<W: Write> Write for Delivery<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        let bytes = &bytes[..written];
        let missing = PAGE_SIZE - self.beginning.page.len();
        self.beginning.write_all(bytes)?;
        if missing > 0 && self.beginning.page.len() == PAGE_SIZE {
            self.guards.begin(&self.beginning.page);
        }
        self.guards.feed(&bytes[written.min(missing)..]);
        if let Some(own) = &mut self.own {
            own.compare(bytes)?;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use walzip_repo::testing::memory_store;

    use super::*;
    use crate::wal::testing::{CLUSTER, Record, SIZE, going_on, segment};

    const NAME: &str = "000000010000000000000003";

    fn rows(lengths: &[usize], fill: u8) -> Vec<u8> {
        let rows: Vec<Record> = lengths.iter().map(|&len| Record::row(len, fill)).collect();
        segment(3, &rows)
    }

    /// Whether a server that has this file gets the archived one.
    async fn gets(archived: &[u8], own: &[u8]) -> bool {
        gets_beside(archived, own, None).await
    }

    /// The same where the history of timeline 2 is beside the file.
    async fn gets_beside(archived: &[u8], own: &[u8], history: Option<&str>) -> bool {
        let repository = Repository::init(memory_store(), CLUSTER).await;
        let (repository, _) = repository.expect("a repository");
        let object = walzip_codec::encode(archived, walzip_codec::Level::default());
        let put = repository
            .put_wal(NAME, object.expect("encoded").into())
            .await;
        put.expect("archived");
        let pg_wal = tempfile::tempdir().expect("a directory");
        std::fs::write(pg_wal.path().join(NAME), own).expect("written");
        if let Some(history) = history {
            std::fs::write(pg_wal.path().join("00000002.history"), history).expect("written");
        }
        let destination = pg_wal.path().join("RECOVERYXLOG");
        let got = get(&repository, NAME, &destination, &GetOptions::default()).await;
        let is_found = matches!(got.expect("an answer"), Got::Found { .. });
        assert_eq!(destination.exists(), is_found);
        // What remains is the server's own file, and nothing half written.
        assert_eq!(std::fs::read(pg_wal.path().join(NAME)).expect("there"), own);
        let files = std::fs::read_dir(pg_wal.path()).expect("readable").count();
        assert_eq!(
            files,
            1 + usize::from(is_found) + usize::from(history.is_some())
        );
        is_found
    }

    #[tokio::test]
    async fn a_server_keeps_what_the_archive_has_the_beginning_of() {
        let (short, long) = (rows(&[100, 60], 1), rows(&[100, 60, 80], 1));
        assert!(!gets(&short, &long).await);
        assert!(gets(&long, &short).await);
        assert!(gets(&long, &long).await);
        // Each has its own.
        assert!(gets(&rows(&[100, 90], 2), &long).await);
    }

    #[tokio::test]
    async fn a_record_that_goes_on_in_the_next_segment_is_one_too() {
        let begun = [Record::row(100, 1)];
        let own = going_on(3, &begun, 1, SIZE);
        for sent in [PAGE_SIZE, SIZE / 2, SIZE / 2 + 1000, SIZE - 100] {
            assert!(!gets(&going_on(3, &begun, 1, sent), &own).await);
            assert!(gets(&own, &going_on(3, &begun, 1, sent)).await);
        }
        assert!(!gets(&rows(&[100], 1), &own).await);
        // All of the segment belongs to one record.
        let inside = |sent| going_on(3, &[], 1, sent);
        assert!(!gets(&inside(SIZE / 2), &inside(SIZE)).await);
        // Each has its own.
        assert!(gets(&going_on(3, &begun, 2, SIZE), &own).await);
        assert!(gets(&own, &rows(&[100, 80], 2)).await);
        assert!(gets(&rows(&[100, 80], 2), &own).await);
    }

    /// PostgreSQL keeps the history of a timeline before it looks whether it can follow that.
    #[tokio::test]
    async fn the_history_of_a_later_timeline_does_not_show_what_a_server_follows() {
        let (short, long) = (rows(&[100, 60], 1), rows(&[100, 60, 80], 1));
        let end = 0x30_0000 + 40 + 104 + 64;
        let history = format!("1\t0/{end:X}\tx\n");
        assert!(!gets_beside(&short, &long, Some(&history)).await);
    }

    #[tokio::test]
    async fn remains_are_not_kept() {
        let (short, long) = (rows(&[100, 60], 1), rows(&[100, 60, 80], 1));
        let remains = segment(1, &[60, 60, 40, 60].map(|len| Record::row(len, 3)));
        let end = 40 + 104 + 64;
        let own = [&short[..end], &remains[end..]].concat();
        assert!(gets(&short, &own).await);
        // Those of the archive's copy do not count either.
        assert!(!gets(&own, &long).await);
        assert!(gets(&short, &segment(1, &[Record::row(100, 1)])).await);
    }
}
