//! What the tests of this crate's lower parts share: a `Vm` with a heap, strings and shapes and nothing above them.

use crate::Vm;
use perilune_heap::{Heap, HeapOptions};
use std::mem::{ManuallyDrop, MaybeUninit};

/// A `Vm` in which only `heap`, `strings`, `shapes`, `error` and `proto_version` may be used. It is leaked.
pub(crate) fn bare_vm() -> ManuallyDrop<Box<Vm>> {
    let mut vm: Box<MaybeUninit<Vm>> = Box::new_zeroed();
    let p = vm.as_mut_ptr();
    // SAFETY: the fields that tests of tables and strings touch are initialised here; the others are neither read nor dropped.
    unsafe {
        (&raw mut (*p).heap).write(Heap::new(HeapOptions::default()));
        (&raw mut (*p).strings).write(Default::default());
        (&raw mut (*p).shapes).write(Default::default());
        ManuallyDrop::new(vm.assume_init())
    }
}
