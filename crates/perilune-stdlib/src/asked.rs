//! Calls of the system that may wait for a disk, made by a helper while the fiber parks: opening, reading,
//! removing, renaming.
//!
//! The native that asks is called again when there is an answer. If its wait ends otherwise, work that has
//! not begun is not begun, and an answer that comes late is dropped with what it holds.

use crate::io;
use perilune_vm::host::{Direction, Doing, Watch};
use perilune_vm::{LuaResult, Vm};
use std::sync::{Arc, Mutex, PoisonError};

/// Where an answer will lie, and what rings then: what the native puts aside.
pub(crate) struct Asked<T> {
    place: Arc<Mutex<Option<T>>>,
    bell: Arc<dyn Watch>,
}

impl<T: Send + 'static> Asked<T> {
    /// Has a helper do `work`. If there is none it is done here. `None`: nothing can wait for it in this
    /// state.
    pub(crate) fn new(
        vm: &mut Vm,
        doing: Doing,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<Asked<T>> {
        let descriptors = vm.descriptors()?;
        let (place, bell) = (Arc::new(Mutex::new(None)), descriptors.bell(doing));
        let job = {
            let (place, bell) = (Arc::clone(&place), Arc::clone(&bell));
            move || {
                // Somebody waits for it still.
                if Arc::strong_count(&place) > 1 {
                    io::pretend_to_be_slow();
                    let answer = work();
                    *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
                }
                drop(place);
                bell.give_up(Direction::Read);
            }
        };
        if let Err(job) = descriptors.put(Box::new(job)) {
            vm.blocking(job);
        }
        Some(Asked { place, bell })
    }

    /// The answer, once.
    pub(crate) fn answer(&self) -> Option<T> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// What rings when there is an answer.
    pub(crate) fn bell(&self) -> Arc<dyn Watch> {
        Arc::clone(&self.bell)
    }

    /// Waits for the answer, with nothing pushed.
    ///
    /// # Errors
    /// The park: this is what is put aside.
    pub(crate) fn wait(mut self: Box<Self>, vm: &mut Vm) -> LuaResult<Option<T>> {
        loop {
            self.bell.clear(Direction::Read);
            if let Some(answer) = self.answer() {
                return Ok(Some(answer));
            }
            let aside = self.bell().wait(vm, Direction::Read, self)?;
            match aside.and_then(|aside| aside.downcast().ok()) {
                Some(me) => self = me,
                None => return Ok(None),
            }
        }
    }
}

/// The whole of a native's question: to be called at each of its turns, with nothing pushed. Where nobody
/// else can use the domain, or nothing can wait, it is done here.
///
/// # Errors
/// The park, or what ended the wait.
pub(crate) fn ask<T: Send + 'static>(
    vm: &mut Vm,
    doing: impl FnOnce() -> Doing,
    work: impl Fn() -> T + Send + Sync + 'static,
) -> LuaResult<T> {
    ask_unless(vm, doing, || None, work)
}

/// The same, unless `at_hand` finds the answer without waiting for a disk.
///
/// # Errors
/// As of [`ask`].
pub(crate) fn ask_unless<T: Send + 'static>(
    vm: &mut Vm,
    doing: impl FnOnce() -> Doing,
    at_hand: impl FnOnce() -> Option<T>,
    work: impl Fn() -> T + Send + Sync + 'static,
) -> LuaResult<T> {
    let work = Arc::new(work);
    let here = Arc::clone(&work);
    ask_or(vm, doing, at_hand, move || work(), move || here())
}

/// The same, where `here` is what is done if nobody else can use the domain.
///
/// # Errors
/// As of [`ask`].
pub(crate) fn ask_or<T: Send + 'static>(
    vm: &mut Vm,
    doing: impl FnOnce() -> Doing,
    at_hand: impl FnOnce() -> Option<T>,
    work: impl FnOnce() -> T + Send + 'static,
    here: impl FnOnce() -> T,
) -> LuaResult<T> {
    if vm.host().is_none() {
        return Ok(here());
    }
    let mut asked = vm.wait_over()?.and_then(|aside| aside.downcast::<Asked<T>>().ok());
    if asked.is_none() && vm.can_park() {
        if !io::is_slow_pretended()
            && let Some(answer) = at_hand()
        {
            return Ok(answer);
        }
        asked = Asked::new(vm, doing(), work).map(Box::new);
    }
    if let Some(asked) = asked
        && let Some(answer) = asked.wait(vm)?
    {
        return Ok(answer);
    }
    Ok(here())
}
