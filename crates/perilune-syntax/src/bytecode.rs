//! The instruction set: what the compiler emits, the interpreter runs, and the specialiser reads.
//!
//! An [`Instr`] is 64 bits: opcode (8), `a` (8), `b` (16), `c` (16), `d` (16). `c` and `d` together are one
//! signed or unsigned 32-bit field, [`Instr::sj`] (a jump, relative to the *next* instruction) or
//! [`Instr::bx`]. The width buys three things over PUC Lua's 32 bits: a compare carries its jump, a field
//! access carries the index of its inline cache, and constants need no extra argument. Bytecode is about 1.5
//! times as large for it, and there is less of it.
//!
//! Terms, as in the manual and in PUC Lua: `R[x]` register x of the frame, `K[x]` constant x, `U[x]` upvalue
//! x, `RK(x)` is `K[x & 0x7fff]` if bit 15 of x is set ([`RK_CONST`]), else `R[x]`. `IC[d]` is inline cache d
//! of the prototype's instance ([`NO_IC`]: none, always take the general path).
//!
//! # Calls
//! A call places the function in `R[a]` and its arguments in `R[a+3]` onwards: `R[a+1]` and `R[a+2]` are
//! where the callee's 32-byte frame record goes, so that a frame lives on the value stack and needs no second
//! stack. Results come back in `R[a]` onwards.
//!
//! # Invariants the compiler keeps (and the verifier of binary chunks checks)
//! - Registers are allocated as a stack: at every call and at every allocating instruction all registers
//!   below its `a` that belong to live locals or temporaries are initialised.
//! - Backward jumps are only [`Op::JumpBack`], [`Op::ForLoop`] and [`Op::TForLoop`]: the places that poll for
//!   interrupts and count loop iterations. Conditional jumps go forward only.
//! - [`Op::TForCall`] is followed by [`Op::TForLoop`]; the last instruction of a prototype is a return.
//! - `b`-open calls (`b == 0`), open returns and open `SETLIST` follow directly on the instruction that set
//!   the top (an open `CALL`, `VARARG` or `LIFT`).

use crate::operands::{Effects, Flow, Operand};

/// Flag in an `RK` field: the operand is a constant, not a register.
pub const RK_CONST: u16 = 0x8000;
/// Inline-cache index that means "no cache".
pub const NO_IC: u16 = 0xffff;
/// Low bits of `NEWTABLE`'s sizes that are the number of elements.
const ITEM_BITS: u32 = 12;

/// The field c of a `NEWTABLE`: how many elements and how many other keys its constructor will store. Large
/// numbers are clipped.
pub fn table_sizes(items: usize, keys: usize) -> u16 {
    let log2 = |n: usize| n.next_power_of_two().trailing_zeros() as usize;
    let keys = if keys == 0 { 0 } else { (log2(keys) + 1).min(15) };
    (items.min((1 << ITEM_BITS) - 1) | keys << ITEM_BITS) as u16
}

/// What [`table_sizes`] has put into a field c: the number of elements; and one more than the logarithm of
/// the number of other keys, or 0.
pub fn sizes_of_table(c: u16) -> (usize, u8) {
    (c as usize & ((1 << ITEM_BITS) - 1), (c >> ITEM_BITS) as u8)
}

/// Slots between a called function and its first argument: the frame record.
pub const FRAME_SLOTS: u8 = 2;
/// Highest number of registers one function may use.
pub const MAX_REGISTERS: usize = 250;
/// Highest number of constants reachable through an `RK` field.
pub const MAX_RK_CONST: usize = 0x7fff;

/// One instruction; see the module's essay for the fields.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Instr(pub u64);

impl std::fmt::Debug for Instr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.op().map_or("?", Op::name);
        match self.op().map(Op::format) {
            Some(Format::Jump) => write!(f, "{name} {} {} {:+}", self.a(), self.b(), self.sj()),
            Some(Format::Wide) => write!(f, "{name} {} {} {}", self.a(), self.b(), self.sj()),
            _ => write!(f, "{name} {} {} {} {}", self.a(), self.b(), self.c(), self.d()),
        }
    }
}

impl Instr {
    /// Builds an instruction from its opcode and all four fields.
    #[inline(always)]
    pub const fn abcd(op: Op, a: u8, b: u16, c: u16, d: u16) -> Instr {
        Instr(op as u64 | (a as u64) << 8 | (b as u64) << 16 | (c as u64) << 32 | (d as u64) << 48)
    }
    /// Builds an instruction with `c` and `d` joined into a signed jump or immediate.
    #[inline(always)]
    pub const fn absj(op: Op, a: u8, b: u16, sj: i32) -> Instr {
        Instr(op as u64 | (a as u64) << 8 | (b as u64) << 16 | (sj as u32 as u64) << 32)
    }
    /// The opcode byte, not yet checked to be a valid [`Op`].
    #[inline(always)]
    pub const fn op_byte(self) -> u8 {
        self.0 as u8
    }
    /// The opcode, or `None` if the byte is none (hostile binary chunks).
    #[inline]
    pub fn op(self) -> Option<Op> {
        Op::ALL.get(self.op_byte() as usize).copied()
    }
    /// Field `a`, bits 8..16.
    #[inline(always)]
    pub const fn a(self) -> u8 {
        (self.0 >> 8) as u8
    }
    /// Field `b`, bits 16..32.
    #[inline(always)]
    pub const fn b(self) -> u16 {
        (self.0 >> 16) as u16
    }
    /// Field `c`, bits 32..48.
    #[inline(always)]
    pub const fn c(self) -> u16 {
        (self.0 >> 32) as u16
    }
    /// Field `d`, bits 48..64.
    #[inline(always)]
    pub const fn d(self) -> u16 {
        (self.0 >> 48) as u16
    }
    /// Fields `c` and `d` as a signed 32-bit jump offset or immediate.
    #[inline(always)]
    pub const fn sj(self) -> i32 {
        (self.0 >> 32) as i32
    }
    /// Fields `c` and `d` as an unsigned 32-bit index.
    #[inline(always)]
    pub const fn bx(self) -> u32 {
        (self.0 >> 32) as u32
    }
    /// The same instruction with another `sj` (jump patching).
    pub const fn with_sj(self, sj: i32) -> Instr {
        Instr(self.0 & 0xffff_ffff | (sj as u32 as u64) << 32)
    }
    /// The same instruction with another `a`.
    pub const fn with_a(self, a: u8) -> Instr {
        Instr(self.0 & !0xff00 | (a as u64) << 8)
    }
    /// The same instruction with another `b`.
    pub const fn with_b(self, b: u16) -> Instr {
        Instr(self.0 & !0xffff_0000 | (b as u64) << 16)
    }
    /// The same instruction with another `c`.
    pub const fn with_c(self, c: u16) -> Instr {
        Instr(self.0 & !0xffff_0000_0000 | (c as u64) << 32)
    }
}

/// How an instruction's fields are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `a b c d` fields.
    Abcd,
    /// `a b` and a jump in `sj`.
    Jump,
    /// `a` and an immediate or index in `sj`/`bx`.
    Wide,
}

macro_rules! field {
    (a) => {
        A
    };
    (b) => {
        B
    };
    (c) => {
        C
    };
    (d) => {
        D
    };
    (sj) => {
        Sj
    };
    (bx) => {
        Bx
    };
}

macro_rules! flow {
    () => {
        Flow::Next
    };
    ($flow:ident) => {
        Flow::$flow
    };
}

macro_rules! ops {
    ($($(#[$doc:meta])* $name:ident $text:literal ($($field:ident: $kind:expr),*)
        $($effect:ident)* $(=> $flow:ident)?,)*) => {
        /// Operation codes. The comment beside each says what it does in terms of the module's essay.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Op { $($(#[$doc])* $name,)* }

        impl Op {
            /// Every opcode, in the order of its byte.
            pub const ALL: &'static [Op] = &[$(Op::$name,)*];
            /// The mnemonic.
            pub const fn name(self) -> &'static str {
                match self { $(Op::$name => $text,)* }
            }
            /// What its fields stand for, see `operands.rs`.
            pub const fn operands(self) -> &'static [Operand] {
                use crate::operands::{Count::*, Field::*, Kind::*};
                match self { $(Op::$name => &[$(Operand { field: field!($field), kind: $kind },)*],)* }
            }
            /// What else may happen in it.
            pub const fn effects(self) -> Effects {
                match self { $(Op::$name => Effects::NONE$(.and(Effects::$effect))*,)* }
            }
            /// Where control goes if it does not jump.
            pub const fn flow(self) -> Flow {
                match self { $(Op::$name => flow!($($flow)?),)* }
            }
        }
    };
}

// Each line: the mnemonic; for each field what it stands for; what else may happen; where control goes if not
// on.
ops! {
    /// `R[a] = R[b]`
    Move "MOVE" (a: Def, b: Use),
    /// `R[a] = sj` as an integer
    LoadI "LOADI" (a: Def, sj: Signed),
    /// `R[a] = K[bx]`
    LoadK "LOADK" (a: Def, bx: Constant),
    /// `R[a] .. R[a+b] = nil` (b+1 registers)
    LoadNil "LOADNIL" (a: Defs(0, More(B, 1)), b: Int),
    /// `R[a] = true`
    LoadTrue "LOADTRUE" (a: Def),
    /// `R[a] = false`
    LoadFalse "LOADFALSE" (a: Def),
    /// `R[a] = false` and skip the next instruction
    LoadFalseSkip "LFALSESKIP" (a: Def) => Skips,
    /// `R[a] = U[b]`
    GetUpval "GETUPVAL" (a: Def, b: Upvalue),
    /// `U[b] = R[a]`
    SetUpval "SETUPVAL" (a: Use, b: SetUpvalue),
    /// `R[a] = U[b][K[c]]`, K[c] a string, `IC[d]`: globals
    GetTabUp "GETTABUP" (a: Def, b: Upvalue, c: Name, d: Cache) CALLS,
    /// `U[a][K[b]] = RK(c)`, K[b] a string, `IC[d]`
    SetTabUp "SETTABUP" (a: Upvalue, b: Name, c: RK, d: Cache) CALLS,
    /// `R[a] = R[b][K[c]]`, K[c] a string, `IC[d]`
    GetField "GETFIELD" (a: Def, b: Use, c: Name, d: Cache) CALLS,
    /// `R[a][K[b]] = RK(c)`, K[b] a string, `IC[d]`
    SetField "SETFIELD" (a: Use, b: Name, c: RK, d: Cache) CALLS,
    /// `R[a] = R[b][R[c]]`
    GetIndex "GETINDEX" (a: Def, b: Use, c: Use) CALLS,
    /// `R[a][R[b]] = RK(c)`
    SetIndex "SETINDEX" (a: Use, b: Use, c: RK) CALLS,
    /// `R[a] = R[b][c]`, c an unsigned 16-bit integer key
    GetInt "GETINT" (a: Def, b: Use, c: Int) CALLS,
    /// `R[a][b] = RK(c)`, b an unsigned 16-bit integer key
    SetInt "SETINT" (a: Use, b: Int, c: RK) CALLS,
    /// `R[a+3] = R[b]; R[a] = R[b][K[c]]`, K[c] a string, `IC[d]`: a method call's function and receiver
    SelfCall "SELF" (a: Def, a: DefAt(3), b: Use, c: Name, d: Cache) CALLS,
    /// `R[a] = {}`; b: template index + 1 (0: none); c: expected sizes ([`table_sizes`]); `IC[d]` remembers
    /// the template's shape or the site's growth
    NewTable "NEWTABLE" (a: Def, a: Clobber(1), b: Template, c: Int, d: Cache) COLLECTS,
    /// `R[a].slot[b] = RK(c)`: initialises field b of the template of the `NEWTABLE` that shares `IC[d]`
    SetSlot "SETSLOT" (a: Use, b: Slot, c: RK, d: Cache) RAISES,
    /// `R[a][bx + i] = R[a+i]` for 1 <= i <= b (b == 0: up to the top)
    SetList "SETLIST" (a: Use, a: Uses(1, Open(B, 0)), b: Int, bx: Int) COLLECTS,
    /// `R[a] = R[b] + R[c]`; likewise the eleven that follow
    Add "ADD" (a: Def, b: Use, c: Use) CALLS,
    /// `R[a] = R[b] - R[c]`
    Sub "SUB" (a: Def, b: Use, c: Use) CALLS,
    /// `R[a] = R[b] * R[c]`
    Mul "MUL" (a: Def, b: Use, c: Use) CALLS,
    /// `R[a] = R[b] / R[c]`
    Div "DIV" (a: Def, b: Use, c: Use) CALLS,
    /// `R[a] = R[b] % R[c]`
    Mod "MOD" (a: Def, b: Use, c: Use) CALLS,
    /// `R[a] = R[b] ^ R[c]`
    Pow "POW" (a: Def, b: Use, c: Use) CALLS,
    /// `R[a] = R[b] // R[c]`
    IDiv "IDIV" (a: Def, b: Use, c: Use) CALLS,
    /// `R[a] = R[b] & R[c]`
    BAnd "BAND" (a: Def, b: Use, c: Use) CALLS,
    /// `R[a] = R[b] | R[c]`
    BOr "BOR" (a: Def, b: Use, c: Use) CALLS,
    /// `R[a] = R[b] ~ R[c]`
    BXor "BXOR" (a: Def, b: Use, c: Use) CALLS,
    /// `R[a] = R[b] << R[c]`
    Shl "SHL" (a: Def, b: Use, c: Use) CALLS,
    /// `R[a] = R[b] >> R[c]`
    Shr "SHR" (a: Def, b: Use, c: Use) CALLS,
    /// `R[a] = R[b] + K[c]`, K[c] a number; likewise the nine that follow (d == 1: the operands were swapped
    /// in the source, `K op R`, commutative operators only)
    AddK "ADDK" (a: Def, b: Use, c: Number, d: Choice(1)) CALLS,
    /// `R[a] = R[b] - K[c]`
    SubK "SUBK" (a: Def, b: Use, c: Number, d: Choice(1)) CALLS,
    /// `R[a] = R[b] * K[c]`
    MulK "MULK" (a: Def, b: Use, c: Number, d: Choice(1)) CALLS,
    /// `R[a] = R[b] / K[c]`
    DivK "DIVK" (a: Def, b: Use, c: Number, d: Choice(1)) CALLS,
    /// `R[a] = R[b] % K[c]`
    ModK "MODK" (a: Def, b: Use, c: Number, d: Choice(1)) CALLS,
    /// `R[a] = R[b] ^ K[c]`
    PowK "POWK" (a: Def, b: Use, c: Number, d: Choice(1)) CALLS,
    /// `R[a] = R[b] // K[c]`
    IDivK "IDIVK" (a: Def, b: Use, c: Number, d: Choice(1)) CALLS,
    /// `R[a] = R[b] & K[c]`
    BAndK "BANDK" (a: Def, b: Use, c: Number, d: Choice(1)) CALLS,
    /// `R[a] = R[b] | K[c]`
    BOrK "BORK" (a: Def, b: Use, c: Number, d: Choice(1)) CALLS,
    /// `R[a] = R[b] ~ K[c]`
    BXorK "BXORK" (a: Def, b: Use, c: Number, d: Choice(1)) CALLS,
    /// `R[a] = R[b] + c`, c a signed 16-bit integer. d: 0 `R + c`; 1 the source said `R - (-c)`: the
    /// metamethod is `__sub` with -c; 2 `c + R`
    AddI "ADDI" (a: Def, b: Use, c: Signed, d: Choice(2)) CALLS,
    /// `R[a] = -R[b]`
    Unm "UNM" (a: Def, b: Use) CALLS,
    /// `R[a] = ~R[b]`
    BNot "BNOT" (a: Def, b: Use) CALLS,
    /// `R[a] = not R[b]`
    Not "NOT" (a: Def, b: Use),
    /// `R[a] = #R[b]`
    Len "LEN" (a: Def, b: Use) CALLS,
    /// `R[a] = R[a] .. ... .. R[a+b-1]`
    Concat "CONCAT" (a: Def, a: Uses(0, Of(B, 0)), a: Clobber(1), b: Int) CALLS,
    /// `pc += sj`, forward
    Jump "JMP" (sj: Forward) => Ends,
    /// `pc += sj`, backward: polls for interrupts, counts loop iterations
    JumpBack "JMPBACK" (sj: Backward) POLLS => Ends,
    /// if `R[a]` is true then `pc += sj`
    JumpIf "JMPIF" (a: Use, sj: Forward),
    /// if `R[a]` is false or nil then `pc += sj`
    JumpIfNot "JMPIFNOT" (a: Use, sj: Forward),
    /// if `R[b]` is true then `R[a] = R[b]; pc += sj`
    JumpIfSet "JMPIFSET" (a: DefIfJumps(0), b: Use, sj: Forward),
    /// if `R[b]` is false or nil then `R[a] = R[b]; pc += sj`
    JumpIfNotSet "JMPIFNOTSET" (a: DefIfJumps(0), b: Use, sj: Forward),
    /// if `R[a] == R[b]` then `pc += sj`
    JumpEq "JEQ" (a: Use, b: Use, sj: Forward) CALLS,
    /// if `R[a] ~= R[b]` then `pc += sj`
    JumpNe "JNE" (a: Use, b: Use, sj: Forward) CALLS,
    /// if `R[a] == K[b]` (raw: K is nil, boolean, number or string) then `pc += sj`
    JumpEqK "JEQK" (a: Use, b: Constant, sj: Forward),
    /// if `R[a] ~= K[b]` then `pc += sj`
    JumpNeK "JNEK" (a: Use, b: Constant, sj: Forward),
    /// if `R[a] < R[b]` then `pc += sj`
    JumpLt "JLT" (a: Use, b: Use, sj: Forward) CALLS,
    /// if `not (R[a] < R[b])` then `pc += sj`
    JumpNotLt "JNLT" (a: Use, b: Use, sj: Forward) CALLS,
    /// if `R[a] <= R[b]` then `pc += sj`
    JumpLe "JLE" (a: Use, b: Use, sj: Forward) CALLS,
    /// if `not (R[a] <= R[b])` then `pc += sj`
    JumpNotLe "JNLE" (a: Use, b: Use, sj: Forward) CALLS,
    /// if `R[a] < K[b]` (a number) then `pc += sj`; likewise the seven that follow
    JumpLtK "JLTK" (a: Use, b: Number, sj: Forward) CALLS,
    /// if `not (R[a] < K[b])` then `pc += sj`
    JumpNotLtK "JNLTK" (a: Use, b: Number, sj: Forward) CALLS,
    /// if `R[a] <= K[b]` then `pc += sj`
    JumpLeK "JLEK" (a: Use, b: Number, sj: Forward) CALLS,
    /// if `not (R[a] <= K[b])` then `pc += sj`
    JumpNotLeK "JNLEK" (a: Use, b: Number, sj: Forward) CALLS,
    /// if `R[a] > K[b]` then `pc += sj` (metamethod: `K < R`)
    JumpGtK "JGTK" (a: Use, b: Number, sj: Forward) CALLS,
    /// if `not (R[a] > K[b])` then `pc += sj`
    JumpNotGtK "JNGTK" (a: Use, b: Number, sj: Forward) CALLS,
    /// if `R[a] >= K[b]` then `pc += sj` (metamethod: `K <= R`)
    JumpGeK "JGEK" (a: Use, b: Number, sj: Forward) CALLS,
    /// if `not (R[a] >= K[b])` then `pc += sj`
    JumpNotGeK "JNGEK" (a: Use, b: Number, sj: Forward) CALLS,
    /// Numeric for: checks and prepares `R[a]` initial, `R[a+1]` limit, `R[a+2]` step; if the loop does not
    /// run `pc += sj` (past FORLOOP), else `R[a+3] = R[a]`. After it an integer loop keeps the number of
    /// remaining iterations, unsigned, in `R[a+1]`.
    ForPrep "FORPREP" (a: Uses(0, Exact(3)), a: Defs(0, Exact(3)), a: DefIfStays(3), sj: Forward) RAISES,
    /// Numeric for: steps; if it goes on, `R[a+3] = R[a]` is the new control value and `pc += sj` (to the
    /// body's first instruction); polls
    ForLoop "FORLOOP" (a: Uses(0, Exact(3)), a: Defs(0, Exact(2)), a: DefIfJumps(3), sj: Backward) POLLS,
    /// Generic for: marks `R[a+3]` to be closed; `pc += sj` (to TFORCALL)
    TForPrep "TFORPREP" (a: Uses(0, Exact(4)), a: Mark(3), a: Hide(3), sj: Forward) RAISES => Ends,
    /// Generic for: `R[a+4] .. R[a+3+b] = R[a](R[a+1], R[a+2])`; uses `R[a+4]` to `R[a+8]` for the call
    TForCall "TFORCALL" (a: Uses(0, Exact(3)), a: Steps(2), a: Clobber(4), a: Defs(4, Of(B, 0)), a: Room(9), b: Int) CALLS,
    /// Generic for: if `R[a+4] ~= nil` then `R[a+2] = R[a+4]; pc += sj` (to the body); polls
    TForLoop "TFORLOOP" (a: UseAt(4), a: DefIfJumps(2), sj: Backward) POLLS,
    /// `R[a] .. R[a+c-2] = R[a](R[a+3] .. R[a+2+b-1])`; b == 0: arguments up to the top; c == 0: all results,
    /// sets the top
    Call "CALL" (a: Use, a: Uses(3, Open(B, 1)), a: Clobber(0), a: Defs(0, Open(C, 1)), b: Int, c: Int) CALLS,
    /// `return R[a](R[a+3] ..)`, b as in CALL; d == 1: upvalues or to-be-closed variables may have to be
    /// closed first (upvalues only: a function with to-be-closed variables in scope makes no tail calls)
    TailCall "TAILCALL" (a: Use, a: Uses(3, Open(B, 1)), b: Int, d: Choice(1)) CALLS => Ends,
    /// `return R[a] .. R[a+b-2]`; b == 0: up to the top; d == 1: close upvalues and to-be-closed variables
    /// first
    Return "RETURN" (a: Uses(0, Open(B, 1)), b: Int, d: Choice(1)) CALLS => Ends,
    /// `return`, in a function that is not vararg and has nothing to close
    Return0 "RETURN0" (a: Uses(0, Exact(0))) => Ends,
    /// `return R[a]`, in a function that is not vararg and has nothing to close
    Return1 "RETURN1" (a: Use) => Ends,
    /// First instruction of a vararg function with `a` fixed parameters: moves the frame above its extra
    /// arguments
    VarargPrep "VARARGPREP" (a: Params) GROWS RAISES,
    /// `R[a] .. R[a+c-2] = ...`; c == 0: all, sets the top
    Vararg "VARARG" (a: Defs(0, Open(C, 1)), c: Int) GROWS RAISES,
    /// Moves `R[a] ..` up to the top to `R[a+b] ..`; the top rises by b (the stack may have to grow). Only in
    /// calls nested so deeply that their open arguments are gathered without room for the frame; stands
    /// between the instruction that sets the top and the one that takes it
    Lift "LIFT" (a: Lift(B), b: Int) GROWS RAISES,
    /// `R[a] = closure(protos[bx])`
    Closure "CLOSURE" (a: Def, a: Clobber(1), bx: Proto) COLLECTS,
    /// Closes all upvalues and to-be-closed variables at `R[a]` and above
    Close "CLOSE" (a: Close) CALLS,
    /// Marks `R[a]` as a to-be-closed variable
    Tbc "TBC" (a: Mark(0)) RAISES,
}
