//! Metamethods: events, their names, and the cache of their absence.

/// Events, in the order of `Vm::event_names`. The first eight can be cached as absent in a metatable's `absent` byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Event {
    Index,
    NewIndex,
    Gc,
    Mode,
    Len,
    Eq,
    Call,
    Close,
    Add,
    Sub,
    Mul,
    Mod,
    Pow,
    Div,
    IDiv,
    BAnd,
    BOr,
    BXor,
    Shl,
    Shr,
    Unm,
    BNot,
    Lt,
    Le,
    Concat,
    Name,
    ToString,
    Pairs,
    Metatable,
}

/// Number of events.
pub const EVENT_COUNT: usize = 29;

impl Event {
    /// All names, by event.
    pub const NAMES: [&'static str; EVENT_COUNT] = [
        "__index",
        "__newindex",
        "__gc",
        "__mode",
        "__len",
        "__eq",
        "__call",
        "__close",
        "__add",
        "__sub",
        "__mul",
        "__mod",
        "__pow",
        "__div",
        "__idiv",
        "__band",
        "__bor",
        "__bxor",
        "__shl",
        "__shr",
        "__unm",
        "__bnot",
        "__lt",
        "__le",
        "__concat",
        "__name",
        "__tostring",
        "__pairs",
        "__metatable",
    ];
    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}
