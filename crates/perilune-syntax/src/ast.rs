//! The syntax tree that the parser hands to the compiler: names are resolved, nothing is generated yet.
//!
//! Nodes live in vectors and refer to each other by index, so that a tree of any depth is dropped without
//! recursion. The parser bounds the depth of what nests by recursion (blocks, parentheses, function bodies,
//! right-associative and unary operators) at [`MAX_LEVELS`]; what it parses in a loop may be arbitrarily deep
//! on its *left* side (`a+b+c+...`, `a.b.c...`, `f()()...`): whoever walks the tree must walk left spines
//! with a loop.
//!
//! Scopes are resolved while parsing: a name is a [`Expr::Local`] (of this or of an enclosing function: the
//! compiler makes it an upvalue when `locals[id].function` is not the current one) or an index of `_ENV`. Of
//! a chunk that becomes code while it is parsed, the tree holds the statements that have not become code yet,
//! with the functions in them and their variables, and all variables of the main function. When it is
//! complete, each [`Local`] says whether it is captured and whether it is assigned after its declaration.

#[cfg(test)]
use crate::parser::workspace::bytes;
use crate::parser::workspace::empty;
use crate::text::Text;

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
    /// One of [`Chunk::locals`].
    LocalId,
    /// Index of [`Chunk::functions`].
    FuncId,
    /// A list of expressions: where it begins in [`Chunk::lists`]. See [`Chunk::list`].
    ListId,
    /// Index of [`Chunk::numeric_loops`].
    NumericForId,
    /// Index of [`Chunk::generic_loops`].
    GenericForId,
}

/// Local variables that one statement declares, or a function's parameters: their ids follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Locals {
    first: u32,
    count: u32,
}

impl Locals {
    /// Those from `first` on, up to and without `end`.
    pub fn between(first: LocalId, end: LocalId) -> Locals {
        Locals { first: first.0, count: end.0 - first.0 }
    }

    /// This one.
    pub fn one(local: LocalId) -> Locals {
        Locals { first: local.0, count: 1 }
    }

    /// How many.
    pub fn len(self) -> usize {
        self.count as usize
    }

    /// None at all?
    pub fn is_empty(self) -> bool {
        self.count == 0
    }

    /// One after the other.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = LocalId> {
        (self.first..self.first + self.count).map(LocalId)
    }
}

/// Something for each local variable.
///
/// While a chunk becomes code, variables of functions inside the main function can be forgotten as soon as
/// these functions are code, which makes room for others: they are most of a program's, and each page that
/// they fill is a fault. So they are kept apart, and their ids are high ones.
#[derive(Clone, Debug)]
pub struct ByLocal<T> {
    lasting: Vec<T>,
    passing: Vec<T>,
}

/// The first id of those that are forgotten early.
const PASSING: u32 = 1 << 31;

impl<T> Default for ByLocal<T> {
    fn default() -> ByLocal<T> {
        ByLocal::EMPTY
    }
}

impl<T> ByLocal<T> {
    /// Nothing for nobody.
    pub(crate) const EMPTY: ByLocal<T> = ByLocal { lasting: Vec::new(), passing: Vec::new() };

    /// The id that the next one will have.
    pub(crate) fn next(&self, passing: bool) -> LocalId {
        if passing {
            LocalId(PASSING + self.passing.len() as u32)
        } else {
            LocalId(self.lasting.len() as u32)
        }
    }

    /// Adds the entry of the next one.
    pub(crate) fn push(&mut self, passing: bool, entry: T) {
        let list = if passing { &mut self.passing } else { &mut self.lasting };
        list.push(entry);
        assert!(
            list.len() < PASSING as usize,
            "each takes two bytes of a text, which has no more than twice as many"
        );
    }

    /// Entries for as many as `others` has, those that are new with `entry`.
    pub(crate) fn resize<U>(&mut self, others: &ByLocal<U>, entry: T)
    where
        T: Copy,
    {
        self.lasting.resize(others.lasting.len(), entry);
        self.passing.resize(others.passing.len(), entry);
    }

    /// Forgets all, but keeps some memory.
    pub(crate) fn empty(&mut self) {
        empty(&mut self.lasting);
        empty(&mut self.passing);
    }

    /// Bytes of lists that it keeps.
    #[cfg(test)]
    pub(crate) fn heap_bytes(&self) -> usize {
        bytes(&self.lasting) + bytes(&self.passing)
    }

    /// Forgets those that can be forgotten early.
    pub(crate) fn forget_passing(&mut self) {
        self.passing.clear();
    }

    /// All entries, in the order of the ids.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.lasting.iter().chain(&self.passing)
    }
}

impl LocalId {
    /// Of a variable that is forgotten early.
    pub(crate) fn is_passing(self) -> bool {
        self.0 >= PASSING
    }
}

impl<T> std::ops::Index<LocalId> for ByLocal<T> {
    type Output = T;

    #[inline]
    fn index(&self, id: LocalId) -> &T {
        if id.is_passing() { &self.passing[(id.0 - PASSING) as usize] } else { &self.lasting[id.index()] }
    }
}

impl<T> std::ops::IndexMut<LocalId> for ByLocal<T> {
    #[inline]
    fn index_mut(&mut self, id: LocalId) -> &mut T {
        if id.is_passing() {
            &mut self.passing[(id.0 - PASSING) as usize]
        } else {
            &mut self.lasting[id.index()]
        }
    }
}

/// A parsed chunk.
#[derive(Debug, Default)]
pub struct Chunk {
    /// All expressions.
    pub exprs: Vec<Expr>,
    /// Line of each expression: of its operator for binary and unary operators, of its open parenthesis (or
    /// first argument token) for calls (as PUC Lua attributes run-time errors), of its name or closing
    /// bracket for `Index` and its like, of its closing brace for tables, of its `end` for functions, of its
    /// token otherwise. Same length as `exprs`.
    pub lines: Vec<u32>,
    /// All lists of expressions, each after an entry that is its length.
    pub lists: Vec<ExprId>,
    /// The fields of all table constructors.
    pub fields: Vec<Field>,
    /// The statements of all blocks.
    pub stats: Vec<Stat>,
    /// The arms of all `if` statements.
    pub arms: Vec<Arm>,
    /// All numeric `for` loops.
    pub numeric_loops: Vec<NumericFor>,
    /// All generic `for` loops.
    pub generic_loops: Vec<GenericFor>,
    /// All distinct names and string literals.
    pub strings: Vec<Text>,
    /// All local variables; the first is the main function's upvalue `_ENV`, whose `function` is
    /// `FuncId(u32::MAX)`.
    pub locals: ByLocal<Local>,
    /// All functions; `functions[0]` is the main function (vararg).
    pub functions: Vec<Function>,
}

impl Chunk {
    /// Forgets all, but keeps some memory.
    pub(crate) fn empty(&mut self) {
        empty(&mut self.exprs);
        empty(&mut self.lines);
        empty(&mut self.lists);
        empty(&mut self.fields);
        empty(&mut self.stats);
        empty(&mut self.arms);
        empty(&mut self.numeric_loops);
        empty(&mut self.generic_loops);
        empty(&mut self.strings);
        self.locals.empty();
        empty(&mut self.functions);
    }

    /// Bytes of lists that it keeps.
    #[cfg(test)]
    pub(crate) fn heap_bytes(&self) -> usize {
        let exprs = bytes(&self.exprs) + bytes(&self.lines) + bytes(&self.lists) + bytes(&self.fields);
        let stats = bytes(&self.stats) + bytes(&self.arms);
        let loops = bytes(&self.numeric_loops) + bytes(&self.generic_loops);
        exprs + stats + loops + bytes(&self.strings) + self.locals.heap_bytes() + bytes(&self.functions)
    }

    /// Forgets the nodes, and what names meant in functions inside the main function; all of these have
    /// ended.
    pub(crate) fn clear_nodes(&mut self) {
        self.locals.forget_passing();
        self.functions.truncate(1);
        self.exprs.clear();
        self.lines.clear();
        self.lists.clear();
        self.fields.clear();
        self.stats.clear();
        self.arms.clear();
        self.numeric_loops.clear();
        self.generic_loops.clear();
    }

    /// The expressions of a list.
    #[inline]
    pub fn list(&self, list: ListId) -> &[ExprId] {
        let first = list.index() + 1;
        &self.lists[first..first + self.lists[list.index()].index()]
    }

    /// The statements of a block.
    #[inline]
    pub fn block(&self, block: Block) -> &[Stat] {
        &self.stats[block.first as usize..(block.first + block.count) as usize]
    }

    /// An `if` and its `elseif`s.
    #[inline]
    pub fn arms(&self, arms: Arms) -> &[Arm] {
        &self.arms[arms.first as usize..(arms.first + arms.count) as usize]
    }

    /// The fields of a constructor.
    #[inline]
    pub fn table_fields(&self, fields: Fields) -> &[Field] {
        &self.fields[fields.first as usize..(fields.first + fields.count) as usize]
    }
}

/// The fields of one constructor, see [`Chunk::table_fields`].
#[derive(Clone, Copy, Debug)]
pub struct Fields {
    pub(crate) first: u32,
    pub(crate) count: u32,
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
    /// Line of its declaration.
    pub line: u32,
    /// What the parser knows of the place of its declaration, if it is one without a value.
    pub bare: Option<Place>,
    /// When its scope began, on the parser's clock.
    pub since: Moment,
    /// When the function that declares it assigned it last, and on which line; a whole statement counts as
    /// one moment, its end.
    pub last_assigned: (Moment, u32),
    /// Line of the first assignment by a function inside; 0: none.
    pub assigned_inside: u32,
}

/// A place in the text, by what the parser has met before it: later ones are greater.
pub type Moment = u32;

impl Local {
    /// Whether no assignment can come after a function expression at `place` in the function that declares
    /// the variable has made a closure: all of them stand there, before it, and no loop or label inside the
    /// variable's scope leads from behind it back to one.
    pub fn is_settled_before(&self, place: &FunctionPlace) -> bool {
        let last = self.last_assigned.0;
        let repeats = |&back: &Moment| back > self.since && last > back;
        self.assigned_inside == 0 && last < place.at && !place.ways_back.iter().any(repeats)
    }

    /// The line of an assignment that may come after a closure over the variable has been made, or the last
    /// one before; 0: none.
    pub fn decisive_line(&self) -> u32 {
        match self.assigned_inside {
            0 => self.last_assigned.1,
            line => line,
        }
    }
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
    pub params: Locals,
    /// Has `...`.
    pub is_vararg: bool,
    /// The body.
    pub body: Block,
    /// Line that PUC Lua says it begins on: of the `function` keyword in a function statement, else of the
    /// parenthesis before its parameters; 0 for the main function.
    pub line: u32,
    /// Where it stands.
    pub place: FunctionPlace,
    /// Line of its `end`; for the main function that of the last token, where its final return is attributed.
    pub end_line: u32,
}

/// Where a function stands, as far as it decides whether its upvalues may be assigned after it.
#[derive(Clone, Debug, Default)]
pub struct FunctionPlace {
    /// When its text began, on the parser's clock.
    pub at: Moment,
    /// When the loops and labels began that control may come back to from behind it, in the function around.
    pub ways_back: Box<[Moment]>,
}

/// A block, a scope of its own: see [`Chunk::block`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Block {
    pub(crate) first: u32,
    pub(crate) count: u32,
}

/// The arms of one `if` statement, see [`Chunk::arms`].
#[derive(Clone, Copy, Debug)]
pub struct Arms {
    pub(crate) first: u32,
    pub(crate) count: u32,
}

/// `if cond then`, or `elseif cond then`, and its block.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Arm {
    pub cond: ExprId,
    pub then_line: u32,
    pub body: Block,
}

/// A statement and the line it starts on.
#[derive(Clone, Copy, Debug)]
pub struct Stat {
    /// What it is.
    pub kind: StatKind,
    /// Line of its first token; for `Goto` of the label's name; for `GenericFor` of the first token after
    /// `in`, where errors of the iterator call are attributed.
    pub line: u32,
}

/// Statements (manual 3.3).
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum StatKind {
    /// `targets = values`; each target is a `Local`, `Global`, `Index` or `Dot`
    Assign { targets: ListId, values: ListId },
    /// `local names = values`; the new locals are in scope after the statement
    Local { locals: Locals, values: ListId },
    /// `local function f`: the local is in scope inside the function
    LocalFunction { local: LocalId, func: FuncId },
    /// `function a.b:c()`: `target` is what may be assigned to; assigned on line `line` of the statement
    Function { target: ExprId, func: FuncId },
    /// A call as a statement; a `Call` or `MethodCall`
    Call(ExprId),
    /// `do ... end`
    Do { body: Block, end_line: u32 },
    /// `while cond do ... end`; `end_line` is that of its `end`
    While { cond: ExprId, body: Block, end_line: u32 },
    /// `repeat ... until cond`; cond sees the body's locals
    Repeat { body: Block, cond: ExprId, end_line: u32 },
    /// `if` and its `elseif`s (in order); and the `else`
    If { arms: Arms, otherwise: Option<Block>, end_line: u32 },
    /// `for var = start, limit [, step] do`
    NumericFor(NumericForId),
    /// `for vars in exprs do`
    GenericFor(GenericForId),
    /// `goto label`; the parser has seen that there is one that it may jump to
    Goto(StrId),
    /// `break` (the manual's `goto break`), in a loop
    Break,
    /// `::label::`, the only one of its name that is visible in its function
    Label(StrId),
    /// `return values`
    Return(ListId),
}

/// See [`StatKind::NumericFor`].
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct NumericFor {
    pub var: LocalId,
    pub start: ExprId,
    pub limit: ExprId,
    pub step: Option<ExprId>,
    pub do_line: u32,
    pub body: Block,
    pub end_line: u32,
}

/// See [`StatKind::GenericFor`].
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct GenericFor {
    pub vars: Locals,
    pub exprs: ListId,
    pub do_line: u32,
    pub body: Block,
    pub end_line: u32,
}

/// Expressions (manual 3.4). Large chunks have hundreds of thousands of them, and each page that they fill is
/// a fault when a chunk is loaded for the first time: what varies in length is elsewhere.
#[derive(Clone, Copy, Debug)]
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
    /// A global: the field `name` of what `_ENV` means there
    Global { env: LocalId, name: StrId },
    /// `obj[key]`
    Index { obj: ExprId, key: ExprId },
    /// `obj.name`
    Dot { obj: ExprId, name: StrId },
    /// `func(args)`
    Call { func: ExprId, args: ListId },
    /// `obj:name(args)`
    MethodCall { obj: ExprId, name: StrId, args: ListId },
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
    Table { fields: Fields },
}

/// A field of a table constructor.
#[derive(Clone, Copy, Debug)]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_stay_small() {
        assert_eq!((size_of::<Expr>(), size_of::<Field>(), size_of::<Stat>()), (16, 12, 28));
    }
}
