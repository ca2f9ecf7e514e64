//! Bytes to values. The bytes come from somebody who is not trusted.

use super::{DEPTH, FALSE, FLOAT, INT, LIST, MAP, NIL, RECORD, SHORT, SHORT_LEN, STRIDE, STRING, TRUE};
use perilune_vm::{Guess, Thrown, Value, Vm};

/// Why bytes are no values.
#[derive(Debug)]
pub enum Malformed {
    /// They are none: what is wrong.
    Bytes(&'static str),
    /// Something else: memory, an interrupt.
    Thrown(Thrown),
}

impl From<Thrown> for Malformed {
    fn from(thrown: Thrown) -> Malformed {
        Malformed::Thrown(thrown)
    }
}

/// What has not been read of some bytes.
pub struct Reader<'b> {
    bytes: &'b [u8],
    /// Parts of tables that are not complete. Nothing here has a safepoint, so they need not be known to the
    /// collector.
    values: Vec<Value>,
    /// Bytes that are left at the next look at memory's limits.
    next_look: usize,
    guess: Guess,
}

impl<'b> Reader<'b> {
    /// From the beginning.
    pub fn new(bytes: &'b [u8]) -> Reader<'b> {
        let next_look = bytes.len().saturating_sub(STRIDE);
        Reader { bytes, values: Vec::new(), next_look, guess: Guess::default() }
    }

    /// Whether everything has been read.
    pub fn is_at_end(&self) -> bool {
        self.bytes.is_empty()
    }

    /// How many bytes have not been read.
    pub fn left(&self) -> usize {
        self.bytes.len()
    }

    /// One byte.
    ///
    /// # Errors
    /// There is none.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.bytes.split_first().ok_or(Malformed::Bytes("it ends too early"))?;
        self.bytes = rest;
        Ok(*first)
    }

    /// So many bytes.
    ///
    /// # Errors
    /// There are fewer.
    #[inline]
    pub fn take(&mut self, n: u64) -> Result<&'b [u8], Malformed> {
        match usize::try_from(n).ok().and_then(|n| self.bytes.split_at_checked(n)) {
            Some((piece, rest)) => {
                self.bytes = rest;
                Ok(piece)
            }
            None => Err(Malformed::Bytes("it ends too early")),
        }
    }

    /// A varint.
    ///
    /// # Errors
    /// There is none, or it has more than 64 bits.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        let (mut n, mut shift) = (0u64, 0);
        loop {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(Malformed::Bytes("a number is too large"));
            }
            n |= bits << shift;
            if byte < 0x80 {
                return Ok(n);
            }
            shift += 7;
            if shift > 63 {
                return Err(Malformed::Bytes("a number is too long"));
            }
        }
    }

    /// How many things follow, each of at least so many bytes.
    fn count(&mut self, least: usize) -> Result<usize, Malformed> {
        let n = self.varint()?;
        match usize::try_from(n) {
            Ok(n) if n <= self.bytes.len() / least => Ok(n),
            _ => Err(Malformed::Bytes("a count is larger than what follows")),
        }
    }

    /// A string's bytes.
    ///
    /// # Errors
    /// What follows is no string.
    pub fn string(&mut self) -> Result<&'b [u8], Malformed> {
        let tag = self.byte()?;
        self.string_of(tag)?.ok_or(Malformed::Bytes("a string was expected"))
    }

    #[inline]
    fn string_of(&mut self, tag: u8) -> Result<Option<&'b [u8]>, Malformed> {
        let n = match tag {
            _ if usize::from(tag.wrapping_sub(SHORT)) < SHORT_LEN => u64::from(tag - SHORT),
            STRING => self.varint()?,
            _ => return Ok(None),
        };
        self.take(n).map(Some)
    }

    /// The next value. It must become reachable before the next safepoint.
    ///
    /// # Errors
    /// There is none; or no memory for it.
    pub fn value(&mut self, vm: &mut Vm) -> Result<Value, Malformed> {
        self.value_at(vm, 0)
    }

    fn value_at(&mut self, vm: &mut Vm, depth: usize) -> Result<Value, Malformed> {
        let tag = self.byte()?;
        Ok(match tag {
            0..SHORT => Value::int(i64::from(tag)),
            NIL => Value::NIL,
            FALSE => Value::FALSE,
            TRUE => Value::TRUE,
            INT => {
                let n = self.varint()?;
                Value::int((n >> 1) as i64 ^ -((n & 1) as i64))
            }
            FLOAT => {
                let bytes = self.take(8)?;
                Value::float(f64::from_le_bytes(bytes.try_into().unwrap_or_default()))
            }
            LIST | RECORD | MAP => {
                if depth >= DEPTH {
                    return Err(Malformed::Bytes("a table is too deep"));
                }
                if self.bytes.len() < self.next_look {
                    self.look(vm)?;
                }
                match tag {
                    LIST => self.list(vm, depth)?,
                    RECORD => self.record(vm, depth)?,
                    _ => self.map(vm, depth)?,
                }
            }
            _ => match self.string_of(tag)? {
                Some(bytes) => vm.new_str(bytes)?.into(),
                None => return Err(Malformed::Bytes("an unknown kind of value")),
            },
        })
    }

    #[cold]
    fn look(&mut self, vm: &mut Vm) -> Result<(), Malformed> {
        self.next_look = self.bytes.len().saturating_sub(STRIDE);
        vm.poll_interrupt()?;
        let beside = self.values.capacity() * size_of::<Value>();
        let heap = vm.heap();
        if heap.is_over_limit() || heap.room() < beside {
            return Err(Malformed::Thrown(vm.out_of_memory()));
        }
        Ok(())
    }

    fn push(&mut self, vm: &mut Vm, value: Value) -> Result<(), Malformed> {
        if value.is_nil() {
            return Err(Malformed::Bytes("nil in a table"));
        }
        if self.values.try_reserve(1).is_err() {
            return Err(Malformed::Thrown(vm.out_of_memory()));
        }
        self.values.push(value);
        Ok(())
    }

    fn list(&mut self, vm: &mut Vm, depth: usize) -> Result<Value, Malformed> {
        let (start, n) = (self.values.len(), self.count(1)?);
        if n == 0 {
            return Ok(vm.new_table(0, 0)?.into());
        }
        for _ in 0..n {
            let value = self.value_at(vm, depth + 1)?;
            self.push(vm, value)?;
        }
        let list = vm.new_list(&self.values[start..])?;
        self.values.truncate(start);
        Ok(list.into())
    }

    fn record(&mut self, vm: &mut Vm, depth: usize) -> Result<Value, Malformed> {
        let (start, n) = (self.values.len(), self.count(2)?);
        let guess = self.guess;
        let mut matched = 0;
        for i in 0..n {
            let name = self.string()?;
            let name = match vm.guessed_name(guess, i) {
                Some(guessed) if matched == i && guessed.bytes() == name => {
                    matched += 1;
                    guessed
                }
                _ => vm.new_name(name)?,
            };
            self.push(vm, name.into())?;
            let value = self.value_at(vm, depth + 1)?;
            self.push(vm, value)?;
        }
        let record = vm.new_record(&self.values[start..], guess, matched)?;
        if record.repeated.is_some() {
            return Err(Malformed::Bytes("a name is there twice"));
        }
        self.guess = record.guess;
        self.values.truncate(start);
        Ok(record.table.into())
    }

    fn map(&mut self, vm: &mut Vm, depth: usize) -> Result<Value, Malformed> {
        let (start, n) = (self.values.len(), self.count(2)?);
        for _ in 0..n {
            for _ in 0..2 {
                let value = self.value_at(vm, depth + 1)?;
                self.push(vm, value)?;
            }
        }
        let t = vm.new_table(0, n)?;
        for at in (start..self.values.len()).step_by(2) {
            let (key, value) = (self.values[at], self.values[at + 1]);
            if key.as_float().is_some_and(f64::is_nan) {
                return Err(Malformed::Bytes("NaN as a key"));
            }
            if !vm.raw_get(t, key).is_nil() {
                return Err(Malformed::Bytes("a key is there twice"));
            }
            vm.raw_set(t, key, value)?;
        }
        self.values.truncate(start);
        Ok(t.into())
    }
}
