//! What machine code has to know of layouts: offsets in bytes, and addresses of what it calls. Everything
//! here is taken from the types themselves; `tests` pins what lowering takes for granted beyond that.

use crate::Vm;
use crate::frame::{CALL_GAP, CONT_COMPARE, CONT_DISCARD, CONT_STORE, F_CONT, F_ENTRY, FRAME_SLOTS, Frame};
use crate::interp::ic::Ic;
use crate::object::{LuaClosure, LuaString, NativeClosure, Node, ProtoInst, Table, Thread, Upval};
use crate::shared::SharedRef;
use crate::string::StringTable;
use crate::value::{Gc, Tag, Type, Value};
use perilune_heap::Header;
use perilune_syntax::Instr;
use std::mem::offset_of;

/// Bytes of a register.
pub const VALUE_SIZE: i32 = size_of::<Value>() as i32;
/// From a register to its payload, 8 bytes.
pub const PAYLOAD: i32 = Value::PAYLOAD_OFFSET as i32;
/// From a register to its tag, 1 byte.
pub const TAG: i32 = Value::TAG_OFFSET as i32;
/// From a state to its `base`.
pub const VM_BASE: i32 = offset_of!(Vm, lua.base) as i32;
/// From a state to the address of its interrupt word, 4 bytes: while that is not 0, machine code leaves where
/// it polls.
pub const VM_INTERRUPT: i32 = offset_of!(Vm, lua.interrupt_word) as i32;
/// From a frame's base to the `pc` of its record.
pub const FRAME_PC: i32 = offset_of!(Frame, pc) as i32 - FRAME_SLOTS as i32 * VALUE_SIZE;
/// From a frame's base to its function.
pub const FRAME_FUNCTION: i32 = -(CALL_GAP as i32) * VALUE_SIZE;
/// From a frame's base to the first 8 bytes of its record that are no `pc`: see [`call_word`].
pub const FRAME_CALL: i32 = FRAME_PC + offset_of!(Frame, tag0) as i32;
/// How many values below the base that of the caller is: 4 bytes.
pub const FRAME_DELTA: i32 = FRAME_PC + offset_of!(Frame, delta) as i32;
/// From a frame's base to the flags of its record, 1 byte; if one of [`SLOW_RETURN`] is set, only the
/// interpreter knows how to return.
pub const FRAME_FLAGS: i32 = FRAME_PC + offset_of!(Frame, flags) as i32;
/// See [`FRAME_FLAGS`].
pub const SLOW_RETURN: u8 = crate::frame::F_SLOW_RETURN;
/// From a frame's base to how many results its caller wants, 2 bytes; -1: all, up to the state's top.
pub const FRAME_RESULTS: i32 = FRAME_PC + offset_of!(Frame, nresults) as i32;
/// From a frame's base to the constants in its record.
pub const FRAME_CONSTANTS: i32 = FRAME_PC + offset_of!(Frame, k) as i32;
/// From a frame's base to the second tag of its record, [`FRAME_TAG`].
pub const FRAME_TAG1: i32 = FRAME_PC + offset_of!(Frame, tag1) as i32;
/// See [`FRAME_TAG1`].
pub const FRAME_TAG: Tag = Tag::FRAME;
/// From a frame's base to how many slots it has moved above its extra arguments, 4 bytes, if it has
/// ([`VARARG`]).
pub const FRAME_SHIFT: i32 = FRAME_PC + offset_of!(Frame, shift) as i32;
/// Registers from a function to its base.
pub const GAP: i32 = CALL_GAP as i32;
/// From a state to its top.
pub const VM_TOP: i32 = offset_of!(Vm, lua.top) as i32;
/// From a state to where its stack has to be below.
pub const VM_STACK_LIMIT: i32 = offset_of!(Vm, lua.stack_limit) as i32;
/// From a state to where the native stack pointer has to be above.
pub const VM_NATIVE_LIMIT: i32 = offset_of!(Vm, lua.stacks.running.limit) as i32;
/// From a state to the metatable that all numbers have; null: none.
pub const VM_METATABLE_OF_NUMBERS: i32 =
    (offset_of!(Vm, lua.roots.type_metatables) + Type::Number as usize * size_of::<*mut Table>()) as i32;
/// From a Lua function to its instance.
pub const CLOSURE_INST: i32 = offset_of!(LuaClosure, proto) as i32;
/// From a native function with upvalues to its [`crate::Native`].
pub const CLOSURE_NATIVE: i32 = offset_of!(NativeClosure, native) as i32;
/// From an instance to its prototype, the same for all domains.
pub const INST_PROTO: i32 = offset_of!(ProtoInst, proto) as i32;
/// From an instance to what to call for machine code, a [`crate::machine::Run`]; null: none.
pub const INST_NATIVE: i32 = offset_of!(ProtoInst, native) as i32;
/// From an instance to how many bytes its registers take, 2 bytes.
pub const INST_FRAME_BYTES: i32 = offset_of!(ProtoInst, frame_bytes) as i32;
/// From an instance to how many arguments a call has to have, 1 byte, for nothing to be done for them: if it
/// has fewer, some parameters are nil, or the function wants to know where they end.
pub const INST_TAKES: i32 = offset_of!(ProtoInst, takes) as i32;
/// From an instance to how many parameters it has, 1 byte.
pub const INST_PARAMS: i32 = offset_of!(ProtoInst, num_params) as i32;
/// From an instance to the addresses of the instances of the functions in it, null where there is none yet; null:
/// there are none.
pub const INST_CHILDREN: i32 = offset_of!(ProtoInst, children) as i32;
/// From an instance to the address of its constants.
pub const INST_CONSTANTS: i32 = offset_of!(ProtoInst, k) as i32;
/// From a Lua function to its first upvalue; 8 bytes each.
pub const CLOSURE_UPVALUES: i32 = offset_of!(LuaClosure, upvals) as i32;
/// From an upvalue to the address of its value.
pub const UPVALUE_VALUE: i32 = offset_of!(Upval, v) as i32;
/// From an object to its epoch, 4 bytes. Numbers may be stored into an object whose epoch is below
/// [`WRITABLE`] without asking.
pub const OBJECT_EPOCH: i32 = offset_of!(Header, epoch) as i32;
/// From an object to its flags, 1 byte.
pub const OBJECT_FLAGS: i32 = offset_of!(Header, flags) as i32;
/// Flags of a table of which one is set if its border may not be its length ([`TABLE_LENGTH`]).
pub const BORDER_UNKNOWN: u8 = crate::table::TABLE_HOLES | crate::table::TABLE_INT_NODES;
/// From a state to what traversals remember of storage that is empty to begin with, 8 bytes: 0 forgets it.
pub const VM_DRAINED: i32 = offset_of!(Vm, lua.caches.drained) as i32 + crate::table::Drained::STORAGE;
/// An array of more elements has a tally behind its last one, if it may have holes.
pub const SMALL_ARRAY: usize = crate::table::SMALL_ARRAY;
/// From a tally to how many elements are not nil, 4 bytes.
pub const TALLY_USED: i32 = crate::table::Tally::USED;
/// From a tally to how many have changed from nil or to nil, 4 bytes.
pub const TALLY_CHANGES: i32 = crate::table::Tally::CHANGES;
/// Flag of a table whose border has not been asked for since it last had another size. Who asks a table
/// without [`BORDER_UNKNOWN`] takes it away if the length is more than half of the capacity; no table in an
/// island has it.
pub const UNMEASURED: u8 = crate::table::TABLE_UNMEASURED;
/// Flag of a string that is interned: no other interned string has the same text.
pub const INTERNED: u8 = crate::object::STRING_INTERNED;
/// From a string to its length, 4 bytes.
pub const STRING_LENGTH: i32 = offset_of!(LuaString, len) as i32;
/// From a string to its bytes.
pub const STRING_BYTES: i32 = crate::object::STRING_DATA as i32;
/// See [`OBJECT_EPOCH`].
pub const WRITABLE: u32 = 1 << 30;
/// From a state to the epoch that objects have which may be stored into without asking, whatever is stored, 4
/// bytes.
pub const VM_EPOCH: i32 = offset_of!(Vm, heap) as i32 + perilune_heap::Heap::EPOCH_OFFSET as i32;
/// From a state to the words that say what tables are that are not made, for [`leave`]: so many as
/// [`super::MOST_WORDS`].
pub const VM_WORDS: i32 = offset_of!(Vm, lua.machine.words) as i32;
/// From a state to how many bytes of tables need not be made before [`count_unmade`] is called, 8 bytes with
/// a sign.
pub const VM_UNMADE: i32 = offset_of!(Vm, lua.machine.unmade) as i32;
/// From a state to whether a collection is due, 1 byte: see [`collect`].
pub const VM_DUE: i32 = offset_of!(Vm, heap) as i32 + perilune_heap::Heap::DUE_OFFSET as i32;
/// From a state to the version of what caches take for granted of classes, 4 bytes.
pub const VM_VERSION: i32 = offset_of!(Vm, lua.proto_version) as i32;
/// From a state to its running thread.
pub const VM_THREAD: i32 = offset_of!(Vm, lua.thread) as i32;
/// From a state to how many native calls are nested, 4 bytes: see [`MOST_NESTED`].
pub const VM_NESTED: i32 = offset_of!(Vm, lua.c_calls) as i32;
/// From a thread to how many calls of `pcall` and `xpcall` it is in, 4 bytes. Whoever is in one has counted
/// it, whether there is a record of it yet or not.
pub const THREAD_PCALLS: i32 = offset_of!(Thread, pcalls) as i32;
/// These and nested native calls are fewer together, where `pcall` is called.
pub const MOST_NESTED: u32 = crate::call::MAX_C_CALLS;
/// From a thread to how many of its variables are to be closed, 4 bytes.
pub const THREAD_TO_BE_CLOSED: i32 = offset_of!(Thread, tbc) as i32;
/// From a thread to the uppermost of the upvalues whose variables are on its stack; null: none.
pub const THREAD_OPEN_UPVALUES: i32 = offset_of!(Thread, open_upvals) as i32;
/// From the constants of an instance to its inline cache `d`.
pub const fn cache(d: u16) -> i32 {
    -(size_of::<Ic>() as i32) * (d as i32 + 1)
}
/// From a cache to shape and kind, 4 bytes each.
pub const CACHE_SHAPE: i32 = offset_of!(Ic, shape) as i32;
/// The kind of a cache for a field of a class, in the upper half of the 8 bytes at [`CACHE_SHAPE`]: its place
/// is a node, or a value.
pub const fn cache_of_class(node: bool) -> u64 {
    use crate::interp::ic::{PROTO_NODE, PROTO_SLOT};
    (if node { PROTO_NODE } else { PROTO_SLOT } as u64) << 32
}
/// What a cache for a method of strings has at [`CACHE_SHAPE`], shape and kind in 8 bytes: its place is a
/// node, or a value.
pub const fn cache_of_strings(node: bool) -> u64 {
    use crate::interp::ic::{PROTO_NODE, PROTO_SLOT, STRINGS};
    let kind = if node { PROTO_NODE } else { PROTO_SLOT };
    STRINGS as u64 | (kind as u64) << 32
}
/// Where the addresses of the strings of one byte are, by that byte: 0 until the first is needed, and after
/// its end.
pub const VM_BYTES: i32 = (offset_of!(Vm, lua.interned.strings) + StringTable::SHORT) as i32;
/// What is remembered of fields of records, by shape and name (`interp/ic.rs`).
pub mod fields {
    use super::{Vm, offset_of};
    use crate::interp::ic::SharedCache;

    /// From a state to the address of all that is remembered.
    pub const VM_REMEMBERED: i32 = (offset_of!(Vm, lua.caches.shared) + SharedCache::ENTRIES) as i32;
    /// From there to the first entry.
    pub const FIRST: i32 = SharedCache::OWN as i32;
    /// From an entry to the name, an interned string.
    pub const NAME: i32 = SharedCache::OWN_KEY as i32;
    /// From an entry to the shape, 4 bytes.
    pub const SHAPE: i32 = SharedCache::OWN_SHAPE as i32;
    /// From an entry to the slot that the field has, 4 bytes.
    pub const SLOT: i32 = SharedCache::OWN_SLOT as i32;
    /// This beside the shape: it lacks the field.
    pub const LACKS: u32 = SharedCache::LACKS;
    /// The logarithm of the size of an entry.
    pub const SIZE: u32 = SharedCache::OWN_SIZE;
    /// The shape, shifted by 32, and the address of the name, shifted by [`NAME_SHIFT`] the other way, together,
    /// are multiplied by this; [`COUNT`] bits of that, from [`SHIFT`] on, are the number of the entry.
    pub const FACTOR: u64 = SharedCache::MIX;
    /// See [`FACTOR`].
    pub const NAME_SHIFT: u32 = SharedCache::KEY_SHIFT;
    /// See [`FACTOR`].
    pub const SHIFT: u32 = SharedCache::MIX_SHIFT;
    /// See [`FACTOR`].
    pub const COUNT: u32 = SharedCache::OWN_COUNT;
}
/// From a state to the metatable of strings; null: none.
pub const VM_STRING_METATABLE: i32 = (offset_of!(Vm, lua.roots.type_metatables)
    + crate::value::Type::String as usize * size_of::<*mut Table>())
    as i32;
/// From a cache to the number of the node, 4 bytes.
pub const CACHE_SLOT: i32 = offset_of!(Ic, slot) as i32;
/// From a cache to the version it is valid for, 4 bytes.
pub const CACHE_VERSION: i32 = offset_of!(Ic, aux) as i32;
/// From a cache to the metatable that a table has to have.
pub const CACHE_METATABLE: i32 = offset_of!(Ic, meta) as i32;
/// From a cache to the address of the value.
pub const CACHE_PLACE: i32 = offset_of!(Ic, loc) as i32;
/// Bytes of a node.
pub const NODE_SIZE: i32 = size_of::<Node>() as i32;
/// From a node to the payload of its key.
pub const NODE_KEY: i32 = offset_of!(Node, key) as i32;
/// From a node to the tag of its key, 1 byte.
pub const NODE_KEY_TAG: i32 = offset_of!(Node, key_tag) as i32;
/// What the hash of an object as a key is made with: address, xor its upper half, xor its tag, times this;
/// the upper half of that.
pub const HASH_FACTOR: u64 = crate::table::nodes::HASH_FACTOR;
/// From a node to the payload of its value.
pub const NODE_VALUE: i32 = offset_of!(Node, value) as i32;
/// From a node to the tag of its value, 1 byte.
pub const NODE_VALUE_TAG: i32 = offset_of!(Node, value_tag) as i32;
/// From a node to how many nodes further the next one of its chain is, 4 bytes with a sign; 0: it is the
/// last.
pub const NODE_NEXT: i32 = offset_of!(Node, next) as i32;
/// From a string to its hash, 4 bytes; of one that is interned it is there.
pub const STRING_HASH: i32 = offset_of!(LuaString, hash) as i32;
/// The shape of tables whose string keys are in nodes.
pub const DICTIONARY: u32 = crate::shape::DICT;
/// From a table to its metatable.
pub const TABLE_METATABLE: i32 = offset_of!(Table, metatable) as i32;
/// From a table to the address of its nodes; null: none.
pub const TABLE_NODES: i32 = offset_of!(Table, nodes) as i32;
/// From a table to the logarithm of how many nodes it has, 1 byte.
pub const TABLE_LOG2_NODES: i32 = offset_of!(Table, log2_nodes) as i32;
/// From a table to the number of its shape, 4 bytes.
pub const TABLE_SHAPE: i32 = offset_of!(Table, shape) as i32;
/// From a table to the kind of its array, 1 byte ([`crate::ArrayKind`]).
pub const TABLE_KIND: i32 = offset_of!(Table, kind) as i32;
/// From a table to the address of the values of its shape's fields.
pub const TABLE_SLOTS: i32 = offset_of!(Table, slots) as i32;
/// From a table to the address of its array.
pub const TABLE_ARRAY: i32 = offset_of!(Table, array) as i32;
/// From a table to how many elements of its array may be read without asking, 4 bytes; those of numbers are
/// no nil.
pub const TABLE_LENGTH: i32 = offset_of!(Table, array_len) as i32;
/// From a table to how many elements its array has room for, 4 bytes.
pub const TABLE_ROOM: i32 = offset_of!(Table, array_cap) as i32;
/// From a table to [`TABLE_LENGTH`] and [`TABLE_ROOM`] in one word: the room in its upper half.
pub const TABLE_COUNTS: i32 = TABLE_LENGTH;
const _: () = assert!(TABLE_ROOM == TABLE_LENGTH + 4);
/// From a table to how many fields it has room for, 1 byte.
pub const TABLE_FIELDS: i32 = offset_of!(Table, slot_cap) as i32;
/// From a table that is a metatable to which metamethods it is known not to have, 1 byte: see
/// [`NO_NEWINDEX`].
pub const TABLE_ABSENT: i32 = offset_of!(Table, absent) as i32;
/// The bit at [`TABLE_ABSENT`] of a metatable that has no `__len`.
pub const NO_LEN: u8 = 1 << crate::meta::Event::Len as u8;
/// See [`TABLE_ABSENT`].
pub const NO_NEWINDEX: u8 = 1 << crate::meta::Event::NewIndex as u8;
/// The bits of [`TABLE_ABSENT`] that say that a metatable has neither `__newindex` nor `__gc`: whatever gets
/// it only has it.
pub const PLAIN_METATABLE: u8 = NO_NEWINDEX | 1 << crate::meta::Event::Gc as u8;
/// The bit of [`TABLE_ABSENT`] that says that a metatable has no `__eq`.
pub const NO_EQ: u8 = 1 << crate::meta::Event::Eq as u8;
/// The same of `__pairs`.
pub const NO_PAIRS: u8 = 1 << crate::meta::Event::Pairs as u8;
/// Flag of a table that caches look through.
pub const IS_CLASS: u8 = crate::object::TABLE_IS_PROTO;
/// Bytes of a table without fields and elements.
pub const TABLE_SIZE: i32 = size_of::<Table>() as i32;
/// Flag of a table: elements of its array may be nil.
pub const HOLES: u8 = crate::table::TABLE_HOLES;
/// Flag of a table whose array is shorter than its room says.
pub const SIZE_UNSETTLED: u8 = crate::table::TABLE_YOUNG;

/// From a domain's reference to a shared object to the type of its elements, 1 byte
/// ([`crate::shared::Element`]); 0: it is no array. This and the next two never change.
pub const SHARED_ELEMENT: i32 = offset_of!(SharedRef, element) as i32;
/// From a reference to a shared array to the address of its elements.
pub const SHARED_DATA: i32 = offset_of!(SharedRef, data) as i32;
/// From a reference to a shared array to how many elements it has, 8 bytes; 0 if they may not be got and
/// stored in line, since somebody watches.
pub const SHARED_LENGTH: i32 = offset_of!(SharedRef, len) as i32;

/// What is at [`FRAME_CALL`] of a plain call whose function is in register `a` and whose caller wants so many
/// results.
pub const fn call_word(a: u8, results: i16) -> u64 {
    let delta = a as u64 + CALL_GAP as u64;
    Tag::FRAME.0 as u64 | (results as u16 as u64) << 16 | delta << 32
}

/// What is at [`FRAME_TAG1`], 8 bytes, of a plain call: a tag, and that the frame has not moved.
pub const PLAIN_SECOND_WORD: u64 = Tag::FRAME.0 as u64;

/// The words of the record of a frame that has moved so many slots, above its extra arguments, by what they
/// would be if it had not.
pub const fn moved_words((word, second): (u64, u64), shift: u32) -> (u64, u64) {
    let word = (word + ((shift as u64) << 32)) | ((VARARG as u64) << 8);
    (word, second | (shift as u64) << 32)
}

/// The same as [`call_word`] for the frame of a metamethod, so many slots above that of its caller, and what
/// is at [`FRAME_TAG1`], 8 bytes.
pub fn metamethod_words(ends: super::Ends, delta: u32) -> (u64, u64) {
    let (cont, aux) = ends.codes();
    let tag = Tag::FRAME.0 as u64;
    let word = tag | (crate::frame::F_CONT as u64) << 8 | 1 << 16 | (delta as u64) << 32;
    (word, tag | (cont as u64) << 8 | (aux as u64) << 16)
}

/// The same for the frame of a function that `pcall` or `xpcall` has called, so many slots above the frame of
/// that.
pub fn protected_words(delta: u32) -> (u64, u64) {
    let tag = Tag::FRAME.0 as u64;
    let word = tag | (crate::frame::F_CONT as u64) << 8 | (-1i16 as u16 as u64) << 16 | (delta as u64) << 32;
    (word, tag | (crate::frame::CONT_PCALL as u64) << 8)
}

/// The same for the frame of `pcall` or `xpcall`, so many slots above that of its caller, who wants so many
/// results. The upper half of the second word is to be how many of them the thread was in before.
pub fn pcall_words(delta: u32, results: i16, has_handler: bool) -> (u64, u64) {
    use crate::frame::{F_NATIVE, F_PCALL};
    let tag = Tag::FRAME.0 as u64;
    let word =
        tag | ((F_NATIVE | F_PCALL) as u64) << 8 | (results as u16 as u64) << 16 | (delta as u64) << 32;
    (word, tag | (has_handler as u64) << 16)
}

/// What of the 4 bytes at [`FRAME_CALL`] tells how the frame returns: tag, flags but for [`TAIL_CALLED`],
/// results.
pub const RETURN_MASK: u32 = !((TAIL_CALLED as u32) << 8);

/// What [`RETURN_MASK`] leaves of the 4 bytes at [`FRAME_CALL`] in a frame without flags whose caller wants
/// so many results.
pub const fn return_word(results: i16) -> u32 {
    Tag::FRAME.0 as u32 | (results as u16 as u32) << 16
}

/// The same in a frame of a function that a native has called.
pub const fn return_word_to_native(results: i16) -> u32 {
    return_word(results) | (F_ENTRY as u32) << 8
}

/// What [`RETURN_MASK`] leaves of the 4 bytes at [`FRAME_CALL`] in a frame of a metamethod.
pub const METAMETHOD_RETURN_WORD: u32 = return_word(1) | (F_CONT as u32) << 8;

/// The 2 bytes at [`FRAME_TAG1`] of the frame of a metamethod whose first result goes to the register that the
/// caller's instruction defines: that before its `pc` ([`INSTRUCTION_A`]).
pub const STORES_RESULT: u16 = Tag::FRAME.0 as u16 | (CONT_STORE as u16) << 8;
/// The same where nobody wants results.
pub const DISCARDS_RESULTS: u16 = Tag::FRAME.0 as u16 | (CONT_DISCARD as u16) << 8;

/// The same where the truth of the first result decides a conditional jump of the caller: that before its `pc`,
/// whose distance is [`INSTRUCTION_JUMP`]. The next 2 bytes are 1 if it jumps when the result is false.
pub const DECIDES_JUMP: u16 = Tag::FRAME.0 as u16 | (CONT_COMPARE as u16) << 8;
/// From a frame's base to what is said at [`DECIDES_JUMP`], 2 bytes.
pub const FRAME_NEGATED: i32 = FRAME_PC + offset_of!(Frame, aux) as i32;

/// Bytes of an instruction.
pub const INSTRUCTION_SIZE: i32 = size_of::<Instr>() as i32;
/// From an instruction to the number of the register that it defines, 1 byte.
pub const INSTRUCTION_A: i32 = 1;
/// From an instruction to how many instructions behind the next one it jumps, 4 bytes with a sign.
pub const INSTRUCTION_JUMP: i32 = 4;

/// The bit of what is at [`FRAME_CALL`] that says that the function has replaced another one.
pub const TAIL_CALL: u64 = (TAIL_CALLED as u64) << 8;

/// The address of `fn(vm, event, value, value) -> u64`: the function of Lua that is called for an operator
/// ([`super::Operator::event`]) of two values, given by their addresses, or 0: the interpreter knows.
pub fn operator_function() -> usize {
    super::metamethods::operator_function as *const () as usize
}

/// So many tags are those of values.
const TAGS: usize = Tag::SHARED_FUNCTION.0 as usize + 1;

/// See [`upvalues_of_types`].
static UPVALUES_OF_TYPES: [u16; TAGS] = {
    let mut all = [0; TAGS];
    let mut tag = 0;
    while tag < TAGS {
        let upvalue = Tag(tag as u8).type_of() as usize;
        all[tag] = (offset_of!(NativeClosure, upvals) + upvalue * size_of::<Value>()) as u16;
        tag += 1;
    }
    all
};

/// The address of 2 bytes for each tag: from a native with upvalues to the one that has the number of the
/// type of values with this tag.
pub fn upvalues_of_types() -> usize {
    UPVALUES_OF_TYPES.as_ptr() as usize
}

/// The address of `fn(vm, table) -> u64`: the function of Lua that is called for a call of the table, or 0:
/// there is none, or the interpreter knows.
pub fn call_function() -> usize {
    super::metamethods::call_function as *const () as usize
}

/// The address of `fn(vm, table, key) -> u64`: the function of Lua that is called for an access to a key,
/// given by its address, or 0: there is none, or the interpreter knows.
pub fn index_function() -> usize {
    super::metamethods::index_function as *const () as usize
}

/// The same for a store.
pub fn new_index_function() -> usize {
    super::metamethods::new_index_function as *const () as usize
}

/// The address of the function that does one instruction: `fn(vm, base, constants, pc) -> u64`, all addresses
/// but the result. See [`crate::machine`].
pub fn step() -> usize {
    super::step as *const () as usize
}

/// The address of `fn(vm) -> u64`: the collector hears of tables that were not made, when the word at
/// [`VM_UNMADE`] is below zero.
pub fn count_unmade() -> usize {
    super::leaf::count_unmade as *const () as usize
}

/// The address of `fn(vm, base, point) -> u64`: machine code is left at this [`super::Point`], with all
/// values in their slots, but for the tags that it has. What it answers then.
pub fn leave() -> usize {
    super::points::leave as *const () as usize
}

/// The address of `fn(vm, base, point) -> u64`: does the instruction at this [`super::Point`] by the function
/// that it names, and answers what that does.
pub fn step_at() -> usize {
    super::points::step_at as *const () as usize
}

/// The address of `fn(vm, base, point) -> u64`: writes the records of functions that are built in place at
/// this [`super::Point`]. The base of the innermost.
pub fn write_records() -> usize {
    super::points::write_records as *const () as usize
}

/// The address of the function that does one `CALL` of `pcall`, `coroutine.resume`, `coroutine.yield` or the
/// function of a coroutine, as [`step`] would.
pub fn call_special() -> usize {
    super::call_special as *const () as usize
}

/// As [`call_special`] where it has always been `coroutine.resume`, or functions of coroutines.
pub fn call_resume() -> usize {
    super::call_resume as *const () as usize
}

/// The address of the function that does one `TFORCALL` whose iterator has always been the function of a
/// coroutine, as [`iterate_native`] would.
pub fn iterate_coroutine() -> usize {
    super::iterate_coroutine as *const () as usize
}

/// As [`call_special`] where it has always been `coroutine.yield`.
pub fn call_yield() -> usize {
    super::call_yield as *const () as usize
}

/// The address of the function that does one `CALL` of a native that calls no Lua, as [`step`] would.
pub fn call_native() -> usize {
    super::call_native as *const () as usize
}

/// The address of the function that does one `TFORCALL` of such a native, or of the function of a coroutine,
/// as [`step`] would.
pub fn iterate_native() -> usize {
    super::natives::iterate_native as *const () as usize
}

/// The address of `fn(vm, register, count) -> u64`: so many registers' strings and numbers become one string,
/// in the first; few numbers are among them ([`MOST_CONCATENATED`]). [`super::NOT_DONE`]: the interpreter has
/// to do the instruction.
pub fn concat() -> usize {
    super::natives::concat as *const () as usize
}

/// See [`concat`].
pub const MOST_CONCATENATED: u16 = 8;

/// The address of `fn(register, register) -> u64`: 0, 1 or 2 if the first of two strings comes before the
/// second, is the same, or comes after it. [`super::UNKNOWN`]: they are not both strings.
pub fn order() -> usize {
    super::natives::order as *const () as usize
}

/// The address of the function that does one instruction which ends the frame:
/// `fn(vm, base, constants, pc) -> u64`; the result is that of a [`crate::machine::Run`].
pub fn finish() -> usize {
    super::finish as *const () as usize
}

/// The address of the function that moves a frame above its extra arguments (`VARARGPREP`), whose end is the
/// state's top: `fn(vm, base, constants, pc, registers) -> u64`, the base where it is then, or what machine code
/// returns.
pub fn move_up() -> usize {
    super::move_up as *const () as usize
}

/// The address of the function that acts on [`crate::machine::TAIL`]: `fn(vm, answer) -> u64`; the result is
/// an answer without it.
pub fn follow() -> usize {
    super::follow as *const () as usize
}

/// The address of `fn(vm, instance, frame, end) -> u64`: parameters of the instance's function, whose frame is
/// at `frame`, are nil behind `end`, where its arguments end, and the state's top is where they end then.
pub fn pad() -> usize {
    super::leaf::pad as *const () as usize
}

/// [`store_barrier`] for a field of a table.
pub const FIELD: i64 = -1;
/// [`store_barrier`] for an upvalue.
pub const VARIABLE: i64 = -2;

/// The address of `fn(vm, object, at)`: tells the collector that a reference is stored into an object that
/// does not have the state's epoch and may be written: an element of a table's array (`at`: its number from
/// 0), a [`FIELD`], or the value of an upvalue ([`VARIABLE`]). Nothing is collected, and nothing else runs.
pub fn store_barrier() -> usize {
    unsafe extern "C-unwind" fn store_barrier(vm: *mut Vm, object: *mut u8, at: i64) {
        // SAFETY: called by machine code of the domain that owns the state, for a live object of its heap, of
        // the kind that `at` says.
        unsafe {
            match at {
                FIELD => (*vm).field_barrier_slow(Gc::from_ptr(object.cast())),
                VARIABLE => (*vm).barrier_upvalue(object.cast()),
                at => (*vm).element_barrier_slow(Gc::from_ptr(object.cast()), at as usize),
            }
        }
    }
    store_barrier as *const () as usize
}

/// The address of `fn(string, string) -> bool`: whether two strings, given by their addresses, have the same
/// text.
pub fn same_text() -> usize {
    unsafe extern "C" fn same_text(a: *const LuaString, b: *const LuaString) -> u64 {
        // SAFETY: called by machine code, for live strings.
        unsafe { crate::string::same_text(a, b) as u64 }
    }
    same_text as *const () as usize
}

/// The address of `fn(f64, f64) -> f64`: the remainder of floats (manual 3.4.1).
pub fn float_mod() -> usize {
    extern "C" fn float_mod(a: f64, b: f64) -> f64 {
        crate::num::float_mod(a, b)
    }
    float_mod as *const () as usize
}

/// The address of `fn(f64, f64) -> f64`: powers (manual 3.4.1).
pub fn pow() -> usize {
    extern "C" fn pow(a: f64, b: f64) -> f64 {
        crate::num::pow(a, b)
    }
    pow as *const () as usize
}

/// The address of `fn(vm, table, integer) -> (payload, tag)`: what the table has for the key, tables along
/// its `__index` included. Where the tag is [`super::UNKNOWN`] the interpreter has to do the instruction.
/// Nothing that is known of tables is changed.
pub fn get_int() -> usize {
    super::leaf::get_int as *const () as usize
}

/// The same for the key in a register, of which the third argument is the address.
pub fn get() -> usize {
    super::leaf::get as *const () as usize
}

/// The address of `fn(vm, table, integer, payload, tag) -> u64`: stores a value. [`super::NOT_DONE`]: the
/// interpreter has to do the instruction. Any table's storage may be another one afterwards, and a collection
/// be due.
pub fn set_int() -> usize {
    super::leaf::set_int as *const () as usize
}

/// The same for the key in a register, of which the third argument is the address.
pub fn set() -> usize {
    super::leaf::set as *const () as usize
}

/// As [`set_int`], for a value that is not nil and the key after the last element of a table's array; nothing
/// but arrays is changed.
pub fn append() -> usize {
    super::leaf::append as *const () as usize
}

/// The address of `fn(vm, table) -> u64`: the length of a table without metatable.
pub fn length() -> usize {
    super::leaf::length as *const () as usize
}

/// As [`get`], for a name: a string that is a constant, given by its address.
pub fn get_field() -> usize {
    super::leaf::get_field as *const () as usize
}
/// The address of a nil that is there for ever: what a table without metatable has for a field that it lacks.
pub fn nothing() -> usize {
    struct Nothing(Value);
    // SAFETY: nobody writes it, and nil refers to nothing.
    unsafe impl Sync for Nothing {}
    static NOTHING: Nothing = Nothing(Value::NIL);
    &raw const NOTHING.0 as usize
}
/// As [`get_field`], where tables have always lacked the field, and their classes had it.
pub fn get_inherited() -> usize {
    super::leaf::get_inherited as *const () as usize
}
/// The address of the leaf that finds where a class has a field: of the state, a table, the name, the
/// constants, the number of the cache and [`cache_of_class`]. Its answer is an address, or 0.
pub fn place_in_class() -> usize {
    super::leaf::place_in_class as *const () as usize
}

/// As [`set`], for a name.
pub fn set_field() -> usize {
    super::leaf::set_field as *const () as usize
}

/// The address of `fn(vm, table, fields) -> u64`: where the fields are of a table that may be written, which has
/// room for so many from now on. [`super::NOT_DONE`]: there is no memory.
pub fn make_room() -> usize {
    super::leaf::make_room as *const () as usize
}

/// The address of `fn(vm, shape, fields, elements) -> table`: a new table of a shape that the domain knows,
/// with room for so many fields, which are nil and begin at [`TABLE_SIZE`], and elements.
pub fn new_table() -> usize {
    super::leaf::new_table as *const () as usize
}

/// The address of `fn(vm, shape) -> table`, which does that for so many fields and elements; `None`: there is
/// none for these.
pub fn table_maker(fields: usize, elements: usize) -> Option<usize> {
    super::leaf::table_maker(fields, elements).map(|make| make as *const () as usize)
}

/// The address of `fn(vm, register, count, start) -> u64`: stores so many values, which follow in the next
/// registers, into the table in a register, from index `start + 1` on. [`super::NOT_DONE`]: the interpreter
/// has to do the instruction.
pub fn set_list() -> usize {
    super::leaf::set_list as *const () as usize
}

/// The address of `fn(vm, base, register, number) -> u64`: puts a new function into a
/// register. [`super::NOT_DONE`]: the interpreter has to do the instruction.
pub fn make_closure() -> usize {
    super::leaf::make_closure as *const () as usize
}

/// The address of `fn(vm, instance, upvalues...) -> closure`: a new function of this instance, whose prototype has so
/// many upvalues; `None`: there is none for so many.
pub fn closure_maker(upvalues: usize) -> Option<usize> {
    super::leaf::closure_maker(upvalues)
}

/// The address of `fn(vm, register) -> upvalue`: that of the variable in this register.
pub fn find_upvalue() -> usize {
    super::leaf::find_upvalue as *const () as usize
}

/// The address of `fn(vm, register) -> u64`: variables from this register on are over. [`super::NOT_DONE`]:
/// the interpreter has to do the instruction.
pub fn close() -> usize {
    super::leaf::close as *const () as usize
}

/// The address of `fn(register, register) -> u64`: whether two values are equal, 0 or 1; [`super::UNKNOWN`]:
/// the interpreter has to do the instruction.
pub fn equal() -> usize {
    super::leaf::equal as *const () as usize
}

/// The address of `fn(vm, base, pc, done) -> u64`, to be called if [`VM_DUE`] says so: a step of collection.
/// See `machine/leaf.rs`.
pub fn collect() -> usize {
    super::leaf::collect as *const () as usize
}

/// What the first register of a generic loop is followed by, 3 registers above: where a traversal by `next`
/// stands.
pub const CURSOR: Tag = Tag::CURSOR;
pub use super::iterate::{END, ITEM};

/// The address of `fn(vm, registers, count)`: a step of a generic loop over a table, with `next` or the
/// iterator of `ipairs`, given by the address of its first register. [`ITEM`], [`END`], or else nobody knows,
/// and the interpreter has to do it. Nothing but the loop's registers changes.
pub fn iterate() -> usize {
    super::iterate::iterate as *const () as usize
}

/// Flag of a frame whose function has replaced another one ([`FRAME_FLAGS`]).
pub const TAIL_CALLED: u8 = crate::frame::F_TAIL;
/// Flag of a frame that has moved above its extra arguments.
pub const VARARG: u8 = crate::frame::F_VARARG;

const _: () = assert!(WRITABLE == 1 << 30 && WRITABLE < perilune_heap::FROZEN);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ArrayKind;
    use std::mem::MaybeUninit;

    #[test]
    fn what_lowering_takes_for_granted() {
        assert_eq!(VALUE_SIZE, 16);
        assert_eq!(size_of::<perilune_syntax::Instr>(), 8);
        assert_eq!(FRAME_PC, -32);
        assert_eq!((CACHE_SHAPE, offset_of!(Ic, kind), NODE_SIZE), (0, 4, 24));
        let mut frame = MaybeUninit::<Frame>::zeroed();
        // SAFETY: the words of a record, all of whose fields may be zero.
        let frame = unsafe {
            frame.as_mut_ptr().cast::<u64>().add(1).write(call_word(250, -1));
            frame.assume_init()
        };
        assert_eq!((frame.tag0, frame.flags, frame.nresults, frame.delta), (Tag::FRAME, 0, -1, 253));
        assert_eq!(call_word(250, -1) as u32 & RETURN_MASK, return_word(-1));
        assert_eq!((call_word(3, 2) | TAIL_CALL) as u32 & RETURN_MASK, return_word(2));
        let (word, second) = metamethod_words(crate::machine::Ends::Jump { negated: true }, 7);
        let mut frame = MaybeUninit::<Frame>::zeroed();
        // SAFETY: as above.
        let frame = unsafe {
            frame.as_mut_ptr().cast::<u64>().add(1).write(word | TAIL_CALL);
            frame.as_mut_ptr().cast::<u64>().add(3).write(second);
            frame.assume_init()
        };
        let (word_of_call, second_of_call) = metamethod_words(crate::machine::Ends::Store, 7);
        assert_eq!((word_of_call | TAIL_CALL) as u32 & RETURN_MASK, METAMETHOD_RETURN_WORD);
        assert_eq!(second_of_call as u16, STORES_RESULT);
        assert_eq!(metamethod_words(crate::machine::Ends::Discard, 7).1 as u16, DISCARDS_RESULTS);
        let i = Instr::abcd(perilune_syntax::Op::Move, 0xab, 1, 2, 3);
        assert_eq!(i.0.to_le_bytes()[INSTRUCTION_A as usize], 0xab);
        let i = Instr::absj(perilune_syntax::Op::Jump, 0xab, 1, -3);
        assert_eq!(i.0.to_le_bytes()[INSTRUCTION_JUMP as usize..], (-3i32).to_le_bytes());
        assert_eq!(second as u16, DECIDES_JUMP);
        let flags = crate::frame::F_CONT | crate::frame::F_TAIL;
        assert_eq!((frame.tag0, frame.flags, frame.nresults, frame.delta), (Tag::FRAME, flags, 1, 7));
        assert_eq!((frame.tag1, frame.cont, frame.aux), (Tag::FRAME, crate::frame::CONT_COMPARE, 1));
        let (word, second) = moved_words((call_word(4, 2), PLAIN_SECOND_WORD), 9);
        let mut frame = MaybeUninit::<Frame>::zeroed();
        // SAFETY: as above.
        let frame = unsafe {
            frame.as_mut_ptr().cast::<u64>().add(1).write(word);
            frame.as_mut_ptr().cast::<u64>().add(3).write(second);
            frame.assume_init()
        };
        assert_eq!((frame.tag0, frame.flags, frame.nresults), (Tag::FRAME, VARARG, 2));
        assert_eq!((frame.delta, frame.shift), (7 + 9, 9));
        assert_eq!((frame.tag1, frame.cont, frame.aux), (Tag::FRAME, crate::frame::CONT_NONE, 0));
        assert_eq!((Tag::NIL.0, Tag::FALSE.0), (0, 1));
        assert_eq!(ArrayKind::ALL.map(|k| k as u8), [0, 1, 2, 3]);
    }
}
