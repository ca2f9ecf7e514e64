//! One line that a measuring program prints about itself: `NAME: VALUE UNIT`, and what it should be:
//! `(goal <= 50)`.
//!
//! A program of `benches/parallel` measures several things at once, knows the units and what each should
//! reach, and can be run and read without any chore. So its lines carry everything, and a chore only has to
//! pick the best of several runs: the least value, unless the goal is a lower bound or the unit is a rate,
//! where it is the largest.

/// Something that was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// What it is.
    pub name: String,
    /// The value, in `unit`s.
    pub value: f64,
    /// "us", "M/s", "x" and so on.
    pub unit: String,
    /// What it should be.
    pub goal: Option<Goal>,
}

/// A bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// The value should be this or less.
    AtMost(f64),
    /// The value should be this or more.
    AtLeast(f64),
}

impl Goal {
    /// Whether a value is within the bound.
    pub fn met(self, value: f64) -> bool {
        match self {
            Goal::AtMost(bound) => value <= bound,
            Goal::AtLeast(bound) => value >= bound,
        }
    }

    /// As text, with whether `value` is within it.
    pub fn text(self, value: f64) -> String {
        let met = if self.met(value) { " (met)" } else { "" };
        match self {
            Goal::AtMost(bound) => format!("<= {bound}{met}"),
            Goal::AtLeast(bound) => format!(">= {bound}{met}"),
        }
    }
}

impl Figure {
    /// Reads a line; `None` if it is not of this form.
    pub fn parse(line: &str) -> Option<Figure> {
        let (name, rest) = line.rsplit_once(": ")?;
        let (measured, goal) = match rest.split_once(" (goal ") {
            Some((measured, bound)) => {
                let (op, bound) = bound.strip_suffix(')')?.split_once(' ')?;
                let bound = bound.parse().ok()?;
                let goal = match op {
                    "<=" => Goal::AtMost(bound),
                    ">=" => Goal::AtLeast(bound),
                    _ => return None,
                };
                (measured, Some(goal))
            }
            None => (rest, None),
        };
        let (value, unit) = measured.split_once(' ')?;
        Some(Figure { name: name.into(), value: value.parse().ok()?, unit: unit.into(), goal })
    }

    /// The better of two values of the same thing.
    pub fn better(&self, a: f64, b: f64) -> f64 {
        let larger = match self.goal {
            Some(goal) => matches!(goal, Goal::AtLeast(_)),
            None => self.unit.ends_with("/s"),
        };
        if larger { a.max(b) } else { a.min(b) }
    }

    /// Takes the lines of one more run into `all`, the best values so far.
    pub fn gather(all: &mut Vec<Figure>, output: &[u8]) {
        for new in String::from_utf8_lossy(output).lines().filter_map(Figure::parse) {
            match all.iter_mut().find(|f| f.name == new.name) {
                Some(known) => known.value = known.better(known.value, new.value),
                None => all.push(new),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_lines_with_and_without_a_goal() {
        let f = Figure::parse("spawn: warm, twice: 34.5 us (goal <= 50)").unwrap();
        assert_eq!((f.name.as_str(), f.value, f.unit.as_str()), ("spawn: warm, twice", 34.5, "us"));
        assert_eq!(f.goal, Some(Goal::AtMost(50.0)));
        assert_eq!(Figure::parse("copied: 12 M fields/s").unwrap().unit, "M fields/s");
        for other in ["no figure", "a: b c", "a: 5", "a: 5 us (goal < 3)", "a: 5 us (goal <= x)"] {
            assert_eq!(Figure::parse(other), None, "{other}");
        }
    }

    #[test]
    fn the_best_run_counts() {
        let mut all = Vec::new();
        Figure::gather(&mut all, b"a: 3 us (goal <= 2)\nb: 3 M/s\nnoise\nc: 0.9 x (goal >= 0.95)\n");
        Figure::gather(&mut all, b"a: 2 us (goal <= 2)\nb: 4 M/s\nc: 0.8 x (goal >= 0.95)\n");
        assert_eq!(all.iter().map(|f| f.value).collect::<Vec<_>>(), [2.0, 4.0, 0.9]);
        assert_eq!(all[0].goal.unwrap().text(all[0].value), "<= 2 (met)");
        assert_eq!(all[2].goal.unwrap().text(all[2].value), ">= 0.95");
    }
}
