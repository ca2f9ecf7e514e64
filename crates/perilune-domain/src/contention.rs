//! Contention for shared objects, seen: how long operations on one had to wait for other processors.
//!
//! Two kinds of waiting look alike from above: for a lock, and for the cache line of an atomic that another
//! processor has just written. Both are measured as the time of the operation, of which one in [`EVERY`] is
//! timed and counts for all; what an operation takes that nobody disturbs ([`FREE`]) is subtracted. Long
//! times are cut ([`MOST`]): then it was the kernel that took the processor away, which other events show.
//!
//! Each thread adds up for the object that it used last, and writes a `Contended` event when it turns to
//! another, or when a millisecond is over. Off, all this is one test.

use perilune_trace::event::{Contended, Few, Ns};
use perilune_trace::{Category, Identity, ObjectRef, clock, emit, on};
use std::cell::Cell;

/// Of so many operations one is timed.
const EVERY: u32 = 16;
/// Nanoseconds of an operation that waits for nobody, the two looks at the clock included.
const FREE: u64 = 60;
/// Nanoseconds that one operation counts for at most.
const MOST: u64 = 50_000;
/// Nanoseconds between two events of one thread.
const REPORT: u64 = 1_000_000;

#[derive(Clone, Copy)]
struct Account {
    object: u64,
    ns: u64,
    count: u32,
    operations: u32,
    since: u64,
}

thread_local! {
    static ACCOUNT: Cell<Account> =
        const { Cell::new(Account { object: 0, ns: 0, count: 0, operations: 0, since: 0 }) };
}

/// Does an operation on the shared object.
#[inline(always)]
pub(crate) fn operation<R>(identity: &Identity, f: impl FnOnce() -> R) -> R {
    if on(Category::Contention) { timed(identity, f) } else { f() }
}

// Not inlined: what calls it may go on in another thread.
#[inline(never)]
fn timed<R>(identity: &Identity, f: impl FnOnce() -> R) -> R {
    let mut account = ACCOUNT.get();
    account.operations = account.operations.wrapping_add(1);
    if !account.operations.is_multiple_of(EVERY) {
        ACCOUNT.set(account);
        return f();
    }
    let before = clock::monotonic_ns();
    let result = f();
    let now = clock::monotonic_ns();
    let waited = (now - before).saturating_sub(FREE).min(MOST) * EVERY as u64;
    let object = identity.get().0;
    if account.object != object || now.saturating_sub(account.since) > REPORT {
        report(&account);
        account = Account { object, ns: 0, count: 0, since: now, ..account };
    }
    account.ns += waited;
    account.count += EVERY;
    ACCOUNT.set(account);
    result
}

fn report(account: &Account) {
    if account.ns > 0 {
        let object = ObjectRef(account.object);
        let operations = Few::of(account.count as u64);
        emit(Contended { object, waited: Ns(account.ns), operations });
    }
}

/// An operation had to be done again, or had to wait, for so long.
pub(crate) fn waited(identity: &Identity, ns: u64) {
    emit(Contended { object: identity.get(), waited: Ns(ns.min(MOST)), operations: Few(1) });
}
