//! How values become positions: lengths from zero, or points on a logarithmic axis.

/// Values further apart than this are drawn as points.
const LENGTHS_RANGE_MAX: f64 = 50.0;
/// How many ticks a linear axis has above zero.
const LINEAR_TICKS: f64 = 4.0;

/// How values become positions.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scale {
    /// From zero; this value has the whole width.
    Bars(f64),
    /// Points between the first and the last tick of a logarithmic axis.
    Points(Vec<f64>),
}

impl Scale {
    /// What values can be drawn on. Parts of a whole are drawn from zero in any case.
    pub(super) fn of(values: impl Iterator<Item = f64>, whole: Option<f64>) -> Scale {
        let above_zero = values.filter(|value| *value > 0.0);
        let (low, high) = above_zero.fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        match whole {
            Some(whole) => Scale::Bars(whole.max(high)),
            None if high > low * LENGTHS_RANGE_MAX => Scale::Points(ticks(low, high)),
            None if high > 0.0 => Scale::Bars(high),
            None => Scale::Bars(1.0),
        }
    }

    /// The percentage of the width at which a value is, if it has a position.
    pub(super) fn percent(&self, value: f64) -> Option<f64> {
        match self {
            Scale::Bars(full) => Some(100.0 * value.max(0.0) / full),
            Scale::Points(_) if value <= 0.0 => None,
            Scale::Points(ticks) => {
                let (low, high) = (*ticks.first()?, *ticks.last()?);
                Some(100.0 * (value / low).ln() / (high / low).ln())
            }
        }
    }

    /// The same with an end that is a tick, and its ticks.
    pub(super) fn with_ticks(self) -> (Scale, Vec<f64>) {
        match self {
            Scale::Points(ticks) => (Scale::Points(ticks.clone()), ticks),
            Scale::Bars(high) => {
                let step = round_step(high);
                let steps = (high / step).ceil() as u32;
                let ticks = (0..=steps).map(|tick| f64::from(tick) * step).collect();
                (Scale::Bars(f64::from(steps) * step), ticks)
            }
        }
    }
}

/// 1, 2 or 5 of a power of ten, so that a few of them reach a value.
pub(super) fn round_step(highest: f64) -> f64 {
    let rough = highest / LINEAR_TICKS;
    let unit = 10_f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * unit);
    steps
        .into_iter()
        .find(|step| *step >= rough)
        .unwrap_or(rough)
}

/// Powers of ten, or 1, 2 and 5 of each where these are few, around all values.
pub(super) fn ticks(low: f64, high: f64) -> Vec<f64> {
    let all = |digits: &[f64]| -> Vec<f64> {
        let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
        powers
            .flat_map(|power| digits.iter().map(move |digit| digit * 10_f64.powi(power)))
            .collect()
    };
    let around = |all: Vec<f64>| -> Vec<f64> {
        let first = all.iter().rposition(|tick| *tick <= low).unwrap_or(0);
        let last = all.iter().position(|tick| *tick >= high);
        all[first..=last.unwrap_or(all.len() - 1)].to_vec()
    };
    let fine = around(all(&[1.0, 2.0, 5.0]));
    match fine.len() <= 9 {
        true => fine,
        false => around(all(&[1.0])),
    }
}

/// A tick with as many decimals as it needs.
pub(super) fn tick_words(tick: f64) -> String {
    // Ticks have two digits that are not zero at most.
    let decimals = (0..12).find(|decimals| {
        let unit = 10_f64.powi(-decimals);
        ((tick / unit).round() * unit - tick).abs() <= tick * 1e-6
    });
    format!("{tick:.*}", decimals.unwrap_or_default() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_around_all_values() {
        assert_eq!(ticks(1.0, 1000.0), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(ticks(0.9, 60.0)[..2], [0.5, 1.0]);
        assert_eq!(ticks(0.9, 60.0).last(), Some(&100.0));
        let words = [0.05, 200.0, 2.5, 0.0, 0.015, 3.0 * 0.005].map(tick_words);
        assert_eq!(words, ["0.05", "200", "2.5", "0", "0.015", "0.015"]);
        assert_eq!([round_step(7.0), round_step(100.0)], [2.0, 50.0]);
    }

    #[test]
    fn a_linear_axis_ends_at_a_tick() {
        let (scale, ticks) = Scale::of([3.0, 7.0].into_iter(), None).with_ticks();
        assert_eq!(ticks, [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(scale.percent(4.0), Some(50.0));
        let (scale, ticks) = Scale::of([1.0, 900.0].into_iter(), None).with_ticks();
        assert_eq!(ticks, [1.0, 10.0, 100.0, 1000.0]);
        assert!((scale.percent(100.0).unwrap() - 200.0 / 3.0).abs() < 1e-9);
    }
}
