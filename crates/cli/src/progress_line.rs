//! What a person sees while a command runs: one line that is rewritten on a terminal, and that is
//! gone when the command is done. Elsewhere nothing, or a line a minute with `--verbose`.
//!
//! Whatever else goes to standard error meanwhile goes through [`StandardError`], which takes the
//! line away first.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use walzip_archive::progress::{Phase, Progress, Snapshot, Unit};

/// Fast enough to look alive, slow enough to be read.
const REDRAW: Duration = Duration::from_millis(250);
const LOG: Duration = Duration::from_secs(60);

/// The rate is that of the last seconds: a phase changes its speed with what it works on.
const RATE_WINDOW: Duration = Duration::from_secs(15);
/// Before that much time a rate says nothing.
const RATE_AFTER: Duration = Duration::from_secs(1);

const CLEAR: &str = "\r\x1b[K";

/// Whether the line is on the terminal.
static IS_SHOWN: Mutex<bool> = Mutex::new(false);

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Rewritten, for a person at a terminal.
    Line,
    /// In the log, where more is asked for than warnings.
    Log,
    Nothing,
}

impl Way {
    /// As it was asked for, and as far as standard error can show it.
    fn now() -> Way {
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Way::of(
            io::stderr().is_terminal() && !is_dumb,
            tracing::enabled!(tracing::Level::WARN),
            tracing::enabled!(tracing::Level::INFO),
        )
    }

    fn of(is_terminal: bool, warns: bool, informs: bool) -> Way {
        match (is_terminal, warns, informs) {
            (true, true, _) => Way::Line,
            (false, _, true) => Way::Log,
            _ => Way::Nothing,
        }
    }
}

/// Whether anybody will see how far a command has come.
pub fn is_wanted() -> bool {
    Way::now() != Way::Nothing
}

/// The line, shown as long as this lives.
pub struct ProgressLine {
    end: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ProgressLine {
    /// Shows how far an operation has come.
    pub fn show(progress: &Progress) -> ProgressLine {
        let way = Way::now();
        let mut shown = ProgressLine {
            end: None,
            thread: None,
        };
        let interval = match way {
            Way::Nothing => return shown,
            Way::Line => REDRAW,
            Way::Log => LOG,
        };
        if way == Way::Line {
            draw(&text(&progress.snapshot(), None));
        }
        let (end, ended) = mpsc::channel();
        let progress = progress.clone();
        let redraw = move || {
            let mut meter = Meter::default();
            while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                let snapshot = progress.snapshot();
                let text = text(&snapshot, meter.rate(snapshot, Instant::now()));
                match way {
                    Way::Line => draw(&text),
                    _ => tracing::info!("{text}"),
                }
            }
        };
        // Without a thread there is no line, and that is no reason to do nothing.
        shown.thread = std::thread::Builder::new().spawn(redraw).ok();
        shown.end = Some(end);
        shown
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // Nobody is left to be told when standard error is closed.
        let _ = StandardError.write(b"");
    }
}

/// Standard error for everything but the line.
pub struct StandardError;

impl Write for StandardError {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let mut is_shown = IS_SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stderr = io::stderr();
        if std::mem::take(&mut *is_shown) {
            stderr.write_all(CLEAR.as_bytes())?;
        }
        stderr.write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

fn draw(text: &str) {
    let mut is_shown = IS_SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let columns = rustix::termios::tcgetwinsize(io::stderr()).map_or(0, |size| size.ws_col);
    // A line that does not fit could not be taken away any more.
    let text: String = match usize::from(columns) {
        0 => text.to_owned(),
        columns => text.chars().take(columns - 1).collect(),
    };
    *is_shown = true;
    // Progress that cannot be shown is no reason to stop.
    let _ = io::stderr().write_all(format!("{CLEAR}{text}").as_bytes());
}

/// Measures how fast a phase goes.
#[derive(Default)]
struct Meter {
    phase: Phase,
    samples: VecDeque<(Instant, u64)>,
}

impl Meter {
    /// What is done per second, once that can be said.
    fn rate(&mut self, snapshot: Snapshot, now: Instant) -> Option<f64> {
        if self.phase != snapshot.phase {
            self.phase = snapshot.phase;
            self.samples.clear();
        }
        self.samples.push_back((now, snapshot.done));
        let old = |at: &Instant| now.duration_since(*at) > RATE_WINDOW;
        while self.samples.get(1).is_some_and(|(at, _)| old(at)) {
            self.samples.pop_front();
        }
        let (began, done) = *self.samples.front()?;
        let elapsed = now.duration_since(began);
        let more = snapshot.done.saturating_sub(done);
        (elapsed >= RATE_AFTER).then(|| more as f64 / elapsed.as_secs_f64())
    }
}

fn text(snapshot: &Snapshot, rate: Option<f64>) -> String {
    let Snapshot { phase, done, total } = *snapshot;
    let what = match phase {
        Phase::Starting => "starting",
        Phase::CheckingArchiving => "waiting for the archiver",
        Phase::WaitingForCheckpoint => "waiting for the checkpoint",
        Phase::Copying => "copying",
        Phase::ReadingBack => "reading back",
        Phase::WaitingForWal => "waiting for WAL",
        Phase::Unpacking => "unpacking",
        Phase::Syncing => "syncing",
        Phase::VerifyingWal => "verifying WAL",
        Phase::VerifyingBackups => "verifying backups",
        Phase::Synchronizing => "bringing WAL",
        Phase::CopyingRepository => "copying the repository",
        Phase::ImportingWal => "importing WAL",
        Phase::Packing => "packing WAL",
    };
    if phase.unit() == Unit::Segments {
        return format!("{what}: {done} of {total} segments");
    }
    // An estimate that was too low is no news any more.
    let is_known = total > 0 && done <= total;
    if done == 0 && !is_known {
        return what.to_owned();
    }
    let mut text = format!("{what}: {}", size(done));
    if is_known {
        let percent = (u128::from(done) * 100 / u128::from(total)) as u64;
        text.push_str(&format!(" of {}, {percent} %", size(total)));
    }
    if let Some(rate) = rate {
        text.push_str(&format!(", {}/s", size(rate as u64)));
        if is_known && rate >= 1.0 {
            let seconds = (total - done) as f64 / rate;
            text.push_str(&format!(", {} left", duration(seconds.ceil() as u64)));
        }
    }
    text
}

fn size(bytes: u64) -> String {
    let bytes = bytes as f64;
    match bytes {
        b if b < 1e6 => format!("{:.0} kB", b / 1e3),
        b if b < 1e9 => format!("{:.1} MB", b / 1e6),
        b if b < 1e12 => format!("{:.2} GB", b / 1e9),
        b => format!("{:.2} TB", b / 1e12),
    }
}

fn duration(seconds: u64) -> String {
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(phase: Phase, done: u64, total: u64) -> Snapshot {
        Snapshot { phase, done, total }
    }

    #[test]
    fn says_what_is_known() {
        for (snapshot, rate, expected) in [
            (at(Phase::Starting, 0, 0), None, "starting"),
            (
                at(Phase::WaitingForCheckpoint, 0, 0),
                Some(0.0),
                "waiting for the checkpoint",
            ),
            (
                at(Phase::Copying, 12_340_000, 0),
                Some(5e6),
                "copying: 12.3 MB, 5.0 MB/s",
            ),
            (
                at(Phase::Copying, 11, 10),
                Some(1.0),
                "copying: 0 kB, 0 kB/s",
            ),
            (
                at(Phase::Unpacking, 0, 2_000_000_000),
                None,
                "unpacking: 0 kB of 2.00 GB, 0 %",
            ),
            (
                at(Phase::ReadingBack, 1_500_000_000, 2_000_000_000),
                Some(1e6),
                "reading back: 1.50 GB of 2.00 GB, 75 %, 1.0 MB/s, 8:20 left",
            ),
            (
                at(Phase::VerifyingWal, 1, 36_000_000_001),
                Some(1e7),
                "verifying WAL: 0 kB of 36.00 GB, 0 %, 10.0 MB/s, 1:00:00 left",
            ),
            (
                at(Phase::WaitingForWal, 1, 3),
                None,
                "waiting for WAL: 1 of 3 segments",
            ),
        ] {
            assert_eq!(text(&snapshot, rate), expected);
        }
    }

    #[test]
    fn measures_the_last_seconds_of_one_phase() {
        let begin = Instant::now();
        let second = |count| begin + Duration::from_secs(count);
        let mut meter = Meter::default();
        assert_eq!(meter.rate(at(Phase::Copying, 0, 0), begin), None);
        assert_eq!(meter.rate(at(Phase::Copying, 20, 0), second(2)), Some(10.0));
        for count in 3..=100 {
            meter.rate(at(Phase::Copying, 20 + count, 0), second(count));
        }
        let rate = meter.rate(at(Phase::Copying, 121, 0), second(101));
        assert_eq!(rate, Some(1.0), "the first seconds do not count any more");
        assert_eq!(meter.rate(at(Phase::ReadingBack, 5, 0), second(102)), None);
    }

    #[test]
    fn shows_a_line_to_persons_and_a_log_to_those_who_ask_for_it() {
        assert_eq!(Way::of(true, true, false), Way::Line);
        assert_eq!(Way::of(true, true, true), Way::Line);
        assert_eq!(Way::of(true, false, false), Way::Nothing, "--quiet");
        assert_eq!(Way::of(false, true, false), Way::Nothing);
        assert_eq!(Way::of(false, true, true), Way::Log);
    }
}
