//! What only the owner of a domain touches ([`Local`]), and the proof that one is the owner ([`Owner`]): the
//! essay at the head of `domain.rs` says where proofs come from.

use super::{Domain, Done, Start};
use crate::pool::{self, Work};
use crate::races::{self, Strand};
use crate::sched::Seat;
use crate::untold::Sweeps;
use crate::wait::{Sites, Wait};
use perilune_vm::parcel::{ModuleSearch, Parcel};
use perilune_vm::{Gc, Thread, Vm};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a hybrid native has taken from somewhere and could not hand on yet: a message, and the case of a
/// `select` that it came by.
pub(crate) type Stash = (u32, Parcel);

/// A fiber of a domain.
pub(super) struct Slot {
    pub(super) thread: Gc<Thread>,
    /// When it was made, in ticks.
    pub(super) born: u64,
    pub(super) done: Done,
    pub(super) wait: Option<Wait>,
    pub(super) stash: Option<Stash>,
    pub(super) started: bool,
    pub(super) generation: u32,
    /// The number of what tools call it in place of its function, which is one of the runtime's own; 0:
    /// nothing.
    pub(super) named_after: u32,
    /// Its own, if it is one: in a pool's domain.
    pub(super) strand: Option<Box<Strand>>,
    /// Where its `require` looks.
    pub(super) modules: Option<ModuleSearch>,
}

/// What only the owner touches.
#[derive(Default)]
pub(super) struct Local {
    pub(super) fibers: Vec<Result<Slot, u32>>,
    pub(super) free: Vec<u32>,
    pub(super) root_wait: Option<Wait>,
    /// Lines that have waited lately.
    pub(super) sites: Sites,
    pub(super) root_stash: Option<Stash>,
    pub(super) start: Option<Start>,
    /// Byte limit of the heap.
    pub(super) limit: Option<usize>,
    /// The domain's place in a pool.
    pub(super) seat: Option<(Arc<pool::Inner>, Seat<Work>)>,
    /// All fibers', outside of pools; in one, that of the fiber that has just ended.
    pub(super) strand: Option<Box<Strand>>,
    /// Collections because of failures that nobody has been told of.
    pub(super) sweeps: Sweeps,
    /// The pool's work comes before the next ready fiber: somebody gives way to it.
    pub(super) work_first: bool,
    /// Operations of the running fiber since it last waited (`outside::give_way`).
    pub(super) operations: u32,
}

/// A domain in the hands of its owner, for as long as it borrows the proof (module essay).
///
/// ```compile_fail,E0499
/// # use perilune_domain::domain::Domain;
/// # fn f(vm: &mut perilune_vm::Vm) -> perilune_vm::LuaResult<()> {
/// let one = Domain::of(vm)?;
/// let other = Domain::of(vm)?; // while the first may still be used
/// let both = (one, other);
/// # Ok(()) }
/// ```
/// ```compile_fail,E0502
/// # use perilune_domain::domain::Domain;
/// # fn f(vm: &mut perilune_vm::Vm) -> perilune_vm::LuaResult<()> {
/// let owner = Domain::of(vm)?;
/// let n = vm.nargs(); // code of the domain, beside its owner
/// drop((owner, n));
/// # Ok(()) }
/// ```
pub struct Owner<'a> {
    /// The domain, for what needs no proof.
    pub domain: &'a Domain,
    pub(super) fiber: Option<u64>,
    pub(super) proof: PhantomData<&'a mut Vm>,
}

impl<'a> Owner<'a> {
    /// What only the owner touches.
    #[inline]
    pub(super) fn local(self) -> &'a mut Local {
        // SAFETY: this is made of an exclusive borrow of the only proof, for as long as that lasts; and there
        // is one reference for each that is made.
        unsafe { &mut *self.domain.local.get() }
    }

    pub(super) fn slot(self, id: u64) -> Option<&'a mut Slot> {
        self.local().slot(id)
    }

    #[inline]
    pub(super) fn wait_place(self, fiber: Option<u64>) -> Option<&'a mut Option<Wait>> {
        match fiber {
            None => Some(&mut self.local().root_wait),
            Some(id) => self.slot(id).map(|s| &mut s.wait),
        }
    }

    #[inline]
    fn my_wait_place(self) -> Option<&'a mut Option<Wait>> {
        let fiber = self.fiber;
        self.wait_place(fiber)
    }

    /// The wait of what runs.
    #[inline]
    pub(crate) fn wait(self) -> Option<&'a mut Wait> {
        self.my_wait_place()?.as_mut()
    }

    pub(crate) fn set_wait(self, wait: Wait) {
        if let Some(place) = self.my_wait_place() {
            debug_assert!(place.is_none(), "one wait at a time");
            *place = Some(wait);
        }
    }

    /// Lines that have waited lately.
    pub(crate) fn sites(self) -> &'a mut Sites {
        &mut self.local().sites
    }

    pub(crate) fn take_wait(self) -> Option<Wait> {
        self.my_wait_place()?.take()
    }

    /// Where a native that is called again keeps what it must not lose.
    pub(crate) fn stash(self) -> Option<&'a mut Option<Stash>> {
        match self.fiber {
            None => Some(&mut self.local().root_stash),
            Some(id) => self.slot(id).map(|s| &mut s.stash),
        }
    }

    /// Counts an operation that needed no wait. True: that was the `most`th, and the count begins anew.
    pub(crate) fn count_operation(self, most: u32) -> bool {
        let operations = &mut self.local().operations;
        *operations += 1;
        let over = *operations >= most;
        if over {
            *operations = 0;
        }
        over
    }

    /// The domain works for a pool from now on.
    pub(crate) fn take_seat(self, pool: Arc<pool::Inner>, seat: Seat<Work>) {
        self.domain.interested.fetch_add(1, Ordering::Relaxed);
        self.local().seat = Some((pool, seat));
    }

    /// What the pool has to do comes before fibers that are ready, once.
    pub(crate) fn work_first(self) {
        self.local().work_first = true;
    }

    /// Whether the domain works for a pool.
    pub(crate) fn works_for_a_pool(self) -> bool {
        self.local().seat.is_some()
    }

    /// The domain's seat in this pool.
    pub(crate) fn seat_in(self, pool: &Arc<pool::Inner>) -> Option<&'a mut Seat<Work>> {
        match &mut self.local().seat {
            Some((mine, seat)) if Arc::ptr_eq(mine, pool) => Some(seat),
            _ => None,
        }
    }

    /// Whether a fiber of the domain is ready, or a task could begin here that has waited: for a loop of this
    /// pool that could let it go first.
    pub(crate) fn others_wait(self, pool: &Arc<pool::Inner>) -> bool {
        if self.domain.ownership.has_ready() || self.domain.ownership.is_wanted() {
            return true;
        }
        pool.has_waiting_tasks() && self.seat_in(pool).is_some_and(|seat| seat.could_take_oldest())
    }

    /// The strand that runs (`races`).
    pub(crate) fn strand(self) -> &'a mut Strand {
        let (domain, fiber) = (self.domain, self.fiber);
        let local = self.local();
        if local.seat.is_some()
            && let Some(at) = fiber.and_then(|id| local.place(id))
            && let Ok(slot) = &mut local.fibers[at]
        {
            return slot.strand.get_or_insert_with(|| Box::new(Strand::first(races::Kind::Timer)));
        }
        local.strand.get_or_insert_with(|| {
            let kind = if domain.is_main { races::Kind::Main } else { races::Kind::Domain(domain.name()) };
            Box::new(Strand::first(kind))
        })
    }

    /// A fiber of a pool's domain is this strand.
    pub(crate) fn begin_strand(self, fiber: u64, strand: Strand) {
        let local = self.local();
        if local.seat.is_some()
            && let Some(slot) = local.slot(fiber)
        {
            slot.strand = Some(Box::new(strand));
        }
    }

    /// A domain that is in no pool is this strand.
    pub(crate) fn begin_own_strand(self, strand: Strand) {
        self.local().strand = Some(Box::new(strand));
    }
}

impl Local {
    /// Where the fiber is, if it has not ended.
    pub(super) fn place(&self, id: u64) -> Option<usize> {
        let at = id as u32 as usize;
        match self.fibers.get(at) {
            Some(Ok(slot)) if slot.generation == (id >> 32) as u32 => Some(at),
            _ => None,
        }
    }

    pub(super) fn slot(&mut self, id: u64) -> Option<&mut Slot> {
        let at = self.place(id)?;
        self.fibers[at].as_mut().ok()
    }
}
