//! What one algorithm did.

use std::fmt;

use alfirk_ctrl::tables::Counts;
use alfirk_roce::collective::{Algorithm, RequestTimes};
use serde::Serialize;

use crate::fabric::{FlowControl, Traffic};
use crate::job::spec::{Congestion, Job};
use crate::workload::PhaseRow;

/// What one algorithm did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    pub algorithm: String,
    /// From the post at the source until the last receiver's application holds the whole message, in ns; if the run was given up
    /// ([`Row::given_up`]), until then.
    pub completion_ns: u64,
    /// Why the run ended before its time; then [`Row::missing`] says how far it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given_up: Option<String>,
    /// 8 × message bytes ÷ completion, in Gbit/s; `None` if there is no message, as in a barrier.
    pub goodput_gbps: Option<f64>,
    /// Whether every receiver holds the bytes that were sent.
    pub verified: bool,
    /// Receivers in the group: without the source, unless that changed.
    pub receivers: usize,
    /// Receivers whose SHA-256 is the input's.
    pub receivers_verified: usize,
    /// Bytes of all frames that the source (all sources, where it changed) put on its link, from the Ethernet header to the ICRC.
    pub sender_tx_bytes: u64,
    /// Of these the bytes of the message, each as often as it was sent; 0 if the source is a device that does not count them.
    pub sender_payload_bytes: u64,
    /// Frames on all links, each link counted once, ARP and feedback included.
    pub wire_packets: u64,
    /// ACK and NAK packets that reached the source.
    pub sender_acks: u64,
    /// Congestion notifications that reached the source; `None` without congestion control.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender_cnps: Option<u64>,
    /// Request packets that reached members with the mark of congestion; `None` without congestion control.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marked_packets: Option<u64>,
    /// Congestion notifications that members sent; `None` without congestion control.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cnps_sent: Option<u64>,
    /// Of these, what switches kept from the source because another path was more congested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cnps_filtered: Option<u64>,
    /// Copies of retransmissions that switches kept from paths that had acknowledged them; `None` without a group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies_filtered: Option<u64>,
    /// What finding the minimum PSN cost; `None` without a group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feedback_work: Option<FeedbackWork>,
    /// Request packets that any host sent more than once.
    pub retransmissions: u64,
    /// Frames lost on links and in queues; `None` where the driver cannot tell.
    pub dropped_packets: Option<u64>,
    /// Frames that members refused because no correct fabric delivers them: wrong addresses, checksums, opcodes, PSNs or
    /// message counts.
    pub implausible_packets: u64,
    /// What PAUSE frames did; `None` without flow control.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_control: Option<FlowControl>,
    /// From the request for the group until its members may send, in ns; `None` without a group. Like all times it is on the network's
    /// clock: where that has a scale, the controller's messages still take real time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registration_ns: Option<u64>,
    /// How long the source's messages took, where it has so many of them under way and no more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<RequestTimes>,
    /// What the first member's queue pairs keep to, and what its paths are; `None` for workloads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<SenderRow>,
    /// What ran instead, because there was no group to be had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Fallback>,
    /// How the message changed its way between the group and an overlay, in the order of time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub safeguard: Vec<Change>,
    /// What broke on the way, in the order of time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
    /// Receivers that the group had to go on without.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
    /// Receivers that do not hold the bytes that were sent, though nothing that the job broke is the reason. With any, the run has failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Missing>,
    /// What each source did, in the order of their turns; nothing unless the source changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartRow>,
    /// What each phase of a workload took, one after the other.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseRow>,
    /// [`Throughput::fairness`], the mean of all phases that have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fairness: Option<f64>,
}

impl Row {
    /// What a run of `job` has cost, with nothing about how it went.
    pub(crate) fn of_cost(
        algorithm: Algorithm,
        job: &Job,
        traffic: &Traffic,
        counts: Option<&Counts>,
    ) -> Row {
        // Tofino's data plane does not count it; where it is counted, feedback there is.
        let work = counts.map(|counts| counts.work(job.strategies.min_psn));
        let work = work.filter(|work| work.feedback > 0);
        let has_control = job.congestion != Congestion::None;
        Row {
            algorithm: algorithm.to_string(),
            completion_ns: 0,
            given_up: None,
            goodput_gbps: None,
            verified: false,
            receivers: 0,
            receivers_verified: 0,
            sender_tx_bytes: traffic.source_tx_bytes,
            sender_payload_bytes: traffic.source_payload_bytes,
            wire_packets: traffic.wire_packets,
            sender_acks: traffic.source_acks,
            sender_cnps: has_control.then_some(traffic.source_cnps),
            marked_packets: has_control.then_some(traffic.marked),
            cnps_sent: has_control.then_some(traffic.cnps_sent),
            cnps_filtered: counts.filter(|_| has_control).map(|c| c.cnps_filtered),
            copies_filtered: counts.map(|c| c.copies_filtered),
            feedback_work: work.map(|work| FeedbackWork {
                feedback: work.feedback,
                forwarded_upstream: work.forwarded,
                recirculations: work.recirculations,
                punts: work.punts,
            }),
            retransmissions: traffic.retransmissions,
            dropped_packets: traffic.dropped_packets,
            implausible_packets: traffic.implausible,
            flow_control: None,
            registration_ns: None,
            requests: None,
            sender: None,
            fallback: None,
            safeguard: Vec::new(),
            failures: Vec::new(),
            lost: Vec::new(),
            missing: Vec::new(),
            parts: Vec::new(),
            phases: Vec::new(),
            fairness: None,
        }
    }
}

/// Settings of the first member's queue pairs, and the paths that they follow from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SenderRow {
    /// Packets that may be outstanding.
    pub window: u32,
    /// `None` if there is no timeout.
    pub ack_timeout_ns: Option<u64>,
    /// Bits per second of the wire that its requests do not exceed; `None` if only its own link holds them back.
    pub pace_bps: Option<u64>,
    /// Bits per second of the slowest link to any of its receivers, and nanoseconds to the farthest one and back in empty queues; `None`
    /// where links do not have the rates of the topology.
    pub bottleneck_bps: Option<u64>,
    pub round_trip_ns: Option<u64>,
}

/// A receiver without the message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Missing {
    pub host: String,
    /// Bytes that it holds, of all.
    pub bytes: u64,
    pub total: u64,
    pub why: MissingReason,
}

/// Why a receiver does not hold the bytes that were sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MissingReason {
    /// The controller took it for dead and out of the group, though nothing killed it.
    Removed,
    /// It was not done when the run was given up.
    Late,
    /// It holds other bytes.
    Wrong,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Missing {
            host, bytes, total, ..
        } = self;
        match self.why {
            MissingReason::Removed => write!(
                f,
                "{host} was taken out of the group, alive, with {bytes} of {total} bytes"
            ),
            MissingReason::Late => write!(f, "{host} has {bytes} of {total} bytes"),
            MissingReason::Wrong => write!(f, "{host} holds other bytes than were sent"),
        }
    }
}

/// What finding the minimum PSN cost all switches together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FeedbackWork {
    /// ACKs and NAKs that came in at switches.
    pub feedback: u64,
    /// ACKs and NAKs that switches, or the controller, sent on to the source.
    pub forwarded_upstream: u64,
    /// Passes through a pipeline beyond the first.
    pub recirculations: u64,
    /// Packets handed to the controller: ACKs, NAKs, and data that asks whether everyone has it.
    pub punts: u64,
}

impl FeedbackWork {
    /// So many for each ACK and NAK; 0 without any.
    pub(super) fn per_ack(&self, count: u64) -> f64 {
        count as f64 / self.feedback.max(1) as f64
    }
}

/// One part of the message, from one of several sources.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PartRow {
    pub source: String,
    pub bytes: u64,
    /// From the post at the source until the last other member's application holds the part, in ns.
    pub completion_ns: u64,
    /// 8 × bytes of the part ÷ completion, in Gbit/s; `None` if it has none.
    pub goodput_gbps: Option<f64>,
}

/// Another algorithm ran than was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fallback {
    pub to: String,
    pub why: String,
}

/// A message goes on another way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The algorithm from now on: `alfirk` is a return to the group.
    pub to: String,
    pub why: String,
    /// Since the post at the source, in ns; 0 for what was decided before.
    pub at_ns: u64,
    /// From then until the source sent again, in ns.
    pub took_ns: u64,
    /// Slices that every receiver held then, of all.
    pub held: u32,
    pub slices: u32,
}

/// Something broke.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// A host, a switch, or a link by its ends.
    pub what: String,
    /// Since the post at the source, in ns.
    pub at_ns: u64,
    /// From then until the controller had taken the dead member out or led the tree around it; `None` if it had no
    /// reason to.
    pub repaired_ns: Option<u64>,
    /// From then until the source got the next acknowledgement after that.
    pub going_on_ns: Option<u64>,
}

/// 8 × `bytes` ÷ `ns` in Gbit/s, to the kbit/s; nothing if there are no bytes or no time has passed.
pub fn goodput_gbps(bytes: u64, ns: u64) -> Option<f64> {
    if bytes == 0 || ns == 0 {
        return None;
    }
    let gbps = bytes as f64 * 8.0 / ns as f64;
    Some((gbps * 1e6).round() / 1e6)
}
