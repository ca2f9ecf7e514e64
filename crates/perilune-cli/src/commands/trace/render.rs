//! `perilune trace render`: a trace as a page or a picture that needs nothing else.

use crate::commands::observe::{self, read_duration};
use perilune_see::view::page::{self, PageOptions};
use perilune_see::view::{Timeline, svg};
use std::io;
use std::process::ExitCode;
use std::time::Duration;

/// Carries out the subcommand.
pub fn run(words: &[Vec<u8>]) -> ExitCode {
    let mut options = PageOptions { directory: directory(), ..PageOptions::default() };
    let (mut from, mut length, mut width) = (Duration::ZERO, None, 1600u32);
    let request = observe::read("trace render", &words[3..], &mut |name, parser| {
        match name {
            "--from" => from = read_duration(&parser.value()?.to_string_lossy(), "s")?,
            "--show" => length = Some(read_duration(&parser.value()?.to_string_lossy(), "s")?),
            "--link" => options.link = parser.value()?.to_string_lossy().into_owned(),
            "--bars" => options.most = number(&parser.value()?.to_string_lossy())?,
            "--width" => width = number(&parser.value()?.to_string_lossy())?.clamp(400, 20_000) as u32,
            _ => return Ok(false),
        }
        Ok(true)
    });
    let request = match request {
        Ok(request) => request,
        Err(code) => return code,
    };
    let is_svg = match &request.output {
        Some(path) if path.extension().is_some_and(|e| e == "svg") => true,
        Some(path) if path.extension().is_some_and(|e| e == "html" || e == "htm") => false,
        _ => {
            return request.refuse("-o FILE.html or -o FILE.svg says what is made");
        }
    };
    // Of a file, `--duration` can only mean the stretch that is shown.
    if matches!(request.source, observe::Source::File(_)) {
        length = length.or(request.duration);
    }
    request.finish(request.trace(&request.session()).and_then(|seen| {
        request.remarks(&seen.trace);
        let timeline = Timeline::new(&seen.trace);
        drop(seen.trace);
        let from = from.as_nanos() as u64;
        let to = length.map_or(timeline.end_ns, |l| from.saturating_add(l.as_nanos() as u64));
        let to = to.min(timeline.end_ns).max(1);
        if from >= to {
            let end = timeline.end_ns as f64 / 1e9;
            return Err(io::Error::other(format!("--from: the trace ends after {end:.3} s")));
        }
        let text = match is_svg {
            true => svg::picture(&timeline, from, to, width),
            false => page::embedded(&timeline, &options, from, to),
        };
        let mut out = request.output()?;
        out.write_all(text.as_bytes())?;
        out.flush()?;
        Ok(seen.code)
    }))
}

fn number(text: &str) -> Result<u64, lexopt::Error> {
    text.parse().map_err(|_| format!("'{text}' is no number").into())
}

/// Where relative names of source files start.
pub fn directory() -> String {
    std::env::current_dir().map(|d| d.display().to_string()).unwrap_or_default()
}
