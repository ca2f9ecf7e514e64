//! `perilune explain`: what it says of programs whose fate is known. No figure of time is looked at.

use perilune_test::{Folder, Json, Limited, text};
use serde_json::Value;
use std::process::{Command, Output, Stdio};

struct Place(Folder);

impl Place {
    fn new(script: &str) -> Place {
        Place(Folder::with([("a.lua", script)]))
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
        command.arg("explain").args(words).current_dir(&self.0).stdin(Stdio::null());
        Limited::run(command.env_remove("PERILUNE_SPESH"))
    }
}

const SCRIPT: &str = "\
local function add(a, b) return a + b end
local function sum(list)
  local total = 0
  for i = 1, #list do
    total = add(total, list[i])
  end
  return total
end
local list = {}
for i = 1, 1000 do list[i] = i end
local all = 0
for round = 1, 3000 do
  if round == 1500 then list[500] = 0.5 end
  all = all + sum(list)
end
print(all)
os.exit(tonumber(arg[1]) or 0)
";

#[test]
fn what_was_compiled_and_inlined_and_which_guard_failed() {
    let folder = Place::new(SCRIPT);
    // All functions: few samples may be in one of them alone.
    let output = folder.run(&["--all", "--mode", "blocking", "a.lua", "3"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "the script's exit code: {}", text(&output.stderr));
    if said.contains("no machine code:") {
        return;
    }
    for part in [
        "compiled: the function",
        "inlined: the function at a.lua:1",
        "left machine code",
        "total = add(total, list[i])",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn switches_of_coroutines_are_not_taken_for_what_is_not_compiled() {
    let folder = Place::new(
        "\
local co = coroutine.wrap(function()
  local i = 0
  while true do
    i = i + 1
    coroutine.yield(i)
  end
end)
local s = 0
for i = 1, 8000000 do
  s = s + co()
end
print(s)
",
    );
    let output = folder.run(&["--all", "--mode", "auto", "a.lua"]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    if said.contains("no machine code:") {
        return;
    }
    assert!(said.contains("goes on in another coroutine (`yield`)"), "{said}");
    assert!(said.contains("compiled: loops in lines 9 to 10"), "{said}");
    for wrong in ["in none that was hot", "not built into machine code"] {
        assert!(!said.contains(wrong), "{wrong}: {said}");
    }
}

/// A field, a variable that a function refers to, and a parameter change the kind of number.
const KINDS: &str = "\
local Account = {}
Account.__index = Account
local function new(b) return setmetatable({ balance = b }, Account) end
local rate = 1.5
local function interest(a) for _ = 1, 2 do local _ = a end return a.balance * rate end
local function pay(a, x) for k = 1, 2 do a.balance = a.balance + x end return a.balance end
local list = {}
for i = 1, 200 do list[i] = new(i > 100 and i + 0.5 or i) end
local s = 0
for r = 1, 900 do
  if r == 600 then rate = 2 end
  for i = 1, r > 300 and 200 or 100 do s = s + interest(list[i]) + pay(list[i], r > 300 and i > 100 and 0.5 or 1) end
end
print(s)
";

#[test]
fn numbers_of_two_kinds_are_named() {
    let folder = Place::new(KINDS);
    let said = folder.run(&["--all", "--mode", "blocking", "a.lua"]);
    let said = text(&said.stdout);
    if said.contains("no machine code:") {
        return;
    }
    for part in
        ["`a.balance` was always integer, and then float", "`rate` was always float, and then integer"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
}

/// Now and then a list that minds what is stored into it.
const MINDS: &str = "\
local function add(l, v) table.insert(l, v) return #l end
local odd, n = setmetatable({}, { __newindex = rawset }), 0
for i = 1, 60000 do
  local l = i % 40 == 0 and i > 1000 and odd or {}
  n = n + add(l, i)
end
print(n)
";

#[test]
fn a_library_function_that_gets_other_arguments_is_not_taken_for_another_function() {
    let folder = Place::new(MINDS);
    let said = folder.run(&["--all", "--mode", "blocking", "a.lua"]);
    let said = text(&said.stdout);
    if said.contains("no machine code:") {
        return;
    }
    assert!(said.contains("`insert` got arguments that it takes the long way for"), "{said}");
    assert!(!said.contains("another function"), "{said}");
}

const VECTORS: &str = "\
local V = {}
V.__index = V
local function vec(x) return setmetatable({ x = x }, V) end
V.__add = function(a, b) return vec(a.x + b.x) end
local total, kept = 0, nil
for i = 1, 100000 do
  total = total + (vec(i) + vec(1)).x
  kept = vec(i)
end
print(total, kept.x)
";

#[test]
fn tables_that_are_not_made_are_named() {
    let folder = Place::new(VECTORS);
    let json = Value::parse(text(&folder.run(&["--json", "--mode", "blocking", "a.lua"]).stdout));
    if json.at("unavailable").is_null() {
        let decisions = json.list("functions").iter().flat_map(|f| f.list("decisions"));
        let all: Vec<&Value> = decisions.flat_map(|d| d.list("unmade")).collect();
        assert!(
            all.iter().any(|table| table.number("line") == 7.0 && table.at("made").is_null()),
            "{json:?}"
        );
    }
}

#[test]
fn json_is_alone_on_standard_output() {
    let folder = Place::new(SCRIPT);
    let output = folder.run(&["--json", "--mode", "blocking", "a.lua"]);
    let json = Value::parse(text(&output.stdout));
    assert!(text(&output.stderr).lines().any(|line| line.parse::<f64>().is_ok()), "what the script printed");
    let functions = json.list("functions");
    let sum = functions.iter().find(|f| f.text("source") == "a.lua" && f.number("defined") == 2.0);
    // Where there is no machine code the function is known by its samples alone, if there are any.
    if json.at("unavailable").is_null() {
        assert!(!sum.unwrap().list("decisions").is_empty(), "{json:?}");
    }
}

#[test]
fn an_error_ends_the_program_and_not_the_report() {
    let folder = Place::new(&SCRIPT.replace("os.exit(tonumber(arg[1]) or 0)", "error 'over'"));
    let output = folder.run(&["--mode", "blocking", "a.lua"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("over"));
    assert!(text(&output.stdout).contains("(mode blocking)"), "{}", text(&output.stdout));
    let output = folder.run(&["--mode", "fast", "a.lua"]);
    assert_eq!(output.status.code(), Some(2));
}

const MODULE: &str = "\
local M = {}
function M.sum(n)
  local s = 0
  for i = 1, n do s = s + i % 7 end
  return s
end
return M
";

/// Domains that all have the module at the same time, one after the other.
const REQUIRES: &str = "\
local pl = require 'perilune'
package.path = './?.lua'
local done, stop, domains = pl.channel.new(1), pl.channel.new(1), {}
for i = 1, 8 do
  domains[i] = pl.domain.spawn(function()
    local module, s = require 'module', 0
    for k = 1, 50 do s = s + module.sum(200) end
    done:send(s)
    stop:recv()
  end)
  assert(done:recv() == 29900)
end
stop:close()
for _, domain in ipairs(domains) do domain:join() end
";

#[test]
fn a_module_that_eight_domains_require_is_not_compiled_by_each() {
    let folder = Folder::with([("module.lua", MODULE), ("a.lua", REQUIRES)]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
    command.arg("a.lua").current_dir(&folder).stdin(Stdio::null());
    command.env("PERILUNE_SPESH", "blocking:2:60").env("PERILUNE_SPESH_LOG", "log.txt");
    let output = Limited::run(&mut command);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let log = std::fs::read_to_string(folder.join("log.txt")).unwrap_or_default();
    let compiled = log.lines().filter(|l| l.starts_with("./module.lua:2:") && l.contains(" bytes in "));
    // Its loop, then all of it, and perhaps once more for what the second domain has met. None where there
    // is no machine code.
    assert!(compiled.count() < 8, "{log}");
}

/// A writer that goes on with what a table has for a type: functions of its own at first, and then one of the
/// library as well.
const WRITES: &str = "\
local function text(v) return \"'\" .. v .. \"'\" end
local by_type = { string = text, boolean = tostring, number = text }
local function write(v)
  local f = by_type[type(v)]
  if f then return f(v) end
  error('no ' .. type(v))
end
local function all(t)
  local out = {}
  for i = 1, #t do out[#out + 1] = write(t[i]) end
  return table.concat(out, ',')
end
local few, more = { 'a', 1, 'b', 2 }, { 'a', 1, true, 2, 'b', false }
local n = 0
for i = 1, 300 do n = n + #all(few) end
for i = 1, 20000 do n = n + #all(more) end
print(n)
";

#[test]
fn what_has_failed_in_place_is_not_built_in_place_again() {
    let folder = Folder::with([("a.lua", WRITES)]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
    command.arg("a.lua").current_dir(&folder).stdin(Stdio::null());
    command.env("PERILUNE_SPESH", "blocking:2:60").env("PERILUNE_SPESH_LOG", "log.txt");
    let output = Limited::run(&mut command);
    assert_eq!(text(&output.stdout), "524500\n", "{}", text(&output.stderr));
    let log = std::fs::read_to_string(folder.join("log.txt")).unwrap_or_default();
    let compiled = log.lines().filter(|l| l.starts_with("a.lua:9:") && l.contains(" bytes in "));
    // With `write` in its place, and then without. It was made again and again for as long as it ran.
    assert!(compiled.count() <= 3, "{log}");
}

/// Many functions, each of them hot for a while, again and again.
const MANY: &str = "\
local parts = {}
for k = 1, 120 do
  parts[k] = load(([[
    local k = %d
    local function step(t, i)
      t[i %% 8 + 1] = (t[i %% 8 + 1] or 0) + i * k
      return (t[1] or 0) + (t.x or 0)
    end
    return function(n)
      local t, s = {x = k}, 0
      for i = 1, n do
        s = s + step(t, i)
        if s > 1e9 then s = s - 1e9 end
        if i %% 3 == 0 then t.x = i elseif i %% 5 == 0 then t.y = i end
      end
      return s
    end]]):format(k), '=part' .. k)()
end
local total, ends = 0, os.clock() + 0.4
for round = 1, math.huge do
  for k = 1, #parts do
    local s = parts[k](1000)
    assert(s == parts[k](1000))
    total = total + s
  end
  if round >= 2 and os.clock() > ends then break end
end
print(total > 0)
";

#[test]
fn what_has_not_run_for_longest_makes_room() {
    let folder = Folder::with([("a.lua", MANY)]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
    command.arg("a.lua").current_dir(&folder).stdin(Stdio::null());
    command.env("PERILUNE_SPESH", "blocking:50:2000").env("PERILUNE_SPESH_LOG", "log.txt");
    command.env("PERILUNE_SPESH_ROOM", "64");
    let output = Limited::run(&mut command);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "true\n");
    let log = std::fs::read_to_string(folder.join("log.txt")).unwrap_or_default();
    let is_compiled = |line: &&str| line.contains(" bytes in ");
    if log.lines().any(|line| is_compiled(&line)) {
        let full = log.lines().position(|line| line.contains("no room")).expect("64 KiB are not enough");
        let later = log.lines().skip(full).filter(is_compiled).count();
        assert!(later > 0, "nothing has made room: {log}");
    }
    command.env("PERILUNE_SPESH_ROOM", "12");
    let output = Limited::run(&mut command);
    assert!(text(&output.stderr).contains("PERILUNE_SPESH_ROOM: '12' is no number of KiB from 64 to 65536"));
}

#[test]
fn a_function_is_as_large_as_what_of_it_has_run() {
    let long: String = (2..500).map(|n| format!("    s = s + i % {n}\n")).collect();
    let script = format!(
        "local function all(i)\n  local s = 0\n{long}  return s\nend
local function some(i)\n  local s = i\n  if i < 0 then\n{long}  end\n  return s\nend
local t = 0
for i = 1, 300 do
  t = t + all(i)
  for k = 1, 300 do t = t + some(k) end
end
print(t)"
    );
    let folder = Folder::with([("a.lua", script.as_str())]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
    command.arg("a.lua").current_dir(&folder).stdin(Stdio::null());
    command.env("PERILUNE_SPESH", "blocking:20:5000").env("PERILUNE_SPESH_LOG", "log.txt");
    let output = Limited::run(&mut command);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let log = std::fs::read_to_string(folder.join("log.txt")).unwrap_or_default();
    let of = |line: u32| -> Vec<&str> {
        log.lines().filter(|l| l.starts_with(&format!("a.lua:{line}: the function"))).collect()
    };
    if log.contains(" bytes in ") {
        assert!(of(2).iter().any(|line| line.contains("not compiled, too large")), "{log}");
        assert!(of(504).iter().any(|line| line.contains(" bytes in ")), "{log}");
    }
}

/// The events of compiling that a script brings about, a line each.
fn events_of_compiling(script: &str) -> String {
    let folder = Folder::with([("a.lua", script)]);
    let perilune = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
        command.args(words).current_dir(&folder).stdin(Stdio::null()).env_remove("PERILUNE_SPESH");
        Limited::run(&mut command)
    };
    let recorded = perilune(&["trace", "record", "-o", "out.plt", "--events", "compile", "a.lua"]);
    assert!(recorded.status.success(), "{}", text(&recorded.stderr));
    let events = perilune(&["trace", "dump", "out.plt"]);
    text(&events.stdout)
}

/// Half of it is machine code soon, the other half library functions.
const HALF: &str = "\
local function f(n)
  local s = 0
  for i = 1, n do s = s + i % 7 end
  return s
end
local function g(k)
  local t = {}
  for i = 1, 30 do t[i] = string.format('%d %s', i, k) end
  return #table.concat(t)
end
local total, ends = 0, os.clock() + 1.5
while os.clock() < ends do
  for k = 1, 20 do total = total + f(300) + g(k) end
end
";

#[test]
fn what_has_its_machine_code_is_hardly_recorded_any_more() {
    let events = events_of_compiling(HALF);
    // Sixteen at rest. When what there was already counted as news it was two hundred.
    let queued = events.lines().filter(|line| line.contains("compile-queued")).count();
    assert!(queued < 80, "{queued} recordings in a second and a half");
}

/// All of it is one loop, with small functions that are built in place.
const IN_PLACE: &str = "\
local V = {}
V.__index = V
local function vec(x, y) return setmetatable({ x = x, y = y }, V) end
function V:plus(o) return vec(self.x + o.x, self.y + o.y) end
function V:dot(o) return self.x * o.x + self.y * o.y end
local v, sum, ends = vec(0.5, 0.25), 0.0, os.clock() + 1
for i = 1, 1000000000 do
  sum = sum + v:plus(v):dot(v)
  if i % 1000 == 0 and os.clock() > ends then break end
end
";

#[test]
fn what_polls_in_functions_built_in_place_is_machine_code() {
    let events = events_of_compiling(IN_PLACE);
    let count = |what: &str| events.lines().filter(|line| line.contains(what)).count();
    // Two to five. When a poll at a call in a loop counted as interpreted it was sixteen and more.
    let queued = count("compile-queued");
    assert!(queued < 12, "{queued} recordings in a second: {events}");
    let is_compiled = queued > 0 && count("compile-end") > 0;
    let in_place = count("in place where it is called");
    assert!(
        !is_compiled || in_place > 0,
        "functions that only the loop calls have code of their own: {events}"
    );
}
