//! What a hot loop meets: recorded by a dispatch table of its own for so many instructions, then handed to the specializer.
//!
//! A loop is *hot* when it has come round often enough ([`Specializer::threshold`]); the instance counts. From then on the domain
//! runs with [`LOGGING`], whose every entry notes what the last instruction of the function came to, what registers hold where a loop
//! begins, and then does what the instruction wants. When the quota is used up, and the function is the running one, the specializer gets the [`Log`].
//!
//! A log has tags, kinds and numbers of shapes, and no value: nothing in it keeps an object alive or is anything to another domain.

use super::LOOP_ENTRIES;
use crate::Vm;
use crate::interp::ic::{OWN, ic};
use crate::interp::{HANDLERS, Handler, Handlers, frame_closure, op, save};
use crate::object::{ProtoInst, Table};
use crate::value::{Tag, Value};
use perilune_syntax::bytecode::NO_IC;
use perilune_syntax::{Instr, Op, Proto};
use std::sync::Arc;

/// A log is given up if its function has not come back after so many times its quota.
const PATIENCE: u32 = 4;

/// Tags that have been seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tags(u32);

impl Tags {
    fn add(&mut self, tag: Tag) {
        self.0 |= 1 << tag.0;
    }

    /// The only one; `None`: none or several.
    pub fn only(self) -> Option<Tag> {
        self.0.is_power_of_two().then(|| Tag(self.0.trailing_zeros() as u8))
    }
}

/// What one instruction has met.
#[derive(Clone, Copy, Debug, Default)]
pub struct Site {
    /// How often it has run to its end within its frame.
    pub runs: u32,
    /// It has led out of its frame: a call of a Lua function, a return, another coroutine.
    pub left: bool,
    /// Tags of the first register that it defines, afterwards.
    pub result: Tags,
    /// GETINDEX, GETINT, SETINDEX, SETINT: kinds of the arrays of tables that it was applied to, by bit ([`crate::ArrayKind`]); bit 7: other objects.
    pub arrays: u8,
    /// GETFIELD, SETFIELD: shape and slot, if its cache has an own field of the table in the end.
    pub field: Option<(u32, u32)>,
}

/// What a function has met for a while.
#[derive(Debug)]
pub struct Log {
    proto: Arc<Proto>,
    /// The instruction at which its loop came round when it became hot.
    hot: u32,
    sites: Box<[Site]>,
    /// By instruction: tags of all registers where a loop begins.
    heads: Vec<Option<Box<[Tags]>>>,
}

impl Log {
    /// The function.
    pub fn proto(&self) -> &Arc<Proto> {
        &self.proto
    }

    /// The number of the instruction at which its hot loop comes round.
    pub fn hot(&self) -> usize {
        self.hot as usize
    }

    /// What instruction `at` has met.
    pub fn site(&self, at: usize) -> &Site {
        &self.sites[at]
    }

    /// What registers held whenever the loop that begins with instruction `at` began or came round; `None`: it did not, or none begins there.
    pub fn head(&self, at: usize) -> Option<&[Tags]> {
        self.heads[at].as_deref().filter(|tags| tags.iter().any(|t| t.0 != 0))
    }
}

/// A log under way.
#[derive(Debug)]
pub(crate) struct Logging {
    log: Log,
    /// The instance, which is compared and never looked into.
    inst: *mut ProtoInst,
    base: *mut Value,
    /// The instruction of the function that is under way.
    last: Option<usize>,
    seen: u32,
}

/// The table of domains that log.
pub(crate) static LOGGING: Handlers = Handlers(logging());

const fn logging() -> [Handler; 256] {
    let mut table: [Handler; 256] = [op_logged; 256];
    table[super::ENTER as usize] = super::op_enter_plain;
    table
}

op!(
    /// Every entry of [`LOGGING`].
    #[inline(never)] op_logged(vm, base, pc, k, i, tab) {
    save!(vm, base, pc);
    (*vm).log_instruction(base, pc);
    (HANDLERS.0[i.op_byte() as usize])(vm, base, pc, k, i.0, (*vm).lua.dispatch)
});

impl Vm {
    /// The loop that comes round at `pc` in the frame at `base`, whose function has no machine code for it, has done so once more.
    #[inline]
    pub(super) unsafe fn count_round(&mut self, base: *mut Value, inst: *mut ProtoInst, pc: *const Instr) {
        // SAFETY: the running frame's closure has this instance.
        unsafe {
            (*inst).heat = (*inst).heat.wrapping_add(1);
            let threshold = self.lua.machine.threshold;
            if threshold != 0 && (*inst).heat >= threshold.saturating_mul(1 << (*inst).setbacks) {
                (*inst).heat = 0;
                self.begin_log(base, inst, (*inst).position(pc) - 1);
            }
        }
    }

    #[cold]
    unsafe fn begin_log(&mut self, base: *mut Value, inst: *mut ProtoInst, hot: usize) {
        if self.lua.machine.logging.is_some() {
            return;
        }
        // SAFETY: a live instance, which owns a count of its prototype.
        let proto = unsafe {
            Arc::increment_strong_count((*inst).proto);
            Arc::from_raw((*inst).proto)
        };
        let count = proto.code.len();
        let registers = proto.max_stack as usize;
        let mut heads = vec![None; count];
        for (at, i) in proto.code.iter().enumerate() {
            let target = match i.op() {
                Some(Op::JumpBack | Op::ForLoop | Op::TForLoop) => at as i64 + 1 + i.sj() as i64,
                _ => continue,
            };
            heads[target as usize] = Some(vec![Tags::default(); registers].into_boxed_slice());
        }
        let log =
            Log { proto, hot: hot as u32, sites: vec![Site::default(); count].into_boxed_slice(), heads };
        self.lua.machine.logging = Some(Box::new(Logging { log, inst, base, last: None, seen: 0 }));
        self.update_dispatch();
    }

    /// The instruction before `pc` is about to run in the frame at `base`.
    unsafe fn log_instruction(&mut self, base: *mut Value, pc: *const Instr) {
        let Some(logging) = &mut self.lua.machine.logging else { return };
        logging.seen += 1;
        // SAFETY: the running frame is a Lua frame, its registers are values.
        unsafe {
            let inst = (*frame_closure(base)).proto;
            if logging.inst != inst || logging.base != base {
                if let Some(last) = logging.last.take() {
                    logging.log.sites[last].left = true;
                }
                if logging.seen / PATIENCE > self.lua.machine.quota {
                    self.lua.machine.logging = None;
                    self.update_dispatch();
                }
                return;
            }
            let at = (*inst).position(pc) - 1;
            let code = &logging.log.proto.code;
            if let Some(last) = logging.last {
                let site = &mut logging.log.sites[last];
                site.runs += 1;
                site.result.add((*base.add(code[last].a() as usize)).tag());
            }
            if logging.seen > self.lua.machine.quota {
                return self.end_log(base);
            }
            logging.last = Some(at);
            let i = code[at];
            let object = match i.op() {
                Some(Op::GetIndex | Op::GetInt) => Some(i.b() as usize),
                Some(Op::SetIndex | Op::SetInt) => Some(i.a() as usize),
                _ => None,
            };
            if let Some(object) = object {
                let v = *base.add(object);
                let bit = if v.tag() == Tag::TABLE { (*(v.payload() as *mut Table)).kind as u8 } else { 7 };
                logging.log.sites[at].arrays |= 1 << bit;
            }
            if let Some(tags) = &mut logging.log.heads[at] {
                for (register, tags) in tags.iter_mut().enumerate() {
                    tags.add((*base.add(register)).tag());
                }
            }
        }
    }

    /// The quota is used up, in a frame of the function: asks for machine code.
    #[cold]
    unsafe fn end_log(&mut self, base: *mut Value) {
        let Some(mut logging) = self.lua.machine.logging.take() else { return };
        // SAFETY: the running frame's closure has the instance, which so is alive.
        unsafe {
            let inst = logging.inst;
            debug_assert!((*frame_closure(base)).proto == inst);
            for (at, i) in logging.log.proto.code.iter().enumerate() {
                if let Some(Op::GetField | Op::SetField) = i.op()
                    && i.d() != NO_IC
                {
                    let cache = *ic((*inst).k, i.d());
                    if cache.kind == OWN && cache.shape != crate::interp::ic::EMPTY {
                        logging.log.sites[at].field = Some((cache.shape, cache.slot));
                    }
                }
            }
            let specializer = self.lua.machine.specializer.clone();
            match specializer.and_then(|s| s.compile(&logging.log)) {
                Some(code) => self.give_machine_code(inst, code),
                None => (*inst).setbacks = ((*inst).setbacks + 1).min(super::MOST_SETBACKS),
            }
        }
        self.update_dispatch();
    }
}

/// Whether `op` is one at which a loop can be entered.
pub(super) fn is_loop_entry(op: Option<Op>) -> bool {
    op.is_some_and(|op| LOOP_ENTRIES.contains(&op))
}
