//! Coroutines: what lies on their stacks, under the names that programs know it by.

use super::Walk;
use crate::debug::Activation;
use crate::frame::{CALL_GAP, F_VARARG, frame};
use crate::interp::frame_closure;
use crate::names;
use crate::object::Thread;
use crate::value::{Gc, Value};
use perilune_syntax::Proto;
use perilune_syntax::error::chunk_id;
use perilune_trace::heapshot::Label;
use std::io::Write;

/// What lies on a stack.
#[derive(Default)]
pub(super) struct Stack {
    /// Innermost first.
    parts: Vec<Part>,
}

/// What belongs to an activation.
struct Part {
    /// Where it begins: extra arguments, the function, its frame.
    low: *const Value,
    base: *const Value,
    /// What runs there, and where.
    name: String,
    is_lua: bool,
    is_vararg: bool,
    /// Registers of variables that are in scope.
    locals: Vec<(usize, String)>,
}

impl Stack {
    /// What runs in its innermost Lua function, and where.
    pub(super) fn innermost(&self) -> Option<&str> {
        self.parts.iter().find(|p| p.is_lua).map(|p| &*p.name)
    }

    /// How the value in a slot is labelled, and its text.
    pub(super) fn slot(&self, at: *const Value) -> (Label, String) {
        let Some(part) = self.parts.get(self.parts.partition_point(|p| p.low > at)) else {
            return (Label::Stack, "stack".to_owned());
        };
        let name = &part.name;
        // SAFETY: both are of the same stack.
        let register = unsafe { at.offset_from(part.base) };
        match usize::try_from(register) {
            Ok(n) => match part.locals.iter().rev().find(|(r, _)| *r == n) {
                Some((_, local)) => (Label::Local, format!("{local} of {name}")),
                None if part.is_lua => (Label::Stack, format!("temporary of {name}")),
                None => (Label::Stack, format!("argument of {name}")),
            },
            Err(_) if register == -(CALL_GAP as isize) || !part.is_vararg || at == part.low => {
                (Label::Stack, format!("function {name}"))
            }
            Err(_) => (Label::Stack, format!("extra argument of {name}")),
        }
    }
}

impl<W: Write> Walk<'_, W> {
    /// What lies on the stack of a coroutine.
    ///
    /// # Safety
    /// It is live and does not run, or runs and its frame is complete.
    pub(super) unsafe fn stack(&mut self, th: *mut Thread) -> Stack {
        // SAFETY: the caller's promise; activations are live frames and what belongs to them.
        unsafe {
            let activations: Vec<Activation> = self.vm.activations(Gc::from_ptr(th)).collect();
            let parts = activations.iter().map(|a| {
                let record = frame(a.base);
                let mut locals = Vec::new();
                if a.is_lua() {
                    let proto: &Proto = &*(*(*frame_closure(a.base)).proto).proto;
                    let pc = names::current_pc(a.base) as u32;
                    let active = proto.locals.iter().filter(|l| l.start_pc <= pc && pc < l.end_pc);
                    let named =
                        active.map(|l| (l.register as usize, String::from_utf8_lossy(&l.name).into_owned()));
                    locals.extend(named);
                }
                Part {
                    low: a.base.sub(CALL_GAP + (*record).shift_or_zero()),
                    base: a.base,
                    name: self.activation_name(a),
                    is_lua: a.is_lua(),
                    is_vararg: (*record).flags & F_VARARG != 0,
                    locals,
                }
            });
            Stack { parts: parts.collect() }
        }
    }

    /// What runs there, and where: `main chunk (a.lua:3)`.
    unsafe fn activation_name(&mut self, a: &Activation) -> String {
        // SAFETY: a live frame.
        unsafe {
            if !a.is_lua() {
                return match a.function().as_native() {
                    Some(native) => native.name.to_owned(),
                    None => "?".to_owned(),
                };
            }
            let proto: *const Proto = (*(*frame_closure(a.base)).proto).proto;
            let source = String::from_utf8_lossy(&chunk_id(&(*proto).source)).into_owned();
            let line = names::current_line(a.base);
            let known = match self.functions.get(&proto) {
                Some(known) => known.clone(),
                None => {
                    let called = names::function_name(a.base);
                    let global = self.vm.global_function_name(a.function());
                    let name = match (global, called, (*proto).line_defined) {
                        (Some(name), ..) | (None, Some((_, name)), _) => {
                            String::from_utf8_lossy(&name).into_owned()
                        }
                        (None, None, 0) => "main chunk".to_owned(),
                        (None, None, line) => format!("function <{line}>"),
                    };
                    let name = name.into_boxed_str();
                    self.functions.insert(proto, name.clone());
                    name
                }
            };
            match line {
                Some(line) => format!("{known} ({source}:{line})"),
                None => format!("{known} ({source})"),
            }
        }
    }
}
