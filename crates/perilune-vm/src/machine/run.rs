//! How machine code is called.
//!
//! By a convention of its own: the state is in [`KEEPS`], a register, for as long as machine code runs, and
//! besides the stack's two registers a callee leaves no other as it was. What is needed behind a call is in the
//! caller's frame, where most of it has to be anyway, since whoever looks at a Lua frame finds its values there.
//! By the convention of C each callee saved up to five registers that hardly any caller had anything in: of
//! some seventy instructions that a call took, ten.
//!
//! Whoever is not machine code calls it through [`Run::call`], which keeps the registers that C keeps. That is
//! what a [`Run`] is for: nothing else can be done with one.

use crate::Vm;
use crate::object::ProtoInst;
use crate::sys::code;
use crate::value::Value;

/// The register that has the state, by its number in instructions.
pub const KEEPS: u8 = code::KEEPS;

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
        unsafe { ENTER(vm, base, inst, entry, self.0) }
    }
}

/// What is called for [`Run::call`].
type Enter = unsafe extern "C-unwind" fn(*mut Vm, *mut Value, *const ProtoInst, u32, Code) -> u64;

// SAFETY: it passes its words on, and gives back what the code does.
const ENTER: Enter = unsafe { std::mem::transmute::<unsafe extern "C-unwind" fn(), Enter>(code::enter) };

/// The address of what calls machine code for those who are called by the convention of C: it takes what [`Code`]
/// takes, and the code.
pub fn enter() -> usize {
    code::enter as *const () as usize
}
