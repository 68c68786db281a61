//! Load of switch ports: the number of groups whose tree uses each port.

use std::collections::BTreeMap;

use super::Tree;
use crate::topology::SwitchIndex;

/// Number of groups per switch port, counted at both ends of every link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortLoads {
    groups: BTreeMap<(SwitchIndex, u32), u32>,
}

impl PortLoads {
    /// Number of groups whose tree contains this port.
    pub fn groups(&self, switch: SwitchIndex, port: u32) -> u32 {
        self.groups.get(&(switch, port)).copied().unwrap_or(0)
    }

    /// Adds a group's tree.
    pub fn add(&mut self, tree: &Tree) {
        for port in tree.ports() {
            *self.groups.entry(port).or_insert(0) += 1;
        }
    }

    /// Removes a group's tree that was added before.
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
