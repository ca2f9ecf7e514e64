//! Where machine code is left: what of its values is where, for each place.
//!
//! An exit has to store the values of Lua's registers that are in registers of the processor. Half of all code
//! was instructions for that, and moves between where values are at one exit and at another that shares them.
//! Nearly none of it ever ran. So an exit is a number and a jump, eleven bytes; behind it all registers of the
//! processor are saved, and what is stored where is read from a table ([`Departures`]) that the code generator
//! has written. Most exits are taken never, or a few times until the code is better; one that is taken costs
//! some fifty nanoseconds more than stores did, beside the microsecond that the interpreter takes to go on.
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
    base: Home,
    /// Where the values of the next one begin.
    end: u32,
}

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
    saved: Vec<Saved>,
}

/// What machine code of programs is left by.
pub const LEAVE_AT: Leave = super::points::leave;

impl Departures {
    /// None yet. What is called is this: anything but [`LEAVE_AT`] is for tests.
    pub fn to(leave: Leave) -> Departures {
        Departures { take, leave, all: Vec::new(), saved: Vec::new() }
    }

    /// One more: the point that has its address, where the base of the frame is, and what is stored. Its number.
    pub fn push(&mut self, point: usize, base: Home, saved: impl IntoIterator<Item = Saved>) -> u32 {
        self.saved.extend(saved);
        let end = u32::try_from(self.saved.len()).expect("code has fewer instructions");
        self.all.push(Departure { point, base, end });
        self.all.len() as u32 - 1
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
            let base = value(registers, base) as *mut Value;
            for saved in &self.saved[first as usize..end as usize] {
                let (bits, to) = (value(registers, saved.home), base.byte_offset(saved.offset as isize));
                match saved.is_byte {
                    true => to.cast::<u8>().write(bits as u8),
                    false => to.cast::<u64>().write(bits),
                }
            }
            let vm = registers.words[KEEPS as usize] as *mut Vm;
            (self.leave)(vm, base, point as *const Point)
        }
    }
}

/// # Safety
/// As [`Departures::take`].
unsafe fn value(registers: &Registers, home: Home) -> u64 {
    match home {
        Home::Integer(r) => registers.words[r as usize],
        Home::Float(r) => registers.floats[r as usize],
        // SAFETY: the caller's promise: a value of the code is there.
        Home::Frame(offset) => unsafe { registers.in_frame(offset) },
        Home::Constant(bits) => bits,
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
