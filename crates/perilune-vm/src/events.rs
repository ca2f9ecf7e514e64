//! What a domain reports of itself: who owns it, which fiber runs.
//!
//! The code of a domain runs between `FiberRun` and `FiberPark`, and these lie between `DomainEnter` and
//! `DomainLeave`, always: a fiber that detaches (`host.rs`) is parked in the eyes of a reader, and runs again
//! when it has attached. The code that is in no fiber counts as one, the *root*. The probes themselves are
//! `perilune-trace`'s; what natives wait for and which tasks there are is reported by `perilune-domain`.

use crate::Vm;
use crate::frame::{CALL_GAP, F_NATIVE, frame};
use crate::value::Value;
use perilune_syntax::Proto;
use perilune_trace::event::{self, Bytes, Count, DomainId, Leaving, Name, Parking, Stack, Tid};
use perilune_trace::{Category, FiberRef, Writer, emit, names};
use std::collections::HashMap;
use std::sync::Arc;

/// Where the events of a domain go.
pub(crate) struct Events {
    writer: Box<Writer>,
    domain: u32,
    name: String,
    /// Somebody has owned it.
    entered: bool,
    /// The session that knows of it. A writer that has written something is not enough: a probe may have been
    /// first.
    known_to: u32,
    /// The last request of a tool that this domain has dealt with, and the session that it was made in.
    request: (u32, u32),
    /// Numbers of the names of prototypes, with what they are made of: another prototype may come to lie at
    /// the address of one.
    functions: FunctionNames,
}

/// By prototype: its source, its line, the number of its name.
type FunctionNames = HashMap<*const Proto, (Arc<[u8]>, u32, u32), foldhash::fast::FixedState>;

/// Names of functions that are remembered.
const MOST_FUNCTIONS: usize = 4096;

impl Default for Events {
    fn default() -> Events {
        Events {
            writer: Box::new(Writer::new(1)),
            domain: 1,
            name: "main".to_owned(),
            entered: false,
            known_to: 0,
            request: (0, 0),
            functions: HashMap::default(),
        }
    }
}

impl Vm {
    /// The number under which this domain reports its events; 1 until it is set.
    pub fn domain_number(&self) -> u32 {
        self.lua.seen.events.domain
    }

    /// Gives the domain another number. Before anybody has entered.
    pub fn set_domain_number(&mut self, number: u32) {
        self.lua.seen.events.domain = number;
        self.lua.seen.events.writer.set_domain(number);
    }

    /// The domain's name.
    pub fn domain_name(&self) -> &str {
        &self.lua.seen.events.name
    }

    /// Is this the first time that the domain hears of request `n` of the session?
    pub(crate) fn is_new_request(&mut self, n: u32) -> bool {
        let request = (perilune_trace::emit::session_number(), n);
        std::mem::replace(&mut self.lua.seen.events.request, request) != request
    }

    /// Gives the domain another name.
    pub fn set_domain_name(&mut self, name: String) {
        self.lua.seen.events.name = name;
    }

    /// Says what there is, to a session that began after it did: the domain and its name, who owns it and
    /// what runs, and, by the host, what waits. To be called by the owner; it writes nothing twice in a
    /// session.
    pub fn report_presence(&mut self) {
        if !perilune_trace::is_live() || self.is_known() {
            return;
        }
        self.report_birth(false);
        self.report_owner();
        self.report_run();
    }

    /// Does the session that there is know of the domain?
    fn is_known(&self) -> bool {
        self.lua.seen.events.known_to == perilune_trace::emit::session_number()
    }

    /// The domain exists, and these of its fibers wait.
    fn report_birth(&mut self, is_new: bool) {
        self.lua.seen.events.known_to = perilune_trace::emit::session_number();
        let name = Name(names::string(self.lua.seen.events.name.as_bytes()));
        emit(event::DomainBegin { domain: DomainId(self.lua.seen.events.domain), name, existed: !is_new });
        if let Some(host) = self.lua.hosting.host.clone() {
            host.report_waits(self);
        }
    }

    /// A fiber as events name it: the one that runs, or the root.
    #[inline]
    pub fn running_fiber_ref(&self) -> FiberRef {
        match self.current_fiber() {
            Some(fiber) => self.fiber_ref(self.fiber_tag(fiber)),
            None => FiberRef::root(self.lua.seen.events.domain),
        }
    }

    /// The fiber with this tag as events name it: the low half is the index, the high one the generation.
    #[inline]
    pub fn fiber_ref(&self, tag: u64) -> FiberRef {
        FiberRef::new(self.lua.seen.events.domain, (tag >> 32) as u32, tag as u32)
    }

    /// The number of a function's name for events: where it is defined, `main.lua:12`; that of a native is
    /// its name.
    pub fn function_number(&mut self, f: Value) -> u32 {
        let Some(proto) = f.lua_proto() else {
            return match f.as_native() {
                Some(native) => names::string_often(native.name.as_bytes()),
                None => 0,
            };
        };
        if let Some((source, line, n)) = self.lua.seen.events.functions.get(&(proto as *const Proto))
            && Arc::ptr_eq(source, &proto.source)
            && *line == proto.line_defined
        {
            return *n;
        }
        let n = names::string(&place_of(proto));
        if self.lua.seen.events.functions.len() >= MOST_FUNCTIONS {
            self.lua.seen.events.functions.clear();
        }
        self.lua.seen.events.functions.insert(proto, (Arc::clone(&proto.source), proto.line_defined, n));
        n
    }

    /// The number of a function's name, where it is defined, for events on its machine code.
    pub(crate) fn code_name(proto: &Proto) -> Name {
        Name(names::string_often(&place_of(proto)))
    }

    /// Calls `f`, which may sleep in the kernel, between two events that say so.
    #[inline(never)]
    pub(crate) fn report_blocking<R>(&mut self, f: impl FnOnce(&mut Vm) -> R) -> R {
        let name = Name(self.running_native_number());
        let stack = Stack(self.event_stack());
        emit(event::BlockBegin { name, stack });
        let result = f(self);
        emit(event::BlockEnd { name });
        result
    }

    /// The number of the name of the native that runs; 0: none does.
    fn running_native_number(&self) -> u32 {
        // SAFETY: the base is that of a frame of the running stack; below a native's lies the function.
        let f = unsafe {
            if (*frame(self.lua.base)).flags & F_NATIVE == 0 {
                return 0;
            }
            *self.lua.base.sub(CALL_GAP)
        };
        f.as_native().map_or(0, |native| names::string_often(native.name.as_bytes()))
    }

    /// A chunk of so many bytes is compiled by `f`.
    pub fn report_load<R, E>(
        &mut self,
        name: &[u8],
        bytes: usize,
        f: impl FnOnce(&mut Vm) -> Result<R, E>,
    ) -> Result<R, E> {
        if !perilune_trace::on(Category::Module) {
            return f(self);
        }
        let name = Name(names::string(&perilune_syntax::error::chunk_id(name)));
        emit(event::LoadBegin { name, size: Bytes::from(bytes) });
        let result = f(self);
        emit(event::LoadEnd { name, failed: result.is_err() });
        result
    }

    /// The calling thread made this state and runs it from now on without entering (`Vm::enter_thread`): the
    /// main program.
    pub fn enter_main(&mut self) {
        self.report_enter();
        self.report_run();
    }

    /// The main program is over.
    pub fn leave_main(&mut self) {
        self.report_park(Parking::Returned);
        self.report_leave(false);
        let young = Bytes::from(self.heap.bytes_since_collection());
        emit(event::DomainEnd { domain: DomainId(self.lua.seen.events.domain), young });
    }

    /// The calling thread owns the domain.
    pub(crate) fn report_enter(&mut self) {
        // SAFETY: the owner's events; it calls `report_leave` before another thread can own the domain, and
        // the box outlives that.
        unsafe { perilune_trace::emit::enter(&raw mut *self.lua.seen.events.writer) };
        self.sampler_enter();
        if perilune_trace::is_live() {
            if !self.is_known() {
                self.report_birth(!self.lua.seen.events.entered);
            }
            self.report_owner();
            perilune_trace::cputime::report();
        }
        self.lua.seen.events.entered = true;
    }

    /// It gives it up. `detached`: in the middle of something.
    pub(crate) fn report_leave(&mut self, detached: bool) {
        perilune_trace::cputime::report();
        if perilune_trace::is_live() {
            let why = if detached { Leaving::Detached } else { Leaving::Idle };
            let fibers = Count::from(self.fibers_under_way(detached));
            emit(event::DomainLeave { domain: DomainId(self.lua.seen.events.domain), fibers, why });
        }
        self.sampler_leave();
        perilune_trace::emit::leave();
    }

    /// Who owns the domain.
    fn report_owner(&self) {
        let thread = Tid(perilune_trace::emit::thread_id());
        emit(event::DomainEnter { domain: DomainId(self.lua.seen.events.domain), thread });
    }

    /// Fibers that exist, the code that is in none among them if it is in the middle of something. With this
    /// a reader who has missed events knows again whether the domain waits or is idle.
    fn fibers_under_way(&self, detached: bool) -> usize {
        let is_root =
            self.current_fiber().is_none() && self.lua.roots.base_thread == self.lua.roots.main_thread;
        let root = self.lua.hosting.owners.has_root_aside() || detached && is_root;
        self.lua.hosting.host.as_ref().map_or(0, |host| host.live_fibers()) + root as usize
    }

    /// The current fiber (or the root) runs.
    pub(crate) fn report_run(&self) {
        if perilune_trace::is_live() {
            emit(event::FiberRun { fiber: self.running_fiber_ref() });
        }
    }

    /// The current fiber (or the root) does not run any more.
    pub(crate) fn report_park(&self, why: Parking) {
        if perilune_trace::is_live() {
            emit(event::FiberPark { fiber: self.running_fiber_ref(), why });
        }
    }
}

/// Where a function is defined, `main.lua:12`.
pub fn place_of(proto: &Proto) -> Vec<u8> {
    let mut name = perilune_syntax::error::chunk_id(&proto.source);
    if proto.line_defined != 0 {
        name.extend_from_slice(format!(":{}", proto.line_defined).as_bytes());
    }
    name
}

impl Drop for Events {
    fn drop(&mut self) {
        // The writer must not be current any more when it goes.
        perilune_trace::emit::leave_if(&raw mut *self.writer);
    }
}
