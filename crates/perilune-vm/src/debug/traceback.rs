//! The text of a traceback, as `luaL_traceback` writes it: programs compare it.

use crate::Vm;
use crate::names;
use crate::object::Thread;
use crate::value::Gc;

/// Levels shown from the top of a long stack.
const FIRST: i64 = 10;
/// Levels shown from its bottom.
const LAST: i64 = 11;

impl Vm {
    /// The active functions of `thread` from `level` on, a line for each, after `msg` and a heading. Of a long stack the middle is left out.
    pub fn traceback(&mut self, thread: Gc<Thread>, msg: Option<&[u8]>, level: u32) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(msg) = msg {
            out.extend_from_slice(msg);
            out.push(b'\n');
        }
        out.extend_from_slice(b"stack traceback:");
        let count = self.activations(thread).count() as i64;
        let last = (count - 1).max(0);
        let level = level as i64;
        let skip = if last - level > FIRST + LAST {
            let from = level + FIRST;
            from..last - LAST + 1
        } else {
            0..0
        };
        // Nothing runs meanwhile: looking a name up neither collects nor calls.
        for (n, a) in self.activations(thread).enumerate() {
            let n = n as i64;
            if n < level {
                continue;
            }
            if skip.contains(&n) {
                if n == skip.start {
                    // The reference implementation does not count the first one it leaves out.
                    let skipped = skip.end - skip.start - 1;
                    out.extend_from_slice(format!("\n\t...\t(skipping {skipped} levels)").as_bytes());
                }
                continue;
            }
            let Some(info) = self.function_info(a.function()) else { continue };
            out.extend_from_slice(b"\n\t");
            out.extend_from_slice(&info.short_source);
            // SAFETY: a live frame.
            let (line, name) = unsafe {
                let line = if a.is_lua() { names::current_line(a.base) } else { None };
                (line, names::function_name(a.base))
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
            } else if info.what != "C" {
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
        out
    }
}
