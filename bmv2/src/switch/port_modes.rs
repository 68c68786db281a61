//! Modes of a chip's ports: loopback, and disabled ports.

use super::Switch;
use std::collections::BTreeMap;

/// Mode of a port that is not in normal operation. Only programs for Tofino have such ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortMode {
    /// Frames sent to the port are received on it, and do not leave the switch.
    Loopback,
    /// The port sends and receives no frames.
    Disabled,
}

/// Ports that are not in normal operation, with their modes.
pub(crate) type PortModes = BTreeMap<u32, PortMode>;

impl Switch {
    /// Sets the modes of all ports; ports without a mode are in normal operation. Loading a program keeps the modes.
    pub fn set_port_modes(&mut self, modes: BTreeMap<u32, PortMode>) {
        self.port_modes = modes;
    }
}
