//! Which facts there are, and of what.

use super::super::Ty;
use perilune_vm::ArrayKind;

/// Which value it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::lower) enum Name {
    /// The one that an instruction has put into a register.
    Made(u32, u16),
    /// The one that a register has where ways meet before an instruction.
    Met(u32, u16),
    /// The one that a register has in all of a loop, which begins with this instruction.
    Kept(u32, u16),
    /// That of an upvalue of a frame.
    Upvalue(FrameNumber, u16),
    /// That of a global, by the cache of a frame.
    Global(FrameNumber, u16),
    /// What comes from values of other names, by the number of its [`Origin`], and whether an element or a field is
    /// among these (`facts/rows.rs`).
    Derived { number: u32, of_element: bool, of_field: bool },
}

/// Which of the functions it is whose code is built: 0 is the compiled one, the others are inlined.
pub(in crate::lower) type FrameNumber = u16;

impl Name {
    /// What instruction `at` has put into register `r`.
    pub(in crate::lower) fn made(at: usize, r: usize) -> Name {
        Name::Made(at as u32, r as u16)
    }

    /// What register `r` has where ways meet before instruction `at`.
    pub(in crate::lower) fn met(at: usize, r: usize) -> Name {
        Name::Met(at as u32, r as u16)
    }

    /// What register `r` has in all of the loop that begins with instruction `head`.
    pub(in crate::lower) fn kept(head: usize, r: usize) -> Name {
        Name::Kept(head as u32, r as u16)
    }

    /// It is the value of a variable, an element or a field, which may get another one.
    pub(super) fn is_of_variable(self) -> bool {
        match self {
            Name::Upvalue(..) | Name::Global(..) => true,
            Name::Derived { of_element, of_field, .. } => of_element || of_field,
            Name::Made(..) | Name::Met(..) | Name::Kept(..) => false,
        }
    }
}

/// Something that is known. The order is that in which facts can be found out one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::lower) enum Fact {
    /// The stack has room for registers up to this one.
    Room(u16),
    /// The address of the value of an upvalue.
    Upvalue(FrameNumber, u16),
    /// The upvalue is a table: this one.
    UpvalueTable(FrameNumber, u16),
    /// The node of a global, by upvalue, key and cache.
    Global(FrameNumber, u16, u16, u16),
    /// The global is a table: this one.
    GlobalTable(FrameNumber, u16, u16, u16),
    /// A table has an array of this kind: its address and length.
    Array(Name, Kind),
    /// A table has this shape: the address of its fields.
    Slots(Name, u32),
    /// A table has this shape, and in this slot a value of this type: the value.
    Field(Name, u32, u32, Ty),
    /// A table, the first, has this shape, and in this slot the value of the second name. Not hoisted.
    Part(Name, u32, u32, Name),
    /// Numbers may be stored into it without asking.
    Writable(Name),
    /// Anything may be stored into it without telling the collector: it has the epoch of the day. Not
    /// hoisted: a collection ends it.
    Fresh(Name),
    /// A field that it lacks may get a value, and that is nobody's business: its metatable has no
    /// `__newindex`, and it is no class of others. Not hoisted: any function of the runtime may end it
    /// ([`State::forget_extensible`]).
    Extensible(Name),
    /// It has room for so many fields. Not hoisted.
    Fields(Name, u32),
    /// What the cache has holds for the table: the address of the place, a node or a value.
    Class(Name, FrameNumber, u16, bool),
    /// A dictionary has this key in the node that the cache tells: the node.
    Node(Name, FrameNumber, u16, u16),
    /// What a table, the first, has under a key, the second, is in a node: the node, or 0 if it is nobody's
    /// to tell. Not hoisted.
    Entry(Name, Name),
    /// What the cache has holds for strings: the address of the place.
    StringMethod(FrameNumber, u16, bool),
    /// The value is the native at this address.
    Native(Name, usize),
    /// The value is the native at this address, with upvalues.
    NativeClosure(Name, usize),
    /// The value is a function of Lua with this code ([`perilune_vm::machine::Log::function`]): its instance.
    Function(Name, usize),
    /// The value is one of which nothing is known: its payload and tag. Not hoisted, and over with the next
    /// call: it is in a slot as well.
    Held(Name),
    /// The value is a shared array with this type of elements, by number ([`perilune_vm::shared::Element`]):
    /// their address, and how many there are. None of it ever changes.
    Elements(Name, u8),
    /// A table, the first, has a table under a key, the second, in its array of values: that one.
    Element(Name, Name),
    /// The value is a float that has been a key of arrays: the number of the element from 0, which no array has
    /// if it is no integer. Not hoisted.
    Number(Name),
    /// The record of an inlined frame has been written, and where its caller goes on. That lasts as long as the
    /// frame: who would change it leaves the code. Not hoisted.
    Record(FrameNumber),
    /// The record of a frame has a position in its function. Not hoisted.
    Position(FrameNumber),
}

/// An [`ArrayKind`], in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::lower) struct Kind(pub(super) u8);

impl From<ArrayKind> for Kind {
    fn from(kind: ArrayKind) -> Kind {
        Kind(kind as u8)
    }
}

impl Fact {
    /// The value that it is of, if that has a name.
    pub(in crate::lower) fn of(self) -> Option<Name> {
        match self {
            Fact::Array(name, _)
            | Fact::Slots(name, _)
            | Fact::Field(name, ..)
            | Fact::Part(name, ..)
            | Fact::Writable(name)
            | Fact::Fresh(name)
            | Fact::Extensible(name)
            | Fact::Fields(name, _)
            | Fact::Class(name, ..)
            | Fact::Node(name, ..)
            | Fact::Entry(name, _)
            | Fact::Native(name, _)
            | Fact::NativeClosure(name, _)
            | Fact::Function(name, _)
            | Fact::Held(name)
            | Fact::Elements(name, _)
            | Fact::Element(name, _)
            | Fact::Number(name) => Some(name),
            Fact::Room(_)
            | Fact::Upvalue(..)
            | Fact::Global(..)
            | Fact::StringMethod(..)
            | Fact::Record(_)
            | Fact::Position(_) => None,
            Fact::UpvalueTable(frame, n) => Some(Name::Upvalue(frame, n)),
            Fact::GlobalTable(frame, _, _, cache) => Some(Name::Global(frame, cache)),
        }
    }

    /// It is of this value, or of it and another.
    pub(in crate::lower) fn mentions(self, name: Name) -> bool {
        self.any_name(|own| own == name)
    }

    pub(super) fn any_name(self, is_it: impl Fn(Name) -> bool) -> bool {
        let second = match self {
            Fact::Entry(_, second) | Fact::Part(.., second) | Fact::Element(_, second) => Some(second),
            _ => None,
        };
        self.of().is_some_and(&is_it) || second.is_some_and(&is_it)
    }

    /// It can hold of the value of a register of this type.
    pub(in crate::lower) fn suits(self, ty: Ty) -> bool {
        match self {
            Fact::Native(..) | Fact::NativeClosure(..) | Fact::Function(..) => true,
            Fact::Elements(..) | Fact::Held(_) => ty == Ty::Any,
            Fact::Number(_) => ty == Ty::Float,
            _ => ty == Ty::Table,
        }
    }

    /// It is not made true on the ways into a loop.
    pub(super) fn is_momentary(self) -> bool {
        matches!(
            self,
            Fact::Fresh(_)
                | Fact::Extensible(_)
                | Fact::Fields(..)
                | Fact::Part(..)
                | Fact::Held(_)
                | Fact::Entry(..)
                | Fact::Number(_)
                | Fact::Record(_)
                | Fact::Position(_)
        )
    }

    /// Nothing that is done to the value can make it false.
    pub(super) fn is_for_good(self) -> bool {
        matches!(
            self,
            Fact::Native(..)
                | Fact::NativeClosure(..)
                | Fact::Function(..)
                | Fact::Elements(..)
                | Fact::Number(_)
                | Fact::Record(_)
                | Fact::Position(_)
        ) && !self.any_name(Name::is_of_variable)
    }

    /// It is about what belongs to the compiled function itself, and not to one that is inlined.
    pub(in crate::lower) fn is_outer(self) -> bool {
        let frame = match self {
            Fact::Upvalue(frame, _)
            | Fact::UpvalueTable(frame, _)
            | Fact::Global(frame, ..)
            | Fact::GlobalTable(frame, ..)
            | Fact::StringMethod(frame, ..)
            | Fact::Record(frame)
            | Fact::Position(frame)
            | Fact::Node(_, frame, ..)
            | Fact::Class(_, frame, ..) => frame,
            Fact::Room(_)
            | Fact::Array(..)
            | Fact::Slots(..)
            | Fact::Field(..)
            | Fact::Part(..)
            | Fact::Entry(..)
            | Fact::Writable(_)
            | Fact::Fresh(_)
            | Fact::Extensible(_)
            | Fact::Fields(..)
            | Fact::Native(..)
            | Fact::NativeClosure(..)
            | Fact::Function(..)
            | Fact::Held(_)
            | Fact::Elements(..)
            | Fact::Element(..)
            | Fact::Number(_) => 0,
        };
        let of = self.of();
        frame == 0 && !matches!(of, Some(Name::Upvalue(1.., _) | Name::Global(1.., _)))
    }

    /// It is of something derived, or says that an element is there.
    pub(in crate::lower) fn is_of_derived(self) -> bool {
        matches!(self, Fact::Element(..)) || matches!(self.of(), Some(Name::Derived { .. }))
    }

    /// The same of another value.
    pub(super) fn with(self, name: Name) -> Fact {
        match self {
            Fact::Array(_, kind) => Fact::Array(name, kind),
            Fact::Slots(_, shape) => Fact::Slots(name, shape),
            Fact::Field(_, shape, slot, ty) => Fact::Field(name, shape, slot, ty),
            Fact::Part(_, shape, slot, part) => Fact::Part(name, shape, slot, part),
            Fact::Writable(_) => Fact::Writable(name),
            Fact::Fresh(_) => Fact::Fresh(name),
            Fact::Extensible(_) => Fact::Extensible(name),
            Fact::Fields(_, count) => Fact::Fields(name, count),
            Fact::Class(_, frame, cache, node) => Fact::Class(name, frame, cache, node),
            Fact::Node(_, frame, key, cache) => Fact::Node(name, frame, key, cache),
            Fact::Entry(_, key) => Fact::Entry(name, key),
            Fact::Native(_, native) => Fact::Native(name, native),
            Fact::NativeClosure(_, native) => Fact::NativeClosure(name, native),
            Fact::Function(_, function) => Fact::Function(name, function),
            Fact::Held(_) => Fact::Held(name),
            Fact::Elements(_, element) => Fact::Elements(name, element),
            Fact::Element(_, key) => Fact::Element(name, key),
            Fact::Number(_) => Fact::Number(name),
            Fact::Room(_)
            | Fact::Upvalue(..)
            | Fact::Global(..)
            | Fact::UpvalueTable(..)
            | Fact::GlobalTable(..)
            | Fact::StringMethod(..)
            | Fact::Record(_)
            | Fact::Position(_) => self,
        }
    }
}
