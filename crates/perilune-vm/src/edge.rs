//! Edges of the object graph, and roots: their labels, and who is told of them. Who tells is `graph.rs`, for
//! tables `table/trace.rs`.
//!
//! A label is made of what is at hand where the reference is read. A visitor that has no use for it does not
//! pay for it: visitors are type parameters, the visits are inlined into them, and making a label has no side
//! effects.

use crate::object::{Node, Thread};
use crate::value::{Gc, Value};
use perilune_heap::Obj;

/// What one object is to another that refers to it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Edge {
    /// A buffer of its own, which nothing else refers to.
    Buffer,
    /// The metatable of a table or userdata.
    Metatable,
    /// A field in this slot of the table's shape.
    Field(usize),
    /// An element of the array part: its index.
    Element(usize),
    /// A key of the hash part.
    Key,
    /// The value under this key of the hash part.
    Entry(Value),
    /// The value of an entry whose key is weak; itself it is strong.
    UnderWeakKey,
    /// An upvalue of a Lua function, from 0.
    Upvalue(usize),
    /// An upvalue of a native function, from 0.
    NativeUpvalue(usize),
    /// The instance of a prototype that a function runs, or that is nested in another.
    Code,
    /// A constant of a prototype.
    Constant,
    /// The value of a closed upvalue.
    Variable,
    /// The value of an open upvalue, which is in a slot of its coroutine.
    OpenVariable,
    /// The coroutine that has the variable of an open upvalue.
    VariableOwner,
    /// A user value, from 0.
    UserValue(usize),
    /// What this slot of a value stack holds.
    Slot(*const Value),
    /// An open upvalue of a coroutine.
    OpenUpvalue,
    /// The hook of a coroutine.
    Hook,
    /// The error that a coroutine has died of.
    Failure,
    /// Who resumed a coroutine.
    Resumer,
    /// The next fiber of a list.
    NextFiber,
    /// The coroutine that ran in a fiber when it parked.
    FiberTop,
    /// The error that is on its way in a parked fiber.
    FiberError,
}

/// Who is told what an object refers to.
pub(crate) trait EdgeVisitor {
    /// It holds `to`.
    fn edge(&mut self, edge: Edge, to: Obj);
    /// It refers to `to` weakly.
    #[inline(always)]
    fn weak(&mut self, _edge: Edge, _to: Obj) {}
    /// An entry of a table with weak keys: the key is weak, and holds the value for as long as the table is
    /// alive.
    #[inline(always)]
    fn ephemeron(&mut self, _entry: *const Node) {}
    /// Every entry whose key alone is weak, whatever its value is: it goes when the key dies.
    #[inline(always)]
    fn mortal(&mut self, _entry: *mut Node) {}
    /// Words from one address to the other, a suspended native stack of a coroutine, may refer to objects.
    #[inline(always)]
    fn words(&mut self, _lo: usize, _hi: usize) {}
    /// What lies at `top` and above on the stack of a coroutine is not in use.
    #[inline(always)]
    fn unused_slots(&mut self, _th: *mut Thread, _top: *mut Value) {}

    /// It holds `v`, if that is an object.
    #[inline(always)]
    fn value(&mut self, edge: Edge, v: Value) {
        if let Some(to) = v.obj() {
            self.edge(edge, to);
        }
    }
    /// It holds what is at `p`, unless that is null.
    #[inline(always)]
    fn pointer<T>(&mut self, edge: Edge, p: *mut T) {
        if let Some(to) = Obj::new(p.cast()) {
            self.edge(edge, to);
        }
    }
    /// It holds the buffer whose storage begins at `p`, unless that is null.
    #[inline(always)]
    fn buffer<T>(&mut self, p: *mut T) {
        if !p.is_null() {
            // Storage begins that far behind the header (`object.rs`).
            self.pointer(Edge::Buffer, p.cast::<u8>().wrapping_sub(crate::table::BUFFER_DATA));
        }
    }
}

impl<F: FnMut(Edge, Obj)> EdgeVisitor for F {
    #[inline(always)]
    fn edge(&mut self, edge: Edge, to: Obj) {
        self(edge, to);
    }
}

/// Why an object lives by itself. The order is that in which programs know them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Root {
    /// The table of globals.
    Globals,
    /// The registry.
    Registry,
    /// What hosts keep (`rooted.rs`).
    Kept,
    /// The main coroutine.
    Main,
    /// The first of the live fibers: each leads to the next.
    Fibers,
    /// The fiber that runs.
    RunningFiber,
    /// A coroutine that runs, or waits for one that does.
    Running,
    /// A coroutine of code that is put aside (`host.rs`).
    Aside,
    /// The error on its way there.
    AsideError,
    /// The first of the ended fibers that are kept to be used again.
    SpareFibers,
    /// What native code calls the interpreter by.
    CallStub,
    /// The metatable of a basic type, by [`crate::Type`].
    TypeMetatable(usize),
    /// A metatable of shared objects.
    SharedMetatable,
    /// What has been made of a function of an island since the last collection.
    IslandFunction,
    /// The name of a metamethod.
    EventName,
    /// The name of a state of coroutines.
    StatusName,
    /// What values that cross domains need here.
    Crossing,
    /// The name of a field in some shape.
    FieldName,
    /// The error on its way.
    Error,
    /// A dead object whose finaliser is still to be called.
    Pending,
    /// A dead coroutine whose native calls are still to be discarded.
    Cancelled,
}

/// Who is told of roots.
pub(crate) trait RootVisitor {
    /// An object lives.
    fn root(&mut self, root: Root, to: Obj);
    /// A coroutine lives that changes without barriers.
    fn busy(&mut self, root: Root, th: Gc<Thread>);
    /// Words from one address to the other, of a native stack in use, may refer to objects.
    fn words(&mut self, lo: usize, hi: usize);

    /// `v` lives, if it is an object.
    #[inline(always)]
    fn root_value(&mut self, root: Root, v: Value) {
        if let Some(to) = v.obj() {
            self.root(root, to);
        }
    }
    /// What is at `p` lives, unless that is null.
    #[inline(always)]
    fn root_pointer<T>(&mut self, root: Root, p: *mut T) {
        if let Some(to) = Obj::new(p.cast()) {
            self.root(root, to);
        }
    }
}
