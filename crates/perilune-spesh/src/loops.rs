//! Which loop of a function is compiled: the region of bytecode.

use perilune_syntax::{Op, Proto};
use perilune_vm::machine::Log;

/// A loop: the instructions from its first to the one that comes back to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// The first instruction of the body.
    pub head: usize,
    /// The last backward jump to it.
    pub back: usize,
}

impl Region {
    /// Whether the instruction is part of it.
    pub fn contains(&self, at: usize) -> bool {
        (self.head..=self.back).contains(&at)
    }
}

/// Where the instruction at `at` jumps to, if it may.
pub fn target(proto: &Proto, at: usize) -> Option<usize> {
    let jump = proto.code[at].jump()?;
    usize::try_from(at as i64 + 1 + jump as i64).ok()
}

/// The loops of a function, each once.
fn loops(proto: &Proto) -> Vec<Region> {
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

/// Whether all jumps from outside lead around it or to its first instruction, so that it has one way in besides its entries.
fn is_closed(proto: &Proto, region: Region) -> bool {
    (0..proto.code.len()).filter(|&at| !region.contains(at)).all(|at| match target(proto, at) {
        // The way into a generic loop is its TFORCALL.
        Some(to) if proto.code[at].op() == Some(Op::TForPrep) => {
            !region.contains(to) || to + 1 == region.back
        }
        Some(to) => to <= region.head || to > region.back,
        None => true,
    })
}

/// Whether the backward jump has been taken. The quick ways of `TFORCALL` take that of the `TFORLOOP` behind it.
fn comes_round(log: &Log, back: usize) -> bool {
    let quick = log.proto().code[back].op() == Some(Op::TForLoop) && log.site(back - 1).runs > 1;
    quick || log.site(back).runs > 1
}

/// The largest loop around the hot one that came round while the log was kept and in which nothing leads to other Lua code: calls would leave it each time.
pub fn choose(log: &Log) -> Option<Region> {
    let proto = log.proto();
    let stays = |region: &Region| {
        (region.head..=region.back).all(|at| {
            let returns =
                matches!(proto.code[at].op(), Some(Op::Return | Op::Return0 | Op::Return1 | Op::TailCall));
            !log.site(at).left || returns
        })
    };
    let around = loops(proto).into_iter().filter(|l| l.contains(log.hot()));
    let fit = around.filter(|l| {
        log.head(l.head).is_some() && comes_round(log, l.back) && is_closed(proto, *l) && stays(l)
    });
    fit.max_by_key(|l| l.back - l.head)
}
