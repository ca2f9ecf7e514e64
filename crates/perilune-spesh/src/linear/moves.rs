//! Moves that are made at once: each reads what was there before any of them.

use super::assemble::{Assembler, Mem, Reg};
use super::form::Class;

/// The register for integers that is nobody's, for what is moved.
pub(super) const SCRATCH: Reg = 11;
/// The same for floats.
pub(super) const FLOAT_SCRATCH: Reg = 15;

/// Where a value can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    Integer(Reg),
    Float(Reg),
    /// In the frame, so far from its base.
    Slot(i32),
}

impl Spot {
    pub(super) fn register(class: Class, r: Reg) -> Spot {
        match class {
            Class::Integer => Spot::Integer(r),
            Class::Float => Spot::Float(r),
        }
    }
}

/// What is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    Spot(Spot),
    Constant(i64),
    FloatConstant(u64),
    /// This address.
    Address(Mem),
}

/// Makes the moves at once. The scratch register for integers is left alone if no slot is written.
pub(super) fn make(asm: &mut Assembler, moves: &[(Spot, From)]) {
    let mut open: Vec<(Spot, Spot)> = moves
        .iter()
        .filter_map(|&(to, from)| match from {
            From::Spot(from) if from != to => Some((to, from)),
            _ => None,
        })
        .collect();
    // A slot that is moved while a scratch register is somebody's goes through the other one.
    let mut busy = None;
    while !open.is_empty() {
        let is_read = |to: Spot, but: usize| open.iter().enumerate().any(|(n, of)| n != but && of.1 == to);
        if let Some(n) = (0..open.len()).find(|&n| !is_read(open[n].0, n)) {
            let (to, from) = open.swap_remove(n);
            copy(asm, to, from, busy);
            if busy == Some(from) {
                busy = None;
            }
            continue;
        }
        // All that is left goes round.
        let (to, from) = open[0];
        match (to, from) {
            (Spot::Integer(a), Spot::Integer(b)) => {
                asm.exchange(a, b);
                // What was in `a` is in `b` now.
                open.swap_remove(0);
                for of in &mut open {
                    if of.1 == to {
                        of.1 = from;
                    }
                }
                open.retain(|of| of.0 != of.1);
            }
            _ => {
                let is_float = matches!(from, Spot::Float(_));
                let scratch = if is_float { Spot::Float(FLOAT_SCRATCH) } else { Spot::Integer(SCRATCH) };
                assert_eq!(busy, None, "one goes round at a time");
                copy(asm, scratch, from, None);
                busy = Some(scratch);
                open[0].1 = scratch;
            }
        }
    }
    for &(to, from) in moves {
        match (to, from) {
            (_, From::Spot(_)) => {}
            (Spot::Integer(r), From::Constant(n)) => asm.mov_immediate(r, n, true),
            (Spot::Integer(r), From::Address(mem)) => asm.lea(r, mem),
            (Spot::Float(r), From::FloatConstant(0)) => asm.zero_float(r),
            (Spot::Float(r), From::FloatConstant(bits)) => {
                let n = asm.constant(bits);
                asm.load_float(r, super::constant(n));
            }
            (Spot::Slot(offset), _) => {
                match from {
                    From::Constant(n) => asm.mov_immediate(SCRATCH, n, true),
                    From::FloatConstant(bits) => asm.mov_immediate(SCRATCH, bits as i64, true),
                    From::Address(mem) => asm.lea(SCRATCH, mem),
                    From::Spot(_) => {}
                }
                asm.store(super::assemble::Width::W64, super::slot(offset), SCRATCH);
            }
            (Spot::Integer(_), From::FloatConstant(_)) | (Spot::Float(_), _) => {
                unreachable!("a value stays in its class")
            }
        }
    }
}

fn copy(asm: &mut Assembler, to: Spot, from: Spot, busy: Option<Spot>) {
    use super::assemble::Width::W64;
    match (to, from) {
        (Spot::Integer(to), Spot::Integer(from)) => asm.mov(to, from),
        (Spot::Integer(to), Spot::Slot(from)) => asm.load(W64, to, super::slot(from)),
        (Spot::Slot(to), Spot::Integer(from)) => asm.store(W64, super::slot(to), from),
        (Spot::Float(to), Spot::Float(from)) => asm.mov_float(to, from),
        (Spot::Float(to), Spot::Slot(from)) => asm.load_float(to, super::slot(from)),
        (Spot::Slot(to), Spot::Float(from)) => asm.store_float(super::slot(to), from),
        (Spot::Slot(to), Spot::Slot(from)) => {
            if busy == Some(Spot::Integer(SCRATCH)) {
                asm.load_float(FLOAT_SCRATCH, super::slot(from));
                asm.store_float(super::slot(to), FLOAT_SCRATCH);
            } else {
                asm.load(W64, SCRATCH, super::slot(from));
                asm.store(W64, super::slot(to), SCRATCH);
            }
        }
        (Spot::Integer(to), Spot::Float(from)) => asm.bits_of_float(to, from),
        (Spot::Float(to), Spot::Integer(from)) => asm.float_of_bits(to, from),
    }
}
