//! Random programs that end, and print the same on every Lua 5.4.
//!
//! A program is a tree of statements ([`Node`]), so that it can be shrunk by leaving some out. Variables have
//! kinds (`expr.rs`), which keeps most operations meaningful; now and then an operand of another kind is
//! asked for, because errors and their messages are part of the language. Every loop and every function burns
//! fuel; when it has run out each further step is an error. That bounds the time without making the result
//! depend on the clock.
//!
//! What the manual leaves open is not shown: order of traversal, borders of arrays with holes, addresses, the
//! sign of a NaN, the number of comparisons in `table.sort`, when garbage is collected.

pub mod classes;
pub mod control;
mod expr;
pub mod lists;
pub mod numbers;
mod objects;
pub mod paths;
mod stat;

use crate::rng::Rng;
use crate::script::WITH;
use expr::{Kind, Var};

/// A statement: pieces of text with blocks of statements between them.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Text, and the block that follows it.
    pub parts: Vec<(String, Vec<Node>)>,
    /// Text at the end.
    pub tail: String,
}

impl Node {
    /// A statement without blocks.
    pub fn leaf(text: impl Into<String>) -> Node {
        Node { parts: Vec::new(), tail: text.into() }
    }
    /// `head body tail`
    pub fn block(head: impl Into<String>, body: Vec<Node>, tail: impl Into<String>) -> Node {
        Node { parts: vec![(head.into(), body)], tail: tail.into() }
    }

    fn write(&self, indent: usize, out: &mut String) {
        let pad = "  ".repeat(indent);
        for (head, body) in &self.parts {
            out.push_str(&format!("{pad}{head}\n"));
            body.iter().for_each(|n| n.write(indent + 1, out));
        }
        if !self.tail.is_empty() {
            out.push_str(&format!("{pad}{}\n", self.tail));
        }
    }

    fn count(&self) -> usize {
        1 + self.parts.iter().flat_map(|(_, body)| body).map(Node::count).sum::<usize>()
    }
}

/// A program.
#[derive(Clone, Debug)]
pub struct Program(pub Vec<Node>);

/// What programs print with.
const PRELUDE: &str = include_str!("prelude.lua");

impl Program {
    /// Its text, with everything that it needs.
    pub fn source(&self) -> String {
        let mut out = String::from(PRELUDE);
        self.0.iter().for_each(|n| n.write(0, &mut out));
        out
    }

    /// Number of statements.
    pub fn size(&self) -> usize {
        self.0.iter().map(Node::count).sum()
    }

    /// The program without statements `first..first + count` in the order of the text, with what is inside
    /// them.
    pub fn without(&self, first: usize, count: usize) -> Program {
        fn filter(nodes: &[Node], next: &mut usize, drop: &std::ops::Range<usize>) -> Vec<Node> {
            let mut kept = Vec::new();
            for n in nodes {
                let number = *next;
                if drop.contains(&number) {
                    *next += n.count();
                    continue;
                }
                *next += 1;
                let parts =
                    n.parts.iter().map(|(head, body)| (head.clone(), filter(body, next, drop))).collect();
                kept.push(Node { parts, tail: n.tail.clone() });
            }
            kept
        }
        Program(filter(&self.0, &mut 0, &(first..first + count)))
    }

    /// The smallest program found that still `fails`, by leaving out ever shorter runs of statements.
    pub fn shrink(&self, mut fails: impl FnMut(&Program) -> bool) -> Program {
        let mut best = self.clone();
        let mut run = best.size().div_ceil(2);
        let mut tries = 0;
        while run > 0 && tries < 3000 {
            let (mut first, mut smaller) = (0, false);
            while first < best.size() {
                let candidate = best.without(first, run);
                tries += 1;
                if candidate.size() < best.size() && fails(&candidate) {
                    best = candidate;
                    smaller = true;
                } else {
                    first += run;
                }
            }
            if !smaller || run > 1 {
                run /= 2;
            }
        }
        best
    }
}

/// A program.
pub fn generate(rng: &mut Rng) -> Program {
    let mut g = Gen { rng, scope: Vec::new(), names: 0, depth: 0, loops: 0, function: 0, left: 0 };
    let mut nodes = Vec::new();
    g.left = 25 + g.rng.below(50);
    for _ in 0..3 {
        nodes.push(g.declaration());
    }
    while g.left > 0 {
        nodes.push(g.top());
    }
    let names: Vec<String> = g.scope.iter().map(|v| v.name.clone()).collect();
    for pair in names.chunks(4) {
        nodes.push(Node::leaf(format!("show('end', {})", pair.join(", "))));
    }
    Program(nodes)
}

/// A line that says with which variables ours runs a program: one of `modes`, sometimes with guards that fail,
/// or with calls that leave.
fn environment(rng: &mut Rng, modes: &[&str]) -> String {
    let spesh = rng.pick(modes);
    let guards = match rng.below(4) {
        0 => format!(" PERILUNE_SPESH_GUARDS=random:{}", rng.below(1000)),
        1 => format!(" PERILUNE_SPESH_GUARDS=fail:{}", rng.range(1, 30)),
        _ => String::new(),
    };
    let leave = rng.pick(&["", "", " PERILUNE_SPESH_LEAVE=every", " PERILUNE_SPESH_LEAVE=3"]);
    format!("{WITH} PERILUNE_SPESH={spesh}{guards}{leave}")
}

/// The state of generation.
pub(crate) struct Gen<'r> {
    rng: &'r mut Rng,
    /// Variables that can be seen, innermost last.
    scope: Vec<Var>,
    names: usize,
    /// Blocks around this point.
    depth: usize,
    /// Loops around this point in the same function.
    loops: usize,
    /// Functions around this point.
    function: usize,
    /// Statements that may still be made.
    left: usize,
}

impl Gen<'_> {
    fn fresh(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    fn declare(&mut self, name: &str, kind: Kind, constant: bool) {
        // A function may use 200 locals at most, and refer to 255 around it.
        if self.scope.len() < 110 {
            self.scope.push(Var { name: name.to_string(), kind, constant });
        }
    }

    /// A block of statements with variables of its own.
    fn block(&mut self, statements: usize) -> Vec<Node> {
        let mark = self.scope.len();
        let block = self.open_block(statements);
        self.scope.truncate(mark);
        block
    }

    /// As `block`, but the variables stay in scope.
    fn open_block(&mut self, statements: usize) -> Vec<Node> {
        self.depth += 1;
        let mut nodes = Vec::new();
        for _ in 0..1 + self.rng.below(statements) {
            if self.left == 0 {
                break;
            }
            nodes.push(self.statement());
        }
        self.depth -= 1;
        nodes
    }

    /// A block inside another function: loops around do not count.
    fn function_block(&mut self, statements: usize) -> Vec<Node> {
        let loops = std::mem::take(&mut self.loops);
        self.function += 1;
        let mut nodes = vec![Node::leaf("tick()")];
        nodes.extend(self.open_block(statements));
        self.function -= 1;
        self.loops = loops;
        nodes
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The first programs compile, and are the same when they are made again.
    pub fn compile_and_repeat(cases: u64, generate: fn(&mut Rng) -> Program) {
        for case in 0..cases {
            let source = generate(&mut Rng::new(5, case)).source();
            if let Err(e) = perilune_syntax::compile(source.as_bytes(), b"=p") {
                panic!("{}\n{source}", String::from_utf8_lossy(&e.message));
            }
            assert_eq!(source, generate(&mut Rng::new(5, case)).source());
        }
    }

    #[test]
    fn programs_compile_and_repeat() {
        compile_and_repeat(200, generate);
    }

    #[test]
    fn shrinking_finds_the_one_statement() {
        let program =
            Program((0..20).map(|n| Node::block("do", vec![Node::leaf(format!("f({n})"))], "end")).collect());
        let small = program.shrink(|p| p.source().contains("f(13)"));
        assert_eq!(small.size(), 2);
    }
}
