//! `perilune prof`: the files that it writes, exit codes, and programs that are attached to. What the numbers
//! mean is tested where they are made (`sampling.rs`, `proofs.rs`).

use perilune_test::{Folder, Json, Limited, text};
use serde_json::Value;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const BUSY: &str = "\
local function inner(n) local t for i = 1, n do t = {i} end return t end
local function outer(n) for i = 1, 20 do inner(n) end end
local deadline = os.clock() + (tonumber(arg[1]) or 0.2)
repeat outer(2000) until os.clock() > deadline
os.exit(tonumber(arg[2]) or 0)
";

struct Place(Folder);

impl Place {
    fn new() -> Place {
        Place(Folder::with([("busy.lua", BUSY)]))
    }
    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
        command.arg("prof").args(words).current_dir(&self.0).stdin(Stdio::null());
        Limited::run(&mut command)
    }
}

#[test]
fn one_run_is_written_in_all_formats() {
    let folder = Place::new();
    let files = ["a.svg", "a.html", "a.folded", "a.pb", "a.speedscope.json", "a.json", "a.txt"];
    for what in ["cpu", "alloc"] {
        let mut words = vec![what];
        for file in files {
            words.extend(["-o", file]);
        }
        words.push("busy.lua");
        let output = folder.run(&words);
        let errors = text(&output.stderr);
        assert!(output.status.success(), "{errors}");
        assert_eq!(errors.matches("wrote").count(), files.len(), "{errors}");
        assert!(output.stdout.is_empty(), "the data went to files");
        assert!(text(&folder.0.read("a.svg")).contains("data-n=\"outer\""));
        assert!(text(&folder.0.read("a.html")).starts_with("<!doctype html>"));
        let folded = text(&folder.0.read("a.folded"));
        assert!(folded.lines().any(|l| l.contains("outer (busy.lua:2);inner (busy.lua:1) ")), "{folded}");
        assert!(folder.0.read("a.pb").windows(5).any(|w| w == b"inner"));
        let scope = Value::parse(text(&folder.0.read("a.speedscope.json")));
        let samples = scope.list("profiles")[0].list("samples").len();
        assert_eq!(samples, scope.list("profiles")[0].list("weights").len());
        let json = Value::parse(text(&folder.0.read("a.json")));
        let measure = if what == "cpu" { "cpu" } else { "allocated" };
        let own: f64 = json.list("functions").iter().map(|f| f.number(&format!("self.{measure}"))).sum();
        assert_eq!(
            own,
            json.number(&format!("total.{measure}")),
            "what functions do themselves is all there is"
        );
        assert!(text(&folder.0.read("a.txt")).contains("inner"));
    }
}

/// A command is one call that sleeps; an awaited task has its function's name.
#[test]
fn waits_are_counted_once_and_named() {
    let folder = Place::new();
    folder.0.write("waits.lua", "for i = 1, 3 do os.execute('sleep 0.05') end");
    folder.0.write(
        "tasks.lua",
        "local pl = require 'perilune'
        local pool = pl.pool.new{workers = 1}
        local function slow() require 'perilune'.sleep(0.05) end
        for i = 1, 2 do pool:async(slow):await() end",
    );
    let waits = |script: &str| {
        let output = folder.run(&["offcpu", "--json", script]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        Value::parse(text(&output.stdout)).list("waits").to_vec()
    };
    let commands = waits("waits.lua");
    // One that has ended before it is waited for is no wait.
    let count: f64 = commands.iter().map(|w| w.number("count")).sum();
    assert!(count <= 3.0, "{commands:?}");
    assert!(waits("tasks.lua").iter().any(|w| w.text("what") == "awaits task 'tasks.lua:3'"));
}

#[test]
fn tables_are_for_people_and_exit_codes_are_the_programs() {
    let folder = Place::new();
    let output = folder.run(&["cpu", "busy.lua", "0.2", "3"]);
    assert_eq!(output.status.code(), Some(3));
    let table = text(&output.stdout);
    assert!(table.contains("inner  busy.lua:1") && table.contains("call paths"), "{table}");
    assert!(!table.contains('\u{1b}'), "no colours in pipes");
    let lines = text(&folder.run(&["cpu", "--lines", "--top", "1", "busy.lua"]).stdout);
    assert!(lines.contains("busy.lua:1") && lines.contains("more; --top"), "{lines}");
    // A program that does nothing has no samples, and that is no failure. What the library takes when it
    // begins is sampled now and then at the usual rate.
    std::fs::write(folder.0.join("idle.lua"), "").unwrap();
    let output = folder.run(&["alloc", "--rate", "1000000000", "idle.lua"]);
    assert!(
        output.status.success() && text(&output.stderr).contains("no samples"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn words_that_make_no_sense() {
    let folder = Place::new();
    for (words, says) in [
        (&["cpu", "-o", "x.png", "busy.lua"][..], "must end in"),
        (&["cpu", "--rate", "5", "busy.lua"], "unknown option '--rate'"),
        (&["cpu", "--hz", "often", "busy.lua"], "'often' is no number"),
        (&["gpu", "busy.lua"], "there is no 'gpu'"),
        (&["cpu"], "name a script"),
        (&[], "usage"),
    ] {
        let output = folder.run(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(text(&output.stderr).contains(says), "{words:?}: {}", text(&output.stderr));
    }
}

#[test]
fn a_program_that_runs_is_profiled_and_goes_on() {
    let folder = Place::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
    let mut program = Limited::start(command.args(["busy.lua", "600"]).current_dir(&folder.0));
    let pid = program.id().to_string();
    // It must have come as far as to expect the signal.
    let mut output = folder.run(&["cpu", "--json", "--duration", "0.5", "--attach", &pid]);
    // And to have got enough of the processors to be seen.
    let seen = |output: &Output| {
        output.status.success() && Value::parse(text(&output.stdout)).number("samples") > 5.0
    };
    for _ in 0..200 {
        if seen(&output) {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
        output = folder.run(&["cpu", "--json", "--duration", "0.5", "--attach", &pid]);
    }
    let still_runs = program.is_running();
    program.kill();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(still_runs, "the program goes on");
    let json = Value::parse(text(&output.stdout));
    let names: Vec<&str> = json.list("functions").iter().map(|f| f.text("function")).collect();
    assert!(names.contains(&"inner") && json.number("samples") > 5.0, "{names:?}");
}

/// Copies for other domains are told as such, where they come out as well as where they come in: by the line
/// that has sent them.
#[test]
fn copies_name_the_line_that_sent_them() {
    let folder = Place::new();
    let program = "\
local pl = require 'perilune'
local pool = pl.pool.new({workers = 1})
local list = {}
for i = 1, 20000 do list[i] = {i} end
local function work(l) return #l end
for i = 1, tonumber(arg[1]) do
  pool:async(work, list):await()
end
local channel = pl.channel.new(1)
local task = pool:async(function(c) for i = 1, 5 do c:recv() end end, channel)
for i = 1, 5 do
  channel:send(list)
end
task:await()
pool:close()
";
    folder.0.write("copies.lua", program);
    let stack = |what: &str, rounds: &str| {
        let output = folder.run(&[what, "-o", "a.folded", "copies.lua", rounds]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        folder.0.text("a.folded")
    };
    let folded = stack("alloc", "10");
    let of = |start: &str| -> u64 {
        let lines = folded.lines().filter(|l| l.starts_with(start));
        lines.map(|l| l.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    };
    // A table with an element takes some eighty bytes; samples are a matter of luck, so a third is asked for.
    let sent = of("(copied in, sent by copies.lua:7) ");
    assert!(sent > 10 * 20000 * 80 / 3, "{folded}");
    // What a running function receives is below it.
    let received = folded
        .lines()
        .find(|l| l.starts_with("(task);") && l.contains(";(copied in, sent by copies.lua:12) "));
    assert!(received.is_some_and(|l| l.contains("copies.lua:10)")), "{folded}");
    let folded = stack("cpu", "60");
    assert!(folded.contains("main chunk (copies.lua:0);async;(copied out) "), "{folded}");
    assert!(folded.lines().any(|l| l.starts_with("(copied in, sent by copies.lua:7) ")), "{folded}");
}
