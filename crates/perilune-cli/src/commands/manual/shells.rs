//! What makes shells complete words of the command.
//!
//! Each script is written out of the table as data and a little code that finds the command among the words
//! before the cursor. Scripts of Lua are offered where a program may stand, all files where an option takes
//! one.

use super::{COMMANDS, Command, Kind, LUA, Opt, Takes, top};
use std::fmt::Write as _;

/// The shells for which there are completions.
pub const SHELLS: &[&str] = &["bash", "zsh", "fish"];

/// The script for one of [`SHELLS`].
pub fn completions(shell: &str) -> Option<String> {
    match shell {
        "bash" => Some(bash()),
        "zsh" => Some(zsh()),
        "fish" => Some(fish()),
        _ => None,
    }
}

/// Words that an argument of the command may be, other than options: its parts, or what its forms enumerate.
fn words_after(c: &Command) -> Vec<&'static str> {
    match c.words {
        "completions" => SHELLS.to_vec(),
        "help" => top().map(|c| c.words).collect(),
        _ => c.parts().map(Command::name).collect(),
    }
}

/// Whether a file may follow.
fn takes_files(c: &Command) -> bool {
    !matches!(c.kind, Kind::Group) && !matches!(c.words, "help" | "man" | "completions")
}

/// Every command, and before it the words of `lua` itself, under the empty name.
fn all() -> impl Iterator<Item = (&'static str, Vec<&'static Opt>, Vec<&'static str>, bool)> {
    let lua = ("", LUA.iter().collect(), top().map(|c| c.words).collect(), true);
    std::iter::once(lua).chain(COMMANDS.iter().map(|c| {
        let options = c.all_options().collect();
        (c.words, options, words_after(c), takes_files(c))
    }))
}

fn option_words(options: &[&Opt], help: bool) -> String {
    let mut names: Vec<&str> = options.iter().flat_map(|o| o.names.iter().copied()).collect();
    names.retain(|n| !matches!(*n, "-" | "--"));
    if help {
        names.push("--help");
    }
    names.join(" ")
}

fn bash() -> String {
    let groups: Vec<_> = COMMANDS.iter().filter(|c| matches!(c.kind, Kind::Group)).map(|c| c.words).collect();
    let firsts: Vec<_> = top().map(|c| c.words).collect();
    let mut s = format!(
        "# bash completion for perilune; written by 'perilune completions bash'\n\
         _perilune() {{\n    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} \
         command=''\n    \
         COMPREPLY=()\n    \
         if (( COMP_CWORD > 1 )); then\n        case ${{COMP_WORDS[1]}} in\n            {})\n                \
         command=${{COMP_WORDS[1]}} ;;\n        esac\n    fi\n    \
         if (( COMP_CWORD > 2 )); then\n        case $command in\n            {})\n                \
         command=\"$command ${{COMP_WORDS[2]}}\" ;;\n        esac\n    fi\n    case $command in\n",
        firsts.join("|"),
        groups.join("|"),
    );
    for (name, options, words, files) in all() {
        let _ = writeln!(s, "        '{name}')");
        let with_value: Vec<_> = options.iter().filter(|o| o.takes != Takes::Nothing).collect();
        if !with_value.is_empty() {
            s.push_str("            case $prev in\n");
            for o in with_value {
                let value = match o.takes {
                    Takes::File(_) => "COMPREPLY=($(compgen -f -- \"$cur\"))".to_owned(),
                    Takes::One(_, words) => {
                        format!("COMPREPLY=($(compgen -W '{}' -- \"$cur\"))", words.join(" "))
                    }
                    _ => ":".to_owned(),
                };
                let _ = writeln!(s, "                {}) {value}; return ;;", o.names.join("|"));
            }
            s.push_str("            esac\n");
        }
        let offered = option_words(&options, !name.is_empty());
        let _ = writeln!(
            s,
            "            if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W '{offered}' -- \"$cur\")); \
             return; fi"
        );
        let words = words.join(" ");
        // Commands stand first only.
        if name.is_empty() {
            let _ = writeln!(
                s,
                "            if (( COMP_CWORD == 1 )); then COMPREPLY=($(compgen -W '{words}' -- \"$cur\")); \
                 fi"
            );
        } else if !words.is_empty() {
            let _ = writeln!(s, "            COMPREPLY=($(compgen -W '{words}' -- \"$cur\"))");
        }
        if files {
            s.push_str(
                "            COMPREPLY+=($(compgen -f -X '!*.lua' -- \"$cur\") $(compgen -d -- \"$cur\"))\n",
            );
            // A script has arguments, and those may be any files.
            s.push_str(
                "            if (( ${#COMPREPLY[@]} == 0 )); then COMPREPLY=($(compgen -f -- \"$cur\")); \
                 fi\n",
            );
        }
        s.push_str("            ;;\n");
    }
    s.push_str("    esac\n}\ncomplete -o filenames -F _perilune perilune\n");
    s
}

/// Text between single quotes of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The first line of what an option does, for one line of a list.
fn brief(about: &str) -> &str {
    about.lines().next().unwrap_or("").trim_end_matches(':')
}

fn zsh() -> String {
    let escaped =
        |text: &str| text.replace('\\', "\\\\").replace('[', "\\[").replace(']', "\\]").replace(':', "\\:");
    let mut s = "#compdef perilune\n# zsh completion for perilune; written by 'perilune completions zsh'\n\
        _perilune() {\n    local command=''\n    local -a commands\n"
        .to_owned();
    let firsts: Vec<_> = top().map(|c| c.words).collect();
    let groups: Vec<_> = COMMANDS.iter().filter(|c| matches!(c.kind, Kind::Group)).map(|c| c.words).collect();
    let _ = writeln!(
        s,
        "    if (( CURRENT > 2 )); then\n        case ${{words[2]}} in\n            {}) \
         command=${{words[2]}} ;;\n        \
         esac\n    fi\n    if (( CURRENT > 3 )); then\n        case $command in\n            {}) \
         command=\"$command \
         ${{words[3]}}\" ;;\n        esac\n    fi\n    case $command in",
        firsts.join("|"),
        groups.join("|")
    );
    for (name, options, words, files) in all() {
        let _ = writeln!(s, "        '{name}')");
        if !words.is_empty() {
            let position = 2 + name.split(' ').filter(|w| !w.is_empty()).count();
            let _ =
                writeln!(s, "            if (( CURRENT == {position} )); then\n                commands=(");
            for word in &words {
                let full = if name.is_empty() || name == "help" {
                    (*word).to_owned()
                } else {
                    format!("{name} {word}")
                };
                let about = COMMANDS.iter().find(|c| c.words == full).map_or("", |c| c.about);
                let _ = writeln!(s, "                    {}", quoted(&format!("{word}:{}", escaped(about))));
            }
            s.push_str("                )\n                _describe command commands\n            fi\n");
        }
        // What stands before the command's arguments is not theirs.
        let depth = name.split(' ').filter(|w| !w.is_empty()).count();
        if depth > 0 {
            let _ = writeln!(
                s,
                "            words=(perilune \"${{(@)words[{},-1]}}\"); (( CURRENT -= {depth} ))",
                depth + 2
            );
        }
        s.push_str("            _arguments -S");
        for option in &options {
            let argument = match option.takes {
                Takes::Nothing => String::new(),
                Takes::File(name) => format!(":{name}:_files"),
                Takes::One(name, words) => format!(":{name}:({})", words.join(" ")),
                takes => format!(":{}: ", takes.name().unwrap_or("")),
            };
            for name in option.names.iter().filter(|n| !matches!(**n, "-" | "--")) {
                let text = format!("*{name}[{}]{argument}", escaped(brief(option.about)));
                let _ = write!(s, " \\\n                {}", quoted(&text));
            }
        }
        if !name.is_empty() {
            let _ = write!(s, " \\\n                {}", quoted("--help[print help]"));
        }
        if files {
            let _ = write!(s, " \\\n                {}", quoted("*:file:_files"));
        }
        s.push_str("\n            ;;\n");
    }
    s.push_str(
        "    esac\n}\n\
        # Loaded as a function of fpath it is the body; sourced, it makes itself known.\n\
        if [[ $funcstack[1] == _perilune ]]; then _perilune \"$@\"; else compdef _perilune perilune; fi\n",
    );
    s
}

fn fish() -> String {
    let mut s = "# fish completion for perilune; written by 'perilune completions fish'\n\
        function __perilune_command\n    set -l words (commandline -opc)\n    set -l command $words[2]\n    \
        set -l groups"
        .to_owned();
    let firsts: Vec<_> = top().map(|c| c.words).collect();
    for group in COMMANDS.iter().filter(|c| matches!(c.kind, Kind::Group)) {
        let _ = write!(s, " {}", group.words);
    }
    let _ = write!(
        s,
        "\n    if not contains -- \"$command\" {}\n        set command ''\n    end\n    \
         if contains -- \"$command\" $groups; and test (count $words) -gt 2\n        \
         set command \"$command $words[3]\"\n    end\n    test \"$command\" = \"$argv\"\nend\n",
        firsts.join(" ")
    );
    for (name, options, words, files) in all() {
        let here = quoted(&format!("__perilune_command {}", if name.is_empty() { "''" } else { name }));
        if !files {
            let _ = writeln!(s, "complete -c perilune -n {here} -f");
        }
        let condition = if name.is_empty() {
            quoted("__perilune_command ''; and test (count (commandline -opc)) -eq 1")
        } else {
            here.clone()
        };
        for word in words {
            let full =
                if name.is_empty() || name == "help" { word.to_owned() } else { format!("{name} {word}") };
            let about = COMMANDS.iter().find(|c| c.words == full).map_or("", |c| c.about);
            let _ = writeln!(s, "complete -c perilune -n {condition} -a {word} -d {}", quoted_fish(about));
        }
        for option in options.iter().filter(|o| !matches!(o.names[0], "-" | "--")) {
            let _ = write!(s, "complete -c perilune -n {here}");
            for spelled in option.names {
                let _ = match spelled.strip_prefix("--") {
                    Some(long) => write!(s, " -l {long}"),
                    None => write!(s, " -s {}", &spelled[1..]),
                };
            }
            let _ = match option.takes {
                Takes::Nothing => Ok(()),
                Takes::File(_) => write!(s, " -r -F"),
                Takes::One(_, words) => write!(s, " -x -a {}", quoted_fish(&words.join(" "))),
                _ => write!(s, " -x"),
            };
            let _ = writeln!(s, " -d {}", quoted_fish(brief(option.about)));
        }
        if !name.is_empty() {
            let _ = writeln!(s, "complete -c perilune -n {here} -s h -l help -d 'print help'");
        }
    }
    s
}

/// Text between single quotes of fish, which knows backslashes there.
fn quoted_fish(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}
