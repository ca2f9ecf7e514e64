//! The one table of what can be written on the command line, and what is made from it.
//!
//! [`COMMANDS`] names every subcommand with its forms and options. It is not a description beside the code:
//! who reads a command line looks an option up here first ([`Command::option`]), so an option that is not in
//! the table does not exist, and dispatch goes by it too ([`find`]). From it are made
//!
//! | what | where |
//! |---|---|
//! | `--help`, `help COMMAND`, `COMMAND --help` | here |
//! | the manual page, `perilune man` | `page.rs` |
//! | completions for bash, zsh and fish, `perilune completions SHELL` | `shells.rs` |
//! | "did you mean", for commands, options and files | `perilune_domain::nearest` |
//!
//! A test runs every command with every option and `--help` behind it: one that the command does not take, or
//! takes with another number of words, fails there. The options of `lua` itself ([`LUA`]) are here for help,
//! manual and completions only; they are read by `options.rs`, which has to read them as `lua` does.
//!
//! Rejected: `clap`, which could derive all of this. It costs start-up time (decision 13), wants UTF-8 or its
//! own types, and its rules are not those of "what follows the script is the script's".

mod entries;

mod page;
mod shells;

pub use entries::{COMMANDS, LUA};
pub use page::page;
pub use perilune_domain::nearest::nearest;
pub use shells::{SHELLS, completions};

use std::path::Path;
use std::process::ExitCode;

/// What carries a command out: it gets all words of the command line.
pub type Run = fn(&[Vec<u8>]) -> ExitCode;

/// How the words of a command come to be carried out.
#[derive(Clone, Copy)]
pub enum Kind {
    /// `options.rs` reads the rest, as `lua` would.
    Lua,
    /// Further words follow: the commands whose words begin with this one's.
    Group,
    /// By this function.
    Own(Run),
}

/// A subcommand.
pub struct Command {
    /// The words that call it, a space between them.
    pub words: &'static str,
    /// What it does, as a line of a list.
    pub about: &'static str,
    /// What may follow its words.
    pub forms: &'static [&'static str],
    /// What there is to say before the options; ends in a newline unless empty.
    pub text: &'static str,
    /// Its options.
    pub options: &'static [Opt],
    /// Those that it shares with others.
    pub shared: &'static [Opt],
    /// What carries it out.
    pub kind: Kind,
}

/// What follows an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Nothing.
    Nothing,
    /// A number, called so.
    Number(&'static str),
    /// A time as in `250ms`, called so.
    Time(&'static str),
    /// The name of a file, called so.
    File(&'static str),
    /// One of these words, called so.
    One(&'static str, &'static [&'static str]),
    /// A text, called so.
    Text(&'static str),
}

impl Takes {
    /// What the argument is called.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Takes::Nothing => None,
            Takes::Number(name)
            | Takes::Time(name)
            | Takes::File(name)
            | Takes::One(name, _)
            | Takes::Text(name) => Some(name),
        }
    }
}

/// An option of a command.
pub struct Opt {
    /// As it is written, `-x` before `--long`.
    pub names: &'static [&'static str],
    /// What follows it.
    pub takes: Takes,
    /// What it does; lines after the first continue it.
    pub about: &'static str,
}

impl Command {
    /// The option that is written `name`.
    ///
    /// # Errors
    /// A message for people, with the nearest name if one is near.
    pub fn option(&self, name: &str) -> Result<&'static Opt, String> {
        if let Some(option) = self.all_options().find(|o| o.names.contains(&name)) {
            return Ok(option);
        }
        let names = self.all_options().flat_map(|o| o.names.iter().copied());
        Err(match nearest(name, names.chain(["--help"])).first() {
            Some(near) => format!("unknown option '{name}' (did you mean '{near}'?)"),
            None => format!("unknown option '{name}'"),
        })
    }

    /// Its options and those that it shares.
    pub fn all_options(&self) -> impl Iterator<Item = &'static Opt> + use<> {
        self.options.iter().chain(self.shared)
    }

    /// The commands below this one.
    pub fn parts(&self) -> impl Iterator<Item = &'static Command> {
        COMMANDS.iter().filter(|c| {
            c.words
                .strip_prefix(self.words)
                .and_then(|r| r.strip_prefix(' '))
                .is_some_and(|r| !r.contains(' '))
        })
    }

    /// The last of its words.
    pub fn name(&self) -> &'static str {
        self.words.rsplit(' ').next().unwrap_or(self.words)
    }

    /// What `--help` prints.
    pub fn help(&self) -> String {
        let mut text = String::new();
        for (n, form) in self.forms.iter().enumerate() {
            let head = if n == 0 { "usage:" } else { "      " };
            text += format!("{head} perilune {} {form}", self.words).trim_end();
            text.push('\n');
        }
        text += self.text;
        match self.kind {
            Kind::Group => {
                for part in self.parts() {
                    text += &format!("  {:8} {}\n", part.name(), part.about);
                }
            }
            _ => self.all_options().for_each(|o| o.describe(&mut text)),
        }
        text
    }

    /// Writes to standard error that the words make no sense, and the way to help. The exit code is 2.
    pub fn refuse(&self, message: &str) -> ExitCode {
        let words = self.words;
        crate::protected::write_error(
            format!("perilune {words}: {message}\n('perilune {words} --help' tells more)\n").as_bytes(),
        );
        ExitCode::from(2)
    }

    /// Carries it out, or prints its help if that is all that is asked for.
    pub fn run(&self, words: &[Vec<u8>]) -> ExitCode {
        let rest = words.get(1 + self.words.split(' ').count()..).unwrap_or(&[]);
        match self.kind {
            Kind::Own(run) => run(words),
            Kind::Group => match rest.first().map(|w| String::from_utf8_lossy(w)) {
                None => {
                    eprint!("{}", self.help());
                    ExitCode::from(2)
                }
                Some(word) if word == "--help" || word == "-h" => print(&self.help()),
                Some(word) => {
                    let near = nearest(&word, self.parts().map(Command::name));
                    self.refuse(&format!("there is no '{word}'{}", did_you_mean(&near)))
                }
            },
            // Only help comes here: `options.rs` keeps what is to be run.
            Kind::Lua => print(&self.help()),
        }
    }
}

impl Opt {
    /// `-o, --output FILE`.
    pub fn spelling(&self) -> String {
        let names = self.names.join(", ");
        match self.takes.name() {
            Some(argument) => format!("{names} {argument}"),
            None => names,
        }
    }

    /// Adds its lines to a help text.
    fn describe(&self, text: &mut String) {
        let spelling = self.spelling();
        let mut lines = self.about.lines();
        let first = lines.next().unwrap_or("");
        if spelling.len() > 19 {
            text.push_str(&format!("  {spelling}\n  {:19} {first}\n", ""));
        } else {
            text.push_str(&format!("  {spelling:19} {first}\n"));
        }
        for line in lines {
            text.push_str(&format!("  {:19} {line}\n", ""));
        }
    }
}

/// The words after a command, read by the table, for commands that have no reader of their own: options
/// anywhere, the rest in order. What follows `--` is no option.
pub struct Words {
    /// Options as the table spells them first, with their arguments.
    pub options: Vec<(&'static str, Option<std::ffi::OsString>)>,
    /// What is no option.
    pub rest: Vec<std::ffi::OsString>,
}

impl Command {
    /// Reads the words after the command's own; `None` if help is asked for.
    ///
    /// # Errors
    /// A message for people.
    pub fn read(&self, words: &[Vec<u8>]) -> Result<Option<Words>, String> {
        use std::os::unix::ffi::OsStringExt;
        let after = words.iter().skip(1 + self.words.split(' ').count());
        let mut parser = lexopt::Parser::from_args(after.map(|w| std::ffi::OsString::from_vec(w.clone())));
        let mut read = Words { options: Vec::new(), rest: Vec::new() };
        while let Some(word) = parser.next().map_err(|e| e.to_string())? {
            let name = match word {
                lexopt::Arg::Value(word) => {
                    read.rest.push(word);
                    continue;
                }
                lexopt::Arg::Long(name) => format!("--{name}"),
                lexopt::Arg::Short(name) => format!("-{name}"),
            };
            if matches!(name.as_str(), "--help" | "-h") {
                return Ok(None);
            }
            let option = self.option(&name)?;
            let argument = match option.takes {
                Takes::Nothing => None,
                _ => Some(parser.value().map_err(|e| e.to_string())?),
            };
            if let (Takes::One(_, choices), Some(word)) = (option.takes, &argument)
                && !choices.iter().any(|c| word == *c)
            {
                let word = word.to_string_lossy();
                return Err(format!("{name}: there is no '{word}' (there are: {})", choices.join(", ")));
            }
            read.options.push((option.names[option.names.len() - 1], argument));
        }
        Ok(Some(read))
    }
}

/// The command that `words` begin with: the longest that fits.
pub fn find(words: &[Vec<u8>]) -> Option<&'static Command> {
    let fits = |c: &&Command| {
        let mut words = words.iter();
        c.words.split(' ').all(|w| words.next().is_some_and(|word| word == w.as_bytes()))
    };
    COMMANDS.iter().filter(fits).max_by_key(|c| c.words.len())
}

/// The command of these words, which is in the table.
pub fn entry(words: &str) -> &'static Command {
    COMMANDS.iter().find(|c| c.words == words).unwrap_or_else(|| panic!("'{words}' is in the table"))
}

/// Commands that are called by one word.
pub fn top() -> impl Iterator<Item = &'static Command> {
    COMMANDS.iter().filter(|c| !c.words.contains(' '))
}

/// ` (did you mean 'a' or 'b'?)`, or nothing.
pub fn did_you_mean(near: &[String]) -> String {
    match near {
        [] => String::new(),
        near => {
            let near: Vec<_> = near.iter().map(|n| format!("'{n}'")).collect();
            format!(" (did you mean {}?)", near.join(" or "))
        }
    }
}

/// What a command says of a file that cannot be read.
pub fn cannot_open(path: &Path, e: &std::io::Error) -> String {
    let near = match e.kind() {
        std::io::ErrorKind::NotFound => crate::options::near_files(path),
        _ => Vec::new(),
    };
    let e = crate::protected::in_words(&e.to_string());
    format!("{}: {e}{}", path.display(), did_you_mean(&near))
}

/// What `perilune --help` prints.
pub fn help() -> String {
    let mut text = "usage: perilune [options] [script [args]]\n       perilune COMMAND ...\n\
        Runs Lua 5.4 programs, on all cores if they ask for it. Without a script: interactive on a \
        terminal,\n\
        else the script is standard input.\n"
        .to_owned();
    LUA.iter().for_each(|o| o.describe(&mut text));
    text += "Commands ('perilune help COMMAND' or 'perilune COMMAND --help' tells more):\n";
    for command in top() {
        text += &format!("  {:11} {}\n", command.words, command.about);
    }
    text += "Exit codes: 0 success, 1 a program or a command failed, 2 a command's words make no sense;\n\
        what a script gives to os.exit is passed on.\n";
    text
}

/// `perilune help [COMMAND]`.
pub fn help_command(words: &[Vec<u8>]) -> ExitCode {
    let rest = &words[2..];
    if rest.is_empty() {
        return print(&help());
    }
    if matches!(rest[0].as_slice(), b"--help" | b"-h") {
        return print(&entry("help").help());
    }
    match find(rest) {
        Some(command) if command.words.split(' ').count() == rest.len() => print(&command.help()),
        _ => {
            let word = rest.iter().map(|w| String::from_utf8_lossy(w)).collect::<Vec<_>>().join(" ");
            let near = nearest(&word, COMMANDS.iter().map(|c| c.words));
            entry("help").refuse(&format!("there is no command '{word}'{}", did_you_mean(&near)))
        }
    }
}

/// `perilune man`.
pub fn man_command(words: &[Vec<u8>]) -> ExitCode {
    let me = entry("man");
    match me.read(words) {
        Ok(None) => print(&me.help()),
        Ok(Some(read)) if read.rest.is_empty() => print(&page()),
        Ok(Some(_)) => me.refuse("it takes no arguments"),
        Err(e) => me.refuse(&e),
    }
}

/// `perilune completions SHELL`.
pub fn completions_command(words: &[Vec<u8>]) -> ExitCode {
    let me = entry("completions");
    let read = match me.read(words) {
        Ok(None) => return print(&me.help()),
        Ok(Some(read)) => read,
        Err(e) => return me.refuse(&e),
    };
    let shell = match &read.rest[..] {
        [shell] => shell.to_string_lossy(),
        _ => return me.refuse(&format!("name one shell of: {}", SHELLS.join(", "))),
    };
    match completions(&shell) {
        Some(script) => print(&script),
        None => me.refuse(&format!("'{shell}' is no shell that is known (there are: {})", SHELLS.join(", "))),
    }
}

/// Writes to standard output; the exit code says whether it could.
pub fn print(text: &str) -> ExitCode {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            crate::protected::write_error(format!("perilune: standard output: {e}\n").as_bytes());
            ExitCode::FAILURE
        }
    }
}

/// What `perilune --version` prints.
pub fn version() -> String {
    let machine_code = match perilune_spesh::available() {
        Ok(()) => "available".to_owned(),
        Err(why) => format!("not available: {why}"),
    };
    format!(
        "perilune {} (commit {}, {} build, {})\nLua 5.4\nmachine code: {machine_code}\n",
        env!("CARGO_PKG_VERSION"),
        env!("PERILUNE_COMMIT"),
        env!("PERILUNE_PROFILE"),
        env!("PERILUNE_TARGET"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_table_is_sound() {
        let mut seen = HashSet::new();
        for command in COMMANDS {
            assert!(seen.insert(command.words), "{} twice", command.words);
            assert!(!command.forms.is_empty(), "{}", command.words);
            assert!(command.text.is_empty() || command.text.ends_with('\n'), "{}", command.words);
            assert!(!command.about.ends_with('.'), "{}", command.words);
            let mut names = HashSet::new();
            for option in command.all_options() {
                for name in option.names {
                    assert!(names.insert(name), "{} {name} twice", command.words);
                    assert!(*name != "-h" && *name != "--help", "{}: help is everyone's", command.words);
                    let short = name.len() == 2 && name.starts_with('-');
                    assert!(short || name.starts_with("--"), "{} {name}", command.words);
                }
            }
            if let Some((group, _)) = command.words.rsplit_once(' ') {
                assert!(matches!(entry(group).kind, Kind::Group), "{}", command.words);
            }
        }
    }

    #[test]
    fn the_longest_command_that_fits() {
        let words = |line: &str| line.split(' ').map(|w| w.as_bytes().to_vec()).collect::<Vec<_>>();
        assert_eq!(find(&words("trace record -o x")).unwrap().words, "trace record");
        assert_eq!(find(&words("trace dance")).unwrap().words, "trace");
        assert!(find(&words("dance")).is_none());
    }

    #[test]
    fn unknown_options_name_the_nearest() {
        let bench = entry("bench");
        assert!(bench.option("--runs").is_ok());
        assert_eq!(bench.option("--run").err().unwrap(), "unknown option '--run' (did you mean '--runs'?)");
        assert_eq!(bench.option("--colour-of-money").err().unwrap(), "unknown option '--colour-of-money'");
    }
}
