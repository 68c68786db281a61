//! Reliable multicast by unreliable datagrams and acknowledgements up a binomial tree (Mansoor and Meehan, "Reliable Multicast
//! Protocol Using Infiniband Remote Direct Memory Access").
//!
//! A root multicasts a message once.  Every member that has it waits for its children in a binomial tree whose root is the
//! sender. Then it acknowledges to its parent, for itself and its whole subtree: `log2 n` cycles instead of `n` acknowledgements at
//! one host.  A parent that misses a child's acknowledgement for a time that grows with the child's level sends it the message
//! over their connection. A parent that lacks a message which a child acknowledges requests it from that child.
//! [`Effect::Completed`] means that all members have the message, so a broadcast that waits for it needs no barrier afterwards.
//!
//! A fixed [`Manager`] makes versioned lists of the members; a message names the version by which it is acknowledged.
//! Beyond the paper, messages of any length are cut into segments. All members get a notice when a message is complete, and
//! release it. If a member is removed while messages are in flight, its parent adopts its children.
//!
//! [`Node`] is the protocol as a state machine: its input is datagrams, packets of connections and the time.  [`Endpoint`] is
//! a node on a [`crate::host::Host`], with a UD queue pair for the group and RC queue pairs between members, which are kept or created
//! anew each time ([`Connections`]).  The manager is the first member, and lists are sent over these queue pairs, too.

mod endpoint;
mod membership;
mod node;
mod suspects;
mod tree;
mod wire;

#[cfg(test)]
mod tests;

pub use endpoint::{Connections, Endpoint, EndpointConfig, EndpointEvent, OpenError};
pub use membership::{Manager, Member, Membership, MembershipError};
pub use node::{Config, Counts, Effect, MulticastError, Node};
pub use tree::AckTree;
pub use wire::{Body, MessageId, Packet, HEADER_LEN};
