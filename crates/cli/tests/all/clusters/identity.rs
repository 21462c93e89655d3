//! A cluster that archives into another one's repository.

use std::fs;
use std::path::Path;

use crate::clusters::object_store::archived_files;
use crate::clusters::server::Server;
use crate::clusters::site::{Site, said};

/// Its history comes first, and says nothing of whose it is.
#[test]
fn another_clusters_history_does_not_get_into_the_archive() {
    let Some(site) = Site::new(15) else { return };
    let owner = Server::create(&site, "owner", 1);
    owner.archive_with_walzip();
    let stranger = Server::create(&site, "stranger", 1);
    stranger.configure(&format!(
        "archive_mode = on\narchive_command = '{} archive-push --repo {} %p'",
        site.program_under_test().display(),
        site.repository().display(),
    ));
    let signal = stranger.data().join("standby.signal");
    fs::write(&signal, "").expect("a writable data directory");
    site.hand_over(&signal);
    stranger.start(&[]);
    stranger.wait_until("SELECT pg_promote()");
    stranger.wait_until(
        "SELECT coalesce(last_failed_wal = '00000002.history', false) FROM pg_stat_archiver",
    );
    assert_eq!(archived_files(&site), []);
    let log = stranger.log();
    assert!(log.contains("[archive-mismatch, exit code 44]"), "{log}");
}

/// The server says where its files are, and its links in pg_tblspc where the rest of them is.
#[test]
fn init_that_asks_a_server_refuses_a_place_among_its_files() {
    let Some(site) = Site::new(15) else { return };
    let server = Server::create(&site, "server", 1);
    let fast = site.create_directory("fast");
    server.start(&[]);
    server.sql(&format!(
        "CREATE TABLESPACE fast LOCATION '{}'",
        fast.display()
    ));
    server.sql("CREATE ROLE replicator LOGIN REPLICATION");
    let init = |repository: &Path, user: &str| {
        let mut init = server.walzip(&["init", "-U", user, "--repo"]);
        init.arg(repository).env_remove("WALZIP_PGDATA");
        init.arg("-h").arg(server.socket());
        let output = init.output().expect("walzip starts");
        (output.status.code(), said(&output))
    };
    for (place, what) in [
        (server.data().join("repository"), "data directory"),
        (fast.join("repository"), "tablespace"),
    ] {
        let (code, told) = init(&place, "tester");
        assert_eq!(code, Some(31), "{told}");
        let expected = format!("would lie in the cluster's {what}");
        assert!(told.contains(&expected), "{told}");
        assert!(!place.exists());
    }
    // Whoever may not be told cannot be refused, and learns that.
    let (code, told) = init(&site.repository(), "replicator");
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("is not known"), "{told}");
    let (code, told) = init(&site.repository(), "tester");
    assert_eq!(code, Some(0), "{told}");
    assert!(!told.contains("warning"), "{told}");
}
