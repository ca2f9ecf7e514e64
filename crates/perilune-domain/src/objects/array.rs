//! Typed arrays of numbers that all domains see: `pl.array(kind, n)`.
//!
//! An array is a piece of memory that is never moved and a range in it; a slice is another range of the same
//! memory. Elements are relaxed atomics (`perilune_vm::shared::ArrayView`), so concurrent access has no
//! undefined behaviour and no torn values. What it may have is lost updates: `a[i] = a[i] + 1` is a load and
//! a store. `a:add(i, x)` and `a:cas(i, old, new)` lose none.
//!
//! `a[i]` and `a[i] = x` are done by the interpreter, and so are `a:at(i, j)` and `a:put(i, j, x)` where they
//! can be; here are the rest. `add` and `cas` order memory as atomics do: what one domain did before such a
//! change of an element, another one sees after its own next change of it.
//!
//! # Two dimensions
//! `pl.array(kind, rows, columns)` is an array of `rows * columns` elements, row after row, that knows its
//! rows: `a:at(i, j)` is `a[(i - 1) * columns + j]` with both indices checked. All else is as it is in one
//! dimension, so that loops over all elements, `fill`, `copy` and `sum` need nothing new. A row is a slice
//! (`a:row(i)`): an inner loop over it costs what one over a plain array does.
//!
//! *Rejected*: `a[i][j]`. It reads best, but `a[i]` would have to be a row, which is an object, made anew for
//! each element that is read; and the flat index, which every function of the library needs, would be lost.
//! Strides (columns as views): each access would multiply.
//!
//! # What the library sees
//! What a table with `__index`, `__newindex`, `__len` and `__pairs` is to PUC Lua's functions: `ipairs`,
//! `table.concat`, `unpack`, `sort` and `move` work. An array does not grow, so `insert` and `remove` say so.
//! Reading beyond the ends gives nil, which is what ends `ipairs`; writing there is an error; so is any name
//! that is no method, because a misspelt one would be nil.
//!
//! When races are looked for (`races`), an array has a shadow that all accesses are shown to first, and does
//! not give its elements to the interpreter.

use super::records::{self, RECORDS};
use super::strings::{self, STRINGS, Strings};
use super::{fill, meant, quoted, refuse_other_names};
use crate::races::shadow::{Access, Shadow};
use crate::races::{self, on};
use crate::surplus::ANY;
use crate::sys;
use perilune_heap::{charge_arrays, program_has_room};
use perilune_vm::shared::{ArrayView, Element, SharedKind, SharedObject, downcast_arc};
use perilune_vm::{Gc, Kind as NativeKind, LuaResult, Native, Table, Type, Value, Vm};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicI32, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering::AcqRel, Ordering::Relaxed,
};

/// The kind of typed arrays.
pub static ARRAY: SharedKind = SharedKind::new("array", open);

/// Alignment of an array's memory: a cache line, so that arrays do not share one.
const ALIGN: usize = 64;
/// From this size on memory is asked for in huge pages.
const HUGE: usize = 4 << 20;

struct Memory {
    data: *mut u8,
    layout: Layout,
    shadow: Option<Box<Shadow>>,
}

// SAFETY: the memory is touched as atomics only, and freed by the last owner.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    fn new(bytes: usize) -> Option<Memory> {
        let layout = Layout::from_size_align(bytes.max(1), ALIGN).ok()?;
        if !program_has_room(layout.size()) {
            return None;
        }
        // SAFETY: the size is not zero.
        let data = unsafe { alloc_zeroed(layout) };
        if data.is_null() {
            return None;
        }
        if bytes >= HUGE {
            // SAFETY: the allocation just made, of at least so many bytes, which are zeros.
            sys::ask_for_huge_pages(unsafe { std::slice::from_raw_parts_mut(data, bytes) });
        }
        charge_arrays(layout.size() as isize);
        Some(Memory { data, layout, shadow: None })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        charge_arrays(-(self.layout.size() as isize));
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.data, self.layout) }
    }
}

/// A typed array, or a slice of one.
pub struct Array {
    memory: Arc<Memory>,
    /// Slices are not charged for: what they are parts of is, as long as somebody refers to it.
    is_slice: bool,
    view: ArrayView,
}

impl Array {
    /// An array of `len` zeros, which the running code makes; `None` if there is no memory for it, or the
    /// program may have no more.
    pub fn new(vm: &Vm, element: Element, len: usize) -> Option<Array> {
        let mut memory = Memory::new(len.checked_mul(element.size())?)?;
        if on() {
            memory.shadow = races::watch(vm, len, format!("{} array of {len} elements", element.name()));
        }
        let memory = Arc::new(memory);
        // SAFETY: zeroed memory for `len` elements, aligned to a cache line, which the array keeps.
        let view = unsafe { ArrayView::new(memory.data, len, element) };
        Some(Array { memory, is_slice: false, view })
    }

    /// Elements `from..from + count`, counted from 0, are about to be accessed by a method.
    #[inline]
    fn touch(&self, vm: &mut Vm, from: usize, count: usize, access: Access) {
        if let Some(shadow) = &self.memory.shadow {
            races::access(vm, shadow, None, (self.first(), from, count), access);
        }
    }

    /// An element is about to be changed atomically.
    #[inline]
    fn before_change(&self, vm: &mut Vm, at: usize) {
        if let Some(shadow) = &self.memory.shadow {
            races::access(vm, shadow, None, (self.first(), at, 1), Access::Change);
            races::before_change(vm, shadow, self.first() + at);
        }
    }

    /// An element has been changed atomically.
    #[inline]
    fn after_change(&self, vm: &mut Vm, at: usize) {
        if let Some(shadow) = &self.memory.shadow {
            races::after_change(vm, shadow, self.first() + at);
        }
    }

    /// Which element of the memory the first one is.
    fn first(&self) -> usize {
        (self.view.data() as usize - self.memory.data as usize) / self.view.element().size()
    }

    /// The same elements in rows and columns, if they are as many.
    pub fn in_rows(&self, rows: usize, columns: usize) -> Option<Array> {
        (columns > 0 && rows.checked_mul(columns) == Some(self.view.len())).then(|| Array {
            memory: Arc::clone(&self.memory),
            is_slice: self.is_slice,
            view: self.view.in_rows(rows, columns),
        })
    }

    /// A part of something else, which is charged for it.
    pub fn as_part(mut self) -> Array {
        self.is_slice = true;
        self
    }

    /// Bytes of the elements' memory.
    pub fn bytes(&self) -> usize {
        self.memory.layout.size()
    }

    /// Element `at`, counted from 0 and below the length, shown to the search for races.
    pub(super) fn get(&self, vm: &mut Vm, at: usize) -> Value {
        self.touch(vm, at, 1, Access::Load);
        self.view.get(at).unwrap_or(Value::NIL)
    }

    /// Stores such an element.
    ///
    /// # Errors
    /// `v` is no value for it.
    pub(super) fn set(&self, vm: &mut Vm, at: usize, v: Value) -> LuaResult<()> {
        self.touch(vm, at, 1, Access::Store);
        match self.view.set(at, v) {
            Ok(()) => Ok(()),
            Err(_) => vm.bad_element(self.view, at as i64 + 1, v),
        }
    }

    /// Stores bytes from `at` on, counted from 0, in an array of bytes that has room for them.
    pub fn put_bytes(&self, vm: &mut Vm, at: usize, bytes: &[u8]) {
        assert_eq!(self.view.element(), Element::U8);
        assert!(at.checked_add(bytes.len()).is_some_and(|end| end <= self.view.len()));
        self.touch(vm, at, bytes.len(), Access::Store);
        for (n, byte) in bytes.iter().enumerate() {
            // SAFETY: within the elements, as asserted above; they are touched as atomics only, and the
            // memory lives as long as the array.
            unsafe { AtomicU8::from_ptr(self.view.data().add(at + n)) }.store(*byte, Relaxed);
        }
    }

    /// The elements.
    pub fn view(&self) -> ArrayView {
        self.view
    }

    /// Elements `from..from + len`, counted from 0, of the same memory.
    fn slice(&self, from: usize, len: usize) -> Array {
        debug_assert!(from + len <= self.view.len());
        let element = self.view.element();
        // SAFETY: a part of the elements, in the same memory.
        let view = unsafe { ArrayView::new(self.view.data().add(from * element.size()), len, element) };
        Array { memory: Arc::clone(&self.memory), is_slice: true, view }
    }
}

impl SharedObject for Array {
    fn kind(&self) -> &'static SharedKind {
        &ARRAY
    }
    fn elements(&self) -> Option<ArrayView> {
        self.memory.shadow.is_none().then_some(self.view)
    }
    fn watched(&self) -> Option<ArrayView> {
        self.memory.shadow.is_some().then_some(self.view)
    }
    fn touch(&self, vm: &mut Vm, v: Value, at: usize, write: bool) {
        if let Some(shadow) = &self.memory.shadow {
            let access = if write { Access::Store } else { Access::Load };
            races::access(vm, shadow, Some(v), (self.first(), at, 1), access);
        }
    }
    fn external_bytes(&self) -> usize {
        if self.is_slice { 0 } else { self.memory.layout.size() }
    }
    fn label(&self) -> Option<String> {
        let kind = self.view.element().name();
        Some(match self.view.shape() {
            Some((rows, columns)) => format!("{kind}[{rows}x{columns}]"),
            None => format!("{kind}[{}]", self.view.len()),
        })
    }
}

/// The kinds of elements.
pub(super) const KINDS: [&str; 6] = ["f64", "f32", "i64", "i32", "u8", "string"];
const ELEMENTS: [Element; 5] = [Element::F64, Element::F32, Element::I64, Element::I32, Element::U8];

/// What other languages call the kinds.
const ELSEWHERE: [(&str, &str); 14] = [
    ("double", "f64"),
    ("number", "f64"),
    ("float", "f64"),
    ("float64", "f64"),
    ("float32", "f32"),
    ("single", "f32"),
    ("integer", "i64"),
    ("int", "i64"),
    ("int64", "i64"),
    ("int32", "i32"),
    ("uint8", "u8"),
    ("byte", "u8"),
    ("bool", "u8"),
    ("str", "string"),
];

/// What is to be stored: numbers of a kind, or strings.
#[derive(Clone, Copy)]
pub(super) enum Stored {
    Numbers(Element),
    Strings,
}

/// The kind with this name, which argument `n` is or has somewhere.
pub(super) fn stored(vm: &mut Vm, n: u32, kind: Value) -> LuaResult<Stored> {
    let Some(name) = kind.as_string().map(|s| s.to_text()) else {
        let found = kind.type_name();
        let text = format!(
            "a kind of elements or a table of fields expected, got {found}; the kinds are {}",
            quoted(&KINDS)
        );
        return Err(vm.arg_error(n, &text));
    };
    match KINDS.iter().position(|known| *known == name) {
        Some(at) => Ok(ELEMENTS.get(at).map_or(Stored::Strings, |&e| Stored::Numbers(e))),
        None => {
            let lower = name.to_lowercase();
            let names: Vec<String> = KINDS.iter().map(|&kind| kind.to_owned()).collect();
            let near = match ELSEWHERE.iter().find(|(other, _)| *other == lower) {
                Some((_, kind)) => format!("; did you mean '{kind}'?"),
                None if KINDS.contains(&lower.as_str()) => format!("; did you mean '{lower}'?"),
                // One character of three is enough to be near here.
                None => meant(&lower, &names, " "),
            };
            let near = if near.contains("mean") { near } else { String::new() };
            let text = format!("unknown kind of elements '{name}'{near} the kinds are {}", quoted(&KINDS));
            let text = if near.is_empty() { text.replacen("' the", "'; the", 1) } else { text };
            Err(vm.arg_error(n, &text))
        }
    }
}

/// How much is to be made, and of what: arguments 2 and 3 of `pl.array`.
pub(super) enum Extent {
    Elements(usize),
    Rows(usize, usize),
    /// So many elements, in this table.
    List(Gc<Table>, usize),
    /// So many rows and columns, in the lists of this list.
    Lists(Gc<Table>, usize, usize),
}

impl Extent {
    /// What the arguments say. `flat`: what is in a list are elements, also if they are tables.
    pub(super) fn check(vm: &mut Vm, flat: bool) -> LuaResult<Extent> {
        if let Some(list) = vm.arg(2).as_table() {
            vm.check_none_behind(2)?;
            let len = vm.raw_len(list);
            let Some(first) = vm.raw_get_int(list, 1).as_table().filter(|_| !flat) else {
                return Ok(Extent::List(list, len as usize));
            };
            let columns = vm.raw_len(first);
            for i in 1..=len {
                let row = vm.raw_get_int(list, i);
                let found = row.as_table().map(|row| vm.raw_len(row));
                if found != Some(columns) {
                    let found = found.map_or(format!("a {} value", row.type_name()), |n| n.to_string());
                    let text = format!("row {i} must have {columns} elements, as row 1 has, not {found}");
                    return Err(vm.arg_error(2, &text));
                }
            }
            return Ok(Extent::Lists(list, len as usize, columns as usize));
        }
        vm.check_none_behind(3)?;
        let count = |vm: &mut Vm, n: u32, what: &str| {
            let count = vm.check_int(n)?;
            usize::try_from(count)
                .map_err(|_| vm.arg_error(n, &format!("{what} must not be negative, as {count} is")))
        };
        if vm.arg_is_none_or_nil(3) {
            return Ok(Extent::Elements(count(vm, 2, "the length")?));
        }
        let (rows, columns) = (count(vm, 2, "the number of rows")?, count(vm, 3, "the number of columns")?);
        if columns == 0 {
            return Err(vm.arg_error(3, "a row must have a column at least"));
        }
        Ok(Extent::Rows(rows, columns))
    }

    /// How many elements there are; `None`: more than a number can say.
    pub(super) fn len(&self) -> Option<usize> {
        match *self {
            Extent::Elements(n) | Extent::List(_, n) => Some(n),
            Extent::Rows(rows, columns) | Extent::Lists(_, rows, columns) => rows.checked_mul(columns),
        }
    }

    /// Rows and columns.
    pub(super) fn shape(&self) -> Option<(usize, usize)> {
        match *self {
            Extent::Rows(rows, columns) | Extent::Lists(_, rows, columns) if columns > 0 => {
                Some((rows, columns))
            }
            _ => None,
        }
    }
}

/// Zeros of this extent.
pub(super) fn make(vm: &mut Vm, element: Element, extent: &Extent) -> LuaResult<Array> {
    let array =
        extent.len().and_then(|len| Array::new(vm, element, len)).ok_or_else(|| vm.out_of_memory())?;
    Ok(match extent.shape() {
        Some((rows, columns)) => array.in_rows(rows, columns).unwrap_or(array),
        None => array,
    })
}

/// `pl.array(kind, n)`, `pl.array(kind, rows, columns)`, `pl.array(kind, list)`, `pl.array(fields, ...)`
pub static NEW: Native = Native::leaf("array", |vm| {
    let kind = vm.arg(1);
    if let Some(fields) = kind.as_table() {
        return records::new(vm, fields);
    }
    let element = match stored(vm, 1, kind)? {
        Stored::Numbers(element) => element,
        Stored::Strings => return strings::new(vm),
    };
    let extent = Extent::check(vm, false)?;
    let array = make(vm, element, &extent)?;
    let mut at = 0;
    let mut copy = |vm: &mut Vm, list: Gc<Table>, len: usize| {
        for i in 1..=len as i64 {
            let v = vm.raw_get_int(list, i);
            if array.view.set(at, v).is_err() {
                vm.bad_element(array.view, at as i64 + 1, v)?;
            }
            at += 1;
        }
        Ok(())
    };
    match extent {
        Extent::List(list, len) => copy(vm, list, len)?,
        Extent::Lists(list, rows, columns) => {
            for i in 1..=rows as i64 {
                if let Some(row) = vm.raw_get_int(list, i).as_table() {
                    copy(vm, row, columns)?;
                }
            }
        }
        _ => {}
    }
    let r = vm.shared_ref(Arc::new(array));
    vm.ret(r)
});

fn open(vm: &mut Vm, mt: Gc<Table>) -> LuaResult<()> {
    fill(
        vm,
        mt,
        &[&KIND, &SLICE, &FILL, &COPY, &TOTABLE, &ADD, &CAS, &SUM, &AT, &PUT, &ROW, &SIZE, &RESHAPE],
        &[("__len", &LEN), ("__pairs", &PAIRS), ("__newindex", &NEW_INDEX)],
    )?;
    refuse_other_names(vm, mt, "an array", "")
}

/// `pairs(a)`: what `ipairs(a)` gives.
pub(super) static PAIRS: Native = Native::leaf("pairs", |vm| {
    let this = vm.arg(1);
    vm.push(Value::native(&perilune_stdlib::base::IPAIRS_STEP));
    vm.push(this);
    vm.push(Value::int(0));
    Ok(3)
});

/// `a.x = v`, and all other stores that are none to an element.
static NEW_INDEX: Native = Native::leaf("newindex", |vm| {
    let len = this(vm, ANY)?.view.len();
    let key = match vm.arg(2) {
        k if k.is_number() => "an index that is no integer".to_owned(),
        k => match k.as_string() {
            Some(name) => format!("a field '{}'", name.to_text()),
            None => format!("a {} as index", k.type_name()),
        },
    };
    Err(vm.error(format!("an array has no place for {key}: its elements are 1 to {len}")))
});

/// Arguments 2 and 3 as row and column: the element, counted from 0.
fn place(vm: &mut Vm, a: &Array) -> LuaResult<usize> {
    let (i, j) = (vm.check_int(2)?, vm.check_int(3)?);
    let Some((rows, columns)) = a.view.shape() else {
        let len = a.view.len();
        let text = format!(
            "this array has one dimension, of {len} elements: write a[i], or make it with pl.array(kind, \
             rows, columns)"
        );
        return Err(vm.arg_error(1, &text));
    };
    for (n, what, index, count) in [(2, "row", i, rows), (3, "column", j, columns)] {
        if index < 1 || index as usize > count {
            let text = format!("{what} {index} is out of range (array of {rows} rows and {columns} columns)");
            return Err(vm.arg_error(n, &text));
        }
    }
    Ok((i as usize - 1) * columns + j as usize - 1)
}

/// `a:at(i, j)`: the element in row `i` and column `j`.
static AT: Native = Native::special("at", NativeKind::ElementAt, |vm| {
    let a = this(vm, 3)?;
    let at = place(vm, a)?;
    let v = a.get(vm, at);
    vm.ret(v)
});

/// `a:put(i, j, v)`
static PUT: Native = Native::special("put", NativeKind::ElementPut, |vm| {
    let a = this(vm, 4)?;
    let at = place(vm, a)?;
    let v = vm.arg(4);
    a.set(vm, at, v)?;
    Ok(0)
});

/// `a:row(i)`: a row of an array in two dimensions, as a slice.
static ROW: Native = Native::leaf("row", |vm| {
    let a = this(vm, 2)?;
    let i = vm.check_int(2)?;
    let Some((rows, columns)) = a.view.shape() else {
        return Err(vm.arg_error(1, "this array has one dimension"));
    };
    if i < 1 || i as usize > rows {
        let text = format!("row {i} is out of range (array of {rows} rows and {columns} columns)");
        return Err(vm.arg_error(2, &text));
    }
    let r = vm.shared_ref(Arc::new(a.slice((i as usize - 1) * columns, columns)));
    vm.ret(r)
});

/// `a:size()`: rows and columns; of one dimension, the length.
static SIZE: Native = Native::leaf("size", |vm| {
    let view = this(vm, 1)?.view;
    match view.shape() {
        Some((rows, columns)) => {
            vm.push(Value::int(rows as i64));
            vm.push(Value::int(columns as i64));
            Ok(2)
        }
        None => vm.ret(view.len() as i64),
    }
});

/// `a:reshape(rows, columns)`: the same memory in other rows.
static RESHAPE: Native = Native::leaf("reshape", |vm| {
    let a = this(vm, 3)?;
    let (rows, columns) = (vm.check_int(2)?, vm.check_int(3)?);
    let shape = usize::try_from(rows).ok().zip(usize::try_from(columns).ok());
    match shape.and_then(|(rows, columns)| a.in_rows(rows, columns)) {
        Some(array) => {
            let r = vm.shared_ref(Arc::new(array.as_part()));
            vm.ret(r)
        }
        None => {
            let len = a.view.len();
            Err(vm.arg_error(
                2,
                &format!("{rows} rows of {columns} columns are not the {len} elements there are"),
            ))
        }
    }
});

fn this<'a>(vm: &mut Vm, last: u32) -> LuaResult<&'a Array> {
    let object = vm.check_shared(1, &ARRAY)?;
    vm.check_none_behind(last)?;
    Ok(object)
}

/// Arguments `n` and `n + 1` as a range of elements, 1 and the length by default: (first, counted from 0;
/// number).
fn range(vm: &mut Vm, n: u32, len: usize) -> LuaResult<(usize, usize)> {
    let first = vm.opt_int(n, 1)?;
    let last = vm.opt_int(n + 1, len as i64)?;
    if first < 1 || first > len as i64 + 1 {
        return Err(vm.arg_error(n, &format!("index {first} is out of range (array of {len} elements)")));
    }
    if last < first - 1 || last > len as i64 {
        return Err(vm.arg_error(n + 1, &format!("index {last} is out of range (array of {len} elements)")));
    }
    Ok((first as usize - 1, (last - first + 1) as usize))
}

static LEN: Native = Native::leaf("len", |vm| {
    let len = this(vm, ANY)?.view.len() as i64;
    vm.ret(len)
});

static KIND: Native = Native::leaf("kind", |vm| {
    let name = this(vm, 1)?.view.element().name();
    vm.ret_str(name.as_bytes())
});

/// `a:slice(i [, j])`: elements `i` to `j` of the same memory.
static SLICE: Native = Native::leaf("slice", |vm| {
    let a = this(vm, 3)?;
    let (from, len) = range(vm, 2, a.view.len())?;
    let r = vm.shared_ref(Arc::new(a.slice(from, len)));
    vm.ret(r)
});

/// `a:fill(x [, i [, j]])`
static FILL: Native = Native::leaf("fill", |vm| {
    let a = this(vm, 4)?;
    let v = vm.arg(2);
    let (from, len) = range(vm, 3, a.view.len())?;
    a.touch(vm, from, len, Access::Store);
    for at in from..from + len {
        if a.view.set(at, v).is_err() {
            vm.bad_element(a.view, at as i64 + 1, v)?;
        }
        if at % POLL == 0 {
            vm.poll_interrupt()?;
        }
    }
    let me = vm.arg(1);
    vm.ret(me)
});

/// Elements between two looks at the interrupt flag.
const POLL: usize = 1 << 16;

/// `a:copy(source [, at [, i [, j]]])`: elements `i` to `j` of an array or list to `at` and onwards.
/// Overlapping ranges of the same memory are copied as if through a copy.
static COPY: Native = Native::leaf("copy", |vm| {
    let a = this(vm, 5)?;
    let at = vm.opt_int(3, 1)?;
    if let Some(list) = vm.arg(2).as_table() {
        let len = vm.raw_len(list) as usize;
        let (from, count) = range(vm, 4, len)?;
        let to = target(vm, a, at, count)?;
        a.touch(vm, to, count, Access::Store);
        for n in 0..count {
            let v = vm.raw_get_int(list, (from + n) as i64 + 1);
            if a.view.set(to + n, v).is_err() {
                vm.bad_element(a.view, (to + n) as i64 + 1, v)?;
            }
        }
    } else {
        let source: &Array = vm.check_shared(2, &ARRAY)?;
        let (from, count) = range(vm, 4, source.view.len())?;
        let to = target(vm, a, at, count)?;
        source.touch(vm, from, count, Access::Load);
        a.touch(vm, to, count, Access::Store);
        let address = |v: ArrayView, n: usize| v.data() as usize + n * v.element().size();
        let backwards = address(a.view, to) > address(source.view, from);
        for n in 0..count {
            let n = if backwards { count - 1 - n } else { n };
            let v = source.view.get(from + n).unwrap_or(Value::NIL);
            if a.view.set(to + n, v).is_err() {
                vm.bad_element(a.view, (to + n) as i64 + 1, v)?;
            }
            if n % POLL == 0 {
                vm.poll_interrupt()?;
            }
        }
    }
    let me = vm.arg(1);
    vm.ret(me)
});

/// Where `count` elements from index `at` on go, counted from 0.
fn target(vm: &mut Vm, a: &Array, at: i64, count: usize) -> LuaResult<usize> {
    let len = a.view.len();
    if at < 1 || at as usize > len + 1 || count > len + 1 - at as usize {
        let text = format!("{count} elements at index {at} do not fit (array of {len} elements)");
        return Err(vm.arg_error(3, &text));
    }
    Ok(at as usize - 1)
}

/// `a:totable([i [, j]])`: a list of the elements; of all elements in two dimensions, a list of rows.
static TOTABLE: Native = Native::leaf("totable", |vm| {
    let a = this(vm, 3)?;
    let (from, len) = range(vm, 2, a.view.len())?;
    a.touch(vm, from, len, Access::Load);
    if let Some((rows, columns)) = a.view.shape()
        && vm.arg_is_none_or_nil(2)
    {
        return rows_to_table(vm, a, rows, columns);
    }
    let t = vm.new_table(len, 0)?;
    vm.push(t.into());
    for n in 0..len {
        let v = a.view.get(from + n).unwrap_or(Value::NIL);
        vm.raw_set_int(t, n as i64 + 1, v)?;
    }
    Ok(1)
});

/// A list of the rows, each a list.
fn rows_to_table(vm: &mut Vm, a: &Array, rows: usize, columns: usize) -> LuaResult<u32> {
    let list = vm.new_table(rows, 0)?;
    vm.push(list.into());
    for i in 0..rows {
        let row = vm.new_table(columns, 0)?;
        vm.raw_set_int(list, i as i64 + 1, row.into())?;
        for j in 0..columns {
            let v = a.view.get(i * columns + j).unwrap_or(Value::NIL);
            vm.raw_set_int(row, j as i64 + 1, v)?;
        }
        vm.settle()?;
    }
    Ok(1)
}

/// `a:sum([i [, j]])`: integers wrap around, floats are added in order.
static SUM: Native = Native::leaf("sum", |vm| {
    let a = this(vm, 3)?;
    let (from, len) = range(vm, 2, a.view.len())?;
    a.touch(vm, from, len, Access::Load);
    if matches!(a.view.element(), Element::F64 | Element::F32) {
        let sum: f64 = (from..from + len).filter_map(|n| a.view.get(n)?.as_float()).sum();
        return vm.ret(sum);
    }
    let sum = (from..from + len).filter_map(|n| a.view.get(n)?.as_int()).fold(0, i64::wrapping_add);
    vm.ret(sum)
});

/// Changes element `at` by `change`, atomically; gives its old and new value. `None`: the change is
/// impossible.
fn change(
    view: ArrayView,
    at: usize,
    mut change: impl FnMut(Value) -> Option<Value>,
) -> Option<(Value, Value)> {
    /// Tries until no other thread comes between.
    macro_rules! retry {
        ($atomic:ty, $load:expr, $store:expr) => {{
            // SAFETY: the view's elements are aligned atomics of this size, and `at` is within.
            let cell = unsafe { &*view.data().cast::<$atomic>().add(at) };
            let mut old = cell.load(Relaxed);
            loop {
                let before: Value = $load(old);
                let after = change(before)?;
                let new = $store(after)?;
                match cell.compare_exchange_weak(old, new, AcqRel, Relaxed) {
                    Ok(_) => return Some((before, $load(new))),
                    Err(now) => old = now,
                }
            }
        }};
    }
    assert!(at < view.len());
    match view.element() {
        Element::F64 => {
            retry!(AtomicU64, |b| Value::float(f64::from_bits(b)), |v: Value| v.as_number().map(f64::to_bits))
        }
        Element::F32 => retry!(AtomicU32, |b| Value::float(f32::from_bits(b) as f64), |v: Value| {
            v.as_number().map(|x| (x as f32).to_bits())
        }),
        Element::I64 => retry!(AtomicI64, Value::int, |v: Value| v.as_int()),
        Element::I32 => {
            retry!(AtomicI32, |i| Value::int(i as i64), |v: Value| i32::try_from(v.as_int()?).ok())
        }
        Element::U8 => retry!(AtomicU8, |i| Value::int(i as i64), |v: Value| u8::try_from(v.as_int()?).ok()),
    }
}

/// The number as an element would hold it.
fn convert(element: Element, v: Value) -> Option<Value> {
    let exact = |v: Value| match v.as_int() {
        Some(i) => Some(i),
        None => v.as_float().filter(|f| f.fract() == 0.0 && f.abs() < 9.2e18).map(|f| f as i64),
    };
    match element {
        Element::F64 => v.as_number().map(Value::float),
        Element::F32 => v.as_number().map(|x| Value::float(x as f32 as f64)),
        Element::I64 => exact(v).map(Value::int),
        Element::I32 => exact(v).and_then(|i| i32::try_from(i).ok()).map(|i| Value::int(i as i64)),
        Element::U8 => exact(v).and_then(|i| u8::try_from(i).ok()).map(|i| Value::int(i as i64)),
    }
}

/// Argument `n` as an index, counted from 0.
fn index(vm: &mut Vm, a: &Array, n: u32) -> LuaResult<usize> {
    let i = vm.check_int(n)?;
    let len = a.view.len();
    if i < 1 || i as usize > len {
        return Err(vm.arg_error(n, &format!("index {i} is out of range (array of {len} elements)")));
    }
    Ok(i as usize - 1)
}

/// `a:add(i, x)`: adds to an element, losing no other domain's update; returns the new value.
static ADD: Native = Native::leaf("add", |vm| {
    let a = this(vm, 3)?;
    let at = index(vm, a, 2)?;
    let float = matches!(a.view.element(), Element::F64 | Element::F32);
    let (x, n) = if float { (vm.check_num(3)?, 0) } else { (0.0, vm.check_int(3)?) };
    a.before_change(vm, at);
    let outcome = change(a.view, at, |old| match old.as_int() {
        Some(i) if a.view.element() == Element::I64 => Some(Value::int(i.wrapping_add(n))),
        Some(i) => i.checked_add(n).map(Value::int),
        None => old.as_float().map(|f| Value::float(f + x)),
    });
    a.after_change(vm, at);
    match outcome {
        Some((_, new)) => vm.ret(new),
        None => Err(vm.arg_error(3, &format!("result is out of range for {}", a.view.element().name()))),
    }
});

/// `a:cas(i, old, new)`: stores `new` if the element is `old`; returns whether it was, and what the element
/// was.
static CAS: Native = Native::leaf("cas", |vm| {
    let a = this(vm, 4)?;
    let at = index(vm, a, 2)?;
    vm.check_type(3, Type::Number)?;
    vm.check_type(4, Type::Number)?;
    let (expected, new) = (vm.arg(3), vm.arg(4));
    let Some(new) = convert(a.view.element(), new) else {
        let text = format!("not a value for {}", a.view.element().name());
        return Err(vm.arg_error(4, &text));
    };
    a.before_change(vm, at);
    let mut seen = Value::NIL;
    let done = change(a.view, at, |old| {
        seen = old;
        Vm::raw_equals(old, expected).then_some(new)
    });
    a.after_change(vm, at);
    vm.push(done.is_some().into());
    vm.push(seen);
    Ok(2)
});

/// Whether an object is an array of some kind: numbers, strings, records.
pub fn is_array(object: &dyn SharedObject) -> bool {
    [&ARRAY, &STRINGS, &RECORDS].iter().any(|&kind| std::ptr::eq(kind, object.kind()))
}

/// A new array of the kind of `like`, with so many elements; `None`: `like` is none, or there is no memory.
pub(crate) fn alike(vm: &mut Vm, like: Value, len: usize) -> LuaResult<Option<Value>> {
    let Some(r) = like.as_shared() else { return Ok(None) };
    if r.downcast::<Strings>().is_some() {
        let strings = Strings::new(vm, len).ok_or_else(|| vm.out_of_memory())?;
        return Ok(Some(vm.shared_ref(Arc::new(strings)).into()));
    }
    let Some(element) = r.downcast::<Array>().map(|a| a.view.element()) else { return Ok(None) };
    let array = Array::new(vm, element, len).ok_or_else(|| vm.out_of_memory())?;
    Ok(Some(vm.shared_ref(Arc::new(array)).into()))
}

/// Argument `n` as an array.
pub fn check(vm: &mut Vm, n: u32) -> LuaResult<Arc<Array>> {
    if let Some(r) = vm.arg(n).as_shared()
        && let Ok(array) = downcast_arc(r.object().clone())
    {
        return Ok(array);
    }
    Err(vm.type_error(n, ARRAY.name))
}
