//! A runtime: one program, with its main domain, those that it spawns, and its pools. What is its own, and
//! what it is made from.
//!
//! A process may have several; the programs in them know nothing of each other. Each domain has a count of
//! its runtime, and whoever needs it asks the domain. What belongs to the process by its nature (threads,
//! timers, numbers in events, signals, the account of memory) is where it was;
//! `docs/decisions/0021-a-runtime-is-an-object.md` has the list.
//!
//! # Who keeps whom
//! Domains and pools' handles keep the runtime; the runtime refers to domains weakly, and pools refer to it
//! weakly. It keeps the default pool, whose domains keep it in turn: the main domain breaks this circle when
//! it goes ([`Runtime::main_has_gone`]).

use crate::bundle::Files;
use crate::domain::Domain;
use crate::pool::Pool;
use crate::sched::{Quiescence, Waiter};
use crate::untold::Untold;
use parking_lot::Mutex;
use perilune_heap::HeapOptions;
use perilune_stdlib::Paths;
use perilune_vm::host::Descriptors;
use perilune_vm::machine::Specializer;
use perilune_vm::{Native, Vm};
use std::any::Any;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// Waits that a report of a standstill lists; of more only the number is told.
const MOST_LISTED: usize = 20;

/// What whoever runs a program decides, once, for all its domains. Nothing here is read from the environment
/// later.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// How heaps are made; the limit is that of each domain that asks for none.
    pub heap: HeapOptions,
    /// Where modules are looked for, as long as the program says nothing else.
    pub paths: Paths,
    /// What belongs to the program.
    pub files: Arc<Files>,
    /// Accesses to shared data that nothing orders are reported. Once one runtime of the process asks for it,
    /// arrays made from then on are watched in all.
    pub check_races: bool,
    /// The main domain is told of an interrupt by the user. One runtime of a process should ask for it: that
    /// of the command.
    pub takes_interrupts: bool,
    /// Further modules that every domain can require.
    pub modules: Vec<Module>,
    /// What lets natives of the standard library wait for pipes without a thread; `None`: they block one.
    pub descriptors: Option<&'static dyn Descriptors>,
    /// Makes machine code for all domains; `None`: everything is interpreted.
    pub specializer: Option<Arc<dyn Specializer>>,
}

/// A module of a room above this one, under the name of the native that makes it.
#[derive(Clone, Copy)]
pub struct Module(pub &'static Native);

impl std::fmt::Debug for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.name)
    }
}

/// One program: see the module's essay.
pub struct Runtime {
    config: Config,
    quiescence: Arc<Quiescence>,
    domains: Mutex<Vec<Weak<Domain>>>,
    next_number: AtomicU32,
    /// Who waited for what when nothing could happen any more.
    standstill: Mutex<String>,
    untold: Untold,
    default_pool: Mutex<Option<Arc<Pool>>>,
}

impl Runtime {
    /// A program in which nothing has happened yet.
    pub fn new(config: Config) -> Arc<Runtime> {
        let runtime = Arc::new_cyclic(|me: &Weak<Runtime>| {
            let told = me.clone();
            let report = move |waits: &[Arc<Waiter>]| {
                if let Some(runtime) = told.upgrade() {
                    runtime.report_standstill(waits);
                }
            };
            Runtime {
                config,
                quiescence: Quiescence::new(Box::new(report)),
                domains: Mutex::new(Vec::new()),
                next_number: AtomicU32::new(1),
                standstill: Mutex::new(String::new()),
                untold: Untold::new(me.clone()),
                default_pool: Mutex::new(None),
            }
        });
        let mut all = all().lock();
        all.retain(|r| r.strong_count() > 0);
        all.push(Arc::downgrade(&runtime));
        runtime
    }

    /// The runtime that a state was made for; one with the default configuration, if it was made for none.
    pub(crate) fn of_state(vm: &Vm) -> Arc<Runtime> {
        let known: Option<Arc<dyn Any + Send + Sync>> = vm.embedder().cloned();
        match known.and_then(|known| known.downcast().ok()) {
            Some(runtime) => runtime,
            None => Runtime::new(Config::default()),
        }
    }

    /// What it was made from.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The count of what can still happen.
    pub fn quiescence(&self) -> &Arc<Quiescence> {
        &self.quiescence
    }

    /// Failures that nobody has been told of.
    pub(crate) fn untold(&self) -> &Untold {
        &self.untold
    }

    /// A number for a new domain, as programs see it: 1 is the main one.
    pub(crate) fn new_number(&self) -> u32 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Enters a domain into the list.
    pub(crate) fn enlist(&self, domain: &Arc<Domain>) {
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

    /// The pool that the program's parts have in common, made by `make` if there is none.
    pub(crate) fn default_pool(&self, make: impl FnOnce() -> Arc<Pool>) -> Arc<Pool> {
        Arc::clone(self.default_pool.lock().get_or_insert_with(make))
    }

    /// The main domain is no more: nobody will ask for the default pool.
    pub(crate) fn main_has_gone(&self) {
        let pool = self.default_pool.lock().take();
        drop(pool);
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
    pub(crate) fn standstill(&self) -> String {
        self.standstill.lock().clone()
    }
}

/// The runtimes of the process: for tools, which ask the process.
fn all() -> &'static Mutex<Vec<Weak<Runtime>>> {
    static ALL: OnceLock<Mutex<Vec<Weak<Runtime>>>> = OnceLock::new();
    ALL.get_or_init(Mutex::default)
}

/// The domains of all runtimes that have not ended.
pub(crate) fn domains_of_process() -> Vec<Arc<Domain>> {
    let runtimes: Vec<_> = all().lock().iter().filter_map(Weak::upgrade).collect();
    runtimes.iter().flat_map(|r| r.domains()).collect()
}

/// A number for a domain in events: no other one of the process has it.
pub(crate) fn new_id() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
