//! What is Linux and x86-64 is in the module `sys` of each crate: calls of the C library, assembly,
//! instructions, files of the kernel.
//!
//! So who wants to know what a crate needs of its system looks in one place, and who brings it to another one
//! writes that place anew. `rustix` counts as a library like others. Tests may do as they like.

use std::fs;
use std::path::{Path, PathBuf};

/// What belongs into `sys`.
const MARKS: &[&str] =
    &["libc::", "asm!", "core::arch::", "std::arch::", "std::os::linux", "target_arch", "\"/proc/"];

/// A file's text without comments and without its tests.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The files of a folder, but for `sys.rs`, what is below `sys`, and tests.
fn files(at: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(at).expect("a readable folder") {
        let path = entry.expect("a readable folder").path();
        let stem = path.file_stem().and_then(|s| s.to_str()).expect("a name");
        if stem == "sys" || stem == "tests" {
            continue;
        }
        if path.is_dir() {
            files(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(path);
        }
    }
}

#[test]
fn what_is_linux_or_a_processor_is_in_sys() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a folder of crates");
    let (mut rooms, mut looked_at) = (0, 0);
    let mut places = Vec::new();
    for entry in fs::read_dir(crates).expect("a readable folder") {
        let source = entry.expect("a readable folder").path().join("src");
        if !source.is_dir() {
            continue;
        }
        rooms += usize::from(source.join("sys.rs").is_file());
        let mut all = Vec::new();
        files(&source, &mut all);
        looked_at += all.len();
        for path in all {
            let text = code(&fs::read_to_string(&path).expect("a readable file"));
            places.extend(
                MARKS
                    .iter()
                    .filter(|mark| text.contains(**mark))
                    .map(|mark| format!("{}: {mark}", path.display())),
            );
        }
    }
    assert!(looked_at > 300 && rooms > 10, "the search finds next to nothing");
    assert!(places.is_empty(), "these belong into the crate's module `sys`: {places:#?}");
}

/// Crates that a program's domains run on, and the one of them that begins threads without asking for room:
/// the first worker's, without which nothing runs.
const OF_DOMAINS: &[(&str, usize)] = &[
    ("data", 0),
    ("domain", 1),
    ("http", 0),
    ("io", 0),
    ("spesh", 0),
    ("stdlib", 0),
    ("trace", 0),
    ("vm", 0),
];

/// A thread that begins where address space ends, and lacks what the C library needs in it, ends the process.
#[test]
fn threads_are_begun_where_there_is_room() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a folder of crates");
    for (name, allowed) in OF_DOMAINS {
        let mut all = Vec::new();
        files(&crates.join(format!("perilune-{name}/src")), &mut all);
        all.retain(|path| !path.to_string_lossy().ends_with("tests.rs"));
        let begun = |path: &PathBuf| {
            let text = code(&fs::read_to_string(path).expect("a readable file"));
            ["thread::Builder", "thread::spawn"].iter().map(|mark| text.matches(mark).count()).sum::<usize>()
        };
        let found: usize = all.iter().map(begun).sum();
        assert_eq!(found, *allowed, "perilune-{name}: threads are begun by `perilune_heap::space::spawn`");
    }
}

#[test]
fn comments_and_tests_do_not_count() {
    let text = "fn f() {} // libc::f\n/// asm!\n#[cfg(test)]\nmod tests {\n libc::f();";
    assert!(MARKS.iter().all(|mark| !code(text).contains(mark)));
    assert!(code("unsafe { libc::getpid() }").contains(MARKS[0]));
}
