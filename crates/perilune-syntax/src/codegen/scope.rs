//! Blocks, locals in scope, labels and jumps to them.
//!
//! A label is visible in the whole block that declares it, nested blocks included (manual 3.3.4), so a block
//! lists its labels when it is entered, and a `goto` finds its target's block by walking outwards. That
//! tells, before the label is reached, how many locals the jump leaves (for a jump backward, those declared
//! since the label too); if one of them is captured or to be closed, the jump closes them itself. The code at
//! a label therefore never closes anything.
//!
//! Which jumps are legal is the parser's to say: a jump that arrives here has a target and enters the scope
//! of no local.

use super::Gen;
use super::expr::Kind;
use super::func::JumpList;
use crate::ast::{Attrib, Block, LocalId, StatKind, StrId};
use crate::bytecode::Op;
use crate::proto::LocalVar;
use crate::text::Text;

/// Whether leaving a variable's scope needs an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Closing {
    /// No.
    Nothing,
    /// A closure may hold it.
    Upvalue,
    /// It is (or may be) a to-be-closed variable.
    ToBeClosed,
}

/// A local in scope.
#[derive(Debug)]
pub(super) struct ActiveVar {
    /// Its register; of a compile-time constant, where the next variable goes.
    register: u8,
    /// Its debug record; `None` for a compile-time constant.
    debug: Option<u32>,
    closing: Closing,
    /// The variable; `None` for those of loops.
    local: Option<LocalId>,
}

/// A label of a block being generated.
#[derive(Debug)]
struct Label {
    name: StrId,
    /// Once it has been reached: its position, and the locals in scope there.
    reached: Option<(usize, usize)>,
    /// Jumps that wait for it.
    pending: JumpList,
}

/// A block being generated.
#[derive(Debug)]
pub(super) struct BlockState {
    /// Locals in scope at its entry.
    active: usize,
    labels: Vec<Label>,
}

/// A loop being generated.
#[derive(Debug)]
pub(super) struct LoopState {
    /// Locals in scope outside.
    active: usize,
    /// Jumps to its end.
    breaks: JumpList,
    /// The code after the loop closes everything from its first register on, so breaks need not.
    closes_at_exit: bool,
}

impl Gen<'_> {
    /// Starts a block.
    #[inline(never)]
    pub(super) fn enter_block(&mut self, block: Block) {
        self.enter_scope();
        self.list_labels(block);
    }

    /// The innermost block has the labels of these statements.
    pub(super) fn list_labels(&mut self, block: Block) {
        let labels = self.chunk.block(block).iter().filter_map(|stat| match stat.kind {
            StatKind::Label(name) => Some(Label { name, reached: None, pending: JumpList::EMPTY }),
            _ => None,
        });
        self.fs.blocks.last_mut().expect("a block is open").labels.extend(labels);
    }

    /// Looks which locals in scope have been captured since they were declared.
    pub(super) fn notice_captures(&mut self) {
        for variable in &mut self.fs.active {
            let captured = |local: LocalId| self.chunk.locals[local].captured;
            if variable.closing == Closing::Nothing && variable.local.is_some_and(captured) {
                variable.closing = Closing::Upvalue;
            }
        }
    }

    /// Starts the scope of a loop's hidden variables: a block without statements of its own.
    pub(super) fn enter_scope(&mut self) {
        self.fs.blocks.push(BlockState { active: self.fs.active.len(), labels: Vec::new() });
    }

    /// Ends a block whose end can be fallen out of: closes what needs it and ends the scope of its locals.
    #[inline(never)]
    pub(super) fn leave_block(&mut self) {
        let outside = self.fs.blocks.last().expect("a block is open").active;
        if let Some(register) = self.register_to_close(outside)
            && self.fs.reachable()
        {
            self.emit(Op::Close, register, 0, 0, 0);
        }
        self.end_scope();
    }

    /// Ends the scope of a block's locals.
    #[inline(never)]
    pub(super) fn end_scope(&mut self) {
        let block = self.fs.blocks.pop().expect("a block is open");
        self.deactivate(block.active);
    }

    /// The innermost block's number of locals in scope at its entry.
    pub(super) fn block_base(&self) -> usize {
        self.fs.blocks.last().expect("a block is open").active
    }

    /// Ends the scope of all locals but the first `count`.
    fn deactivate(&mut self, count: usize) {
        let end = self.fs.pc() as u32;
        for variable in &self.fs.active[count..] {
            if let Some(debug) = variable.debug {
                self.fs.locals[debug as usize].end_pc = end;
            }
        }
        self.fs.active_registers = self.registers_of(count);
        self.fs.active.truncate(count);
        self.fs.free = self.fs.active_registers;
    }

    /// Registers that the first `count` locals in scope occupy.
    fn registers_of(&self, count: usize) -> u8 {
        match self.fs.active.get(count) {
            Some(next) => next.register,
            None => self.fs.active_registers,
        }
    }

    /// A declared local comes into scope, in the first register that no local has.
    #[inline(never)]
    pub(super) fn activate(&mut self, local: LocalId) {
        let variable = &self.chunk.locals[local];
        self.registers[local] = self.fs.active_registers;
        let closing = match (variable.attrib, variable.captured) {
            (Attrib::Close, _) => Closing::ToBeClosed,
            (_, true) => Closing::Upvalue,
            (_, false) => Closing::Nothing,
        };
        let name = self.local_name(local);
        self.activate_as(name, closing, Some(local));
    }

    /// A hidden variable of a loop comes into scope.
    pub(super) fn activate_hidden(&mut self, closing: Closing) {
        self.activate_as(self.hidden.text(), closing, None);
    }

    fn activate_as(&mut self, name: Text, closing: Closing, local: Option<LocalId>) {
        let register = self.fs.active_registers;
        let pc = self.fs.pc() as u32;
        self.fs.locals.push(LocalVar { name, start_pc: pc, end_pc: pc, register });
        let debug = Some(self.fs.locals.len() as u32 - 1);
        self.fs.active.push(ActiveVar { register, debug, closing, local });
        self.fs.active_registers += 1;
    }

    /// A compile-time constant comes into scope: it has a value and no register.
    pub(super) fn activate_constant(&mut self, local: LocalId, value: Kind) {
        self.constants[usize::from(local.is_passing())].insert(local, value);
        let register = self.fs.active_registers;
        self.fs.active.push(ActiveVar { register, debug: None, closing: Closing::Nothing, local: None });
    }

    /// The debug record of the latest local starts at the next instruction only.
    pub(super) fn restart_latest_local(&mut self) {
        let pc = self.fs.pc() as u32;
        if let Some(latest) = self.fs.active.last().and_then(|v| v.debug) {
            self.fs.locals[latest as usize].start_pc = pc;
        }
    }

    /// The lowest register to close when all locals but the first `count` are left.
    pub(super) fn register_to_close(&self, count: usize) -> Option<u8> {
        self.fs.active[count..].iter().find(|v| v.closing != Closing::Nothing).map(|v| v.register)
    }

    /// Whether a to-be-closed variable is in scope.
    pub(super) fn inside_to_be_closed(&self) -> bool {
        self.fs.active.iter().any(|v| v.closing == Closing::ToBeClosed)
    }

    /// Starts a loop; breaks go to where [`Gen::leave_loop`] is called.
    pub(super) fn enter_loop(&mut self, closes_at_exit: bool) {
        let state = LoopState { active: self.fs.active.len(), breaks: JumpList::EMPTY, closes_at_exit };
        self.fs.loops.push(state);
    }

    /// Ends a loop.
    pub(super) fn leave_loop(&mut self) {
        let state = self.fs.loops.pop().expect("a loop is open");
        self.fs.patch_here(state.breaks);
    }

    /// The innermost loop gets jumps from a condition directly if nothing has to be closed on the way out.
    pub(super) fn can_break_directly(&self) -> bool {
        self.fs.loops.last().is_some_and(|l| l.closes_at_exit || self.register_to_close(l.active).is_none())
    }

    /// Adds jumps to the innermost loop's breaks.
    pub(super) fn add_breaks(&mut self, jumps: JumpList) {
        let mut state = self.fs.loops.pop().expect("a loop is open");
        self.fs.join(&mut state.breaks, jumps);
        self.fs.loops.push(state);
    }

    /// `break`
    #[inline(never)]
    pub(super) fn break_statement(&mut self) {
        if !self.fs.reachable() {
            return;
        }
        let state = self.fs.loops.last().expect("the parser has seen the loop");
        if !state.closes_at_exit {
            self.close_down_to(state.active);
        }
        let jump = self.emit_jump(Op::Jump, 0, 0);
        self.add_breaks(jump);
    }

    fn close_down_to(&mut self, count: usize) {
        if let Some(register) = self.register_to_close(count) {
            self.emit(Op::Close, register, 0, 0, 0);
        }
    }

    /// Index of the innermost open block with the label, and of the label in it.
    fn find_label(&self, name: StrId) -> Option<(usize, usize)> {
        self.fs.blocks.iter().enumerate().rev().find_map(|(block, state)| {
            Some((block, state.labels.iter().position(|label| label.name == name)?))
        })
    }

    /// Locals in scope in block `block`, those of blocks nested in it left out.
    fn active_in(&self, block: usize) -> usize {
        self.fs.blocks.get(block + 1).map_or(self.fs.active.len(), |inner| inner.active)
    }

    /// Whether a condition may jump to the label directly: forward, with nothing to close.
    pub(super) fn can_goto_directly(&self, name: StrId) -> bool {
        self.find_label(name).is_some_and(|(block, label)| {
            self.fs.blocks[block].labels[label].reached.is_none()
                && self.register_to_close(self.active_in(block)).is_none()
        })
    }

    /// `goto name`
    #[inline(never)]
    pub(super) fn goto_statement(&mut self, name: StrId) {
        if !self.fs.reachable() {
            return;
        }
        let (block, label) = self.find_label(name).expect("the parser has seen the label");
        match self.fs.blocks[block].labels[label].reached {
            Some((target, outside)) => {
                self.close_down_to(outside);
                self.emit_jump_back(target);
            }
            None => {
                self.close_down_to(self.active_in(block));
                let jump = self.emit_jump(Op::Jump, 0, 0);
                self.add_gotos(name, jump);
            }
        }
    }

    /// Makes jumps wait for a label that has not been reached.
    #[inline(never)]
    pub(super) fn add_gotos(&mut self, name: StrId, jumps: JumpList) {
        let (block, index) = self.find_label(name).expect("the parser has seen the label");
        let mut pending = self.fs.blocks[block].labels[index].pending;
        self.fs.join(&mut pending, jumps);
        self.fs.blocks[block].labels[index].pending = pending;
    }

    /// `::name::`
    #[inline(never)]
    pub(super) fn label_statement(&mut self, name: StrId) {
        let block = self.fs.blocks.last().expect("a block is open");
        let index = label_index(block, name);
        let pending = block.labels[index].pending;
        let reached = Some((self.fs.label(), self.fs.active.len()));
        self.fs.patch_here(pending);
        let block = self.fs.blocks.last_mut().expect("a block is open");
        let label = &mut block.labels[index];
        (label.reached, label.pending) = (reached, JumpList::EMPTY);
    }
}

fn label_index(block: &BlockState, name: StrId) -> usize {
    block.labels.iter().position(|label| label.name == name).expect("blocks list their labels at entry")
}
