//! Statements.

use super::expr::{Kind, paren};
use super::{Gen, Node};

impl Gen<'_> {
    /// A statement of the main block; most are protected, so that one error does not end the program.
    pub(super) fn top(&mut self) -> Node {
        match self.rng.below(12) {
            0 | 1 => self.declaration(),
            2 => self.function(),
            3 if self.rng.one_in(12) => self.statement(),
            _ => {
                let mark = self.scope.len();
                let mut body = self.function_block(4);
                let k = self.kind();
                let e = self.expr(k, 2);
                body.push(Node::leaf(format!("do return {e} end")));
                self.scope.truncate(mark);
                Node::block("check(function(...)", body, "end, 1, 'two')")
            }
        }
    }

    pub(super) fn declaration(&mut self) -> Node {
        self.left = self.left.saturating_sub(1);
        let kind = self.kind();
        let (name, e) = (self.fresh("v"), self.expr(kind, 2));
        let constant = self.rng.one_in(8);
        let text = if self.depth == 0 && self.rng.one_in(5) && !constant {
            let name = format!("g{name}");
            self.declare(&name, kind, false);
            return Node::leaf(format!("{name} = {e}"));
        } else if self.rng.one_in(10) {
            let (other, k) = (self.fresh("v"), self.kind());
            let f = self.expr(k, 1);
            self.declare(&other, k, false);
            format!("local {name}, {other} = {e}, {f}")
        } else {
            format!("local {name}{} = {e}", if constant { " <const>" } else { "" })
        };
        self.declare(&name, kind, constant);
        if self.depth == 0 {
            // An error here would end the program before it has begun.
            return Node::leaf(text.replacen("= ", "= (function() return ", 1) + " end)()");
        }
        Node::leaf(text)
    }

    fn function(&mut self) -> Node {
        self.left = self.left.saturating_sub(1);
        let (f, a, b) = (self.fresh("f"), self.fresh("p"), self.fresh("p"));
        let mark = self.scope.len();
        self.declare(&a, Kind::Int, false);
        self.declare(&b, Kind::Num, false);
        let body = self.function_block(4);
        let (k, l) = (self.kind(), self.kind());
        let (x, y) = (self.expr(k, 2), self.expr(l, 1));
        self.scope.truncate(mark);
        self.declare(&f, Kind::Fun, true);
        let tail = match self.rng.below(5) {
            0 => format!("return {x}, ... end"),
            1 => format!("if {a} == 3 then return {f}(4, ...) end return {x} end"),
            2 => format!("return select(-1, {x}, {y}) end"),
            3 => "end".into(),
            _ => format!("return {x}, {y} end"),
        };
        Node::block(format!("local function {f}({a}, {b}, ...)"), body, tail)
    }

    pub(super) fn statement(&mut self) -> Node {
        self.left = self.left.saturating_sub(1);
        if self.depth > 5 {
            return self.simple();
        }
        match self.rng.below(40) {
            0..=6 => self.simple(),
            7..=9 => self.declaration(),
            10..=12 => self.branch(),
            13..=16 => self.numeric_for(),
            17 | 18 => self.generic_for(),
            19 => self.while_loop(),
            20 => self.repeat_loop(),
            21 | 22 => self.capture(),
            23 | 24 => self.varargs(),
            25 => self.deletion(),
            26 => self.sorting(),
            27 => self.tables(),
            28 | 29 => self.errors(),
            30 => self.changing_class(),
            31 | 32 => self.operators(),
            33 => self.closing(),
            34 | 35 => self.coroutine(),
            36 if self.rng.one_in(2) => self.garbage(),
            37 => self.recursion(),
            38 => {
                let e = self.rng.pick(&[
                    "1 + 2 .. 3",
                    "...",
                    "_ENV ~= nil, 2^53",
                    "{1, 2, x = 3}",
                    "syntax error here",
                    "'\\\\65'",
                    "1 // 0",
                ]);
                Node::leaf(format!(
                    "do local f, e = load({}, '=loaded') show(e or f(1, 2)) end",
                    crate::literal::string(format!("return {e}").as_bytes())
                ))
            }
            _ => {
                let body = self.block(3);
                Node::block("do", body, "end")
            }
        }
    }

    /// Assignments, calls, output.
    fn simple(&mut self) -> Node {
        let kind = self.kind();
        let text = match self.rng.below(12) {
            0..=3 => match self.target(kind) {
                Some(v) => format!("{v} = {}", self.expr(kind, 3)),
                None => format!("show({})", self.expr(kind, 2)),
            },
            4 => {
                let (Some(a), Some(b)) = (self.target(kind), self.target(kind)) else { return self.show() };
                format!("{a}, {b} = {b}, {}", self.expr(kind, 2))
            }
            5 => {
                let Some(r) = self.var(Kind::Rec) else { return self.show() };
                let (f, e) = (self.rng.pick(&["a", "b", "c", "a"]), self.expr(Kind::Int, 2));
                match self.rng.below(4) {
                    0 => format!("{r}.s = {}", self.expr(Kind::Str, 2)),
                    1 => format!("{r}.{f} = {r}.{f} + {e}"),
                    2 => format!("{r}['k' .. {}] = {e}", self.rng.below(20)),
                    _ => format!("{r}.{f} = {e}"),
                }
            }
            6 => {
                let Some(t) = self.var(Kind::Arr) else { return self.show() };
                let e = self.expr(Kind::Int, 2);
                match self.rng.below(6) {
                    0 => format!("{t}[#{t} + 1] = {e} or 0"),
                    1 => format!("if #{t} > 0 then {t}[#{t}] = nil end"),
                    2 => format!("table.insert({t}, 1, {e} or 1)"),
                    3 => format!("show(table.remove({t}, 1))"),
                    4 => format!("if #{t} > 2 then {t}[2] = {e} or 2 end"),
                    _ => format!("for i = #{t} + 1, #{t} + {} do {t}[i] = i end", self.rng.below(30)),
                }
            }
            7 => {
                let Some(t) = self.var(Kind::Dict) else { return self.show() };
                let (e, f) = (self.expr(Kind::Int, 2), self.expr(Kind::Int, 2));
                match self.rng.below(4) {
                    0 => format!("{t}[{e}] = {f}"),
                    1 => format!("{t}[{}] = {f}", self.expr(Kind::Num, 1)),
                    2 => format!("{t}[{}] = {f}", self.expr(Kind::Str, 2)),
                    _ => format!("for i = 1, {} do {t}['k' .. i] = i {t}[-i] = i end", self.rng.below(40)),
                }
            }
            8 => {
                let Some(f) = self.var(Kind::Fun) else { return self.show() };
                let args: Vec<String> = (0..self.rng.below(4))
                    .map(|_| {
                        let k = if self.rng.one_in(4) { self.kind() } else { Kind::Int };
                        self.expr(k, 1)
                    })
                    .collect();
                let args = args.join(", ");
                match self.rng.below(4) {
                    0 => format!("show(({f}({args})))"),
                    1 => format!("show({{{f}({args})}}, {f}({args}))"),
                    2 => format!("check({f}{}{args})", if args.is_empty() { "" } else { ", " }),
                    _ => format!("show('call', {f}({args}))"),
                }
            }
            9 if self.loops > 0 => {
                let c = self.expr(Kind::Bool, 1);
                format!("if {c} then {} end", self.rng.pick(&["break", "goto continue", "break"]))
            }
            10 if self.function > 0 => {
                let c = self.expr(Kind::Bool, 2);
                let k = self.kind();
                let e = self.expr(k, 2);
                format!("if {c} then return {e} end")
            }
            _ => return self.show(),
        };
        Node::leaf(text)
    }

    fn show(&mut self) -> Node {
        let (k, l) = (self.kind(), self.kind());
        Node::leaf(format!("show({}, {})", self.expr(k, 3), self.expr(l, 2)))
    }

    fn branch(&mut self) -> Node {
        let mut parts = vec![(format!("if {} then", self.bool(3)), self.block(3))];
        if self.rng.one_in(3) {
            parts.push((format!("elseif {} then", self.expr(Kind::Bool, 2)), self.block(2)));
        }
        if self.rng.one_in(2) {
            parts.push(("else".into(), self.block(3)));
        }
        Node { parts, tail: "end".into() }
    }

    /// The body of a loop: `goto continue` works anywhere in it.
    fn loop_body(&mut self, variable: Option<(&str, Kind)>) -> Vec<Node> {
        let mark = self.scope.len();
        self.loops += 1;
        if let Some((name, kind)) = variable {
            self.declare(name, kind, true);
        }
        let mut body = vec![Node::leaf("tick()")];
        let inner = self.block(4);
        body.push(Node::block("do", inner, "end"));
        body.push(Node::leaf("::continue::"));
        self.loops -= 1;
        self.scope.truncate(mark);
        body
    }

    fn numeric_for(&mut self) -> Node {
        let i = self.fresh("i");
        let (range, kind) = match self.rng.below(16) {
            0..=3 => (format!("{}, {}", self.rng.range(-2, 3), self.rng.range(0, 8)), Kind::Int),
            4 => (
                format!("{}, {}, -{}", self.rng.range(3, 9), self.rng.range(-3, 3), self.rng.range(1, 3)),
                Kind::Int,
            ),
            5 => ("math.maxinteger - 2, math.maxinteger".into(), Kind::Int),
            6 => ("math.mininteger + 1, math.mininteger, -1".into(), Kind::Int),
            7 => ("math.maxinteger - 1, math.huge".into(), Kind::Int),
            8 => (format!("1.0, {}, 0.75", self.rng.range(0, 5)), Kind::Num),
            9 => (format!("{}, {}.7", self.rng.range(-1, 2), self.rng.range(0, 4)), Kind::Int),
            10 => ("math.mininteger, math.maxinteger, math.maxinteger".into(), Kind::Int),
            11 => ("3, 1".into(), Kind::Int),
            12 => (
                format!(
                    "1, 3, {}",
                    self.rng.pick(&["0", "0.0", "'1'", "nil", "math.mininteger", "math.huge"])
                ),
                Kind::Int,
            ),
            13 => {
                (format!("{}, 2", self.rng.pick(&["'1'", "{}", "nil", "-math.huge + 1/0", "1"])), Kind::Int)
            }
            14 => (format!("1, math.min(9, {})", self.expr(Kind::Int, 1)), Kind::Int),
            _ => (format!("0, {}, {}", self.rng.range(-6, 12), self.rng.range(-3, 4)), Kind::Int),
        };
        let body = self.loop_body(Some((&i, kind)));
        Node::block(format!("for {i} = {range} do"), body, "end")
    }

    fn generic_for(&mut self) -> Node {
        let (a, b) = (self.fresh("k"), self.fresh("w"));
        let arr = self.expr(Kind::Arr, 1);
        let (list, kind) = match self.rng.below(6) {
            0 | 1 => (format!("ipairs({arr})"), Kind::Int),
            2 => ("string.gmatch('one two  three4', '%a+')".into(), Kind::Str),
            3 => (
                "(function() local n = 0 return function() n = n + 1 if n < 4 then return n, n * 2 end end \
                 end)()"
                    .into(),
                Kind::Int,
            ),
            4 => {
                let log = "setmetatable({}, {__close = function(_, e) show('closed', e) end})";
                (
                    format!(
                        "function(s, c) if c < s then return c + 1, s end end, {}, 0, {log}",
                        self.rng.range(0, 4)
                    ),
                    Kind::Int,
                )
            }
            _ => (format!("next, {{{}}}", self.rng.pick(&["", "7", "x = 1", "{}"])), Kind::Int),
        };
        let body = self.loop_body(Some((&a, kind)));
        Node::block(format!("for {a}, {b} in {list} do"), body, "end")
    }

    fn while_loop(&mut self) -> Node {
        let n = self.fresh("n");
        let c = self.expr(Kind::Bool, 2);
        let mut body = self.loop_body(Some((&n, Kind::Int)));
        body.insert(0, Node::leaf(format!("{n} = {n} + 1")));
        Node::block(
            format!("local {n} = 0 while {n} < {} and ({c} or {n} < 3) do", self.rng.range(1, 9)),
            body,
            "end",
        )
    }

    fn repeat_loop(&mut self) -> Node {
        let (n, last) = (self.fresh("n"), self.fresh("last"));
        let inner = self.block(3);
        let f =
            self.rng.pick(&["", "local f = function() return n end "]).replace("n end", &format!("{n} end"));
        Node::block(
            format!("local {n} = 0 repeat"),
            vec![Node::leaf("tick()"), Node::leaf(format!("{n} = {n} + 1")), Node::block("do", inner, "end")],
            format!("{f}local {last} = {n} > {} until {last}", self.rng.range(0, 5)),
        )
    }

    /// Closures made in a loop, called after it.
    fn capture(&mut self) -> Node {
        let (fs, i) = (self.fresh("fs"), self.fresh("i"));
        let leave = match self.rng.below(4) {
            0 => format!("if {i} == 3 then break end"),
            1 => format!("if {i} == 2 then goto continue end"),
            _ => String::new(),
        };
        let e = self.expr(Kind::Int, 2);
        Node::block(
            "do",
            vec![
                Node::leaf(format!("local {fs}, shared = {{}}, 0")),
                Node::block(
                    format!("for {i} = 1, {} do", self.rng.range(1, 6)),
                    vec![
                        Node::leaf(format!("local own = {i} * 10")),
                        Node::leaf(format!(
                            "{fs}[#{fs} + 1] = function(d) tick() own = own + (d or 1) shared = shared + own \
                             return own, shared, {i} end"
                        )),
                        Node::leaf(format!(
                            "{fs}[#{fs} + 1] = function() local function inner() own = {e} return own, {i} \
                             end return inner() end"
                        )),
                        Node::leaf(leave),
                        Node::leaf("::continue::"),
                    ],
                    "end",
                ),
                Node::leaf(format!("for j = 1, #{fs} do show(j, {fs}[j](j)) end")),
                Node::leaf(format!("for j = #{fs}, 1, -1 do show(j, pcall({fs}[j])) end")),
            ],
            "end",
        )
    }

    fn varargs(&mut self) -> Node {
        let list: Vec<String> = (0..self.rng.below(6))
            .map(|_| {
                let k = self.kind();
                self.expr(k, 1)
            })
            .collect();
        let list = list.join(", ");
        let e = self.expr(Kind::Int, 1);
        let body = match self.rng.below(8) {
            0 => "return select('#', ...), ..., 'last'".into(),
            1 => "local a, b, c = ... return c, b, a, (...)".into(),
            2 => "local t = {..., ...} return #t >= 0, select('#', ...)".into(),
            3 => "return table.pack(...).n, select(2, ..., 1)".into(),
            4 => format!("return select({e}, ...)"),
            5 => "local function inner(...) return ... end return inner(0, inner(...))".into(),
            6 => "return (function(a, ...) tick() return ..., a end)(...)".into(),
            _ => "return table.unpack({...}, 1, select('#', ...))".into(),
        };
        Node::leaf(format!(
            "check(function(...) {body} end{}{list})",
            if list.is_empty() { "" } else { ", " }
        ))
    }

    /// Fields removed during traversal.
    fn deletion(&mut self) -> Node {
        let t = self.expr(Kind::Dict, 1);
        let n = self.rng.range(1, 60);
        let condition = self.rng.pick(&["v % 2 == 0", "true", "type(k) == 'string'", "v > 10", "k == 'k3'"]);
        let then = self.rng.pick(&[
            "t[k] = nil",
            "t[k] = v + 1000",
            "t[k] = nil t[k] = nil",
            "if type(k) == 'number' then t[k] = nil end",
        ]);
        Node::leaf(format!(
            "do local t, c, s = {t}, 0, 0 for i = 1, {n} do t[i] = i t['k' .. i] = i end \
             for k, v in pairs(t) do c = c + 1 if math.type(v) == 'integer' and ({condition}) then s = s + v \
             {then} end end \
             show(c, s) t[{n} + 1], t.new = 5, 6 c = 0 for k, v in next, t do c = c + 1 end show(c, t[1], \
             t.k3, t.new) end"
        ))
    }

    fn sorting(&mut self) -> Node {
        let n = self.rng.range(0, 50);
        let (m, a) = (self.rng.range(1, 97), self.rng.range(1, 50));
        match self.rng.below(4) {
            0 => Node::leaf(format!(
                "do local t = {{}} for i = 1, {n} do t[i] = (i * {a}) % {m} end table.sort(t{}) show(t) end",
                self.rng.pick(&[
                    "",
                    ", function(a, b) return a > b end",
                    ", function(a, b) return a < b end"
                ])
            )),
            1 => Node::leaf(format!(
                "do local t = {{}} for i = 1, {n} do t[i] = tostring((i * {a}) % {m}) end table.sort(t) \
                 show(table.concat(t, ' ')) end"
            )),
            2 => Node::leaf(format!(
                "do local t = {{}} for i = 1, {n} do t[i] = {{k = (i * {a}) % {m}, i = i}} end table.sort(t, \
                 function(x, y) if x.k ~= y.k then return x.k < y.k end return x.i < y.i end) local r = {{}} \
                 for i, x in ipairs(t) do r[i] = x.k * 100 + x.i end show(r) end"
            )),
            _ => Node::leaf(format!(
                "do local t = {{}} for i = 1, {n} do t[i] = i % 2 == 0 and i * {a} % {m} or i + 0.5 end \
                 table.sort(t) show(t) end"
            )),
        }
    }

    fn tables(&mut self) -> Node {
        let t = self.expr(Kind::Arr, 1);
        let (i, j, k) = (self.rng.range(-2, 9), self.rng.range(-2, 9), self.rng.range(0, 9));
        let text = match self.rng.below(9) {
            0 => format!("check(table.unpack, {t}, {i}, {j})"),
            1 => format!("check(table.concat, {t}, '-', {i}, {j})"),
            2 => format!("show(table.move({{1, 2, 3, 4, 5}}, {}, {}, {}))", i.abs(), j.min(5), k + 1),
            3 => format!("check(table.insert, {{1, 2, 3}}, {i}, 'x')"),
            4 => format!("check(table.remove, {{1, 2, 3}}, {i})"),
            5 => format!("check(string.rep, 'ab', {i}, '{k}')"),
            6 => format!("check(next, {{}}, {i})"),
            7 => format!(
                "do local t = {{}} for i = 1, {} do t[i] = i end for i = 1, {} do table.remove(t{}) end \
                 show(#t, t) end",
                k * 8,
                k * 4,
                self.rng.pick(&["", ", 1", ""])
            ),
            _ => format!(
                "do local t = {{n = 0}} for i = {}, -3, -1 do t[i] = i end for i = 1, 5 do t[i] = -i end \
                 show(t, #t) end",
                j + 2
            ),
        };
        Node::leaf(text)
    }

    fn errors(&mut self) -> Node {
        let (k, l) = (self.kind(), self.kind());
        let (e, f) = (self.expr(k, 1), self.expr(l, 1));
        let text = match self.rng.below(16) {
            0 => format!("check(error, {e})"),
            1 => format!("check(function() error({e}, {}) end)", self.rng.range(0, 3)),
            2 => format!("check(function() local x = {e} return x.y.z end)"),
            3 => format!("check(function() local x = {e} x.y = 1 end)"),
            4 => format!("check(function() local x = {e} return x() end)"),
            5 => format!("check(function() return {} + {} end)", paren(&e), paren(&f)),
            6 => format!("check(function() return {} .. {} end)", paren(&e), paren(&f)),
            7 => format!("check(function() return {} < {} end)", paren(&e), paren(&f)),
            8 => format!("check(function() local a <const> = {e} return a & {} end)", paren(&f)),
            9 => format!(
                "show(xpcall(function(...) return ... + nil end, function(m) return 'handled ' .. \
                 tostring(m) end, {e}))"
            ),
            10 => format!("show(select('#', pcall(pcall, error, {e})), pcall(error))"),
            11 => format!(
                "check(function() local t = setmetatable({{}}, {{__index = {e}}}) return t.field end)"
            ),
            12 => format!("check(string.rep, {e}, {f})"),
            13 => format!("check(function() {}:method({f}) end)", paren(&e)),
            14 => format!("check(setmetatable, {e}, {f})"),
            _ => format!(
                "check(function() for i = 1, {f} do tick() if i > 3 then break end end return #{} end)",
                paren(&e)
            ),
        };
        Node::leaf(text)
    }

    fn recursion(&mut self) -> Node {
        let n = self.rng.range(1, 12);
        let text = match self.rng.below(5) {
            0 => format!(
                "do local function fib(n) tick() if n < 2 then return n end return fib(n - 1) + fib(n - 2) \
                 end check(fib, {}) end",
                n.min(9)
            ),
            1 => format!(
                "do local function loop(n, acc) tick() if n == 0 then return acc end return loop(n - 1, acc \
                 + n) end check(loop, {}, 0) end",
                n * 9
            ),
            2 => format!(
                "do local function list(n, ...) tick() if n == 0 then return ... end return list(n - 1, n, \
                 ...) end check(list, {n}) end"
            ),
            3 => format!(
                "do local even, odd function even(n) tick() if n == 0 then return true end return odd(n - 1) \
                 end function odd(n) if n == 0 then return false end return even(n - 1) end check(even, {}) \
                 end",
                n * 5
            ),
            _ => format!(
                "do local function tree(d) tick() if d == 0 then return {{}} end return {{tree(d - 1), \
                 tree(d - 1)}} end local function count(t) tick() return t[1] and 1 + count(t[1]) + \
                 count(t[2]) or 1 end check(function() return count(tree({})) end) end",
                n.min(5)
            ),
        };
        Node::leaf(text)
    }
}
