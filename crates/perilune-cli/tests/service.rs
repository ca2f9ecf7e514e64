//! What surrounds a service: sockets that a supervisor has opened, what it wants to hear, and being process 1
//! of a container.

use perilune_test::{Folder, Limited, text};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

const PERILUNE: &str = env!("CARGO_BIN_EXE_perilune");

/// A listener that was opened before the program began is served; its client waited meanwhile. It is taken
/// once, and by the process that is meant.
#[test]
fn listeners_are_inherited() {
    let source = r#"
        local net = require "perilune.net"
        local given = assert(net.inherited())
        assert(#given == 1 and given.web == given[1] and given[1]:endpoint() == arg[1], "the listener")
        assert(#net.inherited() == 0, "once")
        local c = given.web:accept()
        c:write("hello ", c:read_line(), "\n")
        c:close()
        io.write(io.popen(arg[-3] .. " -e 'print(#require \"perilune.net\".inherited())'"):read "a")
    "#;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address").to_string();
    let mut client = TcpStream::connect(&address).expect("a connection");
    client.write_all(b"early\n").expect("sent");
    let mut command = Command::new("sh");
    command
        .args(["-c", "LISTEN_PID=$$ exec \"$0\" \"$@\"", PERILUNE, "-e", source, "-", &address])
        .env("LISTEN_FDS", "1")
        .env("LISTEN_FDNAMES", "web");
    let fd = listener.as_raw_fd();
    // SAFETY: `dup2` may be called between fork and exec; what is descriptor 3 there is the child's own
    // business from then on.
    unsafe {
        command.pre_exec(move || {
            // A descriptor that is 3 already would be closed by `exec`.
            let done = if fd == 3 { libc::fcntl(fd, libc::F_SETFD, 0) == 0 } else { libc::dup2(fd, 3) == 3 };
            if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        });
    }
    let output = Limited::run(&mut command);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "0\n");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer");
    assert_eq!(answer, "hello early\n");
}

/// The supervisor hears what it is told; without one nothing happens.
#[test]
fn a_supervisor_is_notified() {
    let folder = Folder::new();
    let place = folder.join("notify");
    let socket = UnixDatagram::bind(&place).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let run = |place: Option<&std::path::Path>| {
        let mut command = Command::new(PERILUNE);
        command.args(["-e", "print(require 'perilune.net'.notify 'READY=1\\nSTATUS=serving')"]);
        command.env_remove("NOTIFY_SOCKET");
        if let Some(place) = place {
            command.env("NOTIFY_SOCKET", place);
        }
        text(&Limited::run(&mut command).stdout)
    };
    assert_eq!(run(None), "false\n");
    assert_eq!(run(Some(&place)), "true\n");
    let mut heard = [0; 100];
    let n = socket.recv(&mut heard).expect("a notice");
    assert_eq!(&heard[..n], b"READY=1\nSTATUS=serving");
    drop(socket);
    assert!(run(Some(&place)).starts_with("nil\tcannot notify the supervisor: Connection refused\trefused"));
}

/// As process 1 the command collects whom nobody collects, passes signals on, and ends as its program does.
/// Needs the right to make a namespace of processes.
#[test]
fn process_1_collects_and_passes_on() {
    let inside = |source: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"]);
        command.args([PERILUNE, "-e", source]);
        command
    };
    let tried = inside("print 'inside'").output();
    if !tried.is_ok_and(|tried| tried.stdout == b"inside\n") {
        eprintln!("no namespaces of processes here: not tried");
        return;
    }
    // Orphans end, and leave no zombies; the program waits for its own child.
    let orphans = r#"
        local pl, fs, process = require "perilune", require "perilune.fs", require "perilune.process"
        for _ = 1, 20 do os.execute "(sleep 0.05 &) > /dev/null" end
        print(process.run { "sh", "-c", "exit 7" }.code, select(3, os.execute "exit 9"))
        local zombies
        local ends = pl.now() + 200
        repeat
          pl.sleep(0.05)
          zombies = 0
          local sleeping = 0
          for _, pid in ipairs(fs.dir "/proc") do
            local text = pid:find "^%d+$" and fs.read("/proc/" .. pid .. "/stat") or ""
            if text:find "%(sleep%)" then sleeping = sleeping + 1 end
            if text:find "%) Z " then zombies = zombies + 1 end
          end
        until zombies == 0 and sleeping == 0 or pl.now() > ends
        print(zombies)
        os.exit(5)
    "#;
    let output = Limited::run(&mut inside(orphans));
    assert_eq!(text(&output.stdout), "7\t9\n0\n");
    assert_eq!(output.status.code(), Some(5));
    // SIGTERM reaches the program.
    let listens = r#"
        local stop = require "perilune.signal".on "TERM"
        print(1) io.stdout:flush()
        print(stop:recv())
        os.exit(3)
    "#;
    let mut child = Limited::start(&mut inside(listens));
    assert_eq!(child.line().as_deref(), Some("1"));
    let children =
        std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).expect("children");
    let first: i32 = children.trim().parse().expect("one child, which is process 1 inside");
    // SAFETY: a signal to a process that this test has started.
    unsafe { libc::kill(first, libc::SIGTERM) };
    assert_eq!(child.line().as_deref(), Some("TERM"));
    assert_eq!(child.finish().status.code(), Some(3));
}
