//! `docs/tracing/events.md` is the dictionary of events as the table declares it. `PERILUNE_BLESS=1` writes
//! it anew.

use perilune_trace::event::{CATEGORIES, DEFAULT_CATEGORIES, KINDS, Phase, Slot};
use std::fmt::Write;

fn dictionary() -> String {
    let mut s = String::from(
        "# Dictionary of events\n\n\
         Generated from the table in `crates/perilune-trace/src/event.rs`. An event has two words, `a` and \
         `b`, and 16 bits, `c`;\n\
         the columns of a kind say what lies in them. Begins and ends pair up; *more* belongs to the event \
         before it.\n",
    );
    for (category, name) in CATEGORIES {
        let mut kinds = KINDS.iter().filter(|i| i.category == category).peekable();
        if kinds.peek().is_none() {
            continue;
        }
        let default = if DEFAULT_CATEGORIES & category as u32 != 0 { "" } else { " (not on by default)" };
        let _ = write!(
            s,
            "\n## {name}{default}\n\n| number | event | | fields | meaning |\n|---|---|---|---|---|\n"
        );
        for info in kinds {
            let phase = match info.phase {
                Phase::Instant => "",
                Phase::Begin => "begin",
                Phase::End => "end",
                Phase::Counter => "counter",
                Phase::More => "more",
            };
            let fields: Vec<_> = info
                .fields
                .iter()
                .map(|f| {
                    let slot = match f.slot {
                        Slot::A => 'a',
                        Slot::B => 'b',
                        Slot::C => 'c',
                    };
                    format!("{slot}: {} ({})", f.name, f.notation.name())
                })
                .collect();
            let doc = info.doc.trim().replace("  ", " ");
            let _ = writeln!(
                s,
                "| {} | `{}` | {phase} | {} | {doc} |",
                info.kind as u16,
                info.name,
                fields.join("; ")
            );
        }
    }
    s
}

#[test]
fn the_printed_dictionary_is_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tracing/events.md");
    let made = dictionary();
    if std::env::var_os("PERILUNE_BLESS").is_some() {
        std::fs::write(path, &made).unwrap();
    }
    assert!(
        std::fs::read_to_string(path).unwrap_or_default() == made,
        "run the test with PERILUNE_BLESS=1 and read the difference"
    );
}
