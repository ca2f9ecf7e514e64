//! Coroutines: what lies on their stacks, under the names that programs know it by.

use super::Walk;
use crate::debug::Activation;
use crate::frame::{CALL_GAP, F_VARARG, frame};
use crate::interp::frame_closure;
use crate::names;
use crate::object::Thread;
use crate::value::{Gc, Tag, Value};
use perilune_syntax::Proto;
use perilune_syntax::error::chunk_id;
use perilune_trace::heapshot::Label;
use perilune_trace::heapshot::write::Description;
use std::io::Write;

impl<W: Write> Walk<'_, W> {
    pub(super) unsafe fn thread(&mut self, th: *mut Thread) -> Description<'static> {
        // SAFETY: a live coroutine that does not run, or the one that runs with its frame complete; as `gc.rs` reads it.
        unsafe {
            let running = th == self.vm.lua.thread;
            let (base, mut top) =
                if running { (self.vm.lua.base, self.vm.lua.top) } else { ((*th).base, (*th).top) };
            if !(*frame(base)).pc.is_null() && (*base.sub(CALL_GAP)).tag() == Tag::CLOSURE {
                top = top.max(crate::interp::frame_ceiling(base));
            }
            let stack = (*th).stack;
            let top = top.min(stack.add((*th).stack_size));
            let (mut end, mut place) = (top, 0);
            let activations: Vec<Activation> = self.vm.activations(Gc::from_ptr(th)).collect();
            for a in activations {
                let low = self.frame_low(&a);
                let name = self.activation(&a, low, end);
                if place == 0 && a.is_lua() {
                    place = self.out.text(name.as_bytes());
                }
                end = low;
            }
            let text = self.out.text(b"stack") as u64;
            let mut at = stack;
            while at < end {
                self.value(Label::Stack, text, *at);
                at = at.add(1);
            }
            let mut uv = (*th).open_upvals;
            let text = self.out.text(b"variable of a closure") as u64;
            while !uv.is_null() {
                self.pointer(Label::Stack, text, uv);
                uv = (*uv).closed.payload() as *mut crate::object::Upval;
            }
            let text = self.out.text(b"hook") as u64;
            self.value(Label::Other, text, (*th).hook);
            let text = self.out.text(b"error") as u64;
            self.value(Label::Other, text, (*th).failure.unwrap_or(Value::NIL));
            self.pointer(Label::Resumer, 0, (*th).resumer);
            let (top, error, tag) = crate::fiber::held_by_fiber(th);
            self.pointer(Label::Resumer, 0, top);
            self.value(Label::Other, text, error);
            let mut ranges = Vec::new();
            crate::segment::scan_suspended(th, &mut |lo, hi| ranges.push((lo, hi)));
            for (lo, hi) in ranges {
                for at in (lo & !7..hi).step_by(8) {
                    if let Some(found) = self.word(perilune_heap::stack_word(at)) {
                        let to = self.number(found);
                        self.out.edge(Label::NativeStack, 0, false, to);
                    }
                }
            }
            let fiber = tag.map_or(0, |tag| (tag as u32 as u64).saturating_add(1).min(u32::MAX as u64));
            Description { text: place, x: (*th).status as u64, y: fiber, ..Description::default() }
        }
    }

    /// Where what belongs to an activation begins: extra arguments, the function, its frame.
    unsafe fn frame_low(&self, a: &Activation) -> *mut Value {
        // SAFETY: a live frame.
        unsafe { a.base.sub(CALL_GAP + (*frame(a.base)).shift_or_zero()) }
    }

    /// Writes what an activation holds from `low` to `end`; returns what it is called.
    unsafe fn activation(&mut self, a: &Activation, low: *mut Value, end: *mut Value) -> String {
        // SAFETY: a live frame and what belongs to it.
        unsafe {
            let name = self.activation_name(a);
            let mut names: Vec<(usize, &[u8])> = Vec::new();
            if a.is_lua() {
                let proto: &Proto = &*(*(*frame_closure(a.base)).proto).proto;
                let pc = names::current_pc(a.base) as u32;
                let active = proto.locals.iter().filter(|l| l.start_pc <= pc && pc < l.end_pc);
                names.extend(active.map(|l| (l.register as usize, &*l.name)));
            }
            let vararg = (*frame(a.base)).flags & F_VARARG != 0;
            let mut at = low;
            while at < end {
                let v = *at;
                if v.obj().is_some() {
                    let register = at.offset_from(a.base);
                    let (label, text) = match usize::try_from(register) {
                        Ok(n) => match names.iter().rev().find(|(r, _)| *r == n) {
                            Some((_, local)) => {
                                (Label::Local, format!("{} of {name}", String::from_utf8_lossy(local)))
                            }
                            None if a.is_lua() => (Label::Stack, format!("temporary of {name}")),
                            None => (Label::Stack, format!("argument of {name}")),
                        },
                        Err(_) if register == -(CALL_GAP as isize) || !vararg || at == low => {
                            (Label::Stack, format!("function {name}"))
                        }
                        Err(_) => (Label::Stack, format!("extra argument of {name}")),
                    };
                    let text = self.out.text(text.as_bytes());
                    self.value(label, text as u64, v);
                }
                at = at.add(1);
            }
            name
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
