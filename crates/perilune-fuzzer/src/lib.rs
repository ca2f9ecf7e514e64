//! Fuzzing on the stable toolchain: inputs by the million, none of which may crash, hang or break a promise.
//!
//! A [`Target`](runner::Target) makes an input from random numbers and runs it. Case number `i` of a run
//! depends on the seed and on `i` only, so that any case can be had again without those before it. [`runner`]
//! does the counting, [`guard`] sees to it that the input survives a crash or a hang: it lies in
//! `fuzz/artifacts` afterwards, and `--replay FILE` runs it once more.
//!
//! | target | input | what must hold |
//! |---|---|---|
//! | `parse` | mutated Lua sources, random token and grammar soup | compiles or is refused; what compiles passes the verifier, and survives dump and undump |
//! | `undump` | mutated binary chunks, instruction by instruction too | what the verifier accepts runs without a crash, within bounds |
//! | `pattern`, `format`, `pack` | calls of the string library | a result or a Lua error, the same as a reference Lua's if one is named |
//! | `numeral` | numerals and numbers | the same value as Rust's parser reads; text and back is the identity |
//! | `programs` | random programs that end | prints what a reference Lua prints |
//! | `classes` | random programs about classes that change, with machine code that doubts | prints what a reference Lua prints |
//! | `paths` | random programs whose hot functions go ways later that they have not gone before | prints what a reference Lua prints |
//! | `numbers` | random programs about integers and floats at their borders | prints what a reference Lua prints |
//! | `control` | random programs about shared variables, variable arguments, coroutines, jumps and errors | prints what a reference Lua prints |
//! | `lists` | random programs about short lists, what becomes of them and who looks at them | prints what a reference Lua prints |
//! | `stress` | the programs of `programs` | no crash with a collection at every safepoint and the heap verified |
//! | `trace` | recordings that are damaged, or tell what cannot have happened | an error or a trace that every reader copes with |
//! | `heap` | snapshots of heaps: graphs at random, damaged ones | an error or a snapshot that all of `perilune heap` copes with; what dominates retains no less |
//! | `http` | heads, bodies in chunks, addresses, some of them damaged | as simple decoders of the whole read them, whatever the packets |
//! | `rpc`, `ws` | frames of remote calls and of WebSocket, some of them damaged | written again they are the same; a part of one asks for more; pieces of any size mean the same |
//! | `json` | JSON texts, some of them damaged | read as `serde_json` reads them, in one piece and in many, and written so that it reads the same |
//! | `text` | bytes in many encodings, with many separators | the same pieces and errors however the input is cut; UTF-8 as the standard library has it |
//! | `dropped`, `keys`, `domains` | programs that judge themselves, see [`script`] | they end with "ok" |
//! | `limits` | nesting, recursion, sizes, under limits of memory and time | a Lua error, and a state that works afterwards |
//!
//! There is no coverage feedback: that needs instrumented builds of the nightly toolchain. Structure makes up
//! for it: the inputs start from real programs and from grammars, and chunks are changed where the verifier
//! looks.

pub mod calls;
pub mod corpus;
pub mod differential;
pub mod frames;
pub mod grammar;
pub mod guard;
pub mod heap;
pub mod http;
pub mod json;
pub mod limits;
pub mod literal;
pub mod mutate;
pub mod numeral;
pub mod parse;
pub mod planted;
pub mod program;
pub mod rng;
pub mod runner;
pub mod sandbox;
pub mod script;
mod sys;
pub mod text;
pub mod tokens;
pub mod trace;
pub mod undump;
