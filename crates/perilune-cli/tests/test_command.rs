//! `perilune test`: each case is a folder with test files, and what is said of them.

use perilune_test::{Folder, Limited};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// A folder with test files.
struct Project(Folder);

struct Ran {
    out: String,
    err: String,
    code: Option<i32>,
}

impl Project {
    fn new(files: &[(&str, &str)]) -> Project {
        Project(Folder::with(files.iter().copied()))
    }

    fn test(&self, words: &[&str]) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
        let output =
            Limited::run(command.arg("test").args(words).current_dir(&self.0).env_remove("LUA_PATH"));
        Ran {
            out: without_times(&String::from_utf8(output.stdout).unwrap()),
            err: String::from_utf8(output.stderr).unwrap(),
            code: output.status.code(),
        }
    }

    /// All tests pass, and this is said of them.
    #[track_caller]
    fn passes(&self, words: &[&str], last: &str) {
        let ran = self.test(words);
        let (got, err) = (ran.out.lines().last().unwrap_or(""), &ran.err);
        assert!(ran.code == Some(0) && got.starts_with(last), "{words:?}: {:?}\n{}{err}", ran.code, ran.out);
    }
}

/// `T` for numbers of seconds.
fn without_times(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let mut line = line.to_owned();
        for (before, after) in [("(", " s)"), ("time=\"", "\""), ("assertions, ", " s")] {
            let mut from = 0;
            while let Some(start) = line[from..].find(before).map(|at| from + at + before.len()) {
                let length = line[start..]
                    .find(|c: char| !c.is_ascii_digit() && c != '.')
                    .unwrap_or(line.len() - start);
                if length > 0 && line[start + length..].starts_with(after) {
                    line.replace_range(start..start + length, "T");
                }
                from = start;
            }
        }
        out.push_str(&line);
        out.push('\n');
    }
    out
}

#[test]
fn the_order_of_busted() {
    let project = Project::new(&[(
        "order_spec.lua",
        r#"
local log = {}
local function note(text) return function() log[#log + 1] = text end end
setup(note "setup file")
teardown(function() print(table.concat(log, ", ")) end)
before_each(note "before file")
after_each(note "after file")
describe("outer", function()
  note("body outer")()
  lazy_setup(note "lazy outer")
  lazy_teardown(note "lazy down outer")
  setup(note "setup outer")
  teardown(note "down outer")
  before_each(note "before outer")
  after_each(note "after outer")
  it("one", function() finally(note "finally") note("one")() end)
  describe("inner", function()
    note("body inner")()
    before_each(note "before inner")
    it("two", note "two")
  end)
  describe("without tests", function()
    lazy_setup(note "never")
    setup(note "setup empty")
  end)
end)
"#,
    )]);
    let ran = project.test(&["-v"]);
    assert_eq!(ran.code, Some(0), "{}", ran.out);
    let want = "setup file, body outer, setup outer, lazy outer, before file, before outer, one, finally, \
        after file, after outer, \
        body inner, before file, before outer, before inner, two, after file, after outer, setup empty, lazy \
        down outer, down outer";
    // Of a block the inner functions come first afterwards.
    let want = want.replace("after file, after outer", "after outer, after file");
    let got = ran.out.split("  output:\n    ").nth(1).unwrap().lines().next().unwrap();
    assert_eq!(got, want);
    assert!(ran.out.contains("  passed: outer inner two (line 20)\n"), "{}", ran.out);
}

const ASSERTIONS: &str = r##"
local luassert = require "luassert"
assert.equal(luassert, assert)
local function fails(f, ...) local ok, e = pcall(f, ...) assert(not ok, "it should have failed") return e end
describe("assertions", function()
  it("hold", function()
    assert.are.same({1, {x = 2}, [{}] = 3}, {1, {x = 2}, [{}] = 3})
    assert.are_not.same({1}, {2}) assert.is_not.same({}, {1}) assert.same(nil, nil)
    assert.are.equal(1, 1.0) assert.equals("a", "a") assert.are_not_equal({}, {})
    assert.is_true(true) assert.is_not_true(1) assert.True(true) assert.is.False(false) assert.is_nil() assert.is_not_nil(1)
    assert.truthy(0) assert.is_falsy(nil) assert.is_string("") assert.is_number(1) assert.is_table({}) assert.is_function(print)
    assert.is_boolean(false) assert.is_userdata(io.stdout) assert.is_thread(coroutine.create(print)) assert.is_callable(print)
    assert.is_near(1, 1.05, 0.1) assert.is_not.near(1, 2, 0.5)
    assert.has_error(function() error("e") end) assert.has_error(function() error("e") end, "e")
    assert.has.errors(function() error({1}) end, {1}) assert.has_no.errors(function() end) assert.has_no_error(print)
    assert.error_matches(function() error("number 12") end, "number %d+") assert.matches("^a", "abc") assert.has_no_match("b", "a")
    assert.is_unique({1, 2, 3}) assert.returned_arguments(2, 1, nil)
    local cycle = {} cycle.self = cycle local other = {} other.self = other assert.same(cycle, other)
    local mt = {__eq = function() return true end} assert.same(setmetatable({1}, mt), setmetatable({2}, mt))
    assert.equal(5, assert(5)) assert.equal(3, select("#", assert(1, nil, nil)))
    assert.message("why").is_true(true)
  end)
  it("fail", function()
    for _, case in ipairs {
      {"equal", 1, 2}, {"same", {1}, {2}}, {"is_true", false}, {"is_not_nil", nil}, {"is_string", 1}, {"has_error", function() end},
      {"has_no.errors", error}, {"is_near", 1, 3, 1}, {"matches", "x", "abc"}, {"is_unique", {1, 1}}, {"error_matches", print, "x"},
      {"is_not_equal", 1, 1}, {"has_error", function() error("a") end, "b"},
    } do
      local f = assert
      for word in case[1]:gmatch("[^.]+") do f = f[word] end
      fails(f, table.unpack(case, 2))
    end
    assert.matches("there is no assertion 'assert.is_green'", fails(function() assert.is_green(1) end))
    assert.matches("^why\n", (fails(function() assert.message("why").is_true(false) end):gsub("^.-:%d+: ", "")))
    assert.equal("as it is", fails(function() assert(nil, "as it is") end))
  end)
  it("can be registered", function()
    assert:register("assertion", "even", function(state, arguments) return arguments[1] % 2 == 0 end)
    assert.is_even(2) assert.is_not_even(3) fails(assert.is_even, 3)
  end)
end)
describe("spies", function()
  local t
  before_each(function() t = {double = function(x) return x * 2 end} end)
  it("see calls", function()
    local s = spy.on(t, "double")
    assert.equal(4, t.double(2)) t.double(5)
    assert.spy(s).was.called() assert.spy(s).was_called(2) assert.spy(s).was.called_with(5) assert.spy(s).was_not.called_with(6)
    assert.spy(s).returned_with(4) assert.spy(s).called_at_least(1) assert.spy(s).called_at_most(2) assert.spy(s).called_less_than(3)
    assert.spy(s).was.called_with(match.is_number()) assert.spy(s).was_not.called_with(match.is_string())
    assert.spy(s).was.called_with(match._) assert.spy(s).called_with(match.near(5.1, 0.2))
    assert.spy(s).called_with(match.any_of(match.is_nil(), match.equal(2))) assert.spy(s).called_with(match.is_not_nil())
    s:clear() assert.spy(s).was_not.called()
    local mutable = {1} local m = spy.new(function() end) m(mutable) mutable[1] = 2
    assert.spy(m).was.called_with({1})
    fails(function() assert.spy(s).was.called() end)
  end)
  it("are taken back after a test", function() assert.is_function(t.double) assert.is_false(spy.is_spy(string.rep)) end)
  it("stub", function()
    local s = stub(t, "double").returns(7)
    assert.equal(7, t.double()) s.on_call_with(1).returns(8) assert.equal(8, t.double(1))
    s.invokes(function(x) return x end) assert.equal("x", t.double("x"))
    s:revert() assert.equal(2, t.double(1))
    stub(string, "rep") assert.is_nil(string.rep("x", 2))
  end)
  it("were taken back", function() assert.equal("xx", string.rep("x", 2)) end)
  it("mock", function()
    local m = mock({f = function() return 1 end, inner = {g = function() return 2 end}}, true)
    assert.is_nil(m.f()) assert.is_nil(m.inner.g(3)) assert.spy(m.inner.g).was.called_with(3)
    mock.revert(m) assert.equal(1, m.f())
  end)
end)
describe("expect", function()
  it("holds", function()
    expect(1).to.equal(1) expect({1}).to.equal({1}) expect({}).to_not.be({}) expect("x").to.be.a("string") expect(1).to.be.an("integer")
    expect(nil).to_not.exist() expect(1).to.be.truthy() expect("abc").to.match("b") expect({1, 2}).to.have(2)
    expect(function() error("x") end).to.fail("x") expect(print).to_not.fail() expect(nil).to.be["nil"]() expect(true).to.be["true"]()
  end)
  it("fails", function()
    fails(function() expect(1).to.equal(2) end) fails(function() expect(1).to_not.equal(1) end)
    fails(function() expect({1}).to.have(2) end) fails(function() expect(print).to.fail() end)
    assert.matches("there is no expectation", fails(function() expect(1).to.shine() end))
  end)
end)
"##;

#[test]
fn words_of_busted_and_expect() {
    let project = Project::new(&[("spec/words_spec.lua", ASSERTIONS)]);
    project.passes(&[], "10 passed in 1 file, ");
}

#[test]
fn failures_say_what_and_where() {
    let project = Project::new(&[
        (
            "a_spec.lua",
            "describe('a', function()\n  it('differs', function()\n    assert.same({1, 2, k = {x = 1}}, {1, \
                 3, k = {x = 1}, n = 4})\n  end)\n  \
                 it('errs', function()\n    local t\n    t.x = 1\n  end)\n  it('later')\n  it('not now', \
                 function() pending('reason') end)\nend)\nprint('some output')\n",
        ),
        ("b_test.lua", "assert(1 + 1 == 2)\n"),
        (
            "c_test.lua",
            "print 'before'\nlocal function check(x)\n  assert(x == 1, 'x is not 1')\nend\ncheck(2)\n",
        ),
        ("d_test.lua", "x = = 1\n"),
        ("e_spec.lua", "describe('block', function()\n  error({code = 5})\nend)\n"),
    ]);
    let ran = project.test(&[]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(1), ""));
    let want = "\
FAIL a_spec.lua: 1 failed, 1 error, 2 pending (T s)
  failed: a differs (line 2)
    a_spec.lua:3: expected objects to be the same
    - expected
    + actual
      {
        1,
    -   2,
    +   3,
        k = {
          x = 1
    -   }
    +   },
    +   n = 4
      }
  error: a errs (line 5)
    a_spec.lua:7: attempt to index a nil value (local 't')
      a_spec.lua:7: in function <a_spec.lua:5>
  output:
    some output
ok   b_test.lua: 1 passed (T s)
FAIL c_test.lua: 1 failed (T s)
  failed: c_test.lua
    x is not 1
      c_test.lua:3: in upvalue 'check'
      c_test.lua:5: in local 'f'
  output:
    before
FAIL d_test.lua: 1 error (T s)
  error: d_test.lua
    d_test.lua:1: unexpected symbol near '='
FAIL e_spec.lua: 1 error (T s)
  error: block (line 1)
    {code = 5}
      e_spec.lua:2: in function <e_spec.lua:1>
1 passed, 2 failed, 3 errors, 2 pending in 5 files, 3 assertions, T s
";
    let got = ran.out.replace("in local 'check'", "in upvalue 'check'");
    assert_eq!(got, want);
}

#[test]
fn tap_and_junit() {
    let files = [
        (
            "a_spec.lua",
            "it('good #tag', function() end)\nit('bad <&>', function() assert.equal(1, 2) end)\n\
             it('later')\n",
        ),
        ("b_test.lua", "print('a\\0b <x>') error('no', 0)\n"),
    ];
    let project = Project::new(&files);
    let ran = project.test(&["--format", "tap"]);
    assert_eq!(ran.code, Some(1));
    let want = "TAP version 13\nok 1 - a_spec.lua: good \\#tag\nnot ok 2 - a_spec.lua: bad <&>\n# failed\n\
        # a_spec.lua:2: expected objects to be equal\n# expected: 1\n#   actual: 2\n\
        ok 3 - a_spec.lua: later # SKIP\n\
        not ok 4 - b_test.lua: b_test.lua\n# error\n# no\n#   b_test.lua:1: in local 'f'\n1..4\n";
    assert_eq!(ran.out, want);
    let ran = project.test(&["--format", "junit", "-o", "report.xml"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    let xml = without_times(&project.0.text("report.xml"));
    let want = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<testsuites tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"1\" time=\"T\">
  <testsuite name=\"a_spec.lua\" tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\" time=\"T\">
    <testcase classname=\"a_spec.lua\" name=\"good #tag\" time=\"T\"/>
    <testcase classname=\"a_spec.lua\" name=\"bad &lt;&amp;&gt;\" time=\"T\">
      <failure type=\"failed\" message=\"a_spec.lua:2: expected objects to be equal\">a_spec.lua:2: expected objects to be equal
expected: 1
  actual: 2</failure>
    </testcase>
    <testcase classname=\"a_spec.lua\" name=\"later\" time=\"T\">
      <skipped message=\"\"/>
    </testcase>
  </testsuite>
  <testsuite name=\"b_test.lua\" tests=\"1\" failures=\"0\" errors=\"1\" skipped=\"0\" time=\"T\">
    <testcase classname=\"b_test.lua\" name=\"b_test.lua\" time=\"T\">
      <error type=\"error\" message=\"no\">no
  b_test.lua:1: in local 'f'</error>
    </testcase>
    <system-out>a\u{fffd}b &lt;x&gt;
</system-out>
  </testsuite>
</testsuites>
";
    assert_eq!(xml, want);
}

#[test]
fn files_do_not_see_each_other() {
    let text = "assert(leaked == nil and package.loaded.mod == nil and string.leak == nil)\n\
        leaked, string.leak = true, true require 'mod' io.stdout:close() os.setlocale('C')";
    let files = [
        ("spec/a_test.lua", text),
        ("spec/b_test.lua", text),
        ("spec/inner/c_test.lua", text),
        ("src/mod.lua", "return {}"),
    ];
    let project = Project::new(&files);
    project.passes(&["-j", "1"], "3 passed in 3 files, ");
    // Within a file it is what `insulate` is for.
    let text = "insulate('in', function() G = 1 require 'mod' it('sees it', function() assert.equal(1, G) \
        end) end)\n\
        describe('after', function() it('is gone', function() assert.is_nil(G) \
        assert.is_nil(package.loaded.mod) end) end)\n\
        expose('out', function() E = 1 end)\n\
        describe('then', function() it('is there', function() assert.equal(1, E) end) end)";
    let project = Project::new(&[("a_spec.lua", text), ("src/mod.lua", "return {}")]);
    project.passes(&[], "3 passed in 1 file, ");
}

#[test]
fn files_run_side_by_side() {
    // Each waits for what the other writes.
    let text = |mine: &str, other: &str| {
        format!("assert(io.open('{mine}', 'w')):close() repeat local f = io.open('{other}') until f")
    };
    let (a, b) = (text("one", "two"), text("two", "one"));
    let project = Project::new(&[("a_test.lua", &a), ("b_test.lua", &b)]);
    project.passes(&["--jobs", "2"], "2 passed in 2 files, ");
}

#[test]
fn tests_that_hang_are_ended() {
    let files = [(
        "a_spec.lua",
        "it('hangs', function() while true do end end)\nit('goes on', function() end)\n\
         it('catches', function() while true do pcall(function() while true do end end) end end)\n\
         it('is not run', function() end)\n",
    )];
    let project = Project::new(&files);
    let ran = project.test(&["--timeout", "2s"]);
    assert_eq!(ran.code, Some(1));
    for part in [
        "FAIL a_spec.lua: 1 passed, 2 timed out (T s)\n",
        "  timed out: hangs (line 1)\n    it takes more than 2.000 s\n    a_spec.lua:1: interrupted!\n      \
         a_spec.lua:1: in function <a_spec.lua:1>\n",
        "  timed out: catches\n    in this test, the process was ended",
        "what comes after it in the file was not run",
    ] {
        assert!(ran.out.contains(part), "{part}\n{}", ran.out);
    }
}

#[test]
fn files_that_end_early_take_no_other_along() {
    let files = [
        (
            "a_spec.lua",
            "it('leaves', function() print('so far') os.exit(0) end)\nit('never', function() end)",
        ),
        (
            "b_spec.lua",
            "it('is killed', function() local f = io.popen('kill -9 ' .. \
             io.open('/proc/self/stat'):read('n')) f:close() while true do end end)",
        ),
        ("c_spec.lua", "it('is good', function() end)"),
        // What it leaves behind keeps its output open.
        ("d_spec.lua", "it('leaves something', function() os.execute('sleep 100 &') end)"),
        ("e_spec.lua", "it('says much', function() for i = 1, 40000 do print(('x'):rep(100)) end end)"),
    ];
    let project = Project::new(&files);
    let ran = project.test(&[]);
    assert_eq!(ran.code, Some(1));
    for part in [
        "  error: leaves\n    in this test, the process ended with exit code 0; what comes after it in the \
         file was not run\n  output:\n    so far\n",
        "  error: is killed\n    in this test, signal 9 ended the process",
        "ok   c_spec.lua: 1 passed",
        "ok   d_spec.lua: 1 passed",
        "ok   e_spec.lua: 1 passed",
    ] {
        assert!(ran.out.contains(part), "{part}\n{:.3000}", ran.out);
    }
}

#[test]
fn what_is_run() {
    let files = [
        (
            "a_spec.lua",
            "describe('x', function() it('one #fast', function() end) it('two #slow', function() error \
             'slow' end) end)",
        ),
        ("b_test.lua", "error 'plain'"),
        ("c.lua", "error 'no test'"),
    ];
    let project = Project::new(&files);
    project.passes(&["--filter", "one", "a_spec.lua"], "1 passed in 1 file, ");
    project.passes(&["--tags", "fast", "a_spec.lua"], "1 passed in 1 file, ");
    project.passes(&["--exclude-tags=slow", "a_spec.lua"], "1 passed in 1 file, ");
    project.passes(&["--filter-out", "#slow$", "a_spec.lua"], "1 passed in 1 file, ");
    let ran = project.test(&["--fail-fast", "-j", "1"]);
    assert!(ran.code == Some(1) && !ran.out.contains("b_test"), "{}", ran.out);
    // A file that is named is run whatever its name is.
    assert!(project.test(&["c.lua"]).out.contains("no test"));
    assert!(project.test(&["--filter", "%", "a_spec.lua"]).out.contains("malformed pattern"));
    for (words, says) in [
        (&["none.lua"][..], "perilune test: none.lua: No such file or directory"),
        (&["--format", "html"], "there is no 'html' (there are: plain, tap, junit)"),
        (&["--jobs", "0"], "'0' is no number from 1 on"),
        (&["--timeout", "soon"], "'soon' is no time"),
    ] {
        let ran = project.test(words);
        assert!(ran.code == Some(2) && ran.err.contains(says), "{words:?}: {}", ran.err);
    }
    let empty = Project::new(&[("main.lua", "")]);
    assert_eq!(empty.test(&[]).code, Some(2));
}

#[test]
fn settings_of_a_project() {
    let files = [
        (
            ".busted",
            "return {_all = {ROOT = {'checks'}, pattern = '^check', lpath = './lib/?.lua', \
            ['exclude-pattern'] = 'old'}, \
            default = {helper = 'help.lua', tags = 'now'}}",
        ),
        ("help.lua", "HELPED = true"),
        ("lib/mine.lua", "return 'mine'"),
        (
            "checks/check_a.lua",
            "require 'busted.runner'() it('#now', function() assert.is_true(HELPED) assert.equal('mine', \
             require 'mine') end) it('other', error)",
        ),
        ("checks/check_old.lua", "error 'old'"),
        ("checks/b_spec.lua", "error 'not by this name'"),
        ("spec/c_spec.lua", "error 'not there'"),
    ];
    let project = Project::new(&files);
    project.passes(&[], "1 passed in 1 file, ");
    let wrong = Project::new(&[(".busted", "return 1 +"), ("a_test.lua", "")]);
    let ran = wrong.test(&[]);
    assert!(ran.code == Some(2) && ran.err.starts_with("perilune test: .busted:1:"), "{}", ran.err);
}

/// Tests see an ordinary program: `arg`, an empty standard input, domains.
#[test]
fn what_a_test_is_in() {
    let text = "it('is', function() assert.equal('a_spec.lua', arg[0]) assert.is_nil(io.read()) \
        assert.is_nil(os.getenv('PERILUNE_TEST_WORKER')) end)\n\
        it('has domains', function() local pl = require 'perilune' assert.equal(7, \
        pl.domain.spawn(function() return 7 end):join()) end)";
    Project::new(&[("a_spec.lua", text)]).passes(&[], "2 passed in 1 file, ");
}

/// Lines are counted in all domains of all files' programs; those of functions that nothing calls are known.
#[test]
fn coverage_counts_lines() {
    let module = "local m = {}
function m.twice(n)
  return n * 2
end
function m.never()
  local x = 1
  return x
end
function m.sum(n)
  local pl = require 'perilune'
  return pl.pool.default():parallel_reduce(1, n, 0,
    function(i)
      return i
    end,
    function(a, b) return a + b end)
end
return m
";
    let spec = "local m = require 'm'
it('doubles', function() for i = 1, 5 do assert(m.twice(i) == 2 * i) end end)
it('adds', function() assert(m.sum(100) == 5050) end)
";
    let other = "local m = require 'm'
it('doubles too', function()
  assert(coroutine.wrap(function() return m.twice(4) end)() == 8)
  assert(load('return 1', '=text')() == 1)
end)
";
    let files = [("src/m.lua", module), ("spec/one_spec.lua", spec), ("spec/two_spec.lua", other)];
    let project = Project::new(&files);
    let ran = project.test(&["--coverage"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    let lcov = project.0.text("lcov.info");
    assert!(
        lcov.starts_with("TN:\nSF:src/m.lua\n") && lcov.ends_with("LF:16\nLH:14\nend_of_record\n"),
        "{lcov}"
    );
    for line in ["DA:1,2", "DA:3,6", "DA:6,0", "DA:7,0", "DA:10,1", "DA:13,100"] {
        assert!(lcov.lines().any(|l| l == line), "{line}\n{lcov}");
    }
    assert_eq!(lcov.matches("SF:").count(), 1, "test files and texts are left out: {lcov}");
    let table = "lines executed\nfile       lines       %  not executed\nsrc/m.lua     16   87.5%  6-7\n\
        all           16   87.5%\n";
    assert!(ran.err.ends_with(table), "{}", ran.err);

    // A report for programs stays one.
    let ran = project.test(&["--lcov", "other.info", "--format", "tap"]);
    assert!(ran.out.starts_with("TAP version 13\n") && !ran.out.contains("lines executed"), "{}", ran.out);
    assert_eq!(project.0.text("other.info"), lcov);
    let ran = project.test(&["--lcov", "no/such/folder"]);
    assert_eq!((ran.code, ran.err.contains("no/such/folder: ")), (Some(2), true), "{}", ran.err);
}

/// `perilune test --watch`, and what it says.
struct Watching(Limited);

impl Watching {
    fn start(project: &Project, words: &[&str]) -> Watching {
        let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
        command.args(["test", "--watch", "-j", "2"]).args(words).current_dir(&project.0);
        Watching(Limited::start_with(command.env_remove("LUA_PATH"), Stdio::null()))
    }

    /// All lines up to one that contains `text`.
    #[track_caller]
    fn until(&mut self, text: &str) -> String {
        let mut seen = String::new();
        while let Some(line) = self.0.line() {
            seen += &line;
            seen.push('\n');
            if line.contains(text) {
                return without_times(&seen);
            }
        }
        panic!("it ended before '{text}':\n{seen}");
    }

    /// As Ctrl-C in a shell that sends it to the command alone.
    fn interrupt(self) -> Option<i32> {
        // SAFETY: a child that has not been waited for.
        unsafe { libc::kill(self.0.id() as i32, libc::SIGINT) };
        self.0.finish().status.code()
    }
}

#[test]
fn what_a_changed_file_concerns_is_run_again() {
    let files = [
        ("spec/a_spec.lua", "it('a', function() assert.equal(1, require 'a') end)"),
        ("spec/b_spec.lua", "it('b', function() assert.equal(1, require 'b') end)"),
        // It makes a file, reads it, and reads another one.
        (
            "spec/data_test.lua",
            "local f = io.open('made.txt', 'w') f:write(os.time(), os.clock()) f:close() \
             assert(io.open('made.txt')):close()\n\
             assert(io.open('data.txt')):close()",
        ),
        ("src/a.lua", "return 1"),
        ("src/b.lua", "return 1"),
        ("data.txt", "one"),
    ];
    let project = Project::new(&files);
    // Of files that are as new as the run nobody knows which contents it has seen.
    for (file, _) in files {
        let file = fs::File::options().write(true).open(project.0.join(file)).unwrap();
        file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(60)).unwrap();
    }
    let write = |file: &str, text: &str| project.0.write(file, text);
    let mut watching = Watching::start(&project, &[]);
    let ends = "waiting for changes (Ctrl-C: end)\n";
    let first = watching.until("waiting for");
    assert!(first.ends_with(&format!("nothing fails in 3 files; {ends}")), "{first}");

    // What is written as it was is no change.
    write("src/b.lua", "return 1");
    write("src/a.lua", "return 2");
    let said = watching.until("waiting for");
    assert!(
        said.starts_with("\nsrc/a.lua changed: 1 of 3 test files\nFAIL spec/a_spec.lua: 1 failed"),
        "{said}"
    );
    assert!(said.ends_with(&format!("\n1 of 3 files fail: spec/a_spec.lua; {ends}")), "{said}");
    assert!(!said.contains("b_spec") && !said.contains("data"), "{said}");

    // As editors do it: a new file in its place.
    write("src/a.lua.new", "return 1");
    fs::rename(project.0.join("src/a.lua.new"), project.0.join("src/a.lua")).unwrap();
    let said = watching.until("waiting for");
    assert!(
        said.starts_with("\nsrc/a.lua changed: 1 of 3 test files\nok   spec/a_spec.lua: 1 passed"),
        "{said}"
    );
    assert!(said.ends_with(&format!("nothing fails in 3 files; {ends}")), "{said}");

    write("data.txt", "two");
    let said = watching.until("waiting for");
    assert!(said.starts_with("\ndata.txt changed: 1 of 3 test files\nok   spec/data_test.lua"), "{said}");

    // A new test file, in a new folder, and a module that is missing.
    write("spec/more/c_spec.lua", "it('c', function() assert.equal(1, require 'deep.c') end)");
    let said = watching.until("waiting for");
    assert!(
        said.starts_with("\nspec/more/c_spec.lua is new: 1 of 4 test files\nFAIL spec/more/c_spec.lua"),
        "{said}"
    );
    write("src/deep/c.lua", "return 1");
    let said = watching.until("waiting for");
    assert!(
        said.starts_with("\nsrc/deep/c.lua changed: 1 of 4 test files\nok   spec/more/c_spec.lua"),
        "{said}"
    );
    fs::remove_dir_all(project.0.join("spec/more")).unwrap();
    let said = watching.until("waiting for");
    assert_eq!(said, format!("\nspec/more/c_spec.lua is gone\nnothing fails in 3 files; {ends}"));

    // Settings concern all.
    write(".busted", "return {_all = {['exclude-pattern'] = 'data'}}");
    let said = watching.until("waiting for");
    assert!(said.starts_with("\nspec/data_test.lua is gone, .busted changed: 2 test files\n"), "{said}");
    assert_eq!(watching.interrupt(), Some(0));
}

#[test]
fn a_watch_ends_with_its_tests() {
    let text = "local f = io.open('/proc/self/stat') print(f:read('n')) f:close()\n\
                local g = io.open('pid.new', 'w') g:write(io.open('/proc/self/stat'):read('n')) g:close() \
                os.rename('pid.new', 'pid')\n\
                while true do pcall(function() while true do end end) end";
    let project = Project::new(&[("a_test.lua", text)]);
    let watching = Watching::start(&project, &[]);
    let pid = loop {
        if let Ok(pid) = fs::read_to_string(project.0.join("pid")) {
            break pid;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    };
    assert_eq!(watching.interrupt(), Some(1));
    // It has been waited for, too.
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "{pid}");
}

#[test]
fn what_does_not_go_with_watching() {
    let project = Project::new(&[("a_test.lua", "")]);
    for (words, other) in [
        (&["--format", "tap"][..], "--format"),
        (&["-o", "x"], "--output"),
        (&["--coverage"], "--coverage"),
        (&["--lcov", "x"], "--coverage"),
    ] {
        let ran = project.test(&[&["--watch"], words].concat());
        let says = format!("perilune test: --watch does not go with {other}: leave one out\n");
        assert!(ran.code == Some(2) && ran.err.starts_with(&says), "{words:?}: {}", ran.err);
    }
    let ran = project.test(&["--watch", "none_test.lua"]);
    assert!(
        ran.code == Some(2) && ran.err.contains("none_test.lua: No such file or directory"),
        "{}",
        ran.err
    );
}
