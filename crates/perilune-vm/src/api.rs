//! The interface that native functions are written against: arguments, results, tables by name, userdata,
//! upvalues.

use crate::Vm;
use crate::frame::{CALL_GAP, CONT_DISCARD, F_CONT, F_NATIVE, frame};
use crate::native::{LuaResult, Native};
use crate::num;
use crate::object::{LuaString, NativeClosure, Table, Userdata};
use crate::value::{Gc, Stores, Tag, Type, Value};
use std::any::{Any, TypeId};

impl Vm {
    // -- Arguments ------------------------------------------------------------------------------------------

    /// Number of values above the base: the arguments, as long as nothing has been pushed.
    #[inline(always)]
    pub fn nargs(&self) -> u32 {
        // SAFETY: both point into the running stack.
        unsafe { self.lua.top.offset_from(self.lua.base) as u32 }
    }
    /// Argument `i` (from 1); nil if there is none.
    #[inline(always)]
    pub fn arg(&self, i: u32) -> Value {
        if self.arg_is_none(i) {
            Value::NIL
        } else {
            // SAFETY: i <= nargs.
            unsafe { *self.lua.base.add(i as usize - 1) }
        }
    }
    /// Whether the call of the running native is a statement of its own, or for another reason wants no
    /// results: what it returns is lost at once.
    pub fn results_are_discarded(&self) -> bool {
        // SAFETY: the running function has a frame below its base.
        let f = unsafe { *frame(self.lua.base) };
        if f.flags & F_CONT == 0 { f.nresults == 0 } else { f.cont == CONT_DISCARD }
    }
    /// No argument `i` was passed.
    #[inline(always)]
    pub fn arg_is_none(&self, i: u32) -> bool {
        i == 0 || i > self.nargs()
    }
    /// Argument `i` is nil or was not passed.
    #[inline]
    pub fn arg_is_none_or_nil(&self, i: u32) -> bool {
        self.arg(i).is_nil()
    }
    /// Replaces argument `i`, which must exist.
    pub fn set_arg(&mut self, i: u32, v: Value) {
        assert!(!self.arg_is_none(i), "set_arg of an argument that was not passed");
        // SAFETY: just checked.
        unsafe { *self.lua.base.add(i as usize - 1) = v };
    }
    /// The argument as an integer: integers, floats with an integral value, strings that convert to one of
    /// them.
    #[inline]
    pub fn check_int(&mut self, i: u32) -> LuaResult<i64> {
        match self.arg(i).as_integral() {
            Some(n) => Ok(n),
            None => self.check_int_slow(i),
        }
    }
    #[cold]
    fn check_int_slow(&mut self, i: u32) -> LuaResult<i64> {
        match self.arg_to_int(i) {
            Some(n) => Ok(n),
            None => Err(if Self::string_to_number(self.arg(i)).is_some() {
                self.arg_error(i, "number has no integer representation")
            } else {
                self.type_error(i, "number")
            }),
        }
    }
    /// As [`Vm::check_int`], but `None` instead of an error.
    pub fn arg_to_int(&self, i: u32) -> Option<i64> {
        num::number_to_int(Self::string_to_number(self.arg(i))?)
    }
    /// The argument as a float: numbers and strings that convert.
    #[inline]
    pub fn check_num(&mut self, i: u32) -> LuaResult<f64> {
        match self.arg(i).as_number() {
            Some(n) => Ok(n),
            None => match Self::string_to_number(self.arg(i)).and_then(Value::as_number) {
                Some(n) => Ok(n),
                None => Err(self.type_error(i, "number")),
            },
        }
    }
    /// The argument as a string: strings, and numbers, which become strings in place.
    #[inline]
    pub fn check_str(&mut self, i: u32) -> LuaResult<Gc<LuaString>> {
        let v = self.arg(i);
        match v.as_string() {
            Some(s) => Ok(s),
            None if v.is_number() => {
                let s = self.number_to_string(v)?;
                self.set_arg(i, s.into());
                Ok(s)
            }
            None => Err(self.type_error(i, "string")),
        }
    }
    /// The argument as a table.
    #[inline]
    pub fn check_table(&mut self, i: u32) -> LuaResult<Gc<Table>> {
        match self.arg(i).as_table() {
            Some(t) => Ok(t),
            None => Err(self.type_error(i, "table")),
        }
    }
    /// The argument must have this type.
    pub fn check_type(&mut self, i: u32, t: Type) -> LuaResult<()> {
        if self.arg_is_none(i) || self.arg(i).type_of() != t {
            Err(self.type_error(i, t.name()))
        } else {
            Ok(())
        }
    }
    /// The argument must have been passed.
    pub fn check_any(&mut self, i: u32) -> LuaResult<()> {
        if self.arg_is_none(i) { Err(self.arg_error(i, "value expected")) } else { Ok(()) }
    }
    /// Nothing but nil comes after argument `last`: what a function has no argument for would be without
    /// effect.
    #[inline]
    pub fn check_none_behind(&mut self, last: u32) -> LuaResult<()> {
        if self.nargs() <= last { Ok(()) } else { self.refuse_surplus(last, "") }
    }
    /// The same where there are arguments behind the last one; `remedy` is told if they are more than nil.
    #[cold]
    #[inline(never)]
    pub fn refuse_surplus(&mut self, last: u32, remedy: &str) -> LuaResult<()> {
        let Some(n) = (last + 1..=self.nargs()).find(|&n| !self.arg_is_none_or_nil(n)) else { return Ok(()) };
        let text = format!("no further argument expected, got {}{remedy}", self.arg(n).type_name());
        Err(self.arg_error(n, &text))
    }
    /// As [`Vm::check_int`]; `default` if the argument is nil or missing.
    #[inline]
    pub fn opt_int(&mut self, i: u32, default: i64) -> LuaResult<i64> {
        if self.arg_is_none_or_nil(i) { Ok(default) } else { self.check_int(i) }
    }
    /// As [`Vm::check_num`]; `default` if the argument is nil or missing.
    pub fn opt_num(&mut self, i: u32, default: f64) -> LuaResult<f64> {
        if self.arg_is_none_or_nil(i) { Ok(default) } else { self.check_num(i) }
    }
    /// As [`Vm::check_str`]; `None` if the argument is nil or missing.
    pub fn opt_str(&mut self, i: u32) -> LuaResult<Option<Gc<LuaString>>> {
        if self.arg_is_none_or_nil(i) { Ok(None) } else { self.check_str(i).map(Some) }
    }
    /// The index of the argument in `list`; `default` stands for a missing one.
    pub fn check_option(&mut self, i: u32, default: Option<&str>, list: &[&str]) -> LuaResult<usize> {
        let text = match default {
            Some(d) if self.arg_is_none_or_nil(i) => d.as_bytes().to_vec(),
            _ => self.check_str(i)?.bytes().to_vec(),
        };
        match list.iter().position(|o| o.as_bytes() == text) {
            Some(n) => Ok(n),
            None => {
                let msg = format!("invalid option '{}'", String::from_utf8_lossy(&text));
                Err(self.arg_error(i, &msg))
            }
        }
    }

    // -- Results and the stack ------------------------------------------------------------------------------

    /// Pushes a value. A native may push 20 values without asking; [`Vm::ensure_stack`] makes room for more.
    #[inline(always)]
    pub fn push(&mut self, v: Value) {
        assert!(self.lua.top <= self.lua.stack_limit, "push without ensure_stack");
        // SAFETY: some slots above the limit are always there.
        unsafe {
            *self.lua.top = v;
            self.lua.top = self.lua.top.add(1);
        }
    }
    /// Pushes a new string.
    #[inline]
    pub fn push_str(&mut self, s: &[u8]) -> LuaResult<()> {
        let s = self.new_str(s)?;
        self.push(s.into());
        Ok(())
    }
    /// Pushes one result: the usual end of a native.
    #[inline(always)]
    pub fn ret(&mut self, v: impl Into<Value>) -> LuaResult<u32> {
        self.push(v.into());
        Ok(1)
    }
    /// Pushes one string result.
    pub fn ret_str(&mut self, s: &[u8]) -> LuaResult<u32> {
        self.push_str(s)?;
        Ok(1)
    }
    /// A new string as a value.
    pub fn value_str(&mut self, s: &[u8]) -> LuaResult<Value> {
        Ok(self.new_str(s)?.into())
    }
    /// As [`Vm::value_str`], by way of [`Vm::new_text`].
    pub fn value_text(&mut self, s: &[u8]) -> LuaResult<Value> {
        Ok(self.new_text(s)?.into())
    }
    /// Makes room for `n` more values. Errors: "stack overflow".
    pub fn ensure_stack(&mut self, n: usize) -> LuaResult<()> {
        // SAFETY: top is on the running stack.
        unsafe { self.reserve(self.lua.top, n + 1).map(|_| ()) }
    }
    /// As [`Vm::ensure_stack`], but false instead of an error (and no side effect) when the stack cannot grow
    /// that much.
    pub fn check_stack(&mut self, n: usize) -> bool {
        // SAFETY: top is on the running stack.
        let used = unsafe { self.lua.top.offset_from((*self.lua.thread).stack) } as usize;
        if used.saturating_add(n).saturating_add(64) >= crate::call::MAX_STACK {
            return false;
        }
        // SAFETY: the running thread.
        let size = unsafe { (*self.lua.thread).stack_size };
        let new = crate::call::grown(size, used + n + 1);
        // How many there are is the program's decision: garbage does not make it fail.
        let has_room =
            new <= crate::call::DEEP.max(size) || self.ensure_room(new * size_of::<Value>()).is_ok();
        has_room && self.ensure_stack(n).is_ok()
    }
    /// Removes the topmost value and returns it.
    #[inline]
    pub fn pop(&mut self) -> Value {
        assert!(self.lua.top > self.lua.base, "pop of an empty frame");
        // SAFETY: not empty.
        unsafe {
            self.lua.top = self.lua.top.sub(1);
            *self.lua.top
        }
    }
    /// Number of values above the base.
    pub fn stack_top(&self) -> i32 {
        self.nargs() as i32
    }
    /// Cuts the frame to its first `n` values.
    #[inline]
    pub fn truncate(&mut self, n: u32) {
        if n < self.nargs() {
            // SAFETY: within the frame.
            self.lua.top = unsafe { self.lua.base.add(n as usize) };
        }
    }
    /// Value number `i` (from 1) of the frame: arguments first, pushed values after them.
    #[inline]
    pub fn stack_get(&self, i: u32) -> Value {
        self.arg(i)
    }
    /// Replaces value number `i` of the frame.
    pub fn stack_set(&mut self, i: u32, v: Value) {
        self.set_arg(i, v)
    }

    // -- Tables by name -------------------------------------------------------------------------------------

    /// `t[name]`, raw.
    pub fn get_field(&mut self, t: Gc<Table>, name: &str) -> LuaResult<Value> {
        let key = self.intern_bytes(name.as_bytes())?;
        Ok(self.raw_get_str(t, key))
    }
    /// `t[name] = v`, raw.
    pub fn set_field(&mut self, t: Gc<Table>, name: &str, v: Value) -> LuaResult<()> {
        let key = self.intern_bytes(name.as_bytes())?;
        self.raw_set_str(t, key, v)
    }
    /// Sets a global, raw.
    pub fn set_global(&mut self, name: &str, v: Value) -> LuaResult<()> {
        self.set_field(self.globals(), name, v)
    }
    /// Registers natives in `t` under their names.
    pub fn register(&mut self, t: Gc<Table>, natives: &[&'static Native]) -> LuaResult<()> {
        for n in natives {
            self.set_field(t, n.name, Value::native(n))?;
        }
        Ok(())
    }
    /// `package.loaded[name] = v`
    pub fn set_loaded(&mut self, name: &str, v: Value) -> LuaResult<()> {
        let loaded = self.get_field(self.registry(), "_LOADED")?;
        match loaded.as_table() {
            Some(t) => self.set_field(t, name, v),
            None => Ok(()),
        }
    }

    // -- Upvalues of natives --------------------------------------------------------------------------------

    /// A native function with upvalues.
    pub fn new_native_closure(&mut self, native: &'static Native, upvalues: &[Value]) -> LuaResult<Value> {
        let size = std::mem::offset_of!(NativeClosure, upvals) + std::mem::size_of_val(upvalues);
        let c = self.heap.alloc(Tag::NATIVE_CLOSURE.0, size).as_ptr() as *mut NativeClosure;
        // SAFETY: freshly allocated with room for the upvalues.
        unsafe {
            (*c).native = native;
            (*c).num_upvalues = upvalues.len() as u32;
            let u = &raw mut (*c).upvals as *mut Value;
            for (n, &v) in upvalues.iter().enumerate() {
                *u.add(n) = v;
            }
            Ok(Gc::from_ptr(c).into())
        }
    }
    #[inline]
    fn running_native_closure(&self) -> Option<Gc<NativeClosure>> {
        // SAFETY: base is a frame of the running stack.
        unsafe {
            debug_assert!((*frame(self.lua.base)).flags & F_NATIVE != 0);
            (*self.lua.base.sub(CALL_GAP)).as_native_closure()
        }
    }
    /// The function that runs.
    pub(crate) fn running_function(&self) -> Value {
        // SAFETY: a function lies below the base of its frame.
        unsafe { *self.lua.base.sub(CALL_GAP) }
    }
    /// Upvalue `i` (from 1) of the running native; nil if it has none such.
    #[inline]
    pub fn upvalue(&self, i: u32) -> Value {
        match self.running_native_closure() {
            // SAFETY: i is in range.
            Some(c) if i >= 1 && i <= c.num_upvalues => unsafe {
                *(&raw const (*c.ptr()).upvals as *const Value).add(i as usize - 1)
            },
            _ => Value::NIL,
        }
    }
    /// Sets upvalue `i` (from 1) of the running native.
    pub fn set_upvalue(&mut self, i: u32, v: Value) {
        if let Some(c) = self.running_native_closure()
            && i >= 1
            && i <= c.num_upvalues
        {
            self.heap.stored_into(c);
            // SAFETY: i is in range.
            unsafe { *(&raw mut (*c.ptr()).upvals as *mut Value).add(i as usize - 1) = v };
        }
    }

    /// For a hybrid native that is about to do what must not be done twice, and may call Lua afterwards: from
    /// here on it is not run again.
    ///
    /// # Errors
    /// It is to be run again, where it may call Lua.
    pub fn begin_effects(&mut self) -> LuaResult<()> {
        if self.lua.errors.leaf { Err(self.set_signal(crate::native::Signal::RunAgain)) } else { Ok(()) }
    }

    // -- Userdata -------------------------------------------------------------------------------------------

    /// A full userdata around a Rust value, which is dropped when the collector finds it dead, by whatever
    /// thread owns the domain then.
    pub fn new_userdata<T: Any + Send>(&mut self, data: T, user_values: u32) -> LuaResult<Gc<Userdata>> {
        let mut data = Box::new(data);
        let value = (&raw mut *data).cast::<()>();
        let data: Box<dyn Any + Send> = data;
        let size = std::mem::offset_of!(Userdata, user_values) + user_values as usize * size_of::<Value>();
        let u = self.heap.alloc(Tag::USERDATA.0, size).as_ptr() as *mut Userdata;
        // SAFETY: freshly allocated; every field is written.
        unsafe {
            (*u).metatable = std::ptr::null_mut();
            (*u).data = Box::into_raw(Box::new(data));
            (*u).value = value;
            (*u).type_id = TypeId::of::<T>();
            (*u).num_user_values = user_values;
            let v = &raw mut (*u).user_values as *mut Value;
            for n in 0..user_values as usize {
                *v.add(n) = Value::NIL;
            }
            self.lua.gc.userdata.push(u);
            Ok(Gc::from_ptr(u))
        }
    }
    /// A metatable registered under `name` (`luaL_newmetatable`); true if it was created by this call.
    pub fn new_metatable(&mut self, name: &str) -> LuaResult<(Gc<Table>, bool)> {
        if let Some(t) = self.metatable_named(name)? {
            return Ok((t, false));
        }
        let t = self.new_table(0, 16)?;
        self.set_field(self.registry(), name, t.into())?;
        let text = self.value_str(name.as_bytes())?;
        self.set_field(t, "__name", text)?;
        Ok((t, true))
    }
    /// The metatable registered under `name`.
    pub fn metatable_named(&mut self, name: &str) -> LuaResult<Option<Gc<Table>>> {
        Ok(self.get_field(self.registry(), name)?.as_table())
    }
    /// The Rust value behind argument `i`, which must be a userdata with the metatable registered under
    /// `type_name`.
    pub fn check_userdata<T: 'static>(&mut self, i: u32, type_name: &str) -> LuaResult<&mut T> {
        match self.arg(i).as_userdata().filter(|u| u.is::<T>()) {
            Some(u) if self.metatable_named(type_name)?.is_some_and(|mt| mt.ptr() == u.metatable) => {
                Ok(self.userdata_mut(u).expect("its type has been tested"))
            }
            _ => Err(self.type_error(i, type_name)),
        }
    }
    /// The Rust value of a userdata, if it is a `T` and has not been dropped.
    #[inline]
    pub fn userdata_mut<T: 'static>(&mut self, u: Gc<Userdata>) -> Option<&mut T> {
        // SAFETY: a `T`, as has been asked. The box lives until a collection finds the userdata dead, and none
        // comes while the `Vm` is borrowed.
        u.is::<T>().then(|| unsafe { &mut *u.value.cast::<T>() })
    }

    /// Whether finalisers are being called, during which the collector takes no orders.
    pub fn is_finalizing(&self) -> bool {
        self.lua.gc.finalizing
    }
}

impl Gc<Userdata> {
    /// Is its Rust value a `T`?
    #[inline]
    pub fn is<T: 'static>(self) -> bool {
        !self.data.is_null() && self.type_id == TypeId::of::<T>()
    }

    /// The Rust value, if it is a `T` and has not been dropped, for as long as the caller likes; see
    /// [`Vm::userdata_mut`].
    ///
    /// # Safety
    /// While the reference is in use, the userdata is reachable (an argument or upvalue of the running native
    /// is), and nobody gets the value by [`Vm::userdata_mut`].
    #[inline]
    pub unsafe fn data<'a, T: 'static>(self) -> Option<&'a T> {
        // SAFETY: a `T`, as has been asked; the caller's promise.
        self.is::<T>().then(|| unsafe { &*self.value.cast::<T>() })
    }
}
