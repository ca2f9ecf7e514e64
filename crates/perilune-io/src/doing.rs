//! What the fibers of this room's modules, and of those above, do: tools call them so.

use crate::connection::CONNECTION;
use crate::listener::{LISTENER, Listener};
use crate::stream::Stream;
use perilune_domain::outside::{self, Awaited, Doing};
use perilune_vm::{Native, Vm};
use std::sync::Arc;

/// All that they do.
const WHAT: [&str; 9] = [
    "http server",
    "http listener",
    "http connection",
    "http idle timeouts",
    "rpc listener",
    "rpc connection",
    "rpc call",
    "listener",
    "connection",
];

/// `does(what [, with])`: what the running fiber does, and by which connection or listener. For the Lua
/// halves of modules.
pub static DOES: Native = Native::leaf("does", |vm| {
    let what = WHAT[vm.check_option(1, None, &WHAT)?];
    let with = with(vm);
    outside::does(vm, Doing { what, with })?;
    Ok(0)
});

/// Argument 2, if it is a connection or listener; of others there is nothing to say.
fn with(vm: &mut Vm) -> Option<Arc<dyn Awaited>> {
    let kind = vm.arg(2).as_shared()?.object().kind();
    if std::ptr::eq(kind, &CONNECTION) {
        let stream: Arc<Stream> = vm.check_shared_arc(2, &CONNECTION).ok()?;
        return Some(stream);
    }
    if std::ptr::eq(kind, &LISTENER) {
        let listener: Arc<Listener> = vm.check_shared_arc(2, &LISTENER).ok()?;
        return Some(listener);
    }
    None
}
