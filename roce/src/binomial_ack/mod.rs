//! Reliable multicast by unreliable datagrams and acknowledgements up a binomial tree (Mansoor and Meehan, "Reliable Multicast
//! Protocol Using Infiniband Remote Direct Memory Access").
//!
//! A root multicasts a message once.  Every member that has it waits for its children in a binomial tree whose root is the
//! sender, and then acknowledges to its parent, for itself and all below it: `log2 n` cycles instead of `n` acknowledgements at
//! one host.  A parent that misses a child's acknowledgement for a time that grows with the child's level sends it the message
//! over their connection; one that gets an acknowledgement of what it lacks itself asks that child for it.
//! [`Effect::Completed`] comes when everybody has the message, so that a broadcast that waits for it needs no barrier
//! behind it.
//!
//! The members are a list that a fixed [`Manager`] makes in versions; messages name the version by which they are acknowledged.
//! Beyond the paper: messages of any length are cut into segments, all members get a notice when a message is complete and forget
//! it then, and where a member is taken out while messages are under way, the one above it adopts those below it.
//!
//! [`Node`] is the protocol: it is given datagrams, packets of connections and the time, and says what to send.  [`Endpoint`] is
//! a node on a [`crate::host::Host`], with a UD queue pair for the group and RC queue pairs between members, kept or made anew each
//! time ([`Connections`]).  The manager is the first member, and the lists go over these queue pairs, too.

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
