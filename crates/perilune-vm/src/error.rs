//! Errors: what is known of one on its way, positions, messages with variable names.

use crate::Vm;
use crate::debug::Role;
use crate::frame::{CALL_GAP, F_NATIVE, frame};
use crate::interp::frame_closure;
use crate::meta::Event;
use crate::names::{self, Operand};
use crate::native::{LuaResult, Raised, Signal, Thrown};
use crate::num;
use crate::value::{Tag, Value};
use perilune_syntax::error::write_chunk_id;
use perilune_syntax::numeral::format_integer;
use std::borrow::Cow;

/// The name of chunks that are part of the runtime's own library.
pub const OWN_SOURCE: &[u8] = b"=perilune";

/// What a `Vm` knows of what is on its way through `Err`s, and of what has to become one. Code that runs in
/// between, and is to know nothing of that (closing methods, finalisers, another fiber, another owner of the
/// domain), runs between [`ErrorState::set_aside`] and putting back what that gave: the state moves as a
/// unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ErrorState {
    /// The value of the error; nil if there is none. A root.
    pub value: Value,
    /// The message handler of the nearest `xpcall` has seen it, or must not.
    pub handled: bool,
    /// What is on its way instead of an error. Whatever natives make of the `Err`s that they get: while this
    /// is set, none of them ends otherwise ([`Vm::call_native`]), calls Lua ([`Vm::call_at`]) or raises
    /// anything else ([`Vm::throw`]).
    pub signal: Signal,
    /// A hybrid native runs as a leaf: its calls into Lua end in [`Signal::RunAgain`].
    pub leaf: bool,
}

impl ErrorState {
    /// Nothing is on its way.
    pub const NONE: ErrorState =
        ErrorState { value: Value::NIL, handled: false, signal: Signal::None, leaf: false };

    /// The state while the native frames of a coroutine are made to return.
    pub fn discarding() -> ErrorState {
        ErrorState { signal: Signal::Discard, ..ErrorState::NONE }
    }

    /// Gives the state to whoever puts it back, and begins with nothing on its way.
    #[must_use = "it has to be put back"]
    pub fn set_aside(&mut self) -> ErrorState {
        std::mem::replace(self, ErrorState::NONE)
    }

    /// Takes the error's value.
    pub fn take_value(&mut self) -> Value {
        std::mem::replace(&mut self.value, Value::NIL)
    }

    /// Are native frames being made to return? Then no Lua code runs.
    #[inline]
    pub fn is_discarding(&self) -> bool {
        self.signal == Signal::Discard
    }
}

impl Vm {
    /// Raises `value` as an error: keeps it and returns what to return. While something that is no error is
    /// on its way, that goes on instead.
    pub fn throw(&mut self, value: Value) -> Thrown {
        if self.lua.errors.signal == Signal::None {
            self.lua.errors.value = value;
            self.lua.errors.handled = false;
        }
        self.lua.errors.signal.thrown()
    }

    /// Lets `signal` be what is on its way from now on.
    pub(crate) fn set_signal(&mut self, signal: Signal) -> Thrown {
        self.lua.errors.signal = signal;
        signal.thrown()
    }

    /// Takes the value of an error that was caught in Rust.
    pub fn take_error(&mut self, _caught: Raised) -> Value {
        self.lua.errors.take_value()
    }

    /// For natives that catch errors: the value of one. What is none is to be passed on.
    ///
    /// # Errors
    /// `thrown`, if it is no error.
    pub fn catch(&mut self, thrown: Thrown) -> LuaResult<Value> {
        match thrown {
            Thrown::Error(raised) => Ok(self.take_error(raised)),
            other => Err(other),
        }
    }

    /// For hosts, which have nobody to pass anything on to: what to tell of `thrown`.
    pub fn host_error(&mut self, thrown: Thrown) -> Value {
        match thrown {
            Thrown::Error(raised) => self.take_error(raised),
            Thrown::Cancel(_) => {
                if self.is_at_host() {
                    self.lua.errors.signal = Signal::None;
                }
                self.lua.errors.take_value()
            }
            // Whoever discards, parks or runs again gets its signal back from the `Vm`.
            Thrown::Park(_) | Thrown::RunAgain(_) | Thrown::Discard(_) => Value::NIL,
        }
    }

    /// Does no Lua code wait for the running one?
    fn is_at_host(&self) -> bool {
        // SAFETY: base is a frame of the running stack.
        self.lua.thread == self.lua.roots.base_thread && unsafe { (*frame(self.lua.base)).delta == 0 }
    }

    /// Raises `msg` without a position.
    pub fn error_plain(&mut self, msg: impl AsRef<[u8]>) -> Thrown {
        match self.new_str(msg.as_ref()) {
            Ok(s) => self.throw(s.into()),
            Err(e) => e,
        }
    }

    /// Raises `msg`, an error of an operation: with the position if Lua code is what runs, without if a
    /// native does (`luaG_runerror`).
    pub(crate) fn run_error(&mut self, msg: impl AsRef<[u8]>) -> Thrown {
        // SAFETY: base is a frame of the running stack.
        let native = unsafe { (*frame(self.lua.base)).flags & F_NATIVE != 0 };
        if native { self.error_plain(msg) } else { self.error(msg) }
    }

    /// Raises `msg` with the position of the running Lua code before it: of the running function if it is a
    /// Lua function, else of its caller (`luaG_runerror`, `luaL_error`).
    pub fn error(&mut self, msg: impl AsRef<[u8]>) -> Thrown {
        // SAFETY: base is a frame of the running stack.
        let native = unsafe { (*frame(self.lua.base)).flags & F_NATIVE != 0 };
        match self.at_position(native as u32, msg.as_ref()) {
            Some(text) => self.error_plain(text),
            None if native => self.error_plain(msg),
            // An operation of the runtime's own library in a task of its own.
            None if self.runs_own_source() => self.error_plain(msg),
            // An operation of stripped code, which has neither a source nor lines.
            None => self.error_plain([b"?:-1: ", msg.as_ref()].concat()),
        }
    }

    /// `text` with "chunk:line: " before it, of the function at `level` (0: the running one); `None` if that
    /// is no Lua function or its lines are not known (`luaL_where`), or for a caller that is the runtime's
    /// own library, which programs do not know. What an operation of that library is at fault for is where
    /// the program has called it.
    pub fn at_position(&self, level: u32, text: &[u8]) -> Option<Vec<u8>> {
        // SAFETY: walks the frames of the running stack.
        let (proto, line) = unsafe {
            let mut base = self.lua.base;
            for _ in 0..level {
                let delta = (*frame(base)).delta;
                if delta == 0 {
                    return None;
                }
                base = base.sub(delta as usize);
            }
            if (*frame(base)).flags & F_NATIVE != 0 || (*base.sub(CALL_GAP)).tag() != Tag::CLOSURE {
                return None;
            }
            if self.role_of(*base.sub(CALL_GAP)) == Role::Stub {
                return None;
            }
            let proto = (*frame_closure(base)).inst().proto();
            if *proto.source == *OWN_SOURCE {
                if level > 0 {
                    return None;
                }
                self.program_position(base)?
            } else {
                (proto, names::current_line(base)?)
            }
        };
        // A chunk's name, and a line with what is around it.
        let mut whole = Vec::with_capacity(59 + 13 + text.len());
        write_chunk_id(&proto.source, &mut whole);
        whole.push(b':');
        format_integer(line.into(), &mut whole);
        whole.extend_from_slice(b": ");
        whole.extend_from_slice(text);
        Some(whole)
    }

    /// Is the running function, a Lua function, of the runtime's own library?
    fn runs_own_source(&self) -> bool {
        // SAFETY: base is a frame of the running stack, and of a closure.
        unsafe {
            (*self.lua.base.sub(CALL_GAP)).tag() == Tag::CLOSURE
                && *(*frame_closure(self.lua.base)).inst().proto().source == *OWN_SOURCE
        }
    }

    /// The nearest function of the program that has led to this frame of the running stack, and its line.
    ///
    /// # Safety
    /// `base` is a frame of the running stack.
    unsafe fn program_position(&self, mut base: *mut Value) -> Option<(&perilune_syntax::Proto, u32)> {
        // SAFETY: walks the frames of the running stack.
        unsafe {
            loop {
                let delta = (*frame(base)).delta;
                if delta == 0 {
                    return None;
                }
                base = base.sub(delta as usize);
                let is_native = (*frame(base)).flags & F_NATIVE != 0;
                if is_native || (*base.sub(CALL_GAP)).tag() != Tag::CLOSURE {
                    continue;
                }
                let proto = (*frame_closure(base)).inst().proto();
                if *proto.source != *OWN_SOURCE {
                    return Some((proto, names::current_line(base)?));
                }
            }
        }
    }

    /// The name that messages about an operation give the type of `v`: `__name` of its metatable if that is a
    /// string and `v` is one of those that have metatables of their own, else the type's
    /// (`luaT_objtypename`).
    pub(crate) fn typename_for_message(&mut self, v: Value) -> Cow<'static, str> {
        if matches!(v.tag(), Tag::TABLE | Tag::USERDATA | Tag::SHARED)
            && let Some(s) = self.metamethod(v, Event::Name).as_string()
        {
            return s.to_text().into();
        }
        v.type_name().into()
    }

    /// " (local 'x')" and the like for the operand of the running instruction.
    fn describe(&self, operand: Operand) -> String {
        // SAFETY: base is a frame of the running stack, its pc stored.
        match unsafe { names::describe(self.lua.base, operand) } {
            Some((kind, name)) => [" (", kind, " '", &*String::from_utf8_lossy(&name), "')"].concat(),
            None => String::new(),
        }
    }

    fn type_error_message(&mut self, verb: &str, v: Value, operand: Operand) -> Thrown {
        let kind = self.typename_for_message(v);
        let name = self.describe(operand);
        self.run_error(["attempt to ", verb, " a ", &*kind, " value", &*name].concat())
    }

    /// An operand of the running instruction cannot do `verb`.
    #[cold]
    pub(crate) fn operand_error(&mut self, verb: &str, v: Value) -> Thrown {
        // SAFETY: as `describe`.
        let operand = unsafe { names::operand_of(self.lua.base, v) };
        self.type_error_message(verb, v, operand)
    }

    /// A store into a table of an island.
    #[cold]
    #[inline(never)]
    pub(crate) fn frozen_error(&mut self, t: crate::value::Gc<crate::object::Table>) -> Thrown {
        if t.is_guarded() {
            return self.global_error(None);
        }
        if !t.is_in_island() {
            return self.frozen_copy_error(t.into());
        }
        // SAFETY: as `describe`.
        let operand = unsafe { names::operand_of(self.lua.base, t.into()) };
        let name = self.describe(operand);
        self.run_error(format!("attempt to modify a shared table{name}"))
    }

    /// A store into what crossed frozen.
    fn frozen_copy_error(&mut self, v: Value) -> Thrown {
        // SAFETY: as `describe`.
        let operand = unsafe { names::operand_of(self.lua.base, v) };
        let name = self.describe(operand);
        let (whence, held) = match self.frozen_copy_text(v) {
            Some((whence, held)) => (format!(": it belongs to {whence}"), held),
            None => (String::new(), "the table".into()),
        };
        self.run_error(format!(
            "attempt to modify a frozen copy{name}{whence}. Only the domain that it came from can change it. \
             Pass {held} as an argument to get a copy to write to, and return that"
        ))
    }

    /// An assignment to a variable that crossed: upvalue `n` of `f`.
    #[cold]
    pub fn frozen_variable_error(
        &mut self,
        f: crate::value::Gc<crate::object::LuaClosure>,
        n: usize,
    ) -> Thrown {
        let proto = f.inst().proto();
        let source = perilune_syntax::error::chunk_id(&proto.source);
        let source = String::from_utf8_lossy(&source);
        let desc = proto.upvalues.get(n);
        let name = desc.and_then(|d| d.name.as_deref()).map_or("?".into(), String::from_utf8_lossy);
        let place = match desc.map_or(0, |d| d.line) {
            0 => source.into_owned(),
            line => format!("{source}:{line}"),
        };
        self.run_error(format!(
            "attempt to assign to '{name}', a frozen copy of the variable of {place}: only the domain that \
             it came from can assign it. \
             Pass its value as an argument and return the new one, or use pl.atomic"
        ))
    }

    /// Indexing something that has no `__index`.
    #[cold]
    pub(crate) fn index_error(&mut self, v: Value) -> Thrown {
        self.operand_error("index", v)
    }

    /// An arithmetic or bitwise operation without a metamethod.
    #[cold]
    pub(crate) fn arith_error(&mut self, e: Event, a: Value, b: Value) -> Thrown {
        let bitwise =
            matches!(e, Event::BAnd | Event::BOr | Event::BXor | Event::Shl | Event::Shr | Event::BNot);
        if bitwise && a.is_number() && b.is_number() {
            // One of them is a float without an integer value.
            let culprit = if num::number_to_int(a).is_none() { a } else { b };
            // SAFETY: as `describe`.
            let operand = unsafe { names::operand_of(self.lua.base, culprit) };
            let name = self.describe(operand);
            return self.run_error(format!("number{name} has no integer representation"));
        }
        let culprit = if a.is_number() { b } else { a };
        self.operand_error(
            if bitwise { "perform bitwise operation on" } else { "perform arithmetic on" },
            culprit,
        )
    }

    /// A concatenation without a metamethod; `register` is where `a` is, `b` is in the next one.
    #[cold]
    pub(crate) fn concat_error(&mut self, a: Value, b: Value, register: Option<usize>) -> Thrown {
        let second = Self::is_concatenable(a);
        let operand = register.map_or(Operand::None, |r| Operand::Register((r + second as usize) as u8));
        self.type_error_message("concatenate", if second { b } else { a }, operand)
    }

    /// An order comparison without a metamethod.
    #[cold]
    pub(crate) fn order_error(&mut self, a: Value, b: Value) -> Thrown {
        let (x, y) = (self.typename_for_message(a), self.typename_for_message(b));
        if x == y {
            self.run_error(format!("attempt to compare two {x} values"))
        } else {
            self.run_error(format!("attempt to compare {x} with {y}"))
        }
    }

    /// A call of something that is no function.
    #[cold]
    pub(crate) unsafe fn call_error(&mut self, func: *mut Value) -> Thrown {
        // SAFETY: a slot of the running stack; base is a frame.
        let (v, name) = unsafe { (*func, names::name_of_call(self.lua.base)) };
        let kind = self.typename_for_message(v);
        let name = match name {
            Some((kind, name)) => format!(" ({kind} '{}')", String::from_utf8_lossy(&name)),
            None => String::new(),
        };
        self.run_error(format!("attempt to call a {kind} value{name}"))
    }

    // -- Arguments ------------------------------------------------------------------------------------------

    /// "bad argument #i to 'name' (msg)" (`luaL_argerror`).
    #[cold]
    pub fn arg_error(&mut self, i: u32, msg: &str) -> Thrown {
        // SAFETY: base is a frame of the running stack.
        let (base, how) = unsafe { (self.lua.base, names::function_name(self.lua.base)) };
        let mut i = i;
        let name = match how {
            Some((kind, name)) => {
                let name = String::from_utf8_lossy(&name).into_owned();
                if kind == "method" {
                    // The receiver is not counted.
                    i -= 1;
                    if i == 0 {
                        return self.error(format!("calling '{name}' on bad self ({msg})"));
                    }
                }
                name
            }
            None => {
                // SAFETY: the function is below the frame record.
                let func = unsafe { *base.sub(3) };
                match self.global_function_name(func) {
                    Some(name) => String::from_utf8_lossy(&name).into_owned(),
                    None => "?".to_string(),
                }
            }
        };
        self.error(format!("bad argument #{i} to '{name}' ({msg})"))
    }

    /// "string.format" for a function found in `package.loaded`, itself or as a field of a module; a global's
    /// name stands alone.
    pub(crate) fn global_function_name(&mut self, func: Value) -> Option<Vec<u8>> {
        let loaded = self.get_field(self.registry(), "_LOADED").ok()?.as_table()?;
        let mut key = Value::NIL;
        while let Ok(Some((k, v))) = self.raw_next(loaded, key) {
            key = k;
            let Some(module) = k.as_string() else { continue };
            if v.same(func) {
                return Some(module.bytes().to_vec());
            }
            let Some(t) = v.as_table() else { continue };
            let mut field = Value::NIL;
            while let Ok(Some((name, f))) = self.raw_next(t, field) {
                field = name;
                if f.same(func)
                    && let Some(name) = name.as_string()
                {
                    let mut text = module.bytes().to_vec();
                    if text == b"_G" {
                        text.clear();
                    } else {
                        text.push(b'.');
                    }
                    text.extend_from_slice(name.bytes());
                    return Some(text);
                }
            }
        }
        None
    }

    /// "expected expected, got type" (`luaL_typeerror`).
    #[cold]
    pub fn type_error(&mut self, i: u32, expected: &str) -> Thrown {
        let v = self.arg(i);
        // Unlike messages about operations, those about arguments heed `__name` in the metatable of any type.
        let got = if let Some(name) = self.metamethod(v, Event::Name).as_string() {
            name.to_text()
        } else if self.arg_is_none(i) {
            "no value".to_string()
        } else if v.tag() == Tag::LIGHT {
            "light userdata".to_string()
        } else {
            v.type_name().to_string()
        };
        self.arg_error(i, &format!("{expected} expected, got {got}"))
    }
}
