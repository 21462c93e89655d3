//! PostgreSQL never runs as root, so files that root writes in its stead are in its way: a
//! repository directory that it cannot write to, a cluster that it cannot start.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::{Uid, geteuid};
use walzip_repo::Location;

use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::system_user;

/// As root, refuses to write into another user's repository.
pub fn refuse_foreign_repository(location: &Location) -> Result<(), CommandError> {
    match location {
        Location::Local(path) => refuse_foreign_directory(path),
        _ => Ok(()),
    }
}

/// As root, refuses to write into a directory that belongs to another user.
pub fn refuse_foreign_directory(directory: &Path) -> Result<(), CommandError> {
    let Ok(metadata) = std::fs::metadata(directory) else {
        return Ok(());
    };
    let owner = Uid::from_raw(metadata.uid());
    if !geteuid().is_root() || owner.is_root() {
        return Ok(());
    }
    let user = system_user::name(owner).unwrap_or_else(|| format!("#{}", owner.as_raw()));
    let message = format!(
        "running as root, but {} belongs to {user}, who could not use root's files",
        directory.display()
    );
    let hint = format!("Run it as that user: sudo -u {user} walzip ...");
    Err(CommandError::new(Kind::FileOwner, message).hint(hint))
}

/// As root, refuses to write a cluster, wherever it may be.
pub fn refuse_cluster_of_root() -> Result<(), CommandError> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let message = "running as root: PostgreSQL could not use a cluster whose files root owns";
    Err(CommandError::new(Kind::FileOwner, message)
        .hint("Run it as the user that will run PostgreSQL: sudo -u postgres walzip restore ..."))
}

/// As root, warns that a new repository is out of reach for PostgreSQL.
pub fn warn_of_own_repository(location: &Location) {
    if geteuid().is_root() && matches!(location, Location::Local(_)) {
        tracing::warn!(
            "{location} belongs to root; give it to the user that runs PostgreSQL before the \
             first archive-push (chown -R)"
        );
    }
}
