//! The entries of a graph: values that are asked for while others are written, each written in its turn.

use super::super::graph::Entry;
use super::{Packed, Packer, ROOT, Step, Taken, Way};
use crate::value::Tag;

impl Packer<'_> {
    /// Writes the value of the next entry; false if there is none.
    pub fn next_entry(&mut self) -> Packed<bool> {
        let Some(entry) = self.refs.as_ref().and_then(|r| r.entries.get(self.entries_done)).cloned() else {
            return Ok(false);
        };
        let n = self.entries_done;
        self.entries_done += 1;
        let asked_by = self.asked_by.get(n).copied().unwrap_or(ROOT);
        let line = self.lines.get(n).copied().unwrap_or(0);
        match &entry {
            Entry::Global { environment, name } => {
                let unit = self.unit.as_mut().expect("such a graph has a unit");
                let environment = &mut unit.environments[*environment as usize];
                let env = environment.table;
                // Without memory for a name that no string of the domain has, no global has it either.
                let Ok(key) = self.vm.intern_bytes(name) else {
                    self.words.push(Tag::NIL.0 as u64);
                    return Ok(true);
                };
                let v = self.vm.environment_get(env, key);
                unit.taken.push(Taken { environment: env, name: key, value: v });
                let asked =
                    environment.names.iter_mut().find(|asked| asked.name == *name).expect("it was asked for");
                asked.is_done = true;
                let (strict, whole, inner) = (asked.strict, asked.whole, asked.inner.clone());
                let (source, asked_line) = (asked.source.clone(), asked.line);
                self.at(asked_by, || Step::Global { name: String::from_utf8_lossy(name).into_owned(), line });
                let hold = match v.tag() {
                    Tag::TABLE | Tag::CLOSURE => self.hold_of_global(name, &source, asked_line),
                    _ => 0,
                };
                self.value_in_part(v, Way { hold, strict }, whole, inner.iter().map(|name| &**name))?;
            }
            Entry::Patch { module, field } => {
                let (module, _) = self.modules[*module as usize];
                let (name, standard) = self.vm.module_name(module);
                let v = self.vm.module_field(module, field);
                self.at(asked_by, || {
                    let (module, field) = (String::from_utf8_lossy(&name), String::from_utf8_lossy(field));
                    Step::ModuleField { module: module.into_owned(), field: field.into_owned(), standard }
                });
                let hold = self.hold_of_patch(&name, field);
                self.value(v, Way { hold, strict: true })?;
            }
            Entry::Inside { module, path } => self.inside_entry(*module, path, asked_by)?,
            Entry::Field { object, name } => self.field_entry(*object, name)?,
            Entry::Rest { object } => self.rest_entry(*object)?,
        }
        Ok(true)
    }

    /// Writes everything that has been asked for.
    pub fn entries(&mut self) -> Packed {
        self.everything()
    }
}
