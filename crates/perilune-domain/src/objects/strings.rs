//! Arrays of strings that all domains see: `pl.array("string", n)`.
//!
//! An element is a string outside all heaps, behind a lock that is held for the time of a pointer's copy.
//! Reading makes a string of the domain, writing copies one out of it: tens of nanoseconds for short ones,
//! where a number costs two. Elements are "" at first. What differs from arrays of numbers is that a length
//! is not an amount of memory; what the strings take is in the program's account, as messages are.
//!
//! *Rejected*: strings of a fixed width in one piece of memory (texts would be cut); counts in place of
//! copies (a heap's string has its bytes inside).

use super::array::{Extent, PAIRS};
use super::{fill, refuse_other_names};
use crate::races::shadow::{Access, Shadow};
use crate::races::{self, on};
use crate::surplus::ANY;
use parking_lot::Mutex;
use perilune_heap::{charge_arrays, program_has_room};
use perilune_vm::shared::{Indexed, SharedKind, SharedObject};
use perilune_vm::{Gc, LuaResult, Native, Table, Value, Vm};
use std::sync::Arc;

/// The kind of arrays of strings.
pub static STRINGS: SharedKind = SharedKind::new("array", open);

/// `None` is the empty string.
type Cell = Mutex<Option<Arc<[u8]>>>;

/// An array of strings.
pub struct Strings {
    cells: Box<[Cell]>,
    /// A part of records is not charged for: they are.
    is_part: bool,
    shadow: Option<Box<Shadow>>,
}

/// Bytes that a string takes outside.
fn weight(s: &Option<Arc<[u8]>>) -> isize {
    s.as_ref().map_or(0, |s| (s.len() + 2 * size_of::<usize>()) as isize)
}

impl Strings {
    /// An array of empty strings, which the running code makes; `None` if there is no memory for it, or the
    /// program may have no more.
    pub fn new(vm: &Vm, len: usize) -> Option<Strings> {
        let bytes = len.checked_mul(size_of::<Cell>())?;
        let mut cells: Vec<Cell> = Vec::new();
        if !program_has_room(bytes) || cells.try_reserve_exact(len).is_err() {
            return None;
        }
        cells.resize_with(len, Cell::default);
        charge_arrays(bytes as isize);
        let shadow =
            if on() { races::watch(vm, len, format!("string array of {len} elements")) } else { None };
        Some(Strings { cells: cells.into_boxed_slice(), is_part: false, shadow })
    }

    /// A part of something else, which is charged for it.
    pub fn as_part(mut self) -> Strings {
        self.is_part = true;
        self
    }

    /// Bytes of the array, its strings left out.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.cells)
    }

    fn touch(&self, vm: &mut Vm, this: Option<Value>, at: usize, access: Access) {
        if let Some(shadow) = &self.shadow {
            races::access(vm, shadow, this, (0, at, 1), access);
        }
    }

    /// Element `at`, counted from 0 and below the length.
    ///
    /// # Errors
    /// "not enough memory"
    pub(super) fn get(&self, vm: &mut Vm, this: Option<Value>, at: usize) -> LuaResult<Value> {
        self.touch(vm, this, at, Access::Load);
        let s = self.cells[at].lock().clone();
        let s = s.as_deref().unwrap_or_default();
        vm.ensure_room(s.len())?;
        vm.value_str(s)
    }

    /// Stores such an element.
    ///
    /// # Errors
    /// `v` is no string; the program may have no more memory.
    pub(super) fn set(&self, vm: &mut Vm, this: Option<Value>, at: usize, v: Value) -> LuaResult<()> {
        let Some(s) = v.as_string() else {
            let (i, found) = (at + 1, v.type_name());
            return Err(vm.error(format!("element {i} of this string array must be a string (got {found})")));
        };
        if !program_has_room(s.bytes().len()) {
            return Err(vm.out_of_memory());
        }
        self.touch(vm, this, at, Access::Store);
        self.replace(at, (!s.bytes().is_empty()).then(|| Arc::from(s.bytes())));
        Ok(())
    }

    fn replace(&self, at: usize, s: Option<Arc<[u8]>>) {
        let new = weight(&s);
        let old = std::mem::replace(&mut *self.cells[at].lock(), s);
        charge_arrays(new - weight(&old));
    }
}

impl Drop for Strings {
    fn drop(&mut self) {
        let strings: isize = self.cells.iter_mut().map(|c| weight(c.get_mut())).sum();
        charge_arrays(-(size_of_val(&*self.cells) as isize) - strings);
    }
}

impl SharedObject for Strings {
    fn kind(&self) -> &'static SharedKind {
        &STRINGS
    }
    fn indexed(&self) -> Option<&dyn Indexed> {
        Some(self)
    }
    fn external_bytes(&self) -> usize {
        if self.is_part { 0 } else { self.bytes() }
    }
    fn held_bytes(&self) -> usize {
        self.bytes() + self.cells.iter().map(|c| weight(&c.lock()) as usize).sum::<usize>()
    }
    fn label(&self) -> Option<String> {
        Some(format!("string[{}]", self.cells.len()))
    }
}

impl Indexed for Strings {
    fn count(&self) -> usize {
        self.cells.len()
    }
    fn element(&self, vm: &mut Vm, this: Value, at: usize) -> LuaResult<Value> {
        self.get(vm, Some(this), at)
    }
    fn set_element(&self, vm: &mut Vm, this: Value, at: usize, v: Value) -> LuaResult<()> {
        self.set(vm, Some(this), at, v)
    }
    fn describe(&self) -> String {
        format!("array of {} strings", self.cells.len())
    }
}

/// `pl.array("string", n)`, `pl.array("string", list)`
pub(super) fn new(vm: &mut Vm) -> LuaResult<u32> {
    let extent = Extent::check(vm, true)?;
    if extent.shape().is_some() {
        return Err(vm.arg_error(3, "an array of strings has one dimension"));
    }
    let array = extent.len().and_then(|len| Strings::new(vm, len)).ok_or_else(|| vm.out_of_memory())?;
    if let Extent::List(list, len) = extent {
        for at in 0..len {
            let v = vm.raw_get_int(list, at as i64 + 1);
            array.set(vm, None, at, v)?;
        }
    }
    let r = vm.shared_ref(Arc::new(array));
    vm.ret(r)
}

fn open(vm: &mut Vm, mt: Gc<Table>) -> LuaResult<()> {
    fill(
        vm,
        mt,
        &[&KIND, &FILL, &TOTABLE, &SIZE],
        &[("__len", &LEN), ("__pairs", &PAIRS), ("__newindex", &NEW_INDEX)],
    )?;
    refuse_other_names(vm, mt, "an array of strings", "")
}

fn this<'a>(vm: &mut Vm, last: u32) -> LuaResult<&'a Strings> {
    let object = vm.check_shared(1, &STRINGS)?;
    vm.check_none_behind(last)?;
    Ok(object)
}

static KIND: Native = Native::leaf("kind", |vm| {
    this(vm, 1)?;
    vm.ret_str(b"string")
});

static LEN: Native = Native::leaf("len", |vm| {
    let len = this(vm, ANY)?.cells.len() as i64;
    vm.ret(len)
});

static SIZE: Native = Native::leaf("size", |vm| {
    let len = this(vm, 1)?.cells.len() as i64;
    vm.ret(len)
});

static NEW_INDEX: Native = Native::leaf("newindex", |vm| {
    let len = this(vm, ANY)?.cells.len();
    Err(vm.error(format!("an array of strings has the elements 1 to {len} and no other places")))
});

/// `a:fill(s)`: all elements share one string.
static FILL: Native = Native::leaf("fill", |vm| {
    let a = this(vm, 2)?;
    let s: Arc<[u8]> = Arc::from(vm.check_str(2)?.bytes());
    for at in 0..a.cells.len() {
        a.touch(vm, None, at, Access::Store);
        a.replace(at, Some(Arc::clone(&s)));
        if at % 4096 == 0 {
            vm.poll_interrupt()?;
        }
    }
    let me = vm.arg(1);
    vm.ret(me)
});

/// `a:totable()`
static TOTABLE: Native = Native::leaf("totable", |vm| {
    let a = this(vm, 1)?;
    let list = vm.new_table(a.cells.len(), 0)?;
    vm.push(list.into());
    for at in 0..a.cells.len() {
        let v = a.get(vm, None, at)?;
        vm.raw_set_int(list, at as i64 + 1, v)?;
        if at % 256 == 0 {
            vm.settle()?;
        }
    }
    Ok(1)
});
