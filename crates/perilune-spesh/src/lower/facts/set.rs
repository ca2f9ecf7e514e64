//! The facts of a state.
//!
//! States are copied at every branch, and what does not hold any more is looked for at most instructions. So
//! they are a sorted list: copied at once, and gone through in order. (A tree made intermediate form 5% dearer.)

use super::Fact;

/// Facts, in order, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::lower) struct Facts(Vec<Fact>);

impl Facts {
    pub fn new() -> Facts {
        Facts::default()
    }

    pub fn contains(&self, fact: &Fact) -> bool {
        self.0.binary_search(fact).is_ok()
    }

    pub fn insert(&mut self, fact: Fact) {
        if let Err(place) = self.0.binary_search(&fact) {
            self.0.insert(place, fact);
        }
    }

    pub fn remove(&mut self, fact: &Fact) {
        if let Ok(place) = self.0.binary_search(fact) {
            self.0.remove(place);
        }
    }

    /// Only those stay that `stays` says it of.
    pub fn retain(&mut self, stays: impl FnMut(&Fact) -> bool) {
        self.0.retain(stays);
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Fact> {
        self.0.iter()
    }
}

impl FromIterator<Fact> for Facts {
    fn from_iter<I: IntoIterator<Item = Fact>>(facts: I) -> Facts {
        let mut all: Vec<Fact> = facts.into_iter().collect();
        all.sort_unstable();
        all.dedup();
        Facts(all)
    }
}

impl Extend<Fact> for Facts {
    fn extend<I: IntoIterator<Item = Fact>>(&mut self, facts: I) {
        facts.into_iter().for_each(|fact| self.insert(fact));
    }
}

impl<'a> IntoIterator for &'a Facts {
    type Item = &'a Fact;
    type IntoIter = std::slice::Iter<'a, Fact>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
