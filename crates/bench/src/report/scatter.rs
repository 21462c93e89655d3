//! Two values of each of several things as points, with the line of those that no other beats in
//! both.
//!
//! Time is across, on a logarithmic axis with ticks; size is up, from zero. Left and down is better.

use std::fmt::Write;

use super::scale::{round_step, tick_words, ticks};
use super::{escaped, write_html};

/// Points further right than this have their names to the left.
const LEFT_FROM_PERCENT: f64 = 60.0;

/// Points by two values, of which less is better.
#[derive(Clone, Debug)]
pub struct Scatter {
    across: String,
    up: String,
    points: Vec<Point>,
    wall: bool,
}

#[derive(Clone, Debug)]
struct Point {
    label: String,
    across: f64,
    up: f64,
    ours: bool,
}

impl Scatter {
    /// Nothing yet; these are the units.
    pub fn new(across: impl Into<String>, up: impl Into<String>) -> Scatter {
        Scatter {
            across: across.into(),
            up: up.into(),
            points: Vec::new(),
            wall: false,
        }
    }

    /// One of the values is a wall time: grey where the machine was busy.
    pub fn wall(mut self) -> Scatter {
        self.wall = true;
        self
    }

    /// Adds a point, of walzip or another. What has no place on the axes is left out.
    pub fn point(&mut self, label: impl Into<String>, (across, up): (f64, f64), ours: bool) {
        if across > 0.0 && up >= 0.0 {
            self.points.push(Point {
                label: label.into(),
                across,
                up,
                ours,
            });
        }
    }

    /// Whether nothing else is as good in both and better in one.
    fn is_best(&self, of: &Point) -> bool {
        let beats = |other: &Point| {
            other.across <= of.across
                && other.up <= of.up
                && (other.across < of.across || other.up < of.up)
        };
        !self.points.iter().any(beats)
    }

    pub(super) fn write(&self, html: &mut String) {
        let range = |value: fn(&Point) -> f64| {
            let values = self.points.iter().map(value);
            values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
                (low.min(value), high.max(value))
            })
        };
        let (low, high) = range(|point| point.across);
        let (_, highest) = range(|point| point.up);
        if self.points.is_empty() || highest <= 0.0 {
            write_html(html, "<p>", "Nothing was measured.", "</p>");
            return;
        }
        let marks = ticks(low, high * 1.0001);
        let (first, last) = (marks[0], marks[marks.len() - 1]);
        let left = |value: f64| 100.0 * (value / first).ln() / (last / first).ln();
        let step = round_step(highest);
        let top = (highest / step).ceil() * step;
        let bottom = |value: f64| 100.0 * value / top;
        html.push_str(match self.wall {
            true => "<div class=\"scatter wall\"><div class=\"field\">",
            false => "<div class=\"scatter\"><div class=\"field\">",
        });
        for mark in &marks {
            let before = format!(
                "<i class=\"across\" style=\"left:{:.2}%\"><span>",
                left(*mark)
            );
            write_html(html, &before, &tick_words(*mark), "</span></i>");
        }
        let mut mark = 0.0;
        while mark <= top * 1.0001 {
            let before = format!(
                "<i class=\"up\" style=\"bottom:{:.2}%\"><span>",
                bottom(mark)
            );
            write_html(html, &before, &format!("{mark}"), "</span></i>");
            mark += step;
        }
        self.write_line(html, &left, &bottom);
        for point in &self.points {
            self.write_point(html, point, (left(point.across), bottom(point.up)));
        }
        let axes = format!("across: {}, logarithmic axis; up: {}", self.across, self.up);
        write_html(html, "</div><p class=\"note\">", &axes, ".</p></div>\n");
    }

    /// The dashed line through the best.
    fn write_line(&self, html: &mut String, left: &dyn Fn(f64) -> f64, up: &dyn Fn(f64) -> f64) {
        let mut best: Vec<&Point> = self.points.iter().filter(|of| self.is_best(of)).collect();
        best.sort_by(|a, b| a.across.total_cmp(&b.across));
        let places: Vec<String> = best
            .iter()
            .map(|point| format!("{:.2},{:.2}", left(point.across), 100.0 - up(point.up)))
            .collect();
        let _infallible = write!(
            html,
            "<svg viewBox=\"0 0 100 100\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
             <polyline points=\"{}\"/></svg>",
            places.join(" ")
        );
    }

    fn write_point(&self, html: &mut String, point: &Point, (left, bottom): (f64, f64)) {
        let (across, up) = (point.across, point.up);
        let tip = format!(
            "{}: {across:.2} {}, {up:.1} {}",
            point.label, self.across, self.up
        );
        let tip = escaped(&tip);
        let ours = if point.ours { " ours" } else { "" };
        let side = if left > LEFT_FROM_PERCENT {
            " to-left"
        } else {
            ""
        };
        let _infallible = write!(
            html,
            "<span class=\"point{ours}{side}\" tabindex=\"0\" style=\"left:{left:.2}%;bottom:{bottom:.2}%\" \
             data-tip=\"{tip}\" aria-label=\"{tip}\">"
        );
        if point.ours || self.is_best(point) {
            write_html(html, "<b>", &point.label, "</b>");
        }
        html.push_str("</span>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Scatter {
        let mut scatter = Scatter::new("s", "MB");
        scatter.point("lz4:1", (1.0, 100.0), false);
        scatter.point("gzip:1", (4.0, 90.0), false);
        scatter.point("zstd:13", (100.0, 40.0), false);
        scatter.point("walzip", (3.0, 50.0), true);
        scatter
    }

    #[test]
    fn the_line_goes_through_what_no_other_beats_in_both() {
        let scatter = example();
        let best = scatter.points.iter().filter(|point| scatter.is_best(point));
        let best: Vec<&str> = best.map(|point| point.label.as_str()).collect();
        assert_eq!(best, ["lz4:1", "zstd:13", "walzip"]);
        let mut html = String::new();
        scatter.write(&mut html);
        // From 1 to 200 across, from 0 to 100 up.
        assert!(
            html.contains("<polyline points=\"0.00,0.00 20.74,50.00 86.92,60.00\"/>"),
            "{html}"
        );
        assert!(html.contains("<b>walzip</b>") && !html.contains("<b>gzip:1</b>"));
        assert!(html.contains("gzip:1: 4.00 s, 90.0 MB"));
        assert!(html.contains("across: s, logarithmic axis; up: MB."));
    }

    #[test]
    fn what_has_no_place_is_left_out_and_nothing_is_said() {
        let mut scatter = Scatter::new("s", "MB");
        scatter.point("none", (0.0, 1.0), false);
        let mut html = String::new();
        scatter.write(&mut html);
        assert!(html.contains("Nothing was measured."));
    }
}
