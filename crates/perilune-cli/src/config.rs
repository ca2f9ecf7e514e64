//! What the environment says about the program that is run: read here, once, and handed down.

use crate::protected::write_error;
use perilune_domain::Config;
use perilune_domain::bundle::Files;
use perilune_heap::HeapOptions;
use perilune_stdlib::Paths;
use perilune_vm::machine::{Specializer, Stepper};
use std::sync::Arc;

/// The configuration of a program that the command runs. `-E` hides Lua's own variables.
pub fn from_env(ignore_lua: bool, files: Files) -> Config {
    Config {
        heap: HeapOptions::from_env(),
        paths: match &files {
            // Its modules are inside.
            Files::Bundle(_) => Paths { path: Vec::new(), cpath: Vec::new() },
            Files::Folder(_) if ignore_lua => Paths::default(),
            Files::Folder(_) => Paths::from_env(),
        },
        files: Arc::new(files),
        check_races: wants_races(&std::env::var("PERILUNE_CHECK").unwrap_or_default()),
        takes_interrupts: true,
        specializer: specializer(&std::env::var("PERILUNE_SPESH").unwrap_or_default()),
    }
}

/// Whether races are among these checks. Says which words are none.
fn wants_races(checks: &str) -> bool {
    let mut races = false;
    for word in checks.split(',').map(str::trim).filter(|w| !w.is_empty()) {
        match word {
            "races" => races = true,
            _ => {
                let text =
                    format!("perilune: PERILUNE_CHECK: there is no check '{word}' (there is 'races')\n");
                write_error(text.as_bytes());
            }
        }
    }
    races
}

/// What makes machine code, as `mode` says.
fn specializer(mode: &str) -> Option<Arc<dyn Specializer>> {
    match mode {
        "" | "off" => None,
        "step" => Some(Arc::new(Stepper::default())),
        _ => {
            let text =
                format!("perilune: PERILUNE_SPESH: there is no mode '{mode}' (there are 'off' and 'step')\n");
            write_error(text.as_bytes());
            None
        }
    }
}
