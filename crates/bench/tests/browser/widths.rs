//! What is drawn at the width of a phone and of a desk, light and dark.

use std::path::{Path, PathBuf};

use crate::devtools::Browser;
use crate::pages;

const WIDTHS: [(u32, u32); 2] = [(390, 844), (1280, 900)];

/// Elements with text of their own that reach beyond the page and are in nothing that scrolls.
const CUT_OFF: &str = "[...document.querySelectorAll('body *')].filter((one) => {
    const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    const box = one.getBoundingClientRect();
    if (!own || !box.width || one.closest('.scroll, pre, [hidden], details:not([open])')) return false;
    return box.left < -1 || box.right > window.innerWidth + 1;
  }).map((one) => one.textContent.trim().slice(0, 40)).join(' | ')";

/// What scrolls sideways and does not show that there is more.
const UNSIGNED: &str = "[...document.querySelectorAll('.scroll')].filter((one) =>
    one.scrollWidth > one.clientWidth + 1 && !getComputedStyle(one).backgroundImage.includes('radial')).length";

/// Labels, shapes and values of bars, and names of points, that lie on each other.
const ON_EACH_OTHER: &str = "(() => {
    const boxes = [...document.querySelectorAll('.bars')].flatMap((bars) => {
      const of = (kind) => [...bars.querySelectorAll(':scope > .' + kind)].map((one) => one.getBoundingClientRect());
      return ['label', 'pair', 'value'].flatMap(of).filter((box) => box.width && box.height);
    });
    const names = [...document.querySelectorAll('.scatter b')].filter((one) => getComputedStyle(one).visibility === 'visible');
    boxes.push(...names.map((one) => one.getBoundingClientRect()));
    const inner = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
    return boxes.filter((a, at) => boxes.some((b, other) => other > at && inner(a, b))).length;
  })()";

fn looks_right(name: &str, page: &Path) {
    let mut browser = Browser::open(page);
    for (width, height) in WIDTHS {
        browser.resize(width, height);
        for scheme in ["light", "dark"] {
            browser.show_as("screen", scheme);
            let wide = browser.number("document.documentElement.scrollWidth");
            assert!(wide <= f64::from(width), "{name}: {wide} of {width}");
            assert_eq!(browser.text(CUT_OFF), "", "{name} at {width}");
            assert_eq!(browser.number(UNSIGNED), 0.0, "{name} at {width}");
            assert_eq!(browser.number(ON_EACH_OTHER), 0.0, "{name} at {width}");
            let picture = browser.picture();
            picture.keep(&format!("{name}-{width}-{scheme}"));
            assert!(picture.covered() > 0.01, "{name}: {}", picture.covered());
            match scheme {
                "light" => assert!(picture.brightness() > 190.0, "{name}"),
                _ => assert!(picture.brightness() < 90.0, "{name}"),
            }
        }
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
    assert_eq!(browser.requests().len(), 1);
}

#[test]
fn nothing_is_cut_off_without_a_sign_or_lies_on_something_else() {
    looks_right("comparison", &pages::comparison().path);
    looks_right("tables", &pages::tables().path);
    looks_right("segments", &pages::segments().path);
    looks_right("panels", &pages::panels().path);
    looks_right("index", &pages::index().path);
    looks_right("busy", &pages::busy().path);
}

/// Those of every experiment, as large as they are: the pages that docs/results has.
#[test]
fn nothing_is_cut_off_in_the_pages_of_real_results() {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results");
    let found = std::fs::read_dir(results).expect("results");
    let pages = found.flatten().map(|entry| entry.path());
    let pages = pages.filter(|path| path.extension().is_some_and(|kind| kind == "html"));
    // Those of before pages had an answer are as they were made.
    let is_of_today = |path: &PathBuf| {
        let html = std::fs::read_to_string(path).expect("a page");
        html.contains("<p id=\"answer\">")
    };
    let mut pages: Vec<PathBuf> = pages.filter(is_of_today).collect();
    pages.sort();
    assert!(pages.len() > 6, "{pages:?}");
    for page in pages {
        let name = page.file_stem().expect("a name").to_string_lossy();
        looks_right(&format!("results-{name}"), &page);
    }
}

#[test]
fn the_answer_is_drawn_first_and_larger_and_the_measurements_are_in_the_page() {
    for page in [pages::comparison(), pages::segments()] {
        let mut browser = Browser::open(&page.path);
        browser.resize(1280, 900);
        let top = |browser: &mut Browser, of: &str| {
            let place = format!("document.querySelector('{of}').getBoundingClientRect().top");
            browser.number(&place)
        };
        assert!(top(&mut browser, "#answer") < top(&mut browser, "section"));
        let size = |of: &str| {
            format!("parseFloat(getComputedStyle(document.querySelector('{of}')).fontSize)")
        };
        assert!(browser.number(&size("#answer")) > browser.number(&size(".note")));
        let csv = browser.text("document.getElementById('csv').textContent");
        assert!(
            csv.starts_with("# walzip bench ") && csv.lines().count() > 4,
            "{csv}"
        );
        browser.click("#data-section summary");
        let height = "document.getElementById('csv').getBoundingClientRect().height";
        assert!(browser.number(height) > 50.0);
        browser.click("#save-csv");
        assert_eq!(browser.complaints(), Vec::<String>::new());
    }
}

#[test]
fn a_busy_machine_is_said_at_the_top_and_what_rests_on_wall_times_is_grey() {
    let page = pages::busy();
    let mut browser = Browser::open(&page.path);
    browser.resize(1280, 900);
    let above = "document.getElementById('busy').getBoundingClientRect().top \
        < document.querySelector('section').getBoundingClientRect().top";
    assert_eq!(browser.value(above), true);
    let opacity =
        |of: &str| format!("parseFloat(getComputedStyle(document.querySelector('{of}')).opacity)");
    assert!(browser.number(&opacity("td.wall")) < 0.6);
    assert!(browser.number(&opacity(".bars.wall")) < 0.6);
    assert_eq!(browser.number(&opacity("td:nth-child(3)")), 1.0);
    assert_eq!(browser.number(&opacity(".bars:not(.wall)")), 1.0);
}

#[test]
fn panels_of_one_unit_have_one_scale_and_stand_side_by_side_where_there_is_room() {
    let page = pages::panels();
    let mut browser = Browser::open(&page.path);
    let columns = "new Set([...document.querySelectorAll('.panel')].map((one) => one.getBoundingClientRect().left)).size";
    // Pixels for each unit, of all bars of one.
    let scales = |unit: &str| {
        format!(
            "(() => {{ const bars = [...document.querySelectorAll('.bar')].map((bar) => \
             [bar.dataset.tip.split(': ')[1].split(' '), bar.getBoundingClientRect().width]); \
             const all = bars.filter(([[, unit]]) => unit === '{unit}').map(([[value], width]) => width / value); \
             return Math.max(...all) / Math.min(...all); }})()"
        )
    };
    for (width, expected) in [(390, 1.0), (1280, 3.0)] {
        browser.resize(width, 900);
        assert_eq!(browser.number(columns), expected, "at {width}");
        for unit in ["MB", "\u{b5}s"] {
            let apart = browser.number(&scales(unit));
            assert!(apart < 1.02, "{apart} at {width}");
        }
    }
}

#[test]
fn the_line_between_two_dots_joins_them() {
    let page = pages::segments();
    let mut browser = Browser::open(&page.path);
    for width in [390, 1280] {
        browser.resize(width, 900);
        let misplaced = "(() => { const of = (kind) => document.querySelector('.pairs ' + kind).getBoundingClientRect(); \
            const middle = (box) => (box.left + box.right) / 2; \
            const dots = [of('.point.hollow'), of('.point:not(.hollow)')].map(middle); \
            const line = of('.join'); \
            return Math.abs(line.left - Math.min(...dots)) + Math.abs(line.right - Math.max(...dots)); })()";
        let misplaced = browser.number(misplaced);
        assert!(misplaced < 2.0, "{misplaced} pixels at {width}");
        assert_eq!(
            browser.number("document.querySelectorAll('.pairs .band').length"),
            2.0
        );
    }
}

#[test]
fn the_baseline_and_the_measure_are_chosen_and_bars_are_as_long_as_they_say() {
    let page = pages::comparison();
    let mut browser = Browser::open(&page.path);
    browser.resize(1280, 900);
    // A line for each program, ours last; a dot for each level.
    let labels = "[...document.querySelectorAll('#ranking .label')].map((one) => one.textContent).filter(Boolean).join(' | ')";
    let labels = browser.text(labels);
    assert!(
        labels.ends_with(" | walzip | walzip -3 --no-verify"),
        "{labels}"
    );
    assert!(labels.contains("zstd | "), "{labels}");
    assert_eq!(
        browser.number("document.querySelectorAll('#ranking .point').length"),
        12.0
    );
    let value = |label: &str| {
        format!(
            "[...document.querySelectorAll('#ranking .point')].map((one) => one.dataset.tip)\
             .find((tip) => tip.startsWith('{label}: ')).split(': ')[1].split(',')[0]"
        )
    };
    assert_eq!(browser.text(&value("zstd -1")), "1.000");
    let of_zstd: f64 = browser.text(&value("walzip -6")).parse().expect("a number");
    assert!(of_zstd < 0.5);
    let misdrawn = "(() => { const from = document.querySelector('#ranking .pair').getBoundingClientRect(); \
        const dots = [...document.querySelectorAll('#ranking .point')].map((dot) => { \
          const box = dot.getBoundingClientRect(); \
          return [parseFloat(dot.dataset.tip.split(': ')[1]), (box.left + box.right) / 2 - from.left]; }); \
        const unit = dots[0][1] / dots[0][0]; \
        return dots.filter(([value, across]) => Math.abs(across - value * unit) > 2).length; })()";
    assert_eq!(browser.number(misdrawn), 0.0);
    let xz = browser.text(
        "[...document.getElementById('baseline').options].find((one) => one.text === 'xz -2').value",
    );
    browser.choose("#baseline", &xz);
    assert_eq!(browser.text(&value("xz -2")), "1.000");
    let of_xz: f64 = browser.text(&value("walzip -6")).parse().expect("a number");
    assert!(of_xz > of_zstd);
    browser.choose("#measure", "wall");
    let whiskers = "document.querySelectorAll('#ranking .band').length";
    assert!(browser.number(whiskers) > 5.0);
    let said = browser.text("document.getElementById('ranked').textContent");
    assert!(said.contains("xz -2") && said.contains("Bands"), "{said}");
}

#[test]
fn the_index_leads_to_each_page_and_says_what_it_answers() {
    let page = pages::index();
    let mut browser = Browser::open(&page.path);
    let text = browser.text("document.querySelector('main').textContent");
    assert!(text.contains("It saves two thirds (3 runs)."), "{text}");
    let links = "document.querySelectorAll('section a').length";
    assert_eq!(browser.number(links), 2.0);
    browser.follow("section a");
    let place = browser.text("location.pathname");
    assert!(place.ends_with("segments.html"), "{place}");
}
