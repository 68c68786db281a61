//! `alfirk host`: the RC endpoint of the simulator on a real interface, and how an orchestrator talks to it ([`protocol`];
//! [`client`] is the orchestrator's end).

pub mod client;
pub mod protocol;
