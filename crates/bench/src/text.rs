//! Values as text: numbers with nouns, bytes in units, values for CSV.

/// Bytes as the megabytes of disks, a million bytes each.
pub(crate) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// A number with its noun.
pub(crate) fn counted(number: usize, noun: &str) -> String {
    if number == 1 {
        format!("1 {noun}")
    } else {
        format!("{number} {noun}s")
    }
}

/// A value of a CSV line.
pub(crate) fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// Bytes in the unit that a person would use.
pub(crate) fn bytes(bytes: f64) -> String {
    match bytes.abs() {
        b if b < 1e3 => format!("{bytes:.0} bytes"),
        b if b < 1e6 => format!("{:.1} KB", bytes / 1e3),
        b if b < 1e9 => format!("{:.1} MB", bytes / 1e6),
        b if b < 1e12 => format!("{:.2} GB", bytes / 1e9),
        _ => format!("{:.2} TB", bytes / 1e12),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_with_a_comma_or_a_quote_is_quoted() {
        assert_eq!(quoted("oltp-mixed"), "oltp-mixed");
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("say \"no\""), "\"say \"\"no\"\"\"");
    }
}
