//! Lua programs that the chores run, and the header line that says how.
//!
//! Each program under `benches/` has one comment line of the form
//! `-- bench: group=objects size=2000000 quick=50000 [large=...] [goal=35] [luajit=no]`. `size` is what the
//! program uses without an argument; `quick` keeps a run at some tens of milliseconds for CI; `large` is an
//! optional third size for the few figures that are quoted at two sizes; `goal` is what a micro benchmark
//! aims at, in nanoseconds per operation. `luajit=no` marks a program whose point needs Lua 5.4 (64-bit
//! integers, `utf8`). The line is data: a program that lacks it or misspells a key is an error, not a program
//! that silently drops out of the set.

use crate::chore::Error;
use std::path::{Path, PathBuf};

/// Which of a program's sizes to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Tens of milliseconds on PUC Lua.
    Quick,
    /// About 0.3 to 1 second on PUC Lua.
    Normal,
    /// The second quoted size, where there is one, else the normal one.
    Large,
}

/// What a header line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The group whose geometric mean it counts in.
    pub group: String,
    /// Size without an argument.
    pub size: u64,
    /// Size for CI.
    pub quick: u64,
    /// Second quoted size.
    pub large: Option<u64>,
    /// Nanoseconds per operation to reach (micro benchmarks).
    pub goal: Option<u64>,
    /// Whether it runs on LuaJIT (Lua 5.1 with extensions).
    pub luajit: bool,
}

impl Header {
    /// Reads the first `-- bench:` line of a program's text.
    pub fn parse(text: &str) -> Result<Header, String> {
        let line = text
            .lines()
            .find_map(|l| l.strip_prefix("-- bench:"))
            .ok_or("no line that starts with '-- bench:'")?;
        let (mut group, mut size, mut quick, mut large, mut goal) = (None, None, None, None, None);
        let mut luajit = true;
        for word in line.split_whitespace() {
            let (key, value) = word.split_once('=').ok_or_else(|| format!("'{word}' is not KEY=VALUE"))?;
            let number = || value.parse::<u64>().map_err(|_| format!("'{word}': not a whole number"));
            match key {
                "group" => group = Some(value.to_string()),
                "size" => size = Some(number()?),
                "quick" => quick = Some(number()?),
                "large" => large = Some(number()?),
                "goal" => goal = Some(number()?),
                "luajit" if value == "no" => luajit = false,
                _ => return Err(format!("unknown setting '{word}'")),
            }
        }
        Ok(Header {
            group: group.ok_or("no group=")?,
            size: size.ok_or("no size=")?,
            quick: quick.ok_or("no quick=")?,
            large,
            goal,
            luajit,
        })
    }

    /// The argument to pass for `scale`.
    pub fn argument(&self, scale: Scale) -> u64 {
        match scale {
            Scale::Quick => self.quick,
            Scale::Normal => self.size,
            Scale::Large => self.large.unwrap_or(self.size),
        }
    }
}

/// One program of a set.
#[derive(Debug, Clone)]
pub struct Program {
    /// `GROUP/NAME`, as `--only` matches it.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// Its header.
    pub header: Header,
}

/// All programs under `dir` whose name contains `only`, sorted by name.
pub fn find(dir: &Path, only: Option<&str>) -> Result<Vec<Program>, Error> {
    let mut files = Vec::new();
    collect(dir, &mut files)?;
    files.sort();
    let mut programs = Vec::new();
    for path in files {
        let name = path.strip_prefix(dir)?.with_extension("").to_string_lossy().into_owned();
        if only.is_some_and(|o| !name.contains(o)) {
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        let header = Header::parse(&text).map_err(|e| format!("{}: {e}", path.display()))?;
        programs.push(Program { name, path, header });
    }
    if programs.is_empty() {
        return Err(format!("no program under {} matches", dir.display()).into());
    }
    Ok(programs)
}

fn collect(dir: &Path, into: &mut Vec<PathBuf>) -> Result<(), Error> {
    for entry in std::fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, into)?;
        } else if path.extension().is_some_and(|e| e == "lua") {
            into.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_header_wherever_it_stands() {
        let h =
            Header::parse("-- A text.\n-- bench: group=trees size=16 quick=9 large=18 luajit=no\n").unwrap();
        assert_eq!(h.group, "trees");
        assert_eq!(
            [h.argument(Scale::Quick), h.argument(Scale::Normal), h.argument(Scale::Large)],
            [9, 16, 18]
        );
        assert!(!h.luajit);
    }

    #[test]
    fn large_falls_back_to_the_normal_size() {
        let h = Header::parse("-- bench: group=a size=5 quick=1").unwrap();
        assert_eq!(h.argument(Scale::Large), 5);
        assert!(h.luajit);
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        for bad in [
            "print(1)",
            "-- bench: group=a size=5",
            "-- bench: group=a size=x quick=1",
            "-- bench: fast",
            "-- bench: group=a size=1 quick=1 luajit=yes",
        ] {
            assert!(Header::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_program_of_the_project_has_a_header() {
        let root = crate::chore::root();
        assert!(find(&root.join("benches/programs"), None).unwrap().len() >= 44);
        assert!(find(&root.join("benches/micro"), None).unwrap().len() >= 10);
    }
}
