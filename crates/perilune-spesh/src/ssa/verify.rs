//! Whether a function makes sense: each block ends once, operands have the types that instructions ask for,
//! what is passed fits the parameters, and each value is made before it is used, wherever that is.

use super::{Block, Convention, Data, Def, Edge, Function, Inst, NONE, Opcode, Signature, Type, Value};
use std::fmt;

/// What is wrong with a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid(String);

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Invalid {}

/// Looks at the function.
impl Function {
    pub(crate) fn verify(&self) -> Result<(), Invalid> {
        let mut verifier = Verifier { func: self, above: vec![NONE; self.num_blocks()], stands: Vec::new() };
        verifier.stands = vec![(NONE, 0); self.insts.len()];
        for &block in self.blocks() {
            verifier.ends(block)?;
        }
        verifier.find_dominators();
        for &block in self.blocks() {
            verifier.block(block)?;
        }
        Ok(())
    }
}

struct Verifier<'f> {
    func: &'f Function,
    /// The block through which all ways to a block lead, by block: the last of these; [`NONE`]: none leads there.
    above: Vec<u32>,
    /// In which block an instruction stands, and at which place of it.
    stands: Vec<(u32, u32)>,
}

impl Verifier<'_> {
    fn wrong<T>(&self, block: Block, inst: Option<Inst>, what: &str) -> Result<T, Invalid> {
        let at = inst.map_or(String::new(), |inst| format!(" ({})", self.func.shown(inst)));
        Err(Invalid(format!("{block}: {what}{at}")))
    }

    /// A block is sealed, ends with an instruction that says where it goes on, and has no other.
    fn ends(&mut self, block: Block) -> Result<(), Invalid> {
        let (func, mut last) = (self.func, None);
        if !func.blocks[block.index()].is_sealed {
            return self.wrong(block, None, "it is not sealed");
        }
        for (n, inst) in func.block_insts(block).enumerate() {
            if last.is_some_and(|last| func.data(last).opcode().is_terminator()) {
                return self.wrong(block, last, "it ends, and goes on");
            }
            self.stands[inst.index()] = (block.0, n as u32);
            last = Some(inst);
        }
        match last {
            Some(last) if func.data(last).opcode().is_terminator() => {}
            _ => return self.wrong(block, last, "it does not end"),
        }
        let last = last.expect("just seen");
        for &way in func.edges(last) {
            let to = func.leads_to(way);
            if !func.blocks().contains(&to) {
                return self.wrong(block, Some(last), "it leads to a block without instructions");
            }
            if to == func.entry() {
                return self.wrong(block, Some(last), "it leads to where the function begins");
            }
        }
        Ok(())
    }

    fn leads_to(&self, block: Block) -> impl Iterator<Item = Block> + '_ {
        self.func.edges(self.func.last_inst(block)).iter().map(|&way| self.func.leads_to(way))
    }

    /// Cooper, Harvey, Kennedy: *A Simple, Fast Dominance Algorithm*, 2001.
    fn find_dominators(&mut self) {
        let entry = self.func.entry();
        // Blocks that can be reached, each behind those that it leads to but for ways back.
        let (mut seen, mut behind) = (vec![false; self.func.num_blocks()], Vec::new());
        let mut open = vec![(entry, self.leads_to(entry).collect::<Vec<_>>())];
        seen[entry.index()] = true;
        while let Some((block, to)) = open.last_mut() {
            match to.pop() {
                Some(next) if !std::mem::replace(&mut seen[next.index()], true) => {
                    open.push((next, self.leads_to(next).collect()));
                }
                Some(_) => {}
                None => {
                    behind.push(*block);
                    open.pop();
                }
            }
        }
        let mut order = vec![0; self.func.num_blocks()];
        behind.iter().enumerate().for_each(|(n, block)| order[block.index()] = n);
        self.above[entry.index()] = entry.0;
        loop {
            let mut changed = false;
            for &block in behind.iter().rev() {
                for to in self.leads_to(block).collect::<Vec<_>>() {
                    if to == entry {
                        continue;
                    }
                    let (mut a, mut b) = (block.index(), self.above[to.index()] as usize);
                    if b != NONE as usize {
                        while a != b {
                            match order[a] < order[b] {
                                true => a = self.above[a] as usize,
                                false => b = self.above[b] as usize,
                            }
                        }
                    }
                    changed |= self.above[to.index()] != a as u32;
                    self.above[to.index()] = a as u32;
                }
            }
            if !changed {
                break;
            }
        }
    }

    /// Whether a value is there at a place of a block.
    fn is_there(&self, value: Value, block: Block, at: u32) -> bool {
        // Where nobody comes anything may be used.
        if self.above[block.index()] == NONE {
            return true;
        }
        let made_in = match self.func.def(value) {
            Def::Inst(inst) => match self.stands[inst.index()] {
                (home, place) if home == block.0 => return place < at,
                (home, _) => home,
            },
            Def::Param(home) => home.0,
            _ => return true,
        };
        let mut block = block.0;
        loop {
            if block == made_in {
                return true;
            }
            match self.above[block as usize] {
                above if above == block => return false,
                above => block = above,
            }
        }
    }

    fn block(&self, block: Block) -> Result<(), Invalid> {
        let func = self.func;
        for (n, inst) in func.block_insts(block).enumerate() {
            let is_late = |value: &&Value| !self.is_there(**value, block, n as u32);
            if let Some(value) = func.args(func.data(inst)).iter().find(is_late) {
                return self.wrong(block, Some(inst), &format!("{value} is not there"));
            }
            if let Err(what) = self.types(inst) {
                return self.wrong(block, Some(inst), what);
            }
            for &way in func.edges(inst) {
                self.way(block, inst, way, n as u32)?;
            }
        }
        Ok(())
    }

    fn way(&self, block: Block, inst: Inst, way: Edge, at: u32) -> Result<(), Invalid> {
        let func = self.func;
        let to = func.params(func.leads_to(way));
        let given = to.iter().filter(|param| param.gets.is_none()).count();
        if given != func.edges[way.index()].passed.len() {
            return self.wrong(block, Some(inst), "it passes as many values as there are no parameters");
        }
        for (param, value) in to.iter().zip(func.passed(way)) {
            if func.ty(param.value) != func.ty(value) {
                return self.wrong(block, Some(inst), &format!("{} is of another type", param.value));
            }
            if !self.is_there(value, block, at) {
                return self.wrong(block, Some(inst), &format!("{value} is not there"));
            }
        }
        Ok(())
    }

    /// Whether operands and results are what the instruction asks for.
    fn types(&self, inst: Inst) -> Result<(), &'static str> {
        let func = self.func;
        let data = func.data(inst);
        let args: Vec<Type> = func.args(data).iter().map(|&value| func.ty(value)).collect();
        let result = func.result(inst).map(|value| func.ty(value));
        let word = |n: usize| args[n] == Type::I64;
        let is_right = match *data {
            Data::Load { .. } => word(0),
            Data::Store { .. } => word(1),
            Data::Unary { opcode, .. } => unary(opcode, args[0], result.ok_or("it makes nothing")?),
            Data::Binary { opcode, .. } => result == Some(args[0]) && binary(opcode, args[0], args[1]),
            Data::Select { .. } => args[0].is_int() && args[1] == args[2] && result == Some(args[1]),
            Data::CompareInts { .. } => args[0].is_int() && args[0] == args[1],
            Data::CompareFloats { .. } => args[0].is_float() && args[0] == args[1],
            Data::Call { opcode, sig, .. } => return self.call(inst, opcode, func.signature_of(sig), &args),
            Data::Depart { args: list } => {
                let list = func.list(list);
                let constant = |value: Value| func.integer(value).is_some();
                let pairs = list.get(2..).unwrap_or_default();
                func.signature.convention == Convention::Machine
                    && list.len() >= 2
                    && list.len().is_multiple_of(2)
                    && constant(list[0])
                    && word(1)
                    && pairs.chunks(2).all(|pair| constant(pair[0]))
            }
            Data::Branch { .. } => args[0].is_int(),
            Data::Return { .. } => args == func.signature.returns,
            Data::Jump { .. } | Data::Trap => true,
        };
        if is_right { Ok(()) } else { Err("operands are of other types") }
    }

    fn call(&self, inst: Inst, opcode: Opcode, sig: &Signature, args: &[Type]) -> Result<(), &'static str> {
        if args[0] != Type::I64 || args[1..] != sig.params {
            return Err("the callee gets something else");
        }
        if sig.convention == Convention::Preserving && !sig.returns.is_empty() {
            return Err("what changes no register gives nothing back");
        }
        let args = self.func.args(self.func.data(inst));
        let first = self.func.params(self.func.entry()).first().map(|param| param.value);
        let keeps = self.func.signature.convention == Convention::Machine;
        let passes_it = args.get(1).map(|&value| self.func.resolve(value)) == first && keeps;
        if sig.convention == Convention::Machine && !passes_it {
            return Err("who keeps a value for good keeps the caller's");
        }
        if opcode == Opcode::ReturnCallIndirect && sig.returns != self.func.signature.returns {
            return Err("who takes its place gives something else back");
        }
        Ok(())
    }
}

fn unary(opcode: Opcode, from: Type, to: Type) -> bool {
    use Opcode::*;
    match opcode {
        Bnot | Ineg => from.is_int() && from == to,
        Uextend | Sextend => from.is_int() && to.is_int() && from.bits() < to.bits(),
        Ireduce => from.is_int() && to.is_int() && from.bits() > to.bits(),
        Fneg | Fabs | Sqrt | Floor | Ceil => from.is_float() && to.is_float(),
        FcvtFromSint => matches!(from, Type::I32 | Type::I64) && to.is_float(),
        FcvtToSint => from.is_float() && to == Type::I64,
        Bitcast => matches!((from, to), (Type::I64, Type::F64) | (Type::F64, Type::I64)),
        Fpromote => from == Type::I32 && to.is_float(),
        Fdemote => from.is_float() && to == Type::I32,
        _ => false,
    }
}

fn binary(opcode: Opcode, a: Type, b: Type) -> bool {
    use Opcode::*;
    let is_wide = matches!(a, Type::I32 | Type::I64);
    match opcode {
        Iadd | Isub | Band | Bor | Bxor => a.is_int() && a == b,
        Imul | Udiv | Urem => is_wide && a == b,
        Umulhi | FloorDiv | FloorMod => a == Type::I64 && a == b,
        Ishl | Ushr | Sshr => is_wide && b.is_int(),
        Fadd | Fsub | Fmul | Fdiv => a.is_float() && a == b,
        _ => false,
    }
}
