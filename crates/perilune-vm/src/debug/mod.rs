//! Looking at running code from outside: activation records by level, as the manual's debug interface (4.7)
//! numbers them.
//!
//! A *level* is an active function of a coroutine: 0 the topmost one, 1 its caller, and so on. Levels are
//! found by walking the frame records downwards. Two kinds of records are no levels: the bottom one of a
//! stack, which stands for the host (a coroutine's first function is told from it by `CONT_COROUTINE`), and
//! the stub by which native code calls `pcall` and its like. What a frame is to those who look, levels and
//! positions and hooks alike, is said by [`Role`] alone.
//!
//! Everything public takes a coroutine and a level and walks anew, so nobody can hold a record that is gone.
//! An [`Activation`] is only ever used while nothing runs. Its *limit* is where the next frame up begins:
//! what lies between is the function's own.
//!
//! | file | of what |
//! |---|---|
//! | `mod.rs` | levels, what is known of a level |
//! | `function.rs` | functions, running or not: source, lines, parameters |
//! | `locals.rs` | local variables, temporaries, extra arguments |
//! | `upvalues.rs` | upvalues and user values |
//! | `traceback.rs` | the text of a traceback |

mod function;
mod locals;
#[cfg(test)]
mod tests;
mod traceback;
mod upvalues;

pub use function::FunctionInfo;

use crate::Vm;
use crate::frame::{CALL_GAP, CONT_COROUTINE, F_CONT, F_HOOK, F_NATIVE, F_TAIL, frame};
use crate::names;
use crate::object::{LuaClosure, Thread};
use crate::value::{Gc, Tag, Value};

/// A place in a program's text, cheap to take and to keep: what it is called is found out when it is asked
/// for.
#[derive(Clone)]
pub struct Site {
    pub(crate) proto: std::sync::Arc<perilune_syntax::Proto>,
    pub(crate) pc: usize,
}

impl Site {
    /// The name of the code's chunk, as it was compiled.
    pub fn source(&self) -> &[u8] {
        &self.proto.source
    }

    /// Tells it from all other places, for as long as somebody keeps it or another one of the same function.
    pub fn key(&self) -> (usize, usize) {
        (std::sync::Arc::as_ptr(&self.proto) as usize, self.pc)
    }
}

impl std::fmt::Display for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let chunk = perilune_syntax::error::chunk_id(&self.proto.source);
        f.write_str(&String::from_utf8_lossy(&chunk))?;
        match self.proto.line_at(self.pc) {
            Some(line) => write!(f, ":{line}"),
            None => f.write_str(":?"),
        }
    }
}

/// An active function: its frame's base and the end of what belongs to it.
#[derive(Clone, Copy)]
pub(crate) struct Activation {
    pub base: *mut Value,
    pub limit: *mut Value,
}

impl Activation {
    /// The function's value.
    pub fn function(&self) -> Value {
        // SAFETY: an activation is made from a live frame, whose function is below its record.
        unsafe { *self.base.sub(CALL_GAP) }
    }

    /// Runs a Lua function (as against a native one).
    pub fn is_lua(&self) -> bool {
        // SAFETY: as above.
        unsafe { (*frame(self.base)).flags & F_NATIVE == 0 }
    }

    fn flags(&self) -> u8 {
        // SAFETY: as above.
        unsafe { (*frame(self.base)).flags }
    }
}

/// What the frame of a function is to those who look at running code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// A function of the program or of a library: a level, and its events are reported to hooks.
    Program,
    /// The protected call by which the host runs a chunk: a level (a C function, as the host's is in PUC
    /// Lua), without events.
    Host,
    /// The stub of Lua code by which native code calls what only the interpreter can call: nobody sees it.
    Stub,
}

impl Role {
    /// Of a frame of `function`, in a state whose stub is `stub`.
    #[inline]
    fn of(function: Value, stub: *mut LuaClosure) -> Role {
        if function.tag() == Tag::CLOSURE {
            return if function.gc::<LuaClosure>().ptr() == stub { Role::Stub } else { Role::Program };
        }
        let host = function.as_native().is_some_and(|native| std::ptr::eq(native, &crate::call::HOST_XPCALL));
        if host { Role::Host } else { Role::Program }
    }
}

/// The activations of a coroutine, topmost first.
pub(crate) struct Activations {
    at: Option<Activation>,
    stub: *mut LuaClosure,
}

impl Iterator for Activations {
    type Item = Activation;

    fn next(&mut self) -> Option<Activation> {
        loop {
            let here = self.at?;
            // SAFETY: frames are linked by their deltas down to the first one of the stack.
            unsafe {
                let f = *frame(here.base);
                self.at = (f.delta != 0).then(|| Activation {
                    base: here.base.sub(f.delta as usize),
                    limit: here.base.sub(CALL_GAP + f.shift_or_zero()),
                });
                if f.delta == 0 && (f.flags & F_CONT == 0 || f.cont != CONT_COROUTINE) {
                    return None;
                }
            }
            if Role::of(here.function(), self.stub) != Role::Stub {
                return Some(here);
            }
        }
    }
}

impl Vm {
    /// What a frame of this function is to those who look.
    #[inline]
    pub(crate) fn role_of(&self, function: Value) -> Role {
        Role::of(function, self.lua.roots.call_stub)
    }

    /// What the running frame is to those who look.
    #[inline]
    pub(crate) fn running_role(&self) -> Role {
        // SAFETY: the function is below the record of the running frame.
        self.role_of(unsafe { *self.lua.base.sub(CALL_GAP) })
    }

    /// The activations of `th`.
    pub(crate) fn activations(&self, th: Gc<Thread>) -> Activations {
        let (base, limit) =
            if th.ptr() == self.lua.thread { (self.lua.base, self.lua.top) } else { (th.base, th.top) };
        Activations { at: Some(Activation { base, limit }), stub: self.lua.roots.call_stub }
    }

    pub(crate) fn activation(&self, th: Gc<Thread>, level: u32) -> Option<Activation> {
        self.activations(th).nth(level as usize)
    }

    /// What `f` finds in the innermost running Lua function in which it finds anything; of coroutines that
    /// wait for each other down to the first.
    pub(crate) fn find_lua_frame<T>(
        &self,
        f: impl Fn(Gc<crate::object::LuaClosure>) -> Option<T>,
    ) -> Option<T> {
        let mut th: *mut Thread = self.lua.thread;
        while !th.is_null() {
            // SAFETY: the chain of coroutines that wait for each other, down to the first.
            let here = unsafe { Gc::from_ptr(th) };
            let found = self.activations(here).filter(Activation::is_lua).find_map(|a| {
                // SAFETY: a Lua frame of a live stack.
                f(unsafe { Gc::from_ptr(crate::interp::frame_closure(a.base)) })
            });
            if found.is_some() {
                return found;
            }
            th = here.resumer;
        }
        None
    }

    /// Where the topmost Lua function of the running code is that is in another chunk than `except`; `None`
    /// if there is none.
    pub fn running_site(&self, except: Option<&[u8]>) -> Option<Site> {
        let (proto, pc) = self.running_place(except)?;
        // SAFETY: the closure that runs keeps the prototype alive, which came from an `Arc`.
        unsafe {
            std::sync::Arc::increment_strong_count(proto);
            Some(Site { proto: std::sync::Arc::from_raw(proto), pc })
        }
    }

    /// The [`Site::key`] of [`Vm::running_site`]: for whoever may have that site already, since the counts of
    /// functions are common to all domains that run them.
    pub fn running_site_key(&self, except: Option<&[u8]>) -> Option<(usize, usize)> {
        let (proto, pc) = self.running_place(except)?;
        Some((proto as usize, pc))
    }

    fn running_place(&self, except: Option<&[u8]>) -> Option<(*const perilune_syntax::Proto, usize)> {
        let mut th: *mut Thread = self.lua.thread;
        while !th.is_null() {
            // SAFETY: the chain of coroutines that wait for each other, down to the first.
            let here = unsafe { Gc::from_ptr(th) };
            let wanted = |a: &Activation| {
                // SAFETY: a Lua frame of a live stack.
                a.is_lua()
                    && except.is_none_or(|chunk| unsafe {
                        *(*(*crate::interp::frame_closure(a.base)).inst().proto).source != *chunk
                    })
            };
            if let Some(a) = self.activations(here).find(wanted) {
                // SAFETY: a Lua frame; its pc is stored before it calls anything.
                return Some(unsafe {
                    ((*crate::interp::frame_closure(a.base)).inst().proto, names::current_pc(a.base))
                });
            }
            th = here.resumer;
        }
        None
    }

    /// By which name the running instruction knows its operand `v`: "upvalue 'list'". `None`: by none, or
    /// native code runs.
    pub fn operand_name(&self, v: Value) -> Option<String> {
        // SAFETY: base is a frame of the running stack, its pc stored.
        let (kind, name) = unsafe { names::describe(self.lua.base, names::operand_of(self.lua.base, v)) }?;
        Some(format!("{kind} '{}'", String::from_utf8_lossy(&name)))
    }

    /// The function active at `level` of `th`; `None` if there are not so many.
    pub fn function_at(&self, th: Gc<Thread>, level: u32) -> Option<Value> {
        Some(self.activation(th, level)?.function())
    }

    /// The line that `level` of `th` executes; `None` for a native function and for code without line
    /// information.
    pub fn line_at(&self, th: Gc<Thread>, level: u32) -> Option<u32> {
        let a = self.activation(th, level)?;
        // SAFETY: a Lua frame; its pc is stored before anything that may look at it.
        if a.is_lua() { unsafe { names::current_line(a.base) } } else { None }
    }

    /// How the function at `level` of `th` was called: the kind of name ("global", "local", "method",
    /// "field", "upvalue", "metamethod", "for iterator", "hook") and the name. `None`: not known.
    pub fn call_name_at(&self, th: Gc<Thread>, level: u32) -> Option<(&'static str, Vec<u8>)> {
        let a = self.activation(th, level)?;
        // SAFETY: a live frame.
        unsafe { names::function_name(a.base) }
    }

    /// Whether the function at `level` of `th` was called by a tail call.
    pub fn is_tail_call_at(&self, th: Gc<Thread>, level: u32) -> bool {
        self.activation(th, level).is_some_and(|a| a.flags() & F_TAIL != 0)
    }

    /// During a call or return hook: index (as of a local variable) of the first value passed to or returned
    /// by the hooked function, if `level` is that, and the number of such values. Else zeros.
    pub fn transfer_at(&self, th: Gc<Thread>, level: u32) -> (u32, u32) {
        match self.activation(th, level) {
            Some(a) if a.flags() & F_HOOK != 0 => (th.transfer_first, th.transfer_count),
            _ => (0, 0),
        }
    }
}
