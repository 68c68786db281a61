//! A [`Fabric`] in virtual time.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;

use alfirk_ctrl::controller::{ApiReply, ApiRequest, GroupInfo, RegisterGroup, Tag};
use alfirk_ctrl::topology::{End, HostIndex};
use alfirk_roce::collective::{Endpoint, Progress, TransferError, TransferSpec};
use alfirk_roce::host::HostTiming;
use alfirk_roce::rc::{PathMtu, RcConfig};

use super::fabric::{Fabric, FabricError, Traffic};
use crate::engine::Step;
use crate::network::{MemberEvent, Network};

/// Virtual nanoseconds that pipelines, routes and groups may take to be written.
const CONTROL_LIMIT: u64 = 60_000_000_000;

/// Virtual nanoseconds between two looks at the progress.
const TICK: u64 = 20_000;

/// A network in virtual time whose switches are ready.
pub struct VirtualFabric {
    network: Network,
    /// Events of transfers that nobody has asked for yet.
    events: VecDeque<(HostIndex, MemberEvent)>,
    next_tag: u64,
}

impl VirtualFabric {
    /// Runs `network` until every switch has its pipeline and routes.
    pub fn bring_up(network: Network) -> Result<VirtualFabric, FabricError> {
        let mut fabric = VirtualFabric {
            network,
            events: VecDeque::new(),
            next_tag: 1,
        };
        fabric.until("the switches are not ready", |reply| match reply {
            ApiReply::Ready => Some(Ok(())),
            ApiReply::SwitchFailed { error, .. } => Some(Err(error.into())),
            _ => None,
        })?;
        Ok(fabric)
    }

    /// The network, to look at and to meddle with.
    pub fn network(&mut self) -> &mut Network {
        &mut self.network
    }

    /// Runs until `pick` makes something of a reply of the controller.
    fn until<T>(
        &mut self,
        what: &str,
        mut pick: impl FnMut(ApiReply) -> Option<Result<T, FabricError>>,
    ) -> Result<T, FabricError> {
        let deadline = self.network.now().saturating_add(CONTROL_LIMIT);
        loop {
            while let Some(reply) = self.network.next_reply() {
                if let Some(result) = pick(reply) {
                    return result;
                }
            }
            match self.network.step(deadline) {
                Step::Idle => {
                    return Err(FabricError::Timeout {
                        what: what.to_string(),
                        seconds: CONTROL_LIMIT as f64 / 1e9,
                    })
                }
                Step::Notified => self.collect(),
                Step::Done => {}
            }
        }
    }

    /// Takes what transfers have to tell, in the order of the hosts.
    fn collect(&mut self) {
        let hosts = self.network.topology().host_indexes();
        for host in hosts {
            while let Some(event) = self.network.next_event(host) {
                self.events.push_back((host, event));
            }
        }
    }

    fn tag(&mut self) -> Tag {
        let tag = Tag(self.next_tag);
        self.next_tag += 1;
        tag
    }

    fn on_host<T>(
        &self,
        host: HostIndex,
        result: Result<T, TransferError>,
    ) -> Result<T, FabricError> {
        result.map_err(|error| FabricError::Host {
            host: self.network.topology().host(host).name.clone(),
            why: error.to_string(),
        })
    }
}

impl Fabric for VirtualFabric {
    fn register(&mut self, group: RegisterGroup) -> Result<GroupInfo, FabricError> {
        let tag = self.tag();
        self.network.ask(ApiRequest::Register { tag, group });
        self.until("the group is not registered", |reply| match reply {
            ApiReply::GroupReady { tag: of, group } if of == tag => Some(Ok(group)),
            ApiReply::Failed { tag: of, error } if of == tag => Some(Err(error.into())),
            _ => None,
        })
    }

    fn deregister(&mut self, mcst_id: Ipv4Addr) -> Result<(), FabricError> {
        let tag = self.tag();
        self.network.ask(ApiRequest::Deregister { tag, mcst_id });
        self.until("the group is not removed", |reply| match reply {
            ApiReply::GroupRemoved { tag: of, .. } if of == tag => Some(Ok(())),
            ApiReply::Failed { tag: of, error } if of == tag => Some(Err(error.into())),
            _ => None,
        })
    }

    fn prepare(
        &mut self,
        host: HostIndex,
        spec: TransferSpec,
    ) -> Result<Vec<Endpoint>, FabricError> {
        let prepared = self.network.prepare(host, spec);
        self.on_host(host, prepared)
    }

    fn connect(&mut self, host: HostIndex, peers: &[Endpoint]) -> Result<(), FabricError> {
        let connected = self.network.connect(host, peers);
        self.on_host(host, connected)
    }

    fn start(&mut self, host: HostIndex, data: &Arc<[u8]>) -> Result<u64, FabricError> {
        self.network.start(host, Arc::clone(data));
        Ok(self.network.now())
    }

    fn next_event(
        &mut self,
        deadline: u64,
    ) -> Result<Option<(HostIndex, MemberEvent)>, FabricError> {
        loop {
            if let Some(told) = self.events.pop_front() {
                return Ok(Some(told));
            }
            match self.network.step(deadline) {
                Step::Notified => self.collect(),
                Step::Done => {}
                Step::Idle => {
                    self.network.run_until(deadline);
                    return Ok(None);
                }
            }
        }
    }

    fn close(&mut self, host: HostIndex) -> Result<(), FabricError> {
        self.network.close(host);
        Ok(())
    }

    fn progress(&mut self, host: HostIndex) -> Result<Progress, FabricError> {
        let progress = self.network.host(host).progress();
        Ok(progress.unwrap_or(Progress { bytes: 0, total: 0 }))
    }

    fn traffic(&mut self, members: &[HostIndex]) -> Result<Traffic, FabricError> {
        let network = &self.network;
        let source = members[0];
        let mut traffic = Traffic::default();
        if let Some(link) = network.counters(End::host(source)) {
            traffic.source_tx_bytes = link.bytes;
        }
        for qp in network.host(source).host().qps() {
            traffic.source_payload_bytes += qp.stats().request_bytes_sent;
        }
        traffic.source_acks = network.host(source).acks_received();
        let mut dropped = 0;
        for (_, link) in network.directions() {
            traffic.wire_packets += link.frames;
            dropped += link.drops.total();
        }
        traffic.dropped_packets = Some(dropped);
        for &host in members {
            for qp in network.host(host).host().qps() {
                traffic.retransmissions += qp.stats().retransmissions;
            }
        }
        Ok(traffic)
    }

    fn now(&self) -> u64 {
        self.network.now()
    }

    fn tick(&self) -> u64 {
        TICK
    }

    fn rc(&self, mtu: PathMtu) -> RcConfig {
        RcConfig {
            ack_timeout: HostTiming::FAST.ack_timeout,
            ..RcConfig::new(mtu)
        }
    }
}
