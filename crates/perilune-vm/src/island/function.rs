//! Functions in islands.
//!
//! A [`SharedFunction`] is a prototype and the captured values, or a function of the standard library that
//! each domain has its own of. It is never executed: a domain that calls one makes a closure of its own of
//! it, once, and calls that. Captured variables are constants (`copy.rs` sees to it), so the closures of two
//! domains cannot be told apart. An upvalue that held the globals of the domain that made the island holds
//! those of the domain that executes.
//!
//! # The cache
//! Closures are found by the function's address, in a small direct-mapped table in front of a hash table. The
//! closure is kept alive for as long as the island is (an entry is an ephemeron: if the function is
//! reachable, so is the closure), because its inline caches are worth keeping. Entries go with the island:
//! addresses are used again.

use crate::Vm;
use crate::native::{LuaResult, Native};
use crate::object::{LuaClosure, Upval};
use crate::value::{Gc, Tag, Value};
use perilune_heap::Header;
use perilune_syntax::Proto;
use std::collections::HashMap;
use std::ptr::null_mut;
use std::sync::Arc;

/// A function in an island.
#[repr(C)]
pub struct SharedFunction {
    pub(crate) header: Header,
    /// Kept alive by the island; null: `native` says what it is.
    pub(crate) proto: *const Proto,
    /// A native function that is found in the standard library of each domain, with upvalues of that domain.
    pub(crate) native: *const Native,
    pub(crate) num_upvalues: u32,
    pub(crate) upvals: [Value; 0],
}

/// In place of a captured value: the globals of the domain that executes.
pub(crate) const ENV: Value = Value::raw(Tag::FRAME, 0);

impl SharedFunction {
    /// Its prototype; `None` for one of the standard library.
    pub fn proto(&self) -> Option<&Proto> {
        // SAFETY: the island keeps it.
        unsafe { self.proto.as_ref() }
    }
}

impl Gc<SharedFunction> {
    /// Captured value `n`; `None` for the globals of the executing domain.
    pub(crate) fn upvalue(self, n: usize) -> Option<Value> {
        debug_assert!(n < self.num_upvalues as usize);
        // SAFETY: it has that many.
        let v = unsafe { *(&raw const (*self.ptr()).upvals as *const Value).add(n) };
        (v.tag() != Tag::FRAME).then_some(v)
    }
}

impl Value {
    /// The function in an island, if it is one.
    pub fn as_shared_function(self) -> Option<Gc<SharedFunction>> {
        if self.tag() == Tag::SHARED_FUNCTION { Some(self.gc()) } else { None }
    }

    /// The prototype of a Lua function, in an island or not.
    pub(crate) fn lua_proto<'a>(self) -> Option<&'a Proto> {
        match self.tag() {
            // SAFETY: whoever has the value keeps the function alive, which keeps the prototype.
            Tag::CLOSURE => Some(unsafe { &*self.gc::<LuaClosure>().inst().proto }),
            // SAFETY: as above.
            Tag::SHARED_FUNCTION => unsafe { self.gc::<SharedFunction>().proto.as_ref() },
            _ => None,
        }
    }
}

const FRONT: usize = 64;

/// The closures that a domain has made of functions in islands.
pub(crate) struct FunctionCache {
    /// Direct-mapped by address.
    front: [(*mut SharedFunction, Value); FRONT],
    /// Boxed: inline caches of method calls point at these, as long as no major collection has come.
    all: HashMap<*mut SharedFunction, Box<Value>, foldhash::fast::FixedState>,
    /// Made since the last collection.
    recent: Vec<Value>,
}

impl Default for FunctionCache {
    fn default() -> Self {
        FunctionCache {
            front: [(null_mut(), Value::NIL); FRONT],
            all: HashMap::default(),
            recent: Vec::new(),
        }
    }
}

impl FunctionCache {
    #[inline(always)]
    fn place(f: *mut SharedFunction) -> usize {
        (f as usize >> 4 ^ f as usize >> 10) % FRONT
    }

    /// Functions and what has been made of them, for the collector.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (Value, Value)> {
        self.all.iter().map(|(&f, v)| (Value::raw(Tag::SHARED_FUNCTION, f as u64), **v))
    }

    /// What has been made since the last collection.
    pub(crate) fn recent(&self) -> &[Value] {
        &self.recent
    }

    /// At the end of a collection: keeps the entries whose function `is_alive`, if it was a major one.
    pub(crate) fn collected(&mut self, is_alive: Option<&dyn Fn(Value) -> bool>) {
        self.recent.clear();
        if let Some(is_alive) = is_alive {
            self.all.retain(|&f, _| is_alive(Value::raw(Tag::SHARED_FUNCTION, f as u64)));
            self.front = [(null_mut(), Value::NIL); FRONT];
        }
    }
}

impl Vm {
    /// This domain's own function for `f`, a function in an island, if it is at hand.
    #[inline(always)]
    pub(crate) fn known_own_function(&self, f: *mut SharedFunction) -> Option<Value> {
        let (of, own) = self.lua.islands.functions.front[FunctionCache::place(f)];
        if of == f { Some(own) } else { None }
    }

    /// Where this domain's own function for the one at `f` is, if it is one in an island and at hand; else
    /// `f` itself.
    ///
    /// # Safety
    /// `f` points to a value.
    #[inline(always)]
    pub(crate) unsafe fn own_function_place(&self, f: *const Value) -> *const Value {
        // SAFETY: the caller's promise.
        let v = unsafe { *f };
        let (of, own) =
            &self.lua.islands.functions.front[FunctionCache::place(v.payload() as *mut SharedFunction)];
        if v.tag() == Tag::SHARED_FUNCTION && *of as u64 == v.payload() { own } else { f }
    }

    /// This domain's own function for `f`, a function in an island: a closure, or a native function of the
    /// standard library.
    ///
    /// # Errors
    /// "not enough memory"; the function is one of a standard library that this domain does not have.
    #[inline(never)]
    pub fn own_function(&mut self, f: Gc<SharedFunction>) -> LuaResult<Value> {
        if let Some(own) = self.known_own_function(f.ptr()) {
            return Ok(own);
        }
        let own = match self.lua.islands.functions.all.get(&f.ptr()) {
            Some(own) => **own,
            None => {
                let own = self.make_own_function(f)?;
                self.lua.islands.functions.all.insert(f.ptr(), Box::new(own));
                self.lua.islands.functions.recent.push(own);
                own
            }
        };
        self.lua.islands.functions.front[FunctionCache::place(f.ptr())] = (f.ptr(), own);
        Ok(own)
    }

    /// Where this domain's own function for `f` is kept until the next major collection, if it is a closure.
    pub(crate) fn lasting_own_function(&mut self, f: Gc<SharedFunction>) -> Option<*const Value> {
        if let Err(thrown) = self.own_function(f) {
            // The call that follows meets the same error.
            let _ = self.catch(thrown);
        }
        let own: &Value = self.lua.islands.functions.all.get(&f.ptr())?;
        (own.tag() == Tag::CLOSURE).then_some(own)
    }

    fn make_own_function(&mut self, f: Gc<SharedFunction>) -> LuaResult<Value> {
        if f.proto.is_null() {
            return self.find_standard_function(f.native);
        }
        // SAFETY: the island keeps the prototype; this is a count of our own.
        let proto = unsafe {
            Arc::increment_strong_count(f.proto);
            Arc::from_raw(f.proto)
        };
        let inst = self.instantiate(proto)?;
        let count = f.num_upvalues as usize;
        // SAFETY: nothing collects between the allocations; everything is written.
        unsafe {
            let cl = self.heap.alloc(Tag::CLOSURE.0, 16 + 8 * count).as_ptr() as *mut LuaClosure;
            (*cl).proto = inst;
            let upvals = &raw mut (*cl).upvals as *mut *mut Upval;
            for n in 0..count {
                let v = f.upvalue(n).unwrap_or_else(|| self.globals().into());
                *upvals.add(n) = self.new_closed_upvalue(v);
            }
            Ok(Gc::from_ptr(cl).into())
        }
    }

    /// The function of this domain's standard library that runs `native`.
    fn find_standard_function(&mut self, native: *const Native) -> LuaResult<Value> {
        let is_it = |v: Value| v.as_native_closure().is_some_and(|c| std::ptr::eq(c.native, native));
        let loaded = self.get_field(self.registry(), "_LOADED")?;
        let mut position = 0;
        while let Some((_, module)) = loaded.as_table().and_then(|t| self.next_at(t, &mut position)) {
            let Some(module) = module.as_table() else { continue };
            let mut at = 0;
            while let Some((_, v)) = self.next_at(module, &mut at) {
                if is_it(v) {
                    return Ok(v);
                }
            }
        }
        // SAFETY: natives are static.
        let name = unsafe { (*native).name };
        Err(self.error(format!(
            "a shared function needs '{name}' of the standard library, which is not loaded here"
        )))
    }
}
