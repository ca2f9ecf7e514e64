//! Calls of natives.
//!
//! One that has always been called at a place is guarded, and then, whichever is the first that will do: what
//! it does is instructions in line ([`Intrinsic`]); its quick form is called, which needs nothing of the
//! frame ([`Quick`], or [`Several`], which gives several values in their registers); or a function runs it in a
//! frame of its own, as the interpreter would ([`layout::call_native`]). See `perilune_vm::machine`,
//! `natives.rs`.
//!
//! What an open list of arguments or results is: the arguments of a call may end at the top (`b == 0`), where
//! the instruction before has put it; and a call may be asked for all results (`c == 0`): then it sets the
//! top. A quick form does both. Arguments that are not part of the open list may be in processor registers,
//! like any others, and are stored before.

use super::facts::Fact;
use super::{Known, Lowering, Ty};
use crate::ssa::{Block, FloatCC, IntCC, Type, Value};
use perilune_syntax::Op;
use perilune_vm::machine::{UNKNOWN, layout};
use perilune_vm::{Effect, Intrinsic, Native, Quick, Several, Tag};

impl Lowering<'_, '_> {
    /// `CALL` of what is no Lua function.
    pub(super) fn call_native(&mut self, at: usize) {
        let (i, site) = (self.code(at), self.site(at));
        let iterates = site.native.filter(|_| !site.natives).and_then(|native| match native.intrinsic? {
            Intrinsic::Ipairs(step) => Some((step, Some(0))),
            Intrinsic::Pairs(step) => Some((step, None)),
            _ => None,
        });
        if let Some((step, start)) = iterates
            && self.prepare_iteration(at, step, start)
        {
            return;
        }
        if matches!(i.c(), 1 | 2) && !site.natives && self.set_metatable(at)
            || self.check(at)
            || self.byte_of_string(at)
            || self.bytes_of_string(at)
        {
            return;
        }
        let is_plain = matches!(i.c(), 0 | 2) && i.b() > 1;
        let known = site.native.filter(|_| !site.natives && is_plain && !self.is_suspect(at));
        let Some((native, intrinsic)) = known.and_then(|n| Some((n, n.intrinsic?))) else {
            return self.call_plainly(at);
        };
        let a = i.a() as usize;
        let (first, count) = self.arguments_of(at);
        let slow = self.slow(at);
        let before = self.now.clone();
        let arguments = Arguments { first, count, slow: slow.block };
        // Nothing is built before it is clear that all of it can be.
        let result = match self.can_do(at, intrinsic, (first, count)) {
            true => {
                self.is_native(a, native, slow.block);
                self.do_native(intrinsic, &arguments)
            }
            false => None,
        };
        let Some(result) = result else {
            self.now = before;
            return self.call_plainly(at);
        };
        self.forget_changed(at);
        self.define(a, result);
        if i.c() == 0 {
            self.one_result(at);
            return self.join_one(at, slow, (a, self.ty(a)));
        }
        self.join(at, slow, Some((a, self.ty(a))));
    }

    /// As [`Lowering::join`], for a call for all results, of which there is one.
    pub(super) fn join_one(&mut self, at: usize, slow: super::Slow, (r, ty): (usize, Ty)) {
        self.join_behind(at, slow, |this| {
            this.one_result_there(at);
            if ty != Ty::Any {
                this.guard_made(at, r, ty);
            }
        });
    }

    /// Whatever the call has left in its registers is nobody's to see.
    pub(super) fn forget_changed(&mut self, at: usize) {
        self.forget_but(at, None);
    }

    /// The same of all but one register.
    pub(super) fn forget_but(&mut self, at: usize, kept: Option<usize>) {
        let changed = self.code(at).changed();
        if let Some(now) = &mut self.now {
            let is_over = |r: &usize| changed.contains(*r as u8) && kept != Some(*r);
            for r in (0..now.registers.len()).filter(is_over) {
                now.registers[r] = super::Register::UNKNOWN;
                now.renew(r, super::Name::made(at, r));
            }
        }
    }

    /// A call of a native that is not done in line.
    fn call_plainly(&mut self, at: usize) {
        let (i, site) = (self.code(at), self.site(at));
        let quick = site.native.filter(|_| !site.natives).and_then(|native| Some((native, native.quick?)));
        // A collection needs the top for itself: it comes after the call, or before it.
        let takes_list = self.raw(at).b() == 0;
        let fits = |quick: &Quick| match i.c() {
            0 => quick.gives_one && (quick.effect == Effect::Nothing || !takes_list),
            1 | 2 => true,
            _ => false,
        };
        if let Some((native, quick)) = quick.filter(|(_, quick)| fits(quick)) {
            return self.call_quick(at, native, &quick);
        }
        let several =
            site.native.filter(|_| !site.natives).and_then(|native| Some((native, native.several?)));
        match several.filter(|(_, several)| several.effect == Effect::Nothing || !(takes_list && i.c() == 0))
        {
            Some((native, several)) => self.call_several(at, native, &several),
            None => self.step_and_guard(at),
        }
    }

    /// A call of a native by its quick form of several values.
    fn call_several(&mut self, at: usize, native: &'static Native, several: &Several) {
        let i = self.code(at);
        let (a, results) = (i.a() as usize, i.c());
        let slow = self.slow(at);
        let collects = several.effect != Effect::Nothing;
        let (arguments, count) = self.quick_arguments(at, native, slow.block, collects && results == 0);
        let vm = self.vm;
        let wanted = self.b.iconst(Type::I64, results as i64 - 1);
        let answer = self.leaf(several.entry as usize, &[vm, arguments, count, wanted]);
        let done = self.icmp_imm(IntCC::NotEqual, answer, Several::NOT_DONE as i64);
        self.if_done(done, slow.block);
        if let (Effect::Stores, Some(now)) = (several.effect, &mut self.now) {
            now.forget_structure(at);
        }
        self.forget_changed(at);
        self.guard_result(at);
        let given = (a, self.ty(a));
        if self.has_given_one(at) {
            self.one_result_there(at);
            return self.join_one(at, slow, given);
        }
        if collects && results != 0 {
            self.collect_if_due(at, true);
        }
        self.join(at, slow, (results > 1).then_some(given));
    }

    /// A call of a native by its quick form.
    fn call_quick(&mut self, at: usize, native: &'static Native, quick: &Quick) {
        let i = self.code(at);
        let (a, results) = (i.a() as usize, i.c());
        let slow = self.slow(at);
        let collects = quick.effect != Effect::Nothing;
        let [payload, tag] = self.quick_form(at, native, quick, slow.block, collects && results == 0);
        self.forget_changed(at);
        let mut fast = None;
        if results != 1 {
            let ty = if results == 2 { self.result(at) } else { Ty::Any };
            self.take_answer(at, a, ty, payload, tag);
            fast = Some((a, ty));
        }
        if results == 0 {
            self.one_result(at);
            return self.join_one(at, slow, (a, Ty::Any));
        }
        if collects {
            self.collect_if_due(at, true);
        }
        self.join(at, slow, fast);
    }

    /// The native of instruction `at`, a call or a tail call, does its quick form: the payload and the tag of
    /// its value. Where it does nothing, or another function is called, goes to `slow`. `collects`: before
    /// it, a collection may be due.
    pub(super) fn quick_form(
        &mut self,
        at: usize,
        native: &'static Native,
        quick: &Quick,
        slow: Block,
        collects: bool,
    ) -> [Value; 2] {
        let (arguments, count) = self.quick_arguments(at, native, slow, collects);
        let vm = self.vm;
        let answer: [Value; 2] = self.words(quick.entry as usize, &[vm, arguments, count]);
        let done = self.icmp_imm(IntCC::NotEqual, answer[1], UNKNOWN as i64);
        self.if_done(done, slow);
        if let (Effect::Stores, Some(now)) = (quick.effect, &mut self.now) {
            now.forget_structure(at);
        }
        answer
    }

    /// The address of the arguments of instruction `at`, which calls this native, and how many there are; all are
    /// in their registers. If another function is called, goes to `slow`. `collects`: before the call, a
    /// collection may be due.
    fn quick_arguments(
        &mut self,
        at: usize,
        native: &'static Native,
        slow: Block,
        collects: bool,
    ) -> (Value, Value) {
        let i = self.code(at);
        let a = i.a() as usize;
        let first = a + layout::GAP as usize;
        if self.site(at).has_upvalues {
            self.is_native_closure(a, std::ptr::from_ref(native) as usize, slow);
        } else {
            self.is_native(a, native, slow);
        }
        if collects {
            self.collect_if_due(at, false);
        }
        let past = if i.b() == 0 { self.registers() } else { first + i.b() as usize - 1 };
        (first..past).for_each(|r| self.flush(r));
        let (vm, base) = (self.vm, self.b.use_var(self.base));
        let arguments = self.iadd_imm(base, Self::slot(first) as i64);
        let count = match i.b() {
            0 => {
                let top = self.load(Type::I64, vm, layout::VM_TOP);
                let bytes = self.b.isub(top, arguments);
                let size = self.b.iconst(Type::I64, layout::VALUE_SIZE.trailing_zeros() as i64);
                self.b.ushr(bytes, size)
            }
            b => self.b.iconst(Type::I64, b as i64 - 1),
        };
        (arguments, count)
    }

    /// Register `a` becomes the value of these parts, which is of this type, else the code exits behind
    /// instruction `at`: that has been done.
    pub(super) fn take_answer(&mut self, at: usize, a: usize, ty: Ty, payload: Value, tag: Value) {
        let own = self.b.ireduce(Type::I8, tag);
        let Some(wanted) = ty.tag() else { return self.put(a, own, payload) };
        let [on, other] = [(); 2].map(|()| self.b.create_block());
        self.b.set_cold_block(other);
        let is = self.icmp_imm(IntCC::Equal, tag, wanted.0 as i64);
        self.b.brif(is, on, &[], other, &[]);
        self.go_to(other);
        let known = self.now.clone();
        self.put(a, own, payload);
        let exit = self.other_result(at, at + 1);
        self.b.jump(exit, &[]);
        self.now = known;
        self.go_to(on);
        let val = match ty {
            Ty::Float => self.b.bitcast(Type::F64, payload),
            _ => payload,
        };
        self.define(a, Known { ty, val });
    }

    /// Register `r` has this native with upvalues, else goes to `slow`.
    pub(super) fn is_native_closure(&mut self, r: usize, address: usize, slow: Block) {
        let fact = Fact::NativeClosure(self.name_of(r), address);
        if self.has(fact) {
            return;
        }
        let tag = self.tag_of(r);
        let is = self.icmp_imm(IntCC::Equal, tag, Tag::NATIVE_CLOSURE.0 as i64);
        self.unless(is, slow);
        let closure = self.payload_of(r);
        let own = self.load(Type::I64, closure, layout::CLOSURE_NATIVE);
        let wanted = self.b.iconst(Type::I64, address as i64);
        let same = self.b.icmp(IntCC::Equal, own, wanted);
        self.unless(same, slow);
        if !self.captured.contains(r as u8) {
            self.keep(fact, Vec::new());
        }
    }

    /// Register `r` has this native, else goes to `slow`.
    pub(super) fn is_native(&mut self, r: usize, native: &'static Native, slow: Block) {
        self.is_native_at(r, std::ptr::from_ref(native) as usize, slow);
    }

    /// Register `r` has the native at this address, else goes to `slow`.
    pub(super) fn is_native_at(&mut self, r: usize, native: usize, slow: Block) {
        let fact = Fact::Native(self.name_of(r), native);
        if self.has(fact) {
            return;
        }
        let tag = self.tag_of(r);
        let is = self.icmp_imm(IntCC::Equal, tag, Tag::NATIVE.0 as i64);
        self.unless(is, slow);
        let own = self.payload_of(r);
        let wanted = self.b.iconst(Type::I64, native as i64);
        let same = self.b.icmp(IntCC::Equal, own, wanted);
        self.unless(same, slow);
        if !self.captured.contains(r as u8) {
            self.keep(fact, Vec::new());
        }
    }

    /// Register `r` becomes this native.
    pub(super) fn put_native(&mut self, r: usize, native: &'static Native) {
        let tag = self.b.iconst(Type::I8, Tag::NATIVE.0 as i64);
        let address = std::ptr::from_ref(native) as usize;
        let payload = self.b.iconst(Type::I64, address as i64);
        self.put(r, tag, payload);
        if !self.captured.contains(r as u8) {
            self.keep(Fact::Native(self.name_of(r), address), Vec::new());
        }
    }

    /// Whether [`Lowering::do_native`] knows how.
    fn can_do(&self, at: usize, intrinsic: Intrinsic, (first, count): (usize, usize)) -> bool {
        let types: Vec<Ty> = (0..count).map(|n| self.ty(first + n)).collect();
        // What a tail call has given back is not seen.
        let result = self.site(at).result.only();
        let gives = |tag: Tag| self.code(at).op() == Some(Op::TailCall) || result == Some(tag);
        let number = types[0].is_number();
        match intrinsic {
            Intrinsic::Abs => number,
            Intrinsic::Sqrt | Intrinsic::Float(_) => types[0] != Ty::Table && gives(Tag::FLOAT),
            Intrinsic::Floor | Intrinsic::Ceil => {
                types[0] == Ty::Int || (types[0] == Ty::Float && gives(Tag::INT))
            }
            Intrinsic::Max | Intrinsic::Min => types.len() == 2 && number && types[0] == types[1],
            Intrinsic::Len => types[0] == Ty::Any,
            Intrinsic::Byte => {
                let position = types.len() == 1 || (types.len() == 2 && types[1] == Ty::Int);
                types[0] == Ty::Any && position && gives(Tag::INT)
            }
            // These are done elsewhere, if at all.
            Intrinsic::Ipairs(_) | Intrinsic::Pairs(_) | Intrinsic::Select | Intrinsic::SetMetatable => false,
            Intrinsic::Assert | Intrinsic::Type | Intrinsic::Sub => false,
        }
    }

    /// Whether instruction `at`, a tail call of a native without a quick form, can be a few instructions.
    pub(super) fn may_give(&mut self, at: usize, native: &'static Native) -> bool {
        let Some(intrinsic) = native.intrinsic else { return false };
        let (first, count) = self.arguments_of(at);
        if !self.can_do(at, intrinsic, (first, count)) {
            return false;
        }
        match intrinsic {
            Intrinsic::Sqrt | Intrinsic::Float(_) | Intrinsic::Len => true,
            Intrinsic::Byte => count == 1 || self.known(first + 1).is_some(),
            // These have quick forms.
            _ => false,
        }
    }

    /// What a native gives that [may be](Lowering::may_give) a few instructions becomes the register of instruction
    /// `at`; goes to `slow` if the arguments do not suit.
    pub(super) fn give_in_line(&mut self, at: usize, native: &'static Native, slow: Block) {
        let a = self.code(at).a() as usize;
        let (first, count) = self.arguments_of(at);
        let arguments = Arguments { first, count, slow };
        self.is_native(a, native, slow);
        let result = native.intrinsic.and_then(|intrinsic| self.do_native(intrinsic, &arguments));
        self.define(a, result.expect("a native that can be done"));
    }

    /// Where the arguments of instruction `at`, a call of so many, are, and how many.
    fn arguments_of(&self, at: usize) -> (usize, usize) {
        let i = self.code(at);
        (i.a() as usize + layout::GAP as usize, i.b() as usize - 1)
    }

    fn do_native(&mut self, intrinsic: Intrinsic, arguments: &Arguments) -> Option<Known> {
        let &Arguments { first, count, slow } = arguments;
        let float = |val| Some(Known { ty: Ty::Float, val });
        let int = |val| Some(Known { ty: Ty::Int, val });
        match intrinsic {
            Intrinsic::Ipairs(_) | Intrinsic::Pairs(_) | Intrinsic::Select | Intrinsic::SetMetatable => None,
            Intrinsic::Assert | Intrinsic::Type | Intrinsic::Sub => None,
            Intrinsic::Abs => match self.known(first)? {
                Known { ty: Ty::Int, val } => {
                    let negative = self.icmp_imm(IntCC::SignedLessThan, val, 0);
                    let other = self.b.ineg(val);
                    int(self.b.select(negative, other, val))
                }
                x => float(self.b.fabs(x.val)),
            },
            Intrinsic::Sqrt => {
                let x = self.argument(first, slow);
                float(self.b.sqrt(x))
            }
            Intrinsic::Float(function) => {
                let x = self.argument(first, slow);
                float(self.by_function(function as usize, &[x]))
            }
            Intrinsic::Floor | Intrinsic::Ceil => match self.known(first)? {
                x if x.ty == Ty::Int => Some(x),
                x => {
                    let b = &mut *self.b;
                    let whole =
                        if matches!(intrinsic, Intrinsic::Floor) { b.floor(x.val) } else { b.ceil(x.val) };
                    int(self.without_fraction(whole, slow))
                }
            },
            Intrinsic::Max | Intrinsic::Min => {
                let (x, y) = (self.known(first)?, self.known(first + 1)?);
                let greater = matches!(intrinsic, Intrinsic::Max);
                // The first one, unless the second is better: that decides which of two zeros, and what a NaN
                // does.
                let better = match x.ty {
                    Ty::Int => {
                        let order = if greater { IntCC::SignedGreaterThan } else { IntCC::SignedLessThan };
                        self.b.icmp(order, y.val, x.val)
                    }
                    _ => {
                        let order = if greater { FloatCC::GreaterThan } else { FloatCC::LessThan };
                        self.b.fcmp(order, y.val, x.val)
                    }
                };
                Some(Known { ty: x.ty, val: self.b.select(better, y.val, x.val) })
            }
            Intrinsic::Len => {
                let string = self.string(first, slow);
                let length = self.load(Type::I32, string, layout::STRING_LENGTH);
                int(self.b.uextend(Type::I64, length))
            }
            Intrinsic::Byte => {
                let string = self.string(first, slow);
                let position = match count {
                    1 => self.b.iconst(Type::I64, 1),
                    _ => self.known(first + 1)?.val,
                };
                int(self.byte_at(string, position, slow))
            }
        }
    }

    /// The float of a number that is an argument; else goes to `slow`.
    fn argument(&mut self, r: usize, slow: Block) -> Value {
        match self.known(r) {
            Some(n) => self.float(n),
            None => self.any_float(r, slow),
        }
    }

    /// The integer that a float without a fraction is; goes to `slow` if there is none, or it is the least one.
    fn without_fraction(&mut self, x: Value, slow: Block) -> Value {
        let int = self.b.fcvt_to_sint(x);
        let is_there = self.icmp_imm(IntCC::NotEqual, int, i64::MIN);
        self.unless(is_there, slow);
        int
    }
}

/// Where the arguments of a call are, and where to go if they do not suit.
struct Arguments {
    first: usize,
    count: usize,
    slow: Block,
}
