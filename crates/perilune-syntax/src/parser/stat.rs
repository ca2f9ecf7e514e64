//! Statements and blocks (manual 3.3).

use super::Parser;
use crate::ast::*;
use crate::lexer::Result;
use crate::token::{Long, Token, Word};

impl Parser<'_> {
    /// A block that is a scope of its own, up to the token that ends it.
    pub(super) fn block(&mut self) -> Result<Block> {
        let mark = self.enter_block();
        let stats = self.stat_list()?;
        self.leave_block(mark);
        Ok(Block { stats })
    }

    /// Statements up to the end of the block; a `return` is the last.
    pub(super) fn stat_list(&mut self) -> Result<Vec<Stat>> {
        let mut stats = Vec::new();
        while !self.at_block_end() {
            let is_return = self.token == Token::Word(Word::Return);
            self.statement(&mut stats)?;
            if is_return {
                break;
            }
        }
        Ok(stats)
    }

    /// One statement, or a run of labels and semicolons.
    fn statement(&mut self, stats: &mut Vec<Stat>) -> Result<()> {
        let line = self.lexer.line();
        self.enter_level()?;
        // Each rule pushes what it makes, so that no statement is held in a recursive function's frame.
        match self.token {
            Token::Char(b';') => self.advance()?,
            Token::Word(Word::If) => self.if_stat(line, stats)?,
            Token::Word(Word::While) => self.while_stat(line, stats)?,
            Token::Word(Word::Do) => self.do_stat(line, stats)?,
            Token::Word(Word::For) => self.for_stat(line, stats)?,
            Token::Word(Word::Repeat) => self.repeat_stat(line, stats)?,
            Token::Word(Word::Function) => self.function_stat(line, stats)?,
            Token::Word(Word::Local) => {
                self.advance()?;
                if self.accept(Token::Word(Word::Function))? {
                    self.local_function(line, stats)?;
                } else {
                    self.local_stat(line, stats)?;
                }
            }
            Token::Long(Long::DoubleColon) => self.labels(stats)?,
            Token::Word(Word::Return) => self.return_stat(line, stats)?,
            Token::Word(Word::Break) => {
                self.advance()?;
                push(stats, StatKind::Break, line);
            }
            Token::Word(Word::Goto) => {
                self.advance()?;
                let name = self.expect_name()?;
                push(stats, StatKind::Goto(name), line);
            }
            _ => self.expr_stat(line, stats)?,
        }
        self.levels -= 1;
        Ok(())
    }

    #[inline(never)]
    fn do_stat(&mut self, line: u32, stats: &mut Vec<Stat>) -> Result<()> {
        self.advance()?;
        let body = self.block()?;
        self.expect_closing(Token::Word(Word::End), Token::Word(Word::Do), line)?;
        push(stats, StatKind::Do(body), line);
        Ok(())
    }

    #[inline(never)]
    fn while_stat(&mut self, line: u32, stats: &mut Vec<Stat>) -> Result<()> {
        self.advance()?;
        let cond = self.expr()?;
        self.expect(Token::Word(Word::Do))?;
        let body = self.block()?;
        let end_line = self.lexer.line();
        self.expect_closing(Token::Word(Word::End), Token::Word(Word::While), line)?;
        push(stats, StatKind::While { cond, body, end_line }, line);
        Ok(())
    }

    #[inline(never)]
    fn repeat_stat(&mut self, line: u32, stats: &mut Vec<Stat>) -> Result<()> {
        self.advance()?;
        let mark = self.enter_block();
        let body = Block { stats: self.stat_list()? };
        let end_line = self.lexer.line();
        self.expect_closing(Token::Word(Word::Until), Token::Word(Word::Repeat), line)?;
        let cond = self.expr()?;
        self.leave_block(mark);
        push(stats, StatKind::Repeat { body, cond, end_line }, line);
        Ok(())
    }

    #[inline(never)]
    fn if_stat(&mut self, line: u32, stats: &mut Vec<Stat>) -> Result<()> {
        let mut arms = Vec::new();
        loop {
            self.advance()?;
            let cond = self.expr()?;
            self.expect(Token::Word(Word::Then))?;
            arms.push((cond, self.block()?));
            if self.token != Token::Word(Word::ElseIf) {
                break;
            }
        }
        let otherwise = if self.accept(Token::Word(Word::Else))? { Some(self.block()?) } else { None };
        let end_line = self.lexer.line();
        self.expect_closing(Token::Word(Word::End), Token::Word(Word::If), line)?;
        push(stats, StatKind::If { arms, otherwise, end_line }, line);
        Ok(())
    }

    #[inline(never)]
    fn for_stat(&mut self, line: u32, stats: &mut Vec<Stat>) -> Result<()> {
        let mark = self.enter_block();
        self.advance()?;
        let name = self.expect_name()?;
        match self.token {
            Token::Char(b'=') => self.numeric_for(name, line, stats)?,
            Token::Char(b',') | Token::Word(Word::In) => self.generic_for(name, line, stats)?,
            _ => return Err(self.error_near(b"'=' or 'in' expected")),
        }
        self.leave_block(mark);
        Ok(())
    }

    #[inline(never)]
    fn numeric_for(&mut self, name: StrId, line: u32, stats: &mut Vec<Stat>) -> Result<()> {
        let name_line = self.last_line;
        // The initial value, the limit and the step live in variables of their own.
        self.reserve_locals(3)?;
        let var = self.declare(name, name_line)?;
        self.advance()?;
        let start = self.expr()?;
        self.expect(Token::Char(b','))?;
        let limit = self.expr()?;
        let step = if self.accept(Token::Char(b','))? { Some(self.expr()?) } else { None };
        self.expect(Token::Word(Word::Do))?;
        self.activate(&[var]);
        let body = self.block()?;
        let end_line = self.lexer.line();
        self.expect_closing(Token::Word(Word::End), Token::Word(Word::For), line)?;
        push(stats, StatKind::NumericFor { var, start, limit, step, body, end_line }, line);
        Ok(())
    }

    #[inline(never)]
    fn generic_for(&mut self, name: StrId, line: u32, stats: &mut Vec<Stat>) -> Result<()> {
        // The iterator, the state, the control value and the closing value live in variables of their own.
        let name_line = self.last_line;
        self.reserve_locals(4)?;
        let mut vars = vec![self.declare(name, name_line)?];
        while self.accept(Token::Char(b','))? {
            let name = self.expect_name()?;
            vars.push(self.declare(name, self.last_line)?);
        }
        self.expect(Token::Word(Word::In))?;
        let exprs_line = self.lexer.line();
        let exprs = self.expr_list()?;
        self.expect(Token::Word(Word::Do))?;
        self.activate(&vars);
        let body = self.block()?;
        let end_line = self.lexer.line();
        self.expect_closing(Token::Word(Word::End), Token::Word(Word::For), line)?;
        push(stats, StatKind::GenericFor { vars, exprs, body, end_line }, exprs_line);
        Ok(())
    }

    #[inline(never)]
    fn function_stat(&mut self, line: u32, stats: &mut Vec<Stat>) -> Result<()> {
        self.advance()?;
        let name = self.expect_name()?;
        let mut target = self.variable(name, self.last_line);
        while self.token == Token::Char(b'.') {
            target = self.field_of(target)?;
        }
        let is_method = self.token == Token::Char(b':');
        if is_method {
            target = self.field_of(target)?;
        }
        let func = self.body(is_method, line)?;
        self.check_target(target)?;
        push(stats, StatKind::Function { target, func }, line);
        Ok(())
    }

    #[inline(never)]
    fn local_function(&mut self, line: u32, stats: &mut Vec<Stat>) -> Result<()> {
        let name = self.expect_name()?;
        let local = self.declare(name, self.last_line)?;
        self.activate(&[local]);
        let func = self.body(false, self.lexer.line())?;
        push(stats, StatKind::LocalFunction { local, func }, line);
        Ok(())
    }

    #[inline(never)]
    fn local_stat(&mut self, line: u32, stats: &mut Vec<Stat>) -> Result<()> {
        let mut locals = Vec::new();
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
            self.chunk.locals[local.index()].attrib = attrib;
            locals.push(local);
            if !self.accept(Token::Char(b','))? {
                break;
            }
        }
        let values = if self.accept(Token::Char(b'='))? { self.expr_list()? } else { Vec::new() };
        self.activate(&locals);
        push(stats, StatKind::Local { locals, values }, line);
        Ok(())
    }

    /// `<const>`, `<close>` or nothing (manual 3.3.7).
    fn attribute(&mut self) -> Result<Attrib> {
        if !self.accept(Token::Char(b'<'))? {
            return Ok(Attrib::Regular);
        }
        let name = self.expect_name()?;
        self.expect(Token::Char(b'>'))?;
        match self.lexer.strings.get(name) {
            b"const" => Ok(Attrib::Const),
            b"close" => Ok(Attrib::Close),
            _ => Err(self.error_about("unknown attribute '", name, "'")),
        }
    }

    /// A run of labels, with the semicolons between and after them. PUC Lua declares a label only when the
    /// void statements after it have been read, so the last of two equal ones counts as the first.
    #[inline(never)]
    fn labels(&mut self, stats: &mut Vec<Stat>) -> Result<()> {
        let first = stats.len();
        loop {
            let line = self.lexer.line();
            if self.accept(Token::Long(Long::DoubleColon))? {
                let name = self.expect_name()?;
                self.expect(Token::Long(Long::DoubleColon))?;
                push(stats, StatKind::Label(name), line);
            } else if !self.accept(Token::Char(b';'))? {
                break;
            }
        }
        for stat in stats[first..].iter().rev() {
            if let StatKind::Label(name) = stat.kind {
                self.declare_label(name, stat.line)?;
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn return_stat(&mut self, line: u32, stats: &mut Vec<Stat>) -> Result<()> {
        self.advance()?;
        let values = if self.at_block_end() || self.token == Token::Char(b';') {
            Vec::new()
        } else {
            self.expr_list()?
        };
        self.accept(Token::Char(b';'))?;
        push(stats, StatKind::Return(values), line);
        Ok(())
    }

    /// A call or an assignment.
    #[inline(never)]
    fn expr_stat(&mut self, line: u32, stats: &mut Vec<Stat>) -> Result<()> {
        let expr = self.suffixed()?;
        if matches!(self.token, Token::Char(b'=' | b',')) {
            return self.assignment(expr, line, stats);
        }
        if !matches!(self.chunk.exprs[expr.index()], Expr::Call { .. } | Expr::MethodCall { .. }) {
            return Err(self.error_near(b"syntax error"));
        }
        push(stats, StatKind::Call(expr), line);
        Ok(())
    }

    #[inline(never)]
    fn assignment(&mut self, first: ExprId, line: u32, stats: &mut Vec<Stat>) -> Result<()> {
        self.check_target(first)?;
        let mut targets = vec![first];
        let levels = self.levels;
        while self.accept(Token::Char(b','))? {
            let target = self.suffixed()?;
            self.enter_level()?;
            self.check_target(target)?;
            targets.push(target);
        }
        self.expect(Token::Char(b'='))?;
        let values = self.expr_list()?;
        self.levels = levels;
        push(stats, StatKind::Assign { targets, values }, line);
        Ok(())
    }

    /// Checks that an expression may be assigned to, and marks the variable.
    fn check_target(&mut self, target: ExprId) -> Result<()> {
        match self.chunk.exprs[target.index()] {
            Expr::Index { .. } => Ok(()),
            Expr::Local(id) => {
                let local = &mut self.chunk.locals[id.index()];
                local.assigned = true;
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

fn push(stats: &mut Vec<Stat>, kind: StatKind, line: u32) {
    stats.push(Stat { kind, line });
}
