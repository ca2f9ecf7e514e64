//! What instructions do with registers, constants and control: the reading of what [`Op`]'s table declares.
//!
//! Each opcode lists its operands once, in `bytecode.rs`: a field of the instruction and what it stands for
//! ([`Kind`]). The verifier, the listing, the names in messages, hooks, the sampler and whoever generates
//! code ask here and keep no list of opcodes of their own.
//!
//! # How to read a declaration
//! In the order of time: an instruction reads what it uses, then what it clobbers holds nothing any more,
//! then it writes what it defines. What a conditional definition writes is written only on that way out.
//!
//! Registers that no operand names are left alone, with two exceptions that any instruction with
//! [`Effects::CALLS`], `COLLECTS` or `POLLS` has, because other code may run in it: a register that an open
//! upvalue refers to may be assigned by a function that has the upvalue, and any register by
//! `debug.setlocal`. A register used as a string key may get the string's twin, an equal string, in place of
//! it.
//!
//! *Clobbered* are registers where a callee's frame or a gathering of values lies, and those that a
//! collection after the instruction may set to nil.

use crate::bytecode::{Format, Instr, NO_IC, Op, RK_CONST};

/// A field of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Field {
    A,
    B,
    C,
    D,
    /// `c` and `d` as one signed number.
    Sj,
    /// `c` and `d` as one unsigned number.
    Bx,
}

/// How many registers a range has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// So many.
    Exact(u8),
    /// The field's value, less so many.
    Of(Field, u8),
    /// The field's value, and so many more.
    More(Field, u8),
    /// The field's value, less so many; if the field is 0, all up to the top.
    Open(Field, u8),
    /// All up to the top.
    Top,
}

/// What an operand is. Numbers are distances from the register that the field names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The register is read.
    Use,
    /// The register so far above is read.
    UseAt(u8),
    /// The registers from so far above on are read.
    Uses(u8, Count),
    /// The register is written.
    Def,
    /// The register so far above is written.
    DefAt(u8),
    /// The registers from so far above on are written.
    Defs(u8, Count),
    /// The register so far above is written if the instruction jumps.
    DefIfJumps(u8),
    /// The register so far above is written if the instruction does not jump.
    DefIfStays(u8),
    /// All registers from so far above on are clobbered.
    Clobber(u8),
    /// The register so far above holds the machine's own afterwards, which no other instruction may see.
    Hide(u8),
    /// The state of the loop, from so far above on, may move on, as it will in the instruction behind this
    /// one.
    Steps(u8),
    /// So many registers, from the field's on, have to exist, for whatever the instruction does there.
    Room(u8),
    /// The values from the register to the top move up by as many registers as the field says.
    Lift(Field),
    /// The variable so far above is marked to be closed.
    Mark(u8),
    /// Variables from the register on are closed.
    Close,
    /// Any constant.
    Constant,
    /// A constant that is a string.
    Name,
    /// A constant that is a number.
    Number,
    /// A register that is read, or a constant ([`RK_CONST`]).
    RK,
    /// An upvalue whose variable is read.
    Upvalue,
    /// An upvalue whose variable is written.
    SetUpvalue,
    /// A nested prototype, of which a function is made; it captures the variables that the prototype names.
    Proto,
    /// A template of fields, and 1; 0: none.
    Template,
    /// A field of the template.
    Slot,
    /// An inline cache ([`NO_IC`]: none).
    Cache,
    /// The number of parameters; arguments are found by the top.
    Params,
    /// An unsigned number.
    Int,
    /// A signed number, of 16 bits unless the field is `sj`.
    Signed,
    /// A choice: at most this.
    Choice(u8),
    /// A jump that goes forward.
    Forward,
    /// A jump that goes backward.
    Backward,
}

/// An operand: a field, and what it stands for. A field can have several, of which the first is what it is in
/// a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// The field.
    pub field: Field,
    /// What it stands for.
    pub kind: Kind,
}

/// What may happen in an instruction besides what its operands say, as a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effects(pub u8);

impl Effects {
    /// Nothing.
    pub const NONE: Effects = Effects(0);
    /// It may raise an error.
    pub const RAISES: Effects = Effects(1);
    /// The stack may move.
    pub const GROWS: Effects = Effects(2);
    /// It is a safepoint: a collection may happen, after which finalisers run.
    pub const COLLECTS: Effects = Effects(4 | 2 | 1);
    /// It acts on the interrupt flag: anything may run, or the program end.
    pub const POLLS: Effects = Effects(8 | 4 | 2 | 1);
    /// It may call a function: a metamethod, or what it is for.
    pub const CALLS: Effects = Effects(16 | 4 | 2 | 1);

    /// Both together.
    pub const fn and(self, other: Effects) -> Effects {
        Effects(self.0 | other.0)
    }
    /// Whether all of these may happen.
    pub const fn has(self, other: Effects) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Where control goes if the instruction does not jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// On to the next instruction.
    Next,
    /// Past the next instruction.
    Skips,
    /// Nowhere: the instruction jumps always, or leaves the function.
    Ends,
}

impl Field {
    /// Its value, as an unsigned number.
    pub const fn of(self, i: Instr) -> u32 {
        match self {
            Field::A => i.a() as u32,
            Field::B => i.b() as u32,
            Field::C => i.c() as u32,
            Field::D => i.d() as u32,
            Field::Sj | Field::Bx => i.bx(),
        }
    }
}

/// Registers from `first` on: so many, or all up to the top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first register.
    pub first: usize,
    /// How many; `None`: up to the top.
    pub count: Option<usize>,
}

impl Span {
    fn new(first: usize, count: Count, i: Instr) -> Span {
        let count = match count {
            Count::Exact(n) => Some(n as usize),
            Count::Of(field, less) => Some((field.of(i) as usize).saturating_sub(less as usize)),
            Count::More(field, more) => Some(field.of(i) as usize + more as usize),
            Count::Open(field, less) => match field.of(i) as usize {
                0 => None,
                n => Some(n.saturating_sub(less as usize)),
            },
            Count::Top => None,
        };
        Span { first, count }
    }
}

impl Operand {
    fn register(self, i: Instr, distance: u8) -> usize {
        self.field.of(i) as usize + distance as usize
    }

    /// The registers that it reads.
    pub fn reads(self, i: Instr) -> Option<Span> {
        let one = |distance| Some(Span { first: self.register(i, distance), count: Some(1) });
        match self.kind {
            Kind::Use => one(0),
            Kind::UseAt(n) | Kind::Mark(n) => one(n),
            Kind::RK if self.field.of(i) as u16 & RK_CONST == 0 => one(0),
            Kind::Uses(n, count) => Some(Span::new(self.register(i, n), count, i)),
            Kind::Lift(_) => Some(Span { first: self.register(i, 0), count: None }),
            _ => None,
        }
    }

    /// The registers that it writes, if only on one of the ways out.
    pub fn writes(self, i: Instr) -> Option<Span> {
        let one = |distance| Some(Span { first: self.register(i, distance), count: Some(1) });
        match self.kind {
            Kind::Def => one(0),
            Kind::DefAt(n) | Kind::DefIfJumps(n) | Kind::DefIfStays(n) | Kind::Hide(n) => one(n),
            Kind::Defs(n, count) => Some(Span::new(self.register(i, n), count, i)),
            Kind::Lift(by) => Some(Span { first: self.register(i, 0) + by.of(i) as usize, count: None }),
            _ => None,
        }
    }

    /// The first register that it clobbers, with all above.
    pub fn clobbers(self, i: Instr) -> Option<usize> {
        match self.kind {
            Kind::Clobber(n) => Some(self.register(i, n)),
            Kind::Lift(_) => Some(self.register(i, 0)),
            _ => None,
        }
    }
}

/// By opcode.
static FORMATS: [Format; Op::ALL.len()] = {
    let mut formats = [Format::Abcd; Op::ALL.len()];
    let mut n = 0;
    while n < formats.len() {
        formats[n] = Op::ALL[n].declared_format();
        n += 1;
    }
    formats
};

impl Op {
    /// How the fields are laid out.
    #[inline]
    pub fn format(self) -> Format {
        FORMATS[self as usize]
    }

    /// [`Op::format`], found in the declaration.
    pub(crate) const fn declared_format(self) -> Format {
        let operands = self.operands();
        let mut n = 0;
        let mut format = Format::Abcd;
        while n < operands.len() {
            match operands[n].kind {
                Kind::Forward | Kind::Backward => format = Format::Jump,
                _ => {
                    if matches!(operands[n].field, Field::Sj | Field::Bx) {
                        format = Format::Wide;
                    }
                }
            }
            n += 1;
        }
        format
    }

    /// The inline cache's field, if it has one.
    pub fn has_cache(self) -> bool {
        self.operands().iter().any(|o| o.kind == Kind::Cache)
    }

    /// Does it prepare a loop, whose body follows?
    pub const fn prepares_loop(self) -> bool {
        matches!(self, Op::ForPrep | Op::TForPrep)
    }
}

impl Instr {
    /// The operands; none if the opcode is none.
    pub fn operands(self) -> &'static [Operand] {
        self.op().map_or(&[], Op::operands)
    }

    /// The distance that it jumps if it jumps.
    pub fn jump(self) -> Option<i32> {
        (self.op()?.format() == Format::Jump).then(|| self.sj())
    }

    /// Does it take what lies between its registers and the top?
    pub fn uses_top(self) -> bool {
        self.open_use().is_some() || self.operands().iter().any(|o| o.kind == Kind::Params)
    }

    /// The lowest register of what it reads up to the top.
    pub fn open_use(self) -> Option<usize> {
        let reads = self.operands().iter().filter_map(|o| o.reads(self));
        reads.filter(|s| s.count.is_none()).map(|s| s.first).min()
    }

    /// The first register of what it writes up to the top, which it sets.
    pub fn open_def(self) -> Option<usize> {
        let writes = self.operands().iter().filter_map(|o| o.writes(self));
        writes.filter(|s| s.count.is_none()).map(|s| s.first).min()
    }

    /// The registers that may hold another value afterwards, or none.
    pub fn changed(self) -> Registers {
        self.operands().iter().fold(Registers::NONE, |changed, o| {
            let written = o.writes(self).map_or(Registers::NONE, |s| match s.count {
                Some(count) => Registers::range(s.first, count),
                None => Registers::from(s.first),
            });
            let steps = match o.kind {
                Kind::Steps(n) => Registers::range(o.register(self, n - 2) + 2, 2),
                _ => Registers::NONE,
            };
            let clobbered = o.clobbers(self).map_or(Registers::NONE, Registers::from);
            changed.or(written).or(steps).or(clobbered)
        })
    }

    /// May `register` hold another value afterwards, or none?
    pub fn changes(self, register: u8) -> bool {
        self.changed().contains(register)
    }

    /// The inline cache that it uses.
    pub fn cache(self) -> Option<u16> {
        (self.op()?.has_cache() && self.d() != NO_IC).then(|| self.d())
    }
}

/// A set of registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers([u64; 4]);

impl Registers {
    /// None.
    pub const NONE: Registers = Registers([0; 4]);

    /// `count` registers from `first` on, as far as there are any.
    pub fn range(first: usize, count: usize) -> Registers {
        let mut set = Registers::NONE;
        for (n, word) in set.0.iter_mut().enumerate() {
            let (low, high) = (first.max(64 * n), first.saturating_add(count).min(64 * (n + 1)));
            if low < high {
                *word = u64::MAX >> (64 - (high - low)) << (low % 64);
            }
        }
        set
    }
    /// All registers from `first` on.
    pub fn from(first: usize) -> Registers {
        Registers::range(first, 256)
    }
    /// The registers so many above these.
    pub fn above(self, by: usize) -> Registers {
        let (words, bits) = (by / 64, by % 64);
        Registers(std::array::from_fn(|n| {
            let word = |n: usize| n.checked_sub(words).map_or(0, |n| self.0[n]);
            let lower = if bits == 0 || n == 0 { 0 } else { word(n - 1) >> (64 - bits) };
            word(n) << bits | lower
        }))
    }
    /// Those of either.
    pub fn or(self, other: Registers) -> Registers {
        Registers(std::array::from_fn(|n| self.0[n] | other.0[n]))
    }
    /// Those of both.
    pub fn and(self, other: Registers) -> Registers {
        Registers(std::array::from_fn(|n| self.0[n] & other.0[n]))
    }
    /// Those that are not of the other.
    pub fn without(self, other: Registers) -> Registers {
        Registers(std::array::from_fn(|n| self.0[n] & !other.0[n]))
    }
    /// None is of both.
    pub fn is_apart(self, other: Registers) -> bool {
        self.and(other).is_empty()
    }
    /// There is none.
    pub fn is_empty(self) -> bool {
        self.0 == [0; 4]
    }
    /// Whether all of the other's are of this.
    pub fn has(self, other: Registers) -> bool {
        other.without(self).is_empty()
    }
    /// Whether it has this one.
    pub fn contains(self, register: u8) -> bool {
        self.0[register as usize / 64] >> (register % 64) & 1 != 0
    }
}

/// A `for` loop: the instructions behind its preparation up to the one that jumps back, and the registers of
/// its state. Within these instructions the state belongs to the loop's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loop {
    /// Where it is prepared: the instruction before the first of the loop.
    pub prepared: usize,
    /// The last instruction of the loop.
    pub last: usize,
    /// The first register of the state.
    pub state: u8,
    /// Whether it counts (the state is three numbers of one type) or iterates (a function, what it is passed,
    /// and what is to be closed).
    pub counts: bool,
}

impl Loop {
    /// The loop that the instruction at `pc` prepares.
    pub fn prepared_at(pc: usize, i: Instr) -> Option<Loop> {
        let op = i.op().filter(|op| op.prepares_loop())?;
        let to = usize::try_from(pc as i64 + 1 + i.sj() as i64).ok()?;
        let last = if op == Op::ForPrep { to.checked_sub(1)? } else { to + 1 };
        Some(Loop { prepared: pc, last, state: i.a(), counts: op == Op::ForPrep })
    }

    /// Whether the instruction at `pc` is one of the loop.
    pub fn contains(&self, pc: usize) -> bool {
        self.prepared < pc && pc <= self.last
    }

    /// The registers of its state.
    pub fn registers(&self) -> Registers {
        Registers::range(self.state as usize, if self.counts { 3 } else { 4 })
    }

    /// The loops of a function's code, by their preparation.
    pub fn all(code: &[Instr]) -> impl Iterator<Item = Loop> + '_ {
        code.iter().enumerate().filter_map(|(pc, &i)| Loop::prepared_at(pc, i))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_registers() {
        let s = Registers::range(60, 10);
        assert!(!s.contains(59) && s.contains(60) && s.contains(64) && s.contains(69) && !s.contains(70));
        assert_eq!(Registers::range(7, 0), Registers::NONE);
        assert_eq!(Registers::from(0).without(Registers::from(3)), Registers::range(0, 3));
        assert!(Registers::from(250).contains(255) && Registers::from(0).has(s));
        assert_eq!(s.above(0), s);
        assert_eq!(s.above(5), Registers::range(65, 10));
        assert_eq!(s.above(64), Registers::range(124, 10));
        assert_eq!(s.above(130), Registers::range(190, 10));
        assert_eq!(Registers::from(0).above(200), Registers::from(200));
        assert!(s.is_apart(Registers::range(0, 60)) && !s.is_apart(Registers::range(69, 200)));
    }

    /// A field is one thing in a listing, and every field that an opcode's operands speak of is listed.
    #[test]
    fn declarations_are_well_formed() {
        for &op in Op::ALL {
            let operands = op.operands();
            for (n, o) in operands.iter().enumerate() {
                let counts = match o.kind {
                    Kind::Uses(_, Count::Of(f, _) | Count::Open(f, _)) => Some(f),
                    Kind::Defs(_, Count::Of(f, _) | Count::More(f, _) | Count::Open(f, _)) => Some(f),
                    Kind::Lift(f) => Some(f),
                    _ => None,
                };
                let listed = |f: Field| operands.iter().any(|o| o.field == f);
                assert!(counts.is_none_or(listed), "{op:?}");
                let wide = matches!(o.field, Field::Sj | Field::Bx);
                let jumps = matches!(o.kind, Kind::Forward | Kind::Backward);
                assert!(!jumps || o.field == Field::Sj, "{op:?}: operand {n}");
                assert!(!wide || op.format() != Format::Abcd, "{op:?}: operand {n}");
            }
            let ways = operands.iter().any(|o| matches!(o.kind, Kind::DefIfJumps(_) | Kind::DefIfStays(_)));
            assert!(!ways || op.format() == Format::Jump, "{op:?} has one way out");
        }
    }
}
