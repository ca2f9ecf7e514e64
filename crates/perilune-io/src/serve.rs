//! `l:serve(handler)`, and listeners that several domains serve: for `perilune.net`, `perilune.rpc` and
//! `perilune.http` alike.
//!
//! # One domain
//! Each connection has a fiber, all in one scope that `serve` waits for. When the listener is closed, by
//! whomever, what is going on has `grace` seconds to end, and is cancelled then.
//!
//! # Several
//! `domains = n` begins n domains, the *crew*. The handler crosses to each of them as a function does that a
//! domain is spawned with: what may not cross is refused before anything begins. The calling domain serves
//! nothing itself. One fiber of it accepts and hands each connection to the domain that has the fewest, by a
//! channel, the *inbox*; there the code runs that would run in one domain, with a *source* in place of the
//! listener: it has `accept`, `close` and `address`, and is told of each connection that has ended, for the
//! count. A second channel, *control*, says when to end and how long that may take; if it is closed, at once.
//! Each is closed however `serve` is left, and the domains are joined then, so nothing outlives the call. A
//! domain that fails is the failure of all.
//!
//! # Why one fiber accepts
//! * *`SO_REUSEPORT`, a socket for each domain*: the kernel spreads by a hash of the addresses. A connection
//!   that hashes to a busy domain waits for it (p99 77 ms, decision 27), those in the queue of a socket that
//!   is closed are reset, and Unix sockets and inherited ones have no such thing.
//! * *`EPOLLEXCLUSIVE`* chooses among several sets of descriptors. The process has one set.
//! * *A fiber of each domain accepts from the one socket.* That works, and is there for programs that do it
//!   by hand. But who has been woken takes what there is, so one domain may get nearly all of the connections
//!   that come at once, for as long as they live (decision 35 has figures); and a wake goes to whoever has
//!   waited longest, also if its domain computes just now.
//!
//! The price is a channel's message for each connection, not for each request. A domain that computes gets no
//! more than its share, as its connections do not end meanwhile.
//!
//! Limits are divided: each domain of n has room for one n-th of `max`, rounded up.

use crate::doing::DOES;
use crate::keep::KEEP;
use crate::listener::LISTENER;
use crate::options;
use perilune_domain::outside;
use perilune_domain::surplus::{self, Limit};
use perilune_vm::{Gc, LuaResult, Native, Table, Type, Value, Vm};

/// Connections at once, if nobody says otherwise.
const MAX: i64 = 1000;
/// Seconds for what is going on when the listener is closed.
const GRACE: f64 = 10.0;
/// Nobody has so many cores.
const MOST_DOMAINS: i64 = 1024;
/// Where the registry has what is written in Lua.
const SERVING: &str = "perilune.net.serving";

/// What is written in Lua, made once in each domain: `serve`, `begin`, `run`.
fn serving(vm: &mut Vm) -> LuaResult<Gc<Table>> {
    let registry = vm.registry();
    if let Some(known) = vm.get_field(registry, SERVING)?.as_table() {
        return Ok(known);
    }
    static SOURCE: outside::Source = outside::Source::new(include_bytes!("serve.lua"));
    let serving = vm.new_table(0, 3)?;
    vm.push(serving.into());
    SOURCE.run(vm, &[serving.into(), Value::native(&SERVE), Value::native(&KEEP), Value::native(&DOES)])?;
    let registry = vm.registry();
    vm.set_field(registry, SERVING, serving.into())?;
    Ok(serving)
}

/// `spread()`: a table with `begin` and `run`, for modules whose listeners several domains serve.
pub static SPREAD: Native = Native::reentrant("spread", |vm| {
    let serving = serving(vm)?;
    vm.ret(serving)
});

/// Options as `serve.lua` wants them: all there, all checked.
fn checked(vm: &mut Vm) -> LuaResult<Gc<Table>> {
    let given = if vm.arg_is_none_or_nil(3) { None } else { Some(vm.check_table(3)?) };
    let checked = vm.new_table(0, 4)?;
    vm.push(checked.into());
    let (mut max, mut grace, mut domains, mut on_error) = (MAX, GRACE, Value::NIL, Value::NIL);
    if let Some(given) = given {
        options::check(vm, given, &["domains", "max", "grace", "on_error"])?;
        max = options::int(vm, given, "max", 1, i64::MAX)?.unwrap_or(MAX);
        if let Some(n) = options::int(vm, given, "domains", 1, MOST_DOMAINS)? {
            domains = Value::int(n);
        }
        let value = vm.get_field(given, "grace")?;
        if !value.is_nil() {
            grace = match value.as_number() {
                Some(seconds) if seconds >= 0.0 => seconds,
                Some(seconds) if seconds.is_nan() => {
                    return Err(vm.error("option 'grace' must be a number of seconds, not nan"));
                }
                _ => return Err(vm.error("option 'grace' must be a number of seconds")),
            };
        }
        on_error = vm.get_field(given, "on_error")?;
        if !on_error.is_nil() && !on_error.is_function() {
            return Err(vm.error("option 'on_error' must be a function"));
        }
    }
    vm.set_field(checked, "max", Value::int(max))?;
    vm.set_field(checked, "grace", Value::float(grace))?;
    vm.set_field(checked, "domains", domains)?;
    vm.set_field(checked, "on_error", on_error)?;
    Ok(checked)
}

/// `l:serve(handler [, {domains=, max=, grace=, on_error=}])`. In a domain of a crew the first argument is
/// the source, and the fourth the channel of control.
pub static SERVE: Native = Native::reentrant("serve", |vm| {
    let source = vm.arg(1);
    if source.as_table().is_none() {
        surplus::this::<crate::listener::Listener>(vm, &LISTENER, 3, Limit::Own)?;
    }
    vm.check_type(2, Type::Function)?;
    let (handler, control) = (vm.arg(2), vm.arg(4));
    let options = checked(vm)?;
    let serving = serving(vm)?;
    let serve = vm.get_field(serving, "serve")?;
    let all_ended = vm.call(serve, &[source, handler, options.into(), control])?;
    vm.ret(all_ended)
});
