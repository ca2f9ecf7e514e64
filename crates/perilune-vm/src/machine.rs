//! Machine code: how the interpreter enters it, what it may do, how it leaves.
//!
//! What makes machine code is no part of this crate: a [`Specializer`] is told of prototype instances and
//! answers with [`MachineCode`], which any number of domains can run. This module is the border between that
//! code and the interpreter.
//!
//! # Entering
//! Machine code has *entries*: the start of its function, and the instructions at which a loop comes round
//! (`FORLOOP`, `JMPBACK`, `TFORCALL`), and those behind calls, where a function goes on whose callee was
//! interpreted, or which has yielded.
//! * A function is entered by its calls: an instance with machine code hands out a *stub* instead of its
//!   first instruction, one [`ENTER`] that no chunk contains. So a call of a function without machine code
//!   costs nothing more than before.
//! * A frame whose call has come back, or which has been resumed, is entered behind the call by whoever waits
//!   for it and is machine code (`callees.rs`).
//! * A frame whose callee is interpreted, because that has no machine code, or has left it, is entered behind
//!   the call when that returns: its callee's record says so (`CONT_ENTER`; `entry.rs`).
//! * A loop that is being interpreted is entered where it comes round: once a domain has any machine code its
//!   dispatch table is [`LOOPS`], whose three entries for these opcodes look whether the running function has
//!   some. A domain that counts to find out what is hot has [`COUNTING`], which looks at calls, too.
//!
//! Both say so by calling [`Run`], with the frame complete: `base` and `pc` stored, every value in its
//! register.
//!
//! # Running
//! Machine code may keep registers of the frame in registers of the processor, as long as they are stored
//! before anything that may look at them. What it does not do by itself it leaves to [`step`], which has the
//! interpreter do one instruction. For this the domain's dispatch table is [`STOP`] while machine code runs:
//! whatever an instruction comes to (the next one, a callee's first, the handler of an error, another
//! coroutine), the interpreter stops there, stores `pc` and `base`, and `step` returns, after it has run what
//! the instruction has called if that is machine code, or comes to some soon (`stretch.rs`). It says [`STAY`]
//! if the running frame is still the one that machine code runs, and nobody wants to see its instructions: then
//! machine code goes on at the frame's `pc`. Else, or if it does not know that place, it *leaves*.
//!
//! Natives that call Lua code begin a run of the interpreter of their own, with the table that belongs there
//! (`interp::execute_with`); native stacks that are switched take along whether machine code runs on them
//! (`native_stack.rs`).
//!
//! # Leaving
//! Machine code returns how the run of the interpreter that it was entered from goes on ([`LEAVE`] and the
//! other codes). Everything that counts is in frame records, so frames of machine code on the native stack
//! mean nothing: an error, a yield or a hook drops them by returning.
//!
//! # Whose memory it is
//! An instance owns one count of its machine code, as it does of its prototype. The instance of a running
//! function may die before machine code returns (a tail call takes its frame), and machine code calls other
//! machine code directly ([`ProtoInst`]'s `native`): what dies is kept in [`Machine::dying`] while a run of
//! it is in the list of those under way, or an address in it is found on a native stack.
//!
//! # Calls and returns
//! Machine code calls Lua functions that have machine code by pushing the frame's record, as the interpreter
//! does, and calling it. A function that returns puts its results where its caller wants them and answers
//! with its base; the caller takes its own from that, since the stack may have moved. A tail call of such a
//! function is a jump to its machine code, with its frame where that of the caller was. Any other answer is
//! passed on: so all frames of machine code vanish, and the interpreter goes on with what the records say.
//!
//! Rejected: a copy of the bytecode with other opcodes in each instance (it costs nothing where no loop has
//! machine code, but frames then hold positions in either text, and everything that reads one has to ask
//! which); handlers that look for machine code at each call and loop in all domains.

mod callees;
mod departures;
mod direct;
mod entries;
mod entry;
mod iterate;
pub mod layout;
mod leaf;
mod log;
mod metamethods;
mod natives;
mod paths;
mod patience;
mod points;
mod room;
mod rounds;
mod run;
mod site;
mod stepper;
mod stretch;
mod switching;
mod ticks;
mod unexpected;

pub use crate::events::place_of;
pub use departures::{Departures, Home, LEAVE_AT, Leave, Saved, depart};
pub use leaf::{NOT_DONE, UNKNOWN};
pub use log::{Log, Recording};
pub use metamethods::{Ends, Operand, Operator};
pub use paths::{AccessPlace, End, Hop, OperatorPlace, Path};
pub use points::{Built, MOST_WORDS, Point, Protected, Unmade, Word};
pub use run::{Code, KEEPS, Run, enter};
pub use stepper::Stepper;
pub use unexpected::{Role, Seen, Unexpected, name_of_register};

pub use entry::MOST_INLINED;

pub(crate) use log::{LOGGING, Logging};
pub use site::{
    APPENDS, Cache, FILLS, OF_DICTIONARY, OF_RECORD, OTHER_KEY, OTHER_OBJECT, Shapes, Site, Tags,
};
pub(crate) use ticks::{Finds, Ticks};

pub(crate) use callees::call_special;
pub(crate) use direct::call_compiled;
use entries::Entries;
pub(crate) use entry::{
    COUNTING, INTERPRETED, LOOPS, STOP, STOP_WATCHED, begin, enter_behind, finish, follow, move_up, op_enter,
    op_enter_plain, step,
};
pub(crate) use natives::call_native;
use patience::Patience;
use room::Use;
pub(crate) use stretch::STRETCH;
pub(crate) use switching::{call_resume, call_yield, iterate_coroutine};

use crate::Vm;
use crate::interp::Handlers;
use crate::interrupt::InterruptHandle;
use crate::object::ProtoInst;
use crate::value::Value;
use perilune_syntax::{Instr, Op, Proto};
use perilune_trace::clock::ticks;
use perilune_trace::event::{self, Bytes, Category, Count};
use std::any::Any;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The opcode of the stub that instances with machine code begin with. No chunk contains it.
pub(crate) const ENTER: u8 = 255;

/// The run of the interpreter is over: its entry frame has returned.
pub const RETURNED: u64 = crate::interp::Exit::Return as u64;
/// The run of the interpreter is over: an error has left it.
pub const FAILED: u64 = crate::interp::Exit::Error as u64;
/// The interpreter goes on with the frame at the state's `base`, at the `pc` of its record.
pub const LEAVE: u64 = crate::interp::Exit::Next as u64;
/// Nothing has been done: the entry does not suit the values that are there. The interpreter does the
/// instruction itself.
pub const REFUSED: u64 = 4;
/// As [`LEAVE`], because something was not as the code expects it to be. Code that does this too often is
/// given up.
pub const EXITED: u64 = 5;
/// What [`layout::step`] answers if machine code may go on, at the `pc` that it finds in the frame's record.
pub const STAY: u64 = 6;
/// Whatever is not below this is the base of the frame that machine code was entered for: it has returned,
/// its results are where its caller wants them, and the caller's frame is to go on.
pub const CODES: u64 = 16;
/// A bit beside such a base: the frame has not returned but been replaced, by a tail call that the
/// interpreter has done, and is complete. Only machine code gets to see it: [`layout::follow`].
pub const TAIL: u64 = 1;
/// A base alone has none of these bits; every code, and a base with [`TAIL`], has one.
pub const UNUSUAL: u64 = 7;

const _: () = {
    let codes = [RETURNED, FAILED, LEAVE, REFUSED, EXITED, STAY, TAIL];
    let mut n = 0;
    while n < codes.len() {
        assert!(codes[n] & UNUSUAL != 0 && codes[n] < CODES, "a code is told from a base by these bits");
        n += 1;
    }
    assert!(align_of::<Value>() as u64 > UNUSUAL, "a base has none of them");
};

/// From so many setbacks on an instance waits no longer for its next machine code.
const MOST_SETBACKS: u8 = 20;

/// The opcodes of the instructions at which a loop can be entered.
pub const LOOP_ENTRIES: [Op; 3] = [Op::ForLoop, Op::JumpBack, Op::TForCall];

/// What machine code is left for at an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Something was not as it was when it was recorded.
    Unexpected,
    /// What it has come to was of another type than expected.
    Result,
    /// It had never been recorded.
    Unseen,
}

impl Reason {
    /// How many there are.
    const ALL: usize = Reason::Unseen as usize + 1;
}

/// How often machine code of one function has been left because something was not as expected ([`EXITED`]),
/// by instruction, or because its result was not. Codes of it that are made one after the other share this.
#[derive(Debug)]
pub struct Exits {
    total: AtomicU32,
    /// For each [`Reason`], by instruction.
    sites: Box<[AtomicU32]>,
    /// How many instructions there are.
    length: usize,
    /// How often code of its loops was given up because it was entered for next to nothing.
    short: AtomicU32,
}

impl Exits {
    /// None yet.
    pub fn new(proto: &Proto) -> Arc<Exits> {
        let length = proto.code.len();
        let sites = (0..Reason::ALL * length).map(|_| AtomicU32::new(0)).collect();
        Arc::new(Exits { total: AtomicU32::new(0), sites, length, short: AtomicU32::new(0) })
    }

    /// All.
    pub fn total(&self) -> u32 {
        self.total.load(Ordering::Relaxed)
    }

    /// Those at instruction `at`, for this reason.
    pub fn at(&self, at: usize, reason: Reason) -> u32 {
        self.sites[reason as usize * self.length..][..self.length][at].load(Ordering::Relaxed)
    }

    /// Machine code of this function, or of `code`'s which it is built in, was left at instruction `at`. How
    /// often that has been, there and for this reason.
    fn count(&self, at: usize, reason: Reason, code: &Exits) -> u32 {
        code.total.fetch_add(1, Ordering::Relaxed);
        let site = &self.sites[reason as usize * self.length..][..self.length][at];
        site.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    /// How often code of the function's loops was given up because it was entered for next to nothing.
    pub fn short(&self) -> u32 {
        self.short.load(Ordering::Relaxed)
    }

    /// Code of the function's loops is given up for that.
    fn was_short(&self) {
        self.short.fetch_add(1, Ordering::Relaxed);
    }

    /// The code was entered in vain. How often it has been left by now.
    fn refused(&self) -> u32 {
        self.total.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }
}

/// How much machine code the process has made.
static MADE: AtomicU64 = AtomicU64::new(0);

/// Machine code of one prototype. It holds no pointer into any heap: all domains may run it.
pub struct MachineCode {
    stub: [Instr; 1],
    /// No other code of this process has or had this number, but for 0, which says that they have run out.
    serial: u32,
    /// Calls of the function enter it.
    starts: bool,
    run: Run,
    /// Bytes of the code from `run` on; 0: it is part of the program, and calls no other machine code.
    length: usize,
    exits: Arc<Exits>,
    /// Which of them count.
    patience: Patience,
    /// How the interpreter enters it.
    entered: Entries,
    /// How it is entered behind calls.
    behind: Entries,
    /// Code of loops that the interpreter does not enter any more, and machine code does: see `entries.rs`.
    shut: AtomicBool,
    uses: Use,
    /// For each instruction, one more than the number of its entry; 0: none.
    entries: Box<[u32]>,
    /// Those that it gives to tables, or asks for.
    shapes: Box<[u32]>,
    proto: Arc<Proto>,
    _memory: Box<dyn Any + Send + Sync>,
}

impl MachineCode {
    /// Entry of the function's start: what its calls pass to `run`.
    pub const START: u32 = 0;

    /// The code at `run`, of so many bytes (0 if it is no code that is made, but a function of the program),
    /// for `proto`, with entries at these instructions (their index in the prototype, the number to be passed
    /// to `run`), which are all of [`LOOP_ENTRIES`] or follow a call, and if it `starts` the function, at
    /// [`MachineCode::START`]. Tables get these `shapes` by it: a domain knows the names of their fields
    /// before it runs it. It counts its exits in `exits`; `memory` owns the code.
    ///
    /// # Safety
    /// `run` has this length and does what [`Code`] says, for every frame of a closure of `proto`, and what
    /// this module's essay says; its code lives as long as `memory`.
    ///
    /// # Panics
    /// An entry is no instruction of the prototype at which a loop can be entered, or which follows a call.
    pub unsafe fn new(
        proto: Arc<Proto>,
        (run, length): (Run, usize),
        starts: bool,
        entries: &[(u32, u32)],
        shapes: &[u32],
        exits: Arc<Exits>,
        memory: Box<dyn Any + Send + Sync>,
    ) -> Arc<MachineCode> {
        let mut numbers = vec![0; proto.code.len()].into_boxed_slice();
        for &(at, number) in entries {
            let op = |at: usize| proto.code[at].op();
            let comes_back = at > 0 && op(at as usize - 1) == Some(Op::Call);
            assert!(
                comes_back || log::is_loop_entry(op(at as usize)),
                "neither a loop nor a caller can be entered at {:?}",
                op(at as usize)
            );
            numbers[at as usize] = number + 1;
        }
        let stub = [Instr(ENTER as u64)];
        assert_eq!(exits.length, proto.code.len(), "exits of another function");
        let patience = Patience::new(exits.total(), length);
        let entries = numbers;
        Arc::new(MachineCode {
            stub,
            serial: u32::try_from(MADE.fetch_add(1, Ordering::Relaxed) + 1).unwrap_or(0),
            starts,
            run,
            length,
            exits,
            patience,
            entered: Entries::default(),
            behind: Entries::default(),
            shut: AtomicBool::new(false),
            uses: Use::new(),
            entries,
            shapes: shapes.into(),
            proto,
            _memory: memory,
        })
    }

    /// Whether it has been left too often because something was not as expected, or has been entered too
    /// often for too little, or had to make room.
    pub fn is_given_up(&self) -> bool {
        self.uses.is_over() || self.patience.is_over(self.exits.total()) || self.is_entered_in_vain()
    }

    /// Whether it is code of loops that leads to next to nothing wherever it is entered.
    fn is_entered_in_vain(&self) -> bool {
        !self.starts && self.entered.are_short() && !self.is_shut()
    }

    /// Whether the exits that have used up its patience took so long to come that they do not matter: then it
    /// has as much as at first.
    fn is_left_rarely(&self) -> bool {
        !self.is_entered_in_vain() && self.patience.begins_anew(self.exits.total(), ticks())
    }

    /// Whether it is better than the interpreter all the same, though it has been left too often.
    fn is_worth_keeping(&self) -> bool {
        !self.is_entered_in_vain() && !self.patience.is_hopeless(self.exits.total(), ticks())
    }

    /// Whether a loop is entered at instruction `at`.
    fn is_entered_at(&self, at: usize) -> bool {
        self.entries.get(at).is_some_and(|&entry| entry != 0)
    }

    /// Whether it can be entered behind calls.
    fn goes_on_behind_calls(&self) -> bool {
        let comes_back = |at: usize| at > 0 && self.proto.code[at - 1].op() == Some(Op::Call);
        (0..self.entries.len()).any(|at| self.is_entered_at(at) && comes_back(at))
    }

    /// Whose code it is.
    pub fn proto(&self) -> &Arc<Proto> {
        &self.proto
    }
}

/// Where machine code lies: from the first address to the second. A process has one region of it; both are 0
/// until there is one.
static CODE: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

/// Says where all machine code of the process will lie. Of several regions the last one counts: samplers tell
/// machine code by it.
pub fn set_code_region(region: std::ops::Range<usize>) {
    CODE[0].store(region.start, Ordering::Relaxed);
    CODE[1].store(region.end, Ordering::Relaxed);
}

/// Whether machine code lies at an address. For signal handlers.
pub(crate) fn is_machine_code(address: usize) -> bool {
    (CODE[0].load(Ordering::Relaxed)..CODE[1].load(Ordering::Relaxed)).contains(&address)
}

/// What makes machine code. It is asked from the threads of all domains.
pub trait Specializer: std::fmt::Debug + Send + Sync {
    /// A domain has made an instance of `proto`: its machine code, if there is some by now.
    fn code_of(&self, proto: &Arc<Proto>) -> Option<Arc<MachineCode>>;
    /// How often the loops of an instance come round, and how many calls it makes, before it is hot, and what
    /// they meet is recorded; 0: they never are.
    fn threshold(&self) -> u32 {
        0
    }
    /// How many instructions are recorded of what a hot loop meets.
    fn quota(&self) -> u32 {
        20_000
    }
    /// A domain begins, with this to interrupt it: it wants ticks ([`crate::interrupt::TICK`]) and new
    /// machine code.
    fn attach(&self, _domain: InterruptHandle) {}
    /// A domain has seen its tick: as many as this stands for, since ticks come more rarely where nobody waits
    /// for one.
    fn ticked(&self) -> u32 {
        1
    }
    /// A domain waits for its next tick: it may be the one after which what runs is recorded.
    fn awaited(&self) {}
    /// In a domain that had machine code running at its last ticks, the interpreter goes on: what comes now has no
    /// machine code, perhaps, and a tick would soon find that out.
    fn resumed(&self) {}
    /// Whether something could be made of a recording now.
    fn may_compile(&self) -> bool {
        true
    }
    /// A tick has found a function without machine code: whether to record what runs, however long ago it was
    /// recorded. That is then done.
    fn is_due(&self) -> bool {
        false
    }
    /// The machine code that has been made for a domain, which was told of it by
    /// [`crate::interrupt::INSTALL`], since it last asked.
    fn fetch(&self, _domain: &InterruptHandle) -> Vec<Arc<MachineCode>> {
        Vec::new()
    }
    /// How often code has been [retired](MachineCode::retire), which domains are to let go of.
    fn retirements(&self) -> u32 {
        0
    }
    /// What an address in machine code stands for: a function and its instruction, then the call that it was
    /// built in place of, and so on; the compiled function comes last.
    fn locate(&self, _address: usize) -> Vec<(Arc<Proto>, usize)> {
        Vec::new()
    }
    /// Whether it wants to be told where machine code is left because something was not as expected.
    fn wants_exits(&self) -> bool {
        false
    }
    /// It has been left there.
    fn exited(&self, _exit: &Unexpected) {}
    /// It has been left once more before instruction `at` of a function, as often before: this is only
    /// counted.
    fn exited_again(&self, _proto: &Arc<Proto>, _at: usize) {}
    /// This is what functions have met just after machine code has been left: it is to be known when there is
    /// a reason to compile them again.
    fn learn(&self, _logs: Vec<Log>) {}
    /// This is what functions have met for a while, the first of them one that is hot: machine code for some
    /// of them, by their number here. Called on the domain's own thread, which waits.
    fn compile(&self, _recording: Recording) -> Vec<(usize, Arc<MachineCode>)> {
        Vec::new()
    }
}

/// What a domain knows of machine code.
pub(crate) struct Machine {
    /// See [`Specializer::threshold`]; 0: nothing is counted.
    pub threshold: u32,
    /// See [`Specializer::quota`].
    quota: u32,
    /// What ticks have found.
    pub ticks: Ticks,
    /// What is being recorded.
    pub logging: Option<Box<Logging>>,
    pub specializer: Option<Arc<dyn Specializer>>,
    /// See [`Specializer::wants_exits`].
    wants_exits: bool,
    /// Some instance has machine code.
    pub any: bool,
    /// Machine code runs on the running native stack, and not the interpreter above it.
    pub running: bool,
    /// The native whose quick form runs, by its address, for samples; 0: none does. Of a native with upvalues it
    /// is the closure's address, which tells samplers nothing. Written by the domain's thread, read by signal
    /// handlers that interrupt it.
    pub quick: AtomicUsize,
    /// Where [`stretch`] runs, on the native stack, innermost; 0: it does not. For signal handlers, as `quick`.
    pub stretch: AtomicUsize,
    /// The dispatch table where no machine code runs ([`Vm::update_dispatch`]).
    pub outside: *const Handlers,
    /// The program assigns variables of functions that run, by `debug.setlocal`: it is interpreted from then
    /// on.
    pub distrusted: bool,
    /// Hooks or checks want to see every instruction: machine code leaves at the next that it does not do
    /// itself.
    pub watched: bool,
    /// Allocations are sampled. Each is to be found at the line that makes it, under the function that does,
    /// so nothing runs as machine code, which knows neither while it allocates.
    pub sampled: bool,
    /// Machine code has been left for an interrupt that is to be acted on, with the frame at this address: what
    /// a tick finds there is not interpreted.
    pub polled: Option<usize>,
    /// The loops that were under way when the last recording ended, and what the thread had taken.
    rounds: (rounds::Rounds, u64),
    /// So many places in classes are to be found by a leaf until the site that asks has its cache renewed.
    pub missed: u32,
    /// A `pcall` has caught an error since somebody has asked.
    pub caught: bool,
    /// What the code counts in that was left last because something was not as expected. To be compared, not
    /// to be followed.
    left: (*const Exits, u32),
    /// Runs under way, on whichever native stack, innermost first.
    runs: *mut Active,
    /// The collector hears of so many bytes more of tables that machine code does not make
    /// ([`layout::VM_UNMADE`]).
    pub unmade: i64,
    /// What tables are that machine code has not made, while it is being left.
    pub words: points::Words,
    /// How often code had been retired when this domain last let go of such code.
    retirements: u32,
    /// Codes whose instances are dead; [`Vm::bury_machine_code`] frees those that no run is in.
    dying: Vec<Arc<MachineCode>>,
}

impl Default for Machine {
    fn default() -> Machine {
        Machine {
            threshold: 0,
            quota: 0,
            ticks: Ticks::default(),
            logging: None,
            distrusted: false,
            specializer: None,
            wants_exits: false,
            any: false,
            running: false,
            quick: AtomicUsize::new(0),
            stretch: AtomicUsize::new(0),
            outside: &raw const crate::interp::HANDLERS,
            watched: false,
            sampled: false,
            polled: None,
            rounds: Default::default(),
            missed: 0,
            caught: false,
            left: (std::ptr::null(), 0),
            runs: null_mut(),
            unmade: leaf::PORTION,
            words: [0; MOST_WORDS],
            retirements: 0,
            dying: Vec::new(),
        }
    }
}

/// A run of machine code that the interpreter has begun, on the native stack it runs on.
struct Active {
    code: *const MachineCode,
    previous: *mut Active,
    next: *mut Active,
}

impl Machine {
    /// The dispatch table that instructions are done by where nobody looks at them.
    pub fn table(&self) -> &'static Handlers {
        match self {
            Machine { distrusted: true, .. } => &crate::interp::HANDLERS,
            Machine { sampled: true, .. } => &INTERPRETED,
            Machine { logging: Some(_), .. } => &LOGGING,
            Machine { any: true, threshold: 1.., .. } => &COUNTING,
            Machine { any: true, .. } => &LOOPS,
            _ => &crate::interp::HANDLERS,
        }
    }

    /// The instance is dead.
    ///
    /// # Safety
    /// It has not been freed yet.
    pub unsafe fn forget_instance(&mut self, inst: *mut ProtoInst) {
        if let Some(logging) = &mut self.logging {
            logging.forget(inst);
        }
        // SAFETY: the caller's promise.
        self.forget(unsafe { (*inst).machine });
    }

    /// The instance of this code is dead, or has it no longer.
    fn forget(&mut self, code: *const MachineCode) {
        if !code.is_null() {
            // SAFETY: the instance owned a count, which ends here.
            self.dying.push(unsafe { Arc::from_raw(code) });
        }
    }

    /// # Safety
    /// `run` stays where it is until `end` is called with it, by the thread that owns the domain.
    unsafe fn begin(&mut self, run: *mut Active) {
        // SAFETY: the list's members are on native stacks that live.
        unsafe {
            (*run).next = self.runs;
            if !self.runs.is_null() {
                (*self.runs).previous = run;
            }
            self.runs = run;
        }
    }

    /// # Safety
    /// `run` is in the list.
    unsafe fn end(&mut self, run: *mut Active) {
        // SAFETY: as `begin`.
        unsafe {
            let (previous, next) = ((*run).previous, (*run).next);
            match previous.is_null() {
                true => self.runs = next,
                false => (*previous).next = next,
            }
            if !next.is_null() {
                (*next).previous = previous;
            }
        }
    }

    /// Whether a run of it has been told, or may be found on a native stack: machine code calls machine code
    /// without telling.
    fn is_in_use(&self, code: &MachineCode, stacks: &[(usize, usize)]) -> bool {
        let (low, high) = (code.run.address(), code.run.address() + code.length);
        let mut run = self.runs;
        while !run.is_null() {
            let address = run as usize;
            // SAFETY: the list's members are on native stacks that live.
            let (ran, next) = unsafe { ((*run).code, (*run).next) };
            let parked = !stacks.iter().any(|&(low, end)| (low..end).contains(&address));
            if std::ptr::eq(ran, code) || (parked && code.length > 0) {
                return true;
            }
            run = next;
        }
        let is_address_of_it = |at: usize| {
            // SAFETY: native stacks are readable from where they are in use to their ends.
            let word = unsafe { perilune_heap::stack_word(at) };
            (low..high).contains(&word)
        };
        !self.runs.is_null()
            && stacks
                .iter()
                .any(|&(low, end)| (low.next_multiple_of(8)..end & !7).step_by(8).any(is_address_of_it))
    }

    /// Frees the code of dead instances that is not being run. `stacks` gives the native stacks of the thread
    /// that owns the domain, each from where it is in use to its end.
    pub fn bury(&mut self, stacks: impl FnOnce() -> Vec<(usize, usize)>) {
        if self.dying.is_empty() {
            return;
        }
        let stacks = stacks();
        let mut dying = std::mem::take(&mut self.dying);
        dying.retain(|code| self.is_in_use(code, &stacks));
        self.dying = dying;
    }

    /// The domain ends. A run under way never goes on, but it stands on its code.
    pub fn abandon(&mut self, stacks: impl FnOnce() -> Vec<(usize, usize)>) {
        self.bury(stacks);
        self.dying.drain(..).for_each(std::mem::forget);
    }
}

impl Vm {
    /// From now on prototypes that are instantiated are shown to `specializer`, and hot loops too.
    pub fn set_specializer(&mut self, specializer: Arc<dyn Specializer>) {
        self.lua.machine.threshold = specializer.threshold();
        self.lua.machine.quota = specializer.quota();
        self.lua.machine.wants_exits = specializer.wants_exits();
        self.lua.machine.any |= self.lua.machine.threshold != 0;
        specializer.attach(self.interrupt_handle());
        self.lua.machine.specializer = Some(specializer);
        self.update_dispatch();
    }

    /// A variable of a function that perhaps runs as machine code has been assigned from without: machine
    /// code leaves where it notices, and none is entered any more. For debuggers.
    pub(crate) fn distrust_machine_code(&mut self) {
        self.lua.machine.distrusted = true;
        self.update_dispatch();
    }

    /// The machine code for a new instance of this prototype, if there is some.
    #[inline]
    pub(crate) fn find_machine_code(&self, proto: &Arc<Proto>) -> Option<Arc<MachineCode>> {
        let code = self.lua.machine.specializer.as_ref()?.code_of(proto)?;
        assert!(Arc::ptr_eq(code.proto(), proto), "machine code of another prototype");
        Some(code)
    }

    /// # Safety
    /// `inst` is a live instance of the code's prototype.
    pub(crate) unsafe fn give_machine_code(&mut self, inst: *mut ProtoInst, code: Arc<MachineCode>) {
        code.shapes.iter().for_each(|&shape| self.adopt_shape(shape));
        // SAFETY: the caller's promise.
        unsafe {
            self.lua.machine.forget((*inst).machine);
            if perilune_trace::on(Category::Compile) {
                let size = Bytes::from(code.length);
                perilune_trace::emit(event::CodeInstalled { name: Vm::code_name(&code.proto), size });
            }
            let starts = code.starts;
            (*inst).code = if starts { code.stub.as_ptr() } else { code.proto.code.as_ptr() };
            (*inst).native = if starts { code.run.address() as *const () } else { std::ptr::null() };
            (*inst).machine = Arc::into_raw(code);
        }
        if !std::mem::replace(&mut self.lua.machine.any, true) {
            self.update_dispatch();
        }
    }

    /// The machine code of `inst` has met too much that it does not expect: the function is interpreted, and
    /// looked at again when it is hot again, which takes twice as long each time.
    ///
    /// # Safety
    /// `inst` is a live instance.
    #[cold]
    unsafe fn give_up_machine_code(&mut self, inst: *mut ProtoInst) {
        // SAFETY: the caller's promise.
        unsafe {
            self.take_machine_code(inst);
            self.lua.machine.bury(|| self.lua.stacks.running.in_use());
            (*inst).heat = 0;
            (*inst).setbacks = ((*inst).setbacks + 1).min(MOST_SETBACKS);
        }
    }

    /// The instance has no machine code any more; what it had is freed when nobody runs it.
    ///
    /// # Safety
    /// `inst` is a live instance.
    unsafe fn take_machine_code(&mut self, inst: *mut ProtoInst) {
        // SAFETY: the caller's promise; the instance has a count of its code.
        unsafe {
            let code = std::mem::replace(&mut (*inst).machine, std::ptr::null());
            if perilune_trace::on(Category::Compile) && !code.is_null() {
                let exits = Count::from((*code).patience.counted((*code).exits.total()) as usize);
                perilune_trace::emit(event::CodeGivenUp { name: Vm::code_name(&(*code).proto), exits });
            }
            self.lua.machine.forget(code);
            (*inst).native = std::ptr::null();
            (*inst).code = (*(*inst).proto).code.as_ptr();
        }
    }
}
