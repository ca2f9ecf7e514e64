//! The texts of refusals that the programs of `tests/parallel/outcomes` do not show.

use crate::stand_in::{new_vm, run};
use perilune_vm::parcel::{PackRules, Reason, Step};

/// The text of the refusal of what a program returns.
fn text(source: &str, rules: PackRules) -> String {
    let mut vm = new_vm();
    let values = run(&mut vm, source, "a.lua").expect("the program runs");
    match vm.pack(&values, rules) {
        Ok(_) => panic!("it may cross: {source}"),
        Err(refusal) => refusal.text(),
    }
}

#[test]
fn values_are_called_what_they_cross_as() {
    let one = "return coroutine.create(print)";
    let two = "return 1, {a = {['b c'] = {[2.5] = {[true] = coroutine.create(print)}}}}";
    let what = "cannot go to another domain: it is a coroutine, whose stack belongs to the domain that made \
        it. \
        Send the function, and make the coroutine over there";
    assert_eq!(text(one, PackRules::TASK), format!("the function {what}"));
    assert_eq!(text(one, PackRules::SPAWN), format!("the function {what}"));
    assert_eq!(text("return print, coroutine.create(print)", PackRules::TASK), format!("argument 2 {what}"));
    assert_eq!(
        text("return print, coroutine.create(print)", PackRules::LOOP),
        format!("the function that combines results {what}")
    );
    assert_eq!(text(one, PackRules::MESSAGE), format!("the message {what}"));
    assert_eq!(text(one, PackRules::RESULT), format!("result 1 {what}"));
    assert_eq!(text(one, PackRules::ERROR), format!("the error value {what}"));
    assert_eq!(
        text(two, PackRules::MESSAGE),
        format!("value 2 of the message, field 'a'[\"b c\"][2.5][true], {what}")
    );
}

#[test]
fn stripped_functions_have_no_names() {
    let source = "local t = {} local f = load(string.dump(function() t[1] = 1 end, true)) \
        debug.setupvalue(f, 1, {}) return f";
    assert_eq!(
        text(source, PackRules::TASK),
        "the function cannot go to another domain: the function at ?:1 stores into '?'. \
         It would have a frozen copy there, and the table here would never see the store. \
         Pass it as an argument to get a copy to write to, and return that, or use pl.array, pl.map or a \
         channel, or pl.per_domain for a cache in each domain"
    );
    let source = "local n = 0 local function f() n = n + 1 end return load(string.dump(f, true))";
    assert_eq!(
        text(source, PackRules::TASK),
        "the function cannot go to another domain: the function at ?:1 assigns the captured variable '?'. \
         There would be two variables from then on, and neither domain would see what the other assigns. \
         Pass its value as an argument and return the new one, or use pl.atomic, pl.array or a channel"
    );
}

#[test]
fn userdata_stay() {
    let refused = text("local f = io.tmpfile() f:close() return {file = f}", PackRules::RESULT);
    assert_eq!(
        refused,
        "result 1, field 'file', cannot go to another domain: it is a userdata (FILE*), which belongs to the \
         domain that made it. \
         Make it in the domain that uses it, or send what it holds"
    );
}

#[test]
fn facts_come_before_texts() {
    let mut vm = new_vm();
    let source = "local count = 0\nlocal function f()\ncount = count + 1\nend\nreturn {{run = f}}";
    let values = run(&mut vm, source, "a.lua").expect("the program runs");
    let refusal = vm.pack(&values, PackRules::MESSAGE).err().expect("it may not cross");
    assert_eq!(refusal.reason, Reason::Assigns);
    let steps: Vec<&Step> = refusal.path.iter().map(|n| &n.step).collect();
    let variable = Step::Upvalue { name: "count".into(), line: 1, assigned: 3 };
    assert_eq!(steps, [&Step::Root(1), &Step::Field("[1]".into()), &Step::Field(".run".into()), &variable]);
    let place = refusal.path[2].function.as_ref().expect("a function");
    assert_eq!((place.source.as_str(), place.line), ("a.lua", 2));
}
