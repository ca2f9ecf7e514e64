//! Local variables of active functions.
//!
//! Variable `n` of an activation is the n-th that is in scope; variables in scope and registers are numbered
//! alike. Beyond the variables come the temporaries: whatever else lies between the frame's base and its
//! limit. Negative numbers are the extra arguments of a vararg function, which lie below its frame. A slot
//! that last held a frame record reads as nil.
//!
//! `debug.setlocal` reaches the hidden variables of loops too ("(for state)"). A counting loop takes only
//! what is of the type that the variable has.

use super::Activation;
use crate::Vm;
use crate::frame::{CALL_GAP, F_VARARG, frame};
use crate::interp::frame_closure;
use crate::names;
use crate::object::Thread;
use crate::value::{Gc, Stores, Tag, Value};
use perilune_syntax::operands::Loop;

impl Activation {
    /// Name and slot of variable `n`.
    fn local(&self, n: i64) -> Option<(Vec<u8>, *mut Value)> {
        if n < 0 {
            return self.vararg(n.unsigned_abs());
        }
        let index = usize::try_from(n).ok()?.checked_sub(1)?;
        // SAFETY: a live frame, everything between base and limit belongs to it.
        unsafe {
            if self.is_lua() {
                let proto = (*frame_closure(self.base)).inst().proto();
                let pc = names::current_pc(self.base) as u32;
                let mut active = proto.locals.iter().filter(|l| l.start_pc <= pc && pc < l.end_pc);
                if let Some(l) = active.nth(index) {
                    return Some((l.name.to_vec(), self.base.add(l.register as usize)));
                }
            }
            if self.limit <= self.base || index >= self.limit.offset_from(self.base) as usize {
                return None;
            }
            let name: &[u8] = if self.is_lua() { b"(temporary)" } else { b"(C temporary)" };
            Some((name.to_vec(), self.base.add(index)))
        }
    }

    /// Whether `v` may be assigned to the variable in `slot`. The state of a counting loop stays of the type
    /// that it has: `FORLOOP` looks at one tag and computes with the payloads of all three.
    fn accepts(&self, slot: *mut Value, v: Value) -> bool {
        // SAFETY: a live frame; a variable's slot lies within it.
        self.state_of_loop(slot).is_none_or(|l| !l.counts || v.tag() == unsafe { (*slot).tag() })
    }

    /// The loop, under way in this frame, of whose state `slot` is a part.
    fn state_of_loop(&self, slot: *mut Value) -> Option<Loop> {
        if !self.is_lua() || slot < self.base {
            return None;
        }
        // SAFETY: a live frame of a Lua function.
        unsafe {
            let register = u8::try_from(slot.offset_from(self.base)).ok()?;
            let proto = (*frame_closure(self.base)).inst().proto();
            // Where a backward jump polls, the loop's preparation is the instruction before the next one.
            let pc = names::current_pc(self.base);
            Loop::all(&proto.code)
                .find(|l| (l.contains(pc) || l.prepared == pc) && l.registers().contains(register))
        }
    }

    /// Extra argument number `n`, from 1.
    fn vararg(&self, n: u64) -> Option<(Vec<u8>, *mut Value)> {
        // SAFETY: the extra arguments of a vararg frame lie below its function's slot.
        unsafe {
            let f = *frame(self.base);
            if f.flags & F_VARARG == 0 {
                return None;
            }
            let params = (*(*frame_closure(self.base)).proto).num_params as usize;
            let extra = f.shift as usize - CALL_GAP - params;
            if n > extra as u64 {
                return None;
            }
            Some((b"(vararg)".to_vec(), self.base.sub(CALL_GAP + extra).add(n as usize - 1)))
        }
    }
}

impl Vm {
    /// Name and value of variable `n` (see the module's essay) at `level` of `th`; `None` if there is none
    /// such.
    pub fn local_at(&self, th: Gc<Thread>, level: u32, n: i64) -> Option<(Vec<u8>, Value)> {
        let (name, slot) = self.activation(th, level)?.local(n)?;
        // SAFETY: a slot of the frame.
        let v = unsafe { *slot };
        Some((name, if v.tag() == Tag::FRAME { Value::NIL } else { v }))
    }

    /// Assigns to variable `n` at `level` of `th` and returns its name; `None` if there is none such, or if
    /// it does not take the value.
    pub fn set_local_at(&mut self, th: Gc<Thread>, level: u32, n: i64, v: Value) -> Option<Vec<u8>> {
        let activation = self.activation(th, level)?;
        let (name, slot) = activation.local(n)?;
        if !activation.accepts(slot, v) {
            return None;
        }
        // SAFETY: as above. `copy` spares the padding: that of a to-be-closed variable's slot links it to the
        // one below.
        unsafe {
            Value::copy(slot, &v);
        }
        self.changed_unseen();
        self.distrust_machine_code();
        self.heap.stored_into(th);
        Some(name)
    }
}
