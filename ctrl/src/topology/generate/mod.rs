//! Generators of regular topologies.
//!
//! Every generator is a pure function of its arguments.  Hosts are named `h1`, `h2`, ... and have the Ethernet
//! address 02:00 followed by their number; addresses are in 10.0.0.0/8 below 10.255.0.0, which is reserved for
//! multicast groups.  Device ids are the positions of the switches, from 1.

mod fat_tree;
mod leaf_spine;
mod m_port_n_tree;
mod mesh;
mod spec;
mod testbed;

pub use fat_tree::{fat_tree, FatTreeShape};
pub use leaf_spine::leaf_spine;
pub use m_port_n_tree::m_port_n_tree;
pub use mesh::mesh;
pub use spec::{generate, is_generator_spec, GeneratorSpecError, GENERATOR_FORMS};
pub use testbed::testbed;

use super::{Builder, End, Host, HostIndex, LinkAttributes, MacAddr, SwitchIndex, Topology};

/// Error: a generator's parameters are out of range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenerateError {
    /// One parameter is out of range.
    #[error("{topology}: {parameter} = {given} is out of range; it must be {allowed}")]
    Parameter {
        /// Name of the generator, such as `fat-tree`.
        topology: &'static str,
        /// The parameter's name.
        parameter: &'static str,
        /// The given value of the parameter.
        given: u32,
        /// Allowed values, for the message.
        allowed: &'static str,
    },
    /// The combination of parameters needs more hosts than there are addresses.
    #[error("{topology}: {hosts} hosts are too many; at most {limit} have addresses")]
    TooManyHosts {
        /// Name of the generator, such as `fat-tree`.
        topology: &'static str,
        /// Number of hosts of the requested topology.
        hosts: u64,
        /// Maximum number of hosts.
        limit: u64,
    },
}

pub(super) fn check(
    topology: &'static str,
    parameter: &'static str,
    given: u32,
    good: bool,
    allowed: &'static str,
) -> Result<(), GenerateError> {
    match good {
        true => Ok(()),
        false => Err(GenerateError::Parameter {
            topology,
            parameter,
            given,
            allowed,
        }),
    }
}

/// A [`Builder`] for generators: numbers hosts and switches, and panics on invalid arguments, which would be bugs.
struct GeneratorBuilder {
    builder: Builder,
    switches: u64,
    hosts: u32,
}

impl GeneratorBuilder {
    fn new(name: String) -> GeneratorBuilder {
        GeneratorBuilder {
            builder: Builder::new(name, LinkAttributes::default()).expect("a good name"),
            switches: 0,
            hosts: 0,
        }
    }

    fn switch(&mut self, name: String) -> SwitchIndex {
        self.switches += 1;
        self.builder
            .switch(name, self.switches)
            .expect("generated switches are unique")
    }

    fn host(&mut self, ip: [u8; 4]) -> HostIndex {
        self.hosts += 1;
        let [a, b, c, d] = self.hosts.to_be_bytes();
        self.builder
            .host(Host {
                name: format!("h{}", self.hosts),
                ip: ip.into(),
                prefix_len: 8,
                mac: MacAddr([2, 0, a, b, c, d]),
            })
            .expect("generated hosts are unique")
    }

    fn link(&mut self, a: End, b: End) {
        self.builder
            .link(a, b)
            .expect("generated links use free ports");
    }

    fn build(self) -> Topology {
        self.builder
            .build()
            .expect("generated topologies are whole")
    }
}
