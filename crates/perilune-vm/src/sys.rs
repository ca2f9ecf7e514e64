//! What is Linux and x86-64: all that this crate asks of the system and of the processor beyond the language
//! and its library.
//!
//! | file | |
//! |---|---|
//! | `sys/stack.rs` | native stacks: where the running one is and ends, what registers hold, memory for others |
//! | `sys/clock.rs` | clocks of threads that send signals, and what a signal has interrupted |
//! | `sys/code.rs` | how machine code is entered and left, in instructions |
//! | `sys/process.rs` | when the process began, where the module lies |
//!
//! Nothing here knows Lua. A test (`perilune-test/tests/sys.rs`) finds calls that stand elsewhere.

pub(crate) mod clock;
pub(crate) mod code;
pub(crate) mod process;
pub(crate) mod stack;

/// Has the processor fetch what is at `p`, whatever that is.
#[inline(always)]
pub(crate) fn prefetch<T>(p: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch faults on no address.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(p.cast())
    };
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}

/// No instruction, but one that the compiler does not move or remove.
#[inline(always)]
pub(crate) fn no_instruction() {
    // SAFETY: no instruction.
    unsafe { std::arch::asm!("", options(nomem, nostack, preserves_flags)) }
}
