//! HTTP/1.1: `require "perilune.http"`, a server and a client on the sockets of `perilune-io`.
//!
//! # Terms
//! * A *head* is the first line of a message with its header fields; the *body* is what follows. *Framing* is
//!   how one sees where the body ends.
//! * A *turn* of a connection is a request with its response. A connection has one turn at a time; a client
//!   that sends more at once (*pipelining*) gets its responses in order because the next head is only looked
//!   at when the turn has ended.
//!
//! # What is Rust and what is Lua
//! What is done for each byte, and what decides about safety, is Rust: parsing heads, framing, chunks,
//! addresses, composing heads. What is done once per message is Lua (`lua/`): routes, the loop of a
//! connection, limits of time, redirects, the pool. It calls one native to read a head and one to send a
//! response, and makes one table, the request; so the difference to a loop in Rust is small, and in Lua a
//! handler is called as any function is: it waits, is cancelled and fails as the program's own code does.
//! Rejected: the loop as a native, which would have to put aside where it is at each wait, and could not call
//! a handler that waits.
//!
//! # Layers
//!
//! | file | | knows |
//! |---|---|---|
//! | `refused.rs` | what is wrong with a message | nothing |
//! | `head.rs`, `framing.rs`, `chunked.rs`, `url.rs`, `date.rs` | bytes to meaning | slices of bytes |
//! | `compose.rs` | values to bytes | tables |
//! | `natives.rs` | a native for each thing that is sent or received | connections |
//! | `tools.rs` | addresses, files, compression | |
//! | `lua/body.lua` | bodies that come and go in pieces, for both sides | natives |
//! | `lua/server.lua`, `lua/router.lua`, `lua/files.lua` | the server | |
//! | `lua/client.lua` | the client | |
//!
//! # What always holds
//! * Bytes that might be understood in two ways are refused, not repaired (`head.rs`, `framing.rs`,
//!   `chunked.rs`): whoever stands before or behind us sees the same messages.
//! * What a program says in a header field cannot end it (`compose.rs`).
//! * A connection whose peer's next byte could be taken for something else is closed: after a refusal, after
//!   a body that was not read to its end.
//! * Every wait for a peer has a time, every buffer that a peer fills a limit.
//! * An error of a handler ends the turn, and nothing else.

#[doc(hidden)]
pub mod chunked;
mod compose;
mod date;
mod framing;
#[doc(hidden)]
pub mod head;
mod natives;
mod refused;
mod tools;
#[doc(hidden)]
pub mod url;

pub use framing::Framing;
pub use refused::Refused;

use perilune_domain::Module;
use perilune_domain::outside::{self, Source};
use perilune_vm::Native;

/// The modules of this room, for `perilune_domain::Config`.
pub fn modules() -> Vec<Module> {
    vec![Module(&HTTP)]
}

/// What is written in Lua. Each gets the table of natives, and adds to it; the last one adds the module.
static SOURCES: [Source; 5] = [
    Source::new(include_bytes!("lua/body.lua")),
    Source::new(include_bytes!("lua/router.lua")),
    Source::new(include_bytes!("lua/files.lua")),
    Source::new(include_bytes!("lua/server.lua")),
    Source::new(include_bytes!("lua/client.lua")),
];

static HTTP: Native = Native::reentrant("perilune.http", |vm| {
    outside::enter(vm);
    let core = vm.new_table(0, 48)?;
    vm.push(core.into());
    vm.register(core, natives::ALL)?;
    vm.register(core, tools::ALL)?;
    vm.register(core, &[&SERVICE, &perilune_io::protocol::SPREAD, &perilune_io::protocol::DOES])?;
    for source in &SOURCES {
        source.run(vm, &[core.into()])?;
    }
    let module = vm.get_field(core, "module")?;
    vm.ret(module)
});

/// `service(f, what)`: a fiber that the current scope does not wait for, and what it serves.
static SERVICE: Native = Native::leaf("service", |vm| {
    let fiber = outside::start_service(vm)?;
    vm.ret(fiber)
});
