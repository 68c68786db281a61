//! Reliable multicast by unreliable datagrams, with acknowledgements up a binomial tree (Mansoor and Meehan, "Reliable
//! Multicast Protocol Using Infiniband Remote Direct Memory Access").
//!
//! A root multicasts a message once. The members form a binomial tree with the sender as its root. A member that has
//! the message waits for its children, then acknowledges to its parent for its whole subtree. This takes `log2 n`
//! cycles (levels of the tree) instead of `n` acknowledgements at one host. A parent that misses a child's
//! acknowledgement sends it the message over their connection: a *repair*. It does so after a time that grows with the
//! child's level. A parent that lacks a message which a child acknowledges requests it from that child.
//! [`Effect::Completed`] means that all members have the message. So a broadcast that waits for it needs no barrier
//! afterwards.
//!
//! A fixed [`Manager`] creates versioned lists of the members. A message contains the version of the list by which it
//! is acknowledged. Beyond the paper, messages of any length are cut into segments. All members get a notice when a
//! message is complete at all members, and release it. If a member is removed while messages are in flight, its parent
//! adopts its children.
//!
//! [`Node`] is the protocol as a state machine: its inputs are datagrams, packets of connections and the time.
//! [`Endpoint`] is a node on a [`crate::host::Host`], with a UD queue pair for the group and RC queue pairs between
//! members. These are retained or created for each message ([`ConnectionLifetime`]). The manager is the first member, and
//! lists are sent over these queue pairs, too.

mod endpoint;
mod membership;
mod node;
mod suspects;
mod tree;
mod wire;

#[cfg(test)]
mod tests;

pub use endpoint::{ConnectionLifetime, Endpoint, EndpointConfig, EndpointEvent, OpenError};
pub use membership::{Manager, Member, Membership, MembershipError};
pub use node::{Config, Counts, Effect, MulticastError, Node};
pub use tree::AckTree;
pub use wire::{Body, MessageId, Packet, HEADER_LEN};
