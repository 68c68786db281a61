//! The trait [`Fabric`] for a network in virtual time.

use std::collections::{BTreeSet, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;

use alfirk_ctrl::controller::{ApiReply, ApiRequest, GroupInfo, MemberSpec, RegisterGroup, Tag};
use alfirk_ctrl::tables::Counts;
use alfirk_ctrl::topology::{End, HostIndex, LinkIndex};
use alfirk_experiment::{
    in_band, Fabric, FabricError, FlowControl, MemberEvent, News, PausedLink, Processing,
    SharedFabric, Traffic, TransferId, Victim,
};
use alfirk_roce::collective::{
    Endpoint, ExpectedData, LegCommand, LegReply, Progress, RequestTimes, Requests, Transfer,
    TransferError, TransferSpec,
};
use alfirk_roce::host::HostTiming;
use alfirk_roce::hostile::Target;
use alfirk_roce::rc::{PathMtu, RcConfig};
use alfirk_roce::registration::{LeaderEvent, LeaderTiming};
use alfirk_roce::wire::Psn;

use crate::engine::Step;
use crate::network::Network;

/// Timeout for writing pipelines, routes and groups, in virtual nanoseconds.
const CONTROL_LIMIT: u64 = 60_000_000_000;

/// Interval of progress checks, in virtual nanoseconds.
const TICK: u64 = 20_000;

/// Interval between comparisons of acknowledged and received data, in virtual nanoseconds: about eight packets of 1,024 bytes
/// at 100 Gbit/s.
const AUDIT_INTERVAL: u64 = 700;

/// Time without an acknowledgement after which a sender reports a stall, in virtual nanoseconds: several ACK timeouts.
const PATIENCE: u64 = 4_000_000;

/// Retransmission of a leader's packets: packets may be lost, and switches take a few control latencies to reply.
const LEADER_TIMING: LeaderTiming = LeaderTiming {
    interval: 5_000_000,
    attempts: 400,
};

/// A network in virtual time whose switches are ready.
pub struct VirtualFabric {
    network: Network,
    /// Events of transfers that were not yet returned to the caller, with transfer and host.
    events: VecDeque<(TransferId, HostIndex, MemberEvent)>,
    /// Replies of the controller that were not yet matched with a request.
    replies: VecDeque<ApiReply>,
    /// Actions of the controller on groups in use that were not yet returned to the caller.
    news: Vec<News>,
    next_tag: u64,
}

impl VirtualFabric {
    /// Runs `network` until every switch has its pipeline and routes.
    pub fn bring_up(network: Network) -> Result<VirtualFabric, FabricError> {
        let mut fabric = VirtualFabric {
            network,
            events: VecDeque::new(),
            replies: VecDeque::new(),
            news: Vec::new(),
            next_tag: 1,
        };
        fabric.until("the switches are not ready", |reply| match reply {
            ApiReply::Ready => Some(Ok(())),
            ApiReply::SwitchFailed { error, .. } => Some(Err(error.into())),
            _ => None,
        })?;
        Ok(fabric)
    }

    /// The network, for direct access.
    pub fn network(&mut self) -> &mut Network {
        &mut self.network
    }

    /// Adds a member to a group between two messages. Returns the member's initial PSN.
    pub fn join(&mut self, mcst_id: Ipv4Addr, member: MemberSpec) -> Result<Psn, FabricError> {
        let tag = self.tag();
        self.network.ask(ApiRequest::Join {
            tag,
            mcst_id,
            member,
        });
        self.until("the member has not joined the group", |reply| match reply {
            ApiReply::MemberJoined { tag: of, psn, .. } if of == tag => Some(Ok(psn)),
            ApiReply::Failed { tag: of, error } if of == tag => Some(Err(error.into())),
            _ => None,
        })
    }

    /// Removes members from a group.
    pub fn leave(&mut self, mcst_id: Ipv4Addr, members: Vec<Ipv4Addr>) -> Result<(), FabricError> {
        let tag = self.tag();
        self.network.ask(ApiRequest::Leave {
            tag,
            mcst_id,
            members,
        });
        self.until("the members have not left the group", |reply| match reply {
            ApiReply::MembersLeft { tag: of, .. } if of == tag => Some(Ok(())),
            ApiReply::Failed { tag: of, error } if of == tag => Some(Err(error.into())),
            _ => None,
        })
    }

    fn change_datagrams(
        &mut self,
        hosts: &[HostIndex],
        request: impl Fn(Tag, Ipv4Addr) -> ApiRequest,
    ) -> Result<(), FabricError> {
        let requests = hosts.iter().map(|&host| {
            let tag = self.tag();
            let ip = self.network.topology().host(host).ip;
            self.network.ask(request(tag, ip));
            tag
        });
        let mut waiting: BTreeSet<Tag> = requests.collect();
        if waiting.is_empty() {
            return Ok(());
        }
        self.until(
            "the datagram group has not been changed",
            |reply| match reply {
                ApiReply::DatagramGroup { tag, .. } => {
                    (waiting.remove(&tag) && waiting.is_empty()).then_some(Ok(()))
                }
                ApiReply::Failed { tag, error } if waiting.contains(&tag) => {
                    Some(Err(error.into()))
                }
                _ => None,
            },
        )
    }

    /// Runs until `pick` returns a value for a reply of the controller. `what`: the error if that does not happen in
    /// time.
    fn until<T>(
        &mut self,
        what: &str,
        mut pick: impl FnMut(ApiReply) -> Option<Result<T, FabricError>>,
    ) -> Result<T, FabricError> {
        let deadline = self.network.now().saturating_add(CONTROL_LIMIT);
        self.collect();
        loop {
            while let Some(reply) = self.replies.pop_front() {
                if let Some(result) = pick(reply) {
                    return result;
                }
            }
            match self.step(deadline)? {
                Step::Idle => return Err(timeout(what)),
                Step::Notified => self.collect(),
                Step::Done => {}
            }
        }
    }

    /// Handles the next event, unless the run was stopped.
    fn step(&mut self, deadline: u64) -> Result<Step, FabricError> {
        if self.network.is_stopped() {
            return Err(FabricError::Broken("the run was stopped".to_owned()));
        }
        Ok(self.network.step(deadline))
    }

    /// Runs until a leader reports the result of its request. `what`: the error if that does not happen in time.
    fn until_led(&mut self, leader: HostIndex, what: &str) -> Result<LeaderEvent, FabricError> {
        let deadline = self.network.now().saturating_add(CONTROL_LIMIT);
        loop {
            let of_leader = |(_, host, event): &(TransferId, HostIndex, MemberEvent)| {
                *host == leader && matches!(event, MemberEvent::Group(_))
            };
            let position = self.events.iter().position(of_leader);
            let event = position.and_then(|at| self.events.remove(at));
            if let Some((_, _, MemberEvent::Group(event))) = event {
                return Ok(event);
            }
            match self.step(deadline)? {
                Step::Idle => return Err(timeout(what)),
                Step::Notified => self.collect(),
                Step::Done => {}
            }
        }
    }

    /// Collects the events of transfers, in the order of the hosts, and the replies of the controller.
    fn collect(&mut self) {
        let at = self.network.now();
        while let Some(reply) = self.network.next_reply() {
            let (mcst_id, lost) = match reply {
                ApiReply::MembersLost { mcst_id, members } => (mcst_id, members),
                ApiReply::GroupRerouted { mcst_id } => (mcst_id, Vec::new()),
                other => {
                    self.replies.push_back(other);
                    continue;
                }
            };
            self.news.push(News { mcst_id, at, lost });
        }
        let telling: Vec<HostIndex> = self.network.take_notifying().collect();
        for host in telling {
            while let Some((id, event)) = self.network.next_event(host) {
                self.events.push_back((id, host, event));
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

fn timeout(what: &str) -> FabricError {
    FabricError::Timeout {
        what: what.to_string(),
        seconds: CONTROL_LIMIT as f64 / 1e9,
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

    fn register_in_band(
        &mut self,
        leader: HostIndex,
        group: RegisterGroup,
    ) -> Result<(), FabricError> {
        let (spec, nodes) = in_band::group(&group)?;
        for node in &nodes {
            let member = self.network.topology().host_with_ip(node.ip);
            let member = member.ok_or_else(|| in_band::not_a_host(node.ip))?;
            self.network.expect(member, node.qpn, spec.expected());
        }
        let led = self.network.lead(leader, spec, LEADER_TIMING, &nodes);
        led.map_err(|error| FabricError::Registration(error.to_string()))?;
        // The leader's first packets are sent at once.
        self.collect();
        in_band::registered(self.until_led(leader, "the group is not registered")?)
    }

    fn deregister_in_band(&mut self, leader: HostIndex) -> Result<(), FabricError> {
        self.network.dissolve(leader);
        loop {
            // Notifications of lost members may precede it.
            if self.until_led(leader, "the group is not removed")? == LeaderEvent::Deregistered {
                return Ok(());
            }
        }
    }

    fn join_datagrams(&mut self, group: Ipv4Addr, hosts: &[HostIndex]) -> Result<(), FabricError> {
        self.change_datagrams(hosts, |tag, host| ApiRequest::JoinDatagrams {
            tag,
            group,
            host,
        })
    }

    fn leave_datagrams(&mut self, group: Ipv4Addr, hosts: &[HostIndex]) -> Result<(), FabricError> {
        self.change_datagrams(hosts, |tag, host| ApiRequest::LeaveDatagrams {
            tag,
            group,
            host,
        })
    }

    fn stalled(&mut self, mcst_id: Ipv4Addr, source: Option<HostIndex>) -> Result<(), FabricError> {
        match source {
            Some(source) => self.network.stalled(source, mcst_id),
            None => {
                let tag = self.tag();
                self.network.ask(ApiRequest::Suspect { tag, mcst_id });
            }
        }
        Ok(())
    }

    fn news(&mut self) -> Result<Vec<News>, FabricError> {
        Ok(std::mem::take(&mut self.news))
    }

    fn turn_hostile(
        &mut self,
        host: HostIndex,
        target: Target,
        seed: u64,
    ) -> Result<(), FabricError> {
        self.network.turn_hostile(host, target, seed);
        Ok(())
    }

    fn kill(&mut self, victim: Victim) -> Result<(), FabricError> {
        match victim {
            Victim::Host(host) => self.network.kill_host(host),
            Victim::Switch(switch) => self.network.kill_switch(switch),
            Victim::Link(link) => self.network.set_link_up(link, false),
        }
        Ok(())
    }

    fn prepare(
        &mut self,
        host: HostIndex,
        spec: TransferSpec,
    ) -> Result<Vec<Endpoint>, FabricError> {
        self.prepare_of(TransferId::MAIN, host, spec)
    }

    fn connect(&mut self, host: HostIndex, peers: &[Endpoint]) -> Result<(), FabricError> {
        self.connect_of(TransferId::MAIN, host, peers)
    }

    fn start(&mut self, host: HostIndex, data: &Arc<ExpectedData>) -> Result<u64, FabricError> {
        self.start_of(TransferId::MAIN, host, data)
    }

    fn next_event(
        &mut self,
        deadline: u64,
    ) -> Result<Option<(HostIndex, MemberEvent)>, FabricError> {
        let next = self.next_event_of_any(deadline)?;
        Ok(next.map(|(_, host, event)| (host, event)))
    }

    fn close(&mut self, host: HostIndex) -> Result<(), FabricError> {
        self.close_of(TransferId::MAIN, host)
    }

    fn act(&mut self, host: HostIndex, verb: LegCommand) -> Result<LegReply, FabricError> {
        self.act_of(TransferId::MAIN, host, verb)
    }

    fn request_times(&mut self, source: HostIndex) -> Result<Option<RequestTimes>, FabricError> {
        let requests = self.requests_of(TransferId::MAIN, source);
        Ok(requests.and_then(Requests::times))
    }

    fn held(&mut self, host: HostIndex) -> Result<u32, FabricError> {
        let transfer = self.network.host(host).transfer(TransferId::MAIN);
        Ok(transfer.map_or(0, Transfer::held))
    }

    fn suspend(&mut self, host: HostIndex, lasts: u64) -> Result<(), FabricError> {
        self.network.suspend_host(host, lasts);
        Ok(())
    }

    fn set_loss(&mut self, link: LinkIndex, loss: Option<f64>) -> Result<(), FabricError> {
        let set = self.network.set_loss(link, loss);
        set.map_err(|error| FabricError::Broken(error.to_string()))
    }

    fn progress(&mut self, host: HostIndex) -> Result<Progress, FabricError> {
        Ok(self.progress_of(TransferId::MAIN, host))
    }

    fn acknowledged(&mut self, host: HostIndex) -> Result<u64, FabricError> {
        let qps = self.network.host(host).host().qps();
        Ok(qps.map(|qp| qp.stats().requests_acknowledged).sum())
    }

    fn received(&mut self, host: HostIndex) -> Result<Option<u64>, FabricError> {
        let qps = self.network.host(host).host().qps();
        Ok(Some(qps.map(|qp| qp.stats().requests_received).sum()))
    }

    fn traffic(&mut self, members: &[HostIndex], sources: usize) -> Result<Traffic, FabricError> {
        let network = &self.network;
        let mut traffic = Traffic::default();
        let transfers = |host| network.host(host).transfers();
        let datagrams = |host| transfers(host).filter_map(Transfer::datagram_stats);
        for &source in &members[..sources] {
            if let Some(link) = network.counters(End::host(source)) {
                traffic.source_tx_bytes += link.bytes;
            }
            for qp in network.host(source).host().qps() {
                traffic.source_payload_bytes += qp.stats().request_bytes_sent;
                traffic.source_cnps += qp.stats().cnps_received;
            }
            traffic.source_acks += network.host(source).acks_received();
            for datagrams in datagrams(source) {
                traffic.source_payload_bytes += datagrams.request_bytes_sent;
                traffic.source_acks += datagrams.acks_received;
            }
        }
        let mut dropped = 0;
        for (_, link) in network.directions() {
            traffic.wire_packets += link.frames;
            dropped += link.drops.total();
        }
        traffic.dropped_packets = Some(dropped);
        for &host in members {
            for qp in network.host(host).host().qps() {
                traffic.retransmissions += qp.stats().retransmissions;
                traffic.marked += qp.stats().marked_received;
                traffic.cnps_sent += qp.stats().cnps_sent;
            }
            for datagrams in datagrams(host) {
                traffic.retransmissions += datagrams.retransmissions;
            }
            let node = network.host(host);
            if !node.is_hostile() {
                traffic.implausible += node.host().stats().implausible();
            }
        }
        Ok(traffic)
    }

    fn flow_control(&mut self) -> Result<Option<FlowControl>, FabricError> {
        if self.network.topology().switching().pfc.is_none() {
            return Ok(None);
        }
        let mut all = FlowControl::default();
        let directions: Vec<_> = self.network.directions().collect();
        // Both directions of a link are adjacent. PAUSE frames in one direction stop the other.
        for pair in directions.chunks_exact(2) {
            for (way, back) in [(&pair[0], &pair[1]), (&pair[1], &pair[0])] {
                let (pauses, paused_ns) = (back.1.pauses, way.1.paused_ns);
                all.pauses += pauses;
                all.paused_ns += paused_ns;
                if pauses > 0 {
                    all.links.push(PausedLink {
                        link: way.0.to_string(),
                        pauses,
                        paused_ns,
                    });
                }
            }
        }
        Ok(Some(all))
    }

    fn counts(&mut self) -> Result<Counts, FabricError> {
        let tag = self.tag();
        self.network.ask(ApiRequest::Count { tag });
        self.until(
            "the switches' counters have not been read",
            |reply| match reply {
                ApiReply::Counted { tag: of, counts } if of == tag => Some(Ok(counts)),
                _ => None,
            },
        )
    }

    fn control_round_trip(&mut self) -> Result<u64, FabricError> {
        let tag = self.tag();
        self.network.ask(ApiRequest::Status { tag });
        let report = self.until(
            "the controller does not report its status",
            |reply| match reply {
                ApiReply::Status { tag: of, report } if of == tag => Some(Ok(report)),
                _ => None,
            },
        )?;
        Ok(report.round_trip_ns())
    }

    fn now(&self) -> u64 {
        self.network.now()
    }

    fn tick(&self) -> u64 {
        TICK
    }

    fn audit_interval(&self) -> u64 {
        AUDIT_INTERVAL
    }

    fn stall_timeout(&self) -> u64 {
        PATIENCE
    }

    fn processing(&self) -> Option<Processing> {
        let model = self.network.model();
        Some(Processing {
            switch_ns: model.pipeline_latency,
            host_ns: 2 * model.nic_delay + model.post_delay + model.completion_delay,
        })
    }

    fn rc(&self, mtu: PathMtu) -> RcConfig {
        RcConfig {
            ack_timeout: HostTiming::FAST.ack_timeout,
            ..RcConfig::new(mtu)
        }
    }
}

impl SharedFabric for VirtualFabric {
    fn prepare_of(
        &mut self,
        id: TransferId,
        host: HostIndex,
        spec: TransferSpec,
    ) -> Result<Vec<Endpoint>, FabricError> {
        let prepared = self.network.prepare(id, host, spec);
        self.on_host(host, prepared)
    }

    fn connect_of(
        &mut self,
        id: TransferId,
        host: HostIndex,
        peers: &[Endpoint],
    ) -> Result<(), FabricError> {
        let connected = self.network.connect(id, host, peers);
        // A leg without connections is ready at once.
        self.collect();
        self.on_host(host, connected)
    }

    fn start_of(
        &mut self,
        id: TransferId,
        host: HostIndex,
        data: &Arc<ExpectedData>,
    ) -> Result<u64, FabricError> {
        self.network.start(id, host, data);
        Ok(self.network.now())
    }

    fn act_of(
        &mut self,
        id: TransferId,
        host: HostIndex,
        verb: LegCommand,
    ) -> Result<LegReply, FabricError> {
        let acted = self.network.act(id, host, verb).ok_or_else(|| {
            let host = self.network.topology().host(host).name.clone();
            let why = "there is no transfer: prepare it first".to_string();
            FabricError::Host { host, why }
        })?;
        self.collect();
        self.on_host(host, acted)
    }

    fn next_event_of_any(
        &mut self,
        deadline: u64,
    ) -> Result<Option<(TransferId, HostIndex, MemberEvent)>, FabricError> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            match self.step(deadline)? {
                Step::Notified => self.collect(),
                Step::Done => {}
                Step::Idle => {
                    self.network.run_until(deadline);
                    return Ok(None);
                }
            }
        }
    }

    fn requests_of(&self, id: TransferId, source: HostIndex) -> Option<&Requests> {
        self.network.host(source).transfer(id)?.requests()
    }

    fn progress_of(&self, id: TransferId, host: HostIndex) -> Progress {
        let progress = self.network.host(host).progress(id);
        progress.unwrap_or(Progress { bytes: 0, total: 0 })
    }

    fn close_of(&mut self, id: TransferId, host: HostIndex) -> Result<(), FabricError> {
        self.network.close(id, host);
        Ok(())
    }
}
