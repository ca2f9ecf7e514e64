//! Which files are tests, and what a `.busted` file says.

use crate::commands::manual;
use perilune_heap::HeapOptions;
use perilune_vm::{LuaResult, Value, Vm};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What `.busted` in the current folder says: the fields of its `_all` and of its `default`.
#[derive(Default, Debug)]
pub struct Config {
    /// Where tests are, `ROOT`.
    pub roots: Vec<PathBuf>,
    /// A Lua pattern that names of files must match, as plain text where it has no special characters.
    pub pattern: Option<String>,
    /// The same of names that must not match, `exclude-pattern`.
    pub exclude: Option<String>,
    /// For workers.
    pub settings: Vec<(String, Vec<u8>)>,
}

/// Folders in which tests are looked for if nothing is named.
const USUAL: [&str; 3] = ["spec", "test", "tests"];

/// Reads `.busted`, if there is one.
///
/// # Errors
/// It does not run, or gives no table.
pub fn config() -> Result<Config, String> {
    let Ok(text) = std::fs::read(".busted") else { return Ok(Config::default()) };
    let mut vm = Vm::try_with_options(HeapOptions::default()).map_err(|_| "not enough memory".to_owned())?;
    let read = read_config(&mut vm, &text);
    let config = match read {
        Ok(config) => config,
        Err(thrown) => {
            let error = vm.host_error(thrown);
            let message = Vm::plain_text(error).unwrap_or_default();
            Err(format!(".busted: {}", String::from_utf8_lossy(&message)))
        }
    };
    vm.close();
    config
}

fn read_config(vm: &mut Vm, text: &[u8]) -> LuaResult<Result<Config, String>> {
    perilune_stdlib::open_libs(vm)?;
    let f = match perilune_stdlib::chunk::load(vm, text, b"@.busted", b"t", None)? {
        Ok(f) => f,
        Err(message) => {
            return Ok(Err(
                String::from_utf8_lossy(&Vm::plain_text(message).unwrap_or_default()).into_owned()
            ));
        }
    };
    let value = vm.call(f.into(), &[])?;
    vm.push(value);
    let Some(table) = value.as_table() else { return Ok(Err(".busted: it gives no table".to_owned())) };
    let mut config = Config::default();
    // What the task `default` says comes before what holds for all.
    for task in ["default", "_all"] {
        let Some(task) = vm.get_field(table, task)?.as_table() else { continue };
        if config.roots.is_empty() {
            config.roots = texts(vm, task, "ROOT")?.into_iter().map(PathBuf::from).collect();
        }
        if config.pattern.is_none() {
            config.pattern = texts(vm, task, "pattern")?.pop();
        }
        if config.exclude.is_none() {
            config.exclude = texts(vm, task, "exclude-pattern")?.pop();
        }
        for name in ["lpath", "helper", "filter", "filter-out", "tags", "exclude-tags"] {
            let values = texts(vm, task, name)?;
            if !values.is_empty() && !config.settings.iter().any(|(known, _)| known == name) {
                config.settings.push((name.to_owned(), values.join(",").into_bytes()));
            }
        }
    }
    Ok(Ok(config))
}

/// A field that is a string, or a list of strings.
fn texts(vm: &mut Vm, table: perilune_vm::Gc<perilune_vm::Table>, name: &str) -> LuaResult<Vec<String>> {
    let value = vm.get_field(table, name)?;
    let mut list = Vec::new();
    let text = |v: Value| v.as_string().map(|s| s.to_text());
    list.extend(text(value));
    if let Some(values) = value.as_table() {
        let mut i = 1;
        while let Some(value) = text(vm.raw_get_int(values, i)) {
            list.push(value);
            i += 1;
        }
    }
    Ok(list)
}

/// The test files that `paths` stand for: a file for itself, a folder for all below it; if there are none,
/// the roots of the configuration, the usual folders, or the current one.
///
/// # Errors
/// A path does not exist.
pub fn files(paths: &[PathBuf], config: &Config) -> Result<Vec<PathBuf>, String> {
    let usual = || USUAL.iter().map(PathBuf::from).filter(|p| p.is_dir()).collect::<Vec<_>>();
    let mut places = if !paths.is_empty() { paths.to_vec() } else { config.roots.clone() };
    if places.is_empty() {
        places = usual();
    }
    if places.is_empty() {
        places = vec![PathBuf::from(".")];
    }
    let mut found = Vec::new();
    for place in &places {
        let metadata = place.metadata().map_err(|e| manual::cannot_open(place, &e))?;
        if metadata.is_dir() {
            below(place, config, &mut found).map_err(|e| format!("{}: {e}", place.display()))?;
        } else {
            found.push(place.clone());
        }
    }
    let mut seen = std::collections::HashSet::new();
    found.retain(|file| seen.insert(file.clone()));
    Ok(found)
}

fn below(folder: &Path, config: &Config, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let mut entries = folder.read_dir()?.map(|e| e.map(|e| e.path())).collect::<Result<Vec<_>, _>>()?;
    entries.sort();
    for entry in entries {
        let name = entry.file_name().map(OsStr::as_bytes).unwrap_or_default();
        if name.starts_with(b".") {
            continue;
        }
        if entry.is_dir() {
            below(&entry, config, found)?;
        } else if is_test(name, config) {
            // `./a_test.lua` is written `a_test.lua`.
            found.push(entry.strip_prefix("./").map(Path::to_path_buf).unwrap_or(entry));
        }
    }
    Ok(())
}

/// busted's patterns are searched for in the name without its ending; without one our own holds.
fn is_test(name: &[u8], config: &Config) -> bool {
    let Some(stem) = name.strip_suffix(b".lua") else { return false };
    let is_named = match &config.pattern {
        Some(pattern) => matches(stem, pattern),
        None => stem.ends_with(b"_test") || stem.ends_with(b"_spec"),
    };
    is_named && !config.exclude.as_ref().is_some_and(|pattern| matches(stem, pattern))
}

/// A Lua pattern without classes and repetitions, which names of files need not.
fn matches(stem: &[u8], pattern: &str) -> bool {
    let plain = pattern.replace('%', "");
    let plain = plain.trim_start_matches('^').trim_end_matches('$');
    let text = String::from_utf8_lossy(stem);
    match (pattern.starts_with('^'), pattern.ends_with('$')) {
        (true, true) => text == plain,
        (true, false) => text.starts_with(plain),
        (false, true) => text.ends_with(plain),
        (false, false) => text.contains(plain),
    }
}

#[cfg(test)]
mod tests {
    use super::{Config, is_test};

    #[test]
    fn names_of_tests() {
        for (name, pattern, is) in [
            ("a_test.lua", None, true),
            ("a_spec.lua", None, true),
            ("spec.lua", None, false),
            ("a_test.txt", None, false),
            ("a_spec.lua", Some("_spec$"), true),
            ("a_test.lua", Some("_spec"), false),
            ("test-a.lua", Some("^test%-"), true),
        ] {
            let config = Config { pattern: pattern.map(str::to_owned), ..Config::default() };
            assert_eq!(is_test(name.as_bytes(), &config), is, "{name} {pattern:?}");
        }
        let config = Config { exclude: Some("sample".to_owned()), ..Config::default() };
        assert!(is_test(b"a_spec.lua", &config) && !is_test(b"sample_spec.lua", &config));
    }
}
