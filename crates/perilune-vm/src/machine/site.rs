//! What single instructions have met: the entries of a [`Log`](super::Log).
//!
//! Most instructions of most functions do not run while something is recorded. So a log has four bytes for each
//! of its function's instructions, and a [`Site`] for each that has met something, whose shapes are apart.

use crate::interp::ic::{ADD, EMPTY, Ic, NODE, OWN, PROTO_NODE, PROTO_SLOT, STRINGS};
use crate::native::{Kind, Native};
use crate::value::Tag;

/// Tags that have been seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tags(u32);

impl Tags {
    pub(super) fn add(&mut self, tag: Tag) {
        self.0 |= 1 << tag.0;
    }

    /// Whether it is among them.
    pub fn contains(self, tag: Tag) -> bool {
        self.0 & 1 << tag.0 != 0
    }

    /// Whether it is these that have been seen, all of them and no other.
    pub fn is_all_of(self, tags: &[Tag]) -> bool {
        self.0 == tags.iter().fold(0, |all, tag| all | 1 << tag.0)
    }

    /// Both together.
    pub fn or(self, other: Tags) -> Tags {
        Tags(self.0 | other.0)
    }

    /// The only one; `None`: none or several.
    pub fn only(self) -> Option<Tag> {
        self.0.is_power_of_two().then(|| Tag(self.0.trailing_zeros() as u8))
    }
}

/// A bit of [`Site::arrays`]: what was stored made a value of a hole of an array, or a hole of a value.
pub const FILLS: u8 = 1 << 4;
// Kinds have the bits below.
const _: () = assert!(1 << crate::ArrayKind::ALL.len() <= FILLS);
/// A bit of [`Site::arrays`]: the key was the number of the element after the array's last.
pub const APPENDS: u8 = 1 << 5;
/// A bit of [`Site::arrays`]: the key was no number of an element of the array, nor of the one after the
/// last.
pub const OTHER_KEY: u8 = 1 << 6;
/// A bit of [`Site::arrays`]: the object was no table.
pub const OTHER_OBJECT: u8 = 1 << 7;

/// In [`Site::by_name`]: the table was a dictionary, or an empty one.
pub const OF_DICTIONARY: u8 = 1;
/// The same: it was a record.
pub const OF_RECORD: u8 = 2;

/// So many shapes are told apart at an instruction.
const MOST_SHAPES: usize = 8;
/// And so many that lack the field.
const MOST_LACKING: usize = 4;

/// The shapes that a field's instruction has met, with the slot that the field has in tables of each.
#[derive(Clone, Debug, Default)]
pub struct Shapes(Option<Box<Met>>);

/// See [`Shapes`]: apart, since most instructions access no field.
#[derive(Clone, Copy, Debug, Default)]
struct Met {
    own: [(u32, u32); MOST_SHAPES],
    count: u8,
    lacking: [u32; MOST_LACKING],
    count_lacking: u8,
    /// There were more, or some that lack the field and are not among the lacking ones.
    others: bool,
}

impl Shapes {
    /// Those that have the field, each with its slot.
    pub fn own(&self) -> &[(u32, u32)] {
        self.0.as_ref().map_or(&[], |met| &met.own[..met.count as usize])
    }

    /// Those that lack the field, where tables of them had no metatable: reading it gives nil.
    pub fn lacking(&self) -> &[u32] {
        self.0.as_ref().map_or(&[], |met| &met.lacking[..met.count_lacking as usize])
    }

    /// There were tables of other shapes, too, or dictionaries.
    pub fn others(&self) -> bool {
        self.0.as_ref().is_some_and(|met| met.others)
    }

    /// Something may be learnt from tables of this shape without metatable, whose field is read.
    pub(super) fn has_room_for_lacking(&self, shape: u32) -> bool {
        !self.lacking().contains(&shape) && self.has_room_for(shape)
    }

    /// Tables of this shape, without metatable, lack the field.
    pub(super) fn add_lacking(&mut self, shape: u32) {
        if self.lacking().contains(&shape) {
            return;
        }
        let met = self.0.get_or_insert_default();
        match met.lacking.get_mut(met.count_lacking as usize) {
            Some(place) => {
                *place = shape;
                met.count_lacking += 1;
            }
            None => met.others = true,
        }
    }

    /// Something may be learnt from tables of this shape.
    pub(super) fn has_room_for(&self, shape: u32) -> bool {
        let is_full = self.others() && self.own().len() == MOST_SHAPES;
        !is_full && self.own().iter().all(|(known, _)| *known != shape)
    }

    /// A table of this shape, which may have the field in a slot.
    pub(super) fn add(&mut self, shape: u32, slot: Option<u32>) {
        if self.own().iter().any(|(known, _)| *known == shape) {
            return;
        }
        let met = self.0.get_or_insert_default();
        match slot {
            Some(slot) if (met.count as usize) < MOST_SHAPES => {
                met.own[met.count as usize] = (shape, slot);
                met.count += 1;
            }
            _ => met.others = true,
        }
    }

    /// What was seen later is added: where there is no room for all, the later ones are kept.
    fn add_all(&mut self, later: &Shapes) {
        let Some(later) = &later.0 else { return };
        let earlier = Shapes(self.0.replace(later.clone()));
        if earlier.others() {
            self.0.get_or_insert_default().others = true;
        }
        earlier.own().iter().for_each(|&(shape, slot)| self.add(shape, Some(slot)));
        earlier.lacking().iter().for_each(|&shape| self.add_lacking(shape));
    }
}

/// What one instruction has met.
#[derive(Clone, Debug)]
pub struct Site {
    /// How often it has run to its end within its frame.
    pub runs: u32,
    /// How often it has called a Lua function, whose first instruction came next.
    pub calls: u32,
    /// The last of these, or of those that a tail call has gone on with, as
    /// [`Log::function`](super::Log::function) says.
    pub callee: usize,
    /// It has called others, too.
    pub callees: bool,
    /// A native that it has called, or, TFORCALL, stepped by, and whether there were others.
    pub native: Option<&'static Native>,
    /// See `native`.
    pub natives: bool,
    /// The native has upvalues.
    pub has_upvalues: bool,
    /// How often it has led out of its frame in another way: a return, another coroutine, a native that calls
    /// functions.
    pub leaves: u32,
    /// Tags of the first register that it defines, afterwards.
    pub result: Tags,
    /// A call for all results: it has given another number than one.
    pub gives_others: bool,
    /// SETFIELD: what it has stored was nil at times.
    pub stores_nil: bool,
    /// GETINDEX, GETINT, SETINDEX, SETINT, TFORCALL: kinds of the arrays of tables that it was applied to, by
    /// bit ([`crate::ArrayKind`]); [`APPENDS`], [`OTHER_KEY`]. These, GETFIELD, SETFIELD, SELF:
    /// [`OTHER_OBJECT`].
    pub arrays: u8,
    /// GETINDEX, GETINT, SETINDEX, SETINT of shared arrays (`shared.rs`): the elements of those that the key
    /// was an integer for and is in, by bit ([`crate::shared::Element`]). Bit 0: other shared objects and
    /// other keys.
    pub elements: u8,
    /// The same instructions, GETFIELD, SETFIELD, SELF: tags of what they were applied to. Comparisons of
    /// order: those of the first operand. CALL, TAILCALL: those of what was called.
    pub objects: Tags,
    /// GETINDEX, SETINDEX: tags of keys.
    pub keys: Tags,
    /// GETFIELD, SETFIELD, SELF: the shape of a table that it was applied to, and whether there were tables
    /// of others.
    pub shape: Option<u32>,
    /// See `shape`.
    pub shapes: bool,
    /// GETFIELD, SELF: a metatable of a table that lacked the field: its address, to be compared with others
    /// of the same recording.
    metatable: usize,
    /// The same, and whether they had several: each object one of its own, say, with the same `__index`.
    pub metatables: bool,
    /// Shapes of what `shape` is one of; before a store into a field that a table lacks, it is one that lacks
    /// it.
    pub fields: Shapes,
    /// GETINDEX, SETINDEX, by a string: [`OF_DICTIONARY`], [`OF_RECORD`].
    pub by_name: u8,
    /// GETTABUP, GETFIELD, SELF, SETTABUP, SETFIELD, NEWTABLE, SETSLOT: what its cache has in the end.
    pub cache: Option<Cache>,
}

/// What an inline cache has. Only the first is the same in all domains; the others say what to look for in
/// the domain's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// Tables of this shape have the field in this slot.
    Own {
        /// The shape.
        shape: u32,
        /// The slot.
        slot: u32,
    },
    /// Tables of shape `before` get the field in this slot, and this shape. NEWTABLE, SETSLOT:
    /// [`Cache::Own`], with the number of fields that there is to be room for.
    Add {
        /// The shape before.
        before: u32,
        /// The slot.
        slot: u32,
        /// The shape then.
        shape: u32,
    },
    /// A dictionary has the key in the node that the cache tells.
    Node {
        /// Which one that is here. Tables that have been made alike, such as the globals of all domains, have
        /// their keys in the same places.
        number: u32,
    },
    /// The place that the cache tells, a node or a value, in a table that stands for a class, or, for the
    /// environments that functions of tasks have, among the domain's globals.
    Class {
        /// See above.
        node: bool,
    },
    /// The place that the cache tells, a node or a value, among the methods of strings.
    OfStrings {
        /// See above.
        node: bool,
    },
}

impl Cache {
    pub(super) fn of(ic: &Ic) -> Option<Cache> {
        match ic.kind {
            _ if ic.shape == EMPTY => None,
            kind if ic.shape == STRINGS => Some(Cache::OfStrings { node: kind == PROTO_NODE }),
            OWN => Some(Cache::Own { shape: ic.shape, slot: ic.slot }),
            ADD => Some(Cache::Add { before: ic.shape, slot: ic.slot, shape: ic.aux }),
            NODE => Some(Cache::Node { number: ic.slot }),
            PROTO_SLOT => Some(Cache::Class { node: false }),
            PROTO_NODE => Some(Cache::Class { node: true }),
            _ => None,
        }
    }
}

impl Site {
    /// What an instruction has met that has met nothing.
    const NOTHING: Site = Site {
        runs: 0,
        calls: 0,
        callee: 0,
        callees: false,
        native: None,
        natives: false,
        has_upvalues: false,
        leaves: 0,
        result: Tags(0),
        gives_others: false,
        stores_nil: false,
        arrays: 0,
        elements: 0,
        objects: Tags(0),
        keys: Tags(0),
        shape: None,
        shapes: false,
        metatable: 0,
        metatables: false,
        fields: Shapes(None),
        by_name: 0,
        cache: None,
    };

    /// How often it has been done.
    pub fn times(&self) -> u32 {
        self.runs.saturating_add(self.leaves)
    }

    /// It has called `pcall`, `xpcall`, `coroutine.resume`, `coroutine.yield` or the function of a coroutine.
    pub fn is_special(&self) -> bool {
        self.native.is_some_and(|native| {
            matches!(native.kind, Kind::Pcall | Kind::Xpcall | Kind::Resume | Kind::Yield | Kind::Wrap)
        })
    }

    /// It has suspended the coroutine.
    pub fn yields(&self) -> bool {
        self.native.is_some_and(|native| native.kind == Kind::Yield)
    }

    /// It has called this function.
    pub(super) fn calls_of(&mut self, callee: usize) {
        self.callees |= self.callee != 0 && self.callee != callee;
        self.callee = callee;
    }

    /// A table that lacks the field has a metatable at this address.
    pub(super) fn inherits_by(&mut self, metatable: usize) {
        self.metatables |= self.metatable != 0 && self.metatable != metatable;
        self.metatable = metatable;
    }

    /// It has met nothing: it has not run. (What is noted before the one with which a recording ends is lost by
    /// that.)
    fn is_untouched(&self) -> bool {
        self.runs | self.leaves | self.calls == 0
    }

    /// What was seen later is added; where only one can be had, it is the later.
    pub(super) fn add(&mut self, later: &Site) {
        self.cache = later.cache.or(self.cache);
        if later.is_untouched() {
            return;
        }
        self.runs = self.runs.saturating_add(later.runs);
        self.calls = self.calls.saturating_add(later.calls);
        self.callees |=
            later.callees || (self.callee != 0 && later.callee != 0 && self.callee != later.callee);
        self.callee = if later.callee == 0 { self.callee } else { later.callee };
        self.natives |= later.natives
            || self.native.zip(later.native).is_some_and(|(own, later)| !std::ptr::eq(own, later));
        self.native = later.native.or(self.native);
        self.has_upvalues |= later.has_upvalues;
        self.leaves = self.leaves.saturating_add(later.leaves);
        self.result = self.result.or(later.result);
        self.gives_others |= later.gives_others;
        self.stores_nil |= later.stores_nil;
        self.arrays |= later.arrays;
        self.elements |= later.elements;
        self.objects = self.objects.or(later.objects);
        self.keys = self.keys.or(later.keys);
        self.shapes |= later.shapes || self.shape.zip(later.shape).is_some_and(|(own, later)| own != later);
        self.shape = later.shape.or(self.shape);
        self.metatable = if later.metatable == 0 { self.metatable } else { later.metatable };
        self.metatables |= later.metatables;
        self.fields.add_all(&later.fields);
        self.by_name |= later.by_name;
    }
}

/// What each of a function's instructions has met.
#[derive(Clone, Debug)]
pub(super) struct Sites {
    /// By instruction: one more than where its site is, 0 if it has met nothing; and [`MARK`].
    places: Box<[u32]>,
    met: Vec<Site>,
}

/// A bit of [`Sites::places`].
const MARK: u32 = 1 << 31;

/// What an instruction has met that has met nothing.
static NOTHING: Site = Site::NOTHING;

impl Sites {
    /// Of a function of so many instructions, which have met nothing.
    pub fn new(instructions: usize) -> Sites {
        Sites { places: vec![0; instructions].into_boxed_slice(), met: Vec::new() }
    }

    /// Marks an instruction.
    pub fn mark(&mut self, at: usize) {
        self.places[at] |= MARK;
    }

    /// Whether an instruction is marked.
    #[inline]
    pub fn is_marked(&self, at: usize) -> bool {
        self.places[at] & MARK != 0
    }

    /// What an instruction has met.
    #[inline]
    pub fn get(&self, at: usize) -> &Site {
        self.met.get((self.places[at] & !MARK).wrapping_sub(1) as usize).unwrap_or(&NOTHING)
    }

    /// The site of an instruction that meets something.
    #[inline]
    pub fn touch(&mut self, at: usize) -> &mut Site {
        let place = &mut self.places[at];
        if *place & !MARK == 0 {
            self.met.push(Site::NOTHING);
            *place |= self.met.len() as u32;
        }
        &mut self.met[((*place & !MARK) - 1) as usize]
    }

    /// The instructions that have met something, in order.
    pub fn touched(&self) -> impl Iterator<Item = (usize, &Site)> {
        let is_touched = |place: &u32| *place & !MARK != 0;
        let all = self.places.iter().enumerate().filter(move |(_, place)| is_touched(place));
        all.map(|(at, place)| (at, &self.met[((place & !MARK) - 1) as usize]))
    }

    /// Calls `f` with each instruction that has met something.
    pub fn each_touched(&mut self, mut f: impl FnMut(usize, &mut Site)) {
        for (at, place) in self.places.iter().enumerate() {
            if let Some(site) = self.met.get_mut((place & !MARK).wrapping_sub(1) as usize) {
                f(at, site);
            }
        }
    }

    /// What was seen later of the same function is added.
    pub fn add(&mut self, later: &Sites) {
        for (at, site) in later.touched() {
            self.touch(at).add(site);
        }
    }

    /// Gives back room for sites that there are not.
    pub fn shrink(&mut self) {
        self.met.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_that_lack_a_field_are_told_from_those_that_have_it() {
        let mut shapes = Shapes::default();
        shapes.add(7, Some(2));
        shapes.add_lacking(8);
        shapes.add_lacking(8);
        assert_eq!((shapes.own(), shapes.lacking(), shapes.others()), (&[(7, 2)][..], &[8][..], false));
        assert!(!shapes.has_room_for_lacking(8), "nothing more is to be learnt");
        assert!(shapes.has_room_for(8), "a table of this shape with a metatable is another matter");
        shapes.add(8, None);
        assert!(shapes.others());
    }

    #[test]
    fn more_shapes_that_lack_a_field_than_are_told_apart_are_others() {
        let mut shapes = Shapes::default();
        (0..=MOST_LACKING as u32).for_each(|shape| shapes.add_lacking(shape));
        assert_eq!(shapes.lacking().len(), MOST_LACKING);
        assert!(shapes.others());
        let mut both = Shapes::default();
        both.add_lacking(100);
        shapes.add_all(&both);
        assert_eq!(shapes.lacking(), [100, 0, 1, 2], "the later ones are kept");
    }
}
