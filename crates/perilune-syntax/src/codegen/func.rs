//! The state of one function while its code grows: instructions, constants, registers, jump lists.
//!
//! A [`JumpList`] is a chain of jumps whose destination is not known yet. Until it is, a jump's `sj` field
//! holds the position of the next jump of its list (or [`NO_JUMP`]); patching turns it into an offset. Both
//! ends are kept, so joining two lists takes constant time: `a or b or c ...` of any length stays linear.

use super::scope::{ActiveVar, BlockState, LoopState};
use super::texts::Naming;
use super::{Gen, Res};
use crate::ast::{FuncId, Function, LocalId, StrId};
use crate::bytecode::{Format, Instr, MAX_REGISTERS, MAX_RK_CONST, NO_IC, Op};
use crate::lines::Lines;
use crate::parser::workspace;
use crate::proto::{Born, Constant, LocalVar, Proto, UpvalueDesc};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// A map with a cheap hash: keys are small numbers of our own making, never chosen to collide by an attacker
/// beyond what a constant table of that size costs anyway.
pub(super) type FastMap<K, V> = HashMap<K, V, BuildHasherDefault<FastHasher>>;

/// Multiply and rotate, one word at a time.
#[derive(Default)]
pub(super) struct FastHasher(u64);

impl Hasher for FastHasher {
    fn finish(&self) -> u64 {
        // The map takes its bucket from the low bits and its tag from the high ones; the product's high bits
        // are best.
        self.0.rotate_left(26)
    }
    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.write_u64(b as u64);
        }
    }
    fn write_u8(&mut self, n: u8) {
        self.write_u64(n as u64);
    }
    fn write_u32(&mut self, n: u32) {
        self.write_u64(n as u64);
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    fn write_i64(&mut self, n: i64) {
        self.write_u64(n as u64);
    }
    fn write_isize(&mut self, n: isize) {
        self.write_u64(n as u64);
    }
    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }
}

/// What tells two constants apart that are no strings: numbers by kind and bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ConstKey {
    Nil,
    Boolean(bool),
    Integer(i64),
    Float(u64),
}

/// Jumps that a jump is led past at most (as in PUC Lua, where a line hook shows it).
const MAX_HOPS: usize = 100;
/// End of a jump list.
pub(super) const NO_JUMP: i32 = -1;
/// The `a` of a value-keeping test whose target register is not known yet.
pub(super) const NO_REGISTER: u8 = 255;

/// Jumps with a common, yet unknown destination.
#[derive(Clone, Copy, Debug)]
pub(super) struct JumpList {
    head: i32,
    tail: i32,
}

impl JumpList {
    pub(super) const EMPTY: JumpList = JumpList { head: NO_JUMP, tail: NO_JUMP };

    pub(super) fn is_empty(self) -> bool {
        self.head == NO_JUMP
    }

    /// The list of one jump, as the emitters leave it.
    pub(super) fn single(pc: usize) -> JumpList {
        JumpList { head: pc as i32, tail: pc as i32 }
    }
}

/// A function being generated.
pub(super) struct FuncState {
    pub(super) func: FuncId,
    /// Which names are its constants.
    pub(super) naming: Naming,
    pub(super) code: Vec<Instr>,
    pub(super) lines: Vec<u32>,
    pub(super) constants: Vec<Constant>,
    constant_ids: FastMap<ConstKey, u32>,
    pub(super) templates: Vec<Box<[u32]>>,
    pub(super) protos: Vec<Arc<Proto>>,
    pub(super) upvalues: Vec<UpvalueDesc>,
    pub(super) upvalue_ids: FastMap<LocalId, u8>,
    /// Debug records of all locals so far.
    pub(super) locals: Vec<LocalVar>,
    /// Locals in scope, compile-time constants included.
    pub(super) active: Vec<ActiveVar>,
    /// Registers that locals in scope occupy; temporaries lie above.
    pub(super) active_registers: u8,
    /// First free register.
    pub(super) free: u8,
    max_stack: u8,
    ic_count: u16,
    /// Latest position that some jump lands on; an instruction there must not be merged with the one before
    /// it.
    last_target: usize,
    pub(super) blocks: Vec<BlockState>,
    pub(super) loops: Vec<LoopState>,
    pub(super) is_vararg: bool,
    /// Calls whose arguments are being generated.
    pub(super) open_calls: u32,
}

impl FuncState {
    pub(super) fn new(func: FuncId, is_vararg: bool, naming: Naming) -> FuncState {
        FuncState {
            func,
            naming,
            code: Vec::new(),
            lines: Vec::new(),
            constants: Vec::new(),
            constant_ids: FastMap::default(),
            templates: Vec::new(),
            protos: Vec::new(),
            upvalues: Vec::new(),
            upvalue_ids: FastMap::default(),
            locals: Vec::new(),
            active: Vec::new(),
            active_registers: 0,
            free: 0,
            max_stack: 2,
            ic_count: 0,
            last_target: 0,
            blocks: Vec::new(),
            loops: Vec::new(),
            is_vararg,
            open_calls: 0,
        }
    }

    /// The state of another function, in the memory of one that has become a prototype.
    pub(super) fn renew(&mut self, func: FuncId, is_vararg: bool, naming: Naming) {
        debug_assert!(self.code.is_empty() && self.active.is_empty() && self.blocks.is_empty());
        (self.func, self.is_vararg, self.naming) = (func, is_vararg, naming);
        (self.active_registers, self.free, self.max_stack) = (0, 0, 2);
        (self.ic_count, self.last_target, self.open_calls) = (0, 0, 0);
        clear(&mut self.constant_ids);
        clear(&mut self.upvalue_ids);
    }

    /// Keeps little memory for the next function, which is another chunk's.
    pub(super) fn shrink(&mut self) {
        workspace::empty(&mut self.code);
        workspace::empty(&mut self.lines);
        workspace::empty(&mut self.constants);
        workspace::empty_map(&mut self.constant_ids);
        workspace::empty(&mut self.templates);
        workspace::empty(&mut self.protos);
        workspace::empty(&mut self.upvalues);
        workspace::empty_map(&mut self.upvalue_ids);
        workspace::empty(&mut self.locals);
        workspace::empty(&mut self.active);
        workspace::empty(&mut self.blocks);
        workspace::empty(&mut self.loops);
    }

    /// Bytes of lists that it keeps.
    #[cfg(test)]
    pub(super) fn heap_bytes(&self) -> usize {
        use workspace::bytes;
        let maps = (self.constant_ids.capacity() + self.upvalue_ids.capacity()) * 32;
        let code = bytes(&self.code) + bytes(&self.lines) + bytes(&self.constants) + bytes(&self.templates);
        let inner = bytes(&self.protos) + bytes(&self.upvalues) + bytes(&self.locals);
        maps + code + inner + bytes(&self.active) + bytes(&self.blocks) + bytes(&self.loops)
    }

    /// Position of the next instruction.
    pub(super) fn pc(&self) -> usize {
        self.code.len()
    }

    /// Position of the next instruction, which something may jump to.
    pub(super) fn label(&mut self) -> usize {
        self.last_target = self.code.len();
        self.last_target
    }

    /// Whether the next instruction can be reached, given that all jumps to it so far have been patched.
    pub(super) fn reachable(&self) -> bool {
        self.last_target == self.code.len()
            || !matches!(
                self.code.last().and_then(|i| i.op()),
                Some(Op::Jump | Op::JumpBack | Op::Return | Op::Return0 | Op::Return1 | Op::TailCall)
            )
    }

    /// The instruction before the next one, unless a jump separates them.
    pub(super) fn previous(&mut self) -> Option<&mut Instr> {
        if self.last_target == self.code.len() { None } else { self.code.last_mut() }
    }

    /// An inline cache of its own, or [`NO_IC`] when they have run out.
    pub(super) fn new_ic(&mut self) -> u16 {
        if self.ic_count == NO_IC {
            return NO_IC;
        }
        self.ic_count += 1;
        self.ic_count - 1
    }

    /// Index of a constant that is no string; equal ones are shared.
    pub(super) fn constant(&mut self, key: ConstKey, value: impl FnOnce() -> Constant) -> u32 {
        let constants = &mut self.constants;
        *self.constant_ids.entry(key).or_insert_with(|| {
            constants.push(value());
            constants.len() as u32 - 1
        })
    }

    /// Changes the line of the latest instruction.
    pub(super) fn fix_line(&mut self, line: u32) {
        if let Some(last) = self.lines.last_mut() {
            *last = line;
        }
    }

    /// Frees a register if it is a temporary; temporaries are freed in the reverse order of their
    /// reservation.
    pub(super) fn free_register(&mut self, register: u8) {
        if register >= self.active_registers {
            self.free -= 1;
            debug_assert_eq!(register, self.free, "temporaries are a stack");
        }
    }

    /// Frees two registers, the higher one first.
    pub(super) fn free_registers(&mut self, one: u8, other: u8) {
        self.free_register(one.max(other));
        self.free_register(one.min(other));
    }

    /// Joins `more` to `list`.
    pub(super) fn join(&mut self, list: &mut JumpList, more: JumpList) {
        if more.is_empty() {
            return;
        }
        if list.is_empty() {
            *list = more;
            return;
        }
        let tail = &mut self.code[list.tail as usize];
        *tail = tail.with_sj(more.head);
        list.tail = more.tail;
    }

    fn next_jump(&self, pc: i32) -> i32 {
        self.code[pc as usize].sj()
    }

    fn set_target(&mut self, pc: i32, target: usize) {
        let jump = &mut self.code[pc as usize];
        *jump = jump.with_sj(target as i32 - (pc + 1));
    }

    /// Gives a value-keeping test its target register, or makes it a plain test when the value is not wanted
    /// or is there already. False if the jump keeps no value.
    fn patch_test(&mut self, pc: i32, register: u8) -> bool {
        let jump = &mut self.code[pc as usize];
        let plain = match jump.op() {
            Some(Op::JumpIfSet) => Op::JumpIf,
            Some(Op::JumpIfNotSet) => Op::JumpIfNot,
            _ => return false,
        };
        if register != NO_REGISTER && register as u16 != jump.b() {
            *jump = jump.with_a(register);
        } else {
            *jump = Instr::absj(plain, jump.b() as u8, 0, jump.sj());
        }
        true
    }

    /// Whether a list has a jump that does not bring the value along.
    pub(super) fn needs_value(&self, list: JumpList) -> bool {
        let mut pc = list.head;
        while pc != NO_JUMP {
            if !matches!(self.code[pc as usize].op(), Some(Op::JumpIfSet | Op::JumpIfNotSet)) {
                return true;
            }
            pc = self.next_jump(pc);
        }
        false
    }

    /// Makes all tests of a list plain ones.
    pub(super) fn remove_values(&mut self, list: JumpList) {
        let mut pc = list.head;
        while pc != NO_JUMP {
            self.patch_test(pc, NO_REGISTER);
            pc = self.next_jump(pc);
        }
    }

    /// Sends the jumps of a list that keep their value (in `register`) to `with_value`, the others to
    /// `without`.
    pub(super) fn patch_values(&mut self, list: JumpList, with_value: usize, register: u8, without: usize) {
        let mut pc = list.head;
        while pc != NO_JUMP {
            let next = self.next_jump(pc);
            let target = if self.patch_test(pc, register) { with_value } else { without };
            self.set_target(pc, target);
            pc = next;
        }
    }

    /// Sends all jumps of a list to the next instruction.
    pub(super) fn patch_here(&mut self, list: JumpList) {
        if !list.is_empty() {
            let here = self.label();
            self.patch_values(list, here, NO_REGISTER, here);
        }
    }

    /// The prototype of the finished code, whose memory is left for the next function.
    pub(super) fn take_proto(
        &mut self,
        function: &Function,
        source: Arc<[u8]>,
        born: Born,
        main: bool,
    ) -> Proto {
        Proto {
            code: exactly(&mut self.code),
            constants: exactly(&mut self.constants),
            templates: exactly(&mut self.templates),
            protos: exactly(&mut self.protos),
            upvalues: exactly(&mut self.upvalues),
            num_params: function.params.len() as u8,
            is_vararg: self.is_vararg,
            max_stack: self.max_stack,
            ic_count: self.ic_count,
            lines: {
                let lines = Lines::from(&self.lines[..]);
                empty(&mut self.lines);
                lines
            },
            locals: exactly(&mut self.locals),
            source,
            line_defined: if main { 0 } else { function.line },
            last_line_defined: if main { 0 } else { function.end_line },
            mentions: Default::default(),
            born,
        }
    }
}

/// By opcode: a jump that may have another target, which those of `for` have not.
static IS_JUMP: [bool; 256] = {
    let mut table = [false; 256];
    let mut n = 0;
    while n < Op::ALL.len() {
        let op = Op::ALL[n];
        table[n] = matches!(op.declared_format(), Format::Jump)
            && !matches!(op, Op::ForPrep | Op::ForLoop | Op::TForPrep | Op::TForLoop);
        n += 1;
    }
    table
};

/// Moves a vector's elements to a box of just their size; the vector keeps its room, within reason.
fn exactly<T>(vec: &mut Vec<T>) -> Box<[T]> {
    if vec.len() > ROOM {
        return std::mem::take(vec).into();
    }
    let mut exact = Vec::with_capacity(vec.len());
    exact.append(vec);
    exact.into()
}

/// Elements of a list whose room is kept.
const ROOM: usize = 4096;

/// Empties a list; it keeps its room, within reason.
fn empty<T>(vec: &mut Vec<T>) {
    if vec.len() > ROOM { *vec = Vec::new() } else { vec.clear() }
}

/// Empties a map; a large one is not worth cleaning.
pub(super) fn clear<K, V>(map: &mut FastMap<K, V>) {
    if map.capacity() > 256 {
        *map = FastMap::default();
    } else {
        map.clear();
    }
}

impl Gen<'_> {
    /// Appends an instruction; its position.
    pub(super) fn emit(&mut self, op: Op, a: u8, b: u16, c: u16, d: u16) -> usize {
        self.push(Instr::abcd(op, a, b, c, d))
    }

    /// Appends an instruction with a wide immediate or index.
    pub(super) fn emit_wide(&mut self, op: Op, a: u8, b: u16, wide: i32) -> usize {
        self.push(Instr::absj(op, a, b, wide))
    }

    /// Appends a jump that is a list of its own.
    pub(super) fn emit_jump(&mut self, op: Op, a: u8, b: u16) -> JumpList {
        JumpList::single(self.push(Instr::absj(op, a, b, NO_JUMP)))
    }

    /// Appends a backward jump to `target`.
    pub(super) fn emit_jump_back(&mut self, target: usize) {
        let offset = target as i32 - (self.fs.pc() as i32 + 1);
        self.push(Instr::absj(Op::JumpBack, 0, 0, offset));
    }

    fn push(&mut self, instr: Instr) -> usize {
        self.fs.code.push(instr);
        self.fs.lines.push(self.progress.line);
        self.fs.code.len() - 1
    }

    /// Sets `count` registers from `from` on to nil; joins with a `LOADNIL` just before.
    pub(super) fn emit_nil(&mut self, from: u8, count: usize) {
        let (mut first, mut last) = (from as usize, from as usize + count - 1);
        if let Some(previous) = self.fs.previous()
            && previous.op() == Some(Op::LoadNil)
        {
            let (p_first, p_last) = (previous.a() as usize, previous.a() as usize + previous.b() as usize);
            if (p_first <= first && first <= p_last + 1) || (first <= p_first && p_first <= last + 1) {
                (first, last) = (first.min(p_first), last.max(p_last));
                *previous = Instr::abcd(Op::LoadNil, first as u8, (last - first) as u16, 0, 0);
                return;
            }
        }
        self.emit(Op::LoadNil, first as u8, (last - first) as u16, 0, 0);
    }

    /// Makes sure that `count` registers above the free one exist.
    pub(super) fn check_stack(&mut self, count: usize) -> Res<()> {
        let top = self.fs.free as usize + count;
        if top > self.fs.max_stack as usize {
            if top > MAX_REGISTERS {
                return self.limit_error("function or expression needs too many registers".to_string(), true);
            }
            self.fs.max_stack = top as u8;
        }
        Ok(())
    }

    /// Takes the next `count` registers; the first of them.
    pub(super) fn reserve(&mut self, count: usize) -> Res<u8> {
        self.check_stack(count)?;
        let first = self.fs.free;
        self.fs.free += count as u8;
        Ok(first)
    }

    /// Index of a string constant for a field that only constants may fill, or `None` if there are too many.
    pub(super) fn name_constant(&mut self, name: StrId) -> Option<u16> {
        let index = self.string_constant(name);
        (index as usize <= MAX_RK_CONST).then_some(index as u16)
    }

    /// Last pass over the finished code: jumps to jumps take the shortest way.
    pub(super) fn finish(&mut self) {
        let code = &mut self.fs.code[..];
        for pc in 0..code.len() {
            let jump = code[pc];
            if !IS_JUMP[usize::from(jump.op_byte())] {
                continue;
            }
            let op = jump.op().expect("we made it");
            let always = matches!(op, Op::Jump | Op::JumpBack);
            let mut target = (pc as i32 + 1 + jump.sj()) as usize;
            // Jumps that go round in a circle have no last target.
            for _ in 0..MAX_HOPS {
                match code[target].op() {
                    Some(Op::Jump) => {}
                    Some(Op::JumpBack) if always => {}
                    _ => break,
                }
                target = (target as i32 + 1 + code[target].sj()) as usize;
            }
            let offset = target as i32 - (pc as i32 + 1);
            code[pc] = match always {
                true if target > pc => Instr::absj(Op::Jump, 0, 0, offset),
                true => Instr::absj(Op::JumpBack, 0, 0, offset),
                false => jump.with_sj(offset),
            };
        }
    }
}
