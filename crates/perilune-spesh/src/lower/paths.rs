//! What tables of several classes inherit: found along their metatables by shapes alone
//! (`perilune_vm::machine`, `paths.rs`).
//!
//! A field that tables of one class inherit is where the cache of the site says (`memory.rs`), which is
//! quicker. Of several classes the cache has one at a time, and where each object has a metatable of its own
//! it never has that of the next.

use super::{Lowering, Ty, Val};
use crate::ssa::{Block, IntCC, Type};
use perilune_vm::Tag;
use perilune_vm::machine::{End, Path, layout};

impl<'a> Lowering<'a, '_> {
    /// The ways by which tables of instruction `at` came by a field that they lack, or is nil, as far as
    /// shapes tell.
    pub(super) fn all_paths(&self, at: usize) -> Option<&'a [Path]> {
        self.log.paths(at - self.frames[self.frame as usize].first)
    }

    /// The same if all tables lacked it, and these ways are better than the cache of the site, which is for
    /// one metatable, and for fields that somebody has.
    pub(super) fn paths(&self, at: usize) -> Option<&'a [Path]> {
        let site = self.site(at);
        let paths = self.all_paths(at).filter(|_| site.fields.own().is_empty())?;
        let is_better =
            site.shapes || site.metatables || paths.len() > 1 || paths.iter().any(Path::is_absent);
        is_better.then_some(paths)
    }

    /// Where the field is that the table inherits along one of these ways, or [`layout::nothing`]; other
    /// tables go to `miss`.
    pub(super) fn inherited(&mut self, table: Val, paths: &[Path], miss: Block) -> Val {
        let shape = self.load(Type::I32, table, layout::TABLE_SHAPE);
        let metatable = self.load(Type::I64, table, layout::TABLE_METATABLE);
        let there = self.icmp_imm(IntCC::NotEqual, metatable, 0);
        self.unless(there, miss);
        let of_metatable = self.load(Type::I32, metatable, layout::TABLE_SHAPE);
        let found = self.b.create_block();
        let address = self.b.append_block_param(found, Type::I64);
        for (n, path) in paths.iter().enumerate() {
            let next = if n + 1 == paths.len() { miss } else { self.b.create_block() };
            self.is_shape(shape, path.shape, next);
            if let Some(slot) = path.own {
                // The leaf gets what it has there by now.
                let slots = self.load(Type::I64, table, layout::TABLE_SLOTS);
                let tag = self.load(Type::I8, slots, Self::slot(slot as usize) + layout::TAG);
                let nil = self.icmp_imm(IntCC::Equal, tag, Tag::NIL.0 as i64);
                self.unless(nil, miss);
            }
            let place = self.along(path, (metatable, of_metatable), next);
            self.b.jump(found, &[place]);
            if next != miss {
                self.go_to(next);
            }
        }
        self.go_to(found);
        address
    }

    /// Where the field is for a table of the path's shape, with this metatable, and that one's shape, or
    /// [`layout::nothing`]; if the path leads elsewhere, goes to `next`.
    pub(super) fn along(&mut self, path: &Path, first: (Val, Val), next: Block) -> Val {
        let mut class = None;
        for hop in path.hops() {
            let (metatable, of_metatable) = match class {
                None => first,
                Some(class) => {
                    let metatable = self.load(Type::I64, class, layout::TABLE_METATABLE);
                    let there = self.icmp_imm(IntCC::NotEqual, metatable, 0);
                    self.unless(there, next);
                    (metatable, self.load(Type::I32, metatable, layout::TABLE_SHAPE))
                }
            };
            self.is_shape(of_metatable, hop.metatable, next);
            let slots = self.load(Type::I64, metatable, layout::TABLE_SLOTS);
            let index = Self::slot(hop.index as usize);
            let tag = self.load(Type::I8, slots, index + layout::TAG);
            let is_table = self.icmp_imm(IntCC::Equal, tag, Tag::TABLE.0 as i64);
            self.unless(is_table, next);
            let found = self.load(Type::I64, slots, index + layout::PAYLOAD);
            let own = self.load(Type::I32, found, layout::TABLE_SHAPE);
            self.is_shape(own, hop.class, next);
            class = Some(found);
        }
        match path.end {
            End::Slot(slot) => {
                let class = class.expect("who has the field is found by a hop");
                let slots = self.load(Type::I64, class, layout::TABLE_SLOTS);
                return self.iadd_imm(slots, Self::slot(slot as usize) as i64);
            }
            End::Plain => {
                let class = class.expect("the first table has a metatable");
                let metatable = self.load(Type::I64, class, layout::TABLE_METATABLE);
                let plain = self.icmp_imm(IntCC::Equal, metatable, 0);
                self.unless(plain, next);
            }
            End::NoIndex(shape) => {
                let own = match class {
                    None => first.1,
                    Some(class) => {
                        let metatable = self.metatable(class, next);
                        self.load(Type::I32, metatable, layout::TABLE_SHAPE)
                    }
                };
                self.is_shape(own, shape, next);
            }
        }
        self.b.iconst(Type::I64, layout::nothing() as i64)
    }

    /// The value at a place that [`Lowering::along`] has told becomes the register of instruction `at`: nil
    /// only where there is nothing, along one of these ways.
    pub(super) fn take_found(&mut self, at: usize, place: Val, paths: &[Path], miss: Block) {
        if self.result(at) != Ty::Any || !paths.iter().any(Path::is_absent) {
            self.take(at, place, 0, miss);
            return;
        }
        let tag = self.load(Type::I8, place, layout::TAG);
        let payload = self.load(Type::I64, place, layout::PAYLOAD);
        let [nil, on] = [(); 2].map(|()| self.b.create_block());
        let there = self.icmp_imm(IntCC::NotEqual, tag, Tag::NIL.0 as i64);
        self.b.brif(there, on, &[], nil, &[]);
        self.go_to(nil);
        let nothing = self.b.iconst(Type::I64, layout::nothing() as i64);
        let same = self.b.icmp(IntCC::Equal, place, nothing);
        self.unless(same, miss);
        self.b.jump(on, &[]);
        self.go_to(on);
        self.put(self.code(at).a() as usize, tag, payload);
    }

    fn is_shape(&mut self, own: Val, wanted: u32, otherwise: Block) {
        let same = self.icmp_imm(IntCC::Equal, own, wanted as i64);
        self.unless(same, otherwise);
    }
}
