//! What one domain asks others of the program: which fibers they have (`pl.fibers { domain = d }`).
//!
//! Who asks leaves a part of the question with each domain, and waits; nobody else does. A domain answers
//! when it looks at its interrupts next, at a call or a loop's iteration, and goes on; one that sleeps is run
//! by a worker for this. The answer is data of no heap, so it crosses as it is. It is made where natives may
//! hold values that no collector finds: nothing is allocated in a heap for it.
//!
//! Each part is answered once. One that is dropped, since its domain ends or has nothing to run in, is an
//! answer too: that there are none. A domain that is in a system call which nobody else may interrupt, or in
//! native code that looks at no interrupt, has [`PATIENCE`]; then it is named as one that has not answered.
//!
//! Locks: a domain's, for what was left with it, and a question's. Each is held for a step, never both, and
//! nobody is woken under them.

use crate::domain::Domain;
use crate::listing::Fiber;
use crate::sched::{Reason, Waiter};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long domains may take to answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// See the module's essay.
pub(crate) struct Question(Mutex<Answers>);

/// What a domain has answered: its number, its name, its fibers.
pub(crate) type Answer = (u32, String, Vec<Fiber>);

struct Answers {
    given: Vec<Answer>,
    /// Who has not answered: number and name.
    missing: Vec<(u32, String)>,
    waiter: Option<Arc<Waiter>>,
}

impl Question {
    /// Asks these domains.
    pub fn ask(domains: &[Arc<Domain>]) -> Arc<Question> {
        let missing = domains.iter().map(|d| (d.number, d.name())).collect();
        let answers = Answers { given: Vec::new(), missing, waiter: None };
        let question = Arc::new(Question(Mutex::new(answers)));
        for domain in domains {
            domain.ask(Part { question: Arc::clone(&question), domain: domain.number });
        }
        question
    }

    /// Wakes `waiter` when all have answered. False: they have.
    pub fn wakes(&self, waiter: &Arc<Waiter>) -> bool {
        let mut answers = self.0.lock();
        answers.waiter = Some(Arc::clone(waiter));
        !answers.missing.is_empty()
    }

    /// What has been answered so far, and who has not answered, by number and name.
    pub fn take(&self) -> (Vec<Answer>, Vec<(u32, String)>) {
        let mut answers = self.0.lock();
        (std::mem::take(&mut answers.given), answers.missing.clone())
    }
}

/// What a domain is asked.
pub(crate) struct Part {
    question: Arc<Question>,
    domain: u32,
}

impl Part {
    /// Answers it.
    pub fn answer(self, name: String, fibers: Vec<Fiber>) {
        self.question.0.lock().given.push((self.domain, name, fibers));
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let waiter = {
            let mut answers = self.question.0.lock();
            answers.missing.retain(|(number, _)| *number != self.domain);
            if answers.missing.is_empty() { answers.waiter.take() } else { None }
        };
        if let Some(waiter) = waiter {
            waiter.wake(Reason::Ready);
        }
    }
}

/// What was left with a domain.
pub(crate) struct Asked {
    /// `None`: nobody is there any more who could answer.
    parts: Mutex<Option<Vec<Part>>>,
    are_some: AtomicBool,
}

impl Default for Asked {
    fn default() -> Self {
        Asked { parts: Mutex::new(Some(Vec::new())), are_some: AtomicBool::new(false) }
    }
}

impl Asked {
    /// Leaves a part, for the owner to be told of.
    pub fn leave(&self, part: Part) {
        let refused = match &mut *self.parts.lock() {
            Some(parts) => {
                parts.push(part);
                self.are_some.store(true, Ordering::Release);
                None
            }
            None => Some(part),
        };
        drop(refused); // after the lock
    }

    /// What has been left since this was called last. By the owner.
    pub fn take(&self) -> Vec<Part> {
        if !self.are_some.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        self.parts.lock().as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Nobody answers any more.
    pub fn end(&self) {
        let parts = self.parts.lock().take();
        drop(parts); // after the lock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(domains: &[u32]) -> Arc<Question> {
        let missing = domains.iter().map(|n| (*n, format!("d{n}"))).collect();
        Arc::new(Question(Mutex::new(Answers { given: Vec::new(), missing, waiter: None })))
    }

    fn part(question: &Arc<Question>, domain: u32) -> Part {
        Part { question: Arc::clone(question), domain }
    }

    #[test]
    fn who_has_not_answered_is_known_by_name() {
        let question = question(&[1, 2, 3]);
        let asked = [Asked::default(), Asked::default(), Asked::default()];
        for (n, asked) in asked.iter().enumerate() {
            asked.leave(part(&question, n as u32 + 1));
        }
        for part in asked[1].take() {
            part.answer("d2".into(), Vec::new());
        }
        assert!(asked[1].take().is_empty());
        let (given, missing) = question.take();
        assert_eq!((given.len(), given[0].0), (1, 2));
        assert_eq!(missing, [(1, "d1".to_owned()), (3, "d3".to_owned())]);
        // One that ends has answered, and so has one that is asked after that.
        asked[0].end();
        assert_eq!(question.take().1, [(3, "d3".to_owned())]);
        asked[0].leave(part(&question, 1));
        drop(asked);
        assert!(question.take().1.is_empty());
    }
}
