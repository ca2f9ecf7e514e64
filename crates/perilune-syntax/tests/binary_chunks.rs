//! Binary chunks: what is written can be read, and nothing else can.

use perilune_syntax::{Proto, compile, dump::dump, undump::undump};
use std::sync::Arc;

const PROGRAM: &str = r#"
local a <const>, b = 3, -7.25
local t = {x = 1, y = "two\0three", [b] = nil; a, nil, true, ...}
local function fact(n) if n <= 1 then return 1 end return n * fact(n - 1) end
for i = 10, 1, -1 do t[i] = function() b = b + i; return t.x, fact(i) end end
for k, v in pairs(t) do if v == 9007199254740993 then goto done end ::continue:: end
::done::
do local c <close> = setmetatable({}, {__close = print}) print(c) end
return t:m(...), 0x7fffffffffffffff
"#;

fn compiled(source: &str) -> Arc<Proto> {
    compile(source.as_bytes(), b"@some file.lua").expect("compiles")
}

fn refusal(bytes: &[u8]) -> String {
    undump(bytes, b"=chunk").expect_err("refused").to_string()
}

#[test]
fn round_trip() {
    let proto = compiled(PROGRAM);
    let bytes = dump(&proto, false);
    assert_eq!(undump(&bytes, b"=x").expect("our own"), proto);
    let with_tail = [&bytes[..], b"tail"].concat();
    assert_eq!(undump(&with_tail, b"=x").expect("a tail does not matter"), proto);
}

#[test]
fn stripping_drops_names_and_lines() {
    let proto = compiled(PROGRAM);
    let full = dump(&proto, false);
    let bytes = dump(&proto, true);
    assert!(bytes.len() < full.len());
    let stripped = undump(&bytes, b"=x").expect("our own");
    assert_eq!(&stripped.source[..], b"=?");
    for proto in [&stripped, &stripped.protos[0]] {
        assert!(proto.lines.is_empty() && proto.locals.is_empty());
        assert!(proto.upvalues.iter().all(|u| u.name.is_none()));
    }
    assert_eq!(stripped.code, proto.code);
    assert_eq!(stripped.protos[0].line_defined, proto.protos[0].line_defined);
    assert_eq!(dump(&stripped, false), bytes, "nothing is left to strip");
}

#[test]
fn the_head_is_that_of_lua_5_4() {
    let bytes = dump(&compiled(""), false);
    assert_eq!(&bytes[..15], b"\x1bLua\x54\x00\x19\x93\r\n\x1a\n\x04\x08\x08");
    assert_eq!(bytes[15..23], 0x5678i64.to_le_bytes());
    assert_eq!(bytes[23..31], 370.5f64.to_le_bytes());
}

#[test]
fn every_prefix_is_truncated() {
    let bytes = dump(&compiled(PROGRAM), false);
    for length in 0..bytes.len() {
        assert_eq!(refusal(&bytes[..length]), "chunk: bad binary format (truncated chunk)");
    }
}

#[test]
fn every_changed_byte_is_noticed() {
    let bytes = dump(&compiled(PROGRAM), true);
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] = changed[at].wrapping_add(1);
        refusal(&changed);
    }
    assert_eq!(refusal(b"return 1"), "chunk: bad binary format (not a binary chunk)");
    let name_of_a_binary_string = undump(b"\x1bLuax", b"\x1bLuax").expect_err("refused");
    assert!(name_of_a_binary_string.to_string().starts_with("binary string: bad binary format"));
}

/// The same random numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % limit
    }
}

/// Length of everything before the payload, and of the length and checksum that end it.
const HEAD: usize = 31 + 21 + 12;

/// Gives a payload the length and the checksum it needs.
fn sealed(template: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut out = template[..HEAD - 12].to_vec();
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    let sum = payload
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, &b| (hash ^ b as u64).wrapping_mul(0x100_0000_01b3));
    out.extend_from_slice(&sum.to_le_bytes());
    out.extend_from_slice(payload);
    out
}

/// Chunks that are wrong but whose checksum is right: reading and verifying them ends, one way or the other.
#[test]
fn changed_payloads_with_a_right_checksum_do_no_harm() {
    let original = dump(&compiled(PROGRAM), false);
    assert_eq!(sealed(&original, &original[HEAD..]), original, "the test knows the format");
    let mut random = Random(1);
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..100_000 {
        let mut payload = original[HEAD..].to_vec();
        for _ in 0..=random.below(3) {
            let at = random.below(payload.len().max(1));
            if payload.is_empty() {
                break;
            }
            match random.below(6) {
                0 => payload[at] = random.below(256) as u8,
                1 => payload[at] ^= 1 << random.below(8),
                2 => payload[at] = payload[at].wrapping_add(1),
                3 => _ = payload.remove(at),
                4 => payload.insert(at, random.below(256) as u8),
                _ => payload.truncate(at + 1),
            }
        }
        match undump(&sealed(&original, &payload), b"=x") {
            Ok(proto) => {
                accepted += 1;
                // Whatever was accepted is a chunk like any other.
                let again = dump(&proto, false);
                let proto = undump(&again, b"=x").expect("accepted before");
                assert_eq!(dump(&proto, false), again);
                perilune_syntax::disasm::disassemble(&proto);
            }
            Err(_) => refused += 1,
        }
    }
    assert!(accepted > 100 && refused > 10_000, "{accepted} accepted, {refused} refused");
}

#[test]
fn counts_take_no_memory_before_their_elements_are_there() {
    let original = dump(&compiled(""), true);
    // Source "=?", then a function that says it has 2^40 instructions.
    let mut payload = b"\x02=?\x01\x00\x02\x00\x00\x00".to_vec();
    payload.extend_from_slice(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x20]);
    assert_eq!(refusal(&sealed(&original, &payload)), "chunk: bad binary format (truncated chunk)");
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| {
        let function = |inner: u8| {
            // No parameters, 2 registers, no caches, no lines, `RETURN0`, nothing else, `inner` functions.
            let code = [perilune_syntax::Op::Return0 as u8, 0, 0, 0, 0];
            [&[0, 0, 2, 0, 0, 0, 1][..], &code, &[0, 0, 0, 0, inner]].concat()
        };
        let mut payload = b"\x02=?".to_vec();
        (1..depth).for_each(|_| payload.extend(function(1)));
        payload.extend(function(0));
        sealed(&dump(&compiled(""), true), &payload)
    };
    assert!(undump(&nested(200), b"=x").is_ok());
    assert_eq!(refusal(&nested(201)), "chunk: bad binary format (too many nested functions)");
}
