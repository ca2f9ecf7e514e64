//! Other programs, where a script alone cannot see it: limits of descriptors, threads, dispositions of
//! signals.

use perilune_test::Limited;
use std::process::{Command, Output};

/// Runs `source` by a shell that does `before` first.
fn run(before: &str, source: &str) -> Output {
    let mut command = Command::new("sh");
    let line = format!("{before} exec \"$0\" -e \"$1\"");
    Limited::run(command.args(["-c", &line, env!("CARGO_BIN_EXE_perilune"), source]))
}

fn text(output: &Output) -> String {
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Whatever runs out at whatever point of starting a program: a failure with its code, and nothing is left
/// behind.
#[test]
fn a_program_that_cannot_have_its_descriptors_is_a_failure() {
    let source = r#"
        local process = require "perilune.process"
        assert(process.run{"true"})                 -- the poller has its own by now
        local kept, codes = {}, {}
        local function count()
          local n = 0
          for fd = 0, 63 do if io.open("/proc/self/fd/" .. fd) then n = n + 1 end end
          return n
        end
        -- One more descriptor is taken each time, until nothing starts any more.
        for n = 1, 64 do
          local result, message, code = process.run{"sh", "-c", "echo fine"}
          if result then assert(result.stdout == "fine\n") else codes[code] = (codes[code] or 0) + 1 end
          local spawned, message, code = process.spawn{"true"}
          if spawned then spawned:wait() spawned.stdin:close() spawned.stdout:close() spawned.stderr:close()
          else codes[code] = (codes[code] or 0) + 1 end
          kept[n] = io.open("/dev/null")
        end
        for code in pairs(codes) do print(code) end
        for _, file in pairs(kept) do file:close() end
        for _ = 1, 100 do assert(process.run{"true"}).code = 0 end
        print(process.run{"sh", "-c", "echo fine again"}.stdout)
    "#;
    assert_eq!(text(&run("ulimit -n 48;", source)), "EMFILE\nfine again\n\n");
}

/// Who starts a program that ignores signals passes that on, but for those that the runtime deals with
/// itself.
#[test]
fn programs_begin_with_an_empty_mask_and_default_actions() {
    let source = r#"
        local process = require "perilune.process"
        local status = process.run{"cat", "/proc/self/status"}.stdout
        print(status:match("SigBlk:%s*(%x+)"), status:match("SigIgn:%s*%x+(%x%x%x%x)\n"))
    "#;
    // SIGPIPE (13) and SIGINT (2) are ignored by the shell, SIGHUP (1) and SIGQUIT (3), which shells ignore
    // for background jobs, too.
    let out = text(&run("trap '' PIPE INT HUP QUIT;", source));
    assert_eq!(out, "0000000000000000\t0005\n");
}

/// A thousand programs at a time are waited for by no more threads than one.
#[test]
fn waiting_for_programs_takes_no_threads() {
    let source = r#"
        local pl, process = require "perilune", require "perilune.process"
        local function threads() return tonumber(io.open("/proc/self/status"):read("a"):match("Threads:%s*(%d+)")) end
        local all = {}
        for n = 1, 1000 do
            all[n] = assert(process.spawn{"sleep", "1000", stdin = "null", stdout = "null", stderr = "null"})
        end
        local ended = 0
        local most
        pl.scope(function(s)
            for _, p in ipairs(all) do s:spawn(function() if p:wait().signal == "TERM" then ended = ended + 1 end end) end
            pl.sleep(0.05)
            most = threads()
            for _, p in ipairs(all) do assert(p:kill()) end
        end)
        print(ended, most < 12 or most)
    "#;
    assert_eq!(text(&run("ulimit -n 4096;", source)), "1000\ttrue\n");
}
