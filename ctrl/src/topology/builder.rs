//! Builder of a [`Topology`]: nodes and links are added one by one and checked.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use super::model::{
    End, Host, HostIndex, Link, LinkAttributes, LinkIndex, Neighbour, Node, Switch, SwitchIndex,
    Topology,
};
use super::switching::{full_frame, SwitchingProblem, ETHERNET_BYTES};
use super::{MacAddr, Switching};

/// Error: a node, link or parameter does not fit the topology.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The name has characters that are not allowed in `node:port`, file names or interface names.
    #[error(
        "`{0}` is not a valid name; use 1 to 64 letters, digits, `.`, `_` or `-`, starting with a letter"
    )]
    Name(String),
    /// Two nodes have the same name.
    #[error("the name `{0}` is taken by another node; names are unique among switches and hosts")]
    DuplicateName(String),
    /// The device id is 0, which protobuf cannot distinguish from an unset field.
    #[error("switch {switch}: id 0 is not a P4Runtime device id; use 1 or more")]
    DeviceIdZero {
        /// Name of the switch.
        switch: String,
    },
    /// Two switches have the same device id.
    #[error("switch {switch}: id {id} is already the id of switch {other}; give it an unused one")]
    DuplicateDeviceId {
        /// Name of the switch that was added later.
        switch: String,
        /// Name of the switch that was added first.
        other: String,
        /// P4Runtime device id of both switches.
        id: u64,
    },
    /// The address is not a unicast host address of its prefix.
    #[error("host {host}: {ip}/{prefix_len} is not a host's address; use a unicast address that is neither the network's nor its broadcast address, and a prefix of 1 to 30 bits")]
    Address {
        /// Name of the host.
        host: String,
        /// IPv4 address of the host.
        ip: Ipv4Addr,
        /// Prefix length of the address.
        prefix_len: u8,
    },
    /// Two hosts have the same IPv4 address.
    #[error("host {host}: {ip} is already the address of host {other}; give it an unused one")]
    DuplicateIp {
        /// Name of the host that was added later.
        host: String,
        /// Name of the host that was added first.
        other: String,
        /// IPv4 address of both hosts.
        ip: Ipv4Addr,
    },
    /// The Ethernet address is a multicast address or all zero.
    #[error("host {host}: {mac} is not a station's Ethernet address; the lowest bit of its first byte must be 0, and it must not be all zero")]
    Mac {
        /// Name of the host.
        host: String,
        /// Ethernet address of the host.
        mac: MacAddr,
    },
    /// Two hosts have the same Ethernet address.
    #[error(
        "host {host}: {mac} is already the Ethernet address of host {other}; give it an unused one"
    )]
    DuplicateMac {
        /// Name of the host that was added later.
        host: String,
        /// Name of the host that was added first.
        other: String,
        /// Ethernet address of both hosts.
        mac: MacAddr,
    },
    /// The port number is out of range.
    #[error(
        "switch {switch}: port {port} is out of range; ports are 1 to {}",
        End::MAX_PORT
    )]
    Port {
        /// Name of the switch.
        switch: String,
        /// Port number on the switch.
        port: u32,
    },
    /// Two links use the same port of a switch.
    #[error("port {switch}:{port} is used by another link, to {other}; each port takes one")]
    PortTaken {
        /// Name of the switch.
        switch: String,
        /// Port number on the switch.
        port: u32,
        /// Far end of the existing link.
        other: String,
    },
    /// A host has more than one link.
    #[error("host {host} has a link already, to {other}; a host has exactly one")]
    SecondLink {
        /// Name of the host.
        host: String,
        /// Far end of the existing link.
        other: String,
    },
    /// A link connects two hosts.
    #[error("hosts {a} and {b} are linked to each other; link each to a switch")]
    HostToHost {
        /// Name of the first host.
        a: String,
        /// Name of the second host.
        b: String,
    },
    /// A link connects a switch to itself.
    #[error("switch {switch} is linked to itself; a link joins two nodes")]
    Loop {
        /// Name of the switch.
        switch: String,
    },
    /// The rate of a link is 0.
    #[error("a link rate of 0 is not allowed; use 1bps or more")]
    RateZero,
    /// The MTU is below IPv4's minimum of 68 bytes (RFC 791) or above its maximum packet size of 65,535 bytes.
    #[error("an MTU of {0} is out of range; IPv4 packets need 68 to 65535 bytes")]
    Mtu(u32),
    /// The queue is shorter than one full frame.
    #[error("a queue of {queue_bytes} bytes is smaller than a frame of MTU {mtu}; use {} bytes or more", u64::from(*mtu) + ETHERNET_BYTES)]
    Queue {
        /// Length of the queue in bytes.
        queue_bytes: u64,
        /// MTU of the link in bytes.
        mtu: u32,
    },
    /// A node is assigned to machine 0, but machines are counted from 1.
    #[error("{0} is assigned to machine 0; machines are counted from 1")]
    MachineZero(String),
    /// A node is assigned to two machines.
    #[error("{0} is assigned to two machines; list it once")]
    TwoMachines(String),
    /// The parameters of queueing, buffers or flow control are not valid.
    #[error(transparent)]
    Switching(#[from] SwitchingProblem),
    /// The topology has no switch.
    #[error("there is no switch; a topology has at least one")]
    NoSwitch,
    /// A host has no link.
    #[error("host {0} has no link; link it to a switch")]
    HostWithoutLink(String),
    /// The switches are not all connected.
    #[error("switch {switch} cannot be reached from switch {from}; connect all switches")]
    NotConnected {
        /// Name of the first switch that cannot be reached.
        switch: String,
        /// The first switch of the topology, from which the search started.
        from: String,
    },
}

/// Collects nodes and links into a [`Topology`].
#[derive(Clone, Debug)]
pub struct Builder {
    topology: Topology,
    device_ids: BTreeMap<u64, SwitchIndex>,
    macs: BTreeMap<MacAddr, HostIndex>,
    uplinks: BTreeMap<HostIndex, Neighbour>,
}

impl Builder {
    /// Creates a builder of an empty topology. `defaults`: attributes of links that have none of their own.
    pub fn new(name: impl Into<String>, defaults: LinkAttributes) -> Result<Builder, BuildError> {
        let name = name.into();
        check_name(&name)?;
        check_attributes(&defaults)?;
        Ok(Builder {
            topology: Topology {
                name,
                defaults,
                switching: Switching::default(),
                switches: Vec::new(),
                hosts: Vec::new(),
                links: Vec::new(),
                by_name: BTreeMap::new(),
                by_ip: BTreeMap::new(),
                machines: BTreeMap::new(),
                switch_neighbours: Vec::new(),
                host_neighbours: Vec::new(),
            },
            device_ids: BTreeMap::new(),
            macs: BTreeMap::new(),
            uplinks: BTreeMap::new(),
        })
    }

    /// Sets queueing, buffers and flow control of all switches. Sizes that depend on links are checked by [`Builder::build`].
    pub fn switching(&mut self, switching: Switching) -> Result<(), BuildError> {
        switching.check()?;
        self.topology.switching = switching;
        Ok(())
    }

    /// Adds a switch.
    pub fn switch(
        &mut self,
        name: impl Into<String>,
        device_id: u64,
    ) -> Result<SwitchIndex, BuildError> {
        let name = name.into();
        self.check_new_name(&name)?;
        if device_id == 0 {
            return Err(BuildError::DeviceIdZero { switch: name });
        }
        if let Some(other) = self.device_ids.get(&device_id) {
            return Err(BuildError::DuplicateDeviceId {
                switch: name,
                other: self.topology.switch(*other).name.clone(),
                id: device_id,
            });
        }
        let index = SwitchIndex(self.topology.switches.len());
        self.device_ids.insert(device_id, index);
        self.topology
            .by_name
            .insert(name.clone(), Node::Switch(index));
        self.topology.switches.push(Switch { name, device_id });
        self.topology.switch_neighbours.push(Vec::new());
        Ok(index)
    }

    /// Adds a host.
    pub fn host(&mut self, host: Host) -> Result<HostIndex, BuildError> {
        self.check_new_name(&host.name)?;
        if !is_host_address(host.ip, host.prefix_len) {
            return Err(BuildError::Address {
                host: host.name,
                ip: host.ip,
                prefix_len: host.prefix_len,
            });
        }
        if host.mac.is_multicast() || host.mac.0 == [0; 6] {
            return Err(BuildError::Mac {
                host: host.name,
                mac: host.mac,
            });
        }
        if let Some(other) = self.topology.by_ip.get(&host.ip) {
            return Err(BuildError::DuplicateIp {
                other: self.topology.host(*other).name.clone(),
                host: host.name,
                ip: host.ip,
            });
        }
        if let Some(other) = self.macs.get(&host.mac) {
            return Err(BuildError::DuplicateMac {
                other: self.topology.host(*other).name.clone(),
                host: host.name,
                mac: host.mac,
            });
        }
        let index = HostIndex(self.topology.hosts.len());
        self.topology.by_ip.insert(host.ip, index);
        self.macs.insert(host.mac, index);
        self.topology
            .by_name
            .insert(host.name.clone(), Node::Host(index));
        self.topology.hosts.push(host);
        Ok(index)
    }

    /// Adds a link with the default attributes.
    pub fn link(&mut self, a: End, b: End) -> Result<LinkIndex, BuildError> {
        self.link_with(a, b, self.topology.defaults)
    }

    /// Adds a link with attributes of its own.
    ///
    /// Panics if an end has the index of a node that this builder did not create.
    pub fn link_with(
        &mut self,
        a: End,
        b: End,
        attributes: LinkAttributes,
    ) -> Result<LinkIndex, BuildError> {
        check_attributes(&attributes)?;
        match (a.node, b.node) {
            (Node::Host(a), Node::Host(b)) => {
                return Err(BuildError::HostToHost {
                    a: self.topology.host(a).name.clone(),
                    b: self.topology.host(b).name.clone(),
                })
            }
            (Node::Switch(s), Node::Switch(t)) if s == t => {
                return Err(BuildError::Loop {
                    switch: self.topology.switch(s).name.clone(),
                })
            }
            _ => {}
        }
        self.check_free(a)?;
        self.check_free(b)?;
        let link = LinkIndex(self.topology.links.len());
        self.attach(a, b, link);
        self.attach(b, a, link);
        self.topology.links.push(Link {
            ends: [a, b],
            attributes,
        });
        Ok(link)
    }

    /// Assigns a node to a machine, by the machine's number, from 1.
    pub fn machine(&mut self, node: Node, number: u32) -> Result<(), BuildError> {
        let name = || self.topology.name_of(node).to_owned();
        if number == 0 {
            return Err(BuildError::MachineZero(name()));
        }
        match self.topology.machines.get(&node) {
            Some(_) => Err(BuildError::TwoMachines(name())),
            None => {
                self.topology.machines.insert(node, number);
                Ok(())
            }
        }
    }

    /// Node with this name; `None` if no such node was added yet.
    pub fn node_named(&self, name: &str) -> Option<Node> {
        self.topology.node_named(name)
    }

    /// Completes the topology.
    ///
    /// # Errors
    ///
    /// There is no switch, a host has no link, the network is not connected, or buffers are too small.
    pub fn build(mut self) -> Result<Topology, BuildError> {
        if self.topology.switches.is_empty() {
            return Err(BuildError::NoSwitch);
        }
        for host in self.topology.host_indexes() {
            match self.uplinks.get(&host) {
                Some(uplink) => self.topology.host_neighbours.push(*uplink),
                None => {
                    let name = self.topology.host(host).name.clone();
                    return Err(BuildError::HostWithoutLink(name));
                }
            }
        }
        match self.unreached() {
            None => {}
            Some(switch) => {
                return Err(BuildError::NotConnected {
                    switch: self.topology.switch(switch).name.clone(),
                    from: self.topology.switches[0].name.clone(),
                })
            }
        }
        self.topology.check_switching()?;
        Ok(self.topology)
    }

    /// The first switch that cannot be reached from switch 0.
    fn unreached(&self) -> Option<SwitchIndex> {
        let mut seen = vec![false; self.topology.switches.len()];
        let mut todo = vec![SwitchIndex(0)];
        seen[0] = true;
        while let Some(switch) = todo.pop() {
            for neighbour in self.topology.neighbours(switch) {
                if let Node::Switch(next) = neighbour.peer.node {
                    if !std::mem::replace(&mut seen[next.0], true) {
                        todo.push(next);
                    }
                }
            }
        }
        seen.iter().position(|seen| !seen).map(SwitchIndex)
    }

    fn check_new_name(&self, name: &str) -> Result<(), BuildError> {
        check_name(name)?;
        match self.topology.by_name.contains_key(name) {
            true => Err(BuildError::DuplicateName(name.to_owned())),
            false => Ok(()),
        }
    }

    fn check_free(&self, end: End) -> Result<(), BuildError> {
        match end.node {
            Node::Switch(switch) => {
                let name = || self.topology.switch(switch).name.clone();
                if !(1..=End::MAX_PORT).contains(&end.port) {
                    return Err(BuildError::Port {
                        switch: name(),
                        port: end.port,
                    });
                }
                match self.topology.neighbour_at(switch, end.port) {
                    None => Ok(()),
                    Some(taken) => Err(BuildError::PortTaken {
                        switch: name(),
                        port: end.port,
                        other: self.topology.show_end(taken.peer).to_string(),
                    }),
                }
            }
            Node::Host(host) => match self.uplinks.get(&host) {
                None => Ok(()),
                Some(taken) => Err(BuildError::SecondLink {
                    host: self.topology.host(host).name.clone(),
                    other: self.topology.show_end(taken.peer).to_string(),
                }),
            },
        }
    }

    fn attach(&mut self, end: End, peer: End, link: LinkIndex) {
        let neighbour = Neighbour {
            port: end.port,
            peer,
            link,
        };
        match end.node {
            Node::Switch(switch) => {
                let ports = &mut self.topology.switch_neighbours[switch.0];
                let at = ports.partition_point(|n| n.port < end.port);
                ports.insert(at, neighbour);
            }
            Node::Host(host) => {
                self.uplinks.insert(host, neighbour);
            }
        }
    }
}

fn check_name(name: &str) -> Result<(), BuildError> {
    let good = name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    match good {
        true => Ok(()),
        false => Err(BuildError::Name(name.to_owned())),
    }
}

fn check_attributes(attributes: &LinkAttributes) -> Result<(), BuildError> {
    if attributes.rate_bps == 0 {
        return Err(BuildError::RateZero);
    }
    if !(68..=65_535).contains(&attributes.mtu) {
        return Err(BuildError::Mtu(attributes.mtu));
    }
    if attributes.queue_bytes < full_frame(attributes) {
        return Err(BuildError::Queue {
            queue_bytes: attributes.queue_bytes,
            mtu: attributes.mtu,
        });
    }
    Ok(())
}

fn is_host_address(ip: Ipv4Addr, prefix_len: u8) -> bool {
    if !(1..=30).contains(&prefix_len) {
        return false;
    }
    let host_bits = u32::from(ip) & (u32::MAX >> prefix_len);
    host_bits != 0
        && host_bits != u32::MAX >> prefix_len
        && ip.octets()[0] != 0
        && ip.octets()[0] < 224
        && !ip.is_loopback()
}
