//! What somebody may have meant.

/// The names that are nearest to `word`, if any is near: one change in three characters at most, a swap of
/// neighbours being one change. The best first, at most three, those that are clearly worse than the best
/// left out.
pub fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let most = (word.chars().count() / 3).max(1);
    let mut near: Vec<(usize, &str)> = names
        .filter(|name| *name != word && name.chars().count() > most)
        .map(|name| (strsim::damerau_levenshtein(word, name), name))
        .filter(|(distance, _)| *distance <= most)
        .collect();
    near.sort_unstable();
    near.dedup();
    let best = near.first().map_or(0, |(distance, _)| *distance);
    near.into_iter().filter(|(d, _)| *d <= best).take(3).map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn near_and_far() {
        let near = |word| nearest(word, ["bench", "trace", "top", "test", "heap", "help"].into_iter());
        assert_eq!(near("tset"), ["test"]);
        assert_eq!(near("benhc"), ["bench"]);
        assert_eq!(near("tarce"), ["trace"]);
        assert_eq!(near("hexp"), ["heap", "help"]);
        assert!(near("main").is_empty());
        assert!(near("x").is_empty());
        assert!(near("").is_empty());
    }
}
