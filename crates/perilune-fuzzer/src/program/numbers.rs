//! Programs about numbers: what machine code makes of integers and floats at their borders.
//!
//! Machine code keeps numbers by their types, compares them with constants, counts loops, and takes floats for
//! integers where they are. All of that is easy to get right for small numbers, and this is about the others:
//! beyond 2^53, next to 2^63, where integers wrap, zeros of both signs, what is infinite or none, keys that
//! are floats, steps that pass a limit, variables that are integers at first. Hot functions are called with
//! everyday numbers, or with any, until they have been compiled, and then with others.
//!
//! The first line of a program says with which variables ours runs.

use super::{Node, Program, environment};
use crate::literal;
use crate::rng::Rng;

const PRELUDE: &str = include_str!("numbers.lua");

/// What a variable holds most of the time, or an expression gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Int,
    Float,
    /// A number of either kind.
    Number,
}
use Kind::{Float, Int, Number};

/// When functions are recorded, for how many instructions, and how often a round calls one.
const MODES: &[(&str, usize)] =
    &[("blocking:2:60", 25), ("blocking:3:200", 30), ("blocking:6:1000", 50), ("blocking:40:600", 90)];
/// Numbers at borders.
const BORDERS: &[&str] = &[
    "0",
    "-0.0",
    "0.0",
    "1",
    "-1",
    "2^53",
    "-2^53",
    "9007199254740993",
    "(2^53 + 2)",
    "2^62",
    "(1 << 62)",
    "2^63",
    "-2^63",
    "math.maxinteger",
    "math.mininteger",
    "(math.maxinteger - 1)",
    "(math.mininteger + 1)",
    "0x7ffffffffffffc00",
    "9223372036854774784.0",
    "math.huge",
    "-math.huge",
    "(0/0)",
    "0.5",
    "-0.5",
    "1e308",
    "5e-324",
    "2147483648",
    "-2147483649",
    "4294967296",
    "1e15",
    "255",
    "256",
];
/// Comparisons.
const ORDERS: &[&str] = &["<", "<=", ">", ">=", "==", "~="];

/// A program.
pub fn generate(rng: &mut Rng) -> Program {
    let (mode, calls) = MODES[rng.below(MODES.len())];
    let mut nodes = vec![Node::leaf(environment(rng, &[mode])), Node::leaf(PRELUDE)];
    let usual = (0..3).map(|_| usual(rng)).collect();
    let mut g = Numbers { rng, usual, vars: Vec::new(), small: Vec::new(), names: 0, depth: 0, left: 0 };
    for _ in 0..1 + g.rng.below(2) {
        nodes.push(g.function(false));
    }
    for _ in 0..1 + g.rng.below(3) {
        nodes.push(g.function(true));
        let name = format!("h{}", g.names);
        for _ in 0..1 + g.rng.below(2) {
            let everyday = !g.rng.one_in(3);
            let list = g.arguments(everyday);
            let times = calls / 2 + g.rng.below(calls);
            nodes.push(Node::leaf(format!("often({name}, {times}, {list})")));
            for _ in 0..3 + g.rng.below(4) {
                let (first, others) = (g.argument(false), g.arguments(false));
                nodes.push(Node::leaf(format!("once({name}, {first}, {others})")));
            }
        }
    }
    Program(nodes)
}

/// A number that a program comes back to: one next to a power of two.
fn usual(rng: &mut Rng) -> i64 {
    let power = 1i64 << [3, 31, 52, 53, 54, 62, 63][rng.below(7)];
    let sign = [1, -1][rng.below(2)];
    power.wrapping_mul(sign).wrapping_add(rng.range(-2, 2))
}

/// Two operands; not `x - 0`, which is another zero in PUC Lua (docs/compatibility.md).
fn calculation(one: &str, op: &str, two: &str) -> String {
    let op = if (op, two) == ("-", "0") { "+" } else { op };
    format!("{one} {op} {two}")
}

struct Numbers<'r> {
    rng: &'r mut Rng,
    /// Arguments and constants are these again and again, as integers or as floats: else nothing would ever be
    /// equal.
    usual: Vec<i64>,
    /// What can be seen in the function that is written.
    vars: Vec<(String, Kind)>,
    /// Functions of two numbers so far, which give one.
    small: Vec<String>,
    names: usize,
    /// Blocks around this point in the function.
    depth: usize,
    /// Statements that the function may still have.
    left: usize,
}

impl Numbers<'_> {
    fn fresh(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    fn kind(&mut self) -> Kind {
        [Int, Int, Float, Number][self.rng.below(4)]
    }

    /// One of the program's own numbers.
    fn own(&mut self, kind: Kind) -> String {
        let n = self.usual[self.rng.below(self.usual.len())];
        match kind == Float || kind == Number && self.rng.one_in(2) {
            true => literal::float(n as f64),
            false => literal::integer(n),
        }
    }

    /// An argument: an everyday number, or any.
    fn argument(&mut self, everyday: bool) -> String {
        if self.rng.one_in(if everyday { 6 } else { 3 }) {
            return self.own(Number);
        }
        match self.rng.below(if everyday { 3 } else { 8 }) {
            0 | 1 => literal::integer(self.rng.range(-3, 12)),
            2 => literal::float(self.rng.range(-20, 40) as f64 / 4.0),
            3 => literal::integer(self.rng.integer()),
            4 => literal::float(self.rng.float()),
            _ => self.rng.pick(BORDERS).into(),
        }
    }

    fn arguments(&mut self, everyday: bool) -> String {
        (0..3).map(|_| self.argument(everyday)).collect::<Vec<_>>().join(", ")
    }

    /// A function: a small one of two numbers, or a hot one of four.
    fn function(&mut self, hot: bool) -> Node {
        let names: &[&str] = if hot { &["i", "a", "b", "c"] } else { &["a", "b"] };
        self.vars = names.iter().map(|name| (name.to_string(), Number)).collect();
        (self.depth, self.left) = (0, if hot { 6 + self.rng.below(12) } else { 1 + self.rng.below(4) });
        let mut body = Vec::new();
        for _ in 0..if hot { 1 + self.rng.below(4) } else { self.rng.below(2) } {
            body.push(self.local());
        }
        while self.left > 0 {
            body.push(self.statement());
        }
        let give = if hot { 3 } else { 1 };
        let list: Vec<String> = (0..give).map(|_| self.any_variable()).collect();
        body.push(Node::leaf(format!("return {}", list.join(", "))));
        let name = self.fresh(if hot { "h" } else { "s" });
        if !hot {
            self.small.push(name.clone());
        }
        Node::block(format!("local function {name}({})", names.join(", ")), body, "end")
    }

    fn any_variable(&mut self) -> String {
        self.vars[self.rng.below(self.vars.len())].0.clone()
    }

    /// A variable of a kind, if there is one.
    fn variable(&mut self, kind: Kind) -> Option<String> {
        let all: Vec<usize> = (0..self.vars.len()).filter(|&n| self.vars[n].1 == kind).collect();
        (!all.is_empty()).then(|| self.vars[all[self.rng.below(all.len())]].0.clone())
    }

    fn local(&mut self) -> Node {
        let kind = self.kind();
        let e = match self.rng.one_in(3) {
            // What sums begin with.
            true => ["0", "0.0", "1"][self.rng.below(3)].into(),
            false => self.expr(kind, 2),
        };
        let name = self.fresh("v");
        self.vars.push((name.clone(), kind));
        Node::leaf(format!("local {name} = {e}"))
    }

    fn block(&mut self) -> Vec<Node> {
        let mark = self.vars.len();
        self.depth += 1;
        let mut nodes = vec![self.statement()];
        while self.left > 0 && !self.rng.one_in(3) {
            nodes.push(self.statement());
        }
        self.depth -= 1;
        self.vars.truncate(mark);
        nodes
    }

    fn statement(&mut self) -> Node {
        self.left = self.left.saturating_sub(1);
        let deep = self.depth >= 3;
        match self.rng.below(14) {
            0 => self.local(),
            1 | 2 if !deep => {
                let condition = self.condition(1);
                let mut node = Node::block(format!("if {condition} then"), self.block(), "end");
                if self.rng.one_in(2) {
                    node.parts.push(("else".into(), self.block()));
                }
                node
            }
            3 | 4 if !deep => self.counted(),
            5 if !deep => self.repeated(),
            6 => {
                let (table, kind) = self.table();
                let (k, e) = (self.key(), self.expr(kind, 2));
                Node::leaf(format!("{table}[{k}] = {e}"))
            }
            7 => {
                let name = ["total", "scale"][self.rng.below(2)];
                let kind = self.kind();
                let e = self.expr(kind, 1);
                let op = self.rng.pick(&["+", "-", "*"]);
                Node::leaf(format!("{name} = {}", calculation(name, op, &e)))
            }
            8 => {
                let (x, y) = (self.any_variable(), self.any_variable());
                Node::leaf(format!("{x}, {y} = {y}, {x}"))
            }
            _ => {
                let at = self.rng.below(self.vars.len());
                let (name, own) = self.vars[at].clone();
                let kind = if self.rng.one_in(6) { self.kind() } else { own };
                let e = self.expr(kind, 2);
                Node::leaf(match self.rng.below(3) {
                    0 => {
                        let op = self.rng.pick(&["+", "+", "-", "*"]);
                        format!("{name} = {}", calculation(&name, op, &e))
                    }
                    _ => format!("{name} = {e}"),
                })
            }
        }
    }

    /// A loop that counts, for a few rounds at most.
    fn counted(&mut self) -> Node {
        const STEPS: &[&str] = &[
            "1",
            "-1",
            "2",
            "3",
            "-7",
            "0.5",
            "-0.25",
            "1.0",
            "math.maxinteger",
            "math.mininteger",
            "1 << 62",
            "-1 << 61",
        ];
        let kind = self.kind();
        let (from, to) = match self.rng.below(4) {
            0 => (self.bound(), self.bound()),
            1 => ("1".into(), self.bound()),
            _ => (self.rng.range(-2, 3).to_string(), (self.rng.range(2, 9)).to_string()),
        };
        let step = match self.rng.below(5) {
            0 => format!(", {}", self.rng.pick(STEPS)),
            1 if self.rng.one_in(4) => format!(", {}", self.expr(kind, 1)),
            _ => String::new(),
        };
        let (n, k) = (self.fresh("n"), self.fresh("k"));
        let most = 3 + self.rng.below(8);
        self.vars.push((k.clone(), if step.contains('.') { Float } else { Int }));
        let mut body = vec![Node::leaf(format!("{n} = {n} + 1 if {n} > {most} then break end"))];
        body.extend(self.block());
        self.vars.pop();
        let head = format!("local {n} = 0 for {k} = {from}, {to}{step} do");
        Node::block(head, body, "end")
    }

    fn bound(&mut self) -> String {
        match self.rng.below(5) {
            0 => self.rng.pick(BORDERS).into(),
            4 => self.own(Number),
            1 => format!("{} - {}", self.rng.pick(BORDERS), 1 + self.rng.below(4)),
            2 => self.any_variable(),
            _ => self.rng.range(-4, 12).to_string(),
        }
    }

    /// A loop by a condition, for a few rounds at most.
    fn repeated(&mut self) -> Node {
        let (n, most) = (self.fresh("n"), 2 + self.rng.below(8));
        let condition = self.condition(2);
        let mut body = self.block();
        body.insert(0, Node::leaf(format!("{n} = {n} + 1")));
        match self.rng.one_in(3) {
            true => Node::block(
                format!("local {n} = 0 repeat"),
                body,
                format!("until {n} >= {most} or {condition}"),
            ),
            false => {
                Node::block(format!("local {n} = 0 while {n} < {most} and ({condition}) do"), body, "end")
            }
        }
    }

    fn table(&mut self) -> (&'static str, Kind) {
        [("ints", Int), ("floats", Float), ("both", Number)][self.rng.below(3)]
    }

    /// A key of an element, most of the time.
    fn key(&mut self) -> String {
        match self.rng.below(6) {
            0 => (1 + self.rng.below(9)).to_string(),
            1 => format!("{}.0", 1 + self.rng.below(9)),
            2 => format!("{} % 8 + 1", self.any_variable()),
            3 => format!("{} // 1 % 8 + 1", self.any_variable()),
            4 => format!("whole({}) % 16 / 2 + 1", self.any_variable()),
            // What is none can be no key of a store.
            _ => format!("({0} == {0} and {0} or 1)", self.any_variable()),
        }
    }

    fn condition(&mut self, depth: usize) -> String {
        if depth > 0 && self.rng.one_in(4) {
            let (one, two) = (self.condition(depth - 1), self.condition(depth - 1));
            return match self.rng.below(3) {
                0 => format!("not ({one})"),
                1 => format!("({one} and {two})"),
                _ => format!("({one} or {two})"),
            };
        }
        let order = self.rng.pick(ORDERS);
        let kind = self.kind();
        let one = self.expr(kind, 1);
        match self.rng.below(10) {
            8 => format!("{} {order} {}", self.any_variable(), self.own(Number)),
            9 => format!("{} {order} {one}", self.own(Number)),
            0..=2 => format!("{one} {order} {}", self.rng.pick(BORDERS)),
            3 => format!("{} {order} {one}", self.rng.pick(BORDERS)),
            4 => format!("{} {order} {}", self.any_variable(), self.any_variable()),
            5 => match self.rng.below(3) {
                0 => format!("math.type({one}) == 'integer'"),
                1 => format!("math.ult(whole({one}), whole({}))", self.any_variable()),
                _ => format!("({one}) // 1 == {}", self.any_variable()),
            },
            _ => {
                let kind = self.kind();
                format!("{one} {order} {}", self.expr(kind, 1))
            }
        }
    }

    fn constant(&mut self, kind: Kind) -> String {
        match (kind, self.rng.below(8)) {
            (_, 6 | 7) => self.own(kind),
            (_, 0) => self.rng.pick(BORDERS).into(),
            (Int, 1) => literal::integer(self.rng.integer()),
            (Float, 1) => literal::float(self.rng.float()),
            (Int, _) => literal::integer(self.rng.range(-4, 10)),
            (Float, _) => literal::float(self.rng.range(-10, 20) as f64 / 2.0),
            (Number, _) => {
                let kind = [Int, Float][self.rng.below(2)];
                self.constant(kind)
            }
        }
    }

    /// An expression of a kind, most of the time.
    fn expr(&mut self, kind: Kind, depth: usize) -> String {
        if depth == 0 || self.rng.one_in(4) {
            return match (self.rng.below(8), self.variable(kind)) {
                (0, _) => self.constant(kind),
                (1, _) => {
                    let table = [("ints", Int), ("floats", Float), ("both", Number)];
                    let name = table.iter().find(|t| t.1 == kind).expect("there is one of each").0;
                    format!("({name}[{}] or {})", self.key(), self.constant(kind))
                }
                (2, _) => ["total", "scale"][self.rng.below(2)].into(),
                (_, Some(name)) => name,
                (_, None) => self.any_variable(),
            };
        }
        let depth = depth - 1;
        let one = self.expr(kind, depth);
        match (kind, self.rng.below(12)) {
            (_, 0) => {
                let op = self.rng.pick(&["+", "-", "*"]);
                format!("({})", calculation(&one, op, &self.constant(kind)))
            }
            (_, 1) => format!("(- {one})"),
            (_, 2) => {
                let two = self.expr(kind, depth);
                format!("({} and {one} or {two})", self.condition(1))
            }
            (_, 3) if !self.small.is_empty() => {
                let function = self.small[self.rng.below(self.small.len())].clone();
                format!("{function}({one}, {})", self.any_variable())
            }
            (_, 4) => {
                let function = self.rng.pick(&["max", "min"]);
                format!("math.{function}({one}, {})", self.constant(kind))
            }
            (_, 5) => format!("math.abs({one})"),
            (Int, 6) => format!("(whole({one}) {} {})", self.rng.pick(&["<<", ">>"]), self.rng.range(-2, 66)),
            (Int, 7) => {
                let op = self.rng.pick(&["&", "|", "~"]);
                format!("(whole({one}) {op} whole({}))", self.any_variable())
            }
            (Int, 8) => {
                let by = self.divisor();
                format!("({one} {} {by})", self.rng.pick(&["//", "%"]))
            }
            (Int, 9) => format!("(~whole({one}))"),
            (Int, 10) => format!("(math.tointeger({one}) or math.floor(({one}) % 1024))"),
            (Float, 6) => format!("({one} / {})", self.constant(Number)),
            (Float, 7) => format!("({one} {} {})", self.rng.pick(&["//", "%"]), self.constant(Float)),
            (Float, 8) => format!("({one}) ^ {}", self.rng.pick(&["2", "0.5", "3", "-1", "0"])),
            (Float, 9) => format!("({one} + 0.0)"),
            (Float, 10) => format!("math.sqrt({one})"),
            (Number, 6) => format!(
                "('{}' + {one})",
                self.rng.pick(&["10", "0x10", "1e1", "-0.0", "9223372036854775808"])
            ),
            (Number, 7) => format!("math.{}({one})", self.rng.pick(&["floor", "ceil"])),
            (Number, 8) => format!("math.fmod({one}, {})", self.constant(Float)),
            (Number, 9) => {
                let function = self.rng.pick(&["tonumber(%s .. '')", "(tonumber(tostring(%s)) or 1)"]);
                function.replace("%s", &one)
            }
            _ => {
                let two = self.expr(kind, depth);
                let op = self.rng.pick(&["+", "+", "-", "*"]);
                format!("({})", calculation(&one, op, &two))
            }
        }
    }

    /// What is hardly ever 0.
    fn divisor(&mut self) -> String {
        match self.rng.below(8) {
            0 => self.any_variable(),
            1 => format!("(whole({}) | 1)", self.any_variable()),
            2 => self.rng.pick(BORDERS).into(),
            _ => literal::integer([2, 3, 7, 10, 16, 1024, -1, -3][self.rng.below(8)]),
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
