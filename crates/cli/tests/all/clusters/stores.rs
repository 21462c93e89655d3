//! A table is dropped and brought back, with the repository on another host.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use walzip_repo::testing::servers;
use walzip_testing::not_run;

use crate::clusters::server::Server;
use crate::clusters::site::{Site, said, succeed};

/// A repository on another host, as its administrator names it.
struct Place {
    location: String,
    /// Variables that say the same as the flags.
    variables: Vec<(&'static str, String)>,
    flags: String,
}

impl Place {
    fn walzip(&self, server: &Server, arguments: &[&str]) -> Command {
        let mut command = server.walzip(arguments);
        command.env("WALZIP_REPO", &self.location);
        for (name, value) in &self.variables {
            command.env(name, value);
        }
        command
    }
}

#[test]
fn a_dropped_table_comes_back_from_s3() {
    let Some(site) = Site::new(15) else { return };
    servers::moto_bucket("rescue");
    let endpoint = format!("http://127.0.0.1:{}", servers::moto().port());
    write_for_user(
        &site,
        ".aws/credentials",
        "[default]\naws_access_key_id = key\naws_secret_access_key = secret\n",
    );
    rescues_a_dropped_table(
        &site,
        &Place {
            location: "s3://rescue/db1".to_owned(),
            flags: format!("--repo-s3-endpoint {endpoint}"),
            variables: vec![("WALZIP_REPO_S3_ENDPOINT", endpoint)],
        },
    );
}

#[test]
fn a_dropped_table_comes_back_over_sftp() {
    let Some(site) = Site::new(15) else { return };
    let sshd = match servers::sshd() {
        Ok(sshd) => sshd,
        Err(reason) => return not_run(&format!("a rescue over SFTP: {reason}")),
    };
    for (from, to) in [
        ("user_key", ".ssh/id_ed25519"),
        ("known_hosts", ".ssh/known_hosts"),
    ] {
        let content = fs::read_to_string(sshd.file(from)).expect("a file of the server's");
        write_for_user(&site, to, &content);
    }
    let directory = tempfile::tempdir().expect("a directory");
    let place = Place {
        location: sshd.url(&directory.path().join("wal")),
        flags: String::new(),
        variables: Vec::new(),
    };
    rescues_a_dropped_table(&site, &place);
    // What was written is an ordinary repository.
    let local = directory.path().join("wal").display().to_string();
    let mut verify = Command::new(site.program_under_test());
    succeed(verify.args(["verify", "--repo", &local]));
    assert_eq!(
        fs::read_dir(directory.path().join("wal/.incoming"))
            .expect("read")
            .count(),
        0
    );
}

/// A key file that the site's user has made; returns its path.
fn make_key_file(site: &Site, name: &str) -> String {
    let path = site.path(name).display().to_string();
    succeed(&mut site.walzip(&["key", "init", &path]));
    path
}

fn public_key(key_file: &str) -> String {
    let text = fs::read_to_string(key_file).expect("a key file");
    let mut lines = text.lines();
    let key = lines.find_map(|line| line.strip_prefix("# public key: "));
    key.expect("a public key").to_owned()
}

#[test]
fn a_dropped_table_comes_back_from_an_encrypted_repository() {
    let Some(site) = Site::new(15) else { return };
    let own = make_key_file(&site, "own.key");
    let recovery = site.path("recovery.key").display().to_string();
    succeed(&mut site.walzip(&["key", "init", "--recovery", &recovery]));
    let stranger = make_key_file(&site, "stranger.key");
    let repository = site.repository().display().to_string();
    let place = Place {
        location: repository.clone(),
        flags: format!("--repo-key-file {own}"),
        variables: vec![("WALZIP_REPO_KEY_FILE", own.clone())],
    };
    rescues_a_dropped_table(&site, &place);
    let with = |key_file: &str, arguments: &[&str]| {
        let mut command = site.walzip(arguments);
        command.env("WALZIP_REPO_KEY_FILE", key_file);
        command
    };
    // Without a key, and with one that was not let in.
    for mut command in [site.walzip(&["info"]), with(&stranger, &["info"])] {
        let refused = command.output().expect("run");
        assert_eq!(refused.status.code(), Some(95), "{}", said(&refused));
    }
    let refused = with(&recovery, &["verify"]).output().expect("run");
    assert_eq!(refused.status.code(), Some(95), "{}", said(&refused));
    succeed(&mut with(
        &own,
        &["key", "rewrap", "--add", &public_key(&recovery)],
    ));
    succeed(&mut with(&own, &["key", "rotate"]));
    succeed(&mut with(&recovery, &["verify"]));
    let listed = succeed(&mut with(&own, &["key", "list"]));
    assert_eq!(
        listed.matches(&public_key(&recovery)).count(),
        2,
        "{listed}"
    );
    // To another place in plain, and from there with another key.
    let plain = site.path("plain").display().to_string();
    let other = site.path("other").display().to_string();
    let refused = with(&own, &["repo", "copy", &plain]).output().expect("run");
    assert_eq!(refused.status.code(), Some(37), "{}", said(&refused));
    succeed(&mut with(&own, &["repo", "copy", &plain, "--to-plain"]));
    succeed(&mut site.walzip(&["verify", "--repo", &plain]));
    let to = [
        "repo",
        "copy",
        &other,
        "--to-key-file",
        &stranger,
        "--repo",
        &plain,
    ];
    succeed(&mut site.walzip(&to));
    succeed(&mut with(&stranger, &["verify", "--repo", &other]));
    a_copy_without_a_pack_is_no_success(&site, &plain);
    // A repository in plain does not become an encrypted one, and is refused with a key file.
    let primary = Server::on(&site, "primary");
    let data = primary.data().display().to_string();
    for arguments in [
        &["info", "--repo", &plain][..],
        &["init", "--repo", &plain, "-D", &data],
    ] {
        let refused = with(&own, arguments).output().expect("run");
        assert!(
            said(&refused).contains("not encrypted"),
            "{}",
            said(&refused)
        );
        assert!(!refused.status.success());
    }
    let text = fs::read_to_string(&own).expect("a key file");
    let secret = text
        .lines()
        .find(|line| line.starts_with("AGE-SECRET-KEY-"));
    for file in files_below(&site.repository()) {
        let content = fs::read(&file).expect("read");
        for told in [
            secret.expect("a secret"),
            "system_identifier",
            "backup_label",
        ] {
            let mut windows = content.windows(told.len());
            assert!(
                !windows.any(|window| window == told.as_bytes()),
                "{told} in {file:?}"
            );
        }
    }
}

fn files_below(directory: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).expect("read") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => files.extend(files_below(&path)),
            false => files.push(path),
        }
    }
    files
}

#[test]
fn a_dropped_table_comes_back_from_an_encrypted_bucket() {
    let Some(site) = Site::new(15) else { return };
    servers::moto_bucket("encrypted");
    let endpoint = format!("http://127.0.0.1:{}", servers::moto().port());
    write_for_user(
        &site,
        ".aws/credentials",
        "[default]\naws_access_key_id = key\naws_secret_access_key = secret\n",
    );
    let key_file = make_key_file(&site, "own.key");
    rescues_a_dropped_table(
        &site,
        &Place {
            location: "s3://encrypted/db1".to_owned(),
            flags: format!("--repo-key-file {key_file} --repo-s3-endpoint {endpoint}"),
            variables: vec![
                ("WALZIP_REPO_S3_ENDPOINT", endpoint),
                ("WALZIP_REPO_KEY_FILE", key_file),
            ],
        },
    );
}

/// Where the user's programs look for it: the site is the home directory.
fn write_for_user(site: &Site, name: &str, content: &str) {
    let path = site.path(name);
    let directory = path.parent().expect("a directory");
    fs::create_dir_all(directory).expect("made");
    fs::write(&path, content).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("closed");
    site.hand_over(directory);
    site.hand_over(&path);
}

fn rescues_a_dropped_table(site: &Site, place: &Place) {
    let primary = Server::create(site, "primary", 1);
    succeed(&mut place.walzip(&primary, &["init"]));
    let again = succeed(&mut place.walzip(&primary, &["init"]));
    assert!(again.contains("exists already"), "{again}");
    primary.configure(&format!(
        "archive_mode = on\nwal_level = replica\nmax_wal_senders = 4\n\
         archive_command = '{} archive-push --repo {} {} %p'",
        site.program_under_test().display(),
        place.location,
        place.flags,
    ));
    primary.start(&[]);
    primary.sql("CREATE TABLE kept AS SELECT i, md5(i::text) FROM generate_series(1, 20000) i");
    succeed(&mut place.walzip(&primary, &["check"]));
    succeed(&mut place.walzip(&primary, &["backup"]));
    primary.sql("INSERT INTO kept SELECT i, md5(i::text) FROM generate_series(1, 30000) i");
    let expected = primary.fingerprint();
    let time = primary.sql("SELECT clock_timestamp()");
    primary.sql("SELECT pg_sleep(0.01)");
    primary.sql("DROP TABLE kept");
    primary.archive_everything();
    primary.stop();

    let restored = Server::on(site, "restored");
    let mut restore = place.walzip(&restored, &["restore", "--target-time", &time, "-D"]);
    succeed(restore.arg(restored.data()));
    assert_settings_name(&restored.data(), place);
    restored.start(&[]);
    restored.wait_until("SELECT NOT pg_is_in_recovery()");
    assert_eq!(restored.fingerprint(), expected);
    restored.stop();
    let info = succeed(&mut place.walzip(&primary, &["info"]));
    assert!(info.contains(&place.location), "{info}");
    succeed(&mut place.walzip(&primary, &["verify"]));
}

/// The restored server starts its `restore_command` without this test's variables.
fn assert_settings_name(data: &Path, place: &Place) {
    let settings = fs::read_to_string(data.join("postgresql.auto.conf")).expect("settings");
    assert!(settings.contains(&place.location), "{settings}");
    for word in place.flags.split(' ') {
        assert!(settings.contains(word), "{settings}");
    }
    assert!(!settings.contains("secret"), "{settings}");
}

#[test]
fn a_host_key_that_is_not_known_is_refused_with_its_fingerprint() {
    let Some(site) = Site::new(15) else { return };
    let sshd = match servers::sshd() {
        Ok(sshd) => sshd,
        Err(reason) => return not_run(&format!("a rescue over SFTP: {reason}")),
    };
    let url = sshd.url(Path::new("/srv/wal"));
    let mut info = site.command(site.program_under_test());
    let output = info
        .args(["info", "--repo", &url])
        .output()
        .expect("walzip");
    let said = said(&output);
    assert_eq!(output.status.code(), Some(105), "{said}");
    for expected in ["a key that is not known", "SHA256:", "ssh-keyscan -p"] {
        assert!(said.contains(expected), "{said}");
    }
}

/// A pack that is gone cannot be copied, and `info` says what that means.
fn a_copy_without_a_pack_is_no_success(site: &Site, repo: &str) {
    let listed = succeed(&mut site.walzip(&["repo", "ls", "backup", "--recurse", "--repo", repo]));
    let pack = listed
        .split_whitespace()
        .find(|word| word.ends_with("/pack.0000"))
        .expect("a pack");
    fs::remove_file(Path::new(repo).join(pack)).expect("removed");
    let copy = site.path("copy_without").display().to_string();
    let refused = site
        .walzip(&["repo", "copy", &copy, "--repo", repo])
        .output();
    let refused = refused.expect("run");
    assert_eq!(refused.status.code(), Some(104), "{}", said(&refused));
    let lost = "damaged: object pack.0000 of backup ";
    assert!(said(&refused).contains(lost), "{}", said(&refused));
    let info = succeed(&mut site.walzip(&["info", "--repo", &copy]));
    assert!(
        info.contains(": CANNOT BE RESTORED: pack.0000 of backup "),
        "{info}"
    );
    let metrics = succeed(&mut site.walzip(&["metrics", "--repo", &copy]));
    assert!(
        metrics.contains("walzip_backups_unusable{repo=\"1\"} 1"),
        "{metrics}"
    );
}
