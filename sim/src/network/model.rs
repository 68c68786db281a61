//! Delays of hosts, switches and the control network, which no protocol specification defines.

use alfirk_bmv2::Engine;

use crate::engine::Threads;

/// Delays of a network in nanoseconds, the same for all algorithms and nodes.
///
/// ```text
///  source                                  switch                               receiver
///  post ── post_delay ──► NIC ═══ link ═══► pipeline_latency ═══ link ═══► nic_delay ──► NIC state machine
///       + bytes / post_rate                 + queueing                                  │ completion
///                                                                                       ▼
///                                          post ◄── application ◄── completion_delay (one at a time)
///                                               relay_delay         + bytes / copy_rate
///                                               + bytes / relay_rate
/// ```
///
/// So a host that forwards data takes `nic_delay + completion_delay + post_delay` per step, like a polling application
/// on a real NIC. If it copies received data, the time of the copy is added. `relay_delay` and `relay_rate` are the
/// additional costs of a message passing library at such a host: tag matching, protocol, and copies through its own
/// buffers. A NIC sends ACKs, NAKs and CNPs without the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Model {
    /// Time from a post by the application until the NIC acts on it: doorbell and fetch of the work request.
    pub post_delay: u64,
    /// Time from the last bit of a frame until the NIC has processed it, including DMA. Its throughput is not limited.
    pub nic_delay: u64,
    /// Time from a completion in the NIC until the application has processed it. Completions of one host are processed
    /// one after the other.
    pub completion_delay: u64,
    /// Time from the last bit of a frame at a switch until the frame is in its output queue. The switch's throughput is
    /// not limited.
    pub pipeline_latency: u64,
    /// Time of a message between the controller and a switch, in one direction.
    pub control_latency: u64,
    /// Bits per second at which a source copies its message into registered memory before it posts it; `None` for no copy.
    pub post_rate: Option<u64>,
    /// Bits per second at which an application copies each received message before it processes the message further;
    /// `None` for no copy.
    pub copy_rate: Option<u64>,
    /// Additional time in nanoseconds per forwarded message, before it is posted. It also delays the next message.
    pub relay_delay: u64,
    /// Bits per second at which a host that forwards a message processes the message's bytes, for example to copy them;
    /// `None` for no such processing.
    pub relay_rate: Option<u64>,
    /// Minimum time in nanoseconds between the starts of two frames of a NIC; 0 if only the link limits the rate.
    pub packet_interval: u64,
    /// Level of detail at which packets are simulated.
    pub fidelity: Fidelity,
    /// What executes the P4 pipelines. It does not change the results.
    pub engine: Engine,
}

/// Level of detail at which packets are simulated. It does not change the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fidelity {
    /// Packets have all their bytes, and the compiled P4 pipelines process them. Copies of a packet share a long
    /// payload.
    #[default]
    Exact,
    /// Packets refer to their payload. The fast data plane, by the rules of [`alfirk_aggregation`], processes most
    /// packets in place of the compiled pipelines. ICRCs are not computed, because the constants of the rewrites
    /// guarantee that they are valid.
    Fast,
}

impl Fidelity {
    /// Settings of the engine for `count` threads. The minimum number of events per window depends on the fidelity,
    /// because a packet takes several times longer with [`Fidelity::Exact`].
    pub fn threads(self, count: usize) -> Threads {
        let least_events = match self {
            Fidelity::Exact => 48,
            Fidelity::Fast => 600,
        };
        Threads {
            count,
            least_events,
        }
    }
}

impl Default for Model {
    /// Returns delays of 100 Gbit/s equipment: NICs with about 1 us from application to application back to back,
    /// switch chips with the latency of cut-through, and a control network of 50 us.
    fn default() -> Model {
        Model {
            post_delay: 250,
            nic_delay: 250,
            completion_delay: 500,
            pipeline_latency: 400,
            control_latency: 50_000,
            post_rate: None,
            copy_rate: None,
            relay_delay: 0,
            relay_rate: None,
            packet_interval: 0,
            fidelity: Fidelity::Exact,
            engine: Engine::default(),
        }
    }
}

/// A delay model that has a name, with the source of its values.
#[derive(Debug, Clone, Copy)]
pub struct NamedModel {
    /// Name for the command line.
    pub name: &'static str,
    /// Description in one line.
    pub about: &'static str,
    /// Source of the values: paper and section, or vendor.
    pub source: &'static str,
    /// The delays.
    pub model: Model,
}

impl Model {
    /// Name of the default model.
    pub const DEFAULT_NAME: &'static str = "default";

    /// All delay models that have a name, the default first.
    pub fn named_models() -> [NamedModel; 3] {
        let usual = Model::default();
        let free = Model {
            post_delay: 0,
            nic_delay: 0,
            completion_delay: 0,
            ..usual
        };
        [
            NamedModel {
                name: Model::DEFAULT_NAME,
                about: "NICs of 100 Gbit/s: 1 us from application to application back to back, 400 ns in a switch",
                source: "own figures, from no paper",
                model: usual,
            },
            NamedModel {
                name: "free",
                about: "hosts cost nothing; switches as by default",
                source: "Gleam, section 5.3, and Cepheus, section V-C, simulate hosts in ns-3 and state no cost of theirs",
                model: free,
            },
            NamedModel {
                name: "cyclic",
                about: "hosts cost nothing; 100 ns in a switch for lookup, replication, arbitration and message startup",
                source: "cyclic multicast, section 4; its links: 20 ns, 4 ns for a byte, which are 2 Gbit/s",
                model: Model {
                    pipeline_latency: 100,
                    ..free
                },
            },
        ]
    }

    /// Nanoseconds that a source takes to prepare and post `bytes` bytes.
    pub fn posting_ns(&self, bytes: u64) -> u64 {
        self.post_delay
            .saturating_add(transfer_ns(self.post_rate, bytes))
    }

    /// Nanoseconds that an application takes to process a completion with `bytes` received bytes.
    pub fn handling_ns(&self, bytes: u64) -> u64 {
        self.completion_delay
            .saturating_add(transfer_ns(self.copy_rate, bytes))
    }

    /// Additional nanoseconds that an application takes to forward a message of `bytes` bytes.
    pub fn relaying_ns(&self, bytes: u64) -> u64 {
        self.relay_delay
            .saturating_add(transfer_ns(self.relay_rate, bytes))
    }
}

/// Nanoseconds that `bytes` bytes take at a rate, rounded up; 0 without a rate.
fn transfer_ns(bits_per_second: Option<u64>, bytes: u64) -> u64 {
    let Some(rate) = bits_per_second else {
        return 0;
    };
    let ns = (u128::from(bytes) * 8 * 1_000_000_000).div_ceil(u128::from(rate.max(1)));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_time_only_if_a_rate_is_set() {
        let model = Model {
            post_rate: Some(8_000_000_000),
            copy_rate: Some(80_000_000_000),
            ..Model::default()
        };
        assert_eq!(model.posting_ns(1_000), 250 + 1_000);
        assert_eq!(model.handling_ns(1_000), 500 + 100);
        assert_eq!(model.relaying_ns(1_000), 0);
        let relay = Model {
            relay_delay: 70,
            relay_rate: Some(8_000_000_000),
            ..model
        };
        assert_eq!(relay.relaying_ns(1_000), 70 + 1_000);
        assert_eq!(Model::default().posting_ns(1 << 40), 250);
        assert_eq!(Model::default().handling_ns(1 << 40), 500);
    }

    #[test]
    fn names_are_unique_and_the_first_is_the_default() {
        let all = Model::named_models();
        assert_eq!(all[0].name, Model::DEFAULT_NAME);
        assert_eq!(all[0].model, Model::default());
        let names: std::collections::BTreeSet<_> = all.iter().map(|model| model.name).collect();
        assert_eq!(names.len(), all.len());
    }
}
