//! Logs: `require "perilune.log"`.
//!
//! A *record* has a time, a level, the name of its logger, a message and *fields*: names with values.
//! Messages are fixed texts and what differs is in fields, so that tools can count and search. One *sink* for
//! the whole process takes the records of all domains, as lines of text or of JSON (`line.rs`).
//!
//! # How
//! A call looks at the level first: an atomic load, and nothing else if the level is off. Then the line is
//! made in a buffer of the thread, and written in one piece by one system call, under the sink's lock: lines
//! of domains do not mix, and what has been logged is out of the process when the call returns. Standard
//! error and files do not say "would block", so a call may hold its domain for as long as the system takes;
//! there is no queue that could be lost with a crash, which is when a log is wanted. What cannot be written
//! is counted, and told by the next record that can.
//!
//! While a session of events records the program, each record that passes its level goes there as well, with
//! its line.
//!
//! # Rates
//! With `limit = n` each message of each logger passes `n` times a second. What is more is counted, and told
//! in the field `suppressed` of the next one that passes. So one message that repeats a thousand times a
//! second hides no other. At most [`KEYS`] messages are told apart; then counting begins anew.
//!
//! # What always holds
//! * Logging never fails and never calls Lua: a value that cannot be written is replaced by its type. Only
//!   misuse raises errors.
//! * A line is one line, whatever is in its strings: line ends and other control characters are escaped.

mod line;

use crate::failure::Failure;
use crate::options;
use line::{Format, Record};
use parking_lot::Mutex;
use perilune_domain::objects::fill;
use perilune_domain::surplus::{self, Limit};
use perilune_stdlib::string::scratch;
use perilune_trace::{Category, on};
use perilune_vm::shared::{SharedKind, SharedObject};
use perilune_vm::{Gc, LuaResult, Native, Table, Value, Vm};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// The kind of loggers.
static LOGGER: SharedKind = SharedKind::new("logger", open);

/// The levels, from the least.
const LEVELS: [&str; 5] = ["debug", "info", "warn", "error", "off"];
/// A logger without a level of its own.
const INHERITED: u8 = u8::MAX;
/// Messages that are told apart by limits.
const KEYS: usize = 4096;
/// Records of one message within this time are counted together.
const WINDOW: Duration = Duration::from_secs(1);

/// What is written at all: the level of loggers that have none of their own.
static LEVEL: AtomicU8 = AtomicU8::new(1);
/// Records that could not be written.
static LOST: AtomicU64 = AtomicU64::new(0);
static SINK: LazyLock<Mutex<Sink>> = LazyLock::new(Mutex::default);

/// Where records go.
#[derive(Default)]
struct Sink {
    format: Format,
    /// Standard error, if there is none.
    file: Option<OwnedFd>,
    /// Records of one message in a second.
    limit: Option<u64>,
    seen: HashMap<u64, Seen>,
    hasher: RandomState,
}

/// How often a message was logged lately.
struct Seen {
    since: Instant,
    passed: u64,
    suppressed: u64,
}

impl Sink {
    /// Whether a record passes: how many have not before it.
    fn admit(&mut self, name: &[u8], message: &[u8]) -> Option<u64> {
        let Some(limit) = self.limit else { return Some(0) };
        let key = self.hasher.hash_one((name, message));
        if self.seen.len() >= KEYS && !self.seen.contains_key(&key) {
            self.seen.clear();
        }
        let now = Instant::now();
        let seen = self.seen.entry(key).or_insert(Seen { since: now, passed: 0, suppressed: 0 });
        if now.duration_since(seen.since) >= WINDOW {
            (seen.since, seen.passed) = (now, 0);
        }
        if seen.passed >= limit {
            seen.suppressed += 1;
            return None;
        }
        seen.passed += 1;
        Some(std::mem::take(&mut seen.suppressed))
    }

    fn write(&self, mut line: &[u8]) -> Result<(), Errno> {
        while !line.is_empty() {
            let written = match &self.file {
                Some(file) => rustix::io::write(file.as_fd(), line),
                None => rustix::io::write(rustix::stdio::stderr(), line),
            };
            match written {
                Ok(n) => line = &line[n..],
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A logger: a name, and fields that each of its records has.
struct Logger {
    name: Vec<u8>,
    level: AtomicU8,
    /// The fields, as they stand in lines of each format.
    fields: [Vec<u8>; 2],
}

impl SharedObject for Logger {
    fn kind(&self) -> &'static SharedKind {
        &LOGGER
    }
    fn label(&self) -> Option<String> {
        Some(String::from_utf8_lossy(&self.name).into_owned())
    }
}

fn open(vm: &mut Vm, mt: Gc<Table>) -> LuaResult<()> {
    fill(
        vm,
        mt,
        &[&LOGGER_DEBUG, &LOGGER_INFO, &LOGGER_WARN, &LOGGER_ERROR, &LOGGER_IS_ON, &LOGGER_LEVEL, &CHILD],
        &[],
    )
}

/// The loader of the module.
pub static LOG: Native = Native::leaf("perilune.log", |vm| {
    let log = vm.new_table(0, 8)?;
    vm.push(log.into());
    vm.register(log, &[&DEBUG, &INFO, &WARN, &ERROR, &IS_ON, &LEVEL_OF, &SET, &NEW])?;
    vm.ret(log)
});

/// Logs argument `first`, with the fields in the one behind it.
#[inline]
fn log(vm: &mut Vm, level: u8, logger: Option<&Logger>, first: u32) -> LuaResult<u32> {
    let least = match logger.map(|l| l.level.load(Ordering::Relaxed)) {
        None | Some(INHERITED) => LEVEL.load(Ordering::Relaxed),
        Some(own) => own,
    };
    if level < least { Ok(0) } else { write(vm, level, logger, first) }
}

#[inline(never)]
fn write(vm: &mut Vm, level: u8, logger: Option<&Logger>, first: u32) -> LuaResult<u32> {
    surplus::none_behind(vm, first + 1, Limit::Own)?;
    let message = vm.check_str(first)?;
    let fields = if vm.arg_is_none_or_nil(first + 1) { None } else { Some(vm.check_table(first + 1)?) };
    let name = logger.map_or(&b""[..], |l| &l.name);
    let (format, suppressed) = {
        let mut sink = SINK.lock();
        match sink.admit(name, message.bytes()) {
            Some(suppressed) => (sink.format, suppressed),
            None => return Ok(0),
        }
    };
    let lost = LOST.swap(0, Ordering::Relaxed);
    let mut record =
        Record::begin(scratch::take(), format, LEVELS[usize::from(level)], name, message.bytes());
    if let Some(logger) = logger {
        record.append(&logger.fields[format as usize]);
    }
    if let Some(fields) = fields {
        record.fields(vm, fields);
    }
    for (name, n) in [("suppressed", suppressed), ("lost", lost)] {
        if n > 0 {
            record.field(vm, name.as_bytes(), Value::int(n as i64));
        }
    }
    let line = record.finish();
    if on(Category::User) {
        perilune_trace::emit::log(line.strip_suffix(b"\n").unwrap_or(&line));
    }
    if SINK.lock().write(&line).is_err() {
        LOST.fetch_add(1 + lost, Ordering::Relaxed);
    }
    scratch::put(line);
    Ok(0)
}

static DEBUG: Native = Native::leaf("debug", |vm| log(vm, 0, None, 1));
static INFO: Native = Native::leaf("info", |vm| log(vm, 1, None, 1));
static WARN: Native = Native::leaf("warn", |vm| log(vm, 2, None, 1));
static ERROR: Native = Native::leaf("error", |vm| log(vm, 3, None, 1));

fn this(vm: &mut Vm, last: u32) -> LuaResult<Arc<Logger>> {
    surplus::this(vm, &LOGGER, last, Limit::Own)
}

fn log_by(vm: &mut Vm, level: u8) -> LuaResult<u32> {
    let logger = this(vm, 3)?;
    log(vm, level, Some(&logger), 2)
}

static LOGGER_DEBUG: Native = Native::leaf("debug", |vm| log_by(vm, 0));
static LOGGER_INFO: Native = Native::leaf("info", |vm| log_by(vm, 1));
static LOGGER_WARN: Native = Native::leaf("warn", |vm| log_by(vm, 2));
static LOGGER_ERROR: Native = Native::leaf("error", |vm| log_by(vm, 3));

/// A level in argument `n`.
fn check_level(vm: &mut Vm, n: u32) -> LuaResult<u8> {
    let text = vm.check_str(n)?.to_text();
    level_of(&text).map_err(|e| vm.arg_error(n, &e))
}

fn level_of(text: &str) -> Result<u8, String> {
    match LEVELS.iter().position(|level| *level == text) {
        Some(n) => Ok(n as u8),
        None => Err(format!("there is no level '{text}', but {}", LEVELS.join(", "))),
    }
}

/// `log.is_on(level)`: whether such records are written.
static IS_ON: Native = Native::leaf("is_on", |vm| {
    surplus::none_behind(vm, 1, Limit::Own)?;
    let level = check_level(vm, 1)?;
    vm.ret(level >= LEVEL.load(Ordering::Relaxed))
});

/// `logger:is_on(level)`
static LOGGER_IS_ON: Native = Native::leaf("is_on", |vm| {
    let logger = this(vm, 2)?;
    let level = check_level(vm, 2)?;
    let own = logger.level.load(Ordering::Relaxed);
    vm.ret(level >= if own == INHERITED { LEVEL.load(Ordering::Relaxed) } else { own })
});

/// `log.level([level])`: the least level that is written, until now.
static LEVEL_OF: Native = Native::leaf("level", |vm| {
    surplus::none_behind(vm, 1, Limit::Own)?;
    let before = match vm.arg_is_none_or_nil(1) {
        true => LEVEL.load(Ordering::Relaxed),
        false => {
            let level = check_level(vm, 1)?;
            LEVEL.swap(level, Ordering::Relaxed)
        }
    };
    vm.ret_str(LEVELS[usize::from(before)].as_bytes())
});

/// `logger:level([level])`: the same of a logger; nil: that of the program. `false` makes it so.
static LOGGER_LEVEL: Native = Native::leaf("level", |vm| {
    let logger = this(vm, 2)?;
    let before = match vm.arg(2) {
        _ if vm.arg_is_none_or_nil(2) => logger.level.load(Ordering::Relaxed),
        v if v.is_falsy() => logger.level.swap(INHERITED, Ordering::Relaxed),
        _ => {
            let level = check_level(vm, 2)?;
            logger.level.swap(level, Ordering::Relaxed)
        }
    };
    match LEVELS.get(usize::from(before)) {
        Some(level) => vm.ret_str(level.as_bytes()),
        None => vm.ret(Value::NIL),
    }
});

/// `log.set{level=, format=, file=, limit=}`: for the whole program. True, or `nil, message, code` if the
/// file cannot be opened.
static SET: Native = Native::leaf("set", |vm| {
    surplus::none_behind(vm, 1, Limit::Own)?;
    let table = vm.check_table(1)?;
    options::check(vm, table, &["level", "format", "file", "limit"])?;
    let level = match options::text(vm, table, "level")? {
        Some(text) => Some(level_of(&String::from_utf8_lossy(&text)).map_err(|e| vm.arg_error(1, &e))?),
        None => None,
    };
    let format = match options::text(vm, table, "format")?.as_deref() {
        None => None,
        Some(b"text") => Some(Format::Text),
        Some(b"json") => Some(Format::Json),
        Some(_) => return Err(vm.arg_error(1, "option 'format' is \"text\" or \"json\"")),
    };
    let value = vm.get_field(table, "limit")?;
    let limit = match value.is_falsy() && !value.is_nil() {
        true => Some(None),
        false => options::int(vm, table, "limit", 1, i64::MAX)?.map(|n| Some(n as u64)),
    };
    let value = vm.get_field(table, "file")?;
    let file = if value.is_nil() {
        None
    } else if value.is_falsy() {
        Some(None)
    } else {
        let path = options::text(vm, table, "file")?.unwrap_or_default();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::CLOEXEC;
        match rustix::fs::open(&path[..], flags, Mode::from_raw_mode(0o644)) {
            Ok(fd) => Some(Some(fd)),
            Err(error) => {
                let path = String::from_utf8_lossy(&path).into_owned();
                return Failure::Of(format!("cannot open {path}"), error).ret(vm);
            }
        }
    };
    if let Some(level) = level {
        LEVEL.store(level, Ordering::Relaxed);
    }
    let mut sink = SINK.lock();
    sink.format = format.unwrap_or(sink.format);
    if let Some(limit) = limit {
        sink.limit = limit;
        sink.seen.clear();
    }
    if let Some(file) = file {
        sink.file = file;
    }
    drop(sink);
    vm.ret(true)
});

/// A logger of this name, with the fields of one before it and those in argument `n`.
fn make(vm: &mut Vm, name: Vec<u8>, level: u8, before: Option<&Logger>, n: u32) -> LuaResult<u32> {
    let mut fields = before.map_or_else(Default::default, |l| l.fields.clone());
    if !vm.arg_is_none_or_nil(n) {
        let table = vm.check_table(n)?;
        for format in [Format::Text, Format::Json] {
            let mut record = Record::part(std::mem::take(&mut fields[format as usize]), format);
            record.fields(vm, table);
            fields[format as usize] = record.into_part();
        }
    }
    let logger = vm.shared_ref(Arc::new(Logger { name, level: AtomicU8::new(level), fields }));
    vm.ret(logger)
}

/// `log.new(name [, fields])`
static NEW: Native = Native::leaf("new", |vm| {
    surplus::none_behind(vm, 2, Limit::Own)?;
    let name = vm.check_str(1)?.bytes().to_vec();
    make(vm, name, INHERITED, None, 2)
});

/// `logger:with(fields)`: one with more fields.
static CHILD: Native = Native::leaf("with", |vm| {
    let logger = this(vm, 2)?;
    vm.check_table(2)?;
    let level = logger.level.load(Ordering::Relaxed);
    make(vm, logger.name.clone(), level, Some(&logger), 2)
});
