//! `perilune-fuzz TARGET [--cases N] [--seconds S] [--seed X] [--out DIR] [--lua PATH] [--perilune PATH] [--exact true]`
//!
//! | target | cases | what must hold |
//! |---|---|---|
//! | `parse` | changed pieces of Lua source | compiles to valid code that survives a round trip and runs, or is refused |
//! | `undump` | changed binary chunks, mostly with a repaired checksum | refused, or runs |
//! | `pattern`, `format`, `pack`, `numeral` | calls of the library with generated arguments | same results as `lua5.4` |
//! | `programs` | generated programs | same output as `lua5.4` |
//!
//! Every case depends on seed and number alone. The first two targets run in a child process, one case after the other; when it dies or
//! stops moving, the parent writes the input of the case it was at to `--out` and goes on behind it. The others run both commands on a
//! file; a program on which they differ is kept. With `--exact true` lines and variables' names in error messages count too; the reference
//! should then be the newest PUC Lua 5.4. The exit code says whether anything was found.

mod calls;
mod compare;
mod inside;
mod mutate;
mod programs;
mod rng;
mod typed;

use inside::Seeds;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Calls in one generated program of the library targets; each counts as a case.
const CALLS: u64 = 200;
/// A case of an inside target that takes longer is a hang.
const CASE_LIMIT: Duration = Duration::from_secs(20);

struct Run {
    target: String,
    first: u64,
    cases: u64,
    seconds: u64,
    seed: u64,
    out: PathBuf,
    lua: PathBuf,
    perilune: PathBuf,
    exact: bool,
    /// Set in the child: where the number of the running case is written.
    progress: Option<PathBuf>,
}

fn main() -> ExitCode {
    let Some(run) = arguments() else {
        eprintln!(
            "usage: perilune-fuzz parse|undump|pattern|format|pack|numeral|programs [--cases N] [--seconds S] [--seed X] [--out DIR] \
             [--lua PATH] [--perilune PATH] [--exact true]"
        );
        return ExitCode::FAILURE;
    };
    if let Some(progress) = &run.progress {
        work(&run, &File::options().write(true).open(progress).expect("the parent made the file"));
        return ExitCode::SUCCESS;
    }
    fs::create_dir_all(&run.out).expect("--out can be made");
    let start = Instant::now();
    let (cases, found) = match run.target.as_str() {
        "parse" | "undump" => watch(&run, start),
        _ => differential(&run, start),
    };
    println!(
        "{}: {cases} cases, {found} findings, {:.0} s, seed {}",
        run.target,
        start.elapsed().as_secs_f64(),
        run.seed
    );
    if found == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn arguments() -> Option<Run> {
    let mut args = std::env::args().skip(1);
    let target = args.next()?;
    if !["parse", "undump", "pattern", "format", "pack", "numeral", "programs"].contains(&target.as_str()) {
        return None;
    }
    let beside = std::env::current_exe().ok()?.with_file_name("perilune");
    let mut run = Run {
        target,
        first: 0,
        cases: u64::MAX,
        seconds: 60,
        seed: 1,
        out: "fuzz/artifacts".into(),
        lua: "lua5.4".into(),
        perilune: beside,
        exact: false,
        progress: None,
    };
    while let Some(name) = args.next() {
        let value = args.next()?;
        match name.as_str() {
            "--first" => run.first = value.parse().ok()?,
            "--cases" => run.cases = value.parse().ok()?,
            "--seconds" => run.seconds = value.parse().ok()?,
            "--seed" => run.seed = value.parse().ok()?,
            "--out" => run.out = value.into(),
            "--lua" => run.lua = value.into(),
            "--exact" => run.exact = value.parse().ok()?,
            "--perilune" => run.perilune = value.into(),
            "--progress" => run.progress = Some(value.into()),
            _ => return None,
        }
    }
    Some(run)
}

fn seeds() -> Seeds {
    Seeds::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
}

/// The child: runs cases from `first` on, writing each case's number before it starts.
fn work(run: &Run, progress: &File) {
    let seeds = seeds();
    let start = Instant::now();
    let mut case = run.first;
    while case < run.cases && start.elapsed().as_secs() < run.seconds {
        progress.write_all_at(&case.to_le_bytes(), 0).expect("progress can be written");
        inside::run(&run.target, &inside::input(&run.target, &seeds, run.seed, case));
        case += 1;
    }
    progress.write_all_at(&case.to_le_bytes(), 0).expect("progress can be written");
}

/// The parent: starts children until the cases or the time are used up; returns cases and findings.
fn watch(run: &Run, start: Instant) -> (u64, u64) {
    let path = run.out.join(format!("progress-{}", std::process::id()));
    fs::write(&path, [0; 8]).expect("--out is writable");
    let progress = || u64::from_le_bytes(fs::read(&path).expect("progress").try_into().expect("eight bytes"));
    let (mut first, mut found) = (0, 0);
    while first < run.cases && start.elapsed().as_secs() < run.seconds {
        let left = run.seconds - start.elapsed().as_secs();
        let mut child = Command::new(std::env::current_exe().expect("own path"))
            .args([&run.target, "--first", &first.to_string(), "--cases", &run.cases.to_string()])
            .args(["--seconds", &left.to_string(), "--seed", &run.seed.to_string()])
            .arg("--progress")
            .arg(&path)
            .stdout(Stdio::null())
            .spawn()
            .expect("child starts");
        let (mut seen, mut since) = (first, Instant::now());
        let failure = loop {
            if let Some(status) = child.try_wait().expect("child can be waited for") {
                break (!status.success()).then(|| status.to_string());
            }
            let now = progress();
            if now != seen {
                (seen, since) = (now, Instant::now());
            } else if since.elapsed() > CASE_LIMIT {
                let _ = child.kill();
                let _ = child.wait();
                break Some("hang".to_owned());
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        first = progress();
        if let Some(failure) = failure {
            let file = run.out.join(format!("{}-{}-{first}", run.target, run.seed));
            fs::write(&file, inside::input(&run.target, &seeds(), run.seed, first))
                .expect("--out is writable");
            println!("{}: {failure}, input in {}", run.target, file.display());
            found += 1;
            first += 1;
        }
    }
    let _ = fs::remove_file(&path);
    (first, found)
}

/// Compares with the reference; returns cases and findings.
fn differential(run: &Run, start: Instant) -> (u64, u64) {
    let file = run.out.join(format!("running-{}.lua", std::process::id()));
    let (mut cases, mut found, mut number) = (0, 0, run.first);
    while cases < run.cases && start.elapsed().as_secs() < run.seconds {
        let mut rng = rng::Rng::new(run.seed, number);
        let text = match run.target.as_str() {
            "programs" => programs::program(&mut rng, run.exact),
            kind => calls::program(&mut rng, kind, CALLS as usize),
        };
        fs::write(&file, &text).expect("--out is writable");
        if let Some(what) = compare::compare(&run.perilune, &run.lua, &file) {
            let kept = run.out.join(format!("{}-{}-{number}.lua", run.target, run.seed));
            fs::write(&kept, &text).expect("--out is writable");
            println!("{}: {what}\n  in {}", run.target, kept.display());
            found += 1;
        }
        number += 1;
        cases += if run.target == "programs" { 1 } else { CALLS };
    }
    let _ = fs::remove_file(&file);
    (cases, found)
}
