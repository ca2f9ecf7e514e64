//! Whether what has been written reads each value where it is: a checker of the allocator, and of all that
//! moves values.
//!
//! It knows the form, in which values have names and no places, and the bytes, in which there are places and
//! no names. It goes through the bytes, block by block, along all ways, and keeps for each register and each
//! word of the frame what it holds; where ways meet, it holds what it does on all of them. This goes on until
//! nothing changes. After J. Rideau and X. Leroy, *Validating Register Allocation and Spilling* (CC 2010), and
//! the checker of `regalloc2`; those look at a list of moves, this one at the code.
//!
//! # What must be so
//! - An instruction reads an operand where it is: the emitter says from where ([`Mark::Operand`]), the place
//!   holds the value then, and is read before something else is written there. No other place is read but
//!   what the instruction has written itself.
//! - What is moved for an instruction is read before it is written over.
//! - Arguments are where they are wanted when a call is made, results when the function ends, and what is
//!   passed where the parameters are when a block begins. Calls leave in registers what their convention says.
//! - A result is where the allocator says; what had its name before is no longer it.
//! - Whoever called finds the stack and the registers that are kept as they were.
//! - Jumps lead where the form says, and flags that are asked have been set by a comparison.
//!
//! What instructions compute is not looked at: that is what the random functions of `tests.rs` are for. Which
//! values are the same, and which are parts of others, is taken from the form.
//!
//! # Where it is run
//! In tests of this crate, in builds with assertions, and where [`Options::verify`] asks for it, as
//! `PERILUNE_SPESH_GENERATOR=checked` does. A mistake is a panic.
//!
//! # Rejected
//! - *Events of the emitter*, one for each move, load, store, read and write: as many places in it as there
//!   are instructions, each of which may be wrong or forgotten, and its moves would be believed to be encoded
//!   as they are meant.
//! - *A second derivation from the [`Allocation`]*: it would find what the allocator does wrong, not what the
//!   emitter does with that, where a scratch register is one too few.
//! - *Operands without marks*, any that the instruction has: two that have changed places would not be found.
//! - *What each instruction computes*, as an expression: that would be a second selection.
//!
//! [`Options::verify`]: crate::backend::Options

mod decode;

use super::assemble::{Base, Mem, RAX, RBP, RCX, RDX, RSP, Reg};
use super::form::{Form, Name, Number, Way, Where};
use super::intervals::{ARGUMENTS, Home};
use super::moves::Spot;
use super::scan::Allocation;
use crate::backend::clif::{CallConv, Inst, InstructionData, Opcode, Value};
use decode::{At, Does, Flags, Step, decode};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};

/// What the emitter says of a place in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// Ways lead here to the block at this place in the order.
    Block(usize),
    /// Its parameters are where they are to be.
    Begins(usize),
    /// The instruction begins, behind what is moved for it.
    Instruction(Number),
    /// It reads the value from here.
    Operand(Name, Spot),
    /// What is jumped to from here on, or gone on with, is this way out of the block.
    Way(usize),
    /// The next jump leads no further than within the instruction.
    Stays,
    /// The instruction ends; its results are made.
    Ends(Number),
    /// Behind the blocks there are moves that jumps lead to.
    Aside,
}

/// What the emitter says of the code.
#[derive(Default)]
pub(super) struct Trace {
    /// In order.
    pub marks: Vec<(u32, Mark)>,
    /// From the frame's base to each slot that the function has made.
    pub explicit: Vec<i32>,
    /// Where the code ends, and its constants begin.
    pub end: u32,
}

/// What a place holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Name(Name),
    Constant(u64),
    /// The address so far from the frame's base.
    Address(i32),
    /// What a register held when the function was called.
    Kept(Reg),
    /// A call has given it back: the first word is 0, the first float is 2.
    Result(u8),
    /// Something that the instruction at hand has written.
    New,
}

/// What is where.
#[derive(Clone)]
struct State {
    held: Vec<(Spot, What)>,
    /// From the frame's base to where the stack ends.
    stack: i32,
    /// The flags say how two operands compare.
    compared: bool,
}

impl State {
    fn holds(&self, spot: Spot, what: What) -> bool {
        self.held.contains(&(spot, what))
    }

    fn at(&self, spot: Spot) -> Vec<What> {
        self.held.iter().filter(|held| held.0 == spot).map(|held| held.1).collect()
    }

    fn add(&mut self, spot: Spot, what: What) {
        if !self.holds(spot, what) {
            self.held.push((spot, what));
        }
    }

    fn forget(&mut self, spot: Spot) {
        self.held.retain(|held| held.0 != spot);
    }

    fn drop_what(&mut self, is: impl Fn(What) -> bool) {
        self.held.retain(|held| !is(held.1));
    }

    /// What is true of both.
    fn meet(&mut self, other: &State) -> bool {
        let before = (self.held.len(), self.compared);
        self.held.retain(|held| other.held.contains(held));
        self.compared &= other.compared;
        before != (self.held.len(), self.compared)
    }
}

/// What is wrong.
pub(super) struct Wrong(String);

impl Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An operand of the instruction at hand.
struct Read {
    name: Name,
    from: Spot,
    is_done: bool,
}

struct Checker<'a, 'f> {
    form: &'a Form<'f>,
    found: &'a Allocation,
    bytes: &'a [u8],
    trace: &'a Trace,
    /// The mark where each block begins.
    begins: Vec<usize>,
    /// The block and the way that lead to each block with one way in.
    comes_from: Vec<(usize, usize)>,
    /// Where all blocks end.
    aside: u32,
    /// The lowest word of the frame that a value may be in.
    lowest: i32,
    /// What is where each block begins, of those that have been come to.
    before: Vec<Option<State>>,
    /// Blocks to go through.
    open: BTreeSet<usize>,

    // While a block is gone through.
    place: usize,
    state: State,
    /// There is a way to where it is.
    is_reached: bool,
    at: u32,
    number: Option<Number>,
    /// Where the instruction ends.
    until: u32,
    way: Option<usize>,
    /// The next jump is within the instruction, whatever else is there.
    stays: bool,
    reads: Vec<Read>,
    /// What has been moved for the instruction, and not been read.
    unread: Vec<Spot>,
    /// What is where jumps within the instruction lead.
    ahead: BTreeMap<u32, State>,
}

type Done = Result<(), Wrong>;

/// Registers that a function leaves as they were, besides the stack's.
const KEPT: [Reg; 6] = [3, RBP, 12, 13, 14, 15];

/// Looks at what has been written for the form.
pub(super) fn check(form: &Form<'_>, found: &Allocation, bytes: &[u8], trace: &Trace) -> Done {
    let count = form.blocks.len();
    let (mut begins, mut comes_from) = (vec![usize::MAX; count], vec![(0, 0); count]);
    for (n, (_, mark)) in trace.marks.iter().enumerate() {
        if let Mark::Block(place) = *mark {
            begins[place] = n;
        }
    }
    for place in 0..count {
        for (n, way) in form.ways(place).iter().enumerate() {
            comes_from[way.to] = (place, n);
        }
    }
    let state = State { held: Vec::new(), stack: 8, compared: false };
    let lowest = -8 * (found.saved.len() as i32 + found.slot_count as i32);
    let mut checker = Checker {
        form,
        found,
        bytes,
        trace,
        begins,
        comes_from,
        aside: trace.marks.last().map_or(0, |mark| mark.0),
        lowest,
        before: vec![None; count],
        open: BTreeSet::from([0]),
        place: 0,
        state: state.clone(),
        is_reached: true,
        at: 0,
        number: None,
        until: 0,
        way: None,
        stays: false,
        reads: Vec::new(),
        unread: Vec::new(),
        ahead: BTreeMap::new(),
    };
    checker.before[0] = Some(checker.entered(state));
    while let Some(place) = checker.open.pop_first() {
        checker.block(place)?;
    }
    Ok(())
}

/// Where words and floats are that are given one after the other.
struct Places<'a> {
    words: &'a [Reg],
    floats: Reg,
}

impl Places<'_> {
    /// The next one, if it is in a register.
    fn next(&mut self, is_float: bool) -> Option<Spot> {
        if is_float {
            self.floats += 1;
            return Some(Spot::Float(self.floats - 1));
        }
        let (&first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(Spot::Integer(first))
    }
}

fn arguments() -> Places<'static> {
    Places { words: &ARGUMENTS, floats: 0 }
}

fn results() -> Places<'static> {
    Places { words: &[RAX, RDX], floats: 0 }
}

impl Checker<'_, '_> {
    // -- What is wrong --------------------------------------------------------------------------------------

    fn wrong<T>(&self, what: impl Display) -> Result<T, Wrong> {
        let inst = self.number.and_then(|number| self.form.insts[number as usize]);
        let inst = inst.map_or("no instruction".into(), |inst| self.form.func.dfg.display_inst(inst).to_string());
        let position = 4 * self.number.unwrap_or(self.form.blocks[self.place].head);
        let block = self.form.order[self.place];
        Err(Wrong(format!("{what} (byte {:#x}, {block}, position {position}: {inst})", self.at)))
    }

    fn value(&self, name: Name) -> String {
        let value = self.form.func.dfg.values().find(|&value| self.form.name(value) == Some(name));
        value.map_or_else(|| format!("name {name}"), |value| value.to_string())
    }

    fn held_at(&self, spot: Spot) -> String {
        let of = |what: &What| match *what {
            What::Name(name) => self.value(name),
            other => format!("{other:?}"),
        };
        let all: Vec<String> = self.state.at(spot).iter().map(of).collect();
        format!("{} holds {}", Shown(spot), if all.is_empty() { "nothing".into() } else { all.join(", ") })
    }

    // -- What the form says ---------------------------------------------------------------------------------

    fn what(&self, value: Value) -> Option<What> {
        Some(match self.form.at(value) {
            Where::Named(name) => What::Name(name),
            Where::Integer(n) => What::Constant(n as u64),
            Where::Float(bits) => What::Constant(bits),
            Where::Stack(slot, offset) => {
                What::Address(self.trace.explicit[slot.as_u32() as usize] + offset)
            }
            Where::StackPointer => What::Address(self.state.stack),
            Where::Within | Where::Nowhere => return None,
        })
    }

    fn is_float(&self, value: Value) -> bool {
        self.form.ty(value).is_float()
    }

    fn home(&self, name: Name, position: u32) -> Spot {
        match self.found.home(name, position) {
            Home::Register(r) => Spot::register(self.form.classes[name as usize], r),
            Home::Slot => {
                let slot = self.found.slots[name as usize].map_or(i32::MAX / 16, |slot| slot as i32);
                Spot::Slot(-8 * (self.found.saved.len() as i32 + slot + 1))
            }
        }
    }

    fn inst(&self) -> Option<Inst> {
        self.number.and_then(|number| self.form.insts[number as usize])
    }

    fn data(&self) -> Option<&InstructionData> {
        self.inst().map(|inst| self.form.data(inst))
    }

    /// When the function is called.
    fn entered(&self, mut state: State) -> State {
        state.held.extend(KEPT.map(|r| (Spot::Integer(r), What::Kept(r))));
        let mut places = arguments();
        for &parameter in self.form.func.dfg.block_params(self.form.order[0]) {
            let spot = places.next(self.is_float(parameter)).expect("parameters are in registers");
            if let Some(name) = self.form.name(parameter) {
                state.add(spot, What::Name(name));
            }
        }
        state
    }

    // -- Ways -----------------------------------------------------------------------------------------------

    /// The parameters are what the way gives them, and nothing else is.
    fn pass(&self, state: &mut State, way: &Way) {
        let passed: Vec<(Name, Option<What>)> =
            self.form.passed(way).map(|(name, value)| (name, self.what(value))).collect();
        let mut more = Vec::new();
        for &(name, what) in &passed {
            let given = state.held.iter().filter(|held| Some(held.1) == what);
            more.extend(given.map(|held| (held.0, What::Name(name))));
        }
        state.drop_what(|what| passed.iter().any(|&(name, _)| what == What::Name(name)));
        state.held.extend(more);
    }

    /// The way leads to its block.
    fn arrive(&mut self, mut state: State, n: usize) -> Done {
        let Some(way) = self.form.ways(self.place).get(n) else {
            return self.wrong("a way that there is not");
        };
        state.drop_what(|what| matches!(what, What::New | What::Result(_)));
        state.compared = false;
        if self.form.blocks[way.to].ways_in > 1 {
            self.pass(&mut state, way);
        }
        let changed = match &mut self.before[way.to] {
            Some(before) if before.stack != state.stack => return self.wrong("the stack is not the same"),
            Some(before) => before.meet(&state),
            none => {
                *none = Some(state);
                true
            }
        };
        if changed {
            self.open.insert(way.to);
        }
        Ok(())
    }

    fn label(&self, n: usize) -> Option<u32> {
        let way = self.form.ways(self.place).get(n)?;
        Some(self.trace.marks[self.begins[way.to]].0)
    }

    /// A jump that may be taken.
    fn jump(&mut self, to: u32) -> Done {
        let is_within = self.at < to && to <= self.until && to < self.aside;
        let stays = std::mem::take(&mut self.stays);
        match self.way.filter(|_| !stays) {
            Some(n) if self.label(n) == Some(to) => self.arrive(self.state.clone(), n),
            Some(n) if !is_within => self.jump_aside(to, n),
            _ if is_within => {
                self.unread.clear();
                let state = self.state_ahead();
                match self.ahead.get_mut(&to) {
                    Some(other) => drop(other.meet(&state)),
                    None => drop(self.ahead.insert(to, state)),
                }
                Ok(())
            }
            _ => self.wrong("a jump that leads out of its instruction"),
        }
    }

    /// What is where a jump within the instruction leads. An operand that is where the result will be may be
    /// that.
    fn state_ahead(&mut self) -> State {
        let mut state = self.state.clone();
        let Some(result) = self.inst().and_then(|inst| self.form.made(inst).next()) else { return state };
        let spot = self.home(result, 4 * self.number.unwrap_or_default() + 2);
        if self.read_operand(spot) {
            state.add(spot, What::New);
        }
        state
    }

    /// A jump to moves that lead on.
    fn jump_aside(&mut self, to: u32, n: usize) -> Done {
        let (state, unread, at) = (self.state.clone(), std::mem::take(&mut self.unread), self.at);
        self.at = to;
        loop {
            let Step { end, does, .. } = self.step()?;
            match does {
                Does::Jump(to) if self.label(n) == Some(to) => break,
                Does::Copy { .. } | Does::Constant { .. } | Does::Address { .. } | Does::Exchange(..) => {
                    self.does(does)?;
                }
                _ => return self.wrong("a way that leads somewhere else"),
            }
            self.at = end;
        }
        let state = std::mem::replace(&mut self.state, state);
        self.arrive(state, n)?;
        (self.unread, self.at) = (unread, at);
        Ok(())
    }

    // -- Blocks ---------------------------------------------------------------------------------------------

    fn block(&mut self, place: usize) -> Done {
        self.place = place;
        self.state = self.before[place].clone().expect("a block that has been come to");
        (self.is_reached, self.number, self.way) = (true, None, None);
        self.stays = false;
        let mut next = self.begins[place];
        self.at = if place == 0 { 0 } else { self.trace.marks[next].0 };
        self.reads.clear();
        self.unread.clear();
        loop {
            if let Some(state) = self.ahead.remove(&self.at) {
                match self.is_reached {
                    true => drop(self.state.meet(&state)),
                    false => self.state = state,
                }
                self.is_reached = true;
                self.unread.clear();
            }
            while let Some(&(at, mark)) = self.trace.marks.get(next)
                && at == self.at
            {
                match mark {
                    Mark::Block(to) if to != place => return self.fall_through(to),
                    Mark::Aside if self.is_reached => return self.wrong("code that leads past its end"),
                    Mark::Aside => return Ok(()),
                    mark => self.mark(mark, next)?,
                }
                next += 1;
            }
            if !self.is_reached && self.number.is_none() {
                return Ok(());
            }
            if self.at >= self.trace.end || self.trace.marks.get(next).is_some_and(|mark| mark.0 < self.at) {
                return self.wrong("code that leads past its end");
            }
            let step = self.step()?;
            if self.is_reached {
                self.flags(&step)?;
                self.does(step.does)?;
            }
            self.at = step.end;
        }
    }

    fn fall_through(&mut self, to: usize) -> Done {
        if !self.is_reached {
            return Ok(());
        }
        let is_way = |&n: &usize| self.form.ways(self.place).get(n).is_some_and(|way| way.to == to);
        match self.way.filter(is_way) {
            Some(n) => self.arrive(self.state.clone(), n),
            None => self.wrong("a block that is gone on with, though no way leads there"),
        }
    }

    fn step(&self) -> Result<Step, Wrong> {
        match decode(&self.bytes[..self.trace.end as usize], self.at) {
            Some(step) => Ok(step),
            None => self.wrong("bytes that are no known instruction"),
        }
    }

    fn flags(&mut self, step: &Step) -> Done {
        if step.is_conditional && !self.state.compared {
            return self.wrong("flags are asked that nothing has set");
        }
        match step.flags {
            Flags::Kept => {}
            Flags::Compared => self.state.compared = true,
            Flags::Changed => self.state.compared = false,
        }
        Ok(())
    }

    fn mark(&mut self, mark: Mark, n: usize) -> Done {
        match mark {
            Mark::Block(_) | Mark::Aside => {}
            Mark::Begins(place) => {
                self.state.drop_what(|what| what == What::New);
                if place > 0 && self.form.blocks[place].ways_in == 1 {
                    let (from, n) = self.comes_from[place];
                    let mut state = self.state.clone();
                    self.pass(&mut state, &self.form.ways(from)[n]);
                    self.state = state;
                }
            }
            Mark::Instruction(number) => {
                self.number = Some(number);
                let ends = self.trace.marks[n..].iter().find(|mark| mark.1 == Mark::Ends(number));
                self.until = ends.map_or(0, |mark| mark.0);
                self.reads.clear();
                self.unread.clear();
                self.state.compared = false;
            }
            Mark::Operand(name, from) if self.is_reached => {
                if !self.state.holds(from, What::Name(name)) {
                    return self.wrong(format!("{} is read, and {}", self.value(name), self.held_at(from)));
                }
                self.reads.push(Read { name, from, is_done: false });
            }
            Mark::Operand(..) => {}
            Mark::Way(n) => self.way = Some(n),
            Mark::Stays => self.stays = true,
            Mark::Ends(_) => {
                self.ends()?;
                self.number = None;
                self.unread.clear();
            }
        }
        Ok(())
    }

    /// The instruction has been written.
    fn ends(&mut self) -> Done {
        let Some(inst) = self.inst() else { return self.wrong("an instruction that is none") };
        if let Some(read) = self.reads.iter().find(|read| !read.is_done) {
            return self.wrong(format!("{} in {} is not read", self.value(read.name), Shown(read.from)));
        }
        let (form, at) = (self.form, 4 * self.number.unwrap_or_default() + 2);
        let is_call = form.data(inst).opcode().is_call();
        if !is_call && form.data(inst).opcode() != Opcode::Return {
            let mut missing = None;
            form.operands(inst, &mut |name, _| {
                if !self.reads.iter().any(|read| read.name == name) {
                    missing = Some(name);
                }
            });
            if let Some(name) = missing
                && self.is_reached
            {
                return self.wrong(format!("{} is an operand, and is not read", self.value(name)));
            }
        }
        let (mut count, mut made) = ([0, 2], Vec::new());
        for &result in form.func.dfg.inst_results(inst) {
            let count = &mut count[self.is_float(result) as usize];
            let what = if is_call { What::Result(*count) } else { What::New };
            *count += 1;
            let own = form.made(inst).find(|&name| form.name(result) == Some(name));
            let Some(name) = own else { continue };
            let spot = self.home(name, at);
            if self.is_reached && !self.state.holds(spot, what) {
                return self.wrong(format!("{} has not been made: {}", self.value(name), self.held_at(spot)));
            }
            made.push((spot, What::Name(name)));
        }
        let is_made = |what| made.iter().any(|of| of.1 == what);
        self.state.drop_what(|what| matches!(what, What::New | What::Result(_)) || is_made(what));
        for (spot, what) in made {
            self.state.forget(spot);
            self.state.add(spot, what);
        }
        Ok(())
    }

    // -- Instructions of the processor ----------------------------------------------------------------------

    /// The place that an operand is, if it is one where values are.
    fn spot(&self, at: At) -> Option<Spot> {
        match at {
            At::Integer(r) => Some(Spot::Integer(r)),
            At::Float(r) => Some(Spot::Float(r)),
            At::Memory(Mem { base: Base::Reg(RSP), index: None, offset }) => {
                Some(Spot::Slot(self.state.stack + offset))
            }
            At::Memory(Mem { base: Base::Reg(RBP), index: None, offset }) if offset >= self.lowest => {
                Some(Spot::Slot(offset))
            }
            At::Memory(_) => None,
        }
    }

    /// The registers of an address are read.
    fn read_address(&mut self, at: At) -> Done {
        let At::Memory(Mem { base, index, .. }) = at else { return Ok(()) };
        match base {
            Base::Reg(RBP) if !self.state.holds(Spot::Integer(RBP), What::Address(0)) => {
                self.wrong("the frame's base is not in its register")?;
            }
            Base::Reg(RBP | RSP) | Base::Constant(_) => {}
            Base::Reg(base) => self.read(Spot::Integer(base), true)?,
        }
        match index {
            Some((index, _)) => self.read(Spot::Integer(index), true),
            None => Ok(()),
        }
    }

    /// Something is computed from what is here.
    fn read(&mut self, spot: Spot, is_source: bool) -> Done {
        if spot == Spot::Integer(RSP) {
            return Ok(());
        }
        self.unread.retain(|&unread| unread != spot);
        let is_operand = self.reads.iter().any(|read| read.from == spot);
        if self.read_operand(spot) {
            return Ok(());
        }
        let is_new = self.state.holds(spot, What::New);
        match is_operand && is_source {
            true => {
                let read = self.reads.iter().find(|read| read.from == spot).expect("just seen");
                self.wrong(format!("{} is read, and {}", self.value(read.name), self.held_at(spot)))
            }
            false if is_new => Ok(()),
            false => self.wrong(format!("{}, which is no operand's, is read: {}", Shown(spot), self.held_at(spot))),
        }
    }

    /// What is read here is an operand; whether it is.
    fn read_operand(&mut self, spot: Spot) -> bool {
        let mut is_one = false;
        for read in self.reads.iter_mut().filter(|read| read.from == spot) {
            if self.state.holds(spot, What::Name(read.name)) {
                (read.is_done, is_one) = (true, true);
            }
        }
        is_one
    }

    /// Something else is here from now on.
    fn write(&mut self, spot: Spot, whats: &[What]) -> Done {
        let is_due = |read: &&Read| read.from == spot && !read.is_done;
        if let Some(read) = self.reads.iter().find(is_due) {
            let what = format!("{} is written over before it is read", self.value(read.name));
            return self.wrong(format!("{what}: {}", self.held_at(spot)));
        }
        if self.unread.contains(&spot) {
            return self.wrong(format!("what is moved to {} is not read", Shown(spot)));
        }
        match spot {
            Spot::Integer(RSP) => return self.wrong("the stack is written"),
            Spot::Slot(offset) if offset % 8 != 0 || offset > 0 => {
                return self.wrong("no word of the frame is written");
            }
            _ => {}
        }
        self.state.forget(spot);
        for &what in whats {
            self.state.add(spot, what);
        }
        Ok(())
    }

    /// The same, by the instruction at hand, which may read it.
    fn write_new(&mut self, at: At, whats: &[What]) -> Done {
        let Some(spot) = self.spot(at) else { return Ok(()) };
        self.write(spot, whats)?;
        if self.number.is_some() {
            self.state.add(spot, What::New);
        }
        Ok(())
    }

    /// The same, of what is moved to there.
    fn moved(&mut self, to: At, whats: &[What]) -> Done {
        self.write_new(to, whats)?;
        if self.number.is_some() {
            self.unread.extend(self.spot(to));
        }
        Ok(())
    }

    fn does(&mut self, does: Does) -> Done {
        match does {
            Does::Nothing => Ok(()),
            Does::Copy { to, from } => self.copy(to, from),
            Does::Constant { to, bits } => {
                self.read_address(to)?;
                self.moved(to, &[What::Constant(bits)])
            }
            Does::Address { to, of } => {
                let (to, from) = (At::Integer(to), At::Memory(of));
                self.read_address(from)?;
                match of {
                    Mem { base: Base::Reg(RBP), index: None, offset } => self.moved(to, &[What::Address(offset)]),
                    Mem { base: Base::Reg(RSP), index: None, offset } => {
                        self.moved(to, &[What::Address(self.state.stack + offset)])
                    }
                    _ => self.computed(to),
                }
            }
            Does::Exchange(a, b) => {
                let [x, y] = [a, b].map(Spot::Integer);
                for spot in [x, y] {
                    self.unread.retain(|&unread| unread != spot);
                    self.read_operand(spot);
                }
                let [of_x, of_y] = [x, y].map(|spot| self.state.at(spot));
                self.moved(At::Integer(a), &of_y)?;
                self.moved(At::Integer(b), &of_x)
            }
            Does::Compute { sources, changed, written } => {
                for &at in sources.iter().chain(&changed) {
                    self.read_address(at)?;
                }
                for &at in &written {
                    self.read_address(at)?;
                }
                for spot in sources.iter().filter_map(|&at| self.spot(at)).collect::<Vec<_>>() {
                    self.read(spot, true)?;
                }
                for spot in changed.iter().filter_map(|&at| self.spot(at)).collect::<Vec<_>>() {
                    self.read(spot, false)?;
                }
                self.shifts(&sources)?;
                changed.iter().chain(&written).try_for_each(|&at| self.computed(at))
            }
            Does::Push(r) => {
                self.state.stack -= 8;
                let held = self.state.at(Spot::Integer(r));
                self.write(Spot::Slot(self.state.stack), &held)
            }
            Does::Pop(r) => {
                let held = self.state.at(Spot::Slot(self.state.stack));
                self.state.stack += 8;
                self.write_new(At::Integer(r), &held)
            }
            Does::MoveStack(more) => {
                self.state.stack += more;
                Ok(())
            }
            Does::JumpIf(to) => self.jump(to),
            Does::Jump(to) => {
                self.jump(to)?;
                self.is_reached = false;
                Ok(())
            }
            Does::Call(callee) => self.call(callee),
            Does::JumpTo(callee) => {
                self.read_callee(callee)?;
                self.has_arguments()?;
                self.leaves()
            }
            Does::Return => {
                self.has_results()?;
                self.leaves()
            }
            Does::Trap => {
                self.is_reached = false;
                Ok(())
            }
        }
    }

    /// The instruction at hand makes this, of whatever it has read.
    fn computed(&mut self, at: At) -> Done {
        match self.number {
            Some(_) => self.write_new(at, &[]),
            None => self.wrong("something is computed where no instruction is"),
        }
    }

    fn copy(&mut self, to: At, from: At) -> Done {
        self.read_address(from)?;
        self.read_address(to)?;
        let held = match (self.spot(from), from) {
            (Some(Spot::Integer(RSP)), _) => vec![What::Address(self.state.stack)],
            (Some(spot), _) => {
                self.unread.retain(|&unread| unread != spot);
                // What leaves registers is an operand; between them anything may be moved.
                match self.spot(to).is_none() {
                    true => self.read(spot, true)?,
                    false => drop(self.read_operand(spot)),
                }
                self.state.at(spot)
            }
            (None, At::Memory(Mem { base: Base::Constant(at), .. })) => {
                let Some(bits) = decode::constant(self.bytes, at) else {
                    return self.wrong("a constant that there is not");
                };
                vec![What::Constant(bits)]
            }
            (None, _) if self.number.is_none() => return self.wrong("what no value is in is moved"),
            (None, _) => Vec::new(),
        };
        let held: Vec<What> = held.into_iter().filter(|&what| what != What::New).collect();
        self.moved(to, &held)
    }

    /// What it is shifted by is in its register.
    fn shifts(&mut self, sources: &[At]) -> Done {
        let shift = match self.data() {
            Some(&InstructionData::Binary { opcode: Opcode::Ishl | Opcode::Ushr | Opcode::Sshr, args }) => {
                args
            }
            _ => return Ok(()),
        };
        let by = self.what(shift[1]);
        let spot = Spot::Integer(RCX);
        if sources.contains(&At::Integer(RCX)) && !by.is_some_and(|by| self.state.holds(spot, by)) {
            return self.wrong(format!("what it is shifted by is not there: {}", self.held_at(spot)));
        }
        Ok(())
    }

    // -- Calls ----------------------------------------------------------------------------------------------

    fn read_callee(&mut self, callee: At) -> Done {
        self.read_address(callee)?;
        self.spot(callee).map_or(Ok(()), |spot| self.read(spot, true))
    }

    /// The value is in this place.
    fn has(&self, value: Value, spot: Spot) -> Done {
        match self.what(value) {
            Some(what) if self.state.holds(spot, what) => Ok(()),
            _ => self.wrong(format!("{value} is not where it is wanted: {}", self.held_at(spot))),
        }
    }

    fn has_arguments(&mut self) -> Done {
        let Some(InstructionData::CallIndirect { .. }) = self.data() else {
            return self.wrong("a call that is none");
        };
        let args = self.form.func.dfg.inst_args(self.inst().expect("a call"));
        let (mut places, mut on_stack) = (arguments(), self.state.stack);
        for &value in &args[1..] {
            let spot = places.next(self.is_float(value)).unwrap_or_else(|| {
                on_stack += 8;
                Spot::Slot(on_stack - 8)
            });
            self.has(value, spot)?;
        }
        Ok(())
    }

    fn call(&mut self, callee: At) -> Done {
        self.read_callee(callee)?;
        self.has_arguments()?;
        if self.state.stack % 16 != 0 {
            return self.wrong("the stack is not where a call needs it");
        }
        let Some(&InstructionData::CallIndirect { sig_ref, .. }) = self.data() else { unreachable!("a call") };
        let keeps_all = self.form.func.dfg.signatures[sig_ref].call_conv == CallConv::PreserveAll;
        let lowest = self.lowest;
        self.state.held.retain(|&(spot, what)| match spot {
            Spot::Integer(r) => keeps_all && what != What::New || KEPT.contains(&r),
            Spot::Float(_) => keeps_all && what != What::New,
            // The callee's, if it is an argument.
            Spot::Slot(offset) => offset >= lowest,
        });
        self.unread.clear();
        self.state.compared = false;
        let (mut places, mut count) = (results(), [0, 2]);
        for &result in self.form.func.dfg.inst_results(self.inst().expect("a call")) {
            let is_float = self.is_float(result);
            let Some(spot) = places.next(is_float) else { return self.wrong("a result on the stack") };
            self.state.add(spot, What::Result(count[is_float as usize]));
            count[is_float as usize] += 1;
        }
        Ok(())
    }

    fn has_results(&self) -> Done {
        let inst = match (self.inst(), self.data()) {
            (Some(inst), Some(InstructionData::MultiAry { opcode: Opcode::Return, .. })) => inst,
            _ => return self.wrong("a return that is none"),
        };
        let mut places = results();
        for &value in self.form.func.dfg.inst_args(inst) {
            let Some(spot) = places.next(self.is_float(value)) else {
                return self.wrong("a result on the stack");
            };
            self.has(value, spot)?;
        }
        Ok(())
    }

    /// Whoever called goes on.
    fn leaves(&mut self) -> Done {
        if self.state.stack != 8 {
            return self.wrong(format!("the stack is left {} bytes off", self.state.stack - 8));
        }
        let is_other = |r: &Reg| !self.state.holds(Spot::Integer(*r), What::Kept(*r));
        if let Some(r) = KEPT.into_iter().find(is_other) {
            return self.wrong(format!("a register is not as it was: {}", self.held_at(Spot::Integer(r))));
        }
        self.is_reached = false;
        Ok(())
    }
}

/// A place, as people know it.
struct Shown(Spot);

impl Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 8] = ["RAX", "RCX", "RDX", "RBX", "RSP", "RBP", "RSI", "RDI"];
        match self.0 {
            Spot::Integer(r) if r < 8 => f.write_str(NAMES[r as usize]),
            Spot::Integer(r) => write!(f, "R{r}"),
            Spot::Float(r) => write!(f, "XMM{r}"),
            Spot::Slot(offset) => write!(f, "[RBP{offset:+}]"),
        }
    }
}
