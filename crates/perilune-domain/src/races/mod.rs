//! Finding races: with `PERILUNE_CHECK=races` in the environment, accesses to what domains share are watched,
//! and two that nothing orders are reported.
//!
//! Domains share no tables, so there are two places only where a program can lose an update: an element of an
//! array, loaded by two tasks and stored by two, and the value of an atomic or of a map's key, likewise.
//! Nothing prevents that, because the alternatives cost: here is how to find it. What follows is about
//! elements; `cells.rs` is about the others, whose operations are ordered by themselves and yet can be two
//! steps where one is needed.
//!
//! # What is found
//! Two accesses to one element, one of them a store, in two *strands*, such that neither *happened before*
//! the other. Not whether they did meet in this run, but whether anything in the program keeps them from
//! meeting. So one run on one core finds what is wrong, as long as it goes through the code.
//!
//! A strand is what runs one thing after another: the main program and each spawned domain (with all fibers
//! of theirs, which take turns), each task of a pool, each iteration of a parallel loop (each chunk, if the
//! loop has chunks, since these are the program's own). Each has a clock (`clock.rs`).
//!
//! What orders, by the time a strand takes from another:
//!
//! | from | to |
//! |---|---|
//! | `async`, `spawn`, the call of a loop, a timer's start | the beginning of what it starts |
//! | the end of a task, a domain, all parts of a loop | `await`, `join`, `status`, the return of the loop |
//! | `send` | the `recv` of that message |
//! | `recv` | the end of sends that waited for room, and of later ones, if there is a bound |
//! | a store to an atomic, to a key of a map, to an element with `add` and `cas` | loads of it |
//! | a task of a lane | the next one |
//!
//! The order that atomics give is that in which they were met in this run: two iterations that touch one
//! atomic count as ordered, in one direction or the other. So a race can be hidden in one run and be found in
//! the next; what is reported is one always. Files do not order anything.
//!
//! # What it costs
//! Off: a load and a branch at the operations of the table, 1 ns or so each, with everything else out of
//! line. Reading and writing elements costs nothing, because an array that is watched is one whose elements
//! the interpreter cannot reach by itself (`SharedObject::watched`). On: some 100 ns and up to 48 bytes for
//! each element that is accessed.

pub(crate) mod cells;
pub(crate) mod clock;
pub(crate) mod shadow;

use crate::domain::Domain;
use crate::module::PRELUDE_NAME;
use crate::untold::say;
use clock::{Clock, History, Instant};
use foldhash::fast::FixedState;
use parking_lot::{Mutex, MutexGuard};
use perilune_vm::debug::Site;
use perilune_vm::parcel::Parcel;
use perilune_vm::{Value, Vm};
use shadow::{Access, Mark, Shadow};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

static ON: AtomicBool = AtomicBool::new(false);

/// Races are looked for from now on. Before the first array and the first other domain.
pub(crate) fn begin() {
    ON.store(true, Ordering::Relaxed);
}

/// Whether races are looked for.
#[inline]
pub(crate) fn on() -> bool {
    ON.load(Ordering::Relaxed)
}

// -- Places and strands -------------------------------------------------------------------------------------

/// What a strand is.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// The main program.
    Main,
    /// A domain that was spawned.
    Domain(String),
    /// A task that was started at this place.
    Task(u32),
    /// The part of a loop at this place that is in no iteration.
    Loop(u32),
    /// Iterations of the loop at this place.
    Iterations(u32, i64, i64),
    /// A fiber in a pool's domain that was started at this place.
    Fiber(u32),
    /// A timer's function in a pool's domain.
    Timer,
}

#[derive(Default)]
struct Places {
    /// By function and instruction. The sites keep the functions, so that these addresses stay theirs.
    known: HashMap<(usize, usize), (u32, Site)>,
    by_text: HashMap<String, u32>,
    texts: Vec<String>,
    reported: HashSet<(u32, u32)>,
    /// As `reported`, of atomics and keys.
    lost: HashSet<(u32, u32)>,
}

thread_local! {
    /// What this thread has looked up.
    static SEEN: RefCell<HashMap<(usize, usize), u32, FixedState>> = RefCell::default();
}

static PLACES: LazyLock<Mutex<Places>> = LazyLock::new(Mutex::default);
/// The kinds of strands by their number; there is no strand 0.
static STRANDS: Mutex<Vec<Kind>> = Mutex::new(Vec::new());

fn places() -> MutexGuard<'static, Places> {
    PLACES.lock()
}

/// The number of the place where the running code is; the same for all instructions of a line.
fn place(vm: &Vm) -> u32 {
    let Some(site) = vm.running_site(Some(PRELUDE_NAME)).or_else(|| vm.running_site(None)) else { return 0 };
    if let Some(number) = SEEN.with(|seen| seen.borrow().get(&site.key()).copied()) {
        return number;
    }
    let number = look_up(site.clone());
    SEEN.with(|seen| seen.borrow_mut().insert(site.key(), number));
    number
}

fn look_up(site: Site) -> u32 {
    let mut places = PLACES.lock();
    if let Some((number, _)) = places.known.get(&site.key()) {
        return *number;
    }
    if places.texts.is_empty() {
        places.texts.push("native code".to_owned());
    }
    let text = site.to_string();
    let number = match places.by_text.get(&text) {
        Some(&n) => n,
        None => {
            let n = places.texts.len() as u32;
            places.texts.push(text.clone());
            places.by_text.insert(text, n);
            n
        }
    };
    places.known.insert(site.key(), (number, site));
    number
}

/// What runs one thing after another.
pub(crate) struct Strand {
    /// 0: it has not accessed anything yet.
    id: u32,
    /// Of what it does now. Its own history has the time before: what has been told.
    time: u32,
    history: History,
    kind: Kind,
    /// It has accessed or learned something since its time was last told.
    dirty: bool,
    /// What it interrupts.
    outer: Option<Box<Strand>>,
    /// What has interrupted it, if that may go on.
    kept: Option<Box<Strand>>,
    /// Atomics and keys that it has loaded, or has learned something by, newest last.
    touched: Vec<cells::Touched>,
}

impl Strand {
    fn new(kind: Kind, history: History) -> Strand {
        Strand { id: 0, time: 0, history, kind, dirty: false, outer: None, kept: None, touched: Vec::new() }
    }

    /// A strand that has seen nothing.
    pub fn first(kind: Kind) -> Strand {
        Strand::new(kind, History::default())
    }

    /// What whoever comes after all that the strand has done must know, and the moment by which that is
    /// known.
    fn tell(&mut self) -> (History, Instant) {
        if !std::mem::take(&mut self.dirty) {
            // A strand without a number has added nothing to what it began with.
            let moment = if self.id == 0 { self.history.origin() } else { (self.id, self.time - 1) };
            return (self.history.clone(), moment);
        }
        self.begin();
        let moment = (self.id, self.time);
        self.history.set(self.id, self.time);
        self.time += 1;
        (self.history.clone(), moment)
    }

    /// Gives the strand a number, if it has none.
    fn begin(&mut self) {
        if self.id == 0 {
            let mut strands = STRANDS.lock();
            strands.push(self.kind.clone());
            self.id = strands.len() as u32;
            drop(strands);
            self.time = 1;
        }
    }

    fn learn(&mut self, other: &History) {
        self.dirty |= self.history.learn(other);
    }

    fn join(&mut self, clock: &Clock) {
        self.dirty |= self.history.join(clock);
    }

    /// The next access, from this place.
    fn mark(&mut self, site: u32) -> Mark {
        self.begin();
        self.dirty = true;
        Mark { strand: self.id, time: self.time, site }
    }
}

// -- Orders -------------------------------------------------------------------------------------------------

/// A moment of a strand: what is started or sent then comes after it.
pub(crate) struct Moment {
    told: History,
    moment: Instant,
    place: u32,
}

/// A moment, if races are looked for.
pub(crate) type Stamp = Option<Arc<Moment>>;

/// This moment of the running strand.
#[inline]
pub(crate) fn stamp(vm: &mut Vm) -> Stamp {
    if on() { stamp_now(vm) } else { None }
}

#[cold]
#[inline(never)]
fn stamp_now(vm: &mut Vm) -> Stamp {
    let place = place(vm);
    let (told, moment) = Domain::of(vm).ok()?.strand().tell();
    Some(Arc::new(Moment { told, moment, place }))
}

/// The message is sent at this moment.
#[inline(always)]
pub(crate) fn sent(vm: &mut Vm, message: &mut Parcel) {
    if on() {
        note_moment(vm, message);
    }
}

#[cold]
#[inline(never)]
fn note_moment(vm: &mut Vm, message: &mut Parcel) {
    if let Some(stamp) = stamp_now(vm) {
        *message = std::mem::take(message).with_note(stamp);
    }
}

/// The running strand goes on after the message was sent.
#[inline(always)]
pub(crate) fn received(vm: &mut Vm, message: &Parcel) {
    if on() {
        learn_moment(vm, message);
    }
}

#[cold]
#[inline(never)]
fn learn_moment(vm: &mut Vm, message: &Parcel) {
    if let Some(moment) = moment(message)
        && let Ok(owner) = Domain::of(vm)
    {
        owner.strand().learn(&moment.told);
    }
}

/// When the message was sent.
pub(crate) fn moment(message: &Parcel) -> Stamp {
    Arc::clone(message.note()?).downcast().ok()
}

/// The strand of something that was started at a moment; `kind` is told the place.
pub(crate) fn started(stamp: &Stamp, kind: impl FnOnce(u32) -> Kind) -> Strand {
    match stamp {
        Some(at) => Strand::new(kind(at.place), at.told.fork(at.moment)),
        None => Strand::first(kind(0)),
    }
}

/// Something that strands come to before and after each other: an atomic, the end of a task.
pub(crate) struct Order(Option<Box<Mutex<Clock>>>);

impl Order {
    /// Nothing has been here.
    pub fn new() -> Order {
        Order(on().then(Box::default))
    }

    /// What comes here later comes after what the running strand has done.
    #[inline(always)]
    pub fn leave(&self, vm: &mut Vm) {
        if let Some(clock) = &self.0 {
            leave(clock, vm);
        }
    }

    /// The running strand goes on after those that have been here.
    #[inline(always)]
    pub fn enter(&self, vm: &mut Vm) {
        if let Some(clock) = &self.0 {
            enter(clock, vm);
        }
    }
}

#[cold]
#[inline(never)]
fn leave(clock: &Mutex<Clock>, vm: &mut Vm) {
    if let Ok(owner) = Domain::of(vm) {
        let (told, _) = owner.strand().tell();
        clock.lock().learn(&told);
    }
}

#[cold]
#[inline(never)]
fn enter(clock: &Mutex<Clock>, vm: &mut Vm) {
    if let Ok(owner) = Domain::of(vm) {
        owner.strand().join(&clock.lock());
    }
}

/// An order for each of many keys.
pub(crate) struct Orders<K>(Option<Box<Keyed<K>>>);

struct Keyed<K> {
    keys: Mutex<HashMap<K, Clock>>,
    all: Mutex<Clock>,
}

impl<K: Hash + Eq + Clone> Keyed<K> {
    #[cold]
    #[inline(never)]
    fn leave(&self, vm: &mut Vm, key: &K) -> Option<K> {
        let (told, _) = Domain::of(vm).ok()?.strand().tell();
        self.all.lock().learn(&told);
        self.keys.lock().entry(key.clone()).or_default().learn(&told);
        Some(key.clone())
    }

    #[cold]
    #[inline(never)]
    fn enter(&self, vm: &mut Vm, key: &K) {
        if let Ok(owner) = Domain::of(vm)
            && let Some(clock) = self.keys.lock().get(key)
        {
            owner.strand().join(clock);
        }
    }
}

impl<K: Hash + Eq + Clone> Orders<K> {
    /// Nothing has been at any of them.
    pub fn new() -> Orders<K> {
        Orders(on().then(|| Box::new(Keyed { keys: Mutex::default(), all: Mutex::default() })))
    }

    /// As [`Order::leave`] for a key. It comes back, if there is anything to do with it, for a later
    /// [`Orders::enter`].
    #[inline(always)]
    pub fn leave(&self, vm: &mut Vm, key: &K) -> Option<K> {
        self.0.as_ref().and_then(|orders| orders.leave(vm, key))
    }

    /// As [`Order::enter`] for a key.
    #[inline(always)]
    pub fn enter(&self, vm: &mut Vm, key: Option<&K>) {
        if let (Some(orders), Some(key)) = (&self.0, key) {
            orders.enter(vm, key);
        }
    }

    /// As [`Orders::enter`], for a strand that has not begun.
    pub fn begin(&self, strand: &mut Strand, key: &K) {
        if let Some(orders) = &self.0
            && let Some(clock) = orders.keys.lock().get(key)
        {
            strand.join(clock);
        }
    }

    /// As [`Order::enter`] for all of them.
    #[inline(always)]
    pub fn enter_all(&self, vm: &mut Vm) {
        if let Some(orders) = &self.0 {
            enter(&orders.all, vm);
        }
    }
}

/// The running strand is left for one that knows what happened before `stamp` only: an iteration. Or for the
/// one that it was left for last, to `go_on`.
pub(crate) fn apart(vm: &mut Vm, stamp: &Stamp, (lo, hi): (i64, i64), go_on: bool) {
    if let Ok(owner) = Domain::of(vm) {
        let strand = owner.strand();
        let inner = match strand.kept.take() {
            Some(inner) if go_on => *inner,
            _ => started(stamp, |place| Kind::Iterations(place, lo, hi)),
        };
        let outer = std::mem::replace(strand, inner);
        strand.outer = Some(Box::new(outer));
    }
}

/// The strand that was left goes on, after the other.
pub(crate) fn rejoin(vm: &mut Vm) {
    if let Ok(owner) = Domain::of(vm) {
        let strand = owner.strand();
        if let Some(outer) = strand.outer.take() {
            let mut inner = std::mem::replace(strand, *outer);
            strand.learn(&inner.tell().0);
            strand.kept = Some(Box::new(inner));
        }
    }
}

// -- Accesses -----------------------------------------------------------------------------------------------

/// What is to be remembered of an array of this many elements, which the running code makes. `None`: races
/// are not looked for.
pub(crate) fn watch(vm: &Vm, len: usize, what: String) -> Option<Box<Shadow>> {
    if !on() {
        return None;
    }
    let place = place(vm);
    let made = PLACES.lock().texts.get(place as usize).cloned().unwrap_or_default();
    Some(Box::new(Shadow::new(len, format!("{what}, made at {made}"))))
}

/// The running code accesses `count` elements from `at` on. `array` is the array as a value, `first` its
/// first element's number.
pub(crate) fn access(
    vm: &mut Vm,
    shadow: &Shadow,
    array: Option<Value>,
    (first, at, count): (usize, usize, usize),
    access: Access,
) {
    let site = place(vm);
    for n in at..at + count {
        let Ok(owner) = Domain::of(vm) else { return };
        let strand = owner.strand();
        let mark = strand.mark(site);
        if let Some(earlier) = shadow.access(first + n, access, mark, strand.history.clock()) {
            report(vm, shadow, array, (first, first + n), earlier, (access, mark));
        }
    }
}

/// The running code is about to change an element atomically.
pub(crate) fn before_change(vm: &mut Vm, shadow: &Shadow, at: usize) {
    if let Ok(owner) = Domain::of(vm) {
        shadow.leave(at, &owner.strand().tell().0);
    }
}

/// The running code has changed an element atomically.
pub(crate) fn after_change(vm: &mut Vm, shadow: &Shadow, at: usize) {
    if let Ok(owner) = Domain::of(vm)
        && let Some(clock) = shadow.changes(at)
    {
        owner.strand().join(&clock);
    }
}

#[cold]
fn report(
    vm: &Vm,
    shadow: &Shadow,
    array: Option<Value>,
    (first, at): (usize, usize),
    earlier: (Access, Mark),
    now: (Access, Mark),
) {
    let mut places = PLACES.lock();
    let pair = (earlier.1.site.min(now.1.site), earlier.1.site.max(now.1.site));
    if !places.reported.insert(pair) {
        return;
    }
    let name = match array.and_then(|v| vm.operand_name(v)) {
        None => "an array".to_owned(),
        Some(name) if first != 0 => format!("the array of which {name} is a slice"),
        Some(name) => name,
    };
    let both = [earlier.0, now.0];
    let why = if both.contains(&Access::Load) {
        "what is read is a matter of luck, and if it is written back changed an update is lost"
    } else {
        "one of the two is lost"
    };
    let remedy = if both.contains(&Access::Change) {
        "Where others use add or cas on an element, a plain store must not come between: use them everywhere"
    } else {
        "Change elements that others change with a:add(i, x) or a:cas(i, old, new); or return values and \
         combine them \
         with parallel_reduce; or give each task elements of its own; or let one begin after the other has \
         ended (await, a channel, a lane)"
    };
    let text = format!(
        "perilune: race on element {} of {name} ({})\n{}{}\tNothing orders the two: {why}.\n\t{remedy}.\n",
        at + 1,
        shadow.whose,
        line(&places, earlier),
        line(&places, now),
    );
    drop(places);
    say(&text);
}

fn site_text(places: &Places, number: u32) -> &str {
    places.texts.get(number as usize).map_or("?", String::as_str)
}

/// An access as a line of a report.
fn line(places: &Places, (access, mark): (Access, Mark)) -> String {
    let verb = match access {
        Access::Load => "read",
        Access::Store => "written",
        Access::Change => "changed with add or cas",
    };
    let text = |n: u32| site_text(places, n);
    let who = match STRANDS.lock().get(mark.strand as usize - 1) {
        None | Some(Kind::Main) => "the main program".to_owned(),
        Some(Kind::Domain(name)) => format!("domain '{name}'"),
        Some(Kind::Task(n)) => format!("a task started at {}", text(*n)),
        Some(Kind::Loop(n)) => format!("the parallel loop at {}", text(*n)),
        Some(Kind::Iterations(n, lo, hi)) if lo == hi => {
            format!("iteration {lo} of the parallel loop at {}", text(*n))
        }
        Some(Kind::Iterations(n, lo, hi)) => {
            format!("iterations {lo} to {hi} of the parallel loop at {}", text(*n))
        }
        Some(Kind::Fiber(n)) => format!("a fiber started at {}", text(*n)),
        Some(Kind::Timer) => "a timer".to_owned(),
    };
    format!("\t{verb} at {} by {who}\n", text(mark.site))
}
