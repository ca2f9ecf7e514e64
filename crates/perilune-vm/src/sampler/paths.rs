//! Call paths: from the frames that are active to the number of a node in the trace's definitions.
//!
//! A path is numbered from its root: the number of a node is found by its parent's number, what the frame
//! runs, and the instruction. The names and lines that a definition consists of are looked up once for each
//! such triple of a domain; afterwards a frame costs a look at the path that was numbered last (most of it is
//! the same as a moment ago), or else one into a hash table.
//!
//! # The chain
//! The coroutine that runs, whoever resumed it, and so on down to the root of the fiber, or of the program.
//! What lies between the bottom and the first Lua function is the host's way of calling it, and left out. A
//! fiber begins with a node of its own. Of very deep recursions the innermost [`DEEPEST`] frames count.
//!
//! # Which instruction
//! Frames that have called something are at their call. The innermost one, when a sampler stops it, is
//! *before* an instruction, and what took the time is the one executed last: the one above it in the code,
//! unless a jump leads here ([`charged`]). At a function's first instruction that is the call: its caller's
//! time. So a call and its return are both the caller's, and a function's share is that of its own
//! instructions.

use crate::Vm;
use crate::debug::Activation;
use crate::interp::frame_closure;
use crate::names;
use crate::native::Native;
use crate::object::Thread;
use crate::value::{Gc, Value};
use perilune_syntax::Proto;
use perilune_syntax::error::chunk_id;
use perilune_syntax::operands::Flow;
use perilune_trace::layout::StackNode;
use perilune_trace::names as trace_names;
use std::collections::HashMap;
use std::sync::Arc;

/// Frames of a path.
const DEEPEST: usize = 400;
/// Entries that the tables of a domain may have before they are begun anew.
const MOST: usize = 1 << 17;
/// Functions that are kept alive by their entries.
const MOST_FUNCTIONS: usize = 1 << 12;
/// Bit of [`Step::pc`]: the instruction has not begun.
const BEFORE: u32 = 1 << 31;

/// `StackNode::kind`
const LUA: u32 = 0;
const NATIVE: u32 = 1;
const COLLECTOR: u32 = 2;
const START: u32 = 3;

/// One frame of a path.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Step {
    /// Address of a `Proto` or a `Native`, or one of the constants below.
    what: usize,
    /// Lua functions: the instruction.
    pc: u32,
}

const FIBER: Step = Step { what: 1, pc: 0 };
const TOO_DEEP: Step = Step { what: 2, pc: 0 };
const UNKNOWN_NATIVE: Step = Step { what: 3, pc: 0 };
const COLLECTING: Step = Step { what: 4, pc: 0 };
const RUNTIME: Step = Step { what: 5, pc: 0 };
/// `Step::what` of what is copied in; `pc` is the call path that has sent it.
const COPIED_IN: usize = 6;
/// `Step::what` of what is copied out.
const COPIED_OUT: usize = 7;

/// Values on their way to or from another domain are copied: a node of call paths.
#[derive(Clone, Copy)]
pub(super) struct Copying(Step);

impl Copying {
    /// Into this domain; the call path that has sent them, or 0.
    pub fn into(sent_at: u32) -> Copying {
        Copying(Step { what: COPIED_IN, pc: sent_at })
    }

    /// Out of it.
    pub const OUT: Copying = Copying(Step { what: COPIED_OUT, pc: 0 });
}

/// Where the part of `require "perilune"` that is written in Lua is from: no place of the program.
const OWN_SOURCE: &[u8] = b"perilune";

/// What is known of a function.
struct Function {
    name: u32,
    /// No call has told a name yet.
    nameless: bool,
    source: u32,
    defined: u32,
    /// Keeps the address from being used again.
    _proto: Option<Arc<Proto>>,
}

/// Where the innermost frame is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Innermost {
    /// In the middle of its instruction: it has called the native that asks, or that is a frame too.
    Within,
    /// Before the instruction behind its stored `pc`.
    Before,
}

/// What took the time, if it was not the innermost Lua function.
#[derive(Clone, Copy, Default)]
pub(super) struct Leaf {
    /// Base of the frame of a native, when it ran; it may have returned.
    pub base: usize,
    /// That native; null: none.
    pub native: usize,
    pub collector: bool,
}

/// The numbers of a domain's call paths.
#[derive(Default)]
pub(crate) struct Paths {
    nodes: HashMap<(u32, Step), u32, foldhash::fast::FixedState>,
    functions: HashMap<usize, Function, foldhash::fast::FixedState>,
    /// The path being numbered: innermost frame first. The base is there to find names by.
    steps: Vec<(Step, *mut Value)>,
    /// How many prototypes the domain had when their chunks were read for names.
    chunks_read: usize,
    /// The path numbered last, from its root.
    last: Vec<(Step, u32)>,
}

impl Paths {
    /// Forgets everything: addresses may belong to other functions, or there is too much.
    fn forget(&mut self) {
        self.nodes.clear();
        self.functions.clear();
        self.last.clear();
    }
}

/// Which instruction of a function took the time when the one at `pc` is next: its index; `None`: the call of
/// the function.
fn charged(proto: &Proto, pc: usize) -> Option<usize> {
    let code = &proto.code;
    let is_head = code
        .iter()
        .enumerate()
        .skip(pc)
        .any(|(n, i)| i.jump().is_some_and(|jump| jump < 0 && n as i64 + 1 + jump as i64 == pc as i64));
    let Some(before) = pc.checked_sub(1) else { return is_head.then_some(pc) };
    match code.get(before).and_then(|i| i.op()) {
        // The loop's own instruction jumps here; it stands on the same line.
        Some(op) if op.prepares_loop() => Some(before),
        Some(op) if op.flow() == Flow::Ends => Some(pc),
        _ if is_head => Some(pc),
        _ => Some(before),
    }
}

impl Vm {
    /// The number of the running call path, for an event that says where something happened; 0 if nothing is
    /// recorded. The running frame is that of a native, or has its `pc` stored.
    pub fn event_stack(&mut self) -> u32 {
        if !perilune_trace::is_live() {
            return 0;
        }
        self.path(Innermost::Within, Leaf::default())
    }

    /// The number of the call path of a fiber that waits, or, without one, of the root chain while that
    /// waits; 0 if nothing is recorded.
    pub fn parked_stack(&mut self, fiber: Option<Gc<Thread>>) -> u32 {
        if !perilune_trace::is_live() {
            return 0;
        }
        let (top, root) = match fiber {
            Some(fiber) => (self.top_of(fiber), fiber.ptr()),
            None => (self.root_chain_top(), std::ptr::null_mut()),
        };
        self.path_from((top, root), Innermost::Within, Leaf::default(), &[])
    }

    /// The number of a node without parents for what the runtime does outside of domains.
    pub(super) fn runtime_path(&mut self) -> u32 {
        self.node(0, RUNTIME, std::ptr::null_mut())
    }

    /// The number of the node of copying below a path; 0: outside of all that runs.
    pub(super) fn copying_path(&mut self, parent: u32, Copying(step): Copying) -> u32 {
        self.node(parent, step, std::ptr::null_mut())
    }

    /// The number of the node of a collection below a path.
    pub(super) fn collecting_path(&mut self, parent: u32) -> u32 {
        self.node(parent, COLLECTING, std::ptr::null_mut())
    }

    /// The number of the running call path.
    pub(super) fn path(&mut self, innermost: Innermost, leaf: Leaf) -> u32 {
        self.path_through(innermost, leaf, &[])
    }

    /// The same, where machine code was interrupted: at the instruction of the function that comes first,
    /// which is inlined at that of the second, and so on.
    pub(super) fn path_through(
        &mut self,
        innermost: Innermost,
        leaf: Leaf,
        located: &[(Arc<Proto>, usize)],
    ) -> u32 {
        self.path_from((self.lua.thread, self.lua.fibers.current), innermost, leaf, located)
    }

    /// The same of any chain: from the coroutine that runs down to the root of the fiber, which is null for
    /// the root chain.
    fn path_from(
        &mut self,
        chain: (*mut Thread, *mut Thread),
        innermost: Innermost,
        leaf: Leaf,
        located: &[(Arc<Proto>, usize)],
    ) -> u32 {
        if self.lua.seen.sampler.paths.nodes.len() > MOST
            || self.lua.seen.sampler.paths.functions.len() > MOST_FUNCTIONS
        {
            self.lua.seen.sampler.paths.forget();
        }
        let mut steps = std::mem::take(&mut self.lua.seen.sampler.paths.steps);
        let mut last = std::mem::take(&mut self.lua.seen.sampler.paths.last);
        steps.clear();
        let mut missing = leaf.native;
        self.walk(chain, innermost, &mut steps, leaf, &mut missing);
        splice(&mut steps, located);
        let mut number = 0;
        // What is the same as last time needs no search.
        let mut same = true;
        for (depth, &(step, base)) in steps.iter().rev().enumerate() {
            if same && last.get(depth).is_some_and(|l| l.0 == step) {
                number = last[depth].1;
                continue;
            }
            if same {
                same = false;
                last.truncate(depth);
            }
            number = self.node(number, step, base);
            last.push((step, number));
        }
        if missing != 0 {
            number = self.node(number, Step { what: missing, pc: 0 }, std::ptr::null_mut());
        }
        if number == 0 {
            // The host is about to call the first function.
            number = self.runtime_path();
        }
        if leaf.collector {
            number = self.node(number, COLLECTING, std::ptr::null_mut());
        }
        self.lua.seen.sampler.paths.steps = steps;
        self.lua.seen.sampler.paths.last = last;
        number
    }

    /// The active frames, innermost first. If the frame of the native that took the time is among them it
    /// becomes the innermost one, and is `missing` no more.
    fn walk(
        &mut self,
        (mut th, fiber): (*mut Thread, *mut Thread),
        mut innermost: Innermost,
        steps: &mut Vec<(Step, *mut Value)>,
        leaf: Leaf,
        missing: &mut usize,
    ) {
        // Natives that have been seen since the last Lua function.
        let mut host_side = 0;
        while !th.is_null() {
            // SAFETY: the chain of coroutines that wait for each other; frames of Lua functions have their pc
            // stored.
            unsafe {
                for a in self.activations(Gc::from_ptr(th)) {
                    let step = frame_step(&a, std::mem::replace(&mut innermost, Innermost::Within));
                    let native = !a.is_lua();
                    if native && a.base as usize == leaf.base && step.what == *missing {
                        steps.clear();
                        host_side = 0;
                        *missing = 0;
                    }
                    steps.push((step, a.base));
                    host_side = if native { host_side + 1 } else { 0 };
                    if steps.len() >= DEEPEST {
                        steps.push((TOO_DEEP, std::ptr::null_mut()));
                        return;
                    }
                }
                if th == fiber {
                    break;
                }
                th = (*th).resumer;
            }
        }
        if host_side < steps.len() {
            steps.truncate(steps.len() - host_side);
        }
        if !fiber.is_null() {
            steps.push((FIBER, std::ptr::null_mut()));
        }
    }

    /// The number of a node.
    fn node(&mut self, parent: u32, step: Step, base: *mut Value) -> u32 {
        match self.lua.seen.sampler.paths.nodes.get(&(parent, step)) {
            Some(&number) => number,
            None => self.new_node(parent, step, base),
        }
    }

    #[cold]
    #[inline(never)]
    fn new_node(&mut self, parent: u32, step: Step, base: *mut Value) -> u32 {
        let plain = |name: &[u8], kind| StackNode {
            parent,
            function: trace_names::string(name),
            source: 0,
            line: 0,
            defined: 0,
            kind,
        };
        let node = match step {
            FIBER => Some(plain(b"(task)", START)),
            TOO_DEEP => Some(plain(b"(deeper frames)", START)),
            UNKNOWN_NATIVE => Some(plain(b"?", NATIVE)),
            COLLECTING => Some(plain(b"(garbage collector)", COLLECTOR)),
            RUNTIME => Some(plain(b"(runtime)", NATIVE)),
            Step { what: COPIED_OUT, .. } => Some(plain(b"(copied out)", NATIVE)),
            Step { what: COPIED_IN, pc } => Some(match trace_names::place(pc, OWN_SOURCE) {
                Some(place) => plain(&[b"(copied in, sent by ", &place[..], b")"].concat(), NATIVE),
                None => plain(b"(copied in)", NATIVE),
            }),
            _ if step.pc == 0 => Some(plain(&self.native_text(step, base), NATIVE)),
            _ => self.lua_node(parent, step, base),
        };
        let number = node.map_or(parent, trace_names::stack);
        self.lua.seen.sampler.paths.nodes.insert((parent, step), number);
        number
    }

    /// What a native is called.
    fn native_text(&mut self, step: Step, base: *mut Value) -> Vec<u8> {
        // SAFETY: natives are never freed.
        let native = unsafe { &*(step.what as *const Native) };
        let function = match base.is_null() {
            true => Value::native(native),
            // SAFETY: the base of a live frame, with its function below.
            false => unsafe { *base.sub(crate::frame::CALL_GAP) },
        };
        self.global_function_name(function).unwrap_or_else(|| native.name.as_bytes().to_vec())
    }

    /// A node for a Lua function; `None`: the time is its caller's.
    fn lua_node(&mut self, parent: u32, step: Step, base: *mut Value) -> Option<StackNode> {
        // SAFETY: the frame is live, or whoever has located the step owns a count: so is its prototype.
        let proto: &Proto = unsafe { &*(step.what as *const Proto) };
        let pc = (step.pc & !BEFORE) as usize - 1;
        let pc = match step.pc & BEFORE != 0 {
            // Whoever calls the first function of all is not on the path.
            true if parent == 0 => charged(proto, pc).unwrap_or(pc),
            true => charged(proto, pc)?,
            false => pc,
        };
        if self.lua.seen.sampler.paths.functions.get(&step.what).is_none_or(|f| f.nameless) {
            self.name_function(step.what, base);
        }
        let f = self.lua.seen.sampler.paths.functions.get(&step.what)?;
        Some(StackNode {
            parent,
            function: f.name,
            source: f.source,
            line: proto.line_at(pc).unwrap_or(0),
            defined: f.defined,
            kind: LUA,
        })
    }

    /// Reads the chunks that this domain has loaded since the last time.
    pub(super) fn learn_chunks(&mut self) {
        let count = self.lua.gc.protos.len();
        if std::mem::replace(&mut self.lua.seen.sampler.paths.chunks_read, count) != count {
            for &inst in &self.lua.gc.protos {
                // SAFETY: instances that are listed are alive and own a count of their prototype.
                let chunk = unsafe {
                    let proto = (*inst).proto;
                    if (*proto).line_defined != 0 {
                        continue;
                    }
                    Arc::increment_strong_count(proto);
                    Arc::from_raw(proto)
                };
                super::named::learn(&chunk);
            }
        }
    }

    /// What the function is called where it is defined.
    fn defined_name(&mut self, proto: &Arc<Proto>) -> Option<Vec<u8>> {
        super::named::learn(proto);
        if let Some(name) = super::named::name_of(proto) {
            return Some(name);
        }
        self.learn_chunks();
        super::named::name_of(proto)
    }

    /// Finds out what a Lua function is called, from its activation at `base`.
    fn name_function(&mut self, what: usize, base: *mut Value) {
        // SAFETY: as `lua_node`; the strong count that the frame's instance has is shared.
        let proto = unsafe {
            let proto = what as *const Proto;
            Arc::increment_strong_count(proto);
            Arc::from_raw(proto)
        };
        let (function, called) = match base.is_null() {
            // It has returned, or was inlined.
            true => (Value::NIL, None),
            // SAFETY: the base of a live Lua frame.
            false => unsafe { (*base.sub(crate::frame::CALL_GAP), names::function_name(base)) },
        };
        let own = self.global_function_name(function).or_else(|| self.defined_name(&proto));
        let known = match own {
            Some(name) => Some(name),
            None => called.map(|(kind, name)| match kind {
                "metamethod" => [b"metamethod '", &name[..], b"'"].concat(),
                _ => name,
            }),
        };
        let nameless = known.is_none();
        let short = chunk_id(&proto.source);
        let name = known.unwrap_or_else(|| {
            if proto.line_defined == 0 {
                return b"main chunk".to_vec();
            }
            let text = format!("function <{}:{}>", String::from_utf8_lossy(&short), proto.line_defined);
            text.into_bytes()
        });
        let source = match proto.source.first() {
            Some(b'@' | b'=') => proto.source[1..].to_vec(),
            _ => short,
        };
        let function = Function {
            name: trace_names::string(&name),
            nameless: nameless && proto.line_defined != 0,
            source: trace_names::string(&source),
            defined: proto.line_defined,
            _proto: Some(proto),
        };
        self.lua.seen.sampler.paths.functions.insert(what, function);
    }
}

/// Puts what machine code was at when it was interrupted in place of where it has come to since: the frame of
/// the function, with all that it has called meanwhile, becomes what is `located`. If that function has
/// returned since, it is what the innermost one had called.
fn splice(steps: &mut Vec<(Step, *mut Value)>, located: &[(Arc<Proto>, usize)]) {
    let Some((outermost, _)) = located.last() else { return };
    let frame = steps.iter().position(|(step, _)| step.what == Arc::as_ptr(outermost) as usize);
    let base = frame.map_or(std::ptr::null_mut(), |at| steps[at].1);
    let step = |(n, (proto, at)): (usize, &(Arc<Proto>, usize))| {
        let base = if n + 1 == located.len() { base } else { std::ptr::null_mut() };
        (Step { what: Arc::as_ptr(proto) as usize, pc: *at as u32 + 1 }, base)
    };
    steps.splice(..frame.map_or(0, |at| at + 1), located.iter().enumerate().map(step));
}

/// What a frame runs. The `pc` of Lua functions is one more than the instruction's index, so that it is
/// never 0.
unsafe fn frame_step(a: &Activation, innermost: Innermost) -> Step {
    // SAFETY: a live frame; Lua frames have their pc stored.
    unsafe {
        if a.is_lua() {
            let inst = (*frame_closure(a.base)).inst();
            let pc = names::current_pc(a.base) as u32 + 1;
            let before = if innermost == Innermost::Before { BEFORE } else { 0 };
            return Step { what: inst.proto as usize, pc: pc | before };
        }
        match a.function().as_native() {
            Some(native) => Step { what: native as *const Native as usize, pc: 0 },
            None => UNKNOWN_NATIVE,
        }
    }
}
