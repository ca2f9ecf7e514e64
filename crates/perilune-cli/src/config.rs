//! What the environment says about the program that is run: read here, once, and handed down.

use crate::commands::explain::tell as explain;
use crate::protected::write_error;
use perilune_domain::Config;
use perilune_domain::bundle::Files;
use perilune_heap::HeapOptions;
use perilune_io::{Who, Wish};
use perilune_spesh::Setup;
use perilune_spesh::report::Decisions;
use perilune_stdlib::Paths;
use perilune_vm::machine::Specializer;
use std::sync::Arc;
use std::time::Duration;

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
        modules: [perilune_io::modules(), perilune_http::modules()].concat(),
        descriptors: Some(perilune_io::descriptors()),
        specializer: specializer(),
    }
}

/// Who waits for sockets, and how.
///
/// # Errors
/// The environment names a way that there is not.
pub fn choose_poller() -> Result<(), String> {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let word = variable("PERILUNE_IO");
    let wish = match Wish::WORDS.iter().find(|(name, _)| *name == word) {
        Some((_, wish)) => *wish,
        None if word.is_empty() => Wish::Auto,
        None => return Err(format!("PERILUNE_IO: '{word}' is none of 'auto', 'epoll' and 'uring'")),
    };
    perilune_io::wish(wish, |why| tell(&format!("PERILUNE_IO=uring: {why}")));
    let word = variable("PERILUNE_IO_POLL");
    match Who::WORDS.iter().find(|(name, _)| *name == word) {
        Some((_, Who::Workers)) if wish == Wish::Uring => {
            tell(
                "PERILUNE_IO_POLL=lease: only with epoll; with PERILUNE_IO=uring a thread of its own waits \
                 for sockets",
            );
        }
        Some((_, who)) => perilune_io::wait_by(*who),
        None if word.is_empty() => {}
        None => tell(&format!("PERILUNE_IO_POLL: '{word}' is none of 'auto', 'thread' and 'lease'")),
    }
    if let Ok(millis) = variable("PERILUNE_SLOW_FILES").parse() {
        perilune_stdlib::io::pretend_that_disks_are_slow(Duration::from_millis(millis));
    }
    Ok(())
}

fn tell(text: &str) {
    write_error(format!("perilune: {text}\n").as_bytes());
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

/// What makes machine code, as the environment says.
fn specializer() -> Option<Arc<dyn Specializer>> {
    let mode = std::env::var("PERILUNE_SPESH").unwrap_or_default();
    let decisions = decisions();
    let explained = explain::is_wanted().then(|| Arc::clone(&decisions));
    let variable = |name| std::env::var(name).unwrap_or_default();
    let setup = || Setup {
        decisions,
        guards: variable("PERILUNE_SPESH_GUARDS"),
        leave: variable("PERILUNE_SPESH_LEAVE"),
        generator: variable("PERILUNE_SPESH_GENERATOR"),
        perf: variable("PERILUNE_PERF"),
        room: variable("PERILUNE_SPESH_ROOM"),
    };
    let made = perilune_spesh::specializer(&mode, setup);
    if let Some(decisions) = explained {
        explain::tell_at_exit(decisions, made.as_ref().err().cloned());
    }
    made.unwrap_or_else(|problem| {
        write_error(format!("perilune: PERILUNE_SPESH: {problem}\n").as_bytes());
        None
    })
}

/// Where the specialiser's decisions go.
fn decisions() -> Arc<Decisions> {
    let Some(name) = std::env::var_os("PERILUNE_SPESH_LOG").filter(|name| !name.is_empty()) else {
        return Arc::new(Decisions::new(None, explain::is_wanted()));
    };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(&name);
    let failed = |error| {
        write_error(format!("perilune: PERILUNE_SPESH_LOG: {}: {error}\n", name.display()).as_bytes())
    };
    Arc::new(Decisions::new(file.map_err(failed).ok(), explain::is_wanted()))
}
