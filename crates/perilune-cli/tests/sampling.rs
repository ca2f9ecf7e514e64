//! The samplers: programs that know what their parts cost are attributed as they say, and sampling changes
//! nothing about what a program does.
//!
//! A program measures its parts itself, by its processor time and by what it has allocated; the samples have
//! to say the same within three hundredths of the whole. All is processor time, so that a busy machine does
//! not matter.

use perilune_see::Trace;
use perilune_see::tool::Target;
use perilune_test::{Folder, Limited, text};
use perilune_trace::Kind;
use perilune_trace::layout::Geometry;
use perilune_trace::session::Options;
use std::collections::{HashMap, HashSet};
use std::process::{Command, Stdio};
use std::time::Duration;

/// What a part of a program may be off by.
const TOLERANCE: f64 = 0.03;

struct Run {
    trace: Trace,
    stdout: String,
}

/// The command with a program, in a folder of its own; what it prints goes to the file `out`.
fn command(program: &str) -> (Command, Folder) {
    let folder = Folder::with([("program.lua", program)]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
    command.current_dir(&folder).arg("program.lua").stdin(Stdio::null());
    command.stdout(std::fs::File::create(folder.join("out")).unwrap());
    (command, folder)
}

fn options(cpu_hz: u32, alloc_interval: u64) -> Options {
    let geometry = Geometry { rings: 16, ring_events: 1 << 18, ..Geometry::default() };
    Options { categories: 0, cpu_hz, alloc_interval, geometry }
}

/// Runs a program to its end under the samplers.
fn run(program: &str, options: &Options, env: &[(&str, &str)]) -> Run {
    let (mut command, folder) = command(program);
    command.envs(env.iter().copied());
    let mut target = Target::spawn(command, options).unwrap();
    target.wait(Duration::from_secs(300));
    let trace = Trace::from_ring_file(target.path()).unwrap();
    assert!(target.status().is_some_and(|s| s.success()), "{:?}", target.status());
    let stdout = folder.text("out");
    assert_eq!(trace.lost, 0);
    Run { trace, stdout }
}

impl Run {
    /// Lines "name number" of the output, as shares of their sum.
    fn known_shares(&self) -> Vec<(String, f64)> {
        let parts: Vec<(String, f64)> = self
            .stdout
            .lines()
            .filter_map(|line| line.split_once(' '))
            .map(|(name, number)| (name.to_owned(), number.parse().unwrap()))
            .collect();
        let sum: f64 = parts.iter().map(|p| p.1).sum();
        parts.into_iter().map(|(name, x)| (name, x / sum)).collect()
    }

    /// Call paths of samples of a kind, names of functions from the outermost to the innermost, with weight
    /// and `c`.
    fn samples(&self, kind: Kind) -> Vec<(Vec<String>, f64, u16)> {
        let d = &self.trace.definitions;
        let events = self.trace.events.iter().filter(|e| e.kind == kind);
        events
            .map(|e| {
                let mut path: Vec<String> =
                    d.frames(e.a as u32).map(|f| d.string(f.function as u64)).collect();
                path.reverse();
                (path, e.b as f64, e.c)
            })
            .collect()
    }

    /// The samples' shares agree with the program's own figures.
    fn check_shares(&self, kind: Kind) {
        let samples = self.samples(kind);
        let sum: f64 = samples.iter().map(|s| s.1).sum();
        assert!(samples.len() > 300, "only {} samples", samples.len());
        for (name, known) in self.known_shares() {
            let of_part = samples.iter().filter(|s| s.0.contains(&name));
            let found = of_part.map(|s| s.1).sum::<f64>() / sum;
            assert!(
                (found - known).abs() < TOLERANCE,
                "{name}: {known:.3} of the whole, the samples say {found:.3}"
            );
        }
    }

    /// Of the weight below function `name`: how much has `leaf` innermost.
    fn leaf_share(&self, kind: Kind, name: &str, leaf: &str) -> f64 {
        let (mut all, mut of_leaf) = (0.0, 0.0);
        for (path, weight, _) in self.samples(kind) {
            if path.iter().any(|f| f == name) {
                all += weight;
                of_leaf += if path.last().is_some_and(|f| f == leaf) { weight } else { 0.0 };
            }
        }
        of_leaf / all
    }
}

const PARTS: &str = r#"
function half(n) local s = 0 for i = 1, n do s = s + i % 7 end return s end
function third(n)
  local s = 0
  local i = 0
  while i < n do
    s = s + i % 7
    i = i + 1
  end
  return s
end
function leaf(x) return x % 7 end
function caller(n) local s = 0 for i = 1, n do s = s + leaf(i) end return s end
function repeating(n) for i = 1, n do local s = string.rep("x", 20000) end end
function by_pattern(n) local text = ("x"):rep(300) for i = 1, n do text:gsub("(x-)y%1", "") end end
local live = {}
for i = 1, 20000 do live[i] = {i} end
function collecting() collectgarbage() end
function in_coroutine(n) local s = 0 for i = 1, n do s = s + i % 3 end return s end
local co = coroutine.wrap(function()
  while true do
    in_coroutine(300000)
    coroutine.yield()
  end
end)
function resuming() co() end
function failing(n) for i = 1, n do pcall(error, "no") end end
"#;

const CPU: &str = r#"
local spent, order = {}, {}
local function time(name, f, n)
  local t = os.clock()
  f(n)
  t = os.clock() - t
  if not spent[name] then
    order[#order + 1] = name
  end
  spent[name] = (spent[name] or 0) + t
end
local began = os.clock()
while os.clock() - began < 5 do
  -- Each takes several ticks of the coarsest clock there is.
  time("half", half, 20000000)
  time("third", third, 6000000)
  time("caller", caller, 3000000)
  time("repeating", repeating, 20000)
  time("by_pattern", by_pattern, 200)
  time("collecting", function() for i = 1, 20 do collecting() end end)
  time("resuming", function() for i = 1, 20 do resuming() end end)
  time("failing", failing, 100000)
end
for _, name in ipairs(order) do
  print(name .. " " .. spent[name])
end
"#;

#[test]
fn processor_time_goes_to_whom_it_belongs() {
    // What is garbage of one part and collected in another is charged to the other, here as there.
    for hz in [997, 4000] {
        let run = run(&[PARTS, CPU].concat(), &options(hz, 0), &[]);
        run.check_shares(Kind::CpuSample);
        let share = |name, leaf| run.leaf_share(Kind::CpuSample, name, leaf);
        assert!(share("repeating", "string.rep") > 0.5, "{}", share("repeating", "string.rep"));
        assert!(share("by_pattern", "string.gsub") > 0.8, "{}", share("by_pattern", "string.gsub"));
        assert!(share("collecting", "(garbage collector)") > 0.9);
        let leaf = share("caller", "leaf");
        assert!((0.1..0.8).contains(&leaf), "{leaf}");
        assert!(share("resuming", "in_coroutine") > 0.9);
        // All time of the main thread is in the samples, but for its beginning and its end.
        let sum: f64 = run.samples(Kind::CpuSample).iter().map(|s| s.1).sum();
        assert!(sum > 4.9e9, "{sum}");
    }
}

#[test]
fn lines_are_those_that_take_the_time() {
    let program = "
local function f()
  local s = 0
  for i = 1, 3e8 do
    s = s + i // 3
  end
  return s
end
f()
";
    let run = run(program, &options(997, 0), &[]);
    let d = &run.trace.definitions;
    let (mut inside, mut sum) = (0, 0);
    for e in run.trace.events.iter().filter(|e| e.kind == Kind::CpuSample) {
        sum += e.b;
        let node = d.frames(e.a as u32).next().unwrap();
        if d.string(node.function as u64) == "f" && matches!(node.line, 4 | 5) {
            inside += e.b;
        }
    }
    assert!(inside as f64 > 0.97 * sum as f64, "{inside} of {sum}");
}

#[test]
fn natives_without_frames_have_their_names() {
    // Machine code calls their quick forms, in which there is no frame to be found.
    let program = r#"
local text = ("x"):rep(3000) .. "needle"
local function find(n)
  for i = 1, n do
    local from, to = text:find("needle", 1, true)
  end
end
local function format(n)
  for i = 1, n do
    local s = string.format("%5d %s %x", i, "abc", i)
  end
end
local spent = {0, 0}
while spent[1] + spent[2] < 2.5 do
  local began = os.clock()
  find(160000)
  local between = os.clock()
  format(100000)
  spent[1], spent[2] = spent[1] + between - began, spent[2] + os.clock() - between
end
print("find " .. spent[1])
print("format " .. spent[2])
"#;
    let run = run(program, &options(997, 0), &[("PERILUNE_SPESH", "auto")]);
    run.check_shares(Kind::CpuSample);
    for (name, native, line) in [("find", "string.find", 5), ("format", "string.format", 10)] {
        let share = run.leaf_share(Kind::CpuSample, name, native);
        assert!(share > 0.6, "{name}: {share}");
        let d = &run.trace.definitions;
        let samples = run.trace.events.iter().filter(|e| e.kind == Kind::CpuSample);
        for e in samples {
            let mut frames = d.frames(e.a as u32);
            if frames.next().is_some_and(|f| d.string(f.function as u64) == native) {
                assert_eq!(frames.next().map(|f| f.line), Some(line), "{name}");
            }
        }
    }
}

#[test]
fn what_is_interpreted_for_machine_code_has_its_own_lines() {
    // Too large to be compiled, and called by a loop that is.
    let long: String = (2..900).map(|n| format!("  s = s + i % {n}\n")).collect();
    let program = format!(
        "local function large(i)\n  local s = 0\n{long}  return s\nend
local function run(n)
  local s = 0
  for i = 1, n do
    for k = 1, 300 do s = s + k * i end
    pcall(large, i)
  end
end
run(100000)"
    );
    let run = run(&program, &options(997, 0), &[("PERILUNE_SPESH", "auto")]);
    let d = &run.trace.definitions;
    let (mut inside, mut lines, mut sum) = (0, HashSet::new(), 0);
    for e in run.trace.events.iter().filter(|e| e.kind == Kind::CpuSample) {
        sum += e.b;
        let node = d.frames(e.a as u32).next().unwrap();
        if d.string(node.function as u64) == "large" {
            inside += e.b;
            lines.insert(node.line);
        }
    }
    assert!(inside as f64 > 0.7 * sum as f64, "{inside} of {sum}");
    assert!(lines.len() > 50, "{} lines", lines.len());
}

const ALLOCATION: &str = r#"
local keep = {}
function tables(n) for i = 1, n do local t = {i, i, i, i} end end
function closures(n) for i = 1, n do local f = function() return i end end end
function strings(n) for i = 1, n do local s = "x" .. i .. ("y"):rep(40) end end
function large(n) for i = 1, n do local s = string.rep("ab", 5000 + i % 100) end end
function growing(n) for j = 1, n do local t = {} for i = 1, 1000 do t[i] = i end end end
function inserting(n) for j = 1, n do local t = {} for i = 1, 1000 do table.insert(t, i) end end end
function huge(n) for j = 1, n do local t = {} for i = 1, 300000 do t[i] = i end end end
function holding(n) for i = 1, n do keep[#keep + 1] = {i} end end
local function measure(f, n)
  collectgarbage()
  collectgarbage("stop")
  local before = collectgarbage("count")
  f(n)
  local bytes = collectgarbage("count") - before
  collectgarbage("restart")
  return bytes
end
local parts = {{"tables", 5e5}, {"closures", 5e5}, {"strings", 5e5}, {"large", 1e4}, {"growing", 2e3}, {"inserting", 2e3},
  {"holding", 2e5}}
for _, p in ipairs(parts) do
  print(p[1] .. " " .. measure(_G[p[1]], p[2]))
end
collectgarbage()
collectgarbage()
keep = nil
collectgarbage()
"#;

#[test]
fn bytes_go_to_whom_they_belong() {
    let run = run(ALLOCATION, &options(0, 16 << 10), &[]);
    run.check_shares(Kind::AllocSample);
    assert!(run.leaf_share(Kind::AllocSample, "inserting", "table.insert") > 0.95);
    assert!(run.leaf_share(Kind::AllocSample, "large", "string.rep") > 0.95);
    // The sum is the number of bytes, and nothing is missing of what became of them.
    let known: f64 =
        run.stdout.lines().map(|l| l.split_once(' ').unwrap().1.parse::<f64>().unwrap() * 1024.0).sum();
    let sum: f64 = run.samples(Kind::AllocSample).iter().map(|s| s.1).sum();
    assert!((sum / known - 1.0).abs() < 0.05, "{sum} of {known}");
    let fates = |part: &str, fate| -> f64 {
        let of = run.samples(Kind::AllocFate);
        of.iter().filter(|s| s.0.iter().any(|f| f == part) && s.2 == fate).map(|s| s.1).sum()
    };
    let all = |part: &str| -> f64 {
        let of = run.samples(Kind::AllocSample);
        of.iter().filter(|s| s.0.iter().any(|f| f == part)).map(|s| s.1).sum()
    };
    assert!(fates("tables", 0) > 0.98 * all("tables"));
    assert!(fates("tables", 1) < 0.02 * all("tables"));
    // What is kept outlives its first collection, and dies when nothing holds it any more.
    assert!(fates("holding", 1) > 0.6 * all("holding"), "{} of {}", fates("holding", 1), all("holding"));
    assert!((fates("holding", 2) / fates("holding", 1) - 1.0).abs() < 0.01);
}

#[test]
fn buffers_that_grow_where_they_are_are_counted() {
    let program = [ALLOCATION.split("local parts").next().unwrap(), "huge(20)"].concat();
    let run = run(&program, &options(0, 16 << 10), &[]);
    let sum: f64 = run.samples(Kind::AllocSample).iter().map(|s| s.1).sum();
    // 20 arrays of 300,000 slots: each at least that, at most four times as much for all sizes on the way.
    let least = 20.0 * 300_000.0 * 8.0;
    assert!(sum > 0.9 * least && sum < 6.0 * least, "{sum}, {least}");
}

/// Coroutines, fibers, errors, closing, natives that call back: what they compute must be the same however
/// often they are stopped.
const LIVELY: &str = r#"
local pl = require "perilune"
local log = {}
local function note(...) log[#log + 1] = table.concat({...}, " ") end
local function generate(n) return coroutine.wrap(function() for i = 1, n do coroutine.yield(i, {i}) end end) end
local function sum(n) local s = 0 for i, t in generate(n) do s = s + i + t[1] end return s end
local function deep(n) if n == 0 then error({code = 7}) end return (deep(n - 1)) end
local mt = {__index = function(t, k) return k .. "!" end, __add = function(a, b) return a.x + b.x end,
  __close = function() note("closed") end, __lt = function(a, b) return a.x < b.x end}
local function object(x) return setmetatable({x = x}, mt) end
local function varargs(...) local a, b = ... return select('#', ...), a, b end
for round = 1, ROUNDS do
  note(sum(20))
  local ok, e = pcall(deep, 30)
  note(tostring(ok), e.code)
  do local c <close> = object(1) note(c.missing, c + c) end
  local list = {}
  for i = 1, 20 do list[i] = object((i * 7) % 20) end
  table.sort(list)
  note(list[1].x, list[20].x, varargs(1, nil, 3))
  note((string.gsub("hello world", "%w+", function(w) return w:upper() end)))
  local co = coroutine.create(function() local x <close> = object(2) coroutine.yield(1) error("late") end)
  coroutine.resume(co)
  note(select(2, coroutine.resume(co)))
  note(tostring(coroutine.close(co)))
end
local pool = pl.pool.new { workers = 2 }
local channel = pl.channel.new(2)
local producer = pool:async(function(c) for i = 1, 50 do c:send({i, tostring(i)}) end c:close() return "sent" end, channel)
local n = 0
while true do
  local m = channel:recv()
  if not m then break end
  n = n + m[1]
end
note(n, producer:await())
local tasks = {}
for i = 1, 20 do
  tasks[i] = pool:async(function(i) local s = 0 for j = 1, 2000 do s = s + j % i end if i == 13 then error("unlucky") end return s end, i)
end
for i = 1, 20 do note(select(2, pcall(function() return tostring(tasks[i]:await()):match("^[^\n]*") end))) end
pool:close()
local all = table.concat(log, "\n")
print(#all, all:sub(1, 300))
"#;

#[test]
fn sampling_changes_nothing() {
    let program = |rounds: u32| LIVELY.replace("ROUNDS", &rounds.to_string());
    let plain = |rounds| {
        let output = Limited::run(&mut command(&program(rounds)).0);
        assert!(output.status.success());
        text(&output.stdout)
    };
    let stressed = [("PERILUNE_GC_STRESS", "1"), ("PERILUNE_GC_VERIFY", "1"), ("PERILUNE_GC_POISON", "1")];
    for (name, rounds, env) in [("busy", 2000, &[][..]), ("stressed", 3, &stressed)] {
        let run = run(&program(rounds), &options(5000, 700), env);
        assert_eq!(run.stdout, plain(rounds), "{name}");
        let mut roots = HashMap::new();
        for (path, weight, _) in
            run.samples(Kind::CpuSample).into_iter().chain(run.samples(Kind::AllocSample))
        {
            *roots.entry(path.first().cloned().unwrap_or_default()).or_insert(0.0) += weight;
        }
        let known = ["main chunk", "(task)", "(runtime)"];
        // What comes and goes where no function runs: arguments of a task that begins, results of one that has
        // ended.
        let is_copy = |root: &str| root.starts_with("(copied in, sent by ") || root == "(copied out)";
        let is_known = |root: &str| known.contains(&root) || is_copy(root);
        let others: Vec<_> = roots.keys().filter(|r| !is_known(r)).collect();
        assert!(others.is_empty(), "{name}: {others:?}");
        assert!(roots.contains_key("main chunk") && roots.contains_key("(task)"), "{name}: {roots:?}");
    }
}

#[test]
fn samplers_can_be_switched_at_any_time() {
    let program = "
local function work(n) local s = 0 for i = 1, n do local t = {i} s = s + t[1] % 7 end return s end
local co = coroutine.wrap(function() while true do coroutine.yield(work(1000)) end end)
local first = co()
io.open('ready', 'w'):close()
local rounds = 0
repeat
  for i = 1, 100 do assert(co() == first) end
  rounds = rounds + 1
  local stop = io.open('stop')
until stop
print('good')
";
    let (mut command, folder) = command(program);
    let child = Limited::start_with(&mut command, Stdio::null());
    while !folder.join("ready").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    for turn in 0..4 {
        let mut target = Target::attach(child.id(), &options(1000, 1000)).unwrap();
        for n in 0..250 {
            let options = match n % 5 {
                0 => options(0, 0),
                1 => options(5000, 0),
                2 => options(0, 500),
                3 => options(99, 5000),
                _ => options(997, 0),
            };
            target.set(&options).unwrap();
            std::thread::sleep(Duration::from_micros(n * 37 % 4000));
        }
        target.set(&options(5000, 5000)).unwrap();
        // The last switch holds: samples go on coming.
        let since = Trace::from_ring_file(target.path()).unwrap().end_ns;
        let recent = |kind| {
            let trace = Trace::from_ring_file(target.path()).unwrap();
            trace.events.iter().filter(|e| e.kind == kind && e.ns > since).count() > 3
        };
        for kind in [Kind::CpuSample, Kind::AllocSample] {
            let came = (0..3000).any(|_| {
                std::thread::sleep(Duration::from_millis(100));
                recent(kind)
            });
            assert!(came, "turn {turn}: {kind:?}");
        }
        target.end();
    }
    folder.write("stop", "");
    let ended = child.finish();
    assert!(ended.status.success());
    assert_eq!(text(&ended.stdout), "good\n");
}
