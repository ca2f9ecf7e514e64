//! Entries, jumps and loops; which instruction is lowered how.

use super::numbers::SMALL;
use super::{Known, Lowering, Ty};
use crate::ssa::{FloatCC, IntCC, Type};
use perilune_syntax::{Constant, Op};
use perilune_vm::Tag;
use perilune_vm::machine::{EXITED, LEAVE, layout};

/// What has always been the same for so many times is likely to stay so.
const ALWAYS: u32 = 8;

/// How two numbers are compared.
#[derive(Clone, Copy)]
pub(super) enum Order {
    Lt,
    Le,
    Gt,
    Ge,
    Eq,
}

impl Order {
    pub(super) fn ints(self) -> IntCC {
        match self {
            Order::Lt => IntCC::SignedLessThan,
            Order::Le => IntCC::SignedLessThanOrEqual,
            Order::Gt => IntCC::SignedGreaterThan,
            Order::Ge => IntCC::SignedGreaterThanOrEqual,
            Order::Eq => IntCC::Equal,
        }
    }

    pub(super) fn floats(self) -> FloatCC {
        match self {
            Order::Lt => FloatCC::LessThan,
            Order::Le => FloatCC::LessThanOrEqual,
            Order::Gt => FloatCC::GreaterThan,
            Order::Ge => FloatCC::GreaterThanOrEqual,
            Order::Eq => FloatCC::Equal,
        }
    }
}

/// A jump if two values compare as wanted.
#[derive(Clone, Copy)]
pub(super) struct Comparison {
    pub order: Order,
    /// The jump is for what holds, or for what does not.
    pub wanted: bool,
    /// The second operand is a constant.
    pub constant: bool,
}

impl Comparison {
    /// That of an instruction, if it is one. Equality with a constant is none: the constant need not be a
    /// number.
    pub fn of(op: Op) -> Option<Comparison> {
        let (order, wanted, constant) = match op {
            Op::JumpEq => (Order::Eq, true, false),
            Op::JumpNe => (Order::Eq, false, false),
            Op::JumpLt => (Order::Lt, true, false),
            Op::JumpNotLt => (Order::Lt, false, false),
            Op::JumpLe => (Order::Le, true, false),
            Op::JumpNotLe => (Order::Le, false, false),
            Op::JumpLtK => (Order::Lt, true, true),
            Op::JumpNotLtK => (Order::Lt, false, true),
            Op::JumpLeK => (Order::Le, true, true),
            Op::JumpNotLeK => (Order::Le, false, true),
            Op::JumpGtK => (Order::Gt, true, true),
            Op::JumpNotGtK => (Order::Gt, false, true),
            Op::JumpGeK => (Order::Ge, true, true),
            Op::JumpNotGeK => (Order::Ge, false, true),
            _ => return None,
        };
        Some(Comparison { order, wanted, constant })
    }
}

impl Lowering<'_, '_> {
    /// The interpreter comes to instruction `at`, where a loop comes round, with nothing known.
    pub(super) fn enter(&mut self, at: usize) {
        match self.code(at).op() {
            Some(Op::ForLoop) => {
                let a = self.code(at).a() as usize;
                let head = self.target(at).and_then(|head| self.fixed.get(&head));
                let ty = head.map_or(Ty::Any, |known| known[a].ty);
                let refuse = self.b.create_block();
                if ty.is_number() && !self.captured.contains(a as u8) {
                    // The three have one type, which no program can change.
                    for r in a..a + 3 {
                        let known = self.expect(r, ty, refuse);
                        self.found(r, known);
                    }
                    self.for_loop(at);
                    self.edge(at + 1);
                } else {
                    self.b.jump(refuse, &[]);
                }
                self.go_to(refuse);
                self.refuse();
            }
            Some(Op::JumpBack) => self.jump_back(at),
            Some(Op::TForCall) => {
                self.generic_for(at);
                if self.now.is_some() {
                    // The call has been made, and its results are there.
                    self.generic_loop(at + 1);
                }
                self.edge(at + 2);
            }
            op => unreachable!("no loop is entered at {op:?}"),
        }
        self.now = None;
    }

    /// Lowers instruction `at`.
    pub(super) fn instruction(&mut self, at: usize) {
        let i = self.code(at);
        let Some(op) = i.op() else { return self.exit(at, EXITED) };
        // The quick ways of TFORCALL do what comes behind it. A frame that is built in place has moved before
        // its VARARGPREP.
        if !self.is_recorded(at)
            && !matches!(op, Op::TForLoop | Op::TForCall | Op::VarargPrep)
            && !self.is_suspect(at)
        {
            return self.exit_unseen(at);
        }
        let (a, b) = (i.a() as usize, i.b() as usize);
        if self.with_either(at, op) || self.with_unmade(at, op) || self.operator(at) || self.access(at) {
            return;
        }
        if let Some(comparison) = Comparison::of(op) {
            return self.jump_compare(at, comparison);
        }
        match op {
            Op::Move => self.copy(at, a, b),
            Op::LoadI => {
                let val = self.b.iconst(Type::I64, i.sj() as i64);
                self.define(a, Known { ty: Ty::Int, val });
            }
            Op::LoadK => match self.constant(i.bx() as usize) {
                Some(known) => self.define(a, known),
                None => self.copy_constant(a, i.bx() as usize),
            },
            Op::LoadNil => (a..=a + b).for_each(|r| self.define_plain(r, Tag::NIL)),
            Op::LoadTrue => self.define_plain(a, Tag::TRUE),
            Op::LoadFalse => self.define_plain(a, Tag::FALSE),
            Op::Not => match self.ty(b) {
                Ty::Any => self.negate(a, b),
                _ => self.define_plain(a, Tag::FALSE),
            },
            Op::LoadFalseSkip => {
                self.define_plain(a, Tag::FALSE);
                self.edge(at + 2);
            }
            Op::Jump => self.edge(self.target(at).unwrap_or(at + 1)),
            Op::JumpBack => self.jump_back(at),
            Op::JumpIf => self.jump_if(at, a, true, None),
            Op::JumpIfNot => self.jump_if(at, a, false, None),
            Op::JumpIfSet => self.jump_if(at, b, true, Some(a)),
            Op::JumpIfNotSet => self.jump_if(at, b, false, Some(a)),
            Op::JumpEqK => self.jump_constant(at, true),
            Op::JumpNeK => self.jump_constant(at, false),
            Op::ForLoop => self.for_loop(at),
            Op::TForCall => self.generic_for(at),
            Op::TForLoop => self.generic_loop(at),
            Op::ForPrep => self.for_prep(at),
            Op::TForPrep => self.generic_prep(at),
            Op::Close => self.close(at),
            Op::Call => self.call(at),
            Op::Return | Op::Return0 | Op::Return1 => self.give_back(at),
            Op::TailCall => self.tail_call(at),
            Op::GetUpval => self.get_upvalue(at),
            Op::SetUpval => self.set_upvalue(at),
            Op::GetTabUp => self.get_global(at),
            Op::SetTabUp => self.set_global(at),
            Op::SelfCall => self.get_method(at),
            Op::GetField => self.get_field(at),
            Op::SetField => self.set_field(at),
            Op::GetIndex | Op::GetInt => self.get_index(at),
            Op::SetIndex | Op::SetInt => self.set_index(at),
            Op::SetSlot => self.set_slot(at),
            Op::NewTable => self.new_table(at),
            Op::SetList => self.set_list(at),
            Op::Closure => self.make_closure(at),
            Op::Concat => self.concatenate(at),
            Op::Len => self.length(at),
            Op::VarargPrep => self.move_up(at),
            Op::Vararg => self.extra_arguments(at),
            _ if self.arithmetic(at, op) => {}
            _ if op.flow() != perilune_syntax::operands::Flow::Next || i.jump().is_some() => {
                self.step_and_jump(at)
            }
            _ => self.step_and_guard(at),
        }
    }

    /// Instruction `at`, which may jump, is done slowly, as it hardly ever is: by the interpreter, which has
    /// to find everything in its slot. Where that would be the only reason to make something, the code is
    /// left.
    pub(super) fn do_rarely(&mut self, at: usize) {
        if self.has_unmade() && !self.is_suspect(at) {
            return self.exit(at, EXITED);
        }
        let stepped = self.stepped;
        self.step_and_jump(at);
        self.stepped = stepped;
    }

    /// Instruction `at`, which may jump, is done by the interpreter: goes on where that comes to.
    pub(super) fn step_and_jump(&mut self, at: usize) {
        self.step(at);
        self.go_where_told(at);
    }

    /// `condition` leads to instruction `to`, else the next one follows. Where it is known to hold nothing is known
    /// behind it: nobody comes there.
    pub(super) fn branch(&mut self, condition: crate::ssa::Value, to: usize) {
        self.branch_when(condition, true, to);
    }

    /// That `condition` is as `wanted` leads to instruction `to`, else the next one follows.
    /// Of a constant one of both is never built: functions that are built in place are asked for what they are given.
    pub(super) fn branch_when(&mut self, condition: crate::ssa::Value, wanted: bool, to: usize) {
        match self.b.func.integer(condition) {
            Some(holds) if (holds != 0) == wanted => return self.edge(to),
            Some(_) => return,
            None => {}
        }
        let [there, on] = [(); 2].map(|()| self.b.create_block());
        let [yes, no] = if wanted { [there, on] } else { [on, there] };
        self.b.brif(condition, yes, &[], no, &[]);
        self.go_to(there);
        let known = self.now.clone();
        self.edge(to);
        self.now = known;
        self.go_to(on);
    }

    /// Leaves with `at` as the next instruction if somebody has asked for it.
    pub(super) fn poll(&mut self, at: usize) {
        let word = self.interrupt_word();
        let causes = self.load(Type::I32, word, 0);
        let none = self.icmp_imm(IntCC::Equal, causes, 0);
        let leave = self.exit_block(at, LEAVE);
        self.unless(none, leave);
    }

    fn jump_back(&mut self, at: usize) {
        let to = self.target(at).expect("a verified jump");
        self.poll(to);
        self.edge(to);
    }

    /// The step of the loop of integers that the `FORPREP` at `at` begins, if the instruction before it loads a
    /// constant, and it is come to from there.
    fn step_of(&self, at: usize) -> Option<i64> {
        let (prep, before) = (self.code(at), self.code(at.checked_sub(1)?));
        let is_loaded = before.op() == Some(Op::LoadI) && before.a() == prep.a() + 2;
        let is_constant = prep.op() == Some(Op::ForPrep) && is_loaded;
        is_constant.then(|| i64::from(before.sj())).filter(|step| *step != 0)
    }

    /// `FORLOOP`, of whose three registers the type is known.
    fn for_loop(&mut self, at: usize) {
        let i = self.code(at);
        let a = i.a() as usize;
        let head = self.target(at).expect("a verified jump");
        self.guard_loop(at, a, head);
        let [Some(index), Some(limit)] = [a, a + 1].map(|r| self.known(r)) else {
            return self.step_and_jump(at);
        };
        // Code that is not built may jump there, and the interpreter comes in where the loop comes round.
        let is_jumped_to = |prep: &usize| (0..self.proto.code.len()).any(|at| self.target(at) == Some(*prep));
        let prep = head.checked_sub(1).filter(|prep| !is_jumped_to(prep));
        let step = match prep.and_then(|prep| self.step_of(prep)) {
            Some(step) if index.ty == Ty::Int => {
                Some(Known { ty: Ty::Int, val: self.b.iconst(Type::I64, step) })
            }
            _ => self.known(a + 2),
        };
        let Some(step) = step else { return self.step_and_jump(at) };
        let condition = match index.ty {
            Ty::Int => self.icmp_imm(IntCC::NotEqual, limit.val, 0),
            Ty::Float => {
                let next = self.b.fadd(index.val, step.val);
                let zero = self.b.f64const(0.0);
                let up = self.b.fcmp(FloatCC::GreaterThan, step.val, zero);
                let [below, above] = [FloatCC::LessThanOrEqual, FloatCC::GreaterThanOrEqual]
                    .map(|c| self.b.fcmp(c, next, limit.val));
                self.b.select(up, below, above)
            }
            _ => return self.step_and_jump(at),
        };
        let [on, out] = [(); 2].map(|()| self.b.create_block());
        self.b.brif(condition, on, &[], out, &[]);
        self.go_to(on);
        let outside = self.now.clone();
        let next = match index.ty {
            Ty::Int => {
                let left = self.iadd_imm(limit.val, -1);
                self.define(a + 1, Known { ty: Ty::Int, val: left });
                self.b.iadd(index.val, step.val)
            }
            _ => self.b.fadd(index.val, step.val),
        };
        let next = Known { ty: index.ty, val: next };
        self.define(a, next);
        self.define(a + 3, next);
        self.poll(head);
        self.edge(head);
        self.go_to(out);
        self.now = outside;
    }

    /// The state of the loop of `FORLOOP` has one type, which no program can change. Where it is not known
    /// any more, since a way comes here from an inner loop that was entered by itself, its slots say it.
    fn guard_loop(&mut self, at: usize, a: usize, head: usize) {
        let ty = self.fixed.get(&head).map_or(Ty::Any, |known| known[a].ty);
        let state = a..a + 3;
        if !ty.is_number()
            || self.is_suspect(at)
            || state.clone().any(|r| self.captured.contains(r as u8) || !matches!(self.ty(r), Ty::Any))
        {
            return;
        }
        for r in state {
            self.guard(r, ty, at);
        }
    }

    /// `TFORCALL` by the interpreter: its quick ways do the `TFORLOOP` behind it, too. What follows is that,
    /// after a call.
    pub(super) fn step_generic_for(&mut self, at: usize) {
        let head = self.target(at + 1).expect("a verified jump");
        let past = at + 2;
        self.step(at);
        // Whichever way it was, the state may have moved on.
        self.forget(at + 1);
        let base = self.b.use_var(self.base);
        let pc = self.load(Type::I64, base, self.record(layout::FRAME_PC));
        let [here, elsewhere] = [(); 2].map(|()| self.b.create_block());
        self.b.set_cold_block(elsewhere);
        let address = self.position(at + 1);
        let is = self.b.icmp(IntCC::Equal, pc, address);
        self.b.brif(is, here, &[], elsewhere, &[]);
        let known = self.now.clone();
        self.go_to(elsewhere);
        for to in [head, past] {
            let address = self.position(to);
            let is = self.b.icmp(IntCC::Equal, pc, address);
            self.branch(is, to);
        }
        self.leave(LEAVE);
        self.now = known;
        self.go_to(here);
    }

    /// `TFORLOOP`.
    fn generic_loop(&mut self, at: usize) {
        let a = self.code(at).a() as usize;
        let head = self.target(at).expect("a verified jump");
        let base = self.b.use_var(self.base);
        let tag = self.load(Type::I8, base, Self::slot(a + 4) + layout::TAG);
        let goes_on = self.icmp_imm(IntCC::NotEqual, tag, Tag::NIL.0 as i64);
        let [on, out] = [(); 2].map(|()| self.b.create_block());
        self.b.brif(goes_on, on, &[], out, &[]);
        self.go_to(on);
        let outside = self.now.clone();
        let payload = self.load(Type::I64, base, Self::slot(a + 4) + layout::PAYLOAD);
        self.store(payload, base, Self::slot(a + 2) + layout::PAYLOAD);
        self.store(tag, base, Self::slot(a + 2) + layout::TAG);
        self.set_unknown(a + 2);
        self.poll(head);
        self.edge(head);
        self.go_to(out);
        self.now = outside;
    }

    /// Jumps if the truth of register `r` is `wanted`; on that way register `set` gets it.
    pub(super) fn jump_if(&mut self, at: usize, r: usize, wanted: bool, set: Option<usize>) {
        let to = self.target(at).expect("a verified jump");
        if self.ty(r) != Ty::Any {
            // Numbers and tables are true.
            if wanted {
                if let Some(set) = set {
                    self.copy_known(set, r);
                }
                self.edge(to);
            }
            return;
        }
        let tag = self.tag_of(r);
        if self.has_never_jumped(at) {
            let exit = self.exit_block(at, EXITED);
            let order = if wanted { IntCC::UnsignedLessThanOrEqual } else { IntCC::UnsignedGreaterThan };
            let stays = self.icmp_imm(order, tag, Tag::FALSE.0 as i64);
            return self.unless(stays, exit);
        }
        self.jump_by_tag(to, tag, wanted, |this| {
            if let Some(set) = set {
                this.copy_slot(set, r);
            }
        });
    }

    /// Whether the jump at `at`, by the truth of a value, or by its being nil, has never been made as far as
    /// the log knows: then it leads out. In `options = options or {}`, and in `if not options then options = {}
    /// end`, as little would be known behind it as of the value that has never been there.
    fn has_never_jumped(&self, at: usize) -> bool {
        let next = at + 1;
        if self.is_suspect(at) || self.blocks.contains_key(&next) || !self.contains(next) {
            return false;
        }
        let times = self.site(at).times();
        times >= ALWAYS && times == self.site(next).times()
    }

    /// Jumps if the truth of a value with this tag is `wanted`, and does something on that way.
    fn jump_by_tag(
        &mut self,
        to: usize,
        tag: crate::ssa::Value,
        wanted: bool,
        there_does: impl FnOnce(&mut Self),
    ) {
        let order = if wanted { IntCC::UnsignedGreaterThan } else { IntCC::UnsignedLessThanOrEqual };
        let jumps = self.icmp_imm(order, tag, Tag::FALSE.0 as i64);
        let [there, on] = [(); 2].map(|()| self.b.create_block());
        self.b.brif(jumps, there, &[], on, &[]);
        self.go_to(there);
        let known = self.now.clone();
        there_does(self);
        self.edge(to);
        self.now = known;
        self.go_to(on);
    }

    /// Instruction `at` gives its register a value with this tag. If the next one, which no other way leads
    /// to, asks for its truth and nobody for anything else, as in `if flags[i] then`, does that one as well:
    /// the value is stored nowhere. Whether it has done so.
    pub(super) fn jump_at_once(&mut self, at: usize, tag: crate::ssa::Value) -> bool {
        let (a, next) = (self.code(at).a(), at + 1);
        let i = self.code(next);
        let wanted = match i.op() {
            Some(Op::JumpIf) => true,
            Some(Op::JumpIfNot) => false,
            _ => return false,
        };
        let is_met = self.blocks.contains_key(&next) || self.heads.contains(&next) || !self.contains(next);
        let matters = self.own().live_behind(next).contains(a) || self.captured.contains(a);
        if i.a() != a || is_met || matters {
            return false;
        }
        let to = self.target(next).expect("a verified jump");
        self.set_unknown(a as usize);
        self.at = next;
        self.jump_by_tag(to, tag, wanted, |_| {});
        self.at = at;
        self.done = Some(next);
        true
    }

    /// Jumps if the comparison of register a with b, a register or a constant, is `wanted`.
    fn jump_compare(&mut self, at: usize, comparison: Comparison) {
        let Comparison { order, wanted, constant } = comparison;
        let i = self.code(at);
        let to = self.target(at).expect("a verified jump");
        if self.compare_either(at, to, order, wanted, constant) {
            return;
        }
        let x = self.known(i.a() as usize);
        let y = if constant { self.constant(i.b() as usize) } else { self.known(i.b() as usize) };
        match (x, y) {
            (Some(x), Some(y)) if x.ty == y.ty && x.ty.is_number() => {
                self.compare_and_jump(to, order, wanted, x, y)
            }
            (Some(x), Some(y)) if x.ty == Ty::Table && y.ty == Ty::Table && matches!(order, Order::Eq) => {
                self.jump_same(at, to, wanted, x, y)
            }
            _ => self.compare_mixed(at, to, order, wanted, constant),
        }
    }

    /// Jumps if two tables being the same is `wanted`. If they are not, and have metatables, these may say
    /// otherwise, unless they are known not to.
    fn jump_same(&mut self, at: usize, to: usize, wanted: bool, x: Known, y: Known) {
        let [same, other, plain, slow] = [(); 4].map(|()| self.b.create_block());
        self.b.set_cold_block(slow);
        let next = if wanted { (to, at + 1) } else { (at + 1, to) };
        let known = self.now.clone();
        let is = self.b.icmp(IntCC::Equal, x.val, y.val);
        self.b.brif(is, same, &[], other, &[]);
        self.go_to(other);
        let [first, second] = [x, y].map(|t| self.load(Type::I64, t.val, layout::TABLE_METATABLE));
        let any = self.b.bor(first, second);
        let with = self.b.create_block();
        self.b.brif(any, with, &[], plain, &[]);
        self.go_to(with);
        for metatable in [first, second] {
            let [there, none] = [(); 2].map(|()| self.b.create_block());
            self.b.brif(metatable, there, &[], none, &[]);
            self.go_to(there);
            let absent = self.load(Type::I8, metatable, layout::TABLE_ABSENT);
            let no_eq = self.band_imm(absent, layout::NO_EQ as i64);
            self.b.brif(no_eq, none, &[], slow, &[]);
            self.go_to(none);
        }
        self.b.jump(plain, &[]);
        self.go_to(slow);
        self.do_rarely(at);
        for (block, to) in [(same, next.0), (plain, next.1)] {
            self.go_to(block);
            self.now = known.clone();
            self.edge(to);
        }
        self.now = None;
    }

    /// A comparison with NaN is false, so its contrary is no comparison but a jump the other way.
    fn compare_and_jump(&mut self, to: usize, order: Order, wanted: bool, x: Known, y: Known) {
        let holds = match x.ty {
            Ty::Float => self.b.fcmp(order.floats(), x.val, y.val),
            _ => self.icmp(order.ints(), x.val, y.val),
        };
        self.branch_when(holds, wanted, to);
    }

    fn jump_always(&mut self, to: usize, jumps: bool) {
        if jumps {
            self.edge(to);
        }
    }

    /// Jumps if register `r` being the text of constant `n` is `wanted`.
    fn jump_text(&mut self, r: usize, n: usize, to: usize, wanted: bool) {
        if self.ty(r) != Ty::Any {
            return self.jump_always(to, !wanted);
        }
        let constants = self.constants();
        let [string, other, long, done] = [(); 4].map(|()| self.b.create_block());
        self.b.set_cold_block(long);
        let is_it = self.b.append_block_param(done, Type::I8);
        let no = self.b.iconst(Type::I8, 0);
        let tag = self.tag_of(r);
        let is_string = self.icmp_imm(IntCC::Equal, tag, Tag::STRING.0 as i64);
        self.b.brif(is_string, string, &[], done, &[no]);
        self.go_to(string);
        let own = self.payload_of(r);
        let text = self.load(Type::I64, constants, Self::slot(n) + layout::PAYLOAD);
        let same = self.b.icmp(IntCC::Equal, own, text);
        self.b.brif(same, done, &[same], other, &[]);
        // Constants are interned: so one that is interned, too, and another string, has another text.
        self.go_to(other);
        let flags = self.load(Type::I8, own, layout::OBJECT_FLAGS);
        let interned = self.band_imm(flags, layout::INTERNED as i64);
        self.b.brif(interned, done, &[no], long, &[]);
        self.go_to(long);
        let answer = self.common(layout::same_text(), &[own, text]);
        let answer = self.b.ireduce(Type::I8, answer);
        self.b.jump(done, &[answer]);
        self.go_to(done);
        self.branch_when(is_it, wanted, to);
    }

    /// `FORPREP` of a loop over integers that are known, by a constant step, up to an integer or a float.
    fn for_prep(&mut self, at: usize) {
        let i = self.code(at);
        let a = i.a() as usize;
        let past = self.target(at).expect("a verified jump");
        let [start, limit, by] = [a, a + 1, a + 2].map(|r| self.known(r));
        let [start, by] = [start, by].map(|n| n.filter(|n| n.ty == Ty::Int));
        let limit = limit.filter(|n| n.ty == Ty::Int || n.ty == Ty::Float && !self.is_suspect(at));
        // What is jumped to after the step was loaded may have another one.
        let step = self.step_of(at).filter(|_| !self.blocks.contains_key(&at));
        let (Some(start), Some(limit), Some(_), Some(step)) = (start, limit, by, step) else {
            return self.step_and_jump(at);
        };
        let limit = match limit.ty {
            Ty::Float => self.whole_limit(at, limit, step),
            _ => limit,
        };
        let order = if step > 0 { IntCC::SignedGreaterThan } else { IntCC::SignedLessThan };
        let none = self.icmp(order, start.val, limit.val);
        self.branch(none, past);
        if self.now.is_none() {
            // Between constants, of which there is none.
            return;
        }
        let (high, low) = if step > 0 { (limit.val, start.val) } else { (start.val, limit.val) };
        let distance = self.b.isub(high, low);
        let rounds = match step.unsigned_abs() {
            1 => distance,
            step => {
                let step = self.b.iconst(Type::I64, step as i64);
                self.b.udiv(distance, step)
            }
        };
        self.define(a + 1, Known { ty: Ty::Int, val: rounds });
        self.define(a + 3, start);
    }

    /// The last integer that a loop may come to by this step if its limit is a float (manual 3.3.5); of one
    /// that is far out, or no number, the interpreter knows.
    fn whole_limit(&mut self, at: usize, limit: Known, step: i64) -> Known {
        let exit = self.exit_block(at, EXITED);
        let magnitude = self.b.fabs(limit.val);
        let bound = self.b.f64const(SMALL as f64);
        let small = self.b.fcmp(FloatCC::LessThan, magnitude, bound);
        self.unless(small, exit);
        let whole = if step > 0 { self.b.floor(limit.val) } else { self.b.ceil(limit.val) };
        Known { ty: Ty::Int, val: self.b.fcvt_to_sint(whole) }
    }

    /// Jumps if register a being the constant b is `wanted`.
    fn jump_constant(&mut self, at: usize, wanted: bool) {
        let i = self.code(at);
        let (r, to) = (i.a() as usize, self.target(at).expect("a verified jump"));
        let tag = match &self.proto.constants[i.b() as usize] {
            Constant::Nil => Tag::NIL,
            Constant::Boolean(false) => Tag::FALSE,
            Constant::Boolean(true) => Tag::TRUE,
            Constant::String(_) => return self.jump_text(r, i.b() as usize, to, wanted),
            _ if self.compare_either(at, to, Order::Eq, wanted, true) => return,
            _ => {
                let (x, y) = (self.known(r), self.constant(i.b() as usize));
                return match (x, y) {
                    (Some(x), Some(y)) if x.ty == y.ty => self.compare_and_jump(to, Order::Eq, wanted, x, y),
                    (Some(x), Some(_)) if x.ty == Ty::Table => self.jump_always(to, !wanted),
                    (_, Some(_)) => self.jump_number(at, r, to, wanted),
                    _ => self.step_and_jump(at),
                };
            }
        };
        if self.ty(r) != Ty::Any {
            if !wanted {
                self.edge(to);
            }
            return;
        }
        let own = self.tag_of(r);
        let [equal, other] =
            if wanted { [IntCC::Equal, IntCC::NotEqual] } else { [IntCC::NotEqual, IntCC::Equal] };
        if self.has_never_jumped(at) {
            let exit = self.exit_block(at, EXITED);
            let stays = self.icmp_imm(other, own, tag.0 as i64);
            return self.unless(stays, exit);
        }
        let jumps = self.icmp_imm(equal, own, tag.0 as i64);
        self.branch(jumps, to);
    }
}
