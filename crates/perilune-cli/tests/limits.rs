//! The command where the system gives little: a small native stack, little address space. Programs then fail
//! with an error that Lua code can catch; the process never dies by a signal.

use perilune_test::Limited;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests").join(name)
}

/// Runs the command on a script under a limit that `ulimit` sets.
fn limited(limit: &str, script: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{limit}; exec \"$@\""), "sh", env!("CARGO_BIN_EXE_perilune")]);
    Limited::run(command.arg(script).args(arguments))
}

#[test]
fn chains_and_deep_values_need_no_native_stack() {
    for name in ["chains", "deep"] {
        let out = limited("ulimit -s 256", &script(&format!("parallel/{name}.lua")), &[]);
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.signal(), None, "{name}: {stderr}");
        let expected = std::fs::read(script(&format!("parallel/{name}.out"))).expect("a recording");
        assert!(out.stdout == expected, "{name}: {stderr}{}", String::from_utf8_lossy(&out.stdout));
    }
}

/// Programs that take all the memory there is, each in its way, and then go on.
const GREEDY: &[&str] = &[
    "local t = {} print(pcall(function() for i = 1, 1e9 do t[i] = ('x'):rep(10000) .. i end end))",
    "print(pcall(string.rep, 'x', 1 << 30))",
    "print(pcall(function() local s = 'x' while true do s = s .. s end end))",
    "print(pcall(function() local t = {} for i = 1, 1e9 do t[i] = i end end))",
    "print(pcall(function() local t = {} for i = 1, 1e9 do t['k' .. i] = i end end))",
    "print(pcall(function() local t = {} for i = 1, 1e9 do t[i] = {} end end))",
    "print(pcall(function() local t for i = 1, 1e9 do t = {t, {}} end end))",
    // Old objects are stored into, more and more of them, each time with something new.
    "print(pcall(function() local t = {} for i = 1, 1e9 do t[i] = {} for k = 1, i, i // 1000 + 1 do t[k][1] \
     = {} end end end))",
    "print(pcall(function() local f, e = load(('x = x + 1 '):rep(500000)) error(e, 0) end))",
    "print(pcall(function() local s = ('x'):rep(1 << 20) local t = {} for i = 1, 1000 do t[i] = s end return \
     table.concat(t) end))",
    "print(pcall(function() return ('x'):rep(1 << 22):gsub('x', ('y'):rep(1000)) end))",
    "print(pcall(function() return #io.open('/dev/zero'):read(1 << 30) end))",
    "local json = require 'perilune.json' \
     print(pcall(function() return json.decode('[' .. ('{\"a\":[]},'):rep(3000000) .. '1]') end))",
    "local json = require 'perilune.json' local t = {} for i = 1, 20000 do t[i] = i end local u = {} for i = \
     1, 2000 do u[i] = t end \
     print(pcall(json.encode, u))",
    "local json = require 'perilune.json' local d = json.decoder() \
     print(pcall(function() local s = '[' .. ('x'):rep(1 << 20) while true do d:feed(s)() end end))",
    "local d = require 'perilune.text'.decoder { encoding = 'latin1' } \
     print(pcall(function() local s = ('\\xe9'):rep(1 << 20) while true do d:feed(s)() end end))",
    "print(pcall(function() for line in require 'perilune.text'.lines '/dev/zero' do end end))",
];

const MANY_DOMAINS: &str = "local pl = require 'perilune' local ds, ended = {}, 0 \
     for i = 1, 50 do \
       ds[i] = pl.domain.spawn(function() local t = {} for i = 1, 20000 do t[i] = {i} end return #t end) \
     end \
     for _, d in ipairs(ds) do \
       local ok, e = pcall(d.join, d) assert(ok or tostring(e):find('not enough memory'), e) ended = ended + \
     1 \
     end \
     print(ended)";

#[test]
fn the_end_of_address_space_is_an_error_that_a_program_catches() {
    for kib in [60_000, 200_000] {
        for program in GREEDY {
            let limit = format!("ulimit -v {kib}");
            let out = limited(&limit, Path::new("-e"), &[program]);
            let (stdout, stderr) =
                (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
            assert_eq!(out.status.code(), Some(0), "{kib} {program}: {stdout}{stderr}");
            assert!(stdout.starts_with("false\tnot enough memory"), "{kib} {program}: {stdout}{stderr}");
        }
    }
}

/// Threads that begin while others take what is left: the C library needs memory then, and ends the process
/// where it gets none.
#[test]
fn domains_begin_where_address_space_ends() {
    for kib in [60_000, 100_000, 150_000, 200_000, 400_000] {
        for _ in 0..20 {
            let limit = format!("ulimit -v {kib}");
            let out = limited(&limit, Path::new("-e"), &[MANY_DOMAINS]);
            let (stdout, stderr) =
                (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
            assert_eq!((out.status.code(), &*stdout), (Some(0), "50\n"), "{kib}: {stderr}");
        }
    }
}

/// A hundred coroutines that have been deep, and fibers that wait, which have been; what they held goes back
/// to the system.
const DEEP_ONCE: &str = "
local pl = require 'perilune'
local function resident()
  for line in io.lines '/proc/self/status' do
    local kib = line:match 'VmRSS:%s+(%d+)'
    if kib then return tonumber(kib) end
  end
end
local function sum(n) if n == 0 then return 0 end return n + sum(n - 1) end
local function wait(n) if n == 0 then coroutine.yield() return 0 end return 1 + wait(n - 1) end
local before = resident()
local waiting = {}
for i = 1, 100 do
  waiting[i] = coroutine.create(function() while true do coroutine.yield(wait(50000)) end end)
  assert(coroutine.resume(waiting[i]))
end
local most = resident() - before
for _, co in ipairs(waiting) do assert(select(2, coroutine.resume(co)) == 50000) end
-- What is free rests for a while before the system gets it.
repeat
  collectgarbage()
  pl.sleep(0.05)
until resident() - before < most / 10
print(collectgarbage 'count' < 2000)
local channel = pl.channel.new()
pl.scope(function(scope)
  for i = 1, 100 do
    scope:spawn(function() sum(50000) channel:recv() return sum(10) end)
  end
  scope:spawn(function()
    pl.sleep(0)
    repeat
      collectgarbage()
      pl.sleep(0.01)
    until collectgarbage 'count' < 3000
    for i = 1, 100 do channel:send(i) end
  end)
end)
print 'fibers'";

#[test]
fn stacks_that_were_deep_are_given_back() {
    let out = Limited::run(Command::new(env!("CARGO_BIN_EXE_perilune")).args(["-e", DEEP_ONCE]));
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert_eq!(String::from_utf8_lossy(&out.stdout), "true\nfibers\n", "{stderr}");
}
