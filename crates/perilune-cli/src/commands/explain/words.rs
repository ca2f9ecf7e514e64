//! Reasons in words: one sentence on why something stayed slow, one on what would help.

use super::model::{Decision, Function, Outcome};
use perilune_spesh::report::{Guard, Left, Reason};

fn list(types: &[&str]) -> String {
    match types {
        [] => "nothing yet".into(),
        [one] => (*one).into(),
        [all @ .., last] => format!("{} and {last}", all.join(", ")),
    }
}

/// The name, or what stands for one.
fn quoted(name: Option<&str>, otherwise: &str) -> String {
    name.map_or_else(|| otherwise.to_owned(), |name| format!("`{name}`"))
}

/// Why an instruction is the interpreter's: a word for programs, a sentence, and what would help (perhaps
/// nothing).
pub fn left(left: &Left) -> (&'static str, String, String) {
    let name = left.name.as_deref();
    let it = |otherwise: &str| quoted(name, otherwise);
    let (word, why, help) = match &left.reason {
        Reason::Native(Some(native)) if matches!(native.as_str(), "resume" | "yield" | "wrap") => (
            "switch",
            format!("goes on in another coroutine (`{native}`), which takes the runtime some time"),
            "switch less often: hand over several values at a time".into(),
        ),
        Reason::Native(Some(native)) => (
            "native",
            format!("calls `{native}`, a function of the library that is not built into machine code"),
            "if it can be done with operators, or less often, do that; else the time is the library's own"
                .into(),
        ),
        Reason::Native(None) => (
            "natives",
            format!("calls {}, which is one native function or another", it("a value")),
            "call one function here, or tell the cases apart before the loop".into(),
        ),
        Reason::Interpreted(Some((source, line))) => (
            "callee_interpreted",
            format!("calls {}, defined at {source}:{line}, which has no machine code", it("a function")),
            "see why that function has none; small functions without loops are built in place of their calls"
                .into(),
        ),
        Reason::Interpreted(None) => (
            "callees",
            format!(
                "calls {}, which is several functions in turn, or one that was not recorded",
                it("a value")
            ),
            "call one function here, or move the choice out of the loop".into(),
        ),
        Reason::NewTable => (
            "new_table",
            "makes a table each time".into(),
            "use a table again, or keep the values in local variables".into(),
        ),
        Reason::NewFunction => (
            "new_function",
            "makes a function each time".into(),
            "define it outside of the loop, and pass what it needs as arguments".into(),
        ),
        Reason::Concat => (
            "concat",
            "makes a string each time".into(),
            "collect the pieces in a table and join them once with table.concat".into(),
        ),
        Reason::NoTable(types) => (
            "not_a_table",
            format!("indexes {}, which was {}", it("a value"), list(types)),
            "index tables alone here; other values go by their metatables".into(),
        ),
        Reason::Keys(types) => (
            "keys",
            format!("{} meets {} keys", it("the table"), list(types)),
            match types[..] {
                ["string"] => {
                    "a key that is known when the program is written is faster as a field (t.name)".into()
                }
                ["float"] => "use integers as keys: x // 1 of an integer, or math.tointeger".into(),
                _ => "use keys of one type at this place: integers from 1 on are fastest".into(),
            },
        ),
        Reason::NoElement => (
            "no_element",
            format!(
                "{} meets places that the table's array does not have: new ones, or holes",
                it("an element")
            ),
            "fill tables from 1 on without holes; make them with their size if it is known".into(),
        ),
        Reason::Kinds => (
            "kinds",
            format!(
                "{} meets arrays of several kinds: of integers, of floats, of anything",
                it("an element")
            ),
            "keep elements of one type in a table: all integers, or all floats (1.0, not 1)".into(),
        ),
        Reason::NoRecord(types) => (
            "no_record",
            format!("{} is of {}", it("a field"), list(types)),
            match types[..] {
                ["string"] => {
                    "methods of strings are found by their metatable: a local function (local byte = \
                     string.byte) is faster"
                        .into()
                }
                _ => "apply it to tables alone".into(),
            },
        ),
        Reason::Shapes => (
            "shapes",
            format!("{} meets tables with different fields, or made in different order", it("a field")),
            "make all of them in one constructor, with the same fields in the same order".into(),
        ),
        Reason::Indirect => (
            "indirect",
            format!("{} is found by a metatable, or in a table used as a dictionary", it("a field")),
            "keep what is asked for in the loop in a local variable before it".into(),
        ),
        Reason::Iterator => (
            "iterator",
            "asks an iterator for the next values".into(),
            "over arrays a numeric loop (for i = 1, #t) is compiled whole".into(),
        ),
        Reason::Varargs => (
            "varargs",
            "handles variable arguments".into(),
            "name the arguments, or take them out of `...` once before the loop".into(),
        ),
        Reason::Close => (
            "close",
            "ends variables that inner functions use".into(),
            "define functions outside of the loop".into(),
        ),
        Reason::Operands(types) => (
            "operands",
            format!("{} is not always a number: what came of it was {}", it("an operand"), list(types)),
            "conversions, and metamethods that are no functions of Lua, are the interpreter's: keep numbers \
             in it, converted with tonumber once"
                .into(),
        ),
        Reason::Plain => ("plain", "is not built into machine code yet".into(), String::new()),
    };
    (word, why, help)
}

/// Why machine code was left at a place, and what would help.
pub fn guard(guard: &Guard) -> (String, String) {
    let name = guard.name.as_deref();
    let seen: Vec<&str> =
        guard.seen.iter().map(|(types, _)| types.as_str()).filter(|t| !t.is_empty()).collect();
    if guard.is_new {
        return (
            "takes a way that had never been taken while it was recorded".into(),
            "nothing, if it stays rare: the next machine code of the function knows it".into(),
        );
    }
    if guard.expected.is_empty() && guard.begins {
        return (
            "what is found out once, where a loop or the function begins, was not as when it was recorded: \
             which types arrays hold, which fields tables have"
                .into(),
            "use tables made alike, and arrays of one type".into(),
        );
    }
    if guard.expected.is_empty() && guard.same_native {
        return (
            format!("{} got arguments that it takes the long way for", quoted(name, "what it calls")),
            "nothing, if it stays rare; else give it what it got before: tables without metamethods, numbers \
             that are no strings"
                .into(),
        );
    }
    if guard.expected.is_empty() && matches!(guard.op, "CALL" | "TAILCALL") {
        return (
            format!("{} was another function than when it was recorded", quoted(name, "what it calls")),
            "call functions that stay the same in a loop, or sort what it works on by what is called".into(),
        );
    }
    if guard.expected.is_empty() {
        let seen = if seen.is_empty() { String::new() } else { format!(" (it met {})", list(&seen)) };
        return (
            format!("{} was not as when it was recorded{seen}", quoted(name, "what it is applied to")),
            "use tables made alike, and functions that stay the same".into(),
        );
    }
    let (what, expected) = (quoted(name, "a value"), list(&guard.expected));
    let help = match (&guard.expected[..], &seen[..]) {
        (["integer"], ["float"]) | (["float"], ["integer"]) => {
            "keep it one of the two: 0.0 to begin with for floats, // and math.tointeger for integers"
        }
        _ => "keep values of one type in it",
    };
    (format!("{what} was always {expected}, and then {}", list(&seen)), help.into())
}

/// Why a function has no machine code where it is hot, and what would help.
pub fn not_compiled(function: &Function, mode: &str, unavailable: Option<&str>) -> (String, String) {
    if let Some(why) = unavailable {
        return (format!("there is no machine code: {why}"), String::new());
    }
    let of_loops = function.decisions.last().is_some_and(|d| !d.starts);
    let what = if of_loops { "its loops were" } else { "the function was" };
    match function.decisions.last().map(|d| d.outcome) {
        Some(Outcome::NoGain { compiled, interpreted }) => (
            format!(
                "{what} not compiled, because machine code is expected to take {:.0}% of what the \
                 interpreter does",
                compiled * 100.0 / interpreted.max(1.0)
            ),
            "what machine code would leave to the interpreter is listed in the function: do less of that"
                .into(),
        ),
        Some(Outcome::TooLittle { saves_ns, costs_ns }) => (
            format!(
                "{what} not compiled yet: to compile costs {:.1} ms, to save {:.1} ms if the program goes on \
                 as long again{}",
                costs_ns / 1e6,
                saves_ns / 1e6,
                if saves_ns > costs_ns / 2.0 { ", and a program younger than 30 ms has to save more" } else { "" }
            ),
            "nothing, if the program is as short as this; --mode blocking shows what machine code would come \
             to".into(),
        ),
        Some(Outcome::InPlace) => (
            "the function is built in place where it is called, so its own instructions are interpreted only \
             where something else calls it"
                .into(),
            "nothing: it is compiled if that goes on".into(),
        ),
        Some(Outcome::TooLarge) => (
            "the function is too large to be compiled".into(),
            "move its hot loops to functions of their own".into(),
        ),
        Some(Outcome::NoRoom) => (
            "there was as much machine code as there may be; what had not run for longest was to make room".into(),
            "PERILUNE_SPESH_ROOM says how much there may be, in KiB; 65536 is the most".into(),
        ),
        Some(Outcome::Failed) => (
            "the compiler has failed, or there is no memory for machine code".into(),
            "this is a fault of perilune: report it, with the script".into(),
        ),
        // Other lines of it have.
        Some(Outcome::Compiled { .. }) if function.is_vararg || of_loops => (
            "only the function's loops have machine code, and this line is in none that was hot".into(),
            "move what runs often into a loop, or into a function of its own without `...`".into(),
        ),
        Some(Outcome::Compiled { .. }) => ("this line was not compiled".into(), String::new()),
        None if mode == "auto" => (
            "was not looked at: it was never running when the compiler recorded what is hot, or had too \
             small a part in that".into(),
            "nothing, if the program is short; --mode blocking looks at once".into(),
        ),
        None if function.is_vararg => (
            "was not compiled: calls of functions with `...` never enter machine code, and no loop of it was \
             hot".into(),
            "name the arguments".into(),
        ),
        None => ("was not looked at: it was not hot for long enough".into(), String::new()),
    }
}

/// Why a line that has machine code is interpreted all the same.
pub fn not_always(function: &Function) -> (String, String) {
    match function.compiled().next() {
        Some((decision, ..)) => (
            format!(
                "is machine code since {:.1} ms after the program's beginning; the interpreter ran it \
                 before, and runs it where a caller or a hook keeps machine code out",
                decision.at_ns as f64 / 1e6
            ),
            String::new(),
        ),
        None => ("was interpreted".into(), String::new()),
    }
}

/// Why a line that has machine code, and runs as that, takes time in the runtime.
pub fn helped() -> (String, String) {
    (
        "is machine code; most of its time goes to what the runtime does for that: it switches coroutines, \
         protects calls, grows tables or looks through them"
            .into(),
        "do that less often; nothing else is left to be compiled here".into(),
    )
}

/// Time that went to the collector.
pub fn collected() -> (String, String) {
    (
        "the collector works here: the line allocates".into(),
        "perilune prof alloc says who allocates what; make fewer objects, or use them again".into(),
    )
}

/// Time that went to the library.
pub fn library(native: &str) -> (String, String) {
    (
        format!("the time is that of `{native}`, a function of the library"),
        "call it less often, or with less".into(),
    )
}

/// A decision, for the list under a function.
pub fn decision(decision: &Decision) -> String {
    let what = match (decision.starts, decision.lines) {
        (true, _) => "the function".to_owned(),
        (false, (first, last)) if first == last => format!("the loop at line {first}"),
        (false, (first, last)) => format!("loops in lines {first} to {last}"),
    };
    let at = format!("{:.1} ms", decision.at_ns as f64 / 1e6);
    let times = match decision.times {
        1 => String::new(),
        n => format!(" (looked at {n} times)"),
    };
    let size = format!("{} instructions", decision.instructions);
    match decision.outcome {
        Outcome::Compiled { bytes, ns } => {
            format!("at {at} compiled: {what}, {size}, {bytes} bytes in {:.1} ms", ns as f64 / 1e6)
        }
        Outcome::NoGain { compiled, interpreted } => {
            let part = compiled * 100.0 / interpreted.max(1.0);
            format!(
                "at {at} not compiled: {what}, {size}, would take {part:.0}% of the interpreter's time{times}"
            )
        }
        Outcome::TooLittle { saves_ns, costs_ns } => {
            let [saves, costs] = [saves_ns, costs_ns].map(|ns| ns / 1e6);
            format!("at {at} not compiled yet: {what}, {size}, {costs:.1} ms to save {saves:.1} ms{times}")
        }
        Outcome::InPlace => {
            format!(
                "at {at} not compiled by itself: {what}, {size}, is built in place where it is called{times}"
            )
        }
        Outcome::TooLarge => format!("at {at} not compiled: {what}, {size}, is too large{times}"),
        Outcome::NoRoom => format!("at {at} not compiled: no room for {what}, {size}{times}"),
        Outcome::Failed => format!("at {at} could not be compiled: {what}, {size}{times}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_name_what_they_are_about() {
        let left_of = |name: Option<&str>, reason| {
            let (_, why, help) =
                left(&Left { line: 1, op: "GETINDEX", times: 1, name: name.map(Into::into), reason });
            (why, help)
        };
        let (why, _) = left_of(Some("t[k]"), Reason::Keys(vec!["string", "integer"]));
        assert_eq!(why, "`t[k]` meets string and integer keys");
        let (why, _) = left_of(None, Reason::Keys(vec!["string"]));
        assert_eq!(why, "the table meets string keys");
        let seen = vec![("string".to_owned(), 3)];
        let (op, expected, name) = ("ADD", vec!["integer"], Some("x".into()));
        let (why, _) = guard(&Guard {
            line: 1,
            op,
            times: 3,
            expected,
            seen,
            is_new: false,
            begins: false,
            same_native: false,
            name,
        });
        assert_eq!(why, "`x` was always integer, and then string");
    }
}
