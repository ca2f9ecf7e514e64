//! Upvalues and user values by number.

use crate::Vm;
use crate::object::{LuaClosure, NativeClosure, Upval, Userdata};
use crate::value::{Gc, Stores, Value};

/// Where a function keeps reference number `n` (from 0) to an upvalue.
fn reference(c: Gc<LuaClosure>, n: usize) -> Option<*mut *mut Upval> {
    // SAFETY: a closure has as many references as its prototype has upvalues.
    (n < c.inst().num_upvalues as usize)
        .then(|| unsafe { (&raw mut (*c.ptr()).upvals as *mut *mut Upval).add(n) })
}

/// Where a native function keeps its upvalue number `n` (from 0).
fn native_slot(c: Gc<NativeClosure>, n: usize) -> Option<*mut Value> {
    // SAFETY: the closure was made with that many.
    (n < c.num_upvalues as usize).then(|| unsafe { (&raw mut (*c.ptr()).upvals as *mut Value).add(n) })
}

fn index(n: i64) -> Option<usize> {
    usize::try_from(n).ok()?.checked_sub(1)
}

impl Vm {
    /// Name and value of upvalue `n` (from 1) of `f`. A native function's upvalues have empty names, those
    /// without a known name are called "(no name)". `None`: there is none such.
    pub fn upvalue_of(&self, f: Value, n: i64) -> Option<(Vec<u8>, Value)> {
        let n = index(n)?;
        if let Some(c) = f.as_closure() {
            // SAFETY: an upvalue points at a slot of a stack or at its own value.
            let v = unsafe { *(**reference(c, n)?).v };
            let name = c.inst().proto().upvalues.get(n).and_then(|u| u.name.as_ref());
            return Some((name.map_or(b"(no name)".to_vec(), |s| s.to_vec()), v));
        }
        if let Some(s) = f.as_shared_function() {
            let desc = s.proto()?.upvalues.get(n)?;
            let v = s.upvalue(n).unwrap_or_else(|| self.globals().into());
            return Some((desc.name.as_ref().map_or(b"(no name)".to_vec(), |s| s.to_vec()), v));
        }
        // SAFETY: an existing upvalue.
        Some((Vec::new(), unsafe { *native_slot(f.as_native_closure()?, n)? }))
    }

    /// Refuses an assignment to upvalue `n` (from 1) of `f`, or another variable in its place, if that has
    /// come from another domain.
    ///
    /// # Errors
    /// It has.
    pub fn check_upvalue_writable(&mut self, f: Value, n: i64) -> crate::native::LuaResult<()> {
        let Some(c) = f.as_closure() else { return Ok(()) };
        let Some(at) = index(n).filter(|&at| at < c.inst().num_upvalues as usize) else { return Ok(()) };
        // SAFETY: it exists.
        let is_frozen = reference(c, at).is_some_and(|uv| unsafe { (**uv).is_frozen() })
            || crate::parcel::is_frozen_copy(f);
        if is_frozen { Err(self.frozen_variable_error(c, at)) } else { Ok(()) }
    }

    /// Assigns to upvalue `n` (from 1) of `f`, which [`Vm::check_upvalue_writable`] has nothing against, and
    /// returns its name. `None`: there is none such, or `f` is in an island.
    pub fn set_upvalue_of(&mut self, f: Value, n: i64, v: Value) -> Option<Vec<u8>> {
        let (name, _) = self.upvalue_of(f, n)?;
        self.changed_unseen();
        let n = index(n)?;
        // SAFETY: it exists.
        unsafe {
            if let Some(c) = f.as_closure() {
                let u = *reference(c, n)?;
                self.barrier_upvalue(u);
                Value::copy((*u).v, &v);
            } else {
                let c = f.as_native_closure()?;
                self.heap.stored_into(c);
                *native_slot(c, n)? = v;
            }
        }
        Some(name)
    }

    /// A number that two upvalues share exactly if they are the same variable.
    pub fn upvalue_identity(&self, f: Value, n: i64) -> Option<usize> {
        let n = index(n)?;
        if let Some(s) = f.as_shared_function() {
            return (n < s.num_upvalues as usize).then(|| s.address() + n + 1);
        }
        match f.as_closure() {
            // SAFETY: it exists.
            Some(c) => Some(unsafe { *reference(c, n)? } as usize),
            None => native_slot(f.as_native_closure()?, n).map(|p| p as usize),
        }
    }

    /// Makes upvalue `n` of the Lua function `f` refer to the variable that is upvalue `m` of `g`. False if
    /// one of them does not exist.
    pub fn join_upvalues(&mut self, f: Gc<LuaClosure>, n: i64, g: Gc<LuaClosure>, m: i64) -> bool {
        let slot = |c, n| index(n).and_then(|n| reference(c, n));
        let (Some(to), Some(from)) = (slot(f, n), slot(g, m)) else { return false };
        self.changed_unseen();
        self.heap.stored_into(f);
        // SAFETY: both exist.
        unsafe { *to = *from };
        true
    }

    /// User value `n` (from 1) of `u`; `None` if it has none such.
    pub fn user_value(&self, u: Gc<Userdata>, n: i64) -> Option<Value> {
        let n = index(n).filter(|&n| n < u.num_user_values as usize)?;
        // SAFETY: it has that many.
        Some(unsafe { *(&raw const (*u.ptr()).user_values as *const Value).add(n) })
    }

    /// Sets user value `n` (from 1) of `u`; false if it has none such.
    pub fn set_user_value(&mut self, u: Gc<Userdata>, n: i64, v: Value) -> bool {
        let Some(n) = index(n).filter(|&n| n < u.num_user_values as usize) else { return false };
        self.heap.stored_into(u);
        // SAFETY: it has that many.
        unsafe { *(&raw mut (*u.ptr()).user_values as *mut Value).add(n) = v };
        true
    }
}
