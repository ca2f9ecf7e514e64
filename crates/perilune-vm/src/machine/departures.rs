//! Where machine code is left: what of its values is where, for each place.
//!
//! An exit has to store the values of Lua's registers that are in registers of the processor. A fifth of all code
//! was instructions for that, and moves between where values are at one exit and at another that shares them.
//! Nearly none of it ever ran. So an exit is a number and a jump, eleven bytes; behind it all registers of the
//! processor are saved, and what is stored where is read from a table ([`Departures`]) that the code generator
//! has written. Most exits are taken never, or a few times until the code is better; one that is taken costs
//! more than stores did, beside what the interpreter takes to go on.
//!
//! Rejected: calls, with the place known by the return address. That takes five bytes in place of eleven, and a
//! search by address, or a constant in the code that whoever reads instructions has to know of.

use super::Point;
use crate::Vm;
use crate::sys::code::{self, KEEPS, Registers};
use crate::value::Value;

/// Where a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// In a register for integers, by its number in instructions. R11 has none, and RSP and RBP are the stack's.
    Integer(u8),
    /// In the low half of a register for floats, by its number. XMM15 has none.
    Float(u8),
    /// In the native frame, so many bytes from RBP.
    Frame(i32),
    /// In these bits.
    Constant(u64),
}

/// A value that is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Where to, in bytes from the base of the Lua frame.
    pub offset: i32,
    /// A byte of it; else eight.
    pub is_byte: bool,
    /// Where it is.
    pub home: Home,
}

/// A place where code is left.
#[derive(Clone, Copy, Debug)]
struct Departure {
    point: usize,
    base: Packed,
    /// Where the values of the next one begin.
    end: u32,
}

/// Where a value is, in a word, since there are many: of which kind that is, and a number of this kind. A constant's
/// is its place among all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Packed(u32);

const INTEGER: u32 = 0;
const FLOAT: u32 = 1;
const FRAME: u32 = 2;
const CONSTANT: u32 = 3;
/// How far back a constant is looked for that is the same.
const NEAR: usize = 16;

impl Packed {
    fn new(kind: u32, number: u32) -> Packed {
        Packed(number << 2 | kind)
    }
}

/// Where a value is stored, as in [`Saved::offset`], twice that, and one more if it is a byte; and where it is.
type Entry = (i32, Packed);

/// What is called when the values have been stored: what machine code answers.
pub type Leave = unsafe extern "C-unwind" fn(vm: *mut Vm, base: *mut Value, point: *const Point) -> u64;

/// The places where a piece of machine code is left. It belongs to the code, which has its address.
#[derive(Debug)]
#[repr(C)]
pub struct Departures {
    /// The first word, which [`depart`] calls.
    take: Take,
    leave: Leave,
    all: Vec<Departure>,
    saved: Vec<Entry>,
    constants: Vec<u64>,
}

/// What machine code of programs is left by.
pub const LEAVE_AT: Leave = super::points::leave;

impl Departures {
    /// None yet. What is called is this: anything but [`LEAVE_AT`] is for tests.
    pub fn to(leave: Leave) -> Departures {
        Departures { take, leave, all: Vec::new(), saved: Vec::new(), constants: Vec::new() }
    }

    /// One more: the point that has its address, where the base of the frame is, and what is stored. Its number.
    ///
    /// # Panics
    /// A place in memory is further away than frames are large.
    pub fn push(&mut self, point: usize, base: Home, saved: impl IntoIterator<Item = Saved>) -> u32 {
        for Saved { offset, is_byte, home } in saved {
            assert!(offset.unsigned_abs() < 1 << 30, "a frame has fewer registers");
            let entry = (offset << 1 | i32::from(is_byte), self.packed(home));
            self.saved.push(entry);
        }
        let end = u32::try_from(self.saved.len()).expect("code has fewer instructions");
        let base = self.packed(base);
        self.all.push(Departure { point, base, end });
        self.all.len() as u32 - 1
    }

    fn packed(&mut self, home: Home) -> Packed {
        match home {
            Home::Integer(r) => Packed::new(INTEGER, r.into()),
            Home::Float(r) => Packed::new(FLOAT, r.into()),
            Home::Frame(offset) => {
                assert!(offset.unsigned_abs() < 1 << 29, "a native frame is smaller");
                Packed::new(FRAME, offset as u32 & (u32::MAX >> 2))
            }
            Home::Constant(bits) => {
                let near = self.constants.len().saturating_sub(NEAR);
                let known = self.constants[near..].iter().position(|&known| known == bits);
                let n = known.map_or(self.constants.len(), |n| near + n);
                if n == self.constants.len() {
                    self.constants.push(bits);
                }
                Packed::new(CONSTANT, u32::try_from(n).expect("fewer constants than instructions"))
            }
        }
    }

    /// What is at this place.
    ///
    /// # Safety
    /// As [`Departures::take`].
    unsafe fn value(&self, registers: &Registers, Packed(home): Packed) -> u64 {
        let number = home >> 2;
        match home & 3 {
            INTEGER => registers.words[number as usize],
            FLOAT => registers.floats[number as usize],
            // SAFETY: the caller's promise: a value of the code is there.
            FRAME => unsafe { registers.in_frame((home as i32) >> 2) },
            _ => self.constants[number as usize],
        }
    }

    /// No more will come.
    pub fn close(&mut self) {
        self.all.shrink_to_fit();
        self.saved.shrink_to_fit();
        self.constants.shrink_to_fit();
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The state of these registers is left at this place.
    ///
    /// # Safety
    /// They are those of machine code, or of what stands for it in tests, whose table this is, at the exit of
    /// this number.
    unsafe fn take(&self, registers: &Registers, number: u32) -> u64 {
        let Departure { point, base, end } = self.all[number as usize];
        let first = number.checked_sub(1).map_or(0, |before| self.all[before as usize].end);
        // SAFETY: the caller's promise: what is told of the place holds there, so the base is that of a frame
        // with these registers.
        unsafe {
            let base = self.value(registers, base) as *mut Value;
            for &(place, home) in &self.saved[first as usize..end as usize] {
                let (bits, to) = (self.value(registers, home), base.byte_offset((place >> 1) as isize));
                match place & 1 {
                    0 => to.cast::<u64>().write(bits),
                    _ => to.cast::<u8>().write(bits as u8),
                }
            }
            let vm = registers.words[KEEPS as usize] as *mut Vm;
            (self.leave)(vm, base, point as *const Point)
        }
    }
}

type Take = unsafe extern "C-unwind" fn(*const Registers, *const Departures, u32) -> u64;

unsafe extern "C-unwind" fn take(registers: *const Registers, all: *const Departures, number: u32) -> u64 {
    // SAFETY: called by `depart`, with what it has saved and been given.
    unsafe { (*all).take(&*registers, number) }
}

/// The address of what machine code jumps to when it is left, with the number of the exit and the address of its
/// [`Departures`] as the last two words on its stack, which was where calls need it before.
pub fn depart() -> usize {
    code::depart as *const () as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_what_they_were() {
        let mut departures = Departures::to(LEAVE_AT);
        let mut frame = [7u64, 8, 9, 10];
        let end = frame.as_mut_ptr_range().end as u64;
        let mut registers = Registers { words: [0; 16], floats: [0; 16] };
        for n in 0..16 {
            (registers.words[n], registers.floats[n]) = (100 + n as u64, 200 + n as u64);
        }
        registers.words[5] = end;
        let homes = [
            (Home::Integer(3), 103),
            (Home::Integer(15), 115),
            (Home::Float(14), 214),
            (Home::Frame(-32), 7),
            (Home::Frame(-8), 10),
            (Home::Constant(0), 0),
            (Home::Constant(u64::MAX), u64::MAX),
            (Home::Constant(0), 0),
        ];
        for (home, value) in homes {
            let packed = departures.packed(home);
            // SAFETY: the words of the frame are there.
            assert_eq!(unsafe { departures.value(&registers, packed) }, value, "{home:?}");
        }
        assert_eq!(departures.constants, [0, u64::MAX]);
    }
}
