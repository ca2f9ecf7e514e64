//! Vector clocks: what has happened before now.
//!
//! Everything that runs code is a *strand* with a number of its own and a time that advances. A clock has,
//! for each strand, the time up to which what that did is known to have happened before; 0 if nothing is.
//! Clocks are copied at each start of a task and each message, and joined at each end, and a program has as
//! many strands as it has iterations of parallel loops. So a clock is a tree of 16-way nodes by the strand's
//! number, and copies share nodes: copying is a count, and joining two clocks visits where they differ only.
//!
//! That is still too much for a program that starts a hundred thousand tasks and awaits them one by one: each
//! task's clock is that of the moment when it was started, and in the meantime the other side's has changed
//! everywhere. So a strand's [`History`] has beside its clock the moment that it was forked from, and a
//! second clock with what it has learned *since*. Whoever knows a moment of a strand knows all that the
//! strand knew then; so only the second has to be joined.

use std::sync::Arc;

const BITS: u32 = 4;
const FAN: usize = 1 << BITS;

#[derive(Clone)]
enum Node {
    Leaf([u32; FAN]),
    Inner([Option<Arc<Node>>; FAN]),
}

/// A time for each strand.
#[derive(Clone, Default)]
pub(crate) struct Clock {
    root: Option<Arc<Node>>,
    /// Levels above the leaves.
    height: u32,
}

impl Node {
    fn empty(height: u32) -> Node {
        if height == 0 { Node::Leaf([0; FAN]) } else { Node::Inner(Default::default()) }
    }
}

impl Clock {
    fn covers(&self, strand: u32) -> bool {
        u64::from(strand) >> (BITS * (self.height + 1)) == 0
    }

    /// Gives the tree this height, if it is lower.
    fn grow(&mut self, height: u32) {
        while self.height < height {
            if let Some(root) = self.root.take() {
                let mut children: [Option<Arc<Node>>; FAN] = Default::default();
                children[0] = Some(root);
                self.root = Some(Arc::new(Node::Inner(children)));
            }
            self.height += 1;
        }
    }

    /// The time up to which this strand is known.
    pub fn get(&self, strand: u32) -> u32 {
        if !self.covers(strand) {
            return 0;
        }
        let mut node = &self.root;
        let mut height = self.height;
        loop {
            let at = (strand >> (BITS * height)) as usize % FAN;
            match node.as_deref() {
                None => return 0,
                Some(Node::Leaf(times)) => return times[at],
                Some(Node::Inner(children)) => {
                    node = &children[at];
                    height -= 1;
                }
            }
        }
    }

    /// Sets the time of a strand.
    pub fn set(&mut self, strand: u32, time: u32) {
        while !self.covers(strand) {
            self.grow(self.height + 1);
        }
        let mut height = self.height;
        let mut node = Arc::make_mut(self.root.get_or_insert_with(|| Arc::new(Node::empty(height))));
        loop {
            let at = (strand >> (BITS * height)) as usize % FAN;
            match node {
                Node::Leaf(times) => {
                    times[at] = time;
                    return;
                }
                Node::Inner(children) => {
                    height -= 1;
                    let child = children[at].get_or_insert_with(|| Arc::new(Node::empty(height)));
                    node = Arc::make_mut(child);
                }
            }
        }
    }

    /// Whatever happened before this moment is known. Whoever has seen nothing has seen no more than anybody.
    pub fn knows(&self, (strand, time): Instant) -> bool {
        strand == 0 || self.get(strand) >= time
    }

    /// As [`Clock::join`], for what a strand has told.
    pub fn learn(&mut self, other: &History) -> bool {
        self.join(if self.knows(other.origin) { &other.since } else { &other.all })
    }

    /// Whatever happened before `other` has happened before this as well from now on. False: that was known.
    pub fn join(&mut self, other: &Clock) -> bool {
        let before = self.root.as_ref().map(Arc::as_ptr);
        if other.height < self.height {
            let mut other = other.clone();
            other.grow(self.height);
            self.root = merge(&self.root, &other.root);
        } else {
            self.grow(other.height);
            self.root = merge(&self.root, &other.root);
        }
        before != self.root.as_ref().map(Arc::as_ptr)
    }
}

/// A time of a strand; strand 0 is none.
pub(crate) type Instant = (u32, u32);

/// What a strand knows.
#[derive(Clone, Default)]
pub(crate) struct History {
    all: Clock,
    /// The moment when it was forked.
    origin: Instant,
    /// Of `all` what it did not know then, or more.
    since: Clock,
}

impl History {
    /// Of what begins at this moment of a strand with this history.
    pub fn fork(&self, moment: Instant) -> History {
        History { all: self.all.clone(), origin: moment, since: Clock::default() }
    }

    /// All that is known.
    pub fn clock(&self) -> &Clock {
        &self.all
    }

    /// When it was forked.
    pub fn origin(&self) -> Instant {
        self.origin
    }

    /// Sets the time of a strand.
    pub fn set(&mut self, strand: u32, time: u32) {
        self.all.set(strand, time);
        self.since.set(strand, time);
    }

    /// As [`Clock::join`].
    pub fn join(&mut self, other: &Clock) -> bool {
        let news = if other.knows(self.origin) {
            // What this was forked from is in there: the other way round there is less to do.
            let before = std::mem::replace(&mut self.all, other.clone());
            self.all.join(&self.since);
            before.root.as_ref().map(Arc::as_ptr) != self.all.root.as_ref().map(Arc::as_ptr)
        } else {
            self.all.join(other)
        };
        if news {
            self.since.join(other);
        }
        news
    }

    /// As [`Clock::learn`].
    pub fn learn(&mut self, other: &History) -> bool {
        if self.all.knows(other.origin) {
            let news = self.all.join(&other.since);
            if news {
                self.since.join(&other.since);
            }
            return news;
        }
        self.join(&other.all)
    }
}

/// The later times of two trees of the same height. One of the two itself, if that is it: so that copies go
/// on sharing.
fn merge(a: &Option<Arc<Node>>, b: &Option<Arc<Node>>) -> Option<Arc<Node>> {
    let (x, y) = match (a, b) {
        (Some(x), Some(y)) if !Arc::ptr_eq(x, y) => (x, y),
        (None, _) => return b.clone(),
        _ => return a.clone(),
    };
    Some(match (&**x, &**y) {
        (Node::Leaf(p), Node::Leaf(q)) => {
            let times: [u32; FAN] = std::array::from_fn(|n| p[n].max(q[n]));
            if times == *p {
                Arc::clone(x)
            } else if times == *q {
                Arc::clone(y)
            } else {
                Arc::new(Node::Leaf(times))
            }
        }
        (Node::Inner(p), Node::Inner(q)) => {
            let children: [Option<Arc<Node>>; FAN] = std::array::from_fn(|n| merge(&p[n], &q[n]));
            if same(&children, p) {
                Arc::clone(x)
            } else if same(&children, q) {
                Arc::clone(y)
            } else {
                Arc::new(Node::Inner(children))
            }
        }
        _ => unreachable!("the trees have the same height"),
    })
}

fn same(a: &[Option<Arc<Node>>; FAN], b: &[Option<Arc<Node>>; FAN]) -> bool {
    a.iter().zip(b).all(|(a, b)| match (a, b) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (None, None) => true,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::{Clock, History};
    use std::collections::HashMap;

    #[test]
    fn a_clock_is_a_map_of_times() {
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        let mut next = move |n: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % n
        };
        let mut clocks: Vec<(Clock, HashMap<u32, u32>)> = vec![Default::default(); 5];
        for step in 0..20_000 {
            let (a, b) = (next(5) as usize, next(5) as usize);
            match next(4) {
                0 => clocks[a] = clocks[b].clone(),
                1 => {
                    let (other, times) = clocks[b].clone();
                    clocks[a].0.join(&other);
                    for (strand, time) in times {
                        let mine = clocks[a].1.entry(strand).or_default();
                        *mine = time.max(*mine);
                    }
                }
                _ => {
                    let bits = 1 + next(32);
                    let strand = (next(1 << 32) & ((1 << bits) - 1)) as u32;
                    let time = clocks[a].0.get(strand) + 1;
                    clocks[a].0.set(strand, time);
                    clocks[a].1.insert(strand, time);
                    assert_eq!(clocks[a].0.get(strand ^ 1), *clocks[a].1.get(&(strand ^ 1)).unwrap_or(&0));
                }
            }
            if step % 1000 == 0 {
                for (clock, times) in &clocks {
                    assert!(times.iter().all(|(&s, &t)| clock.get(s) == t));
                }
                clocks[a] = Default::default();
            }
        }
    }

    /// Histories as strands keep them, beside plain clocks that are joined in full.
    #[test]
    fn histories_know_what_clocks_know() {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = move |n: u32| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random % u64::from(n)) as u32
        };
        struct Tested {
            history: History,
            plain: Clock,
            id: u32,
            time: u32,
        }
        let mut ids = 1;
        let mut strands =
            vec![Tested { history: History::default(), plain: Clock::default(), id: 1, time: 1 }];
        let mut object = (Clock::default(), Clock::default());
        for _ in 0..5000 {
            let a = next(strands.len() as u32) as usize;
            let b = next(strands.len() as u32) as usize;
            // Each telling ends a time; what comes later is at the next.
            let x = &mut strands[a];
            x.history.set(x.id, x.time);
            x.plain.set(x.id, x.time);
            let (told, plain, moment) = (x.history.clone(), x.plain.clone(), (x.id, x.time));
            x.time += 1;
            match next(4) {
                0 => {
                    ids += 1;
                    let child = Tested { history: told.fork(moment), plain, id: ids, time: 1 };
                    if strands.len() < 8 { strands.push(child) } else { strands[b] = child }
                }
                1 => {
                    strands[b].history.learn(&told);
                    strands[b].plain.join(&plain);
                }
                2 => {
                    object.0.learn(&told);
                    object.1.join(&plain);
                }
                _ => {
                    strands[b].history.join(&object.0);
                    strands[b].plain.join(&object.1);
                }
            }
            let y = &strands[b.min(strands.len() - 1)];
            assert!((0..=ids).all(|s| y.history.clock().get(s) == y.plain.get(s)));
            assert!((0..=ids).all(|s| object.0.get(s) == object.1.get(s)));
        }
    }

    #[test]
    fn joining_what_is_known_shares() {
        let mut a = Clock::default();
        for strand in 0..1000 {
            a.set(strand, 1);
        }
        let mut b = a.clone();
        b.set(77, 2);
        a.join(&b);
        assert!(std::ptr::eq(&**a.root.as_ref().unwrap(), &**b.root.as_ref().unwrap()));
        assert_eq!((a.get(77), a.get(78), a.get(1000), a.get(u32::MAX)), (2, 1, 0, 0));
    }
}
