//! Whether instructions do what their operands declare (`perilune_syntax::operands`): a dispatch table that
//! watches every one.
//!
//! Before each instruction, what the one before it has done is compared with its declaration: registers that
//! it does not write or clobber are as they were; the stack has moved or a collection happened only if its
//! effects allow for that. Then every register that, as the verifier says, holds nothing here gets a value
//! that nobody expects: a handler that reads one, or a declaration that forgets a read, shows in what the
//! program prints.
//!
//! Only looked at are instructions that end in the frame in which they began: what a call does is the sum of
//! what others do.

use super::{HANDLERS, Handlers, op, save};
use crate::Vm;
use crate::interp::frame_closure;
use crate::object::LuaString;
use crate::value::{Tag, Value};
use perilune_syntax::operands::{Effects, Flow, Registers};
use perilune_syntax::verify::in_use;
use perilune_syntax::{Instr, Proto};
use std::collections::HashMap;
use std::sync::Arc;

/// The table whose every entry is [`op_checked`].
pub(crate) static CHECKED: Handlers = Handlers(watched());

const fn watched() -> [super::Handler; 256] {
    let mut table: [super::Handler; 256] = [op_checked; 256];
    table[crate::machine::ENTER as usize] = crate::machine::op_enter_plain;
    table
}

/// What no register holds by right: a light userdata with this address.
const NOTHING: u64 = 0x0dea_dbee;

/// What is remembered of the instruction under way.
pub(crate) struct Checker {
    /// The frame, and where its stack is.
    base: *mut Value,
    stack: *mut Value,
    k: *const Value,
    epoch: u32,
    /// The number of the instruction in its function, and the instruction.
    at: usize,
    instr: Instr,
    /// The frame's registers before it.
    before: Vec<Value>,
    /// For functions seen: the registers that are in use before each instruction.
    functions: HashMap<*const Proto, (Arc<Proto>, Vec<Registers>)>,
    /// Instructions compared.
    pub seen: u64,
}

impl Default for Checker {
    fn default() -> Self {
        Checker {
            base: std::ptr::null_mut(),
            stack: std::ptr::null_mut(),
            k: std::ptr::null(),
            epoch: 0,
            at: 0,
            instr: Instr(0),
            before: Vec::new(),
            functions: HashMap::new(),
            seen: 0,
        }
    }
}

op!(
    /// Every opcode's entry in the table.
    #[inline(never)] op_checked(vm, base, pc, k, i, tab) {
    save!(vm, base, pc);
    (*vm).check_instruction(base, pc, k, i);
    (HANDLERS.0[i.op_byte() as usize])(vm, base, pc, k, i.0, tab)
});

impl Vm {
    /// From now on every instruction is compared with what its operands declare; a difference is a panic.
    /// Hooks and samplers put this off.
    pub fn check_operands(&mut self) {
        self.lua.seen.checker = Some(Box::default());
        self.update_dispatch();
    }

    /// How many instructions have been compared.
    pub fn operands_checked(&self) -> u64 {
        self.lua.seen.checker.as_ref().map_or(0, |c| c.seen)
    }

    /// Instruction `i` is about to run: looks at the one before it, and remembers.
    #[inline(never)]
    unsafe fn check_instruction(&mut self, base: *mut Value, pc: *const Instr, k: *const Value, i: Instr) {
        let Some(mut checker) = self.lua.seen.checker.take() else { return };
        // SAFETY: the running frame is a Lua frame with its pc stored, and `k` are its constants.
        unsafe {
            let inst = (*frame_closure(base)).inst();
            let at = inst.position(pc) - 1;
            let stack = (*self.lua.thread).stack;
            if checker.base == base && checker.stack == stack && checker.k == k && checker.leads_to(at) {
                self.compare(&checker, at);
                checker.seen += 1;
            }
            let proto = inst.proto;
            let (_, used) = checker.functions.entry(proto).or_insert_with(|| {
                Arc::increment_strong_count(proto);
                // The stub by which natives call `pcall` is no verified code.
                let used = in_use(&*proto).unwrap_or_default();
                (Arc::from_raw(proto), used)
            });
            let used = used.get(at).copied().unwrap_or(Registers::from(0));
            for register in 0..inst.max_stack {
                if !used.contains(register) {
                    Value::store(base.add(register as usize), Tag::LIGHT, NOTHING);
                }
            }
            checker.before.clear();
            checker.before.extend((0..inst.max_stack as usize).map(|n| *base.add(n)));
            (checker.base, checker.stack, checker.k) = (base, stack, k);
            (checker.epoch, checker.at, checker.instr) = (self.heap.epoch(), at, i);
        }
        self.lua.seen.checker = Some(checker);
    }

    /// Compares what instruction `checker.instr`, which led to instruction `to` of the same frame, has done
    /// with what it declares.
    unsafe fn compare(&self, checker: &Checker, to: usize) {
        let i = checker.instr;
        let Some(op) = i.op() else { return };
        let collected = checker.epoch != self.heap.epoch();
        assert!(!collected || op.effects().has(Effects::COLLECTS), "{i:?} collects");
        let other_code = op.effects().has(Effects::COLLECTS);
        for (register, &old) in checker.before.iter().enumerate() {
            // SAFETY: a register of the running frame.
            let (slot, new) = unsafe { (checker.base.add(register), *checker.base.add(register)) };
            if new.same(old) || i.changes(register as u8) {
                continue;
            }
            let twin = old.tag() == Tag::STRING
                && new.tag() == Tag::STRING
                && old.gc::<LuaString>().bytes() == new.gc::<LuaString>().bytes();
            let assigned = other_code && self.is_captured(slot);
            assert!(
                twin || assigned,
                "{i:?} at {} (then {to}) changes register {register} from {old:?} to {new:?}",
                checker.at
            );
        }
    }

    /// Whether an open upvalue of the running coroutine refers to `slot`.
    fn is_captured(&self, slot: *mut Value) -> bool {
        // SAFETY: the list belongs to the running coroutine.
        unsafe {
            let mut upvalue = (*self.lua.thread).open_upvals;
            while !upvalue.is_null() {
                if (*upvalue).v == slot {
                    return true;
                }
                upvalue = (*upvalue).closed.payload() as *mut crate::object::Upval;
            }
            false
        }
    }
}

impl Checker {
    /// Whether the instruction can have been followed by the one at `to`.
    fn leads_to(&self, to: usize) -> bool {
        let Some(op) = self.instr.op() else { return false };
        let jumped = self.instr.jump().is_some_and(|jump| self.at as i64 + 1 + jump as i64 == to as i64);
        jumped
            || match op.flow() {
                Flow::Next => to == self.at + 1,
                Flow::Skips => to == self.at + 2,
                Flow::Ends => false,
            }
    }
}
