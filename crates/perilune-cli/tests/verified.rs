//! Programs under the heap verifier, with a collection at every safepoint: stores that only a certain order
//! of collections and slices makes visible.

use perilune_test::{Limited, text};
use std::process::Command;

fn verified(source: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
    command.env("PERILUNE_GC_STRESS", "1").env("PERILUNE_GC_VERIFY", "1").env_remove("LUA_INIT");
    let output = Limited::run(command.args(["-e", source]));
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// What is kept makes a major take several slices, between which coroutines are traced and then stored into.
const SETTING: &str = "
    local keep = {} for i = 1, 1500 do keep[i] = {i} end
    local sets, coroutines = {}, {}
    for n = 1, 10 do
      coroutines[n] = coroutine.create(function()
        local x
        sets[n] = function(v) x = v end
        while true do coroutine.yield(x) end
      end)
      coroutine.resume(coroutines[n])
    end
    collectgarbage()
    for i = 1, 12 do
      for n = 1, 10 do STORE end
      local junk = {{}, {}}
      keep[1500 + i] = {i}
    end
    for n = 1, 10 do print(coroutine.resume(coroutines[n])) end";

#[test]
fn a_store_into_a_local_variable_of_a_suspended_coroutine() {
    for store in ["sets[n]('value ' .. i)", "debug.setupvalue(sets[n], 1, 'value ' .. i)"] {
        assert_eq!(verified(&SETTING.replace("STORE", store)), "true\tvalue 12\n".repeat(10), "{store}");
    }
}
