//! On what machine, with what programs, when: what a figure is worthless without.
//!
//! No paths and no host name: results are published.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::Stdio;

use serde::Serialize;

use crate::process::{self, Surroundings};

/// The machine and the moment.
#[derive(Clone, Debug, Serialize)]
pub struct Provenance {
    /// When the experiment began, in UTC.
    pub date: String,
    /// The processor's name.
    pub cpu: String,
    /// How many processors there are to run on.
    pub cpus: usize,
    /// The machine's memory.
    pub memory_bytes: u64,
    /// The kernel's name, release and machine.
    pub kernel: String,
    /// The operating system's name.
    pub operating_system: String,
    /// The version of this harness.
    pub harness: String,
    /// The average number of waiting processes over the last minute, at the beginning.
    pub load_average_before: Option<f64>,
    /// The same at the end. Far above the number of threads under test: measure again.
    pub load_average_after: Option<f64>,
    /// The peak of a program that does nothing: what is at or below it tells programs apart no more.
    pub memory_floor_bytes: Option<u64>,
}

impl Provenance {
    pub(crate) fn gather(memory_floor_bytes: Option<u64>) -> Provenance {
        let kernel = rustix::system::uname();
        let words = [kernel.sysname(), kernel.release(), kernel.machine()];
        Provenance {
            date: jiff::Timestamp::now()
                .strftime("%Y-%m-%dT%H:%M:%SZ")
                .to_string(),
            cpu: field("/proc/cpuinfo", "model name", ':').unwrap_or_else(unknown),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory_bytes(),
            kernel: words
                .map(|word| word.to_string_lossy().into_owned())
                .join(" "),
            operating_system: field("/etc/os-release", "PRETTY_NAME", '=').unwrap_or_else(unknown),
            harness: concat!("walzip-bench ", env!("CARGO_PKG_VERSION")).to_owned(),
            load_average_before: load_average(),
            load_average_after: None,
            memory_floor_bytes,
        }
    }

    pub(crate) fn finish(&mut self) {
        self.load_average_after = load_average();
    }

    /// The load before anything was measured, when it leaves less than one processor idle; with
    /// only one, less than half of it.
    pub fn load_of_others(&self) -> Option<f64> {
        load_of_others(self.load_average_before, self.cpus)
    }

    /// The first lines of comma-separated values.
    pub(crate) fn write_csv(&self, to: &mut dyn Write, experiment: &str) -> io::Result<()> {
        let (harness, date) = (&self.harness, &self.date);
        writeln!(to, "# walzip bench {experiment}, {harness}, {date}")?;
        writeln!(to, "# machine: {}", self.machine())
    }

    /// A line for a person.
    pub fn machine(&self) -> String {
        let gigabytes = self.memory_bytes as f64 / 1e9;
        format!(
            "{}, {} processors, {gigabytes:.0} GB, {}, {}",
            self.cpu, self.cpus, self.kernel, self.operating_system
        )
    }
}

pub(crate) fn load_of_others(load: Option<f64>, cpus: usize) -> Option<f64> {
    load.filter(|load| *load > (cpus as f64 - 1.0).max(0.5))
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn field(path: &str, name: &str, separator: char) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(separator)?;
        (key.trim() == name).then(|| value.trim().trim_matches('"').to_owned())
    })
}

fn memory_bytes() -> u64 {
    let total = field("/proc/meminfo", "MemTotal", ':').unwrap_or_default();
    let kilobytes: u64 = total
        .trim_end_matches(" kB")
        .trim()
        .parse()
        .unwrap_or_default();
    kilobytes * 1024
}

fn load_average() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg")
        .ok()?
        .split(' ')
        .next()?
        .parse()
        .ok()
}

/// A program that took part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Program {
    /// The file's name.
    pub name: String,
    /// The package that brings it.
    pub package: String,
    /// The first line in which it says its version.
    pub version: String,
    /// The BLAKE3 hash of the executable file.
    pub blake3: String,
}

impl Program {
    pub(crate) fn identify(
        path: &Path,
        package: &str,
        version: &[&str],
        surroundings: Surroundings<'_>,
    ) -> Program {
        Program {
            name: path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            package: package.to_owned(),
            version: version_line(path, version, surroundings).unwrap_or_else(unknown),
            blake3: crate::input::hash(path).map_or_else(|_| unknown(), |hash| hash.to_string()),
        }
    }
}

/// The first line with a digit that the program prints: some decorate, some use standard error.
fn version_line(path: &Path, arguments: &[&str], surroundings: Surroundings<'_>) -> Option<String> {
    let arguments: Vec<_> = arguments.iter().map(OsString::from).collect();
    let said = surroundings.temp_dir.join("version");
    let output = Stdio::from(File::create(&said).ok()?);
    // Some say their version and report failure.
    let _said_anyway = process::run(path, &arguments, &[], output, surroundings);
    let mut text = Vec::new();
    for file in [said.as_path(), &surroundings.stderr()] {
        File::open(file)
            .ok()?
            .take(4096)
            .read_to_end(&mut text)
            .ok()?;
    }
    let text = String::from_utf8_lossy(&text);
    let line = text
        .lines()
        .find(|line| line.bytes().any(|byte| byte.is_ascii_digit()))?;
    Some(
        line.trim_matches(|c: char| c == '*' || c.is_whitespace())
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_with_less_than_one_processor_idle_is_busy() {
        let mut provenance = Provenance {
            cpus: 2,
            ..Provenance::gather(None)
        };
        provenance.load_average_before = Some(0.9);
        assert_eq!(provenance.load_of_others(), None);
        provenance.load_average_before = Some(1.1);
        assert_eq!(provenance.load_of_others(), Some(1.1));
        provenance.cpus = 1;
        assert_eq!(provenance.load_of_others(), Some(1.1));
        provenance.load_average_before = Some(0.4);
        assert_eq!(provenance.load_of_others(), None);
    }
}
