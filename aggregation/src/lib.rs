//! The rules by which many receivers' feedback becomes the one stream that a sender's queue pair expects, written as one
//! would explain them: what `p4src` computes in registers, and what the controller computes for groups that leave it to it.
//!
//! The switch's half is [`Group`], one file for each step of `p4src/v1model/ack_aggregate.p4`, of the same name; the
//! controller's is [`punt::Aggregator`], on the same steps. The controller runs the latter. The rest are checks: the compiled pipeline must give
//! the same packets for the same sequence of packets (`cli/tests/pipeline_matches_model`), the model checker explores both
//! halves with loss, duplication and reordering of everything (`sim/tests/feedback_model`), and queue pairs are tried
//! behind it (`roce/tests`). [`TofinoGroup`] is the same for `p4src/tna`, where the steps are divided otherwise; the first two
//! checks are made of it, too.
//!
//! Like the pipeline, a group has two halves. What comes in goes through [`Group::data`], [`Group::feedback`],
//! [`Group::notice`] or [`Group::command`], and gives [`Queued`] things; each of them goes on through
//! [`Group::dequeue`], in whatever order the queues of a switch have. [`Group::run`] does both at once.
//!
//! It knows no frames, no clock and no randomness. PSNs and message counts are plain numbers of a [`Space`], which a
//! model checker makes small.
//!
//! Sources: Cepheus, section III-D; Gleam, algorithms 2 and 3; and the rules that both leave open (the answer
//! to acknowledged retransmissions, the sender's own path, walks that others overtake).

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
pub use classify::{classify, Answer};
pub use cnp_filter::{CnpDrop, Congested};
pub use group::{Group, Kept};
pub use last_acked::{LastAcked, Point};
pub use min_psn_tree::{Leaf, Leaves, Word};
pub use min_psn_walk::{Busy, Walk};
pub use retransmission_filter::RetransmissionFilter;
pub use selective_nak::{Loss, SelectiveNak};
pub use sender::Sender;
pub use tofino::{PathMsn, TofinoGroup, TofinoQueued};
pub use types::{
    Config, Feedback, Flaw, Message, MinSearch, Nak, Notice, PacketIn, PacketOut, Port, Queued,
    Sent, Strategy,
};
pub use waiting_nak::WaitingNak;
pub use work::Work;

#[cfg(test)]
mod tests;
