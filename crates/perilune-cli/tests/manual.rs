//! What is made from the one table of commands and options: help, the manual page, completions, hints,
//! docs/command.md.
//!
//! The tests read the table through `--help`, so that they see what people see. Shells and `man` are used
//! where they are installed; what can be told without them is checked in any case.

use perilune_test::{Folder, Limited, text};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A folder that is removed at the end, with the command under its own name.
struct Place(Folder);

impl Place {
    fn new(files: &[&str]) -> Place {
        Place(Folder::with(files.iter().map(|file| (file, "print('ran', ...)"))))
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
        Limited::run(command.args(words).current_dir(&self.0))
    }

    fn prints(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{words:?}");
        text(&output.stdout)
    }

    /// Standard error and the exit code.
    fn fails(&self, words: &[&str]) -> (String, i32) {
        let output = self.run(words);
        assert_eq!(text(&output.stdout), "", "{words:?}");
        (text(&output.stderr), output.status.code().unwrap())
    }
}

fn installed(command: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(command).is_file())
}

/// The entries of a list in a help text: lines that begin with two spaces and a word.
fn listed(help: &str) -> Vec<String> {
    let lines = help.lines().filter_map(|l| l.strip_prefix("  ")).filter(|l| !l.starts_with([' ', '-']));
    lines.filter_map(|l| l.split(' ').next()).map(str::to_owned).collect()
}

/// All commands, each as its words.
fn commands(place: &Place) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for name in listed(&place.prints(&["--help"])) {
        let help = place.prints(&["help", &name]);
        all.push(vec![name.clone()]);
        if help.starts_with(&format!("usage: perilune {name} COMMAND ...")) {
            all.extend(listed(&help).into_iter().map(|part| vec![name.clone(), part]));
        }
    }
    all
}

/// The options of a help text: how each is spelt, and the name of its argument.
fn options(help: &str) -> Vec<(Vec<String>, Option<String>)> {
    let lines = help.lines().filter_map(|l| l.strip_prefix("  ")).filter(|l| l.starts_with('-'));
    lines
        .map(|line| {
            let spelling = line.split("  ").next().unwrap();
            let (mut names, mut argument) = (Vec::new(), None);
            for word in spelling.split([',', ' ']).filter(|w| !w.is_empty()) {
                if word.starts_with('-') {
                    names.push(word.to_owned());
                } else {
                    argument = Some(word.to_owned());
                }
            }
            (names, argument)
        })
        .collect()
}

#[test]
fn every_command_has_help_and_every_option_is_taken() {
    let place = Place::new(&[]);
    let (mut tried, all) = (0, commands(&place));
    assert!(all.len() >= 18 && all.contains(&vec!["trace".into(), "record".into()]), "{all:?}");
    for words in &all {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let help = place.prints(&[&words[..], &["--help"]].concat());
        assert!(help.starts_with(&format!("usage: perilune {}", words.join(" "))), "{help}");
        assert_eq!(place.prints(&[&words[..], &["-h"]].concat()), help);
        assert_eq!(place.prints(&[&["help"], &words[..]].concat()), help);
        for (names, argument) in options(&help) {
            for name in &names {
                let mut line = words.clone();
                line.push(name);
                line.extend(argument.as_deref().map(|argument| match argument {
                    "T" => "error",
                    "LIST" => "default",
                    "FORMAT" if words[0] == "test" => "tap",
                    "FORMAT" => "perfetto",
                    "MODE" => "auto",
                    "SHELL" => "bash",
                    _ => "1",
                }));
                line.push("--help");
                assert_eq!(place.prints(&line), help, "{line:?}");
                tried += 1;
            }
        }
    }
    assert!(tried > 100, "{tried}");
}

#[test]
fn version_says_commit_and_build() {
    let place = Place::new(&[]);
    let version = place.prints(&["--version"]);
    let first = version.lines().next().unwrap();
    assert!(first.starts_with(concat!("perilune ", env!("CARGO_PKG_VERSION"), " (commit ")), "{version}");
    assert!(first.contains(" build, x86_64-"), "{version}");
    assert_eq!(version.lines().nth(1), Some("Lua 5.4"));
    // Under the name of `lua` these are options that `lua` does not have.
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_perilune"), place.0.join("lua")).unwrap();
    for option in ["--version", "--help", "-h"] {
        let output = Command::new(place.0.join("lua")).arg(option).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains(&format!("unrecognized option '{option}'")));
        assert!(!text(&output.stderr).contains("Commands"), "{}", text(&output.stderr));
    }
}

#[test]
fn slips_get_the_nearest_names() {
    let place = Place::new(&["main.lua", "server.lua", "help"]);
    let cannot = |file: &str| format!("perilune: cannot open {file}: No such file or directory\n");
    for (words, says) in [
        (&["tarce", "show"][..], "perilune: did you mean 'perilune trace'?\n"),
        (&["mian.lua"], "perilune: did you mean 'main.lua'?\n"),
        (&["main"], "perilune: did you mean 'main.lua'?\n"),
        (&["run", "sevrer.lua"], "perilune: did you mean 'server.lua'?\n"),
        (&["nothing-like-it.lua"], ""),
    ] {
        let file = if words[0] == "run" { words[1] } else { words[0] };
        assert_eq!(place.fails(words), (cannot(file) + says, 1), "{words:?}");
    }
    let tells = |words: &str| format!("('perilune {words} --help' tells more)\n");
    let bench = "perilune bench: unknown option '--rusn' (did you mean '--runs'?)\n";
    assert_eq!(place.fails(&["bench", "--rusn", "3", "main.lua"]), (bench.to_owned() + &tells("bench"), 2));
    let trace = "perilune trace: there is no 'recrod' (did you mean 'record'?)\n";
    assert_eq!(place.fails(&["trace", "recrod"]), (trace.to_owned() + &tells("trace"), 2));
    let missing =
        |file: &str, near: &str| format!("{file}: No such file or directory (did you mean '{near}'?)\n");
    let (code, build) = (1, ["build", "-o", "app", "mian.lua"]);
    assert_eq!(place.fails(&build), ("perilune build: ".to_owned() + &missing("mian.lua", "main.lua"), code));
    let test = "perilune test: ".to_owned() + &missing("sevrer.lua", "server.lua");
    assert_eq!(place.fails(&["test", "sevrer.lua"]), (test, 2));
    let bench = place.fails(&["bench", "main"]);
    assert!(bench.0.contains(&missing("main", "main.lua")), "{bench:?}");
    assert_eq!(
        place.fails(&["run"]).0,
        cannot("run") + "perilune: 'perilune run' wants a script behind it\n"
    );
    let top = "perilune top: unknown option '--atach' (did you mean '--attach'?)\n";
    assert_eq!(place.fails(&["top", "--atach", "3"]), (top.to_owned() + &tells("top"), 2));
    // A file of that name is what is meant.
    assert_eq!(place.prints(&["help", "x"]), "ran\tx\n");
    std::fs::remove_file(place.0.join("help")).unwrap();
    let help = "perilune help: there is no command 'benhc' (did you mean 'bench'?)\n";
    assert_eq!(place.fails(&["help", "benhc"]), (help.to_owned() + &tells("help"), 2));
    assert_eq!(place.fails(&["completions", "csh"]).1, 2);
    // As `lua` nothing is added.
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_perilune"), place.0.join("lua")).unwrap();
    let output = Command::new("./lua").arg("mian.lua").current_dir(&place.0).output().unwrap();
    assert_eq!(text(&output.stderr), "./lua: cannot open mian.lua: No such file or directory\n");
}

#[test]
fn the_manual_page_says_all_and_is_well_formed() {
    let place = Place::new(&[]);
    let page = place.prints(&["man"]);
    assert!(page.starts_with(".TH PERILUNE 1 "));
    for words in commands(&place) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let help = place.prints(&[&["help"], &words[..]].concat());
        if help.contains(" COMMAND ... (") {
            continue;
        }
        assert!(
            page.contains(&format!("\n.SS perilune {}\n", words.join(" ").replace('-', "\\-"))),
            "{words:?}"
        );
        for (names, _) in options(&help) {
            let name = format!("\\fB{}\\fR", names[0].replace('-', "\\-"));
            assert!(page.contains(&name), "{words:?} {name}");
        }
    }
    if installed("man") && installed("groff") {
        let file = place.0.join("perilune.1");
        std::fs::write(&file, &page).unwrap();
        let mut man = Command::new("man");
        man.args(["--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"]).arg(&file).env("MANROFFSEQ", "");
        let output = man.env("LC_ALL", "C.UTF-8").stdin(Stdio::null()).output().unwrap();
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
        assert!(output.stdout.len() > 10_000);
    }
}

/// What the script of bash offers at the end of a line.
fn bash(place: &Place, script: &Path, line: &[&str]) -> BTreeSet<String> {
    let words: Vec<String> = line.iter().map(|w| format!("'{w}'")).collect();
    let program = format!(
        "source '{}'; complete -p perilune >/dev/null || exit 9; COMP_WORDS=({}); COMP_CWORD={}; _perilune; \
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        script.display(),
        words.join(" "),
        line.len() - 1
    );
    let output =
        Command::new("bash").args(["--norc", "-c", &program]).current_dir(&place.0).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{line:?}");
    text(&output.stdout).lines().filter(|l| !l.is_empty()).map(str::to_owned).collect()
}

fn set(words: &[&str]) -> BTreeSet<String> {
    words.iter().map(|w| (*w).to_owned()).collect()
}

#[test]
fn completions_of_bash() {
    let place = Place::new(&["main.lua", "notes.txt"]);
    let script = place.0.join("perilune.bash");
    let written = place.prints(&["completions", "bash"]);
    std::fs::write(&script, &written).unwrap();
    assert!(written.contains("complete -o filenames -F _perilune perilune"));
    if !installed("bash") {
        return;
    }
    let at = |line: &[&str]| bash(&place, &script, line);
    assert_eq!(at(&["perilune", "tra"]), set(&["trace"]));
    assert_eq!(at(&["perilune", "ma"]), set(&["man", "main.lua"]));
    assert_eq!(at(&["perilune", "trace", "re"]), set(&["record", "render"]));
    assert_eq!(at(&["perilune", "trace", "record", "--sn"]), set(&["--snapshot-when", "--snapshots"]));
    assert_eq!(at(&["perilune", "trace", "record", "-o", "no"]), set(&["notes.txt"]));
    assert_eq!(at(&["perilune", "trace", "export", "--to", ""]), set(&["perfetto", "chrome"]));
    assert_eq!(at(&["perilune", "bench", "m"]), set(&["main.lua"]));
    assert_eq!(at(&["perilune", "bench", "--runs", "m"]), set(&[]));
    assert_eq!(at(&["perilune", "completions", ""]), set(&["bash", "zsh", "fish"]));
    assert_eq!(at(&["perilune", "main.lua", "no"]), set(&["notes.txt"]));
    // Every command offers the options that its help names.
    for words in commands(&place) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let help = place.prints(&[&["help"], &words[..]].concat());
        let mut want: BTreeSet<String> = options(&help).into_iter().flat_map(|(names, _)| names).collect();
        want.insert("--help".to_owned());
        assert_eq!(at(&[&["perilune"], &words[..], &["-"]].concat()), want, "{words:?}");
    }
}

#[test]
fn completions_of_fish() {
    let place = Place::new(&["main.lua"]);
    let script = place.0.join("perilune.fish");
    let written = place.prints(&["completions", "fish"]);
    std::fs::write(&script, &written).unwrap();
    for words in commands(&place) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let here = format!("complete -c perilune -n '__perilune_command {}'", words.join(" "));
        assert!(written.contains(&here), "{here}");
    }
    if !installed("fish") {
        return;
    }
    let at = |line: &str| -> BTreeSet<String> {
        let program = format!("source '{}'; complete -C '{line}'", script.display());
        let mut fish = Command::new("fish");
        let fish =
            fish.args(["--no-config", "-c", &program]).current_dir(&place.0).env("HOME", place.0.path());
        let output = fish.output().unwrap();
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{line:?}");
        text(&output.stdout).lines().map(|l| l.split('\t').next().unwrap().to_owned()).collect()
    };
    assert_eq!(at("perilune tra"), set(&["trace"]));
    assert_eq!(at("perilune trace re"), set(&["record", "render"]));
    assert_eq!(at("perilune trace record --sn"), set(&["--snapshot-when", "--snapshots"]));
    assert_eq!(at("perilune trace export --to "), set(&["perfetto", "chrome"]));
    assert_eq!(at("perilune completions "), set(&["bash", "zsh", "fish"]));
    assert!(at("perilune bench --runs 3 ma").contains("main.lua"));
}

#[test]
fn completions_of_zsh() {
    let place = Place::new(&["main.lua"]);
    let script = place.0.join("_perilune");
    let written = place.prints(&["completions", "zsh"]);
    std::fs::write(&script, &written).unwrap();
    assert!(written.starts_with("#compdef perilune\n"));
    for words in commands(&place) {
        assert!(written.contains(&format!("        '{}')\n", words.join(" "))), "{words:?}");
    }
    if !installed("zsh") {
        return;
    }
    // The shell's own helpers print what they get.
    let at = |words: &[&str]| -> String {
        let program = format!(
            "compdef() {{ :; }}; _arguments() {{ print -l -- \"$@\" \"at $CURRENT of $#words\"; }}; \
             _describe() {{ print -l -- $commands; }}; source '{}'; words=({}); CURRENT={}; _perilune",
            script.display(),
            words.iter().map(|w| format!("'{w}'")).collect::<Vec<_>>().join(" "),
            words.len()
        );
        let output = Command::new("zsh").args(["-f", "-c", &program]).output().unwrap();
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{words:?}");
        text(&output.stdout)
    };
    assert!(at(&["perilune", "tr"]).contains("trace:a timeline of domains"));
    assert!(at(&["perilune", "trace", "re"]).contains("record:writes what happens"));
    let record = at(&["perilune", "trace", "record", "-o", ""]);
    assert!(record.contains("*--output[write to FILE instead of standard output]:FILE:_files"), "{record}");
    assert!(record.contains("at 3 of 3"), "{record}");
}

/// docs/command.md has the help of every command; PERILUNE_BLESS=1 writes it anew.
#[test]
fn the_documentation_has_every_command() {
    const BEGIN: &str = "<!-- From here on written by the test `manual`: PERILUNE_BLESS=1 cargo test -p \
        perilune-cli --test manual -->\n";
    let place = Place::new(&[]);
    let mut list = format!("\n```text\n{}```\n", place.prints(&["--help"]));
    for words in commands(&place) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let help = place.prints(&[&["help"], &words[..]].concat());
        list += &format!("\n### perilune {}\n\n```text\n{help}```\n", words.join(" "));
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/command.md");
    let page = std::fs::read_to_string(&file).unwrap();
    let (head, written) = page.split_once(BEGIN).expect("the page has a line where the list begins");
    if std::env::var_os("PERILUNE_BLESS").is_some() {
        std::fs::write(&file, format!("{head}{BEGIN}{list}")).unwrap();
    } else {
        assert_eq!(written, list, "PERILUNE_BLESS=1 writes it anew");
    }
}
