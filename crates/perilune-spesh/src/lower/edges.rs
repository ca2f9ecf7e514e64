//! Ways from one instruction to another, and what is known where they meet.
//!
//! Where a loop begins, and, after the first pass, wherever ways meet, it is fixed what is known of
//! registers: a way guards, stores and makes what it has otherwise. What a draft does not know yet is as the
//! first way leaves it, and becomes less with each further one. Of a table that is not made all ways have to
//! know the same, or it is made on each (`unmade.rs`); if the first one does not know yet that another will
//! not have it, that one leaves, and the next pass makes it.

use super::facts::Facts;
use super::inline::Frame;
use super::{EXITED, LEAVE, Lowering, Register, State, Ty};
use crate::units::{self, Region};
use perilune_syntax::operands::Registers;
use perilune_vm::machine::Ends;
use std::collections::BTreeMap;

/// A loop that comes round so often is worth it that the interpreter does its first round.
const LONG: u32 = 64;

/// Which types a register has on ways into a loop; [`Ty::Any`]: not always the same.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Comes {
    /// Where it begins.
    begins: Option<Ty>,
    /// Where it comes round.
    round: Option<Ty>,
}

impl<'a> Lowering<'a, '_> {
    /// Instruction `at` begins: if it can be jumped to, what is known is what all ways know.
    pub(super) fn arrive(&mut self, at: usize) {
        if !self.heads.contains(&at) && !self.blocks.contains_key(&at) {
            return;
        }
        if self.now.is_some() {
            self.edge(at);
        }
        let block = self.block(at);
        match self.heads.contains(&at) {
            true => self.come_round_to(block),
            false => self.go_to(block),
        }
        self.now = self.met.get(&at).cloned();
        if self.heads.contains(&at)
            && let Some(registers) = self.fixed.get(&at).cloned()
        {
            // Whatever comes round later will find the same.
            let facts = match &self.hoisted {
                Some(hoisted) => hoisted.get(&at).cloned().unwrap_or_default(),
                None => self.met.get(&at).map_or_else(Facts::new, |met| met.facts.clone()),
            };
            let unmade = BTreeMap::new();
            self.now = Some(State { registers, names: self.names_in(at), facts, unmade });
        }
    }

    /// Jumps to instruction `to`. What is known now is not known afterwards: nothing follows.
    pub(super) fn edge(&mut self, to: usize) {
        if self.now.is_none() {
            return;
        }
        if !self.contains(to) {
            return self.exit(to, LEAVE);
        }
        let head = self.heads.contains(&to);
        if to <= self.at && !head {
            // A loop that the log has not seen come round.
            return self.exit(to, EXITED);
        }
        let state = self.now.as_ref().expect("something leads here");
        // A place that the draft did not know of is as the first way there leaves it.
        let first = self.met.get(&to).filter(|_| self.hoisted.is_some()).map(|met| &met.registers);
        let wanted = match self.ends_in_jump(to) {
            // Nothing leads out before the jump has been made.
            true => vec![Register::UNKNOWN; state.registers.len()],
            false => self.fixed.get(&to).or(first).unwrap_or(&state.registers).clone(),
        };
        self.edge_to(to, wanted);
    }

    /// Jumps to instruction `to`, where this is known.
    pub(super) fn edge_to(&mut self, to: usize, wanted: Vec<Register>) {
        let outer = self.leads_into.take();
        self.leads_into = self.heads.contains(&to).then_some(to);
        self.build_edge(to, wanted);
        self.leads_into = outer;
    }

    fn build_edge(&mut self, to: usize, wanted: Vec<Register>) {
        self.forget_dead(to);
        let on = self.goes_on_at(to);
        let live = self.live_at(to);
        let wanted = self.make_for(to, &live, wanted);
        self.note_what_comes(to);
        for (r, wanted) in wanted.into_iter().enumerate().filter(|(r, _)| live.contains(*r as u8)) {
            let Some(own) = self.register(r) else { return };
            // In a draft, what is wanted is what there was.
            let is_over = wanted.ty == Ty::Unmade && own.ty != Ty::Unmade && self.hoisted.is_none();
            let wanted = if is_over { own } else { wanted };
            match (wanted.ty, own.ty) {
                (Ty::Any, _) => self.flush(r),
                (Ty::Unmade, own) if own != Ty::Unmade => {
                    self.disputed.insert((to, r));
                    return self.exit(on, EXITED);
                }
                (ty, Ty::Any) => self.guard(r, ty, on),
                (Ty::Number, Ty::Int | Ty::Float) => self.widen(r, !wanted.dirty, on),
                (ty @ (Ty::Int | Ty::Float), Ty::Number) => self.narrow(r, ty, !wanted.dirty, on),
                // The interpreter does the first round, and comes back with what it has come to
                // ([`Lowering::becomes_float`]).
                (Ty::Float, Ty::Int)
                    if to > self.at
                        && self.loops.iter().any(|l| l.head == to && self.becomes_float(l, r)) =>
                {
                    return self.exit(on, LEAVE);
                }
                (ty, own) if ty != own => return self.exit(on, EXITED),
                _ if own.dirty && !wanted.dirty => self.flush(r),
                _ => {}
            }
            let Some(own) = self.register(r) else { return };
            debug_assert!(own.ty == wanted.ty || wanted.ty == Ty::Any, "made what is wanted");
            assert!(wanted.dirty || !own.dirty, "a slot holds what it is wanted to");
            match wanted.slot.tag().filter(|_| own.slot != wanted.slot) {
                // Its payload would be taken for a reference.
                Some(_) if !wanted.slot.is_number() => self.flush(r),
                Some(tag) => {
                    // The slot is dirty: its payload is of no interest.
                    let base = self.b.use_var(self.base);
                    self.store_tag(tag, base, Self::slot(r));
                }
                None => {}
            }
        }
        if self.heads.contains(&to) {
            let facts = self.facts_for(to);
            if to <= self.at && !self.entering {
                let round = self.round.entry(to).or_insert_with(|| facts.clone());
                round.retain(|fact| facts.contains(fact));
            }
            match self.hoisted.as_ref().map(|hoisted| hoisted.get(&to).cloned().unwrap_or_default()) {
                Some(wanted) => self.establish(to, &wanted),
                // Nobody runs this.
                None => self.now.iter_mut().for_each(|now| now.facts = facts.clone()),
            }
        }
        let Some(state) = self.now.take() else { return };
        // Later passes make on each way what this one finds.
        let (drafts, suspect) = (self.hoisted.is_none(), self.is_suspect(to));
        match self.met.get_mut(&to) {
            None => drop(self.met.insert(to, state)),
            Some(met) if drafts && !suspect => met.meet_with(&state, to, Register::meet_as_number),
            Some(met) => {
                assert!(drafts || met.agrees_with(&state), "ways that meet agree on what is not made");
                met.meet(&state, to);
            }
        }
        let block = self.block(to);
        self.b.jump(block, &[]);
    }

    /// The inlined frame whose results come back at this place.
    fn ended_at(&self, at: usize) -> Option<&Frame<'a>> {
        Some(&self.frames[self.frame_of(at) as usize]).filter(|frame| frame.ends_at(at))
    }

    /// Where the interpreter goes on for this place: behind the call, if it is the end of an inlined function,
    /// whose results are where the call wants them by then.
    pub(super) fn goes_on_at(&self, at: usize) -> usize {
        self.ended_at(at).and_then(|frame| frame.call).map_or(at, |call| call + 1)
    }

    /// Whether this place is the end of an inlined function whose result decides a jump, which is still to be
    /// made.
    fn ends_in_jump(&self, at: usize) -> bool {
        self.ended_at(at).is_some_and(|frame| matches!(frame.ends, Some(Ends::Jump { .. })))
    }

    /// Notes which types registers have on this way, if it leads into a loop.
    fn note_what_comes(&mut self, to: usize) {
        let Some(now) = self.now.as_ref().filter(|_| !self.entering && self.heads.contains(&to)) else {
            return;
        };
        let comes = self.comes.entry(to).or_insert_with(|| vec![Comes::default(); now.registers.len()]);
        for (comes, register) in comes.iter_mut().zip(&now.registers) {
            let way = if to <= self.at { &mut comes.round } else { &mut comes.begins };
            *way = Some(way.map_or(register.ty, |ty| if ty == register.ty { ty } else { Ty::Any }));
        }
    }

    /// Whether register `r` is an integer where this loop begins, and a float whenever it comes round, as
    /// `carry` in `local carry = 0 for i = n, 1, -1 do carry = (a[i] + carry) / 2 end`, in a loop that comes
    /// round often enough for its first round to be the interpreter's. Else it is a number of either kind all
    /// the time, and so is all that is made of it.
    pub(super) fn becomes_float(&self, l: &Region, r: usize) -> bool {
        let Some(comes) = self.came.get(&l.head).and_then(|all| all.get(r)) else { return false };
        let is_long = || {
            let begun = units::begun(self.log, l);
            self.log.site(l.head).times() >= begun.saturating_mul(LONG)
        };
        // A loop that is entered from the interpreter alone is entered when it comes round.
        comes.begins.is_none_or(|ty| ty == Ty::Int) && comes.round == Some(Ty::Float) && is_long()
    }

    /// On the way to instruction `to`, where this is wanted, makes what has to be made there. That is made
    /// for all registers that have it, so it comes before anything else. What is wanted then.
    fn make_for(&mut self, to: usize, live: &Registers, mut wanted: Vec<Register>) -> Vec<Register> {
        // Whether a table is made there, the first way that leads there says.
        for (r, wanted) in wanted.iter_mut().enumerate().filter(|(_, wanted)| wanted.ty == Ty::Unmade) {
            let first = self.met.get(&to).map(|met| met.registers[r]);
            *wanted = first.or(self.register(r)).unwrap_or(*wanted);
        }
        let has_first = self.met.contains_key(&to);
        while let Some(r) =
            (0..wanted.len()).find(|r| live.contains(*r as u8) && self.is_to_be_made(*r, wanted[*r].ty, to))
        {
            self.make_in(r);
            for (r, wanted) in wanted.iter_mut().enumerate().filter(|(_, wanted)| wanted.ty == Ty::Unmade) {
                if !has_first && let Some(own) = self.register(r) {
                    *wanted = own;
                }
            }
        }
        wanted
    }

    /// Whether what register `r` has, which is not made, has to be on the way to instruction `to`, where it
    /// is of this type.
    fn is_to_be_made(&mut self, r: usize, wanted: Ty, to: usize) -> bool {
        if self.ty(r) != Ty::Unmade || wanted == Ty::Unmade && self.agrees(r, to) {
            return false;
        }
        if wanted == Ty::Unmade {
            self.disputed.insert((to, r));
        }
        true
    }
}
