//! `perilune bench`: that it runs what it is told to, in processes of their own, and says so on the right
//! stream. Figures are checked for being there, never for what they are.

use perilune_test::{Folder, Limited, text};
use std::fs;
use std::process::{Command, Output};

/// A folder with programs; removed at the end.
struct Place(Folder);

impl Place {
    fn new(files: &[(&str, &str)]) -> Place {
        Place(Folder::with(files.iter().copied()))
    }

    fn bench(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
        Limited::run(command.current_dir(&self.0).arg("bench").args(words))
    }
}

/// Appends a line to `log` and prints its arguments.
const LOGGING: &str = "local f = assert(io.open('log', 'a')) f:write(arg[0], '\\n') f:close() print(...)";

#[test]
fn every_round_is_a_process_and_contenders_take_turns() {
    let place = Place::new(&[("a.lua", LOGGING), ("b.lua", LOGGING)]);
    // The peer is the same executable under a name of its own, so that it needs nothing installed.
    let peer = env!("CARGO_BIN_EXE_perilune");
    let ran = place.bench(&["a.lua", "b.lua", "--runs", "2", "--against", peer, "--", "x", "--runs"]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    let log = fs::read_to_string(place.0.join("log")).unwrap();
    assert_eq!(log, "a.lua\n".repeat(6) + &"b.lua\n".repeat(6));
    let (out, err) = (text(&ran.stdout), text(&ran.stderr));
    assert_eq!(out.matches("a.lua").count(), 3, "{out}");
    assert!(out.contains("geometric mean of 2"), "{out}");
    assert!(err.contains("2 rounds after 1 to warm up"), "{err}");
    assert!(!err.contains("prints something else"), "{err}");
    assert!(!out.contains('\x1b') && !err.contains('\x1b'));
}

#[test]
fn a_folder_stands_for_the_programs_below_it() {
    let place = Place::new(&[
        ("bench/b.lua", ""),
        ("bench/sub/a.lua", ""),
        ("bench/notes.txt", ""),
        ("bench/.h.lua", ""),
    ]);
    let ran = place.bench(&["bench", "--runs=1", "--warmup=0", "--json"]);
    let out = text(&ran.stdout);
    let names: Vec<&str> = out.lines().filter_map(|l| l.trim().strip_prefix("\"name\": ")).collect();
    assert_eq!(names, ["\"bench/b.lua\",", "\"bench/sub/a.lua\","], "{out}");
    assert!(out.contains("\"wall_s\"") && out.contains("\"peak_bytes\""), "{out}");
}

#[test]
fn failures_are_named_and_counted() {
    let place = Place::new(&[("good.lua", "print(1)"), ("bad.lua", "error('no luck')")]);
    let ran = place.bench(&["good.lua", "bad.lua", "--runs", "1"]);
    assert_eq!(ran.status.code(), Some(1));
    assert!(text(&ran.stderr).contains("bad.lua failed with perilune: "), "{}", text(&ran.stderr));
    assert!(text(&ran.stderr).contains("no luck"));
    assert!(text(&ran.stdout).contains("failed"));
}

#[test]
fn words_that_make_no_sense() {
    let place = Place::new(&[("a.lua", "")]);
    for words in [
        &["--faster", "a.lua"] as &[_],
        &[],
        &["missing.lua"],
        &["a.lua", "--against", "there-is-no-such-lua"],
    ] {
        let ran = place.bench(words);
        assert_eq!((ran.status.code(), ran.stdout.len()), (Some(2), 0), "{words:?}");
        assert!(text(&ran.stderr).starts_with("perilune bench: "), "{words:?}");
    }
    assert_eq!(
        text(&place.bench(&["--help"]).stdout).lines().next().unwrap().split(' ').next(),
        Some("usage:")
    );
}

#[test]
fn a_file_called_bench_is_a_script() {
    let place = Place::new(&[("bench", "print('a script', ...)")]);
    assert_eq!(text(&place.bench(&["x"]).stdout), "a script\tx\n");
}
