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
/// Functions of the prelude that take a number, and give one first.
const COUNTING: &[&str] = &["count", "count", "count", "kinds", "several", "wait", "down"];

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
        body.push(Node::leaf(self.give_back()));
        let name = self.fresh(if hot { "h" } else { "c" });
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

    fn give_back(&mut self) -> String {
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
            _ => format!("return r, w, {e}"),
        }
    }

    // Statements.

    fn block(&mut self, statements: usize) -> Vec<Node> {
        self.depth += 1;
        let mark = self.vars.len();
        let nodes = (0..1 + self.rng.below(statements)).map(|_| self.statement()).collect();
        self.vars.truncate(mark);
        self.depth -= 1;
        nodes
    }

    fn statement(&mut self) -> Node {
        self.left = self.left.saturating_sub(1);
        let deep = self.depth >= 3 || self.left == 0;
        match self.rng.below(32) {
            0..=6 => self.choice(),
            7..=8 => {
                let kind = self.kind();
                Node::leaf(self.copy(kind))
            }
            9..=12 => Node::leaf(self.calling()),
            13..=19 => self.using(),
            20..=22 => Node::leaf(self.changing()),
            23..=26 if !deep && self.loops < 2 => self.repeated(),
            27 | 28 if !deep => {
                let mut parts = vec![(format!("if {} then", self.condition()), self.block(3))];
                if self.rng.one_in(3) {
                    parts.push((format!("elseif {} then", self.condition()), self.block(2)));
                }
                if self.rng.one_in(2) {
                    parts.push(("else".into(), self.block(2)));
                }
                Node { parts, tail: "end".into() }
            }
            29 if self.loops > 0 => {
                let jump = self.rng.pick(&["break", "goto continue"]);
                Node::leaf(format!("if {} then {jump} end", self.condition()))
            }
            29 | 30 if !deep && self.vars.len() < 24 => {
                let kind = self.kind();
                let e = self.expr(kind, 2);
                Node::leaf(format!("local {} = {e}", self.declare("y", kind)))
            }
            31 if self.rng.one_in(3) => {
                let (c, e) = (self.condition(), self.expr(Number, 1));
                Node::leaf(format!("if {c} then return r + {e}, w end"))
            }
            _ => self.using(),
        }
    }

    /// `v = e`
    fn copy(&mut self, kind: Kind) -> String {
        match self.var(kind) {
            Some(v) if self.rng.one_in(2) => format!("{v} = {}", self.other(kind, &v)),
            Some(v) => format!("{v} = {}", self.expr(kind, 1)),
            None => "r = r + 1".into(),
        }
    }

    /// A variable becomes the one or the other; then often a call, and a use.
    fn choice(&mut self) -> Node {
        let kind = self.kind();
        let Some(v) = self.var(kind) else { return self.using() };
        let arm = |g: &mut Self| {
            let mut text = match g.rng.one_in(3) {
                true => format!("{v} = {}", g.expr(kind, 1)),
                false => format!("{v} = {}", g.other(kind, &v)),
            };
            if g.rng.one_in(4) {
                let other = g.kind();
                text = format!("{text} {}", g.copy(other));
            }
            Node::leaf(text)
        };
        let mut parts = vec![(format!("if {} then", self.condition()), vec![arm(self)])];
        if self.rng.one_in(4) {
            let condition = self.condition();
            parts.push((format!("elseif {condition} then"), vec![arm(self)]));
        }
        if !self.rng.one_in(3) {
            parts.push(("else".into(), vec![arm(self)]));
        }
        let branch = Node { parts, tail: "end".into() };
        if self.rng.one_in(3) {
            return branch;
        }
        let call = self.calling();
        let other = self.other(kind, &v);
        let uses = self.use_both(kind, &v, &other);
        Node {
            parts: vec![("do".into(), vec![branch, Node::leaf(call), Node::leaf(uses)])],
            tail: "end".into(),
        }
    }

    /// A call as a statement.
    fn calling(&mut self) -> String {
        let call = self.call();
        match self.rng.below(9) {
            0 => {
                let (f, e) = (self.rng.pick(&["raise", "raise", "wait", "kinds"]), self.expr(Number, 1));
                format!("do local ok, e = pcall({f}, {e}) r = r + (ok and e or 1) end")
            }
            1 => {
                let kind = self.kind();
                let assignment = self.copy(kind);
                format!("if pcall(function() {assignment} r = r + {call} end) then r = r + 1 end")
            }
            2 => format!("do local u, v = several({}) r = r + u + (v or 7) end", self.expr(Number, 1)),
            3 => match self.var(Number) {
                Some(v) => format!("{v} = {call}"),
                None => format!("r = r + {call}"),
            },
            4 => format!("r = r + count({call})"),
            5 => format!("r = r + math.max({call}, {})", self.expr(Number, 1)),
            _ => format!("r = r + {call}"),
        }
    }

    /// A call that gives a number, and changes little.
    fn call(&mut self) -> String {
        if !self.callees.is_empty() && self.rng.one_in(4) && (self.loops == 0 || self.rng.one_in(2)) {
            let callee = self.callees[self.rng.below(self.callees.len())].clone();
            return self.call_of(&callee);
        }
        if !self.setters.is_empty() && self.rng.one_in(3) {
            let (name, kind) = self.setters[self.rng.below(self.setters.len())].clone();
            let e = self.expr(kind, 0);
            return match self.rng.one_in(3) {
                true => format!("apply({name}, {e})"),
                false => format!("({name}({e}))"),
            };
        }
        let e = self.expr(Number, 0);
        match self.rng.below(9) {
            0 => format!("(apply({}, {e}))", self.expr(Function, 0)),
            1 if self.rng.one_in(3) => format!("(raise({e}))"),
            2 => {
                let t = self.expr(Table, 0);
                let way = self.rng.pick(&["get", "get", "f"]);
                if way == "f" { format!("({t}.f({e}))") } else { format!("({t}:get({e}))") }
            }
            3 => format!("({}({e}))", self.expr(Function, 0)),
            _ => format!("({}({e}))", self.rng.pick(COUNTING)),
        }
    }

    fn call_of(&mut self, callee: &Callee) -> String {
        let mut list: Vec<String> = callee.parameters.iter().map(|&kind| self.expr(kind, 0)).collect();
        if callee.vararg {
            for _ in 0..self.rng.below(3) {
                let kind = self.kind();
                list.push(self.expr(kind, 0));
            }
        }
        format!("({}({}))", callee.name, list.join(", "))
    }

    /// What the reads of variables may not notice, if they are facts.
    fn changing(&mut self) -> String {
        let (t, m) = (self.expr(Table, 0), self.expr(Bag, 0));
        let how = match self.rng.below(3) {
            0 => self.rng.below(21).to_string(),
            1 => format!("({} and {} or {})", self.condition(), self.rng.below(21), self.rng.range(5, 22)),
            _ => format!("({} and {} or 99)", self.condition(), self.rng.below(21)),
        };
        match self.rng.below(12) {
            0..=3 => format!("r = r + change({t}, {how})"),
            4 => format!("r = r + mix({m}, {})", self.rng.below(10)),
            5 => format!("if {} then r = r + mix({m}, {}) end", self.condition(), self.rng.below(10)),
            6 => format!("set_up({})", self.expr(Table, 1)),
            7 => format!("set_upf({})", self.expr(Function, 1)),
            8 => format!("set_upn({}) set_upflag({})", self.expr(Number, 1), self.expr(Flag, 1)),
            9 => format!("set_global({t}, {}, {})", self.expr(Function, 0), self.expr(Number, 0)),
            10 => format!("set_mod({t}, {}, {})", self.expr(Function, 0), self.expr(Number, 0)),
            _ => {
                let kind = self.kind();
                let (target, e) = self.shared(kind);
                format!("{target} = {}", e.unwrap_or_else(|| self.expr(kind, 1)))
            }
        }
    }

    /// A place outside of this function, and what is stored there if it does not take all of the kind.
    fn shared(&mut self, kind: Kind) -> (String, Option<String>) {
        match kind {
            Table => (self.rng.pick(&["up", "gt", "mod.t"]).into(), None),
            Function => (self.rng.pick(&["upf", "gf", "mod.f"]).into(), None),
            Flag => (self.rng.pick(&["upflag", "gflag"]).into(), None),
            _ => (self.rng.pick(&["upn", "gn", "mod.n"]).into(), Some(self.expr(Number, 1))),
        }
    }

    fn using(&mut self) -> Node {
        let kind = self.kind();
        let (p, q) = self.pair(kind);
        Node::leaf(self.use_both(kind, &p, &q))
    }

    /// Uses of two values that are one, perhaps. They are in variables, as the text of other expressions can
    /// be no statement's beginning.
    fn use_both(&mut self, kind: Kind, p: &str, q: &str) -> String {
        let is_variable = |e: &str| e.bytes().all(|b| b.is_ascii_alphanumeric()) && !e.ends_with("nil");
        match (is_variable(p), is_variable(q)) {
            (true, true) => self.use_variables(kind, p, q),
            (true, false) => format!("do local o = {q} {} end", self.use_variables(kind, p, "o")),
            (false, true) => format!("do local o = {p} {} end", self.use_variables(kind, "o", q)),
            (false, false) => format!("do local o, u = {p}, {q} {} end", self.use_variables(kind, "o", "u")),
        }
    }

    fn use_variables(&mut self, kind: Kind, p: &str, q: &str) -> String {
        let (e, f) = (self.expr(Number, 1), self.expr(Number, 0));
        let k = self.index();
        match kind {
            Table => match self.rng.below(20) {
                0..=2 => format!("r = (r + {p}[1] * 10 + {q}[1]) % 9973"),
                3 => format!("r = (r + {p}[{k}] * 10 + {q}[{k}]) % 9973"),
                4 => format!("w = string.sub(w .. ({p}.name or 'o') .. ({q}.name or 'o'), -9)"),
                5 => format!("r = r + #{p} * 3 + #{q}"),
                6 => format!("{p}[2] = {e} {q}[2] = {f} r = (r + {p}[2] * 10 + {q}[2]) % 9973"),
                7 => format!("{p}[{k}] = {e} {q}[3] = {f} r = (r + {p}[{k}] * 2 + {q}[{k}]) % 9973"),
                8 => format!("{p}.x = {e} r = (r + {q}.x) % 9973"),
                9 => format!("{p}.x = ({p}.x + 1) % 99 {q}.x = ({q}.x + 2) % 99 r = r + {p}.x - {q}.x"),
                10 => format!("if {p} == {q} then r = r + 1 else r = r * 2 % 9973 end"),
                11 => format!("if #{p} < 9 then {p}[#{p} + 1] = {e} end r = (r + #{q} + {q}[#{q}]) % 9973"),
                12 => format!("if #{p} > 3 then {p}[#{p}] = nil end r = r + #{q}"),
                13 => format!("{p}.z = nil r = r + ({q}.z or 3)"),
                14 => format!("{p}.z = {e} r = (r + ({q}.z or 3)) % 9973"),
                15 => format!("r = (r + {p}:get({f}) * 10 + {q}:get({f})) % 9973"),
                16 => format!("r = (r + {p}.f({f}) * 10 + {q}.f({f})) % 9973"),
                17 => format!("{p}.next, {q}.next = {q}, {p}"),
                18 => format!("{p}.f = {} r = (r + {q}.f({f})) % 9973", self.expr(Function, 0)),
                _ => format!("r = (r + {p}.x * 10 + {q}.x + {q}.y) % 9973"),
            },
            Function => match self.rng.below(4) {
                0 => format!("if {p} == {q} then r = r + 1 else r = r + 2 end"),
                1 => format!("r = (r + {p}({q}({f}))) % 9973"),
                _ => format!("r = (r + {p}({f}) * 100 + {q}({f})) % 9973"),
            },
            Bag => match self.rng.below(8) {
                0 => format!("{p}[2] = nil if {q}[2] then r = r + 1 end"),
                1 => format!(
                    "{p}[{k}] = {} r = r + ({q}[{k}] and 1 or 2)",
                    self.rng.pick(&["true", "false", "'s'", "2", "0.5", "nil"])
                ),
                2 => format!("if {p}[{k}] == {q}[{k}] then r = r + 1 end"),
                3 => format!("if type({p}[{k}]) == 'number' then r = (r + {p}[{k}]) % 9973 end"),
                4 => format!("if {p}[1] then r = r + 1 end if {q}[1] then r = r + 2 end"),
                5 => format!("if {q}.x == {p}.y then r = r + 5 end"),
                6 => {
                    let list = if self.rng.one_in(2) { format!("next, {q}") } else { format!("pairs({q})") };
                    format!("for k, v in {list} do if v == {p}[1] then r = r + 1 end end")
                }
                _ => format!(
                    "r = r + (math.type({p}[{k}]) == 'float' and 1 or 2) + (math.type({q}[{k}]) == 'integer' and 3 or 5)"
                ),
            },
            Number => match self.rng.below(5) {
                0 => format!("if {p} == {q} then r = r + 1 end"),
                1 => format!("if {p} < {q} then r = r + 2 end"),
                2 => format!("if math.type({p}) == math.type({q}) then r = r + 3 end"),
                _ => format!("r = (r * 3 + {p} * 2 + {q} + {e}) % 9973"),
            },
            Text => match self.rng.below(3) {
                0 => format!("if {p} == {q} then r = r + 1 end"),
                1 => format!("r = r + #{p} * 2 + #{q}"),
                _ => format!("w = string.sub(w .. {p} .. {q}, -9)"),
            },
            Flag => match self.rng.below(2) {
                0 => format!("if {p} == {q} then r = r + 1 end"),
                _ => format!("r = r + ({p} and 1 or 2) + ({q} and 4 or 8)"),
            },
        }
    }

    /// A loop.
    fn repeated(&mut self) -> Node {
        self.loops += 1;
        let mark = self.vars.len();
        let i = self.fresh("i");
        let n = self.rng.range(2, 5);
        let t = self.expr(Table, 0);
        let c = self.condition();
        let mut small = true;
        let (head, tail, step) = match self.rng.below(11) {
            0..=3 => (format!("for {i} = 1, {n} do"), "end".into(), None),
            4 => {
                small = false;
                let v = self.fresh("v");
                self.vars.push(Var { name: v.clone(), kind: Number, small: false });
                let list = match self.rng.one_in(2) {
                    true => format!("ipairs({t})"),
                    false => format!("each, {t}, 0"),
                };
                (format!("for {i}, {v} in {list} do"), "end".into(), None)
            }
            5 => (
                format!("local {i} = 0 while {i} < {n} and ({c} or {i} < 2) do"),
                "end".into(),
                Some(format!("{i} = {i} + 1")),
            ),
            6 => (
                format!("local {i} = 0 repeat"),
                format!("until {i} >= {n} or {c}"),
                Some(format!("{i} = {i} + 1")),
            ),
            7 => (format!("for {i} = {n}, 1, -1 do"), "end".into(), None),
            8 => (format!("for {i} in upto({}) do", n - 1), "end".into(), None),
            9 => {
                small = false;
                (format!("for {i} = 1, {} % 5, 1 do", self.expr(Number, 0)), "end".into(), None)
            }
            _ => {
                small = false;
                (format!("for {i} = 1, #{t} do"), "end".into(), None)
            }
        };
        self.vars.push(Var { name: i, kind: Number, small });
        let inner = self.block(4);
        let mut body: Vec<Node> = step.into_iter().map(Node::leaf).collect();
        body.push(Node::block("do", inner, "end"));
        body.push(Node::leaf("::continue::"));
        self.vars.truncate(mark);
        self.loops -= 1;
        Node::block("do", vec![Node::block(head, body, tail)], "end")
    }

    // Expressions.

    /// 1 to 3.
    fn index(&mut self) -> String {
        let small: Vec<&Var> = self.vars.iter().filter(|v| v.small).collect();
        if !small.is_empty() && self.rng.one_in(2) {
            return format!("1 + {} % 3", small[self.rng.below(small.len())].name);
        }
        match self.rng.below(4) {
            0 => "1 + turn % 3".into(),
            _ => self.rng.range(1, 3).to_string(),
        }
    }

    fn condition(&mut self) -> String {
        match self.rng.below(16) {
            0..=5 => self.expr(Flag, 0),
            6 => {
                let v = self.expr(Number, 0);
                let op = self.rng.pick(&["==", "<", ">", ">=", "~="]);
                format!("{v} {op} {}", self.rng.range(0, 6))
            }
            7 => format!("{} % {} == {}", self.expr(Number, 0), self.rng.range(2, 7), self.rng.range(0, 2)),
            8 => {
                let kind = self.kind();
                let (p, q) = self.pair(kind);
                format!("{p} {} {q}", self.rng.pick(&["==", "~="]))
            }
            9 => format!("turn % {} == 0", self.rng.range(2, 30)),
            10 => format!("{}.z", self.expr(Table, 0)),
            11 => format!("not {}", self.expr(Flag, 0)),
            12 => format!("{}[{}]", self.expr(Bag, 0), self.index()),
            13 => format!(
                "type({}[{}]) == '{}'",
                self.expr(Bag, 0),
                self.index(),
                self.rng.pick(&["number", "string", "boolean", "nil"])
            ),
            14 => {
                format!("({} {} {})", self.expr(Flag, 0), self.rng.pick(&["and", "or"]), self.expr(Flag, 0))
            }
            _ => self.expr(Flag, 1),
        }
    }

    fn expr(&mut self, kind: Kind, depth: usize) -> String {
        if (depth == 0 || self.rng.one_in(2))
            && let Some(v) = self.var(kind).filter(|_| !self.rng.one_in(6))
        {
            return v;
        }
        let d = depth.saturating_sub(1);
        match kind {
            Table => self.table(d),
            Bag => match self.rng.below(4) {
                0 => format!("pass(M[{}], M[1])", self.rng.range(1, 5)),
                _ => format!("M[{}]", self.rng.range(1, 5)),
            },
            Function => match self.rng.below(12) {
                0 => format!("{}.f", self.expr(Table, d)),
                1 => "upf".into(),
                2 => "gf".into(),
                3 => "mod.f".into(),
                4 => "math.floor".into(),
                5 => format!("F[{}]", self.rng.range(1, 7)),
                6 if depth > 0 => format!(
                    "({} and {} or {})",
                    self.condition(),
                    self.expr(Function, 0),
                    self.expr(Function, 0)
                ),
                7 if depth > 0 => format!("pass({}, F[2])", self.expr(Function, 0)),
                8 if depth > 0 => format!("same({})", self.expr(Function, 0)),
                9 => "math.abs".into(),
                _ => self.rng.pick(COUNTING).into(),
            },
            Number => self.number(d),
            Text => match self.rng.below(5) {
                0 => format!("({}.name or 'o')", self.expr(Table, d)),
                1 => format!("string.sub({}, 1, 2)", self.expr(Text, 0)),
                2 => format!("type({}[{}])", self.expr(Bag, d), self.index()),
                3 => format!("tostring({})", self.expr(Flag, d)),
                _ => self.rng.pick(&["'s'", "''", "'long'", "'1'"]).into(),
            },
            Flag => match self.rng.below(10) {
                0 => "upflag".into(),
                1 => "gflag".into(),
                2 => self.rng.pick(&["true", "false", "nil"]).into(),
                3 if depth > 0 => format!("({} == {})", self.expr(Table, 0), self.expr(Table, 0)),
                4 if depth > 0 => format!("({} < {})", self.expr(Number, 0), self.expr(Number, 0)),
                5 if depth > 0 => format!("rawequal({}, {})", self.expr(Table, 0), self.expr(Table, 0)),
                6 => format!("({}[{}] == true)", self.expr(Bag, 0), self.index()),
                _ => format!("(turn % {} ~= 0)", self.rng.range(2, 40)),
            },
        }
    }

    fn table(&mut self, d: usize) -> String {
        match self.rng.below(18) {
            0 | 1 => format!("{}.next", self.var(Table).unwrap_or("up".into())),
            2 | 3 => "up".into(),
            4 => "gt".into(),
            5 => "mod.t".into(),
            6 => format!("T[1 + turn % {}]", self.rng.range(1, 5)),
            7 => format!("({} and {} or {})", self.expr(Flag, 0), self.expr(Table, d), self.expr(Table, d)),
            8 => format!("pass({}, T[2])", self.expr(Table, d)),
            9 => format!("same({})", self.expr(Table, d)),
            10 => format!("select(2, 0, {})", self.expr(Table, d)),
            11 => format!(
                "({{{}, 2, 3, x = {}, y = 1, name = 'new', f = count, get = get_x, next = T[1]}})",
                self.expr(Number, 0),
                self.rng.range(0, 4)
            ),
            12 => format!("(rawget({}, 'next') or T[3])", self.expr(Table, d)),
            13 => format!("setmetatable({}, metas[{}])", self.expr(Table, d), self.rng.range(1, 5)),
            _ => format!("T[{}]", self.rng.range(1, 5)),
        }
    }

    fn number(&mut self, d: usize) -> String {
        match self.rng.below(24) {
            0..=2 => self.rng.range(-2, 9).to_string(),
            3 => self.rng.pick(&["0.5", "2.0", "1.25", "-0.5"]).into(),
            4..=6 => format!("{}[{}]", self.expr(Table, d), self.index()),
            7 | 8 => format!("{}.x", self.expr(Table, d)),
            9 => format!("#{}", self.expr(Table, d)),
            10 => format!("({}.z or 3)", self.expr(Table, d)),
            11 => "upn".into(),
            12 => "gn".into(),
            13 => "mod.n".into(),
            14 => format!("({} and 1 or 2.5)", self.expr(Flag, d)),
            15 => format!("({} + {})", self.expr(Number, 0), self.expr(Number, 0)),
            16 => format!("({} * {})", self.expr(Number, 0), self.rng.pick(&["2", "0.5", "3"])),
            17 => format!("({} % 7)", self.expr(Number, 0)),
            18 => format!("#{}", self.expr(Text, 0)),
            19 if self.vararg => "select('#', ...)".into(),
            20 => format!("(string.byte({}) or 0)", self.expr(Text, 0)),
            21 => format!("math.max({}, 1)", self.expr(Number, 0)),
            22 => format!("({}({}))", self.expr(Function, 0), self.rng.range(0, 5)),
            _ => "(turn % 5)".into(),
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

    #[test]
    fn programs_compile_and_repeat() {
        for case in 0..200 {
            let source = generate(&mut Rng::new(5, case)).source();
            if let Err(e) = perilune_syntax::compile(source.as_bytes(), b"=p") {
                panic!("{}\n{source}", String::from_utf8_lossy(&e.message));
            }
            assert_eq!(source, generate(&mut Rng::new(5, case)).source());
        }
    }
}
