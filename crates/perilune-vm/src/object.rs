//! The layouts of heap objects. Each starts with the heap's [`Header`], whose `kind` is the object's
//! [`crate::Tag`].
//!
//! What grows (a table's parts, a coroutine's stack) lives in *buffers*: objects of kind `BUFFER` that hold a
//! header and bare storage. Only their owner points at them (at the first byte past the header) and only the
//! owner's `trace` looks inside, so a buffer needs no kind of its own for each content. Nothing here has a
//! destructor; native resources (`Arc<Proto>`, native stacks, boxed userdata) are listed in `gc.rs` and
//! released when the collector finds their owner dead.

use crate::native::Native;
use crate::value::{Gc, Value};
use perilune_heap::Header;
use perilune_syntax::{Instr, Proto};

/// A string: immutable bytes with a NUL after them. A string used as a table key is *interned* first: among
/// interned strings, equal bytes mean equal address. See `string.rs`.
#[repr(C)]
pub struct LuaString {
    /// Its epoch means nothing, as strings are never logged: `island/lookups.rs` keeps a number there.
    pub(crate) header: Header,
    /// Hash of the bytes; 0: not computed yet.
    pub(crate) hash: u32,
    /// Global id of this text as a field name of some shape; 0: no shape has such a field. Only interned
    /// strings have one; others keep here where their twin may be found (`string.rs`).
    pub(crate) atom: u32,
    /// Length in bytes.
    pub(crate) len: u32,
    pub(crate) data: [u8; 0],
}

/// Bit of `Header::flags` of a string: it is the interned one of its text.
pub(crate) const STRING_INTERNED: u8 = 1;
/// Bit of `Header::flags` of a string that is not interned: it has been looked up in a dictionary of an
/// island (`island/lookups.rs`).
pub(crate) const STRING_MET: u8 = 2;
/// Bytes before a string's text.
pub(crate) const STRING_DATA: usize = 20;

impl LuaString {
    /// Length in bytes.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len as usize
    }
}

impl Gc<LuaString> {
    /// The bytes. They stay in place while the string is reachable (from a stack slot, an object, or a native
    /// frame): do not keep the slice beyond that.
    #[inline(always)]
    pub fn bytes<'a>(self) -> &'a [u8] {
        // SAFETY: `len` bytes follow the header of a string; strings are immutable and do not move; the
        // caller keeps to the reachability rule above.
        unsafe { std::slice::from_raw_parts((self.ptr() as *const u8).add(STRING_DATA), self.len as usize) }
    }
    /// The bytes as text for messages, invalid UTF-8 replaced.
    pub fn to_text(self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }
}

/// Kind of a table's array part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ArrayKind {
    /// `Value` elements, nil allowed.
    General = 0,
    /// `i64` elements.
    Int = 1,
    /// `f64` elements.
    Float = 2,
    /// `false` and `true`: the elements are their tags.
    Bool = 3,
}

/// A table. See `table.rs` for the algorithms and invariants.
#[repr(C)]
pub struct Table {
    pub(crate) header: Header,
    /// The shape that maps string keys to `slots`; 0 ([`crate::shape::DICT`]): string keys are in `nodes`.
    pub(crate) shape: u32,
    /// When this table serves as a metatable: bit e set means "metamethod e (`meta::Event`, the first eight)
    /// is known to be absent". Cleared by every store of a string key that starts with "__".
    pub(crate) absent: u8,
    pub(crate) kind: ArrayKind,
    /// log2 of the number of nodes; if `nodes` is null, one more than the logarithm of the number of nodes to
    /// make first, or 0.
    pub(crate) log2_nodes: u8,
    /// Capacity of `slots`, at most 128.
    pub(crate) slot_cap: u8,
    /// Null: none.
    pub(crate) metatable: *mut Table,
    /// Values of the shape's fields: right behind this struct (inline) or in a buffer; null if `slot_cap`
    /// is 0.
    pub(crate) slots: *mut Value,
    /// `array_cap` elements of 16 bytes (General), 8 (Int, Float) or 1 (Bool); which are in use:
    /// `table/array.rs`.
    /// Inline (behind the slots) or in a buffer; null if none.
    pub(crate) array: *mut u8,
    pub(crate) array_len: u32,
    pub(crate) array_cap: u32,
    /// `1 << log2_nodes` nodes in a buffer; null: no hash part.
    pub(crate) nodes: *mut Node,
    /// All nodes at this index and above are in use (search for a free one goes downwards).
    pub(crate) last_free: u32,
    /// Bytes of slots allocated inline, then of array: tells the inline parts from buffers.
    pub(crate) inline_slots: u16,
    pub(crate) inline_array: u16,
}

/// Bit of `Header::flags` of a table: inline caches depend on where its fields are; a change of its structure
/// bumps `Vm::proto_version`.
pub(crate) const TABLE_IS_PROTO: u8 = 1;
/// Bit of `Header::flags` of a table: its finaliser has been registered (`__gc`).
pub(crate) const TABLE_FINALIZE: u8 = 2;
/// Bit of `Header::flags` of a table: it is empty and stays so, because it stands for the globals of a task
/// (`parcel/snapshot.rs`).
pub(crate) const TABLE_GUARDED: u8 = 128;

/// A node of a table's hash part: 24 bytes.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Node {
    pub(crate) value: u64,
    pub(crate) key: u64,
    pub(crate) value_tag: u8,
    /// `Tag::NIL`: never used. A dead key keeps its tag and payload so that `next` can find it.
    pub(crate) key_tag: u8,
    pub(crate) _pad: u16,
    /// Distance to the next node of the chain; 0: end.
    pub(crate) next: i32,
}

/// A prototype as one domain sees it: constants as local values, inline caches.
#[repr(C)]
pub struct ProtoInst {
    pub(crate) header: Header,
    /// Where its calls begin: its first instruction, or a stub that stands before it.
    pub(crate) code: *const Instr,
    /// Constants from here upwards; inline caches from here downwards (`ic.rs`); in a buffer.
    pub(crate) k: *mut Value,
    pub(crate) max_stack: u8,
    pub(crate) num_params: u8,
    pub(crate) is_vararg: bool,
    pub(crate) num_upvalues: u8,
    /// Entries of the buffer before `k` (16 bytes each).
    pub(crate) ic_slots: u32,
    /// Instances of the nested prototypes, made on demand; `*mut ProtoInst` each; a buffer, null if none.
    pub(crate) children: *mut *mut ProtoInst,
    /// Owned: one strong count of the `Arc`.
    pub(crate) proto: *const Proto,
    /// Owned likewise; null: none. If there is some, `code` is its stub (`machine.rs`).
    pub(crate) machine: *const crate::machine::MachineCode,
    /// What machine code calls to call a function of this, a [`crate::machine::Run`]; null: nothing.
    pub(crate) native: *const (),
    /// How often its loops have come round, if that is counted.
    pub(crate) heat: u32,
    /// How often it has lost machine code that did not do.
    pub(crate) setbacks: u8,
    /// A call with at least so many arguments, and fewer than 255, leaves nothing to be done for them: its
    /// parameters, or 255, if it is one of variable arguments.
    pub(crate) takes: u8,
    /// Bytes of the stack that its registers take.
    pub(crate) frame_bytes: u16,
}

impl ProtoInst {
    /// The number of the instruction at `pc`, which is the `pc` of a frame of this instance.
    #[inline(always)]
    pub(crate) fn position(&self, pc: *const Instr) -> usize {
        if pc == self.code {
            return 0;
        }
        // SAFETY: all other positions are in the prototype's code.
        unsafe { pc.offset_from(self.proto().code.as_ptr()) as usize }
    }

    /// The shared prototype.
    #[inline]
    pub fn proto(&self) -> &Proto {
        // SAFETY: the instance owns a strong count for as long as it lives.
        unsafe { &*self.proto }
    }
}

/// A Lua function.
#[repr(C)]
pub struct LuaClosure {
    pub(crate) header: Header,
    pub(crate) proto: *mut ProtoInst,
    /// `proto.num_upvalues` references.
    pub(crate) upvals: [*mut Upval; 0],
}

impl LuaClosure {
    /// Its prototype.
    #[inline(always)]
    pub fn inst(&self) -> &ProtoInst {
        // SAFETY: a closure keeps its prototype's instance alive.
        unsafe { &*self.proto }
    }
}

/// An upvalue: open (points into a stack) or closed (points at its own `closed`).
#[repr(C)]
pub struct Upval {
    pub(crate) header: Header,
    pub(crate) v: *mut Value,
    /// The value once closed. While open it is no value: its payload is the next open upvalue of the thread
    /// (further down the stack), and the padding behind its tag is the thread itself.
    pub(crate) closed: Value,
}

impl Upval {
    /// The second word of `closed`: a tag byte, then room for an address of 48 bits.
    fn owner_word(&mut self) -> *mut u64 {
        // SAFETY: a value is two words.
        unsafe { (&raw mut self.closed as *mut u64).add(1) }
    }

    /// Makes this an open upvalue of `th`, the last one being `next`.
    pub(crate) fn open(&mut self, slot: *mut Value, next: *mut Upval, th: *mut Thread) {
        self.v = slot;
        // SAFETY: both words are this object's; the lowest byte of the second becomes a tag that no program
        // sees.
        unsafe {
            *Value::link(&raw mut self.closed) = next as u64;
            *self.owner_word() = (th as u64) << 16 | crate::value::Tag::FRAME.0 as u64;
        }
    }

    /// The thread that an open upvalue belongs to, which it keeps alive: the slot is on its stack.
    pub(crate) fn owner(&mut self) -> Option<*mut Thread> {
        if self.v == &raw mut self.closed {
            return None;
        }
        // SAFETY: as above; `open` wrote it, and nothing but closing changes it.
        Some(unsafe { (*self.owner_word() >> 16) as *mut Thread })
    }
}

/// A native function with upvalues.
#[repr(C)]
pub struct NativeClosure {
    pub(crate) header: Header,
    pub(crate) native: &'static Native,
    pub(crate) num_upvalues: u32,
    pub(crate) upvals: [Value; 0],
}

impl NativeClosure {
    /// Upvalue `n` (from 0), if it has so many.
    #[inline]
    pub(crate) fn upvalue(&self, n: u32) -> Option<Value> {
        // SAFETY: in range: a native closure has room for as many as it says.
        (n < self.num_upvalues).then(|| unsafe { *(&raw const self.upvals as *const Value).add(n as usize) })
    }
}

/// A full userdata: a boxed Rust value, a metatable, user values.
#[repr(C)]
pub struct Userdata {
    pub(crate) header: Header,
    pub(crate) metatable: *mut Table,
    /// Owned `Box<Box<dyn Any + Send>>`; null once dropped.
    pub(crate) data: *mut Box<dyn std::any::Any + Send>,
    /// The value in `data`, and its type: to ask the value for that is a call of a function that nobody knows.
    pub(crate) value: *mut (),
    /// See `value`.
    pub(crate) type_id: std::any::TypeId,
    pub(crate) num_user_values: u32,
    pub(crate) user_values: [Value; 0],
}

/// What a coroutine is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Status {
    /// Created or yielded.
    Suspended = 0,
    /// Runs now.
    Running = 1,
    /// Resumed another coroutine and waits for it.
    Normal = 2,
    /// Finished, failed or closed.
    Dead = 3,
}

impl Status {
    pub(crate) const ALL: [Status; 4] = [Status::Suspended, Status::Running, Status::Normal, Status::Dead];

    /// What `coroutine.status` says.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Status::Suspended => "suspended",
            Status::Running => "running",
            Status::Normal => "normal",
            Status::Dead => "dead",
        }
    }
}

/// A coroutine: a value stack with frames on it, and a native stack only while native frames live in it. The
/// running thread's `base` and `top` are in the `Vm`; they are saved here when it stops running.
#[repr(C)]
pub struct Thread {
    pub(crate) header: Header,
    pub(crate) hook_mask: u8,
    /// Set while a hook runs.
    pub(crate) in_hook: bool,
    /// Suspended by a yield (as against not started yet).
    pub(crate) started: bool,
    /// Distance of the topmost to-be-closed variable from `stack`, in slots; 0: none.
    pub(crate) tbc: u32,
    /// In a buffer: `stack_size` slots.
    pub(crate) stack: *mut Value,
    pub(crate) stack_size: usize,
    pub(crate) base: *mut Value,
    pub(crate) top: *mut Value,
    /// Open upvalues, topmost first.
    pub(crate) open_upvals: *mut Upval,
    /// Who resumed it; null for the main thread and while suspended.
    pub(crate) resumer: *mut Thread,
    /// An owned native stack while a native call lives in this coroutine; null: none. See `native_stack.rs`.
    pub(crate) native_stack: *mut crate::native_stack::NativeStack,
    /// Its status, and what is known as long as it has that.
    pub(crate) standing: crate::standing::Standing,
    pub(crate) hook: Value,
    pub(crate) hook_count: i32,
    pub(crate) hook_left: i32,
    /// The error that killed it, until `coroutine.close` reports it.
    pub(crate) failure: Option<Value>,
    /// Index of the instruction that the last line event was about; where a backward jump is told from.
    pub(crate) hook_pc: i32,
    /// The next instruction is reached by a backward jump: it does not enter the function.
    pub(crate) hook_looped: bool,
    /// While a call or return hook runs: the first of the values passed or returned, as a local variable's
    /// number.
    pub(crate) transfer_first: u32,
    /// How many there are.
    pub(crate) transfer_count: u32,
    /// `Vm::c_calls` of whoever resumed it.
    pub(crate) calls_below: u32,
    /// Distance of the frame from `stack` that called `protected_call` last, in slots: message handlers of it
    /// and below do not see errors. 0: none.
    pub(crate) handler_floor: u32,
    /// While a message handler runs: where the search for it began, and the frame of its `xpcall`, both as
    /// distances from `stack`; 0: none. An error of the handler is looked for a handler from further up, and
    /// need not pass the frames in between again.
    pub(crate) handler_search: (u32, u32),
    /// `Vm::no_yield` while it does not run.
    pub(crate) no_yield: u32,
    /// Native calls nested in this coroutine while it is suspended (the C-stack depth to restore).
    pub(crate) depth: u32,
    /// Calls of `pcall` and `xpcall` that have not returned; each frame of one keeps the number before it in
    /// `shift`.
    pub(crate) pcalls: u32,
    /// One of the calls that count in `no_yield` closes this coroutine's variables; a fiber may wait there
    /// nevertheless.
    pub(crate) closing: bool,
    /// A Lua value may refer to it though it is a fiber's root: `coroutine.running` has told.
    pub(crate) escaped: bool,
    /// Root of a fiber: what is known of that, in an owned box. Null: an ordinary coroutine.
    pub(crate) fiber: *mut crate::fiber::FiberState,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size_of::<Table>(), 64);
        assert_eq!(size_of::<Node>(), 24);
        assert_eq!(size_of::<Upval>(), 32);
        assert_eq!(std::mem::offset_of!(LuaString, data), STRING_DATA);
        assert_eq!(size_of::<LuaClosure>(), 16);
    }
}
