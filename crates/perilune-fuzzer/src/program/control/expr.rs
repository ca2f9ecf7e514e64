//! Expressions.

use super::{Any, Control, Fun, Kind, List, Num, Str};
use crate::literal;

/// Texts: some are numerals.
const TEXTS: &[&str] = &[
    "'a'",
    "'xyz'",
    "'10'",
    "'0x1f'",
    "'1e1'",
    "''",
    "' 7 '",
    "'hello world'",
    "'k=v, l=w'",
    "'2.50'",
    "'-3'",
];
/// Patterns that match something now and then.
const PATTERNS: &[&str] =
    &["'%w'", "'(%w)(%w)'", "'l+'", "'^.'", "'%d+'", "'o()'", "'[aeiou]'", "'%s*'", "'.-,'"];

impl Control<'_> {
    /// An expression of a kind, most of the time.
    pub(super) fn expr(&mut self, kind: Kind, depth: usize) -> String {
        let kind = if self.rng.one_in(80) { Any } else { kind };
        match kind {
            Num => self.num(depth),
            Str => self.str(depth),
            Fun => self.fun(depth),
            List => self.list(),
            Any => self.any(depth),
        }
    }

    pub(super) fn constant(&mut self) -> String {
        match self.rng.below(6) {
            0 => literal::float(self.rng.range(-4, 12) as f64 / 4.0),
            1 => self.rng.range(-40, 400).to_string(),
            _ => self.rng.range(0, 9).to_string(),
        }
    }

    fn num(&mut self, depth: usize) -> String {
        if depth == 0 || self.rng.one_in(4) {
            return match (self.rng.below(9), self.variable(Num)) {
                (0 | 1, _) => self.constant(),
                (2, _) => "turn".into(),
                (3, _) => "total".into(),
                (_, Some(name)) => name,
                (_, None) => self.constant(),
            };
        }
        let d = depth - 1;
        let x = self.expr(Num, d);
        match self.rng.below(30) {
            0..=3 => format!("({x} {} {})", self.rng.pick(&["+", "-"]), self.expr(Num, d)),
            4 => format!("({x} * {} % 1009)", self.constant()),
            5 => format!(
                "({x} {} {})",
                self.rng.pick(&["//", "%"]),
                self.rng.pick(&["2", "3", "7", "10", "2.5"])
            ),
            6 => format!("({x} / {})", self.rng.pick(&["2", "4", "3"])),
            7 => format!("({x} // 1 {} {})", self.rng.pick(&["&", "|", "~", ">>"]), self.rng.range(0, 9)),
            8 => format!("#{}", paren(&self.expr(Str, d))),
            9 => format!("#{}", paren(&self.expr(List, d))),
            10 => format!("{}[{}]", paren(&self.expr(List, d)), self.key()),
            11 => format!("{}.x", paren(&self.expr(List, d))),
            12 => {
                let list = self.expr(List, d);
                let list = paren(&list);
                match self.rng.below(5) {
                    0 => format!("({list}:get({}))", self.key()),
                    1 => format!("{list}:add({x}).x"),
                    2 => format!("({list}:add({x}):add({}):get({}))", self.expr(Num, 0), self.key()),
                    3 => format!("num({list}({x}))"),
                    _ if self.tame => format!("{list}.x"),
                    _ => format!("num({list}.f({x}))"),
                }
            }
            13 | 14 if !self.small.is_empty() => {
                let name = self.small[self.rng.below(self.small.len())].clone();
                format!("({name}({}))", self.with_rest(&x))
            }
            15 | 16 => {
                let f = self.expr(Fun, d);
                format!("num({}({}))", paren(&f), self.with_rest(&x))
            }
            17 => format!("size({})", self.args(4)),
            18 => match self.vararg {
                true => "select('#', ...)".into(),
                false => format!("select('#', {})", self.args(3)),
            },
            19 => {
                let (n, list) = (self.rng.range(1, 4), self.args(5));
                match self.rng.below(5) {
                    0 => format!("num(nth({n}, {list}))"),
                    1 => format!("num((select({n}, {list})))"),
                    2 => format!("num((select(-1, {list})))"),
                    3 => format!("num(select({n}, {list}, 7))"),
                    _ => format!("sum({list})"),
                }
            }
            20 => {
                let (s, order) = (self.rng.pick(&["'10'", "'0x10'", "'1e1'", "' 5 '"]), self.rng.one_in(2));
                let op = self.rng.pick(&["+", "-"]);
                if order { format!("({s} {op} {x})") } else { format!("({x} {op} {s})") }
            }
            21 => format!("(tonumber({}) or {x})", self.expr(Str, d)),
            22 => {
                let s = self.expr(Str, d);
                let s = paren(&s);
                match self.rng.below(4) {
                    0 => format!("({s}:byte({}) or 1)", self.rng.range(-3, 3)),
                    1 => format!("{s}:len()"),
                    2 => format!("({s}:find({}) or 0)", self.rng.pick(PATTERNS)),
                    _ => {
                        format!("(string.find({s}, {}, 1, true) or 0)", self.rng.pick(&["'l'", "'1'", "''"]))
                    }
                }
            }
            23 => format!("({} and {x} or {})", self.condition(1), self.expr(Num, d)),
            24 => format!("num({})", self.expr(Any, d)),
            25 => format!("num((function(...) local p, q = ... return q or p end)({}))", self.args(3)),
            26 => {
                let name = self.rng.pick(&["max", "min"]);
                format!("math.{name}({x}, {}, {})", self.expr(Num, 0), self.constant())
            }
            27 if !self.tame => format!("num(again({}, {}))", self.rng.range(1, 6), self.with_rest(&x)),
            28 if self.yields => format!("num(coroutine.yield({}))", self.with_rest(&x)),
            28 => format!("num(maybe({x}))"),
            29 => {
                let y = self.rng.pick(&["y1", "y2"]);
                match self.rng.below(9) {
                    0 => format!("num({y} + {x})"),
                    1 => format!("num({x} * {y})"),
                    2 => format!("num({y}.field)"),
                    3 => format!("num({y}({x}))"),
                    4 => format!("num({y} .. {x})"),
                    5 => format!("(y1 < {y} and {x} or 2)"),
                    6 => format!("(y1 == {y} and {x} or 3)"),
                    7 => format!("(y2 <= {y} and 4 or {x})"),
                    _ => format!("num(#{y})"),
                }
            }
            _ => format!("(- {x})"),
        }
    }

    /// The key of an element that a list has.
    pub(super) fn key(&mut self) -> String {
        match self.rng.below(4) {
            0 => format!("{} // 1 % 3 + 1", paren(&self.expr(Num, 0))),
            _ => self.rng.range(1, 3).to_string(),
        }
    }

    fn str(&mut self, depth: usize) -> String {
        if depth == 0 || self.rng.one_in(4) {
            return match (self.rng.below(6), self.variable(Str)) {
                (0, _) => self.rng.pick(TEXTS).into(),
                (1, _) => "word".into(),
                (_, Some(name)) => name,
                (_, None) => self.rng.pick(TEXTS).into(),
            };
        }
        let d = depth - 1;
        let (s, x) = (self.expr(Str, d), self.expr(Num, 0));
        let p = paren(&s);
        match self.rng.below(20) {
            // Sums of texts do not grow from round to round.
            0 => format!("cut({s} .. {x})"),
            1 => format!("cut({} .. {s})", paren(&x)),
            2 => format!("cut({s} .. '-' .. {x} .. {})", self.expr(Str, 0)),
            3 => format!("({} .. ':' .. {})", self.constant(), self.constant()),
            4 => format!("{p}:sub({}, {})", self.rng.range(-4, 3), self.rng.range(-2, 6)),
            5 => format!("{p}:{}()", self.rng.pick(&["upper", "lower", "reverse"])),
            6 => format!("cut({p}:rep({} // 1 % 3, ','))", paren(&x)),
            7 => match self.rng.below(8) {
                0 => format!("string.format('%d', {x})"),
                1 => format!("string.format('%s|%s', said({s}), said({x}))"),
                2 => format!("string.format('%5.2f', {x})"),
                3 => format!("string.format('%x', {} // 1 % 256)", paren(&x)),
                4 => format!("string.format('%-5s%%', {p}:sub(1, 6))"),
                5 => format!("('%i'):format({x} // 1)"),
                6 => format!("string.format('%.3g', {x})"),
                _ => format!("string.format('%q', {s})"),
            },
            8 | 9 => {
                let with = match self.rng.below(7) {
                    0 => "'<%0>'".into(),
                    1 => "{a = 'X', l = false, o = 5, x = 'yy'}".into(),
                    2 => "string.upper".into(),
                    3 => "function(c, d) return d and d .. c end".into(),
                    4 => format!("function(c) {0} = {0} + 1 return {0} % 10 end", self.place(Num)),
                    5 => format!("function(c) {} = c .. '' return nil end", self.place(Str)),
                    _ => "function(...) total = (total + select('#', ...)) % 997 end".into(),
                };
                let most = if self.rng.one_in(3) { ", 2" } else { "" };
                format!("cut((string.gsub({s}, {}, {with}{most})))", self.rng.pick(PATTERNS))
            }
            10 => format!("({p}:match({}) or 'none')", self.rng.pick(&["'%a+'", "'(%d)%d'", "'^h(.*)d$'"])),
            11 => format!("tostring({x})"),
            12 => format!("tostring({})", self.condition(1)),
            13 => format!("table.concat({{{x}, {s}, {}}}, ',')", self.constant()),
            14 => format!("{}.name", paren(&self.expr(List, d))),
            15 => format!("cut(said({}) .. '')", self.expr(Any, d)),
            16 => format!("type({})", self.expr(Any, d)),
            17 => format!("string.char(65 + {} // 1 % 26, 97)", paren(&x)),
            18 => format!("({} and {s} or {})", self.condition(1), self.expr(Str, d)),
            _ => format!("(#{p} > 2 and {p}:sub(2, -2) or {s} .. 1 .. 'q')"),
        }
    }

    pub(super) fn fun(&mut self, depth: usize) -> String {
        match self.rng.below(8) {
            0 | 1 if !self.small.is_empty() => self.small[self.rng.below(self.small.len())].clone(),
            2 if !self.tame => self.rng.pick(&["F.f", "F.g"]).into(),
            3 if !self.tame => match self.variable(List) {
                Some(name) => format!("{name}.f"),
                None => "T[1].f".into(),
            },
            4 if !self.tame && depth > 0 => {
                format!("({} and {} or {})", self.condition(1), self.fun(0), self.fun(0))
            }
            5 | 6 => self.closure(),
            _ => match self.variable(Fun) {
                Some(name) if !self.tame => name,
                _ => "num".into(),
            },
        }
    }

    /// A tame function, in a line.
    pub(super) fn closure(&mut self) -> String {
        let mut text = String::new();
        let vararg = self.rng.one_in(2);
        self.inside(&[("p", Num)], vararg, |g| {
            (g.tame, g.yields) = (true, false);
            let v = g.place(Num);
            let last = if vararg { ", ..." } else { "" };
            let counts = g.rng.below(8);
            if counts == 4 {
                g.vararg = false;
            }
            let e = g.expr(Num, 1);
            text = match counts {
                0 => format!("{v} = {v} + 1 return {v}{last}"),
                1 => format!("{v} = {v} + num(p) return {e}{last}"),
                2 => format!("return (function() {v} = {v} + 1 return {v} + num(p) end)()"),
                3 => format!("local q = {v} {v} = num(p) return q{last}"),
                4 => format!("p = num(p) + 1 return function() p = p + 1 return {e} end, p"),
                5 if vararg => format!("{v} = {v} + select('#', ...) return num((...)), p"),
                6 => format!("if {} then {v} = {e} end return {v}", g.condition(1)),
                _ => format!("return {e}{last}"),
            };
        });
        format!("function(p{}) {text} end", if vararg { ", ..." } else { "" })
    }

    pub(super) fn list(&mut self) -> String {
        match (self.rng.below(6), self.variable(List)) {
            (0, _) => {
                let (x, y) = (self.expr(Num, 0), self.expr(Num, 0));
                format!("list{{{x} or 0, {y} or 1, {}, x = {}}}", self.constant(), self.constant())
            }
            (1, _) if !self.rng.one_in(3) => {
                let x = self.expr(Num, 0);
                format!("setmetatable({{1, {x} or 0, 2, x = 3, name = 'new', f = num}}, List)")
            }
            (2, _) => format!("T[{} // 1 % 3 + 1]", paren(&self.expr(Num, 0))),
            (_, Some(name)) => name,
            (_, None) => format!("T[{}]", self.rng.range(1, 3)),
        }
    }

    fn any(&mut self, depth: usize) -> String {
        match self.rng.below(10) {
            0 => "nil".into(),
            1 => self.rng.pick(&["true", "false"]).into(),
            2 if self.vararg => "(...)".into(),
            3 => "kept.any".into(),
            4 | 5 => self.variable(Any).unwrap_or_else(|| "nil".into()),
            _ => {
                let kind = [Num, Num, Str, Fun, List][self.rng.below(5)];
                self.expr(kind, depth.min(1))
            }
        }
    }

    /// A list of expressions that is not empty; any number of values, of any kind.
    pub(super) fn args(&mut self, most: usize) -> String {
        let mut list: Vec<String> = Vec::new();
        for _ in 0..self.rng.below(most) {
            let kind = if self.rng.one_in(4) { Any } else { Num };
            list.push(self.expr(kind, 1));
        }
        list.push(self.several());
        list.join(", ")
    }

    /// The same for a place inside a function without variable arguments.
    pub(super) fn args_inside(&mut self, most: usize) -> String {
        let vararg = std::mem::take(&mut self.vararg);
        let list = self.args(most);
        self.vararg = vararg;
        list
    }

    /// An expression, and perhaps more.
    fn with_rest(&mut self, x: &str) -> String {
        match self.rng.below(4) {
            0 => format!("{x}, {}, {}", self.expr(Num, 0), self.args(3)),
            1 => format!("{x}, {}", self.expr(Num, 1)),
            2 if self.vararg => format!("{x}, ..."),
            _ => x.into(),
        }
    }

    /// What gives any number of values.
    pub(super) fn several(&mut self) -> String {
        if self.vararg && self.rng.one_in(2) {
            return "...".into();
        }
        let (x, y) = (self.expr(Num, 0), self.expr(Any, 0));
        let dots = if self.vararg { ", ..." } else { "" };
        match self.rng.below(12) {
            0 => format!("pass({x}, {y}{dots})"),
            1 => format!("turned({x}{dots})"),
            2 => format!("rest({y}, {x}{dots})"),
            3 => format!("nested({x}, {y}{dots})"),
            4 => format!("(pass({x}, {y}))"),
            5 => "pass()".into(),
            6 => format!("packed({y}, {x}{dots})"),
            7 => "table.unpack({1, nil, 3}, 1, 3)".into(),
            8 if !self.small.is_empty() => {
                let name = self.small[self.rng.below(self.small.len())].clone();
                format!("{name}({x}{dots})")
            }
            9 if self.yields => format!("coroutine.yield({x}{dots})"),
            10 => format!("apply(pass, {x}, {y}{dots})"),
            _ => x,
        }
    }

    /// What a function gives; a number comes first, if that is asked for.
    pub(super) fn results(&mut self, number: bool) -> String {
        let x = self.expr(Num, 2);
        let small = (!self.small.is_empty()).then(|| self.small[self.rng.below(self.small.len())].clone());
        match (self.rng.below(9), small) {
            (0, _) if self.vararg => format!("{x}, ..."),
            (1, _) => format!("{x}, {}", self.several()),
            (2, Some(name)) => format!("{name}({})", self.with_rest(&x)),
            (3, Some(name)) => format!("({name}({}))", self.with_rest(&x)),
            (4, _) if !number => self.several(),
            (5, _) if !number && !self.tame => {
                let f = self.expr(Fun, 1);
                format!("apply({f}, {})", self.args(3))
            }
            (6, _) => format!("pass({x}, {})", self.several()),
            (7, _) if !number => String::new(),
            _ => match self.rng.one_in(2) {
                true => x,
                false => format!("{x}, {}, {}", self.expr(Any, 1), self.expr(Str, 1)),
            },
        }
    }

    pub(super) fn condition(&mut self, depth: usize) -> String {
        if depth > 0 && self.rng.one_in(5) {
            let (one, two) = (self.condition(depth - 1), self.condition(depth - 1));
            return match self.rng.below(3) {
                0 => format!("not ({one})"),
                1 => format!("({one} and {two})"),
                _ => format!("({one} or {two})"),
            };
        }
        let order = self.rng.pick(&["<", "<=", ">", ">=", "==", "~="]);
        match self.rng.below(14) {
            0 => format!("turn > {}", self.rng.range(10, 40)),
            1 | 2 => self.rarely(),
            3..=5 => format!("{} {order} {}", self.expr(Num, 1), self.constant()),
            6 => format!("{} {order} {}", self.expr(Num, 0), self.expr(Num, 1)),
            7 => format!("{} {order} {}", self.expr(Str, 0), self.rng.pick(TEXTS)),
            8 => format!("{} == {}", self.expr(Any, 0), self.expr(Any, 0)),
            9 => {
                let kind = self.rng.pick(&["'number'", "'string'", "'table'", "'nil'"]);
                format!("type({}) == {kind}", self.expr(Any, 0))
            }
            10 if self.vararg => self
                .rng
                .pick(&["select('#', ...) > 2", "(...) == nil", "select('#', ...) == 0", "..."])
                .into(),
            11 => format!("math.type({}) == 'float'", self.expr(Num, 0)),
            12 => self.variable(Any).unwrap_or_else(|| "turn < 9".into()),
            _ => {
                let name = self.variable(Num).unwrap_or_else(|| "turn".into());
                format!("{name} % {} == {}", self.rng.range(2, 5), self.rng.range(0, 1))
            }
        }
    }

    /// What is true in a few calls only, often late ones.
    pub(super) fn rarely(&mut self) -> String {
        match self.rng.below(4) {
            0 | 1 => format!("turn == {}", self.rng.range(3, 30)),
            _ => {
                let by = self.rng.range(5, 17);
                format!("turn % {by} == {}", self.rng.below(by as usize))
            }
        }
    }
}

/// In parentheses, unless it is a name, with fields: so that it can be indexed and called.
pub(super) fn paren(e: &str) -> String {
    let first = e.as_bytes()[0];
    let name = e.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.'));
    match name && first.is_ascii_alphabetic() && !matches!(e, "nil" | "true" | "false") {
        true => e.to_string(),
        false => format!("({e})"),
    }
}
