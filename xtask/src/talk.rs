//! `cargo xtask talk`: programs of other people against ours, where they are installed.
//!
//! | program | with what |
//! |---|---|
//! | `redis-benchmark` | `examples/resp`: every command that both know, alone and 16 at a time; an error of the protocol ends it |
//! | `websockets` for Python | `perilune.ws`, as client and as server (`benches/io/peers`) |
//!
//! What is not installed is said and left out: this is for whoever changes a protocol, and no part of the
//! tests.

use crate::chore::{self, Error, Outcome};
use crate::peers;
use lexopt::prelude::*;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Listing line.
pub const SUMMARY: &str =
    "redis-benchmark and Python's websockets against our servers and clients, where they are installed";
/// Arguments.
pub const USAGE: &str = "[--bin PATH] [--profile P]";

/// What `examples/resp` knows of what `redis-benchmark` tries.
const COMMANDS: &str = "ping,set,get,incr,lpush,rpush,lpop,rpop,lrange";

/// A server of ours, and where it serves.
struct Server {
    child: Child,
    endpoint: String,
}

impl Server {
    fn start(bin: &Path, arguments: &[&str]) -> Result<Server, Error> {
        let mut child = Command::new(bin)
            .args(arguments)
            .current_dir(chore::root())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let out = child.stdout.take().ok_or("no pipe")?;
        BufReader::new(out).read_line(&mut line)?;
        match line.split_whitespace().next_back() {
            Some(endpoint) => Ok(Server { endpoint: endpoint.to_owned(), child }),
            None => Err(format!("{arguments:?} has not said where it serves").into()),
        }
    }

    fn port(&self) -> &str {
        self.endpoint.rsplit(':').next().unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_there(program: &str, arguments: &[&str]) -> bool {
    let quiet = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let is = quiet.is_ok_and(|status| status.success());
    if !is {
        println!("{program} {}: not installed", arguments.join(" "));
    }
    is
}

fn redis_benchmark(bin: &Path) -> Result<bool, Error> {
    let server = Server::start(bin, &["examples/resp/main.lua", "127.0.0.1:0"])?;
    let mut all = true;
    for pipeline in ["1", "16"] {
        let arguments =
            ["-p", server.port(), "-q", "--csv", "-n", "10000", "-c", "20", "-P", pipeline, "-t", COMMANDS];
        let output = Command::new("redis-benchmark").args(arguments).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        // A line for each command, and a head. LRANGE has several.
        let rows = text.lines().filter(|line| line.starts_with('"')).count();
        let ok = output.status.success() && rows > COMMANDS.split(',').count();
        println!("redis-benchmark, {pipeline} at a time: {}", if ok { "passed" } else { "FAILED" });
        if !ok {
            println!("{text}{}", String::from_utf8_lossy(&output.stderr));
        }
        all &= ok;
    }
    Ok(all)
}

fn websockets(bin: &Path, python: &str) -> Result<bool, Error> {
    let script = "benches/io/peers/websocket.lua";
    let server = Server::start(bin, &[script])?;
    let status = Command::new(python)
        .arg("benches/io/peers/websocket_peer.py")
        .arg(&server.endpoint)
        .arg(bin)
        .arg(script)
        .current_dir(chore::root())
        .status()?;
    println!("websockets: {}", if status.success() { "passed" } else { "FAILED" });
    Ok(status.success())
}

/// Runs the chore.
pub fn run(args: Vec<OsString>) -> Result<Outcome, Error> {
    let (mut bin, mut profile) = (None, "release".to_string());
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next()? {
        match arg {
            Long("bin") => bin = Some(parser.value()?.string()?),
            Long("profile") => profile = parser.value()?.string()?,
            _ => return Err(arg.unexpected().into()),
        }
    }
    let ours = peers::ours(bin.as_deref(), &profile)?;
    let bin = Path::new(&ours.bin);
    let mut all = true;
    if is_there("redis-benchmark", &["--version"]) {
        all &= redis_benchmark(bin)?;
    }
    // The system's own, and whichever is first.
    let pythons = ["/usr/bin/python3", "python3"];
    if let Some(python) = pythons.iter().find(|python| is_there(python, &["-c", "import websockets"])) {
        all &= websockets(bin, python)?;
    }
    Ok(Outcome::from_ok(all))
}
