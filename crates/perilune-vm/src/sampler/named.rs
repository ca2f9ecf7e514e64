//! What functions are called where they are defined.
//!
//! By how it is called a function has many names, and one that was called as `f` by a function that takes
//! functions is known by none that a reader of its program would look for. The place where a closure is made
//! tells a better one: the variable or the field that it is assigned to. A prototype does not know its
//! parent, so parents are read, chunk by chunk, when a domain is sampled. Prototypes are shared by domains,
//! and so is what was found.

use crate::names;
use perilune_syntax::{Constant, Op, Proto};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

#[derive(Default)]
struct Known {
    /// Functions that have been read.
    read: HashMap<usize, Weak<Proto>>,
    /// What those in them are called. The weak count keeps the address from being used again.
    names: HashMap<usize, (Weak<Proto>, Box<[u8]>)>,
}

static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

/// Reads the functions in `proto`.
pub(super) fn learn(proto: &Arc<Proto>) {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.get_or_insert_default().learn(proto);
}

/// What the function is called where it is defined.
pub(super) fn name_of(proto: &Arc<Proto>) -> Option<Vec<u8>> {
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.as_ref()?.names.get(&(Arc::as_ptr(proto) as usize)).map(|(_, name)| name.to_vec())
}

impl Known {
    fn learn(&mut self, proto: &Arc<Proto>) {
        let mut open = vec![proto.clone()];
        while let Some(p) = open.pop() {
            if self.read.insert(Arc::as_ptr(&p) as usize, Arc::downgrade(&p)).is_some() {
                continue;
            }
            for (pc, i) in p.code.iter().enumerate() {
                if i.op() != Some(Op::Closure) {
                    continue;
                }
                let Some(child) = p.protos.get(i.bx() as usize) else { continue };
                if let Some(name) = assigned_name(&p, pc) {
                    let entry = (Arc::downgrade(child), name.into());
                    self.names.insert(Arc::as_ptr(child) as usize, entry);
                }
            }
            open.extend(p.protos.iter().cloned());
        }
    }
}

/// What the closure that the instruction at `pc` makes is assigned to.
fn assigned_name(proto: &Proto, pc: usize) -> Option<Vec<u8>> {
    let register = proto.code[pc].a();
    if let Some(name) = names::local_name(proto, pc + 1, register) {
        return Some(name.to_vec());
    }
    let next = proto.code.get(pc + 1)?;
    let constant = |n: u32| match proto.constants.get(n as usize) {
        Some(Constant::String(s)) => Some(s.to_vec()),
        _ => None,
    };
    let of = |table: Option<Vec<u8>>, field: Option<Vec<u8>>| {
        let table = table.filter(|t| t != b"_ENV" && !t.starts_with(b"?"));
        Some(match table {
            Some(table) => [&table[..], b".", &field?].concat(),
            None => field?,
        })
    };
    let local = |r: u8| names::local_name(proto, pc + 1, r).map(<[u8]>::to_vec);
    match next.op()? {
        Op::SetUpval if next.a() == register => Some(names::upvalue_name(proto, next.b() as usize)),
        Op::SetTabUp if next.c() == register as u16 => {
            of(Some(names::upvalue_name(proto, next.a() as usize)), constant(next.b() as u32))
        }
        Op::SetField if next.c() == register as u16 => of(local(next.a()), constant(next.b() as u32)),
        Op::SetSlot if next.c() == register as u16 => {
            let mut before = proto.code[..pc].iter().rev();
            let made = before.find(|i| i.op() == Some(Op::NewTable) && i.d() == next.d())?;
            let template = proto.templates.get((made.b() as usize).checked_sub(1)?)?;
            of(None, constant(*template.get(next.b() as usize)?))
        }
        _ => None,
    }
}
