//! Atomics: one value that domains change without losing updates: `pl.atomic(v)`.
//!
//! An atomic made from an integer holds integers and is one machine word; any other holds whatever values
//! every domain can have ([`Plain`]), behind a lock that is held for a few instructions. All operations are
//! sequentially consistent.
//!
//! A change with a function, `a:update(f)`, calls it outside of any lock, and again if another domain has
//! changed the value meanwhile.

use super::plain::{self, Plain};
use super::{Contents, fill, freeze, register};
use crate::contention::{operation, waited};
use crate::races::Order;
use crate::races::cells::{Cells, Object};
use parking_lot::Mutex;
use perilune_trace::{Category, Identity, ObjectKind, clock, on};
use perilune_vm::cycle_collector::{Freeze, Held, Holder, Registered};
use perilune_vm::shared::{SharedArc, SharedKind, SharedObject};
use perilune_vm::{Gc, LuaResult, Native, Table, Value, Vm};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

/// What reports of lost updates say.
#[derive(Clone, Copy)]
struct Words;

impl Object<()> for Words {
    fn cell(&self, (): &()) -> String {
        "the atomic".to_owned()
    }
    fn remedy(&self) -> &'static str {
        "Change it in one step, with a:add(n), a:update(f) or a:cas(old, new); or let one begin after the \
         other has ended (await, a channel, a lane)"
    }
}

/// The kind of atomics.
pub static ATOMIC: SharedKind = SharedKind::new("atomic", open);

/// An atomic.
pub struct Atomic {
    cell: Cell,
    order: Order,
    watched: Cells<()>,
    identity: Identity,
}

enum Cell {
    /// It was made from an integer.
    Integer(AtomicI64),
    /// It was made from anything else.
    Any(Mutex<Plain>, Registered),
}

impl Atomic {
    /// An atomic with a first value, which the running code makes.
    fn new(vm: &Vm, v: Plain) -> Atomic {
        let cell = match v {
            Plain::Integer(i) => Cell::Integer(AtomicI64::new(i)),
            v => Cell::Any(Mutex::new(v), Registered::default()),
        };
        Atomic {
            cell,
            order: Order::new(),
            watched: Cells::new(vm),
            identity: Identity::new(ObjectKind::Atomic),
        }
    }

    /// The value.
    pub fn load(&self) -> Plain {
        operation(&self.identity, || match &self.cell {
            Cell::Integer(a) => Plain::Integer(a.load(SeqCst)),
            Cell::Any(m, _) => m.lock().clone(),
        })
    }

    /// Replaces the value if it equals `expected`; gives what it was.
    pub fn compare_exchange(&self, expected: &Plain, new: Plain) -> Result<Plain, Plain> {
        operation(&self.identity, || match (&self.cell, expected, &new) {
            (Cell::Integer(a), Plain::Integer(old), Plain::Integer(new)) => {
                a.compare_exchange(*old, *new, SeqCst, SeqCst).map(Plain::Integer).map_err(Plain::Integer)
            }
            (Cell::Integer(a), ..) => Err(Plain::Integer(a.load(SeqCst))),
            (Cell::Any(m, _), ..) => {
                let mut now = m.lock();
                if now.equals(expected) { Ok(std::mem::replace(&mut *now, new)) } else { Err(now.clone()) }
            }
        })
    }
}

impl SharedObject for Atomic {
    fn kind(&self) -> &'static SharedKind {
        &ATOMIC
    }
    fn holder(&self) -> Option<&dyn Holder> {
        Some(self)
    }
}

impl Holder for Atomic {
    fn freeze(&self) -> Freeze<'_> {
        match &self.cell {
            Cell::Integer(_) => Freeze::Constant,
            Cell::Any(value, _) => freeze(value),
        }
    }
}

impl Contents for Plain {
    fn held(&self, to: &mut Held<'_>) {
        self.held(to);
    }
    fn empty(&mut self) -> Box<dyn Any> {
        Box::new(std::mem::replace(self, Plain::Nil))
    }
}

/// `pl.atomic([v])`
pub static NEW: Native = Native::leaf("atomic", |vm| {
    vm.check_none_behind(1)?;
    let v = if vm.arg_is_none(1) { Plain::Integer(0) } else { plain::check(vm, 1)? };
    let holds_counts = v.holds_counts();
    let atomic = Arc::new(Atomic::new(vm, v));
    super::report_made(vm, &atomic.identity);
    if holds_counts && let Cell::Any(_, registered) = &atomic.cell {
        registered.shared(|| SharedArc::from(atomic.clone()).downgrade());
    }
    let r = vm.shared_ref(atomic);
    vm.ret(r)
});

fn open(vm: &mut Vm, mt: Gc<Table>) -> LuaResult<()> {
    fill(vm, mt, &[&LOAD, &STORE, &EXCHANGE, &ADD, &SUB, &MIN, &MAX, &CAS, &UPDATE], &[])
}

fn this<'a>(vm: &mut Vm, last: u32) -> LuaResult<&'a Atomic> {
    let object = vm.check_shared(1, &ATOMIC)?;
    vm.check_none_behind(last)?;
    Ok(object)
}

/// Argument `n` as a value for the atomic.
fn value_for(vm: &mut Vm, a: &Atomic, n: u32) -> LuaResult<Plain> {
    match &a.cell {
        Cell::Integer(_) => Ok(Plain::Integer(vm.check_int(n)?)),
        Cell::Any(_, registered) => {
            let v = plain::check(vm, n)?;
            register(vm, registered, &v);
            Ok(v)
        }
    }
}

fn ret(vm: &mut Vm, v: &Plain) -> LuaResult<u32> {
    let v = v.to_value(vm)?;
    vm.ret(v)
}

/// `a:load()`
static LOAD: Native = Native::leaf("load", |vm| {
    let a = this(vm, 1)?;
    let v = a.load();
    a.watched.load(vm, &(), Words);
    a.order.enter(vm);
    ret(vm, &v)
});

/// `a:store(v)`
static STORE: Native = Native::leaf("store", |vm| {
    let a = this(vm, 2)?;
    let v = value_for(vm, a, 2)?;
    a.watched.store(vm, &(), Words);
    a.order.leave(vm);
    // What it held goes when the lock is free: it may be the last reference to much.
    let old = operation(&a.identity, || match (&a.cell, v) {
        (Cell::Integer(a), Plain::Integer(i)) => {
            a.store(i, SeqCst);
            Plain::Nil
        }
        (Cell::Any(m, _), v) => std::mem::replace(&mut *m.lock(), v),
        (_, v) => v,
    });
    drop(old);
    Ok(0)
});

/// `a:exchange(v)`: the value before.
static EXCHANGE: Native = Native::leaf("exchange", |vm| {
    let a = this(vm, 2)?;
    let v = value_for(vm, a, 2)?;
    Plain::ensure_room(vm, || a.load())?;
    a.order.leave(vm);
    let old = operation(&a.identity, || match (&a.cell, v) {
        (Cell::Integer(a), Plain::Integer(i)) => Plain::Integer(a.swap(i, SeqCst)),
        (Cell::Any(m, _), v) => std::mem::replace(&mut *m.lock(), v),
        (_, v) => v,
    });
    a.watched.change(vm, &(), Words);
    a.order.enter(vm);
    ret(vm, &old)
});

/// Changes a number with `integer` or `float`, and returns the new value.
fn arithmetic(
    vm: &mut Vm,
    integer: fn(i64, i64) -> i64,
    float: fn(f64, f64) -> f64,
    by_default: Option<i64>,
) -> LuaResult<u32> {
    let a = this(vm, 2)?;
    let operand = match by_default {
        Some(d) if vm.arg_is_none(2) => Value::int(d),
        _ => {
            vm.check_num(2)?;
            vm.arg(2)
        }
    };
    a.order.leave(vm);
    match &a.cell {
        Cell::Integer(cell) => {
            let n = if operand.is_int() { operand.as_int().unwrap_or(0) } else { vm.check_int(2)? };
            let new = operation(&a.identity, || {
                let mut old = cell.load(SeqCst);
                loop {
                    let new = integer(old, n);
                    match cell.compare_exchange_weak(old, new, SeqCst, SeqCst) {
                        Ok(_) => return new,
                        Err(now) => old = now,
                    }
                }
            });
            a.watched.change(vm, &(), Words);
            a.order.enter(vm);
            vm.ret(new)
        }
        Cell::Any(cell, _) => {
            let mut now = operation(&a.identity, || cell.lock());
            let Some(old) = now.number() else {
                drop(now);
                return Err(vm.arg_error(1, "the atomic holds no number"));
            };
            let new = match (old.as_int(), operand.as_int()) {
                (Some(x), Some(n)) => Plain::Integer(integer(x, n)),
                _ => Plain::Float(float(old.as_number().unwrap_or(0.0), operand.as_number().unwrap_or(0.0))),
            };
            *now = new.clone();
            drop(now);
            a.watched.change(vm, &(), Words);
            a.order.enter(vm);
            ret(vm, &new)
        }
    }
}

/// `a:add([n])`: the new value; integers wrap around.
static ADD: Native = Native::leaf("add", |vm| arithmetic(vm, i64::wrapping_add, |x, y| x + y, Some(1)));
/// `a:sub([n])`
static SUB: Native = Native::leaf("sub", |vm| arithmetic(vm, i64::wrapping_sub, |x, y| x - y, Some(1)));
/// `a:min(n)`
static MIN: Native = Native::leaf("min", |vm| arithmetic(vm, i64::min, f64::min, None));
/// `a:max(n)`
static MAX: Native = Native::leaf("max", |vm| arithmetic(vm, i64::max, f64::max, None));

/// `a:cas(old, new)`: stores `new` if the value is `old`; returns whether it was, and what it was.
static CAS: Native = Native::leaf("cas", |vm| {
    let a = this(vm, 3)?;
    let expected = plain::check(vm, 2)?;
    let new = value_for(vm, a, 3)?;
    Plain::ensure_room(vm, || a.load())?;
    a.order.leave(vm);
    let (done, seen) = match a.compare_exchange(&expected, new) {
        Ok(old) => (true, old),
        Err(now) => (false, now),
    };
    if done {
        a.watched.change(vm, &(), Words);
    }
    a.order.enter(vm);
    vm.push(done.into());
    let seen = seen.to_value(vm)?;
    vm.push(seen);
    Ok(2)
});

/// `a:update(f)`: replaces the value `v` by `f(v)` and returns that. `f` is called again if the value has
/// changed meanwhile.
static UPDATE: Native = Native::reentrant("update", |vm| {
    vm.check_none_behind(2)?;
    let a: Arc<Atomic> = vm.check_shared_arc(1, &ATOMIC)?;
    let f = super::check_changer(vm, 2)?;
    loop {
        let began = if on(Category::Contention) { clock::monotonic_ns() } else { 0 };
        let old = a.load();
        a.order.enter(vm);
        let v = old.to_value(vm)?;
        let new = vm.call(f, &[v])?;
        let new = match &a.cell {
            Cell::Integer(_) => match new.as_int() {
                Some(i) => Plain::Integer(i),
                None => {
                    let found = new.type_name();
                    return Err(
                        vm.arg_error(2, &format!("the function must return an integer (got {found})"))
                    );
                }
            },
            Cell::Any(_, registered) => {
                let new = plain::check_value(vm, new, 2)?;
                register(vm, registered, &new);
                new
            }
        };
        a.order.leave(vm);
        if a.compare_exchange(&old, new.clone()).is_ok() {
            a.watched.change(vm, &(), Words);
            return ret(vm, &new);
        }
        if began != 0 {
            // All of this was for nothing.
            waited(&a.identity, clock::monotonic_ns() - began);
        }
    }
});
