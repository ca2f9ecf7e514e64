//! Where a type ends and the text behind it begins.
//!
//! In `@param options? { chunk?: integer } without a chunk the loop divides itself` nothing but the grammar
//! of types says that the type is `{ chunk?: integer }`. A type ends at the first space outside of brackets
//! and quotes; but a `fun(...)` may go on with `: type`, and a `|` joins two types, with spaces around it or
//! without.

/// `rest` as the type at its beginning and the text behind it.
///
/// ```
/// use perilune_luacats::split_type;
/// assert_eq!(split_type("fun(a: T, b: T): T associative"), ("fun(a: T, b: T): T", "associative"));
/// assert_eq!(split_type("integer"), ("integer", ""));
/// ```
pub fn split_type(rest: &str) -> (&str, &str) {
    let bytes = rest.as_bytes();
    let (mut depth, mut quote) = (0usize, None);
    let mut at = 0;
    while at < bytes.len() {
        match (quote, bytes[at]) {
            (Some(q), b) if b == q => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(bytes[at]),
            (None, b'(' | b'{' | b'[' | b'<') => depth += 1,
            (None, b')' | b'}' | b']' | b'>') => depth = depth.saturating_sub(1),
            (None, b' ') if depth == 0 => {
                let before = bytes[..at].last();
                let next = bytes[at..].iter().find(|b| **b != b' ');
                let goes_on = matches!(before, Some(b':' | b'|' | b',')) || next == Some(&b'|');
                if !goes_on {
                    return (&rest[..at], rest[at..].trim_start());
                }
            }
            _ => {}
        }
        at += 1;
    }
    (rest, "")
}

#[cfg(test)]
mod tests {
    use super::split_type;

    #[test]
    fn types_end_where_their_grammar_says() {
        for (of, text) in [
            ("number", "seconds"),
            ("fun(...: any): ...", "any arguments"),
            ("string|{ name?: string, memory?: integer }", "a name for traces"),
            ("{ memory?: integer|false }", "bytes, 4 MiB at least"),
            ("\"full\"|\"closed\"?", "why"),
            ("\"it is full\" | nil", "why"),
            ("table<string, integer>", "counts"),
            ("fun(): any, any", ""),
            ("perilune.task[]", ""),
        ] {
            assert_eq!(split_type(format!("{of} {text}").trim_end()), (of, text));
        }
        assert_eq!(split_type(""), ("", ""));
        assert_eq!(split_type(") ) x"), (")", ") x"));
    }
}
