//! Sessions from within the program: begun by the environment or by `pl.trace.start`.
//!
//! | variable | |
//! |---|---|
//! | `PERILUNE_TRACE` | the event file; `%p` stands for the process's number. A tool may have made it already |
//! | `PERILUNE_TRACE_EVENTS` | categories, as [`crate::event::parse_categories`] reads them |
//! | `PERILUNE_TRACE_RING` | events that a domain's ring holds |
//! | `PERILUNE_TRACE_CPU` | samples of processor time per second |
//! | `PERILUNE_TRACE_ALLOC` | mean bytes between samples of allocation |

use crate::attach;
use crate::emit::{self, Busy};
use crate::event::{Category, DEFAULT_CATEGORIES, parse_categories};
use crate::layout::{Geometry, State};
use crate::map::Mapping;
use crate::sys;
use std::io;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// What a session is to record.
#[derive(Clone, Debug)]
pub struct Options {
    /// Mask of categories.
    pub categories: u32,
    /// Samples of processor time per second and thread; 0: none.
    pub cpu_hz: u32,
    /// Mean bytes between two samples of allocation; 0: none.
    pub alloc_interval: u64,
    /// Sizes of the file's parts.
    pub geometry: Geometry,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            categories: DEFAULT_CATEGORIES,
            cpu_hz: 0,
            alloc_interval: 0,
            geometry: Geometry::default(),
        }
    }
}

impl Options {
    /// Writes the switches to a file's header.
    pub fn apply(&self, map: &Mapping) {
        let h = map.header();
        let mut mask = self.categories & !(Category::Cpu as u32 | Category::Alloc as u32);
        if self.cpu_hz != 0 {
            mask |= Category::Cpu as u32;
        }
        if self.alloc_interval != 0 {
            mask |= Category::Alloc as u32;
        }
        h.cpu_hz.store(self.cpu_hz, Ordering::Relaxed);
        h.alloc_interval.store(self.alloc_interval, Ordering::Relaxed);
        h.enabled.store(mask, Ordering::Release);
    }
}

/// Begins a session that writes to a new file.
///
/// # Errors
/// The file exists or cannot be made; there is a session already.
pub fn start(path: &Path, options: &Options) -> io::Result<()> {
    let map = Mapping::create(path, &options.geometry)?;
    options.apply(&map);
    begin(map).inspect_err(|_| {
        let _ = std::fs::remove_file(path);
    })
}

/// However the program ends (unless it is killed), the file says so.
extern "C" fn stop_at_exit() {
    if emit::has_session() {
        emit::end();
    }
}

fn begin(map: Mapping) -> io::Result<()> {
    let map = ManuallyDrop::new(map);
    let (base, bytes) = map.raw();
    // SAFETY: a checked mapping, which is not dropped.
    match unsafe { emit::begin(base, bytes) } {
        Ok(()) => {
            static ONCE: std::sync::Once = std::sync::Once::new();
            ONCE.call_once(|| sys::at_exit(stop_at_exit));
            attach::tell_hooks();
            Ok(())
        }
        Err(Busy::Live | Busy::Beginning) => {
            drop(ManuallyDrop::into_inner(map));
            Err(io::Error::new(io::ErrorKind::ResourceBusy, "the program is being traced already"))
        }
    }
}

/// Ends the session; the file stays.
pub fn stop() {
    emit::end();
    attach::tell_hooks();
}

/// Begins the session that the environment asks for, if it does. To be called once, before domains are made.
///
/// # Errors
/// What of it is not understood, or cannot be done: for people.
pub fn start_from_env() -> Result<(), String> {
    let Some(path) = std::env::var_os("PERILUNE_TRACE").filter(|p| !p.is_empty()) else { return Ok(()) };
    let path = PathBuf::from(path.to_string_lossy().replace("%p", &std::process::id().to_string()));
    // A tool has made the file: everything is in its header.
    if let Ok(map) = Mapping::open(&path)
        && map
            .header()
            .state
            .compare_exchange(State::Offered as u32, State::Live as u32, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    {
        // The tool watches this program, not those that it starts.
        // SAFETY: the process has one thread yet (the caller's promise: before domains are made).
        unsafe { std::env::remove_var("PERILUNE_TRACE") };
        return begin(map).map_err(|e| format!("PERILUNE_TRACE: {}: {e}", path.display()));
    }
    let mut options = Options::default();
    if let Some(list) = variable("PERILUNE_TRACE_EVENTS") {
        options.categories = parse_categories(&list).map_err(|word| {
            let all: Vec<_> = crate::event::CATEGORIES.iter().map(|(_, name)| *name).collect();
            format!("PERILUNE_TRACE_EVENTS: there is no category '{word}' (there are: {})", all.join(", "))
        })?;
    }
    number("PERILUNE_TRACE_RING", &mut options.geometry.ring_events)?;
    number("PERILUNE_TRACE_CPU", &mut options.cpu_hz)?;
    number("PERILUNE_TRACE_ALLOC", &mut options.alloc_interval)?;
    let mut path = path;
    if let Ok(map) = Mapping::open(&path) {
        let h = map.header();
        let pid = h.pid.load(Ordering::Relaxed);
        let alive = sys::process_exists(pid);
        if h.state.load(Ordering::Relaxed) == State::Live as u32 && alive && pid != std::process::id() {
            // A child of a traced program gets a file of its own.
            let mut name = path.into_os_string();
            name.push(format!(".{}", std::process::id()));
            path = name.into();
        } else {
            let _ = std::fs::remove_file(&path);
        }
    }
    start(&path, &options).map_err(|e| format!("PERILUNE_TRACE: {}: {e}", path.display()))
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|v| !v.is_empty())
}

fn number<T: std::str::FromStr>(name: &str, to: &mut T) -> Result<(), String> {
    if let Some(text) = variable(name) {
        *to = text.parse().map_err(|_| format!("{name}: '{text}' is no number"))?;
    }
    Ok(())
}
