//! The state of one domain's Lua: what the interpreter's handlers and native functions get as `vm`.
//!
//! The first fields are the hot ones. `base` and `top` are those of the running frame: handlers carry `base` in a register and store it here
//! before anything that may look at it (a call of a native, a collection, an error); natives have `R[0]..` = their arguments
//! at `base` and push at `top`.

use crate::object::{Table, Thread};
use crate::shape::ShapeTable;
use crate::string::StringTable;
use crate::value::{Gc, Value};
use perilune_heap::Heap;
use std::sync::atomic::AtomicU32;

/// One domain's Lua state.
#[repr(C)]
pub struct Vm {
    /// Base of the running frame.
    pub(crate) base: *mut Value,
    /// End of the values in use by the running native, or of an open list of values.
    pub(crate) top: *mut Value,
    /// No frame may reach beyond this; a few slots are kept in reserve above it.
    pub(crate) stack_limit: *mut Value,
    /// Handlers by opcode: the plain table, or the one that looks at hooks first.
    pub(crate) dispatch: *const crate::interp::Handlers,
    /// The heap; its `epoch` and allocation cursor are what handlers touch most.
    pub(crate) heap: Heap,
    /// The running coroutine.
    pub(crate) thread: *mut Thread,
    /// Set by another thread or a signal handler to make the interpreter stop at its next poll; see `interrupt.rs`.
    pub(crate) interrupt: std::sync::Arc<AtomicU32>,
    /// Where the loop of debug builds goes on.
    #[cfg(debug_assertions)]
    pub(crate) loop_pc: *const perilune_syntax::Instr,
    #[cfg(debug_assertions)]
    pub(crate) loop_k: *const Value,
    /// Bumped when the structure of a table that inline caches look through changes.
    pub(crate) proto_version: u32,
    /// Nested native calls of the interpreter (the manual's "C stack"); bounded by `MAX_C_CALLS`.
    pub(crate) c_calls: u32,
    /// What is on its way through `Err`s.
    pub(crate) errors: crate::error::ErrorState,
    /// Greater than 0: the running coroutine may not yield (finalisers, hooks, message handlers).
    pub(crate) no_yield: u32,
    /// Calls `pcall`, `coroutine.resume` and other natives that need the interpreter, for native code.
    pub(crate) call_stub: *mut crate::object::LuaClosure,
    /// The shared inline cache.
    pub(crate) shared: crate::interp::ic::SharedCache,
    /// Where the table that is being emptied begins.
    pub(crate) drained: crate::table::iterate::Drained,
    /// Native stacks.
    pub(crate) stacks: crate::segment::NativeStacks,
    pub(crate) fibers: crate::fiber::Fibers,
    /// Who else runs this domain.
    pub(crate) host: Option<std::sync::Arc<dyn crate::host::Host>>,
    pub(crate) owners: crate::host::Owners,
    pub(crate) embedder: Option<std::sync::Arc<dyn std::any::Any + Send + Sync>>,
    /// The lowest coroutine of what the owning thread runs: the main one, or that of a thread that has entered.
    pub(crate) base_thread: *mut Thread,
    pub(crate) strings: StringTable,
    pub(crate) shapes: ShapeTable,
    pub(crate) main_thread: *mut Thread,
    pub(crate) registry: *mut Table,
    pub(crate) globals: *mut Table,
    /// Metatables of the basic types, by `Type`.
    pub(crate) type_metatables: [*mut Table; 9],
    /// Interned names of the metamethods, by `meta::Event`.
    pub(crate) event_names: [*mut crate::object::LuaString; crate::meta::EVENT_COUNT],
    /// Shapes in islands whose names this domain knows.
    pub(crate) island_shapes: std::collections::HashSet<u32>,
    /// What this domain has made of functions in islands.
    pub(crate) functions: crate::island::FunctionCache,
    /// What this domain has found in dictionaries of islands.
    pub(crate) lookups: crate::island::Lookups,
    pub(crate) scratch: crate::island::Scratch,
    /// Which userdata cross to other domains, and how.
    /// Bytes that the table wanted whose growth has just been refused; 0: none.
    pub(crate) wanted_room: usize,
    /// How often memory has been refused.
    pub(crate) refusals: u32,
    pub(crate) userdata_carrier: Option<crate::shared::Carry>,
    /// Shared objects that this domain refers to.
    pub(crate) shared_refs: crate::shared::SharedRefs,
    /// What crosses to other domains and back.
    pub(crate) parcel: Box<crate::parcel::ParcelState>,
    pub(crate) gc: crate::gc::GcState,
    /// Where events of this domain go, and its number.
    pub(crate) events: crate::events::Events,
    /// Call paths, and what samplers need.
    pub(crate) sampler: Box<crate::sampler::Sampler>,
    /// Compares what instructions do with what they declare, if it is there.
    pub(crate) checker: Option<Box<crate::interp::checked::Checker>>,
    /// The warning state of `warn`.
    pub(crate) warn: crate::warn::WarnState,
}

impl Vm {
    /// The table of globals.
    pub fn globals(&self) -> Gc<Table> {
        // SAFETY: set at creation, a root.
        unsafe { Gc::from_ptr(self.globals) }
    }
    /// The registry: a table only natives see.
    pub fn registry(&self) -> Gc<Table> {
        // SAFETY: set at creation, a root.
        unsafe { Gc::from_ptr(self.registry) }
    }
    /// The running coroutine.
    pub fn thread(&self) -> Gc<Thread> {
        // SAFETY: there is always a running coroutine, and it is a root.
        unsafe { Gc::from_ptr(self.thread) }
    }
}
