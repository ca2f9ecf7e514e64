//! Scopes: everything that is allocated between two moments is freed at the second one, unless something
//! outside refers to it.
//!
//! A scope is a nursery of its own whose collection waits for the scope's end. While it is open, objects come
//! from blocks that were free when they were taken, and the current epoch is one above the one outside, so
//! that the barrier logs every older object that is stored into, whether it is young or old. At the end a
//! minor marking runs that stops at all objects from outside ([`Heap::is_outside`]); what it reaches
//! survives, and everything else in the scope's blocks goes without having been looked at.
//!
//! # Terms
//!
//! The *depth* of a block or of a large object is the number of scopes that were open when it was taken: 0
//! for what lies outside all of them. Objects of the innermost scope are exactly those of depth
//! [`Scopes::depth`]. A scope's *outside* is all that has a smaller depth, and all that is old.
//!
//! # The end of a scope
//!
//! Roots are the client's, the objects logged since the scope began, and the cards of large buffers.
//! Survivors are *not* old: they may refer to young objects outside whose marking nobody asked for. They lose
//! their marks, take the epoch outside, and their blocks and large objects join the scope around (depth less
//! one). Nothing is allocated into the holes of those blocks before the next minor collection, so whole
//! blocks are charged to the budget.
//!
//! The log goes to the scope around as well: an object that was stored into is logged there too, stamped with
//! the epoch there; except those that are newborn there, which need no log. (Else,
//! `arena(function() local o = {}; arena(function() outer.x = o end) end)` would free `o`.) After that no
//! stamp of the scope's epoch is left anywhere, so the next scope may use the same number.
//!
//! # Dissolving
//!
//! A collection makes everything that survives old, in whatever scope it was; so it closes all scopes, and
//! their ends do nothing any more. Whatever is not the plain nesting of beginnings and ends (a scope that is
//! left by a switch to another coroutine, ends in the wrong order) *spoils* the open scopes: their ends do
//! nothing either, and a collection is due, which closes them. A scope may allocate up to [`MOST`] bytes, or
//! the heap's limit; then an ordinary collection comes as well.
//!
//! # Rejected
//!
//! A minor collection at the beginning and one at the end, and no depths: an inner scope's end would make
//! everything in the outer ones old. Holding back survivors' blocks for the scope around to fill their holes:
//! a minor collection finds them soon enough.

use crate::blocks::BlockSpace;
use crate::heap::{Heap, LAST_EPOCH, Targets};
use crate::layout::*;
use crate::mark::Marker;
use crate::{Client, Cycle, Obj};
use perilune_trace::emit;
use perilune_trace::event::{self, Bytes, Count};

/// Bytes that scopes may allocate before an ordinary collection comes.
const MOST: usize = 1 << 30;
/// Scopes that may be open at a time. Deeper ones are as good as not there.
const DEEPEST: usize = 250;
/// The end of a scope that freed so many bytes looks for memory to give back.
const WORTH_A_TRIM: usize = 8 << 20;
/// What an entry of the log is charged with: a program that opens and closes scopes without allocating must
/// not grow the log for ever.
const PER_ENTRY: usize = 64;

/// What a scope has to put back when it ends.
struct Scope {
    serial: u32,
    owner: usize,
    epoch: u32,
    due: bool,
    budget: isize,
    targets: Targets,
    filled: usize,
    live: usize,
    external: usize,
    touched: usize,
    /// Large objects that were allocated in it, or that inner ones left to it.
    large: usize,
    log: Vec<Obj>,
}

/// The open scopes of a heap, outermost first.
#[derive(Default)]
pub(crate) struct Scopes {
    open: Vec<Scope>,
    /// The open scopes are not to be ended, a collection will close them.
    spoilt: bool,
    last: u32,
    spare_log: Vec<Obj>,
}

impl Scopes {
    /// How many are open.
    #[inline(always)]
    pub fn depth(&self) -> u8 {
        self.open.len() as u8
    }

    /// Whether the open ones wait for the collection that closes them.
    pub fn is_spoilt(&self) -> bool {
        self.spoilt
    }

    /// A large object was allocated.
    pub fn count_large(&mut self) {
        if let Some(scope) = self.open.last_mut() {
            scope.large += 1;
        }
    }
}

impl Heap {
    /// Opens a scope for `owner` (a number of the client's choice, see [`Heap::scope_owner`]). The result
    /// names it for [`Heap::close_scope`]; 0: there is none, and nothing to be closed. Only at safepoints.
    pub fn open_scope(&mut self, owner: usize) -> u32 {
        if self.scopes.spoilt || self.scopes.open.len() >= DEEPEST || self.epoch() + 1 >= LAST_EPOCH {
            return 0;
        }
        // In stress mode, every other scope is left to its end.
        let due = self.gc_due();
        if due && !(self.stress && self.scopes.last.is_multiple_of(2)) {
            self.scopes.last = self.scopes.last.wrapping_add(1).max(1);
            return 0;
        }
        let live = self.live_bytes();
        let serial = self.scopes.last.wrapping_add(1).max(1);
        self.scopes.last = serial;
        let outermost = self.scopes.open.is_empty();
        let log = core::mem::take(&mut self.scopes.spare_log);
        let scope = Scope {
            serial,
            owner,
            epoch: self.epoch(),
            due,
            budget: self.budget,
            targets: self.take_targets(),
            filled: self.filled,
            live,
            external: self.external_bytes(),
            touched: self.blocks.touched.len(),
            large: 0,
            log: core::mem::replace(&mut self.log, log),
        };
        self.scopes.open.push(scope);
        self.set_epoch(self.epoch() + 1);
        if outermost {
            self.budget = MOST.min(self.limit_or_max().saturating_sub(live)).max(1) as isize;
        }
        self.set_due(false);
        serial
    }

    /// Whether a scope is open.
    #[inline]
    pub fn in_scope(&self) -> bool {
        self.scopes.depth() != 0
    }

    /// Who opened the innermost scope; `None` if none is open.
    #[inline]
    pub fn scope_owner(&self) -> Option<usize> {
        self.scopes.open.last().map(|s| s.owner)
    }

    /// Something that scopes do not bear has happened: the open ones will not be ended, and a collection is
    /// due, which closes them.
    #[cold]
    pub fn spoil_scopes(&mut self) {
        if !self.scopes.open.is_empty() {
            self.scopes.spoilt = true;
            if self.is_running() {
                self.set_due(true);
            }
        }
    }

    /// Closes a scope if nothing was allocated in it, or if there is nothing to be done any more. False: it
    /// must be closed with [`Heap::close_scope`].
    #[inline]
    pub fn close_idle_scope(&mut self, serial: u32) -> bool {
        if serial == 0 {
            return true;
        }
        let touched = self.blocks.touched.len();
        match self.scopes.open.last() {
            Some(scope) if scope.serial == serial && !self.scopes.spoilt => {
                if touched != scope.touched || scope.large != 0 {
                    return false;
                }
                self.put_back(0);
            }
            _ => self.close_strange(serial),
        }
        true
    }

    #[cold]
    fn close_strange(&mut self, serial: u32) {
        if self.scopes.open.iter().any(|s| s.serial == serial) {
            self.spoil_scopes();
        }
    }

    /// Ends the innermost scope, which is `serial`: what it allocated is freed unless it can be reached. Only
    /// at safepoints. Returns how many bytes were freed.
    pub fn close_scope<C: Client>(&mut self, client: &mut C, serial: u32) -> usize {
        if self.close_idle_scope(serial) {
            return 0;
        }
        let depth = self.scopes.depth();
        let side = self.side;
        let before = self.live_bytes();
        _ = self.take_targets();
        let Some(scope) = self.scopes.open.last() else { return 0 };
        emit(event::CloseBegin {});
        let (epoch, touched, filled, large) = (scope.epoch, scope.touched, scope.filled, scope.large);

        let log = core::mem::take(&mut self.log);
        let ranges = self.peek_card_log();
        let blocks = self.blocks.touched[touched..].iter().map(|b| b.at());
        let range = match large {
            0 => (blocks.clone().min().unwrap_or(0), blocks.max().map_or(0, |b| b + BLOCK)),
            _ => (0, usize::MAX),
        };
        let mut m = Marker::open(self, Cycle::Minor);
        m.scope = depth;
        m.scope_range = range;
        client.roots(&mut m, Cycle::Minor);
        for &obj in &log {
            // SAFETY: logged objects are from outside: alive until a collection or the scope around ends.
            unsafe { client.trace(obj, &mut m) };
        }
        for &(owner, lo, hi) in &ranges {
            // SAFETY: as above.
            unsafe { client.trace_range(owner, lo, hi, &mut m) };
        }
        crate::collect::to_fixpoint(&mut m, client);
        let kept = m.close();
        self.settle_scope_samples(depth);
        self.log = log;

        let mut kept_large = 0;
        if large != 0 {
            let now = self.now();
            let (count, kept, freed) =
                self.large.end_scope(&mut self.table, side, depth, |o| stamp(o, epoch), now);
            kept_large = kept;
            self.young_large -= freed;
            if let Some(around) = self.scopes.open.iter_mut().nth_back(1) {
                around.large += count;
            }
        }
        self.filled = filled + (kept - kept_large);
        let blocks = end_blocks(&mut self.blocks, touched, side, depth, epoch);
        let clock = self.clock;
        self.blocks.take_scope_freed(&mut self.table, || clock.elapsed().as_nanos() as u64 + 1);
        let freed = before - self.live_bytes().min(before);
        self.stats.scopes += 1;
        self.stats.scope_freed_bytes += freed as u64;
        self.put_back(blocks * BLOCK + kept_large);
        if freed >= WORTH_A_TRIM {
            self.trim_if_rested();
        }
        self.verify_if_due(client);
        emit(event::CloseEnd { freed: Bytes::from(freed), kept: Bytes::from(kept) });
        freed
    }

    /// Removes the innermost scope: log, epoch, allocation targets and budget are those outside again.
    /// `charge`: bytes that must count.
    fn put_back(&mut self, charge: usize) {
        let Some(scope) = self.scopes.open.pop() else { return };
        let around = self.scopes.depth();
        let mut log = core::mem::replace(&mut self.log, scope.log);
        let entries = log.len();
        for obj in log.drain(..) {
            stamp(obj, scope.epoch);
            if !self.is_newborn_at(obj, around) {
                self.log.push(obj);
            }
        }
        self.scopes.spare_log = log;
        self.set_epoch(scope.epoch);
        self.put_targets(scope.targets);
        let grown = self.live_bytes().saturating_sub(scope.live);
        let external = self.external_bytes().saturating_sub(scope.external);
        let charge = grown.max(charge + external) + entries * PER_ENTRY;
        self.budget = scope.budget;
        self.set_due(scope.due);
        self.spend(charge);
    }

    /// For a minor collection: closes all scopes. Their logs join the current one; entries that are young
    /// need none.
    pub(crate) fn dissolve_scopes(&mut self) {
        self.scopes.spoilt = false;
        if self.scopes.open.is_empty() {
            return;
        }
        let open = core::mem::take(&mut self.scopes.open);
        emit(event::ScopeDissolved { scopes: Count::from(open.len()) });
        for scope in open {
            self.log.extend(scope.log);
        }
        let mut log = core::mem::take(&mut self.log);
        // SAFETY: what has been logged since the last collection has not been freed by one.
        log.retain(|obj| !unsafe { self.is_young(*obj) });
        log.sort_unstable();
        log.dedup();
        self.log = log;
        for block in &self.blocks.touched {
            block.chunk().head().depth[block.index()].set(0);
        }
        self.stats.scopes_dissolved += 1;
    }

    /// Whether `word` may be an address in the scope of depth `depth`.
    pub(crate) fn is_scope_word(&self, word: usize, depth: u8) -> bool {
        match self.table.find(word) {
            None => false,
            Some(chunk) if chunk.head().kind == ChunkKind::Small => {
                chunk.head().depth[(word & (CHUNK - 1)) / BLOCK].get() == depth
            }
            Some(_) => true,
        }
    }

    /// Whether `obj`, which is not old, was allocated outside the scope of depth `depth`.
    #[inline(always)]
    pub(crate) fn is_outside(&self, obj: Obj, depth: u8) -> bool {
        // SAFETY: the marker has it from `Marker::mark`, whose caller promises that it is an object.
        unsafe { depth_of(obj) < depth }
    }

    /// Is `obj` young, and does it belong to the scope of that depth (0: to none)?
    fn is_newborn_at(&self, obj: Obj, depth: u8) -> bool {
        // SAFETY: an object that a scope has allocated or logged, and that nothing has freed.
        unsafe { self.is_young(obj) && depth_of(obj) == depth }
    }
}

/// The depth of an object that is not old.
///
/// # Safety
/// `obj` is an object of the calling heap that has not been freed.
#[inline(always)]
unsafe fn depth_of(obj: Obj) -> u8 {
    let at = obj.as_ptr() as usize;
    // SAFETY: the caller's promise.
    let chunk = unsafe { ChunkRef::of(obj) };
    match chunk.head().kind {
        ChunkKind::Small => chunk.head().depth[(at & (CHUNK - 1)) / BLOCK].get(),
        // SAFETY: in a chunk of large objects, it is one.
        _ => unsafe { crate::large::depth_of(obj) },
    }
}

fn stamp(obj: Obj, epoch: u32) {
    // SAFETY: an object that is alive, and nothing else refers to its header now.
    let header = unsafe { &mut *obj.as_ptr() };
    // What is frozen is never logged, and stays frozen.
    if !header.is_frozen() {
        header.set_stamp(epoch);
    }
}

/// Sweeps the blocks touched since the scope began. Returns how many hold survivors.
fn end_blocks(blocks: &mut BlockSpace, from: usize, side: Side, depth: u8, epoch: u32) -> usize {
    let mut kept = from;
    for at in from..blocks.touched.len() {
        let block = blocks.touched[at];
        // SAFETY: the tables of a mapped chunk are mapped, distinct, and only this thread uses them.
        let (starts, marks) = unsafe { (&mut *block.words(STARTS), &mut *block.words(side.offset())) };
        blocks.poison_dead(block, side);
        let set_depth = |to| block.chunk().head().depth[block.index()].set(to);
        if marks.iter().all(|w| *w == 0) {
            starts.fill(0);
            set_depth(0);
            blocks.scope_freed.push(block);
            continue;
        }
        for (word, (s, m)) in starts.iter_mut().zip(marks.iter_mut()).enumerate() {
            *s &= *m;
            let mut left = core::mem::take(m);
            while left != 0 {
                let at = block.at() + (word * 64 + left.trailing_zeros() as usize) * GRANULE;
                left &= left - 1;
                // SAFETY: not null.
                stamp(unsafe { obj_at(at) }, epoch);
            }
        }
        // SAFETY: as above.
        unsafe { (*block.lines()).fill(0) };
        set_depth(depth - 1);
        blocks.touched[kept] = block;
        kept += 1;
    }
    blocks.touched.truncate(kept);
    kept - from
}
