//! Command line options for ports added at run time.

use alfirk_packet_io::link::LinkOptions;

/// Options of ports added at run time.
#[derive(Clone, Debug)]
pub struct PortDefaults {
    pub link: LinkOptions,
    pub priority_queues: usize,
    pub queue_depth: usize,
    /// Rate of each queue in packets per second; 0 for no limit.
    pub queue_rate: u64,
    pub seed: u64,
    pub ring: usize,
    /// Port numbers with a special meaning.
    pub reserved: Vec<u32>,
}
