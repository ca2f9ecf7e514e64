//! Output against what was recorded.
//!
//! With `PERILUNE_BLESS=1` recordings are written instead, to be read before they are committed.

use std::fs;
use std::path::Path;

/// Whether recordings are written instead of compared.
pub fn is_blessed() -> bool {
    std::env::var_os("PERILUNE_BLESS").is_some_and(|v| !v.is_empty() && v != "0")
}

/// Compares output with what a file holds; writes the file if recordings are blessed.
///
/// # Errors
/// The first line that differs, wanted and got.
pub fn compare(file: &Path, got: &[u8]) -> Result<(), String> {
    if is_blessed() {
        return fs::write(file, got).map_err(|e| format!("{}: {e}", file.display()));
    }
    let want = fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
    difference(&want, got).map_or(Ok(()), Err)
}

/// The first line that differs, for people; nothing if both are the same.
pub fn difference(want: &[u8], got: &[u8]) -> Option<String> {
    if got == want {
        return None;
    }
    let lines = |bytes: &[u8]| bytes.split(|&b| b == b'\n').map(crate::text).collect::<Vec<_>>();
    let (wanted, given) = (lines(want), lines(got));
    let line = given.iter().zip(&wanted).take_while(|(g, w)| g == w).count();
    let show = |lines: &[String]| lines.get(line).map_or("(nothing)".into(), |l| format!("{l:?}"));
    Some(format!(
        "output differs from line {} on\n  want {}\n  got  {}",
        line + 1,
        show(&wanted),
        show(&given)
    ))
}

/// Replaces addresses of objects, which differ from run to run, in `: 0x...` and `(0x...)`, as `tostring`
/// writes them.
pub fn without_addresses(output: &[u8]) -> Vec<u8> {
    let mut result = Vec::with_capacity(output.len());
    let mut i = 0;
    while i < output.len() {
        let rest = &output[i..];
        let prefix = [b": 0x".as_slice(), b"(0x"].into_iter().find(|p| rest.starts_with(p));
        if let Some(prefix) = prefix {
            let digits = rest[prefix.len()..].iter().take_while(|b| b.is_ascii_hexdigit()).count();
            if digits >= 6 {
                result.extend_from_slice(prefix);
                result.extend_from_slice(b"ADDR");
                i += prefix.len() + digits;
                continue;
            }
        }
        result.push(output[i]);
        i += 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_differs_is_named() {
        assert_eq!(difference(b"a\nb\n", b"a\nb\n"), None);
        let said = difference(b"a\nb\n", b"a\nc\n").expect("a difference");
        assert!(
            said.contains("line 2") && said.contains("want \"b\"") && said.contains("got  \"c\""),
            "{said}"
        );
        // A line more or less, and a newline at the end, are differences.
        assert!(difference(b"a\nb\n", b"a\n").is_some() && difference(b"a\n", b"a").is_some());
    }

    #[test]
    fn a_missing_recording_is_an_error() {
        let folder = crate::Folder::new();
        let file = folder.join("a.out");
        if !is_blessed() {
            assert!(compare(&file, b"").is_err());
            folder.write("a.out", "x\n");
            assert_eq!(compare(&file, b"x\n"), Ok(()));
        }
    }

    #[test]
    fn addresses_alone_are_replaced() {
        let got = without_addresses(b"table: 0x55ee00aa11 function(0xabcdef) 0x1234567 x: 0x12");
        assert_eq!(crate::text(&got), "table: 0xADDR function(0xADDR) 0x1234567 x: 0x12");
    }
}
