//! A directory with programs, segments and temporary files, and an ear for progress.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use walzip_bench::wal::{Options, Results, run};
use walzip_bench::{Error, Progress, Step};

/// Compresses and decompresses by copying its last argument.
pub const COPIES: &str = "for last; do :; done\nexec /bin/cat \"$last\"";

pub struct Bench {
    directory: TempDir,
    pub options: Options,
    pub progress: Heard,
}

impl Bench {
    /// With a zstd and a walzip that only copy, and no other program.
    pub fn new() -> Bench {
        let directory = TempDir::new().unwrap();
        for name in ["bin", "samples", "tmp"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        let bin = directory.path().join("bin");
        let tmp = directory.path().join("tmp");
        let mut options = Options::new(bin.join("walzip"), bin.into_os_string(), tmp);
        options.contenders = vec!["walzip:3".parse().unwrap()];
        options.runs = Some(1);
        let bench = Bench {
            directory,
            options,
            progress: Heard::default(),
        };
        bench.program("zstd", COPIES);
        bench.program("walzip", COPIES);
        bench
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Adds a shell script as a program.
    pub fn program(&self, name: &str, script: &str) {
        let path = self.path("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Adds a segment and measures on it.
    pub fn segment(&mut self, folder: &str, name: &str, bytes: &[u8]) {
        let directory = self.path("samples").join(folder);
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join(name);
        fs::write(&path, bytes).unwrap();
        self.options.inputs.push(path);
    }

    pub fn run(&mut self) -> Result<Results, Error> {
        let results = run(&self.options, &mut self.progress);
        assert!(
            is_empty(&self.path("tmp")),
            "temporary files were left behind"
        );
        results
    }
}

pub fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).unwrap().next().is_none()
}

/// Remembers what was said.
#[derive(Default)]
pub struct Heard {
    pub notes: Vec<String>,
    pub steps: Vec<Step>,
}

impl Progress for Heard {
    fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }

    fn step(&mut self, step: &Step) {
        self.steps.push(step.clone());
    }
}
