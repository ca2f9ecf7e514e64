//! The file of a snapshot.
//!
//! ```text
//! file     section ...             one for each domain
//! section  MAGIC  version:u32 LE  record ...  END
//! HEAD     process  started  taken  domain  name      who was looked at, and when (nanoseconds since 1970)
//! TEXT     bytes                                      gets the next number, from 1
//! SHAPE    count  text ...                            names of fields; gets the next number, from 1
//! NODE     kind  address  own  external  text  x  y  z  [bytes if it is a string]  count  edge ...   the next number, from 1
//! LATE     node  edge                                 a reference that was found later: weak ones, values of ephemerons
//! ROOT     kind  text  node
//! END      nodes  live                                how many nodes there are; what the heap says that the program holds
//! edge     label  [argument]  node                    label: a `Label`, 0x80 if the reference is weak
//! ```
//! Each record begins with a byte that says which it is. Numbers are LEB128; those that may be negative are
//! folded (0, -1, 1, -2, ...). Bytes are preceded by their count. Nodes may be referred to before they come.
//! Texts and shapes come before what uses them; numbers count within a section. So the writer needs to
//! remember nothing but which object has which number, and streams.
//!
//! The meaning of `text`, `x`, `y`, `z` depends on the kind, see [`NodeKind`].

/// First bytes of a section.
pub const MAGIC: [u8; 8] = *b"PLHEAP\0\0";
/// Version of the format.
pub const VERSION: u32 = 1;

/// Begins a section: process, started, taken, domain, name.
pub const HEAD: u8 = 1;
/// A text.
pub const TEXT: u8 = 2;
/// Names of fields.
pub const SHAPE: u8 = 3;
/// An object.
pub const NODE: u8 = 4;
/// A reference that was found later.
pub const LATE: u8 = 5;
/// A root.
pub const ROOT: u8 = 6;
/// Ends a section.
pub const END: u8 = 7;
/// Bit of a label: the reference is weak.
pub const WEAK: u8 = 0x80;

/// Bytes of a string that are kept.
pub const STRING_BYTES: usize = 40;

macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident { $($(#[$d:meta])* $variant:ident = $n:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $name { $($(#[$d])* $variant = $n,)* }
        impl $name {
            /// By number.
            pub fn from_number(n: u8) -> Option<$name> {
                match n {
                    $($n => Some($name::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

numbered! {
    /// What an object is, and what its description says.
    NodeKind {
        /// `text`: its first bytes, `x`: length
        String = 1,
        /// `x`: shape, `y`: elements of the array part, `z`: keys in the hash part
        Table = 2,
        /// `text`: where it is defined
        Function = 3,
        /// `text`: its name
        Native = 4,
        /// A userdata. `text`: its type's name
        Userdata = 5,
        /// A coroutine. `text`: where it stands, `x`: 0 suspended, 1 running, 2 normal, 3 dead; `y`: number
        /// of the fiber + 1
        Thread = 6,
        /// What is known of a function's code. `text`: where it is defined
        Code = 7,
        /// A variable that closures share
        Upvalue = 8,
        /// A reference to a shared object. `text`: what it is
        Shared = 9,
        /// An island. `x`: its number in the process
        Island = 10,
        /// Something else
        Other = 11,
    }
}

numbered! {
    /// What a reference is, and what its argument says.
    Label {
        /// A field: text
        Field = 0,
        /// An element: the index
        Index = 1,
        /// A field whose name is a string: its node
        StringKey = 2,
        /// An element whose key is a float: its bits
        FloatKey = 3,
        /// An element whose key is a boolean
        BooleanKey = 4,
        /// An element whose key is an object: its node
        ObjectKey = 5,
        /// A key of the table itself
        Key = 6,
        /// The metatable
        Metatable = 7,
        /// An upvalue: text
        Upvalue = 8,
        /// The value of a variable
        Variable = 9,
        /// On a stack: text (`n of f (file:line)`)
        Local = 10,
        /// On a stack, without a name: text
        Stack = 11,
        /// A constant of a function
        Constant = 12,
        /// Code of a function
        Code = 13,
        /// A value in a weak table, reached as long as this is, its key: the table's node
        Ephemeron = 14,
        /// Who resumed a coroutine, or runs in a fiber
        Resumer = 15,
        /// A user value: its number
        UserValue = 16,
        /// A word of a native stack, which may be a reference by chance
        NativeStack = 17,
        /// Something else: text
        Other = 18,
        /// A field of an object's island
        Island = 19,
        /// An element whose key is a light userdata or native function
        OtherKey = 20,
    }
}

impl Label {
    /// Whether the argument is a text, a node, a number, or nothing.
    pub fn argument(self) -> Argument {
        match self {
            Label::Field | Label::Upvalue | Label::Local | Label::Stack | Label::Other => Argument::Text,
            Label::StringKey | Label::ObjectKey | Label::Ephemeron => Argument::Node,
            Label::Index => Argument::Folded,
            Label::FloatKey | Label::BooleanKey | Label::UserValue => Argument::Number,
            _ => Argument::Nothing,
        }
    }
}

/// What follows a label.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Argument {
    /// Number of a text.
    Text,
    /// Number of a node.
    Node,
    /// A number, folded.
    Folded,
    /// A number.
    Number,
    /// It has none.
    Nothing,
}

numbered! {
    /// Why a node is alive by itself. Those that programs know come first: paths begin there if they can.
    RootKind {
        /// The table of globals
        Globals = 0,
        /// The registry
        Registry = 1,
        /// A coroutine that runs or waits: text
        Stack = 2,
        /// The runtime itself: text
        Runtime = 3,
        /// An object to be finalised
        Finalizer = 4,
        /// A word of a native stack
        NativeStack = 5,
    }
}

/// Folds a number so that small ones stay small, whatever their sign.
pub fn fold(n: i64) -> u64 {
    (n << 1 ^ n >> 63) as u64
}

/// Undoes [`fold`].
pub fn unfold(n: u64) -> i64 {
    (n >> 1) as i64 ^ -((n & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_folded_and_unfolded() {
        for n in [0, 1, -1, 2, i64::MAX, i64::MIN, 1 << 40] {
            assert_eq!(unfold(fold(n)), n);
        }
        assert_eq!([0, -1, 1, -2].map(fold), [0, 1, 2, 3]);
    }

    #[test]
    fn kinds_have_numbers() {
        for n in 0..=255 {
            assert!(NodeKind::from_number(n).is_none_or(|k| k as u8 == n));
            assert!(Label::from_number(n).is_none_or(|k| k as u8 == n && n & WEAK == 0));
        }
    }
}
