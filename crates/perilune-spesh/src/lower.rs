//! Hot code as a function of machine code.
//!
//! One pass over the bytecode, in order, straight into the intermediate form (`ssa.rs`). It knows for each register what it
//! holds ([`Ty`]), from constants, from what instructions produce, and from the log: where the log has seen
//! only one type, the code *guards* it, and exits if it meets another.
//!
//! # Registers
//! A register whose type is known stands in a register of the processor. It is stored in its slot on the
//! value stack only before something may look at the frame: an instruction that the interpreter does, a call,
//! a collection, an exit. Until then the slot is *dirty*: it holds some older value, whole. Variables that
//! closures may refer to while the code runs are never known: any function may assign them (`units.rs` says
//! which these are).
//!
//! # Control
//! * Forward jumps meet with what is known on all ways; types that differ become unknown. To know that
//!   beforehand, and what can be hoisted, the pass is made several times: the first is a draft, and the body
//!   is built again as long as what it hoists is not what it has found that it can ([`MOST_PASSES`]).
//! * Where a loop begins, what is known is fixed: the types that the log has seen there; dirty is what the
//!   loop changes. Ways into it guard those that they do not know. A function's start is like that, with the
//!   types of its parameters.
//! * Ways out tell what is dirty, where it is to be stored, and which point they lead to (`exits.rs`).
//! * An instruction that the log has never seen is an exit, unless earlier code has exited there: then it is
//!   lowered as far as what is known allows.
//!
//! # Calls
//! Small functions are built in place of their calls (`inline.rs`). Another callee that has machine code is
//! called directly, with the frame's record pushed as the interpreter does it; others are called by the
//! interpreter (`perilune_vm::machine::callees`), and come back. What a call may do to this frame is in
//! `perilune_vm::machine`'s essay; its base has to be asked for again.
//!
//! # What is not done here
//! is done by the interpreter, one instruction at a time ([`layout::step`]), and what that defines is guarded
//! again.
//!
//! Where values are, in registers of the processor or in slots, is seen to in `registers.rs`; what is known
//! of tables, and hoisted out of loops, is in `facts.rs`. Rejected for now: a form of our own between the two
//! (decision 31).

mod allocate;
mod callable;
mod calls;
mod checks;
mod constants;
mod control;
mod cost;
mod dictionaries;
mod edges;
mod either;
mod elements;
mod exits;
mod facts;
mod failures;
mod fields;
mod holes;
mod index;
mod inline;
mod iterate;
mod lists;
mod memory;
mod metamethods;
mod mixed;
mod natives;
mod numbers;
mod paths;
mod protect;
mod registers;
mod runtime;
mod stores;
mod strings;
mod trials;
mod unmade;
mod varargs;

use crate::backend;
use crate::live::{live, read, read_by_type};
use crate::places::Built;
use crate::report;
use crate::ssa::{Block, Builder, Convention, IntCC, Sig, Signature, Type, Value as Val, Variable};
use crate::trials::Trials;
use crate::units::{self, Unit};
pub use cost::{Cost, LEAVING};
use edges::Comes;
use exits::Exit;
use facts::{Fact, Facts, FrameNumber, Name};
pub use failures::Failures;
use inline::Frame;
pub use inline::is_inlinable;
use perilune_syntax::operands::Registers;
use perilune_syntax::{Op, Proto};
use perilune_vm::machine::{EXITED, LEAVE, Log, MachineCode, Point, STAY, layout};
use perilune_vm::{Kind, Tag};
use runtime::Runtime;
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use unmade::Unmade;

/// What is known of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Ty {
    /// Nothing; the value is in its slot.
    Any,
    Int,
    Float,
    /// An integer or a float: the float that is just the number, and which of the two it is (`either.rs`).
    Number,
    Table,
    /// A table that is not made: it is neither in its slot nor anywhere else (`unmade.rs`).
    Unmade,
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
            Ty::Any | Ty::Number | Ty::Unmade => None,
            Ty::Int => Some(Tag::INT),
            Ty::Float => Some(Tag::FLOAT),
            Ty::Table => Some(Tag::TABLE),
        }
    }

    fn is_number(self) -> bool {
        matches!(self, Ty::Int | Ty::Float)
    }

    /// It is a number, of a kind that is known here or where the code runs.
    fn is_numeric(self) -> bool {
        self.is_number() || self == Ty::Number
    }

    /// Its slot may be dirty.
    fn is_lazy(self) -> bool {
        self != Ty::Any
    }
}

/// An operand whose type is known.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    ty: Ty,
    val: Val,
}

/// What is known of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Register {
    ty: Ty,
    /// What the tag in its slot says: its own type, or that is not known. Of what was there before nothing is
    /// said: where a way beside this one writes the register into its slot and comes back, as that does which
    /// collects garbage, the tag is the register's afterwards ([`Register::sound`]).
    slot: Ty,
    /// It is a known number that its slot does not hold.
    dirty: bool,
}

impl Register {
    const UNKNOWN: Register = Register { ty: Ty::Any, slot: Ty::Any, dirty: false };
    /// A table that need not be in its slot.
    const MADE: Register = Register { ty: Ty::Table, slot: Ty::Any, dirty: true };

    /// The same, of whose slot no more is said than may be.
    fn sound(self) -> Register {
        let slot = if self.slot == self.ty && self.ty != Ty::Number { self.slot } else { Ty::Any };
        Register { slot, ..self }
    }

    /// What is known on both ways.
    fn meet(self, other: Register) -> Register {
        if self.ty != other.ty {
            // Every way makes what the others do not have unmade.
            return match [self.ty, other.ty] {
                [Ty::Unmade, Ty::Table] | [Ty::Table, Ty::Unmade] => Register::MADE,
                _ => Register::UNKNOWN,
            };
        }
        let slot = if self.slot == other.slot { self.slot } else { Ty::Any };
        Register { ty: self.ty, slot, dirty: self.dirty || other.dirty }
    }

    /// The same where the ways make it that: a number of both kinds stays one.
    fn meet_as_number(self, other: Register) -> Register {
        let number = self.ty == Ty::Number || other.ty == Ty::Number;
        match number && self.ty.is_numeric() && other.ty.is_numeric() {
            true => Register::number(self).meet(Register::number(other)),
            false => self.meet(other),
        }
    }

    /// This one, a number, as one of either kind.
    fn number(self) -> Register {
        Register { ty: Ty::Number, slot: Ty::Any, dirty: self.dirty }
    }
}

/// What is known somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    registers: Vec<Register>,
    /// Which value each register has.
    names: Vec<Name>,
    facts: Facts,
    /// Tables that are not made, by the names of the registers that have them.
    unmade: BTreeMap<Name, Unmade>,
}

/// Where an instruction is done slowly, with what is known before.
pub(crate) struct Slow {
    block: Block,
    before: Option<State>,
    /// The way leads out, and not back.
    exits: bool,
}

/// A function that compiles to this signature: that of [`perilune_vm::machine::Run`], and it may end in a
/// jump to another one ([`Convention::Machine`]).
pub fn signature() -> Signature {
    let mut signature = Signature::new(Convention::Machine);
    signature.params = vec![Type::I64, Type::I64, Type::I64, Type::I32];
    signature.returns = vec![Type::I64];
    signature
}

/// What is to be compiled, and what is known of it.
#[derive(Clone, Copy)]
pub struct Task<'a> {
    /// What the function has met.
    pub log: &'a Log,
    /// What of it is compiled.
    pub unit: &'a Unit,
    /// Which registers are in use before each instruction.
    pub in_use: &'a [Registers],
    /// Where earlier code of the function has been left, and this one counts.
    pub failures: &'a Failures,
    /// What functions have met that it calls, directly or not, by their number ([`Log::function`]).
    pub callees: &'a HashMap<usize, Arc<Log>>,
    /// Where machine code of those has been left, wherever it stands.
    pub failures_of_callees: &'a HashMap<usize, Failures>,
    /// A call that has been made less often than so many times is not worth it that the function is built in
    /// its place, for each instruction of that, and for each that has been built in place of others.
    pub least: f64,
    /// What machine code does on purpose.
    pub trials: Trials,
}

/// The calls in whose place functions are built, also in functions that are built in place themselves: by the
/// numbers of the function and of its instruction, that of the function that is called.
pub type InPlace = HashMap<(usize, usize), usize>;

/// A pass that finds things out: what the next one may take for true.
#[derive(Default)]
pub struct Draft {
    /// What is known of registers where ways meet.
    met: HashMap<usize, Vec<Register>>,
    /// What is hoisted out of each loop.
    hoisted: HashMap<usize, Facts>,
    /// Which types registers have on the ways into each loop.
    comes: HashMap<usize, Vec<Comes>>,
    /// What to expect of the code.
    pub cost: Cost,
    /// The instructions that are left to the interpreter.
    pub stepped: Vec<usize>,
    /// The calls that are inlined.
    pub inlined: HashSet<usize>,
    /// See [`InPlace`].
    pub in_place: InPlace,
    /// The tables that are not made where the program does.
    pub unmade: Vec<report::Unmade>,
    /// The functions that the code knows by their addresses.
    pub protos: Vec<Arc<Proto>>,
    /// All that is built, with where.
    pub built: Vec<Built>,
    places: HashMap<usize, usize>,
    /// How often tables are made that are not made where the program does, by place.
    made: BTreeMap<usize, u64>,
    /// What derived values come from.
    origins: Vec<facts::Origin>,
    /// How many instructions of intermediate form there are.
    pub size: usize,
    /// The calls behind which there are entries.
    pub entered: Vec<usize>,
    /// The shapes that tables get, or are asked for.
    pub shapes: Vec<u32>,
    /// What the code refers to, by their addresses.
    #[expect(clippy::vec_box, reason = "they stay where they are when the list grows")]
    pub points: Vec<Box<Point>>,
}

/// The body is built so many times, at most, until what it hoists is what it has found that it can.
pub const MOST_PASSES: usize = 3;

/// Makes the first pass.
pub fn draft(task: Task<'_>) -> Draft {
    backend::sketch(signature(), |b| Lowering::new(b, task, None).run())
}

/// Builds the body from what the last pass has found, which is then what this one has. `false`: that is
/// something else, so the next one would be better.
///
/// Whatever it is, the body is right: what does not hold where a loop comes round is found out again there.
pub fn lower(b: &mut Builder<'_>, task: Task<'_>, draft: &mut Draft) -> bool {
    let hoisted = draft.hoisted.clone();
    *draft = Lowering::new(b, task, Some(std::mem::take(draft))).run();
    draft.hoisted == hoisted
}

pub(crate) struct Lowering<'a, 'b> {
    b: &'a mut Builder<'b>,
    /// The function that is being built: this one, or one that is inlined.
    log: &'a Log,
    proto: &'a Proto,
    frame: FrameNumber,
    frames: Vec<Frame<'a>>,
    /// What matters in functions, by their numbers.
    lives: HashMap<usize, Rc<[Registers]>>,
    /// Where the places of functions inlined at calls begin.
    places: HashMap<usize, usize>,
    /// How many registers there may be, those of inlined functions included.
    room: usize,
    task: Task<'a>,
    unit: &'a Unit,
    in_use: &'a [Registers],
    failures: &'a Failures,
    loops: Vec<units::Region>,
    /// The registers that each loop changes, by where it begins.
    changed: HashMap<usize, Registers>,
    /// Variables that closures may refer to ([`units::captured`]).
    captured: Registers,
    run: Sig,
    runtime: Runtime,
    /// The number of the entry where the interpreter comes in.
    number: Val,
    vm: Val,
    base: Variable,
    constants: Val,
    /// The address of the interrupt word.
    interrupt: Val,
    ints: Vec<Variable>,
    floats: Vec<Variable>,
    /// Blocks of instructions that are jumped to.
    blocks: HashMap<usize, Block>,
    /// What is known of registers where a loop begins, and, after the first pass, wherever ways meet: fixed.
    fixed: HashMap<usize, Vec<Register>>,
    /// Where loops begin: ways into them guard what they do not know.
    heads: HashSet<usize>,
    /// What is known where ways meet, as far as they have come up.
    met: HashMap<usize, State>,
    /// The facts that hold where loops begin; `None`: nobody has found out yet.
    hoisted: Option<HashMap<usize, Facts>>,
    /// The facts that hold whenever a loop comes round.
    round: HashMap<usize, Facts>,
    /// Which types registers have on the ways into each loop.
    comes: HashMap<usize, Vec<Comes>>,
    /// The same, as an earlier pass has found out.
    came: HashMap<usize, Vec<Comes>>,
    /// What derived values come from ([`Name::Derived`]).
    origins: Vec<facts::Origin>,
    /// What comes with facts.
    found: HashMap<Fact, [Variable; 2]>,
    /// The fields of tables that are not made, by name and number.
    parts: HashMap<(Name, usize), [Variable; 3]>,
    /// Tables that are not made where the program does, by place, with one where they are; `None`: they never
    /// are.
    postponed: BTreeMap<usize, Option<usize>>,
    /// How often tables are made after all that are not made where the program does, by place, as an earlier
    /// pass, or this one, has found out.
    made: BTreeMap<usize, u64>,
    /// The same of earlier passes.
    made_before: BTreeMap<usize, u64>,
    /// Where ways meet that do not agree on a table that is not made, in this register.
    disputed: HashSet<(usize, usize)>,
    in_place: InPlace,
    /// The last function that has been made, and the upvalues that have been looked for since the first of those that
    /// are made one after the other, by register; whether one has been looked for yet.
    opened: (Option<usize>, HashMap<u8, (Variable, bool)>),
    exits: HashMap<Exit, Block>,
    /// Entries behind calls, by the call, until they are built.
    returns: HashMap<usize, Block>,
    /// The calls behind which entries have been built.
    entered: Vec<usize>,
    /// Those where something was not as expected.
    guarded: HashSet<Block>,
    /// Where somebody may look at the frames.
    #[expect(clippy::vec_box, reason = "they stay where they are when the list grows")]
    points: Vec<Box<Point>>,
    /// Returns its parameter, wherever machine code is left that way.
    out: Option<Block>,
    /// Where frames end in ways that only the interpreter knows, with the address of the instruction.
    finishes: Option<Block>,
    /// The instruction that takes a list of values whose end is known, and the register behind it.
    list: Option<(usize, usize)>,
    /// The instruction that is being lowered.
    at: usize,
    /// What is being built leads into the code from without.
    entering: bool,
    /// What is being built leads to this head, and guards what is not known there.
    leads_into: Option<usize>,
    /// What is known here; `None`: nothing leads here.
    now: Option<State>,
    /// This instruction is lowered as if it called no metamethod.
    without_metamethods: Option<usize>,
    /// This instruction has been lowered with the one before it.
    done: Option<usize>,
    /// Whether the instruction is done by the interpreter, where nothing is out of the ordinary.
    stepped: bool,
    /// All of which that is so.
    all_stepped: Vec<usize>,
    cost: Cost,
    /// Whoever runs this knows the names of these shapes' fields ([`MachineCode::new`]).
    shapes: BTreeSet<u32>,
}

/// Where so many exits have been taken, what the log says is not relied on any more.
const TRUSTED: u32 = 8;

/// The names of values that are there at entry `entry` are those of a place that is none.
fn number_of(entry: u32) -> usize {
    (u32::MAX - entry) as usize
}

/// Begins the function: the state of the machine, the frame's base, the function's instance, the number of the
/// entry.
fn begin(b: &mut Builder<'_>) -> [Val; 4] {
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    b.switch_to_block(entry);
    b.seal_block(entry);
    b.block_params(entry).try_into().expect("four parameters")
}

impl<'a, 'b> Lowering<'a, 'b> {
    fn new(b: &'a mut Builder<'b>, task: Task<'a>, draft: Option<Draft>) -> Self {
        let Task { log, unit, in_use, failures, .. } = task;
        let proto = log.proto();
        let (fixed, hoisted, places, made_before, came, origins) = draft.map_or_else(Default::default, |d| {
            (d.met, Some(d.hoisted), d.places, d.made, d.comes, d.origins)
        });
        let captured = units::captured(proto, unit);
        let run = b.import_signature(signature());
        let own = proto.max_stack as usize;
        let room = if !task.callees.values().any(|log| is_inlinable(log)) {
            // A table that is called is one argument more.
            (own + 1).min(inline::MOST_REGISTERS.max(own))
        } else {
            (own + inline::ROOM).clamp(own, inline::MOST_REGISTERS.max(own))
        };
        let registers = room;
        let [vm, at_entry, inst, number] = begin(b);
        let base = b.declare_var(Type::I64);
        b.def_var(base, at_entry);
        let mut load = |address, offset| b.load(Type::I64, address, offset);
        let constants = load(inst, layout::INST_CONSTANTS);
        let interrupt = load(vm, layout::VM_INTERRUPT);
        let ints = (0..registers).map(|_| b.declare_var(Type::I64)).collect();
        let floats = (0..registers).map(|_| b.declare_var(Type::F64)).collect();
        let loops = units::loops(proto);
        let changed = |l: &units::Region| {
            proto.code[l.head..=l.back].iter().fold(Registers::NONE, |set, i| set.or(i.changed()))
        };
        let live: Rc<[Registers]> = live(proto).into();
        let mut lowering = Lowering {
            b,
            log,
            proto,
            frame: 0,
            frames: vec![Frame::outer(log, constants, Rc::clone(&live))],
            lives: [(log.function(), live)].into_iter().collect(),
            places,
            room,
            task,
            unit,
            in_use,
            failures,
            changed: loops.iter().map(|l| (l.head, changed(l))).collect(),
            loops,
            captured,
            run,
            runtime: Runtime::default(),
            number,
            vm,
            base,
            constants,
            interrupt,
            ints,
            floats,
            blocks: HashMap::default(),
            fixed,
            heads: HashSet::default(),
            met: HashMap::default(),
            hoisted,
            round: HashMap::default(),
            comes: HashMap::default(),
            came,
            origins,
            found: HashMap::default(),
            parts: HashMap::default(),
            disputed: HashSet::default(),
            postponed: BTreeMap::new(),
            made: made_before.clone(),
            made_before,
            in_place: HashMap::default(),
            opened: (None, HashMap::default()),
            exits: HashMap::default(),
            returns: HashMap::default(),
            entered: Vec::new(),
            guarded: HashSet::default(),
            points: Vec::new(),
            out: None,
            finishes: None,
            list: None,
            at: 0,
            entering: true,
            leads_into: None,
            now: None,
            without_metamethods: None,
            done: None,
            stepped: false,
            all_stepped: Vec::new(),
            cost: Cost::default(),
            shapes: BTreeSet::new(),
        };
        lowering.find_heads();
        lowering
    }

    fn find_heads(&mut self) {
        let loops = self.loops.clone();
        // What matters only behind the unit may be of any type: a loop would be left for it in vain.
        let inside = (0..self.proto.code.len()).filter(|&at| self.unit.contains(at));
        let reads = |of: fn(perilune_syntax::Instr) -> Registers| {
            inside.clone().fold(Registers::NONE, |set, at| set.or(of(self.proto.code[at])))
        };
        // Parameters that are only stored in a new table, or given back, may be of any type, too: `x` is a float
        // for most calls of `function(x, y) return { x = x, y = y } end`, and 0 for some.
        let (read, read_by_type) = (reads(read), reads(read_by_type));
        for at in (0..self.proto.code.len()).filter(|&at| self.unit.contains(at)) {
            let body = loops.iter().find(|l| l.head == at);
            if body.is_none() && !(at == 0 && self.unit.starts) {
                continue;
            }
            let Some(tags) = self.log.head(at) else { continue };
            // A frame that is going to move takes its parameters along, and leaves the other slots.
            let kept = match self.proto.is_vararg && at == 0 {
                true => self.proto.num_params as usize,
                false => tags.len(),
            };
            let matters = self.in_use[at].and(self.live_at(at));
            let read = if body.is_none() { &read_by_type } else { &read };
            let known = |(r, tags): (usize, &perilune_vm::machine::Tags)| {
                let changes = body.is_some_and(|l| self.changes(l, r));
                let used = matters.contains(r as u8)
                    && (changes || read.contains(r as u8))
                    && !self.captured.contains(r as u8)
                    && r < kept;
                let either = changes && tags.is_all_of(&[Tag::INT, Tag::FLOAT]);
                let ty = match tags.only() {
                    Some(tag) if used => Ty::of(tag),
                    None if used && either && body.is_some_and(|l| self.becomes_float(l, r)) => Ty::Float,
                    None if used && either && !self.is_suspect_head(at) => Ty::Number,
                    _ => Ty::Any,
                };
                let dirty = ty.is_lazy() && changes;
                // A slot with the tag of a reference holds one, always.
                let slot = if ty == Ty::Number || dirty && !ty.is_number() { Ty::Any } else { ty };
                Register { ty, slot, dirty }
            };
            let mut state: Vec<Register> = tags.iter().enumerate().map(known).collect();
            state.resize(self.room, Register::UNKNOWN);
            self.fixed.insert(at, state);
            self.heads.insert(at);
        }
    }

    fn registers(&self) -> usize {
        self.room
    }

    /// Builds everything, and says what it has found out.
    fn run(mut self) -> Draft {
        let registers = self.registers();
        let starts = self.unit.starts.then_some((0, MachineCode::START));
        let mut entries = self.unit.entries(self.proto);
        entries.sort_by_key(|(_, entry)| *entry);
        entries.dedup_by_key(|(_, entry)| *entry);
        for (at, entry) in starts.into_iter().chain(entries) {
            let [here, next] = [(); 2].map(|()| self.b.create_block());
            let is = self.icmp_imm(IntCC::Equal, self.number, entry as i64);
            self.b.brif(is, here, &[], next, &[]);
            self.go_to(here);
            self.now = Some(State {
                registers: vec![Register::UNKNOWN; registers],
                names: (0..registers).map(|r| Name::met(number_of(entry), r)).collect(),
                facts: Facts::new(),
                unmade: BTreeMap::new(),
            });
            self.at = at as usize;
            match entry {
                MachineCode::START => self.start(),
                _ => self.enter(at as usize),
            }
            self.go_to(next);
        }
        for (at, entry) in self.unit.returns(self.proto) {
            let [here, next] = [(); 2].map(|()| self.b.create_block());
            let is = self.icmp_imm(IntCC::Equal, self.number, entry as i64);
            self.b.brif(is, here, &[], next, &[]);
            self.returns.insert(at as usize, here);
            self.go_to(next);
        }
        self.refuse();
        self.entering = false;
        self.now = None;
        for at in 0..self.proto.code.len() {
            if !self.contains(at) {
                if self.now.is_some() {
                    self.exit(at, LEAVE);
                }
                continue;
            }
            // What falls into an instruction comes from the one before it.
            self.at = at.saturating_sub(1);
            self.arrive(at);
            self.at = at;
            self.forget_dead(at);
            if self.now.is_some() {
                self.stepped = false;
                self.b.set_place(at as u32);
                // The one before it has done this one as well.
                if self.done.take() != Some(at) {
                    self.instruction(at);
                }
                self.count(at);
            }
        }
        debug_assert!(self.now.is_none(), "a function ends with a return");
        self.close_entries();
        self.frame = 0;
        self.fill_finishes();
        let exits = self.fill_exits();
        self.fill_out();
        self.frame = 0;
        self.b.seal_all_blocks();
        let mut hoisted = std::mem::take(&mut self.round);
        let suspects: HashSet<usize> =
            hoisted.keys().copied().filter(|head| self.is_suspect_head(*head)).collect();
        for (head, facts) in &mut hoisted {
            let (names, fixed) = (self.names_in(*head), &self.fixed[head]);
            // What is said of a value has to be guarded on the way in.
            let is_there = |fact: &Fact| match names.iter().position(|name| Some(*name) == fact.of()) {
                _ if fact.is_of_derived() => self.is_derived_fact_there(*fact, &names, fixed),
                Some(r) => fact.suits(fixed[r].ty) && !self.captured.contains(r as u8),
                None => !matches!(fact.of(), Some(Name::Made(..) | Name::Met(..) | Name::Kept(..))),
            };
            let trusted = !suspects.contains(head);
            facts.retain(|fact| trusted && is_there(fact));
            self.with_origins_alone(facts);
        }
        let mut met = self.fixed;
        for (at, r) in self.disputed {
            if let Some(registers) = met.get_mut(&at) {
                registers[r] = Register::MADE;
            }
        }
        for (at, state) in self.met {
            met.entry(at).or_insert(state.registers);
        }
        let inlined = self.frames.iter().filter(|f| f.caller == 0).filter_map(|f| f.call).collect();
        // What is compared with the callees' functions has to be theirs for as long as the code lives.
        let protos = self.task.callees.values().map(|log| Arc::clone(log.proto())).collect();
        let built = |f: &Frame<'_>| Built { proto: Arc::clone(f.log.proto()), first: f.first, call: f.call };
        let built: Vec<Built> = self.frames.iter().map(built).collect();
        let (cost, stepped, places, entered) = (self.cost, self.all_stepped, self.places, self.entered);
        let unmade = unmade::by_lines(&self.postponed, &built);
        let (size, points) = (self.b.func.size() + exits, self.points);
        let (in_place, origins) = (self.in_place, self.origins);
        let (made, comes, shapes) = (self.made, self.comes, self.shapes.into_iter().collect());
        Draft {
            met,
            hoisted,
            comes,
            cost,
            stepped,
            inlined,
            in_place,
            unmade,
            protos,
            built,
            places,
            made,
            origins,
            size,
            entered,
            shapes,
            points,
        }
    }

    /// The function's start has been entered.
    fn start(&mut self) {
        // If no loop begins here, and nothing is known of the parameters, that is what is known.
        let state = self.now.clone().expect("something leads here");
        let wanted = self.fixed.get(&0).cloned().unwrap_or(state.registers);
        self.edge_to(0, wanted);
    }

    fn block(&mut self, at: usize) -> Block {
        let b = &mut *self.b;
        *self.blocks.entry(at).or_insert_with(|| b.create_block())
    }

    /// Goes on in a block to which all ways have been built. So what variables hold there is found along the
    /// ways, and a block that one way leads to needs no parameters, which would have to be taken out again.
    fn go_to(&mut self, block: Block) {
        self.b.switch_to_block(block);
        self.b.seal_block(block);
    }

    /// Goes on in a block to which ways from behind are still to come.
    fn come_round_to(&mut self, block: Block) {
        self.b.switch_to_block(block);
    }

    /// Goes on only if `condition` holds; else `otherwise`.
    fn unless(&mut self, condition: Val, otherwise: Block) {
        self.try_guard(otherwise);
        self.if_done(condition, otherwise);
    }

    /// The same where something has been done if it holds, which is not to be done again: so no trial lets it
    /// fail.
    fn if_done(&mut self, condition: Val, otherwise: Block) {
        if self.b.func.integer(condition).is_some_and(|holds| holds != 0) {
            return;
        }
        let on = self.b.create_block();
        if self.is_rare() {
            self.b.set_cold_block(on);
        }
        self.b.brif(condition, on, &[], otherwise, &[]);
        self.go_to(on);
    }

    // -- Memory ---------------------------------------------------------------------------------------------

    fn load(&mut self, ty: Type, address: Val, offset: i32) -> Val {
        self.b.load(ty, address, offset)
    }

    fn store(&mut self, val: Val, address: Val, offset: i32) {
        self.b.store(val, address, offset);
    }

    fn store_tag(&mut self, tag: Tag, address: Val, offset: i32) {
        let tag = self.b.iconst(Type::I8, tag.0 as i64);
        self.store(tag, address, offset + layout::TAG);
    }

    /// Where register `r` lies, from the frame's base.
    fn slot(r: usize) -> i32 {
        r as i32 * layout::VALUE_SIZE
    }

    // -- The interpreter ------------------------------------------------------------------------------------

    /// Instruction `at` is done by the interpreter; returns if that does not stay in the frame. Registers
    /// that it may have changed are unknown.
    fn step(&mut self, at: usize) {
        self.stepped = true;
        self.flush_all();
        let does = match self.site(at).native {
            Some(native) if self.code(at).op() == Some(Op::TForCall) => match native.calls_no_lua() {
                true => layout::iterate_native(),
                false if native.kind == Kind::Wrap => layout::iterate_coroutine(),
                false => layout::step(),
            },
            Some(_) if self.code(at).op() != Some(Op::Call) => layout::step(),
            Some(native) if self.site(at).is_special() => match native.kind {
                Kind::Resume | Kind::Wrap => layout::call_resume(),
                Kind::Yield => layout::call_yield(),
                _ => layout::call_special(),
            },
            Some(native) if native.calls_no_lua() => layout::call_native(),
            _ => layout::step(),
        };
        let (vm, base) = (self.vm, self.b.use_var(self.base));
        let constants = self.constants();
        let [vm, base, constants] = [vm, base, constants].map(|v| self.copied(v));
        let exit = match self.frame {
            0 => {
                let pc = self.position(at);
                self.common(does, &[vm, base, constants, pc])
            }
            _ => {
                let point = self.point(at, None, does, Default::default());
                self.common(layout::step_at(), &[vm, base, point])
            }
        };
        let on = self.b.create_block();
        let stays = self.icmp_imm(IntCC::Equal, exit, STAY as i64);
        self.or_leave_with(stays, (on, &[]), exit);
        self.go_to(on);
        self.forget(at);
        self.records_are_there();
        self.come_back(at);
    }

    /// What instruction `at` changes is unknown.
    fn forget(&mut self, at: usize) {
        let i = self.code(at);
        if let Some(state) = &mut self.now {
            state.forget_facts(at);
            let changed = i.changed();
            for r in (0..state.registers.len()).filter(|r| changed.contains(*r as u8)) {
                state.registers[r] = Register::UNKNOWN;
                state.renew(r, Name::made(at, r));
            }
        }
    }

    /// Instruction `at`, which does not jump, is done by the interpreter, and what it defines is what the log
    /// has seen.
    fn step_and_guard(&mut self, at: usize) {
        self.step(at);
        self.guard_result(at);
        if self.has_given_one(at) {
            self.one_result_there(at);
        }
    }

    /// The slot of what instruction `at` defines has been written.
    fn guard_result(&mut self, at: usize) {
        let r = self.code(at).a() as usize;
        let ty = self.result(at);
        if ty != Ty::Any && self.code(at).changes(r as u8) {
            self.guard_made(at, r, ty);
        }
    }

    /// Register `r`, of which nothing is known, has got a value of this type from instruction `at`, else the
    /// code exits behind that.
    fn guard_made(&mut self, at: usize, r: usize, ty: Ty) {
        let exit = self.other_result(at, at + 1);
        let known = self.expect(r, ty, exit);
        self.found(r, known);
    }

    /// Where instruction `at` goes if something is not as the log has seen it: out, unless that has happened
    /// before; then it is done slowly.
    fn slow(&mut self, at: usize) -> Slow {
        if self.is_suspect(at) {
            return self.aside();
        }
        Slow { block: self.exit_block(at, EXITED), before: None, exits: true }
    }

    /// A block for an instruction done slowly; what is known here is what is known there.
    fn aside(&mut self) -> Slow {
        Slow { block: self.b.create_block(), before: self.now.clone(), exits: false }
    }

    /// Does the slow way of instruction `at`, and joins it with the current one, where register `r` is
    /// `fast`; `None`: no register is defined.
    fn join(&mut self, at: usize, slow: Slow, fast: Option<(usize, Ty)>) {
        self.join_behind(at, slow, |this| {
            if let Some((r, ty)) = fast.filter(|(_, ty)| *ty != Ty::Any) {
                this.guard_made(at, r, ty);
            }
        });
    }

    /// The same where this is to be found out behind the slow way.
    fn join_behind(&mut self, at: usize, slow: Slow, finds_out: impl FnOnce(&mut Self)) {
        if slow.exits {
            return;
        }
        self.b.set_cold_block(slow.block);
        self.join_with(at, slow, |this| {
            let stepped = this.stepped;
            this.step(at);
            this.stepped = stepped;
            finds_out(this);
        });
    }
}
