//! What grows as programs say asks for memory in a way that can fail: with an allocator that refuses large
//! pieces, shared objects that become large are errors, and what they have is still there. In a process of
//! its own, because the allocator is.

#![allow(missing_docs)]

use perilune_domain::{Config, Runtime};
use perilune_vm::{LoadMode, Vm};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Requests of this size and more are refused.
static LARGEST: AtomicUsize = AtomicUsize::new(usize::MAX);

struct Refusing;

// SAFETY: the system's allocator, which may refuse.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() >= LARGEST.load(Ordering::Relaxed) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;

#[test]
fn channels_and_maps_that_cannot_grow_raise_and_keep_what_they_have() {
    let runtime = Runtime::new(Config::default());
    let mut vm = Vm::with_options(runtime.config().heap.clone());
    perilune_stdlib::open_libs_with(&mut vm, &runtime.config().paths).expect("memory for the libraries");
    perilune_domain::open(&mut vm, &runtime).expect("memory for a field");
    LARGEST.store(256 << 10, Ordering::Relaxed);
    let source = r#"
        local pl = require "perilune"
        local c, m = pl.channel.new(math.maxinteger), pl.map()
        local sent, stored = 0, 0
        local ok, e = pcall(function() for i = 1, 1000000 do c:send(i) sent = i end end)
        assert(not ok and e == "not enough memory", e)
        local ok, e = pcall(function() for i = 1, 3000000 do m:set(i, i) stored = i end end)
        assert(not ok and e == "not enough memory", e)
        assert(#c == sent and sent > 1000 and c:recv() == 1 and c:recv() == 2)
        assert(#m == stored and stored > 1000 and m:get(stored) == stored)
        assert(c:try_send(0))
        -- Those that are there can be replaced, and go, in whichever part of the map they are: one of these parts is full.
        for i = 1, 1000 do assert(m:set(i, -i) == i) end
        for i = 1, 1000 do assert(m:add(i, 1) == 1 - i) end
        for i = 1, 1000 do assert(m:set(-i, nil) == nil and m:set(i, nil) == 1 - i) end
        assert(#m == stored - 1000)
    "#;
    let f = vm.load(source.as_bytes(), b"=test", LoadMode::Text, None).expect("a sound chunk");
    let result = vm.protected_call(f.into(), &[]).expect("no way out but an error");
    // A panic that says where it happened takes memory.
    LARGEST.store(usize::MAX, Ordering::Relaxed);
    assert!(result.is_ok(), "{:?}", result.err());
}
