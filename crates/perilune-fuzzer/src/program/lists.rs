//! Programs about short lists: `{ x, y }`, `{ f(x) }`, `{ ... }`, and what becomes of them.
//!
//! Machine code does not make lists that nobody else looks at, stores the elements of others in line, and
//! builds functions that make lists in place of their calls. So lists are made of values of all types, nil
//! among them, of calls that give no value, one or three, with fields and metatables; they are given, taken,
//! swapped, grown, compared, and kept by somebody now and then, or looked at by what is not built in place.
//!
//! The first line of a program says with which variables ours runs.

use super::{Node, Program, environment};
use crate::rng::Rng;

const PRELUDE: &str = include_str!("lists.lua");

/// When functions are recorded, for how many instructions, and how often a round calls one.
const MODES: &[(&str, usize)] =
    &[("blocking:2:60", 25), ("blocking:3:200", 30), ("blocking:6:1000", 50), ("blocking:20:5000", 90)];

/// A program.
pub fn generate(rng: &mut Rng) -> Program {
    let (mode, calls) = MODES[rng.below(MODES.len())];
    let mut nodes = vec![Node::leaf(environment(rng, &[mode])), Node::leaf(PRELUDE)];
    if rng.one_in(3) {
        nodes.push(Node::leaf("List.__len = function(t) return 42 end"));
    }
    if rng.one_in(3) {
        nodes.push(Node::leaf("List.__newindex = function(t, k, v) count = count + 1 rawset(t, k, v) end"));
    }
    if rng.one_in(3) {
        nodes.push(Node::leaf(
            "List.__index = function(t, k) local own = rawget(List, k) if own ~= nil then return own end return k end",
        ));
    }
    let mut g = Lists {
        rng,
        values: Vec::new(),
        lists: Vec::new(),
        makers: Vec::new(),
        names: 0,
        sums: false,
        depth: 0,
        left: 0,
    };
    for _ in 0..1 + g.rng.below(4) {
        nodes.push(g.maker());
    }
    for _ in 0..1 + g.rng.below(3) {
        let (name, node) = g.hot();
        nodes.push(node);
        for _ in 0..1 + g.rng.below(2) {
            let times = calls / 2 + g.rng.below(calls);
            let list = g.arguments();
            nodes.push(Node::leaf(format!("often({name}, {times}, {list})")));
            for _ in 0..1 + g.rng.below(3) {
                let (first, others) = (g.rng.range(-3, 60), g.arguments());
                nodes.push(Node::leaf(format!("once({name}, {first}, {others})")));
            }
        }
    }
    Program(nodes)
}

struct Lists<'r> {
    rng: &'r mut Rng,
    /// Variables that can be seen: those that have no list,
    values: Vec<String>,
    /// and those that have one most of the time.
    lists: Vec<String>,
    /// Functions that give a list.
    makers: Vec<String>,
    names: usize,
    /// The function is a hot one, and has a sum.
    sums: bool,
    /// Blocks around this point in the function.
    depth: usize,
    /// Statements that the function may still have.
    left: usize,
}

impl Lists<'_> {
    fn fresh(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    fn one_of(&mut self, of: fn(&Self) -> &Vec<String>) -> String {
        let n = of(self).len();
        let at = self.rng.below(n);
        of(self)[at].clone()
    }

    fn value_name(&mut self) -> String {
        self.one_of(|this| &this.values)
    }

    fn list_name(&mut self) -> String {
        self.one_of(|this| &this.lists)
    }

    fn arguments(&mut self) -> String {
        const ARGUMENTS: &[&str] = &[
            "1",
            "7",
            "2.5",
            "'s'",
            "nil",
            "true",
            "false",
            "{ 1, 2 }",
            "{}",
            "setmetatable({ 3, 4 }, List)",
        ];
        (0..2).map(|_| self.rng.pick(ARGUMENTS)).collect::<Vec<_>>().join(", ")
    }

    /// Begins a function of these parameters.
    fn begin(&mut self, statements: usize) {
        self.sums = false;
        self.values = ["i", "x", "y"].map(String::from).to_vec();
        self.lists.clear();
        (self.depth, self.left) = (0, statements);
    }

    /// A small function that gives a list.
    fn maker(&mut self) -> Node {
        let statements = self.rng.below(3);
        self.begin(statements);
        let mut body = Vec::new();
        if self.rng.one_in(3) {
            let (by, list) = (self.rng.pick(&["2", "3", "17"]), self.list(true));
            body.push(Node::leaf(format!("if i % {by} == 0 then return {list} end")));
        }
        match self.rng.below(4) {
            0 | 1 => {
                let list = self.list(true);
                body.push(Node::leaf(format!("return {list}")));
            }
            2 => {
                let list = self.list(true);
                body.push(Node::leaf(format!("return setmetatable({list}, List)")));
            }
            _ => {
                body.push(self.local());
                while self.left > 0 {
                    body.push(self.statement());
                }
                let name = self.list_name();
                body.push(Node::leaf(format!("return {name}")));
            }
        }
        let name = self.fresh("m");
        self.makers.push(name.clone());
        Node::block(format!("local function {name}(i, x, y)"), body, "end")
    }

    /// A hot function, and its name.
    fn hot(&mut self) -> (String, Node) {
        let statements = 5 + self.rng.below(12);
        self.begin(statements);
        self.sums = true;
        let mut body = vec![Node::leaf("local sum = 0"), self.local()];
        while self.left > 0 {
            body.push(self.statement());
        }
        let results: Vec<String> = (0..1 + self.rng.below(3))
            .map(|_| if self.rng.one_in(2) { self.list_name() } else { self.value(1) })
            .collect();
        body.push(Node::leaf(format!("return sum, {}", results.join(", "))));
        let name = self.fresh("h");
        let node = Node::block(format!("local function {name}(i, x, y)"), body, "end");
        (name, node)
    }

    fn local(&mut self) -> Node {
        let (name, list) = (self.fresh("v"), self.made());
        self.lists.push(name.clone());
        Node::leaf(format!("local {name} = {list}"))
    }

    /// What gives a list most of the time.
    fn made(&mut self) -> String {
        match self.rng.below(10) {
            0..=3 => self.list(true),
            4 | 5 if !self.makers.is_empty() => {
                let maker = self.one_of(|this| &this.makers);
                let (one, two) = (self.value(1), self.value(1));
                format!("{maker}(i, {one}, {two})")
            }
            6 => format!("behind({}, {}, {})", self.value(1), self.value(1), self.value(1)),
            7 if !self.lists.is_empty() => format!("same({})", self.list_name()),
            8 if !self.lists.is_empty() => {
                let (condition, name) = (self.value(1), self.list_name());
                format!("({condition} and {name} or {})", self.list(false))
            }
            _ => format!("setmetatable({}, List)", self.list(true)),
        }
    }

    /// A constructor.
    fn list(&mut self, rich: bool) -> String {
        let count = if self.rng.one_in(12) { 4 + self.rng.below(7) } else { self.rng.below(4) };
        let plain = self.rng.one_in(3);
        let mut items: Vec<String> = (0..count)
            .map(|_| match plain {
                true => self.rng.pick(&["i", "i + 1", "i * 2", "i - 3"]).to_string(),
                false => self.value(1),
            })
            .collect();
        if rich {
            let at = self.rng.below(items.len() + 1);
            match self.rng.below(16) {
                0 => items.insert(at, format!("name = {}", self.value(0))),
                1 => items.insert(at, format!("[{}] = {}", 1 + self.rng.below(3), self.value(0))),
                2 | 3 => items.insert(at, self.list(false)),
                4 => items.push("three(i)".into()),
                5 => items.push("one(i)".into()),
                6 => items.push("none()".into()),
                _ => {}
            }
        }
        format!("{{ {} }}", items.join(", "))
    }

    fn value(&mut self, depth: usize) -> String {
        const PLAIN: &[&str] = &[
            "i",
            "i",
            "i + 1",
            "i * 0.5",
            "'s'",
            "true",
            "false",
            "nil",
            "i % 3",
            "i > 5",
            "0.0",
            "x",
            "y",
            "(x or 1)",
            "(i % 11 == 0 and nil or i)",
            "(i % 7 == 0 and 'q' or i)",
            "tostring(i)",
        ];
        if depth > 0 && !self.lists.is_empty() && self.rng.one_in(3) {
            let name = self.list_name();
            return match self.rng.below(7) {
                0 => format!("border({name}, #{name})"),
                1 => format!("{name}.name"),
                2 => format!("(collect({name}[1], {name}[2], i))"),
                3 => format!("(table.unpack({name}, 1, 2))"),
                _ => format!("{name}[{}]", 1 + self.rng.below(4)),
            };
        }
        match self.rng.one_in(3) {
            true => self.value_name(),
            false => self.rng.pick(PLAIN).into(),
        }
    }

    fn block(&mut self) -> Vec<Node> {
        let (values, lists) = (self.values.len(), self.lists.len());
        self.depth += 1;
        let mut nodes = vec![self.statement()];
        while self.left > 0 && !self.rng.one_in(3) {
            nodes.push(self.statement());
        }
        self.depth -= 1;
        self.values.truncate(values);
        self.lists.truncate(lists);
        nodes
    }

    fn statement(&mut self) -> Node {
        self.left = self.left.saturating_sub(1);
        let (deep, name) = (self.depth >= 2, self.list_name());
        let (n, m) = (1 + self.rng.below(4), 1 + self.rng.below(3));
        let seldom = self.rng.pick(&["2", "3", "19", "60"]);
        // A list that is looked at by what is not built in place has to be made: most of the time it is not
        // looked at.
        let looks = |what: String| Node::leaf(format!("if i % {seldom} == 0 then {what} end"));
        if self.sums && self.rng.one_in(2) {
            return Node::leaf(match self.rng.below(8) {
                0..=2 => format!("sum = sum + number({name}[{n}])"),
                3 => format!("sum = sum + sound({name})"),
                4 => format!("if {name}[{n}] then sum = sum + {m} end"),
                5 => format!("{name} = add({name}, {})", self.list_name()),
                6 => format!("sum = sum + sound(turned({name}))"),
                _ => format!("sum = sum + sound({})", self.list(true)),
            });
        }
        match self.rng.below(20) {
            0..=2 => self.local(),
            3 => {
                let value = self.value(1);
                let own = self.fresh("w");
                self.values.push(own.clone());
                Node::leaf(format!("local {own} = {value}"))
            }
            4 | 5 => Node::leaf(format!("{name}[{n}] = {}", self.value(1))),
            6 => Node::leaf(format!("{name}[{n}], {name}[{m}] = {name}[{m}], {name}[{n}]")),
            7 => looks(format!("total = mix(total, {name}[{n}], border({name}, #{name}))")),
            8 => Node::leaf(format!("{name}.name = {}", self.value(1))),
            9 => looks(format!("keep({name})")),
            10 => {
                let made = self.made();
                Node::leaf(format!("{name} = {made}"))
            }
            11 => {
                let other = self.list_name();
                looks(format!(
                    "if getmetatable({name}) == List then total = mix(total, {name}:first(), {name} + {other}, {name}:sum()) end"
                ))
            }
            12 => {
                let value = self.value(1);
                looks(format!("total = mix(total, pcall(function() return {name}[1] + {value} end))"))
            }
            13 => Node::leaf(format!("if {name} == {} then total = total + 1 end", self.list_name())),
            14 => Node::leaf(format!("if i % {seldom} == 0 then setmetatable({name}, List) end")),
            15 => looks(format!("for k, v in next, {name} do total = (total + #word(v, 1)) % 1000003 end")),
            16 if !deep => {
                let condition = self.value(1);
                let mut node = Node::block(format!("if {condition} then"), self.block(), "end");
                if self.rng.one_in(2) {
                    node.parts.push(("else".into(), self.block()));
                }
                node
            }
            17 if !deep => {
                let k = self.fresh("k");
                self.values.push(k.clone());
                let body = self.block();
                self.values.pop();
                Node::block(format!("for {k} = 1, {} do", 1 + self.rng.below(4)), body, "end")
            }
            18 if !deep => {
                let n = self.fresh("n");
                let condition = self.value(1);
                let mut body = self.block();
                body.insert(0, Node::leaf(format!("{n} = {n} + 1")));
                Node::block(format!("local {n} = 0 while {n} < {m} and {condition} do"), body, "end")
            }
            _ => Node::leaf(format!("if {name}[{n}] == nil then {name}[{n}] = {} end", self.value(0))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::compile_and_repeat;

    #[test]
    fn programs_compile_and_repeat() {
        compile_and_repeat(200, super::generate);
    }
}
