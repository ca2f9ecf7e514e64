//! The recorded Lua scripts: `tests/lua/NAME.lua` and `tests/parallel/NAME.lua` print `NAME.out`, in every
//! mode.
//!
//! A script is copied into a folder of its own, which is the working directory while it runs, so that
//! messages say `NAME.lua:3:` and temporary files harm nobody. Standard output and the exit code count;
//! standard error is shown when a script fails. Addresses of objects are written `0xADDR` in the recordings
//! and in what is compared.
//!
//! A script's first lines may hold directives:
//! - `-- exit: N`: the exit code that is expected (0 without it);
//! - `-- stress: no`: too slow, or meaningless, when the collector runs at every allocation.

use crate::{Folder, Hang, Limited, recording};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Ends a script that hangs; a busy machine makes one that does not take minutes under stress.
pub const TIME_LIMIT: Duration = Duration::from_secs(900);

/// What is set for a program: names and values of environment variables.
pub type Environment = &'static [(&'static str, &'static str)];

/// A way to run programs in which they have to do the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// What people call it.
    pub name: &'static str,
    /// What makes it.
    pub environment: Environment,
}

/// Every mode of machine code and of the collector.
pub const MODES: &[Mode] = &[INTERPRETED, AUTO, STEP, SOON, GUARDS, LEAVE, DOUBTING, STRESS, SOON_STRESS];

/// Everything is interpreted.
pub const INTERPRETED: Mode = Mode { name: "off", environment: &[("PERILUNE_SPESH", "off")] };
/// What is hot is compiled in the background.
pub const AUTO: Mode = Mode { name: "auto", environment: &[("PERILUNE_SPESH", "auto")] };
/// Every function is entered as machine code that leaves each instruction to the interpreter.
pub const STEP: Mode = Mode { name: "step", environment: &[("PERILUNE_SPESH", "step")] };
/// Loops and functions are compiled after two rounds, while the program waits, and their code is checked.
pub const SOON: Mode = Mode {
    name: "soon",
    environment: &[("PERILUNE_SPESH", "blocking:2:60"), ("PERILUNE_SPESH_GENERATOR", "checked")],
};
/// The same, and one guard in 20 fails though it holds.
pub const GUARDS: Mode = Mode {
    name: "guards",
    environment: &[("PERILUNE_SPESH", "blocking:2:60"), ("PERILUNE_SPESH_GUARDS", "fail:20")],
};
/// Machine code leaves before each call of a function of Lua.
pub const LEAVE: Mode = Mode {
    name: "leave",
    environment: &[("PERILUNE_SPESH", "blocking:2:60"), ("PERILUNE_SPESH_LEAVE", "every")],
};
/// Both.
pub const DOUBTING: Mode = Mode {
    name: "guards+leave",
    environment: &[
        ("PERILUNE_SPESH", "blocking:2:60"),
        ("PERILUNE_SPESH_GUARDS", "fail:20"),
        ("PERILUNE_SPESH_LEAVE", "every"),
    ],
};
/// Each allocation collects, what is freed is overwritten, and the heap is verified.
pub const STRESS: Mode = Mode {
    name: "stress",
    environment: &[
        ("PERILUNE_SPESH", "off"),
        ("PERILUNE_GC_STRESS", "1"),
        ("PERILUNE_GC_VERIFY", "1"),
        ("PERILUNE_GC_POISON", "1"),
    ],
};
/// The same while machine code runs.
pub const SOON_STRESS: Mode = Mode {
    name: "soon+stress",
    environment: &[
        ("PERILUNE_SPESH", "blocking:2:60"),
        ("PERILUNE_GC_STRESS", "1"),
        ("PERILUNE_GC_VERIFY", "1"),
        ("PERILUNE_GC_POISON", "1"),
    ],
};

impl Mode {
    /// Whether the collector runs at every allocation.
    pub fn is_stress(&self) -> bool {
        self.environment.iter().any(|(name, _)| *name == "PERILUNE_GC_STRESS")
    }
}

/// What the runtime of Rust writes for a panic, also for one that is caught: the compiler's leaves the
/// program interpreted.
const PANIC: &str = ") panicked at ";

/// A recorded script.
#[derive(Clone, Debug)]
pub struct Script {
    /// Its file's name without the ending.
    pub name: String,
    path: PathBuf,
    exit: i32,
    stress: bool,
}

impl Script {
    fn read(path: PathBuf) -> Script {
        let source = std::fs::read(&path).expect("readable script");
        let head = crate::text(&source[..source.len().min(300)]);
        let directive =
            |key: &str| head.lines().find_map(|l| l.strip_prefix(key).map(|v| v.trim().to_owned()));
        Script {
            name: path.file_stem().expect("a file name").to_string_lossy().into_owned(),
            exit: directive("-- exit:").map_or(0, |v| v.parse().expect("a number after `-- exit:`")),
            stress: directive("-- stress:").is_none_or(|v| v != "no"),
            path,
        }
    }

    /// The scripts of a folder whose name contains `only`, in the order of their names.
    pub fn all(folder: &Path, only: &str) -> Vec<Script> {
        let mut found: Vec<Script> = std::fs::read_dir(folder)
            .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
            .map(|entry| entry.expect("readable directory").path())
            .filter(|path| path.extension().is_some_and(|e| e == "lua"))
            .map(Script::read)
            .filter(|script| script.name.contains(only))
            .collect();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found
    }

    /// Those of them whose text has one of these words.
    pub fn all_with(folder: &Path, only: &str, words: &[&str]) -> Vec<Script> {
        let mut scripts = Script::all(folder, only);
        scripts.retain(|script| {
            let source = std::fs::read(folder.join(&script.name).with_extension("lua")).expect("a script");
            let source = crate::text(&source);
            words.iter().any(|word| source.contains(word))
        });
        scripts
    }

    /// Whether it is meant to be run in a mode.
    pub fn runs_in(&self, mode: &Mode) -> bool {
        self.stress || !mode.is_stress()
    }

    /// Runs it, and compares what it prints and how it ends with what was recorded.
    ///
    /// # Errors
    /// What differs, for people.
    pub fn run(&self, binary: &Path, environment: &[(&str, &str)]) -> Result<(), String> {
        match self.output(binary, environment, TIME_LIMIT) {
            Ok(output) => self.judge(&output),
            Err(hang) => Err(format!("{}\n{hang}", self.name)),
        }
    }

    /// Runs it.
    ///
    /// # Errors
    /// It takes longer than it may.
    pub fn output(
        &self,
        binary: &Path,
        environment: &[(&str, &str)],
        limit: Duration,
    ) -> Result<Output, Box<Hang>> {
        let folder = Folder::new();
        let file = format!("{}.lua", self.name);
        std::fs::copy(&self.path, folder.join(&file)).expect("copy of the script");
        let mut command = Command::new(binary);
        command.arg(&file).current_dir(&folder);
        without_lua_variables(&mut command).envs(environment.iter().copied());
        Limited::start_with(&mut command, std::process::Stdio::null()).within(limit).ended()
    }

    /// Compares what it printed and how it ended with what was recorded.
    ///
    /// # Errors
    /// What differs, for people.
    pub fn judge(&self, output: &Output) -> Result<(), String> {
        let got = recording::without_addresses(&output.stdout);
        let mut report = String::new();
        if let Err(difference) = recording::compare(&self.path.with_extension("out"), &got) {
            report += &format!("  {}\n", difference.replace('\n', "\n  "));
        }
        if output.status.code() != Some(self.exit) {
            report += &format!("  exit code {} expected, got: {}\n", self.exit, output.status);
        }
        let stderr = crate::text(&output.stderr);
        if stderr.contains(PANIC) {
            report += "  a thread has panicked\n";
        }
        if report.is_empty() {
            return Ok(());
        }
        let head: Vec<&str> = stderr.lines().take(8).collect();
        if !head.is_empty() {
            report += &format!("  standard error:\n    {}\n", head.join("\n    "));
        }
        Err(format!("{}\n{report}", self.name))
    }
}

/// Takes away the variables by which a user's environment would change what `lua` does.
pub fn without_lua_variables(command: &mut Command) -> &mut Command {
    for variable in ["LUA_INIT", "LUA_INIT_5_4", "LUA_PATH", "LUA_PATH_5_4", "LUA_CPATH", "LUA_CPATH_5_4"] {
        command.env_remove(variable);
    }
    command
}

/// Does something with each item, on all cores; what failed, in the order of the text.
///
/// # Panics
/// `each` panics.
pub fn on_all_cores<T: Sync>(items: &[T], each: impl Fn(&T) -> Result<(), String> + Sync) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(2, |n| n.get()).min(items.len());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(report) = each(item) {
                        failures.lock().expect("no worker panics holding it").push(report);
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().expect("no worker panics holding it");
    failures.sort();
    failures
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scripts of a shell stand for scripts of Lua.
    fn judged(script: &str, recording: &str) -> Result<(), String> {
        let folder = Folder::with([("a.lua", script), ("a.out", recording)]);
        Script::all(folder.path(), "")[0].run(Path::new("/bin/sh"), &[("MODE", "x")])
    }

    #[test]
    fn output_and_exit_code_are_compared() {
        assert!(judged("echo \"thread 'x' (1) panicked at y\" >&2", "").is_err());
        assert_eq!(judged("echo $MODE", "x\n"), Ok(()));
        let said = judged("echo bad >&2\necho $MODE\nexit 3", "y\n").expect_err("it differs");
        for part in ["a\n", "line 1", "want \"y\"", "got  \"x\"", "exit code 0 expected", "    bad"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(judged("kill -9 $$", "").expect_err("a signal").contains("signal: 9"));
    }

    #[test]
    fn directives_are_heeded() {
        let folder = Folder::with([("a.lua", "-- exit: 3\n-- stress: no\n"), ("b.lua", ""), ("c.txt", "")]);
        let scripts = Script::all(folder.path(), "");
        let names: Vec<&str> = scripts.iter().map(|s| s.name.as_str()).collect();
        assert_eq!((names, scripts[0].exit, scripts[1].exit), (vec!["a", "b"], 3, 0));
        assert!(
            !scripts[0].runs_in(&STRESS) && scripts[0].runs_in(&SOON) && scripts[1].runs_in(&SOON_STRESS)
        );
        assert_eq!(Script::all(folder.path(), "b").len(), 1);
    }

    #[test]
    fn everything_is_done_once_and_what_fails_is_listed() {
        let items: Vec<u32> = (0..100).collect();
        let failed = on_all_cores(&items, |n| if n % 25 == 0 { Err(format!("{n:02}")) } else { Ok(()) });
        assert_eq!(failed, ["00", "25", "50", "75"]);
    }

    #[test]
    fn modes_have_names_of_their_own() {
        let names: std::collections::BTreeSet<_> = MODES.iter().map(|m| m.name).collect();
        assert_eq!(names.len(), MODES.len());
    }
}
