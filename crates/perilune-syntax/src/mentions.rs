//! Which globals and methods a prototype mentions, which captured variables and tables it changes, and how it
//! uses the rest: what has to travel with a function to another domain, and what refuses to.
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
//!
//! # Uses
//! A value that is read from an upvalue or from a field of one is *used whole* unless the very next
//! instruction replaces it by a constant field of it. That is exact for any code: nothing else can see the
//! register in between.
//!
//! # Stores
//! A register that has got a value from an upvalue is followed through the text until something else is
//! written there, and what is stored through it meanwhile is a store into that value, unless the register is
//! a local variable of the program, which is another name for it. That is exact for what our compiler makes,
//! where a temporary is written where its use begins. In other code a store may be missed or imagined: what
//! it is used for is to refuse a mistake early, which would be an error later.

use crate::bytecode::{FRAME_SLOTS, Instr, Op};
use crate::proto::{Constant, Proto};
use std::collections::{BTreeMap, BTreeSet};
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
    /// Whether what is read is used other than for constant fields of it.
    pub whole: bool,
    /// The constant fields of it that are read.
    pub inner: BTreeSet<Box<[u8]>>,
}

/// A value as code comes by it: an upvalue, a constant field of that, and so on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The upvalue.
    pub upvalue: u8,
    /// The fields.
    pub fields: Vec<Box<[u8]>>,
}

/// A call that may change an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct By {
    /// What is called. If it has a name, that is one of the library's functions that change tables.
    pub function: Path,
    /// Which argument is meant, from 1.
    pub argument: u8,
    /// How many there are; `None`: that is known at run time only.
    pub count: Option<u8>,
}

/// Something that code stores into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// What is stored into.
    pub target: Path,
    /// If that is done by calling a function with it (`table.insert`): which, and how.
    pub by: Option<By>,
    /// Where; 0 when stripped.
    pub line: u32,
}

/// What a prototype, with those inside it, says about names.
#[derive(Debug, Default)]
pub struct Mentions {
    /// By upvalue, then by name.
    pub fields: Box<[NamedField]>,
    /// Names of methods that are called, in the order of their bytes.
    pub methods: Box<[Box<[u8]>]>,
    /// Upvalues that are used other than for constant fields, in ascending order.
    pub whole: Box<[u8]>,
    /// Upvalues that are assigned, in ascending order, with a line each; 0 when stripped.
    pub assigned: Box<[(u8, u32)]>,
    /// Stores into what is found in upvalues, those of functions inside included, in the order of the text.
    pub stores: Box<[Store]>,
}

impl Mentions {
    /// The line where the upvalue is assigned, if it is.
    pub fn assigns(&self, upvalue: u8) -> Option<u32> {
        self.assigned.iter().find(|a| a.0 == upvalue).map(|a| a.1)
    }
}

/// A prototype's [`Mentions`], made at the first use. It is derived from the rest, so two of them are always
/// equal.
#[derive(Debug, Default)]
pub struct LazyMentions(OnceLock<Box<Mentions>>);

impl PartialEq for LazyMentions {
    fn eq(&self, _: &LazyMentions) -> bool {
        true
    }
}

impl Proto {
    /// The fields of upvalues and the methods that the code names. The first call looks through the code;
    /// functions nest at most [`MAX_LEVELS`](crate::ast::MAX_LEVELS) deep, and so does it.
    pub fn mentions(&self) -> &Mentions {
        self.mentions.0.get_or_init(|| Box::new(Collector::default().collect(self)))
    }
}

/// Whether the library's function of this name changes that argument (from 1) when it is called with so many;
/// `None`: with some number of them.
pub fn changes_argument(function: &[u8], argument: u8, count: Option<u8>) -> bool {
    match function {
        b"insert" | b"remove" | b"sort" | b"rawset" | b"setmetatable" => argument == 1,
        b"move" => argument == if count == Some(4) { 1 } else { 5 },
        _ => false,
    }
}

/// Stores of one function that are kept, those of functions inside included.
const MAX_STORES: usize = 4096;

#[derive(Default)]
struct Collector {
    fields: BTreeMap<(u8, Box<[u8]>), NamedField>,
    methods: BTreeSet<Box<[u8]>>,
    whole: BTreeSet<u8>,
    assigned: BTreeMap<u8, u32>,
    stores: Vec<Store>,
    /// Registers with what they have got from upvalues.
    held: Vec<(u8, Path)>,
}

impl Collector {
    fn collect(mut self, proto: &Proto) -> Mentions {
        let name = |constant: u16| match proto.constants.get(constant as usize) {
            Some(Constant::String(name)) => name[..].into(),
            _ => Box::default(),
        };
        for (pc, &instr) in proto.code.iter().enumerate() {
            let line = proto.line_at(pc).unwrap_or(0);
            let mut got = None;
            match instr.op() {
                Some(Op::GetUpval) => {
                    let upvalue = instr.b() as u8;
                    match next_field(proto, pc, instr.a()) {
                        Some(field) => self.add(upvalue, name(field), Use::READ, line),
                        None => _ = self.whole.insert(upvalue),
                    }
                    got = Some(Path { upvalue, fields: Vec::new() });
                }
                Some(Op::GetTabUp) => {
                    let (upvalue, field) = (instr.b() as u8, name(instr.c()));
                    let inner = next_field(proto, pc, instr.a()).map(name);
                    self.add(
                        upvalue,
                        field.clone(),
                        Use { reads: true, whole: inner.is_none(), ..Use::READ },
                        line,
                    );
                    if let (Some(inner), Some(outer)) =
                        (inner, self.fields.get_mut(&(upvalue, field.clone())))
                    {
                        outer.inner.insert(inner);
                    }
                    got = Some(Path { upvalue, fields: vec![field] });
                }
                Some(Op::GetField) => {
                    got = self.held(instr.b() as u8).cloned().map(|mut path| {
                        path.fields.push(name(instr.c()));
                        path
                    });
                }
                Some(Op::SetTabUp) => {
                    self.add(instr.a(), name(instr.b()), Use { assigns: true, ..Use::default() }, line);
                    let target = Path { upvalue: instr.a(), fields: Vec::new() };
                    self.store(Store { target, by: None, line });
                }
                Some(Op::SetField | Op::SetIndex | Op::SetInt) => {
                    if let Some(target) = self.held(instr.a()).cloned()
                        && !is_variable(proto, pc, instr.a())
                    {
                        self.store(Store { target, by: None, line });
                    }
                }
                Some(Op::Call | Op::TailCall) => self.call(instr, line),
                Some(Op::SetUpval) => _ = self.assigned.entry(instr.b() as u8).or_insert(line),
                Some(Op::SelfCall) => {
                    self.methods.insert(name(instr.c()));
                }
                Some(Op::Closure) => self.inner(instr, proto),
                _ => {}
            }
            self.held.retain(|(register, _)| !instr.changes(*register));
            if let Some(path) = got {
                self.held.push((instr.a(), path));
            }
        }
        Mentions {
            fields: self.fields.into_values().collect(),
            methods: self.methods.into_iter().collect(),
            whole: self.whole.into_iter().collect(),
            assigned: self.assigned.into_iter().collect(),
            stores: self.stores.into(),
        }
    }

    fn held(&self, register: u8) -> Option<&Path> {
        self.held.iter().find(|h| h.0 == register).map(|h| &h.1)
    }

    fn store(&mut self, store: Store) {
        if self.stores.len() < MAX_STORES && !self.stores.contains(&store) {
            self.stores.push(store);
        }
    }

    /// A call that may be of a function that changes one of its arguments.
    fn call(&mut self, instr: Instr, line: u32) {
        let Some(by) = self.held(instr.a()).cloned() else { return };
        let count = instr.b().checked_sub(1).map(|n| n as u8);
        for argument in [1, 5] {
            let fits = by.fields.last().is_none_or(|name| changes_argument(name, argument, count));
            let register = instr.a() as usize + FRAME_SLOTS as usize + argument as usize;
            if fits
                && count.is_none_or(|n| n >= argument)
                && let Some(target) = u8::try_from(register).ok().and_then(|r| self.held(r)).cloned()
            {
                let by = By { function: by.clone(), argument, count };
                self.store(Store { target, by: Some(by), line });
            }
        }
    }

    fn inner(&mut self, instr: Instr, proto: &Proto) {
        let Some(inner) = proto.protos.get(instr.bx() as usize) else { return };
        let mentions = inner.mentions();
        let outside =
            |upvalue: u8| inner.upvalues.get(upvalue as usize).filter(|up| !up.in_stack).map(|up| up.index);
        for field in &mentions.fields {
            if let Some(upvalue) = outside(field.upvalue) {
                let of = Use { reads: field.reads, assigns: field.assigns, whole: field.whole };
                self.add(upvalue, field.name.clone(), of, field.line);
                if let Some(here) = self.fields.get_mut(&(upvalue, field.name.clone())) {
                    here.inner.extend(field.inner.iter().cloned());
                }
            }
        }
        self.whole.extend(mentions.whole.iter().filter_map(|&upvalue| outside(upvalue)));
        for &(upvalue, line) in &mentions.assigned {
            if let Some(upvalue) = outside(upvalue) {
                self.assigned.entry(upvalue).or_insert(line);
            }
        }
        let moved = |path: &Path| Some(Path { upvalue: outside(path.upvalue)?, fields: path.fields.clone() });
        for store in &mentions.stores {
            let by = match &store.by {
                None => Some(None),
                Some(by) => moved(&by.function).map(|function| Some(By { function, ..by.clone() })),
            };
            if let (Some(target), Some(by)) = (moved(&store.target), by) {
                self.store(Store { target, by, line: store.line });
            }
        }
        self.methods.extend(mentions.methods.iter().cloned());
    }

    fn add(&mut self, upvalue: u8, name: Box<[u8]>, of: Use, line: u32) {
        let field = self.fields.entry((upvalue, name)).or_insert_with_key(|(upvalue, name)| NamedField {
            upvalue: *upvalue,
            name: name.clone(),
            reads: false,
            assigns: false,
            line,
            whole: false,
            inner: BTreeSet::new(),
        });
        if of.assigns && !field.assigns {
            field.line = line;
        }
        field.reads |= of.reads;
        field.assigns |= of.assigns;
        field.whole |= of.whole;
    }
}

/// How a field is used.
#[derive(Clone, Copy, Default)]
struct Use {
    reads: bool,
    assigns: bool,
    whole: bool,
}

impl Use {
    /// It is read, and may be used for anything.
    const READ: Use = Use { reads: true, assigns: false, whole: true };
}

/// The constant field by which the instruction after `pc` replaces what is in `register`.
fn next_field(proto: &Proto, pc: usize, register: u8) -> Option<u16> {
    let next = proto.code.get(pc + 1).filter(|next| next.op() == Some(Op::GetField))?;
    (next.b() as u8 == register && next.a() == register).then(|| next.c())
}

/// Whether a register is a local variable of the program there.
fn is_variable(proto: &Proto, pc: usize, register: u8) -> bool {
    let at = pc as u32;
    proto.locals.iter().any(|l| l.register == register && l.start_pc <= at && at < l.end_pc)
}
