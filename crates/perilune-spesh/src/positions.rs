//! Which place of the source program an instruction of machine code belongs to.
//!
//! A place is a number that whoever compiles gives out: of a bytecode of the function, or of an entry in a
//! table of its own that leads on to inlined functions and their callers. Here it is not interpreted.

/// A number for a place of the program that was compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(pub u32);

/// The places of a piece of code, by offset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Positions {
    /// From this offset on, up to that of the next element, instructions belong to this place, if to any. In
    /// order, no two neighbours alike.
    steps: Box<[(u32, Option<Place>)]>,
}

impl Positions {
    /// From ranges of offsets in ascending order, which neither overlap nor are empty. What lies between them
    /// belongs to no place.
    pub fn from_ranges(ranges: impl IntoIterator<Item = (std::ops::Range<u32>, Place)>) -> Positions {
        let mut steps: Vec<(u32, Option<Place>)> = Vec::new();
        let mut end = 0;
        let mut push = |offset: u32, place: Option<Place>| {
            if steps.last().map_or(place.is_some(), |&(_, last)| last != place) {
                steps.push((offset, place));
            }
        };
        for (range, place) in ranges {
            assert!(range.start >= end && !range.is_empty(), "ranges out of order");
            if range.start > end {
                push(end, None);
            }
            push(range.start, Some(place));
            end = range.end;
        }
        push(end, None);
        Positions { steps: steps.into() }
    }

    /// The place of the instruction at `offset`, counted from the start of the code. Fit for signal handlers.
    pub fn at(&self, offset: u32) -> Option<Place> {
        let next = self.steps.partition_point(|&(from, _)| from <= offset);
        self.steps[..next].last().and_then(|&(_, place)| place)
    }

    /// The same; of an instruction that belongs to none (moves between registers, where ways meet), the place
    /// of the last one before it that belongs to one.
    pub fn near(&self, offset: u32) -> Option<Place> {
        let next = self.steps.partition_point(|&(from, _)| from <= offset);
        self.steps[..next].iter().rev().find_map(|&(_, place)| place)
    }

    /// Where each place begins, in order of offsets. A place can come more than once.
    pub fn starts(&self) -> impl Iterator<Item = (u32, Place)> + '_ {
        self.steps.iter().filter_map(|&(from, place)| Some((from, place?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_belong_to_the_range_around_them() {
        let (a, b) = (Place(7), Place(9));
        let positions = Positions::from_ranges([(4..8, a), (8..12, a), (12..13, b), (20..24, a)]);
        let at = |offset| positions.at(offset);
        assert_eq!([at(0), at(3), at(4), at(11)], [None, None, Some(a), Some(a)]);
        assert_eq!([at(12), at(13), at(19), at(20)], [Some(b), None, None, Some(a)]);
        assert_eq!([at(23), at(24), at(u32::MAX)], [Some(a), None, None]);
        let near = |offset| positions.near(offset);
        assert_eq!([near(0), near(3), near(4), near(12)], [None, None, Some(a), Some(b)]);
        assert_eq!([near(13), near(19), near(20), near(u32::MAX)], [Some(b), Some(b), Some(a), Some(a)]);
        assert_eq!(positions.starts().collect::<Vec<_>>(), [(4, a), (12, b), (20, a)]);
        assert_eq!(Positions::from_ranges([]), Positions::default());
    }
}
