//! Fault injection: a request fails at every step of every procedure, on every switch that takes part, in every way.
//!
//! The steps are taken from the procedures, so new ones are tested automatically.  Afterwards the fabric is in its state before
//! the request or in the requested one, no index, slot or address is leaked, and the next requests succeed.

use std::collections::BTreeSet;

use alfirk_p4runtime::p4::config::v1::P4Info;
use alfirk_p4runtime::p4::v1::stream_message_request;

use super::mrp::{World, GROUP};
use super::*;
use crate::constants::{PACKET_OUT_REGISTERS, REGISTER_STATUS_OUT_OF_RANGE};
use crate::controller::procedure::{Procedure, Run};
use crate::tables::Target;
use crate::topology::leaf_spine;

/// Fault in the handling of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::controller) enum Kind {
    /// The switch rejects the whole request.
    Refuse,
    /// The switch executes all updates of the request except the last.
    RefuseLast,
    /// The request is lost.
    LoseRequest,
    /// The switch executes the request, but its reply is lost.
    LoseAnswer,
    /// The switch restarts instead, and loses its state.
    Die,
}

const KINDS: [Kind; 5] = [
    Kind::Refuse,
    Kind::RefuseLast,
    Kind::LoseRequest,
    Kind::LoseAnswer,
    Kind::Die,
];

/// Place and kind of a fault.
#[derive(Clone, Copy, Debug)]
pub(in crate::controller) struct Fault {
    procedure: &'static str,
    step: &'static str,
    /// Whether the fault occurs while the step is being undone.
    is_undo: bool,
    switch: SwitchIndex,
    kind: Kind,
    occurred: bool,
}

impl Fault {
    /// The fault of a message to a switch; `None` if the message is not affected.
    pub(super) fn meets(&mut self, controller: &Controller, effect: &Effect) -> Option<Kind> {
        let to = asked(controller, effect)?;
        let is_packet = matches!(effect, Effect::Stream { .. });
        let here = (self.procedure, self.step, self.is_undo);
        let is_now = to == self.switch && steps_under_way(controller).contains(&here);
        // Register accesses are retransmitted, so the fault must affect all copies.
        let stays = is_packet && matches!(self.kind, Kind::LoseRequest | Kind::LoseAnswer);
        if !is_now || self.occurred && !stays {
            return None;
        }
        self.occurred = true;
        Some(self.kind)
    }
}

/// The destination of a call or a register access.
pub(super) fn asked(controller: &Controller, effect: &Effect) -> Option<SwitchIndex> {
    match effect {
        Effect::Request { switch, .. } => Some(*switch),
        Effect::Stream { switch, message } => {
            let Some(stream_message_request::Update::Packet(packet)) = &message.update else {
                return None;
            };
            let header = controller
                .network
                .program()
                .packet_io
                .packet_out_header(packet)?;
            (header.kind == PACKET_OUT_REGISTERS).then_some(*switch)
        }
        Effect::Api(_) => None,
    }
}

/// The reply to a rejected register access.
pub(super) fn refused(mut access: RegisterControl) -> RegisterControl {
    access.status = REGISTER_STATUS_OUT_OF_RANGE;
    access
}

/// The active procedures with their current steps, and whether these are being undone.
pub(super) fn steps_under_way(
    controller: &Controller,
) -> BTreeSet<(&'static str, &'static str, bool)> {
    fn step<P: Procedure>(run: Option<&Run<P>>) -> Option<(&'static str, &'static str, bool)> {
        let (step, is_undo) = run?.step()?;
        Some((P::NAME, step, is_undo))
    }
    let parts = &controller.parts();
    let mut steps = BTreeSet::new();
    for switch in controller.network.topology().switch_indexes() {
        steps.extend(step(Boot::find(parts, switch)));
        for mcst_id in controller.groups.addresses() {
            let agent = Some(switch);
            steps.extend(step(Creation::find(parts, Creation { mcst_id, agent })));
        }
    }
    for mcst_id in controller.groups.addresses() {
        let agent = None;
        steps.extend(step(Creation::find(parts, Creation { mcst_id, agent })));
        steps.extend(step(Change::find(parts, mcst_id)));
        steps.extend(step(Removal::find(parts, mcst_id)));
    }
    steps
}

/// A test case for a procedure.
struct Scenario {
    name: &'static str,
    /// Creates a fabric in which the procedure can start.
    prepare: fn() -> FakeFabric,
    /// Starts the procedure, and waits until it has ended.
    ask: fn(FakeFabric) -> FakeFabric,
}

/// Kinds of entries, ports of groups, and free resources.
type Shape<'a> = (
    Vec<Vec<&'a str>>,
    Vec<(&'a str, &'a [u32])>,
    &'a [[usize; 4]],
);

/// State that must equal that before the request, or the requested one.
#[derive(Debug, PartialEq)]
struct Picture {
    entries: Vec<Vec<String>>,
    /// Groups with initialised registers: switch and index to number of paths.
    registers: BTreeMap<(String, u16), u8>,
    groups: Vec<GroupStatus>,
    /// Free indexes, slots and entries of each switch.
    left: Vec<[usize; 4]>,
    addresses: usize,
    loads: PortLoads,
    leftovers: usize,
}

impl Picture {
    fn of(fabric: &FakeFabric) -> Picture {
        let controller = &fabric.controller;
        let groups = controller.status().groups;
        let mut registers = BTreeMap::new();
        for on in groups.iter().flat_map(|group| &group.switches) {
            let held = &fabric.switches[fabric.switch(&on.switch).0].registers;
            let Some((paths, _)) = held.get(&on.group_index).copied() else {
                continue;
            };
            // Their PSN is not compared, since it depends on the state that the failed switches lost (`restart.rs`).
            registers.insert((on.switch.clone(), on.group_index), paths);
        }
        let tasks = controller.network.switches().tasks();
        assert!(tasks.is_empty(), "{tasks:?}");
        assert_eq!(steps_under_way(controller), BTreeSet::new());
        Picture {
            entries: fabric.contents(),
            registers,
            groups,
            left: controller
                .topology()
                .switch_indexes()
                .map(|switch| controller.groups.resources().capacity(switch).left())
                .collect(),
            addresses: controller.groups.resources().addresses_in_use(),
            loads: controller.network.loads().clone(),
            leftovers: controller.groups.resources().leftovers(),
        }
    }

    /// This state without indexes.
    fn shape(&self) -> Shape<'_> {
        let kind = |text: &String| {
            text.find(|c: char| c.is_ascii_digit())
                .unwrap_or(text.len())
        };
        let kinds = |of: &Vec<String>| -> Vec<usize> { of.iter().map(kind).collect() };
        let entries = self.entries.iter().map(|of| {
            let mut kinds: Vec<&str> = of.iter().zip(kinds(of)).map(|(t, at)| &t[..at]).collect();
            kinds.sort_unstable();
            kinds
        });
        let parts = self.groups.iter().flat_map(|group| &group.switches);
        let parts = parts.map(|on| (&on.switch[..], &on.ports[..]));
        (entries.collect(), parts.collect(), &self.left)
    }
}

/// Injects all faults at all steps of a procedure that send requests; returns these steps.
fn try_all<P: Procedure>(scenario: &Scenario) -> BTreeSet<&'static str> {
    let mut fabric = (scenario.prepare)();
    fabric.seen = Some(BTreeSet::new());
    let fabric = (scenario.ask)(fabric);
    let mut met = BTreeSet::new();
    for (procedure, step, switch) in fabric.seen.iter().flatten().copied() {
        if procedure != P::NAME {
            continue;
        }
        met.insert(step);
        for kind in KINDS {
            let fault = Fault {
                procedure,
                step,
                is_undo: false,
                switch,
                kind,
                occurred: false,
            };
            try_one(scenario, &fabric, &[fault]);
        }
    }
    met
}

/// Injects `faults`; `asked` is the resulting fabric without faults.
fn try_one(scenario: &Scenario, asked: &FakeFabric, faults: &[Fault]) {
    let kind = faults[0].kind;
    let case = format!("{}: {faults:?}", scenario.name);
    let mut fabric = (scenario.prepare)();
    let before = Picture::of(&fabric);
    fabric.faults = faults.to_vec();
    fabric = (scenario.ask)(fabric);
    let occurred = std::mem::take(&mut fabric.faults);
    assert!(occurred.iter().all(|fault| fault.occurred), "{case}");
    if fabric.needs_reading(&occurred) {
        for fault in &occurred {
            fabric.disconnect(fault.switch);
            fabric.connect(fault.switch);
            fabric.wait();
        }
    }
    assert!(fabric.controller.is_ready(), "{case}: {:?}", fabric.said);
    let after = Picture::of(&fabric);
    let asked = Picture::of(asked);
    // A leader that does not receive the error repeats its request, and gets a group with another index.
    let is_as_asked = after == asked || kind == Kind::Die && after.shape() == asked.shape();
    if !is_as_asked {
        assert_eq!(after, before, "{case}: {:?}", fabric.said);
    }
    next_requests_work(fabric, &case);
}

impl FakeFabric {
    /// Whether entries can stay on a switch until it reconnects.
    fn needs_reading(&self, occurred: &[Fault]) -> bool {
        let controller = &self.controller;
        let is_in_doubt = |fault: &Fault| {
            let is_refusal = matches!(fault.kind, Kind::Refuse | Kind::RefuseLast);
            // Removals and the clean-up of a change are not undone.
            let is_irreversible = fault.procedure == Removal::NAME || fault.step == "clean up";
            !is_refusal || is_irreversible || fault.is_undo
        };
        occurred.iter().any(is_in_doubt) || !controller.is_ready()
    }
}

fn next_requests_work(mut fabric: FakeFabric, case: &str) {
    for group in fabric.controller.status().groups {
        fabric.said.clear();
        let removed = fabric.deregister(group.mcst_id);
        assert_eq!(removed, Ok(()), "{case}");
    }
    fabric.said.clear();
    let bare = Picture::of(&fabric);
    assert_eq!(bare.loads, PortLoads::default(), "{case}");
    assert_eq!(bare.addresses, 0, "{case}");
    let switches = fabric.controller.topology().switch_indexes();
    for (switch, left) in switches.zip(&bare.left) {
        let all = capacity::Capacity::new(&fabric.controller.network.program().sizes).left();
        let capacity = fabric.controller.groups.resources().capacity(switch);
        assert_eq!((capacity.groups(), *left), (0, all), "{case}");
    }
    let group = fabric.register(&["h1", "h3"]).expect(case);
    fabric.join(group.mcst_id, "h4").expect(case);
    fabric.leave(group.mcst_id, &["h4"]).expect(case);
    fabric.deregister(group.mcst_id).expect(case);
    assert_eq!(Picture::of(&fabric), bare, "{case}");
}

fn names<P: Procedure>() -> BTreeSet<&'static str> {
    P::STEPS.iter().map(|step| step.name).collect()
}

/// Two leaves with two hosts each, and `spines` spines; calls have a short timeout, and no switch is considered failed.
fn fabric(spines: u32) -> FakeFabric {
    fabric_of(spines, p4info::p4info())
}

fn fabric_of(spines: u32, p4info: P4Info) -> FakeFabric {
    let config = ControllerConfig {
        lease_ns: 0,
        dead_switch_ns: u64::MAX / 2,
        request_timeout_ns: 10_000_000,
        register_retry_ns: 2_000_000,
        register_attempts: 3,
        ..ControllerConfig::new(p4info, b"{}".to_vec())
    };
    let mut fabric = FakeFabric::with(leaf_spine(2, spines, 2).unwrap(), config);
    fabric.connect_all();
    fabric.said.clear();
    fabric
}

fn with_group(mut fabric: FakeFabric, hosts: &[&str]) -> FakeFabric {
    fabric.register(hosts).unwrap();
    // The last member is the source.
    let topology = fabric.controller.topology();
    let source = topology.host_named(hosts[hosts.len() - 1]).unwrap();
    let (leaf, port) = topology.attachment(source);
    fabric.switches[leaf.0].source = port;
    fabric
}

fn the_group(fabric: &FakeFabric) -> Ipv4Addr {
    fabric.controller.status().groups[0].mcst_id
}

fn ask(mut fabric: FakeFabric, request: ApiRequest) -> FakeFabric {
    fabric.handle(Event::Api(request));
    fabric.wait();
    fabric
}

const MAKING: Scenario = Scenario {
    name: "a user's group",
    prepare: || fabric(1),
    ask: |mut fabric| {
        let (tag, group) = (fabric.tag(), fabric.request(&["h1", "h2", "h3"]));
        ask(fabric, ApiRequest::Register { tag, group })
    },
};

const JOINING: Scenario = Scenario {
    name: "a member joins",
    prepare: || with_group(fabric(1), &["h1", "h3"]),
    ask: |mut fabric| {
        let (tag, mcst_id) = (fabric.tag(), the_group(&fabric));
        let member = fabric.request(&["h4"]).members[0];
        let join = ApiRequest::Join {
            tag,
            mcst_id,
            member,
        };
        ask(fabric, join)
    },
};

const LEAVING: Scenario = Scenario {
    name: "a member leaves",
    prepare: || with_group(fabric(1), &["h1", "h2", "h3"]),
    ask: |mut fabric| {
        let (tag, mcst_id) = (fabric.tag(), the_group(&fabric));
        let members = vec![fabric.request(&["h3"]).members[0].ip];
        let leave = ApiRequest::Leave {
            tag,
            mcst_id,
            members,
        };
        ask(fabric, leave)
    },
};

const REROUTING: Scenario = Scenario {
    name: "a link breaks",
    prepare: || with_group(fabric(2), &["h1", "h3"]),
    ask: |mut fabric| {
        let topology = fabric.controller.topology();
        let (leaf, _) = topology.attachment(topology.host_named("h1").unwrap());
        let group = &fabric.controller.status().groups[0];
        let on = group.switches.iter().find(|on| on.switch == "l1").unwrap();
        let up = on.ports.iter().find_map(|port| {
            let neighbour = topology.neighbour_at(leaf, *port)?;
            let is_switch = matches!(neighbour.peer.node, crate::topology::Node::Switch(_));
            is_switch.then_some(neighbour.link)
        });
        let (link, is_up) = (up.unwrap(), false);
        fabric.handle(Event::Link { link, is_up });
        fabric.wait();
        fabric.handle(Event::Link { link, is_up: true });
        fabric.wait();
        fabric
    },
};

/// A join with entries that have the group's address as key, which only Tofino's pipeline has.
const JOINING_BY_ADDRESS: Scenario = Scenario {
    name: "a member joins, entries by address",
    prepare: || {
        // The annotations of the other target's keys differ.
        let mut p4info = p4info::p4info();
        let params = p4info
            .actions
            .iter_mut()
            .flat_map(|action| &mut action.params);
        params.for_each(|param| param.annotations.clear());
        for table in &mut p4info.tables {
            let preamble = table.preamble.iter_mut();
            preamble.for_each(|preamble| preamble.annotations.clear());
            let fields = table.match_fields.iter_mut();
            fields.for_each(|field| field.annotations.clear());
        }
        let mut fabric = fabric_of(1, p4info);
        fabric.controller.network.program_mut().target = Target::Tofino;
        for switch in &mut fabric.switches {
            switch.trusting = true;
        }
        with_group(fabric, &["h1", "h3"])
    },
    ask: JOINING.ask,
};

const REMOVAL: Scenario = Scenario {
    name: "a group is removed",
    prepare: || with_group(fabric(1), &["h1", "h2", "h3"]),
    ask: |mut fabric| {
        let (tag, mcst_id) = (fabric.tag(), the_group(&fabric));
        ask(fabric, ApiRequest::Deregister { tag, mcst_id })
    },
};

#[test]
fn a_group_is_created_completely_or_not_at_all() {
    assert_eq!(try_all::<Creation>(&MAKING), names::<Creation>());
}

#[test]
fn a_group_is_created_in_band_completely_or_not_at_all() {
    let scenario = Scenario {
        name: "a leader's group",
        prepare: || fabric(1),
        ask: |fabric| {
            let mut world = World::over(fabric);
            let mut leader = world.leader(GROUP, &[0, 1, 2]);
            world.run(0, &mut leader);
            world.settle(0, &mut leader, 2_500);
            world.fabric
        },
    };
    assert_eq!(try_all::<Creation>(&scenario), names::<Creation>());
}

#[test]
fn a_join_completes_or_leaves_the_group_unchanged() {
    try_all::<Change>(&JOINING);
}

#[test]
fn a_leave_completes_or_leaves_the_group_unchanged() {
    try_all::<Change>(&LEAVING);
}

#[test]
fn a_reroute_completes_or_leaves_the_group_unchanged() {
    try_all::<Change>(&REROUTING);
}

#[test]
fn entries_by_address_are_replaced_or_unchanged() {
    let mut met = try_all::<Change>(&JOINING_BY_ADDRESS);
    // This change has all steps except the one for a new tree.
    met.insert("flush");
    assert_eq!(met, names::<Change>());
}

#[test]
fn a_removed_group_leaves_no_entries() {
    assert_eq!(try_all::<Removal>(&REMOVAL), names::<Removal>());
}

#[test]
fn a_started_switch_gets_all_its_entries() {
    let scenario = Scenario {
        name: "a switch starts",
        prepare: || {
            let mut fabric = with_group(fabric(1), &["h1", "h2", "h3"]);
            let mut other = with_group(self::fabric(1), &["h1", "h2"]);
            let mut foreign = other.request(&["h1", "h4"]);
            foreign.mcst_id = Some([10, 255, 9, 9].into());
            other.register_group(foreign).unwrap();
            let leaf = fabric.switch("l1");
            // Give each step some work: the group has lost a path, and so its registers.
            fabric.switches[leaf.0].copy_entries(&other.switches[leaf.0]);
            for lost in [
                "table ingress.group_lookup.mft",
                "table ingress.ipv4_routing.routes",
                "clone session",
            ] {
                fabric.switches[leaf.0].discard(lost);
            }
            fabric
        },
        ask: |mut fabric| {
            let leaf = fabric.switch("l1");
            fabric.disconnect(leaf);
            fabric.connect(leaf);
            fabric.wait();
            fabric
        },
    };
    assert_eq!(try_all::<Boot>(&scenario), names::<Boot>());
}

#[test]
fn failures_while_undoing_are_reported_with_the_first_failure() {
    let mut both = 0;
    for (scenario, procedure, last, steps) in [
        (&MAKING, Creation::NAME, "publication", names::<Creation>()),
        (&JOINING, Change::NAME, "publish", names::<Change>()),
    ] {
        let asked = (scenario.ask)((scenario.prepare)());
        for step in steps {
            for switch in [0, 1, 2].map(SwitchIndex) {
                let fault = Fault {
                    procedure,
                    step: last,
                    is_undo: false,
                    switch: SwitchIndex(1),
                    kind: Kind::Refuse,
                    occurred: false,
                };
                let undo = Fault {
                    step,
                    is_undo: true,
                    switch,
                    ..fault
                };
                let mut fabric = (scenario.prepare)();
                fabric.faults = vec![fault, undo];
                fabric = (scenario.ask)(fabric);
                if !fabric.faults.iter().all(|fault| fault.occurred) {
                    continue;
                }
                let error = fabric.said.iter().find_map(|reply| match reply {
                    ApiReply::Failed { error, .. } => Some(error),
                    _ => None,
                });
                let Some(GroupError::Unwind { initial, unwind }) = error else {
                    panic!("{step}: {error:?}");
                };
                assert!(matches!(**initial, GroupError::Switch(_)), "{step}");
                assert_eq!(unwind.len(), 1, "{step}");
                both += 1;
                try_one(scenario, &asked, &[fault, undo]);
            }
        }
    }
    // Creation: publication and entries on three switches each. Change: only one leaf has a new part, which is prepared,
    // withdrawn and published.
    assert_eq!(both, 2 * 3 + 3);
}
