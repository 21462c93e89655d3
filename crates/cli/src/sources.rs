//! The repositories that a WAL file is got from.

use std::path::{Path, PathBuf};

use walzip_archive::ExpectedEnd;
use walzip_archive::get::{FoundWal, GetOptions, Got, find, find_for_data_directory};
use walzip_repo::{ClusterIdentity, open_store};

use crate::cluster_args;
use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::repo_args::Place;

/// The repositories, in the order in which they are asked.
pub struct Sources(Vec<Place>);

/// What somebody asks for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The file's name.
    pub name: String,
    /// Where to write it.
    pub destination: PathBuf,
    /// The data directory of the cluster that will replay it, if it is known.
    pub data_directory: Option<PathBuf>,
    /// Where the recovery is expected to end.
    pub expected_end: Option<ExpectedEnd>,
}

impl Asked {
    /// The data directory, if it is already a cluster's. What cannot be looked at may be one's, and
    /// the reader of the control file says why not.
    pub fn cluster_directory(&self) -> Option<&Path> {
        self.data_directory.as_deref().filter(|directory| {
            let control_file = directory.join("global").join("pg_control");
            control_file.try_exists().unwrap_or(true)
        })
    }
}

impl Sources {
    /// In the order of the places.
    pub fn new(places: Vec<Place>) -> Sources {
        Sources(places)
    }

    /// The places.
    pub fn places(&self) -> &[Place] {
        &self.0
    }

    /// Whether none of them is on another host.
    pub fn are_local(&self) -> bool {
        self.0.iter().all(|place| place.is_local())
    }

    /// Gets it from the first repository that has it and can give it. The archive does not have it
    /// if no repository has: one that gave no answer might. What was found is shown before it is
    /// decoded.
    pub async fn get(&self, asked: &Asked, show: &dyn Fn(&FoundWal)) -> Result<Got, CommandError> {
        let mut failed: Option<CommandError> = None;
        let mut cluster = None;
        for place in &self.0 {
            match from(place, asked, &mut cluster, show).await {
                Ok(Got::NotFound) => {}
                Ok(got) => {
                    if let Some(error) = failed {
                        tracing::warn!("{}; {} is from {place}", error.message(), asked.name);
                    }
                    return Ok(got);
                }
                Err(error) => {
                    let error = place.name_in(error);
                    if let Some(earlier) = failed.replace(error) {
                        tracing::warn!("{}", earlier.message());
                    }
                }
            }
        }
        failed.map_or(Ok(Got::NotFound), Err)
    }
}

impl Sources {
    /// Whether one of them has another file of the same cluster.
    pub async fn have(&self, asked: &Asked, name: &str) -> Result<bool, CommandError> {
        let other = Asked {
            name: name.to_owned(),
            ..asked.clone()
        };
        for place in &self.0 {
            if find_in(place, &other, &mut None).await?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Gets it from one repository. Where no data directory says whose file is meant, it is that of the
/// cluster that the first repository takes it to be: another one's would be wrong.
async fn from(
    place: &Place,
    asked: &Asked,
    cluster: &mut Option<ClusterIdentity>,
    show: &dyn Fn(&FoundWal),
) -> Result<Got, CommandError> {
    let Some(found) = find_in(place, asked, cluster).await? else {
        return Ok(Got::NotFound);
    };
    show(&found);
    Ok(found.deliver(&asked.destination).await?)
}

async fn find_in(
    place: &Place,
    asked: &Asked,
    cluster: &mut Option<ClusterIdentity>,
) -> Result<Option<FoundWal>, CommandError> {
    if let Some(data_directory) = asked.cluster_directory() {
        let store = open_store(place, &place.settings)?;
        let (name, end) = (&asked.name, asked.expected_end);
        return Ok(find_for_data_directory(&store, data_directory, name, end).await?);
    }
    let repository = cluster_args::open(place, None).await?;
    let expected = *cluster.get_or_insert(repository.cluster());
    if repository.cluster() != expected {
        let message = format!("it is of {}, and not of {expected}", repository.cluster());
        return Err(CommandError::new(Kind::ArchiveMismatch, message));
    }
    let options = GetOptions {
        data_directory: asked.data_directory.clone(),
        expected_end: asked.expected_end,
    };
    Ok(find(&repository, &asked.name, &options).await?)
}
