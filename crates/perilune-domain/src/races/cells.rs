//! Lost updates of atomics and of keys of maps: what is read with `load` or `get` and written back, changed,
//! with `store` or `set`.
//!
//! Each operation on a cell is one step, and orders those who use the cell. But between two steps of one
//! strand, another strand's store may come, and then the strand's own store undoes it. So a report needs two
//! strands: one that loads a cell and later stores it plainly, another that stores it plainly, and nothing
//! but the cell's own operations to order the two. Operations that read and write in one step (`add`, `cas`,
//! `update`, `exchange`) are never part of one, and one that has taken effect makes what its strand has
//! loaded before irrelevant: a lock that is looked at, taken with `cas` and freed with `store` is in order.
//!
//! # Leaving the cell's own order out
//! Clocks know that a store comes before, not by which way that is known. So the question is asked before
//! each operation takes part in the cell's order; what was not known then is remembered by the strand
//! ([`Touched`]), for as long as it lives. What another strand has passed on after it learned it by the cell
//! itself counts as order.
//!
//! # What is kept
//! Of each cell the last plain store. Of each strand the last [`MOST_TOUCHED`] cells that it has touched: a
//! load longer ago than that goes unseen.

use super::{Access, Mark, Places, Strand, line, places, say, site_text};
use crate::domain::Domain;
use parking_lot::Mutex;
use perilune_vm::Vm;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};

/// Cells that a strand remembers.
const MOST_TOUCHED: usize = 64;

/// What a strand remembers of a cell.
pub(super) struct Touched {
    cell: u64,
    /// Where it has loaded the cell since it changed it last.
    load: Option<u32>,
    /// Another strand's store that nothing else had told of.
    unordered: Option<Mark>,
}

/// What is known of a cell.
struct Cell {
    /// A number that no other cell of the process has.
    number: u64,
    /// The last plain store.
    store: Mark,
    /// Where the same strand had loaded the cell before.
    load: Option<u32>,
}

impl Cell {
    fn new() -> Cell {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        Cell { number: NUMBERS.fetch_add(1, Ordering::Relaxed), store: Mark::default(), load: None }
    }

    /// Another strand's store, if nothing but the cell's own operations puts it before what `strand` does
    /// now.
    fn unordered(&self, strand: &Strand) -> Option<Mark> {
        let known = self.store.strand == 0
            || self.store.strand == strand.id
            || strand.history.clock().get(self.store.strand) >= self.store.time;
        let remembered = strand.touched.iter().find(|t| t.cell == self.number).and_then(|t| t.unordered);
        if known { remembered.filter(|m| *m == self.store) } else { Some(self.store) }
    }
}

impl Strand {
    fn touched(&mut self, cell: u64) -> &mut Touched {
        let at = self.touched.iter().position(|t| t.cell == cell);
        let touched = match at {
            Some(at) => self.touched.remove(at),
            None => Touched { cell, load: None, unordered: None },
        };
        if self.touched.len() == MOST_TOUCHED {
            self.touched.remove(0);
        }
        self.touched.push(touched);
        let last = self.touched.len() - 1;
        &mut self.touched[last]
    }
}

/// A lost update.
#[derive(Debug, PartialEq, Eq)]
struct Lost {
    /// Where the cell was loaded, and the store that followed.
    load: u32,
    store: Mark,
    /// The other strand's store.
    other: Mark,
}

/// A strand loads the cell, before it takes part in its order.
fn load(cell: &Cell, strand: &mut Strand, site: u32) {
    let unordered = cell.unordered(strand);
    let touched = strand.touched(cell.number);
    touched.load = Some(site);
    touched.unordered = unordered.or(touched.unordered);
}

/// A strand has changed the cell in one step, before it takes part in its order.
fn change(cell: &Cell, strand: &mut Strand) {
    let unordered = cell.unordered(strand);
    if unordered.is_some() || strand.touched.iter().any(|t| t.cell == cell.number) {
        let touched = strand.touched(cell.number);
        touched.load = None;
        touched.unordered = unordered.or(touched.unordered);
    }
}

/// A strand stores the cell, before it takes part in its order.
fn store(cell: &mut Cell, strand: &mut Strand, site: u32) -> Option<Lost> {
    let mark = strand.mark(site);
    let unordered = cell.unordered(strand);
    let touched = strand.touched(cell.number);
    let loaded = touched.load.take();
    let before = std::mem::take(&mut touched.unordered);
    let lost = match (loaded, unordered.or(before)) {
        (Some(load), Some(other)) => Some(Lost { load, store: mark, other }),
        _ => match (cell.load, unordered) {
            (Some(load), Some(_)) => Some(Lost { load, store: cell.store, other: mark }),
            _ => None,
        },
    };
    (cell.store, cell.load) = (mark, loaded);
    lost
}

/// The cells of an object, by key.
pub(crate) struct Cells<K>(Option<Box<Watched<K>>>);

struct Watched<K> {
    cells: Mutex<HashMap<K, Cell>>,
    /// Where the object was made.
    made: u32,
}

/// What an operation does with a cell.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Load,
    Store,
    Change,
}

impl<K: Hash + Eq + Clone> Cells<K> {
    /// Those of an object that the running code makes.
    pub fn new(vm: &Vm) -> Cells<K> {
        Cells(super::on().then(|| Box::new(Watched { cells: Mutex::default(), made: super::place(vm) })))
    }

    /// The running code loads a cell. To be called before it enters the cell's order.
    #[inline(always)]
    pub fn load(&self, vm: &mut Vm, key: &K, object: impl Object<K>) {
        self.step(vm, key, Step::Load, object);
    }

    /// The running code stores a cell, whatever it holds. As [`Cells::load`].
    #[inline(always)]
    pub fn store(&self, vm: &mut Vm, key: &K, object: impl Object<K>) {
        self.step(vm, key, Step::Store, object);
    }

    /// The running code has changed a cell in one step. As [`Cells::load`].
    #[inline(always)]
    pub fn change(&self, vm: &mut Vm, key: &K, object: impl Object<K>) {
        self.step(vm, key, Step::Change, object);
    }

    #[inline(always)]
    fn step(&self, vm: &mut Vm, key: &K, step: Step, object: impl Object<K>) {
        if let Some(watched) = &self.0 {
            watched.step(vm, key, step, object);
        }
    }
}

impl<K: Hash + Eq + Clone> Watched<K> {
    #[cold]
    #[inline(never)]
    fn step(&self, vm: &mut Vm, key: &K, step: Step, object: impl Object<K>) {
        let site = super::place(vm);
        let Ok(owner) = Domain::of(vm) else { return };
        let strand = owner.strand();
        let mut cells = self.cells.lock();
        let cell = cells.entry(key.clone()).or_insert_with(Cell::new);
        let lost = match step {
            Step::Load => {
                load(cell, strand, site);
                None
            }
            Step::Change => {
                change(cell, strand);
                None
            }
            Step::Store => store(cell, strand, site),
        };
        drop(cells);
        if let Some(lost) = lost {
            report(&object, key, self.made, &lost);
        }
    }
}

/// Words about a kind of object.
pub(crate) trait Object<K>: Copy {
    /// The cell, with its article: "key 'x' of the map".
    fn cell(&self, key: &K) -> String;
    /// What to write instead.
    fn remedy(&self) -> &'static str;
}

#[cold]
fn report<K>(object: &impl Object<K>, key: &K, made: u32, lost: &Lost) {
    let mut places = places();
    let pair = (lost.store.site.min(lost.other.site), lost.store.site.max(lost.other.site));
    if !places.lost.insert(pair) {
        return;
    }
    let text = format!(
        "perilune: race on {} made at {}\n{}{}\tOnly these operations themselves order the two: what comes \
         between reading and storing is lost.\n\t{}.\n",
        object.cell(key),
        site_text(&places, made),
        stored(&places, lost.store, Some(lost.load)),
        stored(&places, lost.other, None),
        object.remedy(),
    );
    drop(places);
    say(&text);
}

fn stored(places: &Places, mark: Mark, load: Option<u32>) -> String {
    let line = line(places, (Access::Store, mark));
    match load {
        None => line,
        Some(load) => format!("{}, after it was read at {}\n", line.trim_end(), site_text(places, load)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;
    use crate::races::clock::Clock;

    /// Strands that know nothing of each other, a cell, and its order.
    struct World {
        strands: Vec<Strand>,
        cell: Cell,
        order: Clock,
    }

    impl World {
        fn new() -> World {
            World {
                strands: (1..=3)
                    .map(|id| {
                        let mut strand = Strand::first(Kind::Main);
                        (strand.id, strand.time) = (id, 1);
                        strand
                    })
                    .collect(),
                cell: Cell::new(),
                order: Clock::default(),
            }
        }

        fn enter(&mut self, n: usize) {
            self.strands[n].join(&self.order);
        }

        fn load(&mut self, n: usize) {
            load(&self.cell, &mut self.strands[n], 10 + n as u32);
            self.enter(n);
        }

        fn store(&mut self, n: usize) -> Option<(u32, u32)> {
            let lost = store(&mut self.cell, &mut self.strands[n], 20 + n as u32);
            self.order.learn(&self.strands[n].tell().0);
            lost.map(|l| (l.store.strand - 1, l.other.strand - 1))
        }

        fn change(&mut self, n: usize) {
            change(&self.cell, &mut self.strands[n]);
            self.order.learn(&self.strands[n].tell().0);
            self.enter(n);
        }

        /// What `a` has done so far comes before what `b` does from now on.
        fn order(&mut self, a: usize, b: usize) {
            let told = self.strands[a].tell().0;
            self.strands[b].learn(&told);
        }
    }

    #[test]
    fn both_change_what_they_have_loaded_in_whatever_order() {
        for steps in ["lLsS", "lLSs", "lsLS", "LSls", "LlsS"] {
            let mut world = World::new();
            let mut found = Vec::new();
            for step in steps.chars() {
                let n = usize::from(step.is_uppercase());
                match step.to_ascii_lowercase() {
                    'l' => world.load(n),
                    _ => found.extend(world.store(n)),
                }
            }
            assert_eq!(found.len(), 1, "{steps}");
        }
    }

    #[test]
    fn a_store_beside_a_change_of_what_was_loaded() {
        for (steps, want) in [("Sls", 1), ("lSs", 1), ("lsS", 1), ("sS", 0), ("lS", 0), ("Ssl", 0)] {
            let mut world = World::new();
            let mut found = Vec::new();
            for step in steps.chars() {
                let n = usize::from(step.is_uppercase());
                match step.to_ascii_lowercase() {
                    'l' => world.load(n),
                    _ => found.extend(world.store(n)),
                }
            }
            assert_eq!(found.len(), want, "{steps}");
            assert!(found.iter().all(|f| *f == (0, 1)), "{steps}: {found:?}");
        }
    }

    #[test]
    fn another_order_is_enough() {
        let mut world = World::new();
        world.load(0);
        assert_eq!(world.store(0), None);
        world.order(0, 1);
        world.load(1);
        assert_eq!(world.store(1), None);
    }

    #[test]
    fn loading_again_does_not_make_an_order() {
        let mut world = World::new();
        world.load(0);
        assert_eq!(world.store(0), None);
        world.load(1);
        world.load(1);
        assert_eq!(world.store(1), Some((1, 0)));
    }

    #[test]
    fn changes_in_one_step_are_in_order() {
        let mut world = World::new();
        world.change(0);
        world.change(1);
        assert_eq!(world.store(0), None);
        world.change(1);
        assert_eq!(world.store(1), None);
        // A lock that is looked at first.
        let mut world = World::new();
        for n in [0, 1, 2, 0] {
            world.load(n);
            world.change(n);
            assert_eq!(world.store(n), None);
        }
    }

    #[test]
    fn a_strand_remembers_so_many_cells_only() {
        let mut strand = Strand::first(Kind::Main);
        for n in 0..1000 {
            strand.touched(n).load = Some(1);
        }
        assert_eq!(strand.touched.len(), MOST_TOUCHED);
        assert_eq!((strand.touched(999).load, strand.touched(0).load), (Some(1), None));
    }
}
