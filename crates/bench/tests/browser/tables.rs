//! A page of tables and bars.

use crate::devtools::Browser;
use crate::pages;

#[test]
fn tables_sort_bars_tell_their_values_and_nothing_is_asked_of_the_network() {
    let page = pages::tables();
    let mut browser = Browser::open(&page.path);
    browser.resize(1200, 900);
    browser.show_as("screen", "light");
    let first = "document.querySelector('tbody td').textContent";
    assert_eq!(browser.text(first), "off");
    browser.click("th:nth-child(2) button");
    assert_eq!(browser.text(first), "lz4");
    // What says nothing stays at the end, in both directions.
    let last = "document.querySelector('tbody tr:last-child td').textContent";
    browser.click("th:nth-child(3) button");
    assert_eq!(
        (browser.text(first), browser.text(last)),
        ("pglz".into(), "lz4".into())
    );
    browser.click("th:nth-child(3) button");
    assert_eq!(
        (browser.text(first), browser.text(last)),
        ("off".into(), "lz4".into())
    );

    points_lie_where_their_values_are(&mut browser);
    browser.hover(".bars .point.ours");
    let tip = "document.getElementById('tip').textContent";
    assert_eq!(browser.text(tip), "walzip -3: 9.5 MB");
    browser.hover(".bars .point.published");
    assert_eq!(browser.text(tip), "off: 208.1 MB published");
    lengths_are_values(&mut browser);

    let light = browser.picture();
    light.keep("tables-light");
    assert!(light.brightness() > 200.0 && light.covered() > 0.02);
    browser.show_as("screen", "dark");
    let dark = browser.picture();
    dark.keep("tables-dark");
    assert!(dark.brightness() < 80.0);
    browser.resize(390, 844);
    let wide = browser.number("document.documentElement.scrollWidth");
    assert!(wide <= 390.0, "the page is {wide} wide");
    browser.picture().keep("tables-phone");

    assert_eq!(browser.complaints(), Vec::<String>::new());
    assert_eq!(
        browser.requests(),
        [format!("file://{}", page.path.display())]
    );
}

/// Up from zero, so heights are values; across by the logarithm.
fn points_lie_where_their_values_are(browser: &mut Browser) {
    let places = browser.value(
        "(() => { const field = document.querySelector('.scatter .field').getBoundingClientRect(); \
         return [...document.querySelectorAll('.scatter .point')].map((point) => { \
         const box = point.getBoundingClientRect(), numbers = point.dataset.tip.split(': ')[1].split(/ [a-zA-Z, ]+/); \
         return [Number(numbers[0]), Number(numbers[1]), box.left + box.width / 2 - field.left, \
         field.bottom - box.top - box.height / 2]; }); })()",
    );
    let places = places.as_array().expect("points");
    assert_eq!(places.len(), 4, "{places:?}");
    let number = |point: usize, place: usize| places[point][place].as_f64().expect("a number");
    let per_megabyte = number(0, 3) / number(0, 1);
    let per_power = (number(2, 2) - number(0, 2)) / (number(2, 0) / number(0, 0)).ln();
    for point in 0..4 {
        let (seconds, megabytes) = (number(point, 0), number(point, 1));
        assert!(
            (number(point, 3) - megabytes * per_megabyte).abs() < 1.5,
            "{places:?}"
        );
        let across = number(0, 2) + per_power * (seconds / number(0, 0)).ln();
        assert!((number(point, 2) - across).abs() < 1.5, "{places:?}");
    }
}

/// Bars are as long as their values; what is too far apart has no length at all.
fn lengths_are_values(browser: &mut Browser) {
    let bars = "[...document.querySelectorAll('.bar')].map((bar) => [\
        parseFloat(bar.dataset.tip.split(': ')[1]), bar.getBoundingClientRect().width])";
    let bars = browser.value(bars);
    let bars = bars.as_array().expect("bars");
    assert_eq!(bars.len(), 5, "{bars:?}");
    let number = |pair: &serde_json::Value, place: usize| pair[place].as_f64().expect("a number");
    // Of the first chart, and of the parts of a whole.
    for chart in [&bars[..3], &bars[3..]] {
        let per_unit = number(&chart[0], 1) / number(&chart[0], 0);
        for bar in chart {
            let (value, width) = (number(bar, 0), number(bar, 1));
            assert!((width - value * per_unit).abs() <= 2.0, "{chart:?}");
        }
    }
    let points = "document.querySelectorAll('.bars.points')";
    assert_eq!(browser.number(&format!("{points}.length")), 1.0);
    assert_eq!(
        browser.number("document.querySelectorAll('.points .bar').length"),
        0.0
    );
    let said = browser.text(&format!("{points}[0].textContent"));
    assert!(said.contains("MB, logarithmic axis"), "{said}");
}

#[test]
fn an_experiment_has_its_published_figures_beside_its_own() {
    let page = pages::segments_of(1);
    let mut browser = Browser::open(&page.path);
    browser.resize(390, 844);
    browser.show_as("screen", "light");
    let wide = browser.number("document.documentElement.scrollWidth");
    assert!(wide <= 390.0, "the page is {wide} wide");
    // 64 MB are not what was published, so there are no seconds of it; nor is there a ratio of cp.
    let published = "document.querySelectorAll('.published').length";
    assert_eq!(browser.number(published), 0.0);
    let cells = browser.text("document.querySelector('tbody tr').textContent");
    assert!(
        cells.ends_with('\u{2013}') && !cells.contains("17.4"),
        "{cells}"
    );
    let said = browser.text("document.body.textContent");
    assert!(said.contains("Published for 1600 MB, here 64 MB"), "{said}");
    assert!(
        said.contains("One run: differences in time below 4 times prove nothing"),
        "{said}"
    );
    browser.picture().keep("segments-phone");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    assert_eq!(browser.requests().len(), 1);
}
