//! Our client against a real server: every way to authenticate, and what goes wrong.

use std::time::Duration;

use walzip_archive::ArchiveError;
use walzip_archive::backup::{BackupOptions, backup};
use walzip_archive::check::{Checked, check};
use walzip_archive::init::{Source, init};
use walzip_archive::replication::{Connection, ConnectionSettings, Host, Mode, ServerError};

use walzip_repo::Repository;
use walzip_repo::testing::memory_store;

use crate::cluster::{Cluster, Shipper, Site, copy_to};

/// Sets up one role for each method, all with the password `it's secret`.
async fn require_passwords(cluster: &Cluster<'_>) {
    cluster
        .sql(
            "SET password_encryption = 'md5'; \
             CREATE ROLE hashed LOGIN REPLICATION PASSWORD 'it''s secret'; \
             SET password_encryption = 'scram-sha-256'; \
             CREATE ROLE scram LOGIN REPLICATION PASSWORD 'it''s secret'; \
             CREATE ROLE plain LOGIN REPLICATION PASSWORD 'it''s secret'",
        )
        .await;
    let rules = "local all,replication postgres trust\n\
                 local all,replication plain password\n\
                 local all,replication hashed md5\n\
                 local all,replication scram scram-sha-256\n";
    std::fs::write(cluster.data.join("pg_hba.conf"), rules).expect("written");
    cluster.sql("SELECT pg_reload_conf()").await;
    // The postmaster reads the file when it gets to it.
    for _ in 0..100 {
        let loaded = cluster.sql("SELECT count(*) FROM pg_hba_file_rules WHERE error IS NULL");
        let asks = Connection::open(&settings(cluster, "plain", None), Mode::Sql)
            .await
            .err();
        if loaded.await == "4" && matches!(asks, Some(ServerError::Authentication { .. })) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("pg_hba.conf was not read within 5 seconds");
}

fn settings(cluster: &Cluster<'_>, user: &str, password: Option<&str>) -> ConnectionSettings {
    ConnectionSettings {
        user: Some(user.to_owned()),
        password: password.map(str::to_owned),
        ..cluster.settings()
    }
}

/// A role for backups may not force a switch: a backup goes on, a check would have checked nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_without_the_privilege_to_force_a_switch_fails_and_with_it_succeeds() {
    let Some(site) = Site::new() else { return };
    let out = site.directory("out");
    let cluster = site.cluster("primary", &copy_to(&out));
    let store = memory_store();
    let source = Source::DataDirectory(cluster.data.clone());
    init(store.clone(), &source).await.expect("made");
    let repository = Repository::open(store).await.expect("opened");
    let _shipper = Shipper::start(repository.clone(), out);
    cluster.sql("CREATE ROLE backup LOGIN REPLICATION").await;
    let role = settings(&cluster, "backup", None);
    let timeout = Duration::from_secs(30);
    let refused = check(&repository, &role, timeout).await;
    assert!(
        matches!(refused, Err(ArchiveError::SwitchRefused(_))),
        "{refused:?}"
    );
    // Nothing else ends the segment that the backup needs but the backup itself.
    backup(&repository, &role, &BackupOptions::default())
        .await
        .expect("a backup needs no such privilege");
    let functions = "pg_create_restore_point(text), pg_switch_wal()";
    cluster
        .sql(&format!("GRANT EXECUTE ON FUNCTION {functions} TO backup"))
        .await;
    let arrived = check(&repository, &role, timeout).await;
    assert!(
        matches!(
            arrived,
            Ok(Checked {
                arrival: Some(_),
                missing: None,
                ..
            })
        ),
        "{arrived:?}"
    );
}

#[tokio::test]
async fn authenticates_by_password_md5_and_scram_and_reports_a_refusal() {
    let Some(site) = Site::new() else { return };
    let cluster = site.cluster("primary", "false");
    require_passwords(&cluster).await;
    for user in ["plain", "hashed", "scram"] {
        for mode in [Mode::Sql, Mode::Replication] {
            let right = settings(&cluster, user, Some("it's secret"));
            let mut connection = Connection::open(&right, mode).await.expect(user);
            assert_eq!(
                connection
                    .query("SHOW port")
                    .await
                    .expect("an answer")
                    .len(),
                1
            );
            connection.close().await;

            let wrong = settings(&cluster, user, Some("wrong"));
            let refused = Connection::open(&wrong, mode).await.err().expect(user);
            assert_eq!(refused.sqlstate(), Some("28P01"), "{refused}");

            let without = settings(&cluster, user, None);
            let refused = Connection::open(&without, mode).await.err().expect(user);
            assert!(
                matches!(refused, ServerError::Authentication { .. }),
                "{refused}"
            );
        }
    }
}

#[tokio::test]
async fn goes_on_after_an_error_and_keeps_its_sqlstate() {
    let Some(site) = Site::new() else { return };
    let cluster = site.cluster("primary", "false");
    let mut sql = Connection::open(&cluster.settings(), Mode::Sql)
        .await
        .expect("connected");
    let error = sql
        .query("SELECT 1/0")
        .await
        .expect_err("a division by zero");
    assert_eq!(error.sqlstate(), Some("22012"));
    let rows = sql
        .query("SELECT NULL, 'a' UNION ALL SELECT 'b', NULL")
        .await
        .expect("rows");
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(rows, [[None, text("a")], [text("b"), None]]);
    assert!(sql.query_value("SELECT 1 WHERE false").await.is_err());

    let mut replication = Connection::open(&cluster.settings(), Mode::Replication)
        .await
        .expect("connected");
    let system = replication.identify_system().await.expect("an answer");
    let expected = sql
        .query_value("SELECT system_identifier FROM pg_control_system()")
        .await;
    assert_eq!(system.system_id.to_string(), expected.expect("a value"));
}

#[tokio::test]
async fn says_where_nobody_answers() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let settings = ConnectionSettings {
        host: Some(Host::Unix(directory.path().to_owned())),
        port: Some(5433),
        user: Some("postgres".to_owned()),
        ..ConnectionSettings::default()
    };
    let refused = Connection::open(&settings, Mode::Sql)
        .await
        .err()
        .expect("nobody");
    assert!(matches!(refused, ServerError::Connect { .. }), "{refused}");
    assert!(refused.to_string().contains(".s.PGSQL.5433"), "{refused}");
}
