//! Remote calls: `require "perilune.rpc"`.
//!
//! # Terms
//! A *link* is a connection of remote calls, whose client asks and whose server answers. A *call* is what a
//! client has asked; the same is a *job* for the server, and a *worker* is the fiber that does it. A *stream*
//! is a call whose results come one by one.
//!
//! # The way of a call
//! 1. `c:add(2, 3)`: the native encodes the arguments, leaves its waiter by the call's id, gives the frame to
//!    the connection and parks. The connection goes out when the domain has nothing better to do, with what
//!    other callers have written meanwhile: twelve callers make one write.
//! 2. At the server the poller sees bytes, and the link's pump (`link.rs`) cuts them into frames and queues
//!    those that ask for something. An idle worker is woken.
//! 3. The worker decodes a request, calls the function, encodes what it returns into the connection, and
//!    takes the next request. When no more are there it parks; the domain has nothing better to do, and
//!    twelve answers make one write.
//! 4. At the client the poller sees bytes; the pump gives each answer to its call and wakes the callers. Each
//!    decodes its own.
//!
//! So the costs of system calls, of polling and of waking threads are those of a batch, and a call by itself
//! costs one park of the caller and four walks over its values.
//!
//! # What always holds
//! * Each call gets one outcome: an answer, its time, or the failure of the link. A caller never hangs
//!   because its peer has died: the end of a link wakes everybody (`link.rs`).
//! * Whoever does not wait any more (a timeout, a cancellation, a stream that is left) has told the server
//!   so, which cancels the fiber.
//! * A function is found among the served ones by its raw name: no metatable, no global is reached by a name
//!   that comes from outside. What arrives are plain values (`perilune_data::wire`).
//! * What a peer can make us hold is bounded: a frame, 1024 requests or 1 MiB of them, the credit of a
//!   stream, the workers that the program allows; answers as far as they were asked for.
//! * What may not come ends the connection.
//!
//! # Parts
//!
//! | file | |
//! |---|---|
//! | `frame.rs` | the protocol, as bytes |
//! | `link.rs` | a connection: the pump, the end |
//! | `calls.rs`, `client.rs` | what a client waits for; its natives |
//! | `jobs.rs`, `server.rs`, `rpc.lua` | what a server is to do, and who does it; its natives; its fibers |
//! | `natives.rs` | what both sides have in common |

mod calls;
mod client;
pub mod frame;
mod jobs;
mod link;
mod natives;
mod server;

use perilune_domain::outside;
use perilune_vm::{Native, Value};

/// The loader of the module.
pub static RPC: Native = Native::reentrant("perilune.rpc", |vm| {
    outside::enter(vm);
    let rpc = vm.new_table(0, 2)?;
    vm.push(rpc.into());
    let natives = vm.new_table(0, 7)?;
    vm.push(natives.into());
    vm.register(
        natives,
        &[
            &server::SERVE,
            &client::ATTACH,
            &DAEMON,
            &SERVICE,
            &IS_LISTENER,
            &crate::serve::SPREAD,
            &crate::keep::KEEP,
            &crate::doing::DOES,
        ],
    )?;
    static SOURCE: outside::Source = outside::Source::new(include_bytes!("rpc.lua"));
    SOURCE.run(vm, &[rpc.into(), natives.into()])?;
    vm.ret(rpc)
});

/// `daemon(f, ...)`: a daemon of the running scope, or a fiber of the domain.
static DAEMON: Native = Native::leaf("daemon", |vm| {
    let fiber = outside::start_daemon(vm)?;
    vm.ret(fiber)
});

/// `service(f, what)`: the same, and what it serves.
static SERVICE: Native = Native::leaf("service", |vm| {
    let fiber = outside::start_service(vm)?;
    vm.ret(fiber)
});

/// `is_listener(v)`
static IS_LISTENER: Native = Native::leaf("is_listener", |vm| {
    let is =
        vm.arg(1).as_shared().is_some_and(|r| std::ptr::eq(r.object().kind(), &crate::listener::LISTENER));
    vm.ret(Value::from(is))
});
