//! Repositories that an experiment makes in a store of the user's, and removes.

use std::ffi::OsString;

use walzip_bench::segments::Stores;
use walzip_repo::{ClusterIdentity, Repository, open_store, remove_below};

use crate::error::CommandError;
use crate::repo_args::Place;
use crate::runtime;

/// Variables that say how a store is reached, and where a user's keys are.
const VARIABLES: [&str; 6] = [
    "WALZIP_",
    "AWS_",
    "GOOGLE_",
    "AZURE_",
    "SSH_AUTH_SOCK",
    "HOME",
];

/// As `walzip archive-push` reaches it here.
pub(super) fn stores() -> Stores {
    let is_of_stores = |name: &OsString| {
        let name = name.to_string_lossy();
        VARIABLES.iter().any(|known| name.starts_with(known))
    };
    Stores {
        make,
        remove,
        environment: std::env::vars_os()
            .filter(|(name, _)| is_of_stores(name))
            .collect(),
    }
}

fn make(url: &str, system_id: u64, major: u32) -> Result<(), String> {
    let cluster = ClusterIdentity { system_id, major };
    said(runtime::block_on(async {
        let place = Place::named(url)?;
        let store = open_store(&place, &place.settings)?;
        Repository::init(store, cluster).await?;
        Ok(())
    }))
}

fn remove(url: &str, below: &str) -> Result<u64, String> {
    said(runtime::block_on(async {
        let place = Place::named(url)?;
        let store = open_store(&place, &place.settings)?;
        Ok(remove_below(&*store, below).await?)
    }))
}

fn said<T>(result: Result<T, CommandError>) -> Result<T, String> {
    result.map_err(|error| error.message().to_owned())
}
