//! What deep stacks cost the collector.

use perilune_vm::{LoadMode, Vm};

/// Recurses to close to the limit; each frame has a variable to be closed, whose table is garbage when it is
/// left.
const PROGRAM: &str = "
local meta = {__close = function() end}
local function recurse(n)
  local x <close> = setmetatable({}, meta)
  if n > 0 then recurse(n - 1) end
end
recurse(150000)
";

#[test]
fn a_deep_stack_is_not_looked_at_more_often_than_is_paid_for() {
    let mut vm = Vm::new();
    perilune_stdlib::open_libs(&mut vm).unwrap();
    let f = vm.load(PROGRAM.as_bytes(), b"=deep", LoadMode::Text, None).unwrap();
    vm.host_call(f.into(), &[]).unwrap();
    let heap = vm.heap();
    let stats = heap.stats();
    assert!(stats.rescanned_bytes > 1 << 20, "the stack was deep: {}", stats.rescanned_bytes);
    // Between two collections as much is allocated as the earlier one has looked at, and the stack doubles at
    // most.
    assert!(
        stats.rescanned_bytes < 4 * stats.allocated_bytes,
        "{} bytes were looked at for {} that were allocated",
        stats.rescanned_bytes,
        stats.allocated_bytes
    );
}
