//! Values that are the same in every domain, outside of any.

use perilune_heap::program_has_room;
use perilune_vm::cycle_collector::{Held, Holder};
use perilune_vm::parcel::{PackRules, Parcel};
use perilune_vm::shared::SharedArc;
use perilune_vm::{LuaResult, Native, Tag, Value, Vm};
use std::sync::Arc;

/// Strings of up to so many bytes are allocated whether there is room or not; a safepoint follows.
const SHORT: usize = 4 << 10;

/// A value that belongs to no domain: what atomics and maps hold.
#[derive(Clone)]
#[allow(missing_docs)]
pub enum Plain {
    Nil,
    Boolean(bool),
    Integer(i64),
    Float(f64),
    String(Arc<[u8]>),
    Native(&'static Native),
    Shared(SharedArc),
    /// A table or function in an island: the island's count is in the parcel.
    Island(Parcel, usize),
}

impl Plain {
    /// The value, if it is one that every domain can have: a scalar, a string, a shared object.
    pub fn of(vm: &mut Vm, v: Value) -> Option<Plain> {
        Some(match v.tag() {
            Tag::NIL => Plain::Nil,
            Tag::FALSE => Plain::Boolean(false),
            Tag::TRUE => Plain::Boolean(true),
            Tag::INT => Plain::Integer(v.as_int()?),
            Tag::FLOAT => Plain::Float(v.as_float()?),
            Tag::STRING => Plain::String(Arc::from(v.as_string()?.bytes())),
            Tag::NATIVE => Plain::Native(v.as_native()?),
            Tag::SHARED => Plain::Shared(v.as_shared()?.object().clone()),
            _ if vm.is_shared(v) => Plain::Island(vm.pack(&[v], PackRules::MESSAGE).ok()?, v.address()?),
            _ => return None,
        })
    }

    /// The value in a domain.
    ///
    /// # Errors
    /// "not enough memory"
    pub fn to_value(&self, vm: &mut Vm) -> LuaResult<Value> {
        Ok(match self {
            Plain::Nil => Value::NIL,
            Plain::Boolean(b) => Value::bool(*b),
            Plain::Integer(i) => Value::int(*i),
            Plain::Float(f) => Value::float(*f),
            Plain::String(s) => {
                // Shorter ones are not refused before the native returns.
                if s.len() > SHORT {
                    vm.ensure_room(s.len())?;
                }
                vm.value_str(s)?
            }
            Plain::Native(n) => Value::native(n),
            Plain::Shared(o) => vm.shared_ref(o.clone()).into(),
            Plain::Island(parcel, _) => vm.unpack_one(parcel)?,
        })
    }

    /// For a native that is about to take the value out of where it is: looks for the room that it needs in
    /// this domain, as far as there is a limit.
    ///
    /// # Errors
    /// "not enough memory"
    pub(crate) fn ensure_room(vm: &mut Vm, now: impl FnOnce() -> Plain) -> LuaResult<()> {
        if !vm.heap().is_limited() {
            return Ok(());
        }
        let bytes = now().bytes();
        if bytes > SHORT {
            vm.ensure_room(bytes)?;
        }
        vm.settle()
    }

    /// Bytes that it takes beside itself.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Plain::String(s) => s.len() + 2 * size_of::<usize>(),
            _ => 0,
        }
    }

    /// Whether it is a count of something that may own counts itself.
    pub fn holds_counts(&self) -> bool {
        matches!(self, Plain::Shared(_) | Plain::Island(..))
    }

    /// Tells the counts that it is.
    pub(crate) fn held(&self, to: &mut Held<'_>) {
        match self {
            Plain::Shared(object) => to.shared(object),
            Plain::Island(parcel, _) => parcel.held(to),
            _ => {}
        }
    }

    /// Equality as `==` has it, without metamethods.
    pub fn equals(&self, other: &Plain) -> bool {
        match (self, other) {
            (Plain::Nil, Plain::Nil) => true,
            (Plain::Boolean(a), Plain::Boolean(b)) => a == b,
            (Plain::String(a), Plain::String(b)) => a == b,
            (Plain::Native(a), Plain::Native(b)) => std::ptr::eq(*a, *b),
            (Plain::Shared(a), Plain::Shared(b)) => a.address() == b.address(),
            (Plain::Island(_, a), Plain::Island(_, b)) => a == b,
            _ => match (self.number(), other.number()) {
                (Some(a), Some(b)) => Vm::raw_equals(a, b),
                _ => false,
            },
        }
    }

    /// The number, if it is one.
    pub fn number(&self) -> Option<Value> {
        match self {
            Plain::Integer(i) => Some(Value::int(*i)),
            Plain::Float(f) => Some(Value::float(*f)),
            _ => None,
        }
    }
}

/// Argument `n` as a value that every domain can have.
///
/// # Errors
/// It is none; the message says what to do. "not enough memory", if the program has reached its limit.
pub fn check(vm: &mut Vm, n: u32) -> LuaResult<Plain> {
    check_value(vm, vm.arg(n), n)
}

/// `v`, which argument `n` is or has given, as a value that every domain can have.
///
/// # Errors
/// As [`check`].
pub fn check_value(vm: &mut Vm, v: Value, n: u32) -> LuaResult<Plain> {
    match Plain::of(vm, v) {
        Some(Plain::String(s)) => {
            vm.heap().note_given(s.len());
            if program_has_room(0) { Ok(Plain::String(s)) } else { Err(vm.out_of_memory()) }
        }
        Some(p) => Ok(p),
        None => {
            let text = format!(
                "a {} belongs to one domain; only numbers, booleans, strings, shared objects and what \
                 pl.share returns may be stored here",
                v.type_name()
            );
            Err(vm.arg_error(n, &text))
        }
    }
}
