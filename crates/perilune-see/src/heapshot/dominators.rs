//! Dominators: `d` dominates `n` if every path from the root to `n` passes through `d`. The nearest one is
//! the *immediate* dominator; these form a tree.
//!
//! The algorithm is semi-NCA (Georgiadis): number nodes in the order of a depth-first search, find
//! semidominators as Lengauer and Tarjan do, with paths compressed, then walk up the tree under construction
//! until a number is no greater than the semidominator's. Nearly linear; everything is iterative, since lists
//! of a million nodes are ordinary. Iterating over reverse postorder until nothing changes is shorter, but
//! quadratic for lists with links back.

/// No node.
pub const NONE: u32 = u32::MAX;

/// A tree of dominators.
pub struct Dominators {
    /// The immediate dominator of each node; the root's and an unreachable node's is [`NONE`].
    pub parent: Vec<u32>,
    /// The reachable nodes, each after its dominators: the root first.
    pub order: Vec<u32>,
}

/// The dominators of a graph of `count` nodes, seen from `root`. `successor(n, k)` is the node that reference
/// `k` of `n` leads to ([`NONE`]: it counts for nothing); `None` when there are no more.
pub fn dominators(count: usize, root: u32, successor: impl Fn(u32, u32) -> Option<u32>) -> Dominators {
    // Numbers by depth-first search; from here on everything but `order` is in these numbers.
    let mut number = vec![NONE; count];
    let mut order = Vec::new();
    let mut tree_parent: Vec<u32> = Vec::new();
    let mut stack: Vec<(u32, u32)> = vec![(root, 0)];
    number[root as usize] = 0;
    order.push(root);
    tree_parent.push(0);
    while let Some((node, at)) = stack.last_mut() {
        let from = *node;
        match successor(from, *at) {
            None => {
                stack.pop();
            }
            Some(to) => {
                *at += 1;
                if to != NONE && number[to as usize] == NONE {
                    number[to as usize] = order.len() as u32;
                    tree_parent.push(number[from as usize]);
                    order.push(to);
                    stack.push((to, 0));
                }
            }
        }
    }
    let n = order.len();
    // Predecessors, one list behind the other.
    let mut first = vec![0u32; n + 1];
    let each_edge = |f: &mut dyn FnMut(u32, u32)| {
        for (from, &node) in order.iter().enumerate() {
            let mut k = 0;
            while let Some(to) = successor(node, k) {
                k += 1;
                if to != NONE {
                    f(from as u32, number[to as usize]);
                }
            }
        }
    };
    each_edge(&mut |_, to| first[to as usize + 1] += 1);
    for i in 0..n {
        first[i + 1] += first[i];
    }
    let mut at = first.clone();
    let mut predecessors = vec![0u32; first[n] as usize];
    each_edge(&mut |from, to| {
        predecessors[at[to as usize] as usize] = from;
        at[to as usize] += 1;
    });
    drop(at);

    let mut semi: Vec<u32> = (0..n as u32).collect();
    let mut label: Vec<u32> = (0..n as u32).collect();
    let mut ancestor = tree_parent.clone();
    let mut path = Vec::new();
    for w in (1..n).rev() {
        let mut best = w as u32;
        for &v in &predecessors[first[w] as usize..first[w + 1] as usize] {
            let u = if v as usize <= w {
                v
            } else {
                evaluate(v, w as u32, &mut ancestor, &mut label, &semi, &mut path)
            };
            best = best.min(semi[u as usize]);
        }
        semi[w] = best;
    }
    let mut idom = tree_parent;
    for w in 1..n {
        let mut d = idom[w];
        while d > semi[w] {
            d = idom[d as usize];
        }
        idom[w] = d;
    }
    let mut parent = vec![NONE; count];
    for w in 1..n {
        parent[order[w] as usize] = order[idom[w] as usize];
    }
    Dominators { parent, order }
}

/// The node with the least semidominator on the path from `v` up to, and without, the first node whose number
/// is at most `last`; compresses the path. All nodes above `last` have been dealt with.
fn evaluate(
    v: u32,
    last: u32,
    ancestor: &mut [u32],
    label: &mut [u32],
    semi: &[u32],
    path: &mut Vec<u32>,
) -> u32 {
    path.clear();
    let mut at = v;
    while ancestor[at as usize] > last {
        path.push(at);
        at = ancestor[at as usize];
    }
    // `at` is the last one below the border.
    let top = ancestor[at as usize];
    let mut best = label[at as usize];
    while let Some(n) = path.pop() {
        let own = label[n as usize];
        if semi[own as usize] < semi[best as usize] {
            best = own;
        }
        label[n as usize] = best;
        ancestor[n as usize] = top;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(edges: &[Vec<u32>]) -> Dominators {
        dominators(edges.len(), 0, |n, k| edges[n as usize].get(k as usize).copied())
    }

    /// By definition: `d` dominates what cannot be reached without it.
    fn reachable_without(edges: &[Vec<u32>], without: u32) -> Vec<bool> {
        let mut seen = vec![false; edges.len()];
        let mut todo = vec![0];
        if without == 0 {
            return seen;
        }
        seen[0] = true;
        while let Some(n) = todo.pop() {
            for &to in &edges[n as usize] {
                if to != NONE && to != without && !std::mem::replace(&mut seen[to as usize], true) {
                    todo.push(to);
                }
            }
        }
        seen
    }

    #[test]
    fn a_long_list_with_links_back() {
        let n = 200_000u32;
        let edges: Vec<Vec<u32>> = (0..n).map(|i| vec![(i + 1).min(n - 1), i.saturating_sub(1)]).collect();
        let d = of(&edges);
        assert!((1..n).all(|i| d.parent[i as usize] == i - 1));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 2000 }))]
        #[test]
        fn as_by_definition(
            edges in (1usize..14).prop_flat_map(|n| {
                let to = (0..n as u32 + 1).prop_map(move |x| if x == n as u32 { NONE } else { x });
                prop::collection::vec(prop::collection::vec(to, 0..4), n)
            })
        ) {
            let d = of(&edges);
            let all = reachable_without(&edges, NONE);
            let without: Vec<Vec<bool>> =
                (0..edges.len() as u32).map(|v| reachable_without(&edges, v)).collect();
            prop_assert_eq!(d.order.len(), all.iter().filter(|&&r| r).count());
            for n in 0..edges.len() {
                if !all[n] || n == 0 {
                    prop_assert_eq!(d.parent[n], NONE);
                    continue;
                }
                // The dominators by the tree are those by definition.
                let mut of_n = vec![false; edges.len()];
                let mut at = n as u32;
                while at != NONE {
                    of_n[at as usize] = true;
                    at = d.parent[at as usize];
                }
                for v in 0..edges.len() {
                    let dominates = all[v] && (v == n || !without[v][n]);
                    prop_assert_eq!(of_n[v], dominates, "{} over {} in {:?}", v, n, &edges);
                }
            }
        }
    }
}
