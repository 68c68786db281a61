//! Number of groups that use each port.

use std::collections::BTreeMap;

use super::Tree;
use crate::topology::SwitchIndex;

/// Groups per switch port, counted at both ends of every link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortLoads {
    groups: BTreeMap<(SwitchIndex, u32), u32>,
}

impl PortLoads {
    /// Groups whose tree has this port.
    pub fn groups(&self, switch: SwitchIndex, port: u32) -> u32 {
        self.groups.get(&(switch, port)).copied().unwrap_or(0)
    }

    /// Counts a group in.
    pub fn add(&mut self, tree: &Tree) {
        for port in tree.ports() {
            *self.groups.entry(port).or_insert(0) += 1;
        }
    }

    /// Counts a group out that was counted in before.
    pub fn remove(&mut self, tree: &Tree) {
        for port in tree.ports() {
            if let Some(groups) = self.groups.get_mut(&port) {
                *groups -= 1;
                if *groups == 0 {
                    self.groups.remove(&port);
                }
            }
        }
    }
}
