//! What natives of both sides have in common: values of frames, and room in the connection.

use super::frame::{Draft, HEAD, MOST, kind};
use super::link::{Link, PATIENCE};
use crate::connection::{Stop, established};
use crate::failure::Failure;
use crate::stream::Stream;
use crate::waiting::{Progress, Side, turn};
use crate::writing;
use perilune_data::wire::{self, Malformed, Reader, Refused, put_varint};
use perilune_stdlib::string::scratch;
use perilune_vm::{LuaResult, Thrown, Value, Vm};
use std::sync::Arc;
use std::time::Instant;

/// Buffers that are larger are not kept.
const LARGEST_KEPT: usize = 64 << 10;

/// A frame that is being made, in a buffer of this thread.
pub fn draft() -> Draft {
    Draft::new(scratch::take())
}

/// It has been sent.
pub fn drop_draft(draft: Draft) {
    let buffer = draft.into_buffer();
    if buffer.capacity() <= LARGEST_KEPT {
        scratch::put(buffer);
    }
}

/// Why values are not sent.
pub enum Unsent {
    /// The value of this number, counted from 1, and why.
    Value(u32, String),
    /// Something else.
    Thrown(Thrown),
}

/// Appends the arguments from `first` on, with their number.
pub fn put_arguments(vm: &mut Vm, draft: &mut Draft, first: u32) -> Result<(), Unsent> {
    let n = (vm.nargs() + 1).saturating_sub(first);
    put_varint(draft.body(), u64::from(n));
    for i in first..=vm.nargs() {
        let value = vm.arg(i);
        match wire::encode(vm, value, draft.body()) {
            Ok(()) if draft.body().len() - HEAD > MOST => {
                return Err(Unsent::Value(i + 1 - first, "more than 16 MiB cannot be sent".into()));
            }
            Ok(()) => {}
            Err(Refused::Value(text)) => return Err(Unsent::Value(i + 1 - first, text)),
            Err(Refused::Thrown(thrown)) => return Err(Unsent::Thrown(thrown)),
        }
    }
    Ok(())
}

/// Pushes values that were sent with their number; how many.
///
/// # Errors
/// They are malformed, or there is no memory.
pub fn push_values(vm: &mut Vm, reader: &mut Reader<'_>) -> Result<u32, Malformed> {
    let n = reader.varint()?;
    if n > reader.left() as u64 {
        return Err(Malformed::Bytes("a count is larger than what follows"));
    }
    vm.ensure_stack(n as usize + 8)?;
    for _ in 0..n {
        let value = reader.value(vm)?;
        vm.push(value);
    }
    if !reader.is_at_end() {
        return Err(Malformed::Bytes("a frame is longer than what it says"));
    }
    Ok(n as u32)
}

/// Waits for the end of the connection's handshake, if one is under way, as long as for a greeting. So that
/// the pump, which may run in the poller, has nothing to do with handshakes.
///
/// # Errors
/// The park, to be passed on.
pub fn shaken(vm: &mut Vm, stream: &Arc<Stream>) -> LuaResult<Result<(), Failure>> {
    let mut progress = turn(vm, stream, Side::Read)?;
    if progress.is_first {
        let latest = Instant::now().checked_add(PATIENCE);
        progress.deadline = [progress.deadline, latest].into_iter().flatten().min();
    }
    match established(vm, stream, &progress) {
        Ok(()) if stream.session().is_some() => Ok(stream.check()),
        Ok(()) => Ok(Ok(())),
        Err(Stop::Thrown(thrown)) => Err(thrown),
        Err(Stop::Failure(failure)) => Ok(Err(failure)),
    }
}

/// Waits until something may be written.
///
/// # Errors
/// The park, to be passed on.
pub fn room(vm: &mut Vm, link: &Arc<Link>, progress: &Progress) -> LuaResult<Result<(), Failure>> {
    match link.over() {
        Some(failure) => Ok(Err(failure.clone())),
        None => writing::room(vm, &link.stream, progress),
    }
}

/// Gives a frame to the connection, which sends it with others.
///
/// # Errors
/// "not enough memory"
pub fn put(vm: &mut Vm, link: &Link, frame: &[u8]) -> LuaResult<()> {
    writing::put(vm, &link.stream, frame)
}

/// Sends a frame without a body at once.
pub fn send_small(link: &Link, kind: u8, numbers: &[u64]) {
    if let Some(frame) = Draft::new(Vec::new()).finish(kind, numbers, MOST) {
        link.send(frame);
    }
}

/// The frame of an error without a traceback.
pub fn error_frame(id: u64, code: super::frame::Code, text: &str) -> Vec<u8> {
    let mut draft = Draft::new(Vec::new());
    draft.body().push(code.byte());
    wire::put_string(draft.body(), text.as_bytes());
    wire::put_string(draft.body(), b"");
    draft.finish(kind::ERROR, &[id], MOST).map_or_else(Vec::new, <[u8]>::to_vec)
}

/// What went wrong with values that were read, as the connection's end; or what is to be passed on.
///
/// # Errors
/// An interrupt, a cancellation.
pub fn bad_values(vm: &mut Vm, link: &Link, malformed: Malformed) -> LuaResult<Failure> {
    let failure = match malformed {
        Malformed::Bytes(what) => Failure::Protocol(what.into()),
        // There was no memory for what the peer has sent.
        Malformed::Thrown(thrown @ Thrown::Error(_)) => {
            let value = vm.host_error(thrown);
            let text = value.as_string().map_or_else(|| "an error".into(), |s| s.to_text());
            Failure::Limit(text)
        }
        Malformed::Thrown(thrown) => return Err(thrown),
    };
    link.end(failure.clone());
    Ok(failure)
}

/// A text for people of an error value.
pub fn text_of(value: Value) -> String {
    match value.as_string() {
        Some(s) => s.to_text(),
        None if value.is_number() => format!("{value:?}"),
        None => format!("(error object is a {} value)", value.type_name()),
    }
}
