//! Native functions: Rust functions that Lua can call.
//!
//! A native function reads its arguments with `vm.arg(i)` and friends (`api.rs`), pushes its results and returns
//! how many it pushed: `Ok(n)` means "the topmost n values of the stack". An error is `Err(Thrown)`; the error value is already in the
//! `Vm` by then, put there by whoever made the `Thrown`.
//!
//! What a native function may hold across a call that runs Lua: numbers, `Gc` references (the native stack is scanned conservatively), bytes
//! it has copied. Not: slices into strings that nothing references, `Gc`s inside `Vec` or `Box`.
//!
//! # Kinds
//! Most natives are [`Kind::Leaf`]: they never call Lua. A [`Kind::Reentrant`] one may (a comparator, a callback, a metamethod); inside a coroutine
//! it is run on a native stack of the coroutine's own, so that Lua code below it can yield (`segment.rs`). Taking a native stack costs more than
//! most natives do, and most calls of those that may call Lua do not: `table.insert` hardly ever meets a metamethod. Such a native is a
//! [`Kind::Hybrid`]: it runs as a leaf, and when it is about to call Lua after all, it is stopped and run again on a native stack. So what
//! it does before its first call into Lua must bear being done twice. The other kinds are not called
//! at all: the interpreter does their work on the Lua stack itself, which is what makes `pcall` and `coroutine.resume` cheap and keeps native frames
//! out of coroutines.

use crate::Vm;

/// The sign that a Lua error is on its way; its value is in the `Vm`. Only [`Vm::throw`] and its relatives make one, so that
/// a function that returns `Err(Thrown)` has said what is wrong.
#[derive(Debug)]
#[must_use]
pub struct Thrown(pub(crate) ());

/// What Lua-facing operations return.
pub type LuaResult<T> = Result<T, Thrown>;

/// The Rust side of a native function: pushes its results and returns how many.
pub type NativeFn = fn(&mut Vm) -> LuaResult<u32>;

/// What the interpreter does when a native function is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Calls `func`, which never runs Lua code.
    Leaf,
    /// Calls `func`, which may run Lua code (and so may yield).
    Reentrant,
    /// As `Reentrant`, but seldom; see the module's essay.
    Hybrid,
    /// `pcall`
    Pcall,
    /// `xpcall`
    Xpcall,
    /// `coroutine.resume`
    Resume,
    /// `coroutine.yield`
    Yield,
    /// The function that `coroutine.wrap` returns (upvalue 1: the coroutine)
    Wrap,
    /// `next`: a leaf that generic `for` knows
    Next,
    /// The iterator that `ipairs` returns: a reentrant one that generic `for` knows
    IpairsStep,
}

/// How far the attempt to run a [`Kind::Hybrid`] native as a leaf has got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LeafAttempt {
    /// There is none: calls into Lua are allowed.
    None,
    /// The native runs.
    Running,
    /// It wanted to call Lua and has to be run again; its result means nothing.
    Stopped,
}

/// A native function's static description. Its address is its identity.
pub struct Native {
    /// Name for tracebacks and messages, as `string.format` would be found in `package.loaded`: "format".
    pub name: &'static str,
    /// See [`Kind`].
    pub kind: Kind,
    /// The function.
    pub func: NativeFn,
}

impl Native {
    /// A native that never runs Lua code.
    pub const fn leaf(name: &'static str, func: NativeFn) -> Native {
        Native { name, kind: Kind::Leaf, func }
    }
    /// A native that may run Lua code: metamethods, callbacks, iterators.
    pub const fn reentrant(name: &'static str, func: NativeFn) -> Native {
        Native { name, kind: Kind::Reentrant, func }
    }
    /// A native that may run Lua code but seldom does, and that changes nothing before.
    pub const fn hybrid(name: &'static str, func: NativeFn) -> Native {
        Native { name, kind: Kind::Hybrid, func }
    }
    /// A native of a kind that the interpreter treats itself; `func` is what happens when Rust code calls it directly.
    pub const fn special(name: &'static str, kind: Kind, func: NativeFn) -> Native {
        Native { name, kind, func }
    }
}
