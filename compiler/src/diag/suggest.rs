//! Spelling suggestions: the nearest known name.

/// The candidate with the smallest edit distance to `name`, if it is small enough for a typing error.
pub fn closest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = match name.chars().count() {
        0..=2 => 1,
        3..=5 => 2,
        _ => 3,
    };
    candidates
        .into_iter()
        .filter(|c| *c != name && c.len().abs_diff(name.len()) <= limit)
        .map(|c| (distance(name, c), c))
        .filter(|(d, c)| *d <= limit && *d < c.chars().count())
        .min()
        .map(|(_, c)| c)
}

/// Damerau-Levenshtein distance: insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let same = a[i - 1] == b[j - 1] || a[i - 1].eq_ignore_ascii_case(&b[j - 1]);
            let mut cost = (rows[i - 1][j - 1] + usize::from(!same))
                .min(rows[i - 1][j] + 1)
                .min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                cost = cost.min(rows[i - 2][j - 2] + 1);
            }
            row.push(cost);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::closest;

    #[test]
    fn a_swap_is_near_and_a_different_word_is_not() {
        assert_eq!(closest("inlcude", ["include", "define"]), Some("include"));
        assert_eq!(closest("frobnicate", ["include", "define"]), None);
    }

    #[test]
    fn one_letter_names_do_not_suggest_other_letters() {
        assert_eq!(closest("x", ["y", "z"]), None);
    }
}
