//! The Lua virtual machine of one domain: values, strings, tables, shapes, functions, frames, the interpreter, metatables,
//! coroutines, errors. The design and its reasons are in `docs/vm-design.md`.

pub mod api;
mod call;
mod close;
mod coroutine;
pub mod debug;
mod error;
mod frame;
mod gc;
mod inst;
pub mod interp;
mod interrupt;
pub mod meta;
mod names;
mod native;
mod new;
mod num;
pub mod object;
mod segment;
pub mod shape;
mod state;
mod string;
mod table;
mod value;
pub mod warn;

pub use interp::hooks::{HOOK_CALL, HOOK_COUNT, HOOK_LINE, HOOK_RETURN};
pub use interrupt::InterruptHandle;
pub use native::{Kind, LuaResult, Native, NativeFn, Thrown};
pub use new::LoadMode;
pub use object::{ArrayKind, LuaClosure, LuaString, NativeClosure, Status, Table, Thread, Userdata};
pub use state::Vm;
pub use value::{Gc, Tag, Type, Value};
