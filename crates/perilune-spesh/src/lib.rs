//! Machine code for Perilune: the lowest floor of the specialiser.
//!
//! What stands here knows no Lua: it takes a function in Cranelift's intermediate form and makes bytes of it, keeps bytes where
//! they can run, says which function an address belongs to, and knows when nobody can be in code any more. What decides
//! what is compiled, and how, stands on top of it. `docs/spesh.md` has the whole design with its figures,
//! `docs/decisions/0022-code-memory.md` the alternatives.
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
//! The order matters twice. A code's range is entered before anything leads to it, so that a sampler finds whatever is running;
//! and removed after nobody can be in it.
//!
//! # Threads
//! A compiling thread installs, retires and collects. The owners of domains enter and leave, and pass safepoints: two stores
//! and a fence, no lock. Signal handlers look addresses up: no lock, no allocation, no waiting.
//!
//! # After a fork
//! A child keeps running the code that it inherited and installs none. Every structure here that has a lock remembers which process made it
//! ([`fork::Lineage`]) and leaves its lock alone in a child, where a thread that no longer exists may be holding it.
//!
//! # Without machine code
//! Without the feature `machine-code`, on another processor or another system, there are no modules here but [`ranges`] and
//! [`reclaim`], which know neither, and [`Unavailable::Build`].

pub mod ranges;
pub mod reclaim;
mod sync;
mod unavailable;

pub use unavailable::Unavailable;

#[cfg(machine_code)]
pub mod backend;
#[cfg(machine_code)]
pub mod fork;
#[cfg(machine_code)]
pub mod memory;
#[cfg(machine_code)]
pub mod perf;
#[cfg(machine_code)]
pub mod positions;
#[cfg(machine_code)]
mod target;

/// What is needed to make machine code: a backend that works on this processor, and memory that this system lets run.
#[cfg(machine_code)]
pub fn machine_code(
    options: backend::Options,
    capacity: usize,
) -> Result<(backend::Backend, std::sync::Arc<memory::CodeMemory>), Unavailable> {
    let backend = backend::Backend::new(options).map_err(Unavailable::Processor)?;
    let memory = memory::CodeMemory::reserve(capacity).map_err(Unavailable::Memory)?;
    Ok((backend, memory))
}
