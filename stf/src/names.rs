//! Names of a program's objects, which may be shortened to a unique suffix.

/// Finds the name that equals `wanted`, or the only name that ends with a dot and `wanted`.
///
/// # Errors
/// The candidates; an empty list when there are none.
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

/// Returns the name that is most similar to an unknown name, by the edit distance to the name or to its trailing
/// components; `None` if none is similar enough.
pub fn nearest<'n>(wanted: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let last_part = |name: &'n str| name.rsplit('.').next().unwrap_or(name);
    let wanted_part = wanted.rsplit('.').next().unwrap_or(wanted);
    let distance = |name: &'n str| {
        let whole = strsim::damerau_levenshtein(wanted, name);
        whole.min(strsim::damerau_levenshtein(wanted_part, last_part(name)))
    };
    let names = names.into_iter().map(|name| (distance(name), name));
    let limit = 1 + wanted_part.chars().count() / 3;
    let near = names.filter(|(distance, _)| *distance <= limit);
    near.min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Returns the end of an error message about an unknown name: `; did you mean ...?` with the [`nearest`] of `names`. If
/// none is near, lists all names, if there are at most [`MAX_NAMES`].
pub fn did_you_mean<'n>(wanted: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    match nearest(wanted, names.iter().copied()) {
        Some(name) => format!("; did you mean `{name}`?"),
        None if (1..=MAX_NAMES).contains(&names.len()) => {
            format!("; valid names: {}", names.join(", "))
        }
        None => String::new(),
    }
}

/// Maximum number of valid names that an error message lists.
const MAX_NAMES: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested() {
        let names = ["ingress.routes", "ingress.acl"];
        for wanted in ["ingress.route", "rotues", "egress.routes"] {
            let near = did_you_mean(wanted, names);
            assert_eq!(near, "; did you mean `ingress.routes`?", "{wanted}");
        }
        assert_eq!(
            did_you_mean("nothing_of_all", names),
            "; valid names: ingress.routes, ingress.acl"
        );
        assert_eq!(did_you_mean("x", []), "");
    }

    #[test]
    fn a_unique_suffix_is_enough() {
        let find = |wanted| by_suffix(["a.t", "b.t", "t.u", "t.u", "x"].into_iter(), wanted);
        assert_eq!(find("u"), Ok("t.u"));
        assert_eq!(find("x"), Ok("x"));
        assert_eq!(find("t"), Err(vec!["a.t", "b.t"]));
        assert_eq!(find(".t"), Err(vec![]));
        assert_eq!(find(""), Err(vec![]));
    }
}
