//! What the command line says of ports that come while the switch runs.

use alfirk_packet_io::link::LinkOptions;

/// How ports are made that come while the switch runs.
#[derive(Clone, Debug)]
pub struct PortDefaults {
    pub link: LinkOptions,
    pub priority_queues: usize,
    pub queue_depth: usize,
    /// Packets per second of each queue; 0 for as many as the link takes.
    pub queue_rate: u64,
    pub seed: u64,
    pub ring: usize,
    /// Port numbers that are something else.
    pub reserved: Vec<u32>,
}
