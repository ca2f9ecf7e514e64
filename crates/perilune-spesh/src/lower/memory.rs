//! Copies, upvalues, fields and elements.

use super::facts::Fact;
use super::{Known, Lowering, Name, Ty};
use crate::ssa::{Block, FloatCC, IntCC, Type, Value};
use perilune_syntax::{Instr, Op};
use perilune_vm::machine::{APPENDS, Cache, FILLS, OTHER_KEY, OTHER_OBJECT, Path, layout};
use perilune_vm::{ArrayKind, Tag};

/// The key of an element.
#[derive(Clone, Copy)]
pub(super) enum Key {
    /// It is known: an integer is the element's number from 0, of a float it is not yet known whether it is
    /// one.
    Known(Known),
    /// A number is expected in this register.
    Slot(usize),
}

/// Nodes of larger numbers are looked for where the cache says.
const MOST_NODES: u32 = 1 << 16;

/// Where tables of so many shapes were recorded there will be others: a leaf does it for these. Where there
/// were fewer the code exits, and the next code knows them. (Half of the 400,000 exits of Teal's compiler were
/// for tables of one more shape. With 2 it takes 0.96 of the time, with 3 as long as before.)
const MANY_SHAPES: usize = 2;

impl Lowering<'_, '_> {
    /// Register `a` gets the value of `b`, of which perhaps nothing is known.
    pub(super) fn copy(&mut self, at: usize, a: usize, b: usize) {
        if self.ty(b) == Ty::Any {
            self.copy_slot(a, b);
            if !self.captured.contains(b as u8) {
                let name = self.name_of(b);
                self.is_copy(a, name);
            }
            self.guard_result(at);
        } else {
            self.copy_known(a, b);
        }
    }

    pub(super) fn copy_known(&mut self, a: usize, b: usize) {
        if self.ty(b) == Ty::Unmade {
            return self.share(a, b);
        }
        if let Some(known) = self.known(b) {
            let name = self.name_of(b);
            self.define(a, known);
            self.is_copy(a, name);
        }
    }

    pub(super) fn copy_slot(&mut self, a: usize, b: usize) {
        let (payload, tag) = (self.payload_of(b), self.tag_of(b));
        self.holds(b, payload, tag);
        self.put(a, tag, payload);
    }

    /// Register `a` becomes a value of which nothing is known.
    pub(super) fn put(&mut self, a: usize, tag: Value, payload: Value) {
        let base = self.b.use_var(self.base);
        self.store(payload, base, Self::slot(a) + layout::PAYLOAD);
        self.store(tag, base, Self::slot(a) + layout::TAG);
        self.set_unknown(a);
        self.holds(a, payload, tag);
    }

    /// Register `a` becomes constant `n`.
    pub(super) fn copy_constant(&mut self, a: usize, n: usize) {
        let constants = self.constants();
        let payload = self.load(Type::I64, constants, Self::slot(n) + layout::PAYLOAD);
        let tag = self.load(Type::I8, constants, Self::slot(n) + layout::TAG);
        self.put(a, tag, payload);
    }

    /// `LEN` of a table without metatable, or of a string.
    pub(super) fn length(&mut self, at: usize) {
        let i = self.code(at);
        let (a, b) = (i.a() as usize, i.b() as usize);
        if let Some(table) = self.known(b) {
            if table.ty != Ty::Table {
                return self.step_and_guard(at);
            }
            let slow = self.slow(at);
            self.table_length(at, a, table.val, slow.block);
            return self.join(at, slow, Some((a, self.ty(a))));
        }
        let slow = self.aside();
        let other = self.aside();
        let string = self.string(b, other.block);
        let length = self.load(Type::I32, string, layout::STRING_LENGTH);
        let val = self.b.uextend(Type::I64, length);
        self.define(a, Known { ty: Ty::Int, val });
        self.join_with(at, other, |this| {
            let (_, table) = this.table_in(at, b, slow.block);
            this.table_length(at, a, table, slow.block);
        });
        self.join(at, slow, Some((a, self.ty(a))));
    }

    /// Register `a` becomes the length of a table without `__len`, else goes to `slow`.
    fn table_length(&mut self, at: usize, a: usize, table: Value, slow: Block) {
        self.lacks_metamethod(table, layout::NO_LEN, slow);
        let unknown = self.aside();
        self.b.set_cold_block(unknown.block);
        let flags = self.load(Type::I8, table, layout::OBJECT_FLAGS);
        let hidden = self.band_imm(flags, layout::BORDER_UNKNOWN as i64);
        let known = self.icmp_imm(IntCC::Equal, hidden, 0);
        self.unless(known, unknown.block);
        let length = self.load(Type::I32, table, layout::TABLE_LENGTH);
        let val = self.b.uextend(Type::I64, length);
        // A hint of where the border is, as the interpreter leaves it.
        let [note, noted] = [(); 2].map(|()| self.b.create_block());
        let unmeasured = self.band_imm(flags, layout::UNMEASURED as i64);
        self.b.brif(unmeasured, note, &[], noted, &[]);
        self.go_to(note);
        let clear = self.b.create_block();
        let capacity = self.load(Type::I32, table, layout::TABLE_ROOM);
        let half = self.ushr_imm(capacity, 1);
        let upper = self.b.icmp(IntCC::UnsignedGreaterThan, length, half);
        self.b.brif(upper, clear, &[], noted, &[]);
        self.go_to(clear);
        let flags = self.band_imm(flags, !layout::UNMEASURED as i64);
        self.store(flags, table, layout::OBJECT_FLAGS);
        self.b.jump(noted, &[]);
        self.go_to(noted);
        self.define(a, Known { ty: Ty::Int, val });
        self.join_with(at, unknown, |this| {
            let vm = this.vm;
            let val = this.leaf(layout::length(), &[vm, table]);
            this.define(a, Known { ty: Ty::Int, val });
        });
    }

    /// The string in register `r`, of which nothing is known; else goes to `slow`.
    pub(super) fn string(&mut self, r: usize, slow: Block) -> Value {
        let tag = self.tag_of(r);
        let is = self.icmp_imm(IntCC::Equal, tag, Tag::STRING.0 as i64);
        self.unless(is, slow);
        self.payload_of(r)
    }

    /// Register `a` becomes nil, false or true.
    pub(super) fn define_plain(&mut self, a: usize, tag: Tag) {
        let base = self.b.use_var(self.base);
        let zero = self.b.iconst(Type::I64, 0);
        self.store(zero, base, Self::slot(a) + layout::PAYLOAD);
        self.store_tag(tag, base, Self::slot(a));
        self.set_unknown(a);
    }

    /// Register `a` becomes whether `b`, of which nothing is known, is nil or false.
    pub(super) fn negate(&mut self, a: usize, b: usize) {
        let own = self.tag_of(b);
        let no = self.icmp_imm(IntCC::UnsignedLessThanOrEqual, own, Tag::FALSE.0 as i64);
        let [yes_tag, no_tag] = [Tag::TRUE, Tag::FALSE].map(|tag| self.b.iconst(Type::I8, tag.0 as i64));
        let tag = self.b.select(no, yes_tag, no_tag);
        let zero = self.b.iconst(Type::I64, 0);
        self.put(a, tag, zero);
    }

    /// The function of Lua that runs.
    pub(super) fn own_closure(&mut self) -> Value {
        let base = self.b.use_var(self.base);
        self.load(Type::I64, base, self.record(layout::FRAME_FUNCTION) + layout::PAYLOAD)
    }

    /// The upvalue of this number.
    pub(super) fn upvalue(&mut self, number: u16) -> Value {
        let closure = self.own_closure();
        self.load(Type::I64, closure, layout::CLOSURE_UPVALUES + 8 * number as i32)
    }

    pub(super) fn get_upvalue(&mut self, at: usize) {
        let i = self.code(at);
        let a = i.a() as usize;
        match self.result(at) {
            Ty::Any => {
                let name = Name::Upvalue(self.frame, i.b());
                match self.has(Fact::Held(name)) {
                    true => {
                        let values = self.values(Fact::Held(name));
                        self.put(a, values[1], values[0]);
                    }
                    false => {
                        let address = self.upvalue_address(i.b());
                        let tag = self.load(Type::I8, address, layout::TAG);
                        let payload = self.load(Type::I64, address, layout::PAYLOAD);
                        self.put(a, tag, payload);
                        self.keep(Fact::Held(name), vec![payload, tag]);
                    }
                }
                self.is_copy(a, name);
            }
            Ty::Table => {
                let exit = self.other_result(at, at);
                let table = self.upvalue_table(i.b(), exit);
                self.define(a, table);
                self.is_copy(a, Name::Upvalue(self.frame, i.b()));
            }
            ty => {
                let exit = self.other_result(at, at);
                let address = self.upvalue_address(i.b());
                let known = self.expect_at(address, 0, ty, exit);
                self.define(a, known);
            }
        }
    }

    /// The value at an address becomes register `a` of instruction `at`, if it is of the type that the log
    /// has seen; if it has seen several: if it is not nil.
    pub(super) fn take(&mut self, at: usize, address: Value, offset: i32, slow: Block) -> Ty {
        self.take_apart(at, address, offset + layout::PAYLOAD, offset + layout::TAG, slow)
    }

    /// The same where payload and tag lie as told.
    pub(super) fn take_apart(
        &mut self,
        at: usize,
        address: Value,
        payload: i32,
        tag: i32,
        slow: Block,
    ) -> Ty {
        let a = self.code(at).a() as usize;
        let ty = self.result(at);
        let own = self.load(Type::I8, address, tag);
        match ty.tag() {
            None => {
                let there = self.icmp_imm(IntCC::NotEqual, own, Tag::NIL.0 as i64);
                self.unless(there, slow);
                let payload = self.load(Type::I64, address, payload);
                self.put(a, own, payload);
            }
            Some(tag) => {
                // There is a value, whatever it is: it says nothing against where it has been found.
                let other = self.other_result(at, at);
                let is = self.icmp_imm(IntCC::Equal, own, tag.0 as i64);
                self.unless(is, other);
                let class = if ty == Ty::Float { Type::F64 } else { Type::I64 };
                let val = self.load(class, address, payload);
                self.define(a, Known { ty, val });
            }
        }
        ty
    }

    /// The value at an address, a field or an element of the table, becomes register `a` of instruction `at`;
    /// nil only if no metatable may say otherwise.
    pub(super) fn take_or_nil(&mut self, at: usize, table: Value, address: Value, offset: i32, slow: Block) {
        let tag = self.load(Type::I8, address, offset + layout::TAG);
        let payload = self.load(Type::I64, address, offset + layout::PAYLOAD);
        let [nil, on] = [(); 2].map(|()| self.b.create_block());
        let there = self.icmp_imm(IntCC::NotEqual, tag, Tag::NIL.0 as i64);
        self.b.brif(there, on, &[], nil, &[]);
        self.go_to(nil);
        let metatable = self.load(Type::I64, table, layout::TABLE_METATABLE);
        self.b.brif(metatable, slow, &[], on, &[]);
        self.go_to(on);
        self.put(self.code(at).a() as usize, tag, payload);
    }

    /// `GETTABUP` of a global that is in a node.
    pub(super) fn get_global(&mut self, at: usize) {
        let i = self.code(at);
        let a = i.a() as usize;
        let slow = match self.site(at).cache {
            Some(Cache::Node { .. }) => self.slow(at),
            Some(Cache::Own { shape, slot }) => {
                let slow = self.slow(at);
                let table = self.upvalue_table(i.b(), slow.block).val;
                let name = Name::Upvalue(self.frame, i.b());
                let slots = self.slots(name, table, shape, slow.block);
                let ty = self.take(at, slots, Self::slot(slot as usize), slow.block);
                return self.join(at, slow, Some((a, ty)));
            }
            Some(Cache::Class { node }) => {
                // The environment of a task's functions: the domain's globals are behind its metatable.
                let slow = self.slow(at);
                let table = self.upvalue_table(i.b(), slow.block).val;
                let name = Name::Upvalue(self.frame, i.b());
                let ty = self.take_from_class(at, (name, table), node, slow.block);
                return self.join(at, slow, Some((a, ty)));
            }
            _ => return self.step_and_guard(at),
        };
        let number = self.number_of_node(at);
        if self.result(at) == Ty::Table {
            let table = self.global_table(i.b(), i.c(), (i.d(), number), slow.block);
            let name = Name::Global(self.frame, self.cache_of_global(i.b(), i.c(), i.d()));
            self.define(a, table);
            self.is_copy(a, name);
            return self.join(at, slow, Some((a, Ty::Table)));
        }
        let node = self.global_address(i.b(), i.c(), (i.d(), number), slow.block);
        let ty = self.take_apart(at, node, layout::NODE_VALUE, layout::NODE_VALUE_TAG, slow.block);
        self.join(at, slow, Some((a, ty)));
    }

    /// `SETTABUP` of a field that is there, or of a global in a node that is no reference and becomes none.
    pub(super) fn set_global(&mut self, at: usize) {
        let i = self.code(at);
        let up = i.a() as u16;
        let Some(stored) = self.stored(i.c()) else { return self.step(at) };
        let is_plain = stored.known.is_some_and(|tag| tag < Tag::STRING);
        let slow = match self.site(at).cache {
            Some(Cache::Own { .. }) => self.slow(at),
            Some(Cache::Node { .. }) if is_plain => self.slow(at),
            _ => return self.step(at),
        };
        let table = self.upvalue_table(up, slow.block).val;
        let name = Name::Upvalue(self.frame, up);
        self.is_something(&stored, slow.block);
        if let Some(Cache::Own { shape, slot }) = self.site(at).cache {
            self.set_own_field((name, table), (shape, slot), (&stored, self.fills(at, &stored)), slow.block);
        } else {
            let what = self.b.iconst(Type::I64, layout::FIELD);
            let number = self.number_of_node(at);
            let node = self.global_address(up, i.b(), (i.d(), number), slow.block);
            self.is_writable((Some(name), table), what, &stored, slow.block);
            let tag = self.load(Type::I8, node, layout::NODE_VALUE_TAG);
            let there = self.icmp_imm(IntCC::NotEqual, tag, Tag::NIL.0 as i64);
            self.unless(there, slow.block);
            self.store(stored.payload, node, layout::NODE_VALUE);
            self.store(stored.tag, node, layout::NODE_VALUE_TAG);
        }
        self.join(at, slow, None);
        if let Some(now) = &mut self.now {
            now.forget_globals(at);
        }
    }

    /// The number of the node where instruction `at` has found its key when it was recorded. It is part of the
    /// code: that is half of what there is to do if the cache has to be asked for it. Where it has turned out to
    /// be another one, since the table has grown or another domain's is not made alike, the cache is asked.
    fn number_of_node(&self, at: usize) -> Option<u32> {
        match self.site(at).cache {
            Some(Cache::Node { number }) if number < MOST_NODES && !self.is_suspect(at) => Some(number),
            _ => None,
        }
    }

    /// The node of a dictionary that has this constant as its key, by this number, or where the cache says, else
    /// goes to `slow`. Whatever the cache is for now, it says where to look, and a node with the key is the
    /// table's.
    pub(super) fn node(
        &mut self,
        table: Value,
        key: u16,
        (cache, number): (u16, Option<u32>),
        slow: Block,
    ) -> Value {
        let nodes = self.load(Type::I64, table, layout::TABLE_NODES);
        let there = self.icmp_imm(IntCC::NotEqual, nodes, 0);
        self.unless(there, slow);
        let node = match number {
            Some(number) => self.numbered_node(table, nodes, number, slow),
            None => self.cached_node(table, nodes, cache, slow),
        };
        let own = self.load(Type::I64, node, layout::NODE_KEY);
        let constants = self.constants();
        let wanted = self.load(Type::I64, constants, Self::slot(key as usize) + layout::PAYLOAD);
        let same = self.b.icmp(IntCC::Equal, own, wanted);
        self.unless(same, slow);
        let tag = self.load(Type::I8, node, layout::NODE_KEY_TAG);
        let string = self.icmp_imm(IntCC::Equal, tag, Tag::STRING.0 as i64);
        self.unless(string, slow);
        node
    }

    /// The node of this number, if the table, which has nodes, has as many, else goes to `slow`.
    fn numbered_node(&mut self, table: Value, nodes: Value, number: u32, slow: Block) -> Value {
        // So many bits the number has: the table has at least as many nodes as it would need.
        let bits = u32::BITS - number.leading_zeros();
        if bits > 0 {
            let log2 = self.load(Type::I8, table, layout::TABLE_LOG2_NODES);
            let enough = self.icmp_imm(IntCC::UnsignedGreaterThanOrEqual, log2, bits as i64);
            self.unless(enough, slow);
        }
        self.iadd_imm(nodes, number as i64 * layout::NODE_SIZE as i64)
    }

    /// The node that the cache tells, if the table, which has nodes, has as many, else goes to `slow`.
    fn cached_node(&mut self, table: Value, nodes: Value, cache: u16, slow: Block) -> Value {
        let constants = self.constants();
        let cache = layout::cache(cache);
        let number = self.load(Type::I32, constants, cache + layout::CACHE_SLOT);
        let log2 = self.load(Type::I8, table, layout::TABLE_LOG2_NODES);
        let log2 = self.b.uextend(Type::I32, log2);
        let beyond = self.b.ushr(number, log2);
        let within = self.icmp_imm(IntCC::Equal, beyond, 0);
        self.unless(within, slow);
        let number = self.b.uextend(Type::I64, number);
        let size = self.b.iconst(Type::I64, layout::NODE_SIZE as i64);
        let offset = self.b.imul(number, size);
        self.b.iadd(nodes, offset)
    }

    /// The cache is of this shape and kind.
    fn is_cached_shape(&mut self, shape: Value, cache: i32, kind: u64, slow: Block) {
        let constants = self.constants();
        let wanted = self.bor_imm(shape, kind as i64);
        let cached = self.load(Type::I64, constants, cache + layout::CACHE_SHAPE);
        let same = self.b.icmp(IntCC::Equal, cached, wanted);
        self.unless(same, slow);
    }

    /// What the class of a table has for instruction `at` becomes its register.
    fn take_from_class(&mut self, at: usize, (name, table): (Name, Value), node: bool, slow: Block) -> Ty {
        let place = self.class(name, table, self.code(at).d(), node, slow);
        match node {
            true => self.take_apart(at, place, layout::NODE_VALUE, layout::NODE_VALUE_TAG, slow),
            false => self.take(at, place, 0, slow),
        }
    }

    /// Where the class of the table has what this cache is for, a node or a value. Where the cache is out of
    /// date, or for tables of another class, a leaf finds it.
    pub(super) fn place_in_class(&mut self, table: Value, d: u16, node: bool, slow: Block) -> Value {
        let [miss, done] = [(); 2].map(|()| self.b.create_block());
        self.b.set_cold_block(miss);
        let place = self.b.append_block_param(done, Type::I64);
        let shape = self.load(Type::I32, table, layout::TABLE_SHAPE);
        let shape = self.b.uextend(Type::I64, shape);
        let metatable = self.load(Type::I64, table, layout::TABLE_METATABLE);
        let found = self.class_in_cache((shape, metatable), d, node, miss);
        self.b.jump(done, &[found]);
        self.go_to(miss);
        let (vm, constants) = (self.vm, self.constants());
        let key = self.key_of_cache(d);
        let name = self.load(Type::I64, constants, Self::slot(key as usize) + layout::PAYLOAD);
        let which = self.b.iconst(Type::I64, (d as u64 | layout::cache_of_class(node)) as i64);
        let found = self.leaf(layout::place_in_class(), &[vm, table, name, constants, which]);
        self.b.brif(found, done, &[found], slow, &[]);
        self.go_to(done);
        place
    }

    /// Where a table of this shape, with this metatable, has in its class what the cache is for, a node or a
    /// value; else goes to `miss`.
    pub(super) fn class_in_cache(
        &mut self,
        (shape, metatable): (Value, Value),
        d: u16,
        node: bool,
        miss: Block,
    ) -> Value {
        let cache = layout::cache(d);
        self.is_cached_shape(shape, cache, layout::cache_of_class(node), miss);
        let (vm, constants) = (self.vm, self.constants());
        let cached = self.load(Type::I64, constants, cache + layout::CACHE_METATABLE);
        let same = self.b.icmp(IntCC::Equal, metatable, cached);
        self.unless(same, miss);
        let version = self.load(Type::I32, vm, layout::VM_VERSION);
        let cached = self.load(Type::I32, constants, cache + layout::CACHE_VERSION);
        let same = self.b.icmp(IntCC::Equal, version, cached);
        self.unless(same, miss);
        self.load(Type::I64, constants, cache + layout::CACHE_PLACE)
    }

    /// The constant that is the name of the field that cache `d` of the function being built is for.
    fn key_of_cache(&self, d: u16) -> u16 {
        let reads = [Op::GetField, Op::SelfCall, Op::GetTabUp];
        let is_for = |i: &&Instr| i.d() == d && i.op().is_some_and(|op| reads.contains(&op));
        self.proto.code.iter().find(is_for).expect("a cache belongs to an instruction").c()
    }

    /// `SELF` of a table whose class has the method.
    pub(super) fn get_method(&mut self, at: usize) {
        let i = self.code(at);
        if let (Some(Cache::OfStrings { node }), Some(Tag::STRING)) =
            (self.site(at).cache, self.site(at).objects.only())
            && self.ty(i.b() as usize) == Ty::Any
        {
            return self.get_string_method(at, node);
        }
        self.guard_seen(at, i.b() as usize);
        let table = self.known(i.b() as usize).filter(|t| t.ty == Ty::Table);
        let Some(table) = table else { return self.step_and_guard(at) };
        let (slow, name) = (self.slow(at), self.name_of(i.b() as usize));
        let a = i.a() as usize;
        let ty = self.result(at);
        self.find_in_table(at, (name, table.val), ty, slow.block);
        self.define(a + layout::GAP as usize, table);
        self.is_copy(a + layout::GAP as usize, name);
        let joins = !slow.exits;
        self.join(at, slow, Some((a, ty)));
        if joins {
            // The slow way has copied it, too.
            self.found(a + layout::GAP as usize, table);
        }
    }

    /// `SELF` of a string, whose method is where the cache says: in a node, or in a value of its own.
    fn get_string_method(&mut self, at: usize, node: bool) {
        let i = self.code(at);
        let (a, b) = (i.a() as usize, i.b() as usize);
        let slow = self.slow(at);
        let name = self.name_of(b);
        let string = self.string(b, slow.block);
        let place = self.string_method(i.d(), node, slow.block);
        let (payload, tag) = match node {
            true => (layout::NODE_VALUE, layout::NODE_VALUE_TAG),
            false => (layout::PAYLOAD, layout::TAG),
        };
        let tag = self.load(Type::I8, place, tag);
        let there = self.icmp_imm(IntCC::NotEqual, tag, Tag::NIL.0 as i64);
        self.unless(there, slow.block);
        let payload = self.load(Type::I64, place, payload);
        // The string may be where the method goes.
        let of_string = self.b.iconst(Type::I8, Tag::STRING.0 as i64);
        self.put(a + layout::GAP as usize, of_string, string);
        if !self.captured.contains(b as u8) {
            self.is_copy(a + layout::GAP as usize, name);
        }
        self.put(a, tag, payload);
        self.join(at, slow, Some((a, Ty::Any)));
    }

    /// `GETFIELD`: by the cache that the log has seen, if there was one shape; else by a leaf.
    pub(super) fn get_field(&mut self, at: usize) {
        let i = self.code(at);
        let b = i.b() as usize;
        self.guard_seen(at, b);
        let site = self.site(at);
        if site.shape.is_none() || !matches!(self.ty(b), Ty::Any | Ty::Table) {
            return self.step_and_guard(at);
        }
        let slow = if self.known(b).is_some() { self.slow(at) } else { self.aside() };
        let (name, table) = self.table_in(at, b, slow.block);
        let a = i.a() as usize;
        let ty = self.result(at);
        self.find_in_table(at, (name, table), ty, slow.block);
        self.join(at, slow, Some((a, ty)));
    }

    /// What the table, or its class, has under the name of instruction `at` becomes its register, of this
    /// type: by the cache that the log has seen, if there was one shape, by the shapes that it has seen, or
    /// by a leaf. Else goes to `slow`.
    fn find_in_table(&mut self, at: usize, (name, table): (Name, Value), ty: Ty, slow: Block) {
        let (site, i) = (self.site(at), self.code(at));
        if site.shapes && !site.fields.own().is_empty() {
            return self.get_field_of_shapes(at, (name, table), ty, slow);
        }
        if let Some(paths) = self.paths(at) {
            return self.take_inherited(at, table, paths, ty, slow);
        }
        if !site.fields.lacking().is_empty() {
            return self.get_field_of_shapes(at, (name, table), ty, slow);
        }
        let Some(cache) = site.cache.filter(|_| !site.shapes) else {
            return self.field_by_leaf(at, table, ty, slow);
        };
        let paths = self.all_paths(at).filter(|_| matches!(cache, Cache::Own { .. }));
        let miss = (self.is_suspect(at) || paths.is_some()).then(|| self.aside());
        let to = miss.as_ref().map_or(slow, |miss| miss.block);
        match cache {
            Cache::Add { .. } | Cache::OfStrings { .. } => self.field_by_leaf(at, table, ty, to),
            Cache::Own { shape, slot } => self.own_field(at, (name, table), (shape, slot), to),
            Cache::Class { node } => drop(self.take_from_class(at, (name, table), node, to)),
            Cache::Node { .. } => {
                // Tables that are no global's come and go, and grow.
                let number = self.number_of_node(at).filter(|_| matches!(name, Name::Global(..)));
                let node = self.node_of_key((name, table), i.c(), (i.d(), number), to);
                self.take_apart(at, node, layout::NODE_VALUE, layout::NODE_VALUE_TAG, to);
            }
        }
        if let Some(miss) = miss {
            self.join_with(at, miss, |this| this.find_in_class(at, table, paths, ty, slow));
        }
    }

    /// What a table that has nothing of its own under the name of instruction `at`, or has a shape that was
    /// not told apart, has there becomes its register: along one of these ways, or by a leaf.
    fn find_in_class(&mut self, at: usize, table: Value, paths: Option<&[Path]>, ty: Ty, slow: Block) {
        match paths {
            Some(paths) => self.take_inherited(at, table, paths, ty, slow),
            None => self.field_by_leaf(at, table, ty, slow),
        }
    }

    /// What the table inherits along one of these ways becomes the register of instruction `at`; a leaf finds
    /// it for tables of other classes.
    fn take_inherited(&mut self, at: usize, table: Value, paths: &[Path], ty: Ty, slow: Block) {
        let miss = self.aside();
        let place = self.inherited(table, paths, miss.block);
        self.take_found(at, place, paths, miss.block);
        self.join_with(at, miss, |this| this.field_by_leaf(at, table, ty, slow));
    }

    /// `GETFIELD` of tables of several shapes; a leaf does it for those that the log has not seen, if there
    /// were more.
    fn get_field_of_shapes(&mut self, at: usize, (name, table): (Name, Value), ty: Ty, slow: Block) {
        let fields = &self.site(at).fields;
        let paths = self.all_paths(at);
        let many = fields.own().len() + fields.lacking().len() >= MANY_SHAPES;
        let miss = (many || fields.others() || self.is_suspect(at) || paths.is_some()).then(|| self.aside());
        let to = miss.as_ref().map_or(slow, |miss| miss.block);
        let address = self.field_of_shapes((name, table), (fields.own(), fields.lacking()), to);
        if ty == Ty::Any && self.site(at).result.contains(Tag::NIL) {
            self.take_or_nil(at, table, address, 0, to);
        } else {
            self.take(at, address, 0, to);
        }
        if let Some(miss) = miss {
            self.join_with(at, miss, |this| this.find_in_class(at, table, paths, ty, slow));
        }
    }

    /// Where a table of one of these shapes has the field, for which each of the first names the slot, and
    /// the others lack it: what they have is nil, unless their metatable knows better. Others go to `miss`.
    pub(super) fn field_of_shapes(
        &mut self,
        (name, table): (Name, Value),
        (own, lacking): (&[(u32, u32)], &[u32]),
        miss: Block,
    ) -> Value {
        let known = own.iter().find(|(shape, _)| self.has(Fact::Slots(name, *shape)));
        if let Some(&(shape, slot)) = known {
            let slots = self.slots(name, table, shape, miss);
            return self.iadd_imm(slots, Self::slot(slot as usize) as i64);
        }
        let shape = self.load(Type::I32, table, layout::TABLE_SHAPE);
        let slots = self.load(Type::I64, table, layout::TABLE_SLOTS);
        let found = self.b.create_block();
        let address = self.b.append_block_param(found, Type::I64);
        let own = own.iter().map(|&(shape, slot)| (shape, Some(slot)));
        let lacking = lacking.iter().map(|&shape| (shape, None));
        for (wanted, slot) in own.chain(lacking) {
            let next = self.b.create_block();
            let same = self.icmp_imm(IntCC::Equal, shape, wanted as i64);
            let place = match slot {
                Some(slot) => self.iadd_imm(slots, Self::slot(slot as usize) as i64),
                None => self.b.iconst(Type::I64, layout::nothing() as i64),
            };
            self.b.brif(same, found, &[place], next, &[]);
            self.go_to(next);
        }
        self.b.jump(miss, &[]);
        self.go_to(found);
        address
    }

    /// `SETUPVAL`.
    pub(super) fn set_upvalue(&mut self, at: usize) {
        let i = self.code(at);
        let slow = self.slow(at);
        let Some(stored) = self.stored(i.a() as u16) else { return self.step(at) };
        let variable = self.upvalue(i.b());
        let what = self.b.iconst(Type::I64, layout::VARIABLE);
        self.is_writable((None, variable), what, &stored, slow.block);
        let address = self.load(Type::I64, variable, layout::UPVALUE_VALUE);
        self.store_stored(&stored, address, 0);
        self.join(at, slow, None);
        if let Some(now) = &mut self.now {
            now.forget_variables(at);
        }
    }

    /// The address of the string that constant `n` is.
    pub(super) fn name_constant(&mut self, n: u16) -> Value {
        let constants = self.constants();
        self.load(Type::I64, constants, Self::slot(n as usize) + layout::PAYLOAD)
    }

    /// What the table, and those along its `__index`, have under the name of instruction `at` becomes its
    /// register, of this type.
    fn field_by_leaf(&mut self, at: usize, table: Value, ty: Ty, slow: Block) {
        let key = self.name_constant(self.code(at).c());
        let inherited = self.site(at).fields.own().is_empty();
        let leaf = if inherited { layout::get_inherited() } else { layout::get_field() };
        self.get_by(leaf, at, table, key, ty, slow);
    }

    /// The kind of array that the log has seen at `at`, and whether there were others. Tables whose arrays
    /// become general stay so.
    pub(super) fn array_kind(&self, at: usize) -> Option<(ArrayKind, bool)> {
        let seen = self.site(at).arrays & !(OTHER_KEY | APPENDS | FILLS | OTHER_OBJECT);
        let kind = ArrayKind::ALL.into_iter().find(|&kind| seen & 1 << kind as u8 != 0)?;
        let others = seen != 1 << kind as u8;
        (kind == ArrayKind::General || !others).then_some((kind, others))
    }

    pub(super) fn type_of_elements(kind: ArrayKind) -> Ty {
        match kind {
            ArrayKind::General | ArrayKind::Bool => Ty::Any,
            ArrayKind::Int => Ty::Int,
            ArrayKind::Float => Ty::Float,
        }
    }

    /// The address of element `index` of an array of this kind.
    pub(super) fn place_of(&mut self, array: Value, index: Value, kind: ArrayKind) -> Value {
        let offset = match kind.element_size().trailing_zeros() {
            0 => index,
            shift => self.ishl_imm(index, shift as i64),
        };
        self.b.iadd(array, offset)
    }

    /// Tag and payload of the element of an array of booleans at an address.
    pub(super) fn boolean_at(&mut self, address: Value) -> (Value, Value) {
        let tag = self.load(Type::I8, address, 0);
        (tag, self.b.iconst(Type::I64, 0))
    }

    /// A key of an array: the number of the element from 0; of a float it is not yet known whether there is
    /// such an element.
    pub(super) fn index(&mut self, r: u16, constant: bool) -> Option<Known> {
        if constant {
            return Some(Known { ty: Ty::Int, val: self.b.iconst(Type::I64, r as i64 - 1) });
        }
        let key = self.known(r as usize).filter(|k| k.ty.is_number())?;
        // What a key of its own is the sum of need not live on for the loop that counts it.
        let own = r as u8;
        let is_variable = self.own().live_behind(self.at).contains(own) && !self.code(self.at).changes(own);
        let val = match key.ty {
            Ty::Int if is_variable => self.iadd_imm(key.val, -1),
            Ty::Int => self.plus(key.val, -1),
            _ => key.val,
        };
        Some(Known { ty: key.ty, val })
    }

    /// The key of an element for instruction `at`, from 0: a known number, or a register in which there have
    /// been nothing but numbers.
    pub(super) fn key_of_element(&mut self, at: usize, r: u16, constant: bool) -> Option<Key> {
        if let Some(known) = self.index(r, constant) {
            return Some(Key::Known(known));
        }
        let numbers = [&[Tag::INT, Tag::FLOAT][..], &[Tag::INT], &[Tag::FLOAT]];
        let keys = self.site(at).keys;
        let is_number = self.ty(r as usize) == Ty::Any && numbers.iter().any(|tags| keys.is_all_of(tags));
        is_number.then_some(Key::Slot(r as usize))
    }

    /// The number of an element from 0, for a key; a float that is no integer goes to `slow`.
    pub(super) fn number_of_element(&mut self, key: Key, slow: Block) -> Value {
        let r = match key {
            Key::Known(Known { ty: Ty::Int, val }) => return val,
            Key::Known(known) => return self.number_of_float(known.val, slow),
            Key::Slot(r) => r,
        };
        let base = self.b.use_var(self.base);
        let tag = self.tag_of(r);
        let [int, other, float, done] = [(); 4].map(|()| self.b.create_block());
        let number = self.b.append_block_param(done, Type::I64);
        let is_int = self.icmp_imm(IntCC::Equal, tag, Tag::INT.0 as i64);
        self.b.brif(is_int, int, &[], other, &[]);
        self.go_to(int);
        let val = self.payload_of(r);
        let val = self.iadd_imm(val, -1);
        self.b.jump(done, &[val]);
        self.go_to(other);
        let is_float = self.icmp_imm(IntCC::Equal, tag, Tag::FLOAT.0 as i64);
        self.b.brif(is_float, float, &[], slow, &[]);
        self.go_to(float);
        let val = self.load(Type::F64, base, Self::slot(r) + layout::PAYLOAD);
        let val = self.number_of_float(val, slow);
        self.b.jump(done, &[val]);
        self.go_to(done);
        number
    }

    /// The key in register `r` with the number of its element, if it is a float of which that is known, or found
    /// out here: it is a key of several arrays, or of one several times, more often than not. What is no
    /// integer gets a number that no array has.
    pub(super) fn with_number(&mut self, key: Key, r: u16) -> Key {
        let Key::Known(Known { ty: Ty::Float, val }) = key else { return key };
        if self.captured.contains(r as u8) {
            return key;
        }
        let fact = Fact::Number(self.name_of(r as usize));
        if !self.has(fact) {
            let (number, is_integer) = self.rounded(val);
            let number = self.iadd_imm(number, -1);
            let none = self.b.iconst(Type::I64, -1);
            let number = self.b.select(is_integer, number, none);
            self.keep(fact, vec![number]);
        }
        Key::Known(Known { ty: Ty::Int, val: self.values(fact)[0] })
    }

    /// The number of an element from 0, for a key that is a float; goes to `slow` if it is no integer.
    fn number_of_float(&mut self, key: Value, slow: Block) -> Value {
        let number = self.whole(key, slow);
        self.iadd_imm(number, -1)
    }

    /// The integer next to a float towards 0, as far as there is one, and whether it is the float.
    pub(super) fn rounded(&mut self, float: Value) -> (Value, Value) {
        let number = self.b.fcvt_to_sint(float);
        let again = self.b.fcvt_from_sint(number);
        (number, self.b.fcmp(FloatCC::Equal, again, float))
    }
}
