//! Builds functions.

use super::{
    Block, BlockData, Convention, Data, Def, Edge, EdgeData, FloatCC, Function, Inst, IntCC, List, NONE,
    Node, Opcode, Param, Sig, Signature, Slot, Type, Value, Variable,
};

/// What variables are, while a function is built. It can be used again, for the next one.
#[derive(Debug, Default)]
pub struct Variables {
    types: Vec<Type>,
    /// What each is at the end of a block as far as it has been built, by variable and block: a value's number
    /// and one, or 0. Rows behind those of the types are of the function before.
    values: Vec<Vec<u32>>,
    /// Parameters that have been made for variables, of which nobody has said yet what they get.
    open: Vec<(Block, Variable, Value)>,
    /// Those of which somebody has.
    filled: Vec<(Block, Value)>,
}

impl Variables {
    fn clear(&mut self) {
        self.values[..self.types.len()].iter_mut().for_each(Vec::clear);
        self.types.clear();
        self.open.clear();
    }
}

/// Builds a function, an instruction after the other.
///
/// Methods that are named as instructions append those to the block at hand, and return what they make:
/// [`Opcode`] says what they do. They panic where the block has ended. Whether operands have the right types is
/// asked by the verifier.
#[derive(Debug)]
pub struct Builder<'f> {
    /// What has been built.
    pub func: &'f mut Function,
    variables: &'f mut Variables,
    block: Option<Block>,
    place: u32,
}

impl<'f> Builder<'f> {
    /// Begins a function of this signature in place of the one that has been there.
    pub fn new(func: &'f mut Function, variables: &'f mut Variables, signature: Signature) -> Builder<'f> {
        func.clear(signature);
        variables.clear();
        Builder { func, variables, block: None, place: NONE }
    }

    /// What is built from now on belongs to this place (not `u32::MAX`).
    pub(crate) fn set_place(&mut self, place: u32) {
        assert!(place != NONE, "a place that stands for none");
        self.place = place;
    }

    // -- Blocks ---------------------------------------------------------------------------------------------

    /// A block without instructions.
    pub fn create_block(&mut self) -> Block {
        let func = &mut *self.func;
        if func.blocks.len() == func.block_count {
            func.blocks.push(BlockData::NEW);
        }
        func.block_count += 1;
        Block(func.block_count as u32 - 1)
    }

    fn of(&mut self, block: Block) -> &mut BlockData {
        &mut self.func.blocks[block.index()]
    }

    /// The block is hardly ever run.
    pub fn set_cold_block(&mut self, block: Block) {
        self.of(block).is_cold = true;
    }

    /// One more parameter of a block: whoever goes there passes a value for it.
    pub fn append_block_param(&mut self, block: Block, ty: Type) -> Value {
        let is_given = |param: &Param| param.gets.is_none();
        let data = &self.func.blocks[block.index()];
        let is_early = data.read.is_empty() && data.params.iter().all(is_given) && data.ways == 0;
        assert!(is_early, "a block's parameters come before those of variables, and ways to it");
        let value = self.make(Def::Param(block), ty);
        self.of(block).params.push(Param { value, gets: None });
        value
    }

    /// What the function gets as parameters of the block that it begins with.
    pub fn append_block_params_for_function_params(&mut self, block: Block) {
        for n in 0..self.func.signature.params.len() {
            let ty = self.func.signature.params[n];
            self.append_block_param(block, ty);
        }
    }

    /// The parameters that a block has been given.
    pub fn block_params(&self, block: Block) -> Vec<Value> {
        let given = self.func.params(block).iter().take_while(|param| param.gets.is_none());
        given.map(|param| param.value).collect()
    }

    /// Goes on with this block, which has not ended.
    pub fn switch_to_block(&mut self, block: Block) {
        assert!(!self.of(block).has_ended, "{block} has ended");
        self.block = Some(block);
    }

    /// The block at hand.
    pub fn current_block(&self) -> Option<Block> {
        self.block
    }

    /// No way leads to the block at hand, which is not the one that the function begins with.
    pub fn is_unreachable(&self) -> bool {
        let block = self.block.expect("a block is at hand");
        let data = &self.func.blocks[block.index()];
        data.is_sealed && data.ways == 0 && self.func.order.first().is_some_and(|&entry| entry != block)
    }

    /// All ways to the block are there.
    pub fn seal_block(&mut self, block: Block) {
        let data = self.of(block);
        assert!(!data.is_sealed, "{block} is sealed once");
        data.is_sealed = true;
        self.open_read(block);
        self.fill_open();
    }

    /// All ways to all blocks are there.
    pub fn seal_all_blocks(&mut self) {
        let all = (0..self.func.block_count as u32).map(Block);
        let unsealed: Vec<Block> = all.filter(|&block| !self.of(block).is_sealed).collect();
        unsealed.iter().for_each(|&block| self.of(block).is_sealed = true);
        unsealed.iter().for_each(|&block| self.open_read(block));
        self.fill_open();
    }

    /// What has been read before the block was sealed may be looked for.
    fn open_read(&mut self, block: Block) {
        let mut read = std::mem::take(&mut self.of(block).read);
        self.variables.open.extend(read.drain(..).map(|(variable, value)| (block, variable, value)));
        self.of(block).read = read;
    }

    // -- Variables ------------------------------------------------------------------------------------------

    /// A variable of this type.
    pub fn declare_var(&mut self, ty: Type) -> Variable {
        let variables = &mut *self.variables;
        variables.types.push(ty);
        if variables.values.len() < variables.types.len() {
            variables.values.push(Vec::new());
        }
        Variable(variables.types.len() as u32 - 1)
    }

    /// The variable is this value from here on.
    pub fn def_var(&mut self, variable: Variable, value: Value) {
        let is_same = self.variables.types[variable.index()] == self.func.ty(value);
        assert!(is_same, "{variable} gets a value of another type");
        let block = self.block.expect("a block is at hand");
        self.set(variable, block, value);
    }

    fn set(&mut self, variable: Variable, block: Block, value: Value) {
        let row = &mut self.variables.values[variable.index()];
        if row.len() <= block.index() {
            row.resize(block.index() + 1, 0);
        }
        row[block.index()] = value.0 + 1;
    }

    /// What the variable is here. Where nobody has assigned to it, it is 0.
    pub fn use_var(&mut self, variable: Variable) -> Value {
        let block = self.block.expect("a block is at hand");
        let value = self.value_in(variable, block);
        self.fill_open();
        self.func.resolve(value)
    }

    /// What it is at the end of a block as far as that has been built.
    fn value_in(&mut self, variable: Variable, block: Block) -> Value {
        let (mut at, mut steps) = (block, 0);
        let value = loop {
            let known = self.variables.values[variable.index()].get(at.index()).copied().unwrap_or(0);
            if known != 0 {
                break Value(known - 1);
            }
            let data = &self.func.blocks[at.index()];
            // Blocks that nobody comes to may lead to each other.
            if !data.is_sealed || data.ways != 1 || steps > self.func.block_count {
                break self.begin_value(variable, at);
            }
            at = self.func.edges[data.first_way as usize].from;
            steps += 1;
        };
        // Whoever asks next finds it here.
        let mut above = block;
        while above != at {
            self.set(variable, above, value);
            above = self.func.edges[self.func.blocks[above.index()].first_way as usize].from;
        }
        value
    }

    /// What a variable is where a block begins in which several ways meet, or none.
    fn begin_value(&mut self, variable: Variable, block: Block) -> Value {
        let ty = self.variables.types[variable.index()];
        let (is_sealed, ways) = (self.of(block).is_sealed, self.of(block).ways);
        let value = match is_sealed && ways <= 1 {
            true => self.zero(ty),
            false => {
                let value = self.make(Def::Param(block), ty);
                // Until somebody says what it gets.
                self.of(block).params.push(Param { value, gets: Some(NONE) });
                match is_sealed {
                    true => self.variables.open.push((block, variable, value)),
                    false => self.of(block).read.push((variable, value)),
                }
                value
            }
        };
        self.set(variable, block, value);
        value
    }

    fn zero(&mut self, ty: Type) -> Value {
        if ty.is_float() { self.f64const(0.0) } else { self.iconst(ty, 0) }
    }

    /// Finds out what parameters get that have been made for variables, and which of these are always one value.
    fn fill_open(&mut self) {
        if self.variables.open.is_empty() {
            return;
        }
        let mut filled = std::mem::take(&mut self.variables.filled);
        while let Some((block, variable, param)) = self.variables.open.pop() {
            let (ways, mut way) = (self.of(block).ways, self.of(block).first_way);
            let start = self.func.pool.len();
            self.func.pool.resize(start + ways as usize, param);
            while way != NONE {
                let EdgeData { from, nth, next, .. } = self.func.edges[way as usize];
                self.func.pool[start + nth as usize] = self.value_in(variable, from);
                way = next;
            }
            let mut params = self.of(block).params.iter_mut().rev();
            let of = params.find(|of| of.value == param).expect("a parameter of the block");
            of.gets = Some(start as u32);
            filled.push((block, param));
        }
        // What is asked last is what others get.
        for (block, param) in filled.drain(..).rev() {
            self.find_same(block, param);
        }
        self.variables.filled = filled;
    }

    /// A parameter that gets one value on all ways, besides itself, is that.
    fn find_same(&mut self, block: Block, param: Value) {
        let data = &self.func.blocks[block.index()];
        let at = data.params.iter().rposition(|of| of.value == param).expect("a parameter of the block");
        let start = data.params[at].gets.expect("one of a variable") as usize;
        let gets = &self.func.pool[start..start + data.ways as usize];
        let mut others = gets.iter().map(|&value| self.func.resolve(value)).filter(|&value| value != param);
        let same = match others.next() {
            Some(first) if others.all(|value| value == first) => first,
            Some(_) => return,
            // It leads to itself alone: nobody comes there.
            None => self.zero(self.func.ty(param)),
        };
        self.func.defs[param.index()] = Def::Same(same);
        self.of(block).params.remove(at);
    }

    // -- Values ---------------------------------------------------------------------------------------------

    fn make(&mut self, def: Def, ty: Type) -> Value {
        let func = &mut *self.func;
        func.types.push(ty);
        func.defs.push(def);
        Value(func.types.len() as u32 - 1)
    }

    /// An integer. Of the bits that are more than it has, nothing is said.
    pub fn iconst(&mut self, ty: Type, n: i64) -> Value {
        let n = ty.signed(n);
        if let Some(&value) = self.func.integers.get(&(n, ty)) {
            return value;
        }
        let value = self.make(Def::Integer(n), ty);
        self.func.integers.insert((n, ty), value);
        value
    }

    /// A float.
    pub fn f64const(&mut self, x: f64) -> Value {
        let bits = x.to_bits();
        if let Some(&value) = self.func.floats.get(&bits) {
            return value;
        }
        let value = self.make(Def::Float(bits), Type::F64);
        self.func.floats.insert(bits, value);
        value
    }

    /// So many bytes of the frame, at a multiple of 16.
    pub fn create_slot(&mut self, size: u32) -> Slot {
        self.func.slots.push(size);
        Slot(self.func.slots.len() as u32 - 1)
    }

    /// The address of a place in a slot.
    pub fn stack_addr(&mut self, slot: Slot, offset: i32) -> Value {
        self.make(Def::Stack(slot, offset), Type::I64)
    }

    /// The address that the stack reaches down to where it is used.
    pub fn get_stack_pointer(&mut self) -> Value {
        self.make(Def::StackPointer, Type::I64)
    }

    // -- Instructions ---------------------------------------------------------------------------------------

    fn append(&mut self, data: Data, results: &[Type]) -> Inst {
        let block = self.block.expect("a block is at hand");
        let inst = Inst(self.func.insts.len() as u32);
        let result = self.func.types.len() as u32;
        for &ty in results {
            self.make(Def::Inst(inst), ty);
        }
        let results = results.len() as u32;
        self.func.insts.push(Node { data, result, results, place: self.place, next: NONE });
        let of = &mut self.func.blocks[block.index()];
        assert!(!of.has_ended, "{block} has ended");
        let before = std::mem::replace(&mut of.last, inst.0);
        if before == NONE {
            of.first = inst.0;
            self.func.order.push(block);
        } else {
            self.func.insts[before as usize].next = inst.0;
        }
        inst
    }

    fn value(&mut self, data: Data, ty: Type) -> Value {
        let inst = self.append(data, &[ty]);
        Value(self.func.insts[inst.index()].result)
    }

    /// The last instruction of the block at hand.
    fn end(&mut self, data: Data) -> Inst {
        let inst = self.append(data, &[]);
        let block = self.block.expect("a block is at hand");
        self.of(block).has_ended = true;
        inst
    }

    fn list(&mut self, values: &[Value]) -> List {
        let start = self.func.pool.len() as u32;
        self.func.pool.extend_from_slice(values);
        List { start, len: values.len() as u32 }
    }

    /// A way from the block at hand.
    fn edge(&mut self, to: Block, passed: &[Value]) -> Edge {
        let passed = self.list(passed);
        let from = self.block.expect("a block is at hand");
        let edge = self.func.edges.len() as u32;
        let of = &mut self.func.blocks[to.index()];
        assert!(!of.is_sealed, "another way to {to}, which is sealed");
        let nth = of.ways;
        of.ways += 1;
        let before = std::mem::replace(&mut of.last_way, edge);
        match before {
            NONE => of.first_way = edge,
            before => self.func.edges[before as usize].next = edge,
        }
        self.func.edges.push(EdgeData { from, to, passed, nth, next: NONE });
        Edge(edge)
    }

    /// What an instruction makes. Panics if these are not so many values.
    pub fn inst_results<const N: usize>(&self, inst: Inst) -> [Value; N] {
        let results = self.func.results(inst);
        assert!(results.len() == N, "as many results as the instruction makes");
        let first = self.func.insts[inst.index()].result;
        std::array::from_fn(|n| Value(first + n as u32))
    }

    /// [`Opcode::Load`].
    pub fn load(&mut self, ty: Type, arg: Value, offset: i32) -> Value {
        self.value(Data::Load { arg, offset }, ty)
    }

    /// [`Opcode::Load`], from a slot.
    pub fn stack_load(&mut self, ty: Type, slot: Slot, offset: i32) -> Value {
        let address = self.stack_addr(slot, offset);
        self.load(ty, address, 0)
    }

    /// [`Opcode::Store`].
    pub fn store(&mut self, value: Value, address: Value, offset: i32) {
        self.append(Data::Store { args: [value, address], offset }, &[]);
    }

    /// An instruction of two operands, whose result has the type of the first.
    pub fn binary(&mut self, opcode: Opcode, a: Value, b: Value) -> Value {
        let ty = self.func.ty(a);
        self.value(Data::Binary { opcode, args: [a, b] }, ty)
    }

    /// One of one operand, whose result has this type.
    pub fn unary(&mut self, opcode: Opcode, ty: Type, arg: Value) -> Value {
        self.value(Data::Unary { opcode, arg }, ty)
    }

    /// Bits of `a` that are not in `b`.
    pub fn band_not(&mut self, a: Value, b: Value) -> Value {
        let others = self.bnot(b);
        self.band(a, others)
    }

    /// [`Opcode::Select`].
    pub fn select(&mut self, condition: Value, a: Value, b: Value) -> Value {
        let ty = self.func.ty(a);
        self.value(Data::Select { args: [condition, a, b] }, ty)
    }

    /// [`Opcode::Icmp`].
    pub fn icmp(&mut self, cond: IntCC, a: Value, b: Value) -> Value {
        self.value(Data::CompareInts { cond, args: [a, b] }, Type::I8)
    }

    /// [`Opcode::Fcmp`].
    pub fn fcmp(&mut self, cond: FloatCC, a: Value, b: Value) -> Value {
        self.value(Data::CompareFloats { cond, args: [a, b] }, Type::I8)
    }

    /// [`Opcode::FcvtFromSint`].
    pub fn fcvt_from_sint(&mut self, arg: Value) -> Value {
        self.unary(Opcode::FcvtFromSint, Type::F64, arg)
    }

    /// [`Opcode::FcvtToSint`], to a word.
    pub fn fcvt_to_sint(&mut self, arg: Value) -> Value {
        self.unary(Opcode::FcvtToSint, Type::I64, arg)
    }

    /// [`Opcode::Fpromote`].
    pub fn fpromote(&mut self, arg: Value) -> Value {
        self.unary(Opcode::Fpromote, Type::F64, arg)
    }

    /// [`Opcode::Fdemote`].
    pub fn fdemote(&mut self, arg: Value) -> Value {
        self.unary(Opcode::Fdemote, Type::I32, arg)
    }

    /// A way of calling functions.
    pub fn import_signature(&mut self, signature: Signature) -> Sig {
        self.func.signatures.push(signature);
        Sig(self.func.signatures.len() as u32 - 1)
    }

    /// [`Opcode::CallIndirect`]; [`Builder::inst_results`] are what the callee gives back.
    pub fn call_indirect(&mut self, sig: Sig, callee: Value, args: &[Value]) -> Inst {
        let list = self.list(&[callee]);
        self.func.pool.extend_from_slice(args);
        let args = List { len: list.len + args.len() as u32, ..list };
        let returns = &self.func.signatures[sig.index()].returns;
        let types: [Type; 4] = std::array::from_fn(|n| returns.get(n).copied().unwrap_or(Type::I64));
        let count = returns.len();
        self.append(Data::Call { opcode: Opcode::CallIndirect, sig, args }, &types[..count])
    }

    // -- Where blocks end -----------------------------------------------------------------------------------

    /// [`Opcode::ReturnCallIndirect`].
    pub fn return_call_indirect(&mut self, sig: Sig, callee: Value, args: &[Value]) {
        assert!(self.func.signatures[sig.index()].convention == Convention::Machine, "who takes its place");
        let list = self.list(&[callee]);
        self.func.pool.extend_from_slice(args);
        let args = List { len: list.len + args.len() as u32, ..list };
        self.end(Data::Call { opcode: Opcode::ReturnCallIndirect, sig, args });
    }

    /// [`Opcode::Depart`]: at this point, a constant. Values are stored so many bytes behind the base
    /// ([`crate::backend::stored_at`]).
    pub fn depart(&mut self, point: Value, base: Value, stores: &[(i64, Value)]) {
        let start = self.func.pool.len() as u32;
        self.func.pool.extend([point, base]);
        for &(at, value) in stores {
            let at = self.iconst(Type::I64, at);
            self.func.pool.extend([at, value]);
        }
        let args = List { start, len: 2 + 2 * stores.len() as u32 };
        self.end(Data::Depart { args });
    }

    /// [`Opcode::Jump`].
    pub fn jump(&mut self, to: Block, passed: &[Value]) {
        let way = self.edge(to, passed);
        self.end(Data::Jump { way });
    }

    /// [`Opcode::Brif`].
    pub fn brif(&mut self, condition: Value, yes: Block, passed: &[Value], no: Block, other: &[Value]) {
        let ways = [self.edge(yes, passed), self.edge(no, other)];
        self.end(Data::Branch { arg: condition, ways });
    }

    /// [`Opcode::Return`].
    pub fn return_(&mut self, values: &[Value]) {
        let args = self.list(values);
        self.end(Data::Return { args });
    }

    /// [`Opcode::Trap`].
    pub fn trap(&mut self) {
        self.end(Data::Trap);
    }
}

macro_rules! binary {
    ($($name:ident $opcode:ident),* $(,)?) => {
        /// Instructions of two operands, whose result has the type of the first.
        impl Builder<'_> {
            $(
                #[doc = concat!("[`Opcode::", stringify!($opcode), "`].")]
                pub fn $name(&mut self, a: Value, b: Value) -> Value {
                    self.binary(Opcode::$opcode, a, b)
                }
            )*
        }
    };
}

binary! {
    iadd Iadd, isub Isub, imul Imul, umulhi Umulhi, udiv Udiv, urem Urem, floor_div FloorDiv, floor_mod FloorMod, band Band, bor Bor,
    bxor Bxor, ishl Ishl, ushr Ushr, sshr Sshr, fadd Fadd, fsub Fsub, fmul Fmul, fdiv Fdiv,
}

macro_rules! unary {
    ($($name:ident $opcode:ident),* $(,)?) => {
        /// Instructions of one operand, whose result has the same type.
        impl Builder<'_> {
            $(
                #[doc = concat!("[`Opcode::", stringify!($opcode), "`].")]
                pub fn $name(&mut self, arg: Value) -> Value {
                    let ty = self.func.ty(arg);
                    self.unary(Opcode::$opcode, ty, arg)
                }
            )*
        }
    };
}

unary! {
    bnot Bnot, ineg Ineg, fneg Fneg, fabs Fabs, sqrt Sqrt, floor Floor, ceil Ceil,
}

macro_rules! convert {
    ($($name:ident $opcode:ident),* $(,)?) => {
        /// Instructions of one operand, whose result has another type.
        impl Builder<'_> {
            $(
                #[doc = concat!("[`Opcode::", stringify!($opcode), "`].")]
                pub fn $name(&mut self, ty: Type, arg: Value) -> Value {
                    self.unary(Opcode::$opcode, ty, arg)
                }
            )*
        }
    };
}

convert! { uextend Uextend, sextend Sextend, ireduce Ireduce, bitcast Bitcast }
