//! What `inspect` says of segments.

use serde_json::Value;

use crate::members::real_segment;
use crate::sandbox::{Sandbox, segment, text};

fn json(sandbox: &Sandbox, files: &[&str]) -> Value {
    let output = sandbox.ok(&[&["inspect", "--json"], files].concat());
    serde_json::from_slice(&output).expect("JSON")
}

fn sum(rows: &Value, field: &str) -> u64 {
    let rows = rows.as_array().expect("an array");
    rows.iter()
        .map(|row| row[field].as_u64().expect("a number"))
        .sum()
}

#[test]
fn shows_a_segment_and_what_is_none() {
    let sandbox = Sandbox::new();
    sandbox.write("000000010000000000000001", &segment(1));
    sandbox.write("notes", &text(1000));
    let output = sandbox.ok(&["inspect", "000000010000000000000001", "notes"]);
    let shown = String::from_utf8(output).expect("UTF-8");
    let segment = "PostgreSQL 15, system 7600000000000000001, timeline 1, from 0/100000, 1048576";
    assert!(shown.contains(segment), "{shown}");
    assert!(
        shown.contains("notes: no WAL segment, 1000 bytes"),
        "{shown}"
    );
    // What follows is the codec's, and changes with it.
    let before = shown
        .split("\n\n")
        .find(|table| table.starts_with("Before"));
    insta::assert_snapshot!(before.expect("a table of the bytes before"));
}

#[test]
fn every_byte_is_counted_once() {
    let sandbox = Sandbox::new();
    let Some(original) = real_segment() else {
        return;
    };
    sandbox.write("a", &original);
    let found = json(&sandbox, &["a"]);
    let before = found["before"].as_object().expect("an object");
    let total: u64 = before
        .values()
        .map(|bytes| bytes.as_u64().expect("a number"))
        .sum();
    assert_eq!(total, original.len() as u64);
    assert_eq!(found["original_bytes"].as_u64(), Some(total));
    let types = &found["record_types"];
    for (part, field) in [
        ("record_header_bytes", "header_bytes"),
        ("record_data_bytes", "data_bytes"),
        ("image_bytes", "image_bytes"),
    ] {
        assert_eq!(before[part].as_u64(), Some(sum(types, field)), "{part}");
    }
    assert_eq!(
        sum(&found["relations"], "image_bytes"),
        sum(&found["images"], "image_bytes")
    );
    let encoded = found["encoded_bytes"].as_u64().expect("a number") as f64;
    let streams = sum(&found["after"], "encoded_bytes") as f64;
    assert!(
        (streams / encoded - 1.0).abs() < 0.05,
        "{streams} of {encoded}"
    );
}

#[test]
fn records_are_chosen_and_every_share_is_of_all_bytes() {
    let sandbox = Sandbox::new();
    let Some(original) = real_segment() else {
        return;
    };
    sandbox.write("a", &original);
    let shown = |arguments: &[&str]| {
        let output = sandbox.ok(&[&["inspect", "a"], arguments].concat());
        String::from_utf8(output).expect("UTF-8")
    };
    let all = json(&sandbox, &["a"]);
    let count = |found: &Value| sum(&found["record_types"], "count");
    assert_eq!(all["activity"]["records"].as_u64(), Some(count(&all)));
    let heap = json(&sandbox, &["--rmgr", "heap", "a"]);
    let types = heap["record_types"].as_array().expect("types");
    assert!(!types.is_empty());
    assert!(types.iter().all(|of| of["resource_manager"] == "Heap"));
    // What is left out is counted, so that all bytes are.
    let before = heap["before"].as_object().expect("an object");
    let total: u64 = before.values().filter_map(Value::as_u64).sum();
    assert_eq!(total, original.len() as u64);
    assert!(before["left_out_bytes"].as_u64() > Some(0));
    let first = &all["relations"][0];
    let [tablespace, database, relation] =
        ["tablespace", "database", "relation"].map(|part| first[part].to_string());
    let numbers = format!("{tablespace}/{database}/{relation}");
    let of_one = json(&sandbox, &["--relation", &numbers, "a"]);
    assert!(count(&of_one) > 0 && count(&of_one) < count(&all));
    let nobody = json(&sandbox, &["--transaction", "4000000000", "a"]);
    assert_eq!(count(&nobody), 0);

    let text = shown(&[]);
    assert!(
        text.contains("Positions ") && text.contains(" checkpoints\n"),
        "{text}"
    );
    assert!(text.contains("Written from 20"), "{text}");
    assert!(
        text.contains("of all bytes") && !text.contains("in streams"),
        "{text}"
    );
    assert!(shown(&["--streams"]).contains("in streams"));
    let of_heap = shown(&["--rmgr", "heap"]);
    assert!(
        of_heap.contains(" checkpoints, of the whole files\n"),
        "{of_heap}"
    );
    // Record types together are headers, data and images of all bytes, not of their own sum.
    let images = all["before"]["image_bytes"].as_u64().expect("bytes") as f64;
    let share = format!("{:.1} %", images * 100.0 / original.len() as f64);
    assert!(text.contains(&share), "{share}: {text}");
    sandbox.fails(2, &["inspect", "--rmgr", "heap3", "a"]);
}

#[test]
fn every_field_is_documented() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/json.md");
    let page = std::fs::read_to_string(path).expect("docs/json.md");
    let (_, section) = page.split_once("## inspect").expect("a section");
    let sandbox = Sandbox::new();
    sandbox.write("a", &real_segment().unwrap_or_else(|| segment(1)));
    let mut values = vec![json(&sandbox, &["a"])];
    while let Some(value) = values.pop() {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    assert!(section.contains(&format!("`{name}`")), "{name}");
                    values.push(value);
                }
            }
            Value::Array(all) => values.extend(all),
            _ => {}
        }
    }
}

#[test]
fn a_compressed_segment_has_the_same_content() {
    let sandbox = Sandbox::new();
    sandbox.write("a", &[segment(1), segment(2)].concat());
    let raw = json(&sandbox, &["a"]);
    sandbox.ok(&["compress", "a"]);
    let compressed = json(&sandbox, &["a.wz"]);
    assert_eq!(compressed["before"], raw["before"]);
    assert_eq!(
        compressed["files"][0]["members"],
        raw["files"][0]["members"]
    );
    let size = sandbox.read("a.wz").len() as u64;
    assert_eq!(compressed["encoded_bytes"].as_u64(), Some(size));
    assert_eq!(
        raw["files"][0]["members"][1]["segment"]["start"],
        "0/200000"
    );
}

#[test]
fn a_damaged_file_is_an_error() {
    let sandbox = Sandbox::new();
    sandbox.write("a", &segment(1));
    let mut compressed = sandbox.ok(&["compress", "-c", "a"]);
    compressed.pop();
    sandbox.write("a.wz", &compressed);
    insta::assert_snapshot!(sandbox.fails(26, &["inspect", "a.wz"]));
}
