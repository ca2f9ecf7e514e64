//! Metamethods that are functions of Lua, for machine code that calls them itself.
//!
//! An instruction whose operand has a metamethod is a call of it with the operands, whose result finishes the
//! instruction. Machine code asks a *leaf* (`leaf.rs`) which function the interpreter would call, and calls
//! that as it calls others, in a frame above all registers of its own, whose record says what becomes of the
//! result, as the interpreter's does ([`Ends`]). So whoever meets the frame, an error, a yield, a traceback,
//! cannot tell who has begun it.
//!
//! A leaf answers for functions of the domain's own alone, and where nothing else comes before the
//! metamethod: no conversion, no key that is there, no other table along `__index`. Anything else is the
//! interpreter's.

use crate::Vm;
use crate::frame::{CONT_COMPARE, CONT_DISCARD, CONT_STORE};
use crate::meta::Event;
use crate::object::{LuaClosure, LuaString, STRING_INTERNED, Table};
use crate::shape;
use crate::value::{Gc, Tag, Value};
use perilune_syntax::{Instr, Op};
use std::ptr::null;

/// An operand of an [`Operator`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A register.
    Register(u16),
    /// A constant.
    Constant(u16),
    /// This integer.
    Integer(i64),
}

/// What becomes of the result of a metamethod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Its register is the first that the instruction defines.
    Store,
    /// Whether it is true decides a jump; `negated`: it is made if it is not.
    Jump {
        /// See above.
        negated: bool,
    },
    /// Nothing.
    Discard,
}

impl Ends {
    /// `cont` and `aux` of the frame's record.
    pub(super) fn codes(self) -> (u8, u16) {
        match self {
            Ends::Store => (CONT_STORE, 0),
            Ends::Jump { negated } => (CONT_COMPARE, negated as u16),
            Ends::Discard => (CONT_DISCARD, 0),
        }
    }
}

/// An instruction as an operator of the language: what its metamethod is called, and gets.
#[derive(Clone, Copy, Debug)]
pub struct Operator {
    /// The number of the event, for [`layout::operator_function`](super::layout::operator_function).
    pub event: u8,
    /// The arguments.
    pub operands: [Operand; 2],
    /// What becomes of the result.
    pub ends: Ends,
}

impl Operator {
    /// Whether this is the event of `==`, which asks for metamethods only where two tables are not the same.
    pub fn is_equality(event: u8) -> bool {
        event == Event::Eq as u8
    }

    /// That of an instruction of arithmetic or comparison, of `#`, or of `..` of two operands.
    pub fn of(i: Instr) -> Option<Operator> {
        use Operand::{Constant, Integer, Register};
        let [a, b, c] = [i.a() as u16, i.b(), i.c()];
        let event = |event: Event, operands, ends| Some(Operator { event: event as u8, operands, ends });
        let plain = |e| event(e, [Register(b), Register(c)], Ends::Store);
        let with = |e| {
            let (x, y) = (Register(b), Constant(c));
            event(e, if i.d() == 1 { [y, x] } else { [x, y] }, Ends::Store)
        };
        let unary = |e| event(e, [Register(b), Register(b)], Ends::Store);
        let jump = |e, operands, negated| event(e, operands, Ends::Jump { negated });
        let (two, with_constant) = ([Register(a), Register(b)], [Register(a), Constant(b)]);
        let from_constant = [Constant(b), Register(a)];
        match i.op()? {
            Op::Add => plain(Event::Add),
            Op::Sub => plain(Event::Sub),
            Op::Mul => plain(Event::Mul),
            Op::Div => plain(Event::Div),
            Op::Mod => plain(Event::Mod),
            Op::Pow => plain(Event::Pow),
            Op::IDiv => plain(Event::IDiv),
            Op::BAnd => plain(Event::BAnd),
            Op::BOr => plain(Event::BOr),
            Op::BXor => plain(Event::BXor),
            Op::Shl => plain(Event::Shl),
            Op::Shr => plain(Event::Shr),
            Op::AddK => with(Event::Add),
            Op::SubK => with(Event::Sub),
            Op::MulK => with(Event::Mul),
            Op::DivK => with(Event::Div),
            Op::ModK => with(Event::Mod),
            Op::PowK => with(Event::Pow),
            Op::IDivK => with(Event::IDiv),
            Op::BAndK => with(Event::BAnd),
            Op::BOrK => with(Event::BOr),
            Op::BXorK => with(Event::BXor),
            Op::AddI => {
                let number = c as i16 as i64;
                match i.d() {
                    1 => event(Event::Sub, [Register(b), Integer(-number)], Ends::Store),
                    2 => event(Event::Add, [Integer(number), Register(b)], Ends::Store),
                    _ => event(Event::Add, [Register(b), Integer(number)], Ends::Store),
                }
            }
            Op::Unm => unary(Event::Unm),
            Op::BNot => unary(Event::BNot),
            Op::Len => unary(Event::Len),
            // Of more the interpreter goes on with what a metamethod has given.
            Op::Concat if b == 2 => event(Event::Concat, [Register(a), Register(a + 1)], Ends::Store),
            Op::JumpEq => jump(Event::Eq, two, false),
            Op::JumpNe => jump(Event::Eq, two, true),
            Op::JumpLt => jump(Event::Lt, two, false),
            Op::JumpNotLt => jump(Event::Lt, two, true),
            Op::JumpLe => jump(Event::Le, two, false),
            Op::JumpNotLe => jump(Event::Le, two, true),
            Op::JumpLtK => jump(Event::Lt, with_constant, false),
            Op::JumpNotLtK => jump(Event::Lt, with_constant, true),
            Op::JumpLeK => jump(Event::Le, with_constant, false),
            Op::JumpNotLeK => jump(Event::Le, with_constant, true),
            Op::JumpGtK => jump(Event::Lt, from_constant, false),
            Op::JumpNotGtK => jump(Event::Lt, from_constant, true),
            Op::JumpGeK => jump(Event::Le, from_constant, false),
            Op::JumpNotGeK => jump(Event::Le, from_constant, true),
            _ => None,
        }
    }
}

/// The function itself, if it is one of this domain's.
#[inline(always)]
unsafe fn closure(vm: *mut Vm, f: Value) -> *const LuaClosure {
    // SAFETY: the caller's: a live value, of a state that is there.
    let f = unsafe { *(*vm).own_function_place(&f) };
    if f.tag() == Tag::CLOSURE { f.payload() as *const LuaClosure } else { null() }
}

/// The function that is called for the operator whose event has this number, or null.
pub(super) unsafe extern "C-unwind" fn operator_function(
    vm: *mut Vm,
    event: Event,
    x: *const Value,
    y: *const Value,
) -> *const LuaClosure {
    // SAFETY: called by machine code of the domain that owns the state, with the number of an event of an
    // [`Operator`] and the addresses of two values.
    unsafe {
        let (x, y) = (*x, *y);
        let tables = (x.tag() == Tag::TABLE, y.tag() == Tag::TABLE);
        // Those of objects that are shared are made when they are asked for.
        if tables == (false, false) || x.tag() == Tag::SHARED || y.tag() == Tag::SHARED {
            return null();
        }
        let f = match event {
            Event::Eq => (*vm).eq_metamethod(x, y),
            _ => (*vm).binary_metamethod(event, x, y),
        };
        closure(vm, f)
    }
}

/// The function that is called for a call of the table, or null.
pub(super) unsafe extern "C-unwind" fn call_function(vm: *mut Vm, t: *mut Table) -> *const LuaClosure {
    // SAFETY: called by machine code of the domain that owns the state, for a live table.
    unsafe {
        match (*t).metatable.is_null() {
            true => null(),
            false => closure(vm, (*vm).table_metamethod(Gc::from_ptr((*t).metatable), Event::Call)),
        }
    }
}

/// What a table's metatable has for `event`, if the table has nothing for the key: a function, or null.
#[inline(always)]
unsafe fn for_key(vm: *mut Vm, t: *mut Table, key: *const Value, event: Event) -> *const LuaClosure {
    // SAFETY: the caller's: a live table, and a value.
    unsafe {
        let interned = || (*((*key).payload() as *const LuaString)).header.flags & STRING_INTERNED != 0;
        if (*t).metatable.is_null()
            || (*t).shape == shape::FROZEN_DICT
            || (*key).tag() == Tag::STRING && !interned()
        {
            return null();
        }
        let table = Gc::from_ptr(t);
        let own = match (*key).tag() {
            Tag::STRING => table.get_str((*key).gc()),
            _ => (*vm).raw_get(table, *key),
        };
        if !own.is_nil() {
            return null();
        }
        closure(vm, (*vm).table_metamethod(Gc::from_ptr((*t).metatable), event))
    }
}

/// The function that is called for `table[key]`, or null.
pub(super) unsafe extern "C-unwind" fn index_function(
    vm: *mut Vm,
    t: *mut Table,
    key: *const Value,
) -> *const LuaClosure {
    // SAFETY: called by machine code of the domain that owns the state, for a live table and a register or
    // constant.
    unsafe { for_key(vm, t, key, Event::Index) }
}

/// The function that is called for a store into `table[key]`, or null.
pub(super) unsafe extern "C-unwind" fn new_index_function(
    vm: *mut Vm,
    t: *mut Table,
    key: *const Value,
) -> *const LuaClosure {
    // SAFETY: as above.
    unsafe {
        if Gc::from_ptr(t).is_in_island() {
            return null();
        }
        for_key(vm, t, key, Event::NewIndex)
    }
}
