//! Looking at fibers from outside: tracebacks through their coroutines, and where they wait.

use super::Phase;
use crate::Vm;
use crate::object::Thread;
use crate::value::{Gc, Value};

impl Vm {
    /// An error was raised that nothing on this coroutine's stack catches: if it is a fiber's root, this is
    /// the time for a traceback.
    pub(crate) unsafe fn note_fiber_error(&mut self) {
        // SAFETY: the running coroutine.
        unsafe {
            let th = self.lua.thread;
            if !(*th).fiber.is_null() && th == self.lua.fibers.current {
                let text = self.traceback(Gc::from_ptr(th), None, 0);
                (*(*th).fiber).traceback = text;
            }
        }
    }

    /// The coroutine of a live fiber that runs, or would run.
    pub(crate) fn top_of(&self, fiber: Gc<Thread>) -> *mut Thread {
        let state = self.fiber_state(fiber);
        match state.phase {
            Phase::Parked => state.top,
            Phase::Running if self.lua.fibers.current == fiber.ptr() => self.lua.thread,
            _ => fiber.ptr(),
        }
    }

    /// The coroutines of a live fiber, the topmost one first.
    fn chain_of(&self, fiber: Gc<Thread>) -> Vec<Gc<Thread>> {
        let mut chain = Vec::new();
        // SAFETY: a parked chain is linked down to the root; so is the running one.
        unsafe {
            let mut th = self.top_of(fiber);
            while !th.is_null() {
                chain.push(Gc::from_ptr(th));
                if th == fiber.ptr() {
                    break;
                }
                th = (*th).resumer;
            }
        }
        chain
    }

    /// The function that a live fiber was made to call.
    pub fn fiber_function(&self, fiber: Gc<Thread>) -> Value {
        // SAFETY: a fiber's stack begins with its function, as `new_fiber` has put it there.
        unsafe { *fiber.stack }
    }

    /// The traceback of a live fiber, through its coroutines.
    pub fn fiber_traceback(&mut self, fiber: Gc<Thread>) -> Vec<u8> {
        let chain = self.chain_of(fiber);
        self.traceback_of(&chain)
    }

    /// The same, without a fiber of the code that is in none.
    pub fn chain_traceback(&mut self, fiber: Option<Gc<Thread>>) -> Vec<u8> {
        let chain = fiber.map_or_else(|| self.root_chain(), |fiber| self.chain_of(fiber));
        self.traceback_of(&chain)
    }

    fn traceback_of(&mut self, chain: &[Gc<Thread>]) -> Vec<u8> {
        let mut out = Vec::new();
        for &th in chain {
            let text = self.traceback(th, None, 0);
            let skip =
                if out.is_empty() { 0 } else { text.iter().position(|&b| b == b'\n').unwrap_or(text.len()) };
            out.extend_from_slice(&text[skip..]);
        }
        out
    }

    /// Where a live fiber waits: "file:line: in function 'name'", of the topmost Lua function.
    pub fn fiber_position(&mut self, fiber: Gc<Thread>) -> String {
        let chain = self.chain_of(fiber);
        self.position_in(&chain)
    }

    /// As [`Vm::fiber_position`], of the root chain while it waits.
    pub fn root_position(&mut self) -> String {
        let chain = self.root_chain();
        self.position_in(&chain)
    }

    /// The coroutines of the root chain, the topmost one first.
    fn root_chain(&self) -> Vec<Gc<Thread>> {
        let mut chain = Vec::new();
        let mut th = self.root_chain_top();
        while !th.is_null() {
            // SAFETY: the chain of the coroutines that wait for each other.
            unsafe {
                chain.push(Gc::from_ptr(th));
                th = (*th).resumer;
            }
        }
        chain
    }

    /// As [`Vm::fiber_position`], of the running code.
    pub fn running_position(&mut self) -> String {
        match self.current_fiber() {
            Some(fiber) => self.fiber_position(fiber),
            None => {
                let mut chain = Vec::new();
                let mut th = self.lua.thread;
                while !th.is_null() {
                    // SAFETY: the chain of the running coroutines.
                    unsafe {
                        chain.push(Gc::from_ptr(th));
                        th = (*th).resumer;
                    }
                }
                self.position_in(&chain)
            }
        }
    }

    fn position_in(&mut self, chain: &[Gc<Thread>]) -> String {
        for &th in chain {
            let text = self.traceback(th, None, 0);
            let text = String::from_utf8_lossy(&text);
            // A native function's line has no line number.
            let lua = text
                .lines()
                .skip(1)
                .map(str::trim)
                .find(|line| !line.starts_with("[C]") && !line.starts_with('('));
            if let Some(line) = lua {
                return line.to_string();
            }
        }
        "?".to_string()
    }
}
