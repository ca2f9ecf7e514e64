//! `perilune trace render`: a trace as a page or a picture that needs nothing else.

use crate::commands::observe::{self, OPTIONS, read_duration};
use perilune_see::view::page::{self, PageOptions};
use perilune_see::view::{Timeline, svg};
use std::io;
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "\
usage: perilune trace render -o OUT.html|OUT.svg [options] FILE
       perilune trace render -o OUT.html|OUT.svg [options] [--] SCRIPT [ARGUMENTS]
Writes a trace as a page that needs nothing else, or as a picture.
  --from S            leave out what was before (250ms, 10s)
  --show S            show so much (default: all; --duration does the same for a FILE)
  --bars N            about so many bars one by one, shorter ones added up (400000)
  --width N           width of a picture in pixels (1600)
  --link TEMPLATE     what source places link to (vscode://file{path}:{line})
";

/// Carries out the subcommand.
pub fn run(words: &[Vec<u8>]) -> ExitCode {
    let usage = format!("{USAGE}{OPTIONS}");
    let mut options = PageOptions { directory: directory(), ..PageOptions::default() };
    let (mut from, mut length, mut width) = (Duration::ZERO, None, 1600u32);
    let request = observe::read("trace render", &usage, &words[3..], &mut |name, parser| {
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
            eprint!("perilune trace render: -o FILE.html or -o FILE.svg says what is made\n{usage}");
            return ExitCode::from(2);
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
