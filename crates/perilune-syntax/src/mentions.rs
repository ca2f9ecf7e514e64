//! Which globals and methods a prototype mentions: what has to travel with a function to another domain.
//!
//! Code names a global as a constant field of an upvalue, `_ENV` (manual 2.2). Which upvalue that is cannot
//! be told from the code alone: any table in an upvalue is accessed by the same instructions, and stripping
//! forgets the name. So uses are recorded by upvalue, and whoever has a closure looks which of its upvalues
//! holds an environment.
//!
//! Functions inside count, as far as their upvalues are the outer function's. What they name through a local
//! variable of the outer function (`local _ENV = ...`) is computed as far as the outer function is concerned,
//! and not found here. The same holds for names that do not fit an instruction's field of constants, after
//! the first few thousand constants of a function.

use crate::bytecode::{Instr, Op};
use crate::proto::{Constant, Proto};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// A constant field of an upvalue that the code reads or assigns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedField {
    /// The upvalue that holds the table.
    pub upvalue: u8,
    /// The field's name.
    pub name: Box<[u8]>,
    /// Whether the code reads it.
    pub reads: bool,
    /// Whether the code assigns it.
    pub assigns: bool,
    /// A line where it does one of these, the assignment if there is one; 0 when stripped.
    pub line: u32,
}

/// What a prototype, with those inside it, says about names.
#[derive(Debug, Default)]
pub struct Mentions {
    /// By upvalue, then by name.
    pub fields: Box<[NamedField]>,
    /// Names of methods that are called, in the order of their bytes.
    pub methods: Box<[Box<[u8]>]>,
}

/// A prototype's [`Mentions`], made at the first use. It is derived from the rest, so two of them are always
/// equal.
#[derive(Debug, Default)]
pub struct LazyMentions(OnceLock<Mentions>);

impl PartialEq for LazyMentions {
    fn eq(&self, _: &LazyMentions) -> bool {
        true
    }
}

impl Proto {
    /// The fields of upvalues and the methods that the code names. The first call looks through the code;
    /// functions nest at most [`MAX_LEVELS`](crate::ast::MAX_LEVELS) deep, and so does it.
    pub fn mentions(&self) -> &Mentions {
        self.mentions.0.get_or_init(|| Collector::default().collect(self))
    }
}

#[derive(Default)]
struct Collector {
    fields: BTreeMap<(u8, Box<[u8]>), NamedField>,
    methods: std::collections::BTreeSet<Box<[u8]>>,
}

impl Collector {
    fn collect(mut self, proto: &Proto) -> Mentions {
        let name = |constant: u16| match proto.constants.get(constant as usize) {
            Some(Constant::String(name)) => name.clone(),
            _ => Box::default(),
        };
        for (pc, &instr) in proto.code.iter().enumerate() {
            let line = proto.line_at(pc).unwrap_or(0);
            match instr.op() {
                Some(Op::GetTabUp) => self.add(instr.b() as u8, name(instr.c()), true, false, line),
                Some(Op::SetTabUp) => self.add(instr.a(), name(instr.b()), false, true, line),
                Some(Op::SelfCall) => {
                    self.methods.insert(name(instr.c()));
                }
                Some(Op::Closure) => self.inner(instr, proto),
                _ => {}
            }
        }
        Mentions { fields: self.fields.into_values().collect(), methods: self.methods.into_iter().collect() }
    }

    fn inner(&mut self, instr: Instr, proto: &Proto) {
        let Some(inner) = proto.protos.get(instr.bx() as usize) else { return };
        let mentions = inner.mentions();
        for field in &mentions.fields {
            match inner.upvalues.get(field.upvalue as usize) {
                Some(up) if !up.in_stack => {
                    self.add(up.index, field.name.clone(), field.reads, field.assigns, field.line);
                }
                _ => {}
            }
        }
        self.methods.extend(mentions.methods.iter().cloned());
    }

    fn add(&mut self, upvalue: u8, name: Box<[u8]>, reads: bool, assigns: bool, line: u32) {
        let field = self.fields.entry((upvalue, name)).or_insert_with_key(|(upvalue, name)| NamedField {
            upvalue: *upvalue,
            name: name.clone(),
            reads: false,
            assigns: false,
            line,
        });
        if assigns && !field.assigns {
            field.line = line;
        }
        field.reads |= reads;
        field.assigns |= assigns;
    }
}
