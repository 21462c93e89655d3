//! The repositories that a WAL file is pushed into. A repository is opened for each file: it may
//! have become another one at its place. The way to its store stays open.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::{join, join_all, try_join_all};
use tokio::sync::{OnceCell, Semaphore};
use walzip_archive::push::ahead::Turn;
use walzip_archive::push::{PushOptions, PushOutcome, Pushed, WalFile};
use walzip_archive::spool::{FileFacts, PushSpool};
use walzip_pgformat::wal_file_name::SegmentName;
use walzip_repo::{ClusterIdentity, ObjectStore, RepoError, Repository, open_store};

use crate::each_repository::{Each, found};
use crate::error::CommandError;
use crate::last_pushed::LastPushed;
use crate::level_args::LevelArgs;
use crate::repo_args::{self, Place};
use crate::running_as_root;

/// All repositories, and how to push into each.
pub struct Destinations<'p> {
    places: &'p [Place],
    ways: Vec<Way>,
    last: LastPushed,
}

struct Way {
    options: PushOptions,
    store: OnceCell<Arc<dyn ObjectStore>>,
}

/// What came of a push.
pub struct PushedToEach<'p> {
    /// In each repository.
    pub pushed: Each<'p, Pushed>,
    /// What file it was, if it could be opened.
    pub facts: Option<FileFacts>,
}

impl<'p> Destinations<'p> {
    /// Nothing is opened yet.
    pub fn new(
        places: &'p [Place],
        level: &LevelArgs,
        verify: bool,
        data_directory: Option<PathBuf>,
    ) -> Result<Destinations<'p>, CommandError> {
        let way = |place: &Place| {
            let options = PushOptions {
                level: level.for_wal(&place.config)?,
                verify,
                data_directory: data_directory.clone(),
                cluster: None,
                is_next: false,
            };
            let store = OnceCell::new();
            Ok(Way { options, store })
        };
        let ways = places
            .iter()
            .map(way)
            .collect::<Result<_, CommandError>>()?;
        let last = LastPushed::default();
        Ok(Destinations { places, ways, last })
    }

    /// Where earlier processes have noted what they pushed last, and this one does.
    pub fn note_in(&self, spool: PushSpool) {
        self.last.note_in(spool);
    }

    /// The repositories.
    pub fn places(&self) -> &'p [Place] {
        self.places
    }

    /// How a file is pushed into each.
    pub fn options(&self) -> impl Iterator<Item = &PushOptions> {
        self.ways.iter().map(|way| &way.options)
    }

    /// What is received from this segment on may be of another server than what was before.
    pub fn begin_session(&self, first: SegmentName) {
        self.last.begin_session(first);
    }

    /// Pushes to all at the same time. The first one opens the file.
    pub async fn push(&self, path: &Path) -> PushedToEach<'p> {
        self.push_file(path, None, &OnceCell::new()).await
    }

    /// The same for a file that is received of a cluster.
    pub async fn push_received(&self, path: &Path, cluster: ClusterIdentity) -> PushedToEach<'p> {
        self.push_file(path, Some(cluster), &OnceCell::new()).await
    }

    /// The same with a file that is encoded before its turn comes, as one of so many; nothing where
    /// that does not come.
    pub async fn push_in_turn(
        &self,
        path: &Path,
        encoders: &Semaphore,
        turn: Turn,
    ) -> Option<PushedToEach<'p>> {
        let file = OnceCell::new();
        let encoder = encoders.acquire().await;
        for way in &self.ways {
            prepare(way, path, &file).await;
        }
        drop(encoder);
        match turn.comes().await {
            true => Some(self.push_file(path, None, &file).await),
            false => None,
        }
    }

    async fn push_file(
        &self,
        path: &Path,
        cluster: Option<ClusterIdentity>,
        file: &OnceCell<WalFile>,
    ) -> PushedToEach<'p> {
        let ways = self.places.iter().zip(&self.ways);
        let pushes = ways.map(|(place, way)| self.push_one((place, way), path, cluster, file));
        let pushed = found(self.places, join_all(pushes).await);
        let facts = file.get().and_then(WalFile::facts);
        if let (Some(facts), true) = (&facts, pushed.is_whole()) {
            self.last.note(facts);
        }
        PushedToEach { pushed, facts }
    }

    async fn push_one(
        &self,
        (place, way): (&Place, &Way),
        path: &Path,
        cluster: Option<ClusterIdentity>,
        file: &OnceCell<WalFile>,
    ) -> Result<Pushed, CommandError> {
        running_as_root::refuse_foreign_repository(place)?;
        let opening = async {
            let store = store(place, way).await?;
            Ok::<_, CommandError>(Repository::open(store).await?)
        };
        // It is encoded while the repository answers.
        let (repository, ()) = join(opening, prepare(way, path, file)).await;
        let repository = repository?;
        let file = file.get_or_try_init(|| WalFile::open(path)).await?;
        let options = PushOptions {
            cluster,
            is_next: match cluster {
                None => self.last.tells_of(file, path),
                Some(_) => self.last.tells_of_received(file),
            },
            ..way.options.clone()
        };
        let pushed = file.push(&repository, &options).await?;
        tell(place, &pushed);
        Ok(pushed)
    }

    /// All repositories, in their order.
    pub async fn repositories(&self) -> Result<Vec<Repository>, RepoError> {
        try_join_all(self.places.iter().map(repo_args::try_open)).await
    }
}

/// Opens and encodes a file. What fails here fails again when it is pushed, and is told then.
async fn prepare(way: &Way, path: &Path, file: &OnceCell<WalFile>) {
    if let Ok(file) = file.get_or_try_init(|| WalFile::open(path)).await {
        let _ = file.prepare(&way.options).await;
    }
}

/// The way to the store. With a key file it is opened again, since it keeps keys.
async fn store(place: &Place, way: &Way) -> Result<Arc<dyn ObjectStore>, CommandError> {
    let open = async || open_store(place, &place.settings);
    Ok(match place.settings.key_file {
        Some(_) => open().await?,
        None => Arc::clone(way.store.get_or_try_init(open).await?),
    })
}

fn tell(place: &Place, pushed: &Pushed) {
    match pushed.outcome {
        PushOutcome::Stored => tracing::info!(
            "archived {}{}: {} bytes in {}",
            pushed.name,
            place.in_which(),
            pushed.original_bytes,
            pushed.stored_bytes
        ),
        PushOutcome::AlreadyStored => {
            tracing::info!(
                "{} was archived before{}, and is identical",
                pushed.name,
                place.in_which()
            )
        }
        // It has warned.
        PushOutcome::NothingThere => {}
    }
}
