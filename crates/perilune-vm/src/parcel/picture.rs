//! Packing with pictures (`cache.rs` says what these are): referring to one, and making one.
//!
//! A picture is made by a packer of its own, while the one for the parcel is under way: so both find the same
//! values. What the parcel has met already is *around* it. The picture may not show any of that, or there
//! would be two copies; see [`Plan::entangled`].

use super::cache::{Listed, Shown};
use super::frozen::Own;
use super::graph::{Refs, code};
use super::origin::Held;
use super::pack::{Packed, Packer, Unit, Way, shared_proto};
use super::refusal::Reason;
use crate::object::LuaClosure;
use crate::value::{Gc, Tag, Value};
use perilune_syntax::VarKind;
use std::collections::HashSet;

/// What a packer makes pictures for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    /// It packs a parcel.
    Parcel,
    /// It makes a picture; classes get one of their own.
    Picture,
    /// It makes a picture of a class, or of something that leads to one.
    Class,
}

/// Something that a packer begins with a picture of, and what leads to it.
#[derive(Clone)]
pub(super) struct First {
    value: Value,
    held: Held,
}

/// How a packer uses pictures. Entries of the cache are named by their number; packing contains no safepoint,
/// so none goes away.
pub(super) struct Plan {
    level: Level,
    /// Pictures that the graph refers to, those that they lean on included.
    used: Vec<u64>,
    /// Pictures that members of have been copied.
    copied: Vec<u64>,
    /// Values whose pictures were in use from the start.
    first: Vec<First>,
    /// What the packer has to begin once more for, with a picture of this in use from the start.
    pub entangled: Option<First>,
    /// As in [`Shown`].
    pub listed: Vec<Listed>,
    /// Modules whose fingerprints matter, though the graph does not refer to them.
    pub prints: Vec<(u32, u64)>,
    /// The table that is looked at is a metatable.
    pub is_class: bool,
    /// It is what the picture is made for.
    is_root: bool,
}

/// A picture that would lean on more others takes them in.
const MANY: usize = 8;

impl Plan {
    pub fn for_parcel(first: Vec<First>) -> Box<Plan> {
        Plan::new(Level::Parcel, first)
    }

    fn new(level: Level, first: Vec<First>) -> Box<Plan> {
        Box::new(Plan {
            level,
            used: Vec::new(),
            copied: Vec::new(),
            first,
            entangled: None,
            listed: Vec::new(),
            prints: Vec::new(),
            is_class: false,
            is_root: false,
        })
    }
}

impl Packer<'_> {
    /// It makes a picture.
    pub(super) fn makes_picture(&self) -> bool {
        self.plan.as_ref().is_some_and(|p| p.level != Level::Parcel)
    }

    /// A list of what a picture shows and nothing else would tell the changes of.
    pub(super) fn list(&mut self, listed: Listed) {
        if let Some(plan) = &mut self.plan
            && plan.level != Level::Parcel
        {
            plan.listed.push(listed);
        }
    }

    /// Uses the pictures that the plan begins with.
    pub(super) fn first_pictures(&mut self) {
        let first = self.plan.as_ref().map_or(Vec::new(), |p| p.first.clone());
        for First { value, held } in first {
            let found =
                self.valid_picture(value).or_else(|| self.make_picture(value, held, false).ok().flatten());
            if let Some((id, _)) = found {
                self.use_picture(id);
            }
        }
    }

    /// Writes a reference into a picture, if the table or function, which the packer has not met, crosses so.
    pub(super) fn by_picture(&mut self, v: Value, way: Way) -> Packed<bool> {
        let Some(plan) = &mut self.plan else { return Ok(false) };
        let is_class = std::mem::take(&mut plan.is_class);
        if std::mem::take(&mut plan.is_root) {
            return Ok(false);
        }
        let is_strict = v.tag() == Tag::CLOSURE && way.strict;
        if way.hold == 0 || is_strict {
            let Some((id, object)) = self.vm.lua.crossing.parcel.cache.find(v) else {
                return self.is_apart(v);
            };
            if self.is_used(id) {
                if is_strict {
                    self.check_strictly(v.gc())?;
                }
                self.refer_to_picture(id, object);
                return Ok(true);
            }
            self.note_copied(id);
            return self.is_apart(v);
        }
        let mut found = self.valid_picture(v);
        if found.is_none() {
            if self.is_apart(v).is_err() {
                return self.entangled();
            }
            if self.makes_one(v, is_class) {
                match self.make_picture(v, self.held(way.hold), is_class) {
                    Ok(made) => found = made,
                    Err(()) => self.begin_with(v, way)?,
                }
            }
        }
        let Some((id, object)) = found else { return Ok(false) };
        if self.is_used(id) || !self.is_copied(id) {
            self.use_picture(id);
            self.refer_to_picture(id, object);
            return Ok(true);
        }
        self.begin_with(v, way)?;
        self.note_copied(id);
        self.is_apart(v)
    }

    /// In a picture that is being made: nothing around it has a copy of this already.
    fn is_apart(&self, v: Value) -> Packed<bool> {
        if self.around.iter().any(|seen| seen.number(v.payload()).is_some()) {
            return self.entangled();
        }
        Ok(false)
    }

    #[cold]
    fn entangled<T>(&self) -> Packed<T> {
        self.refuse(Reason::Entangled)
    }

    /// Asks to begin once more with the picture of `v`, if that has not been tried.
    fn begin_with(&mut self, value: Value, way: Way) -> Packed {
        let held = self.held(way.hold);
        let Some(plan) = &mut self.plan else { return Ok(()) };
        if plan.level == Level::Parcel {
            if plan.first.iter().any(|f| f.value.same(value)) {
                return Ok(());
            }
            plan.entangled = Some(First { value, held });
        }
        self.entangled()
    }

    fn makes_one(&self, v: Value, is_class: bool) -> bool {
        match self.plan.as_ref().map(|p| p.level) {
            Some(Level::Parcel) => matches!(v.tag(), Tag::TABLE | Tag::CLOSURE),
            Some(Level::Picture) => is_class,
            _ => false,
        }
    }

    fn valid_picture(&mut self, v: Value) -> Option<(u64, u32)> {
        let (id, object) = self.vm.lua.crossing.parcel.cache.find(v)?;
        (self.is_used(id) || self.vm.picture_holds(id)).then_some((id, object))
    }

    /// Whether the table is a member of a picture that holds.
    pub(super) fn has_picture(&mut self, v: Value) -> bool {
        self.plan.is_some() && self.seen.number(v.payload()).is_none() && self.valid_picture(v).is_some()
    }

    fn is_used(&self, id: u64) -> bool {
        self.plan.as_ref().is_some_and(|p| p.used.contains(&id))
    }

    pub(super) fn is_in_used_picture(&self, v: Value) -> bool {
        self.vm.lua.crossing.parcel.cache.find(v).is_some_and(|(id, _)| self.is_used(id))
    }

    /// Whether members of a picture, or of those that it leans on, have been copied.
    fn is_copied(&self, id: u64) -> bool {
        let copied = self.plan.as_ref().map_or(&[][..], |p| &p.copied);
        !copied.is_empty() && self.vm.lua.crossing.parcel.cache.with_all(id).any(|id| copied.contains(&id))
    }

    fn note_copied(&mut self, id: u64) {
        if let Some(plan) = &mut self.plan
            && !plan.copied.contains(&id)
        {
            plan.copied.push(id);
        }
    }

    /// The graph refers to a picture from now on.
    fn use_picture(&mut self, id: u64) {
        if self.is_used(id) {
            return;
        }
        let is_new = !self.makes_picture();
        let all: Vec<u64> = self.vm.lua.crossing.parcel.cache.with_all(id).collect();
        for id in all {
            if !self.is_used(id) {
                let sent = self.vm.send_picture(id, is_new);
                self.refs().pictures.push(sent);
                if let Some(plan) = &mut self.plan {
                    plan.used.push(id);
                }
            }
        }
        self.vm.lua.crossing.parcel.cache.counts[1] += is_new as u64;
    }

    fn refer_to_picture(&mut self, id: u64, object: u32) {
        let n = self.plan.as_ref().and_then(|p| p.used.iter().position(|&u| u == id));
        let n = n.expect("the picture is in use");
        let objects = &mut self.refs().pictures[n].objects;
        if objects.last() != Some(&object) && (objects.len() > 16 || !objects.contains(&object)) {
            objects.push(object);
        }
        self.words.extend_from_slice(&[code::PICTURE as u64 | (n as u64) << 8, object as u64]);
    }

    /// The rules for variables, for a function that is in a picture and is called without anything in
    /// between, too; and for those that it names.
    fn check_strictly(&mut self, c: Gc<LuaClosure>) -> Packed {
        let (mut queue, mut known) = (vec![c], HashSet::from([c.address()]));
        while let Some(c) = queue.pop() {
            let proto = shared_proto(c);
            self.check_closure(0, c, &proto)?;
            for (n, desc) in proto.upvalues.iter().enumerate() {
                // SAFETY: the upvalue is kept by the closure; its value is on a live stack or its own.
                let v = unsafe { *(*c.upvalue(n)).v };
                let mut names = vec![v];
                if let Some(env) = self.captured_environment(desc, v) {
                    names.clear();
                    for field in proto.mentions().fields.iter().filter(|f| f.upvalue == n as u8 && f.reads) {
                        if let Ok(name) = self.vm.intern_bytes(&field.name) {
                            names.push(self.vm.environment_get(env, name));
                        }
                    }
                }
                for v in names {
                    if let Some(c) = v.as_closure()
                        && self.vm.known_path(v).is_none()
                        && known.insert(c.address())
                    {
                        queue.push(c);
                    }
                }
            }
        }
        Ok(())
    }

    // -- Making one -----------------------------------------------------------------------------------------

    /// Makes a picture of what `v` leads to. `None`: there can be none. An error: it would show what there is
    /// around it.
    fn make_picture(&mut self, v: Value, held: Held, is_class: bool) -> Result<Option<(u64, u32)>, ()> {
        let mut shown = self.show(v, held.clone(), is_class)?;
        // Only where all that the parcel refers to is known.
        let may_absorb = !self.makes_picture();
        if let Some(many) = shown.as_ref().filter(|s| may_absorb && s.leans_on.len() > MANY) {
            let used = self.plan.as_ref().map_or(&[][..], |p| &p.used);
            if self.vm.lua.crossing.parcel.cache.absorb(&many.leans_on, |n| used.contains(&n)) {
                shown = self.show(v, held, is_class)?;
            }
        }
        Ok(shown.map(|shown| (self.vm.keep_picture(shown), 0)))
    }

    fn show(&mut self, v: Value, held: Held, is_class: bool) -> Result<Option<Shown>, ()> {
        let plan = Plan::new(if is_class { Level::Class } else { Level::Picture }, Vec::new());
        let mut around = self.around.clone();
        around.push(&self.seen);
        let mut inner = Packer::new(self.vm, self.role, false, Some(Unit::default()), false);
        inner.plan = Some(plan);
        inner.around = around;
        match inner.picture_of(v, held) {
            Ok(shown) => Ok(Some(Shown { is_class, ..shown })),
            Err(reason) => match reason {
                Reason::Entangled => Err(()),
                _ => Ok(None),
            },
        }
    }

    fn picture_of(mut self, v: Value, held: Held) -> Result<Shown, Reason> {
        let hold = self.hold_of(held);
        let packed = self.root_of_picture(v, Way { hold, strict: false }).and_then(|()| self.entries());
        if let Err(refusal) = packed {
            self.give_up();
            return Err(refusal.reason);
        }
        if self.refs.as_ref().is_some_and(|refs| names_globals(refs)) {
            // What `_G` is there depends on the parcel.
            self.give_up();
            return Err(Reason::Travels);
        }
        let own = self.gather_origins();
        let mut members = Vec::new();
        let mut originals = Vec::new();
        for (number, &(address, tag)) in self.seen.objects.iter().enumerate() {
            if matches!(Tag(tag), Tag::TABLE | Tag::CLOSURE) && !self.is_in_part(number as u32) {
                members.push((address, tag, number as u32));
            }
        }
        for number in &own.numbers {
            // A table that is there in part does not come home: nobody has the whole.
            let at = members.binary_search_by_key(number, |m| m.2);
            originals.push(at.map_or(u32::MAX, |at| at as u32));
        }
        let plan = self.plan.take();
        let (mut listed, leans_on, prints) =
            plan.map_or_else(Default::default, |p| (p.listed, p.used, p.prints));
        let (graph, mut modules, unit) = self.finish_graph(1);
        modules.extend(prints);
        listed.extend(unit.into_iter().flat_map(|u| u.taken).map(Listed::Global));
        let Own { held, by, .. } = own;
        Ok(Shown { graph, held, by, members, originals, listed, modules, leans_on, is_class: false })
    }

    /// The first object of the graph, whatever pictures there are.
    fn root_of_picture(&mut self, v: Value, way: Way) -> Packed {
        self.is_apart(v)?;
        if let Some(plan) = &mut self.plan {
            plan.is_root = true;
        }
        self.value(v, way)
    }

    /// Lists what a captured variable holds, if it may hold something else one day.
    pub(super) fn list_variable(&mut self, c: Gc<LuaClosure>, n: usize, kind: VarKind, v: Value) {
        let uv = c.upvalue(n);
        // SAFETY: the upvalue is kept by the closure.
        let crossed = unsafe { (*uv).is_frozen() };
        let may_change = match kind {
            VarKind::Mutable => true,
            VarKind::Late => v.is_nil(),
            VarKind::Unassigned | VarKind::Close | VarKind::Settled => false,
        };
        if may_change && !crossed {
            self.list(Listed::Variable(uv, v));
        }
    }
}

fn names_globals(refs: &Refs) -> bool {
    refs.known.iter().any(|k| k.fields == [None, None] && *refs.modules[k.module as usize].name == *b"_G")
}
