//! How many cases property tests try, and for how long fuzzers run: the one place that says so for all crates.
//!
//! A property test whose cases are cheap takes `ProptestConfig::default()` and says nothing; that is [`CASES`] cases.
//! Others say what a case costs: `#![proptest_config(Cost::Run.cases())]`. `PROPTEST_CASES=2560` is ten times as much of
//! all of them, and `PROPTEST_RNG_SEED` chooses which. `ALFIRK_FUZZ_SECONDS` and `ALFIRK_FUZZ_SEED` are the same for
//! fuzzers, whose cases are counted by time.

use std::time::Duration;

use proptest::test_runner::Config;

/// Cases of a property test whose cases are cheap: proptest's own number, when `PROPTEST_CASES` does not say another.
pub const CASES: u32 = 256;

/// Time for a fuzz target, when `ALFIRK_FUZZ_SECONDS` does not say another. `make test` gives targets more, one after
/// another (`tools/checks.py`).
pub const FUZZ_TIME: Duration = Duration::from_secs(1);

/// What a case of a property test costs, and so how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// Arithmetic of a moment, in a large space: twice as many as others.
    Arithmetic,
    /// Packets through one pipeline, or a transfer among queue pairs: half as many.
    Packets,
    /// A program through the compiler, or a transfer through a fabric: a sixth.
    Fabric,
    /// A run of many groups: a twentieth.
    Run,
}

impl Cost {
    /// How many cases there are of this cost, when there are `cheap` cheap ones; one at least.
    fn of(self, cheap: u32) -> u32 {
        let cases = match self {
            Cost::Arithmetic => cheap.saturating_mul(2),
            Cost::Packets => cheap / 2,
            Cost::Fabric => cheap / 6,
            Cost::Run => cheap / 20,
        };
        cases.max(1)
    }

    /// The configuration of a property test with cases of this cost.
    pub fn cases(self) -> Config {
        let cheap = Config::default();
        Config {
            cases: self.of(cheap.cases),
            ..cheap
        }
    }
}

/// Where a fuzz target begins and how long it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fuzz {
    /// The number of the first case, from which all its choices follow: `ALFIRK_FUZZ_SEED`, or 0.
    pub first: u64,
    /// `ALFIRK_FUZZ_SECONDS`, or [`FUZZ_TIME`].
    pub time: Duration,
}

impl Fuzz {
    /// As the environment says.
    ///
    /// # Panics
    /// When a variable is set to something else than a number: a typing error would else pass for a long run.
    pub fn from_env() -> Fuzz {
        Fuzz::of(|name| std::env::var(name).ok())
    }

    fn of(variable: impl Fn(&str) -> Option<String>) -> Fuzz {
        let number = |name: &str| -> Option<u64> {
            let text = variable(name)?;
            let number = text.parse();
            Some(number.unwrap_or_else(|_| panic!("{name}={text}: not a whole number")))
        };
        Fuzz {
            first: number("ALFIRK_FUZZ_SEED").unwrap_or(0),
            time: number("ALFIRK_FUZZ_SECONDS").map_or(FUZZ_TIME, Duration::from_secs),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dear_cases_are_fewer_and_never_none() {
        let all = [Cost::Arithmetic, Cost::Packets, Cost::Fabric, Cost::Run];
        assert_eq!(all.map(|cost| cost.of(CASES)), [512, 128, 42, 12]);
        assert_eq!(all.map(|cost| cost.of(1)), [2, 1, 1, 1]);
    }

    #[test]
    fn fuzzers_go_by_the_environment() {
        let none = Fuzz::of(|_| None);
        assert_eq!((none.first, none.time), (0, FUZZ_TIME));
        let told = Fuzz::of(|name| (name == "ALFIRK_FUZZ_SECONDS").then(|| "600".to_owned()));
        assert_eq!((told.first, told.time.as_secs()), (0, 600));
    }

    #[test]
    #[should_panic(expected = "ALFIRK_FUZZ_SEED=x: not a whole number")]
    fn a_wrong_number_is_named() {
        Fuzz::of(|_| Some("x".to_owned()));
    }
}
