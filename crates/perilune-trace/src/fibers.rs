//! Lists of fibers: what a program writes when a tool asks which fibers it has, and what the tool reads.
//!
//! Each domain writes a file of its own ([`crate::attach::Request::Fibers`]): lines of fields between tabs,
//! the first of which says what the line is. Names of functions and call paths are numbers of the session's
//! definitions, so a line costs the program a look at a table and not the making of a text. A reader leaves
//! out lines that it does not know.

use crate::event::{FiberRef, Field, ObjectKind, Verb};
use std::fmt::Write;

/// What a fiber is at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum FiberState {
    /// It runs, or did until it was asked.
    Runs,
    /// It could run, and others do.
    Ready,
    /// It waits.
    Waits,
    /// It is in a call that blocks its thread.
    Blocked,
}

impl FiberState {
    const ALL: [(FiberState, &'static str); 4] = [
        (FiberState::Runs, "runs"),
        (FiberState::Ready, "ready"),
        (FiberState::Waits, "waits"),
        (FiberState::Blocked, "blocked"),
    ];

    /// For people.
    pub fn word(self) -> &'static str {
        FiberState::ALL[self as usize].1
    }
}

/// A wait.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Waiting {
    /// What it does.
    pub verb: Verb,
    /// What it is for.
    pub kind: ObjectKind,
    /// The same in words.
    pub object: String,
    /// The line of the program that waits.
    pub place: String,
    /// For how long it has, in nanoseconds.
    pub for_ns: u64,
    /// How long it lasts at most from now on, in nanoseconds.
    pub left_ns: Option<u64>,
}

/// A line of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// The domain that writes.
    Domain {
        /// Its number.
        number: u32,
        /// Its name.
        name: String,
    },
    /// A fiber of it.
    Fiber {
        /// Its number.
        fiber: FiberRef,
        /// What it is at.
        state: FiberState,
        /// What the program calls it; empty: nothing.
        label: String,
        /// Its function: a string's number.
        function: u32,
        /// Where it is: a call path's number.
        stack: u32,
        /// How long it has existed, in nanoseconds.
        age_ns: u64,
        /// What it waits for.
        wait: Option<Waiting>,
    },
    /// The pool that the domain works for.
    Pool {
        /// Tells it from others.
        key: u64,
        /// Its name.
        name: String,
        /// Tasks that have not begun.
        queued: u64,
    },
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n")
}

fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('t') => out.push('\t'),
                Some('n') => out.push('\n'),
                Some(other) => out.push(other),
                None => {}
            },
            c => out.push(c),
        }
    }
    out
}

impl Line {
    /// Adds it to a file's text.
    pub fn write(&self, to: &mut String) {
        // A `String` takes everything.
        let _ = match self {
            Line::Domain { number, name } => write!(to, "domain\t{number}\t{}", escaped(name)),
            Line::Pool { key, name, queued } => write!(to, "pool\t{key}\t{}\t{queued}", escaped(name)),
            Line::Fiber { fiber, state, label, function, stack, age_ns, wait } => {
                let _ = write!(
                    to,
                    "fiber\t{}\t{}\t{}\t{function}\t{stack}\t{age_ns}",
                    fiber.0,
                    state.word(),
                    escaped(label)
                );
                match wait {
                    None => Ok(()),
                    Some(Waiting { verb, kind, object, place, for_ns, left_ns }) => write!(
                        to,
                        "\t{}\t{}\t{}\t{}\t{for_ns}\t{}",
                        verb.encode(),
                        *kind as u8,
                        escaped(object),
                        escaped(place),
                        left_ns.map_or_else(|| "-".to_owned(), |ns| ns.to_string())
                    ),
                }
            }
        };
        to.push('\n');
    }

    /// Reads one; nothing if it is none that is known.
    pub fn parse(line: &str) -> Option<Line> {
        let mut fields = line.split('\t');
        let mut next = || fields.next();
        Some(match next()? {
            "domain" => Line::Domain { number: next()?.parse().ok()?, name: plain(next()?) },
            "pool" => {
                Line::Pool { key: next()?.parse().ok()?, name: plain(next()?), queued: next()?.parse().ok()? }
            }
            "fiber" => {
                let fiber = FiberRef(next()?.parse().ok()?);
                let word = next()?;
                let state = FiberState::ALL.iter().find(|(_, w)| *w == word)?.0;
                let label = plain(next()?);
                let (function, stack) = (next()?.parse().ok()?, next()?.parse().ok()?);
                let age_ns = next()?.parse().ok()?;
                let wait = match next() {
                    None => None,
                    Some(verb) => Some(Waiting {
                        verb: Verb::decode(verb.parse().ok()?),
                        kind: ObjectKind::from_number(next()?.parse().ok()?),
                        object: plain(next()?),
                        place: plain(next()?),
                        for_ns: next()?.parse().ok()?,
                        left_ns: next()?.parse().ok(),
                    }),
                };
                Line::Fiber { fiber, state, label, function, stack, age_ns, wait }
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_written_and_read() {
        let wait = Waiting {
            verb: Verb::Reads,
            kind: ObjectKind::Stream,
            object: "a\tb\\n\nc".into(),
            place: "main.lua:3".into(),
            for_ns: 17,
            left_ns: None,
        };
        let fiber = |wait| Line::Fiber {
            fiber: FiberRef::new(2, 3, 4),
            state: FiberState::Waits,
            label: "fiber 'x'".into(),
            function: 5,
            stack: 6,
            age_ns: 7,
            wait,
        };
        let lines = [
            Line::Domain { number: 2, name: "two\twords".into() },
            fiber(None),
            fiber(Some(wait.clone())),
            fiber(Some(Waiting { left_ns: Some(1), ..wait })),
            Line::Pool { key: u64::MAX, name: "mill".into(), queued: 9 },
        ];
        for line in lines {
            let mut text = String::new();
            line.write(&mut text);
            assert_eq!(text.matches('\n').count(), 1);
            assert_eq!(Line::parse(text.trim_end_matches('\n')), Some(line));
        }
        assert_eq!((Line::parse(""), Line::parse("fiber\tx"), Line::parse("later\t1")), (None, None, None));
    }
}
