//! Folders are rooms: what lies in one folder never imports in a circle, neither the modules in the folder
//! nor, each taken as a whole, the folders in it. Unit tests and modules for tests may import anything.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use crate::tidy::{files, read, root};

type Module = Vec<String>;

/// What a folder's modules import of one another.
type Room = BTreeMap<String, BTreeSet<String>>;

#[test]
fn no_folder_has_a_circle_of_imports() {
    let mut faults = String::new();
    let mut imports = 0;
    for entry in std::fs::read_dir(root().join("crates")).expect("the crates") {
        let crate_folder = entry.expect("a crate").path();
        let source = crate_folder.join("src");
        let modules = modules_of(&source);
        for (folder, room) in rooms(&modules) {
            imports += room.values().map(BTreeSet::len).sum::<usize>();
            if let Some(circle) = circle(&room) {
                let place = source.join(folder.join("/"));
                let place = crate::tidy::shown(&place);
                writeln!(faults, "{place}: {}", circle.join(" -> ")).unwrap();
            }
        }
    }
    assert_eq!(faults, "");
    assert!(imports > 1000, "only {imports} imports were found");
}

#[test]
fn a_circle_is_found() {
    let room = |imports: &[(&str, &str)]| {
        let mut room = Room::new();
        for (from, to) in imports {
            room.entry((*from).to_owned())
                .or_default()
                .insert((*to).to_owned());
        }
        room
    };
    assert_eq!(circle(&room(&[("a", "b"), ("a", "c"), ("b", "c")])), None);
    let found = circle(&room(&[("a", "b"), ("b", "c"), ("c", "b")]));
    assert_eq!(found, Some(["b", "c", "b"].map(str::to_owned).to_vec()));
}

#[test]
fn paths_are_read_as_the_compiler_reads_them() {
    let code = "use crate::a::{self, b::{C, d}};\n    use super::e;\nlet x = crate::f::g();\n";
    let module = ["m", "n"].map(str::to_owned).to_vec();
    let read: Vec<String> = paths(code, &module)
        .iter()
        .map(|path| path.join("::"))
        .collect();
    assert_eq!(read, ["a::self", "a::b::C", "a::b::d", "f::g", "m::e"]);
}

/// The modules of a crate and their code, but for those that are for tests.
fn modules_of(source: &Path) -> BTreeMap<Module, String> {
    let mut modules = BTreeMap::new();
    for path in files(source, "rs") {
        let relative = path
            .strip_prefix(source)
            .expect("a source")
            .with_extension("");
        let mut module: Module = relative
            .iter()
            .map(|part| part.to_str().expect("UTF-8").to_owned())
            .collect();
        if module.last().is_some_and(|name| name == "mod") {
            module.pop();
        }
        modules.insert(module, read(&path));
    }
    let are_for_tests: Vec<Module> = modules
        .keys()
        .filter(|module| is_for_tests(&modules, module))
        .cloned()
        .collect();
    modules.retain(|module, _| {
        let root_of_crate = module.len() == 1 && ["lib", "main"].contains(&module[0].as_str());
        !root_of_crate && !are_for_tests.iter().any(|tests| module.starts_with(tests))
    });
    modules
}

/// Whether its parent declares a module for tests only.
fn is_for_tests(modules: &BTreeMap<Module, String>, module: &Module) -> bool {
    let Some((name, parent)) = module.split_last() else {
        return false;
    };
    let parents = match parent {
        [] => vec![vec!["lib".to_owned()], vec!["main".to_owned()]],
        parent => vec![parent.to_vec()],
    };
    parents
        .iter()
        .filter_map(|parent| modules.get(parent))
        .any(|text| {
            let mut lines = text.lines().peekable();
            let mut before = "";
            lines.any(|line| {
                let declares = line.ends_with(&format!("mod {name};"));
                let gated =
                    before == "#[cfg(test)]" || before.starts_with("#[cfg(feature = \"testing\"");
                before = line;
                declares && gated
            })
        })
}

/// The rooms of a crate: each import counts in the folder where the two modules part.
fn rooms(modules: &BTreeMap<Module, String>) -> BTreeMap<Module, Room> {
    let is_module = |path: &[String]| modules.keys().any(|module| module.starts_with(path));
    let mut rooms: BTreeMap<Module, Room> = BTreeMap::new();
    for (module, text) in modules {
        for path in paths(&code_of(text), module) {
            let common = path.iter().zip(module).take_while(|(a, b)| a == b).count();
            let (Some(from), Some(to)) = (module.get(common), path.get(common)) else {
                continue;
            };
            if is_module(&path[..=common]) {
                let room = rooms.entry(module[..common].to_vec()).or_default();
                room.entry(from.clone()).or_default().insert(to.clone());
            }
        }
    }
    rooms
}

/// A text without its comments and unit tests, which end a file.
fn code_of(text: &str) -> String {
    let mut tests = text.match_indices("#[cfg(test)]\n").map(|(at, _)| at);
    let is_module = |at: &usize| {
        let mut lines = text[*at..].lines();
        let item = lines.find(|line| !line.starts_with("#["));
        item.is_some_and(|item| item.starts_with("mod ") && item.ends_with('{'))
    };
    let end = tests.find(is_module).unwrap_or(text.len());
    let lines = text[..end].lines();
    let code = lines.filter(|line| !line.trim_start().starts_with("//"));
    code.map(|line| format!("{line}\n")).collect()
}

/// The paths that code names from the crate's top or from a module above it.
fn paths(code: &str, module: &Module) -> Vec<Module> {
    let mut found = Vec::new();
    for word in ["crate::", "super::"] {
        for (at, _) in code.match_indices(word) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':' || c == '$') {
                continue;
            }
            let mut base = match word {
                "crate::" => Vec::new(),
                _ => module[..module.len() - 1].to_vec(),
            };
            let mut rest = &code[at + word.len()..];
            while let Some(after) = rest.strip_prefix("super::") {
                base.pop();
                rest = after;
            }
            expand(rest, base, &mut found);
        }
    }
    found
}

/// The paths of what stands after `use`, or of one path.
fn expand<'t>(text: &'t str, mut base: Module, found: &mut Vec<Module>) -> &'t str {
    let mut rest = text;
    loop {
        if let Some(group) = rest.strip_prefix('{') {
            rest = group.trim_start();
            while !rest.is_empty() && !rest.starts_with('}') {
                rest = expand(rest, base.clone(), found);
                rest = rest.trim_start_matches(|c| c != ',' && c != '}');
                rest = rest.trim_start_matches(',').trim_start();
            }
            return rest.strip_prefix('}').unwrap_or(rest);
        }
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        let (name, after) = rest.split_at(end.unwrap_or(rest.len()));
        base.push(name.to_owned());
        match after.strip_prefix("::") {
            Some(next) => rest = next,
            None => {
                found.push(base);
                return after;
            }
        }
    }
}

/// A way through a room that comes back to where it began.
fn circle(room: &Room) -> Option<Vec<String>> {
    fn walk(room: &Room, way: &mut Vec<String>, done: &mut BTreeSet<String>) -> bool {
        let here = way.last().cloned().unwrap_or_default();
        for next in room.get(&here).into_iter().flatten() {
            if let Some(start) = way.iter().position(|passed| passed == next) {
                way.drain(..start);
                way.push(next.clone());
                return true;
            }
            if !done.contains(next) {
                way.push(next.clone());
                if walk(room, way, done) {
                    return true;
                }
                way.pop();
            }
        }
        done.insert(here);
        false
    }
    let mut done = BTreeSet::new();
    room.keys().find_map(|start| {
        let mut way = vec![start.clone()];
        (!done.contains(start) && walk(room, &mut way, &mut done)).then_some(way)
    })
}
