//! Reference model of feedback aggregation: merges the ACKs and NAKs of many receivers into the one stream that the
//! sender's queue pair expects.
//!
//! - [`Group`]: the switch part of `p4src/v1model`; each step of `ack_aggregate.p4` has a file of the same name.
//! - [`TofinoGroup`]: the switch part of `p4src/tna`, where the steps are divided differently.
//! - [`punt::Aggregator`]: the controller part, for groups whose minimum the controller computes. `alfirk ctrl` runs it.
//!
//! Terms: a *path* is a port of a group's tree on one switch, and paths are numbered from 0. The *source* is the member that
//! sends at present. The *minimum* is the newest PSN that all paths have acknowledged or sent.
//!
//! The switch parts serve as a specification and as the fast model of the simulator. Three checks compare them with the
//! rest: the compiled pipeline must send the same packets for the same input (`cli/tests/pipeline_matches_model`); the
//! model checker explores them under loss, duplication and reordering (`sim/tests/feedback_model`); queue pairs run
//! behind them (`roce/tests`).
//!
//! Like the pipeline, a group has an ingress and an egress half. [`Group::data`], [`Group::feedback`],
//! [`Group::notice`] and [`Group::command`] return [`QueuedPacket`] packets. [`Group::dequeue`] processes each of them, in any
//! order that the queues of a switch may have. [`Group::run`] does both at once.
//!
//! The model has no frames, clocks or randomness. PSNs and message counts are numbers of a [`Space`], which a
//! model checker can make small.
//!
//! Sources: Cepheus, section III-D; Gleam, algorithms 2 and 3. Both papers leave three rules open: the reply
//! to acknowledged retransmissions, the sender's own path, and concurrent walks (searches by a recirculating packet).

mod ack_aggregate;
mod classify;
mod cnp_filter;
mod decide;
mod group;
mod last_acked;
mod min_psn_tree;
mod min_psn_walk;
pub mod punt;
mod retransmission_filter;
mod selective_nak;
mod sender;
mod tofino;
mod types;
mod waiting_nak;
mod work;

pub use ack_aggregate::Copies;
pub use alfirk_roce::wire::Space;
pub use classify::{classify, AckClass};
pub use cnp_filter::{CnpDrop, PathCongestion};
pub use group::{Group, SavedRegisters};
pub use last_acked::{LastAcked, Point};
pub use min_psn_tree::{Leaf, Leaves, PathPsn};
pub use min_psn_walk::{RunningWalk, Walk};
pub use retransmission_filter::RetransmissionFilter;
pub use selective_nak::{ReportedLoss, SelectiveNak};
pub use sender::Sender;
pub use tofino::{PathMsn, TofinoGroup, TofinoQueuedPacket};
pub use types::{
    Config, Feedback, Flaw, Message, MinSearch, Nak, Notice, PacketIn, PacketOut, Port,
    QueuedPacket, SentPacket, Strategy,
};
pub use waiting_nak::WaitingNak;
pub use work::{CountedGroup, Work};

#[cfg(test)]
mod tests;
