//! Prototype instances: what a domain makes of a shared prototype.

use crate::Vm;
use crate::interp::ic::{IC_SLOTS, Ic};
use crate::native::LuaResult;
use crate::object::{LuaClosure, ProtoInst, Upval};
use crate::value::{Gc, Tag, Value};
use perilune_syntax::{Constant, Proto};
use std::sync::Arc;

impl Vm {
    /// An instance of `proto`: constants as values of this domain, empty caches.
    pub(crate) fn instantiate(&mut self, proto: Arc<Proto>) -> LuaResult<*mut ProtoInst> {
        let ics = proto.ic_count as usize * IC_SLOTS;
        let bytes = 8 + (ics + proto.constants.len()) * size_of::<Value>();
        let Ok(buffer) = self.heap.try_alloc(Tag::BUFFER.0, bytes) else {
            return Err(self.out_of_memory());
        };
        // SAFETY: the buffer holds `ics` and constants after its header; all are written here, and nothing
        // collects meanwhile.
        unsafe {
            let start = (buffer.as_ptr() as *mut u8).add(8) as *mut Value;
            let k = start.add(ics);
            for n in 0..proto.ic_count as usize {
                (start.add(n * IC_SLOTS) as *mut Ic).write(Ic::CLEAR);
            }
            for (n, c) in proto.constants.iter().enumerate() {
                *k.add(n) = Value::NIL;
                *k.add(n) = match c {
                    Constant::Nil => Value::NIL,
                    Constant::Boolean(b) => Value::bool(*b),
                    Constant::Integer(i) => Value::int(*i),
                    Constant::Float(f) => Value::float(*f),
                    Constant::String(s) => self.intern_bytes(s)?.into(),
                };
            }
            let external = proto.heap_bytes() as isize;
            let inst = self.heap.alloc(Tag::PROTO.0, size_of::<ProtoInst>()).as_ptr() as *mut ProtoInst;
            (*inst).code = proto.code.as_ptr();
            (*inst).k = k;
            (*inst).max_stack = proto.max_stack;
            (*inst).num_params = proto.num_params;
            (*inst).is_vararg = proto.is_vararg;
            (*inst).num_upvalues = proto.upvalues.len() as u8;
            (*inst).ic_slots = ics as u32;
            (*inst).children = std::ptr::null_mut();
            (*inst).machine = std::ptr::null();
            (*inst).native = std::ptr::null();
            (*inst).heat = 0;
            (*inst).setbacks = 0;
            (*inst).takes = if proto.is_vararg { u8::MAX } else { proto.num_params };
            (*inst).frame_bytes = proto.max_stack as u16 * size_of::<Value>() as u16;
            let code = self.find_machine_code(&proto);
            (*inst).proto = Arc::into_raw(proto);
            self.heap.charge_external(external);
            self.lua.gc.protos.push(inst);
            if let Some(code) = code {
                self.give_machine_code(inst, code);
            }
            Ok(inst)
        }
    }

    /// The instance of nested prototype `n` of `parent`, made when first needed; null if memory is short:
    /// then the error is raised already.
    pub(crate) unsafe fn child_instance(&mut self, parent: *mut ProtoInst, n: usize) -> *mut ProtoInst {
        // SAFETY: verified code: prototype n exists.
        unsafe {
            if !(*parent).children.is_null() {
                let child = *(*parent).children.add(n);
                if !child.is_null() {
                    return child;
                }
            }
            self.make_child_instance(parent, n)
        }
    }

    #[cold]
    unsafe fn make_child_instance(&mut self, parent: *mut ProtoInst, n: usize) -> *mut ProtoInst {
        // SAFETY: as `child_instance`; nothing collects in here.
        unsafe {
            let protos = &(*(*parent).proto).protos;
            let count = protos.len();
            if (*parent).children.is_null() {
                let buffer = self.heap.alloc(Tag::BUFFER.0, 8 + 8 * count);
                let children = (buffer.as_ptr() as *mut u8).add(8) as *mut *mut ProtoInst;
                std::ptr::write_bytes(children, 0, count);
                (*parent).children = children;
                self.heap.barrier(Gc::from_ptr(parent).obj());
            }
            let proto = protos[n].clone();
            let Ok(inst) = self.instantiate(proto) else {
                return std::ptr::null_mut();
            };
            *(*parent).children.add(n) = inst;
            self.heap.barrier(Gc::from_ptr(parent).obj());
            inst
        }
    }

    /// A closure of `proto` whose upvalues are new and nil, except the first, which is `env`.
    pub fn new_main_closure(&mut self, proto: Arc<Proto>, env: Value) -> LuaResult<Gc<LuaClosure>> {
        self.sampler_loads(&proto);
        let inst = self.instantiate(proto)?;
        // SAFETY: nothing collects between the allocations; everything is written.
        unsafe {
            let count = (*inst).num_upvalues as usize;
            let cl = self.heap.alloc(Tag::CLOSURE.0, 16 + 8 * count).as_ptr() as *mut LuaClosure;
            (*cl).proto = inst;
            let upvals = &raw mut (*cl).upvals as *mut *mut Upval;
            for n in 0..count {
                *upvals.add(n) = self.new_closed_upvalue(if n == 0 { env } else { Value::NIL });
            }
            Ok(Gc::from_ptr(cl))
        }
    }

    /// A closure whose upvalues are still to be set.
    pub(crate) fn closure_of(&mut self, inst: *mut ProtoInst) -> Gc<LuaClosure> {
        // SAFETY: a live instance; everything is written, and a null upvalue is one that the collector skips.
        unsafe {
            let count = (*inst).num_upvalues as usize;
            let cl = self.heap.alloc(Tag::CLOSURE.0, 16 + 8 * count).as_ptr() as *mut LuaClosure;
            (*cl).proto = inst;
            std::ptr::write_bytes(&raw mut (*cl).upvals as *mut *mut Upval, 0, count);
            Gc::from_ptr(cl)
        }
    }

    /// A closed upvalue.
    pub(crate) fn new_closed_upvalue(&mut self, v: Value) -> *mut Upval {
        let uv = self.heap.alloc(Tag::UPVAL.0, size_of::<Upval>()).as_ptr() as *mut Upval;
        // SAFETY: freshly allocated.
        unsafe {
            (*uv).closed = v;
            (*uv).v = &raw mut (*uv).closed;
        }
        uv
    }
}
