//! Values as bytes on their way to another process: what remote calls and their like send.
//!
//! Compact rather than readable, and meant to be read from peers that are not trusted. It has no module of
//! its own: rooms above use it.
//!
//! # The format
//! One byte says what follows. Lengths, counts and integers are *varints*: seven bits a byte, the lowest
//! first, the eighth bit says that more follow.
//!
//! | first byte | value |
//! |---|---|
//! | `00..7f` | that integer |
//! | `80..9f` | a string of 0 to 31 bytes, which follow |
//! | `a0`, `a1`, `a2` | nil, false, true |
//! | `a3` | an integer: a varint of its zigzag form (0, -1, 1, -2 ...) |
//! | `a4` | a float: its eight bytes, the lowest first |
//! | `a5` | a string: its length, its bytes |
//! | `a6` | a list: its length, its elements; none is nil |
//! | `a7` | a record: how many fields, and of each its name, a string, and its value; no name twice, no value is nil |
//! | `a8` | any other table: how many entries, and of each its key and its value; neither is nil, no key is NaN |
//!
//! Everything else is malformed, as is a table that is more than [`DEPTH`] deep.
//!
//! # What crosses
//! Nil, booleans, numbers, strings and tables of these; a table that is reached twice arrives as two.
//! Metatables stay behind, and no metamethod is called. Functions, coroutines, userdata and shared objects
//! are refused with the path to them: a value that arrives never is code, and never more than it looks like.
//!
//! # What always holds
//! * Decoding takes memory in proportion to the bytes that are there: a count is believed only as far as
//!   bytes follow. (The proportion is about forty: an empty table is two bytes.)
//! * Neither direction runs Lua code or has a safepoint; both look for interrupts and at memory's limits as
//!   they go.
//!
//! *Rejected*: the encoding of parcels (`perilune_vm::parcel`), which is trusted by who reads it and may hold
//! functions; MessagePack, whose integers and strings have several forms each and which has no way to tell a
//! list from a record with one byte; names that are sent once and then by number, since a call has few.

mod decode;
mod encode;

pub use decode::{Malformed, Reader};
pub use encode::{Refused, encode};

/// Deepest nesting of tables.
pub const DEPTH: usize = 100;
/// Bytes between two looks at interrupts and at the memory's limits.
const STRIDE: usize = 1 << 16;

const SHORT: u8 = 0x80;
const SHORT_LEN: usize = 32;
const NIL: u8 = 0xa0;
const FALSE: u8 = 0xa1;
const TRUE: u8 = 0xa2;
const INT: u8 = 0xa3;
const FLOAT: u8 = 0xa4;
const STRING: u8 = 0xa5;
const LIST: u8 = 0xa6;
const RECORD: u8 = 0xa7;
const MAP: u8 = 0xa8;

/// Appends a varint, for which there are ten bytes of room.
pub fn put_varint(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Appends a string, for which there is room.
pub fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.len() < SHORT_LEN {
        out.push(SHORT | bytes.len() as u8);
    } else {
        out.push(STRING);
        put_varint(out, bytes.len() as u64);
    }
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests;
