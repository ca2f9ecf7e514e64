//! Tokens: what the lexer makes of the source, and how error messages spell them.

use crate::ast::StrId;

/// A token. Those that carry a value carry it already converted; strings and names are interned in the chunk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Token {
    /// A reserved word.
    Word(Word),
    /// An operator or delimiter of more than one character.
    Long(Long),
    /// Any other byte that stands for itself: operators, delimiters, and bytes that no chunk may contain.
    Char(u8),
    /// A name that is not reserved.
    Name(StrId),
    /// A string literal, its escapes resolved.
    String(StrId),
    /// A numeral that denotes an integer.
    Integer(i64),
    /// A numeral that denotes a float.
    Float(f64),
    /// The end of the source.
    Eof,
}

macro_rules! spelled {
    ($(#[$doc:meta])* $name:ident { $($variant:ident $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub enum $name { $($variant,)* }

        impl $name {
            /// All of them.
            pub const ALL: &[$name] = &[$($name::$variant,)*];

            /// As it is written in a source.
            pub const fn text(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }
        }
    };
}

spelled! {
    /// Reserved words (manual 3.1).
    Word {
        And "and", Break "break", Do "do", Else "else", ElseIf "elseif", End "end", False "false", For "for",
        Function "function", Goto "goto", If "if", In "in", Local "local", Nil "nil", Not "not", Or "or",
        Repeat "repeat", Return "return", Then "then", True "true", Until "until", While "while",
    }
}

spelled! {
    /// Operators and delimiters of more than one character.
    Long {
        IDiv "//", Concat "..", Dots "...", Eq "==", Ge ">=", Le "<=", Ne "~=", Shl "<<", Shr ">>",
        DoubleColon "::",
    }
}

impl Word {
    /// The reserved word whose first eight bytes are these, with zeros behind a shorter name; none has more.
    #[inline]
    pub fn of(prefix: u64) -> Option<Word> {
        let (key, word) = WORDS[place(prefix)];
        (key == prefix).then_some(word)
    }
}

/// Places of the table of reserved words, a power of two.
const PLACES: usize = 32;

/// Where a word is in it. The factor is one that gives each word a place of its own, which the table insists
/// on.
#[inline]
const fn place(prefix: u64) -> usize {
    (prefix.wrapping_mul(FACTOR) >> (64 - PLACES.trailing_zeros())) as usize
}

const FACTOR: u64 = 0x2a3d_9f0d_57a9_2bdf;

/// The words by their places; elsewhere a prefix that no name has.
static WORDS: [(u64, Word); PLACES] = {
    let mut table = [(u64::MAX, Word::And); PLACES];
    let mut n = 0;
    while n < Word::ALL.len() {
        let text = Word::ALL[n].text().as_bytes();
        let (mut prefix, mut at) = (0, 0);
        while at < text.len() {
            prefix |= (text[at] as u64) << (8 * at);
            at += 1;
        }
        assert!(table[place(prefix)].0 == u64::MAX, "another factor is wanted");
        table[place(prefix)] = (prefix, Word::ALL[n]);
        n += 1;
    }
    table
};

impl Token {
    /// The token as a kind, for messages that say what was expected: `'end'`, `<name>`, `'<\1>'`.
    pub fn kind(self) -> String {
        match self {
            Token::Word(word) => format!("'{}'", word.text()),
            Token::Long(long) => format!("'{}'", long.text()),
            Token::Char(b @ b' '..=b'~') => format!("'{}'", b as char),
            Token::Char(b) => format!("'<\\{b}>'"),
            Token::Name(_) => "<name>".to_owned(),
            Token::String(_) => "<string>".to_owned(),
            Token::Integer(_) => "<integer>".to_owned(),
            Token::Float(_) => "<number>".to_owned(),
            Token::Eof => "<eof>".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intern::prefix;

    fn word(text: &str) -> Option<Word> {
        if text.len() > 8 { None } else { Word::of(prefix(text.as_bytes())) }
    }

    #[test]
    fn reserved_words_are_recognised() {
        let all = "and break do else elseif end false for function goto if in local nil not or repeat return \
            then true until while";
        for text in all.split(' ') {
            assert_eq!(word(text).map(Word::text), Some(text));
        }
        for text in ["And", "e", "ends", "functions", "", "elsei", "nor"] {
            assert_eq!(word(text), None);
        }
    }

    #[test]
    fn tokens_stay_small() {
        assert_eq!(size_of::<Token>(), 16);
    }
}
