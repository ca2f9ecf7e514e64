//! Tables that are not made before somebody may look at them.
//!
//! `a + b * k` on vectors makes a vector that nobody has but the next operation, built in place. Of such a
//! table it is known which fields it has, and these are values like others, in registers of the processor; it
//! is in no slot, has no address, and costs nothing. So are the elements that its constructor has told, of
//! which none is nil (`lists.rs`). It is *made* as soon as it has to be somewhere: where it is stored, passed
//! to what is not built in place, where something is done that may look at the frame, where ways meet that do
//! not agree on it. Then all registers that have it get the same one. Where code is left, the exit makes it
//! ([`perilune_vm::machine::Unmade`]): it stores what its parts are made of, and the function that leaves
//! does the rest. So a program cannot tell, but by how much memory it takes.
//!
//! # Rules
//! * A register that has one is of type [`Ty::Unmade`], and dirty. What it is, the state has under the
//!   register's name ([`super::State::unmade`]); its fields are in variables of that name. All registers of
//!   one name have one table.
//! * Only the instructions in [`Lowering::with_unmade`] know of them. For all others what they read is made
//!   first, on the one way that leads there.
//! * The collector hears of its bytes, as if it had been made: `repeat local t = {} until finished` has to
//!   come to an end.
//! * It is made by a leaf, which does not collect. A collection that is due comes where the instruction is
//!   that would have made it; if others are waiting there, the code is left for it. So no collection ever
//!   happens while one is not made, and what its fields refer to need not be anywhere else.
//! * Where ways meet, all have to agree on what it is; where a loop begins there are none.
//!
//! Rejected: *an analysis before the pass, which says of each table whether it escapes*: nearly all do, on
//! some way that is hardly ever taken. *Tables without a slot in frames that others may look at*, made when
//! asked for: a debugger, a collector and each native would have to know of them.

use super::exits::Exit;
use super::facts::{Fact, Name};
use super::stores::Stored;
use super::{EXITED, Known, Lowering, Register, Ty, lists};
use crate::live;
use crate::places::Built;
use crate::report;
use crate::ssa::{Block, IntCC, Type, Value, Variable};
use perilune_syntax::bytecode::RK_CONST;
use perilune_syntax::operands::Registers;
use perilune_syntax::{Constant, Op};
use perilune_vm::machine::{self, Cache, Operand, Operator, Path, Word, layout};
use perilune_vm::{ArrayKind, Intrinsic, Tag};
use std::collections::BTreeMap;

/// A table of more fields and elements is made at once.
const MOST_FIELDS: usize = 8;

/// The first of its elements is kept with its fields, under this number.
const ELEMENTS: usize = 1 << 16;

/// Its metatable is kept with its fields, under this number.
const METATABLE: usize = usize::MAX;

/// A table that is not made.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Unmade {
    shape: u32,
    /// What is known of the values of all fields that it has room for.
    fields: Vec<Part>,
    /// The elements that its constructor has told, none of which is nil; none before that. Of which kind its
    /// array is can be told by them ([`lists::kind_of`]).
    elements: Vec<Part>,
    /// For how many it has room.
    room: usize,
    /// It has a metatable, which asked for nothing but what a look at the fields shows when it became that.
    has_metatable: bool,
}

/// The tag of a field's value; `None`: it is found out where the code runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Part(Option<Tag>);

impl Part {
    const NIL: Part = Part(Some(Tag::NIL));
}

/// One that an exit makes: its name, what it is, and which registers have it.
pub(super) type Waiting = (Name, Unmade, Vec<u8>);

impl Unmade {
    /// How many words say what it is, at most.
    fn words(&self) -> usize {
        2 * (self.fields.len() + self.room) + 1
    }

    /// What is known of part `n`.
    fn part(&mut self, n: usize) -> &mut Part {
        match n.checked_sub(ELEMENTS) {
            Some(n) => &mut self.elements[n],
            None => &mut self.fields[n],
        }
    }

    /// Of which kind its array is if element `n` has this tag, if that can be told.
    fn kind_with(&self, n: usize, tag: Option<Tag>) -> Option<ArrayKind> {
        let mut tags: Vec<_> = self.elements.iter().map(|part| part.0).collect();
        tags[n] = tag;
        lists::kind_of(&tags)
    }
}

impl Lowering<'_, '_> {
    /// What register `r` has, if that is not made.
    fn unmade_in(&self, r: usize) -> Option<(Name, Unmade)> {
        let now = self.now.as_ref().filter(|now| now.registers[r].ty == Ty::Unmade)?;
        let name = now.names[r];
        Some((name, now.unmade[&name].clone()))
    }

    fn is_unmade(&self, r: usize) -> bool {
        self.ty(r) == Ty::Unmade
    }

    /// Whether there is a table that is not made.
    pub(super) fn has_unmade(&self) -> bool {
        let has = |register: &Register| register.ty == Ty::Unmade;
        self.now.as_ref().is_some_and(|now| !now.unmade.is_empty() && now.registers.iter().any(has))
    }

    /// Whether a table with room for so many fields and elements, which instruction `at` would make, may be
    /// made later.
    pub(super) fn may_wait(&self, at: usize, parts: usize) -> bool {
        let a = self.code(at).a();
        // What is made soon after all would only make each exit until then larger.
        let made = self.made_before.get(&at).copied().unwrap_or(0);
        if 2 * made > self.times(at) {
            return false;
        }
        parts <= MOST_FIELDS && !self.captured.contains(a) && self.has_words_for(2 * parts + 1)
    }

    /// How often the log has seen the instruction of the compiled function that the place belongs to, or the
    /// call in whose place it is built.
    fn times(&self, place: usize) -> u64 {
        let mut frame = &self.frames[self.frame_of(place) as usize];
        let mut place = place;
        while let Some(call) = frame.call {
            (place, frame) = (call, &self.frames[frame.caller as usize]);
        }
        frame.log.site(place.min(frame.log.proto().code.len() - 1)).times() as u64
    }

    /// What instruction `at` would make is not made yet.
    pub(super) fn postpone(&mut self, at: usize, shape: u32, fields: usize, room: usize) {
        let a = self.code(at).a() as usize;
        let fields = vec![Part::NIL; fields];
        let unmade = Unmade { shape, fields, elements: Vec::new(), room, has_metatable: false };
        self.postponed.entry(at).or_insert(None);
        let slot = self.register(a).map_or(Ty::Any, |own| own.slot);
        self.set(a, Register { ty: Ty::Unmade, slot, dirty: true });
        self.renew(a);
        let name = self.name_of(a);
        if let Some(now) = &mut self.now {
            now.unmade.insert(name, unmade);
        }
    }

    /// So many bytes are not allocated.
    pub(super) fn count_unmade(&mut self, bytes: i32) {
        let vm = self.vm;
        let left = self.load(Type::I64, vm, layout::VM_UNMADE);
        let left = self.iadd_imm(left, -bytes as i64);
        self.store(left, vm, layout::VM_UNMADE);
        let more = self.icmp_imm(IntCC::SignedGreaterThanOrEqual, left, 0);
        let (on, tell) = (self.b.create_block(), self.cold_block(0));
        self.b.brif(more, on, &[], tell, &[]);
        self.go_to(tell);
        let vm = self.copied(vm);
        self.leaf(layout::count_unmade(), &[vm]);
        self.b.jump(on, &[]);
        self.go_to(on);
    }

    /// An exit could say what there is, and so many words more.
    fn has_words_for(&self, more: usize) -> bool {
        let own = self.now.iter().flat_map(|now| now.unmade.values());
        own.map(Unmade::words).sum::<usize>() + more <= machine::MOST_WORDS
    }

    /// Lowers instruction `at` if it does something with a table that is not made. If not: those that it
    /// reads are made, unless it passes them on.
    pub(super) fn with_unmade(&mut self, at: usize, op: Op) -> bool {
        if !self.has_unmade() {
            return false;
        }
        let i = self.code(at);
        let [a, b] = [i.a() as usize, i.b() as usize];
        if !self.is_suspect(at) {
            let done = match op {
                Op::GetField if self.is_unmade(b) => self.get_from_unmade(at, b),
                Op::SelfCall if self.is_unmade(b) => self.method_of_unmade(at),
                Op::SetField if self.is_unmade(a) => self.set_in_unmade(at),
                Op::SetSlot if self.is_unmade(a) => self.set_slot_of_unmade(at),
                Op::SetList if self.is_unmade(a) => self.list_of_unmade(at),
                Op::GetInt if self.is_unmade(b) => self.get_element_of_unmade(at),
                Op::SetInt if self.is_unmade(a) => self.set_element_of_unmade(at),
                Op::Len if self.is_unmade(b) => self.length_of_unmade(at),
                _ => self.operator_of_unmade(at),
            };
            if done {
                return true;
            }
        }
        let passes_on = match op {
            Op::Move | Op::JumpIf | Op::JumpIfNot | Op::JumpIfSet | Op::JumpIfNotSet | Op::Not => true,
            Op::JumpEqK | Op::JumpNeK => {
                matches!(self.proto.constants[b], Constant::Nil | Constant::Boolean(_))
            }
            Op::Call => self.site(at).calls > 0 || self.sets_metatable(at),
            Op::TailCall => self.frame != 0 && (self.site(at).callee != 0 || self.sets_metatable(at)),
            Op::Return | Op::Return1 => self.frame != 0,
            _ => false,
        };
        if !passes_on {
            self.make_all_of(live::read(i));
        }
        false
    }

    fn sets_metatable(&self, at: usize) -> bool {
        let native = self.site(at).native;
        native.is_some_and(|native| matches!(native.intrinsic, Some(Intrinsic::SetMetatable)))
    }

    fn make_all_of(&mut self, registers: Registers) {
        for r in (0..self.registers()).filter(|r| registers.contains(*r as u8)) {
            self.make_in(r);
        }
    }

    /// All tables are made.
    pub(super) fn make_all(&mut self) {
        self.make_all_of(Registers::from(0));
    }

    /// What register `r` has is made.
    pub(super) fn make_in(&mut self, r: usize) {
        if let Some((name, unmade)) = self.unmade_in(r) {
            self.make(name, &unmade);
        }
    }

    /// Makes the table: all registers that have it get the same one.
    fn make(&mut self, name: Name, unmade: &Unmade) {
        let table = self.allocate(unmade.shape, unmade.fields.len(), unmade.room);
        for (n, part) in unmade.fields.iter().enumerate().filter(|(_, part)| **part != Part::NIL) {
            let stored = self.part(name, n, *part);
            self.store_stored(&stored, table, layout::TABLE_SIZE + Self::slot(n));
        }
        let tags: Vec<_> = unmade.elements.iter().map(|part| part.0).collect();
        if !tags.is_empty() {
            let kind = lists::kind_of(&tags).expect("it can be told");
            let parts = unmade.elements.iter().enumerate();
            let stored: Vec<_> = parts.map(|(n, part)| self.part(name, ELEMENTS + n, *part)).collect();
            self.store_list(table, kind, &stored);
        }
        if unmade.has_metatable {
            let metatable = self.metatable_of(name);
            self.store(metatable, table, layout::TABLE_METATABLE);
        }
        if let Name::Made(at, _) = name {
            let at = at as usize;
            self.postponed.insert(at, Some(self.at));
            if !self.made_before.contains_key(&at) {
                *self.made.entry(at).or_insert(0) += self.times(self.at);
            }
        }
        let now = self.now.as_mut().expect("it is known here");
        now.unmade.remove(&name);
        let holders: Vec<usize> = (0..now.names.len())
            .filter(|&r| now.names[r] == name && now.registers[r].ty == Ty::Unmade)
            .collect();
        for r in holders {
            let slot = self.register(r).map_or(Ty::Any, |own| own.slot);
            self.hold(r, Known { ty: Ty::Table, val: table }, Register { ty: Ty::Table, slot, dirty: true });
        }
        self.is_fresh(name, table, (unmade.shape, unmade.fields.len()));
    }

    /// Register `a` has what register `b` has, which is not made, unless functions may look at the variable.
    pub(super) fn share(&mut self, a: usize, b: usize) {
        if self.captured.contains(a as u8) {
            self.make_in(b);
            return self.copy_known(a, b);
        }
        let (name, slot) = (self.name_of(b), self.register(a).map_or(Ty::Any, |own| own.slot));
        self.set(a, Register { ty: Ty::Unmade, slot, dirty: true });
        self.is_copy(a, name);
    }

    // -- Its parts ------------------------------------------------------------------------------------------

    /// Where a part is: a word or a reference; a float; the tag.
    fn part_variables(&mut self, name: Name, n: usize) -> [Variable; 3] {
        let b = &mut *self.b;
        let all = [Type::I64, Type::F64, Type::I8];
        *self.parts.entry((name, n)).or_insert_with(|| all.map(|ty| b.declare_var(ty)))
    }

    /// The value of part `n`: a field, or an element, which are behind [`ELEMENTS`].
    fn part(&mut self, name: Name, n: usize, part: Part) -> Stored {
        let [word, float, tag] = self.part_variables(name, n);
        let payload = match part.0 {
            Some(Tag::NIL) => self.b.iconst(Type::I64, 0),
            Some(Tag::FLOAT) => self.b.use_var(float),
            _ => self.b.use_var(word),
        };
        let tag = match part.0 {
            Some(tag) => self.b.iconst(Type::I8, tag.0 as i64),
            None => self.b.use_var(tag),
        };
        Stored { payload, tag, known: part.0 }
    }

    /// Part `n` gets this value.
    fn set_part(&mut self, name: Name, n: usize, stored: &Stored) {
        let [word, float, tag] = self.part_variables(name, n);
        match stored.known {
            Some(Tag::NIL) => {}
            Some(Tag::FLOAT) => self.b.def_var(float, stored.payload),
            Some(_) => self.b.def_var(word, stored.payload),
            None => {
                self.b.def_var(word, stored.payload);
                self.b.def_var(tag, stored.tag);
            }
        }
        if let Some(unmade) = self.now.as_mut().and_then(|now| now.unmade.get_mut(&name)) {
            *unmade.part(n) = Part(stored.known);
        }
    }

    fn metatable_of(&mut self, name: Name) -> Value {
        let [word, ..] = self.part_variables(name, METATABLE);
        self.b.use_var(word)
    }

    /// What register `r` has, which is not made, gets a metatable.
    pub(super) fn set_metatable_of_unmade(&mut self, name: Name, metatable: Value) {
        let [word, ..] = self.part_variables(name, METATABLE);
        self.b.def_var(word, metatable);
        if let Some(now) = &mut self.now {
            now.facts.retain(|fact| !matches!(fact, Fact::Class(of, ..) if *of == name));
            if let Some(unmade) = now.unmade.get_mut(&name) {
                unmade.has_metatable = true;
            }
        }
    }

    /// The name of the table in register `r` if it is not made, and has no metatable.
    pub(super) fn unmade_without_metatable(&self, r: usize) -> Option<Name> {
        self.unmade_in(r).filter(|(_, unmade)| !unmade.has_metatable).map(|(name, _)| name)
    }

    /// The metatable of the table in register `r` if that is not made, and has one.
    pub(super) fn metatable_of_unmade(&mut self, r: usize) -> Option<Value> {
        let (name, _) = self.unmade_in(r).filter(|(_, unmade)| unmade.has_metatable)?;
        Some(self.metatable_of(name))
    }

    /// What operand `x` stands for, as the value of a field; `None`: nil.
    fn operand_for_part(&mut self, x: u16) -> Option<Stored> {
        if x & RK_CONST == 0 {
            self.make_in(x as usize);
        }
        self.stored(x)
    }

    // -- What is done with it -------------------------------------------------------------------------------

    /// `SETSLOT`.
    fn set_slot_of_unmade(&mut self, at: usize) -> bool {
        let i = self.code(at);
        let Some((name, unmade)) = self.unmade_in(i.a() as usize) else { return false };
        let n = i.b() as usize;
        if n >= unmade.fields.len() {
            return false;
        }
        if i.c() & RK_CONST == 0 {
            self.make_in(i.c() as usize);
        }
        let stored = self.stored_or_nil(i.c());
        self.set_part(name, n, &stored);
        true
    }

    /// In which slot a table of this shape has the field of instruction `at`.
    fn slot_in(&self, at: usize, shape: u32) -> Option<usize> {
        let site = self.site(at);
        let known = match site.cache {
            Some(Cache::Own { shape: own, slot }) if own == shape => Some(slot),
            _ => site.fields.own().iter().find(|(own, _)| *own == shape).map(|(_, slot)| *slot),
        };
        known.map(|slot| slot as usize)
    }

    /// `GETFIELD`, or the method of `SELF`, of the table in register `b`.
    fn get_from_unmade(&mut self, at: usize, b: usize) -> bool {
        let Some((name, unmade)) = self.unmade_in(b) else { return false };
        let a = self.code(at).a() as usize;
        let Some(n) = self.slot_in(at, unmade.shape).filter(|n| *n < unmade.fields.len()) else {
            return self.inherit(at, name, &unmade);
        };
        let part = unmade.fields[n];
        if part == Part::NIL && unmade.has_metatable {
            return false;
        }
        let stored = self.part(name, n, part);
        if stored.known.is_none() && unmade.has_metatable {
            let exit = self.exit_block(at, EXITED);
            self.is_something(&stored, exit);
        }
        self.give_part(at, a, &stored);
        true
    }

    /// A part becomes register `a`, the result of instruction `at`.
    fn give_part(&mut self, at: usize, a: usize, part: &Stored) {
        let ty = self.result(at);
        if part.known.is_none() && ty != Ty::Any {
            let other = self.other_result(at, at);
            let known = self.is_of([part.payload, part.tag], ty, other);
            return self.define(a, known);
        }
        match part.known.map(Ty::of) {
            Some(ty) if ty != Ty::Any => self.define(a, Known { ty, val: part.payload }),
            _ => self.put(a, part.tag, part.payload),
        }
    }

    /// `SETLIST`, if it is known what kind of array the values make.
    fn list_of_unmade(&mut self, at: usize) -> bool {
        let a = self.code(at).a() as usize;
        let Some((name, unmade)) = self.unmade_in(a) else { return false };
        let Some(count) = self.listed(at).filter(|count| *count == unmade.room) else { return false };
        if !unmade.elements.is_empty() {
            return false;
        }
        let registers = a + 1..=a + count;
        if self.kind_listed(registers.clone()).is_none() {
            return false;
        }
        let stored: Vec<_> = registers.map(|r| self.stored(r as u16).expect("a register")).collect();
        let exit = self.exit_block(at, EXITED);
        stored.iter().for_each(|stored| self.is_something(stored, exit));
        if let Some(unmade) = self.now.as_mut().and_then(|now| now.unmade.get_mut(&name)) {
            unmade.elements = vec![Part(None); count];
        }
        stored.iter().enumerate().for_each(|(n, stored)| self.set_part(name, ELEMENTS + n, stored));
        true
    }

    /// `GETINT` of an element.
    fn get_element_of_unmade(&mut self, at: usize) -> bool {
        let i = self.code(at);
        let Some((name, unmade)) = self.unmade_in(i.b() as usize) else { return false };
        let n = (i.c() as usize).wrapping_sub(1);
        let Some(part) = unmade.elements.get(n) else {
            // Nor has it elements anywhere else.
            if !unmade.has_metatable {
                self.define_plain(i.a() as usize, Tag::NIL);
            }
            return !unmade.has_metatable;
        };
        let stored = self.part(name, ELEMENTS + n, *part);
        self.give_part(at, i.a() as usize, &stored);
        true
    }

    /// `SETINT` of an element.
    fn set_element_of_unmade(&mut self, at: usize) -> bool {
        let i = self.code(at);
        let Some((name, unmade)) = self.unmade_in(i.a() as usize) else { return false };
        let n = (i.b() as usize).wrapping_sub(1);
        if n >= unmade.elements.len() || i.c() == i.a() as u16 {
            return false;
        }
        let Some(stored) = self.operand_for_part(i.c()) else { return false };
        if unmade.kind_with(n, stored.known).is_none() {
            return false;
        }
        let exit = self.exit_block(at, EXITED);
        self.is_something(&stored, exit);
        self.set_part(name, ELEMENTS + n, &stored);
        true
    }

    /// `LEN`: how many elements there are.
    fn length_of_unmade(&mut self, at: usize) -> bool {
        let i = self.code(at);
        let Some((_, unmade)) = self.unmade_in(i.b() as usize).filter(|(_, unmade)| !unmade.has_metatable)
        else {
            return false;
        };
        let val = self.b.iconst(Type::I64, unmade.elements.len() as i64);
        self.define(i.a() as usize, Known { ty: Ty::Int, val });
        true
    }

    /// The table of this name does not have the field of instruction `at` itself.
    fn inherit(&mut self, at: usize, name: Name, unmade: &Unmade) -> bool {
        let (shape, site) = (unmade.shape, self.site(at));
        if !unmade.has_metatable {
            let lacks = site.fields.lacking().contains(&shape) && self.code(at).op() == Some(Op::GetField);
            if lacks {
                self.define_plain(self.code(at).a() as usize, Tag::NIL);
            }
            return lacks;
        }
        let exit = self.exit_block(at, EXITED);
        if let Some(paths) = self.paths(at) {
            let is_its = |path: &&Path| path.shape == shape && path.own.is_none();
            let Some(path) = paths.iter().find(is_its) else { return false };
            let metatable = self.metatable_of(name);
            let of_metatable = self.load(Type::I32, metatable, layout::TABLE_SHAPE);
            let place = self.along(path, (metatable, of_metatable), exit);
            self.take_found(at, place, std::slice::from_ref(path), exit);
            return true;
        }
        let (Some(Cache::Class { node }), false) = (site.cache, site.shapes) else { return false };
        let d = self.code(at).d();
        let fact = Fact::Class(name, self.frame, d, node);
        if !self.has(fact) {
            let metatable = self.metatable_of(name);
            let shape = self.b.iconst(Type::I64, shape as i64);
            let place = self.class_in_cache((shape, metatable), d, node, exit);
            self.keep(fact, vec![place]);
        }
        let place = self.values(fact)[0];
        match node {
            true => self.take_apart(at, place, layout::NODE_VALUE, layout::NODE_VALUE_TAG, exit),
            false => self.take(at, place, 0, exit),
        };
        true
    }

    /// `SELF`.
    fn method_of_unmade(&mut self, at: usize) -> bool {
        let i = self.code(at);
        let b = i.b() as usize;
        // Above all that is in use; the method may go where the table is.
        self.share(i.a() as usize + layout::GAP as usize, b);
        self.get_from_unmade(at, b)
    }

    /// `SETFIELD`.
    fn set_in_unmade(&mut self, at: usize) -> bool {
        let i = self.code(at);
        let Some((name, unmade)) = self.unmade_in(i.a() as usize) else { return false };
        let site = self.site(at);
        if i.c() & RK_CONST == 0 && i.c() == i.a() as u16 || self.is_nil(i.c()) {
            return false;
        }
        if let Some(n) = self.slot_in(at, unmade.shape).filter(|n| *n < unmade.fields.len()) {
            let part = unmade.fields[n];
            if part == Part::NIL {
                return false;
            }
            let Some(stored) = self.operand_for_part(i.c()) else { return false };
            let exit = self.exit_block(at, EXITED);
            if part.0.is_none() {
                let old = self.part(name, n, part);
                self.is_something(&old, exit);
            }
            self.is_something(&stored, exit);
            self.set_part(name, n, &stored);
            return true;
        }
        let Some(Cache::Add { before, slot, shape }) = site.cache.filter(|_| !site.shapes) else {
            return false;
        };
        let n = slot as usize;
        let more = 2 * (n + 1).saturating_sub(unmade.fields.len());
        if before != unmade.shape || n >= MOST_FIELDS || !self.has_words_for(more) {
            return false;
        }
        let Some(stored) = self.operand_for_part(i.c()) else { return false };
        let exit = self.exit_block(at, EXITED);
        self.shapes.insert(shape);
        if unmade.has_metatable {
            let metatable = self.metatable_of(name);
            let absent = self.load(Type::I8, metatable, layout::TABLE_ABSENT);
            let none = self.band_imm(absent, layout::NO_NEWINDEX as i64);
            self.unless(none, exit);
        }
        self.is_something(&stored, exit);
        if let Some(unmade) = self.now.as_mut().and_then(|now| now.unmade.get_mut(&name)) {
            unmade.shape = shape;
            let room = unmade.fields.len().max(n + 1);
            unmade.fields.resize(room, Part::NIL);
        }
        self.set_part(name, n, &stored);
        true
    }

    fn is_nil(&self, x: u16) -> bool {
        x & RK_CONST != 0 && matches!(self.proto.constants[(x & !RK_CONST) as usize], Constant::Nil)
    }

    /// An operator, if the log has always found its metamethod by shapes.
    fn operator_of_unmade(&mut self, at: usize) -> bool {
        let Some(Operator { event, operands, ends }) = Operator::of(self.code(at)) else { return false };
        let is_one =
            |this: &Self, x: Operand| matches!(x, Operand::Register(r) if this.is_unmade(r as usize));
        if !operands.iter().any(|x| is_one(self, *x)) || !self.always_calls(at) {
            return false;
        }
        let Some((operand, second, place)) = self.place_of_operator(at, operands) else { return false };
        let exit = self.exit_block(at, EXITED);
        if second {
            self.numbers_are_plain(exit);
        }
        if Operator::is_equality(event) && !self.are_other_tables(operands, exit) {
            return false;
        }
        let metatable = match self.unmade_in(operand) {
            Some((_, unmade)) if !unmade.has_metatable => return false,
            Some((name, _)) => self.metatable_of(name),
            None => {
                let table = match self.known(operand) {
                    Some(known) => known.val,
                    None => self.expect(operand, Ty::Table, exit).val,
                };
                self.metatable(table, exit)
            }
        };
        let closure = self.in_metatable(metatable, place, exit);
        self.call_metamethod(at, closure, &operands, ends);
        true
    }

    /// Both are tables, but not the same, else goes to `exit`. What is not made is the same as nothing else.
    /// `false`: they may be the same.
    fn are_other_tables(&mut self, operands: [Operand; 2], exit: Block) -> bool {
        let [Operand::Register(x), Operand::Register(y)] = operands else { return false };
        let [x, y] = [x as usize, y as usize];
        let are_tables = [x, y].iter().all(|r| matches!(self.ty(*r), Ty::Any | Ty::Table | Ty::Unmade));
        if !are_tables || self.name_of(x) == self.name_of(y) {
            return false;
        }
        for r in [x, y] {
            if self.ty(r) == Ty::Any {
                self.expect(r, Ty::Table, exit);
            }
        }
        true
    }

    // -- Where it has to be ---------------------------------------------------------------------------------

    /// All that are not made, for an exit.
    pub(super) fn waiting(&self) -> Vec<Waiting> {
        let Some(now) = self.now.as_ref().filter(|now| !now.unmade.is_empty()) else { return Vec::new() };
        let holders = |name: &Name| -> Vec<u8> {
            let registers = now.names.iter().zip(&now.registers).enumerate();
            let has = |(_, (own, register)): &(usize, (&Name, &Register))| {
                *own == name && register.ty == Ty::Unmade
            };
            registers.filter(has).map(|(r, _)| r as u8).collect()
        };
        let all = now.unmade.iter().map(|(name, unmade)| (*name, unmade.clone(), holders(name)));
        all.filter(|(_, _, holders)| !holders.is_empty()).collect()
    }

    /// An exit stores what these are made of. What it makes of that.
    pub(super) fn store_parts(&mut self, exit: &Exit) -> Vec<machine::Unmade> {
        let mut words = 0;
        let vm = self.vm;
        let mut store = |this: &mut Self, value: Value| {
            assert!(words < machine::MOST_WORDS, "an exit has a word for all of it");
            this.store(value, vm, layout::VM_WORDS + 8 * words as i32);
            words += 1;
            Word(words as u8 - 1)
        };
        let mut all = Vec::new();
        for (name, unmade, registers) in &exit.waiting {
            let mut part = |this: &mut Self, n: usize, part: &Part| {
                let stored = this.part(*name, n, *part);
                let payload = store(this, stored.payload);
                let tag = match stored.known {
                    Some(tag) => Ok(tag),
                    None => {
                        let tag = this.b.uextend(Type::I64, stored.tag);
                        Err(store(this, tag))
                    }
                };
                (payload, tag)
            };
            let mut fields = Vec::new();
            for (n, field) in unmade.fields.iter().enumerate().filter(|(_, part)| **part != Part::NIL) {
                let (payload, tag) = part(self, n, field);
                fields.push((n as u8, payload, tag));
            }
            let elements = unmade.elements.iter().enumerate();
            let elements = elements.map(|(n, element)| part(self, ELEMENTS + n, element)).collect();
            let metatable = unmade.has_metatable.then(|| {
                let metatable = self.metatable_of(*name);
                store(self, metatable)
            });
            let room = [unmade.fields.len() as u8, unmade.room as u8];
            let (shape, registers) = (unmade.shape, registers.clone());
            all.push(machine::Unmade { shape, room, fields, elements, metatable, registers });
        }
        all
    }

    /// Whether what register `r` has is the same where instruction `to` begins, as ways have come up with
    /// that lead there: all have to agree.
    pub(super) fn agrees(&self, r: usize, to: usize) -> bool {
        let (Some(now), Some(met)) = (&self.now, self.met.get(&to)) else { return true };
        now.has_same_unmade(met, r)
    }

    /// Where to go if a collection is due, and others are not made: the code is left, unless instruction `at`
    /// has been `done`. Then they are made.
    pub(super) fn leave_for_collection(&mut self, at: usize, done: bool) -> Option<Block> {
        if done {
            self.make_all();
        }
        self.has_unmade().then(|| self.exit_block(at, machine::LEAVE))
    }
}

impl super::State {
    /// Whether both have the same table that is not made in register `r`, or neither has one.
    pub(super) fn has_same_unmade(&self, other: &super::State, r: usize) -> bool {
        match (self.registers[r].ty, other.registers[r].ty) {
            (Ty::Unmade, Ty::Unmade) => {
                let name = self.names[r];
                name == other.names[r] && self.unmade.get(&name) == other.unmade.get(&name)
            }
            (Ty::Unmade, _) | (_, Ty::Unmade) => false,
            _ => true,
        }
    }

    /// Whether ways that end like this can meet: each has made what the other has.
    pub(super) fn agrees_with(&self, other: &super::State) -> bool {
        (0..self.registers.len()).all(|r| self.has_same_unmade(other, r))
    }

    /// The registers that have not the same on both ways. What is made because of one is made for all that
    /// have it, so they are among these, too.
    pub(super) fn differing(&self, other: &super::State) -> Vec<usize> {
        let mut differ: Vec<bool> = (0..self.registers.len())
            .map(|r| self.registers[r].ty != other.registers[r].ty || !self.has_same_unmade(other, r))
            .collect();
        loop {
            let is_one = |state: &super::State, r: usize| state.registers[r].ty == Ty::Unmade;
            let made: Vec<Name> = [self, other]
                .into_iter()
                .flat_map(|state| {
                    (0..differ.len()).filter(|&r| differ[r] && is_one(state, r)).map(|r| state.names[r])
                })
                .collect();
            let more = (0..differ.len()).find(|&r| {
                let has = |state: &super::State| is_one(state, r) && made.contains(&state.names[r]);
                !differ[r] && (has(self) || has(other))
            });
            match more {
                Some(r) => differ[r] = true,
                None => return (0..differ.len()).filter(|&r| differ[r]).collect(),
            }
        }
    }

    /// Those that no register has are over.
    pub(super) fn forget_unmade(&mut self) {
        if !self.unmade.is_empty() {
            let (names, registers) = (&self.names, &self.registers);
            let is_held = |name: &Name| {
                names.iter().zip(registers).any(|(own, register)| own == name && register.ty == Ty::Unmade)
            };
            self.unmade.retain(|name, _| is_held(name));
        }
    }
}

/// The tables that are not made where the program does, by their lines: places where they would be, with one
/// where they are.
pub(super) fn by_lines(postponed: &BTreeMap<usize, Option<usize>>, built: &[Built]) -> Vec<report::Unmade> {
    // The line of the compiled function.
    let outer = |mut place: usize| loop {
        match Built::find(built, place) {
            Some(Built { call: Some(call), .. }) => place = *call,
            found => break found.map_or(0, |built| built.line(place)),
        }
    };
    let mut all = Vec::new();
    for (place, made) in postponed {
        let Some(maker) = Built::find(built, *place) else { continue };
        let source = report::source_of(&maker.proto);
        let (line, maker) = (outer(*place), maker.line(*place));
        let one = report::Unmade { line, source, maker, made: made.map(outer) };
        if !all.contains(&one) {
            all.push(one);
        }
    }
    all
}
