//! What the environment asks for. Rank 0 of the job decides for all, but for the device, which may be another on each host.

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

/// The longest message that is carried, in bytes: MPI packs no more at a time.
pub(crate) const LONGEST: u64 = i32::MAX as u64;

/// Up to this, copying takes less than registering, on guests with rdma_rxe; `interop/run speed` measures both.
const COPIED: u64 = 64 << 10;

/// What all ranks of a job agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Nothing is carried without one.
    pub(crate) algorithm: Option<Algorithm>,
    /// The addresses that stand for groups of the job.
    pub(crate) groups: Range,
    /// Bytes of the buffer of each group.
    pub(crate) buffer: u64,
    /// Broadcasts of up to so many bytes are copied into the buffer and out of it; for longer ones the program's memory is registered.
    pub(crate) copy: u64,
    /// Broadcasts of fewer bytes go by the MPI beneath.
    pub(crate) smallest: u64,
    /// Milliseconds that a group may take for a buffer's bytes when all its members are there.
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
    /// Nothing but the MPI beneath.
    pub(crate) fn off() -> Settings {
        Settings {
            algorithm: None,
            ..Settings::default()
        }
    }

    /// Reads variables; the error names the variable and says what would do.
    pub(crate) fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Settings, String> {
        let mut settings = Settings::default();
        let number = |name: &str, default: u64, least: u64| match variable(name) {
            None => Ok(default),
            Some(text) => {
                let number = text.parse().ok();
                let good = number.filter(|n| (least..=LONGEST).contains(n));
                good.ok_or(format!(
                    "{name}=`{text}`: a number from {least} to {LONGEST} expected"
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

    /// As variables, to be sent to the other ranks: [`Settings::of_lines`] reads them.
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

    /// What carries a broadcast of so many bytes, if we do.
    pub(crate) fn for_broadcast(&self, bytes: u64) -> Option<Algorithm> {
        let fits = (self.smallest..=LONGEST).contains(&bytes);
        let does = |algorithm: &Algorithm| fits && algorithm.does(Collective::Broadcast);
        self.algorithm.filter(does)
    }

    pub(crate) fn for_barrier(&self) -> Option<Algorithm> {
        self.algorithm
            .filter(|algorithm| algorithm.does(Collective::Barrier))
    }
}

/// A leader's address in a word that members send each other; 0 is none.
pub(crate) fn address_of(word: u64) -> Option<Ipv4Addr> {
    u32::try_from(word)
        .ok()
        .filter(|word| *word != 0)
        .map(Ipv4Addr::from)
}

/// An algorithm that can carry the calls of MPI.
fn carrier(name: &str) -> Result<Algorithm, String> {
    let algorithm: Algorithm = name
        .parse()
        .map_err(|e| format!("{ALGORITHM}: {e}, or mpi"))?;
    match algorithm.needs_group() || algorithm.is_overlay() {
        true => Ok(algorithm),
        false => Err(format!(
            "{ALGORITHM}={algorithm}: it sends datagrams, and MPI beneath has none; choose another one, or mpi"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: &str) -> Result<Settings, String> {
        Settings::read(|asked| (asked == name).then(|| value.to_owned()))
    }

    #[test]
    fn nothing_set_asks_for_groups() {
        assert_eq!(Settings::read(|_| None), Ok(Settings::default()));
        assert_eq!(
            Settings::default().for_broadcast(1),
            Some(Algorithm::Alfirk)
        );
    }

    #[test]
    fn every_algorithm_can_be_told_to_the_other_ranks() {
        for algorithm in Algorithm::ALL {
            if algorithm.needs_datagrams() {
                let said = with(ALGORITHM, &algorithm.to_string()).unwrap_err();
                assert!(said.contains("datagrams"), "{said}");
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
            let said = with(name, value).unwrap_err();
            assert!(said.contains(name) && said.contains("expected"), "{said}");
        }
    }

    #[test]
    fn what_an_algorithm_does_not_do_goes_by_the_mpi_beneath() {
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
