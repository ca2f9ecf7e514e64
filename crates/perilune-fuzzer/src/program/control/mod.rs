//! Programs about control: where a function goes on, and who else has its variables.
//!
//! Machine code keeps variables in registers of the processor and builds functions in place of their calls.
//! So these programs have variables that closures share and change, also from round to round of a loop and
//! after its end; arguments that are passed on through several small functions, adjusted, counted, selected;
//! loops that yield in their bodies, iterators and metamethods; blocks with variables to be closed that are
//! left in every way; jumps to and fro, into loops with two entries, too; errors of every kind of value, in
//! the middle of an expression, with the names that messages have for variables; and functions that are
//! replaced while they run. Hot functions are called with what their parameters are for until they have been
//! compiled, and then with anything, and what they call is replaced.
//!
//! Functions that others may get hold of are *tame*: they call only those by name that have been made before
//! them. So nothing recurs without an end, and comparators and the like never yield, where the reference
//! could not.
//!
//! The first line of a program says with which variables ours runs.

mod expr;
mod functions;
mod loops;
mod stat;

use super::{Node, Program, environment};
use crate::literal;
use crate::rng::Rng;

const PRELUDE: &str = include_str!("control.lua");

/// What a variable holds most of the time, or an expression gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Num,
    Str,
    /// A tame function of a number and others, which gives a number first.
    Fun,
    /// One of the prelude's lists.
    List,
    Any,
}
use Kind::{Any, Fun, List, Num, Str};

/// A variable.
#[derive(Clone, Debug)]
struct Var {
    name: String,
    kind: Kind,
    /// It is constant.
    fixed: bool,
}

/// A function that is called again and again.
#[derive(Clone, Debug)]
struct Hot {
    name: String,
    parameters: Vec<Kind>,
    /// It yields, wherever it is called.
    yields: bool,
}

/// When functions are recorded, for how many instructions, and how often a round calls one.
const MODES: &[(&str, usize)] = &[
    ("blocking:2:60", 25),
    ("blocking:2:60", 25),
    ("blocking:3:200", 30),
    ("blocking:6:1000", 50),
    ("blocking:40:600", 90),
];

/// A program.
pub fn generate(rng: &mut Rng) -> Program {
    let (mode, calls) = MODES[rng.below(MODES.len())];
    let mut nodes = vec![Node::leaf(environment(rng, &[mode])), Node::leaf(PRELUDE)];
    let mut g = Control {
        rng,
        vars: Vec::new(),
        small: Vec::new(),
        hot: Vec::new(),
        names: 0,
        depth: 0,
        labels: Vec::new(),
        left: 0,
        vararg: false,
        tame: false,
        yields: false,
    };
    for _ in 0..1 + g.rng.below(3) {
        nodes.push(g.small());
    }
    for _ in 0..2 + g.rng.below(2) {
        nodes.push(g.hot());
    }
    for _ in 0..2 + g.rng.below(3) {
        let n = g.rng.below(g.hot.len());
        nodes.extend(g.round(n, calls));
    }
    Program(nodes)
}

struct Control<'r> {
    rng: &'r mut Rng,
    /// What can be seen in the function that is written, and is not the prelude's.
    vars: Vec<Var>,
    /// Small tame functions so far.
    small: Vec<String>,
    /// Hot functions so far.
    hot: Vec<Hot>,
    names: usize,
    /// Blocks around this point in the outermost function.
    depth: usize,
    /// Labels at the ends of the bodies of the loops around this point in the innermost function.
    labels: Vec<String>,
    /// Statements that the outermost function may still have.
    left: usize,
    /// The innermost function has variable arguments.
    vararg: bool,
    /// It may call only what is known by name.
    tame: bool,
    /// It may yield, wherever it is called.
    yields: bool,
}

impl Control<'_> {
    fn fresh(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    fn kind(&mut self) -> Kind {
        [Num, Num, Num, Num, Str, Str, Fun, List, Any][self.rng.below(9)]
    }

    fn declare(&mut self, prefix: &str, kind: Kind) -> String {
        let name = self.fresh(prefix);
        self.vars.push(Var { name: name.clone(), kind, fixed: false });
        name
    }

    /// A variable of a kind, if there is one; the latest are met more often.
    fn variable(&mut self, kind: Kind) -> Option<String> {
        let all: Vec<usize> = (0..self.vars.len()).filter(|&n| self.vars[n].kind == kind).collect();
        let n = all.len().checked_sub(1)?;
        let back = self.rng.below(n + 1).min(self.rng.below(n + 1));
        Some(self.vars[all[n - back]].name.clone())
    }

    /// What can be assigned to: a variable of a kind, or one of the prelude's.
    fn place(&mut self, kind: Kind) -> String {
        let all: Vec<usize> =
            (0..self.vars.len()).filter(|&n| self.vars[n].kind == kind && !self.vars[n].fixed).collect();
        if !all.is_empty() && !self.rng.one_in(8) {
            return self.vars[all[self.rng.below(all.len())]].name.clone();
        }
        match kind {
            Num => "total".into(),
            Str => "word".into(),
            Fun => format!("F.{}", self.rng.pick(&["f", "g"])),
            List => format!("T[{}]", self.rng.range(1, 3)),
            Any => "kept.any".into(),
        }
    }

    /// The body of a function inside the one that is written, with its parameters; the loops around are out of
    /// reach.
    fn inside(&mut self, parameters: &[(&str, Kind)], vararg: bool, write: impl FnOnce(&mut Self)) {
        let mark = self.vars.len();
        let before = (std::mem::take(&mut self.labels), self.vararg, self.tame, self.yields);
        self.vararg = vararg;
        let named =
            parameters.iter().map(|(name, kind)| Var { name: (*name).into(), kind: *kind, fixed: false });
        self.vars.extend(named);
        write(self);
        (self.labels, self.vararg, self.tame, self.yields) = before;
        self.vars.truncate(mark);
    }

    /// A small function of two numbers, or more, which gives a number first.
    fn small(&mut self) -> Node {
        (self.depth, self.left) = (2, self.rng.below(4));
        let name = self.fresh("s");
        let vararg = self.rng.one_in(2);
        let mut body = Vec::new();
        self.inside(&[("a", Num), ("b", Num)], vararg, |g| {
            g.tame = true;
            let b = g.rng.pick(&["b or 2", "tonumber(b) or 2", "num(b)"]);
            body.push(Node::leaf(format!("a, b = a or 1, {b}")));
            while g.left > 0 {
                body.push(g.statement());
            }
            body.push(Node::leaf(format!("return {}", g.results(true))));
        });
        self.small.push(name.clone());
        let dots = if vararg { ", ..." } else { "" };
        Node::block(format!("local function {name}(a, b{dots})"), body, "end")
    }

    /// A hot function. Its first parameter is the number of the call.
    fn hot(&mut self) -> Node {
        (self.depth, self.left) = (0, 6 + self.rng.below(10));
        let name = self.fresh("h");
        let yields = self.rng.one_in(3);
        let mut parameters = vec![Num, [Num, Num, Num, Str][self.rng.below(4)]];
        for _ in 0..self.rng.below(3) {
            parameters.push(self.kind());
        }
        let names: Vec<(&str, Kind)> =
            ["i", "a", "b", "c"].into_iter().zip(parameters.iter().copied()).collect();
        let vararg = self.rng.one_in(2);
        let mut body = vec![Node::leaf("tick()")];
        self.inside(&names, vararg, |g| {
            g.yields = yields;
            for _ in 0..1 + g.rng.below(2) {
                body.push(g.local());
            }
            while g.left > 0 {
                body.push(g.statement());
            }
            body.push(Node::leaf(format!("return {}", g.results(false))));
        });
        self.hot.push(Hot { name: name.clone(), parameters, yields });
        let mut list: Vec<&str> = names.iter().map(|n| n.0).collect();
        if vararg {
            list.push("...");
        }
        Node::block(format!("local function {name}({})", list.join(", ")), body, "end")
    }

    // What is done with hot functions.

    /// Calls of a hot function, often with what it is for, then with something else; between them something
    /// changes.
    fn round(&mut self, n: usize, calls: usize) -> Vec<Node> {
        let Hot { name, parameters, yields } = self.hot[n].clone();
        let mut nodes = Vec::new();
        for _ in 0..1 + self.rng.below(3) {
            let way = match yields && !self.rng.one_in(12) {
                true => self.rng.pick(&["resumed", "wrapped"]),
                false => {
                    self.rng.pick(&["plain", "plain", "plain", "handled", "resumed", "wrapped", "iterator"])
                }
            };
            let list = self.arguments(&parameters, 12);
            let times = calls / 2 + self.rng.below(calls);
            nodes.push(Node::leaf(format!("often('{way}', {name}, {times}{list})")));
            for _ in 0..self.rng.below(5) {
                let first = self.rng.range(0, 40);
                let list = match self.rng.below(3) {
                    0 => {
                        let count = self.rng.below(6);
                        (0..count).map(|_| format!(", {}", self.argument(Any))).collect()
                    }
                    odd => self.arguments(&parameters, 2 * odd + 1),
                };
                let how = if yields { "begin" } else { "once" };
                nodes.push(Node::leaf(format!("{how}({name}, {first}{list})")));
            }
            for _ in 0..self.rng.below(3) {
                nodes.push(Node::leaf(self.change()));
            }
        }
        nodes
    }

    /// Arguments behind the number of the call, one in `odd` of any kind.
    fn arguments(&mut self, parameters: &[Kind], odd: usize) -> String {
        let mut list = String::new();
        for &kind in &parameters[1..] {
            let kind = if self.rng.one_in(odd) { Any } else { kind };
            list.push_str(&format!(", {}", self.argument(kind)));
        }
        for _ in 0..self.rng.below(4) {
            let kind = if self.rng.one_in(3) { Any } else { Num };
            list.push_str(&format!(", {}", self.argument(kind)));
        }
        list
    }

    fn argument(&mut self, kind: Kind) -> String {
        match kind {
            Num => match self.rng.below(6) {
                0 => literal::float(self.rng.range(-8, 40) as f64 / 4.0),
                1 => self.rng.range(-200, 3000).to_string(),
                _ => self.rng.range(-2, 12).to_string(),
            },
            Str => self.rng.pick(&["'abc'", "'x'", "'10'", "'0x1F'", "''", "'hello world'", "'7.5'"]).into(),
            Fun => match self.rng.below(4) {
                0 => self.rng.pick(&["num", "F.f", "F.g", "size", "T[1]", "math.abs"]).into(),
                1 => "function(v, ...) total = (total + 1) % 997 return num(v), ... end".into(),
                _ => self.small[self.rng.below(self.small.len())].clone(),
            },
            List => match self.rng.below(3) {
                0 => format!("list{{{}, 2.5, {}, 4}}", self.rng.range(-3, 9), self.rng.range(0, 99)),
                _ => format!("T[{}]", self.rng.range(1, 3)),
            },
            Any => match self.rng.below(9) {
                0 | 1 => "nil".into(),
                2 => self.rng.pick(&["true", "false", "{}", "tonumber"]).into(),
                3 => self
                    .rng
                    .pick(&["2^53", "math.mininteger", "math.maxinteger", "1e15", "-0.0", "1e100", "0.1"])
                    .into(),
                _ => {
                    let kind = [Num, Str, Fun, List][self.rng.below(4)];
                    self.argument(kind)
                }
            },
        }
    }

    /// What hot functions use is replaced.
    fn change(&mut self) -> String {
        let hot = self.hot[self.rng.below(self.hot.len())].name.clone();
        let other = self.hot[self.rng.below(self.hot.len())].name.clone();
        let small = self.small[self.rng.below(self.small.len())].clone();
        let (f, any) = (self.argument(Fun), self.argument(Any));
        match self.rng.below(14) {
            0 => format!("F.f = {f}"),
            1 => format!("F.g = {any}"),
            // Not by another small one, which may call it.
            2 => format!(
                "{small} = {}",
                self.rng.pick(&["num", "size", "math.abs", "function(v, ...) return num(v), ... end"])
            ),
            3 => format!("T[{}] = {}", self.rng.range(1, 3), self.argument(List)),
            4 => format!("T[{}].f = {f}", self.rng.range(1, 3)),
            5 => format!("kept[{}] = {f}", self.rng.range(1, 6)),
            6 => "kept = {}".into(),
            7 => format!("{hot}, {other} = {other}, {hot}"),
            8 => "word = '5'".into(),
            9 => "total = total + 0.5".into(),
            10 => "function List:get(k) return num(self[k]), self end".into(),
            11 => "List.__index = function(o, k) return rawget(List, k) end".into(),
            12 => "pass = function(...) return ... end".into(),
            _ => format!("T[{}].x = {}", self.rng.range(1, 3), self.rng.pick(&["0.5", "'8'", "3", "2^53"])),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::program::tests::compile_and_repeat;

    #[test]
    fn programs_compile_and_repeat() {
        compile_and_repeat(300, super::generate);
    }
}
