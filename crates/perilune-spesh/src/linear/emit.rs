//! Instructions of the processor for those of the form, with what the allocator has found.

use super::assemble::{
    Alu, Assembler, Base, Cc, Finished, Label, Mem, RAX, RBP, RCX, RDX, RSP, Reg, Rm, Width,
};
use super::form::{Form, Name, Number, Where, compared};
use super::intervals::{ARGUMENTS, CHANGED, Home, Sets};
use super::moves::{self, FLOAT_SCRATCH, From, SCRATCH, Spot};
use super::scan::{Allocation, are_split};
use super::slot;
use crate::backend::clif::condcodes::{CondCode, FloatCC, IntCC};
use crate::backend::clif::{Inst, InstructionData, Opcode, SigRef, StackSlot, Type, Value, types};
use crate::positions::{Place, Positions};

/// What is written: bytes, and what is known of them.
pub(super) struct Written {
    pub bytes: Vec<u8>,
    pub positions: Positions,
    pub frame: u32,
    pub traps: Vec<u32>,
}

/// What the flags say.
#[derive(Clone, Copy)]
enum Flags {
    One(Cc),
    /// Both have to hold.
    Both(Cc, Cc),
    /// One of them has to.
    Either(Cc, Cc),
}

impl Flags {
    fn negated(self) -> Flags {
        match self {
            Flags::One(cc) => Flags::One(cc.negated()),
            Flags::Both(a, b) => Flags::Either(a.negated(), b.negated()),
            Flags::Either(a, b) => Flags::Both(a.negated(), b.negated()),
        }
    }
}

/// An operand where it is.
#[derive(Clone, Copy)]
enum Operand {
    Reg(Reg),
    Mem(Mem),
    Constant(i64),
}

struct Emitter<'a, 'f> {
    form: &'a Form<'f>,
    needed: &'a Sets,
    found: &'a Allocation,
    asm: Assembler,
    /// The instruction that is being written.
    at: Number,
    labels: Vec<Label>,
    /// The block and the way that lead to each block with one way in.
    comes_from: Vec<(usize, usize)>,
    /// What is moved before instructions.
    moves: Vec<(Number, Spot, Spot)>,
    /// Ways with moves that lead somewhere else.
    aside: Vec<(Label, Vec<(Spot, From)>, usize)>,
    /// From the frame's base to the end of what is saved.
    saved: i32,
    /// From the frame's base to each slot that the function has made.
    explicit: Vec<i32>,
    /// Below what is saved.
    size: i32,
    places: Vec<(u32, Option<Place>)>,
    traps: Vec<u32>,
}

/// Frames are smaller, so that none reaches past a guard page without touching it.
const LARGEST_FRAME: i32 = 4000;

/// Writes the function; `None` if its frame would be too large.
pub(super) fn emit(form: &Form<'_>, needed: &Sets, found: &Allocation) -> Option<Written> {
    let saved = 8 * found.saved.len() as i32;
    let mut below = saved + 8 * found.slot_count as i32;
    let mut explicit = Vec::new();
    for slot in form.func.sized_stack_slots.values() {
        below = (below + slot.size as i32 + 15) & !15;
        explicit.push(-below);
    }
    let size = ((below + outgoing(form) + 15) & !15) - saved;
    if saved + size > LARGEST_FRAME {
        return None;
    }
    let mut asm = Assembler::default();
    let labels = form.blocks.iter().map(|_| asm.label()).collect();
    let mut comes_from = vec![(0, 0); form.blocks.len()];
    for place in 0..form.blocks.len() {
        for (n, way) in form.ways(place).iter().enumerate() {
            comes_from[way.to] = (place, n);
        }
    }
    let mut emitter = Emitter {
        form,
        needed,
        found,
        asm,
        at: 0,
        labels,
        comes_from,
        moves: Vec::new(),
        aside: Vec::new(),
        saved,
        explicit,
        size,
        places: Vec::new(),
        traps: Vec::new(),
    };
    emitter.find_moves();
    emitter.write();
    let Emitter { asm, places, traps, .. } = emitter;
    let end = asm.at();
    let Finished { bytes, shrunk } = asm.finish();
    let ends = places.iter().skip(1).map(|of| of.0).chain([end]);
    let ranges = places.iter().zip(ends).filter_map(|(&(start, place), end)| {
        let [start, end] = [start, end].map(|at| shrunk.moved(at));
        Some((start..end, place?))
    });
    let positions = Positions::from_ranges(ranges.filter(|(range, _)| !range.is_empty()));
    let traps = traps.into_iter().map(|at| shrunk.moved(at)).collect();
    Some(Written { bytes, positions, frame: (saved + size) as u32, traps })
}

/// What calls pass on the stack.
fn outgoing(form: &Form<'_>) -> i32 {
    let words = |inst: &Inst| match form.data(*inst) {
        InstructionData::CallIndirect { opcode: Opcode::CallIndirect, args, .. } => {
            args.len(&form.func.dfg.value_lists) as i32 - 1 - ARGUMENTS.len() as i32
        }
        _ => 0,
    };
    8 * form.insts.iter().flatten().map(words).max().unwrap_or(0).max(0)
}

fn width(ty: Type) -> Width {
    match ty.bits() {
        8 => Width::W8,
        16 => Width::W16,
        32 => Width::W32,
        _ => Width::W64,
    }
}

/// Of what has no flags and no memory, where more bits do no harm.
fn at_least_32(ty: Type) -> Width {
    if ty.bits() == 64 { Width::W64 } else { Width::W32 }
}

impl Emitter<'_, '_> {
    // -- Where values are -----------------------------------------------------------------------------------

    fn slot_of(&self, name: u32) -> i32 {
        let n = self.found.slots[name as usize].expect("what is in the frame has a slot");
        -self.saved - 8 * (n as i32 + 1)
    }

    fn spot(&self, name: u32, home: Home) -> Spot {
        match home {
            Home::Register(r) => Spot::register(self.form.classes[name as usize], r),
            Home::Slot => Spot::Slot(self.slot_of(name)),
        }
    }

    fn spot_at(&self, name: u32, position: u32) -> Spot {
        self.spot(name, self.found.home(name, position))
    }

    /// The value at a position, to be moved.
    fn from(&self, value: Value, position: u32) -> From {
        match self.form.at(value) {
            Where::Named(name) => From::Spot(self.spot_at(name, position)),
            Where::Integer(n) => From::Constant(n),
            Where::Float(bits) => From::FloatConstant(bits),
            Where::Stack(slot, offset) => From::Address(self.in_slot(slot, offset)),
            Where::StackPointer => From::Address(Mem::at(RSP, 0)),
            Where::Within | Where::Nowhere => unreachable!("what is passed has a place"),
        }
    }

    fn in_slot(&self, slot: StackSlot, offset: i32) -> Mem {
        Mem::at(RBP, self.explicit[slot.as_u32() as usize] + offset)
    }

    fn result(&self, inst: Inst) -> Reg {
        let result = self.form.func.dfg.first_result(inst);
        let name = self.form.name(result).expect("a result that is used");
        match self.found.home(name, 4 * self.at + 2) {
            Home::Register(r) => r,
            Home::Slot => unreachable!("a result is made in a register"),
        }
    }

    fn operand(&mut self, value: Value) -> Operand {
        match self.form.at(value) {
            Where::Named(name) => match self.found.home(name, 4 * self.at) {
                Home::Register(r) => Operand::Reg(r),
                Home::Slot => Operand::Mem(slot(self.slot_of(name))),
            },
            Where::Integer(n) => Operand::Constant(n),
            Where::Float(bits) => Operand::Mem(super::constant(self.asm.constant(bits))),
            Where::Stack(slot, offset) => {
                let mem = self.in_slot(slot, offset);
                self.asm.lea(SCRATCH, mem);
                Operand::Reg(SCRATCH)
            }
            Where::StackPointer => Operand::Reg(RSP),
            Where::Within => match *self.form.within(value).expect("part of others") {
                InstructionData::Load { arg, offset, .. } => Operand::Mem(self.address(arg, offset.into())),
                _ => unreachable!("an operand is loaded"),
            },
            Where::Nowhere => unreachable!("what is used has a place"),
        }
    }

    /// The operand, which no constant is; one goes through the scratch register.
    fn rm(&mut self, value: Value) -> Rm {
        match self.operand(value) {
            Operand::Reg(r) => Rm::Reg(r),
            Operand::Mem(mem) => Rm::Mem(mem),
            Operand::Constant(n) => {
                self.asm.mov_immediate(SCRATCH, n, true);
                Rm::Reg(SCRATCH)
            }
        }
    }

    /// The address that a value is, and so many bytes on.
    fn address(&mut self, value: Value, more: i32) -> Mem {
        let (value, offset) = self.without_constants(value, more);
        let register = |emitter: &mut Self, value: Value| match emitter.operand(value) {
            Operand::Reg(r) => r,
            Operand::Constant(n) => {
                emitter.asm.mov_immediate(SCRATCH, n, true);
                SCRATCH
            }
            Operand::Mem(_) => unreachable!("an address is in registers"),
        };
        match self.form.at(value) {
            Where::Stack(slot, from) => return self.in_slot(slot, from + offset),
            Where::Within => {}
            _ => return Mem { base: Base::Reg(register(self, value)), index: None, offset },
        }
        let Some(&InstructionData::Binary { opcode: Opcode::Iadd, args }) = self.form.within(value) else {
            unreachable!("a sum is part of an address: {:?}", self.form.within(value));
        };
        let (first, offset) = self.without_constants(args[0], offset);
        let base = match self.form.at(first) {
            Where::Stack(slot, from) => {
                let mem = self.in_slot(slot, from);
                self.asm.lea(SCRATCH, mem);
                SCRATCH
            }
            _ => register(self, first),
        };
        let (index, shift) = match self.form.within(args[1]) {
            Some(&InstructionData::Binary { opcode: Opcode::Ishl, args }) => {
                (args[0], self.form.integer(args[1]).expect("a constant") as u8)
            }
            _ => (args[1], 0),
        };
        if let Some(more) = self.form.integer(index).and_then(|n| n.checked_mul(1 << shift))
            && let Ok(more) = i32::try_from(more)
            && let Some(offset) = offset.checked_add(more)
        {
            return Mem { base: Base::Reg(base), index: None, offset };
        }
        let index = (register(self, index), shift);
        Mem { base: Base::Reg(base), index: Some(index), offset }
    }

    /// What is left of an address without the constants that are added to it.
    fn without_constants(&self, mut value: Value, mut offset: i32) -> (Value, i32) {
        while let Some(&InstructionData::Binary { opcode: Opcode::Iadd, args }) = self.form.within(value) {
            let n = match args.map(|arg| self.form.integer(arg)) {
                [_, Some(n)] => {
                    value = args[0];
                    n
                }
                [Some(n), _] => {
                    value = args[1];
                    n
                }
                _ => break,
            };
            offset += n as i32;
        }
        (value, offset)
    }

    /// Register `to` becomes this operand.
    fn copy(&mut self, to: Reg, from: Operand) {
        match from {
            Operand::Reg(r) if r == to => {}
            Operand::Reg(r) => self.asm.mov(to, r),
            Operand::Mem(mem) => self.asm.load(Width::W64, to, mem),
            Operand::Constant(n) => self.asm.mov_immediate(to, n, true),
        }
    }

    /// The same, of so many bits: where they are loaded no more of them are.
    fn copy_bits(&mut self, width: Width, to: Reg, from: Operand) {
        match from {
            Operand::Mem(mem) => self.asm.load(width, to, mem),
            _ => self.copy(to, from),
        }
    }

    fn copy_float(&mut self, to: Reg, from: Rm) {
        match from {
            Rm::Reg(r) if r == to => {}
            Rm::Reg(r) => self.asm.mov_float(to, r),
            Rm::Mem(mem) => self.asm.load_float(to, mem),
        }
    }

    // -- Moves ----------------------------------------------------------------------------------------------

    /// Where parts of intervals meet within blocks.
    fn find_moves(&mut self) {
        let blocks = &self.form.blocks;
        for (name, parts) in self.found.of.iter().enumerate() {
            for pair in parts.windows(2) {
                let [a, b] = [pair[0], pair[1]].map(|part| &self.found.parts[part as usize]);
                let at = b.start();
                let begins_block = blocks.binary_search_by_key(&at, |block| block.start()).is_ok();
                // Where a block lies before one that makes what it reads it is made anew.
                if begins_block || self.is_made(name as u32, at) {
                    continue;
                }
                assert_eq!(a.end(), at, "a value that is needed is somewhere");
                let [from, to] = [a.home, b.home].map(|home| home.expect("every part has a place"));
                if from == to || (to == Home::Slot && self.found.is_stored[name]) {
                    continue;
                }
                assert!(at % 4 == 0 || to == Home::Slot, "a value is loaded before an instruction");
                let name = name as u32;
                self.moves.push((at / 4, self.spot(name, to), self.spot(name, from)));
            }
        }
        self.moves.sort_by_key(|of| std::cmp::Reverse(of.0));
    }

    /// Whether the instruction at this position makes the value.
    fn is_made(&self, name: u32, at: u32) -> bool {
        let inst = self.form.insts[at as usize / 4];
        at % 4 == 2 && inst.is_some_and(|inst| self.form.made(inst).any(|made| made == name))
    }

    /// What is moved on a way from the block at this place.
    fn moves_on(&self, place: usize, n: usize) -> Vec<(Spot, From)> {
        let way = &self.form.ways(place)[n];
        let (end, start) = (self.form.blocks[place].end() - 1, self.form.blocks[way.to].start());
        let mut moves = Vec::new();
        for name in are_split(self.found, self.needed, way.to) {
            let [from, to] = [end, start].map(|position| self.found.home(name, position));
            if from != to && !(to == Home::Slot && self.found.is_stored[name as usize]) {
                moves.push((self.spot(name, to), From::Spot(self.spot(name, from))));
            }
        }
        for (name, value) in self.form.passed(way) {
            let (to, from) = (self.spot_at(name, start), self.from(value, end));
            if from != From::Spot(to) {
                moves.push((to, from));
            }
        }
        moves
    }

    /// A value that has just been made is stored if its slot has to have it.
    fn store_made(&mut self, name: Name, position: u32) {
        if !self.found.is_stored[name as usize] {
            return;
        }
        let to = slot(self.slot_of(name));
        match self.spot_at(name, position) {
            Spot::Integer(r) => self.asm.store(Width::W64, to, r),
            Spot::Float(r) => self.asm.store_float(to, r),
            Spot::Slot(_) => {}
        }
    }

    // -- Blocks ---------------------------------------------------------------------------------------------

    fn set_place(&mut self, place: Option<Place>) {
        if self.places.last().map(|of| of.1) != Some(place) {
            self.places.push((self.asm.at(), place));
        }
    }

    fn write(&mut self) {
        self.asm.push(RBP);
        self.asm.mov(RBP, RSP);
        for &r in &self.found.saved {
            self.asm.push(r);
        }
        if self.size > 0 {
            self.asm.alu_immediate(Alu::Sub, Width::W64, Rm::Reg(RSP), i64::from(self.size));
        }
        for place in 0..self.form.blocks.len() {
            self.asm.bind(self.labels[place]);
            self.set_place(None);
            let (head, last) = (self.form.blocks[place].head, self.form.blocks[place].last);
            if place == 0 {
                self.take_parameters();
            } else if self.form.blocks[place].ways_in == 1 {
                let (from, n) = self.comes_from[place];
                let moves = self.moves_on(from, n);
                moves::make(&mut self.asm, &moves);
            }
            let form = self.form;
            for name in form.parameters(place) {
                self.store_made(name, 4 * head);
            }
            for number in head + 1..=last {
                self.at = number;
                self.make_moves();
                let inst = self.form.insts[number as usize].expect("an instruction");
                if !self.form.is_written(inst) {
                    continue;
                }
                let location = self.form.func.srcloc(inst);
                self.set_place((!location.is_default()).then(|| Place(location.bits())));
                self.instruction(place, inst);
                for name in form.made(inst) {
                    self.store_made(name, 4 * number + 2);
                }
            }
        }
        self.set_place(None);
        for (label, moves, to) in std::mem::take(&mut self.aside) {
            self.asm.bind(label);
            moves::make(&mut self.asm, &moves);
            self.asm.jump(self.labels[to]);
        }
    }

    fn take_parameters(&mut self) {
        let (mut words, mut floats) = (ARGUMENTS.iter(), 0..8);
        let mut moves = Vec::new();
        for &parameter in self.form.func.dfg.block_params(self.form.order[0]) {
            let from = match self.form.ty(parameter).is_float() {
                true => Spot::Float(floats.next().expect("a float in a register")),
                false => Spot::Integer(*words.next().expect("a word in a register")),
            };
            if let Some(name) = self.form.name(parameter) {
                moves.push((self.spot_at(name, 0), From::Spot(from)));
            }
        }
        moves::make(&mut self.asm, &moves);
    }

    /// What is due before the instruction.
    fn make_moves(&mut self) {
        let mut due = Vec::new();
        while let Some(&(number, to, from)) = self.moves.last()
            && number <= self.at
        {
            assert_eq!(number, self.at, "moves are made where they are due");
            due.push((to, From::Spot(from)));
            self.moves.pop();
        }
        if !due.is_empty() {
            self.set_place(None);
            moves::make(&mut self.asm, &due);
        }
    }

    /// The label that a way leads to, and what is moved before that.
    fn way(&self, place: usize, n: usize) -> (usize, Vec<(Spot, From)>) {
        let to = self.form.ways(place)[n].to;
        // Else it makes them itself.
        let moves = if self.form.blocks[to].ways_in == 1 { Vec::new() } else { self.moves_on(place, n) };
        (to, moves)
    }

    fn go_on(&mut self, place: usize, n: usize) {
        let (to, moves) = self.way(place, n);
        moves::make(&mut self.asm, &moves);
        if to != place + 1 {
            self.asm.jump(self.labels[to]);
        }
    }

    fn branch(&mut self, place: usize, flags: Flags) {
        let ways = [0, 1].map(|n| self.way(place, n));
        // The one that is gone on with, without a jump if it is the next.
        let is_next = |n: usize| ways[n].0 == place + 1;
        // What goes round with moves is not to jump to them.
        let goes_round = |n: usize| ways[n].0 <= place && !ways[n].1.is_empty() && ways[1 - n].1.is_empty();
        let on = match () {
            () if goes_round(0) => 0,
            () if goes_round(1) => 1,
            () if is_next(0) => 0,
            () if is_next(1) => 1,
            () if self.form.blocks[ways[1].0].is_cold => 0,
            () if self.form.blocks[ways[0].0].is_cold => 1,
            () => !ways[0].1.is_empty() as usize ^ 1,
        };
        let [mut first, mut second] = ways;
        if on == 0 {
            std::mem::swap(&mut first, &mut second);
        }
        // `first` is jumped to.
        let flags = if on == 0 { flags.negated() } else { flags };
        let label = match first.1.is_empty() {
            true => self.labels[first.0],
            false => {
                let label = self.asm.label();
                self.aside.push((label, first.1, first.0));
                label
            }
        };
        self.jump_if(flags, label);
        moves::make(&mut self.asm, &second.1);
        if second.0 != place + 1 {
            self.asm.jump(self.labels[second.0]);
        }
    }

    fn jump_if(&mut self, flags: Flags, to: Label) {
        match flags {
            Flags::One(cc) => self.asm.jump_if(cc, to),
            Flags::Either(a, b) => {
                self.asm.jump_if(a, to);
                self.asm.jump_if(b, to);
            }
            Flags::Both(a, b) => {
                let past = self.asm.label();
                self.asm.jump_if(a.negated(), past);
                self.asm.jump_if(b, to);
                self.asm.bind(past);
            }
        }
    }

    fn leave(&mut self) {
        if self.size > 0 {
            self.asm.alu_immediate(Alu::Add, Width::W64, Rm::Reg(RSP), i64::from(self.size));
        }
        for &r in self.found.saved.iter().rev() {
            self.asm.pop(r);
        }
        self.asm.pop(RBP);
    }

    // -- Conditions -----------------------------------------------------------------------------------------

    /// Sets the flags by this value, if it is a condition that is part of who asks; else by whether it is 0.
    fn flags(&mut self, condition: Value) -> Flags {
        match self.form.within(condition) {
            Some(&InstructionData::IntCompare { cond, args, .. }) => self.compare(cond, args),
            Some(&InstructionData::FloatCompare { cond, args, .. }) => self.compare_floats(cond, args),
            Some(&InstructionData::Binary { opcode: Opcode::Band, args }) => {
                self.test(args);
                Flags::One(Cc::NOT_EQUAL)
            }
            _ => {
                let width = width(self.form.ty(condition));
                match self.rm(condition) {
                    Rm::Reg(r) => self.asm.test(width, Rm::Reg(r), r),
                    mem => self.asm.alu_immediate(Alu::Cmp, width, mem, 0),
                }
                Flags::One(Cc::NOT_EQUAL)
            }
        }
    }

    /// Tests bits, of which nothing else is asked.
    fn test(&mut self, args: [Value; 2]) {
        let width = width(self.form.ty(args[0]));
        let (a, b) = match args.map(|arg| self.form.integer(arg)) {
            [Some(_), None] => (args[1], args[0]),
            _ => (args[0], args[1]),
        };
        match (self.rm(a), self.form.integer(b)) {
            (a, Some(n)) if i32::try_from(n).is_ok() => self.asm.test_immediate(width, a, n),
            (a, Some(n)) => {
                let a = match a {
                    Rm::Reg(SCRATCH) => unreachable!("two constants are no test"),
                    a => a,
                };
                self.asm.mov_immediate(SCRATCH, n, true);
                self.asm.test(width, a, SCRATCH);
            }
            (a, None) => match (a, self.rm(b)) {
                (a, Rm::Reg(b)) | (Rm::Reg(b), a) => self.asm.test(width, a, b),
                (a, Rm::Mem(b)) => {
                    self.asm.load(width, SCRATCH, b);
                    self.asm.test(width, a, SCRATCH);
                }
            },
        }
    }

    fn compare(&mut self, cond: IntCC, args: [Value; 2]) -> Flags {
        let zero = self.form.integer(args[1]) == Some(0);
        if zero
            && let Some(&InstructionData::Binary { opcode: Opcode::Band, args }) = self.form.within(args[0])
        {
            self.test(args);
            return Flags::One(condition(cond));
        }
        let width = width(self.form.ty(args[0]));
        let (mut cond, mut args) = (cond, args);
        if self.form.integer(args[0]).is_some() {
            (cond, args) = (cond.swap_args(), [args[1], args[0]]);
        }
        let [a, b] = args.map(|arg| self.operand(arg));
        let is_signed_or_equal = matches!(
            cond,
            IntCC::Equal | IntCC::NotEqual | IntCC::SignedLessThan | IntCC::SignedGreaterThanOrEqual
        );
        match (a, b) {
            (Operand::Reg(a), Operand::Constant(0)) if is_signed_or_equal => {
                self.asm.test(width, Rm::Reg(a), a);
            }
            (Operand::Reg(a), Operand::Constant(n)) if i32::try_from(n).is_ok() => {
                self.asm.alu_immediate(Alu::Cmp, width, Rm::Reg(a), n);
            }
            (Operand::Mem(a), Operand::Constant(n)) if i32::try_from(n).is_ok() => {
                self.asm.alu_immediate(Alu::Cmp, width, Rm::Mem(a), n);
            }
            (Operand::Reg(a), b @ Operand::Constant(_)) => {
                let b = self.wide(b);
                self.asm.alu(Alu::Cmp, width, a, b);
            }
            (Operand::Mem(a), Operand::Constant(n)) => {
                self.asm.mov_immediate(SCRATCH, n, true);
                self.asm.compare_memory(width, a, SCRATCH);
            }
            (Operand::Reg(a), Operand::Reg(b)) => self.asm.alu(Alu::Cmp, width, a, Rm::Reg(b)),
            (Operand::Reg(a), Operand::Mem(b)) => self.asm.alu(Alu::Cmp, width, a, Rm::Mem(b)),
            (Operand::Mem(a), Operand::Reg(b)) => self.asm.compare_memory(width, a, b),
            (Operand::Mem(a), Operand::Mem(b)) => {
                self.asm.load(width, SCRATCH, a);
                self.asm.alu(Alu::Cmp, width, SCRATCH, Rm::Mem(b));
            }
            (Operand::Constant(a), b) => {
                let Operand::Constant(b) = b else { unreachable!("a constant comes second") };
                self.asm.mov_immediate(SCRATCH, i64::from(holds(cond, a, b)), true);
                self.asm.alu_immediate(Alu::Cmp, Width::W64, Rm::Reg(SCRATCH), 0);
                return Flags::One(Cc::NOT_EQUAL);
            }
        }
        Flags::One(condition(cond))
    }

    fn compare_floats(&mut self, cond: FloatCC, args: [Value; 2]) -> Flags {
        let [a, b] = compared(cond, args);
        let a = match self.rm(a) {
            Rm::Reg(a) => a,
            Rm::Mem(mem) => {
                self.asm.load_float(FLOAT_SCRATCH, mem);
                FLOAT_SCRATCH
            }
        };
        let b = self.rm(b);
        self.asm.compare_floats(a, b);
        match cond {
            FloatCC::Equal => Flags::Both(Cc::NO_PARITY, Cc::EQUAL),
            FloatCC::NotEqual => Flags::Either(Cc::PARITY, Cc::NOT_EQUAL),
            FloatCC::LessThan | FloatCC::GreaterThan => Flags::One(Cc::ABOVE),
            FloatCC::LessThanOrEqual | FloatCC::GreaterThanOrEqual => Flags::One(Cc::AT_LEAST),
            FloatCC::UnorderedOrLessThan | FloatCC::UnorderedOrGreaterThan => Flags::One(Cc::BELOW),
            FloatCC::UnorderedOrLessThanOrEqual | FloatCC::UnorderedOrGreaterThanOrEqual => {
                Flags::One(Cc::AT_MOST)
            }
            FloatCC::Ordered => Flags::One(Cc::NO_PARITY),
            FloatCC::Unordered => Flags::One(Cc::PARITY),
            FloatCC::OrderedNotEqual => Flags::One(Cc::NOT_EQUAL),
            FloatCC::UnorderedOrEqual => Flags::One(Cc::EQUAL),
        }
    }

    // -- Instructions ---------------------------------------------------------------------------------------

    fn instruction(&mut self, place: usize, inst: Inst) {
        match *self.form.data(inst) {
            InstructionData::Load { arg, offset, .. } => {
                let (mem, to) = (self.address(arg, offset.into()), self.result(inst));
                let ty = self.form.ty(self.form.func.dfg.first_result(inst));
                match ty.is_float() {
                    true => self.asm.load_float(to, mem),
                    false => self.asm.load(width(ty), to, mem),
                }
            }
            InstructionData::Store { opcode, args, offset, .. } => {
                let ty = if opcode == Opcode::Istore8 { types::I8 } else { self.form.ty(args[0]) };
                self.store(width(ty), args, offset.into());
            }
            InstructionData::Binary { opcode, args } => self.binary(inst, opcode, args),
            InstructionData::Unary { opcode, arg } | InstructionData::LoadNoOffset { opcode, arg, .. } => {
                self.unary(inst, opcode, arg);
            }
            InstructionData::IntCompare { .. } | InstructionData::FloatCompare { .. } => {
                let flags = match *self.form.data(inst) {
                    InstructionData::IntCompare { cond, args, .. } => self.compare(cond, args),
                    InstructionData::FloatCompare { cond, args, .. } => self.compare_floats(cond, args),
                    _ => unreachable!("a comparison"),
                };
                let to = self.result(inst);
                self.set(flags, to);
            }
            InstructionData::Ternary { args, .. } => self.select(inst, args),
            InstructionData::Jump { .. } => self.go_on(place, 0),
            InstructionData::Brif { arg, .. } => {
                let flags = self.flags(arg);
                self.branch(place, flags);
            }
            InstructionData::MultiAry { opcode: Opcode::Return, .. } => self.give_back(inst),
            InstructionData::CallIndirect { opcode, sig_ref, .. } => self.call(inst, opcode, sig_ref),
            InstructionData::Trap { .. } => {
                self.traps.push(self.asm.at());
                self.asm.trap();
            }
            ref other => unreachable!("{:?} is not known", other.opcode()),
        }
    }

    fn set(&mut self, flags: Flags, to: Reg) {
        match flags {
            Flags::One(cc) => self.asm.set(cc, to),
            Flags::Both(a, b) | Flags::Either(a, b) => {
                self.asm.set(a, to);
                self.asm.set(b, SCRATCH);
                let op = if matches!(flags, Flags::Both(..)) { Alu::And } else { Alu::Or };
                self.asm.alu(op, Width::W32, to, Rm::Reg(SCRATCH));
            }
        }
    }

    fn store(&mut self, width: Width, [value, address]: [Value; 2], offset: i32) {
        let mem = self.address(address, offset);
        let through = mem.base == Base::Reg(SCRATCH);
        let constant = match self.form.at(value) {
            Where::Integer(n) => Some(n),
            Where::Float(bits) => Some(bits as i64),
            _ => None,
        };
        if let Some(n) = constant {
            if width != Width::W64 || i32::try_from(n).is_ok() {
                return self.asm.store_immediate(width, mem, n);
            }
            if through {
                self.asm.store_immediate(Width::W32, mem, n);
                let next = Mem { offset: mem.offset + 4, ..mem };
                return self.asm.store_immediate(Width::W32, next, n >> 32);
            }
            self.asm.mov_immediate(SCRATCH, n, true);
            return self.asm.store(width, mem, SCRATCH);
        }
        let is_float = self.form.ty(value).is_float();
        if through && matches!(self.form.at(value), Where::Stack(..)) {
            // The only address that two are needed for: one is saved.
            let Where::Stack(slot, from) = self.form.at(value) else { unreachable!("just seen") };
            let from = self.in_slot(slot, from);
            self.asm.float_of_bits(FLOAT_SCRATCH, RAX);
            self.asm.lea(RAX, from);
            self.asm.store(width, mem, RAX);
            return self.asm.bits_of_float(RAX, FLOAT_SCRATCH);
        }
        match self.operand(value) {
            Operand::Reg(r) if is_float => self.asm.store_float(mem, r),
            Operand::Reg(r) => self.asm.store(width, mem, r),
            Operand::Mem(from) if width == Width::W64 => {
                self.asm.load_float(FLOAT_SCRATCH, from);
                self.asm.store_float(mem, FLOAT_SCRATCH);
            }
            Operand::Mem(from) if !through => {
                self.asm.load(width, SCRATCH, from);
                self.asm.store(width, mem, SCRATCH);
            }
            Operand::Mem(from) => {
                self.asm.float_of_bits(FLOAT_SCRATCH, RAX);
                self.asm.load(width, RAX, from);
                self.asm.store(width, mem, RAX);
                self.asm.bits_of_float(RAX, FLOAT_SCRATCH);
            }
            Operand::Constant(_) => unreachable!("seen before"),
        }
    }

    fn binary(&mut self, inst: Inst, opcode: Opcode, args: [Value; 2]) {
        let ty = self.form.ty(self.form.func.dfg.first_result(inst));
        let (to, width) = (self.result(inst), at_least_32(ty));
        match opcode {
            Opcode::Iadd => self.add(to, width, args),
            Opcode::Isub => self.subtract(to, width, args),
            Opcode::Band => self.commute(Alu::And, to, width, args),
            Opcode::Bor => self.commute(Alu::Or, to, width, args),
            Opcode::Bxor => self.commute(Alu::Xor, to, width, args),
            Opcode::Imul => self.multiply(to, width, args),
            Opcode::Ishl => self.shift(4, to, width, args),
            Opcode::Ushr => self.shift(5, to, width, args),
            Opcode::Sshr => self.shift(7, to, width, args),
            Opcode::Fadd => self.float(0x58, to, args),
            Opcode::Fmul => self.float(0x59, to, args),
            Opcode::Fsub => self.float(0x5C, to, args),
            Opcode::Fdiv => self.float(0x5E, to, args),
            Opcode::Umulhi => {
                let [a, by] = [self.operand(args[0]), self.operand(args[1])];
                self.copy(RAX, a);
                let by = self.not_constant(by);
                self.asm.multiply_high(by);
                self.copy(to, Operand::Reg(RDX));
            }
            _ => self.divide(opcode, to, width, args),
        }
    }

    /// The operand of an operation of 64 bits behind which nothing comes: a constant is in memory.
    fn wide(&mut self, operand: Operand) -> Rm {
        match operand {
            Operand::Constant(n) => Rm::Mem(super::constant(self.asm.constant(n as u64))),
            operand => self.not_constant(operand),
        }
    }

    /// A constant goes through the scratch register.
    fn not_constant(&mut self, operand: Operand) -> Rm {
        match operand {
            Operand::Reg(r) => Rm::Reg(r),
            Operand::Mem(mem) => Rm::Mem(mem),
            Operand::Constant(n) => {
                self.asm.mov_immediate(SCRATCH, n, true);
                Rm::Reg(SCRATCH)
            }
        }
    }

    /// Two operands whose order does not matter: a constant second, and what is where the result will be
    /// first.
    fn either_order(&mut self, to: Reg, args: [Value; 2]) -> [Operand; 2] {
        let [a, b] = args.map(|arg| self.operand(arg));
        match (a, b) {
            (Operand::Constant(_), _) => [b, a],
            (_, Operand::Constant(_)) => [a, b],
            (_, Operand::Reg(r)) if r == to => [b, a],
            // Memory may be that of the operand which is read late.
            (Operand::Mem(_), Operand::Reg(_)) => [b, a],
            _ => [a, b],
        }
    }

    fn commute(&mut self, op: Alu, to: Reg, width: Width, args: [Value; 2]) {
        let [a, b] = self.either_order(to, args);
        self.copy_bits(width, to, a);
        self.alu(op, width, to, b);
    }

    fn alu(&mut self, op: Alu, width: Width, to: Reg, by: Operand) {
        match by {
            Operand::Constant(n) if i32::try_from(n).is_ok() => {
                self.asm.alu_immediate(op, width, Rm::Reg(to), n);
            }
            by => {
                let by = self.wide(by);
                self.asm.alu(op, width, to, by);
            }
        }
    }

    fn add(&mut self, to: Reg, width: Width, args: [Value; 2]) {
        let [a, b] = self.either_order(to, args);
        match (a, b) {
            (Operand::Reg(a), Operand::Constant(n)) if a != to && i32::try_from(n).is_ok() => {
                self.asm.lea(to, Mem::at(a, n as i32));
            }
            (Operand::Reg(a), Operand::Reg(b)) if a != to && b != RSP => {
                self.asm.lea(to, Mem { base: Base::Reg(a), index: Some((b, 0)), offset: 0 });
            }
            _ => {
                self.copy_bits(width, to, a);
                self.alu(Alu::Add, width, to, b);
            }
        }
    }

    fn subtract(&mut self, to: Reg, width: Width, args: [Value; 2]) {
        let [a, b] = args.map(|arg| self.operand(arg));
        match (a, b) {
            (Operand::Reg(a), Operand::Constant(n)) if a != to && i32::try_from(-n).is_ok() => {
                self.asm.lea(to, Mem::at(a, -n as i32));
            }
            _ => {
                self.copy_bits(width, to, a);
                self.alu(Alu::Sub, width, to, b);
            }
        }
    }

    fn multiply(&mut self, to: Reg, width: Width, args: [Value; 2]) {
        let [a, b] = self.either_order(to, args);
        match (a, b) {
            (Operand::Constant(_), _) => {
                self.copy(to, a);
                let b = self.not_constant(b);
                self.asm.multiply(width, to, b);
            }
            (a, Operand::Constant(n)) if i32::try_from(n).is_ok() => {
                let a = self.not_constant(a);
                self.asm.multiply_immediate(width, to, a, n as i32);
            }
            (a, b) => {
                self.copy_bits(width, to, a);
                let b = self.wide(b);
                self.asm.multiply(width, to, b);
            }
        }
    }

    fn shift(&mut self, op: u8, to: Reg, width: Width, args: [Value; 2]) {
        let a = self.operand(args[0]);
        if let Some(n) = self.form.integer(args[1]) {
            let bits = if width == Width::W64 { 63 } else { 31 };
            self.copy_bits(width, to, a);
            return self.asm.shift_immediate(op, width, to, (n & bits) as u8);
        }
        let by = self.operand(args[1]);
        self.copy_bits(Width::W64, RCX, by);
        self.copy_bits(width, to, a);
        self.asm.shift(op, width, to);
    }

    fn divide(&mut self, opcode: Opcode, to: Reg, width: Width, args: [Value; 2]) {
        let [a, by] = args.map(|arg| self.operand(arg));
        self.copy_bits(width, RAX, a);
        let is_constant = matches!(by, Operand::Constant(_));
        let by = self.not_constant(by);
        let signed = matches!(opcode, Opcode::Sdiv | Opcode::Srem);
        let done = self.asm.label();
        if opcode == Opcode::Srem && !is_constant {
            // The processor cannot divide the least integer by -1, whose rest is 0.
            let divides = self.asm.label();
            self.asm.alu_immediate(Alu::Cmp, width, by, -1);
            self.asm.jump_if(Cc::NOT_EQUAL, divides);
            self.asm.mov_immediate(RDX, 0, false);
            self.asm.jump(done);
            self.asm.bind(divides);
        }
        match signed {
            true => self.asm.sign_into_rdx(width),
            false => self.asm.mov_immediate(RDX, 0, false),
        }
        self.traps.push(self.asm.at());
        self.asm.divide(width, signed, by);
        self.asm.bind(done);
        let rest = matches!(opcode, Opcode::Urem | Opcode::Srem);
        self.copy(to, Operand::Reg(if rest { RDX } else { RAX }));
    }

    fn float(&mut self, opcode: u8, to: Reg, args: [Value; 2]) {
        let [a, b] = args.map(|arg| self.rm(arg));
        if !self.form.has_avx {
            self.copy_float(to, a);
            return self.asm.float(opcode, to, b);
        }
        let a = match a {
            Rm::Reg(r) => r,
            Rm::Mem(mem) => {
                self.asm.load_float(FLOAT_SCRATCH, mem);
                FLOAT_SCRATCH
            }
        };
        self.asm.float_of_two(opcode, to, a, b);
    }

    fn unary(&mut self, inst: Inst, opcode: Opcode, arg: Value) {
        let (to, ty) = (self.result(inst), self.form.ty(arg));
        match opcode {
            Opcode::Uextend => {
                let from = self.rm(arg);
                self.asm.extend_zero(width(ty), to, from);
            }
            Opcode::Sextend => {
                let from = self.rm(arg);
                self.asm.extend_sign(width(ty), to, from);
            }
            Opcode::Bnot | Opcode::Ineg => {
                let a = self.operand(arg);
                self.copy_bits(at_least_32(ty), to, a);
                match opcode {
                    Opcode::Bnot => self.asm.not(at_least_32(ty), to),
                    _ => self.asm.negate(at_least_32(ty), to),
                }
            }
            Opcode::Bitcast if ty.is_float() => match self.rm(arg) {
                Rm::Reg(r) => self.asm.bits_of_float(to, r),
                Rm::Mem(mem) => self.asm.load(Width::W64, to, mem),
            },
            Opcode::Bitcast => match self.rm(arg) {
                Rm::Reg(r) => self.asm.float_of_bits(to, r),
                Rm::Mem(mem) => self.asm.load_float(to, mem),
            },
            Opcode::FcvtFromSint => {
                let from = self.rm(arg);
                // The instruction keeps the other half, and would wait for it.
                self.asm.zero_float(to);
                self.asm.float_of_integer(at_least_32(ty), to, from);
            }
            Opcode::FcvtToSintSat => self.saturate(to, arg),
            Opcode::Fneg | Opcode::Fabs => {
                let a = self.rm(arg);
                self.copy_float(to, a);
                let sign = 1i64 << 63;
                let (bits, opcode) = if opcode == Opcode::Fneg { (sign, 0x57) } else { (!sign, 0x54) };
                self.asm.mov_immediate(SCRATCH, bits, true);
                self.asm.float_of_bits(FLOAT_SCRATCH, SCRATCH);
                self.asm.float_bits(opcode, to, FLOAT_SCRATCH);
            }
            Opcode::Sqrt => {
                match self.rm(arg) {
                    // Else it keeps half of what is there, and waits for it.
                    Rm::Reg(a) if self.form.has_avx => self.asm.float_of_two(0x51, to, a, Rm::Reg(a)),
                    a => self.asm.float(0x51, to, a),
                }
            }
            Opcode::Floor | Opcode::Ceil | Opcode::Trunc => {
                let how = match opcode {
                    Opcode::Floor => 1,
                    Opcode::Ceil => 2,
                    _ => 3,
                };
                let a = match self.rm(arg) {
                    // A constant lies behind the code, and this has an operand behind its address.
                    Rm::Mem(mem) => {
                        self.asm.load_float(FLOAT_SCRATCH, mem);
                        FLOAT_SCRATCH
                    }
                    Rm::Reg(r) => r,
                };
                self.asm.round(how, to, Rm::Reg(a));
            }
            _ => unreachable!("{opcode:?} is not known"),
        }
    }

    /// The integer that a float is without its fraction; the nearest there is, and 0 for what is none.
    fn saturate(&mut self, to: Reg, arg: Value) {
        let from = match self.rm(arg) {
            Rm::Reg(r) => r,
            Rm::Mem(mem) => {
                self.asm.load_float(FLOAT_SCRATCH, mem);
                FLOAT_SCRATCH
            }
        };
        let done = self.asm.label();
        self.asm.integer_of_float(to, Rm::Reg(from));
        // What does not fit is the least integer.
        self.asm.alu_immediate(Alu::Cmp, Width::W64, Rm::Reg(to), 1);
        self.asm.jump_if(Cc::OVERFLOW.negated(), done);
        let number = self.asm.label();
        self.asm.compare_floats(from, Rm::Reg(from));
        self.asm.jump_if(Cc::NO_PARITY, number);
        self.asm.mov_immediate(to, 0, false);
        self.asm.jump(done);
        self.asm.bind(number);
        // Negative ones are that already.
        self.asm.bits_of_float(SCRATCH, from);
        self.asm.test(Width::W64, Rm::Reg(SCRATCH), SCRATCH);
        self.asm.jump_if(Cc::LESS, done);
        self.asm.mov_immediate(to, i64::MAX, true);
        self.asm.bind(done);
    }

    fn select(&mut self, inst: Inst, [condition, x, y]: [Value; 3]) {
        let flags = self.flags(condition);
        let to = self.result(inst);
        if self.form.ty(x).is_float() {
            let y = self.rm(y);
            self.copy_float(to, y);
            let past = self.asm.label();
            self.jump_if(flags.negated(), past);
            let x = self.rm(x);
            self.copy_float(to, x);
            return self.asm.bind(past);
        }
        let Flags::One(cc) = flags else { unreachable!("a condition of one move") };
        let y = self.operand(y);
        self.copy(to, y);
        let x = self.rm(x);
        self.asm.move_if(cc, to, x);
    }

    fn give_back(&mut self, inst: Inst) {
        let (mut words, mut floats) = ([RAX, RDX].into_iter(), [0, 1].into_iter());
        let mut moves = Vec::new();
        for &value in self.form.func.dfg.inst_args(inst) {
            let to = match self.form.ty(value).is_float() {
                true => Spot::Float(floats.next().expect("two results in registers")),
                false => Spot::Integer(words.next().expect("two results in registers")),
            };
            moves.push((to, self.from(value, 4 * self.at)));
        }
        moves::make(&mut self.asm, &moves);
        self.leave();
        self.asm.ret();
    }

    fn call(&mut self, inst: Inst, opcode: Opcode, _signature: SigRef) {
        let args = self.form.func.dfg.inst_args(inst);
        let (callee, args) = (args[0], &args[1..]);
        let at = 4 * self.at;
        let (mut words, mut floats, mut stack) = (ARGUMENTS.iter(), 0..8, 0);
        let mut moves = Vec::new();
        for &value in args {
            let from = self.from(value, at);
            if self.form.ty(value).is_float() {
                moves.push((Spot::Float(floats.next().expect("a float in a register")), from));
            } else if let Some(&word) = words.next() {
                moves.push((Spot::Integer(word), from));
            } else {
                let from = self.operand(value);
                let from = match from {
                    Operand::Reg(r) => r,
                    from => {
                        self.copy(SCRATCH, from);
                        SCRATCH
                    }
                };
                self.asm.store(Width::W64, Mem::at(RSP, stack), from);
                stack += 8;
            }
        }
        // The callee is where no argument goes.
        let callee = match self.operand(callee) {
            Operand::Reg(r) if opcode == Opcode::CallIndirect && !CHANGED.contains(&r) => Operand::Reg(r),
            Operand::Constant(n) => Operand::Constant(n),
            from => {
                self.copy(SCRATCH, from);
                Operand::Reg(SCRATCH)
            }
        };
        moves::make(&mut self.asm, &moves);
        let callee = match callee {
            Operand::Reg(r) => r,
            from => {
                self.copy(SCRATCH, from);
                SCRATCH
            }
        };
        if opcode == Opcode::ReturnCallIndirect {
            self.leave();
            return self.asm.jump_to(callee);
        }
        self.asm.call(Rm::Reg(callee));
        let (mut words, mut floats) = ([RAX, RDX].into_iter(), [0, 1].into_iter());
        let mut results = Vec::new();
        for &result in self.form.func.dfg.inst_results(inst) {
            let from = match self.form.ty(result).is_float() {
                true => Spot::Float(floats.next().expect("two results in registers")),
                false => Spot::Integer(words.next().expect("two results in registers")),
            };
            if let Some(name) = self.form.name(result) {
                results.push((self.spot_at(name, at + 2), From::Spot(from)));
            }
        }
        moves::make(&mut self.asm, &results);
    }
}

fn condition(cond: IntCC) -> Cc {
    match cond {
        IntCC::Equal => Cc::EQUAL,
        IntCC::NotEqual => Cc::NOT_EQUAL,
        IntCC::SignedLessThan => Cc::LESS,
        IntCC::SignedGreaterThanOrEqual => Cc::GREATER_OR_EQUAL,
        IntCC::SignedGreaterThan => Cc::GREATER,
        IntCC::SignedLessThanOrEqual => Cc::LESS_OR_EQUAL,
        IntCC::UnsignedLessThan => Cc::BELOW,
        IntCC::UnsignedGreaterThanOrEqual => Cc::AT_LEAST,
        IntCC::UnsignedGreaterThan => Cc::ABOVE,
        IntCC::UnsignedLessThanOrEqual => Cc::AT_MOST,
    }
}

/// Whether the condition holds of these.
fn holds(cond: IntCC, a: i64, b: i64) -> bool {
    let (x, y) = (a as u64, b as u64);
    match cond {
        IntCC::Equal => a == b,
        IntCC::NotEqual => a != b,
        IntCC::SignedLessThan => a < b,
        IntCC::SignedGreaterThanOrEqual => a >= b,
        IntCC::SignedGreaterThan => a > b,
        IntCC::SignedLessThanOrEqual => a <= b,
        IntCC::UnsignedLessThan => x < y,
        IntCC::UnsignedGreaterThanOrEqual => x >= y,
        IntCC::UnsignedGreaterThan => x > y,
        IntCC::UnsignedLessThanOrEqual => x <= y,
    }
}
