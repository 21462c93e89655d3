//! Backups of the first format, tar archives behind zstd: they are read for ever.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use walzip_archive::check::check;
use walzip_archive::restore::{DeltaOptions, RecoveryTarget, restore};
use walzip_archive::verify::{VerifyOptions, verify};
use walzip_repo::{BackupWriter, Location, Repository};

use crate::cluster::{Shipper, Site, copy_to, restore_command};
use crate::point_in_time::{ROWS, TIMEOUT, options, repository_of, rows_after_restore};
use crate::wal::CLUSTER;

/// Stores a file as the first format did: one zstd frame with a checksum, cut into objects.
async fn store(writer: &BackupWriter, file: &Path, oid: Option<u32>) -> Value {
    let name = file.file_name().expect("a name").to_string_lossy();
    let original = fs::read(file).expect("readable");
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).expect("zstd");
    encoder.include_checksum(true).expect("zstd");
    std::io::Write::write_all(&mut encoder, &original).expect("zstd");
    let frame = encoder.finish().expect("zstd");
    let mut objects = Vec::new();
    for (number, content) in frame.chunks(1 << 20).enumerate() {
        let name = format!("{name}.zst.{number:04}");
        let mut object = writer.create_object(&name).await.expect("begun");
        object.write(content.to_vec()).await.expect("written");
        object.finish().await.expect("finished");
        let blake3 = blake3::hash(content).to_hex();
        objects.push(json!({
            "name": name, "size_bytes": content.len(), "blake3": blake3.as_str()
        }));
    }
    let mut record = json!({ "original_bytes": original.len(), "objects": objects });
    if let Some(oid) = oid {
        record["tablespace_oid"] = oid.into();
    }
    record
}

/// A backup as the first format has it, of the archives that `pg_basebackup` made.
async fn put_backup(repository: &Repository, archives: &Path, location: &Path) {
    let writer = repository.start_backup().await.expect("a label");
    let mut stored = Vec::new();
    let mut tablespaces = Vec::new();
    for entry in fs::read_dir(archives).expect("readable") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let Some(name) = name.strip_suffix(".tar") else {
            continue;
        };
        let oid: Option<u32> = name.parse().ok();
        stored.push(store(&writer, &path, oid).await);
        tablespaces.extend(oid.map(|oid| json!({ "oid": oid, "location": location })));
    }
    let manifest = archives.join("backup_manifest");
    let listed = fs::read(&manifest).expect("readable");
    let listed: Value = serde_json::from_slice(&listed).expect("JSON");
    let range = &listed["WAL-Ranges"][0];
    let time = "2026-11-21T22:01:30Z";
    let moment = |lsn| json!({ "lsn": range[lsn], "timeline": range["Timeline"], "time": time });
    let record = json!({
        "format": 1,
        "label": writer.label().to_string(),
        "system_identifier": repository.cluster().system_id.to_string(),
        "major": CLUSTER.major,
        "server_version": "15",
        "segment_size_bytes": 1 << 20,
        "from_standby": false,
        "start": moment("Start-LSN"),
        "stop": moment("End-LSN"),
        "required_wal": [],
        "tablespaces": tablespaces,
        "archives": stored,
        "manifest": store(&writer, &manifest, None).await,
    });
    let json = serde_json::to_vec(&record).expect("JSON");
    writer.finish(json.into()).await.expect("finished");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_of_the_first_format_is_verified_and_restored() {
    let Some(site) = Site::new() else { return };
    let out = site.directory("out");
    let primary = site.cluster("primary", &copy_to(&out));
    let repository = repository_of(&primary).await;
    let _shipper = Shipper::start(repository.clone(), out);
    let tablespace = site.directory("tablespace");
    let location = tablespace.display();
    primary
        .sql(&format!("CREATE TABLESPACE s LOCATION '{location}'"))
        .await;
    primary
        .sql("CREATE TABLE t TABLESPACE s AS SELECT generate_series(1, 5000) AS a")
        .await;
    let archives = site.directory("archives");
    primary.tar_backup(&archives);
    put_backup(&repository, &archives, &tablespace).await;
    primary
        .sql("INSERT INTO t SELECT generate_series(5001, 9000)")
        .await;
    let expected = primary.sql(ROWS).await;
    check(&repository, &primary.settings(), TIMEOUT)
        .await
        .expect("archived");

    let verified = verify(&repository, &VerifyOptions::default())
        .await
        .expect("looked at");
    assert_eq!((verified.backups, verified.findings), (1, Vec::new()));
    let command = restore_command(&site, &repository, "in").await;
    let mut options = options(RecoveryTarget::Latest, &command);
    let place = site.directory("restored-tablespace");
    let again = options.clone();
    let rows = rows_after_restore(&site, &repository, "restored", again, place).await;
    assert_eq!(rows, expected);

    // Over a restored cluster in which something is not as it was.
    let (data, place) = (
        site.directory("second"),
        site.directory("second-tablespace"),
    );
    let oid = primary
        .sql("SELECT oid FROM pg_tablespace WHERE spcname = 's'")
        .await;
    options.tablespace_map.insert(oid, place);
    let first = restore(&repository, &data, &options).await;
    assert_eq!(first.expect("restored").delta, None);
    let catalog = data.join("base/1/1259");
    let original = fs::read(&catalog).expect("readable");
    fs::write(&catalog, &original[8192..]).expect("written");
    fs::write(data.join("base/1/99999"), b"another table").expect("written");
    options.delta = Some(DeltaOptions {
        force: false,
        location: Location::Local("/elsewhere".into()),
    });
    let second = restore(&repository, &data, &options).await;
    let delta = second.expect("restored").delta.expect("over a cluster");
    assert_eq!((delta.removed.files, delta.removed.directories), (1, 0));
    // The settings of recovery were there already, in a file that the backup has without them.
    assert_eq!(delta.files_written, 2);
    assert_eq!(fs::read(&catalog).expect("readable"), original);
}
