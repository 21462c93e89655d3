//! Names of WAL files, and the directories that they lie in.

use crate::error::RepoError;

/// PostgreSQL's limit for the names that it archives (`MAX_XFN_CHARS` is 40; its
/// documentation promises no more than 64).
pub const MAX_WAL_NAME_CHARS: usize = 64;
/// How many leading characters of a WAL file name name its directory: the timeline
/// and the upper half of the segment's position.
pub(crate) const WAL_DIRECTORY_CHARS: usize = 16;
/// How many hexadecimal digits a segment's name has.
pub(crate) const SEGMENT_NAME_CHARS: usize = 24;

/// Segments, and the files named after one, lie in a directory of at most 4096
/// segments; a history is asked for by name alone and lies above them.
pub(crate) fn wal_directory(name: &str) -> Option<&str> {
    let is_upper_hex = |c: u8| c.is_ascii_digit() || (b'A'..=b'F').contains(&c);
    let segment = name.get(..SEGMENT_NAME_CHARS)?;
    let rest = name.get(SEGMENT_NAME_CHARS..)?;
    let named_after_segment = segment.bytes().all(is_upper_hex);
    if named_after_segment && (rest.is_empty() || rest.starts_with('.')) {
        name.get(..WAL_DIRECTORY_CHARS)
    } else {
        None
    }
}

/// Whether it is the name of a whole segment, which a pack may have.
pub(crate) fn is_segment(name: &str) -> bool {
    name.len() == SEGMENT_NAME_CHARS && wal_directory(name).is_some()
}

/// The timeline of a directory of segments.
pub(crate) fn wal_directory_timeline(directory: &str) -> Option<u32> {
    let is_upper_hex = |c: u8| c.is_ascii_digit() || (b'A'..=b'F').contains(&c);
    let is_directory =
        directory.len() == WAL_DIRECTORY_CHARS && directory.bytes().all(is_upper_hex);
    is_directory
        .then(|| u32::from_str_radix(directory.get(..8)?, 16).ok())
        .flatten()
}

/// Whether a file with this name can be in a repository.
pub(crate) fn check_wal_name(name: &str) -> Result<(), RepoError> {
    let invalid = |detail| {
        Err(RepoError::InvalidName {
            what: "a WAL file",
            name: name.to_owned(),
            detail,
        })
    };
    if name.is_empty() || name.len() > MAX_WAL_NAME_CHARS {
        return invalid("it must have 1 to 64 characters");
    }
    if !name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'.') {
        return invalid("only letters, digits and dots may be in it");
    }
    if name.starts_with('.') {
        return invalid("it must not begin with a dot");
    }
    Ok(())
}
