//! `perilune trace export`: a trace in the formats of other viewers.

use crate::commands::observe;
use perilune_see::export::{chrome, perfetto};
use perilune_see::view::Timeline;
use std::io::{self, IsTerminal};
use std::process::ExitCode;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Perfetto,
    Chrome,
}

/// Carries out the subcommand.
pub fn run(words: &[Vec<u8>]) -> ExitCode {
    let mut format = None;
    let request = observe::read("trace export", &words[3..], &mut |name, parser| {
        if name != "--to" {
            return Ok(false);
        }
        let word = parser.value()?;
        format = Some(match word.to_str() {
            Some("perfetto") => Format::Perfetto,
            Some("chrome") => Format::Chrome,
            _ => {
                let word = word.to_string_lossy();
                return Err(format!("--to: there is no format '{word}' (there are: perfetto, chrome)").into());
            }
        });
        Ok(true)
    });
    let request = match request {
        Ok(request) => request,
        Err(code) => return code,
    };
    let Some(format) = format else {
        return request.refuse("--to says which format");
    };
    if format == Format::Perfetto && request.output.is_none() && io::stdout().is_terminal() {
        eprintln!("perilune trace export: this format is no text; -o FILE says where it goes");
        return ExitCode::from(2);
    }
    request.finish(request.trace(&request.session()).and_then(|seen| {
        request.remarks(&seen.trace);
        let timeline = Timeline::new(&seen.trace);
        let out = request.output()?;
        match format {
            Format::Perfetto => perfetto::write(&timeline, out)?,
            Format::Chrome => chrome::write(&timeline, out)?,
        }
        Ok(seen.code)
    }))
}
