//! Collectives over RDMA: broadcast, scatter, allgather and barrier, each by several algorithms.
//!
//! A [`Transfer`] runs one collective on one host, as a state machine over [`crate::verbs::Verbs`]. It executes a
//! [`Plan`]: the slices of the data that this member receives and sends, on which edges, in which order. Each algorithm
//! is a function in a file of its own that returns the plan of one rank. To add an algorithm, write such a function.
//!
//! Terms: the data is cut into *slices*, each of which is one message. An *edge* is a connection between members, or a group.
//! The *root* has rank 0 and the data at the start. The *orchestrator* is the program that directs all members.
//!
//! The orchestrator exchanges the queue pair numbers out of band:
//!
//! 1. [`Transfer::prepare`] on every member returns its [`Endpoint`]s.
//! 2. The orchestrator gathers them and, where the algorithm needs a group, registers it with the controller. It passes
//!    the whole list to every member: [`Transfer::connect`].
//! 3. When every member has reported [`TransferEvent::Ready`], the root gets the data: [`Transfer::start`]. With
//!    several sources ([`TransferSpec::sources`]), each source gets its part in turn, when every member has reported
//!    [`TransferEvent::PartDone`] for the previous part.
//! 4. Every member reports [`TransferEvent::Done`] with the SHA-256 of its data, or [`TransferEvent::Failed`].
//!
//! The host handles the timers of connections. Where members send datagrams, the user of a transfer must also call
//! [`Transfer::handle_timeout`] at [`Transfer::poll_timeout`].
//!
//! A running transfer can change to another algorithm, which carries only the slices that members still lack. The part
//! carried by one algorithm is a [`Leg`].

mod alfirk;
mod algorithm;
mod allgather;
mod announce;
mod barrier;
mod binomial;
mod binomial_ack;
mod chain;
mod datagrams;
mod depth;
mod digest;
mod double_tree;
mod edge;
mod error;
mod event;
mod execution;
mod extent;
mod kary;
mod kind;
mod long;
mod members;
mod parts;
mod pieces;
mod plan;
mod racks;
mod rdmc;
mod region_announcement;
mod ring;
mod scatter;
mod schedules;
mod spec;
mod transfer;
mod unicast;

pub use algorithm::{Algorithm, UnknownAlgorithm};
pub use announce::blocks;
pub use binomial_ack::DatagramSpec;
pub use depth::{RequestLatencies, RequestTimes};
pub use digest::{BadDigest, Digest, ExpectedData};
pub use edge::EdgeId;
pub use error::TransferError;
pub use event::{Progress, TransferEvent};
pub use execution::{Due, Execution, Sending, Transport};
pub use kind::{Collective, UnknownCollective};
pub use members::Members;
pub use plan::{Flow, Plan, Shape};
pub use racks::Racks;
pub use rdmc::Schedule;
pub(crate) use region_announcement::announce_region;
pub use ring::Ring;
pub use schedules::max_blocks_in_flight;
pub use spec::{
    equal_slice, Endpoint, GroupSpec, PathSettings, RemoteMemory, SpecError, TransferOp,
    TransferSpec, WriteMode,
};
pub use transfer::{Leg, LegCommand, LegReply, Survivors, Transfer};
