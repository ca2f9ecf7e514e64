//! Values: 16 bytes, payload and tag.
//!
//! A [`Value`] is a `(u64, u8)` pair, which the compiler keeps in two registers and copies with two moves.
//! The tag is stored as one byte on purpose: a copy of payload and tag by one 16-byte move would wait for two
//! narrower stores to leave the store buffer. The seven bytes of padding carry nothing, except in two places
//! that write them raw: frame records (`frame.rs`) and the distance to the previous to-be-closed variable
//! (`close.rs`).
//!
//! # Writing
//! A value in a slot is written whole: by an ordinary assignment, or in place by [`Value::store`] and what
//! stands beside it, which write payload and tag by one move each and leave the padding alone. A payload
//! without its tag is written only by [`Value::store_payload`], which is told the tag that the slot has and
//! checks it in builds with assertions. There is no way to write a tag alone.
//!
//! nil, false and true have one payload, 0, so that values are identical exactly if both words are
//! ([`Value::same`], keys of tables). [`Value::is_canonical`] says so of a value; constructors and stores
//! assert it, and the heap's verifier checks every value that it sees.
//!
//! # Heap references
//! [`Gc<T>`] is a reference to a heap object. The heap does not move objects, so the address is the identity.
//! A `Gc<T>` is valid while the object is reachable for the collector: from a stack slot, from another
//! object, or from a native stack (scanned conservatively). It must not be kept in malloc'd memory (`Vec`,
//! `Box`), which nobody scans. The collector runs only at safepoints: after allocating instructions, and
//! after calls of native functions.

use crate::native::Native;
use crate::object::{LuaClosure, LuaString, NativeClosure, Table, Thread, Userdata};
use crate::shared::SharedRef;
use perilune_heap::{Header, Obj};
use std::marker::PhantomData;
use std::ptr::NonNull;

/// A value's type tag. Tags from [`Tag::STRING`] on are heap objects, whose header's `kind` is the same
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Tag(pub u8);

#[allow(missing_docs)]
impl Tag {
    pub const NIL: Tag = Tag(0);
    pub const FALSE: Tag = Tag(1);
    pub const TRUE: Tag = Tag(2);
    pub const INT: Tag = Tag(3);
    pub const FLOAT: Tag = Tag(4);
    /// A light userdata: an address.
    pub const LIGHT: Tag = Tag(5);
    /// A native function without upvalues: `&'static Native`.
    pub const NATIVE: Tag = Tag(6);
    /// Half of a frame record on the stack; never seen by a program.
    pub const FRAME: Tag = Tag(7);
    /// Where a generic `for` over `next` stands, in place of the nil that was its closing variable
    /// (`interp/loops.rs`). Never seen by a program either; it shares FRAME's number, so that whoever skips
    /// the one skips the other.
    pub(crate) const CURSOR: Tag = Tag::FRAME;
    pub const STRING: Tag = Tag(8);
    pub const TABLE: Tag = Tag(9);
    pub const CLOSURE: Tag = Tag(10);
    pub const NATIVE_CLOSURE: Tag = Tag(11);
    pub const USERDATA: Tag = Tag(12);
    pub const THREAD: Tag = Tag(13);
    /// Kinds that are heap objects but never values.
    pub const PROTO: Tag = Tag(14);
    pub const UPVAL: Tag = Tag(15);
    pub const BUFFER: Tag = Tag(16);
    /// A reference to a shared object (`shared.rs`): a userdata to programs.
    pub const SHARED: Tag = Tag(17);
    /// A function inside an island: a function to programs.
    pub const SHARED_FUNCTION: Tag = Tag(18);

    /// Whether values with this tag are false or true.
    #[inline(always)]
    pub(crate) const fn is_boolean(self) -> bool {
        self.0.wrapping_sub(Tag::FALSE.0) <= Tag::TRUE.0 - Tag::FALSE.0
    }

    /// The basic type of values with this tag.
    pub(crate) const fn type_of(self) -> Type {
        match self {
            Tag::NIL => Type::Nil,
            Tag::FALSE | Tag::TRUE => Type::Boolean,
            Tag::INT | Tag::FLOAT => Type::Number,
            Tag::LIGHT => Type::LightUserdata,
            Tag::STRING => Type::String,
            Tag::TABLE => Type::Table,
            Tag::USERDATA | Tag::SHARED => Type::Userdata,
            Tag::THREAD => Type::Thread,
            _ => Type::Function,
        }
    }
}

/// A Lua value.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Value {
    // Private, so that no code can write one word without the other: see "Writing".
    payload: u64,
    tag: Tag,
    // A value belongs to its domain: what another may have crosses as a parcel.
    _own: PhantomData<*mut ()>,
}

/// The eight basic types of the manual (2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Type {
    Nil,
    Boolean,
    LightUserdata,
    Number,
    String,
    Table,
    Function,
    Userdata,
    Thread,
}

impl Type {
    /// All types, in the order of the enum.
    pub const ALL: [Type; 9] = [
        Type::Nil,
        Type::Boolean,
        Type::LightUserdata,
        Type::Number,
        Type::String,
        Type::Table,
        Type::Function,
        Type::Userdata,
        Type::Thread,
    ];

    /// The name that `type` returns.
    pub const fn name(self) -> &'static str {
        match self {
            Type::Nil => "nil",
            Type::Boolean => "boolean",
            Type::LightUserdata | Type::Userdata => "userdata",
            Type::Number => "number",
            Type::String => "string",
            Type::Table => "table",
            Type::Function => "function",
            Type::Thread => "thread",
        }
    }
}

impl Value {
    /// Where the words of a value lie in it.
    pub(crate) const PAYLOAD_OFFSET: usize = std::mem::offset_of!(Value, payload);
    pub(crate) const TAG_OFFSET: usize = std::mem::offset_of!(Value, tag);
    /// `nil`
    pub const NIL: Value = Value { payload: 0, tag: Tag::NIL, _own: PhantomData };
    /// `true`
    pub const TRUE: Value = Value { payload: 0, tag: Tag::TRUE, _own: PhantomData };
    /// `false`
    pub const FALSE: Value = Value { payload: 0, tag: Tag::FALSE, _own: PhantomData };

    /// A value made of its two words.
    #[inline(always)]
    pub(crate) const fn raw(tag: Tag, payload: u64) -> Value {
        let v = Value { payload, tag, _own: PhantomData };
        debug_assert!(v.is_canonical());
        v
    }
    /// Whether this is the one representation of the value; nil, false and true have payload 0.
    #[inline(always)]
    pub(crate) const fn is_canonical(self) -> bool {
        self.tag.0 > Tag::TRUE.0 || self.payload == 0
    }
    /// The payload, whatever the tag.
    #[inline(always)]
    pub(crate) const fn payload(self) -> u64 {
        self.payload
    }

    /// Writes both words of a value to `slot`, each by its own move; the padding stays as it is.
    ///
    /// # Safety
    /// `slot` is a slot of a stack or an object, which the caller may write.
    #[inline(always)]
    pub(crate) unsafe fn store(slot: *mut Value, tag: Tag, payload: u64) {
        debug_assert!(Value { payload, tag, _own: PhantomData }.is_canonical());
        // SAFETY: the caller's promise.
        unsafe {
            (*slot).payload = payload;
            (*slot).tag = tag;
        }
    }
    /// Writes nil.
    ///
    /// # Safety
    /// As [`Value::store`].
    #[inline(always)]
    pub(crate) unsafe fn store_nil(slot: *mut Value) {
        // SAFETY: the caller's promise.
        unsafe { Value::store(slot, Tag::NIL, 0) }
    }
    /// Writes an integer.
    ///
    /// # Safety
    /// As [`Value::store`].
    #[inline(always)]
    pub(crate) unsafe fn store_int(slot: *mut Value, n: i64) {
        // SAFETY: the caller's promise.
        unsafe { Value::store(slot, Tag::INT, n as u64) }
    }
    /// Writes a float.
    ///
    /// # Safety
    /// As [`Value::store`].
    #[inline(always)]
    pub(crate) unsafe fn store_float(slot: *mut Value, n: f64) {
        // SAFETY: the caller's promise.
        unsafe { Value::store(slot, Tag::FLOAT, n.to_bits()) }
    }
    /// Copies a value from one slot to another.
    ///
    /// # Safety
    /// As [`Value::store`]; `from` may be read.
    #[inline(always)]
    pub(crate) unsafe fn copy(to: *mut Value, from: *const Value) {
        // SAFETY: the caller's promise.
        unsafe { Value::store(to, (*from).tag, (*from).payload) }
    }
    /// Writes another payload to a slot whose tag is known to be `tag`: the state of a loop, a string's twin.
    ///
    /// # Safety
    /// As [`Value::store`]; the slot's tag is `tag`, for which `payload` is right.
    #[inline(always)]
    pub(crate) unsafe fn store_payload(slot: *mut Value, tag: Tag, payload: u64) {
        // SAFETY: the caller's promise.
        unsafe {
            debug_assert!((*slot).tag == tag, "a payload for {tag:?} in a slot with {:?}", (*slot).tag);
            debug_assert!(Value { payload, tag, _own: PhantomData }.is_canonical());
            (*slot).payload = payload;
        }
    }
    /// Where the payload of `slot` lies, for the link of a list of open upvalues, whose words are no value.
    ///
    /// # Safety
    /// `slot` is the `closed` of an open upvalue.
    #[inline(always)]
    pub(crate) unsafe fn link(slot: *mut Value) -> *mut u64 {
        // SAFETY: the caller's promise.
        unsafe { &raw mut (*slot).payload }
    }
    /// An integer.
    #[inline(always)]
    pub const fn int(i: i64) -> Value {
        Value { payload: i as u64, tag: Tag::INT, _own: PhantomData }
    }
    /// A float.
    #[inline(always)]
    pub fn float(f: f64) -> Value {
        Value { payload: f.to_bits(), tag: Tag::FLOAT, _own: PhantomData }
    }
    /// A boolean.
    #[inline(always)]
    pub const fn bool(b: bool) -> Value {
        Value { payload: 0, tag: Tag(1 + b as u8), _own: PhantomData }
    }
    /// A native function without upvalues.
    #[inline]
    pub fn native(n: &'static Native) -> Value {
        Value { payload: n as *const Native as u64, tag: Tag::NATIVE, _own: PhantomData }
    }
    /// A light userdata: an address that means something to whoever made it.
    pub fn light(p: usize) -> Value {
        Value { payload: p as u64, tag: Tag::LIGHT, _own: PhantomData }
    }
    /// The tag.
    #[inline(always)]
    pub const fn tag(self) -> Tag {
        self.tag
    }
    /// Raw identity: same tag and same payload. Floats compare by bits; strings by address.
    #[inline(always)]
    pub fn same(self, o: Value) -> bool {
        self.tag.0 == o.tag.0 && self.payload == o.payload
    }
    /// Is `nil`.
    #[inline(always)]
    pub const fn is_nil(self) -> bool {
        self.tag.0 == 0
    }
    /// Is `false` or `nil`.
    #[inline(always)]
    pub const fn is_falsy(self) -> bool {
        self.tag.0 <= 1
    }
    /// Is neither `false` nor `nil`.
    #[inline(always)]
    pub const fn is_truthy(self) -> bool {
        self.tag.0 > 1
    }
    /// Is an integer (not a float with an integral value).
    #[inline(always)]
    pub fn is_int(self) -> bool {
        self.tag == Tag::INT
    }
    /// Is a float.
    #[inline(always)]
    pub fn is_float(self) -> bool {
        self.tag == Tag::FLOAT
    }
    /// Is a number.
    #[inline(always)]
    pub fn is_number(self) -> bool {
        self.tag == Tag::INT || self.tag == Tag::FLOAT
    }
    /// Is a heap object.
    #[inline(always)]
    pub fn is_collectable(self) -> bool {
        self.tag >= Tag::STRING
    }
    /// Is a function of any kind.
    pub fn is_function(self) -> bool {
        matches!(self.tag, Tag::NATIVE | Tag::CLOSURE | Tag::NATIVE_CLOSURE | Tag::SHARED_FUNCTION)
    }
    /// The integer, if it is one (no conversion).
    #[inline(always)]
    pub fn as_int(self) -> Option<i64> {
        if self.tag == Tag::INT { Some(self.payload as i64) } else { None }
    }
    /// The float, if it is one (no conversion).
    #[inline(always)]
    pub fn as_float(self) -> Option<f64> {
        if self.tag == Tag::FLOAT { Some(f64::from_bits(self.payload)) } else { None }
    }
    /// A number of either kind as a float; strings are not converted.
    #[inline(always)]
    pub fn as_number(self) -> Option<f64> {
        match self.tag {
            Tag::INT => Some(self.payload as i64 as f64),
            Tag::FLOAT => Some(f64::from_bits(self.payload)),
            _ => None,
        }
    }
    /// The payload read as an integer, whatever the tag.
    #[inline(always)]
    pub(crate) fn int_bits(self) -> i64 {
        self.payload as i64
    }
    /// The payload read as a float, whatever the tag.
    #[inline(always)]
    pub(crate) fn float_bits(self) -> f64 {
        f64::from_bits(self.payload)
    }
    /// The string, if it is one (numbers are not converted).
    #[inline(always)]
    pub fn as_string(self) -> Option<Gc<LuaString>> {
        if self.tag == Tag::STRING { Some(self.gc()) } else { None }
    }
    /// The table, if it is one.
    #[inline(always)]
    pub fn as_table(self) -> Option<Gc<Table>> {
        if self.tag == Tag::TABLE { Some(self.gc()) } else { None }
    }
    /// The Lua function, if it is one.
    pub fn as_closure(self) -> Option<Gc<LuaClosure>> {
        if self.tag == Tag::CLOSURE { Some(self.gc()) } else { None }
    }
    /// The native function with upvalues, if it is one.
    #[inline]
    pub fn as_native_closure(self) -> Option<Gc<NativeClosure>> {
        if self.tag == Tag::NATIVE_CLOSURE { Some(self.gc()) } else { None }
    }
    /// The native function, with or without upvalues, if it is one.
    pub fn as_native(self) -> Option<&'static Native> {
        match self.tag {
            // SAFETY: a NATIVE value is only ever made from a `&'static Native`.
            Tag::NATIVE => Some(unsafe { &*(self.payload as *const Native) }),
            Tag::NATIVE_CLOSURE => Some(self.gc::<NativeClosure>().native),
            _ => None,
        }
    }
    /// The integer that a number is: an integer, or a float with an integral value.
    #[inline]
    pub fn as_integral(self) -> Option<i64> {
        match self.tag {
            Tag::INT => Some(self.int_bits()),
            Tag::FLOAT => perilune_syntax::numeral::float_to_integer(self.float_bits()),
            _ => None,
        }
    }
    /// The full userdata, if it is one.
    #[inline]
    pub fn as_userdata(self) -> Option<Gc<Userdata>> {
        if self.tag == Tag::USERDATA { Some(self.gc()) } else { None }
    }
    /// The reference to a shared object, if it is one.
    #[inline(always)]
    pub fn as_shared(self) -> Option<Gc<SharedRef>> {
        if self.tag == Tag::SHARED { Some(self.gc()) } else { None }
    }
    /// The coroutine, if it is one.
    pub fn as_thread(self) -> Option<Gc<Thread>> {
        if self.tag == Tag::THREAD { Some(self.gc()) } else { None }
    }
    /// The payload as a reference; the caller has checked the tag.
    #[inline(always)]
    pub(crate) fn gc<T>(self) -> Gc<T> {
        debug_assert!(self.is_collectable());
        // SAFETY: collectable values are made from non-null references only.
        Gc(unsafe { NonNull::new_unchecked(self.payload as *mut T) })
    }
    /// The heap object behind the value, if there is one.
    #[inline(always)]
    pub(crate) fn obj(self) -> Option<Obj> {
        if self.is_collectable() { Some(self.gc::<Header>().0) } else { None }
    }
    /// The basic type.
    pub fn type_of(self) -> Type {
        self.tag.type_of()
    }
    /// The name that `type` returns for it.
    pub fn type_name(self) -> &'static str {
        self.type_of().name()
    }
    /// What `%p` and `tostring` print: the address of an object, native function or light userdata; `None`
    /// for plain values.
    pub fn address(self) -> Option<usize> {
        match self.tag {
            Tag::LIGHT | Tag::NATIVE => Some(self.payload as usize),
            _ if self.is_collectable() => Some(self.payload as usize),
            _ => None,
        }
    }
}

/// Fails to compile if the type may go to, or be seen by, another thread by itself.
macro_rules! stays_in_its_domain {
    ($($t:ty),*) => {$(const _: () = {
        trait Ambiguous<If> {
            fn check() {}
        }
        struct IfSend;
        struct IfSync;
        impl<T: ?Sized> Ambiguous<()> for T {}
        impl<T: ?Sized + Send> Ambiguous<IfSend> for T {}
        impl<T: ?Sized + Sync> Ambiguous<IfSync> for T {}
        let _ = <$t as Ambiguous<_>>::check;
    };)*};
}
stays_in_its_domain!(Value, Gc<Table>, Gc<LuaString>, crate::Vm);

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.tag {
            Tag::NIL => f.write_str("nil"),
            Tag::FALSE => f.write_str("false"),
            Tag::TRUE => f.write_str("true"),
            Tag::INT => write!(f, "{}", self.payload as i64),
            Tag::FLOAT => write!(f, "{:?}", f64::from_bits(self.payload)),
            Tag::FRAME => write!(f, "frame"),
            Tag::STRING => write!(f, "{:?}", String::from_utf8_lossy(self.gc::<LuaString>().bytes())),
            _ => write!(f, "{}: {:#x}", self.type_name(), self.payload),
        }
    }
}

/// A reference to a heap object of type `T`; see the module's essay for how long it is valid.
#[repr(transparent)]
pub struct Gc<T>(pub(crate) NonNull<T>);

impl<T> Clone for Gc<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Gc<T> {}
impl<T> PartialEq for Gc<T> {
    #[inline(always)]
    fn eq(&self, o: &Self) -> bool {
        self.0 == o.0
    }
}
impl<T> Eq for Gc<T> {}

impl<T> Gc<T> {
    /// The raw pointer, for writes.
    #[inline(always)]
    pub(crate) fn ptr(self) -> *mut T {
        self.0.as_ptr()
    }
    /// The object as the heap sees it.
    #[inline(always)]
    pub(crate) fn obj(self) -> Obj {
        self.0.cast()
    }
    /// The object's address: its identity.
    pub fn address(self) -> usize {
        self.0.as_ptr() as usize
    }
    /// # Safety
    /// `p` is a live object of type `T`.
    #[inline(always)]
    pub(crate) unsafe fn from_ptr(p: *mut T) -> Gc<T> {
        // SAFETY: the caller's promise.
        Gc(unsafe { NonNull::new_unchecked(p) })
    }
}

impl<T> std::ops::Deref for Gc<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: a Gc is held only while its object is reachable (module essay); fields that change under a
        // shared reference are written through `ptr()` by the one thread that owns the heap.
        unsafe { self.0.as_ref() }
    }
}

/// Barriers for objects that a [`Gc`] refers to.
pub(crate) trait Stores {
    /// The barrier for a store into `t` ([`perilune_heap::Heap::barrier`]).
    fn stored_into<T>(&mut self, t: Gc<T>);
}

impl Stores for perilune_heap::Heap {
    #[inline(always)]
    fn stored_into<T>(&mut self, t: Gc<T>) {
        debug_assert!(!perilune_heap::is_island(t.address()), "a store into an island");
        // SAFETY: a Gc is of a live object of its domain, and of a frozen one nothing is written.
        unsafe { self.barrier(t.obj()) }
    }
}

macro_rules! from_gc {
    ($($t:ty => $tag:ident),*) => { $(
        impl From<Gc<$t>> for Value {
            #[inline(always)]
            fn from(g: Gc<$t>) -> Value {
                Value { payload: g.0.as_ptr() as u64, tag: Tag::$tag, _own: PhantomData }
            }
        }
    )* };
}
from_gc!(LuaString => STRING, Table => TABLE, LuaClosure => CLOSURE, NativeClosure => NATIVE_CLOSURE, Userdata => USERDATA, Thread => THREAD, SharedRef => SHARED,
    crate::island::SharedFunction => SHARED_FUNCTION);

impl From<i64> for Value {
    fn from(i: i64) -> Value {
        Value::int(i)
    }
}
impl From<f64> for Value {
    fn from(f: f64) -> Value {
        Value::float(f)
    }
}
impl From<bool> for Value {
    fn from(b: bool) -> Value {
        Value::bool(b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size_of::<Value>(), 16);
        assert_eq!(align_of::<Value>(), 8);
        assert_eq!(size_of::<Option<Gc<Table>>>(), 8);
    }
}
