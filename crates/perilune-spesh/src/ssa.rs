//! The intermediate form: a function in static single assignment, made by [`Builder`], read by the code
//! generator (`linear.rs`).
//!
//! A function has blocks; a block has parameters and instructions, of which the last one says where it goes on.
//! Each value is made once: by an instruction, as a parameter of a block, or, if it is always the same, by
//! nobody: constants and addresses of the stack are values that stand nowhere, so they may be used everywhere.
//! Equal constants are one value. Instructions are named as in Cranelift's form, which this one has been made
//! after, and mean what they mean there.
//!
//! # What it is for
//! It is made twice for each function that is compiled, and thrown away, on a thread that shares the processor
//! with the program: making it has to cost little. So nothing is looked up while it is made, all of it lies in a
//! few lists that are kept for the next function, an instruction has 32 bytes, and what passes from a block to
//! another stands in the way between them ([`Edge`]).
//!
//! # Variables
//! Who builds a function assigns to variables, and reads them ([`Builder::def_var`], [`Builder::use_var`]): which
//! value that is, and where blocks need parameters for it, is found out while the function is built (Braun,
//! Buchwald, Hack, Leißa, Mallon, Zwinkau: *Simple and Efficient Construction of Static Single Assignment Form*,
//! 2013). A block is *sealed* when all ways to it are there. Parameters that come of variables stand behind
//! those that the block was given, and what they get is kept with the block, by the ways that lead to it.
//!
//! # What keeps it right
//! The builder asserts what it can see: a block that has ended gets no more instructions, a sealed one no more
//! ways, a variable no value of another type. `verify.rs` looks at a whole function: in tests, and where
//! `PERILUNE_SPESH_GENERATOR=checked` says so. Random functions are run by an interpreter of this form
//! (`linear/tests`), and compared with what the processor does.
//!
//! # Rejected
//! See [decision 81]: Cranelift's builder, with which this began, took a quarter of the time that compiling
//! takes, and five megabytes of the executable.
//!
//! [decision 81]: ../../../docs/decisions/0081-a-form-of-our-own.md

mod builder;
#[cfg(test)]
mod edit;
mod inst;
mod text;
mod verify;

pub use builder::{Builder, Variables};
pub(crate) use inst::List;
pub use inst::{Data, FloatCC, IntCC, Opcode};
use rustc_hash::FxHashMap as HashMap;
use std::fmt;
pub use verify::Invalid;

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Type {
    /// An integer of 8 bits; what a comparison comes to: 0 or 1.
    I8,
    /// Of 16.
    I16,
    /// Of 32.
    I32,
    /// Of 64; addresses as well.
    I64,
    /// A float of 64 bits.
    F64,
}

impl Type {
    /// How many bits it has.
    pub fn bits(self) -> u32 {
        8 * self.bytes()
    }

    /// How many bytes.
    pub fn bytes(self) -> u32 {
        match self {
            Type::I8 => 1,
            Type::I16 => 2,
            Type::I32 => 4,
            Type::I64 | Type::F64 => 8,
        }
    }

    /// Whether it is the float.
    pub fn is_float(self) -> bool {
        self == Type::F64
    }

    /// Whether it is an integer.
    pub fn is_int(self) -> bool {
        self != Type::F64
    }

    /// The integer of these bits as it is said: with its sign.
    pub(crate) fn signed(self, bits: i64) -> i64 {
        match self {
            Type::I8 => bits as i8 as i64,
            Type::I16 => bits as i16 as i64,
            Type::I32 => bits as i32 as i64,
            Type::I64 | Type::F64 => bits,
        }
    }
}

/// How a function is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Convention {
    /// As C does on this system.
    C,
    /// As machine code does ([`perilune_vm::machine::Code`]): functions that may end in tail calls, save no
    /// registers, and keep their first parameter, a word, in the same register for good, their callees' too.
    /// Parameters and the result are where C has them.
    Machine,
    /// Parameters are where C has them, and no register is changed, so there is no result.
    Preserving,
}

/// What a function gets and gives back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// How it is called.
    pub convention: Convention,
    /// The types of its parameters.
    pub params: Vec<Type>,
    /// Those of its results: two words and two floats at most.
    pub returns: Vec<Type>,
}

impl Signature {
    /// Of a function that gets nothing, and gives nothing back.
    pub fn new(convention: Convention) -> Signature {
        Signature { convention, params: Vec::new(), returns: Vec::new() }
    }
}

macro_rules! entity {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub(crate) u32);

        impl $name {
            /// Its place among those of the function.
            pub(crate) fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

entity!(
    /// A value of a function.
    Value, "v"
);
entity!(
    /// A block of instructions.
    Block, "block"
);
entity!(
    /// An instruction.
    Inst, "inst"
);
entity!(
    /// What is assigned to while a function is built.
    Variable, "var"
);
entity!(
    /// Bytes in the frame of the function.
    Slot, "slot"
);
entity!(
    /// How something is called.
    Sig, "sig"
);
entity!(
    /// A way from one block to another.
    Edge, "way"
);

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Def {
    /// An instruction makes it.
    Inst(Inst),
    /// It is a parameter.
    Param(Block),
    /// It is this integer, with its sign.
    Integer(i64),
    /// The float of these bits.
    Float(u64),
    /// An address: so many bytes behind the beginning of a slot.
    Stack(Slot, i32),
    /// The address that the stack reaches down to where it is used.
    StackPointer,
    /// It has turned out to be another one.
    Same(Value),
}

/// A parameter of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Param {
    pub value: Value,
    /// Where what it gets begins in the function's pool, for one that comes of a variable: a value for each
    /// way, in their order. Else it stands in the ways.
    gets: Option<u32>,
}

/// The end of a list of numbers.
const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct BlockData {
    params: Vec<Param>,
    /// The instructions, of which each knows the next.
    first: u32,
    last: u32,
    /// The ways that lead here, likewise.
    first_way: u32,
    last_way: u32,
    ways: u32,
    is_cold: bool,
    is_sealed: bool,
    /// Its last instruction says where it goes on.
    has_ended: bool,
    /// Variables that have been read before it was sealed, and the parameters made for them.
    read: Vec<(Variable, Value)>,
}

impl BlockData {
    const NEW: BlockData = BlockData {
        params: Vec::new(),
        first: NONE,
        last: NONE,
        first_way: NONE,
        last_way: NONE,
        ways: 0,
        is_cold: false,
        is_sealed: false,
        has_ended: false,
        read: Vec::new(),
    };

    /// As new, in the same memory.
    fn clear(&mut self) {
        let (mut params, mut read) = (std::mem::take(&mut self.params), std::mem::take(&mut self.read));
        params.clear();
        read.clear();
        *self = BlockData { params, read, ..BlockData::NEW };
    }
}

#[derive(Clone, Copy, Debug)]
struct Node {
    data: Data,
    /// The first value that it makes; others follow.
    result: u32,
    results: u32,
    /// The number that the builder has been given for it.
    place: u32,
    /// The next one of its block.
    next: u32,
}

const _: () = assert!(size_of::<Node>() == 32, "instructions are small");

#[derive(Clone, Copy, Debug)]
struct EdgeData {
    from: Block,
    to: Block,
    /// What the parameters get that the block was given.
    passed: List,
    /// Which of the ways to that block it is.
    nth: u32,
    /// The next of these.
    next: u32,
}

/// A function.
#[derive(Clone, Debug)]
pub struct Function {
    /// What it gets and gives back.
    pub signature: Signature,
    signatures: Vec<Signature>,
    insts: Vec<Node>,
    types: Vec<Type>,
    defs: Vec<Def>,
    /// The blocks; those behind `block_count` are of the function before.
    blocks: Vec<BlockData>,
    block_count: usize,
    /// Blocks that have instructions, in the order in which they have got the first one.
    order: Vec<Block>,
    edges: Vec<EdgeData>,
    /// Lists of values.
    pool: Vec<Value>,
    /// How many bytes slots have.
    slots: Vec<u32>,
    /// Values that stand nowhere, by their bits.
    integers: HashMap<(i64, Type), Value>,
    floats: HashMap<u64, Value>,
}

impl Default for Function {
    fn default() -> Function {
        Function {
            signature: Signature::new(Convention::C),
            signatures: Vec::new(),
            insts: Vec::new(),
            types: Vec::new(),
            defs: Vec::new(),
            blocks: Vec::new(),
            block_count: 0,
            order: Vec::new(),
            edges: Vec::new(),
            pool: Vec::new(),
            slots: Vec::new(),
            integers: HashMap::default(),
            floats: HashMap::default(),
        }
    }
}

impl Function {
    /// Makes it a function of this signature without blocks, in the same memory.
    pub(crate) fn clear(&mut self, signature: Signature) {
        self.signature = signature;
        self.signatures.clear();
        self.insts.clear();
        self.types.clear();
        self.defs.clear();
        self.blocks[..self.block_count].iter_mut().for_each(BlockData::clear);
        self.block_count = 0;
        self.order.clear();
        self.edges.clear();
        self.pool.clear();
        self.slots.clear();
        self.integers.clear();
        self.floats.clear();
    }

    // -- Values ---------------------------------------------------------------------------------------------

    /// The type of a value.
    pub fn ty(&self, value: Value) -> Type {
        self.types[value.index()]
    }

    /// The value that this one has turned out to be: itself, most of the time.
    pub(crate) fn resolve(&self, value: Value) -> Value {
        let mut value = value;
        while let Def::Same(other) = self.defs[value.index()] {
            value = other;
        }
        value
    }

    /// Where a value comes from.
    pub(crate) fn def(&self, value: Value) -> Def {
        self.defs[self.resolve(value).index()]
    }

    /// The instruction that makes it.
    pub(crate) fn made_by(&self, value: Value) -> Option<Inst> {
        match self.def(value) {
            Def::Inst(inst) => Some(inst),
            _ => None,
        }
    }

    /// The integer that it is, with its sign, if it is a constant.
    pub fn integer(&self, value: Value) -> Option<i64> {
        match self.def(value) {
            Def::Integer(n) => Some(n),
            _ => None,
        }
    }

    /// The float that it is, if it is a constant.
    pub fn float(&self, value: Value) -> Option<f64> {
        match self.def(value) {
            Def::Float(bits) => Some(f64::from_bits(bits)),
            _ => None,
        }
    }

    /// The word whose float it is, if it was made of one.
    pub fn float_of(&self, value: Value) -> Option<Value> {
        match *self.data(self.made_by(value)?) {
            Data::Unary { opcode: Opcode::FcvtFromSint, arg } => {
                Some(arg).filter(|&arg| self.ty(arg) == Type::I64)
            }
            _ => None,
        }
    }

    /// What a value is the sum of, and a constant.
    pub fn sum(&self, value: Value) -> Option<(Value, i64)> {
        match *self.data(self.made_by(value)?) {
            Data::Binary { opcode: Opcode::Iadd, args: [a, b] } => {
                self.integer(b).map(|n| (a, n)).or_else(|| self.integer(a).map(|n| (b, n)))
            }
            _ => None,
        }
    }

    /// Whether an instruction may have this operand in itself: what is in memory, a constant, or the sum of an
    /// address.
    pub fn may_be_operand_in_place(&self, value: Value) -> bool {
        match self.def(value) {
            Def::Integer(_) => true,
            Def::Inst(inst) => matches!(self.data(inst).opcode(), Opcode::Load | Opcode::Iadd),
            _ => false,
        }
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = Value> + use<> {
        (0..self.types.len() as u32).map(Value)
    }

    // -- Instructions ---------------------------------------------------------------------------------------

    /// How many instructions and integers it has.
    pub fn size(&self) -> usize {
        self.insts.len() + self.integers.len()
    }

    pub(crate) fn data(&self, inst: Inst) -> &Data {
        &self.insts[inst.index()].data
    }

    /// What an instruction makes.
    pub(crate) fn results(&self, inst: Inst) -> impl ExactSizeIterator<Item = Value> + use<> {
        let node = &self.insts[inst.index()];
        (node.result..node.result + node.results).map(Value)
    }

    /// The first thing that it makes.
    pub(crate) fn result(&self, inst: Inst) -> Option<Value> {
        let node = &self.insts[inst.index()];
        (node.results > 0).then_some(Value(node.result))
    }

    /// The number that the builder has been given for it.
    pub(crate) fn place(&self, inst: Inst) -> Option<u32> {
        Some(self.insts[inst.index()].place).filter(|&place| place != NONE)
    }

    /// The values of a list.
    pub(crate) fn list(&self, list: List) -> &[Value] {
        &self.pool[list.start as usize..][..list.len as usize]
    }

    /// What an instruction reads, but for what it passes to blocks.
    pub(crate) fn args<'a>(&'a self, data: &'a Data) -> &'a [Value] {
        match data {
            Data::Load { arg, .. } | Data::Unary { arg, .. } | Data::Branch { arg, .. } => {
                std::slice::from_ref(arg)
            }
            Data::Store { args, .. }
            | Data::Binary { args, .. }
            | Data::CompareInts { args, .. }
            | Data::CompareFloats { args, .. } => args,
            Data::Select { args } => args,
            Data::Call { args, .. } | Data::Depart { args } | Data::Return { args } => self.list(*args),
            Data::Jump { .. } | Data::Trap => &[],
        }
    }

    pub(crate) fn signature_of(&self, sig: Sig) -> &Signature {
        &self.signatures[sig.index()]
    }

    /// How many bytes each slot has.
    pub(crate) fn slots(&self) -> &[u32] {
        &self.slots
    }

    // -- Blocks ---------------------------------------------------------------------------------------------

    pub(crate) fn num_blocks(&self) -> usize {
        self.block_count
    }

    pub(crate) fn num_values(&self) -> usize {
        self.types.len()
    }

    /// Where the function begins.
    pub(crate) fn entry(&self) -> Block {
        *self.order.first().expect("a function that has begun")
    }

    /// Blocks that have instructions, in the order in which they have got the first one.
    pub(crate) fn blocks(&self) -> &[Block] {
        &self.order
    }

    /// Whether a block is hardly ever run.
    pub fn is_cold(&self, block: Block) -> bool {
        self.blocks[block.index()].is_cold
    }

    pub(crate) fn params(&self, block: Block) -> &[Param] {
        &self.blocks[block.index()].params
    }

    pub(crate) fn block_insts(&self, block: Block) -> impl Iterator<Item = Inst> + '_ {
        let next = |inst: u32| (inst != NONE).then_some(Inst(inst));
        std::iter::successors(next(self.blocks[block.index()].first), move |inst| {
            next(self.insts[inst.index()].next)
        })
    }

    pub(crate) fn first_inst(&self, block: Block) -> Inst {
        assert!(self.blocks[block.index()].first != NONE, "a block has instructions");
        Inst(self.blocks[block.index()].first)
    }

    pub(crate) fn last_inst(&self, block: Block) -> Inst {
        assert!(self.blocks[block.index()].has_ended, "a block ends");
        Inst(self.blocks[block.index()].last)
    }

    /// Where an instruction goes on.
    pub(crate) fn edges(&self, inst: Inst) -> &[Edge] {
        match self.data(inst) {
            Data::Jump { way } => std::slice::from_ref(way),
            Data::Branch { ways, .. } => ways,
            _ => &[],
        }
    }

    /// The block that a way leads to.
    pub(crate) fn leads_to(&self, edge: Edge) -> Block {
        self.edges[edge.index()].to
    }

    /// What the parameters of the block to which it leads get on this way.
    pub(crate) fn passed(&self, edge: Edge) -> impl Iterator<Item = Value> + '_ {
        let of = self.edges[edge.index()];
        self.params(of.to).iter().enumerate().map(move |(n, param)| match param.gets {
            Some(start) => self.pool[(start + of.nth) as usize],
            None => self.list(of.passed)[n],
        })
    }
}

#[cfg(test)]
mod tests;
