//! What a domain does when its specializer, on a thread of its own, says that time has passed, or that there is new machine code.
//!
//! A function that a tick finds running, uncompiled, gets hotter by one. Two ticks are enough the first time it is recorded, four the second time, and so on. So nothing is counted
//! in between, and a program pays for looking after it with some nanoseconds each tick, and with the recordings, which are rationed.

use crate::Vm;
use crate::frame::{F_NATIVE, frame};
use crate::interp::frame_closure;
use std::sync::Arc;

/// So many ticks make a function hot, the first time.
const HOT: u32 = 2;
/// So many recordings are free; each further one takes so many ticks that have gone by.
const FREE: u32 = 8;
/// See [`FREE`].
const RATION: u32 = 30;

impl Vm {
    /// A tick of the specializer.
    #[cold]
    pub(crate) fn tick(&mut self) {
        let machine = &mut self.lua.machine;
        let Some(specializer) = machine.specializer.clone() else { return };
        specializer.ticked();
        machine.ticks = machine.ticks.saturating_add(1);
        let affordable = machine.ticks / RATION + FREE > machine.recordings;
        if machine.distrusted || machine.watched || machine.logging.is_some() || !affordable {
            return;
        }
        // SAFETY: the running frame is complete; that of a Lua function has its closure.
        unsafe {
            let base = self.lua.base;
            if (*frame(base)).flags & F_NATIVE != 0 || (*frame(base)).pc.is_null() {
                return;
            }
            let inst = (*frame_closure(base)).proto;
            if !(*inst).native.is_null() {
                return;
            }
            (*inst).heat = (*inst).heat.saturating_add(1);
            if (*inst).heat >= HOT << (*inst).setbacks {
                (*inst).heat = 0;
                self.lua.machine.recordings += 1;
                self.begin_log(inst);
            }
        }
    }

    /// Gives all instances their new machine code.
    #[cold]
    pub(crate) fn install_machine_code(&mut self) {
        let Some(specializer) = self.lua.machine.specializer.clone() else { return };
        let handle = self.interrupt_handle();
        for code in specializer.fetch(&handle) {
            let proto = Arc::as_ptr(code.proto());
            for n in 0..self.lua.gc.protos.len() {
                let inst = self.lua.gc.protos[n];
                // SAFETY: the list has instances that live.
                unsafe {
                    if (*inst).proto == proto && (*inst).machine != Arc::as_ptr(&code) {
                        self.give_machine_code(inst, Arc::clone(&code));
                    }
                }
            }
        }
    }
}
