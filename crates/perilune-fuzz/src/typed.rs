//! Random programs in which most operations have operands of the right type, so that they run far before they fail, if at all.
//!
//! Variables have a kind for life; an expression is generated for the kind that is wanted. What keeps programs short and comparable is
//! as in [`crate::programs`]: fuel, cut strings, sorted keys. Lists have no holes, so that their length is certain.

use crate::calls;
use crate::rng::Rng;

/// Helpers of typed programs, behind those of [`crate::programs`].
pub const PRELUDE: &str = r##"
local function n(v) if type(v) == "number" then return v end return type(v) == "string" and #v or 1 end
local function int(v) return math.tointeger(n(v)) or 3 end
local function s(v) if type(v) == "string" then return lim(v) end return type(v) end
local function list(t) if type(t) ~= "table" then return { 1 } end local r = {} for i = 1, 12 do local v = rawget(t, i); if v == nil then break end r[i] = n(v) end return r end
local function fn(f) return type(f) == "function" and f or function(a) return a end end
local function map(t, f) local r = {} for i, v in ipairs(t) do tick() r[i] = n(f(v, i)) end return r end
local function sort(t) for _, v in ipairs(t) do if v ~= v then return end end table.sort(t) end
local function fold(t, f, a) for i = 1, #t do tick() a = n(f(a, t[i])) end return a end
local function each(co, k) local sum = 0 for i = 1, k do tick() local ok, v = coroutine.resume(co, i) sum = sum + n(v) if not ok then break end end return sum end
local V = { __index = { len = function(v) return v.x * v.x + v.y end, at = function(v, k) return n(v[k]) end }, __name = "V" }
local function vec(x, y) return setmetatable({ x = n(x), y = n(y) }, V) end
V.__add = function(a, b) tick() if type(b) == "number" then return vec(a.x + b, a.y) elseif type(a) == "number" then return vec(a + b.x, b.y) end return vec(a.x + b.x, a.y + b.y) end
V.__mul = function(a, b) return type(b) == "number" and vec(a.x * b, a.y * b) or vec(1, 2) end
V.__unm = function(a) return vec(-a.x, -a.y) end
V.__eq = function(a, b) return a.x == b.x end
V.__lt = function(a, b) return a.x < b.x end
V.__le = function(a, b) return a.x <= b.x end
V.__len = function(a) return int(a.x) & 7 end
V.__call = function(a, p, q) return n(p) + a.y, q end
V.__concat = function(a, b) return "vec" end
V.__close = function(a, e) a.y = a.y + 1 end
local Base = { get = function(self) return self.v end, set = function(self, v) self.v = n(v) return self end }
Base.__index = Base
local Derived = setmetatable({ get = function(self) return Base.get(self) * 2 end }, { __index = Base })
Derived.__index = Derived
local function object(v) return setmetatable({ v = n(v) }, int(v) % 2 == 0 and Base or Derived) end
"##;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Number,
    Text,
    List,
    Function,
    Vector,
    Object,
}

struct Generator<'r> {
    rng: &'r mut Rng,
    text: String,
    scope: Vec<(String, Kind)>,
    fresh: usize,
    loops: usize,
    in_coroutine: bool,
}

/// The chunk's own text, to stand behind the preludes.
pub fn body(rng: &mut Rng) -> String {
    let mut g =
        Generator { rng, text: String::new(), scope: Vec::new(), fresh: 0, loops: 0, in_coroutine: false };
    for _ in 0..4 {
        g.local();
    }
    for _ in 0..2 + g.rng.below(5) {
        g.text += "check(function(...)\n";
        g.block(4);
        let results: Vec<String> = (0..1 + g.rng.below(3)).map(|_| g.any(2)).collect();
        g.text += &format!("return {}\nend)\n", results.join(", "));
    }
    // What is left of the variables that everything shared.
    let names: Vec<String> = g.scope.iter().filter(|v| v.1 != Kind::Function).map(|v| v.0.clone()).collect();
    g.text += &format!("check(function() return 0, {} end)\n", names.join(", "));
    g.text
}

impl Generator<'_> {
    fn name(&mut self) -> String {
        self.fresh += 1;
        format!("v{}", self.fresh)
    }

    fn kind(&mut self) -> Kind {
        [
            Kind::Number,
            Kind::Number,
            Kind::Number,
            Kind::Text,
            Kind::List,
            Kind::Function,
            Kind::Vector,
            Kind::Object,
        ][self.rng.below(8)]
    }

    fn variable(&mut self, kind: Kind) -> Option<String> {
        let names: Vec<&String> = self.scope.iter().filter(|v| v.1 == kind).map(|v| &v.0).collect();
        if names.is_empty() {
            return None;
        }
        let i = names.len() - 1 - self.rng.below(names.len()).min(self.rng.below(names.len()));
        Some(names[i].clone())
    }

    fn local(&mut self) {
        let kind = self.kind();
        let value = self.of(kind, 3);
        let name = self.name();
        let value = if kind == Kind::Text { format!("lim({value})") } else { value };
        self.text += &format!("local {name} = {value}\n");
        self.scope.push((name, kind));
    }

    fn block(&mut self, depth: usize) {
        let scope = self.scope.len();
        for _ in 0..1 + self.rng.below(4) {
            self.statement(depth);
        }
        self.scope.truncate(scope);
    }

    fn statement(&mut self, depth: usize) {
        if self.rng.one_in(40) {
            let (a, b) = (self.any(2), self.any(2));
            let op = self.rng.pick(&["+", "..", "<", "&", "//", "=="]);
            self.text += &format!("local _ = {a} {op} {b}\n");
            return;
        }
        match self.rng.below(if depth == 0 { 7 } else { 18 }) {
            0 | 1 => self.local(),
            2 | 3 => {
                let kind = self.kind();
                if let Some(name) = self.variable(kind) {
                    let value = self.of(kind, 3);
                    let value = if kind == Kind::Text { format!("lim({value})") } else { value };
                    self.text += &format!("{name} = {value}\n");
                }
            }
            4 => {
                if let Some(name) = self.variable(Kind::List) {
                    let value = self.number(2);
                    self.text += &match self.rng.below(5) {
                        0 => format!(
                            "do local new = {value} if #{name} < 20 then {name}[#{name} + 1] = new end end\n"
                        ),
                        1 => format!("if #{name} < 20 then table.insert({name}, 1, {value}) end\n"),
                        2 => format!("table.remove({name})\n"),
                        3 => format!("if {name}[2] then {name}[2], {name}[1] = {name}[1], {value} end\n"),
                        _ => format!("sort({name})\n"),
                    };
                }
            }
            5 => {
                if let Some(name) = self.variable(Kind::Vector) {
                    let (field, value) = (self.rng.pick(&["x", "y"]), self.number(2));
                    self.text += &format!("{name}.{field} = {value}\n");
                }
            }
            6 => {
                if let Some(name) = self.variable(Kind::Object) {
                    let value = self.number(2);
                    self.text += &format!("{name}:set({value})\n");
                }
            }
            7 | 8 => {
                let condition = self.condition(3);
                self.text += &format!("if {condition} then\n");
                self.block(depth - 1);
                if self.rng.one_in(2) {
                    self.text += "else\n";
                    self.block(depth - 1);
                }
                self.text += "end\n";
            }
            9 | 10 if self.loops < 3 => {
                let name = self.name();
                let bounds = match self.rng.below(5) {
                    0 => format!("{}, fin({})", self.number(1), self.number(1)),
                    1 => format!(
                        "{}, fin({}), {}",
                        self.number(1),
                        self.number(1),
                        self.rng.pick(&["-1", "2", "0.5", "-3"])
                    ),
                    _ => format!("1, {}", self.rng.below(9)),
                };
                self.text += &format!("for {name} = {bounds} do tick()\n");
                self.loop_body(depth, name);
            }
            11 if self.loops < 3 => {
                let (key, value) = (self.name(), self.name());
                let items = self.list(2);
                self.text += &format!("for {key}, {value} in ipairs({items}) do tick()\n");
                self.loop_body(depth, value);
            }
            12 if self.loops < 3 => {
                let name = self.name();
                let (condition, limit) = (self.condition(2), self.rng.below(8));
                self.text += &format!(
                    "local {name} = 0\nwhile {name} < {limit} and {condition} do tick() {name} = {name} + 1\n"
                );
                self.loop_body(depth, name);
            }
            13 => {
                let name = self.name();
                let function = self.function(depth - 1);
                self.text += &format!("local {name} = {function}\n");
                self.scope.push((name, Kind::Function));
            }
            14 => {
                let name = self.name();
                self.text += &format!("local {name} = n(select(2, pcall(function(...)\n");
                self.block(depth - 1);
                let value = self.number(2);
                if self.rng.one_in(3) {
                    self.text += &format!("error({value})\nend)))\n");
                } else {
                    self.text += &format!("return {value}\nend)))\n");
                }
                self.scope.push((name, Kind::Number));
            }
            15 => {
                let (co, name, count) = (self.name(), self.name(), self.rng.below(6));
                self.text += &format!("local {co} = coroutine.create(function(arg)\n");
                let scope = self.scope.len();
                self.scope.push(("arg".to_owned(), Kind::Number));
                let outer = (std::mem::replace(&mut self.in_coroutine, true), self.loops);
                self.block(depth - 1);
                let value = self.number(2);
                self.text += &format!("for i = 1, 3 do arg = n(coroutine.yield({value})) end return arg\n");
                (self.in_coroutine, self.loops) = outer;
                self.scope.truncate(scope);
                self.text += &format!("end)\nlocal {name} = each({co}, {count})\n");
                self.scope.push((name, Kind::Number));
            }
            16 => {
                let name = self.name();
                let value = self.vector(1);
                self.text += &format!("do local {name} <close> = {value}\n");
                self.block(depth - 1);
                self.text += "end\n";
            }
            _ => {
                self.text += "do\n";
                self.block(depth - 1);
                self.text += "end\n";
            }
        }
    }

    fn loop_body(&mut self, depth: usize, name: String) {
        let scope = self.scope.len();
        self.scope.push((name, Kind::Number));
        self.loops += 1;
        if self.rng.one_in(4) {
            let (condition, way) = (self.condition(2), self.rng.pick(&["break", "goto continue"]));
            self.text += &format!("if {condition} then {way} end\n");
        }
        self.text += "do\n";
        self.block(depth - 1);
        self.text += "end\n::continue::\nend\n";
        self.loops -= 1;
        self.scope.truncate(scope);
    }

    fn of(&mut self, kind: Kind, depth: usize) -> String {
        match kind {
            Kind::Number => self.number(depth),
            Kind::Text => self.string(depth),
            Kind::List => self.list(depth),
            Kind::Function => self.function(depth.min(1)),
            Kind::Vector => self.vector(depth),
            Kind::Object => format!("object({})", self.number(depth.saturating_sub(1))),
        }
    }

    fn any(&mut self, depth: usize) -> String {
        let kind = self.kind();
        if kind == Kind::Function { self.number(depth) } else { self.of(kind, depth) }
    }

    fn number(&mut self, depth: usize) -> String {
        if depth == 0 || self.rng.one_in(4) {
            return match self.rng.below(8) {
                0 => format!("({})", calls::number(self.rng)),
                1 | 2 => self.rng.below(20).to_string(),
                3 => format!("{}.5", self.rng.below(9)),
                _ => self.variable(Kind::Number).unwrap_or_else(|| "2".to_owned()),
            };
        }
        let d = depth - 1;
        match self.rng.below(22) {
            0..=4 => {
                let op = self.rng.pick(&["+", "-", "*"]);
                format!("({} {op} {})", self.number(d), self.number(d))
            }
            5 => format!(
                "({} {} {})",
                self.number(d),
                self.rng.pick(&["/", "//", "%", "^"]),
                1 + self.rng.below(9)
            ),
            6 => format!("({} {} {})", self.number(d), self.rng.pick(&["//", "%", "/"]), self.number(d)),
            7 | 8 => {
                let op = self.rng.pick(&["&", "|", "~", "<<", ">>"]);
                format!("(int({}) {op} int({}))", self.number(d), self.number(d))
            }
            9 => format!("(-{})", self.number(d)),
            10 => format!("~int({})", self.number(d)),
            11 => format!("#({})", self.string(d)),
            12 => format!("#{}", self.list(d)).replace("#{", "#list{"),
            13 => format!("n(({})[{}])", self.list(d), self.rng.below(4)),
            14 | 15 => match self.variable(Kind::Function) {
                Some(f) => format!("n({f}({}, {}))", self.number(d), self.number(d)),
                None => self.number(d),
            },
            16 => {
                let vector = self.vector(d);
                format!("({vector}){}", self.rng.pick(&[".x", ".y", ":len()", ":at('x')"]))
            }
            17 => match self.variable(Kind::Object) {
                Some(object) => format!("{object}:get()"),
                None => self.number(d),
            },
            18 => format!("({} and {} or {})", self.condition(d), self.number(d), self.number(d)),
            19 => format!("math.{}({}, {})", self.rng.pick(&["max", "min"]), self.number(d), self.number(d)),
            20 if self.in_coroutine => format!("n(coroutine.yield({}))", self.number(d)),
            20 => format!("math.{}({})", self.rng.pick(&["floor", "abs", "ceil"]), self.number(d)),
            _ => format!("fold({}, {}, {})", self.list(d), self.function(0), self.number(d)),
        }
    }

    fn condition(&mut self, depth: usize) -> String {
        let d = depth.saturating_sub(1);
        match self.rng.below(if depth == 0 { 4 } else { 9 }) {
            0..=2 => {
                let op = self.rng.pick(&["<", "<=", ">", ">=", "==", "~="]);
                format!("({} {op} {})", self.number(d), self.number(d))
            }
            3 => {
                let op = self.rng.pick(&["<", "<=", "==", "~="]);
                format!("({} {op} {})", self.string(d), self.string(d))
            }
            4 => format!("(not {})", self.condition(d)),
            5 | 6 => {
                let op = self.rng.pick(&["and", "or"]);
                format!("({} {op} {})", self.condition(d), self.condition(d))
            }
            7 => {
                let op = self.rng.pick(&["<", "<=", "==", ">="]);
                format!("({} {op} {})", self.vector(d), self.vector(d))
            }
            _ => format!("(rawequal({}, nil))", self.any(d)),
        }
    }

    fn string(&mut self, depth: usize) -> String {
        if depth == 0 || self.rng.one_in(4) {
            return match self.variable(Kind::Text) {
                Some(name) if !self.rng.one_in(3) => name,
                _ => self.rng.pick(&["'a'", "'10'", "'xyz'", "''", "'0x1p3'", "'b c'"]).to_owned(),
            };
        }
        let d = depth - 1;
        match self.rng.below(10) {
            0..=2 => format!("lim({} .. {})", self.string(d), self.string(d)),
            3 => format!("({} .. {})", self.string(d), self.rng.below(100)),
            4 => format!("show({})", self.number(d)),
            5 => format!(
                "({}):sub({}, {})",
                self.string(d),
                self.rng.below(6) as i64 - 3,
                self.rng.below(8) as i64 - 2
            ),
            6 => format!(
                "({}):{}",
                self.string(d),
                self.rng.pick(&["upper()", "rep(2)", "reverse()", "lower()"])
            ),
            7 => format!(
                "(({}):gsub('%w', {}))",
                self.string(d),
                self.rng.pick(&["'<%0>'", "function(c) return c .. c end", "{ a = 'A', ['1'] = 2 }"])
            ),
            8 => format!(
                "string.format('%d %s %g', int({}), s({}), {})",
                self.number(d),
                self.string(d),
                self.number(d)
            ),
            _ => format!("s(({}):match('%a+'))", self.string(d)),
        }
    }

    fn list(&mut self, depth: usize) -> String {
        if (depth == 0 || self.rng.one_in(3))
            && let Some(name) = self.variable(Kind::List)
        {
            return name;
        }
        let d = depth.saturating_sub(1);
        match self.rng.below(5) {
            0 if depth > 0 => format!("map({}, {})", self.list(d), self.function(0)),
            1 if depth > 0 => format!("list(table.pack(table.unpack({})))", self.list(d)),
            _ => {
                let items: Vec<String> = (0..self.rng.below(6)).map(|_| self.number(d)).collect();
                format!("list{{ {} }}", items.join(", "))
            }
        }
    }

    fn vector(&mut self, depth: usize) -> String {
        if (depth == 0 || self.rng.one_in(3))
            && let Some(name) = self.variable(Kind::Vector)
        {
            return name;
        }
        let d = depth.saturating_sub(1);
        match self.rng.below(6) {
            0 if depth > 0 => format!("({} + {})", self.vector(d), self.vector(d)),
            1 if depth > 0 => format!("({} + {})", self.number(d), self.vector(d)),
            2 if depth > 0 => format!("({} * {})", self.vector(d), self.number(d)),
            3 if depth > 0 => format!("(-{})", self.vector(d)),
            _ => format!("vec({}, {})", self.number(d), self.number(d)),
        }
    }

    fn function(&mut self, depth: usize) -> String {
        if self.rng.one_in(3)
            && let Some(name) = self.variable(Kind::Function)
        {
            return name;
        }
        let text = std::mem::take(&mut self.text);
        let scope = self.scope.len();
        let (a, b) = (self.name(), self.name());
        self.text =
            format!("(function({a}, {b}{}) tick(20)\n", if self.rng.one_in(4) { ", ..." } else { "" });
        self.text += &format!("{a}, {b} = n({a}), n({b})\n");
        self.scope.extend([(a, Kind::Number), (b, Kind::Number)]);
        let outer = (std::mem::replace(&mut self.in_coroutine, false), self.loops);
        self.loops = self.loops.max(2);
        if depth > 0 {
            self.block(depth);
        }
        let value = self.number(2);
        self.text += &format!("return {value} end)");
        (self.in_coroutine, self.loops) = outer;
        self.scope.truncate(scope);
        std::mem::replace(&mut self.text, text)
    }
}
