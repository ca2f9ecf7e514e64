//! Expressions (manual 3.4): operators by precedence, suffixes in a loop, constructors, function bodies.

use super::{OpenFunction, Parser};
use crate::ast::*;
use crate::lexer::Result;
use crate::token::{Long, Token, Word};

/// How strongly a unary operator binds its operand; only `^` binds more strongly (manual 3.4.8).
const UNARY_STRENGTH: u8 = 12;

pub(super) enum Infix {
    Plain(BinOp),
    And,
    Or,
}

/// The binary operator that a token is, with how strongly it binds to its left and to its right. It is right
/// associative where the left is the stronger.
pub(super) fn infix(token: Token) -> Option<(Infix, u8, u8)> {
    use Infix::Plain;
    Some(match token {
        Token::Char(b'+') => (Plain(BinOp::Add), 10, 10),
        Token::Char(b'-') => (Plain(BinOp::Sub), 10, 10),
        Token::Char(b'*') => (Plain(BinOp::Mul), 11, 11),
        Token::Char(b'/') => (Plain(BinOp::Div), 11, 11),
        Token::Char(b'%') => (Plain(BinOp::Mod), 11, 11),
        Token::Char(b'^') => (Plain(BinOp::Pow), 14, 13),
        Token::Char(b'&') => (Plain(BinOp::BAnd), 6, 6),
        Token::Char(b'~') => (Plain(BinOp::BXor), 5, 5),
        Token::Char(b'|') => (Plain(BinOp::BOr), 4, 4),
        Token::Char(b'<') => (Plain(BinOp::Lt), 3, 3),
        Token::Char(b'>') => (Plain(BinOp::Gt), 3, 3),
        Token::Long(long) => match long {
            Long::IDiv => (Plain(BinOp::IDiv), 11, 11),
            Long::Concat => (Plain(BinOp::Concat), 9, 8),
            Long::Shl => (Plain(BinOp::Shl), 7, 7),
            Long::Shr => (Plain(BinOp::Shr), 7, 7),
            Long::Eq => (Plain(BinOp::Eq), 3, 3),
            Long::Ne => (Plain(BinOp::Ne), 3, 3),
            Long::Le => (Plain(BinOp::Le), 3, 3),
            Long::Ge => (Plain(BinOp::Ge), 3, 3),
            Long::Dots | Long::DoubleColon => return None,
        },
        Token::Word(Word::And) => (Infix::And, 2, 2),
        Token::Word(Word::Or) => (Infix::Or, 1, 1),
        _ => return None,
    })
}

fn prefix(token: Token) -> Option<UnOp> {
    Some(match token {
        Token::Word(Word::Not) => UnOp::Not,
        Token::Char(b'-') => UnOp::Neg,
        Token::Char(b'~') => UnOp::BNot,
        Token::Char(b'#') => UnOp::Len,
        _ => return None,
    })
}

impl Parser<'_> {
    pub(super) fn expr(&mut self) -> Result<ExprId> {
        self.operand(0)
    }

    /// One or more expressions, separated by commas, left pending.
    #[inline(never)]
    pub(super) fn expr_list(&mut self) -> Result<()> {
        loop {
            let expr = self.expr()?;
            self.pending.exprs.push(expr);
            if !self.accept_char(b',')? {
                return Ok(());
            }
        }
    }

    /// Makes a list of the pending expressions from the `base`th on.
    pub(super) fn take_exprs(&mut self, base: usize) -> ListId {
        let lists = &mut self.chunk.lists;
        let list = ListId(lists.len() as u32);
        lists.push(ExprId((self.pending.exprs.len() - base) as u32));
        lists.extend_from_slice(&self.pending.exprs[base..]);
        self.pending.exprs.truncate(base);
        list
    }

    /// An expression as far as its binary operators bind more strongly than `limit`.
    #[inline(never)]
    fn operand(&mut self, limit: u8) -> Result<ExprId> {
        self.enter_level()?;
        let mut left = match prefix(self.token) {
            Some(op) => {
                let line = self.lexer.line();
                self.advance()?;
                let operand = self.operand(UNARY_STRENGTH)?;
                self.push_prefix(op, operand, line)
            }
            None => self.simple()?,
        };
        while let Some((op, to_left, to_right)) = infix(self.token)
            && to_left > limit
        {
            let line = self.lexer.line();
            self.advance()?;
            let right = self.operand(to_right)?;
            left = self.push_infix(op, left, right, line);
        }
        self.levels -= 1;
        Ok(left)
    }

    #[inline(never)]
    fn push_prefix(&mut self, op: UnOp, operand: ExprId, line: u32) -> ExprId {
        self.push(Expr::Unary { op, operand }, line)
    }

    #[inline(never)]
    fn push_infix(&mut self, op: Infix, lhs: ExprId, rhs: ExprId, line: u32) -> ExprId {
        let expr = match op {
            Infix::Plain(op) => Expr::Binary { op, lhs, rhs },
            Infix::And => Expr::And { lhs, rhs },
            Infix::Or => Expr::Or { lhs, rhs },
        };
        self.push(expr, line)
    }

    /// An operand without operators.
    fn simple(&mut self) -> Result<ExprId> {
        match self.token {
            Token::Name(_) | Token::Char(b'(') => self.suffixed(),
            Token::Char(b'{') => self.constructor(),
            Token::Word(Word::Function) => self.function_expr(),
            _ => self.literal(),
        }
    }

    /// An operand of one token.
    #[inline(never)]
    fn literal(&mut self) -> Result<ExprId> {
        let expr = match self.token {
            Token::Integer(value) => Expr::Integer(value),
            Token::Float(value) => Expr::Float(value),
            Token::String(text) => Expr::String(text),
            Token::Word(Word::Nil) => Expr::Nil,
            Token::Word(Word::True) => Expr::True,
            Token::Word(Word::False) => Expr::False,
            Token::Long(Long::Dots) => {
                if !self.function().is_vararg {
                    return Err(self.error_near(b"cannot use '...' outside a vararg function"));
                }
                Expr::Vararg
            }
            _ => return Err(self.error_near(b"unexpected symbol")),
        };
        let line = self.token_line;
        self.advance()?;
        Ok(self.push(expr, line))
    }

    #[inline(never)]
    fn function_expr(&mut self) -> Result<ExprId> {
        self.advance()?;
        let id = self.body(false, self.lexer.line())?;
        Ok(self.push(Expr::Function(id), self.last_line))
    }

    /// A name or a parenthesised expression, and the fields, indices and calls applied to it.
    #[inline(never)]
    pub(super) fn suffixed(&mut self) -> Result<ExprId> {
        let mut expr = match self.token {
            Token::Name(name) => self.push_variable(name)?,
            Token::Char(b'(') => {
                let line = self.lexer.line();
                self.advance()?;
                let expr = self.expr()?;
                self.close_bracket(b'(', b')', line)?;
                self.push_parenthesised(expr, line)
            }
            _ => return Err(self.error_near(b"unexpected symbol")),
        };
        loop {
            expr = match self.token {
                Token::Char(b'.') => self.field_of(expr)?,
                Token::Char(b'[') => {
                    let key = self.bracketed()?;
                    self.push_index(expr, key)
                }
                Token::Char(b':') => {
                    self.advance()?;
                    let name = self.expect_name()?;
                    let line = self.lexer.line();
                    let base = self.arguments()?;
                    self.push_method_call(expr, name, base, line)
                }
                Token::Char(b'(' | b'{') | Token::String(_) => {
                    let line = self.lexer.line();
                    let base = self.arguments()?;
                    self.push_call(expr, base, line)
                }
                _ => return Ok(expr),
            }
        }
    }

    #[inline(never)]
    fn push_variable(&mut self, name: StrId) -> Result<ExprId> {
        let line = self.token_line;
        self.advance()?;
        Ok(self.variable(name, line))
    }

    /// What was in parentheses that began on `line`.
    #[inline(never)]
    fn push_parenthesised(&mut self, expr: ExprId, line: u32) -> ExprId {
        match self.chunk.exprs[expr.index()] {
            Expr::Local(_)
            | Expr::Global { .. }
            | Expr::Index { .. }
            | Expr::Dot { .. }
            | Expr::Call { .. }
            | Expr::MethodCall { .. }
            | Expr::Vararg => self.push(Expr::Paren(expr), line),
            _ => expr,
        }
    }

    /// `obj[key]`, whose bracket has just been closed.
    #[inline(never)]
    fn push_index(&mut self, obj: ExprId, key: ExprId) -> ExprId {
        self.push(Expr::Index { obj, key }, self.last_line)
    }

    #[inline(never)]
    fn push_call(&mut self, func: ExprId, base: usize, line: u32) -> ExprId {
        let args = self.take_exprs(base);
        self.push(Expr::Call { func, args }, line)
    }

    #[inline(never)]
    fn push_method_call(&mut self, obj: ExprId, name: StrId, base: usize, line: u32) -> ExprId {
        let args = self.take_exprs(base);
        self.push(Expr::MethodCall { obj, name, args }, line)
    }

    /// `.name` (or the `:name` of a function's name) applied to `obj`.
    #[inline(never)]
    pub(super) fn field_of(&mut self, obj: ExprId) -> Result<ExprId> {
        self.advance()?;
        let name = self.expect_name()?;
        Ok(self.push(Expr::Dot { obj, name }, self.last_line))
    }

    /// `[expr]`
    fn bracketed(&mut self) -> Result<ExprId> {
        self.advance()?;
        let key = self.expr()?;
        self.expect_char(b']')?;
        Ok(key)
    }

    /// A call's arguments, left pending: a list in parentheses, a constructor or a string. Returns where they
    /// start.
    #[inline(never)]
    fn arguments(&mut self) -> Result<usize> {
        let base = self.pending.exprs.len();
        match self.token {
            Token::Char(b'(') => {
                let line = self.lexer.line();
                self.advance()?;
                if !self.is_char(b')') {
                    loop {
                        let arg = self.expr()?;
                        self.pending.exprs.push(arg);
                        if !self.accept_char(b',')? {
                            break;
                        }
                    }
                }
                self.close_bracket(b'(', b')', line)?;
            }
            Token::Char(b'{') => {
                let arg = self.constructor()?;
                self.pending.exprs.push(arg);
            }
            Token::String(_) => {
                let arg = self.literal()?;
                self.pending.exprs.push(arg);
            }
            _ => return Err(self.error_near(b"function arguments expected")),
        }
        Ok(base)
    }

    /// A table constructor (manual 3.4.9).
    #[inline(never)]
    fn constructor(&mut self) -> Result<ExprId> {
        let line = self.lexer.line();
        let base = self.pending.fields.len();
        self.advance()?;
        while !self.is_char(b'}') {
            let key = self.field_key()?;
            let value = self.expr()?;
            self.push_field(key, value);
            if !self.accept_char(b',')? && !self.accept_char(b';')? {
                break;
            }
        }
        self.close_bracket(b'{', b'}', line)?;
        Ok(self.push_table(base))
    }

    /// A field's key and its equals sign, if it has them.
    fn field_key(&mut self) -> Result<Option<ExprId>> {
        let key = match self.token {
            Token::Char(b'[') => self.bracketed()?,
            Token::Name(_) => match self.named_key()? {
                Some(key) => key,
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        self.expect_char(b'=')?;
        Ok(Some(key))
    }

    /// A name, if an equals sign follows.
    #[inline(never)]
    fn named_key(&mut self) -> Result<Option<ExprId>> {
        let Token::Name(name) = self.token else { return Ok(None) };
        if !self.equals_ahead()? {
            return Ok(None);
        }
        let key = self.push(Expr::String(name), self.token_line);
        self.advance()?;
        Ok(Some(key))
    }

    #[inline(never)]
    fn push_field(&mut self, key: Option<ExprId>, value: ExprId) {
        self.pending.fields.push(match key {
            Some(key) => Field::Pair { key, value },
            None => Field::Item(value),
        });
    }

    /// A table whose brace has just been closed.
    #[inline(never)]
    fn push_table(&mut self, base: usize) -> ExprId {
        let pending = &self.pending.fields[base..];
        let fields = Fields { first: self.chunk.fields.len() as u32, count: pending.len() as u32 };
        self.chunk.fields.extend_from_slice(pending);
        self.pending.fields.truncate(base);
        self.push(Expr::Table { fields }, self.last_line)
    }

    /// A function from its parameters to its `end`; `line` is where messages say it begins.
    #[inline(never)]
    pub(super) fn body(&mut self, is_method: bool, line: u32) -> Result<FuncId> {
        self.open_function(line);
        self.parameters(is_method)?;
        let base = self.stat_list()?;
        let end_line = self.close_word(Word::Function, line)?;
        self.check_jumps()?;
        self.leave_block();
        Ok(self.close_function(base, end_line))
    }

    #[inline(never)]
    fn open_function(&mut self, line: u32) {
        let id = FuncId(self.chunk.functions.len() as u32);
        let place = FunctionPlace { at: self.scopes.tick(), ways_back: self.scopes.ways_back() };
        self.chunk.functions.push(Function { line, place, ..Function::default() });
        self.open.push(OpenFunction { id, is_vararg: false, line, local_count: 0, loops: 0 });
        self.enter_block();
    }

    /// `([self,] names [, ...])`, brought into scope.
    #[inline(never)]
    fn parameters(&mut self, is_method: bool) -> Result<()> {
        self.expect_char(b'(')?;
        let first = self.next_local();
        if is_method {
            let name = self.lexer.strings.intern(b"self");
            self.declare(name, self.last_line)?;
        }
        if !self.is_char(b')') {
            loop {
                match self.token {
                    Token::Name(name) => {
                        self.advance()?;
                        self.declare(name, self.last_line)?;
                        if !self.accept_char(b',')? {
                            break;
                        }
                    }
                    Token::Long(Long::Dots) => {
                        self.advance()?;
                        self.function().is_vararg = true;
                        break;
                    }
                    _ => return Err(self.error_near(b"<name> or '...' expected")),
                }
            }
        }
        let params = Locals::between(first, self.next_local());
        self.activate(params);
        let OpenFunction { id, is_vararg, .. } = *self.function();
        let function = &mut self.chunk.functions[id.index()];
        function.params = params;
        function.is_vararg = is_vararg;
        self.expect_char(b')')
    }

    /// Ends the innermost function, whose statements are pending from the `base`th on.
    #[inline(never)]
    fn close_function(&mut self, base: usize, end_line: u32) -> FuncId {
        let body = self.take_block(base);
        let id = self.function().id;
        let function = &mut self.chunk.functions[id.index()];
        function.body = body;
        function.end_line = end_line;
        self.open.pop();
        id
    }
}
