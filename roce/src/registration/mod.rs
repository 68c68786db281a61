//! Registration of a group by its hosts, in-band by the registration protocol MRP: state machines of the leader and of
//! the members.
//!
//! ```text
//!  leader                     switches of the tree                     member
//!    │ Register (all nodes) ──▶ the leader's leaf invites first ──▶    │ Invite (its own node, the group's, the leader's)
//!    │                                                          ◀──    │ Agree (the same three)
//!    │                     each builds its table and forwards   ──▶    │ Register (its own node, the group's)
//!    │ ◀──────────────────────────── unicast ────────────────────────── │ Confirm
//! ```
//!
//! No switch stores state of the group before all members have consented. A host consents only for the queue pairs that
//! it expects to be registered, in the expected group and by the expected leader ([`ExpectedGroup`]). So its consent
//! cannot be used for another group or by another host.
//!
//! A confirmation means that every switch between leader and member is ready. When all have arrived, the leader may
//! send. Any packet may be lost: the leader resends the packets that contain unconfirmed nodes. After a number of
//! transmissions it gives up and reports the missing members. Members confirm every registration that they receive.
//!
//! Both state machines use the datagrams of [`Verbs`](crate::verbs::Verbs). The user passes on events and timeouts, as
//! with queue pairs. It also passes the members' queue pair numbers to [`Leader::gather`]; the papers exchange them
//! over TCP.

mod leader;
mod member;
mod registrar;
mod retry_timeout;
#[cfg(test)]
mod tests;

pub use leader::{Busy, GroupSpec, Leader, LeaderEvent, LeaderTiming};
pub use member::{ExpectedGroup, Member, MemberEvent};
pub use registrar::Registrar;
pub use retry_timeout::{RetryTimeout, MAX_STALL_NS, MIN_DEAD_AFTER_NS};
