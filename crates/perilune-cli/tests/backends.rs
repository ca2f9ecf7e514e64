//! The two ways by which programs are told that a descriptor is ready (`PERILUNE_IO`): the same programs do
//! the same, and where the kernel refuses `io_uring`, they do it with `epoll`.

use perilune_test::Limited;
use perilune_test::script::{Mode, Script, on_all_cores};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// With a ring.
const URING: Mode = Mode { name: "uring", environment: &[("PERILUNE_IO", "uring")] };
/// Only a hang comes to it.
const LONG: Duration = Duration::from_secs(120);

/// Scripts that wait for sockets, pipes, processes or signals: by what they say.
const WORDS: [&str; 9] = [
    "perilune.net",
    "perilune.http",
    "perilune.rpc",
    "perilune.ws",
    "perilune.fs",
    "perilune.process",
    "perilune.signal",
    "popen",
    "socket",
];

/// Two clients and a server, and which way they are told.
const PROGRAM: &str = r#"
local net, pl = require "perilune.net", require "perilune"
local listener = assert(net.listen("127.0.0.1:0"))
pl.scope(function(s)
  s:daemon(function()
    for c in listener do s:daemon(function() for line in c:lines() do c:write(line, "!\n") end end) end
  end)
  for n = 1, 2 do
    local connection <close> = assert(net.connect(listener:endpoint()))
    connection:write("hello\n")
    assert(connection:read_line() == "hello!")
  end
end)
print(pl.io.backend())
"#;

/// Fibers of four domains that read lines from standard input, while others of the same domains have their
/// turns.
const READERS: &str = r#"
local pl = require "perilune"
local function read(n)
  local pl = require "perilune"
  local turns, got = 0, {}
  pl.scope(function(s)
    s:daemon(function() while true do turns = turns + 1 pl.sleep(0.001) end end)
    s:spawn(function()
      io.write("ready\n")
      io.flush()
      for line in io.lines() do
        got[#got + 1] = line
        pl.sleep(0)
      end
    end)
  end)
  return turns > 0, table.concat(got, " ")
end
local domains, all = {}, {}
for n = 1, 3 do domains[n] = pl.domain.spawn(read, n) end
local results = { { read(0) } }
for n, domain in ipairs(domains) do results[n + 1] = { domain:join() } end
for _, result in ipairs(results) do
  assert(result[1])
  for line in result[2]:gmatch "%S+" do all[#all + 1] = line end
end
table.sort(all)
print(#all, table.concat(all, " "))
"#;

fn perilune(source: &str, environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
    command.args(["-e", source]).env_remove("PERILUNE_IO").env_remove("PERILUNE_IO_POLL");
    command.envs(environment.iter().copied());
    command
}

fn output(mut command: Command) -> (String, String, Option<i32>) {
    let limited = Limited::start_with(&mut command, Stdio::null());
    let Output { status, stdout, stderr } = limited.within(LONG).ended().expect("it ends");
    (perilune_test::text(&stdout), perilune_test::text(&stderr), status.code())
}

fn ran(out: &str, err: &str) -> (String, String, Option<i32>) {
    (format!("{out}\n"), err.to_owned(), Some(0))
}

/// Whether programs get a ring here. Says so if not.
fn is_there() -> bool {
    let (out, err, _) = output(perilune("print(require('perilune').io.backend())", URING.environment));
    let is = out == "uring\n";
    if !is {
        // Past what catches the output of tests that pass.
        let _ = writeln!(std::io::stderr(), "skipped: the kernel gives no ring ({})", err.trim());
    }
    is
}

/// Has a command's process refused a system call.
fn without(mut command: Command, call: libc::c_long) -> Command {
    let op = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let (allow, refuse) = (0x7fff_0000, 0x0005_0000 | libc::EPERM as u32);
    let mut filter = [
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, call as u32),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, refuse),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, allow),
    ];
    // SAFETY: two system calls, which may be made between fork and exec; the program outlives them.
    unsafe {
        command.pre_exec(move || {
            let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
            let done = libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, 2, &raw const program, 0, 0) == 0;
            if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        });
    }
    command
}

#[test]
fn every_script_that_waits_prints_the_same_with_a_ring() {
    if !is_there() {
        return;
    }
    let only = perilune_test::only();
    let binary = perilune_test::under_test(env!("CARGO_BIN_EXE_perilune"));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/parallel");
    let scripts = Script::all_with(&folder, &only, &WORDS);
    assert!(!only.is_empty() || scripts.len() > 20, "{scripts:?}");
    let failures = on_all_cores(&scripts, |script| script.run(&binary, URING.environment));
    assert!(failures.is_empty(), "{} of {} failed\n\n{}", failures.len(), scripts.len(), failures.join("\n"));
}

#[test]
fn the_way_is_what_the_environment_says() {
    let way = |word| output(perilune(PROGRAM, &[("PERILUNE_IO", word)]));
    for word in ["", "auto", "epoll"] {
        assert_eq!(way(word), ran("epoll", ""));
    }
    if is_there() {
        assert_eq!(way("uring"), ran("uring", ""));
    }
    let unknown = "perilune: PERILUNE_IO: 'kqueue' is none of 'auto', 'epoll' and 'uring'\n";
    assert_eq!(way("kqueue"), (String::new(), unknown.to_owned(), Some(1)));
}

/// Idle workers wait with `epoll` only.
#[test]
fn a_ring_is_waited_for_by_a_thread() {
    if !is_there() {
        return;
    }
    let both = [("PERILUNE_IO", "uring"), ("PERILUNE_IO_POLL", "lease")];
    let said = "perilune: PERILUNE_IO_POLL=lease: only with epoll; with PERILUNE_IO=uring a thread of its \
        own waits for sockets\n";
    assert_eq!(output(perilune(PROGRAM, &both)), ran("uring", said));
    let lease = [("PERILUNE_IO", "epoll"), ("PERILUNE_IO_POLL", "lease")];
    assert_eq!(output(perilune(PROGRAM, &lease)), ran("epoll", ""));
}

/// Where the system forbids a ring, at the beginning or in use, the program runs all the same, and is told
/// once.
#[test]
fn a_program_that_may_have_no_ring_does_without() {
    if !is_there() {
        return;
    }
    let said =
        "perilune: PERILUNE_IO=uring: the system does not permit io_uring here; epoll is used instead\n";
    for call in [libc::SYS_io_uring_setup, libc::SYS_io_uring_register, libc::SYS_io_uring_enter] {
        assert_eq!(output(without(perilune(PROGRAM, URING.environment), call)), ran("epoll", said), "{call}");
        assert_eq!(
            output(without(perilune(PROGRAM, &[("PERILUNE_IO", "auto")]), call)),
            ran("epoll", ""),
            "{call}"
        );
    }
}

/// Standard input is one object of the process: several domains may wait for it, and each line is somebody's.
#[test]
fn several_domains_wait_for_standard_input() {
    let lines: Vec<String> = (100..160).map(|n| n.to_string()).collect();
    for way in ["epoll", "uring"] {
        if way == "uring" && !is_there() {
            continue;
        }
        let mut child = perilune(READERS, &[("PERILUNE_IO", way)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut said = BufReader::new(child.stdout.take().expect("its output"));
        let mut line = String::new();
        for _ in 0..4 {
            line.clear();
            said.read_line(&mut line).expect("it says something");
            assert_eq!(line, "ready\n");
        }
        let mut input = child.stdin.take().expect("its input");
        for line in &lines {
            writeln!(input, "{line}").expect("it reads");
        }
        drop(input);
        line.clear();
        said.read_line(&mut line).expect("it says something");
        assert_eq!(line, format!("60\t{}\n", lines.join(" ")), "{way}");
        assert!(child.wait().expect("it ends").success());
    }
}
