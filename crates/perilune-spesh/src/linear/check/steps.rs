//! What each instruction of the processor reads and writes, and whether it may.

use super::super::assemble::{Base, Mem, RAX, RBP, RCX, RDX, RSP, Reg};
use super::super::intervals::ARGUMENTS;
use super::super::moves::Spot;
use super::decode::{self, At, Does};
use super::state::{Shown, What};
use super::{Checker, Done, Read, kept};
use crate::ssa::{Convention, Data, Opcode, Value};
use perilune_vm::machine::KEEPS;

/// Where words and floats are that are given one after the other.
pub(super) struct Places<'a> {
    words: &'a [Reg],
    floats: Reg,
}

impl Places<'_> {
    /// The next one, if it is in a register.
    pub(super) fn next(&mut self, is_float: bool) -> Option<Spot> {
        if is_float {
            self.floats += 1;
            return Some(Spot::Float(self.floats - 1));
        }
        let (&first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(Spot::Integer(first))
    }
}

pub(super) fn arguments() -> Places<'static> {
    Places { words: &ARGUMENTS, floats: 0 }
}

fn results() -> Places<'static> {
    Places { words: &[RAX, RDX], floats: 0 }
}

impl Checker<'_, '_> {
    // -- Places ---------------------------------------------------------------------------------------------

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
        let kept = Spot::Integer(KEEPS);
        let is_kept = self.form.jumps() && spot == kept && self.state.holds(kept, What::Kept(KEEPS));
        if spot == Spot::Integer(RSP) || is_kept {
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
            false => {
                self.wrong(format!("{}, which is no operand's, is read: {}", Shown(spot), self.held_at(spot)))
            }
        }
    }

    /// What is read here is an operand; whether it is.
    pub(super) fn read_operand(&mut self, spot: Spot) -> bool {
        let (state, mut is_one) = (&self.state, false);
        let here = |read: &&mut Read| read.from == spot && state.holds(spot, What::Name(read.name));
        for read in self.reads.iter_mut().filter(here) {
            is_one = true;
            // The same value may be read twice.
            if !std::mem::replace(&mut read.is_done, true) {
                break;
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

    // -- Instructions ---------------------------------------------------------------------------------------

    pub(super) fn does(&mut self, does: Does) -> Done {
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
                    Mem { base: Base::Reg(RBP), index: None, offset } => {
                        self.moved(to, &[What::Address(offset)])
                    }
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
                match self.spot(to).is_some() && self.may_move() {
                    true => drop(self.read_operand(spot)),
                    false => self.read(spot, true)?,
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

    /// Whether anything may be moved here, and what it is wanted for is looked at later: what is passed, and
    /// what is saved by a store that needs its register.
    fn may_move(&self) -> bool {
        let opcode = self.data().map(Data::opcode);
        let passes = |opcode: Opcode| opcode.is_call() || opcode == Opcode::Return || opcode.can_store();
        self.way.is_some() || opcode.is_none_or(passes)
    }

    /// What it is shifted by is in its register.
    fn shifts(&mut self, sources: &[At]) -> Done {
        let shift = match self.data() {
            Some(&Data::Binary { opcode: Opcode::Ishl | Opcode::Ushr | Opcode::Sshr, args }) => args,
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
        let Some(&Data::Call { args, .. }) = self.data() else {
            return self.wrong("a call that is none");
        };
        let args = self.form.func.list(args);
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

    /// The code is left: each value that is to be stored is where it has been told to be, and the frame's base in
    /// its register, from which the caller's is found.
    pub(super) fn departs(&mut self) -> Done {
        if self.is_reached {
            let frame = [
                (Spot::Integer(RBP), What::Address(0)),
                (Spot::Slot(0), What::Kept(RBP)),
                (Spot::Integer(KEEPS), What::Kept(KEEPS)),
            ];
            if let Some(&(spot, _)) = frame.iter().find(|&&(spot, what)| !self.state.holds(spot, what)) {
                return self.wrong(format!("the frame cannot be left: {}", self.held_at(spot)));
            }
            if self.state.stack % 16 != 0 {
                return self.wrong("the stack is not where a call needs it");
            }
            let at = 4 * self.number.unwrap_or_default();
            let args = self.data().map_or(&[][..], |data| self.form.func.args(data));
            for &value in &args[1..] {
                if let Some(name) = self.form.name(value) {
                    self.has(value, self.home(name, at))?;
                }
            }
        }
        self.is_reached = false;
        Ok(())
    }

    fn call(&mut self, callee: At) -> Done {
        self.read_callee(callee)?;
        self.has_arguments()?;
        if self.state.stack % 16 != 0 {
            return self.wrong("the stack is not where a call needs it");
        }
        let Some(&Data::Call { sig, .. }) = self.data() else { unreachable!("a call") };
        let convention = self.form.func.signature_of(sig).convention;
        let keeps_all = convention == Convention::Preserving;
        let kept = kept(convention);
        let lowest = self.lowest;
        self.state.held.retain(|&(spot, what)| match spot {
            Spot::Integer(r) => keeps_all && what != What::New || kept.contains(&r),
            Spot::Float(_) => keeps_all && what != What::New,
            // The callee's, if it is an argument.
            Spot::Slot(offset) => offset >= lowest,
        });
        self.unread.clear();
        self.state.compared = false;
        let (mut places, mut count) = (results(), [0, 2]);
        for result in self.form.func.results(self.inst().expect("a call")) {
            let is_float = self.is_float(result);
            let Some(spot) = places.next(is_float) else { return self.wrong("a result on the stack") };
            self.state.add(spot, What::Result(count[is_float as usize]));
            count[is_float as usize] += 1;
        }
        Ok(())
    }

    fn has_results(&self) -> Done {
        let Some(&Data::Return { args }) = self.data() else { return self.wrong("a return that is none") };
        let mut places = results();
        for &value in self.form.func.list(args) {
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
        let is_other = |r: &&Reg| !self.state.holds(Spot::Integer(**r), What::Kept(**r));
        if let Some(&r) = kept(self.form.func.signature.convention).iter().find(is_other) {
            return self.wrong(format!("a register is not as it was: {}", self.held_at(Spot::Integer(r))));
        }
        self.is_reached = false;
        Ok(())
    }
}
