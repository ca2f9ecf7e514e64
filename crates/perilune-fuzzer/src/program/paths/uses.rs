//! What is done with values behind a call.

use super::Kind::{Bag, Flag, Function, Number, Table, Text};
use super::{Kind, Paths};

impl Paths<'_> {
    /// Uses of two values that are one, perhaps. They are in variables, as the text of other expressions can
    /// be no statement's beginning.
    pub(super) fn use_both(&mut self, kind: Kind, p: &str, q: &str) -> String {
        let is_variable = |e: &str| e.bytes().all(|b| b.is_ascii_alphanumeric()) && !e.ends_with("nil");
        match (is_variable(p), is_variable(q)) {
            (true, true) => self.use_variables(kind, p, q),
            (true, false) => format!("do local o = {q} {} end", self.use_variables(kind, p, "o")),
            (false, true) => format!("do local o = {p} {} end", self.use_variables(kind, "o", q)),
            (false, false) => format!("do local o, u = {p}, {q} {} end", self.use_variables(kind, "o", "u")),
        }
    }

    pub(super) fn use_variables(&mut self, kind: Kind, p: &str, q: &str) -> String {
        let (e, f) = (self.expr(Number, 1), self.expr(Number, 0));
        let k = self.index();
        match kind {
            Table => match self.rng.below(20) {
                0..=2 => format!("r = (r + {p}[1] * 10 + {q}[1]) % 9973"),
                3 => format!("r = (r + {p}[{k}] * 10 + {q}[{k}]) % 9973"),
                4 => format!("w = string.sub(w .. ({p}.name or 'o') .. ({q}.name or 'o'), -9)"),
                5 => format!("r = r + #{p} * 3 + #{q}"),
                6 => format!("{p}[2] = {e} {q}[2] = {f} r = (r + {p}[2] * 10 + {q}[2]) % 9973"),
                7 => format!("{p}[{k}] = {e} {q}[3] = {f} r = (r + {p}[{k}] * 2 + {q}[{k}]) % 9973"),
                8 => format!("{p}.x = {e} r = (r + {q}.x) % 9973"),
                9 => format!("{p}.x = ({p}.x + 1) % 99 {q}.x = ({q}.x + 2) % 99 r = r + {p}.x - {q}.x"),
                10 => format!("if {p} == {q} then r = r + 1 else r = r * 2 % 9973 end"),
                11 => format!("if #{p} < 9 then {p}[#{p} + 1] = {e} end r = (r + #{q} + {q}[#{q}]) % 9973"),
                12 => format!("if #{p} > 3 then {p}[#{p}] = nil end r = r + #{q}"),
                13 => format!("{p}.z = nil r = r + ({q}.z or 3)"),
                14 => format!("{p}.z = {e} r = (r + ({q}.z or 3)) % 9973"),
                15 => format!("r = (r + {p}:get({f}) * 10 + {q}:get({f})) % 9973"),
                16 => format!("r = (r + {p}.f({f}) * 10 + {q}.f({f})) % 9973"),
                17 => format!("{p}.next, {q}.next = {q}, {p}"),
                18 => format!("{p}.f = {} r = (r + {q}.f({f})) % 9973", self.expr(Function, 0)),
                _ => format!("r = (r + {p}.x * 10 + {q}.x + {q}.y) % 9973"),
            },
            Function => match self.rng.below(4) {
                0 => format!("if {p} == {q} then r = r + 1 else r = r + 2 end"),
                1 => format!("r = (r + {p}({q}({f}))) % 9973"),
                _ => format!("r = (r + {p}({f}) * 100 + {q}({f})) % 9973"),
            },
            Bag => match self.rng.below(8) {
                0 => format!("{p}[2] = nil if {q}[2] then r = r + 1 end"),
                1 => format!(
                    "{p}[{k}] = {} r = r + ({q}[{k}] and 1 or 2)",
                    self.rng.pick(&["true", "false", "'s'", "2", "0.5", "nil"])
                ),
                2 => format!("if {p}[{k}] == {q}[{k}] then r = r + 1 end"),
                3 => format!("if type({p}[{k}]) == 'number' then r = (r + {p}[{k}]) % 9973 end"),
                4 => format!("if {p}[1] then r = r + 1 end if {q}[1] then r = r + 2 end"),
                5 => format!("if {q}.x == {p}.y then r = r + 5 end"),
                6 => {
                    let list = if self.rng.one_in(2) { format!("next, {q}") } else { format!("pairs({q})") };
                    format!("for k, v in {list} do if v == {p}[1] then r = r + 1 end end")
                }
                _ => format!(
                    "r = r + (math.type({p}[{k}]) == 'float' and 1 or 2) + (math.type({q}[{k}]) == 'integer' and 3 or 5)"
                ),
            },
            Number => match self.rng.below(5) {
                0 => format!("if {p} == {q} then r = r + 1 end"),
                1 => format!("if {p} < {q} then r = r + 2 end"),
                2 => format!("if math.type({p}) == math.type({q}) then r = r + 3 end"),
                _ => format!("r = (r * 3 + {p} * 2 + {q} + {e}) % 9973"),
            },
            Text => match self.rng.below(3) {
                0 => format!("if {p} == {q} then r = r + 1 end"),
                1 => format!("r = r + #{p} * 2 + #{q}"),
                _ => format!("w = string.sub(w .. {p} .. {q}, -9)"),
            },
            Flag => match self.rng.below(2) {
                0 => format!("if {p} == {q} then r = r + 1 end"),
                _ => format!("r = r + ({p} and 1 or 2) + ({q} and 4 or 8)"),
            },
        }
    }
}
