//! Which line each instruction of a prototype is on.
//!
//! Most functions are shorter than 256 lines, and there the distance from the first is a byte. Finding a line
//! takes one load all the same. What is all on one line, as are most texts that programs make for `load`,
//! takes no list.

/// The line of each instruction, or nothing when debug information was stripped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines(Form);

/// Which of the three it is follows from the lines, so equal lists have equal forms.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    /// One line, and how many instructions are on it; none: line 0.
    Same(u32, u32),
    /// The least line, and how far each is behind it.
    Near(u32, Box<[u8]>),
    /// Lines that are too far from each other for that.
    Far(Box<[u32]>),
}

impl Default for Form {
    fn default() -> Form {
        Form::Same(0, 0)
    }
}

impl Lines {
    /// How many.
    pub fn len(&self) -> usize {
        match &self.0 {
            Form::Same(_, count) => *count as usize,
            Form::Near(_, lines) => lines.len(),
            Form::Far(lines) => lines.len(),
        }
    }

    /// None at all?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The line of the instruction at `pc`.
    pub fn get(&self, pc: usize) -> Option<u32> {
        match &self.0 {
            Form::Same(line, count) => (pc < *count as usize).then_some(*line),
            Form::Near(first, lines) => lines.get(pc).map(|&behind| first + u32::from(behind)),
            Form::Far(lines) => lines.get(pc).copied(),
        }
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        let (first, same, near, far) = match &self.0 {
            Form::Same(line, count) => (*line, *count, &[][..], &[][..]),
            Form::Near(first, lines) => (*first, 0, &lines[..], &[][..]),
            Form::Far(lines) => (0, 0, &[][..], &lines[..]),
        };
        let near = near.iter().map(move |&behind| first + u32::from(behind));
        std::iter::repeat_n(first, same as usize).chain(near).chain(far.iter().copied())
    }

    /// Bytes of malloc'd memory.
    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.0 {
            Form::Same(..) => 0,
            Form::Near(_, lines) => lines.len(),
            Form::Far(lines) => size_of_val(&**lines),
        }
    }
}

impl From<&[u32]> for Lines {
    fn from(lines: &[u32]) -> Lines {
        let (first, last) = lines.iter().fold((u32::MAX, 0), |(a, b), &line| (a.min(line), b.max(line)));
        Lines(match last.saturating_sub(first) {
            _ if lines.is_empty() => Form::default(),
            0 => Form::Same(first, u32::try_from(lines.len()).expect("texts are shorter than that")),
            1..256 => Form::Near(first, lines.iter().map(|&line| (line - first) as u8).collect()),
            _ => Form::Far(lines.into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_that_were_given() {
        let lists: [&[u32]; 8] = [
            &[],
            &[7],
            &[0, 0],
            &[9, 9, 9],
            &[0, 255],
            &[0, 256],
            &[u32::MAX - 255, u32::MAX, u32::MAX - 3],
            &[9, u32::MAX, 0],
        ];
        for list in lists {
            let lines = Lines::from(list);
            assert_eq!(lines.iter().collect::<Vec<_>>(), list);
            assert_eq!((lines.len(), lines.is_empty()), (list.len(), list.is_empty()));
            assert_eq!(lines.get(list.len()), None);
        }
    }

    #[test]
    fn near_lines_take_a_byte_each_and_the_same_ones_none() {
        assert_eq!(Lines::from(&[1000, 1000][..]).heap_bytes(), 0);
        assert_eq!(Lines::from(&[1000, 1255][..]).heap_bytes(), 2);
        assert_eq!(Lines::from(&[1000, 1256][..]).heap_bytes(), 8);
    }
}
