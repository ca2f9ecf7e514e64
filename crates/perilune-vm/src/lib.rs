//! The Lua virtual machine of one domain: values, strings, tables, shapes, functions, frames, the interpreter, metatables,
//! coroutines, errors. The design and its reasons are in `docs/vm-design.md`.

pub mod api;
mod frame;
mod gc;
pub mod interp;
pub mod meta;
mod native;
pub mod object;
mod segment;
pub mod shape;
mod state;
mod string;
mod table;
mod value;
pub mod warn;

pub use native::{Kind, LuaResult, Native, NativeFn, Thrown};
pub use object::{ArrayKind, LuaClosure, LuaString, NativeClosure, Status, Table, Thread, Userdata};
pub use state::Vm;
pub use value::{Gc, Tag, Type, Value};
