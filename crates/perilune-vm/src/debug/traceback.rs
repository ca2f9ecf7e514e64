//! The text of a traceback, as `luaL_traceback` writes it: programs compare it.
//!
//! Functions of our own that are written in Lua (`OWN_SOURCE`) look like those that are not: what a program
//! calls is one line, `[C]: in function 'perilune.scope'`. What that calls in its turn, natives among it, is
//! not shown, nor is what of ours lies at the bottom of a fiber. So all other lines are of the program's own
//! functions, and of what it calls.

use super::Activation;
use crate::Vm;
use crate::error::OWN_SOURCE;
use crate::names;
use crate::object::Thread;
use crate::value::Gc;

/// Levels shown from the top of a long stack.
const FIRST: usize = 10;
/// Levels shown from its bottom.
const LAST: usize = 11;

/// A line.
enum Line {
    /// A function of the program, or one that it calls.
    Plain(Activation),
    /// A function of the program that is called by one of ours: what that calls it is of no interest.
    Given(Activation),
    /// One of ours that the program calls, with what that calls.
    Ours(Activation),
}

impl Vm {
    /// The active functions of `thread` from `level` on, a line for each that is not hidden, after `msg` and
    /// a heading. Of a long stack the middle is left out.
    pub fn traceback(&mut self, thread: Gc<Thread>, msg: Option<&[u8]>, level: u32) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(msg) = msg {
            out.extend_from_slice(msg);
            out.push(b'\n');
        }
        out.extend_from_slice(b"stack traceback:");
        // Nothing runs meanwhile: looking a name up neither collects nor calls.
        let (mut count, mut hides) = (0, true);
        self.lines(thread, level, hides, |_, _| count += 1);
        if count == 0 {
            // There is nothing but ours.
            hides = false;
            self.lines(thread, level, hides, |_, _| count += 1);
        }
        let skip = if count > FIRST + LAST + 1 { FIRST..count - LAST } else { 0..0 };
        let mut n = 0;
        self.lines(thread, level, hides, |vm, line| {
            if !skip.contains(&n) {
                vm.write_line(&line, &mut out);
            } else if n == skip.start {
                // The reference implementation does not count the first one it leaves out.
                let skipped = skip.end - skip.start - 1;
                out.extend_from_slice(format!("\n\t...\t(skipping {skipped} levels)").as_bytes());
            }
            n += 1;
        });
        out
    }

    /// Calls `f` for each line. `hides`: what is ours is hidden.
    fn lines(&mut self, thread: Gc<Thread>, level: u32, hides: bool, mut f: impl FnMut(&mut Vm, Line)) {
        // The one nearest to the program's code of those that are hidden just now.
        let mut ours = None;
        let mut all = self.activations(thread).skip(level as usize).peekable();
        while let Some(a) = all.next() {
            // A native of ours is one that a function of ours calls.
            let is_given = hides && all.peek().is_some_and(is_ours);
            if hides && (is_ours(&a) || is_given && !a.is_lua()) {
                ours = Some(a);
                continue;
            }
            if let Some(ours) = ours.take() {
                f(self, Line::Ours(ours));
            }
            f(self, if is_given { Line::Given(a) } else { Line::Plain(a) });
        }
    }

    fn write_line(&mut self, line: &Line, out: &mut Vec<u8>) {
        let is_given = matches!(line, Line::Given(_));
        let (a, is_ours) = match line {
            Line::Plain(a) | Line::Given(a) => (a, false),
            Line::Ours(a) => (a, true),
        };
        let Some(info) = self.function_info(a.function()) else { return };
        out.extend_from_slice(b"\n\t");
        out.extend_from_slice(if is_ours { b"[C]" } else { &info.short_source });
        // SAFETY: a live frame.
        let (line, name) = unsafe {
            let line = if a.is_lua() && !is_ours { names::current_line(a.base) } else { None };
            (line, if is_given { None } else { names::function_name(a.base) })
        };
        if let Some(line) = line {
            out.extend_from_slice(format!(":{line}").as_bytes());
        }
        out.extend_from_slice(b": in ");
        if let Some(global) = self.global_function_name(a.function()) {
            out.extend_from_slice(b"function '");
            out.extend_from_slice(&global);
            out.push(b'\'');
        } else if let Some((kind, name)) = name {
            out.extend_from_slice(format!("{kind} '").as_bytes());
            out.extend_from_slice(&name);
            out.push(b'\'');
        } else if info.what == "main" {
            out.extend_from_slice(b"main chunk");
        } else if info.what != "C" && !is_ours {
            out.extend_from_slice(b"function <");
            out.extend_from_slice(&info.short_source);
            out.extend_from_slice(format!(":{}>", info.line_defined).as_bytes());
        } else {
            out.push(b'?');
        }
        if a.flags() & crate::frame::F_TAIL != 0 {
            out.extend_from_slice(b"\n\t(...tail calls...)");
        }
    }
}

/// A function of ours that is written in Lua.
fn is_ours(a: &Activation) -> bool {
    a.function().lua_proto().is_some_and(|proto| *proto.source == *OWN_SOURCE)
}
