//! Multicast by datagrams that are acknowledged up a binomial tree, on a fabric in virtual time.

use std::net::Ipv4Addr;
use std::sync::Arc;

use alfirk_ctrl::topology::HostIndex;
use alfirk_experiment::{Fabric, FabricError};
use alfirk_roce::binomial_ack::{
    Config, Connections, Endpoint, EndpointConfig, EndpointEvent, Manager, Membership,
};
use alfirk_roce::rc::PathMtu;

use crate::engine::Step;
use crate::fabric::VirtualFabric;

/// The members of one group, and their manager.
///
/// The manager's lists reach the members at once, which stands for a control network of its own.
pub struct DatagramGroup {
    manager: Manager,
    config: EndpointConfig,
    /// Host and communication number.
    members: Vec<(HostIndex, u32)>,
}

/// One broadcast.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broadcast {
    /// Nanoseconds from the post until the root's application knew that all have it.
    pub completed: u64,
    /// Nanoseconds from the post until the last receiver's application had it.
    pub delivered: u64,
}

impl DatagramGroup {
    /// A group without members.
    pub fn new(
        group: Ipv4Addr,
        mtu: PathMtu,
        connections: Connections,
        fabric: &VirtualFabric,
    ) -> Self {
        let node = Config {
            mtu,
            max_message: 1 << 20,
            // Some ten ways up one level, a connection's making included.
            cycle_timeout: 100_000,
            segment_time: 2_000,
            attempts: 8,
        };
        DatagramGroup {
            manager: Manager::new(),
            config: EndpointConfig {
                node,
                group,
                qkey: 0x0a1f_014b,
                rc: fabric.rc(mtu, 100_000_000_000, 0),
                connections,
                connect_interval: 200_000,
            },
            members: Vec::new(),
        }
    }

    /// Has a host join: the fabric's group first, then the list of the manager.
    pub fn join(&mut self, fabric: &mut VirtualFabric, host: HostIndex) -> Result<(), FabricError> {
        let ip = fabric.network().topology().host(host).ip;
        fabric.join_datagrams(self.config.group, ip)?;
        let config = self.config;
        let network = fabric.network();
        let broken = |error: &dyn std::fmt::Display| FabricError::Broken(error.to_string());
        let opened = network.on_nic(host, |nic, _| Endpoint::open(nic, &config));
        let qpn = opened.map_err(|error| broken(&error))?;
        let (number, list) = self.manager.join(ip, qpn).map_err(|error| broken(&error))?;
        let made = network.on_nic(host, |nic, _| Endpoint::new(nic, config, number, qpn));
        network.set_multicaster(host, made.map_err(|error| broken(&error))?);
        self.members.push((host, number));
        self.publish(fabric, &list);
        Ok(())
    }

    /// Has a host leave.
    pub fn leave(
        &mut self,
        fabric: &mut VirtualFabric,
        host: HostIndex,
    ) -> Result<(), FabricError> {
        let ip = fabric.network().topology().host(host).ip;
        let place = self.members.iter().position(|(member, _)| *member == host);
        let Some(place) = place else {
            return Ok(());
        };
        let (_, number) = self.members.remove(place);
        let list = self.manager.leave(number);
        let list = list.map_err(|error| FabricError::Broken(error.to_string()))?;
        self.publish(fabric, &list);
        fabric.leave_datagrams(self.config.group, ip)
    }

    fn publish(&self, fabric: &mut VirtualFabric, list: &Membership) {
        for (host, _) in &self.members {
            fabric.network().on_multicaster(*host, |member, nic, now| {
                member.handle_membership(nic, now, list.clone());
            });
        }
    }

    /// Sends a message from a member to all others, and runs until its broadcast may return; fails when that takes longer than
    /// `limit` nanoseconds, or when somebody holds other bytes.
    pub fn broadcast(
        &self,
        fabric: &mut VirtualFabric,
        root: HostIndex,
        data: &Arc<[u8]>,
        limit: u64,
    ) -> Result<Broadcast, FabricError> {
        let network = fabric.network();
        let (start, name) = (network.now(), network.topology().name().to_owned());
        let late = || FabricError::Broken(format!("{name}: a broadcast is not over in time"));
        network.broadcast(root, Arc::clone(data));
        let mut missing = self.members.len() - 1;
        let (mut completed, mut delivered) = (None, 0);
        while completed.is_none() || missing > 0 {
            if network.step(start + limit) == Step::Idle {
                return Err(late());
            }
            for (host, _) in &self.members {
                while let Some((at, event)) = network.next_multicast_event(*host) {
                    match event {
                        EndpointEvent::Completed { .. } if missing > 0 => {
                            let why = "a broadcast returned before all had the data";
                            return Err(FabricError::Broken(why.to_owned()));
                        }
                        EndpointEvent::Completed { .. } => completed = Some(at - start),
                        EndpointEvent::Delivered { data: held, .. } if held == *data => {
                            missing -= 1;
                            delivered = at - start;
                        }
                        EndpointEvent::Delivered { .. } => {
                            let why = format!("{host:?} holds other bytes");
                            return Err(FabricError::Broken(why));
                        }
                        EndpointEvent::Silent { .. } => {}
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
