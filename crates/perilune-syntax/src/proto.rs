//! Function prototypes: what the compiler produces and every domain may read.
//!
//! A [`Proto`] is immutable and holds no pointer into any heap, so it can be shared by all domains behind an
//! `Arc`. What a domain needs of its own (constants as local values, inline caches) is made when the
//! prototype is first instantiated there.

use crate::bytecode::Instr;
use crate::lines::Lines;
use crate::mentions::LazyMentions;
use crate::text::Text;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// A constant of a prototype.
#[derive(Clone, Debug, PartialEq)]
pub enum Constant {
    /// `nil`
    Nil,
    /// `true` or `false`
    Boolean(bool),
    /// An integer
    Integer(i64),
    /// A float; never NaN when the compiler made it (folding keeps NaN and -0.0 out)
    Float(f64),
    /// A string of any bytes
    String(Text),
}

/// Where a closure finds an upvalue when it is created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpvalueDesc {
    /// The variable's name; `None` when debug information was stripped.
    pub name: Option<Text>,
    /// True: register `index` of the enclosing function; false: upvalue `index` of the enclosing function.
    pub in_stack: bool,
    /// See `in_stack`.
    pub index: u8,
    /// What the variable is; what crosses a domain and what the specialiser may fold depends on it.
    pub kind: VarKind,
    /// Line of its declaration; 0 when debug information was stripped.
    pub line: u32,
    /// Line of an assignment, if there is any: the one that makes it [`VarKind::Mutable`] or
    /// [`VarKind::Late`]; 0 if there is none, or when stripped.
    pub assigned_line: u32,
}

/// What the compiler knows of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VarKind {
    /// Assigned somewhere after its declaration.
    Mutable,
    /// Never assigned after its declaration (declared `<const>` or simply not assigned).
    Unassigned,
    /// Declared `<close>`.
    Close,
    /// Declared without a value and assigned in one place of the text, by the function that declares it and
    /// once at most: nil, then something, then never anything else (`local f; function f() ... end`).
    Late,
    /// Assigned by the function that declares it only, and never again once the closure over it is there:
    /// every assignment stands before the function expression, and no loop or label inside the variable's
    /// scope encloses both (`n = n or 5`).
    Settled,
}

/// A local variable, for messages and `debug.getlocal`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalVar {
    /// Its name; internal ones are written in parentheses, as "(for state)".
    pub name: Text,
    /// First instruction at which it is active.
    pub start_pc: u32,
    /// First instruction at which it is dead.
    pub end_pc: u32,
    /// Its register.
    pub register: u8,
}

/// A function prototype. Two sentences of it are promises: `code` ends in a return, and every index in `code`
/// is in range (the compiler makes it so; binary chunks are verified when loaded).
#[derive(Debug, PartialEq)]
pub struct Proto {
    /// The instructions.
    pub code: Box<[Instr]>,
    /// The constants, `K`.
    pub constants: Box<[Constant]>,
    /// Templates of record constructors: for each, the constants (strings, distinct) that are its fields, in
    /// slot order.
    pub templates: Box<[Box<[u32]>]>,
    /// The prototypes of the functions inside.
    pub protos: Box<[Arc<Proto>]>,
    /// The upvalues, `U`.
    pub upvalues: Box<[UpvalueDesc]>,
    /// Number of fixed parameters.
    pub num_params: u8,
    /// Takes extra arguments.
    pub is_vararg: bool,
    /// Registers needed, at least 2, at most `MAX_REGISTERS`.
    pub max_stack: u8,
    /// Number of inline caches, at most 65535.
    pub ic_count: u16,
    /// Line of each instruction (same length as `code`; empty when stripped).
    pub lines: Lines,
    /// Local variables in the order of their declaration (empty when stripped).
    pub locals: Box<[LocalVar]>,
    /// The chunk's name as given to `load`, with its `=` or `@` (`=?` when stripped).
    pub source: Arc<[u8]>,
    /// First line of the function; 0 for a main chunk.
    pub line_defined: u32,
    /// Last line of the function; 0 for a main chunk.
    pub last_line_defined: u32,
    /// What it says about names, found out when first asked for.
    pub mentions: LazyMentions,
    /// Since when it has been there.
    pub born: Born,
}

/// When something came into being, in nanoseconds since the first of its kind did. That is no part of what it
/// is: all are equal.
#[derive(Clone, Copy, Debug)]
pub struct Born(u64);

/// When the first one did.
static FIRST: OnceLock<Instant> = OnceLock::new();

impl Default for Born {
    fn default() -> Born {
        Born(FIRST.get_or_init(Instant::now).elapsed().as_nanos() as u64)
    }
}

impl PartialEq for Born {
    fn eq(&self, _: &Born) -> bool {
        true
    }
}

impl Born {
    /// With the first of all.
    pub(crate) const FIRST: Born = Born(0);

    /// How long ago, in nanoseconds.
    pub fn age(self) -> u64 {
        Born::default().0.saturating_sub(self.0)
    }
}

impl Proto {
    /// Bytes of malloc'd memory this prototype itself occupies, for the collector's trigger (nested ones not
    /// counted). Always the same, so a name or literal counts for each prototype that shares it.
    pub fn heap_bytes(&self) -> usize {
        size_of::<Proto>()
            + self.code.len() * 8
            + self
                .constants
                .iter()
                .map(|c| size_of::<Constant>() + if let Constant::String(s) = c { s.len() } else { 0 })
                .sum::<usize>()
            + self.templates.iter().map(|t| 16 + t.len() * 4).sum::<usize>()
            + self.protos.len() * 8
            + self.upvalues.len() * size_of::<UpvalueDesc>()
            + self.lines.heap_bytes()
            + self.locals.iter().map(|l| size_of::<LocalVar>() + l.name.len()).sum::<usize>()
    }

    /// The line of the instruction at `pc`, or `None` when stripped.
    pub fn line_at(&self, pc: usize) -> Option<u32> {
        self.lines.get(pc)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each page that they fill is a fault when a program is loaded.
    #[test]
    fn prototypes_stay_small() {
        assert_eq!((size_of::<Constant>(), size_of::<LocalVar>(), size_of::<UpvalueDesc>()), (16, 24, 24));
        assert_eq!(size_of::<Proto>(), 176);
    }
}
