//! Random Lua sources that are nearly always right by syntax, and mean nothing.
//!
//! They reach what mutations of sensible programs do not: operators of all precedences in each other,
//! constructors inside calls inside conditions, labels and attributes everywhere, constants that fold. They
//! are not meant to be run.

use crate::rng::Rng;

/// A source of about `size` statements.
pub fn source(rng: &mut Rng, size: usize) -> String {
    let mut g = Grammar { rng, out: String::new(), left: size, labels: 0 };
    g.block(4);
    g.out
}

/// One expression.
pub fn expression(rng: &mut Rng, depth: usize) -> String {
    let mut g = Grammar { rng, out: String::new(), left: 6, labels: 0 };
    g.exp(depth);
    g.out
}

struct Grammar<'r> {
    rng: &'r mut Rng,
    out: String,
    left: usize,
    labels: usize,
}

const NAMES: &[&str] = &["a", "b", "c", "x", "y", "self", "print", "_ENV", "i", "t"];
const BINARY: &[&str] = &[
    "+", "-", "*", "/", "//", "%", "^", "..", "==", "~=", "<", "<=", ">", ">=", "and", "or", "&", "|", "~",
    "<<", ">>",
];
const CONSTANTS: &[&str] = &[
    "nil",
    "true",
    "false",
    "0",
    "1",
    "-1",
    "2",
    "255",
    "65536",
    "9223372036854775807",
    "0x7fffffffffffffff",
    "1.5",
    "0.0",
    "1e308",
    "1e-320",
    "0x.8p1",
    "''",
    "'x'",
    "'10'",
    "\"0x10\"",
    "[[l]]",
    "...",
    "{}",
    "3",
    "32768",
    "-32769",
    "64",
];

impl Grammar<'_> {
    fn put(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push(if self.rng.one_in(30) { '\n' } else { ' ' });
    }

    fn name(&mut self) {
        let name = self.rng.pick(NAMES);
        self.put(name);
    }

    fn block(&mut self, depth: usize) {
        let count = 1 + self.rng.below(5);
        for _ in 0..count {
            if self.left == 0 {
                return;
            }
            self.left -= 1;
            self.statement(depth);
        }
        if self.rng.one_in(6) {
            self.put("return");
            if self.rng.one_in(2) {
                self.list(2);
            }
        }
    }

    fn body(&mut self, depth: usize) {
        self.put("(");
        let params = self.rng.below(4);
        for n in 0..params {
            self.put(if n == 0 { "" } else { "," });
            self.name();
        }
        // Nearly always variadic, so that `...` is right anywhere.
        if !self.rng.one_in(12) {
            self.put(if params == 0 { "..." } else { ", ..." });
        }
        self.put(")");
        self.block(depth.saturating_sub(1));
        self.put("end");
    }

    fn statement(&mut self, depth: usize) {
        let choice = self.rng.below(if depth == 0 { 8 } else { 17 });
        match choice {
            0 | 1 => {
                self.put("local");
                for n in 0..1 + self.rng.below(3) {
                    self.put(if n == 0 { "" } else { "," });
                    self.name();
                    if self.rng.one_in(8) {
                        let attribute = self.rng.pick(&["<const>", "<close>"]);
                        self.put(attribute);
                    }
                }
                if !self.rng.one_in(5) {
                    self.put("=");
                    self.list(3);
                }
            }
            2 | 3 => {
                for n in 0..1 + self.rng.below(3) {
                    self.put(if n == 0 { "" } else { "," });
                    self.variable(2);
                }
                self.put("=");
                self.list(3);
            }
            4 | 5 => {
                self.variable(2);
                self.arguments(2);
                self.put(";");
            }
            6 => {
                self.labels += 1;
                let label = format!("goto l{0} local z ::l{0}::", self.labels);
                self.put(&label);
                // A label at the end of a block sees no local; anywhere else this is an error that is wanted
                // too.
            }
            7 => self.put(";"),
            8 => {
                self.put("do");
                self.block(depth - 1);
                self.put("end");
            }
            9 => {
                self.put("while");
                self.exp(3);
                self.put("do");
                self.block(depth - 1);
                let end = self.rng.seldom(3, "break end", "end");
                self.put(end);
            }
            10 => {
                self.put("repeat");
                self.block(depth - 1);
                self.put("until");
                self.exp(3);
            }
            11 | 12 => {
                self.put("if");
                self.exp(4);
                self.put("then");
                self.block(depth - 1);
                while self.rng.one_in(3) {
                    self.put("elseif");
                    self.exp(3);
                    self.put("then");
                    self.block(depth - 1);
                }
                if self.rng.one_in(2) {
                    self.put("else");
                    self.block(depth - 1);
                }
                self.put("end");
            }
            13 => {
                self.put("for i =");
                self.exp(2);
                self.put(",");
                self.exp(2);
                if self.rng.one_in(2) {
                    self.put(",");
                    self.exp(1);
                }
                self.put("do");
                self.block(depth - 1);
                self.put("end");
            }
            14 => {
                self.put("for a, b in");
                self.list(2);
                self.put("do");
                self.block(depth - 1);
                self.put("end");
            }
            15 => {
                self.put("local function");
                self.name();
                self.body(depth);
            }
            _ => {
                let head = self.rng.pick(&["function a", "function t.x", "function t.x.y:z"]);
                self.put(head);
                self.body(depth);
            }
        }
    }

    fn list(&mut self, depth: usize) {
        for n in 0..1 + self.rng.below(3) {
            self.put(if n == 0 { "" } else { "," });
            self.exp(depth);
        }
    }

    fn variable(&mut self, depth: usize) {
        self.name();
        while depth > 0 && self.rng.one_in(2) {
            if self.rng.one_in(2) {
                self.put(".");
                self.name();
            } else {
                self.put("[");
                self.exp(depth - 1);
                self.put("]");
            }
        }
    }

    fn arguments(&mut self, depth: usize) {
        if self.rng.one_in(4) {
            self.put(":");
            self.name();
        }
        match self.rng.below(8) {
            0 => self.put("'s'"),
            1 => self.constructor(depth),
            2 => self.put("()"),
            _ => {
                self.put("(");
                self.list(depth);
                self.put(")");
            }
        }
    }

    fn constructor(&mut self, depth: usize) {
        self.put("{");
        let most = self.rng.seldom(40, 120, 5);
        for _ in 0..self.rng.below(most) {
            match self.rng.below(4) {
                0 => {
                    self.name();
                    self.put("=");
                }
                1 => {
                    self.put("[");
                    self.exp(depth.saturating_sub(1));
                    self.put("] =");
                }
                _ => {}
            }
            self.exp(depth.saturating_sub(1));
            let separator = self.rng.pick(&[",", ";"]);
            self.put(separator);
        }
        self.put("}");
    }

    fn exp(&mut self, depth: usize) {
        if depth == 0 {
            return self.simple();
        }
        match self.rng.below(13) {
            0..=2 => self.simple(),
            3..=6 => {
                self.exp(depth - 1);
                let operator = self.rng.pick(BINARY);
                self.put(operator);
                self.exp(depth - 1);
            }
            7 => {
                let operator = self.rng.pick(&["- ", "not", "#", "~"]);
                self.put(operator);
                self.exp(depth - 1);
            }
            8 => {
                self.put("(");
                self.exp(depth - 1);
                self.put(")");
            }
            9 => {
                self.variable(depth - 1);
                self.arguments(depth - 1);
            }
            10 => self.constructor(depth),
            11 if self.left > 0 => {
                self.put("function");
                self.body(1);
            }
            _ => self.variable(depth - 1),
        }
    }

    fn simple(&mut self) {
        if self.rng.one_in(2) {
            self.name();
        } else {
            let constant = self.rng.pick(CONSTANTS);
            self.put(constant);
        }
    }
}
