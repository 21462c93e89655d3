//! A directory of its own for each test, and `walzip` started in it with nothing inherited
//! that would change what it does.

use std::path::PathBuf;
use std::process::Output;

use assert_cmd::Command;
use tempfile::TempDir;

/// The smallest segment that PostgreSQL can have.
pub const SEGMENT_SIZE: usize = 1 << 20;
/// The cluster of [`segment`].
pub const SYSTEM_ID: u64 = 7_600_000_000_000_000_001;

pub struct Sandbox {
    directory: TempDir,
}

impl Sandbox {
    pub fn new() -> Sandbox {
        Sandbox {
            directory: TempDir::new().expect("a temporary directory can be made"),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn write(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a name has a directory")).expect("mkdir");
        std::fs::write(&path, content).expect("the sandbox is writable");
        path
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Every name in the sandbox's top directory, temporary files included.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory.path()).expect("readable");
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            entry
                .expect("readable")
                .file_name()
                .into_string()
                .expect("UTF-8")
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }

    pub fn command(&self) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("walzip"));
        command.current_dir(self.directory.path());
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            let of_services = ["WALZIP_", "PG", "AWS_", "GOOGLE_", "AZURE_"];
            if of_services.iter().any(|of| text.starts_with(of)) || text == "COLUMNS" {
                command.env_remove(name);
            }
        }
        // A configuration of the machine must not reach the tests.
        command.env("WALZIP_CONFIG", "/dev/null");
        command
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.command().args(args).output().expect("walzip starts")
    }

    /// Runs what has to succeed, without a word of complaint; returns standard output.
    #[track_caller]
    pub fn ok(&self, args: &[&str]) -> Vec<u8> {
        let output = self.run(args);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{args:?}: {} {complaint}",
            output.status
        );
        assert_eq!(complaint, "", "{args:?}");
        output.stdout
    }

    /// Runs what has to fail with this code; returns standard error.
    #[track_caller]
    pub fn fails(&self, code: i32, args: &[&str]) -> String {
        let output = self.run(args);
        let complaint = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(code), "{args:?}: {complaint}");
        let directory = self.directory.path().to_str().expect("UTF-8");
        complaint.replace(directory, "SANDBOX")
    }
}

/// Bytes that do not compress to nothing, and are the same in every run.
pub fn text(len: usize) -> Vec<u8> {
    let lines = (0u64..).flat_map(|number| format!("{:x}\n", number * 2_654_435_761).into_bytes());
    lines.take(len).collect()
}

/// An all but empty segment of PostgreSQL 15, as archive_timeout leaves them: a long page header
/// and zeros. Its name is `00000001000000000000000N` for number N.
pub fn segment(number: u64) -> Vec<u8> {
    segment_of(SYSTEM_ID, number)
}

/// The same for another cluster.
pub fn segment_of(system_id: u64, number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(0xD110u16.to_le_bytes());
    bytes.extend(2u16.to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    bytes.extend((number * SEGMENT_SIZE as u64).to_le_bytes());
    bytes.extend(0u64.to_le_bytes());
    bytes.extend(system_id.to_le_bytes());
    bytes.extend((SEGMENT_SIZE as u32).to_le_bytes());
    bytes.extend(8192u32.to_le_bytes());
    bytes.resize(SEGMENT_SIZE, 0);
    bytes
}

/// The control file of a running cluster of PostgreSQL 15 with 1 MiB segments.
pub fn control_file(system_id: u64) -> Vec<u8> {
    let mut bytes = vec![0; 8192];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, &system_id.to_le_bytes());
    put(8, &1300u32.to_le_bytes());
    put(12, &202_209_061u32.to_le_bytes());
    put(16, &6u32.to_le_bytes());
    put(172, &1u32.to_le_bytes());
    put(216, &8192u32.to_le_bytes());
    put(224, &8192u32.to_le_bytes());
    put(228, &(SEGMENT_SIZE as u32).to_le_bytes());
    let checksum = crc32c::crc32c(&bytes[..288]);
    bytes[288..292].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// A segment made one of PostgreSQL 16, which has the same layout.
pub fn segment_of_16(mut segment: Vec<u8>) -> Vec<u8> {
    segment[..2].copy_from_slice(&0xD113u16.to_le_bytes());
    segment
}

/// A control file made one of PostgreSQL 16.
pub fn control_file_of_16(mut control_file: Vec<u8>) -> Vec<u8> {
    control_file[12..16].copy_from_slice(&202_307_071u32.to_le_bytes());
    let checksum = crc32c::crc32c(&control_file[..288]);
    control_file[288..292].copy_from_slice(&checksum.to_le_bytes());
    control_file
}
