//! Why there is no machine code, for `--version` and `explain`. Everything is interpreted then.

use std::fmt;

/// What stands in the way of machine code.
#[derive(Debug)]
pub enum Unavailable {
    /// It is left out of this build: the feature is off, or nobody has written it for this system and
    /// processor.
    Build,
    /// The processor lacks something.
    #[cfg(machine_code)]
    Processor(crate::backend::Unsupported),
    /// The system gives no memory for it.
    #[cfg(machine_code)]
    Memory(crate::memory::Refused),
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unavailable::Build => f.write_str("this build makes no machine code"),
            #[cfg(machine_code)]
            Unavailable::Processor(lacking) => lacking.fmt(f),
            #[cfg(machine_code)]
            Unavailable::Memory(refused) => refused.fmt(f),
        }
    }
}

impl std::error::Error for Unavailable {}
