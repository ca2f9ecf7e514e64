//! Making a `Vm`, loading chunks.

use crate::Vm;
use crate::call::INITIAL_STACK;
use crate::frame::{CALL_GAP, Frame, frame};
use crate::interp::HANDLERS;
use crate::meta::{EVENT_COUNT, Event};
use crate::native::LuaResult;
use crate::object::{LuaClosure, Status, Thread};
use crate::standing::Standing;
use crate::state::{Hosting, Roots, State};
use crate::value::{Gc, Tag, Value};
use crate::{chunks, texts};
use perilune_heap::{Heap, HeapOptions};
use perilune_syntax::{Bounds, Instr, Op, Proto, Source};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// Which kinds of chunk `load` accepts (its `mode`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadMode {
    /// "t"
    Text,
    /// "b"
    Binary,
    /// "bt"
    Both,
}

impl Vm {
    /// A fresh state without any library.
    pub fn new() -> Box<Vm> {
        Vm::with_options(HeapOptions::default())
    }

    /// A fresh state over a heap with these options. Ends the process if the system has no memory for one.
    pub fn with_options(options: HeapOptions) -> Box<Vm> {
        Vm::try_with_options(options).unwrap_or_else(|_| std::process::abort())
    }

    /// As [`Vm::with_options`].
    ///
    /// # Errors
    /// The system has no memory for a state.
    pub fn try_with_options(options: HeapOptions) -> Result<Box<Vm>, perilune_heap::OutOfMemory> {
        let interrupt = Arc::new(AtomicU32::new(0));
        let lua = State {
            base: null_mut(),
            top: null_mut(),
            stack_limit: null_mut(),
            dispatch: &raw const HANDLERS,
            thread: null_mut(),
            interrupt_word: Arc::as_ptr(&interrupt),
            interrupt,
            proto_version: 0,
            c_calls: 0,
            no_yield: 0,
            #[cfg(debug_assertions)]
            loop_pc: std::ptr::null(),
            #[cfg(debug_assertions)]
            loop_k: std::ptr::null(),
            errors: crate::error::ErrorState::NONE,
            roots: Roots {
                main_thread: null_mut(),
                base_thread: null_mut(),
                registry: null_mut(),
                globals: null_mut(),
                type_metatables: [null_mut(); 9],
                event_names: [null_mut(); EVENT_COUNT],
                status_names: [null_mut(); 4],
                call_stub: null_mut(),
                kept: Default::default(),
            },
            caches: Default::default(),
            interned: Default::default(),
            stacks: Default::default(),
            fibers: Default::default(),
            hosting: Hosting { host: None, host_type: None, owners: Default::default(), embedder: None },
            crossing: Default::default(),
            islands: Default::default(),
            gc: Default::default(),
            machine: Default::default(),
            seen: Default::default(),
            warn: Default::default(),
        };
        let mut vm = Box::new(Vm { lua, heap: Heap::new(options) });
        vm.lua.hosting.owners.home = crate::host::native_stack();
        let (low, end) = vm.lua.hosting.owners.home;
        vm.lua.stacks.running.set_bounds(low, end);
        vm.heap.prepare()?;
        // With this, only the first stack can be refused.
        vm.set_up().map_err(|_| perilune_heap::OutOfMemory)?;
        vm.begin_counting();
        Ok(vm)
    }

    fn set_up(&mut self) -> LuaResult<()> {
        let main = self.alloc_thread(INITIAL_STACK * 8)?;
        self.lua.roots.main_thread = main;
        self.lua.thread = main;
        self.lua.roots.base_thread = main;
        // SAFETY: the main thread was just made; its first frame is a native one that stands for the host.
        unsafe {
            (*main).standing.set(Status::Running);
            self.lua.base = (*main).stack.add(CALL_GAP);
            self.lua.top = self.lua.base;
            self.lua.stack_limit = (*main).stack.add((*main).stack_size - crate::call::STACK_EXTRA);
            *frame(self.lua.base) = Frame::native(0, 0);
        }
        for n in 0..EVENT_COUNT {
            self.lua.roots.event_names[n] = self.intern_bytes(Event::NAMES[n].as_bytes())?.ptr();
        }
        for status in Status::ALL {
            self.lua.roots.status_names[status as usize] = self.intern_bytes(status.name().as_bytes())?.ptr();
        }
        self.lua.roots.registry = self.new_table(0, 40)?.ptr();
        self.lua.roots.globals = self.new_table(0, 64)?.ptr();
        let loaded = self.new_table(0, 40)?;
        self.set_field(self.registry(), "_LOADED", loaded.into())?;
        let stub = Proto {
            code: Box::new([Instr::abcd(Op::Call, 0, 0, 0, 0), Instr::abcd(Op::Return, 0, 0, 0, 0)]),
            constants: Box::new([]),
            templates: Box::new([]),
            protos: Box::new([]),
            upvalues: Box::new([]),
            num_params: 0,
            is_vararg: false,
            max_stack: 4,
            ic_count: 0,
            lines: Default::default(),
            locals: Box::new([]),
            source: Arc::from(&b"=[C]"[..]),
            line_defined: 0,
            last_line_defined: 0,
            mentions: Default::default(),
            born: Default::default(),
        };
        self.lua.roots.call_stub = self.new_main_closure(Arc::new(stub), Value::NIL)?.ptr();
        Ok(())
    }

    /// A new coroutine object with an empty stack of `size` slots.
    pub(crate) fn alloc_thread(&mut self, size: usize) -> LuaResult<*mut Thread> {
        let stack = self.alloc_stack(size)?;
        Ok(self.thread_with_stack(stack, size))
    }

    /// As [`Vm::alloc_thread`], of a small size, whatever the heap's limit.
    pub(crate) fn alloc_thread_always(&mut self, size: usize) -> *mut Thread {
        let obj = self.heap.alloc(Tag::BUFFER.0, 8 + size * size_of::<Value>());
        // SAFETY: the buffer has room for `size` slots after its header.
        let stack = unsafe {
            let stack = (obj.as_ptr() as *mut u8).add(8) as *mut Value;
            std::ptr::write_bytes(stack, 0, size);
            stack
        };
        self.thread_with_stack(stack, size)
    }

    fn thread_with_stack(&mut self, stack: *mut Value, size: usize) -> *mut Thread {
        let th = self.heap.alloc(Tag::THREAD.0, size_of::<Thread>()).as_ptr() as *mut Thread;
        // SAFETY: freshly allocated; every field is written.
        unsafe {
            let header = (*th).header;
            th.write(Thread {
                header,
                hook_mask: 0,
                in_hook: false,
                started: false,
                tbc: 0,
                stack,
                stack_size: size,
                base: stack.add(CALL_GAP),
                top: stack.add(CALL_GAP),
                open_upvals: null_mut(),
                resumer: null_mut(),
                native_stack: null_mut(),
                standing: Standing::new(Status::Suspended),
                hook: Value::NIL,
                hook_count: 0,
                hook_left: 0,
                failure: None,
                hook_pc: 0,
                hook_looped: false,
                transfer_first: 0,
                transfer_count: 0,
                calls_below: 0,
                handler_floor: 0,
                handler_search: (0, 0),
                no_yield: 0,
                depth: 0,
                pcalls: 0,
                closing: false,
                escaped: false,
                fiber: null_mut(),
            });
        }
        th
    }

    /// Compiles or undumps a chunk into a function whose first upvalue is `env` (`None`: the globals). The
    /// error is the message, a string.
    pub fn load(
        &mut self,
        source: &[u8],
        chunk_name: &[u8],
        mode: LoadMode,
        env: Option<Value>,
    ) -> Result<Gc<LuaClosure>, Value> {
        let is_text = source.first() != Some(&0x1b) && mode != LoadMode::Binary;
        if is_text && let Some(proto) = self.lua.caches.texts.known(chunk_name, source) {
            return self.chunk_function(Ok(proto), env);
        }
        let result = self.compile(source, chunk_name, mode);
        if is_text && let Ok(proto) = &result {
            self.lua.caches.texts.note(chunk_name, source, proto);
        }
        self.chunk_function(result, env)
    }

    /// As [`Vm::load`], of the content of a file, of either kind, which other domains may have loaded: what is
    /// compiled is theirs as well (`chunks.rs`).
    pub fn load_file(
        &mut self,
        content: &[u8],
        chunk_name: &[u8],
        env: Option<Value>,
    ) -> Result<Gc<LuaClosure>, Value> {
        let compile = || self.compile(content, chunk_name, LoadMode::Both);
        let result = chunks::shared(chunk_name, content, compile);
        self.chunk_function(result, env)
    }

    fn compile(&mut self, source: &[u8], chunk_name: &[u8], mode: LoadMode) -> Result<Arc<Proto>, Vec<u8>> {
        let binary = source.first() == Some(&0x1b);
        let refused = match mode {
            LoadMode::Text => binary.then_some(("binary", "t")),
            LoadMode::Binary => (!binary).then_some(("text", "b")),
            LoadMode::Both => None,
        };
        if let Some((kind, mode)) = refused {
            return Err(format!("attempt to load a {kind} chunk (mode is '{mode}')").into_bytes());
        }
        if binary {
            return perilune_syntax::undump::undump(source, chunk_name).map_err(|e| e.message);
        }
        // An interrupt stays pending, for the caller or the next poll to raise.
        let interrupt = self.interrupt_handle();
        let bounds = Bounds {
            interrupted: &|| interrupt.is_raised(),
            memory: self.heap.room(),
            has_room: &perilune_heap::space::has_headroom,
        };
        perilune_syntax::compile_within(source, chunk_name, bounds).map_err(|e| e.message)
    }

    /// As [`Vm::load`], of a chunk of which `first` is there; `more` appends the next piece, if there is one.
    /// It is asked for no more than it takes to compile the chunk or to refuse it. If it fails, it says that
    /// there is none, and the result means nothing.
    pub fn load_pieces(
        &mut self,
        first: Vec<u8>,
        more: &mut dyn FnMut(&mut Vm, &mut Vec<u8>) -> bool,
        chunk_name: &[u8],
        env: Option<Value>,
    ) -> Result<Gc<LuaClosure>, Value> {
        let result = if first.first() == Some(&0x1b) {
            let mut bytes = first;
            while perilune_syntax::undump::missing(&bytes) > 0 && more(self, &mut bytes) {}
            perilune_syntax::undump::undump(&bytes, chunk_name).map_err(|e| e.message)
        } else {
            self.compile_pieces(first, more, chunk_name)
        };
        self.chunk_function(result, env)
    }

    /// See [`Vm::load_pieces`].
    fn compile_pieces(
        &mut self,
        mut first: Vec<u8>,
        more: &mut dyn FnMut(&mut Vm, &mut Vec<u8>) -> bool,
        chunk_name: &[u8],
    ) -> Result<Arc<Proto>, Vec<u8>> {
        let mut is_whole = true;
        if let Some(proto) = self.lua.caches.texts.known(chunk_name, &first) {
            // Whoever compiles the text asks what is behind it, too.
            if !more(self, &mut first) {
                return Ok(proto);
            }
            is_whole = false;
        }
        let text = texts::may_be_kept(&first).then(|| first.clone());
        let interrupt = self.interrupt_handle();
        let bounds = Bounds {
            interrupted: &|| interrupt.is_raised(),
            memory: self.heap.room(),
            has_room: &perilune_heap::space::has_headroom,
        };
        let mut more = |text: &mut Vec<u8>| {
            let has_more = more(self, text);
            is_whole &= !has_more;
            has_more
        };
        let proto = perilune_syntax::compile_from(Source::Pieces(first, &mut more), chunk_name, bounds)
            .map_err(|e| e.message)?;
        if is_whole && let Some(text) = text {
            self.lua.caches.texts.note(chunk_name, &text, &proto);
        }
        Ok(proto)
    }

    fn chunk_function(
        &mut self,
        result: Result<Arc<Proto>, Vec<u8>>,
        env: Option<Value>,
    ) -> Result<Gc<LuaClosure>, Value> {
        match result {
            Ok(proto) => {
                let env = env.unwrap_or_else(|| self.globals().into());
                self.new_main_closure(proto, env).map_err(|e| self.host_error(e))
            }
            Err(message) => match self.new_str(&message) {
                Ok(s) => Err(s.into()),
                Err(e) => Err(self.host_error(e)),
            },
        }
    }

    /// The binary chunk of a Lua function (`string.dump`).
    pub fn dump(&mut self, f: Gc<LuaClosure>, strip: bool) -> Vec<u8> {
        perilune_syntax::dump::dump(f.inst().proto(), strip)
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        self.sampler_forget();
        self.release_native_resources();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(source: &str) -> Vec<String> {
        let mut vm = Vm::new();
        vm.open_coroutine().unwrap();
        let f = match vm.load(source.as_bytes(), b"=test", LoadMode::Text, None) {
            Ok(f) => f,
            Err(e) => return vec![format!("{e:?}")],
        };
        match vm.host_call(f.into(), &[]) {
            Ok(n) => {
                let total = vm.nargs();
                (total - n + 1..=total).map(|i| format!("{:?}", vm.stack_get(i))).collect()
            }
            Err(e) => vec![format!("error {e:?}")],
        }
    }

    #[test]
    fn runs() {
        assert_eq!(run("return 1 + 2"), ["3"]);
        assert_eq!(run("local s = 0 for i = 1, 100 do s = s + i end return s"), ["5050"]);
        assert_eq!(
            run(
                "local function fib(n) if n < 2 then return n end return fib(n-1) + fib(n-2) end return fib(20)"
            ),
            ["6765"]
        );
        assert_eq!(
            run("local t = {x=1,y={z=2}} t.w = 5 return t.x + t.y.z + t.w, #'abc', 'a'..1 ..'b'"),
            ["8", "3", "\"a1b\""]
        );
        assert_eq!(
            run(
                "local C = {} C.__index = C function C.new(x) local o = {} o.x = x return o end function C:get() return self.x end return C.get(C.new(4))"
            ),
            ["4"]
        );
        assert_eq!(
            run("local function f(...) local a, b = ... return b, a, ... end return f(1, 2, 3)"),
            ["2", "1", "1", "2", "3"]
        );
        assert_eq!(
            run(
                "local co = coroutine.wrap(function(a) local b = coroutine.yield(a + 1) return b * 2 end) return co(1), co(10)"
            ),
            ["2", "20"]
        );
        assert_eq!(run("return nil + 1"), ["error \"test:1: attempt to perform arithmetic on a nil value\""]);
        assert_eq!(
            run("local x; return x.y.z"),
            ["error \"test:1: attempt to index a nil value (local 'x')\""]
        );
    }
}
