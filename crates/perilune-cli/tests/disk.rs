//! The standard library's files where a disk takes its time (`PERILUNE_SLOW_FILES`): the fiber waits, and
//! nobody else.

use perilune_test::script::{Script, on_all_cores};
use perilune_test::{Folder, Limited};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Only a hang comes to it.
const LONG: Duration = Duration::from_secs(120);

/// Each read, write and opening of a file takes a millisecond, where others can use the domain.
const SLOW: &[(&str, &str)] = &[("PERILUNE_SLOW_FILES", "1")];

/// What the program prints, in a folder of its own.
fn run(folder: &Folder, millis: &str, source: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
    command.args(["-e", source]).current_dir(folder.path()).env("PERILUNE_SLOW_FILES", millis);
    printed(command)
}

fn printed(mut command: Command) -> String {
    let limited = Limited::start_with(&mut command, Stdio::null());
    let Output { status, stdout, stderr } = limited.within(LONG).ended().expect("it ends");
    let text = perilune_test::text(&stdout);
    assert!(status.success(), "{text}\n{}", perilune_test::text(&stderr));
    text
}

/// What every script begins with: `busy(f)` calls f in a fiber before one that counts its turns and is always
/// ready, and returns the turns that this one has had when f has ended, and what f returns. The other has its
/// first turn when f waits.
const BUSY: &str = r#"
local pl = require "perilune"
local function busy(f)
  local turns, seen, results = 0, nil, nil
  pl.scope(function(s)
    s:spawn(function() results = table.pack(f()) seen = turns end)
    s:daemon(function() while true do turns = turns + 1 pl.yield() end end)
  end)
  return seen, table.unpack(results, 1, results.n)
end
local function contents(name) local f <close> = assert(io.open(name, "rb")) return f:read "a" end
local text = {}
for n = 1, 40000 do text[n] = "line " .. n end
text = table.concat(text, "\n") .. "\n"
do local f <close> = io.open("text", "w") f:write(text) end
"#;

/// Each of these waits for the disk, and the neighbour has its turns meanwhile.
#[test]
fn every_operation_parks_its_fiber() {
    let source = r#"
local function check(what, f)
  local turns, a, b = busy(f)
  if turns == 0 then error(what .. " stopped the domain") end
  return a, b
end
check("open", function() io.open("text"):close() end)
check("open missing", function()
  local f, message, code = io.open("missing")
  assert(not f and message == "missing: No such file or directory" and code == 2, message)
end)
check("lines", function()
  local n = 0
  for line in io.lines "text" do n = n + 1 assert(line == "line " .. n) end
  assert(n == 40000)
end)
check("lines with formats", function()
  local n = 0
  for word, number in io.lines("text", 5, "n") do n = n + 1 assert(word:find "line" and number == n, n) if n == 5000 then break end end
end)
local f = io.open "text"
assert(check("read all", function() return f:read "a" end) == text)
f:seek("set", 7)
assert(check("read some", function() return f:read(100000) end) == text:sub(8, 100007))
assert(f:seek() == 100007)
check("several formats", function()
  f:seek "set"
  local a, b, c, d = f:read("l", "L", 3, "n")
  assert(a == "line 1" and b == "line 2\n" and c == "lin" and d == nil)
end)
f:close()
local out = io.open("out", "w")
check("write", function() for _ = 1, 3 do assert(out:write(text, 1, 2.5) == out) end end)
check("flush", function() assert(out:write "more\n" and out:flush()) end)
check("seek", function() out:write "x" assert(out:seek() == 3 * (#text + 4) + 6) assert(out:seek("set", 1) == 1) end)
check("setvbuf", function() out:write "INE" assert(out:setvbuf "line") out:write " 0\n" end)
check("close", function() out:setvbuf "full" out:seek("end") out:write "end" assert(out:close() == true) end)
local got = contents "out"
assert(got == "lINE 0\n" .. text:sub(8) .. "12.5" .. (text .. "12.5"):rep(2) .. "more\nxend", #got)
check("io.output", function()
  io.output "default" io.write("a", "b") io.close() io.output(io.stdout)
  io.input "default" assert(io.read "a" == "ab") io.close(io.input()) io.input(io.stdin)
end)
check("remove", function() assert(os.rename("out", "out2") and os.remove "out2" and not os.remove "out2") end)
check("tmpfile", function()
  local f <close> = io.tmpfile()
  f:write "abc" f:seek "set" assert(f:read "a" == "abc")
end)
check("update", function()
  local f <close> = io.open("text", "r+")
  assert(f:read(4) == "line") f:write "-" assert(f:read(1) == "1") f:seek("set", 0) assert(f:read "l" == "line-1")
  f:seek("set", 4) f:write " " f:flush()
end)
check("append", function()
  local f <close> = io.open("log", "a")
  f:write "one\n" f:close()
  local f <close> = io.open("log", "a+")
  f:write "two\n" f:seek "set" assert(f:read "a" == "one\ntwo\n")
end)
local lfs = require "lfs"
check("lfs.mkdir", function() assert(lfs.mkdir "d") end)
check("lfs.link", function() assert(lfs.link("text", "d/one") and lfs.link("nothing", "d/two", true)) end)
check("lfs.touch", function() assert(lfs.touch("d/one", 1000, 2000)) end)
check("lfs.attributes", function()
  assert(lfs.attributes("text", "modification") == 2000 and lfs.attributes "d/one".nlink == 2)
  local _, message, code = lfs.attributes "d/two"
  assert(code == 2 and message == "cannot obtain information from file 'd/two': No such file or directory", message)
  assert(lfs.symlinkattributes("d/two", "mode") == "link" and lfs.symlinkattributes("d/two").target == "nothing")
end)
check("lfs.dir", function()
  local names = {}
  for name in lfs.dir "d" do names[#names + 1] = name end
  table.sort(names)
  assert(table.concat(names, " ") == ". .. one two")
  local step, d <close> = lfs.dir "d"
  assert(step(d) and d:next() and not d:close() and not pcall(d.next, d))
  local ok, message = pcall(lfs.dir, "nothing")
  assert(not ok and message:find "cannot open nothing: No such file or directory", message)
end)
os.remove "d/one" os.remove "d/two"
check("lfs.rmdir", function() assert(lfs.rmdir "d" and not lfs.rmdir "d") end)
print "done"
"#;
    assert_eq!(run(&Folder::new(), "5", &format!("{BUSY}{source}")), "done\n");
}

/// `cancelled(f)` calls f in a fiber, and cancels it as soon as it waits.
const CANCELLED: &str = r#"
local function cancelled(f)
  local fiber
  pl.scope(function(s)
    fiber = s:spawn(f)
    pl.yield()
    fiber:cancel "enough"
  end)
  assert(fiber:status() == "cancelled", fiber:status())
end
"#;

/// One that is cancelled goes on at once, however long its disk takes.
#[test]
fn cancelled_operations_end_at_once() {
    let source = r#"
local began = pl.now()
local f = assert(io.open "text")
cancelled(function() f:read "a" end)
cancelled(function() for _ in f:lines() do end end)
cancelled(function() io.open "text" end)
cancelled(function() os.remove "text" end)
local out = assert(io.open("out", "w"))
cancelled(function() out:write(text) out:flush() end)
-- The helpers have an hour to go, and what is written would be waited for at the exit.
assert(pl.now() - began < 1000, "it waited")
print "done"
io.stdout:flush()
require "perilune.process".run { "sh", "-c", "kill -9 $PPID" }
"#;
    let folder = Folder::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
    command.args(["-e", &format!("{BUSY}{CANCELLED}{source}")]).current_dir(folder.path());
    command.env("PERILUNE_SLOW_FILES", "3600000");
    let limited = Limited::start_with(&mut command, Stdio::null());
    let output = limited.within(LONG).ended().expect("it ends");
    assert_eq!(perilune_test::text(&output.stdout), "done\n", "{}", perilune_test::text(&output.stderr));
}

/// What a cancelled one had read is there for the next, and what it had written is written.
#[test]
fn cancelled_operations_lose_nothing() {
    let source = r#"
local f = assert(io.open "text")
cancelled(function() f:read "a" end)
cancelled(function() f:read(100) end)
cancelled(function() for _ in f:lines() do end end)
cancelled(function() io.open "text" end)
pl.scope(function(s) s:spawn(function() assert(f:read "a" == text) end) end)
local out = assert(io.open("out", "w"))
cancelled(function() out:write(text) out:flush() end)
out:write "then"
pl.scope(function(s) s:spawn(function() out:write "more" assert(out:close()) end) end)
assert(contents "out" == text .. "thenmore")
local out = assert(io.open("out", "w"))
out:write(text:sub(1, 20000))
cancelled(function() out:close() end)
assert(io.type(out) == "closed file")
repeat pl.sleep(0.01) until #contents "out" == 20000
assert(contents "out" == text:sub(1, 20000))
print "done"
"#;
    assert_eq!(run(&Folder::new(), "200", &format!("{BUSY}{CANCELLED}{source}")), "done\n");
}

/// Several fibers that read one file share its lines, and several that write lose and tear nothing; at the
/// exit everything is written.
#[test]
fn fibers_share_files() {
    let source = r#"
local f = assert(io.open "text")
local seen, count = {}, 0
pl.scope(function(s)
  for _ = 1, 5 do
    s:spawn(function()
      for line in f:lines() do
        assert(not seen[line], line)
        seen[line], count = true, count + 1
        if count % 100 == 0 then pl.yield() end
      end
    end)
  end
end)
assert(count == 40000)
local out = assert(io.open("out", "w"))
out:setvbuf "no"
pl.scope(function(s)
  for n = 1, 5 do
    s:spawn(function() for i = 1, 20 do out:write(("<%d %d>"):format(n, i), ("x"):rep(1000), "\n") end end)
  end
end)
local many = 0
for line in io.lines "out" do assert(line:find "^<%d %d+>x+$" and #line > 1000, line) many = many + 1 end
assert(many == 100)
out:close()
-- Left open, by a fiber that nobody waits for.
local left = assert(io.open("left", "w"))
pl.scope(function(s)
  s:daemon(function() left:write(text) left:flush() end)
  pl.sleep(0.002)
end)
left:write "end\n"
print "done"
"#;
    let check = r#"local f = io.open "left" assert(f:read "a":sub(-10) == "40000\nend\n") print "all""#;
    let folder = Folder::new();
    assert_eq!(run(&folder, "5", &format!("{BUSY}{source}")), "done\n");
    let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
    command.args(["-e", check]).current_dir(folder.path());
    assert_eq!(printed(command), "all\n");
}

/// A file that is sent is fetched by helpers, a piece at a time; what has been sent is counted over all
/// waits, for the disk and for the peer.
#[test]
fn files_are_sent_without_stopping_the_domain() {
    let source = r#"
local net, fs = require "perilune.net", require "perilune.fs"
local big = {}
for n = 1, 70000 do big[n] = ("%08d the quick brown fox jumps over the lazy dog\n"):format(n) end
big = table.concat(big)
do local f <close> = io.open("big", "w") f:write(big) end
local listener <close> = net.listen "unix:sock"
local f <close> = assert(fs.open "big")
local function send(...)
  local arguments = table.pack(...)
  local out <close> = net.connect "unix:sock"
  local c <close> = listener:accept()
  local turns, sent, got = busy(function()
    local sent, got
    pl.all {
      function() c:write "head:" sent = c:send_file(f, table.unpack(arguments, 1, arguments.n)) c:close() end,
      -- in small pieces, so that the sender has to wait for room as well
      function()
        local parts = {}
        for part in function() return (out:read(100000)) end do parts[#parts + 1] = part end
        got = table.concat(parts)
      end,
    }
    return sent, got
  end)
  return sent, got, turns
end
local sent, got, turns = send()
assert(sent == #big and got == "head:" .. big, sent)
assert(turns > 0, "it stopped the domain")
sent, got = send(1000, 2000001)
assert(sent == 2000001 and got == "head:" .. big:sub(1001, 2001001))
sent, got = send(#big - 5)
assert(sent == 5 and got == "head:" .. big:sub(-5))
sent, got = send(#big)
assert(sent == 0 and got == "head:")
-- One that is cancelled while a helper fetches goes on at once; nothing is left behind.
local out <close> = net.connect "unix:sock"
local c <close> = listener:accept()
local fiber
pl.scope(function(s)
  fiber = s:spawn(function() c:send_file(f) end)
  pl.sleep(0.001)
  fiber:cancel "enough"
end)
assert(fiber:status() == "cancelled")
c:write "end"
c:close()
local left = out:read_all()
assert(left == big:sub(1, #left - 3) .. "end", #left)
print "done"
"#;
    assert_eq!(run(&Folder::new(), "20", &format!("{BUSY}{source}")), "done\n");
}

/// A thousand that wait for a disk need no thousand threads.
#[test]
fn many_wait_without_threads() {
    let source = r#"
local function threads() return tonumber(io.open("/proc/self/status"):read("a"):match("Threads:%s*(%d+)")) end
local most = 0
local done = 0
pl.each(1000, function(n)
  local f <close> = assert(io.open "text")
  f:seek("set", n * 100)
  assert(#f:read(50) == 50)
  done = done + 1
  -- Who counts waits for the disk as well, so it is one of them: one beside them might come to nothing before they end.
  if n % 20 == 0 then most = math.max(most, threads()) end
end)
assert(done == 1000)
assert(most > 0 and most < 70, most)
print "done"
"#;
    let each = "local each = pl.each
pl = setmetatable({ each = function(n, f) local list = {} for i = 1, n do list[i] = i end return each(list, { limit = 1000 }, f) end }, { __index = pl })
";
    assert_eq!(run(&Folder::new(), "2", &format!("{BUSY}{each}{source}")), "done\n");
}

/// Scripts that open files and have fibers or tasks say what they say otherwise.
#[test]
fn recorded_scripts_are_the_same_with_slow_files() {
    let only = perilune_test::only();
    let binary = perilune_test::under_test(env!("CARGO_BIN_EXE_perilune"));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/parallel");
    let words = ["io.open", "io.lines", "popen", "io.write", "os.remove"];
    let scripts = Script::all_with(&folder, &only, &words);
    assert!(!only.is_empty() || scripts.len() > 10, "{scripts:?}");
    let failures = on_all_cores(&scripts, |script| script.run(&binary, SLOW));
    assert!(failures.is_empty(), "{} of {} failed\n\n{}", failures.len(), scripts.len(), failures.join("\n"));
}

/// The same of `perilune.fs`: whoever was ready before has its turn before the disk has answered.
#[test]
fn files_of_fs_park_too_where_the_disk_is_slow_and_do_the_same_where_it_is_not() {
    let source = r#"
local fs = require "perilune.fs"
local f <close> = assert(fs.open("file", "w+"))
local function check(what, expected, op)
  local turns, result = {}, nil
  pl.scope(function(s)
    s:spawn(function() turns[1] = "asks" result = op() turns[#turns + 1] = "has it" end)
    s:spawn(function() turns[#turns + 1] = "other" end)
  end)
  turns = table.concat(turns, ", ")
  if slow then assert(turns == "asks, other, has it", what .. ": " .. turns) end
  assert(result == expected, what .. ": " .. tostring(result))
end
check("write", true, function() return f:write("one ", "two") end)
check("write_at", true, function() return f:write_at(0, "O") end)
check("write at the position", true, function() return f:write "!" end)
check("read_at", "One two!", function() return f:read_at(0, 100) end)
check("part", "two", function() return f:read_at(4, 3) end)
check("end", nil, function() return f:read_at(100, 1) end)
check("append", true, function() return fs.write("file", "more", { append = true }) end)
check("append to a new one", true, function() return fs.write("new", "x", { append = true }) end)
check("append to it", true, function() return fs.write("new", "y", { append = true }) end)
check("append nothing", true, function() return fs.write("new", "", { append = true }) end)
check("read", "One two!more", function() return fs.read "file" end)
check("read the other", "xy", function() return fs.read "new" end)
check("missing", nil, function() return fs.read "missing" end)
check("replace", true, function() return fs.write("new", "z") end)
check("it is replaced", "z", function() return fs.read "new" end)
f:seek "set"
check("read on", "One two!more", function() return f:read_all() end)
print "done"
"#;
    let source = |slow: bool| format!("local slow = {slow}\n{BUSY}{source}");
    assert_eq!(run(&Folder::new(), "1", &source(true)), "done\n");
    assert_eq!(run(&Folder::new(), "", &source(false)), "done\n");
}
