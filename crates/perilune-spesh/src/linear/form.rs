//! A function as it is allocated and written: its blocks in an order, its instructions numbered, and for each
//! value how it comes to those that use it.
//!
//! An instruction whose result is part of the instructions that use it ([`Where::Within`]) is written with
//! those: an address, a load that an operation has as its operand, a comparison behind which a jump is taken.
//! Constants are where they are used, too. All other values have a [`Name`], and the allocator finds room for
//! it.

use std::ops::Range;

mod operands;

use crate::ssa::{
    Block, Convention, Data, Def, Edge, FloatCC, Function, Inst, IntCC, Opcode, Param, Slot, Type, Value,
};
use crate::target;

/// A value that the allocator finds room for.
pub(super) type Name = u32;
/// An instruction in the order in which they are written; the beginning of a block has a number, too.
pub(super) type Number = u32;

/// Which registers a value lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Integer,
    Float,
}

/// How a value comes to who uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    /// Nobody uses it.
    Nowhere,
    Named(Name),
    Integer(i64),
    Float(u64),
    Stack(Slot, i32),
    StackPointer,
    /// The first parameter of a function of the convention [`Convention::Machine`]: in its register wherever such
    /// functions run.
    Kept,
    /// Its instruction is part of those that use it.
    Within,
}

/// How much it matters that an operand is in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// The instruction cannot be written otherwise.
    Must,
    /// The same, and it is read when the result has been begun to be written.
    MustLate,
    /// It may be in memory.
    May,
    /// The same, and it is read when the result has been begun to be written.
    MayLate,
}

/// A block in the order in which they are written.
pub(super) struct Bounds {
    /// The number of its beginning.
    pub head: Number,
    /// That of its last instruction.
    pub last: Number,
    /// How many loops it is in.
    pub depth: u8,
    /// How many ways lead to it.
    pub ways_in: u32,
    /// Where it goes on: a part of [`Form::ways`].
    ways: Range<usize>,
    pub is_cold: bool,
}

impl Bounds {
    pub(super) fn start(&self) -> u32 {
        4 * self.head
    }

    pub(super) fn end(&self) -> u32 {
        4 * self.last + 4
    }
}

/// A way from one block to another.
pub(super) struct Way {
    /// The place of the block that it leads to.
    pub to: usize,
    /// What its parameters get: a part of [`Form::passed`].
    passed: Range<usize>,
}

pub(super) struct Form<'f> {
    pub func: &'f Function,
    pub order: Vec<Block>,
    /// The place of each block in the order.
    place: Vec<u32>,
    pub blocks: Vec<Bounds>,
    ways: Vec<Way>,
    passed: Vec<Value>,
    /// By number; `None` where a block begins.
    pub insts: Vec<Option<Inst>>,
    /// By number: nobody uses what it makes, and it does nothing else.
    is_dropped: Vec<bool>,
    /// Which value each stands for: itself, most of them.
    stands: Vec<Value>,
    /// What has been found of values that stand for themselves.
    wheres: Vec<Where>,
    /// The same of all values.
    ats: Vec<Where>,
    pub classes: Vec<Class>,
    /// Results of floats need not be where the first operand is ([`target::has_avx`]).
    pub has_avx: bool,
    /// Where the first block begins that is hardly ever run, and all behind it.
    pub cold: u32,
}

/// No larger function, so that positions and sums of offsets fit.
const MOST_INSTRUCTIONS: usize = 1 << 20;
/// Offsets beyond are not part of an address.
const FAR: i64 = 1 << 24;

/// What is counted of a value.
#[derive(Clone, Copy, Default)]
struct Uses {
    all: u32,
    /// Of these, as an address that may be part of the instruction.
    in_addresses: u32,
    /// Of these, as what is added to an address.
    as_index: u32,
    /// The last one that was counted.
    user: Number,
}

impl<'f> Form<'f> {
    /// `None` where the function has more instructions than are numbered.
    pub(super) fn of(func: &'f Function) -> Option<Form<'f>> {
        let mut form = Form {
            func,
            order: Vec::new(),
            place: vec![u32::MAX; func.num_blocks()],
            blocks: Vec::new(),
            ways: Vec::new(),
            passed: Vec::new(),
            insts: Vec::new(),
            is_dropped: Vec::new(),
            stands: func.values().map(|value| func.resolve(value)).collect(),
            wheres: vec![Where::Nowhere; func.num_values()],
            ats: Vec::new(),
            classes: Vec::new(),
            has_avx: target::has_avx(),
            cold: 0,
        };
        form.set_order();
        form.number()?;
        form.find_loops();
        form.find_same();
        form.find_places();
        form.tell_all();
        Some(form)
    }

    /// The value that this one stands for: fewer bits of another are in the same register, and a parameter may
    /// always be what something else is.
    pub(super) fn value(&self, value: Value) -> Value {
        let mut value = value;
        loop {
            let other = self.stands[value.index()];
            if other == value {
                return value;
            }
            value = other;
        }
    }

    /// Whether the value stands for itself.
    fn is_itself(&self, value: Value) -> bool {
        self.stands[value.index()] == value
    }

    /// Finds out which values stand for others.
    fn find_same(&mut self) {
        let func = self.func;
        for inst in self.insts.iter().flatten() {
            if let (Data::Unary { opcode: Opcode::Ireduce, arg }, Some(result)) =
                (func.data(*inst), func.result(*inst))
            {
                self.stands[result.index()] = self.stands[arg.index()];
            }
        }
        // The ways that lead to each block.
        let mut ways: Vec<Vec<Range<usize>>> = vec![Vec::new(); self.blocks.len()];
        for way in &self.ways {
            ways[way.to].push(way.passed.clone());
        }
        // What one parameter stands for may show what another one does: those of loops within loops.
        for _ in 0..2 {
            for (place, ways) in ways.iter().enumerate().skip(1) {
                let parameters = func.params(self.order[place]);
                for (n, parameter) in parameters.iter().map(|param| param.value).enumerate() {
                    if !self.is_itself(parameter) {
                        continue;
                    }
                    let same = self.same_as_passed(ways, n, parameter);
                    let same = same.or_else(|| self.same_as_before(ways, n, parameters));
                    if let Some(same) = same {
                        self.stands[parameter.index()] = same;
                    }
                }
            }
        }
        for value in func.values() {
            self.stands[value.index()] = self.value(value);
        }
    }

    /// What has been found of values is known of those that stand for them.
    fn tell_all(&mut self) {
        let of = |value: Value| match self.wheres[self.value(value).index()] {
            // Of fewer bits it may be another one.
            Where::Integer(n) => Where::Integer(self.ty(value).signed(n)),
            other => other,
        };
        self.ats = self.func.values().map(of).collect();
    }

    /// What parameter `n` gets on all ways, if it is one value besides itself.
    fn same_as_passed(&self, ways: &[Range<usize>], n: usize, parameter: Value) -> Option<Value> {
        let mut all =
            ways.iter().map(|way| self.value(self.passed[way.start + n])).filter(|&v| v != parameter);
        let first = all.next()?;
        let same_type = self.ty(first) == self.ty(parameter);
        (same_type && all.all(|value| value == first)).then_some(first)
    }

    /// The parameter before this one that gets the same on all ways.
    fn same_as_before(&self, ways: &[Range<usize>], n: usize, all: &[Param]) -> Option<Value> {
        let same = |m: usize| {
            let same = |way: &Range<usize>| {
                self.value(self.passed[way.start + m]) == self.value(self.passed[way.start + n])
            };
            ways.len() > 1 && ways.iter().all(same)
        };
        let parameter = all[..n].iter().enumerate().find(|&(m, _)| same(m))?.1.value;
        (self.ty(parameter) == self.ty(self.passed[ways[0].start + n])).then(|| self.value(parameter))
    }

    pub(super) fn at(&self, value: Value) -> Where {
        self.ats[value.index()]
    }

    pub(super) fn name(&self, value: Value) -> Option<Name> {
        match self.at(value) {
            Where::Named(name) => Some(name),
            _ => None,
        }
    }

    pub(super) fn data(&self, inst: Inst) -> &'f Data {
        self.func.data(inst)
    }

    /// The instruction that is part of those which use its result, if this is one.
    pub(super) fn within(&self, value: Value) -> Option<&'f Data> {
        match self.at(value) {
            Where::Within => {
                let inst = self.func.made_by(self.value(value));
                Some(self.data(inst.expect("an instruction's result")))
            }
            _ => None,
        }
    }

    pub(super) fn ty(&self, value: Value) -> Type {
        self.func.ty(value)
    }

    /// The place of a block in the order.
    pub(super) fn place(&self, block: Block) -> usize {
        self.place[block.index()] as usize
    }

    /// Where the block at this place goes on.
    pub(super) fn ways(&self, place: usize) -> &[Way] {
        &self.ways[self.blocks[place].ways.clone()]
    }

    /// The parameters of the block to which this way leads, of those that are named, and what they get.
    pub(super) fn passed(&self, way: &Way) -> impl Iterator<Item = (Name, Value)> + '_ {
        let passed = &self.passed[way.passed.clone()];
        let named = |(param, &value): (&Param, &Value)| Some((self.own_name(param.value)?, value));
        self.func.params(self.order[way.to]).iter().zip(passed).filter_map(named)
    }

    /// The parameters of the block at this place that are named.
    pub(super) fn parameters(&self, place: usize) -> impl Iterator<Item = Name> + '_ {
        self.params(place).filter_map(|value| self.own_name(value))
    }

    /// All parameters of the block at this place.
    pub(super) fn params(&self, place: usize) -> impl Iterator<Item = Value> + use<'f> {
        self.func.params(self.order[place]).iter().map(|param| param.value)
    }

    /// The name that a value has itself, and no other that it stands for.
    fn own_name(&self, value: Value) -> Option<Name> {
        match self.wheres[value.index()] {
            Where::Named(name) => Some(name),
            _ => None,
        }
    }

    /// Blocks that can be reached, in the order in which they were made; those that are hardly ever run come
    /// last.
    fn set_order(&mut self) {
        let func = self.func;
        let entry = func.entry();
        let mut reached = vec![false; func.num_blocks()];
        let mut open = vec![entry];
        reached[entry.index()] = true;
        while let Some(block) = open.pop() {
            for &way in func.edges(func.last_inst(block)) {
                let to = func.leads_to(past_empty(func, way));
                if !std::mem::replace(&mut reached[to.index()], true) {
                    open.push(to);
                }
            }
        }
        let reached = |block: &Block| reached[block.index()];
        let is_cold = |block: &Block| *block != entry && func.is_cold(*block);
        let all = || func.blocks().iter().copied().filter(reached);
        let mut order: Vec<Block> = all().filter(|block| !is_cold(block)).collect();
        order.extend(all().filter(is_cold));
        for (place, block) in order.iter().enumerate() {
            self.place[block.index()] = place as u32;
        }
        self.order = order;
    }

    fn number(&mut self) -> Option<()> {
        let func = self.func;
        for (place, &block) in self.order.iter().enumerate() {
            let head = self.insts.len() as Number;
            self.insts.push(None);
            self.insts.extend(func.block_insts(block).map(Some));
            let last = self.insts.len() as Number - 1;
            let is_cold = place != 0 && func.is_cold(block);
            let from = self.ways.len();
            let end = self.insts[last as usize].expect("the end of a block");
            for &way in func.edges(end) {
                let way = past_empty(func, way);
                let first = self.passed.len();
                self.passed.extend(func.passed(way));
                let to = self.place(func.leads_to(way));
                self.ways.push(Way { to, passed: first..self.passed.len() });
            }
            let ways = from..self.ways.len();
            self.blocks.push(Bounds { head, last, depth: 0, ways_in: 0, ways, is_cold });
        }
        let cold = self.blocks.iter().find(|bounds| bounds.is_cold);
        self.cold = cold.map_or(u32::MAX, Bounds::start);
        self.is_dropped = vec![false; self.insts.len()];
        (self.insts.len() < MOST_INSTRUCTIONS).then_some(())
    }

    fn find_loops(&mut self) {
        for place in 0..self.blocks.len() {
            for way in self.blocks[place].ways.clone() {
                let to = self.ways[way].to;
                self.blocks[to].ways_in += 1;
                if to <= place && !self.blocks[place].is_cold {
                    self.blocks[to..=place].iter_mut().for_each(|b| b.depth = (b.depth + 1).min(6));
                }
            }
        }
    }

    /// Takes out what nobody uses the results of; what is left of uses is counted.
    fn drop_unused(&mut self) -> Vec<Uses> {
        let func = self.func;
        let mut uses = vec![Uses::default(); func.num_values()];
        let mut count = |value: Value| uses[self.value(value).index()].all += 1;
        // What is passed, by blocks that are gone, too.
        for place in 0..self.blocks.len() {
            for way in self.ways(place) {
                let parameters = func.params(self.order[way.to]);
                for (parameter, &value) in parameters.iter().zip(&self.passed[way.passed.clone()]) {
                    if self.is_itself(parameter.value) {
                        count(value);
                    }
                }
            }
        }
        for inst in self.insts.iter().flatten() {
            let data = func.data(*inst);
            if data.opcode() != Opcode::Ireduce {
                func.args(data).iter().copied().for_each(&mut count);
            }
        }
        for number in (0..self.insts.len()).rev() {
            let Some(inst) = self.insts[number] else { continue };
            let data = func.data(inst);
            if data.opcode() == Opcode::Ireduce || !data.opcode().only_makes_results() {
                continue;
            }
            if func.results(inst).all(|result| uses[result.index()].all == 0) {
                self.is_dropped[number] = true;
                for &value in func.args(data) {
                    uses[self.value(value).index()].all -= 1;
                }
            }
        }
        uses
    }

    /// Which values are named, and which are not.
    fn find_places(&mut self) {
        let func = self.func;
        let mut uses = self.drop_unused();
        // How many instructions that write to memory come before each.
        let mut writes = vec![0u32; self.insts.len()];
        let mut written = 0;
        for (place, bounds) in self.blocks.iter().enumerate() {
            for way in self.ways(place) {
                for &value in &self.passed[way.passed.clone()] {
                    uses[self.value(value).index()].user = bounds.last;
                }
            }
        }
        for (number, inst) in self.insts.iter().enumerate() {
            writes[number] = written;
            let Some(inst) = *inst else { continue };
            let data = func.data(inst);
            let opcode = data.opcode();
            written += (opcode.can_store() || opcode.is_call()) as u32;
            if opcode == Opcode::Ireduce || self.is_dropped[number] {
                continue;
            }
            for &value in func.args(data) {
                uses[self.value(value).index()].user = number as Number;
            }
        }
        for value in func.values() {
            self.wheres[value.index()] = match func.def(value) {
                Def::Integer(n) => Where::Integer(n),
                Def::Float(bits) => Where::Float(bits),
                Def::Stack(slot, offset) => Where::Stack(slot, offset),
                Def::StackPointer => Where::StackPointer,
                _ => Where::Nowhere,
            };
        }
        let kept = self.kept();
        // Where each is written: with whom it is part of. Whether that has memory as its operand already.
        let mut written_at: Vec<Number> = (0..self.insts.len() as Number).collect();
        let mut has_memory = vec![false; self.insts.len()];
        for place in (0..self.blocks.len()).rev() {
            let (head, last) = (self.blocks[place].head, self.blocks[place].last);
            for number in (head + 1..=last).rev() {
                let inst = self.insts[number as usize].expect("an instruction of a block");
                let data = self.data(inst);
                let opcode = data.opcode();
                if opcode == Opcode::Ireduce || self.is_dropped[number as usize] {
                    continue;
                }
                let Some(result) = func.result(inst) else {
                    self.count_address(data, &mut uses);
                    continue;
                };
                let of = uses[result.index()];
                let here = |user: Number| (head..=last).contains(&user);
                let place_of = match *data {
                    _ if of.all == 0 && !opcode.is_call() => Where::Nowhere,
                    Data::CompareInts { .. } | Data::CompareFloats { .. }
                        if of.all == 1 && here(of.user) && self.takes_condition(of.user, result, data) =>
                    {
                        written_at[number as usize] = written_at[of.user as usize];
                        Where::Within
                    }
                    Data::Binary { opcode: Opcode::Band, .. }
                        if of.all == 1 && here(of.user) && self.is_tested(of.user, result) =>
                    {
                        written_at[number as usize] = written_at[of.user as usize];
                        Where::Within
                    }
                    Data::Load { .. }
                        if of.all == 1
                            && here(of.user)
                            && !has_memory[of.user as usize]
                            && writes[number as usize] == writes[written_at[of.user as usize] as usize]
                            && self.takes_memory(of.user, result) =>
                    {
                        has_memory[of.user as usize] = true;
                        Where::Within
                    }
                    Data::Binary { opcode: Opcode::Iadd, args }
                        if of.in_addresses == of.all && self.is_address(args, place, of) =>
                    {
                        self.count_parts(args, &mut uses);
                        Where::Within
                    }
                    Data::Binary { opcode: Opcode::Ishl, args }
                        if of.as_index == of.all && of.all <= 2 && self.is_scale(args[1]) =>
                    {
                        Where::Within
                    }
                    _ => self.named(result),
                };
                self.wheres[result.index()] = place_of;
                for other in func.results(inst).skip(1) {
                    self.wheres[other.index()] = self.named(other);
                }
                self.count_address(data, &mut uses);
            }
            for param in self.params(place) {
                let is_own = self.is_itself(param);
                if uses[param.index()].all > 0 && is_own {
                    self.wheres[param.index()] = match Some(param) == kept {
                        true => Where::Kept,
                        false => self.named(param),
                    };
                }
            }
        }
    }

    /// The value that is in the same register wherever functions of its convention run.
    fn kept(&self) -> Option<Value> {
        self.params(0).next().filter(|_| self.jumps())
    }

    /// Whether the function is of the convention [`Convention::Machine`]: it saves no registers, and has one for good.
    pub(super) fn jumps(&self) -> bool {
        self.func.signature.convention == Convention::Machine
    }

    fn named(&mut self, value: Value) -> Where {
        let is_float = self.func.ty(value).is_float();
        self.classes.push(if is_float { Class::Float } else { Class::Integer });
        Where::Named(self.classes.len() as Name - 1)
    }

    /// The constant that a value is.
    pub(super) fn integer(&self, value: Value) -> Option<i64> {
        match self.at(value) {
            Where::Integer(n) => Some(n),
            _ => None,
        }
    }

    /// The same while it is not known yet which values are named.
    fn integer_of(&self, value: Value) -> Option<i64> {
        self.func.integer(self.value(value)).map(|n| self.ty(value).signed(n))
    }

    fn count_address(&self, data: &Data, uses: &mut [Uses]) {
        let (address, offset) = match *data {
            Data::Load { arg, offset } => (arg, offset),
            Data::Store { args, offset, .. } => (args[1], offset),
            _ => return,
        };
        if (-FAR..FAR).contains(&i64::from(offset)) {
            uses[self.value(address).index()].in_addresses += 1;
        }
    }

    /// Whether the sum may be part of the addresses that it is used in: of a value and a constant, or of two
    /// values where they are used in the same block.
    fn is_address(&self, args: [Value; 2], place: usize, of: Uses) -> bool {
        let constant = self.integer_of(args[1]).or_else(|| self.integer_of(args[0]));
        match constant {
            Some(n) => (-FAR..FAR).contains(&n),
            None => {
                let bounds = &self.blocks[place];
                of.all == 1 && (bounds.head..=bounds.last).contains(&of.user)
            }
        }
    }

    /// What an address that is part of others is the sum of may be part of them, too.
    fn count_parts(&self, args: [Value; 2], uses: &mut [Uses]) {
        let index = |value: Value| self.value(value).index();
        // What this one is the sum of in turn is a value and a constant: an address has two registers at most.
        let first = match args.map(|arg| self.integer_of(arg)) {
            [None, Some(_)] => args[0],
            [Some(_), None] => args[1],
            [None, None] => {
                uses[index(args[1])].as_index += 1;
                args[0]
            }
            [Some(_), Some(_)] => return,
        };
        let made = self.func.made_by(self.value(first)).map(|inst| self.data(inst));
        if let Some(Data::Binary { opcode: Opcode::Iadd, args: parts }) = made
            && parts.iter().any(|&part| self.integer_of(part).is_some())
        {
            uses[index(first)].in_addresses += 1;
        }
    }

    fn is_scale(&self, by: Value) -> bool {
        self.integer_of(by).is_some_and(|n| (0..4).contains(&n))
    }

    /// Whether a jump or a choice takes the comparison as its condition.
    fn takes_condition(&self, user: Number, result: Value, compares: &Data) -> bool {
        match *self.user(user) {
            Data::Branch { arg, .. } => self.value(arg) == result,
            Data::Select { args } => {
                // Those of floats that are two conditions are not for one conditional move.
                let simple = match *compares {
                    Data::CompareFloats { cond, .. } => !matches!(cond, FloatCC::Equal | FloatCC::NotEqual),
                    _ => true,
                };
                simple && self.value(args[0]) == result
            }
            _ => false,
        }
    }

    /// Whether all that is asked of the bits is whether there are any.
    fn is_tested(&self, user: Number, result: Value) -> bool {
        match *self.user(user) {
            Data::Branch { arg, .. } => self.value(arg) == result && arg == result,
            Data::CompareInts { cond, args, .. } => {
                let of = self.func.resolve(args[0]);
                matches!(cond, IntCC::Equal | IntCC::NotEqual)
                    && of == result
                    && self.integer_of(args[1]) == Some(0)
            }
            _ => false,
        }
    }

    /// The values that an instruction makes, of those that are named. (One that stands for another makes
    /// none.)
    pub(super) fn made(&self, inst: Inst) -> impl Iterator<Item = Name> + '_ {
        self.func.results(inst).filter_map(|result| self.own_name(result))
    }

    /// Whether the instruction is written where it stands.
    pub(super) fn is_written(&self, inst: Inst) -> bool {
        let is_call = self.data(inst).opcode().is_call();
        let result = self.func.result(inst);
        is_call || result.is_none_or(|result| matches!(self.wheres[result.index()], Where::Named(_)))
    }

    fn user(&self, number: Number) -> &'f Data {
        self.data(self.insts[number as usize].expect("who uses a value is an instruction"))
    }

    /// Whether the instruction may have this value, which is loaded, in memory.
    fn takes_memory(&self, user: Number, loaded: Value) -> bool {
        let ty = self.ty(loaded);
        let is = |value: Value| self.value(value) == loaded;
        // Of so many bits as are loaded, or fewer.
        let fits = |value: Value| self.ty(value) == ty || (self.ty(value).bits() < ty.bits() && ty.is_int());
        let whole = ty == Type::I32 || ty == Type::I64;
        match *self.user(user) {
            Data::Binary { opcode, args } => match opcode {
                // A sum that is part of an address has no operand in memory.
                Opcode::Iadd | Opcode::Imul | Opcode::Bor | Opcode::Bxor => {
                    whole
                        && !self.at_user_within(user)
                        && self.ty(args[0]) == ty
                        && (is(args[0]) || is(args[1]))
                }
                Opcode::Band => {
                    let tested = self.at_user_within(user);
                    let wide = whole || (tested && ty == Type::I8);
                    wide && self.ty(args[0]) == ty && (is(args[0]) || is(args[1]))
                }
                Opcode::Isub => whole && self.ty(args[0]) == ty && is(args[1]),
                Opcode::Fadd | Opcode::Fsub | Opcode::Fmul | Opcode::Fdiv => is(args[1]),
                _ => false,
            },
            Data::CompareInts { args, .. } => {
                let other = if is(args[0]) { args[1] } else { args[0] };
                fits(if is(args[0]) { args[0] } else { args[1] })
                    // Of two that are compared with memory one is a constant or named.
                    && !is(other)
            }
            Data::CompareFloats { args, cond, .. } => {
                let [_, second] = compared(cond, args);
                is(second) && !is(compared(cond, args)[0])
            }
            Data::Branch { arg, .. } => is(arg) && fits(arg),
            Data::Unary { opcode, arg } => match opcode {
                Opcode::Uextend | Opcode::Sextend => fits(arg),
                Opcode::FcvtFromSint | Opcode::Fpromote => whole && self.ty(arg) == ty,
                Opcode::Sqrt | Opcode::Floor | Opcode::Ceil | Opcode::Bitcast => true,
                _ => false,
            },
            Data::Call { opcode: Opcode::CallIndirect, args, .. } => {
                self.func.list(args).first().copied().is_some_and(is)
            }
            _ => false,
        }
    }

    /// Whether the result of this instruction is part of others.
    fn at_user_within(&self, user: Number) -> bool {
        let inst = self.insts[user as usize].expect("an instruction");
        let result = self.func.result(inst).expect("it makes something");
        self.wheres[result.index()] == Where::Within
    }
}

/// The way on, past blocks that only lead on.
fn past_empty(func: &Function, mut way: Edge) -> Edge {
    // There are loops that do nothing.
    for _ in 0..4 {
        let block = func.leads_to(way);
        match *func.data(func.first_inst(block)) {
            Data::Jump { way: on } if func.params(block).is_empty() && !func.is_cold(block) => way = on,
            _ => break,
        }
    }
    way
}

/// In which order the processor compares two floats for this condition.
pub(super) fn compared(cond: FloatCC, [a, b]: [Value; 2]) -> [Value; 2] {
    match cond {
        FloatCC::LessThan
        | FloatCC::LessThanOrEqual
        | FloatCC::UnorderedOrGreaterThan
        | FloatCC::UnorderedOrGreaterThanOrEqual => [b, a],
        _ => [a, b],
    }
}
