//! Snapshots of the heap: what is alive, and who holds it, to a file (`perilune_trace::heapshot`).
//!
//! # Marking, not collecting
//! The walk is a marking of its own, breadth first from labelled roots, with numbers for marks. It counts
//! what a full collection would leave and nothing else, but frees nothing, calls no finaliser and leaves the
//! collector as it was. So a snapshot may be taken wherever a domain looks at its interrupts, also in natives
//! that hold values where no collector finds them; and it shows a program as it is, not as a collection would
//! make it. (A collection first, then a walk over all objects, was rejected for these reasons.)
//!
//! Numbers of objects lie in tables by address, one for each 2 MiB of memory ([`Numbers`]): looking one up
//! costs two loads.
//!
//! # What is seen as the collector sees it
//! References and roots are those that `graph.rs` tells the collector, too. Buffers count as their owner's.
//! Objects in islands are not entered: an island is one node. Weak references are written as such, at the
//! end, if their objects are alive; a value in a table with weak keys is reached from its key.
//!
//! | file | |
//! |---|---|
//! | `snapshot.rs` | the walk: numbers, the queue, weak tables |
//! | `snapshot/objects.rs` | an object's description, and what its references are called |
//! | `snapshot/stacks.rs` | coroutines: names of what lies on stacks |
//! | `snapshot/roots.rs` | roots and their labels |
//! | `snapshot/request.rs` | when: tools' requests, the end of a program |

mod objects;
mod request;
mod roots;
mod stacks;

pub use request::{age_of_process, file_at_exit, path_for, set_file_at_exit};

use crate::Vm;
use crate::graph;
use crate::object::Node;
use crate::value::Tag;
use perilune_heap::{IslandRef, Obj, all_islands, is_island, island_number};
use perilune_syntax::Proto;
use perilune_trace::heapshot::write::{Description, Head};
use perilune_trace::heapshot::{Label, NodeKind, Writer};
use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;

/// Bytes of addresses that a table of numbers covers, as a power of two.
const AREA_BITS: u32 = 21;
/// Objects begin at multiples of this, as a power of two.
const GRANULE_BITS: u32 = 4;

/// Numbers of objects by address.
#[derive(Default)]
struct Numbers {
    areas: HashMap<usize, Box<[u32]>, foldhash::fast::FixedState>,
    /// The area used last.
    last: usize,
    table: *mut u32,
}

impl Numbers {
    /// The place of an object's number; 0 there: it has none yet.
    #[inline]
    fn at(&mut self, address: usize) -> &mut u32 {
        let area = address >> AREA_BITS;
        if self.table.is_null() || self.last != area {
            let new = || vec![0u32; 1 << (AREA_BITS - GRANULE_BITS)].into_boxed_slice();
            self.table = self.areas.entry(area).or_insert_with(new).as_mut_ptr();
            self.last = area;
        }
        // SAFETY: the table of this area has an entry for each granule of it, and is boxed: it stays where it
        // is.
        unsafe { &mut *self.table.add(address >> GRANULE_BITS & ((1 << (AREA_BITS - GRANULE_BITS)) - 1)) }
    }
}

/// An object, or an island by its number.
#[derive(Clone, Copy)]
enum Thing {
    Object(Obj),
    Island(u32),
}

/// A walk in progress.
struct Walk<'a, W: Write> {
    vm: &'a mut Vm,
    out: Writer<W>,
    numbers: Numbers,
    islands: HashMap<u32, u32>,
    /// Islands that exist, by number: counts of them are held while their bytes are asked for.
    known_islands: HashMap<u32, IslandRef>,
    /// What has a number, in that order.
    queue: Vec<Thing>,
    /// How much of the queue has been written.
    done: usize,
    /// Weak references, to be written if their objects are reached: from, label, argument (an object for
    /// keys), to.
    weak: Vec<(u32, Label, Argument, Obj)>,
    /// Entries of tables with weak keys whose key has not been reached, by the table.
    ephemerons: Vec<(u32, *const Node)>,
    /// Roots that depend on others which have not been reached: the other, the root.
    dependent: Vec<(Obj, Obj)>,
    shapes: HashMap<u32, (u32, Box<[u32]>), foldhash::fast::FixedState>,
    /// Names of functions for stacks.
    functions: HashMap<*const Proto, Box<str>, foldhash::fast::FixedState>,
    /// Where functions are defined, as texts.
    places: HashMap<*const Proto, u32, foldhash::fast::FixedState>,
    /// Bytes that shared objects hold and no heap is charged for.
    uncharged: u64,
}

/// The argument of a label that may not have a number yet.
#[derive(Clone, Copy)]
enum Argument {
    Number(u64),
    Object(Obj),
}

impl Vm {
    /// Writes a snapshot of this domain's heap to a new file that only this user can read; what is there is
    /// replaced. May be called wherever a native runs.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_heap_snapshot(&mut self, path: &Path) -> io::Result<()> {
        use std::os::unix::fs::OpenOptionsExt;
        // Under another name first: who waits for the file finds a whole one.
        let mut name = path.as_os_str().to_owned();
        name.push(".part");
        let part = std::path::PathBuf::from(name);
        let _ = std::fs::remove_file(&part);
        let file = std::fs::File::options().write(true).create_new(true).mode(0o600).open(&part)?;
        let written = self.heap_snapshot(io::BufWriter::with_capacity(1 << 18, file));
        let result = written.and_then(|_| std::fs::rename(&part, path));
        if result.is_err() {
            let _ = std::fs::remove_file(&part);
        }
        result
    }

    /// Writes a snapshot of this domain's heap.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn heap_snapshot<W: Write>(&mut self, out: W) -> io::Result<W> {
        let name = self.domain_name().as_bytes().to_vec();
        let taken = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let head = Head {
            process: std::process::id(),
            started: crate::sys::process::start(),
            taken: taken.as_nanos() as u64,
            domain: self.domain_number(),
            name: &name,
        };
        let out = Writer::new(out, &head);
        let outer = self.lua.seen.sampler.set_collecting(true);
        let result = crate::sys::stack::spill_registers(self, |vm, _| {
            let mut walk = Walk {
                // SAFETY: the caller's reference, which it does not use meanwhile.
                vm: unsafe { &mut *vm },
                out,
                numbers: Numbers::default(),
                islands: HashMap::new(),
                known_islands: all_islands().into_iter().map(|i| (i.number(), i)).collect(),
                queue: Vec::new(),
                done: 0,
                weak: Vec::new(),
                ephemerons: Vec::new(),
                dependent: Vec::new(),
                shapes: HashMap::default(),
                functions: HashMap::default(),
                places: HashMap::default(),
                uncharged: 0,
            };
            walk.run();
            let live = walk.vm.heap.live_bytes() as u64 + walk.uncharged;
            walk.out.finish(live)
        });
        self.lua.seen.sampler.set_collecting(outer);
        result
    }
}

impl<W: Write> Walk<'_, W> {
    fn run(&mut self) {
        let words = self.roots();
        graph::visit_dependent_roots(&self.vm.lua, |holder, own| {
            self.dependent.extend(holder.obj().map(|holder| (holder, own)));
        });
        loop {
            self.drain();
            if !self.settle() {
                break;
            }
        }
        self.stray_roots(&words);
        loop {
            self.drain();
            if !self.settle() {
                break;
            }
        }
        for (from, label, argument, to) in std::mem::take(&mut self.weak) {
            let to = match self.known(to) {
                0 => continue,
                to => to,
            };
            let argument = match argument {
                Argument::Number(n) => n,
                Argument::Object(o) => match self.known(o) {
                    0 => continue,
                    n => n as u64,
                },
            };
            self.out.late(from, label, argument, true, to);
        }
    }

    /// Writes what has a number and has not been written.
    fn drain(&mut self) {
        while let Some(&thing) = self.queue.get(self.done) {
            self.done += 1;
            match thing {
                // SAFETY: reached from roots, so live.
                Thing::Object(o) => unsafe { self.object(o, self.done as u32) },
                Thing::Island(n) => self.island(n),
            }
        }
    }

    /// Reaches values of weak-keyed tables whose keys have been reached, and what depends likewise. True if
    /// there was any.
    fn settle(&mut self) -> bool {
        let before = self.queue.len();
        let mut rest = std::mem::take(&mut self.ephemerons);
        rest.retain(|&(table, node)| {
            // SAFETY: nodes of a live table, which does not change meanwhile.
            let (key, value) = unsafe { ((*node).key(), (*node).value()) };
            let Some(key) = key.obj() else { return false };
            let from = self.known(key);
            if from == 0 {
                return true;
            }
            self.weak.push((table, Label::Key, Argument::Number(0), key));
            if let Some(value) = value.obj() {
                let to = self.number(value);
                self.out.late(from, Label::Ephemeron, table as u64, false, to);
            }
            false
        });
        self.ephemerons.append(&mut rest);
        let mut rest = std::mem::take(&mut self.dependent);
        rest.retain(|&(holder, own)| {
            let from = self.known(holder);
            if from != 0 {
                let text = self.out.text(b"function made of one there");
                let to = self.number(own);
                self.out.late(from, Label::Other, text as u64, false, to);
            }
            from == 0
        });
        self.dependent = rest;
        self.queue.len() != before
    }

    /// The number of an object that has been reached; 0: it has not.
    fn known(&mut self, o: Obj) -> u32 {
        let at = o.as_ptr() as usize;
        if is_island(at) {
            return self.islands.get(&island_number(at)).copied().unwrap_or(0);
        }
        *self.numbers.at(at)
    }

    /// The number of an object, which has been reached by this.
    #[inline]
    fn number(&mut self, o: Obj) -> u32 {
        let at = o.as_ptr() as usize;
        if is_island(at) {
            return self.island_node(island_number(at));
        }
        let place = self.numbers.at(at);
        if *place == 0 {
            self.queue.push(Thing::Object(o));
            *place = self.queue.len() as u32;
        }
        *place
    }

    /// The number of an island, which has been reached by this.
    fn island_node(&mut self, island: u32) -> u32 {
        let queue = &mut self.queue;
        *self.islands.entry(island).or_insert_with(|| {
            queue.push(Thing::Island(island));
            queue.len() as u32
        })
    }

    fn island(&mut self, number: u32) {
        let (bytes, refs) = match self.known_islands.get(&number) {
            Some(island) => (island.bytes(), island.refs().to_vec()),
            None => (0, Vec::new()),
        };
        for island in refs {
            let to = self.island_node(island);
            self.out.edge(Label::Island, 0, false, to);
        }
        let d = Description { x: number as u64, ..Description::default() };
        self.out.node(NodeKind::Island, 0, 0, bytes as u64, &d);
    }

    /// A word of a native stack: reaches what it may refer to, unless that is reached by something better.
    fn word(&mut self, word: usize) -> Option<Obj> {
        let found = self.vm.heap.find_object(word)?;
        // SAFETY: an object that has not been freed.
        let kind = Tag(unsafe { (*found.as_ptr()).kind });
        (kind != Tag::BUFFER && *self.numbers.at(found.as_ptr() as usize) == 0).then_some(found)
    }
}
