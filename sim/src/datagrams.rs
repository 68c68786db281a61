//! Multicast of UD datagrams on a fabric in virtual time, acknowledged along a binomial tree of the members.

use std::net::Ipv4Addr;
use std::sync::Arc;

use alfirk_ctrl::topology::HostIndex;
use alfirk_experiment::{Fabric, FabricError};
use alfirk_roce::binomial_ack::{
    Config, ConnectionLifetime, Endpoint, EndpointConfig, EndpointEvent, OpenError,
};
use alfirk_roce::rc::{PathMtu, Remote};

use crate::engine::Step;
use crate::fabric::VirtualFabric;

const MAX_MEMBERS: u32 = 4_096;
/// Time limit in virtual nanoseconds until a change of the member list has reached all members.
const MEMBERSHIP_LIMIT: u64 = 1_000_000_000;

/// The members of one datagram group. The first member manages the member list.
pub struct DatagramGroup {
    config: EndpointConfig,
    manager: Option<Remote>,
    members: Vec<HostIndex>,
}

/// Measured times of the broadcast of one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broadcast {
    /// Nanoseconds from the post until the root's application was informed that all members have the message.
    pub completed: u64,
    /// Nanoseconds from the post until the last receiver's application had the message.
    pub delivered: u64,
}

impl DatagramGroup {
    /// Creates a datagram group without members.
    pub fn new(
        group: Ipv4Addr,
        mtu: PathMtu,
        connections: ConnectionLifetime,
        fabric: &VirtualFabric,
    ) -> Self {
        let config = EndpointConfig::new(group, 0x0a1f_014b, fabric.rc(mtu), 1 << 20, MAX_MEMBERS);
        DatagramGroup {
            config: EndpointConfig {
                node: Config {
                    // About ten messages up one level of the tree, including the creation of a connection.
                    cycle_timeout: 100_000,
                    segment_time: 2_000,
                    ..config.node
                },
                connections,
                ..config
            },
            manager: None,
            members: Vec::new(),
        }
    }

    /// Adds a host: to the multicast group in the fabric, then to the manager's member list. Returns when all members
    /// have the new list.
    pub fn join(&mut self, fabric: &mut VirtualFabric, host: HostIndex) -> Result<(), FabricError> {
        fabric.join_datagrams(self.config.group, &[host])?;
        let (config, manager) = (self.config, self.manager);
        let network = fabric.network();
        let opened = network.on_nic(host, |nic, now| {
            let mut member = Endpoint::open(nic, config)?;
            match manager {
                None => member.create_group(nic, now),
                Some(manager) => member.join(nic, now, manager),
            }
            Ok::<_, OpenError>(member)
        });
        let member = opened.map_err(|error| FabricError::Broken(error.to_string()))?;
        let (ip, qpn) = (network.topology().host(host).ip, member.qpn());
        self.manager.get_or_insert(Remote { ip, qpn });
        network.set_multicaster(host, member);
        self.members.push(host);
        self.wait_for_member_lists(fabric)
    }

    /// Removes a host other than the manager. Returns when all members have the new list, and the host itself has left.
    pub fn leave(
        &mut self,
        fabric: &mut VirtualFabric,
        host: HostIndex,
    ) -> Result<(), FabricError> {
        let place = self.members.iter().position(|member| *member == host);
        let Some(place) = place.filter(|place| *place > 0) else {
            let why = "the first member is the manager, which cannot leave".to_owned();
            return Err(FabricError::Broken(why));
        };
        self.members.remove(place);
        fabric
            .network()
            .on_multicaster(host, |member, nic, now| member.leave(nic, now));
        self.wait_for_member_lists(fabric)?;
        fabric.leave_datagrams(self.config.group, &[host])
    }

    /// Runs the fabric until every member has the complete member list, and every other host has left.
    fn wait_for_member_lists(&self, fabric: &mut VirtualFabric) -> Result<(), FabricError> {
        let network = fabric.network();
        let deadline = network.now() + MEMBERSHIP_LIMIT;
        let is_known = |network: &crate::network::Network| {
            network.topology().host_indexes().all(|host| {
                let Some(member) = network.host(host).multicaster() else {
                    return true;
                };
                match self.members.contains(&host) {
                    true => member.members().len() == self.members.len(),
                    false => !member.is_member(),
                }
            })
        };
        while !is_known(network) {
            if network.step(deadline) == Step::Idle {
                let why = "the list of members did not reach every member in time";
                return Err(FabricError::Broken(why.to_owned()));
            }
        }
        Ok(())
    }

    /// Sends a message from one member to all others. Runs the fabric until all members have the message and this is
    /// reported to the root. Fails if that takes longer than `limit` nanoseconds, or if a member receives other bytes.
    pub fn broadcast(
        &self,
        fabric: &mut VirtualFabric,
        root: HostIndex,
        data: &Arc<[u8]>,
        limit: u64,
    ) -> Result<Broadcast, FabricError> {
        let network = fabric.network();
        let (start, name) = (network.now(), network.topology().name().to_owned());
        let late = || FabricError::Broken(format!("{name}: a broadcast did not complete in time"));
        network.broadcast(root, Arc::clone(data));
        let mut missing = self.members.len() - 1;
        let (mut completed, mut delivered) = (None, 0);
        while completed.is_none() || missing > 0 {
            if network.step(start + limit) == Step::Idle {
                return Err(late());
            }
            for host in &self.members {
                while let Some((at, event)) = network.next_multicast_event(*host) {
                    match event {
                        EndpointEvent::Completed { .. } if missing > 0 => {
                            let why =
                                "a broadcast completed at the root before all members had the data";
                            return Err(FabricError::Broken(why.to_owned()));
                        }
                        EndpointEvent::Completed { .. } => completed = Some(at - start),
                        EndpointEvent::Delivered { data: held, .. } if held == *data => {
                            missing -= 1;
                            delivered = at - start;
                        }
                        EndpointEvent::Delivered { .. } => {
                            let why = format!(
                                "host {} received other bytes than were sent",
                                network.topology().host(*host).name
                            );
                            return Err(FabricError::Broken(why));
                        }
                        EndpointEvent::Silent { .. } => {}
                        EndpointEvent::ManagerFailed => {
                            let why = format!(
                                "host {} no longer receives packets of the manager",
                                network.topology().host(*host).name
                            );
                            return Err(FabricError::Broken(why));
                        }
                    }
                }
            }
        }
        Ok(Broadcast {
            completed: completed.ok_or_else(late)?,
            delivered,
        })
    }
}
