//! Arrays of records that all domains see: `pl.array({x = "f64", y = "f64", id = "i32"}, n)`.
//!
//! # The design
//! Each field is a *column*: an array of its own, `a.x`, with all that arrays have. So what is done often is
//! done on arrays: `local x, dx = a.x, a.dx`, and then `x[i] = x[i] + dx[i]` in the loop, at the speed of two
//! arrays, on any number of domains, and found by the search for races like any access to an array. Columns
//! are also what a processor wants: a loop over one field reads that field's memory and nothing else.
//!
//! `a[i]` is a *row*: a name for a place, not a copy. `a[i].x` reads the column, `a[i].x = v` writes it, so
//! that code which handles one record reads as it would with tables. `a[i].x` in one expression makes no row:
//! the interpreter asks for the field at once (`Indexed::element_field`). A row that is kept
//! (`local p = a[i]`) or written through is a small userdata of the domain. `a:get(i)` is a copy, as a table;
//! `a:set(i, t)` and `a[i] = t` copy a table in.
//!
//! What it costs, as multiples of `x[i]` with `x` in a local (measured: 3 to 4 ns): `a[i].x` five, `a.x[i]`
//! fifteen, `a[i].x = v` forty, nearly all of it the row.
//!
//! # No surprises
//! * A row never moves to another domain: there it would be a name for shared memory that looks like a value
//!   of one's own. The array and the number go instead.
//! * A row is no value to be stored: `a[i], a[j] = a[j], a[i]` would read the second one after the first was
//!   overwritten, so it is refused, and `a:get` named.
//! * `a[i] = t` wants all fields, since an assignment that leaves half of the old value is none;
//!   `a:set(i, t)` takes those that are given. Neither takes a field that is not there.
//! * Each field is read and written without tearing, a record is not: who needs that two fields agree lets
//!   one domain own the record, or a lane.
//! * Fields may not have names of methods, because one of the two would be hidden.
//!
//! *Rejected.* Records side by side in memory (each access would multiply by a size and add an offset, and a
//! column could not be handed out as an array). Rows as values without an object (a value is 16 bytes, an
//! array's address and an index are more). `a[i]` as a copy (`a[i].x = v` would change nothing, silently).
//! One row per array that is moved along (`local p, q = a[1], a[2]` would be one). `a:get(i, "x")` (it says
//! what `a.x[i]` says, at ten times the cost).

use super::array::{self, Array, Extent, PAIRS, Stored, stored};
use super::strings::Strings;
use super::{fill, meant};
use crate::surplus::ANY;
use perilune_vm::shared::{Indexed, SharedArc, SharedKind, SharedObject, downcast_arc};
use perilune_vm::{Gc, LuaResult, LuaString, Native, Table, Value, Vm};
use std::sync::Arc;

/// The kind of arrays of records.
pub static RECORDS: SharedKind = SharedKind::new("array", open);

const METHODS: [&Native; 6] = [&COLUMN, &FIELDS, &GET, &SET, &TOTABLE, &KIND];

/// An array of records.
pub struct Records {
    /// In the order of their names.
    columns: Box<[(Box<str>, Column)]>,
    len: usize,
}

/// The values of one field.
enum Column {
    Numbers(Arc<Array>),
    Strings(Arc<Strings>),
}

impl Column {
    fn get(&self, vm: &mut Vm, at: usize) -> LuaResult<Value> {
        match self {
            Column::Numbers(a) => Ok(a.get(vm, at)),
            Column::Strings(a) => a.get(vm, None, at),
        }
    }

    fn set(&self, vm: &mut Vm, at: usize, v: Value) -> LuaResult<()> {
        match self {
            Column::Numbers(a) => a.set(vm, at, v),
            Column::Strings(a) => a.set(vm, None, at, v),
        }
    }

    fn object(&self) -> SharedArc {
        match self {
            Column::Numbers(a) => SharedArc::from(Arc::clone(a)),
            Column::Strings(a) => SharedArc::from(Arc::clone(a)),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Column::Numbers(a) => a.view().element().name(),
            Column::Strings(_) => "string",
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Column::Numbers(a) => a.bytes(),
            Column::Strings(a) => a.bytes(),
        }
    }
}

impl Records {
    fn column(&self, name: &[u8]) -> Option<&Column> {
        self.columns.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, column)| column)
    }

    /// The error that there is no such field.
    fn unknown(&self, vm: &mut Vm, name: Value) -> perilune_vm::Thrown {
        let names: Vec<String> = self.columns.iter().map(|(name, _)| name.to_string()).collect();
        match name.as_string() {
            Some(name) => {
                let name = name.to_text();
                let meant = meant(&name, &names, "");
                vm.error(format!("these records have no field '{name}'{meant}"))
            }
            None => vm.error(format!("a field of a record has a string as name, not a {}", name.type_name())),
        }
    }

    /// Stores the fields of a table; `all`: it must have each.
    fn store(&self, vm: &mut Vm, at: usize, t: Gc<Table>, all: bool) -> LuaResult<()> {
        let mut key = Value::NIL;
        while let Some((k, _)) = vm.raw_next(t, key)? {
            if k.as_string().is_none_or(|k| self.column(k.bytes()).is_none()) {
                return Err(self.unknown(vm, k));
            }
            key = k;
        }
        let mut values = Vec::with_capacity(self.columns.len());
        for (name, _) in &self.columns {
            let v = vm.get_field(t, name)?;
            if v.is_nil() && all {
                let text = format!(
                    "the record lacks the field '{name}'; a:set(i, t) stores only those that are given"
                );
                return Err(vm.error(text));
            }
            values.push(v);
        }
        for ((_, column), v) in self.columns.iter().zip(values) {
            if !v.is_nil() {
                column.set(vm, at, v)?;
            }
        }
        Ok(())
    }

    /// A record as a table, which stays on the stack.
    fn push_table(&self, vm: &mut Vm, at: usize) -> LuaResult<Gc<Table>> {
        let t = vm.new_table(0, self.columns.len())?;
        vm.push(t.into());
        for (name, column) in &self.columns {
            let v = column.get(vm, at)?;
            vm.set_field(t, name, v)?;
        }
        Ok(t)
    }
}

impl SharedObject for Records {
    fn kind(&self) -> &'static SharedKind {
        &RECORDS
    }
    fn indexed(&self) -> Option<&dyn Indexed> {
        Some(self)
    }
    fn external_bytes(&self) -> usize {
        self.columns.iter().map(|(_, column)| column.bytes()).sum()
    }
    fn label(&self) -> Option<String> {
        let fields: Vec<String> =
            self.columns.iter().map(|(name, column)| format!("{name}={}", column.kind())).collect();
        Some(format!("{{{}}}[{}]", fields.join(", "), self.len))
    }
}

impl Indexed for Records {
    fn count(&self) -> usize {
        self.len
    }
    fn element(&self, vm: &mut Vm, this: Value, at: usize) -> LuaResult<Value> {
        let Some(Ok(records)) = this.as_shared().map(|r| downcast_arc(r.object().clone())) else {
            return Err(vm.error("these records are gone"));
        };
        let row = vm.new_userdata(Row { records, at }, 0)?;
        vm.push(row.into());
        let mt = row_metatable(vm)?;
        vm.set_metatable_of(row.into(), Some(mt))?;
        vm.pop();
        Ok(row.into())
    }
    fn set_element(&self, vm: &mut Vm, _: Value, at: usize, v: Value) -> LuaResult<()> {
        match v.as_table() {
            Some(t) => self.store(vm, at, t, true),
            None => {
                let (i, found) = (at + 1, v.type_name());
                let remedy = if v.as_userdata().is_some_and(|u| u.is::<Row>()) {
                    "a row is a place, not a copy: a:get(j) gives one"
                } else {
                    "expected is a table with its fields"
                };
                Err(vm.error(format!("record {i} cannot be set to a {found}; {remedy}")))
            }
        }
    }
    fn element_field(&self, vm: &mut Vm, at: usize, name: Gc<LuaString>) -> Option<LuaResult<Value>> {
        self.column(name.bytes()).map(|column| column.get(vm, at))
    }
    fn describe(&self) -> String {
        format!("array of {} records", self.len)
    }
}

/// `pl.array(fields, n)`, `pl.array(fields, rows, columns)`, `pl.array(fields, list)`
pub(super) fn new(vm: &mut Vm, fields: Gc<Table>) -> LuaResult<u32> {
    let extent = Extent::check(vm, true)?;
    let mut kinds: Vec<(String, Stored)> = Vec::new();
    let mut key = Value::NIL;
    while let Some((k, v)) = vm.raw_next(fields, key)? {
        let Some(name) = k.as_string().map(|k| k.to_text()) else {
            let text = format!("the fields of records are named by strings, not by a {}", k.type_name());
            return Err(vm.arg_error(1, &text));
        };
        if METHODS.iter().any(|method| method.name == name) {
            let text = format!("a field must not be called '{name}': that is a method of such arrays");
            return Err(vm.arg_error(1, &text));
        }
        kinds.push((name, stored(vm, 1, v)?));
        key = k;
    }
    if kinds.is_empty() {
        return Err(vm.arg_error(1, "records must have a field"));
    }
    kinds.sort_by(|a, b| a.0.cmp(&b.0));
    let Some(len) = extent.len() else { return Err(vm.out_of_memory()) };
    let mut columns = Vec::new();
    for (name, kind) in kinds {
        let column = match kind {
            Stored::Numbers(element) => {
                Column::Numbers(Arc::new(array::make(vm, element, &extent)?.as_part()))
            }
            Stored::Strings => {
                let strings = Strings::new(vm, len).ok_or_else(|| vm.out_of_memory())?;
                Column::Strings(Arc::new(strings.as_part()))
            }
        };
        columns.push((name.into_boxed_str(), column));
    }
    let records = Arc::new(Records { columns: columns.into_boxed_slice(), len });
    if let Extent::List(list, len) = extent {
        for at in 0..len {
            let v = vm.raw_get_int(list, at as i64 + 1);
            let Some(t) = v.as_table() else {
                let text = format!(
                    "element {} of the list is no table with fields (a {} value)",
                    at + 1,
                    v.type_name()
                );
                return Err(vm.arg_error(2, &text));
            };
            records.store(vm, at, t, true)?;
        }
    }
    let r = vm.shared_ref(records);
    vm.ret(r)
}

fn open(vm: &mut Vm, mt: Gc<Table>) -> LuaResult<()> {
    let events = [("__len", &LEN), ("__pairs", &PAIRS), ("__newindex", &NEW_INDEX)];
    fill(vm, mt, &METHODS, &events)?;
    // Columns are the array's own, methods the kind's.
    let methods = vm.get_field(mt, "__index")?;
    let index = vm.new_native_closure(&INDEX, &[methods])?;
    vm.set_field(mt, "__index", index)
}

fn this<'a>(vm: &mut Vm, last: u32) -> LuaResult<&'a Records> {
    let object = vm.check_shared(1, &RECORDS)?;
    vm.check_none_behind(last)?;
    Ok(object)
}

/// `a.name`: a column or a method (upvalue: the methods).
static INDEX: Native = Native::leaf("index", |vm| {
    let a = this(vm, ANY)?;
    let key = vm.arg(2);
    if key.is_number() {
        return vm.ret(Value::NIL);
    }
    let Some(name) = key.as_string() else { return Err(a.unknown(vm, key)) };
    if let Some(column) = a.column(name.bytes()) {
        let r = vm.shared_ref(column.object());
        return vm.ret(r);
    }
    let methods = vm.upvalue(1);
    let method = vm.index(methods, key)?;
    if method.is_nil() {
        return Err(a.unknown(vm, key));
    }
    vm.ret(method)
});

static NEW_INDEX: Native = Native::leaf("newindex", |vm| {
    let a = this(vm, ANY)?;
    let key = vm.arg(2);
    match key.as_string().map(|k| k.to_text()) {
        Some(name) if a.column(name.as_bytes()).is_some() => {
            Err(vm.error(format!("field '{name}' is an array: write a.{name}[i] = v, or a[i].{name} = v")))
        }
        Some(_) => Err(a.unknown(vm, key)),
        None => Err(vm.error(format!(
            "the records are 1 to {}, and a {} is none of these",
            a.len,
            key.type_name()
        ))),
    }
});

static LEN: Native = Native::leaf("len", |vm| {
    let len = this(vm, ANY)?.len as i64;
    vm.ret(len)
});

static KIND: Native = Native::leaf("kind", |vm| {
    this(vm, 1)?;
    vm.ret_str(b"record")
});

/// Argument 2 as an index, counted from 0.
fn index(vm: &mut Vm, a: &Records) -> LuaResult<usize> {
    let i = vm.check_int(2)?;
    if i < 1 || i as usize > a.len {
        let text = format!("index {i} is out of range (array of {} records)", a.len);
        return Err(vm.arg_error(2, &text));
    }
    Ok(i as usize - 1)
}

/// `a:column(name)`: what `a.name` is.
static COLUMN: Native = Native::leaf("column", |vm| {
    let a = this(vm, 2)?;
    let name = vm.check_str(2)?;
    match a.column(name.bytes()) {
        Some(column) => {
            let r = vm.shared_ref(column.object());
            vm.ret(r)
        }
        None => Err(a.unknown(vm, name.into())),
    }
});

/// `a:fields()`: a table of the fields' kinds by name.
static FIELDS: Native = Native::leaf("fields", |vm| {
    let a = this(vm, 1)?;
    let t = vm.new_table(0, a.columns.len())?;
    vm.push(t.into());
    for (name, column) in &a.columns {
        let kind = vm.value_str(column.kind().as_bytes())?;
        vm.set_field(t, name, kind)?;
    }
    Ok(1)
});

/// `a:get(i)`: record `i` as a table, a copy.
static GET: Native = Native::leaf("get", |vm| {
    let a = this(vm, 2)?;
    let at = index(vm, a)?;
    a.push_table(vm, at)?;
    Ok(1)
});

/// `a:set(i, t)`: stores the fields that `t` has.
static SET: Native = Native::leaf("set", |vm| {
    let a = this(vm, 3)?;
    let at = index(vm, a)?;
    let t = vm.check_table(3)?;
    a.store(vm, at, t, false)?;
    Ok(0)
});

/// `a:totable()`: a list of tables.
static TOTABLE: Native = Native::leaf("totable", |vm| {
    let a = this(vm, 1)?;
    let list = vm.new_table(a.len, 0)?;
    vm.push(list.into());
    for at in 0..a.len {
        let t = a.push_table(vm, at)?;
        vm.raw_set_int(list, at as i64 + 1, t.into())?;
        vm.pop();
        if at % 256 == 0 {
            vm.settle()?;
        }
    }
    Ok(1)
});

// -- Rows ---------------------------------------------------------------------------------------------------

/// A row.
struct Row {
    records: Arc<Records>,
    at: usize,
}

const ROW: &str = "record";

fn row_metatable(vm: &mut Vm) -> LuaResult<Gc<Table>> {
    if let Some(mt) = vm.metatable_named(ROW)? {
        return Ok(mt);
    }
    let (mt, _) = vm.new_metatable(ROW)?;
    for (name, native) in [
        ("__index", &ROW_INDEX),
        ("__newindex", &ROW_NEW_INDEX),
        ("__pairs", &ROW_PAIRS),
        ("__eq", &ROW_EQ),
        ("__tostring", &ROW_TO_STRING),
    ] {
        vm.set_field(mt, name, Value::native(native))?;
    }
    let name = vm.value_str(ROW.as_bytes())?;
    vm.set_field(mt, "__metatable", name)?;
    Ok(mt)
}

/// Argument `n` as a row: its array and its place.
fn row(vm: &mut Vm, n: u32) -> LuaResult<(Arc<Records>, usize)> {
    let row = vm.check_userdata::<Row>(n, ROW)?;
    Ok((Arc::clone(&row.records), row.at))
}

static ROW_INDEX: Native = Native::leaf("index", |vm| {
    let (a, at) = row(vm, 1)?;
    let key = vm.arg(2);
    match key.as_string().and_then(|k| a.column(k.bytes())) {
        Some(column) => {
            let v = column.get(vm, at)?;
            vm.ret(v)
        }
        None => Err(a.unknown(vm, key)),
    }
});

static ROW_NEW_INDEX: Native = Native::leaf("newindex", |vm| {
    let (a, at) = row(vm, 1)?;
    let (key, v) = (vm.arg(2), vm.arg(3));
    match key.as_string().and_then(|k| a.column(k.bytes())) {
        Some(column) => column.set(vm, at, v).map(|()| 0),
        None => Err(a.unknown(vm, key)),
    }
});

/// `pairs(row)`: fields and values as they are now.
static ROW_PAIRS: Native = Native::leaf("pairs", |vm| {
    let (a, at) = row(vm, 1)?;
    let next = vm.get_field(vm.globals(), "next")?;
    vm.push(next);
    a.push_table(vm, at)?;
    vm.push(Value::NIL);
    Ok(3)
});

static ROW_EQ: Native = Native::leaf("eq", |vm| {
    let is_row = |v: Value| v.as_userdata().is_some_and(|u| u.is::<Row>());
    if !is_row(vm.arg(1)) || !is_row(vm.arg(2)) {
        return vm.ret(false);
    }
    let ((a, at), (b, bt)) = (row(vm, 1)?, row(vm, 2)?);
    vm.ret(Arc::ptr_eq(&a, &b) && at == bt)
});

static ROW_TO_STRING: Native = Native::leaf("tostring", |vm| {
    let (a, at) = row(vm, 1)?;
    let text = format!("record {} of {}", at + 1, a.len);
    vm.ret_str(text.as_bytes())
});
