//! The interactive mode on a terminal.

#[path = "support/pty.rs"]
mod pty;

use perilune_test::Folder;
use pty::{Pty, plain};
use std::process::Command;

/// A folder with a home in it; removed at the end.
struct Place(Folder);

impl Place {
    fn new() -> Place {
        Place(Folder::new())
    }

    fn start(&self, program: &str) -> Pty {
        let mut command = Command::new(program);
        command.current_dir(&self.0).env("HOME", self.0.path()).env("XDG_STATE_HOME", self.0.join("state"));
        command.env("TERM", "xterm").env("NO_COLOR", "1").env_remove("LUA_INIT").env_remove("LUA_PATH");
        let mut pty = Pty::spawn(&mut command);
        pty.wait(pty::PROMPT);
        pty
    }

    fn perilune(&self) -> Pty {
        self.start(env!("CARGO_BIN_EXE_perilune"))
    }

    fn history(&self) -> String {
        std::fs::read_to_string(self.0.join("state/perilune/history")).unwrap_or_default()
    }
}

#[track_caller]
fn shows(pty: &mut Pty, line: &str, text: &str) {
    assert_eq!(pty.line(line).trim_end_matches('\n'), text, "{line}");
}

#[test]
fn values_are_shown_with_what_is_in_them() {
    let place = Place::new();
    let mut pty = place.perilune();
    shows(&mut pty, "1 + 1", "2");
    shows(&mut pty, "{1, 2, name = 'x'}", "{1, 2, name = \"x\"}");
    shows(&mut pty, "'text', nil, true", "\"text\"\tnil\ttrue");
    shows(&mut pty, "x = 5", "");
    shows(&mut pty, "= x", "5");
    shows(&mut pty, "t = {} t.t = t return t", "<1>{t = <cycle 1>}");
    shows(&mut pty, "io.write('a') return 'b'", "a\"b\"");
    shows(
        &mut pty,
        "error({code = 1})",
        "(error object is a table value: {code = 1})\nstack traceback:\n\t[C]: in function 'error'\n\
         \tstdin:1: in main chunk\n\t[C]: in ?",
    );
    shows(
        &mut pty,
        "setmetatable({}, {__tostring = function() error('no', 0) end})",
        "<error in __tostring: no> {}",
    );
    pty.write("\x04");
    assert_eq!(pty.end(), Some(0));
}

#[test]
fn locals_live_on() {
    let place = Place::new();
    let mut pty = place.perilune();
    for (line, text) in [
        ("local a, b = 1, 2", ""),
        ("a, b", "1\t2"),
        // Captured variables stay shared, in both directions.
        ("local function get() return a end", ""),
        ("a = a + 10", ""),
        ("get()", "11"),
        ("local function set(v) a = v end set('set')", ""),
        ("a, get()", "\"set\"\t\"set\""),
        // Shadowing makes a new variable.
        ("local a = a .. '!'", ""),
        ("a, get()", "\"set!\"\t\"set\""),
        ("a = 1 return a, get()", "1\t\"set\""),
        // Globals of the name are others.
        ("_G.a, _G.get", "nil\tnil"),
        ("function global() return a, b end", ""),
        ("b = 3 return global()", "1\t3"),
        // Recursion, and blocks, which end.
        ("local function fac(n) return n < 2 and 1 or n * fac(n - 1) end", ""),
        ("fac(10)", "3628800"),
        ("do local inner = 1 end return inner", "nil"),
        ("for i = 1, 2 do local x = i end return i, x", "nil\tnil"),
        // Constants, of the compiler and of the program.
        ("local c <const>, d <const> = 7, {}", ""),
        ("local e <const> = 8", ""),
        ("c + e, #d", "15\t0"),
        ("c = 1", "stdin:1: attempt to assign to const variable 'c'"),
        ("e = 1", "stdin:1: attempt to assign to const variable 'e'"),
        ("local c = 1 c = 2 return c", "2"),
        (
            "local f <close> = nil",
            "stdin:1: a variable to be closed cannot live on in a session (write do ... end around it)",
        ),
        ("do local f <close> = setmetatable({}, {__close = function() print 'closed' end}) end", "closed"),
        // What fails keeps nothing.
        (
            "local bad = 1 error('e', 0)",
            "e\nstack traceback:\n\t[C]: in function 'error'\n\tstdin:1: in function <stdin:1>\n\
             \t(...tail calls...)\n\t[C]: in ?",
        ),
        ("bad", "nil"),
        ("local n = nil", ""),
        ("n", "nil"),
        ("n = 4 return n, _G.n", "4\tnil"),
        ("local x <const> = 1; local x = 2", ""),
        ("x = 3 return x", "3"),
        ("local s = [[ __perilune_keep ]] return #s", "17"),
        (".clear", ""),
        ("b, get", "nil\tnil"),
        ("global()", "1\t3"),
    ] {
        let got = pty.line(line);
        let got = got.trim_end_matches('\n');
        if line.contains("error(") {
            assert_eq!(got.lines().next(), text.lines().next(), "{line}");
        } else {
            assert_eq!(got, text, "{line}");
        }
    }
}

#[test]
fn more_locals_than_a_function_may_have() {
    let place = Place::new();
    let mut pty = place.perilune();
    for i in 0..15 {
        let names: Vec<String> = (0..20).map(|k| format!("v{}", i * 20 + k)).collect();
        let values: Vec<String> = (0..20).map(|k| format!("{}", i * 20 + k)).collect();
        shows(&mut pty, &format!("local {} = {}", names.join(","), values.join(",")), "");
    }
    shows(&mut pty, "v0 + v150 + v299", "449");
    shows(&mut pty, "v299 = 'last' return v299", "\"last\"");
}

#[test]
fn lines_that_are_continued_and_abandoned() {
    let place = Place::new();
    let mut pty = place.perilune();
    pty.write("for i = 1, 2 do\r");
    pty.wait(pty::PROMPT);
    pty.write("print('i', i) end\r");
    let text = plain(&pty.wait(pty::PROMPT));
    assert!(text.ends_with("i\t1\ni\t2\n"), "{text}");
    // Ctrl-C at a continuation abandons all of it.
    pty.write("function f(\r");
    assert!(plain(&pty.wait(pty::PROMPT)).contains("function f(\n"));
    pty.write("\x03");
    pty.wait(pty::PROMPT);
    shows(&mut pty, "f", "nil");
    // At the prompt it says how to go.
    pty.write("\x03");
    assert!(plain(&pty.wait(pty::PROMPT)).contains("Ctrl-D or os.exit() ends the session"));
    for word in ["exit", "quit", "exit()", "quit()"] {
        shows(&mut pty, word, "(Ctrl-D or os.exit() ends the session)");
    }
    shows(&mut pty, "exit = 1 return exit", "1");
    shows(&mut pty, "exit", "1");
    // While Lua code runs, it is an error.
    pty.write("print 'go' while true do end\r");
    pty.wait("\r\ngo\r\n");
    pty.write("\x03");
    assert!(plain(&pty.wait(pty::PROMPT)).contains("interrupted!"));
}

#[test]
fn history_survives() {
    let place = Place::new();
    let mut pty = place.perilune();
    shows(&mut pty, "first = 1", "");
    pty.write("second = [[\r");
    pty.wait(pty::PROMPT);
    pty.write("lines]]\r");
    pty.wait(pty::PROMPT);
    pty.write("os.exit(3)\r");
    assert_eq!(pty.end(), Some(3));
    assert_eq!(place.history(), "first = 1\nsecond = [[\\nlines]]\nos.exit(3)\n");
    // The next session begins with it; the arrow goes back over `os.exit(3)` and both lines of the text.
    let mut pty = place.perilune();
    pty.write("\x1b[A\x1b[A\x1b[A\x1b[A");
    pty.wait("first = 1");
    shows(&mut pty, " return first", "1");
    assert!(place.history().ends_with("os.exit(3)\nfirst = 1 return first\n"), "{}", place.history());
}

/// What appears after Tab.
fn completed(pty: &mut Pty, text: &str, until: &str) -> String {
    pty.write(text);
    pty.write("\t");
    let mut seen = plain(&pty.wait(until));
    seen.push_str(until);
    // Ctrl-C clears the line.
    pty.write("\x03");
    pty.wait(pty::PROMPT);
    seen
}

#[test]
fn completion_says_what_things_are() {
    let place = Place::new();
    std::fs::write(place.0.join("mymodule.lua"), "return {}").unwrap();
    std::fs::write(place.0.join("mydata.txt"), "").unwrap();
    std::fs::create_dir(place.0.join("inner")).unwrap();
    std::fs::write(place.0.join("inner/part.lua"), "return {}").unwrap();
    let mut pty = place.perilune();
    shows(&mut pty, "local config = {port = 80, host = 'h', start = print}", "");
    shows(&mut pty, "configure = 1", "");
    // One candidate is put in.
    completed(&mut pty, "string.forma", "string.format");
    completed(&mut pty, "require 'mymo", "mymodule");
    completed(&mut pty, "require(\"inner.p", "inner.part");
    completed(&mut pty, "io.open('myd", "mydata.txt");
    completed(&mut pty, "config:st", "config:start");
    // Of several there is a list.
    let list = completed(&mut pty, "config.\t", "start  function");
    assert!(list.contains("port   80") && list.contains("host   \"h\""), "{list}");
    let list = completed(&mut pty, "conf\t", "configure  1");
    assert!(list.contains("config     local table"), "{list}");
    let list = completed(&mut pty, "require 'my\t", "mymodule");
    assert!(!list.contains("mydata"), "{list}");
}

#[test]
fn what_is_written_about_names() {
    let place = Place::new();
    std::fs::write(
        place.0.join("lib.lua"),
        "-- Adds two numbers.\n-- Whole ones.\nfunction add(a, b, ...) return a + b end\n",
    )
    .unwrap();
    let mut pty = place.perilune();
    shows(&mut pty, "local pl = require 'perilune'", "");
    shows(
        &mut pty,
        "?pl.sleep",
        "pl.sleep(seconds)\n  Waits; other fibers of the domain run meanwhile.\n    seconds number",
    );
    shows(&mut pty, "local p = pl.pool.new()", "");
    let text = pty.line("?p:async");
    assert!(text.starts_with("pool:async(f, ...)\n  Queues a call. ") && !text.contains("lane"), "{text}");
    let text = pty.line("?async");
    assert!(text.contains("pool:async(") && text.contains("lane:async("), "{text}");
    shows(&mut pty, ".load lib.lua", "");
    shows(&mut pty, "?add", "function add(a, b, ...)  lib.lua:3\n  Adds two numbers.\n  Whole ones.");
    let text = pty.line("?string.format");
    assert!(text.starts_with("string.format(formatstring, ...)\n  Formats its arguments"), "{text}");
    assert!(text.ends_with("(section 6.4 of the Lua 5.4 manual)\n"), "{text}");
    // It is known by what it is, whatever it is called, and methods by what they are called of.
    shows(&mut pty, "local text, out, print = 'text', io.stdout, function(own) end", "");
    assert_eq!(pty.line("?text:format"), text);
    assert!(pty.line("?out:write").starts_with("file:write(...)\n"));
    assert!(pty.line("?print").starts_with("function print(own)  "));
    assert!(pty.line("?collectgarbage").contains("section 6.1"));
    shows(&mut pty, "?nothing", "nothing is nil, and nothing is written about it");
    shows(&mut pty, "?math.pi", "math.pi = 3.1415926535898");
}

#[test]
fn commands_of_the_session() {
    let place = Place::new();
    std::fs::write(
        place.0.join("part.lua"),
        "#!/usr/bin/env perilune\nlocal x = 41\nfunction next_x() x = x + 1 return x end\n",
    )
    .unwrap();
    std::fs::write(place.0.join("bad.lua"), "x =\n= 1\n").unwrap();
    let many: String = (1..=460).map(|n| format!("local v{n} = {n}\n")).collect();
    std::fs::write(place.0.join("many.lua"), many).unwrap();
    let mut pty = place.perilune();
    assert!(pty.line(".help").contains(".time CODE"));
    shows(&mut pty, ".load part.lua", "");
    shows(&mut pty, "next_x(), x", "42\t42");
    shows(&mut pty, ".load bad.lua", "bad.lua:2: unexpected symbol near '='");
    let text = pty.line(".load many.lua");
    assert!(
        text.starts_with("many.lua:201: too many local variables") && text.contains("enter it in parts"),
        "{text}"
    );
    shows(&mut pty, ".load none.lua", "none.lua: No such file or directory");
    let timed = pty.line(".time 1 + 1");
    assert!(timed.starts_with("2\n-- ") && timed.ends_with(" ms\n"), "{timed}");
    shows(&mut pty, ".tiem 1", "there is no .tiem (did you mean '.time'?); .help lists all");
    shows(&mut pty, "local y = 1", "");
    shows(&mut pty, "y = = 2", "stdin:1: unexpected symbol near '='");
    shows(&mut pty, ".save out.lua", "");
    let saved = std::fs::read_to_string(place.0.join("out.lua")).unwrap();
    assert!(saved.ends_with("next_x(), x\n1 + 1\nlocal y = 1\n"), "{saved}");
    shows(&mut pty, ".5 + .25", "0.75");
}

#[test]
fn colour_is_for_terminals_that_want_it() {
    let place = Place::new();
    let start = |no_color: &str, term: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
        command
            .current_dir(&place.0)
            .env("XDG_STATE_HOME", place.0.path())
            .env("TERM", term)
            .env("NO_COLOR", no_color);
        let mut pty = Pty::spawn(&mut command);
        pty.wait(pty::PROMPT);
        pty.write("'te' .. 'xt'\r");
        pty.wait("\"text\"");
        pty.wait(pty::PROMPT);
        pty.seen.clone()
    };
    assert!(start("", "xterm").contains("\x1b[32m\"text\"\x1b[0m"));
    assert!(!start("1", "xterm").contains("\x1b[32m"));
}

/// Values that only the session knows survive collections at every safepoint.
#[test]
fn collections_at_every_safepoint() {
    let place = Place::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
    command
        .current_dir(&place.0)
        .env("XDG_STATE_HOME", place.0.path())
        .env("TERM", "xterm")
        .env("NO_COLOR", "1");
    command.env("PERILUNE_GC_STRESS", "1").env("PERILUNE_GC_POISON", "1");
    let mut pty = Pty::spawn(&mut command);
    pty.wait(pty::PROMPT);
    shows(
        &mut pty,
        "_PROMPT2 = setmetatable({}, {__tostring = function() local t = {{}, {}} return '>> ' end})",
        "",
    );
    shows(&mut pty, "local t, exit = {1, {2}}, {3}", "");
    shows(&mut pty, "local function f() return t end", "");
    shows(&mut pty, "exit", "{3}");
    shows(&mut pty, "f()", "{1, {2}}");
    pty.write("t = {\r");
    pty.wait(pty::PROMPT);
    shows(&mut pty, "'new'} return f()", "{\"new\"}");
    assert!(pty.line("?f").starts_with("function f()  stdin:1"));
    // The input ends within a statement.
    pty.write("t = {\r");
    pty.wait(pty::PROMPT);
    pty.write("\x04");
    pty.wait("stdin:1: unexpected symbol near <eof>");
    pty.wait(pty::PROMPT);
    pty.write("\x04");
    assert_eq!(pty.end(), Some(0));
}

/// Under the name of `lua` nothing of this is there.
#[test]
fn as_lua_it_is_lua() {
    let place = Place::new();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_perilune"), place.0.join("lua")).unwrap();
    let mut pty = place.start(&place.0.join("lua").display().to_string());
    assert!(!pty.seen.contains(".help"), "{}", pty.seen);
    shows(&mut pty, "local a = 1", "");
    shows(&mut pty, "a", "nil");
    assert!(pty.line("{}").starts_with("table: 0x"));
    shows(&mut pty, "'text'", "text");
    shows(&mut pty, ".help", "stdin:1: unexpected symbol near '.'");
    shows(&mut pty, "exit", "nil");
}

/// In a pipe it is as it was.
#[test]
fn in_a_pipe_it_is_lua() {
    use std::io::Write;
    let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
    command.arg("-i").stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"local a = 1\na\n'text'\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.ends_with("> > nil\n> text\n> \n"), "{text}");
}

/// Timers go on while somebody types, and what they print appears above the prompt, which is drawn anew with
/// what has been typed.
#[test]
fn timers_print_above_the_prompt() {
    let place = Place::new();
    let mut pty = place.perilune();
    pty.line("pl = require 'perilune'");
    pty.line(
        "t = pl.every(0.05, function(n) io.write('tick', n) io.stderr:write('tock\\n') io.write('\\n') end)",
    );
    pty.write("1 + 4");
    for _ in 0..3 {
        pty.wait("tock\r\n");
        pty.wait("tick");
        pty.wait("> 1 + 4");
    }
    pty.write("1\r");
    pty.wait("42\r\n");
    pty.wait(pty::PROMPT);
    pty.line("t:cancel()");
    pty.write("\x04");
    assert_eq!(pty.end(), Some(0));
    assert_eq!(pty.seen.matches("tick2\r\n").count(), 1, "{:?}", pty.seen);
}

#[test]
fn failures_are_reported_above_the_prompt() {
    let place = Place::new();
    let mut pty = place.perilune();
    pty.line("pl = require 'perilune'");
    // The task may fail before the prompt is there or after.
    let said = pty.line("do pl.pool.new {workers = 1}:async(function() error('oops', 0) end) end");
    if !said.contains("a task failed and nobody waited for it: oops") {
        pty.wait("a task failed and nobody waited for it: oops");
        pty.wait("in function <stdin:1>\r\n");
    }
    shows(&mut pty, "1 + 1", "2");
}

/// The terminal is raw while the editor reads, and is what it was when a timer ends the process.
#[test]
fn a_timer_may_end_the_session() {
    let place = Place::new();
    let script = "pl = require 'perilune' pl.after(0.5, function() print('going') os.exit(3) end)\r";
    let line = format!(
        "stty -a > before; {} ; echo \"[$?]\"; stty -a | cmp - before && echo same",
        env!("CARGO_BIN_EXE_perilune")
    );
    let mut command = Command::new("sh");
    command.args(["-c", &line]).current_dir(&place.0).env("TERM", "xterm").env("HOME", place.0.path());
    command.env("XDG_STATE_HOME", place.0.join("state")).env_remove("LUA_INIT").env_remove("LUA_PATH");
    let mut pty = Pty::spawn(&mut command);
    pty.wait(pty::PROMPT);
    pty.write(script);
    pty.wait("going\r\n");
    pty.wait("[3]");
    pty.wait("same");
}

/// Names are known to the thread that runs the program: Tab asks it, also while a fiber waits there.
#[test]
fn completion_beside_fibers() {
    let place = Place::new();
    let mut pty = place.perilune();
    pty.line("pl = require 'perilune' f = pl.fiber(function() pl.sleep(100) end) quaint = 1");
    pty.write("quai\t");
    pty.wait("quaint");
    pty.write(" + 1\r");
    pty.wait("2\r\n");
}
