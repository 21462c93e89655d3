//! Several runs in two numbers.

/// The median of several runs, and how far apart they are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    /// The median.
    pub(crate) median: f64,
    /// Half the range relative to the median; none with a single run.
    pub(crate) half_range: Option<f64>,
    /// The least and the largest; none with a single run.
    pub(crate) range: Option<[f64; 2]>,
}

/// None without a value.
pub(crate) fn spread(values: impl Iterator<Item = f64>) -> Option<Spread> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let (first, last) = (*values.first()?, *values.last()?);
    let middle = values.len() / 2;
    let median = match values.len() % 2 {
        0 => f64::midpoint(values[middle - 1], values[middle]),
        _ => values[middle],
    };
    let half_range = (values.len() > 1 && median > 0.0).then(|| (last - first) / 2.0 / median);
    let range = (values.len() > 1).then_some([first, last]);
    Some(Spread {
        median,
        half_range,
        range,
    })
}

/// The widest of some spreads, to be said after other words.
pub(crate) fn widest_in_words(spreads: impl Iterator<Item = f64>) -> String {
    match spreads.reduce(f64::max) {
        Some(widest) => format!(", spread at most {:.0}\u{a0}%", widest * 100.0),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_run_has_no_spread_and_two_have_their_mean() {
        assert_eq!(spread([].into_iter()), None);
        let one = spread([2.0].into_iter()).unwrap();
        assert_eq!((one.median, one.half_range), (2.0, None));
        let two = spread([3.0, 1.0].into_iter()).unwrap();
        assert_eq!((two.median, two.half_range), (2.0, Some(0.5)));
        let three = spread([9.0, 1.0, 2.0].into_iter()).unwrap();
        assert_eq!((three.median, three.half_range), (2.0, Some(2.0)));
    }
}
