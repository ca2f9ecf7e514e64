//! What names mean: local variables and labels, as they come into and go out of scope.
//!
//! Visibility is kept per name, not per scope: a table by name says which variable the name means now, and a
//! variable that comes into scope remembers which one it hides. Looking a name up, declaring it and leaving a
//! scope are then all constant time per name, however many variables are active and however deep functions
//! nest. Labels work the same way, except that those of enclosing functions stay remembered but do not count.

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
}

#[derive(Clone, Copy)]
struct Label {
    function: FuncId,
    line: u32,
}

/// What was in scope where a block began.
#[must_use]
pub struct Mark {
    active: u32,
    labels: u32,
    local_count: u32,
}

impl Scopes {
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
    pub(super) fn enter_block(&mut self) -> Mark {
        Mark {
            active: self.scopes.active.len() as u32,
            labels: self.scopes.labels.len() as u32,
            local_count: self.function().local_count,
        }
    }

    /// Ends the scope of all that was declared since `mark`.
    #[inline(never)]
    pub(super) fn leave_block(&mut self, mark: Mark) {
        let scopes = &mut self.scopes;
        for (name, hidden) in scopes.active.drain(mark.active as usize..).rev() {
            scopes.visible[name.index()] = hidden;
        }
        for (name, hidden) in scopes.labels.drain(mark.labels as usize..).rev() {
            scopes.labelled[name.index()] = hidden;
        }
        self.function().local_count = mark.local_count;
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
        let id = LocalId(self.chunk.locals.len() as u32);
        let function = self.function().id;
        self.chunk.locals.push(Local {
            name,
            attrib: Attrib::Regular,
            function,
            captured: false,
            assigned: false,
            late: false,
            assigned_line: 0,
            line,
            bare: None,
        });
        Ok(id)
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
        let local = &mut self.chunk.locals[id.index()];
        if local.assigned {
            return;
        }
        local.assigned_line = line;
        if local.bare == Some(place) && !local.late {
            local.late = true;
        } else {
            local.late = false;
            local.assigned = true;
        }
    }

    /// Brings declared variables into scope.
    #[inline(never)]
    pub(super) fn activate(&mut self, locals: &[LocalId]) {
        for &local in locals {
            self.scopes.activate(self.chunk.locals[local.index()].name, local);
        }
    }

    /// The variable that `name` means here: a local, or a field of what `_ENV` means here.
    #[inline(never)]
    pub(super) fn variable(&mut self, name: StrId, line: u32) -> ExprId {
        if let Some(local) = self.scopes.find(name) {
            return self.local(local, line);
        }
        let env = self.scopes.find(self.env).unwrap_or(LocalId(0));
        let obj = self.local(env, line);
        let key = self.push(Expr::String(name), line);
        self.push(Expr::Index { obj, key }, line)
    }

    fn local(&mut self, id: LocalId, line: u32) -> ExprId {
        let function = self.function().id;
        let local = &mut self.chunk.locals[id.index()];
        local.captured |= local.function != function;
        self.push(Expr::Local(id), line)
    }

    /// Declares a label that began on `line`; no other of its name may be visible in this function.
    pub(super) fn declare_label(&mut self, name: StrId, line: u32) -> Result<()> {
        let function = self.function().id;
        let label = entry(&mut self.scopes.labelled, name);
        match *label {
            Some(earlier) if earlier.function == function => {
                Err(self.error_about("label '", name, &format!("' already defined on line {}", earlier.line)))
            }
            hidden => {
                *label = Some(Label { function, line });
                self.scopes.labels.push((name, hidden));
                Ok(())
            }
        }
    }
}
