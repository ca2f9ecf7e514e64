//! Values to text.
//!
//! A stack of open tables instead of recursion. Each table is looked at once to tell whether it is an array
//! or an object (`perilune_vm::Form`), then its entries are written in the order of `next`, or of their names
//! if that is asked for. No metamethod is called: what is written is what is in the tables.
//!
//! Cycles are found by comparing each table with those that are open. The path that errors name is put
//! together from the stack when there is an error, so it costs nothing before.
//!
//! Strings are looked at eight bytes at a time: those without anything to escape, nearly all, are copied
//! whole.

use super::options::Encoding;
use super::string::{self, Plain};
use super::{STRIDE, array_mark, is_marked, null};
use perilune_stdlib::string::scratch;
use perilune_syntax::numeral::format_integer;
use perilune_vm::{Form, Gc, LuaResult, LuaString, Native, Table, Tag, Thrown, Value, Vm};
use std::collections::HashMap;

/// `json.encode(value [, options])`
pub(super) static ENCODE: Native = Native::leaf("encode", |vm| {
    vm.check_any(1)?;
    vm.check_none_behind(2)?;
    let options = Encoding::read(vm, 2)?;
    let mark = array_mark(vm)?;
    let mut writer = Writer {
        out: scratch::take(),
        frames: Vec::new(),
        names: Vec::new(),
        met: HashMap::new(),
        next_look: STRIDE,
        mark,
        options,
    };
    let value = vm.arg(1);
    writer.value(vm, value)?;
    writer.run(vm)?;
    scratch::ret(vm, writer.out)
});

/// A table that is being written.
struct Frame {
    table: Gc<Table>,
    /// Elements, in an array.
    count: usize,
    /// Elements that have been begun, or the position of a traversal, or names that have been begun.
    position: u32,
    kind: Kind,
    /// Nothing has been written of it.
    is_fresh: bool,
    /// Where its names begin among `names`.
    names: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Array,
    Object,
    Sorted,
}

// The tables and names here are reachable from the argument, which nobody changes meanwhile.
struct Writer {
    out: Vec<u8>,
    frames: Vec<Frame>,
    /// Names of the open objects, if they are sorted.
    names: Vec<Gc<LuaString>>,
    /// Tables that have been written, with the path to each, if sharing is an error.
    met: HashMap<usize, String>,
    next_look: usize,
    mark: Gc<Table>,
    options: Encoding,
}

impl Writer {
    fn run(&mut self, vm: &mut Vm) -> LuaResult<()> {
        while let Some(frame) = self.frames.last_mut() {
            if self.out.len() >= self.next_look {
                self.next_look = self.out.len() + STRIDE;
                vm.poll_interrupt()?;
            }
            let value = match frame.kind {
                Kind::Array if (frame.position as usize) < frame.count => {
                    frame.position += 1;
                    let (v, fresh) = (vm.raw_get_int(frame.table, i64::from(frame.position)), frame.is_fresh);
                    frame.is_fresh = false;
                    self.separate(vm, fresh)?;
                    v
                }
                Kind::Array => {
                    self.close(vm, b']')?;
                    continue;
                }
                Kind::Object => match vm.next_at(frame.table, &mut frame.position) {
                    Some((name, v)) => {
                        let fresh = std::mem::take(&mut frame.is_fresh);
                        self.separate(vm, fresh)?;
                        self.name(vm, name)?;
                        v
                    }
                    None => {
                        self.close(vm, b'}')?;
                        continue;
                    }
                },
                Kind::Sorted => match self.names.get(frame.names + frame.position as usize) {
                    Some(&name) => {
                        frame.position += 1;
                        let v = vm.raw_get(frame.table, name.into());
                        let fresh = std::mem::take(&mut frame.is_fresh);
                        self.separate(vm, fresh)?;
                        self.name(vm, name.into())?;
                        v
                    }
                    None => {
                        self.close(vm, b'}')?;
                        continue;
                    }
                },
            };
            self.value(vm, value)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn reserve(&mut self, vm: &mut Vm, more: usize) -> LuaResult<()> {
        if self.out.capacity() - self.out.len() < more { self.grow(vm, more) } else { Ok(()) }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, vm: &mut Vm, more: usize) -> LuaResult<()> {
        scratch::reserve(vm, &mut self.out, more)
    }

    /// What stands before an entry.
    #[inline(always)]
    fn separate(&mut self, vm: &mut Vm, fresh: bool) -> LuaResult<()> {
        if !fresh {
            self.reserve(vm, 1)?;
            self.out.push(b',');
        }
        if self.options.indent.is_some() { self.line(vm, self.frames.len()) } else { Ok(()) }
    }

    #[inline(never)]
    fn line(&mut self, vm: &mut Vm, level: usize) -> LuaResult<()> {
        let spaces = level * self.options.indent.unwrap_or(0);
        self.reserve(vm, spaces + 1)?;
        self.out.push(b'\n');
        self.out.resize(self.out.len() + spaces, b' ');
        Ok(())
    }

    fn close(&mut self, vm: &mut Vm, bracket: u8) -> LuaResult<()> {
        if let Some(frame) = self.frames.pop() {
            self.names.truncate(frame.names);
            if self.options.indent.is_some() && !frame.is_fresh {
                self.line(vm, self.frames.len())?;
            }
        }
        self.reserve(vm, 1)?;
        self.out.push(bracket);
        Ok(())
    }

    #[inline(always)]
    fn name(&mut self, vm: &mut Vm, name: Value) -> LuaResult<()> {
        if let Some(name) = name.as_string() {
            self.string(vm, name, true)?;
        }
        self.reserve(vm, 2)?;
        self.out.push(b':');
        if self.options.indent.is_some() {
            self.out.push(b' ');
        }
        Ok(())
    }

    #[inline(always)]
    fn value(&mut self, vm: &mut Vm, value: Value) -> LuaResult<()> {
        match value.tag() {
            Tag::STRING => match value.as_string() {
                Some(s) => self.string(vm, s, false),
                None => Ok(()),
            },
            Tag::TABLE => match value.as_table() {
                Some(t) => self.open(vm, t),
                None => Ok(()),
            },
            _ => {
                self.reserve(vm, 32)?;
                match value.tag() {
                    Tag::INT => format_integer(value.as_int().unwrap_or(0), &mut self.out),
                    Tag::FLOAT => {
                        let f = value.as_float().unwrap_or(0.0);
                        if !f.is_finite() {
                            return Err(self.refuse_number(vm, f));
                        }
                        self.out.extend_from_slice(zmij::Buffer::new().format_finite(f).as_bytes());
                    }
                    Tag::TRUE => self.out.extend_from_slice(b"true"),
                    Tag::FALSE => self.out.extend_from_slice(b"false"),
                    _ if value.same(null()) => self.out.extend_from_slice(b"null"),
                    _ => return Err(self.refuse_type(vm, value)),
                }
                Ok(())
            }
        }
    }

    #[inline]
    fn string(&mut self, vm: &mut Vm, s: Gc<LuaString>, is_name: bool) -> LuaResult<()> {
        let bytes = s.bytes();
        self.reserve(vm, bytes.len() + 2)?;
        self.out.push(b'"');
        match string::plainness(bytes) {
            Plain::Yes => self.out.extend_from_slice(bytes),
            Plain::IfUtf8 if simdutf8::basic::from_utf8(bytes).is_ok() => self.out.extend_from_slice(bytes),
            _ => self.odd_string(vm, bytes, is_name)?,
        }
        self.reserve(vm, 1)?;
        self.out.push(b'"');
        Ok(())
    }

    #[inline(never)]
    fn odd_string(&mut self, vm: &mut Vm, bytes: &[u8], is_name: bool) -> LuaResult<()> {
        for chunk in bytes.utf8_chunks() {
            let valid = chunk.valid().as_bytes();
            // Escapes have six bytes at most.
            vm.ensure_room(valid.len())?;
            if string::escape(valid, &mut self.out).is_err() {
                return Err(vm.out_of_memory());
            }
            if !chunk.invalid().is_empty() {
                if !self.options.replace {
                    let at = valid.as_ptr() as usize + valid.len() - bytes.as_ptr() as usize;
                    return Err(self.refuse_string(vm, at, is_name));
                }
                self.reserve(vm, 3)?;
                self.out.extend_from_slice("\u{fffd}".as_bytes());
            }
        }
        Ok(())
    }

    fn open(&mut self, vm: &mut Vm, t: Gc<Table>) -> LuaResult<()> {
        if let Some(level) = self.frames.iter().position(|f| f.table == t) {
            let to = self.path(vm, level);
            return Err(self.refuse(vm, &format!("is {to} again: a cycle cannot be written as JSON")));
        }
        if self.frames.len() >= self.options.depth {
            let text = format!("is more than {} tables deep (option 'depth')", self.options.depth);
            return Err(self.refuse(vm, &text));
        }
        if self.options.unshared {
            self.meet(vm, t)?;
        }
        let form = vm.form(t);
        let (kind, count) = match form {
            Form::List(n) => (Kind::Array, n),
            Form::Empty if is_marked(vm, t, self.mark)? => (Kind::Array, 0),
            Form::Empty | Form::Names if self.options.sort => (Kind::Sorted, 0),
            Form::Empty => (Kind::Object, 0),
            Form::Names if is_marked(vm, t, self.mark)? => {
                return Err(self.refuse(vm, "is marked as an array and has keys that are strings"));
            }
            Form::Names => (Kind::Object, 0),
            Form::Odd(key) => return Err(self.refuse_key(vm, t, key)),
        };
        let names = self.names.len();
        if kind == Kind::Sorted {
            let mut position = 0;
            while let Some((name, _)) = vm.next_at(t, &mut position) {
                if self.names.try_reserve(1).is_err() {
                    return Err(vm.out_of_memory());
                }
                self.names.extend(name.as_string());
            }
            self.names[names..].sort_unstable_by(|a, b| a.bytes().cmp(b.bytes()));
        }
        self.reserve(vm, 1)?;
        self.out.push(if kind == Kind::Array { b'[' } else { b'{' });
        self.frames.push(Frame { table: t, count, position: 0, kind, is_fresh: true, names });
        Ok(())
    }

    /// Sharing is an error: is this the first time?
    #[cold]
    fn meet(&mut self, vm: &mut Vm, t: Gc<Table>) -> LuaResult<()> {
        let path = self.path(vm, self.frames.len());
        vm.ensure_room(path.len() + 64)?;
        if self.met.try_reserve(1).is_err() {
            return Err(vm.out_of_memory());
        }
        match self.met.insert(t.address(), path) {
            None => Ok(()),
            Some(first) => Err(self.refuse(vm, &format!("is the same table as {first}"))),
        }
    }

    /// The path to what is being written in the table that is `level` deep: `value.items[3]`.
    fn path(&self, vm: &mut Vm, level: usize) -> String {
        let mut path = String::from("value");
        for frame in &self.frames[..level] {
            match frame.kind {
                Kind::Array => path += &format!("[{}]", frame.position),
                Kind::Sorted => {
                    let at = frame.names + frame.position as usize;
                    push_name(&mut path, self.names[at - 1]);
                }
                Kind::Object => {
                    let (mut position, mut last) = (0, None);
                    while position != frame.position
                        && let Some((name, _)) = vm.next_at(frame.table, &mut position)
                    {
                        last = name.as_string();
                    }
                    if let Some(name) = last {
                        push_name(&mut path, name);
                    }
                }
            }
        }
        path
    }

    #[cold]
    fn refuse(&self, vm: &mut Vm, what: &str) -> Thrown {
        let path = self.path(vm, self.frames.len());
        vm.error(format!("json: {path} {what}"))
    }

    #[cold]
    fn refuse_number(&self, vm: &mut Vm, f: f64) -> Thrown {
        let what = if f.is_nan() { "NaN" } else { "infinite" };
        self.refuse(vm, &format!("is {what}: JSON has no such number"))
    }

    #[cold]
    fn refuse_type(&self, vm: &mut Vm, value: Value) -> Thrown {
        match value.tag() {
            Tag::NIL => self.refuse(vm, "is nil (json.null is written as null)"),
            _ => self.refuse(vm, &format!("is a {}: JSON has no such values", value.type_name())),
        }
    }

    #[cold]
    fn refuse_string(&self, vm: &mut Vm, at: usize, is_name: bool) -> Thrown {
        let what = if is_name { "has a name" } else { "is a string" };
        let text = format!(
            "{what} that is not UTF-8, from byte {} on (with bad=\"replace\" that becomes U+FFFD)",
            at + 1
        );
        self.refuse(vm, &text)
    }

    /// A table that is neither an array nor an object.
    #[cold]
    fn refuse_key(&self, vm: &mut Vm, t: Gc<Table>, key: Value) -> Thrown {
        let text = match key.as_int() {
            Some(n) if n > 0 => {
                let (mut position, mut named) = (0, false);
                while let Some((key, _)) = vm.next_at(t, &mut position) {
                    named |= key.as_string().is_some();
                }
                let missing = (1..n).find(|&i| vm.raw_get_int(t, i).is_nil());
                match missing {
                    _ if named => {
                        "has integers and strings as keys: an array has only the former, an object only the \
                         latter"
                            .into()
                    }
                    Some(missing) => format!(
                        "has the key {n} and not {missing}: arrays have no holes (json.null fills one), \
                         names of objects are strings (tostring makes one)"
                    ),
                    None => format!("has the key {n}"),
                }
            }
            Some(n) => format!("has the key {n}: names of objects are strings (tostring makes one)"),
            None => format!("has a key of type {}: names of objects are strings", key.type_name()),
        };
        self.refuse(vm, &text)
    }
}

/// Adds `.name`, or `["name"]` for what is no identifier.
fn push_name(path: &mut String, name: Gc<LuaString>) {
    let bytes = name.bytes();
    let is_word = bytes.first().is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_')
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_');
    if is_word {
        path.push('.');
        path.push_str(&name.to_text());
    } else {
        path.push_str(&format!("[{:?}]", name.to_text()));
    }
}
