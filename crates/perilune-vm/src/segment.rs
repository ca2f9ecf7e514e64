//! Native stacks for coroutines, taken only while a native call lives in one.

use crate::Vm;
use crate::interp::Flow;
use crate::native::Native;
use crate::object::Thread;

/// A native stack on which a native call of a coroutine runs.
pub struct Segment {}

/// Calls `f` with all callee-saved registers spilled to the stack, where the conservative scan sees them.
#[inline(never)]
pub(crate) fn spill_registers(vm: *mut Vm, f: impl FnOnce(*mut Vm)) {
    let mut saved = [0usize; 6];
    // SAFETY: stores registers to a local array.
    unsafe {
        std::arch::asm!(
            "mov [{0}], rbx", "mov [{0} + 8], rbp", "mov [{0} + 16], r12",
            "mov [{0} + 24], r13", "mov [{0} + 32], r14", "mov [{0} + 40], r15",
            in(reg) saved.as_mut_ptr(),
        );
    }
    std::hint::black_box(&mut saved);
    f(vm);
    std::hint::black_box(&mut saved);
}

impl Vm {
    pub(crate) fn needs_segment(&self) -> bool {
        false
    }
    pub(crate) unsafe fn on_segment(&mut self, native: &'static Native) -> Flow {
        // SAFETY: as the caller's.
        unsafe { self.run_native(native) }
    }
    pub(crate) unsafe fn resume_segment(&mut self, _th: *mut Thread) -> Flow {
        unreachable!("no coroutine owns a native stack")
    }
    pub(crate) unsafe fn suspend_segment(&mut self, _th: *mut Thread) -> Flow {
        unreachable!("no coroutine owns a native stack")
    }
    pub(crate) fn cancel_segment(&mut self, _th: *mut Thread) {}
    pub(crate) fn release_dead_segments(&mut self, _alive: &mut dyn FnMut(*mut Thread) -> bool) {}
    /// Reports the native stacks in use: from here to where the host entered.
    pub(crate) fn scan_native_stacks(&mut self, range: &mut dyn FnMut(usize, usize)) {
        let here = 0usize;
        let lo = &raw const here as usize;
        if self.gc.native_base > lo {
            range(lo, self.gc.native_base);
        }
    }
    pub(crate) fn scan_segment(&mut self, _th: *mut Thread, _range: &mut dyn FnMut(usize, usize)) {}
}
