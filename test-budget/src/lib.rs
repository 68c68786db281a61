//! The number of cases of property tests, the duration of fuzzers, and the record of skipped tests, for all crates.
//!
//! Property tests with cheap cases use `ProptestConfig::default()`, which is [`CASES`] cases. Others declare the cost of a case:
//! `#![proptest_config(Cost::Run.cases())]`. `PROPTEST_CASES=2560` multiplies all of them by ten, and `PROPTEST_RNG_SEED` chooses the
//! cases. `ALFIRK_FUZZ_SECONDS` and `ALFIRK_FUZZ_SEED` do the same for fuzzers, which are limited by time.

use std::{fs::OpenOptions, io::Write, path::Path, thread, time::Duration};

use proptest::test_runner::Config;

/// Cases of a property test with cheap cases: proptest's default, unless `PROPTEST_CASES` is set.
pub const CASES: u32 = 256;

/// Duration of a fuzz target, unless `ALFIRK_FUZZ_SECONDS` is set. `make test` uses a longer one, for one target after the other
/// (`tools/checks.py`).
pub const FUZZ_TIME: Duration = Duration::from_secs(1);

/// The cost of a case of a property test, which determines the number of cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// Arithmetic in a large space: twice the default.
    Arithmetic,
    /// Packets through one pipeline, or a transfer between queue pairs: half the default.
    Packets,
    /// A program through the compiler, or a transfer through a fabric: a tenth of the default.
    Fabric,
    /// A run of many groups: a twentieth of the default.
    Run,
}

impl Cost {
    /// Number of cases of this cost, at least one, where cheap tests have `cheap` cases.
    fn of(self, cheap: u32) -> u32 {
        let cases = match self {
            Cost::Arithmetic => cheap.saturating_mul(2),
            Cost::Packets => cheap / 2,
            Cost::Fabric => cheap / 10,
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

/// First case and duration of a fuzz target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fuzz {
    /// Number of the first case, which determines its random choices: `ALFIRK_FUZZ_SEED`, or 0.
    pub first: u64,
    /// Duration: `ALFIRK_FUZZ_SECONDS`, or [`FUZZ_TIME`].
    pub time: Duration,
}

impl Fuzz {
    /// Reads the environment variables.
    ///
    /// # Panics
    /// If a variable is not a whole number, so that a typing error does not pass for a long run.
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

/// Environment variable with the path of the file to which [`skip`] appends.
const SKIPPED_TESTS: &str = "ALFIRK_SKIPPED_TESTS";

/// Records that the calling test is skipped because this machine lacks something, and prints the reason. The test must then return.
///
/// libtest decides before a test runs whether it is ignored, and so reports the test as passed. `make test` (`tools/checks.py`) reads
/// the record, and counts the test as skipped.
///
/// # Panics
/// If the file of `ALFIRK_SKIPPED_TESTS` cannot be written.
pub fn skip(reason: &str) {
    let thread = thread::current();
    let test = thread.name().unwrap_or("a test");
    eprintln!("SKIPPED {test}: {reason}");
    if let Some(path) = std::env::var_os(SKIPPED_TESTS) {
        record(Path::new(&path), &format!("{test}: {reason}\n"));
    }
}

/// Appends a line to a file. One write per line keeps the lines of parallel tests apart.
fn record(path: &Path, line: &str) {
    let file = OpenOptions::new().create(true).append(true).open(path);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expensive_cases_are_fewer_but_at_least_one() {
        let all = [Cost::Arithmetic, Cost::Packets, Cost::Fabric, Cost::Run];
        assert_eq!(all.map(|cost| cost.of(CASES)), [512, 128, 25, 12]);
        assert_eq!(all.map(|cost| cost.of(1)), [2, 1, 1, 1]);
    }

    #[test]
    fn fuzzers_read_the_environment() {
        let none = Fuzz::of(|_| None);
        assert_eq!((none.first, none.time), (0, FUZZ_TIME));
        let fuzz = Fuzz::of(|name| (name == "ALFIRK_FUZZ_SECONDS").then(|| "600".to_owned()));
        assert_eq!((fuzz.first, fuzz.time.as_secs()), (0, 600));
    }

    #[test]
    #[should_panic(expected = "ALFIRK_FUZZ_SEED=x: not a whole number")]
    fn a_wrong_number_is_named() {
        Fuzz::of(|_| Some("x".to_owned()));
    }
}
