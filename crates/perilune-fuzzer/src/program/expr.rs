//! Expressions by kind.

use super::Gen;
use crate::literal;

/// What a variable holds, most of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Int,
    Num,
    Str,
    Bool,
    /// A sequence of integers.
    Arr,
    /// A table with the fields a, b, c (numbers) and s (a string).
    Rec,
    /// A table with integer and string keys, values are integers.
    Dict,
    /// A function of up to three arguments.
    Fun,
    /// An instance of a class made by `objects.rs`.
    Obj,
}

/// A variable.
#[derive(Clone, Debug)]
pub(super) struct Var {
    pub name: String,
    pub kind: Kind,
    pub constant: bool,
}

pub(super) const KINDS: [Kind; 9] =
    [Kind::Int, Kind::Num, Kind::Str, Kind::Bool, Kind::Arr, Kind::Rec, Kind::Dict, Kind::Fun, Kind::Obj];

const BORDERS: &[&str] = &[
    "math.maxinteger",
    "math.mininteger",
    "(math.maxinteger - 1)",
    "(math.mininteger + 1)",
    "9007199254740993",
    "4294967296",
    "-1",
    "0",
    "0x7fffffff",
    "255",
    "65535",
    "32768",
    "-32769",
    "1",
    "2",
    "3",
    "7",
    "63",
    "64",
    "65",
    "10",
];
const FLOATS: &[&str] = &[
    "0.0",
    "(-0.0)",
    "0.5",
    "1.5",
    "-2.25",
    "1e15",
    "2^53",
    "2^63",
    "-2^63",
    "1e308",
    "1e-320",
    "math.huge",
    "(-math.huge)",
    "(0/0)",
    "3.0",
    "0.1",
    "9007199254740993.0",
    "100.0",
    "math.pi",
];
const STRINGS: &[&str] = &[
    "''",
    "'a'",
    "'abc'",
    "'10'",
    "'0x10'",
    "' 5 '",
    "'1e2'",
    "'-3.5'",
    "'hello world'",
    "'%d+'",
    "'\\0x\\255'",
    "'b'",
    "'k1'",
    "'9223372036854775808'",
    "'long string that is not interned because it is too long for that'",
    "'a,b,,c'",
];

impl Gen<'_> {
    /// The name of a visible variable of a kind.
    pub(super) fn var(&mut self, kind: Kind) -> Option<String> {
        let found: Vec<usize> = (0..self.scope.len()).filter(|&n| self.scope[n].kind == kind).collect();
        (!found.is_empty()).then(|| self.scope[found[self.rng.below(found.len())]].name.clone())
    }

    /// A variable that may be assigned.
    pub(super) fn target(&mut self, kind: Kind) -> Option<String> {
        let found: Vec<usize> = (0..self.scope.len())
            .filter(|&n| self.scope[n].kind == kind && !self.scope[n].constant)
            .collect();
        (!found.is_empty()).then(|| self.scope[found[self.rng.below(found.len())]].name.clone())
    }

    pub(super) fn kind(&mut self) -> Kind {
        KINDS[self.rng.below(KINDS.len())]
    }

    /// An expression of a kind, or, seldom, of another.
    pub(super) fn expr(&mut self, kind: Kind, depth: usize) -> String {
        if self.rng.one_in(60) {
            return match self.rng.below(4) {
                0 => "nil".into(),
                1 => "undefined".into(),
                _ => {
                    let kind = self.kind();
                    self.exact(kind, depth)
                }
            };
        }
        self.exact(kind, depth)
    }

    fn exact(&mut self, kind: Kind, depth: usize) -> String {
        if (depth == 0 || self.rng.one_in(3))
            && let Some(name) = self.var(kind)
        {
            return name;
        }
        let d = depth.saturating_sub(1);
        if depth > 0 && self.rng.one_in(12) {
            let (c, a, b) = (self.expr(Kind::Bool, d), self.exact(kind, d), self.exact(kind, d));
            return format!("({c} and {a} or {b})");
        }
        match kind {
            Kind::Int => self.int(depth),
            Kind::Num => self.num(depth),
            Kind::Str => self.str(depth),
            Kind::Bool => self.bool(depth),
            Kind::Arr => self.arr(d),
            Kind::Rec => {
                let (a, b, c, s) = (
                    self.expr(Kind::Int, d),
                    self.expr(Kind::Num, d),
                    self.expr(Kind::Int, d),
                    self.expr(Kind::Str, d),
                );
                match self.rng.below(4) {
                    0 => format!("{{a = {a}, b = {b}, c = {c}, s = {s}}}"),
                    1 => format!("{{s = {s}, c = {c}, a = {a}, b = {b}}}"),
                    2 => format!("{{['a'] = {a}, b = {b}, s = {s}, c = {c}, {a}, {b}}}"),
                    _ => format!("{{a = {a}, b = {b}, c = {c}, s = {s}, sub = {{x = {b}}}}}"),
                }
            }
            Kind::Dict => {
                let (i, j, s) = (self.expr(Kind::Int, d), self.expr(Kind::Int, d), self.rng.range(0, 9));
                match self.rng.below(3) {
                    0 => format!("{{['k{s}'] = {i}, [{s}] = {j}, [{s}.5] = 1}}"),
                    1 => format!("{{k1 = {i}, [2^53] = {j}, [-{s}] = 3}}"),
                    _ => "{}".into(),
                }
            }
            Kind::Fun => match self.rng.below(5) {
                0 => "function(a, b) tick() return b, a end".into(),
                1 => "function(...) tick() return select('#', ...), ... end".into(),
                2 => {
                    let e = self.expr(Kind::Int, d);
                    format!("function(x) tick() return {e} end")
                }
                3 => {
                    let k = self.kind();
                    let e = self.expr(k, d);
                    format!("function(x, ...) tick() local y = {e} return y, ... end")
                }
                _ => self
                    .rng
                    .pick(&["math.abs", "tostring", "select", "type", "math.max", "rawlen", "string.rep"])
                    .to_string(),
            },
            Kind::Obj => {
                let (n, s) = (self.expr(Kind::Int, d), self.rng.pick(&["Base", "Derived", "Vec"]));
                format!("{s}.new({n})")
            }
        }
    }

    fn int(&mut self, depth: usize) -> String {
        if depth == 0 {
            return match self.rng.below(3) {
                0 => self.rng.pick(BORDERS).to_string(),
                _ => literal::integer(self.rng.range(-5, 40)),
            };
        }
        let d = depth - 1;
        match self.rng.below(22) {
            0..=4 => {
                let op = self.rng.pick(&["+", "-", "*", "+", "-"]);
                format!("({} {op} {})", self.expr(Kind::Int, d), self.expr(Kind::Int, d))
            }
            5 | 6 => {
                let op = self.rng.pick(&["//", "%"]);
                format!("({} {op} {})", self.expr(Kind::Int, d), self.expr(Kind::Int, d))
            }
            7 | 8 => {
                let op = self.rng.pick(&["&", "|", "~", "<<", ">>"]);
                let k = if self.rng.one_in(4) { Kind::Num } else { Kind::Int };
                format!("({} {op} {})", self.expr(Kind::Int, d), self.expr(k, d))
            }
            9 => {
                let op = self.rng.pick(&["-", "~"]);
                format!("({op} {})", self.expr(Kind::Int, d))
            }
            10 => {
                let k = [Kind::Arr, Kind::Str, Kind::Obj][self.rng.below(3)];
                let e = self.expr(k, d);
                format!("#{}", paren(&e))
            }
            11 => {
                let e = self.expr(Kind::Rec, d);
                format!("{}.{}", paren(&e), self.rng.pick(&["a", "c", "a", "zz"]))
            }
            12 | 13 => {
                let e = self.expr(Kind::Arr, d);
                let i = if self.rng.one_in(2) {
                    self.rng.range(0, 6).to_string()
                } else {
                    self.expr(Kind::Int, d)
                };
                format!("({}[{i}] or 0)", paren(&e))
            }
            14 => {
                let (e, k) = (self.expr(Kind::Dict, d), self.rng.range(0, 9));
                format!("({}.k{k} or {}[{k}] or 1)", paren(&e), paren(&e))
            }
            15 => {
                let e = self.expr(Kind::Obj, d);
                let m = self.rng.pick(&["get()", "inc()", "twice(2)", "n", "n", "missing()"]);
                format!("{}{}{m}", paren(&e), if m.ends_with(')') { ":" } else { "." })
            }
            16 => {
                let f = self.rng.pick(&["math.max", "math.min", "math.ult", "math.fmod"]);
                if f == "math.ult" {
                    format!("({f}({}, {}) and 1 or 2)", self.expr(Kind::Int, d), self.expr(Kind::Int, d))
                } else {
                    format!("{f}({}, {})", self.expr(Kind::Int, d), self.expr(Kind::Int, d))
                }
            }
            17 => {
                let e = self.expr(Kind::Num, d);
                format!(
                    "(math.tointeger({e}) or {})",
                    self.rng.pick(&["0", "math.floor(2.5)", "math.ceil(-2.5)"])
                )
            }
            18 => format!("(string.byte({}, {}) or 0)", self.expr(Kind::Str, d), self.rng.range(-3, 3)),
            19 => format!("select('#', {}, {})", self.expr(Kind::Int, d), self.expr(Kind::Str, d)),
            20 => {
                let (s, p) = (self.expr(Kind::Str, d), self.rng.pick(&["'a'", "'%d'", "'l+'", "'()'"]));
                format!("(string.find({s}, {p}) or -1)")
            }
            _ => self.int(0),
        }
    }

    fn num(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.rng.pick(FLOATS).to_string();
        }
        let d = depth - 1;
        let other = if self.rng.one_in(2) { Kind::Num } else { Kind::Int };
        match self.rng.below(12) {
            0..=5 => {
                let op = self.rng.pick(&["+", "-", "*", "/", "//", "%", "/"]);
                let (a, b) = if self.rng.one_in(2) { (Kind::Num, other) } else { (other, Kind::Num) };
                let (a, b) = (self.expr(a, d), self.expr(b, d));
                if op == "-" && !b.parse().is_ok_and(|b: f64| b != 0.0) {
                    // PUC Lua adds the negative of a constant, and so makes of -0.0 - 0 a positive zero;
                    // `fuel` is no constant.
                    format!("({a} - ({b} or fuel))")
                } else {
                    format!("({a} {op} {b})")
                }
            }
            6 => format!("({} ^ {})", self.expr(other, d), self.rng.pick(&["2", "0.5", "-1", "3", "0"])),
            7 => format!("({} / {})", self.expr(Kind::Int, d), self.expr(Kind::Int, d)),
            8 => {
                let f = self.rng.pick(&["math.floor", "math.ceil", "math.sqrt", "math.abs", "-", "tonumber"]);
                format!("{f}({})", self.expr(Kind::Num, d))
            }
            9 => {
                let e = self.expr(Kind::Rec, d);
                format!("{}.b", paren(&e))
            }
            10 => format!(
                "({} + {})",
                self.rng.pick(&["'10'", "'0x1p1'", "'2.5'", "' 3 '", "'x'"]),
                self.expr(Kind::Int, d)
            ),
            _ => self.num(0),
        }
    }

    pub(super) fn str(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.rng.pick(STRINGS).to_string();
        }
        let d = depth - 1;
        match self.rng.below(16) {
            0..=2 => {
                let k = [Kind::Str, Kind::Int, Kind::Str, Kind::Num][self.rng.below(4)];
                format!(
                    "({} .. {})",
                    self.short(d),
                    if k == Kind::Num { "1.5".to_string() } else { self.expr(k, d) }
                )
            }
            3 => format!("({} .. {} .. {})", self.short(d), self.expr(Kind::Int, d), self.expr(Kind::Str, d)),
            4 => format!(
                "string.sub({}, {}, {})",
                self.expr(Kind::Str, d),
                self.rng.range(-6, 6),
                self.rng.range(-6, 6)
            ),
            5 => format!("string.rep({}, {}, ',')", self.short(d), self.rng.range(-1, 5)),
            6 => {
                let f = self.rng.pick(&["upper", "lower", "reverse"]);
                let e = self.expr(Kind::Str, d);
                format!("{}:{f}()", paren(&e))
            }
            7 => format!(
                "string.format('%5d|%-8s|%x', {}, tostring({}), {})",
                self.expr(Kind::Int, d),
                self.expr(Kind::Str, d),
                self.rng.range(0, 99999)
            ),
            8 => format!("string.format('%q', {})", self.expr(Kind::Int, d)),
            9 => {
                let (s, p) = (
                    self.expr(Kind::Str, d),
                    self.rng.pick(&["'%w'", "'(.)(.)'", "'a*'", "'^.'", "'%s+'", "'l'"]),
                );
                let r = self.rng.pick(&[
                    "'<%0>'",
                    "'%1%1'",
                    "{a = 'X', l = false, h = 5}",
                    "function(c) return c .. c end",
                    "string.upper",
                    "''",
                ]);
                format!("(string.gsub({s}, {p}, {r}))")
            }
            10 => format!(
                "(string.match({}, {}) or 'none')",
                self.expr(Kind::Str, d),
                self.rng.pick(&["'%a+'", "'%d+'", "'(%w)%s'", "'.-o'", "'^h(.*)d$'"])
            ),
            11 => format!("tostring({})", self.expr(Kind::Int, d)),
            12 => format!("table.concat({}, ',')", self.expr(Kind::Arr, d)),
            13 => {
                let k = self.kind();
                format!("type({})", self.expr(k, d))
            }
            14 => format!("tostring({})", self.expr(Kind::Obj, d)),
            _ => {
                let e = self.expr(Kind::Rec, d);
                format!("{}.s", paren(&e))
            }
        }
    }

    /// A string that does not grow without bounds when it is made part of another again and again.
    fn short(&mut self, depth: usize) -> String {
        let e = self.expr(Kind::Str, depth);
        format!("string.sub({e}, 1, 40)")
    }

    pub(super) fn bool(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.rng.pick(&["true", "false"]).to_string();
        }
        let d = depth - 1;
        match self.rng.below(12) {
            0..=4 => {
                let k = [Kind::Int, Kind::Num, Kind::Int, Kind::Str, Kind::Obj][self.rng.below(5)];
                let l = if k == Kind::Num && self.rng.one_in(2) { Kind::Int } else { k };
                let op = self.rng.pick(&["<", "<=", ">", ">=", "==", "~="]);
                format!("({} {op} {})", self.expr(l, d), self.expr(k, d))
            }
            5 | 6 => {
                let op = self.rng.pick(&["<", "<=", ">", ">=", "==", "~="]);
                let c = if self.rng.one_in(2) { self.rng.pick(BORDERS) } else { self.rng.pick(FLOATS) };
                let k = [Kind::Int, Kind::Num][self.rng.below(2)];
                if self.rng.one_in(2) {
                    format!("({} {op} {c})", self.expr(k, d))
                } else {
                    format!("({c} {op} {})", self.expr(k, d))
                }
            }
            7 => format!("(not {})", self.expr(Kind::Bool, d)),
            8 => {
                let op = self.rng.pick(&["and", "or"]);
                format!("({} {op} {})", self.expr(Kind::Bool, d), self.expr(Kind::Bool, d))
            }
            9 => {
                let (k, l) = (self.kind(), self.kind());
                format!("({} == {})", self.expr(k, d), self.expr(l, d))
            }
            10 => {
                let k = self.kind();
                format!("(math.type({}) == 'integer')", self.expr(k, d))
            }
            _ => self.bool(0),
        }
    }

    fn arr(&mut self, depth: usize) -> String {
        match self.rng.below(6) {
            0 => "{}".into(),
            1 => "{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}".into(),
            2 => format!(
                "table.pack({} or 0, {} or 0)",
                self.expr(Kind::Int, depth),
                self.expr(Kind::Int, depth)
            ),
            3 => format!(
                "{{{} or 0, {} or 0, n = 2}}",
                self.expr(Kind::Int, depth),
                self.expr(Kind::Num, depth)
            ),
            4 => {
                let e = self.expr(Kind::Arr, depth);
                format!("{{0, table.unpack({e}, 1, 1)}}")
            }
            _ => {
                let items: Vec<String> =
                    (0..self.rng.below(7)).map(|_| self.exact(Kind::Int, depth) + " or 0").collect();
                format!("{{{}}}", items.join(", "))
            }
        }
    }
}

/// In parentheses, unless it is a name: so that it can be indexed and called.
pub(super) fn paren(e: &str) -> String {
    if e.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !e.starts_with(|c: char| c.is_ascii_digit())
        && e != "nil"
    {
        e.to_string()
    } else {
        format!("({e})")
    }
}
