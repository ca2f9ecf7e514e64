//! Runs one program in two implementations and compares what they print.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const TIME_LIMIT: Duration = Duration::from_secs(20);

struct Ran {
    output: String,
    /// Exit code; `None`: ended by a signal or by the time limit.
    code: Option<i32>,
    timed_out: bool,
}

fn run(program: &Path, file: &Path) -> Ran {
    let mut child = Command::new(program)
        .arg(file)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let mut stdout = child.stdout.take().expect("piped");
    let mut stderr = child.stderr.take().expect("piped");
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stdout.read_to_end(&mut bytes);
        bytes
    });
    let errors = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stderr.read_to_end(&mut bytes);
        bytes
    });
    let start = Instant::now();
    let mut timed_out = false;
    let status = loop {
        if let Some(status) = child.try_wait().expect("child can be waited for") {
            break status;
        }
        if start.elapsed() > TIME_LIMIT {
            timed_out = true;
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_micros(500));
    };
    let mut output = String::from_utf8_lossy(&reader.join().expect("reader")).into_owned();
    let errors = errors.join().expect("reader");
    if status.code() != Some(0) {
        output += &format!("\n{}", String::from_utf8_lossy(&errors));
    }
    Ran { output, code: status.code(), timed_out }
}

/// What is wrong, if anything: the first line that differs, or how our command ended.
pub fn compare(ours: &Path, reference: &Path, file: &Path) -> Option<String> {
    let want = run(reference, file);
    if want.code != Some(0) {
        // A program that the reference does not survive (C stack, time) says nothing, unless ours crashes on it.
        let got = run(ours, file);
        return (got.code.is_none() && !got.timed_out)
            .then(|| format!("crash where the reference ends with {:?}: {}", want.code, got.output));
    }
    let got = run(ours, file);
    if got.timed_out {
        return Some("time limit".to_owned());
    }
    if got.code.is_none_or(|code| code > 1) {
        return Some(format!("ended with {:?}: {}", got.code, got.output));
    }
    let (got, want) = (normalise(&got.output), normalise(&want.output));
    if got == want {
        return None;
    }
    let line = got.lines().zip(want.lines()).take_while(|(g, w)| g == w).count();
    let at = |text: &str| text.lines().nth(line).unwrap_or("(nothing)").to_owned();
    Some(format!("line {}\n  want {}\n  got  {}", line + 1, at(&want), at(&got)))
}

fn normalise(output: &str) -> String {
    output.replace("-nan", "nan")
}
