//! What the compiler says about variables and names: facts that decide what may cross to another domain.

use perilune_syntax::{Proto, VarKind, compile, dump::dump, undump::undump};
use std::sync::Arc;

fn compiled(source: &str) -> Arc<Proto> {
    compile(source.as_bytes(), b"=test").expect("the source compiles")
}

/// Kind of upvalue `x` of the first function in the source that has one, with its lines.
fn kind_of_x(source: &str) -> (VarKind, u32, u32) {
    let main = compiled(source);
    let mut pending = vec![main];
    while let Some(proto) = pending.pop() {
        if let Some(up) = proto.upvalues.iter().find(|u| u.name.as_deref() == Some(b"x")) {
            return (up.kind, up.line, up.assigned_line);
        }
        pending.extend(proto.protos.iter().rev().cloned());
    }
    panic!("nothing captures x in {source}");
}

#[test]
fn kinds_of_captured_variables() {
    use VarKind::*;
    let cases = [
        ("local x = 1\nreturn function() return x end", (Unassigned, 1, 0)),
        ("local x <const> = {}\nreturn function() return x end", (Unassigned, 1, 0)),
        ("local x = 1\nx = 2\nreturn function() return x end", (Settled, 1, 2)),
        ("local x = 0\nreturn function() x = x + 1 end", (Mutable, 1, 2)),
        ("local function x() return x end", (Unassigned, 1, 0)),
        ("local function f(x) x = x or 1 return function() return x end end", (Settled, 1, 1)),
        ("for x = 1, 2 do f(function() return x end) end", (Unassigned, 1, 0)),
        ("for _, x in f() do x = 1 f(function() return x end) end", (Settled, 1, 1)),
        // One assignment to a bare local, by the function that declares it.
        ("local x\nx = function() return x end", (Late, 1, 2)),
        ("local x, y\nfunction y() return x() end\nfunction x() return y() end", (Late, 1, 3)),
        ("local x\nif a then x = 1 end\nreturn function() return x end", (Settled, 1, 2)),
        ("while a do\nlocal x\nx = 1\nf(function() return x end) end", (Settled, 2, 3)),
        (
            "local x\ndo ::l:: if a then goto l end end\nx = 1\nreturn function() return x end",
            (Settled, 1, 3),
        ),
        // Twice in the text.
        ("local x\nif a then x = 1 else\nx = 2 end return function() return x end", (Settled, 1, 3)),
        ("local x\nx, x = 1, 2 return function() return x end", (Settled, 1, 2)),
        // Once in the text, but perhaps more than once when it runs.
        ("local x\nfor i = 1, 2 do x = i end return function() return x end", (Settled, 1, 2)),
        ("local x\nfor i in f() do x = i end return function() return x end", (Settled, 1, 2)),
        ("local x\nwhile a do x = i end return function() return x end", (Settled, 1, 2)),
        ("local x\nrepeat x = i until x return function() return x end", (Settled, 1, 2)),
        ("local x\n::l::\nx = 1 if a then goto l end return function() return x end", (Mutable, 1, 3)),
        ("local x\nlocal function set() x = 1 end return function() return x end", (Mutable, 1, 2)),
        // A loop or a label leads from the function back to the assignment.
        ("local x = 1\nwhile x < 3 do f(function() return x end)\nx = x + 1 end", (Mutable, 1, 3)),
        ("local x\nwhile a do x = 1\nf(function() return x end) end", (Mutable, 1, 2)),
        ("local x\nwhile f(function() return x end) do\nx = 1 end", (Mutable, 1, 3)),
        ("local x\nrepeat x = 1\nuntil f(function() return x end)", (Mutable, 1, 2)),
        ("local x\nfor i = 1, 2 do x = i\nf(function() return x end) end", (Mutable, 1, 2)),
        ("local x\n::l::\nx = 1 f(function() return x end) goto l", (Mutable, 1, 3)),
        ("local x\ndo ::l::\nx = 1 if a then goto l end end return function() return x end", (Settled, 1, 3)),
        // Not inside the variable's scope.
        ("for i = 1, 2 do local x\nx = i x = i + 1 f(function() return x end) end", (Settled, 1, 2)),
        ("for x = 1, 2 do x = x + 1 f(function() return x end) end", (Settled, 1, 1)),
        ("::l:: local x = 1\nx = 2 f(function() return x end) goto l", (Settled, 1, 2)),
        // Functions within the one that captures it first.
        ("local x\nx = 1 x = 2 return function() return function() return x end end", (Settled, 1, 2)),
        // After the function, and where the values of an assignment stand.
        ("local x\nx = 1 f(function() return x end)\nx = 2", (Mutable, 1, 3)),
        ("local x = 1\nx = f(function() return x end)", (Mutable, 1, 2)),
        ("local x = 1\nfunction x() return x end", (Mutable, 1, 2)),
        // Not bare.
        ("local x = nil\nx = 1 return function() return x end", (Settled, 1, 2)),
        ("local x, y = 1\nx = 1 return function() return x end", (Settled, 1, 2)),
    ];
    for (source, expected) in cases {
        assert_eq!(kind_of_x(source), expected, "in {source}");
    }
}

#[test]
fn facts_survive_dumping() {
    let source = "local x x = function() return x end local y = 1 y = 2 return function() return y end";
    let proto = compiled(source);
    assert_eq!(undump(&dump(&proto, false), b"=d").expect("our own chunk"), proto);
    let stripped = undump(&dump(&proto, true), b"=d").expect("our own chunk");
    let facts = |p: &Proto| (p.upvalues[0].kind, p.upvalues[0].line, p.upvalues[0].assigned_line);
    assert_eq!(facts(&stripped.protos[0]), (VarKind::Late, 0, 0));
    assert_eq!(facts(&stripped.protos[1]), (VarKind::Settled, 0, 0));
}

#[test]
fn mentioned_names() {
    let proto = compiled(
        "local t = {}\n\
         local function f(s)\n\
           g = h(a.b)\n\
           g = t.field\n\
           return function() i = i + 1 return s:trim(), function() return print, t.deep end end\n\
         end\n\
         do local _ENV = {} function k() return unseen end end",
    );
    let f = &proto.protos[0];
    let env =
        f.upvalues.iter().position(|u| u.name.as_deref() == Some(b"_ENV")).expect("names globals") as u8;
    let list = |upvalue: u8| {
        let fields = f.mentions().fields.iter().filter(|m| m.upvalue == upvalue);
        let text = |m: &perilune_syntax::mentions::NamedField| {
            let (reads, assigns) = (if m.reads { "r" } else { "" }, if m.assigns { "w" } else { "" });
            format!("{} {reads}{assigns}{}", String::from_utf8_lossy(&m.name), m.line)
        };
        fields.map(text).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(list(env), "a r3, g w3, h r3, i rw5, print r5");
    assert_eq!(list(1 - env), "deep r5, field r4");
    assert_eq!(f.mentions().methods, vec![Box::from(*b"trim")].into());
    assert!(proto.mentions().fields.iter().all(|m| *m.name != *b"unseen"));
}

/// The stores of the first function in the source, as "name.field@line".
fn stores(source: &str) -> String {
    let main = compiled(source);
    let f = &main.protos[0];
    let path = |p: &perilune_syntax::mentions::Path| {
        let name = f.upvalues[p.upvalue as usize].name.as_deref().unwrap_or(b"?");
        let fields = p.fields.iter().map(|n| &**n);
        let names: Vec<_> = std::iter::once(name).chain(fields).map(String::from_utf8_lossy).collect();
        names.join(".")
    };
    let stores = f.mentions().stores.iter().map(|s| {
        let by = s.by.as_ref().map_or(String::new(), |by| format!(" {}#{}", path(&by.function), by.argument));
        format!("{}@{}{by}", path(&s.target), s.line)
    });
    stores.collect::<Vec<_>>().join(", ")
}

#[test]
fn stores_into_captured_tables() {
    let t = |body: &str| {
        stores(&format!("local t, insert = {{}}, table.insert local function f(k, v)\n{body}\nend"))
    };
    assert_eq!(t("t[k] = v"), "t@2");
    assert_eq!(t("t.x = v t.a.b = v"), "t@2, t.a@2");
    assert_eq!(t("t[1] = k and v or 1"), "t@2");
    assert_eq!(t("t[k][v] = 1"), "");
    assert_eq!(t("return t[k], t.x, #t"), "");
    assert_eq!(t("local q = t q[k] = v"), "");
    assert_eq!(t("g[k] = v g.h.i = v"), "_ENV.g@2, _ENV.g.h@2");
    assert_eq!(t("function t.f() end function t:g() end"), "t@2");
    assert_eq!(
        t("table.insert(t, v) table.sort(t) table.concat(t)"),
        "t@2 _ENV.table.insert#1, t@2 _ENV.table.sort#1"
    );
    assert_eq!(
        t("table.move(t, 1, 2, 3) table.move(k, 1, 2, 3, t)"),
        "t@2 _ENV.table.move#1, t@2 _ENV.table.move#5"
    );
    assert_eq!(t("return table.move(t, 1, 2, 3, {})"), "");
    assert_eq!(t("insert(t, v) rawset(t, k, v)"), "t@2 insert#1, t@2 _ENV.rawset#1");
    assert_eq!(t("return function()\nt[k] = v end"), "t@3");
    assert_eq!(t("local t = {} t[k] = v return function() t[k] = v end"), "");
    assert_eq!(t("g = v"), "_ENV@2");
}

#[test]
fn uses_of_captured_variables() {
    let source = "local t, n, m, w = {}, 0, {}, {}\n\
                  local function f()\n\
                    n = n + t.a + t.b.c\n\
                    return function() m.x() n = 1 end, w.w, g.p.q, g.r, h, w\n\
                  end";
    let main = compiled(source);
    let f = &main.protos[0];
    let index = |name: &[u8]| {
        f.upvalues.iter().position(|u| u.name.as_deref() == Some(name)).expect("captured") as u8
    };
    let mentions = f.mentions();
    assert_eq!(mentions.assigns(index(b"n")), Some(3));
    assert_eq!(mentions.assigns(index(b"t")), None);
    let mut whole = vec![index(b"n"), index(b"w")];
    whole.sort_unstable();
    assert_eq!(*mentions.whole, *whole);
    let of = |upvalue: u8, name: &[u8]| {
        let found =
            mentions.fields.iter().find(|m| m.upvalue == upvalue && *m.name == *name).expect("mentioned");
        let inner = found.inner.iter().map(|n| String::from_utf8_lossy(n).into_owned()).collect::<Vec<_>>();
        (found.whole, inner.join(","))
    };
    assert_eq!(of(index(b"t"), b"a"), (true, String::new()));
    assert_eq!(of(index(b"t"), b"b"), (false, "c".into()));
    assert_eq!(of(index(b"m"), b"x"), (true, String::new()));
    assert_eq!(of(index(b"_ENV"), b"g"), (false, "p,r".into()));
    assert_eq!(of(index(b"_ENV"), b"h"), (true, String::new()));
}
