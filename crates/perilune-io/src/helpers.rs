//! Helper threads, for calls of the system that block and have no other form: looking up names, opening, renaming, waiting for a disk.
//!
//! There is a *desk* for each kind of work, with a limit of its own: names that nobody answers do not keep files from being read. Threads begin on demand, and end when they have had
//! nothing to do for a while. Whoever asks waits as for anything else: its fiber parks with what it wants in a [`Asked`], and is woken when the answer lies there. If the wait ends
//! early (a timeout, a cancellation), work that has not begun is not begun, and a late answer is dropped with everything it holds.
//!
//! Rejected: one pool for everything (what blocks for minutes starves what blocks for microseconds); `io_uring` for files alone, for now (a second backend with a fallback, for calls
//! that are answered from memory nearly always).

use crate::failure::Failure;
use parking_lot::{Condvar, Mutex};
use perilune_domain::outside::{self, Awaited, Reason, Turn, Waiter};
use perilune_trace::event::Verb;
use perilune_vm::{LuaResult, Vm};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

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

struct Work {
    /// Does it and leaves the answer.
    job: Box<dyn FnOnce() + Send>,
    waiter: Arc<Waiter>,
}

impl Desk {
    /// A desk where nobody works yet.
    pub const fn new(name: &'static str, what: &'static str, most: usize, longest: usize) -> Desk {
        let queue = Queue { work: VecDeque::new(), helpers: 0, idle: 0 };
        Desk { name, what, most, longest, queue: Mutex::new(queue), asked: Condvar::new() }
    }

    /// Has `job` done by a helper, which wakes `waiter` then.
    ///
    /// # Errors
    /// There is too much to do, or there is no thread.
    pub fn ask(&'static self, job: Box<dyn FnOnce() + Send>, waiter: Arc<Waiter>) -> Result<(), Failure> {
        let mut queue = self.queue.lock();
        if queue.work.len() >= self.longest {
            return Err(Failure::Busy(format!("{} {} already", self.longest, self.what)));
        }
        queue.work.push_back(Work { job, waiter });
        if queue.work.len() > queue.idle && queue.helpers < self.most {
            queue.helpers += 1;
            let helper = std::thread::Builder::new()
                .name(self.name.into())
                .stack_size(512 << 10)
                .spawn(|| self.help());
            if let Err(error) = helper {
                queue.helpers -= 1;
                if queue.helpers == 0 {
                    let refused = queue.work.pop_back();
                    drop(queue);
                    drop(refused);
                    return Err(Failure::Busy(format!("no thread for work that blocks: {error}")));
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
            if let Some(Work { job, waiter }) = queue.work.pop_front() {
                drop(queue);
                // Otherwise nobody waits any more: its time was over before its turn came.
                if waiter.woken().is_none() {
                    job();
                    waiter.wake(Reason::Ready);
                } else {
                    drop(job);
                }
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

/// What is put aside by a native that waits for a helper: where the answer will lie.
struct Asked<T>(Arc<Mutex<Option<T>>>);

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
    match outside::woken(vm)? {
        Turn::First => Ok(Answer::None),
        Turn::Asleep => Err(vm.park()),
        Turn::Woken(reason, _) => {
            let asked = outside::take_data::<Asked<T>>(vm);
            outside::finish(vm);
            let Some(asked) = asked else { return Ok(Answer::None) };
            let there = asked.0.lock().take();
            Ok(match (there, reason) {
                (Some(there), _) => Answer::Some(there),
                (None, Reason::Timeout) => Answer::Failed(Failure::Timeout),
                (None, _) => Answer::Failed(Failure::Closed),
            })
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
    let waiter = outside::begin(vm, Verb::WaitsFor, what)?;
    let place = Arc::new(Mutex::new(None));
    let there = Arc::clone(&place);
    let job = move || {
        let result = work();
        *there.lock() = Some(result);
    };
    if let Err(failure) = desk.ask(Box::new(job), waiter) {
        outside::finish(vm);
        return Ok(Answer::Failed(failure));
    }
    outside::set_data(vm, Asked(Arc::clone(&place)));
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
