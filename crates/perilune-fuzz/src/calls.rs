//! Lua source that calls the library with arguments made up on the spot: patterns, formats, packing, numerals.
//!
//! Each line is one call in protected mode whose results are printed, so that two implementations can be compared line by line.

use crate::rng::Rng;

/// What the first lines of every generated program define: how values and results are shown.
pub const PRELUDE: &str = r##"
local function show(v)
  local t = type(v)
  if t == "number" then return v ~= v and "nan" or (math.type(v) == "float" and string.format("%.17g", v) or tostring(v))
  elseif t == "string" then return (string.format("%q", #v > 300 and #v .. v:sub(1, 100) or v):gsub("\\\n", "\\n"):gsub("0x%x%x%x%x%x%x+", "ADDR"))
  elseif t == "boolean" or t == "nil" then return tostring(v)
  else return t end
end
local function results(ok, ...)
  local r = { ok and "ok" or "error" }
  for i = 1, select("#", ...) do r[#r + 1] = show((select(i, ...))) end
  print(table.concat(r, " "))
end
local function try(f, ...) results(pcall(f, ...)) end
"##;

/// A Lua string literal.
pub fn quote(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for &b in bytes {
        match b {
            b'"' | b'\\' => {
                text.push('\\');
                text.push(b as char);
            }
            b' '..=b'~' => text.push(b as char),
            _ => text += &format!("\\{b:03}"),
        }
    }
    text.push('"');
    text
}

fn join(rng: &mut Rng, pieces: &[&str], most: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..rng.below(most + 1) {
        out.extend_from_slice(rng.pick(pieces).as_bytes());
    }
    out
}

const SUBJECT: [&str; 22] = [
    "a", "b", "ab", "abc", "x", " ", "1", "23", "(", ")", "((a)b)", "\n", "\t", ".", "%", "-", "_", "A",
    "BC", "\0", "é", "[]",
];
const PATTERN: [&str; 60] = [
    "a", "b", ".", "%a", "%d", "%s", "%w", "%p", "%l", "%u", "%x", "%A", "%S", "%g", "%c", "*", "+", "-",
    "?", "[", "]", "[^", "[a-c]", "[%w_]", "[^%s]", "[]]", "[^]]", "[a-]", "(", ")", "()", "(.)", "(%a+)",
    "(a*)", "(.-)", "%1", "%2", "%b()", "%b", "%f[%w]", "%f[%a]", "%f", "^", "$", "%%", "%.", "%(", "x",
    "ab", "1", "%z", "\0", "%", ".-", ".*", "a?", "[%a-z]", "[%", "b+", "é",
];
const REPLACEMENT: [&str; 12] = ["", "x", "%0", "%1", "%2", "%%", "<", ">", "%", "%9", "%a", "\0"];

fn pattern_call(rng: &mut Rng) -> String {
    let subject = quote(&join(rng, &SUBJECT, 12));
    let pattern = quote(&join(rng, &PATTERN, 7));
    let init = ["", "", ", 1", ", -1", ", 3", ", 100", ", -100", ", 2.0", ", 0"][rng.below(9)];
    match rng.below(8) {
        0 | 1 => format!("try(string.find, {subject}, {pattern}{init})"),
        2 | 3 => format!("try(string.match, {subject}, {pattern}{init})"),
        4 => format!("try(string.find, {subject}, {pattern}, 1, true)"),
        5 => format!("try(string.gsub, {subject}, {pattern}, {})", quote(&join(rng, &REPLACEMENT, 4))),
        6 => {
            let f = [
                "string.upper",
                "function(...) return select('#', ...) end",
                "{ a = 'A', ab = 1, x = false }",
                "function() end",
            ];
            format!("try(string.gsub, {subject}, {pattern}, {}, {})", rng.pick(&f), rng.below(4))
        }
        _ => format!(
            "try(function() local r = {{}} for a, b in string.gmatch({subject}, {pattern}) do r[#r + 1] = tostring(a) .. ',' .. tostring(b) \
             if #r > 30 then break end end return table.concat(r, ';') end)"
        ),
    }
}

const NUMBER: [&str; 34] = [
    "0",
    "1",
    "-1",
    "7",
    "255",
    "256",
    "65535",
    "-128",
    "1000000",
    "math.maxinteger",
    "math.mininteger",
    "1 << 31",
    "1 << 53",
    "0.0",
    "-0.0",
    "0.1",
    "1.5",
    "-2.25",
    "1/3",
    "1e15",
    "1e16",
    "1e100",
    "1e-100",
    "5e-324",
    "1.7976931348623157e308",
    "1/0",
    "-1/0",
    "2^53",
    "2^63",
    "-2^63",
    "3.0",
    "123456.789",
    "0.5",
    "99999.95",
];

/// An expression for a number, often at a limit.
pub fn number(rng: &mut Rng) -> String {
    match rng.below(6) {
        0 => (rng.next() as i64 >> rng.below(64))
            .to_string()
            .replace("-9223372036854775808", "math.mininteger"),
        1 => format!("{:e}", f64::from_bits(rng.next())).replace("NaN", "(0/0)").replace("inf", "(1/0)"),
        2 => format!("{}", (rng.next() as i32 as f64) / 1024.0),
        _ => rng.pick(&NUMBER).to_owned(),
    }
}

fn argument(rng: &mut Rng) -> String {
    match rng.below(10) {
        0..=5 => number(rng),
        6 | 7 => quote(&join(rng, &SUBJECT, 5)),
        8 => rng.pick(&["'10'", "'0x10'", "' 5 '", "'1e2'", "'x'", "''", "'1.5'"]).to_owned(),
        _ => rng.pick(&["nil", "true", "false"]).to_owned(),
    }
}

fn format_call(rng: &mut Rng) -> String {
    let mut format = String::new();
    let mut args = String::new();
    for _ in 0..=rng.below(3) {
        format += rng.pick(&["", "", "x", "[", "%%", " "]);
        format.push('%');
        if !rng.one_in(3) {
            for _ in 0..rng.below(3) {
                format += rng.pick(&["-", "+", " ", "#", "0"]);
            }
            let most = if rng.one_in(8) { 300 } else { 22 };
            if rng.one_in(2) {
                format += &rng.below(most).to_string();
            }
            if rng.one_in(2) {
                format += &format!(".{}", rng.below(most));
            }
        }
        format += rng.pick(&[
            "d", "i", "x", "X", "o", "c", "e", "E", "f", "F", "g", "G", "a", "A", "q", "s", "s", "d", "g",
            "u", "%", "y",
        ]);
        args += ", ";
        args += &argument(rng);
    }
    format!("try(string.format, {}{args})", quote(format.as_bytes()))
}

const PACK: [&str; 44] = [
    "b", "B", "h", "H", "i", "I", "l", "L", "j", "J", "T", "f", "d", "n", "i1", "i2", "i3", "i5", "i7", "i8",
    "i16", "I1", "I3", "I16", "s", "s1", "s2", "z", "x", "c0", "c3", "c10", "X", "Xi4", "<", ">", "=", "!",
    "!1", "!4", "!8", " ", "i17", "Xs",
];

fn pack_call(rng: &mut Rng) -> String {
    let format = quote(&join(rng, &PACK, 6));
    match rng.below(4) {
        0 | 1 => {
            let args: String = (0..rng.below(6)).map(|_| format!(", {}", argument(rng))).collect();
            format!("try(string.pack, {format}{args})")
        }
        2 => {
            let data: Vec<u8> =
                (0..rng.below(24)).map(|_| [0, 1, 0xff, rng.next() as u8][rng.below(4)]).collect();
            format!("try(string.unpack, {format}, {}, {})", quote(&data), rng.below(12) as i64 - 3)
        }
        _ => format!("try(string.packsize, {format})"),
    }
}

const NUMERAL: [&str; 38] = [
    "0",
    "1",
    "9",
    "12",
    "345",
    "0x",
    "0X",
    "a",
    "F",
    ".",
    "..",
    "e",
    "E",
    "p",
    "P",
    "+",
    "-",
    " ",
    "\t",
    "\n",
    "00",
    "99999999999999999999",
    "9223372036854775807",
    "9223372036854775808",
    "7fffffffffffffff",
    "ffffffffffffffff",
    "e10",
    "e-5",
    "e308",
    "e400",
    "e-400",
    "p4",
    "p-1074",
    "inf",
    "nan",
    "_",
    "\0",
    "18446744073709551615",
];

fn numeral_call(rng: &mut Rng) -> String {
    let text = join(rng, &NUMERAL, 5);
    match rng.below(5) {
        0 => format!("try(tonumber, {}, {})", quote(&text), 2 + rng.below(35)),
        1 => format!(
            "try(function() return assert(load({}))() end)",
            quote(&[b"return ", text.as_slice()].concat())
        ),
        2 => format!("try(math.tointeger, {})", number(rng)),
        3 => format!("try(function() local s = {} return s + 0, -s, s * 1, s // 1 end)", quote(&text)),
        _ => format!("try(tonumber, {})", quote(&text)),
    }
}

/// A program of `lines` calls of one kind.
pub fn program(rng: &mut Rng, kind: &str, lines: usize) -> String {
    let mut text = PRELUDE.to_owned();
    for _ in 0..lines {
        text += &match kind {
            "pattern" => pattern_call(rng),
            "format" => format_call(rng),
            "pack" => pack_call(rng),
            _ => numeral_call(rng),
        };
        text.push('\n');
    }
    text
}
