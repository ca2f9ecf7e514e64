//! Elements of shared arrays: `a[i]`, `a[i] = x`.
//!
//! A domain's reference to a shared array says where the elements are, what they are and how many, and says
//! the same as long as it lives (`perilune_vm::shared`). So what a loop finds out about its array once holds
//! for all of it, whatever else happens ([`Fact::Elements`]); what is left for each element is to compare the
//! index and to load or store. What goes another way is done by the interpreter: an index that is none or out
//! of range, a number that the element cannot hold or that has to be converted to an integer, an array that
//! is watched (its length is 0).
//!
//! Loads and stores of machine code of these sizes are atomic where they are aligned, which elements are;
//! nothing more is promised to programs, as in the interpreter.

use super::facts::Fact;
use super::{Known, Lowering, Ty};
use crate::ssa::{Block, IntCC, Type, Value};
use perilune_syntax::Op;
use perilune_vm::Tag;
use perilune_vm::machine::layout;
use perilune_vm::shared::Element;

const ALL: [Element; 5] = [Element::F64, Element::F32, Element::I64, Element::I32, Element::U8];

impl Lowering<'_, '_> {
    /// The type of the elements, if the log has seen instruction `at` at nothing but elements of shared
    /// arrays of one type, and its key is an integer that is known.
    fn element_of(&self, at: usize, object: usize) -> Option<Element> {
        let site = self.site(at);
        let element = ALL.into_iter().find(|&element| site.elements == 1 << element as u8)?;
        let only = site.objects.is_all_of(&[Tag::SHARED]) && self.ty(object) == Ty::Any;
        (only && !self.is_suspect(at)).then_some(element)
    }

    /// `GETINDEX` and `GETINT` of a shared array; false: of something else.
    pub(super) fn get_element(&mut self, at: usize) -> bool {
        let i = self.code(at);
        let (a, b) = (i.a() as usize, i.b() as usize);
        let Some(element) = self.element_of(at, b) else { return false };
        let Some(index) = self.integer_index(i.c(), i.op() == Some(Op::GetInt)) else { return false };
        let slow = self.slow(at);
        let place = self.element_place(b, element, index, slow.block);
        let (ty, val) = match element {
            Element::F64 => (Ty::Float, self.load(Type::F64, place, 0)),
            Element::F32 => {
                let narrow = self.load(Type::I32, place, 0);
                (Ty::Float, self.b.fpromote(narrow))
            }
            Element::I64 => (Ty::Int, self.load(Type::I64, place, 0)),
            Element::I32 => {
                let narrow = self.load(Type::I32, place, 0);
                (Ty::Int, self.b.sextend(Type::I64, narrow))
            }
            Element::U8 => {
                let narrow = self.load(Type::I8, place, 0);
                (Ty::Int, self.b.uextend(Type::I64, narrow))
            }
        };
        self.define(a, Known { ty, val });
        self.join(at, slow, Some((a, ty)));
        true
    }

    /// `SETINDEX` and `SETINT` of a shared array; false: of something else.
    pub(super) fn set_element(&mut self, at: usize) -> bool {
        let i = self.code(at);
        let a = i.a() as usize;
        let Some(element) = self.element_of(at, a) else { return false };
        let Some(index) = self.integer_index(i.b(), i.op() == Some(Op::SetInt)) else { return false };
        let Some(stored) = self.stored(i.c()) else { return false };
        let known =
            stored.known.and_then(|tag| [Ty::Int, Ty::Float].into_iter().find(|ty| ty.tag() == Some(tag)));
        let floats = matches!(element, Element::F64 | Element::F32);
        if stored.known.is_some() && (known.is_none() || (!floats && known == Some(Ty::Float))) {
            return false;
        }
        let slow = self.slow(at);
        let place = self.element_place(a, element, index, slow.block);
        let ty = known.unwrap_or_else(|| {
            // A number of the element's own type, or the interpreter converts it.
            let ty = if floats { Ty::Float } else { Ty::Int };
            let tag = ty.tag().expect("a known type");
            let is = self.icmp_imm(IntCC::Equal, stored.tag, tag.0 as i64);
            self.unless(is, slow.block);
            ty
        });
        let val = stored.payload;
        match element {
            Element::F64 | Element::F32 => {
                // A float from a register of the interpreter is 8 bytes of no type.
                let wide = match (ty, self.b.func.ty(val) == Type::F64) {
                    (Ty::Int, _) => self.b.fcvt_from_sint(val),
                    (_, true) => val,
                    (_, false) => self.b.bitcast(Type::F64, val),
                };
                let val = if element == Element::F32 { self.b.fdemote(wide) } else { wide };
                self.store(val, place, 0);
            }
            Element::I64 => self.store(val, place, 0),
            Element::I32 | Element::U8 => {
                let class = if element == Element::I32 { Type::I32 } else { Type::I8 };
                let narrow = self.b.ireduce(class, val);
                let wide = match element {
                    Element::I32 => self.b.sextend(Type::I64, narrow),
                    _ => self.b.uextend(Type::I64, narrow),
                };
                let same = self.b.icmp(IntCC::Equal, wide, val);
                self.unless(same, slow.block);
                self.store(narrow, place, 0);
            }
        }
        self.join(at, slow, None);
        true
    }

    /// The number of an element from 0, for a key that is an integer for sure.
    fn integer_index(&mut self, r: u16, constant: bool) -> Option<Value> {
        self.index(r, constant).filter(|key| key.ty == Ty::Int).map(|key| key.val)
    }

    /// The address of element `index` of the array in register `r`, else goes to `slow`.
    fn element_place(&mut self, r: usize, element: Element, index: Value, slow: Block) -> Value {
        let [data, length] = self.elements(r, element as u8, slow);
        let within = self.b.icmp(IntCC::UnsignedLessThan, index, length);
        self.unless(within, slow);
        let shift = self.b.iconst(Type::I64, element.size().trailing_zeros() as i64);
        let offset = self.b.ishl(index, shift);
        self.b.iadd(data, offset)
    }

    /// Address and number of the elements of the shared array in register `r`, which are of this type, else
    /// goes to `slow`.
    pub(super) fn elements(&mut self, r: usize, element: u8, slow: Block) -> [Value; 2] {
        let fact = Fact::Elements(self.name_of(r), element);
        if self.has(fact) && !self.captured.contains(r as u8) {
            let values = self.values(fact);
            return [values[0], values[1]];
        }
        let tag = self.tag_of(r);
        let is = self.icmp_imm(IntCC::Equal, tag, Tag::SHARED.0 as i64);
        self.unless(is, slow);
        let array = self.payload_of(r);
        let own = self.load(Type::I8, array, layout::SHARED_ELEMENT);
        let same = self.icmp_imm(IntCC::Equal, own, element as i64);
        self.unless(same, slow);
        let data = self.load(Type::I64, array, layout::SHARED_DATA);
        let length = self.load(Type::I64, array, layout::SHARED_LENGTH);
        if !self.captured.contains(r as u8) {
            self.keep(fact, vec![data, length]);
        }
        [data, length]
    }
}
