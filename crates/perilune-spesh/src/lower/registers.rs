//! What is known of registers, and where their values are: in a register of the processor, in the slot, or in
//! both.

use super::facts::Fact;
use super::{EXITED, Known, Lowering, Name, Register, Ty, Val, units};
use crate::ssa::{Block, IntCC, Type};
use perilune_syntax::Constant;
use perilune_vm::machine::layout;

impl Lowering<'_, '_> {
    pub(super) fn register(&self, r: usize) -> Option<Register> {
        self.now.as_ref().map(|state| state.registers[r])
    }

    pub(super) fn ty(&self, r: usize) -> Ty {
        self.register(r).map_or(Ty::Any, |r| r.ty)
    }

    pub(super) fn set(&mut self, r: usize, to: Register) {
        if let Some(state) = &mut self.now {
            let unknown = self.captured.contains(r as u8);
            state.registers[r] = if unknown { Register::UNKNOWN } else { to.sound() };
        }
    }

    /// Register `r` has got another value.
    pub(super) fn renew(&mut self, r: usize) {
        if let Some(state) = &mut self.now {
            state.renew(r, Name::made(self.at, r));
        }
    }

    /// The slot of register `r` has been written, with nobody knows what.
    pub(super) fn set_unknown(&mut self, r: usize) {
        self.set(r, Register::UNKNOWN);
        self.renew(r);
    }

    /// The slot of register `r` holds what the register does.
    pub(super) fn flush(&mut self, r: usize) {
        self.make_in(r);
        let Some(own) = self.register(r).filter(|r| r.dirty) else { return };
        assert!(own == own.sound(), "no more is said of a slot than the type of its register");
        if own.ty == Ty::Number {
            let base = self.b.use_var(self.base);
            self.write_number(r, base);
            return self.set(r, Register { ty: own.ty, slot: Ty::Any, dirty: false });
        }
        let Some(known) = self.known(r) else { return };
        let base = self.b.use_var(self.base);
        self.write(known, own.slot, base, r);
        self.set(r, Register { ty: own.ty, slot: own.ty, dirty: false });
    }

    /// All slots hold what their registers do: somebody may look at them.
    pub(super) fn flush_all(&mut self) {
        (0..self.registers()).for_each(|r| self.flush(r));
    }

    /// Writes a value into the slot of register `r`, whose tag says what is told.
    pub(super) fn write(&mut self, known: Known, slot: Ty, base: Val, r: usize) {
        self.store(known.val, base, Self::slot(r) + layout::PAYLOAD);
        if slot != known.ty
            && let Some(tag) = known.ty.tag()
        {
            self.store_tag(tag, base, Self::slot(r));
        }
    }

    /// The value of register `r` if its type is known, and one.
    pub(super) fn known(&mut self, r: usize) -> Option<Known> {
        self.make_in(r);
        let ty = self.ty(r);
        let val = match ty {
            Ty::Any | Ty::Number | Ty::Unmade => return None,
            Ty::Float => self.b.use_var(self.floats[r]),
            _ => self.b.use_var(self.ints[r]),
        };
        Some(Known { ty, val })
    }

    /// Whether this is in a loop, the innermost, that calls no function of Lua but those that are built in place:
    /// what is in a register of the processor stays there.
    fn is_in_quiet_loop(&self) -> bool {
        let inside = |l: &&units::Region| (l.head..=l.back).contains(&self.at);
        let innermost = self.loops.iter().filter(|_| self.frame == 0).filter(inside).max_by_key(|l| l.head);
        let calls = |at: usize| self.site(at).calls > 0 && !self.places.contains_key(&at);
        innermost.is_some_and(|l| !(l.head..=l.back).any(calls))
    }

    /// The address of the constants of the function that is being built. But in such a loop, that of the compiled
    /// function is loaded from its record: kept from the start, it would have to be stored, for what is hardly ever
    /// done.
    pub(super) fn constants(&mut self) -> Val {
        match self.frame != 0 || self.is_in_quiet_loop() {
            true => self.constants,
            false => {
                let base = self.b.use_var(self.base);
                self.load(Type::I64, base, layout::FRAME_CONSTANTS)
            }
        }
    }

    /// The address of the interrupt word. The same holds for it.
    pub(super) fn interrupt_word(&mut self) -> Val {
        match self.is_in_quiet_loop() {
            true => self.interrupt,
            false => {
                let vm = self.vm;
                self.load(Type::I64, vm, layout::VM_INTERRUPT)
            }
        }
    }

    /// The number that constant `n` is.
    pub(super) fn constant(&mut self, n: usize) -> Option<Known> {
        match self.proto.constants[n] {
            Constant::Integer(n) => Some(Known { ty: Ty::Int, val: self.b.iconst(Type::I64, n) }),
            Constant::Float(f) => Some(Known { ty: Ty::Float, val: self.b.f64const(f) }),
            _ => None,
        }
    }

    /// Register `r` becomes a value of a known type.
    pub(super) fn define(&mut self, r: usize, to: Known) {
        let slot = self.register(r).map_or(Ty::Any, |r| r.slot);
        let lazily = to.ty.is_lazy() && !self.captured.contains(r as u8);
        if !lazily {
            let base = self.b.use_var(self.base);
            self.write(to, slot, base, r);
        }
        let slot = if lazily { slot } else { to.ty };
        self.hold(r, to, Register { ty: to.ty, slot, dirty: lazily });
        self.renew(r);
    }

    /// Register `r` has this value.
    pub(super) fn hold(&mut self, r: usize, known: Known, as_register: Register) {
        self.set(r, as_register);
        if self.ty(r) != Ty::Any {
            let variable = if known.ty == Ty::Float { self.floats[r] } else { self.ints[r] };
            self.b.def_var(variable, known.val);
        }
    }

    /// The slot of register `r` holds this value.
    pub(super) fn found(&mut self, r: usize, known: Known) {
        self.hold(r, known, Register { ty: known.ty, slot: known.ty, dirty: false });
    }

    /// Payload and tag of register `r`, of which nothing is known, if they have been loaded already, or are
    /// what has been stored.
    fn held(&mut self, r: usize) -> Option<[Val; 2]> {
        let fact = Fact::Held(self.name_of(r));
        if self.captured.contains(r as u8) || self.ty(r) != Ty::Any || !self.has(fact) {
            return None;
        }
        let values = self.values(fact);
        Some([values[0], values[1]])
    }

    /// The tag of register `r`, of which nothing need be known: a number that only a register of the
    /// processor has is stored first.
    pub(super) fn tag_of(&mut self, r: usize) -> Val {
        self.flush(r);
        if let Some([_, tag]) = self.held(r) {
            return tag;
        }
        let base = self.b.use_var(self.base);
        self.load(Type::I8, base, Self::slot(r) + layout::TAG)
    }

    /// Its payload.
    pub(super) fn payload_of(&mut self, r: usize) -> Val {
        self.flush(r);
        if let Some([payload, _]) = self.held(r) {
            return payload;
        }
        let base = self.b.use_var(self.base);
        self.load(Type::I64, base, Self::slot(r) + layout::PAYLOAD)
    }

    /// These are payload and tag of register `r`, and of all that holds the same value.
    pub(super) fn holds(&mut self, r: usize, payload: Val, tag: Val) {
        if !self.captured.contains(r as u8) {
            let fact = Fact::Held(self.name_of(r));
            self.keep(fact, vec![payload, tag]);
        }
    }

    /// The slot of register `r`, of which nothing is known, has to hold a value of this type, else the code
    /// exits to instruction `at`.
    pub(super) fn guard(&mut self, r: usize, ty: Ty, at: usize) {
        if ty == Ty::Number {
            return self.guard_number(r, at);
        }
        let exit = self.exit_block(at, EXITED);
        let known = self.expect(r, ty, exit);
        self.found(r, known);
    }

    /// The value in the slot of register `r` if it is of this type; else goes to `otherwise`.
    pub(super) fn expect(&mut self, r: usize, ty: Ty, otherwise: Block) -> Known {
        let Some([payload, tag]) = self.held(r) else {
            let base = self.b.use_var(self.base);
            return self.expect_at(base, Self::slot(r), ty, otherwise);
        };
        self.is_of([payload, tag], ty, otherwise)
    }

    /// The value of this payload and tag if it is of this type; else goes to `otherwise`.
    pub(super) fn is_of(&mut self, [payload, tag]: [Val; 2], ty: Ty, otherwise: Block) -> Known {
        let wanted = ty.tag().expect("a known type");
        let is = self.icmp_imm(IntCC::Equal, tag, wanted.0 as i64);
        self.unless(is, otherwise);
        let val = match ty {
            Ty::Float => self.b.bitcast(Type::F64, payload),
            _ => payload,
        };
        Known { ty, val }
    }

    /// The same for the value at an address.
    pub(super) fn expect_at(&mut self, address: Val, offset: i32, ty: Ty, otherwise: Block) -> Known {
        let tag = self.load(Type::I8, address, offset + layout::TAG);
        let wanted = ty.tag().expect("a known type");
        let is = self.icmp_imm(IntCC::Equal, tag, wanted.0 as i64);
        self.unless(is, otherwise);
        let class = if ty == Ty::Float { Type::F64 } else { Type::I64 };
        Known { ty, val: self.load(class, address, offset + layout::PAYLOAD) }
    }

    /// The type that the log has seen instruction `at` define, if it is one that can be known.
    pub(super) fn result(&self, at: usize) -> Ty {
        let r = self.code(at).a();
        match self.site(at).result.only() {
            Some(tag) if !self.captured.contains(r) && !self.has_other_results(at) => Ty::of(tag),
            _ => Ty::Any,
        }
    }
}
