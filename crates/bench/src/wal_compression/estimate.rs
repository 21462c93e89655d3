//! A value that some of many segments stand for, and how far it can be trusted.

use crate::report::Cell;

/// How many standard errors are stated.
const STANDARD_ERRORS: f64 = 2.0;

/// A value from some or all of the segments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    pub(super) value: f64,
    /// Two standard errors as a part of the value: zero where nothing was left out, none where one
    /// of several stands for all.
    pub(super) uncertainty: Option<f64>,
}

impl Estimate {
    /// A value that no sample stands for.
    pub(super) fn exact(value: f64) -> Estimate {
        Estimate {
            value,
            uncertainty: Some(0.0),
        }
    }

    /// The same in another unit.
    pub(super) fn per(self, unit: f64) -> Estimate {
        Estimate {
            value: self.value / unit,
            ..self
        }
    }

    /// One relative to another: their errors do not depend on each other.
    pub(super) fn over(self, other: Estimate) -> Estimate {
        let both = self.uncertainty.zip(other.uncertainty);
        Estimate {
            value: self.value / other.value,
            uncertainty: both.map(|(own, other)| own.hypot(other)),
        }
    }

    /// From where to where it may be; nothing where that is one value or not known.
    pub(super) fn range(self) -> Option<[f64; 2]> {
        let error = self.value * self.uncertainty.filter(|part| *part > 0.0)?;
        Some([(self.value - error).max(0.0), self.value + error])
    }

    /// In words.
    pub(super) fn text(self, decimals: usize) -> String {
        let Estimate { value, uncertainty } = self;
        match uncertainty {
            None => format!("{value:.decimals$} \u{b1} ?"),
            Some(0.0) => format!("{value:.decimals$}"),
            Some(part) => format!("{value:.decimals$} \u{b1} {:.decimals$}", value * part),
        }
    }

    /// In a table.
    pub(super) fn cell(of: Option<Estimate>, decimals: usize) -> Cell {
        of.map_or_else(Cell::none, |of| Cell::said(of.value, of.text(decimals)))
    }
}

/// Two standard errors of a mean, as a part of it, where some of `there` were taken as if at random.
pub(super) fn uncertainty(values: &[f64], there: u64) -> Option<f64> {
    let count = values.len() as f64;
    if values.len() as u64 >= there && !values.is_empty() {
        return Some(0.0);
    }
    if values.len() < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let left_out = 1.0 - count / there as f64;
    let error = (squares / (count - 1.0) / count * left_out).sqrt();
    (mean > 0.0).then(|| STANDARD_ERRORS * error / mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_have_no_error_and_one_of_several_has_one_that_nobody_knows() {
        assert_eq!(uncertainty(&[1.0, 3.0], 2), Some(0.0));
        assert_eq!(uncertainty(&[1.0], 2), None);
        assert_eq!(uncertainty(&[], 0), None);
        // Variance 2, of the mean 1, half of it left out; two standard errors of a mean of 2.
        let part = uncertainty(&[1.0, 3.0], 4).unwrap();
        assert!((part - 0.5_f64.sqrt()).abs() < 1e-9, "{part}");
    }

    #[test]
    fn errors_are_told_with_what_they_are_of() {
        let of = |value, uncertainty| Estimate { value, uncertainty };
        assert_eq!(of(2.0, Some(0.1)).text(2), "2.00 \u{b1} 0.20");
        assert_eq!(of(2.0, Some(0.0)).text(2), "2.00");
        assert_eq!(of(2.0, None).text(2), "2.00 \u{b1} ?");
        let both = of(2.0, Some(0.03)).over(of(4.0, Some(0.04)));
        assert!(
            (both.value, both.uncertainty) == (0.5, Some(0.05)),
            "{both:?}"
        );
        assert_eq!(of(2.0, None).over(Estimate::exact(1.0)).uncertainty, None);
        assert_eq!(of(2.0, Some(0.5)).range(), Some([1.0, 3.0]));
        assert_eq!(Estimate::exact(2.0).range(), None);
    }
}
