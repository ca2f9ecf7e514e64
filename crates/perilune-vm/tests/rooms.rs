//! The rooms of this crate, and that arrows between them go down: a module names modules of its own room and
//! of the rooms below.
//!
//! The rooms stand in order, lowest first. `state` is on top: it puts the parts of a `Vm` together, and every
//! module may name the `Vm` itself and its state (`crate::Vm`, `crate::State`). What goes up all the same is
//! listed with its reason. The list may only become shorter: an exception that is not needed any more fails
//! the test, too.

use std::collections::BTreeSet;
use std::path::Path;

/// Rooms and their modules, lowest first.
const ROOMS: &[(&str, &[&str])] = &[
    (
        "values, tables and strings",
        &["value", "object", "num", "string", "shape", "table", "native", "edge", "standing", "sys"],
    ),
    (
        "functions, frames and the interpreter",
        &[
            "error",
            "meta",
            "frame",
            "inst",
            "call",
            "close",
            "interp",
            "machine",
            "names",
            "api",
            "rooted",
            "debug",
            "warn",
            "interrupt",
            "events",
        ],
    ),
    ("coroutines, fibers and native stacks", &["coroutine", "native_stack", "fiber", "host"]),
    ("what crosses domains", &["shared", "island", "cycle_collector", "parcel"]),
    ("the object graph, and collection", &["graph", "gc", "arena", "heap_control", "canonical"]),
    ("what is seen", &["sampler", "snapshot"]),
    ("the state", &["state", "new", "chunks", "texts"]),
];

/// Arrows that go up: from, to, why.
const UP: &[(&str, &str, &str)] = &[
    ("value", "island", "a value can be a function of an island"),
    ("value", "shared", "a value can be a shared object"),
    ("table", "shared", "keys are compared across domains by the object"),
    ("table", "frame", "the error of a key has a position if no native raises it"),
    ("object", "fiber", "a coroutine owns its fiber's state"),
    ("object", "native_stack", "a coroutine owns its native stack"),
    ("object", "machine", "an instance owns its machine code"),
    ("debug", "parcel", "a function that has come from another domain does not have its variables assigned"),
    ("interp", "island", "look-ups in frozen tables have a quick way"),
    ("interp", "shared", "elements of arrays have a quick way"),
    ("machine", "shared", "elements of arrays are got and stored in line"),
];

fn room_of(module: &str) -> Option<usize> {
    ROOMS.iter().position(|(_, modules)| modules.contains(&module))
}

/// A file's text without comments and without its tests.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The modules that a text names as `crate::module`.
fn named(text: &str) -> impl Iterator<Item = &str> {
    text.split("crate::").skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '_').unwrap_or(rest.len());
        &rest[..end]
    })
}

fn look(
    at: &Path,
    module: Option<&str>,
    arrows: &mut BTreeSet<(String, String)>,
    modules: &mut BTreeSet<String>,
) {
    for entry in std::fs::read_dir(at).expect("a readable folder") {
        let path = entry.expect("a readable folder").path();
        let stem = path.file_stem().and_then(|s| s.to_str()).expect("a name").to_owned();
        let module = module.unwrap_or(&stem).to_owned();
        if path.is_dir() {
            look(&path, Some(&module), arrows, modules);
        } else if path.extension().is_some_and(|e| e == "rs") && stem != "tests" && module != "lib" {
            let text = code(&std::fs::read_to_string(&path).expect("a readable file"));
            let targets = named(&text).filter(|target| *target != module && room_of(target).is_some());
            arrows.extend(targets.map(|target| (module.clone(), target.to_owned())));
            modules.insert(module);
        }
    }
}

#[test]
fn arrows_go_down() {
    let (mut arrows, mut modules) = (BTreeSet::new(), BTreeSet::new());
    look(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), None, &mut arrows, &mut modules);
    let homeless: Vec<_> = modules.iter().filter(|m| room_of(m).is_none()).collect();
    assert!(homeless.is_empty(), "modules without a room: {homeless:?}");
    assert!(arrows.len() > 100, "the search finds next to nothing");
    let up: BTreeSet<(&str, &str)> = arrows
        .iter()
        .map(|(from, to)| (from.as_str(), to.as_str()))
        .filter(|(from, to)| room_of(from) < room_of(to))
        .collect();
    let known: BTreeSet<(&str, &str)> = UP.iter().map(|&(from, to, _)| (from, to)).collect();
    let new: Vec<_> = up.difference(&known).collect();
    assert!(new.is_empty(), "arrows that go up: {new:?}");
    let gone: Vec<_> = known.difference(&up).collect();
    assert!(gone.is_empty(), "exceptions that are not needed any more: {gone:?}");
}
