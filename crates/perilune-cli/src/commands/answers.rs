//! Files with which a program answers what a tool asks of its domains (`perilune_trace::attach::Request`):
//! one for each domain, beside the event file.

use perilune_trace::attach::{self, Request};
use std::path::{Path, PathBuf};

/// The files that were written for a request: (what, path), what being a domain's number, 0 (a remark), or
/// `error`.
pub fn files(pid: u32, kind: Request, request: u32) -> Vec<(String, PathBuf)> {
    let mut files: Vec<_> =
        all(pid, kind, request).into_iter().filter(|(what, _)| !what.ends_with(".part")).collect();
    files.sort_by_key(|(what, _)| what.parse::<u32>().unwrap_or(0));
    files
}

/// Is a domain writing its file just now?
pub fn is_writing(pid: u32, kind: Request, request: u32) -> bool {
    all(pid, kind, request).iter().any(|(what, _)| what.ends_with(".part"))
}

fn all(pid: u32, kind: Request, request: u32) -> Vec<(String, PathBuf)> {
    let base = attach::path_for(pid);
    let prefix = format!("{pid}.{}", kind.prefix(request));
    let Ok(entries) = std::fs::read_dir(base.parent().unwrap_or(Path::new("/"))) else { return Vec::new() };
    let named = |e: std::fs::DirEntry| {
        let what = e.file_name().to_str()?.strip_prefix(&prefix)?.to_owned();
        Some((what, e.path()))
    };
    entries.flatten().filter_map(named).collect()
}
