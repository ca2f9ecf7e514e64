//! Failures that nobody waits for are told on standard error: when, and once. Programs here stay alive until
//! the test has read what it waits for.

use perilune_test::{Limited, text};
use std::process::Command;

/// A program that runs until its standard input ends.
struct Program(Limited);

impl Program {
    fn start(source: &str) -> Program {
        let source =
            format!("local pl = require 'perilune' local pool = pl.pool.new {{ workers = 2 }}\n{source}");
        Program(Limited::start(Command::new(env!("CARGO_BIN_EXE_perilune")).args(["-e", &source])))
    }

    /// Waits until a line with this text is on standard error.
    fn told(&mut self, text: &str) {
        while !self.0.error_line().unwrap_or_else(|| panic!("'{text}' was never told")).contains(text) {}
    }

    /// Lets the program go on, and gives its standard output, the rest of its standard error, and its exit
    /// code.
    fn end(mut self) -> (String, String, Option<i32>) {
        self.0.write("go on\n");
        let ended = self.0.finish();
        (text(&ended.stdout), text(&ended.stderr), ended.status.code())
    }
}

/// Programs that never let go of a handle, or of which nothing is told: all of standard error when it is
/// over.
fn errors_of(source: &str) -> (String, Option<i32>) {
    let (_, errors, code) = Program::start(source).end();
    (errors, code)
}

#[test]
fn a_call_whose_result_is_discarded_is_nobodys() {
    for call in [
        "pool:async(function() error 'mine' end)",
        "pool:lane('l'):async(function() error 'mine' end)",
        "pl.domain.spawn(function() error 'mine' end)",
        // In a task of a pool, and from a coroutine.
        "pool:async(function(pool) pool:async(function() error 'mine' end) end, pool)",
        "coroutine.wrap(function() pool:async(function() error 'mine' end) end)()",
    ] {
        // The main program keeps its domain and collects nothing.
        let mut program = Program::start(&format!("collectgarbage 'stop' {call} io.read() print 'over'"));
        program.told("failed and nobody waited for it");
        let (out, errors, code) = program.end();
        assert_eq!((out.as_str(), code), ("over\n", Some(0)), "{call}");
        assert!(!errors.contains("failed"), "told twice: {call}\n{errors}");
    }
}

const FAILED: &str = "local function failed(t) while t:status() == 'pending' do pl.sleep(0) end end\n";

#[test]
fn a_collection_tells_of_the_dead_that_it_finds() {
    let mut program = Program::start(&format!(
        "{FAILED} do local t = pool:async(function() error 'mine' end) failed(t) end collectgarbage() \
         io.read()"
    ));
    program.told("mine");
    assert!(!program.end().1.contains("failed"));
}

#[test]
fn a_domain_that_sleeps_looks_for_dead_handles() {
    for wait in [
        "io.read()",
        "local c = pl.channel.new() pl.domain.spawn(function() io.read() c:send(1) end) c:recv()",
    ] {
        let mut program = Program::start(&format!(
            "{FAILED} do local t = pool:async(function() error 'mine' end) failed(t) end {wait} print 'over'"
        ));
        program.told("mine");
        let (out, errors, _) = program.end();
        assert_eq!(out, "over\n");
        assert!(!errors.contains("failed"), "told twice\n{errors}");
    }
    // The handle is another domain's, which waits.
    let mut program = Program::start(&format!(
        "{FAILED} local stop = pl.channel.new()
        local d = pl.domain.spawn(function(pool, pl)
          do local t = pool:async(function() error 'mine' end) while t:status() == 'pending' do pl.sleep(0) end end
          stop:recv()
        end, pool, pl)
        io.read() stop:send(1) d:join()"
    ));
    program.told("mine");
    assert!(!program.end().1.contains("failed"));
}

#[test]
fn handles_that_are_alive_are_told_at_every_way_out() {
    let fail = format!("{FAILED} t = pool:async(function() error 'mine' end) failed(t)\n");
    for (out, code) in [
        ("", 0),
        ("os.exit(0)", 0),
        ("os.exit(3)", 3),
        ("os.exit(0, true)", 0),
        ("error 'in the main chunk'", 1),
        ("coroutine.wrap(function() os.exit(4) end)()", 4),
        ("pool:async(os.exit, 5) pl.channel.new():recv()", 5),
    ] {
        let (errors, got) = errors_of(&format!("{fail}{out}"));
        assert_eq!(errors.matches("a task failed and nobody waited for it").count(), 1, "{out}: {errors}");
        assert_eq!(got, Some(code), "{out}: {errors}");
    }
    let (errors, _) = errors_of(
        "d = pl.domain.spawn('own', function() error 'mine' end) while d:status() == 'running' do \
         pl.sleep(0) end os.exit(0)",
    );
    assert_eq!(errors.matches("domain 'own' failed and nobody waited for it").count(), 1, "{errors}");
}

#[test]
fn who_asks_late_is_told_and_nobody_else() {
    for source in [
        // Longer than a sleeping domain waits before it looks for dead handles.
        "local t = pool:async(function() error 'mine' end) pl.sleep(1.5) pcall(t.await, t)",
        "local t = pool:async(function() error 'mine' end) io.read() pcall(t.await, t)",
        "local t = pl.domain.spawn(function() error 'mine' end) pl.sleep(1.2) pcall(t.join, t) os.exit(0)",
        "pcall(pl.await_all, { pool:async(function() error 'mine' end) })",
        "local t = pool:async(function() error 'mine' end) collectgarbage() pcall(t.await, t) t = nil \
         collectgarbage()",
    ] {
        assert_eq!(errors_of(source), (String::new(), Some(0)), "{source}");
    }
}
