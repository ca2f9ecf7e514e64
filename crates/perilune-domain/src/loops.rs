//! Parallel loops: `pool:parallel_for`, `parallel_reduce`, `parallel_find`, and what is built on them.
//!
//! # Dividing
//! A loop begins as one part, the whole range. Whoever runs a part takes it in bites from its lower end, and
//! before each bite gives the upper half of what is left to the pool if some worker is idle (`Seat::hungry`).
//! So a loop is divided as often as somebody is there to take a part, and no more; a part that runs alone is
//! a plain Lua loop, with a look at the queue every [`BITE`] or so. Without a `chunk` a bite is as long as
//! that takes; with one it is that many iterations.
//!
//! # Fairness
//! Between two bites a part lets go first what waits in its domain: a fiber that is ready, or a task that has
//! waited for a worker. So neither is behind a loop for longer than a bite, or than an iteration if that
//! takes longer. A task that comes while the pool has only loops to run takes turns with one of them.
//!
//! # Order
//! Parts are disjoint ranges, each run upwards by one fiber. Partial results of a reduction are kept with the
//! first index of their part and combined in order of these, by whoever called: so the operator need not
//! commute, and the initial value is used once.
//!
//! How parts take bites, stop each other and end together is in `sched/course.rs`, which knows no Lua and is
//! model-checked.
//!
//! # Time
//! A loop with a `timeout` that is not done in time is stopped as an error would stop it: nobody takes
//! another bite, bodies are cancelled, and the caller goes on when all have come to rest. Time is watched by
//! the caller's wait, so a loop without the option pays nothing.
//!
//! # Errors
//! The first error stops the loop: nobody takes another bite, and fibers that run bodies are cancelled, which
//! stops them at their next call, iteration or wait. Of the errors that were raised the one of the lowest
//! index is raised again by the caller, when all parts have ended. A find that has found cancels what lies
//! above.
//!
//! The index at which a body failed is read from the loop's own frame by the message handler, so that a loop
//! without errors does nothing for it.

use crate::domain::{Domain, Finishes};
use crate::module::{PRELUDE_NAME, prelude};
use crate::options;
use crate::outcome::{self, End, Failure, Outcome};
use crate::pool::{self, Inner, Work};
use crate::races;
use crate::sched::Reason;
use crate::sched::course::{Cancel, Course, Portion};
use crate::time::{Limit, refuse_late};
use crate::wait::{self, Object, Turn};
use parking_lot::Mutex;
use perilune_trace::event::{self, Count, Ending, Index, Verb};
use perilune_trace::{Category, FiberRef, ObjectKind, emit, on};
use perilune_vm::debug::Site;
use perilune_vm::parcel::{PackRules, Parcel};
use perilune_vm::shared::{SharedKind, SharedObject};
use perilune_vm::{FiberEnd, Gc, LuaResult, Native, Table, Thrown, Type, Value, Vm};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The kind of parts, as the loop's own Lua code sees them.
static PART: SharedKind = SharedKind::new("part", open_part);

/// How long a bite should take.
const BITE: Duration = Duration::from_micros(50);

/// What a loop is for: which function of the prelude runs its parts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    For,
    Reduce,
    Find,
}

/// A fiber that runs a part: its domain, its number there.
type Runner = (Weak<Domain>, u64);

impl Cancel for Runner {
    fn cancel(&self) {
        if let Some(domain) = self.0.upgrade() {
            domain.cancel(&[self.1], Finishes::First);
        }
    }
}

/// A loop that runs.
struct Loop {
    purpose: Purpose,
    body: Parcel,
    chunk: Option<i64>,
    course: Course<Runner, End>,
    /// Partial results by the first index of their part; of a find, what was found by its index.
    partials: Mutex<Vec<(i64, Parcel)>>,
    ended: Arc<Outcome>,
    stamp: races::Stamp,
    /// Its time was over before it was done.
    late: AtomicBool,
    /// Its end has been written as an event: the native may be called again after it.
    reported: AtomicBool,
    /// The program's call.
    site: Option<Site>,
}

/// A range of a loop that is one piece of work.
pub(crate) struct Part {
    of: Arc<Loop>,
    lo: i64,
    hi: i64,
}

/// A part that runs.
struct PartState {
    of: Arc<Loop>,
    pool: Arc<Inner>,
    portion: Arc<Portion>,
    /// When the last bite was taken.
    bitten: Mutex<Instant>,
    /// The fiber that runs it, as events call it.
    fiber: AtomicU64,
    /// Its fiber in the domain.
    strand: AtomicU64,
}

impl SharedObject for PartState {
    fn kind(&self) -> &'static SharedKind {
        &PART
    }
}

impl Loop {
    /// A part has ended.
    fn part_ended(&self) {
        if self.course.portion_ended() {
            self.ended.cancel();
        }
    }
}

/// A part fails with this: there is nothing to run it in.
pub(crate) fn refuse(part: Part, pool: &Inner, end: End) {
    if !part.of.course.is_stopped() {
        part.of.course.fail(part.lo, end, None);
    }
    part.of.part_ended();
    pool.finished();
}

/// Starts a part in a domain of the pool.
pub(crate) fn start(part: Part, pool: &Arc<Inner>, domain: &Arc<Domain>, vm: &mut Vm) {
    let of = Arc::clone(&part.of);
    let below = vm.nargs();
    let finished = Arc::clone(pool);
    if of.course.is_over(part.lo) {
        of.part_ended();
        return finished.finished();
    }
    let state = Arc::new(PartState {
        of: Arc::clone(&of),
        pool: Arc::clone(pool),
        portion: Arc::new(Portion::new(part.lo, part.hi)),
        bitten: Mutex::new(Instant::now()),
        fiber: AtomicU64::new(0),
        strand: AtomicU64::new(0),
    });
    let (weak, mine) = (Arc::downgrade(&state), Arc::clone(&state));
    let portion = Arc::clone(&state.portion);
    // With a stamp each iteration is told from the others.
    let runner = match (of.purpose, of.stamp.is_some()) {
        (Purpose::For, false) => "each",
        (Purpose::For, true) => "each_apart",
        (Purpose::Reduce, false) => "reduce",
        (Purpose::Reduce, true) => "reduce_apart",
        (Purpose::Find, false) => "find",
        (Purpose::Find, true) => "find_apart",
    };
    let (first, last) = (part.lo, part.hi);
    let started = outcome::unpack_once(vm, &of.body).and_then(|n| {
        // This may run Lua code, and so collect: nothing may be in the list of arguments only before.
        let body = prelude(vm, runner)?;
        let mut args: Vec<Value> = vec![vm.shared_ref(state).into()];
        args.extend((below + 1..=below + n).map(|i| vm.stack_get(i)));
        let (of, pool) = (Arc::clone(&of), Arc::clone(pool));
        domain.add_fiber(
            vm,
            body,
            &args,
            Box::new(move |domain, vm, end| {
                mine.portion.end();
                vm.end_strand(mine.strand.load(Ordering::Relaxed));
                if on(Category::Task) {
                    let next = mine.portion.next();
                    let fiber = FiberRef(mine.fiber.load(Ordering::Relaxed));
                    emit(event::PartEnd { object: of.ended.identity.get(), fiber });
                    emit(event::PartRange { first: Index(first), last: Index(next) });
                }
                if let FiberEnd::Failed { .. } = end {
                    // Not a body's error, which the part reports itself: memory is short, or a partial result
                    // cannot cross.
                    let end = crate::spawn::conclude(vm, end, domain);
                    of.course.fail(first, end, None);
                }
                races::rejoin(vm);
                of.ended.order.leave(vm);
                of.part_ended();
                pool.finished();
            }),
        )
    });
    vm.truncate(below);
    match started {
        Ok(id) => {
            vm.begin_strand(id);
            if let Some(state) = weak.upgrade() {
                state.strand.store(id, Ordering::Relaxed);
            }
            if of.stamp.is_some() {
                domain.owner(vm).begin_strand(id, races::started(&of.stamp, races::Kind::Loop));
            }
            if on(Category::Task)
                && let Some(state) = weak.upgrade()
            {
                let fiber = vm.fiber_ref(id);
                state.fiber.store(fiber.0, Ordering::Relaxed);
                emit(event::PartBegin { object: of.ended.identity.get(), fiber });
                emit(event::PartRange { first: Index(first), last: Index(last) });
            }
            of.course.enter(&portion, (Arc::downgrade(domain), id));
            domain.run(vm, id);
        }
        Err(e) => {
            let value = vm.host_error(e);
            vm.push(value);
            let end = crate::spawn::conclude(vm, FiberEnd::Failed { traceback: Vec::new() }, domain);
            vm.truncate(below);
            of.course.fail(first, end, None);
            of.part_ended();
            finished.finished();
        }
    }
}

// -- What the prelude calls ---------------------------------------------------------------------------------

fn open_part(vm: &mut Vm, mt: Gc<Table>) -> LuaResult<()> {
    crate::objects::fill(vm, mt, &[&TAKE, &PARTIAL, &FOUND, &HANDLER, &APART, &REJOIN], &[])
}

fn part(vm: &mut Vm) -> LuaResult<Arc<PartState>> {
    vm.check_shared_arc(1, &PART)
}

/// `part:take()`: the next bite, first and last index; nothing if the part is done.
static TAKE: Native = Native::leaf("take", |vm| {
    let part = part(vm)?;
    let of = &part.of;
    match wait::woken(vm)? {
        Turn::First => {
            let has_begun = part.portion.next() != part.portion.first();
            if has_begun && Domain::of(vm)?.others_wait(&part.pool) {
                return Err(wait::give_way(vm)?);
            }
        }
        Turn::Asleep => return Err(vm.park()),
        Turn::Woken(..) => wait::finish(vm),
    }
    let mut bitten = part.bitten.lock();
    let size = |last: i64, has_begun| match of.chunk {
        Some(chunk) => chunk,
        None if of.stamp.is_some() => last,
        None => match bitten.elapsed() {
            took if took < BITE / 2 && has_begun => last.saturating_mul(2),
            took if took > BITE * 2 => last / 2,
            _ => last,
        },
    };
    let domain = Domain::of(vm)?;
    let is_wanted = || domain.seat_in(&part.pool).is_some_and(|s| s.hungry());
    let Some(bite) = part.portion.take(&of.course, size, is_wanted) else { return Ok(0) };
    *bitten = Instant::now();
    drop(bitten);
    if let Some((lo, hi)) = bite.upper {
        part.pool.submit_part(Domain::of(vm)?, Part { of: Arc::clone(of), lo, hi });
    }
    vm.push(Value::int(bite.lo));
    vm.push(Value::int(bite.hi));
    Ok(2)
});

/// `part:apart(index, hi, before)`: what runs from now on is this iteration, in no order with others. Or, if
/// the loop has chunks, the one that goes on to `hi`, of which there have been so many iterations before. A
/// bite of a loop without chunks is one iteration where iterations are told apart.
static APART: Native = Native::leaf("apart", |vm| {
    let part = part(vm)?;
    let (lo, hi) = (vm.check_int(2)?, vm.check_int(3)?);
    let before = vm.check_int(4)?;
    let range = if part.of.chunk.is_some() { (lo, hi) } else { (lo, lo) };
    races::apart(vm, &part.of.stamp, range, before > 0 && part.of.chunk.is_some());
    Ok(0)
});

/// `part:rejoin()`: they are over.
static REJOIN: Native = Native::leaf("rejoin", |vm| {
    races::rejoin(vm);
    Ok(0)
});

/// `part:partial(v)`: the result of the part.
static PARTIAL: Native = Native::leaf("partial", |vm| {
    let part = part(vm)?;
    let v = vm.arg(2);
    let first = part.portion.first();
    if let Some(parcel) = returned(vm, &part, first, &[v])? {
        part.of.partials.lock().push((first, parcel));
    }
    Ok(0)
});

/// `part:found(index, ...)`: what a find was looking for.
static FOUND: Native = Native::leaf("found", |vm| {
    let part = part(vm)?;
    let index = vm.check_int(2)?;
    let values: Vec<Value> = (3..=vm.nargs()).map(|n| vm.arg(n)).collect();
    if let Some(parcel) = returned(vm, &part, index, &values)? {
        part.of.partials.lock().push((index, parcel));
        part.of.course.found(index);
    }
    Ok(0)
});

/// What a function of the program has returned to the loop at this index, on its way to the caller. `None`:
/// it cannot go there, and the loop has failed; that is an error of the program's call, since nothing of the
/// program runs here.
fn returned(vm: &mut Vm, part: &PartState, index: i64, values: &[Value]) -> LuaResult<Option<Parcel>> {
    let refusal = match vm.pack_or_raise(values, PackRules::RETURNED) {
        Ok(parcel) => return Ok(Some(parcel)),
        Err(e) => vm.pack(values, PackRules::RETURNED).err().ok_or(e)?,
    };
    let text = match &part.of.site {
        Some(site) => format!("{site}: {}", refusal.text()),
        None => refusal.text(),
    };
    let value = vm.value_str(text.as_bytes())?;
    let whence = format!("domain '{}'", Domain::of(vm)?.domain.name());
    let end = End::Failed(Arc::new(Failure::new(vm, value, &[], whence)));
    part.of.course.fail(index, end, Some(&part.portion));
    Ok(None)
}

/// The message handler of a loop's bodies (upvalue: the part): notes the error with its index.
static HANDLER: Native = Native::leaf("handler", |vm| {
    let part = part(vm)?;
    let handler = vm.new_native_closure(&NOTE, &[vm.arg(1)])?;
    drop(part);
    vm.ret(handler)
});

static NOTE: Native = Native::reentrant("note", |vm| {
    let Some(part) = vm.upvalue(1).as_shared() else { return Ok(0) };
    let Some(part) = part.downcast::<PartState>() else { return Ok(0) };
    let value = vm.arg(1);
    let index = failed_index(vm).unwrap_or(part.portion.first());
    let of = Arc::clone(&part.of);
    let whence = format!("domain '{}'", Domain::of(vm)?.domain.name());
    let thread = vm.thread();
    let traceback = vm.traceback(thread, None, 1);
    let end = End::Failed(Arc::new(Failure::new(vm, value, &traceback, whence)));
    of.course.fail(index, end, Some(&part.portion));
    Ok(0)
});

/// The index at which the running loop is, read from the frame of its function in the prelude.
fn failed_index(vm: &Vm) -> Option<i64> {
    let th = vm.thread();
    for level in 0.. {
        let f = vm.function_at(th, level)?;
        if vm.function_info(f).is_some_and(|info| info.source.as_slice() == PRELUDE_NAME) {
            for n in 1.. {
                let Some((name, v)) = vm.local_at(th, level, n) else { break };
                if name == b"index" {
                    return v.as_int();
                }
            }
        }
    }
    None
}

// -- For programs -------------------------------------------------------------------------------------------

/// Runs a loop over `lo..=hi` and waits for it. `None`: it was not run, there is nothing to wait for.
///
/// Arguments from `further` on are handed to each call of the first function.
fn run(
    vm: &mut Vm,
    purpose: Purpose,
    body: &[u32],
    limits: Limits,
    further: u32,
) -> LuaResult<Option<Arc<Loop>>> {
    let Limits { chunk, time } = limits;
    let pool = pool::this(vm)?;
    match wait::woken(vm)? {
        Turn::First => {
            if let Some(remedy) = remedy(vm, purpose) {
                let text = format!("number expected, got {}; {remedy}", vm.arg(2).type_name());
                return Err(vm.arg_error(2, &text));
            }
            let (lo, hi) = (vm.check_int(2)?, vm.check_int(3)?);
            for &n in body {
                vm.check_type(n, Type::Function)?;
            }
            if pool.queue().is_closed() && Domain::of(vm)?.seat_in(&pool).is_none() {
                return Err(pool::closed(vm, &pool));
            }
            if lo > hi {
                return Ok(None);
            }
            let below = vm.nargs();
            let mut functions: Vec<Value> = body.iter().map(|&n| vm.arg(n)).collect();
            if below >= further {
                let mut args = vec![functions[0], Value::int(i64::from(below - further + 1))];
                args.extend((further..=below).map(|n| vm.arg(n)));
                let bound = prelude(vm, "bound")?;
                functions[0] = vm.call(bound, &args)?;
                // Nothing else keeps it.
                vm.push(functions[0]);
            }
            let body = vm.pack_or_raise(&functions, PackRules::LOOP);
            vm.truncate(below);
            let body = body?;
            let of = Arc::new(Loop {
                purpose,
                body,
                chunk,
                course: Course::new(),
                partials: Mutex::new(Vec::new()),
                ended: Outcome::new("a parallel loop".into(), ObjectKind::Loop),
                stamp: races::stamp(vm),
                late: AtomicBool::new(false),
                reported: AtomicBool::new(false),
                site: vm.running_site(Some(PRELUDE_NAME)),
            });
            if on(Category::Task) {
                let count = hi.abs_diff(lo).saturating_add(1);
                emit(event::LoopBegin { object: of.ended.identity.get(), iterations: Count(count) });
                let chunk = Count(chunk.unwrap_or(0) as u64);
                emit(event::LoopShape { domains: Count::from(pool.workers()), chunk });
            }
            let waiter = wait::begin(vm, Verb::WaitsFor, Object::Outcome(Arc::clone(&of.ended)))?;
            wait::set_data(vm, Arc::clone(&of));
            time.set(vm)?;
            of.ended.watch(&waiter, 0);
            let whole = Part { of, lo, hi };
            if Domain::of(vm)?.seat_in(&pool).is_some() {
                pool.submit_part(Domain::of(vm)?, whole);
            } else if pool.submit(vm, Work::Part(whole)).is_err() {
                wait::finish(vm);
                return Err(pool::closed(vm, &pool));
            }
            if wait::sleeps(vm) {
                return Err(vm.park());
            }
            run(vm, purpose, &[], limits, further)
        }
        Turn::Asleep => Err(vm.park()),
        Turn::Woken(Reason::Timeout, _)
            if wait::data::<Arc<Loop>>(vm).is_some_and(|of| of.course.is_pending()) =>
        {
            let Some(of) = wait::data::<Arc<Loop>>(vm).map(|of| Arc::clone(of)) else { return Ok(None) };
            of.late.store(true, Ordering::Relaxed);
            of.course.stop(None);
            wait::finish(vm);
            // From here on it is waited for as long as it takes: what runs has been told.
            let waiter = wait::begin(vm, Verb::WaitsFor, Object::Outcome(Arc::clone(&of.ended)))?;
            wait::set_data(vm, Arc::clone(&of));
            if of.ended.watch(&waiter, 0) && wait::sleeps(vm) {
                return Err(vm.park());
            }
            concluded(vm)
        }
        Turn::Woken(..) => concluded(vm),
    }
}

/// What to write instead if a loop is called with a list, as `pool:map` is.
fn remedy(vm: &Vm, purpose: Purpose) -> Option<&'static str> {
    let is_list = vm.arg(2).as_table().is_some() || vm.arg(2).as_shared().is_some();
    is_list.then_some(match purpose {
        Purpose::For => "a loop goes over indices: pool:parallel_for(1, #list, function(i) ... end)",
        Purpose::Reduce => {
            "a loop goes over indices: pool:parallel_reduce(1, #list, init, function(i) ... end, combine)"
        }
        Purpose::Find => "a loop goes over indices: pool:parallel_find(1, #list, function(i) ... end)",
    })
}

/// The loop of the running call has ended. `None`: there was none.
fn concluded(vm: &mut Vm) -> LuaResult<Option<Arc<Loop>>> {
    // The wait is finished by the caller, who may have to be called again for the results.
    let Some(of) = wait::data::<Arc<Loop>>(vm).map(|of| Arc::clone(of)) else { return Ok(None) };
    of.ended.order.enter(vm);
    let failure = of.course.failure();
    if on(Category::Task) && !of.reported.swap(true, Ordering::Relaxed) {
        let ending = if failure.is_some() { Ending::Failed } else { Ending::Returned };
        emit(event::LoopEnd { object: of.ended.identity.get(), ending });
    }
    match failure {
        Some(end) => outcome::deliver(vm, &of.ended, &end).map(|_| None),
        None => Ok(Some(of)),
    }
}

/// Whether a loop was stopped because its time was over.
fn is_late(of: Option<&Arc<Loop>>) -> bool {
    of.is_some_and(|of| of.late.load(Ordering::Relaxed))
}

/// `pool:parallel_for(lo, hi, f [, {chunk = n, timeout = seconds} [, ...]])`: calls `f(i, ...)` for all `i`
/// from `lo` to `hi`, in any order, and waits for all of them: true, or `nil, "timeout"`.
pub(crate) static PARALLEL_FOR: Native = Native::hybrid("parallel_for", |vm| {
    let limits = limits(vm, 5)?;
    let result = run(vm, Purpose::For, &[4], limits, 6)
        .and_then(|of| if is_late(of.as_ref()) { refuse_late(vm) } else { vm.ret(true) });
    finish(vm, result)
});

/// What the options of a loop say.
#[derive(Clone, Copy)]
struct Limits {
    chunk: Option<i64>,
    time: Limit,
}

/// Ends the wait of a native, unless it is called again.
fn finish(vm: &mut Vm, result: LuaResult<u32>) -> LuaResult<u32> {
    if !matches!(result, Err(Thrown::Park(_) | Thrown::RunAgain(_))) {
        wait::finish(vm);
    }
    result
}

fn limits(vm: &mut Vm, n: u32) -> LuaResult<Limits> {
    Ok(match options::check(vm, n, &["chunk", "timeout"])? {
        Some(options) => {
            let chunk = options.int(vm, "chunk", 1, i64::MAX)?;
            Limits { chunk, time: options.span(vm, "timeout")? }
        }
        None => Limits { chunk: None, time: Limit::None },
    })
}

/// `pool:partials(lo, hi, f, combine [, {chunk = n} [, ...]])`: a list of the partial results of a reduction,
/// in order. For the prelude.
pub(crate) static PARALLEL_REDUCE: Native = Native::hybrid("partials", |vm| {
    let result = partials(vm);
    finish(vm, result)
});

fn partials(vm: &mut Vm) -> LuaResult<u32> {
    let limits = limits(vm, 6)?;
    let of = run(vm, Purpose::Reduce, &[4, 5], limits, 7)?;
    if is_late(of.as_ref()) {
        return refuse_late(vm);
    }
    let list = vm.new_table(0, 0)?;
    vm.push(list.into());
    let mut count = 0;
    if let Some(of) = &of {
        let mut partials = of.partials.lock().clone();
        count = partials.len() as i64;
        partials.sort_by_key(|(first, _)| *first);
        for (n, (_, parcel)) in partials.iter().enumerate() {
            let below = vm.nargs();
            vm.unpack(parcel)?;
            let v = vm.stack_get(below + 1);
            vm.raw_set_int(list, n as i64 + 1, v)?;
            vm.truncate(below);
        }
    }
    vm.push(Value::int(count));
    // What combines them is the copy that the parts have had, so that it does the same however the loop was
    // divided.
    let Some(of) = of else { return Ok(2) };
    let below = vm.nargs();
    vm.unpack_once(&of.body)?;
    let combine = vm.stack_get(below + 2);
    vm.truncate(below);
    vm.push(combine);
    Ok(3)
}

/// `crossed(f)`: a function as the domains of a pool get it from here. For the prelude.
pub(crate) static CROSSED: Native = Native::leaf("crossed", |vm| {
    let f = vm.arg(1);
    if f.is_nil() {
        return vm.ret(f);
    }
    let parcel = vm.pack_or_raise(&[f], PackRules::PART)?;
    let copy = vm.unpack_one(&parcel)?;
    vm.ret(copy)
});

/// `pool:parallel_find(lo, hi, f [, {chunk = n} [, ...]])`: the lowest index `i` for which `f(i)` is true,
/// and what `f` returned; nothing if there is none.
pub(crate) static PARALLEL_FIND: Native = Native::hybrid("parallel_find", |vm| {
    let result = find(vm);
    finish(vm, result)
});

fn find(vm: &mut Vm) -> LuaResult<u32> {
    let limits = limits(vm, 5)?;
    let Some(of) = run(vm, Purpose::Find, &[4], limits, 6)? else { return vm.ret(Value::NIL) };
    if is_late(Some(&of)) {
        return refuse_late(vm);
    }
    let best = of.partials.lock().iter().min_by_key(|(index, _)| *index).cloned();
    let Some((index, parcel)) = best else { return vm.ret(Value::NIL) };
    vm.push(Value::int(index));
    Ok(vm.unpack(&parcel)? + 1)
}

/// `is_hungry(pool)`: whether a worker of the pool that runs this has nothing to do, and nothing is queued
/// for it. For the prelude.
pub(crate) static IS_HUNGRY: Native = Native::leaf("is_hungry", |vm| {
    let pool = pool::this(vm)?;
    let hungry =
        Domain::of(vm)?.seat_in(&pool).is_some_and(|seat| seat.hungry() && !seat.queue().has_tasks());
    vm.ret(hungry)
});

/// Adds the methods that are written in Lua to those of pools.
pub(crate) fn add_prelude(vm: &mut Vm, mt: Gc<Table>) -> LuaResult<()> {
    let methods = vm.get_field(mt, "__index")?;
    let Some(methods) = methods.as_table() else { return Ok(()) };
    for name in ["parallel_reduce", "parallel_scan", "map", "sort"] {
        let f = prelude(vm, name)?;
        vm.set_field(methods, name, f)?;
    }
    Ok(())
}
