//! The programs in the documentation: every block marked `lua` of every page is a program of its own.
//!
//! What stands behind `lua` in the first line of the block says what is expected of it:
//!
//! | info string | |
//! |---|---|
//! | `lua` | it runs as it stands, without arguments, and prints what its comments `--> ...` say, line by line |
//! | `lua, fails` | it ends with exit code 1, and each line of the block behind it is a line of what it prints on standard error |
//! | `lua, from FILE` | it is a part of FILE, which is run by another test; the path is from the project's root |
//! | `lua, not run: REASON` | it cannot run here, for that reason |
//!
//! A block that runs is called `guide.lua`, in an empty folder of its own. If it names a file `"....pem"`,
//! certificates are there (`support/certificates.rs`).

#[path = "support/certificates.rs"]
mod certificates;

use perilune_test::{Folder, Limited, text};
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the project's root")
}

/// All pages: those in the root, and all below `docs` and `examples`.
fn pages() -> Vec<PathBuf> {
    fn below(folder: &Path, deep: bool, pages: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("a readable folder") {
            let path = entry.expect("a readable folder").path();
            if path.is_dir() && deep {
                below(&path, true, pages);
            } else if path.extension().is_some_and(|e| e == "md") {
                pages.push(path);
            }
        }
    }
    let mut pages = Vec::new();
    below(&root(), false, &mut pages);
    below(&root().join("docs"), true, &mut pages);
    below(&root().join("examples"), true, &mut pages);
    pages.sort();
    pages
}

/// A fenced block: the line it begins on, its info string, what is in it.
struct Block {
    line: usize,
    info: String,
    text: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (at, line) in page.lines().enumerate() {
        match (open.as_mut(), line.strip_prefix("```")) {
            (None, Some(info)) => {
                open = Some(Block { line: at + 1, info: info.trim().to_owned(), text: String::new() });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => block.text.extend([line, "\n"]),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is not closed");
    blocks
}

/// Runs a program; whether it succeeded, and what it printed.
fn run(source: &str) -> (Option<i32>, String, String) {
    let folder = Folder::with([("guide.lua", source)]);
    if source.contains(".pem\"") {
        certificates::write_all(folder.path());
    }
    let output =
        Limited::run(Command::new(env!("CARGO_BIN_EXE_perilune")).arg("guide.lua").current_dir(&folder));
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// What is wrong with a block, if anything is. `next` is the block behind it.
fn judge(block: &Block, next: Option<&Block>) -> Result<(), String> {
    let how = block.info.strip_prefix("lua").expect("a block of Lua").trim_start_matches(',').trim();
    if let Some(reason) = how.strip_prefix("not run:") {
        return if reason.trim().len() < 8 { Err("a reason is missing".to_owned()) } else { Ok(()) };
    }
    if let Some(file) = how.strip_prefix("from ") {
        let whole = std::fs::read_to_string(root().join(file)).map_err(|e| format!("{file}: {e}"))?;
        let is_run = file.starts_with("examples/");
        let part = whole.contains(&block.text);
        return if is_run && part {
            Ok(())
        } else {
            Err(format!("the block is no part of {file} as it is now"))
        };
    }
    let (code, out, errors) = run(&block.text);
    if how == "fails" {
        let message = next.map(|b| b.text.as_str()).unwrap_or_default();
        let lacking = message.lines().find(|l| !errors.lines().any(|e| e.trim() == l.trim()));
        return match lacking {
            Some(line) => Err(format!("no line is: {line}\n{errors}")),
            None if code != Some(1) || message.is_empty() => Err(format!("exit code {code:?}\n{errors}")),
            None => Ok(()),
        };
    }
    if !how.is_empty() {
        return Err(format!("what is '{}'?", block.info));
    }
    let want: Vec<&str> = block.text.lines().filter_map(|l| l.split_once("--> ").map(|(_, w)| w)).collect();
    let got: Vec<&str> = out.lines().collect();
    if got != want || code != Some(0) {
        return Err(format!("want {want:#?}\n got {got:#?}\n{errors}"));
    }
    Ok(())
}

#[test]
fn programs_in_the_documentation_print_what_they_say() {
    let mut failures = Vec::new();
    let mut programs = 0;
    for page in pages() {
        let name = page.strip_prefix(root()).expect("a page of the project").display().to_string();
        let blocks = blocks(&std::fs::read_to_string(&page).expect("a readable page"));
        for (at, block) in blocks.iter().enumerate() {
            if block.info != "lua" && !block.info.starts_with("lua,") {
                assert!(!block.info.starts_with("lua"), "{name}:{}: what is '{}'?", block.line, block.info);
                continue;
            }
            programs += 1;
            if let Err(why) = judge(block, blocks.get(at + 1)) {
                failures.push(format!("{name}:{}: {why}", block.line));
            }
        }
    }
    assert!(programs >= 35, "only {programs} programs found");
    assert!(failures.is_empty(), "{} of {programs} failed\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn what_is_wrong_with_a_block_is_found() {
    let judge = |page: &str| {
        let blocks = blocks(page);
        judge(&blocks[0], blocks.get(1))
    };
    let block = |info: &str, text: &str| format!("```{info}\n{text}\n```\n");
    assert!(judge(&block("lua", "print(1) --> 1")).is_ok());
    assert!(judge(&block("lua", "print(1) --> 2")).is_err());
    assert!(judge(&block("lua", "print(1) --> 1\nos.exit(3)")).is_err());
    assert!(judge(&block("lua, not run:", "x")).is_err());
    assert!(judge(&block("lua, not run: it needs a server", "x")).is_ok());
    let fails = block("lua, fails", "error('so', 0)");
    assert!(judge(&(fails.clone() + &block("text", "perilune: so"))).is_ok());
    assert!(judge(&(fails.clone() + &block("text", "perilune: other"))).is_err());
    assert!(judge(&fails).is_err());
    assert!(judge(&(block("lua, fails", "") + &block("text", ""))).is_err());
    assert!(judge(&block("lua, from examples/fib/main.lua", "no such line")).is_err());
    assert!(judge(&block("lua, sometimes", "")).is_err());
}

/// The files and folders that links in pages name are there.
#[test]
fn links_between_pages_lead_somewhere() {
    let mut dead = Vec::new();
    for page in pages() {
        let text = std::fs::read_to_string(&page).expect("a readable page");
        let mut in_block = false;
        for (at, line) in text.lines().enumerate() {
            in_block ^= line.starts_with("```");
            // What stands between backticks is code.
            let line: String = line.split('`').step_by(2).collect();
            for link in line.split("](").skip(1).filter(|_| !in_block) {
                let target = link.split([')', '#', ' ']).next().unwrap_or("");
                if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
                    continue;
                }
                if !page.with_file_name("").join(target).exists() {
                    dead.push(format!("{}:{}: {target}", page.display(), at + 1));
                }
            }
        }
    }
    assert!(dead.is_empty(), "links that lead nowhere:\n{}", dead.join("\n"));
}
