//! Instructions.

use super::{Edge, Sig, Value};

/// What is done. Integers wrap around; of operands that are narrower than a register nothing is said of the
/// other bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Opcode {
    /// The value in memory.
    Load,
    /// Stores a value.
    Store,
    /// Sum.
    Iadd,
    /// Difference.
    Isub,
    /// Product.
    Imul,
    /// The upper half of the product of two words without signs.
    Umulhi,
    /// Quotient of integers without signs. The divisor is not 0.
    Udiv,
    /// Their rest.
    Urem,
    /// Quotient by a divisor above 0, rounded down.
    FloorDiv,
    /// What it leaves, which is not below 0.
    FloorMod,
    /// Bits that are in both.
    Band,
    /// In one of them.
    Bor,
    /// In one alone.
    Bxor,
    /// Shifted towards higher bits, modulo how many bits there are.
    Ishl,
    /// Towards lower ones, with zeros.
    Ushr,
    /// The same, with the sign.
    Sshr,
    /// Sum of floats.
    Fadd,
    /// Difference.
    Fsub,
    /// Product.
    Fmul,
    /// Quotient.
    Fdiv,
    /// All bits are the others.
    Bnot,
    /// Zero less it.
    Ineg,
    /// As an integer of more bits, which are 0.
    Uextend,
    /// As an integer of more bits, with its sign.
    Sextend,
    /// Its lowest bits.
    Ireduce,
    /// The sign is the other, also of what is no number.
    Fneg,
    /// Without its sign.
    Fabs,
    /// Square root.
    Sqrt,
    /// The next integer that is not larger.
    Floor,
    /// The next one that is not less.
    Ceil,
    /// The float that is next to an integer.
    FcvtFromSint,
    /// The integer that a float is without its fraction; the least one if there is none, also for what is no number.
    FcvtToSint,
    /// The same bits as an integer or as a float.
    Bitcast,
    /// The float that the 32 bits of an integer are as a float of 32 bits.
    Fpromote,
    /// The bits, as an integer, of the float of 32 bits that is next to a float.
    Fdemote,
    /// The second operand if the first is not 0, else the third.
    Select,
    /// Compares integers.
    Icmp,
    /// Compares floats.
    Fcmp,
    /// Calls a function by its address.
    CallIndirect,
    /// Ends with a call of the convention of machine code that takes the place of this function on the stack.
    ReturnCallIndirect,
    /// The code is left: nothing follows.
    Depart,
    /// Goes on in a block.
    Jump,
    /// In the first one of two if the condition is not 0, else in the second.
    Brif,
    /// Gives back values.
    Return,
    /// Nobody comes here.
    Trap,
}

impl Opcode {
    /// Whether it writes to memory.
    pub(crate) fn can_store(self) -> bool {
        self == Opcode::Store
    }

    /// Whether anything may happen behind it. (Leaving stores what it is given, but nothing comes behind that.)
    pub(crate) fn is_call(self) -> bool {
        matches!(self, Opcode::CallIndirect | Opcode::ReturnCallIndirect)
    }

    /// Whether a block ends with it.
    pub(crate) fn is_terminator(self) -> bool {
        use Opcode::{Brif, Depart, Jump, Return, ReturnCallIndirect, Trap};
        matches!(self, Brif | Depart | Jump | Return | ReturnCallIndirect | Trap)
    }

    /// Whether it does nothing but make its results.
    pub(crate) fn only_makes_results(self) -> bool {
        !self.can_store() && !self.is_call() && !self.is_terminator()
    }
}

/// How two integers compare.
#[expect(missing_docs, reason = "they are what they say")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IntCC {
    Equal,
    NotEqual,
    SignedLessThan,
    SignedGreaterThanOrEqual,
    SignedGreaterThan,
    SignedLessThanOrEqual,
    UnsignedLessThan,
    UnsignedGreaterThanOrEqual,
    UnsignedGreaterThan,
    UnsignedLessThanOrEqual,
}

impl IntCC {
    /// The condition that holds of two values when this one holds of them the other way round.
    pub fn swap_args(self) -> IntCC {
        use IntCC::*;
        match self {
            Equal | NotEqual => self,
            SignedLessThan => SignedGreaterThan,
            SignedGreaterThan => SignedLessThan,
            SignedLessThanOrEqual => SignedGreaterThanOrEqual,
            SignedGreaterThanOrEqual => SignedLessThanOrEqual,
            UnsignedLessThan => UnsignedGreaterThan,
            UnsignedGreaterThan => UnsignedLessThan,
            UnsignedLessThanOrEqual => UnsignedGreaterThanOrEqual,
            UnsignedGreaterThanOrEqual => UnsignedLessThanOrEqual,
        }
    }

    /// Whether it holds of these.
    pub(crate) fn holds(self, a: i64, b: i64) -> bool {
        let (x, y) = (a as u64, b as u64);
        match self {
            IntCC::Equal => a == b,
            IntCC::NotEqual => a != b,
            IntCC::SignedLessThan => a < b,
            IntCC::SignedGreaterThanOrEqual => a >= b,
            IntCC::SignedGreaterThan => a > b,
            IntCC::SignedLessThanOrEqual => a <= b,
            IntCC::UnsignedLessThan => x < y,
            IntCC::UnsignedGreaterThanOrEqual => x >= y,
            IntCC::UnsignedGreaterThan => x > y,
            IntCC::UnsignedLessThanOrEqual => x <= y,
        }
    }
}

/// How two floats compare. Two of which one is no number are *unordered*; conditions that do not say so do not
/// hold of them, but for [`FloatCC::NotEqual`].
#[expect(missing_docs, reason = "they are what they say")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FloatCC {
    Ordered,
    Unordered,
    Equal,
    NotEqual,
    OrderedNotEqual,
    UnorderedOrEqual,
    LessThan,
    LessThanOrEqual,
    GreaterThan,
    GreaterThanOrEqual,
    UnorderedOrLessThan,
    UnorderedOrLessThanOrEqual,
    UnorderedOrGreaterThan,
    UnorderedOrGreaterThanOrEqual,
}

/// Some values of a function, one behind the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct List {
    pub(super) start: u32,
    pub(super) len: u32,
}

impl List {
    pub(crate) fn len(self) -> usize {
        self.len as usize
    }
}

/// An instruction, and what it reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Data {
    /// So many bytes behind an address.
    Load {
        /// The address.
        arg: Value,
        /// Bytes.
        offset: i32,
    },
    /// [`Opcode::Store`].
    Store {
        /// The value, and the address.
        args: [Value; 2],
        /// Bytes behind that.
        offset: i32,
    },
    /// Of one operand.
    Unary {
        /// What is done.
        opcode: Opcode,
        /// With this.
        arg: Value,
    },
    /// Of two.
    Binary {
        /// What is done.
        opcode: Opcode,
        /// With these.
        args: [Value; 2],
    },
    /// [`Opcode::Select`].
    Select {
        /// The condition, and what is chosen from.
        args: [Value; 3],
    },
    /// [`Opcode::Icmp`].
    CompareInts {
        /// What is asked.
        cond: IntCC,
        /// Of these.
        args: [Value; 2],
    },
    /// [`Opcode::Fcmp`].
    CompareFloats {
        /// What is asked.
        cond: FloatCC,
        /// Of these.
        args: [Value; 2],
    },
    /// [`Opcode::CallIndirect`], [`Opcode::ReturnCallIndirect`].
    Call {
        /// Which of them.
        opcode: Opcode,
        /// How.
        sig: Sig,
        /// The address of the callee, and what it gets.
        args: List,
    },
    /// [`Opcode::Depart`].
    Depart {
        /// The [`perilune_vm::machine::Point`], a constant; the base of the frame; then pairs of where a value is
        /// to be stored, a constant as [`crate::backend::stored_at`] says, and the value.
        args: List,
    },
    /// [`Opcode::Jump`].
    Jump {
        /// Where it goes on.
        way: Edge,
    },
    /// [`Opcode::Brif`].
    Branch {
        /// The condition.
        arg: Value,
        /// Where it goes on if that is not 0, and if it is.
        ways: [Edge; 2],
    },
    /// [`Opcode::Return`].
    Return {
        /// What is given back.
        args: List,
    },
    /// [`Opcode::Trap`].
    Trap,
}

impl Data {
    /// What is done.
    pub fn opcode(&self) -> Opcode {
        match *self {
            Data::Load { .. } => Opcode::Load,
            Data::Store { .. } => Opcode::Store,
            Data::Unary { opcode, .. } | Data::Binary { opcode, .. } | Data::Call { opcode, .. } => opcode,
            Data::Select { .. } => Opcode::Select,
            Data::CompareInts { .. } => Opcode::Icmp,
            Data::CompareFloats { .. } => Opcode::Fcmp,
            Data::Depart { .. } => Opcode::Depart,
            Data::Jump { .. } => Opcode::Jump,
            Data::Branch { .. } => Opcode::Brif,
            Data::Return { .. } => Opcode::Return,
            Data::Trap => Opcode::Trap,
        }
    }
}
