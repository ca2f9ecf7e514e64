//! What compiling works with, kept from text to text.
//!
//! Programs load many small texts: a formula, a template, a record. Compiling one takes some thirty lists,
//! maps and tables, most of which stay small; making and freeing them took longer than all that is done with
//! them. So they are made once: a [`Workspace`] has them, the parser and what makes code borrow it, and where
//! a text has become a prototype it is emptied and kept for the next one. It is never moved, but for the
//! pointer to it.
//!
//! Each thread keeps one. Whoever compiles *takes* it and owns it, so a reader function of `load` that loads
//! something itself finds none and makes another; the one that comes back last is kept. Only a text that was
//! right gives it back: then every list that is a stack is empty, which is asserted, and what remains is
//! cleared. A compilation that ends halfway (an error, a limit, an interrupt) lets it go, with all that
//! stands in it.
//!
//! What is kept is memory alone: the texts of names go with the chunk, all but `_ENV`, which every chunk has.
//! And it is little memory ([`MOST`] for a list): a long text has grown its lists while it filled them, which
//! cost nothing beside that.
//!
//! Rejected: a workspace for each domain, which may be a hundred thousand in a process, few of which load
//! anything after their beginning; a pool for all threads, for its lock; one that the caller of `compile`
//! hands in: each has its own place for it then, and the same question what to do about readers.

use super::scope::Scopes;
use super::{OpenFunction, Pending};
use crate::ast::Chunk;
use crate::codegen::State;
use crate::intern::Interner;
use std::cell::Cell;
use std::collections::HashMap;

/// The name that each chunk has: the first one.
pub(super) const ENV: &[u8] = b"_ENV";

/// See the head of the file.
#[derive(Default)]
pub(super) struct Workspace {
    /// Names and literals.
    pub(super) strings: Interner,
    pub(super) chunk: Chunk,
    pub(super) pending: Pending,
    pub(super) scopes: Scopes,
    pub(super) open: Vec<OpenFunction>,
    pub(super) state: State,
}

thread_local! {
    static KEPT: Cell<Option<Box<Workspace>>> = const { Cell::new(None) };
}

/// An empty workspace.
// Not inlined: a reader function may go on in another OS thread, so nothing about this thread may be
// remembered across a compilation.
#[inline(never)]
pub(super) fn take() -> Box<Workspace> {
    KEPT.try_with(Cell::take).ok().flatten().unwrap_or_default()
}

/// Gives one back that a text has been compiled in.
#[inline(never)]
pub(super) fn put(mut workspace: Box<Workspace>) {
    workspace.empty();
    // A thread that is about to end keeps none.
    let _ = KEPT.try_with(|kept| kept.set(Some(workspace)));
}

impl Workspace {
    /// The text that was compiled in it is done.
    fn empty(&mut self) {
        self.strings.truncate(1);
        debug_assert!(self.strings.get(crate::ast::StrId(0)) == ENV, "it is what a chunk begins with");
        self.chunk.empty();
        self.pending.empty();
        self.scopes.empty();
        empty(&mut self.open);
        self.state.empty();
    }

    /// Bytes of lists that it keeps.
    #[cfg(test)]
    fn heap_bytes(&self) -> usize {
        let Pending { exprs, fields, stats, arms } = &self.pending;
        let pending = bytes(exprs) + bytes(fields) + bytes(stats) + bytes(arms);
        let names = self.strings.heap_bytes() + self.scopes.heap_bytes() + bytes(&self.open);
        self.chunk.heap_bytes() + pending + names + self.state.heap_bytes()
    }
}

impl Pending {
    fn empty(&mut self) {
        let Pending { exprs, fields, stats, arms } = self;
        debug_assert!(exprs.is_empty() && fields.is_empty() && stats.is_empty() && arms.is_empty());
        empty(exprs);
        empty(fields);
        empty(stats);
        empty(arms);
    }
}

/// Bytes of a list that are kept: a page.
const MOST: usize = 4 << 10;
/// Entries of a map that are kept.
const MOST_ENTRIES: usize = 64;

/// Empties a list; it keeps its memory if that is little.
pub(crate) fn empty<T>(list: &mut Vec<T>) {
    if list.capacity() * size_of::<T>() > MOST {
        *list = Vec::new();
    } else {
        list.clear();
    }
}

/// As [`empty`], a map.
pub(crate) fn empty_map<K, V, S: Default>(map: &mut HashMap<K, V, S>) {
    if map.capacity() > MOST_ENTRIES {
        *map = HashMap::default();
    } else {
        map.clear();
    }
}

/// Bytes that a list has taken.
#[cfg(test)]
pub(crate) fn bytes<T>(list: &Vec<T>) -> usize {
    list.capacity() * size_of::<T>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bounds, Source, SyntaxError, compile, compile_from, compile_within, dump::dump};
    use std::fmt::Write;

    /// What a text becomes: its code and all that is said about it, or why it does not.
    type Outcome = Result<Vec<u8>, SyntaxError>;

    /// Texts that leave something behind in every list, right ones and such as break off.
    fn texts() -> Vec<String> {
        let many = |count: usize, item: &dyn Fn(usize) -> String| (0..count).map(item).collect::<String>();
        let upvalues = format!(
            "{}return function() return function() {} end end",
            many(3, &|n| format!("local function f{n}({}_) ", many(100, &|i| format!("v{n}_{i}, ")))),
            many(3, &|n| many(100, &|i| format!("v{n}_{i}() ")))
        ) + &" end".repeat(3);
        let mut texts: Vec<String> = [
            "",
            "return 1 + 1",
            "return _ENV, x, 'x', 1.5, 0x7fffffffff",
            "local a <const>, b <close> = 1, nil; return function() return a, b end",
            "local a; function a(b, ...) local c = a; return function() a, b, c = c, a, b end end return a{1, x = 2}",
            "for i = 1, 2 do for k, v in pairs(i) do if k then goto l elseif v then break end ::l:: end end",
            "::top:: do local a; goto top end",
            "while f() do repeat local x; until x or y and not z end return a.b[c]:d(...)",
            "local x = {f = function() return {x, y, [z] = 'a\\n' .. [[b]]}; end}",
            // Those that are refused: while names are in scope, lists pending, functions open.
            "local a, b = 1; x = {a, b, f(function() for i = 1, 2 do local c = )",
            "for i = 1, 2 do local function f() goto nowhere end end",
            "do local a; break end",
            "::l:: ::l::",
            "x = 'abc",
            "local function f() local a <const> = 1; a = 2 end",
            "return function() x = ... end",
        ]
        .map(String::from)
        .into();
        texts.push(upvalues);
        texts.push(format!("local x; x = f({}x)", many(300, &|_| "x, ".into())));
        texts.push(many(201, &|n| format!("local v{n} ")));
        texts.push("(".repeat(300));
        texts.push(program(40));
        texts
    }

    /// Functions with names of their own.
    fn program(functions: usize) -> String {
        let mut text = String::from("local shared = {}\n");
        for n in 0..functions {
            writeln!(text, "function shared.f{n}(a{n}, b{n}) local t = {{x{n} = a{n}, 'v{n}', {n}.5}}")
                .and_then(|()| {
                    writeln!(text, "for i = 1, #t do if t[i] then shared[i] = t end end return t end")
                })
                .expect("a string takes everything");
        }
        text
    }

    fn outcome(text: &str) -> Outcome {
        compile(text.as_bytes(), b"=x").map(|proto| dump(&proto, false))
    }

    /// What each becomes where nothing has been compiled before.
    fn outcomes(texts: &[String]) -> Vec<Outcome> {
        let fresh = |text: &String| {
            std::thread::scope(|scope| scope.spawn(|| outcome(text)).join().expect("it does not panic"))
        };
        texts.iter().map(fresh).collect()
    }

    /// The workspace that this thread keeps, if any.
    fn kept<R>(f: impl FnOnce(&Workspace) -> R) -> Option<R> {
        let workspace = KEPT.take();
        let result = workspace.as_deref().map(f);
        KEPT.set(workspace);
        result
    }

    #[test]
    fn every_text_is_as_if_it_were_the_first() {
        let texts = texts();
        let expected = outcomes(&texts);
        assert!(expected.iter().filter(|outcome| outcome.is_err()).count() >= 8);
        for (first, before) in texts.iter().zip(&expected) {
            for (second, after) in texts.iter().zip(&expected) {
                assert_eq!(outcome(first), *before, "{first}");
                assert_eq!(outcome(second), *after, "{second} after {first}");
            }
        }
    }

    /// What ends by its bounds ends anywhere.
    #[test]
    fn what_has_been_given_up_leaves_nothing() {
        let (long, texts) = (program(2000), texts());
        let expected = outcomes(&texts);
        let given_up = |bounds: Bounds<'_>| compile_within(long.as_bytes(), b"=long", bounds).map(drop);
        for looks in 0..15 {
            let left = Cell::new(looks);
            let interrupted = || left.replace(left.get() - 1) == 0;
            let bounds = Bounds { interrupted: &interrupted, ..Bounds::NONE };
            assert_eq!(given_up(bounds), Err(*SyntaxError::interrupted()));
            let bounds = Bounds { memory: looks as usize * (400 << 10), ..Bounds::NONE };
            assert_eq!(given_up(bounds), Err(*SyntaxError::out_of_memory()));
            for (text, expected) in texts.iter().zip(&expected) {
                assert_eq!(outcome(text), *expected, "{text}");
            }
        }
    }

    /// A reader function compiles texts, right and wrong, while one is under way, and these do the same.
    #[test]
    fn readers_compile() {
        fn read(texts: &[String], expected: &[Outcome], depth: usize) {
            for (text, outcome_of_text) in texts.iter().zip(expected) {
                let mut pieces = text.as_bytes().chunks(text.len() / 3 + 1);
                let first = pieces.next().unwrap_or_default().to_vec();
                let mut turn = 0;
                let mut more = |text: &mut Vec<u8>| {
                    turn += 1;
                    for inside in (turn..texts.len()).step_by(5) {
                        assert_eq!(outcome(&texts[inside]), expected[inside], "{}", texts[inside]);
                    }
                    if depth > 0 {
                        read(&texts[..4], &expected[..4], depth - 1);
                    }
                    pieces.next().is_some_and(|piece| {
                        text.extend_from_slice(piece);
                        true
                    })
                };
                let found = compile_from(Source::Pieces(first, &mut more), b"=x", Bounds::NONE);
                assert_eq!(found.map(|proto| dump(&proto, false)), *outcome_of_text, "{text}");
            }
        }
        let texts = texts();
        read(&texts, &outcomes(&texts), 2);
    }

    #[test]
    fn a_workspace_is_kept_unless_its_text_was_wrong() {
        let address = || kept(|workspace| std::ptr::from_ref(workspace).addr());
        assert_eq!(address(), None);
        compile(b"local name = other", b"=x").expect("it is right");
        let first = address();
        assert!(first.is_some());
        compile(b"return 'another'", b"=x").expect("it is right");
        assert_eq!(address(), first);
        for text in texts() {
            let is_right = outcome(&text).is_ok();
            assert_eq!(address().is_some(), is_right, "{text}");
        }
        compile(b"return 1", b"=x").expect("it is right");
        // The texts of names are the prototype's alone, all but one.
        assert_eq!(kept(|workspace| workspace.strings.len()), Some(1));
    }

    /// The largest of all possible lists would be some 40 times [`MOST`].
    #[test]
    fn little_memory_is_kept() {
        compile(b"return 1", b"=x").expect("it is right");
        let small = kept(Workspace::heap_bytes).expect("the text was right");
        assert!(small > 0 && small < 8 << 10, "{small}");
        let mut text = program(3000);
        text +=
            "return function() local a, b, c; return function() return function() return a, b, c end end end";
        compile(text.as_bytes(), b"=x").expect("it is right");
        let large = kept(Workspace::heap_bytes).expect("the text was right");
        assert!(large < 32 << 10, "{large} bytes of {} are kept", text.len());
        // Lists of texts of some lines are kept.
        let some = program(10);
        compile(some.as_bytes(), b"=x").expect("it is right");
        let before = kept(Workspace::heap_bytes);
        compile(some.as_bytes(), b"=x").expect("it is right");
        assert_eq!(kept(Workspace::heap_bytes), before);
    }
}
