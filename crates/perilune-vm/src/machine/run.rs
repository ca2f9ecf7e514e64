//! How machine code is called.
//!
//! By a convention of its own: the state is in [`KEEPS`], a register, for as long as machine code runs, and
//! besides the stack's two registers a callee leaves no other as it was. What is needed behind a call is in the
//! caller's frame, where most of it has to be anyway, since whoever looks at a Lua frame finds its values there.
//! By the convention of C each callee saved up to five registers that hardly any caller had anything in: of
//! seventy instructions that a call took, twelve.
//!
//! Whoever is not machine code calls it through [`Run::call`], which keeps the registers that C keeps. That is
//! what a [`Run`] is for: nothing else can be done with one.

use crate::Vm;
use crate::object::ProtoInst;
use crate::value::Value;

/// The register that has the state, RBX, by its number in instructions.
pub const KEEPS: u8 = 3;

/// What runs the code of a prototype from entry `entry` on, for the complete frame at `base`, a frame of a
/// closure of `inst`. The result is one of [`RETURNED`](super::RETURNED), [`FAILED`](super::FAILED),
/// [`LEAVE`](super::LEAVE), [`EXITED`](super::EXITED), [`REFUSED`](super::REFUSED) (never from
/// [`MachineCode::START`](super::MachineCode::START)), or, from [`CODES`](super::CODES) on, a base, perhaps with
/// [`TAIL`](super::TAIL).
///
/// The parameters are where C has them, the state is in [`KEEPS`], too, and behind the call every register but
/// that, RBP and RSP may have changed. A function of C does no less than this asks for.
pub type Code =
    unsafe extern "C-unwind" fn(vm: *mut Vm, base: *mut Value, inst: *const ProtoInst, entry: u32) -> u64;

/// [`Code`] that runs when it is called.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Run(Code);

impl Run {
    /// Code that is part of the program.
    pub const fn of(code: Code) -> Run {
        Run(code)
    }

    /// Machine code at this address.
    ///
    /// # Safety
    /// There is some, which does what is said at [`Code`].
    pub unsafe fn at(address: usize) -> Run {
        // SAFETY: the caller's promise.
        Run(unsafe { std::mem::transmute::<usize, Code>(address) })
    }

    /// Where the code begins.
    pub fn address(self) -> usize {
        self.0 as usize
    }

    /// Runs the code: see [`Code`].
    ///
    /// # Safety
    /// As is said there.
    #[inline(always)]
    pub(crate) unsafe fn call(
        self,
        vm: *mut Vm,
        base: *mut Value,
        inst: *const ProtoInst,
        entry: u32,
    ) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { enter(vm, base, inst, entry, self.0) }
    }
}

/// Calls code with the state where it expects that, for those who are called by the convention of C.
///
/// # Safety
/// As is said at [`Code`].
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn enter(
    vm: *mut Vm,
    base: *mut Value,
    inst: *const ProtoInst,
    entry: u32,
    code: Code,
) -> u64 {
    std::arch::naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        ".cfi_offset rbx, -24",
        ".cfi_offset r12, -32",
        ".cfi_offset r13, -40",
        ".cfi_offset r14, -48",
        ".cfi_offset r15, -56",
        // With the seven words above a multiple of 16.
        "sub rsp, 8",
        "mov rbx, rdi",
        "call r8",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    )
}
