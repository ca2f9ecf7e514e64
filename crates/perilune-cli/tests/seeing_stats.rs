//! `perilune gc-stats` and `perilune latency` over programs that end in all ways there are: the parts add up
//! to the whole, and the whole is the program's time.

use perilune_test::{Folder, Json, Limited};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

// -- Running ------------------------------------------------------------------------------------------------

struct Ran {
    output: Output,
    json: Value,
    wall: Duration,
}

/// A script in a file of its own, and where the command's data go.
fn files(script: &str) -> (Folder, PathBuf, PathBuf) {
    let folder = Folder::new();
    let file = folder.write("script.lua", script);
    let out = folder.join("out");
    (folder, file, out)
}

fn run(command: &str, name: &str, script: &str) -> Ran {
    let (_folder, file, out) = files(script);
    let begun = Instant::now();
    let mut line = Command::new(env!("CARGO_BIN_EXE_perilune"));
    let output = Limited::run(line.args([command, "--json", "-o"]).args([&out, &file]));
    let wall = begun.elapsed();
    let text = std::fs::read_to_string(&out)
        .unwrap_or_else(|e| panic!("{name}: {e}: {}", String::from_utf8_lossy(&output.stderr)));
    Ran { output, json: Value::parse(text), wall }
}

/// Parts add up: those of each domain and those of the total, and the whole is the time that the program
/// took.
fn check(ran: &Ran, name: &str) {
    let json = &ran.json;
    let elapsed = json.ns("elapsed_ns");
    let wall = ran.wall.as_nanos() as u64;
    assert!(elapsed <= wall, "{name}: {elapsed} ns seen of {wall}");
    let domains = json.list("domains");
    let mut sum = 0;
    for d in domains {
        let parts: u64 = d.members("time_ns").keys().map(|s| d.ns(&format!("time_ns.{s}"))).sum();
        assert_eq!(parts, elapsed, "{name}: {d:?}");
        assert_eq!(d.ns("misfitting_events"), 0, "{name}: {d:?}");
        let waited: u64 = d.list("waits").iter().map(|w| w.ns("ns")).sum();
        let waiting = d.ns("time_ns.waiting") + d.ns("time_ns.blocked");
        assert!(waited <= waiting, "{name}: {d:?}");
        let pauses = d.ns("collection.pauses_ns.sum") + d.ns("collection.finalizer_runs_ns.sum");
        let collection = d.ns("collection.work_ns") + d.ns("collection.waiting_ns");
        // Pauses are measured by their ends, collection by states: they see the same, but for a pause in
        // which the process ended.
        let off = pauses.abs_diff(collection);
        let ended = !d.at("ended_ns").is_null();
        // Between a look at the clock and the other the machine may do something else for a while.
        assert!(!ended || off <= elapsed / 3, "{name}: pauses {pauses}, collection {collection}");
        assert!(pauses <= collection + elapsed / 3, "{name}: pauses {pauses}, collection {collection}");
        sum += parts;
    }
    let total: u64 =
        json.members("total.time_ns").keys().map(|s| json.ns(&format!("total.time_ns.{s}"))).sum();
    assert_eq!(total, sum);
    assert_eq!(json.ns("lost_events"), 0);
}

fn domain<'a>(ran: &'a Ran, name: &str) -> &'a Value {
    let is = |d: &&Value| d.text("name").contains(name);
    ran.json.list("domains").iter().find(is).unwrap_or_else(|| panic!("no domain {name}: {:?}", ran.json))
}

const MS: u64 = 1_000_000;

const DOMAINS: &str = r#"
local pl = require "perilune"
local pool = pl.pool.new{workers = 2, name = "mill"}
local tasks = {}
for n = 1, 12 do
  tasks[n] = pool:async(function(n)
    local t = {}
    for j = 1, 20000 do t[j % 1000] = {j, n} end
    return #t
  end, n)
end
for n = 1, 12 do tasks[n]:await() end
local lazy = pl.domain.spawn(function()
  local pl = require "perilune"
  pl.sleep(0.15)
end)
lazy:join()
io.popen("sleep 0.2"):close()
for n = 1, 50 do setmetatable({}, {__gc = function() end}) end
collectgarbage()
"#;

#[test]
fn domains_that_work_sleep_and_block() {
    let ran = run("gc-stats", "domains", DOMAINS);
    assert!(ran.output.status.success(), "{}", String::from_utf8_lossy(&ran.output.stderr));
    check(&ran, "domains");
    let main = domain(&ran, "main");
    // The collector's part of a wait is none; what was waited for has names. A child's end is waited for
    // without the thread, where others may run.
    assert!(main.ns("time_ns.blocked") + main.ns("time_ns.waiting") >= 330 * MS, "{main:?}");
    assert!(main.ns("collection.full") >= 1 && main.ns("collection.finalizers") >= 50);
    let waits = main.list("waits");
    assert!(waits.iter().any(|w| w.text("for").contains("joins")), "{waits:?}");
    assert!(waits.iter().any(|w| w.ns("ns") >= 190 * MS), "{waits:?}");
    assert!(waits.iter().any(|w| w.text("for").contains("task")), "{waits:?}");
    // Twelve tasks made 20,000 tables each, in the two domains of the pool; what lives on is a thousand.
    let mills: Vec<&Value> =
        ran.json.list("domains").iter().filter(|d| d.at("name") != main.at("name")).collect();
    let of = |path| mills.iter().map(|d| d.ns(path)).sum::<u64>();
    assert!(of("memory.allocated_bytes") >= 12 * 20_000 * 16, "{}", of("memory.allocated_bytes"));
    assert!(of("collection.minors_ns.count") >= 10);
    assert!(of("memory.promoted_bytes") < of("memory.allocated_bytes"));
    assert!(of("time_ns.idle") > 0);
    assert!(mills.iter().any(|d| d.ns("time_ns.waiting") >= 140 * MS), "the domain that sleeps: {mills:?}");
}

#[test]
fn what_is_copied_between_domains_is_told_with_its_place() {
    let script = "local pl = require 'perilune'
local pool = pl.pool.new { workers = 2 }
local big = {}
for i = 1, 100 do big[i] = 'element ' .. i end
for _ = 1, 20 do
  pool:async(function(t) return #t end, big):await()
end
local c = pl.channel.new()
c:send({ 1, 2, 3 })
c:recv()
pool:close()
";
    let ran = run("gc-stats", "copies", script);
    assert!(ran.output.status.success(), "{}", String::from_utf8_lossy(&ran.output.stderr));
    check(&ran, "copies");
    let main = domain(&ran, "main");
    // Twenty tasks and a message left, the message came back; what a task returns is a number, and no copy.
    assert_eq!((main.ns("memory.copied_out"), main.ns("memory.copied_in")), (21, 1));
    assert_eq!(ran.json.ns("total.memory.copied_in"), 21);
    assert_eq!(ran.json.ns("total.memory.copied_in_bytes"), ran.json.ns("total.memory.copied_out_bytes"));
    let sent = ran.json.list("sent");
    let place = |n: usize| sent[n].text("place").rsplit('/').next().unwrap_or("").to_owned();
    assert_eq!((place(0), place(1)), ("script.lua:6".to_owned(), "script.lua:9".to_owned()), "{sent:?}");
    assert_eq!((sent[0].ns("times"), sent[1].ns("times"), sent.len()), (20, 1, 2));
    assert!(sent[0].ns("bytes") > 20 * 1000, "{sent:?}");
}

#[test]
fn programs_that_end_in_other_ways() {
    let burn = "local t = {} for n = 1, 3e5 do t[n % 1000] = {n} end\n";
    let with_domain = "local pl = require 'perilune'
        pl.domain.spawn(function() local t = {} for n = 1, 1e9 do t[n % 1000] = {n} end end)
        pl.sleep(0.1)\n";
    let cases = [
        ("exit", format!("{burn}os.exit(7)"), 7),
        ("exit-close", format!("{burn}os.exit(8, true)"), 8),
        ("error", format!("{burn}error('over')"), 1),
        ("killed", format!("{burn}os.execute('kill -9 $PPID')"), 137),
        ("exit-others-run", format!("{with_domain}os.exit(9)"), 9),
        ("killed-others-run", format!("{with_domain}os.execute('kill -9 $PPID')"), 137),
    ];
    for (name, script, code) in cases {
        let ran = run("gc-stats", name, &script);
        assert_eq!(
            ran.output.status.code(),
            Some(code),
            "{name}: {}",
            String::from_utf8_lossy(&ran.output.stderr)
        );
        check(&ran, name);
        let main = domain(&ran, "main");
        assert!(main.ns("time_ns.lua") > MS / 10, "{name}: {main:?}");
        if !name.ends_with("run") {
            assert!(main.ns("memory.allocated_bytes") > 2_000_000, "{name}");
            assert!(main.ns("collection.minors_ns.count") > 0, "{name}");
        }
    }
}

#[test]
fn processor_time_is_that_of_the_process() {
    // Busy and alone in its process, so what the process used is what its domain used.
    let script = "local t = {} repeat for n = 1, 1e4 do t[n % 500] = {n} end until os.clock() > 0.4
        io.write(string.format('%d', os.clock() * 1e9 // 1))";
    let ran = run("gc-stats", "clock", script);
    check(&ran, "clock");
    let clock: u64 = String::from_utf8_lossy(&ran.output.stdout).parse().unwrap();
    let cpu = ran.json.ns("total.cpu_ns");
    // What the process did before it was a domain, and what clocks of two kinds differ by.
    assert!(
        cpu.abs_diff(clock) < clock / 10 + 15 * MS,
        "{cpu} of {clock} ns: {:?}",
        ran.json.at("total.time_ns")
    );
}

#[test]
fn tables_for_people_go_to_standard_output() {
    let (_folder, file, _) = files(DOMAINS);
    for (command, words) in [
        ("gc-stats", ["elapsed", "pauses", "survival", "'mill"]),
        ("latency", ["pause", "task-queue", "timer-late", "where"]),
    ] {
        let output = Limited::run(Command::new(env!("CARGO_BIN_EXE_perilune")).arg(command).arg(&file));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        for word in words {
            assert!(text.contains(word), "{command}: no {word} in\n{text}");
        }
        assert!(!text.contains('\u{1b}'), "colour in a pipe");
    }
}

#[test]
fn latency_knows_what_was_slow_and_where() {
    let ran = run(
        "latency",
        "latency",
        "local pl = require 'perilune'
local pool = pl.pool.new{workers = 1}
local function work() local t = {} for n = 1, 3e5 do t[n] = {n} end end
local a, b = pool:async(work), pool:async(function() return 1 end)
a:await() b:await()
pl.sleep(0.02)
collectgarbage()
",
    );
    assert!(ran.output.status.success(), "{}", String::from_utf8_lossy(&ran.output.stderr));
    let json = &ran.json;
    assert_eq!(json.ns("delays.task-queue.count"), 2);
    assert_eq!(json.ns("delays.task-time.count"), 2);
    assert!(json.ns("delays.pause.count") > 2 && json.ns("delays.timer-late.count") >= 1);
    assert!(json.ns("delays.pause.p50_ns") <= json.ns("delays.pause.max_ns"));
    // The second task waited for the first, which took as long as that.
    let slowest = json.list("slowest");
    let queued = slowest.iter().find(|s| s.text("what") == "task-queue").unwrap();
    assert!((queued.text("where").ends_with("script.lua:4")), "{queued:?}");
    assert!(queued.ns("ns") <= json.ns("delays.task-time.max_ns") + json.ns("delays.task-queue.max_ns"));
    assert!(slowest.windows(2).all(|two| two[0].ns("ns") >= two[1].ns("ns")) && slowest.len() <= 30);
    let pauses = slowest.iter().filter(|s| s.text("what") == "pause");
    let known = |s: &Value| s.text("where").contains("script.lua");
    let long: Vec<&Value> = pauses.filter(|s| s.ns("ns") > 300_000).collect();
    assert!(long.iter().all(|s| known(s)), "{long:?}");
}

#[test]
fn one_that_runs_is_watched_for_a_while() {
    let (_folder, file, out) = files("local t = {} while true do for n = 1, 1e4 do t[n % 500] = {n} end end");
    let mut child = Limited::start(Command::new(env!("CARGO_BIN_EXE_perilune")).arg(&file));
    let watch = || {
        let words = ["gc-stats", "--json", "--duration", "3s", "--attach", &child.id().to_string(), "-o"];
        Limited::run(Command::new(env!("CARGO_BIN_EXE_perilune")).args(words).arg(&out))
    };
    // It must have come as far as to expect the signal.
    let mut output = watch();
    for _ in 0..200 {
        if output.status.success() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
        output = watch();
    }
    child.kill();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json = Value::parse(std::fs::read_to_string(&out).unwrap());
    let elapsed = json.ns("elapsed_ns");
    assert!(elapsed >= 2900 * MS, "{elapsed}");
    let main = &json.list("domains")[0];
    let parts: u64 = main.members("time_ns").keys().map(|s| main.ns(&format!("time_ns.{s}"))).sum();
    assert_eq!(parts, elapsed);
    // Unknown until it first said something.
    assert!(main.ns("time_ns.unknown") < elapsed / 2, "{main:?}");
    // Its events lie where they happened.
    assert!(
        main.ns("collection.minors_ns.count") > 10 && main.ns("collection.minors_ns.sum") > 0,
        "{main:?}"
    );
    assert!(main.ns("time_ns.lua") > 0 && main.ns("time_ns.minor") > 0, "{main:?}");
    assert!(main.ns("collection.pauses_ns.sum") <= elapsed);
}
