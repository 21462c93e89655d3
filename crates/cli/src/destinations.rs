//! The repositories that a WAL file is pushed into.

use std::path::{Path, PathBuf};

use futures::future::join_all;
use tokio::sync::OnceCell;
use walzip_archive::push::{PushOptions, PushOutcome, Pushed, WalFile};
use walzip_archive::spool::FileFacts;
use walzip_repo::Repository;

use crate::each_repository::{Each, found};
use crate::error::CommandError;
use crate::level_args::LevelArgs;
use crate::repo_args::{self, Place};
use crate::running_as_root;

/// All repositories, and how to push into each. They are opened when the first file is pushed.
pub struct Destinations<'p> {
    places: &'p [Place],
    ways: Vec<Way>,
}

struct Way {
    options: PushOptions,
    repository: OnceCell<Repository>,
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
            };
            let repository = OnceCell::new();
            Ok(Way {
                options,
                repository,
            })
        };
        let ways = places
            .iter()
            .map(way)
            .collect::<Result<_, CommandError>>()?;
        Ok(Destinations { places, ways })
    }

    /// The repositories.
    pub fn places(&self) -> &'p [Place] {
        self.places
    }

    /// How a file is pushed into each.
    pub fn options(&self) -> impl Iterator<Item = &PushOptions> {
        self.ways.iter().map(|way| &way.options)
    }

    /// Pushes to all at the same time. The first one opens the file.
    pub async fn push(&self, path: &Path) -> PushedToEach<'p> {
        let file = OnceCell::new();
        let ways = self.places.iter().zip(&self.ways);
        let pushes = ways.map(|(place, way)| push(place, way, path, &file));
        let pushed = found(self.places, join_all(pushes).await);
        let facts = file.get().and_then(WalFile::facts);
        PushedToEach { pushed, facts }
    }
}

async fn push(
    place: &Place,
    way: &Way,
    path: &Path,
    file: &OnceCell<WalFile>,
) -> Result<Pushed, CommandError> {
    running_as_root::refuse_foreign_repository(place)?;
    let repository = way
        .repository
        .get_or_try_init(|| repo_args::open(place))
        .await?;
    let file = file.get_or_try_init(|| WalFile::open(path)).await?;
    let pushed = file.push(repository, &way.options).await?;
    tell(place, &pushed);
    Ok(pushed)
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
    }
}
