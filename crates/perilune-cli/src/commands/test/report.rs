//! What is written about tests: for people, TAP 13, JUnit's XML.

use super::{File, Outcome, Test};
use std::io::{self, Write};
use std::time::Duration;

/// Writes as files come in, in their order.
pub trait Reporter {
    /// Before the first file.
    ///
    /// # Errors
    /// Of writing, as in the others.
    fn begin(&mut self, out: &mut dyn Write) -> io::Result<()>;
    /// A file that has been run.
    ///
    /// # Errors
    /// As there.
    fn file(&mut self, file: &File, out: &mut dyn Write) -> io::Result<()>;
    /// After the last one.
    ///
    /// # Errors
    /// As there.
    fn end(&mut self, wall: Duration, out: &mut dyn Write) -> io::Result<()>;
}

/// The one that is called so in the table of options.
pub fn reporter(format: &str, verbose: bool) -> Box<dyn Reporter> {
    match format {
        "tap" => Box::new(Tap { tests: 0 }),
        "junit" => Box::new(Junit { suites: String::new(), tests: 0, failures: 0, errors: 0, skipped: 0 }),
        _ => Box::new(Plain { verbose, counts: [0; 5], files: 0, assertions: 0 }),
    }
}

/// Why a test is bad, in lines.
fn reason(test: &Test) -> Vec<String> {
    let mut lines: Vec<String> = test.message.lines().map(str::to_owned).collect();
    // The place of a failed assertion is in its message.
    if test.outcome != Outcome::Failed || !test.message.lines().next().is_some_and(has_place) {
        lines.extend(test.trace.lines().map(|l| format!("  {l}")));
    }
    lines
}

/// Does it begin with `file:line:`?
fn has_place(line: &str) -> bool {
    let mut parts = line.splitn(3, ':');
    parts.next().is_some_and(|f| !f.is_empty())
        && parts.next().is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "passed",
        Outcome::Failed => "failed",
        Outcome::Error => "error",
        Outcome::TimedOut => "timed out",
        Outcome::Pending => "pending",
    }
}

/// `2 errors`.
fn counted(outcome: Outcome, n: usize) -> String {
    format!("{n} {}{}", word(outcome), if outcome == Outcome::Error && n != 1 { "s" } else { "" })
}

struct Plain {
    verbose: bool,
    /// In the order of [`OUTCOMES`].
    counts: [usize; 5],
    files: usize,
    assertions: u64,
}

const OUTCOMES: [Outcome; 5] =
    [Outcome::Passed, Outcome::Failed, Outcome::Error, Outcome::TimedOut, Outcome::Pending];

impl Reporter for Plain {
    fn begin(&mut self, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    fn file(&mut self, file: &File, out: &mut dyn Write) -> io::Result<()> {
        self.files += 1;
        self.assertions += file.assertions;
        for (count, outcome) in self.counts.iter_mut().zip(OUTCOMES) {
            *count += file.count(outcome);
        }
        let is_bad = file.bad().next().is_some();
        let counts = OUTCOMES.iter().map(|o| (*o, file.count(*o))).filter(|(_, n)| *n > 0);
        let counts: Vec<_> = counts.map(|(o, n)| counted(o, n)).collect();
        let counts = if counts.is_empty() { "no tests".to_owned() } else { counts.join(", ") };
        let head = if is_bad { "FAIL" } else { "ok  " };
        writeln!(out, "{head} {}: {counts} ({:.3} s)", file.path.display(), file.seconds)?;
        for test in &file.tests {
            let is_shown = self.verbose || test.outcome.is_bad();
            if !is_shown {
                continue;
            }
            let place = if test.line.is_empty() { String::new() } else { format!(" (line {})", test.line) };
            writeln!(out, "  {}: {}{place}", word(test.outcome), test.name)?;
            for line in reason(test) {
                writeln!(out, "    {line}")?;
            }
        }
        if (is_bad || self.verbose) && !file.output.is_empty() {
            writeln!(out, "  output:")?;
            for line in String::from_utf8_lossy(&file.output).lines() {
                writeln!(out, "    {line}")?;
            }
        }
        out.flush()
    }

    fn end(&mut self, wall: Duration, out: &mut dyn Write) -> io::Result<()> {
        let counts = OUTCOMES.iter().zip(self.counts).filter(|(o, n)| *n > 0 || **o == Outcome::Passed);
        let counts: Vec<_> = counts.map(|(o, n)| counted(*o, n)).collect();
        let (files, s) = (self.files, if self.files == 1 { "" } else { "s" });
        writeln!(
            out,
            "{} in {files} file{s}, {} assertions, {:.3} s",
            counts.join(", "),
            self.assertions,
            wall.as_secs_f64()
        )
    }
}

struct Tap {
    tests: usize,
}

impl Reporter for Tap {
    fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "TAP version 13")
    }

    fn file(&mut self, file: &File, out: &mut dyn Write) -> io::Result<()> {
        for test in &file.tests {
            self.tests += 1;
            let ok = if test.outcome.is_bad() { "not ok" } else { "ok" };
            // A `#` would begin a directive.
            let name = test.name.replace('#', "\\#").replace('\n', " ");
            write!(out, "{ok} {} - {}: {name}", self.tests, file.path.display())?;
            let skip = format!(" # SKIP {}", test.message.replace('\n', " "));
            let skip = if test.outcome == Outcome::Pending { skip.trim_end() } else { "" };
            writeln!(out, "{skip}")?;
            if test.outcome.is_bad() {
                writeln!(out, "# {}", word(test.outcome))?;
                for line in reason(test) {
                    writeln!(out, "# {line}")?;
                }
            }
        }
        out.flush()
    }

    fn end(&mut self, _: Duration, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "1..{}", self.tests)
    }
}

struct Junit {
    /// What has been told of files: the root element has to have the sums.
    suites: String,
    tests: usize,
    failures: usize,
    errors: usize,
    skipped: usize,
}

/// Text for XML: what it cannot have is left out.
fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if (c as u32) < 32 || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

impl Reporter for Junit {
    fn begin(&mut self, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    fn file(&mut self, file: &File, _: &mut dyn Write) -> io::Result<()> {
        use std::fmt::Write as _;
        let failures = file.count(Outcome::Failed) + file.count(Outcome::TimedOut);
        let (errors, skipped) = (file.count(Outcome::Error), file.count(Outcome::Pending));
        self.tests += file.tests.len();
        self.failures += failures;
        self.errors += errors;
        self.skipped += skipped;
        let path = xml(&file.path.display().to_string());
        let s = &mut self.suites;
        let _ = writeln!(
            s,
            "  <testsuite name=\"{path}\" tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\" \
             skipped=\"{skipped}\" time=\"{:.6}\">",
            file.tests.len(),
            file.seconds
        );
        for test in &file.tests {
            let name = xml(&test.name).replace('\n', "&#10;");
            let _ =
                write!(s, "    <testcase classname=\"{path}\" name=\"{name}\" time=\"{:.6}\"", test.seconds);
            let first = xml(test.message.lines().next().unwrap_or(""));
            let whole = xml(&reason(test).join("\n"));
            let _ = match test.outcome {
                Outcome::Passed => writeln!(s, "/>"),
                Outcome::Pending => writeln!(s, ">\n      <skipped message=\"{first}\"/>\n    </testcase>"),
                Outcome::Failed | Outcome::TimedOut => {
                    let kind = word(test.outcome);
                    writeln!(
                        s,
                        ">\n      <failure type=\"{kind}\" message=\"{first}\">{whole}</failure>\n    \
                         </testcase>"
                    )
                }
                Outcome::Error => {
                    writeln!(
                        s,
                        ">\n      <error type=\"error\" message=\"{first}\">{whole}</error>\n    </testcase>"
                    )
                }
            };
        }
        if !file.output.is_empty() {
            let _ =
                writeln!(s, "    <system-out>{}</system-out>", xml(&String::from_utf8_lossy(&file.output)));
        }
        let _ = writeln!(s, "  </testsuite>");
        Ok(())
    }

    fn end(&mut self, wall: Duration, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
        writeln!(
            out,
            "<testsuites tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.6}\">",
            self.tests,
            self.failures,
            self.errors,
            self.skipped,
            wall.as_secs_f64()
        )?;
        out.write_all(self.suites.as_bytes())?;
        writeln!(out, "</testsuites>")
    }
}
