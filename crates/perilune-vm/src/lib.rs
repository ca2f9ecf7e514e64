//! The Lua virtual machine of one domain: values, strings, tables, shapes, functions, frames, the
//! interpreter, metatables, coroutines, errors. The design and its reasons are in `docs/vm-design.md`; this
//! is the map of the room.
//!
//! # Who talks to whom
//!
//! ```text
//!        natives (stdlib, command)
//!            |  api.rs: arguments, results          debug/: levels, locals, tracebacks
//!            v                                         |
//!        call.rs <------> interp/ <------> coroutine.rs, native_stack.rs <------> fiber.rs, host.rs (pumps)
//!            |              |    handlers; fast paths inline, the rest in:
//!            v              v
//!        frame.rs      meta.rs (metamethods)   close.rs (upvalues)   error.rs, names.rs (messages)
//!                           |
//!                           v
//!        table.rs + table/, shape.rs, string.rs, num.rs          inst.rs (prototype instances)
//!                           |
//!                           v
//!        value.rs, object.rs (layouts) <------ graph.rs, gc.rs (what the heap must know) ------> perilune-heap
//! ```
//!
//! [`Vm`] (`state.rs`) is the state that all of them get; there is no other, least of all in thread-locals.
//! One thread at a time owns it.
//!
//! Beside these stand what a state has to do with other states: `fiber/` (waiting without holding a thread),
//! `island/` (values that all can read), `shared.rs` (objects that all can use), `parcel/` (values on their
//! way) and `cycle_collector/` (what the counts of all these do not free).
//!
//! # Where things are while Lua runs
//!
//! * *Values* of Lua functions are in registers on the running coroutine's value stack, with frame records
//!   between them.
//! * *base, pc, constants* are arguments of handlers. Before anything that may call, collect, raise or be
//!   observed, pc goes into the frame record and base into the `Vm`; afterwards all three are read again from
//!   there.
//! * *The error* on its way is in `Vm::error`; a [`Thrown`] says that there is one.
//! * *The native stack* holds nothing of Lua functions. It grows with natives that call Lua, never with Lua
//!   that calls Lua.
//!
//! # Rules that cross files
//!
//! 1. The stack may move whenever it may grow, that is, in everything that calls Lua, reserves slots or runs
//!    a finaliser. Pointers into it are read again afterwards, or kept as offsets.
//! 2. A collection happens only at a safepoint: after an allocating instruction, or when a native has
//!    returned. Between two safepoints references may be anywhere; at one they are in slots below a top, in
//!    objects, in the roots listed by `graph/roots.rs`, or in the frame of a native that has called Lua.
//! 3. A store into an object that may be old passes the barrier of the object that is traced for it: a table
//!    for its parts, a coroutine for its stack. The running coroutine is traced at every collection and needs
//!    none.
//! 4. Handlers end in a jump, hold no destructor and let no local's address escape (`interp/mod.rs`).
//! 5. Code that runs has been compiled here or accepted by the verifier; its operands are not checked again.
//! 6. Operations that may end in a metamethod come twice: for handlers, which push a frame for it, and for
//!    natives, which call it there and then (`meta.rs`).
//!
//! # Outside interface
//!
//! [`Vm::new`] makes a state without libraries, [`Vm::load`] a function from source text or a binary chunk,
//! [`Vm::host_call`] runs one. [`api`] is what natives are written against, [`debug`] what looks at running
//! code, [`meta`] the operations that respect metamethods.

pub mod api;
mod arena;
mod call;
mod canonical;
mod chunks;
mod close;
mod coroutine;
pub mod cycle_collector;
pub mod debug;
mod edge;
mod error;
mod events;
mod fiber;
mod frame;
mod gc;
mod graph;
mod heap_control;
pub mod host;
mod inst;
pub mod interp;
pub mod interrupt;
pub mod island;
pub mod machine;
pub mod meta;
mod names;
mod native;
mod native_stack;
mod new;
mod num;
pub mod object;
pub mod parcel;
mod rooted;
mod sampler;
pub mod shape;
pub mod shared;
pub mod snapshot;
mod standing;
mod state;
mod string;
mod sys;
mod table;
mod texts;
mod value;
pub mod warn;

pub use arena::ARENA;
pub use fiber::{FiberEnd, FiberStep};
pub use heap_control::HeapControl;
pub use host::{Blocker, Host};
pub use interp::counted::{Executed, count_instructions, lines_executed};
pub use interp::hooks::{HOOK_CALL, HOOK_COUNT, HOOK_LINE, HOOK_RETURN};
pub use interrupt::{CANCEL as INTERRUPT_CANCEL, InterruptHandle, TRACE as INTERRUPT_TRACE};
pub use native::{
    Answer, Call, Effect, Intrinsic, Kind, LuaResult, Native, NativeBody, NativeFn, Quick, QuickBody,
    QuickFn, Raised, Results, Several, SeveralBody, SeveralFn, Signalled, Thrown,
};
pub use new::LoadMode;
pub use num::float_remainder;
pub use object::{ArrayKind, LuaClosure, LuaString, NativeClosure, Status, Table, Thread, Userdata};
pub use rooted::Rooted;
pub use state::Vm;
pub(crate) use state::{Roots, State};
pub use table::data::{Form, Guess, Record};
pub use value::{Gc, Tag, Type, Value};
