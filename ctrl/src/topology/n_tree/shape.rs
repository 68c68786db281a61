//! Labels and links of an m-port n-tree (section 2.2 of the paper by Zhou, Lin and Chung, see [`super`]).

use super::{HostLabel, SwitchLabel};
use crate::topology::generate::{check, GenerateError};
use crate::topology::End;

/// An m-port n-tree, given by its parameters m (ports of a switch) and n (levels).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    ports: u32,
    levels: u32,
}

/// The neighbour behind an upward port of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Above {
    /// Label of the switch one level higher.
    pub switch: SwitchLabel,
    /// Downward port of that switch, from 1.
    pub port: u32,
}

/// The neighbour behind a downward port of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Below {
    /// A switch one level lower, and its port.
    Switch(SwitchLabel, u32),
    /// A host.
    Host(HostLabel),
}

impl Shape {
    const NAME: &'static str = "m-port n-tree";
    /// Addresses of hosts are 10.0.0.0 to 10.254.255.255, without those that end in .0 or .255.
    const MAX_HOSTS: u64 = 255 * 256 * 254;

    /// Creates a shape. `ports` is m, even, 2 to 508; `levels` is n, 1 to 16.
    pub fn new(ports: u32, levels: u32) -> Result<Shape, GenerateError> {
        let is_good = (2..=End::MAX_PORT - 1).contains(&ports) && ports % 2 == 0;
        check(Shape::NAME, "m", ports, is_good, "even and 2 to 508")?;
        let is_good = (1..=16).contains(&levels);
        check(Shape::NAME, "n", levels, is_good, "1 to 16")?;
        let hosts = u64::from(ports / 2).saturating_pow(levels);
        match hosts.saturating_mul(2) {
            hosts if hosts > Shape::MAX_HOSTS => Err(GenerateError::TooManyHosts {
                topology: Shape::NAME,
                hosts,
                limit: Shape::MAX_HOSTS,
            }),
            _ => Ok(Shape { ports, levels }),
        }
    }

    /// m: ports of each switch.
    pub fn ports(self) -> u32 {
        self.ports
    }

    /// n: levels of switches.
    pub fn levels(self) -> u32 {
        self.levels
    }

    /// m/2: number of upward ports, and of downward ports, of a switch below the top level.
    pub fn half(self) -> u32 {
        self.ports / 2
    }

    /// `(m/2)^(n-1)`: number of top switches, and of shortest paths between hosts in different subtrees of the top.
    pub fn paths(self) -> u32 {
        self.half().pow(self.levels - 1)
    }

    /// Number of hosts, `2 (m/2)^n`.
    pub fn host_count(self) -> u32 {
        self.ports * self.paths()
    }

    /// Number of switches, `(2n - 1) (m/2)^(n-1)`.
    pub fn switch_count(self) -> u64 {
        u64::from(2 * self.levels - 1) * u64::from(self.paths())
    }

    /// Number of links, of hosts and between switches.
    pub fn link_count(self) -> u64 {
        u64::from(self.levels) * u64::from(self.host_count())
    }

    /// Number of downward ports of a switch at this level; they are ports 1 to this number.
    pub fn ports_down(self, level: u32) -> u32 {
        match level {
            0 => self.ports,
            _ => self.half(),
        }
    }

    /// All hosts, in the order of their digits.
    pub fn hosts(self) -> impl Iterator<Item = HostLabel> {
        (0..self.host_count()).map(move |pid| self.host(pid))
    }

    /// All switches, top level first, each level in the order of its digits.
    pub fn switches(self) -> impl Iterator<Item = SwitchLabel> {
        (0..self.levels).flat_map(move |level| {
            let count = match level {
                0 => self.paths(),
                _ => 2 * self.paths(),
            };
            (0..count).map(move |position| SwitchLabel {
                level,
                digits: self.digits(self.levels - 1, position),
            })
        })
    }

    /// The host with this PID, the host's position in the order of digits, from 0 (definition 4).
    pub fn host(self, pid: u32) -> HostLabel {
        HostLabel(self.digits(self.levels, pid))
    }

    /// PID of a host (definition 4): its position in the order of digits, from 0.
    pub fn pid(self, host: &HostLabel) -> u32 {
        self.rank(0, host)
    }

    /// Rank of a host, from 0, among the hosts that share its first `prefix` digits (definition 4).
    pub fn rank(self, prefix: u32, host: &HostLabel) -> u32 {
        let digits = host.0.iter().skip(prefix as usize);
        digits.fold(0, |rank, digit| rank * self.half() + digit)
    }

    /// Whether the tree has a host with this label.
    pub fn has_host(self, host: &HostLabel) -> bool {
        let HostLabel(digits) = host;
        let is_digit = |(i, digit): (usize, &u32)| *digit < [self.ports, self.half()][i.min(1)];
        digits.len() == self.levels as usize && digits.iter().enumerate().all(is_digit)
    }

    /// The leaf switch to which a host is attached, and the switch's port.
    pub fn leaf(self, host: &HostLabel) -> (SwitchLabel, u32) {
        let (last, digits) = host.0.split_last().expect("hosts have a digit or more");
        let switch = SwitchLabel {
            level: self.levels - 1,
            digits: digits.to_vec(),
        };
        (switch, last + 1)
    }

    /// Neighbour behind an upward port; `None` for other ports, and for top switches.
    ///
    /// `SW<w, l>_k` and `SW<w', l+1>_k'` are linked if `w` without its last digit is `w'` without digit `l`,
    /// `k = w'_l + 1` and `k' = w_(n-2) + m/2 + 1`.
    pub fn above(self, lower: &SwitchLabel, port: u32) -> Option<Above> {
        if port <= self.half() || port > self.ports {
            return None;
        }
        let level = lower.level.checked_sub(1)?;
        let mut digits = lower.digits.clone();
        let own = digits.remove(level as usize);
        digits.push(port - self.half() - 1);
        Some(Above {
            switch: SwitchLabel { level, digits },
            port: own + 1,
        })
    }

    /// Neighbour behind a downward port; `None` for other ports.
    pub fn below(self, upper: &SwitchLabel, port: u32) -> Option<Below> {
        if port == 0 || port > self.ports_down(upper.level) {
            return None;
        }
        let mut digits = upper.digits.clone();
        if upper.level + 1 == self.levels {
            digits.push(port - 1);
            return Some(Below::Host(HostLabel(digits)));
        }
        let last = digits.pop().expect("there is a digit per level but one");
        digits.insert(upper.level as usize, port - 1);
        let lower = SwitchLabel {
            level: upper.level + 1,
            digits,
        };
        Some(Below::Switch(lower, last + self.half() + 1))
    }

    /// Converts a number to `count` digits in base m/2; only the first digit may exceed the base.
    fn digits(self, count: u32, number: u32) -> Vec<u32> {
        let mut digits = vec![0; count as usize];
        let mut rest = number;
        for digit in digits.iter_mut().skip(1).rev() {
            *digit = rest % self.half();
            rest /= self.half();
        }
        if let Some(first) = digits.first_mut() {
            *first = rest;
        }
        digits
    }
}
