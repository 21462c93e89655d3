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

    browser.hover(".bar.ours");
    let tip = "document.getElementById('tip').textContent";
    assert_eq!(browser.text(tip), "walzip -3: 9.5 MB");
    browser.hover(".bar.published");
    assert_eq!(browser.text(tip), "off: 208.1 MB published");

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

#[test]
fn an_experiment_has_its_published_figures_beside_its_own() {
    let page = pages::segments();
    let mut browser = Browser::open(&page.path);
    browser.resize(390, 844);
    browser.show_as("screen", "light");
    let wide = browser.number("document.documentElement.scrollWidth");
    assert!(wide <= 390.0, "the page is {wide} wide");
    browser.hover(".bar.published");
    let tip = "document.getElementById('tip').textContent";
    assert_eq!(browser.text(tip), "cp, 16 MB: 17.40 s published");
    let cells = "document.querySelector('tbody tr').textContent";
    assert!(browser.text(cells).ends_with("17.45.43.22"));
    assert_eq!(browser.complaints(), Vec::<String>::new());
    assert_eq!(browser.requests().len(), 1);
}
