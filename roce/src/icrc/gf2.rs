//! Solver for linear equations over GF(2), in 32-bit words.

/// Span of up to 32 vectors, reduced so that a vector can quickly be expressed as a sum of them.
pub(super) struct Span {
    /// For each leading bit: a vector with that leading bit, and the set of input vectors whose sum it is (bit i for
    /// vector i). `None` if the span has no such vector.
    rows: [Option<(u32, u32)>; 32],
}

impl Span {
    /// Creates the span of at most 32 `vectors`.
    pub(super) fn new(vectors: &[u32]) -> Span {
        assert!(vectors.len() <= 32, "a set of vectors is a word of 32 bits");
        let mut span = Span { rows: [None; 32] };
        for (i, vector) in vectors.iter().enumerate() {
            let (rest, set) = span.reduce(*vector);
            if rest != 0 {
                span.rows[leading(rest)] = Some((rest, set ^ 1 << i));
            }
        }
        span
    }

    /// Rank of the span: the number of linearly independent vectors.
    #[cfg(test)]
    pub(super) fn rank(&self) -> usize {
        self.rows.iter().flatten().count()
    }

    /// Returns the set of input vectors whose sum is `target` (bit i for vector i). Error: the remainder of `target`,
    /// if it is outside the span.
    pub(super) fn solve(&self, target: u32) -> Result<u32, u32> {
        match self.reduce(target) {
            (0, set) => Ok(set),
            (rest, _) => Err(rest),
        }
    }

    /// Subtracts rows from `vector` until no row has its leading bit. Returns the remainder, and the set of input vectors
    /// that were subtracted.
    fn reduce(&self, mut vector: u32) -> (u32, u32) {
        let mut set = 0;
        while vector != 0 {
            match self.rows[leading(vector)] {
                Some((row, members)) => {
                    vector ^= row;
                    set ^= members;
                }
                None => break,
            }
        }
        (vector, set)
    }
}

/// The position of the highest set bit of a vector that is not zero.
fn leading(vector: u32) -> usize {
    31 - vector.leading_zeros() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dependent_vectors_do_not_increase_the_rank() {
        let span = Span::new(&[0b011, 0b101, 0b110]);
        assert_eq!(span.rank(), 2);
        assert_eq!(span.solve(0b110), Ok(0b011));
        assert_eq!(span.solve(0b001), Err(0b001));
    }

    proptest! {
        #[test]
        fn selected_vectors_have_the_target_as_their_sum(vectors in proptest::collection::vec(any::<u32>(), 0..=32), set: u32) {
            let sum = |set: u32| {
                vectors.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1).fold(0, |a, (_, v)| a ^ v)
            };
            let target = sum(set);
            let solution = Span::new(&vectors).solve(target).expect("the target is in the span");
            prop_assert_eq!(sum(solution), target);
        }
    }
}
