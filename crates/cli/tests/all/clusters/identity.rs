//! A cluster that archives into another one's repository.

use std::fs;

use crate::clusters::object_store::archived_files;
use crate::clusters::server::Server;
use crate::clusters::site::Site;

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
