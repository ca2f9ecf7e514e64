//! `perilune-fuzzer TARGET [OPTIONS]`: runs one fuzz target; `cargo xtask fuzz` builds and calls it.
//!
//! Exit codes: 0 all cases clean, 1 a promise is broken (the input lies in the artifacts' folder), 2 wrong
//! usage, 3 a hang; a crash ends the process by its signal.

use perilune_fuzzer::calls::{Calls, Kind};
use perilune_fuzzer::corpus;
use perilune_fuzzer::differential::{Pair, Programs, scratch};
use perilune_fuzzer::frames::{Rpc, Ws};
use perilune_fuzzer::heap::Heap;
use perilune_fuzzer::http::Http;
use perilune_fuzzer::json::Json;
use perilune_fuzzer::limits::Limits;
use perilune_fuzzer::numeral::Numeral;
use perilune_fuzzer::parse::Parse;
use perilune_fuzzer::runner::{self, Options, Target};
use perilune_fuzzer::script::{Kind as Script, Scripts};
use perilune_fuzzer::text::Text;
use perilune_fuzzer::trace::Trace;
use perilune_fuzzer::undump::Undump;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const USAGE: &str = "usage: perilune-fuzzer \
    parse|undump|pattern|format|pack|numeral|programs|classes|paths|numbers|control|lists|stress|limits|trace|heap|dropped|\
    keys|domains|json|text|http|rpc|ws
  --cases N         cases to run (default 10000)
  --seconds S       stop after this time
  --seed S          seed (default 1)
  --first N         number of the first case
  --corpus DIR      Lua programs to start from (may be repeated; default: those of the project)
  --artifacts DIR   where failing inputs go (default fuzz/artifacts)
  --perilune PATH   the perilune command (default: beside this one)
  --reference PATH  the Lua to compare with (programs, classes, paths, numbers, control, lists: default lua5.4; pattern, \
    format, pack: default none)
  --progress FILE   where the number of the running case is kept
  --failures N      stop after N failures (default 5)
  --replay FILE     run one input
  --show            print the first case instead of running it";

type Error = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    match run() {
        Ok(clean) => ExitCode::from(u8::from(!clean)),
        Err(e) => {
            eprintln!("perilune-fuzzer: {e}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<bool, Error> {
    use lexopt::prelude::*;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut options = Options {
        cases: 10_000,
        time: None,
        seed: 1,
        first: 0,
        corpus: Vec::new(),
        artifacts: Some(root.join("fuzz/artifacts")),
        perilune: std::env::current_exe()?.with_file_name("perilune"),
        reference: None,
        progress: None,
        max_failures: 5,
    };
    let (mut name, mut input, mut show) = (None, None, false);
    let mut parser = lexopt::Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Value(v) if name.is_none() => name = Some(v.string()?),
            Long("cases") => options.cases = parser.value()?.parse()?,
            Long("seconds") => options.time = Some(Duration::from_secs(parser.value()?.parse()?)),
            Long("seed") => options.seed = parser.value()?.parse()?,
            Long("first") => options.first = parser.value()?.parse()?,
            Long("corpus") => options.corpus.push(parser.value()?.into()),
            Long("artifacts") => options.artifacts = Some(parser.value()?.into()),
            Long("perilune") => options.perilune = PathBuf::from(parser.value()?).canonicalize()?,
            Long("reference") => options.reference = Some(parser.value()?.into()),
            Long("progress") => options.progress = Some(parser.value()?.into()),
            Long("failures") => options.max_failures = parser.value()?.parse()?,
            Long("replay") => input = Some(std::fs::read(parser.value()?)?),
            Long("show") => show = true,
            _ => return Err(arg.unexpected().into()),
        }
    }
    if options.corpus.is_empty() {
        options.corpus = corpus::default_folders();
    }
    let name = name.ok_or("which target?")?;
    if let Some(plant) = planted(&name) {
        return Ok(plant() != 0);
    }
    let mut target = target(&name, &options)?;
    if show {
        let input = target.generate(&mut perilune_fuzzer::rng::Rng::new(options.seed, options.first));
        println!("{}", String::from_utf8_lossy(&input));
        return Ok(true);
    }
    if let Some(input) = input {
        let result = runner::replay(&mut *target, &options, &input)?;
        println!("{result:?}");
        return Ok(result.is_ok());
    }
    let start = Instant::now();
    let tally = runner::run(&mut *target, &options)?;
    println!(
        "{name}: seed {}, {} cases ({} accepted), {} failures, {:.1} s",
        options.seed,
        tally.cases,
        tally.accepted,
        tally.failures,
        start.elapsed().as_secs_f64()
    );
    Ok(tally.failures == 0)
}

/// A fault on purpose, for the chores that run with sanitizers.
fn planted(name: &str) -> Option<fn() -> u8> {
    use perilune_fuzzer::planted;
    match name {
        "planted-overflow" => Some(planted::overflow),
        "planted-overflow-on-native-stack" => Some(planted::overflow_on_native_stack),
        "planted-race" => Some(planted::race),
        _ => None,
    }
}

fn target(name: &str, options: &Options) -> Result<Box<dyn Target>, Error> {
    let calls = |kind| -> Result<Box<dyn Target>, Error> {
        let pair = match &options.reference {
            Some(reference) => Some(Pair {
                perilune: options.perilune.clone(),
                reference: reference.clone(),
                scratch: scratch()?,
            }),
            None => None,
        };
        Ok(Box::new(Calls::new(kind, pair)))
    };
    let reference = || options.reference.clone().unwrap_or_else(|| "lua5.4".into());
    Ok(match name {
        "parse" => Box::new(Parse::new(&options.corpus)),
        "undump" => Box::new(Undump::new(&options.corpus)),
        "pattern" => calls(Kind::Pattern)?,
        "format" => calls(Kind::Format)?,
        "pack" => calls(Kind::Pack)?,
        "numeral" => Box::new(Numeral),
        "programs" => Box::new(Programs::new(&options.perilune, Some(&reference()))?),
        "classes" => Box::new(Programs::of_classes(&options.perilune, &reference())?),
        "paths" => Box::new(Programs::of_paths(&options.perilune, &reference())?),
        "numbers" => Box::new(Programs::of_numbers(&options.perilune, &reference())?),
        "control" => Box::new(Programs::of_control(&options.perilune, &reference())?),
        "lists" => Box::new(Programs::of_lists(&options.perilune, &reference())?),
        "stress" => Box::new(Programs::new(&options.perilune, None)?),
        "limits" => Box::<Limits>::default(),
        "trace" => Box::new(Trace),
        "heap" => Box::new(Heap),
        "json" => Box::<Json>::default(),
        "http" => Box::<Http>::default(),
        "rpc" => Box::<Rpc>::default(),
        "ws" => Box::<Ws>::default(),
        "text" => Box::<Text>::default(),
        "dropped" => Box::new(Scripts::new(Script::Dropped, &options.perilune)?),
        "keys" => Box::new(Scripts::new(Script::Keys, &options.perilune)?),
        "domains" => Box::new(Scripts::new(Script::Domains, &options.perilune)?),
        other => return Err(format!("there is no target '{other}'").into()),
    })
}
