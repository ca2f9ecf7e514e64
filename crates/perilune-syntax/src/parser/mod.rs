//! The parser: tokens to a tree whose names are resolved (manual 3.3, 3.4, 3.5 and the grammar of section 9).
//!
//! Recursive descent, one function per rule, with precedence climbing for operators ([`expr`]); statements
//! are in [`stat`], what a name means in [`scope`]. One token of lookahead is needed in one place, to tell
//! `{name = ...}` from `{name}`.
//!
//! # Depth
//! The native stack is bounded by counting [levels](MAX_LEVELS): one for each statement, each operand that is
//! parsed by recursion, and each further target of an assignment (which does not recurse here, but counts all
//! the same: the limit is part of what Lua accepts). Left-associative chains, suffixes and `elseif`s are
//! loops. A level must cost little stack, since coroutines parse too: lists under way are on stacks of the
//! parser's own ([`Pending`]) rather than in the frames of the rules that read them, and nodes are put
//! together in functions that do not recurse and are not inlined into those that do. A test holds every shape
//! of nesting to a small stack.
//!
//! # Lines
//! Two lines matter beside a token's own. Messages say the line the *lexer* has reached, which is the current
//! token's. And the main function's final return happens on the line of the last token read, since nothing
//! after it is code.

mod expr;
mod scope;
mod stat;
pub(crate) mod workspace;

use crate::ast::*;
use crate::codegen::{Generator, Limit, State};
use crate::error::SyntaxError;
use crate::lexer::{Lexer, Result};
use crate::proto::Proto;
use crate::token::{Token, Word};
use crate::{Bounds, Source};
use scope::Scopes;
use std::sync::Arc;
use workspace::Workspace;

/// Parses a chunk. `source` is text in any bytes (a first line with `#` is the caller's to skip),
/// `chunk_name` is as given to `load`: `=name`, `@file` or the source itself.
///
/// # Errors
/// The first syntax error, worded as PUC Lua does; or "C stack overflow" if the syntax nests deeper than
/// [`MAX_LEVELS`].
pub fn parse(source: &[u8], chunk_name: &[u8]) -> std::result::Result<Chunk, SyntaxError> {
    let mut workspace = Workspace::default();
    let mut parser = Parser::new(Source::Whole(source), chunk_name, Bounds::NONE, &mut workspace);
    parser.lexer.check_length().map_err(|error| *error)?;
    parser.whole().map_err(|error| *error)?;
    let Workspace { mut chunk, strings, .. } = workspace;
    chunk.strings = strings.into_strings();
    Ok(chunk)
}

/// Parses a chunk and makes code of it, giving up at `bounds`; at `portion` expressions of the main function
/// at a time, if it has so many.
///
/// # Errors
/// As those of [`parse`], and what exceeds limits of the code.
pub(crate) fn compile(
    source: Source<'_>,
    chunk_name: &[u8],
    bounds: Bounds<'_>,
    portion: usize,
) -> std::result::Result<Arc<Proto>, SyntaxError> {
    let mut workspace = workspace::take();
    let proto = compile_in(&mut workspace, source, chunk_name, bounds, portion)?;
    workspace::put(workspace);
    Ok(proto)
}

fn compile_in(
    workspace: &mut Workspace,
    source: Source<'_>,
    chunk_name: &[u8],
    bounds: Bounds<'_>,
    portion: usize,
) -> std::result::Result<Arc<Proto>, SyntaxError> {
    // Who appends need not be there for longer than the workspace is lent.
    #[expect(clippy::needless_match, reason = "the arm for pieces borrows for a shorter time")]
    let source = match source {
        Source::Whole(text) => Source::Whole(text),
        Source::Pieces(first, more) => Source::Pieces(first, more),
    };
    let mut parser = Parser::new(source, chunk_name, bounds, workspace);
    parser.lexer.check_length().map_err(|error| *error)?;
    parser.make_code(chunk_name);
    parser.portion = portion;
    match parser.whole() {
        Ok(()) => {
            let generator = parser.generator.take().expect("it is there from the beginning");
            Ok(generator.finish(parser.chunk, parser.lexer.strings.strings_mut()))
        }
        Err(error) => match parser.limit.take() {
            Some(Limit { message, at, used }) => {
                let text = parser.lexer.into_source();
                Err(error_after(&text, chunk_name, bounds, (at, used), &message).unwrap_or(*error))
            }
            None => Err(*error),
        },
    }
}

/// The error `message` as a compiler of one pass words it that finds it at expression `at`: near the token
/// that follows then. Parses the chunk again, as far as that, so that trees need not carry tokens for the
/// sake of programs beyond the limits; `None` if it does not get there.
///
/// With `used`, what fails is the use that is made of the expression, for which the comma, bracket or
/// operator behind it has been read as well.
pub(crate) fn error_after(
    source: &[u8],
    chunk_name: &[u8],
    bounds: Bounds<'_>,
    (at, used): (ExprId, bool),
    message: &str,
) -> Option<SyntaxError> {
    let mut workspace = Workspace::default();
    let mut parser = Parser::new(Source::Whole(source), chunk_name, bounds, &mut workspace);
    parser.watched = at;
    parser.watch = Some(Watch { message, used, error: None });
    let _ = parser.whole();
    parser.watch?.error.map(|error| *error)
}

/// Bytes of source text for each node of the tree, in programs with few comments.
const BYTES_PER_NODE: usize = 6;

/// What [`Parser::portion`] is: nodes of so many fit into the caches, and changing between the two sides
/// costs nothing.
pub(crate) const PORTION: usize = 1024;
/// Nodes that room is made for at most: those of portions that have become code make room for others.
const MOST_NODES: usize = 16 << 10;

/// What [`error_after`] is about.
struct Watch<'s> {
    message: &'s str,
    used: bool,
    error: Option<Box<SyntaxError>>,
}

/// Most local variables, hidden ones of loops included, that may be active at one point of a function.
const MAX_LOCALS: u32 = 200;

/// A function whose body is being parsed.
struct OpenFunction {
    id: FuncId,
    is_vararg: bool,
    /// As in [`Function::line`].
    line: u32,
    /// Local variables declared and still in scope or about to be, hidden ones included.
    local_count: u32,
    /// Loops around the current point.
    loops: u32,
}

/// Lists whose ends have not been reached; each rule takes off what has been put on since it began.
#[derive(Default)]
struct Pending {
    exprs: Vec<ExprId>,
    fields: Vec<Field>,
    stats: Vec<Stat>,
    arms: Vec<Arm>,
}

struct Parser<'s> {
    lexer: Lexer<'s>,
    /// The current token, not yet consumed, and its line.
    token: Token,
    token_line: u32,
    /// Line of the token consumed last.
    last_line: u32,
    /// The token after `token`, if it had to be looked at, and its line.
    ahead: Option<(Token, u32)>,
    /// The tree so far; its strings are still in the lexer.
    chunk: &'s mut Chunk,
    pending: &'s mut Pending,
    scopes: &'s mut Scopes,
    /// The functions around the current point, innermost last, never empty.
    open: &'s mut Vec<OpenFunction>,
    /// Levels of nesting at the current point.
    levels: u32,
    /// The name `_ENV`.
    env: StrId,
    /// The expression that [`error_after`] waits for, else one that never comes.
    watched: ExprId,
    watch: Option<Watch<'s>>,
    /// What makes code of the main function's statements as they come; `None`: the tree is wanted.
    generator: Option<Generator<'s>>,
    /// What it will work with.
    state: Option<&'s mut State>,
    /// Expressions of the main function that become code together.
    portion: usize,
    /// The limit that it says the program exceeds.
    limit: Option<Limit>,
}

impl<'s> Parser<'s> {
    fn new(
        source: Source<'s>,
        chunk_name: &'s [u8],
        bounds: Bounds<'s>,
        workspace: &'s mut Workspace,
    ) -> Parser<'s> {
        let Workspace { strings, chunk, pending, scopes, open, state } = workspace;
        let lexer = Lexer::new(source, chunk_name, bounds, strings);
        let env = lexer.strings.intern(workspace::ENV);
        // About what a text of this length needs: what it does not use costs nothing, and growing would touch
        // twice as many pages.
        let nodes = (lexer.available() / BYTES_PER_NODE).min(MOST_NODES);
        make_room(&mut chunk.exprs, nodes);
        make_room(&mut chunk.lines, nodes);
        make_room(&mut chunk.lists, nodes);
        make_room(&mut chunk.fields, nodes / 4);
        let mut parser = Parser {
            lexer,
            token: Token::Eof,
            token_line: 1,
            last_line: 1,
            ahead: None,
            chunk,
            pending,
            scopes,
            open,
            levels: 0,
            env,
            watched: ExprId(u32::MAX),
            watch: None,
            generator: None,
            state: Some(state),
            portion: PORTION,
            limit: None,
        };
        parser.begin();
        parser
    }

    /// The main function begins, and its `_ENV` is in scope.
    fn begin(&mut self) {
        self.chunk.locals.push(
            false,
            Local {
                name: self.env,
                attrib: Attrib::Regular,
                function: FuncId(u32::MAX),
                captured: false,
                assigned: false,
                late: false,
                line: 0,
                bare: None,
                since: 0,
                last_assigned: (0, 0),
                assigned_inside: 0,
            },
        );
        self.scopes.activate(self.env, LocalId(0));
        self.chunk.functions.push(Function { is_vararg: true, ..Function::default() });
        self.open.push(OpenFunction { id: FuncId(0), is_vararg: true, line: 0, local_count: 0, loops: 0 });
    }

    /// What is parsed becomes code of a chunk with this name.
    fn make_code(&mut self, chunk_name: &[u8]) {
        let state = self.state.take().expect("code is made once");
        let names = self.lexer.strings.strings_mut();
        self.generator = Some(Generator::new(state, self.chunk, names, chunk_name));
    }

    /// All of the source.
    fn whole(&mut self) -> Result<()> {
        self.advance()?;
        self.enter_block();
        let body = self.main_statements()?;
        self.leave_block();
        if self.token != Token::Eof {
            return Err(self.expected(Token::Eof));
        }
        self.check_jumps()?;
        self.chunk.functions[0].end_line = self.last_line;
        if self.generator.is_some() {
            return self.generate(body);
        }
        self.chunk.functions[0].body = self.take_block(body);
        Ok(())
    }

    /// The statements of the main function. From where control may come back to, or jumps that have not found
    /// their target lead on, they are left pending; what is before becomes code in portions. Returns where
    /// those that are pending start.
    fn main_statements(&mut self) -> Result<usize> {
        if self.generator.is_none() {
            return self.stat_list();
        }
        let base = self.pending.stats.len();
        loop {
            let more = self.next_statement()?;
            let pending = &self.pending.stats[base..];
            if self.scopes.has_jumps() || pending.iter().any(|s| matches!(s.kind, StatKind::Label(_))) {
                if more {
                    self.more_statements()?;
                }
                return Ok(base);
            }
            if !more {
                return Ok(base);
            }
            if self.chunk.exprs.len() >= self.portion {
                self.generate(base)?;
            }
        }
    }

    /// Makes code of the pending statements of the main function, from the `base`th on.
    fn generate(&mut self, base: usize) -> Result<()> {
        let block = self.take_block(base);
        let Some(generator) = &mut self.generator else { return Ok(()) };
        let bounds = self.lexer.bounds;
        let names = self.lexer.strings.strings_mut();
        let result = generator.statements(self.chunk, names, bounds, block);
        generator.forget_nodes(self.chunk.exprs.len());
        self.chunk.clear_nodes();
        result.map_err(|(error, limit)| {
            self.limit = limit;
            error
        })
    }

    /// Consumes the current token.
    #[inline(never)]
    fn advance(&mut self) -> Result<()> {
        self.last_line = self.lexer.line();
        match self.ahead.take() {
            Some(ahead) => (self.token, self.token_line) = ahead,
            None => {
                self.lexer.next_token(&mut self.token)?;
                self.token_line = self.lexer.line();
            }
        }
        self.lexer.look_ahead();
        Ok(())
    }

    /// True if the token after the current one is an equals sign.
    #[inline(never)]
    fn equals_ahead(&mut self) -> Result<bool> {
        let mut token = Token::Eof;
        self.lexer.next_token(&mut token)?;
        self.ahead = Some((token, self.lexer.line()));
        self.lexer.look_ahead();
        Ok(token == Token::Char(b'='))
    }

    fn is_char(&self, byte: u8) -> bool {
        matches!(self.token, Token::Char(b) if b == byte)
    }

    fn is_word(&self, word: Word) -> bool {
        matches!(self.token, Token::Word(w) if w == word)
    }

    /// Consumes the current token if it is `byte`.
    #[inline(never)]
    fn accept_char(&mut self, byte: u8) -> Result<bool> {
        let found = self.is_char(byte);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    /// Consumes the current token if it is `word`.
    #[inline(never)]
    fn accept_word(&mut self, word: Word) -> Result<bool> {
        let found = self.is_word(word);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    #[inline(never)]
    fn expect_char(&mut self, byte: u8) -> Result<()> {
        if self.is_char(byte) { self.advance() } else { Err(self.expected(Token::Char(byte))) }
    }

    #[inline(never)]
    fn expect_word(&mut self, word: Word) -> Result<()> {
        if self.is_word(word) { self.advance() } else { Err(self.expected(Token::Word(word))) }
    }

    /// Consumes the bracket `close`, which ends what `open` began on `line`.
    #[inline(never)]
    fn close_bracket(&mut self, open: u8, close: u8, line: u32) -> Result<()> {
        if self.is_char(close) {
            self.advance()
        } else {
            Err(self.unclosed(Token::Char(close), Token::Char(open), line))
        }
    }

    /// Consumes the word that ends what `open` began on `line`, and returns the line it is on.
    #[inline(never)]
    fn close_word(&mut self, open: Word, line: u32) -> Result<u32> {
        let close = if open == Word::Repeat { Word::Until } else { Word::End };
        if !self.is_word(close) {
            return Err(self.unclosed(Token::Word(close), Token::Word(open), line));
        }
        self.advance()?;
        Ok(self.last_line)
    }

    #[inline(never)]
    fn expect_name(&mut self) -> Result<StrId> {
        match self.token {
            Token::Name(name) => {
                self.advance()?;
                Ok(name)
            }
            _ => Err(self.error_near(b"<name> expected")),
        }
    }

    /// Goes one level of nesting down; the way back up is `self.levels -= 1`.
    #[inline]
    fn enter_level(&mut self) -> Result<()> {
        self.levels += 1;
        if self.levels > MAX_LEVELS { Err(too_deep()) } else { Ok(()) }
    }

    fn function(&mut self) -> &mut OpenFunction {
        self.open.last_mut().expect("a function is open while parsing")
    }

    /// Adds an expression to the tree.
    fn push(&mut self, expr: Expr, line: u32) -> ExprId {
        let id = ExprId(self.chunk.exprs.len() as u32);
        self.chunk.exprs.push(expr);
        self.chunk.lines.push(line);
        if id == self.watched {
            self.report_watched();
        }
        id
    }

    /// The expression that [`error_after`] waits for is complete. What the parser does afterwards is of no
    /// interest.
    #[cold]
    #[inline(never)]
    fn report_watched(&mut self) {
        let Some(Watch { message, used, .. }) = self.watch else { return };
        let mut token = self.token;
        let passed = match token {
            _ if !used => 0,
            // Its name too.
            Token::Char(b':') => 2,
            Token::Char(b',' | b')' | b']') => 1,
            _ => expr::infix(token).is_some() as u32,
        };
        for _ in 0..passed {
            token = match self.ahead.take() {
                Some((ahead, _)) => ahead,
                None => match self.lexer.next_token(&mut token) {
                    Ok(()) => token,
                    Err(_) => return,
                },
            };
        }
        let error = self.lexer.error_near(message.as_bytes(), token);
        self.watch = Some(Watch { message, used, error: Some(error) });
        self.watched = ExprId(u32::MAX);
    }

    /// True if the current token ends a block; `until` ends one without ending its scope.
    fn at_block_end(&self) -> bool {
        matches!(self.token, Token::Eof | Token::Word(Word::Else | Word::ElseIf | Word::End | Word::Until))
    }

    /// An error near the current token.
    #[cold]
    fn error_near(&self, message: &[u8]) -> Box<SyntaxError> {
        self.lexer.error_near(message, self.token)
    }

    #[cold]
    fn expected(&self, token: Token) -> Box<SyntaxError> {
        self.error_near(format!("{} expected", token.kind()).as_bytes())
    }

    #[cold]
    fn unclosed(&self, close: Token, open: Token, line: u32) -> Box<SyntaxError> {
        if line == self.lexer.line() {
            return self.expected(close);
        }
        let message = format!("{} expected (to close {} at line {line})", close.kind(), open.kind());
        self.error_near(message.as_bytes())
    }

    /// An error about a name, which is not where the current token is.
    #[cold]
    fn error_about(&self, before: &str, name: StrId, after: &str) -> Box<SyntaxError> {
        let name = self.lexer.strings.get(name);
        self.lexer.error(&[before.as_bytes(), name, after.as_bytes()].concat())
    }
}

/// Gives an empty list room for about so many, if the system does: it is a guess, and a list grows without.
fn make_room<T>(list: &mut Vec<T>, count: usize) {
    let _ = list.try_reserve_exact(count);
}

#[cold]
fn too_deep() -> Box<SyntaxError> {
    Box::new(SyntaxError { message: b"C stack overflow".to_vec(), incomplete: false })
}
