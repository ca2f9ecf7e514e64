//! Roots, under names that programs know.

use super::Walk;
use crate::edge::{Root, RootVisitor};
use crate::fiber;
use crate::graph::{self, Which};
use crate::object::Thread;
use crate::value::{Gc, Type};
use perilune_heap::Obj;
use perilune_trace::heapshot::RootKind;
use std::io::Write;

/// What `graph.rs` has told.
#[derive(Default)]
pub(super) struct Found {
    roots: Vec<(Root, Obj)>,
    /// Native stacks in use.
    words: Vec<(usize, usize)>,
}

impl RootVisitor for Found {
    fn root(&mut self, root: Root, to: Obj) {
        self.roots.push((root, to));
    }
    fn busy(&mut self, root: Root, th: Gc<Thread>) {
        self.roots.push((root, th.obj()));
    }
    fn words(&mut self, lo: usize, hi: usize) {
        self.words.push((lo, hi));
    }
}

/// How a root is called.
fn name(root: Root) -> (RootKind, &'static str) {
    match root {
        Root::Globals => (RootKind::Globals, ""),
        Root::Registry => (RootKind::Registry, ""),
        Root::Kept => (RootKind::Registry, "kept by the host"),
        Root::Main => (RootKind::Stack, "main coroutine"),
        Root::Fibers | Root::RunningFiber => (RootKind::Stack, "fiber"),
        Root::Running => (RootKind::Stack, "running coroutine"),
        Root::Aside => (RootKind::Runtime, "coroutine of a thread"),
        Root::AsideError => (RootKind::Runtime, "error of a blocked call"),
        Root::SpareFibers => (RootKind::Runtime, "ended fiber, to be used again"),
        Root::CallStub => (RootKind::Runtime, "call stub"),
        Root::TypeMetatable(_) => (RootKind::Runtime, "metatable"),
        Root::SharedMetatable => (RootKind::Runtime, "metatable of shared objects"),
        Root::IslandFunction => (RootKind::Runtime, "function of an island"),
        Root::EventName => (RootKind::Runtime, "names of metamethods"),
        Root::StatusName => (RootKind::Runtime, "names of states of coroutines"),
        Root::Crossing => (RootKind::Runtime, "modules that functions came with"),
        Root::FieldName => (RootKind::Runtime, "names of fields"),
        Root::Error => (RootKind::Runtime, "error"),
        Root::Pending | Root::Cancelled => (RootKind::Finalizer, ""),
    }
}

impl<W: Write> Walk<'_, W> {
    fn root(&mut self, kind: RootKind, text: &str, o: Obj) {
        let to = self.number(o);
        self.out.root(kind, text.as_bytes(), to);
    }

    /// Reaches everything that is a root by itself. Returns the native stacks in use.
    pub(super) fn roots(&mut self) -> Vec<(usize, usize)> {
        let mut found = Found::default();
        // SAFETY: as for a collection: the state is at rest.
        unsafe { graph::visit_roots(&self.vm.lua, Which::All, &mut found) };
        graph::visit_late_roots(&self.vm.lua, &mut found);
        // Paths begin where programs would look first.
        found.roots.sort_by_key(|&(root, _)| root);
        for (root, o) in found.roots {
            let (kind, text) = name(root);
            match root {
                Root::Main if self.vm.domain_number() == 1 => self.root(kind, "main program", o),
                Root::Fibers => {
                    for fiber in fiber::live_fibers_of(self.vm) {
                        // SAFETY: a live fiber.
                        let tag = unsafe { fiber::tag_of_fiber(fiber.ptr()) }.unwrap_or(0) as u32;
                        self.root(kind, &format!("{text} {tag}"), fiber.obj());
                    }
                }
                Root::SpareFibers => {
                    fiber::spare_fibers_of(self.vm).into_iter().for_each(|f| self.root(kind, text, f.obj()))
                }
                // Coroutines that have been met under a better name.
                Root::RunningFiber | Root::Running | Root::Aside if self.known(o) != 0 => {}
                Root::TypeMetatable(n) => {
                    let of = Type::ALL.get(n).map_or("?", |t| t.name());
                    self.root(kind, &format!("{text} of {of}"), o);
                }
                _ => self.root(kind, text, o),
            }
        }
        found.words
    }

    /// Reaches what native stacks may hold and nothing else does.
    pub(super) fn stray_roots(&mut self, words: &[(usize, usize)]) {
        for &(lo, hi) in words {
            for at in (lo & !7..hi).step_by(8) {
                // SAFETY: ranges of native stacks in use.
                let word = unsafe { perilune_heap::stack_word(at) };
                if let Some(found) = self.word(word) {
                    self.root(RootKind::NativeStack, "", found);
                    self.drain();
                }
            }
        }
    }
}
