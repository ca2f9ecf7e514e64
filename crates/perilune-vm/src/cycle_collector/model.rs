//! All interleavings of a proof with somebody who still has an external count, on small graphs.
//!
//! Constant holders are numbered from above to below; what changes is frozen and can only be reached, not
//! read. A step of the program takes a count of what a holder holds that it has a count of, or gives a count
//! up. A step of the proof reads one count. If the proof finds no external count, there must be none.

use super::trial_deletion::{Edges, downwards};
use std::collections::HashSet;

/// Most external counts of one thing that the program has.
const MOST: u8 = 2;

#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    external: Vec<u8>,
    /// How many counts the proof has read.
    read: usize,
}

/// Whether some interleaving makes a proof in this order wrong, if the program begins with one count of
/// `first`.
fn can_be_wrong(edges: &Edges, changes: &[bool], order: &[u32], first: usize) -> bool {
    let mut external = vec![0; changes.len()];
    external[first] = 1;
    let mut todo = vec![State { external, read: 0 }];
    let mut seen: HashSet<State> = todo.iter().cloned().collect();
    while let Some(s) = todo.pop() {
        if s.read == order.len() {
            if s.external.iter().any(|&n| n > 0) {
                return true;
            }
            continue;
        }
        let mut next = Vec::new();
        if s.external[order[s.read] as usize] == 0 {
            next.push(State { read: s.read + 1, ..s.clone() });
        }
        for n in (0..changes.len()).filter(|&n| s.external[n] > 0) {
            let mut less = s.clone();
            less.external[n] -= 1;
            next.push(less);
            for &to in edges.of(n).iter().filter(|_| !changes[n]) {
                let mut more = s.clone();
                more.external[to as usize] += 1;
                if more.external[to as usize] <= MOST {
                    next.push(more);
                }
            }
        }
        todo.extend(next.into_iter().filter(|s| seen.insert(s.clone())));
    }
    false
}

/// Graphs of `constant` constant holders and one thing that changes, which holds all of them, numbered so
/// that names say nothing.
fn graphs(constant: usize) -> impl Iterator<Item = (Edges, Vec<bool>)> {
    let pairs: Vec<(usize, usize)> =
        (0..constant).flat_map(|a| (a + 1..=constant).map(move |b| (a, b))).collect();
    (0..1u32 << pairs.len()).map(move |chosen| {
        let name = |n: usize| (n * 3 + 1) % (constant + 1);
        let mut lists = vec![Vec::new(); constant + 1];
        for (n, &(a, b)) in pairs.iter().enumerate() {
            if chosen >> n & 1 != 0 {
                lists[name(a)].push(name(b) as u32);
            }
        }
        lists[name(constant)] = (0..constant).map(|n| name(n) as u32).collect();
        let mut edges = Edges::default();
        for list in lists {
            edges.to.extend(list);
            edges.end_node();
        }
        let changes = (0..=constant).map(|n| n == name(constant)).collect();
        (edges, changes)
    })
}

#[test]
fn no_interleaving_deceives_a_proof_that_reads_downwards() {
    // With two, names would not be distinct.
    for constant in [1, 3, 4] {
        for (edges, changes) in graphs(constant) {
            let order = downwards(&changes, &edges);
            assert_eq!(order.len(), constant + 1);
            for first in 0..=constant {
                assert!(!can_be_wrong(&edges, &changes, &order, first), "{:?} {order:?}", edges.to);
            }
        }
    }
}

#[test]
fn reading_upwards_would_be_wrong() {
    let wrong = graphs(3).any(|(edges, changes)| {
        let mut order = downwards(&changes, &edges);
        order.reverse();
        (0..4).any(|first| can_be_wrong(&edges, &changes, &order, first))
    });
    assert!(wrong);
}
