//! Machine code that knows nothing: it leaves every instruction to the interpreter. It shows the border
//! itself at work, without a compiler: whatever a program does, it does the same with every function entered,
//! stepped through and left in this way.

use super::{LOOP_ENTRIES, MachineCode, Run, STAY, Specializer, step};
use crate::Vm;
use crate::frame::frame;
use crate::object::ProtoInst;
use crate::value::Value;
use perilune_syntax::Proto;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Gives every prototype such code.
#[derive(Debug, Default)]
pub struct Stepper {
    /// One code for each prototype, however many domains run it.
    codes: Mutex<HashMap<usize, Weak<MachineCode>>>,
}

impl Specializer for Stepper {
    fn code_of(&self, proto: &Arc<Proto>) -> Option<Arc<MachineCode>> {
        let mut codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        let key = Arc::as_ptr(proto) as usize;
        if let Some(code) = codes.get(&key).and_then(Weak::upgrade) {
            return Some(code);
        }
        if codes.len() == codes.capacity() {
            // Where a prototype lay whose code is gone another one may lie now.
            codes.retain(|_, code| code.strong_count() != 0);
        }
        let loops = proto.code.iter().enumerate();
        let loops = loops.filter(|(_, i)| i.op().is_some_and(|op| LOOP_ENTRIES.contains(&op)));
        let entries: Vec<(u32, u32)> = loops.map(|(at, _)| (at as u32, 1)).collect();
        // SAFETY: `run` does what is asked of machine code, whatever the function, and is part of the
        // program.
        let code = unsafe {
            MachineCode::new(
                Arc::clone(proto),
                (Run::of(run), 0),
                true,
                &entries,
                &[],
                super::Exits::new(proto),
                Box::new(()),
            )
        };
        codes.insert(key, Arc::downgrade(&code));
        Some(code)
    }
}

/// Goes on from wherever the frame is, as long as it is the same frame.
unsafe extern "C-unwind" fn run(vm: *mut Vm, mut base: *mut Value, inst: *const ProtoInst, _: u32) -> u64 {
    // SAFETY: called by the interpreter for the frame at `base`, of a closure of `inst`, which lives as long
    // as this goes on: the frame refers to it.
    unsafe {
        loop {
            let exit = step(vm, base, (*inst).k, (*frame(base)).pc);
            if exit != STAY {
                return exit;
            }
            base = (*vm).lua.base;
        }
    }
}
