//! From a Lua value to a tree of strings.

use super::{Node, Options, Style, TableNode};
use perilune_syntax::error::chunk_id;
use perilune_vm::{Gc, LuaResult, Table, Value, Vm};
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashSet};

/// Columns of what `__tostring` answers, of which only the first line is shown.
const MOST_HEAD: usize = 60;

struct Walk<'a> {
    options: &'a Options,
    /// Values shown so far.
    shown: usize,
    /// A table on the stack: numbers of the tables that have been seen.
    seen: Gc<Table>,
    tables: usize,
    /// The tables around the one that is being shown.
    around: Vec<usize>,
    /// Those that are met again.
    again: HashSet<usize>,
}

/// The tree of a value, and the numbers of the tables that it mentions more than once.
pub(super) fn walk(vm: &mut Vm, value: Value, options: &Options) -> LuaResult<(Node, HashSet<usize>)> {
    let depth = vm.stack_top() as u32;
    let seen = vm.new_table(0, 0)?;
    vm.push(seen.into());
    let mut walk = Walk { options, shown: 0, seen, tables: 0, around: Vec::new(), again: HashSet::new() };
    let node = walk.value(vm, value)?;
    vm.truncate(depth);
    Ok((node, walk.again))
}

impl Walk<'_> {
    fn value(&mut self, vm: &mut Vm, v: Value) -> LuaResult<Node> {
        self.shown += 1;
        if let Some(table) = v.as_table() {
            return self.table(vm, table);
        }
        if let Some(s) = v.as_string() {
            return Ok(Node::Leaf(quote(s.bytes(), self.options.string), Style::String));
        }
        if v.is_number() {
            return Ok(Node::Leaf(number(v), Style::Number));
        }
        if v.is_falsy() || v.same(Value::TRUE) {
            let text = if v.is_nil() { "nil" } else { if v.is_falsy() { "false" } else { "true" } };
            return Ok(Node::Leaf(text.to_owned(), Style::Constant));
        }
        if let Some(view) = v.as_shared().and_then(|shared| shared.elements()) {
            let (len, element) = (view.len(), view.element());
            let most = self.options.items.min(self.options.total.saturating_sub(self.shown)).min(len);
            let items: Vec<Node> =
                (0..most).filter_map(|i| view.get(i)).map(|v| Node::Leaf(number(v), Style::Number)).collect();
            self.shown += items.len();
            self.tables += 1;
            let more_items = len - items.len();
            let head = format!("array {} ", element.name());
            let table = TableNode { number: self.tables, head, items, more_items, ..TableNode::default() };
            return Ok(Node::Table(Box::new(table)));
        }
        if let Some(closure) = v.as_closure() {
            let proto = closure.inst().proto();
            let source = String::from_utf8_lossy(&chunk_id(&proto.source)).into_owned();
            let text = match proto.line_defined {
                0 => format!("<chunk {source}>"),
                line => format!("<function {source}:{line}>"),
            };
            return Ok(Node::Leaf(text, Style::Mark));
        }
        if let Some(native) = v.as_native() {
            return Ok(Node::Leaf(format!("<native {}>", native.name), Style::Mark));
        }
        let text = self.told(vm, v)?;
        Ok(Node::Leaf(format!("<{text}>"), Style::Mark))
    }

    /// What `tostring` answers, on one line.
    fn told(&mut self, vm: &mut Vm, v: Value) -> LuaResult<String> {
        let depth = vm.stack_top() as u32;
        let answer = vm.protected_call(Value::native(&TOSTRING), &[v])?;
        let text = match answer {
            Ok(n) if n > 0 => vm.stack_get(depth + 1).as_string().map(|s| s.to_text()),
            Ok(_) => None,
            Err(error) => {
                let message = Vm::plain_text(error).map(|m| String::from_utf8_lossy(&m).into_owned());
                Some(format!("error in __tostring: {}", message.as_deref().unwrap_or(error.type_name())))
            }
        };
        vm.truncate(depth);
        Ok(one_line(&text.unwrap_or_default()))
    }

    fn table(&mut self, vm: &mut Vm, table: Gc<Table>) -> LuaResult<Node> {
        if let Some(number) = vm.raw_get(self.seen, table.into()).as_int() {
            let number = number as usize;
            self.again.insert(number);
            return Ok(Node::Seen(number, self.around.contains(&number)));
        }
        self.tables += 1;
        let number = self.tables;
        vm.raw_set(self.seen, table.into(), Value::int(number as i64))?;
        let mut node = TableNode { number, ..TableNode::default() };
        let has_head = self.head(vm, table, &mut node)?;
        let is_empty = vm.raw_next(table, Value::NIL)?.is_none();
        if self.around.len() >= self.options.depth || self.shown > self.options.total {
            node.is_cut = !is_empty;
            return Ok(Node::Table(Box::new(node)));
        }
        self.around.push(number);
        let stack = vm.stack_top() as u32;
        vm.ensure_stack(8)?;
        self.entries(vm, table, &mut node)?;
        if self.options.metatables.unwrap_or(!has_head)
            && let Some(metatable) = vm.metatable_of(table.into())
        {
            let value = self.table(vm, metatable)?;
            node.fields.push((Node::Leaf("<metatable>".to_owned(), Style::Mark), value));
        }
        vm.truncate(stack);
        self.around.pop();
        Ok(Node::Table(Box::new(node)))
    }

    /// `__name` and `__tostring`; whether there is one.
    fn head(&mut self, vm: &mut Vm, table: Gc<Table>, node: &mut TableNode) -> LuaResult<bool> {
        let v = Value::from(table);
        if vm.metatable_of(v).is_none() {
            return Ok(false);
        }
        if vm.has_tostring(v) {
            node.head = format!("<{}> ", self.told(vm, v)?);
            return Ok(true);
        }
        if let Some(name) = vm.metafield(v, "__name")?.as_string() {
            node.head = format!("{} ", one_line(&name.to_text()));
            return Ok(true);
        }
        Ok(false)
    }

    fn entries(&mut self, vm: &mut Vm, table: Gc<Table>, node: &mut TableNode) -> LuaResult<()> {
        let mut len = 0;
        while !vm.raw_get_int(table, len + 1).is_nil() {
            len += 1;
        }
        // What is chosen lies in a table of its own before anything else runs.
        let chosen = vm.new_table(0, 0)?;
        vm.push(chosen.into());
        let items = (len as usize).min(self.options.items);
        for i in 1..=items as i64 {
            let item = vm.raw_get_int(table, i);
            vm.raw_set_int(chosen, i, item)?;
        }
        let (keys, fields) = choose(vm, table, len, self.options.items)?;
        for (n, entry) in keys.iter().enumerate() {
            let at = (items + 2 * n) as i64;
            vm.raw_set_int(chosen, at + 1, entry.key)?;
            vm.raw_set_int(chosen, at + 2, entry.value)?;
        }
        let keys = keys.len();
        for i in 1..=items as i64 {
            if self.shown > self.options.total {
                break;
            }
            let item = vm.raw_get_int(chosen, i);
            let item = self.value(vm, item)?;
            node.items.push(item);
        }
        node.more_items = len as usize - node.items.len();
        for n in 0..keys {
            if self.shown > self.options.total {
                break;
            }
            let at = (items + 2 * n) as i64;
            let (key, value) = (vm.raw_get_int(chosen, at + 1), vm.raw_get_int(chosen, at + 2));
            let key = self.key(vm, key)?;
            let value = self.value(vm, value)?;
            node.fields.push((key, value));
        }
        node.more_fields = fields - node.fields.len();
        Ok(())
    }

    /// A key as it is written in a constructor: a name, or a value in brackets, which rendering adds.
    fn key(&mut self, vm: &mut Vm, key: Value) -> LuaResult<Node> {
        match key.as_string() {
            Some(s) if is_name(s.bytes()) => Ok(Node::Leaf(s.to_text(), Style::Plain)),
            _ => self.value(vm, key),
        }
    }
}

/// An entry with the rank of its key.
struct Entry {
    rank: Rank,
    key: Value,
    value: Value,
}

/// How keys are sorted.
#[derive(Clone, Debug)]
enum Rank {
    Number(f64, i64),
    Text(Vec<u8>),
    Boolean(bool),
    /// As found.
    Other(usize),
}

impl Rank {
    fn of(key: Value, found: usize) -> Rank {
        if let Some(n) = key.as_number() {
            return Rank::Number(n, key.as_int().unwrap_or(0));
        }
        match key.as_string() {
            Some(s) => Rank::Text(s.bytes().to_vec()),
            None if key.same(Value::TRUE) || key.same(Value::FALSE) => Rank::Boolean(key.same(Value::TRUE)),
            None => Rank::Other(found),
        }
    }

    fn group(&self) -> u8 {
        match self {
            Rank::Number(..) => 0,
            Rank::Text(_) => 1,
            Rank::Boolean(_) => 2,
            Rank::Other(_) => 3,
        }
    }
}

impl Ord for Rank {
    fn cmp(&self, other: &Rank) -> Ordering {
        match (self, other) {
            // Large integers may be the same float.
            (Rank::Number(a, i), Rank::Number(b, j)) => a.total_cmp(b).then(i.cmp(j)),
            (Rank::Text(a), Rank::Text(b)) => a.cmp(b),
            (Rank::Boolean(a), Rank::Boolean(b)) => a.cmp(b),
            (Rank::Other(a), Rank::Other(b)) => a.cmp(b),
            _ => self.group().cmp(&other.group()),
        }
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Rank) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Rank {
    fn eq(&self, other: &Rank) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Rank {}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> Ordering {
        self.rank.cmp(&other.rank)
    }
}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.rank == other.rank
    }
}
impl Eq for Entry {}

/// The first `most` entries in the order of their keys, those of the sequence `1..=len` aside, and how many
/// there are. Nothing is allocated in the heap here and no Lua code runs: the table keeps all of them.
fn choose(vm: &mut Vm, table: Gc<Table>, len: i64, most: usize) -> LuaResult<(Vec<Entry>, usize)> {
    let (mut best, mut found) = (BinaryHeap::new(), 0);
    let mut key = Value::NIL;
    while let Some((next, value)) = vm.raw_next(table, key)? {
        key = next;
        if key.as_int().is_some_and(|i| (1..=len).contains(&i)) {
            continue;
        }
        found += 1;
        best.push(Entry { rank: Rank::of(key, found), key, value });
        if best.len() > most {
            best.pop();
        }
    }
    Ok((best.into_sorted_vec(), found))
}

/// `tostring`, which programs cannot replace.
static TOSTRING: perilune_vm::Native = perilune_vm::Native::reentrant("tostring", |vm| {
    let v = vm.arg(1);
    let text = vm.tostring(v)?;
    vm.ret(text)
});

fn one_line(text: &str) -> String {
    let mut line: String = text.lines().next().unwrap_or("").chars().take(MOST_HEAD).collect();
    if line.len() < text.len() {
        line.push_str("...");
    }
    line.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

fn number(v: Value) -> String {
    if let Some(i) = v.as_int() {
        return if i == i64::MIN { "math.mininteger".to_owned() } else { i.to_string() };
    }
    match v.as_float().unwrap_or(0.0) {
        f if f.is_nan() => "0/0".to_owned(),
        f if f.is_infinite() => if f > 0.0 { "math.huge" } else { "-math.huge" }.to_owned(),
        _ => Vm::plain_text(v).map(|t| String::from_utf8_lossy(&t).into_owned()).unwrap_or_default(),
    }
}

/// A string as Lua reads it back, unless it is longer than `most` bytes.
pub fn quote(bytes: &[u8], most: usize) -> String {
    use std::fmt::Write;
    let mut cut = most.min(bytes.len());
    // Not within a character.
    while cut > 0 && cut < bytes.len() && bytes[cut] & 0xc0 == 0x80 {
        cut -= 1;
    }
    let mut out = String::with_capacity(cut + 2);
    out.push('"');
    for chunk in bytes[..cut].utf8_chunks() {
        let mut chars = chunk.valid().chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                // A digit after it would be read as part of the escape.
                c if c.is_control() && (c as u32) < 128 => {
                    let _ = match chars.peek() {
                        Some(next) if next.is_ascii_digit() => write!(out, "\\{:03}", c as u32),
                        _ => write!(out, "\\{}", c as u32),
                    };
                }
                c if c.is_control() => {
                    let _ = write!(out, "\\u{{{:x}}}", c as u32);
                }
                c => out.push(c),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out.push('"');
    if cut < bytes.len() {
        let _ = write!(out, "..<{} bytes>", bytes.len());
    }
    out
}

/// Can it stand as a name in a constructor?
fn is_name(bytes: &[u8]) -> bool {
    const WORDS: [&[u8]; 22] = [
        b"and",
        b"break",
        b"do",
        b"else",
        b"elseif",
        b"end",
        b"false",
        b"for",
        b"function",
        b"goto",
        b"if",
        b"in",
        b"local",
        b"nil",
        b"not",
        b"or",
        b"repeat",
        b"return",
        b"then",
        b"true",
        b"until",
        b"while",
    ];
    let starts = bytes.first().is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_');
    starts && bytes.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_') && !WORDS.contains(&bytes)
}

#[cfg(test)]
mod tests {
    use super::quote;

    #[test]
    fn strings_are_quoted_so_that_lua_reads_them() {
        for (bytes, text) in [
            (&b"plain"[..], r#""plain""#),
            (b"a\"b\\c\n\t\r", r#""a\"b\\c\n\t\r""#),
            (b"\0\x01" as &[u8], r#""\0\1""#),
            (b"\x001", r#""\0001""#),
            ("grün €".as_bytes(), "\"grün €\""),
            (b"\xff\xc3(", r#""\xff\xc3(""#),
            ("\u{85}".as_bytes(), r#""\u{85}""#),
        ] {
            assert_eq!(quote(bytes, 100), text);
        }
        assert_eq!(quote(b"abcdef", 3), "\"abc\"..<6 bytes>");
        assert_eq!(quote("aäb".as_bytes(), 2), "\"a\"..<4 bytes>");
        assert_eq!(quote("ä".as_bytes(), 1), "\"\"..<2 bytes>");
    }
}
