//! When values are needed.
//!
//! A *position* is four times an instruction's number and what of it: 0 where operands are read, 1 where calls
//! and some operations change registers, 2 where results are written, 3 where blocks are given what they get. A value's *interval* is the ranges of
//! positions where it is needed, from where it is made to where it is read last on each way. Where a block
//! begins its parameters are there at the beginning's own position; what is passed to blocks is needed up to
//! the end of the block that passes it.

use super::form::{Class, Form, Name, Need};
use crate::ssa::{Convention, Data, Opcode};
use smallvec::SmallVec;

/// From the first position to before the second.
pub(super) type Range = (u32, u32);

/// A place where a value is made or read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    pub at: u32,
    /// It has to be in a register.
    pub must: bool,
    /// How often it is expected to be run: 0 where that is hardly ever, else 8 to the number of loops.
    pub weight: u32,
}

impl Use {
    /// Whether it is by the instruction at this position: not by what that gives to blocks.
    pub(super) fn is_by(&self, position: u32) -> bool {
        self.at / 4 == position / 4 && self.at % 4 != 3
    }
}

/// Where a value is in a part of its interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    Register(u8),
    /// In the value's slot of the frame.
    Slot,
}

/// A value's interval, or a part of it in which it is in one place.
pub(super) struct Interval {
    pub name: Name,
    pub class: Class,
    /// In order, none touching the next.
    pub ranges: SmallVec<[Range; 2]>,
    /// In order.
    pub uses: SmallVec<[Use; 2]>,
    pub home: Option<Home>,
    /// The first range that has not ended where the allocator is.
    pub current: usize,
}

impl Interval {
    pub(super) fn start(&self) -> u32 {
        self.ranges[0].0
    }

    pub(super) fn end(&self) -> u32 {
        self.ranges[self.ranges.len() - 1].1
    }

    /// Whether the value is needed at `position`, which is not before where this was asked last.
    pub(super) fn covers(&mut self, position: u32) -> bool {
        while self.current < self.ranges.len() && self.ranges[self.current].1 <= position {
            self.current += 1;
        }
        self.ranges.get(self.current).is_some_and(|range| range.0 <= position)
    }

    /// The first position that is in both, the other of which has been asked where the allocator is.
    pub(super) fn meets(&self, other: &Interval) -> Option<u32> {
        let (mut own, mut others) = (self.ranges.iter(), other.ranges[other.current..].iter());
        let (mut a, mut b) = (own.next()?, others.next()?);
        loop {
            if a.1 <= b.0 {
                a = own.next()?;
            } else if b.1 <= a.0 {
                b = others.next()?;
            } else {
                return Some(a.0.max(b.0));
            }
        }
    }

    /// The first position that is in both.
    pub(super) fn meets_ranges(&self, others: &[Range]) -> Option<u32> {
        let mut next = others.partition_point(|range| range.1 <= self.start());
        for own in &self.ranges {
            while others.get(next)?.1 <= own.0 {
                next += 1;
            }
            if others[next].0 < own.1 {
                return Some(own.0.max(others[next].0));
            }
        }
        None
    }

    /// The first place from `position` on where it is worth something to have it in a register.
    pub(super) fn next_use(&self, position: u32) -> Option<Use> {
        let from = self.uses.partition_point(|of| of.at < position);
        let first = self.uses[from..].iter().find(|of| of.must || of.weight > 0)?;
        // Its instruction may read it twice.
        let must = self.uses[from..].iter().any(|of| of.must && first.at % 4 != 3 && of.is_by(first.at));
        Some(Use { must, ..*first })
    }

    /// The rest of the interval from `position` on, which lies within it.
    pub(super) fn split(&mut self, position: u32) -> Interval {
        assert!(self.start() < position && position < self.end(), "a split lies within");
        let first = self.ranges.partition_point(|range| range.1 <= position);
        let mut ranges: SmallVec<[Range; 2]> = self.ranges.drain(first..).collect();
        if ranges[0].0 < position {
            self.ranges.push((ranges[0].0, position));
            ranges[0].0 = position;
        }
        let first = self.uses.partition_point(|of| of.at < position);
        let uses = self.uses.drain(first..).collect();
        Interval { name: self.name, class: self.class, ranges, uses, home: None, current: 0 }
    }
}

/// Values that are needed where blocks begin: a bit for each that is needed in another block than the one that
/// makes it.
pub(super) struct Sets {
    words: usize,
    bits: Vec<u64>,
    /// The values that have a bit, in that order.
    names: Vec<Name>,
}

impl Sets {
    fn new(sets: usize, names: Vec<Name>) -> Sets {
        let words = names.len().div_ceil(64);
        Sets { words, bits: vec![0; sets * words], names }
    }

    fn of(&self, set: usize) -> &[u64] {
        &self.bits[set * self.words..(set + 1) * self.words]
    }

    fn insert(&mut self, set: usize, bit: u32) {
        self.bits[set * self.words + bit as usize / 64] |= 1 << (bit % 64);
    }

    pub(super) fn names(&self, set: usize) -> impl Iterator<Item = Name> + '_ {
        self.names_of(self.of(set).iter().copied())
    }

    /// Those of a set that are in `mask` as well.
    pub(super) fn names_in<'a>(&'a self, set: usize, mask: &'a [u64]) -> impl Iterator<Item = Name> + 'a {
        self.names_of(self.of(set).iter().zip(mask).map(|(own, mask)| own & mask))
    }

    /// The values for which this holds, as bits.
    pub(super) fn mask(&self, is_in: impl Fn(Name) -> bool) -> Vec<u64> {
        let word = |names: &[Name]| {
            let bits = names.iter().enumerate().filter(|(_, name)| is_in(**name));
            bits.fold(0, |word, (bit, _)| word | 1 << bit)
        };
        self.names.chunks(64).map(word).collect()
    }

    fn names_of<'a>(&'a self, words: impl Iterator<Item = u64> + 'a) -> impl Iterator<Item = Name> + 'a {
        words.enumerate().flat_map(move |(n, word)| {
            let mut word = word;
            std::iter::from_fn(move || {
                (word != 0).then(|| {
                    let bit = word.trailing_zeros();
                    word &= word - 1;
                    self.names[n * 64 + bit as usize]
                })
            })
        })
    }
}

/// No block, or no bit.
const NONE: u32 = u32::MAX;

/// What instructions read, and where that is needed.
pub(super) struct Needed {
    /// The values that are needed where each block begins.
    pub sets: Sets,
    /// What each instruction reads that is written where it stands.
    operands: Vec<(Name, Need)>,
    /// Where its operands begin in these, by number, and the end of all.
    firsts: Vec<u32>,
}

impl Needed {
    fn operands(&self, number: u32) -> &[(Name, Need)] {
        let [from, to] = [0, 1].map(|n| self.firsts[number as usize + n] as usize);
        &self.operands[from..to]
    }
}

/// Finds out what is needed where.
pub(super) fn needed(form: &Form<'_>) -> Needed {
    let count = form.blocks.len();
    // The block that makes each value.
    let mut maker = vec![NONE; form.classes.len()];
    for place in 0..count {
        each_made(form, place, &mut |name| maker[name as usize] = place as u32);
    }
    let (mut operands, mut firsts) = (Vec::new(), Vec::with_capacity(form.insts.len() + 1));
    // What blocks read that others make; which bit each of these has.
    let (mut read, mut names, mut bits) = (Vec::new(), Vec::new(), vec![NONE; form.classes.len()]);
    let mut reads = |place: usize, name: Name| {
        if maker[name as usize] != place as u32 {
            let bit = &mut bits[name as usize];
            if *bit == NONE {
                *bit = names.len() as u32;
                names.push(name);
            }
            read.push((place, *bit));
        }
    };
    for place in 0..count {
        let bounds = &form.blocks[place];
        firsts.push(operands.len() as u32);
        for number in bounds.head + 1..=bounds.last {
            firsts.push(operands.len() as u32);
            let inst = form.insts[number as usize].expect("an instruction");
            if form.is_written(inst) {
                form.operands(inst, &mut |name, need| {
                    reads(place, name);
                    operands.push((name, need));
                });
            }
        }
        for way in form.ways(place) {
            for (_, value) in form.passed(way) {
                if let Some(name) = form.name(value) {
                    reads(place, name);
                }
            }
        }
    }
    firsts.push(operands.len() as u32);
    let (mut sets, mut made) = (Sets::new(count, names), Sets::new(count, Vec::new()));
    (made.words, made.bits) = (sets.words, vec![0; sets.bits.len()]);
    for (place, bit) in read {
        sets.insert(place, bit);
    }
    for (bit, &name) in sets.names.iter().enumerate() {
        made.insert(maker[name as usize] as usize, bit as u32);
    }
    loop {
        let mut changed = false;
        for place in (0..count).rev() {
            for way in form.ways(place) {
                for n in 0..sets.words {
                    let more = sets.bits[way.to * sets.words + n] & !made.bits[place * sets.words + n];
                    let own = &mut sets.bits[place * sets.words + n];
                    changed |= more & !*own != 0;
                    *own |= more;
                }
            }
        }
        if !changed {
            return Needed { sets, operands, firsts };
        }
    }
}

/// Names what a block makes.
fn each_made(form: &Form<'_>, place: usize, each: &mut dyn FnMut(Name)) {
    let bounds = &form.blocks[place];
    let insts = form.insts[bounds.head as usize + 1..=bounds.last as usize].iter().flatten();
    form.parameters(place).for_each(&mut *each);
    insts.flat_map(|&inst| form.made(inst)).for_each(each);
}

/// The intervals of all values, by their names. Ranges and uses are made from the last to the first.
pub(super) fn intervals(form: &Form<'_>, needed: &Needed) -> Vec<Interval> {
    let sets = &needed.sets;
    let make = |(name, &class): (usize, &Class)| Interval {
        name: name as Name,
        class,
        ranges: SmallVec::new(),
        uses: SmallVec::new(),
        home: None,
        current: 0,
    };
    let mut all: Vec<Interval> = form.classes.iter().enumerate().map(make).collect();
    let mut behind = vec![0; sets.words];
    for place in (0..form.blocks.len()).rev() {
        let bounds = &form.blocks[place];
        let (start, end) = (bounds.start(), bounds.end());
        let weight = if bounds.is_cold { 0 } else { 8u32.pow(u32::from(bounds.depth)) };
        // What is needed behind the block.
        behind.fill(0);
        for way in form.ways(place) {
            for (own, more) in behind.iter_mut().zip(sets.of(way.to)) {
                *own |= more;
            }
        }
        for name in sets.names_of(behind.iter().copied()) {
            all[name as usize].needs(start, end);
        }
        for way in form.ways(place) {
            for (_, value) in form.passed(way) {
                if let Some(name) = form.name(value) {
                    all[name as usize].needs(start, end);
                    all[name as usize].uses.push(Use { at: end - 1, must: false, weight });
                }
            }
        }
        for number in (bounds.head + 1..=bounds.last).rev() {
            let inst = form.insts[number as usize].expect("an instruction");
            let at = 4 * number;
            for name in form.made(inst) {
                all[name as usize].is_made(at + 2, weight, true);
            }
            for &(name, need) in needed.operands(number) {
                let (at, until) = match need {
                    Need::Must | Need::May => (at, at + 1),
                    Need::MustLate | Need::MayLate => (at + 2, at + 3),
                };
                let must = matches!(need, Need::Must | Need::MustLate);
                all[name as usize].needs(start, until);
                all[name as usize].uses.push(Use { at, must, weight });
            }
        }
        for name in form.parameters(place) {
            all[name as usize].is_made(start, weight, false);
        }
    }
    for interval in &mut all {
        interval.ranges.reverse();
        interval.uses.reverse();
        // An operand that is read late comes behind others of its instruction.
        interval.uses.sort_by_key(|of| of.at);
    }
    come_round(form, sets, &mut all);
    all
}

/// What is read in a loop is read again in the next round: it is worth a register at the end of one.
fn come_round(form: &Form<'_>, needed: &Sets, all: &mut [Interval]) {
    for (place, bounds) in form.blocks.iter().enumerate().filter(|(_, bounds)| !bounds.is_cold) {
        for way in form.ways(place).iter().filter(|way| way.to <= place) {
            let (start, at) = (form.blocks[way.to].start(), bounds.end() - 1);
            for name in needed.names(way.to) {
                let uses = &mut all[name as usize].uses;
                let from = uses.partition_point(|of| of.at < start);
                let to = uses.partition_point(|of| of.at <= at);
                if from < to {
                    uses.insert(to, Use { at, must: false, weight: 1 });
                }
            }
        }
    }
}

/// While ranges are made, from the last to the first.
impl Interval {
    /// It is needed from `from`, where its block begins, to `to`, unless it is known to be for longer.
    fn needs(&mut self, from: u32, to: u32) {
        match self.ranges.last_mut() {
            Some(range) if range.0 <= to => {
                range.0 = range.0.min(from);
                range.1 = range.1.max(to);
            }
            _ => self.ranges.push((from, to)),
        }
    }

    fn is_made(&mut self, at: u32, weight: u32, must: bool) {
        match self.ranges.last_mut() {
            Some(range) if range.0 <= at && at < range.1 => range.0 = at,
            _ => self.ranges.push((at, at + 1)),
        }
        self.uses.push(Use { at, must, weight });
    }
}

/// Which registers are changed where, by something else than the values that are in them.
pub(super) struct Taken {
    /// Calls, which change all of [`CHANGED`] and all floats.
    pub calls: Vec<Range>,
    /// Those of them that change all others, too.
    pub thorough: Vec<Range>,
    /// For each register for integers what else changes it, in order.
    pub integers: [Vec<Range>; 16],
    /// What else changes floats.
    pub floats: Vec<Range>,
}

impl Taken {
    /// The first position in the interval where each register is changed; `u32::MAX`: nowhere.
    pub(super) fn meets(&self, own: &Interval) -> [u32; 16] {
        let calls = own.meets_ranges(&self.calls).unwrap_or(u32::MAX);
        let and = |ranges: &[Range]| own.meets_ranges(ranges).map_or(calls, |at| at.min(calls));
        if own.class == Class::Float {
            return [and(&self.floats); 16];
        }
        let thorough = own.meets_ranges(&self.thorough).unwrap_or(u32::MAX);
        let mut first = [thorough; 16];
        for r in CHANGED {
            first[r as usize] = and(&self.integers[r as usize]);
        }
        first
    }
}

/// The registers that calls by the convention of C do not leave as they were.
pub(super) const CHANGED: [u8; 9] = [0, 1, 2, 6, 7, 8, 9, 10, 11];
/// Where calls get their words.
pub(super) const ARGUMENTS: [u8; 6] = [7, 6, 2, 1, 8, 9];

pub(super) fn taken(form: &Form<'_>) -> Taken {
    let (calls, thorough) = (Vec::new(), Vec::new());
    let mut taken = Taken { calls, thorough, integers: Default::default(), floats: Vec::new() };
    for (number, inst) in form.insts.iter().enumerate() {
        let Some(inst) = *inst else { continue };
        let at = 4 * number as u32;
        let data = form.data(inst);
        match (data.opcode(), data) {
            (Opcode::CallIndirect, &Data::Call { sig, args, .. }) => {
                let signature = form.func.signature_of(sig);
                if signature.convention == Convention::Preserving {
                    let words = args.len() - 1;
                    for &r in &ARGUMENTS[..words.min(6)] {
                        taken.integers[r as usize].push((at + 1, at + 2));
                    }
                    let floats = signature.params.iter().any(|ty| ty.is_float());
                    if floats {
                        taken.floats.push((at + 1, at + 2));
                    }
                } else {
                    taken.calls.push((at + 1, at + 2));
                    if signature.convention == Convention::Machine {
                        taken.thorough.push((at + 1, at + 2));
                    }
                }
            }
            (Opcode::Udiv | Opcode::Urem | Opcode::FloorDiv | Opcode::FloorMod | Opcode::Umulhi, _) => {
                taken.integers[0].push((at, at + 2));
                taken.integers[2].push((at, at + 2));
            }
            (Opcode::Ishl | Opcode::Ushr | Opcode::Sshr, &Data::Binary { args, .. })
                if form.integer(args[1]).is_none() =>
            {
                taken.integers[1].push((at, at + 3));
            }
            _ => {}
        }
    }
    taken
}
