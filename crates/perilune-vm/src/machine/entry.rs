//! From the interpreter into machine code, and back for one instruction.

use super::callees::{drive, entry_at, quick_return, quick_tail_of_native};
use super::switching::yield_at_tail;
use super::{Active, CODES, ENTER, EXITED, FAILED, LEAVE, MachineCode, REFUSED, RETURNED, Run, STAY, TAIL};
use crate::Vm;
use crate::frame::{CONT_ENTER, F_CONT, F_TAIL, F_VARARG, frame};
use crate::interp::calls::move_above;
use crate::interp::{
    Exit, Flow, HANDLERS, Handler, Handlers, Step, flow, frame_closure, handler_of, next, op, proceed, save,
    tail,
};
use crate::object::{ProtoInst, Thread};
use crate::value::Value;
use perilune_syntax::{Instr, Op};
use perilune_trace::clock::ticks;
use perilune_trace::event::Category;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// So deep is machine code of functions inlined in that of others.
pub const MOST_INLINED: usize = 4;
/// The table of domains that have machine code: loops look for theirs.
pub(crate) static LOOPS: Handlers = Handlers(loops());

const fn loops() -> [Handler; 256] {
    let mut table = HANDLERS.0;
    table[Op::ForLoop as usize] = loop_round;
    table[Op::JumpBack as usize] = loop_round;
    table[Op::TForCall as usize] = loop_round;
    table
}

/// The same in domains that find out by counting what is hot: calls count, too.
pub(crate) static COUNTING: Handlers = Handlers(counting());

const fn counting() -> [Handler; 256] {
    let mut table = HANDLERS.0;
    table[Op::ForLoop as usize] = loop_counted;
    table[Op::JumpBack as usize] = loop_counted;
    table[Op::TForCall as usize] = loop_counted;
    table[Op::Call as usize] = call_counted;
    table[Op::TailCall as usize] = call_counted;
    table
}

op!(
    /// A call, of whatever, in a domain that counts.
    call_counted(vm, base, pc, k, i, tab) {
    let inst = (*frame_closure(base)).proto;
    if (*inst).native.is_null() {
        (*vm).count_round(inst);
    }
    let plain = match i.op() {
        Some(Op::Call) => const { handler_of(Op::Call) },
        _ => const { handler_of(Op::TailCall) },
    };
    plain(vm, base, pc, k, i.0, (*vm).lua.dispatch)
});

/// The plain table, by which functions that have machine code are interpreted all the same.
pub(crate) static INTERPRETED: Handlers = Handlers(interpreted());

const fn interpreted() -> [Handler; 256] {
    let mut table = crate::interp::HANDLERS.0;
    table[super::ENTER as usize] = op_enter_plain;
    table
}

/// The table in use while machine code runs: see the module's essay.
pub(crate) static STOP: Handlers = Handlers([op_stop; 256]);
/// The same once somebody wants to see every instruction: handlers that compare tables notice that.
pub(crate) static STOP_WATCHED: Handlers = Handlers([op_stop; 256]);

op!(
    /// Every entry of [`STOP`]: the instruction is somebody else's to do.
    #[inline(never)] op_stop(vm, base, pc, k, i, tab) {
    save!(vm, base, pc.sub(1));
    Exit::Next
});

/// Enters the machine code that the running function has for the loop that comes round here.
macro_rules! enter_loop {
    ($vm:ident, $base:ident, $pc:ident, $inst:ident) => {{
        let code = (*$inst).machine;
        let mut entry = 0;
        if !code.is_null() && !(*code).is_shut() {
            entry = (&(*code).entries)[$pc.offset_from((*(*$inst).proto).code.as_ptr()) as usize - 1];
        }
        // Machine code that polls leaves; who polls to act on it is the interpreter.
        if entry != 0 && (*$vm).lua.interrupt.load(Ordering::Relaxed) == 0 {
            save!($vm, $base, $pc.sub(1));
            match run_all($vm, $base, $inst, code, entry - 1) {
                REFUSED => {}
                RETURNED => return Exit::Return,
                FAILED => return Exit::Error,
                _ => flow!($vm, Ok(Step::Continue)),
            }
        }
        entry != 0
    }};
}

/// Does what the interpreter does where a loop comes round.
macro_rules! plain_round {
    ($vm:ident, $base:ident, $pc:ident, $k:ident, $i:ident) => {{
        let plain = match $i.op() {
            Some(Op::ForLoop) => const { handler_of(Op::ForLoop) },
            Some(Op::JumpBack) => const { handler_of(Op::JumpBack) },
            _ => const { handler_of(Op::TForCall) },
        };
        return plain($vm, $base, $pc, $k, $i.0, (*$vm).lua.dispatch);
    }};
}

op!(
    /// An instruction at which a loop comes round, in a domain that has machine code.
    loop_round(vm, base, pc, k, i, tab) {
    let inst = (*frame_closure(base)).proto;
    if (*inst).machine.is_null() {
        plain_round!(vm, base, pc, k, i)
    }
    tail!(loop_of_compiled, vm, base, pc, k, i, tab)
});

op!(
    #[inline(never)] loop_of_compiled(vm, base, pc, k, i, tab) {
    let inst = (*frame_closure(base)).proto;
    let _ = enter_loop!(vm, base, pc, inst);
    plain_round!(vm, base, pc, k, i)
});

op!(
    /// The same in a domain that counts.
    loop_counted(vm, base, pc, k, i, tab) {
    let inst = (*frame_closure(base)).proto;
    if !enter_loop!(vm, base, pc, inst) {
        (*vm).count_round(inst);
    }
    plain_round!(vm, base, pc, k, i)
});

op!(
    /// [`ENTER`]: a call has come to a function that has machine code.
    #[inline(never)] op_enter(vm, base, pc, k, i, tab) {
    let inst = (*frame_closure(base)).proto;
    let start = (*(*inst).proto).code.as_ptr();
    let code = (*inst).machine;
    debug_assert!(!code.is_null());
    save!(vm, base, start);
    let exit = run(vm, base, inst, code, MachineCode::START);
    if exit >= CODES {
        // Most functions that are interpreted when they call have no machine code.
        let base = (*vm).lua.base;
        let f = frame(base);
        if !(*f).pc.is_null() && (*(*frame_closure(base)).proto).machine.is_null() {
            let tab = (*vm).lua.dispatch;
            next!(vm, base, (*f).pc, (*f).k, tab)
        }
    }
    match run_on(vm, exit) {
        REFUSED => {}
        RETURNED => return Exit::Return,
        FAILED => return Exit::Error,
        _ => flow!(vm, Ok(Step::Continue)),
    }
    next!(vm, base, start, k, tab)
});

op!(
    /// [`ENTER`], where every instruction is looked at: the function is interpreted.
    #[inline(never)] op_enter_plain(vm, base, pc, k, i, tab) {
    let start = (*(*(*frame_closure(base)).proto).proto).code.as_ptr();
    next!(vm, base, start, k, tab)
});

/// The frame at the state's `base`, of a function that a native has called, runs as machine code if there is
/// some: whoever begins a run of the interpreter for it pays no more for that. How the run has ended; `None`:
/// it goes on with the frame at the state's `base`.
///
/// # Safety
/// The state is as handlers leave it, with a complete Lua frame at its base, which has not begun.
#[inline]
pub(crate) unsafe fn begin(vm: *mut Vm) -> Option<Exit> {
    // SAFETY: the caller's promise. The code lives for as long as is said at `run`.
    unsafe {
        let base = (*vm).lua.base;
        let inst = (*frame_closure(base)).proto;
        let code: *const MachineCode = (*inst).machine;
        if code.is_null() {
            // Where rounds and calls are counted these are, too: a comparator without a loop would never be
            // hot.
            if (*vm).lua.machine.threshold != 0 {
                (*vm).count_round(inst);
            }
            return None;
        }
        if !(*code).starts || (*frame(base)).pc != (*inst).code || !is_allowed(vm) {
            return None;
        }
        (*frame(base)).pc = (*(*inst).proto).code.as_ptr();
        let exit = run_untimed(vm, base, inst, code, MachineCode::START);
        finished(vm, exit)
    }
}

/// A run of machine code for the first frame of a run of the interpreter has ended like this: how that has
/// ended, too; `None`: it goes on with the frame at the state's `base`.
///
/// # Safety
/// The state is as [`run_untimed`] leaves it.
#[inline]
pub(super) unsafe fn finished(vm: *mut Vm, exit: u64) -> Option<Exit> {
    // SAFETY: the caller's promise.
    match unsafe { run_on(vm, exit) } {
        RETURNED => Some(Exit::Return),
        FAILED => Some(Exit::Error),
        _ => None,
    }
}

/// The frame at the state's `base`, whose call has come back, goes on as machine code if it can be entered
/// there: how a run of the interpreter would end or go on.
///
/// # Safety
/// The state is as handlers leave it, with a complete Lua frame at its base.
#[inline(never)]
pub(crate) unsafe fn enter_behind(vm: *mut Vm) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        match behind(vm) {
            Some((base, inst, entry)) => run_on(vm, run_behind(vm, base, inst, entry)),
            None => LEAVE,
        }
    }
}

/// The frame at the state's `base`, its instance and the entry of its machine code that is at its `pc`, if it
/// is worth entering.
///
/// # Safety
/// See [`enter_behind`].
#[inline]
unsafe fn behind(vm: *mut Vm) -> Option<(*mut Value, *mut ProtoInst, u32)> {
    // SAFETY: the caller's promise; a frame with a `pc` is one of a Lua function.
    unsafe {
        let base = (*vm).lua.base;
        let pc = (*frame(base)).pc;
        if pc.is_null() {
            return None;
        }
        let inst = (*frame_closure(base)).proto;
        let code = (*inst).machine;
        if code.is_null() || (*code).behind.are_short() || !is_allowed(vm) {
            return None;
        }
        let entry = entry_at(inst, pc).filter(|&entry| entry != MachineCode::START)?;
        Some((base, inst, entry))
    }
}

/// Whether machine code may be entered now: nobody wants to see every instruction, nor to interrupt, and none
/// is running that waits for one instruction.
#[inline]
unsafe fn is_allowed(vm: *mut Vm) -> bool {
    // SAFETY: the caller's: the state of this domain.
    unsafe {
        let machine = &(*vm).lua.machine;
        !machine.running
            && !machine.watched
            && !machine.distrusted
            && !machine.sampled
            && machine.logging.is_none()
            && (*vm).lua.interrupt.load(Ordering::Relaxed) == 0
    }
}

/// Runs machine code from an entry behind a call on. Like the other ways into it, these are timed now and
/// then, and given up if they lead to next to nothing.
///
/// # Safety
/// What [`behind`] has found.
unsafe fn run_behind(vm: *mut Vm, base: *mut Value, inst: *mut ProtoInst, entry: u32) -> u64 {
    // SAFETY: the caller's promise. The code lives for as long as is said at `run`.
    unsafe {
        let code: *const MachineCode = (*inst).machine;
        let due = (*code).behind.is_due() && (*vm).lua.machine.threshold == 0;
        let begun = if due { ticks() } else { 0 };
        let exit = run_untimed(vm, base, inst, code, entry);
        if due {
            (*code).behind.timed(exit, begun, ticks());
        }
        if exit == REFUSED { LEAVE } else { exit }
    }
}

/// A run of machine code has ended like this. If its frame has returned, its caller may be able to go on as
/// machine code, and so on; and so may the frame whose `pcall` has caught an error that has ended it.
///
/// # Safety
/// The state is as [`run_untimed`] leaves it.
#[inline]
unsafe fn run_on(vm: *mut Vm, mut exit: u64) -> u64 {
    // SAFETY: whoever has returned has delivered its results to its caller, which is complete.
    unsafe {
        // Each error is caught once, so this comes to an end wherever the code is left again at once.
        while (exit >= CODES || exit == LEAVE && std::mem::take(&mut (*vm).lua.machine.caught))
            && let Some((base, inst, entry)) = behind(vm)
        {
            exit = run_behind(vm, base, inst, entry);
        }
        if (*vm).lua.machine.ticks.are_told() {
            (*vm).machine_code_came_back();
        }
        exit
    }
}

/// As [`run`], and what has called the frame goes on as machine code, too, if it can.
///
/// # Safety
/// As there.
#[inline]
unsafe fn run_all(
    vm: *mut Vm,
    base: *mut Value,
    inst: *mut ProtoInst,
    code: *const MachineCode,
    entry: u32,
) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { run_on(vm, run(vm, base, inst, code, entry)) }
}

/// Machine code has been left, and all that called it with it: frames of the running thread above `floor`
/// that were it when they called will go on as machine code when their call comes back.
///
/// # Safety
/// The state is as handlers leave it; `floor` is the base of a frame of the running thread, or was until it
/// returned.
unsafe fn mark_callers(vm: *mut Vm, floor: *mut Value) {
    // SAFETY: frames are linked by their deltas down to the first one of the stack.
    unsafe {
        let mut base = (*vm).lua.base;
        while base > floor {
            let f = frame(base);
            let is_plain = (*f).flags & !(F_TAIL | F_VARARG) == 0;
            if (*f).delta == 0 || (*f).cont == CONT_ENTER && (*f).flags & F_CONT != 0 {
                return;
            }
            let caller = base.sub((*f).delta as usize);
            let pc = (*frame(caller)).pc;
            if is_plain && !(*f).pc.is_null() && !pc.is_null() {
                let inst = (*frame_closure(caller)).proto;
                if !(*inst).machine.is_null() && entry_at(inst, pc).is_some_and(|e| e != MachineCode::START) {
                    (*f).flags |= F_CONT;
                    (*f).cont = CONT_ENTER;
                }
            }
            base = caller;
        }
    }
}

/// Runs machine code for the complete frame at `base`, unless it turns out not to be worth entering: then it
/// refuses, and is not entered any more.
///
/// # Safety
/// `code` is that of `inst`, whose closure's frame is at `base`, and its number of an entry is where the
/// frame's `pc` is.
#[inline(never)]
unsafe fn run(
    vm: *mut Vm,
    base: *mut Value,
    inst: *mut ProtoInst,
    code: *const MachineCode,
    entry: u32,
) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        let judged = (entry == MachineCode::START || !(*code).starts) && is_judged(vm);
        match judged && (*code).entered.is_due() {
            false => run_untimed(vm, base, inst, code, entry),
            true => run_timed(vm, base, inst, code, entry),
        }
    }
}

/// Whether entries are timed. Who counts to find out what is hot does so to be the same in each run.
///
/// # Safety
/// `vm` is the state of this domain.
#[inline(always)]
unsafe fn is_judged(vm: *mut Vm) -> bool {
    // SAFETY: the caller's promise.
    unsafe { (*vm).lua.machine.threshold == 0 }
}

/// As [`run`], of an entry that is timed.
///
/// # Safety
/// As there.
#[cold]
#[inline(never)]
unsafe fn run_timed(
    vm: *mut Vm,
    base: *mut Value,
    inst: *mut ProtoInst,
    code: *const MachineCode,
    entry: u32,
) -> u64 {
    // SAFETY: the caller's promise. Code whose instance dies meanwhile is not freed before somebody asks for
    // it (`Machine::bury`), and nobody does between its end and here.
    unsafe {
        if (*code).entered.are_short() {
            // Exits have cut short what it would do: it is made anew, which code that is not entered would
            // never be.
            if (*code).patience.ends_early((*code).exits.total()) {
                (*code).entered.begin_anew();
                return run_untimed(vm, base, inst, code, entry);
            }
            if !(*vm).shut(inst, &*code) {
                (*code).exits.was_short();
                (*vm).give_up_machine_code(inst);
            }
            return REFUSED;
        }
        let begun = ticks();
        let exit = run_untimed(vm, base, inst, code, entry);
        (*code).entered.timed(exit, begun, ticks());
        exit
    }
}

/// See [`run`].
///
/// # Safety
/// As there.
#[inline]
unsafe fn run_untimed(
    vm: *mut Vm,
    base: *mut Value,
    inst: *mut ProtoInst,
    code: *const MachineCode,
    entry: u32,
) -> u64 {
    // SAFETY: the caller's promise; the record stays here until it is taken out of the list.
    unsafe {
        let mut active = Active { code, previous: null_mut(), next: null_mut() };
        let active = &raw mut active;
        (*vm).lua.machine.begin(active);
        let ran = Ran::of(vm, base, code);
        let outer = (*vm).set_machine_running(true);
        let answer = (*code).run.call(vm, base, inst, entry);
        ended(vm, ran, active, outer, answer)
    }
}

/// A run of machine code, by what has to be known of it when it has ended and its frame is gone.
#[derive(Clone, Copy)]
pub(super) struct Ran {
    code: *const MachineCode,
    thread: *mut Thread,
    /// Where the frame was on the thread's stack.
    place: isize,
    /// How far from its caller's.
    distance: usize,
}

impl Ran {
    /// # Safety
    /// `base` is that of the frame that is to run, of the running thread.
    #[inline]
    pub unsafe fn of(vm: *mut Vm, base: *mut Value, code: *const MachineCode) -> Ran {
        // SAFETY: the caller's promise; there is always a running thread.
        unsafe {
            let thread = (*vm).lua.thread;
            let (place, distance) = (base.offset_from((*thread).stack), (*frame(base)).distance());
            Ran { code, thread, place, distance }
        }
    }
}

/// What follows a run of machine code that has answered this: the state is what it was before, with `outer`
/// for whether machine code ran, and exits are counted.
///
/// # Safety
/// Behind the call, with what was entered into the list before it.
#[inline(always)]
pub(super) unsafe fn ended(vm: *mut Vm, ran: Ran, active: *mut Active, outer: bool, answer: u64) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        // A frame that has given back.
        if answer >= CODES && answer & TAIL == 0 {
            (*vm).set_machine_running(outer);
            (*vm).lua.machine.end(active);
            (*vm).lua.base = (answer as *mut Value).sub(ran.distance);
            return answer;
        }
        ended_otherwise(vm, ran, active, outer, answer)
    }
}

/// As [`ended`], if the frame has not given back.
///
/// # Safety
/// As there.
#[inline(never)]
unsafe fn ended_otherwise(vm: *mut Vm, ran: Ran, active: *mut Active, outer: bool, answer: u64) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        let Ran { code, thread, place, distance } = ran;
        let exit = follow(vm, answer);
        (*vm).set_machine_running(outer);
        (*vm).lua.machine.end(active);
        if exit >= CODES {
            (*vm).lua.base = (exit as *mut Value).sub(distance);
        }
        if exit == LEAVE {
            let is_asked = (*vm).lua.interrupt.load(Ordering::Relaxed) != 0;
            (*vm).lua.machine.polled = is_asked.then(|| (*vm).lua.base.addr());
        }
        if matches!(exit, LEAVE | EXITED) && (*vm).lua.thread == thread {
            mark_callers(vm, (*thread).stack.offset(place));
        }
        // Which code it was, by what it counts in.
        let (left, times) = match exit {
            REFUSED => (Arc::as_ptr(&(*code).exits), (*code).exits.refused()),
            EXITED => (*vm).lua.machine.left,
            _ => return exit,
        };
        if (*vm).lua.machine.wants_exits || perilune_trace::on(Category::Compile) {
            (*vm).tell_exit(times);
        }
        // The frames are as they were, and so their instances are alive. The code is that of the innermost
        // one, or of one that has it inlined.
        let mut base = (*vm).lua.base;
        for _ in 0..=MOST_INLINED {
            let f = frame(base);
            if (*f).pc.is_null() {
                break;
            }
            let inst = (*frame_closure(base)).proto;
            let code = (*inst).machine;
            if !code.is_null() && Arc::as_ptr(&(*code).exits) == left {
                judge_exit(vm, inst, times);
                break;
            }
            if (*f).delta == 0 {
                break;
            }
            base = base.sub((*f).delta as usize);
        }
        exit
    }
}

/// Machine code of `inst` has been left because something was not as expected, so often by now, there and for
/// the same reason: what is to be learnt from that, and whether it goes on being used.
///
/// # Safety
/// The instance lives, and has machine code.
unsafe fn judge_exit(vm: *mut Vm, inst: *mut ProtoInst, times: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        let code = (*inst).machine;
        // Where what happens depends on the program alone, no clock is asked.
        let asks = (*vm).lua.machine.threshold == 0;
        (*vm).learn_from_exit(inst, times);
        if !(*code).is_given_up() || asks && (*code).is_left_rarely() {
            return;
        }
        match asks && (*code).is_worth_keeping() {
            // What the recording says is compiled, and takes its place.
            true if (*code).patience.asks((*code).exits.total()) => (*vm).begin_log(inst),
            true => {}
            false => (*vm).give_up_machine_code(inst),
        }
    }
}

/// For machine code: what has come of a call of machine code, whose answer this is. If the callee has
/// replaced itself by a tail call, that is followed, without native frames being piled up.
///
/// # Safety
/// Called by machine code, or for it, with the answer as it was.
pub(crate) unsafe extern "C-unwind" fn follow(vm: *mut Vm, mut answer: u64) -> u64 {
    // SAFETY: the caller's promise: a tail call has left a complete frame.
    unsafe {
        while answer >= CODES && answer & TAIL != 0 {
            let base = (answer & !TAIL) as *mut Value;
            let inst = (*frame_closure(base)).proto;
            if (*inst).native.is_null() || (*vm).lua.interrupt.load(Ordering::Relaxed) != 0 {
                save!(vm, base, (*inst).code);
                return LEAVE;
            }
            // As machine code calls it. If its instance dies meanwhile, its addresses on the native stack
            // keep the code.
            answer = Run::at((*inst).native as usize).call(vm, base, inst, MachineCode::START);
        }
        answer
    }
}

/// Calls the machine code of the function whose complete frame is at `base`, at an entry, which is where the
/// frame's `pc` is.
///
/// # Safety
/// Machine code runs on this native stack. The instance is that of the frame's function, and has machine code
/// with this entry.
#[inline(always)]
pub(super) unsafe fn start_at(vm: *mut Vm, base: *mut Value, inst: *mut ProtoInst, entry: u32) -> u64 {
    // SAFETY: the caller's promise. The code lives while its addresses are on the native stack, as that of a
    // function which machine code calls itself.
    unsafe { (*(*inst).machine).run.call(vm, base, inst, entry) }
}

/// A frame that has begun an instruction, which may take it some time.
#[derive(Clone, Copy)]
pub(super) struct Waiting {
    pub base: *mut Value,
    /// The thread that it belongs to, and where the stack of that was.
    pub thread: *mut Thread,
    pub stack: *mut Value,
}

impl Waiting {
    /// # Safety
    /// `base` is that of a frame of the running thread.
    #[inline]
    pub unsafe fn of(vm: *mut Vm, base: *mut Value) -> Waiting {
        // SAFETY: there is always a running thread.
        unsafe {
            let thread = (*vm).lua.thread;
            let stack = (*thread).stack;
            debug_assert!(
                (stack..stack.add((*thread).stack_size)).contains(&base),
                "a frame of the stack as it is"
            );
            Waiting { base, thread, stack }
        }
    }

    /// Whether the frame lies somewhere else by now.
    ///
    /// # Safety
    /// Its thread lives.
    #[inline]
    pub unsafe fn has_moved(&self) -> bool {
        // SAFETY: the caller's promise.
        unsafe { (*self.thread).stack != self.stack }
    }
}

/// For machine code: has the interpreter do the instruction at `pc`, with all values of the frame in its
/// registers. [`STAY`]: the frame's record has the `pc` to go on at, and the frame is where it was, unless
/// the instruction is `VARARGPREP`, which moves it to the state's `base`. Whatever else it is, machine code
/// returns it.
///
/// What the instruction calls, a metamethod say, is run to its end if it has machine code.
///
/// # Safety
/// Called by machine code for its frame.
pub(crate) unsafe extern "C-unwind" fn step(
    vm: *mut Vm,
    base: *mut Value,
    k: *const Value,
    pc: *const Instr,
) -> u64 {
    const MOVES: u8 = Op::VarargPrep as u8;
    const REPLACES: u8 = Op::TailCall as u8;
    // SAFETY: the caller's promise.
    unsafe {
        let waiting = Waiting::of(vm, base);
        let exit = once(vm, base, k, pc, &raw const STOP);
        if exit != LEAVE || (*vm).lua.machine.watched {
            return exit;
        }
        match (*pc).op_byte() {
            MOVES => STAY,
            // Another function may have this base now.
            REPLACES => LEAVE,
            _ if (*vm).lua.base == base => STAY,
            _ => drive(vm, waiting),
        }
    }
}

/// For machine code: `VARARGPREP`, at `pc`, of a function with so many registers; where somebody looks at
/// instructions, or there is no room, by the interpreter. The base of the frame where it is then, or how
/// machine code is left.
///
/// # Safety
/// Called by machine code for its frame, whose arguments end at the top.
pub(crate) unsafe extern "C-unwind" fn move_up(
    vm: *mut Vm,
    base: *mut Value,
    k: *const Value,
    pc: *const Instr,
    registers: u64,
) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        if !(*vm).lua.machine.watched {
            let moved = move_above(vm, base, k, ((*pc).a() as usize, registers as usize));
            if !moved.is_null() {
                save!(vm, moved, pc.add(1));
                return moved as u64;
            }
        }
        match once(vm, base, k, pc, &raw const STOP) {
            LEAVE if !(*vm).lua.machine.watched => (*vm).lua.base as u64,
            exit => exit,
        }
    }
}

/// For machine code: has the interpreter do the instruction at `pc`, which ends the frame at `base`: a
/// return, or a tail call. The answer is that of [`super::Run`]: the base, if the caller's frame goes on.
///
/// # Safety
/// Called by machine code for its frame.
pub(crate) unsafe extern "C-unwind" fn finish(
    vm: *mut Vm,
    base: *mut Value,
    k: *const Value,
    pc: *const Instr,
) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        let parent = base.sub((*frame(base)).delta as usize);
        // Where it lay before it moved above its extra arguments.
        let called = base.sub((*frame(base)).shift_or_zero());
        let is_first = parent == base;
        // Before anything that may move the stack: a frame that waits at an address of old would not be known
        // when it comes to it, and be gone on with while it waits.
        let waiting = Waiting::of(vm, parent);
        let mut tail = None;
        if !(*vm).lua.machine.watched {
            if let Some(answer) = quick_return(vm, base, *pc) {
                return answer;
            }
            if yield_at_tail(vm, base, pc) {
                return LEAVE;
            }
            tail = quick_tail_of_native(vm, base, pc);
        }
        let exit = match tail {
            Some(Ok(answer)) => return answer,
            Some(Err(flow)) => proceeded(vm, flow),
            None => once(vm, base, k, pc, &raw const STOP),
        };
        if exit != LEAVE || (*vm).lua.machine.watched || is_first || waiting.has_moved() {
            return exit;
        }
        if (*vm).lua.base == called && (*pc).op_byte() == Op::TailCall as u8 {
            let inst = (*frame_closure(called)).proto;
            let begins = (*frame(called)).pc == (*inst).code && !(*inst).native.is_null();
            return if begins { called as u64 | TAIL } else { LEAVE };
        }
        // A tail call of `pcall`, say, has begun another function.
        if (*vm).lua.base != parent && (*pc).op_byte() == Op::TailCall as u8 {
            let exit = drive(vm, waiting);
            if exit != STAY {
                return exit;
            }
        }
        // An error that `pcall` has caught goes on with a frame further down, since that of `pcall` is in
        // between.
        if (*vm).lua.base != parent {
            return LEAVE;
        }
        // Whoever gets the answer finds its own frame by this, and a collection, or a finaliser's frame, may
        // have taken the record's place since it was left. It lies where values have nothing.
        (*frame(called)).delta = called.offset_from(parent) as u32;
        called as u64
    }
}

/// Acts on what has come of an instruction, as [`once`].
///
/// # Safety
/// As what gives the outcome promises.
pub(super) unsafe fn proceeded(vm: *mut Vm, flow: Flow) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        let exit = proceed(vm, flow);
        #[cfg(debug_assertions)]
        if exit == Exit::Next {
            // The loop of debug builds has the position.
            (*frame((*vm).lua.base)).pc = (*vm).lua.loop_pc;
        }
        exit as u64
    }
}

/// Has the interpreter do one instruction, and what follows by `table`: how a run of the interpreter would end
/// or, [`LEAVE`], go on.
///
/// # Safety
/// As [`step`].
#[inline]
pub(super) unsafe fn once(
    vm: *mut Vm,
    base: *mut Value,
    k: *const Value,
    pc: *const Instr,
    table: *const Handlers,
) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        let i = *pc;
        let exit = (HANDLERS.0[i.op_byte() as usize])(vm, base, pc.add(1), k, i.0, table);
        #[cfg(debug_assertions)]
        if exit == Exit::Next {
            // The loop of debug builds has the position, and nobody has asked for the next instruction yet.
            (*frame((*vm).lua.base)).pc = (*vm).lua.loop_pc;
        }
        debug_assert!((*vm).lua.machine.running);
        exit as u64
    }
}

impl Vm {
    /// Says whether machine code runs on the running native stack; gives back what was said before.
    #[inline]
    pub(crate) fn set_machine_running(&mut self, yes: bool) -> bool {
        let machine = &mut self.lua.machine;
        let before = std::mem::replace(&mut machine.running, yes);
        if before != yes {
            self.lua.dispatch = match (yes, machine.watched) {
                (false, _) => machine.outside,
                (true, false) => &raw const STOP,
                (true, true) => &raw const STOP_WATCHED,
            };
        }
        before
    }
}

const _: () = assert!(Op::ALL.len() <= ENTER as usize);
