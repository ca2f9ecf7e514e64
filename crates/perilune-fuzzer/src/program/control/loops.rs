//! Loops, jumps, and variables that are closed where they are left.

use super::{Any, Control, Fun, List, Num, Str};
use crate::program::Node;

impl Control<'_> {
    /// The body of a loop, which has a label at its end to go on from.
    pub(super) fn loop_body(&mut self) -> Vec<Node> {
        let label = self.fresh("next");
        self.labels.push(label.clone());
        let mut body = Vec::new();
        if self.labels.len() > 1 {
            body.push(Node::leaf("tick()"));
        }
        let inner = self.block();
        body.push(Node::block("do", inner, "end"));
        self.labels.pop();
        if self.rng.one_in(4) {
            body.push(self.round_closure());
        }
        body.push(Node::leaf(format!("::{label}::")));
        body
    }

    /// A variable of this round that a function takes along.
    fn round_closure(&mut self) -> Node {
        let (x, k) = (self.expr(Num, 1), self.fresh("r"));
        match self.tame {
            true => {
                Node::leaf(format!("local {k} = {x} note((function() {k} = num({k}) + 1 return {k} end)())"))
            }
            false => Node::leaf(format!(
                "local {k} = {x} keep(function(p) {k} = num({k}) + num(p) return {k} end)"
            )),
        }
    }

    /// A loop that counts.
    pub(super) fn counted(&mut self) -> Node {
        let x = self.expr(Num, 0);
        let range = match self.rng.below(16) {
            0 => format!("{}, 1, -1", self.rng.range(0, 5)),
            1 => "1, 3, 0.75".into(),
            2 => "1.0, 3".into(),
            3 => format!("{x} % 3, 4"),
            4 => format!("1, {x} % 5"),
            5 => format!("9, 1, -{}", self.rng.range(2, 5)),
            6 => "math.maxinteger - 2, math.maxinteger".into(),
            7 => format!("1, #{}", super::expr::paren(&self.list())),
            8 if self.vararg => "1, select('#', ...)".into(),
            9 => "3, 1".into(),
            10 => format!("1, 3, {x} % 2 + 1"),
            11 => format!("-1, 1, {}", self.rng.pick(&["0.5", "1", "2", "3"])),
            12 => "math.mininteger + 1, math.mininteger, -1".into(),
            13 => format!("0, {x} % 4, {}", self.rng.pick(&["1", "2", "1.5"])),
            _ => format!("1, {}", self.rng.range(1, 6)),
        };
        let mark = self.vars.len();
        let k = self.declare("k", Num);
        let mut body = self.loop_body();
        self.vars.truncate(mark);
        if self.vararg && range.contains("...") {
            body.insert(0, Node::leaf(format!("note((select({k}, ...)))")));
        }
        if self.rng.one_in(4) {
            // Other rounds have other variables, though this one is changed.
            let first = match self.tame {
                true => format!("note((function() {k} = {k} + 0 return {k} end)())"),
                false => format!("keep(function(p) {k} = {k} + num(p) return {k} end)"),
            };
            body.insert(0, Node::leaf(first));
        }
        Node::block(format!("for {k} = {range} do"), body, "end")
    }

    /// A generic loop.
    pub(super) fn traversal(&mut self) -> Node {
        let mark = self.vars.len();
        let (n, x) = (self.rng.range(0, 5), self.expr(Num, 0));
        let list = self.list();
        let u = self.fresh("u");
        let (k, v) = (self.declare("k", Num), self.declare("w", Any));
        let (head, kept) = match self.rng.below(15) {
            0 | 1 => (format!("for {k}, {v} in ipairs({list}) do"), None),
            2 => (format!("for {k} in upto({n}) do local {v} = {k}"), None),
            3 => (format!("for {k}, {v} in step, {n}, 0 do"), None),
            4 | 5 => (format!("for {k}, {v} in closes({n}) do"), None),
            6 => {
                let closer = self.rng.pick(&["closer(3)", "slow(4)", "nil", "failing(1)"]);
                (format!("for {k}, {v} in step, {n}, 0, {closer} do"), None)
            }
            7 => {
                let give = self.args_inside(2);
                (
                    format!(
                        "for {k}, {v} in coroutine.wrap(function() for j = 1, {n} do coroutine.yield(j, {}) end end) do",
                        give
                    ),
                    None,
                )
            }
            8 => (format!("for {k}, {v} in ipairs{{{x}, 'two', {x}, nil, 5}} do"), None),
            9 => (
                format!(
                    "for {k}, {v} in setmetatable({{}}, {{__call = function(o, s, c) return step(s, c) end}}), {n}, 0 do"
                ),
                None,
            ),
            10 => (
                format!(
                    "for {k}, {v} in pairs(setmetatable({{}}, {{__pairs = function() return step, {n}, 0 end}})) do"
                ),
                None,
            ),
            // The order is the one of the array.
            11 => (
                format!("local {u} = {{4, {x}, 6}} for {k}, {v} in pairs({u}) do"),
                Some(format!("{u}[{k}] = nil")),
            ),
            12 => (
                format!("local {u} = {{4, {x}, 6}} for {k}, {v} in next, {u} do"),
                Some(format!("{u}[{k}] = {v} + 1")),
            ),
            // What does not depend on the order.
            13 => {
                self.vars.truncate(mark);
                return Node::leaf(format!(
                    "do local {u}, s = {{1, 2, 3, x = 4, y = 5, [-1] = 6, [2.5] = 7}}, 0 for {k}, {v} in {} do \
                     s = s + {v} if {v} % 2 == 0 then {u}[{k}] = nil else {u}[{k}] = {v} + 1 end end \
                     for {k}, {v} in pairs({u}) do s = s * 1 + {v} end note(s) end",
                    self.rng.pick(&["pairs(U)", "next, U"]).replace('U', &u)
                ));
            }
            _ => {
                (format!("for {k}, {v} in ipairs({list}) do"), Some(format!("{v} = num({v}) + 1 note({v})")))
            }
        };
        let mut body = self.loop_body();
        if let Some(text) = kept {
            body.insert(0, Node::leaf(text));
        }
        self.vars.truncate(mark);
        Node::block(head, body, "end")
    }

    /// A loop with a condition, for a few rounds at most.
    pub(super) fn conditional(&mut self) -> Node {
        let mark = self.vars.len();
        let (n, most) = (self.fresh("n"), self.rng.range(2, 5));
        let condition = self.condition(1);
        let inside = self.declare("m", Num);
        let mut body = self.loop_body();
        body.insert(0, Node::leaf(format!("{n} = {n} + 1 local {inside} = {n}")));
        self.vars.truncate(mark);
        match self.rng.below(3) {
            0 => Node::block(format!("local {n} = 0 while {n} < {most} and ({condition}) do"), body, "end"),
            1 => {
                // The condition sees the variables of the body, which a function has changed.
                let more =
                    format!("function more() {inside} = (tonumber({inside}) or {n}) + 1 return {inside} end");
                let all =
                    vec![Node::leaf(format!("local {inside} local {more}")), Node::block("do", body, "end")];
                Node::block(
                    format!("local {n} = 0 repeat"),
                    all,
                    format!("until {n} >= {most} or more() > {most} or ({condition}) and {inside} > 2"),
                )
            }
            _ => Node::block(
                format!("local {n} = 0 while true do if {n} >= {most} then break end"),
                body,
                "end",
            ),
        }
    }

    /// Jumps that are no loop's of the usual kind.
    pub(super) fn jumps(&mut self) -> Node {
        let (n, a, b) = (self.fresh("n"), self.fresh("la"), self.fresh("lb"));
        let most = self.rng.range(2, 5);
        let (c, d) = (self.condition(1), self.condition(1));
        let (one, two) = {
            // The loops around are not for this.
            let labels = std::mem::take(&mut self.labels);
            let blocks = (self.block(), self.block());
            self.labels = labels;
            blocks
        };
        let count = Node::leaf(format!("{n} = {n} + 1"));
        let x = self.expr(Num, 1);
        let r = self.fresh("r");
        let fresh = match self.rng.below(3) {
            0 => Node::leaf(format!("local {r} = {n}")),
            1 if !self.tame => {
                Node::leaf(format!("local {r} = {n} keep(function(p) {r} = {r} + num(p) return {r} end)"))
            }
            _ => Node::leaf(format!(
                "local {r} = {n} local function see() {r} = {r} + 1 return {r} end note(see())"
            )),
        };
        let body = match self.rng.below(5) {
            // Backwards, past a variable of the round.
            0 => vec![
                Node::leaf(format!("::{a}::")),
                count,
                Node::block("do", one, "end"),
                fresh,
                Node::leaf(format!("if {n} < {most} then goto {a} end note({r})")),
            ],
            // Two loops in one, with two entries.
            1 | 2 => vec![
                Node::leaf(format!("if {c} then goto {b} end")),
                Node::leaf(format!("::{a}::")),
                Node::block("do", one, "end"),
                count.clone(),
                Node::leaf(format!("::{b}::")),
                Node::block("do", two, "end"),
                count,
                Node::leaf(format!("if {n} < {most} then if {d} then goto {a} else goto {b} end end")),
            ],
            // Out of two loops, and on with the outer one.
            3 => {
                let (k, l) = (self.fresh("k"), self.fresh("k"));
                let inner = vec![
                    Node::leaf(format!("if {k} * {l} > {} then goto {b} end", self.rng.range(3, 9))),
                    Node::leaf(format!("if ({c}) and {l} > 1 then goto {a} end")),
                    Node::leaf(format!("local {r} = {k} + {l} + {n}")),
                    Node::leaf(match self.tame {
                        true => format!("note({r})"),
                        false => format!("keep(function() {r} = {r} + {k} return {r}, {l} end)"),
                    }),
                    Node::block("do", one, "end"),
                ];
                let outer = vec![
                    Node::leaf(format!("{n} = {n} + 1")),
                    Node::block(format!("for {l} = 1, 3 do"), inner, "end"),
                    Node::leaf(format!("note({k}, {x})")),
                    Node::leaf(format!("::{a}::")),
                ];
                vec![
                    Node::block(format!("for {k} = 1, 3 do"), outer, "end"),
                    Node::leaf(format!("note({n})")),
                    Node::leaf(format!("::{b}::")),
                ]
            }
            // Forwards and backwards, between blocks.
            _ => vec![
                Node::leaf(format!("goto {b}")),
                Node::leaf(format!("::{a}::")),
                count.clone(),
                Node::block("do", one, "end"),
                Node::leaf(format!("::{b}::")),
                Node::block(
                    "do",
                    vec![
                        Node::leaf(format!("local {r} = {x}")),
                        Node::leaf(format!("local function see() {r} = num({r}) + {n} return {r} end")),
                        Node::leaf(format!("if {n} < {most} and see() then {n} = {n} + 1 goto {a} end")),
                    ],
                    "end",
                ),
            ],
        };
        Node::block(format!("do local {n} = 0"), body, "end")
    }

    /// A block, or a loop, with variables to be closed.
    pub(super) fn closing(&mut self) -> Node {
        let (c, d, k) = (self.fresh("c"), self.fresh("c"), self.fresh("k"));
        let (v, x) = (self.place(Num), self.expr(Num, 1));
        let closer = |g: &mut Self| -> String {
            match g.rng.below(9) {
                0 => format!("slow({x})"),
                1 => format!("closing(function(o, e) {v} = {v} + 1 note(e) end)"),
                2 => format!("closing(function(...) {v} = {v} + select('#', ...) end)"),
                3 => format!("{} and failing(1) or closer(2)", g.rarely()),
                4 => g.rng.pick(&["nil", "false"]).into(),
                5 => format!("closing(function(o, e) {v} = {v} + 1 if e then error(said(e), 0) end end)"),
                6 => format!("{} and closer({x}) or nil", g.condition(1)),
                _ => format!("closer({x})"),
            }
        };
        let (one, two) = (closer(self), closer(self));
        let mut body = vec![Node::leaf(format!("local {c} <close> = {one}"))];
        if self.rng.one_in(3) {
            body.push(Node::leaf(format!("local {d} <close> = {two}")));
        }
        let looped = !self.rng.one_in(3);
        let label = self.fresh("next");
        let mark = self.vars.len();
        if looped {
            self.vars.push(super::Var { name: k.clone(), kind: Num, fixed: false });
            self.labels.push(label.clone());
            body.extend(self.block());
            self.labels.pop();
        } else {
            body.extend(self.block());
        }
        let condition = self.condition(1);
        let how = match self.rng.below(7) {
            0 => format!("return {}", self.results(true)),
            1 => format!("return {}, {c} == nil", self.expr(Num, 1)),
            2 => format!("error({})", self.error_value()),
            3 | 4 if looped => "break".into(),
            5 if looped => format!("goto {label}"),
            _ => format!("note({x})"),
        };
        body.push(Node::leaf(format!("if {condition} then {how} end")));
        self.vars.truncate(mark);
        let head = match (looped, self.rng.below(3)) {
            (false, _) => "do".into(),
            (true, 0) => format!("for {k} in upto({}) do", self.rng.range(1, 4)),
            (true, 1) => format!("for {k}, {k}v in closes({}) do", self.rng.range(1, 4)),
            _ => format!("for {k} = 1, {} do", self.rng.range(1, 4)),
        };
        if looped {
            body = vec![Node::block("do", body, "end"), Node::leaf(format!("::{label}::"))];
        }
        Node::block(head, body, "end")
    }

    /// What a yield may get, and what is done with what comes back.
    pub(super) fn giving(&mut self) -> Node {
        let list = self.args(3);
        let (v, kind) = match self.rng.below(3) {
            0 => (self.place(Num), Num),
            1 => (self.place(Str), Str),
            _ => (self.place(Any), Any),
        };
        let f = super::expr::paren(&self.expr(Fun, 0));
        Node::leaf(match (self.rng.below(7), kind) {
            (0, Num) => format!("{v} = num(coroutine.yield({list}))"),
            (0, Str) => format!("{v} = cut(said(coroutine.yield({list})) .. '')"),
            (0 | 1, _) => format!("note(coroutine.yield({list}))"),
            (2, _) => format!("note(pcall(coroutine.yield, {list}))"),
            (3, _) => {
                let (p, q) = (self.declare("v", Any), self.declare("v", Any));
                format!("local {p}, {q} = coroutine.yield({list})")
            }
            (4, _) => format!("note({f}(coroutine.yield({list}), coroutine.yield()))"),
            (5, _) => {
                let t = self.some(List);
                let t = super::expr::paren(&t);
                format!("note({t}[num(coroutine.yield({list})) // 1 % 3 + 1])")
            }
            _ => format!("coroutine.yield({list})"),
        })
    }
}
