//! What goes over a connection of remote calls: the greeting, and frames. Bytes only; no Lua, no sockets.
//!
//! Both ends begin with [`GREETING`]: eight bytes of which the last is the version. A line end is among them,
//! so that a connection that changes text is found out.
//!
//! A frame is a length (four bytes, the lowest first, not counting themselves; at most [`MOST`]), a kind (a
//! byte), and what the kind says. Numbers are varints, strings and values are those of `perilune_data::wire`.
//!
//! | kind | from | what follows |
//! |---|---|---|
//! | 1 call | client | id, time in microseconds (0: any), name, number of arguments, arguments |
//! | 2 stream | client | id, time, credit in bytes, name, number of arguments, arguments |
//! | 3 notify | client | name, number of arguments, arguments |
//! | 4 cancel | client | id |
//! | 5 credit | client | id, bytes |
//! | 6 result | server | id, number of values, values: the end of a call; of a stream, without values |
//! | 7 error | server | id, code (0 an error, 1 no such function, 2 cancelled, 3 the time is over), value, traceback (a string) |
//! | 8 item | server | id, number of values, values: one step of a stream |
//!
//! Each call and stream that was begun gets one frame 6 or 7, also if it was cancelled; nothing else may come
//! for its id after that. Ids are the client's, and none is used twice. Whatever is not said here ends the
//! connection.

use perilune_data::wire::{Malformed, Reader, put_varint};

/// What both ends send first.
pub const GREETING: [u8; 8] = *b"PLRPC\r\n\x01";
/// Longest frame.
pub const MOST: usize = 16 << 20;
/// Room that a head takes at most: length, kind, and three numbers.
pub const HEAD: usize = 4 + 1 + 3 * 10;

/// What a frame says that a server gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // fields are called what they are in the table above
pub enum Asked {
    /// A call.
    Call { id: u64, micros: u64 },
    /// A call whose results come one by one.
    Stream { id: u64, micros: u64, credit: u64 },
    /// A call that nobody waits for.
    Notify,
    /// Nobody waits for this one any more.
    Cancel { id: u64 },
    /// So many bytes more of this stream may be sent.
    Credit { id: u64, bytes: u64 },
}

/// What a frame says that a client gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Told {
    /// Values, and the end.
    Result { id: u64 },
    /// An error, and the end.
    Error { id: u64 },
    /// A step of a stream.
    Item { id: u64 },
}

/// The kinds, by number.
#[allow(missing_docs)]
pub mod kind {
    pub const CALL: u8 = 1;
    pub const STREAM: u8 = 2;
    pub const NOTIFY: u8 = 3;
    pub const CANCEL: u8 = 4;
    pub const CREDIT: u8 = 5;
    pub const RESULT: u8 = 6;
    pub const ERROR: u8 = 7;
    pub const ITEM: u8 = 8;
}

/// Why a call failed on the other side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Code {
    /// Its function raised an error.
    Error,
    /// There is no such function.
    Unknown,
    /// It was cancelled.
    Cancelled,
    /// Its time is over.
    Timeout,
}

impl Code {
    /// As a byte.
    pub fn byte(self) -> u8 {
        self as u8
    }

    /// Of a byte.
    pub fn of(byte: u8) -> Option<Code> {
        [Code::Error, Code::Unknown, Code::Cancelled, Code::Timeout].get(usize::from(byte)).copied()
    }
}

/// The first frame of some bytes, without its length; `Ok(Err(n))`: n bytes more are needed.
///
/// # Errors
/// It is none, or longer than `most`.
pub fn split(bytes: &[u8], most: usize) -> Result<Result<&[u8], usize>, &'static str> {
    let Some((head, rest)) = bytes.split_at_checked(4) else { return Ok(Err(4 - bytes.len())) };
    let n = u32::from_le_bytes(head.try_into().unwrap_or_default()) as usize;
    if n == 0 {
        return Err("an empty frame");
    }
    if n > most {
        return Err("a frame is longer than allowed");
    }
    Ok(rest.get(..n).ok_or(n - rest.len().min(n)))
}

/// What a frame says to a server, and how many of its bytes say that.
///
/// # Errors
/// It is no such frame.
pub fn asked(frame: &[u8]) -> Result<(Asked, usize), Malformed> {
    let mut reader = Reader::new(frame);
    let asked = match reader.byte()? {
        kind::CALL => Asked::Call { id: reader.varint()?, micros: reader.varint()? },
        kind::STREAM => {
            Asked::Stream { id: reader.varint()?, micros: reader.varint()?, credit: reader.varint()? }
        }
        kind::NOTIFY => Asked::Notify,
        kind::CANCEL => Asked::Cancel { id: reader.varint()? },
        kind::CREDIT => Asked::Credit { id: reader.varint()?, bytes: reader.varint()? },
        _ => return Err(Malformed::Bytes("an unknown kind of frame")),
    };
    if matches!(asked, Asked::Cancel { .. } | Asked::Credit { .. }) && !reader.is_at_end() {
        return Err(Malformed::Bytes("a frame is longer than what it says"));
    }
    Ok((asked, frame.len() - reader.left()))
}

/// What a frame says to a client, and how many of its bytes say that.
///
/// # Errors
/// It is no such frame.
pub fn told(frame: &[u8]) -> Result<(Told, usize), Malformed> {
    let mut reader = Reader::new(frame);
    let told = match reader.byte()? {
        kind::RESULT => Told::Result { id: reader.varint()? },
        kind::ERROR => Told::Error { id: reader.varint()? },
        kind::ITEM => Told::Item { id: reader.varint()? },
        _ => return Err(Malformed::Bytes("an unknown kind of frame")),
    };
    Ok((told, frame.len() - reader.left()))
}

/// A frame under construction: the body first, then the head in the room before it.
pub struct Draft {
    bytes: Vec<u8>,
}

impl Draft {
    /// In this buffer, which is empty.
    pub fn new(mut bytes: Vec<u8>) -> Draft {
        bytes.resize(HEAD, 0);
        Draft { bytes }
    }

    /// Where the body goes.
    pub fn body(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// The whole frame; `None`: it would be longer than `most`.
    pub fn finish(&mut self, kind: u8, numbers: &[u64], most: usize) -> Option<&[u8]> {
        let mut head = Vec::with_capacity(HEAD);
        head.extend_from_slice(&[0; 4]);
        head.push(kind);
        for &n in numbers {
            put_varint(&mut head, n);
        }
        let length = self.bytes.len() - HEAD + head.len() - 4;
        if length > most {
            return None;
        }
        head[..4].copy_from_slice(&(length as u32).to_le_bytes());
        let start = HEAD - head.len();
        self.bytes[start..HEAD].copy_from_slice(&head);
        Some(&self.bytes[start..])
    }

    /// The buffer.
    pub fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written() {
        let mut draft = Draft::new(Vec::new());
        draft.body().extend_from_slice(b"body");
        let frame = draft.finish(kind::STREAM, &[7, u64::MAX, 300], MOST).expect("short").to_vec();
        for n in 0..frame.len() {
            let missing = split(&frame[..n], MOST).expect("a beginning").expect_err("not complete");
            assert!(missing > 0 && missing <= frame.len() - n);
        }
        let whole = split(&frame, MOST).expect("a frame").expect("complete");
        let (asked, at) = asked(whole).expect("known");
        assert_eq!(asked, Asked::Stream { id: 7, micros: u64::MAX, credit: 300 });
        assert_eq!(&whole[at..], b"body");
        assert!(
            draft.finish(kind::CALL, &[1, 2], 7).is_some() && draft.finish(kind::CALL, &[1, 2], 6).is_none()
        );
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        assert!(split(&[0, 0, 0, 0], MOST).is_err());
        assert!(split(&[1, 0, 0, 1], MOST).is_err());
        assert!(split(&[0, 0, 0, 1], MOST).expect("16 MiB").is_err());
        for frame in [&[][..], &[0], &[9], &[6, 1], &[1], &[1, 5], &[4], &[4, 1, 1], &[5, 1], &[1, 0xff]] {
            assert!(asked(frame).is_err(), "{frame:?}");
        }
        for frame in [&[][..], &[0], &[1, 1], &[6], &[9, 1]] {
            assert!(told(frame).is_err(), "{frame:?}");
        }
    }
}
