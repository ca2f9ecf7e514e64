//! Frames of `perilune.rpc` and of `perilune.ws`: what was written is read as it was, every beginning of it
//! asks for more, and nothing that comes is a crash.
//!
//! * `rpc`: bytes that a peer has sent after the greeting. Each frame is asked for until its last byte is
//!   there; what it says is written again and must say the same.
//! * `ws`: the first byte says to which end (`s`erver, `c`lient) the rest has come, the second in which
//!   pieces. Each frame is the same when it is written again, and the messages are the same, and end in the
//!   same way, in one piece and in many.

use crate::guard::Guard;
use crate::rng::Rng;
use crate::runner::{End, Target};
use perilune_io::rpc::frame as calls;
use perilune_io::ws::frame as sockets;

/// Longest frame that is made or taken here.
const MOST: usize = 4096;

/// The target `rpc`.
#[derive(Default)]
pub struct Rpc;

/// The target `ws`.
#[derive(Default)]
pub struct Ws;

/// Changes bytes here and there.
fn damage(rng: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..1 + rng.below(3) {
        let at = rng.below(bytes.len() + 1);
        match rng.below(4) {
            0 if at < bytes.len() => drop(bytes.remove(at)),
            1 if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
            2 => bytes.truncate(at),
            _ => bytes.insert(at, rng.byte()),
        }
    }
}

fn some_bytes(rng: &mut Rng) -> Vec<u8> {
    let n = match rng.below(6) {
        0 => 0,
        1 => 125 + rng.below(3),
        2 => rng.below(2 * MOST),
        _ => rng.below(40),
    };
    (0..n).map(|_| rng.byte()).collect()
}

// -- Remote calls -------------------------------------------------------------------------------------------

impl Target for Rpc {
    fn name(&self) -> &'static str {
        "rpc"
    }

    fn generate(&mut self, rng: &mut Rng) -> Vec<u8> {
        let mut out = Vec::new();
        for _ in 0..1 + rng.below(3) {
            let kind = if rng.one_in(10) { rng.byte() } else { 1 + rng.below(8) as u8 };
            let numbers: Vec<u64> = (0..rng.below(4)).map(|_| rng.next() >> rng.below(64)).collect();
            let mut draft = calls::Draft::new(Vec::new());
            draft.body().extend(some_bytes(rng));
            if let Some(frame) = draft.finish(kind, &numbers, MOST) {
                out.extend_from_slice(frame);
            }
        }
        if rng.one_in(2) {
            damage(rng, &mut out);
        }
        out
    }

    fn run(&mut self, _guard: &Guard, input: &[u8]) -> Result<End, String> {
        let (mut rest, mut end) = (input, End::Refused);
        while let Ok(Ok(frame)) = calls::split(rest, MOST) {
            let size = 4 + frame.len();
            for n in 0..size {
                match calls::split(&rest[..n], MOST) {
                    Ok(Err(missing)) if missing > 0 && n + missing <= size => {}
                    other => return Err(format!("{n} of {size} bytes of a frame are {other:?}")),
                }
            }
            if judge_call(frame)? {
                end = End::Accepted;
            }
            rest = &rest[size..];
        }
        Ok(end)
    }
}

/// What is understood of a frame says the same when it is written again. Whether anything is.
fn judge_call(frame: &[u8]) -> Result<bool, String> {
    let kind = frame[0];
    let asked = calls::asked(frame).ok().map(|(asked, at)| {
        let numbers = match asked {
            calls::Asked::Call { id, micros } => vec![id, micros],
            calls::Asked::Stream { id, micros, credit } => vec![id, micros, credit],
            calls::Asked::Notify => Vec::new(),
            calls::Asked::Cancel { id } => vec![id],
            calls::Asked::Credit { id, bytes } => vec![id, bytes],
        };
        (numbers, at)
    });
    let told = calls::told(frame).ok().map(|(told, at)| match told {
        calls::Told::Result { id } | calls::Told::Error { id } | calls::Told::Item { id } => (vec![id], at),
    });
    if asked.is_some() && told.is_some() {
        return Err("a frame is one of both sides".into());
    }
    let Some((numbers, at)) = asked.or(told) else { return Ok(false) };
    let Some(body) = frame.get(at..) else { return Err("a head is longer than its frame".into()) };
    let mut draft = calls::Draft::new(Vec::new());
    draft.body().extend_from_slice(body);
    // A number may have come in more bytes than it needs, so the second frame may be shorter.
    let Some(again) = draft.finish(kind, &numbers, MOST) else { return Err("a frame grows".into()) };
    let Ok(Ok(again)) = calls::split(again, MOST) else { return Err("what was written is no frame".into()) };
    let same = match (calls::asked(frame), calls::asked(again)) {
        (Ok((a, _)), Ok((b, at))) => a == b && &again[at..] == body,
        (Err(_), Err(_)) => match (calls::told(frame), calls::told(again)) {
            (Ok((a, _)), Ok((b, at))) => a == b && &again[at..] == body,
            _ => false,
        },
        _ => false,
    };
    if same { Ok(true) } else { Err(format!("{frame:?} was written as {again:?}")) }
}

// -- WebSocket ----------------------------------------------------------------------------------------------

impl Target for Ws {
    fn name(&self) -> &'static str {
        "ws"
    }

    fn generate(&mut self, rng: &mut Rng) -> Vec<u8> {
        use sockets::Opcode;
        let is_masked = rng.one_in(2);
        let mut out = vec![if is_masked { b's' } else { b'c' }, rng.byte()];
        for _ in 0..1 + rng.below(4) {
            let opcode = match rng.below(8) {
                0 => Opcode::More,
                1 | 2 => Opcode::Text,
                3 => Opcode::Close,
                4 => Opcode::Ping,
                5 => Opcode::Pong,
                _ => Opcode::Binary,
            };
            let mut body = some_bytes(rng);
            if opcode == Opcode::Text {
                body.iter_mut().for_each(|byte| *byte &= 0x7f);
            }
            if opcode.is_control() {
                body.truncate(125);
            }
            let mask = is_masked.then(|| [rng.byte(), rng.byte(), rng.byte(), rng.byte()]);
            let start = out.len();
            sockets::put(&mut out, opcode, &body, mask);
            if rng.one_in(5) {
                out[start] &= 0x7f; // not the last of its message
            }
        }
        if rng.one_in(2) {
            damage(rng, &mut out);
        }
        out
    }

    fn run(&mut self, _guard: &Guard, input: &[u8]) -> Result<End, String> {
        let [side @ (b'c' | b's'), seed, bytes @ ..] = input else { return Ok(End::Refused) };
        let me = if *side == b's' { sockets::End::Server } else { sockets::End::Client };
        judge_heads(bytes, me)?;
        let whole = messages(bytes, me, &mut |left| left);
        let step = usize::from(*seed) % 7 + 1;
        let pieces = messages(bytes, me, &mut |left| left.min(step));
        if whole != pieces {
            return Err(format!("in one piece: {whole:?}; in pieces of {step}: {pieces:?}"));
        }
        Ok(if whole.0.is_empty() { End::Refused } else { End::Accepted })
    }
}

/// Heads of whole frames, one after the other: each beginning asks for more, and each frame is read as it is
/// written again.
fn judge_heads(bytes: &[u8], me: sockets::End) -> Result<(), String> {
    let mut rest = bytes;
    while let Ok(Some(head)) = sockets::head(rest, me) {
        if (0..head.size).any(|n| sockets::head(&rest[..n], me) != Ok(None)) {
            return Err(format!("a beginning of the head {head:?} does not ask for more"));
        }
        let Ok(len) = usize::try_from(head.len) else { return Ok(()) };
        let Some(body) = rest[head.size..].get(..len) else { return Ok(()) };
        let mut plain = body.to_vec();
        if let Some(mask) = head.mask {
            sockets::unmask(&mut plain, mask, 0);
        }
        let mut again = Vec::new();
        sockets::put(&mut again, head.opcode, &plain, head.mask);
        // Frames that are not the last of their message are not written, but else they are the same.
        again[0] = again[0] & 0x7f | rest[0] & 0x80;
        if again != rest[..head.size + len] {
            return Err(format!("{:?} was written as {again:?}", &rest[..head.size + len]));
        }
        rest = &rest[head.size + len..];
    }
    Ok(())
}

/// What comes of some bytes in pieces, and how it ends.
type Came = (Vec<(sockets::Came, Vec<u8>)>, Option<sockets::Broken>);

fn messages(bytes: &[u8], me: sockets::End, piece: &mut dyn FnMut(usize) -> usize) -> Came {
    let mut reader = sockets::Messages::new(me, MOST);
    let (mut came, mut from, mut to) = (Vec::new(), 0, 0);
    while to < bytes.len() {
        to += piece(bytes.len() - to);
        loop {
            match reader.read(&bytes[from..to]) {
                Ok((n, sockets::Came::Nothing)) => {
                    from += n;
                    break;
                }
                Ok((n, what)) => {
                    from += n;
                    let is_message = matches!(what, sockets::Came::Message { .. });
                    came.push((what, if is_message { reader.take() } else { Vec::new() }));
                }
                Err(broken) => return (came, Some(broken)),
            }
        }
    }
    (came, None)
}
