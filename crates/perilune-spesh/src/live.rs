//! Which registers matter before each instruction: those that are read later, before they are written, and
//! local variables, as long as they are in scope, since a debugger may ask for them.
//!
//! What matters no more need not be stored where machine code is left, or where ways meet, and nothing has to
//! be known of it. Nearly all that an expression needs on its way is of that kind.

use crate::units::target;
use perilune_syntax::operands::{Flow, Kind, Loop, Registers};
use perilune_syntax::{Instr, Op, Proto};

/// For each instruction the registers that matter before it.
pub fn live(proto: &Proto) -> Vec<Registers> {
    let length = proto.code.len();
    let mut own: Vec<Registers> = proto.code.iter().map(|i| reads(*i)).collect();
    for local in &proto.locals {
        let scope = local.start_pc as usize..(local.end_pc as usize).min(length);
        own[scope].iter_mut().for_each(|set| *set = set.or(Registers::range(local.register as usize, 1)));
    }
    // The state of a loop is its own, whether it has a name or not.
    for l in Loop::all(&proto.code) {
        let inside = l.prepared + 1..(l.last + 1).min(length);
        own[inside].iter_mut().for_each(|set| *set = set.or(Registers::range(l.state as usize, 4)));
    }
    let mut before = own.clone();
    loop {
        let mut changed = false;
        for at in (0..length).rev() {
            let i = proto.code[at];
            let set = own[at].or(behind(proto, &before, at).without(writes(i)));
            changed |= set != before[at];
            before[at] = set;
        }
        if !changed {
            return before;
        }
    }
}

/// The registers that matter behind instruction `at`, whichever way it goes.
pub fn behind(proto: &Proto, before: &[Registers], at: usize) -> Registers {
    let i = proto.code[at];
    let next = match i.op().map(Op::flow) {
        Some(Flow::Next) => Some(at + 1),
        Some(Flow::Skips) => Some(at + 2),
        Some(Flow::Ends) | None => None,
    };
    // Who decides a jump may have the next instruction as well.
    let ways = next.into_iter().chain(target(proto, at)).filter(|&to| to < before.len());
    ways.fold(Registers::NONE, |set, to| set.or(before[to]))
}

/// What the instruction may read.
fn reads(i: Instr) -> Registers {
    let closes = i.operands().iter().any(|o| matches!(o.kind, Kind::Close | Kind::Params));
    let ends = matches!(i.op(), Some(Op::Return | Op::TailCall)) && i.d() != 0;
    if closes || ends {
        return Registers::from(0);
    }
    read(i)
}

/// The registers that its operands name to be read.
pub fn read(i: Instr) -> Registers {
    i.operands().iter().filter_map(|o| o.reads(i)).fold(Registers::NONE, |set, span| {
        set.or(span.count.map_or(Registers::from(span.first), |count| Registers::range(span.first, count)))
    })
}

/// The same without those whose type it does not ask for, since it stores them in a table that it makes, or
/// gives them back.
pub fn read_by_type(i: Instr) -> Registers {
    match i.op() {
        Some(Op::SetSlot) => Registers::from(i.a() as usize),
        Some(Op::Return | Op::Return1) => Registers::NONE,
        _ => read(i),
    }
}

/// What it always writes, or clobbers.
fn writes(i: Instr) -> Registers {
    i.operands().iter().fold(Registers::NONE, |set, o| {
        if matches!(o.kind, Kind::DefIfJumps(_) | Kind::DefIfStays(_) | Kind::Lift(_)) {
            return set;
        }
        let written = match o.writes(i) {
            Some(span) => Registers::range(span.first, span.count.unwrap_or(0)),
            None => Registers::NONE,
        };
        set.or(written).or(o.clobbers(i).map_or(Registers::NONE, Registers::from))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// The innermost function of a program.
    fn function(source: &str) -> Arc<Proto> {
        let mut proto = perilune_syntax::compile(source.as_bytes(), b"=test").expect("compiles");
        while let Some(inner) = proto.protos.first() {
            proto = Arc::clone(inner);
        }
        proto
    }

    fn without_names(proto: &Arc<Proto>) -> Proto {
        let mut copy = perilune_syntax::compile(b"", b"=test")
            .map(|p| Arc::into_inner(p).expect("one"))
            .expect("compiles");
        copy.code = proto.code.clone();
        copy.constants = proto.constants.clone();
        copy.max_stack = proto.max_stack;
        copy.num_params = proto.num_params;
        copy
    }

    /// What an expression needs on its way matters until it is used; variables matter as long as they are in
    /// scope.
    #[test]
    fn temporaries_die_and_variables_stay() {
        let proto = function("return function(a, b) local c = (a + b) * (a - b) return c end");
        let before = live(&proto);
        let add = proto.code.iter().position(|i| i.op() == Some(Op::Add)).expect("an addition");
        let sum = proto.code[add].a();
        let product = proto.code.iter().position(|i| i.op() == Some(Op::Mul)).expect("a product");
        assert!(before[add + 1].contains(sum) && before[product].contains(sum));
        // `c` takes its place, or nothing does.
        assert!(before[product + 1].contains(proto.code[product].a()));
        let difference = proto.code[add + 1].a();
        assert_ne!(difference, proto.code[product].a());
        assert!(!before[product + 1].contains(difference));
        assert!(before.iter().all(|set| set.contains(0) && set.contains(1)));
        // Nobody can ask for variables without names.
        let before = live(&without_names(&proto));
        assert!(!before[product].contains(0) && !before[product].contains(1));
    }

    /// What comes round is needed where it comes from; the state of a loop is the loop's, with names or
    /// without.
    #[test]
    fn loops_keep_what_they_need() {
        let proto =
            function("return function(n) local s, d = 0, 3 for i = 1, n do s = s + d end return s end");
        for proto in [&*proto, &without_names(&proto)] {
            let before = live(proto);
            let l = Loop::all(&proto.code).next().expect("a loop");
            for set in &before[l.prepared + 1..=l.last] {
                assert!(set.contains(1) && set.contains(2), "sum and summand");
                assert!(set.has(l.registers()));
            }
            let after = behind(proto, &before, l.last);
            assert!(after.contains(1) && after.contains(2));
        }
    }

    /// A list up to the top is needed whole.
    #[test]
    fn lists_are_read_to_their_end() {
        let proto = function("return function(f, g, x) return (f(x * 2, g(x))) end");
        let before = live(&proto);
        let calls: Vec<usize> =
            (0..proto.code.len()).filter(|&at| proto.code[at].op() == Some(Op::Call)).collect();
        let [inner, outer] = calls[..] else { panic!("two calls") };
        let first = proto.code[outer].a() as usize;
        assert_eq!(proto.code[outer].b(), 0);
        assert!(before[outer].has(Registers::from(first + 3)));
        assert!(before[inner].contains(first as u8) && before[inner].contains(first as u8 + 3));
        assert!(behind(&proto, &before, inner).contains(first as u8 + 3));
    }
}
