//! WAL of a real server: about forty segments of 1 MB, on two timelines, with everything else that
//! a server archives.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Content;
use crate::clusters::server::Server;
use crate::clusters::site::Site;

/// How many files there are on the first timeline.
const FILES_OF_FIRST_TIMELINE: usize = 28;
/// And on both.
const FILES: usize = 42;

/// The files that a server archived.
pub struct Wal {
    data: PathBuf,
    files: BTreeMap<String, Content>,
}

impl Wal {
    /// Lets a server write, recover as a new timeline, and write on.
    pub fn generate(site: &Site) -> Wal {
        let files = site.create_directory("wal");
        let server = Server::create(site, "source", 1);
        server.configure(&format!(
            "archive_mode = on\n\
             archive_command = 'test ! -f {0}/%f && cp %p {0}/%f'\n\
             restore_command = 'cp {0}/%f %p'\n\
             wal_compression = lz4\n\
             autovacuum = off",
            files.display()
        ));
        server.start(&[]);
        server.sql(
            "CREATE TABLE note (id serial PRIMARY KEY, body text, facts jsonb);
             SELECT pg_backup_start('here', true);
             SELECT pg_backup_stop(false);",
        );
        server.pgbench(&["-i", "-q", "-s", "1"]);
        write_until(&server, &files, FILES_OF_FIRST_TIMELINE);
        server.stop();
        fs::write(server.data().join("recovery.signal"), "").expect("ask for a recovery");
        site.hand_over(&server.data().join("recovery.signal"));
        server.start(&[]);
        server.wait_until("SELECT NOT pg_is_in_recovery()");
        write_until(&server, &files, FILES);
        server.stop();
        Wal {
            data: server.data(),
            files: read_files(&files),
        }
    }

    /// The data directory of its cluster.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// The files by name, in their order.
    pub fn files(&self) -> impl Iterator<Item = (&str, &Content)> {
        let files = self.files.iter();
        files.map(|(name, content)| (name.as_str(), content))
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// One file.
    pub fn file(&self, name: &str) -> Option<&Content> {
        self.files.get(name)
    }
}

fn write_until(server: &Server, files: &Path, count: usize) {
    for batch in 0.. {
        server.sql(&format!(
            "INSERT INTO note (body, facts)
             SELECT repeat(md5(i::text), 1 + i % 7), jsonb_build_object('batch', {batch}, 'i', i)
             FROM generate_series(1, 3000) i;
             UPDATE note SET body = md5(body) WHERE id % 5 = {batch} % 5;
             DELETE FROM note WHERE id % 7 = {batch} % 7;"
        ));
        server.pgbench(&["-c", "1", "-t", "200"]);
        server.archive_everything();
        let archived = fs::read_dir(files).expect("the archived files");
        if archived.count() >= count {
            return;
        }
    }
}

fn read_files(directory: &Path) -> BTreeMap<String, Content> {
    let entries = fs::read_dir(directory).expect("the archived files");
    let files: BTreeMap<String, Content> = entries
        .map(|entry| {
            let entry = entry.expect("an entry");
            let name = entry.file_name().into_string().expect("a WAL file's name");
            let content = fs::read(entry.path()).expect("an archived file");
            (name, Arc::new(content))
        })
        .collect();
    let has = |what: &str| files.keys().any(|name| name.contains(what));
    assert!(has("00000002.history") && has(".partial") && has(".backup"));
    assert!(files.len() >= FILES, "{} files", files.len());
    files
}
