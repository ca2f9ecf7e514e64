//! The command line: options, `arg`, LUA_INIT, standard input, exit codes, messages, the interactive mode in
//! pipes, SIGINT.
//!
//! What is expected is what `lua` 5.4 does. Each case runs in a directory of its own that holds a link `lua`
//! to the command (so that it behaves and speaks as `lua`) and a few small files. `PERILUNE_TEST_BIN` runs
//! the same cases against another implementation.

use perilune_test::{Folder, Limited, PATIENCE, text, under_test};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// A folder with the files that the cases use.
fn place() -> Folder {
    let place = Folder::with([
        ("args.lua", "print(#arg, arg[0], ...)"),
        (
            "neg.lua",
            "local i = 0; while arg[i] do io.write(i, '=', arg[i]:match('[^/]*$'), ' '); i = i - 1 end \
             print()",
        ),
        ("fail.lua", "local function f()\n  error('failed here')\nend\nf()\n"),
        ("shebang.lua", "#!/usr/bin/env lua\nprint(debug.getinfo(1, 'l').currentline)"),
        ("mod.lua", "print('loading', ...); return { name = 'mod' }"),
        ("mod-v2.lua", "return 'versioned'"),
        ("init.lua", "print('init file')"),
        ("exit.lua", "io.write('partial'); os.exit(tonumber(arg[1]))"),
    ]);
    symlink(binary(), place.join("lua")).unwrap();
    place
}

fn binary() -> PathBuf {
    under_test(env!("CARGO_BIN_EXE_perilune"))
}

/// A program that is run in a folder, and sees none of the variables that are set here.
fn program(place: &Folder, name: &str) -> Command {
    let mut command = Command::new(name);
    command.current_dir(place);
    for variable in ["LUA_INIT", "LUA_INIT_5_4", "LUA_PATH", "LUA_PATH_5_4", "LUA_CPATH", "LUA_CPATH_5_4"] {
        command.env_remove(variable);
    }
    command
}

fn command(place: &Folder) -> Command {
    program(place, "./lua")
}

#[derive(Debug, PartialEq)]
struct Ran {
    stdout: String,
    stderr: String,
    code: Option<i32>,
}

impl Ran {
    fn of(output: Output) -> Ran {
        Ran {
            stdout: text(&output.stdout),
            stderr: text(&output.stderr).replace("./lua: ", "lua: "),
            code: output.status.code(),
        }
    }
}

fn run_with(args: &[&str], stdin: &str, environment: &[(&str, &str)]) -> Ran {
    let place = place();
    Ran::of(Limited::feed(command(&place).args(args).envs(environment.iter().copied()), stdin))
}

fn run(args: &[&str]) -> Ran {
    run_with(args, "", &[])
}

#[track_caller]
fn prints(args: &[&str], stdout: &str) {
    let ran = run(args);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str(), ran.code), (stdout, "", Some(0)), "{args:?}");
}

#[track_caller]
fn fails(args: &[&str], stderr: &str) {
    let ran = run(args);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str(), ran.code), ("", stderr, Some(1)), "{args:?}");
}

/// Runs `lua -i` with `input`; what it prints after the version line.
fn interactive(input: &str) -> Ran {
    let mut ran = run_with(&["-i"], input, &[]);
    let (version, rest) = ran.stdout.split_once('\n').expect("a version line");
    assert!(version.starts_with("Lua 5.4"), "{version}");
    ran.stdout = rest.to_owned();
    ran
}

#[test]
fn statements_on_the_command_line() {
    prints(&["-e", "print(1)"], "1\n");
    prints(&["-eprint(1)", "-e", "print(2)"], "1\n2\n");
    prints(&["-e", "x = 5", "-e", "print(x, ...)"], "5\n");
    prints(&["-e", ""], "");
    prints(&["-e", "print(1)", "args.lua", "a"], "1\n1\targs.lua\ta\n");
    prints(&["-e", "print(#arg, arg[0])", "args.lua", "a", "b"], "2\targs.lua\n2\targs.lua\ta\tb\n");
}

#[test]
fn scripts_and_arg() {
    prints(&["args.lua"], "0\targs.lua\n");
    prints(&["args.lua", "a", "-e", "--", "-"], "4\targs.lua\ta\t-e\t--\t-\n");
    prints(&["--", "args.lua", "x"], "1\targs.lua\tx\n");
    prints(&["neg.lua"], "0=neg.lua -1=lua \n");
    prints(&["-W", "-e", "x=1", "neg.lua", "after"], "0=neg.lua -1=x=1 -2=-e -3=-W -4=lua \n");
    prints(
        &["-e", "print(arg[0], arg[1], arg[2], arg[-1])"],
        "./lua\t-e\tprint(arg[0], arg[1], arg[2], arg[-1])\tnil\n",
    );
    prints(&["-e", "arg = {'changed', n = 1}", "args.lua", "a"], "1\tnil\tchanged\n");
    prints(&["shebang.lua"], "2\n");
}

#[test]
fn arg_must_stay_a_table() {
    fails(&["-e", "arg = 5", "args.lua"], "lua: 'arg' is not a table\n");
}

#[test]
fn modules() {
    prints(&["-l", "mod", "-e", "print(mod.name)"], "loading\tmod\t./mod.lua\nmod\n");
    prints(&["-lmod", "-e", "print(mod.name)"], "loading\tmod\t./mod.lua\nmod\n");
    prints(&["-l", "m=mod", "-e", "print(m.name, mod)"], "loading\tmod\t./mod.lua\nmod\tnil\n");
    prints(&["-l", "mod-v2", "-e", "print(mod)"], "versioned\n");
    prints(&["-lstring", "-lm=math", "-e", "print(string.len 'abc', m.pi == math.pi)"], "3\ttrue\n");
    let ran = run(&["-l", "surely.absent", "-e", "print 'never'"]);
    assert!(ran.stderr.starts_with(
        "lua: module 'surely.absent' not found:\n\tno field package.preload['surely.absent']\n"
    ));
    assert!(
        ran.stderr.ends_with("stack traceback:\n\t[C]: in function 'require'\n\t[C]: in ?\n"),
        "{}",
        ran.stderr
    );
    assert_eq!((ran.stdout.as_str(), ran.code), ("", Some(1)));
}

#[test]
fn bad_options() {
    let usage = "usage: ./lua [options] [script [args]]\n\
        Available options are:\n  -e stat   execute string 'stat'\n  -i        enter \
        interactive mode after executing 'script'\n  -l mod    require library 'mod' into global 'mod'\n  -l \
        g=mod  require \
        library 'mod' into global 'g'\n  -v        show version information\n  -E        ignore environment \
        variables\n  \
        -W        turn warnings on\n  --        stop handling options\n  -         stop handling options and \
        execute stdin\n";
    for (args, message) in [
        (&["-x"][..], "unrecognized option '-x'"),
        (&["-vv"], "unrecognized option '-vv'"),
        (&["-ii"], "unrecognized option '-ii'"),
        (&["-E1"], "unrecognized option '-E1'"),
        (&["--help"], "unrecognized option '--help'"),
        (&["-e"], "'-e' needs argument"),
        (&["-l"], "'-l' needs argument"),
        (&["-e", "-v"], "'-e' needs argument"),
        (&["-e", "print 'never'", "-z"], "unrecognized option '-z'"),
    ] {
        fails(args, &format!("lua: {message}\n{usage}"));
    }
}

#[test]
fn version() {
    let ran = run(&["-v"]);
    assert!(ran.stdout.starts_with("Lua 5.4") && ran.stdout.ends_with("PUC-Rio\n"), "{}", ran.stdout);
    assert_eq!(ran.stdout.lines().count(), 1);
    let ran = run(&["-v", "-e", "print(1)"]);
    assert_eq!(ran.stdout.lines().last(), Some("1"));
    assert_eq!(ran.stdout.lines().count(), 2);
}

#[test]
fn standard_input() {
    let ran = |args: &[&str], stdin: &str| run_with(args, stdin, &[]);
    assert_eq!(ran(&[], "print(1, ...)").stdout, "1\n");
    assert_eq!(ran(&["-"], "print(#arg, arg[0], ...)").stdout, "0\t-\n");
    assert_eq!(ran(&["-", "a", "b"], "print(#arg, ...)").stdout, "2\ta\tb\n");
    assert_eq!(ran(&["-e", "print 'only'"], "print 'never'").stdout, "only\n");
    assert_eq!(ran(&["-i"], "").code, Some(0));
    assert_eq!(ran(&[], "#!shebang\nprint(debug.getinfo(1, 'l').currentline)").stdout, "2\n");
    let failed = ran(&["-"], "local x = nil\nx.y = 1");
    assert_eq!(
        failed.stderr,
        "lua: stdin:2: attempt to index a nil value (local 'x')\nstack traceback:\n\tstdin:2: in main chunk\n\
         \t[C]: in ?\n"
    );
    assert_eq!(failed.code, Some(1));
    // Without a script a failure on standard input is reported but does not count.
    let failed = ran(&[], "error('x', 0)");
    assert_eq!(
        failed.stderr,
        "lua: x\nstack traceback:\n\t[C]: in function 'error'\n\tstdin:1: in main chunk\n\t[C]: in ?\n"
    );
    assert_eq!(failed.code, Some(0));
    // A script may read the rest.
    assert_eq!(ran(&["-e", "print(io.read('l', 'n', 'a'))"], "line\n42 rest").stdout, "line\t42\t rest\n");
}

#[test]
fn failures() {
    fails(
        &["fail.lua"],
        "lua: fail.lua:2: failed here\nstack traceback:\n\t[C]: in function 'error'\n\
         \tfail.lua:2: in local 'f'\n\tfail.lua:4: in main chunk\n\t[C]: in ?\n",
    );
    fails(
        &["-e", "error('m', 0)"],
        "lua: m\nstack traceback:\n\t[C]: in function 'error'\n\t(command line):1: in main chunk\n\
         \t[C]: in ?\n",
    );
    for (value, message) in [("{}", "table"), ("", "nil"), ("true", "boolean"), ("print", "function")] {
        fails(
            &["-e", &format!("error({value})")],
            &format!(
                "lua: (error object is a {message} value)\nstack traceback:\n\t[C]: in function 'error'\n\
                 \t(command line):1: in main chunk\n\t[C]: in ?\n"
            ),
        );
    }
    fails(
        &["-e", "error(setmetatable({}, {__tostring = function() return 'as text' end}))"],
        "lua: as text\n",
    );
    let ran = run(&["-e", "error(42)"]);
    assert!(ran.stderr.starts_with("lua: 42\nstack traceback:\n"), "{}", ran.stderr);
    fails(&["-e", "x ="], "lua: (command line):1: unexpected symbol near <eof>\n");
    fails(&["nofile.lua"], "lua: cannot open nofile.lua: No such file or directory\n");
    fails(&[""], "lua: cannot open : No such file or directory\n");
    let ran = run(&["-e", "io.write 'kept'; error('x', 0)", "args.lua"]);
    assert_eq!((ran.stdout.as_str(), ran.code), ("kept", Some(1)));
    fails(
        &["-e", "local t = setmetatable({}, {__index = function(t, k) return k.x.y end}); print(t.a)"],
        "lua: (command line):1: attempt to index a nil value (field 'x')\nstack traceback:\n\
         \t(command line):1: in metamethod 'index'\n\t(command line):1: in main chunk\n\t[C]: in ?\n",
    );
}

#[test]
fn exit_codes() {
    for code in [0, 1, 3, 255] {
        let ran = run(&["exit.lua", &code.to_string()]);
        assert_eq!((ran.stdout.as_str(), ran.code), ("partial", Some(code)));
    }
    assert_eq!(run(&["-e", "os.exit(true)"]).code, Some(0));
    assert_eq!(run(&["-e", "os.exit(false)"]).code, Some(1));
    assert_eq!(run(&["-e", "os.exit(256 + 7)"]).code, Some(7));
    assert_eq!(
        run(&["-e", "setmetatable({}, {__gc = function() print 'finaliser' end}) os.exit(2, true)"]).stdout,
        "finaliser\n"
    );
    prints(&["-e", "setmetatable({}, {__gc = function() print 'finaliser' end})"], "finaliser\n");
}

#[test]
fn init_variables() {
    let ran = |environment: &[(&str, &str)], args: &[&str]| run_with(args, "", environment);
    assert_eq!(ran(&[("LUA_INIT", "print 'init'")], &["-e", "print 'e'"]).stdout, "init\ne\n");
    assert_eq!(
        ran(&[("LUA_INIT", "print 'old'"), ("LUA_INIT_5_4", "print 'new'")], &["-e", ""]).stdout,
        "new\n"
    );
    assert_eq!(ran(&[("LUA_INIT", "@init.lua")], &["-e", ""]).stdout, "init file\n");
    assert_eq!(ran(&[("LUA_INIT", "print 'init'")], &["-E", "-e", "print 'e'"]).stdout, "e\n");
    let failed = ran(&[("LUA_INIT", "error 'in init'")], &["-e", "print 'never'"]);
    assert_eq!(
        failed.stderr,
        "lua: LUA_INIT:1: in init\nstack traceback:\n\t[C]: in function 'error'\n\
         \tLUA_INIT:1: in main chunk\n\t[C]: in ?\n"
    );
    assert_eq!((failed.stdout.as_str(), failed.code), ("", Some(1)));
    assert_eq!(
        ran(&[("LUA_INIT_5_4", "x =")], &["-e", ""]).stderr,
        "lua: LUA_INIT_5_4:1: unexpected symbol near <eof>\n"
    );
    assert_eq!(ran(&[("LUA_INIT", "@nofile")], &["-e", ""]).code, Some(1));
    assert_eq!(
        ran(&[("LUA_PATH", "./?.xyz;;")], &["-e", "print(package.path:sub(1, 8))"]).stdout,
        "./?.xyz;\n"
    );
    assert_eq!(
        ran(&[("LUA_PATH_5_4", "only"), ("LUA_PATH", "other")], &["-e", "print(package.path)"]).stdout,
        "only\n"
    );
    assert_ne!(ran(&[("LUA_PATH", "only")], &["-E", "-e", "print(package.path)"]).stdout, "only\n");
}

#[test]
fn warnings() {
    let ran = run(&["-W", "-e", "warn('a', 'b')"]);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", "Lua warning: ab\n"));
    assert_eq!(run(&["-e", "warn('unseen')"]).stderr, "");
    assert_eq!(
        run(&["-e", "warn('@on') warn('seen') warn('@off') warn('unseen')"]).stderr,
        "Lua warning: seen\n"
    );
    let ran = run(&[
        "-W",
        "-e",
        "setmetatable({}, {__gc = function() error('in gc', 0) end}) collectgarbage() print 'on'",
    ]);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("on\n", "Lua warning: error in __gc (in gc)\n"));
}

#[test]
fn interactive_mode_in_a_pipe() {
    let text = |input: &str| {
        let ran = interactive(input);
        assert_eq!(ran.code, Some(0));
        (ran.stdout, ran.stderr)
    };
    let quiet = |input: &str| {
        let (stdout, stderr) = text(input);
        assert_eq!(stderr, "", "{input}");
        stdout
    };
    assert_eq!(quiet(""), "> \n");
    assert_eq!(quiet("1 + 1\n"), "> 2\n> \n");
    assert_eq!(quiet("=1, nil, 'x'\n"), "> 1\tnil\tx\n> \n");
    assert_eq!(quiet("x = 5\nx\n= x * 2\n"), "> > 5\n> 10\n> \n");
    assert_eq!(quiet("local y = 1\ny\n"), "> > nil\n> \n");
    assert_eq!(quiet("for i = 1, 2 do\nprint(i)\nend\n"), "> >> >> 1\n2\n> \n");
    assert_eq!(quiet("function f(\na)\nreturn a\nend\nf(3)\n"), "> >> >> >> > 3\n> \n");
    assert_eq!(quiet("s = [[a\nb]]\n#s\n"), "> >> > 3\n> \n");
    assert_eq!(quiet("'unfinished [['\n"), "> unfinished [[\n> \n");
    assert_eq!(quiet("return 1, 2\n"), "> 1\t2\n> \n");
    assert_eq!(quiet("\n\n"), "> > > \n");
    assert_eq!(quiet("_PROMPT = '? '\n_PROMPT2 = '?? '\ndo\nend\n"), "> ? ? ?? ? \n");
    assert_eq!(
        quiet("_PROMPT = setmetatable({}, {__tostring = function() return 'T>' end})\n1\n"),
        "> T>1\nT>\n"
    );
    assert_eq!(quiet("io.read()\nfed\n'next'\n"), "> fed\n> next\n> \n");
    assert_eq!(quiet("print(1) print(2)\n"), "> 1\n2\n> \n");
    assert_eq!(quiet("coroutine.wrap(function() coroutine.yield(7) end)()\n"), "> 7\n> \n");
    let (stdout, stderr) = text("x = = 1\nerror('e', 0)\nfor\n1\n");
    assert_eq!(stdout, "> > > >> > \n");
    assert_eq!(
        stderr,
        "stdin:1: unexpected symbol near '='\ne\nstack traceback:\n\t[C]: in function 'error'\n\
         \tstdin:1: in main chunk\n\t[C]: in ?\nstdin:2: <name> expected near '1'\n"
    );
    let (_, stderr) = text("print = nil\n5\n");
    assert_eq!(stderr, "error calling 'print' (attempt to call a nil value)\n");
    let (_, stderr) =
        text("error(setmetatable({}, {__tostring = function() return 'obj' end}))\nerror({})\n");
    assert!(stderr.starts_with("obj\n(error object is a table value)\n"), "{stderr}");
}

#[test]
fn interactive_mode_after_a_script() {
    let ran = run_with(&["-i", "args.lua", "a"], "#arg\n", &[]);
    assert_eq!(ran.stdout.split_once('\n').map(|(_, rest)| rest), Some("1\targs.lua\ta\n> 1\n> \n"));
    let ran = run_with(&["-i", "-e", "x = 3"], "x\n", &[]);
    assert_eq!(ran.stdout.split_once('\n').map(|(_, rest)| rest), Some("> 3\n> \n"));
    let ran = run_with(&["-i", "fail.lua"], "print 'never'\n", &[]);
    assert_eq!(ran.code, Some(1));
    assert!(!ran.stdout.contains("never"));
    let ran = run_with(&["-i"], "os.exit(9)\n", &[]);
    assert_eq!(ran.code, Some(9));
}

/// Starts a script, waits for its first line, sends SIGINT.
fn interrupted(place: &Folder, args: &[&str], input: &str) -> Ran {
    let mut child = Limited::start(command(place).args(args));
    child.write(input);
    // With nothing to say, it stays open: who reads waits.
    if !input.is_empty() {
        child.close();
    }
    let first = child.line().expect("a line");
    std::thread::sleep(Duration::from_millis(50));
    // SAFETY: sends a signal to a child that has not been waited for.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    // Its end would end the input, too.
    let sent = Instant::now();
    while child.is_running() && sent.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(10));
    }
    let ran = Ran::of(child.finish());
    Ran { stdout: format!("{first}\n{}", ran.stdout), ..ran }
}

#[test]
fn sigint_is_an_error() {
    let place = place();
    let start = "io.stdout:setvbuf('no') print 'go'; ";
    for code in [
        "while true do end",
        "local n = 0; for i = 1, math.huge do n = n + i end",
        "local function f() return f() end f()",
        "repeat until false",
        "for k in function() return 1 end do end",
        "::top:: goto top",
        "coroutine.wrap(function() while true do end end)()",
        // Natives that take long and call no Lua code.
        "string.rep('a', 40):match(string.rep('a-', 30) .. 'b')",
        "string.rep('a', 40):gsub(string.rep('a?', 40) .. string.rep('a', 40) .. 'b', '')",
        "for x in string.rep('a', 40):gmatch(string.rep('(a*)', 20) .. 'b') do end",
        "string.rep('(', 1e6):find('%b()')",
        "coroutine.wrap(function() string.rep('a', 1e6):find('.-.-.-b') end)()",
        "load(('x=1 '):rep(1e7))",
        "assert(load(function() return 'x=1 ' end))",
        "table.concat(setmetatable({}, {__index = function() return '' end}), '', 1, 1 << 62)",
        "local a, b = ('x'):rep(1e6) .. 1, ('x'):rep(1e6) .. 2 local t = {} for i = 1, 1e5 do t[i] = i % 2 \
         == 0 and a or b end table.sort(t)",
        // System calls that wait.
        "io.read('a')",
        "for l in io.lines() do end",
        "loadfile()",
        "dofile('/dev/zero')",
        "local f = io.popen('sleep 0.5; cat /dev/zero') f:read('a')",
        "local f = io.popen('exec sleep 30 2> /dev/null') f:close()",
    ] {
        let ran = interrupted(&place, &["-e", &format!("{start}{code}")], "");
        assert!(
            ran.stderr.starts_with("lua: ") && ran.stderr.contains("interrupted!\nstack traceback:\n"),
            "{code}: {}",
            ran.stderr
        );
        assert_eq!(ran.code, Some(1), "{code}");
    }
    // It can be caught, like any error.
    let ran =
        interrupted(&place, &["-e", &format!("{start}print(pcall(function() while true do end end))")], "");
    assert!(
        ran.stdout.starts_with("go\nfalse\t") && ran.stdout.ends_with("interrupted!\n"),
        "{}",
        ran.stdout
    );
    assert_eq!((ran.stderr.as_str(), ran.code), ("", Some(0)));
}

#[test]
fn sigint_returns_to_the_prompt() {
    let place = place();
    place.write("wait.lua", "io.stdout:setvbuf('no')");
    for endless in
        ["while true do end", "return ('a'):rep(40):find(('a-'):rep(30) .. 'b')", "load(('x=1 '):rep(1e7))"]
    {
        let ran = interrupted(&place, &["-i", "wait.lua"], &format!("{endless}\n'still here'\n"));
        assert!(ran.stdout.ends_with("> > still here\n> \n"), "{endless}: {}", ran.stdout);
        assert!(ran.stderr.contains("interrupted!\nstack traceback:\n"), "{endless}: {}", ran.stderr);
        assert_eq!(ran.code, Some(0));
    }
}

#[test]
fn subcommands() {
    if std::env::var_os("PERILUNE_TEST_BIN").is_some() {
        return;
    }
    let place = place();
    symlink(binary(), place.join("perilune")).unwrap();
    let run = |args: &[&str], stdin: &str| {
        let output = Limited::feed(program(&place, "./perilune").args(args), stdin);
        (text(&output.stdout), text(&output.stderr), output.status.code())
    };
    assert_eq!(run(&["run", "args.lua", "a"], "").0, "1\targs.lua\ta\n");
    assert_eq!(run(&["run", "neg.lua"], "").0, "0=neg.lua -1=run -2=perilune \n");
    assert!(run(&["repl"], "1 + 1\n").0.ends_with("> 2\n> \n"));
    let wants = "perilune: 'perilune run' wants a script behind it\n";
    assert_eq!(run(&["run"], "").1, format!("perilune: cannot open run: No such file or directory\n{wants}"));
    // A file of that name is what is meant.
    place.write("run", "print('file', ...)");
    assert_eq!(run(&["run", "args.lua"], "").0, "file\targs.lua\n");
    fs::remove_file(place.join("run")).unwrap();
}

/// `print` hands each line to the system; `io.write` does not.
#[test]
fn print_flushes() {
    let place = place();
    let script = "print('a') io.stderr:write('b\\n') io.write('c\\n') io.stderr:write('d\\n') print('e')";
    // Both streams into one file: the order is that of the system calls.
    let both = ["-c", "exec ./lua -e \"$0\" > both 2>&1", script];
    assert!(Limited::run(program(&place, "sh").args(both)).status.success());
    assert_eq!(place.text("both"), "a\nb\nd\nc\ne\n");
    // A program that is killed has said its lines.
    let mut killed = command(&place);
    killed
        .args(["-e", "print('said') io.write('held back') assert(io.open('/proc/self/stat')):read('n')"])
        .args(["-e", "io.popen('kill -9 ' .. io.open('/proc/self/stat'):read('n')):read()"]);
    let output = Limited::run(&mut killed);
    assert_eq!(output.status.code(), None, "{output:?}");
    assert!(output.stdout.starts_with(b"said\n"), "{output:?}");
}

/// A co-process gets its line while the program waits for the answer.
#[test]
fn print_reaches_a_partner_that_waits() {
    let place = place();
    let questions = "for i = 1, 3 do print('question', i) io.stderr:write(io.read(), '\\n') end";
    let mut child = Limited::start(command(&place).args(["-e", questions]));
    for i in 1..=3 {
        assert_eq!(child.line(), Some(format!("question\t{i}")));
        child.write("answer\n");
    }
    assert!(child.finish().status.success());
}

/// A hook that outlives the chunk that sets it sees the program's functions and nothing else.
#[test]
fn hooks_between_chunks() {
    const REPORT: &str = "debug.sethook(function(event, line) \
        local i = debug.getinfo(2, 'Sn') \
        io.write(event, ' ', tostring(line), ' ', i.what, ' ', tostring(i.name), '\\n') end, 'crl')";
    let chunk = |name: &str| {
        format!("call nil main nil\nline 1 main nil\nline 2 main nil\nreturn nil main nil\n{name}")
    };
    let done = "os.exit(0, false)";
    let expected = [
        "return nil C sethook\nreturn nil main nil\n",
        &chunk(""),
        &chunk(""),
        "call nil main nil\nline 1 main nil\ncall nil C exit\n",
    ];
    prints(&["-e", REPORT, "-e", "x = 1\ny = 2", "-e", "x = 1\ny = 2", "-e", done], &expected.concat());
    // Set by a module and by LUA_INIT; counts are of the program's instructions too.
    let lines = "debug.sethook(function(_, line) io.write(tostring(line), ' ') end, 'l')";
    let place = place();
    place.write("hook.lua", lines);
    place.write("two.lua", "local x\nx = 1\n");
    for (args, variable) in
        [(&["-l", "hook", "two.lua"][..], ""), (&["two.lua"], lines), (&["two.lua"], "@hook.lua")]
    {
        let output = Limited::run(command(&place).args(args).env("LUA_INIT", variable));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "1 2 ", "{args:?} {variable} {output:?}");
    }
}
