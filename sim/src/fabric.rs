//! Implementation of the trait [`Fabric`] for a network in virtual time.

use std::collections::{BTreeSet, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;

use alfirk_ctrl::controller::{ApiReply, ApiRequest, GroupInfo, MemberSpec, RegisterGroup, Tag};
use alfirk_ctrl::tables::Counts;
use alfirk_ctrl::topology::{End, HostIndex, LinkIndex};
use alfirk_experiment::{
    in_band, Fabric, FabricError, FlowControl, GroupChange, MemberEvent, PausedLink,
    ProcessingTimes, SharedFabric, Traffic, TransferId, Victim,
};
use alfirk_roce::application::CommandError;
use alfirk_roce::collective::{
    Endpoint, ExpectedData, LegCommand, LegReply, Progress, RequestLatencies, RequestTimes,
    Transfer, TransferSpec,
};
use alfirk_roce::host::HostTiming;
use alfirk_roce::hostile::Target;
use alfirk_roce::rc::{PathMtu, QueuePair, RcConfig};
use alfirk_roce::registration::{LeaderEvent, LeaderTiming};
use alfirk_roce::wire::Psn;

use crate::engine::Step;
use crate::network::{Network, Pass};

/// Time limit for writing pipelines, routes and groups, in virtual nanoseconds.
const CONTROL_LIMIT: u64 = 60_000_000_000;

/// Interval of progress checks ([`Fabric::tick`]), in virtual nanoseconds.
const TICK: u64 = 20_000;

/// Interval between audits, which compare acknowledged with received data, in virtual nanoseconds. It is about the time
/// of eight packets of 1,024 bytes at 100 Gbit/s.
const AUDIT_INTERVAL: u64 = 700;

/// Time without an acknowledgement after which a sender reports a stall, in virtual nanoseconds. It is several ACK
/// timeouts.
const STALL_TIMEOUT: u64 = 4_000_000;

/// Retransmission times of a leader's registration packets, which may be lost. Switches take a few control latencies to
/// reply.
const LEADER_TIMING: LeaderTiming = LeaderTiming {
    interval: 5_000_000,
    attempts: 400,
};

/// A network in virtual time, all of whose switches are ready.
pub struct VirtualFabric {
    network: Network,
    /// Events of transfers that the caller has not fetched yet, each with its transfer and host.
    events: VecDeque<(TransferId, HostIndex, MemberEvent)>,
    /// Replies of the controller that are not matched with a request yet.
    replies: VecDeque<ApiReply>,
    /// Changes that the controller has made to groups in use and that the caller has not fetched yet.
    group_changes: Vec<GroupChange>,
    next_tag: u64,
    /// Takes the passes of packets through switches after each step, with the network; `None` without a debugger.
    on_passes: Option<TakePasses>,
}

/// Takes the recorded passes of packets through switches, and may read the network at their time. The network waits for its
/// return.
pub type TakePasses = Box<dyn FnMut(Vec<Pass>, &Network)>;

impl VirtualFabric {
    /// Runs `network` until every switch has its pipeline and routes, and returns it as a fabric.
    pub fn bring_up(network: Network) -> Result<VirtualFabric, FabricError> {
        VirtualFabric::bring_up_recorded(network, None)
    }

    /// As [`VirtualFabric::bring_up`], with a function for the passes that the network records
    /// ([`Network::build_recorded`]).
    pub fn bring_up_recorded(
        network: Network,
        on_passes: Option<TakePasses>,
    ) -> Result<VirtualFabric, FabricError> {
        let mut fabric = VirtualFabric {
            network,
            events: VecDeque::new(),
            replies: VecDeque::new(),
            group_changes: Vec::new(),
            next_tag: 1,
            on_passes,
        };
        fabric.wait_for_reply("the switches are not ready", |reply| match reply {
            ApiReply::Ready => Some(Ok(())),
            ApiReply::SwitchFailed { error, .. } => Some(Err(error.into())),
            _ => None,
        })?;
        Ok(fabric)
    }

    /// Returns the network for direct access.
    pub fn network(&mut self) -> &mut Network {
        &mut self.network
    }

    /// Adds a member to a group between two messages. Returns the member's initial PSN.
    pub fn join(&mut self, mcst_id: Ipv4Addr, member: MemberSpec) -> Result<Psn, FabricError> {
        let (tag, ip) = (self.tag(), member.ip);
        self.network.send_request(ApiRequest::Join {
            tag,
            mcst_id,
            member,
        });
        let what = format!("member {ip} has not joined group {mcst_id}");
        self.wait_for_reply(&what, |reply| match reply {
            ApiReply::MemberJoined { tag: of, psn, .. } if of == tag => Some(Ok(psn)),
            ApiReply::Failed { tag: of, error } if of == tag => Some(Err(error.into())),
            _ => None,
        })
    }

    /// Removes members from a group.
    pub fn leave(&mut self, mcst_id: Ipv4Addr, members: Vec<Ipv4Addr>) -> Result<(), FabricError> {
        let tag = self.tag();
        let what = format!("members {members:?} have not left group {mcst_id}");
        self.network.send_request(ApiRequest::Leave {
            tag,
            mcst_id,
            members,
        });
        self.wait_for_reply(&what, |reply| match reply {
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
            self.network.send_request(request(tag, ip));
            tag
        });
        let mut waiting: BTreeSet<Tag> = requests.collect();
        if waiting.is_empty() {
            return Ok(());
        }
        self.wait_for_reply(
            "the members of the datagram group are not changed",
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

    /// Runs the network until `pick` returns a value for a reply of the controller. `what`: description for the error
    /// if that does not happen in time.
    fn wait_for_reply<T>(
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
        self.step_or_skip(deadline, deadline)
    }

    /// Handles the next event, unless the run was stopped. Skips a steady state until `latest`, in nanoseconds.
    fn step_or_skip(&mut self, deadline: u64, latest: u64) -> Result<Step, FabricError> {
        if self.network.is_stopped() {
            return Err(FabricError::Broken("the run was stopped".to_owned()));
        }
        let step = self.network.step_or_skip(deadline, latest);
        if let Some(on_passes) = &mut self.on_passes {
            let passes = self.network.take_passes();
            if !passes.is_empty() {
                on_passes(passes, &self.network);
            }
        }
        Ok(step)
    }

    /// Runs the network until a group's leader reports the result of its in-band request. `what`: description for the
    /// error if that does not happen in time.
    fn wait_for_leader(
        &mut self,
        leader: HostIndex,
        what: &str,
    ) -> Result<LeaderEvent, FabricError> {
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

    /// Moves the events of transfers, in the order of the hosts, and the replies of the controller from the network to
    /// this fabric.
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
            self.group_changes.push(GroupChange { mcst_id, at, lost });
        }
        let notifying: Vec<HostIndex> = self.network.take_notifying().collect();
        for host in notifying {
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
        result: Result<T, CommandError>,
    ) -> Result<T, FabricError> {
        result.map_err(|error| FabricError::Host {
            host: self.network.topology().host(host).name.clone(),
            why: error.to_string(),
        })
    }
}

/// Returns the description of a group that is not registered, for a timeout error.
fn not_registered(mcst_id: Option<Ipv4Addr>) -> String {
    match mcst_id {
        Some(mcst_id) => format!("group {mcst_id} is not registered"),
        None => "the group is not registered".to_string(),
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
        let what = not_registered(group.mcst_id);
        self.network
            .send_request(ApiRequest::Register { tag, group });
        self.wait_for_reply(&what, |reply| match reply {
            ApiReply::GroupReady { tag: of, group } if of == tag => Some(Ok(group)),
            ApiReply::Failed { tag: of, error } if of == tag => Some(Err(error.into())),
            _ => None,
        })
    }

    fn deregister(&mut self, mcst_id: Ipv4Addr) -> Result<(), FabricError> {
        let tag = self.tag();
        self.network
            .send_request(ApiRequest::Deregister { tag, mcst_id });
        self.wait_for_reply(
            &format!("group {mcst_id} is not removed"),
            |reply| match reply {
                ApiReply::GroupRemoved { tag: of, .. } if of == tag => Some(Ok(())),
                ApiReply::Failed { tag: of, error } if of == tag => Some(Err(error.into())),
                _ => None,
            },
        )
    }

    fn register_in_band(
        &mut self,
        leader: HostIndex,
        group: RegisterGroup,
    ) -> Result<(), FabricError> {
        let (spec, nodes) = in_band::leader_request(&group)?;
        let what = not_registered(group.mcst_id);
        for node in &nodes {
            let member = self.network.topology().host_with_ip(node.ip);
            let member = member.ok_or_else(|| in_band::not_a_host(node.ip))?;
            self.network
                .allow_registration(member, node.qpn, spec.expected());
        }
        let led = self
            .network
            .register_in_band(leader, spec, LEADER_TIMING, &nodes);
        led.map_err(|error| FabricError::Registration(error.to_string()))?;
        // The leader's first packets are sent at once.
        self.collect();
        in_band::registration_result(self.wait_for_leader(leader, &what)?)
    }

    fn deregister_in_band(&mut self, leader: HostIndex) -> Result<(), FabricError> {
        self.network.deregister_in_band(leader);
        let name = &self.network.topology().host(leader).name;
        let what = format!("the group that {name} leads is not removed");
        loop {
            // Notifications of lost members may precede it.
            if self.wait_for_leader(leader, &what)? == LeaderEvent::Deregistered {
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

    fn report_stall(
        &mut self,
        mcst_id: Ipv4Addr,
        source: Option<HostIndex>,
    ) -> Result<(), FabricError> {
        match source {
            Some(source) => self.network.report_stall(source, mcst_id),
            None => {
                let tag = self.tag();
                self.network
                    .send_request(ApiRequest::Suspect { tag, mcst_id });
            }
        }
        Ok(())
    }

    fn take_group_changes(&mut self) -> Result<Vec<GroupChange>, FabricError> {
        Ok(std::mem::take(&mut self.group_changes))
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
        self.prepare_transfer(TransferId::MAIN, host, spec)
    }

    fn connect(&mut self, host: HostIndex, peers: &[Endpoint]) -> Result<(), FabricError> {
        self.connect_transfer(TransferId::MAIN, host, peers)
    }

    fn start(&mut self, host: HostIndex, data: &Arc<ExpectedData>) -> Result<u64, FabricError> {
        self.start_transfer(TransferId::MAIN, host, data)
    }

    fn next_event(
        &mut self,
        deadline: u64,
    ) -> Result<Option<(HostIndex, MemberEvent)>, FabricError> {
        let next = self.next_transfer_event(deadline)?;
        Ok(next.map(|(_, host, event)| (host, event)))
    }

    fn next_event_by_intervals(
        &mut self,
        deadline: u64,
        interval: u64,
        latest: u64,
    ) -> Result<Option<(HostIndex, MemberEvent)>, FabricError> {
        let next = self.next_transfer_event_by_intervals(deadline, interval, latest)?;
        Ok(next.map(|(_, host, event)| (host, event)))
    }

    fn close(&mut self, host: HostIndex) -> Result<(), FabricError> {
        self.close_transfer(TransferId::MAIN, host)
    }

    fn execute_leg_command(
        &mut self,
        host: HostIndex,
        command: LegCommand,
    ) -> Result<LegReply, FabricError> {
        self.execute_in_transfer(TransferId::MAIN, host, command)
    }

    fn request_times(&mut self, source: HostIndex) -> Result<Option<RequestTimes>, FabricError> {
        let requests = self.transfer_requests(TransferId::MAIN, source);
        Ok(requests.and_then(RequestLatencies::times))
    }

    fn held_slices(&mut self, host: HostIndex) -> Result<u32, FabricError> {
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
        Ok(self.transfer_progress(TransferId::MAIN, host))
    }

    fn acknowledged_packets(&mut self, host: HostIndex) -> Result<u64, FabricError> {
        let qps = self.network.host(host).host().qps();
        Ok(qps.map(|qp| qp.stats().requests_acknowledged).sum())
    }

    fn last_acknowledged_at(&mut self, host: HostIndex) -> Result<Option<u64>, FabricError> {
        let qps = self.network.host(host).host().qps();
        Ok(qps.map(QueuePair::last_acknowledged_at).max())
    }

    fn received_packets(&mut self, host: HostIndex) -> Result<Option<u64>, FabricError> {
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
        self.network.send_request(ApiRequest::Count { tag });
        self.wait_for_reply(
            "the switches' counters have not been read",
            |reply| match reply {
                ApiReply::Counted { tag: of, counts } if of == tag => Some(Ok(counts)),
                _ => None,
            },
        )
    }

    fn control_round_trip(&mut self) -> Result<u64, FabricError> {
        let tag = self.tag();
        self.network.send_request(ApiRequest::Status { tag });
        let report =
            self.wait_for_reply(
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
        STALL_TIMEOUT
    }

    fn processing(&self) -> Option<ProcessingTimes> {
        let model = self.network.model();
        Some(ProcessingTimes {
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
    fn prepare_transfer(
        &mut self,
        id: TransferId,
        host: HostIndex,
        spec: TransferSpec,
    ) -> Result<Vec<Endpoint>, FabricError> {
        let prepared = self.network.prepare(id, host, spec);
        self.on_host(host, prepared)
    }

    fn connect_transfer(
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

    fn start_transfer(
        &mut self,
        id: TransferId,
        host: HostIndex,
        data: &Arc<ExpectedData>,
    ) -> Result<u64, FabricError> {
        self.network.start(id, host, data);
        Ok(self.network.now())
    }

    fn execute_in_transfer(
        &mut self,
        id: TransferId,
        host: HostIndex,
        command: LegCommand,
    ) -> Result<LegReply, FabricError> {
        let acted = self.network.execute_leg_command(id, host, command);
        self.collect();
        self.on_host(host, acted)
    }

    fn next_transfer_event(
        &mut self,
        deadline: u64,
    ) -> Result<Option<(TransferId, HostIndex, MemberEvent)>, FabricError> {
        self.next_transfer_event_by_intervals(deadline, 0, deadline)
    }

    fn next_transfer_event_by_intervals(
        &mut self,
        mut deadline: u64,
        interval: u64,
        latest: u64,
    ) -> Result<Option<(TransferId, HostIndex, MemberEvent)>, FabricError> {
        // The last interval must end by `latest`, too.
        let intervals = latest.saturating_sub(deadline).checked_div(interval);
        let latest = deadline + intervals.unwrap_or(0) * interval;
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            let step = self.step_or_skip(deadline, latest)?;
            let late = self.network.now().saturating_sub(deadline);
            deadline += late.div_ceil(interval.max(1)) * interval;
            match step {
                Step::Notified => self.collect(),
                Step::Done => {}
                Step::Idle => {
                    self.network.run_until(deadline);
                    return Ok(None);
                }
            }
        }
    }

    fn transfer_requests(&self, id: TransferId, source: HostIndex) -> Option<&RequestLatencies> {
        self.network.host(source).transfer(id)?.request_latencies()
    }

    fn transfer_progress(&self, id: TransferId, host: HostIndex) -> Progress {
        let progress = self.network.host(host).progress(id);
        progress.unwrap_or(Progress { bytes: 0, total: 0 })
    }

    fn close_transfer(&mut self, id: TransferId, host: HostIndex) -> Result<(), FabricError> {
        self.network.close(id, host);
        Ok(())
    }
}
