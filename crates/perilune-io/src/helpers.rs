//! Helper threads, for calls of the system that block and have no other form: looking up names, opening,
//! renaming, waiting for a disk.
//!
//! There is a *desk* for each kind of work, with a limit of its own: names that nobody answers do not keep
//! files from being read. Threads begin on demand, and end when they have had nothing to do for a while.
//! Whoever asks waits as for anything else: its fiber parks with what it wants in a [`Asked`], and is woken
//! when the answer lies there. If the wait ends early (a timeout, a cancellation), work that has not begun is
//! not begun, and a late answer is dropped with everything it holds.
//!
//! Rejected: one pool for everything (what blocks for minutes starves what blocks for microseconds);
//! `io_uring` for files alone, for now (a second backend with a fallback, for calls that are answered from
//! memory nearly always).

use crate::failure::Failure;
use parking_lot::{Condvar, Mutex};
use perilune_domain::outside::{self, Awaited, Reason, Turn, Waiter};
use perilune_trace::event::Verb;
use perilune_vm::host::Work;
use perilune_vm::{LuaResult, Vm};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

thread_local! {
    /// Who waits for what this helper does.
    static ASKER: RefCell<Option<Arc<Waiter>>> = const { RefCell::new(None) };
    /// What it did has been given up.
    static GIVEN_UP: Cell<bool> = const { Cell::new(false) };
}

/// Whether the thread is a helper that does something for somebody who may give up.
pub fn can_be_given_up() -> bool {
    ASKER.with_borrow(Option::is_some)
}

/// Whether somebody still waits for what this helper does.
pub fn is_wanted() -> bool {
    ASKER.with_borrow(|asker| asker.as_ref().is_none_or(|waiter| waiter.woken().is_none()))
}

/// For a helper that has found out that nobody waits any more: what its work comes to is no answer.
pub fn give_up() {
    GIVEN_UP.set(true);
}

/// How long a helper waits for more to do.
const KEEP: Duration = Duration::from_secs(2);

/// Where helpers of one kind take their work from.
pub struct Desk {
    /// Of the threads.
    name: &'static str,
    /// What they do, for messages: "names are being looked up".
    what: &'static str,
    /// Threads at most.
    most: usize,
    /// So much work may wait.
    longest: usize,
    queue: Mutex<Queue>,
    asked: Condvar,
}

struct Queue {
    work: VecDeque<Work>,
    helpers: usize,
    idle: usize,
}

impl Desk {
    /// A desk where nobody works yet.
    pub const fn new(name: &'static str, what: &'static str, most: usize, longest: usize) -> Desk {
        let queue = Queue { work: VecDeque::new(), helpers: 0, idle: 0 };
        Desk { name, what, most, longest, queue: Mutex::new(queue), asked: Condvar::new() }
    }

    /// Has `job` done by a helper, which wakes `waiter` then. If nobody waits any more when its turn comes it
    /// is not done.
    ///
    /// # Errors
    /// There is too much to do, or there is no thread.
    pub fn ask(&'static self, job: Work, waiter: Arc<Waiter>) -> Result<(), Failure> {
        self.put(Box::new(move || {
            if waiter.woken().is_none() {
                ASKER.set(Some(Arc::clone(&waiter)));
                job();
                ASKER.set(None);
                waiter.wake(Reason::Ready);
            }
        }))
    }

    /// Has work done by a helper.
    ///
    /// # Errors
    /// There is too much to do, or there is no thread.
    pub fn put(&'static self, work: Work) -> Result<(), Failure> {
        self.offer(work).map_err(|(failure, _)| failure)
    }

    /// The same.
    ///
    /// # Errors
    /// There is too much to do, or there is no thread: the work comes back.
    pub fn offer(&'static self, work: Work) -> Result<(), (Failure, Work)> {
        let mut queue = self.queue.lock();
        if queue.work.len() >= self.longest {
            return Err((Failure::Busy(format!("{} {} already", self.longest, self.what)), work));
        }
        queue.work.push_back(work);
        if queue.work.len() > queue.idle && queue.helpers < self.most {
            queue.helpers += 1;
            let helper = perilune_heap::space::spawn(self.name.into(), 512 << 10, || self.help());
            if let Err(error) = helper {
                queue.helpers -= 1;
                if queue.helpers == 0
                    && let Some(refused) = queue.work.pop_back()
                {
                    drop(queue);
                    return Err((Failure::Busy(format!("no thread for work that blocks: {error}")), refused));
                }
            }
        }
        drop(queue);
        self.asked.notify_one();
        Ok(())
    }

    fn help(&self) {
        let mut queue = self.queue.lock();
        loop {
            if let Some(work) = queue.work.pop_front() {
                drop(queue);
                work();
                queue = self.queue.lock();
                continue;
            }
            queue.idle += 1;
            let over = self.asked.wait_for(&mut queue, KEEP).timed_out();
            queue.idle -= 1;
            if over && queue.work.is_empty() {
                queue.helpers -= 1;
                return;
            }
        }
    }
}

/// What is put aside by a native that waits for a helper.
struct Asked<T> {
    /// Where the answer will lie.
    place: Place<T>,
    deadline: Option<Instant>,
}

/// Where a native is that may ask a helper.
pub enum Answer<T> {
    /// It has not asked.
    None,
    /// Here it is.
    Some(T),
    /// There will be none.
    Failed(Failure),
}

/// The beginning of each turn of a native that may have asked for a `T`.
///
/// # Errors
/// The park, or what ended the wait.
pub fn answer<T: Send + 'static>(vm: &mut Vm) -> LuaResult<Answer<T>> {
    answer_and_deadline(vm).map(|(answer, _)| answer)
}

/// The same of a native that may ask several times: with the deadline that it has asked with.
///
/// # Errors
/// As [`answer`].
pub fn answer_and_deadline<T: Send + 'static>(vm: &mut Vm) -> LuaResult<(Answer<T>, Option<Instant>)> {
    match outside::woken(vm)? {
        Turn::First => Ok((Answer::None, None)),
        Turn::Asleep => Err(vm.park()),
        Turn::Woken(reason, _) => {
            let asked = outside::take_data::<Asked<T>>(vm);
            outside::finish(vm);
            let Some(asked) = asked else { return Ok((Answer::None, None)) };
            let there = asked.place.lock().take();
            let answer = match (there, reason) {
                (Some(there), _) => Answer::Some(there),
                (None, Reason::Timeout) => Answer::Failed(Failure::Timeout),
                (None, _) => Answer::Failed(Failure::Closed),
            };
            Ok((answer, asked.deadline))
        }
    }
}

/// Asks, and waits until `deadline`.
///
/// # Errors
/// The park; or nothing can wait here.
pub fn ask<T: Send + 'static>(
    vm: &mut Vm,
    desk: &'static Desk,
    what: Arc<dyn Awaited>,
    deadline: Option<Instant>,
    work: impl FnOnce() -> T + Send + 'static,
) -> LuaResult<Answer<T>> {
    ask_with(vm, what, deadline, |waiter, there| {
        let job = move || {
            let result = work();
            // Who comes late to hear of it has been told why it waits no more.
            if !GIVEN_UP.take() {
                *there.lock() = Some(result);
            }
        };
        desk.ask(Box::new(job), waiter)
    })
}

/// Where an answer will lie.
pub type Place<T> = Arc<Mutex<Option<T>>>;

/// The same, where `begin` sees to it that somebody leaves an answer at the place and wakes the waiter then.
///
/// # Errors
/// The park; or nothing can wait here.
pub fn ask_with<T: Send + 'static>(
    vm: &mut Vm,
    what: Arc<dyn Awaited>,
    deadline: Option<Instant>,
    begin: impl FnOnce(Arc<Waiter>, Place<T>) -> Result<(), Failure>,
) -> LuaResult<Answer<T>> {
    let waiter = outside::begin(vm, Verb::WaitsFor, what)?;
    let place = Arc::new(Mutex::new(None));
    if let Err(failure) = begin(waiter, Arc::clone(&place)) {
        outside::finish(vm);
        return Ok(Answer::Failed(failure));
    }
    outside::set_data(vm, Asked { place: Arc::clone(&place), deadline });
    if deadline.is_some() {
        outside::limit_at(vm, deadline)?;
    }
    if outside::sleeps(vm) {
        return Err(vm.park());
    }
    outside::finish(vm);
    let there = place.lock().take();
    Ok(there.map_or(Answer::Failed(Failure::Timeout), Answer::Some))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    /// Waits until somebody says what `done` waits for.
    fn within<T>(receiver: &mpsc::Receiver<T>) -> T {
        receiver.recv_timeout(Duration::from_secs(30)).expect("it happens")
    }

    /// A resolver that is dead keeps all helpers for names; files have helpers of their own.
    #[test]
    fn a_desk_whose_helpers_are_all_stuck_stops_no_other_desk() {
        static NAMES: Desk = Desk::new("test-names", "names are being looked up", 16, 20);
        static FILES: Desk = Desk::new("test-files", "operations on files wait", 48, 100);
        let stuck = Arc::new(Barrier::new(17));
        let (begun, beginning) = mpsc::channel();
        for _ in 0..16 {
            let (stuck, begun) = (Arc::clone(&stuck), begun.clone());
            let job = move || {
                begun.send(()).expect("heard");
                stuck.wait();
            };
            NAMES.put(Box::new(job)).expect("it is taken");
        }
        (0..16).for_each(|_| within(&beginning));
        // More names wait, as many as may, and no more.
        let late = Arc::new(AtomicUsize::new(0));
        let mut taken = 0;
        let refused = loop {
            let late = Arc::clone(&late);
            match NAMES.put(Box::new(move || _ = late.fetch_add(1, Ordering::Relaxed))) {
                Ok(()) => taken += 1,
                Err(failure) => break failure,
            }
        };
        assert_eq!(refused.code(), "busy");
        assert_eq!(taken, 20);
        let (done, receiver) = mpsc::channel();
        for n in 0..100 {
            let done = done.clone();
            while FILES
                .put(Box::new({
                    let done = done.clone();
                    move || done.send(n).expect("heard")
                }))
                .is_err()
            {
                std::thread::yield_now();
            }
        }
        let mut files: Vec<i32> = (0..100).map(|_| within(&receiver)).collect();
        files.sort_unstable();
        assert_eq!(files, (0..100).collect::<Vec<_>>());
        assert_eq!(late.load(Ordering::Relaxed), 0, "no name was looked up meanwhile");
        stuck.wait();
        let (end, ended) = mpsc::channel();
        let look = std::thread::spawn(move || {
            while late.load(Ordering::Relaxed) < taken {
                std::thread::sleep(Duration::from_millis(1));
            }
            end.send(()).expect("heard");
        });
        within(&ended);
        look.join().expect("no panic");
    }
}
