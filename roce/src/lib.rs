//! RoCEv2 endpoints: wire formats, ICRC algebra, reliable connection, datagrams, and collectives on them.
//!
//! Everything here is a state machine without I/O and without a clock: time comes in as `now`, in nanoseconds since
//! an epoch of the caller's choice, and randomness comes from a seed. Two drivers use it: the simulator in virtual
//! time, and `alfirk host` on a packet socket.
//!
//! Collectives and registrations work over [`verbs::Verbs`], which [`host::Host`] is, and any other RDMA stack can be.

pub mod binomial_ack;
pub mod collective;
pub mod dcqcn;
pub mod host;
pub mod hostile;
pub mod icrc;
pub mod rc;
pub mod registration;
pub mod ud;
pub mod verbs;
pub mod wire;
