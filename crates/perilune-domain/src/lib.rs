//! Lua on all cores: domains, what they share, and what runs them.

pub mod module;
pub mod objects;

pub use module::open;
