//! What ThreadSanitizer is told of native stacks.
//!
//! To it each native stack is a *fiber*: what one does is in order, and a switch orders what comes before it
//! before what comes after. Without being told, it takes a switch for a stack that has gone wild, and what a
//! coroutine did on one OS thread and does on another for a race. In other builds these are nothing.

#[cfg(feature = "race-sanitizer")]
mod fibers {
    use std::ffi::{c_uint, c_void};

    unsafe extern "C" {
        fn __tsan_get_current_fiber() -> *mut c_void;
        fn __tsan_create_fiber(flags: c_uint) -> *mut c_void;
        fn __tsan_destroy_fiber(fiber: *mut c_void);
        fn __tsan_switch_to_fiber(fiber: *mut c_void, flags: c_uint);
    }

    /// A native stack's fiber, and that of the stack that it was entered from.
    pub(crate) struct Told {
        own: *mut c_void,
        outer: *mut c_void,
    }

    impl Told {
        /// Of a native stack that has not been entered.
        pub fn new() -> Told {
            // SAFETY: may be called at any time.
            Told { own: unsafe { __tsan_create_fiber(0) }, outer: std::ptr::null_mut() }
        }
        /// The running stack is about to switch to the native stack.
        pub fn enter(&mut self) {
            // SAFETY: the fiber exists; the switch itself follows.
            unsafe {
                self.outer = __tsan_get_current_fiber();
                __tsan_switch_to_fiber(self.own, 0);
            }
        }
        /// The native stack is about to switch back.
        pub fn leave(&mut self) {
            // SAFETY: the stack that entered waits for this; the switch itself follows.
            unsafe { __tsan_switch_to_fiber(self.outer, 0) };
        }
    }

    impl Drop for Told {
        fn drop(&mut self) {
            // SAFETY: the native stack is finished, so its fiber does not run.
            unsafe { __tsan_destroy_fiber(self.own) };
        }
    }
}

#[cfg(not(feature = "race-sanitizer"))]
mod fibers {
    /// Nobody is told.
    pub(crate) struct Told;

    impl Told {
        #[inline(always)]
        pub fn new() -> Told {
            Told
        }
        #[inline(always)]
        pub fn enter(&mut self) {}
        #[inline(always)]
        pub fn leave(&mut self) {}
    }
}

pub(crate) use fibers::Told;
