//! The outside world without threads: `require "perilune.net"`, `require "perilune.process"`,
//! `require "perilune.rpc"`, `require "perilune.ws"`, `require "perilune.log"`.
//!
//! A fiber that waits for a socket holds no thread, and a domain that waits holds none either. This room
//! knows sockets and the one poller of the process; what it needs of the scheduler is
//! `perilune_domain::outside`. `docs/decisions/0027-one-poller.md` has the measurements behind the design.
//!
//! # Terms
//! * A *source* is a descriptor as the poller knows it: two *slots*, one for each direction, each with a
//!   ready flag and those who wait (`slot.rs`).
//! * An *edge* is what the kernel tells: something has become readable or writable. It is told once.
//! * A *turn* is one call of a native that waits: it is called again after each wait
//!   (`perilune_domain::wait`).
//!
//! # How a read waits
//! 1. The native clears the ready flag and asks the system. Nearly always the answer is there, and that was
//!    all.
//! 2. The system says "would block": the native begins a wait and leaves its waiter in the slot. If the flag
//!    is up by now it goes back to 1.
//! 3. It parks. The domain runs its other fibers; if there are none, it writes out what its connections have
//!    gathered and is left by its thread.
//! 4. The poller, which sleeps in the kernel, gets the edge, raises the flag and wakes the waiter: the fiber
//!    becomes ready in its domain, which a worker thread takes.
//! 5. The native is called again, and is at 1.
//!
//! # What always holds
//! * Each byte is handed out once: what a wait that ends early (timeout, cancellation, limit) has not handed
//!   out is in the connection's buffer or still in the kernel.
//! * A write is taken whole or not at all.
//! * A wait of this room counts as something that can still happen (`outside.rs`): it is no deadlock to wait
//!   for a client.
//! * Who waits for a descriptor that is closed is woken; its number is used again only after the last call
//!   with it has ended (`stream.rs`).
//! * An idle program makes no wakeups: the poller sleeps without a timeout, and nothing looks at intervals.
//!
//! # Parts
//!
//! | file | |
//! |---|---|
//! | `slot.rs`, `sync.rs` | one direction: flag and waiters; the primitives, for the models of it and of the lease in `tests/model` |
//! | `poller/`, `lease.rs` | the thread that waits for all descriptors; when a worker does it instead |
//! | `poller/set.rs`, `ring.rs`, `backend.rs` | how the kernel tells it: `epoll`, `io_uring`; which of them |
//! | `buffer.rs`, `stream.rs` | a connection without Lua |
//! | `waiting.rs`, `connection.rs` | natives on connections |
//! | `listener.rs`, `dial.rs`, `udp.rs` | `net.listen`; `net.connect`, `net.resolve`; `net.udp` |
//! | `cases.rs` | all of these as cases of `pl.select` |
//! | `serve.rs`, `serve.lua` | `l:serve`; a listener that several domains serve |
//! | `helpers.rs`, `resolve.rs`, `fs.rs` | threads for calls that block: names, `perilune.fs` |
//! | `watch.rs` | `fs.watch` |
//! | `file.rs`, `beneath.rs` | files that are open: `fs.open`; files below a folder |
//! | `sendfile.rs`, `stream/files.rs`, `conduit.rs` | `c:send_file` |
//! | `service.rs` | what a supervisor gives and hears: `net.inherited`, `net.notify` |
//! | `signal.rs` | `perilune.signal`: signals as messages |
//! | `tty.rs` | `perilune.tty`: terminals |
//! | `descriptors.rs` | any descriptor, for natives of rooms below |
//! | `process/`, `signal_names.rs` | `perilune.process`: `mod.rs` a process and its end, `start.rs` what is started, `run.rs` from the beginning to the end |
//! | `writing.rs` | what modules write by themselves |
//! | `seen.rs`, `doing.rs` | what traces say of waits for peers, of writes and of requests; what fibers of modules do |
//! | `rpc/`, `ws/` | remote calls; WebSocket |
//! | `log/` | `perilune.log` |
//! | `tls/` | sessions, and what handshakes begin from; `no_tls.rs` stands in for it without the feature `tls` |
//! | `luasocket/` | what LuaSocket has in C: `socket.core`, `socket.unix`, `mime.core`; what programs use of LuaSec: `ssl`, `ssl.https` |
//! | `address.rs`, `failure.rs`, `options.rs`, `surplus.rs` | addresses, failures, tables of options, arguments that there are not in the words of programs |

mod address;
mod beneath;
mod buffer;
mod cases;
mod conduit;
mod connection;
mod descriptors;
mod dial;
mod doing;
mod failure;
mod fifo;
mod file;
mod fs;
mod helpers;
mod keep;
mod lease;
#[cfg(test)]
mod lease_tests;
mod lines;
mod listener;
mod log;
mod luasocket;
mod options;
mod poller;
mod process;
mod resolve;
pub mod rpc;
mod seen;
mod sendfile;
mod serve;
mod service;
mod signal;
mod signal_names;
mod slot;
#[cfg(test)]
mod slot_tests;
mod stream;
#[cfg(test)]
mod stream_tests;
mod sync;
mod sys;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "no_tls.rs"]
mod tls;
mod tty;
mod udp;
mod waiting;
mod watch;
mod writing;
pub mod ws;

use perilune_domain::{Module, outside};
use perilune_vm::Native;

pub use descriptors::descriptors;
pub use poller::{Who, Wish, wait_by, wish};
pub use tty::restore_terminal;

/// For rooms above this one that make natives on connections: protocols.
pub mod protocol {
    pub use crate::beneath::open as open_beneath;
    pub use crate::connection::{CONNECTION, Step, Stop, read, results, write};
    pub use crate::doing::DOES;
    pub use crate::failure::Failure;
    pub use crate::file::File;
    pub use crate::seen::{is_on as is_seen, request_begins, request_ends, request_handled};
    pub use crate::serve::SPREAD;
    pub use crate::stream::{End, Input, More, Stream};
    pub use crate::waiting::Side;
}

/// The modules of this room, for `perilune_domain::Config`.
pub fn modules() -> Vec<Module> {
    vec![
        Module(&NET),
        Module(&process::MODULE),
        Module(&rpc::RPC),
        Module(&ws::WS),
        Module(&log::LOG),
        Module(&luasocket::SOCKET),
        Module(&luasocket::UNIX),
        Module(&luasocket::MIME),
        Module(&luasocket::SSL),
        Module(&luasocket::HTTPS),
        Module(&signal::MODULE),
        Module(&fs::MODULE),
        Module(&tty::MODULE),
    ]
}

static NET: Native = Native::leaf("perilune.net", |vm| {
    outside::enter(vm);
    cases::register::<stream::Stream>(&connection::CONNECTION);
    cases::register::<listener::Listener>(&listener::LISTENER);
    cases::register::<udp::Udp>(&udp::UDP);
    let net = vm.new_table(0, 6)?;
    vm.push(net.into());
    dial::register(vm, net)?;
    vm.register(net, &[&listener::LISTEN, &udp::NEW, &service::INHERITED, &service::NOTIFY])?;
    vm.ret(net)
});
