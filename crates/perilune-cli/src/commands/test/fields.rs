//! Lines of fields between tabs, as processes of ours tell each other things.

/// A line of fields.
pub fn line<'a>(fields: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut line = Vec::new();
    for (n, field) in fields.into_iter().enumerate() {
        if n > 0 {
            line.push(b'\t');
        }
        for &byte in field {
            match byte {
                b'\n' => line.extend_from_slice(b"\\n"),
                b'\t' => line.extend_from_slice(b"\\t"),
                b'\\' => line.extend_from_slice(b"\\\\"),
                byte => line.push(byte),
            }
        }
    }
    line.push(b'\n');
    line
}

/// The fields of a line without its newline.
pub fn fields(line: &[u8]) -> Vec<Vec<u8>> {
    let mut fields = vec![Vec::new()];
    let mut bytes = line.iter();
    while let Some(&byte) = bytes.next() {
        let last = fields.len() - 1;
        match byte {
            b'\t' => fields.push(Vec::new()),
            b'\\' => match bytes.next() {
                Some(b'n') => fields[last].push(b'\n'),
                Some(b't') => fields[last].push(b'\t'),
                Some(&other) => fields[last].push(other),
                None => {}
            },
            byte => fields[last].push(byte),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_as_they_went() {
        let sent: [&[u8]; 4] = [b"plain", b"", b"a\tb\nc\\d\\n", b"\xff\0"];
        let line = line(sent);
        assert_eq!(line.iter().filter(|b| **b == b'\n').count(), 1);
        assert_eq!(fields(&line[..line.len() - 1]), sent);
    }
}
