//! `pl.inspect(value, options)`: values as text for people.
//!
//! It works in two steps. The walk (`walk.rs`) goes through the value and builds a tree of Rust strings;
//! rendering (`render.rs`) lays the tree out in lines, and knows nothing of Lua. The walk may run Lua code,
//! since `__tostring` is asked, and that code may change or drop any table. So the walk holds nothing in Rust
//! alone: the table it is in and the entries chosen from it lie on the value stack, and the tables it has
//! seen are keys of a table there, so that an address it knows is never that of another table.
//!
//! # What is shown
//! - Tables with their contents: the sequence `1..n` first, where `n` is the last index before the first nil
//!   (not `#t`, which may be any border); then the other keys: numbers by size, strings by bytes, booleans,
//!   and the rest as found.
//! - A table that is met again as `<table 1>`, and where it stood first with `<1>` before it; if it is met
//!   inside itself, as `<cycle 1>`.
//! - `__name` before the contents; what `__tostring` answers before them in `<...>`; a metatable that has
//!   neither as a last entry, `<metatable>`. `__pairs` and `__index` are not asked: this shows what is there.
//! - Strings between double quotes, so that Lua reads them back: UTF-8 as it is, other bytes as escapes.
//! - Objects of `pl` by `tostring`, arrays with their elements.
//!
//! # What is left out
//! Limits, and each says in the text that it was reached: `depth`, `items` of one table, `string` bytes of
//! one string, and `total` values of all, since the product of the first two has no bound. A line that fits
//! in `width` is one line.
//!
//! Rejected: writing it in Lua (it would depend on globals that programs replace, and be interrupted by their
//! hooks); output that is a Lua expression for all values (functions and cycles are none, and the marks that
//! replace them would have to be calls of helpers); sorting all keys (a cache of a million entries has to
//! show twenty).

mod render;
mod walk;

pub use walk::quote;

use perilune_vm::{Gc, LuaResult, Native, Table, Value, Vm};

/// How much is shown, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Columns that a line should not exceed.
    pub width: usize,
    /// Tables within tables; the outermost is at 1.
    pub depth: usize,
    /// Entries of one table, sequence and other keys each.
    pub items: usize,
    /// Bytes of one string.
    pub string: usize,
    /// Values in all.
    pub total: usize,
    /// Whether metatables are shown; `None`: those that have neither `__name` nor `__tostring`.
    pub metatables: Option<bool>,
    /// Escape sequences of terminals.
    pub colour: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            width: 80,
            depth: 8,
            items: 200,
            string: 4096,
            total: 10_000,
            metatables: None,
            colour: false,
        }
    }
}

/// The deepest that `depth` can be: the walk and the layout recur.
const MOST_DEPTH: usize = 100;

/// A piece of a text, for colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Plain,
    Number,
    String,
    /// nil, booleans.
    Constant,
    /// What stands for something that cannot be written.
    Mark,
}

/// What the walk has found.
#[derive(Debug)]
enum Node {
    /// A value on one line.
    Leaf(String, Style),
    /// A table that is shown elsewhere: its number among those seen, and whether this is inside it.
    Seen(usize, bool),
    /// A table, or an array.
    Table(Box<TableNode>),
}

#[derive(Debug, Default)]
struct TableNode {
    /// Among all tables seen.
    number: usize,
    /// What stands before the contents.
    head: String,
    /// The sequence.
    items: Vec<Node>,
    /// How many of the sequence are left out.
    more_items: usize,
    /// Keys as they are written, with their values.
    fields: Vec<(Node, Node)>,
    /// How many others there are.
    more_fields: usize,
    /// The contents are left out: too deep, or too much already.
    is_cut: bool,
}

/// `pl.inspect(value, options)`
pub static INSPECT: Native = Native::reentrant("inspect", |vm| {
    vm.check_any(1)?;
    vm.check_none_behind(2)?;
    let options = match vm.arg(2).as_table() {
        Some(table) => read_options(vm, table)?,
        None if vm.arg_is_none_or_nil(2) => Options::default(),
        None => return Err(vm.arg_error(2, &format!("table expected, got {}", vm.arg(2).type_name()))),
    };
    let value = vm.arg(1);
    let (node, shown_again) = walk::walk(vm, value, &options)?;
    let text = render::render(&node, &shown_again, &options);
    vm.ret_str(text.as_bytes())
});

const NAMES: [&str; 7] = ["width", "depth", "items", "string", "total", "metatables", "colour"];

fn read_options(vm: &mut Vm, table: Gc<Table>) -> LuaResult<Options> {
    let mut options = Options::default();
    let mut key = Value::NIL;
    while let Some((next, value)) = vm.raw_next(table, key)? {
        key = next;
        let name = key.as_string().map(|s| s.to_text());
        let name = name.as_deref().unwrap_or("");
        let at = match name {
            "width" => &mut options.width,
            "depth" => &mut options.depth,
            "items" => &mut options.items,
            "string" => &mut options.string,
            "total" => &mut options.total,
            "metatables" | "colour" => {
                if !matches!(value, v if v.same(Value::TRUE) || v.same(Value::FALSE)) {
                    return Err(vm.arg_error(2, &format!("'{name}' must be a boolean")));
                }
                let on = value.same(Value::TRUE);
                if name == "colour" {
                    options.colour = on
                } else {
                    options.metatables = Some(on)
                }
                continue;
            }
            _ => {
                // Its name is unknown, or it has none.
                crate::options::check(vm, 2, &NAMES)?;
                continue;
            }
        };
        *at = match (value.as_int(), value.as_float()) {
            (Some(n), _) if n >= 0 => n as usize,
            // As a float too big for an integer, or math.huge.
            (None, Some(n)) if n >= 0.0 => n as usize,
            _ => return Err(vm.arg_error(2, &format!("'{name}' must be a number from 0 on"))),
        };
    }
    options.depth = options.depth.min(MOST_DEPTH);
    Ok(options)
}
