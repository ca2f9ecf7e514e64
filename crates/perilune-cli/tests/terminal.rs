//! `perilune.tty`: raw mode, and that a terminal is never left raw.

#[path = "support/pty.rs"]
#[allow(dead_code, reason = "the tests of the interactive mode use the rest")]
mod pty;

use perilune_test::Folder;
use pty::Pty;
use std::process::Command;

/// A shell runs the program on its terminal and says afterwards whether that is what it was. The folder is
/// the program's.
fn start(source: &str) -> (Pty, Folder) {
    let folder = Folder::with([("a.lua", source)]);
    let line = format!(
        "stty -a > before; {} a.lua; echo \"[$?]\"; stty -a | cmp - before && echo same",
        env!("CARGO_BIN_EXE_perilune")
    );
    let mut command = Command::new("sh");
    command.args(["-c", &line]).current_dir(folder.path());
    let mut pty = Pty::spawn(&mut command);
    // The folder is needed for as long as the shell runs.
    pty.wait("ready");
    (pty, folder)
}

const RAW: &str =
    "local tty = require 'perilune.tty'\nlocal raw = assert(tty.raw())\nio.write 'ready' io.flush()\n";

#[test]
fn keys_come_one_by_one_and_unseen() {
    let source = r##"
local tty = require "perilune.tty"
assert(tty.is_terminal() and tty.is_terminal(io.stdout))
local columns, lines = tty.size()
assert(columns == 250 and lines == 40, columns)
do
  local raw <close> = assert(tty.raw(io.stdin, { signals = true }))
  local part = assert(tty.raw())
  assert(part:restore() == true and part:restore() == false)
  io.write "ready" io.flush()
  local keys = {}
  repeat
    local key = io.read(1)
    keys[#keys + 1] = key:byte()
  until key == "q"
  io.write("<", table.concat(keys, " "), ">")
end
assert(select(3, tty.raw(io.tmpfile())) == "ENOTTY")
"##;
    let (mut pty, _folder) = start(source);
    pty.write("a\x03\rq");
    assert_eq!(pty.wait("<"), "", "the keys are not shown");
    assert_eq!(pty.wait(">"), "97 3 13 113");
    pty.wait("[0]");
    pty.wait("same");
}

/// However the program ends.
#[test]
fn the_terminal_is_restored() {
    for (end, code) in [
        ("", "[0]"),
        ("os.exit(3)", "[3]"),
        ("error 'oops'", "[1]"),
        ("os.execute 'kill -TERM $PPID' while true do end", "[143]"),
        ("os.execute 'kill -HUP $PPID' require 'perilune'.sleep(100)", "[129]"),
        (
            "os.execute '(sleep 0.1; while kill -INT $PPID; do sleep 0.2; done 2> /dev/null) &' while true \
             do pcall(function() while true do end end) end",
            "[130]",
        ),
        ("raw:restore() raw = tty.raw() raw = nil collectgarbage()", "[0]"),
    ] {
        let (mut pty, _folder) = start(&format!("{RAW}{end}"));
        pty.wait(code);
        pty.wait("same");
    }
}
