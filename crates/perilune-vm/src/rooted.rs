//! Values that are kept over calls.
//!
//! A [`Value`] is good while the collector finds it: in a slot of a frame, in an object, on a native stack.
//! Natives have their values there, and pay nothing for it. What a host keeps beside that (a callback in a
//! structure of its own, a module that it looked up once) goes into a slot of the domain's table of roots, by
//! a [`Rooted`].
//!
//! A handle belongs to one state and stays with its owner: it is not `Send`, and the state that it is used
//! with is compared with its own. Dropping it frees the slot, also in the middle of a collection's pause and
//! after the state has gone, because the slots are counted by whoever has a handle.
//!
//! The table is scanned whole by each collection and so needs no barrier. It is meant for tens or hundreds of
//! values; what has thousands keeps them in a table.
//!
//! Rejected: fields of the registry under made-up names (who drops one needs the state, and a forgotten one
//! is never found); a list of handles on the native stack, as other machines have (native frames of
//! coroutines are suspended in any order).

use crate::Vm;
use crate::native::LuaResult;
use crate::value::Value;
use std::cell::RefCell;
use std::rc::Rc;

/// The slots of one state.
#[derive(Default)]
pub(crate) struct Slots(RefCell<List>);

#[derive(Default)]
struct List {
    values: Vec<Value>,
    /// Slots that nobody has; room for all of them is there.
    free: Vec<usize>,
}

impl Slots {
    /// Reports the roots.
    pub fn each(&self, mut f: impl FnMut(Value)) {
        // Index by index: `f` may drop a handle.
        for at in 0.. {
            let Some(v) = self.0.borrow().values.get(at).copied() else { break };
            f(v);
        }
    }
}

/// A value that stays alive for as long as this does; see the module's essay.
///
/// ```
/// use perilune_vm::{Value, Vm};
///
/// let mut vm = Vm::new();
/// let table = vm.new_table(0, 0).unwrap();
/// let kept = vm.root(table.into()).unwrap();
/// vm.collect_full();
/// assert!(kept.get(&vm).as_table() == Some(table));
/// ```
/// ```compile_fail,E0277
/// # use perilune_vm::{Value, Vm};
/// let mut vm = Vm::new();
/// let kept = vm.root(Value::int(1)).unwrap();
/// std::thread::spawn(move || drop(kept)); // its state is of this thread
/// ```
#[must_use = "the value is kept for as long as the handle"]
pub struct Rooted {
    slots: Rc<Slots>,
    at: usize,
}

impl Rooted {
    /// The value.
    ///
    /// # Panics
    /// The state is another one.
    pub fn get(&self, vm: &Vm) -> Value {
        self.check(vm);
        self.slots.0.borrow().values[self.at]
    }

    /// Keeps another value from now on.
    ///
    /// # Panics
    /// The state is another one.
    pub fn set(&mut self, vm: &Vm, v: Value) {
        self.check(vm);
        self.slots.0.borrow_mut().values[self.at] = v;
    }

    #[track_caller]
    fn check(&self, vm: &Vm) {
        assert!(Rc::ptr_eq(&self.slots, &vm.lua.roots.kept), "a value of another state");
    }
}

impl Drop for Rooted {
    fn drop(&mut self) {
        let mut list = self.slots.0.borrow_mut();
        list.values[self.at] = Value::NIL;
        list.free.push(self.at);
    }
}

impl Vm {
    /// Keeps a value alive over calls, until the handle is dropped.
    ///
    /// # Errors
    /// "not enough memory"
    pub fn root(&mut self, v: Value) -> LuaResult<Rooted> {
        let slots = Rc::clone(&self.lua.roots.kept);
        let mut list = slots.0.borrow_mut();
        let at = match list.free.pop() {
            Some(at) => at,
            None => {
                let count = list.values.len() + 1;
                let spare = count - list.free.len();
                if list.values.try_reserve(1).is_err() || list.free.try_reserve(spare).is_err() {
                    drop(list);
                    return Err(self.out_of_memory());
                }
                list.values.push(Value::NIL);
                count - 1
            }
        };
        list.values[at] = v;
        drop(list);
        Ok(Rooted { slots, at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perilune_heap::HeapOptions;

    fn state() -> Box<Vm> {
        let options = HeapOptions { stress: true, verify: true, poison: true, ..HeapOptions::default() };
        Vm::with_options(options)
    }

    /// Strings that nothing else refers to.
    fn text(vm: &mut Vm, n: usize) -> Value {
        vm.value_str(format!("a text of its own, number {n}, too long to be interned anywhere").as_bytes())
            .expect("memory")
    }

    fn is_text(v: Value, n: usize) -> bool {
        v.as_string().is_some_and(|s| s.to_text().contains(&format!("number {n},")))
    }

    #[test]
    fn what_is_kept_outlives_collections_and_slots_are_used_again() {
        let mut vm = state();
        let mut kept: Vec<Option<Rooted>> = Vec::new();
        for n in 0..100 {
            let v = text(&mut vm, n);
            kept.push(Some(vm.root(v).expect("memory")));
            vm.collect_minor();
        }
        vm.collect_full();
        for n in (0..100).step_by(2) {
            kept[n] = None;
        }
        for n in (0..100).step_by(2) {
            let v = text(&mut vm, n + 1000);
            kept[n] = Some(vm.root(v).expect("memory"));
            vm.collect_full();
        }
        assert_eq!(vm.lua.roots.kept.0.borrow().values.len(), 100);
        for (n, handle) in kept.iter().flatten().enumerate() {
            assert!(is_text(handle.get(&vm), if n % 2 == 0 { n + 1000 } else { n }), "{n}");
        }
        let v = text(&mut vm, 7777);
        if let Some(handle) = &mut kept[3] {
            handle.set(&vm, v);
            vm.collect_full();
            assert!(is_text(handle.get(&vm), 7777));
        }
        // Handles may outlive their state.
        drop(vm);
        drop(kept);
    }

    #[test]
    fn what_is_given_up_dies() {
        let mut vm = state();
        let t = vm.new_table(0, 0).expect("memory");
        let weak = vm.new_table(0, 0).expect("memory");
        let mode = vm.new_table(0, 0).expect("memory");
        let (weak_kept, t_kept) = (vm.root(weak.into()).expect("memory"), vm.root(t.into()).expect("memory"));
        let v = vm.value_str(b"v").expect("memory");
        vm.set_field(mode, "__mode", v).expect("memory");
        vm.set_metatable_of(weak.into(), Some(mode)).expect("memory");
        vm.raw_set_int(weak, 1, t.into()).expect("memory");
        let first = |vm: &mut Vm| weak_kept.get(vm).as_table().map(|w| vm.raw_get_int(w, 1));
        vm.collect_full();
        assert!(first(&mut vm).is_some_and(|v| v.as_table().is_some()));
        drop(t_kept);
        // A stray word on the native stack may hold it for a while: not in a list of a hundred.
        let mut handles = Vec::new();
        for n in 2..102 {
            let t = vm.new_table(0, 0).expect("memory");
            vm.raw_set_int(weak, n, t.into()).expect("memory");
            handles.push(vm.root(t.into()).expect("memory"));
        }
        drop(handles);
        vm.collect_full();
        let left = (1..102).filter(|&n| vm.raw_get_int(weak, n).as_table().is_some()).count();
        assert!(left < 10, "{left}");
    }

    #[test]
    #[should_panic = "a value of another state"]
    fn a_handle_is_of_one_state() {
        let (mut one, other) = (state(), state());
        let kept = one.root(Value::TRUE).expect("memory");
        let _ = kept.get(&other);
    }
}
