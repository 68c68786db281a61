//! Choices: values that neither the program, its entries nor the packets determine.
//!
//! A switch with a script of choices ([`Switch::script_choices`](crate::Switch::script_choices)) takes these values from
//! the script instead of random numbers and hashes. Further choices than the script has take their first alternative, and
//! all of them are recorded. [`next_script`] enumerates all scripts, depth first.

use crate::program::{LoadedProgram, SCALARS, USER_METADATA};

/// Maximum number of values that are tried of one random number.
pub const MAX_ALTERNATIVES: u64 = 16;

/// What a chosen value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChoiceKind {
    /// A random number of the program.
    Random {
        /// Smallest value.
        low: u64,
        /// Largest value.
        high: u64,
    },
    /// The member of an action selector's group that executes the action of an entry.
    Member {
        /// Name of the table.
        table: String,
    },
}

/// A choice that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// What was chosen.
    pub kind: ChoiceKind,
    /// The number that was chosen, or the id of the member.
    pub value: u64,
    /// Number of the alternative, from 0.
    pub alternative: u64,
    /// Number of alternatives that are tried.
    pub alternatives: u64,
    /// Whether there are other values, which are not tried.
    pub is_cut: bool,
}

/// A script of choices, and the choices that were made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choices {
    script: Vec<u64>,
    made: Vec<Choice>,
}

impl Choices {
    pub fn new(script: Vec<u64>) -> Choices {
        Choices {
            script,
            made: Vec::new(),
        }
    }

    pub fn into_made(self) -> Vec<Choice> {
        self.made
    }

    /// Chooses a random number. Of a range with more than [`MAX_ALTERNATIVES`] numbers, both ends and some between them are
    /// tried.
    pub fn number(&mut self, low: u64, high: u64) -> u64 {
        let Some(span) = high.checked_sub(low) else {
            return low;
        };
        let is_cut = span >= MAX_ALTERNATIVES;
        let alternatives = span.saturating_add(1).min(MAX_ALTERNATIVES);
        let alternative = self.next(alternatives);
        let offset = match alternative {
            last if last + 1 == alternatives => span,
            // Equal distances.
            other => {
                (u128::from(span) * u128::from(other) / u128::from(alternatives.max(2) - 1)) as u64
            }
        };
        let value = low + offset;
        // A choice without alternatives is none.
        if alternatives > 1 {
            self.made.push(Choice {
                kind: ChoiceKind::Random { low, high },
                value,
                alternative,
                alternatives,
                is_cut,
            });
        }
        value
    }

    /// Chooses a member of a group of the table with this name; `None` for a group without members.
    pub fn member(&mut self, table: &str, members: &[u32]) -> Option<u32> {
        let alternatives = members.len() as u64;
        if alternatives == 0 {
            return None;
        }
        let alternative = self.next(alternatives);
        let member = members[alternative as usize];
        if alternatives > 1 {
            self.made.push(Choice {
                kind: ChoiceKind::Member {
                    table: table.to_owned(),
                },
                value: member.into(),
                alternative,
                alternatives,
                is_cut: false,
            });
        }
        Some(member)
    }

    /// Returns the next alternative of the script; 0 beyond its end.
    fn next(&self, alternatives: u64) -> u64 {
        let scripted = self.script.get(self.made.len()).copied().unwrap_or(0);
        scripted.min(alternatives - 1)
    }
}

/// Returns the script after that of a run, in depth-first order, from the choices of the run; `None` after the last one.
pub fn next_script(made: &[Choice]) -> Option<Vec<u64>> {
    let last = made
        .iter()
        .rposition(|choice| choice.alternative + 1 < choice.alternatives)?;
    let mut script: Vec<u64> = made[..=last]
        .iter()
        .map(|choice| choice.alternative)
        .collect();
    script[last] += 1;
    Some(script)
}

/// Returns the words of a packet whose initial values P4 leaves undefined, with the masks of their bits: fields of headers
/// and local variables. User-defined metadata is 0 in v1model.
pub(crate) fn undefined_words(program: &LoadedProgram) -> Vec<(u16, u64)> {
    let mut words = Vec::new();
    for header in &program.layout.headers {
        for field in &header.fields {
            let is_local = header.name == SCALARS && !field.name.starts_with(USER_METADATA);
            // All ones is -1 for a signed field, which is stored with its sign extended.
            let last_bits = match field.bits % 64 {
                0 => 64,
                bits => bits,
            };
            let mask = match field.signed {
                true => u64::MAX,
                false => u64::MAX >> (64 - last_bits),
            };
            if field.bits == 0 || header.metadata && !is_local {
                continue;
            }
            let count = field.bits.div_ceil(64) as u16;
            for at in 0..count {
                let is_last = at + 1 == count;
                words.push((field.slot + at, if is_last { mask } else { u64::MAX }));
            }
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All values of `count` random numbers from 0 to `high`, in the order of the scripts.
    fn all(high: u64, count: usize) -> Vec<Vec<u64>> {
        let mut runs = Vec::new();
        let mut script = Some(Vec::new());
        while let Some(next) = script {
            let mut choices = Choices::new(next);
            runs.push((0..count).map(|_| choices.number(0, high)).collect());
            script = next_script(&choices.into_made());
        }
        runs
    }

    #[test]
    fn scripts_enumerate_all_values_depth_first() {
        assert_eq!(all(1, 2), [[0, 0], [0, 1], [1, 0], [1, 1]]);
        assert_eq!(all(0, 3), [[0, 0, 0]]);
    }

    #[test]
    fn wide_ranges_are_cut_to_values_from_both_ends() {
        let values: Vec<u64> = all(u64::MAX, 1).concat();
        assert_eq!(values.len() as u64, MAX_ALTERNATIVES);
        assert_eq!((values[0], values[values.len() - 1]), (0, u64::MAX));
        assert!(values.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
