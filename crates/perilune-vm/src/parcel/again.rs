//! Functions that cross again and again.
//!
//! A program that makes ten thousand tasks of one function would pack it as often, and the receiver would
//! make as many closures of it, all the same. So the sender keeps the parcels of a few functions that it has
//! sent twice in a row, and sends them again; a receiver keeps what it has made of such a parcel as long as
//! the parcel is there, and calls it again, as it does the functions of a loop.
//!
//! Only functions are kept that nothing changes, whatever the program does: their variables are constants and
//! hold numbers, booleans, strings, or such functions; they store into nothing and call no methods. What else
//! their parcel shows is compared each time: the globals that they name (`snapshot.rs`), what modules are
//! found by (`search.rs`), and what is counted as a change that nobody sees (`cache.rs`). The sender knows a
//! function by its address, so a collection ends it. What holds counts of shared objects is not kept, or the
//! sender would keep these alive.
//!
//! *Rejected.* Keeping each function that crosses: most are sent once, and looking at their variables costs
//! what packing them does. Captured tables: pictures are for these, and say when they have changed; the rest
//! of such a parcel is small.

use super::graph::{Graph, Refs};
use super::pack::shared_proto;
use super::snapshot::CacheKey;
use super::{Globals, PackRules, Parcel, Repr, is_told};
use crate::Vm;
use crate::native::LuaResult;
use crate::object::LuaClosure;
use crate::value::{Gc, Tag, Value};
use perilune_heap::Obj;
use perilune_syntax::VarKind;
use std::sync::{Arc, Weak};

/// How many functions a sender keeps, and a receiver.
const MOST: usize = 4;
/// How many functions lead to each other in one that is kept.
const MOST_INNER: usize = 16;

/// A function that has been sent.
struct Sent {
    /// Its address, which is its own until the next collection.
    function: u64,
    rules: PackRules,
    graph: Arc<Graph>,
    /// Of the snapshots that the graph has, in its order.
    snapshots: Vec<CacheKey>,
    /// What `Cache::unseen` was.
    unseen: u64,
}

/// A function that has arrived.
struct Arrived {
    /// Gone when the sender keeps it no more, and no parcel is under way.
    graph: Weak<Graph>,
    /// A root while the graph is there.
    function: Value,
    /// What had arrived in modules (`inside.rs`), if the function leads to some.
    arrivals: Option<u64>,
}

/// What a domain keeps of them.
#[derive(Default)]
pub(super) struct Again {
    /// The function that was sent last, by its address, and how.
    last: Option<(u64, PackRules)>,
    sent: Vec<Sent>,
    arrived: Vec<Arrived>,
    /// How many parcels have been sent again, and functions used again.
    pub counts: [u64; 2],
}

impl Again {
    /// Reports the roots.
    pub fn trace(&self, mark: &mut impl FnMut(Obj)) {
        for a in self.arrived.iter().filter(|a| a.graph.strong_count() > 0) {
            a.function.obj().map(&mut *mark);
        }
    }

    /// At the end of every collection.
    pub fn collected(&mut self) {
        self.last = None;
        self.sent.clear();
        self.arrived.retain(|a| a.graph.strong_count() > 0);
    }
}

impl Vm {
    /// How many parcels of functions have been sent once more here, and how many functions that had arrived
    /// so have been used once more.
    pub fn again_counts(&self) -> [u64; 2] {
        self.lua.crossing.parcel.again.counts
    }

    /// The parcel of a function that has been sent by these rules already, if it would be the same.
    pub(super) fn sent_again(&mut self, values: &[Value], rules: PackRules) -> Option<Parcel> {
        let &[f] = values else { return None };
        let again = &self.lua.crossing.parcel.again;
        let at = again.sent.iter().position(|s| s.function == f.payload() && s.rules == rules)?;
        if is_told() {
            return None;
        }
        // Out of the list while it is looked at: that asks for what nothing but the state knows.
        let sent = self.lua.crossing.parcel.again.sent.swap_remove(at);
        if !self.is_the_same(&sent) {
            return None;
        }
        let graph = sent.graph.clone();
        let again = &mut self.lua.crossing.parcel.again;
        again.sent.push(sent);
        again.counts[0] += 1;
        Some(Parcel(Repr::Graph { graph, globals: rules.globals }))
    }

    fn is_the_same(&mut self, sent: &Sent) -> bool {
        if sent.unseen != self.lua.crossing.parcel.cache.unseen() {
            return false;
        }
        let Some(refs) = &sent.graph.refs else { return false };
        let holds = |vm: &mut Vm, (key, snapshot)| vm.snapshot_holds(key, snapshot);
        if !sent.snapshots.iter().zip(&refs.snapshots).all(|pair| holds(self, pair)) {
            return false;
        }
        let search = if refs.search.is_some() { self.search() } else { None };
        match (&refs.search, &search) {
            (Some(then), Some(now)) => Arc::ptr_eq(then, now),
            (then, now) => then.is_none() && now.is_none(),
        }
    }

    /// These values have become that parcel. A function that was sent last time, too, is kept.
    pub(super) fn note_sent(&mut self, values: &[Value], rules: PackRules, parcel: &mut Parcel) {
        let &[f] = values else { return };
        let Some(function) = f.as_closure() else { return };
        let last = self.lua.crossing.parcel.again.last.replace((f.payload(), rules));
        if last != Some((f.payload(), rules)) || is_told() {
            return;
        }
        let Repr::Graph { graph, .. } = &mut parcel.0 else { return };
        let Some(refs) = graph.refs.as_ref().filter(|refs| has_functions_only(refs)) else { return };
        let Some(keys) = self.constant_function(function) else { return };
        let mut snapshots = Vec::new();
        for snapshot in &refs.snapshots {
            match keys.iter().find(|&key| self.is_snapshot_of(key, snapshot)) {
                Some(key) => snapshots.push(*key),
                None => return,
            }
        }
        let Some(kept) = Arc::get_mut(graph) else { return };
        kept.comes_again = true;
        let unseen = self.lua.crossing.parcel.cache.unseen();
        let sent = Sent { function: f.payload(), rules, graph: graph.clone(), snapshots, unseen };
        let list = &mut self.lua.crossing.parcel.again.sent;
        if list.len() >= MOST {
            list.remove(0);
        }
        list.push(sent);
    }

    /// If nothing that a function shows ever changes, but globals: the snapshots of these that it, and what
    /// it leads to, may have.
    fn constant_function(&self, function: Gc<LuaClosure>) -> Option<Vec<CacheKey>> {
        let (mut met, mut at, mut keys) = (vec![function], 0, Vec::new());
        while let Some(&c) = met.get(at) {
            at += 1;
            let proto = shared_proto(c);
            let mentions = proto.mentions();
            if !mentions.methods.is_empty() || !mentions.stores.is_empty() {
                return None;
            }
            for (n, desc) in proto.upvalues.iter().enumerate() {
                // SAFETY: the upvalue is kept by the closure; its value is on a live stack or its own.
                let (v, crossed) = unsafe { (*(*c.upvalue(n)).v, (*c.upvalue(n)).is_frozen()) };
                let is_constant = match desc.kind {
                    VarKind::Unassigned | VarKind::Close | VarKind::Settled => true,
                    VarKind::Late => crossed || !v.is_nil(),
                    VarKind::Mutable => crossed,
                };
                if !is_constant {
                    return None;
                }
                if let Some(env) = self.captured_environment(desc, v) {
                    keys.push((Arc::as_ptr(&proto) as usize, env.ptr() as usize, n as u8, true, false));
                    continue;
                }
                match v.as_closure() {
                    Some(inner) if met.contains(&inner) => {}
                    Some(inner) if met.len() < MOST_INNER => met.push(inner),
                    Some(_) => return None,
                    None if v.obj().is_none() || v.tag() == Tag::STRING => {}
                    None => return None,
                }
            }
        }
        Some(keys)
    }

    /// Pushes the function of a parcel that may come again.
    pub(super) fn unpack_again(&mut self, graph: &Arc<Graph>, globals: Globals) -> LuaResult<u32> {
        if let Some(search) = graph.refs.as_ref().and_then(|refs| refs.search.as_ref()) {
            self.adopt_search(search)?;
        }
        self.ensure_stack(1)?;
        let arrivals = self.lua.crossing.parcel.inside.arrivals;
        let again = &mut self.lua.crossing.parcel.again;
        let is_it = |a: &&Arrived| std::ptr::eq(a.graph.as_ptr(), Arc::as_ptr(graph));
        let known = again.arrived.iter().find(is_it);
        let known = known.filter(|a| a.arrivals.is_none_or(|then| then == arrivals));
        if let Some(function) = known.map(|a| a.function) {
            again.counts[1] += 1;
            self.push(function);
            return Ok(1);
        }
        let count = self.unpack_graph(graph, globals)?;
        let function = self.stack_get(self.nargs());
        let arrivals = self.arrivals_for(graph);
        let list = &mut self.lua.crossing.parcel.again.arrived;
        list.retain(|a| a.graph.strong_count() > 0 && !is_it(&a));
        if list.len() >= MOST {
            list.remove(0);
        }
        list.push(Arrived { graph: Arc::downgrade(graph), function, arrivals });
        Ok(count)
    }
}

/// Whether a graph refers to nothing but prototypes and globals, and changes no module: that has to be done
/// for each task, whatever the one before has stored.
fn has_functions_only(refs: &Refs) -> bool {
    let changes_modules = |graph: &Graph| {
        graph.refs.as_ref().is_some_and(|refs| refs.entries.iter().any(|e| e.module().is_some()))
    };
    !refs.snapshots.iter().any(|s| changes_modules(&s.graph))
        && refs.known.is_empty()
        && refs.modules.is_empty()
        && refs.pictures.is_empty()
        && refs.entries.is_empty()
        && refs.environments == 0
        && refs.frozen.is_empty()
        && refs.origins.is_empty()
        && refs.crossings.is_empty()
        && !refs.hold_counts()
}
