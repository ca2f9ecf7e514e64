//! One instruction of the form after the other.

use super::*;
use crate::backend;
use crate::ssa::List;
use perilune_vm::machine::{Home as At, Saved};

impl Emitter<'_, '_> {
    // -- Conditions -----------------------------------------------------------------------------------------

    /// Sets the flags by this value, if it is a condition that is part of who asks; else by whether it is 0.
    pub(super) fn flags(&mut self, condition: Value) -> Flags {
        match self.form.within(condition) {
            Some(&Data::CompareInts { cond, args, .. }) => self.compare(cond, args),
            Some(&Data::CompareFloats { cond, args, .. }) => self.compare_floats(cond, args),
            Some(&Data::Binary { opcode: Opcode::Band, args }) => {
                self.test(args);
                Flags::One(Cc::NOT_EQUAL)
            }
            _ => {
                let width = width(self.form.ty(condition));
                match self.rm(condition) {
                    Rm::Reg(r) => self.asm.test(width, Rm::Reg(r), r),
                    mem => self.asm.alu_immediate(Alu::Cmp, width, mem, 0),
                }
                Flags::One(Cc::NOT_EQUAL)
            }
        }
    }

    /// Tests bits, of which nothing else is asked.
    fn test(&mut self, args: [Value; 2]) {
        let width = width(self.form.ty(args[0]));
        let (a, b) = match args.map(|arg| self.form.integer(arg)) {
            [Some(_), None] => (args[1], args[0]),
            _ => (args[0], args[1]),
        };
        match (self.rm(a), self.form.integer(b)) {
            // Bits of the lowest byte are asked of that.
            (a, Some(n)) if (0..0x80).contains(&n) => self.asm.test_immediate(Width::W8, a, n),
            (a, Some(n)) if i32::try_from(n).is_ok() => self.asm.test_immediate(width, a, n),
            (Rm::Mem(a), Some(n)) if is_through_scratch(a) => {
                self.asm.load(width, SCRATCH, a);
                let n = self.asm.constant(n as u64);
                self.asm.test(width, Rm::Mem(constant(n)), SCRATCH);
            }
            (Rm::Reg(SCRATCH), Some(n)) => {
                let n = self.asm.constant(n as u64);
                self.asm.test(width, Rm::Mem(constant(n)), SCRATCH);
            }
            (a, Some(n)) => {
                self.asm.mov_immediate(SCRATCH, n, true);
                self.asm.test(width, a, SCRATCH);
            }
            (a, None) => match (a, self.rm(b)) {
                (a, Rm::Reg(b)) | (Rm::Reg(b), a) => self.asm.test(width, a, b),
                (Rm::Mem(a), Rm::Mem(b)) => {
                    let [a, b] = if is_through_scratch(a) { [b, a] } else { [a, b] };
                    self.asm.load(width, SCRATCH, b);
                    self.asm.test(width, Rm::Mem(a), SCRATCH);
                }
            },
        }
    }

    fn compare(&mut self, cond: IntCC, args: [Value; 2]) -> Flags {
        let zero = self.form.integer(args[1]) == Some(0);
        if zero && let Some(&Data::Binary { opcode: Opcode::Band, args }) = self.form.within(args[0]) {
            self.test(args);
            return Flags::One(condition(cond));
        }
        let width = width(self.form.ty(args[0]));
        let (mut cond, mut args) = (cond, args);
        if self.form.integer(args[0]).is_some() {
            (cond, args) = (cond.swap_args(), [args[1], args[0]]);
        }
        let [a, b] = args.map(|arg| self.operand(arg));
        let is_signed_or_equal = matches!(
            cond,
            IntCC::Equal | IntCC::NotEqual | IntCC::SignedLessThan | IntCC::SignedGreaterThanOrEqual
        );
        match (a, b) {
            (Operand::Reg(a), Operand::Constant(0)) if is_signed_or_equal => {
                self.asm.test(width, Rm::Reg(a), a);
            }
            (Operand::Reg(a), Operand::Constant(n)) if i32::try_from(n).is_ok() => {
                self.asm.alu_immediate(Alu::Cmp, width, Rm::Reg(a), n);
            }
            (Operand::Mem(a), Operand::Constant(n)) if i32::try_from(n).is_ok() => {
                self.asm.alu_immediate(Alu::Cmp, width, Rm::Mem(a), n);
            }
            (Operand::Reg(a), b @ Operand::Constant(_)) => {
                let b = self.wide(b);
                self.asm.alu(Alu::Cmp, width, a, b);
            }
            (Operand::Mem(a), Operand::Constant(n)) if is_through_scratch(a) => {
                self.asm.load(width, SCRATCH, a);
                let n = self.asm.constant(n as u64);
                self.asm.alu(Alu::Cmp, width, SCRATCH, Rm::Mem(constant(n)));
            }
            (Operand::Mem(a), Operand::Constant(n)) => {
                self.asm.mov_immediate(SCRATCH, n, true);
                self.asm.compare_memory(width, a, SCRATCH);
            }
            (Operand::Reg(a), Operand::Reg(b)) => self.asm.alu(Alu::Cmp, width, a, Rm::Reg(b)),
            (Operand::Reg(a), Operand::Mem(b)) => self.asm.alu(Alu::Cmp, width, a, Rm::Mem(b)),
            (Operand::Mem(a), Operand::Reg(b)) => self.asm.compare_memory(width, a, b),
            (Operand::Mem(a), Operand::Mem(b)) if is_through_scratch(b) => {
                self.asm.load(width, SCRATCH, b);
                self.asm.compare_memory(width, a, SCRATCH);
            }
            (Operand::Mem(a), Operand::Mem(b)) => {
                self.asm.load(width, SCRATCH, a);
                self.asm.alu(Alu::Cmp, width, SCRATCH, Rm::Mem(b));
            }
            (Operand::Constant(a), b) => {
                let Operand::Constant(b) = b else { unreachable!("a constant comes second") };
                self.asm.mov_immediate(SCRATCH, i64::from(cond.holds(a, b)), true);
                self.asm.alu_immediate(Alu::Cmp, Width::W64, Rm::Reg(SCRATCH), 0);
                return Flags::One(Cc::NOT_EQUAL);
            }
        }
        Flags::One(condition(cond))
    }

    fn compare_floats(&mut self, cond: FloatCC, args: [Value; 2]) -> Flags {
        let [a, b] = compared(cond, args);
        let a = match self.rm(a) {
            Rm::Reg(a) => a,
            Rm::Mem(mem) => {
                self.asm.load_float(FLOAT_SCRATCH, mem);
                FLOAT_SCRATCH
            }
        };
        let b = self.rm(b);
        self.asm.compare_floats(a, b);
        match cond {
            FloatCC::Equal => Flags::Both(Cc::NO_PARITY, Cc::EQUAL),
            FloatCC::NotEqual => Flags::Either(Cc::PARITY, Cc::NOT_EQUAL),
            FloatCC::LessThan | FloatCC::GreaterThan => Flags::One(Cc::ABOVE),
            FloatCC::LessThanOrEqual | FloatCC::GreaterThanOrEqual => Flags::One(Cc::AT_LEAST),
            FloatCC::UnorderedOrLessThan | FloatCC::UnorderedOrGreaterThan => Flags::One(Cc::BELOW),
            FloatCC::UnorderedOrLessThanOrEqual | FloatCC::UnorderedOrGreaterThanOrEqual => {
                Flags::One(Cc::AT_MOST)
            }
            FloatCC::Ordered => Flags::One(Cc::NO_PARITY),
            FloatCC::Unordered => Flags::One(Cc::PARITY),
            FloatCC::OrderedNotEqual => Flags::One(Cc::NOT_EQUAL),
            FloatCC::UnorderedOrEqual => Flags::One(Cc::EQUAL),
        }
    }

    // -- Instructions ---------------------------------------------------------------------------------------

    pub(super) fn instruction(&mut self, place: usize, inst: Inst) {
        match *self.form.data(inst) {
            Data::Load { arg, offset, .. } => {
                let (mem, to) = (self.address(arg, offset), self.result(inst));
                let ty = self.form.ty(self.form.func.result(inst).expect("it makes something"));
                match ty.is_float() {
                    true => self.asm.load_float(to, mem),
                    false => self.asm.load(width(ty), to, mem),
                }
            }
            Data::Store { args, offset } => self.store(width(self.form.ty(args[0])), args, offset),
            Data::Binary { opcode, args } => self.binary(inst, opcode, args),
            Data::Unary { opcode, arg } => self.unary(inst, opcode, arg),
            Data::CompareInts { .. } | Data::CompareFloats { .. } => {
                let flags = match *self.form.data(inst) {
                    Data::CompareInts { cond, args, .. } => self.compare(cond, args),
                    Data::CompareFloats { cond, args, .. } => self.compare_floats(cond, args),
                    _ => unreachable!("a comparison"),
                };
                let to = self.result(inst);
                self.set(flags, to);
            }
            Data::Select { args } => self.select(inst, args),
            Data::Jump { .. } => self.go_on(place, 0),
            Data::Branch { arg, .. } => {
                let flags = self.flags(arg);
                self.branch(place, flags);
            }
            Data::Return { args } => self.give_back(args),
            Data::Call { opcode, args, .. } => self.call(inst, opcode, args),
            Data::Depart { args } => self.depart(args),
            Data::Trap => {
                self.traps.push(self.asm.at());
                self.asm.trap();
            }
        }
    }

    fn set(&mut self, flags: Flags, to: Reg) {
        match flags {
            Flags::One(cc) => self.asm.set(cc, to),
            Flags::Both(a, b) | Flags::Either(a, b) => {
                self.asm.set(a, to);
                self.asm.set(b, SCRATCH);
                let op = if matches!(flags, Flags::Both(..)) { Alu::And } else { Alu::Or };
                self.asm.alu(op, Width::W32, to, Rm::Reg(SCRATCH));
            }
        }
    }

    fn store(&mut self, width: Width, [value, address]: [Value; 2], offset: i32) {
        let mem = self.address(address, offset);
        let through = is_through_scratch(mem);
        let constant = match self.form.at(value) {
            Where::Integer(n) => Some(n),
            Where::Float(bits) => Some(bits as i64),
            _ => None,
        };
        if let Some(n) = constant {
            if width != Width::W64 || i32::try_from(n).is_ok() {
                return self.asm.store_immediate(width, mem, n);
            }
            if through {
                self.asm.store_immediate(Width::W32, mem, n);
                let next = Mem { offset: mem.offset + 4, ..mem };
                return self.asm.store_immediate(Width::W32, next, n >> 32);
            }
            self.asm.mov_immediate(SCRATCH, n, true);
            return self.asm.store(width, mem, SCRATCH);
        }
        let is_float = self.form.ty(value).is_float();
        if through && matches!(self.form.at(value), Where::Stack(..)) {
            // The only address that two are needed for: one is saved.
            let Where::Stack(slot, from) = self.form.at(value) else { unreachable!("just seen") };
            let from = self.in_slot(slot, from);
            self.asm.float_of_bits(FLOAT_SCRATCH, RAX);
            self.asm.lea(RAX, from);
            self.asm.store(width, mem, RAX);
            return self.asm.bits_of_float(RAX, FLOAT_SCRATCH);
        }
        match self.operand(value) {
            Operand::Reg(r) if is_float => self.asm.store_float(mem, r),
            Operand::Reg(r) => self.asm.store(width, mem, r),
            Operand::Mem(from) if width == Width::W64 => {
                self.asm.load_float(FLOAT_SCRATCH, from);
                self.asm.store_float(mem, FLOAT_SCRATCH);
            }
            Operand::Mem(from) if !through => {
                self.asm.load(width, SCRATCH, from);
                self.asm.store(width, mem, SCRATCH);
            }
            Operand::Mem(from) => {
                // Base or index is the scratch register; the other one may be any.
                let is_part = |r| mem.base == Base::Reg(r) || mem.index.is_some_and(|of| of.0 == r);
                let by = if is_part(RAX) { RCX } else { RAX };
                self.asm.float_of_bits(FLOAT_SCRATCH, by);
                self.asm.load(width, by, from);
                self.asm.store(width, mem, by);
                self.asm.bits_of_float(by, FLOAT_SCRATCH);
            }
            Operand::Constant(_) => unreachable!("seen before"),
        }
    }

    fn binary(&mut self, inst: Inst, opcode: Opcode, args: [Value; 2]) {
        let ty = self.form.ty(self.form.func.result(inst).expect("it makes something"));
        let (to, width) = (self.result(inst), at_least_32(ty));
        match opcode {
            Opcode::Iadd => self.add(to, width, args),
            Opcode::Isub => self.subtract(to, width, args),
            Opcode::Band => self.commute(Alu::And, to, width, args),
            Opcode::Bor => self.commute(Alu::Or, to, width, args),
            Opcode::Bxor => self.commute(Alu::Xor, to, width, args),
            Opcode::Imul => self.multiply(to, width, args),
            Opcode::Ishl => self.shift(4, to, width, args),
            Opcode::Ushr => self.shift(5, to, width, args),
            Opcode::Sshr => self.shift(7, to, width, args),
            Opcode::Fadd => self.float(0x58, to, args),
            Opcode::Fmul => self.float(0x59, to, args),
            Opcode::Fsub => self.float(0x5C, to, args),
            Opcode::Fdiv => self.float(0x5E, to, args),
            Opcode::Umulhi => {
                let [a, by] = [self.operand(args[0]), self.operand(args[1])];
                self.copy(RAX, a);
                let by = self.not_constant(by);
                self.asm.multiply_high(by);
                self.copy(to, Operand::Reg(RDX));
            }
            _ => self.divide(opcode, to, width, args),
        }
    }

    /// The operand of an operation of 64 bits behind which nothing comes: a constant is in memory.
    fn wide(&mut self, operand: Operand) -> Rm {
        match operand {
            Operand::Constant(n) => Rm::Mem(constant(self.asm.constant(n as u64))),
            operand => self.not_constant(operand),
        }
    }

    /// A constant goes through the scratch register.
    fn not_constant(&mut self, operand: Operand) -> Rm {
        match operand {
            Operand::Reg(r) => Rm::Reg(r),
            Operand::Mem(mem) => Rm::Mem(mem),
            Operand::Constant(n) => {
                self.asm.mov_immediate(SCRATCH, n, true);
                Rm::Reg(SCRATCH)
            }
        }
    }

    /// Two operands whose order does not matter: a constant second, and what is where the result will be
    /// first.
    fn either_order(&mut self, to: Reg, args: [Value; 2]) -> [Operand; 2] {
        let [a, b] = args.map(|arg| self.operand(arg));
        match (a, b) {
            (Operand::Constant(_), _) => [b, a],
            (_, Operand::Constant(_)) => [a, b],
            (_, Operand::Reg(r)) if r == to => [b, a],
            // Memory may be that of the operand which is read late.
            (Operand::Mem(_), Operand::Reg(_)) => [b, a],
            _ => [a, b],
        }
    }

    fn commute(&mut self, op: Alu, to: Reg, width: Width, args: [Value; 2]) {
        let [a, b] = self.either_order(to, args);
        self.copy_bits(width, to, a);
        self.alu(op, width, to, b);
    }

    fn alu(&mut self, op: Alu, width: Width, to: Reg, by: Operand) {
        match by {
            Operand::Constant(n) if i32::try_from(n).is_ok() => {
                self.asm.alu_immediate(op, width, Rm::Reg(to), n);
            }
            by => {
                let by = self.wide(by);
                self.asm.alu(op, width, to, by);
            }
        }
    }

    fn add(&mut self, to: Reg, width: Width, args: [Value; 2]) {
        let [a, b] = self.either_order(to, args);
        match (a, b) {
            (Operand::Reg(a), Operand::Constant(n)) if a != to && i32::try_from(n).is_ok() => {
                self.asm.lea(to, Mem::at(a, n as i32));
            }
            (Operand::Reg(a), Operand::Reg(b)) if a != to && b != RSP => {
                self.asm.lea(to, Mem { base: Base::Reg(a), index: Some((b, 0)), offset: 0 });
            }
            _ => {
                self.copy_bits(width, to, a);
                self.alu(Alu::Add, width, to, b);
            }
        }
    }

    fn subtract(&mut self, to: Reg, width: Width, args: [Value; 2]) {
        let [a, b] = args.map(|arg| self.operand(arg));
        match (a, b) {
            (Operand::Reg(a), Operand::Constant(n)) if a != to && i32::try_from(n.wrapping_neg()).is_ok() => {
                self.asm.lea(to, Mem::at(a, n.wrapping_neg() as i32));
            }
            _ => {
                self.copy_bits(width, to, a);
                self.alu(Alu::Sub, width, to, b);
            }
        }
    }

    fn multiply(&mut self, to: Reg, width: Width, args: [Value; 2]) {
        let [a, b] = self.either_order(to, args);
        match (a, b) {
            (Operand::Constant(_), _) => {
                self.copy(to, a);
                let b = self.not_constant(b);
                self.asm.multiply(width, to, b);
            }
            (a, Operand::Constant(n)) if i32::try_from(n).is_ok() => {
                let a = self.not_constant(a);
                self.asm.multiply_immediate(width, to, a, n as i32);
            }
            (a, b) => {
                self.copy_bits(width, to, a);
                let b = self.wide(b);
                self.asm.multiply(width, to, b);
            }
        }
    }

    fn shift(&mut self, op: u8, to: Reg, width: Width, args: [Value; 2]) {
        let a = self.operand(args[0]);
        if let Some(n) = self.form.integer(args[1]) {
            let bits = if width == Width::W64 { 63 } else { 31 };
            self.copy_bits(width, to, a);
            return self.asm.shift_immediate(op, width, to, (n & bits) as u8);
        }
        let by = self.operand(args[1]);
        self.copy_bits(Width::W64, RCX, by);
        self.copy_bits(width, to, a);
        self.asm.shift(op, width, to);
    }

    /// Most numbers fit in half a word, whose division takes two thirds of the time, and less than a third where
    /// processors are older.
    fn divide(&mut self, opcode: Opcode, to: Reg, width: Width, args: [Value; 2]) {
        let [a, by] = args.map(|arg| self.operand(arg));
        self.copy_bits(width, RAX, a);
        let by = self.not_constant(by);
        let [is_wide, done] = [(); 2].map(|()| self.asm.label());
        if width == Width::W64 {
            self.asm.mov(RDX, RAX);
            self.asm.alu(Alu::Or, width, RDX, by);
            self.asm.shift_immediate(5, width, RDX, 32);
            self.asm.jump_if(Cc::NOT_EQUAL, is_wide);
        } else {
            self.asm.mov_immediate(RDX, 0, false);
        }
        // RDX is 0.
        self.traps.push(self.asm.at());
        self.asm.divide(Width::W32, false, by);
        if width == Width::W64 {
            self.asm.jump(done);
            self.asm.bind(is_wide);
            self.divide_wide(opcode, by);
        }
        self.asm.bind(done);
        let rest = matches!(opcode, Opcode::Urem | Opcode::FloorMod);
        self.copy(to, Operand::Reg(if rest { RDX } else { RAX }));
    }

    /// Divides RAX: the quotient is in RAX, what is left in RDX, if that is asked for.
    fn divide_wide(&mut self, opcode: Opcode, by: Rm) {
        let signed = matches!(opcode, Opcode::FloorDiv | Opcode::FloorMod);
        match signed {
            true => self.asm.sign_into_rdx(Width::W64),
            false => self.asm.mov_immediate(RDX, 0, false),
        }
        self.traps.push(self.asm.at());
        self.asm.divide(Width::W64, signed, by);
        match opcode {
            // One less if something below zero is left.
            Opcode::FloorDiv => {
                self.asm.shift_immediate(7, Width::W64, RDX, 63);
                self.asm.alu(Alu::Add, Width::W64, RAX, Rm::Reg(RDX));
            }
            Opcode::FloorMod => {
                self.asm.mov(RAX, RDX);
                self.asm.shift_immediate(7, Width::W64, RAX, 63);
                self.asm.alu(Alu::And, Width::W64, RAX, by);
                self.asm.alu(Alu::Add, Width::W64, RDX, Rm::Reg(RAX));
            }
            _ => {}
        }
    }

    fn float(&mut self, opcode: u8, to: Reg, args: [Value; 2]) {
        let [a, b] = args.map(|arg| self.rm(arg));
        if !self.form.has_avx {
            self.copy_float(to, a);
            return self.asm.float(opcode, to, b);
        }
        let a = match a {
            Rm::Reg(r) => r,
            Rm::Mem(mem) => {
                self.asm.load_float(FLOAT_SCRATCH, mem);
                FLOAT_SCRATCH
            }
        };
        self.asm.float_of_two(opcode, to, a, b);
    }

    fn unary(&mut self, inst: Inst, opcode: Opcode, arg: Value) {
        let (to, ty) = (self.result(inst), self.form.ty(arg));
        match opcode {
            Opcode::Uextend => {
                let from = self.rm(arg);
                self.asm.extend_zero(width(ty), to, from);
            }
            Opcode::Sextend => {
                let from = self.rm(arg);
                self.asm.extend_sign(width(ty), to, from);
            }
            Opcode::Bnot | Opcode::Ineg => {
                let a = self.operand(arg);
                self.copy_bits(at_least_32(ty), to, a);
                match opcode {
                    Opcode::Bnot => self.asm.not(at_least_32(ty), to),
                    _ => self.asm.negate(at_least_32(ty), to),
                }
            }
            Opcode::Bitcast if ty.is_float() => match self.rm(arg) {
                Rm::Reg(r) => self.asm.bits_of_float(to, r),
                Rm::Mem(mem) => self.asm.load(Width::W64, to, mem),
            },
            Opcode::Bitcast => match self.rm(arg) {
                Rm::Reg(r) => self.asm.float_of_bits(to, r),
                Rm::Mem(mem) => self.asm.load_float(to, mem),
            },
            Opcode::FcvtFromSint => {
                let from = self.rm(arg);
                // The instruction keeps the other half, and would wait for it.
                self.asm.zero_float(to);
                self.asm.float_of_integer(at_least_32(ty), to, from);
            }
            Opcode::FcvtToSint => {
                let from = self.rm(arg);
                self.asm.integer_of_float(to, from);
            }
            Opcode::Fpromote => {
                let from = match self.rm(arg) {
                    Rm::Reg(r) => {
                        self.asm.float_of_bits(FLOAT_SCRATCH, r);
                        Rm::Reg(FLOAT_SCRATCH)
                    }
                    mem => mem,
                };
                // The instruction keeps the other half, and would wait for it.
                self.asm.zero_float(to);
                self.asm.widen_float(to, from);
            }
            Opcode::Fdemote => {
                let from = self.rm(arg);
                self.asm.zero_float(FLOAT_SCRATCH);
                self.asm.narrow_float(FLOAT_SCRATCH, from);
                self.asm.bits_of_float(to, FLOAT_SCRATCH);
            }
            Opcode::Fneg | Opcode::Fabs => {
                let a = self.rm(arg);
                self.copy_float(to, a);
                let sign = 1i64 << 63;
                let (bits, opcode) = if opcode == Opcode::Fneg { (sign, 0x57) } else { (!sign, 0x54) };
                self.asm.mov_immediate(SCRATCH, bits, true);
                self.asm.float_of_bits(FLOAT_SCRATCH, SCRATCH);
                self.asm.float_bits(opcode, to, FLOAT_SCRATCH);
            }
            Opcode::Sqrt => {
                match self.rm(arg) {
                    // Else it keeps half of what is there, and waits for it.
                    Rm::Reg(a) if self.form.has_avx => self.asm.float_of_two(0x51, to, a, Rm::Reg(a)),
                    a => self.asm.float(0x51, to, a),
                }
            }
            Opcode::Floor | Opcode::Ceil => {
                let how = if opcode == Opcode::Floor { 1 } else { 2 };
                let a = match self.rm(arg) {
                    // A constant lies behind the code, and this has an operand behind its address.
                    Rm::Mem(mem) => {
                        self.asm.load_float(FLOAT_SCRATCH, mem);
                        FLOAT_SCRATCH
                    }
                    Rm::Reg(r) => r,
                };
                self.asm.round(how, to, Rm::Reg(a));
            }
            _ => unreachable!("{opcode:?} is not known"),
        }
    }

    /// The integer that a float is without its fraction; the nearest there is, and 0 for what is none.
    fn select(&mut self, inst: Inst, [condition, x, y]: [Value; 3]) {
        let flags = self.flags(condition);
        let to = self.result(inst);
        if self.form.ty(x).is_float() {
            let y = self.rm(y);
            self.copy_float(to, y);
            let past = self.asm.label();
            self.jump_if(flags.negated(), past);
            let x = self.rm(x);
            self.copy_float(to, x);
            return self.asm.bind(past);
        }
        let Flags::One(cc) = flags else { unreachable!("a condition of one move") };
        let y = self.operand(y);
        self.copy(to, y);
        let x = self.rm(x);
        self.asm.move_if(cc, to, x);
    }

    fn give_back(&mut self, args: List) {
        let (mut words, mut floats) = ([RAX, RDX].into_iter(), [0, 1].into_iter());
        let mut moves = Vec::new();
        for &value in self.form.func.list(args) {
            let to = match self.form.ty(value).is_float() {
                true => Spot::Float(floats.next().expect("two results in registers")),
                false => Spot::Integer(words.next().expect("two results in registers")),
            };
            moves.push((to, self.from(value, 4 * self.at)));
        }
        moves::make(&mut self.asm, &moves);
        self.leave();
        self.asm.ret();
    }

    /// The code is left: nothing is moved, and where values are is told.
    fn depart(&mut self, args: List) {
        let home = |from: From| match from {
            From::Spot(Spot::Integer(r)) => At::Integer(r),
            From::Spot(Spot::Float(r)) => At::Float(r),
            From::Spot(Spot::Slot(offset)) => At::Frame(offset),
            From::Constant(n) => At::Constant(n as u64),
            From::FloatConstant(bits) => At::Constant(bits),
            From::Address(_) => unreachable!("no address of the stack is stored"),
        };
        let at = 4 * self.at;
        let [point, base, pairs @ ..] = self.form.func.list(args) else {
            unreachable!("a point, and a base")
        };
        let point = self.form.integer(*point).expect("a point is a constant") as usize;
        let base = home(self.from(*base, at));
        let saved: Vec<Saved> = pairs
            .chunks_exact(2)
            .map(|pair| {
                let (offset, is_byte) = backend::apart(self.form.integer(pair[0]).expect("a constant"));
                Saved { offset, is_byte, home: home(self.from(pair[1], at)) }
            })
            .collect();
        let number = self.departures.push(point, base, saved);
        self.mark(Mark::Departs);
        let departs = match self.departs {
            Some(label) => label,
            None => *self.departs.insert(self.asm.label()),
        };
        self.asm.mov_immediate(SCRATCH, number.into(), true);
        self.asm.jump(departs);
    }

    fn call(&mut self, inst: Inst, opcode: Opcode, args: List) {
        let args = self.form.func.list(args);
        let (callee, args) = (args[0], &args[1..]);
        let at = 4 * self.at;
        let (mut words, mut floats, mut stack) = (ARGUMENTS.iter(), 0..8, 0);
        let mut moves = Vec::new();
        for &value in args {
            let from = self.from(value, at);
            if self.form.ty(value).is_float() {
                moves.push((Spot::Float(floats.next().expect("a float in a register")), from));
            } else if let Some(&word) = words.next() {
                moves.push((Spot::Integer(word), from));
            } else {
                let from = self.operand(value);
                let from = match from {
                    Operand::Reg(r) => r,
                    from => {
                        self.copy(SCRATCH, from);
                        SCRATCH
                    }
                };
                self.asm.store(Width::W64, Mem::at(RSP, stack), from);
                stack += 8;
            }
        }
        // The callee is where no argument goes.
        let callee = match self.operand(callee) {
            Operand::Reg(r) if opcode == Opcode::CallIndirect && !CHANGED.contains(&r) => Operand::Reg(r),
            Operand::Constant(n) => Operand::Constant(n),
            from => {
                self.copy(SCRATCH, from);
                Operand::Reg(SCRATCH)
            }
        };
        // No flags are asked for any more, so zeros are made of nothing.
        let (zeros, moves): (Moves, Moves) = moves.into_iter().partition(|of| of.1 == From::Constant(0));
        moves::make(&mut self.asm, &moves);
        for (to, zero) in zeros {
            match to {
                Spot::Integer(r) => self.asm.mov_immediate(r, 0, false),
                _ => moves::make(&mut self.asm, &[(to, zero)]),
            }
        }
        let callee = match callee {
            Operand::Reg(r) => r,
            from => {
                self.copy(SCRATCH, from);
                SCRATCH
            }
        };
        if opcode == Opcode::ReturnCallIndirect {
            self.leave();
            return self.asm.jump_to(callee);
        }
        self.asm.call(Rm::Reg(callee));
        let (mut words, mut floats) = ([RAX, RDX].into_iter(), [0, 1].into_iter());
        let mut results = Vec::new();
        for result in self.form.func.results(inst) {
            let from = match self.form.ty(result).is_float() {
                true => Spot::Float(floats.next().expect("two results in registers")),
                false => Spot::Integer(words.next().expect("two results in registers")),
            };
            if let Some(name) = self.form.name(result) {
                results.push((self.spot_at(name, at + 2), From::Spot(from)));
            }
        }
        moves::make(&mut self.asm, &results);
    }
}

fn is_through_scratch(mem: Mem) -> bool {
    mem.base == Base::Reg(SCRATCH) || mem.index.is_some_and(|(index, _)| index == SCRATCH)
}

fn condition(cond: IntCC) -> Cc {
    match cond {
        IntCC::Equal => Cc::EQUAL,
        IntCC::NotEqual => Cc::NOT_EQUAL,
        IntCC::SignedLessThan => Cc::LESS,
        IntCC::SignedGreaterThanOrEqual => Cc::GREATER_OR_EQUAL,
        IntCC::SignedGreaterThan => Cc::GREATER,
        IntCC::SignedLessThanOrEqual => Cc::LESS_OR_EQUAL,
        IntCC::UnsignedLessThan => Cc::BELOW,
        IntCC::UnsignedGreaterThanOrEqual => Cc::AT_LEAST,
        IntCC::UnsignedGreaterThan => Cc::ABOVE,
        IntCC::UnsignedLessThanOrEqual => Cc::AT_MOST,
    }
}
