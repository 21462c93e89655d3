//! Restored files have the permissions that they had.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::clusters::server::Server;
use crate::clusters::site::{Site, succeed};
use crate::clusters::tree::{Node, tree};

/// The permissions of everything in a directory, by its path, and of itself.
fn modes(directory: &Path) -> BTreeMap<String, u32> {
    let own = fs::metadata(directory).expect("there").mode() & 0o7777;
    let nodes = tree(directory).into_iter();
    let below = nodes.filter_map(|(name, node)| match node {
        Node::Directory(mode) | Node::File(mode, _) => Some((name, mode)),
        Node::Link | Node::Other => None,
    });
    below.chain([(String::new(), own)]).collect()
}

#[test]
fn a_restore_keeps_permissions_of_clusters_with_and_without_group_access() {
    for group_may_read in [false, true] {
        let Some(site) = Site::new(15) else { return };
        let primary = match group_may_read {
            true => Server::create_for_group(&site, "primary"),
            false => Server::create(&site, "primary", 1),
        };
        let files = [
            ("hook.sh", 0o755),
            ("server.key", 0o400),
            ("server.crt", 0o644),
        ];
        for (name, mode) in files {
            let path = primary.data().join(name);
            fs::write(&path, name).expect("written");
            fs::set_permissions(&path, Permissions::from_mode(mode)).expect("set");
            site.hand_over(&path);
        }
        primary.archive_with_walzip();
        primary.start(&[]);
        succeed(&mut primary.walzip(&["backup"]));
        primary.stop();
        let original = modes(&primary.data());
        let restore = format!(
            "umask 0027; '{}' restore --repo '{}' -D '{}'",
            site.program_under_test().display(),
            site.repository().display(),
            site.path("restored").display()
        );
        succeed(site.command("sh").args(["-c", &restore]));
        for again in [false, true] {
            if again {
                for (name, _) in files {
                    let path = site.path("restored").join(name);
                    fs::set_permissions(path, Permissions::from_mode(0o606)).expect("set");
                }
                succeed(
                    site.command("sh")
                        .args(["-c", &format!("{restore} --delta")]),
                );
            }
            let mut compared = 0;
            for (name, mode) in modes(&site.path("restored")) {
                if let Some(expected) = original.get(&name) {
                    assert_eq!(mode, *expected, "{mode:o} is not {expected:o}: {name}");
                    compared += 1;
                }
            }
            assert!(compared > 900, "{compared}");
            assert_eq!(original[""], if group_may_read { 0o750 } else { 0o700 });
        }
        let restored = Server::on(&site, "restored");
        restored.start(&["archive_mode=off"]);
    }
}
