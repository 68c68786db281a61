//! Spelling suggestions: the nearest known name.

/// The candidate with the smallest edit distance to `name`; `None` if all distances are too large for a spelling error. The distance is
/// the number of insertions, deletions, substitutions and transpositions of neighbours, case-insensitive.
pub fn closest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower_case = name.to_ascii_lowercase();
    let distance = |other: &str| strsim::osa_distance(&lower_case, &other.to_ascii_lowercase());
    let limit = match name.chars().count() {
        0..=2 => 1,
        3..=5 => 2,
        _ => 3,
    };
    candidates
        .into_iter()
        .filter(|c| *c != name && c.len().abs_diff(name.len()) <= limit)
        .map(|c| (distance(c), c))
        .filter(|(d, c)| *d <= limit && *d < c.chars().count())
        .min()
        .map(|(_, c)| c)
}

#[cfg(test)]
mod tests {
    use super::closest;

    #[test]
    fn transposition_is_suggested_and_different_word_is_not() {
        assert_eq!(closest("inlcude", ["include", "define"]), Some("include"));
        assert_eq!(closest("frobnicate", ["include", "define"]), None);
    }

    #[test]
    fn one_letter_names_do_not_suggest_other_letters() {
        assert_eq!(closest("x", ["y", "z"]), None);
    }
}
