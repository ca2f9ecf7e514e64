//! Points of machine code at which somebody may look at its frames: where it is left, and where the
//! interpreter does an instruction of a function that is built in place.
//!
//! What the records of frames have to say there is known when the code is made, and the same each time. So it
//! stands in a [`Point`], and a function writes it ([`leave`], [`step_at`], [`write_records`]): for machine
//! code this is one call with one constant, however deep the functions are built in each other. A fifth of
//! all code was records and tags that were hardly ever written.
//!
//! Rejected: one piece of code for each frame, and way out, that all of its exits jump to. Registers of the
//! processor then hold at all of them what only some need, and the code that runs often has to spare them.

use super::{EXITED, Exits, LEAVE, Reason, layout};
use crate::Vm;
use crate::frame::frame;
use crate::object::{LuaClosure, Table};
use crate::value::{Gc, Tag, Value};
use perilune_syntax::Instr;
use std::sync::Arc;

/// A function that is built in place of its call.
#[derive(Debug)]
pub struct Built {
    /// How many registers its first one is above that of the compiled function.
    pub window: u32,
    /// The same of the function that calls it.
    pub caller: u32,
    /// The address of the instruction behind the call.
    pub after: usize,
    /// What its record says ([`layout::call_word`], [`layout::metamethod_words`], [`layout::moved_words`]).
    pub words: (u64, u64),
    /// The call of `pcall` or `xpcall` that has called it.
    pub protected: Option<Protected>,
}

/// A call of `pcall` or `xpcall` whose function is built in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protected {
    /// How many registers the first one of its frame is above that of the compiled function.
    pub window: u32,
    /// What its record says ([`layout::pcall_words`]).
    pub words: (u64, u64),
}

/// So many words say what tables are that have not been made, at most, of all of them together.
pub const MOST_WORDS: usize = 48;

/// Where machine code stores what tables are that have not been made ([`layout::VM_WORDS`]), for as long as
/// it takes to leave it.
pub(crate) type Words = [u64; MOST_WORDS];

/// The number of one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word(pub u8);

/// A table that machine code has not made, because nobody could look at it. Where the code is left it is
/// made.
#[derive(Clone, Debug)]
pub struct Unmade {
    /// Its shape, which the domain knows.
    pub shape: u32,
    /// For how many fields, and for how many elements, it has room.
    pub room: [u8; 2],
    /// Values of fields that are not nil: which one, where the payload is, and what the tag is, or where that
    /// is.
    pub fields: Vec<(u8, Word, Result<Tag, Word>)>,
    /// Its elements from 1 on, none of them nil, in the same way: as many as it has room for, or none.
    pub elements: Vec<(Word, Result<Tag, Word>)>,
    /// Where the address of its metatable is, which asks for nothing but being stored.
    pub metatable: Option<Word>,
    /// The registers that have it.
    pub registers: Vec<u8>,
}

impl Unmade {
    /// Makes the table, and puts it into all registers that have it.
    ///
    /// # Safety
    /// As [`leave`]; machine code has stored the words.
    unsafe fn make(&self, vm: *mut Vm, base: *mut Value) {
        // SAFETY: the caller's promise; a leaf allocates without collecting, so what the words refer to is
        // alive.
        unsafe {
            let [fields, elements] = self.room.map(usize::from);
            let table = (*vm).alloc_table(self.shape, fields, elements).ptr();
            let word = |word: Word| (*vm).lua.machine.words[word.0 as usize];
            let tag_of = |tag: Result<Tag, Word>| tag.unwrap_or_else(|at| Tag(word(at) as u8));
            for (n, payload, tag) in &self.fields {
                Value::store((*table).slots.add(*n as usize), tag_of(*tag), word(*payload));
            }
            if !self.elements.is_empty() {
                let mut values = [Value::NIL; MOST_WORDS];
                for (value, (payload, tag)) in values.iter_mut().zip(&self.elements) {
                    Value::store(value, tag_of(*tag), word(*payload));
                }
                let values = &values[..self.elements.len()];
                let stored = (*vm).raw_set_list(Gc::from_ptr(table), 1, values);
                assert!(stored.is_ok(), "a new table has room for what it has been made for");
            }
            if let Some(metatable) = self.metatable {
                (*table).metatable = word(metatable) as *mut Table;
            }
            for r in &self.registers {
                Value::store(base.add(*r as usize), Tag::TABLE, table as u64);
            }
        }
    }
}

/// Where machine code may be looked at. It belongs to the code, which has its address.
#[derive(Debug)]
pub struct Point {
    /// The address of the instruction that the innermost function is at.
    pub pc: usize,
    /// The functions that are built in each other there, from the innermost out.
    pub built: Vec<Built>,
    /// Where an exit is counted: of which function it was, with the instruction and the reason, and of which
    /// the code is. `None`: it is left because somebody has asked.
    pub counts: Option<(Arc<Exits>, usize, Reason, Arc<Exits>)>,
    /// What does the instruction, for [`step_at`]; 0: nothing does.
    pub does: usize,
    /// Tables that are not made when it comes to [`leave`].
    pub unmade: Vec<Unmade>,
    /// Registers whose payloads machine code has stored when it comes to [`leave`], and which have these
    /// tags. `None`: a number of either kind; the payload is that of the float that is just the number, the
    /// tag is there, too.
    pub tags: Vec<(u8, Option<Tag>)>,
}

impl Point {
    /// Writes all records of functions that are built in place, down to the innermost, whose position is
    /// missing. Where its frame is.
    ///
    /// # Safety
    /// `vm` is the state that runs; `base` is that of a frame of the function whose code this belongs to,
    /// with the functions that are built in it where their frames have theirs.
    unsafe fn write_records(&self, vm: *mut Vm, base: *mut Value) -> *mut Value {
        // SAFETY: the caller's promise: the windows are within the stack, and each has its function below it.
        unsafe {
            let mut nested = (*(*vm).lua.thread).pcalls;
            for Built { window, caller, after, words, protected } in &self.built {
                (*frame(base.add(*caller as usize))).pc = *after as *const Instr;
                let own = base.add(*window as usize);
                let closure = (*own.sub(layout::GAP as usize)).payload() as *const LuaClosure;
                let own = own.cast::<u8>();
                let at = |part: i32| own.offset(part as isize);
                at(layout::FRAME_CALL).cast::<u64>().write(words.0);
                at(layout::FRAME_CONSTANTS).cast::<*const Value>().write((*(*closure).proto).k);
                at(layout::FRAME_TAG1).cast::<u64>().write(words.1);
                if let Some(Protected { window, words }) = protected {
                    // Each of them has been counted where it began.
                    nested -= 1;
                    let own = base.add(*window as usize).cast::<u8>();
                    let at = |part: i32| own.offset(part as isize);
                    at(layout::FRAME_PC).cast::<u64>().write(0);
                    at(layout::FRAME_CALL).cast::<u64>().write(words.0);
                    at(layout::FRAME_CONSTANTS).cast::<u64>().write(0);
                    at(layout::FRAME_TAG1).cast::<u64>().write(words.1 | (nested as u64) << 32);
                }
            }
            base.add(self.built.first().map_or(0, |innermost| innermost.window as usize))
        }
    }
}

/// For machine code: all records are as the functions' callers would have written them.
///
/// # Safety
/// As [`leave`].
pub(crate) unsafe extern "C-unwind" fn write_records(
    vm: *mut Vm,
    base: *mut Value,
    point: *const Point,
) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { (*point).write_records(vm, base) as u64 }
}

/// For machine code: it is left at this point. Its answer.
///
/// # Safety
/// Called by machine code for its frame, with a point of its own, and all values in their slots, but for tags
/// that the point has, and tables that are not made, of which it has stored what they are.
pub(crate) unsafe extern "C-unwind" fn leave(vm: *mut Vm, base: *mut Value, point: *const Point) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        let point = &*point;
        point.unmade.iter().for_each(|unmade| unmade.make(vm, base));
        for (r, tag) in &point.tags {
            let slot = base.add(*r as usize);
            let tag_at = slot.byte_add(Value::TAG_OFFSET).cast::<Tag>();
            match tag {
                Some(tag) => tag_at.write(*tag),
                None if *tag_at == Tag::INT => {
                    Value::store_int(slot, f64::from_bits((*slot).payload()) as i64);
                }
                None => {}
            }
        }
        let own = point.write_records(vm, base);
        (*frame(own)).pc = point.pc as *const Instr;
        (*vm).lua.base = own;
        match &point.counts {
            None => LEAVE,
            Some((exits, at, reason, code)) => {
                let times = exits.count(*at, *reason, code);
                (*vm).lua.machine.left = (Arc::as_ptr(code), times);
                EXITED
            }
        }
    }
}

/// For machine code: does the instruction at this point, as the function does that it names.
///
/// # Safety
/// As [`leave`], and the point names a function that does it.
pub(crate) unsafe extern "C-unwind" fn step_at(vm: *mut Vm, base: *mut Value, point: *const Point) -> u64 {
    type Does = unsafe extern "C-unwind" fn(*mut Vm, *mut Value, *const Value, *const Instr) -> u64;
    // SAFETY: the caller's promise; the functions that do instructions have this type (`layout::step`).
    unsafe {
        let point = &*point;
        let own = point.write_records(vm, base);
        let does = std::mem::transmute::<*const (), Does>(point.does as *const ());
        does(vm, own, (*frame(own)).k, point.pc as *const Instr)
    }
}
