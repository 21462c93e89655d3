//! What stores have in common whose objects are files, or are read and put as a whole.

use object_store::path::Path;
use object_store::{
    CopyMode, CopyOptions, GetOptions, ObjectStore, PutMode, PutOptions, PutResult, Result,
};

use crate::layout::WAL_SUFFIX;
use crate::names::pack_name::PackName;

/// The key of a name below a prefix, when a key can have that name.
pub(crate) fn child(prefix: &Path, name: &str) -> Option<Path> {
    if name.starts_with('.') {
        return None;
    }
    let child = Path::parse(format!("{prefix}/{name}")).ok()?;
    (child.filename() == Some(name)).then_some(child)
}

/// Whether only an object has such a name, and no directory: WAL and packs of it. A directory of that name counts as an
/// object, so that nobody takes the WAL for missing.
pub(crate) fn is_object_name(name: &str) -> bool {
    name.ends_with(WAL_SUFFIX) || name.parse::<PackName>().is_ok()
}

/// A file has neither a tag nor versions.
pub(crate) fn put_result() -> PutResult {
    PutResult {
        e_tag: None,
        version: None,
        extensions: Default::default(),
    }
}

/// Copies an object by reading it and putting it again.
pub(crate) async fn copy(
    store: &impl ObjectStore,
    from: &Path,
    to: &Path,
    options: CopyOptions,
) -> Result<()> {
    let mode = match options.mode {
        CopyMode::Overwrite => PutMode::Overwrite,
        CopyMode::Create => PutMode::Create,
    };
    let content = store.get_opts(from, GetOptions::default()).await?;
    let payload = content.bytes().await?.into();
    store.put_opts(to, payload, PutOptions::from(mode)).await?;
    Ok(())
}
