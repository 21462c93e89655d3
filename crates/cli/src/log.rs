//! What is reported on standard error: by the libraries, and a command's failure.
//!
//! The lines look alike: in PostgreSQL's log they stand between its own lines, and have to say who
//! speaks. For programs that collect logs, each is an object in JSON instead.

use std::fmt;
use std::io::Write;
use std::sync::OnceLock;

use clap::ValueEnum;
use jiff::Timestamp;
use serde::Serialize;
use tracing::field::{Field, Visit};

use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::progress_line::StandardError;

/// What lines on standard error look like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// `walzip: warning: ...`
    #[default]
    Text,
    /// An object for each line
    Json,
}

static FORMAT: OnceLock<LogFormat> = OnceLock::new();

/// Shows events from this level on, and failures, in a format.
pub fn start(level: LevelFilter, format: LogFormat) {
    // Only the first call counts, and there is one.
    let _ = FORMAT.set(format);
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(|| StandardError)
        .with_ansi(false)
        // Of a standard error that cannot be written it would complain there, and panic.
        .log_internal_errors(false);
    match format {
        LogFormat::Text => subscriber.event_format(Line).init(),
        LogFormat::Json => subscriber.event_format(Object).init(),
    }
}

/// The flags with which another command says as much as this one, in the same format.
pub fn flags() -> Vec<&'static str> {
    let mut flags = match LevelFilter::current() {
        LevelFilter::OFF | LevelFilter::ERROR => vec!["--quiet"],
        LevelFilter::WARN => vec![],
        LevelFilter::INFO => vec!["-v"],
        _ => vec!["-vv"],
    };
    if FORMAT.get() == Some(&LogFormat::Json) {
        flags.extend(["--log-format", "json"]);
    }
    flags
}

/// Says what a service does: in the format of all lines, and where warnings are shown.
pub fn notice(message: &str) {
    if LevelFilter::current() < LevelFilter::WARN {
        return;
    }
    let text = match FORMAT.get().copied().unwrap_or_default() {
        LogFormat::Text => format!("walzip: info: {message}\n"),
        LogFormat::Json => Report {
            time: Timestamp::now(),
            level: name(Level::INFO),
            message,
            kind: None,
            code: None,
            hint: None,
        }
        .line(),
    };
    // Nobody is left to be told when standard error is closed.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// A command's failure, as it is shown.
pub struct Failure<'a> {
    /// What went wrong.
    pub message: &'a str,
    /// The name of its kind.
    pub kind: &'static str,
    /// The exit code.
    pub code: u8,
    /// What to do about it.
    pub hint: Option<&'a str>,
}

impl Failure<'_> {
    /// Shows it, in one write so that lines of several processes do not mix in PostgreSQL's log.
    pub fn show(&self) {
        let text = match FORMAT.get().copied().unwrap_or_default() {
            LogFormat::Text => self.text(),
            LogFormat::Json => Report {
                time: Timestamp::now(),
                level: "error",
                message: self.message,
                kind: Some(self.kind),
                code: Some(self.code),
                hint: self.hint,
            }
            .line(),
        };
        // Nobody is left to be told when standard error is closed.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }

    fn text(&self) -> String {
        let Failure {
            message,
            kind,
            code,
            hint,
        } = self;
        let mut text = format!("walzip: error: {message} [{kind}, exit code {code}]\n");
        if let Some(hint) = hint {
            text.push_str(&format!("walzip: hint: {hint}\n"));
        }
        text
    }
}

/// A line in JSON. The names of its fields are stable.
#[derive(Serialize)]
struct Report<'a> {
    time: Timestamp,
    level: &'static str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
}

impl Report<'_> {
    fn line(&self) -> String {
        let mut line = serde_json::to_string(self).unwrap_or_default();
        line.push('\n');
        line
    }
}

fn name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warning",
        Level::INFO => "info",
        Level::DEBUG | Level::TRACE => "debug",
    }
}

/// `walzip: warning: …`
struct Line;

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        write!(writer, "walzip: {}: ", name(*event.metadata().level()))?;
        context
            .field_format()
            .format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

/// `{"time":"...","level":"warning","message":"..."}`
struct Object;

impl<S, N> FormatEvent<S, N> for Object
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut message = Message::default();
        event.record(&mut message);
        let report = Report {
            time: Timestamp::now(),
            level: name(*event.metadata().level()),
            message: &message.0,
            kind: None,
            code: None,
            hint: None,
        };
        writer.write_str(&report.line())
    }
}

/// The message of an event, with its other fields behind it.
#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        use fmt::Write;
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}
