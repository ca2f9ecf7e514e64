//! How often instructions of files have run: a dispatch table whose every entry counts.
//!
//! It is for the coverage of tests: which lines has nothing executed? Once [`count_instructions`] has been
//! called, each domain that is made has [`COUNTED`] for its dispatch table. An entry finds the counters of
//! the running function, adds one to that of the instruction, and jumps to the plain handler. Code that is
//! not counted pays nothing.
//!
//! **Counters** belong to a domain and a prototype, one for each instruction; a domain gets them when it
//! first runs the function. Only the domain writes them, with plain loads and stores; they are atomic so that
//! [`lines_executed`] may read them from outside. So counts are exact on any number of domains, without an
//! instruction that locks. What a domain has counted outlives it: at its end the counts are added to those of
//! the domains before it.
//!
//! **From instructions to lines.** A line has been executed as often as the one of its instructions that has
//! run most often: the head of a loop as often as it was tested, a call as often as it was made. All
//! functions within those that have run are known too, so a line of a function that nothing has called has
//! the count 0. The `return` that the compiler puts at the end of a function is no line: a function that
//! always returns before would have an `end` that looks forgotten.
//!
//! Only code of files is counted (chunk names with `@`). While a hook is set in a coroutine, its code is not.
//!
//! Rejected: line hooks (a call for each line, and other lines than those compiled), counting opcodes in the
//! bytecode (names in messages, listings and the verifier would see other code than without them), one shared
//! counter for all domains (a locked instruction for each instruction).

use super::{HANDLERS, Handlers, frame_closure, op};
use crate::Vm;
use crate::value::Value;
use perilune_syntax::{Instr, Op, Proto};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The table whose every entry is [`op_counted`].
pub(crate) static COUNTED: Handlers = Handlers(counting());

const fn counting() -> [super::Handler; 256] {
    let mut table: [super::Handler; 256] = [op_counted; 256];
    table[crate::machine::ENTER as usize] = crate::machine::op_enter_plain;
    table
}

/// Whether domains that are made count.
static WANTED: AtomicBool = AtomicBool::new(false);
/// What has been counted.
static ALL: Mutex<Option<All>> = Mutex::new(None);

/// For each file, by its chunk name without `@`: how often its lines have been executed.
pub type Executed = BTreeMap<Vec<u8>, BTreeMap<u32, u64>>;

/// By the address of a prototype, which is kept: a number, or a cell, for each of its instructions.
type ByFunction<C> = HashMap<usize, (Arc<Proto>, C)>;

#[derive(Default)]
struct All {
    /// Of domains that there are.
    living: Vec<Arc<Counts>>,
    /// Of those that have ended.
    past: ByFunction<Vec<u64>>,
}

/// What one domain has counted.
#[derive(Default)]
struct Counts {
    functions: Mutex<ByFunction<Box<[AtomicU64]>>>,
}

/// The counters at work in a domain. Those of the function that was counted last are at hand.
pub(crate) struct Counter {
    counts: Arc<Counts>,
    /// The prototype at hand, kept so that its address is nobody else's meanwhile.
    kept: Option<Arc<Proto>>,
    proto: *const Proto,
    code: *const Instr,
    /// Null if the function is not counted.
    counters: *const AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on the domains that are made count what they execute.
pub fn count_instructions() {
    WANTED.store(true, Ordering::Relaxed);
}

/// How often lines have been executed so far.
pub fn lines_executed() -> Executed {
    let mut sums: ByFunction<Vec<u64>> = HashMap::new();
    if let Some(all) = lock(&ALL).as_ref() {
        sums.clone_from(&all.past);
        for counts in &all.living {
            counts.add_to(&mut sums);
        }
    }
    let mut executed = Executed::new();
    for (proto, counts) in sums.values() {
        add_lines(proto, Some(counts), &mut executed);
    }
    executed
}

/// Enters the lines of `proto` and of all functions within it.
fn add_lines(proto: &Proto, counts: Option<&[u64]>, executed: &mut Executed) {
    let Some(file) = proto.source.strip_prefix(b"@") else { return };
    let lines = executed.entry(file.to_vec()).or_default();
    for (at, line) in proto.lines.iter().enumerate() {
        let is_end = at + 1 == proto.code.len() && proto.code[at].op() == Some(Op::Return0);
        if !is_end {
            let count = counts.map_or(0, |counts| counts[at]);
            lines.entry(line).and_modify(|most| *most = count.max(*most)).or_insert(count);
        }
    }
    for inner in &proto.protos {
        add_lines(inner, None, executed);
    }
}

impl Counts {
    fn add_to(&self, sums: &mut ByFunction<Vec<u64>>) {
        for (&key, (proto, counters)) in lock(&self.functions).iter() {
            let (_, sum) = sums.entry(key).or_insert_with(|| (Arc::clone(proto), vec![0; counters.len()]));
            for (sum, counter) in sum.iter_mut().zip(counters) {
                *sum += counter.load(Ordering::Relaxed);
            }
        }
    }
}

impl Counter {
    /// The function at hand is `proto` from now on.
    ///
    /// # Safety
    /// It is the prototype of an instance, which holds an `Arc` of it.
    #[cold]
    #[inline(never)]
    unsafe fn change_to(&mut self, proto: *const Proto) {
        // SAFETY: the caller's promise.
        let kept = unsafe {
            Arc::increment_strong_count(proto);
            Arc::from_raw(proto)
        };
        self.proto = proto;
        self.code = kept.code.as_ptr();
        self.counters = std::ptr::null();
        self.kept = Some(Arc::clone(&kept));
        if kept.source.starts_with(b"@") {
            let mut functions = lock(&self.counts.functions);
            let (_, counters) = functions.entry(proto as usize).or_insert_with(|| {
                let counters = kept.code.iter().map(|_| AtomicU64::new(0)).collect();
                (kept, counters)
            });
            // A box does not move when the map grows, and nothing is taken out of the map.
            self.counters = counters.as_ptr();
        }
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        if let Some(all) = lock(&ALL).as_mut() {
            all.living.retain(|counts| !Arc::ptr_eq(counts, &self.counts));
            self.counts.add_to(&mut all.past);
        }
    }
}

op!(
    /// Every opcode's entry in the table.
    #[inline(never)] op_counted(vm, base, pc, k, i, tab) {
    (*vm).count_instruction(base, pc);
    (HANDLERS.0[i.op_byte() as usize])(vm, base, pc, k, i.0, tab)
});

impl Vm {
    /// Counts in this domain, if that is wanted.
    pub(crate) fn begin_counting(&mut self) {
        if !WANTED.load(Ordering::Relaxed) {
            return;
        }
        let counts = Arc::<Counts>::default();
        lock(&ALL).get_or_insert_default().living.push(Arc::clone(&counts));
        self.lua.seen.counter = Some(Box::new(Counter {
            counts,
            kept: None,
            proto: std::ptr::null(),
            code: std::ptr::null(),
            counters: std::ptr::null(),
        }));
        self.update_dispatch();
    }

    /// The instruction before `pc` is about to run in the Lua frame at `base`.
    #[inline(always)]
    unsafe fn count_instruction(&mut self, base: *mut Value, pc: *const Instr) {
        let Some(counter) = self.lua.seen.counter.as_mut() else { return };
        // SAFETY: handlers run on a Lua frame, whose closure has an instance with its prototype; `pc` is
        // behind an instruction of it, and there is a counter for each.
        unsafe {
            let proto = (*(*frame_closure(base)).proto).proto;
            if counter.proto != proto {
                counter.change_to(proto);
            }
            if !counter.counters.is_null() {
                let cell = &*counter.counters.add(pc.offset_from(counter.code) as usize - 1);
                // Only this domain writes here.
                cell.store(cell.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }
        }
    }
}
