//! Settings from environment variables. Those of rank 0 apply to all ranks, except for the device, which may differ
//! between hosts.

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

/// Longest supported message in bytes: the most that MPI_Pack handles at a time.
pub(crate) const LONGEST: u64 = i32::MAX as u64;

/// Default of [`Settings::copy`], in bytes. Up to this length, copying is faster than registering on guests with
/// rdma_rxe; `interop/run speed` measures both.
const COPIED: u64 = 64 << 10;

/// The settings that all ranks of a job share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Algorithm of broadcasts and barriers; `None` if all calls use the underlying MPI.
    pub(crate) algorithm: Option<Algorithm>,
    /// Range of IPv4 addresses for the groups of the job.
    pub(crate) groups: Range,
    /// Length of each group's buffer in bytes.
    pub(crate) buffer: u64,
    /// Length in bytes up to which broadcasts are copied through the buffer. For longer ones, the program's memory is
    /// registered.
    pub(crate) copy: u64,
    /// Length in bytes below which broadcasts use the underlying MPI.
    pub(crate) smallest: u64,
    /// Time limit in milliseconds of a group for one part, once all its members are present.
    pub(crate) timeout_ms: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            algorithm: Some(Algorithm::Alfirk),
            groups: Range::DEFAULT,
            buffer: 1 << 20,
            copy: COPIED,
            smallest: 0,
            timeout_ms: 20_000,
        }
    }
}

impl Settings {
    /// Settings with which all calls use the underlying MPI.
    pub(crate) fn off() -> Settings {
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
                let good = number.filter(|n| (min..=LONGEST).contains(n));
                good.ok_or(format!(
                    "{name}=`{text}`: expected a number from {min} to {LONGEST}"
                ))
            }
        };
        if let Some(name) = variable(ALGORITHM) {
            settings.algorithm = match name.as_str() {
                "mpi" => None,
                other => Some(carrier(other)?),
            };
        }
        if let Some(text) = variable(GROUPS) {
            settings.groups = text
                .parse()
                .map_err(|e| format!("{GROUPS}=`{text}`: {e}"))?;
        }
        settings.buffer = number(BUFFER, settings.buffer, 1)?;
        settings.copy = number(COPY, settings.copy, 0)?;
        settings.smallest = number(SMALLEST, settings.smallest, 0)?;
        settings.timeout_ms = number(TIMEOUT, settings.timeout_ms, 1)?;
        Ok(settings)
    }

    /// The settings as lines of text for the other ranks, which [`Settings::of_lines`] parses.
    pub(crate) fn lines(&self) -> String {
        let algorithm = self.algorithm.map_or("mpi".to_owned(), |a| a.to_string());
        let Settings {
            groups,
            buffer,
            copy,
            smallest,
            timeout_ms,
            ..
        } = self;
        format!(
            "{ALGORITHM}={algorithm}\n{GROUPS}={groups}\n{BUFFER}={buffer}\n{COPY}={copy}\n{SMALLEST}={smallest}\n{TIMEOUT}={timeout_ms}\n"
        )
    }

    pub(crate) fn of_lines(lines: &str) -> Result<Settings, String> {
        Settings::read(|name| {
            let mut pairs = lines.lines().filter_map(|line| line.split_once('='));
            let found = pairs.find(|(of, _)| *of == name);
            found.map(|(_, value)| value.to_owned())
        })
    }

    /// Algorithm for a broadcast of `bytes` bytes; `None` for the underlying MPI.
    pub(crate) fn for_broadcast(&self, bytes: u64) -> Option<Algorithm> {
        let fits = (self.smallest..=LONGEST).contains(&bytes);
        let does = |algorithm: &Algorithm| fits && algorithm.supports(Collective::Broadcast);
        self.algorithm.filter(does)
    }

    pub(crate) fn for_barrier(&self) -> Option<Algorithm> {
        self.algorithm
            .filter(|algorithm| algorithm.supports(Collective::Barrier))
    }
}

/// Decodes a leader's IPv4 address, which members exchange as a number; `None` for 0.
pub(crate) fn address_of(word: u64) -> Option<Ipv4Addr> {
    u32::try_from(word)
        .ok()
        .filter(|word| *word != 0)
        .map(Ipv4Addr::from)
}

/// Parses the name of an algorithm, which must support MPI calls.
fn carrier(name: &str) -> Result<Algorithm, String> {
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
            assert_eq!(Settings::of_lines(&settings.lines()), Ok(settings));
        }
        let off = Settings::off();
        assert_eq!(Settings::of_lines(&off.lines()), Ok(off));
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
        assert_eq!(large.for_broadcast(LONGEST + 1), None);
    }
}
