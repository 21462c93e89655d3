//! The state of a file that a worker has written: whoever writes to the file changes it.

use std::fmt::Write as _;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// Bytes of a hash that are kept, in hexadecimal digits.
const LEN: usize = 16;

/// The state, in hexadecimal digits: a hash of the file's length, device and inode, of when it was
/// written to last, and of the boot, since what a crash of the machine leaves of a file that was not
/// made durable keeps its length and its time.
pub(super) fn of(metadata: &Metadata) -> String {
    let mut facts = String::new();
    let _ = write!(
        facts,
        "{} {} {} {}.{:09} {}",
        metadata.len(),
        metadata.dev(),
        metadata.ino(),
        metadata.mtime(),
        metadata.mtime_nsec(),
        super::boot(),
    );
    let hash = blake3::hash(facts.as_bytes());
    hash.to_hex()[..2 * LEN].to_owned()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::{Seek, Write};
    use std::path::Path;
    use std::time::Duration;

    use super::*;

    fn state(path: &Path) -> String {
        of(&fs::symlink_metadata(path).expect("there"))
    }

    #[test]
    fn names_and_links_do_not_count_and_writing_does() {
        let directory = tempfile::tempdir().expect("a directory");
        let [path, renamed, link] = ["a", "b", "c"].map(|name| directory.path().join(name));
        fs::write(&path, [7; 100]).expect("written");
        let before = state(&path);
        fs::rename(&path, &renamed).expect("renamed");
        fs::hard_link(&renamed, &link).expect("linked");
        assert_eq!(state(&link), before);
        // Longer than any tick of a file system's clock.
        std::thread::sleep(Duration::from_millis(20));
        let mut file = File::options().write(true).open(&renamed).expect("opened");
        file.rewind().expect("rewound");
        file.write_all(&[7]).expect("written");
        assert_ne!(state(&link), before);
    }

    #[test]
    fn a_copy_is_another_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let [path, copy] = ["a", "b"].map(|name| directory.path().join(name));
        fs::write(&path, [7; 100]).expect("written");
        fs::copy(&path, &copy).expect("copied");
        let modified = fs::metadata(&path).and_then(|metadata| metadata.modified());
        let file = File::options().write(true).open(&copy).expect("opened");
        file.set_modified(modified.expect("a time")).expect("set");
        assert_ne!(state(&copy), state(&path));
    }
}
