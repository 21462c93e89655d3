//! Which objects a directory holds.
//!
//! Links are not followed, and names that no key has are passed over: an administrator's
//! stray file must not keep the archive from being listed. What has an object's key and is no file
//! is listed like one: its reader says what it is, where an archive without it would look whole.
//! And what was asked for by its prefix has to be a directory: a link there is no empty archive.

use std::fs::{self, FileType};
use std::path::{Path as FilePath, PathBuf};

use object_store::path::Path;
use object_store::{ListResult, ObjectMeta};

use super::disk_error::DiskError;
use super::misplaced::{Misplaced, look};
use super::{StoreResult, is_missing, object_meta, store_error};
use crate::as_files::{child, is_object_name};

/// All objects below a prefix, in the order of their keys.
pub(crate) fn list(store_directory: &FilePath, prefix: &Path) -> StoreResult<Vec<ObjectMeta>> {
    let mut objects = Vec::new();
    let mut open = vec![prefix.clone()];
    while let Some(directory) = open.pop() {
        let level = list_level(store_directory, &directory)?;
        objects.extend(level.objects);
        open.extend(level.common_prefixes);
    }
    objects.sort_by(|a, b| a.location.cmp(&b.location));
    Ok(objects)
}

/// The objects and the directories directly below a prefix.
pub(crate) fn list_level(store_directory: &FilePath, prefix: &Path) -> StoreResult<ListResult> {
    let mut objects = Vec::new();
    let mut common_prefixes = Vec::new();
    for (key, file_type, path) in
        read_directory(store_directory, prefix).map_err(|error| store_error(prefix, error))?
    {
        if file_type.is_dir() && !key.filename().is_some_and(is_object_name) {
            common_prefixes.push(key);
        } else {
            match fs::symlink_metadata(&path) {
                Ok(metadata) => objects
                    .push(object_meta(key, &metadata).map_err(|error| store_error(prefix, error))?),
                // Removed since the directory was read.
                Err(error) if is_missing(&error) => {}
                Err(error) => {
                    return Err(store_error(prefix, DiskError::at("look at", path)(error)));
                }
            }
        }
    }
    objects.sort_by(|a, b| a.location.cmp(&b.location));
    common_prefixes.sort();
    Ok(ListResult {
        common_prefixes,
        objects,
        extensions: Default::default(),
    })
}

fn read_directory(
    store_directory: &FilePath,
    prefix: &Path,
) -> Result<Vec<(Path, FileType, PathBuf)>, DiskError> {
    let mut directory = store_directory.to_owned();
    for part in prefix.parts() {
        if part.as_ref().starts_with('.') {
            return Ok(Vec::new());
        }
        directory.push(part.as_ref());
        match look(&directory)? {
            Some(metadata) => Misplaced::check_directory(&directory, &metadata)?,
            None => return Ok(Vec::new()),
        }
    }
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if is_missing(&error) => return Ok(Vec::new()),
        Err(error) => return Err(DiskError::at("list", directory)(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(DiskError::at("list", &directory))?;
        if let Some(key) = entry
            .file_name()
            .to_str()
            .and_then(|name| child(prefix, name))
        {
            let file_type = entry
                .file_type()
                .map_err(DiskError::at("look at", entry.path()))?;
            found.push((key, file_type, entry.path()));
        }
    }
    Ok(found)
}
