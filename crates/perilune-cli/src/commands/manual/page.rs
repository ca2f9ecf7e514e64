//! The manual page, in the language of `man` (man(7)).

use super::{COMMANDS, Command, Kind, LUA, Opt};
use std::fmt::Write as _;

/// Text for roff: backslashes, hyphens that are to be copied, and lines that would be requests.
fn plain(text: &str) -> String {
    let mut out = String::new();
    for line in text.split('\n') {
        if !out.is_empty() {
            out.push('\n');
        }
        if line.starts_with(['.', '\'']) {
            out.push_str("\\&");
        }
        for c in line.chars() {
            match c {
                '\\' => out.push_str("\\e"),
                '-' => out.push_str("\\-"),
                '\'' => out.push_str("\\(aq"),
                '^' => out.push_str("\\(ha"),
                '~' => out.push_str("\\(ti"),
                c => out.push(c),
            }
        }
    }
    out
}

fn options(page: &mut String, list: impl Iterator<Item = &'static Opt>) {
    for option in list {
        let names: Vec<_> = option.names.iter().map(|n| format!("\\fB{}\\fR", plain(n))).collect();
        let argument = option.takes.name().map(|a| format!(" \\fI{}\\fR", plain(a))).unwrap_or_default();
        let _ = writeln!(page, ".TP\n{}{argument}", names.join(", "));
        // Lines after the first are a table of their own.
        let mut lines = option.about.lines();
        let _ = writeln!(page, "{}", plain(lines.next().unwrap_or("")));
        lines.for_each(|line| {
            let _ = writeln!(page, ".br\n{}", plain(line));
        });
    }
}

fn command(page: &mut String, c: &'static Command) {
    let _ = writeln!(page, ".SS perilune {}", plain(c.words));
    for (n, form) in c.forms.iter().enumerate() {
        let line = format!("\\fBperilune {}\\fR {}", plain(c.words), plain(form));
        let _ = writeln!(page, "{}{}", if n == 0 { "" } else { ".br\n" }, line.trim_end());
    }
    let about =
        c.about.chars().next().map(|f| f.to_uppercase().collect::<String>() + &c.about[f.len_utf8()..]);
    let _ = writeln!(page, ".PP\n{}.", plain(&about.unwrap_or_default()));
    if !c.text.is_empty() {
        let _ = writeln!(page, ".PP\n.nf\n{}\n.fi", plain(c.text.trim_end()));
    }
    options(page, c.options.iter());
    if !c.shared.is_empty() {
        let _ =
            writeln!(page, ".PP\nAlso takes the options of all commands that watch a program, see below.");
    }
}

/// The page, whole.
pub fn page() -> String {
    let mut page = format!(
        ".TH PERILUNE 1 \"\" \"perilune {}\" \"User Commands\"\n\
         .SH NAME\nperilune \\- run Lua programs on all cores\n\
         .SH SYNOPSIS\n\
         \\fBperilune\\fR [\\fIoptions\\fR] [\\fIscript\\fR [\\fIargs\\fR]]\n.br\n\
         \\fBperilune\\fR \\fICOMMAND\\fR ...\n\
         .SH DESCRIPTION\n\
         Runs Lua 5.4 programs. Called under a name that starts with \\fBlua\\fR it is exactly \
         \\fBlua\\fR(1) and has no\n\
         commands. Without a script it is interactive on a terminal; else the script is standard input.\n\
         A first word is a command only if no file of that name exists.\n\
         .SH OPTIONS\n",
        env!("CARGO_PKG_VERSION")
    );
    options(&mut page, LUA.iter());
    page += ".SH COMMANDS\n";
    for c in COMMANDS.iter().filter(|c| !matches!(c.kind, Kind::Group)) {
        command(&mut page, c);
    }
    page += ".SS Options of all commands that watch a program\n";
    if let Some(observes) = COMMANDS.iter().find(|c| !c.shared.is_empty()) {
        options(&mut page, observes.shared.iter());
    }
    page += ".SH EXIT STATUS\n";
    for (code, meaning) in EXIT_CODES {
        let _ = writeln!(page, ".TP\n\\fB{code}\\fR\n{}", plain(meaning));
    }
    page += ".SH ENVIRONMENT\n";
    for (name, meaning) in ENVIRONMENT {
        let _ = writeln!(page, ".TP\n\\fB{name}\\fR\n{}", plain(meaning));
    }
    page += ".SH SEE ALSO\n\\fBlua\\fR(1)\n";
    page
}

/// What the process may end with.
const EXIT_CODES: &[(&str, &str)] = &[
    ("0", "Success."),
    (
        "1",
        "A Lua program failed, an option of lua's makes no sense, or what a command was to do could not be \
         done.",
    ),
    ("2", "The words after a command make no sense."),
    ("N", "What the script gave to os.exit; commands that run a script pass its code on."),
    ("128+N", "For commands that run a script: signal N ended it."),
];

/// What is asked of the environment.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("LUA_INIT", "Run before anything else: a statement, or @FILE. LUA_INIT_5_4 comes first."),
    ("LUA_PATH, LUA_CPATH", "Where require looks, each also with the suffix _5_4, which comes first."),
    ("PERILUNE_MEMORY", "What a program may hold (512M); more is the error \"not enough memory\"."),
    (
        "PERILUNE_SPESH",
        "What makes machine code: \"auto\" (what is hot is compiled beside the program; so without it), \
         \"blocking\" (at once), \"off\".",
    ),
    ("PERILUNE_SPESH_LOG", "A file that is told what was compiled, and what was not and why."),
    (
        "PERILUNE_IO",
        "How the kernel tells that sockets and pipes are ready: \"epoll\", \"uring\" (io_uring, where the \
         system permits it), \"auto\" (epoll; so without it).",
    ),
    ("PERILUNE_CHECK", "\"races\": report accesses to shared data that nothing orders."),
    ("NO_COLOR", "If set and not empty, the interactive mode writes no colours."),
    ("XDG_STATE_HOME", "The interactive mode's history is in perilune/history below it (~/.local/state)."),
];
