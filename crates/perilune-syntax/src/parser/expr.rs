//! Expressions (manual 3.4): operators by precedence, suffixes in a loop, constructors, function bodies.

use super::{OpenFunction, Parser};
use crate::ast::*;
use crate::lexer::Result;
use crate::token::{Long, Token, Word};

/// How strongly a unary operator binds its operand; only `^` binds more strongly (manual 3.4.8).
const UNARY_STRENGTH: u8 = 12;

enum Infix {
    Plain(BinOp),
    And,
    Or,
}

/// The binary operator that a token is, with how strongly it binds to its left and to its right. It is right
/// associative where the left is the stronger.
fn infix(token: Token) -> Option<(Infix, u8, u8)> {
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

    /// One or more expressions, separated by commas.
    pub(super) fn expr_list(&mut self) -> Result<Vec<ExprId>> {
        let mut list = vec![self.expr()?];
        while self.accept(Token::Char(b','))? {
            list.push(self.expr()?);
        }
        Ok(list)
    }

    /// An expression as far as its binary operators bind more strongly than `limit`.
    fn operand(&mut self, limit: u8) -> Result<ExprId> {
        self.enter_level()?;
        let mut left = match prefix(self.token) {
            Some(op) => {
                let line = self.lexer.line();
                self.advance()?;
                let operand = self.operand(UNARY_STRENGTH)?;
                self.push(Expr::Unary { op, operand }, line)
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
        let token = self.token;
        let expr = match token {
            Token::Integer(value) => Expr::Integer(value),
            Token::Float(value) => Expr::Float(value),
            Token::String(text) => Expr::String(text),
            Token::Word(Word::Nil) => Expr::Nil,
            Token::Word(Word::True) => Expr::True,
            Token::Word(Word::False) => Expr::False,
            Token::Long(Long::Dots) if self.function().is_vararg => Expr::Vararg,
            Token::Long(Long::Dots) => {
                return Err(self.error_near(b"cannot use '...' outside a vararg function"));
            }
            Token::Char(b'{') => return self.constructor(),
            Token::Word(Word::Function) => {
                self.advance()?;
                let id = self.body(false, self.lexer.line())?;
                return Ok(self.push(Expr::Function(id), self.last_line));
            }
            _ => return self.suffixed(),
        };
        self.push_token(expr)
    }

    /// Consumes the current token, which is all of `expr`.
    #[inline(never)]
    fn push_token(&mut self, expr: Expr) -> Result<ExprId> {
        let id = self.push(expr, self.token_line);
        self.advance()?;
        Ok(id)
    }

    /// A name or a parenthesised expression, and the fields, indices and calls applied to it.
    pub(super) fn suffixed(&mut self) -> Result<ExprId> {
        let mut expr = self.primary()?;
        loop {
            expr = match self.token {
                Token::Char(b'.') => self.field_of(expr)?,
                Token::Char(b'[') => {
                    let key = self.bracketed()?;
                    self.push(Expr::Index { obj: expr, key }, self.last_line)
                }
                Token::Char(b':') => {
                    self.advance()?;
                    let name = self.expect_name()?;
                    let line = self.lexer.line();
                    let args = self.arguments()?;
                    self.push(Expr::MethodCall { obj: expr, name, args }, line)
                }
                Token::Char(b'(' | b'{') | Token::String(_) => {
                    let line = self.lexer.line();
                    let args = self.arguments()?;
                    self.push(Expr::Call { func: expr, args }, line)
                }
                _ => return Ok(expr),
            }
        }
    }

    fn primary(&mut self) -> Result<ExprId> {
        match self.token {
            Token::Name(name) => {
                let line = self.token_line;
                self.advance()?;
                Ok(self.variable(name, line))
            }
            Token::Char(b'(') => {
                let line = self.lexer.line();
                self.advance()?;
                let expr = self.expr()?;
                self.expect_closing(Token::Char(b')'), Token::Char(b'('), line)?;
                Ok(match self.chunk.exprs[expr.index()] {
                    Expr::Local(_)
                    | Expr::Index { .. }
                    | Expr::Call { .. }
                    | Expr::MethodCall { .. }
                    | Expr::Vararg => self.push(Expr::Paren(expr), line),
                    _ => expr,
                })
            }
            _ => Err(self.error_near(b"unexpected symbol")),
        }
    }

    /// `.name` (or the `:name` of a function's name) applied to `obj`.
    pub(super) fn field_of(&mut self, obj: ExprId) -> Result<ExprId> {
        self.advance()?;
        let name = self.expect_name()?;
        let key = self.push(Expr::String(name), self.last_line);
        Ok(self.push(Expr::Index { obj, key }, self.last_line))
    }

    /// `[expr]`
    fn bracketed(&mut self) -> Result<ExprId> {
        self.advance()?;
        let key = self.expr()?;
        self.expect(Token::Char(b']'))?;
        Ok(key)
    }

    /// A call's arguments: a list in parentheses, a constructor or a string.
    #[inline(never)]
    fn arguments(&mut self) -> Result<Vec<ExprId>> {
        match self.token {
            Token::Char(b'(') => {
                let line = self.lexer.line();
                self.advance()?;
                if self.accept(Token::Char(b')'))? {
                    return Ok(Vec::new());
                }
                let list = self.expr_list()?;
                self.expect_closing(Token::Char(b')'), Token::Char(b'('), line)?;
                Ok(list)
            }
            Token::Char(b'{') => Ok(vec![self.constructor()?]),
            Token::String(text) => Ok(vec![self.push_token(Expr::String(text))?]),
            _ => Err(self.error_near(b"function arguments expected")),
        }
    }

    /// A table constructor (manual 3.4.9).
    #[inline(never)]
    fn constructor(&mut self) -> Result<ExprId> {
        let line = self.lexer.line();
        self.advance()?;
        let mut fields = Vec::new();
        while self.token != Token::Char(b'}') {
            let field = self.field()?;
            fields.push(field);
            if !self.accept(Token::Char(b','))? && !self.accept(Token::Char(b';'))? {
                break;
            }
        }
        self.expect_closing(Token::Char(b'}'), Token::Char(b'{'), line)?;
        Ok(self.push(Expr::Table { fields }, self.last_line))
    }

    fn field(&mut self) -> Result<Field> {
        let token = self.token;
        let key = match token {
            Token::Char(b'[') => self.bracketed()?,
            Token::Name(name) if self.look_ahead()? == Token::Char(b'=') => {
                self.push_token(Expr::String(name))?
            }
            _ => return Ok(Field::Item(self.expr()?)),
        };
        self.expect(Token::Char(b'='))?;
        Ok(Field::Pair { key, value: self.expr()? })
    }

    /// A function from its parameters to its `end`; `line` is where messages say it begins.
    #[inline(never)]
    pub(super) fn body(&mut self, is_method: bool, line: u32) -> Result<FuncId> {
        let id = FuncId(self.chunk.functions.len() as u32);
        self.chunk.functions.push(Function { line, ..Function::default() });
        self.open.push(OpenFunction { id, is_vararg: false, line, local_count: 0 });
        let mark = self.enter_block();
        self.parameters(is_method)?;
        let stats = self.stat_list()?;
        self.chunk.functions[id.index()].body = Block { stats };
        self.chunk.functions[id.index()].end_line = self.lexer.line();
        self.expect_closing(Token::Word(Word::End), Token::Word(Word::Function), line)?;
        self.leave_block(mark);
        self.open.pop();
        Ok(id)
    }

    /// `([self,] names [, ...])`, brought into scope.
    #[inline(never)]
    fn parameters(&mut self, is_method: bool) -> Result<()> {
        self.expect(Token::Char(b'('))?;
        let mut params = Vec::new();
        if is_method {
            let name = self.lexer.strings.intern(b"self");
            params.push(self.declare(name, self.last_line)?);
        }
        if self.token != Token::Char(b')') {
            loop {
                match self.token {
                    Token::Name(name) => {
                        self.advance()?;
                        params.push(self.declare(name, self.last_line)?);
                        if !self.accept(Token::Char(b','))? {
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
        self.activate(&params);
        let OpenFunction { id, is_vararg, .. } = *self.function();
        let function = &mut self.chunk.functions[id.index()];
        function.params = params;
        function.is_vararg = is_vararg;
        self.expect(Token::Char(b')'))
    }
}
