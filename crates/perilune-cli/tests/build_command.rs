//! `perilune build`: what is in the executable, and that it needs nothing else.

use perilune_test::{Folder, Limited, text};
use std::fs;
use std::process::{Command, Output};

/// A folder with a program, and an empty one in which its executable is run.
struct Project(Folder);

impl Project {
    fn new(files: &[(&str, &str)]) -> Project {
        let folder = Folder::with(files.iter().copied());
        fs::create_dir_all(folder.join("elsewhere")).unwrap();
        Project(folder)
    }

    fn perilune(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
        command.args(words).current_dir(&self.0);
        Limited::run(command.env("LUA_PATH", "./?.lua;./?/init.lua").env("LUA_CPATH", "./?.so"))
    }

    #[track_caller]
    fn build(&self, words: &[&str]) -> String {
        let output = self.perilune(&[&["build", "-o", "elsewhere/app"], words].concat());
        assert_eq!(
            (output.status.code(), text(&output.stdout).as_str()),
            (Some(0), ""),
            "{}",
            text(&output.stderr)
        );
        text(&output.stderr)
    }

    fn app(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.0.join("elsewhere/app"));
        command.args(words).current_dir(self.0.join("elsewhere")).env_clear();
        command.env("LUA_INIT", "error 'LUA_INIT'").env("LUA_PATH", self.0.join("?.lua"));
        command
    }

    #[track_caller]
    fn prints(&self, words: &[&str], what: &str) {
        let output = Limited::run(&mut self.app(words));
        let got = (output.status.code(), text(&output.stdout), text(&output.stderr));
        assert_eq!(got, (Some(0), what.to_owned(), String::new()));
    }
}

const MAIN: &str = r#"#!/usr/bin/env perilune
local pl = require "perilune"
local greet = require("greet")
print(greet.hello(arg[1]), #arg, ..., (arg[0]:match "[^/]*$"))
print(pl.asset("data/names.txt"), (pl.asset "data/none"))
print(pl.pool.new({workers = 2}):async(function() return require("greet").hello("task") end):await())
print(pl.domain.spawn(function() return require("deep.part"), require("perilune").asset "data/names.txt" end):join())
"#;

const FILES: &[(&str, &str)] = &[
    ("main.lua", MAIN),
    (
        "greet.lua",
        "local part = require 'deep.part' return {hello = function(n) return part .. ' ' .. tostring(n) end}",
    ),
    (
        "deep/part/init.lua",
        "local name, file = ... assert(name == 'deep.part' and file == './deep/part/init.lua') return \
         'hello'",
    ),
    ("data/names.txt", "Ada"),
];

#[test]
fn a_program_with_all_that_belongs_to_it() {
    let project = Project::new(FILES);
    let said = project.build(&["--asset", "data", "main.lua"]);
    assert_eq!(said, "");
    // All words are the program's, and nothing outside is needed or heeded.
    let want = |first: &str, n: usize, rest: &str| {
        format!("hello {first}\t{n}\t{rest}app\nAda\tnil\nhello task\nhello\tAda\n")
    };
    // Without arguments, `...` is nothing; in the middle of a list it is nil.
    project.prints(&[], &want("nil", 0, "nil\t"));
    project.prints(&["world"], &want("world", 1, "world\t"));
    project.prints(&["--version"], &want("--version", 1, "--version\t"));
    project.prints(&["bench"], &want("bench", 1, "bench\t"));
    // From files it is the same program.
    let output = project.perilune(&["main.lua", "world"]);
    assert_eq!(
        text(&output.stdout),
        want("world", 1, "world\t").replace("app\n", "main.lua\n"),
        "{}",
        text(&output.stderr)
    );
    // It survives `strip`.
    let stripped = Command::new("strip").arg(project.0.join("elsewhere/app")).status();
    if stripped.is_ok_and(|status| status.success()) {
        project.prints(&["stripped"], &want("stripped", 1, "stripped\t"));
    }
}

#[test]
fn errors_have_names_and_lines() {
    let files = [
        ("main.lua", "local m = require 'm'\nif arg[1] then os.exit(tonumber(arg[1])) end\nm.fail()\n"),
        ("m.lua", "return {\n  fail = function() error('here') end,\n}\n"),
    ];
    let project = Project::new(&files);
    project.build(&["main.lua"]);
    let output = Limited::run(&mut project.app(&[]));
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        err.contains("app: ./m.lua:2: here\nstack traceback:\n") && err.contains("main.lua:3: in main chunk"),
        "{err}"
    );
    assert_eq!(Limited::run(&mut project.app(&["7"])).status.code(), Some(7));
    // What is not inside is not looked for elsewhere.
    fs::write(project.0.join("main.lua"), "local name = 'm' print(pcall(require, name))").unwrap();
    let said = project.build(&["main.lua"]);
    let computed =
        "perilune build: main.lua:1: the name of this module is computed; --include adds modules\n";
    assert_eq!(said, computed);
    let output = Limited::run(&mut project.app(&[]));
    assert!(text(&output.stdout).contains("no module 'm' in the executable"), "{}", text(&output.stdout));
}

#[test]
fn what_goes_in() {
    let files = [
        ("main.lua", "local a = require 'a'\nlocal name = 'b'\nlocal b = require(name)\nprint(a, b)"),
        ("a.lua", "return 'A'"),
        ("b.lua", "return 'B'"),
        ("clib.so", ""),
        ("needs_c.lua", "require 'clib'\nrequire 'nowhere'"),
        ("wrong.lua", "x = = 1"),
    ];
    let project = Project::new(&files);
    let remark = "perilune build: main.lua:3: the name of this module is computed; --include adds modules\n";
    let list = project.perilune(&["build", "--list", "main.lua"]);
    assert_eq!(text(&list.stdout), "script\t\tmain.lua\t74\nmodule\ta\t./a.lua\t10\n");
    assert_eq!(text(&list.stderr), remark);
    assert_eq!(project.build(&["--include", "b", "main.lua"]), remark);
    project.prints(&[], "A\tB\n");
    let fails = |words: &[&str], parts: &[&str]| {
        let output = project.perilune(&[&["build"], words].concat());
        for part in parts {
            assert!(text(&output.stderr).contains(part), "{words:?}: {}", text(&output.stderr));
        }
        output.status.code()
    };
    let c = "perilune build: needs_c.lua:1: module 'clib' is a C module (./clib.so), which cannot be part of \
        an executable\n";
    let none = "perilune build: needs_c.lua:2: module 'nowhere' is not found in ./?.lua;./?/init.lua\n";
    assert_eq!(fails(&["-o", "x", "needs_c.lua"], &[c, none, "--without NAME"]), Some(1));
    assert!(!project.0.join("x").exists());
    project.build(&["--without", "clib", "--without=nowhere", "needs_c.lua"]);
    assert_eq!(
        fails(&["-o", "x", "wrong.lua"], &["perilune build: wrong.lua:1: unexpected symbol near '='"]),
        Some(1)
    );
    assert_eq!(fails(&["-o", "x", "none.lua"], &["none.lua: No such file"]), Some(1));
    assert_eq!(
        fails(&["-o", "x", "--asset", "/etc/hostname", "main.lua"], &["it is not below the script's folder"]),
        Some(1)
    );
    assert_eq!(fails(&["main.lua"], &["-o FILE says what is made"]), Some(2));
    assert_eq!(fails(&["-o", "x"], &["name one script"]), Some(2));
}

#[test]
fn damage_is_found() {
    let project = Project::new(&[("main.lua", "print 'a text to be found'")]);
    project.build(&["main.lua"]);
    let file = project.0.join("elsewhere/app");
    let mut bytes = fs::read(&file).unwrap();
    let text_at = b"a text to be found";
    let at = bytes.windows(text_at.len()).rposition(|part| part == text_at).unwrap();
    bytes[at] = b'A';
    fs::write(&file, bytes).unwrap();
    let output = Limited::run(&mut project.app(&[]));
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("the program in this executable: it is damaged"),
        "{}",
        text(&output.stderr)
    );
}

/// `pl.asset` reads below the program's folder only.
#[test]
fn names_of_assets() {
    let project = Project::new(&[
        ("inner/main.lua", "local pl = require 'perilune' print(pl.asset(arg[1]))"),
        ("inner/a.txt", "A"),
        ("b.txt", "B"),
    ]);
    let run = |name: &str| text(&project.perilune(&["inner/main.lua", name]).stdout);
    assert_eq!(run("a.txt"), "A\n");
    assert!(run("b.txt").starts_with("nil\tb.txt: No such file"));
    for name in ["../b.txt", "/etc/passwd", "", "."] {
        let output = project.perilune(&["inner/main.lua", name]);
        assert!(text(&output.stderr).contains("a path below the program's folder expected"), "{name}");
    }
}

/// Modules that are part of the command need no file.
#[test]
fn modules_that_are_always_there() {
    let main = "local json, lfs, net = require 'perilune.json', require 'lfs', require 'perilune.net'\n\
        local socket, http = require 'socket.core', require 'perilune.http'\n\
        print(json.encode{1}, type(lfs.currentdir()), type(net.listen), type(socket.tcp), type(http))";
    let project = Project::new(&[("main.lua", main)]);
    assert_eq!(project.build(&["main.lua"]), "");
    project.prints(&[], "[1]\tstring\tfunction\tfunction\ttable\n");
}

#[test]
fn what_runs_ask_for_is_put_in() {
    let files = [
        (
            "app/main.lua",
            "local pl = require 'perilune'\n\
             package.path = './app/?.lua'\n\
             local kind, data = ...\n\
             local plugin = require('plugins.' .. kind)\n\
             print(plugin.name, pl.asset(data .. '.txt'))\n\
             if arg[3] then dofile 'app/settings.lua' io.open('app/log.txt'):close() \
             io.open('elsewhere/new', 'w'):close() os.exit(3) end",
        ),
        ("app/plugins/csv.lua", "return {name = 'csv', part = require 'plugins.common'}"),
        (
            "app/plugins/xml.lua",
            "return {name = 'xml', pool = require 'perilune'.pool.new({workers = 1}):async(function() return \
             require 'plugins.deep' end):await()}",
        ),
        ("app/plugins/common.lua", "return 1"),
        ("app/plugins/deep.lua", "return 2"),
        ("app/plugins/other.lua", "return {name = 'other'}"),
        ("app/one.txt", "1"),
        ("app/two words.txt", "2"),
        ("app/settings.lua", ""),
        ("app/log.txt", ""),
    ];
    let project = Project::new(&files);
    let computed = "perilune build: app/main.lua:4: the name of this module is computed; \
                    what the runs required is put in, --include adds modules\n";
    let all = [
        "--without",
        "plugins.common",
        "--trace",
        "csv one",
        "--trace",
        "xml 'two words' end",
        "app/main.lua",
    ];
    let said = project.build(&all);
    let want = format!(
        "csv\t1\nxml\t2\n\
         perilune build: the run 'xml 'two words' end' ended with exit code 3; what it had asked for until \
         then is put in\n\
         perilune build: a run required module 'plugins.csv' (./app/plugins/csv.lua)\n\
         perilune build: a run required module 'plugins.deep' (./app/plugins/deep.lua)\n\
         perilune build: a run required module 'plugins.xml' (./app/plugins/xml.lua)\n\
         perilune build: a run asked for asset 'one.txt'\n\
         perilune build: a run asked for asset 'two words.txt'\n\
         perilune build: app/settings.lua is not put in: a run loaded it by the name of its file (require \
         finds what is in an executable)\n\
         perilune build: app/log.txt is not put in: a run opened it by the name of its file (pl.asset finds \
         what is in an executable)\n\
         {computed}"
    );
    assert_eq!(said, want);
    project.prints(&["xml", "two words"], "xml\t2\n");
    let output = Limited::run(&mut project.app(&["other", "one"]));
    assert!(
        text(&output.stderr).contains("no module 'plugins.other' in the executable"),
        "{}",
        text(&output.stderr)
    );
    // Along with what is named, each once.
    let list = project.perilune(&[
        "build",
        "--list",
        "--trace",
        "csv one",
        "--include",
        "app.plugins.other",
        "--asset",
        "app/one.txt",
        "app/main.lua",
    ]);
    let names: Vec<String> =
        text(&list.stdout).lines().map(|l| l.split('\t').take(2).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        names,
        [
            "script ",
            "module app.plugins.other",
            "module plugins.common",
            "module plugins.csv",
            "asset one.txt"
        ],
        "{}",
        text(&list.stderr)
    );
    let bad = project.perilune(&["build", "--list", "--trace", "'csv", "app/main.lua"]);
    assert_eq!(
        (bad.status.code(), text(&bad.stderr).as_str()),
        (Some(1), "perilune build: --trace: a ' in <'csv> is not closed\n")
    );
}

#[test]
fn modules_that_a_program_can_do_without() {
    let files = [
        (
            "main.lua",
            "print(pcall(require, 'm'))\nprint((pcall(require, 'fast')), (pcall(require, 'none')))\n",
        ),
        ("m.lua", "return 'here'"),
        ("fast.so", ""),
    ];
    let project = Project::new(&files);
    let said = project.build(&["main.lua"]);
    assert!(said.contains("perilune build: main.lua:2: module 'fast' is a C module ("), "{said}");
    assert!(said.contains("perilune build: main.lua:2: module 'none' is not found in "), "{said}");
    assert_eq!(said.matches("; it is left out, as the program asks for it by pcall\n").count(), 2, "{said}");
    project.prints(&[], "true\there\t./m.lua\nfalse\tfalse\n");
    // Who insists elsewhere stops the build.
    fs::write(project.0.join("m.lua"), "return require 'none'").unwrap();
    let output = project.perilune(&["build", "--list", "main.lua"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("m.lua:1: module 'none' is not found in "), "{said}");
}
