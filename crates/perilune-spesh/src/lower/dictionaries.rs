//! Strings, tables, and integers that are no element's, as keys: `d[k]`, `set[object]`, `t[id]`.
//!
//! A leaf finds whatever key in whatever table, but half of what it takes is being called, and asking which.
//! Where the log has seen nothing but strings as keys, or tables, or integers in tables without such
//! elements, the key is looked for in line, where it has a node (`perilune_vm`'s `table/nodes.rs`): a string
//! that is interned, if the table has strings in nodes, a table, and an integer below the square of how many
//! nodes there are. If it is there, its value is got, or replaced by a number or a truth value; all else is
//! the leaf's.
//!
//! Records have their fields in slots, not in nodes. Where the log has seen nothing but strings as keys of
//! records, the domain's memory of fields is asked ([`layout::fields`]), which knows the slot, or that there is
//! none: `state[event]`, `operators[name]`.
//!
//! The node that was found is known until something may have been stored elsewhere ([`Fact::Entry`]):
//! `count[word] = (count[word] or 0) + 1` looks for it once. On the way of a leaf it is not known, and is
//! looked for again.

use super::facts::{Fact, Name};
use super::stores::Stored;
use super::{Lowering, Ty};
use crate::ssa::{Block, IntCC, Type, Value};
use perilune_vm::Tag;
use perilune_vm::machine::OF_RECORD;
use perilune_vm::machine::layout::{self, fields};

impl Lowering<'_, '_> {
    /// The register with the key of instruction `at`, if strings alone have been seen there, or tables, or
    /// integers; and which.
    fn key_in_nodes(&self, at: usize, r: u16, constant: bool) -> Option<(usize, Tag)> {
        let r = r as usize;
        let tag = self.site(at).keys.only().filter(|_| !constant)?;
        let suits = match tag {
            Tag::STRING => self.ty(r) == Ty::Any,
            Tag::TABLE => matches!(self.ty(r), Ty::Any | Ty::Table),
            Tag::INT => matches!(self.ty(r), Ty::Any | Ty::Int),
            _ => false,
        };
        suits.then_some((r, tag))
    }

    /// What the dictionary has for the key of instruction `at`, in register `r`, becomes the register that it
    /// defines; its type. If it has none in line, the leaf does it.
    pub(super) fn get_by_key(&mut self, at: usize, (name, table): (Name, Value), ty: Ty, slow: Block) {
        let i = self.code(at);
        let constant = i.op() == Some(perilune_syntax::Op::GetInt);
        let Some((key, tag)) = self.key_in_nodes(at, i.c(), constant) else {
            return self.get_by_leaf(at, table, ty, slow);
        };
        if self.site(at).by_name == OF_RECORD {
            return self.get_of_record(at, table, key, ty, slow);
        }
        let fact = Fact::Entry(name, self.name_of(key));
        let miss = self.aside();
        let node = self.entry(fact, table, (key, tag), miss.block);
        self.take_apart(at, node, layout::NODE_VALUE, layout::NODE_VALUE_TAG, miss.block);
        // The instruction may have put the value where table or key were, or where they come from in another
        // round.
        let own = self.name_of(i.a() as usize);
        let stays = !fact.mentions(own);
        if stays {
            self.keep(fact, vec![node]);
        }
        self.join_with(at, miss, |this| {
            this.get_by_leaf(at, table, ty, slow);
            if stays && this.now.is_some() {
                let unknown = this.b.iconst(Type::I64, 0);
                this.keep(fact, vec![unknown]);
            }
        });
    }

    /// What the record has under the name in register `key` becomes the register of instruction `at`: by what
    /// is remembered of its shape, else by the leaf.
    fn get_of_record(&mut self, at: usize, table: Value, key: usize, ty: Ty, slow: Block) {
        let miss = self.aside();
        let may_lack = ty == Ty::Any && self.site(at).result.contains(Tag::NIL);
        let address = self.field_by_name(table, key, may_lack, miss.block);
        if may_lack {
            self.take_or_nil(at, table, address, 0, miss.block);
        } else {
            self.take(at, address, 0, miss.block);
        }
        self.join_with(at, miss, |this| this.get_by_leaf(at, table, ty, slow));
    }

    /// Where the record has the field whose name is the string in a register, as far as that is remembered, or
    /// where there is nil, if it is remembered that it lacks the field and the code is to know of that; else
    /// goes to `miss`.
    fn field_by_name(&mut self, table: Value, key: usize, may_lack: bool, miss: Block) -> Value {
        let name = self.interned_string(key, miss);
        let shape = self.load(Type::I32, table, layout::TABLE_SHAPE);
        let upper = self.b.uextend(Type::I64, shape);
        let upper = self.ishl_imm(upper, 32);
        let lower = self.ushr_imm(name, fields::NAME_SHIFT as i64);
        let both = self.b.bxor(upper, lower);
        let factor = self.b.iconst(Type::I64, fields::FACTOR as i64);
        let mixed = self.b.imul(both, factor);
        let mixed = self.ushr_imm(mixed, fields::SHIFT as i64);
        let number = self.band_imm(mixed, (1 << fields::COUNT) - 1);
        let distance = self.ishl_imm(number, fields::SIZE as i64);
        let vm = self.vm;
        let remembered = self.load(Type::I64, vm, fields::VM_REMEMBERED);
        let entry = self.b.iadd(remembered, distance);
        let own = self.load(Type::I64, entry, fields::FIRST + fields::NAME);
        let same = self.b.icmp(IntCC::Equal, own, name);
        self.unless(same, miss);
        let own = self.load(Type::I32, entry, fields::FIRST + fields::SHAPE);
        let same = self.b.icmp(IntCC::Equal, own, shape);
        let [has, done] = [(); 2].map(|()| self.b.create_block());
        let address = self.b.append_block_param(done, Type::I64);
        if may_lack {
            let other = self.b.create_block();
            self.b.brif(same, has, &[], other, &[]);
            self.go_to(other);
            let lacks = self.bor_imm(shape, fields::LACKS as i32 as i64);
            let same = self.b.icmp(IntCC::Equal, own, lacks);
            let nothing = self.b.iconst(Type::I64, layout::nothing() as i64);
            self.b.brif(same, done, &[nothing], miss, &[]);
        } else {
            self.b.brif(same, has, &[], miss, &[]);
        }
        self.go_to(has);
        let slot = self.load(Type::I32, entry, fields::FIRST + fields::SLOT);
        let slot = self.b.uextend(Type::I64, slot);
        let distance = self.ishl_imm(slot, layout::VALUE_SIZE.ilog2() as i64);
        let slots = self.load(Type::I64, table, layout::TABLE_SLOTS);
        let found = self.b.iadd(slots, distance);
        self.b.jump(done, &[found]);
        self.go_to(done);
        address
    }

    /// The string in register `r`, if it is one that is interned.
    fn interned_string(&mut self, r: usize, miss: Block) -> Value {
        let tag = self.tag_of(r);
        let is_string = self.icmp_imm(IntCC::Equal, tag, Tag::STRING.0 as i64);
        self.unless(is_string, miss);
        let string = self.payload_of(r);
        let flags = self.load(Type::I8, string, layout::OBJECT_FLAGS);
        let interned = self.band_imm(flags, layout::INTERNED as i64);
        let interned = self.icmp_imm(IntCC::NotEqual, interned, 0);
        self.unless(interned, miss);
        string
    }

    /// The node that a table has for a key, as the fact says if it holds and somebody knew; else it is looked
    /// for. If there is none, goes to `miss`.
    fn entry(&mut self, fact: Fact, table: Value, (key, tag): (usize, Tag), miss: Block) -> Value {
        if !self.has(fact) {
            return self.node_of(table, key, tag, miss);
        }
        let known = self.values(fact)[0];
        let [unknown, found] = [(); 2].map(|()| self.b.create_block());
        let node = self.b.append_block_param(found, Type::I64);
        self.b.brif(known, found, &[known], unknown, &[]);
        self.go_to(unknown);
        // A leaf has looked. It may have put the interned string in the key's place.
        let looked_for = self.node_of(table, key, tag, miss);
        self.b.jump(found, &[looked_for]);
        self.go_to(found);
        node
    }

    /// Stores under the key of instruction `at`: over what is there, if that can be done in line, else by the
    /// leaf. What is known of tables is over.
    pub(super) fn set_by_key(
        &mut self,
        at: usize,
        (name, table): (Name, Value),
        stored: &Stored,
        slow: Block,
    ) {
        let i = self.code(at);
        let constant = i.op() == Some(perilune_syntax::Op::SetInt);
        let is_plain = stored.known.is_some_and(|tag| tag != Tag::NIL && tag < Tag::STRING);
        let Some((key, tag)) = self.key_in_nodes(at, i.b(), constant).filter(|_| is_plain) else {
            return self.set_by_leaf(at, table, stored, slow);
        };
        let miss = self.aside();
        self.writable(None, table, miss.block);
        if self.site(at).by_name == OF_RECORD {
            let address = self.field_by_name(table, key, false, miss.block);
            self.is_there(address, 0, miss.block);
            self.store(stored.payload, address, layout::PAYLOAD);
            self.store(stored.tag, address, layout::TAG);
            // It may be any field, of whichever table goes by another name as well.
            if let Some(now) = &mut self.now {
                now.forget_structure(at);
            }
            return self.join_with(at, miss, |this| this.set_by_leaf(at, table, stored, slow));
        }
        let node = self.entry(Fact::Entry(name, self.name_of(key)), table, (key, tag), miss.block);
        let tag = self.load(Type::I8, node, layout::NODE_VALUE_TAG);
        let there = self.icmp_imm(IntCC::NotEqual, tag, Tag::NIL.0 as i64);
        self.unless(there, miss.block);
        self.store(stored.payload, node, layout::NODE_VALUE);
        self.store(stored.tag, node, layout::NODE_VALUE_TAG);
        if let Some(now) = &mut self.now {
            // It may be the table of the globals.
            now.forget_globals(at);
        }
        self.join_with(at, miss, |this| this.set_by_leaf(at, table, stored, slow));
    }

    /// The node of the table whose key is what is in register `r`, which has had this tag each time; if there
    /// is none, or one would have to be looked for in another way, goes to `miss`.
    fn node_of(&mut self, table: Value, r: usize, tag: Tag, miss: Block) -> Value {
        let (key, hash) = match tag {
            Tag::STRING => {
                let (string, hash) = self.string_and_hash(table, r, miss);
                (string, Some(hash))
            }
            Tag::INT => (self.payload_with(r, tag, miss), None),
            _ => {
                let object = self.payload_with(r, tag, miss);
                (object, Some(self.hash_of_object(object, tag)))
            }
        };
        let nodes = self.load(Type::I64, table, layout::TABLE_NODES);
        let there = self.icmp_imm(IntCC::NotEqual, nodes, 0);
        self.unless(there, miss);
        // The node where its chain begins.
        let log2 = self.load(Type::I8, table, layout::TABLE_LOG2_NODES);
        let number = match hash {
            Some(hash) => {
                let log2 = self.b.uextend(Type::I32, log2);
                let all = self.b.iconst(Type::I32, -1);
                let above = self.b.ishl(all, log2);
                let number = self.b.band_not(hash, above);
                self.b.uextend(Type::I64, number)
            }
            None => self.number_of_integer(key, log2, miss),
        };
        let first = self.nodes_further(nodes, number);
        let [chain, same, other, next, found] = [(); 5].map(|()| self.b.create_block());
        let node = self.b.append_block_param(chain, Type::I64);
        self.b.jump(chain, &[first]);
        self.come_round_to(chain);
        let own = self.load(Type::I64, node, layout::NODE_KEY);
        let is = self.b.icmp(IntCC::Equal, own, key);
        self.b.brif(is, same, &[], other, &[]);
        // A number may look like it.
        self.go_to(same);
        let own = self.load(Type::I8, node, layout::NODE_KEY_TAG);
        let is = self.icmp_imm(IntCC::Equal, own, tag.0 as i64);
        self.b.brif(is, found, &[], other, &[]);
        self.go_to(other);
        let distance = self.load(Type::I32, node, layout::NODE_NEXT);
        self.b.brif(distance, next, &[], miss, &[]);
        self.go_to(next);
        let distance = self.b.sextend(Type::I64, distance);
        let further = self.nodes_further(node, distance);
        self.b.jump(chain, &[further]);
        self.go_to(found);
        node
    }

    /// The string in register `r`, if it is one that is interned and the table has strings in nodes, with its
    /// hash.
    fn string_and_hash(&mut self, table: Value, r: usize, miss: Block) -> (Value, Value) {
        let string = self.interned_string(r, miss);
        let shape = self.load(Type::I32, table, layout::TABLE_SHAPE);
        let is_dictionary = self.icmp_imm(IntCC::Equal, shape, layout::DICTIONARY as i64);
        self.unless(is_dictionary, miss);
        (string, self.load(Type::I32, string, layout::STRING_HASH))
    }

    /// What is in register `r`, if it has this tag.
    fn payload_with(&mut self, r: usize, tag: Tag, miss: Block) -> Value {
        if let Some(known) = self.known(r) {
            return known.val;
        }
        let own = self.tag_of(r);
        let is = self.icmp_imm(IntCC::Equal, own, tag.0 as i64);
        self.unless(is, miss);
        self.payload_of(r)
    }

    /// See [`layout::HASH_FACTOR`].
    fn hash_of_object(&mut self, object: Value, tag: Tag) -> Value {
        let upper = self.ushr_imm(object, 32);
        let folded = self.b.bxor(object, upper);
        let folded = self.bxor_imm(folded, tag.0 as i64);
        let factor = self.b.iconst(Type::I64, layout::HASH_FACTOR as i64);
        let spread = self.b.imul(folded, factor);
        let hash = self.ushr_imm(spread, 32);
        self.b.ireduce(Type::I32, hash)
    }

    /// The number of the node where the chain of an integer begins in a table with `1 << log2` nodes: its
    /// remainder by the largest odd number up to one less, which is the sum of its two digits. One with more
    /// digits goes to `miss`.
    fn number_of_integer(&mut self, key: Value, log2: Value, miss: Block) -> Value {
        let log2 = self.b.uextend(Type::I64, log2);
        let upper = self.b.ushr(key, log2);
        let more = self.b.ushr(upper, log2);
        let two = self.icmp_imm(IntCC::Equal, more, 0);
        self.unless(two, miss);
        let all = self.b.iconst(Type::I64, -1);
        let above = self.b.ishl(all, log2);
        let lower = self.b.band_not(key, above);
        let sum = self.b.iadd(lower, upper);
        let [lower, carried] = [self.b.band_not(sum, above), self.b.ushr(sum, log2)];
        let sum = self.b.iadd(lower, carried);
        let modulus = self.b.bnot(above);
        let modulus = self.bor_imm(modulus, 1);
        let less = self.b.isub(sum, modulus);
        let fits = self.b.icmp(IntCC::UnsignedLessThan, sum, modulus);
        self.b.select(fits, sum, less)
    }

    /// The address of the node so many nodes further.
    fn nodes_further(&mut self, node: Value, number: Value) -> Value {
        let bytes = self.imul_imm(number, layout::NODE_SIZE as i64);
        self.b.iadd(node, bytes)
    }
}
