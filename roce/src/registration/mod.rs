//! Registration of a group by its hosts, in-band (MRP): state machines of the leader and of the members.
//!
//! ```text
//!  leader                     switches of the tree                     member
//!    │ Register (all nodes) ──▶ the leader's leaf invites first ──▶    │ Invite (its own node, the group's, the leader's)
//!    │                                                          ◀──    │ Agree (the same three)
//!    │                     each builds its table and forwards   ──▶    │ Register (its own node, the group's)
//!    │ ◀──────────────────────────── unicast ────────────────────────── │ Confirm
//! ```
//!
//! No switch gets state of the group before all members have agreed. A host agrees only for the queue pairs that it expects to be
//! registered, in the expected group and by the expected leader ([`ExpectedGroup`]). So an agreement cannot be used for another group
//! or by another host.
//!
//! A confirmation means that every switch between leader and member is ready. When all have arrived, the leader may send. Any packet
//! may be lost: the leader resends the packets that name unconfirmed nodes, and after a number of attempts gives up and reports the
//! missing members. Members confirm every registration that they receive.
//!
//! Both state machines use the datagrams of [`Verbs`](crate::verbs::Verbs); the user passes on events and timeouts, as with queue
//! pairs. The members' queue pair numbers, which the papers exchange over TCP, are passed to [`Leader::gather`] by the user.

mod leader;
mod member;
mod patience;
mod registrar;
#[cfg(test)]
mod tests;

pub use leader::{Busy, GroupSpec, Leader, LeaderEvent, LeaderTiming};
pub use member::{ExpectedGroup, Member, MemberEvent};
pub use patience::{Patience, MAX_STALL_NS, MIN_DEAD_AFTER_NS};
pub use registrar::Registrar;
