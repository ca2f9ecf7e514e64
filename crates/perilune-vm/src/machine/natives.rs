//! Natives that machine code calls.
//!
//! Three ways, the first that will do:
//! 1. What a native does is instructions of machine code ([`crate::Intrinsic`]).
//! 2. Its quick form is called ([`crate::Quick`], or [`crate::Several`] where it may give several values), with
//!    the arguments in their registers: it needs nothing of the frame, so nothing else is stored, and what is known of tables stays known as far as the form's
//!    effect says. Where that has nothing to say, the call is done in one of the other ways, from its
//!    beginning.
//! 3. [`call_native`] pushes the native's frame and runs it, as the interpreter does, without its dispatch:
//!    for natives that do not call Lua. [`iterate_native`] does so for generic loops. All others, and all
//!    that is out of the ordinary, are the interpreter's ([`super::step`]): what those call is driven as any
//!    other call (`callees.rs`).
//!
//! A quick form has no frame; a word of the domain has the native whose form runs, for samples
//! (`Machine::quick`). Nothing else can see that there is none: hooks keep machine code from running at all,
//! errors are raised by the native itself, and nobody else asks.

use super::callees::drive;
use super::entry::{Waiting, proceeded, step};
use super::{LEAVE, NOT_DONE, STAY, UNKNOWN};
use crate::Vm;
use crate::call::{NATIVE_STACK, STACK_EXTRA, deliver_results};
use crate::frame::*;
use crate::interp::compare::compare_strings;
use crate::interp::quick::{native_at, quick_resume, slots};
use crate::interp::{Flow, Step, copy, frame_ceiling, save};
use crate::meta::Event;
use crate::native::{Kind, Native, Results};
use crate::object::{TABLE_IS_PROTO, Table};
use crate::value::{Gc, Value};
use perilune_syntax::Instr;

const _: () =
    assert!(Results::MOST <= STACK_EXTRA, "all values of a quick form fit behind a frame's registers");

/// For machine code: does the `CALL` at `pc`, which has called natives that call no Lua. As [`step`], which
/// does it if it is something else, or out of the ordinary.
///
/// # Safety
/// As [`step`].
pub(crate) unsafe extern "C-unwind" fn call_native(
    vm: *mut Vm,
    base: *mut Value,
    k: *const Value,
    pc: *const Instr,
) -> u64 {
    // SAFETY: the caller's promise; nothing is written before it is clear that the native's frame can be
    // pushed.
    unsafe {
        let i = *pc;
        let func = base.add(i.a() as usize);
        let native = native_at(func);
        if native.is_null() || (*vm).lua.machine.watched {
            return step(vm, base, k, pc);
        }
        let own = func.add(CALL_GAP);
        let top = match i.b() {
            0 => (*vm).lua.top,
            b => own.add(b as usize - 1),
        };
        let plain = match (*native).kind {
            Kind::Leaf | Kind::Next => true,
            Kind::Hybrid => !(*vm).needs_native_stack(),
            _ => false,
        };
        if !plain || top.add(NATIVE_STACK) >= (*vm).lua.stack_limit {
            return step(vm, base, k, pc);
        }
        save!(vm, base, pc.add(1));
        run_native(vm, base, &*native, func, top, i.c() as i16 - 1)
    }
}

/// For machine code: the `TFORCALL` at `pc`, whose iterator has been a native that calls no Lua, or the
/// function of a coroutine. As [`step`], which does it if it is something else, or out of the ordinary: then
/// the `TFORLOOP` behind it may have been done, too.
///
/// # Safety
/// As [`step`].
pub(crate) unsafe extern "C-unwind" fn iterate_native(
    vm: *mut Vm,
    base: *mut Value,
    k: *const Value,
    pc: *const Instr,
) -> u64 {
    // SAFETY: the caller's promise; a loop's registers from the fifth on are the iterator's to write.
    unsafe {
        let i = *pc;
        let a = base.add(i.a() as usize);
        let native = native_at(a);
        let func = a.add(4);
        let own = func.add(CALL_GAP);
        let top = own.add(2);
        if native.is_null()
            || (*vm).lua.machine.watched
            || top.wrapping_add(NATIVE_STACK) >= (*vm).lua.stack_limit
        {
            return step(vm, base, k, pc);
        }
        let plain = match (*native).kind {
            Kind::Leaf => true,
            Kind::Hybrid => !(*vm).needs_native_stack(),
            Kind::Wrap => false,
            _ => return step(vm, base, k, pc),
        };
        let wanted = i.b() as i16;
        copy(func, a);
        copy(own, a.add(1));
        copy(own.add(1), a.add(2));
        if plain {
            save!(vm, base, pc.add(1));
            return run_native(vm, base, &*native, func, top, wanted);
        }
        if (*native).kind == Kind::Wrap {
            save!(vm, base, pc.add(1));
            (*vm).lua.top = top;
            let waiting = Waiting::of(vm, base);
            let to = quick_resume::<false>(vm, base, func, wanted);
            if !to.is_null() {
                (*vm).lua.base = to;
                return drive(vm, waiting);
            }
        }
        step(vm, base, k, pc)
    }
}

/// Runs a native that is to give so many results, in a frame of its own above `func`, for the frame at
/// `base`, whose record says where that goes on: as [`step`].
///
/// # Safety
/// The native is that in `func`, its arguments end at `top`, and there is room behind them.
#[inline(always)]
unsafe fn run_native(
    vm: *mut Vm,
    base: *mut Value,
    native: &Native,
    func: *mut Value,
    top: *mut Value,
    wanted: i16,
) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        let own = func.add(CALL_GAP);
        (*vm).lua.top = top;
        let (waiting, dispatch) = (Waiting::of(vm, base), (*vm).lua.dispatch);
        *frame(own) = Frame::native(wanted, slots(base, own));
        (*vm).lua.base = own;
        match native.run(&mut *vm) {
            // It needed more room, and the stack moved; or it set a hook, to which its return is an event.
            Ok(n) if (*vm).lua.base != own || (*vm).lua.dispatch != dispatch => {
                act(vm, waiting, (*vm).finish_native(n as usize))
            }
            Ok(n) => {
                let from = (*vm).lua.top.sub(n as usize);
                match wanted {
                    1 if n > 0 => copy(func, from),
                    1 => *func = Value::NIL,
                    _ => deliver_results(vm, func, from, n as usize, wanted as i32),
                }
                (*vm).lua.base = base;
                if !(*vm).heap.gc_due() {
                    return STAY;
                }
                if wanted >= 0 {
                    (*vm).lua.top = frame_ceiling(base);
                }
                let flow = (*vm).safepoint_open().map(|()| Step::Continue);
                act(vm, waiting, flow)
            }
            Err(thrown) => act(vm, waiting, Err(thrown)),
        }
    }
}

/// What has come of a call, as [`step`] answers it.
#[cold]
#[inline(never)]
unsafe fn act(vm: *mut Vm, waiting: Waiting, flow: Flow) -> u64 {
    // SAFETY: called for a call that the frame has made which waits.
    unsafe {
        let exit = proceeded(vm, flow);
        if exit != LEAVE {
            return exit;
        }
        if (*vm).lua.machine.watched {
            return LEAVE;
        }
        if (*vm).lua.base == waiting.base { STAY } else { drive(vm, waiting) }
    }
}

/// `CONCAT`: `n` strings or numbers, few, in the registers from `at` on become one string, in the first. The
/// answer is not [`NOT_DONE`] if it has been done.
pub(super) unsafe extern "C-unwind" fn concat(vm: *mut Vm, at: *mut Value, n: u64) -> u64 {
    // SAFETY: called by machine code of the domain that owns the state, for registers of its frame. The texts
    // of few numbers need no strings of their own.
    unsafe {
        if (*vm).concat_in_place(at, n as usize) {
            return 1;
        }
        (*vm).forget_refusal();
        NOT_DONE
    }
}

/// How two strings compare: 0, 1 or 2 if the first comes before the second, is the same, or comes after
/// it. [`UNKNOWN`]: they are not both strings.
pub(super) unsafe extern "C-unwind" fn order(x: *const Value, y: *const Value) -> u64 {
    // SAFETY: called by machine code for registers or constants of its frame.
    unsafe {
        match ((*x).as_string(), (*y).as_string()) {
            (Some(x), Some(y)) => (compare_strings(x, y).signum() + 1) as u64,
            _ => UNKNOWN,
        }
    }
}

impl Vm {
    /// Memory was refused for something that is now done in another way, which may find some, or say so.
    #[cold]
    #[inline(never)]
    pub(crate) fn forget_refusal(&mut self) {
        self.lua.gc.wanted_room = 0;
        self.lua.errors.take_value();
    }

    /// Whether a quick form may store into the table as if nobody else minded: it has no metatable, and is
    /// nobody's but this domain's.
    #[inline]
    pub fn may_store_quickly(&self, t: Gc<Table>) -> bool {
        t.metatable.is_null() && self.may_store_raw(t)
    }

    /// The same where no metamethod is asked.
    #[inline]
    pub fn may_store_raw(&self, t: Gc<Table>) -> bool {
        !t.minds_stores() && !t.is_guarded()
    }

    /// The same where these are: the table has none of them.
    #[inline]
    pub fn may_store_without(&mut self, t: Gc<Table>, events: &[Event]) -> bool {
        let Some(metatable) = self.metatable_of(t.into()) else { return self.may_store_raw(t) };
        self.may_store_raw(t) && events.iter().all(|event| self.table_metamethod(metatable, *event).is_nil())
    }

    /// Whether a table without a metatable may get this one as if nobody else minded: it has no finaliser,
    /// and the table is nobody's metatable or class.
    #[inline]
    pub fn may_get_metatable_quickly(&mut self, t: Gc<Table>, metatable: Gc<Table>) -> bool {
        self.may_store_quickly(t)
            && t.header.flags & TABLE_IS_PROTO == 0
            && self.table_metamethod(metatable, Event::Gc).is_nil()
    }
}
