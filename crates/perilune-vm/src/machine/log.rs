//! What functions meet while something is hot: recorded by a dispatch table of its own for so many
//! instructions, then handed to the specializer.
//!
//! A function is *hot* when its loops have come round, and it has made calls, often enough
//! ([`Specializer::threshold`]; the instance counts), or when ticks have found it running (`ticks.rs`). From
//! then on the domain runs with [`LOGGING`], whose every entry notes what the last instruction came to, what
//! registers hold where a function or a loop begins, and then does what the instruction wants: for all
//! functions that run meanwhile, since what a loop calls is as hot as the loop. When the quota is used up,
//! the specializer gets the [`Log`]s.
//!
//! A log has tags, kinds and numbers of shapes, and no value: nothing in it keeps an object alive or is
//! anything to another domain.

use super::LOOP_ENTRIES;
use super::paths::{AccessPlace, MOST_PATHS, OperatorPlace, Path, access_place, operator_place, path};
use super::rounds::Rounds;
use super::site::{
    APPENDS, Cache, FILLS, OF_DICTIONARY, OF_RECORD, OTHER_KEY, OTHER_OBJECT, Site, Sites, Tags,
};
use super::{Operand, Operator};
use crate::Vm;
use crate::frame::{CONT_COMPARE, CONT_CONCAT, CONT_DISCARD, CONT_STORE, F_CONT, F_ENTRY, frame};
use crate::interp::ic::ic;
use crate::interp::quick::native_at;
use crate::interp::{HANDLERS, Handler, Handlers, frame_closure, op, rk, save};
use crate::meta::Event;
use crate::object::{ArrayKind, ProtoInst, Table};
use crate::shape::{is_dict, lookup};
use crate::shared::SharedRef;
use crate::value::{Gc, Tag, Value};
use perilune_syntax::bytecode::NO_IC;
use perilune_syntax::{Instr, Op, Proto};
use perilune_trace::clock::ticks;
use perilune_trace::cputime::now_ns;
use perilune_trace::event::{self, Count};
use std::ptr::null_mut;
use std::sync::Arc;

/// By small numbers, and by addresses: nobody from without chooses them.
type Map<K, V> = std::collections::HashMap<K, V, foldhash::fast::FixedState>;

/// So many callers of a function are told apart.
const MOST_CALLERS: usize = 16;
/// So many functions are recorded at a time.
const MOST_FUNCTIONS: usize = 100;

/// What a function has met for a while.
#[derive(Clone, Debug)]
pub struct Log {
    proto: Arc<Proto>,
    /// How often it has been called.
    calls: u32,
    /// How often by a native.
    calls_from_natives: u32,
    /// How often as a metamethod.
    calls_as_metamethod: u32,
    /// By which functions, as [`Log::function`] says, and how often: the first that were seen.
    callers: Vec<(usize, u32)>,
    sites: Sites,
    /// By instruction, GETFIELD or SELF: how tables that lack the field come by it. More than [`MOST_PATHS`]:
    /// there were others.
    paths: Map<usize, Vec<Path>>,
    /// By instruction, an operator, or a call of tables: where it has found a metamethod; `None`: in several
    /// places.
    operators: Map<usize, Option<OperatorPlace>>,
    /// By instruction, GETFIELD or SETFIELD: where the metamethod for a field that tables lacked was; `None`:
    /// in several places.
    accesses: Map<usize, Option<AccessPlace>>,
    /// Tags of all registers where a loop begins, by its first instruction, and at 0 where the function does.
    heads: Map<usize, Box<[Tags]>>,
}

impl Log {
    /// The function.
    pub fn proto(&self) -> &Arc<Proto> {
        &self.proto
    }

    /// A number that stands for the function as long as this log lives.
    pub fn function(&self) -> usize {
        Arc::as_ptr(&self.proto) as usize
    }

    /// How often the function has begun.
    pub fn calls(&self) -> u32 {
        self.calls
    }

    /// How often the function has called another one at instruction `at`.
    pub fn calls_at(&self, at: usize) -> u32 {
        let site = self.site(at);
        // A tail call is not among the calls: the function that it goes on with comes back elsewhere.
        if self.proto.code[at].op() == Some(Op::TailCall) { site.times() } else { site.calls }
    }

    /// How often a native has called the function.
    pub fn calls_from_natives(&self) -> u32 {
        self.calls_from_natives
    }

    /// How often the function has been called as a metamethod.
    pub fn calls_as_metamethod(&self) -> u32 {
        self.calls_as_metamethod
    }

    /// How often it has been called by another function, whose number this is, as far as that was noted.
    pub fn calls_from(&self, function: usize) -> u32 {
        self.callers.iter().find(|(caller, _)| *caller == function).map_or(0, |(_, count)| *count)
    }

    fn called_by(&mut self, function: usize, times: u32) {
        if let Some((_, count)) = self.callers.iter_mut().find(|(caller, _)| *caller == function) {
            *count = count.saturating_add(times);
        } else if self.callers.len() < MOST_CALLERS {
            self.callers.push((function, times));
        }
    }

    /// What a later log of the same function has met is added; where only one can be had, it is the later.
    ///
    /// # Panics
    /// It is one of another function.
    pub fn add(&mut self, later: Log) {
        assert!(Arc::ptr_eq(&self.proto, &later.proto), "logs of two functions");
        self.calls = self.calls.saturating_add(later.calls);
        self.calls_from_natives = self.calls_from_natives.saturating_add(later.calls_from_natives);
        self.calls_as_metamethod = self.calls_as_metamethod.saturating_add(later.calls_as_metamethod);
        later.callers.iter().for_each(|&(caller, times)| self.called_by(caller, times));
        self.sites.add(&later.sites);
        for (at, paths) in &later.paths {
            paths.iter().for_each(|path| self.came_by(*at, *path));
        }
        later.operators.iter().for_each(|(at, place)| found(&mut self.operators, *at, *place));
        later.accesses.iter().for_each(|(at, place)| found(&mut self.accesses, *at, *place));
        for (at, later) in later.heads {
            let Some(head) = self.heads.get_mut(&at) else {
                self.heads.insert(at, later);
                continue;
            };
            head.iter_mut().zip(&later).for_each(|(tags, later)| *tags = tags.or(*later));
        }
    }

    /// Gives back memory that is not needed as long as nothing is added.
    pub fn shrink(&mut self) {
        self.sites.shrink();
    }

    /// How many of its instructions have been recorded.
    pub fn weight(&self) -> u64 {
        self.sites.touched().map(|(_, site)| site.times() as u64).sum()
    }

    /// The instructions that have run.
    pub fn seen(&self) -> impl Iterator<Item = usize> + '_ {
        self.sites.touched().filter(|(_, site)| site.times() > 0).map(|(at, _)| at)
    }

    /// What instruction `at` has met.
    pub fn site(&self, at: usize) -> &Site {
        self.sites.get(at)
    }

    /// How tables that lacked the field of instruction `at` came by it; `None`: some not by shapes alone, or
    /// there were too many.
    pub fn paths(&self, at: usize) -> Option<&[Path]> {
        self.paths.get(&at).map(Vec::as_slice).filter(|paths| !paths.is_empty() && paths.len() <= MOST_PATHS)
    }

    /// Where instruction `at`, an operator, or a call of tables, has always found its metamethod, if shapes
    /// alone say so.
    pub fn operator(&self, at: usize) -> Option<OperatorPlace> {
        self.operators.get(&at).copied().flatten()
    }

    /// Where instruction `at`, an access to a field, has always found its metamethod, if shapes alone say so.
    pub fn access(&self, at: usize) -> Option<AccessPlace> {
        self.accesses.get(&at).copied().flatten()
    }

    /// Whether something may be learnt from tables of this shape, with metatables of this one.
    fn lacks_path(&self, at: usize, shape: u32, metatable: u32) -> bool {
        let known = self.paths.get(&at).map_or(&[][..], Vec::as_slice);
        known.len() <= MOST_PATHS && known.iter().all(|path| !path.is_of(shape, metatable))
    }

    fn came_by(&mut self, at: usize, path: Path) {
        let known = self.paths.entry(at).or_default();
        if known.len() <= MOST_PATHS && !known.contains(&path) {
            known.push(path);
        }
    }

    /// What registers held whenever the loop that begins with instruction `at` began or came round, or, for
    /// 0, the function began; `None`: it did not, or none begins there.
    pub fn head(&self, at: usize) -> Option<&[Tags]> {
        self.heads.get(&at).map(|tags| &**tags)
    }
}

/// Instruction `at` has found something there, or nothing that can be told. What it has always found stays.
fn found<T: PartialEq>(known: &mut Map<usize, Option<T>>, at: usize, place: Option<T>) {
    match known.get_mut(&at) {
        None => drop(known.insert(at, place)),
        Some(known) if *known != place => *known = None,
        Some(_) => {}
    }
}

/// What functions have met in the same while, and how long it was.
#[derive(Debug)]
pub struct Recording {
    /// The first is that of the function that is hot.
    pub logs: Vec<Log>,
    /// How many instructions have been seen, those of functions without a log included.
    pub instructions: u32,
    /// Nanoseconds of processor time that the domain's thread took for library functions and allocations
    /// among them.
    pub library: u64,
    /// Which part of the program's time is the interpreter's by now, as far as can be told: what is recorded
    /// is a part of that.
    pub interpreted: f32,
    /// How much longer loops go on that are under way, in times of what the recording has taken, if they are
    /// not left early. 0: nothing is known.
    pub ahead: f64,
    /// The same in nanoseconds of processor time, by what has gone by since the recording before.
    pub ahead_nanos: f64,
}

/// So many instructions are recorded behind an exit.
const AFTER_EXIT: u32 = 100;
/// It is so behind the second exit at an instruction, and then each time that there have been so many times as
/// many.
const EXITS_PER_LESSON: u32 = 16;

/// Whether what follows is recorded when machine code has been left so often for the same reason.
fn is_lesson(times: u32) -> bool {
    let half = times / 2;
    let is_one_of_these = half.is_power_of_two() && half.ilog2().is_multiple_of(EXITS_PER_LESSON.ilog2());
    is_one_of_these && times.is_multiple_of(2)
}

/// Logs under way.
#[derive(Debug)]
pub(crate) struct Logging {
    /// How many instructions are recorded.
    quota: u32,
    /// They are for what is known of the functions alone, and no reason to make machine code.
    lesson: bool,
    /// The first is that of the hot function. An instance stands here as long as it lives.
    logs: Vec<(*mut ProtoInst, Log)>,
    /// Where each instance is in `logs`.
    numbers: Map<*mut ProtoInst, usize>,
    /// The instruction that is under way: number of the log, base, number in the function.
    last: Option<(usize, *mut Value, usize)>,
    seen: u32,
    /// What the thread had taken when this began, in nanoseconds, and when that was, in ticks.
    begun: (u64, u64),
    /// When the instruction that is under way began, in ticks, if it is one that may take long: it calls a
    /// native, or allocates. Else 0.
    since: u64,
    /// What those before it have taken.
    library: u64,
    /// The loops that were under way when this began.
    rounds: Rounds,
}

impl Logging {
    /// The instance is dead, and another one may get its address.
    pub fn forget(&mut self, inst: *mut ProtoInst) {
        if let Some(number) = self.numbers.remove(&inst) {
            self.logs[number].0 = null_mut();
        }
    }

    /// The number of the log of a live instance, which begins one; `None`: there are too many.
    ///
    /// # Safety
    /// The instance lives.
    #[inline]
    unsafe fn number(&mut self, inst: *mut ProtoInst) -> Option<usize> {
        if let Some((number, ..)) = self.last
            && self.logs[number].0 == inst
        {
            return Some(number);
        }
        if let Some(&number) = self.numbers.get(&inst) {
            return Some(number);
        }
        if self.logs.len() == MOST_FUNCTIONS {
            return None;
        }
        // SAFETY: a live instance, which owns a count of its prototype.
        let proto = unsafe {
            Arc::increment_strong_count((*inst).proto);
            Arc::from_raw((*inst).proto)
        };
        let mut sites = Sites::new(proto.code.len());
        sites.mark(0);
        for (at, i) in proto.code.iter().enumerate() {
            if let Some(head) = comes_round_to(at, *i) {
                sites.mark(head);
            }
        }
        let log = Log {
            proto,
            calls: 0,
            calls_from_natives: 0,
            calls_as_metamethod: 0,
            callers: Vec::new(),
            sites,
            paths: Map::default(),
            operators: Map::default(),
            accesses: Map::default(),
            heads: Map::default(),
        };
        self.logs.push((inst, log));
        self.numbers.insert(inst, self.logs.len() - 1);
        Some(self.logs.len() - 1)
    }
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
    /// A loop of the running function `inst`, which has no machine code for it, comes round once more, or the
    /// function calls.
    #[inline]
    pub(super) unsafe fn count_round(&mut self, inst: *mut ProtoInst) {
        // SAFETY: the running frame's closure has this instance.
        unsafe {
            (*inst).heat = (*inst).heat.wrapping_add(1);
            let threshold = self.lua.machine.threshold;
            if threshold != 0 && (*inst).heat >= threshold.saturating_mul(1 << (*inst).setbacks) {
                (*inst).heat = 0;
                self.begin_counted_log(inst);
            }
        }
    }

    /// Begins a recording.
    ///
    /// # Safety
    /// The instance lives, and the state is saved.
    // Not inlined: a handler that has something to drop does not end in a tail call.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn begin_log(&mut self, inst: *mut ProtoInst) {
        // SAFETY: the caller's promise.
        unsafe {
            let rounds = self.rounds();
            self.begin_log_of(inst, self.lua.machine.quota, false, rounds);
        }
    }

    /// The same where rounds and calls are counted: nothing is saved of the frame, nor is asked what machine
    /// code costs.
    ///
    /// # Safety
    /// The instance lives.
    #[cold]
    #[inline(never)]
    unsafe fn begin_counted_log(&mut self, inst: *mut ProtoInst) {
        // SAFETY: the caller's promise.
        unsafe { self.begin_log_of(inst, self.lua.machine.quota, false, Rounds::default()) }
    }

    /// Machine code of `inst` has been left for the interpreter, since something was not as expected, so
    /// often by now for the same reason. Now and then what follows is recorded, so that the next machine code
    /// of the function knows more than that this one was wrong: values that are of two types in one place are
    /// so in others. What goes on at one place is known soon. (Behind one exit of 24 of a function Teal's
    /// compiler made 3,600 such recordings in two seconds; each costs as much as ten exits.)
    ///
    /// # Safety
    /// The instance lives.
    pub(super) unsafe fn learn_from_exit(&mut self, inst: *mut ProtoInst, times: u32) {
        let machine = &self.lua.machine;
        if is_lesson(times) && !machine.distrusted && !machine.watched {
            // SAFETY: the caller's promise.
            unsafe { self.begin_log_of(inst, AFTER_EXIT, true, Rounds::default()) }
        }
    }

    /// # Safety
    /// The instance lives.
    unsafe fn begin_log_of(&mut self, inst: *mut ProtoInst, quota: u32, lesson: bool, rounds: Rounds) {
        let machine = &self.lua.machine;
        if machine.logging.is_some() || machine.distrusted || machine.watched {
            return;
        }
        let mut logging = Logging {
            quota,
            lesson,
            logs: Vec::new(),
            numbers: Map::default(),
            last: None,
            seen: 0,
            begun: if lesson { (0, 0) } else { (now_ns(), ticks()) },
            since: 0,
            library: 0,
            rounds,
        };
        // SAFETY: the caller's promise.
        unsafe { logging.number(inst) };
        self.lua.machine.logging = Some(Box::new(logging));
        self.update_dispatch();
    }

    /// The instruction before `pc` is about to run in the frame at `base`.
    unsafe fn log_instruction(&mut self, base: *mut Value, pc: *const Instr) {
        let event = self.event_name(Event::Index);
        let top = self.lua.top;
        let Some(logging) = &mut self.lua.machine.logging else { return };
        logging.seen += 1;
        if logging.since != 0 {
            logging.library += ticks().saturating_sub(logging.since);
            logging.since = 0;
        }
        // SAFETY: the running frame is a Lua frame, its registers are values.
        unsafe {
            let inst = (*frame_closure(base)).proto;
            let before = logging.last;
            let number = logging.number(inst);
            let at = (*inst).position(pc) - 1;
            let tag = |r: u8| (*base.add(r as usize)).tag();
            let gives_others =
                |i: Instr| i.op() == Some(Op::Call) && i.c() == 0 && top != base.add(i.a() as usize + 1);
            let mut begins = at == 0;
            let mut caller = None;
            if let Some((last, frame, op)) = before {
                let log = &mut logging.logs[last].1;
                let i = log.proto.code[op];
                let moves = i.op() == Some(Op::VarargPrep) && at == 1;
                let site = log.sites.touch(op);
                if Some(last) == number && (frame == base || moves) && i.op() != Some(Op::TailCall) {
                    site.runs += 1;
                    site.result.add(tag(i.a()));
                    site.gives_others |= gives_others(i);
                    begins = false;
                } else {
                    match at == 0 && base > frame {
                        true => {
                            site.calls += 1;
                            site.calls_of((*inst).proto as usize);
                            caller = Some(Arc::as_ptr(&log.proto) as usize);
                        }
                        false => {
                            site.leaves += 1;
                            // A frame that has moved above its extra arguments gives way to one where it was
                            // before.
                            let replaces = base == frame || log.proto.is_vararg && base < frame;
                            if at == 0 && replaces && i.op() == Some(Op::TailCall) {
                                site.calls_of((*inst).proto as usize);
                                caller = Some(Arc::as_ptr(&log.proto) as usize);
                            }
                        }
                    }
                }
            }
            logging.last = number.map(|number| (number, base, at));
            let Some(number) = number else { return self.end_log_if_due() };
            let log = &mut logging.logs[number].1;
            if let Some(caller) = caller.filter(|_| begins) {
                log.called_by(caller, 1);
            }
            let code = &log.proto.code;
            if begins {
                log.calls += 1;
                let (flags, cont) = ((*frame(base)).flags, (*frame(base)).cont);
                log.calls_from_natives += (flags & F_ENTRY != 0) as u32;
                // Not what `pcall` has called, or a coroutine.
                let is_metamethod = matches!(cont, CONT_STORE | CONT_COMPARE | CONT_DISCARD | CONT_CONCAT);
                log.calls_as_metamethod += (flags & F_CONT != 0 && is_metamethod) as u32;
            } else if at > 0
                && before.is_none_or(|(_, b, _)| b != base)
                && (code[at - 1].op() == Some(Op::Call)
                    || log.sites.get(at - 1).calls > 0 && code[at - 1].jump().is_none())
            {
                // A call has come back, or a metamethod.
                let site = log.sites.touch(at - 1);
                site.runs += 1;
                site.result.add(tag(code[at - 1].a()));
                site.gives_others |= gives_others(code[at - 1]);
            }
            let i = code[at];
            if log.sites.is_marked(at) {
                let tags = log.heads.entry(at).or_insert_with(|| {
                    vec![Tags::default(); log.proto.max_stack as usize].into_boxed_slice()
                });
                for (register, tags) in tags.iter_mut().enumerate() {
                    tags.add((*base.add(register)).tag());
                }
            }
            let site = log.sites.touch(at);
            let v = |r: u16| *base.add(r as usize);
            let field = match i.op() {
                Some(Op::GetIndex) => Some((v(i.b()), v(i.c()))),
                Some(Op::GetInt) => Some((v(i.b()), Value::int(i.c() as i64))),
                Some(Op::SetIndex) => Some((v(i.a() as u16), v(i.b()))),
                Some(Op::SetInt) => Some((v(i.a() as u16), Value::int(i.b() as i64))),
                // The element behind the last one.
                Some(Op::TForCall) => {
                    let (table, visited) = (v(i.a() as u16 + 1), v(i.a() as u16 + 2));
                    Some((table, Value::int(visited.as_int().unwrap_or(0).wrapping_add(1))))
                }
                _ => None,
            };
            if let Some((object, key)) = field {
                site.objects.add(object.tag());
                site.keys.add(key.tag());
                if object.tag() == Tag::SHARED {
                    let array = object.payload() as *const SharedRef;
                    let number = key.as_int().map_or(0, |n| n as u64).wrapping_sub(1);
                    let is_in = number < (*array).len as u64;
                    site.elements |= if is_in { 1 << (*array).element } else { 1 };
                }
                site.arrays |= if object.tag() == Tag::TABLE {
                    let table = object.payload() as *mut Table;
                    if key.tag() == Tag::STRING {
                        let is_record = (*table).shape > crate::shape::FROZEN_DICT;
                        site.by_name |= if is_record { OF_RECORD } else { OF_DICTIONARY };
                    }
                    let number = match key.as_float() {
                        Some(f) => perilune_syntax::numeral::float_to_integer(f).unwrap_or(0),
                        None => key.as_int().unwrap_or(0),
                    };
                    let key = match ((number as u64).wrapping_sub(1)).cmp(&((*table).array_len as u64)) {
                        std::cmp::Ordering::Less => 0,
                        std::cmp::Ordering::Equal => APPENDS,
                        std::cmp::Ordering::Greater => OTHER_KEY,
                    };
                    // The first element chooses the kind.
                    let kind = match i.op() {
                        Some(Op::SetIndex | Op::SetInt) if key == APPENDS && (*table).array_len == 0 => {
                            ArrayKind::of(*rk(base, (*inst).k, i.c()))
                        }
                        _ => (*table).kind,
                    };
                    let fills = matches!(i.op(), Some(Op::SetIndex | Op::SetInt))
                        && (*table).changes_hole(number, *rk(base, (*inst).k, i.c()));
                    1 << kind as u8 | key | if fills { FILLS } else { 0 }
                } else {
                    OTHER_OBJECT
                };
            }
            let called = match i.op() {
                Some(Op::Call | Op::TailCall | Op::TForCall) => native_at(base.add(i.a() as usize)),
                _ => std::ptr::null(),
            };
            let takes_long = !called.is_null()
                || matches!(i.op(), Some(Op::NewTable | Op::SetList | Op::Closure | Op::Concat));
            if !called.is_null() {
                let native = &*called;
                site.natives |= !std::ptr::eq(*site.native.get_or_insert(native), native);
                site.has_upvalues |= tag(i.a()) == Tag::NATIVE_CLOSURE;
            }
            let asked = [Op::JumpLt, Op::JumpNotLt, Op::JumpLe, Op::JumpNotLe, Op::Call, Op::TailCall];
            if i.op().is_some_and(|op| asked.contains(&op)) {
                site.objects.add(tag(i.a()));
            }
            if let Some(Op::Call | Op::TailCall) = i.op()
                && tag(i.a()) == Tag::TABLE
            {
                let name = Gc::from_ptr(self.lua.roots.event_names[Event::Call as usize]);
                found(&mut log.operators, at, operator_place(name, [v(i.a() as u16), Value::NIL]));
            }
            let object = match i.op() {
                Some(Op::GetField | Op::SelfCall) => Some((v(i.b()), i.c())),
                Some(Op::SetField) => Some((v(i.a() as u16), i.b())),
                _ => None,
            };
            if let Some((object, _)) = object {
                site.objects.add(object.tag());
                site.stores_nil |= i.op() == Some(Op::SetField) && (*rk(base, (*inst).k, i.c())).is_nil();
                site.arrays |= if object.tag() == Tag::TABLE { 0 } else { OTHER_OBJECT };
            }
            if let Some((object, name)) = object.filter(|(v, _)| v.tag() == Tag::TABLE) {
                let table = object.payload() as *mut Table;
                let shape = (*table).shape;
                site.shapes |= *site.shape.get_or_insert(shape) != shape;
                let name = (*(*inst).k.add(name as usize)).gc();
                let is_plain =
                    i.op() == Some(Op::GetField) && (*table).metatable.is_null() && !is_dict(shape);
                if is_plain && site.fields.has_room_for_lacking(shape) {
                    match lookup(shape, name) {
                        None => site.fields.add_lacking(shape),
                        slot => site.fields.add(shape, slot),
                    }
                } else if !is_plain && site.fields.has_room_for(shape) {
                    let slot = if is_dict(shape) { None } else { lookup(shape, name) };
                    site.fields.add(shape, slot);
                }
                let (metatable, own) = ((*table).metatable, site.fields.own());
                let lacks =
                    !metatable.is_null() && !is_dict(shape) && own.iter().all(|(known, _)| *known != shape);
                // What it has itself may be nil.
                let asks = lacks
                    || !metatable.is_null()
                        && own.iter().any(|&(known, slot)| {
                            known == shape && (*(*table).slots.add(slot as usize)).is_nil()
                        });
                if lacks && i.op() != Some(Op::SelfCall) {
                    let event = if i.op() == Some(Op::SetField) { Event::NewIndex } else { Event::Index };
                    let event = Gc::from_ptr(self.lua.roots.event_names[event as usize]);
                    found(&mut log.accesses, at, access_place(event, table, name));
                }
                if lacks && i.op() != Some(Op::SetField) {
                    site.inherits_by(metatable as usize);
                }
                if i.op() != Some(Op::SetField)
                    && asks
                    && log.lacks_path(at, shape, (*metatable).shape)
                    && let Some(path) = path(event, table, name)
                {
                    log.came_by(at, path);
                }
            }
            if let Some(Operator { event, operands, .. }) = Operator::of(i) {
                let values = operands.map(|operand| match operand {
                    Operand::Register(r) => v(r),
                    Operand::Constant(c) => *(*inst).k.add(c as usize),
                    Operand::Integer(n) => Value::int(n),
                });
                if values.iter().any(|value| value.tag() == Tag::TABLE) {
                    let name = Gc::from_ptr(self.lua.roots.event_names[event as usize]);
                    found(&mut log.operators, at, operator_place(name, values));
                }
            }
            if takes_long {
                logging.since = ticks();
            }
            self.end_log_if_due();
        }
    }

    #[inline]
    fn end_log_if_due(&mut self) {
        if self.lua.machine.logging.as_ref().is_some_and(|logging| logging.seen > logging.quota) {
            self.end_log();
        }
    }

    /// The quota is used up: asks for machine code.
    #[cold]
    fn end_log(&mut self) {
        let Some(mut logging) = self.lua.machine.logging.take() else { return };
        let mut insts: Vec<*mut ProtoInst> = logging.logs.iter().map(|(inst, _)| *inst).collect();
        for (inst, log) in &mut logging.logs {
            if inst.is_null() {
                continue;
            }
            let proto = &log.proto;
            log.sites.each_touched(|at, site| {
                let i = proto.code[at];
                if let Some(
                    Op::GetField
                    | Op::SetField
                    | Op::GetTabUp
                    | Op::SetTabUp
                    | Op::SelfCall
                    | Op::NewTable
                    | Op::SetSlot,
                ) = i.op()
                    && i.d() != NO_IC
                {
                    // SAFETY: a live instance has the caches that its code names.
                    site.cache = Cache::of(unsafe { &*ic((**inst).k, i.d()) });
                }
            });
        }
        if logging.lesson {
            if let Some(specializer) = self.lua.machine.specializer.clone() {
                specializer.learn(logging.logs.into_iter().map(|(_, log)| log).collect());
            }
            return self.update_dispatch();
        }
        let nanos = now_ns().saturating_sub(logging.begun.0);
        let passed = ticks().saturating_sub(logging.begun.1).max(1);
        // The thread may have waited for a processor meanwhile. It may also be another one than that which
        // began, and have taken less.
        let library = (nanos as f64 * (logging.library as f64 / passed as f64).min(1.0)) as u64;
        // SAFETY: the handler that records has saved the running frame.
        let rounds = unsafe { self.rounds() };
        let ahead = rounds.ahead(&logging.rounds);
        let (last, then) = std::mem::replace(&mut self.lua.machine.rounds, (rounds, now_ns()));
        let ahead_nanos = logging.rounds.ahead(&last) * logging.begun.0.saturating_sub(then) as f64;
        let logs = logging.logs.into_iter().map(|(_, log)| log).collect();
        let interpreted = self.lua.machine.ticks.interpreted();
        let recording =
            Recording { logs, instructions: logging.seen, library, interpreted, ahead, ahead_nanos };
        let (functions, instructions) =
            (Count::from(recording.logs.len()), Count::from(recording.instructions as usize));
        perilune_trace::emit(event::CompileQueued { functions, instructions });
        let codes = self.lua.machine.specializer.clone().map_or_else(Vec::new, |s| s.compile(recording));
        let mut hot = false;
        for (number, code) in codes {
            let inst = insts[number];
            if !inst.is_null() {
                // SAFETY: whoever frees an instance takes it out of the list.
                if std::ptr::eq(unsafe { (*inst).machine }, &*code) {
                    // It was hot all the same: what is asked of it is nothing that this does.
                    continue;
                }
                hot |= number == 0;
                // SAFETY: whoever frees an instance takes it out of the list.
                unsafe { self.give_machine_code(inst, code) };
            }
        }
        self.leave_retired_code();
        if !hot && !insts[0].is_null() {
            // SAFETY: as above.
            let setbacks = unsafe { &mut (*insts[0]).setbacks };
            *setbacks = (*setbacks + 1).min(super::MOST_SETBACKS);
        }
        self.update_dispatch();
    }
}

/// Where the loop begins that comes round by instruction `at`, if one does.
pub(super) fn comes_round_to(at: usize, i: Instr) -> Option<usize> {
    let comes_round = matches!(i.op(), Some(Op::JumpBack | Op::ForLoop | Op::TForLoop));
    comes_round.then(|| (at as i64 + 1 + i.sj() as i64) as usize)
}

/// Whether `op` is one at which a loop can be entered.
pub(super) fn is_loop_entry(op: Option<Op>) -> bool {
    op.is_some_and(|op| LOOP_ENTRIES.contains(&op))
}

#[cfg(test)]
mod tests {
    use super::is_lesson;

    #[test]
    fn what_goes_on_behind_an_exit_is_recorded_less_and_less() {
        let lessons: Vec<u32> = (0..10_000).filter(|&times| is_lesson(times)).collect();
        assert_eq!(lessons, [2, 32, 512, 8192]);
    }
}
