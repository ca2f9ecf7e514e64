//! Instructions of the processor for those of the form, with what the allocator has found.

mod instructions;

use super::assemble::{
    Alu, Assembler, Base, Cc, Finished, Label, Mem, RAX, RBP, RCX, RDX, RSP, Reg, Rm, Width,
};
use super::check::{Mark, Trace};
use super::form::{Form, Name, Number, Where, compared};
use super::intervals::{ARGUMENTS, CHANGED, Home, Sets};
use super::moves::{self, FLOAT_SCRATCH, From, SCRATCH, Spot};
use super::scan::{Allocation, are_split};
use super::{constant, slot};
use crate::positions::{Place, Positions};
use crate::ssa::{Data, FloatCC, Inst, IntCC, Opcode, Slot, Type, Value};
use perilune_vm::machine::{self, Departures, KEEPS};

/// Moves that are made at once.
type Moves = Vec<(Spot, From)>;

/// What is written: bytes, and what is known of them.
pub(super) struct Written {
    pub bytes: Vec<u8>,
    pub positions: Positions,
    pub frame: u32,
    pub traps: Vec<u32>,
    /// Where it is left.
    pub departures: Box<Departures>,
    /// If it is to be checked.
    pub trace: Option<Trace>,
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
    aside: Vec<(Label, Moves, usize)>,
    /// From the frame's base to the end of what is saved.
    saved: i32,
    /// From the frame's base to each slot that the function has made.
    explicit: Vec<i32>,
    /// Below what is saved.
    size: i32,
    places: Vec<(u32, Option<Place>)>,
    traps: Vec<u32>,
    /// What the checker is told.
    marks: Option<Vec<(u32, Mark)>>,
    departures: Box<Departures>,
    /// Where the number of one of them leads to leaving.
    departs: Option<Label>,
}

/// No frame is larger.
const LARGEST_FRAME: i32 = 68 << 10;
/// What a guard page has. Frames touch each of their pages in order, so that none reaches past one.
const PAGE: i32 = 4 << 10;

/// Writes the function; `None` if its frame would be too large. What is said of it to the checker is kept if
/// it is to be `checked`. The code has the address of the departures that are given, and fills them.
pub(super) fn emit(
    form: &Form<'_>,
    needed: &Sets,
    found: &Allocation,
    (checked, departures): (bool, Box<Departures>),
) -> Option<Written> {
    let saved = 8 * found.saved.len() as i32;
    let mut below = saved + 8 * found.slot_count as i32;
    let mut explicit = Vec::new();
    for &size in form.func.slots() {
        below = (below + size as i32 + 15) & !15;
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
        marks: checked.then(Vec::new),
        departures,
        departs: None,
    };
    emitter.find_moves();
    emitter.write();
    let Emitter { asm, places, traps, marks, explicit, departures, .. } = emitter;
    let end = asm.at();
    let Finished { bytes, shrunk } = asm.finish();
    let ends = places.iter().skip(1).map(|of| of.0).chain([end]);
    let ranges = places.iter().zip(ends).filter_map(|(&(start, place), end)| {
        let [start, end] = [start, end].map(|at| shrunk.moved(at));
        Some((start..end, place?))
    });
    let positions = Positions::from_ranges(ranges.filter(|(range, _)| !range.is_empty()));
    let traps = traps.into_iter().map(|at| shrunk.moved(at)).collect();
    let trace = marks.map(|marks| Trace {
        marks: marks.into_iter().map(|(at, mark)| (shrunk.moved(at), mark)).collect(),
        explicit,
        end: shrunk.moved(end),
    });
    Some(Written { bytes, positions, frame: (saved + size) as u32, traps, departures, trace })
}

/// What calls pass on the stack.
fn outgoing(form: &Form<'_>) -> i32 {
    let words = |inst: &Inst| match form.data(*inst) {
        Data::Call { opcode: Opcode::CallIndirect, args, .. } => {
            args.len() as i32 - 1 - ARGUMENTS.len() as i32
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
            Where::Kept => From::Spot(Spot::Integer(KEEPS)),
            Where::Within | Where::Nowhere => unreachable!("what is passed has a place"),
        }
    }

    fn in_slot(&self, slot: Slot, offset: i32) -> Mem {
        Mem::at(RBP, self.explicit[slot.index()] + offset)
    }

    fn result(&self, inst: Inst) -> Reg {
        let result = self.form.func.result(inst).expect("it makes something");
        let name = self.form.name(result).expect("a result that is used");
        match self.found.home(name, 4 * self.at + 2) {
            Home::Register(r) => r,
            Home::Slot => unreachable!("a result is made in a register"),
        }
    }

    fn operand(&mut self, value: Value) -> Operand {
        match self.form.at(value) {
            Where::Named(name) => {
                let from = self.spot_at(name, 4 * self.at);
                self.mark(Mark::Operand(name, from));
                match from {
                    Spot::Integer(r) | Spot::Float(r) => Operand::Reg(r),
                    Spot::Slot(offset) => Operand::Mem(slot(offset)),
                }
            }
            Where::Integer(n) => Operand::Constant(n),
            Where::Float(bits) => Operand::Mem(constant(self.asm.constant(bits))),
            Where::Stack(slot, offset) => {
                let mem = self.in_slot(slot, offset);
                self.asm.lea(SCRATCH, mem);
                Operand::Reg(SCRATCH)
            }
            Where::StackPointer => Operand::Reg(RSP),
            Where::Kept => Operand::Reg(KEEPS),
            Where::Within => match *self.form.within(value).expect("part of others") {
                Data::Load { arg, offset, .. } => Operand::Mem(self.address(arg, offset)),
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
        let Some(&Data::Binary { opcode: Opcode::Iadd, args }) = self.form.within(value) else {
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
            Some(&Data::Binary { opcode: Opcode::Ishl, args }) => {
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
        while let Some(&Data::Binary { opcode: Opcode::Iadd, args }) = self.form.within(value) {
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
            for (n, pair) in parts.windows(2).enumerate() {
                let [a, b] = [pair[0], pair[1]].map(|part| &self.found.parts[part as usize]);
                let at = b.start();
                let begins_block = blocks.binary_search_by_key(&at, |block| block.start()).is_ok();
                // Where a block lies before one that makes what it reads it is made anew.
                if begins_block || self.is_made(name as u32, at) {
                    continue;
                }
                assert_eq!(a.end(), at, "a value that is needed is somewhere");
                // Moves before an instruction are made at once: where it has been loaded for this one alone, it
                // comes from where it was before that.
                let begins_here = |n: &usize| self.found.parts[parts[*n] as usize].start() >= at & !3;
                let before = (0..=n).rev().find(|n| !begins_here(n)).unwrap_or(0);
                let [from, to] = [self.found.parts[parts[before] as usize].home, b.home];
                let [from, to] = [from, to].map(|home| home.expect("every part has a place"));
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
    fn moves_on(&self, place: usize, n: usize) -> Moves {
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

    /// Says something to the checker.
    fn mark(&mut self, mark: Mark) {
        if let Some(marks) = &mut self.marks {
            marks.push((self.asm.at(), mark));
        }
    }

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
        // What is saved has been touched, and the last page is by whoever is called.
        for n in 1..=self.size / PAGE {
            self.asm.load(Width::W64, SCRATCH, Mem::at(RSP, -n * PAGE));
        }
        if self.size > 0 {
            self.asm.alu_immediate(Alu::Sub, Width::W64, Rm::Reg(RSP), i64::from(self.size));
        }
        for place in 0..self.form.blocks.len() {
            self.asm.bind(self.labels[place]);
            self.mark(Mark::Block(place));
            self.set_place(None);
            let (head, last) = (self.form.blocks[place].head, self.form.blocks[place].last);
            if place == 0 {
                self.take_parameters();
            } else if self.form.blocks[place].ways_in == 1 {
                let (from, n) = self.comes_from[place];
                let moves = self.moves_on(from, n);
                moves::make(&mut self.asm, &moves);
            }
            self.mark(Mark::Begins(place));
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
                self.set_place(self.form.func.place(inst).map(Place));
                self.mark(Mark::Instruction(number));
                self.instruction(place, inst);
                self.mark(Mark::Ends(number));
                for name in form.made(inst) {
                    self.store_made(name, 4 * number + 2);
                }
            }
        }
        self.set_place(None);
        self.mark(Mark::Aside);
        for (label, moves, to) in std::mem::take(&mut self.aside) {
            self.asm.bind(label);
            moves::make(&mut self.asm, &moves);
            self.asm.jump(self.labels[to]);
        }
        if let Some(departs) = self.departs {
            self.asm.bind(departs);
            self.asm.push(SCRATCH);
            let table = std::ptr::from_ref(&*self.departures) as i64;
            self.asm.mov_immediate(SCRATCH, table, true);
            self.asm.push(SCRATCH);
            self.asm.mov_immediate(SCRATCH, machine::depart() as i64, true);
            self.asm.jump_to(SCRATCH);
        }
    }

    fn take_parameters(&mut self) {
        let (mut words, mut floats) = (ARGUMENTS.iter(), 0..8);
        let mut moves = Vec::new();
        for parameter in self.form.params(0) {
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
    fn way(&self, place: usize, n: usize) -> (usize, Moves) {
        let to = self.form.ways(place)[n].to;
        // Else it makes them itself.
        let moves = if self.form.blocks[to].ways_in == 1 { Vec::new() } else { self.moves_on(place, n) };
        (to, moves)
    }

    fn go_on(&mut self, place: usize, n: usize) {
        let (to, moves) = self.way(place, n);
        self.mark(Mark::Way(n));
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
        self.mark(Mark::Way(1 - on));
        self.jump_if(flags, label);
        self.mark(Mark::Way(on));
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
                self.mark(Mark::Stays);
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
}
