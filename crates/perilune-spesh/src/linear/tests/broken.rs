//! Code that is wrong on purpose: the checker finds it, or it does what it did before.
//!
//! Mistakes are made in what the allocator has found, in what it is told, and in the bytes of moves. Some
//! change nothing: a value may as well be in another register. So what the checker finds nothing wrong with is
//! run; if it does something else than the function without a mistake, the checker has overlooked it.

use super::super::check::{Mark, Trace, check, decode};
use super::super::form::{Class, Form};
use super::super::intervals::{self, Home};
use super::super::moves::Spot;
use super::super::{emit, scan};
use super::*;
use crate::linear::assemble::{Base, Mem, RBP};
use crate::ssa::{Convention, Signature};
use decode::{At, Does};
use perilune_vm::machine::Departures;

/// What is done wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    /// Two parts of intervals have each other's register.
    Homes,
    /// One has some other register.
    Register,
    /// Two values have each other's slot, or one.
    Slot,
    /// A register that has to be saved is not.
    Saved,
    /// A register that an instruction changes is not said to be.
    Taken,
    /// A move is not made.
    Move,
    /// It is made from or to another register, or another slot.
    Operand,
}

const MISTAKES: [Mistake; 7] = [
    Mistake::Homes,
    Mistake::Register,
    Mistake::Slot,
    Mistake::Saved,
    Mistake::Taken,
    Mistake::Move,
    Mistake::Operand,
];

/// What became of a mistake.
enum Outcome {
    /// There is nothing to do wrongly.
    None,
    /// An assertion has found it before.
    Asserted,
    Found,
    /// The bytes of what passes for right.
    Passed(Vec<u8>),
}

/// Writes the function with a mistake, and has it checked.
fn outcome(function: &Function, mistake: Mistake, random: &mut Random) -> Outcome {
    let form = Form::of(function).expect("known");
    let written = catch_unwind(AssertUnwindSafe(|| write(&form, mistake, random)));
    match written {
        Err(_) => Outcome::Asserted,
        Ok(None) => Outcome::None,
        Ok(Some((found, bytes, trace))) => match check(&form, &found, &bytes, &trace) {
            Err(_) => Outcome::Found,
            Ok(()) => Outcome::Passed(bytes),
        },
    }
}

fn write(
    form: &Form<'_>,
    mistake: Mistake,
    random: &mut Random,
) -> Option<(scan::Allocation, Vec<u8>, Trace)> {
    let needed = intervals::needed(form);
    let mut taken = intervals::taken(form);
    if mistake == Mistake::Taken {
        let all = taken.integers.iter_mut().chain([&mut taken.floats, &mut taken.calls]);
        let mut all: Vec<_> = all.filter(|ranges| !ranges.is_empty()).collect();
        let one = random.below(all.len().max(1));
        let ranges = all.get_mut(one)?;
        ranges.remove(random.below(ranges.len()));
    }
    let mut found = scan::allocate(form, &needed.sets, intervals::intervals(form, &needed), &taken);
    change(&mut found, mistake, random)?;
    found.tell_homes();
    let written = emit::emit(form, &needed.sets, &found, (true, Box::new(Departures::to(leave))))?;
    // The code has the address.
    Box::leak(written.departures);
    let (mut bytes, trace) = (written.bytes, written.trace?);
    if matches!(mistake, Mistake::Move | Mistake::Operand) {
        let lowest = -8 * (found.saved.len() as i32 + found.slot_count as i32);
        let moves = moves(form, &bytes, &trace, lowest);
        if moves.is_empty() {
            return None;
        }
        let (start, end) = random.one_of(&moves);
        let code = &mut bytes[start as usize..end as usize];
        match mistake {
            Mistake::Move => code.fill(0x90),
            _ => change_operand(code, random)?,
        }
    }
    Some((found, bytes, trace))
}

/// Does something wrong to what the allocator has found.
fn change(found: &mut scan::Allocation, mistake: Mistake, random: &mut Random) -> Option<()> {
    let in_register = |part: &u32| matches!(found.parts[*part as usize].home, Some(Home::Register(_)));
    let parts: Vec<u32> = (0..found.parts.len() as u32).filter(in_register).collect();
    let one = (!parts.is_empty()).then(|| random.one_of(&parts) as usize);
    match mistake {
        Mistake::Homes => {
            let one = one?;
            let class = found.parts[one].class;
            let is_other = |part: &u32| {
                let part = &found.parts[*part as usize];
                part.class == class && part.home != found.parts[one].home
            };
            let others: Vec<u32> = parts.into_iter().filter(is_other).collect();
            if others.is_empty() {
                return None;
            }
            let other = random.one_of(&others) as usize;
            (found.parts[one].home, found.parts[other].home) =
                (found.parts[other].home, found.parts[one].home);
        }
        Mistake::Register => {
            let part = &mut found.parts[one?];
            let registers: &[u8] = match part.class {
                Class::Integer => &[0, 1, 2, 3, 6, 7, 8, 9, 10, 12, 13, 14, 15],
                Class::Float => &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14],
            };
            part.home = Some(Home::Register(random.one_of(registers)));
        }
        Mistake::Slot => {
            let with: Vec<usize> =
                (0..found.slots.len()).filter(|&name| found.slots[name].is_some()).collect();
            if with.len() < 2 {
                return None;
            }
            let [a, b] = [0; 2].map(|_| random.one_of(&with));
            match random.one_in(2) {
                true => found.slots.swap(a, b),
                false => found.slots[a] = found.slots[b],
            }
        }
        Mistake::Saved => {
            let at = random.below(found.saved.len().max(1));
            let _ = found.saved.get(at)?;
            found.saved.remove(at);
        }
        Mistake::Taken | Mistake::Move | Mistake::Operand => {}
    }
    Some(())
}

/// Where there are moves of values: not of what an instruction has made itself.
fn moves(form: &Form<'_>, bytes: &[u8], trace: &Trace, lowest: i32) -> Vec<(u32, u32)> {
    let (mut at, mut next, mut moves) = (0, 0, Vec::new());
    let (mut passes, mut operands) = (true, Vec::new());
    while at < trace.end {
        while next < trace.marks.len() && trace.marks[next].0 <= at {
            match trace.marks[next].1 {
                Mark::Instruction(number) => {
                    let inst = form.insts[number as usize].expect("an instruction");
                    let opcode = form.data(inst).opcode();
                    passes = opcode.is_call() || matches!(opcode, Opcode::Return | Opcode::Jump);
                    operands.clear();
                }
                Mark::Operand(_, from) => operands.push(from),
                Mark::Way(_) | Mark::Ends(_) => passes = true,
                _ => {}
            }
            next += 1;
        }
        let step = decode::decode(bytes, at).expect("a known instruction");
        let spot = |at: At| match at {
            At::Integer(r) => Some(Spot::Integer(r)),
            At::Float(r) => Some(Spot::Float(r)),
            At::Memory(Mem { base: Base::Reg(RBP), index: None, offset }) if offset >= lowest => {
                Some(Spot::Slot(offset))
            }
            At::Memory(_) => None,
        };
        let is_move = match step.does {
            Does::Copy { to, from } => match (spot(to), spot(from)) {
                (Some(_), Some(from)) => passes || operands.contains(&from),
                _ => false,
            },
            Does::Exchange(..) => true,
            _ => false,
        };
        if is_move {
            moves.push((at, step.end));
        }
        at = step.end;
    }
    moves
}

/// Another register, or another place in the frame.
fn change_operand(code: &mut [u8], random: &mut Random) -> Option<()> {
    let mut at = code.iter().position(|byte| !matches!(byte, 0x66 | 0xF2 | 0xF3 | 0x40..=0x4F))?;
    at += if code[at] == 0x0F { 2 } else { 1 };
    let other = 1 + random.below(7) as u8;
    match (code[at] >> 6, random.one_in(2)) {
        (_, true) => code[at] ^= other << 3,
        (3, false) => code[at] ^= other,
        _ => *code.get_mut(at + 1)? ^= 8,
    }
    Some(())
}

#[test]
fn mistakes_are_found_or_change_nothing() {
    let (seeds, is_asked) = seeds();
    let seeds = if is_asked { seeds } else { 0..120 };
    let mut bench = Bench::new();
    let mut counts = [[0; 3]; MISTAKES.len()];
    for seed in seeds {
        let (function, mut random) = (bench.function(seed), Random::new(seed ^ 0x3333));
        let code = bench.compile(seed, &function).expect("it is compiled");
        let all: Vec<Done> = inputs(seed).iter().map(|input| bench.run(&code, input, &given(seed))).collect();
        free_at_once(code);
        for (mistake, counts) in MISTAKES.into_iter().zip(&mut counts) {
            for n in 0..4 {
                match outcome(&function, mistake, &mut random) {
                    Outcome::None => {}
                    Outcome::Asserted => counts[1] += 1,
                    Outcome::Found => counts[0] += 1,
                    Outcome::Passed(bytes) => {
                        counts[2] += 1;
                        if is_asked {
                            eprint!("{seed} {mistake:?} {n} \r");
                        }
                        let code = bench.code.install(&bytes, Of::Function).expect("there is room");
                        for (input, before) in inputs(seed).iter().zip(&all) {
                            let now = bench.run(&code, input, &given(seed));
                            let difference = difference(input, &now, before);
                            assert!(
                                now == *before,
                                "seed {seed}, {mistake:?} {n} is overlooked: {difference}"
                            );
                        }
                        free_at_once(code);
                    }
                }
            }
        }
    }
    for (mistake, [found, asserted, passed]) in MISTAKES.into_iter().zip(counts) {
        eprintln!("{mistake:?}: {found} found, {asserted} by assertions, {passed} change nothing");
        assert!(is_asked || found >= 40, "{mistake:?} is found {found} times");
    }
}

/// A function that gives back the difference of two words, behind a call of the third.
fn difference_behind_a_call() -> Function {
    let (mut function, mut variables) = (Function::default(), Variables::default());
    let signature =
        Signature { convention: Convention::C, params: vec![Type::I64; 3], returns: vec![Type::I64] };
    let mut b = Builder::new(&mut function, &mut variables, signature);
    let block = b.create_block();
    b.switch_to_block(block);
    b.append_block_params_for_function_params(block);
    let words = b.block_params(block);
    let called = b.import_signature(Signature::new(Convention::C));
    b.call_indirect(called, words[2], &[]);
    let difference = b.isub(words[0], words[1]);
    b.return_(&[difference]);
    b.seal_all_blocks();
    function
}

#[test]
fn what_is_wrong_is_said() {
    let function = difference_behind_a_call();
    let form = Form::of(&function).expect("known");
    let needed = intervals::needed(&form);
    let intervals = || intervals::intervals(&form, &needed);
    let wrong = |found: &scan::Allocation| {
        let departures = Box::new(Departures::to(leave));
        let written = emit::emit(&form, &needed.sets, found, (true, departures)).expect("a small frame");
        let wrong = check(&form, found, &written.bytes, &written.trace.expect("asked for"));
        wrong.expect_err("a mistake").to_string()
    };
    // The call is not said to change registers.
    let none = intervals::Taken {
        calls: Vec::new(),
        thorough: Vec::new(),
        integers: Default::default(),
        floats: Vec::new(),
    };
    let said = wrong(&scan::allocate(&form, &needed.sets, intervals(), &none));
    assert_eq!(
        said,
        "v0 is read, and RDI holds nothing (byte 0xa, block0, position 8: v3 = isub I64 v0, v1)"
    );
    // Registers are used that are not saved.
    let mut found = scan::allocate(&form, &needed.sets, intervals(), &intervals::taken(&form));
    found.saved.clear();
    let said = wrong(&found);
    assert_eq!(
        said,
        "a register is not as it was: RBX holds v3 (byte 0x17, block0, position 12: return I64 v3)"
    );
}
