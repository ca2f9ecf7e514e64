//! The state of one domain's Lua: what the interpreter's handlers and native functions get as `vm`.
//!
//! The first fields are the hot ones. `base` and `top` are those of the running frame: handlers carry `base`
//! in a register and store it here before anything that may look at it (a call of a native, a collection, an
//! error); natives have `R[0]..` = their arguments at `base` and push at `top`.

use crate::object::{LuaClosure, LuaString, Table, Thread};
use crate::shape::ShapeTable;
use crate::string::StringTable;
use crate::value::{Gc, Value};
use perilune_heap::Heap;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// One domain: its Lua state and its heap, side by side, so that the collector can hold the heap and its
/// client the state.
#[repr(C)]
pub struct Vm {
    /// What Lua code and natives know.
    pub(crate) lua: State,
    /// Where their objects are; its `epoch` and allocation cursor are what handlers touch most.
    pub(crate) heap: Heap,
}

/// All of a domain but its heap: the machine's registers, then what belongs together in groups.
#[repr(C)]
pub(crate) struct State {
    /// Base of the running frame.
    pub base: *mut Value,
    /// End of the values in use by the running native, or of an open list of values.
    pub top: *mut Value,
    /// No frame may reach beyond this; a few slots are kept in reserve above it.
    pub stack_limit: *mut Value,
    /// Handlers by opcode: the plain table, or the one that looks at hooks first.
    pub dispatch: *const crate::interp::Handlers,
    /// The running coroutine.
    pub thread: *mut Thread,
    /// Set by another thread or a signal handler to make the interpreter stop at its next poll; see
    /// `interrupt.rs`.
    pub interrupt: Arc<AtomicU32>,
    /// Where that word lies, for machine code.
    pub interrupt_word: *const AtomicU32,
    /// Bumped when the structure of a table that inline caches look through changes.
    pub proto_version: u32,
    /// Nested native calls of the interpreter (the manual's "C stack"); bounded by `MAX_C_CALLS`.
    pub c_calls: u32,
    /// Greater than 0: the running coroutine may not yield (finalisers, hooks, message handlers).
    pub no_yield: u32,
    /// Where the loop of debug builds goes on.
    #[cfg(debug_assertions)]
    pub loop_pc: *const perilune_syntax::Instr,
    #[cfg(debug_assertions)]
    pub loop_k: *const Value,
    /// What is on its way through `Err`s.
    pub errors: crate::error::ErrorState,
    pub roots: Roots,
    pub caches: Caches,
    pub interned: Interned,
    /// Native stacks.
    pub stacks: crate::native_stack::NativeStacks,
    pub fibers: crate::fiber::Fibers,
    pub hosting: Hosting,
    pub crossing: Crossing,
    pub islands: Islands,
    pub gc: crate::gc::GcState,
    pub machine: crate::machine::Machine,
    pub seen: Seen,
    /// The warning state of `warn`.
    pub warn: crate::warn::WarnState,
}

/// Objects that live as long as the domain.
pub(crate) struct Roots {
    pub main_thread: *mut Thread,
    /// The lowest coroutine of what the owning thread runs: the main one, or that of a thread that has
    /// entered.
    pub base_thread: *mut Thread,
    pub registry: *mut Table,
    pub globals: *mut Table,
    /// Metatables of the basic types, by `Type`.
    pub type_metatables: [*mut Table; 9],
    /// Interned names of the metamethods, by `meta::Event`.
    pub event_names: [*mut LuaString; crate::meta::EVENT_COUNT],
    /// What `coroutine.status` says, by `Status`.
    pub status_names: [*mut LuaString; 4],
    /// Calls `pcall`, `coroutine.resume` and other natives that need the interpreter, for native code.
    pub call_stub: *mut LuaClosure,
    /// What hosts keep.
    pub kept: std::rc::Rc<crate::rooted::Slots>,
}

/// What is remembered, to be done once, beyond the inline caches of instructions.
#[derive(Default)]
pub(crate) struct Caches {
    /// The shared inline cache.
    pub shared: crate::interp::ic::SharedCache,
    /// Where the table that is being emptied begins.
    pub drained: crate::table::iterate::Drained,
    /// What `load` has made of texts that come again.
    pub texts: crate::texts::Texts,
}

/// What this domain has one of for each text and each shape.
#[derive(Default)]
pub(crate) struct Interned {
    pub strings: StringTable,
    pub shapes: ShapeTable,
}

/// Who else runs this domain.
pub(crate) struct Hosting {
    pub host: Option<Arc<dyn crate::host::Host>>,
    /// Of what type it is.
    pub host_type: Option<std::any::TypeId>,
    pub owners: crate::host::Owners,
    /// What the program around the domain keeps with it.
    pub embedder: Option<Arc<dyn std::any::Any + Send + Sync>>,
}

/// What crosses to other domains and back.
#[derive(Default)]
pub(crate) struct Crossing {
    pub parcel: Box<crate::parcel::ParcelState>,
    /// Shared objects that this domain refers to.
    pub shared_refs: crate::shared::SharedRefs,
    /// Which userdata cross to other domains, and how.
    pub carry_userdata: Option<crate::shared::Carry>,
}

/// What this domain knows of islands.
#[derive(Default)]
pub(crate) struct Islands {
    /// Shapes in islands whose names this domain knows.
    pub shapes: std::collections::HashSet<u32>,
    /// What this domain has made of functions in islands.
    pub functions: crate::island::FunctionCache,
    /// What this domain has found in dictionaries of islands.
    pub lookups: crate::island::Lookups,
    pub scratch: crate::island::Scratch,
}

/// What tools see of this domain.
#[derive(Default)]
pub(crate) struct Seen {
    /// Where events of this domain go, and its number.
    pub events: crate::events::Events,
    /// Call paths, and what samplers need.
    pub sampler: Box<crate::sampler::Sampler>,
    /// Compares what instructions do with what they declare, if it is there.
    pub checker: Option<Box<crate::interp::checked::Checker>>,
    /// Counts instructions, if it is there.
    pub counter: Option<Box<crate::interp::counted::Counter>>,
    /// When the function with the prototype at this address returns to the native that has called it, the
    /// snapshot of the end is due. It is compared only.
    pub last: Option<std::num::NonZeroUsize>,
}

impl Roots {
    /// The interned name of a metamethod.
    #[inline(always)]
    pub fn event_name(&self, e: crate::meta::Event) -> Gc<LuaString> {
        // SAFETY: set at creation, roots.
        unsafe { Gc::from_ptr(self.event_names[e as usize]) }
    }
}

impl Vm {
    /// The table of globals.
    pub fn globals(&self) -> Gc<Table> {
        // SAFETY: set at creation, a root.
        unsafe { Gc::from_ptr(self.lua.roots.globals) }
    }
    /// The registry: a table only natives see.
    pub fn registry(&self) -> Gc<Table> {
        // SAFETY: set at creation, a root.
        unsafe { Gc::from_ptr(self.lua.roots.registry) }
    }
    /// The running coroutine.
    pub fn thread(&self) -> Gc<Thread> {
        // SAFETY: there is always a running coroutine, and it is a root.
        unsafe { Gc::from_ptr(self.lua.thread) }
    }
}
