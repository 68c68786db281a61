//! The network that the controller manages: topology, program, paths, and the switches with their sessions.

use std::sync::Arc;

use alfirk_p4runtime::p4::v1::{forwarding_pipeline_config::Cookie, ForwardingPipelineConfig};

use super::config::{ConfigError, ControllerConfig};
use super::event::ApiReply;
use super::session::{self, Context, Session, Task, TaskId};
use super::switches::{Owner, Switches};
use super::underlay::Underlay;
use crate::tables::{PacketOutHeader, Program};
use crate::topology::{HostIndex, Node, Paths, SwitchIndex, Topology};
use crate::tree::{Planner, PortLoads, Tree, View};

/// The network: what all parts of the controller read, and the switches, to which they submit tasks and frames.
pub(super) struct Network {
    topology: Topology,
    config: ControllerConfig,
    program: Program,
    planner: Planner,
    /// Routes and other entries that do not depend on groups, without failed links and switches.
    underlay: Underlay,
    /// Number of groups whose trees use each port.
    loads: PortLoads,
    /// The configured pipeline as switches load it. It is large, so all calls share it.
    pipeline: Arc<ForwardingPipelineConfig>,
    switches: Switches,
}

impl Network {
    /// Creates a network without failures, before any switch is connected.
    pub(super) fn new(
        topology: Topology,
        config: ControllerConfig,
    ) -> Result<Network, ConfigError> {
        let program = Program::resolve(&config.p4info)?;
        program.check_strategies(&config.strategies)?;
        if config.ecn.is_some() && program.ecn_marking.is_none() {
            return Err(ConfigError::NoEcnMarks);
        }
        config.check(&topology)?;
        let planner = Planner::new(config.policy, &topology)?;
        let underlay = Underlay::new(&topology, Paths::new(&topology), config.group_range);
        underlay.check(&program, &topology)?;
        Ok(Network {
            switches: Switches::new(&topology),
            pipeline: Arc::new(ForwardingPipelineConfig {
                p4info: Some(config.p4info.clone()),
                p4_device_config: config.device_config.clone(),
                cookie: Some(Cookie {
                    cookie: session::fingerprint(&config.device_config),
                }),
            }),
            topology,
            config,
            program,
            planner,
            underlay,
            loads: PortLoads::default(),
        })
    }

    pub(super) fn topology(&self) -> &Topology {
        &self.topology
    }

    pub(super) fn config(&self) -> &ControllerConfig {
        &self.config
    }

    pub(super) fn program(&self) -> &Program {
        &self.program
    }

    /// The policy by which trees are grown.
    pub(super) fn planner(&self) -> &Planner {
        &self.planner
    }

    /// The switches, with their phases, tasks and sessions.
    pub(super) fn switches(&self) -> &Switches {
        &self.switches
    }

    pub(super) fn switches_mut(&mut self) -> &mut Switches {
        &mut self.switches
    }

    /// The topology, and the switches to change.
    pub(super) fn topology_and_switches(&mut self) -> (&Topology, &mut Switches) {
        (&self.topology, &mut self.switches)
    }

    /// Entries that do not depend on groups, without failed links and switches.
    pub(super) fn underlay(&self) -> &Underlay {
        &self.underlay
    }

    /// Replaces the entries that do not depend on groups, and the paths. Returns the old ones.
    pub(super) fn replace_underlay(&mut self, underlay: Underlay) -> Underlay {
        std::mem::replace(&mut self.underlay, underlay)
    }

    /// Grows the tree of a group with members at these hosts, the leader's first.
    pub(super) fn grow_tree(&self, hosts: &[HostIndex]) -> Tree {
        Tree::grow(&self.planner, &self.view(), hosts)
    }

    /// Counts the ports of a group's tree as loaded.
    pub(super) fn add_load(&mut self, tree: &Tree) {
        self.loads.add(tree);
    }

    /// Counts the ports of a group's tree as no longer loaded.
    pub(super) fn remove_load(&mut self, tree: &Tree) {
        self.loads.remove(tree);
    }

    /// Input of tree policies: topology, shortest paths without failed links, and loads of ports.
    pub(super) fn view(&self) -> View<'_> {
        View {
            topology: &self.topology,
            paths: self.paths(),
            loads: &self.loads,
        }
    }

    /// Shortest paths without failed links and switches.
    pub(super) fn paths(&self) -> &Paths {
        &self.underlay.paths
    }

    /// Whether a switch has its pipeline, routes and groups.
    pub(super) fn is_ready(&self, switch: SwitchIndex) -> bool {
        self.switches.is_ready(switch)
    }

    /// Switches that are ready, in the order of the topology.
    pub(super) fn ready_switches(&self) -> Vec<SwitchIndex> {
        let switches = self.topology.switch_indexes();
        switches.filter(|switch| self.is_ready(*switch)).collect()
    }

    /// Name of a switch.
    pub(super) fn name(&self, switch: SwitchIndex) -> &str {
        &self.topology.switch(switch).name
    }

    /// Host at a port of a switch; `None` if the port leads to another switch or is not connected.
    pub(super) fn host_at_port(&self, switch: SwitchIndex, port: u32) -> Option<HostIndex> {
        match self.topology.neighbour_at(switch, port)?.peer.node {
            Node::Host(host) => Some(host),
            Node::Switch(_) => None,
        }
    }

    /// Starts a task on a switch. Its result is passed to `owner`.
    pub(super) fn submit(
        &mut self,
        now: u64,
        switch: SwitchIndex,
        owner: Owner,
        task: Task,
    ) -> TaskId {
        let (context, switches) = self.sessions();
        switches.submit(now, &context, switch, owner, task)
    }

    /// Sends a frame from a port of a switch; dropped if the switch is not connected.
    pub(super) fn send_frame(&mut self, switch: SwitchIndex, port: u32, frame: Vec<u8>) {
        self.with_session(switch, |session, context| {
            session.send_frame(context, port, frame);
        });
    }

    /// Sends a PacketOut to the pipeline of a switch; dropped if the switch is not connected.
    pub(super) fn send_packet(
        &mut self,
        switch: SwitchIndex,
        header: PacketOutHeader,
        payload: Vec<u8>,
    ) {
        self.with_session(switch, |session, context| {
            session.send_packet(context, header, payload);
        });
    }

    /// Queues a reply or notification to clients.
    pub(super) fn reply(&mut self, reply: ApiReply) {
        self.switches.reply(reply);
    }

    /// Calls a method of the session with a switch.
    pub(super) fn with_session(
        &mut self,
        switch: SwitchIndex,
        act: impl FnOnce(&mut Session, &Context),
    ) {
        let (context, switches) = self.sessions();
        switches.with_session(switch, |session| act(session, &context));
    }

    /// Passes a timeout to the sessions whose timers are due.
    pub(super) fn session_timeout(&mut self, now: u64) {
        let (context, switches) = self.sessions();
        switches.timeout(now, &context);
    }

    /// The sessions, and the data that their methods need.
    fn sessions(&mut self) -> (Context<'_>, &mut Switches) {
        let context = Context {
            config: &self.config,
            program: &self.program,
            pipeline: &self.pipeline,
        };
        (context, &mut self.switches)
    }
}

#[cfg(test)]
impl Network {
    pub(super) fn config_mut(&mut self) -> &mut ControllerConfig {
        &mut self.config
    }

    pub(super) fn program_mut(&mut self) -> &mut Program {
        &mut self.program
    }

    pub(super) fn loads(&self) -> &PortLoads {
        &self.loads
    }
}
