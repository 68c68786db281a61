//! RoCEv2 endpoints: wire formats, ICRC algebra, reliable connection, datagrams, and collectives on them.
//!
//! Everything here is a state machine without I/O and without a clock. Time is passed in as `now`, in nanoseconds since
//! an epoch of the caller's choice, and randomness comes from a seed. Two drivers use it: the simulator in virtual
//! time, and `alfirk host` on a packet socket. Both run the same [`application`], by which the end-host library over RDMA
//! devices registers its groups, too.
//!
//! Collectives and registrations use the trait [`verbs::Verbs`], which [`host::Host`] implements. Other RDMA stacks can
//! implement it too.

pub mod application;
pub mod binomial_ack;
pub mod collective;
pub mod dcqcn;
pub mod host;
pub mod hostile;
pub mod icrc;
pub mod rc;
pub mod registration;
pub mod steady;
pub mod ud;
pub mod verbs;
pub mod wire;
