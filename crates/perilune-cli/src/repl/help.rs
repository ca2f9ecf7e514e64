//! `?name`: what a function is, and what is written about it.
//!
//! What is known of `require "perilune"` is its LuaCATS file, which is part of the executable: the comment lines before each
//! `function`. A name is looked up as people write it: `pl.sleep`, `pl.domain.spawn`, `pool:async`; and `x:async` where `x`
//! is a pool. Of other functions there is what the value itself tells.

const LUACATS: &str = include_str!("../../../../docs/luacats/perilune.lua");

/// A function of the file.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    /// As `pl.sleep` or `pool:async`.
    pub name: String,
    /// What stands between its parentheses.
    pub parameters: String,
    /// The comment, without dashes.
    pub text: Vec<String>,
}

impl Entry {
    /// Lines for people.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("{}({})", self.name, self.parameters)];
        for line in &self.text {
            let Some(tag) = line.strip_prefix('@') else {
                lines.push(format!("  {line}"));
                continue;
            };
            let (tag, rest) = tag.split_once(' ').unwrap_or((tag, ""));
            match tag {
                "param" => lines.push(format!("    {rest}")),
                "return" => lines.push(format!("    -> {}", rest.replace(" # ", "  "))),
                "overload" => lines.push(format!("    or: {rest}")),
                _ => {}
            }
        }
        lines
    }

    /// The name behind the last dot or colon.
    fn last(&self) -> &str {
        self.name.rsplit(['.', ':']).next().unwrap_or(&self.name)
    }
}

/// All functions of the file.
pub fn entries() -> Vec<Entry> {
    let mut entries = Vec::new();
    let (mut text, mut libraries): (Vec<String>, Vec<(String, String)>) = (Vec::new(), Vec::new());
    let mut class = String::new();
    for line in LUACATS.lines() {
        if let Some(comment) = line.strip_prefix("---") {
            if let Some(name) = comment.strip_prefix("@class ") {
                class = name.split([' ', ':']).next().unwrap_or("").to_owned();
            } else if let Some(field) = comment.strip_prefix("@field ").filter(|_| class == "perilune") {
                // `domain perilune.domainlib`: where the functions of that class are found.
                let mut words = field.split(' ');
                if let (Some(name), Some(of)) = (words.next(), words.next()) {
                    libraries.push((of.trim_start_matches("perilune.").to_owned(), format!("pl.{name}")));
                }
            }
            text.push(comment.trim().to_owned());
            continue;
        }
        if let Some((name, rest)) = line.strip_prefix("function ").and_then(|l| l.split_once('(')) {
            let (parameters, _) = rest.split_once(')').unwrap_or((rest, ""));
            let split = name.find(['.', ':']).unwrap_or(0);
            let (of, method) = name.split_at(split);
            let of = match libraries.iter().find(|(library, _)| library == of) {
                Some((_, path)) => path.as_str(),
                None if of == "perilune" => "pl",
                None => of,
            };
            let entry = Entry {
                name: format!("{of}{method}"),
                parameters: parameters.to_owned(),
                text: std::mem::take(&mut text),
            };
            entries.push(entry);
        }
        text.clear();
    }
    entries
}

/// What somebody means by `name`, whose base (what stands before the last dot or colon) is called `base` by the value that
/// it is, if that is known.
pub fn find(name: &str, base: Option<&str>) -> Vec<Entry> {
    let name = name.replace("perilune.", "pl.");
    let last = name.rsplit(['.', ':']).next().unwrap_or("");
    let is_bare = last == name;
    let mut all = entries();
    all.retain(|e| e.last() == last);
    let exact = |e: &Entry| {
        e.name == name
            || base
                .is_some_and(|base| e.name == format!("{base}:{last}") || e.name == format!("{base}.{last}"))
    };
    if !is_bare {
        all.retain(exact);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_the_file() {
        let all = entries();
        assert!(all.len() > 60, "{}", all.len());
        let names = |name, base| find(name, base).into_iter().map(|e| e.name).collect::<Vec<_>>();
        assert_eq!(names("pl.sleep", None), ["pl.sleep"]);
        assert_eq!(names("pl.domain.spawn", None), ["pl.domain.spawn"]);
        assert_eq!(names("p:async", Some("pool")), ["pool:async"]);
        assert_eq!(names("async", None), ["pool:async", "lane:async"]);
        assert!(names("string.format", None).is_empty());
        let sleep = &find("pl.sleep", None)[0];
        assert_eq!(
            sleep.lines(),
            ["pl.sleep(seconds)", "  Waits; other fibers of the domain run meanwhile.", "    seconds number"]
        );
    }
}
