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

pub(super) mod decode;
mod state;
mod steps;

use super::assemble::{RBP, Reg};
use super::form::{Form, Name, Number, Way, Where};
use super::intervals::Home;
use super::moves::Spot;
use super::scan::Allocation;
use crate::ssa::{Convention, Data, Inst, Opcode, Value};
use decode::{Does, Flags, Step, decode};
use perilune_vm::machine::KEEPS;
use state::{Shown, State, What};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use steps::arguments;

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
    /// The code is left here, and where the instruction's values are has been told.
    Departs,
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

/// Registers that a function of this convention leaves as they were, besides the stack's.
fn kept(convention: Convention) -> &'static [Reg] {
    match convention {
        Convention::Machine => &[KEEPS, RBP],
        _ => &[3, RBP, 12, 13, 14, 15],
    }
}

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

impl Checker<'_, '_> {
    // -- What is wrong --------------------------------------------------------------------------------------

    fn wrong<T>(&self, what: impl Display) -> Result<T, Wrong> {
        let inst = self.number.and_then(|number| self.form.insts[number as usize]);
        let inst = inst.map_or("no instruction".into(), |inst| self.form.func.shown(inst).to_string());
        let position = 4 * self.number.unwrap_or(self.form.blocks[self.place].head);
        let block = self.form.order[self.place];
        Err(Wrong(format!("{what} (byte {:#x}, {block}, position {position}: {inst})", self.at)))
    }

    fn value(&self, name: Name) -> String {
        let value = self.form.func.values().find(|&value| self.form.name(value) == Some(name));
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
            Where::Stack(slot, offset) => What::Address(self.trace.explicit[slot.index()] + offset),
            Where::StackPointer => What::Address(self.state.stack),
            Where::Kept => What::Kept(KEEPS),
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

    fn data(&self) -> Option<&Data> {
        self.inst().map(|inst| self.form.data(inst))
    }

    /// When the function is called.
    fn entered(&self, mut state: State) -> State {
        let kept = kept(self.form.func.signature.convention);
        state.held.extend(kept.iter().map(|&r| (Spot::Integer(r), What::Kept(r))));
        let mut places = arguments();
        for parameter in self.form.params(0) {
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
                self.choose_in_place();
                let state = self.state.clone();
                match self.ahead.get_mut(&to) {
                    Some(other) => drop(other.meet(&state)),
                    None => drop(self.ahead.insert(to, state)),
                }
                Ok(())
            }
            _ => self.wrong("a jump that leads out of its instruction"),
        }
    }

    /// What is chosen may be where the result will be: then it is not moved.
    fn choose_in_place(&mut self) {
        let Some(&Data::Select { args: [_, x, y] }) = self.data() else { return };
        let Some(result) = self.inst().and_then(|inst| self.form.made(inst).next()) else { return };
        let spot = self.home(result, 4 * self.number.unwrap_or_default() + 2);
        let chosen = [x, y].map(|value| self.what(value));
        let is_there = chosen.into_iter().flatten().any(|what| self.state.holds(spot, what));
        if is_there && self.read_operand(spot) {
            self.state.add(spot, What::New);
        }
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
            Mark::Departs => self.departs()?,
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
        self.choose_in_place();
        if let Some(read) = self.reads.iter().find(|read| !read.is_done) {
            return self.wrong(format!("{} in {} is not read", self.value(read.name), Shown(read.from)));
        }
        let (form, at) = (self.form, 4 * self.number.unwrap_or_default() + 2);
        let is_call = form.data(inst).opcode().is_call();
        if !is_call && !matches!(form.data(inst).opcode(), Opcode::Return | Opcode::Depart) {
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
        for result in form.func.results(inst) {
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
        // What a store needs a register for, the value of which is saved, is moved back there.
        let moves_on = form.data(inst).opcode().is_terminator() || form.data(inst).opcode().can_store();
        let is_result = |spot: &Spot| made.iter().any(|of| of.0 == *spot);
        if let Some(&spot) = self.unread.iter().find(|spot| !moves_on && !is_result(spot)) {
            return self.wrong(format!("what is moved to {} is not read", Shown(spot)));
        }
        let is_made = |what| made.iter().any(|of| of.1 == what);
        self.state.drop_what(|what| matches!(what, What::New | What::Result(_)) || is_made(what));
        for (spot, what) in made {
            self.state.forget(spot);
            self.state.add(spot, what);
        }
        Ok(())
    }
}
