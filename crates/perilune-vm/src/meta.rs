//! Metatables and metamethods: events, look-ups along `__index` and `__newindex`, and the operations that may
//! end in a metamethod.
//!
//! Each operation comes twice. What handlers use stops where a function would have to be called and says so
//! ([`crate::interp::ic::Found`], [`Store`]): the handler pushes a frame. What natives use (`vm.index`,
//! `vm.arith`, ...) calls it there and then.

use crate::Vm;
use crate::interp::ic::{Found, MAX_CHAIN};
use crate::native::LuaResult;
use crate::num;
use crate::object::{LuaString, Table};
use crate::string::str_eq;
use crate::value::{Gc, Stores, Tag, Value};
use perilune_syntax::ast::BinOp;
use perilune_syntax::numeral;
use std::cmp::Ordering;

/// Events, in the order of `Vm::event_names`. The first eight can be cached as absent in a metatable's
/// `absent` byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[allow(missing_docs)]
#[rustfmt::skip]
pub enum Event {
    Index, NewIndex, Gc, Mode, Len, Eq, Pairs, Close,
    Add, Sub, Mul, Mod, Pow, Div, IDiv, BAnd, BOr, BXor, Shl, Shr, Unm, BNot, Lt, Le, Concat,
    Name, Call, ToString, Metatable,
}

/// Number of events.
pub const EVENT_COUNT: usize = 29;

impl Event {
    /// All names, by event.
    #[rustfmt::skip]
    pub const NAMES: [&'static str; EVENT_COUNT] = [
        "__index", "__newindex", "__gc", "__mode", "__len", "__eq", "__pairs", "__close", "__add", "__sub", "__mul",
        "__mod",
        "__pow", "__div", "__idiv", "__band", "__bor", "__bxor", "__shl", "__shr", "__unm", "__bnot", "__lt",
        "__le",
        "__concat", "__name", "__call", "__tostring", "__metatable",
    ];
    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
    /// The event of a binary operator.
    pub fn of(op: BinOp) -> Event {
        match op {
            BinOp::Add => Event::Add,
            BinOp::Sub => Event::Sub,
            BinOp::Mul => Event::Mul,
            BinOp::Div => Event::Div,
            BinOp::Mod => Event::Mod,
            BinOp::Pow => Event::Pow,
            BinOp::IDiv => Event::IDiv,
            BinOp::BAnd => Event::BAnd,
            BinOp::BOr => Event::BOr,
            BinOp::BXor => Event::BXor,
            BinOp::Shl => Event::Shl,
            BinOp::Shr => Event::Shr,
            BinOp::Concat => Event::Concat,
            BinOp::Eq | BinOp::Ne => Event::Eq,
            BinOp::Lt | BinOp::Gt => Event::Lt,
            BinOp::Le | BinOp::Ge => Event::Le,
        }
    }
}

/// What a store along `__newindex` came to.
pub(crate) enum Store {
    /// It is done.
    Done,
    /// This function is to be called with this receiver, the key and the value.
    Call(Value, Value),
}

/// The metamethod that decides an order.
pub(crate) struct OrderMetamethod {
    pub function: Value,
    pub operands: [Value; 2],
    /// The order holds if the result is false.
    pub negated: bool,
}

impl Vm {
    /// The metatable of any value.
    #[inline]
    pub fn metatable_of(&self, v: Value) -> Option<Gc<Table>> {
        let p = match v.tag() {
            Tag::TABLE => v.gc::<Table>().metatable,
            Tag::USERDATA => v.gc::<crate::object::Userdata>().metatable,
            Tag::SHARED => return self.known_shared_metatable(v.gc()),
            _ => self.lua.roots.type_metatables[v.type_of() as usize],
        };
        if p.is_null() {
            None
        } else {
            // SAFETY: metatables are reachable from what they belong to.
            Some(unsafe { Gc::from_ptr(p) })
        }
    }

    /// Gives a table or userdata its metatable, or a whole basic type its common one. Registers finalisers
    /// (`__gc`).
    pub fn set_metatable_of(&mut self, v: Value, mt: Option<Gc<Table>>) -> LuaResult<()> {
        let p = mt.map_or(std::ptr::null_mut(), Gc::ptr);
        match v.tag() {
            Tag::SHARED => return Err(self.error("cannot change the metatable of a shared object")),
            Tag::TABLE => {
                let t: Gc<Table> = v.gc();
                self.check_writable(t)?;
                if t.header.flags & crate::object::TABLE_IS_PROTO != 0 {
                    self.lua.proto_version = self.lua.proto_version.wrapping_add(1);
                }
                self.heap.stored_into(t);
                // SAFETY: this thread owns the heap.
                unsafe { (*t.ptr()).metatable = p };
            }
            Tag::USERDATA => {
                let u: Gc<crate::object::Userdata> = v.gc();
                self.heap.stored_into(u);
                // SAFETY: as above.
                unsafe { (*u.ptr()).metatable = p };
            }
            _ => self.lua.roots.type_metatables[v.type_of() as usize] = p,
        }
        if let Some(mt) = mt {
            // Prime the cache of absence, which the store handlers look at.
            let _ = self.table_metamethod(mt, Event::NewIndex);
            if v.is_collectable() && !self.table_metamethod(mt, Event::Gc).is_nil() {
                self.register_finalizer(v);
            }
        }
        Ok(())
    }

    /// The interned name of an event.
    #[inline(always)]
    pub(crate) fn event_name(&self, e: Event) -> Gc<LuaString> {
        self.lua.roots.event_name(e)
    }

    /// The metamethod for `e` in metatable `mt`; absence of the first eight is remembered in the table.
    #[inline]
    pub(crate) fn table_metamethod(&mut self, mt: Gc<Table>, e: Event) -> Value {
        let bit = e as u8;
        if bit < 8 && mt.absent & (1 << bit) != 0 {
            return Value::NIL;
        }
        let name = self.event_name(e);
        let v = match self.lua.caches.shared.find_own(mt.shape, name.ptr()) {
            // SAFETY: a table has a slot for each field of its shape.
            Some(slot) => unsafe { *mt.slots.add(slot as usize) },
            None => self.search_metamethod(mt, name),
        };
        if bit < 8 && v.is_nil() && !mt.is_in_island() {
            // SAFETY: this thread owns the heap.
            unsafe { (*mt.ptr()).absent |= 1 << bit };
        }
        v
    }

    /// What metatable `mt` has under this name; where tables of its shape have it is remembered.
    #[inline(never)]
    fn search_metamethod(&mut self, mt: Gc<Table>, name: Gc<LuaString>) -> Value {
        if !crate::shape::is_dict(mt.shape)
            && let Some(slot) = crate::shape::lookup(mt.shape, name)
        {
            self.lua.caches.shared.put_own(mt.shape, name, slot);
        }
        self.raw_get_str(mt, name)
    }

    /// The metamethod of `v` for `e`, or nil.
    #[inline]
    pub(crate) fn metamethod(&mut self, v: Value, e: Event) -> Value {
        match self.metatable_of(v) {
            Some(mt) => self.table_metamethod(mt, e),
            None if v.tag() == Tag::SHARED => self.first_shared_metamethod(v, e),
            None => Value::NIL,
        }
    }

    /// The metamethod of a shared object of a kind that the domain meets for the first time.
    #[cold]
    fn first_shared_metamethod(&mut self, v: Value, e: Event) -> Value {
        match self.shared_metatable(v.gc()) {
            Ok(mt) => self.table_metamethod(mt, e),
            Err(thrown) => {
                // Memory is short: the operation fails for want of a metamethod, and the next one will report
                // it.
                let _ = self.catch(thrown);
                Value::NIL
            }
        }
    }

    /// The metamethod for a binary operation: the first operand's, else the second's.
    pub(crate) fn binary_metamethod(&mut self, e: Event, a: Value, b: Value) -> Value {
        let f = self.metamethod(a, e);
        if f.is_nil() { self.metamethod(b, e) } else { f }
    }

    /// `__eq` for two values that are not raw-equal: only two tables or two userdata have one.
    pub(crate) fn eq_metamethod(&mut self, a: Value, b: Value) -> Value {
        if a.tag() == b.tag() && matches!(a.tag(), Tag::TABLE | Tag::USERDATA) && a.payload() != b.payload() {
            self.binary_metamethod(Event::Eq, a, b)
        } else {
            Value::NIL
        }
    }

    /// Follows `__index` from `obj` for `key`.
    pub(crate) fn index_lookup(&mut self, mut obj: Value, key: Value) -> LuaResult<Found> {
        for _ in 0..MAX_CHAIN {
            let f = if let Some(t) = obj.as_table() {
                let v = self.raw_get(t, key);
                if !v.is_nil() || t.metatable.is_null() {
                    return Ok(Found::Value(v));
                }
                // SAFETY: not null.
                let f = self.table_metamethod(unsafe { Gc::from_ptr(t.metatable) }, Event::Index);
                if f.is_nil() {
                    return Ok(Found::Value(Value::NIL));
                }
                f
            } else {
                if let (Some(r), Some(i)) = (obj.as_shared(), num::number_to_int(key))
                    && let Some(v) = Self::shared_element(r, i).or_else(|| self.watched_element(r, i))
                {
                    return Ok(Found::Value(v));
                }
                if let (Some(r), Some(i)) = (obj.as_shared(), num::number_to_int(key))
                    && let Some(v) = self.indexed_element(r, i)
                {
                    return v.map(Found::Value);
                }
                let f = self.metamethod(obj, Event::Index);
                if f.is_nil() {
                    return Err(self.index_error(obj));
                }
                f
            };
            if f.is_function() {
                return Ok(Found::Call(f, obj));
            }
            obj = f;
        }
        Err(self.run_error("'__index' chain too long; possible loop"))
    }

    /// Follows `__newindex` from `obj` and stores `val` where it ends.
    pub(crate) fn newindex_lookup(&mut self, mut obj: Value, key: Value, val: Value) -> LuaResult<Store> {
        for _ in 0..MAX_CHAIN {
            let f = if let Some(t) = obj.as_table() {
                let f = if t.metatable.is_null() || !self.raw_get(t, key).is_nil() {
                    Value::NIL
                } else {
                    // SAFETY: not null.
                    self.table_metamethod(unsafe { Gc::from_ptr(t.metatable) }, Event::NewIndex)
                };
                if f.is_nil() {
                    self.raw_set(t, key, val)?;
                    return Ok(Store::Done);
                }
                f
            } else {
                if let (Some(r), Some(i)) = (obj.as_shared(), num::number_to_int(key))
                    && self.set_shared_element(r, i, val)?
                {
                    return Ok(Store::Done);
                }
                let f = self.metamethod(obj, Event::NewIndex);
                if f.is_nil() {
                    return Err(self.index_error(obj));
                }
                f
            };
            if f.is_function() {
                return Ok(Store::Call(f, obj));
            }
            obj = f;
        }
        Err(self.run_error("'__newindex' chain too long; possible loop"))
    }

    // -- For natives ----------------------------------------------------------------------------------------

    /// `obj[key]`, metamethods included.
    pub fn index(&mut self, obj: Value, key: Value) -> LuaResult<Value> {
        match self.index_lookup(obj, key)? {
            Found::Value(v) => Ok(v),
            Found::Call(f, receiver) => self.call(f, &[receiver, key]),
        }
    }

    /// `obj[i]`, metamethods included.
    pub fn index_int(&mut self, obj: Value, i: i64) -> LuaResult<Value> {
        if let Some(t) = obj.as_table() {
            let v = self.raw_get_int(t, i);
            if !v.is_nil() || t.metatable.is_null() {
                return Ok(v);
            }
        }
        self.index(obj, Value::int(i))
    }

    /// `obj[key] = val`, metamethods included.
    pub fn set_index(&mut self, obj: Value, key: Value, val: Value) -> LuaResult<()> {
        match self.newindex_lookup(obj, key, val)? {
            Store::Done => Ok(()),
            Store::Call(f, receiver) => self.call_multi(f, &[receiver, key, val], 0).map(|_| ()),
        }
    }

    /// `obj[i] = val`, metamethods included.
    pub fn set_index_int(&mut self, obj: Value, i: i64, val: Value) -> LuaResult<()> {
        // Of an element that is there no metamethod is asked.
        if let Some(t) = obj.as_table()
            && (t.metatable.is_null() || self.may_store_raw(t) && !self.raw_get_int(t, i).is_nil())
        {
            return self.raw_set_int(t, i, val);
        }
        self.set_index(obj, Value::int(i), val)
    }

    /// `#v`, metamethods included.
    pub fn len(&mut self, v: Value) -> LuaResult<Value> {
        if let Some(s) = v.as_string() {
            return Ok(Value::int(s.len() as i64));
        }
        let f = self.metamethod(v, Event::Len);
        if f.is_nil() {
            return match v.as_table() {
                Some(t) => Ok(Value::int(self.raw_len(t))),
                None => Err(self.operand_error("get length of", v)),
            };
        }
        self.call(f, &[v, v])
    }

    /// `#v` as an integer. Errors: "object length is not an integer".
    pub fn len_int(&mut self, v: Value) -> LuaResult<i64> {
        let n = self.len(v)?;
        match num::number_to_int(n) {
            Some(i) => Ok(i),
            None => match n.as_string().and_then(|s| numeral::parse_number(s.bytes())) {
                Some(numeral::Number::Integer(i)) => Ok(i),
                _ => Err(self.error("object length is not an integer")),
            },
        }
    }

    /// Result of an arithmetic or bitwise operation on numbers; `None`: a metamethod has to do it (strings
    /// have some).
    pub(crate) fn arith_raw(
        &mut self,
        op: BinOp,
        event: Event,
        a: Value,
        b: Value,
    ) -> LuaResult<Option<Value>> {
        if event == Event::Unm {
            return Ok(match a.tag() {
                Tag::INT => Some(Value::int(a.int_bits().wrapping_neg())),
                Tag::FLOAT => Some(Value::float(-a.float_bits())),
                _ => None,
            });
        }
        let (x, y) = (a, b);
        if event == Event::BNot {
            return Ok(num::number_to_int(x).map(|i| Value::int(!i)));
        }
        match num::arith(op, x, y) {
            Some(Ok(v)) => Ok(Some(v)),
            Some(Err(text)) => Err(self.run_error(text)),
            None => Ok(None),
        }
    }

    /// `a op b` for two numbers, if it has a result.
    pub fn arith_numbers(op: BinOp, a: Value, b: Value) -> Option<Value> {
        num::arith(op, a, b)?.ok()
    }

    /// A number, or a string that converts to one, as a number value.
    pub fn string_to_number(v: Value) -> Option<Value> {
        if v.is_number() {
            return Some(v);
        }
        match numeral::parse_number(v.as_string()?.bytes())? {
            numeral::Number::Integer(i) => Some(Value::int(i)),
            numeral::Number::Float(f) => Some(Value::float(f)),
        }
    }

    /// `a op b`, metamethods included.
    pub fn arith(&mut self, op: BinOp, a: Value, b: Value) -> LuaResult<Value> {
        let e = Event::of(op);
        if let Some(v) = self.arith_raw(op, e, a, b)? {
            return Ok(v);
        }
        let f = self.binary_metamethod(e, a, b);
        if f.is_nil() {
            return Err(self.arith_error(e, a, b));
        }
        self.call(f, &[a, b])
    }

    /// Equality without metamethods.
    #[inline]
    pub fn raw_equals(a: Value, b: Value) -> bool {
        if a.tag() == b.tag() {
            match a.tag() {
                Tag::FLOAT => a.float_bits() == b.float_bits(),
                Tag::STRING => str_eq(a.gc(), b.gc()),
                Tag::NIL | Tag::FALSE | Tag::TRUE => true,
                Tag::SHARED => a.payload() == b.payload() || Self::same_shared(a.gc(), b.gc()),
                _ => a.payload() == b.payload(),
            }
        } else {
            a.is_number() && b.is_number() && num::equal(a, b)
        }
    }

    /// `a == b`, metamethods included.
    pub fn equals(&mut self, a: Value, b: Value) -> LuaResult<bool> {
        if Self::raw_equals(a, b) {
            return Ok(true);
        }
        let f = self.eq_metamethod(a, b);
        if f.is_nil() {
            return Ok(false);
        }
        Ok(self.call(f, &[a, b])?.is_truthy())
    }

    /// What decides `a < b`, or `a <= b`, for which `not (b < a)` will do where there is no `__le`, as in the
    /// reference as it is usually built.
    ///
    /// # Errors
    /// Nothing does.
    pub(crate) fn order_metamethod(
        &mut self,
        a: Value,
        b: Value,
        or_equal: bool,
    ) -> LuaResult<OrderMetamethod> {
        let function = self.binary_metamethod(if or_equal { Event::Le } else { Event::Lt }, a, b);
        if !function.is_nil() {
            return Ok(OrderMetamethod { function, operands: [a, b], negated: false });
        }
        let function = if or_equal { self.binary_metamethod(Event::Lt, b, a) } else { Value::NIL };
        if function.is_nil() {
            return Err(self.order_error(a, b));
        }
        Ok(OrderMetamethod { function, operands: [b, a], negated: true })
    }

    fn order(&mut self, a: Value, b: Value, or_equal: bool) -> LuaResult<bool> {
        let ordering = if a.is_number() && b.is_number() {
            num::compare(a, b)
        } else if let (Some(x), Some(y)) = (a.as_string(), b.as_string()) {
            Some(x.bytes().cmp(y.bytes()))
        } else {
            let found = self.order_metamethod(a, b, or_equal)?;
            return Ok(self.call(found.function, &found.operands)?.is_truthy() != found.negated);
        };
        Ok(ordering == Some(Ordering::Less) || or_equal && ordering == Some(Ordering::Equal))
    }

    /// `a < b`, metamethods included.
    pub fn less_than(&mut self, a: Value, b: Value) -> LuaResult<bool> {
        self.order(a, b, false)
    }

    /// `a <= b`, metamethods included.
    pub fn less_equal(&mut self, a: Value, b: Value) -> LuaResult<bool> {
        self.order(a, b, true)
    }

    /// Field `name` of the metatable of `v` (raw), or nil.
    pub fn metafield(&mut self, v: Value, name: &str) -> LuaResult<Value> {
        match self.metatable_of(v) {
            Some(mt) => self.get_field(mt, name),
            None => Ok(Value::NIL),
        }
    }

    /// What `getmetatable` gives for `v` (manual 6.1): its metatable, or the field `__metatable` of that; nil
    /// if it has none.
    #[inline]
    pub fn shown_metatable(&mut self, v: Value) -> Value {
        let Some(metatable) = self.metatable_of(v) else { return Value::NIL };
        let shown = self.metamethod(v, Event::Metatable);
        if shown.is_nil() { metatable.into() } else { shown }
    }

    /// `__pairs` of `v` (manual 6.1), or nil.
    #[inline]
    pub fn pairs_metamethod(&mut self, v: Value) -> Value {
        self.metamethod(v, Event::Pairs)
    }

    /// Does [`Vm::tostring`] call a metamethod for `v`?
    #[inline]
    pub fn has_tostring(&mut self, v: Value) -> bool {
        !self.metamethod(v, Event::ToString).is_nil()
    }

    /// What `tostring` gives (`luaL_tolstring`): `__tostring`, `__name`, and the usual forms.
    pub fn tostring(&mut self, v: Value) -> LuaResult<Gc<LuaString>> {
        let f = self.metamethod(v, Event::ToString);
        if !f.is_nil() {
            let r = self.call(f, &[v])?;
            return match r.tag() {
                Tag::STRING => Ok(r.gc()),
                Tag::INT | Tag::FLOAT => self.number_to_string(r),
                _ => Err(self.error("'__tostring' must return a string")),
            };
        }
        match v.tag() {
            Tag::STRING => Ok(v.gc()),
            Tag::INT | Tag::FLOAT => self.number_to_string(v),
            Tag::NIL => self.new_str(b"nil"),
            Tag::TRUE => self.new_str(b"true"),
            Tag::FALSE => self.new_str(b"false"),
            _ => {
                let name = self.metamethod(v, Event::Name);
                let kind = match name.as_string() {
                    Some(s) => s.to_text(),
                    None => v.type_name().to_string(),
                };
                self.new_str(format!("{kind}: {:#x}", v.address().unwrap_or(0)).as_bytes())
            }
        }
    }

    /// A number's text (manual 3.4.3).
    pub(crate) fn number_to_string(&mut self, v: Value) -> LuaResult<Gc<LuaString>> {
        self.new_str(Self::number_text(v, &mut [0; 80]))
    }

    /// A number's text, in a buffer.
    #[inline]
    pub fn number_text(v: Value, buffer: &mut numeral::decimal::Buffer) -> &[u8] {
        match v.tag() {
            Tag::INT => match buffer.first_chunk_mut() {
                Some(buffer) => numeral::integer_text(v.int_bits(), buffer),
                None => &[],
            },
            _ => numeral::float_text(v.float_bits(), buffer),
        }
    }

    /// A string's bytes or a number's text, whatever metamethods they have (`lua_tolstring`); `None` for
    /// other values.
    pub fn plain_text(v: Value) -> Option<Vec<u8>> {
        match v.tag() {
            Tag::STRING => Some(v.gc::<LuaString>().bytes().to_vec()),
            Tag::INT | Tag::FLOAT => {
                let mut text = Vec::new();
                Self::write_number(v, &mut text);
                Some(text)
            }
            _ => None,
        }
    }

    /// Appends a number's text.
    pub fn write_number(v: Value, out: &mut Vec<u8>) {
        match v.tag() {
            Tag::INT => numeral::format_integer(v.int_bits(), out),
            _ => numeral::format_float(v.float_bits(), out),
        }
    }

    // -- Concatenation --------------------------------------------------------------------------------------

    /// Strings and numbers concatenate without a metamethod.
    #[inline(always)]
    pub(crate) fn is_concatenable(v: Value) -> bool {
        matches!(v.tag(), Tag::STRING | Tag::INT | Tag::FLOAT)
    }

    /// Replaces the first of `n` values at `at` by their concatenation if all are strings or numbers and
    /// memory allows.
    #[inline(never)]
    pub(crate) unsafe fn concat_in_place(&mut self, at: *mut Value, n: usize) -> bool {
        // SAFETY: n registers of the running frame.
        unsafe {
            for j in 0..n {
                if !Self::is_concatenable(*at.add(j)) {
                    return false;
                }
            }
            match self.concat_strings(at, n) {
                Ok(v) => {
                    *at = v;
                    true
                }
                Err(_) => false,
            }
        }
    }

    /// The concatenation of `n` strings or numbers.
    pub(crate) unsafe fn concat_strings(&mut self, at: *mut Value, n: usize) -> LuaResult<Value> {
        const SHORT: usize = crate::string::SHORT_TEXT;
        // SAFETY: n slots of the running stack, all strings or numbers; of the buffer only what has been
        // written is read.
        unsafe {
            // A short text is put together here, because it may be there already.
            let mut room = [std::mem::MaybeUninit::<u8>::uninit(); SHORT];
            let text = room.as_mut_ptr().cast::<u8>();
            let mut used = 0usize;
            let (mut parts, mut last) = (0, at);
            for j in 0..n {
                let v = at.add(j);
                let mut digits = [0u8; 20];
                let part: &[u8] = match (*v).tag() {
                    Tag::STRING => (*v).gc::<LuaString>().bytes(),
                    Tag::INT => numeral::integer_text((*v).int_bits(), &mut digits),
                    _ => return self.concat_long(at, n),
                };
                if used + part.len() > SHORT {
                    return self.concat_long(at, n);
                }
                if !part.is_empty() {
                    (parts, last) = (parts + 1, v);
                }
                crate::string::copy_short(part.as_ptr(), text.add(used), part.len());
                used += part.len();
            }
            // A string with nothing added is itself.
            if parts <= 1 && (*last).tag() == Tag::STRING {
                return Ok(*last);
            }
            Ok(self.new_text(std::slice::from_raw_parts(text, used))?.into())
        }
    }

    /// As [`Vm::concat_strings`], whatever the length.
    unsafe fn concat_long(&mut self, at: *mut Value, n: usize) -> LuaResult<Value> {
        // SAFETY: n slots of the running stack, all strings or numbers.
        unsafe {
            let mut numbers = [0u8; 256];
            let mut used = 0usize;
            let mut total = 0usize;
            let mut text = Vec::new();
            for j in 0..n {
                let v = *at.add(j);
                if v.tag() == Tag::STRING {
                    total += v.gc::<LuaString>().len();
                } else {
                    text.clear();
                    Self::write_number(v, &mut text);
                    total += text.len();
                    if used + 1 + text.len() <= numbers.len() && text.len() < 255 {
                        numbers[used] = text.len() as u8;
                        numbers[used + 1..used + 1 + text.len()].copy_from_slice(&text);
                        used += 1 + text.len();
                    } else {
                        let s = self.new_str(&text)?;
                        *at.add(j) = s.into();
                    }
                }
            }
            // A string with nothing added is itself.
            for j in 0..n {
                let v = *at.add(j);
                if v.tag() == Tag::STRING && v.gc::<LuaString>().len() == total {
                    return Ok(v);
                }
            }
            let s = self.alloc_str_uninit(total)?;
            let mut out = (s.ptr() as *mut u8).add(crate::object::STRING_DATA);
            let mut read = 0usize;
            for j in 0..n {
                let v = *at.add(j);
                let bytes: &[u8] = if v.tag() == Tag::STRING {
                    v.gc::<LuaString>().bytes()
                } else {
                    let len = numbers[read] as usize;
                    read += 1 + len;
                    &numbers[read - len..read]
                };
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), out, bytes.len());
                out = out.add(bytes.len());
            }
            Ok(s.into())
        }
    }

    /// `a .. b`, metamethods included.
    pub fn concat2(&mut self, a: Value, b: Value) -> LuaResult<Value> {
        if Self::is_concatenable(a) && Self::is_concatenable(b) {
            let mut pair = [a, b];
            // SAFETY: two values in an array.
            return unsafe { self.concat_strings(pair.as_mut_ptr(), 2) };
        }
        let f = self.binary_metamethod(Event::Concat, a, b);
        if f.is_nil() {
            return Err(self.concat_error(a, b, None));
        }
        self.call(f, &[a, b])
    }
}
