//! Qualified names, and allocation of unique names.

use rustc_hash::FxHashMap;

/// The qualified name `prefix.name`, or `name` if the prefix is empty.
pub fn join(prefix: &str, name: &str) -> String {
    match prefix {
        "" => name.to_owned(),
        _ => format!("{prefix}.{name}"),
    }
}

/// Names in use. For each name, the next number to try as a suffix.
#[derive(Debug, Default)]
pub struct Names(FxHashMap<String, u32>);

impl Names {
    /// Marks a name as used.
    pub fn insert(&mut self, name: String) {
        self.0.entry(name).or_insert(0);
    }

    /// Allocates an unused name: `wanted`, or `wanted_N` with the smallest free N, from 0. Amortised O(1), as the next N is stored per
    /// name.
    pub fn unique(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        if let Some(tried) = self.0.get(wanted) {
            // Names are never released, so all smaller suffixes are in use.
            let mut number = *tried;
            while self.0.contains_key(&name) {
                name = format!("{wanted}_{number}");
                number += 1;
            }
            self.0.insert(wanted.to_owned(), number);
        }
        self.0.insert(name.clone(), 0);
        name
    }
}

impl Extend<String> for Names {
    fn extend<I: IntoIterator<Item = String>>(&mut self, names: I) {
        names.into_iter().for_each(|name| self.insert(name));
    }
}

#[cfg(test)]
mod tests {
    use super::Names;

    #[test]
    fn smallest_free_suffix_is_used() {
        let mut names = Names::default();
        names.insert("x_1".to_owned());
        let taken: Vec<String> = (0..4).map(|_| names.unique("x")).collect();
        assert_eq!(taken, ["x", "x_0", "x_2", "x_3"]);
        assert_eq!(names.unique("x_1"), "x_1_0");
    }
}
