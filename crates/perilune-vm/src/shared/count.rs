//! Counts of shared objects, and how objects are freed that hold each other.
//!
//! A map may hold a map that holds a map; a channel a message that holds a channel; a lane a pool whose tasks
//! hold lanes. Programs make such chains as long as they like. If the last count of an object were given up
//! where it happens to be, the destructor of each link would run inside that of the one before, and a chain
//! of some thousand links would overflow the native stack.
//!
//! So there is one type for a count of *any* shared object, [`SharedArc`], and it never destroys an object
//! inside the destructor of another. The first to be dropped on a thread opens a list; what is dropped while
//! the list is open goes into the list; whoever opened it destroys what is in it, one object after the other.
//! Whatever refers to what, at most one object is being destroyed by a thread at any time.
//!
//! What keeps it so:
//!
//! * An object can refer to objects of *any* kind only through this type: an `Arc<dyn SharedObject>` does not
//!   exist outside this file (`tests/counts.rs` looks for one).
//! * An `Arc` of a particular type (the outcome of a task, the graph of a parcel, the pool of a lane) may be
//!   part of an object. Such types form no cycle among themselves, so the destructors between two
//!   `SharedArc`s nest no deeper than the types do.
//! * Islands have a list of their own, by the same rule (`perilune_heap`); what an island keeps alive are
//!   `SharedArc`s. Each of the two lists can be open inside the other once.

use super::SharedObject;
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::null_mut;
use std::sync::{Arc, Weak};

type Object = Arc<dyn SharedObject>;

/// A count of a shared object of any kind; see the module's essay.
pub struct SharedArc(ManuallyDrop<Object>);

thread_local! {
    /// The list of objects that this thread is to let go of, which is on its stack; null: none is being
    /// destroyed. It has no destructor, so it is there for as long as the thread is.
    static OPEN: Cell<*mut Vec<Object>> = const { Cell::new(null_mut()) };
}

impl SharedArc {
    /// The object's address: its identity in the process.
    #[inline]
    pub fn address(&self) -> usize {
        Arc::as_ptr(&self.0).cast::<()>() as usize
    }

    /// A reference that does not keep the object.
    pub fn downgrade(&self) -> Weak<dyn SharedObject> {
        Arc::downgrade(&self.0)
    }

    /// How many counts the object has; another thread may change it at any time.
    pub fn count(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    fn into_arc(self) -> Object {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is neither used nor dropped afterwards.
        unsafe { ManuallyDrop::take(&mut this.0) }
    }
}

/// Downcasts a count of a shared object.
///
/// # Errors
/// The count comes back if the object is no `T`.
pub fn downcast_arc<T: SharedObject>(object: SharedArc) -> Result<Arc<T>, SharedArc> {
    let any: &dyn std::any::Any = &*object;
    if !any.is::<T>() {
        return Err(object);
    }
    let any: Arc<dyn std::any::Any + Send + Sync> = object.into_arc();
    match any.downcast::<T>() {
        Ok(t) => Ok(t),
        Err(_) => unreachable!("the type was just compared"),
    }
}

impl<T: SharedObject> From<Arc<T>> for SharedArc {
    #[inline]
    fn from(object: Arc<T>) -> SharedArc {
        SharedArc(ManuallyDrop::new(object))
    }
}

/// The object of a reference that does not keep it, if it is still there.
pub fn upgrade(weak: &Weak<dyn SharedObject>) -> Option<SharedArc> {
    weak.upgrade().map(|object| SharedArc(ManuallyDrop::new(object)))
}

impl Clone for SharedArc {
    #[inline]
    fn clone(&self) -> SharedArc {
        SharedArc(ManuallyDrop::new(Arc::clone(&self.0)))
    }
}

impl Deref for SharedArc {
    type Target = dyn SharedObject;
    #[inline]
    fn deref(&self) -> &(dyn SharedObject + 'static) {
        &**self.0
    }
}

impl Drop for SharedArc {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: taken once, by the destructor.
        let object = unsafe { ManuallyDrop::take(&mut self.0) };
        let open = OPEN.get();
        if open.is_null() {
            return let_go(object);
        }
        // SAFETY: the list is in a call of `let_go` further down this thread's stack, which borrows it only
        // while it takes an object out.
        let open = unsafe { &mut *open };
        if open.len() == open.capacity() && open.try_reserve(1).is_err() {
            // Without memory for the list the object stays for ever: better than the end of the process.
            std::mem::forget(object);
            return;
        }
        open.push(object);
    }
}

/// Lets go of an object and of all that is let go of meanwhile.
fn let_go(object: Object) {
    /// Closes the list, also if a destructor panics.
    struct Close;
    impl Drop for Close {
        fn drop(&mut self) {
            OPEN.set(null_mut());
        }
    }
    let mut list: Vec<Object> = Vec::new();
    let list: *mut Vec<Object> = &mut list;
    debug_assert!(OPEN.get().is_null(), "a thread destroys one object at a time");
    OPEN.set(list);
    let _close = Close;
    drop(object);
    // SAFETY: the list outlives this loop; the reference ends before the object is dropped, whose destructor
    // may add to the list.
    while let Some(object) = unsafe { (*list).pop() } {
        drop(object);
    }
}
