//! Implements [`Fabric`] on a Mininet network: switches and hosts are processes, the controller runs in this process.

mod hosts;
mod start;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use alfirk_ctrl::client::{GroupNotification, Handle};
use alfirk_ctrl::controller::{GroupInfo, RegisterGroup};
use alfirk_ctrl::tables::Counts;
use alfirk_ctrl::topology::{HostIndex, LinkIndex, Node, SwitchIndex, Topology};
use alfirk_experiment::{
    in_band, Fabric, FabricError, GroupChange, MachineSummary, MachinesSummary, MemberEvent,
    ProcessingTimes, Traffic, Victim,
};
use alfirk_packet_io::Clock;
use alfirk_roce::collective::{
    Endpoint, ExpectedData, LegCommand, LegReply, Progress, RequestTimes, TransferSpec,
};
use alfirk_roce::host::HostTiming;
use alfirk_roce::hostile::Target;
use alfirk_roce::rc::{MsnRule, PathMtu, RcConfig};
use alfirk_roce::registration::LeaderEvent;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::UnboundedReceiver;

use self::start::NetworkGuard;
use super::load::Counters;
use super::namespace::Namespace;
use super::network::Network;
use crate::host::client::HostClient;
use crate::host::protocol::{Reply, Request};
use crate::run::progress::Runs;

/// Assumed times of switches and hosts to process a packet, on the network's clock, if links have rates. That clock is
/// so slow that real processing is shorter.
const PROCESSING: ProcessingTimes = ProcessingTimes {
    switch_ns: 2_000,
    host_ns: 10_000,
};

/// Time limit for operations on groups: registration, removal, membership and counters.
const GROUP_LIMIT: Duration = Duration::from_secs(60);

/// A running Mininet network: its processes, the controller in this process, and a connection to each host.
///
/// Fields are dropped in the order of declaration, so that connections to the network end before the network.
pub struct MininetFabric {
    hosts: Vec<HostClient>,
    /// Hosts that were killed during the run; they receive no more requests.
    killed: BTreeSet<HostIndex>,
    /// Hosts that send hostile packets until their transfer is closed.
    hostile: BTreeSet<HostIndex>,
    /// Clock offset of each guest, and of each host on another machine: nanoseconds by which this machine's clock is
    /// ahead.
    clock_offsets: BTreeMap<HostIndex, i64>,
    /// Largest error of a measured clock offset in nanoseconds.
    clock_error: u64,
    /// Whether guests use Linux's RDMA stack, which does not count the packets of a queue pair.
    linux_rdma: bool,
    /// The controller; `None` if the network and its controller belong to another program.
    controller: Option<Handle>,
    /// Receives the controller's notices about groups: lost members and rerouted trees.
    news: UnboundedReceiver<GroupNotification>,
    runtime: Runtime,
    network: Box<dyn Network>,
    /// Network namespace of switches and controller; `None` if it is that of this process.
    _namespace: Option<Namespace>,
    /// State of the running command, shared with its display of progress and its signal handler. A received signal
    /// interrupts the waits of this fabric.
    runs: Arc<Runs>,
    /// Registers the network for removal by force if this process ends early. Dropped after the network.
    _guard: NetworkGuard,
    /// The machines, and the number of links between them; `None` for a network on one machine.
    machines: Option<(Vec<MachineSummary>, usize)>,
    /// Clock of hosts, switches and the controller.
    clock: Clock,
    /// Whether links have the rates and delays of the topology.
    has_rates: bool,
    topology: Topology,
    /// Number of the current transfer, the same at all hosts.
    transfer: u32,
    /// Index of the host whose events are polled first. It advances at each poll, so that every host is served.
    next_polled_host: usize,
    /// Events of transfers that arrived during a wait for the reply of a group's leader. They are returned by later
    /// calls.
    deferred_events: VecDeque<(HostIndex, MemberEvent)>,
    /// By number of the machine: the message that is stored there, and the path of its file.
    messages: BTreeMap<usize, (Arc<ExpectedData>, PathBuf)>,
}

impl MininetFabric {
    /// Waits for the operation `work` of the controller; a failure of the network ends the wait. `what`: message of a
    /// timeout.
    fn wait_for<T: Send + 'static>(
        &mut self,
        work: impl Future<Output = T> + Send + 'static,
        what: &str,
        limit: Duration,
    ) -> Result<T, FabricError> {
        let work = self.runtime.spawn(work);
        let deadline = Instant::now() + limit;
        while !work.is_finished() {
            if Instant::now() > deadline {
                return Err(FabricError::Timeout {
                    what: what.to_string(),
                    seconds: limit.as_secs_f64(),
                });
            }
            self.wait_for_input(Duration::from_millis(2), false)?;
        }
        self.runtime
            .block_on(work)
            .map_err(|error| FabricError::Broken(format!("the controller failed: {error}")))
    }

    /// Waits at most `limit` for output of the network, for a signal or, if `hosts` is true, for an event of a host.
    /// Returns an error if the network has failed or a signal has arrived.
    fn wait_for_input(&mut self, limit: Duration, hosts: bool) -> Result<(), FabricError> {
        let network = {
            let network = self.network.fds().into_iter();
            let sources = network
                .chain(
                    self.alive_hosts()
                        .filter(|_| hosts)
                        .map(|host| host.as_fd()),
                )
                .chain(self.runs.interruption());
            let mut fds: Vec<PollFd<'_>> = sources
                .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
                .collect();
            wait_readable(&mut fds, limit)?;
            let network = self.network.fds().len();
            fds[..network].iter().any(is_readable)
        };
        // The same signal may also have ended processes of the network.
        interrupted(&self.runs)?;
        if network {
            self.network.check()?;
        }
        Ok(())
    }

    /// Reads the processor counters of each machine, for the processes of hosts and switches, with the machine's number
    /// of processors.
    pub fn counters(&mut self) -> Result<Vec<(Counters, usize)>, FabricError> {
        self.network.counters()
    }

    /// Number of processors of all machines of the network together.
    pub fn processors(&self) -> usize {
        self.network.processors()
    }

    /// Summary of the machines of the network for the report; `None` for a network on one machine.
    pub fn machines(&self) -> Option<MachinesSummary> {
        let (machines, crossing_links) = self.machines.clone()?;
        Some(MachinesSummary {
            machines,
            crossing_links,
            clock_error_ns: self.clock_error,
        })
    }

    fn controller_handle(&self) -> Result<Handle, FabricError> {
        self.controller.clone().ok_or_else(|| {
            let why = "the controller belongs to the program that has the network; use --registration mrp";
            FabricError::Broken(why.to_string())
        })
    }

    /// Converts a duration of real time to nanoseconds of the network's clock.
    fn to_network_time(&self, time: Duration) -> u64 {
        time.as_nanos() as u64 / self.clock.scale()
    }

    /// Connections to the hosts that were not killed.
    fn alive_hosts(&self) -> impl Iterator<Item = &HostClient> {
        let hosts = self.hosts.iter().enumerate();
        hosts
            .filter(|(index, _)| !self.killed.contains(&HostIndex(*index)))
            .map(|(_, host)| host)
    }

    fn interface(&self, switch: SwitchIndex, port: u32) -> Option<&String> {
        let name = &self.topology.switch(switch).name;
        let ports = self.network.addresses().interfaces.get(name)?;
        ports.get(&port.to_string())
    }

    /// Finds an end of a link that is at a switch: names of the switch and of its interface. While this interface is
    /// down, the link carries nothing in either direction.
    fn switch_end(&self, link: LinkIndex) -> Result<(String, String), FabricError> {
        let mut ends = self.topology.link(link).ends.into_iter();
        let interface = ends.find_map(|end| match end.node {
            Node::Switch(switch) => {
                let interface = self.interface(switch, end.port)?.clone();
                Some((self.topology.switch(switch).name.clone(), interface))
            }
            Node::Host(_) => None,
        });
        interface.ok_or_else(|| {
            let ends = self.topology.link(link).ends;
            let [a, b] = ends.map(|end| self.topology.show_end(end).to_string());
            FabricError::Broken(format!(
                "the network has no interface for the link {a} - {b}"
            ))
        })
    }

    /// Counts the frames on all links, each frame once per link: those that switches sent, and those that switches
    /// received from hosts.
    fn wire_packets(&mut self) -> Result<u64, FabricError> {
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        for switch in self.topology.switch_indexes() {
            for neighbour in self.topology.neighbours(switch) {
                let Some(interface) = self.interface(switch, neighbour.port) else {
                    continue;
                };
                let port = (self.topology.switch(switch).name.clone(), interface.clone());
                if matches!(neighbour.peer.node, Node::Host(_)) {
                    received.push(port.clone());
                }
                sent.push(port);
            }
        }
        self.network
            .packets(&as_str_pairs(&sent), &as_str_pairs(&received))
    }
}

impl Fabric for MininetFabric {
    fn register(&mut self, group: RegisterGroup) -> Result<GroupInfo, FabricError> {
        let handle = self.controller_handle()?;
        let work = async move { handle.register(group).await };
        let what = "the controller has not registered the group";
        let info = self.wait_for(work, what, GROUP_LIMIT)?;
        Ok(info.ok_or_else(controller_ended)??)
    }

    fn deregister(&mut self, mcst_id: Ipv4Addr) -> Result<(), FabricError> {
        let handle = self.controller_handle()?;
        let work = async move { handle.deregister(mcst_id).await };
        let what = format!("the controller has not removed group {mcst_id}");
        let removed = self.wait_for(work, &what, GROUP_LIMIT)?;
        Ok(removed.ok_or_else(controller_ended)??)
    }

    fn register_in_band(
        &mut self,
        leader: HostIndex,
        group: RegisterGroup,
    ) -> Result<(), FabricError> {
        let (spec, nodes) = in_band::leader_request(&group)?;
        for node in &nodes {
            let member = self.topology.host_with_ip(node.ip);
            let member = member.ok_or_else(|| in_band::not_a_host(node.ip))?;
            let (qpn, group) = (node.qpn, spec.expected());
            self.request_without_result(member, Request::Expect { qpn, group })?;
        }
        self.request_without_result(leader, Request::Lead { group: spec, nodes })?;
        let what = format!(
            "{} has not registered the group in band",
            self.leader_name(leader)
        );
        in_band::registration_result(self.wait_for_leader(leader, &what)?)
    }

    fn deregister_in_band(&mut self, leader: HostIndex) -> Result<(), FabricError> {
        self.request_without_result(leader, Request::Dissolve)?;
        let what = format!(
            "{} has not removed the group in band",
            self.leader_name(leader)
        );
        while self.wait_for_leader(leader, &what)? != LeaderEvent::Deregistered {}
        Ok(())
    }

    fn join_datagrams(&mut self, group: Ipv4Addr, hosts: &[HostIndex]) -> Result<(), FabricError> {
        for &host in hosts {
            let (handle, ip) = (self.controller_handle()?, self.topology.host(host).ip);
            let work = async move { handle.join_datagrams(group, ip).await };
            let name = &self.topology.host(host).name;
            let what = format!("the controller has not added host {name} to group {group}");
            let joined = self.wait_for(work, &what, GROUP_LIMIT)?;
            joined.ok_or_else(controller_ended)??;
        }
        Ok(())
    }

    fn leave_datagrams(&mut self, group: Ipv4Addr, hosts: &[HostIndex]) -> Result<(), FabricError> {
        for &host in hosts {
            let (handle, ip) = (self.controller_handle()?, self.topology.host(host).ip);
            let work = async move { handle.leave_datagrams(group, ip).await };
            let name = &self.topology.host(host).name;
            let what = format!("the controller has not removed host {name} from group {group}");
            let left = self.wait_for(work, &what, GROUP_LIMIT)?;
            left.ok_or_else(controller_ended)??;
        }
        Ok(())
    }

    fn report_stall(
        &mut self,
        mcst_id: Ipv4Addr,
        source: Option<HostIndex>,
    ) -> Result<(), FabricError> {
        if let Some(source) = source {
            return self.request_without_result(source, Request::Stalled { mcst_id });
        }
        let handle = self.controller_handle()?;
        let work = async move { handle.suspect(mcst_id).await };
        let what =
            format!("the controller has not replied to the report that group {mcst_id} is stalled");
        let asked = self.wait_for(work, &what, GROUP_LIMIT)?;
        Ok(asked.ok_or_else(controller_ended)??)
    }

    fn take_group_changes(&mut self) -> Result<Vec<GroupChange>, FabricError> {
        let at = self.now();
        let news = std::iter::from_fn(|| self.news.try_recv().ok());
        Ok(news
            .filter_map(|news| match news {
                GroupNotification::Lost { mcst_id, members } => Some((mcst_id, members)),
                GroupNotification::Rerouted { mcst_id } => Some((mcst_id, Vec::new())),
                // Belongs to a group that no job uses any more.
                GroupNotification::Expired { .. } => None,
            })
            .map(|(mcst_id, lost)| GroupChange { mcst_id, at, lost })
            .collect())
    }

    fn turn_hostile(
        &mut self,
        host: HostIndex,
        target: Target,
        seed: u64,
    ) -> Result<(), FabricError> {
        let transfer = self.transfer;
        let request = Request::TurnHostile {
            transfer,
            target,
            seed,
        };
        self.request_without_result(host, request)?;
        self.hostile.insert(host);
        Ok(())
    }

    fn kill(&mut self, victim: Victim) -> Result<(), FabricError> {
        match victim {
            Victim::Host(host) => {
                self.killed.insert(host);
                let name = self.topology.host(host).name.clone();
                self.network.kill(&name)
            }
            Victim::Switch(switch) => {
                let name = self.topology.switch(switch).name.clone();
                self.network.kill(&name)
            }
            Victim::Link(link) => {
                let (switch, interface) = self.switch_end(link)?;
                self.network.cut(&switch, &interface)
            }
        }
    }

    fn prepare(
        &mut self,
        host: HostIndex,
        spec: TransferSpec,
    ) -> Result<Vec<Endpoint>, FabricError> {
        // The root is prepared first, so it starts a new transfer.
        if spec.is_root() {
            self.transfer += 1;
        }
        if self.clock_offsets.contains_key(&host) {
            self.measure_clock_offset(host)?;
        }
        let transfer = self.transfer;
        match self.request(
            host,
            Request::Prepare {
                transfer,
                spec: Box::new(spec),
            },
        )? {
            Reply::Prepared { endpoints } => Ok(endpoints),
            other => Err(self.unexpected(host, &other)),
        }
    }

    fn connect(&mut self, host: HostIndex, peers: &[Endpoint]) -> Result<(), FabricError> {
        let (transfer, peers) = (self.transfer, peers.to_vec());
        self.request_without_result(host, Request::Connect { transfer, peers })
    }

    fn start(&mut self, host: HostIndex, data: &Arc<ExpectedData>) -> Result<u64, FabricError> {
        let machine = self.network.machine_of(&self.topology.host(host).name);
        let stored = self.messages.get(&machine);
        let stored = stored.filter(|(message, _)| Arc::ptr_eq(message, data));
        let file = match stored {
            Some((_, file)) => file.clone(),
            None => {
                let file = self.network.store(machine, data.bytes())?;
                let message = (Arc::clone(data), file.clone());
                self.messages.insert(machine, message);
                file
            }
        };
        let transfer = self.transfer;
        match self.request(host, Request::Start { transfer, file })? {
            Reply::Started { at } => Ok(self.to_local_time(host, at)),
            other => Err(self.unexpected(host, &other)),
        }
    }

    fn next_event(
        &mut self,
        deadline: u64,
    ) -> Result<Option<(HostIndex, MemberEvent)>, FabricError> {
        if let Some(reported_event) = self.deferred_events.pop_front() {
            return Ok(Some(reported_event));
        }
        loop {
            if let Some(reported_event) = self.reported_event()? {
                return Ok(Some(reported_event));
            }
            let now = self.now();
            if now >= deadline {
                return Ok(None);
            }
            let left = Duration::from_nanos(self.clock.system(deadline - now));
            self.wait_for_input(left, true)?;
        }
    }

    fn close(&mut self, host: HostIndex) -> Result<(), FabricError> {
        if self.killed.contains(&host) {
            return Ok(());
        }
        let transfer = self.transfer;
        self.hostile.remove(&host);
        self.request_without_result(host, Request::Close { transfer })
    }

    fn execute_leg_command(
        &mut self,
        host: HostIndex,
        command: LegCommand,
    ) -> Result<LegReply, FabricError> {
        let transfer = self.transfer;
        match self.request(
            host,
            Request::Leg {
                transfer,
                verb: command,
            },
        )? {
            Reply::Acted { answer } => Ok(answer),
            other => Err(self.unexpected(host, &other)),
        }
    }

    fn request_times(&mut self, source: HostIndex) -> Result<Option<RequestTimes>, FabricError> {
        if self.killed.contains(&source) {
            return Ok(None);
        }
        Ok(self.status(source)?.requests.map(|times| *times))
    }

    fn held_slices(&mut self, host: HostIndex) -> Result<u32, FabricError> {
        Ok(self.status(host)?.held)
    }

    fn suspend(&mut self, _host: HostIndex, _lasts: u64) -> Result<(), FabricError> {
        Err(FabricError::Broken(
            "on Mininet a host and its NIC are one process, which cannot be suspended in part"
                .to_string(),
        ))
    }

    fn set_loss(&mut self, link: LinkIndex, loss: Option<f64>) -> Result<(), FabricError> {
        let (switch, interface) = self.switch_end(link)?;
        match loss {
            None => self.network.restore(&switch, &interface),
            Some(loss) if loss >= 1.0 => self.network.cut(&switch, &interface),
            Some(loss) => Err(FabricError::Broken(format!(
                "a timed loss on Mininet has probability 1, not {loss}"
            ))),
        }
    }

    fn progress(&mut self, host: HostIndex) -> Result<Progress, FabricError> {
        if self.killed.contains(&host) {
            return Ok(Progress { bytes: 0, total: 0 });
        }
        Ok(self.status(host)?.progress)
    }

    fn acknowledged_packets(&mut self, host: HostIndex) -> Result<u64, FabricError> {
        let edges = self.status(host)?.edges.into_iter();
        Ok(edges.map(|edge| edge.stats.requests_acknowledged).sum())
    }

    fn received_packets(&mut self, host: HostIndex) -> Result<Option<u64>, FabricError> {
        let edges = self.status(host)?.edges.into_iter();
        let received = edges.map(|edge| edge.stats.requests_received).sum();
        Ok((!self.linux_rdma).then_some(received))
    }

    fn traffic(&mut self, members: &[HostIndex], sources: usize) -> Result<Traffic, FabricError> {
        let mut traffic = Traffic::default();
        let alive = members.iter().enumerate();
        for (rank, &host) in alive
            .filter(|(_, host)| !self.killed.contains(host))
            .collect::<Vec<_>>()
        {
            let status = self.status(host)?;
            if !self.hostile.contains(&host) {
                traffic.implausible += status.host.implausible();
            }
            for edge in status.edges {
                let stats = edge.stats;
                traffic.retransmissions += stats.retransmissions;
                traffic.marked += stats.marked_received;
                traffic.cnps_sent += stats.cnps_sent;
                if rank < sources {
                    traffic.source_payload_bytes += stats.request_bytes_sent;
                    traffic.source_cnps += stats.cnps_received;
                    traffic.source_acks += stats.acks_received
                        + stats.naks_received
                        + stats.rnr_naks_received
                        + stats.fatal_naks_received;
                }
            }
        }
        for &source in &members[..sources] {
            if !self.killed.contains(&source) {
                traffic.source_tx_bytes += self.info(source)?.stats.tx_bytes;
            }
        }
        let is_opaque = |host| self.linux_rdma && self.clock_offsets.contains_key(host);
        if members[..sources].iter().any(is_opaque) {
            // Linux counts messages only, without retransmissions.
            traffic.source_payload_bytes = 0;
        }
        traffic.wire_packets = self.wire_packets()?;
        Ok(traffic)
    }

    fn counts(&mut self) -> Result<Counts, FabricError> {
        if self.controller.is_none() {
            return Ok(Counts::default());
        }
        let handle = self.controller_handle()?;
        let work = async move { handle.count().await };
        let counts = self.wait_for(
            work,
            "the controller has not read the switches' counters",
            GROUP_LIMIT,
        )?;
        counts.ok_or_else(controller_ended)
    }

    fn control_round_trip(&mut self) -> Result<u64, FabricError> {
        if self.controller.is_none() {
            return Ok(0);
        }
        let handle = self.controller_handle()?;
        let work = async move { handle.status().await };
        let what = "the controller has not replied with its status";
        let report = self.wait_for(work, what, GROUP_LIMIT)?;
        // Measured on the controller's clock, which is the network's.
        Ok(report.ok_or_else(controller_ended)?.round_trip_ns())
    }

    fn now(&self) -> u64 {
        // The same clock as that of `alfirk host`, so that times are comparable.
        self.clock.now()
    }

    fn tick(&self) -> u64 {
        self.to_network_time(Duration::from_millis(200))
    }

    fn stall_timeout(&self) -> u64 {
        self.to_network_time(Duration::from_secs(1))
    }

    fn processing(&self) -> Option<ProcessingTimes> {
        // Without rates, the speed of links depends on the machine only.
        self.has_rates.then_some(PROCESSING)
    }

    fn rc(&self, mtu: PathMtu) -> RcConfig {
        let timing = match self.has_rates {
            true => HostTiming::FAST,
            false => HostTiming::SOFTWARE,
        };
        RcConfig {
            ack_timeout: timing.ack_timeout,
            msn_rule: match self.linux_rdma {
                true => MsnRule::Restarts,
                false => MsnRule::Counted,
            },
            ..RcConfig::new(mtu)
        }
    }
}
fn wait_readable(fds: &mut [PollFd<'_>], limit: Duration) -> Result<(), FabricError> {
    // Rounded up, so that a wait of less than a millisecond is not a busy loop.
    let ms = limit.as_micros().div_ceil(1_000).min(60_000) as u16;
    match poll(fds, PollTimeout::from(ms)) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
        Err(error) => Err(FabricError::Broken(format!("cannot wait: {error}"))),
    }
}

fn is_readable(fd: &PollFd<'_>) -> bool {
    fd.any().unwrap_or(false)
}

/// Returns an error if a signal has arrived; the command replaces its message by the progress of the run.
fn interrupted(runs: &Runs) -> Result<(), FabricError> {
    match runs.interrupted() {
        Some(_) => Err(FabricError::Broken("before the transfer".to_owned())),
        None => Ok(()),
    }
}

fn controller_ended() -> FabricError {
    FabricError::Broken("the controller ended unexpectedly".to_string())
}

fn as_str_pairs(ports: &[(String, String)]) -> Vec<(&str, &str)> {
    let ports = ports.iter();
    ports
        .map(|(switch, interface)| (switch.as_str(), interface.as_str()))
        .collect()
}
