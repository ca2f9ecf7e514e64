//! Lua patterns (manual 6.4.1), compiled to a short list of operations.
//!
//! A pattern is a straight line: items follow each other, none branches to another place. So everything about
//! an item but the subject is known before matching: which capture a `(` or `)` or `%1` means, which bytes a
//! class holds, which bytes the rest of the pattern can start with. Compiling works these out once; the
//! matcher (`matcher.rs`) then does no parsing.
//!
//! # Errors
//! In PUC Lua a malformed item is an error only when matching gets there: `("x"):find("a[")` is just nil. So
//! a malformed item compiles to [`Op::Fail`], and compiling itself never fails.
//!
//! # What can follow
//! A pass from the end to the start computes for each item the set of bytes that the rest can begin with, or
//! that it cannot tell. From it follow two things. First, a repetition whose bytes are disjoint from what
//! follows is *possessive*: giving back a repetition can never help, so `%a+=` needs no backtracking, and a
//! lazy repetition is the same as a greedy one. Second, the search for a match can skip to a byte that may
//! start one ([`Start`]).

use std::fmt;

/// Captures that a pattern may have.
pub const MAX_CAPTURES: usize = 32;

/// What may be wrong with a pattern; most of it shows only when matching gets to the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternError {
    /// `%` at the end.
    EndsWithEscape,
    /// `[` without `]`.
    MissingBracket,
    /// `%b` without its two bytes.
    BalanceArguments,
    /// `%f` without a set.
    FrontierSet,
    /// `)` without `(`.
    CaptureToClose,
    /// `%n` for a capture that is not there or still open; in a replacement: not there.
    CaptureIndex(u8),
    /// More than [`MAX_CAPTURES`].
    TooManyCaptures,
    /// More nested items than the matcher follows.
    TooComplex,
    /// A capture that is asked for was never closed.
    Unfinished,
    /// Nothing: the search was interrupted.
    Interrupted,
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PatternError::EndsWithEscape => "malformed pattern (ends with '%')",
            PatternError::MissingBracket => "malformed pattern (missing ']')",
            PatternError::BalanceArguments => "malformed pattern (missing arguments to '%b')",
            PatternError::FrontierSet => "missing '[' after '%f' in pattern",
            PatternError::CaptureToClose => "invalid pattern capture",
            PatternError::CaptureIndex(n) => return write!(f, "invalid capture index %{n}"),
            PatternError::TooManyCaptures => "too many captures",
            PatternError::TooComplex => "pattern too complex",
            PatternError::Unfinished => "unfinished capture",
            PatternError::Interrupted => "interrupted!",
        })
    }
}

/// A set of bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ByteSet([u64; 4]);

impl ByteSet {
    /// No byte.
    pub const EMPTY: ByteSet = ByteSet([0; 4]);
    /// All bytes.
    pub const FULL: ByteSet = ByteSet([!0; 4]);

    /// Is `b` in it?
    #[inline(always)]
    pub fn has(&self, b: u8) -> bool {
        self.0[usize::from(b >> 6)] >> (b & 63) & 1 != 0
    }
    const fn add(&mut self, b: u8) {
        self.0[(b >> 6) as usize] |= 1 << (b & 63);
    }
    fn single(b: u8) -> ByteSet {
        let mut s = ByteSet::EMPTY;
        s.add(b);
        s
    }
    fn union(self, o: ByteSet) -> ByteSet {
        ByteSet(std::array::from_fn(|i| self.0[i] | o.0[i]))
    }
    fn disjoint(&self, o: &ByteSet) -> bool {
        (0..4).all(|i| self.0[i] & o.0[i] == 0)
    }
    fn not(self) -> ByteSet {
        ByteSet(self.0.map(|w| !w))
    }
    fn len(&self) -> u32 {
        self.0.iter().map(|w| w.count_ones()).sum()
    }
    /// Its bytes, of which there are at most `N`; none if there are more.
    fn members<const N: usize>(&self) -> Box<[u8]> {
        if self.len() as usize > N { Box::default() } else { (0..=255).filter(|&b| self.has(b)).collect() }
    }
    fn first(&self) -> Option<u8> {
        (0..4).find(|&i| self.0[i] != 0).map(|i| (i as u32 * 64 + self.0[i].trailing_zeros()) as u8)
    }
}

/// A set of bytes with a place for each byte: the matcher asks with one load.
pub struct Members([bool; 256]);

impl Members {
    fn of(set: &ByteSet) -> Members {
        Members(std::array::from_fn(|b| set.has(b as u8)))
    }

    /// Is `b` in it?
    #[inline(always)]
    pub fn has(&self, b: u8) -> bool {
        self.0[usize::from(b)]
    }
}

const CLASS_LETTERS: &[u8; 11] = b"acdglpsuwxz";

/// Sets of the class letters in the C locale, in the order of `CLASS_LETTERS`.
static CLASSES: [ByteSet; 11] = {
    let mut sets = [ByteSet::EMPTY; 11];
    let mut c = 0u8;
    while c < 128 {
        let member = [
            c.is_ascii_alphabetic(),
            c.is_ascii_control(),
            c.is_ascii_digit(),
            c.is_ascii_graphic(),
            c.is_ascii_lowercase(),
            c.is_ascii_punctuation(),
            c == b' ' || (c >= b'\t' && c <= b'\r'),
            c.is_ascii_uppercase(),
            c.is_ascii_alphanumeric(),
            c.is_ascii_hexdigit(),
            c == 0,
        ];
        let mut i = 0;
        while i < 11 {
            if member[i] {
                sets[i].add(c);
            }
            i += 1;
        }
        c += 1;
    }
    sets
};

/// The set that `%letter` means.
fn class(letter: u8) -> ByteSet {
    match CLASS_LETTERS.iter().position(|&l| l == letter.to_ascii_lowercase()) {
        Some(i) if letter.is_ascii_lowercase() => CLASSES[i],
        Some(i) => CLASSES[i].not(),
        None => ByteSet::single(letter),
    }
}

/// The set that the text between `[` and `]` means.
fn bracket(mut body: &[u8]) -> ByteSet {
    let mut set = ByteSet::EMPTY;
    let negated = body.first() == Some(&b'^');
    if negated {
        body = &body[1..];
    }
    loop {
        body = match *body {
            [] => break,
            [b'%', letter, ref rest @ ..] => {
                set = set.union(class(letter));
                rest
            }
            [low, b'-', high, ref rest @ ..] => {
                for b in low..=high {
                    set.add(b);
                }
                rest
            }
            [b, ref rest @ ..] => {
                set.add(b);
                rest
            }
        }
    }
    if negated { set.not() } else { set }
}

/// What one byte of the subject is compared with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum One {
    /// This byte.
    Byte(u8),
    /// Any byte but this one.
    Not(u8),
    /// Any byte.
    Any,
    /// A byte of `Pattern::sets[i]`.
    Set(u16),
}

/// An operation. `Star` to `Opt` carry what is repeated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// One byte.
    Byte(u8),
    /// One byte, of another kind.
    One(One),
    /// As many as possible, giving back as needed.
    Star(One),
    /// The same, at least one.
    Plus(One),
    /// As many as possible, never giving back: what follows cannot begin with one of them.
    StarAll(One),
    /// The same, at least one.
    PlusAll(One),
    /// As few as possible.
    Lazy(One),
    /// One or none, preferring one.
    Opt(One),
    /// One if there is one: what follows cannot begin with it.
    OptAll(One),
    /// Begin of capture n.
    Open(u8),
    /// Capture n is a position.
    Position(u8),
    /// End of capture n.
    Close(u8),
    /// The text of capture n again.
    Back(u8),
    /// `%bxy`
    Balance(u8, u8),
    /// `%f[set]`
    Frontier(u16),
    /// `$` at the end: end of the subject.
    SubjectEnd,
    /// The match is complete.
    Match,
    /// A malformed item.
    Fail(PatternError),
}

/// Where a match can start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// Anywhere.
    Anywhere,
    /// At this byte only.
    Byte(u8),
    /// At one of these bytes only.
    Two(u8, u8),
    /// At one of these bytes only.
    Three(u8, u8, u8),
    /// At a byte of `Pattern::starts` only.
    Set,
}

/// What is known of a pattern as a whole, beyond its operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Nothing.
    Any,
    /// It begins with a repetition of these, captures aside, and has no `%1`. Tried later in a row of such
    /// bytes it has fewer choices, each with the outcome that it had before: where it fails it fails in the
    /// whole row.
    Leads(One),
    /// It is at least one of these, as many as possible.
    Row(One),
    /// It is one byte.
    Single,
}

/// A compiled pattern.
pub struct Pattern {
    /// Ends with `Match` or `Fail`.
    pub ops: Vec<Op>,
    /// Sets that operations refer to.
    pub(super) sets: Vec<ByteSet>,
    /// The same for the matcher.
    pub members: Vec<Members>,
    /// The pattern began with `^`.
    pub anchored: bool,
    /// See [`Start`].
    pub start: Start,
    /// For `Start::Set`.
    pub starts: Members,
    /// See [`Form`].
    pub form: Form,
    /// Number of captures.
    pub captures: u8,
    /// Bit n: capture n is a position.
    pub positions: u32,
    /// Bit n: capture n is never closed.
    pub unfinished: u32,
}

/// Has the pattern no special byte, so that finding it is a plain search?
pub fn is_plain(pattern: &[u8]) -> bool {
    !pattern.iter().any(|b| b"^$*+?.([%-".contains(b))
}

struct Compiler<'p> {
    text: &'p [u8],
    at: usize,
    pattern: Pattern,
    open: Vec<u8>,
}

impl Pattern {
    /// Compiles. `anchor`: a leading `^` anchors (not so in `gmatch`).
    pub fn new(text: &[u8], anchor: bool) -> Pattern {
        let mut pattern = Pattern::translate(text, anchor);
        pattern.look_ahead();
        pattern.form = pattern.form();
        pattern
    }

    /// The first step of compiling: operations as they are written.
    pub(super) fn translate(text: &[u8], anchor: bool) -> Pattern {
        let anchored = anchor && text.first() == Some(&b'^');
        let mut c = Compiler {
            text,
            at: usize::from(anchored),
            open: Vec::new(),
            pattern: Pattern {
                ops: Vec::with_capacity(text.len() + 1),
                sets: Vec::new(),
                members: Vec::new(),
                anchored,
                start: Start::Anywhere,
                starts: Members([false; 256]),
                form: Form::Any,
                captures: 0,
                positions: 0,
                unfinished: 0,
            },
        };
        let last = match c.items() {
            Ok(()) => Op::Match,
            Err(e) => Op::Fail(e),
        };
        c.pattern.ops.push(last);
        for &n in &c.open {
            c.pattern.unfinished |= 1 << n;
        }
        c.pattern.members = c.pattern.sets.iter().map(Members::of).collect();
        c.pattern
    }

    fn set_of(&self, one: One) -> ByteSet {
        match one {
            One::Byte(b) => ByteSet::single(b),
            One::Not(b) => ByteSet::single(b).not(),
            One::Any => ByteSet::FULL,
            One::Set(i) => self.sets[usize::from(i)],
        }
    }

    /// Walks from the end, keeping what the rest can begin with, and turns repetitions possessive where that
    /// is the same.
    fn look_ahead(&mut self) {
        let mut rest = Rest { first: ByteSet::EMPTY, empty: Empty::Always };
        for i in (0..self.ops.len()).rev() {
            let op = self.ops[i];
            match op {
                Op::Match => rest = Rest { first: ByteSet::EMPTY, empty: Empty::Always },
                Op::SubjectEnd => rest = Rest { first: ByteSet::EMPTY, empty: Empty::AtEnd },
                Op::Byte(b) => rest = Rest { first: ByteSet::single(b), empty: Empty::Never },
                Op::One(one) => rest = Rest { first: self.set_of(one), empty: Empty::Never },
                Op::Balance(b, _) => rest = Rest { first: ByteSet::single(b), empty: Empty::Never },
                Op::Open(_) | Op::Position(_) | Op::Close(_) => {}
                Op::Star(one) | Op::Plus(one) | Op::Lazy(one) | Op::Opt(one) => {
                    let set = self.set_of(one);
                    let disjoint = rest.empty != Empty::Unknown && set.disjoint(&rest.first);
                    let greedy = disjoint || rest.empty == Empty::Always;
                    self.ops[i] = match op {
                        Op::Star(_) if greedy => Op::StarAll(one),
                        Op::Plus(_) if greedy => Op::PlusAll(one),
                        Op::Opt(_) if greedy => Op::OptAll(one),
                        Op::Lazy(_) if disjoint && rest.empty != Empty::Always => Op::StarAll(one),
                        op => op,
                    };
                    rest.first = rest.first.union(set);
                    if matches!(op, Op::Plus(_)) {
                        rest = Rest { first: set, empty: Empty::Never };
                    }
                }
                _ => rest = Rest { first: ByteSet::FULL, empty: Empty::Unknown },
            }
        }
        if rest.empty == Empty::Never && rest.first != ByteSet::FULL {
            self.starts = Members::of(&rest.first);
            self.start = match *rest.first.members::<3>() {
                [b] => Start::Byte(b),
                [a, b] => Start::Two(a, b),
                [a, b, c] => Start::Three(a, b, c),
                _ => Start::Set,
            };
        }
    }

    /// What is known of the whole. A search for a match begins where the pattern can start, so that the forms
    /// say nothing of anchored ones.
    fn form(&self) -> Form {
        let is_capture = |op: &Op| matches!(op, Op::Open(_) | Op::Close(_) | Op::Position(_));
        // A capture around everything is set by the search, others are not.
        let whole = match *self.ops {
            [Op::Open(0), op, Op::Close(0), Op::Match] | [op, Op::Match] => Some(op),
            _ => None,
        };
        let mut ops = self.ops.iter();
        match (whole, ops.find(|op| !is_capture(op))) {
            _ if self.anchored => Form::Any,
            (Some(Op::PlusAll(one)), _) => Form::Row(one),
            (Some(Op::Byte(_) | Op::One(_)), _) if self.start != Start::Anywhere => Form::Single,
            (
                _,
                Some(&(Op::PlusAll(one) | Op::Plus(one) | Op::StarAll(one) | Op::Star(one) | Op::Lazy(one))),
            ) if !ops.any(|op| matches!(op, Op::Back(_))) => Form::Leads(one),
            _ => Form::Any,
        }
    }
}

/// What is known about the rest of a pattern.
#[derive(Clone, Copy)]
struct Rest {
    /// If it consumes anything, it begins with one of these.
    first: ByteSet,
    empty: Empty,
}

/// Does the rest of a pattern match without consuming anything?
#[derive(Clone, Copy, PartialEq, Eq)]
enum Empty {
    Never,
    Always,
    /// At the end of the subject.
    AtEnd,
    Unknown,
}

impl Compiler<'_> {
    fn byte(&self, i: usize) -> Option<u8> {
        self.text.get(i).copied()
    }

    fn items(&mut self) -> Result<(), PatternError> {
        while let Some(b) = self.byte(self.at) {
            let next = self.byte(self.at + 1);
            match (b, next) {
                (b'(', _) => {
                    let n = self.pattern.captures;
                    if usize::from(n) >= MAX_CAPTURES {
                        return Err(PatternError::TooManyCaptures);
                    }
                    self.pattern.captures += 1;
                    if next == Some(b')') {
                        self.pattern.positions |= 1 << n;
                        self.push(Op::Position(n), 2);
                    } else {
                        self.open.push(n);
                        self.push(Op::Open(n), 1);
                    }
                }
                (b')', _) => {
                    let n = self.open.pop().ok_or(PatternError::CaptureToClose)?;
                    self.push(Op::Close(n), 1);
                }
                (b'$', None) => self.push(Op::SubjectEnd, 1),
                (b'%', Some(b'b')) => match (self.byte(self.at + 2), self.byte(self.at + 3)) {
                    (Some(x), Some(y)) => self.push(Op::Balance(x, y), 4),
                    _ => return Err(PatternError::BalanceArguments),
                },
                (b'%', Some(b'f')) => {
                    self.at += 2;
                    if self.byte(self.at) != Some(b'[') {
                        return Err(PatternError::FrontierSet);
                    }
                    let set = self.bracket_set()?;
                    let i = self.intern(set)?;
                    self.push(Op::Frontier(i), 0);
                }
                (b'%', Some(d @ b'0'..=b'9')) => {
                    let n = d.wrapping_sub(b'1');
                    if n >= self.pattern.captures || self.open.contains(&n) {
                        return Err(PatternError::CaptureIndex(d - b'0'));
                    }
                    self.push(Op::Back(n), 2);
                }
                _ => self.single(b)?,
            }
        }
        Ok(())
    }

    fn push(&mut self, op: Op, width: usize) {
        self.pattern.ops.push(op);
        self.at += width;
    }

    /// A class with an optional suffix.
    fn single(&mut self, b: u8) -> Result<(), PatternError> {
        let one = match b {
            b'.' => {
                self.at += 1;
                One::Any
            }
            b'%' => {
                let letter = self.byte(self.at + 1).ok_or(PatternError::EndsWithEscape)?;
                self.at += 2;
                if letter.is_ascii_alphanumeric() { self.one(class(letter))? } else { One::Byte(letter) }
            }
            b'[' => {
                let set = self.bracket_set()?;
                self.one(set)?
            }
            _ => {
                self.at += 1;
                One::Byte(b)
            }
        };
        let op = match (self.byte(self.at), one) {
            (Some(b'*'), _) => Op::Star(one),
            (Some(b'+'), _) => Op::Plus(one),
            (Some(b'-'), _) => Op::Lazy(one),
            (Some(b'?'), _) => Op::Opt(one),
            (_, One::Byte(b)) => {
                self.push(Op::Byte(b), 0);
                return Ok(());
            }
            _ => {
                self.push(Op::One(one), 0);
                return Ok(());
            }
        };
        self.push(op, 1);
        Ok(())
    }

    /// Reads `[...]` at `self.at`. The first byte after `[` or `[^` is never the closing bracket.
    fn bracket_set(&mut self) -> Result<ByteSet, PatternError> {
        let start = self.at + 1;
        let mut i = start + usize::from(self.byte(start) == Some(b'^'));
        loop {
            let b = self.byte(i).ok_or(PatternError::MissingBracket)?;
            i += 1;
            if b == b'%' && i < self.text.len() {
                i += 1;
            }
            if self.byte(i) == Some(b']') {
                break;
            }
        }
        self.at = i + 1;
        Ok(bracket(&self.text[start..i]))
    }

    fn one(&mut self, set: ByteSet) -> Result<One, PatternError> {
        Ok(match set.len() {
            1 => One::Byte(set.first().unwrap_or(0)),
            255 => One::Not(set.not().first().unwrap_or(0)),
            256 => One::Any,
            _ => One::Set(self.intern(set)?),
        })
    }

    /// Gives a set its number. Only the latest few are looked through for an equal one, so that long patterns
    /// compile in linear time; a pattern with more than 2^16 sets is beyond what the matcher takes.
    fn intern(&mut self, set: ByteSet) -> Result<u16, PatternError> {
        let sets = &mut self.pattern.sets;
        let recent = sets.len().saturating_sub(8);
        let i = sets[recent..].iter().position(|s| *s == set).map_or(sets.len(), |i| recent + i);
        if i == sets.len() {
            sets.push(set);
        }
        u16::try_from(i).map_err(|_| PatternError::TooComplex)
    }
}
