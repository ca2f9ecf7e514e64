//! How many allocations a chunk takes: a large program is thousands of small functions, and what each
//! allocates is most of the time that loading takes; so is it of a small text.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fmt::Write;

struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: the system's allocator does all.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(p, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Functions with parameters, variables, constants, blocks, loops, upvalues.
fn program(functions: usize) -> String {
    let mut text = String::from("local shared = {}\n");
    for n in 0..functions {
        writeln!(
            text,
            "function shared.f{n}(a, b) local t = {{x = a, y = b}}
              if a > b then return t.x + shared.total
              elseif a == b then for j = 1, #t do t[j] = tostring(j) .. 'v' end
              else for k, v in pairs(t) do shared[k] = v end end
              return t end"
        )
        .expect("a string takes everything");
    }
    text
}

fn allocations(text: &str) -> usize {
    let before = COUNT.get();
    drop(perilune_syntax::compile(text.as_bytes(), b"=program").expect("the program is right"));
    COUNT.get() - before
}

#[test]
fn a_function_takes_few_allocations() {
    let (some, more) = (allocations(&program(1000)), allocations(&program(3000)));
    // The prototype and its lists: code, lines, constants, variables, upvalues, templates and the one among
    // them; its name; what assignments need meanwhile.
    assert!(more - some <= 13 * 2000, "{} allocations for 2000 functions", more - some);
}

#[test]
fn a_small_text_takes_what_its_prototype_does() {
    // Lists that are kept come to be.
    allocations("return y + 0.5");
    // The prototype, its code, its upvalue, its source.
    assert_eq!(allocations("return 2 + 1"), 4);
    // Two constants more, one of them a name.
    assert_eq!(allocations("return x + 1000.5"), 6);
}
