//! What cannot be shared, said in terms of the program: "cannot share: value.config.handler is a coroutine".

use super::scratch::{Entry, NO_PARENT};
use crate::meta::Event;
use crate::object::{LuaClosure, Table, Upval};
use crate::shape;
use crate::value::{Gc, Tag, Value};
use perilune_heap::Header;
use perilune_syntax::UpvalueDesc;

/// Why something cannot be shared.
pub(super) enum Why {
    /// Its type.
    Kind,
    /// This metamethod of the table, a metatable.
    Metamethod(Event),
    /// The captured variable is assigned after its declaration.
    Assigned(UpvalueDesc),
    /// The captured variable will get its value later.
    NotYetAssigned(UpvalueDesc),
}

/// The message of an error to be raised.
pub(super) struct Refusal {
    pub message: String,
}

/// How an object refers to another.
enum Step {
    Field(Vec<u8>),
    Index(String),
    Key,
    Metatable,
    Upvalue(Vec<u8>),
    Unknown,
}

impl Refusal {
    /// `v` was met in entry `parent` (or is the root).
    pub fn new(entries: &[Entry], parent: u32, v: Value, why: Why) -> Refusal {
        let met = match why {
            // The function itself is the entry.
            Why::Assigned(_) | Why::NotYetAssigned(_) if parent != NO_PARENT => path(entries, parent),
            _ if parent == NO_PARENT => "value".to_string(),
            _ => extend(path(entries, parent), step(entries[parent as usize].src, v.payload())),
        };
        let message = match why {
            Why::Kind => match v.tag() {
                Tag::THREAD => format!("{met} is a coroutine"),
                Tag::USERDATA => format!("{met} is a userdata (only shared objects can be in shared values)"),
                Tag::NATIVE_CLOSURE => format!("{met} is a native function with state of its own"),
                _ => format!("{met} is a {}", v.type_name()),
            },
            Why::Metamethod(event) => {
                let name = event.name();
                format!("{met} has a field '{name}' (a shared value is never finalised, closed or weak)")
            }
            Why::Assigned(desc) => {
                let (name, at) = variable(&desc);
                let line = match desc.assigned_line {
                    0 => "after its declaration".to_string(),
                    n => format!("on line {n}"),
                };
                format!(
                    "{met} captures variable '{name}'{at}, which is assigned {line}. \
                     Each domain would have a variable of its own. Capture one that is never assigned, \
                     pass the value as an argument, or keep it in a shared object (pl.atomic, pl.array, a \
                     channel)"
                )
            }
            Why::NotYetAssigned(desc) => {
                let (name, at) = variable(&desc);
                format!(
                    "{met} captures variable '{name}'{at}, which has no value yet. Share it after the \
                     assignment"
                )
            }
        };
        Refusal { message: format!("cannot share: {message}") }
    }
}

/// Name and place of a variable.
fn variable(desc: &UpvalueDesc) -> (String, String) {
    let name = String::from_utf8_lossy(desc.name.as_deref().unwrap_or(b"?")).into_owned();
    (name, if desc.line > 0 { format!(" (declared on line {})", desc.line) } else { String::new() })
}

/// How the program gets to the object of an entry.
fn path(entries: &[Entry], mut at: u32) -> String {
    let mut steps = Vec::new();
    loop {
        let e = &entries[at as usize];
        if e.parent == NO_PARENT {
            break;
        }
        steps.push(step(entries[e.parent as usize].src, e.src as u64));
        at = e.parent;
    }
    const MOST: usize = 12;
    let skipped = steps.len().saturating_sub(MOST);
    let mut text = "value".to_string();
    for (n, s) in steps.into_iter().rev().enumerate() {
        if n >= MOST / 2 && n < MOST / 2 + skipped {
            if n == MOST / 2 {
                text.push_str(" ...");
            }
            continue;
        }
        text = extend(text, s);
    }
    text
}

fn is_name(text: &[u8]) -> bool {
    !text.is_empty()
        && !text[0].is_ascii_digit()
        && text.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
}

fn extend(path: String, step: Step) -> String {
    match step {
        Step::Field(name) if is_name(&name) => format!("{path}.{}", String::from_utf8_lossy(&name)),
        Step::Field(name) => format!("{path}[{:?}]", String::from_utf8_lossy(&name)),
        Step::Index(text) => format!("{path}[{text}]"),
        Step::Key => format!("(a key of {path})"),
        Step::Metatable => format!("(the metatable of {path})"),
        Step::Upvalue(name) => format!("(variable '{}' of {path})", String::from_utf8_lossy(&name)),
        Step::Unknown => format!("(something in {path})"),
    }
}

fn key_step(key: Value) -> Step {
    match key.as_string() {
        Some(s) => Step::Field(s.bytes().to_vec()),
        None => Step::Index(match key.tag() {
            Tag::INT | Tag::FLOAT | Tag::TRUE | Tag::FALSE => format!("{key:?}"),
            _ => format!("a {}", key.type_name()),
        }),
    }
}

/// How the object at `src` refers to the one at `child`.
fn step(src: *mut Header, child: u64) -> Step {
    let is_child = |v: Value| v.is_collectable() && v.payload() == child;
    // SAFETY: an object that is being copied: alive and as it was.
    unsafe {
        match Tag((*src).kind) {
            Tag::TABLE => {
                let t = Gc::from_ptr(src.cast::<Table>());
                for slot in 0..shape::field_count(t.shape) {
                    if is_child(*t.slots.add(slot as usize)) {
                        return Step::Field(shape::name_of(t.shape, slot).to_vec());
                    }
                }
                for at in 0..t.extent() {
                    if is_child(t.element(at)) {
                        return Step::Index((at + 1).to_string());
                    }
                }
                for n in t.node_slice().iter().filter(|n| n.is_live()) {
                    if is_child(n.value()) {
                        return key_step(n.key());
                    }
                    if is_child(n.key()) {
                        return Step::Key;
                    }
                }
                if t.metatable as u64 == child {
                    return Step::Metatable;
                }
                Step::Unknown
            }
            Tag::CLOSURE => {
                let c = Gc::from_ptr(src.cast::<LuaClosure>());
                let upvals = &raw const (*c.ptr()).upvals as *const *mut Upval;
                for (n, desc) in c.inst().proto().upvalues.iter().enumerate() {
                    if is_child(*(**upvals.add(n)).v) {
                        return Step::Upvalue(desc.name.as_deref().unwrap_or(b"?").to_vec());
                    }
                }
                Step::Unknown
            }
            _ => Step::Unknown,
        }
    }
}
