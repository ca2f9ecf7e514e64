//! What of a function is compiled.

use perilune_syntax::operands::{Flow, Registers};
use perilune_syntax::{Op, Proto};
use perilune_vm::machine::{LOOP_ENTRIES, Log};

/// A function is compiled from its start if the log has seen it called so often.
const CALLS: u32 = 2;

/// What of a function is compiled: all of it, or its loops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// For each instruction, whether it is.
    wanted: Vec<bool>,
    /// Calls of the function enter it.
    pub starts: bool,
    /// The calls behind which it has to be entered.
    calls: Vec<usize>,
    /// Those behind which it can be, too: its callees may be interpreted, and take it along.
    others: Vec<usize>,
}

impl Unit {
    /// Whether the instruction is part of it.
    pub fn contains(&self, at: usize) -> bool {
        self.wanted.get(at).copied().unwrap_or(false)
    }

    /// How many instructions it has.
    pub fn len(&self) -> usize {
        self.wanted.iter().filter(|&&w| w).count()
    }

    /// How many of its instructions the log has seen: the others are exits at most.
    pub fn seen(&self, log: &Log) -> usize {
        log.seen().filter(|&at| self.contains(at)).count()
    }

    /// Whether everything of the other is in it.
    pub fn covers(&self, other: &Unit) -> bool {
        self.starts >= other.starts
            && other.wanted.iter().zip(&self.wanted).all(|(theirs, ours)| ours >= theirs)
            && other.calls.iter().all(|call| self.calls.contains(call))
    }

    /// The calls behind which it can be entered, with the numbers of these entries.
    pub fn returns(&self, proto: &Proto) -> Vec<(u32, u32)> {
        let first = self.entries(proto).len() as u32 + 1;
        self.calls.iter().chain(&self.others).map(|&at| at as u32).zip(first..).collect()
    }

    /// The instructions at which loops of it can be entered, with the numbers of these entries. Jumps back to
    /// the same place are one entry: a body that ends in branches has one for each of them.
    pub fn entries(&self, proto: &Proto) -> Vec<(u32, u32)> {
        let mut jumps: Vec<(Option<usize>, u32)> = Vec::new();
        let mut entries: Vec<(u32, u32)> = Vec::new();
        let mut next = 1;
        for at in (0..proto.code.len()).filter(|&at| self.contains(at)) {
            let Some(op) = proto.code[at].op().filter(|op| LOOP_ENTRIES.contains(op)) else { continue };
            let to = target(proto, at);
            let known = jumps.iter().find(|(known, _)| op == Op::JumpBack && *known == to);
            let number = known.map_or(next, |(_, number)| *number);
            if op == Op::JumpBack && number == next {
                jumps.push((to, number));
            }
            next = next.max(number + 1);
            entries.push((at as u32, number));
        }
        entries
    }
}

/// A loop: the instructions from its first to the last one that comes back to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// The first instruction of the body.
    pub head: usize,
    /// The last backward jump to it.
    pub back: usize,
}

/// Where the instruction at `at` jumps to, if it may.
pub fn target(proto: &Proto, at: usize) -> Option<usize> {
    let jump = proto.code[at].jump()?;
    usize::try_from(at as i64 + 1 + jump as i64).ok()
}

/// The loops of a function, each once.
pub fn loops(proto: &Proto) -> Vec<Region> {
    let mut loops: Vec<Region> = Vec::new();
    for (back, i) in proto.code.iter().enumerate() {
        if !matches!(i.op(), Some(Op::JumpBack | Op::ForLoop | Op::TForLoop)) {
            continue;
        }
        let Some(head) = target(proto, back) else { continue };
        match loops.iter_mut().find(|l| l.head == head) {
            Some(known) => known.back = known.back.max(back),
            None => loops.push(Region { head, back }),
        }
    }
    loops
}

/// The registers that closures may refer to while an instruction of the unit runs, or after it: those of
/// which a way from the function's start has made a closure, and has not ended the variable since. A register
/// that is a captured variable's before the unit, or will be after it, is like any other here.
pub fn captured(proto: &Proto, unit: &Unit) -> Registers {
    let mut before: Vec<Option<Registers>> = vec![None; proto.code.len()];
    let mut open = vec![(0, Registers::NONE)];
    let mut all = Registers::NONE;
    while let Some((at, comes)) = open.pop() {
        let Some(known) = before.get_mut(at) else { continue };
        let here = known.map_or(comes, |known| known.or(comes));
        if *known == Some(here) {
            continue;
        }
        *known = Some(here);
        let i = proto.code[at];
        let behind = match i.op() {
            Some(Op::Closure) => proto.protos.get(i.bx() as usize).map_or(here, |inner| {
                let own = inner.upvalues.iter().filter(|upvalue| upvalue.in_stack);
                own.fold(here, |set, upvalue| set.or(Registers::range(upvalue.index as usize, 1)))
            }),
            Some(Op::Close) => here.without(Registers::from(i.a() as usize)),
            _ => here,
        };
        if unit.contains(at) {
            all = all.or(here).or(behind);
        }
        open.extend(target(proto, at).map(|to| (to, behind)));
        match i.op().map(Op::flow) {
            Some(Flow::Next) => open.push((at + 1, behind)),
            Some(Flow::Skips) => open.push((at + 2, behind)),
            Some(Flow::Ends) | None => {}
        }
    }
    all
}

/// Whether the loop has come round, by whichever of its backward jumps: where a body ends in branches each
/// has one of its own. The quick ways of `TFORCALL` take that of the `TFORLOOP` behind it.
fn comes_round(log: &Log, l: Region) -> bool {
    let proto = log.proto();
    let taken = |back: usize| match proto.code[back].op() {
        Some(Op::TForLoop) => log.site(back).runs.max(log.site(back - 1).runs),
        _ => log.site(back).runs,
    };
    let backwards = (l.head..=l.back).filter(|&at| {
        let jumps = matches!(proto.code[at].op(), Some(Op::JumpBack | Op::ForLoop | Op::TForLoop));
        jumps && target(proto, at) == Some(l.head)
    });
    backwards.fold(0u32, |sum, back| sum.saturating_add(taken(back))) > 1
}

/// How often the log has seen the loops of a unit begin, those of which no other loop of it is part.
pub fn entered(log: &Log, unit: &Unit) -> u32 {
    let proto = log.proto();
    let regions = loops(proto);
    let is_outermost = |l: &&Region| {
        unit.contains(l.head) && !regions.iter().any(|o| o != *l && o.head <= l.head && l.back <= o.back)
    };
    regions.iter().filter(is_outermost).map(|l| begun(log, l)).fold(0, u32::saturating_add)
}

/// How often the log has seen a loop begin.
pub fn begun(log: &Log, l: &Region) -> u32 {
    let proto = log.proto();
    match proto.code[l.back].op() {
        // What comes round without asking is entered by whatever else leads to its head.
        Some(Op::JumpBack) => {
            let back = (l.head..=l.back).filter(|&at| proto.code[at].op() == Some(Op::JumpBack));
            let to_head = back.filter(|&at| target(proto, at) == Some(l.head));
            let rounds = to_head.fold(0u32, |sum, at| sum.saturating_add(log.site(at).times()));
            log.site(l.head).times().saturating_sub(rounds)
        }
        // The instruction before it prepares it.
        _ => l.head.checked_sub(1).map_or(0, |before| log.site(before).times()),
    }
}

/// The loops of a function that have come round.
pub fn rounds(log: &Log) -> Vec<Region> {
    let came = |l: &Region| log.head(l.head).is_some() && comes_round(log, *l);
    loops(log.proto()).into_iter().filter(came).collect()
}

/// All of a function that is called; of others the loops that came round, of all recordings those that may
/// again, where these have done so in the `last` one: a loop that is over, in a function that is not called
/// again, is not compiled anew each time that the next one gets hot. `None`: that is nothing.
///
/// `made`: what of the function has good code. A function that is not a chunk may be called again, and has one
/// piece of code, so what that has goes into the new one, too. (A transform of two long loops, called twice,
/// had each of them compiled twice, and was interpreted in between.)
///
/// A function can be entered behind each of its calls of functions of Lua, since it may have been left in any
/// of them, and one that yields behind all others, too; where a loop comes round there, that is the entry.
pub fn choose(log: &Log, last: &[Region], made: Option<&Unit>) -> Option<Unit> {
    let proto = log.proto();
    let starts = log.calls() >= CALLS;
    let mut wanted = vec![starts; proto.code.len()];
    if !starts {
        let all = loops(proto);
        let has = |outer: &Region, l: &Region| outer.head <= l.head && l.back <= outer.back;
        let may_again = |l: &Region| {
            let around = |last: &Region| all.iter().any(|outer| has(outer, l) && has(outer, last));
            last.is_empty() || last.iter().any(around)
        };
        for l in rounds(log).iter().filter(|l| may_again(l)) {
            wanted[l.head..=l.back].fill(true);
        }
        if wanted.contains(&true)
            && proto.line_defined > 0
            && let Some(made) = made
        {
            wanted.iter_mut().zip(&made.wanted).for_each(|(wanted, made)| *wanted |= made);
        }
    }
    let ops = |at: usize| proto.code[at].op();
    let is_call = |&at: &usize| {
        let next = ops(at + 1).is_some_and(|op| LOOP_ENTRIES.contains(&op));
        ops(at) == Some(Op::Call) && log.site(at).times() > 0 && wanted[at] && wanted[at + 1] && !next
    };
    let yields = (0..proto.code.len()).any(|at| log.site(at).yields());
    let calls: Vec<usize> = (0..proto.code.len() - 1).filter(is_call).collect();
    let of_lua = |&at: &usize| log.site(at).calls > 0;
    let (calls, others) = match yields {
        true => (calls, Vec::new()),
        false => (Vec::new(), calls.into_iter().filter(of_lua).collect()),
    };
    wanted.contains(&true).then_some(Unit { wanted, starts, calls, others })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The entries of all of a program.
    fn entries(source: &str) -> Vec<(Op, u32)> {
        let proto = perilune_syntax::compile(source.as_bytes(), b"=test").expect("compiles");
        let wanted = vec![true; proto.code.len()];
        let unit = Unit { wanted, starts: true, calls: Vec::new(), others: Vec::new() };
        let op = |at: u32| proto.code[at as usize].op().expect("an instruction");
        unit.entries(&proto).into_iter().map(|(at, number)| (op(at), number)).collect()
    }

    #[test]
    fn jumps_back_to_one_place_are_one_entry() {
        let branches =
            "local a = ... while a do if a == 1 then a = 2 elseif a == 2 then a = 3 else a = f(a) end end";
        let all = entries(branches);
        assert!(all.len() > 1, "{all:?}");
        assert!(all.iter().all(|&entry| entry == (Op::JumpBack, 1)), "{all:?}");
    }

    #[test]
    fn other_loops_have_entries_of_their_own() {
        let all = entries(
            "local a = ... while a do for i = 1, 9 do while i do i = f(i) end end if a then a = g(a) else a = h(a) end end",
        );
        let mut heads: Vec<u32> = all.iter().map(|(_, number)| *number).collect();
        heads.sort_unstable();
        heads.dedup();
        assert_eq!(heads, [1, 2, 3], "{all:?}");
        assert_eq!(all.iter().filter(|(op, _)| *op == Op::ForLoop).count(), 1);
    }
}
