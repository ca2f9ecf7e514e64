//! Statements around metatables: objects whose classes change under the feet of the code that uses them,
//! to-be-closed variables, coroutines.

use super::expr::{Kind, paren};
use super::{Gen, Node};

impl Gen<'_> {
    /// Methods, fields and metatables that change while a loop uses them: what inline caches must notice.
    pub(super) fn changing_class(&mut self) -> Node {
        let (o, i) = (self.fresh("o"), self.fresh("i"));
        let class = self.rng.pick(&["Base", "Derived", "Vec"]);
        let e = self.expr(Kind::Int, 1);
        let change = match self.rng.below(10) {
            0 => format!("{class}.get = function(self) tick() return {e} end"),
            1 => format!("rawset({o}, 'get', function() return 'own' end)"),
            2 => format!("{o}.get = nil"),
            3 => format!("setmetatable({o}, {})", self.rng.pick(&["Base", "Derived", "Vec"])),
            4 => format!("{o}.f{} = {e}", self.rng.below(80)),
            5 => format!("{o} = {}.new({e})", self.rng.pick(&["Base", "Derived", "Vec"])),
            6 => "Base.inc = function(self) self.n = 5 return self.n end".into(),
            7 => {
                format!("local mt = getmetatable({o}) mt.__newindex = function(t, k, v) rawset(t, k, v) end")
            }
            8 => format!("for j = 1, 70 do {o}['x' .. j] = j end"),
            _ => format!("{class}.__index = function(_, k) return function() return k end end"),
        };
        let restore =
            format!("{class}.get, {class}.__index = get, index if {class} == Base then Base.inc = inc end");
        let when = self.rng.below(6);
        let body = vec![
            Node::leaf("tick()"),
            Node::leaf(format!("r[#r + 1] = text({o}:get(), 9) .. text({o}.n, 9)")),
            Node::leaf(format!("if {i} == {when} then {change} end")),
            Node::leaf(format!("{o}:inc()")),
            Node::leaf(format!("{o}.n = {o}.n + {i}")),
        ];
        Node::block(
            "do",
            vec![
                Node::leaf(format!(
                    "local {o}, r, get, index, inc = {class}.new({}), {{}}, {class}.get, {class}.__index, \
                     Base.inc",
                    self.rng.range(-2, 9)
                )),
                Node::block(format!("check(function() for {i} = 0, 7 do"), body, "end end)"),
                Node::leaf("show(table.concat(r, ' '))"),
                Node::leaf(restore),
            ],
            "end",
        )
    }

    /// Operators on objects.
    pub(super) fn operators(&mut self) -> Node {
        let op = self.rng.pick(&[
            "+", "-", "*", "/", "//", "%", "^", "&", "|", "~", "<<", ">>", "..", "<", "<=", "==", "~=", ">",
            ">=",
        ]);
        let k = self.kind();
        let (a, b) = (self.expr(Kind::Obj, 1), self.expr(k, 1));
        if self.rng.one_in(2) {
            Node::leaf(format!("check(function() return {a} {op} {b} end)"))
        } else {
            Node::leaf(format!("check(function() return {b} {op} {a}, -{}, #{} end)", paren(&a), paren(&a)))
        }
    }

    /// A block that is left in some way while variables wait to be closed.
    pub(super) fn closing(&mut self) -> Node {
        let (x, y, log) = (self.fresh("x"), self.fresh("y"), self.fresh("log"));
        let leave = match self.rng.below(7) {
            0 => "error('out')",
            1 => "error({1}, 0)",
            2 => "return 1, 2, 3",
            3 => "do goto done end",
            4 => "break",
            5 => "local t = nil; t.x = 1",
            _ => "return (function(...) return ... end)(4, 5)",
        };
        let inner = if self.rng.one_in(3) { "if e then error('second:' .. type(e), 0) end" } else { "" };
        // Its own function: a loop outside is out of reach.
        let loops = std::mem::take(&mut self.loops);
        self.function += 1;
        let body = self.block(2);
        self.function -= 1;
        self.loops = loops;
        let mut nodes = vec![
            Node::leaf(format!(
                "local {x} <close> = setmetatable({{}}, {{__close = function(o, e) {log}[#{log} + 1] = '{x}' \
                 .. type(e) {inner} end}})"
            )),
            Node::leaf(format!(
                "local {y} <close> = {}",
                self.rng.pick(&[
                    "nil",
                    "false",
                    "setmetatable({}, {__close = function() tick() end})",
                    "42",
                    "nil"
                ])
            )),
        ];
        nodes.extend(body);
        let leave = if leave == "break" { "if true then break end" } else { leave };
        nodes.push(Node::leaf(format!(
            "if {} then {leave} end",
            self.rng.pick(&["true", "true", "not nil", "#'' > 0"])
        )));
        nodes.push(Node::leaf("::done::"));
        Node::block(
            format!("do local {log} = {{}}"),
            vec![
                Node {
                    parts: vec![("check(function() for i = 1, 2 do".into(), nodes)],
                    tail: "end return 'end' end)".into(),
                },
                Node::leaf(format!("show(table.concat({log}, ','))")),
            ],
            "end",
        )
    }

    /// A coroutine that yields from some place, resumed a few times.
    pub(super) fn coroutine(&mut self) -> Node {
        let (co, a) = (self.fresh("co"), self.fresh("a"));
        let e = self.expr(Kind::Int, 2);
        let yielding = match self.rng.below(10) {
            0 => format!(
                "show(pcall(function() local r = coroutine.yield({e}) if r == 2 then error('two') end return \
                 r end))"
            ),
            1 => "local t = setmetatable({}, {__index = function(t, k) return coroutine.yield(k) end}) \
                show(t.x, t.y)"
                .into(),
            2 => {
                "local t = setmetatable({}, {__add = function(a, b) return coroutine.yield('add') end, __lt \
                 = function() return coroutine.yield('lt') end, __concat = function() return \
                 coroutine.yield('cc') end, __eq = function() return coroutine.yield('eq') end}) show(t + 1, \
                 t < t, 'x' .. t, t == setmetatable({}, getmetatable(t)))"
                    .into()
            }
            3 => "for x in function(_, i) i = (i or 0) + 1 if i > 3 then return nil end coroutine.yield(i) \
                return i end do show('it', x) end"
                .into(),
            4 => "local x <close> = setmetatable({}, {__close = function() coroutine.yield('closing') end}) \
                coroutine.yield('open')"
                .into(),
            5 => format!("for i = 1, 3 do tick() show('in', coroutine.yield(i, {e})) end"),
            6 => "local inner = coroutine.wrap(function(...) for i = 1, 2 do coroutine.yield(i, ...) end \
                return 'done' end) show(inner(7), inner(), inner()) show(coroutine.isyieldable(), \
                coroutine.running() ~= nil)"
                .into(),
            7 => {
                "show(xpcall(function() coroutine.yield('x') error({}) end, function(e) return type(e) end))"
                    .into()
            }
            8 => {
                "local t = setmetatable({}, {__newindex = function(t, k, v) coroutine.yield(k) rawset(t, k, \
                 v) end, __call = function(self, ...) return coroutine.yield(...) end, __len = function() \
                 return coroutine.yield('len') end}) t.q = 1 show(t.q, t(1, 2), #t)"
                    .into()
            }
            _ => "local function deep(n) tick() if n == 0 then return coroutine.yield('deep') end return 1, \
                deep(n - 1) end show(deep(5))"
                .into(),
        };
        let body = {
            let mark = self.scope.len();
            self.declare(&a, Kind::Int, false);
            let mut body = self.function_block(2);
            body.insert(1, Node::leaf(yielding));
            self.scope.truncate(mark);
            body
        };
        let times = 1 + self.rng.below(7);
        let end = match self.rng.below(4) {
            0 => format!("show(coroutine.close({co}))"),
            1 => format!("show(coroutine.status({co}), coroutine.resume({co}, 9))"),
            2 => "collectgarbage()".into(),
            _ => format!("show({co})"),
        };
        Node::block(
            "do",
            vec![
                Node::block(
                    format!("local {co} = coroutine.create(function({a}, ...)"),
                    body,
                    "return 'ret', ... end)",
                ),
                Node::leaf(format!("for i = 1, {times} do show(i, coroutine.resume({co}, i, i + 1)) end")),
                Node::leaf(end),
            ],
            "end",
        )
    }

    /// Weak tables and finalisers: what is held stays, and nothing breaks; what is gone is not shown.
    pub(super) fn garbage(&mut self) -> Node {
        let mode = self.rng.pick(&["k", "v", "kv"]);
        let n = self.rng.range(1, 40);
        let collect = self.rng.pick(&[
            "collectgarbage()",
            "collectgarbage('step')",
            "collectgarbage('generational') collectgarbage() collectgarbage('incremental')",
            "collectgarbage() collectgarbage()",
        ]);
        let text = match self.rng.below(4) {
            0 => format!(
                "do local w, held = setmetatable({{}}, {{__mode = '{mode}'}}), {{}} for i = 1, {n} do local \
                 k = {{i}} held[i] = k w[k] = k w[{{}}] = {{}} end {collect} local c = 0 for i = 1, #held do \
                 if w[held[i]] == held[i] then c = c + 1 end end show(c) end"
            ),
            1 => format!(
                "do local e, k = setmetatable({{}}, {{__mode = 'k'}}), {{}} e[k] = {{k, {{e}}}} for i = 1, \
                 {n} do local x = {{}} e[x] = {{x}} end {collect} show(e[k][1] == k) end"
            ),
            2 => format!(
                "do local keep = {{}} for i = 1, {n} do setmetatable({{i}}, {{__gc = function(o) keep[o[1]] \
                 = o end}}) end {collect} local t = {{}} for i = 1, {n} do t[i] = ('s' .. i):rep(3) end \
                 show(t[1], t[{n}]) end"
            ),
            _ => format!(
                "do local t = {{}} for i = 1, {n} do t[i] = {{i, x = i .. 'x', f = function() return i end}} \
                 if i % 7 == 0 then {collect} end end local s = 0 for i = 1, {n} do s = s + t[i].f() + \
                 t[i][1] + #t[i].x end show(s) end"
            ),
        };
        Node::leaf(text)
    }
}
