//! Result of one algorithm.
//!
//! Terms: a *group* is a multicast group of the fabric. An *overlay* is an algorithm that uses only unicast connections
//! between members. *Punted* packets go from a switch to the controller.

use std::fmt;

use alfirk_ctrl::tables::Counts;
use alfirk_roce::collective::{Algorithm, RequestTimes};
use serde::Serialize;

use crate::fabric::{FlowControl, Traffic};
use crate::job::spec::{Congestion, Job};
use crate::workload::PhaseRow;

/// Result of a run of one algorithm.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Name of the algorithm.
    pub algorithm: String,
    /// Time in ns from the source's post until the last receiver's application holds the whole message, or until the run was given up
    /// ([`Row::given_up`]).
    pub completion_ns: u64,
    /// Why the run was given up; `None` if it was completed. [`Row::missing`] has the progress of the receivers then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given_up: Option<String>,
    /// 8 × message bytes ÷ completion, in Gbit/s; `None` if there is no message, as in a barrier.
    pub goodput_gbps: Option<f64>,
    /// Whether every receiver holds the bytes that were sent.
    pub verified: bool,
    /// Number of receivers: the group without the source, or the whole group if the source changed.
    pub receivers: usize,
    /// Number of receivers whose data has the input's SHA-256.
    pub receivers_verified: usize,
    /// Bytes of all frames that the source (or all sources) sent, from the Ethernet header to the ICRC.
    pub sender_tx_bytes: u64,
    /// Message bytes in the frames that the source sent, including retransmissions; 0 if the source is a device that
    /// does not count them.
    pub sender_payload_bytes: u64,
    /// Frames on all links, counted once per link, including ARP, ACKs and NAKs.
    pub wire_packets: u64,
    /// ACK and NAK packets that reached the source.
    pub sender_acks: u64,
    /// Congestion notifications that reached the source; `None` without congestion control.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender_cnps: Option<u64>,
    /// Request packets that reached members with an ECN mark; `None` without congestion control.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marked_packets: Option<u64>,
    /// Congestion notifications (CNPs) that members sent; `None` without congestion control.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cnps_sent: Option<u64>,
    /// CNPs that switches did not forward to the source because another path was more congested; `None` without congestion control.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cnps_filtered: Option<u64>,
    /// Copies of retransmissions that switches did not send on paths that had acknowledged them; `None` without a group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies_filtered: Option<u64>,
    /// Work of switches and controller to find the smallest PSN that all members have acknowledged, in packets; `None`
    /// without a group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feedback_work: Option<FeedbackWork>,
    /// Request packets that hosts retransmitted, summed over all members.
    pub retransmissions: u64,
    /// Frames lost on links and in queues; `None` if the driver does not count them.
    pub dropped_packets: Option<u64>,
    /// Frames that members discarded because a correct fabric never delivers them: wrong addresses, checksums, opcodes, PSNs or
    /// message counts.
    pub implausible_packets: u64,
    /// Statistics of PAUSE frames; `None` without flow control.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_control: Option<FlowControl>,
    /// Time in ns from the request for the group until its members may send; `None` without a group. It is on the
    /// network's clock. On a slowed clock, the controller's messages still take real time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registration_ns: Option<u64>,
    /// Completion times of the source's messages; `None` if the source does not count its messages as requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<RequestTimes>,
    /// Settings of the first member's queue pairs, and figures of its paths; `None` for workloads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<SenderRow>,
    /// The algorithm that ran because no group was available; `None` if the requested algorithm ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Fallback>,
    /// Changes between the group and an overlay, in order of time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub safeguard: Vec<Change>,
    /// Failures during the transfer, in order of time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
    /// Names of the receivers that were removed from the group.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
    /// Receivers without the sent bytes, except those affected by the job's own failures. If there are any, the run has failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Missing>,
    /// Result of each source, in order; empty unless the source changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartRow>,
    /// Result of each phase of a workload, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseRow>,
    /// Jain's fairness index ([`crate::workload::Throughput::fairness`]), averaged over the phases that have one;
    /// `None` without such a phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fairness: Option<f64>,
}

impl Row {
    /// Creates the result of a run of `job`, with its traffic and switch counters filled in, and no completion yet.
    pub(crate) fn of_cost(
        algorithm: Algorithm,
        job: &Job,
        traffic: &Traffic,
        counts: Option<&Counts>,
    ) -> Row {
        // Tofino's data plane does not count feedback; other data planes always count some.
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

/// Send settings of the first member's queue pairs, and figures of the paths from which they are derived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SenderRow {
    /// Maximum number of outstanding packets.
    pub window: u32,
    /// ACK timeout in ns; `None` without a timeout.
    pub ack_timeout_ns: Option<u64>,
    /// Pacing rate in bits per second on the wire; `None` if only the sender's own link limits its rate.
    pub pace_bps: Option<u64>,
    /// Rate of the slowest link to any receiver in bits per second; `None` if links do not have the topology's rates.
    pub bottleneck_bps: Option<u64>,
    /// Round trip to the farthest receiver with empty queues in ns; `None` if links do not have the topology's rates.
    pub round_trip_ns: Option<u64>,
}

/// A receiver without the whole message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Missing {
    pub host: String,
    /// Number of message bytes that the receiver holds.
    pub bytes: u64,
    /// Size of the message in bytes.
    pub total: u64,
    pub why: MissingReason,
}

/// Why a receiver does not hold the bytes that were sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MissingReason {
    /// The controller removed the receiver from the group, although it had not failed.
    Removed,
    /// The receiver was not done when the run was given up.
    Late,
    /// The receiver holds other bytes than were sent.
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
                "{host} was removed from the group although it had not failed, with {bytes} of {total} bytes"
            ),
            MissingReason::Late => write!(f, "{host} has {bytes} of {total} bytes"),
            MissingReason::Wrong => write!(f, "{host} holds other bytes than were sent"),
        }
    }
}

/// Packets that the switches and the controller processed to find the smallest PSN that all members have acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FeedbackWork {
    /// ACKs and NAKs that switches received.
    pub feedback: u64,
    /// ACKs and NAKs that switches or the controller sent on towards the source.
    pub forwarded_upstream: u64,
    /// Passes of packets through a switch pipeline after their first pass.
    pub recirculations: u64,
    /// Packets that switches punted to the controller: ACKs, NAKs, and data packets that trigger a check whether all
    /// members have acknowledged.
    pub punts: u64,
}

impl FeedbackWork {
    /// Returns `count` per ACK or NAK that switches received.
    pub(super) fn per_ack(&self, count: u64) -> f64 {
        count as f64 / self.feedback.max(1) as f64
    }
}

/// Result of one part of the message, from one of several sources.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PartRow {
    /// Name of the source's host.
    pub source: String,
    /// Size of the part in bytes.
    pub bytes: u64,
    /// Time in ns from the source's post until the last other member's application holds the part.
    pub completion_ns: u64,
    /// 8 × bytes of the part ÷ completion, in Gbit/s; `None` for an empty part.
    pub goodput_gbps: Option<f64>,
}

/// A fallback to another algorithm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fallback {
    /// Name of the algorithm that ran instead.
    pub to: String,
    /// Why no group was available.
    pub why: String,
}

/// A change between the group and an overlay during a transfer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Algorithm that runs after the change; `alfirk` is a return to the group.
    pub to: String,
    /// Reason of the change.
    pub why: String,
    /// Time of the decision in ns after the source's post; 0 if the decision was made before the post.
    pub at_ns: u64,
    /// Time in ns from the decision until the source sent again.
    pub took_ns: u64,
    /// Number of slices (messages of the data) that every receiver held at the time of the change.
    pub held: u32,
    /// Number of slices of the message.
    pub slices: u32,
}

/// A failure that the job caused during the transfer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Name of the failed host or switch, or both ends of the failed link.
    pub what: String,
    /// Time in ns after the source's post.
    pub at_ns: u64,
    /// Time in ns from the failure until its repair; `None` without a repair. The repair is the controller's removal of
    /// the failed member or rerouting of the tree, or an agreement of the survivors on how to continue.
    pub repaired_ns: Option<u64>,
    /// Time in ns from the failure until the source's first acknowledgement after the repair; `None` without one.
    pub going_on_ns: Option<u64>,
}

/// 8 × `bytes` ÷ `ns` in Gbit/s, rounded to kbit/s; `None` without bytes or time.
pub fn goodput_gbps(bytes: u64, ns: u64) -> Option<f64> {
    if bytes == 0 || ns == 0 {
        return None;
    }
    let gbps = bytes as f64 * 8.0 / ns as f64;
    Some((gbps * 1e6).round() / 1e6)
}
