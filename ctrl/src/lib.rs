//! The controller: topology, multicast trees, group registration, P4Runtime client.

pub mod topology;
