//! LIDs of hosts in an m-port n-tree, and the choice among a destination's LIDs by the source (sections 3.1 and 3.2 of
//! the paper by Zhou, Lin and Chung, see [`super`]).

use super::{HostLabel, Shape};

/// Error: InfiniBand cannot assign these LIDs. The forwarding tables are computed all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LidError {
    /// The number of LIDs per host is not a power of two, as an LMC requires.
    #[error("there is no LMC for {0} LIDs per host: their number must be a power of two; use a power of two for --ports")]
    NoPowerOfTwo(u32),
    /// More LIDs per host than an LMC of three bits allows (IBTA vol. 1, 4.1.3).
    #[error(
        "{0} LIDs per host are too many: an LMC allows at most 128; use fewer ports or levels"
    )]
    TooManyPerHost(u32),
    /// More LIDs than the unicast range has (IBTA vol. 1, 4.1.3).
    #[error(
        "{0} LIDs are too many: unicast LIDs end at 49151 (0xbfff); use fewer ports or levels"
    )]
    TooMany(u64),
}

impl Shape {
    /// Number of LIDs of all hosts; LIDs are 1 to this number.
    pub fn lid_count(self) -> u64 {
        u64::from(self.paths()) * u64::from(self.host_count())
    }

    /// The LID mask control value, `log2((m/2)^(n-1))`, if an InfiniBand subnet manager could assign these LIDs.
    pub fn lmc(self) -> Result<u8, LidError> {
        const LAST_UNICAST_LID: u64 = 0xbfff;
        let paths = self.paths();
        match paths.ilog2() {
            _ if !paths.is_power_of_two() => Err(LidError::NoPowerOfTwo(paths)),
            lmc if lmc > 7 => Err(LidError::TooManyPerHost(paths)),
            _ if self.lid_count() > LAST_UNICAST_LID => Err(LidError::TooMany(self.lid_count())),
            lmc => Ok(lmc as u8),
        }
    }

    /// The first of a host's `(m/2)^(n-1)` LIDs.
    pub fn base_lid(self, host: &HostLabel) -> u64 {
        u64::from(self.paths()) * u64::from(self.pid(host)) + 1
    }

    /// Host with this LID, if any.
    pub fn owner(self, lid: u64) -> Option<HostLabel> {
        let pid = lid.checked_sub(1)? / u64::from(self.paths());
        let pid = u32::try_from(pid).ok()?;
        (pid < self.host_count()).then(|| self.host(pid))
    }

    /// Number of leading digits that both hosts share (definition 1); also the level of the switches where their paths meet.
    pub fn common_prefix(self, a: &HostLabel, b: &HostLabel) -> u32 {
        (0..self.levels())
            .zip(a.0.iter().zip(&b.0))
            .find(|(_, (a, b))| a != b)
            .map_or(self.levels(), |(i, _)| i)
    }

    /// Cyclic path selection: the LID of `destination` that `source` sends to.
    ///
    /// It depends on the source's digits after the common prefix. So hosts with different digits there use different paths, and
    /// one host uses the same upward path to all destinations.
    pub fn select_lid(self, source: &HostLabel, destination: &HostLabel) -> u64 {
        let level = self.common_prefix(source, destination);
        self.base_lid(destination) + u64::from(self.rank(level + 1, source))
    }
}
