//! Where the object graph is entered: what lives by itself.

use crate::edge::{Root, RootVisitor};
use crate::value::{Gc, Value};
use crate::{Roots, State};
use perilune_heap::Obj;

/// Which roots are asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    All,
    /// Without those that no longer refer to anything younger than the last collection.
    Young,
}

/// Tells of the roots, but for those of [`visit_dependent_roots`] and [`visit_late_roots`].
///
/// # Safety
/// The state is at rest: nothing changes it meanwhile.
pub(crate) unsafe fn visit_roots(lua: &State, which: Which, v: &mut impl RootVisitor) {
    let Roots {
        main_thread,
        // Waits for the running one, or is put aside.
        base_thread: _,
        registry,
        globals,
        type_metatables,
        event_names,
        status_names,
        call_stub,
        kept,
    } = &lua.roots;
    let main = *main_thread;
    // SAFETY: coroutines of the state are live.
    unsafe {
        let mut met_main = false;
        let mut th = lua.thread;
        while !th.is_null() {
            met_main |= th == main;
            v.busy(if th == main { Root::Main } else { Root::Running }, Gc::from_ptr(th));
            th = (*th).resumer;
        }
        if !met_main {
            v.busy(Root::Main, Gc::from_ptr(main));
        }
        let [live, spare, running] = lua.fibers.roots();
        v.root_pointer(Root::Fibers, live);
        v.root_pointer(Root::SpareFibers, spare);
        v.root_pointer(Root::RunningFiber, running);
        lua.hosting.owners.visit_aside(v);
    }
    v.root_pointer(Root::Registry, *registry);
    v.root_pointer(Root::Globals, *globals);
    v.root_pointer(Root::CallStub, *call_stub);
    kept.each(|kept| v.root_value(Root::Kept, kept));
    for (n, &t) in type_metatables.iter().enumerate() {
        v.root_pointer(Root::TypeMetatable(n), t);
    }
    for &t in &lua.crossing.shared_refs.metatables {
        v.root_pointer(Root::SharedMetatable, t);
    }
    if which == Which::Young {
        lua.islands.functions.recent().iter().for_each(|&f| v.root_value(Root::IslandFunction, f));
    }
    event_names.iter().for_each(|&s| v.root_pointer(Root::EventName, s));
    status_names.iter().for_each(|&s| v.root_pointer(Root::StatusName, s));
    lua.crossing.parcel.trace(which == Which::All, |o| v.root(Root::Crossing, o));
    v.root_value(Root::Error, lua.errors.value);
    lua.gc.pending.iter().for_each(|&o| v.root_value(Root::Pending, o));
    lua.interned.shapes.trace(which == Which::Young, |o| v.root(Root::FieldName, o));
    lua.stacks.scan(&mut |lo, hi| v.words(lo, hi));
}

/// Tells of roots that are some as long as something else lives: what this domain has made of a function in
/// an island, with that function.
pub(crate) fn visit_dependent_roots(lua: &State, mut root: impl FnMut(Value, Obj)) {
    for (function, own) in lua.islands.functions.entries() {
        if let Some(own) = own.obj() {
            root(function, own);
        }
    }
}

/// Tells of roots that count as dead for weak references and finalisers, and are kept all the same.
pub(crate) fn visit_late_roots(lua: &State, v: &mut impl RootVisitor) {
    lua.gc.cancelled.iter().for_each(|&th| v.root_pointer(Root::Cancelled, th));
}
