//! Shared objects as Lua values: channels, typed arrays, atomics, tasks, files.
//!
//! A shared object is a Rust value behind an `Arc`, which any number of domains may use at once. What a
//! domain's program handles is a
//! [`SharedRef`]: a small object of its own heap that owns one count of the `Arc`. `type` calls it a userdata. There is one
//! `SharedRef` per object and domain, so two values of the same object are the same value; those inside
//! islands are further ones, which compare equal to it.
//!
//! # Kinds
//! [`SharedKind`] is the static description of a kind of object. The metatable of a kind belongs to the
//! domain: it is made when a value of that kind is first met, by the kind's `open`. Nothing else about a
//! shared object is per domain.
//!
//! # Elements
//! A kind whose objects are arrays of numbers gives an [`ArrayView`], and `a[i]` and `a[i] = x` go to the
//! elements without a metamethod. Elements are atomics of their size, accessed with relaxed order: no tearing
//! and no undefined behaviour, and on the machines we know the same instructions as for plain memory.
//!
//! # Counts
//! All counts of shared objects are [`SharedArc`]s, which free chains of objects without recursion:
//! `shared/count.rs`.
//!
//! Elements that are no numbers (strings, records) are given by the object itself, by [`Indexed`]: one
//! virtual call, and still no metamethod.
//!
//! An array may have two dimensions, which only `a:at(i, j)` and `a:put(i, j, x)` know of
//! (`interp/elements.rs`); its elements are those of a plain one, row after row.
//!
//! Rejected: userdata with a box per domain around the `Arc` (an island cannot hold one, and each use would
//! go through two boxes and a type test); a table of handles with numbers as values (numbers must be counted
//! too, and a table is one more thing to look up).

mod count;

use crate::Vm;
use crate::native::LuaResult;
use crate::object::Table;
use crate::value::{Gc, Tag, Value};
pub use count::{SharedArc, downcast_arc, upgrade};
use perilune_heap::Header;
use std::any::Any;
use std::mem::ManuallyDrop;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// An object that several domains may use at once.
pub trait SharedObject: Any + Send + Sync {
    /// What kind of object it is.
    fn kind(&self) -> &'static SharedKind;

    /// Its elements, if it is an array of numbers. They stay where they are for as long as the object lives.
    fn elements(&self) -> Option<ArrayView> {
        None
    }

    /// The elements of an array whose accesses somebody wants to know of. Programs index it as any array;
    /// [`SharedObject::touch`] is called first. Such an array must not give its elements otherwise: those are
    /// reached without a call.
    fn watched(&self) -> Option<ArrayView> {
        None
    }

    /// The running code is about to read or write element `at`, counted from 0, of a watched array. `v` is
    /// the array as a value.
    fn touch(&self, vm: &mut Vm, v: Value, at: usize, write: bool) {
        let _ = (vm, v, at, write);
    }

    /// Its elements, if it has some that are no plain numbers.
    fn indexed(&self) -> Option<&dyn Indexed> {
        None
    }

    /// Memory outside every heap that each domain which refers to the object is charged for, in bytes.
    fn external_bytes(&self) -> usize {
        0
    }

    /// Memory outside every heap that the object holds now, in bytes, for snapshots: messages under way,
    /// values of a map. In contrast to [`SharedObject::external_bytes`] it may change, and no heap is charged
    /// for it.
    fn held_bytes(&self) -> usize {
        self.external_bytes()
    }

    /// The object as an owner of counts of others, if it may be part of a cycle: an object that may keep
    /// parcels, islands or shared objects, or something that may.
    fn holder(&self) -> Option<&dyn crate::cycle_collector::Holder> {
        None
    }

    /// What `tostring` says after the kind's name; the address if `None`.
    fn label(&self) -> Option<String> {
        None
    }
}

/// Elements that are made and taken apart by the object: `o[i]` and `o[i] = v` call these.
pub trait Indexed {
    /// How many there are.
    fn count(&self) -> usize;
    /// Element `at`, counted from 0 and below the count. `this` is the object as a value.
    ///
    /// # Errors
    /// "not enough memory"
    fn element(&self, vm: &mut Vm, this: Value, at: usize) -> LuaResult<Value>;
    /// Stores element `at`, counted from 0 and below the count.
    ///
    /// # Errors
    /// The value is none that the element can hold.
    fn set_element(&self, vm: &mut Vm, this: Value, at: usize, v: Value) -> LuaResult<()>;
    /// The field `name` of element `at`, where `element` would make something only to ask it for the field;
    /// `None`: ask the element.
    fn element_field(
        &self,
        vm: &mut Vm,
        at: usize,
        name: Gc<crate::object::LuaString>,
    ) -> Option<LuaResult<Value>> {
        let _ = (vm, at, name);
        None
    }
    /// What messages call the whole: "array of 5 strings".
    fn describe(&self) -> String;
}

/// The static description of a kind of shared objects.
pub struct SharedKind {
    /// `__name` of the metatable: what messages call a value of this kind.
    pub name: &'static str,
    /// Fills the metatable for a domain that meets the kind for the first time. `__name`, `__metatable` and
    /// `__tostring` are there already.
    pub open: fn(&mut Vm, Gc<Table>) -> LuaResult<()>,
    /// Values of this kind are never seen as such: they carry something else to another domain, and this
    /// makes it there.
    pub revive: Option<Revive>,
    index: OnceLock<u32>,
}

/// Makes a value of what a shared object has carried to a domain.
pub type Revive = fn(&mut Vm, &SharedArc) -> LuaResult<Value>;
/// What carries a userdata to another domain; `None`: it does not cross.
pub type Carry = fn(Gc<crate::object::Userdata>) -> Option<SharedArc>;

static KINDS: AtomicU32 = AtomicU32::new(0);

impl SharedKind {
    /// A kind with this name and these contents of its metatable.
    pub const fn new(name: &'static str, open: fn(&mut Vm, Gc<Table>) -> LuaResult<()>) -> SharedKind {
        SharedKind { name, open, revive: None, index: OnceLock::new() }
    }

    /// A kind whose objects only carry something to another domain.
    pub const fn carrier(name: &'static str, revive: Revive) -> SharedKind {
        SharedKind { name, open: |_, _| Ok(()), revive: Some(revive), index: OnceLock::new() }
    }

    /// Number of the kind in this process.
    fn index(&self) -> u32 {
        *self.index.get_or_init(|| KINDS.fetch_add(1, Ordering::Relaxed))
    }
}

/// The type of an array's elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Element {
    F64 = 1,
    F32 = 2,
    I64 = 3,
    I32 = 4,
    U8 = 5,
}

impl Element {
    /// Its name in programs.
    pub const fn name(self) -> &'static str {
        match self {
            Element::F64 => "f64",
            Element::F32 => "f32",
            Element::I64 => "i64",
            Element::I32 => "i32",
            Element::U8 => "u8",
        }
    }

    /// Its size in bytes.
    pub const fn size(self) -> usize {
        match self {
            Element::F64 | Element::I64 => 8,
            Element::F32 | Element::I32 => 4,
            Element::U8 => 1,
        }
    }
}

/// Where the elements of a shared array are.
#[derive(Clone, Copy)]
pub struct ArrayView {
    data: *mut u8,
    len: usize,
    element: Element,
    /// In two dimensions `rows * columns == len`; in one, both are 0.
    rows: usize,
    columns: usize,
}

// SAFETY: elements are only touched as atomics.
unsafe impl Send for ArrayView {}
// SAFETY: as above.
unsafe impl Sync for ArrayView {}

/// Why a value cannot be an element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ElementError {
    /// It is not a number.
    NotANumber,
    /// The elements are integers and the number has no exact integer.
    NotAnInteger,
    /// It is beyond what the element can hold.
    OutOfRange,
}

impl ArrayView {
    /// A view of `len` elements from `data` on.
    ///
    /// # Safety
    /// There are that many elements, aligned to their size, touched as atomics only, for as long as the
    /// object that gives the view lives.
    pub const unsafe fn new(data: *mut u8, len: usize, element: Element) -> ArrayView {
        ArrayView { data, len, element, rows: 0, columns: 0 }
    }

    /// The same elements in rows and columns, which are as many.
    pub fn in_rows(self, rows: usize, columns: usize) -> ArrayView {
        assert!(rows.checked_mul(columns) == Some(self.len));
        ArrayView { rows, columns, ..self }
    }

    /// Rows and columns; `None`: the array has one dimension.
    pub fn shape(self) -> Option<(usize, usize)> {
        (self.columns != 0).then_some((self.rows, self.columns))
    }

    /// How many elements there are.
    #[allow(clippy::len_without_is_empty)]
    #[inline(always)]
    pub fn len(self) -> usize {
        self.len
    }

    /// Their type.
    #[inline(always)]
    pub fn element(self) -> Element {
        self.element
    }

    /// Where they are.
    pub fn data(self) -> *mut u8 {
        self.data
    }

    /// Element `at`, counted from 0; `None` beyond the end.
    #[inline(always)]
    pub fn get(self, at: usize) -> Option<Value> {
        if at >= self.len {
            return None;
        }
        // SAFETY: within the array, by the promise of `new`.
        unsafe {
            Some(match self.element {
                Element::F64 => {
                    Value::raw(Tag::FLOAT, (*self.data.cast::<AtomicU64>().add(at)).load(Ordering::Relaxed))
                }
                Element::F32 => {
                    let bits = (*self.data.cast::<AtomicU32>().add(at)).load(Ordering::Relaxed);
                    Value::float(f32::from_bits(bits) as f64)
                }
                Element::I64 => Value::int((*self.data.cast::<AtomicI64>().add(at)).load(Ordering::Relaxed)),
                Element::I32 => {
                    Value::int((*self.data.cast::<AtomicI32>().add(at)).load(Ordering::Relaxed) as i64)
                }
                Element::U8 => {
                    Value::int((*self.data.cast::<AtomicU8>().add(at)).load(Ordering::Relaxed) as i64)
                }
            })
        }
    }

    /// Stores element `at`, counted from 0 and below the length. A float element takes any number; an integer
    /// element one that has an exact integer within its range.
    ///
    /// # Errors
    /// The value is none that the element can hold.
    #[inline(always)]
    pub fn set(self, at: usize, v: Value) -> Result<(), ElementError> {
        assert!(at < self.len);
        let relaxed = Ordering::Relaxed;
        // SAFETY: within the array, by the promise of `new`.
        unsafe {
            match self.element {
                Element::F64 => {
                    let x = v.as_number().ok_or(ElementError::NotANumber)?;
                    (*self.data.cast::<AtomicU64>().add(at)).store(x.to_bits(), relaxed)
                }
                Element::F32 => {
                    let x = v.as_number().ok_or(ElementError::NotANumber)?;
                    (*self.data.cast::<AtomicU32>().add(at)).store((x as f32).to_bits(), relaxed)
                }
                Element::I64 => (*self.data.cast::<AtomicI64>().add(at)).store(integer(v)?, relaxed),
                Element::I32 => {
                    let i = i32::try_from(integer(v)?).map_err(|_| ElementError::OutOfRange)?;
                    (*self.data.cast::<AtomicI32>().add(at)).store(i, relaxed)
                }
                Element::U8 => {
                    let i = u8::try_from(integer(v)?).map_err(|_| ElementError::OutOfRange)?;
                    (*self.data.cast::<AtomicU8>().add(at)).store(i, relaxed)
                }
            }
        }
        Ok(())
    }
}

#[inline(always)]
fn integer(v: Value) -> Result<i64, ElementError> {
    if let Some(i) = v.as_int() {
        return Ok(i);
    }
    match crate::num::number_to_int(v) {
        Some(i) => Ok(i),
        None if v.is_number() => Err(ElementError::NotAnInteger),
        None => Err(ElementError::NotANumber),
    }
}

/// A domain's reference to a shared object; see the module's essay.
#[repr(C)]
pub struct SharedRef {
    pub(crate) header: Header,
    /// Owned: one strong count.
    pub(crate) object: ManuallyDrop<SharedArc>,
    pub(crate) kind: u32,
    /// `Element`; 0: no array.
    pub(crate) element: u8,
    pub(crate) data: *mut u8,
    pub(crate) len: usize,
    /// As in [`ArrayView`].
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

impl SharedRef {
    /// The object.
    pub fn object(&self) -> &SharedArc {
        &self.object
    }

    /// The object's address: its identity in the process.
    #[inline(always)]
    pub fn identity(&self) -> usize {
        self.object.address()
    }

    /// The object as a `T`, if it is one.
    pub fn downcast<T: SharedObject>(&self) -> Option<&T> {
        let object: &dyn Any = &**self.object;
        object.downcast_ref()
    }

    /// The elements, if the object is an array.
    #[inline(always)]
    pub fn elements(&self) -> Option<ArrayView> {
        let element = match self.element {
            0 => return None,
            1 => Element::F64,
            2 => Element::F32,
            3 => Element::I64,
            4 => Element::I32,
            _ => Element::U8,
        };
        let (rows, columns) = (self.rows, self.columns);
        Some(ArrayView { data: self.data, len: self.len, element, rows, columns })
    }

    /// Writes the fields of a reference to `object` behind the header at `at`, which takes over the count.
    ///
    /// # Safety
    /// There is room for a `SharedRef` at `at`.
    pub(crate) unsafe fn init(at: *mut SharedRef, object: SharedArc) {
        let view = object.elements();
        // SAFETY: the caller's promise; every field but the header is written.
        unsafe {
            (*at).kind = object.kind().index();
            (*at).element = view.map_or(0, |v| v.element as u8);
            (*at).data = view.map_or(null_mut(), |v| v.data);
            (*at).len = view.map_or(0, |v| v.len);
            (*at).rows = view.map_or(0, |v| v.rows);
            (*at).columns = view.map_or(0, |v| v.columns);
            (&raw mut (*at).object).write(ManuallyDrop::new(object));
        }
    }
}

/// A domain's shared objects.
#[derive(Default)]
pub(crate) struct SharedRefs {
    /// Metatables by kind; null: not met yet. Roots.
    pub metatables: Vec<*mut Table>,
    /// The reference to each object, by the object's address. Purged when the collector finds one dead.
    known: std::collections::HashMap<usize, *mut SharedRef, foldhash::fast::FixedState>,
    /// All references of the domain, oldest first; the first `old` of them have survived a collection.
    all: Vec<*mut SharedRef>,
    old: usize,
}

impl SharedRefs {
    /// How many references there are.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// After marking: drops the counts of references that died; at a scope's end, of those behind the first
    /// `scope`. Returns the external bytes they were charged for.
    pub(crate) fn sweep(
        &mut self,
        scope: Option<usize>,
        minor: bool,
        is_marked: impl Fn(*mut SharedRef) -> bool,
    ) -> isize {
        let from = scope.unwrap_or(if minor { self.old } else { 0 });
        let (mut to, mut freed) = (from, 0);
        let dead = self.all[from..].iter().filter(|&&r| !is_marked(r)).count();
        // Most are: it takes less to enter the others again than to look for each of these.
        let most = dead > self.all.len() - dead;
        for at in from..self.all.len() {
            let r = self.all[at];
            if is_marked(r) {
                self.all[to] = r;
                to += 1;
                continue;
            }
            // SAFETY: dead for the program but not freed yet; the count is dropped once, as it leaves the
            // list.
            unsafe {
                freed += (*r).object.external_bytes() as isize;
                if !most {
                    self.known.remove(&(*r).identity());
                }
                ManuallyDrop::drop(&mut (*r).object);
            }
        }
        self.all.truncate(to);
        if most {
            self.known.clear();
            // SAFETY: these are alive.
            self.known.extend(self.all.iter().map(|&r| unsafe { ((*r).identity(), r) }));
        }
        if scope.is_none() {
            self.old = to;
        }
        freed
    }

    /// Drops all counts: the domain ends.
    pub(crate) fn release(&mut self) {
        self.known.clear();
        for r in self.all.drain(..) {
            // SAFETY: nothing reads the objects of the domain afterwards.
            unsafe { ManuallyDrop::drop(&mut (*r).object) };
        }
    }
}

impl Vm {
    /// This domain's reference to a shared object.
    pub fn shared_ref(&mut self, object: impl Into<SharedArc>) -> Gc<SharedRef> {
        self.reference_to(object.into())
    }

    fn reference_to(&mut self, object: SharedArc) -> Gc<SharedRef> {
        let identity = object.address();
        if let Some(&known) = self.lua.crossing.shared_refs.known.get(&identity) {
            // SAFETY: the sweeps remove the dead.
            return unsafe { Gc::from_ptr(known) };
        }
        let external = object.external_bytes();
        let r: *mut SharedRef = self.heap.alloc(Tag::SHARED.0, size_of::<SharedRef>()).as_ptr().cast();
        // SAFETY: freshly allocated.
        unsafe { SharedRef::init(r, object) };
        self.lua.crossing.shared_refs.known.insert(identity, r);
        self.lua.crossing.shared_refs.all.push(r);
        self.heap.charge_common(external as isize);
        // SAFETY: just made; it is in this frame while the metatable's maker runs.
        let r = unsafe { Gc::from_ptr(r) };
        if self.known_shared_metatable(r).is_none()
            && let Err(thrown) = self.shared_metatable(r)
        {
            // Memory is short, or the native is to be run again where it can call Lua, which the signal says
            // ([`Vm::unpack`] asks): whoever needs the metatable tries again.
            let _ = self.catch(thrown);
        }
        r
    }

    /// Makes the metatable of an object's kind, if this domain has none: so that [`Vm::shared_ref`] runs
    /// nothing and collects nothing for it.
    pub(crate) fn meet_kind(&mut self, object: &SharedArc) -> LuaResult<()> {
        let at = object.kind().index() as usize;
        let known = self.lua.crossing.shared_refs.metatables.get(at).is_some_and(|mt| !mt.is_null());
        if known || object.kind().revive.is_some() {
            return Ok(());
        }
        let r = self.shared_ref(object.clone());
        self.shared_metatable(r)?;
        Ok(())
    }

    /// The shared objects that this domain has references to.
    pub fn shared_objects(&self) -> impl Iterator<Item = &dyn SharedObject> {
        // SAFETY: the sweeps remove the dead.
        self.lua.crossing.shared_refs.all.iter().map(|&r| unsafe { &**(*r).object })
    }

    /// Sets what is asked whether a userdata crosses to other domains.
    pub fn set_userdata_carrier(&mut self, carry: Carry) {
        self.lua.crossing.carry_userdata = Some(carry);
    }

    /// The reference through which this domain knows the object of `r`, if there is one.
    pub(crate) fn known_shared(&self, r: Gc<SharedRef>) -> Option<Gc<SharedRef>> {
        // SAFETY: the sweeps remove the dead.
        self.lua.crossing.shared_refs.known.get(&r.identity()).map(|&known| unsafe { Gc::from_ptr(known) })
    }

    /// The reference through which this domain knows the object of `r`, which may be one inside an island.
    pub(crate) fn canonical_shared(&mut self, r: Gc<SharedRef>) -> Gc<SharedRef> {
        self.shared_ref(r.object().clone())
    }

    /// Argument `i` as a shared object of type `T`.
    ///
    /// # Errors
    /// "bad argument", if it is something else.
    #[inline]
    pub fn check_shared<'a, T: SharedObject>(
        &mut self,
        i: u32,
        kind: &'static SharedKind,
    ) -> LuaResult<&'a T> {
        if let Some(r) = self.arg(i).as_shared() {
            // SAFETY: an argument stays on the stack, and so the object alive, until the native returns.
            let r: &'a SharedRef = unsafe { &*r.ptr() };
            if let Some(object) = r.downcast() {
                return Ok(object);
            }
        }
        Err(self.type_error(i, kind.name))
    }

    /// Argument `i` as a counted shared object of type `T`.
    ///
    /// # Errors
    /// "bad argument", if it is something else.
    pub fn check_shared_arc<T: SharedObject>(
        &mut self,
        i: u32,
        kind: &'static SharedKind,
    ) -> LuaResult<Arc<T>> {
        if let Some(r) = self.arg(i).as_shared()
            && let Ok(object) = downcast_arc(r.object().clone())
        {
            return Ok(object);
        }
        Err(self.type_error(i, kind.name))
    }

    /// The metatable of the kind of `r`, made if this domain has not met the kind.
    pub fn shared_metatable(&mut self, r: Gc<SharedRef>) -> LuaResult<Gc<Table>> {
        if let Some(mt) = self.known_shared_metatable(r) {
            return Ok(mt);
        }
        let kind = r.object.kind();
        let mt = self.new_table(0, 24)?;
        let at = r.kind as usize;
        if self.lua.crossing.shared_refs.metatables.len() <= at {
            self.lua.crossing.shared_refs.metatables.resize(at + 1, null_mut());
        }
        self.lua.crossing.shared_refs.metatables[at] = mt.ptr();
        let opened = self.open_shared_metatable(kind, mt);
        if opened.is_err() {
            // It may lack anything: who needs it next makes it anew.
            self.lua.crossing.shared_refs.metatables[at] = null_mut();
        }
        opened.map(|()| mt)
    }

    fn open_shared_metatable(&mut self, kind: &SharedKind, mt: Gc<Table>) -> LuaResult<()> {
        let name = self.value_str(kind.name.as_bytes())?;
        self.set_field(mt, "__name", name)?;
        self.set_field(mt, "__metatable", name)?;
        self.set_field(mt, "__tostring", Value::native(&TO_STRING))?;
        (kind.open)(self, mt)
    }

    /// The metatable of the kind of `r`, if this domain has met the kind.
    #[inline]
    pub(crate) fn known_shared_metatable(&self, r: Gc<SharedRef>) -> Option<Gc<Table>> {
        let mt = *self.lua.crossing.shared_refs.metatables.get(r.kind as usize)?;
        // SAFETY: metatables in the list are roots.
        if mt.is_null() { None } else { Some(unsafe { Gc::from_ptr(mt) }) }
    }

    /// Do two references lead to the same object?
    pub(crate) fn same_shared(a: Gc<SharedRef>, b: Gc<SharedRef>) -> bool {
        a.identity() == b.identity()
    }

    /// `r[i]`, if `r` is an array: an element, or nil beyond its ends.
    #[inline]
    pub(crate) fn shared_element(r: Gc<SharedRef>, i: i64) -> Option<Value> {
        let view = r.elements()?;
        Some(view.get((i as usize).wrapping_sub(1)).unwrap_or(Value::NIL))
    }

    /// `r[i]`, if `r` is a watched array.
    #[cold]
    pub(crate) fn watched_element(&mut self, r: Gc<SharedRef>, i: i64) -> Option<Value> {
        let view = r.object.watched()?;
        let at = (i as usize).wrapping_sub(1);
        if at < view.len() {
            r.object.touch(self, r.into(), at, false);
        }
        Some(view.get(at).unwrap_or(Value::NIL))
    }

    /// `r[i]`, if `r` has elements of its own making: nil beyond its ends.
    pub(crate) fn indexed_element(&mut self, r: Gc<SharedRef>, i: i64) -> Option<LuaResult<Value>> {
        let indexed = r.object.indexed()?;
        let at = (i as usize).wrapping_sub(1);
        if at >= indexed.count() {
            return Some(Ok(Value::NIL));
        }
        Some(indexed.element(self, r.into(), at))
    }

    /// `r[i].name`, if `r` has elements of its own making and can do without.
    pub(crate) fn indexed_field(
        &mut self,
        r: Gc<SharedRef>,
        i: i64,
        name: Gc<crate::object::LuaString>,
    ) -> Option<LuaResult<Value>> {
        let indexed = r.object.indexed()?;
        let at = (i as usize).wrapping_sub(1);
        if at >= indexed.count() {
            return None;
        }
        indexed.element_field(self, at, name)
    }

    /// `r[i] = v`, if `r` is an array; false if it is none.
    ///
    /// # Errors
    /// An index beyond the ends, or a value that is no element.
    #[inline]
    pub(crate) fn set_shared_element(&mut self, r: Gc<SharedRef>, i: i64, v: Value) -> LuaResult<bool> {
        let at = (i as usize).wrapping_sub(1);
        let view = match r.elements() {
            Some(view) => view,
            None => {
                let Some(view) = r.object.watched() else { return self.set_indexed_element(r, i, v) };
                if at < view.len() {
                    r.object.touch(self, r.into(), at, true);
                }
                view
            }
        };
        if at < view.len()
            && let Ok(()) = view.set(at, v)
        {
            return Ok(true);
        }
        self.bad_element(view, i, v).map(|()| true)
    }

    /// As [`Vm::set_shared_element`], of an object with elements of its own making.
    #[cold]
    fn set_indexed_element(&mut self, r: Gc<SharedRef>, i: i64, v: Value) -> LuaResult<bool> {
        let Some(indexed) = r.object.indexed() else { return Ok(false) };
        let at = (i as usize).wrapping_sub(1);
        if at >= indexed.count() {
            let text = format!("index {i} is out of range ({})", indexed.describe());
            return Err(self.error(text));
        }
        indexed.set_element(self, r.into(), at, v).map(|()| true)
    }

    /// Raises what is wrong with storing `v` as element `i` of the array.
    ///
    /// # Errors
    /// Always.
    #[cold]
    pub fn bad_element(&mut self, view: ArrayView, i: i64, v: Value) -> LuaResult<()> {
        let (kind, len) = (view.element().name(), view.len());
        if i < 1 || i as usize > len {
            return Err(self.error(format!("index {i} is out of range (array of {len} {kind} elements)")));
        }
        let text = match view.set(i as usize - 1, v) {
            Ok(()) => return Ok(()),
            Err(ElementError::NotANumber) => {
                let found = self.typename_for_message(v);
                format!("element {i} of this {kind} array must be a number (got {found})")
            }
            Err(ElementError::NotAnInteger) => format!(
                "element {i} of this {kind} array must be an integer (number has no integer representation)"
            ),
            Err(ElementError::OutOfRange) => format!("element {i} of this {kind} array is out of range"),
        };
        Err(self.error(text))
    }
}

static TO_STRING: crate::Native = crate::Native::leaf("tostring", to_string);

fn to_string(vm: &mut Vm) -> LuaResult<u32> {
    let Some(r) = vm.arg(1).as_shared() else {
        return Err(vm.type_error(1, "shared object"));
    };
    let name = r.object.kind().name;
    let text = match r.object.label() {
        Some(label) => format!("{name}: {label}"),
        None => format!("{name}: {:#014x}", r.identity()),
    };
    vm.ret_str(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Numbers(Box<[AtomicU64]>, Element);
    static KIND: SharedKind = SharedKind::new("test.numbers", |vm, mt| {
        let len = Value::native(&LEN);
        vm.set_field(mt, "__len", len)
    });
    static LEN: crate::Native = crate::Native::leaf("len", |vm| {
        let n = vm.check_shared::<Numbers>(1, &KIND)?.0.len() as i64;
        vm.ret(n)
    });
    impl SharedObject for Numbers {
        fn kind(&self) -> &'static SharedKind {
            &KIND
        }
        fn elements(&self) -> Option<ArrayView> {
            // SAFETY: atomics of eight bytes, boxed for the life of the object.
            Some(unsafe { ArrayView::new(self.0.as_ptr() as *mut u8, self.0.len(), self.1) })
        }
    }

    fn run(vm: &mut Vm, source: &str, arg: Value) -> Result<Vec<Value>, String> {
        let f = vm
            .load(source.as_bytes(), b"=test", crate::LoadMode::Text, None)
            .map_err(|e| format!("{e:?}"))?;
        match vm.host_call(f.into(), &[arg]) {
            Ok(n) => Ok((vm.nargs() - n + 1..=vm.nargs()).map(|i| vm.stack_get(i)).collect()),
            Err(e) => Err(format!("{e:?}")),
        }
    }

    #[test]
    fn elements_are_reached_by_index() {
        let vm = &mut *Vm::new();
        let array = Arc::new(Numbers((0..4).map(|_| AtomicU64::new(0)).collect(), Element::I64));
        let a: Value = vm.shared_ref(array.clone()).into();
        let r = run(vm, "local a = ... a[1] = 7 a[4] = 2.0 local i = 1 return a[i], a[4], a[5], a[0], #a", a);
        let r = r.unwrap();
        let ints: Vec<_> = r.iter().map(|v| v.as_int()).collect();
        assert_eq!(ints, [Some(7), Some(2), None, None, Some(4)]);
        assert_eq!(array.0[0].load(Ordering::Relaxed), 7);
        for (code, text) in [
            ("a[5] = 1", "index 5 is out of range (array of 4 i64 elements)"),
            ("a[1] = 'x'", "element 1 of this i64 array must be a number (got string)"),
            ("a[1] = 1.5", "must be an integer"),
            ("a.x = 1", "attempt to index a test.numbers value"),
        ] {
            let e = run(vm, &format!("local a = ... {code}"), a).unwrap_err();
            assert!(e.contains(text), "{code}: {e}");
        }
    }

    struct Watched(Numbers, std::sync::Mutex<Vec<(usize, bool, Option<String>)>>);
    impl SharedObject for Watched {
        fn kind(&self) -> &'static SharedKind {
            &KIND
        }
        fn watched(&self) -> Option<ArrayView> {
            self.0.elements()
        }
        fn touch(&self, vm: &mut Vm, v: Value, at: usize, write: bool) {
            self.1.lock().unwrap().push((at, write, vm.operand_name(v)));
        }
    }

    #[test]
    fn a_watched_array_is_told_of_each_access() {
        let vm = &mut *Vm::new();
        let numbers = Numbers((0..4).map(|_| AtomicU64::new(0)).collect(), Element::I64);
        let array = Arc::new(Watched(numbers, Default::default()));
        let a: Value = vm.shared_ref(array.clone()).into();
        let r =
            run(vm, "local a = ... a[1] = 7 local i = 2 a[i] = 8 return a[1], a[i], a[5], a[2.0], a[0]", a);
        let r: Vec<_> = r.unwrap().iter().map(|v| v.as_int()).collect();
        assert_eq!(r, [Some(7), Some(8), None, Some(8), None]);
        let told: Vec<_> = array.1.lock().unwrap().drain(..).collect();
        let name = || Some("local 'a'".to_owned());
        let accesses = [(0, true), (1, true), (0, false), (1, false), (1, false)];
        assert_eq!(told, accesses.map(|(at, write)| (at, write, name())));
        for (code, text) in [
            ("a[5] = 1", "test:1: index 5 is out of range (array of 4 i64 elements)"),
            ("a[1] = 'x'", "element 1 of this i64 array must be a number (got string)"),
            ("a.x = 1", "attempt to index a test.numbers value"),
        ] {
            let e = run(vm, &format!("local a = ... {code}"), a).unwrap_err();
            assert!(e.contains(text), "{code}: {e}");
        }
    }

    #[test]
    fn a_note_goes_with_a_parcel_and_is_not_among_its_values() {
        let vm = &mut *Vm::new();
        let text = "a text that is too long for a parcel without a graph";
        let v = vm.value_str(text.as_bytes()).unwrap();
        for values in [&[][..], &[Value::int(5)], &[v, Value::int(6)]] {
            let plain = vm.pack(values, crate::parcel::PackRules::MESSAGE).ok().unwrap();
            let bytes = plain.bytes();
            let parcel = plain.with_note(Arc::new(77_u32));
            assert_eq!((parcel.len() as usize, parcel.bytes()), (values.len(), bytes));
            assert_eq!(parcel.note().and_then(|n| n.downcast_ref::<u32>()), Some(&77));
            let below = vm.nargs();
            assert_eq!(vm.unpack(&parcel).ok().unwrap() as usize, values.len());
            for (n, v) in values.iter().enumerate() {
                assert!(Vm::raw_equals(vm.stack_get(below + 1 + n as u32), *v));
            }
            vm.truncate(below);
        }
    }

    #[test]
    fn one_reference_per_object_until_it_dies() {
        let vm = &mut *Vm::new();
        let array = Arc::new(Numbers(Box::new([]), Element::F64));
        let a = vm.shared_ref(array.clone());
        assert!(a == vm.shared_ref(array.clone()));
        assert_eq!(Arc::strong_count(&array), 2);
        let mut other = Vm::new();
        let b = other.shared_ref(array.clone());
        assert!(Vm::raw_equals(a.into(), b.into()));
        drop(other);
        assert_eq!(Arc::strong_count(&array), 2);
        let many: Vec<_> = (0..100).map(|_| Arc::new(Numbers(Box::new([]), Element::F64))).collect();
        for n in &many {
            vm.shared_ref(n.clone());
        }
        vm.collect_full();
        // The native stack is scanned conservatively: one or two may still be seen there.
        assert!(many.iter().filter(|n| Arc::strong_count(n) > 1).count() < 5);
    }
}
