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
        IDiv "//", Concat "..", Dots "...", Eq "==", Ge ">=", Le "<=", Ne "~=", Shl "<<", Shr ">>", DoubleColon "::",
    }
}

impl Word {
    /// The reserved word that `name` is, if it is one.
    #[inline]
    pub fn of(name: &[u8]) -> Option<Word> {
        // All have two to eight letters and start in a..=w; most names are told apart by length and first
        // letter.
        Some(match (name.len(), *name.first()?) {
            (2, b'd') if name == b"do" => Word::Do,
            (2, b'i') if name == b"if" => Word::If,
            (2, b'i') if name == b"in" => Word::In,
            (2, b'o') if name == b"or" => Word::Or,
            (3, b'a') if name == b"and" => Word::And,
            (3, b'e') if name == b"end" => Word::End,
            (3, b'f') if name == b"for" => Word::For,
            (3, b'n') if name == b"nil" => Word::Nil,
            (3, b'n') if name == b"not" => Word::Not,
            (4, b'e') if name == b"else" => Word::Else,
            (4, b'g') if name == b"goto" => Word::Goto,
            (4, b't') if name == b"then" => Word::Then,
            (4, b't') if name == b"true" => Word::True,
            (5, b'b') if name == b"break" => Word::Break,
            (5, b'f') if name == b"false" => Word::False,
            (5, b'l') if name == b"local" => Word::Local,
            (5, b'u') if name == b"until" => Word::Until,
            (5, b'w') if name == b"while" => Word::While,
            (6, b'e') if name == b"elseif" => Word::ElseIf,
            (6, b'r') if name == b"repeat" => Word::Repeat,
            (6, b'r') if name == b"return" => Word::Return,
            (8, b'f') if name == b"function" => Word::Function,
            _ => return None,
        })
    }
}

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

    #[test]
    fn reserved_words_are_recognised() {
        let all = "and break do else elseif end false for function goto if in local nil not or repeat return then true until while";
        for text in all.split(' ') {
            assert_eq!(Word::of(text.as_bytes()).map(Word::text), Some(text));
        }
        for text in ["And", "e", "ends", "functions", "", "elsei", "nor"] {
            assert_eq!(Word::of(text.as_bytes()), None);
        }
    }

    #[test]
    fn tokens_stay_small() {
        assert_eq!(size_of::<Token>(), 16);
    }
}
