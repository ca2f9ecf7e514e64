//! A hot loop as a function of machine code.
//!
//! One pass over the loop's bytecode, in order, straight into Cranelift's form. It knows for each register what it holds ([`Ty`]), from constants, from what
//! instructions produce, and from the log: where the log has seen only one type, the code *guards* it, and exits if it meets another.
//!
//! # Registers
//! Every register's slot on the value stack is up to date after each instruction that writes it; beside it the value stands in a register of the processor while
//! its type is known. So an exit stores the position and returns, anything can look at the frame, and a collection sees every
//! reference. A slot whose tag is known to be right already gets its payload only.
//! Variables that closures refer to are never known: any function may assign them.
//!
//! # Control
//! * Forward jumps meet with what is known on all ways; types that differ become unknown. Since slots are up to date nothing has to be stored there.
//! * Where a loop begins, what is known is fixed: the types that the log has seen there. Ways into it guard those that they do not know.
//! * Ways out of the region store the position and leave.
//! * An instruction that the log has never seen is lowered as far as what is known allows: a log may miss what a loop does later.
//!
//! # What is not done here
//! is done by the interpreter, one instruction at a time ([`layout::step`]), and what that defines is guarded again.
//!
//! Rejected for now: slots that are written only at exits (faster loops, but every exit needs the list of what to store), our own form with hoisting
//! (`docs/spesh.md` has the plan). The guards of tables stay in the loop until then.

mod control;
mod memory;
mod numbers;

use crate::backend::clif::{
    self, AbiParam, Block, CallConv, FunctionBuilder, InstBuilder, MemFlagsData, SigRef, Signature, Variable,
    condcodes::IntCC, types,
};
use crate::loops::Region;
use perilune_syntax::operands::Registers;
use perilune_syntax::{Constant, Instr, Proto};
use perilune_vm::Tag;
use perilune_vm::machine::{EXITED, LEAVE, LOOP_ENTRIES, Log, REFUSED, STAY, layout};
use std::collections::HashMap;

type Val = clif::Value;

/// What is known of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ty {
    /// Nothing; the value is in its slot.
    Any,
    Int,
    Float,
    Table,
}

impl Ty {
    fn of(tag: Tag) -> Ty {
        match tag {
            Tag::INT => Ty::Int,
            Tag::FLOAT => Ty::Float,
            Tag::TABLE => Ty::Table,
            _ => Ty::Any,
        }
    }

    fn tag(self) -> Option<Tag> {
        match self {
            Ty::Any => None,
            Ty::Int => Some(Tag::INT),
            Ty::Float => Some(Tag::FLOAT),
            Ty::Table => Some(Tag::TABLE),
        }
    }

    fn is_number(self) -> bool {
        matches!(self, Ty::Int | Ty::Float)
    }
}

/// An operand whose type is known.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    ty: Ty,
    val: Val,
}

/// What is known of all registers.
type State = Vec<Ty>;

/// A function that compiles to this signature: that of [`perilune_vm::machine::Run`].
pub fn signature() -> Signature {
    let mut signature = Signature::new(CallConv::SystemV);
    signature.params = [types::I64, types::I64, types::I64, types::I32].map(AbiParam::new).to_vec();
    signature.returns = vec![AbiParam::new(types::I32)];
    signature
}

/// The instructions at which the region can be entered, with the numbers of these entries.
pub fn entries(proto: &Proto, region: Region) -> Vec<(u32, u32)> {
    let at = (region.head..=region.back)
        .filter(|&at| proto.code[at].op().is_some_and(|op| LOOP_ENTRIES.contains(&op)));
    at.zip(1..).map(|(at, number)| (at as u32, number)).collect()
}

/// Builds the body.
pub fn lower(b: &mut FunctionBuilder<'_>, log: &Log, region: Region, in_use: &[Registers]) {
    Lowering::new(b, log, region, in_use).run();
}

pub(crate) struct Lowering<'a, 'b> {
    b: &'a mut FunctionBuilder<'b>,
    log: &'a Log,
    proto: &'a Proto,
    region: Region,
    in_use: &'a [Registers],
    /// Variables that closures of this function refer to.
    captured: Registers,
    step: SigRef,
    vm: Variable,
    base: Variable,
    constants: Variable,
    ints: Vec<Variable>,
    floats: Vec<Variable>,
    /// Blocks of instructions that are jumped to, with what is known there; loops' beginnings have fixed knowledge.
    blocks: HashMap<usize, (Block, Option<State>)>,
    heads: HashMap<usize, State>,
    exits: HashMap<(usize, u32), Block>,
    /// The instruction that is being lowered.
    at: usize,
    /// What is known here; `None`: nothing leads here.
    now: Option<State>,
}

impl<'a, 'b> Lowering<'a, 'b> {
    fn new(b: &'a mut FunctionBuilder<'b>, log: &'a Log, region: Region, in_use: &'a [Registers]) -> Self {
        let proto = log.proto();
        let mut captured = Registers::NONE;
        for inner in &proto.protos {
            for upvalue in inner.upvalues.iter().filter(|u| u.in_stack) {
                captured = captured.or(Registers::range(upvalue.index as usize, 1));
            }
        }
        let mut signature = Signature::new(CallConv::SystemV);
        signature.params = [types::I64; 4].map(AbiParam::new).to_vec();
        signature.returns = vec![AbiParam::new(types::I32)];
        let step = b.import_signature(signature);
        let registers = proto.max_stack as usize;
        let [vm, base, constants] = [(); 3].map(|()| b.declare_var(types::I64));
        let ints = (0..registers).map(|_| b.declare_var(types::I64)).collect();
        let floats = (0..registers).map(|_| b.declare_var(types::F64)).collect();
        let mut lowering = Lowering {
            b,
            log,
            proto,
            region,
            in_use,
            captured,
            step,
            vm,
            base,
            constants,
            ints,
            floats,
            blocks: HashMap::new(),
            heads: HashMap::new(),
            exits: HashMap::new(),
            at: 0,
            now: None,
        };
        lowering.find_heads();
        lowering
    }

    fn find_heads(&mut self) {
        for at in self.region.head..=self.region.back {
            let Some(tags) = self.log.head(at) else { continue };
            let known = |(register, tags): (usize, &perilune_vm::machine::Tags)| {
                let used =
                    self.in_use[at].contains(register as u8) && !self.captured.contains(register as u8);
                match tags.only() {
                    Some(tag) if used => Ty::of(tag),
                    _ => Ty::Any,
                }
            };
            let state = tags.iter().enumerate().map(known).collect();
            let block = self.b.create_block();
            self.blocks.insert(at, (block, None));
            self.heads.insert(at, state);
        }
    }

    fn run(mut self) {
        let entry = self.b.create_block();
        self.b.append_block_params_for_function_params(entry);
        self.b.switch_to_block(entry);
        let [vm, base, inst, number] = self.b.block_params(entry).try_into().expect("four parameters");
        self.b.def_var(self.vm, vm);
        self.b.def_var(self.base, base);
        let constants = self.load(types::I64, inst, layout::INST_CONSTANTS);
        self.b.def_var(self.constants, constants);
        let entries = entries(self.proto, self.region);
        for &(at, entry) in &entries {
            let [here, next] = [(); 2].map(|()| self.b.create_block());
            let is = self.b.ins().icmp_imm_u(IntCC::Equal, number, entry as i64);
            self.b.ins().brif(is, here, &[], next, &[]);
            self.b.switch_to_block(here);
            self.now = Some(vec![Ty::Any; self.proto.max_stack as usize]);
            self.at = at as usize;
            self.enter(at as usize);
            self.b.switch_to_block(next);
        }
        self.refuse();
        self.now = None;
        // What falls into an instruction comes from the one before it.
        self.at = self.region.head.saturating_sub(1);
        for at in self.region.head..=self.region.back {
            self.arrive(at);
            self.at = at;
            if self.now.is_none() {
                continue;
            }
            self.instruction(at);
        }
        if self.now.is_some() {
            self.exit(self.region.back + 1, LEAVE);
        }
        self.fill_exits();
        self.b.seal_all_blocks();
    }

    /// Instruction `at` begins: if it can be jumped to, what is known is what all ways know.
    fn arrive(&mut self, at: usize) {
        if self.heads.contains_key(&at) {
            if self.now.is_some() {
                self.edge(at);
            }
            let (block, _) = self.blocks[&at];
            self.b.switch_to_block(block);
            self.now = Some(self.heads[&at].clone());
        } else if self.blocks.contains_key(&at) {
            if self.now.is_some() {
                self.edge(at);
            }
            let (block, state) = self.blocks[&at].clone();
            self.b.switch_to_block(block);
            self.now = state;
        }
    }

    /// Jumps to instruction `to`. What is known now is not known afterwards: nothing follows.
    fn edge(&mut self, to: usize) {
        let Some(mut state) = self.now.take() else { return };
        if !self.region.contains(to) {
            self.now = Some(state);
            return self.exit(to, LEAVE);
        }
        if let Some(wanted) = self.heads.get(&to).cloned() {
            for (register, &ty) in wanted.iter().enumerate() {
                if ty == Ty::Any || state[register] == ty {
                    continue;
                }
                if state[register] != Ty::Any {
                    self.now = Some(state);
                    return self.exit(to, EXITED);
                }
                self.guard(register, ty, to);
                state[register] = ty;
            }
            let (block, _) = self.blocks[&to];
            self.b.ins().jump(block, &[]);
            return;
        }
        if to <= self.at {
            // A loop that the log has not seen come round.
            self.now = Some(state);
            return self.exit(to, EXITED);
        }
        let b = &mut *self.b;
        let (block, known) = self.blocks.entry(to).or_insert_with(|| (b.create_block(), None));
        match known {
            None => *known = Some(state),
            Some(known) => {
                for (known, ty) in known.iter_mut().zip(state) {
                    if *known != ty {
                        *known = Ty::Any;
                    }
                }
            }
        }
        let block = *block;
        self.b.ins().jump(block, &[]);
    }

    /// The interpreter goes on at `at`: [`LEAVE`], or [`EXITED`] if that is not what was expected. Nothing follows.
    fn exit(&mut self, at: usize, how: u32) {
        let block = self.exit_block(at, how);
        self.b.ins().jump(block, &[]);
        self.now = None;
    }

    fn exit_block(&mut self, at: usize, how: u32) -> Block {
        if let Some(&block) = self.exits.get(&(at, how)) {
            return block;
        }
        let block = self.b.create_block();
        self.b.set_cold_block(block);
        self.exits.insert((at, how), block);
        block
    }

    fn fill_exits(&mut self) {
        for ((at, how), block) in std::mem::take(&mut self.exits) {
            self.b.switch_to_block(block);
            let pc = self.position(at);
            let base = self.b.use_var(self.base);
            self.store(pc, base, layout::FRAME_PC);
            let how = self.b.ins().iconst(types::I32, how as i64);
            self.b.ins().return_(&[how]);
        }
    }

    fn refuse(&mut self) {
        let refused = self.b.ins().iconst(types::I32, REFUSED as i64);
        self.b.ins().return_(&[refused]);
    }

    /// The address of instruction `at`.
    fn position(&mut self, at: usize) -> Val {
        let address = self.proto.code.as_ptr() as usize + at * size_of::<Instr>();
        self.b.ins().iconst(types::I64, address as i64)
    }

    /// Goes on only if `condition` holds; else `otherwise`.
    fn unless(&mut self, condition: Val, otherwise: Block) {
        let on = self.b.create_block();
        self.b.ins().brif(condition, on, &[], otherwise, &[]);
        self.b.switch_to_block(on);
    }

    // -- Memory ------------------------------------------------------------------------------------------------------------------------

    fn load(&mut self, ty: clif::Type, address: Val, offset: i32) -> Val {
        self.b.ins().load(ty, MemFlagsData::trusted(), address, offset)
    }

    fn store(&mut self, val: Val, address: Val, offset: i32) {
        self.b.ins().store(MemFlagsData::trusted(), val, address, offset);
    }

    fn store_tag(&mut self, tag: Tag, address: Val, offset: i32) {
        let tag = self.b.ins().iconst(types::I8, tag.0 as i64);
        self.store(tag, address, offset + layout::TAG);
    }

    /// Where register `r` lies, from the frame's base.
    fn slot(r: usize) -> i32 {
        r as i32 * layout::VALUE_SIZE
    }

    // -- Registers ---------------------------------------------------------------------------------------------------------------------

    fn ty(&self, r: usize) -> Ty {
        self.now.as_ref().map_or(Ty::Any, |state| state[r])
    }

    fn set_ty(&mut self, r: usize, ty: Ty) {
        let ty = if self.captured.contains(r as u8) { Ty::Any } else { ty };
        if let Some(state) = &mut self.now {
            state[r] = ty;
        }
    }

    /// The value of register `r` if its type is known.
    fn known(&mut self, r: usize) -> Option<Known> {
        let ty = self.ty(r);
        let val = match ty {
            Ty::Any => return None,
            Ty::Float => self.b.use_var(self.floats[r]),
            _ => self.b.use_var(self.ints[r]),
        };
        Some(Known { ty, val })
    }

    /// The number that constant `n` is.
    fn constant(&mut self, n: usize) -> Option<Known> {
        match self.proto.constants[n] {
            Constant::Integer(n) => Some(Known { ty: Ty::Int, val: self.b.ins().iconst(types::I64, n) }),
            Constant::Float(f) => Some(Known { ty: Ty::Float, val: self.b.ins().f64const(f) }),
            _ => None,
        }
    }

    /// Register `r` becomes a value of a known type.
    fn define(&mut self, r: usize, to: Known) {
        let base = self.b.use_var(self.base);
        self.store(to.val, base, Self::slot(r) + layout::PAYLOAD);
        if self.ty(r) != to.ty
            && let Some(tag) = to.ty.tag()
        {
            self.store_tag(tag, base, Self::slot(r));
        }
        self.name(r, to);
    }

    /// The slot of register `r` has this value.
    fn name(&mut self, r: usize, known: Known) {
        self.set_ty(r, known.ty);
        if self.ty(r) != Ty::Any {
            let variable = if known.ty == Ty::Float { self.floats[r] } else { self.ints[r] };
            self.b.def_var(variable, known.val);
        }
    }

    /// The slot of register `r`, of which nothing is known, has to hold a value of this type, else the code exits to instruction `at`.
    fn guard(&mut self, r: usize, ty: Ty, at: usize) {
        let exit = self.exit_block(at, EXITED);
        let known = self.expect(r, ty, exit);
        let variable = if ty == Ty::Float { self.floats[r] } else { self.ints[r] };
        self.b.def_var(variable, known.val);
    }

    /// The value in the slot of register `r` if it is of this type; else goes to `otherwise`.
    fn expect(&mut self, r: usize, ty: Ty, otherwise: Block) -> Known {
        let base = self.b.use_var(self.base);
        self.expect_at(base, Self::slot(r), ty, otherwise)
    }

    /// The same for the value at an address.
    fn expect_at(&mut self, address: Val, offset: i32, ty: Ty, otherwise: Block) -> Known {
        let tag = self.load(types::I8, address, offset + layout::TAG);
        let wanted = ty.tag().expect("a known type");
        let is = self.b.ins().icmp_imm_u(IntCC::Equal, tag, wanted.0 as i64);
        self.unless(is, otherwise);
        let class = if ty == Ty::Float { types::F64 } else { types::I64 };
        Known { ty, val: self.load(class, address, offset + layout::PAYLOAD) }
    }

    /// The type that the log has seen instruction `at` define, if it is one that can be known.
    fn result(&self, at: usize) -> Ty {
        let r = self.proto.code[at].a();
        match self.log.site(at).result.only() {
            Some(tag) if !self.captured.contains(r) => Ty::of(tag),
            _ => Ty::Any,
        }
    }

    // -- The interpreter ---------------------------------------------------------------------------------------------------------------

    /// Instruction `at` is done by the interpreter; returns if that does not stay in the frame. Registers that it may have changed are unknown.
    fn step(&mut self, at: usize) {
        let pc = self.position(at);
        let address = self.b.ins().iconst(types::I64, layout::step() as i64);
        let arguments = [self.vm, self.base, self.constants].map(|v| self.b.use_var(v));
        let call =
            self.b.ins().call_indirect(self.step, address, &[arguments[0], arguments[1], arguments[2], pc]);
        let exit = self.b.inst_results(call)[0];
        let [on, out] = [(); 2].map(|()| self.b.create_block());
        self.b.set_cold_block(out);
        let stays = self.b.ins().icmp_imm_u(IntCC::Equal, exit, STAY as i64);
        self.b.ins().brif(stays, on, &[], out, &[]);
        self.b.switch_to_block(out);
        self.b.ins().return_(&[exit]);
        self.b.switch_to_block(on);
        self.forget(at);
    }

    /// What instruction `at` changes is unknown.
    fn forget(&mut self, at: usize) {
        let i = self.proto.code[at];
        if let Some(state) = &mut self.now {
            for (r, ty) in state.iter_mut().enumerate() {
                if i.changes(r as u8) {
                    *ty = Ty::Any;
                }
            }
        }
    }

    /// Instruction `at`, which does not jump, is done by the interpreter, and what it defines is what the log has seen.
    fn step_and_guard(&mut self, at: usize) {
        self.step(at);
        self.guard_result(at);
    }

    /// The slot of what instruction `at` defines has been written.
    fn guard_result(&mut self, at: usize) {
        let r = self.proto.code[at].a() as usize;
        let ty = self.result(at);
        if ty != Ty::Any && self.proto.code[at].changes(r as u8) {
            self.guard(r, ty, at + 1);
            self.set_ty(r, ty);
        }
    }

    /// Does the slow way of instruction `at` in block `slow`, and joins it with the current one, where register `r` is `fast`; `None`: no register is defined. What is
    /// known of others has to be the same.
    fn join(&mut self, at: usize, slow: Block, fast: Option<(usize, Ty)>) {
        let joined = self.b.create_block();
        let known = self.now.clone();
        self.b.ins().jump(joined, &[]);
        self.b.set_cold_block(slow);
        self.b.switch_to_block(slow);
        self.step(at);
        if let Some((r, ty)) = fast
            && ty != Ty::Any
        {
            self.guard(r, ty, at + 1);
        }
        self.b.ins().jump(joined, &[]);
        self.b.switch_to_block(joined);
        self.now = known;
    }
}
