//! Ways out.
//!
//! An exit tells the code generator ([`crate::ssa::Opcode::Depart`]) which values of registers are not in their slots, and
//! where these are; with numbers of both kinds their tags, too. Nothing is stored by instructions of the code: a
//! table says where each value is at each exit, and a function stores them (`perilune_vm::machine`,
//! `departures.rs`). The [`Point`] says the rest: which records and tags are written, and which tables are made
//! that have not been, of which the exit does store what they are made of. All that is not a usual return ends in
//! one block.
//!
//! The values are those that registers have where the way out is taken. Exits that lead to the same place with
//! the same values are one.

use super::unmade::Waiting;
use super::{Lowering, Ty, Val};
use crate::backend;
use crate::ssa::{Block, Type};
use perilune_syntax::Instr;
use perilune_vm::Tag;
use perilune_vm::machine::{Built, EXITED, Point, REFUSED, Reason, Unmade, layout};
use rustc_hash::FxHashMap as HashMap;
use std::sync::Arc;

/// Why machine code is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Why {
    /// Somebody has asked for it, or the interpreter is needed: [`LEAVE`].
    Asked,
    /// Something was not as expected where it is left: [`EXITED`].
    Unexpected,
    /// The instruction has never been recorded: [`EXITED`], too.
    Unseen,
    /// What the instruction at this place has come to was not of the type that was expected: [`EXITED`], too.
    Result(usize),
}

/// Where an exit leads, why, what it has to store, and which tables it has to make.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Exit {
    at: usize,
    why: Why,
    /// Registers whose payloads are not in their slots.
    dirty: Vec<(usize, Ty)>,
    pub waiting: Vec<Waiting>,
    /// The base of the frame, and what these registers hold, each a value, or two. Empty where tables have to be
    /// made: what is known of those stands in variables, and is looked for where the exit is.
    values: Vec<Val>,
}

impl Lowering<'_, '_> {
    /// The interpreter goes on at `at`: [`LEAVE`], or [`EXITED`] if that is not what was expected. Nothing
    /// follows.
    pub(super) fn exit(&mut self, at: usize, how: u64) {
        let block = self.exit_block(at, how);
        self.b.jump(block, &[]);
        self.now = None;
    }

    /// The same because instruction `at` has never been recorded.
    pub(super) fn exit_unseen(&mut self, at: usize) {
        let block = self.exit_for(at, Why::Unseen);
        self.b.jump(block, &[]);
        self.now = None;
    }

    pub(super) fn exit_block(&mut self, at: usize, how: u64) -> Block {
        let why = match how {
            // A parameter was not as expected: that says nothing against the first instruction.
            EXITED if at == 0 && self.entering => Why::Result(0),
            EXITED if self.leads_into == Some(at) => Why::Result(self.stands_for(at)),
            EXITED => Why::Unexpected,
            _ => Why::Asked,
        };
        self.exit_for(at, why)
    }

    /// Where to go if what instruction `at` has come to, or would, is not of the type that was expected; the
    /// interpreter goes on at `to`.
    pub(super) fn other_result(&mut self, at: usize, to: usize) -> Block {
        self.exit_for(to, Why::Result(at))
    }

    pub(super) fn exit_for(&mut self, at: usize, why: Why) -> Block {
        let registers = self.now.iter().flat_map(|now| &now.registers).enumerate();
        let dirty = registers.filter(|(_, r)| r.dirty && r.ty != Ty::Unmade);
        let dirty: Vec<(usize, Ty)> = dirty.map(|(n, r)| (n, r.ty)).collect();
        let waiting = self.waiting();
        let values = if waiting.is_empty() { self.held_by(&dirty) } else { Vec::new() };
        let b = &mut *self.b;
        let block = *self.exits.entry(Exit { at, why, dirty, waiting, values }).or_insert_with(|| {
            let block = b.create_block();
            b.set_cold_block(block);
            block
        });
        if why != Why::Asked {
            self.guarded.insert(block);
        }
        block
    }

    /// The base of the frame, and what these registers hold.
    fn held_by(&mut self, registers: &[(usize, Ty)]) -> Vec<Val> {
        let mut values = vec![self.b.use_var(self.base)];
        for &(r, ty) in registers {
            let is_float = matches!(ty, Ty::Float | Ty::Number);
            values.push(self.b.use_var(if is_float { self.floats[r] } else { self.ints[r] }));
            if ty == Ty::Number {
                values.push(self.b.use_var(self.ints[r]));
            }
        }
        values
    }

    /// Exits say what is to be stored where: `perilune_vm::machine`, `departures.rs`. Of what nobody compiles they
    /// are counted, in instructions that they would have.
    pub(super) fn fill_exits(&mut self) -> usize {
        let mut exits: Vec<_> = std::mem::take(&mut self.exits).into_iter().collect();
        if self.hoisted.is_none() {
            let mut count = 0;
            for (exit, block) in exits {
                self.go_to(block);
                count += if self.b.is_unreachable() { 1 } else { 4 + 2 * exit.values.len() };
                self.b.trap();
            }
            return count;
        }
        exits.sort_by_key(|(_, block)| *block);
        let mut points = HashMap::default();
        for (exit, block) in exits {
            self.go_to(block);
            if self.b.is_unreachable() {
                // Nobody has come to need it.
                self.b.trap();
                continue;
            }
            self.b.set_place(exit.at as u32);
            let unmade = self.store_parts(&exit);
            let Exit { at, why, dirty, values, .. } = exit;
            let values = if values.is_empty() { self.held_by(&dirty) } else { values };
            let mut values = values.into_iter();
            let base = values.next().expect("a base");
            let (mut stores, mut tags) = (Vec::new(), Vec::new());
            for (r, ty) in dirty {
                let at = Self::slot(r);
                let payload = values.next().expect("a value");
                stores.push((backend::stored_at(at + layout::PAYLOAD, false), payload));
                if ty == Ty::Number {
                    let tag = values.next().expect("a number has a kind");
                    stores.push((backend::stored_at(at + layout::TAG, true), tag));
                }
                tags.push((r as u8, ty.tag()));
            }
            // Exits that differ in where values are lead to the same point.
            let known = unmade.is_empty().then(|| (at, why, tags.clone()));
            let point = match known.as_ref().and_then(|key| points.get(key)) {
                Some(&address) => self.b.iconst(Type::I64, address),
                None => self.point(at, Some(why), 0, (tags, unmade)),
            };
            if let (Some(key), Some(address)) = (known, self.b.func.integer(point)) {
                points.insert(key, address);
            }
            self.b.depart(point, base, &stores);
        }
        0
    }

    /// A point at instruction `at`: the code is left there, for a reason, or a function does the instruction.
    pub(super) fn point(
        &mut self,
        at: usize,
        why: Option<Why>,
        does: usize,
        (tags, unmade): (Vec<(u8, Option<Tag>)>, Vec<Unmade>),
    ) -> Val {
        let mut frame = self.frame_of(at);
        let mut built = Vec::new();
        let innermost = &self.frames[frame as usize];
        assert_eq!(self.goes_on_at(at), at, "the interpreter goes on at an instruction");
        let would_move_again =
            innermost.call.is_some() && innermost.log.proto().is_vararg && at == innermost.first;
        assert!(!would_move_again, "a frame that has moved goes on with the instruction that moves it");
        while let Some(call) = self.frames[frame as usize].call {
            let (window, caller) = (self.frames[frame as usize].window(), self.frames[frame as usize].caller);
            let words = self.record_words(frame, call);
            let after = self.address_of_instruction(call + 1);
            let caller_window = self.frames[caller as usize].window() as u32;
            let protected = self.protected(frame, call);
            built.push(Built { window: window as u32, caller: caller_window, after, words, protected });
            frame = caller;
        }
        let counts = |of: usize, reason: Reason| {
            let (failures, inside) = self.failures_at(of);
            (Arc::clone(failures.exits()), inside, reason, Arc::clone(self.failures.exits()))
        };
        let counts = match why {
            None | Some(Why::Asked) => None,
            Some(Why::Unexpected) => Some(counts(at, Reason::Unexpected)),
            Some(Why::Unseen) => Some(counts(at, Reason::Unseen)),
            Some(Why::Result(of)) => Some(counts(of, Reason::Result)),
        };
        let pc = self.address_of_instruction(at);
        let point = Box::new(Point { pc, built, counts, does, tags, unmade });
        let address = std::ptr::from_ref(&*point) as usize;
        self.points.push(point);
        self.b.iconst(Type::I64, address as i64)
    }

    /// A block with so many words as parameters.
    pub(super) fn cold_block(&mut self, words: usize) -> Block {
        let block = self.b.create_block();
        self.b.set_cold_block(block);
        for _ in 0..words {
            self.b.append_block_param(block, Type::I64);
        }
        block
    }

    /// The same value in a register of its own. Arguments of calls have to be in certain registers of the
    /// processor, and the allocator takes that for a wish of all that the value is in: where it is used on
    /// ways that are hardly ever taken, the others would pay for it. (The state is in the same one for good.)
    pub(super) fn copied(&mut self, val: Val) -> Val {
        if val == self.vm {
            return val;
        }
        self.iadd_imm(val, 0)
    }

    /// Returns this code.
    pub(super) fn leave(&mut self, how: u64) {
        let how = self.b.iconst(Type::I64, how as i64);
        self.leave_with(how);
    }

    /// Returns this, in the one place for all that is not the usual return.
    pub(super) fn leave_with(&mut self, answer: Val) {
        let out = self.way_out();
        self.b.jump(out, &[answer]);
    }

    /// Goes on in a block, with these parameters, if `condition` holds; else returns the answer.
    pub(super) fn or_leave_with(&mut self, condition: Val, (on, with): (Block, &[Val]), answer: Val) {
        let out = self.way_out();
        self.b.brif(condition, on, with, out, &[answer]);
    }

    fn way_out(&mut self) -> Block {
        let out = match self.out {
            Some(out) => out,
            None => self.cold_block(1),
        };
        self.out = Some(out);
        out
    }

    pub(super) fn fill_out(&mut self) {
        if let Some(out) = self.out.take() {
            self.go_to(out);
            let answer = self.b.block_params(out)[0];
            self.b.return_(&[answer]);
        }
    }

    pub(super) fn refuse(&mut self) {
        self.leave(REFUSED);
    }

    /// The address of instruction `at`.
    pub(super) fn position(&mut self, at: usize) -> Val {
        let address = self.address_of_instruction(at);
        self.b.iconst(Type::I64, address as i64)
    }

    pub(super) fn address_of_instruction(&self, at: usize) -> usize {
        let frame = &self.frames[self.frame_of(at) as usize];
        frame.log.proto().code.as_ptr() as usize + (at - frame.first) * size_of::<Instr>()
    }
}
