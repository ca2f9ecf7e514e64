//! `perilune trace ...`: recordings, and what can be done with one.
//!
//! | word | file | |
//! |---|---|---|
//! | `record` | `trace/record.rs`, `trace/spool.rs`, `trace/flight.rs` | writes what happens to a file; or the last moments only, when something has happened |
//! | `run` | `trace/record.rs` | records, then shows |
//! | `dump` | `trace/dump.rs`, `trace/describe.rs` | one line for each event |
//! | `show` | `trace/show.rs` | the viewer, in a browser |
//! | `render` | `trace/render.rs` | a page or a picture that needs nothing else |
//! | `export` | `trace/export.rs` | other viewers' formats |
//!
//! Each is a command of its own behind a common word, and works like those in `commands/`.

pub mod describe;
mod dump;
mod export;
mod flight;
mod record;
mod render;
mod show;
mod spool;

use std::process::ExitCode;

/// What carries a word out. It gets all words of the command line.
type Part = fn(&[Vec<u8>]) -> ExitCode;

/// The words after `trace`, and what each does, in a line for people and in fact.
const PARTS: &[(&str, &str, Part)] = &[
    ("record", "writes what happens in a program to a file", record::record),
    ("run", "records, then opens the viewer", record::run),
    ("dump", "writes events as text", dump::run),
    ("show", "opens the viewer in a browser", show::run),
    ("render", "writes a page or a picture", render::run),
    ("export", "writes a trace for other viewers", export::run),
];

/// Carries out the subcommand.
pub fn run(words: &[Vec<u8>]) -> ExitCode {
    let word = words.get(2).map_or(&b""[..], Vec::as_slice);
    if let Some((.., part)) = PARTS.iter().find(|(name, ..)| name.as_bytes() == word) {
        return part(words);
    }
    let mut usage =
        "usage: perilune trace COMMAND ... (perilune trace COMMAND --help tells more)\n".to_owned();
    for (name, what, _) in PARTS {
        usage += &format!("  {name:8} {what}\n");
    }
    if matches!(word, b"--help" | b"-h") {
        print!("{usage}");
        return ExitCode::SUCCESS;
    }
    match word {
        b"" => eprint!("{usage}"),
        _ => eprint!("perilune trace: there is no '{}'\n{usage}", String::from_utf8_lossy(word)),
    }
    ExitCode::from(2)
}
