//! `io.lines` and `file:lines`: iterators over read operations.
//!
//! The iterator is a native closure over the file, whether to close it at its end, and the formats. Without
//! formats it reads a line, straight from the stream's buffer into a new string; that case is separate,
//! because programs spend their time in it.

use super::handle::file_of;
use super::park::{self, Waited};
use super::read::{self, Outcome, Step};
use super::standard::{File, briefly, operate};
use super::stream::Stream;
use crate::errno::{self, Failure};
use crate::string::scratch;
use perilune_vm::{Gc, LuaResult, Native, Userdata, Value, Vm};
use rustix::io::Errno;

/// Most formats that an iterator takes.
const MAX_FORMATS: u32 = 250;

static LINES_STEP: Native = Native::leaf("lines_iterator", step);

/// Upvalues before the formats: the file, whether to close it, how many formats.
const FORMATS: u32 = 3;

/// An iterator that reads `file` by the formats that are the arguments from 2 on.
pub(super) fn iterator(vm: &mut Vm, file: Gc<Userdata>, close_at_end: bool) -> LuaResult<Value> {
    let count = vm.nargs().saturating_sub(1);
    if count > MAX_FORMATS {
        return Err(vm.arg_error(MAX_FORMATS + 2, "too many arguments"));
    }
    let mut upvalues = vec![file.into(), Value::bool(close_at_end), Value::int(i64::from(count))];
    // The formats stay in the argument slots meanwhile, which keeps them alive.
    upvalues.extend((2..2 + count).map(|i| vm.arg(i)));
    vm.new_native_closure(&LINES_STEP, &upvalues)
}

fn step(vm: &mut Vm) -> LuaResult<u32> {
    let file = vm.upvalue(1).as_userdata();
    let Some(file) = file.and_then(file_of) else {
        let text = if park::waited(vm)? != Waited::No { "closed" } else { "file is already closed" };
        return Err(vm.error(text));
    };
    let count = vm.upvalue(3).as_int().unwrap_or(0) as u32;
    if count == 0
        && let Some(Some(pushed)) = briefly(vm, file, line_at_hand)
    {
        return pushed.map(|()| 1);
    }
    let outcome = if count == 0 {
        match next_line(vm, file)? {
            Ok(true) => return Ok(1),
            Ok(false) => Outcome::Values(1),
            Err(failure) => Outcome::Failed(failure),
        }
    } else {
        // As with `read`, the formats follow one argument.
        let prepare = |vm: &mut Vm| {
            vm.truncate(1);
            while vm.stack_top() < 1 {
                vm.push(Value::NIL);
            }
            vm.ensure_stack(2 * count as usize + 20)?;
            for i in 1..=count {
                let format = vm.upvalue(FORMATS + i);
                vm.push(format);
            }
            Ok(())
        };
        match operate(vm, file) {
            Ok(mut stream) if park::concerns(vm, &stream) => {
                park::read(vm, &mut stream, (2, count), 1, prepare)?
            }
            Ok(mut stream) => {
                prepare(vm)?;
                read::read(vm, &mut stream, 2, count)?
            }
            Err(failure) => {
                park::waited(vm)?;
                Outcome::Failed(failure)
            }
        }
    };
    match outcome {
        Outcome::Values(pushed) => {
            let first = vm.stack_top() as u32 - pushed + 1;
            if vm.stack_get(first).is_truthy() {
                return Ok(pushed);
            }
            if vm.upvalue(2).is_truthy() {
                // Reading came to its end; what closing says has no place to go.
                let _ = file.close(vm);
            }
            Ok(0)
        }
        Outcome::Failed(Failure::System(Errno::NOMEM)) => Err(vm.out_of_memory()),
        Outcome::Failed(Failure::System(error)) => {
            errno::interrupted(vm, error)?;
            Err(vm.error(errno::message(error)))
        }
        Outcome::Failed(Failure::Closed) => Err(vm.error("closed")),
    }
}

/// Pushes the next line, if all of it is in the buffer and nobody has waited for one.
#[inline(always)]
fn line_at_hand(vm: &mut Vm, stream: &mut Stream) -> Option<LuaResult<()>> {
    if stream.has_sleepers() {
        return None;
    }
    stream.line_at_hand(|line| vm.push_str(line))
}

/// Pushes the next line.
#[inline(never)]
fn next_line(vm: &mut Vm, file: &File) -> LuaResult<Step> {
    let mut stream = match operate(vm, file) {
        Ok(stream) => stream,
        Err(failure) => {
            park::waited(vm)?;
            return Ok(Err(failure));
        }
    };
    stream.give_bias(vm);
    if let Some(pushed) = line_at_hand(vm, &mut stream) {
        return pushed.map(|()| Ok(true));
    }
    if park::concerns(vm, &stream) {
        let arguments = vm.nargs();
        let outcome = park::read(vm, &mut stream, (1, 0), arguments, |_| Ok(()))?;
        return Ok(match outcome {
            Outcome::Values(_) => Ok(vm.stack_get(vm.nargs()).is_truthy()),
            Outcome::Failed(failure) => Err(failure),
        });
    }
    match stream.begin_reading(scratch::room(vm)) {
        Ok(()) => read::push_line(vm, &mut stream, false),
        Err(failure) => Ok(Err(failure)),
    }
}
