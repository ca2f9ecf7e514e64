//! WebSocket frames (RFC 6455) as bytes: heads, masks, codes of closing, messages put together. No Lua, no
//! sockets.

/// Which end of a connection one is. A client masks what it sends, a server must not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// It has connected.
    Client,
    /// It was connected to.
    Server,
}

/// What a frame carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Opcode {
    /// More of a message.
    More = 0,
    /// A text, or its beginning.
    Text = 1,
    /// Bytes, or their beginning.
    Binary = 2,
    /// The end.
    Close = 8,
    /// To be answered with the same content.
    Ping = 9,
    /// The answer.
    Pong = 10,
}

impl Opcode {
    fn of(bits: u8) -> Option<Opcode> {
        Some(match bits {
            0 => Opcode::More,
            1 => Opcode::Text,
            2 => Opcode::Binary,
            8 => Opcode::Close,
            9 => Opcode::Ping,
            10 => Opcode::Pong,
            _ => return None,
        })
    }

    /// It is about the connection, and may stand between the frames of a message.
    pub fn is_control(self) -> bool {
        self as u8 >= 8
    }
}

/// The head of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// What it carries.
    pub opcode: Opcode,
    /// It is the last of its message.
    pub is_last: bool,
    /// What its bytes are masked with.
    pub mask: Option<[u8; 4]>,
    /// Bytes that follow.
    pub len: u64,
    /// Bytes of the head.
    pub size: usize,
}

/// Why the connection has to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Broken {
    /// What has come is not allowed.
    Protocol(&'static str),
    /// A text is not UTF-8.
    Utf8,
    /// A message is longer than this end takes.
    Limit,
}

impl Broken {
    /// The code that the peer is told.
    pub fn code(self) -> u16 {
        match self {
            Broken::Protocol(_) => 1002,
            Broken::Utf8 => 1007,
            Broken::Limit => 1009,
        }
    }
}

/// The head at the beginning of some bytes that `me` has got; `None`: more are needed.
///
/// # Errors
/// It is none that may come.
pub fn head(bytes: &[u8], me: End) -> Result<Option<Head>, Broken> {
    let &[first, second, ..] = bytes else { return Ok(None) };
    if first & 0x70 != 0 {
        return Err(Broken::Protocol("reserved bits are set"));
    }
    let opcode = Opcode::of(first & 15).ok_or(Broken::Protocol("an unknown kind of frame"))?;
    let (is_last, is_masked) = (first & 0x80 != 0, second & 0x80 != 0);
    if is_masked != (me == End::Server) {
        let text =
            if is_masked { "a server has masked its frame" } else { "a client has not masked its frame" };
        return Err(Broken::Protocol(text));
    }
    if opcode.is_control() && (!is_last || second & 0x7f > 125) {
        return Err(Broken::Protocol("a control frame is longer than 125 bytes or in pieces"));
    }
    let (len, at) = match second & 0x7f {
        126 => match bytes.get(2..4) {
            Some(more) => (u64::from(u16::from_be_bytes(more.try_into().unwrap_or_default())), 4),
            None => return Ok(None),
        },
        127 => match bytes.get(2..10) {
            Some(more) => (u64::from_be_bytes(more.try_into().unwrap_or_default()), 10),
            None => return Ok(None),
        },
        short => (u64::from(short), 2),
    };
    let least = [0, 126, 1 << 16][usize::from(at > 2) + usize::from(at > 4)];
    if len < least || len >> 63 != 0 {
        return Err(Broken::Protocol("a length is not written in the shortest form"));
    }
    let mask = match is_masked {
        false => None,
        true => match bytes.get(at..at + 4) {
            Some(mask) => mask.try_into().ok(),
            None => return Ok(None),
        },
    };
    Ok(Some(Head { opcode, is_last, mask, len, size: at + if is_masked { 4 } else { 0 } }))
}

/// Appends a whole frame that is the last of its message.
pub fn put(out: &mut Vec<u8>, opcode: Opcode, body: &[u8], mask: Option<[u8; 4]>) {
    out.push(0x80 | opcode as u8);
    let masked = if mask.is_some() { 0x80 } else { 0 };
    match body.len() {
        n @ 0..126 => out.push(masked | n as u8),
        n @ 126..0x1_0000 => {
            out.push(masked | 126);
            out.extend_from_slice(&(n as u16).to_be_bytes());
        }
        n => {
            out.push(masked | 127);
            out.extend_from_slice(&(n as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(mask.as_ref().map_or(&[], |m| &m[..]));
    let start = out.len();
    out.extend_from_slice(body);
    if let Some(mask) = mask {
        unmask(&mut out[start..], mask, 0);
    }
}

/// Applies a mask to bytes that begin `at` bytes into the frame. Twice is once undone.
pub fn unmask(bytes: &mut [u8], mask: [u8; 4], at: usize) {
    let mut turned = mask;
    turned.rotate_left(at % 4);
    let wide = u64::from_ne_bytes([turned, turned].concat().try_into().unwrap_or_default());
    let mut pieces = bytes.chunks_exact_mut(8);
    for piece in &mut pieces {
        let word = u64::from_ne_bytes((&*piece).try_into().unwrap_or_default()) ^ wide;
        piece.copy_from_slice(&word.to_ne_bytes());
    }
    for (i, byte) in pieces.into_remainder().iter_mut().enumerate() {
        *byte ^= turned[i % 4];
    }
}

/// Whether a code may be in a frame that closes.
pub fn is_code(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

/// What a frame that closes says: a code and a text.
///
/// # Errors
/// It says nothing that may be said.
pub fn closing(body: &[u8]) -> Result<Option<(u16, &[u8])>, Broken> {
    let Some((code, text)) = body.split_first_chunk::<2>() else {
        return if body.is_empty() { Ok(None) } else { Err(Broken::Protocol("half a code of closing")) };
    };
    let code = u16::from_be_bytes(*code);
    if !is_code(code) {
        return Err(Broken::Protocol("an unknown code of closing"));
    }
    if std::str::from_utf8(text).is_err() {
        return Err(Broken::Utf8);
    }
    Ok(Some((code, text)))
}

/// Frames put together to messages.
pub struct Messages {
    me: End,
    /// A message is no longer.
    limit: usize,
    message: Vec<u8>,
    kind: Option<Opcode>,
    /// The frame that is being read, and how much of it has been.
    frame: Option<(Head, u64)>,
    control: Vec<u8>,
}

/// What has come.
#[derive(PartialEq, Eq, Debug)]
pub enum Came {
    /// A message, to be taken with [`Messages::take`].
    Message {
        /// It is a text, not bytes.
        is_text: bool,
    },
    /// To be answered.
    Ping(Vec<u8>),
    /// An answer.
    Pong,
    /// The end, with what it says.
    Close(Option<(u16, Vec<u8>)>),
    /// More bytes are needed.
    Nothing,
}

impl Messages {
    /// Those that come to this end.
    pub fn new(me: End, limit: usize) -> Messages {
        Messages { me, limit, message: Vec::new(), kind: None, frame: None, control: Vec::new() }
    }

    /// The message that has come.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.message)
    }

    /// Reads from the beginning of some bytes: how many it has taken, and what has come by that.
    ///
    /// # Errors
    /// The connection has to end.
    pub fn read(&mut self, bytes: &[u8]) -> Result<(usize, Came), Broken> {
        let mut at = 0;
        loop {
            let (head, done) = match self.frame {
                Some(frame) => frame,
                None => {
                    let Some(head) = head(&bytes[at..], self.me)? else { return Ok((at, Came::Nothing)) };
                    self.begin(&head)?;
                    at += head.size;
                    (head, 0)
                }
            };
            let n = usize::try_from(head.len - done).unwrap_or(usize::MAX).min(bytes.len() - at);
            let into = if head.opcode.is_control() { &mut self.control } else { &mut self.message };
            let start = into.len();
            if into.try_reserve(n).is_err() {
                return Err(Broken::Limit);
            }
            into.extend_from_slice(&bytes[at..at + n]);
            if let Some(mask) = head.mask {
                unmask(&mut into[start..], mask, (done % 4) as usize);
            }
            at += n;
            let done = done + n as u64;
            if done < head.len {
                self.frame = Some((head, done));
                return Ok((at, Came::Nothing));
            }
            self.frame = None;
            if let Some(came) = self.finish(&head)? {
                return Ok((at, came));
            }
        }
    }

    fn begin(&mut self, head: &Head) -> Result<(), Broken> {
        if head.opcode.is_control() {
            return Ok(());
        }
        match (head.opcode, self.kind) {
            (Opcode::More, None) => return Err(Broken::Protocol("the rest of a message that has not begun")),
            (Opcode::More, Some(_)) => {}
            (_, Some(_)) => return Err(Broken::Protocol("a message within another")),
            (opcode, None) => self.kind = Some(opcode),
        }
        let room = (self.limit - self.message.len().min(self.limit)) as u64;
        if head.len > room { Err(Broken::Limit) } else { Ok(()) }
    }

    /// A frame is complete.
    fn finish(&mut self, head: &Head) -> Result<Option<Came>, Broken> {
        if head.opcode.is_control() {
            let body = std::mem::take(&mut self.control);
            return Ok(Some(match head.opcode {
                Opcode::Ping => Came::Ping(body),
                Opcode::Pong => Came::Pong,
                _ => Came::Close(closing(&body)?.map(|(code, text)| (code, text.to_vec()))),
            }));
        }
        if !head.is_last {
            return Ok(None);
        }
        let is_text = self.kind.take() == Some(Opcode::Text);
        if is_text && simdutf8::basic::from_utf8(&self.message).is_err() {
            return Err(Broken::Utf8);
        }
        Ok(Some(Came::Message { is_text }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(me: End, bytes: &[u8], step: usize) -> Result<Vec<(Came, Vec<u8>)>, Broken> {
        let (mut messages, mut came, mut from, mut to) = (Messages::new(me, 1 << 20), Vec::new(), 0, 0);
        while to < bytes.len() {
            to = (to + step).min(bytes.len());
            loop {
                let (n, what) = messages.read(&bytes[from..to])?;
                from += n;
                if what == Came::Nothing {
                    break;
                }
                let is_message = matches!(what, Came::Message { .. });
                came.push((what, if is_message { messages.take() } else { Vec::new() }));
            }
        }
        Ok(came)
    }

    #[test]
    fn messages_are_put_together_however_they_come() {
        let long = vec![b'x'; 70_000];
        let mut bytes = Vec::new();
        let mask = Some([1, 2, 3, 250]);
        put(&mut bytes, Opcode::Text, "héllo".as_bytes(), mask);
        put(&mut bytes, Opcode::Binary, &[0xff; 200], mask);
        put(&mut bytes, Opcode::Binary, &long, mask);
        // In pieces, with a ping between them.
        let start = bytes.len();
        put(&mut bytes, Opcode::Text, b"one ", mask);
        bytes[start] &= 0x7f;
        put(&mut bytes, Opcode::Ping, b"?", mask);
        put(&mut bytes, Opcode::More, b"two", mask);
        put(&mut bytes, Opcode::Close, &[3, 0xe8, b'b', b'y', b'e'], mask);
        for step in [1, 2, 3, 7, 64, 1000, bytes.len()] {
            let came = all(End::Server, &bytes, step).expect("well formed");
            assert_eq!(came[0], (Came::Message { is_text: true }, "héllo".into()));
            assert_eq!(came[1], (Came::Message { is_text: false }, vec![0xff; 200]));
            assert_eq!(came[2], (Came::Message { is_text: false }, long.clone()));
            assert_eq!(came[3].0, Came::Ping(b"?".to_vec()));
            assert_eq!(came[4], (Came::Message { is_text: true }, b"one two".to_vec()));
            assert_eq!(came[5].0, Came::Close(Some((1000, b"bye".to_vec()))));
        }
    }

    #[test]
    fn what_is_not_allowed_is_found() {
        let client = |bytes: &[u8]| all(End::Client, bytes, bytes.len());
        for bytes in [
            &[0xc1, 0][..],
            &[0x83, 0],
            &[0x8b, 0],
            &[0x09, 0],
            &[0x89, 126, 0, 126],
            &[0x80, 0],
            &[0x81, 126, 0, 125],
            &[0x81, 127, 0, 0, 0, 0, 0, 0, 0xff, 0xff],
            &[0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0],
            &[0x01, 1, b'a', 0x81, 1, b'b'],
            &[0x81, 0x80, 1, 2, 3, 4],
            &[0x88, 1, 3],
            &[0x88, 2, 0x03, 0xed],
            &[0x88, 2, 0x13, 0x88],
        ] {
            assert!(matches!(client(bytes), Err(Broken::Protocol(_))), "{bytes:x?}");
        }
        assert!(matches!(all(End::Server, &[0x81, 0], 2), Err(Broken::Protocol(_))));
        assert_eq!(client(&[0x81, 2, 0xc3, 0x28]), Err(Broken::Utf8));
        assert_eq!(client(&[0x88, 3, 3, 0xe8, 0xff]), Err(Broken::Utf8));
        assert_eq!(client(&[0x82, 127, 0, 0, 0, 0, 0, 0x10, 0, 1]), Err(Broken::Limit));
        assert_eq!(
            client(&[0x01, 1, 0xc3, 0x80, 1, 0xa9]).map(|c| c[0].1.clone()),
            Ok("é".as_bytes().to_vec())
        );
    }

    #[test]
    fn masks_begin_anywhere() {
        let plain: Vec<u8> = (0..100).collect();
        for at in 0..9 {
            let mut bytes = plain.clone();
            unmask(&mut bytes[..at], [9, 8, 7, 6], 0);
            unmask(&mut bytes[at..], [9, 8, 7, 6], at);
            assert!(bytes.iter().zip(&plain).enumerate().all(|(i, (a, b))| a ^ b == [9, 8, 7, 6][i % 4]));
        }
    }
}
