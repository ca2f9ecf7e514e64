//! `perilune.text`: what a decoder gives must not depend on how its input was cut.
//!
//! An input begins with three bytes that choose encoding, separators and what becomes of bad bytes; the rest
//! is the text. It is decoded in one piece and in many of changing sizes: pieces, or those before an error
//! and the error, must be the same. Without bad bytes the pieces with their separators make up the decoded
//! text again; as UTF-8 it is what Rust's standard library makes of the input.

use crate::guard::Guard;
use crate::rng::Rng;
use crate::runner::{End, Target};
use crate::sandbox;
use perilune_heap::HeapOptions;
use perilune_vm::{Gc, LoadMode, LuaClosure, Value, Vm};
use std::time::Duration;

const CASES_PER_STATE: usize = 2000;

/// Returns whether all was valid, and the whole decoded text or what is wrong.
const SCRIPT: &str = r#"
    local text = require "perilune.text"
    local encodings = {"utf-8", "utf-8", "utf-8", "bytes", "utf-16le", "utf-16be", "latin1", "shift_jis", "gb18030", "euc-kr", "big5", "iso-2022-jp"}
    local sets = {"\n", {"\n", "\r\n"}, {"\n", "\r\n", "\r"}, {"ab", "abc", "b"}, {"\u{e9}", "\u{e8}x", "|", "||"}}
    return function(input, encoding, set, bad)
      local function run(first, step, keep)
        local decoder = text.decoder {
          encoding = encodings[encoding % #encodings + 1], separators = sets[set % #sets + 1],
          bad = bad % 2 == 0 and "error" or "replace", keep = keep,
        }
        local parts = {}
        local function take(values) for v in values do parts[#parts + 1] = v end end
        local ok, e = pcall(function()
          local at, size = 1, first
          while at <= #input do
            take(decoder:feed(input:sub(at, at + size - 1)))
            at, size = at + size, (size + step) % 11 + 1
          end
          take(decoder:finish())
        end)
        return ok, e, parts
      end
      local ok, e, whole = run(#input + 1, 0, true)
      local same, error, parts = run(1 + #input % 5, 3, true)
      assert(ok == same and tostring(e) == tostring(error), tostring(e) .. " / " .. tostring(error))
      assert(#whole == #parts, #whole .. " / " .. #parts .. " pieces")
      for i = 1, #whole do assert(whole[i] == parts[i], "piece " .. i) end
      local _, _, bare = run(2, 1, false)
      assert(#bare == #whole)
      for i = 1, #bare do assert(whole[i]:sub(1, #bare[i]) == bare[i], "separator " .. i) end
      return ok, table.concat(whole), encodings[encoding % #encodings + 1]
    end"#;

/// The target.
#[derive(Default)]
pub struct Text {
    state: Option<(Box<Vm>, Value)>,
    served: usize,
}

impl Text {
    fn fresh() -> (Box<Vm>, Value) {
        let mut vm = Vm::with_options(HeapOptions::default());
        perilune_stdlib::open_libs(&mut vm).expect("an empty state has memory for its libraries");
        perilune_data::open(&mut vm).expect("and for these");
        let main: Gc<LuaClosure> =
            vm.load(SCRIPT.as_bytes(), b"=text", LoadMode::Text, None).expect("compiles");
        vm.host_call(main.into(), &[]).expect("runs");
        // The function stays on the stack, which keeps it alive.
        let run = vm.stack_get(vm.nargs());
        (vm, run)
    }
}

impl Target for Text {
    fn name(&self) -> &'static str {
        "text"
    }

    fn generate(&mut self, rng: &mut Rng) -> Vec<u8> {
        let mut out = vec![rng.byte(), rng.byte(), rng.byte()];
        let wild = rng.one_in(3);
        for _ in 0..rng.below(40) {
            match rng.below(10) {
                0 | 1 => out.extend_from_slice(rng.pick(&["\n", "\r\n", "\r", "\n\0", "|", "||"]).as_bytes()),
                2 | 3 => out
                    .extend_from_slice(rng.pick(&["é", "è", "èx", "€", "\u{1f600}", "\u{feff}"]).as_bytes()),
                4 if wild => out.push(rng.byte()),
                5 if wild => out.extend((0..rng.below(5)).map(|_| 0x80 | rng.byte())),
                _ => out.extend_from_slice(rng.pick(&["a", "b", "ab", "abc", "x\0", "xyz", " "]).as_bytes()),
            }
        }
        out
    }

    fn run(&mut self, guard: &Guard, input: &[u8]) -> Result<End, String> {
        let [encoding, set, bad, text @ ..] = input else { return Ok(End::Refused) };
        if self.served >= CASES_PER_STATE {
            self.state = None;
        }
        let (vm, run) = self.state.get_or_insert_with(|| {
            self.served = 0;
            Text::fresh()
        });
        self.served += 1;
        let depth = vm.nargs();
        let run = *run;
        let argument = vm.value_str(text).map_err(|_| "no memory")?;
        let choose = |n: &u8| Value::int(i64::from(*n));
        let arguments = [argument, choose(encoding), choose(set), choose(bad)];
        let result = guard.bounded(vm, Duration::from_secs(20), |vm| vm.host_call(run, &arguments));
        let end = match result {
            Err(e) => Err(format!("raised {}", sandbox::text(e))),
            Ok(_) => judge(vm, depth, text, bad % 2 == 1),
        };
        vm.truncate(depth);
        end
    }

    fn reset(&mut self) {
        std::mem::forget(self.state.take());
    }
}

fn judge(vm: &mut Vm, depth: u32, input: &[u8], replace: bool) -> Result<End, String> {
    let valid = vm.stack_get(depth + 1).is_truthy();
    let whole = vm.stack_get(depth + 2).as_string().ok_or("no text")?.bytes();
    let encoding = vm.stack_get(depth + 3).as_string().ok_or("no encoding")?.bytes();
    let expected = match encoding {
        b"bytes" => input.to_vec(),
        b"utf-8" => {
            let text = String::from_utf8_lossy(input);
            if !replace && std::str::from_utf8(input).is_ok() != valid {
                return Err("what is UTF-8 is not agreed on".into());
            }
            text.strip_prefix('\u{feff}').unwrap_or(&text).as_bytes().to_vec()
        }
        _ if std::str::from_utf8(whole).is_err() => return Err("what is decoded is no UTF-8".into()),
        _ => whole.to_vec(),
    };
    if valid && whole != expected {
        return Err(format!("decoded to {:?}", String::from_utf8_lossy(whole)));
    }
    Ok(if valid { End::Accepted } else { End::Refused })
}
