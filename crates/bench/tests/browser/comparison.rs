//! The comparison of programs: what a reader can do with it, and how it looks.

use crate::devtools::Browser;
use crate::pages;

const PHONE: (u32, u32) = (390, 844);
const DESK: (u32, u32) = (1200, 900);

/// Points that are drawn.
const POINTS: &str = "document.querySelectorAll('#chart .point').length";

#[test]
fn opens_without_a_complaint_or_an_outside_request_and_answers_every_click() {
    let page = pages::comparison();
    let mut browser = Browser::open(&page.path);
    browser.resize(DESK.0, DESK.1);
    let all = browser.number(POINTS);
    assert_eq!(all, 12.0, "a point for each row that was measured");
    // Which rows no other one beats in both follows from times: at least one.
    assert!(browser.number("document.querySelector('.frontier').points.length") >= 1.0);
    let warnings = browser.text("document.getElementById('warnings').textContent");
    assert!(warnings.contains("brotli is left out"), "{warnings}");

    // Three runs: each point has their range, and the verdicts are on time.
    assert_eq!(
        browser.number("document.querySelectorAll('#chart .range').length"),
        all
    );
    let verdicts = browser.text("document.getElementById('dominance').textContent");
    assert!(
        verdicts.contains("beaten by") && !verdicts.contains("too few runs"),
        "{verdicts}"
    );
    series_are_switched(&mut browser, all);
    lists_choose_what_is_drawn(&mut browser);
    values_show_under_the_pointer(&mut browser);
    tables_sort(&mut browser);
    for table in [
        "dominance",
        "published",
        "workloads",
        "figures",
        "commands",
        "inputs",
    ] {
        let rows = browser.number(&format!(
            "document.querySelectorAll('#{table} tbody tr').length"
        ));
        assert!(rows >= 3.0, "{table} has {rows} rows");
    }

    assert_eq!(browser.complaints(), Vec::<String>::new());
    let requests = browser.requests();
    let own = format!("file://{}", page.path.display());
    assert_eq!(requests, [own]);
}

fn series_are_switched(browser: &mut Browser, all: f64) {
    browser.click("[data-family=xz]");
    assert_eq!(browser.number(POINTS), all - 2.0);
    browser.click("[data-family=xz]");
    assert_eq!(browser.number(POINTS), all);
}

fn lists_choose_what_is_drawn(browser: &mut Browser) {
    let place = "document.querySelector('#chart .point[aria-label=\"gzip -6\"]').outerHTML";
    let compressing = browser.text(place);
    browser.choose("#direction", "decompress_s");
    assert_ne!(browser.text(place), compressing);
    browser.choose("#direction", "compress_s");
    browser.choose("#workload", "folder bulk-load");
    assert_eq!(browser.number(POINTS), 12.0);
    let chosen = browser.text("document.querySelector('.controls').dataset.chosen");
    assert_eq!(chosen, "Workload: bulk-load; time of compressing");
    browser.choose("#workload", "all");
}

fn values_show_under_the_pointer(browser: &mut Browser) {
    assert_eq!(browser.value("document.getElementById('tip').hidden"), true);
    browser.hover("#chart .point[aria-label='walzip -6']");
    assert_eq!(
        browser.value("document.getElementById('tip').hidden"),
        false
    );
    let tip = browser.text("document.getElementById('tip').textContent");
    for part in [
        "walzip -6 (1 thread)",
        " MB of 0.2, ",
        "compressing",
        "spread",
    ] {
        assert!(tip.contains(part), "{tip}");
    }
    browser.hover("h1");
    assert_eq!(browser.value("document.getElementById('tip').hidden"), true);
}

fn tables_sort(browser: &mut Browser) {
    let head = "#figures th:nth-child(5)";
    let column = "[...document.querySelectorAll('#figures td:nth-child(5)')].map((cell) => parseFloat(cell.textContent))";
    let megabytes = |browser: &mut Browser| -> Vec<f64> {
        let values = browser.value(column);
        let values = values.as_array().expect("a list").iter();
        values
            .map(|value| value.as_f64().expect("a number"))
            .collect()
    };
    assert_eq!(
        browser.text(&format!("document.querySelector('{head}').textContent")),
        "MB"
    );
    browser.click(&format!("{head} button"));
    assert!(megabytes(browser).is_sorted());
    browser.click(&format!("{head} button"));
    assert!(megabytes(browser).iter().rev().is_sorted());
    let order = browser.text(&format!("document.querySelector('{head}').ariaSort"));
    assert_eq!(order, "descending");
}

#[test]
fn one_run_has_no_verdict_on_time_and_a_quick_look_no_published_seconds() {
    let page = pages::comparison_of(1, true);
    let mut browser = Browser::open(&page.path);
    browser.resize(DESK.0, DESK.1);
    browser.show_as("screen", "light");
    let text = |browser: &mut Browser, id: &str| {
        browser.text(&format!("document.getElementById('{id}').textContent"))
    };
    let verdicts = text(&mut browser, "dominance");
    for word in ["beaten", "time"] {
        assert!(!verdicts.contains(word), "{verdicts}");
    }
    assert!(verdicts.contains("smaller"), "{verdicts}");
    let said = text(&mut browser, "exceptions");
    assert!(
        said.contains("1 complete run: differences in time prove nothing"),
        "{said}"
    );
    assert_eq!(
        browser.number("document.querySelectorAll('.frontier, .range').length"),
        0.0
    );
    let published = text(&mut browser, "published");
    assert!(
        !published.contains("seconds") && !published.contains("1.186"),
        "{published}"
    );
    // xz -2, relative to gzip -1.
    assert!(published.contains("4.38"), "{published}");
    let source = text(&mut browser, "source");
    assert!(
        source.contains("100 segments of 16 MB") && source.contains("quick"),
        "{source}"
    );
    browser.picture().keep("comparison-one-run");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn is_light_dark_or_as_chosen_fits_a_phone_and_prints() {
    let page = pages::comparison();
    let mut browser = Browser::open(&page.path);
    browser.resize(DESK.0, DESK.1);
    browser.show_as("screen", "light");
    let light = browser.picture();
    light.keep("comparison-light");
    browser.show_as("screen", "dark");
    let dark = browser.picture();
    dark.keep("comparison-dark");
    assert!(light.brightness() > 200.0, "{}", light.brightness());
    assert!(dark.brightness() < 80.0, "{}", dark.brightness());
    assert!(light.width == DESK.0 && light.height > 1500);
    // walzip's colour: its points, its names in tables.
    assert!(light.pixels_like([0x0b, 0x62, 0xc4]) > 300);
    assert!(dark.pixels_like([0x5a, 0xa9, 0xff]) > 300);

    // As the system, light, dark: whatever the system prefers.
    browser.click("#theme");
    assert!(browser.picture().brightness() > 200.0);
    browser.click("#theme");
    browser.show_as("screen", "light");
    assert!(browser.picture().brightness() < 80.0);
    assert_eq!(
        browser.text("document.getElementById('theme').textContent"),
        "Theme: dark"
    );

    // Paper is white, whatever was chosen.
    browser.show_as("print", "dark");
    let print = browser.picture();
    print.keep("comparison-print");
    assert!(print.brightness() > 200.0);
    let pdf = browser.pdf();
    assert!(
        pdf.starts_with(b"%PDF-") && pdf.len() > 20_000,
        "{} bytes",
        pdf.len()
    );

    browser.show_as("screen", "light");
    browser.click("#theme");
    browser.resize(PHONE.0, PHONE.1);
    let wide = browser.number("document.documentElement.scrollWidth");
    assert!(wide <= f64::from(PHONE.0), "the page is {wide} wide");
    let small = browser.number("Math.min(...[...document.querySelectorAll('#chart text')].map((text) => text.getBoundingClientRect().height))");
    assert!(small >= 9.0, "the chart's text is {small} high");
    let phone = browser.picture();
    phone.keep("comparison-phone");
    for picture in [&light, &dark, &print, &phone] {
        assert!(picture.covered() > 0.05, "{}", picture.covered());
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
