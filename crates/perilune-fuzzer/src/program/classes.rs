//! Programs about classes: objects of several classes with inheritance and metamethods go through a few hot
//! functions, and between rounds, or in the middle of one, classes and objects change.
//!
//! They are for machine code, which finds methods, fields and metamethods by shapes, and builds what it finds
//! in place: so what is found changes in every way that there is. Functions are run plainly, under a message
//! handler that writes a traceback, under hooks, in coroutines that yield in metamethods, and in some that
//! are dropped there.
//!
//! Methods have levels, and call those of lower ones only; metamethods have the lowest, and use no operators:
//! recursion through metamethods would come to the end of the reference's native stack.
//!
//! The first line of a program says with which variables ours runs.

use super::{Node, Program, environment};
use crate::rng::Rng;

const PRELUDE: &str = include_str!("classes.lua");

/// Methods, from the lowest level up, which is 1; metamethods have level 0.
const METHODS: &[&str] = &["m1", "m2", "m3", "m4"];
/// Metamethods of operators, with what makes one call them; `A` and `B` are operands.
const OPERATORS: &[(&str, &str)] = &[
    ("__len", "#A"),
    ("__unm", "-A"),
    ("__bnot", "~A"),
    ("__add", "(A + B)"),
    ("__sub", "(A - B)"),
    ("__mul", "(A * B)"),
    ("__div", "(A / B)"),
    ("__mod", "(A % B)"),
    ("__idiv", "(A // B)"),
    ("__pow", "(A ^ B)"),
    ("__band", "(A & B)"),
    ("__bxor", "(A ~ B)"),
    ("__shl", "(A << B)"),
    ("__concat", "(A .. B)"),
    ("__eq", "(A == B)"),
    ("__eq", "(A ~= B)"),
    ("__lt", "(A < B)"),
    ("__lt", "(A > B)"),
    ("__le", "(A <= B)"),
    ("__le", "(A >= B)"),
    ("__call", "A(B)"),
    ("__call", "A(B, 2, nil)"),
];
/// What there are of classes at most, and of hot functions.
const MOST: usize = 5;
/// The level of hot functions: they may call everything.
const TOP: usize = METHODS.len() + 1;

/// How often functions are called before something is recorded, and for how many instructions.
const MODES: &[&str] = &["blocking:2:60", "blocking:2:60", "blocking:3:200", "blocking:6:1000"];

/// A program.
pub fn generate(rng: &mut Rng) -> Program {
    let classes = 2 + rng.below(MOST - 1);
    let mut nodes = vec![Node::leaf(environment(rng, MODES)), Node::leaf(PRELUDE)];
    let mut g = Classes { rng, classes, functions: 0, vararg: false };
    for class in 1..=classes {
        nodes.extend(g.class(class));
    }
    let objects = 2 + g.rng.below(5);
    for n in 1..=objects {
        let class = 1 + g.rng.below(classes);
        nodes.push(Node::leaf(format!("objs[{n}] = {}", g.object(class))));
    }
    for _ in 0..2 + g.rng.below(3) {
        nodes.push(g.hot());
    }
    for _ in 0..4 + g.rng.below(8) {
        nodes.push(g.round());
        if g.rng.one_in(3) {
            nodes.extend(g.away());
        }
        for _ in 0..1 + g.rng.below(3) {
            let change = g.change();
            nodes.push(Node::leaf(format!("check(start, function() {change} end)")));
        }
    }
    nodes.push(g.round());
    nodes.push(Node::leaf("show(count, store)"));
    Program(nodes)
}

struct Classes<'r> {
    rng: &'r mut Rng,
    classes: usize,
    /// Hot functions so far.
    functions: usize,
    /// The function that is being written has variable arguments.
    vararg: bool,
}

impl Classes<'_> {
    /// A class with its methods and metamethods.
    fn class(&mut self, class: usize) -> Vec<Node> {
        let mut nodes = vec![Node::leaf(format!("C[{class}] = {{}}"))];
        let inherits = class > 1 && !self.rng.one_in(5);
        if inherits {
            let parent = 1 + self.rng.below(class - 1);
            let chain = match self.rng.below(3) {
                0 => format!("setmetatable(C[{class}], C[{parent}])"),
                1 => format!("setmetatable(C[{class}], {{__index = C[{parent}]}})"),
                _ => format!("inherit(C[{class}], C[{parent}], '')"),
            };
            nodes.push(Node::leaf(chain));
            if !self.rng.one_in(5) {
                nodes.push(Node::leaf(format!("inherit(C[{class}], C[{parent}], '__')")));
            }
        }
        nodes.push(Node::leaf(self.index(class)));
        for level in 0..METHODS.len() {
            if !inherits || self.rng.one_in(2) {
                nodes.push(self.method(class, level));
            }
        }
        for (event, _) in OPERATORS {
            if self.rng.one_in(if inherits { 8 } else { 1 }) {
                nodes.push(self.metamethod(class, event));
            }
        }
        if self.rng.one_in(3) {
            nodes.push(Node::leaf(self.new_index(class)));
        }
        nodes
    }

    /// A lower class than this one, or nil.
    fn lower(&mut self, class: usize) -> String {
        match class {
            1 => "nil".into(),
            _ => format!("C[{}]", 1 + self.rng.below(class - 1)),
        }
    }

    fn index(&mut self, class: usize) -> String {
        let lower = self.lower(class);
        let value = match self.rng.below(12) {
            0 => format!(
                "function(t, k) tick() local v = C[{class}][k] if v == nil then return {} end return v end",
                self.rng.range(-2, 9)
            ),
            1 if class > 1 => format!("function(t, k) return {lower}[k] end"),
            2 => format!("function(t, k) return C[{class}][k] or act(maybe(k)) end"),
            3 => format!("setmetatable({{}}, {{__index = function(t, k) return act(C[{class}][k]) end}})"),
            4 if class > 1 => lower,
            _ => format!("C[{class}]"),
        };
        format!("rawset(C[{class}], '__index', {value})")
    }

    fn new_index(&mut self, class: usize) -> String {
        let value = match self.rng.below(8) {
            0 => "store".into(),
            1 => "nil".into(),
            2 => "function(t, k, v) return error(k, 2) end".into(),
            3 => "function(t, k, v) rawset(t, k, maybe(v)) end".into(),
            4 => self.lower(class),
            5 => "function(t, k, ...) store[k] = select('#', ...) end".into(),
            _ => "function(t, k, v) tick() rawset(t, k, v) end".into(),
        };
        format!("rawset(C[{class}], '__newindex', {value})")
    }

    fn object(&mut self, class: usize) -> String {
        match self.rng.below(20) {
            0 => format!("new(C[{class}])"),
            1 | 2 => format!("new(C[{class}], 1, 2, 3, 4)"),
            3 => self.rng.pick(&["7", "'10'", "2.5", "act", "{x = 1}"]).into(),
            4..=6 => format!("setmetatable({{y = 2, x = {}}}, C[{class}])", self.rng.range(0, 9)),
            _ => format!("new(C[{class}], {})", self.rng.range(-3, 20)),
        }
    }

    fn method(&mut self, class: usize, level: usize) -> Node {
        let function = self.function("self, n, p", 1 + level);
        Node::block(
            format!("rawset(C[{class}], '{}', {}", METHODS[level], function.0),
            function.1,
            format!("{})", function.2),
        )
    }

    fn metamethod(&mut self, class: usize, name: &str) -> Node {
        if self.rng.one_in(16) {
            let handler = self.rng.pick(&["closer", "waiting"]);
            return Node::leaf(format!("rawset(C[{class}], '__close', {handler}.__close)"));
        }
        let parameters = if name == "__call" { "self, p, n" } else { "self, p" };
        let mut function = self.function(parameters, 0);
        if !self.rng.one_in(6) {
            function.1.insert(0, Node::leaf("if type(self) ~= 'table' then self, p = p, self end"));
        }
        Node::block(
            format!("rawset(C[{class}], '{name}', {}", function.0),
            function.1,
            format!("{})", function.2),
        )
    }

    /// Head, statements and end of a function that may call methods of lower levels.
    fn function(&mut self, parameters: &str, level: usize) -> (String, Vec<Node>, String) {
        let before = std::mem::replace(&mut self.vararg, self.rng.one_in(5));
        let dots = if self.vararg { ", ..." } else { "" };
        let mut body = Vec::new();
        if level > 0 || self.rng.one_in(2) {
            body.push(Node::leaf("tick()"));
        }
        if level > 0 && !self.rng.one_in(6) {
            body.push(Node::leaf("p = p or self"));
        }
        for _ in 0..self.rng.below(if level == TOP { 5 } else { 3 }) {
            body.push(self.statement(level, 2));
        }
        body.push(Node::leaf(self.give_back(level)));
        if !self.rng.one_in(6) {
            body.push(Node::leaf(format!("do return {} end", self.rng.range(1, 9))));
        }
        self.vararg = before;
        (format!("function({parameters}{dots})"), body, "end".into())
    }

    fn give_back(&mut self, level: usize) -> String {
        let (e, f) = (self.expr(level, 2), self.expr(level, 1));
        let call = self.call(level, 1);
        match self.rng.below(14) {
            0 => format!("do return {e}, {f} end"),
            1 => format!("do return act({e}, {f}) end"),
            2 => format!("do return {call} end"),
            3 if self.vararg => "do return ... end".into(),
            4 if self.vararg => format!("do return {e}, ... end"),
            5 if self.rng.one_in(4) => "do return self end".into(),
            6 => format!("do return pcall(function(...) return {e} end) end"),
            7 => format!("if {} then return {e} end", self.condition(level)),
            8 => format!("do return maybe({e}) end"),
            9 if self.rng.one_in(2) => String::new(),
            _ => format!("do return {e} end"),
        }
    }

    fn operand(&mut self, level: usize) -> &'static str {
        let of = if level == 0 { "self" } else { "p" };
        self.rng.pick(&["self", "self", "self", of, of, "objs[1]", "objs[2]"])
    }

    /// A call of a method of a lower level; where there is none, of something simple.
    fn call(&mut self, level: usize, depth: usize) -> String {
        let o = self.operand(level);
        if level < 2 {
            return format!("act({})", self.expr(level, depth.saturating_sub(1)));
        }
        let m = METHODS[self.rng.below(level - 1)];
        let e = self.expr(level, depth.saturating_sub(1));
        let class = 1 + self.rng.below(self.classes);
        match self.rng.below(10) {
            0 => format!("C[{class}].{m}({o}, {e})"),
            1 => format!("{o}:{m}({e}, {o}, 3)"),
            2 => format!("{o}:{m}()"),
            3 => format!("{o}:{m}({o}:{m}({e}), p)"),
            4 => format!("{o}.{m}({o}, {e}, p)"),
            5 if self.vararg => format!("{o}:{m}(...)"),
            _ => format!("{o}:{m}({e})"),
        }
    }

    fn key(&mut self) -> &'static str {
        self.rng.pick(&["x", "x", "x", "x", "y", "y", "y", "z", "w", "m1"])
    }

    /// An expression, most of the time a number.
    fn expr(&mut self, level: usize, depth: usize) -> String {
        let o = self.operand(level);
        if depth == 0 {
            return match self.rng.below(6) {
                0 | 1 => self.rng.range(-2, 9).to_string(),
                2 => "count % 7".into(),
                3 => self.rng.pick(&["n", "n", "n", "1.5", "'7'", "nil"]).into(),
                4 => format!("rawget(self, '{}')", self.key()),
                _ => format!("{o}.{}", self.key()),
            };
        }
        let d = depth - 1;
        match self.rng.below(16) {
            0 | 1 if level > 0 => {
                let op = self.rng.pick(&["+", "-", "*", "//", "%", "&", "<"]);
                let (a, b) = (self.expr(level, d), self.expr(level, d));
                if op == "<" { format!("({a} < {b} and 1 or 2)") } else { format!("({a} {op} {b})") }
            }
            2..=5 if level > 0 => {
                let (_, form) = OPERATORS[self.rng.below(OPERATORS.len())];
                let e = self.expr(level, d);
                let other =
                    if self.rng.one_in(2) { self.operand(level).to_string() } else { format!("({e})") };
                let (a, b) = if self.rng.one_in(4) && form.starts_with('(') {
                    (other, o.into())
                } else {
                    (o.into(), other)
                };
                form.replace('A', "\0").replace('B', &b).replace('\0', &a)
            }
            6..=8 => self.call(level, depth),
            9 => format!("maybe({})", self.expr(level, d)),
            10 => format!("{o}[{}]", self.expr(level, d)),
            11 => format!("(select('#', {}))", self.call(level, d)),
            12 => {
                let call = self.call(level, d);
                format!("(select(2, pcall(function(...) return {call} end)))")
            }
            13 if level == TOP => format!("through(function(...) return {} end)", self.call(level, d)),
            14 if level > 0 => format!("({o} == p and {} or {})", self.expr(level, d), self.expr(level, d)),
            _ => self.expr(level, 0),
        }
    }

    fn condition(&mut self, level: usize) -> String {
        let e = self.expr(level, 1);
        match self.rng.below(5) {
            0 if level > 0 => format!("self {} p", self.rng.pick(&["<", "<=", "==", "~=", ">", ">="])),
            1 => "count % 3 == 0".into(),
            2 => format!("not ({e})"),
            3 => format!("type({e}) == 'number'"),
            _ => e,
        }
    }

    fn statement(&mut self, level: usize, depth: usize) -> Node {
        let o = self.operand(level);
        let e = self.expr(level, 2);
        let text = match self.rng.below(16) {
            0 => format!("{o}.{} = {e}", self.key()),
            1 | 2 => format!("{o}.{} = num({e})", self.key()),
            3 => format!("{o}[{}] = {e}", self.expr(level, 1)),
            4 if level > 0 => format!("{o}.x = ({o}.x or 0) + 1"),
            5 => format!("{o}.{} = nil", self.rng.pick(&["x", "y", "z"])),
            6 => format!("n = {e}"),
            7 => format!("n = num({e})"),
            8 => format!("local n, r = {e}"),
            9 => format!("{} {o}.y = n", self.call(level, 1)).replacen("", "n = ", 1),
            10 => {
                format!("local guard <close> = setmetatable({{}}, {})", self.rng.pick(&["closer", "waiting"]))
            }
            11 if level > 0 => {
                "local own <close> = getmetatable(self) and rawget(getmetatable(self), '__close') and self \
                 or nil"
                    .into()
            }
            12 if depth > 0 => {
                let body = vec![self.statement(level, depth - 1)];
                return Node::block(format!("if {} then", self.condition(level)), body, "end");
            }
            13 | 14 if depth > 0 && level > 0 => {
                let mut body = vec![Node::leaf("tick()")];
                body.push(self.statement(level, depth - 1));
                if self.rng.one_in(6) && level == TOP {
                    let change = self.change();
                    body.push(Node::leaf(format!("if i == {} then {change} end", self.rng.range(1, 5))));
                }
                return Node::block(format!("for i = 1, {} do", self.rng.range(2, 6)), body, "end");
            }
            _ => format!("self, p = p, {}", self.operand(level)),
        };
        Node::leaf(text)
    }

    fn hot(&mut self) -> Node {
        self.functions += 1;
        let (head, body, end) = self.function("self, p, n", TOP);
        Node::block(format!("local h{} = {head}", self.functions), body, end)
    }

    /// Calls of a hot function with objects in turn.
    fn round(&mut self) -> Node {
        let f = 1 + self.rng.below(self.functions);
        let way = match self.rng.below(4) {
            0 => {
                self.rng.pick(&["coroutine", "dropped", "wrapped", "hooked", "iterator", "through", "traced"])
            }
            1 => "traced",
            _ => "plain",
        };
        let times = self.rng.range(3, 16);
        let (a, b) = (self.rng.range(1, 3), self.rng.range(1, 4));
        Node::leaf(format!(
            "for i = 1, {times} do start(way.{way}, h{f}, objs[i * {a} % #objs + 1], objs[i // {b} % #objs + \
             1], i) end"
        ))
    }

    /// Something is missing for a round.
    fn away(&mut self) -> [Node; 3] {
        let (class, o) = (1 + self.rng.below(self.classes), 1 + self.rng.below(2));
        let name = match self.rng.below(4) {
            0 => OPERATORS[self.rng.below(OPERATORS.len())].0,
            1 => "__index",
            _ => self.rng.pick(METHODS),
        };
        let (before, after) = match self.rng.below(3) {
            0 => (
                format!("away = getmetatable(objs[{o}]) check(setmetatable, objs[{o}], nil)"),
                format!("check(setmetatable, objs[{o}], away)"),
            ),
            _ => (
                format!("away = rawget(C[{class}], '{name}') rawset(C[{class}], '{name}', nil)"),
                format!("rawset(C[{class}], '{name}', away)"),
            ),
        };
        [Node::leaf(before), self.round(), Node::leaf(after)]
    }

    /// Something of classes or objects changes.
    fn change(&mut self) -> String {
        let class = 1 + self.rng.below(self.classes);
        let other = 1 + self.rng.below(self.classes);
        let o = 1 + self.rng.below(4);
        let flat = |node: Node| {
            let mut text = String::new();
            node.write(0, &mut text);
            text.replace('\n', " ")
        };
        match self.rng.below(24) {
            0..=4 => {
                let level = self.rng.below(METHODS.len());
                flat(self.method(class, level))
            }
            5 | 6 => {
                let (event, _) = OPERATORS[self.rng.below(OPERATORS.len())];
                flat(self.metamethod(class, event))
            }
            7 | 8 => self.index(class),
            9..=11 => self.new_index(class),
            12 => format!("setmetatable(objs[{o}], C[{class}])"),
            13 | 14 => format!("objs[{o}] = {}", self.object(class)),
            15 => {
                let level = self.rng.below(METHODS.len());
                format!("rawset(objs[{o}], '{}', C[{class}].{})", METHODS[level], METHODS[level])
            }
            16 => format!("rawset(objs[{o}], '{}', nil)", self.key()),
            17 => format!("for j = 1, 70 do rawset(C[{class}], 'q' .. j, j) end"),
            18 => format!("for j = 1, 70 do rawset(objs[{o}], 'q' .. j, j) end"),
            19 => format!("setmetatable(C[{class}], {})", self.lower(class)),
            20 => format!("rawset(C[{class}], '{}', {})", self.key(), self.rng.range(-5, 5)),
            21 => self
                .rng
                .pick(&["collectgarbage()", "collectgarbage('step')", "collectgarbage('generational')"])
                .into(),
            22 => format!("objs[{o}] = setmetatable(objs[{o}], objs[{o}])"),
            _ => format!("objs[{o}], objs[1] = objs[1], new(C[{other}], 3)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::tests::compile_and_repeat;

    #[test]
    fn programs_compile_and_repeat() {
        compile_and_repeat(300, generate);
    }
}
