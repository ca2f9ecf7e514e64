//! Random programs that end: arithmetic, comparisons, strings, tables, closures, loops, metamethods, errors, coroutines.
//!
//! A program is a sequence of functions, each called in protected mode, whose results are printed. What two correct implementations may
//! do differently is avoided: addresses, the order of `next`, borders of tables with holes, the sign of NaN, loops up to NaN. Loops and calls draw
//! on a supply of fuel and strings are cut to a length, so that every program ends soon whatever was generated. Calls cost more than rounds of a
//! loop: recursion ends long before the limit on nested native calls, which is not the same everywhere.

use crate::calls;
use crate::rng::Rng;
use crate::typed;

const PRELUDE: &str = r##"
local fuel = 20000
local function tick(cost) fuel = fuel - (cost or 1); if fuel < 0 then error("fuel", 0) end end
local function lim(v) if type(v) == "string" and #v > 100 then return v:sub(1, 20) end return v end
local function spairs(t)
  local keys = {}
  for k in next, t do if type(k) == "number" or type(k) == "string" then keys[#keys + 1] = k end end
  table.sort(keys, function(a, b) if type(a) == type(b) then return a < b end return type(a) == "number" end)
  local i = 0
  return function() i = i + 1; local k = keys[i]; if k ~= nil then return k, t[k] end end
end
local function fin(v) if v ~= v then return 1 end return v end
local depth = 0
local function full(v)
  if type(v) ~= "table" or depth > 2 then return show(v) end
  depth = depth + 1
  local r = {}
  for k, x in spairs(v) do r[#r + 1] = show(k) .. "=" .. full(x); if #r > 12 then break end end
  depth = depth - 1
  return "{" .. table.concat(r, ",") .. "}"
end
local function message(e)
  if type(e) ~= "string" then return full(e) end
  if EXACT then return (e:gsub("^[^:]*:", "")) end
  return (e:gsub("^[^:]*:%d+: ", ""):gsub("%s*%(%a+ '[^']*'%)", ""))
end
local function check(f)
  fuel = 2000; depth = 0
  local r = table.pack(pcall(f))
  local ok = r[1]
  for i = 1, r.n do r[i] = i > 1 and not ok and message(r[i]) or full(r[i]) end
  print(table.concat(r, " "))
end
local mt = {
  __add = function(a, b) tick() return "add" end, __sub = function(a, b) return lim(a == b) end, __mul = function(a, b) return b, 1 end,
  __concat = function(a, b) return type(a) .. type(b) end, __eq = function(a, b) return a.x == b.x end,
  __lt = function(a, b) return type(a) < type(b) end, __le = function(a, b) return true end, __len = function(a) return 7 end,
  __unm = function(a) return a.x end, __call = function(self, a, b) tick() return b, a end,
  __index = function(t, k) tick() return k end, __bnot = function() return nil end, __shl = function(a, b) return a end,
  __close = function(o, e) o.closed = type(e) end,
}
local function obj(x) return setmetatable({ x = x }, mt) end
local function proto(t) return setmetatable(t, { __index = { m = function(self, a) return self.v, a end, v = 5, w = "w" } }) end
"##;

struct Generator<'r> {
    rng: &'r mut Rng,
    text: String,
    /// Names of the variables in scope.
    names: Vec<String>,
    fresh: usize,
    loops: usize,
    in_coroutine: bool,
    vararg: bool,
}

/// A program. `exact`: error messages are shown with lines and names of variables, which differ between releases of PUC Lua.
pub fn program(rng: &mut Rng, exact: bool) -> String {
    let text = format!("local EXACT = {exact}\n{}{PRELUDE}", calls::PRELUDE);
    if !rng.one_in(5) {
        return text + typed::PRELUDE + &typed::body(rng);
    }
    let names = Vec::new();
    let mut g = Generator { rng, text, names, fresh: 0, loops: 0, in_coroutine: false, vararg: true };
    for _ in 0..3 {
        let value = g.expression(2);
        let name = g.declare();
        g.text += &format!("local {name}; pcall(function() {name} = {value} end)\n");
        g.names.push(name);
    }
    for _ in 0..=g.rng.below(6) {
        g.text += "check(function(...)\n";
        g.body(4);
        g.text += "end)\n";
    }
    g.text
}

impl Generator<'_> {
    fn declare(&mut self) -> String {
        self.fresh += 1;
        format!("v{}", self.fresh)
    }

    fn variable(&mut self) -> String {
        if self.names.is_empty() || self.rng.one_in(12) {
            return self.rng.pick(&["g1", "g2", "undefined"]).to_owned();
        }
        // Recent names are likelier.
        let n = self.names.len();
        let i = n - 1 - self.rng.below(n).min(self.rng.below(n));
        self.names[i].clone()
    }

    fn body(&mut self, depth: usize) {
        let scope = self.names.len();
        for _ in 0..=self.rng.below(4) {
            self.statement(depth);
        }
        if self.rng.one_in(2) {
            let list = self.list(depth.min(2));
            self.text += &format!("do return {list} end\n");
        }
        self.names.truncate(scope);
    }

    fn statement(&mut self, depth: usize) {
        let simple = depth == 0;
        match self.rng.below(if simple { 6 } else { 19 }) {
            0 | 1 => {
                let value = self.expression(3);
                let name = self.declare();
                let attribute = if self.rng.one_in(8) { " <const>" } else { "" };
                self.text += &format!("local {name}{attribute} = lim({value})\n");
                if attribute.is_empty() {
                    self.names.push(name);
                }
            }
            2 => {
                let (name, value) = (self.variable(), self.expression(3));
                self.text += &format!("{name} = lim({value})\n");
            }
            3 => {
                let (a, b, list) = (self.variable(), self.variable(), self.list(2));
                self.text += &format!("{a}, {b} = {list}\n");
            }
            4 => {
                let (table, key, value) = (self.variable(), self.key(), self.expression(2));
                self.text += &format!("if type({table}) == 'table' then {table}{key} = lim({value}) end\n");
            }
            5 => {
                let (target, key, value) = (self.variable(), self.key(), self.expression(2));
                self.text += &format!("{target}{key} = {value}\n");
            }
            6 | 7 => {
                let condition = self.expression(3);
                self.text += &format!("if {condition} then\n");
                self.body(depth - 1);
                if self.rng.one_in(2) {
                    let condition = self.expression(2);
                    self.text += &format!("elseif {condition} then\n");
                    self.body(depth - 1);
                }
                if self.rng.one_in(2) {
                    self.text += "else\n";
                    self.body(depth - 1);
                }
                self.text += "end\n";
            }
            8 | 9 if self.loops < 3 => {
                let name = self.declare();
                let bounds = if self.rng.one_in(3) {
                    format!("{}, fin({}), {}", self.expression(1), self.expression(1), self.expression(1))
                } else {
                    format!("{}, {}", self.rng.below(4), self.rng.below(8))
                };
                self.text += &format!("for {name} = {bounds} do tick()\n");
                self.loop_body(depth, Some(name));
                self.text += "end\n";
            }
            10 if self.loops < 3 => {
                let (key, value) = (self.declare(), self.declare());
                let iterated = self.expression(2);
                let iterator = self.rng.pick(&["spairs", "ipairs", "spairs"]);
                self.text += &format!("for {key}, {value} in {iterator}({iterated}) do tick()\n");
                self.names.push(key);
                self.loop_body(depth, Some(value));
                self.names.pop();
                self.text += "end\n";
            }
            11 if self.loops < 3 => {
                let counter = self.declare();
                let condition = self.expression(2);
                let limit = self.rng.below(6);
                self.text += &format!(
                    "local {counter} = 0\nwhile {counter} < {limit} and {condition} do tick() {counter} = {counter} + 1\n"
                );
                self.loop_body(depth, None);
                self.text += "end\n";
            }
            12 if self.loops < 3 => {
                let counter = self.declare();
                self.text += &format!("local {counter} = 0\nrepeat tick() {counter} = {counter} + 1\n");
                let inner = self.declare();
                let value = self.expression(2);
                self.text += &format!("local {inner} = {value}\n");
                let limit = self.rng.below(5);
                self.text += &format!("until {inner} or {counter} > {limit}\n");
            }
            13 => {
                let name = self.declare();
                self.text += &format!("local function {name}");
                self.names.push(name);
                self.function(depth - 1);
                self.text += "\n";
            }
            14 => {
                let name = self.declare();
                self.text += &format!("local {name} = table.pack(pcall(function(...)\n");
                self.body(depth - 1);
                self.text += &format!("end)) if not {name}[1] then {name}[2] = message({name}[2]) end\n");
                self.names.push(name);
            }
            15 => {
                let name = self.declare();
                self.text += &format!("local {name} = coroutine.wrap(function(...)\n");
                let outer = std::mem::replace(&mut self.in_coroutine, true);
                self.body(depth - 1);
                self.in_coroutine = outer;
                self.text += "end)\n";
                self.names.push(name);
            }
            16 => {
                self.text += "do\n";
                if self.rng.one_in(2) {
                    let name = self.declare();
                    self.text += &format!("local {name} <close> = obj({})\n", self.rng.below(3));
                }
                self.body(depth - 1);
                self.text += "end\n";
            }
            17 => {
                let call = self.call(2);
                self.text += &format!("local _ = {call}\n");
            }
            _ => {
                let value = self.expression(2);
                self.text += &format!("if {value} then error({value}) end\n");
            }
        }
    }

    fn loop_body(&mut self, depth: usize, name: Option<String>) {
        let scope = self.names.len();
        self.names.extend(name);
        self.loops += 1;
        if self.rng.one_in(4) {
            let (condition, way) = (self.expression(2), self.rng.pick(&["break", "goto continue"]));
            self.text += &format!("if {condition} then {way} end\n");
        }
        self.text += "do\n";
        self.body(depth - 1);
        self.text += "end\n::continue::\n";
        self.loops -= 1;
        self.names.truncate(scope);
    }

    fn function(&mut self, depth: usize) {
        let scope = self.names.len();
        let (a, b) = (self.declare(), self.declare());
        let vararg = self.rng.one_in(3);
        self.text += &format!("({a}, {b}{}) tick(20)\n", if vararg { ", ..." } else { "" });
        self.names.extend([a, b]);
        let outer = (self.vararg, self.loops);
        (self.vararg, self.loops) = (vararg, self.loops.max(1));
        self.body(depth);
        (self.vararg, self.loops) = outer;
        self.text += "end";
        self.names.truncate(scope);
    }

    fn key(&mut self) -> String {
        match self.rng.below(5) {
            0 | 1 => format!(".{}", self.rng.pick(&["x", "y", "v", "w", "m"])),
            2 => format!("[{}]", self.rng.below(5)),
            3 => format!("[{}]", self.variable()),
            _ => format!("[{}]", self.expression(1)),
        }
    }

    fn list(&mut self, depth: usize) -> String {
        let items: Vec<String> = (0..=self.rng.below(3)).map(|_| self.expression(depth)).collect();
        items.join(", ")
    }

    fn expression(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.leaf();
        }
        match self.rng.below(20) {
            0..=3 => self.leaf(),
            4..=7 => {
                let op = self
                    .rng
                    .pick(&["+", "-", "*", "/", "//", "%", "^", "&", "|", "~", "<<", ">>", "+", "-", "*"]);
                format!("({} {op} {})", self.expression(depth - 1), self.expression(depth - 1))
            }
            8 | 9 => {
                let op = self.rng.pick(&["<", "<=", ">", ">=", "==", "~="]);
                format!("({} {op} {})", self.expression(depth - 1), self.expression(depth - 1))
            }
            10 => format!("({} .. {})", self.expression(depth - 1), self.expression(depth - 1)),
            11 | 12 => {
                let op = self.rng.pick(&["and", "or"]);
                format!("({} {op} {})", self.expression(depth - 1), self.expression(depth - 1))
            }
            13 => {
                let op = self.rng.pick(&["-", "not ", "~", "#"]);
                if op == "#" {
                    return format!("#tostring(show({}))", self.leaf());
                }
                format!("({op}{})", self.expression(depth - 1))
            }
            14 => {
                let name = self.variable();
                format!("{name}{}", self.key())
            }
            15 => {
                let mut fields = Vec::new();
                for _ in 0..self.rng.below(4) {
                    let value = self.expression(depth - 1);
                    fields.push(match self.rng.below(4) {
                        0 => format!("x = {value}"),
                        1 => format!("[{}] = {value}", self.rng.below(4)),
                        _ => value,
                    });
                }
                format!("{{ {} }}", fields.join(", "))
            }
            16 => {
                let make = self.rng.pick(&["obj", "proto"]);
                if make == "obj" {
                    format!("obj({})", self.expression(depth - 1))
                } else {
                    "proto{ x = 1 }".to_owned()
                }
            }
            17 | 18 => self.call(depth),
            _ => format!("({})", self.expression(depth - 1)),
        }
    }

    fn call(&mut self, depth: usize) -> String {
        let depth = depth.saturating_sub(1);
        match self.rng.below(14) {
            0..=3 => format!("{}({})", self.variable(), self.list(depth)),
            4 => format!("{}:m({})", self.variable(), self.list(depth)),
            5 => format!("lim(tostring(show({}))):rep({})", self.expression(depth), self.rng.below(4)),
            6 => format!(
                "math.{}({})",
                self.rng.pick(&["floor", "ceil", "abs", "tointeger", "type", "sqrt"]),
                self.expression(depth)
            ),
            7 => format!("math.{}({})", self.rng.pick(&["max", "min", "fmod", "ult"]), self.list(depth)),
            8 => format!("select({}, {})", self.rng.pick(&["'#'", "1", "2", "-1"]), self.list(depth)),
            9 => format!("tonumber({})", self.expression(depth)),
            10 => format!(
                "(show({})):{}",
                self.expression(depth),
                self.rng.pick(&[
                    "upper()",
                    "sub(2, -2)",
                    "len()",
                    "byte(1)",
                    "find('%d')",
                    "gsub('%a', 'x')"
                ])
            ),
            11 => format!("rawequal({}, {})", self.expression(depth), self.expression(depth)),
            12 if self.in_coroutine => format!("coroutine.yield({})", self.list(depth)),
            12 => format!("type({})", self.expression(depth)),
            _ if self.vararg => "(...)".to_owned(),
            _ => format!("rawget({{ {} }}, {})", self.list(depth), self.rng.below(3)),
        }
    }

    fn leaf(&mut self) -> String {
        match self.rng.below(12) {
            0..=5 => self.variable(),
            6 | 7 => self.rng.below(10).to_string(),
            8 => format!("({})", calls::number(self.rng)),
            9 => self.rng.pick(&["'a'", "'10'", "'xyz'", "''", "'0x1p3'", "' 5 '"]).to_owned(),
            10 => self.rng.pick(&["true", "false", "nil"]).to_owned(),
            _ => {
                let mut text = std::mem::take(&mut self.text);
                self.text = "function".to_owned();
                let in_coroutine = std::mem::replace(&mut self.in_coroutine, false);
                self.function(0);
                self.in_coroutine = in_coroutine;
                std::mem::swap(&mut text, &mut self.text);
                format!("({text})")
            }
        }
    }
}
