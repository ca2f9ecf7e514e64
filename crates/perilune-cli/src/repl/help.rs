//! `?name`: what a function is, and what is written about it.
//!
//! What is known of `require "perilune"` and the modules beside it are their LuaCATS files, which are part of the executable: the comment lines before each
//! `function`. A name is looked up as people write it: `pl.sleep`, `pl.domain.spawn`, `pool:async`; and `x:async` where `x`
//! is a pool. Of other functions there is what the value itself tells.

use perilune_luacats::Function;

/// The files of `docs/luacats`, one behind the other (`build.rs`).
const LUACATS: &str = include_str!(concat!(env!("OUT_DIR"), "/luacats.lua"));

/// What is known of a function, as lines for people.
pub fn lines(of: &Function) -> Vec<String> {
    let mut lines = vec![format!("{}({})", of.name, of.parameters)];
    for line in &of.comment {
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

/// All functions of the files. A test reads the same text, so that it is well-formed here.
fn entries() -> Vec<Function> {
    perilune_luacats::parse(LUACATS).map(|all| all.functions().cloned().collect()).unwrap_or_default()
}

/// What somebody means by `name`, whose base (what stands before the last dot or colon) is called `base` by the value that
/// it is, if that is known.
pub fn find(name: &str, base: Option<&str>) -> Vec<Function> {
    let name = name.replace("perilune.", "pl.");
    let last = name.rsplit(['.', ':']).next().unwrap_or("");
    let is_bare = last == name;
    let mut all = entries();
    all.retain(|e| e.last() == last);
    let exact = |e: &Function| {
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
    fn every_file_is_there_and_well_formed() {
        assert!(perilune_luacats::parse(LUACATS).is_ok());
        for name in ["pl.sleep", "json.decode", "net.connect"] {
            assert_eq!(find(name, None).len(), 1, "{name}");
        }
    }

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
            lines(sleep),
            ["pl.sleep(seconds)", "  Waits; other fibers of the domain run meanwhile.", "    seconds number"]
        );
    }
}
