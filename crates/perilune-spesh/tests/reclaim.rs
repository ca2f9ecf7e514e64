//! Retired items come back when no participant can have them, and then they do.

use perilune_spesh::reclaim::{Participant, Reclaimer, Retired};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::ops::Range;

#[derive(Debug, PartialEq)]
struct Item(usize);

impl Retired for Item {
    fn addresses(&self) -> Range<usize> {
        self.0..self.0 + 16
    }
}

fn retire(reclaimer: &Reclaimer<Item>, at: usize) {
    // SAFETY: these items are numbers that nobody looks at.
    unsafe { reclaimer.retire(Item(at)) }
}

fn pass(participant: &mut Participant<Item>, named: &[usize]) {
    // SAFETY: as above.
    unsafe { participant.pass(named) }
}

fn leave(participant: &mut Participant<Item>, named: &[usize]) {
    // SAFETY: as above.
    unsafe { participant.leave(named) }
}

#[test]
fn nobody_inside_holds_nothing_up() {
    let reclaimer = Reclaimer::new();
    let _parked = reclaimer.register(1);
    retire(&reclaimer, 64);
    assert_eq!(reclaimer.collect(), [Item(64)]);
    assert_eq!(reclaimer.collect(), []);
}

#[test]
fn every_domain_inside_has_to_pass_or_leave() {
    let reclaimer = Reclaimer::new();
    let (mut a, mut b) = (reclaimer.register(1), reclaimer.register(2));
    a.enter();
    b.enter();
    retire(&reclaimer, 64);
    assert_eq!(reclaimer.collect(), []);
    assert_eq!(reclaimer.laggards(), [1, 2]);
    pass(&mut a, &[]);
    assert_eq!(reclaimer.collect(), []);
    assert_eq!(reclaimer.laggards(), [2]);
    leave(&mut b, &[]);
    b.enter();
    assert_eq!(reclaimer.collect(), [Item(64)]);
    assert_eq!(reclaimer.laggards(), []);
}

#[test]
fn who_enters_after_retirement_is_not_waited_for() {
    let reclaimer = Reclaimer::new();
    let mut a = reclaimer.register(1);
    retire(&reclaimer, 64);
    a.enter();
    assert_eq!(reclaimer.collect(), [Item(64)]);
}

#[test]
fn what_a_domain_names_is_kept_until_it_names_it_no_more() {
    let reclaimer = Reclaimer::new();
    let mut a = reclaimer.register(1);
    a.enter();
    retire(&reclaimer, 64);
    retire(&reclaimer, 128);
    pass(&mut a, &[79]);
    assert_eq!(reclaimer.collect(), [Item(128)]);
    // The native stack is parked with its frames, and comes back with them.
    leave(&mut a, &[64]);
    assert_eq!(reclaimer.collect(), []);
    a.enter();
    assert_eq!(reclaimer.collect(), []);
    pass(&mut a, &[80]);
    assert_eq!(reclaimer.collect(), [Item(64)]);
}

#[test]
fn what_was_named_before_retirement_counts_too() {
    let reclaimer = Reclaimer::new();
    let mut a = reclaimer.register(1);
    a.enter();
    leave(&mut a, &[64]);
    retire(&reclaimer, 64);
    retire(&reclaimer, 128);
    assert_eq!(reclaimer.collect(), [Item(128)]);
    a.enter();
    leave(&mut a, &[]);
    assert_eq!(reclaimer.collect(), [Item(64)]);
}

#[test]
fn a_domain_that_ends_outside_gives_up_its_seat_and_another_keeps_it() {
    let reclaimer = Reclaimer::new();
    let mut a = reclaimer.register(1);
    a.enter();
    leave(&mut a, &[]);
    retire(&reclaimer, 128);
    drop(a);
    assert_eq!(reclaimer.collect(), [Item(128)]);
    let mut b = reclaimer.register(2);
    b.enter();
    retire(&reclaimer, 64);
    drop(b);
    assert_eq!(reclaimer.collect(), []);
    assert_eq!(reclaimer.laggards(), [2]);
}

#[derive(Clone, Debug)]
enum Step {
    Enter(usize),
    Pass(usize),
    Leave(usize),
    /// The domain takes an item that is not retired, if it is inside.
    Take(usize, usize),
    /// It lets go of all that it has. It says so only when it passes or leaves.
    Forget(usize),
    Retire(usize),
    Collect,
}

fn step() -> impl Strategy<Value = Step> {
    let domain = 0usize..3;
    prop_oneof![
        domain.clone().prop_map(Step::Enter),
        domain.clone().prop_map(Step::Pass),
        domain.clone().prop_map(Step::Leave),
        (domain.clone(), 0usize..6).prop_map(|(d, item)| Step::Take(d, item)),
        domain.prop_map(Step::Forget),
        (0usize..6).prop_map(Step::Retire),
        Just(Step::Collect),
    ]
}

proptest! {
    /// Domains take items, name what they have, and let go: nothing is freed that one has, and when all have
    /// left with empty hands, everything retired is.
    #[test]
    fn nothing_is_freed_that_a_domain_has(steps in vec(step(), 1..80)) {
        let reclaimer = Reclaimer::new();
        let mut domains: Vec<_> =
            (0..3).map(|tag| (reclaimer.register(tag), BTreeSet::<usize>::new())).collect();
        let mut reachable: BTreeSet<usize> = (0..6).collect();
        let mut retired: BTreeSet<usize> = BTreeSet::new();
        let address = |item: &usize| item * 16;
        for step in steps {
            match step {
                Step::Enter(d) if !domains[d].0.is_inside() => domains[d].0.enter(),
                Step::Pass(d) if domains[d].0.is_inside() => {
                    let named: Vec<usize> = domains[d].1.iter().map(address).collect();
                    pass(&mut domains[d].0, &named);
                }
                Step::Leave(d) if domains[d].0.is_inside() => {
                    let named: Vec<usize> = domains[d].1.iter().map(address).collect();
                    leave(&mut domains[d].0, &named);
                }
                Step::Take(d, item) if domains[d].0.is_inside() && reachable.contains(&item) => {
                    domains[d].1.insert(item);
                }
                Step::Forget(d) if domains[d].0.is_inside() => domains[d].1.clear(),
                Step::Retire(item) if reachable.remove(&item) => {
                    retired.insert(item);
                    retire(&reclaimer, address(&item));
                }
                Step::Collect => {
                    for Item(at) in reclaimer.collect() {
                        let item = at / 16;
                        prop_assert!(retired.remove(&item));
                        prop_assert!(domains.iter().all(|(_, has)| !has.contains(&item)));
                    }
                }
                _ => {}
            }
        }
        for (participant, _) in &mut domains {
            if !participant.is_inside() {
                participant.enter();
            }
            leave(participant, &[]);
        }
        prop_assert_eq!(reclaimer.collect().len(), retired.len());
        prop_assert_eq!(reclaimer.waiting(), 0);
    }
}
