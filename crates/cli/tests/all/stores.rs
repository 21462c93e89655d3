//! Repositories on other hosts, without a server of PostgreSQL: what is refused, and how.

use crate::sandbox::{SYSTEM_ID, Sandbox, control_file, segment};

/// A port that nobody listens on.
fn closed_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

#[test]
fn a_store_that_cannot_be_reached_is_given_up_in_time() {
    let sandbox = Sandbox::new();
    sandbox.write("000000010000000000000001", &segment(1));
    let endpoint = format!("http://127.0.0.1:{}", closed_port());
    let mut push = sandbox.command();
    push.args([
        "archive-push",
        "--repo",
        "s3://bucket/x",
        "000000010000000000000001",
    ])
    .args(["--repo-timeout", "1", "--repo-s3-endpoint", &endpoint])
    .env("AWS_ACCESS_KEY_ID", "key")
    .env("AWS_SECRET_ACCESS_KEY", "TOP-SECRET");
    let output = push.output().expect("walzip starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(101), "{said}");
    assert!(!said.contains("TOP-SECRET"), "{said}");
    let port = closed_port();
    let url = format!("sftp://me@127.0.0.1:{port}/srv/wal");
    let said = sandbox.fails(101, &["info", "--repo", &url, "--repo-timeout", "1"]);
    assert!(said.contains("cannot reach the SSH server"), "{said}");
}

#[test]
fn wrong_settings_are_named() {
    let sandbox = Sandbox::new();
    let info = |arguments: &[&str]| {
        let mut all = vec!["info", "--repo"];
        all.extend(arguments);
        sandbox.fails(31, &all)
    };
    let said = info(&["s3://bucket", "--repo-s3-uri-style", "virtual"]);
    assert!(said.contains("not \"host\" or \"path\""), "{said}");
    let said = info(&["az://container/wal"]);
    assert!(said.contains("repo-azure-account"), "{said}");
    let said = info(&["s3://bucket", "--repo-storage-ca-file", "/nowhere"]);
    assert!(said.contains("/nowhere"), "{said}");
    let said = info(&["s3://key:TOP-SECRET@bucket"]);
    assert!(!said.contains("TOP-SECRET"), "{said}");
    sandbox.fails(67, &["info", "--repo", "swift://bucket"]);
    sandbox.fails(2, &["info", "--repo", "s3://b", "--repo-timeout", "0"]);
}

/// A store that overwrites is found before anything is kept in it.
#[test]
fn init_refuses_a_store_that_overwrites() {
    use walzip_repo::testing::proxy::{Proxy, Spoilt};
    use walzip_repo::testing::servers;
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    servers::moto_bucket("overwrites");
    let proxy = runtime
        .block_on(async { Proxy::start(servers::moto().port(), |_, _, _| Spoilt::Unconditional) });
    let sandbox = Sandbox::new();
    sandbox.write("data/global/pg_control", &control_file(SYSTEM_ID));
    let mut init = sandbox.command();
    init.args(["init", "--repo", "s3://overwrites", "--pgdata", "data"])
        .env(
            "WALZIP_REPO_S3_ENDPOINT",
            format!("http://127.0.0.1:{}", proxy.port()),
        )
        .env("AWS_ACCESS_KEY_ID", "key")
        .env("AWS_SECRET_ACCESS_KEY", "secret");
    let output = init.output().expect("walzip starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(103), "{said}");
    assert!(said.contains("If-None-Match"), "{said}");
    let seen = proxy.take_seen();
    assert!(seen.iter().all(|seen| seen.ends_with("/probe")), "{seen:?}");
}

/// A segment and a `restore_command` in a data directory cost what docs/decisions says.
#[test]
fn requests_are_counted() {
    use walzip_repo::testing::proxy::{Proxy, Spoilt};
    use walzip_repo::testing::servers;
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    servers::moto_bucket("counted");
    let proxy =
        runtime.block_on(async { Proxy::start(servers::moto().port(), |_, _, _| Spoilt::Not) });
    let sandbox = Sandbox::new();
    sandbox.write("data/global/pg_control", &control_file(SYSTEM_ID));
    for number in 1..4 {
        let path = format!("data/pg_wal/00000001000000000000000{number}");
        sandbox.write(&path, &segment(number));
    }
    let run = |arguments: &[&str]| {
        let mut command = sandbox.command();
        command
            .current_dir(sandbox.path("data"))
            .args(arguments)
            .env("WALZIP_REPO", "s3://counted/wal")
            .env(
                "WALZIP_REPO_S3_ENDPOINT",
                format!("http://127.0.0.1:{}", proxy.port()),
            )
            .env("AWS_ACCESS_KEY_ID", "key")
            .env("AWS_SECRET_ACCESS_KEY", "secret");
        let output = command.output().expect("walzip starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said, proxy.take_seen())
    };
    let (code, said, _) = run(&["init", "--pgdata", "."]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said, seen) = run(&["archive-push", "pg_wal/000000010000000000000001"]);
    // Nothing says yet that the segment before was pushed: it and the one after are looked for, their packs, and the
    // histories of later timelines.
    assert_eq!((code, seen.len()), (Some(0), 7), "{said} {seen:?}");
    let (code, said, seen) = run(&["archive-push", "pg_wal/000000010000000000000002"]);
    // The histories again: a later timeline may have begun meanwhile.
    assert_eq!((code, seen.len()), (Some(0), 4), "{said} {seen:?}");
    let (code, said, seen) = run(&["archive-get", "000000010000000000000001", "got"]);
    // Its object, and at the same time its packs.
    assert_eq!((code, seen.len()), (Some(0), 2), "{said} {seen:?}");
    assert_eq!(sandbox.read("data/got"), segment(1));
    let (code, said, seen) = run(&["archive-get", "000000010000000000000003", "got"]);
    // Its object, packs, the records, and once more its object and packs: only after the records the answer counts.
    assert_eq!((code, seen.len()), (Some(1), 6), "{said} {seen:?}");
    let (code, said, seen) = run(&["archive-push", "pg_wal/000000010000000000000003"]);
    assert_eq!((code, seen.len()), (Some(0), 4), "{said} {seen:?}");
    let (code, said, seen) = run(&["archive-push", "pg_wal/000000010000000000000003"]);
    // The record, the histories, its packs, the put, and to compare its object and its packs.
    assert_eq!((code, seen.len()), (Some(0), 6), "{said} {seen:?}");
}

/// Whoever has not the right secret is told that access was refused, and by whom, and is not sent off to
/// look for a repository that is not there.
#[test]
fn a_wrong_secret_is_refused() {
    use walzip_repo::testing::servers;
    servers::versitygw_bucket("signed");
    let endpoint = format!("http://127.0.0.1:{}", servers::versitygw().port());
    let sandbox = Sandbox::new();
    sandbox.write("data/global/pg_control", &control_file(SYSTEM_ID));
    let name = "000000010000000000000001";
    sandbox.write(name, &segment(1));
    let run = |(account, secret): (&str, &str), arguments: &[&str]| {
        let mut command = sandbox.command();
        command
            .args(arguments)
            .env("WALZIP_REPO", "s3://signed/wal")
            .env("WALZIP_REPO_S3_ENDPOINT", &endpoint)
            .env("WALZIP_REPO_TIMEOUT", "20")
            .env("AWS_ACCESS_KEY_ID", account)
            .env("AWS_SECRET_ACCESS_KEY", secret);
        let output = command.output().expect("walzip starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    let right = servers::VERSITYGW_KEYS;
    let commands: [&[&str]; 5] = [
        &["init", "--pgdata", "data"],
        &["archive-push", name],
        &["archive-get", name, "got"],
        &["info"],
        &["verify"],
    ];
    for arguments in commands {
        let begin = std::time::Instant::now();
        let (code, said) = run((right.0, "WRONG-SECRET"), arguments);
        assert_eq!(code, Some(105), "{arguments:?}: {said}");
        let told = [
            "does not permit access to ",
            "SignatureDoesNotMatch",
            "credentials",
        ];
        assert!(
            told.iter().all(|told| said.contains(told)),
            "{arguments:?}: {said}"
        );
        assert!(!said.contains("WRONG-SECRET"), "{arguments:?}: {said}");
        // To ask again would not help.
        assert!(begin.elapsed().as_secs() < 10, "{arguments:?}: {said}");
        // This server says "not found" of an account that it does not have. No recovery may take that
        // for the end of the archive.
        let (code, said) = run(("nobody", right.1), arguments);
        assert!(
            code.is_some_and(|code| code > 1),
            "{arguments:?}: {code:?} {said}"
        );
    }
    for arguments in commands {
        let (code, said) = run(right, arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {said}");
    }
    assert_eq!(sandbox.read("got"), segment(1));
}
