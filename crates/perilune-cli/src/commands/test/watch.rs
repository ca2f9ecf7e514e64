//! `perilune test --watch`: runs again what a changed file concerns, until Ctrl-C.
//!
//! # What concerns a test file
//! The files that its process looked at: workers tell each as it happens (`perilune_stdlib::used`), so that a
//! file which crashes or hangs is known too. These are the code that was loaded or looked for, whether it was
//! there or not (a module that is missing may come), data that were opened by `io` or asked for by
//! `pl.asset`, and the test file itself. A file that a test has written concerns nobody: otherwise tests
//! would start themselves. For the same reason a file has changed if its contents have; they are compared
//! with those before the run.
//!
//! # How changes are seen
//! By inotify, for the folders below the current one (none whose names begin with a dot) and those of all
//! files that were looked at. Nothing is asked for in turns: while nothing changes, the process sleeps. An
//! editor's save is several changes, a checkout is many; what comes within [`QUIET`] of each other is one.
//! What changes during a run is looked at after it: a run that is begun ends, so that tests which take longer
//! than a pause between two saves come to an end at all.
//!
//! # Ctrl-C
//! SIGINT and SIGTERM come in as bytes of a pipe. The run goes on in a thread of its own, so that they are
//! heard at once: the processes of the tests are ended, then this one.

use super::{File, Options, find, pool, report};
use perilune_stdlib::used::whole;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hasher};
use std::io::{IsTerminal, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

/// Changes that come within such a time of each other are one.
const QUIET: Duration = Duration::from_millis(100);
/// Longest that they are waited for.
const LONGEST: Duration = Duration::from_secs(2);
/// Folders below the current one that are watched; a program that has more is elsewhere than it thinks, or in
/// a home folder.
const MOST_FOLDERS: usize = 4096;
/// Contents of files up to this length are compared; of longer ones, length and time.
const MOST_COMPARED: u64 = 64 << 20;

/// Runs the tests and waits for changes, again and again. The exit code says whether the last outcomes are
/// all good.
///
/// # Errors
/// The system has no inotify, or `paths` name what does not exist.
pub fn watch(options: Options) -> Result<ExitCode, String> {
    let interrupt = crate::signals::interrupts_as_bytes().map_err(|e| e.to_string())?;
    let mut folders = Folders::new()?;
    let mut suite = Suite::new(options)?;
    folders.add_tree(&suite.here);
    if folders.tree > MOST_FOLDERS {
        let text = format!(
            "perilune test: there are more than {MOST_FOLDERS} folders below here: new files are seen in the \
             first of them, and \
             where tests have looked at files\n"
        );
        crate::protected::write_error(text.as_bytes());
    }
    let keys = std::io::stdin().is_terminal();
    let mut due = suite.files.clone();
    loop {
        if !due.is_empty() {
            if !suite.run(&due, interrupt.as_fd())? {
                return Ok(ExitCode::FAILURE);
            }
            for file in suite.looked_at.values().flatten() {
                if let Some(folder) = file.parent() {
                    folders.add(folder);
                }
            }
        }
        suite.tell_state(keys);
        due = loop {
            let changes = match wait(&mut folders, interrupt.as_fd(), keys)? {
                Heard::Interrupt => return Ok(suite.code()),
                Heard::RunAll => {
                    say("");
                    break suite.files.clone();
                }
                Heard::Changes(changes) => changes,
            };
            match suite.concerned(&changes) {
                Ok(due) if due.is_empty() => {}
                Ok(due) => break due,
                // A folder that was named is gone, or .busted is being written: what changes next may mend
                // it.
                Err(e) => crate::protected::write_error(format!("perilune test: {e}\n").as_bytes()),
            }
        };
    }
}

/// The tests and what is known of them.
struct Suite {
    options: Options,
    /// Settings of the command line; those of `.busted` come behind.
    settings: Vec<(String, Vec<u8>)>,
    /// The current folder.
    here: PathBuf,
    /// The test files, in their order.
    files: Vec<PathBuf>,
    /// The files that each has looked at, from the root.
    looked_at: BTreeMap<PathBuf, BTreeSet<PathBuf>>,
    /// Files that tests have written.
    written: BTreeSet<PathBuf>,
    /// What was in files before the last run that looked at them.
    before: HashMap<PathBuf, Contents>,
    /// Files in which something is not as it should be.
    failing: BTreeSet<PathBuf>,
    /// Files that a run has left out, since it ended after a failure.
    left: BTreeSet<PathBuf>,
}

impl Suite {
    fn new(mut options: Options) -> Result<Suite, String> {
        let settings = std::mem::take(&mut options.settings);
        let here = std::env::current_dir().and_then(|d| d.canonicalize()).map_err(|e| e.to_string())?;
        let mut suite = Suite {
            options,
            settings,
            here,
            files: Vec::new(),
            looked_at: BTreeMap::new(),
            written: BTreeSet::new(),
            before: HashMap::new(),
            failing: BTreeSet::new(),
            left: BTreeSet::new(),
        };
        // What is not there at the start is a slip of the pen.
        if let Some(none) = suite.options.paths.iter().find(|p| !p.exists()) {
            return Err(format!("{}: No such file or directory", none.display()));
        }
        suite.find()?;
        Ok(suite)
    }

    /// Reads `.busted` and looks for test files.
    fn find(&mut self) -> Result<(), String> {
        let mut config = find::config()?;
        self.options.settings = self.settings.clone();
        super::add_settings(&mut self.options.settings, &mut config);
        let there: Vec<PathBuf> = self.options.paths.iter().filter(|p| p.exists()).cloned().collect();
        // No path means the usual places; that all are gone does not.
        let gone = there.is_empty() && !self.options.paths.is_empty();
        self.files = if gone { Vec::new() } else { find::files(&there, &config)? };
        Ok(())
    }

    /// Runs these files; false if it was interrupted.
    fn run(&mut self, due: &[PathBuf], interrupt: BorrowedFd) -> Result<bool, String> {
        let began = SystemTime::now();
        for (file, contents) in &mut self.before {
            *contents = Contents::of(file);
        }
        let stop = pool::Stop::default();
        let (done, is_done) = std::io::pipe().map_err(|e| e.to_string())?;
        let (mut ran, mut told) = (Vec::new(), Ok(()));
        let interrupted = std::thread::scope(|scope| {
            let run = scope.spawn(|| {
                // Dropped when all is done, which the other side of the pipe sees.
                let _done = is_done;
                told = tell_run(due, &self.options, &stop, &mut ran);
            });
            let interrupted = wait_for_either(done.as_fd(), interrupt);
            if interrupted {
                stop.now();
            }
            let _ = run.join();
            interrupted
        });
        told?;
        if interrupted {
            return Ok(false);
        }
        for path in due {
            self.left.insert(path.clone());
        }
        for file in ran {
            self.left.remove(&file.path);
            if file.bad().next().is_some() {
                self.failing.insert(file.path.clone());
            } else {
                self.failing.remove(&file.path);
            }
            let mut looked_at: BTreeSet<PathBuf> = file.looked_at.iter().cloned().collect();
            looked_at.insert(whole(&file.path));
            self.written.extend(file.written);
            for one in &looked_at {
                self.before.entry(one.clone()).or_insert_with(|| Contents::of_new(one, began));
            }
            self.looked_at.insert(file.path, looked_at);
        }
        Ok(true)
    }

    /// The test files that have to be run because of these changes, and says why.
    fn concerned(&mut self, changes: &Changes) -> Result<Vec<PathBuf>, String> {
        let old: BTreeSet<PathBuf> = self.files.iter().cloned().collect();
        self.find()?;
        let files: BTreeSet<PathBuf> = self.files.iter().cloned().collect();
        let mut said = Vec::new();
        for gone in old.difference(&files) {
            self.looked_at.remove(gone);
            self.failing.remove(gone);
            self.left.remove(gone);
            said.push(format!("{} is gone", gone.display()));
        }
        let mut due: BTreeSet<PathBuf> = BTreeSet::new();
        for new in files.difference(&old) {
            due.insert(new.clone());
            said.push(format!("{} is new", new.display()));
        }
        if changes.lost || changes.files.contains(&self.here.join(".busted")) {
            let why = if changes.lost { "too much has changed to tell what" } else { ".busted changed" };
            said.push(why.to_owned());
            due.extend(files.iter().cloned());
        }
        let all: BTreeSet<&PathBuf> = self.looked_at.values().flatten().collect();
        for path in all {
            let is_told =
                changes.files.contains(path) || changes.folders.iter().any(|folder| path.starts_with(folder));
            let unchanged = || self.before.get(path).is_some_and(|before| *before == Contents::of(path));
            if !is_told || self.written.contains(path) || unchanged() {
                continue;
            }
            let concerned: Vec<&PathBuf> =
                self.looked_at.iter().filter(|(_, looked)| looked.contains(path)).map(|(f, _)| f).collect();
            let shown = path.strip_prefix(&self.here).unwrap_or(path).display();
            if concerned.iter().any(|file| !due.contains(*file) || files.len() == 1) {
                said.push(format!("{shown} {}", if path.exists() { "changed" } else { "is gone" }));
            }
            due.extend(concerned.into_iter().cloned());
        }
        if due.is_empty() && said.is_empty() {
            return Ok(Vec::new());
        }
        if !due.is_empty() {
            due.append(&mut self.left);
        }
        let count = match (due.len(), files.len()) {
            (0, _) => String::new(),
            (n, m) if n == m => format!(": {n} test file{}", plural(n)),
            (n, m) => format!(": {n} of {m} test files"),
        };
        say(&format!("\n{}{count}", listed(&said)));
        if due.is_empty() {
            self.tell_state(std::io::stdin().is_terminal());
        }
        Ok(self.files.iter().filter(|file| due.contains(*file)).cloned().collect())
    }

    /// Says how things stand and what is waited for.
    fn tell_state(&self, keys: bool) {
        let failing: Vec<String> = self.failing.iter().map(|f| f.display().to_string()).collect();
        let n = self.files.len();
        let state = match failing.len() {
            0 if n == 0 => "no file yet whose name ends in _test.lua or _spec.lua".to_owned(),
            0 if !self.left.is_empty() => format!("{} of {n} files not run", self.left.len()),
            0 => format!("nothing fails in {n} file{}", plural(n)),
            bad => format!("{bad} of {n} file{} fail: {}", plural(n), listed(&failing)),
        };
        let keys = if keys { "Enter: run all, Ctrl-C: end" } else { "Ctrl-C: end" };
        say(&format!("{state}; waiting for changes ({keys})"));
    }

    fn code(&self) -> ExitCode {
        if self.failing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// Runs files and tells of them; those that were run go to `ran`.
fn tell_run(
    due: &[PathBuf],
    options: &Options,
    stop: &pool::Stop,
    ran: &mut Vec<File>,
) -> Result<(), String> {
    let mut out = std::io::stdout();
    let mut reporter = report::reporter(&options.format, options.verbose);
    let began = Instant::now();
    let mut result = reporter.begin(&mut out);
    pool::run(due, options, stop, &mut |file| {
        let is_bad = file.bad().next().is_some();
        if result.is_ok() {
            result = reporter.file(&file, &mut out);
        }
        ran.push(file);
        result.is_ok() && !(is_bad && options.fail_fast)
    })?;
    if !stop.was_asked_now() {
        result = result.and_then(|()| reporter.end(began.elapsed(), &mut out));
    }
    result.and_then(|()| out.flush()).map_err(|e| e.to_string())
}

fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}

/// The first of them, and how many more there are.
fn listed(texts: &[String]) -> String {
    const SHOWN: usize = 4;
    let mut text = texts[..texts.len().min(SHOWN)].join(", ");
    if texts.len() > SHOWN {
        text += &format!(" and {} more", texts.len() - SHOWN);
    }
    text
}

/// What is in a file, as far as it matters whether that is the same.
#[derive(PartialEq, Eq, Debug)]
enum Contents {
    Absent,
    Hash(u64),
    Stat(u64, Option<SystemTime>),
    /// It changed after a run began in which it was looked at: which contents the test has seen nobody knows.
    Unknown,
}

impl Contents {
    fn of(path: &Path) -> Contents {
        let Ok(metadata) = path.metadata() else { return Contents::Absent };
        if !metadata.is_file() || metadata.len() > MOST_COMPARED {
            return Contents::Stat(metadata.len(), metadata.modified().ok());
        }
        let Ok(bytes) = std::fs::read(path) else { return Contents::Absent };
        let mut hasher = DefaultHasher::new();
        hasher.write(&bytes);
        Contents::Hash(hasher.finish())
    }

    /// Of a file that a run has looked at for the first time.
    fn of_new(path: &Path, began: SystemTime) -> Contents {
        let changed = path.metadata().and_then(|m| m.modified());
        // The times of files come in steps of some milliseconds.
        let is_old = changed.is_ok_and(|t| t + Duration::from_millis(20) < began);
        if is_old || !path.exists() { Contents::of(path) } else { Contents::Unknown }
    }
}

/// What has changed.
#[derive(Default)]
struct Changes {
    files: BTreeSet<PathBuf>,
    /// These, and all below them.
    folders: BTreeSet<PathBuf>,
    /// The system had no room for more.
    lost: bool,
}

/// The folders that are watched.
struct Folders {
    inotify: OwnedFd,
    by_number: HashMap<i32, PathBuf>,
    known: BTreeSet<PathBuf>,
    /// How many folders of trees there are.
    tree: usize,
    /// That the system refuses more is said once.
    refused: bool,
}

impl Folders {
    fn new() -> Result<Folders, String> {
        let flags = CreateFlags::CLOEXEC | CreateFlags::NONBLOCK;
        let inotify = inotify::init(flags).map_err(|e| {
            format!("the system does not tell of changes: {e} (sysctl fs.inotify.max_user_instances)")
        })?;
        Ok(Folders { inotify, by_number: HashMap::new(), known: BTreeSet::new(), tree: 0, refused: false })
    }

    fn add(&mut self, folder: &Path) {
        if self.known.contains(folder) {
            return;
        }
        let what = WatchFlags::CLOSE_WRITE
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::ONLYDIR
            | WatchFlags::EXCL_UNLINK;
        match inotify::add_watch(&self.inotify, folder, what) {
            Ok(number) => {
                self.by_number.insert(number, folder.to_path_buf());
                self.known.insert(folder.to_path_buf());
            }
            Err(rustix::io::Errno::NOSPC) if !self.refused => {
                self.refused = true;
                let text = format!(
                    "perilune test: {}: the system watches no more folders (sysctl \
                     fs.inotify.max_user_watches): changes in \
                     some are not seen\n",
                    folder.display()
                );
                crate::protected::write_error(text.as_bytes());
            }
            // It is gone, or nobody may look into it.
            Err(_) => {}
        }
    }

    /// A folder with all below it, but for links and names that begin with a dot.
    fn add_tree(&mut self, root: &Path) {
        let mut waiting = std::collections::VecDeque::from([root.to_path_buf()]);
        while let Some(folder) = waiting.pop_front() {
            self.tree += 1;
            if self.tree > MOST_FOLDERS {
                return;
            }
            self.add(&folder);
            let Ok(entries) = folder.read_dir() else { continue };
            for entry in entries.flatten() {
                let is_folder = entry.file_type().is_ok_and(|t| t.is_dir());
                if is_folder && !entry.file_name().as_bytes().starts_with(b".") {
                    waiting.push_back(entry.path());
                }
            }
        }
    }

    /// Takes what the system has to tell.
    fn read(&mut self, changes: &mut Changes) {
        let mut buffer = [MaybeUninit::uninit(); 8192];
        let mut new = Vec::new();
        let mut moved = Vec::new();
        let mut reader = inotify::Reader::new(&self.inotify, &mut buffer);
        // It ends with the error that there is nothing more.
        while let Ok(event) = reader.next() {
            let flags = event.events();
            if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                changes.lost = true;
                continue;
            }
            let Some(folder) = self.by_number.get(&event.wd()) else { continue };
            if flags.contains(ReadFlags::IGNORED) {
                self.known.remove(folder);
                self.by_number.remove(&event.wd());
                continue;
            }
            let Some(name) = event.file_name() else { continue };
            let path = folder.join(OsStr::from_bytes(name.to_bytes()));
            if !flags.contains(ReadFlags::ISDIR) {
                changes.files.insert(path);
            } else if flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
                // What is in it may have come before it is watched.
                if !name.to_bytes().starts_with(b".") {
                    new.push(path.clone());
                }
                changes.folders.insert(path);
            } else {
                moved.push(path.clone());
                changes.folders.insert(path);
            }
        }
        for folder in moved {
            // Watches follow a folder that is renamed; its files are told by their new names, if it is still
            // below here.
            let gone: Vec<i32> = self
                .by_number
                .iter()
                .filter(|(_, path)| path.starts_with(&folder))
                .map(|(n, _)| *n)
                .collect();
            for number in gone {
                let _ = inotify::remove_watch(&self.inotify, number);
                if let Some(path) = self.by_number.remove(&number) {
                    self.known.remove(&path);
                }
            }
        }
        for folder in new {
            self.add_tree(&folder);
        }
    }
}

/// What was waited for.
enum Heard {
    Interrupt,
    RunAll,
    Changes(Changes),
}

/// Sleeps until something has changed and it is quiet again, or somebody says something.
fn wait(folders: &mut Folders, interrupt: BorrowedFd, keys: bool) -> Result<Heard, String> {
    let mut changes = Changes::default();
    let mut first: Option<Instant> = None;
    let stdin = std::io::stdin();
    loop {
        let (told, asked, typed) = {
            let mut fds =
                vec![PollFd::new(&folders.inotify, PollFlags::IN), PollFd::new(&interrupt, PollFlags::IN)];
            if keys {
                fds.push(PollFd::new(&stdin, PollFlags::IN));
            }
            let time = first.map(|first| timespec(QUIET.min(LONGEST.saturating_sub(first.elapsed()))));
            match poll(&mut fds, time.as_ref()) {
                Ok(0) => return Ok(Heard::Changes(changes)),
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(e) => return Err(e.to_string()),
            }
            let is_set = |n: usize| fds.get(n).is_some_and(|fd| !fd.revents().is_empty());
            (is_set(0), is_set(1), is_set(2))
        };
        if asked {
            return Ok(Heard::Interrupt);
        }
        if typed {
            let mut line = [0; 1024];
            // Ctrl-D, or the terminal is gone.
            return Ok(match stdin.lock().read(&mut line) {
                Ok(0) | Err(_) => Heard::Interrupt,
                Ok(_) => Heard::RunAll,
            });
        }
        if told {
            folders.read(&mut changes);
            let first = *first.get_or_insert_with(Instant::now);
            if first.elapsed() >= LONGEST {
                return Ok(Heard::Changes(changes));
            }
        }
    }
}

/// A line for people; that nobody reads it is heard of elsewhere.
fn say(line: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Waits for the end of a run; true: an interrupt came before it.
fn wait_for_either(done: BorrowedFd, interrupt: BorrowedFd) -> bool {
    loop {
        let mut fds = [PollFd::new(&done, PollFlags::IN), PollFd::new(&interrupt, PollFlags::IN)];
        match poll(&mut fds, None) {
            Err(rustix::io::Errno::INTR) => {}
            // Then nothing can be heard; the run ends by itself.
            Err(_) => return false,
            Ok(_) => return !fds[1].revents().is_empty(),
        }
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_that_are_the_same() {
        let file = std::env::temp_dir().join(format!("perilune-watch-{}", std::process::id()));
        assert_eq!(Contents::of(&file), Contents::Absent);
        std::fs::write(&file, "one").unwrap();
        let one = Contents::of(&file);
        std::fs::write(&file, "one").unwrap();
        assert_eq!(Contents::of(&file), one);
        // It was written after the beginning of time, and may have been read before.
        assert_eq!(Contents::of_new(&file, SystemTime::UNIX_EPOCH), Contents::Unknown);
        std::fs::write(&file, "two").unwrap();
        assert_ne!(Contents::of(&file), one);
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn lists_are_cut() {
        let texts: Vec<String> = ["a", "b", "c", "d", "e", "f"].map(str::to_owned).into();
        assert_eq!(listed(&texts[..2]), "a, b");
        assert_eq!(listed(&texts), "a, b, c, d and 2 more");
    }
}
