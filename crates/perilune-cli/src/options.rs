//! The command line, read once from left to right before any Lua code runs (manual, section 7).
//!
//! Reading only finds out which options there are and where the script's name stands; `-e`, `-l` and `-W` are
//! carried out later, in order, by `run.rs`, from the same words. Bytes, not text: arguments need not be
//! UTF-8.
//!
//! A first word that is a subcommand (here, or in `commands/`) counts as one only under the command's own name
//! and if no file of that name exists, so that `perilune` can stand wherever `lua` stood.

use crate::commands::{self, Command};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

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

/// The name by which the command calls itself in messages: its first word, as `lua` does.
pub fn program_name(words: &[Vec<u8>]) -> &[u8] {
    words.first().filter(|w| !w.is_empty()).map_or(b"perilune", |w| w)
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
    /// A subcommand that is not about running one program as `lua` would.
    Command(&'static Command),
}

/// Reads the command line.
///
/// # Errors
/// The first word that is no option, or an option without its argument.
pub fn parse(words: &[Vec<u8>]) -> Result<Request, BadOption> {
    Ok(Request::Lua(match subcommand(words) {
        Some(Subcommand::Run) => {
            Options { flags: Flags::default(), script: Script::At(2), options_end: 1, words: words.to_vec() }
        }
        Some(Subcommand::Repl) => {
            let flags = Flags { interactive: true, version: true, ..Flags::default() };
            let script = if words.len() > 2 { Script::At(2) } else { Script::Absent };
            Options { flags, script, options_end: 1, words: words.to_vec() }
        }
        Some(Subcommand::Other(command)) => return Ok(Request::Command(command)),
        None => read_options(words)?,
    }))
}

enum Subcommand {
    Run,
    Repl,
    Other(&'static Command),
}

/// Called under a name of Lua's, the command is exactly `lua`.
fn is_lua(program: &[u8]) -> bool {
    let name = Path::new(std::ffi::OsStr::from_bytes(program)).file_name();
    name.is_none_or(|name| name.as_bytes().starts_with(b"lua"))
}

fn subcommand(words: &[Vec<u8>]) -> Option<Subcommand> {
    if is_lua(&words[0]) {
        return None;
    }
    let which = match words.get(1)?.as_slice() {
        b"run" if words.len() > 2 => Subcommand::Run,
        b"repl" => Subcommand::Repl,
        other => Subcommand::Other(commands::named(other)?),
    };
    // A folder of that name is no script.
    let file = Path::new(std::ffi::OsStr::from_bytes(&words[1]));
    (!file.exists() || file.is_dir()).then_some(which)
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
        text.extend_from_slice(b"'\nusage: ");
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
        let names: Vec<&str> = ["run", "repl"].into_iter().chain(crate::commands::names()).collect();
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
            Request::Command(command) => panic!("{line}: {}", command.name),
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
        assert!(matches!(bench, Ok(Request::Command(Command { name: "bench", .. }))));
        assert_eq!(read("lua bench x.lua").unwrap().script, Script::At(1));
        assert_eq!(read("perilune run bench").unwrap().script, Script::At(2));
    }
}
