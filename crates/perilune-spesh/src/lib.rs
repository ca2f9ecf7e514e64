//! Machine code for Perilune: the specialiser.
//!
//! Its lowest floor knows no Lua: it takes a function in intermediate form (`ssa.rs`) and makes bytes of it,
//! keeps bytes where they can run, says which function an address belongs to, and knows when nobody can be in
//! code any more. On it stands what compiles hot functions and loops: `units.rs` and `compiler.rs` choose,
//! `lower.rs` makes intermediate form, `profiles.rs` keeps what is known; `blocking.rs` does it when the VM
//! asks, `background.rs` beside the program ([`specializer`]). `docs/spesh.md` has the whole design with its
//! figures, `docs/decisions/0022-code-memory.md` the alternatives.
//!
//! # The life of a piece of code
//!
//! ```text
//!  Backend::compile ──▶ Compiled: bytes, no relocation left, positions
//!                          │ CodeMemory::install            (a compiling thread)
//!                          ▼
//!                        Code: an address ──▶ Ranges::insert, Perf::record, then whatever leads to it
//!                          │ nothing leads to it any more
//!                          ▼
//!                        Reclaimer::retire ──▶ collect, when every domain has passed or is outside ──▶ Ranges::remove, Code::free
//! ```
//!
//! The order matters twice. A code's range is entered before anything leads to it, so that a sampler finds
//! whatever is running; and removed after nobody can be in it.
//!
//! # Threads
//! A compiling thread installs, retires and collects. The owners of domains enter and leave, and pass
//! safepoints: two stores and a fence, no lock. Signal handlers look addresses up: no lock, no allocation, no
//! waiting.
//!
//! # After a fork
//! A child keeps running the code that it inherited and installs none. Every structure here that has a lock
//! remembers which process made it ([`fork::Lineage`]) and leaves its lock alone in a child, where a thread
//! that no longer exists may be holding it.
//!
//! # Without machine code
//! Without the feature `machine-code`, on another processor or another system, there are no modules here but
//! [`ranges`] and [`reclaim`], which know neither; [`specializer`] says that this build makes no machine
//! code.

pub mod ranges;
pub mod reclaim;
pub mod report;
mod sync;
mod unavailable;

#[cfg(machine_code)]
use sys::target;
pub use unavailable::Unavailable;

#[cfg(machine_code)]
mod alarm;
#[cfg(machine_code)]
pub mod backend;
#[cfg(machine_code)]
pub mod background;
#[cfg(machine_code)]
pub mod blocking;
#[cfg(machine_code)]
mod budget;
#[cfg(machine_code)]
mod compiler;
#[cfg(machine_code)]
pub mod fork;
#[cfg(machine_code)]
mod linear;
#[cfg(machine_code)]
mod live;
#[cfg(machine_code)]
mod lower;
#[cfg(machine_code)]
pub mod memory;
#[cfg(machine_code)]
pub mod perf;
#[cfg(machine_code)]
mod places;
#[cfg(machine_code)]
pub mod positions;
#[cfg(machine_code)]
mod profiles;
#[cfg(machine_code)]
mod room;
#[cfg(machine_code)]
pub mod ssa;
#[cfg(machine_code)]
mod sys;
#[cfg(machine_code)]
mod trials;
#[cfg(machine_code)]
mod units;

/// What is needed to make machine code: a backend that works on this processor, and memory that this system
/// lets run.
#[cfg(machine_code)]
pub fn machine_code(
    options: backend::Options,
    capacity: usize,
) -> Result<(backend::Backend, std::sync::Arc<memory::CodeMemory>), Unavailable> {
    let backend = backend::Backend::new(options).map_err(Unavailable::Processor)?;
    let memory = memory::CodeMemory::reserve(capacity).map_err(Unavailable::Memory)?;
    Ok((backend, memory))
}

/// What a specialiser is to know besides its mode.
#[derive(Debug, Default)]
pub struct Setup {
    /// Where its decisions go.
    pub decisions: std::sync::Arc<report::Decisions>,
    /// `PERILUNE_SPESH_GUARDS`: which guards fail on purpose (`fail:N`, `random:SEED`, or nothing).
    pub guards: String,
    /// `PERILUNE_SPESH_LEAVE`: before which calls machine code leaves (`every`, a number, or nothing).
    pub leave: String,
    /// `PERILUNE_SPESH_GENERATOR`: whether what the code generator makes is checked (`checked`, or nothing).
    pub generator: String,
    /// `PERILUNE_PERF`: what `perf` is told (`map`, `lines`, `jitdump`, or nothing).
    pub perf: String,
    /// `PERILUNE_SPESH_ROOM`: how much machine code there may be, in KiB (or nothing: 65,536, or less where
    /// the address space is limited).
    pub room: String,
}

/// Whether there can be machine code here.
///
/// # Errors
/// Why not.
pub fn available() -> Result<(), Unavailable> {
    #[cfg(machine_code)]
    {
        target::supported().map_err(|lack| Unavailable::Processor(backend::Unsupported(lack)))?;
        memory::CodeMemory::reserve(memory::capacity()).map_err(Unavailable::Memory)?;
        Ok(())
    }
    #[cfg(not(machine_code))]
    Err(Unavailable::Build)
}

/// What makes machine code in a program, in the words of the environment variable `PERILUNE_SPESH`:
///
/// | mode | |
/// |---|---|
/// | `auto` | hot functions and loops are compiled beside the program |
/// | empty | the same; where there can be no machine code, everything is interpreted and nobody is told |
/// | `off` | everything is interpreted |
/// | `step` | every function is entered as machine code that leaves each instruction to the interpreter |
/// | `blocking` | hot functions and loops are compiled at once, while their domain waits |
/// | `blocking:ROUNDS:INSTRUCTIONS` | so, where hot is what has come round so often, and what it meets is recorded for so many instructions (1000 and 20000 without figures) |
///
/// `setup` says what else there is to know; it is called if machine code will be made.
///
/// # Errors
/// There is no such mode, or no machine code here: in words for people.
pub fn specializer(
    mode: &str,
    setup: impl FnOnce() -> Setup,
) -> Result<Option<std::sync::Arc<dyn perilune_vm::machine::Specializer>>, String> {
    let mut words = mode.split(':');
    let name = words.next().unwrap_or_default();
    let figures: Result<Vec<u32>, _> = words.map(str::parse).collect();
    let (rounds, quota) = match (name, figures.as_deref()) {
        ("off", Ok([])) => return Ok(None),
        ("", Ok([])) if !is_supported() => return Ok(None),
        ("" | "auto", Ok([])) => return background(setup),
        ("step", Ok([])) => return Ok(Some(std::sync::Arc::new(perilune_vm::machine::Stepper::default()))),
        ("blocking", Ok([])) => (1000, 20_000),
        ("blocking", Ok(&[rounds])) => (rounds, 20_000),
        ("blocking", Ok(&[rounds, quota])) => (rounds, quota),
        _ => {
            let known = "'auto', 'off', 'step', 'blocking' and 'blocking:ROUNDS:INSTRUCTIONS'";
            return Err(format!("there is no mode '{mode}' (there are {known})"));
        }
    };
    #[cfg(machine_code)]
    match blocking::Blocking::new(rounds, quota, setup()) {
        Ok(specializer) => Ok(Some(specializer)),
        Err(why) => Err(why),
    }
    #[cfg(not(machine_code))]
    {
        let _ = (rounds, quota, setup);
        Err("this build makes no machine code".into())
    }
}

/// Whether the processor can run what would be made. Memory is asked for when something is compiled.
fn is_supported() -> bool {
    #[cfg(machine_code)]
    return target::supported().is_ok();
    #[cfg(not(machine_code))]
    false
}

fn background(
    setup: impl FnOnce() -> Setup,
) -> Result<Option<std::sync::Arc<dyn perilune_vm::machine::Specializer>>, String> {
    #[cfg(machine_code)]
    match background::Background::new(10_000, setup()) {
        Ok(specializer) => Ok(Some(specializer)),
        Err(why) => Err(why),
    }
    #[cfg(not(machine_code))]
    {
        let _ = setup;
        Err("this build makes no machine code".into())
    }
}
