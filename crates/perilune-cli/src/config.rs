//! What the environment says about the program that is run: read here, once, and handed down.

use crate::protected::write_error;
use perilune_domain::Config;
use perilune_heap::HeapOptions;
use perilune_stdlib::Paths;

/// The configuration of a program that the command runs. `-E` hides Lua's own variables.
pub fn from_env(ignore_lua: bool) -> Config {
    Config {
        heap: HeapOptions::from_env(),
        paths: if ignore_lua { Paths::default() } else { Paths::from_env() },
        check_races: wants_races(&std::env::var("PERILUNE_CHECK").unwrap_or_default()),
        takes_interrupts: true,
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
