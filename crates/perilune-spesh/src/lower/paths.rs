//! What tables of several classes inherit: found along their metatables by shapes alone (`perilune_vm::machine`, `paths.rs`).
//!
//! A field that tables of one class inherit is where the cache of the site says (`memory.rs`), which is quicker. Of several classes the cache has one at a time, and where each object has a metatable of its own it never has that of the next.

use super::{Lowering, Val};
use crate::backend::clif::{Block, InstBuilder, condcodes::IntCC, types};
use perilune_vm::Tag;
use perilune_vm::machine::{Path, layout};

impl<'a> Lowering<'a, '_> {
    /// The ways by which tables of instruction `at` came by a field that they lack, if these are better than the cache of the site, which is for one metatable.
    pub(super) fn paths(&self, at: usize) -> Option<&'a [Path]> {
        let (inside, site) = (at - self.frames[self.frame as usize].first, self.site(at));
        let paths = self.log.paths(inside).filter(|_| site.fields.own().is_empty())?;
        (site.shapes || site.metatables || paths.len() > 1).then_some(paths)
    }

    /// Where the field is that the table inherits along one of these ways; other tables go to `miss`.
    pub(super) fn inherited(&mut self, table: Val, paths: &[Path], miss: Block) -> Val {
        let shape = self.load(types::I32, table, layout::TABLE_SHAPE);
        let metatable = self.load(types::I64, table, layout::TABLE_METATABLE);
        let there = self.b.ins().icmp_imm_u(IntCC::NotEqual, metatable, 0);
        self.unless(there, miss);
        let of_metatable = self.load(types::I32, metatable, layout::TABLE_SHAPE);
        let found = self.b.create_block();
        let address = self.b.append_block_param(found, types::I64);
        for (n, path) in paths.iter().enumerate() {
            let next = if n + 1 == paths.len() { miss } else { self.b.create_block() };
            self.is_shape(shape, path.shape, next);
            let place = self.along(path, (metatable, of_metatable), next);
            self.b.ins().jump(found, &[place.into()]);
            if next != miss {
                self.go_to(next);
            }
        }
        self.go_to(found);
        address
    }

    /// Where the field is for a table of the path's shape, with this metatable, and that one's shape; if the path leads elsewhere, goes to `next`.
    pub(super) fn along(&mut self, path: &Path, first: (Val, Val), next: Block) -> Val {
        let mut class = None;
        for hop in path.hops() {
            let (metatable, of_metatable) = match class {
                None => first,
                Some(class) => {
                    let metatable = self.load(types::I64, class, layout::TABLE_METATABLE);
                    let there = self.b.ins().icmp_imm_u(IntCC::NotEqual, metatable, 0);
                    self.unless(there, next);
                    (metatable, self.load(types::I32, metatable, layout::TABLE_SHAPE))
                }
            };
            self.is_shape(of_metatable, hop.metatable, next);
            let slots = self.load(types::I64, metatable, layout::TABLE_SLOTS);
            let index = Self::slot(hop.index as usize);
            let tag = self.load(types::I8, slots, index + layout::TAG);
            let is_table = self.b.ins().icmp_imm_u(IntCC::Equal, tag, Tag::TABLE.0 as i64);
            self.unless(is_table, next);
            let found = self.load(types::I64, slots, index + layout::PAYLOAD);
            let own = self.load(types::I32, found, layout::TABLE_SHAPE);
            self.is_shape(own, hop.class, next);
            class = Some(found);
        }
        let class = class.expect("a path has a hop");
        let slots = self.load(types::I64, class, layout::TABLE_SLOTS);
        self.b.ins().iadd_imm_s(slots, Self::slot(path.slot as usize) as i64)
    }

    fn is_shape(&mut self, own: Val, wanted: u32, otherwise: Block) {
        let same = self.b.ins().icmp_imm_u(IntCC::Equal, own, wanted as i64);
        self.unless(same, otherwise);
    }
}
