//! `perilune fibers`: what every fiber of a running program is at. And the names of waits in all tools.

use perilune_test::{Folder, Limited};
use std::process::{Command, Output};

const BIN: &str = env!("CARGO_BIN_EXE_perilune");

/// A folder with a program that runs in it and has said `ready`; it ends when its input does.
struct Place {
    dir: Folder,
    program: Limited,
}

impl Place {
    fn new(script: &str) -> Place {
        let dir = Folder::with([("a.lua", script)]);
        let program = Limited::start(Command::new(BIN).current_dir(&dir).arg("a.lua")).ready();
        Place { dir, program }
    }

    fn run(&self, words: &[&str]) -> Output {
        let pid = self.program.id().to_string();
        Limited::run(Command::new(BIN).args(words).args(["--attach", &pid]).current_dir(&self.dir))
    }

    /// What `perilune fibers` writes.
    fn list(&self, words: &[&str]) -> String {
        let ran = self.run(&[&["fibers"], words].concat());
        assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    }

    /// The program ends by itself.
    fn finish(self) {
        assert!(self.program.finish().status.success());
    }
}

/// Waits of all kinds, until the input ends.
const WAITS: &str = "
local pl, net, process = require 'perilune', require 'perilune.net', require 'perilune.process'
local l = net.listen('127.0.0.1:0')
local jobs, sem, pool = pl.channel.new(0, 'jobs'), pl.semaphore(1), pl.pool.new { workers = 2, name = 'mill' }
pl.scope(function(s)
  s:daemon(function() while true do local c = l:accept() s:daemon(function() c:read() end) end end)
  s:daemon(function() local c = net.connect(l:endpoint()) c:read() end)
  s:spawn(function() jobs:recv() end)
  s:daemon(function() pl.select { jobs, pl.after(300) } end)
  s:daemon(function() process.run { 'sleep', '300' } end)
  s:daemon(function() sem:acquire() sem:acquire() end)
  local f = s:daemon(function() pl.sleep(300) end)
  f:name 'sleeper'
  s:daemon(function() f:await() end)
  s:daemon(function() pool:async(function() require 'perilune'.sleep(300) end):await() end)
  pl.after(0.2, function() print 'ready' io.stdout:flush() end)
  io.read 'a'
  s:cancel()
end)
os.exit(0)
";

#[test]
fn each_wait_says_what_it_is_for() {
    let place = Place::new(WAITS);
    let out = place.list(&[]);
    for wanted in [
        "domain 1 'main': ",
        "waits to accept at listener 127.0.0.1:",
        "waits to read from connection 127.0.0.1:",
        "waits to receive from channel 'jobs' at a.lua:8, for ",
        "waits for one of channel 'jobs', timer of 300 s (a.lua:9) at a.lua:9, for ",
        " (sleep) at a.lua:10, for ",
        "waits to acquire a semaphore of 1 at a.lua:11, for ",
        "sleeps until its time is over at a.lua:12, for ",
        "waits for fiber 'sleeper' at a.lua:14, for ",
        "waits for task 'a.lua:15' at a.lua:15, for ",
        "domain 2 'mill/1': 1 fiber\n",
        "function <a.lua:8> (a.lua:8)",
        "fiber 'sleeper' (a.lua:12) (number ",
    ] {
        assert!(out.contains(wanted), "{wanted:?} is not in\n{out}");
    }
    assert!(out.contains("waits for the end of process "), "{out}");
    assert!(!out.contains("several") && !out.contains("perilune:"), "{out}");
    // The oldest first: the program itself.
    let second = out.lines().nth(1).unwrap();
    assert!(second.starts_with("  the main program, "), "{out}");
    // One of the others.
    let one = place.list(&["--domain", "2"]);
    assert!(one.starts_with("domain 2 'mill/1': 1 fiber\n") && !one.contains("domain 1 '"), "{one}");
    // As JSON each has an entry with its kind.
    let json = place.list(&["--json"]);
    for wanted in [
        "\"does\": \"reads from\"",
        "\"does\": \"accepts at\"",
        "\"does\": \"waits for the end of\"",
        "\"kind\": \"listener\"",
        "\"kind\": \"connection\"",
        "\"kind\": \"process\"",
        "\"place\": \"a.lua:8\"",
        "\"state\": \"waits\"",
    ] {
        assert!(json.contains(wanted), "{wanted:?} is not in\n{json}");
    }
    // The same words in the table of waits, also of those that had begun before the tool came.
    let ran = place.run(&["prof", "offcpu", "--duration", "300ms"]);
    let table = String::from_utf8(ran.stdout).unwrap();
    for wanted in [
        "accepts at listener 127.0.0.1:",
        "reads from connection 127.0.0.1:",
        "receives from channel 'jobs' at a.lua:8 in 'main'",
        "selects from channel 'jobs', timer of 300 s (a.lua:9) at a.lua:9 in 'main'",
        "waits for the end of process ",
    ] {
        assert!(table.contains(wanted), "{wanted:?} is not in\n{table}");
    }
    assert!(!table.contains("several"), "{table}");
    place.finish();
}

#[test]
fn fibers_of_modules_say_what_they_do_and_with_whom() {
    let place = Place::new(
        "local pl, http, net, rpc = require 'perilune', require 'perilune.http', require 'perilune.net', require 'perilune.rpc'
         pl.scope(function(s)
           local begun, peers = pl.channel.new(), {}
           local l = assert(http.server():get('/', function() begun:send(1) pl.sleep(1e6) end):listen '127.0.0.1:0')
           for n = 1, 2 do
             local c = net.connect(l:endpoint())
             c:write 'GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'
             c:flush()
             begun:recv()
             peers[n] = c
           end
           local r = net.listen '127.0.0.1:0'
           rpc.serve(r, { f = function() begun:send(1) require 'perilune'.sleep(1e6) end })
           local client = rpc.connect(r:endpoint())
           s:daemon(function() client:call 'f' end)
           begun:recv()
           local n = net.listen '127.0.0.1:0'
           s:daemon(function() n:serve(function(c) begun:send(1) c:read() end) end)
           local c = net.connect(n:endpoint())
           begun:recv()
           print 'ready' io.stdout:flush()
           io.read 'a'
           s:cancel()
         end)
         os.exit(0)",
    );
    let (table, flat, json) = (place.list(&[]), place.list(&["--flat"]), place.list(&["--json"]));
    for wanted in
        ["2 x http connection, ", "http listener 127.0.0.1:", "rpc listener 127.0.0.1:", "rpc call "]
    {
        assert!(table.contains(wanted), "{wanted:?} is not in\n{table}");
    }
    for wanted in ["http idle timeouts ", "http connection 127.0.0.1:", "rpc connection 127.0.0.1:"] {
        assert!(flat.contains(wanted), "{wanted:?} is not in\n{flat}");
    }
    assert!(flat.contains("  connection 127.0.0.1:") && flat.contains("  listener 127.0.0.1:"), "{flat}");
    assert!(json.contains("\"name\": \"http connection 127.0.0.1:"), "{json}");
    // No line of a module's own source, neither for what a fiber is nor for where it waits.
    assert!(!table.contains("perilune:") && !flat.contains("perilune:"), "{table}\n{flat}");
    place.finish();
}

#[test]
fn ten_thousand_fibers_are_readable() {
    let place = Place::new(
        "local pl = require 'perilune'
         local never = pl.channel.new(0, 'never')
         pl.scope(function(s)
           for i = 1, 10000 do s:daemon(function() never:recv() end) end
           pl.sleep(0.01)
           print 'ready' io.stdout:flush()
           io.read 'a'
         end)",
    );
    let out = place.list(&[]);
    assert!(out.lines().count() < 20, "{out}");
    assert!(out.contains("  10000 x a.lua:4, ") && out.contains("channel 'never' at a.lua:4, for "), "{out}");
    assert_eq!(place.list(&["--json"]).matches("\"fiber\":").count(), 10002);
    // It goes on, and is asked again.
    assert!(place.list(&["--flat", "--top", "3"]).contains("more entries: --top N shows N)"));
    place.finish();
}

#[test]
fn programs_without_domains_and_busy_ones_answer() {
    let place = Place::new(
        "print 'ready' io.stdout:flush()
         local function busy() for i = 1, 1e15 do end end
         busy()",
    );
    let out = place.list(&[]);
    assert!(out.starts_with("domain 1 'main': 1 fiber\n  the main program, "), "{out}");
    assert!(out.contains(" old: runs\n      busy (a.lua:2)\n      main chunk (a.lua:3)\n"), "{out}");

    let place = Place::new(
        "local pl = require 'perilune'
         local up = pl.channel.new(1)
         pl.domain.spawn('busy', function() up:send(true) for i = 1, 1e15 do end end)
         up:recv()
         print 'ready' io.stdout:flush()
         for i = 1, 1e15 do end",
    );
    let out = place.list(&[]);
    assert_eq!(out.matches(" old: runs\n").count(), 2, "{out}");
    assert!(out.contains("domain 2 'busy': 1 fiber\n"), "{out}");
}

#[test]
fn words_that_make_no_sense() {
    let ran = Limited::run(Command::new(BIN).args(["fibers", "a.lua"]));
    assert_eq!(ran.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&ran.stderr).contains("name a process that runs: --attach PID"));
}
