//! Parcels: values on their way from one domain to another.
//!
//! A [`Parcel`] belongs to no domain. It owns copies of numbers, strings and plain tables, and counts of what
//! is shared by reference: prototypes, shared objects, islands. It may wait in a queue for as long as it
//! likes, be dropped, and be unpacked any number of times, by several threads at once (the body of a
//! `parallel_for` is packed once and unpacked once in each domain).
//!
//! # What crosses
//! The rules are in `docs/parallel-design.md`, section 4; the programs that show them in
//! `tests/parallel/outcomes`.
//!
//! | file | what |
//! |---|---|
//! | `graph.rs` | the form of values on their way |
//! | `pack.rs`, `pack/`, `seen.rs` | from values to that form |
//! | `frozen.rs`, `check.rs` | what is frozen over there, and what that refuses |
//! | `origin.rs` | what comes home |
//! | `cache.rs`, `picture.rs`, `received.rs` | what is packed once for many parcels |
//! | `again.rs` | functions that cross many times |
//! | `strings.rs` | large strings |
//! | `unpack.rs` | back |
//! | `snapshot.rs` | globals that travel with functions |
//! | `modules.rs`, `inside.rs` | modules, found again by name; tables inside them |
//! | `search.rs` | what `require` finds them by |
//! | `outside.rs` | what is in islands |
//! | `refusal.rs` | what may not cross, and the texts that say so |
//! | `error.rs` | error values and tracebacks |
//!
//! # Collections
//! Packing and the making of objects while unpacking contain no safepoint. [`Vm::unpack`] pushes its results
//! on the stack of the running frame, where they are safe from then on. Before it makes anything it may call
//! `require`, or make the metatable of a kind of shared objects, so it must not be called where Lua code may
//! not run.
//!
//! # Cost
//! A single number, boolean or short string takes no allocation. Everything else takes one block of words,
//! and a second one if it refers to anything by reference.

mod again;
mod cache;
mod check;
mod error;
mod frozen;
mod graph;
mod inside;
mod modules;
mod origin;
mod outside;
mod pack;
mod picture;
mod received;
mod refusal;
mod search;
mod seen;
mod snapshot;
mod strings;
mod unpack;

pub use error::ErrorParcel;
pub use origin::LetGo;
pub(crate) use origin::is_frozen_copy;
pub use refusal::{Node, Place, Reason, Refusal, Role, Step};
pub use search::ModuleSearch;

use crate::Vm;
use crate::cycle_collector::{Held, Holder};
use crate::native::{LuaResult, Signal, Thrown};
use crate::object::ProtoInst;
use crate::value::{Tag, Value};
use graph::Graph;
use pack::Packer;
use perilune_heap::Obj;
use perilune_trace::event::CopiedOut;
use perilune_trace::{Category, emit, on};
use std::collections::HashMap;
use std::sync::Arc;

/// How values are to cross.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackRules {
    /// What they are, for messages.
    pub role: Role,
    /// What functions among them have as their globals over there.
    pub globals: Globals,
    /// The sender waits for all that is called over there, so captured variables are taken as they are.
    pub waits: bool,
}

/// Results of no more bytes than this cross whatever the program holds, and messages of no more are received.
const LITTLE: usize = 1024;

/// What functions that cross have as their globals in the receiver; and what its `_G` is to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Globals {
    /// A task's: what has travelled, over the receiver's, and nothing can be assigned.
    Task,
    /// The same for functions in messages, results and errors. In one without functions the receiver's `_G`
    /// is its own.
    Message,
    /// The receiver's own, and what has travelled becomes part of them: for the function of a domain that is
    /// being spawned.
    Own,
    /// The receiver's own, which what has travelled is added to as far as it is not there: for what loads
    /// modules.
    Module,
}

impl PackRules {
    /// A task's function and its arguments.
    pub const TASK: PackRules = PackRules { role: Role::Argument, globals: Globals::Task, waits: false };
    /// A part of a loop that the runtime's own code makes of tasks, and waits for: its function and
    /// arguments, functions of the program among them.
    pub const PART: PackRules = PackRules { role: Role::Argument, globals: Globals::Task, waits: true };
    /// The functions of a loop that the caller waits for.
    pub const LOOP: PackRules = PackRules { role: Role::Loop, globals: Globals::Task, waits: true };
    /// The function of a new domain and its arguments.
    pub const SPAWN: PackRules = PackRules { role: Role::Argument, globals: Globals::Own, waits: false };
    /// Values sent through a channel or stored in a shared object.
    pub const MESSAGE: PackRules = PackRules { role: Role::Message, globals: Globals::Message, waits: false };
    /// Results.
    pub const RESULT: PackRules = PackRules { role: Role::Result, globals: Globals::Message, waits: false };
    /// What a function of the program has returned to a task of the runtime's own, in a list among its
    /// results.
    pub const COLLECTED: PackRules =
        PackRules { role: Role::Collected, globals: Globals::Message, waits: false };
    /// A value that a function of the program has returned to the runtime's own code.
    pub const RETURNED: PackRules =
        PackRules { role: Role::Returned, globals: Globals::Message, waits: false };
    /// The value of an error.
    pub const ERROR: PackRules = PackRules { role: Role::Error, globals: Globals::Message, waits: false };
}

/// Values on their way; see the module's essay.
#[derive(Clone)]
pub struct Parcel(Repr);

const INLINE: usize = 22;

#[derive(Clone)]
enum Repr {
    /// No value.
    Empty,
    /// A value that is the same in every domain.
    One(u8, u64),
    /// A short string.
    Short(u8, [u8; INLINE]),
    Graph {
        graph: Arc<Graph>,
        globals: Globals,
    },
    /// Another parcel, and what its sender wants to tell whoever opens it.
    Noted(Box<(Parcel, Note)>),
}

pub use crate::error::OWN_SOURCE;

/// What can go with a parcel beside its values.
pub type Note = Arc<dyn std::any::Any + Send + Sync>;

impl Parcel {
    /// The parcel with a note for whoever unpacks it.
    pub fn with_note(self, note: Note) -> Parcel {
        debug_assert!(self.note().is_none(), "one note for each parcel");
        Parcel(Repr::Noted(Box::new((self, note))))
    }

    /// The note that goes with it.
    pub fn note(&self) -> Option<&Note> {
        match &self.0 {
            Repr::Noted(both) => Some(&both.1),
            _ => None,
        }
    }

    /// The values, without a note.
    fn values(&self) -> &Parcel {
        match &self.0 {
            Repr::Noted(both) => &both.0,
            _ => self,
        }
    }

    /// Without values.
    pub const EMPTY: Parcel = Parcel(Repr::Empty);

    /// How many values it holds.
    pub fn len(&self) -> u32 {
        match &self.0 {
            Repr::Empty => 0,
            Repr::One(..) | Repr::Short(..) => 1,
            Repr::Graph { graph, .. } => graph.roots,
            Repr::Noted(both) => both.0.len(),
        }
    }

    /// Holds no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that it takes, what it refers to left out, but for large strings that its receiver is
    /// to copy.
    pub fn bytes(&self) -> usize {
        match &self.values().0 {
            Repr::Graph { graph, .. } => graph.bytes() + graph.to_copy(),
            _ => 0,
        }
    }

    /// Whether there are copies of tables in it.
    fn holds_copies(&self) -> bool {
        match &self.values().0 {
            Repr::Graph { graph, .. } => graph.refs.as_ref().is_some_and(|refs| !refs.frozen.is_empty()),
            _ => false,
        }
    }

    /// Whether it owns counts of anything that may own counts of others: then whatever keeps it may become
    /// part of a cycle.
    #[inline]
    pub fn holds_counts(&self) -> bool {
        match &self.values().0 {
            Repr::Graph { graph, .. } => graph.refs.as_ref().is_some_and(|refs| refs.hold_counts()),
            _ => false,
        }
    }
}

impl Default for Parcel {
    fn default() -> Parcel {
        Parcel::EMPTY
    }
}

impl Holder for Parcel {
    fn held(&self, to: &mut Held<'_>) {
        if let Repr::Graph { graph, .. } = &self.values().0 {
            to.counted(graph);
        }
    }
}

/// Memory that is used from parcel to parcel.
#[derive(Default)]
struct Buffers {
    /// Of packers: more than one, as pictures and snapshots are made while a parcel is.
    packing: Vec<(Vec<u64>, seen::Seen)>,
    made: Vec<unpack::Made>,
}

/// What a domain keeps about what crosses.
#[derive(Default)]
pub(crate) struct ParcelState {
    buffers: Buffers,
    /// Shapes whose names are adopted, as a set of bits.
    adopted: Vec<u64>,
    /// Instances of prototypes that have arrived, by the prototype's address. Not roots.
    protos: HashMap<usize, *mut ProtoInst, foldhash::fast::FixedState>,
    /// Snapshots made since the last collection.
    snapshots: HashMap<snapshot::CacheKey, snapshot::Cached, foldhash::fast::FixedState>,
    /// Functions that snapshots could not be made for since the last collection: their globals cross with the
    /// rest.
    without_snapshot: std::collections::HashSet<snapshot::CacheKey, foldhash::fast::FixedState>,
    /// Snapshots that have arrived.
    instances: Vec<snapshot::Instance>,
    pub(crate) modules: modules::Modules,
    inside: inside::Inside,
    searching: search::Searching,
    origins: origin::Origins,
    again: again::Again,
    cache: cache::Cache,
    received: received::Received,
    strings: strings::Strings,
    /// What is being packed finds globals by names that are computed, so all of the program's go along.
    takes_all_globals: bool,
    /// They cannot all cross: only those that are named do.
    named_globals_only: bool,
    /// Environments of tasks have been made here.
    has_environments: bool,
    /// Bodies of loops that parts of are run here.
    kept: Vec<Kept>,
}

/// What has been unpacked and may be used again, since a program cannot change it.
struct Kept {
    /// Gone when the loop is.
    graph: std::sync::Weak<Graph>,
    /// Roots while the graph is there.
    values: Vec<Value>,
    /// What [`inside::Inside::arrivals`] was, if the graph refers to modules.
    arrivals: Option<u64>,
}

impl ParcelState {
    /// Reports the roots.
    /// `all`: also what an earlier collection has made old.
    pub(crate) fn trace(&self, all: bool, mut mark: impl FnMut(Obj)) {
        self.again.trace(&mut mark);
        self.cache.trace(all, &mut mark);
        self.received.trace(all, &mut mark);
        if all {
            self.strings.trace(&mut mark);
        }
        for &t in self.instances.iter().flat_map(|i| &i.tables) {
            Obj::new(t.cast()).map(&mut mark);
        }
        self.searching.trace(&mut mark);
        self.origins.trace(&mut mark);
        self.modules.trace(all, &mut mark);
        self.inside.trace(all, &mut mark);
        for v in self.kept.iter().filter(|k| k.graph.strong_count() > 0).flat_map(|k| &k.values) {
            v.obj().map(&mut mark);
        }
    }

    /// Memory is short: what is kept only because it might cross once more goes.
    pub(crate) fn memory_is_short(&mut self) {
        self.strings.let_go();
    }

    /// The instance of a prototype is about to be freed.
    pub(crate) fn forget_instance(&mut self, inst: *mut ProtoInst, proto: usize) {
        if self.protos.get(&proto) == Some(&inst) {
            self.protos.remove(&proto);
        }
    }

    /// To be called at the end of every collection: addresses may be used again. Snapshots that nothing has
    /// arrived with since the last major one go.
    pub(crate) fn collected(&mut self, major: bool, ageing: bool, is_marked: impl Fn(Obj) -> bool) {
        self.snapshots.clear();
        self.without_snapshot.clear();
        self.again.collected();
        self.kept.retain(|k| k.graph.strong_count() > 0);
        self.origins.collected(major, ageing, &is_marked);
        self.received.collected(major, ageing, &is_marked);
        self.strings.collected(major, ageing, &is_marked);
        self.cache.collected(major, ageing, &is_marked);
        self.modules.collected(ageing);
        self.inside.collected(ageing, &is_marked);
        if major {
            self.instances.retain_mut(|i| std::mem::replace(&mut i.used, false));
        }
    }
}

/// Does anything that is recorded say where values were sent?
fn is_told() -> bool {
    [Category::Gc, Category::Cpu, Category::Alloc].into_iter().any(on)
}

impl Vm {
    /// Packs values. Runs no Lua code and collects nothing.
    ///
    /// # Errors
    /// One of the values may not cross.
    pub fn pack(&mut self, values: &[Value], rules: PackRules) -> Result<Parcel, Box<Refusal>> {
        if let &[v] = values
            && let Some(parcel) = Parcel::of_plain(v)
        {
            return Ok(parcel);
        }
        if values.is_empty() {
            return Ok(Parcel::EMPTY);
        }
        match self.sent_again(values, rules) {
            Some(parcel) => Ok(parcel),
            None => self.pack_graph(values, rules),
        }
    }

    #[inline(never)]
    fn pack_graph(&mut self, values: &[Value], rules: PackRules) -> Result<Parcel, Box<Refusal>> {
        let mut parcel = self.sample_copy_out(|vm| vm.pack_plainly(values, rules))?;
        if let Repr::Graph { graph, globals } = &mut parcel.0
            && let Some(graph) = Arc::get_mut(graph)
            && let Some(refs) = &mut graph.refs
            && (*globals != Globals::Message || refs.needs_search())
        {
            refs.search = self.search();
        }
        self.note_sent(values, rules, &mut parcel);
        Ok(parcel)
    }

    /// As [`Vm::pack`], for values that take a graph, and without what modules are found by.
    fn pack_plainly(&mut self, values: &[Value], rules: PackRules) -> Result<Parcel, Box<Refusal>> {
        self.modules_ready();
        self.lua.crossing.parcel.strings.begin();
        let before = std::mem::take(&mut self.lua.crossing.parcel.takes_all_globals);
        let mut packed = self.pack_tries(values, rules);
        let state = &mut self.lua.crossing.parcel;
        if packed.is_err() && state.takes_all_globals && !state.named_globals_only {
            state.named_globals_only = true;
            packed = self.pack_tries(values, rules);
            self.lua.crossing.parcel.named_globals_only = false;
        }
        self.lua.crossing.parcel.takes_all_globals = before;
        packed
    }

    fn pack_tries(&mut self, values: &[Value], rules: PackRules) -> Result<Parcel, Box<Refusal>> {
        let (mut tracing, mut inline) = (false, false);
        // What loads modules shares the receiver's globals, which no picture could be made for.
        let mut pictures = rules.globals != Globals::Module;
        let mut first = Vec::new();
        loop {
            let unit = inline.then(pack::Unit::default);
            let mut packer = Packer::new(self, rules.role, tracing, unit, false);
            packer.plan = (pictures && !tracing).then(|| picture::Plan::for_parcel(first.clone()));
            match packer.roots(values, rules.waits) {
                Ok(()) => {
                    let (mut graph, ..) = packer.finish(values.len() as u32);
                    if is_told() {
                        graph.sent_at = self.event_stack();
                    }
                    if on(Category::Gc) {
                        let (size, stack, objects) = graph.told();
                        emit(CopiedOut { size, stack, objects });
                    }
                    return Ok(Parcel(Repr::Graph { graph: Arc::new(graph), globals: rules.globals }));
                }
                Err(mut refusal) => {
                    let entangled = packer.plan.as_mut().and_then(|plan| plan.entangled.take());
                    packer.give_up();
                    if refusal.reason == Reason::Entangled {
                        const TRIES: usize = 8;
                        pictures = entangled.is_some() && first.len() < TRIES;
                        first.extend(entangled);
                        continue;
                    }
                    // Among the globals is a table: they cross in this graph, so that it has one copy.
                    if refusal.reason == Reason::Travels && !inline {
                        inline = true;
                        continue;
                    }
                    if tracing {
                        (refusal.role, refusal.count) = (rules.role, values.len() as u32);
                        return Err(refusal);
                    }
                    tracing = true;
                }
            }
        }
    }

    /// As [`Vm::pack`]; a refusal is raised as an error, with the position of the Lua code that called the
    /// running native.
    ///
    /// # Errors
    /// One of the values may not cross. "not enough memory", if the program has reached its limit.
    pub fn pack_or_raise(&mut self, values: &[Value], rules: PackRules) -> LuaResult<Parcel> {
        let parcel = self.pack(values, rules).map_err(|refusal| self.raise_refusal(&refusal))?;
        self.heap.note_given(parcel.bytes());
        if parcel.holds_counts() && crate::cycle_collector::is_due() {
            // Little may be allocated here while much is given away.
            self.heap.make_due();
        }
        // A result that is next to nothing tells of work that is done; there are no more of them than
        // functions that return.
        let is_result = matches!(rules.role, Role::Result | Role::Collected | Role::Returned);
        let is_little = is_result && parcel.bytes() <= LITTLE;
        if is_little || perilune_heap::program_has_room(0) { Ok(parcel) } else { Err(self.out_of_memory()) }
    }

    /// Whether a function is one of the runtime's own library that is written in Lua.
    pub fn is_own_function(&self, f: Value) -> bool {
        f.lua_proto().is_some_and(|proto| *proto.source == *OWN_SOURCE)
    }

    /// Raises a refusal as an error.
    #[cold]
    pub fn raise_refusal(&mut self, refusal: &Refusal) -> Thrown {
        // A native may be called by Lua code of our own on behalf of the program's call, which is what people
        // know.
        let site = self.running_site(None).filter(|site| *site.proto.source == *OWN_SOURCE);
        let site = site.and_then(|_| self.running_site(Some(OWN_SOURCE)));
        match site.and_then(|site| Some((site.proto.line_at(site.pc)?, site.proto))) {
            // Nothing of the program is on the stack any more.
            None if refusal.role == Role::Returned => self.error_plain(refusal.text()),
            None => self.error(refusal.text()),
            Some((line, proto)) => {
                let role = if refusal.role == Role::Argument { Role::Element } else { refusal.role };
                let text = Refusal { role, ..refusal.clone() }.text();
                let source = perilune_syntax::error::chunk_id(&proto.source);
                self.error_plain(format!("{}:{line}: {text}", String::from_utf8_lossy(&source)))
            }
        }
    }

    /// Pushes the values of a parcel on the running frame's stack, and returns how many. May call `require`,
    /// and so run Lua code, and collects if a collection is due: if memory does not suffice for the values,
    /// that is an error here, while the caller still has the parcel.
    ///
    /// # Errors
    /// "not enough memory", "stack overflow", and whatever a module that has to be loaded raises.
    pub fn unpack(&mut self, parcel: &Parcel) -> LuaResult<u32> {
        let count = self.unpack_values(parcel)?;
        // An object of a kind that is new to this domain has a metatable that is made in Lua, perhaps.
        if self.lua.errors.signal == Signal::RunAgain {
            self.give_up(self.nargs() - count);
            return Err(Signal::RunAgain.thrown());
        }
        // What is next to nothing has been the program's since it was sent: whoever has too much, it is no
        // more by being received.
        let settled = if parcel.bytes() <= LITTLE { self.settle_moved() } else { self.settle() };
        if let Err(refused) = settled {
            self.give_up(self.nargs() - count);
            return Err(refused);
        }
        Ok(count)
    }

    /// As [`Vm::unpack`], for functions that several calls of this domain are made of: they are unpacked
    /// once, as long as the parcel is there.
    ///
    /// # Errors
    /// As [`Vm::unpack`].
    pub fn unpack_once(&mut self, parcel: &Parcel) -> LuaResult<u32> {
        let Repr::Graph { graph, .. } = &parcel.values().0 else { return self.unpack(parcel) };
        let is_it = |k: &&Kept| std::ptr::eq(k.graph.as_ptr(), Arc::as_ptr(graph));
        let arrivals = self.lua.crossing.parcel.inside.arrivals;
        if let Some(kept) = self.lua.crossing.parcel.kept.iter().find(is_it)
            && kept.arrivals.is_none_or(|then| then == arrivals)
        {
            let values = kept.values.clone();
            self.ensure_stack(values.len())?;
            values.iter().for_each(|&v| self.push(v));
            return Ok(values.len() as u32);
        }
        let count = self.unpack(parcel)?;
        let top = self.nargs();
        let values = (top - count + 1..=top).map(|n| self.stack_get(n)).collect();
        let arrivals = self.arrivals_for(graph);
        let kept = &mut self.lua.crossing.parcel.kept;
        kept.retain(|k| !is_it(&k));
        kept.push(Kept { graph: Arc::downgrade(graph), values, arrivals });
        Ok(count)
    }

    /// What has to be the same for what a graph has become to be used again.
    fn arrivals_for(&self, graph: &Graph) -> Option<u64> {
        let has_modules = graph.refs.as_ref().is_some_and(|refs| refs.needs_search());
        has_modules.then_some(self.lua.crossing.parcel.inside.arrivals)
    }

    /// Takes back what lies on the running frame's stack above its first `keep` values. Nothing of it stays
    /// in a slot that may become a register of Lua code, where it would be kept until something else is
    /// stored there.
    pub(super) fn give_up(&mut self, keep: u32) {
        for n in keep + 1..=self.nargs() {
            self.stack_set(n, Value::NIL);
        }
        self.truncate(keep);
    }

    #[inline]
    fn unpack_values(&mut self, parcel: &Parcel) -> LuaResult<u32> {
        match &parcel.0 {
            Repr::Empty => Ok(0),
            Repr::One(tag, payload) => {
                self.ensure_stack(1)?;
                self.push(Value::raw(Tag(*tag), *payload));
                Ok(1)
            }
            Repr::Short(len, bytes) => {
                self.ensure_stack(1)?;
                self.push_str(&bytes[..*len as usize])?;
                Ok(1)
            }
            Repr::Graph { graph, globals } if graph.comes_again && *globals == Globals::Task => {
                self.unpack_again(graph, *globals)
            }
            Repr::Graph { graph, globals } => self.unpack_graph(graph, *globals),
            Repr::Noted(both) => self.unpack_noted(&both.0),
        }
    }

    #[cold]
    #[inline(never)]
    fn unpack_noted(&mut self, parcel: &Parcel) -> LuaResult<u32> {
        self.unpack_values(parcel)
    }

    /// The first value of a parcel, nil if it is empty. The value is nowhere but in the result: it has to be
    /// pushed or stored before the next safepoint.
    ///
    /// # Errors
    /// As [`Vm::unpack`].
    pub fn unpack_one(&mut self, parcel: &Parcel) -> LuaResult<Value> {
        let top = self.nargs();
        let n = self.unpack(parcel)?;
        let v = if n == 0 { Value::NIL } else { self.stack_get(top + 1) };
        self.truncate(top);
        Ok(v)
    }

    /// Drops what is kept for parcels that might come: for a domain that has become idle.
    pub fn forget_snapshots(&mut self) {
        self.lua.crossing.parcel.snapshots.clear();
        self.lua.crossing.parcel.instances.clear();
        self.lua.crossing.parcel.again = again::Again::default();
        self.lua.crossing.parcel.strings.let_go();
        self.lua.crossing.parcel.buffers = Buffers::default();
    }
}

impl Parcel {
    /// A parcel of one value that takes no graph.
    #[inline]
    pub fn of_plain(v: Value) -> Option<Parcel> {
        match v.tag() {
            Tag::NIL | Tag::FALSE | Tag::TRUE | Tag::INT | Tag::FLOAT | Tag::LIGHT | Tag::NATIVE => {
                Some(Parcel(Repr::One(v.tag().0, v.payload())))
            }
            Tag::STRING => {
                let text = v.as_string()?.bytes();
                if text.len() > INLINE {
                    return None;
                }
                let mut bytes = [0; INLINE];
                bytes[..text.len()].copy_from_slice(text);
                Some(Parcel(Repr::Short(text.len() as u8, bytes)))
            }
            _ => None,
        }
    }
}
