//! Assignment of IPv4 addresses to groups, different for all groups of a job.

use std::collections::BTreeSet;
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// A prefix of IPv4 addresses for groups. Its first and its last address are not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    network: u32,
    length: u32,
}

impl Range {
    /// The default range: the upper half of the default range that controllers use for groups.
    pub(crate) const DEFAULT: Range = Range {
        network: u32::from_be_bytes([10, 255, 128, 0]),
        length: 17,
    };

    /// Number of usable addresses in the range.
    fn count(self) -> u64 {
        (1 << (32 - self.length)) - 2
    }

    /// Returns the address of a group.
    ///
    /// `job`: random offset of the job; `ranks`: number of its ranks. `leader`: rank that leads the group, which uses
    /// each `turn` for one group at a time. The addresses of a job are distinct as long as there are more addresses
    /// than `ranks` times turns in use.
    pub(crate) fn address(self, job: u32, ranks: u32, leader: u32, turn: u32) -> Ipv4Addr {
        let index = u64::from(leader) + u64::from(ranks) * u64::from(turn);
        let at = (u64::from(job) + index) % self.count();
        Ipv4Addr::from(self.network + 1 + at as u32)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from(self.network), self.length)
    }
}

impl FromStr for Range {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Range, &'static str> {
        let wrong = "expected a prefix inside the fabric's range for groups, of at most 30 bits, such as 10.255.128.0/17";
        let (network, length) = text.split_once('/').ok_or(wrong)?;
        let network: Ipv4Addr = network.parse().map_err(|_| wrong)?;
        let length: u32 = length.parse().map_err(|_| wrong)?;
        let network = u32::from(network);
        match (1..=30).contains(&length) && network << length == 0 {
            true => Ok(Range { network, length }),
            false => Err(wrong),
        }
    }
}

/// The turns that this rank uses for groups that it leads. A turn is a number that selects one of the rank's addresses.
#[derive(Debug, Default)]
pub(crate) struct Turns(BTreeSet<u32>);

impl Turns {
    pub(crate) const fn new() -> Turns {
        Turns(BTreeSet::new())
    }

    /// Allocates the first free turn that is not below `first`.
    pub(crate) fn allocate(&mut self, first: u32) -> u32 {
        let turn = (first..).find(|turn| !self.0.contains(turn));
        let turn = turn.expect("no process has 2^32 groups");
        self.0.insert(turn);
        turn
    }

    /// Makes a turn (selector of a group address) available for another group.
    pub(crate) fn release(&mut self, turn: u32) {
        self.0.remove(&turn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_a_job_have_distinct_addresses() {
        let range: Range = "10.255.7.0/24".parse().unwrap();
        let mut seen = BTreeSet::new();
        for leader in 0..50 {
            for turn in 0..5 {
                let address = range.address(0xffff_fff0, 50, leader, turn);
                assert!(seen.insert(address), "{address} twice");
                assert_eq!(address.octets()[..3], [10, 255, 7]);
                assert!((1..=254).contains(&address.octets()[3]));
            }
        }
    }

    #[test]
    fn a_turn_is_unavailable_until_it_is_given_back() {
        let mut turns = Turns::new();
        assert_eq!(
            (turns.allocate(0), turns.allocate(0), turns.allocate(5)),
            (0, 1, 5)
        );
        turns.release(0);
        assert_eq!(
            (turns.allocate(0), turns.allocate(0), turns.allocate(5)),
            (0, 2, 6)
        );
    }

    #[test]
    fn invalid_prefixes_are_rejected() {
        for text in [
            "10.255.0.0",
            "10.255.0.0/31",
            "10.255.0.1/24",
            "x/24",
            "0.0.0.0/0",
            "10.0.0.0/33",
        ] {
            assert!(text.parse::<Range>().is_err(), "{text}");
        }
        assert_eq!(Range::DEFAULT.to_string().parse(), Ok(Range::DEFAULT));
    }
}
