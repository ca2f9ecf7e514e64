//! Any descriptor, for natives of rooms below: what `perilune_vm::host` calls `Descriptors`. The standard
//! library's pipes, FIFOs and terminals wait here.
//!
//! Nothing is done to the descriptor: one that is inherited is shared with other programs, and must go on
//! blocking for them. Who waits looks whether it is ready (`poll`) before each attempt. What a helper does to
//! a file on a disk is waited for here too, by a bell in place of a descriptor. All who wait are woken at an
//! edge's consequences: the first by the edge, the others by whoever has taken something (`pass_on`).

use crate::fs::FILES;
use crate::poller::{self, Registration};
use crate::slot::{Left, Slot, Wakes};
use crate::sys::process;
use perilune_domain::outside::{self, Awaited, Turn, Waiter};
use perilune_trace::ObjectKind;
use perilune_trace::event::Verb;
use perilune_vm::host::{Aside, Descriptors, Direction, Doing, Subject, Watch, Watchable, Work};
use perilune_vm::{LuaResult, Vm};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The process's poller, as natives below know it.
pub fn descriptors() -> &'static dyn Descriptors {
    &Poller
}

#[derive(Debug)]
struct Poller;

struct Watched {
    registration: Registration,
    kind: ObjectKind,
    number: i32,
    /// What it is called, looked up when somebody asks: while somebody waits it is open.
    name: OnceLock<String>,
}

/// What is put aside: dropped with the wait, it takes the waiter back.
struct Waits {
    from: Option<(Arc<dyn HasSlots>, Direction, Left)>,
    aside: Option<Aside>,
}

/// In which waiters are left.
trait HasSlots: Send + Sync {
    fn slot(&self, direction: Direction) -> &Slot<Arc<Waiter>>;
}

impl Drop for Waits {
    fn drop(&mut self) {
        if let Some((watched, direction, left)) = &self.from {
            watched.slot(*direction).take_back(*left);
        }
    }
}

/// Ends the wait: what was put aside.
fn over(vm: &mut Vm) -> Option<Aside> {
    let waits = outside::take_data::<Waits>(vm);
    outside::finish(vm);
    waits.and_then(|mut waits| waits.aside.take())
}

/// Begins a wait for one of `slots`, which `object` has.
fn wait<T: HasSlots + Awaited + 'static>(
    vm: &mut Vm,
    object: Arc<T>,
    verb: Verb,
    direction: Direction,
    aside: Aside,
) -> LuaResult<Option<Aside>> {
    let waiter = outside::begin(vm, verb, Arc::clone(&object) as _)?;
    let Ok(left) = object.slot(direction).leave(waiter) else {
        outside::finish(vm);
        return Ok(Some(aside));
    };
    outside::set_data(vm, Waits { from: Some((object, direction, left)), aside: Some(aside) });
    if outside::sleeps(vm) {
        return Err(vm.park());
    }
    Ok(over(vm))
}

impl HasSlots for Watched {
    fn slot(&self, direction: Direction) -> &Slot<Arc<Waiter>> {
        match direction {
            Direction::Read => &self.registration.source.read,
            Direction::Write => &self.registration.source.write,
        }
    }
}

/// What a helper does, or a thread of somebody else.
struct Bell {
    what: Doing,
    reading: Slot<Arc<Waiter>>,
    writing: Slot<Arc<Waiter>>,
}

impl HasSlots for Bell {
    fn slot(&self, direction: Direction) -> &Slot<Arc<Waiter>> {
        match direction {
            Direction::Read => &self.reading,
            Direction::Write => &self.writing,
        }
    }
}

impl Awaited for Bell {
    fn kind(&self) -> ObjectKind {
        ObjectKind::Operation
    }
    fn name(&self) -> String {
        match &self.what.what {
            Subject::Name(name) => format!("{} '{}'", self.what.verb, String::from_utf8_lossy(name)),
            Subject::Descriptor(number) => format!("{} '{}'", self.what.verb, path_of(*number)),
        }
    }
}

impl Watch for Bell {
    fn clear(&self, direction: Direction) {
        self.slot(direction).clear();
    }

    fn wait(self: Arc<Self>, vm: &mut Vm, direction: Direction, aside: Aside) -> LuaResult<Option<Aside>> {
        wait(vm, self, Verb::WaitsFor, direction, aside)
    }

    fn give_up(&self, direction: Direction) {
        self.slot(direction).raise(false, Wakes::All);
    }

    fn pass_on(&self, direction: Direction) {
        self.slot(direction).wake(Wakes::All);
    }

    fn end(&self) {}
}

/// What the system calls the file with this descriptor.
fn path_of(number: i32) -> String {
    match process::path_of(number) {
        Ok(path) => path.display().to_string(),
        Err(_) => number.to_string(),
    }
}

struct Pause(String);

impl Awaited for Pause {
    fn kind(&self) -> ObjectKind {
        ObjectKind::Operation
    }
    fn name(&self) -> String {
        self.0.clone()
    }
}

impl Awaited for Watched {
    fn kind(&self) -> ObjectKind {
        self.kind
    }
    fn name(&self) -> String {
        let looked_up = || match self.kind {
            ObjectKind::Process => command(self.number),
            _ => path_of(self.number),
        };
        self.name.get_or_init(looked_up).clone()
    }
}

/// A process by its number and the words that it was started with, as far as they are short.
fn command(pid: i32) -> String {
    const LONGEST: usize = 60;
    let Ok(words) = process::words(pid) else { return pid.to_string() };
    let text = String::from_utf8_lossy(&words).replace('\0', " ");
    let text: String = text.trim_end().chars().take(LONGEST).collect();
    if text.is_empty() { pid.to_string() } else { format!("{pid} ({text})") }
}

impl Descriptors for Poller {
    fn watch(&self, fd: BorrowedFd<'_>, what: Watchable) -> std::io::Result<Arc<dyn Watch>> {
        let registration = poller::register(&fd)?;
        let (kind, number) = match what {
            Watchable::Stream => (ObjectKind::Stream, fd.as_raw_fd()),
            Watchable::Process(pid) => (ObjectKind::Process, pid),
        };
        Ok(Arc::new(Watched { registration, kind, number, name: OnceLock::new() }))
    }

    fn backend(&self) -> &'static str {
        poller::backend()
    }

    fn turn(&self, vm: &mut Vm) -> LuaResult<Option<Aside>> {
        match outside::woken(vm)? {
            Turn::First => {
                outside::give_way(vm)?;
                Ok(None)
            }
            Turn::Asleep => Err(vm.park()),
            Turn::Woken(..) => Ok(over(vm)),
        }
    }

    fn pause(&self, vm: &mut Vm, span: Duration, what: String, aside: Aside) -> LuaResult<Option<Aside>> {
        outside::begin(vm, Verb::WaitsFor, Arc::new(Pause(what)))?;
        outside::set_data(vm, Waits { from: None, aside: Some(aside) });
        outside::limit_at(vm, Instant::now().checked_add(span))?;
        if outside::sleeps(vm) {
            return Err(vm.park());
        }
        Ok(over(vm))
    }

    fn bell(&self, what: Doing) -> Arc<dyn Watch> {
        Arc::new(Bell { what, reading: Slot::default(), writing: Slot::default() })
    }

    fn put(&self, work: Work) -> Result<(), Work> {
        FILES.offer(work).map_err(|(_, work)| work)
    }
}

impl Watch for Watched {
    fn clear(&self, direction: Direction) {
        self.slot(direction).clear();
    }

    fn wait(self: Arc<Self>, vm: &mut Vm, direction: Direction, aside: Aside) -> LuaResult<Option<Aside>> {
        let verb = match direction {
            _ if self.kind == ObjectKind::Process => Verb::Ends,
            Direction::Read => Verb::Reads,
            Direction::Write => Verb::Writes,
        };
        wait(vm, self, verb, direction, aside)
    }

    fn give_up(&self, direction: Direction) {
        self.slot(direction).raise(false, Wakes::All);
    }

    fn pass_on(&self, direction: Direction) {
        self.slot(direction).wake(Wakes::All);
    }

    fn end(&self) {
        self.registration.end_now();
    }
}
