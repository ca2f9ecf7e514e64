//! What is refused before anything runs: assignments to captured variables, and stores into tables that would
//! be frozen copies over there.
//!
//! Both are told from the text (`perilune_syntax::mentions`), for the functions that cross as such: those
//! that are sent, and those in variables that they name. A function that is found in a frozen table may never
//! be called there; what it does wrong is an error when it does it.

use super::frozen::library_function;
use super::pack::{Packed, Packer, upvalue_step};
use super::refusal::{Reason, Step};
use crate::object::{LuaClosure, Table};
use crate::value::{Gc, Tag, Value};
use perilune_syntax::mentions::{Path, Store, changes_argument};
use perilune_syntax::{Proto, VarKind};

/// What a path leads to, and how the program calls where it begins.
struct Found {
    value: Value,
    /// The global; `None`: the captured variable.
    global: Option<Box<[u8]>>,
    /// A module leads to it.
    in_module: bool,
}

impl Packer<'_> {
    /// Refuses a function that breaks the rules for variables.
    pub(super) fn check_closure(&mut self, number: u32, c: Gc<LuaClosure>, proto: &Proto) -> Packed {
        let mentions = proto.mentions();
        for (n, desc) in proto.upvalues.iter().enumerate() {
            let uv = c.upvalue(n);
            // SAFETY: the upvalue is kept by the closure; its value is on a live stack or its own.
            let (v, crossed) = unsafe { (*(*uv).v, (*uv).is_frozen()) };
            if let Some(line) = mentions.assigns(n as u8) {
                self.at(number, || upvalue_step(desc, line));
                return self.refuse(Reason::Assigns);
            }
            let changes = desc.kind == VarKind::Mutable || (desc.kind == VarKind::Late && v.is_nil());
            if self.is_snapshot && changes && !crossed {
                // Whether it may cross, and as what, is not for a snapshot that is used again.
                return self.refuse(Reason::Travels);
            }
            // A variable that has crossed is a constant.
            if crossed || self.waits {
                continue;
            }
            let reason = match desc.kind {
                VarKind::Mutable => Reason::Assigned,
                VarKind::Late if v.is_nil() => Reason::NotYetAssigned,
                _ => continue,
            };
            self.at(number, || upvalue_step(desc, desc.assigned_line));
            return self.refuse(reason);
        }
        for store in &mentions.stores {
            let Some(found) = self.stored_into(c, proto, store) else { continue };
            return self.refuse_store(number, c, proto, store, found);
        }
        Ok(())
    }

    /// What a store goes into, if that is a plain table which would be a frozen copy over there.
    fn stored_into(&mut self, c: Gc<LuaClosure>, proto: &Proto, store: &Store) -> Option<Found> {
        let found = self.follow_path(c, proto, &store.target)?;
        let t = found.value.as_table()?;
        if found.value.is_in_island() || t.is_guarded() || self.vm.known_path(found.value).is_some() {
            return None;
        }
        // Deep inside a module, the other domain has one of its own.
        if found.in_module && self.vm.is_inside(t) {
            return None;
        }
        match &store.by {
            None if self.has_newindex(t) => None,
            None => Some(found),
            Some(by) => {
                let function = self.follow_path(c, proto, &by.function)?.value;
                let name = library_function(self.vm, function)?;
                changes_argument(name.as_bytes(), by.argument, by.count).then_some(found)
            }
        }
    }

    fn has_newindex(&mut self, t: Gc<Table>) -> bool {
        if t.metatable.is_null() {
            return false;
        }
        // SAFETY: not null, and kept by the table.
        let mt = unsafe { Gc::from_ptr(t.metatable) };
        !self.vm.find_str(Value::from(mt), b"__newindex").is_nil()
    }

    fn follow_path(&mut self, c: Gc<LuaClosure>, proto: &Proto, path: &Path) -> Option<Found> {
        let desc = proto.upvalues.get(path.upvalue as usize)?;
        // SAFETY: the upvalue is kept by the closure; its value is on a live stack or its own.
        let mut value = unsafe { *(*c.upvalue(path.upvalue as usize)).v };
        let mut fields = path.fields.iter();
        let mut global = None;
        if let Some(env) = self.captured_environment(desc, value) {
            let name = fields.next()?;
            let key = self.vm.intern_bytes(name).ok()?;
            value = self.vm.environment_get(env, key);
            global = Some(name.clone());
        }
        let mut in_module = false;
        for name in fields {
            in_module |= self.vm.known_path(value).is_some();
            let t = value.as_table()?;
            let key = self.vm.intern_bytes(name).ok()?;
            value = self.vm.raw_get_str(t, key);
        }
        Some(Found { value, global, in_module })
    }

    fn refuse_store(
        &mut self,
        number: u32,
        c: Gc<LuaClosure>,
        proto: &Proto,
        store: &Store,
        found: Found,
    ) -> Packed {
        let mut lines = Vec::new();
        for other in &proto.mentions().stores {
            if other.target == store.target && other.line > 0 && self.stored_into(c, proto, other).is_some() {
                lines.push(other.line);
            }
        }
        lines.sort_unstable();
        lines.dedup();
        let skipped = found.global.is_some() as usize;
        let fields = store
            .target
            .fields
            .iter()
            .skip(skipped)
            .map(|name| format!(".{}", String::from_utf8_lossy(name)))
            .collect();
        self.at(number, || match &found.global {
            Some(name) => Step::Global { name: String::from_utf8_lossy(name).into_owned(), line: store.line },
            None => upvalue_step(&proto.upvalues[store.target.upvalue as usize], 0),
        });
        debug_assert!(found.value.tag() == Tag::TABLE);
        self.refuse(Reason::Stored { fields, lines, in_loop: self.waits, in_module: found.in_module })
    }
}
