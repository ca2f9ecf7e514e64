//! The parser: a text becomes a value.
//!
//! # Algorithm
//! One pass over the bytes, with a stack of open arrays and objects instead of recursion, so nesting costs no
//! native stack. What has been read of them lies in one vector: the elements of an array, names and values in
//! turn of an object. At its end each becomes a table made to measure (`perilune_vm::Record`), which takes
//! the place of its parts. Nothing of this contains a safepoint, so the values may lie outside the heap.
//!
//! The whole text is checked to be UTF-8 first, by SIMD; after that, strings without escapes are copied as
//! they stand.
//!
//! # Names
//! Objects in the same place mostly have the same names in the same order. A *place* is the name under which
//! an object was found, also through arrays: `users` for the objects of `{"users": [{}, {}]}`. For each place
//! (by a small hash of it) the parser keeps a guess, the names of the last object there. A name that is as
//! guessed costs one comparison of bytes; others are looked up among the interned strings.
//!
//! # Memory
//! Every [`STRIDE`] bytes the parser looks whether memory is short. If so it gives up, drops what it has,
//! collects completely and begins again; the second time it is an error. Beginning again costs time only
//! where little memory is left, and a collection in between would need every value on a stack of Lua's.
//!
//! *Rejected.* Two stages, first an index of all structural characters (simdjson): the index needs wide SIMD
//! to pay, and most of the time here goes into making strings and tables.

use super::fault::{Fault, Origin, What};
use super::options::Decoding;
use super::{STRIDE, array_mark, null, number, string};
use perilune_vm::{Gc, Guess, LuaResult, Native, Table, Thrown, Value, Vm};

/// `json.decode(text [, options])`
pub(super) static DECODE: Native = Native::leaf("decode", |vm| {
    let text = vm.check_str(1)?.bytes();
    vm.check_none_behind(2)?;
    let options = Decoding::read(vm, 2, false)?;
    match decode(vm, text, &options)? {
        Ok(value) => vm.ret(value),
        Err(fault) => Err(raise(vm, &fault, text, Origin::default())),
    }
});

/// Raises what is wrong with a text.
#[cold]
pub(super) fn raise(vm: &mut Vm, fault: &Fault, text: &[u8], origin: Origin) -> Thrown {
    vm.error(format!("json: {}", fault.message(text, origin)))
}

/// The value of a text that a string argument keeps alive. Nobody else refers to the value.
pub(super) fn decode(vm: &mut Vm, text: &[u8], options: &Decoding) -> LuaResult<Result<Value, Fault>> {
    let replaced;
    let mut text = text;
    if let Err(error) = simdutf8::basic::from_utf8(text) {
        let _ = error;
        if !options.replace {
            let at = simdutf8::compat::from_utf8(text).err().map_or(0, |e| e.valid_up_to());
            return Ok(Err(Fault { at, what: What::Utf8 }));
        }
        replaced = replace_invalid(vm, text)?;
        text = &replaced;
    }
    let mark = array_mark(vm)?;
    let refusals = vm.memory_refusals();
    match attempt(vm, text, options, mark) {
        Ok(value) => return Ok(Ok(value)),
        Err(Stop::Fault(at, what)) => return Ok(Err(Fault { at, what })),
        Err(Stop::Room) => {}
        Err(Stop::Thrown(Thrown::Error(raised))) if vm.memory_refusals() != refusals => {
            vm.take_error(raised);
        }
        Err(Stop::Thrown(thrown)) => return Err(thrown),
    }
    // Of what has been made, nothing is left but garbage.
    vm.settle()?;
    match attempt(vm, text, options, mark) {
        Ok(value) => Ok(Ok(value)),
        Err(Stop::Fault(at, what)) => Ok(Err(Fault { at, what })),
        Err(Stop::Room) => Err(vm.out_of_memory()),
        Err(Stop::Thrown(thrown)) => Err(thrown),
    }
}

/// The text with U+FFFD for what is not UTF-8.
#[cold]
fn replace_invalid(vm: &mut Vm, text: &[u8]) -> LuaResult<Vec<u8>> {
    let mut out = Vec::new();
    for chunk in text.utf8_chunks() {
        if out.try_reserve(chunk.valid().len() + 3).is_err() {
            return Err(vm.out_of_memory());
        }
        out.extend_from_slice(chunk.valid().as_bytes());
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
    Ok(out)
}

/// Why there is no value.
enum Stop {
    /// The text is wrong, at this offset.
    Fault(usize, What),
    /// Memory is short.
    Room,
    /// An interrupt, or an allocation that was refused.
    Thrown(Thrown),
}

impl From<Thrown> for Stop {
    fn from(thrown: Thrown) -> Stop {
        Stop::Thrown(thrown)
    }
}

impl From<(usize, What)> for Stop {
    fn from((at, what): (usize, What)) -> Stop {
        Stop::Fault(at, what)
    }
}

/// Places that guesses are kept for.
const PLACES: usize = 64;

/// An array or object that is open.
struct Frame {
    /// Where its parts begin.
    start: usize,
    /// The place of what it contains, in an array; its own, in an object.
    place: u8,
    /// What the place's guess was when the object was opened: an object within it may be in the same place,
    /// and change that.
    guess: Guess,
    /// How many names are as guessed, while all of them are.
    matched: u32,
    is_object: bool,
    /// All names so far were as guessed.
    on_track: bool,
}

struct Parser<'t> {
    text: &'t [u8],
    at: usize,
    values: Vec<Value>,
    frames: Vec<Frame>,
    guesses: [Guess; PLACES],
    /// For strings with escapes.
    scratch: Vec<u8>,
    next_look: usize,
    options: Decoding,
    mark: Gc<Table>,
}

fn attempt(vm: &mut Vm, text: &[u8], options: &Decoding, mark: Gc<Table>) -> Result<Value, Stop> {
    let at = if text.starts_with("\u{feff}".as_bytes()) { 3 } else { 0 };
    let mut parser = Parser {
        text,
        at,
        values: Vec::with_capacity(32),
        frames: Vec::with_capacity(8),
        guesses: [Guess::default(); PLACES],
        scratch: Vec::new(),
        next_look: STRIDE,
        options: *options,
        mark,
    };
    parser.run(vm)
}

impl Parser<'_> {
    #[inline(always)]
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Skips white space.
    #[inline(always)]
    fn skip(&mut self) {
        if let Some(b) = self.peek()
            && b <= b' '
        {
            self.skip_more();
        }
    }

    #[inline(never)]
    fn skip_more(&mut self) {
        const SPACES: u64 = u64::from_le_bytes([b' '; 8]);
        loop {
            match self.peek() {
                Some(b'\n' | b'\r' | b'\t') => self.at += 1,
                Some(b' ') => {
                    self.at += 1;
                    while let Some(piece) = self.text.get(self.at..self.at + 8) {
                        let other = u64::from_le_bytes(piece.try_into().unwrap_or_default()) ^ SPACES;
                        self.at += (other.trailing_zeros() / 8) as usize;
                        if other != 0 {
                            break;
                        }
                    }
                }
                _ => return,
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn expected(&self, what: &'static str) -> Stop {
        Stop::Fault(self.at, if self.at < self.text.len() { What::Expected(what) } else { What::End(what) })
    }

    #[inline(always)]
    fn push(&mut self, v: Value) -> Result<(), Stop> {
        if self.values.len() == self.values.capacity() {
            self.grow()?;
        }
        self.values.push(v);
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> Result<(), Stop> {
        self.values.try_reserve(1).map_err(|_| Stop::Room)
    }

    fn run(&mut self, vm: &mut Vm) -> Result<Value, Stop> {
        let mut place = 0u8;
        'value: loop {
            self.skip();
            let mut value = match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    self.string(vm)?
                }
                Some(b'-' | b'0'..=b'9') => {
                    let (value, next) = number::read(self.text, self.at, self.options.big_as_float)?;
                    self.at = next;
                    value
                }
                Some(b'{') => {
                    self.open(true, place)?;
                    self.skip();
                    if self.peek() == Some(b'}') {
                        self.at += 1;
                        self.frames.pop();
                        vm.new_table(0, 0)?.into()
                    } else {
                        place = self.name(vm, "a name or '}'")?;
                        continue 'value;
                    }
                }
                Some(b'[') => {
                    self.open(false, place)?;
                    self.skip();
                    if self.peek() == Some(b']') {
                        self.at += 1;
                        self.frames.pop();
                        let list: Value = vm.new_table(0, 0)?.into();
                        vm.set_metatable_of(list, Some(self.mark))?;
                        list
                    } else {
                        continue 'value;
                    }
                }
                Some(b't') => self.word(b"true", Value::TRUE)?,
                Some(b'f') => self.word(b"false", Value::FALSE)?,
                Some(b'n') => self.word(b"null", null())?,
                _ => return Err(self.expected("a value")),
            };
            if self.at >= self.next_look {
                self.look(vm)?;
            }
            // What follows a value.
            loop {
                self.skip();
                let Some(frame) = self.frames.last() else {
                    return if self.at == self.text.len() {
                        Ok(value)
                    } else {
                        Err(self.expected("the end of the text"))
                    };
                };
                let is_object = frame.is_object;
                self.push(value)?;
                match self.peek() {
                    Some(b',') => {
                        self.at += 1;
                        if is_object {
                            self.skip();
                            place = self.name(vm, "a name")?;
                        } else {
                            place = self.frames.last().map_or(0, |f| f.place);
                        }
                        continue 'value;
                    }
                    Some(b'}') if is_object => value = self.close_object(vm)?,
                    Some(b']') if !is_object => {
                        let start = self.frames.pop().map_or(0, |f| f.start);
                        value = vm.new_list(&self.values[start..])?.into();
                        self.values.truncate(start);
                    }
                    _ => return Err(self.expected(if is_object { "',' or '}'" } else { "',' or ']'" })),
                }
                self.at += 1;
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn look(&mut self, vm: &mut Vm) -> Result<(), Stop> {
        self.next_look = self.at + STRIDE;
        vm.poll_interrupt()?;
        // What lies outside the heap meanwhile counts, too.
        let beside = self.values.capacity() * size_of::<Value>() + self.scratch.capacity();
        let heap = vm.heap();
        if heap.is_over_limit() || heap.room() < beside { Err(Stop::Room) } else { Ok(()) }
    }

    #[inline]
    fn open(&mut self, is_object: bool, place: u8) -> Result<(), Stop> {
        if self.frames.len() >= self.options.depth {
            return Err(Stop::Fault(self.at, What::Depth(self.options.depth)));
        }
        self.at += 1;
        let guess = self.guesses[usize::from(place)];
        self.frames.push(Frame {
            start: self.values.len(),
            place,
            guess,
            matched: 0,
            is_object,
            on_track: true,
        });
        Ok(())
    }

    fn word(&mut self, word: &'static [u8], value: Value) -> Result<Value, Stop> {
        if self.text[self.at..].starts_with(word) {
            self.at += word.len();
            return Ok(value);
        }
        Err(self.expected("a value"))
    }

    /// A string, behind its opening quote.
    #[inline]
    fn string(&mut self, vm: &mut Vm) -> Result<Value, Stop> {
        let start = self.at;
        let end = string::find_special(self.text, start);
        if self.text.get(end) == Some(&b'"') {
            self.at = end + 1;
            return Ok(vm.new_str(&self.text[start..end])?.into());
        }
        self.unescape(start, end)?;
        Ok(vm.new_str(&self.scratch)?.into())
    }

    #[inline(never)]
    fn unescape(&mut self, start: usize, special: usize) -> Result<(), Stop> {
        self.scratch.clear();
        let replace = self.options.replace;
        match string::unescape(self.text, start, special, replace, &mut self.scratch) {
            Ok(next) => {
                self.at = next;
                Ok(())
            }
            Err(Some(fault)) => Err(fault.into()),
            Err(None) => Err(Stop::Room),
        }
    }

    /// A name and its colon; the place of what follows.
    #[inline(always)]
    fn name(&mut self, vm: &mut Vm, what: &'static str) -> Result<u8, Stop> {
        if self.peek() != Some(b'"') {
            return Err(self.expected(what));
        }
        self.at += 1;
        let start = self.at;
        let end = string::find_special(self.text, start);
        let name = if self.text.get(end) == Some(&b'"') {
            self.at = end + 1;
            let bytes = &self.text[start..end];
            let Some(frame) = self.frames.last_mut() else { unreachable!("a name outside of objects") };
            let guessed =
                if frame.on_track { vm.guessed_name(frame.guess, frame.matched as usize) } else { None };
            match guessed {
                Some(name) if name.bytes() == bytes => {
                    frame.matched += 1;
                    name
                }
                _ => {
                    frame.on_track = false;
                    vm.new_name(bytes)?
                }
            }
        } else {
            if let Some(frame) = self.frames.last_mut() {
                frame.on_track = false;
            }
            self.unescape(start, end)?;
            vm.new_name(&self.scratch)?
        };
        self.push(name.into())?;
        self.skip();
        if self.peek() != Some(b':') {
            return Err(self.expected("':'"));
        }
        self.at += 1;
        let address = name.address();
        Ok(((address >> 4) ^ (address >> 10)) as u8 % PLACES as u8)
    }

    #[inline]
    fn close_object(&mut self, vm: &mut Vm) -> Result<Value, Stop> {
        let Some(frame) = self.frames.pop() else { unreachable!("an object is open") };
        let entries = &self.values[frame.start..];
        let record = vm.new_record(entries, frame.guess, frame.matched as usize)?;
        if record.guess != Guess::default() {
            self.guesses[usize::from(frame.place)] = record.guess;
        }
        if let Some(at) = record.repeated
            && self.options.unique
        {
            let name = entries[2 * at].as_string().map_or_else(String::new, |s| s.to_text());
            return Err(Stop::Fault(self.at, What::Repeated(name)));
        }
        self.values.truncate(frame.start);
        Ok(record.table.into())
    }
}
