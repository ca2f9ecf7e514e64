//! What the front end says when it rejects a chunk.

/// A syntax error (or any other refusal to compile). The message is complete, as PUC Lua would write it,
/// chunk name and line included: `input:1: unexpected symbol near '='`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// The whole message; bytes, because it quotes the source.
    pub message: Vec<u8>,
    /// True if the error is only that the source ended too early: the REPL then asks for another line.
    pub incomplete: bool,
}

impl SyntaxError {
    /// Of a compilation that was interrupted.
    #[cold]
    pub(crate) fn interrupted() -> Box<SyntaxError> {
        Box::new(SyntaxError { message: b"interrupted!".to_vec(), incomplete: false })
    }

    /// Of a text for whose tree there is no memory.
    #[cold]
    pub(crate) fn out_of_memory() -> Box<SyntaxError> {
        Box::new(SyntaxError { message: b"not enough memory".to_vec(), incomplete: false })
    }
}

impl std::fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.message))
    }
}

impl std::error::Error for SyntaxError {}

/// A chunk's name as messages show it (`luaO_chunkid`): `=name` and `@file` are cut to 59 bytes, anything
/// else is `[string "first line..."]`.
pub fn chunk_id(source: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    write_chunk_id(source, &mut text);
    text
}

/// Appends what [`chunk_id`] gives, of at most 59 bytes.
pub fn write_chunk_id(source: &[u8], text: &mut Vec<u8>) {
    const MAX: usize = 59;
    let mut add = |parts: &[&[u8]]| parts.iter().for_each(|part| text.extend_from_slice(part));
    match source.first() {
        Some(b'=') => add(&[&source[1..source.len().min(MAX + 1)]]),
        Some(b'@') => {
            let name = &source[1..];
            if name.len() <= MAX { add(&[name]) } else { add(&[b"...", &name[name.len() - (MAX - 3)..]]) }
        }
        _ => {
            let room = MAX - b"[string \"...\"]".len();
            let line = source.split(|&b| b == b'\n').next().unwrap_or(b"");
            let whole = line.len() == source.len();
            if whole && line.len() < room {
                add(&[b"[string \"", line, b"\"]"])
            } else {
                add(&[b"[string \"", &line[..line.len().min(room)], b"...\"]"])
            }
        }
    }
}
