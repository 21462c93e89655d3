//! Small multiples: several charts of bars side by side, each under its title.
//!
//! Charts of one unit share a scale, so that lengths compare from panel to panel. Charts of
//! different units have scales of their own.

use super::bars::Bars;
use super::write_html;

/// Charts side by side.
#[derive(Clone, Debug, Default)]
pub struct Panels {
    panels: Vec<(String, Bars)>,
}

impl Panels {
    /// Adds a chart under a title.
    pub fn panel(mut self, title: impl Into<String>, bars: Bars) -> Panels {
        self.panels.push((title.into(), bars));
        self
    }

    pub(super) fn write(&self, html: &mut String) {
        let mut notes: Vec<&str> = Vec::new();
        html.push_str("<div class=\"panels\">");
        for (title, bars) in &self.panels {
            let same = self.panels.iter().map(|(_, other)| other);
            let scale = Bars::scale_of(same.filter(|other| other.unit() == bars.unit()));
            html.push_str("<div class=\"panel\">");
            write_html(html, "<h3>", title, "</h3>");
            bars.write_on(html, &scale);
            html.push_str("</div>");
            for note in bars.notes(&scale) {
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
        }
        html.push_str("</div>\n");
        for note in notes {
            write_html(html, "<p class=\"note\">", note, "</p>");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(unit: &str, value: f64) -> Bars {
        let spread = crate::spread::spread([value * 0.5, value, value].into_iter());
        let mut bars = Bars::new(unit, 1);
        bars.of_runs("a", spread, (false, None));
        bars
    }

    #[test]
    fn panels_of_one_unit_share_a_scale_and_say_once_what_holds_for_all() {
        let panels = Panels::default()
            .panel("xz", bars("MB", 4.0))
            .panel("gzip", bars("MB", 8.0))
            .panel("time", bars("s", 2.0));
        let mut html = String::new();
        panels.write(&mut html);
        for width in ["width:50.00%\"", "width:100.00%\""] {
            assert!(html.contains(width), "{html}");
        }
        assert_eq!(html.matches("width:100.00%\"").count(), 2);
        assert_eq!(html.matches("Whiskers are").count(), 1);
        assert!(html.contains("<h3>xz</h3>"));
    }
}
