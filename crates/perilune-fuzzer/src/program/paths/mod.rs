//! Programs about ways through a function: some are taken from the beginning, others much later.
//!
//! They are for what machine code takes for true. It is built from the ways that have been taken while the
//! program was recorded; on the others the interpreter goes on, and comes back behind a call, at a loop's
//! head, with values that the built ways could not have. So the hot functions of these programs have
//! variables that are copies of others on some ways only: of parameters, upvalues, globals, fields, elements
//! and results. Which way is taken depends on flags and counters that stay the same for most of a round.
//! Between, they call functions that are machine code, give one and several results, yield, raise errors,
//! store into upvalues, and change shapes, kinds of arrays and metatables. Behind that, both the copy and
//! what it may be a copy of are used.
//!
//! The first line of a program says with which variables ours runs.

mod expr;
mod stat;
mod uses;

use super::{Node, Program, environment};
use crate::rng::Rng;

const PRELUDE: &str = include_str!("paths.lua");

/// What a variable holds, or an expression gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A sequence of at least three numbers that has fields.
    Table,
    /// A table with elements of any kind, and holes.
    Bag,
    /// A function of a number, which gives one first.
    Function,
    Number,
    Text,
    /// A boolean; now and then nil.
    Flag,
}
use Kind::{Bag, Flag, Function, Number, Table, Text};

/// A variable.
#[derive(Clone, Debug)]
struct Var {
    name: String,
    kind: Kind,
    /// It is what a loop counts with, from 1 to 5.
    small: bool,
}

/// A function of the program, which gives a number first.
#[derive(Clone, Debug)]
struct Callee {
    name: String,
    parameters: Vec<Kind>,
    vararg: bool,
}

/// How often functions are called before something is recorded, for how many instructions, and how often a
/// round calls one before something changes.
const MODES: &[(&str, usize)] = &[
    ("blocking:2:60", 30),
    ("blocking:3:200", 40),
    ("blocking:3:200", 60),
    ("blocking:6:1000", 80),
    ("blocking:40:600", 150),
    ("blocking:200:2000", 500),
];
/// Ways to run a function, of the prelude.
const WAYS: &[&str] = &["protected", "protected", "through", "coroutine", "resumed", "hooked", "tail"];
/// A program.
pub fn generate(rng: &mut Rng) -> Program {
    let (mode, calls) = MODES[rng.below(MODES.len())];
    let mut nodes = vec![Node::leaf(environment(rng, &[mode])), Node::leaf(PRELUDE)];
    let mut g = Paths {
        rng,
        vars: Vec::new(),
        setters: Vec::new(),
        callees: Vec::new(),
        names: 0,
        depth: 0,
        loops: 0,
        left: 0,
        hot: false,
        vararg: false,
    };
    for _ in 0..1 + g.rng.below(3) {
        nodes.push(g.function(false));
    }
    let small = g.callees.len();
    for _ in 0..2 + g.rng.below(3) {
        nodes.push(g.function(true));
    }
    let hot = g.callees[small..].to_vec();
    for _ in 0..3 + g.rng.below(4) {
        let callee = &hot[g.rng.below(hot.len())];
        if g.rng.one_in(2) {
            nodes.push(Node::leaf("fill()"));
        }
        nodes.push(g.round(callee, calls));
    }
    Program(nodes)
}

struct Paths<'r> {
    rng: &'r mut Rng,
    /// What can be seen.
    vars: Vec<Var>,
    /// Local functions that store into a variable of the function that is being written.
    setters: Vec<(String, Kind)>,
    /// Functions so far.
    callees: Vec<Callee>,
    names: usize,
    /// Blocks around this point in the function.
    depth: usize,
    /// Loops around this point in the function.
    loops: usize,
    /// Statements that the function may still have.
    left: usize,
    /// The function that is being written is one of those that rounds call.
    hot: bool,
    /// It has variable arguments.
    vararg: bool,
}

impl Paths<'_> {
    fn fresh(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    fn kind(&mut self) -> Kind {
        [Table, Table, Table, Table, Bag, Function, Function, Number, Text, Flag][self.rng.below(10)]
    }

    fn declare(&mut self, prefix: &str, kind: Kind) -> String {
        let name = self.fresh(prefix);
        self.vars.push(Var { name: name.clone(), kind, small: false });
        name
    }

    /// A variable of a kind, if there is one.
    fn var(&mut self, kind: Kind) -> Option<String> {
        let all: Vec<&Var> = self.vars.iter().filter(|v| v.kind == kind && !v.small).collect();
        (!all.is_empty()).then(|| all[self.rng.below(all.len())].name.clone())
    }

    /// Another of a kind: a variable, or what may be its equal.
    fn other(&mut self, kind: Kind, than: &str) -> String {
        for _ in 0..4 {
            match self.var(kind) {
                Some(other) if other != than => return other,
                _ => {}
            }
        }
        self.expr(kind, 1)
    }

    /// Two of a kind, different ones most of the time.
    fn pair(&mut self, kind: Kind) -> (String, String) {
        let one = match self.var(kind) {
            Some(v) => v,
            None => self.expr(kind, 0),
        };
        let other = self.other(kind, &one);
        (one, other)
    }

    // Functions.

    /// A function. What it may call are those before it.
    fn function(&mut self, hot: bool) -> Node {
        let mut parameters = match hot {
            true => vec![Table, Table, Flag, Number],
            false => vec![Table, Number],
        };
        for _ in 0..self.rng.below(if hot { 6 } else { 3 }) {
            let kind = self.kind();
            parameters.push(kind);
        }
        self.vararg = self.rng.one_in(8);
        (self.hot, self.depth, self.loops) = (hot, 0, 0);
        self.left = if hot { 10 + self.rng.below(14) } else { 1 + self.rng.below(5) };
        (self.vars, self.setters) = (Vec::new(), Vec::new());
        let list: Vec<String> = parameters.iter().map(|&kind| self.declare("p", kind)).collect();
        let mut list = list.join(", ");
        if self.vararg {
            list.push_str(", ...");
        }
        let mut body = vec![Node::leaf("tick()")];
        for _ in 0..self.rng.below(if hot { 5 } else { 2 }) + usize::from(hot) {
            // Often of a kind that there is.
            let kind = match self.rng.one_in(3) {
                true => self.kind(),
                false => self.vars[self.rng.below(self.vars.len())].kind,
            };
            let e = self.expr(kind, 1);
            let name = self.declare("x", kind);
            body.push(Node::leaf(format!("local {name} = {e}")));
        }
        body.push(Node::leaf("local r, w = 0, ''"));
        if self.rng.one_in(if hot { 3 } else { 12 }) {
            body.push(self.setter());
        }
        while self.left > 0 {
            body.push(self.statement());
        }
        let name = self.fresh(if hot { "h" } else { "c" });
        body.push(Node::leaf(self.give_back(&name, &parameters)));
        let vararg = self.vararg;
        self.callees.push(Callee { name: name.clone(), parameters, vararg });
        Node::block(format!("local function {name}({list})"), body, "end")
    }

    /// A closure that stores into a variable of this function.
    fn setter(&mut self) -> Node {
        let v = &self.vars[self.rng.below(self.vars.len())];
        let (variable, kind) = (v.name.clone(), v.kind);
        let name = self.fresh("put");
        self.setters.push((name.clone(), kind));
        match self.rng.below(3) {
            0 => Node::leaf(format!("local function {name}(v) {variable} = v return r end")),
            1 => {
                Node::leaf(format!("local function {name}(v) local s = count(2) {variable} = v return s end"))
            }
            _ => Node::leaf(format!("local {name} = function(v) {variable}, r = v, r + 1 return 1 end")),
        }
    }

    fn give_back(&mut self, name: &str, parameters: &[Kind]) -> String {
        let (p, q) = self.pair(Table);
        let k = self.kind();
        let e = self.expr(k, 1);
        let call = self.call();
        match self.rng.below(8) {
            0 => "return r".into(),
            1 => format!("return r, {p} == {q}, {e}"),
            2 => format!("return r, w, {p}, {q}"),
            3 if !self.hot => format!("return {call}"),
            4 => format!("return r, {call}"),
            5 if self.vararg => "return r, ...".into(),
            6 if self.hot && self.rng.one_in(2) => {
                let list: Vec<String> = parameters.iter().map(|&kind| self.expr(kind, 0)).collect();
                format!("if r % 4 == 1 then return {name}({}) end return r, w, {e}", list.join(", "))
            }
            _ => format!("return r, w, {e}"),
        }
    }

    // Rounds.

    /// Calls of a function: at first with what stays the same, then with what changes.
    fn round(&mut self, callee: &Callee, calls: usize) -> Node {
        let first = 1 + calls / 2 + self.rng.below(calls);
        let last = first + calls / 2 + 20 + self.rng.below(calls);
        let mut list: Vec<String> =
            callee.parameters.iter().map(|&kind| self.argument(kind, first)).collect();
        if callee.vararg {
            for _ in 0..self.rng.below(3) {
                let kind = self.kind();
                list.push(self.argument(kind, first));
            }
        }
        let list = list.join(", ");
        let name = &callee.name;
        let call = match self.rng.below(3) {
            0 => format!("keep(i, way.{}({name}, {list}))", self.rng.pick(WAYS)),
            _ => format!("keep(i, {name}({list}))"),
        };
        let mut body = vec![Node::leaf("at = i")];
        if self.rng.one_in(3) {
            let change = match self.rng.below(4) {
                0 => format!("mix(M[{}], {})", self.rng.range(1, 2), self.rng.below(10)),
                1 => format!(
                    "upflag, gflag = {}, not gflag",
                    self.rng.pick(&["true", "not upflag", "i % 2 == 0"])
                ),
                2 => "set_up(T[1 + i % 3])".into(),
                _ => format!("change(T[{}], {})", self.rng.range(1, 2), self.rng.below(21)),
            };
            let when = match self.rng.below(3) {
                0 => format!("i == {first}"),
                1 => format!("i > {first} and i % 5 == 0"),
                _ => format!("i % {} == 0", self.rng.range(7, 40)),
            };
            body.push(Node::leaf(format!("if {when} then {change} end")));
        }
        body.push(Node::leaf(call));
        Node::block(
            format!("round({last}, function(first, last)"),
            vec![Node::block("for i = first, last do", body, "end")],
            "end)",
        )
    }

    /// What a function is called with: the same until call number `first`, most of the time.
    fn argument(&mut self, kind: Kind, first: usize) -> String {
        let (usual, other) = match kind {
            Table => (
                format!("T[{}]", self.rng.range(1, 2)),
                match self.rng.below(3) {
                    0 => format!("T[{}]", self.rng.range(1, 5)),
                    1 => format!("T[1 + i % {}]", self.rng.range(2, 5)),
                    _ => "up".into(),
                },
            ),
            Bag => (format!("M[{}]", self.rng.range(1, 5)), format!("M[1 + i % {}]", self.rng.range(2, 5))),
            Function => {
                (format!("F[{}]", self.rng.range(1, 7)), format!("F[1 + i % {}]", self.rng.range(2, 7)))
            }
            Number => {
                let usual = self.rng.pick(&["0", "1", "i", "i % 5", "1.5", "i * 0.5"]);
                let other = self.rng.pick(&["i % 3", "i % 4", "2.5", "i % 2 + 0.5", "i"]);
                (usual.into(), other.into())
            }
            Text => (self.rng.pick(&["'s'", "'text'"]).into(), self.rng.pick(&["'s' .. i % 3", "''"]).into()),
            Flag => {
                let usual = self.rng.one_in(2);
                (usual.to_string(), (!usual).to_string())
            }
        };
        let when = match self.rng.below(6) {
            0 | 1 => format!("i < {first}"),
            2 | 3 => format!("(i < {first} or i % {} ~= {})", self.rng.range(2, 7), self.rng.range(0, 1)),
            4 => format!("i % {} ~= 0", self.rng.range(9, 50)),
            _ => return usual,
        };
        match kind {
            Flag if usual == "true" => when,
            Flag => format!("not ({when})"),
            _ => format!("({when} and {usual} or {other})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::tests::compile_and_repeat;

    #[test]
    fn programs_compile_and_repeat() {
        compile_and_repeat(200, generate);
    }
}
