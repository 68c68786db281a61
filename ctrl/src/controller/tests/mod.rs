//! The controller with switches in memory, without network: only the tests advance the time.

mod boot;
mod datagrams;
mod failures;
mod fake_switch;
mod faults;
mod groups;
mod icrc;
mod lease;
mod membership;
mod mrp;
pub(crate) mod p4info;
mod punt;
mod reconciliation;
mod restart;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use alfirk_roce::wire::{Psn, QpNum};

use super::boot::Boot;
use super::change::Change;
use super::creation::Creation;
use super::removal::Removal;
use super::session::Task;
use super::switches::Owner;
use super::*;
use crate::tables::Program;
use crate::topology::{LinkIndex, Paths, SwitchIndex, Topology};
use crate::tree::{Policy, PortLoads};
pub(crate) use fake_switch::{packet_in, FakeSwitch};
use faults::{asked, steps_under_way, Fault, Kind};

/// Virtual queue pair number of groups whose number a test or a leader chooses.
pub(super) const VIRTUAL_QPN: QpNum = QpNum::new(0xa1f);

/// A controller, its switches, and its replies.
pub(super) struct FakeFabric {
    pub(super) controller: Controller,
    pub(super) switches: Vec<FakeSwitch>,
    pub(super) said: Vec<ApiReply>,
    pub(super) now: u64,
    pub(super) faults: Vec<Fault>,
    /// Links that drop the controller's own frames.
    pub(super) cut: BTreeSet<LinkIndex>,
    /// If recorded: procedure, step and switch of each request.
    seen: Option<BTreeSet<(&'static str, &'static str, SwitchIndex)>>,
    next_tag: u64,
}

impl FakeFabric {
    pub(super) fn new(topology: Topology) -> FakeFabric {
        FakeFabric::new_with(topology, Policy::default())
    }

    fn new_with(topology: Topology, policy: Policy) -> FakeFabric {
        let config = ControllerConfig {
            policy,
            // Without leases, tests see the other timers more easily.
            lease_ns: 0,
            ..ControllerConfig::new(p4info::p4info(), b"{}".to_vec())
        };
        FakeFabric::with(topology, config)
    }

    pub(super) fn with(topology: Topology, config: ControllerConfig) -> FakeFabric {
        let program = Program::resolve(&config.p4info).unwrap();
        let switches = topology
            .switches()
            .iter()
            .map(|_| FakeSwitch::new(program.clone()))
            .collect();
        FakeFabric {
            controller: Controller::new(topology, config).unwrap(),
            switches,
            said: Vec::new(),
            now: 0,
            faults: Vec::new(),
            cut: BTreeSet::new(),
            seen: None,
            next_tag: 0,
        }
    }

    /// A fabric whose switches are all ready.
    pub(super) fn ready(topology: Topology) -> FakeFabric {
        FakeFabric::ready_with(topology, Policy::default())
    }

    /// Like `ready`, with this tree policy.
    pub(super) fn ready_with(topology: Topology, policy: Policy) -> FakeFabric {
        let mut fabric = FakeFabric::new_with(topology, policy);
        fabric.connect_all();
        assert!(fabric.controller.is_ready(), "{:?}", fabric.said);
        fabric.said.clear();
        fabric
    }

    pub(super) fn connect_all(&mut self) {
        for switch in self.controller.topology().switch_indexes() {
            self.connect(switch);
        }
    }

    pub(super) fn connect(&mut self, switch: SwitchIndex) {
        self.handle(Event::SwitchUp { switch });
    }

    pub(super) fn disconnect(&mut self, switch: SwitchIndex) {
        let why = "test".to_owned();
        self.handle(Event::SwitchDown { switch, why });
    }

    /// Replaces the controller by a new one with the same switches.
    pub(super) fn replace_controller(&mut self) {
        let topology = self.controller.topology().clone();
        let config = self.controller.network.config().clone();
        self.controller = Controller::new(topology, config).unwrap();
        self.said.clear();
    }

    pub(super) fn switch(&self, name: &str) -> SwitchIndex {
        self.controller.topology().switch_named(name).unwrap()
    }

    /// Processes an event, and delivers messages between controller and switches until none is left.
    pub(super) fn handle(&mut self, event: Event) {
        self.controller.handle(self.now, event);
        self.run();
    }

    pub(super) fn run(&mut self) {
        while let Some(effect) = self.controller.poll() {
            if let (Some(seen), Some(to)) = (&mut self.seen, asked(&self.controller, &effect)) {
                let steps = steps_under_way(&self.controller).into_iter();
                seen.extend(steps.map(|(procedure, step, _)| (procedure, step, to)));
            }
            let mut faults = self.faults.iter_mut();
            let fault = faults.find_map(|fault| fault.meets(&self.controller, &effect));
            match effect {
                Effect::Api(reply) => self.said.push(reply),
                Effect::Request { switch, .. } | Effect::Stream { switch, .. }
                    if fault == Some(Kind::Die) =>
                {
                    self.switches[switch.0].restart();
                    self.disconnect(switch);
                    self.connect(switch);
                }
                _ if fault == Some(Kind::LoseRequest) => {}
                Effect::Request {
                    switch,
                    request,
                    body,
                } => {
                    let fake = &mut self.switches[switch.0];
                    let result = fake.request_with(&body, fault);
                    if let Some(result) = result.filter(|_| fault != Some(Kind::LoseAnswer)) {
                        let event = Event::Reply {
                            switch,
                            request,
                            result,
                        };
                        self.controller.handle(self.now, event);
                    }
                }
                Effect::Stream { switch, message } => {
                    let answers = self.switches[switch.0].stream_with(&message, fault);
                    let answers = answers.into_iter();
                    for message in answers.filter(|_| fault != Some(Kind::LoseAnswer)) {
                        self.controller
                            .handle(self.now, Event::Stream { switch, message });
                    }
                    self.carry_markers(switch);
                }
            }
        }
    }

    /// Delivers the frames that the controller sends over links to the next switch.
    fn carry_markers(&mut self, switch: SwitchIndex) {
        let network = self.controller.network.config().group_range.network();
        let sent = std::mem::take(&mut self.switches[switch.0].sent);
        for (port, frame) in sent {
            let received = crate::controller::mrp::frame::parse(&frame);
            if received.is_none_or(|received| received.destination != network) {
                self.switches[switch.0].sent.push((port, frame));
                continue;
            }
            let behind = self.controller.topology().neighbour_at(switch, port);
            let Some(behind) = behind.filter(|behind| !self.cut.contains(&behind.link)) else {
                continue;
            };
            if let crate::topology::Node::Switch(switch) = behind.peer.node {
                let reason = crate::constants::PACKET_IN_MRP;
                let message = packet_in(reason, behind.peer.port, frame);
                self.controller
                    .handle(self.now, Event::Stream { switch, message });
            }
        }
    }

    /// Advances the time until only timers are left that expire in hours.
    pub(super) fn wait(&mut self) {
        let soon = |fabric: &FakeFabric| {
            let at = fabric.controller.poll_timeout();
            at.filter(|at| at - fabric.now.min(*at) < 3_600_000_000_000)
        };
        while let Some(at) = soon(self) {
            self.now = self.now.max(at);
            self.handle(Event::Timeout);
        }
    }

    pub(super) fn tag(&mut self) -> Tag {
        self.next_tag += 1;
        Tag(self.next_tag)
    }

    pub(super) fn register(&mut self, hosts: &[&str]) -> Result<GroupInfo, GroupError> {
        let group = self.request(hosts);
        self.register_group(group)
    }

    pub(super) fn register_group(&mut self, group: RegisterGroup) -> Result<GroupInfo, GroupError> {
        let tag = self.tag();
        self.handle(Event::Api(ApiRequest::Register { tag, group }));
        self.wait();
        match self.said.pop() {
            Some(ApiReply::GroupReady { tag: t, group }) if t == tag => Ok(group),
            Some(ApiReply::Failed { tag: t, error }) if t == tag => Err(error),
            other => panic!("unexpected: {other:?}"),
        }
    }

    pub(super) fn deregister(&mut self, mcst_id: Ipv4Addr) -> Result<(), GroupError> {
        let tag = self.tag();
        self.handle(Event::Api(ApiRequest::Deregister { tag, mcst_id }));
        self.wait();
        match self.said.pop() {
            Some(ApiReply::GroupRemoved { tag: t, .. }) if t == tag => Ok(()),
            Some(ApiReply::Failed { tag: t, error }) if t == tag => Err(error),
            other => panic!("unexpected: {other:?}"),
        }
    }

    pub(super) fn join(&mut self, mcst_id: Ipv4Addr, host: &str) -> Result<Psn, GroupError> {
        let tag = self.tag();
        let member = self.request(&[host]).members[0];
        self.handle(Event::Api(ApiRequest::Join {
            tag,
            mcst_id,
            member,
        }));
        self.wait();
        match self.said.pop() {
            Some(ApiReply::MemberJoined { tag: t, psn, .. }) if t == tag => Ok(psn),
            Some(ApiReply::Failed { tag: t, error }) if t == tag => Err(error),
            other => panic!("unexpected: {other:?}"),
        }
    }

    pub(super) fn leave(&mut self, mcst_id: Ipv4Addr, hosts: &[&str]) -> Result<(), GroupError> {
        let tag = self.tag();
        let members = self.request(hosts).members;
        self.handle(Event::Api(ApiRequest::Leave {
            tag,
            mcst_id,
            members: members.iter().map(|member| member.ip).collect(),
        }));
        self.wait();
        match self.said.pop() {
            Some(ApiReply::MembersLeft { tag: t, .. }) if t == tag => Ok(()),
            Some(ApiReply::Failed { tag: t, error }) if t == tag => Err(error),
            other => panic!("unexpected: {other:?}"),
        }
    }

    pub(super) fn suspect(&mut self, mcst_id: Ipv4Addr) {
        let tag = self.tag();
        self.handle(Event::Api(ApiRequest::Suspect { tag, mcst_id }));
    }

    /// Advances the time by `ns`.
    pub(super) fn pass(&mut self, ns: u64) {
        let until = self.now + ns;
        while let Some(at) = self.controller.poll_timeout().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.handle(Event::Timeout);
        }
        self.now = until;
    }

    /// The index of the only group on a switch, from the controller's status.
    pub(super) fn index_on(&self, switch: &str) -> u16 {
        let group = &self.controller.status().groups[0];
        let on = group.switches.iter().find(|on| on.switch == switch);
        on.unwrap().group_index
    }

    /// A request for a group of hosts; queue pairs are 0x100 plus the position.
    pub(super) fn request(&self, hosts: &[&str]) -> RegisterGroup {
        let topology = self.controller.topology();
        let members = (0x100..).zip(hosts).map(|(qpn, name)| MemberSpec {
            ip: topology.host(topology.host_named(name).unwrap()).ip,
            qpn: QpNum::new(qpn),
            region: None,
            may_send: true,
        });
        RegisterGroup {
            mcst_id: None,
            virtual_qpn: None,
            members: members.collect(),
            initial_psn: Psn::new(0xff_fff0),
            strategies: Default::default(),
        }
    }

    /// Entries and registers of all switches, as text.
    pub(super) fn contents(&self) -> Vec<Vec<String>> {
        self.switches.iter().map(FakeSwitch::contents).collect()
    }
}
