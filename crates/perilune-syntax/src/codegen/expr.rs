//! Expressions: descriptions, how they become values in registers, and the walk over the tree.
//!
//! The walk ([`Gen::expr`]) follows left operands (of binary operators, indexing, calls) down to a leaf,
//! remembering the operators on a stack of its own, then applies them one by one. So native recursion is only
//! as deep as what nests on the right or in brackets, which the parser bounds.
//!
//! Descriptions stay where they are and are changed there. Returned by value, they would be copied as a whole
//! right after their parts have been stored one by one, and processors wait for that: it was a tenth of the
//! time that code generation takes.

use super::func::{ConstKey, JumpList};
use super::{Gen, Res};
use crate::ast::{BinOp, Expr, ExprId, LocalId, StrId};
use crate::bytecode::{FRAME_SLOTS, MAX_RK_CONST, Op, RK_CONST};
use crate::proto::Constant;

/// Calls nested in each other's arguments from which on registers are saved.
const CROWDED: u32 = 10;

/// Where a value is, or what would produce it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// Constants, not loaded yet.
    Nil,
    True,
    False,
    Integer(i64),
    Float(f64),
    Str(StrId),
    /// In this register for good.
    Register(u8),
    /// A local variable of this function, in this register.
    Local(u8),
    /// An upvalue of this function.
    Upvalue(u8),
    /// A string field of an upvalue.
    IndexUp {
        up: u8,
        key: u16,
    },
    /// A string field of a table in a register.
    IndexStr {
        table: u8,
        key: u16,
    },
    /// A small integer key of a table in a register.
    IndexInt {
        table: u8,
        key: u16,
    },
    /// Any key of a table, both in registers.
    Index {
        table: u8,
        key: u8,
    },
    /// A comparison: the jump at this position is taken when it is true.
    Jump(u32),
    /// The instruction at this position produces the value; its target register (`a`) is open.
    Relocatable(u32),
    /// The call at this position; it returns one result unless told otherwise.
    Call(u32),
    /// The `VARARG` at this position, its number of results open.
    Vararg(u32),
}

/// An expression's description.
#[derive(Debug)]
pub(super) struct Exp {
    pub(super) kind: Kind,
    /// Jumps out of it when it is true.
    pub(super) on_true: JumpList,
    /// Jumps out of it when it is false.
    pub(super) on_false: JumpList,
}

impl Exp {
    /// One to begin with, where another is to be.
    pub(super) const NIL: Exp = Exp { kind: Kind::Nil, on_true: JumpList::EMPTY, on_false: JumpList::EMPTY };

    #[inline]
    pub(super) fn new(kind: Kind) -> Exp {
        Exp { kind, on_true: JumpList::EMPTY, on_false: JumpList::EMPTY }
    }

    pub(super) fn has_jumps(&self) -> bool {
        !(self.on_true.is_empty() && self.on_false.is_empty())
    }

    /// A number known now.
    pub(super) fn is_numeral(&self) -> bool {
        matches!(self.kind, Kind::Integer(_) | Kind::Float(_)) && !self.has_jumps()
    }

    /// A value known now.
    pub(super) fn is_constant(&self) -> bool {
        !self.has_jumps()
            && matches!(
                self.kind,
                Kind::Nil | Kind::True | Kind::False | Kind::Integer(_) | Kind::Float(_) | Kind::Str(_)
            )
    }

    /// May have any number of results.
    pub(super) fn is_multiple(&self) -> bool {
        matches!(self.kind, Kind::Call(_) | Kind::Vararg(_))
    }

    /// A field of something, as an assignment's target.
    pub(super) fn is_indexed(&self) -> bool {
        matches!(
            self.kind,
            Kind::IndexUp { .. } | Kind::IndexStr { .. } | Kind::IndexInt { .. } | Kind::Index { .. }
        )
    }
}

impl Gen<'_> {
    /// The description of an expression, in place of what `exp` is.
    pub(super) fn expr(&mut self, id: ExprId, exp: &mut Exp) -> Res<()> {
        let chunk = self.chunk;
        let base = self.spine.len();
        let mut at = id;
        loop {
            let left = match chunk.exprs[at.index()] {
                Expr::Binary { lhs, .. } | Expr::And { lhs, .. } | Expr::Or { lhs, .. } => lhs,
                Expr::Index { obj, .. } | Expr::Dot { obj, .. } | Expr::MethodCall { obj, .. } => obj,
                Expr::Call { func, .. } => func,
                Expr::Paren(inner) => inner,
                Expr::Unary { operand, .. } => {
                    self.at(chunk.lines[at.index()]);
                    operand
                }
                _ => break,
            };
            self.spine.push(at);
            at = left;
        }
        self.leaf(at, exp)?;
        while self.spine.len() > base {
            let node = self.spine.pop().expect("longer than its base");
            self.apply(node, exp)?;
            self.progress.latest = Some(node);
        }
        Ok(())
    }

    /// An expression without a left operand.
    #[inline(never)]
    fn leaf(&mut self, id: ExprId, exp: &mut Exp) -> Res<()> {
        let chunk = self.chunk;
        // The lines of functions and tables are those of their ends, which are yet to come.
        if !matches!(chunk.exprs[id.index()], Expr::Table { .. } | Expr::Function(_)) {
            self.at(chunk.lines[id.index()]);
            self.progress.latest = Some(id);
        }
        exp.kind = match chunk.exprs[id.index()] {
            Expr::Nil => Kind::Nil,
            Expr::True => Kind::True,
            Expr::False => Kind::False,
            Expr::Integer(n) => Kind::Integer(n),
            Expr::Float(n) => Kind::Float(n),
            Expr::String(s) => Kind::Str(s),
            Expr::Vararg => Kind::Vararg(self.emit(Op::Vararg, 0, 0, 2, 0) as u32),
            Expr::Function(func) => {
                let index = self.function(func)?;
                self.progress.latest = Some(id);
                self.closure(index)?
            }
            Expr::Local(local) => self.variable(local)?,
            Expr::Global { env, name } => {
                *exp = Exp::new(self.variable(env)?);
                return self.named_field(exp, name);
            }
            Expr::Table { fields } => self.table(chunk.table_fields(fields), chunk.lines[id.index()])?,
            other => unreachable!("{other:?} has a left operand"),
        };
        (exp.on_true, exp.on_false) = (JumpList::EMPTY, JumpList::EMPTY);
        Ok(())
    }

    /// The field `name` of `table`, which it replaces.
    #[inline(never)]
    fn named_field(&mut self, table: &mut Exp, name: StrId) -> Res<()> {
        self.place_or_upvalue(table)?;
        self.index(table, &mut Exp::new(Kind::Str(name)))
    }

    /// A variable by name.
    #[inline(never)]
    pub(super) fn variable(&mut self, local: LocalId) -> Res<Kind> {
        if let Some(&value) = self.constants[usize::from(local.is_passing())].get(&local) {
            return Ok(value);
        }
        if self.fs.func == self.chunk.locals[local].function {
            return Ok(Kind::Local(self.registers[local]));
        }
        Ok(Kind::Upvalue(self.upvalue(local)?))
    }

    /// The closure of a nested prototype, in the next register (an allocation has nothing live above it).
    #[inline(never)]
    pub(super) fn closure(&mut self, index: u32) -> Res<Kind> {
        let register = self.reserve(1)?;
        self.emit_wide(Op::Closure, register, 0, index as i32);
        Ok(Kind::Register(register))
    }

    /// Applies an operator to its left operand, which the result replaces.
    #[inline(never)]
    fn apply(&mut self, node: ExprId, left: &mut Exp) -> Res<()> {
        let chunk = self.chunk;
        let line = chunk.lines[node.index()];
        match chunk.exprs[node.index()] {
            Expr::Paren(_) => {
                self.one_result(left);
                Ok(())
            }
            Expr::Unary { op, .. } => self.unary(op, left, line),
            Expr::And { rhs, .. } => {
                self.at(line);
                self.go_if_true(left)?;
                let on_false = left.on_false;
                self.expr(rhs, left)?;
                self.discharge(left);
                self.fs.join(&mut left.on_false, on_false);
                Ok(())
            }
            Expr::Or { rhs, .. } => {
                self.at(line);
                self.go_if_false(left)?;
                let on_true = left.on_true;
                self.expr(rhs, left)?;
                self.discharge(left);
                self.fs.join(&mut left.on_true, on_true);
                Ok(())
            }
            Expr::Binary { op: BinOp::Concat, rhs, .. } => self.concat(left, rhs, line),
            Expr::Binary { op, rhs, .. } => self.binary(op, left, rhs, line),
            Expr::Index { key, .. } => {
                self.place_or_upvalue(left)?;
                let mut index = Exp::NIL;
                self.expr(key, &mut index)?;
                self.settle(&mut index)?;
                self.at(line);
                self.index(left, &mut index)
            }
            Expr::Dot { name, .. } => {
                self.place_or_upvalue(left)?;
                self.at(line);
                self.named_field(left, name)
            }
            Expr::Call { args, .. } => {
                let base = self.place_next(left)?;
                self.at(line);
                left.kind = self.call(base, chunk.list(args), line)?;
                Ok(())
            }
            Expr::MethodCall { name, args, .. } => {
                self.at(line);
                let object = self.place_any(left)?;
                self.free(left);
                let base = self.reserve(FRAME_SLOTS as usize + 2)?;
                self.method(base, object, name)?;
                self.fs.free = base + 1;
                left.kind = self.call_method(base, chunk.list(args), line)?;
                Ok(())
            }
            other => unreachable!("{other:?} has no left operand"),
        }
    }

    /// Puts the method `name` of `object` and the object itself where a call at `base` wants them.
    #[inline(never)]
    fn method(&mut self, base: u8, object: u8, name: StrId) -> Res<()> {
        if let Some(name) = self.name_constant(name) {
            let ic = self.fs.new_ic();
            self.emit(Op::SelfCall, base, object as u16, name, ic);
        } else {
            let receiver = base + 1 + FRAME_SLOTS;
            self.emit(Op::Move, receiver, object as u16, 0, 0);
            let key = self.reserve(1)?;
            let constant = self.string_constant(name);
            self.emit_wide(Op::LoadK, key, 0, constant as i32);
            self.emit(Op::GetIndex, base, receiver as u16, key as u16, 0);
            self.fs.free_register(key);
        }
        Ok(())
    }

    /// A call of what is in `base`, the last register taken.
    fn call(&mut self, base: u8, args: &[ExprId], line: u32) -> Res<Kind> {
        let slots = if self.fs.open_calls < CROWDED { FRAME_SLOTS } else { 0 };
        self.reserve(slots as usize)?;
        self.call_with(base, slots, args, line)
    }

    /// A call of what `SELF` has put into `base` and behind the frame slots; `base` is the last register
    /// taken.
    fn call_method(&mut self, base: u8, args: &[ExprId], line: u32) -> Res<Kind> {
        let mut slots = FRAME_SLOTS;
        if self.fs.open_calls >= CROWDED {
            self.emit(Op::Move, base + 1, (base + 1 + slots) as u16, 0, 0);
            slots = 0;
        }
        self.reserve(slots as usize + 1)?;
        self.call_with(base, slots, args, line)
    }

    /// The arguments, after what is there from `base + 1 + slots` on, and the call.
    ///
    /// With the frame slots in between, calls nested in arguments would run out of registers at a depth at
    /// which PUC Lua has not. So from a certain depth on arguments are gathered without room for the frame
    /// (`slots` is 0) and moved up just before the call.
    #[inline(never)]
    fn call_with(&mut self, base: u8, slots: u8, args: &[ExprId], line: u32) -> Res<Kind> {
        let first = base + 1 + slots;
        self.fs.open_calls += 1;
        let mut last = Exp::NIL;
        self.expr_list(args, &mut last)?;
        self.fs.open_calls -= 1;
        let lift = FRAME_SLOTS - slots;
        let open = !args.is_empty() && last.is_multiple();
        if open {
            self.set_results(&mut last, None)?;
            if lift > 0 {
                self.emit(Op::Lift, first, lift as u16, 0, 0);
            }
        } else if !args.is_empty() {
            self.place_next(&mut last)?;
        }
        let count = self.fs.free - first;
        self.reserve(lift as usize)?;
        if lift > 0 && !open {
            for argument in (first..first + count).rev() {
                self.emit(Op::Move, argument + lift, argument as u16, 0, 0);
            }
        }
        let b = if open { 0 } else { count as u16 + 1 };
        let pc = self.emit(Op::Call, base, b, 2, 0);
        self.fs.fix_line(line);
        self.fs.free = base + 1;
        Ok(Kind::Call(pc as u32))
    }

    /// All expressions of a list but the last go to the next registers; `last` becomes the last one's
    /// description, if there is one.
    pub(super) fn expr_list(&mut self, list: &[ExprId], last: &mut Exp) -> Res<()> {
        let Some((&id, rest)) = list.split_last() else { return Ok(()) };
        for &id in rest {
            self.expr(id, last)?;
            self.place_next(last)?;
        }
        self.expr(id, last)
    }

    /// Wants `count` results (`None`: all there are) of a call or `...`.
    #[inline(never)]
    pub(super) fn set_results(&mut self, exp: &mut Exp, count: Option<u16>) -> Res<()> {
        let c = count.map_or(0, |n| n + 1);
        match exp.kind {
            Kind::Call(pc) => {
                let call = &mut self.fs.code[pc as usize];
                *call = call.with_c(c);
            }
            Kind::Vararg(pc) => {
                let target = self.fs.free;
                let vararg = &mut self.fs.code[pc as usize];
                *vararg = vararg.with_c(c).with_a(target);
                self.reserve(1)?;
            }
            other => unreachable!("{other:?} has one result"),
        }
        Ok(())
    }

    /// Cuts a call or `...` to one result.
    pub(super) fn one_result(&mut self, exp: &mut Exp) {
        match exp.kind {
            Kind::Call(pc) => exp.kind = Kind::Register(self.fs.code[pc as usize].a()),
            Kind::Vararg(pc) => exp.kind = Kind::Relocatable(pc),
            _ => {}
        }
    }

    /// Replaces `table`, which is in a register or an upvalue, by the description of `table[key]`.
    #[inline(never)]
    pub(super) fn index(&mut self, table: &mut Exp, key: &mut Exp) -> Res<()> {
        let name = match key.kind {
            Kind::Str(name) if !key.has_jumps() => self.name_constant(name),
            _ => None,
        };
        if let (Kind::Upvalue(up), Some(key)) = (table.kind, name) {
            *table = Exp::new(Kind::IndexUp { up, key });
            return Ok(());
        }
        let register = self.place_any(table)?;
        *table = Exp::new(if let Some(key) = name {
            Kind::IndexStr { table: register, key }
        } else if let Kind::Integer(n) = key.kind
            && !key.has_jumps()
            && let Ok(key) = u16::try_from(n)
        {
            Kind::IndexInt { table: register, key }
        } else {
            Kind::Index { table: register, key: self.place_any(key)? }
        });
        Ok(())
    }

    /// Makes a variable or field a value: a constant, a register or a relocatable instruction. Jumps stay.
    #[inline(never)]
    pub(super) fn discharge(&mut self, exp: &mut Exp) {
        let pc = match exp.kind {
            Kind::Local(register) => {
                exp.kind = Kind::Register(register);
                return;
            }
            Kind::Call(_) | Kind::Vararg(_) => return self.one_result(exp),
            Kind::Upvalue(up) => self.emit(Op::GetUpval, 0, up as u16, 0, 0),
            Kind::IndexUp { up, key } => {
                let ic = self.fs.new_ic();
                self.emit(Op::GetTabUp, 0, up as u16, key, ic)
            }
            Kind::IndexStr { table, key } => {
                self.fs.free_register(table);
                let ic = self.fs.new_ic();
                self.emit(Op::GetField, 0, table as u16, key, ic)
            }
            Kind::IndexInt { table, key } => {
                self.fs.free_register(table);
                self.emit(Op::GetInt, 0, table as u16, key, 0)
            }
            Kind::Index { table, key } => {
                self.fs.free_registers(table, key);
                self.emit(Op::GetIndex, 0, table as u16, key as u16, 0)
            }
            _ => return,
        };
        exp.kind = Kind::Relocatable(pc as u32);
    }

    /// Frees the temporary that holds the expression, if one does.
    pub(super) fn free(&mut self, exp: &Exp) {
        if let Kind::Register(register) = exp.kind {
            self.fs.free_register(register);
        }
    }

    /// Frees the temporaries of two expressions in the right order.
    pub(super) fn free_both(&mut self, one: &Exp, other: &Exp) {
        match (one.kind, other.kind) {
            (Kind::Register(a), Kind::Register(b)) => self.fs.free_registers(a, b),
            _ => {
                self.free(one);
                self.free(other);
            }
        }
    }

    /// The value without its jumps, which is discharged, goes to `register`. A comparison stays as it is.
    fn load(&mut self, exp: &mut Exp, register: u8) {
        match exp.kind {
            Kind::Nil => self.emit_nil(register, 1),
            Kind::False => _ = self.emit(Op::LoadFalse, register, 0, 0, 0),
            Kind::True => _ = self.emit(Op::LoadTrue, register, 0, 0, 0),
            Kind::Integer(n) if i32::try_from(n).is_ok() => {
                self.emit_wide(Op::LoadI, register, 0, n as i32);
            }
            Kind::Integer(_) | Kind::Float(_) | Kind::Str(_) => {
                let constant = self.constant_index(exp.kind).expect("a constant");
                self.emit_wide(Op::LoadK, register, 0, constant as i32);
            }
            Kind::Relocatable(pc) => {
                let instr = &mut self.fs.code[pc as usize];
                *instr = instr.with_a(register);
            }
            Kind::Register(from) => {
                if from != register {
                    self.emit(Op::Move, register, from as u16, 0, 0);
                }
            }
            Kind::Jump(_) => return,
            other => unreachable!("{other:?} was discharged"),
        }
        exp.kind = Kind::Register(register);
    }

    /// The value without its jumps goes to some register, a new one if it has none.
    pub(super) fn load_anywhere(&mut self, exp: &mut Exp) -> Res<()> {
        if !matches!(exp.kind, Kind::Register(_)) {
            let register = self.reserve(1)?;
            self.discharge(exp);
            self.load(exp, register);
        }
        Ok(())
    }

    /// The value goes to `register`, from all paths.
    #[inline(never)]
    pub(super) fn place_in(&mut self, exp: &mut Exp, register: u8) {
        self.discharge(exp);
        self.place_discharged(exp, register);
    }

    /// As [`Gen::place_in`], of what is discharged.
    #[inline(never)]
    fn place_discharged(&mut self, exp: &mut Exp, register: u8) {
        self.load(exp, register);
        if let Kind::Jump(pc) = exp.kind {
            self.fs.join(&mut exp.on_true, JumpList::single(pc as usize));
        }
        if exp.has_jumps() {
            let (mut load_false, mut load_true) = (usize::MAX, usize::MAX);
            if self.fs.needs_value(exp.on_true) || self.fs.needs_value(exp.on_false) {
                let over = match exp.kind {
                    Kind::Jump(_) => JumpList::EMPTY,
                    _ => self.emit_jump(Op::Jump, 0, 0),
                };
                self.fs.label();
                load_false = self.emit(Op::LoadFalseSkip, register, 0, 0, 0);
                self.fs.label();
                load_true = self.emit(Op::LoadTrue, register, 0, 0, 0);
                self.fs.patch_here(over);
            }
            let end = self.fs.label();
            self.fs.patch_values(exp.on_false, end, register, load_false);
            self.fs.patch_values(exp.on_true, end, register, load_true);
        }
        *exp = Exp::new(Kind::Register(register));
    }

    /// The value goes to the next free register, which is returned.
    #[inline(never)]
    pub(super) fn place_next(&mut self, exp: &mut Exp) -> Res<u8> {
        self.discharge(exp);
        self.place_discharged_next(exp)
    }

    /// As [`Gen::place_next`], of what is discharged.
    fn place_discharged_next(&mut self, exp: &mut Exp) -> Res<u8> {
        self.free(exp);
        let register = self.reserve(1)?;
        self.place_discharged(exp, register);
        Ok(register)
    }

    /// The value goes to some register, which is returned; a local stays where it is.
    #[inline(never)]
    pub(super) fn place_any(&mut self, exp: &mut Exp) -> Res<u8> {
        self.discharge(exp);
        if let Kind::Register(register) = exp.kind {
            if !exp.has_jumps() {
                return Ok(register);
            }
            if register >= self.fs.active_registers {
                self.place_discharged(exp, register);
                return Ok(register);
            }
            // A local must not be overwritten with the value of another path.
        }
        self.place_discharged_next(exp)
    }

    /// The value is in a register, or it is an upvalue and stays one.
    pub(super) fn place_or_upvalue(&mut self, exp: &mut Exp) -> Res<()> {
        if !matches!(exp.kind, Kind::Upvalue(_)) || exp.has_jumps() {
            self.place_any(exp)?;
        }
        Ok(())
    }

    /// The value is there, without jumps: in a register, relocatable, or a constant.
    pub(super) fn settle(&mut self, exp: &mut Exp) -> Res<()> {
        if exp.has_jumps() || matches!(exp.kind, Kind::Jump(_)) {
            self.place_any(exp)?;
        } else {
            self.discharge(exp);
        }
        Ok(())
    }

    /// Index of a constant's entry, or `None` if the kind is no constant.
    fn constant_index(&mut self, kind: Kind) -> Option<u32> {
        Some(match kind {
            Kind::Nil => self.fs.constant(ConstKey::Nil, || Constant::Nil),
            Kind::True => self.fs.constant(ConstKey::Boolean(true), || Constant::Boolean(true)),
            Kind::False => self.fs.constant(ConstKey::Boolean(false), || Constant::Boolean(false)),
            Kind::Integer(n) => self.fs.constant(ConstKey::Integer(n), || Constant::Integer(n)),
            Kind::Float(n) => self.fs.constant(ConstKey::Float(n.to_bits()), || Constant::Float(n)),
            Kind::Str(s) => self.string_constant(s),
            _ => return None,
        })
    }

    /// Index of a constant expression if an operand field can hold it.
    pub(super) fn operand_constant(&mut self, exp: &Exp) -> Option<u16> {
        if !exp.is_constant() {
            return None;
        }
        let index = self.constant_index(exp.kind)?;
        (index as usize <= MAX_RK_CONST).then_some(index as u16)
    }

    /// An `RK` operand: a constant if it is one and fits, else a register.
    #[inline(never)]
    pub(super) fn operand(&mut self, exp: &mut Exp) -> Res<u16> {
        match self.operand_constant(exp) {
            Some(index) => Ok(index | RK_CONST),
            None => Ok(self.place_any(exp)? as u16),
        }
    }
}
