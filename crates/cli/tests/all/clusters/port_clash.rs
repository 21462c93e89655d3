//! A restored cluster has the port of the one that it was taken from.

use std::process::{Command, Stdio};

use crate::clusters::server::Server;
use crate::clusters::site::{Site, said, succeed};

/// What a restore says on standard error.
fn warnings(restored: &Server) -> String {
    let output = restored
        .walzip(&["restore", "-D"])
        .arg(restored.data())
        .output()
        .expect("walzip starts");
    assert!(output.status.success(), "{}", said(&output));
    String::from_utf8(output.stderr).expect("UTF-8")
}

#[test]
fn a_restore_beside_the_running_original_says_how_to_start_with_another_port() {
    let Some(site) = Site::new(15) else { return };
    let primary = Server::create(&site, "primary", 1);
    primary.archive_with_walzip();
    primary.configure(&format!(
        "port = 5432\nlisten_addresses = ''\nunix_socket_directories = '{}'",
        primary.socket().display()
    ));
    primary.start(&[]);
    succeed(&mut primary.walzip(&["backup"]));

    let beside = Server::on(&site, "beside");
    let warning = warnings(&beside);
    let socket = primary.socket().join(".s.PGSQL.5432");
    assert!(warning.contains("has port 5432 "), "{warning}");
    assert!(
        warning.contains(&format!("({})", socket.display())),
        "{warning}"
    );
    let start = warning
        .split_once("beside that one: ")
        .expect("a command")
        .1;
    assert!(start.ends_with("-o \"-p 5433\" start\n"), "{start}");

    // To the letter, with PostgreSQL's programs in the path.
    let programs = site.program("pg_ctl");
    let path = programs.parent().expect("a directory").display();
    let script = format!("PATH={path}:$PATH; {start}");
    let log = site.path("beside.start.log");
    let open = || {
        let file = std::fs::File::options()
            .create(true)
            .append(true)
            .open(&log);
        Stdio::from(file.expect("a log"))
    };
    let mut shell: Command = site.command("sh");
    let started = shell
        .args(["-c", &script])
        .stdin(Stdio::null())
        .stdout(open())
        .stderr(open())
        .status()
        .expect("sh starts");
    let told = std::fs::read_to_string(&log).unwrap_or_default();
    assert!(started.success(), "{told}");
    beside.stop();

    primary.stop();
    assert_eq!(warnings(&Server::on(&site, "alone")), "");
}
