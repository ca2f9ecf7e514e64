//! Tables of options: every name is known, every value is of the right kind.

use super::{DEPTH, MAX_DEPTH};
use perilune_vm::{Gc, LuaResult, Table, Value, Vm};

/// What `decode` and its relatives may be told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decoding {
    /// Most arrays and objects within each other.
    pub depth: usize,
    /// Integers beyond 64 bits become floats.
    pub big_as_float: bool,
    /// A name that an object has twice is an error; else the last one counts.
    pub unique: bool,
    /// Invalid UTF-8 and lone surrogates become U+FFFD.
    pub replace: bool,
    /// The elements of the array that is the whole text come one by one.
    pub items: bool,
}

/// What `encode` may be told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Encoding {
    /// As for [`Decoding`].
    pub depth: usize,
    /// Spaces for each level; `None`: all in one line.
    pub indent: Option<usize>,
    /// Names in the order of their bytes.
    pub sort: bool,
    /// Invalid UTF-8 becomes U+FFFD.
    pub replace: bool,
    /// A table that is met twice is an error.
    pub unshared: bool,
}

impl Default for Decoding {
    fn default() -> Self {
        Decoding { depth: DEPTH, big_as_float: false, unique: false, replace: false, items: false }
    }
}

impl Default for Encoding {
    fn default() -> Self {
        Encoding { depth: DEPTH, indent: None, sort: false, replace: false, unshared: false }
    }
}

/// An argument with options.
struct Reader {
    at: u32,
    table: Gc<Table>,
}

impl Reader {
    fn new(vm: &mut Vm, at: u32, known: &[&str]) -> LuaResult<Option<Reader>> {
        if vm.arg_is_none_or_nil(at) {
            return Ok(None);
        }
        let table = vm.check_table(at)?;
        let mut position = 0;
        while let Some((key, _)) = vm.next_at(table, &mut position) {
            let name = key.as_string().map(|s| s.to_text());
            if !name.as_deref().is_some_and(|n| known.contains(&n)) {
                let name =
                    name.map_or_else(|| format!("a key of type {}", key.type_name()), |n| format!("'{n}'"));
                let text = format!("unknown option {name} (there are: {})", known.join(", "));
                return Err(vm.arg_error(at, &text));
            }
        }
        Ok(Some(Reader { at, table }))
    }

    fn wrong(&self, vm: &mut Vm, name: &str, expected: &str) -> perilune_vm::Thrown {
        vm.arg_error(self.at, &format!("option '{name}' must be {expected}"))
    }

    fn get(&self, vm: &mut Vm, name: &str) -> LuaResult<Value> {
        vm.get_field(self.table, name)
    }

    fn flag(&self, vm: &mut Vm, name: &str) -> LuaResult<Option<bool>> {
        match self.get(vm, name)? {
            v if v.is_nil() => Ok(None),
            v if v.same(Value::TRUE) => Ok(Some(true)),
            v if v.same(Value::FALSE) => Ok(Some(false)),
            _ => Err(self.wrong(vm, name, "a boolean")),
        }
    }

    /// Which of two words it is: true for the second one.
    fn choice(&self, vm: &mut Vm, name: &str, words: [&str; 2]) -> LuaResult<bool> {
        let v = self.get(vm, name)?;
        match v.as_string().map(|s| s.bytes()) {
            _ if v.is_nil() => Ok(false),
            Some(word) if word == words[0].as_bytes() => Ok(false),
            Some(word) if word == words[1].as_bytes() => Ok(true),
            _ => Err(self.wrong(vm, name, &format!("\"{}\" or \"{}\"", words[0], words[1]))),
        }
    }

    fn count(&self, vm: &mut Vm, name: &str, least: usize, most: usize) -> LuaResult<Option<usize>> {
        match self.get(vm, name)? {
            v if v.is_nil() => Ok(None),
            v => {
                match v.as_int().and_then(|n| usize::try_from(n).ok()).filter(|n| (least..=most).contains(n))
                {
                    Some(n) => Ok(Some(n)),
                    None => Err(self.wrong(vm, name, &format!("an integer from {least} to {most}"))),
                }
            }
        }
    }
}

impl Decoding {
    /// Those of argument `at`.
    pub fn read(vm: &mut Vm, at: u32, stream: bool) -> LuaResult<Decoding> {
        let mut options = Decoding::default();
        let known = ["depth", "big_integers", "duplicates", "bad", "items"];
        let known = if stream { &known[..] } else { &known[..4] };
        let Some(reader) = Reader::new(vm, at, known)? else { return Ok(options) };
        options.depth = reader.count(vm, "depth", 1, MAX_DEPTH)?.unwrap_or(DEPTH);
        options.big_as_float = reader.choice(vm, "big_integers", ["error", "float"])?;
        options.unique = reader.choice(vm, "duplicates", ["last", "error"])?;
        options.replace = reader.choice(vm, "bad", ["error", "replace"])?;
        if stream {
            options.items = reader.flag(vm, "items")?.unwrap_or(false);
        }
        Ok(options)
    }
}

impl Encoding {
    /// Those of argument `at`.
    pub fn read(vm: &mut Vm, at: u32) -> LuaResult<Encoding> {
        let mut options = Encoding::default();
        let known = ["pretty", "indent", "sort", "depth", "bad", "sharing"];
        let Some(reader) = Reader::new(vm, at, &known)? else { return Ok(options) };
        let pretty = reader.flag(vm, "pretty")?.unwrap_or(false);
        let indent = reader.count(vm, "indent", 0, 16)?;
        options.indent = indent.or(pretty.then_some(2));
        options.sort = reader.flag(vm, "sort")?.unwrap_or(pretty);
        options.depth = reader.count(vm, "depth", 1, MAX_DEPTH)?.unwrap_or(DEPTH);
        options.replace = reader.choice(vm, "bad", ["error", "replace"])?;
        options.unshared = reader.choice(vm, "sharing", ["copy", "error"])?;
        Ok(options)
    }
}
