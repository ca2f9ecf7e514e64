//! Matching a compiled pattern against a subject: backtracking over the operations of `pattern.rs`.
//!
//! The machine walks operations and subject side by side. It calls itself only where it may have to come
//! back: at a repetition that can give back. Since each such call is for the rest of the pattern, the native
//! stack is bounded by the pattern and by [`MAX_DEPTH`], never by the subject. `(` and `)` also count as a
//! level, as in PUC Lua, so that the same patterns are "too complex", but need no call: when a try fails,
//! what it wrote to the captures is written again by whatever succeeds, because a success passes all
//! operations.
//!
//! Positions are `usize` offsets into the subject; two values at the top of the range are the outcomes "no
//! match" and "error", which keeps the result of the recursive function in one register.
//!
//! Backtracking takes exponential time if one asks for it, so the machine has *fuel*: a unit for each try of
//! the rest of the pattern, and one for every 64 bytes that an operation scans. When the fuel is burnt, it
//! looks for an interrupt and fills up. All that can be long burns fuel, except one pass over the subject,
//! which is as long as the subject.

use super::near;
use super::pattern::{Form, MAX_CAPTURES, Members, One, Op, Pattern, PatternError, Start};
use memchr::{memchr2, memchr3};
use perilune_vm::InterruptHandle;
use perilune_vm::interrupt::{CANCEL, USER};

/// How deep items may nest.
pub const MAX_DEPTH: u32 = 200;

const NO_MATCH: usize = usize::MAX;
const ERROR: usize = usize::MAX - 1;

/// Fuel between two looks for an interrupt: well below a millisecond of work.
const FUEL: usize = 4096;
/// A unit of fuel is worth two to the power of this many bytes scanned.
const SCANNED: u32 = 6;

/// Length of a capture that is a position; longer than any subject, so that `%n` never matches it.
const POSITION: u32 = u32::MAX;

/// What a capture captured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Capture {
    /// Bytes `start..end` of the subject.
    Text(usize, usize),
    /// An offset in the subject, counted from 0.
    Position(usize),
}

/// Longest subject.
pub const MAX_LENGTH: usize = POSITION as usize - 1;

/// Where captures are kept: offset and length. What they hold before a match does not matter.
pub type Slots = [(u32, u32); MAX_CAPTURES];

/// A pattern at work on a subject.
pub struct Matcher<'a> {
    pattern: &'a Pattern,
    subject: &'a [u8],
    captures: &'a mut Slots,
    error: Option<PatternError>,
    fuel: usize,
    interrupt: Option<&'a InterruptHandle>,
    /// Which interrupts end the search.
    causes: u32,
}

impl<'a> Matcher<'a> {
    /// A matcher; `subject` is at most [`MAX_LENGTH`] bytes long, as all strings are. A pending `interrupt`
    /// ends a search that takes long with [`PatternError::Interrupted`].
    pub fn new(
        pattern: &'a Pattern,
        subject: &'a [u8],
        captures: &'a mut Slots,
        interrupt: Option<&'a InterruptHandle>,
    ) -> Matcher<'a> {
        Matcher { pattern, subject, captures, error: None, fuel: FUEL, interrupt, causes: USER | CANCEL }
    }

    /// The hint at a cancellation was for another fiber, and may stay: from now on only the user ends
    /// searches.
    pub fn ignore_cancellation(&mut self) {
        self.causes = USER;
    }

    /// The pattern.
    pub fn pattern(&self) -> &'a Pattern {
        self.pattern
    }

    /// The subject.
    pub fn subject(&self) -> &'a [u8] {
        self.subject
    }

    /// The first match that starts at `from` or later and does not end at `not_end` (`gsub` and `gmatch`
    /// refuse an empty match right behind the last one that way). An anchored pattern is tried at `from`
    /// only. Returns where the match starts and ends.
    #[inline]
    pub fn search(
        &mut self,
        from: usize,
        not_end: Option<usize>,
    ) -> Result<Option<(usize, usize)>, PatternError> {
        // Two numbers are passed in registers, a result of options is not.
        let not_end = not_end.unwrap_or(NO_MATCH);
        let found = match self.pattern.form {
            Form::Any if self.pattern.anchored => self.here(from, not_end),
            Form::Any | Form::Leads(_) => self.seek(from, not_end),
            Form::Row(_) | Form::Single => self.seek_simple(from, not_end),
        };
        match found {
            (_, NO_MATCH) => Ok(None),
            (_, ERROR) => Err(self.error.take().unwrap_or(PatternError::TooComplex)),
            found => Ok(Some(found)),
        }
    }

    /// [`Matcher::seek`] at `from` only.
    #[inline]
    fn here(&mut self, from: usize, not_end: usize) -> (usize, usize) {
        let end = self.run(from, 0, 0);
        (from, if end == not_end { NO_MATCH } else { end })
    }

    /// See [`Matcher::search`]: where a match starts, and its end, or `NO_MATCH`, or `ERROR`.
    // Where this and the two others are built into each other `gsub` takes a tenth more: the loops that find
    // where a match may start have too few registers then.
    #[inline(never)]
    fn seek(&mut self, from: usize, not_end: usize) -> (usize, usize) {
        let mut at = from;
        while at <= self.subject.len() {
            let Some(skip) = self.skip(at) else { break };
            at += skip;
            let end = self.run(at, 0, 0);
            if end != NO_MATCH && end != not_end {
                return (at, end);
            }
            at += match self.pattern.form {
                Form::Leads(one) if end == NO_MATCH => self.span(one, at).max(1),
                _ => 1,
            };
        }
        (at, NO_MATCH)
    }

    /// [`Matcher::seek`] of [`Form::Row`] and [`Form::Single`], which match wherever they can start.
    #[inline(never)]
    fn seek_simple(&mut self, from: usize, not_end: usize) -> (usize, usize) {
        let mut at = from;
        while at < self.subject.len() {
            let Some(skip) = self.skip(at) else { break };
            at += skip;
            if !self.burn() {
                return (at, ERROR);
            }
            let n = if let Form::Row(one) = self.pattern.form { self.span(one, at) } else { 1 };
            // Of the capture around everything, if there is one.
            self.captures[0] = (at as u32, n as u32);
            if at + n != not_end {
                return (at, at + n);
            }
            at += 1;
        }
        (at, NO_MATCH)
    }

    /// How far it is from `at` to where a match can start; `None`: there is no such place.
    #[inline]
    fn skip(&self, at: usize) -> Option<usize> {
        let rest = &self.subject[at..];
        match self.pattern.start {
            Start::Anywhere => Some(0),
            Start::Byte(b) => near::find(b, rest),
            Start::Two(a, b) => memchr2(a, b, rest),
            Start::Three(a, b, c) => memchr3(a, b, c, rest),
            Start::Set => rest.iter().position(|&b| self.pattern.starts.has(b)),
        }
    }

    /// How many values a match yields: its captures, or the whole match if it has none.
    pub fn count(&self) -> u32 {
        u32::from(self.pattern.captures).max(1)
    }

    /// Capture `i` (from 0) of the match `start..end` that `search` found last. Without captures, 0 is the
    /// whole match.
    #[inline]
    pub fn capture(&self, i: usize, start: usize, end: usize) -> Result<Capture, PatternError> {
        if i >= usize::from(self.pattern.captures) {
            return if i == 0 {
                Ok(Capture::Text(start, end))
            } else {
                Err(PatternError::CaptureIndex(i as u8 + 1))
            };
        }
        if self.pattern.unfinished >> i & 1 != 0 {
            return Err(PatternError::Unfinished);
        }
        let (at, len) = self.captures[i];
        let at = at as usize;
        Ok(if len == POSITION { Capture::Position(at) } else { Capture::Text(at, at + len as usize) })
    }

    #[cold]
    fn fail(&mut self, e: PatternError) -> usize {
        self.error = Some(e);
        ERROR
    }

    /// Burns fuel for `bytes` scanned. What is missing is noticed at the next try.
    #[inline(always)]
    fn scanned(&mut self, bytes: usize) {
        self.fuel = self.fuel.saturating_sub(bytes >> SCANNED);
    }

    /// Burns what a try takes: false if an interrupt is pending.
    #[inline(always)]
    fn burn(&mut self) -> bool {
        if self.fuel == 0 && !self.fill_up() {
            return false;
        }
        self.fuel -= 1;
        true
    }

    /// The fuel is burnt: false if an interrupt is pending.
    #[cold]
    #[inline(never)]
    fn fill_up(&mut self) -> bool {
        self.fuel = FUEL;
        if self.interrupt.is_some_and(|interrupt| interrupt.is_raised_by(self.causes)) {
            self.error = Some(PatternError::Interrupted);
            return false;
        }
        true
    }

    fn set(&self, i: u16) -> &'a Members {
        &self.pattern.members[usize::from(i)]
    }

    #[inline(always)]
    fn one(&self, one: One, s: usize) -> bool {
        self.subject.get(s).is_some_and(|&c| self.holds(one, c))
    }

    #[inline(always)]
    fn holds(&self, one: One, c: u8) -> bool {
        match one {
            One::Byte(b) => b == c,
            One::Not(b) => b != c,
            One::Any => true,
            One::Set(i) => self.set(i).has(c),
        }
    }

    /// The number of bytes from `s` on that `one` matches in a row.
    #[inline]
    fn span(&mut self, one: One, s: usize) -> usize {
        let rest = self.subject.get(s..).unwrap_or_default();
        let n = match one {
            One::Any => rest.len(),
            One::Not(b) => near::find(b, rest).unwrap_or(rest.len()),
            One::Byte(b) => rest.iter().position(|&c| c != b).unwrap_or(rest.len()),
            One::Set(i) => {
                let set = self.set(i);
                rest.iter().position(|&c| !set.has(c)).unwrap_or(rest.len())
            }
        };
        self.scanned(n);
        n
    }

    /// Matches the operations from `pc` on at `s`: where the match ends, or `NO_MATCH`, or `ERROR`.
    fn run(&mut self, mut s: usize, mut pc: usize, mut depth: u32) -> usize {
        if depth >= MAX_DEPTH {
            return self.fail(PatternError::TooComplex);
        }
        if !self.burn() {
            return ERROR;
        }
        let ops = self.pattern.ops.as_slice();
        loop {
            let Some(&op) = ops.get(pc) else { return s };
            pc += 1;
            match op {
                Op::Byte(b) => {
                    if self.subject.get(s) != Some(&b) {
                        return NO_MATCH;
                    }
                    s += 1;
                }
                Op::One(one) => {
                    if !self.one(one, s) {
                        return NO_MATCH;
                    }
                    s += 1;
                }
                Op::StarAll(one) | Op::PlusAll(one) => {
                    let n = self.span(one, s);
                    if n > 0 {
                        depth += 1;
                    } else if matches!(op, Op::PlusAll(_)) {
                        return NO_MATCH;
                    }
                    s += n;
                }
                Op::Star(one) => {
                    let n = self.span(one, s);
                    if n > 0 {
                        return self.give_back(s, n, pc, depth + 1);
                    }
                }
                Op::Plus(one) => {
                    let n = self.span(one, s);
                    if n == 0 {
                        return NO_MATCH;
                    }
                    return self.give_back(s + 1, n - 1, pc, depth + 1);
                }
                Op::Lazy(one) => {
                    if self.one(one, s) {
                        return self.take_more(one, s, pc, depth + 1);
                    }
                }
                Op::Opt(one) => {
                    if self.one(one, s) {
                        let end = self.run(s + 1, pc, depth + 1);
                        if end != NO_MATCH {
                            return end;
                        }
                    }
                }
                Op::OptAll(one) => {
                    if self.one(one, s) {
                        s += 1;
                        depth += 1;
                    }
                }
                Op::Open(n) => {
                    self.captures[usize::from(n)].0 = s as u32;
                    depth += 1;
                }
                Op::Position(n) => {
                    self.captures[usize::from(n)] = (s as u32, POSITION);
                    depth += 1;
                }
                Op::Close(n) => {
                    let capture = &mut self.captures[usize::from(n)];
                    capture.1 = s as u32 - capture.0;
                    depth += 1;
                }
                Op::Back(n) => {
                    let (at, len) = self.captures[usize::from(n)];
                    let (at, len) = (at as usize, len as usize);
                    let rest = &self.subject[s..];
                    // What is no text (a position, a capture that is not over) is longer than anything.
                    if rest.len() < len {
                        return NO_MATCH;
                    }
                    // Most of what it is not begins with another byte.
                    let own = &self.subject[at..at + len];
                    if own.first().is_some_and(|first| rest[0] != *first || rest[..len] != *own) {
                        return NO_MATCH;
                    }
                    self.scanned(len);
                    s += len;
                }
                Op::Balance(open, close) => match self.balance(s, open, close) {
                    Some(end) => s = end,
                    None => return NO_MATCH,
                },
                Op::Frontier(i) => {
                    let set = self.set(i);
                    let before = if s == 0 { 0 } else { self.subject[s - 1] };
                    let here = self.subject.get(s).copied().unwrap_or(0);
                    if set.has(before) || !set.has(here) {
                        return NO_MATCH;
                    }
                }
                Op::SubjectEnd => {
                    if s != self.subject.len() {
                        return NO_MATCH;
                    }
                }
                Op::Match => {
                    return if depth >= MAX_DEPTH { self.fail(PatternError::TooComplex) } else { s };
                }
                Op::Fail(e) => {
                    let e = if depth >= MAX_DEPTH { PatternError::TooComplex } else { e };
                    return self.fail(e);
                }
            }
        }
    }

    /// Tries the rest of the pattern after `n`, `n - 1`, ... 0 bytes from `s`.
    fn give_back(&mut self, s: usize, n: usize, pc: usize, depth: u32) -> usize {
        let mut n = n;
        let next = self.literal_at(pc);
        loop {
            if let Some(b) = next {
                // The byte after the ones kept must be `b`: look for the last place where it is.
                let end = (s + n + 1).min(self.subject.len());
                match near::find_last(b, &self.subject[s..end]) {
                    Some(i) => n = i,
                    None if depth >= MAX_DEPTH => return self.fail(PatternError::TooComplex),
                    None => return NO_MATCH,
                }
            }
            let end = self.run(s + n, pc, depth);
            if end != NO_MATCH || n == 0 {
                return end;
            }
            n -= 1;
        }
    }

    /// Tries the rest of the pattern after 0, 1, 2, ... bytes from `s`.
    fn take_more(&mut self, one: One, s: usize, pc: usize, depth: u32) -> usize {
        let mut s = s;
        let limit = s + self.span(one, s);
        let next = self.literal_at(pc);
        if next.is_some() && depth >= MAX_DEPTH {
            return self.fail(PatternError::TooComplex);
        }
        if let Some(one) = self.set_up_to_end(pc) {
            // The rest matches only where nothing but such bytes follow.
            let others = self.subject.iter().rposition(|&c| !self.holds(one, c)).map_or(0, |i| i + 1);
            self.scanned(self.subject.len() - others);
            s = s.max(others);
        }
        while s <= limit {
            if let Some(b) = next {
                // Only `b` can come after the bytes taken: go to the next one.
                match near::find(b, &self.subject[s..self.subject.len().min(limit + 1)]) {
                    Some(skip) => s += skip,
                    None => return NO_MATCH,
                }
            }
            let end = self.run(s, pc, depth);
            if end != NO_MATCH {
                return end;
            }
            s += 1;
        }
        NO_MATCH
    }

    /// The byte that the rest of the pattern must begin with, captures aside, if that is plain to see.
    #[inline]
    fn literal_at(&self, mut pc: usize) -> Option<u8> {
        loop {
            match *self.pattern.ops.get(pc)? {
                Op::Byte(b) | Op::Balance(b, _) => return Some(b),
                Op::Plus(One::Byte(b)) | Op::PlusAll(One::Byte(b)) => return Some(b),
                Op::Open(_) | Op::Close(_) | Op::Position(_) => pc += 1,
                _ => return None,
            }
        }
    }

    /// The class of a possessive `class*$` that the rest of the pattern is, captures aside: the tail of the
    /// usual trimming pattern.
    #[inline]
    fn set_up_to_end(&self, pc: usize) -> Option<One> {
        let mut rest =
            self.pattern.ops.get(pc..)?.iter().filter(|op| !matches!(op, Op::Open(_) | Op::Close(_)));
        match (rest.next()?, rest.next()?) {
            (&Op::StarAll(one), Op::SubjectEnd) => Some(one),
            _ => None,
        }
    }

    /// The end of the balanced text that begins at `s` with `open`.
    fn balance(&mut self, s: usize, open: u8, close: u8) -> Option<usize> {
        if self.subject.get(s) != Some(&open) {
            return None;
        }
        let end = self.balanced_end(s, open, close);
        // This loop takes its bytes one by one: they cost more than those of a span.
        self.scanned(8 * (end.unwrap_or(self.subject.len()) - s));
        end
    }

    fn balanced_end(&self, s: usize, open: u8, close: u8) -> Option<usize> {
        let mut level = 1usize;
        for (i, &c) in self.subject[s + 1..].iter().enumerate() {
            if c == close {
                level -= 1;
                if level == 0 {
                    return Some(s + 1 + i + 1);
                }
            } else if c == open {
                level += 1;
            }
        }
        None
    }
}
