//! A server that was at `wal_level = minimal` for a while, as for loading much data at once.

use crate::clusters::server::Server;
use crate::clusters::site::{Site, said, succeed};

#[test]
fn verify_names_the_backups_that_no_longer_lead_to_every_moment() {
    let Some(site) = Site::new(15) else { return };
    let primary = Server::create(&site, "primary", 1);
    primary.archive_with_walzip();
    primary.start(&[]);
    primary.sql("CREATE TABLE note (body text)");
    succeed(&mut primary.walzip(&["backup"]));
    primary.sql("INSERT INTO note VALUES ('logged')");
    primary.archive_everything();
    primary.stop();

    primary.start(&["wal_level=minimal", "archive_mode=off", "max_wal_senders=0"]);
    primary.sql("CREATE TABLE loaded AS SELECT generate_series(1, 1000)");
    primary.stop();
    primary.start(&[]);
    primary.archive_everything();

    let verify = |flags: &[&str]| {
        let output = site.walzip(&["verify"]).args(flags).output();
        output.expect("walzip runs")
    };
    let found = verify(&[]);
    assert_eq!(found.status.code(), Some(104), "{}", said(&found));
    let problem = "WAL of wal_level = minimal: ";
    assert!(said(&found).contains(problem), "{}", said(&found));
    // What was found is found again where the rest is not read again.
    let again = verify(&["--verified-within", "1d"]);
    assert_eq!(again.status.code(), Some(104), "{}", said(&again));

    // The second backup has what is not in the WAL.
    succeed(&mut primary.walzip(&["backup"]));
    for packed in [false, true] {
        if packed {
            succeed(&mut site.walzip(&["pack", "--newest", "0", "--segments", "2"]));
        }
        let found = verify(&[]);
        let count = said(&found).matches(problem).count();
        assert_eq!(count, 1, "{}", said(&found));
        assert!(said(&found).contains("1 problem was found"));
    }
}
