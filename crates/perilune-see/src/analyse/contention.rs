//! Shared objects that processors wait for each other at: which, how long, in which domains.
//!
//! Domains write down how long their operations on shared objects (atomics, maps, channels) took longer than
//! such operations take that nobody disturbs, and what had to be done again because another domain was faster
//! ([`Kind::Contended`]). Only one operation in several is timed, and it counts for all of them: sums are
//! estimates, good for finding *the* object, not for small differences.
//!
//! The share of an object is its part of the processor time of the domains that used it.

use super::domains::Accounts;
use crate::trace::{Trace, Who};
use perilune_trace::event::{Kind, ObjectRef};
use std::collections::{BTreeMap, HashMap};

/// What domains lost at one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contended {
    /// The object.
    pub object: ObjectRef,
    /// Nanoseconds that its operations had to wait, in all domains.
    pub ns: u64,
    /// Operations that this is about.
    pub operations: u64,
    /// Nanoseconds by domain; 0: threads outside of all domains.
    pub domains: BTreeMap<u32, u64>,
}

impl Contended {
    /// Processor time of the domains that lost time at it, in nanoseconds.
    pub fn running(&self, accounts: &Accounts) -> u64 {
        self.domains.keys().filter_map(|n| accounts.domain(*n)).map(|a| a.times.cpu()).sum()
    }
}

/// All objects that were contended for, the worst first. Needs the category `contention`.
pub fn contended(trace: &Trace) -> Vec<Contended> {
    let mut objects: Vec<Contended> = Vec::new();
    let mut at: HashMap<u64, usize> = HashMap::new();
    for e in trace.events.iter().filter(|e| e.kind == Kind::Contended) {
        let n = *at.entry(e.a).or_insert_with(|| {
            objects.push(Contended {
                object: ObjectRef(e.a),
                ns: 0,
                operations: 0,
                domains: BTreeMap::new(),
            });
            objects.len() - 1
        });
        let domain = match e.who {
            Who::Domain(domain) => domain,
            Who::Thread(_) => 0,
        };
        objects[n].ns += e.b;
        objects[n].operations += e.c as u64;
        *objects[n].domains.entry(domain).or_default() += e.b;
    }
    objects.sort_by_key(|o| (std::cmp::Reverse(o.ns), o.object));
    objects
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Event;
    use perilune_trace::event::ObjectKind;

    #[test]
    fn objects_are_told_apart_and_domains_add_up() {
        let (a, b) = (ObjectRef::new(ObjectKind::Atomic, 1), ObjectRef::new(ObjectKind::Map, 1));
        let event = |domain, object: ObjectRef, c, b| Event {
            ns: 0,
            who: Who::Domain(domain),
            kind: Kind::Contended,
            c,
            a: object.0,
            b,
        };
        let trace = Trace {
            events: vec![event(2, b, 16, 500), event(2, a, 16, 400), event(3, a, 32, 700)],
            ..Trace::default()
        };
        let found = contended(&trace);
        assert_eq!(
            found.iter().map(|o| (o.object, o.ns, o.operations)).collect::<Vec<_>>(),
            [(a, 1100, 48), (b, 500, 16)]
        );
        assert_eq!(found[0].domains, BTreeMap::from([(2, 400), (3, 700)]));
    }
}
