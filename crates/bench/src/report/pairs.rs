//! Two values of each of several things on one axis: a hollow dot, a filled one, and a line between
//! them that is as long as they are apart.

use std::fmt::Write;

use super::scale::{Scale, tick_words};
use super::{escaped, write_html};
use crate::spread::Spread;

/// Two values of each of several things.
#[derive(Clone, Debug)]
pub struct Pairs {
    unit: &'static str,
    decimals: usize,
    /// What the hollow dots and the filled ones are of.
    of: [String; 2],
    pairs: Vec<Pair>,
    wall: bool,
}

#[derive(Clone, Debug)]
struct Pair {
    label: String,
    values: [Option<Spread>; 2],
    ours: bool,
}

impl Pairs {
    /// Nothing yet; hollow dots and filled ones are of these.
    pub fn new(unit: &'static str, decimals: usize, of: [String; 2]) -> Pairs {
        Pairs {
            unit,
            decimals,
            of,
            pairs: Vec::new(),
            wall: false,
        }
    }

    /// These are wall times: grey where the machine was busy.
    pub fn wall(mut self) -> Pairs {
        self.wall = true;
        self
    }

    /// Adds two values, of walzip or another.
    pub(crate) fn pair(
        &mut self,
        label: impl Into<String>,
        values: [Option<Spread>; 2],
        ours: bool,
    ) {
        self.pairs.push(Pair {
            label: label.into(),
            values,
            ours,
        });
    }

    pub(super) fn write(&self, html: &mut String) {
        let values = self.pairs.iter().flat_map(|pair| pair.values).flatten();
        let drawn = values.flat_map(|value| {
            let [low, high] = value.range.unwrap_or([value.median; 2]);
            [low, value.median, high]
        });
        let (scale, ticks) = Scale::of(drawn, None).with_ticks();
        let wall = if self.wall { " wall" } else { "" };
        let _infallible = write!(html, "<div class=\"bars points pairs{wall}\">");
        for pair in &self.pairs {
            let label = if pair.ours { "label ours" } else { "label" };
            write_html(
                html,
                &format!("<span class=\"{label}\">"),
                &pair.label,
                "</span>",
            );
            self.write_pair(html, pair, (&scale, &ticks));
            write_html(html, "<span class=\"value\">", &self.words(pair), "</span>");
        }
        self.write_axis(html, &scale, &ticks);
        html.push_str("</div>");
        let [hollow, filled] = &self.of;
        let mut note = format!("Hollow dots: {hollow}. Filled dots: {filled}.");
        let spreads: Vec<Spread> = self
            .pairs
            .iter()
            .flat_map(|pair| pair.values)
            .flatten()
            .collect();
        note.push_str(match spreads.iter().any(|value| value.range.is_some()) {
            true => " Bands are the range over the runs.",
            false if spreads.is_empty() => "",
            false => " A single run of each: there is no spread.",
        });
        write_html(html, "<p class=\"note\">", &note, "</p>");
    }

    /// What stands beside the dots.
    fn words(&self, pair: &Pair) -> String {
        let shown = |value: Option<Spread>| match value {
            Some(value) => format!("{:.*}", self.decimals, value.median),
            None => "\u{2013}".to_owned(),
        };
        match pair.values {
            [None, None] => "not measured".to_owned(),
            [first, second] => format!("{} / {} {}", shown(first), shown(second), self.unit),
        }
    }

    fn write_pair(&self, html: &mut String, pair: &Pair, (scale, ticks): (&Scale, &[f64])) {
        html.push_str("<span class=\"pair\">");
        for percent in ticks.iter().filter_map(|tick| scale.percent(*tick)) {
            let _infallible = write!(html, "<i style=\"left:{percent:.2}%\"></i>");
        }
        let ours = if pair.ours { " ours" } else { "" };
        let at = |value: Option<Spread>| scale.percent(value?.median);
        if let [Some(one), Some(other)] = pair.values.map(at) {
            let (from, to) = (one.min(other), one.max(other));
            let width = to - from;
            let _infallible = write!(
                html,
                "<b class=\"join{ours}\" style=\"left:{from:.2}%;width:{width:.2}%\"></b>"
            );
        }
        let kinds = [" hollow", ""];
        for ((value, kind), of) in pair.values.into_iter().zip(kinds).zip(&self.of) {
            let Some(value) = value else { continue };
            if let Some([from, to]) = value.range.map(|range| range.map(|end| scale.percent(end)))
                && let (Some(from), Some(to)) = (from, to)
            {
                let width = to - from;
                let _infallible = write!(
                    html,
                    "<b class=\"band{ours}\" style=\"left:{from:.2}%;width:{width:.2}%\"></b>"
                );
            }
            let Some(percent) = scale.percent(value.median) else {
                continue;
            };
            let median = format!("{:.*} {}", self.decimals, value.median, self.unit);
            let tip = escaped(&format!("{}, {of}: {median}", pair.label));
            let _infallible = write!(
                html,
                "<span class=\"point{kind}{ours}\" tabindex=\"0\" style=\"left:{percent:.2}%\" \
                 data-tip=\"{tip}\" aria-label=\"{tip}\"></span>"
            );
        }
        html.push_str("</span>");
    }

    fn write_axis(&self, html: &mut String, scale: &Scale, ticks: &[f64]) {
        html.push_str("<span class=\"label\"></span><span class=\"axis\">");
        for tick in ticks {
            let percent = scale.percent(*tick).unwrap_or_default();
            let before = format!("<span style=\"left:{percent:.2}%\">");
            write_html(html, &before, &tick_words(*tick), "</span>");
        }
        html.push_str("</span>");
        let unit = match scale {
            Scale::Bars(_) => self.unit.to_owned(),
            Scale::Points(_) => format!("{}, logarithmic axis", self.unit),
        };
        write_html(html, "<span class=\"value note\">", &unit, "</span>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spread::spread;

    #[test]
    fn dots_lie_at_their_values_and_the_line_between_them_is_as_long_as_they_are_apart() {
        let of = |values: &[f64]| spread(values.iter().copied());
        let mut pairs = Pairs::new("s", 1, ["16 MB".to_owned(), "64 MB".to_owned()]);
        pairs.pair("scp", [of(&[6.0, 8.0, 8.0]), of(&[2.0])], false);
        pairs.pair("walzip", [of(&[4.0]), None], true);
        pairs.pair("none", [None, None], false);
        let mut html = String::new();
        pairs.write(&mut html);
        for part in [
            "<b class=\"join\" style=\"left:25.00%;width:75.00%\">",
            "<b class=\"band\" style=\"left:75.00%;width:25.00%\">",
            "class=\"point hollow\" tabindex=\"0\" style=\"left:100.00%\"",
            "class=\"point hollow ours\" tabindex=\"0\" style=\"left:50.00%\"",
            "8.0 / 2.0 s",
            "4.0 / \u{2013} s",
            "not measured",
            "Hollow dots: 16 MB. Filled dots: 64 MB. Bands are the range over the runs.",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert_eq!(html.matches("class=\"join").count(), 1);
        assert!(!html.contains("logarithmic"));
    }
}
