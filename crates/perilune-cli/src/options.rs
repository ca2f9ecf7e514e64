//! The command line, read once from left to right before any Lua code runs (manual, section 7).
//!
//! Reading only finds out which options there are and where the script's name stands; `-e`, `-l` and `-W` are
//! carried out later, in order, by `run.rs`, from the same words. Bytes, not text: arguments need not be
//! UTF-8.
//!
//! A first word that is a subcommand (here, or in `commands/`) counts as one only under the command's own
//! name and if no file of that name exists, so that `perilune` can stand wherever `lua` stood.

use crate::commands::manual::{self, Command, Kind};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// What the words before the script ask for.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Flags {
    /// `-i`
    pub interactive: bool,
    /// `-v`, which `-i` implies
    pub version: bool,
    /// `-e` occurs
    pub execute: bool,
    /// `-E`
    pub ignore_environment: bool,
}

/// Where the script's name stands among the words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// Word `n` is the script (`-` means standard input).
    At(usize),
    /// There is none.
    Absent,
}

/// A command line that makes sense.
#[derive(Debug)]
pub struct Options {
    /// All words, the command's name first; never empty.
    pub words: Vec<Vec<u8>>,
    /// What is asked for.
    pub flags: Flags,
    /// The script.
    pub script: Script,
    /// `-e`, `-l` and `-W` are looked for in words `1..options_end`.
    pub options_end: usize,
}

/// A command line that does not: the offending word.
#[derive(Debug, PartialEq, Eq)]
pub struct BadOption(pub Vec<u8>);

/// The name by which the command calls itself in messages: as `lua` it is its first word, as `lua` does; else
/// it is `perilune`, wherever the executable lies.
pub fn program_name(words: &[Vec<u8>]) -> &[u8] {
    words.first().filter(|w| !w.is_empty() && is_lua(w)).map_or(b"perilune", |w| w)
}

/// The command line's words, as bytes; never empty.
pub fn words(args: impl Iterator<Item = OsString>) -> Vec<Vec<u8>> {
    let mut words: Vec<Vec<u8>> = args.map(OsStringExt::into_vec).collect();
    if words.is_empty() {
        words.push(b"perilune".to_vec());
    }
    words
}

/// What a command line asks for.
pub enum Request {
    /// What `lua` does.
    Lua(Options),
    /// A subcommand that is not about running one program as `lua` would, or the help of one.
    Command(&'static Command),
    /// `--help`
    Help,
    /// `--version`
    Version,
}

/// Reads the command line.
///
/// # Errors
/// The first word that is no option, or an option without its argument.
pub fn parse(words: &[Vec<u8>]) -> Result<Request, BadOption> {
    if is_lua(&words[0]) {
        return Ok(Request::Lua(read_options(words)?));
    }
    match words.get(1).map(Vec::as_slice) {
        Some(b"--help" | b"-h") => return Ok(Request::Help),
        Some(b"--version") => return Ok(Request::Version),
        _ => {}
    }
    let Some(command) = subcommand(words) else { return Ok(Request::Lua(read_options(words)?)) };
    let asks_for_help = words.get(2).is_some_and(|word| matches!(word.as_slice(), b"--help" | b"-h"));
    if !matches!(command.kind, Kind::Lua) || asks_for_help {
        return Ok(Request::Command(command));
    }
    let interactive = command.words == "repl";
    Ok(Request::Lua(Options {
        flags: Flags { interactive, version: interactive, ..Flags::default() },
        script: if words.len() > 2 { Script::At(2) } else { Script::Absent },
        options_end: 1,
        words: words.to_vec(),
    }))
}

/// Called under a name of Lua's, the command is exactly `lua`.
pub fn is_lua(program: &[u8]) -> bool {
    let name = Path::new(std::ffi::OsStr::from_bytes(program)).file_name();
    name.is_none_or(|name| name.as_bytes().starts_with(b"lua"))
}

fn subcommand(words: &[Vec<u8>]) -> Option<&'static Command> {
    let command = manual::find(&words[1..])?;
    // A folder of that name is no script.
    let file = Path::new(std::ffi::OsStr::from_bytes(&words[1]));
    let is_free = !file.exists() || file.is_dir();
    // Without a script to run, `run` is the name of one.
    (is_free && (command.words != "run" || words.len() > 2)).then_some(command)
}

/// The folder of the script; the current one if there is none, or it is standard input.
pub fn folder(options: &Options) -> PathBuf {
    let script = match options.script {
        Script::At(n) if options.words[n] != b"-" => Path::new(OsStr::from_bytes(&options.words[n])),
        _ => Path::new(""),
    };
    match script.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// What somebody may have meant who named this script, which does not exist: a line for people, under the
/// command's own name only.
pub fn hint(options: &Options, n: usize) -> Option<String> {
    if is_lua(&options.words[0]) {
        return None;
    }
    let word = String::from_utf8_lossy(&options.words[n]);
    let path = Path::new(&*word);
    if path.exists() {
        return None;
    }
    if n == 1 && word == "run" {
        return Some("'perilune run' wants a script behind it".into());
    }
    let mut near = near_files(path);
    let is_sure = near.iter().any(|file| *file == format!("{word}.lua"));
    if n == 1 && !is_sure {
        let commands = manual::nearest(&word, manual::top().map(|c| c.words));
        near.extend(commands.into_iter().map(|c| format!("perilune {c}")));
    }
    near.truncate(3);
    let near: Vec<_> = near.iter().map(|n| format!("'{n}'")).collect();
    (!near.is_empty()).then(|| format!("did you mean {}?", near.join(" or ")))
}

/// The files that somebody may have meant who named this one, which does not exist.
pub fn near_files(path: &Path) -> Vec<String> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    let entries = std::fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten().flatten();
    let files: Vec<String> = entries.filter_map(|e| e.file_name().into_string().ok()).collect();
    let Some(name) = path.file_name() else { return Vec::new() };
    let name = name.to_string_lossy().into_owned();
    let in_folder = |file: String| match folder {
        Some(folder) => folder.join(file).display().to_string(),
        None => file,
    };
    // The ending alone is more than a slip.
    let with_ending = format!("{name}.lua");
    if files.contains(&with_ending) {
        return vec![in_folder(with_ending)];
    }
    manual::nearest(&name, files.iter().map(String::as_str)).into_iter().map(in_folder).collect()
}

fn read_options(words: &[Vec<u8>]) -> Result<Options, BadOption> {
    let mut flags = Flags::default();
    let mut script = Script::Absent;
    let mut options_end = words.len();
    let mut i = 1;
    while let Some(word) = words.get(i) {
        let bad = || Err(BadOption(word.clone()));
        let (letter, rest) = match word.as_slice() {
            [b'-', letter, rest @ ..] => (*letter, rest),
            _ => {
                script = Script::At(i);
                options_end = i;
                break;
            }
        };
        match (letter, rest) {
            (b'-', []) => {
                if i + 1 < words.len() {
                    script = Script::At(i + 1);
                }
                options_end = i;
                break;
            }
            (b'E', []) => flags.ignore_environment = true,
            (b'W', []) => {}
            (b'i', []) => (flags.interactive, flags.version) = (true, true),
            (b'v', []) => flags.version = true,
            (b'e' | b'l', _) => {
                flags.execute |= letter == b'e';
                if rest.is_empty() {
                    i += 1;
                    if words.get(i).is_none_or(|argument| argument.first() == Some(&b'-')) {
                        return bad();
                    }
                }
            }
            _ => return bad(),
        }
        i += 1;
    }
    Ok(Options { words: words.to_vec(), flags, script, options_end })
}

/// The long option that somebody may have meant, under the command's own name.
fn near_option(program: &[u8], bad: &[u8]) -> Option<String> {
    if is_lua(program) || !bad.starts_with(b"--") {
        return None;
    }
    manual::nearest(&String::from_utf8_lossy(bad), ["--help", "--version"].into_iter()).into_iter().next()
}

/// What is written to standard error after a bad option.
pub fn usage(program: &[u8], bad: &BadOption) -> Vec<u8> {
    let mut text = program.to_vec();
    if matches!(bad.0.get(1), Some(b'e' | b'l')) {
        text.extend_from_slice(b": '");
        text.extend_from_slice(&bad.0);
        text.extend_from_slice(b"' needs argument\nusage: ");
    } else {
        text.extend_from_slice(b": unrecognized option '");
        text.extend_from_slice(&bad.0);
        text.extend_from_slice(b"'\n");
        if let Some(near) = near_option(program, &bad.0) {
            text.extend_from_slice(program);
            text.extend_from_slice(format!(": did you mean '{near}'?\n").as_bytes());
        }
        text.extend_from_slice(b"usage: ");
    }
    text.extend_from_slice(program);
    text.extend_from_slice(
        b" [options] [script [args]]\n\
        Available options are:\n  \
        -e stat   execute string 'stat'\n  \
        -i        enter interactive mode after executing 'script'\n  \
        -l mod    require library 'mod' into global 'mod'\n  \
        -l g=mod  require library 'mod' into global 'g'\n  \
        -v        show version information\n  \
        -E        ignore environment variables\n  \
        -W        turn warnings on\n  \
        --        stop handling options\n  \
        -         stop handling options and execute stdin\n",
    );
    if !is_lua(program) {
        let names: Vec<&str> = manual::top().map(|c| c.words).collect();
        let list = format!("Commands ('perilune COMMAND --help' tells more):\n  {}\n", names.join(" "));
        text.extend_from_slice(list.as_bytes());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options, BadOption> {
        parse(&words(line.split(' ').map(OsString::from))).map(|request| match request {
            Request::Lua(options) => options,
            Request::Command(command) => panic!("{line}: {}", command.words),
            Request::Help | Request::Version => panic!("{line}"),
        })
    }

    #[test]
    fn where_the_script_stands() {
        let o = read("lua -W -e x=1 script -v").unwrap();
        assert_eq!((o.script, o.options_end), (Script::At(4), 4));
        assert!(o.flags.execute && !o.flags.version);
        assert_eq!(read("lua").unwrap().script, Script::Absent);
        assert_eq!(read("lua --").unwrap().script, Script::Absent);
        assert_eq!(read("lua -").unwrap().script, Script::At(1));
        assert_eq!(read("lua -i -- -x").unwrap().script, Script::At(3));
    }

    #[test]
    fn bad_options() {
        for (line, bad) in [
            ("lua -e", "-e"),
            ("lua -l -v", "-l"),
            ("lua -vv", "-vv"),
            ("lua -E1", "-E1"),
            ("lua --x", "--x"),
        ] {
            assert_eq!(read(line).unwrap_err().0, bad.as_bytes(), "{line}");
        }
    }

    #[test]
    fn subcommands_are_ours_only_under_our_name() {
        assert_eq!(read("perilune run x.lua 1").unwrap().script, Script::At(2));
        assert_eq!(read("lua run x.lua").unwrap().script, Script::At(1));
        assert_eq!(read("bin/lua5.4 repl").unwrap().script, Script::At(1));
        assert!(read("perilune repl").unwrap().flags.interactive);
        assert_eq!(read("perilune run").unwrap().script, Script::At(1));
        let bench = parse(&words(["bin/perilune", "bench", "-v"].map(OsString::from).into_iter()));
        assert!(matches!(bench, Ok(Request::Command(Command { words: "bench", .. }))));
        assert_eq!(read("lua bench x.lua").unwrap().script, Script::At(1));
        assert_eq!(read("perilune run bench").unwrap().script, Script::At(2));
    }
}
