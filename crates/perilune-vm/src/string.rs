//! Strings and interning.

/// The interned strings of a domain.
#[derive(Default)]
pub struct StringTable {}
