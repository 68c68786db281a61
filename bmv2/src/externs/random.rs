//! Random numbers from a seed: equal seeds and packets give equal runs.

use crate::choices::Choices;

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators").
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
    /// Choices that replace the random numbers, if there is a script.
    pub choices: Option<Box<Choices>>,
}

impl Random {
    pub fn new(seed: u64) -> Random {
        Random {
            state: seed,
            choices: None,
        }
    }

    pub fn next(&mut self) -> u64 {
        if let Some(choices) = &mut self.choices {
            return choices.number(0, u64::MAX);
        }
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Returns a uniform number in `low..=high`; `low` if `low > high`, which P4 leaves undefined.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        if let Some(choices) = &mut self.choices {
            return choices.number(low, high);
        }
        let Some(span) = high.checked_sub(low) else {
            return low;
        };
        let Some(count) = span.checked_add(1) else {
            return self.next();
        };
        // Rejecting values of the incomplete last interval makes all results equally likely (Lemire).
        let threshold = count.wrapping_neg() % count;
        loop {
            let product = u128::from(self.next()) * u128::from(count);
            if product as u64 >= threshold {
                return low + (product >> 64) as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_within_bounds_and_reach_both() {
        let mut random = Random::new(7);
        let values: Vec<u64> = (0..1000).map(|_| random.between(3, 6)).collect();
        assert!(values.iter().all(|v| (3..=6).contains(v)));
        assert!(values.contains(&3) && values.contains(&6));
        assert_eq!(random.between(9, 9), 9);
        assert_eq!(random.between(9, 8), 9);
        random.between(0, u64::MAX);
    }
}
