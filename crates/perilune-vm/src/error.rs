//! Errors: positions, messages with variable names, and the token that says an error is on its way.

use crate::Vm;
use crate::frame::{F_NATIVE, frame};
use crate::interp::frame_closure;
use crate::meta::Event;
use crate::names::{self, Operand};
use crate::native::Thrown;
use crate::num;
use crate::value::{Tag, Value};
use perilune_syntax::error::chunk_id;

impl Vm {
    /// Raises `value` as an error: keeps it and returns the token to return.
    pub fn throw(&mut self, value: Value) -> Thrown {
        self.error = value;
        self.error_handled = false;
        self.parking = false;
        Thrown(())
    }

    /// Takes the value of an error that was caught in Rust.
    pub fn take_error(&mut self, _caught: Thrown) -> Value {
        std::mem::replace(&mut self.error, Value::NIL)
    }

    /// Raises `msg` without a position.
    pub fn error_plain(&mut self, msg: impl AsRef<[u8]>) -> Thrown {
        match self.new_str(msg.as_ref()) {
            Ok(s) => self.throw(s.into()),
            Err(e) => e,
        }
    }

    /// Raises `msg`, an error of an operation: with the position if Lua code is what runs, without if a native does (`luaG_runerror`).
    pub(crate) fn run_error(&mut self, msg: impl AsRef<[u8]>) -> Thrown {
        // SAFETY: base is a frame of the running stack.
        let native = unsafe { (*frame(self.base)).flags & F_NATIVE != 0 };
        if native { self.error_plain(msg) } else { self.error(msg) }
    }

    /// Raises `msg` with the position of the running Lua code before it: of the running function if it is a Lua function, else of its
    /// caller (`luaG_runerror`, `luaL_error`).
    pub fn error(&mut self, msg: impl AsRef<[u8]>) -> Thrown {
        // SAFETY: base is a frame of the running stack.
        let native = unsafe { (*frame(self.base)).flags & F_NATIVE != 0 };
        let mut text = self.where_(native as u32);
        text.extend_from_slice(msg.as_ref());
        self.error_plain(text)
    }

    /// "chunk:line: " of the function at `level` (0: the running one), or nothing if that is no Lua function (`luaL_where`).
    pub fn where_(&self, level: u32) -> Vec<u8> {
        // SAFETY: walks the frames of the running stack.
        unsafe {
            let mut base = self.base;
            for _ in 0..level {
                let delta = (*frame(base)).delta;
                if delta == 0 {
                    return Vec::new();
                }
                base = base.sub(delta as usize);
            }
            if (*frame(base)).flags & F_NATIVE != 0 || (*base.sub(3)).tag != Tag::CLOSURE {
                return Vec::new();
            }
            let inst = (*frame_closure(base)).inst();
            let proto = inst.proto();
            if std::ptr::eq(inst, (*self.call_stub).proto) {
                return Vec::new();
            }
            let mut text = chunk_id(&proto.source);
            match names::current_line(base) {
                Some(line) => text.extend_from_slice(format!(":{line}: ").as_bytes()),
                None => text.extend_from_slice(b":-1: "),
            }
            text
        }
    }

    /// The name that messages give the type of `v`: `__name` of its metatable if that is a string, else the type's.
    pub(crate) fn typename_for_message(&mut self, v: Value) -> String {
        if matches!(v.tag, Tag::TABLE | Tag::USERDATA | Tag::SHARED)
            && let Some(s) = self.metamethod(v, Event::Name).as_string()
        {
            return s.to_text();
        }
        v.type_name().to_string()
    }

    /// " (local 'x')" and the like for the operand of the running instruction.
    fn describe(&self, operand: Operand) -> String {
        // SAFETY: base is a frame of the running stack, its pc stored.
        match unsafe { names::describe(self.base, operand) } {
            Some((kind, name)) => format!(" ({kind} '{}')", String::from_utf8_lossy(&name)),
            None => String::new(),
        }
    }

    fn type_error_message(&mut self, verb: &str, v: Value, operand: Operand) -> Thrown {
        let kind = self.typename_for_message(v);
        let name = self.describe(operand);
        self.run_error(format!("attempt to {verb} a {kind} value{name}"))
    }

    /// An operand of the running instruction cannot do `verb`.
    #[cold]
    pub(crate) fn operand_error(&mut self, verb: &str, v: Value) -> Thrown {
        // SAFETY: as `describe`.
        let operand = unsafe { names::operand_of(self.base, v) };
        self.type_error_message(verb, v, operand)
    }

    /// A store into a table of an island.
    #[cold]
    #[inline(never)]
    pub(crate) fn frozen_error(&mut self, t: crate::value::Gc<crate::object::Table>) -> Thrown {
        // SAFETY: as `describe`.
        let operand = unsafe { names::operand_of(self.base, t.into()) };
        let name = self.describe(operand);
        self.run_error(format!("attempt to modify a shared table{name}"))
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
            let operand = unsafe { names::operand_of(self.base, culprit) };
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
        let (v, name) = unsafe { (*func, names::name_of_call(self.base)) };
        let kind = self.typename_for_message(v);
        let name = match name {
            Some((kind, name)) => format!(" ({kind} '{}')", String::from_utf8_lossy(&name)),
            None => String::new(),
        };
        self.run_error(format!("attempt to call a {kind} value{name}"))
    }

    // -- Arguments --------------------------------------------------------------------------------------------------------------

    /// "bad argument #i to 'name' (msg)" (`luaL_argerror`).
    #[cold]
    pub fn arg_error(&mut self, i: u32, msg: &str) -> Thrown {
        // SAFETY: base is a frame of the running stack.
        let (base, how) = unsafe { (self.base, names::function_name(self.base)) };
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

    /// "string.format" for a function found in `package.loaded`, itself or as a field of a module; a global's name stands alone.
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

    /// "expected expected, got type".
    #[cold]
    pub fn type_error(&mut self, i: u32, expected: &str) -> Thrown {
        let v = self.arg(i);
        let got = if self.arg_is_none(i) {
            "no value".to_string()
        } else if v.tag == Tag::LIGHT {
            "light userdata".to_string()
        } else {
            self.typename_for_message(v)
        };
        self.arg_error(i, &format!("{expected} expected, got {got}"))
    }
}
