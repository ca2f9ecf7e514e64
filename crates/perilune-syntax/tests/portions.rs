//! A chunk is compiled in portions: its code is the same whatever their size.
//!
//! One thing may differ: whether a return of the main function closes variables that are captured only behind
//! it, where there is nothing to close.

use perilune_syntax::{Instr, Op, Proto, compile_in_portions};
use std::path::Path;
use std::sync::Arc;

/// The instructions of a main function, as far as they have to be the same.
fn code(proto: &Proto) -> Vec<Instr> {
    let plain = |&i: &Instr| match i.op() {
        Some(op @ (Op::Return | Op::TailCall)) => Instr::abcd(op, i.a(), i.b(), i.c(), 0),
        _ => i,
    };
    proto.code.iter().map(plain).collect()
}

fn same(name: &str, one: &Proto, other: &Proto) {
    assert_eq!(code(one), code(other), "{name}: the main function's code");
    assert_eq!(one.constants, other.constants, "{name}: constants");
    assert_eq!(one.upvalues, other.upvalues, "{name}: upvalues");
    assert_eq!(one.lines, other.lines, "{name}: lines");
    assert_eq!(one.locals, other.locals, "{name}: local variables");
    assert!(one.protos == other.protos, "{name}: functions");
    assert_eq!(
        (one.max_stack, one.ic_count, one.last_line_defined, &one.templates),
        (other.max_stack, other.ic_count, other.last_line_defined, &other.templates),
        "{name}: sizes"
    );
}

fn check(name: &str, source: &[u8]) {
    let compiled = |portion| -> Result<Arc<Proto>, Vec<u8>> {
        compile_in_portions(source, b"=chunk", portion).map_err(|e| e.message)
    };
    let whole = compiled(usize::MAX);
    for portion in [0, 20, 1024] {
        match (&whole, compiled(portion)) {
            (Ok(whole), Ok(parts)) => same(name, whole, &parts),
            // Limits of the code are met before mistakes behind them.
            (Err(_), Err(_)) => {}
            _ => panic!("{name}: one is refused"),
        }
    }
}

fn check_folder(folder: &Path, count: &mut usize) {
    for entry in std::fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            check_folder(&path, count);
        } else if path.extension().is_some_and(|e| e == "lua") {
            let text = std::fs::read(&path).expect("a readable file");
            let start =
                if text.first() == Some(&b'#') { text.iter().position(|&b| b == b'\n') } else { Some(0) };
            check(&path.display().to_string(), &text[start.unwrap_or(0)..]);
            *count += 1;
        }
    }
}

#[test]
fn portions_make_no_difference() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut count = 0;
    for folder in ["tests", "benches", "examples"] {
        check_folder(&root.join(folder), &mut count);
    }
    assert!(count > 300, "{count} programs");
    if let Some(more) = std::env::var_os("PERILUNE_MORE_PROGRAMS") {
        check_folder(Path::new(&more), &mut count);
    }
}

#[test]
fn what_is_said_later_counts() {
    for source in [
        // Assigned behind the function that holds it, inside another, in a loop, behind a label.
        "local a, b, c = 1, 2, 3
         local function f() return function() return a, b, c end end
         a = 4
         local function g() b = 5 end
         return f, g",
        "local f
         local function g() return f end
         function f() end
         return g",
        "local n = n or 5
         local function g() return n end
         ::again::
         n = n + 1
         if n < 10 then goto again end
         return g",
        "local n = 1
         do local function g() return n end print(g()) end
         goto over
         do local x; print(function() return x end) end
         ::over::",
        // `_ENV`.
        "x = 1; local function f() return x end; _ENV = {}; return f",
        "local function f() return x end; local _ENV = {}; function y() return z end; _ENV = nil",
        // Constants and variables to be closed.
        "local c <const> = 5; local s <const> = 's'; local t <close> = nil
         function f() return c, s, t end",
        "local a; if a then return end; if a then return a() end; local b; function f() return a, b end; \
         return b",
        "local a; goto nowhere; function f() return a end",
        // Variables of functions inside, whose places others take when they have become code.
        "local z = 0; function f(p) local x <const> = 5; return x + z end
         function g(p) local y = 6; y = y + p; return y end
         local c <const> = 7
         function h(p) local k <close> = nil; return function() p = c; return k, p end end
         function i(p) local k = p; return c, k end",
        "break; local a",
        "local a; while true do local b; if a then goto continue end; f(function() return a, b end) \
         ::continue:: end",
    ] {
        check(source, source.as_bytes());
    }
}
