//! Values through the encoding and back, and what the decoder refuses.

use super::*;
use perilune_vm::{LoadMode, LuaResult, Native, Value, Vm};

fn with_vm(f: impl FnOnce(&mut Vm)) {
    let mut vm = Vm::new();
    perilune_stdlib::open_libs(&mut vm).expect("libraries");
    f(&mut vm);
}

/// `round(v)`: what arrives, and in how many bytes it went.
static ROUND: Native = Native::leaf("round", |vm| -> LuaResult<u32> {
    let mut bytes = Vec::new();
    let value = vm.arg(1);
    match encode(vm, value, &mut bytes) {
        Ok(()) => {}
        Err(Refused::Value(text)) => return Err(vm.error(text)),
        Err(Refused::Thrown(thrown)) => return Err(thrown),
    }
    let mut reader = Reader::new(&bytes);
    match reader.value(vm) {
        Ok(value) if reader.is_at_end() => vm.push(value),
        other => panic!("what was written cannot be read: {other:?}"),
    }
    vm.push(Value::int(bytes.len() as i64));
    Ok(2)
});

fn run(vm: &mut Vm, source: &str) {
    let round = Value::native(&ROUND);
    let globals = vm.globals();
    vm.set_field(globals, "round", round).expect("a field");
    let f = vm.load(source.as_bytes(), b"=test", LoadMode::Text, None).expect("it compiles");
    if let Err(value) = vm.host_call(f.into(), &[]) {
        panic!("{}", value.as_string().map_or_else(String::new, |s| s.to_text()));
    }
}

#[test]
fn values_arrive_as_they_were() {
    with_vm(|vm| {
        run(
            vm,
            r#"
            local function same(a, b)
              if type(a) ~= "table" then return rawequal(a, b) and math.type(a) == math.type(b) end
              for k, v in pairs(a) do if not same(v, b[k]) then return false end end
              for k in pairs(b) do if a[k] == nil then return false end end
              return true
            end
            for _, v in ipairs { 0, 1, 127, 128, -1, math.maxinteger, math.mininteger, 0.5, -0.0, 1e308, 1 / 0, true, false, "", "x",
              ("y"):rep(31), ("y"):rep(32), ("z"):rep(100000), {}, { 1, 2, 3 }, { 1, "a", { 2.5 } }, { a = 1, b = { c = {} } },
              { [1] = 1, [3] = 3 }, { [true] = 1, [2.5] = "x", y = {} }, { 1, 2, n = 2 } } do
              assert(same(v, (round(v))), v)
            end
            assert(round(nil) == nil)
            assert(select(2, round(5)) == 1 and select(2, round "hello") == 6 and select(2, round { 1, 2, 3 }) == 5)
            local deep = {}
            for _ = 1, 99 do deep = { deep } end
            round(deep)
            local function refused(v) return (select(2, pcall(round, v))) end
            assert(refused({ deep }):find "more than 100 deep")
            local cycle = {} cycle.a = cycle
            assert(refused(cycle):find "contains itself")
            assert(refused { items = { 1, { f = print } } } == "a function cannot be sent (at .items[2].f)", refused { items = { 1, { f = print } } })
            assert(refused(coroutine.create(print)) == "a thread cannot be sent")
            assert(getmetatable((round(setmetatable({ 1 }, {})))) == nil)
            for i = 1, 5 do assert(same({ { a = i, b = 2 }, { a = 3, b = i } }, (round { { a = i, b = 2 }, { a = 3, b = i } }))) end
            "#,
        );
    });
}

#[test]
fn malformed_bytes_are_refused() {
    let cases: &[&[u8]] = &[
        b"",
        &[0xff],
        &[0xa9],
        &[SHORT + 3, b'a', b'b'],
        &[STRING, 5, b'a'],
        &[STRING, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        &[INT],
        &[INT, 0x80],
        &[INT, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
        &[INT, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0],
        &[FLOAT, 1, 2, 3],
        &[LIST, 2, 1],
        &[LIST, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f, 1],
        &[LIST, 1, NIL],
        &[RECORD, 1, 1, 1],
        &[RECORD, 1, SHORT + 1, b'a', NIL],
        &[RECORD, 2, SHORT + 1, b'a', 1, SHORT + 1, b'a', 1],
        &[RECORD, 1, SHORT + 1, b'a'],
        &[MAP, 1, NIL, 1],
        &[MAP, 1, 1, NIL],
        &[MAP, 2, 1, 1, 1, 1],
        &[MAP, 1, FLOAT, 0, 0, 0, 0, 0, 0, 0xf8, 0x7f, 1],
    ];
    with_vm(|vm| {
        for bytes in cases {
            assert!(matches!(Reader::new(bytes).value(vm), Err(Malformed::Bytes(_))), "{bytes:x?}");
        }
        let deep = [[LIST, 1].repeat(101), vec![1]].concat();
        assert!(matches!(Reader::new(&deep).value(vm), Err(Malformed::Bytes("a table is too deep"))));
    });
}
