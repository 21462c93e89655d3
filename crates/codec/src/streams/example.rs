//! The worked examples of docs/format: what the code makes of them is what the pages say.

use std::fmt::Write as _;
use std::fs;

use super::StreamWriter;

/// Bytes of a stream that an example shows.
const SHOWN_MAX: usize = 24;

/// Compares all streams of a coder, a line each, with an example of a page.
pub fn assert_is_on_page(page: &str, coder: &StreamWriter) {
    let path = format!("{}/../../docs/format/{page}", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut example = String::from("```text\n");
    for (kind, bytes) in coder.filled() {
        let shown = bytes.iter().take(SHOWN_MAX);
        let hex: Vec<String> = shown.map(|byte| format!("{byte:02X}")).collect();
        let rest = match bytes.len() {
            ..=SHOWN_MAX => String::new(),
            len => format!(" ... {len} bytes"),
        };
        writeln!(example, "{kind:?}: {}{rest}", hex.join(" ")).expect("a string takes all");
    }
    example += "```";
    assert!(text.contains(&example), "{page} has no\n{example}");
}
