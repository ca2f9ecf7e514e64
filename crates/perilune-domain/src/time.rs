//! Time: `pl.now`, `pl.sleep`, `pl.after`, `pl.every`.
//!
//! All times are seconds of the monotonic clock. A timer's function runs as a fiber of the domain that made
//! it; that of `every` is due at `start + k * period`, however long it takes: it does not drift, and beats
//! that came due while it ran are counted, not made up for.

use crate::domain::Domain;
use crate::module::{PRELUDE_NAME, error_text, prelude};
use crate::races;
use crate::sched::{Reason, Waiter};
use crate::select::Selectable;
use crate::surplus;
use crate::wait::{self, Object, Turn};
use parking_lot::Mutex;
use perilune_trace::event::Verb;
use perilune_vm::debug::Site;
use perilune_vm::shared::{SharedKind, SharedObject};
use perilune_vm::{FiberEnd, Gc, LuaResult, Native, Table, Type, Value, Vm};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The kind of timers.
pub static TIMER: SharedKind = SharedKind::new("timer", open);

/// Longest time that is told from eternity: a century.
const LONGEST: f64 = 3.2e9;

/// When the clock of `pl.now` was 0.
fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(Instant::now)
}

/// Argument `n` as a time span in seconds, not negative; `None`: longer than anybody waits.
pub(crate) fn check_span(vm: &mut Vm, n: u32) -> LuaResult<Option<Duration>> {
    let seconds = vm.check_num(n)?;
    if seconds.is_nan() {
        return Err(vm.arg_error(n, "number of seconds expected, got nan"));
    }
    Ok(span(seconds))
}

/// How long a call may wait.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Limit {
    /// Nobody has said.
    None,
    /// So long; `None`: longer than anybody waits.
    Span(Option<Duration>),
}

impl Limit {
    /// Nothing is to be waited for.
    pub fn is_over(self) -> bool {
        self == Limit::Span(Some(Duration::ZERO))
    }

    /// When the time is over if it begins now; `None`: never.
    pub fn deadline(self) -> Option<Instant> {
        match self {
            Limit::Span(Some(span)) => Instant::now().checked_add(span),
            Limit::None | Limit::Span(None) => None,
        }
    }

    /// Sets it for the wait that has begun.
    pub fn set(self, vm: &mut Vm) -> LuaResult<()> {
        match self {
            Limit::None => Ok(()),
            Limit::Span(span) => wait::limit(vm, span.unwrap_or(Duration::from_secs(LONGEST as u64))),
        }
    }
}

/// Argument `n`, the last one, as the longest time to wait: nothing, seconds, or `{timeout = seconds}`.
pub(crate) fn opt_limit(vm: &mut Vm, n: u32) -> LuaResult<Limit> {
    surplus::none_behind(vm, n, surplus::Limit::Own)?;
    if vm.arg_is_none_or_nil(n) {
        return Ok(Limit::None);
    }
    match crate::options::opt(vm, n, &["timeout"])? {
        Some(options) => options.span(vm, "timeout"),
        None => check_span(vm, n).map(Limit::Span),
    }
}

/// What a call returns that has waited long enough.
pub(crate) fn refuse_late(vm: &mut Vm) -> LuaResult<u32> {
    vm.push(Value::NIL);
    vm.push_str(b"timeout")?;
    Ok(2)
}

/// A number of seconds as a time span; `None`: longer than anybody waits.
pub(crate) fn span(seconds: f64) -> Option<Duration> {
    (seconds < LONGEST).then(|| Duration::from_secs_f64(seconds.max(0.0)))
}

/// `pl.now()`: seconds since the program looked at the clock first.
pub static NOW: Native = Native::leaf("now", |vm| {
    vm.check_none_behind(0)?;
    let now = origin().elapsed().as_secs_f64();
    vm.ret(now)
});

/// `pl.sleep(seconds)`
pub static SLEEP: Native = Native::leaf("sleep", |vm| {
    match wait::woken(vm)? {
        Turn::First => {
            let span = check_span(vm, 1)?;
            let deadline = span.and_then(|s| Instant::now().checked_add(s));
            wait::begin(vm, Verb::Sleeps, Object::Text("until its time is over"))?;
            match deadline {
                Some(_) => wait::limit_at(vm, deadline)?,
                None => wait::limit(vm, Duration::from_secs(LONGEST as u64))?,
            }
            if wait::sleeps(vm) {
                return Err(vm.park());
            }
        }
        Turn::Asleep => return Err(vm.park()),
        Turn::Woken(..) => {}
    }
    wait::finish(vm);
    Ok(0)
});

/// A timer: when its fiber is due next, and whether it is cancelled.
pub(crate) struct Timer {
    is_alarm: bool,
    start: Instant,
    /// First time, and the distance of further ones.
    span: Duration,
    /// Beats so far; the number of the next one while the fiber waits.
    beats: AtomicU64,
    cancelled: AtomicBool,
    waiter: Mutex<Option<Arc<Waiter>>>,
    /// Where it was made.
    place: Option<Site>,
}

impl SharedObject for Timer {
    fn kind(&self) -> &'static SharedKind {
        &TIMER
    }
}

/// One without a function is ready when its time is over.
impl Selectable for Timer {
    fn take(&self, _: &mut Vm, _: Value) -> LuaResult<Option<u32>> {
        Ok(self.due().is_some_and(|due| due <= Instant::now()).then_some(0))
    }
    fn watch(&self, _: &Arc<Waiter>, _: u32) -> bool {
        true
    }
    fn due(&self) -> Option<Instant> {
        if self.cancelled.load(Ordering::SeqCst) { None } else { self.deadline(1) }
    }
    fn describe(&self) -> String {
        self.words()
    }
}

impl Timer {
    /// What reports call it: `timer of 0.5 s (main.lua:3)`.
    pub(crate) fn words(&self) -> String {
        let span = self.span.as_secs_f64();
        match &self.place {
            Some(place) => format!("timer of {span} s ({place})"),
            None => format!("timer of {span} s"),
        }
    }

    /// Whether it has no function of its own.
    pub(crate) fn is_alarm(&self) -> bool {
        self.is_alarm
    }

    fn deadline(&self, beat: u64) -> Option<Instant> {
        self.start.checked_add(Duration::try_from_secs_f64(self.span.as_secs_f64() * beat as f64).ok()?)
    }
}

fn open(vm: &mut Vm, mt: Gc<Table>) -> LuaResult<()> {
    crate::objects::fill(vm, mt, &[&CANCEL, &WAIT], &[("__close", &CANCEL)])
}

/// `t:cancel()`: true if this has kept the function from running (again).
static CANCEL: Native = Native::leaf("cancel", |vm| {
    let t: &Timer = vm.check_shared(1, &TIMER)?;
    let first = !t.cancelled.swap(true, Ordering::SeqCst);
    let waiter = t.waiter.lock().take();
    let waited = waiter.is_some_and(|w| w.wake(Reason::Closed));
    vm.ret(first && waited)
});

/// `t:wait()`: the number of the next beat when it is due; nil if the timer is cancelled.
static WAIT: Native = Native::leaf("wait", |vm| {
    let t: Arc<Timer> = vm.check_shared_arc(1, &TIMER)?;
    match wait::woken(vm)? {
        Turn::First if !t.cancelled.load(Ordering::SeqCst) => {
            // Beats that are past are counted, not made up for: the next one lies ahead, unless it is the
            // first.
            let done = t.beats.load(Ordering::Relaxed);
            let passed = match t.span.as_nanos() {
                0 => done,
                span => (t.start.elapsed().as_nanos() / span) as u64,
            };
            let beat = if done == 0 { 1 } else { passed.max(done) + 1 };
            t.beats.store(beat, Ordering::Relaxed);
            let waiter = wait::begin(vm, Verb::WaitsFor, Object::Timer(Arc::clone(&t)))?;
            *t.waiter.lock() = Some(waiter);
            let deadline = t.deadline(beat);
            wait::limit_at(vm, deadline)?;
            // A cancellation that did not see the waiter.
            if !t.cancelled.load(Ordering::SeqCst) && wait::sleeps(vm) {
                return Err(vm.park());
            }
        }
        Turn::Asleep => return Err(vm.park()),
        _ => {}
    }
    wait::finish(vm);
    *t.waiter.lock() = None;
    if t.cancelled.load(Ordering::SeqCst) {
        return vm.ret(Value::NIL);
    }
    let beat = t.beats.load(Ordering::Relaxed);
    vm.ret(beat as i64)
});

/// Starts a fiber of the running domain that calls argument 2 as the timer says.
fn start(vm: &mut Vm, body: &str) -> LuaResult<u32> {
    let timer = make(vm, false)?;
    vm.check_type(2, Type::Function)?;
    let domain = Domain::of(vm)?.domain.counted();
    let timer = vm.shared_ref(timer);
    let body = prelude(vm, body)?;
    let mut args = vec![timer.into()];
    args.extend((2..=vm.nargs()).map(|n| vm.arg(n)));
    let stamp = races::stamp(vm);
    let fiber = domain.start_fiber(vm, body, &args, Box::new(report))?;
    if stamp.is_some() {
        domain.owner(vm).begin_strand(fiber, races::started(&stamp, |_| races::Kind::Timer));
    }
    vm.ret(timer)
}

/// A timer of argument 1 seconds.
fn make(vm: &mut Vm, is_alarm: bool) -> LuaResult<Arc<Timer>> {
    let span = check_span(vm, 1)?.unwrap_or(Duration::from_secs(LONGEST as u64));
    Ok(Arc::new(Timer {
        is_alarm,
        start: Instant::now(),
        span,
        beats: AtomicU64::new(0),
        cancelled: AtomicBool::new(false),
        waiter: Mutex::new(None),
        place: vm.running_site(Some(PRELUDE_NAME)),
    }))
}

/// The function of a timer has ended. Nobody waits for it: its error is reported.
fn report(domain: &Arc<Domain>, vm: &mut Vm, end: FiberEnd) {
    if let FiberEnd::Failed { traceback } = end {
        let text = error_text(vm.stack_get(vm.nargs()));
        let traceback = String::from_utf8_lossy(&traceback).into_owned();
        crate::untold::say(&format!(
            "perilune: a timer of '{}' failed: {text}\n{traceback}\n",
            domain.name()
        ));
    }
}

/// `pl.after(seconds, f, ...)`: calls `f(...)` once, as a fiber of this domain. Without a function: a timer
/// for `pl.select`.
pub static AFTER: Native = Native::leaf("after", |vm| {
    if vm.nargs() > 1 {
        return start(vm, "once");
    }
    let timer = make(vm, true)?;
    let timer = vm.shared_ref(timer);
    vm.ret(timer)
});

/// `pl.every(seconds, f, ...)`: calls `f(beat, ...)` again and again.
pub static EVERY: Native = Native::leaf("every", |vm| {
    if vm.check_num(1)? <= 0.0 {
        return Err(vm.arg_error(1, "the period must be greater than 0"));
    }
    start(vm, "again")
});
