//! The interpreter: one handler per opcode, each ending in a call of the next handler in tail position.
//!
//! # Dispatch
//! A handler gets six arguments, all in registers: the state, the frame's base, the address of the next
//! instruction, the constants, the instruction, the dispatch table. It does its fast path and jumps through
//! the table. What is not fast is a function of the same signature (`slow_*`), called in tail position too,
//! so that a fast path spills nothing. Handlers hold no destructor and let no local escape; sibling calls are
//! not promised by the language, so `cfg(debug_assertions)` builds return [`Exit::Next`] to a loop instead,
//! and `cargo xtask dispatch` reads an optimised build's disassembly for the jumps.
//!
//! The table is an argument because there are several: the plain one, the one whose every entry looks at
//! hooks first, and a domain's own while a sampler is on (`sampler.rs`). `debug.sethook` and the sampler swap
//! `vm.dispatch`, and [`reload`] picks it up.
//!
//! # The state between handlers
//! Slow paths speak with the rest of the machine through the frame record: they store `pc` and `base`
//! ([`save!`]), call Rust functions that may push frames, switch coroutines, or collect, and then *reload*:
//! base from the `Vm`, pc and constants from the frame record there. So "call a Lua function", "finish a
//! metamethod", "resume another coroutine" and "an error was caught by `pcall`" all look alike to a handler:
//! the state changed, go on from it ([`Step`]).
//!
//! # Safepoints
//! Collection happens in `slow_gc` after an allocating instruction and after calls of natives; interrupts are
//! polled at backward jumps and calls.

pub(crate) mod arith;
pub(crate) mod calls;
pub(crate) mod checked;
pub(crate) mod compare;
pub(crate) mod counted;
mod elements;
pub(crate) mod fields;
pub(crate) mod hooks;
pub(crate) mod ic;
mod index;
pub(crate) mod loops;
pub(crate) mod moves;
pub(crate) mod quick;
pub(crate) mod sampled;

use crate::Vm;
use crate::frame::frame;
use crate::native::Thrown;
use crate::object::LuaClosure;
use crate::value::{Tag, Value};
use perilune_syntax::{Instr, Op};

/// How a run of handlers ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Exit {
    /// The entry frame returned; its results end at the top of the stack.
    Return = 1,
    /// An error left the entry frame; its value is in the `Vm`.
    Error = 2,
    /// Loop dispatch only: go on with the registers stored in the `Vm`.
    Next = 3,
}

/// What a slow path leaves behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Reload the registers from the `Vm` and go on.
    Continue,
    /// As `Continue`, but the frame at `vm.base`, whose call has come back, has machine code that is entered
    /// there.
    Enter,
    /// The entry frame has returned.
    Return,
    /// The fiber has parked: this native stack is to be suspended too (`fiber.rs`).
    Park,
}

/// A slow path's result: the next step, or an error to unwind.
pub(crate) type Flow = Result<Step, Thrown>;

/// A handler of one opcode; see the module's essay.
pub type Handler = unsafe extern "C-unwind" fn(
    *mut Vm,
    *mut Value,
    *const Instr,
    *const Value,
    u64,
    *const Handlers,
) -> Exit;

/// 256 handlers, by opcode byte.
#[repr(transparent)]
pub struct Handlers(pub(crate) [Handler; 256]);

/// Defines a handler: `op!(name(vm, base, pc, k, i, tab) { ... })`.
macro_rules! op {
    ($(#[$attr:meta])* $name:ident(
        $vm:ident, $base:ident, $pc:ident, $k:ident, $i:ident, $tab:ident
    ) $body:block) => {
        $(#[$attr])*
        #[allow(unused_variables)]
        pub(crate) unsafe extern "C-unwind" fn $name(
            $vm: *mut crate::Vm,
            $base: *mut crate::value::Value,
            $pc: *const perilune_syntax::Instr,
            $k: *const crate::value::Value,
            insn: u64,
            $tab: *const crate::interp::Handlers,
        ) -> crate::interp::Exit {
            let $i = perilune_syntax::Instr(insn);
            // SAFETY: handlers run only on verified code whose registers, constants and caches are in range
            // of the frame (`Proto`'s promise), with `base`, `pc`, `k` of the running frame; the rest of each
            // body is checked against the layouts in `object.rs`, and one thread at a time owns the heap.
            unsafe { $body }
        }
    };
}
/// What calls machine code directly says from where its native stack is scanned, as [`execute`] does.
use crate::sys::stack::spill_registers;
pub(crate) use op;

/// Jumps to the handler of the instruction at `pc`.
#[cfg(not(debug_assertions))]
macro_rules! next {
    ($vm:ident, $base:expr, $pc:expr, $k:expr, $tab:expr) => {{
        let pc: *const perilune_syntax::Instr = $pc;
        let insn = (*pc).0;
        let handler = (*$tab).0[(insn & 0xff) as usize];
        return handler($vm, $base, pc.add(1), $k, insn, $tab);
    }};
}
#[cfg(debug_assertions)]
macro_rules! next {
    ($vm:ident, $base:expr, $pc:expr, $k:expr, $tab:expr) => {{
        let base = $base;
        (*$vm).lua.base = base;
        (*$vm).lua.loop_pc = $pc;
        (*$vm).lua.loop_k = $k;
        return crate::interp::Exit::Next;
    }};
}
pub(crate) use next;

/// Continues in another handler with the same instruction.
macro_rules! tail {
    ($f:path, $vm:ident, $base:expr, $pc:expr, $k:expr, $i:expr, $tab:expr) => {
        return $f($vm, $base, $pc, $k, $i.0, $tab)
    };
}
pub(crate) use tail;

/// Stores the registers where the rest of the machine finds them.
macro_rules! save {
    ($vm:ident, $base:expr, $pc:expr) => {{
        (*crate::frame::frame($base)).pc = $pc;
        (*$vm).lua.base = $base;
    }};
}
pub(crate) use save;

/// Ends a slow path: acts on its [`Flow`].
macro_rules! flow {
    ($vm:ident, $flow:expr) => {{
        let flow: crate::interp::Flow = $flow;
        return crate::interp::proceed($vm, flow);
    }};
}
pub(crate) use flow;

/// Acts on a slow path's outcome: reloads and goes on, returns to Rust, or unwinds.
#[inline(never)]
pub(crate) unsafe fn proceed(vm: *mut Vm, mut flow: Flow) -> Exit {
    loop {
        match flow {
            // SAFETY: `Continue` promises a Lua frame at `vm.base` with `pc` and `k` stored.
            Ok(Step::Continue) => return unsafe { reload(vm) },
            // SAFETY: `Enter` promises what `Continue` does.
            Ok(Step::Enter) => match unsafe { crate::machine::enter_behind(vm) } {
                crate::machine::RETURNED => return Exit::Return,
                crate::machine::FAILED => return Exit::Error,
                _ => flow = Ok(Step::Continue),
            },
            Ok(Step::Return) => return Exit::Return,
            // SAFETY: a native stack has handed the step on.
            Ok(Step::Park) => match unsafe { (*vm).pass_park() } {
                Some(next) => flow = next,
                None => return Exit::Return,
            },
            // SAFETY: vm is the running state; the native's frame is on top.
            Err(Thrown::Park(_)) => flow = unsafe { (*vm).park_here() },
            // SAFETY: vm is the running state.
            Err(Thrown::Error(_)) if unsafe { (*vm).lua.gc.wanted_room != 0 && (*vm).store_again() } => {
                flow = Ok(Step::Continue);
            }
            Err(thrown) => {
                // SAFETY: vm is the running state.
                let signal = unsafe { (*vm).lua.errors.signal };
                debug_assert!(thrown.signal() == signal, "{thrown:?} is not what is on its way");
                // SAFETY: vm is the running state.
                let outcome = unsafe {
                    if (*(*vm).lua.thread).tbc != 0 && (*vm).needs_native_stack() {
                        // A coroutine whose variables are closed on the way of the error may yield in their
                        // methods; none of its frames is an entry frame.
                        let unwound =
                            |vm: &mut Vm| vm.unwind(thrown).map(|step| step.unwrap_or(Step::Return));
                        (*vm).closing_on_native_stack(unwound).map(Some)
                    } else {
                        (*vm).unwind(thrown)
                    }
                };
                match outcome {
                    Ok(Some(step)) => flow = Ok(step),
                    Ok(None) => return Exit::Error,
                    Err(again) => flow = Err(again),
                }
            }
        }
    }
}

impl Vm {
    /// The running instruction stores, and the table that it stores into could not grow. Nothing has changed
    /// yet, and the frame is complete: a collection may find the room, and then the instruction is done
    /// again.
    #[cold]
    #[inline(never)]
    unsafe fn store_again(&mut self) -> bool {
        let bytes = std::mem::take(&mut self.lua.gc.wanted_room);
        // SAFETY: called with a frame at `base`, the `pc` of a Lua one behind the instruction that failed.
        unsafe {
            let f = frame(self.lua.base);
            if (*f).flags & crate::frame::F_NATIVE != 0 {
                return false;
            }
            let i = *(*f).pc.sub(1);
            let stores = [Op::SetTabUp, Op::SetField, Op::SetIndex, Op::SetInt, Op::SetSlot];
            // A list up to the top has lost its end.
            let list = i.op_byte() == Op::SetList as u8 && i.b() != 0;
            if !(list || stores.iter().any(|&op| i.op_byte() == op as u8)) {
                return false;
            }
            // Without room the error that is on its way stands; it says the same.
            // Nor is there anything to be found if it was not for a limit that the table was refused.
            if self.heap.has_room(bytes) || self.ensure_room(bytes).is_err() {
                return false;
            }
            self.lua.errors.take_value();
            (*f).pc = (*f).pc.sub(1);
            true
        }
    }
}

/// Goes on with the frame at `vm.base`.
#[inline(always)]
unsafe fn reload(vm: *mut Vm) -> Exit {
    // SAFETY: the caller's promise: a Lua frame at `vm.base`.
    unsafe {
        let base = (*vm).lua.base;
        let f = frame(base);
        debug_assert!(!(*f).pc.is_null());
        let _tab = (*vm).lua.dispatch;
        next!(vm, base, (*f).pc, (*f).k, _tab)
    }
}

/// Runs the Lua frame at `vm.base`, which has `F_ENTRY`, until it returns or fails: as machine code, if there
/// is some.
pub(crate) fn execute(vm: &mut Vm) -> Exit {
    // SAFETY: the frame at `vm.base` was set up by `enter_lua`.
    execute_with(vm, |vm| unsafe {
        // A native that calls short functions is where ticks find them: none of them may ever poll.
        if vm.lua.interrupt.load(std::sync::atomic::Ordering::Relaxed) != 0
            || vm.lua.machine.ticks.are_put_off()
        {
            vm.handle_ticks();
        }
        crate::machine::begin(vm).unwrap_or_else(|| reload(vm))
    })
}

/// As [`execute`], beginning with whatever `first` does.
#[inline(always)]
pub(crate) fn execute_with(vm: &mut Vm, first: impl FnOnce(&mut Vm) -> Exit) -> Exit {
    let vm: *mut Vm = vm;
    spill_registers(vm, |vm, here| {
        // SAFETY: `first` leaves the state as handlers do.
        unsafe {
            let outer = std::mem::replace(&mut (*vm).lua.stacks.running.scan_from, here);
            let machine = (*vm).set_machine_running(false);
            let exit = first(&mut *vm);
            let exit = dispatched(vm, exit);
            (*vm).set_machine_running(machine);
            (*vm).lua.stacks.running.scan_from = outer;
            exit
        }
    })
}

/// Builds that dispatch in a loop do so here, from where the state says on, unless the run is over.
#[inline(always)]
unsafe fn dispatched(vm: *mut Vm, exit: Exit) -> Exit {
    #[cfg(not(debug_assertions))]
    let _ = vm;
    #[cfg(debug_assertions)]
    let mut exit = exit;
    #[cfg(debug_assertions)]
    // SAFETY: handlers have left the state with an instruction to do.
    unsafe {
        while exit == Exit::Next {
            let pc = (*vm).lua.loop_pc;
            let tab = (*vm).lua.dispatch;
            let insn = (*pc).0;
            exit =
                (*tab).0[(insn & 0xff) as usize](vm, (*vm).lua.base, pc.add(1), (*vm).lua.loop_k, insn, tab);
        }
    }
    exit
}

/// Interprets the frame at `vm.base`, and those that it has been called by, until the run is over.
///
/// # Safety
/// There is a complete frame of Lua code, and the run has begun ([`execute_with`], `machine/direct.rs`).
pub(crate) unsafe fn resumed(vm: *mut Vm) -> Exit {
    // SAFETY: the caller's promise.
    unsafe { dispatched(vm, reload(vm)) }
}

/// The Lua function of the frame at `base`.
///
/// # Safety
/// `base` is the base of a Lua frame.
#[inline(always)]
pub(crate) unsafe fn frame_closure(base: *mut Value) -> *mut LuaClosure {
    // SAFETY: the function's slot is below the frame record.
    unsafe {
        debug_assert!((*base.sub(3)).tag() == Tag::CLOSURE);
        (*base.sub(3)).payload() as *mut LuaClosure
    }
}

/// End of the registers of the Lua frame at `base`.
///
/// # Safety
/// `base` is the base of a Lua frame.
#[inline(always)]
pub(crate) unsafe fn frame_ceiling(base: *mut Value) -> *mut Value {
    // SAFETY: as above.
    unsafe { base.add((*(*frame_closure(base)).proto).max_stack as usize) }
}

op!(#[cold] op_invalid(vm, base, pc, k, i, tab) {
    save!(vm, base, pc);
    let e = (*vm).error("invalid opcode");
    flow!(vm, Err(e))
});

op!(
    /// A collection is due: does a step of it and goes on with the next instruction.
    #[inline(never)] slow_gc(vm, base, pc, k, i, tab) {
    save!(vm, base, pc);
    (*vm).lua.top = frame_ceiling(base);
    if matches!(i.op(), Some(Op::NewTable | Op::Closure | Op::Concat)) {
        // The compiler puts a new object above everything live: what stale registers refer to may be garbage.
        let mut stale = base.add(i.a() as usize + 1);
        while stale < (*vm).lua.top {
            *stale = Value::NIL;
            stale = stale.add(1);
        }
    }
    flow!(vm, (*vm).safepoint().map(|()| Step::Continue))
});

op!(
    /// The interrupt flag is set: acts on it and goes on with the next instruction.
    #[cold] #[inline(never)] slow_interrupt(vm, base, pc, k, i, tab) {
    save!(vm, base, pc);
    (*vm).lua.top = frame_ceiling(base);
    flow!(vm, (*vm).handle_interrupt().map(|()| Step::Continue))
});

/// Finishes an instruction that may have allocated.
macro_rules! next_gc {
    ($vm:ident, $base:expr, $pc:expr, $k:expr, $i:expr, $tab:expr) => {{
        if (*$vm).heap.gc_due() {
            crate::interp::tail!(crate::interp::slow_gc, $vm, $base, $pc, $k, $i, $tab)
        }
        crate::interp::next!($vm, $base, $pc, $k, $tab)
    }};
}
pub(crate) use next_gc;

/// Writes an integer to a register.
macro_rules! set_int {
    ($slot:expr, $v:expr) => {
        crate::value::Value::store_int($slot, $v as i64)
    };
}
pub(crate) use set_int;

/// Writes a float to a register.
macro_rules! set_float {
    ($slot:expr, $v:expr) => {
        crate::value::Value::store_float($slot, $v)
    };
}
pub(crate) use set_float;

/// On one side of a conditional, keeps the two sides apart: the machine branches instead of computing both.
#[inline(always)]
pub(crate) fn branch() {
    crate::sys::no_instruction();
}

/// Copies a value: payload and tag, each by its own move.
#[inline(always)]
pub(crate) unsafe fn copy(to: *mut Value, from: *const Value) {
    // SAFETY: the caller passes slots of a stack, a table or constants.
    unsafe { Value::copy(to, from) }
}

/// The operand of an `RK` field.
#[inline(always)]
pub(crate) unsafe fn rk(base: *mut Value, k: *const Value, x: u16) -> *const Value {
    // SAFETY: verified code: the register or constant exists.
    unsafe {
        if x & perilune_syntax::bytecode::RK_CONST != 0 {
            k.add((x & 0x7fff) as usize)
        } else {
            base.add(x as usize)
        }
    }
}

/// The plain dispatch table.
pub(crate) static HANDLERS: Handlers = Handlers(table(false));
/// The table in use while a hook is set.
pub(crate) static HOOKED: Handlers = Handlers(table(true));

const fn table(hooked: bool) -> [Handler; 256] {
    let mut t: [Handler; 256] = [op_invalid; 256];
    let mut n = 0;
    while n < Op::ALL.len() {
        t[n] = if hooked { hooks::op_hooked } else { handler_of(Op::ALL[n]) };
        n += 1;
    }
    t[crate::machine::ENTER as usize] =
        if hooked { crate::machine::op_enter_plain } else { crate::machine::op_enter };
    t
}

/// The handler of `op`.
pub(crate) const fn handler_of(op: Op) -> Handler {
    use {arith::*, calls::*, compare::*, fields::*, index::*, loops::*, moves::*};
    match op {
        Op::Move => op_move,
        Op::LoadI => op_loadi,
        Op::LoadK => op_loadk,
        Op::LoadNil => op_loadnil,
        Op::LoadTrue => op_loadtrue,
        Op::LoadFalse => op_loadfalse,
        Op::LoadFalseSkip => op_lfalseskip,
        Op::GetUpval => op_getupval,
        Op::SetUpval => op_setupval,
        Op::GetTabUp => op_gettabup,
        Op::SetTabUp => op_settabup,
        Op::GetField => op_getfield,
        Op::SetField => op_setfield,
        Op::GetIndex => op_getindex,
        Op::SetIndex => op_setindex,
        Op::GetInt => op_getint,
        Op::SetInt => op_setint,
        Op::SelfCall => op_self,
        Op::NewTable => op_newtable,
        Op::SetSlot => op_setslot,
        Op::SetList => op_setlist,
        Op::Add => op_add,
        Op::Sub => op_sub,
        Op::Mul => op_mul,
        Op::Div => op_div,
        Op::Mod => op_mod,
        Op::Pow => op_pow,
        Op::IDiv => op_idiv,
        Op::BAnd => op_band,
        Op::BOr => op_bor,
        Op::BXor => op_bxor,
        Op::Shl => op_shl,
        Op::Shr => op_shr,
        Op::AddK => op_addk,
        Op::SubK => op_subk,
        Op::MulK => op_mulk,
        Op::DivK => op_divk,
        Op::ModK => op_modk,
        Op::PowK => op_powk,
        Op::IDivK => op_idivk,
        Op::BAndK => op_bandk,
        Op::BOrK => op_bork,
        Op::BXorK => op_bxork,
        Op::AddI => op_addi,
        Op::Unm => op_unm,
        Op::BNot => op_bnot,
        Op::Not => op_not,
        Op::Len => op_len,
        Op::Concat => op_concat,
        Op::Jump => op_jump,
        Op::JumpBack => op_jumpback,
        Op::JumpIf => op_jumpif,
        Op::JumpIfNot => op_jumpifnot,
        Op::JumpIfSet => op_jumpifset,
        Op::JumpIfNotSet => op_jumpifnotset,
        Op::JumpEq => op_jeq,
        Op::JumpNe => op_jne,
        Op::JumpEqK => op_jeqk,
        Op::JumpNeK => op_jnek,
        Op::JumpLt => op_jlt,
        Op::JumpNotLt => op_jnlt,
        Op::JumpLe => op_jle,
        Op::JumpNotLe => op_jnle,
        Op::JumpLtK => op_jltk,
        Op::JumpNotLtK => op_jnltk,
        Op::JumpLeK => op_jlek,
        Op::JumpNotLeK => op_jnlek,
        Op::JumpGtK => op_jgtk,
        Op::JumpNotGtK => op_jngtk,
        Op::JumpGeK => op_jgek,
        Op::JumpNotGeK => op_jngek,
        Op::ForPrep => op_forprep,
        Op::ForLoop => op_forloop,
        Op::TForPrep => op_tforprep,
        Op::TForCall => op_tforcall,
        Op::TForLoop => op_tforloop,
        Op::Call => op_call,
        Op::TailCall => op_tailcall,
        Op::Return => op_return,
        Op::Return0 => op_return0,
        Op::Return1 => op_return1,
        Op::VarargPrep => op_varargprep,
        Op::Vararg => op_vararg,
        Op::Lift => op_lift,
        Op::Closure => op_closure,
        Op::Close => op_close,
        Op::Tbc => op_tbc,
    }
}
