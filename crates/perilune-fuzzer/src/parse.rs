//! Sources for the lexer, the parser and the compiler.
//!
//! Half the inputs are windows of the project's own programs with a few edits, the others come from the
//! grammar, some of those edited too. What compiles must be what the verifier accepts, and must come back
//! from a binary chunk as it was.

use crate::guard::Guard;
use crate::mutate::mutate;
use crate::rng::Rng;
use crate::runner::{End, Target};
use crate::{corpus, grammar};
use std::path::PathBuf;

/// Bytes of an input at most.
const MAX: usize = 4000;

/// The target.
pub struct Parse {
    corpus: Vec<Vec<u8>>,
}

impl Parse {
    /// With the programs of these folders.
    pub fn new(folders: &[PathBuf]) -> Parse {
        Parse { corpus: corpus::load(folders) }
    }
}

/// Some consecutive lines of a program.
fn window(rng: &mut Rng, source: &[u8]) -> Vec<u8> {
    let lines: Vec<&[u8]> = source.split_inclusive(|&b| b == b'\n').collect();
    if lines.is_empty() {
        return Vec::new();
    }
    let first = rng.below(lines.len());
    let count = 1 + rng.below(30);
    lines[first..(first + count).min(lines.len())].concat()
}

impl Target for Parse {
    fn name(&self) -> &'static str {
        "parse"
    }

    fn generate(&mut self, rng: &mut Rng) -> Vec<u8> {
        match rng.below(8) {
            0..=3 => {
                let mut input = window(rng, &self.corpus[rng.clone().below(self.corpus.len())]);
                mutate(rng, &mut input, &self.corpus, MAX);
                input
            }
            4..=5 => {
                let size = 1 + rng.below(12);
                grammar::source(rng, size).into_bytes()
            }
            6 => {
                let mut input = grammar::source(rng, 8).into_bytes();
                mutate(rng, &mut input, &self.corpus, MAX);
                input
            }
            _ => (0..rng.below(60))
                .flat_map(|_| [rng.pick(crate::tokens::TOKENS), " "].concat().into_bytes())
                .collect(),
        }
    }

    fn run(&mut self, _guard: &Guard, input: &[u8]) -> Result<End, String> {
        let Ok(proto) = perilune_syntax::compile(input, b"=fuzz") else { return Ok(End::Refused) };
        perilune_syntax::verify::verify(&proto)
            .map_err(|e| format!("the verifier refuses compiled code: {e}"))?;
        let bytes = perilune_syntax::dump::dump(&proto, false);
        let back = perilune_syntax::undump::undump(&bytes, b"=fuzz")
            .map_err(|e| format!("its own dump is refused: {}", String::from_utf8_lossy(&e.message)))?;
        if perilune_syntax::dump::dump(&back, false) != bytes {
            return Err("dump and undump change it".into());
        }
        Ok(End::Accepted)
    }
}
