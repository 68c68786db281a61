//! The delays that no protocol sets: what hosts, switches and the control network cost.

/// Delays in nanoseconds, the same for every algorithm and every node.
///
/// ```text
///  source                                  switch                               receiver
///  post ── post_delay ──► NIC ═══ link ═══► pipeline_latency ═══ link ═══► nic_delay ──► NIC state machine
///                                           + queueing                                  │ completion
///                                                                                       ▼
///                                          post ◄── application ◄── completion_delay (one at a time)
/// ```
///
/// A host that relays thus pays `nic_delay + completion_delay + post_delay` at each step, as a polling
/// application on a real NIC does. A NIC answers (ACK, NAK, CNP) without the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Model {
    /// From a post by the application until the NIC acts on it: doorbell and work request fetch.
    pub post_delay: u64,
    /// From the last bit of a frame until the NIC has acted on it: processing and DMA. Frames follow each other
    /// through it at full rate.
    pub nic_delay: u64,
    /// From a completion in the NIC until the application has seen and handled it. Completions of one host
    /// are handled one after another.
    pub completion_delay: u64,
    /// From the last bit of a frame into a switch until it is in its output queue. Frames follow each other
    /// through it at full rate.
    pub pipeline_latency: u64,
    /// One way between the controller and any switch.
    pub control_latency: u64,
    /// What the simulator spends on each packet.
    pub fidelity: Fidelity,
}

/// How packets are carried and switched. Results are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fidelity {
    /// Every byte is carried, and each packet passes the compiled pipelines.
    #[default]
    Exact,
    /// Payloads are carried by reference, and most packets are switched by the rules of [`alfirk_aggregation`] in place of the compiled
    /// pipelines. ICRCs are as right as their constants make them and are not computed.
    Fast,
}

impl Default for Model {
    /// Figures of 100 Gbit/s equipment: NICs with about 1 us from application to application back to back,
    /// cut-through-class switch chips, a control network of 50 us.
    fn default() -> Model {
        Model {
            post_delay: 250,
            nic_delay: 250,
            completion_delay: 500,
            pipeline_latency: 400,
            control_latency: 50_000,
            fidelity: Fidelity::Exact,
        }
    }
}
