//! Delays of hosts, switches and the control network, which no protocol specifies.

use crate::engine::Threads;

/// Delays in nanoseconds, the same for every algorithm and every node.
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
/// A host that relays thus pays `nic_delay + completion_delay + post_delay` at each step, as a polling
/// application on a real NIC does, and where it copies what it got, the copy. What a library for messages does beside that at a
/// relay (it matches tags, runs its protocol, copies through buffers of its own) are `relay_delay` and `relay_rate`; hosts that pass
/// nothing on do not pay them. A NIC answers (ACK, NAK, CNP) without the application.
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
    /// Bits per second at which a source copies its message into registered memory before it posts it; `None` if the
    /// message is there.
    pub post_rate: Option<u64>,
    /// Bits per second at which an application copies each message that it receives, before it does anything else
    /// with it; `None` if the message stays where the NIC has put it.
    pub copy_rate: Option<u64>,
    /// What an application that passes a message on does for each, beside handling it, before it posts it. The next message waits for
    /// that.
    pub relay_delay: u64,
    /// Bits per second at which it does so with the message's bytes, such as copying them; `None` if it does not touch them.
    pub relay_rate: Option<u64>,
    /// The least time between the beginnings of two frames that a NIC sends; 0 if only the link limits it.
    pub packet_interval: u64,
    /// What the simulator spends on each packet.
    pub fidelity: Fidelity,
}

/// How packets are carried and switched. Results are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fidelity {
    /// Every byte is carried, and each packet passes the compiled pipelines. Copies of a packet share the bytes of a long payload.
    #[default]
    Exact,
    /// Payloads are carried by reference, and most packets are switched by the rules of [`alfirk_aggregation`] in place of the compiled
    /// pipelines. ICRCs are as right as their constants make them and are not computed.
    Fast,
}

impl Fidelity {
    /// So many threads, used where they gain more than handing packets over to them costs: a packet costs the exact model a multiple.
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
    /// Figures of 100 Gbit/s equipment: NICs with about 1 us from application to application back to back,
    /// cut-through-class switch chips, a control network of 50 us.
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
        }
    }
}

/// A model with a name, and where its figures come from.
#[derive(Debug, Clone, Copy)]
pub struct NamedModel {
    pub name: &'static str,
    pub about: &'static str,
    /// The paper and the section, or whose figures they are.
    pub source: &'static str,
    pub model: Model,
}

impl Model {
    /// What a run has if nothing is said.
    pub const DEFAULT_NAME: &'static str = "default";

    /// Every model with a name, the default first.
    pub fn named() -> [NamedModel; 3] {
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

    /// Nanoseconds that a source takes to have so many bytes ready to be posted, and to post them.
    pub fn posting(&self, bytes: u64) -> u64 {
        self.post_delay.saturating_add(at(self.post_rate, bytes))
    }

    /// Nanoseconds that an application takes for a completion with so many received bytes.
    pub fn handling(&self, bytes: u64) -> u64 {
        self.completion_delay
            .saturating_add(at(self.copy_rate, bytes))
    }

    /// Nanoseconds that an application takes to pass on a message of so many bytes, beside handling it.
    pub fn relaying(&self, bytes: u64) -> u64 {
        self.relay_delay.saturating_add(at(self.relay_rate, bytes))
    }
}

/// How long so many bytes take, rounded up.
fn at(bits_per_second: Option<u64>, bytes: u64) -> u64 {
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
    fn bytes_cost_only_where_a_rate_is_stated() {
        let model = Model {
            post_rate: Some(8_000_000_000),
            copy_rate: Some(80_000_000_000),
            ..Model::default()
        };
        assert_eq!(model.posting(1_000), 250 + 1_000);
        assert_eq!(model.handling(1_000), 500 + 100);
        assert_eq!(model.relaying(1_000), 0);
        let relay = Model {
            relay_delay: 70,
            relay_rate: Some(8_000_000_000),
            ..model
        };
        assert_eq!(relay.relaying(1_000), 70 + 1_000);
        assert_eq!(Model::default().posting(1 << 40), 250);
        assert_eq!(Model::default().handling(1 << 40), 500);
    }

    #[test]
    fn names_are_unique_and_the_first_is_the_default() {
        let all = Model::named();
        assert_eq!(all[0].name, Model::DEFAULT_NAME);
        assert_eq!(all[0].model, Model::default());
        let names: std::collections::BTreeSet<_> = all.iter().map(|model| model.name).collect();
        assert_eq!(names.len(), all.len());
    }
}
