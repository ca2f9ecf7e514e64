//! `perilune trace`: programs that are watched from their start or attached to, tools that get in each
//! other's way or die, files that can be read whatever happened.

use perilune_see::Trace;
use perilune_test::{Folder, Limited, text};
use perilune_trace::{Kind, Writer, emit};
use std::fs;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const BIN: &str = env!("CARGO_BIN_EXE_perilune");

/// A folder with programs.
struct Place(Folder);

impl Place {
    fn new(files: &[(&str, &str)]) -> Place {
        Place(Folder::with(files.iter().copied()))
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(BIN);
        command.current_dir(&self.0).args(words);
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        Limited::run(&mut self.command(words))
    }

    /// A tool that goes on.
    fn start(&self, words: &[&str]) -> Limited {
        Limited::start_with(&mut self.command(words), Stdio::null())
    }

    /// A program that has said `ready`.
    fn running(&self, script: &str) -> Running {
        Running(Limited::start(&mut self.command(&[script])).ready())
    }

    /// Ends the programs that compute.
    fn stop(&self) {
        self.0.write("stop", "");
    }

    /// The lines of `trace dump`.
    fn dump(&self, file: &str) -> Vec<String> {
        let ran = self.run(&["trace", "dump", file]);
        assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
        text(&ran.stdout).lines().map(str::to_owned).collect()
    }
}

struct Running(Limited);

impl Running {
    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// Lets the program end; what it said since it was ready.
    fn finish(self) -> String {
        let output = self.0.finish();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    }
}

fn event_file(pid: &str) -> PathBuf {
    perilune_trace::attach::path_for(pid.parse().unwrap())
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(300), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Watches for a moment, and again for ever longer ones until what was watched has happened: on a busy
/// machine a program may not run at all in one.
fn longer_and_longer(mut watch: impl FnMut(Duration) -> bool) {
    assert!([100, 1000, 10_000, 60_000].into_iter().any(|ms| watch(Duration::from_millis(ms))), "never seen");
}

fn signal(child: &Limited, signal: i32) {
    // SAFETY: sends a signal to a child that has not been waited for.
    assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
}

/// Computes and collects until its standard input ends.
const COMPUTING: &str = "
    io.write('ready\\n') io.flush()
    local t = {}
    repeat
        for i = 1, 20000 do t[i % 500] = {i} end
        local f = io.open('stop')
    until f
    print('computed')
";
/// Waits for its standard input.
const WAITING: &str = "io.write('ready\\n') io.flush() io.read('a') print('waited')";

#[test]
fn a_script_is_recorded_and_its_exit_code_passed_on() {
    let place =
        Place::new(&[("a.lua", "local t = {} for i = 1, 2e5 do t[i] = {} end print(...) os.exit(3)")]);
    let ran = place.run(&["trace", "record", "-o", "a.rec", "a.lua", "--json", "x"]);
    assert_eq!(ran.status.code(), Some(3), "{}", text(&ran.stderr));
    assert_eq!(text(&ran.stdout), "--json\tx\n");
    assert!(text(&ran.stderr).contains(" events, "), "{}", text(&ran.stderr));
    assert_eq!(fs::metadata(place.0.join("a.rec")).unwrap().mode() & 0o777, 0o600);
    let lines = place.dump("a.rec");
    assert!(
        lines.iter().any(|l| l.contains(" main ") && l.contains(" minor-end ") && l.contains("promoted"))
    );
    assert!(!lines.iter().any(|l| l.contains('\x1b')));

    // Of a recording, what is asked for, wherever the option stands.
    let ran = place.run(&["trace", "dump", "a.rec", "--events", "life"]);
    let out = text(&ran.stdout);
    assert!(out.contains(" domain-begin ") && !out.contains(" gc-end "), "{out}");

    let ran = place.run(&["trace", "dump", "--json", "a.rec"]);
    let out = text(&ran.stdout);
    assert!(out.lines().all(|l| l.starts_with("{\"ns\":") && l.ends_with('}')), "{out}");
    assert!(out.contains("\"event\":\"gc-end\",\"phase\":\"end\",\"a\":"), "{out}");

    // Without a file in between; words of the interpreter.
    let ran = place.run(&["trace", "dump", "-o", "text", "--", "-e", "collectgarbage() error('no')"]);
    assert_eq!(ran.status.code(), Some(1));
    assert!(place.0.text("text").contains("gc-end"));
    assert!(text(&ran.stderr).contains("no"), "{}", text(&ran.stderr));
}

#[test]
fn words_that_make_no_sense() {
    let place = Place::new(&[("a.lua", "print(1)")]);
    for (words, part) in [
        (&["trace"][..], "usage: perilune trace"),
        (&["trace", "dance"], "there is no 'dance'"),
        (&["trace", "record", "a.lua"], "-o"),
        (&["trace", "record", "-o", "x", "--snapshot-when", "naps>5ms", "a.lua"], "pause>TIME"),
        (&["trace", "dump"], "name a script"),
        (&["trace", "dump", "--events", "gx", "a.lua"], "no category 'gx'"),
    ] {
        let ran = place.run(words);
        assert_eq!(ran.status.code(), Some(2), "{words:?}");
        assert!(text(&ran.stderr).contains(part), "{words:?}: {}", text(&ran.stderr));
        assert!(ran.stdout.is_empty(), "{words:?}");
    }
    for (words, part) in [
        (&["trace", "dump", "--from-file", "a.lua"][..], "a.lua: neither an event file nor a recording"),
        (&["trace", "dump", "--from-file", "b"], "b: No such file"),
        (&["trace", "record", "-o", "no/where", "a.lua"], "no/where: No such file"),
        (&["trace", "dump", "--attach", "999999999"], "no process 999999999"),
    ] {
        let ran = place.run(words);
        assert_eq!(ran.status.code(), Some(1), "{words:?}");
        assert!(text(&ran.stderr).contains(part), "{words:?}: {}", text(&ran.stderr));
    }
    // A recording of which nothing is left is no script.
    place.0.write("empty.rec", "");
    for words in [&["gc-stats", "empty.rec"][..], &["trace", "dump", "empty.rec"], &["heap", "empty.rec"]] {
        let ran = place.run(words);
        assert_eq!(ran.status.code(), Some(1), "{words:?}");
        assert!(text(&ran.stderr).contains("empty.rec: ") && ran.stdout.is_empty(), "{words:?}: {ran:?}");
    }
    let ran = place.run(&["trace", "record", "--help"]);
    assert_eq!(ran.status.code(), Some(0));
    assert!(text(&ran.stdout).contains("--snapshot-when"));
}

#[test]
fn attaching_to_a_program_that_computes() {
    let place = Place::new(&[("a.lua", COMPUTING)]);
    let program = place.running("a.lua");
    let pid = program.pid();
    for file in ["1.rec", "2.rec"] {
        let ran = place.run(&["trace", "record", "--attach", &pid, "--duration", "200ms", "-o", file]);
        assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
        assert!(!event_file(&pid).exists(), "{} is gone", event_file(&pid).display());
        assert!(place.dump(file).iter().any(|l| l.contains("minor-end")), "{file}");
    }
    place.stop();
    assert_eq!(program.finish(), "computed\n");
}

#[test]
fn attaching_to_a_program_that_waits() {
    let place = Place::new(&[("a.lua", WAITING)]);
    let program = place.running("a.lua");
    let ran =
        place.run(&["trace", "record", "--attach", &program.pid(), "--duration", "50ms", "-o", "a.rec"]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    let _ = place.dump("a.rec");
    assert_eq!(program.finish(), "waited\n");
}

#[test]
fn a_program_that_is_stopped_does_not_answer_and_takes_no_harm() {
    let place = Place::new(&[("a.lua", COMPUTING)]);
    let program = place.running("a.lua");
    let pid = program.pid();
    signal(&program.0, libc::SIGSTOP);
    let ran = place.run(&["trace", "dump", "--attach", &pid, "--duration", "50ms"]);
    assert_eq!(ran.status.code(), Some(1));
    assert!(text(&ran.stderr).contains("does not answer (is it stopped"), "{}", text(&ran.stderr));
    assert!(!event_file(&pid).exists());
    signal(&program.0, libc::SIGCONT);
    longer_and_longer(|time| {
        let duration = format!("{}ms", time.as_millis());
        let ran = place.run(&["trace", "dump", "--attach", &pid, "--duration", &duration]);
        assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
        text(&ran.stdout).contains("minor-end")
    });
    place.stop();
    assert_eq!(program.finish(), "computed\n");
}

#[test]
fn a_signal_ends_the_observation_not_the_program() {
    let place = Place::new(&[("a.lua", COMPUTING)]);
    let program = place.running("a.lua");
    let pid = program.pid();
    for end in [libc::SIGINT, libc::SIGTERM] {
        longer_and_longer(|time| {
            let tool = place.start(&["trace", "dump", "--attach", &pid, "-o", "text"]);
            wait_for("the tool attaches", || event_file(&pid).exists());
            std::thread::sleep(time);
            signal(&tool, end);
            assert_eq!(tool.finish().status.code(), Some(0));
            assert!(!event_file(&pid).exists());
            place.0.text("text").contains("minor-end")
        });
    }
    place.stop();
    assert_eq!(program.finish(), "computed\n");
}

#[test]
fn one_tool_at_a_time_and_a_dead_one_does_not_count() {
    let place = Place::new(&[("a.lua", COMPUTING)]);
    let program = place.running("a.lua");
    let pid = program.pid();
    let mut first = place.start(&["trace", "record", "--attach", &pid, "-o", "1.rec"]);
    wait_for("the recording grows", || fs::metadata(place.0.join("1.rec")).is_ok_and(|m| m.len() > 1000));
    let second = place.run(&["trace", "record", "--attach", &pid, "-o", "2.rec", "--duration", "50ms"]);
    assert_eq!(second.status.code(), Some(1));
    let message = text(&second.stderr);
    assert!(message.contains(&format!("process {pid} is being traced already")), "{message}");

    first.kill();
    assert!(
        place
            .run(&["trace", "dump", "1.rec"])
            .stderr
            .starts_with(b"perilune trace dump: the recording breaks off")
    );
    longer_and_longer(|time| {
        let duration = format!("{}ms", time.as_millis());
        let third = place.run(&["trace", "record", "--attach", &pid, "-o", "3.rec", "--duration", &duration]);
        assert_eq!(third.status.code(), Some(0), "{}", text(&third.stderr));
        place.dump("3.rec").iter().any(|l| l.contains("minor-end"))
    });
    place.stop();
    assert_eq!(program.finish(), "computed\n");
}

#[test]
fn what_is_no_program_of_ours_is_left_alone() {
    let place = Place::new(&[]);
    let mut other = Limited::start(Command::new("sleep").arg("1000"));
    let ran = place.run(&["trace", "dump", "--attach", &other.id().to_string()]);
    assert_eq!(ran.status.code(), Some(1));
    let message = text(&ran.stderr);
    assert!(message.contains(&format!("process {} is no Perilune program", other.id())), "{message}");
    assert!(other.is_running(), "it goes on");
}

#[test]
fn a_program_that_is_killed_can_be_read() {
    let place = Place::new(&[("a.lua", COMPUTING)]);
    // Under a tool: its exit code is that of a shell.
    longer_and_longer(|time| {
        let tool = place.start(&["trace", "record", "-o", "a.rec", "a.lua"]).ready();
        std::thread::sleep(time);
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", tool.id())).unwrap();
        let child: i32 = children.split_whitespace().next().expect("a child").parse().unwrap();
        // SAFETY: sends a signal to the tool's child.
        unsafe { libc::kill(child, libc::SIGKILL) };
        assert_eq!(tool.finish().status.code(), Some(128 + libc::SIGKILL));
        place.dump("a.rec").iter().any(|l| l.contains("minor-end"))
    });

    // By itself: its event file is as it left it.
    longer_and_longer(|time| {
        let mut command = place.command(&["a.lua"]);
        let mut program = Limited::start(command.env("PERILUNE_TRACE", "a.events")).ready();
        std::thread::sleep(time);
        program.kill();
        place.dump("a.events").iter().any(|l| l.contains("minor-end"))
    });
    assert_eq!(fs::metadata(place.0.join("a.events")).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn children_of_a_watched_program_are_not_watched() {
    let place = Place::new(&[
        ("a.lua", "collectgarbage() local p = io.popen(arg[-2] .. ' b.lua') print(p:read('a')) p:close()"),
        ("b.lua", "for i = 1, 20 do collectgarbage() end print(os.getenv('PERILUNE_TRACE'))"),
    ]);
    let ran = place.run(&["trace", "record", "-o", "a.rec", "a.lua"]);
    assert_eq!(text(&ran.stdout), "nil\n\n", "{}", text(&ran.stderr));
    let full = |l: &&String| l.contains(" gc ") && l.contains("full");
    assert_eq!(place.dump("a.rec").iter().filter(full).count(), 1);
}

#[test]
fn domains_have_names_of_their_own() {
    let place = Place::new(&[(
        "a.lua",
        "local pl = require 'perilune' local d = {} for i = 1, 3 do d[i] = pl.domain.spawn(function() collectgarbage() return i end) end
         for i = 1, 3 do d[i]:join() end",
    )]);
    let ran = place.run(&["trace", "record", "-o", "a.rec", "a.lua"]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    let lines = place.dump("a.rec");
    for domain in 2..=4 {
        let name = format!(" domain {domain} ");
        assert!(lines.iter().any(|l| l.contains(&name) && l.contains("gc-end")), "{}", lines.join("\n"));
    }
}

#[test]
fn the_flight_recorder_writes_what_led_to_it() {
    let place = Place::new(&[
        ("a.lua", "local t = {} for i = 1, 3e5 do t[i] = {} end collectgarbage()"),
        ("b.lua", COMPUTING),
    ]);
    let ran = place.run(&["trace", "record", "-o", "a.rec", "--snapshot-when", "pause>1us", "a.lua"]);
    assert_eq!(ran.status.code(), Some(0));
    assert!(text(&ran.stderr).contains("a pause of "), "{}", text(&ran.stderr));
    assert!(place.dump("a.rec").iter().any(|l| l.contains("gc-end")));

    // With what the kernel said, if only what the threads used.
    let ran =
        place.run(&["trace", "record", "--sched", "-o", "k.rec", "--snapshot-when", "pause>1us", "a.lua"]);
    assert_eq!(ran.status.code(), Some(0));
    assert!(place.dump("k.rec").iter().any(|l| l.contains("gc-end")));

    let ran = place.run(&["trace", "record", "-o", "b.rec", "--snapshot-when", "pause>1h", "a.lua"]);
    assert!(text(&ran.stderr).contains("no snapshot was written"), "{}", text(&ran.stderr));
    assert!(!place.0.join("b.rec").exists());

    // Twice, in a program that goes on.
    let program = place.running("b.lua");
    let words = ["trace", "record", "-o", "c.rec", "--snapshot-when", "pause>1us", "--keep", "50ms"];
    let mut command = place.command(&words);
    let ran = Limited::run(command.args(["--snapshots", "2", "--attach", &program.pid()]));
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    for file in ["c.rec", "c-2.rec"] {
        assert!(place.dump(file).iter().any(|l| l.contains("gc-end")), "{file}");
    }
    place.stop();
    assert_eq!(program.finish(), "computed\n");
}

/// Writes so many events, a million per second, each with its number, and counts them.
fn write_at_rate(domain: u32, count: u64) -> u64 {
    let mut writer = Box::new(Writer::new(domain));
    // SAFETY: used by this thread alone, until `leave`.
    unsafe { emit::enter(&mut *writer) };
    let begin = Instant::now();
    let mut n = 0;
    while n < count {
        let due = begin.elapsed().as_micros() as u64;
        while n < due.min(count) {
            emit::record(Kind::Mark, 0, domain as u64, n);
            n += 1;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    emit::leave();
    n
}

/// This process is the program that is watched. It writes what the rings hold, so that nothing is lost if the
/// tool does not come to read them for a while. `PERILUNE_RATE_SECONDS=10 PERILUNE_RATE_DOMAINS=1`, where the
/// processors are ours, is what the figures are taken with.
#[test]
fn no_event_is_lost_at_a_million_per_second() {
    let number = |name: &str, default| std::env::var(name).map_or(default, |v| v.parse().unwrap());
    let count = match number("PERILUNE_RATE_SECONDS", 0) {
        0 => 50_000,
        seconds => seconds * 1_000_000,
    };
    let domains = number("PERILUNE_RATE_DOMAINS", 2);
    perilune_trace::attach::listen();
    let place = Place::new(&[]);
    let pid = std::process::id().to_string();
    let words = ["trace", "record", "-o", "a.rec", "--ring", "524288", "--attach", &pid];
    let tool = place.start(&words);
    wait_for("the tool attaches", perilune_trace::is_live);
    let written: Vec<u64> = std::thread::scope(|s| {
        let threads: Vec<_> =
            (0..domains).map(|d| s.spawn(move || write_at_rate(d as u32 + 1, count))).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    signal(&tool, libc::SIGINT);
    let ran = tool.finish();
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    eprint!("{}", text(&ran.stderr));
    let trace = Trace::load(&place.0.join("a.rec")).unwrap();
    assert_eq!(trace.lost, 0, "of {written:?}");
    let mut next = vec![0; domains as usize];
    for e in trace.events.iter().filter(|e| e.kind == Kind::Mark) {
        let next = &mut next[e.a as usize - 1];
        assert_eq!(e.b, *next, "in order");
        *next += 1;
    }
    assert_eq!(next, written);
}

#[test]
fn marks_errors_and_snapshots_of_the_program() {
    let place = Place::new(&[(
        "a.lua",
        "local pl = require 'perilune'
         pl.trace.log('a text', 42)
         pl.trace.mark('there') pl.trace.mark('here')
         print(pl.trace.snapshot('%p.rec'), pl.trace.snapshot('own.rec'))
         local pool = pl.pool.new { workers = 1 }
         print(pcall(function() pool:async(function() error('in a task') end):await() end))
         error('of the program')",
    )]);
    let snapshot = |when: &str| {
        let ran = place.run(&["trace", "record", "-o", "a.rec", "--snapshot-when", when, "a.lua"]);
        assert_eq!(ran.status.code(), Some(1), "{}", text(&ran.stderr));
        (text(&ran.stderr), place.dump("a.rec").join("\n"))
    };
    let (said, dump) = snapshot("mark:here");
    assert!(said.contains("mark 'here': a.rec"), "{said}");
    assert!(dump.contains("'there'"), "{dump}");
    let (said, dump) = snapshot("error");
    assert!(said.contains("an error: a.rec"), "{said}");
    assert!(dump.contains(" log ") && dump.contains("a text\t42"), "{dump}");
    assert!(dump.contains("in a task"), "{dump}");
    assert!(place.dump("own.rec").iter().any(|l| l.contains("'here'")));

    let ran = place.run(&["a.lua"]);
    assert!(text(&ran.stdout).starts_with("false\tfalse"), "nothing is traced: {}", text(&ran.stdout));
}

const BUSY: &str = "
    local pl = require 'perilune'
    local function busy() local t, e = {}, os.clock() + 0.6 while os.clock() < e do for i = 1, 1e4 do t[i % 100] = {i} end end end
    local d = pl.domain.spawn('helper', busy)
    d:join() print('over') os.exit(4)
";

#[test]
fn top_says_what_a_program_does() {
    let place = Place::new(&[("a.lua", BUSY), ("b.lua", COMPUTING), ("c.lua", WAITING)]);
    // Of a script: what it prints does not mix with the figures.
    let ran = place.run(&["top", "--interval", "100ms", "a.lua"]);
    assert_eq!(ran.status.code(), Some(4), "{}", text(&ran.stderr));
    let out = text(&ran.stdout);
    assert!(out.starts_with("a.lua\nprocess "), "{out}");
    let helper =
        out.lines().find(|l| l.starts_with("2 helper") && l.contains("iB")).expect("a row of the helper");
    assert_eq!(
        helper.split_whitespace().nth(2).map(|s| s == "runs" || s == "collects"),
        Some(true),
        "{helper}"
    );
    assert!(!out.contains("over") && text(&ran.stderr).contains("over"));
    assert!(!out.contains('\x1b'));

    // One that is over before the first interval is.
    place.0.write("short.lua", "print('short')");
    let ran = place.run(&["top", "--json", "--interval", "600s", "short.lua"]);
    let out = text(&ran.stdout);
    assert_eq!(out.lines().count(), 1, "{out}");
    assert!(out.contains("\"title\":\"short.lua\""), "{out}");

    let program = place.running("b.lua");
    let words = ["top", "--json", "-n", "2", "--interval", "100ms", "--attach", &program.pid()];
    let ran = place.run(&words);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    let out = text(&ran.stdout);
    assert_eq!(out.lines().count(), 2, "{out}");
    for line in out.lines() {
        assert!(line.starts_with(&format!("{{\"pid\":{}", program.pid())) && line.ends_with("]}"), "{line}");
        assert!(line.contains("\"domains\":[{\"domain\":1,\"name\":\"main\","), "{line}");
    }
    // One that has been in a call since before.
    let waiting = place.running("c.lua");
    let ran = place.run(&["top", "-n", "1", "--interval", "50ms", "--attach", &waiting.pid()]);
    let out = text(&ran.stdout);
    let main = out.lines().find(|l| l.starts_with("main ")).expect("a row of the main program");
    assert!(main.contains(" blocked "), "{main}");
    assert_eq!(waiting.finish(), "waited\n");

    // A reader that has seen enough: the tool detaches.
    let top = "{ \"$0\" top --batch --interval 20ms --attach \"$1\"; echo \"ends: $?\" >&2; } | head -n 1";
    let ran = Limited::run(Command::new("sh").args(["-c", top, BIN, &program.pid()]).current_dir(&place.0));
    assert!(text(&ran.stdout).contains("b.lua"), "{ran:?}");
    assert_eq!(text(&ran.stderr), "ends: 0\n");
    assert!(!event_file(&program.pid()).exists());
    place.stop();
    assert_eq!(program.finish(), "computed\n");
}

#[test]
fn top_draws_on_a_terminal_until_q() {
    let place = Place::new(&[("a.lua", COMPUTING)]);
    let program = place.running("a.lua");
    let (mut master, mut slave) = (0, 0);
    // SAFETY: writes two descriptors, which are ours from then on.
    let (mut master, slave) = unsafe {
        let null = std::ptr::null_mut();
        assert_eq!(libc::openpty(&mut master, &mut slave, null, null.cast(), null.cast()), 0);
        (fs::File::from_raw_fd(master), fs::File::from_raw_fd(slave))
    };
    let mut command = place.command(&["top", "--interval", "50ms", "--attach", &program.pid()]);
    command.stdin(slave.try_clone().unwrap()).stdout(slave);
    let mut tool = command.spawn().unwrap();
    // The child alone has the other side from here on.
    drop(command);
    let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
    let mut pressed = false;
    while let Ok(n @ 1..) = master.read(&mut buffer) {
        seen.extend_from_slice(&buffer[..n]);
        if !pressed && text(&seen).matches("DOMAIN").count() >= 2 {
            pressed = true;
            master.write_all(b"q").unwrap();
        }
    }
    assert_eq!(tool.wait().unwrap().code(), Some(0));
    let seen = text(&seen);
    assert!(seen.starts_with("\x1b[?1049h") && seen.ends_with("\x1b[?1049l"), "{seen:?}");
    place.stop();
    assert_eq!(program.finish(), "computed\n");
}
