//! The Lua 5.4 standard library (manual, section 6).
//!
//! One file or folder per library; each has `open`, which makes its table and records it in `package.loaded`.
//! Natives are plain Rust functions over the interface of [`perilune_vm::api`]; they hold no state of their
//! own except two things that belong to the process rather than to a Lua state: the three standard streams
//! (`io/standard.rs`) and the list of open streams that have to be flushed at exit.
//!
//! | file | library |
//! |---|---|
//! | `base.rs`, `chunk.rs` | basic functions; reading chunks from files and strings |
//! | `package.rs` | `require` and `package` |
//! | `string/` | `string`: patterns, formats, packing |
//! | `utf8.rs` | `utf8` |
//! | `table.rs`, `sort.rs` | `table` |
//! | `math.rs`, `random.rs` | `math` |
//! | `os.rs`, `date.rs` | `os` |
//! | `debug.rs` | `debug` |
//! | `io/` | `io` and file handles |
//! | `lfs.rs` | `require "lfs"` |
//! | `asked.rs` | calls that may wait for a disk, made by a helper |
//! | `used.rs` | which files a program looks at, for tools |
//! | `ended.rs` | waiting for the ends of processes |
//! | `sys.rs`, `sys/` | what is Linux: `child.rs` processes that are started, `sigpipe.rs` pipes that nobody reads |
//!
//! Leaf natives never run Lua code and are the cheap ones; a function is declared reentrant only if it can
//! meet a metamethod or a callback.

mod asked;
pub mod base;
pub mod chunk;
mod date;
pub mod debug;
mod ended;
mod errno;
pub mod io;
mod lfs;
pub mod math;
pub mod os;
pub mod package;
mod random;
mod sort;
pub mod string;
mod sys;
pub mod table;
pub mod used;
pub mod utf8;

pub use package::Paths;
use perilune_vm::{LuaResult, Vm};
pub use sys::{child, sigpipe};

/// Opens all standard libraries, with the default paths of modules. Nothing is read from the environment.
///
/// # Errors
/// Only when memory runs out.
pub fn open_libs(vm: &mut Vm) -> LuaResult<()> {
    open_libs_with(vm, &Paths::default())
}

/// Opens all standard libraries, with these paths of modules.
///
/// # Errors
/// Only when memory runs out.
pub fn open_libs_with(vm: &mut Vm, paths: &Paths) -> LuaResult<()> {
    base::open(vm)?;
    package::open(vm, paths)?;
    lfs::open(vm)?;
    table::open(vm)?;
    io::open(vm)?;
    os::open(vm)?;
    string::open(vm)?;
    math::open(vm)?;
    utf8::open(vm)?;
    debug::open(vm)?;
    vm.open_coroutine()?;
    vm.record_standard_library();
    Ok(())
}
