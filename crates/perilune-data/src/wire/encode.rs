//! Values to bytes.

use super::{DEPTH, FALSE, FLOAT, INT, LIST, MAP, NIL, RECORD, STRIDE, TRUE, put_string, put_varint};
use perilune_vm::{Form, Gc, LuaResult, Table, Tag, Thrown, Value, Vm};

/// A value that cannot be sent.
#[derive(Debug)]
pub enum Refused {
    /// What is wrong, and the path to it: `.items[3] is a function`.
    Value(String),
    /// Something else: memory, an interrupt.
    Thrown(Thrown),
}

impl From<Thrown> for Refused {
    fn from(thrown: Thrown) -> Refused {
        Refused::Thrown(thrown)
    }
}

/// Appends a value.
///
/// # Errors
/// It has parts that cannot be sent; or there is no memory.
pub fn encode(vm: &mut Vm, value: Value, out: &mut Vec<u8>) -> Result<(), Refused> {
    let next_look = out.len() + STRIDE;
    let mut writer = Writer { out, next_look, path: Vec::new(), open: Vec::new() };
    writer.value(vm, value).map_err(|stop| match stop {
        Stop::Thrown(thrown) => Refused::Thrown(thrown),
        Stop::Refused(what) => {
            // Of a long one the beginning.
            let steps = writer.path.iter().rev().map(String::as_str);
            let dots = if writer.path.len() > STEPS { " ..." } else { "" };
            let path: String = steps.take(STEPS).chain([dots]).collect();
            Refused::Value(if path.is_empty() { what } else { format!("{what} (at {path})") })
        }
    })
}

/// Steps of a path that are told.
const STEPS: usize = 10;

enum Stop {
    Refused(String),
    Thrown(Thrown),
}

impl From<Thrown> for Stop {
    fn from(thrown: Thrown) -> Stop {
        Stop::Thrown(thrown)
    }
}

struct Writer<'o> {
    out: &'o mut Vec<u8>,
    next_look: usize,
    /// The way to what was refused, from its end.
    path: Vec<String>,
    /// The tables that are being written.
    open: Vec<Gc<Table>>,
}

impl Writer<'_> {
    #[inline]
    fn reserve(&mut self, vm: &mut Vm, more: usize) -> LuaResult<()> {
        if self.out.capacity() - self.out.len() < more { self.grow(vm, more) } else { Ok(()) }
    }

    #[cold]
    fn grow(&mut self, vm: &mut Vm, more: usize) -> LuaResult<()> {
        vm.ensure_room(self.out.len() + more)?;
        match self.out.try_reserve(more) {
            Ok(()) => Ok(()),
            Err(_) => Err(vm.out_of_memory()),
        }
    }

    fn value(&mut self, vm: &mut Vm, value: Value) -> Result<(), Stop> {
        self.reserve(vm, 16)?;
        match value.tag() {
            Tag::NIL => self.out.push(NIL),
            Tag::FALSE => self.out.push(FALSE),
            Tag::TRUE => self.out.push(TRUE),
            Tag::INT => {
                let n = value.as_int().unwrap_or(0);
                if (0..0x80).contains(&n) {
                    self.out.push(n as u8);
                } else {
                    self.out.push(INT);
                    put_varint(self.out, ((n << 1) ^ (n >> 63)) as u64);
                }
            }
            Tag::FLOAT => {
                self.out.push(FLOAT);
                self.out.extend_from_slice(&value.as_float().unwrap_or(0.0).to_le_bytes());
            }
            _ => match (value.as_string(), value.as_table()) {
                (Some(s), _) => {
                    self.reserve(vm, s.bytes().len() + 16)?;
                    put_string(self.out, s.bytes());
                }
                (_, Some(t)) => self.table(vm, t)?,
                _ => return Err(Stop::Refused(format!("a {} cannot be sent", value.type_name()))),
            },
        }
        Ok(())
    }

    fn table(&mut self, vm: &mut Vm, t: Gc<Table>) -> Result<(), Stop> {
        if self.open.len() >= DEPTH {
            let cycle = self.open.contains(&t);
            let text =
                if cycle { "a table that contains itself" } else { "a table that is more than 100 deep" };
            return Err(Stop::Refused(format!("{text} cannot be sent")));
        }
        if self.out.len() >= self.next_look {
            self.next_look = self.out.len() + STRIDE;
            vm.poll_interrupt()?;
        }
        self.open.push(t);
        match vm.form(t) {
            Form::List(n) => {
                self.out.push(LIST);
                put_varint(self.out, n as u64);
                for i in 1..=n as i64 {
                    let value = vm.raw_get_int(t, i);
                    if let Err(stop) = self.value(vm, value) {
                        self.path.push(format!("[{i}]"));
                        return Err(stop);
                    }
                }
            }
            Form::Empty => self.out.extend_from_slice(&[LIST, 0]),
            form => {
                let (mut position, mut count) = (0, 0);
                while vm.next_at(t, &mut position).is_some() {
                    count += 1;
                }
                self.out.push(if matches!(form, Form::Names) { RECORD } else { MAP });
                put_varint(self.out, count);
                position = 0;
                while let Some((key, value)) = vm.next_at(t, &mut position) {
                    let entry = self.value(vm, key).and_then(|()| self.value(vm, value));
                    if let Err(stop) = entry {
                        self.path.push(match (key.as_string(), key.as_int()) {
                            (Some(name), _) => format!(".{}", name.to_text()),
                            (_, Some(n)) => format!("[{n}]"),
                            _ => format!("[a {}]", key.type_name()),
                        });
                        return Err(stop);
                    }
                }
            }
        }
        self.open.pop();
        Ok(())
    }
}
