//! Natives that write messages of their own to a connection: room for them, and handing them over.

use crate::failure::Failure;
use crate::stream::Stream;
use crate::waiting::{Progress, Side, wait};
use perilune_domain::outside;
use perilune_vm::{LuaResult, Vm};
use std::sync::Arc;

/// Waits until something may be written, as `c:write` does.
///
/// # Errors
/// The park, to be passed on.
pub fn room(vm: &mut Vm, stream: &Arc<Stream>, progress: &Progress) -> LuaResult<Result<(), Failure>> {
    loop {
        let mut output = stream.output();
        match stream.may_write(&mut output) {
            Ok(true) => return Ok(Ok(())),
            Ok(false) if progress.is_over => return Ok(Err(Failure::Timeout)),
            Ok(false) => wait(vm, stream, output, Side::Write, progress)?,
            Err(failure) => return Ok(Err(failure)),
        }
    }
}

/// Gives bytes to the connection, which sends them with others.
///
/// # Errors
/// "not enough memory"
pub fn put(vm: &mut Vm, stream: &Arc<Stream>, bytes: &[u8]) -> LuaResult<()> {
    let mut output = stream.output();
    if !stream.reserve(&mut output, bytes.len()) {
        drop(output);
        return Err(vm.out_of_memory());
    }
    stream.take(&mut output, bytes);
    let defer = stream.is_to_be_deferred(&mut output);
    drop(output);
    if defer {
        outside::defer(vm, Arc::clone(stream) as _)?;
    }
    Ok(())
}
