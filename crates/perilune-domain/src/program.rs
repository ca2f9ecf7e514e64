//! What exists once in the process: the count of what can still happen, the list of domains, the report of a standstill.

use crate::domain::Domain;
use crate::sched::{Rest, Waiter};
use crate::untold::Untold;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// Waits that a report of a standstill lists; of more only the number is told.
const MOST_LISTED: usize = 20;

/// The program: all domains of the process.
pub struct Program {
    rest: Arc<Rest>,
    domains: Mutex<Vec<Weak<Domain>>>,
    next_id: AtomicU32,
    /// Who waited for what when nothing could happen any more.
    standstill: Mutex<String>,
    untold: Untold,
}

/// The program.
pub fn program() -> &'static Program {
    static PROGRAM: OnceLock<Program> = OnceLock::new();
    PROGRAM.get_or_init(|| Program {
        rest: Rest::new(Box::new(|waits| program().report_standstill(waits))),
        domains: Mutex::new(Vec::new()),
        next_id: AtomicU32::new(1),
        standstill: Mutex::new(String::new()),
        untold: Untold::default(),
    })
}

impl Program {
    /// The count of what can still happen.
    pub fn rest(&self) -> &Arc<Rest> {
        &self.rest
    }

    /// Failures that nobody has been told of.
    pub(crate) fn untold(&self) -> &Untold {
        &self.untold
    }

    /// A number for a new domain: 1 is the main one.
    pub fn new_id(&self) -> u32 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Enters a domain into the list.
    pub fn enlist(&self, domain: &Arc<Domain>) {
        let mut domains = self.domains.lock();
        if domains.len() == domains.capacity() {
            domains.retain(|d| d.strong_count() > 0);
        }
        domains.push(Arc::downgrade(domain));
    }

    /// The domains that have not ended.
    pub fn domains(&self) -> Vec<Arc<Domain>> {
        let mut live: Vec<_> = self.domains.lock().iter().filter_map(Weak::upgrade).collect();
        live.retain(|d| !d.has_ended());
        live
    }

    fn report_standstill(&self, waits: &[Arc<Waiter>]) {
        let mut text = String::new();
        for w in waits.iter().take(MOST_LISTED) {
            text.push_str("\n\t");
            text.push_str(&w.sleeper().describe());
        }
        if waits.len() > MOST_LISTED {
            text.push_str(&format!("\n\t... and {} more", waits.len() - MOST_LISTED));
        }
        *self.standstill.lock() = text;
    }

    /// One line for each wait of the last standstill, each after a line break and a tab.
    pub fn standstill(&self) -> String {
        self.standstill.lock().clone()
    }
}
