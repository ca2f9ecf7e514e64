//! The table itself.

use super::Takes::{File, Nothing, Number, One, Text, Time};
use super::{Command, Kind, Opt, Takes, completions_command, help_command, man_command};
use crate::commands::{bench, build, explain, fibers, gc_stats, heap, latency, prof, test, top, trace};

const fn opt(names: &'static [&'static str], takes: Takes, about: &'static str) -> Opt {
    Opt { names, takes, about }
}

/// What `lua` takes, and what asks about the command itself.
pub const LUA: &[Opt] = &[
    opt(&["-e"], Text("STAT"), "run a statement"),
    opt(&["-i"], Nothing, "go interactive after the script"),
    opt(&["-l"], Text("MOD"), "require a module into a global of its name; -l g=MOD: into g"),
    opt(&["-v"], Nothing, "print the version of the language"),
    opt(&["-E"], Nothing, "ignore LUA_INIT, LUA_PATH and LUA_CPATH"),
    opt(&["-W"], Nothing, "turn warnings on"),
    opt(&["--"], Nothing, "end of options"),
    opt(&["-"], Nothing, "end of options; the script is standard input"),
    opt(&["-h", "--help"], Nothing, "print this"),
    opt(&["--version"], Nothing, "print version, commit and build"),
];

/// The options that all commands have that watch a program.
const OBSERVE: &[Opt] = &[
    ATTACH,
    opt(&["--duration"], Time("S"), "watch for S seconds (250ms, 10s, 2m)"),
    opt(&["--events"], Text("LIST"), "what is recorded: categories joined by commas; -NAME leaves one out"),
    opt(&["--ring"], Number("N"), "events that a domain's ring holds (262144)"),
    opt(&["--sched"], Nothing, "ask the kernel too: who ran when, who displaced whom"),
    opt(&["--from-file"], File("FILE"), "read a recording or an event file instead of running anything"),
    opt(&["--json"], Nothing, "write JSON; what the script prints goes to standard error then"),
    OUTPUT,
];

const ATTACH: Opt = opt(&["--attach"], Number("PID"), "watch a process that runs");
const OUTPUT: Opt = opt(&["-o", "--output"], File("FILE"), "write to FILE instead of standard output");
const LINK: Opt =
    opt(&["--link"], Text("TEMPLATE"), "what source places link to (vscode://file{path}:{line})");
const NO_OPEN: Opt = opt(&["--no-open"], Nothing, "only say where the viewer is");
const CPU: Opt = opt(&["--cpu"], Number("HZ"), "sample processor time so many times per second");
const ALLOC: Opt = opt(&["--alloc"], Number("BYTES"), "sample one allocation in so many bytes");
const TOP: Opt = opt(&["--top"], Number("N"), "rows of each table (20)");
const ONE_DOMAIN: Opt = opt(&["--domain"], Number("N"), "only this domain");

/// What profiles are written to, for messages: those of `prof` share the option `-o` of all who observe.
const PROFILE_FILES: &str = "\
-o writes the profile and may be given several times. FILE's end says how:
.svg .html (flame graphs), .folded, .pb (pprof), .speedscope.json, .json, .txt
";

const WATCH: &[&str] = &["[options] [--] SCRIPT [ARGUMENTS]", "[options] --attach PID", "[options] FILE"];

/// All subcommands, in the order in which they are listed.
pub const COMMANDS: &[Command] = &[
    Command {
        words: "run",
        about: "run a script, whatever it is called",
        forms: &["SCRIPT [ARGUMENTS]"],
        text: "Runs a script as 'perilune SCRIPT' does.\n",
        options: &[],
        shared: &[],
        kind: Kind::Lua,
    },
    Command {
        words: "repl",
        about: "the interactive mode, after a script if one is named",
        forms: &["[SCRIPT [ARGUMENTS]]"],
        text: "Reads Lua from the terminal, runs it and prints what it comes to.\n",
        options: &[],
        shared: &[],
        kind: Kind::Lua,
    },
    Command {
        words: "test",
        about: "run test files, in parallel, each in a process of its own",
        forms: &["[options] [FILE|FOLDER...]"],
        text: "\
Runs the files whose names end in _test.lua or _spec.lua: below the folders that are named, or below spec,
test and tests, or below the current folder. They use describe, it and expect, busted's words, or plain
asserts. What .busted says in the current folder is heeded.
",
        options: &[
            opt(&["-j", "--jobs"], Number("N"), "files at a time (as many as there are cores)"),
            opt(&["--timeout"], Time("S"), "end a test after so long (60s)"),
            opt(&["--filter"], Text("PATTERN"), "only tests whose names match a Lua pattern"),
            opt(&["--filter-out"], Text("PATTERN"), "no tests whose names match a Lua pattern"),
            opt(&["--tags"], Text("TAGS"), "only tests with one of these tags: #TAG in a name"),
            opt(&["--exclude-tags"], Text("TAGS"), "no tests with one of these tags"),
            opt(&["--watch"], Nothing, "run again what a changed file concerns, until Ctrl-C"),
            opt(&["--fail-fast"], Nothing, "begin no further file after one in which something failed"),
            opt(&["--helper"], File("FILE"), "run FILE before each test file"),
            opt(&["--lpath"], Text("PATH"), "where modules are looked for first (./src/?.lua;...)"),
            opt(
                &["--format"],
                One("FORMAT", &["plain", "tap", "junit"]),
                "how to report: plain, tap or junit (plain)",
            ),
            opt(&["-o", "--output"], File("FILE"), "write the report to FILE"),
            opt(&["-v", "--verbose"], Nothing, "name every test, and show what files print"),
            opt(&["--coverage"], Nothing, "count executed lines: a table, and lcov.info for other tools"),
            opt(&["--lcov"], File("FILE"), "the same, into FILE"),
        ],
        shared: &[],
        kind: Kind::Own(test::run),
    },
    Command {
        words: "build",
        about: "make an executable of a script, its modules and its data",
        forms: &["[options] -o FILE SCRIPT", "--list [options] SCRIPT"],
        text: "\
Writes an executable that runs without perilune and without other files. Modules are found by their names in
calls of require, in LUA_PATH.
",
        options: &[
            opt(&["-o", "--output"], File("FILE"), "the executable"),
            opt(&["--include"], Text("MODULE"), "put a module in that is not found by reading (repeatable)"),
            opt(&["--without"], Text("MODULE"), "leave a module out (repeatable)"),
            opt(&["--asset"], File("FILE"), "put a file in, or a folder, for pl.asset (repeatable)"),
            opt(
                &["--trace"],
                Text("RUN"),
                "run the script with the words of RUN as its arguments ('' for none),\n\
                 and put in the modules and assets that it asks for (repeatable)",
            ),
            opt(&["--list"], Nothing, "print what goes in: kind, name, file, bytes"),
        ],
        shared: &[],
        kind: Kind::Own(build::run),
    },
    Command {
        words: "bench",
        about: "what programs cost, here and beside other implementations",
        forms: &["[options] FILE|FOLDER... [-- ARGUMENTS]"],
        text: "\
Runs Lua programs several times, each run in a process of its own, and says what they cost.
A folder stands for all files below it whose names end in .lua.
",
        options: &[
            opt(
                &["--against"],
                Text("COMMAND"),
                "measure COMMAND beside this, in turns (repeatable): a name on PATH\nor a file, with options",
            ),
            opt(&["--runs"], Number("N"), "rounds that count (7)"),
            opt(&["--warmup"], Number("N"), "rounds before these that do not count (1)"),
            opt(&["--timeout"], Number("S"), "end a run after S seconds (600)"),
            opt(&["--json"], Nothing, "write the figures as JSON"),
        ],
        shared: &[],
        kind: Kind::Own(bench::run),
    },
    Command {
        words: "top",
        about: "what a program does now: domains, tasks, heaps, busiest functions",
        forms: &["[options] --attach PID", "[options] [--] SCRIPT [ARGUMENTS]"],
        text: "Shows what a program does: its domains, tasks, heaps, collections, busiest functions.\n\
               q or Ctrl-C ends it.\n",
        options: &[
            opt(&["--interval"], Time("S"), "show anew every S seconds (1s)"),
            opt(&["-n"], Number("N"), "end after N times"),
            opt(&["--batch"], Nothing, "write blocks of text, also on a terminal"),
            opt(
                &["--cpu"],
                Number("HZ"),
                "samples of processor time per second, for the busiest functions (97); 0: none",
            ),
        ],
        shared: OBSERVE,
        kind: Kind::Own(top::run),
    },
    Command {
        words: "fibers",
        about: "what every fiber and task is at: where, what it waits for, for how long",
        forms: &["[options] --attach PID"],
        text: "\
Lists the fibers and tasks of all domains of a process that runs: what each is called, where it is, what it
waits for, for how long, and how old it is; the oldest first. Those at the same place, which do the same, are
one entry with their number. The process goes on meanwhile.
",
        options: &[
            ATTACH,
            opt(&["--top"], Number("N"), "so many entries of each domain (40)"),
            opt(&["--flat"], Nothing, "an entry for each fiber"),
            ONE_DOMAIN,
            opt(&["--json"], Nothing, "write JSON, with an entry for each fiber"),
            OUTPUT,
        ],
        shared: &[],
        kind: Kind::Own(fibers::run),
    },
    Command {
        words: "trace",
        about: "a timeline of domains, tasks, waits, collections",
        forms: &["COMMAND ... (perilune trace COMMAND --help tells more)"],
        text: "",
        options: &[],
        shared: &[],
        kind: Kind::Group,
    },
    Command {
        words: "trace record",
        about: "writes what happens in a program to a file",
        forms: &["-o FILE [options] [--] SCRIPT [ARGUMENTS]", "-o FILE [options] --attach PID"],
        text: "Writes what happens in a program to FILE, until it ends (or, attached, until Ctrl-C).\n",
        options: &[
            CPU,
            ALLOC,
            opt(
                &["--snapshot-when"],
                Text("T"),
                "keep the last moments in memory, and write them when T happens (repeatable):\n\
                 pause>TIME       the collector stops a domain for longer\n\
                 task-late>TIME   a task waits longer before it starts\n\
                 timer-late>TIME  a timer rings later\n\
                 error            an error leaves the program, a task or a domain\n\
                 mark:NAME        pl.trace.mark(NAME)",
            ),
            opt(&["--keep"], Time("S"), "how much is kept for a snapshot (10s)"),
            opt(
                &["--snapshots"],
                Number("N"),
                "end after N snapshots (1): FILE, then FILE with a number before its ending",
            ),
        ],
        shared: OBSERVE,
        kind: Kind::Own(trace::record::record),
    },
    Command {
        words: "trace run",
        about: "records, then opens the viewer",
        forms: &["[options] [--] SCRIPT [ARGUMENTS]", "[options] --attach PID"],
        text: "Records what happens in a program, then opens the viewer in a browser. With -o the recording \
            is kept.\n",
        options: &[NO_OPEN, LINK, CPU, ALLOC],
        shared: OBSERVE,
        kind: Kind::Own(trace::record::run),
    },
    Command {
        words: "trace dump",
        about: "writes events as text",
        forms: WATCH,
        text: "Writes events as text, one line each: time in seconds, who, what, how long, arguments.\n",
        options: &[],
        shared: OBSERVE,
        kind: Kind::Own(trace::dump::run),
    },
    Command {
        words: "trace show",
        about: "opens the viewer in a browser",
        forms: WATCH,
        text: "Shows a trace in the browser, until Ctrl-C. The address is printed.\n",
        options: &[NO_OPEN, LINK],
        shared: OBSERVE,
        kind: Kind::Own(trace::show::run),
    },
    Command {
        words: "trace render",
        about: "writes a page or a picture",
        forms: &[
            "-o OUT.html|OUT.svg [options] FILE",
            "-o OUT.html|OUT.svg [options] [--] SCRIPT [ARGUMENTS]",
        ],
        text: "Writes a trace as a page that needs nothing else, or as a picture.\n",
        options: &[
            opt(&["--from"], Time("S"), "leave out what was before (250ms, 10s)"),
            opt(&["--show"], Time("S"), "show so much (default: all; --duration does the same for a FILE)"),
            opt(&["--bars"], Number("N"), "about so many bars one by one, shorter ones added up (400000)"),
            opt(&["--width"], Number("N"), "width of a picture in pixels (1600)"),
            LINK,
        ],
        shared: OBSERVE,
        kind: Kind::Own(trace::render::run),
    },
    Command {
        words: "trace export",
        about: "writes a trace for other viewers",
        forms: &[
            "--to FORMAT [options] FILE",
            "--to FORMAT [options] [--] SCRIPT [ARGUMENTS]",
            "--to FORMAT [options] --attach PID",
        ],
        text: "Writes a trace in a format that other tools read.\n",
        options: &[opt(
            &["--to"],
            One("FORMAT", &["perfetto", "chrome"]),
            "perfetto: protobuf, for ui.perfetto.dev and trace_processor;\n\
             chrome: JSON, for chrome://tracing, Perfetto, Speedscope",
        )],
        shared: OBSERVE,
        kind: Kind::Own(trace::export::run),
    },
    Command {
        words: "prof",
        about: "where processor time goes, who allocates, what is waited for",
        forms: &["COMMAND ... (perilune prof COMMAND --help tells more)"],
        text: "",
        options: &[],
        shared: &[],
        kind: Kind::Group,
    },
    Command {
        words: "prof cpu",
        about: "where processor time goes, by function and call path",
        forms: WATCH,
        text: PROFILE_FILES,
        options: &[
            opt(&["--hz"], Number("N"), "samples per second of processor time of each thread (997)"),
            TOP,
            opt(&["--lines"], Nothing, "rows are lines, not functions"),
            ONE_DOMAIN,
        ],
        shared: OBSERVE,
        kind: Kind::Own(prof::cpu),
    },
    Command {
        words: "prof alloc",
        about: "who allocates, and how much of it survives",
        forms: WATCH,
        text: PROFILE_FILES,
        options: &[
            opt(&["--rate"], Number("BYTES"), "bytes allocated between two samples, on average (524288)"),
            TOP,
            opt(&["--lines"], Nothing, "rows are lines, not functions"),
            ONE_DOMAIN,
        ],
        shared: OBSERVE,
        kind: Kind::Own(prof::alloc),
    },
    Command {
        words: "prof offcpu",
        about: "where the program waits, for what, and who woke it",
        forms: WATCH,
        text: PROFILE_FILES,
        options: &[TOP, ONE_DOMAIN],
        shared: OBSERVE,
        kind: Kind::Own(prof::offcpu::run),
    },
    Command {
        words: "heap",
        about: "what is alive and who holds it; what has grown",
        forms: &[
            "[options] SCRIPT [ARGUMENTS]      at the script's end",
            "[options] --at S [--at S] SCRIPT [ARGUMENTS]",
            "[options] --attach PID",
            "[options] FILE [NEWER]",
        ],
        text: "",
        options: &[
            opt(&["--at"], Time("S"), "when: so long after the beginning; two of them are compared"),
            TOP,
            opt(
                &["--retainers"],
                Text("WHAT"),
                "paths from roots to: an address (0x...), a path, a field's name, or a\n\
                 part of a type's name",
            ),
            opt(&["--sites"], Nothing, "alive bytes by allocation site (sampled)"),
            opt(&["--rate"], Number("BYTES"), "bytes allocated between two samples, on average (65536)"),
            opt(&["--save"], File("FILE"), "keep the snapshot (several: FILE.1, FILE.2)"),
        ],
        shared: OBSERVE,
        kind: Kind::Own(heap::run),
    },
    Command {
        words: "gc-stats",
        about: "collections and pauses of each domain, adding up",
        forms: WATCH,
        text: "Writes where each domain's time went, its collector's pauses, and what went through its \
            memory.\n",
        options: &[],
        shared: OBSERVE,
        kind: Kind::Own(gc_stats::run),
    },
    Command {
        words: "latency",
        about: "what was late, and where",
        forms: WATCH,
        text: "\
Writes how long the collector stopped the program, tasks lay in queues, who was woken waited for a turn,
timers were late; and the slowest of it. Of parallel loops: how evenly domains shared the work.
Of servers: what the time of requests went to. Of connections: what made them slow, and what to do.
",
        options: &[opt(&["--top"], Number("N"), "how many of the slowest (30)")],
        shared: OBSERVE,
        kind: Kind::Own(latency::run),
    },
    Command {
        words: "explain",
        about: "what ran as machine code, line by line, and why the rest did not",
        forms: &["[options] [--] SCRIPT [ARGUMENTS]"],
        text: "\
Runs a script with machine code and writes, when it has ended, where its time went: in machine code, in the
interpreter, in the library, in the collector. Then what was compiled and when, what was inlined, which
instructions were left to the interpreter and why, which expectations of machine code failed; and the
functions that took most of the time, line by line.
",
        options: &[
            opt(
                &["--mode"],
                One("MODE", &["auto", "blocking"]),
                "auto: compile beside the script what is hot for long enough, as programs run;\n\
                 blocking: compile what is hot at once, for scripts that run too shortly for auto\n\
                 (what PERILUNE_SPESH says, or auto)",
            ),
            opt(&["--function"], Text("NAME"), "only functions of this name, or defined at this FILE:LINE"),
            opt(&["--all"], Nothing, "every function that took time or was looked at, with every line"),
            opt(&["--hz"], Number("N"), "samples per second of processor time of each thread (997)"),
            TOP,
            opt(&["--json"], Nothing, "write JSON; what the script prints goes to standard error then"),
            opt(&["-o", "--output"], File("FILE"), "write to FILE instead of standard output"),
        ],
        shared: &[],
        kind: Kind::Own(explain::run),
    },
    Command {
        words: "completions",
        about: "print what makes a shell complete words of this command",
        forms: &["bash|zsh|fish"],
        text: "\
Prints a script for a shell:
  bash: perilune completions bash > ~/.local/share/bash-completion/completions/perilune
  zsh:  perilune completions zsh > DIR/_perilune, where DIR is one of $fpath
  fish: perilune completions fish > ~/.config/fish/completions/perilune.fish
",
        options: &[],
        shared: &[],
        kind: Kind::Own(completions_command),
    },
    Command {
        words: "man",
        about: "print the manual page",
        forms: &[""],
        text: "Prints the manual page, for man: perilune man > DIR/man1/perilune.1, or perilune man | man -l \
            -\n",
        options: &[],
        shared: &[],
        kind: Kind::Own(man_command),
    },
    Command {
        words: "help",
        about: "what can be written on the command line, or after a command",
        forms: &["[COMMAND]"],
        text: "",
        options: &[],
        shared: &[],
        kind: Kind::Own(help_command),
    },
];
