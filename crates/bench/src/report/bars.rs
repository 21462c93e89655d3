//! Values of one unit, drawn so that lengths do not mislead.
//!
//! A bar begins at zero and its length is its value. Where values are so far apart that the
//! smallest bars could not be seen, points on a labelled logarithmic axis are drawn instead: a
//! point has a position and no length. Parts of a whole are bars in any case, and the whole width is
//! the whole.

use std::fmt::Write;

use super::scale::{Scale, tick_words};
use super::{escaped, write_html};
use crate::spread::Spread;

/// What whiskers mean.
const OVER_RUNS: &str = "Whiskers are the range over the runs.";
const TWO_ERRORS: &str = "Whiskers are two standard errors of the sample of segments.";

/// Values of one unit, each with what was published beside it where there is such a figure.
#[derive(Clone, Debug)]
pub struct Bars {
    unit: String,
    decimals: usize,
    whole: Option<f64>,
    wall: bool,
    bars: Vec<Bar>,
}

#[derive(Clone, Debug)]
struct Bar {
    label: String,
    value: Option<f64>,
    published: Option<f64>,
    ours: bool,
    runs: Runs,
}

/// What is known of the runs that a value is of.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Runs {
    /// Nothing, or there are none.
    Unknown,
    /// It is of a single one.
    One,
    /// They lie between these, which the last says the meaning of.
    Between(f64, f64, &'static str),
}

impl Bars {
    /// Nothing yet; values are shown with so many decimals and this unit.
    pub fn new(unit: impl Into<String>, decimals: usize) -> Bars {
        Bars {
            unit: unit.into(),
            decimals,
            whole: None,
            wall: false,
            bars: Vec::new(),
        }
    }

    /// Parts of a whole, which has the whole width.
    pub fn parts_of(whole: f64, unit: impl Into<String>, decimals: usize) -> Bars {
        Bars {
            whole: Some(whole),
            ..Bars::new(unit, decimals)
        }
    }

    /// Adds a value; without one it says that nothing was measured.
    pub fn bar(&mut self, label: impl Into<String>, value: Option<f64>, published: Option<f64>) {
        self.bars.push(Bar {
            label: label.into(),
            value,
            published,
            ours: false,
            runs: Runs::Unknown,
        });
    }

    /// Adds the median of runs with their range, of walzip or another.
    pub(crate) fn of_runs(
        &mut self,
        label: impl Into<String>,
        value: Option<Spread>,
        (ours, published): (bool, Option<f64>),
    ) {
        self.bars.push(Bar {
            label: label.into(),
            value: value.map(|value| value.median),
            published,
            ours,
            runs: match value.map(|value| value.range) {
                None => Runs::Unknown,
                Some(None) => Runs::One,
                Some(Some([low, high])) => Runs::Between(low, high, OVER_RUNS),
            },
        });
    }

    /// Adds an estimate, of walzip or another, and the two standard errors around it.
    pub(crate) fn estimate(
        &mut self,
        label: impl Into<String>,
        value: Option<(f64, Option<[f64; 2]>)>,
        ours: bool,
    ) {
        self.bars.push(Bar {
            label: label.into(),
            value: value.map(|(value, _)| value),
            published: None,
            ours,
            runs: match value.and_then(|(_, range)| range) {
                None => Runs::Unknown,
                Some([low, high]) => Runs::Between(low, high, TWO_ERRORS),
            },
        });
    }

    /// These are wall times: grey where the machine was busy.
    pub fn wall(mut self) -> Bars {
        self.wall = true;
        self
    }

    /// Adds a value of walzip's.
    pub fn ours(&mut self, label: impl Into<String>, value: Option<f64>) {
        self.bar(label, value, None);
        if let Some(bar) = self.bars.last_mut() {
            bar.ours = true;
        }
    }

    pub(super) fn unit(&self) -> &str {
        &self.unit
    }

    /// Every value that is drawn.
    fn drawn(&self) -> impl Iterator<Item = f64> {
        let all = self.bars.iter().flat_map(|bar| {
            let [low, high] = match bar.runs {
                Runs::Between(low, high, _) => [Some(low), Some(high)],
                Runs::One | Runs::Unknown => [None; 2],
            };
            [bar.value, bar.published, low, high]
        });
        all.flatten()
    }

    /// What all of these can be drawn on.
    pub(super) fn scale_of<'a>(all: impl Iterator<Item = &'a Bars> + Clone) -> Scale {
        let whole = all.clone().filter_map(|bars| bars.whole).reduce(f64::max);
        Scale::of(all.flat_map(Bars::drawn), whole)
    }

    pub(super) fn write(&self, html: &mut String) {
        let scale = Bars::scale_of(std::iter::once(self));
        self.write_on(html, &scale);
        for note in self.notes(&scale) {
            write_html(html, "<p class=\"note\">", note, "</p>");
        }
    }

    pub(super) fn write_on(&self, html: &mut String, scale: &Scale) {
        let kind = match scale {
            Scale::Bars(_) => "bars",
            Scale::Points(_) => "bars points",
        };
        let wall = if self.wall { " wall" } else { "" };
        let _infallible = write!(html, "<div class=\"{kind}{wall}\">");
        for bar in &self.bars {
            let ours = if bar.ours { "label ours" } else { "label" };
            write_html(
                html,
                &format!("<span class=\"{ours}\">"),
                &bar.label,
                "</span>",
            );
            self.write_shapes(html, bar, scale);
            write_html(html, "<span class=\"value\">", &self.words(bar), "</span>");
        }
        if let Scale::Points(ticks) = scale {
            self.write_axis(html, ticks, scale);
        }
        html.push_str("</div>");
    }

    /// What has to be said of the shapes.
    pub(super) fn notes(&self, scale: &Scale) -> Vec<&'static str> {
        let runs = self.bars.iter().map(|bar| bar.runs);
        let whiskers = runs.clone().find_map(|runs| match runs {
            Runs::Between(_, _, said) => Some(said),
            Runs::One | Runs::Unknown => None,
        });
        let is_single = |runs: Runs| runs == Runs::One;
        let single = match runs.clone().any(is_single) {
            false => None,
            true if whiskers.is_some() => Some("Without whiskers: a single run."),
            true => Some("A single run of each: there is no spread."),
        };
        let published = self.bars.iter().any(|bar| bar.published.is_some());
        let published = published.then_some(match scale {
            Scale::Bars(_) => "Thin bars were published: on another machine, years ago.",
            Scale::Points(_) => "Hollow points were published: on another machine, years ago.",
        });
        let is_cut = |runs: Runs| match runs {
            Runs::Between(low, ..) => scale.percent(low).is_none(),
            Runs::One | Runs::Unknown => false,
        };
        let cut = runs.clone().any(is_cut);
        let cut = cut.then_some("A whisker from the left edge on goes down to 0.");
        whiskers
            .into_iter()
            .chain(cut)
            .chain(single)
            .chain(published)
            .collect()
    }

    fn shown(&self, value: f64) -> String {
        format!("{value:.*} {}", self.decimals, self.unit)
    }

    /// What stands beside the shapes.
    fn words(&self, bar: &Bar) -> String {
        let value = bar.value.map(|value| self.shown(value));
        let mut words = vec![value.unwrap_or_else(|| "not measured".to_owned())];
        words.extend(
            bar.published
                .map(|value| format!("{} published", self.shown(value))),
        );
        words.join("; ")
    }

    fn write_shapes(&self, html: &mut String, bar: &Bar, scale: &Scale) {
        html.push_str("<span class=\"pair\">");
        if let Scale::Points(ticks) = scale {
            for percent in ticks.iter().filter_map(|tick| scale.percent(*tick)) {
                let _infallible = write!(html, "<i style=\"left:{percent:.2}%\"></i>");
            }
        }
        let ours = if bar.ours { " ours" } else { "" };
        let published = bar
            .published
            .map(|value| (value, " published", " published"));
        let value = bar.value.map(|value| (value, ours, ""));
        for (value, kind, said) in [value, published].into_iter().flatten() {
            let tip = escaped(&format!("{}: {}{said}", bar.label, self.shown(value)));
            let (shape, position) = match scale {
                Scale::Bars(_) => ("bar", "width"),
                Scale::Points(_) => ("point", "left"),
            };
            let Some(percent) = scale.percent(value) else {
                continue;
            };
            let _infallible = write!(
                html,
                "<span class=\"{shape}{kind}\" tabindex=\"0\" style=\"{position}:{percent:.2}%\" \
                 data-tip=\"{tip}\" aria-label=\"{tip}\"></span>"
            );
        }
        if let Runs::Between(low, high, _) = bar.runs
            && let Some(to) = scale.percent(high)
        {
            // A logarithmic axis has no zero, and nothing below.
            let from = scale.percent(low).unwrap_or_default();
            let _infallible = write!(
                html,
                "<b class=\"whisker\" style=\"left:{from:.2}%;width:{:.2}%\"></b>",
                to - from
            );
        }
        html.push_str("</span>");
    }

    fn write_axis(&self, html: &mut String, ticks: &[f64], scale: &Scale) {
        html.push_str("<span class=\"label\"></span><span class=\"axis\">");
        for tick in ticks {
            let percent = scale.percent(*tick).unwrap_or_default();
            let before = format!("<span style=\"left:{percent:.2}%\">");
            write_html(html, &before, &tick_words(*tick), "</span>");
        }
        html.push_str("</span>");
        let unit = format!("{}, logarithmic axis", self.unit);
        write_html(html, "<span class=\"value note\">", &unit, "</span>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(bars: &Bars) -> String {
        let mut html = String::new();
        bars.write(&mut html);
        html
    }

    /// Of each bar, in percent.
    fn widths(html: &str) -> Vec<f64> {
        let bars = html.split("width:").skip(1);
        bars.map(|rest| rest.split('%').next().unwrap().parse().unwrap())
            .collect()
    }

    #[test]
    fn a_bar_is_as_long_as_its_value() {
        let mut bars = Bars::new("s", 1);
        for value in [1.0, 10.0, 50.0, 0.0] {
            bars.bar("a", Some(value), None);
        }
        let html = html(&bars);
        assert_eq!(widths(&html), [2.0, 20.0, 100.0, 0.0]);
        assert!(!html.contains("logarithmic"), "{html}");
    }

    #[test]
    fn values_far_apart_are_points_on_a_labelled_axis_and_never_bars() {
        let mut bars = Bars::new("s", 1);
        bars.bar("a", Some(1.0), Some(10.0));
        bars.bar("none", Some(0.0), None);
        bars.ours("walzip", Some(1000.0));
        let html = html(&bars);
        assert_eq!(widths(&html), [] as [f64; 0]);
        assert!(!html.contains("class=\"bar\"") && html.contains("s, logarithmic axis"));
        let position = |percent| format!("style=\"left:{percent}%\" data-tip=");
        for percent in ["0.00", "33.33", "100.00"] {
            assert!(html.contains(&position(percent)), "{html}");
        }
        // What has no position on such an axis is said.
        assert_eq!(html.matches("data-tip=").count(), 3);
        assert!(html.contains(">0.0 s</span>"), "{html}");
        assert!(html.contains("<span style=\"left:33.33%\">10</span>"));
    }

    #[test]
    fn runs_have_whiskers_where_they_lie_and_a_single_one_is_called_one() {
        let of = |values: &[f64]| crate::spread::spread(values.iter().copied());
        let mut bars = Bars::new("s", 1);
        bars.of_runs("a", of(&[40.0, 50.0, 100.0]), (false, None));
        bars.of_runs("none", None, (false, None));
        let drawn = html(&bars);
        assert!(
            drawn.contains("class=\"bar\" tabindex=\"0\" style=\"width:50.00%\""),
            "{drawn}"
        );
        assert!(
            drawn.contains("style=\"left:40.00%;width:60.00%\""),
            "{drawn}"
        );
        assert!(drawn.contains("Whiskers are") && drawn.contains("not measured"));
        let mut single = Bars::new("s", 1);
        single.of_runs("a", of(&[40.0]), (true, None));
        let drawn = html(&single);
        assert!(drawn.contains("A single run of each") && !drawn.contains("whisker"));
    }

    #[test]
    fn a_whisker_down_to_zero_begins_where_a_logarithmic_axis_does() {
        let mut bars = Bars::new("MB", 1);
        bars.bar("a", Some(1.0), None);
        bars.bar("b", Some(100.0), None);
        bars.bars[1].runs = Runs::Between(-10.0, 100.0, "Whiskers are errors.");
        let drawn = html(&bars);
        let whisker = "class=\"whisker\" style=\"left:0.00%;width:100.00%\"";
        assert!(drawn.contains(whisker), "{drawn}");
        assert!(drawn.contains("goes down to 0"), "{drawn}");
    }

    #[test]
    fn parts_of_a_whole_are_bars_and_the_whole_is_the_whole_width() {
        let mut bars = Bars::parts_of(100.0, "%", 1);
        bars.bar("images", Some(80.0), None);
        bars.bar("headers", Some(0.1), None);
        assert_eq!(widths(&html(&bars)), [80.0, 0.1]);
    }
}
