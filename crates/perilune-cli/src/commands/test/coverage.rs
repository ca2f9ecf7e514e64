//! Which lines the tests have executed.
//!
//! A worker tells for each file of Lua code its lines with their counts ([`tell`]). The parent adds up what
//! all workers tell. It keeps files below the current folder, by their path from there, and leaves out the
//! test files themselves: that they run says nothing.

use super::fields;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What a worker tells of one file.
#[derive(Debug)]
pub struct Told {
    /// As the chunk is named.
    file: PathBuf,
    /// Line and count.
    lines: Vec<(u32, u64)>,
}

/// What this process has executed, as lines for the parent.
pub fn tell() -> Vec<u8> {
    let mut text = Vec::new();
    for (file, lines) in perilune_vm::lines_executed() {
        let lines: Vec<String> = lines.iter().map(|(line, count)| format!("{line}:{count}")).collect();
        text.extend(fields::line([&b"covered"[..], &file, lines.join(",").as_bytes()]));
    }
    text
}

impl Told {
    /// Reads the fields of such a line.
    pub fn read(fields: &[Vec<u8>]) -> Option<Told> {
        let file = PathBuf::from(std::ffi::OsStr::from_bytes(fields.get(1)?));
        let lines = std::str::from_utf8(fields.get(2)?).ok()?;
        let pair = |pair: &str| {
            let (line, count) = pair.split_once(':')?;
            Some((line.parse().ok()?, count.parse().ok()?))
        };
        Some(Told { file, lines: lines.split(',').filter_map(pair).collect() })
    }
}

/// The counts of all workers.
#[derive(Debug, Default)]
pub struct Coverage {
    /// The current folder.
    here: PathBuf,
    /// The test files, as the system calls them.
    tests: BTreeSet<PathBuf>,
    files: BTreeMap<PathBuf, BTreeMap<u32, u64>>,
}

impl Coverage {
    /// No counts yet, of the tests in `tests`.
    pub fn of(tests: &[PathBuf]) -> Coverage {
        Coverage {
            here: Path::new(".").canonicalize().unwrap_or_default(),
            tests: tests.iter().filter_map(|t| t.canonicalize().ok()).collect(),
            files: BTreeMap::new(),
        }
    }

    /// Adds what a worker has told.
    pub fn add(&mut self, told: &[Told]) {
        for one in told {
            // What is no file (any more) has no lines to show.
            let Ok(path) = one.file.canonicalize() else { continue };
            let Ok(below) = path.strip_prefix(&self.here) else { continue };
            if self.tests.contains(&path) {
                continue;
            }
            let lines = self.files.entry(below.to_path_buf()).or_default();
            for &(line, count) in &one.lines {
                *lines.entry(line).or_insert(0) += count;
            }
        }
    }

    /// In the format of `lcov`, which other tools read.
    pub fn lcov(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for (file, lines) in &self.files {
            text.extend_from_slice(b"TN:\nSF:");
            text.extend_from_slice(file.as_os_str().as_bytes());
            text.push(b'\n');
            for (line, count) in lines {
                text.extend_from_slice(format!("DA:{line},{count}\n").as_bytes());
            }
            let (hit, all) = tally(lines);
            text.extend_from_slice(format!("LF:{all}\nLH:{hit}\nend_of_record\n").as_bytes());
        }
        text
    }

    /// A table for people: of each file how many lines were executed, and which were not.
    pub fn table(&self) -> String {
        let width =
            self.files.keys().map(|f| f.display().to_string().chars().count()).max().unwrap_or(0).max(5);
        let mut text = format!("\nlines executed\n{:width$}  lines       %  not executed\n", "file");
        let (mut hit, mut all) = (0, 0);
        for (file, lines) in &self.files {
            let (h, a) = tally(lines);
            (hit, all) = (hit + h, all + a);
            row(&mut text, &file.display().to_string(), width, (h, a), &gaps(lines));
        }
        row(&mut text, "all", width, (hit, all), "");
        text
    }
}

fn row(text: &mut String, name: &str, width: usize, (hit, all): (usize, usize), gaps: &str) {
    let share = 100.0 * hit as f64 / all.max(1) as f64;
    let line = format!("{name:width$}  {all:5}  {share:5.1}%  {gaps}");
    writeln!(text, "{}", line.trim_end()).expect("a String");
}

/// How many lines have been executed, of how many.
fn tally(lines: &BTreeMap<u32, u64>) -> (usize, usize) {
    (lines.values().filter(|count| **count > 0).count(), lines.len())
}

/// The lines that have not been executed: `3, 7-9`. Lines without code between two of them are part of the
/// row.
fn gaps(lines: &BTreeMap<u32, u64>) -> String {
    let mut gaps: Vec<(u32, u32)> = Vec::new();
    let mut goes_on = false;
    for (&line, &count) in lines {
        match gaps.last_mut() {
            Some((_, to)) if goes_on && count == 0 => *to = line,
            _ if count == 0 => gaps.push((line, line)),
            _ => {}
        }
        goes_on = count == 0;
    }
    let name = |(from, to): &(u32, u32)| if from == to { from.to_string() } else { format!("{from}-{to}") };
    gaps.iter().map(name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_rows_of_lines() {
        let lines = BTreeMap::from([(1, 0), (2, 5), (3, 0), (5, 0), (6, 1), (9, 0)]);
        assert_eq!(gaps(&lines), "1, 3-5, 9");
        assert_eq!(tally(&lines), (2, 6));
        assert_eq!(gaps(&BTreeMap::new()), "");
    }

    #[test]
    fn what_is_told_is_read() {
        let told =
            Told::read(&[b"covered".to_vec(), b"./src/a.lua".to_vec(), b"1:2,3:0".to_vec()]).expect("a line");
        assert_eq!((told.file.to_str(), told.lines), (Some("./src/a.lua"), vec![(1, 2), (3, 0)]));
        assert!(Told::read(&[b"covered".to_vec()]).is_none());
        let damaged = Told::read(&[b"covered".to_vec(), b"a".to_vec(), b"1:x,,:3".to_vec()]).expect("a line");
        assert!(damaged.lines.is_empty());
    }
}
