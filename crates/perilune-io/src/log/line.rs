//! Records as lines: of text, as people and `grep` like them, or of JSON.
//!
//! ```text
//! 2026-11-23T06:25:39.123Z WARN  http: slow request path=/a seconds=2.5 query="a b"
//! {"time":"2026-11-23T06:25:39.123Z","level":"warn","logger":"http","message":"slow request","path":"/a","seconds":2.5,"query":"a b"}
//! ```
//!
//! Fields are in the order of their names. In text a string stands in quotes if it has to. Tables are written
//! as JSON in both, four deep.

use perilune_syntax::numeral::format_integer;
use perilune_vm::{Form, Gc, Table, Tag, Value, Vm};
use std::io::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

/// Tables in tables.
const DEPTH: usize = 4;
/// Entries of a table that are written.
const ENTRIES: usize = 100;
/// A line becomes no longer than about this.
const LONGEST: usize = 64 << 10;

/// How lines look.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// A line that is being made.
pub struct Record {
    out: Vec<u8>,
    format: Format,
}

impl Record {
    /// Up to the message.
    pub fn begin(out: Vec<u8>, format: Format, level: &str, name: &[u8], message: &[u8]) -> Record {
        let mut record = Record { out, format };
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = timestamp(since.as_secs() as i64, since.subsec_millis());
        match format {
            Format::Text => {
                let _ = write!(record.out, "{time} {:<5} ", level.to_uppercase());
                if !name.is_empty() {
                    record.plain(name);
                    record.out.extend_from_slice(b": ");
                }
                record.plain(message);
            }
            Format::Json => {
                let _ = write!(record.out, "{{\"time\":\"{time}\",\"level\":\"{level}\"");
                for (what, text) in [("logger", name), ("message", message)] {
                    if !text.is_empty() || what == "message" {
                        let _ = write!(record.out, ",\"{what}\":");
                        record.quoted(text);
                    }
                }
            }
        }
        record
    }

    /// Fields alone, behind these.
    pub fn part(out: Vec<u8>, format: Format) -> Record {
        Record { out, format }
    }

    /// What [`Record::part`] has become.
    pub fn into_part(self) -> Vec<u8> {
        self.out
    }

    /// Fields that are written already.
    pub fn append(&mut self, part: &[u8]) {
        self.out.extend_from_slice(part);
    }

    /// The line.
    pub fn finish(mut self) -> Vec<u8> {
        self.out.extend_from_slice(if self.format == Format::Json { b"}\n" } else { b"\n" });
        self.out
    }

    /// The fields of a table, in the order of their names.
    pub fn fields(&mut self, vm: &mut Vm, table: Gc<Table>) {
        for (name, value) in entries(vm, table) {
            if self.out.len() > LONGEST {
                return;
            }
            self.field(vm, &name, value);
        }
    }

    /// A field.
    pub fn field(&mut self, vm: &mut Vm, name: &[u8], value: Value) {
        match self.format {
            Format::Text => {
                self.out.push(b' ');
                let is_word =
                    !name.is_empty() && name.iter().all(|b| b.is_ascii_graphic() && !b"=\"".contains(b));
                if is_word {
                    self.out.extend_from_slice(name)
                } else {
                    self.quoted(name)
                }
                self.out.push(b'=');
                match value.as_string() {
                    Some(s) if is_plain_word(s.bytes()) => self.out.extend_from_slice(s.bytes()),
                    _ => self.value(vm, value, 0),
                }
            }
            Format::Json => {
                self.out.push(b',');
                // The record's own are there once.
                let taken = [&b"time"[..], b"level", b"logger", b"message"].contains(&name);
                if taken {
                    self.quoted(&[name, b"_"].concat())
                } else {
                    self.quoted(name)
                }
                self.out.push(b':');
                self.value(vm, value, 0);
            }
        }
    }

    fn value(&mut self, vm: &mut Vm, value: Value, depth: usize) {
        match value.tag() {
            Tag::INT => format_integer(value.as_int().unwrap_or(0), &mut self.out),
            Tag::FLOAT => {
                let f = value.as_float().unwrap_or(0.0);
                let _ = match self.format {
                    Format::Json if !f.is_finite() => write!(self.out, "\"{f}\""),
                    _ => write!(self.out, "{f:?}"),
                };
            }
            Tag::TRUE => self.out.extend_from_slice(b"true"),
            Tag::FALSE => self.out.extend_from_slice(b"false"),
            Tag::NIL => self.out.extend_from_slice(b"null"),
            _ => match (value.as_string(), value.as_table()) {
                (Some(s), _) => self.quoted(s.bytes()),
                (_, Some(t)) if depth < DEPTH => self.table(vm, t, depth),
                _ => {
                    let _ = write!(self.out, "\"({})\"", value.type_name());
                }
            },
        }
    }

    fn table(&mut self, vm: &mut Vm, t: Gc<Table>, depth: usize) {
        if let Form::List(n) = vm.form(t) {
            self.out.push(b'[');
            for i in 1..=n.min(ENTRIES) {
                if i > 1 {
                    self.out.push(b',');
                }
                let value = vm.raw_get_int(t, i as i64);
                self.value(vm, value, depth + 1);
                if self.out.len() > LONGEST {
                    break;
                }
            }
            self.out.push(b']');
            return;
        }
        self.out.push(b'{');
        for (i, (name, value)) in entries(vm, t).into_iter().enumerate() {
            if i > 0 {
                self.out.push(b',');
            }
            self.quoted(&name);
            self.out.push(b':');
            self.value(vm, value, depth + 1);
            if self.out.len() > LONGEST {
                break;
            }
        }
        self.out.push(b'}');
    }

    /// A text without quotes, in a line of text.
    fn plain(&mut self, bytes: &[u8]) {
        let bytes = &bytes[..bytes.len().min(LONGEST)];
        for piece in bytes.utf8_chunks() {
            for c in piece.valid().chars() {
                if c.is_control() {
                    let _ = write!(self.out, "{}", c.escape_default());
                } else {
                    let _ = write!(self.out, "{c}");
                }
            }
            for byte in piece.invalid() {
                let _ = write!(self.out, "\\x{byte:02x}");
            }
        }
    }

    /// A text in quotes, as JSON has it.
    fn quoted(&mut self, bytes: &[u8]) {
        let bytes = &bytes[..bytes.len().min(LONGEST)];
        self.out.push(b'"');
        for piece in bytes.utf8_chunks() {
            for c in piece.valid().chars() {
                let _ = match c {
                    '"' => write!(self.out, "\\\""),
                    '\\' => write!(self.out, "\\\\"),
                    '\n' => write!(self.out, "\\n"),
                    '\t' => write!(self.out, "\\t"),
                    '\r' => write!(self.out, "\\r"),
                    c if c.is_control() => write!(self.out, "\\u{:04x}", c as u32),
                    c => write!(self.out, "{c}"),
                };
            }
            if !piece.invalid().is_empty() {
                self.out.extend_from_slice("\u{fffd}".as_bytes());
            }
        }
        self.out.push(b'"');
    }
}

/// The entries of a table in the order of their names; of other keys what they look like.
fn entries(vm: &mut Vm, table: Gc<Table>) -> Vec<(Vec<u8>, Value)> {
    let (mut entries, mut position) = (Vec::new(), 0);
    while let Some((key, value)) = vm.next_at(table, &mut position) {
        if entries.len() >= ENTRIES {
            break;
        }
        let name = match (key.as_string(), key.as_int()) {
            (Some(name), _) => name.bytes().to_vec(),
            (_, Some(n)) => n.to_string().into_bytes(),
            _ => format!("({})", key.type_name()).into_bytes(),
        };
        entries.push((name, value));
    }
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    entries
}

/// Whether a string needs no quotes in a line of text: nobody takes it for something else.
fn is_plain_word(bytes: &[u8]) -> bool {
    let is_word = !bytes.is_empty()
        && bytes.iter().all(|b| b.is_ascii_graphic() && !b"=\"\\{}[]".contains(b))
        && bytes.len() < LONGEST;
    let is_number = bytes.first().is_some_and(|b| b.is_ascii_digit() || b"+-.".contains(b))
        && std::str::from_utf8(bytes).is_ok_and(|s| s.parse::<f64>().is_ok());
    is_word && !is_number && ![&b"true"[..], b"false", b"null"].contains(&bytes)
}

/// A time of UTC as RFC 3339 has it.
fn timestamp(seconds: i64, millis: u32) -> String {
    let (days, rest) = (seconds.div_euclid(86400), seconds.rem_euclid(86400));
    // Days since 0000-03-01, in eras of 400 years (146097 days): leap days are at the ends of years.
    let day = days + 719_468;
    let (era, of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    let (h, m, s) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, "2000-02-28T23:59:59.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (951_868_800, "2000-03-01T00:00:00.000Z"),
            (1_709_164_800, "2024-02-29T00:00:00.000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(timestamp(seconds, 0), text);
        }
    }

    #[test]
    fn a_line_is_one_line() {
        for format in [Format::Text, Format::Json] {
            let record = Record::begin(Vec::new(), format, "info", b"a\nb", b"c\r\n\x1b[31m\xff\"\\");
            let line = record.finish();
            assert_eq!(line.iter().filter(|b| **b < b' ').count(), 1, "{}", String::from_utf8_lossy(&line));
            assert!(std::str::from_utf8(&line).is_ok());
        }
    }

    #[test]
    fn words_are_told_from_other_values() {
        assert!(["a", "/a/b?c", "10.0.0.1:80", "1.2.3"].iter().all(|w| is_plain_word(w.as_bytes())));
        assert!(
            ["", "a b", "1", "-2.5", "1e3", "true", "a=b", "\"", "{}"]
                .iter()
                .all(|w| !is_plain_word(w.as_bytes()))
        );
    }
}
