//! Statements and blocks (manual 3.3). Statements wait on the parser's stack until the block they are in
//! ends; a block under way is known by where it starts there.

use super::Parser;
use crate::ast::*;
use crate::lexer::Result;
use crate::token::{Long, Token, Word};

impl Parser<'_> {
    /// A block that is a scope of its own, up to the token that ends it, its statements left pending. Returns
    /// where they start.
    #[inline(never)]
    pub(super) fn block(&mut self) -> Result<usize> {
        self.enter_block();
        let base = self.stat_list()?;
        self.leave_block();
        Ok(base)
    }

    /// [`Parser::block`] that is run again and again, each time with new variables `vars`.
    #[inline(never)]
    fn loop_body(&mut self, vars: Locals) -> Result<usize> {
        self.function().loops += 1;
        self.scopes.way_back();
        for var in vars.iter() {
            self.chunk.locals[var].since = self.scopes.tick();
        }
        let body = self.block()?;
        self.scopes.no_way_back();
        self.function().loops -= 1;
        Ok(body)
    }

    /// Statements up to the end of the block, left pending; a `return` is the last. Returns where they start.
    #[inline(never)]
    pub(super) fn stat_list(&mut self) -> Result<usize> {
        let base = self.pending.stats.len();
        self.more_statements()?;
        Ok(base)
    }

    #[inline(never)]
    pub(super) fn more_statements(&mut self) -> Result<()> {
        while self.next_statement()? {}
        Ok(())
    }

    /// The next statement of a block; false: that was the last one, or there was none.
    #[inline]
    pub(super) fn next_statement(&mut self) -> Result<bool> {
        if self.at_block_end() {
            return Ok(false);
        }
        let is_return = self.is_word(Word::Return);
        self.enter_level()?;
        self.statement()?;
        self.levels -= 1;
        Ok(!is_return)
    }

    /// Makes a block of the pending statements from the `base`th on.
    pub(super) fn take_block(&mut self, base: usize) -> Block {
        let (first, count) = (self.chunk.stats.len(), self.pending.stats.len() - base);
        self.chunk.stats.extend_from_slice(&self.pending.stats[base..]);
        self.pending.stats.truncate(base);
        Block { first: first as u32, count: count as u32 }
    }

    fn push_stat(&mut self, kind: StatKind, line: u32) {
        self.pending.stats.push(Stat { kind, line });
    }

    /// Pushes the statement that `make` makes of a block. Kept out of line, with statements, which are large,
    /// in its frame.
    #[inline(never)]
    fn push_with_block(&mut self, base: usize, line: u32, make: impl FnOnce(Block) -> StatKind) {
        let body = self.take_block(base);
        self.push_stat(make(body), line);
    }

    /// Pushes the statement that `make` makes of a list of expressions.
    #[inline(never)]
    fn push_with_exprs(&mut self, base: usize, line: u32, make: impl FnOnce(ListId) -> StatKind) {
        let exprs = self.take_exprs(base);
        self.push_stat(make(exprs), line);
    }

    /// One statement, or a run of labels and semicolons.
    fn statement(&mut self) -> Result<()> {
        let line = self.lexer.line();
        match self.token {
            Token::Char(b';') => self.advance(),
            Token::Word(Word::If) => self.if_stat(line),
            Token::Word(Word::While) => self.while_stat(line),
            Token::Word(Word::Do) => self.do_stat(line),
            Token::Word(Word::For) => self.for_stat(line),
            Token::Word(Word::Repeat) => self.repeat_stat(line),
            Token::Word(Word::Function) => self.function_stat(line),
            Token::Word(Word::Local) => self.local_stat(line),
            Token::Long(Long::DoubleColon) => self.labels(),
            Token::Word(Word::Return) => self.return_stat(line),
            Token::Word(Word::Break | Word::Goto) => self.jump_stat(line),
            _ => self.expr_stat(line),
        }
    }

    #[inline(never)]
    fn do_stat(&mut self, line: u32) -> Result<()> {
        self.advance()?;
        let body = self.block()?;
        let end_line = self.close_word(Word::Do, line)?;
        self.push_with_block(body, line, move |body| StatKind::Do { body, end_line });
        Ok(())
    }

    #[inline(never)]
    fn while_stat(&mut self, line: u32) -> Result<()> {
        self.advance()?;
        self.scopes.way_back();
        let cond = self.expr()?;
        self.expect_word(Word::Do)?;
        let body = self.loop_body(Locals::default())?;
        self.scopes.no_way_back();
        let end_line = self.close_word(Word::While, line)?;
        self.push_with_block(body, line, move |body| StatKind::While { cond, body, end_line });
        Ok(())
    }

    #[inline(never)]
    fn repeat_stat(&mut self, line: u32) -> Result<()> {
        self.advance()?;
        self.scopes.way_back();
        self.enter_block();
        self.function().loops += 1;
        let body = self.stat_list()?;
        self.function().loops -= 1;
        let end_line = self.close_word(Word::Repeat, line)?;
        let cond = self.expr()?;
        self.leave_block();
        self.scopes.no_way_back();
        self.push_with_block(body, line, move |body| StatKind::Repeat { body, cond, end_line });
        Ok(())
    }

    #[inline(never)]
    fn if_stat(&mut self, line: u32) -> Result<()> {
        let base = self.pending.arms.len();
        loop {
            self.advance()?;
            let cond = self.expr()?;
            self.expect_word(Word::Then)?;
            let then_line = self.last_line;
            let body = self.block()?;
            self.push_arm(cond, then_line, body);
            if !self.is_word(Word::ElseIf) {
                break;
            }
        }
        let otherwise = if self.accept_word(Word::Else)? { Some(self.block()?) } else { None };
        let end_line = self.close_word(Word::If, line)?;
        self.push_if(base, otherwise, line, end_line);
        Ok(())
    }

    #[inline(never)]
    fn push_arm(&mut self, cond: ExprId, then_line: u32, body: usize) {
        let body = self.take_block(body);
        self.pending.arms.push(Arm { cond, then_line, body });
    }

    #[inline(never)]
    fn push_if(&mut self, base: usize, otherwise: Option<usize>, line: u32, end_line: u32) {
        let otherwise = otherwise.map(|base| self.take_block(base));
        let (first, count) = (self.chunk.arms.len(), self.pending.arms.len() - base);
        self.chunk.arms.extend_from_slice(&self.pending.arms[base..]);
        self.pending.arms.truncate(base);
        let arms = Arms { first: first as u32, count: count as u32 };
        self.push_stat(StatKind::If { arms, otherwise, end_line }, line);
    }

    #[inline(never)]
    fn for_stat(&mut self, line: u32) -> Result<()> {
        self.enter_block();
        self.advance()?;
        let name = self.expect_name()?;
        match self.token {
            Token::Char(b'=') => self.numeric_for(name, line)?,
            Token::Char(b',') | Token::Word(Word::In) => self.generic_for(name, line)?,
            _ => return Err(self.error_near(b"'=' or 'in' expected")),
        }
        self.leave_block();
        Ok(())
    }

    #[inline(never)]
    fn numeric_for(&mut self, name: StrId, line: u32) -> Result<()> {
        let name_line = self.last_line;
        // The initial value, the limit and the step live in variables of their own.
        self.reserve_locals(3)?;
        let var = self.declare(name, name_line)?;
        self.advance()?;
        let start = self.expr()?;
        self.expect_char(b',')?;
        let limit = self.expr()?;
        let step = if self.accept_char(b',')? { Some(self.expr()?) } else { None };
        self.expect_word(Word::Do)?;
        let do_line = self.last_line;
        let vars = Locals::one(var);
        self.activate(vars);
        let body = self.loop_body(vars)?;
        let end_line = self.close_word(Word::For, line)?;
        let body = self.take_block(body);
        let id = NumericForId(self.chunk.numeric_loops.len() as u32);
        self.chunk.numeric_loops.push(NumericFor { var, start, limit, step, do_line, body, end_line });
        self.push_stat(StatKind::NumericFor(id), line);
        Ok(())
    }

    #[inline(never)]
    fn generic_for(&mut self, name: StrId, line: u32) -> Result<()> {
        let vars = self.generic_for_variables(name)?;
        let exprs_line = self.lexer.line();
        let base = self.pending.exprs.len();
        self.expr_list()?;
        self.expect_word(Word::Do)?;
        let do_line = self.last_line;
        self.activate(vars);
        let body = self.loop_body(vars)?;
        let end_line = self.close_word(Word::For, line)?;
        let exprs = self.take_exprs(base);
        let body = self.take_block(body);
        let id = GenericForId(self.chunk.generic_loops.len() as u32);
        self.chunk.generic_loops.push(GenericFor { vars, exprs, do_line, body, end_line });
        self.push_stat(StatKind::GenericFor(id), exprs_line);
        Ok(())
    }

    /// The variables of a generic `for`, the first of which has been read, and its `in`.
    #[inline(never)]
    fn generic_for_variables(&mut self, first: StrId) -> Result<Locals> {
        let first_line = self.last_line;
        // The iterator, the state, the control value and the closing value live in variables of their own.
        self.reserve_locals(4)?;
        let start = self.declare(first, first_line)?;
        while self.accept_char(b',')? {
            let name = self.expect_name()?;
            self.declare(name, self.last_line)?;
        }
        let vars = Locals::between(start, self.next_local());
        self.expect_word(Word::In)?;
        Ok(vars)
    }

    #[inline(never)]
    fn function_stat(&mut self, line: u32) -> Result<()> {
        let (target, is_method) = self.function_name()?;
        let func = self.body(is_method, line)?;
        self.check_target(target)?;
        self.push_made(line, move || StatKind::Function { target, func });
        Ok(())
    }

    /// `function a.b:c`: what is assigned to, and whether it is a method.
    #[inline(never)]
    fn function_name(&mut self) -> Result<(ExprId, bool)> {
        self.advance()?;
        let name = self.expect_name()?;
        let mut target = self.variable(name, self.last_line);
        while self.is_char(b'.') {
            target = self.field_of(target)?;
        }
        let is_method = self.is_char(b':');
        if is_method {
            target = self.field_of(target)?;
        }
        Ok((target, is_method))
    }

    #[inline(never)]
    fn local_stat(&mut self, line: u32) -> Result<()> {
        self.advance()?;
        if self.accept_word(Word::Function)? { self.local_function(line) } else { self.local_variables(line) }
    }

    #[inline(never)]
    fn local_function(&mut self, line: u32) -> Result<()> {
        let name = self.expect_name()?;
        let local = self.declare(name, self.last_line)?;
        self.activate(Locals::one(local));
        let func = self.body(false, self.lexer.line())?;
        self.push_made(line, move || StatKind::LocalFunction { local, func });
        Ok(())
    }

    #[inline(never)]
    fn local_variables(&mut self, line: u32) -> Result<()> {
        let locals = self.local_names()?;
        let base = self.pending.exprs.len();
        if self.accept_char(b'=')? {
            self.expr_list()?;
        } else {
            self.mark_bare(locals);
        }
        self.activate(locals);
        self.push_with_exprs(base, line, move |values| StatKind::Local { locals, values });
        Ok(())
    }

    /// Notes that the locals are declared without values.
    #[inline(never)]
    fn mark_bare(&mut self, locals: Locals) {
        let place = self.place();
        for local in locals.iter() {
            self.chunk.locals[local].bare = Some(place);
        }
    }

    /// The names of a `local` statement with their attributes, not yet in scope.
    #[inline(never)]
    fn local_names(&mut self) -> Result<Locals> {
        let first = self.next_local();
        let mut closes = false;
        loop {
            let name = self.expect_name()?;
            let local = self.declare(name, self.last_line)?;
            let attrib = self.attribute()?;
            if attrib == Attrib::Close {
                if closes {
                    return Err(self.lexer.error(b"multiple to-be-closed variables in local list"));
                }
                closes = true;
            }
            self.chunk.locals[local].attrib = attrib;
            if !self.accept_char(b',')? {
                return Ok(Locals::between(first, self.next_local()));
            }
        }
    }

    /// `<const>`, `<close>` or nothing (manual 3.3.7).
    fn attribute(&mut self) -> Result<Attrib> {
        if !self.accept_char(b'<')? {
            return Ok(Attrib::Regular);
        }
        let name = self.expect_name()?;
        self.expect_char(b'>')?;
        match self.lexer.strings.get(name) {
            b"const" => Ok(Attrib::Const),
            b"close" => Ok(Attrib::Close),
            _ => Err(self.error_about("unknown attribute '", name, "'")),
        }
    }

    /// A run of labels, with the semicolons between and after them. PUC Lua declares a label only when the
    /// void statements after it have been read, so the last of two equal ones counts as the first.
    #[inline(never)]
    fn labels(&mut self) -> Result<()> {
        let first = self.pending.stats.len();
        loop {
            let line = self.lexer.line();
            if self.token == Token::Long(Long::DoubleColon) {
                self.advance()?;
                let name = self.expect_name()?;
                if self.token != Token::Long(Long::DoubleColon) {
                    return Err(self.expected(Token::Long(Long::DoubleColon)));
                }
                self.advance()?;
                self.push_stat(StatKind::Label(name), line);
            } else if !self.accept_char(b';')? {
                break;
            }
        }
        // A condition after `until` still sees the block's locals.
        let last = self.at_block_end() && !self.is_word(Word::Until);
        for i in (first..self.pending.stats.len()).rev() {
            if let Stat { kind: StatKind::Label(name), line } = self.pending.stats[i] {
                self.declare_label(name, line, last)?;
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn jump_stat(&mut self, line: u32) -> Result<()> {
        let is_break = self.is_word(Word::Break);
        self.advance()?;
        if is_break {
            self.note_break(line);
            self.push_stat(StatKind::Break, line);
        } else {
            let name = self.expect_name()?;
            self.note_goto(name, self.last_line);
            self.push_stat(StatKind::Goto(name), self.last_line);
        }
        Ok(())
    }

    #[inline(never)]
    fn return_stat(&mut self, line: u32) -> Result<()> {
        self.advance()?;
        let base = self.pending.exprs.len();
        if !self.at_block_end() && !self.is_char(b';') {
            self.expr_list()?;
        }
        self.accept_char(b';')?;
        self.push_with_exprs(base, line, StatKind::Return);
        Ok(())
    }

    /// A call or an assignment.
    #[inline(never)]
    fn expr_stat(&mut self, line: u32) -> Result<()> {
        let expr = self.suffixed()?;
        if matches!(self.token, Token::Char(b'=' | b',')) {
            return self.assignment(expr, line);
        }
        if !matches!(self.chunk.exprs[expr.index()], Expr::Call { .. } | Expr::MethodCall { .. }) {
            return Err(self.error_near(b"syntax error"));
        }
        self.push_made(line, move || StatKind::Call(expr));
        Ok(())
    }

    #[inline(never)]
    fn assignment(&mut self, first: ExprId, line: u32) -> Result<()> {
        let levels = self.levels;
        let targets = self.pending.exprs.len();
        self.check_target(first)?;
        self.pending.exprs.push(first);
        while self.accept_char(b',')? {
            let target = self.suffixed()?;
            self.enter_level()?;
            self.check_target(target)?;
            self.pending.exprs.push(target);
        }
        self.expect_char(b'=')?;
        let values = self.pending.exprs.len();
        self.expr_list()?;
        self.levels = levels;
        self.push_assignment(targets, values, line);
        Ok(())
    }

    #[inline(never)]
    fn push_assignment(&mut self, targets: usize, values: usize, line: u32) {
        for target in targets..values {
            if let Expr::Local(id) = self.chunk.exprs[self.pending.exprs[target].index()] {
                self.values_come_first(id);
            }
        }
        let values = self.take_exprs(values);
        let targets = self.take_exprs(targets);
        self.push_stat(StatKind::Assign { targets, values }, line);
    }

    /// Pushes the statement that `make` makes.
    #[inline(never)]
    fn push_made(&mut self, line: u32, make: impl FnOnce() -> StatKind) {
        self.push_stat(make(), line);
    }

    /// Checks that an expression may be assigned to, and marks the variable.
    #[inline(never)]
    fn check_target(&mut self, target: ExprId) -> Result<()> {
        match self.chunk.exprs[target.index()] {
            Expr::Global { .. } | Expr::Index { .. } | Expr::Dot { .. } => Ok(()),
            Expr::Local(id) => {
                self.note_assignment(id, self.chunk.lines[target.index()]);
                let local = &self.chunk.locals[id];
                if local.attrib == Attrib::Regular {
                    return Ok(());
                }
                let name = local.name;
                Err(self.error_about("attempt to assign to const variable '", name, "'"))
            }
            _ => Err(self.error_near(b"syntax error")),
        }
    }
}
