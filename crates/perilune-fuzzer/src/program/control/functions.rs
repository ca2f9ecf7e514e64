//! Functions inside functions: what they take along, recursion, variable arguments, protected calls, coroutines.

use super::expr::paren;
use super::{Any, Control, Fun, Num, Str};
use crate::program::Node;

impl Control<'_> {
    /// Functions that share variables with the one around, and change them.
    pub(super) fn capture(&mut self) -> Node {
        let (x, y) = (self.expr(Num, 1), self.expr(Num, 1));
        let v = self.place(Num);
        match self.rng.below(9) {
            // Two functions and the block itself share a variable, which has been a number in a register.
            0 | 1 => {
                let (get, set) = (self.fresh("get"), self.fresh("set"));
                let u = self.declare("v", Num);
                let escape = match self.rng.below(4) {
                    0 if !self.tame => format!("keep({set})"),
                    1 if !self.tame => format!("F.g = {set}"),
                    2 => format!("{u} = {u} + 1"),
                    _ => format!("if {} then {set} = num end", self.rarely()),
                };
                Node::leaf(format!(
                    "local {u} = {x} {u} = {u} + {y} local {get}, {set} = function() return {u} end, \
                     function(p) {u} = num(p) + {} return {u} end {escape} {set}({v}) note({get}(), {u})",
                    self.constant()
                ))
            }
            // A function with statements of its own.
            2 | 3 => {
                let name = self.fresh("f");
                let vararg = self.rng.one_in(2);
                let mut body = Vec::new();
                self.inside(&[("p", Num), ("q", Any)], vararg, |g| {
                    (g.tame, g.yields) = (true, false);
                    body.push(Node::leaf("p = num(p)"));
                    body.extend(g.block());
                    body.push(Node::leaf(format!("return {}", g.results(true))));
                });
                self.vars.push(super::Var { name: name.clone(), kind: Fun, fixed: false });
                let use_it = match self.rng.below(3) {
                    0 if !self.tame => format!("end keep({name})"),
                    1 => format!("end note({name}({x}), {name}({y}, {x}))"),
                    _ => format!("end {v} = num({name}({x}, {v}))"),
                };
                let dots = if vararg { ", ..." } else { "" };
                Node::block(format!("local function {name}(p, q{dots})"), body, use_it)
            }
            // A variable of a function around the function around.
            4 => {
                let f = self.fresh("f");
                Node::leaf(format!(
                    "local {f} = (function(p) return function(q) {v} = {v} + 1 p = num(p) + {v} \
                     return function() p = p + 1 return p + num(q) end end end)({x}) note({f}({y})(), {f}(1)())"
                ))
            }
            // Each round has its own.
            5 => {
                let (fs, k) = (self.fresh("fs"), self.fresh("k"));
                Node::leaf(format!(
                    "local {fs} = {{}} for {k} = 1, 3 do local u = {x} {fs}[{k}] = function(p) u, {k} = u + p, {k} + u \
                     return u, {k} end if {} then break end end for {k}, f in ipairs({fs}) do note(f({k}), f(1)) end",
                    self.rarely()
                ))
            }
            6 if !self.tame => {
                let (k, e) = (self.rng.range(1, 6), self.expr(Num, 1));
                Node::leaf(format!("note(again({k}, {e}), again({}, {v}))", self.rng.range(1, 6)))
            }
            7 if !self.tame => Node::leaf(format!("if {} then F.f = {} end", self.rarely(), self.closure())),
            _ => {
                let f = self.closure();
                let name = self.declare("v", Fun);
                Node::leaf(format!("local {name} = {f} note({name}({x}))"))
            }
        }
    }

    /// Functions that call themselves, or each other, a few times.
    pub(super) fn recursion(&mut self) -> Node {
        let vararg = std::mem::take(&mut self.vararg);
        let (r, o) = (self.fresh("rec"), self.fresh("rec"));
        let (n, v) = (self.rng.range(1, 6), self.place(Num));
        let (x, list) = (self.expr(Num, 1), self.args(3));
        let small = self.rng.pick(&["num", "size", "function(n) return n end"]);
        let text = match self.rng.below(8) {
            0 => format!(
                "local function {r}(n, ...) if n <= 0 then return ... end return {r}(n - 1, {x}, ...) end \
                 note({r}({n}, {}))",
                list
            ),
            1 => format!(
                "local function {r}(n) if n <= 0 then return {x} end {v} = {v} + 1 return n + {r}(n - 1) end \
                 note({r}({n}))"
            ),
            // It is another one from some call on.
            2 => format!(
                "local {r} {r} = function(n, p) if n <= 0 then if {} then {r} = {small} end return p end \
                 return {r}(n - 1, ({r}(n - 2, num(p)))) end note({r}({n}, {x}))",
                self.rarely()
            ),
            3 => format!(
                "local {r}, {o} function {r}(n, ...) if n <= 0 then return size(...) end return {o}(n - 1, n, ...) end \
                 function {o}(n, a, ...) {v} = {v} + num(a) if n <= 0 then return a end return ({r}(n - 1, ...)) end \
                 note({r}({n}, {}))",
                list
            ),
            4 => format!(
                "local {r} = {{}} function {r}:down(n) if n == 0 then return self end self.n = (self.n or 0) + n \
                 return self:down(n - 1) end function {r}.up(n) return n < 3 and 1 + {r}.up(n + 1) or {x} end \
                 note({r}:down({n}).n, {r}.up(0))"
            ),
            5 => format!(
                "local function {r}(n, f) if n == 0 then return f(n) end \
                 return {r}(n - 1, function(p) {v} = {v} + n return f(p + n) end) end note({r}({n}, num))"
            ),
            6 => format!(
                "local function {r}(n) if n == 0 then error({}) end local ok, e = pcall({r}, n - 1) \
                 {v} = {v} + 1 if n > 1 then error(e, 0) end return said(e) end note(#{r}({}))",
                self.error_value(),
                n.min(4)
            ),
            _ => format!("note(own({x}, {list}))"),
        };
        self.vararg = vararg;
        Node::leaf(text)
    }

    /// What is done with several values.
    pub(super) fn varargs(&mut self) -> Node {
        let (list, other) = (self.args(6), self.args(4));
        let (x, v) = (self.expr(Num, 0), self.place(Num));
        let n = self.rng.range(1, 4);
        Node::leaf(match self.rng.below(16) {
            0 => {
                let (p, k) = (self.fresh("p"), self.fresh("k"));
                format!("local {p} = table.pack({list}) for {k} = 1, {p}.n do note({p}[{k}]) end")
            }
            1 => format!("note(size({list}), {other})"),
            2 => {
                let (p, q, r) = (self.declare("v", Any), self.declare("v", Any), self.declare("v", Any));
                format!("local {p}, {q}, {r} = {list}")
            }
            3 => {
                let p = self.fresh("p");
                format!("local {p} = {{{list}}} note({p}[1], {p}[2], {p}[{n}])")
            }
            4 => format!("note(select({n}, {list}))"),
            5 => format!("note(select(-{n}, 1, 2, 3, {list}))"),
            6 => format!("note((function(...) return select('#', ...), ... end)({list}))"),
            7 => {
                let (p, k) = (self.fresh("p"), self.fresh("k"));
                format!(
                    "local function {p}(...) for {k} = 1, select('#', ...) do local q = select({k}, ...) \
                     {v} = {v} + num(q) end return ... end note({p}({list}))"
                )
            }
            8 => format!("note(table.unpack({{{list}}}, {}, {n}))", self.rng.range(0, 2)),
            9 => {
                let f = self.expr(Fun, 1);
                format!("note(apply({f}, {list}))")
            }
            10 => format!("note(packed({list}), turned({other}))"),
            11 => format!("{v} = num((pass({list})))"),
            12 => {
                let p = self.fresh("p");
                format!(
                    "local {p} = {{{x}, {list}, n = size({list})}} note({p}.n, {p}[1], {p}[2], table.unpack({p}, 1, 3))"
                )
            }
            13 => format!("note(pass(pass({list}), rest({other})))"),
            14 => format!("note(nested(nested({list})))"),
            _ => format!("note(math.max({x}, {x} + 1, {n}), string.char(65, 66 + {n}), {list})"),
        })
    }

    /// A function for a protected call.
    fn protected(&mut self) -> (Vec<Node>, bool) {
        let vararg = self.rng.one_in(2);
        let mut body = Vec::new();
        self.inside(&[("p", Num)], vararg, |g| {
            body.extend(g.block());
            let condition = g.condition(1);
            let how = match g.rng.below(4) {
                0 => format!("error({})", g.error_value()),
                1 => format!("blame({}, {})", g.expr(Str, 1), g.rng.range(0, 3)),
                2 => format!("return {}", g.results(false)),
                _ => format!("assert(false, {})", g.expr(Any, 1)),
            };
            body.push(Node::leaf(format!("if {condition} then {how} end")));
            body.push(Node::leaf(format!("return {}", g.results(false))));
        });
        (body, vararg)
    }

    /// Protected calls.
    pub(super) fn protect(&mut self) -> Node {
        let list = self.args(3);
        let (ok, e) = (self.fresh("ok"), self.fresh("e"));
        let after = match self.rng.below(4) {
            0 => format!("note({ok}, long({e}))"),
            1 => format!("word = cut({ok} and word or said({e}) .. '')"),
            2 => format!("if not {ok} then note({e}) end"),
            _ => format!("note({ok}, {e})"),
        };
        let handler = self.rng.pick(&[
            "said",
            "type",
            "function(e) total = (total + 1) % 997 return e end",
            "function(e) return e, 2 end",
            "function(...) return select('#', ...) end",
            "num",
        ]);
        match self.rng.below(8) {
            0 => Node::leaf(format!("local {ok}, {e} = pcall(error, {list}) {after}")),
            1 => {
                let f = self.expr(Fun, 1);
                Node::leaf(format!("local {ok}, {e} = pcall({f}, {list}) {after}"))
            }
            2 => {
                let f = if !self.tame && self.rng.one_in(3) { self.expr(Any, 1) } else { self.expr(Fun, 1) };
                Node::leaf(format!("local {ok}, {e} = xpcall({f}, {handler}, {list}) {after}"))
            }
            3 => Node::leaf(format!(
                "note(pcall(pcall, {}, {list}))",
                self.rng.pick(&["error", "num", "pass", "nil"])
            )),
            kind => {
                let (body, vararg) = self.protected();
                let parameters = if vararg { "p, ..." } else { "p" };
                let (head, tail) = match kind {
                    4 | 5 => (
                        format!("local {ok}, {e} = pcall(function({parameters})"),
                        format!("end, {list}) {after}"),
                    ),
                    6 => (
                        format!("local {ok}, {e} = xpcall(function({parameters})"),
                        format!("end, {handler}, {list}) {after}"),
                    ),
                    _ => (format!("note(pcall(function({parameters})"), format!("end, {list}))")),
                };
                Node::block(head, body, tail)
            }
        }
    }

    /// Coroutines; what they run yields anywhere.
    pub(super) fn coroutine(&mut self) -> Node {
        if self.yields && self.rng.one_in(2) {
            return self.giving();
        }
        let vararg = self.rng.one_in(2);
        let mut body = Vec::new();
        let n = self.rng.range(2, 5);
        self.inside(&[("p", Num), ("q", Any)], vararg, |g| {
            g.yields = true;
            let k = g.fresh("k");
            let mut inner = vec![g.giving()];
            if g.rng.one_in(2) {
                inner.push(Node::leaf(format!("p = num(p) + {k}")));
            }
            if g.rng.one_in(2) {
                inner.push(g.giving());
            }
            if g.rng.one_in(4) {
                inner.extend(g.block());
            }
            let head = match g.rng.below(4) {
                0 => format!("for {k} in upto({n}) do"),
                1 => format!("for {k}, w in closes({n}) do"),
                _ => format!("for {k} = 1, {n} do"),
            };
            body.push(Node::block(head, inner, "end"));
            body.extend(g.block());
            body.push(Node::leaf(match g.rng.below(4) {
                0 => format!("return coroutine.yield({})", g.several()),
                1 => "error(said(q))".into(),
                _ => format!("return {}", g.results(false)),
            }));
        });
        let dots = if vararg { ", ..." } else { "" };
        let (co, k) = (self.fresh("co"), self.fresh("k"));
        let (list, x, v) = (self.args(3), self.expr(Num, 1), self.place(Num));
        let (make, tail) = match self.rng.below(9) {
            0 => (
                "create",
                format!(
                    "end) note(coroutine.resume({co}, {list})) note(coroutine.resume({co}, {x})) shut({co})"
                ),
            ),
            1 | 2 => (
                "create",
                format!(
                    "end) for {k} = 1, {n} do local ok, p, q = coroutine.resume({co}, {k}, {list}) note(ok, p, long(q)) \
                     {v} = {v} + 1 end note(#coroutine.status({co}))"
                ),
            ),
            3 => (
                "create",
                format!(
                    "end) local {k} = 0 while coroutine.status({co}) ~= 'dead' and {k} < 7 do {k} = {k} + 1 \
                     note(coroutine.resume({co}, {k}, {x})) end note(coroutine.resume({co})) note(shut({co}))"
                ),
            ),
            4 | 5 => (
                "wrap",
                format!(
                    "end) local {k} = 0 for p, q in {co}, {x}, nil do {k} = {k} + 1 note(p, q) \
                     if {k} > {n} or {} then break end end",
                    self.condition(1)
                ),
            ),
            6 => ("wrap", format!("end) note({co}({list})) {v} = num({co}({x}))")),
            7 => (
                "wrap",
                format!("end) for {k} = 1, {n} do local ok, e = pcall({co}, {x}, {k}) note(ok, long(e)) end"),
            ),
            _ => ("wrap", format!("end) note({co}({list}), {co}(), coroutine.isyieldable(), {})", paren(&x))),
        };
        Node::block(format!("local {co} = coroutine.{make}(function(p, q{dots})"), body, tail)
    }
}
