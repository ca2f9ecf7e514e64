//! Which value is in which register where: a linear scan.
//!
//! After C. Wimmer and H. Mössenböck, *Optimized Interval Splitting in a Linear Scan Register Allocator* (VEE
//! 2005), and C. Wimmer and M. Franz, *Linear Scan Register Allocation on SSA Form* (CGO 2010). Intervals are
//! looked at in the order in which they begin. One gets a register that is free for as long as it is needed;
//! else one that is free for a while, and is split there; else the register whose value is read last, or is
//! worth least, is taken from that. What has no register is in the frame, until where it is read next.
//!
//! Code that is hardly ever run lies behind all other. A register counts as free for as long as is needed if
//! it is until that begins: what is moved there costs nothing.

use super::form::{Class, Form, Name};
use super::intervals::{CHANGED, Home, Interval, Sets, Taken, Use};
use crate::ssa::{Data, Opcode};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Registers for integers, in the order in which they are given out: those first that nobody has to save. RSP
/// and RBP are the stack's, R11 is for what is moved.
const INTEGERS: [u8; 13] = [0, 1, 2, 6, 7, 8, 9, 10, 3, 12, 13, 14, 15];
/// The same without the one that is kept for good.
const INTEGERS_BUT_ONE: [u8; 12] = [0, 1, 2, 6, 7, 8, 9, 10, 12, 13, 14, 15];
/// Those for floats; the last one is for what is moved.
const FLOATS: [u8; 15] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14];

/// What the allocator has found.
pub(super) struct Allocation {
    /// All intervals and parts of intervals.
    pub parts: Vec<Interval>,
    /// Those of each value, in order.
    pub of: Vec<Vec<u32>>,
    /// The slot of the frame that a value has, if it is in the frame anywhere.
    pub slots: Vec<Option<u32>>,
    pub slot_count: u32,
    /// A value is stored where it is made, so that its slot has it wherever it is looked for there.
    pub is_stored: Vec<bool>,
    /// The registers that have to be saved.
    pub saved: Vec<u8>,
    /// Where values are that are in one place as long as they are needed.
    only: Vec<Option<Home>>,
    /// Those that are in several, as bits.
    split: Vec<u64>,
}

impl Allocation {
    /// What is asked for most often: where those are that are in one place.
    pub(super) fn tell_homes(&mut self) {
        let home = |parts: &Vec<u32>| match parts[..] {
            [one] => self.parts[one as usize].home,
            _ => None,
        };
        self.only = self.of.iter().map(home).collect();
    }

    /// Where a value is at a position where it is needed.
    pub(super) fn home(&self, name: Name, position: u32) -> Home {
        if let Some(home) = self.only[name as usize] {
            return home;
        }
        let parts = &self.of[name as usize];
        let begun = |&part: &u32| self.parts[part as usize].start() <= position;
        let part = parts[parts.partition_point(begun).max(1) - 1];
        self.parts[part as usize].home.expect("every part has a place")
    }
}

/// Where a value would save a move.
#[derive(Clone, Copy, Default)]
struct Wish {
    /// Where this other one is.
    other: Option<Name>,
    /// In this register.
    register: Option<u8>,
}

struct Scan<'a, 'f> {
    form: &'a Form<'f>,
    taken: &'a Taken,
    parts: Vec<Interval>,
    of: Vec<Vec<u32>>,
    wishes: Vec<Wish>,
    /// The register that each value got first.
    first: Vec<Option<u8>>,
    open: BinaryHeap<Reverse<(u32, u32)>>,
    /// Needed where the allocator is, and in a register.
    active: Vec<u32>,
    /// Not needed there, but later.
    inactive: Vec<u32>,
    /// Registers that are used at all, of those that have to be saved.
    saved: u16,
    /// The position that the allocator is at: what begins before has been looked at.
    now: u32,
}

/// Finds a place for all values.
pub(super) fn allocate(
    form: &Form<'_>,
    needed: &Sets,
    intervals: Vec<Interval>,
    taken: &Taken,
) -> Allocation {
    let names = intervals.len();
    // No value is split so often; whatever is wrong, this comes to an end.
    let mut steps = 64 * names + 1024;
    let mut scan = Scan {
        form,
        taken,
        of: (0..names as u32).map(|part| vec![part]).collect(),
        wishes: wishes(form),
        first: vec![None; names],
        open: intervals.iter().enumerate().map(|(n, i)| Reverse((i.start(), n as u32))).collect(),
        parts: intervals,
        active: Vec::new(),
        inactive: Vec::new(),
        saved: 0,
        now: 0,
    };
    while let Some(Reverse((start, part))) = scan.open.pop() {
        steps -= 1;
        assert!(scan.now <= start && steps > 0, "the allocator goes on, and comes to an end");
        scan.now = start;
        scan.go_to(start);
        if !scan.find_free(part) {
            scan.take(part);
        }
    }
    scan.finish(needed)
}

fn wishes(form: &Form<'_>) -> Vec<Wish> {
    let mut wishes = vec![Wish::default(); form.classes.len()];
    for (n, value) in form.params(0).enumerate() {
        if let Some(name) = form.name(value) {
            wishes[name as usize].register = super::intervals::ARGUMENTS.get(n).copied();
        }
    }
    let mut both = |a: Option<Name>, b: Option<Name>| {
        if let (Some(a), Some(b)) = (a, b) {
            wishes[a as usize].other.get_or_insert(b);
            wishes[b as usize].other.get_or_insert(a);
        }
    };
    // What goes round a loop first.
    for place in (0..form.blocks.len()).rev() {
        for way in form.ways(place) {
            for (parameter, value) in form.passed(way) {
                both(Some(parameter), form.name(value));
            }
        }
    }
    for inst in form.insts.iter().flatten() {
        let Some(result) = form.func.result(*inst) else { continue };
        match *form.data(*inst) {
            Data::Binary { opcode, args } => match opcode {
                Opcode::Udiv | Opcode::Urem | Opcode::FloorDiv | Opcode::FloorMod | Opcode::Umulhi => {}
                _ => {
                    // The result takes the first one's place, unless only the second's can be taken.
                    if let (Some(result), Some(of)) = (form.name(result), form.name(args[0])) {
                        wishes[result as usize].other.get_or_insert(of);
                    }
                }
            },
            Data::Select { args } => {
                if let (Some(result), Some(of)) = (form.name(result), form.name(args[2])) {
                    wishes[result as usize].other.get_or_insert(of);
                }
            }
            Data::Unary { arg, .. } => {
                if let (Some(result), Some(of)) = (form.name(result), form.name(arg))
                    && form.classes[result as usize] == form.classes[of as usize]
                {
                    wishes[result as usize].other.get_or_insert(of);
                }
            }
            Data::Call { .. } => {
                for (result, register) in form.func.results(*inst).zip([0, 2]) {
                    if let Some(name) = form.name(result) {
                        wishes[name as usize].register = Some(register);
                    }
                }
            }
            _ => {}
        }
    }
    wishes
}

impl Scan<'_, '_> {
    fn part(&mut self, part: u32) -> &mut Interval {
        &mut self.parts[part as usize]
    }

    fn register(&self, part: u32) -> u8 {
        match self.parts[part as usize].home {
            Some(Home::Register(r)) => r,
            _ => unreachable!("a part that is active has a register"),
        }
    }

    /// The allocator is at this position: what is not needed any more is given up.
    fn go_to(&mut self, position: u32) {
        let (parts, inactive) = (&mut self.parts, &mut self.inactive);
        let slept = inactive.len();
        self.active.retain(|&part| {
            let interval = &mut parts[part as usize];
            let is_active = interval.covers(position);
            if !is_active && interval.end() > position {
                inactive.push(part);
            }
            is_active
        });
        let active = &mut self.active;
        let mut at = 0;
        inactive.retain(|&part| {
            at += 1;
            if at > slept {
                return true;
            }
            let interval = &mut parts[part as usize];
            if interval.ranges[interval.current].0 > position {
                return true;
            }
            let is_active = interval.covers(position);
            if is_active {
                active.push(part);
            }
            !is_active && interval.end() > position
        });
    }

    fn registers(&self, class: Class) -> &'static [u8] {
        match class {
            Class::Integer if self.form.jumps() => &INTEGERS_BUT_ONE,
            Class::Integer => &INTEGERS,
            Class::Float => &FLOATS,
        }
    }

    /// Whether the function has to leave the register as it was.
    fn is_saved(&self, class: Class, r: u8) -> bool {
        class == Class::Integer && !self.form.jumps() && !CHANGED.contains(&r)
    }

    /// Up to where each register is free for this part.
    fn free_until(&self, part: u32) -> [u32; 16] {
        let own = &self.parts[part as usize];
        let mut free = [0; 16];
        for &r in self.registers(own.class) {
            free[r as usize] = u32::MAX;
        }
        for &other in &self.active {
            if self.parts[other as usize].class == own.class {
                free[self.register(other) as usize] = 0;
            }
        }
        for &other in &self.inactive {
            let interval = &self.parts[other as usize];
            if interval.class != own.class {
                continue;
            }
            let free = &mut free[self.register(other) as usize];
            if *free > interval.ranges[interval.current].0
                && interval.ranges[interval.current].0 < own.end()
                && let Some(at) = own.meets(interval)
            {
                // An operand that is read late has to be there to the end of its instruction.
                let late = own.uses.iter().any(|of| of.at == at && at % 4 == 2 && at != own.start());
                *free = (*free).min(if late { at & !3 } else { at });
            }
        }
        let taken = self.taken.meets(own);
        free.iter_mut().zip(taken).for_each(|(free, at)| *free = (*free).min(at));
        free
    }

    /// The part gets a register that is free; whether there is one.
    fn find_free(&mut self, part: u32) -> bool {
        let own = &self.parts[part as usize];
        let (class, start, end) = (own.class, own.start(), own.end());
        let Some(first) = own.next_use(start) else {
            // Nobody wants it in a register.
            return false;
        };
        let free = self.free_until(part);
        // Where it is hardly ever run a move costs nothing.
        let wanted = if start < self.form.cold { end.min(self.form.cold) } else { end };
        let suffices = |r: u8| free[r as usize] >= wanted;
        let wish = self.wishes[own.name as usize];
        let wished = [wish.other.and_then(|other| self.first[other as usize]), wish.register];
        for r in [self.first[own.name as usize]].into_iter().chain(wished).flatten() {
            if self.registers(class).contains(&r) && suffices(r) {
                self.give(part, r, free[r as usize]);
                return true;
            }
        }
        let enough = self.registers(class).iter().copied().filter(|&r| suffices(r));
        // One that is free for no longer than is needed, so that others are; one that is saved already.
        let best = enough.min_by_key(|&r| {
            let must_be_saved = self.is_saved(class, r) && self.saved & 1 << r == 0;
            (must_be_saved, self.is_saved(class, r), free[r as usize].min(end))
        });
        if let Some(r) = best {
            self.give(part, r, free[r as usize]);
            return true;
        }
        let longest = self.registers(class).iter().copied().max_by_key(|&r| free[r as usize]);
        let r = longest.expect("there are registers");
        let until = free[r as usize];
        // It has to be free where the part is made, or read, and until the instruction is over.
        if until <= start || until <= first.at || until / 4 <= start / 4 {
            return false;
        }
        // Another value may be moved out of the way for less than this one costs to be loaded again.
        let cost = self.reload_cost(part, until);
        if cost == 0 || !self.displace(part, wanted, cost) {
            self.give(part, r, until);
        }
        true
    }

    /// How often a part is expected to be loaded that has no register from this position on, until it is read.
    fn reload_cost(&self, part: u32, from: u32) -> u64 {
        let Some(next) = self.parts[part as usize].next_use(from) else { return 0 };
        self.times(self.best_split(from, next))
    }

    /// The part gets a register that is free up to this position: if it is needed for longer the rest is put
    /// off.
    fn give(&mut self, part: u32, r: u8, until: u32) {
        let own = self.part(part);
        own.home = Some(Home::Register(r));
        let (class, name) = (own.class, own.name as usize);
        if self.is_saved(class, r) {
            self.saved |= 1 << r;
        }
        self.first[name].get_or_insert(r);
        self.active.push(part);
        if until < self.parts[part as usize].end() {
            self.put_off(part, until);
        }
    }

    /// From this position on a part has no register, until where it is worth one. What is left of it may be
    /// nothing.
    fn put_off(&mut self, part: u32, position: u32) {
        let position = self.earlier(part, position);
        let own = &self.parts[part as usize];
        // A hole is no place to be in.
        let hole = own.ranges.iter().position(|range| range.1 > position).expect("it is needed for longer");
        let begins = own.ranges[hole].0;
        if position.max(begins) <= own.start() {
            return self.wait(part);
        }
        let rest = self.part(part).split(position.max(begins));
        let rest = self.add(rest);
        match begins < position.max(self.now) {
            true => self.wait(rest),
            // Where it is needed again another register may be free.
            false => self.open.push(Reverse((begins, rest))),
        }
    }

    /// Where a part had better end that is to end at this position: where the outermost loop begins that is
    /// entered behind where it is read last. Else it would be loaded in each round.
    fn earlier(&self, part: u32, position: u32) -> u32 {
        let own = &self.parts[part as usize];
        let blocks = &self.form.blocks;
        let read = own.uses[..own.uses.partition_point(|of| of.at < position)].last().map_or(0, |of| of.at);
        let read = read.max(own.start());
        let of = |position: u32| blocks.partition_point(|b| b.start() <= position) - 1;
        let (first, last) = (of(read), of(position));
        let mut best = (blocks[last].depth, position);
        for place in (first + 1..=last).rev() {
            let before = blocks[place - 1].depth.min(blocks[place].depth);
            if before < best.0 && blocks[place].start() < position {
                best = (before, blocks[place].start());
            }
        }
        best.1
    }

    fn add(&mut self, interval: Interval) -> u32 {
        let part = self.parts.len() as u32;
        let parts = &mut self.of[interval.name as usize];
        let at = parts.partition_point(|&other| self.parts[other as usize].start() < interval.start());
        parts.insert(at, part);
        self.parts.push(interval);
        part
    }

    /// This part has no register from its beginning on; where it is worth one it is looked at again.
    fn wait(&mut self, part: u32) {
        let own = &self.parts[part as usize];
        let (start, end) = (own.start(), own.end());
        self.part(part).home = Some(Home::Slot);
        // Behind the instruction at which it begins: it is read there, or has been read, as it is.
        let after = start.next_multiple_of(4).max(start);
        let Some(next) = self.parts[part as usize].next_use(after) else { return };
        let at = self.best_split(start.max(self.now), next);
        if at <= start {
            // It is needed at once.
            self.part(part).home = None;
            self.open.push(Reverse((start, part)));
            return;
        }
        if at < end {
            let hole = self.parts[part as usize].ranges.iter().position(|range| range.1 > at);
            let from = self.parts[part as usize].ranges[hole.expect("it ends later")].0;
            let at = at.max(from);
            let rest = self.part(part).split(at);
            let start = rest.start();
            let rest = self.add(rest);
            self.open.push(Reverse((start, rest)));
        }
    }

    /// Where a value that is read next here is to be loaded: before its instruction, or where the outermost
    /// loop begins that it is read in and that does not reach back to `from`.
    fn best_split(&self, from: u32, next: Use) -> u32 {
        let blocks = &self.form.blocks;
        let at = next.at & !3;
        let of = |position: u32| blocks.partition_point(|b| b.start() <= position) - 1;
        let (first, last) = (of(from), of(at));
        let mut best = (blocks[last].depth, at);
        for place in (first + 1..=last).rev() {
            if blocks[place].is_cold != blocks[last].is_cold {
                break;
            }
            // Before the block: as often as what leads into it.
            let before = blocks[place - 1].depth.min(blocks[place].depth);
            if before < best.0 {
                best = (before, blocks[place].start());
            }
        }
        best.1
    }

    /// What it costs, for each register, to move all that is in it out of the way of a part; `u64::MAX`: that
    /// is not possible.
    fn eviction_costs(&self, part: u32) -> [u64; 16] {
        let own = &self.parts[part as usize];
        let start = own.start();
        let must = own.uses.first().is_some_and(|of| of.must && of.is_by(start));
        let mut costs = [0u64; 16];
        let mut add = |other: u32| {
            let interval = &self.parts[other as usize];
            // It cannot go where it is read by the instruction at hand. What begins here as well has had its
            // turn; the two would take the register from each other for ever.
            let is_read = interval.uses.iter().any(|of| of.is_by(start));
            let is_settled = interval.start() == start && !must;
            let cost = if is_read || is_settled { u64::MAX } else { self.reload_cost(other, start) };
            let costs = &mut costs[self.register(other) as usize];
            *costs = costs.saturating_add(cost);
        };
        let is_there = |other: &&u32| self.parts[**other as usize].class == own.class;
        self.active.iter().filter(is_there).for_each(|&other| add(other));
        let meets = |other: &&u32| own.meets(&self.parts[**other as usize]).is_some();
        self.inactive.iter().filter(is_there).filter(meets).for_each(|&other| add(other));
        costs
    }

    /// Takes a register from values that cost less than this; whether there is one.
    fn displace(&mut self, part: u32, wanted: u32, most: u64) -> bool {
        let own = &self.parts[part as usize];
        let class = own.class;
        let costs = self.eviction_costs(part);
        let taken = self.taken.meets(own);
        let registers = self.registers(class).iter().copied().filter(|&r| taken[r as usize] >= wanted);
        let Some(r) = registers.min_by_key(|&r| costs[r as usize]) else { return false };
        if costs[r as usize] >= most {
            return false;
        }
        self.evict(part, r);
        self.give(part, r, taken[r as usize]);
        true
    }

    /// Values that are in this register where the part needs it give it up.
    fn evict(&mut self, part: u32, r: u8) {
        let (class, start) = (self.parts[part as usize].class, self.parts[part as usize].start());
        let is_there =
            |scan: &Self, other: u32| scan.parts[other as usize].class == class && scan.register(other) == r;
        if let Some(n) = (0..self.active.len()).find(|&n| is_there(self, self.active[n])) {
            let other = self.active.swap_remove(n);
            self.put_off(other, start);
        }
        let mut n = 0;
        while n < self.inactive.len() {
            let other = self.inactive[n];
            let meets = is_there(self, other)
                && self.parts[part as usize].meets(&self.parts[other as usize]).is_some();
            match meets {
                true => {
                    self.inactive.swap_remove(n);
                    // From where it is needed again.
                    self.put_off(other, start);
                }
                false => n += 1,
            }
        }
    }

    /// No register is free for the part: it takes that of the value which is read last, unless that is before
    /// the part itself is.
    fn take(&mut self, part: u32) {
        let own = &self.parts[part as usize];
        let (class, start, end) = (own.class, own.start(), own.end());
        let Some(first) = own.next_use(start) else { return self.wait(part) };
        let blocked = self.taken.meets(own);
        let mut next = blocked;
        let mut read = |r: u8, other: &Interval| {
            // Also by the instruction at hand, before the part begins.
            let at = match other.uses.iter().find(|of| of.at >= start & !3 && (of.must || of.weight > 0)) {
                Some(of) => of.at.max(start),
                None => u32::MAX - 1,
            };
            let at = if other.uses.iter().any(|of| of.is_by(start)) { start } else { at };
            next[r as usize] = next[r as usize].min(at);
        };
        for &other in &self.active {
            let interval = &self.parts[other as usize];
            if interval.class == class {
                read(self.register(other), interval);
            }
        }
        for &other in &self.inactive {
            let interval = &self.parts[other as usize];
            if interval.class == class && own.meets(interval).is_some() {
                read(self.register(other), interval);
            }
        }
        let costs = self.eviction_costs(part);
        let cost = |r: u8| match blocked[r as usize] {
            at if at <= start || next[r as usize] <= start => u64::MAX,
            at if at < end => costs[r as usize].saturating_add(self.reload_cost(part, at)),
            _ => costs[r as usize],
        };
        let best = |&r: &u8| (cost(r), std::cmp::Reverse(next[r as usize]));
        let r = self.registers(class).iter().copied().min_by_key(best).expect("there are registers");
        let is_last = next[r as usize] <= first.at || cost(r) >= self.reload_cost(part, start + 1);
        if is_last && !(first.must && first.at / 4 == start / 4) {
            return self.wait_until(part, first);
        }
        assert!(next[r as usize] > start, "an instruction has no more operands than there are registers");
        let until = blocked[r as usize];
        assert!(until > start, "a register that is to be taken is not blocked");
        self.evict(part, r);
        self.give(part, r, until);
    }

    /// Another value is read before this one, which is read here: it is loaded then, and not before.
    fn wait_until(&mut self, part: u32, first: Use) {
        let own = &self.parts[part as usize];
        let (start, at) = (own.start(), first.at & !3);
        self.part(part).home = Some(Home::Slot);
        if first.must && at > start {
            let rest = self.part(part).split(at);
            // It may be made there.
            let at = rest.start();
            let rest = self.add(rest);
            self.open.push(Reverse((at, rest)));
            return;
        }
        // Where it is read it is in memory; behind that it is looked at again.
        let next = self.parts[part as usize].next_use((first.at & !3) + 4);
        if let Some(next) = next {
            let at = next.at & !3;
            if at > start && at < self.parts[part as usize].end() {
                let rest = self.part(part).split(at);
                let start = rest.start();
                let rest = self.add(rest);
                self.open.push(Reverse((start, rest)));
            }
        }
    }

    /// How often what is at this position is expected to be run; where a block begins, what leads into it.
    fn times(&self, position: u32) -> u64 {
        let blocks = &self.form.blocks;
        let place = blocks.partition_point(|b| b.start() <= position) - 1;
        let block = &blocks[place];
        let depth = match block.start() == position && place > 0 && !blocks[place - 1].is_cold {
            true => block.depth.min(blocks[place - 1].depth),
            false => block.depth,
        };
        if block.is_cold { 0 } else { 8u64.pow(u32::from(depth)) }
    }

    /// Slots for what is in the frame anywhere.
    fn finish(self, needed: &Sets) -> Allocation {
        let names = self.of.len();
        let (mut slots, mut is_stored) = (vec![None; names], vec![false; names]);
        let mut wanted = Vec::new();
        for (name, parts) in self.of.iter().enumerate() {
            let of = |part: &u32| &self.parts[*part as usize];
            let in_frame = || parts.iter().filter(|part| of(part).home == Some(Home::Slot));
            if in_frame().next().is_none() {
                continue;
            }
            let made = of(&parts[0]).start();
            // Each time that it goes to the frame, or once, where it is made.
            let goes: u64 = in_frame().map(|part| self.times(of(part).start())).sum();
            is_stored[name] = made >= self.form.cold || goes > self.times(made);
            wanted.push((made, of(&parts[parts.len() - 1]).end(), name));
        }
        wanted.sort_unstable();
        // A slot is another value's when the one that had it is not needed any more.
        let mut busy: Vec<u32> = Vec::new();
        for (start, end, name) in wanted {
            let slot = match busy.iter().position(|&until| until <= start) {
                Some(slot) => slot,
                None => {
                    busy.push(0);
                    busy.len() - 1
                }
            };
            busy[slot] = end;
            slots[name] = Some(slot as u32);
        }
        let saved = INTEGERS.iter().copied().filter(|&r| self.saved & 1 << r != 0).collect();
        let slot_count = busy.len() as u32;
        let split = needed.mask(|name| self.of[name as usize].len() > 1);
        let (parts, of, only) = (self.parts, self.of, Vec::new());
        let mut found = Allocation { parts, of, slots, slot_count, is_stored, saved, only, split };
        found.tell_homes();
        found
    }
}

/// The values of which it is not the same everywhere where they are.
pub(super) fn are_split<'a>(
    allocation: &'a Allocation,
    needed: &'a Sets,
    place: usize,
) -> impl Iterator<Item = Name> + 'a {
    needed.names_in(place, &allocation.split)
}
