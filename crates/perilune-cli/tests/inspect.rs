//! `pl.inspect`: each case is a Lua program and the text that it must give.

use perilune_test::{Folder, Limited};
use std::process::Command;

fn run(source: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
    let program = format!("local pl = require 'perilune' local inspect = pl.inspect {source}");
    let output = Limited::run(command.args(["-e", &program]));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.is_empty(), "{source}\n{stderr}");
    String::from_utf8(output.stdout).unwrap().trim_end_matches('\n').to_owned()
}

#[track_caller]
fn shows(value: &str, text: &str) {
    assert_eq!(run(&format!("print(inspect({value}))")), text, "{value}");
}

#[test]
fn values_that_are_no_tables() {
    for (value, text) in [
        ("nil", "nil"),
        ("true", "true"),
        ("false", "false"),
        ("12", "12"),
        ("1.0", "1.0"),
        ("1e100", "1e+100"),
        ("math.huge", "math.huge"),
        ("-math.huge", "-math.huge"),
        ("0/0", "0/0"),
        ("math.mininteger", "math.mininteger"),
        ("'a\"b\\n\\0001'", r#""a\"b\n\0001""#),
        ("'grün'", "\"grün\""),
        ("print", "<native print>"),
        ("function() end", "<function (command line):1>"),
        ("io.stdout == io.stdout and io.stdout", "<file (0x"),
    ] {
        let got = run(&format!("print(inspect({value}))"));
        assert!(got == text || text.ends_with("0x") && got.starts_with(text), "{value}: {got}");
    }
    assert!(run("print(inspect(coroutine.create(print)))").starts_with("<thread: 0x"));
}

#[test]
fn strings_can_be_read_back() {
    let all = "local t = {} for i = 0, 255 do t[#t + 1] = string.char(i) t[#t + 1] = string.char(i) .. '7' \
        end \
        t[#t + 1] = '\\u{85}\\u{10ffff}\\xff' local s = table.concat(t) print(load('return ' .. \
        inspect(s))() == s)";
    assert_eq!(run(all), "true");
}

#[test]
fn order_of_entries() {
    shows("{}", "{}");
    shows("{1, 2, x = 1}", "{1, 2, x = 1}");
    shows(
        "{b = 1, a = 2, [10] = 3, [1.5] = 4, [true] = 5, [false] = 6}",
        "{[1.5] = 4, [10] = 3, a = 2, b = 1, [false] = 6, [true] = 5}",
    );
    shows("{1, nil, 3}", "{1, [3] = 3}");
    shows(
        "{['a b'] = 1, ['end'] = 2, ['1'] = 3, _x1 = 4}",
        r#"{["1"] = 3, _x1 = 4, ["a b"] = 1, ["end"] = 2}"#,
    );
    shows("{[{}] = 1}", "{[{}] = 1}");
    shows(
        "{[math.maxinteger] = 1, [math.maxinteger - 1] = 2}",
        "{[9223372036854775806] = 2, [9223372036854775807] = 1}",
    );
    // The same, however it came to be.
    let program = "local a, b = {}, {} for i = 1, 20 do a['k' .. i] = i b['k' .. 21 - i] = 21 - i end \
        print(inspect(a) == inspect(b))";
    assert_eq!(run(program), "true");
}

#[test]
fn cycles_and_shared_tables() {
    let cycle = "local t = {name = 't'} t.self = t print(inspect(t))";
    assert_eq!(run(cycle), r#"<1>{name = "t", self = <cycle 1>}"#);
    let shared = "local s = {1} print(inspect({a = s, b = s, c = {1}}))";
    assert_eq!(run(shared), "{a = <1>{1}, b = <table 1>, c = {1}}");
    let two = "local p, q = {}, {} p.q, q.p = q, p print(inspect({p, q, p}))";
    assert_eq!(run(two), "{<1>{q = <2>{p = <cycle 1>}}, <table 2>, <table 1>}");
    let key = "local k = {} print(inspect({[k] = k}))";
    assert_eq!(run(key), "{[<1>{}] = <table 1>}");
}

#[test]
fn metatables() {
    shows("setmetatable({x = 1}, {__name = 'Point'})", "Point {x = 1}");
    shows("setmetatable({x = 1}, {__tostring = function(p) return 'P' .. p.x end})", "<P1> {x = 1}");
    shows("setmetatable({x = 1}, {y = 2})", "{x = 1, <metatable> = {y = 2}}");
    shows("setmetatable({x = 1}, {y = 2}), {metatables = false}", "{x = 1}");
    shows("setmetatable({}, {__name = 'N'}), {metatables = true}", r#"N {<metatable> = {__name = "N"}}"#);
    shows("setmetatable({}, {__metatable = 'hidden', __name = 'N'})", "N {}");
    shows("setmetatable({}, {__tostring = function() error('no', 0) end})", "<error in __tostring: no> {}");
    shows("setmetatable({}, {__tostring = function() return 'two\\nlines' end})", "<two...> {}");
    // Neither __index nor __pairs is asked.
    let quiet = "setmetatable({1}, {__name = 'Q', __index = error, __pairs = error, __len = error})";
    shows(quiet, "Q {1}");
}

#[test]
fn objects_of_the_module() {
    shows("pl.array('f64', 3)", "array f64 {0.0, 0.0, 0.0}");
    shows("pl.array('i32', 1000), {items = 2}", "array i32 {0, 0, <998 more>}");
    assert!(run("print(inspect({pl.channel.new(1)}))").starts_with("{<channel"));
    shows("pl.share({1, {2}})", "{1, {2}}");
}

#[test]
fn limits_are_said() {
    shows("{1, 2, 3, a = 1, b = 2, c = 3}, {items = 2}", "{1, 2, <1 more>, a = 1, b = 2, <1 more>}");
    shows("{a = {b = {c = {}}}}, {depth = 2}", "{a = {b = {...}}}");
    shows("{a = {b = {}}}, {depth = 2}", "{a = {b = {}}}");
    shows("('x'):rep(100), {string = 5}", "\"xxxxx\"..<100 bytes>");
    shows("{1, 2, 3, 4, 5}, {total = 3}", "{1, 2, 3, <2 more>}");
    // A tree that is as large as it likes is a text that is not.
    let program = "local function tree(n) if n == 0 then return 1 end local t = {} for i = 1, 10 do t[i] = \
        tree(n - 1) end return t end \
        print(#inspect(tree(5)) < 200000)";
    assert_eq!(run(program), "true");
    // A list without end, or as good as.
    let program =
        "local t for i = 1, 100000 do t = {t} end print(#inspect(t, {depth = math.huge, width = 1000}))";
    assert_eq!(run(program), "205");
    let wrong = "print(select(2, pcall(inspect, {}, {dept = 1})))";
    assert!(run(wrong).contains("unknown option 'dept'"));
    assert!(run("print(select(2, pcall(inspect, {}, {depth = 'x'})))").contains("'depth' must be a number"));
    assert!(run("print(select(2, pcall(inspect)))").contains("value expected"));
}

#[test]
fn lines() {
    let wide = r#"print(inspect({name = "a long enough name", list = {1, 2, 3}, inner = {x = 1, y = 2}}, {width = 40}))"#;
    assert_eq!(
        run(wide),
        "{\n  inner = {x = 1, y = 2},\n  list = {1, 2, 3},\n  name = \"a long enough name\"\n}"
    );
    let numbers = "local t = {} for i = 1, 30 do t[i] = i end print(inspect(t, {width = 40}))";
    assert_eq!(
        run(numbers),
        "{\n  1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,\n  13, 14, 15, 16, 17, 18, 19, 20, 21,\n  22, 23, 24, \
         25, 26, 27, 28, 29, 30\n}"
    );
    let coloured = "print(inspect({1, 'a', true}, {colour = true}))";
    assert_eq!(run(coloured), "{\x1b[36m1\x1b[0m, \x1b[32m\"a\"\x1b[0m, \x1b[33mtrue\x1b[0m}");
}

/// Code that `__tostring` runs may drop and change what is being shown.
#[test]
fn what_is_shown_may_go_away() {
    let program = "local root = {} \
        local function vanish(t) for k in pairs(root) do root[k] = nil end setmetatable(t, nil) t = nil \
        for i = 1, 50 do collectgarbage() local g = {{}, {}, {}} end return 'gone' end \
        for i = 1, 20 do root[i] = setmetatable({{i}, k = {i}}, {__tostring = vanish}) end \
        local text = inspect(root) print(text:sub(1, 16), #text > 100)";
    let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
    let program = format!("local pl = require 'perilune' local inspect = pl.inspect {program}");
    command.args(["-e", &program]).env("PERILUNE_GC_STRESS", "1").env("PERILUNE_GC_POISON", "1");
    let output = Limited::run(&mut command);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "{\n  <gone> {{1},\ttrue\n");
}

/// Errors that are tables show what is in them; under the name of `lua`, where the reference does not, they
/// do not.
#[test]
fn errors_that_are_tables() {
    let place = Folder::new();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_perilune"), place.join("lua")).unwrap();
    let first = |program: &std::path::Path, source: &str| {
        let output = Limited::run(Command::new(program).args(["-e", source]));
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap().lines().next().unwrap().to_owned()
    };
    let (perilune, lua) = (std::path::Path::new(env!("CARGO_BIN_EXE_perilune")), place.join("lua"));
    for (source, ours, theirs) in [
        (
            "error({code = 1, 'x'})",
            "(error object is a table value: {\"x\", code = 1})",
            "(error object is a table value)",
        ),
        (
            "error(setmetatable({1}, {__name = 'E'}))",
            "(error object is a table value: E {1})",
            "(error object is a table value)",
        ),
        ("error(print)", "(error object is a function value)", "(error object is a function value)"),
        ("error(setmetatable({}, {__tostring = function() return 'told' end}))", "told", "told"),
    ] {
        assert_eq!(first(perilune, source), format!("perilune: {ours}"));
        assert_eq!(first(&lua, source), format!("{}: {theirs}", lua.display()));
    }
}
