//! Options of ports added at run time, from the command line.

use alfirk_packet_io::link::LinkOptions;

/// Options of ports added at run time.
#[derive(Clone, Debug)]
pub struct PortDefaults {
    /// Options of the emulated link.
    pub link: LinkOptions,
    /// Number of queues.
    pub priority_queues: usize,
    /// Depth of each queue in packets.
    pub queue_depth: usize,
    /// Rate of each queue in packets per second; 0 for no limit.
    pub queue_rate: u64,
    /// Seed of the links' random numbers.
    pub seed: u64,
    /// Size of the receive ring in bytes; 0 for none.
    pub ring: usize,
    /// Port numbers that cannot be attached: the CPU port and the drop port.
    pub reserved: Vec<u32>,
}
