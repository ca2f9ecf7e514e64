//! Functions as text, for those who look for what is wrong.

use super::{Block, Data, Def, Edge, Function, Inst, Value};
use std::fmt::{self, Display, Formatter};

impl Display for Function {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let signature = &self.signature;
        writeln!(f, "{:?} function {:?} -> {:?}", signature.convention, signature.params, signature.returns)?;
        for &block in self.blocks() {
            self.write_head(block, f)?;
            for inst in self.block_insts(block) {
                writeln!(f, "    {}", self.shown(inst))?;
            }
        }
        Ok(())
    }
}

impl Function {
    fn write_head(&self, block: Block, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{block}(")?;
        for (n, param) in self.params(block).iter().enumerate() {
            let comma = if n == 0 { "" } else { ", " };
            write!(f, "{comma}{}: {:?}", param.value, self.ty(param.value))?;
        }
        writeln!(f, "){}:", if self.is_cold(block) { " cold" } else { "" })
    }

    /// An instruction as text.
    pub(crate) fn shown(&self, inst: Inst) -> impl Display + '_ {
        Shown { func: self, inst }
    }

    fn write_value(&self, value: Value, f: &mut Formatter<'_>) -> fmt::Result {
        match self.def(value) {
            Def::Integer(n) => write!(f, "{n}"),
            Def::Float(bits) => write!(f, "{:?}", f64::from_bits(bits)),
            Def::Stack(slot, offset) => write!(f, "{slot}+{offset}"),
            Def::StackPointer => f.write_str("sp"),
            _ => write!(f, "{}", self.resolve(value)),
        }
    }

    fn write_values(&self, values: impl Iterator<Item = Value>, f: &mut Formatter<'_>) -> fmt::Result {
        for (n, value) in values.enumerate() {
            f.write_str(if n == 0 { "" } else { ", " })?;
            self.write_value(value, f)?;
        }
        Ok(())
    }

    fn write_way(&self, way: Edge, f: &mut Formatter<'_>) -> fmt::Result {
        let of = &self.edges[way.index()];
        write!(f, " {}(", of.to)?;
        // There may be more or fewer than there are parameters, which is what is looked for then.
        let read = self.params(of.to).iter().filter_map(|param| param.gets);
        let read = read.filter_map(|start| self.pool.get(start as usize + of.nth as usize));
        self.write_values(self.list(of.passed).iter().chain(read).copied(), f)?;
        f.write_str(")")
    }
}

struct Shown<'a> {
    func: &'a Function,
    inst: Inst,
}

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Shown { func, inst } = *self;
        let data = func.data(inst);
        for (n, result) in func.results(inst).enumerate() {
            write!(f, "{}{result}", if n == 0 { "" } else { ", " })?;
        }
        if func.result(inst).is_some() {
            f.write_str(" = ")?;
        }
        write!(f, "{}", format!("{:?}", data.opcode()).to_lowercase())?;
        match data {
            Data::CompareInts { cond, .. } => write!(f, " {cond:?}")?,
            Data::CompareFloats { cond, .. } => write!(f, " {cond:?}")?,
            Data::Call { sig, .. } => write!(f, " {:?}", func.signature_of(*sig).convention)?,
            _ => {}
        }
        let typed = func.result(inst).or(func.args(data).first().copied());
        if let Some(value) = typed {
            write!(f, " {:?}", func.ty(value))?;
        }
        let args = func.args(data);
        if !args.is_empty() {
            f.write_str(" ")?;
        }
        func.write_values(args.iter().copied(), f)?;
        if let Data::Load { offset, .. } | Data::Store { offset, .. } = data {
            write!(f, " {offset:+}")?;
        }
        func.edges(inst).iter().try_for_each(|&way| func.write_way(way, f))
    }
}
