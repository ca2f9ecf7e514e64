//! Functions are changed by those who make one smaller that is compiled wrongly, and by tests of the verifier.
//!
//! Which ways lead to a block is not kept: only the builder asks that.

use super::{Block, Data, Def, Function, Inst, List, NONE, Type, Value};

/// Changes a function that has been built. It need not make sense then: [`Function::verify`] says whether it
/// does.
impl Function {
    /// Puts these blocks first, in this order.
    pub(crate) fn set_order(&mut self, first: &[Block]) {
        let rest = self.order.iter().copied().filter(|block| !first.contains(block));
        self.order = first.iter().copied().chain(rest).collect();
    }

    /// An integer or a float of these bits.
    pub(crate) fn constant(&mut self, ty: Type, bits: i64) -> Value {
        let def = match ty {
            Type::F64 => Def::Float(bits as u64),
            ty => Def::Integer(ty.signed(bits)),
        };
        let there = self.values().find(|&value| self.defs[value.index()] == def && self.ty(value) == ty);
        there.unwrap_or_else(|| {
            self.types.push(ty);
            self.defs.push(def);
            Value(self.types.len() as u32 - 1)
        })
    }

    /// All who use a value use another one instead.
    pub(crate) fn replace(&mut self, value: Value, by: Value) {
        let (value, by) = (self.resolve(value), self.resolve(by));
        if value != by {
            self.defs[value.index()] = Def::Same(by);
        }
    }

    /// The instruction becomes this.
    pub(crate) fn set_data(&mut self, inst: Inst, data: Data) {
        self.insts[inst.index()].data = data;
    }

    /// The block in which an instruction stands.
    pub(crate) fn block_of(&self, inst: Inst) -> Option<Block> {
        self.order.iter().copied().find(|&block| self.block_insts(block).any(|other| other == inst))
    }

    /// The block has these instructions. It ends with the last of them if that says where it goes on.
    pub(crate) fn set_insts(&mut self, block: Block, all: &[Inst]) {
        for (n, inst) in all.iter().enumerate() {
            self.insts[inst.index()].next = all.get(n + 1).map_or(NONE, |next| next.0);
        }
        let ends = all.last().is_some_and(|&last| self.data(last).opcode().is_terminator());
        let of = &mut self.blocks[block.index()];
        of.first = all.first().map_or(NONE, |inst| inst.0);
        of.last = all.last().map_or(NONE, |inst| inst.0);
        of.has_ended = ends;
    }

    /// Takes out an instruction, whose results nobody may use any more.
    pub(crate) fn remove_inst(&mut self, inst: Inst) {
        let block = self.block_of(inst).expect("an instruction of a block");
        let rest: Vec<Inst> = self.block_insts(block).filter(|&other| other != inst).collect();
        self.set_insts(block, &rest);
    }

    /// Takes out a block, to which nothing may lead any more.
    pub(crate) fn remove_block(&mut self, block: Block) {
        self.set_insts(block, &[]);
        self.order.retain(|&other| other != block);
    }

    /// Takes out parameter `n` of a block, and what it gets.
    pub(crate) fn remove_param(&mut self, block: Block, n: usize) {
        let param = self.blocks[block.index()].params.remove(n);
        if param.gets.is_some() {
            return;
        }
        for edge in (0..self.edges.len()).filter(|&edge| self.edges[edge].to == block).collect::<Vec<_>>() {
            let mut passed = self.list(self.edges[edge].passed).to_vec();
            passed.remove(n);
            self.edges[edge].passed = self.add_list(&passed);
        }
    }

    fn add_list(&mut self, values: &[Value]) -> List {
        let start = self.pool.len() as u32;
        self.pool.extend_from_slice(values);
        List { start, len: values.len() as u32 }
    }

    /// The block that this jump leads to, by it alone, becomes part of the one that ends with it.
    pub(crate) fn merge(&mut self, jump: Inst) {
        let Data::Jump { way } = *self.data(jump) else { panic!("a jump") };
        let (block, to) = (self.block_of(jump).expect("a jump of a block"), self.leads_to(way));
        let passed: Vec<Value> = self.passed(way).collect();
        for (param, value) in std::mem::take(&mut self.blocks[to.index()].params).into_iter().zip(passed) {
            self.replace(param.value, value);
        }
        let own = self.block_insts(block).filter(|&inst| inst != jump);
        let all: Vec<Inst> = own.chain(self.block_insts(to)).collect();
        self.remove_block(to);
        self.set_insts(block, &all);
    }
}
