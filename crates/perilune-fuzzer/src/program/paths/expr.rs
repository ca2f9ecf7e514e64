//! Expressions.

use super::Kind::{Bag, Flag, Function, Number, Table, Text};
use super::stat::COUNTING;
use super::{Kind, Paths, Var};

impl Paths<'_> {
    /// 1 to 3.
    pub(super) fn index(&mut self) -> String {
        let small: Vec<&Var> = self.vars.iter().filter(|v| v.small).collect();
        if !small.is_empty() && self.rng.one_in(2) {
            return format!("1 + {} % 3", small[self.rng.below(small.len())].name);
        }
        match self.rng.below(4) {
            0 => "1 + turn % 3".into(),
            _ => self.rng.range(1, 3).to_string(),
        }
    }

    pub(super) fn condition(&mut self) -> String {
        match self.rng.below(16) {
            0..=5 => self.expr(Flag, 0),
            6 => {
                let v = self.expr(Number, 0);
                let op = self.rng.pick(&["==", "<", ">", ">=", "~="]);
                format!("{v} {op} {}", self.rng.range(0, 6))
            }
            7 => format!("{} % {} == {}", self.expr(Number, 0), self.rng.range(2, 7), self.rng.range(0, 2)),
            8 => {
                let kind = self.kind();
                let (p, q) = self.pair(kind);
                format!("{p} {} {q}", self.rng.pick(&["==", "~="]))
            }
            9 => format!("turn % {} == 0", self.rng.range(2, 30)),
            10 => format!("{}.z", self.expr(Table, 0)),
            11 => format!("not {}", self.expr(Flag, 0)),
            12 => format!("{}[{}]", self.expr(Bag, 0), self.index()),
            13 => format!(
                "type({}[{}]) == '{}'",
                self.expr(Bag, 0),
                self.index(),
                self.rng.pick(&["number", "string", "boolean", "nil"])
            ),
            14 => {
                format!("({} {} {})", self.expr(Flag, 0), self.rng.pick(&["and", "or"]), self.expr(Flag, 0))
            }
            _ => self.expr(Flag, 1),
        }
    }

    pub(super) fn expr(&mut self, kind: Kind, depth: usize) -> String {
        if (depth == 0 || self.rng.one_in(2))
            && let Some(v) = self.var(kind).filter(|_| !self.rng.one_in(6))
        {
            return v;
        }
        let d = depth.saturating_sub(1);
        match kind {
            Table => self.table(d),
            Bag => match self.rng.below(4) {
                0 => format!("pass(M[{}], M[1])", self.rng.range(1, 5)),
                _ => format!("M[{}]", self.rng.range(1, 5)),
            },
            Function => match self.rng.below(12) {
                0 => format!("{}.f", self.expr(Table, d)),
                1 => "upf".into(),
                2 => "gf".into(),
                3 => "mod.f".into(),
                4 => "math.floor".into(),
                5 => format!("F[{}]", self.rng.range(1, 7)),
                6 if depth > 0 => format!(
                    "({} and {} or {})",
                    self.condition(),
                    self.expr(Function, 0),
                    self.expr(Function, 0)
                ),
                7 if depth > 0 => format!("pass({}, F[2])", self.expr(Function, 0)),
                8 if depth > 0 => format!("same({})", self.expr(Function, 0)),
                9 => "math.abs".into(),
                _ => self.rng.pick(COUNTING).into(),
            },
            Number => self.number(d),
            Text => match self.rng.below(5) {
                0 => format!("({}.name or 'o')", self.expr(Table, d)),
                1 => format!("string.sub({}, 1, 2)", self.expr(Text, 0)),
                2 => format!("type({}[{}])", self.expr(Bag, d), self.index()),
                3 => format!("tostring({})", self.expr(Flag, d)),
                _ => self.rng.pick(&["'s'", "''", "'long'", "'1'"]).into(),
            },
            Flag => match self.rng.below(10) {
                0 => "upflag".into(),
                1 => "gflag".into(),
                2 => self.rng.pick(&["true", "false", "nil"]).into(),
                3 if depth > 0 => format!("({} == {})", self.expr(Table, 0), self.expr(Table, 0)),
                4 if depth > 0 => format!("({} < {})", self.expr(Number, 0), self.expr(Number, 0)),
                5 if depth > 0 => format!("rawequal({}, {})", self.expr(Table, 0), self.expr(Table, 0)),
                6 => format!("({}[{}] == true)", self.expr(Bag, 0), self.index()),
                _ => format!("(turn % {} ~= 0)", self.rng.range(2, 40)),
            },
        }
    }

    pub(super) fn table(&mut self, d: usize) -> String {
        match self.rng.below(18) {
            0 | 1 => format!("{}.next", self.var(Table).unwrap_or("up".into())),
            2 | 3 => "up".into(),
            4 => "gt".into(),
            5 => "mod.t".into(),
            6 => format!("T[1 + turn % {}]", self.rng.range(1, 5)),
            7 => format!("({} and {} or {})", self.expr(Flag, 0), self.expr(Table, d), self.expr(Table, d)),
            8 => format!("pass({}, T[2])", self.expr(Table, d)),
            9 => format!("same({})", self.expr(Table, d)),
            10 => format!("select(2, 0, {})", self.expr(Table, d)),
            11 => format!(
                "({{{}, 2, 3, x = {}, y = 1, name = 'new', f = count, get = get_x, next = T[1]}})",
                self.expr(Number, 0),
                self.rng.range(0, 4)
            ),
            12 => format!("(rawget({}, 'next') or T[3])", self.expr(Table, d)),
            13 => format!("setmetatable({}, metas[{}])", self.expr(Table, d), self.rng.range(1, 5)),
            _ => format!("T[{}]", self.rng.range(1, 5)),
        }
    }

    pub(super) fn number(&mut self, d: usize) -> String {
        match self.rng.below(24) {
            0..=2 => self.rng.range(-2, 9).to_string(),
            3 => self.rng.pick(&["0.5", "2.0", "1.25", "-0.5"]).into(),
            4..=6 => format!("{}[{}]", self.expr(Table, d), self.index()),
            7 | 8 => format!("{}.x", self.expr(Table, d)),
            9 => format!("#{}", self.expr(Table, d)),
            10 => format!("({}.z or 3)", self.expr(Table, d)),
            11 => "upn".into(),
            12 => "gn".into(),
            13 => "mod.n".into(),
            14 => format!("({} and 1 or 2.5)", self.expr(Flag, d)),
            15 => format!("({} + {})", self.expr(Number, 0), self.expr(Number, 0)),
            16 => format!("({} * {})", self.expr(Number, 0), self.rng.pick(&["2", "0.5", "3"])),
            17 => format!("({} % 7)", self.expr(Number, 0)),
            18 => format!("#{}", self.expr(Text, 0)),
            19 if self.vararg => "select('#', ...)".into(),
            20 => format!("(string.byte({}) or 0)", self.expr(Text, 0)),
            21 => format!("math.max({}, 1)", self.expr(Number, 0)),
            22 => format!("({}({}))", self.expr(Function, 0), self.rng.range(0, 5)),
            _ => "(turn % 5)".into(),
        }
    }
}
