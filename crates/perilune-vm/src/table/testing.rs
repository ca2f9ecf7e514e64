//! What the tests of this crate's lower parts share: a `Vm` with a heap, strings and shapes and nothing above
//! them, and a collector's client that knows as much.

use crate::Vm;
use crate::edge::Edge;
use crate::object::Table;
use crate::shape::ShapeTable;
use crate::string::StringTable;
use crate::value::{Gc, Tag};
use perilune_heap::{Client, Cycle, Heap, HeapOptions, Marker, Obj};
use std::mem::{ManuallyDrop, MaybeUninit};

/// A `Vm` in which only `heap`, `strings`, `shapes`, `error`, `drained` and `proto_version` may be used. It
/// is leaked.
pub(crate) fn bare_vm() -> ManuallyDrop<Box<Vm>> {
    let mut vm: Box<MaybeUninit<Vm>> = Box::new_zeroed();
    let p = vm.as_mut_ptr();
    // SAFETY: the fields that tests of tables and strings touch are initialised here; the others are neither
    // read nor dropped.
    unsafe {
        (&raw mut (*p).heap).write(Heap::new(HeapOptions { poison: true, ..HeapOptions::default() }));
        (&raw mut (*p).lua.interned.strings).write(Default::default());
        (&raw mut (*p).lua.interned.shapes).write(Default::default());
        (&raw mut (*p).lua.caches.shared).write(Default::default());
        ManuallyDrop::new(vm.assume_init())
    }
}

/// Which collection a test wants.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Collect {
    Minor,
    /// A minor and a slice of a major that traces that many objects.
    Slice(u32),
    Full,
    /// None, but the heap's invariants are checked.
    Verify,
}

/// Collects in a `Vm` that holds only strings and tables without weak references; `roots` stay.
pub(crate) fn collect(vm: &mut Vm, roots: &[Gc<Table>], how: Collect) {
    let Vm { heap, lua } = vm;
    // As every collection does: what it knows by address may be another's then.
    lua.caches.shared.clear();
    let (strings, shapes) = (&mut lua.interned.strings, &mut lua.interned.shapes);
    let client = &mut TestClient { roots, strings, shapes };
    match how {
        Collect::Minor => heap.collect_minor(client),
        Collect::Slice(objects) => heap.step_objects(client, objects),
        Collect::Full => heap.collect_full(client),
        Collect::Verify => heap.verify(client).unwrap(),
    }
}

struct TestClient<'a> {
    roots: &'a [Gc<Table>],
    strings: &'a mut StringTable,
    shapes: &'a mut ShapeTable,
}

impl TestClient<'_> {
    fn table<'a>(obj: Obj) -> Option<&'a Table> {
        // SAFETY: the heap hands out live objects, whose kind says what they are.
        unsafe { if obj.as_ref().kind == Tag::TABLE.0 { Some(obj.cast::<Table>().as_ref()) } else { None } }
    }
}

impl Client for TestClient<'_> {
    unsafe fn trace(&mut self, obj: Obj, m: &mut Marker<'_>) {
        // SAFETY: the heap's promise is the same.
        unsafe { self.trace_part(obj, 0, m) }
    }

    unsafe fn trace_part(&mut self, obj: Obj, at: usize, m: &mut Marker<'_>) {
        let Some(t) = Self::table(obj) else { return };
        // SAFETY: the heap's promise is the same.
        if let Some(next) = unsafe { t.visit_portion(at, &mut |_: Edge, o| _ = m.mark(o)) } {
            // SAFETY: an object of the test's heap that no collection has freed yet.
            unsafe { m.trace_later(obj, next) };
        }
    }

    unsafe fn trace_range(&mut self, owner: Obj, lo: usize, hi: usize, m: &mut Marker<'_>) {
        let Some(t) = Self::table(owner) else { return };
        // SAFETY: the heap's promise is the same.
        unsafe { t.visit_range((lo, hi), &mut |_: Edge, o| _ = m.mark(o)) }
    }

    fn roots(&mut self, m: &mut Marker<'_>, cycle: Cycle) {
        for root in self.roots {
            // SAFETY: an object of the test's heap that no collection has freed yet.
            unsafe { m.mark(root.obj()) };
        }
        // SAFETY: an object of the test's heap that no collection has freed yet.
        self.shapes.trace(cycle == Cycle::Minor, |o| _ = unsafe { m.mark(o) });
    }

    fn converge(&mut self, _: &mut Marker<'_>, _: Cycle) -> bool {
        false
    }

    fn finish(&mut self, m: &mut Marker<'_>, cycle: Cycle) {
        match cycle {
            Cycle::Minor => {
                // SAFETY: an object of the test's heap that no collection has freed yet.
                self.strings.sweep_minor(
                    |o| unsafe { m.is_marked(o) },
                    |o| m.is_object(o) && unsafe { m.is_marked(o) },
                )
            }
            Cycle::Major => {
                // SAFETY: an object of the test's heap that no collection has freed yet.
                self.strings.sweep_major(
                    |o| unsafe { m.is_marked(o) },
                    |o| m.is_object(o) && unsafe { m.is_marked(o) },
                )
            }
        }
        self.shapes.collected();
    }
}
