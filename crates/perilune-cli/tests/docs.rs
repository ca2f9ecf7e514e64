//! The programs in the documentation: each block marked `lua` in the guides to parallel Lua and to seeing what programs do, and in their pages, is
//! run as it stands, and must print what the comments `--> ...` in it say, line by line.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn pages() -> Vec<PathBuf> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut pages = vec![docs.join("parallel.md"), docs.join("tracing.md")];
    for folder in ["parallel", "tracing"] {
        for entry in std::fs::read_dir(docs.join(folder)).expect("pages") {
            pages.push(entry.expect("readable folder").path());
        }
    }
    pages.sort();
    pages
}

#[test]
fn programs_in_the_documentation_print_what_they_say() {
    let mut failures = Vec::new();
    let mut programs = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).expect("a readable page");
        for (n, block) in text.split("```lua\n").skip(1).enumerate() {
            let source = block.split("```").next().unwrap_or("");
            programs += 1;
            let want: Vec<&str> =
                source.lines().filter_map(|l| l.split_once("--> ").map(|(_, w)| w)).collect();
            let dir = std::env::temp_dir().join(format!("perilune-docs-{}-{programs}", std::process::id()));
            std::fs::create_dir_all(&dir).expect("temporary directory");
            std::fs::write(dir.join("guide.lua"), source).expect("a writable file");
            let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
                .arg("guide.lua")
                .current_dir(&dir)
                .stdin(Stdio::null())
                .output()
                .expect("the command starts");
            std::fs::remove_dir_all(&dir).expect("temporary directory can be removed");
            let got = String::from_utf8_lossy(&output.stdout).into_owned();
            let got: Vec<&str> = got.lines().collect();
            if got != want || !output.status.success() {
                let errors = String::from_utf8_lossy(&output.stderr).into_owned();
                let page = page.file_name().expect("a file").to_string_lossy();
                failures
                    .push(format!("{page}, program {}:\n want {want:#?}\n got {got:#?}\n{errors}", n + 1));
            }
        }
    }
    assert!(programs >= 15, "only {programs} programs found");
    assert!(failures.is_empty(), "{} of {programs} failed\n{}", failures.len(), failures.join("\n"));
}
