//! The handler that a sprung dispatch table consists of (`sampler.rs`): takes the samples that were asked
//! for, then does what the instruction wants.

use super::{op, save};

op!(
    /// Every opcode's entry in a sprung table.
    #[cold] #[inline(never)] op_sampled(vm, base, pc, k, i, tab) {
    save!(vm, base, pc);
    (*vm).take_samples();
    let plain = (*vm).lua.seen.sampler.plain();
    (plain.0[i.op_byte() as usize])(vm, base, pc, k, i.0, tab)
});

op!(
    /// The same in the table of short stretches between machine code.
    #[cold] #[inline(never)] op_sampled_in_stretch(vm, base, pc, k, i, tab) {
    save!(vm, base, pc);
    (*vm).take_samples();
    (crate::machine::STRETCH.0[i.op_byte() as usize])(vm, base, pc, k, i.0, tab)
});
