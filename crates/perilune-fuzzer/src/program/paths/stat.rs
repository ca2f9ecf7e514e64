//! Statements.

use super::Kind::{Bag, Flag, Function, Number, Table, Text};
use super::{Callee, Kind, Node, Paths, Var};

/// Functions of the prelude that take a number, and give one first.
pub(super) const COUNTING: &[&str] = &["count", "count", "count", "kinds", "several", "wait", "down"];

impl Paths<'_> {
    pub(super) fn block(&mut self, statements: usize) -> Vec<Node> {
        self.depth += 1;
        let mark = self.vars.len();
        let nodes = (0..1 + self.rng.below(statements)).map(|_| self.statement()).collect();
        self.vars.truncate(mark);
        self.depth -= 1;
        nodes
    }

    pub(super) fn statement(&mut self) -> Node {
        self.left = self.left.saturating_sub(1);
        let deep = self.depth >= 3 || self.left == 0;
        match self.rng.below(38) {
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
            32..=35 => self.rarer(),
            36 | 37 if !deep && self.loops < 2 => self.carried(),
            _ => self.using(),
        }
    }

    /// `v = e`
    pub(super) fn copy(&mut self, kind: Kind) -> String {
        match self.var(kind) {
            Some(v) if self.rng.one_in(2) => format!("{v} = {}", self.other(kind, &v)),
            Some(v) => format!("{v} = {}", self.expr(kind, 1)),
            None => "r = r + 1".into(),
        }
    }

    /// A variable becomes the one or the other; then often a call, and a use.
    pub(super) fn choice(&mut self) -> Node {
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
    pub(super) fn calling(&mut self) -> String {
        let call = self.call();
        match self.rng.below(9) {
            0 => {
                let (f, e) = (self.rng.pick(&["raise", "raise", "wait", "kinds"]), self.expr(Number, 1));
                format!("do local ok, e = pcall({f}, {e}) r = r + (ok and e or 1) end")
            }
            1 => {
                let kind = self.kind();
                let assignment = self.copy(kind);
                // What is inside may use `...`.
                let dots = if self.vararg { ", ..." } else { "" };
                format!("if pcall(function(...) {assignment} r = r + {call} end{dots}) then r = r + 1 end")
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
    pub(super) fn call(&mut self) -> String {
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

    pub(super) fn call_of(&mut self, callee: &Callee) -> String {
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
    pub(super) fn changing(&mut self) -> String {
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
    pub(super) fn shared(&mut self, kind: Kind) -> (String, Option<String>) {
        match kind {
            Table => (self.rng.pick(&["up", "gt", "mod.t"]).into(), None),
            Function => (self.rng.pick(&["upf", "gf", "mod.f"]).into(), None),
            Flag => (self.rng.pick(&["upflag", "gflag"]).into(), None),
            _ => (self.rng.pick(&["upn", "gn", "mod.n"]).into(), Some(self.expr(Number, 1))),
        }
    }

    pub(super) fn using(&mut self) -> Node {
        let kind = self.kind();
        let (p, q) = self.pair(kind);
        Node::leaf(self.use_both(kind, &p, &q))
    }

    /// A loop.
    pub(super) fn repeated(&mut self) -> Node {
        self.repeating(|g| g.block(4))
    }

    /// A loop with this inside.
    fn repeating(&mut self, inner: impl FnOnce(&mut Self) -> Vec<Node>) -> Node {
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
        let inner = inner(self);
        let mut body: Vec<Node> = step.into_iter().map(Node::leaf).collect();
        body.push(Node::block("do", inner, "end"));
        body.push(Node::leaf("::continue::"));
        self.vars.truncate(mark);
        self.loops -= 1;
        Node::block("do", vec![Node::block(head, body, tail)], "end")
    }

    /// A variable that a loop stores into, and what is seen of it in another loop, and behind that.
    fn carried(&mut self) -> Node {
        // Often integers at one time and floats at another.
        let kind = if self.rng.one_in(2) { Number } else { self.kind() };
        let e = match kind {
            Number if self.rng.one_in(2) => self.rng.pick(&["0", "1", "0.5", "1.5"]).into(),
            _ => self.expr(kind, 1),
        };
        let f = self.expr(kind, 1);
        let mark = self.vars.len();
        let (o, u) = (self.declare("y", kind), self.declare("y", kind));
        let mut body = vec![Node::leaf(format!("local {o}, {u} = {e}, {f}"))];
        let first = self.repeating(|g| {
            let e = match kind {
                Number if g.rng.one_in(2) => g.number(1),
                _ => g.expr(kind, 1),
            };
            let mut inner = vec![Node::leaf(format!("{o} = {e}"))];
            if g.rng.one_in(2) {
                inner.push(g.choice());
            }
            inner
        });
        body.push(first);
        if self.rng.one_in(2) {
            body.push(Node::leaf(self.calling()));
        }
        let second = self.repeating(|g| match g.rng.below(3) {
            0 => vec![g.using()],
            1 => vec![g.choice(), Node::leaf(g.calling())],
            _ => vec![Node::leaf("r = r + 1")],
        });
        body.push(second);
        body.push(Node::leaf(self.use_both(kind, &o, &u)));
        self.vars.truncate(mark);
        Node::block("do", body, "end")
    }

    /// Other things that machine code knows about values.
    fn rarer(&mut self) -> Node {
        let (e, f, c) = (self.expr(Number, 0), self.expr(Number, 0), self.condition());
        let (call, kind) = (self.calling(), self.kind());
        let (p, q) = self.pair(Table);
        match self.rng.below(13) {
            // A table that nobody can look at, on most ways.
            0 | 1 => {
                let escape = match self.rng.below(4) {
                    0 => "up = o".into(),
                    1 => format!("r = r + change(o, {})", self.rng.below(21)),
                    2 => "r = r + apply(get_x, o, 2)".into(),
                    _ => self.var(Table).map_or("w = 'none'".into(), |v| format!("{v} = o")),
                };
                let uses = self.use_variables(Table, "o", &p);
                let (rest, get) =
                    ("y = 2, name = 'own', f = kinds, next = T[2]", self.rng.pick(&["get_x", "get_1"]));
                let body = vec![
                    Node::leaf(format!("local o = {{{e}, 1, 2, x = {f}, {rest}, get = {get}}}")),
                    Node::block(format!("if {c} then"), vec![Node::leaf(escape)], "end"),
                    Node::leaf(call),
                    Node::leaf(uses),
                    Node::leaf("r = (r + o[1] + o.x * 2 + o:get(1)) % 9973"),
                ];
                Node::block("do", body, "end")
            }
            // What is nil on some ways.
            2 | 3 => {
                let (v, uses) = (self.expr(kind, 0), self.use_variables(kind, "o", "u"));
                let other = self.expr(kind, 0);
                let body = vec![
                    Node::leaf(format!("local o, u = nil, {other}")),
                    Node::block(format!("if {c} then"), vec![Node::leaf(format!("o = {v}"))], "end"),
                    Node::leaf(call),
                    Node::block("if o ~= nil then", vec![Node::leaf(uses)], "end"),
                    Node::leaf(format!("o = o or {other} if o == u then r = r + 1 end")),
                ];
                Node::block("do", body, "end")
            }
            4 if kind != Flag => {
                let (v, u) = self.pair(kind);
                match [&v, &u]
                    .into_iter()
                    .all(|name| self.vars.iter().any(|var| var.name == *name && !var.small))
                {
                    true => Node::leaf(format!("if {c} then {v}, {u} = {u}, {v} end {call}")),
                    false => Node::leaf(call),
                }
            }
            // A loop without a head.
            5 if self.depth < 2 && self.loops < 2 => {
                let (i, label) = (self.fresh("i"), self.fresh("again"));
                self.loops += 2;
                let mark = self.vars.len();
                self.vars.push(Var { name: i.clone(), kind: Number, small: true });
                let inner = vec![self.choice(), self.using()];
                self.vars.truncate(mark);
                self.loops -= 2;
                let body = vec![
                    Node::leaf(format!("local {i} = 0")),
                    Node::leaf(format!("::{label}:: {i} = {i} + 1")),
                    Node::block("do", inner, "end"),
                    Node::leaf(format!("if {i} < {} then goto {label} end", self.rng.range(2, 4))),
                ];
                Node::block("do", body, "end")
            }
            // Somebody else stores into a variable.
            6 | 7 => match self.var(kind) {
                Some(v) => {
                    Node::leaf(format!("poke('{v}', {}) {}", self.expr(kind, 0), self.use_both(kind, &v, &v)))
                }
                None => Node::leaf(call),
            },
            8 => match self.var(kind) {
                Some(v) => {
                    let body = vec![
                        Node::leaf(format!(
                            "local o <close> = setmetatable({{}}, {{__close = function(...) {v} = {} end}})",
                            self.expr(kind, 0)
                        )),
                        Node::leaf(call),
                        Node::leaf(format!("if {c} then r = r + 1 end")),
                    ];
                    Node::block("do", body, "end")
                }
                None => Node::leaf(call),
            },
            9 => {
                let other = self.other(Table, &p);
                let uses = self.use_both(Table, "o", &other);
                let body = vec![
                    Node::leaf(format!("local o, u = {p}, {e}")),
                    Node::leaf(format!(
                        "local function own(v, ...) if {c} then o = v end u = u + 1 return u % 9 end"
                    )),
                    Node::leaf(format!("r = r + own({q}) + u")),
                    Node::leaf(call),
                    Node::leaf(uses),
                    Node::leaf("if r == 77 then upf = own end"),
                ];
                Node::block("do", body, "end")
            }
            10 => {
                let s = self.expr(Text, 0);
                Node::leaf(match self.rng.below(9) {
                    // Functions of the library that give several values.
                    4 => format!(
                        "do local o, u, v = string.find({s}, '(%a)(%d*)', r % 5) r = r + (o or 1) + (u or 2) \
                         if v == 's' then r = r + 1 end end"
                    ),
                    5 => format!(
                        "do local o, u = string.match({s} .. w, '^(%a*)()') w = string.sub(o, 1, 6) r = r + u end"
                    ),
                    6 => format!(
                        "do local o, u, v = table.unpack({p}, 1, 2) if u or rawequal(o, {q}) or v then \
                         r = r + 1 end end"
                    ),
                    7 => "do local o, u = math.modf(r / 4) if u == 0.5 and o ~= 7 then r = r + 1 end end"
                        .into(),
                    // How many there are does not depend on the order.
                    8 => format!(
                        "do local t = {p} local o, u = next(t) while o ~= nil do \
                         if u then r = r + 1 end o, u = next(t, o) end end"
                    ),
                    0 => format!("do local o, u = string.byte({s}, 1, 2) r = r + (o or 1) + (u or 2) end"),
                    1 => format!("if string.sub({s}, 1, 1) == 's' then r = r + 1 end"),
                    2 => format!("r = r + #string.rep({s}, 2) + (string.find({s}, 'e', 1, true) or 0)"),
                    _ => format!("w = string.upper(string.sub({s} .. w, 1, 4))"),
                })
            }
            11 if self.vararg => Node::leaf(match self.rng.below(4) {
                0 => "do local o, u = ... if o == u then r = r + 1 end end".into(),
                1 => "r = r + select('#', ...) + #{'n', ...}".into(),
                2 => format!("r = r + select('#', ({e}), ...) if ... then r = r + 1 end"),
                _ => format!("if select('#', ...) > 1 and rawequal(select(2, ...), {p}) then r = r + 5 end"),
            }),
            // The order of traversal is left open: what depends on it is not done here.
            _ => Node::block(
                format!("do local o, u, x = {p}, {q}, {e} for k, v in next, o do"),
                vec![Node::leaf("if rawequal(v, u) then r = r + 1 elseif k == 'x' then o.x = x end")],
                "end end",
            ),
        }
    }
}
