//! What arrives in tables inside modules; the essay is in `inside.rs`.

use super::{Id, Key, Path, State, id, is_same, may_change, metatable_of};
use crate::Vm;
use crate::native::LuaResult;
use crate::object::Table;
use crate::parcel::graph::{Entry, Graph};
use crate::value::{Gc, Value};
use std::collections::HashSet;

/// What has arrived in a table, and over what. Roots.
#[derive(Default)]
pub(super) struct Arrived {
    pub(super) fields: Vec<(Value, Value)>,
    pub(super) metatable: Option<Value>,
}

/// What modules were when the receiver of a graph had made what it tells of them.
pub(in crate::parcel) struct Applied {
    arrivals: u64,
    /// Of those that the graph changes.
    prints: Box<[(u32, u64)]>,
}

impl Vm {
    /// The table that fields which have arrived are for; `None`: there is none here, or, if `ours_stay`, this
    /// domain has written into it.
    pub(in crate::parcel) fn inside_receiver(
        &mut self,
        module: Value,
        path: &[Key],
        ours_stay: bool,
    ) -> Option<Gc<Table>> {
        let t = self.behind(module, path)?;
        let inside = &mut self.lua.crossing.parcel.inside;
        let is_ours = match inside.number(t).map(|n| &inside.list[n as usize].state) {
            Some(State::Written(written)) => written.by_us,
            _ => false,
        };
        (may_change(t) && !(ours_stay && is_ours)).then_some(t)
    }

    /// Stores what has arrived, and takes back what had and has not again.
    pub(in crate::parcel) fn inside_arrives(
        &mut self,
        t: Gc<Table>,
        fields: &[(Value, Value)],
        metatable: Option<Value>,
    ) -> LuaResult<()> {
        let inside = &mut self.lua.crossing.parcel.inside;
        let number = inside.number(t);
        let mut arrived = number.and_then(|n| inside.arrived.remove(&n)).unwrap_or_default();
        inside.arriving = true;
        let result = self.store_arrived(t, number, &mut arrived, fields, metatable);
        let inside = &mut self.lua.crossing.parcel.inside;
        inside.arriving = false;
        if let Some(number) = number
            && (!arrived.fields.is_empty() || arrived.metatable.is_some())
        {
            inside.arrived.insert(number, arrived);
        }
        result
    }

    fn store_arrived(
        &mut self,
        t: Gc<Table>,
        number: Option<u32>,
        arrived: &mut Arrived,
        fields: &[(Value, Value)],
        metatable: Option<Value>,
    ) -> LuaResult<()> {
        let told: HashSet<Id, foldhash::fast::FixedState> = fields.iter().map(|f| id(f.0)).collect();
        let (known, gone): (Vec<_>, Vec<_>) = arrived.fields.drain(..).partition(|f| told.contains(&id(f.0)));
        arrived.fields = known;
        for (key, was) in gone {
            self.store_arriving(t, key, was)?;
        }
        let known: HashSet<Id, foldhash::fast::FixedState> = arrived.fields.iter().map(|f| id(f.0)).collect();
        for &(key, v) in fields {
            if number.is_some() && !known.contains(&id(key)) {
                let was = self.first_value(number, key, self.raw_get(t, key));
                arrived.fields.push((key, was));
            }
            self.store_arriving(t, key, v)?;
        }
        let now = metatable_of(t);
        let mt = match (metatable, arrived.metatable) {
            (Some(mt), was) => {
                arrived.metatable = was.or(Some(now)).filter(|_| number.is_some());
                mt
            }
            (None, was) => {
                arrived.metatable = None;
                was.unwrap_or(now)
            }
        };
        if !mt.same(now) {
            self.lua.crossing.parcel.inside.arrivals += 1;
            self.set_metatable_of(t.into(), mt.as_table())?;
        }
        Ok(())
    }

    fn store_arriving(&mut self, t: Gc<Table>, key: Value, v: Value) -> LuaResult<()> {
        if is_same(self.raw_get(t, key), v) {
            return Ok(());
        }
        self.lua.crossing.parcel.inside.arrivals += 1;
        self.raw_set(t, key, v)
    }

    /// Takes back what has arrived in tables of a module that a parcel does not tell of: `told` has the paths
    /// of those that it does.
    pub(in crate::parcel) fn inside_take_back(&mut self, module: u32, told: &[&Path]) -> LuaResult<()> {
        let inside = &self.lua.crossing.parcel.inside;
        let of_module = |n: &u32| inside.list[*n as usize].module == module;
        let mut numbers: Vec<u32> = inside.arrived.keys().copied().filter(of_module).collect();
        numbers.sort_unstable();
        if numbers.is_empty() {
            return Ok(());
        }
        let value = self.module_value(module);
        for path in told {
            if let Some(t) = self.behind(value, path)
                && let Some(number) = self.lua.crossing.parcel.inside.number(t)
            {
                numbers.retain(|n| *n != number);
            }
        }
        for number in numbers {
            let t = self.lua.crossing.parcel.inside.list[number as usize].table;
            if !t.is_frozen() {
                self.inside_arrives(t, &[], None)?;
            }
        }
        Ok(())
    }

    /// What modules are now that the entries of a graph have been stored; `None`: it has nothing to do with
    /// them.
    pub(in crate::parcel) fn applied(&mut self, graph: &Graph) -> Option<Applied> {
        let refs = graph.refs.as_ref()?;
        let mut changed: Vec<u32> = refs.entries.iter().filter_map(Entry::module).collect();
        changed.dedup();
        if !refs.has_own_modules && changed.is_empty() {
            return None;
        }
        let mut prints = Vec::new();
        for n in changed {
            if let Some(module) = self.module_number(&refs.modules[n as usize].name) {
                prints.push((module, self.module_print(module)));
            }
        }
        Some(Applied { arrivals: self.lua.crossing.parcel.inside.arrivals, prints: prints.into() })
    }

    /// Whether modules are what they were.
    pub(in crate::parcel) fn still_applied(&mut self, applied: &Applied) -> bool {
        applied.arrivals == self.lua.crossing.parcel.inside.arrivals
            && applied.prints.iter().all(|&(module, print)| self.module_print(module) == print)
    }
}
