//! What becomes of signals: closed pipes, children, SIGINT while a command runs.
//!
//! The command is started by a shell, whose `trap ''` ignores a signal for what it starts.

use perilune_test::{Folder, Limited, text};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

/// The command runs `code`; `prologue` is the shell's, before it.
fn shell(prologue: &str, code: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    let line = format!("{prologue} exec \"$0\" -e \"$1\"");
    command.args(["-c", &line, env!("CARGO_BIN_EXE_perilune"), code]);
    command
}

fn run(prologue: &str, code: &str) -> Output {
    Limited::run(&mut shell(prologue, code))
}

/// As [`run`], with a standard output that nobody reads any more.
fn without_reader(prologue: &str, code: &str) -> Output {
    let folder = Folder::new();
    let fifo = folder.join("fifo");
    let unread = format!("F={}; mkfifo $F; exec 3<> $F; exec > $F; exec 3<&-;", fifo.display());
    run(&format!("{unread} {prologue}"), code)
}

#[test]
fn a_filter_whose_reader_is_gone_ends_quietly() {
    for code in ["while true do print(1) end", "while true do io.write('x') end"] {
        let ended = without_reader("", code);
        assert_eq!((ended.status.signal(), text(&ended.stderr)), (Some(libc::SIGPIPE), String::new()));
    }
}

#[test]
fn a_program_that_is_started_without_sigpipe_is_told() {
    let code =
        "io.stdout:setvbuf 'no' io.stderr:write(tostring(select(2, io.write 'x'))) print 'x' os.exit(7)";
    let ended = without_reader("trap '' PIPE;", code);
    assert_eq!((ended.status.code(), text(&ended.stderr)), (Some(7), "Broken pipe".into()));
}

#[test]
fn writing_to_a_dead_child_is_an_error() {
    let code = "
        local function dead()
          local p = io.popen('exec < /dev/null; echo closed > $FIFO; read x < $FIFO.go; exit 3', 'w')
          local fifo <close> = io.open(os.getenv 'FIFO')
          fifo:read()
          return p
        end
        local function release() io.open(os.getenv 'FIFO' .. '.go', 'w'):write('\\n'):close() end
        local p = dead()
        p:setvbuf 'no'
        print(p:write 'x')
        release()
        print(p:close())
        p = dead()
        print(io.type(p:write 'x'))
        print(p:flush())
        release()
        print(p:close())
        p = dead()
        print(io.type(p:write 'x'))
        release()
        print(p:close())
        p = dead()
        p:write 'what is left when the program ends'
        release()
        local pl = require 'perilune'
        p = dead()
        print(pl.domain.spawn(function(p) p:setvbuf 'no' return p:write 'x' end, p):join())
        release()
        print 'end'
    ";
    let folder = Folder::new();
    let fifo = folder.join("fifo");
    let prologue = format!("FIFO={}; export FIFO; mkfifo $FIFO $FIFO.go;", fifo.display());
    let ended = run(&prologue, code);
    let expected = "nil\tBroken pipe\t32\nnil\texit\t3\n\
                    file\nnil\tBroken pipe\t32\nnil\tBroken pipe\t32\n\
                    file\nnil\tBroken pipe\t32\n\
                    nil\tBroken pipe\t32\nend\n";
    assert_eq!((text(&ended.stdout).as_str(), text(&ended.stderr).as_str()), (expected, ""));
    assert_eq!(ended.status.code(), Some(0));
}

#[test]
fn children_start_with_default_actions_and_an_empty_mask() {
    let code = "
        local function signals(text)
          local function set(name) return tonumber(text:match('Sig' .. name .. ':%s*(%x+)'), 16) end
          -- SIGINT, SIGPIPE, SIGCHLD
          return ('%x %x'):format(set 'Ign' & (1 << 1 | 1 << 12 | 1 << 16), set 'Blk')
        end
        local p <close> = io.popen 'cat /proc/self/status'
        print(signals(p:read 'a'))
        local name = os.tmpname()
        os.execute('cat /proc/self/status > ' .. name)
        print(signals(io.open(name):read 'a'))
        os.remove(name)
    ";
    for prologue in ["", "trap '' PIPE CHLD;", "trap '' INT;"] {
        assert_eq!(text(&run(prologue, code).stdout), "0 0\n0 0\n", "{prologue}");
    }
}

#[test]
fn statuses_of_children_are_known_though_the_parent_ignored_sigchld() {
    let code = "print(os.execute 'exit 3') local p = io.popen 'exit 4' print(p:read 'a', p:close())";
    for prologue in ["", "trap '' CHLD;"] {
        assert_eq!(text(&run(prologue, code).stdout), "nil\texit\t3\n\tnil\texit\t4\n", "{prologue}");
    }
}

#[test]
fn sigint_is_for_the_command_that_runs() {
    let code = "print(os.execute 'echo runs; read x; exit 5') print 'goes on'";
    let mut child = Limited::start(&mut shell("", code));
    assert_eq!(child.line().as_deref(), Some("runs"));
    // SAFETY: sends a signal to a child that has not been waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    child.write("\n");
    let ended = child.finish();
    assert_eq!(text(&ended.stdout), "nil\texit\t5\ngoes on\n");
    assert!(ended.status.success());
}
