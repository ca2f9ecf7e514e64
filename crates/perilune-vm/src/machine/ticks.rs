//! What a domain does when its specializer, on a thread of its own, says that time has passed, or that there is new machine code.
//!
//! A function that a tick finds running, uncompiled, gets hotter by one. Two ticks are enough the first time it is recorded, four the second time, and so on. So nothing is counted
//! in between, and a program pays for looking after it with some nanoseconds each tick, and with the recordings: after each from which no machine code has come it takes twice as many ticks until the next.

use crate::Vm;
use crate::frame::{F_NATIVE, frame};
use crate::interp::frame_closure;
use std::sync::Arc;

/// So many ticks make a function hot, the first time.
const HOT: u32 = 2;
/// From one recording to the next it takes at least so many ticks, and twice as many for each fruitless one, up to this power of two.
const GAP: u32 = 1;
/// See [`GAP`].
const MOST_FRUITLESS: u32 = 10;

impl Vm {
    /// A tick of the specializer.
    #[cold]
    pub(crate) fn tick(&mut self) {
        let machine = &mut self.lua.machine;
        let Some(specializer) = machine.specializer.clone() else { return };
        specializer.ticked();
        machine.ticks = machine.ticks.saturating_add(1);
        let early =
            machine.ticks < machine.recorded.saturating_add(GAP << machine.fruitless.min(MOST_FRUITLESS));
        if machine.distrusted || machine.watched || machine.logging.is_some() || early {
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
                self.lua.machine.recorded = self.lua.machine.ticks;
                self.lua.machine.fruitless += 1;
                self.begin_log(inst);
            }
        }
    }

    /// Gives all instances their new machine code.
    #[cold]
    pub(crate) fn install_machine_code(&mut self) {
        let Some(specializer) = self.lua.machine.specializer.clone() else { return };
        let handle = self.interrupt_handle();
        self.lua.machine.fruitless = 0;
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
