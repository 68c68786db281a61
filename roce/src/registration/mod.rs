//! Registration of a group from its hosts, in band (MRP): the leader's machine and the members'.
//!
//! ```text
//!  leader                     switches of the tree                     member
//!    │ Register (all nodes) ──▶ the leader's leaf asks first    ──▶    │ Invite (its own node, the group's, the leader's)
//!    │                                                          ◀──    │ Agree (the same three)
//!    │                     each builds its table, passes on     ──▶    │ Register (its own node, the group's)
//!    │ ◀──────────────────────────── unicast ────────────────────────── │ Confirm
//! ```
//!
//! Before all have agreed no switch gets anything of the group. A host agrees for the queue pairs that it expects to be registered, in
//! the group and by the leader that it expects for each ([`ExpectedGroup`]): what a member has agreed to cannot be used for another
//! group, or by another host.
//! A confirmation says that every switch between leader and member is ready, so when all have come the leader may
//! send. Any packet may be lost: the leader sends again the packets that name nodes which have not confirmed, and
//! gives up after some attempts, with the names of those missing. Members confirm each time they are asked.
//!
//! Both are machines over the datagrams of [`Verbs`](crate::verbs::Verbs): the user passes events and timeouts on, as with
//! queue pairs. What goes over TCP in the papers, the members' queue pair numbers, is the user's to bring to
//! [`Leader::gather`].

mod leader;
mod member;
mod patience;
mod registrar;
#[cfg(test)]
mod tests;

pub use leader::{GroupSpec, Leader, LeaderEvent, LeaderTiming, NotNow};
pub use member::{ExpectedGroup, Member, MemberEvent};
pub use patience::{Patience, LEAST_DEAD_AFTER_NS, MOST_STALL_NS};
pub use registrar::Registrar;
