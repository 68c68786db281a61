//! Names of a program's objects, of which a user may leave out what no other needs.

/// The name that is meant: `wanted` itself, or the only one that ends with it behind a dot.
///
/// # Errors
/// Those that it may be; none when nothing has that name.
pub fn by_suffix<'n>(
    names: impl Iterator<Item = &'n str>,
    wanted: &str,
) -> Result<&'n str, Vec<&'n str>> {
    let mut found = Vec::new();
    for name in names {
        if name == wanted {
            return Ok(name);
        }
        let before = name.strip_suffix(wanted);
        if before.is_some_and(|before| before.ends_with('.')) && !found.contains(&name) {
            found.push(name);
        }
    }
    match found[..] {
        [one] => Ok(one),
        _ => Err(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_behind_a_dot_is_enough_if_only_one_ends_so() {
        let find = |wanted| by_suffix(["a.t", "b.t", "t.u", "t.u", "x"].into_iter(), wanted);
        assert_eq!(find("u"), Ok("t.u"));
        assert_eq!(find("x"), Ok("x"));
        assert_eq!(find("t"), Err(vec!["a.t", "b.t"]));
        assert_eq!(find(".t"), Err(vec![]));
        assert_eq!(find(""), Err(vec![]));
    }
}
