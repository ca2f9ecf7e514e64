//! Facts: what is known of values besides their types, and where it is already known.
//!
//! A guard of a table costs as much as what it protects: the kind of its array, its length and address, the
//! shape and the address of its fields. All of that stays as it is until the interpreter does something, or
//! another function runs. So what has been found out once is kept: a [`Fact`] holds in a state, and the
//! addresses that come with it are in variables.
//!
//! # Names
//! A fact is of a value, and values have [`Name`]s: the instruction that made it, or the place where ways
//! meet. A copy has the name of what it is a copy of. In every state all registers of one name hold the same
//! value, and a fact that holds of a name is true of that. Where the same instruction makes a value again,
//! what was known under the name is forgotten.
//!
//! That two registers have one name is true of the ways that are built. Where the code can be entered by a
//! frame that has come another way, each has a name of its own: at the head of a loop ([`Lowering::names_in`]),
//! and behind a call ([`State::forget_copies`]).
//!
//! # Hoisting
//! The passes before the last find out which facts are there whenever a loop comes round: these are
//! *hoisted*. The last pass makes them true on each way into the loop, by guards that exit to its beginning;
//! where the loop comes round they are true already, and nothing is done. The facts are found optimistically:
//! the first pass takes those of the ways in for true, later ones what the one before has found, until
//! nothing changes. That need not come to an end, nor be right: the last pass makes true whatever it is told
//! to.
//!
//! A register that a loop does not change keeps its name in all loops within; so what an inner loop needs is
//! hoisted out of the outer one as well.

mod fact;
mod rows;
mod set;

use super::{Known, Lowering, Register, State, Ty};
use crate::ssa::{Block, IntCC, Type, Value, Variable};
use crate::units;
pub(super) use fact::{Fact, FrameNumber, Kind, Name};
use perilune_vm::Tag;
use perilune_vm::machine::{EXITED, layout};
pub(super) use rows::Origin;
pub(super) use set::Facts;

impl State {
    /// Whether registers have the same values in both, and as much is known of each.
    pub(super) fn has_same(&self, other: &State) -> bool {
        self.registers == other.registers && self.names == other.names && self.unmade == other.unmade
    }

    /// Register `r` has a value of its own.
    pub(super) fn renew(&mut self, r: usize, name: Name) {
        self.facts.retain(|fact| !fact.mentions(name));
        self.names[r] = name;
        self.unmade.remove(&name);
    }

    /// Anything may have happened: nothing but the types of registers is known. Instruction `at` did it.
    pub(super) fn forget_facts(&mut self, at: usize) {
        self.facts.retain(|fact| fact.is_for_good());
        self.forget_variables(at);
    }

    /// A function of the runtime has run, or a table has got a metatable: whoever looks for a field along
    /// metatables makes classes of what it finds, and `__newindex` may have come.
    pub(super) fn forget_extensible(&mut self) {
        self.facts.retain(|fact| !matches!(fact, Fact::Extensible(_)));
    }

    /// A table has got another shape, and a field that it did not have before: any table may be that one.
    /// Instruction `at` did it.
    pub(super) fn forget_shapes(&mut self, at: usize) {
        let is_by_shape = |fact: &Fact| {
            matches!(
                fact,
                Fact::Slots(..) | Fact::Field(..) | Fact::Part(..) | Fact::Class(..) | Fact::StringMethod(..)
            )
        };
        self.facts.retain(|fact| !is_by_shape(fact));
        self.forget_names(at, |name| matches!(name, Name::Derived { of_field: true, .. }));
    }

    /// Something has been stored into this slot of a table of this shape: any of them may be that one.
    pub(super) fn forget_field(&mut self, (shape, slot): (u32, u32)) {
        let is_there = |fact: &Fact| match fact {
            Fact::Field(_, its, own, _) | Fact::Part(_, its, own, _) => (*its, *own) == (shape, slot),
            _ => false,
        };
        self.facts.retain(|fact| !is_there(fact));
    }

    /// Variables are over that upvalues may be those of.
    pub(super) fn forget_upvalues(&mut self, at: usize) {
        self.facts.retain(|fact| !matches!(fact, Fact::Upvalue(..)));
        self.forget_variables(at);
    }

    /// The structure of any table may be another one, and globals may have other values: instruction `at` has
    /// stored something.
    pub(super) fn forget_structure(&mut self, at: usize) {
        let holds = |fact: &Fact| {
            matches!(
                fact,
                Fact::Room(_)
                    | Fact::Upvalue(..)
                    | Fact::UpvalueTable(..)
                    | Fact::Writable(_)
                    | Fact::Native(..)
                    | Fact::NativeClosure(..)
                    | Fact::Function(..)
                    | Fact::Held(_)
                    | Fact::Elements(..)
                    | Fact::Number(_)
            )
        };
        self.facts.retain(|fact| holds(fact) && !matches!(fact.of(), Some(Name::Global(..))));
        self.forget_derived(at);
        for (r, name) in
            self.names.iter_mut().enumerate().filter(|(_, name)| matches!(name, Name::Global(..)))
        {
            *name = Name::made(at, r);
        }
    }

    /// Upvalues and globals may have other values.
    pub(super) fn forget_variables(&mut self, at: usize) {
        self.facts.retain(|fact| !matches!(fact, Fact::Global(..)) && !fact.any_name(Name::is_of_variable));
        for (r, name) in self.names.iter_mut().enumerate().filter(|(_, name)| name.is_of_variable()) {
            *name = Name::made(at, r);
        }
    }

    /// Of registers that hold the same value the first alone does so for certain: the others may have come
    /// here by ways that are not built, with another one. Nor is it certain that one holds what comes from
    /// others. Behind instruction `at`.
    pub(super) fn forget_copies(&mut self, at: usize) {
        for r in 0..self.names.len() {
            let is_derived = matches!(self.names[r], Name::Derived { .. });
            if is_derived || self.names[..r].contains(&self.names[r]) {
                self.names[r] = Name::made(at, r);
            }
        }
    }

    /// Globals may have other values, in the same places.
    pub(super) fn forget_globals(&mut self, at: usize) {
        self.facts.retain(|fact| !fact.any_name(|name| matches!(name, Name::Global(..))));
        for (r, name) in
            self.names.iter_mut().enumerate().filter(|(_, name)| matches!(name, Name::Global(..)))
        {
            *name = Name::made(at, r);
        }
    }

    /// What is known on both ways, which meet before instruction `at`.
    pub(super) fn meet(&mut self, other: &State, at: usize) {
        self.meet_with(other, at, Register::meet);
    }

    /// The same where registers meet as told.
    pub(super) fn meet_with(
        &mut self,
        other: &State,
        at: usize,
        registers: impl Fn(Register, Register) -> Register,
    ) {
        for (register, other) in self.registers.iter_mut().zip(&other.registers) {
            *register = registers(*register, *other);
        }
        let mut renamed = Vec::new();
        for (r, (name, other)) in self.names.iter_mut().zip(&other.names).enumerate() {
            if name != other {
                *name = Name::met(at, r);
                renamed.push(*name);
            }
        }
        self.facts
            .retain(|fact| other.facts.contains(fact) && !fact.any_name(|name| renamed.contains(&name)));
        self.unmade.retain(|name, own| other.unmade.get(name) == Some(own));
        assert!(
            (0..self.names.len())
                .all(|r| { self.registers[r].ty != Ty::Unmade || self.unmade.contains_key(&self.names[r]) }),
            "ways that meet agree on what is not made"
        );
    }
}

impl Lowering<'_, '_> {
    /// The names of registers in the loop that begins with instruction `head`.
    pub(super) fn names_in(&self, head: usize) -> Vec<Name> {
        let around = |l: &&units::Region| l.head <= head && head <= l.back && self.heads.contains(&l.head);
        let name = |r: usize| {
            let kept = self.loops.iter().filter(around).filter(|l| !self.changes(l, r));
            match kept.min_by_key(|l| (l.head, usize::MAX - l.back)) {
                Some(l) => Name::kept(l.head, r),
                None => Name::met(head, r),
            }
        };
        (0..self.registers()).map(name).collect()
    }

    pub(super) fn changes(&self, l: &units::Region, r: usize) -> bool {
        self.changed[&l.head].contains(r as u8)
    }

    /// The facts that hold here, under the names that their values have in the loop that begins with `head`.
    pub(super) fn facts_for(&mut self, head: usize) -> Facts {
        let names = self.names_in(head);
        let mut facts = Facts::new();
        let Some(known) = self.now.as_ref().map(|now| now.facts.clone()) else { return facts };
        for &fact in known.iter().filter(|fact| fact.is_outer() && !fact.is_momentary()) {
            match fact.of() {
                _ if fact.is_of_derived() => facts.extend(self.derived_fact_there(fact, &names)),
                Some(name) if !name.is_of_variable() => {
                    let Some(now) = &self.now else { continue };
                    let holders = now.names.iter().zip(&names).enumerate();
                    let suits =
                        |r: usize| fact.suits(now.registers[r].ty) && !self.captured.contains(r as u8);
                    let holders = holders.filter(|(r, (own, _))| **own == name && suits(*r));
                    facts.extend(holders.map(|(_, (_, there))| fact.with(*there)));
                }
                _ => facts.insert(fact),
            }
        }
        facts
    }

    /// On a way into the loop that begins with `head`: makes the facts true that are taken for true there.
    pub(super) fn establish(&mut self, head: usize, wanted: &Facts) {
        let names = self.names_in(head);
        if !self.establish_origins(head, wanted, &names) {
            return self.exit(head, EXITED);
        }
        let mut there = Vec::new();
        for &fact in wanted {
            let Some(now) = &self.now else { return };
            // The register whose value it is of.
            let of = fact.of().filter(|_| !matches!(fact, Fact::Element(..)));
            let holder = of.and_then(|name| names.iter().position(|n| *n == name));
            let own = holder.map_or(fact, |r| fact.with(now.names[r]));
            if !now.facts.contains(&own) {
                let exit = self.exit_block(head, EXITED);
                if !self.find_out(own, holder, exit) {
                    return self.exit(head, EXITED);
                }
            }
            let values = self.values(own);
            there.push((fact, values));
        }
        for (fact, values) in there {
            self.keep(fact, values);
        }
    }

    /// Makes a fact true, of the value in register `holder` if there is one; else goes to `exit`. Whether
    /// that is possible.
    pub(super) fn find_out(&mut self, fact: Fact, holder: Option<usize>, exit: Block) -> bool {
        if let (Fact::Native(_, native), Some(r)) = (fact, holder) {
            self.is_native_at(r, native, exit);
            return true;
        }
        if let (Fact::NativeClosure(_, native), Some(r)) = (fact, holder) {
            self.is_native_closure(r, native, exit);
            return true;
        }
        if let (Fact::Function(_, function), Some(r)) = (fact, holder) {
            self.function(r, function, exit);
            return true;
        }
        if let (Fact::Native(..) | Fact::Function(..), Some(Name::Upvalue(frame, n))) = (fact, fact.of()) {
            return frame == self.frame && self.find_out_of_upvalue(fact, n, exit);
        }
        if let (Fact::Elements(_, element), Some(r)) = (fact, holder) {
            self.elements(r, element, exit);
            return true;
        }
        let table = match fact.of() {
            // A table that has been in a register of no known type was not looked for in the upvalue.
            Some(Name::Upvalue(frame, n)) if !matches!(fact, Fact::UpvalueTable(..)) => {
                (frame == self.frame).then(|| self.upvalue_table(n, exit).val)
            }
            Some(Name::Global(..)) if !matches!(fact, Fact::GlobalTable(..)) => {
                let now = self.now.as_ref().expect("somebody asks");
                let of = |f: &&Fact| matches!(f, Fact::GlobalTable(..)) && f.of() == fact.of();
                let known = now.facts.iter().find(of).copied();
                known.map(|known| self.values(known)[0])
            }
            Some(Name::Derived { number, .. }) => self.derived_table(number),
            _ => holder.and_then(|r| self.known(r)).filter(|t| t.ty == Ty::Table).map(|t| t.val),
        };
        match (fact, table) {
            (Fact::Room(end), _) => self.has_registers(end as usize, exit),
            (Fact::Upvalue(_, n), _) => drop(self.upvalue_address(n)),
            (Fact::StringMethod(_, cache, node), _) => drop(self.string_method(cache, node, exit)),
            (Fact::UpvalueTable(_, n), _) => drop(self.upvalue_table(n, exit)),
            (Fact::Global(_, up, key, cache), _) => {
                let node = self.global_address(up, key, (cache, None), exit);
                self.keep_too(fact, node);
            }
            (Fact::GlobalTable(_, up, key, cache), _) => {
                let table = self.global_table(up, key, (cache, None), exit).val;
                self.keep_too(fact, table);
            }
            (Fact::Array(name, kind), Some(table)) => drop(self.array(name, table, kind, exit)),
            (Fact::Slots(name, shape), Some(table)) => drop(self.slots(name, table, shape, exit)),
            (Fact::Field(name, shape, slot, ty), Some(table)) => {
                self.find_field(name, table, (shape, slot), ty, exit);
            }
            (Fact::Writable(name), Some(table)) => self.writable(Some(name), table, exit),
            (Fact::Class(name, _, cache, node), Some(table)) => {
                self.class(name, table, cache, node, exit);
            }
            (Fact::Node(name, _, key, cache), Some(table)) => {
                let node = self.node_of_key((name, table), key, (cache, None), exit);
                self.keep_too(fact, node);
            }
            (
                Fact::Record(_)
                | Fact::Position(_)
                | Fact::Fresh(_)
                | Fact::Extensible(_)
                | Fact::Fields(..)
                | Fact::Part(..)
                | Fact::Entry(..)
                | Fact::Native(..)
                | Fact::NativeClosure(..)
                | Fact::Function(..)
                | Fact::Elements(..)
                | Fact::Element(..)
                | Fact::Number(_)
                | Fact::Held(_),
                _,
            )
            | (_, None) => return false,
        }
        true
    }

    /// The fact holds, whose value was known by the cache of another instruction, perhaps.
    fn keep_too(&mut self, fact: Fact, value: Value) {
        if !self.has(fact) {
            self.keep(fact, vec![value]);
        }
    }

    /// The same of an upvalue that is a function.
    fn find_out_of_upvalue(&mut self, fact: Fact, n: u16, exit: Block) -> bool {
        let address = self.upvalue_address(n);
        let tag = self.load(Type::I8, address, layout::TAG);
        let payload = self.load(Type::I64, address, layout::PAYLOAD);
        let (wanted, instance) = match fact {
            Fact::Native(_, native) => {
                let wanted = self.b.iconst(Type::I64, native as i64);
                let same = self.b.icmp(IntCC::Equal, payload, wanted);
                self.unless(same, exit);
                (Tag::NATIVE, None)
            }
            Fact::Function(..) => (Tag::CLOSURE, Some(payload)),
            _ => return false,
        };
        let is = self.icmp_imm(IntCC::Equal, tag, wanted.0 as i64);
        self.unless(is, exit);
        match (fact, instance) {
            (Fact::Function(_, function), Some(closure)) => {
                let instance = self.instance(closure, function, exit);
                self.keep(fact, vec![instance]);
            }
            _ => self.keep(fact, Vec::new()),
        }
        true
    }

    /// The instance of a closure that is one of this function, else goes to `other`.
    fn instance(&mut self, closure: Value, function: usize, other: Block) -> Value {
        let instance = self.load(Type::I64, closure, layout::CLOSURE_INST);
        let own = self.load(Type::I64, instance, layout::INST_PROTO);
        let wanted = self.b.iconst(Type::I64, function as i64);
        let same = self.b.icmp(IntCC::Equal, own, wanted);
        self.unless(same, other);
        instance
    }

    /// The instance of the function of Lua that register `r` holds, which is this one, else goes to `other`.
    pub(super) fn function(&mut self, r: usize, function: usize, other: Block) -> Value {
        let fact = Fact::Function(self.name_of(r), function);
        if !self.has(fact) {
            let closure = self.closure_in(r, other);
            let instance = self.instance(closure, function, other);
            if self.captured.contains(r as u8) {
                return instance;
            }
            self.keep(fact, vec![instance]);
        }
        self.values(fact)[0]
    }

    /// The name of what register `r` holds.
    pub(super) fn name_of(&self, r: usize) -> Name {
        self.now.as_ref().map_or(Name::made(self.at, r), |now| now.names[r])
    }

    /// Register `a` holds the same value as one of this name.
    pub(super) fn is_copy(&mut self, a: usize, name: Name) {
        if let Some(now) = &mut self.now
            && !self.captured.contains(a as u8)
        {
            now.names[a] = name;
        }
    }

    pub(super) fn has(&self, fact: Fact) -> bool {
        self.now.as_ref().is_some_and(|now| now.facts.contains(&fact))
    }

    fn variables(&mut self, fact: Fact) -> [Variable; 2] {
        let b = &mut *self.b;
        let first = if matches!(fact, Fact::Field(.., Ty::Float)) { Type::F64 } else { Type::I64 };
        let second = if matches!(fact, Fact::Held(_)) { Type::I8 } else { Type::I64 };
        *self.found.entry(fact).or_insert_with(|| [first, second].map(|ty| b.declare_var(ty)))
    }

    /// What comes with a fact that holds: as many values as its kind has. Of one that does not hold the
    /// variables have what they had on another way, or nothing.
    pub(super) fn values(&mut self, fact: Fact) -> Vec<Value> {
        let count = match fact {
            Fact::Array(..) | Fact::Elements(..) | Fact::Held(_) => 2,
            Fact::Room(_)
            | Fact::Part(..)
            | Fact::Writable(_)
            | Fact::Fresh(_)
            | Fact::Extensible(_)
            | Fact::Fields(..)
            | Fact::Native(..)
            | Fact::NativeClosure(..)
            | Fact::Record(_)
            | Fact::Position(_) => 0,
            _ => 1,
        };
        assert!(
            count == 0 || self.now.is_none() || self.has(fact),
            "{fact:?} is used where it does not hold"
        );
        let variables = self.variables(fact);
        variables[..count].iter().map(|v| self.b.use_var(*v)).collect()
    }

    /// The fact is not known to hold.
    pub(super) fn forget_fact(&mut self, fact: Fact) {
        if let Some(now) = &mut self.now {
            now.facts.remove(&fact);
        }
    }

    /// The fact holds from here on.
    pub(super) fn keep(&mut self, fact: Fact, values: Vec<Value>) {
        if !values.is_empty() {
            let variables = self.variables(fact);
            for (variable, value) in variables.into_iter().zip(values) {
                self.b.def_var(variable, value);
            }
        }
        if let Some(now) = &mut self.now {
            now.facts.insert(fact);
        }
    }

    /// Address and length of the array of a table, which is of this kind, else goes to `slow`.
    pub(super) fn array(&mut self, name: Name, table: Value, kind: Kind, slow: Block) -> [Value; 2] {
        let fact = Fact::Array(name, kind);
        if !self.has(fact) {
            let own = self.load(Type::I8, table, layout::TABLE_KIND);
            let same = self.icmp_imm(IntCC::Equal, own, kind.0 as i64);
            self.unless(same, slow);
            let length = self.load(Type::I32, table, layout::TABLE_LENGTH);
            let length = self.b.uextend(Type::I64, length);
            let array = self.load(Type::I64, table, layout::TABLE_ARRAY);
            self.keep(fact, vec![array, length]);
        }
        let values = self.values(fact);
        [values[0], values[1]]
    }

    /// The address of the fields of a table that has this shape, else goes to `slow`.
    pub(super) fn slots(&mut self, name: Name, table: Value, shape: u32, slow: Block) -> Value {
        let fact = Fact::Slots(name, shape);
        if !self.has(fact) {
            let own = self.load(Type::I32, table, layout::TABLE_SHAPE);
            let same = self.icmp_imm(IntCC::Equal, own, shape as i64);
            self.unless(same, slow);
            let slots = self.load(Type::I64, table, layout::TABLE_SLOTS);
            self.keep(fact, vec![slots]);
        }
        self.values(fact)[0]
    }

    /// Numbers may be stored into an object without asking, else goes to `slow`.
    pub(super) fn writable(&mut self, name: Option<Name>, object: Value, slow: Block) {
        if name.is_some_and(|name| self.has(Fact::Writable(name))) {
            return;
        }
        let epoch = self.load(Type::I32, object, layout::OBJECT_EPOCH);
        let below = self.icmp_imm(IntCC::UnsignedLessThan, epoch, layout::WRITABLE as i64);
        self.unless(below, slow);
        if let Some(name) = name {
            self.keep(Fact::Writable(name), Vec::new());
        }
    }

    /// Where the class of the table has what this cache is for, a node or a value, else goes to `slow`.
    pub(super) fn class(&mut self, name: Name, table: Value, d: u16, node: bool, slow: Block) -> Value {
        let fact = Fact::Class(name, self.frame, d, node);
        if !self.has(fact) {
            let place = self.place_in_class(table, d, node, slow);
            self.keep(fact, vec![place]);
        }
        self.values(fact)[0]
    }

    /// The node of a dictionary that has this constant as its key, where the cache says, else goes to `slow`.
    pub(super) fn node_of_key(
        &mut self,
        (name, table): (Name, Value),
        key: u16,
        (cache, number): (u16, Option<u32>),
        slow: Block,
    ) -> Value {
        let own = Fact::Node(name, self.frame, key, cache);
        let wanted = (name, self.frame, key);
        let same = |fact: &Fact| matches!(*fact, Fact::Node(of, frame, k, _) if (of, frame, k) == wanted);
        let fact = self.known_fact(same).unwrap_or(own);
        if !self.has(fact) {
            let node = self.node(table, key, (cache, number), slow);
            self.keep(fact, vec![node]);
        }
        self.values(fact)[0]
    }

    /// A fact like this that holds.
    fn known_fact(&self, is_it: impl Fn(&Fact) -> bool) -> Option<Fact> {
        self.now.as_ref()?.facts.iter().copied().find(is_it)
    }

    /// The cache by whose number this global goes: another instruction may have looked for it, by its own.
    pub(super) fn cache_of_global(&self, up: u16, key: u16, cache: u16) -> u16 {
        let own = (self.frame, up, key);
        let is_table =
            |fact: &Fact| matches!(*fact, Fact::GlobalTable(frame, u, k, _) if (frame, u, k) == own);
        let is_node = |fact: &Fact| matches!(*fact, Fact::Global(frame, u, k, _) if (frame, u, k) == own);
        match self.known_fact(is_table).or_else(|| self.known_fact(is_node)) {
            Some(Fact::GlobalTable(.., known) | Fact::Global(.., known)) => known,
            _ => cache,
        }
    }

    /// Where the method of strings is that this cache is for, a node or a value, else goes to `slow`.
    pub(super) fn string_method(&mut self, d: u16, node: bool, slow: Block) -> Value {
        let fact = Fact::StringMethod(self.frame, d, node);
        if !self.has(fact) {
            let cache = layout::cache(d);
            let (vm, constants) = (self.vm, self.constants());
            let own = self.load(Type::I64, constants, cache + layout::CACHE_SHAPE);
            let wanted = self.b.iconst(Type::I64, layout::cache_of_strings(node) as i64);
            let same = self.b.icmp(IntCC::Equal, own, wanted);
            self.unless(same, slow);
            let own = self.load(Type::I64, vm, layout::VM_STRING_METATABLE);
            let cached = self.load(Type::I64, constants, cache + layout::CACHE_METATABLE);
            let same = self.b.icmp(IntCC::Equal, own, cached);
            self.unless(same, slow);
            let version = self.load(Type::I32, vm, layout::VM_VERSION);
            let cached = self.load(Type::I32, constants, cache + layout::CACHE_VERSION);
            let same = self.b.icmp(IntCC::Equal, version, cached);
            self.unless(same, slow);
            let place = self.load(Type::I64, constants, cache + layout::CACHE_PLACE);
            self.keep(fact, vec![place]);
        }
        self.values(fact)[0]
    }

    /// The address of the value of the upvalue of this number.
    pub(super) fn upvalue_address(&mut self, number: u16) -> Value {
        let fact = Fact::Upvalue(self.frame, number);
        if !self.has(fact) {
            let variable = self.upvalue(number);
            let address = self.load(Type::I64, variable, layout::UPVALUE_VALUE);
            self.keep(fact, vec![address]);
        }
        self.values(fact)[0]
    }

    /// The table that is the upvalue of this number, else goes to `slow`.
    pub(super) fn upvalue_table(&mut self, number: u16, slow: Block) -> Known {
        let fact = Fact::UpvalueTable(self.frame, number);
        if !self.has(fact) {
            let address = self.upvalue_address(number);
            let table = self.expect_at(address, 0, Ty::Table, slow).val;
            self.keep(fact, vec![table]);
        }
        Known { ty: Ty::Table, val: self.values(fact)[0] }
    }

    /// The table that is a global, in a node that its cache tells, else goes to `slow`.
    pub(super) fn global_table(
        &mut self,
        up: u16,
        key: u16,
        (cache, number): (u16, Option<u32>),
        slow: Block,
    ) -> Known {
        let fact = Fact::GlobalTable(self.frame, up, key, self.cache_of_global(up, key, cache));
        if !self.has(fact) {
            let node = self.global_address(up, key, (cache, number), slow);
            let tag = self.load(Type::I8, node, layout::NODE_VALUE_TAG);
            let is = self.icmp_imm(IntCC::Equal, tag, Tag::TABLE.0 as i64);
            self.unless(is, slow);
            let table = self.load(Type::I64, node, layout::NODE_VALUE);
            self.keep(fact, vec![table]);
        }
        Known { ty: Ty::Table, val: self.values(fact)[0] }
    }

    /// The node of a global that its cache tells, else goes to `slow`.
    pub(super) fn global_address(
        &mut self,
        up: u16,
        key: u16,
        (cache, number): (u16, Option<u32>),
        slow: Block,
    ) -> Value {
        let fact = Fact::Global(self.frame, up, key, self.cache_of_global(up, key, cache));
        if !self.has(fact) {
            let globals = self.upvalue_table(up, slow).val;
            let node = self.node(globals, key, (cache, number), slow);
            self.keep(fact, vec![node]);
        }
        self.values(fact)[0]
    }
}
