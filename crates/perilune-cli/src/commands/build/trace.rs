//! `--trace RUN`: the modules and data that a run of the program asks for, whatever way it comes to their
//! names.
//!
//! The run is a process of its own, of this executable, with the words of RUN as its arguments. It writes
//! what it uses (`perilune_stdlib::used`) to a file, a line at a time as it happens, so that nothing is lost
//! however it ends. What the program prints goes to standard error, since standard output may be the list.
//! Ctrl-C is the run's: a service is ended by it, and the build goes on.
//!
//! A run shows what it has asked for, not what another one may. So reading goes on as without it, and places
//! with computed names are still told.

use crate::commands::test::fields;
use crate::sys;
use perilune_stdlib::used::{self, Use};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Where a run writes what it uses. It is for this command only, and the program does not see it.
const VARIABLE: &str = "PERILUNE_BUILD_TRACE";

static TOLD: OnceLock<Mutex<(File, BTreeSet<Vec<u8>>)>> = OnceLock::new();

/// Makes this process tell what it uses, if it is such a run. Called before there are threads.
pub fn tell_if_asked() {
    let Some(name) = std::env::var_os(VARIABLE) else { return };
    // SAFETY: the process has one thread yet. What it starts is no run of ours.
    unsafe { std::env::remove_var(VARIABLE) };
    // It has been made for us; a name that is nowhere was not.
    if let Ok(file) = File::options().append(true).open(name) {
        let _ = TOLD.set(Mutex::new((file, BTreeSet::new())));
        used::listen(tell);
    }
}

fn tell(used: Use) {
    let path = used.path();
    let (kind, name, file) = match used {
        Use::Module { name, file } => (&b"module"[..], name, file),
        Use::Asset { name, file } => (&b"asset"[..], name, file),
        Use::Code(file) => (&b"code"[..], &b""[..], file),
        Use::Read(file) => (&b"data"[..], &b""[..], file),
        // A program makes it itself.
        Use::Written(_) => return,
    };
    let line = fields::line([kind, name, file, path.as_os_str().as_bytes()]);
    let Some(told) = TOLD.get() else { return };
    let (file, known) = &mut *told.lock().unwrap_or_else(PoisonError::into_inner);
    if known.insert(line.clone()) {
        // That it cannot be told is seen in the executable: something is missing there.
        let _ = file.write_all(&line);
    }
}

/// What runs have used.
#[derive(Default)]
pub struct Used {
    /// Modules by name: the file as the program called it, and its path from the root.
    pub modules: BTreeMap<String, (Vec<u8>, PathBuf)>,
    /// Names of data, and where they are.
    pub assets: BTreeSet<(Vec<u8>, PathBuf)>,
    /// Code that was read, and no module.
    pub code: BTreeSet<PathBuf>,
    /// Data that were opened by the names of files.
    pub data: BTreeSet<PathBuf>,
}

/// Runs a script with the words of `run`, and adds what it uses. How it ended, if not well.
///
/// # Errors
/// The run does not begin, or its words make no sense.
pub fn watch(script: &Path, run: &str, used: &mut Used) -> Result<Option<String>, String> {
    let words = split(run)?;
    let told = Told::new()?;
    let mut command = Command::new(sys::THIS_EXECUTABLE);
    command.arg0("perilune").arg("--").arg(script).args(words);
    command.env(VARIABLE, &told.0).stdout(std::io::stderr());
    let status = crate::signals::while_interrupts_are_anothers(|| command.status());
    let status = status.map_err(|e| format!("--trace: {e}"))?;
    let bytes = std::fs::read(&told.0).map_err(|e| format!("{}: {e}", told.0.display()))?;
    for line in bytes.split(|b| *b == b'\n') {
        let [kind, name, file, path] = &fields::fields(line)[..] else { continue };
        let path = PathBuf::from(OsStr::from_bytes(path));
        // What was looked for and is not there has not been used.
        if !path.is_file() {
            continue;
        }
        match &kind[..] {
            // A module is where it was found first, as `require` has it.
            b"module" => {
                let name = String::from_utf8_lossy(name).into_owned();
                used.modules.entry(name).or_insert((file.clone(), path));
            }
            b"asset" => _ = used.assets.insert((name.clone(), path)),
            b"code" => _ = used.code.insert(path),
            _ => _ = used.data.insert(path),
        }
    }
    Ok(match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("with exit code {code}")),
        (None, signal) => Some(format!("by signal {}", signal.unwrap_or(0))),
    })
}

/// A file that is ours alone, removed at the end.
struct Told(PathBuf);

impl Told {
    fn new() -> Result<Told, String> {
        let mut number = 0;
        loop {
            let file =
                std::env::temp_dir().join(format!("perilune-build-trace-{}-{number}", std::process::id()));
            match File::options().write(true).create_new(true).mode(0o600).open(&file) {
                Ok(_) => return Ok(Told(file)),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && number < 100 => number += 1,
                Err(e) => return Err(format!("{}: {e}", file.display())),
            }
        }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Words as a shell would split them: spaces between them, quotes of either kind round what has spaces, a
/// backslash before a character that is to be itself. No variables, no patterns.
fn split(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some(end) if end == c => break,
                        Some('\\') if c == '"' => word.extend(chars.next()),
                        Some(other) => word.push(other),
                        None => return Err(format!("--trace: a {c} in <{text}> is not closed")),
                    }
                }
            }
            '\\' => word.get_or_insert_default().extend(chars.next()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn words_of_a_run() {
        for (text, words) in [
            ("", &[][..]),
            ("  check  all.txt ", &["check", "all.txt"]),
            ("'a b' \"c 'd' \\\" \"e '' f\\ g", &["a b", "c 'd' \" e", "", "f g"]),
        ] {
            assert_eq!(split(text).unwrap(), words, "{text}");
        }
        assert_eq!(split("a 'b").unwrap_err(), "--trace: a ' in <a 'b> is not closed");
    }
}
