//! The specialiser that programs run with: two threads beside theirs, one that says when time has passed, one that compiles.
//!
//! # Ticks
//! The clock thread sets a bit in the interrupt word of each domain, every [`TICK`]; the domain acts on it where it polls, and clears it (`perilune_vm::machine`). A domain that
//! sleeps does not clear it. When no domain has cleared its bit, nothing runs: the clock stops, and goes on when one does ([`Specializer::ticked`]). So a program that does nothing is never woken, and no
//! signal is sent to anybody.
//!
//! # Compiling
//! Logs go to the compiling thread, in the order in which they were made. Machine code is for all domains: each gets it in its mailbox, and a bit in its interrupt word. A domain that has
//! no instance of the function by then finds the code when it makes one ([`Specializer::code_of`]).
//!
//! Logs wait in a queue of [`QUEUE`]; what does not fit is dropped: the function gets hot again.
//!
//! # After `fork`
//! A child has neither thread. Nothing that runs Lua forks without `exec`; a host that does has to leave this specialiser out, because its locks may be held by threads that the child lacks.
//!
//! Rejected: signals (they interrupt system calls of C code), counting in loops and calls (programs of which nothing was compiled ran 5 to 12% slower with `blocking`, its recordings included).

use crate::Unavailable;
use crate::compiler::Compiler;
use perilune_syntax::Proto;
use perilune_vm::interrupt::{INSTALL, InterruptHandle, TICK};
use perilune_vm::machine::{Log, MachineCode, Specializer};
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::{self, Thread};
use std::time::Duration;

/// From one tick to the next.
const PERIOD: Duration = Duration::from_millis(1);
/// As many recordings wait to be compiled.
const QUEUE: usize = 16;
/// After so many ticks in a row that nobody saw the clock stops.
const UNSEEN: u32 = 3;

/// A domain, as far as it is known here.
struct Domain {
    handle: InterruptHandle,
    /// What it has not fetched yet.
    codes: Vec<Arc<MachineCode>>,
}

/// Compiles on a thread of its own.
pub struct Background {
    compiler: Compiler,
    domains: Mutex<Vec<Domain>>,
    /// How many ticks have been seen by domains.
    seen: AtomicU64,
    /// The clock stands still, until a tick is seen.
    stopped: AtomicBool,
    clock: OnceLock<Thread>,
    queue: OnceLock<SyncSender<Vec<Log>>>,
    /// Itself, for its threads.
    this: Weak<Background>,
}

impl std::fmt::Debug for Background {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Background").field("stopped", &self.stopped).finish_non_exhaustive()
    }
}

impl Background {
    /// Of what is hot, `quota` instructions are recorded.
    ///
    /// # Errors
    /// There can be no machine code here.
    pub fn new(quota: u32, report: Option<File>) -> Result<Arc<Background>, Unavailable> {
        let compiler = Compiler::new(quota, report)?;
        Ok(Arc::new_cyclic(|this| Background {
            compiler,
            domains: Mutex::default(),
            seen: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            clock: OnceLock::new(),
            queue: OnceLock::new(),
            this: Weak::clone(this),
        }))
    }

    fn domains(&self) -> MutexGuard<'_, Vec<Domain>> {
        self.domains.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where logs go. Without a thread they go nowhere, and everything is interpreted.
    fn queue(&self) -> &SyncSender<Vec<Log>> {
        self.queue.get_or_init(|| {
            let (sender, logs) = sync_channel(QUEUE);
            let this = Weak::clone(&self.this);
            let _ = thread::Builder::new().name("compiler".into()).spawn(move || compile_all(&this, &logs));
            sender
        })
    }

    /// All domains may run this code from now on.
    fn publish(&self, codes: &[Arc<MachineCode>]) {
        for domain in self.domains().iter_mut() {
            domain.codes.extend(codes.iter().cloned());
            domain.handle.raise_cause(INSTALL);
        }
    }
}

/// The clock thread.
fn tick(this: &Weak<Background>) {
    let mut before = 0;
    let mut unseen = 0;
    loop {
        thread::sleep(PERIOD);
        let Some(this) = this.upgrade() else { return };
        let seen = this.seen.load(Ordering::Relaxed);
        unseen = if seen == before { unseen + 1 } else { 0 };
        before = seen;
        {
            let mut domains = this.domains();
            domains.retain(|domain| !domain.handle.is_alone());
            domains.iter().for_each(|domain| domain.handle.raise_cause(TICK));
        }
        if unseen >= UNSEEN {
            this.stopped.store(true, Ordering::SeqCst);
            // Whoever sees a tick from here on wakes this thread; one that was seen before shows in the count.
            while this.stopped.load(Ordering::SeqCst) && this.seen.load(Ordering::SeqCst) == before {
                // Somebody has to be there who could go on.
                if Arc::strong_count(&this) == 1 {
                    return;
                }
                thread::park();
            }
            this.stopped.store(false, Ordering::SeqCst);
            unseen = 0;
        }
    }
}

/// The compiling thread.
fn compile_all(this: &Weak<Background>, logs: &Receiver<Vec<Log>>) {
    while let Ok(logs) = logs.recv() {
        let Some(this) = this.upgrade() else { return };
        let codes: Vec<_> = this.compiler.compile(logs).into_iter().map(|(_, code)| code).collect();
        if !codes.is_empty() {
            this.publish(&codes);
        }
    }
}

impl Specializer for Background {
    fn code_of(&self, proto: &Arc<Proto>) -> Option<Arc<MachineCode>> {
        self.compiler.code_of(proto)
    }

    fn quota(&self) -> u32 {
        self.compiler.quota()
    }

    fn attach(&self, handle: InterruptHandle) {
        self.domains().push(Domain { handle, codes: Vec::new() });
        // It has no tick yet that it could see.
        self.ticked();
        if self.clock.get().is_none() {
            let this = Weak::clone(&self.this);
            let clock = thread::Builder::new().name("ticks".into()).spawn(move || tick(&this));
            if let Ok(clock) = clock {
                let _ = self.clock.set(clock.thread().clone());
            }
        }
    }

    fn ticked(&self) {
        self.seen.fetch_add(1, Ordering::SeqCst);
        if self.stopped.swap(false, Ordering::SeqCst)
            && let Some(clock) = self.clock.get()
        {
            clock.unpark();
        }
    }

    fn fetch(&self, handle: &InterruptHandle) -> Vec<Arc<MachineCode>> {
        let mut domains = self.domains();
        let domain = domains.iter_mut().find(|domain| domain.handle.is_same(handle));
        domain.map_or_else(Vec::new, |domain| std::mem::take(&mut domain.codes))
    }

    fn compile(&self, logs: Vec<Log>) -> Vec<(usize, Arc<MachineCode>)> {
        match self.queue().try_send(logs) {
            Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => Vec::new(),
        }
    }
}
