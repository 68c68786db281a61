//! Collectives: one member's data reaches all members of a group, by different ways over reliable connections.
//!
//! A [`Transfer`] is the application of one host in one collective, a state machine over [`crate::verbs::Verbs`]. What it
//! does is a [`Plan`]: which slices of the data come and go along which edges, in which order. Each algorithm
//! is a function that makes the plan of one rank, in a file of its own; the machine that executes plans is the same for
//! all. An algorithm is added by writing one such function.
//!
//! How members get each other's queue pair numbers (the out-of-band exchange) is the orchestrator's business:
//!
//! 1. [`Transfer::prepare`] on every member gives [`Endpoint`]s.
//! 2. The orchestrator gathers them, registers the group with the controller where the algorithm wants one, and hands the
//!    whole list to every member: [`Transfer::connect`].
//! 3. When every member has said [`TransferEvent::Ready`], the root gets the data: [`Transfer::start`].
//!    With several sources ([`TransferSpec::sources`]) the first one gets its part, and each of the others its own when every
//!    member has said [`TransferEvent::PartDone`] of the part before.
//! 4. Every member says [`TransferEvent::Done`] with the SHA-256 of what it holds, or [`TransferEvent::Failed`].
//!
//! Connections have their timers in the host. Where members send datagrams, the driver also serves [`Transfer::poll_timeout`].
//!
//! On the way a transfer may go on by another algorithm, each member with the slices that it still lacks: [`Leg`].

mod alfirk;
mod algorithm;
mod allgather;
mod announce;
mod barrier;
mod binomial;
mod binomial_ack;
mod chain;
mod connection;
mod datagram_edge;
mod datagrams;
mod depth;
mod digest;
mod double_tree;
mod edge;
mod error;
mod event;
mod extent;
mod kary;
mod kind;
mod lanes;
mod leg;
mod legs;
mod long;
mod members;
mod parts;
mod pieces;
mod plan;
mod post;
mod racks;
mod rdmc;
mod receives;
mod ring;
mod scatter;
mod spec;
mod transfer;
mod unicast;
mod verb;

pub use algorithm::{Algorithm, UnknownAlgorithm};
pub use announce::blocks;
pub use binomial_ack::DatagramSpec;
pub use depth::{RequestTimes, Requests};
pub use digest::{BadDigest, Digest, Original};
pub use edge::EdgeId;
pub use error::TransferError;
pub use event::{Progress, TransferEvent};
pub use kind::{Collective, UnknownCollective};
pub use lanes::blocks_at_once;
pub use leg::{Leg, Survivors};
pub use members::Members;
pub use plan::{Flow, Plan, Shape};
pub use racks::Racks;
pub use rdmc::Schedule;
pub use ring::Ring;
pub use spec::{
    equal_slice, Endpoint, GroupSpec, PathSettings, RemoteMemory, SpecError, TransferOp,
    TransferSpec, WriteMode,
};
pub use transfer::Transfer;
pub use verb::{LegAnswer, LegVerb};
