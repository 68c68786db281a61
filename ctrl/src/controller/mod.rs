//! The controller as a state machine: events in, P4Runtime messages out.
//!
//! [`Controller::handle`] processes an event, [`Controller::poll`] returns the next effect, and
//! [`Controller::poll_timeout`] the time of the next [`Event::Timeout`]. The controller opens no socket and reads no clock:
//! `client` drives it over gRPC, the simulator in virtual time.
//!
//! The controller holds the desired state: routes from the topology, groups from requests. When a switch connects, the
//! controller reads its entries and writes the difference. Registers of groups that the switch has kept are not changed.

mod adoption;
mod boot;
mod bridge;
mod capacity;
mod change;
mod checkpoint;
mod config;
mod counting;
mod creation;
mod datagrams;
mod duplicate;
mod error;
mod event;
mod group;
mod health;
mod journal;
mod lease;
mod links;
mod locate;
mod mrp;
mod plan;
mod pool;
mod position;
mod procedure;
mod punt;
mod recovery;
mod registers;
mod registration;
mod removal;
mod saved;
mod session;
mod status;
mod timers;
mod underlay;
mod virtual_qpns;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;

pub use config::{ConfigError, ControllerConfig, GroupRange};
pub use error::{GroupError, SwitchError, SwitchRequest, UpdateKind};
pub use event::{
    ApiReply, ApiRequest, Effect, Event, GroupInfo, MemberSpec, MemoryRegion, RegisterGroup,
    Request, RequestId, Response, Tag,
};
pub use registers::RegisterControl;
pub use saved::RestoreError;
pub use status::{
    GroupOnSwitch, GroupState, GroupStatus, MrpStats, PuntStats, StatusReport, SwitchState,
    SwitchStatus,
};
pub use virtual_qpns::VirtualQpnError;

use adoption::Orphan;
use boot::{Boot, SwitchPhase};
use capacity::Capacity;
use change::{Change, Origin};
use counting::Counting;
use creation::Creation;
use datagrams::Datagrams;
use health::Health;
use lease::Leases;
use links::Markers;
use mrp::Mrp;
use pool::Pool;
use punt::Punts;
use recovery::Recoveries;
use registration::Registration;
use removal::Removal;
use session::{Context, Notice, Output, Session, Task, TaskId};
use underlay::Underlay;
use virtual_qpns::VirtualQpns;

use crate::constants::REGISTER_OP_INIT_GROUP;
use crate::tables::{Program, Snapshot};
use crate::topology::{Paths, SwitchIndex, Topology};
use crate::tree::{Planner, PortLoads, View};

/// Controller of one network: the desired state of its switches and groups, and all pending work.
pub struct Controller {
    topology: Topology,
    underlay: Underlay,
    planner: Planner,
    config: ControllerConfig,
    program: Program,
    /// Hash of the pipeline configuration, computed once because the configuration is large.
    fingerprint: u64,
    switches: Vec<SwitchControl>,
    groups: BTreeMap<Ipv4Addr, Registration>,
    addresses: Pool,
    virtual_qpns: VirtualQpns,
    loads: PortLoads,
    /// Procedure or request that waits for the result of each task.
    tasks: BTreeMap<TaskId, Owner>,
    next_task: u64,
    /// Flush tasks that are not started yet, with the port of a switch whose earlier frames must have arrived at the
    /// neighbour.
    flushes: VecDeque<((SwitchIndex, u32), TaskId)>,
    /// Switches whose sessions may have notices or output to collect.
    sessions_with_output: BTreeSet<SwitchIndex>,
    /// Time of the next timeout of each session.
    timers: BTreeSet<(u64, SwitchIndex)>,
    effects: VecDeque<Effect>,
    was_ready: bool,
    /// Whether groups found on switches may still be adopted. True until every switch has been ready once.
    may_adopt: bool,
    /// Group parts found on switches that this controller did not write, by group.
    orphans: BTreeMap<Ipv4Addr, BTreeSet<(SwitchIndex, u16)>>,
    /// Switches that are not ready: they may lack the pipeline, routes or groups.
    unready: BTreeSet<SwitchIndex>,
    mrp: Mrp,
    health: Health,
    leases: Leases,
    punts: Punts,
    recoveries: Recoveries,
    /// Time of the next read of group positions.
    checkpoint_at: u64,
    markers: Markers,
    counting: Counting,
    datagrams: Datagrams,
}

/// The controller's state of one switch.
struct SwitchControl {
    session: Session,
    boot: SwitchPhase,
    /// Entries found on the switch, kept until groups are adopted.
    found: Snapshot,
    capacity: Capacity,
    /// Index and address of groups whose entries could not be deleted from the switch. They are not reused until it
    /// reconnects.
    leftovers: BTreeSet<(u32, Ipv4Addr)>,
    /// Group parts found on the switch that this controller did not write, by index.
    orphans: BTreeMap<u16, Orphan>,
    /// Time of the session's entry in [`Controller::timers`]; `None` without an entry.
    timer: Option<u64>,
}

/// Procedure or request that receives the result of a task.
#[derive(Clone, Copy, Debug)]
enum Owner {
    Boot(SwitchIndex),
    Creation(Creation),
    Change(Ipv4Addr),
    Removal(Ipv4Addr),
    Adoption(Ipv4Addr),
    /// Progress check of a group.
    StallMonitor(Ipv4Addr),
    /// Read of a group's position.
    Checkpoint(Ipv4Addr),
    /// Recovery of a group's position on a switch.
    Recovery(recovery::PartKey),
    /// Check of a group's lease.
    Lease(Ipv4Addr),
    /// Read of a path's register, for a group whose ACKs the controller aggregates.
    Path(SwitchIndex, u16),
    /// A change of a datagram group.
    Datagrams(Tag),
    /// The result is not needed.
    Detached,
}

impl Controller {
    /// Creates a controller of a network, before any switch is connected.
    ///
    /// # Errors
    ///
    /// The pipeline is not supported, or the pipeline or the group addresses do not fit the topology.
    pub fn new(topology: Topology, config: ControllerConfig) -> Result<Controller, ConfigError> {
        let program = Program::resolve(&config.p4info)?;
        config.check(&topology)?;
        let planner = Planner::new(config.policy, &topology)?;
        let underlay = Underlay::new(&topology, Paths::new(&topology), config.group_range);
        underlay.check(&program, &topology)?;
        let switches = topology
            .switches()
            .iter()
            .map(|switch| SwitchControl {
                session: Session::new(switch.name.clone(), switch.device_id),
                boot: SwitchPhase::Off,
                found: Snapshot::default(),
                capacity: Capacity::new(&program.sizes),
                leftovers: BTreeSet::new(),
                orphans: BTreeMap::new(),
                timer: None,
            })
            .collect();
        let (first, last) = config.group_range.bounds();
        Ok(Controller {
            unready: topology.switch_indexes().collect(),
            topology,
            underlay,
            planner,
            fingerprint: session::fingerprint(&config.device_config),
            program,
            switches,
            groups: BTreeMap::new(),
            addresses: Pool::new(first, last),
            virtual_qpns: VirtualQpns::new(config.virtual_qpn_seed),
            config,
            loads: PortLoads::default(),
            tasks: BTreeMap::new(),
            next_task: 0,
            flushes: VecDeque::new(),
            sessions_with_output: BTreeSet::new(),
            timers: BTreeSet::new(),
            effects: VecDeque::new(),
            was_ready: false,
            may_adopt: true,
            orphans: BTreeMap::new(),
            mrp: Mrp::default(),
            health: Health::default(),
            leases: Leases::default(),
            punts: Punts::default(),
            recoveries: Recoveries::default(),
            checkpoint_at: 0,
            markers: Markers::default(),
            counting: Counting::default(),
            datagrams: Datagrams::default(),
        })
    }

    /// The network that this controller manages.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Whether every switch has its pipeline, routes and groups.
    pub fn is_ready(&self) -> bool {
        self.unready.is_empty()
    }

    /// Processes an event at time `now`: nanoseconds since any epoch, monotonic.
    pub fn handle(&mut self, now: u64, event: Event) {
        self.handle_all(now, [event]);
    }

    /// Processes events received by `now`. ACKs and NAKs that switches have passed to the controller are aggregated over
    /// all events before replies are sent.
    pub fn handle_all(&mut self, now: u64, events: impl IntoIterator<Item = Event>) {
        for event in events {
            self.process_event(now, event);
            self.process_notices(now);
        }
        self.reply_to_punted_frames(now);
        self.process_notices(now);
    }

    fn process_event(&mut self, now: u64, event: Event) {
        match event {
            Event::SwitchUp { switch } => self.with_session(switch, |s, c| s.up(now, c)),
            Event::SwitchDown { switch, why } => self.with_session(switch, |s, _| s.down(&why)),
            Event::Reply {
                switch,
                request,
                result,
            } => self.with_session(switch, |s, c| s.reply(now, c, request, result)),
            Event::Stream { switch, message } => {
                self.with_session(switch, |s, c| s.stream(now, c, message));
            }
            Event::Api(ApiRequest::Register { tag, group }) => self.register(now, tag, group),
            Event::Api(ApiRequest::Deregister { tag, mcst_id }) => {
                self.deregister(now, tag, mcst_id);
            }
            Event::Api(ApiRequest::Join {
                tag,
                mcst_id,
                member,
            }) => self.join_for_user(now, tag, mcst_id, member),
            Event::Api(ApiRequest::Leave {
                tag,
                mcst_id,
                members,
            }) => self.leave(now, Origin::Api(tag), mcst_id, members),
            Event::Api(ApiRequest::Suspect { tag, mcst_id }) => self.suspect(now, tag, mcst_id),
            Event::Api(ApiRequest::Refresh { tag, mcst_id }) => self.refresh(now, tag, mcst_id),
            Event::Api(ApiRequest::JoinDatagrams { tag, group, host }) => {
                self.change_datagram_group(now, tag, group, host, true);
            }
            Event::Api(ApiRequest::LeaveDatagrams { tag, group, host }) => {
                self.change_datagram_group(now, tag, group, host, false);
            }
            Event::Link { link, is_up } => self.link_changed(now, link, is_up),
            Event::Api(ApiRequest::Count { tag }) => self.count(now, tag),
            Event::Api(ApiRequest::Status { tag }) => {
                let report = self.status();
                self.queue_reply(ApiReply::Status { tag, report });
            }
            Event::Timeout => self.expire_timers(now),
        }
    }

    /// Returns the next effect; `None` if there is none.
    pub fn poll(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Time at which the driver must send [`Event::Timeout`], in nanoseconds; `None` if none is needed. Earlier or
    /// additional timeouts have no effect.
    pub fn poll_timeout(&self) -> Option<u64> {
        let sessions = self.timers.first().map(|(at, _)| *at);
        [
            sessions,
            self.mrp.poll_timeout(),
            self.health.poll_timeout(),
            self.leases.poll_timeout(),
            self.recoveries.poll_timeout(),
            self.markers.poll_timeout(),
            self.next_checkpoint(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Reports the state of switches and groups.
    pub fn status(&self) -> StatusReport {
        let switches = self.topology.switch_indexes().map(|index| {
            let control = &self.switches[index.0];
            SwitchStatus {
                name: self.topology.switch(index).name.clone(),
                state: control.state(),
                groups: control.capacity.groups(),
                round_trip_ns: control.session.round_trip(),
            }
        });
        StatusReport {
            switches: switches.collect(),
            groups: self
                .groups
                .values()
                .map(|registration| self.group_status(registration))
                .collect(),
            avoided: self.health.avoided(&self.topology),
            registrations: self.mrp_stats(),
            punts: self.punts.stats,
        }
    }

    /// Input of tree policies: topology, shortest paths without failed links, and loads of ports.
    fn view(&self) -> View<'_> {
        View {
            topology: &self.topology,
            paths: self.paths(),
            loads: &self.loads,
        }
    }

    fn paths(&self) -> &Paths {
        &self.underlay.paths
    }

    fn queue_reply(&mut self, reply: ApiReply) {
        self.effects.push_back(Effect::Api(reply));
    }

    fn with_session(&mut self, switch: SwitchIndex, act: impl FnOnce(&mut Session, &Context)) {
        let context = Context {
            config: &self.config,
            program: &self.program,
            fingerprint: self.fingerprint,
        };
        act(&mut self.switches[switch.0].session, &context);
        self.sessions_with_output.insert(switch);
    }

    fn submit(&mut self, now: u64, switch: SwitchIndex, owner: Owner, task: Task) -> TaskId {
        if let Task::Registers(access) = &task {
            if access.op == REGISTER_OP_INIT_GROUP {
                self.punts.registers_initialised((switch, access.group));
            }
        }
        self.next_task += 1;
        let id = TaskId(self.next_task);
        self.tasks.insert(id, owner);
        if let Task::Flush { port } = task {
            self.flushes.push_back(((switch, port), id));
            self.sessions_with_output.insert(switch);
            return id;
        }
        self.with_session(switch, |session, context| {
            session.submit(now, context, id, task);
        });
        id
    }

    fn expire_timers(&mut self, now: u64) {
        let due: Vec<_> = self
            .timers
            .iter()
            .take_while(|(at, _)| *at <= now)
            .map(|(_, switch)| *switch)
            .collect();
        for switch in due {
            self.with_session(switch, |s, c| s.timeout(now, c));
        }
        self.mrp_timeout(now);
        self.health_timeout(now);
        self.lease_timeout(now);
        self.recovery_timeout(now);
        self.marker_timeout(now);
        self.checkpoint_timeout(now);
    }

    /// Processes the notices of all sessions until there are none, and collects the messages to their switches.
    fn process_notices(&mut self, now: u64) {
        while let Some(switch) = self.sessions_with_output.pop_first() {
            while let Some((from, task)) = self.flushes.pop_front() {
                self.flush(now, from, task);
            }
            while let Some(notice) = self.switches[switch.0].session.poll_notice() {
                match notice {
                    Notice::Open(found) => self.start_boot(now, switch, found),
                    Notice::Mrp(port, frame) => self.mrp_frame(now, switch, port, &frame),
                    Notice::Counted(task, result) => {
                        self.tasks.remove(&task);
                        self.counted(task, result);
                    }
                    Notice::PuntedFrame {
                        reason,
                        port,
                        payload,
                    } => self.punted_frame(now, switch, reason, port, payload),
                    Notice::Failed(error) => self.switch_failed(now, switch, error),
                    Notice::Done(task, result) => self.task_done(now, task, result),
                }
            }
            self.collect_output(switch);
        }
        let is_ready = self.is_ready();
        if is_ready && !self.was_ready {
            self.queue_reply(ApiReply::Ready);
        }
        self.was_ready = is_ready;
        if is_ready && self.may_adopt {
            self.may_adopt = false;
            self.adopt_groups(now);
            self.process_notices(now);
        }
    }

    /// Passes the result of a task to its owner.
    fn task_done(&mut self, now: u64, task: TaskId, result: Result<u64, SwitchError>) {
        match self.tasks.remove(&task) {
            Some(Owner::Boot(switch)) => {
                self.advance::<Boot>(now, switch, task, result);
            }
            Some(Owner::Creation(creation)) => {
                self.advance::<Creation>(now, creation, task, result);
            }
            Some(Owner::Change(mcst_id)) => {
                self.advance::<Change>(now, mcst_id, task, result);
            }
            Some(Owner::Removal(mcst_id)) => {
                self.advance::<Removal>(now, mcst_id, task, result);
            }
            Some(Owner::StallMonitor(mcst_id)) => {
                self.acked_psn_read(now, mcst_id, task, result);
            }
            Some(Owner::Checkpoint(mcst_id)) => self.checkpoint_read(mcst_id, result),
            Some(Owner::Recovery(part)) => {
                self.recovery_read(now, part, task, result);
            }
            Some(Owner::Lease(mcst_id)) => self.lease_read(now, mcst_id, &result),
            Some(Owner::Path(switch, group)) => {
                self.path_read((switch, group), task, result);
            }
            Some(Owner::Adoption(mcst_id)) => self.adoption_done(mcst_id, result),
            Some(Owner::Datagrams(tag)) => self.datagram_write_done(tag, task, result),
            Some(Owner::Detached) | None => {}
        }
    }

    fn collect_output(&mut self, switch: SwitchIndex) {
        let control = &mut self.switches[switch.0];
        while let Some(output) = control.session.poll_output() {
            self.effects.push_back(match output {
                Output::Request(request, body) => Effect::Request {
                    switch,
                    request,
                    body,
                },
                Output::Stream(message) => Effect::Stream { switch, message },
            });
        }
        let timer = control.session.poll_timeout();
        if timer != control.timer {
            if let Some(old) = std::mem::replace(&mut control.timer, timer) {
                self.timers.remove(&(old, switch));
            }
            if let Some(new) = timer {
                self.timers.insert((new, switch));
            }
        }
    }
}

impl SwitchControl {
    fn state(&self) -> SwitchState {
        match self.session.check_open() {
            _ if self.boot.is_ready() => SwitchState::Ready,
            Ok(()) => SwitchState::Starting,
            Err(_) if self.session.is_starting() => SwitchState::Starting,
            Err(why) => SwitchState::Down {
                why: why.to_owned(),
            },
        }
    }
}
