//! Construction of a [`Network`] from a topology, and the network's operations.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use alfirk_bmv2::{Engine as PipelineEngine, Switch, SwitchOptions};
use alfirk_ctrl::controller::{ApiReply, ApiRequest, ConfigError, ControllerConfig};
use alfirk_ctrl::topology::{End, HostIndex, LinkIndex, Node, SwitchIndex, Topology};
use alfirk_p4rt::{Programs, Server};
use alfirk_p4runtime::Bytes;
use alfirk_roce::application::CommandError;
use alfirk_roce::binomial_ack::{Endpoint as Multicaster, EndpointEvent};
use alfirk_roce::collective::{Endpoint, ExpectedData, LegCommand, LegReply, TransferSpec};
use alfirk_roce::host::{Host, HostConfig};
use alfirk_roce::hostile::{Hostile, Target};
use alfirk_roce::rc::BadMtu;
use alfirk_roce::registration::{ExpectedGroup, GroupSpec, LeaderTiming};
use alfirk_roce::wire::mrp::{self, TooManyNodes};
use alfirk_roce::wire::{MacAddr, QpNum};

use super::bf_runtime::BfRuntime;
use super::controller::ControllerNode;
use super::host::{HostNode, PORT};
use super::message::Message;
use super::packet_traces::TracedPacket;
use super::passes::{Pass, PassList, PassRecorder};
use super::ports::Ports;
use super::run_handle::RunHandle;
use super::switch::SwitchNode;
use super::{Element, Fidelity, Model};
use crate::engine::{
    Engine, FaultProbabilities, LinkConfig, LinkCounters, LinkError, NodeId, Observer, Step,
    ThreadError, Threads,
};
use alfirk_ctrl::constants::CPU_PORT;
use alfirk_experiment::stream::seed;
use alfirk_experiment::{MemberEvent, TransferId};

/// Egress port number to which the P4 program sends packets that it drops.
const DROP_PORT: u32 = 511;

/// A fabric in virtual time: switches, hosts, links and the controller.
pub struct Network {
    engine: Engine<Element>,
    topology: Topology,
    model: Model,
    switches: Vec<NodeId>,
    /// Engine nodes of the hosts, in ascending order.
    hosts: Vec<NodeId>,
    controller: NodeId,
    /// Hosts that take part in each transfer.
    parts: BTreeMap<TransferId, BTreeSet<HostIndex>>,
    /// Number of each link in the engine, by index in the topology.
    links: Vec<usize>,
    /// Initial fault probabilities of every link.
    faults: FaultProbabilities,
    /// Loss probabilities of single links, in place of the loss in `faults`.
    link_loss: BTreeMap<LinkIndex, f64>,
    run_handle: RunHandle,
    /// Passes through switches that a debugger has not taken; `None` if none are recorded.
    passes: Option<PassList>,
}

/// Error of [`Network::build`].
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The configuration of the controller is invalid.
    #[error(transparent)]
    Controller(#[from] ConfigError),
    /// The MTU of a host's link is too small for RoCEv2.
    #[error("host {host}: {error}")]
    Host {
        /// Name of the host.
        host: String,
        /// The MTU, and its minimum.
        error: BadMtu,
    },
    /// A link cannot be created.
    #[error(transparent)]
    Link(#[from] LinkError),
}

impl Network {
    /// Creates a fabric at time 0: switches without program, hosts without queue pairs, and a controller that begins to
    /// connect. `faults`: probabilities of random faults on every link, in each direction. `run_seed`: seed of all
    /// randomness.
    pub fn build(
        topology: &Topology,
        controller: ControllerConfig,
        model: Model,
        faults: FaultProbabilities,
        run_seed: u64,
    ) -> Result<Network, BuildError> {
        let programs = Network::programs(&model);
        Network::build_with(topology, controller, model, faults, run_seed, programs)
    }

    /// Creates a cache of programs, which are compiled as the model says. Several fabrics can share it. Few packets of the
    /// fast data plane reach pipelines, so compilation does not pay there.
    pub fn programs(model: &Model) -> Programs {
        let programs = Programs::default();
        match (model.engine, model.fidelity) {
            (PipelineEngine::Auto, Fidelity::Exact) => {
                programs.compiled_after(TIER_UP, |program| {
                    rayon::spawn(move || {
                        // A program that cannot be compiled is interpreted.
                        let _ = program.compile();
                    });
                })
            }
            (PipelineEngine::Compiled, _) => programs.compiled_by(|program| {
                let _ = program.compile();
            }),
            (PipelineEngine::Auto, Fidelity::Fast) | (PipelineEngine::Interpreter, _) => programs,
        }
    }

    /// Creates a fabric as [`Network::build`] does, whose switches record the passes of packets for a debugger. No result
    /// depends on it. The model must be exact: packets of the fast data plane are not recorded.
    pub fn build_recorded(
        topology: &Topology,
        controller: ControllerConfig,
        model: Model,
        faults: FaultProbabilities,
        run_seed: u64,
    ) -> Result<Network, BuildError> {
        let programs = Programs::with_notes();
        let mut network =
            Network::build_with(topology, controller, model, faults, run_seed, programs)?;
        let list = PassList::default();
        network.each_switch(|index, node| {
            node.record(PassRecorder::new(
                &topology.switch(index).name,
                list.clone(),
            ));
        });
        network.passes = Some(list);
        Ok(network)
    }

    /// Creates a fabric as [`Network::build`] does, whose switches record how they process their packets, up to `limit` of
    /// each. [`Network::take_packet_traces`] returns the traces. Packets of the fast data plane have none.
    pub fn build_traced(
        topology: &Topology,
        controller: ControllerConfig,
        model: Model,
        faults: FaultProbabilities,
        run_seed: u64,
        limit: usize,
    ) -> Result<Network, BuildError> {
        let programs = Programs::with_notes();
        let mut network =
            Network::build_with(topology, controller, model, faults, run_seed, programs)?;
        network.each_switch(|_, node| node.trace_packets(limit));
        Ok(network)
    }

    /// Calls a function for each switch, with its index in the topology.
    fn each_switch(&mut self, mut call: impl FnMut(SwitchIndex, &mut SwitchNode)) {
        for (index, &node) in self.switches.iter().enumerate() {
            self.engine.with_node(node, |node, _| {
                if let Element::Switch(node) = node {
                    call(SwitchIndex(index), node);
                }
            });
        }
    }

    /// Removes and returns the recorded passes of packets through switches, in the order of time.
    pub fn take_passes(&mut self) -> Vec<Pass> {
        self.passes.as_ref().map_or_else(Vec::new, PassList::take)
    }

    /// Creates a fabric as [`Network::build`] does, whose switches load their programs through `programs`.
    pub fn build_with(
        topology: &Topology,
        controller: ControllerConfig,
        model: Model,
        faults: FaultProbabilities,
        run_seed: u64,
        programs: Programs,
    ) -> Result<Network, BuildError> {
        let mut engine = Engine::new(run_seed);
        let switches = topology
            .switch_indexes()
            .map(|index| {
                let schema = controller.bf_rt_schema.clone();
                add_switch(
                    &mut engine,
                    topology,
                    index,
                    &model,
                    run_seed,
                    &programs,
                    schema,
                )
            })
            .collect::<Vec<_>>();
        let hosts = topology
            .host_indexes()
            .map(|index| add_host(&mut engine, topology, index, &model, run_seed))
            .collect::<Result<Vec<_>, _>>()?;

        let at = |end: End| match end.node {
            Node::Switch(index) => (switches[index.0], end.port),
            Node::Host(index) => (hosts[index.0], PORT),
        };
        let mut links = Vec::new();
        for link in topology.links() {
            let [a, b] = link.ends.map(at);
            let attributes = link.attributes;
            let config = LinkConfig {
                rate: attributes.rate_bps,
                delay: attributes.delay_ns,
                mtu: attributes.mtu as usize,
                faults,
            };
            links.push(engine.connect(a, b, config)?);
        }

        let latency = model.control_latency;
        let node = ControllerNode::new(topology.clone(), controller, switches.clone(), latency)?;
        let controller = engine.add_node("controller", Element::Controller(Box::new(node)));
        engine.with_node(controller, |node, ctx| {
            if let Element::Controller(node) = node {
                node.connect_all(ctx);
            }
        });
        Ok(Network {
            engine,
            topology: topology.clone(),
            model,
            switches,
            hosts,
            controller,
            parts: BTreeMap::new(),
            links,
            faults,
            link_loss: BTreeMap::new(),
            run_handle: RunHandle::default(),
            passes: None,
        })
    }

    /// Sets the number of threads that run the switches. No result depends on it. With several threads, switches cannot be
    /// ended, restarted or read during a run, nor links changed or observers added (see [`Engine::set_threads`]).
    ///
    /// # Errors
    /// The system cannot create the threads.
    pub fn set_threads(&mut self, threads: Threads) -> Result<(), ThreadError> {
        self.engine.set_threads(threads)
    }

    /// Delay model of hosts and switches.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Topology from which the network was built.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Virtual time in nanoseconds.
    pub fn now(&self) -> u64 {
        self.engine.now()
    }

    /// Number of events handled so far.
    pub fn events(&self) -> u64 {
        self.engine.events()
    }

    /// Adds an observer, which gets all frames and notes from now on.
    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        self.engine.observe(observer);
    }

    /// Handles the next event if it is due at or before `limit`.
    pub fn step(&mut self, limit: u64) -> Step {
        let step = self.engine.step(limit);
        self.run_handle.set(self.engine.now());
        step
    }

    /// Handles the next event if it is due at or before `limit`. Skips the periods of a steady state that end by `latest`,
    /// in nanoseconds, even if they end after `limit`.
    pub fn step_or_skip(&mut self, limit: u64, latest: u64) -> Step {
        let step = self.engine.step_or_skip(limit, latest);
        self.run_handle.set(self.engine.now());
        step
    }

    /// Sets whether steady states are skipped, as they are by default. No result depends on it.
    pub fn skip_steady_states(&mut self, skips: bool) {
        self.engine.skip_steady_states(skips);
    }

    /// Number of events that were skipped, and that [`Network::events`] includes.
    pub fn skipped_events(&self) -> u64 {
        self.engine.skipped_events()
    }

    /// Handle by which other threads read the virtual time and stop the run.
    pub fn run_handle(&self) -> RunHandle {
        self.run_handle.clone()
    }

    /// Whether another thread has requested that the run stop.
    pub fn is_stopped(&self) -> bool {
        self.run_handle.is_stopped()
    }

    /// Handles all events at or before `limit`, then advances the time to it.
    pub fn run_until(&mut self, limit: u64) {
        self.engine.run_until(limit);
    }

    // ---- The controller ----

    /// Sends a client's request to the controller. [`Network::next_reply`] returns the reply.
    pub fn send_request(&mut self, request: ApiRequest) {
        self.engine.with_node(self.controller, |node, ctx| {
            if let Element::Controller(node) = node {
                node.handle_request(request, ctx);
            }
        });
    }

    /// Removes and returns the controller's next reply to clients.
    pub fn next_reply(&mut self) -> Option<ApiReply> {
        self.engine
            .with_node(self.controller, |node, _| match node {
                Element::Controller(node) => node.next_reply(),
                _ => None,
            })
    }

    /// Replaces the controller by a new one after `delay` nanoseconds. All its connections end. If `keeps_state`, the
    /// new controller restores the groups from the saved state; otherwise it adopts the groups that it finds on the
    /// switches.
    pub fn restart_controller(&mut self, delay: u64, keeps_state: bool) {
        self.engine.with_node(self.controller, |_, ctx| {
            ctx.send(
                ctx.node(),
                Message::ReplaceController { keeps_state },
                delay,
            );
        });
    }

    // ---- Hosts ----

    /// The host with this index in the topology.
    pub fn host(&self, index: HostIndex) -> &HostNode {
        match self.engine.node(self.hosts[index.0]) {
            Element::Host(node) => node,
            _ => unreachable!("every host has a host element"),
        }
    }

    fn with_host<R>(
        &mut self,
        index: HostIndex,
        act: impl FnOnce(&mut HostNode, &mut super::Ctx<'_>) -> R,
    ) -> R {
        self.engine
            .with_node(self.hosts[index.0], |node, ctx| match node {
                Element::Host(node) => act(node, ctx),
                _ => unreachable!("every host has a host element"),
            })
    }

    /// Creates the queue pairs of a transfer at one member.
    pub fn prepare(
        &mut self,
        id: TransferId,
        host: HostIndex,
        spec: TransferSpec,
    ) -> Result<Vec<Endpoint>, CommandError> {
        // The previous transfer of this host with this id ends in any case.
        self.remove_part(id, host);
        let endpoints = self.with_host(host, |node, _| node.prepare(id, spec))?;
        self.parts.entry(id).or_default().insert(host);
        Ok(endpoints)
    }

    /// Connects the queue pairs of a transfer at one member.
    pub fn connect(
        &mut self,
        id: TransferId,
        host: HostIndex,
        peers: &[Endpoint],
    ) -> Result<(), CommandError> {
        self.with_host(host, |node, ctx| node.connect(id, peers, ctx))
    }

    /// Makes the application of the transfer's root, `host`, begin to post the data. All hosts of the transfer compare
    /// what they receive with `original`.
    pub fn start(&mut self, id: TransferId, host: HostIndex, original: &Arc<ExpectedData>) {
        for part in self.parts.get(&id).cloned().unwrap_or_default() {
            self.with_host(part, |node, _| node.set_expected_data(id, original));
        }
        let data = Arc::clone(original.bytes());
        self.with_host(host, |node, ctx| node.start(id, data, ctx));
    }

    /// Calls a function on a host's NIC now, outside of any transfer. Resulting completions are visible in counters and
    /// memory only.
    pub fn on_nic<R>(&mut self, host: HostIndex, act: impl FnOnce(&mut Host, u64) -> R) -> R {
        self.with_host(host, |node, ctx| node.on_nic(act, ctx))
    }

    /// Sets the endpoint of a host in a datagram group whose members acknowledge along a binomial tree.
    pub fn set_multicaster(&mut self, host: HostIndex, multicaster: Multicaster) {
        self.with_host(host, |node, _| node.set_multicaster(multicaster));
    }

    /// Calls a function on a host's endpoint of a datagram group now; `None` if it has none.
    pub fn on_multicaster<R>(
        &mut self,
        host: HostIndex,
        act: impl FnOnce(&mut Multicaster, &mut Host, u64) -> R,
    ) -> Option<R> {
        self.with_host(host, |node, ctx| node.on_multicaster(act, ctx))
    }

    /// Makes a host's application begin to post a message to all members of its datagram group.
    pub fn broadcast(&mut self, host: HostIndex, data: Arc<[u8]>) {
        self.with_host(host, |node, ctx| node.broadcast(data, ctx));
    }

    /// Removes and returns the next event of a host's datagram endpoint, with the time at which the application
    /// processed its cause.
    pub fn next_multicast_event(&mut self, host: HostIndex) -> Option<(u64, EndpointEvent)> {
        self.with_host(host, |node, _| node.next_multicast_event())
    }

    /// Allows the leader of a group (the host that registers it in band) to register a queue pair of this host.
    pub fn allow_registration(&mut self, host: HostIndex, qpn: QpNum, group: ExpectedGroup) {
        self.with_host(host, |node, _| node.allow_registration(qpn, group));
    }

    /// Makes a host register a group in band, by packets on the fabric. `nodes`: the members other than this host.
    pub fn register_in_band(
        &mut self,
        host: HostIndex,
        spec: GroupSpec,
        timing: LeaderTiming,
        nodes: &[mrp::Node],
    ) -> Result<(), TooManyNodes> {
        self.with_host(host, |node, ctx| {
            node.register_in_band(spec, timing, nodes, ctx)
        })
    }

    /// Makes a host deregister, in band, the group that it leads.
    pub fn deregister_in_band(&mut self, host: HostIndex) {
        self.with_host(host, |node, ctx| node.deregister_in_band(ctx));
    }

    /// Makes a host report, by packets on the fabric, that a group to which it sends makes no progress.
    pub fn report_stall(&mut self, host: HostIndex, mcst_id: Ipv4Addr) {
        self.with_host(host, |node, ctx| node.report_stall(mcst_id, ctx));
    }

    /// Makes a host fail now: it neither sends nor receives any more.
    pub fn kill_host(&mut self, host: HostIndex) {
        self.with_host(host, |node, ctx| node.kill(ctx));
    }

    /// Suspends a host's application for `lasts` nanoseconds; its NIC continues.
    pub fn suspend_host(&mut self, host: HostIndex, lasts: u64) {
        self.with_host(host, |node, ctx| node.suspend(lasts, ctx));
    }

    /// Makes a host send random packets of all kinds to a group until its transfer is closed. The packets have the
    /// host's own source address, and use all bandwidth that its queue pairs leave free.
    pub fn turn_hostile(&mut self, host: HostIndex, target: Target, seed: u64) {
        let node = self.topology.host(host);
        let hostile = Hostile::new(node.ip, MacAddr(node.mac.0), target, seed);
        self.with_host(host, |node, ctx| node.turn_hostile(hostile, ctx));
    }

    /// Executes a leg command in a transfer at a host. A leg is the part of a transfer that one algorithm carries.
    pub fn execute_leg_command(
        &mut self,
        id: TransferId,
        host: HostIndex,
        command: LegCommand,
    ) -> Result<LegReply, CommandError> {
        self.with_host(host, |node, ctx| node.execute_leg_command(id, command, ctx))
    }

    /// Removes and returns the next event of a transfer at a host.
    pub fn next_event(&mut self, host: HostIndex) -> Option<(TransferId, MemberEvent)> {
        self.with_host(host, |node, _| node.next_event())
    }

    /// Ends a transfer at a host, and destroys its queue pairs.
    pub fn close(&mut self, id: TransferId, host: HostIndex) {
        self.remove_part(id, host);
        self.with_host(host, |node, _| node.close(id));
    }

    /// Removes a host from the hosts that take part in a transfer.
    fn remove_part(&mut self, id: TransferId, host: HostIndex) {
        if let Some(hosts) = self.parts.get_mut(&id) {
            hosts.remove(&host);
            if hosts.is_empty() {
                self.parts.remove(&id);
            }
        }
    }

    /// Returns the hosts that may have new events since the last call, in ascending order. [`Network::next_event`]
    /// returns the events.
    pub fn take_notifying(&mut self) -> impl Iterator<Item = HostIndex> + '_ {
        let telling = self.engine.take_notifying();
        telling.filter_map(|node| self.hosts.binary_search(&node).ok().map(HostIndex))
    }

    // ---- Switches and links ----

    /// The switch with this index in the topology.
    pub fn switch(&self, index: SwitchIndex) -> &SwitchNode {
        match self.engine.node(self.switches[index.0]) {
            Element::Switch(node) => node,
            _ => unreachable!("every switch has a switch element"),
        }
    }

    /// Removes and returns the packets of a switch whose traces were recorded, in the order of their arrival.
    pub fn take_packet_traces(&mut self, index: SwitchIndex) -> Vec<TracedPacket> {
        self.engine
            .with_node(self.switches[index.0], |node, _| match node {
                Element::Switch(node) => node.take_packet_traces(),
                _ => unreachable!("every switch has a switch element"),
            })
    }

    /// Makes a switch fail now. Its state is lost, and its connection to the controller breaks.
    pub fn kill_switch(&mut self, index: SwitchIndex) {
        self.engine
            .with_node(self.switches[index.0], |node, ctx| match node {
                Element::Switch(node) => node.kill(ctx),
                _ => unreachable!("every switch has a switch element"),
            });
    }

    /// Makes a switch fail after `delay` nanoseconds, and restarts it `downtime` nanoseconds later without program,
    /// entries and registers. The controller then connects to it.
    pub fn restart_switch(&mut self, index: SwitchIndex, delay: u64, downtime: u64) {
        let controller = self.controller;
        self.engine.with_node(self.switches[index.0], |_, ctx| {
            let end = Message::Fail {
                downtime,
                controller,
            };
            ctx.send(ctx.node(), end, delay);
        });
    }

    /// Sets a link down or up.
    pub fn set_link_up(&mut self, link: LinkIndex, up: bool) {
        self.engine.set_link_up(self.links[link.0], up);
    }

    /// Sets the initial loss probability of a link, for each direction. [`Network::set_loss`] can override it
    /// temporarily.
    pub fn set_initial_loss(&mut self, link: LinkIndex, loss: f64) -> Result<(), LinkError> {
        self.link_loss.insert(link, loss);
        self.set_loss(link, None)
    }

    /// Overrides the loss probability of a link, for each direction; `None` restores the initial probability.
    pub fn set_loss(&mut self, link: LinkIndex, loss: Option<f64>) -> Result<(), LinkError> {
        let own = self.link_loss.get(&link).copied();
        let faults = FaultProbabilities {
            loss: loss.or(own).unwrap_or(self.faults.loss),
            ..self.faults
        };
        self.engine.set_link_faults(self.links[link.0], faults)
    }

    /// Counters of the frames that `end` sends; `None` if the port is not connected.
    pub fn counters(&self, end: End) -> Option<LinkCounters> {
        match end.node {
            Node::Switch(index) => self.engine.counters(self.switches[index.0], end.port),
            Node::Host(index) => self.engine.counters(self.hosts[index.0], PORT),
        }
    }

    /// Counters of both directions of every link, with names such as "h1:0 -> s1:1".
    pub fn directions(&self) -> impl Iterator<Item = (&str, LinkCounters)> {
        self.engine.directions()
    }
}

/// Number of packets that all switches of a fabric interpret, in ingress and egress, before their program is compiled. The
/// time that machine code saves for as many packets is about that of the compilation.
const TIER_UP: u32 = 1 << 17;

fn add_switch(
    engine: &mut Engine<Element>,
    topology: &Topology,
    index: SwitchIndex,
    model: &Model,
    run_seed: u64,
    programs: &Programs,
    bf_rt_schema: Option<Bytes>,
) -> NodeId {
    let switch = topology.switch(index);
    let options = SwitchOptions {
        device_id: switch.device_id,
        cpu_port: Some(CPU_PORT),
        drop_port: DROP_PORT,
        seed: seed(run_seed, &format!("switch {}", switch.name)),
        // v1model has a priority of 3 bits.
        priority_queues: 8,
        engine: model.engine,
        ..SwitchOptions::default()
    };
    let links = topology.neighbours(index).iter().map(|neighbour| {
        let attributes = topology.link(neighbour.link).attributes;
        (neighbour.port, attributes)
    });
    let shared = topology.buffer_of(index);
    let ports = Ports::new(links, topology.switching(), shared, station(index));
    let node = SwitchNode::new(
        Server::with_programs(Switch::new(options), programs.clone()),
        bf_rt_schema.map(BfRuntime::new),
        model.fidelity == Fidelity::Fast,
        model.pipeline_latency,
        model.control_latency,
        ports,
    );
    engine.add_node(&switch.name, Element::Switch(Box::new(node)))
}

/// MAC address of a switch, which only PAUSE frames use. MAC addresses of generated hosts begin with 02:00.
fn station(index: SwitchIndex) -> MacAddr {
    let [.., a, b, c, d] = index.0.to_be_bytes();
    MacAddr([0x02, 0x50, a, b, c, d])
}

fn add_host(
    engine: &mut Engine<Element>,
    topology: &Topology,
    index: HostIndex,
    model: &Model,
    run_seed: u64,
) -> Result<NodeId, BuildError> {
    let host = topology.host(index);
    let link = topology.link(topology.uplink(index).link).attributes;
    let host_seed = seed(run_seed, &format!("host {}", host.name));
    let mac = MacAddr(host.mac.0);
    let pfc = topology.switching().pfc;
    let config = HostConfig {
        dscp: pfc.map_or(0, |pfc| pfc.dscp()),
        ..HostConfig::new(
            &host.name,
            mac,
            host.ip,
            host.prefix_len,
            link.mtu,
            host_seed,
        )
    };
    let machine = Host::new(config).map_err(|error| BuildError::Host {
        host: host.name.clone(),
        error,
    })?;
    let node = HostNode::new(machine, *model, pfc.map(|_| link.rate_bps));
    Ok(engine.add_node(&host.name, Element::Host(Box::new(node))))
}
