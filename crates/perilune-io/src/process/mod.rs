//! `require "perilune.process"`: other programs, their streams, their ends.
//!
//! # Terms
//! * A *process* here is one that this program has started. Its *group* is what a signal reaches: itself and
//!   what it starts, unless that leaves the group.
//! * Its *streams* are our ends of pipes: connections that have one direction (`stream.rs`).
//! * To *reap* a process is to fetch its status. Until then its number belongs to it, also when it has ended;
//!   afterwards the system may give the number to somebody else.
//!
//! # The end of a process
//! The system tells by a descriptor (`pidfd`) that becomes readable, which the poller watches: nobody sleeps
//! in `waitpid`, and no handler of SIGCHLD is needed, which would be the whole process's affair. On that edge
//! the poller itself reaps it, keeps the status, and wakes who waits. So there are no zombies, whether a
//! program asks for the status or not; a handle that is lost does not matter, because the list [`RUNNING`]
//! keeps every process that has not been reaped.
//!
//! `process.run` has it *kept*: not reaped before its output has ended. A shell that has ended may have left
//! others in its group which hold the pipe; as long as the shell is not reaped, the group's number is nobody
//! else's and the group can be killed.
//!
//! # What always holds
//! * A signal is sent under the lock under which the process is reaped, and only before: it cannot reach a
//!   stranger.
//! * All our descriptors are `CLOEXEC`; a child has its three streams and nothing else of ours. It begins
//!   with an empty mask and the default actions (`perilune_stdlib::child`).
//! * `run` that ends early, by its time, its limit or a cancellation, kills the group.
//!
//! Rejected: a thread for each `waitpid` (a thousand children are a thousand threads); SIGCHLD (one handler
//! for the process, signals that merge, libraries that wait for any child); socket pairs instead of pipes
//! (programs open `/dev/stdin` again, which sockets refuse).

mod run;
mod start;

use crate::cases;
use crate::connection::CONNECTION;
use crate::failure::Failure;
use crate::poller::{self, Backlog, Registration};
use crate::signal_names;
use crate::stream::Stream;
use crate::sys::process::{self, End};
use crate::sys::signal;
use parking_lot::Mutex;
use perilune_domain::objects::fill;
use perilune_domain::outside::{self, Awaited, Reason, Turn, Waiter};
use perilune_domain::select::{Selectable, register_kind};
use perilune_domain::surplus::{self, ANY, Limit};
use perilune_stdlib::child::Child;
use perilune_trace::ObjectKind;
use perilune_trace::event::Verb;
use perilune_vm::shared::{SharedArc, SharedKind, SharedObject, downcast_arc};
use perilune_vm::{Gc, LuaResult, Native, Table, Value, Vm};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Instant;

/// The kind of processes.
static PROCESS: SharedKind = SharedKind::new("process", open);

/// Processes that have not been reaped.
static RUNNING: Mutex<Option<HashMap<i32, Arc<Process>>>> = Mutex::new(None);

/// How a process has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// The system does not know any more: somebody else has reaped it.
    Unknown,
}

/// A process.
pub struct Process {
    pid: i32,
    /// The program, for reports.
    name: String,
    leads_group: bool,
    state: Mutex<State>,
    /// Standard input, output, error.
    streams: [Option<Arc<Stream>>; 3],
}

struct State {
    /// Until it is reaped.
    child: Option<Child>,
    /// Until the end is known. The registration before the descriptor: nobody is told of it any more when
    /// that is closed.
    watch: Option<(Registration, OwnedFd)>,
    /// It is not to be reaped before this is taken back.
    kept: bool,
    /// It has ended, whether it is reaped or not.
    ended: bool,
    status: Status,
    waiters: Vec<Arc<Waiter>>,
}

/// Who waits for the end of a process. Dropped with the wait.
struct Waits {
    process: Arc<Process>,
    waiter: Arc<Waiter>,
    deadline: Option<Instant>,
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.process.take_back(&self.waiter);
    }
}

impl Process {
    /// What has just been started, watched from now on. `kept`: it is not reaped before [`Process::release`].
    ///
    /// # Errors
    /// It cannot be watched. It has been killed then.
    fn watch(
        mut child: Child,
        name: String,
        leads_group: bool,
        streams: [Option<Arc<Stream>>; 3],
        kept: bool,
    ) -> Result<Arc<Process>, Errno> {
        let pid = child.pid();
        let watched = match Pid::from_raw(pid) {
            Some(number) => pidfd_open(number, PidfdFlags::NONBLOCK)
                .and_then(|fd| poller::register(&fd).map(|registration| (registration, fd))),
            None => Err(Errno::SRCH),
        };
        let watch = match watched {
            Ok(watch) => watch,
            Err(error) => {
                let _ = signal::send(pid, leads_group, signal::KILL);
                // It ends at once, but for a process in the middle of a system call that nothing ends: that
                // one is left to `Child`'s drop.
                let _ = child.try_wait();
                return Err(error);
            }
        };
        let source = Arc::clone(&watch.0.source);
        let state = State {
            child: Some(child),
            watch: Some(watch),
            kept,
            ended: false,
            status: Status::Unknown,
            waiters: Vec::new(),
        };
        let process = Arc::new(Process { pid, name, leads_group, state: Mutex::new(state), streams });
        RUNNING.lock().get_or_insert_default().insert(pid, Arc::clone(&process));
        let owner: Weak<Process> = Arc::downgrade(&process);
        source.set_owner(owner);
        if !source.read.set_backlog() {
            process.read_backlog();
        }
        Ok(process)
    }

    /// How it has ended, if it has.
    fn status(&self) -> Option<Status> {
        let state = self.state.lock();
        (state.ended && state.child.is_none()).then_some(state.status)
    }

    fn has_ended(&self) -> bool {
        self.state.lock().ended
    }

    /// Wakes `waiter` when it ends. False: it has ended.
    fn wake_at_end(&self, waiter: &Arc<Waiter>) -> bool {
        let mut state = self.state.lock();
        if !state.ended {
            state.waiters.push(Arc::clone(waiter));
        }
        !state.ended
    }

    fn take_back(&self, waiter: &Arc<Waiter>) {
        self.state.lock().waiters.retain(|w| !Arc::ptr_eq(w, waiter));
    }

    /// Asks the system whether it has ended: when a time is over, as the poller may not have told yet.
    fn look(&self) {
        let has_ended = match &self.state.lock().watch {
            Some((_, fd)) => {
                let mut fds = [PollFd::new(fd, PollFlags::IN)];
                matches!(poll(&mut fds, Some(&Timespec::default())), Ok(1))
            }
            None => false,
        };
        if has_ended {
            self.reap();
        }
    }

    /// Sends a signal to its group.
    ///
    /// # Errors
    /// It has ended.
    fn kill(&self, signal: i32) -> Result<(), Errno> {
        let state = self.state.lock();
        match &state.child {
            Some(_) => signal::send(self.pid, self.leads_group, signal),
            None => Err(Errno::SRCH),
        }
    }

    /// Kills its group and lets go of its streams.
    fn end(&self) {
        let _ = self.kill(signal::KILL);
        for stream in self.streams.iter().flatten() {
            stream.close_now();
        }
    }

    /// It is kept no more.
    fn release(&self) {
        self.state.lock().kept = false;
        self.reap();
    }

    /// The poller has told that it has ended, or it is kept no more: fetches its status, if that is allowed
    /// and there is one.
    fn reap(&self) {
        let mut state = self.state.lock();
        let state = &mut *state;
        if let Some(child) = &mut state.child {
            if !state.kept {
                loop {
                    if let Some((registration, _)) = &state.watch {
                        registration.source.read.clear();
                    }
                    match child.try_wait() {
                        Ok(Some(status)) => state.status = Status::of(status),
                        Err(_) => state.status = Status::Unknown,
                        Ok(None) => match &state.watch {
                            // The edge may come between the two.
                            Some((registration, _)) if !registration.source.read.set_backlog() => continue,
                            _ => return,
                        },
                    }
                    break;
                }
                state.child = None;
            }
            state.ended = true;
        }
        let waiters = std::mem::take(&mut state.waiters);
        if state.child.is_none() {
            // Nothing below asks for this lock.
            drop(state.watch.take());
            let last = RUNNING.lock().as_mut().and_then(|running| running.remove(&self.pid));
            drop(last);
        }
        for waiter in waiters {
            waiter.wake(Reason::Ready);
        }
    }
}

impl Status {
    fn of(wait: i32) -> Status {
        match process::end(wait) {
            End::Killed(signal) => Status::Killed(signal),
            End::Exited(code) => Status::Exited(code),
        }
    }

    /// A table that says it.
    fn ret(self, vm: &mut Vm) -> LuaResult<u32> {
        let result = vm.new_table(0, 1)?;
        vm.push(result.into());
        self.fill(vm, result)?;
        Ok(1)
    }

    /// Fields `code` or `signal` of a result.
    fn fill(self, vm: &mut Vm, result: Gc<Table>) -> LuaResult<()> {
        match self {
            Status::Exited(code) => vm.set_field(result, "code", Value::int(i64::from(code))),
            Status::Killed(signal) => {
                let name = vm.value_str(signal_names::name(signal).as_bytes())?;
                vm.set_field(result, "signal", name)
            }
            Status::Unknown => Ok(()),
        }
    }
}

/// The poller's: it has ended.
impl Backlog for Process {
    fn read_backlog(&self) {
        self.reap();
    }
}

impl Awaited for Process {
    fn kind(&self) -> ObjectKind {
        ObjectKind::Process
    }
    fn name(&self) -> String {
        format!("{} ({})", self.pid, self.name)
    }
}

impl SharedObject for Process {
    fn kind(&self) -> &'static SharedKind {
        &PROCESS
    }
    fn label(&self) -> Option<String> {
        Some(format!("{} {}", self.pid, self.name))
    }
}

/// A case of `pl.select`, for as long as that waits.
struct Case {
    process: Arc<Process>,
    waiter: Mutex<Option<Arc<Waiter>>>,
}

impl Case {
    fn take_back(&self) {
        if let Some(waiter) = self.waiter.lock().take() {
            self.process.take_back(&waiter);
        }
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        self.take_back();
    }
}

impl Selectable for Case {
    fn take(&self, vm: &mut Vm, _: Value) -> LuaResult<Option<u32>> {
        self.take_back();
        match self.process.status() {
            Some(status) => status.ret(vm).map(Some),
            None => Ok(None),
        }
    }

    fn watch(&self, waiter: &Arc<Waiter>, _: u32) -> bool {
        let left = self.process.wake_at_end(waiter);
        if left {
            *self.waiter.lock() = Some(Arc::clone(waiter));
        }
        left
    }

    fn is_outside(&self) -> bool {
        true
    }

    fn describe(&self) -> String {
        Awaited::kind(&*self.process).called(&self.process.name())
    }
}

fn make_case(object: &SharedArc, rest: &[Value]) -> Result<Arc<dyn Selectable>, String> {
    match downcast_arc::<Process>(object.clone()) {
        Ok(process) if rest.is_empty() => Ok(Arc::new(Case { process, waiter: Mutex::new(None) })),
        _ => Err("a process needs nothing beside it".to_owned()),
    }
}

// -- Natives ------------------------------------------------------------------------------------------------

/// The module.
pub static MODULE: Native = Native::leaf("perilune.process", |vm| {
    outside::enter(vm);
    register_kind(&PROCESS, make_case);
    cases::register::<Stream>(&CONNECTION);
    let module = vm.new_table(0, 2)?;
    vm.push(module.into());
    vm.register(module, &[&run::RUN, &SPAWN])?;
    vm.ret(module)
});

fn open(vm: &mut Vm, mt: Gc<Table>) -> LuaResult<()> {
    fill(vm, mt, &[&WAIT, &KILL], &[("__close", &AT_SCOPE_END)])?;
    let methods = vm.get_field(mt, "__index")?;
    let index = vm.new_native_closure(&INDEX, &[methods])?;
    vm.set_field(mt, "__index", index)
}

fn this(vm: &mut Vm, last: u32, limit: Limit) -> LuaResult<Arc<Process>> {
    surplus::this(vm, &PROCESS, last, limit)
}

/// `p.stdin`, `p.pid`, methods.
static INDEX: Native = Native::leaf("index", |vm| {
    let process = this(vm, ANY, Limit::Own)?;
    let key = vm.arg(2).as_string().map(|s| s.to_text()).unwrap_or_default();
    let stream = match &*key {
        "pid" => return vm.ret(i64::from(process.pid)),
        "stdin" => &process.streams[0],
        "stdout" => &process.streams[1],
        "stderr" => &process.streams[2],
        _ => {
            let method = match vm.upvalue(1).as_table() {
                Some(methods) => vm.raw_get(methods, vm.arg(2)),
                None => Value::NIL,
            };
            return vm.ret(method);
        }
    };
    match stream {
        Some(stream) => {
            let stream = vm.shared_ref(Arc::clone(stream));
            vm.ret(stream)
        }
        None => vm.ret(Value::NIL),
    }
});

/// `process.spawn{...}`
static SPAWN: Native = Native::leaf("spawn", |vm| {
    surplus::none_behind(vm, 1, Limit::Own)?;
    let order = start::order(vm, &start::SPAWN)?;
    match order.start(&CONNECTION, false) {
        Ok(process) => {
            let process = vm.shared_ref(process);
            vm.ret(process)
        }
        Err(failure) => failure.ret(vm),
    }
});

/// `p:wait([limit])`: how it has ended.
static WAIT: Native = Native::leaf("wait", |vm| {
    let process = this(vm, 2, Limit::Own)?;
    let (deadline, is_over) = match outside::woken(vm)? {
        Turn::First => (outside::opt_deadline(vm, 2)?, false),
        Turn::Asleep => return Err(vm.park()),
        Turn::Woken(reason, _) => {
            let deadline = outside::take_data::<Waits>(vm).and_then(|waits| waits.deadline);
            outside::finish(vm);
            (deadline, reason == Reason::Timeout)
        }
    };
    if is_over {
        process.look();
    }
    loop {
        if let Some(status) = process.status() {
            return status.ret(vm);
        }
        if is_over {
            return Failure::Timeout.ret(vm);
        }
        let waiter = outside::begin(vm, Verb::Ends, Arc::clone(&process) as _)?;
        if process.wake_at_end(&waiter) {
            outside::set_data(vm, Waits { process: Arc::clone(&process), waiter, deadline });
            outside::limit_at(vm, deadline)?;
            if outside::sleeps(vm) {
                return Err(vm.park());
            }
        }
        outside::finish(vm);
    }
});

/// `p:kill([signal])`: sends a signal to the process and what it has started.
static KILL: Native = Native::leaf("kill", |vm| {
    let process = this(vm, 2, Limit::Own)?;
    let signal = signal_names::check(vm, 2, Some(signal::TERM))?;
    match process.kill(signal) {
        Ok(()) => vm.ret(true),
        Err(error) => {
            let what = || format!("cannot send a signal to process {} ({})", process.pid, process.name);
            Failure::from(error).of(what).ret(vm)
        }
    }
});

/// The process goes out of scope: it is killed, and its streams are closed.
static AT_SCOPE_END: Native = Native::leaf("close", |vm| {
    this(vm, ANY, Limit::Own)?.end();
    Ok(0)
});
