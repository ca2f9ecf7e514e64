//! Statements: variables, branches, assignments, tables, texts, and what fails.

use super::expr::paren;
use super::{Any, Control, Fun, Kind, List, Num, Str};
use crate::program::Node;

impl Control<'_> {
    pub(super) fn statement(&mut self) -> Node {
        self.left = self.left.saturating_sub(1);
        let deep = self.depth >= 4;
        match self.rng.below(40) {
            0 | 1 => self.local(),
            2 | 3 => self.overlapping(),
            4..=6 if !deep => self.branch(),
            7..=9 if !deep => self.counted(),
            10 | 11 if !deep => self.traversal(),
            12 if !deep => self.conditional(),
            13 | 14 if !deep => self.jumps(),
            15 | 16 if !deep => self.closing(),
            17..=19 => self.capture(),
            20 if !deep => self.recursion(),
            21..=23 => self.varargs(),
            24..=26 if !deep => self.protect(),
            27 => self.failing(),
            28..=30 if !deep && !self.tame => self.coroutine(),
            28..=30 if self.yields => self.giving(),
            31 | 32 => self.change_list(),
            33 => self.texts(),
            34 | 35 => self.leave(),
            _ => self.assign(),
        }
    }

    /// Statements of a block.
    pub(super) fn block(&mut self) -> Vec<Node> {
        let mark = self.vars.len();
        self.depth += 1;
        let mut nodes = vec![self.statement()];
        while self.left > 0 && !self.rng.one_in(3) {
            nodes.push(self.statement());
        }
        self.depth -= 1;
        self.vars.truncate(mark);
        nodes
    }

    pub(super) fn local(&mut self) -> Node {
        let kind = self.kind();
        let e = self.expr(kind, 2);
        match self.rng.below(8) {
            0 => {
                let list = self.args(2);
                let (x, y) = (self.declare("v", Any), self.declare("v", Any));
                Node::leaf(format!("local {x}, {y} = {list}"))
            }
            1 => {
                let name = self.declare("v", kind);
                self.vars.last_mut().expect("declared").fixed = true;
                Node::leaf(format!("local {name} <const> = {e}"))
            }
            2 => {
                let name = self.declare("v", Any);
                Node::leaf(format!("local {name}"))
            }
            3 => {
                let list = self.several();
                let (x, y, z) = (self.declare("v", kind), self.declare("v", Any), self.declare("v", Any));
                Node::leaf(format!("local {x}, {y}, {z} = {e}, {list}"))
            }
            _ => {
                let name = self.declare("v", kind);
                Node::leaf(format!("local {name} = {e}"))
            }
        }
    }

    pub(super) fn assign(&mut self) -> Node {
        let kind = if self.rng.one_in(2) { Num } else { self.kind() };
        let place = self.place(kind);
        // A variable changes its kind now and then.
        let e = match self.rng.one_in(16) && place.starts_with('v') {
            true => self.expr(Any, 1),
            false => self.expr(kind, 2),
        };
        Node::leaf(match kind {
            // What lives on stays small.
            Str if place == "word" => format!("word = cut({e} .. '')"),
            Num if place == "total" => format!("note({e})"),
            Num if self.rng.one_in(2) => format!("{place} = {place} {} {e}", self.rng.pick(&["+", "-"])),
            Num if self.rng.one_in(8) && !self.tame => format!("{place} = {e} keep({})", self.closure()),
            _ => format!("{place} = {e}"),
        })
    }

    /// Assignments of several values to places that depend on each other.
    fn overlapping(&mut self) -> Node {
        let t = self.variable(List).unwrap_or_else(|| format!("T[{}]", self.rng.range(1, 3)));
        let (k, l, x) = (self.key(), self.key(), self.expr(Num, 1));
        let (p, q) = (self.place(Num), self.place(Num));
        Node::leaf(match self.rng.below(10) {
            0 => format!("{t}[{k}], {t}[{l}] = {t}[{l}], {t}[{k}]"),
            1 => format!("{t}[1], {t}[2], {t}[3] = {t}[3], num({x}), {t}[1]"),
            2 => {
                let n = self.fresh("n");
                format!("local {n} = {} {n}, {t}[{n}] = {n} + 1, num({x}) note({n})", self.rng.range(1, 3))
            }
            3 => {
                let (o, n) = (self.fresh("o"), self.fresh("n"));
                let other = self.list();
                format!(
                    "local {o}, {n} = {t}, {k} {o}, {o}[{n}], {n} = {other}, {n} or 1, {o}[{n}] note({o}[1], {n})"
                )
            }
            4 => format!("{t}.x, {p} = {p}, {t}.x"),
            5 if p != q => format!("{p}, {q} = {q}, {p}"),
            6 if p != q => format!("{p}, {q} = {q} + 1, {x}, {p}"),
            7 => {
                let o = self.fresh("o");
                let list = self.args(3);
                format!(
                    "local {o} = {{{x}, inner = {{{k}}}}} {o}.inner[1], {o}.inner, {o}[1] = {list} note({o}[1])"
                )
            }
            8 => format!("{t}[{k}], {p} = num({p}), {}", self.args(2)),
            _ => {
                let e = self.several();
                let (x, y, z) = (self.place(Any), self.place(Num), self.place(Any));
                match x == z {
                    true => format!("{x} = {e}"),
                    false => format!("{x}, {y}, {z} = {y}, {y}, {e}"),
                }
            }
        })
    }

    fn branch(&mut self) -> Node {
        let mut parts = vec![(format!("if {} then", self.condition(2)), self.block())];
        if self.rng.one_in(3) {
            parts.push((format!("elseif {} then", self.condition(1)), self.block()));
        }
        if self.rng.one_in(2) {
            parts.push(("else".into(), self.block()));
        }
        Node { parts, tail: "end".into() }
    }

    /// A list, or what a list has, is replaced, or it gets longer or shorter.
    fn change_list(&mut self) -> Node {
        let t = self.variable(List).unwrap_or_else(|| format!("T[{}]", self.rng.range(1, 3)));
        let (k, x) = (self.key(), self.expr(Num, 1));
        Node::leaf(match self.rng.below(11) {
            0 => format!("if #{t} < 9 then {t}[#{t} + 1] = {x} or 0 end"),
            1 => format!("if #{t} > 3 then {t}[#{t}] = nil end"),
            2 => format!("if #{t} < 9 then table.insert({t}, {x}) end"),
            3 => format!("if #{t} > 3 then note(table.remove({t})) end"),
            4 => format!("{t}.x = {x}"),
            5 => format!("{t}.name = {}", self.expr(Str, 1)),
            6 if !self.tame => format!("{t}.f = {}", self.expr(Fun, 1)),
            7 if !self.tame => format!("T[{}] = {}", self.rng.range(1, 3), self.list()),
            8 => format!("note({t}:add({x}):get({k}), {t}.x)"),
            _ => format!("{t}[{k}] = {x} or 0"),
        })
    }

    /// Library functions of texts and lists that call functions, or give several values.
    fn texts(&mut self) -> Node {
        let (s, x) = (self.expr(Str, 1), self.expr(Num, 1));
        let (place, v) = (self.place(Str), self.place(Num));
        Node::leaf(match self.rng.below(7) {
            0 => {
                let u = self.fresh("u");
                let compare = self.rng.pick(&["p < q", "p > q", "p % 5 < q % 5"]);
                format!(
                    "local {u} = {{{x}, 3, {v}, 1, 2}} table.sort({u}, function(p, q) {v} = {v} + 1 \
                     return {compare} end) note(table.unpack({u}))"
                )
            }
            1 => {
                let n = self.fresh("n");
                format!(
                    "local {n} {place}, {n} = string.gsub({s}, '%w', '%0.', 3) note({n}) {place} = cut({place})"
                )
            }
            2 => format!("note(string.byte({s}, 1, {}))", self.rng.range(1, 5)),
            3 => format!("note(string.find({s}, '(%w)(%d*)'))"),
            4 => format!(
                "note(pcall(string.gsub, {s}, '.', function(c) {v} = {v} + 1 if c == 'l' then error(c, 0) end end))"
            ),
            5 => format!("for w in string.gmatch({s}, '%w+') do {v} = {v} + #w end"),
            _ => format!("{place} = cut({s} .. {x} .. 1 .. {})", self.expr(Str, 0)),
        })
    }

    /// A jump out of what is around, under a condition.
    fn leave(&mut self) -> Node {
        let condition = self.condition(1);
        let how = match self.rng.below(5) {
            0 => format!("return {}", self.results(true)),
            1 if self.rng.one_in(2) => format!("error({})", self.error_value()),
            2 if !self.labels.is_empty() => "break".into(),
            _ if !self.labels.is_empty() => {
                let n = self.labels.len();
                format!("goto {}", self.labels[n - 1 - self.rng.below(n).min(self.rng.below(n))])
            }
            _ => return self.assign(),
        };
        Node::leaf(format!("if {condition} then {how} end"))
    }

    /// What errors are raised with, and perhaps their level.
    pub(super) fn error_value(&mut self) -> String {
        match self.rng.below(9) {
            0 => "nil".into(),
            1 => self.rng.pick(&["true", "{}", "'text', 0", "'text', 1", "'text', 2", "'text', 3"]).into(),
            2 => "list{1}".into(),
            3 => format!("{}, 2", self.expr(Str, 1)),
            4 => self.expr(Num, 1),
            5 => self.closure(),
            6 => format!("'e' .. {}", paren(&self.expr(Num, 1))),
            _ => self.expr(Str, 1),
        }
    }

    /// What fails, with a name in its message, in a few calls.
    fn failing(&mut self) -> Node {
        let kind = self.kind();
        let v = self.variable(kind).unwrap_or_else(|| self.rng.pick(&["total", "word", "kept", "T"]).into());
        let n = self.variable(Num).unwrap_or_else(|| "turn".into());
        let t = self.variable(List).unwrap_or_else(|| "T[1]".into());
        let q = self.fresh("q");
        let fails = match self.rng.below(34) {
            0 => format!("{v}.x.y.z = 1"),
            1 => format!("local {q} = {t}.nope.x"),
            2 => format!("{t}:nope(1)"),
            3 => format!("{t}.nope()"),
            4 => "nowhere.x = 1".into(),
            5 => "nowhere(2)".into(),
            6 => format!("word:nope({n})"),
            7 => format!("{n}()"),
            8 => format!("local {q} = {v} + {{}}"),
            9 => format!("local {q} = {t} < {n}"),
            10 => format!("local {q} = {t} < {t}"),
            11 => format!("local {q} = {v} .. {t}"),
            12 => format!("local {q} = {n} & 1.5"),
            13 => format!("local {q} = 2^53 | {v}"),
            14 => format!("local {q} = 1 // 0 + {n}"),
            15 => format!("local {q} = 5 % (turn - turn)"),
            16 => format!("{t}[nil] = {n}"),
            17 => format!("{t}[0/0] = {n}"),
            18 => format!("for {q} = 1, {n}, 0 do end"),
            19 => format!("for {q} = 'x', 2 do end"),
            20 => format!("for {q} = 1, {t} do end"),
            21 => format!("for {q} in {n} do tick() end"),
            22 => format!("local {q} <close> = {n}"),
            23 => format!("note(string.rep({t}, 2))"),
            24 => format!("note(('x'):rep(1, {t}))"),
            25 => format!("note(math.floor({v}))"),
            26 => format!("note(select(0, {v}))"),
            27 => format!("setmetatable({n}, {{}})"),
            28 => format!("local {q} = #{n}"),
            29 => format!("local {q} = -{t}[1].x"),
            30 => format!("local {q} <const> = {n} {q}.x.y = 1"),
            31 => format!("blame({v}, {})", self.rng.range(0, 3)),
            32 => format!("assert(false, {v})"),
            _ => format!("note(assert({v}, 'no'), ({n}).x)"),
        };
        let condition = self.rarely();
        match self.rng.one_in(3) {
            true => {
                let ok = self.fresh("ok");
                Node::leaf(format!(
                    "local {ok}, {q}e = pcall(function(...) if {condition} then {fails} end return {n} end, {v}) \
                     note({ok}, long({q}e))",
                ))
            }
            false => Node::leaf(format!("if {condition} then {fails} end")),
        }
    }

    /// A variable of a kind, or what is one.
    pub(super) fn some(&mut self, kind: Kind) -> String {
        self.variable(kind).unwrap_or_else(|| self.expr(kind, 1))
    }
}
