//! Settings of the library, from environment variables. The settings of rank 0 apply to all ranks, except for the RDMA
//! device, which may differ between hosts.

use std::net::Ipv4Addr;

use alfirk_roce::collective::{Algorithm, Collective};

use crate::addresses::Range;

pub(crate) const ALGORITHM: &str = "ALFIRK_MPI_ALGORITHM";
pub(crate) const GROUPS: &str = "ALFIRK_MPI_GROUPS";
pub(crate) const BUFFER: &str = "ALFIRK_MPI_BUFFER";
pub(crate) const COPY: &str = "ALFIRK_MPI_COPY";
pub(crate) const SMALLEST: &str = "ALFIRK_MPI_SMALLEST";
pub(crate) const TIMEOUT: &str = "ALFIRK_MPI_TIMEOUT_MS";
pub(crate) const DEVICE: &str = "ALFIRK_MPI_DEVICE";
pub(crate) const VERBOSE: &str = "ALFIRK_MPI_VERBOSE";

/// Maximum length of a message in bytes, which is the most that MPI_Pack supports at a time.
pub(crate) const MAX_LENGTH: u64 = i32::MAX as u64;

/// Default of [`Settings::max_copied`], in bytes. Up to this length, copying was faster than registering memory on guests
/// with rdma_rxe; `interop/run speed` measures both.
const DEFAULT_COPY: u64 = 64 << 10;

/// The settings that all ranks of a job share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Algorithm of broadcasts and barriers; `None` to use the underlying MPI for all calls.
    pub(crate) algorithm: Option<Algorithm>,
    /// Range of IPv4 addresses for the groups of the job.
    pub(crate) groups: Range,
    /// Length of each group's buffer in bytes.
    pub(crate) buffer: u64,
    /// Maximum length in bytes of a broadcast that is copied through the buffer. For a longer one, the program's memory
    /// is registered.
    pub(crate) max_copied: u64,
    /// Minimum length in bytes of a broadcast that uses this library; shorter ones use the underlying MPI.
    pub(crate) min_length: u64,
    /// Time limit in milliseconds in which a group must transfer one part of a broadcast, once all members are present.
    pub(crate) timeout_ms: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            algorithm: Some(Algorithm::Alfirk),
            groups: Range::DEFAULT,
            buffer: 1 << 20,
            max_copied: DEFAULT_COPY,
            min_length: 0,
            timeout_ms: 20_000,
        }
    }
}

impl Settings {
    /// Returns settings that make all calls use the underlying MPI.
    pub(crate) fn disabled() -> Settings {
        Settings {
            algorithm: None,
            ..Settings::default()
        }
    }

    /// Reads the settings from environment variables. An error contains the variable and its valid values.
    pub(crate) fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Settings, String> {
        let mut settings = Settings::default();
        let number = |name: &str, default: u64, min: u64| match variable(name) {
            None => Ok(default),
            Some(text) => {
                let number = text.parse().ok();
                let good = number.filter(|n| (min..=MAX_LENGTH).contains(n));
                good.ok_or(format!(
                    "{name}=`{text}`: expected a number from {min} to {MAX_LENGTH}"
                ))
            }
        };
        if let Some(name) = variable(ALGORITHM) {
            settings.algorithm = match name.as_str() {
                "mpi" => None,
                other => Some(parse_algorithm(other)?),
            };
        }
        if let Some(text) = variable(GROUPS) {
            settings.groups = text
                .parse()
                .map_err(|e| format!("{GROUPS}=`{text}`: {e}"))?;
        }
        settings.buffer = number(BUFFER, settings.buffer, 1)?;
        settings.max_copied = number(COPY, settings.max_copied, 0)?;
        settings.min_length = number(SMALLEST, settings.min_length, 0)?;
        settings.timeout_ms = number(TIMEOUT, settings.timeout_ms, 1)?;
        Ok(settings)
    }

    /// Formats the settings as lines of text for the other ranks, which [`Settings::from_lines`] parses.
    pub(crate) fn lines(&self) -> String {
        let algorithm = self.algorithm.map_or("mpi".to_owned(), |a| a.to_string());
        let Settings {
            groups,
            buffer,
            max_copied,
            min_length,
            timeout_ms,
            ..
        } = self;
        format!(
            "{ALGORITHM}={algorithm}\n{GROUPS}={groups}\n{BUFFER}={buffer}\n{COPY}={max_copied}\n{SMALLEST}={min_length}\n{TIMEOUT}={timeout_ms}\n"
        )
    }

    /// Parses the settings that [`Settings::lines`] has formatted.
    pub(crate) fn from_lines(lines: &str) -> Result<Settings, String> {
        Settings::read(|name| {
            let mut pairs = lines.lines().filter_map(|line| line.split_once('='));
            let found = pairs.find(|(of, _)| *of == name);
            found.map(|(_, value)| value.to_owned())
        })
    }

    /// Returns the algorithm for a broadcast of `bytes` bytes; `None` for the underlying MPI.
    pub(crate) fn for_broadcast(&self, bytes: u64) -> Option<Algorithm> {
        let fits = (self.min_length..=MAX_LENGTH).contains(&bytes);
        let does = |algorithm: &Algorithm| fits && algorithm.supports(Collective::Broadcast);
        self.algorithm.filter(does)
    }

    /// Returns the algorithm for a barrier; `None` for the underlying MPI.
    pub(crate) fn for_barrier(&self) -> Option<Algorithm> {
        self.algorithm
            .filter(|algorithm| algorithm.supports(Collective::Barrier))
    }
}

/// Converts a number that leaders exchange to an IPv4 address; `None` for 0, which means no address.
pub(crate) fn address_of(word: u64) -> Option<Ipv4Addr> {
    u32::try_from(word)
        .ok()
        .filter(|word| *word != 0)
        .map(Ipv4Addr::from)
}

/// Parses the name of an algorithm. Fails for an algorithm that does not support MPI calls.
fn parse_algorithm(name: &str) -> Result<Algorithm, String> {
    let algorithm: Algorithm = name
        .parse()
        .map_err(|e| format!("{ALGORITHM}: {e}, or mpi"))?;
    match algorithm.needs_group() || algorithm.is_overlay() {
        true => Ok(algorithm),
        false => Err(format!(
            "{ALGORITHM}={algorithm}: it sends datagrams, which the underlying MPI does not have; choose another algorithm, or mpi"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: &str) -> Result<Settings, String> {
        Settings::read(|variable| (variable == name).then(|| value.to_owned()))
    }

    #[test]
    fn default_settings_use_groups() {
        assert_eq!(Settings::read(|_| None), Ok(Settings::default()));
        assert_eq!(
            Settings::default().for_broadcast(1),
            Some(Algorithm::Alfirk)
        );
    }

    #[test]
    fn every_algorithm_survives_serialisation_for_the_other_ranks() {
        for algorithm in Algorithm::ALL {
            if algorithm.needs_datagrams() {
                let error = with(ALGORITHM, &algorithm.to_string()).unwrap_err();
                assert!(error.contains("datagrams"), "{error}");
                continue;
            }
            let settings = with(ALGORITHM, &algorithm.to_string()).unwrap();
            assert_eq!(settings.algorithm, Some(algorithm));
            assert_eq!(Settings::from_lines(&settings.lines()), Ok(settings));
        }
        let off = Settings::disabled();
        assert_eq!(Settings::from_lines(&off.lines()), Ok(off));
    }

    #[test]
    fn wrong_values_are_refused_by_name() {
        for (name, value) in [
            (ALGORITHM, "pigeon"),
            (GROUPS, "10.255.0.0"),
            (BUFFER, "0"),
            (BUFFER, "much"),
            (COPY, "all"),
            (SMALLEST, "-1"),
            (TIMEOUT, "0"),
        ] {
            let error = with(name, value).unwrap_err();
            assert!(
                error.contains(name) && error.contains("expected"),
                "{error}"
            );
        }
    }

    #[test]
    fn unsupported_collectives_use_the_underlying_mpi() {
        let chain = with(ALGORITHM, "chain").unwrap();
        assert_eq!(chain.for_barrier(), None);
        let dissemination = with(ALGORITHM, "dissemination").unwrap();
        assert_eq!(dissemination.for_broadcast(1), None);
        assert_eq!(dissemination.for_barrier(), Some(Algorithm::Dissemination));
        let large = with(SMALLEST, "100").unwrap();
        assert_eq!(large.for_broadcast(99), None);
        assert!(large.for_broadcast(100).is_some());
        assert_eq!(large.for_broadcast(MAX_LENGTH + 1), None);
    }
}
