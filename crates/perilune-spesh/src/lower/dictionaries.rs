//! Strings and tables as keys: `d[k]`, `set[object]`.
//!
//! A leaf finds whatever key in whatever table, but half of what it takes is being called, and asking which. Where the log has seen nothing but strings as keys, or nothing but tables, the key is looked for in line: a string that is interned, in a table whose string keys are in nodes, or
//! a table, which is in a node wherever it is (`perilune_vm`'s `table/nodes.rs`). If it is there, its value is got, or replaced by a number or a truth value; all else is the leaf's.

use super::memory::Stored;
use super::{Lowering, Ty};
use crate::backend::clif::{Block, InstBuilder, Value, condcodes::IntCC, types};
use perilune_vm::Tag;
use perilune_vm::machine::layout;

impl Lowering<'_, '_> {
    /// The register with the key of instruction `at`, if strings alone have been seen there, or tables alone; and which.
    fn key_in_nodes(&self, at: usize, r: u16, constant: bool) -> Option<(usize, Tag)> {
        let r = r as usize;
        let tag = self.site(at).keys.only().filter(|_| !constant)?;
        let suits = match tag {
            Tag::STRING => self.ty(r) == Ty::Any,
            Tag::TABLE => matches!(self.ty(r), Ty::Any | Ty::Table),
            _ => false,
        };
        suits.then_some((r, tag))
    }

    /// What the dictionary has for the key of instruction `at`, in register `r`, becomes the register that it defines; its type. If it has none in line, the leaf does it.
    pub(super) fn get_by_key(&mut self, at: usize, table: Value, ty: Ty, slow: Block) {
        let i = self.code(at);
        let constant = i.op() == Some(perilune_syntax::Op::GetInt);
        let Some((key, tag)) = self.key_in_nodes(at, i.c(), constant) else {
            return self.get_by_leaf(at, table, ty, slow);
        };
        let miss = self.aside();
        let node = self.node_of(table, key, tag, miss.block);
        self.take_apart(at, node, layout::NODE_VALUE, layout::NODE_VALUE_TAG, miss.block);
        self.join_with(at, miss, |this| this.get_by_leaf(at, table, ty, slow));
    }

    /// Stores under the key of instruction `at`: over what is there, if that can be done in line, else by the leaf. What is known of tables is over.
    pub(super) fn set_by_key(&mut self, at: usize, table: Value, stored: &Stored, slow: Block) {
        let i = self.code(at);
        let constant = i.op() == Some(perilune_syntax::Op::SetInt);
        let is_plain = stored.known.is_some_and(|tag| tag != Tag::NIL && tag < Tag::STRING);
        let Some((key, tag)) = self.key_in_nodes(at, i.b(), constant).filter(|_| is_plain) else {
            return self.set_by_leaf(at, table, stored, slow);
        };
        let miss = self.aside();
        self.writable(None, table, miss.block);
        let node = self.node_of(table, key, tag, miss.block);
        let tag = self.load(types::I8, node, layout::NODE_VALUE_TAG);
        let there = self.b.ins().icmp_imm_u(IntCC::NotEqual, tag, Tag::NIL.0 as i64);
        self.unless(there, miss.block);
        self.store(stored.payload, node, layout::NODE_VALUE);
        self.store(stored.tag, node, layout::NODE_VALUE_TAG);
        if let Some(now) = &mut self.now {
            // It may be the table of the globals.
            now.forget_globals(at);
        }
        self.join_with(at, miss, |this| this.set_by_leaf(at, table, stored, slow));
    }

    /// The node of the table whose key is what is in register `r`, which has been a string or a table each time; if there is none, or one would have to be looked for in another way, goes to `miss`.
    fn node_of(&mut self, table: Value, r: usize, tag: Tag, miss: Block) -> Value {
        let (key, hash) = match tag {
            Tag::STRING => self.string_and_hash(table, r, miss),
            _ => self.object_and_hash(r, tag, miss),
        };
        let nodes = self.load(types::I64, table, layout::TABLE_NODES);
        let there = self.b.ins().icmp_imm_u(IntCC::NotEqual, nodes, 0);
        self.unless(there, miss);
        // The node where its chain begins.
        let log2 = self.load(types::I8, table, layout::TABLE_LOG2_NODES);
        let log2 = self.b.ins().uextend(types::I32, log2);
        let all = self.b.ins().iconst(types::I32, -1);
        let above = self.b.ins().ishl(all, log2);
        let number = self.b.ins().band_not(hash, above);
        let number = self.b.ins().uextend(types::I64, number);
        let first = self.nodes_further(nodes, number);
        let [chain, same, other, next, found] = [(); 5].map(|()| self.b.create_block());
        let node = self.b.append_block_param(chain, types::I64);
        self.b.ins().jump(chain, &[first.into()]);
        self.come_round_to(chain);
        let own = self.load(types::I64, node, layout::NODE_KEY);
        let is = self.b.ins().icmp(IntCC::Equal, own, key);
        self.b.ins().brif(is, same, &[], other, &[]);
        // A number may look like it.
        self.go_to(same);
        let own = self.load(types::I8, node, layout::NODE_KEY_TAG);
        let is = self.b.ins().icmp_imm_u(IntCC::Equal, own, tag.0 as i64);
        self.b.ins().brif(is, found, &[], other, &[]);
        self.go_to(other);
        let distance = self.load(types::I32, node, layout::NODE_NEXT);
        self.b.ins().brif(distance, next, &[], miss, &[]);
        self.go_to(next);
        let distance = self.b.ins().sextend(types::I64, distance);
        let further = self.nodes_further(node, distance);
        self.b.ins().jump(chain, &[further.into()]);
        self.go_to(found);
        node
    }

    /// The string in register `r`, if it is one that is interned and the table has strings in nodes, with its hash.
    fn string_and_hash(&mut self, table: Value, r: usize, miss: Block) -> (Value, Value) {
        let tag = self.tag_of(r);
        let is_string = self.b.ins().icmp_imm_u(IntCC::Equal, tag, Tag::STRING.0 as i64);
        self.unless(is_string, miss);
        let string = self.payload_of(r);
        let flags = self.load(types::I8, string, layout::OBJECT_FLAGS);
        let interned = self.b.ins().band_imm_u(flags, layout::INTERNED as i64);
        let interned = self.b.ins().icmp_imm_u(IntCC::NotEqual, interned, 0);
        self.unless(interned, miss);
        let shape = self.load(types::I32, table, layout::TABLE_SHAPE);
        let is_dictionary = self.b.ins().icmp_imm_u(IntCC::Equal, shape, layout::DICTIONARY as i64);
        self.unless(is_dictionary, miss);
        (string, self.load(types::I32, string, layout::STRING_HASH))
    }

    /// The object in register `r`, if it has this tag, with its hash ([`layout::HASH_FACTOR`]).
    fn object_and_hash(&mut self, r: usize, tag: Tag, miss: Block) -> (Value, Value) {
        let object = match self.known(r) {
            Some(known) => known.val,
            None => {
                let own = self.tag_of(r);
                let is = self.b.ins().icmp_imm_u(IntCC::Equal, own, tag.0 as i64);
                self.unless(is, miss);
                self.payload_of(r)
            }
        };
        let upper = self.b.ins().ushr_imm_u(object, 32);
        let folded = self.b.ins().bxor(object, upper);
        let folded = self.b.ins().bxor_imm_u(folded, tag.0 as i64);
        let factor = self.b.ins().iconst(types::I64, layout::HASH_FACTOR as i64);
        let spread = self.b.ins().imul(folded, factor);
        let hash = self.b.ins().ushr_imm_u(spread, 32);
        (object, self.b.ins().ireduce(types::I32, hash))
    }

    /// The address of the node so many nodes further.
    fn nodes_further(&mut self, node: Value, number: Value) -> Value {
        let bytes = self.b.ins().imul_imm_s(number, layout::NODE_SIZE as i64);
        self.b.ins().iadd(node, bytes)
    }
}
