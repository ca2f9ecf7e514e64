//! `c:send_file(file [, offset [, n]])`: a file's bytes to a connection, from the system's memory to the socket without passing through the program (`sendfile`).
//!
//! What was written before goes first. A connection with a TLS session, and one that is no socket, gets the bytes by way of its buffer, as a write would. A disk that is slow stops the thread
//! meanwhile: the system tells nobody whether a part of a file is in memory, other than by reading it.

use crate::connection::{CONNECTION, Stop, established, results};
use crate::failure::Failure;
use crate::file::{FILE, File, read_at};
use crate::stream::{Origin, Stream};
use crate::waiting::{Side, turn, wait};
use perilune_vm::{LuaResult, Native, Vm};
use rustix::fd::OwnedFd;
use std::sync::Arc;

/// The system is asked for so many bytes at once.
const PIECE: u64 = 1 << 20;
/// What passes through the buffer does so in pieces of this size.
const COPIED: usize = 64 << 10;

/// `c:send_file(file [, offset [, n]])`: how many bytes were sent: fewer, if the file is shorter.
pub static SEND_FILE: Native = Native::leaf("send_file", |vm| {
    let stream: Arc<Stream> = vm.check_shared_arc(1, &CONNECTION)?;
    let file: Arc<File> = vm.check_shared_arc(2, &FILE)?;
    let (from, most) = (check(vm, 3, 0)?, check(vm, 4, i64::MAX)?);
    let outcome = file.descriptor().map_err(Stop::from).and_then(|fd| send(vm, &stream, &fd, from, most));
    match outcome {
        Ok(n) => vm.ret(n as i64),
        Err(stop) => results(vm, Err(stop)),
    }
});

fn check(vm: &mut Vm, n: u32, default: i64) -> LuaResult<u64> {
    let number = vm.opt_int(n, default)?;
    u64::try_from(number).map_err(|_| vm.arg_error(n, "a number of bytes must not be negative"))
}

fn send(vm: &mut Vm, stream: &Arc<Stream>, file: &OwnedFd, from: u64, most: u64) -> Result<u64, Stop> {
    let mut progress = turn(vm, stream, Side::Write)?;
    established(vm, stream, &progress)?;
    let is_copied = stream.session().is_some() || stream.origin == Origin::Pipe;
    loop {
        let left = most - progress.done;
        if left == 0 {
            return Ok(progress.done);
        }
        let at = from.saturating_add(progress.done);
        let mut output = stream.output();
        let sent = if is_copied {
            match stream.may_write(&mut output)? {
                false => None,
                true => {
                    let piece = usize::try_from(left).unwrap_or(COPIED).min(COPIED);
                    let bytes = read_at(file, at, piece).map_err(Failure::from)?;
                    if !stream.reserve(&mut output, bytes.len()) {
                        drop(output);
                        return Err(Stop::Thrown(vm.out_of_memory()));
                    }
                    stream.take(&mut output, &bytes);
                    stream.write_out(&mut output);
                    Some(bytes.len())
                }
            }
        } else {
            // An end of the output is told by the first look, as for a write.
            stream.may_write(&mut output)?;
            match stream.flush(&mut output)? {
                false => None,
                true => {
                    let piece = usize::try_from(left.min(PIECE)).unwrap_or(COPIED);
                    stream.send_file(&mut output, file, at, piece)?
                }
            }
        };
        match sent {
            Some(0) => return Ok(progress.done),
            Some(n) => {
                progress.done += n as u64;
                // Each piece has its time.
                progress.deadline = crate::waiting::Waited::deadline(&**stream, Side::Write);
                progress.is_over = false;
            }
            None if progress.is_over => return Err(Failure::Timeout.into()),
            None => wait(vm, stream, output, Side::Write, &progress)?,
        }
    }
}
