//! What is wrong with a message, and what its sender is told.

/// A message that is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The status of the answer, if the message is a request.
    pub status: u16,
    /// For people.
    pub text: &'static str,
}

/// The message is no HTTP, or might be understood in two ways.
pub const fn bad(text: &'static str) -> Refused {
    Refused { status: 400, text }
}

/// It is HTTP, and not to be had with this status.
pub const fn refused(status: u16, text: &'static str) -> Refused {
    Refused { status, text }
}
