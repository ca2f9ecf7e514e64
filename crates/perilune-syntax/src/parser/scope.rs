//! What names mean: local variables and labels, as they come into and go out of scope.
//!
//! Visibility is kept per name, not per scope: a table by name says which variable the name means now, and a
//! variable that comes into scope remembers which one it hides. Looking a name up, declaring it and leaving a
//! scope are then all constant time per name, however many variables are active and however deep functions
//! nest. Labels work the same way, except that those of enclosing functions stay remembered but do not count.
//!
//! Jumps are checked here too, so that the first mistake of a text is the one reported. A `goto` without a
//! visible label waits in a list until its label comes, and so does a `break` outside loops, for ever: what
//! still waits at the end of a function is reported there. A waiting jump knows how many locals were in scope
//! where it stands, of those of the block that the list has reached; a label that has more would be entered
//! from outside the scope of a local.

use super::workspace::empty;
use super::{MAX_LOCALS, Parser};
use crate::ast::*;
use crate::lexer::Result;

/// Local variables and labels in scope.
#[derive(Default)]
pub struct Scopes {
    /// By [`StrId`]: the innermost active local of that name. May be shorter than there are names.
    visible: Vec<Option<LocalId>>,
    /// Active locals in order of activation, each with the one it hides.
    active: Vec<(StrId, Option<LocalId>)>,
    /// By [`StrId`]: the label of that name declared last in the blocks around the current point.
    labelled: Vec<Option<Label>>,
    /// Labels of those blocks in order of declaration, each with the one it hides.
    labels: Vec<(StrId, Option<Label>)>,
    /// Jumps of the open functions that have found no target yet, in the order of the text.
    jumps: Vec<Jump>,
    /// The blocks around the current point, innermost last.
    blocks: Vec<Block>,
    /// Loops around the current point and labels visible there, by when they began: where control may come
    /// back to.
    ways_back: Vec<Moment>,
    /// Counts what decides about assignments.
    clock: Moment,
}

/// A jump without a target.
struct Jump {
    /// The label it goes to; `None`: a `break` outside loops.
    label: Option<StrId>,
    line: u32,
    /// Local variables in scope there, except for those of blocks that have ended since.
    active: u32,
}

#[derive(Clone, Copy)]
struct Label {
    function: FuncId,
    line: u32,
}

/// What was in scope where a block began.
struct Block {
    active: u32,
    labels: u32,
    jumps: u32,
    local_count: u32,
    ways_back: u32,
}

impl Scopes {
    /// The chunk is done; what is kept is some memory.
    pub fn empty(&mut self) {
        empty(&mut self.visible);
        empty(&mut self.active);
        empty(&mut self.labelled);
        empty(&mut self.labels);
        empty(&mut self.jumps);
        empty(&mut self.blocks);
        empty(&mut self.ways_back);
        self.clock = 0;
    }

    /// Bytes of lists that it keeps.
    #[cfg(test)]
    pub fn heap_bytes(&self) -> usize {
        use super::workspace::bytes;
        let locals = bytes(&self.visible) + bytes(&self.active);
        let labels = bytes(&self.labelled) + bytes(&self.labels) + bytes(&self.jumps);
        locals + labels + bytes(&self.blocks) + bytes(&self.ways_back)
    }

    /// Another place in the text.
    pub fn tick(&mut self) -> Moment {
        self.clock = self.clock.saturating_add(1);
        self.clock
    }

    /// Control may come back to here, until [`Scopes::no_way_back`] or the end of the block.
    pub fn way_back(&mut self) {
        let now = self.tick();
        self.ways_back.push(now);
    }

    /// The loop begun last is over.
    pub fn no_way_back(&mut self) {
        self.ways_back.pop();
    }

    /// Where control may come back to from here.
    pub fn ways_back(&self) -> Box<[Moment]> {
        self.ways_back.as_slice().into()
    }

    /// Whether jumps wait for a target.
    pub fn has_jumps(&self) -> bool {
        !self.jumps.is_empty()
    }

    /// Lets `name` mean `local` from here to the end of the block.
    pub fn activate(&mut self, name: StrId, local: LocalId) {
        let hidden = entry(&mut self.visible, name).replace(local);
        self.active.push((name, hidden));
    }

    fn find(&self, name: StrId) -> Option<LocalId> {
        *self.visible.get(name.index())?
    }
}

/// The table's entry for a name.
fn entry<T: Copy>(table: &mut Vec<Option<T>>, name: StrId) -> &mut Option<T> {
    if name.index() >= table.len() {
        table.resize(name.index() + 1, None);
    }
    &mut table[name.index()]
}

impl Parser<'_> {
    #[inline(never)]
    pub(super) fn enter_block(&mut self) {
        let block = Block {
            active: self.scopes.active.len() as u32,
            labels: self.scopes.labels.len() as u32,
            jumps: self.scopes.jumps.len() as u32,
            local_count: self.function().local_count,
            ways_back: self.scopes.ways_back.len() as u32,
        };
        self.scopes.blocks.push(block);
    }

    /// Ends the innermost block and the scope of all that was declared in it.
    #[inline(never)]
    pub(super) fn leave_block(&mut self) {
        let scopes = &mut self.scopes;
        let block = scopes.blocks.pop().expect("a block is open");
        for (name, hidden) in scopes.active.drain(block.active as usize..).rev() {
            scopes.visible[name.index()] = hidden;
        }
        for (name, hidden) in scopes.labels.drain(block.labels as usize..).rev() {
            scopes.labelled[name.index()] = hidden;
        }
        scopes.ways_back.truncate(block.ways_back as usize);
        for jump in &mut scopes.jumps[block.jumps as usize..] {
            jump.active = jump.active.min(block.active);
        }
        self.function().local_count = block.local_count;
    }

    /// Takes room for `count` local variables that no name refers to.
    #[inline(never)]
    pub(super) fn reserve_locals(&mut self, count: u32) -> Result<()> {
        let function = self.function();
        function.local_count += count;
        if function.local_count <= MAX_LOCALS {
            return Ok(());
        }
        let place = match function.line {
            0 => "main function".to_owned(),
            line => format!("function at line {line}"),
        };
        let message = format!("too many local variables (limit is {MAX_LOCALS}) in {place}");
        Err(self.error_near(message.as_bytes()))
    }

    /// Declares a local variable; [`Scopes::activate`] brings it into scope.
    #[inline(never)]
    pub(super) fn declare(&mut self, name: StrId, line: u32) -> Result<LocalId> {
        self.reserve_locals(1)?;
        let (id, passing) = (self.next_local(), self.locals_pass());
        let function = self.function().id;
        let since = self.scopes.tick();
        self.chunk.locals.push(
            passing,
            Local {
                name,
                attrib: Attrib::Regular,
                function,
                captured: false,
                assigned: false,
                late: false,
                line,
                bare: None,
                since,
                last_assigned: (0, 0),
                assigned_inside: 0,
            },
        );
        Ok(id)
    }

    /// Whether the variables of the current function can be forgotten before the chunk ends.
    fn locals_pass(&self) -> bool {
        self.generator.is_some() && self.open.len() > 1
    }

    /// The id that the next variable of the current function will have.
    pub(super) fn next_local(&self) -> LocalId {
        self.chunk.locals.next(self.locals_pass())
    }

    /// Where an assignment here would stand.
    pub(super) fn place(&self) -> Place {
        let open = self.open.last().expect("a function is open while parsing");
        Place { function: open.id, loops: open.loops, labels: self.scopes.labels.len() as u32 }
    }

    /// Something assigns to a local here, on `line`.
    #[inline(never)]
    pub(super) fn note_assignment(&mut self, id: LocalId, line: u32) {
        let place = self.place();
        let now = self.scopes.tick();
        let local = &mut self.chunk.locals[id];
        if local.function == place.function {
            local.last_assigned = (now, line);
        } else if local.assigned_inside == 0 {
            local.assigned_inside = line;
        }
        if local.assigned {
            return;
        }
        if local.bare == Some(place) && !local.late {
            local.late = true;
        } else {
            local.late = false;
            local.assigned = true;
        }
    }

    /// The values of an assignment to a local have been read: it happens after whatever stands in them.
    pub(super) fn values_come_first(&mut self, id: LocalId) {
        let (function, now) = (self.function().id, self.scopes.tick());
        let local = &mut self.chunk.locals[id];
        if local.function == function {
            local.last_assigned.0 = now;
        }
    }

    /// Brings declared variables into scope.
    #[inline(never)]
    pub(super) fn activate(&mut self, locals: Locals) {
        for local in locals.iter() {
            self.scopes.activate(self.chunk.locals[local].name, local);
        }
    }

    /// The variable that `name` means here: a local, or a field of what `_ENV` means here.
    #[inline(never)]
    pub(super) fn variable(&mut self, name: StrId, line: u32) -> ExprId {
        if let Some(local) = self.scopes.find(name) {
            return self.local(local, line);
        }
        let env = self.scopes.find(self.env).unwrap_or(LocalId(0));
        self.note_use(env);
        self.push(Expr::Global { env, name }, line)
    }

    fn local(&mut self, id: LocalId, line: u32) -> ExprId {
        self.note_use(id);
        self.push(Expr::Local(id), line)
    }

    /// The current function refers to a local.
    fn note_use(&mut self, id: LocalId) {
        let function = self.function().id;
        let local = &mut self.chunk.locals[id];
        local.captured |= local.function != function;
    }

    /// Notes a `break` on `line`.
    pub(super) fn note_break(&mut self, line: u32) {
        if self.function().loops == 0 {
            self.wait_for_target(None, line);
        }
    }

    /// Notes a `goto` on `line`.
    pub(super) fn note_goto(&mut self, name: StrId, line: u32) {
        let function = self.function().id;
        let label = self.scopes.labelled.get(name.index()).copied().flatten();
        if label.is_none_or(|label| label.function != function) {
            self.wait_for_target(Some(name), line);
        }
    }

    fn wait_for_target(&mut self, label: Option<StrId>, line: u32) {
        let active = self.scopes.active.len() as u32;
        self.scopes.jumps.push(Jump { label, line, active });
    }

    /// The end of the function whose outermost block is the innermost one open: no jump may be without a
    /// target.
    #[inline(never)]
    pub(super) fn check_jumps(&self) -> Result<()> {
        let first = self.scopes.blocks.last().map_or(0, |block| block.jumps);
        match self.scopes.jumps.get(first as usize) {
            None => Ok(()),
            Some(&Jump { label: None, line, .. }) => {
                Err(self.lexer.error(format!("break outside loop at line {line}").as_bytes()))
            }
            Some(&Jump { label: Some(name), line, .. }) => {
                Err(self.error_about("no visible label '", name, &format!("' for <goto> at line {line}")))
            }
        }
    }

    /// Ends the wait of the current block's jumps to the label `name`, at which `active` locals are in scope.
    fn find_target(&mut self, name: StrId, first: u32, active: u32) -> Result<()> {
        let first = first as usize;
        let comes = |jump: &Jump| jump.label == Some(name);
        if let Some(jump) = self.scopes.jumps[first..].iter().find(|j| comes(j) && j.active < active) {
            let (entered, _) = self.scopes.active[jump.active as usize];
            let entered = String::from_utf8_lossy(self.lexer.strings.get(entered)).into_owned();
            let after = format!("> at line {} jumps into the scope of local '{entered}'", jump.line);
            return Err(self.error_about("<goto ", name, &after));
        }
        self.scopes.jumps.extract_if(first.., |jump| comes(jump)).for_each(drop);
        Ok(())
    }

    /// Declares a label that began on `line`; no other of its name may be visible in this function. `last`:
    /// only void statements follow in its block, which ends the scope of its locals, so that the label stands
    /// outside of it.
    pub(super) fn declare_label(&mut self, name: StrId, line: u32, last: bool) -> Result<()> {
        self.declare_unique_label(name, line)?;
        let block = self.scopes.blocks.last().expect("a block is open");
        let (jumps, outside) = (block.jumps, block.active);
        let active = if last { outside } else { self.scopes.active.len() as u32 };
        self.find_target(name, jumps, active)
    }

    fn declare_unique_label(&mut self, name: StrId, line: u32) -> Result<()> {
        let function = self.function().id;
        let label = entry(&mut self.scopes.labelled, name);
        match *label {
            Some(earlier) if earlier.function == function => {
                Err(self.error_about("label '", name, &format!("' already defined on line {}", earlier.line)))
            }
            hidden => {
                *label = Some(Label { function, line });
                self.scopes.labels.push((name, hidden));
                self.scopes.way_back();
                Ok(())
            }
        }
    }
}
