//! Collections: minor, major in slices, sweeping in portions; and the order in which a step does them.
//!
//! **Minor.** Roots and logged objects are traced into the current bitmap, or, while nearly all survives, all
//! young objects are marked as they are (`promote.rs`); what is marked then is old. Blocks touched since the
//! last collection are swept, young large objects freed or aged. The log is handed on to a major in progress,
//! the epoch advances: from here on, the first store into any object is logged again.
//!
//! **Major.** Begins right after a minor collection, when nothing is young. Roots are marked in the other
//! bitmap; slices trace. Each logged object that was already marked is *regreyed*: its mark is taken back,
//! and it is marked afresh when the stack is empty (so it waits once, however often it is logged). When the
//! stack is empty the roots are scanned again, because stacks have no barrier; if that leads to more than the
//! slice can do, marking goes on and the roots are scanned yet again later, at most [`MOST_RESCANS`] times,
//! after which the rest is done in one go. Then ephemerons to the fixpoint, the client's `finish`, and the
//! two bitmaps change places.
//!
//! Why this is right: an object reachable at the end but unmarked would be referred to by a marked object
//! (whose store was logged after it was traced, hence regreyed), by a root (scanned last), or by an unmarked
//! one (induction). Newborns are no concern: slices run only after a minor collection, so a survivor is old
//! and simply white. It follows that whatever is marked for the major is also marked in the current bitmap,
//! and a minor collection never frees anything that the major's stack or bits refer to. (Rejected: slices at
//! any time. They would meet newborns, and every edge would cost a look at a second bitmap, or every minor a
//! walk over the major's stack.)
//!
//! **Sweep.** Lazily by the allocator, and in portions of steps without a slice; complete before the next
//! major starts.

use crate::clock::thread_mark;
use crate::heap::{Heap, LAST_EPOCH};
use crate::large::take_card;
use crate::layout::*;
use crate::mark::{Budget, Hard, Marker, grow};
use crate::pace::{LEAST_SLICE, MARK_RATIO, PAUSE_GOAL, Pace};
use crate::{Client, Cycle, Obj};
use perilune_trace::event::{self, Bytes, Share, StepCause};
use perilune_trace::{Category, cputime, emit, on};
use std::time::{Duration, Instant};

/// Times that a major may find too much left after a scan of the roots.
const MOST_RESCANS: u32 = 6;
/// Bytes marked for each byte that an explicit step stands for.
const STEP_EFFORT: usize = 4;
/// Objects that a slice traces in stress mode.
const STRESS_SLICE: u32 = 500;
/// Blocks and large objects swept between two looks at the clock.
const SWEEP_PORTION: usize = 32;
/// Bytes given back in a step: pages cost time when they go.
const TRIM_PORTION: usize = 8 << 20;
/// Nanoseconds between two looks for memory to give back.
const TRIM_INTERVAL: u64 = 100_000_000;
/// Nanoseconds by which a step may take longer than its processor time without having waited for a processor:
/// clocks are read one after the other.
const CLOCK_SLACK: u64 = 4_000;

/// What a minor collection does about young objects.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Young {
    /// What can be reached becomes old, the rest is freed.
    Traced,
    /// All become old, as they are (`promote.rs`).
    Promoted,
}

impl Heap {
    /// Does what is due: a minor collection, then a slice of the major in progress (or the start of one), or
    /// some sweeping. Only at safepoints, when every object is initialised.
    pub fn step<C: Client>(&mut self, client: &mut C) {
        self.step_with(client, None);
    }

    /// A step whose slice traces about `objects` objects, however long that takes: repeatable, for tests.
    #[doc(hidden)]
    pub fn step_objects<C: Client>(&mut self, client: &mut C, objects: u32) {
        self.step_with(client, Some(Budget::Objects(objects)));
    }

    /// The next step starts a major if none is in progress and everything is swept.
    pub fn force_major(&mut self) {
        self.pace.threshold = 0;
    }

    /// A step on the program's wish (`collectgarbage("step")`): like [`Heap::step`], but a major is started
    /// if none is in progress, and the slice marks about as many bytes as `bytes` allocated and the step size
    /// call for. True if a cycle was completed.
    pub fn step_cycle<C: Client>(&mut self, client: &mut C, bytes: usize) -> bool {
        let before = self.stats.majors;
        self.force_major();
        let own = 1usize << self.params.stepsize.min(40);
        let work = own.saturating_add(bytes).saturating_mul(self.params.stepmul.max(40)) / 100;
        let least = work.saturating_mul(STEP_EFFORT);
        self.step_with(client, Some(Budget::Until { deadline: Instant::now(), least, hard: None }));
        self.stats.majors != before
    }

    /// How many majors have to be completed until everything has gone that is unreachable now: a major in
    /// progress may have marked it.
    pub fn majors_to_come(&self) -> u64 {
        self.stats.majors + 1 + self.major.active as u64
    }

    /// As [`Heap::step`], on the way to so many completed majors, [`Heap::majors_to_come`] when that began:
    /// one is started if it takes more. True if they are completed, and everything is swept.
    pub fn step_towards<C: Client>(&mut self, client: &mut C, majors: u64) -> bool {
        if self.stats.majors < majors {
            self.force_major();
        }
        self.step(client);
        self.stats.majors >= majors && self.is_swept()
    }

    /// As [`Heap::step_objects`], but what is young becomes old as it is: for tests.
    #[doc(hidden)]
    pub fn step_promoting<C: Client>(&mut self, client: &mut C, objects: u32) {
        self.step_as(client, Some(Budget::Objects(objects)), Young::Promoted);
    }

    fn step_with<C: Client>(&mut self, client: &mut C, budget: Option<Budget>) {
        let young = if budget.is_none() && self.promotes_all() { Young::Promoted } else { Young::Traced };
        self.step_as(client, budget, young);
    }

    fn step_as<C: Client>(&mut self, client: &mut C, budget: Option<Budget>, young: Young) {
        let began = Instant::now();
        let explicit = budget.is_some();
        self.report_step(if explicit { StepCause::Explicit } else { StepCause::Budget });
        let budget = budget.or(self.stress.then_some(Budget::Objects(STRESS_SLICE)));
        if self.stress {
            self.force_major();
        }
        let kept = self.minor(client, began, young);
        let spent = began.elapsed().as_nanos() as u64;
        let room = PAUSE_GOAL.saturating_sub(spent).max(LEAST_SLICE);
        let least = self.pace.debt + kept * MARK_RATIO;
        let budget = budget.unwrap_or(Budget::Until {
            deadline: began + Duration::from_nanos(spent.saturating_add(room)),
            least,
            hard: Some(Hard::after(began, self.step_began_cpu, Pace::patience(least))),
        });
        if self.major.active {
            self.slice(client, budget);
        } else if !self.is_swept() {
            self.sweep(budget);
        } else if self.pace.major_due(self.old_bytes + self.external_bytes(), self.all_bytes()) {
            self.start_major(client);
            // The nursery was not halved before: what it kept is no measure for the first slice.
            let first = if explicit { budget } else { budget.less(usize::MAX) };
            self.slice(client, first);
        }
        self.conclude(client, began);
    }

    /// Reclaims unreachable young objects.
    pub fn collect_minor<C: Client>(&mut self, client: &mut C) {
        let began = Instant::now();
        self.report_step(StepCause::Minor);
        self.minor(client, began, Young::Traced);
        self.conclude(client, began);
    }

    /// Reclaims everything that is unreachable now: completes a major in progress, then runs a whole one and
    /// its sweep.
    pub fn collect_full<C: Client>(&mut self, client: &mut C) {
        let began = Instant::now();
        self.report_step(StepCause::Full);
        self.minor(client, began, Young::Traced);
        if self.major.active {
            self.slice(client, Budget::Unlimited);
        }
        self.sweep(Budget::Unlimited);
        self.start_major(client);
        self.slice(client, Budget::Unlimited);
        self.sweep(Budget::Unlimited);
        self.blocks.replenish();
        self.conclude(client, began);
    }

    /// The program stops for the collector.
    fn report_step(&self, cause: StepCause) {
        if on(Category::Gc) {
            cputime::report();
            emit(event::StepBegin { alive: Bytes::from(self.live_bytes()), cause });
        }
    }

    fn conclude<C: Client>(&mut self, client: &mut C, began: Instant) {
        self.verify_if_due(client);
        let elsewhere = self.account.elsewhere;
        self.account.report(self.live_bytes().saturating_sub(elsewhere));
        self.refill_budget(self.pace.until_next(self.major.active));
        self.trim_if_rested();
        let ended = Instant::now();
        let cpu = self.processor.now(ended) - self.step_began_cpu;
        let ns = (ended - began).as_nanos() as u64;
        self.stats.step_cpu.add(cpu);
        self.stats.step_pauses.add(ns);
        self.last_pause = ns;
        if perilune_trace::is_live() {
            self.report_step_end(cpu, ns);
        }
    }

    fn report_step_end(&mut self, cpu: u64, ns: u64) {
        let (live, mapped) = (self.live_bytes(), self.mapped_bytes());
        let (known, known_mapped) = self.reported;
        if on(Category::Heap) && (live.abs_diff(known) > known / 64 || mapped != known_mapped) {
            self.reported = (live, mapped);
            emit(event::HeapLive { alive: Bytes::from(live), mapped: Bytes::from(mapped) });
        }
        let whole = cpu + CLOCK_SLACK >= ns;
        let share = if whole { 10_000 } else { cpu * 10_000 / ns };
        let processor = Share(Some(share as u16));
        emit(event::StepEnd { alive: Bytes::from(live), mapped: Bytes::from(mapped), processor });
    }

    /// A portion of what has rested goes, unless that was looked for just now.
    pub(crate) fn trim_if_rested(&mut self) {
        let now = self.now();
        if now.saturating_sub(self.last_trim) > TRIM_INTERVAL {
            self.trim_at(now, TRIM_PORTION);
        }
    }

    /// Gives memory back that has rested for a while. Steps do this by themselves; an idle program may call
    /// it.
    pub fn trim(&mut self) {
        self.trim_at(self.now(), usize::MAX);
    }

    /// As [`Heap::trim`], as if `ns` nanoseconds had passed: for tests.
    #[doc(hidden)]
    pub fn trim_after(&mut self, ns: u64) {
        self.trim_at(self.now() + ns, usize::MAX);
    }

    /// Gives back about `most` bytes at most. If there was more, the next step goes on.
    fn trim_at(&mut self, now: u64, most: usize) {
        let mut left = most;
        self.blocks.trim(now, &mut left);
        self.large.trim((self.live_bytes() / 4).max(8 << 20), now, &mut left);
        if left > 0 {
            self.last_trim = now;
        }
        if left != most {
            emit(event::Trimmed { returned: Bytes::from(most - left) });
        }
    }

    fn is_swept(&self) -> bool {
        !self.blocks.is_sweeping() && self.large.unswept.is_empty()
    }

    /// Returns the bytes that became old.
    fn minor<C: Client>(&mut self, client: &mut C, began: Instant, what: Young) -> usize {
        let cpu = self.processor.now(began);
        self.step_began_cpu = cpu;
        emit(event::MinorBegin {});
        let external = self.external_bytes();
        self.dissolve_scopes();
        let young = self.retire_spans();
        let log = core::mem::take(&mut self.log);
        let ranges = self.take_card_log();
        // What has not been logged may be any old object: all are traced, now and for the major.
        let lost = core::mem::take(&mut self.log_lost);
        self.major.lost |= lost && self.major.active;
        let kept = match what {
            Young::Traced => {
                let mut m = Marker::open(self, Cycle::Minor);
                m.lost = lost;
                client.roots(&mut m, Cycle::Minor);
                // SAFETY: logged objects are old, hence alive until the end of a major, and initialised.
                unsafe { m.trace_logged(client, &log, &ranges) };
                to_fixpoint(&mut m, client);
                let rescanned = m.rescanned;
                let kept = m.close();
                self.pace.rescanned = rescanned;
                self.stats.rescanned_bytes += rescanned as u64;
                kept
            }
            Young::Promoted => {
                self.mark_young();
                self.stats.promotions += 1;
                let mut m = Marker::open(self, Cycle::Minor);
                client.finish(&mut m, Cycle::Minor);
                debug_assert!(m.is_idle(), "everything is marked");
                m.close();
                young
            }
        };
        self.settle_young_samples();
        self.old_bytes += kept;
        self.blocks.sweep_touched(self.side);
        let now = self.now();
        self.large.sweep_young(&mut self.table, self.side, now);
        self.take_over_log(log, ranges);
        self.next_epoch();

        let ended = Instant::now();
        let ns = (ended - began).as_nanos() as u64;
        let freed_external = external.saturating_sub(self.external_bytes());
        let live = self.old_bytes + self.external_bytes();
        let cpu_now = self.processor.now(ended);
        let thread = thread_mark();
        // Processor times of two threads do not compare; then the clock on the wall has to do.
        let since = if thread == self.last_minor_by {
            cpu_now.saturating_sub(self.last_minor)
        } else {
            now.saturating_sub(self.last_minor_at)
        };
        let nursery = self.pace.nursery;
        if what == Young::Traced {
            self.pace.after_minor(young + freed_external, kept, live, cpu_now - cpu, since);
        }
        if self.pace.nursery != nursery {
            emit(event::Nursery { size: Bytes::from(self.pace.nursery) });
        }
        (self.last_minor, self.last_minor_by, self.last_minor_at) = (cpu_now, thread, now);
        self.stats.minors += 1;
        self.stats.minor_ns += ns;
        self.stats.minor_pauses.add(ns);
        self.stats.minor_cpu.add(cpu_now - cpu);
        self.stats.promoted_bytes += kept as u64;
        self.stats.allocated_bytes += young as u64;
        emit(event::MinorEnd { allocated: Bytes::from(young), promoted: Bytes::from(kept) });
        kept
    }

    /// The ranges of large buffers that were stored into. Owners logged since are traced whole anyway.
    fn take_card_log(&mut self) -> Vec<(Obj, usize, usize)> {
        let mut ranges: Vec<(Obj, usize, usize)> = Vec::new();
        let mut log = core::mem::take(&mut self.card_log);
        let mut lost = false;
        for (owner, buffer, card) in log.drain(..) {
            // SAFETY: whoever frees or replaces a buffer takes its cards out of the log.
            let (lo, hi) = unsafe { take_card(buffer, card) };
            // SAFETY: logged objects are old, hence alive until the end of a major.
            if unsafe { (*owner.as_ptr()).stamp() } == self.epoch() {
                continue;
            }
            // Filling an array marks one card after the other.
            if let Some(last) = ranges.last_mut()
                && last.0 == owner
                && last.2 == lo
            {
                last.2 = hi;
            } else if ranges.len() < ranges.capacity() || grow(&mut ranges, self.list_limit) {
                ranges.push((owner, lo, hi));
            } else {
                lost = true;
            }
        }
        self.card_log = log;
        self.log_lost |= lost;
        ranges
    }

    /// The ranges of large buffers that were stored into, which stay logged.
    pub(crate) fn peek_card_log(&self) -> Vec<(Obj, usize, usize)> {
        let range = |&(owner, buffer, card): &(Obj, Obj, u32)| {
            // SAFETY: as in `take_card_log`.
            let (lo, hi) = unsafe { crate::large::card_range(buffer, card) };
            (owner, lo, hi)
        };
        self.card_log.iter().map(range).collect()
    }

    /// What changed must be seen by a major in progress, if it has been there already.
    fn take_over_log(&mut self, mut log: Vec<Obj>, ranges: Vec<(Obj, usize, usize)>) {
        self.stats.logged += log.len() as u64;
        if self.major.active {
            let next = self.side.other().offset();
            for &obj in &log {
                let at = obj.as_ptr() as usize;
                // SAFETY: logged objects are old: their chunks are mapped.
                if unsafe { get_bit(at, next) } {
                    let regrey = &mut self.major.regrey;
                    if regrey.len() == regrey.capacity() && !grow(regrey, self.list_limit) {
                        self.major.lost = true;
                        continue;
                    }
                    // SAFETY: as above.
                    let size = unsafe {
                        clear_bit(at, next);
                        self.size_of(obj)
                    };
                    self.major.bytes = self.major.bytes.wrapping_sub(size);
                    self.major.regrey.push(obj);
                }
            }
            // SAFETY: as above.
            let marked = |r: &(Obj, _, _)| unsafe { get_bit(r.0.as_ptr() as usize, next) };
            for range in ranges.into_iter().filter(marked) {
                let ranges = &mut self.major.ranges;
                if ranges.len() == ranges.capacity() && !grow(ranges, self.list_limit) {
                    self.major.lost = true;
                    break;
                }
                ranges.push(range);
            }
        }
        log.clear();
        self.log = log;
    }

    fn next_epoch(&mut self) {
        if self.epoch() < LAST_EPOCH {
            self.set_epoch(self.epoch() + 1);
            return;
        }
        // Stamps from before the wrap must not match a later epoch.
        self.for_each_object(|obj| {
            // SAFETY: a live object, and nothing else refers to its header now.
            let header = unsafe { &mut *obj.as_ptr() };
            if !header.is_frozen() {
                header.set_stamp(0);
            }
        });
        self.set_epoch(1);
    }

    fn start_major<C: Client>(&mut self, client: &mut C) {
        debug_assert!(self.is_swept() && !self.major.active);
        self.major.active = true;
        emit(event::MajorBegin { alive: Bytes::from(self.live_bytes()) });
        self.pace.allocated_at_major = self.all_bytes();
        self.major.bytes = 0;
        self.major.rescans = 0;
        self.major.lost = false;
        self.unmark_islands();
        let mut m = Marker::open(self, Cycle::Major);
        client.roots(&mut m, Cycle::Major);
        m.close();
    }

    /// Marks until the budget is spent or, if the end is reached, completes the major. Runs right after a
    /// minor collection.
    fn slice<C: Client>(&mut self, client: &mut C, budget: Budget) {
        let began = Instant::now();
        emit(event::SliceBegin {});
        let (cpu, before) = (self.processor.now(began), self.major.bytes);
        let regrey = core::mem::take(&mut self.major.regrey);
        let last_chance = self.major.rescans >= MOST_RESCANS;
        let mut m = Marker::open(self, Cycle::Major);
        // These are as many as the program has stored into lately; unlike the regreyed, they are dealt with
        // at once.
        let ranges = core::mem::take(&mut m.heap.major.ranges);
        // SAFETY: the owners are marked, so alive.
        unsafe { m.trace_logged(client, &[], &ranges) };
        let mut done = m.run(client, budget);
        if done {
            for &obj in &regrey {
                // SAFETY: it was marked when it was regreyed, and this major has freed nothing yet.
                unsafe { m.mark(obj) };
            }
            client.roots(&mut m, Cycle::Major);
            let left = budget.less(m.bytes.wrapping_sub(before));
            done = m.run(client, if last_chance { Budget::Unlimited } else { left });
            m.heap.major.rescans += 1;
            if done {
                to_fixpoint(&mut m, client);
            }
            m.close();
        } else {
            m.close();
            self.major.regrey = regrey;
        }
        let marked = self.major.bytes.wrapping_sub(before);
        if done {
            self.pace.debt = 0;
            self.finish_major();
        } else {
            self.pace.after_slice(marked, budget.least(), self.processor.now(Instant::now()) - cpu);
        }
        let ns = began.elapsed().as_nanos() as u64;
        self.stats.slices += 1;
        self.stats.major_ns += ns;
        self.stats.slice_pauses.add(ns);
        emit(event::SliceEnd { marked: Bytes::from(marked), complete: done });
    }

    /// The marking is complete: the bitmaps change places, the sweep begins.
    fn finish_major(&mut self) {
        debug_assert!(self.major.stack.is_empty() && self.major.parts.is_empty() && !self.major.lost);
        self.major.active = false;
        self.side = self.side.other();
        self.settle_old_samples();
        self.pace.tenuring.at_end_of_major(self.live_bytes());
        self.old_bytes = self.major.bytes;
        self.release_unmarked_islands();
        self.blocks.begin_sweep();
        self.large.begin_sweep();
        let live = self.old_bytes + self.external_bytes();
        let elsewhere = self.account.elsewhere;
        self.account.report(live.saturating_sub(elsewhere));
        self.account.major_done(live);
        let limit = self.limit_or_max();
        self.pace.after_major();
        self.pace.set_threshold(live, &self.params, limit);
        self.stats.majors += 1;
    }

    fn sweep(&mut self, budget: Budget) {
        let began = Instant::now();
        emit(event::SweepBegin {});
        let now = self.now();
        loop {
            let blocks = self.blocks.sweep_some(&mut self.table, SWEEP_PORTION, self.side, now);
            let large = self.large.sweep_some(&mut self.table, SWEEP_PORTION, self.side, now);
            if blocks && large || budget.is_spent(usize::MAX) {
                break;
            }
        }
        self.stats.sweep_ns += began.elapsed().as_nanos() as u64;
        emit(event::SweepEnd { complete: self.is_swept() });
    }

    /// Calls `f` with every object that is not known to be dead.
    pub(crate) fn for_each_object(&self, mut f: impl FnMut(Obj)) {
        for chunk in &self.blocks.chunks {
            let head = chunk.head();
            for index in FIRST_BLOCK..CHUNK / BLOCK {
                let block = chunk.block(index);
                let unswept = head.unswept.get() & block.bit() != 0;
                for word in 0..WORDS_PER_BLOCK {
                    // SAFETY: the tables of a mapped chunk are mapped.
                    let (starts, marks) =
                        unsafe { ((*block.words(STARTS))[word], (*block.words(self.side.offset()))[word]) };
                    let mut valid = if unswept { starts & marks } else { starts };
                    while valid != 0 {
                        let at = block.at() + (word * 64 + valid.trailing_zeros() as usize) * GRANULE;
                        valid &= valid - 1;
                        // SAFETY: not null.
                        f(unsafe { obj_at(at) });
                    }
                }
            }
        }
        for obj in self.large.all() {
            if self.is_allocated(obj) {
                f(obj);
            }
        }
    }
}

/// Traces everything, ephemerons included, and lets the client finish.
pub(crate) fn to_fixpoint<C: Client>(m: &mut Marker<'_>, client: &mut C) {
    let cycle = m.cycle();
    m.drain(client);
    while client.converge(m, cycle) {
        m.drain(client);
    }
    client.finish(m, cycle);
    m.drain(client);
    debug_assert!(m.is_idle());
}
