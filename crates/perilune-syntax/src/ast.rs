//! The syntax tree that the parser hands to the compiler: names are resolved, nothing is generated yet.
//!
//! Nodes live in vectors and refer to each other by index, so that a tree of any depth is dropped without
//! recursion. The parser bounds the depth of what nests by recursion (blocks, parentheses, function bodies,
//! right-associative and unary operators) at [`MAX_LEVELS`]; what it parses in a loop may be arbitrarily deep
//! on its *left* side (`a+b+c+...`, `a.b.c...`, `f()()...`): whoever walks the tree must walk left spines
//! with a loop.
//!
//! Scopes are resolved while parsing: a name is a [`Expr::Local`] (of this or of an enclosing function: the
//! compiler makes it an upvalue when `locals[id].function` is not the current one) or an index of `_ENV`.
//! When the tree is complete, each [`Local`] says whether it is captured and whether it is assigned after its
//! declaration.

/// Levels of nested syntax that PUC Lua accepts (`LUAI_MAXCCALLS`).
pub const MAX_LEVELS: u32 = 200;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident,)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);
        impl $name {
            /// As an index of its vector.
            #[inline]
            pub fn index(self) -> usize { self.0 as usize }
        }
    )* };
}
ids! {
    /// Index of [`Chunk::exprs`].
    ExprId,
    /// Index of [`Chunk::strings`]; equal strings have equal ids within a chunk (names and string literals
    /// alike).
    StrId,
    /// Index of [`Chunk::locals`].
    LocalId,
    /// Index of [`Chunk::functions`].
    FuncId,
}

/// A parsed chunk.
#[derive(Debug, Default)]
pub struct Chunk {
    /// All expressions.
    pub exprs: Vec<Expr>,
    /// Line of each expression: of its operator for binary and unary operators, of its open parenthesis (or
    /// first argument token) for calls (as PUC Lua attributes run-time errors), of its name or closing
    /// bracket for `Index`, of its closing brace for tables, of its `end` for functions, of its token
    /// otherwise. Same length as `exprs`.
    pub lines: Vec<u32>,
    /// All distinct names and string literals.
    pub strings: Vec<Box<[u8]>>,
    /// All local variables; `locals[0]` is the main function's upvalue `_ENV`, whose `function` is
    /// `FuncId(u32::MAX)`.
    pub locals: Vec<Local>,
    /// All functions; `functions[0]` is the main function (vararg).
    pub functions: Vec<Function>,
}

/// A local variable (or the main function's `_ENV`).
#[derive(Clone, Debug)]
pub struct Local {
    /// Its name; hidden variables of loops are not listed here, the compiler names them.
    pub name: StrId,
    /// `<const>`, `<close>` or none.
    pub attrib: Attrib,
    /// The function that declares it.
    pub function: FuncId,
    /// A function inside `function` refers to it.
    pub captured: bool,
    /// Something assigns to it after its declaration, except for what [`Local::late`] means.
    pub assigned: bool,
    /// It is declared without a value, and the one assignment to it in the text counts as its initialiser: it
    /// stands in the function that declares the variable, in no loop and behind no label that do not stand
    /// around the declaration too, so that it happens once at most.
    pub late: bool,
    /// Line of the assignment that makes it `assigned` or `late`; 0: none.
    pub assigned_line: u32,
    /// Line of its declaration.
    pub line: u32,
    /// What the parser knows of the place of its declaration, if it is one without a value.
    pub bare: Option<Place>,
}

/// A point in a function as far as it decides whether an assignment can happen again: see [`Local::late`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The function.
    pub function: FuncId,
    /// Loops of that function around it.
    pub loops: u32,
    /// Labels visible before it, those of functions around included.
    pub labels: u32,
}

/// A variable's attribute (manual 3.3.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attrib {
    /// None.
    Regular,
    /// `<const>`
    Const,
    /// `<close>`
    Close,
}

/// A function body.
#[derive(Debug, Default)]
pub struct Function {
    /// Fixed parameters, `self` included.
    pub params: Vec<LocalId>,
    /// Has `...`.
    pub is_vararg: bool,
    /// The body.
    pub body: Block,
    /// Line that PUC Lua says it begins on: of the `function` keyword in a function statement, else of the
    /// parenthesis before its parameters; 0 for the main function.
    pub line: u32,
    /// Line of its `end`; for the main function that of the last token, where its final return is attributed.
    pub end_line: u32,
}

/// A block: a scope of its own.
#[derive(Debug, Default)]
pub struct Block {
    /// Its statements.
    pub stats: Vec<Stat>,
}

/// A statement and the line it starts on.
#[derive(Debug)]
pub struct Stat {
    /// What it is.
    pub kind: StatKind,
    /// Line of its first token; for `Goto` of the label's name; for `GenericFor` of the first token after
    /// `in`, where errors of the iterator call are attributed.
    pub line: u32,
}

/// Statements (manual 3.3).
#[derive(Debug)]
#[allow(missing_docs)]
pub enum StatKind {
    /// `targets = values`; each target is `Local`, `Index` (globals are `Index` of `_ENV`)
    Assign { targets: Vec<ExprId>, values: Vec<ExprId> },
    /// `local names = values`; the new locals are in scope after the statement
    Local { locals: Vec<LocalId>, values: Vec<ExprId> },
    /// `local function f`: the local is in scope inside the function
    LocalFunction { local: LocalId, func: FuncId },
    /// `function a.b:c()`: `target` is a `Local` or an `Index`; assigned on line `line` of the statement
    Function { target: ExprId, func: FuncId },
    /// A call as a statement; a `Call` or `MethodCall`
    Call(ExprId),
    /// `do ... end`
    Do { body: Block, end_line: u32 },
    /// `while cond do ... end`; `end_line` is that of its `end`
    While { cond: ExprId, body: Block, end_line: u32 },
    /// `repeat ... until cond`; cond sees the body's locals
    Repeat { body: Block, cond: ExprId, end_line: u32 },
    /// `if` and its `elseif`s (in order): condition, line of `then`, block; and the `else`
    If { arms: Vec<(ExprId, u32, Block)>, otherwise: Option<Block>, end_line: u32 },
    /// `for var = start, limit [, step] do`
    NumericFor {
        var: LocalId,
        start: ExprId,
        limit: ExprId,
        step: Option<ExprId>,
        do_line: u32,
        body: Block,
        end_line: u32,
    },
    /// `for vars in exprs do`
    GenericFor { vars: Vec<LocalId>, exprs: Vec<ExprId>, do_line: u32, body: Block, end_line: u32 },
    /// `goto label`; the parser has seen that there is one that it may jump to
    Goto(StrId),
    /// `break` (the manual's `goto break`), in a loop
    Break,
    /// `::label::`, the only one of its name that is visible in its function
    Label(StrId),
    /// `return values`
    Return(Vec<ExprId>),
}

/// Expressions (manual 3.4).
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Expr {
    /// `nil`
    Nil,
    /// `true`
    True,
    /// `false`
    False,
    /// `...`
    Vararg,
    /// Integer literal
    Integer(i64),
    /// Float literal
    Float(f64),
    /// String literal
    String(StrId),
    /// `function ... end`
    Function(FuncId),
    /// A local variable of this or an enclosing function
    Local(LocalId),
    /// `obj[key]`, `obj.key` (key is then a `String`) and globals (`_ENV` local, `String`)
    Index { obj: ExprId, key: ExprId },
    /// `func(args)`
    Call { func: ExprId, args: Vec<ExprId> },
    /// `obj:name(args)`
    MethodCall { obj: ExprId, name: StrId, args: Vec<ExprId> },
    /// A binary operator other than `and`/`or`
    Binary { op: BinOp, lhs: ExprId, rhs: ExprId },
    /// `lhs and rhs`
    And { lhs: ExprId, rhs: ExprId },
    /// `lhs or rhs`
    Or { lhs: ExprId, rhs: ExprId },
    /// A unary operator
    Unary { op: UnOp, operand: ExprId },
    /// `(e)`: kept where it matters, around calls and `...` (it cuts to one value) and around anything that
    /// must not be an assignment target
    Paren(ExprId),
    /// `{...}`
    Table { fields: Vec<Field> },
}

/// A field of a table constructor.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Field {
    /// `value`
    Item(ExprId),
    /// `[key] = value` or `name = value` (key is then a `String`)
    Pair { key: ExprId, value: ExprId },
}

/// Binary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BinOp {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Pow,
    IDiv,
    BAnd,
    BOr,
    BXor,
    Shl,
    Shr,
    Concat,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// Unary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum UnOp {
    Neg,
    BNot,
    Not,
    Len,
}
