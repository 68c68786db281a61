//! Sessions with all switches, pending tasks, and the queue of effects for the driver.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;

use super::boot::SwitchPhase;
use super::creation::Creation;
use super::event::{ApiReply, Effect, Tag};
use super::punt::PartIndex;
use super::recovery::PartKey;
use super::session::{Context, Notice, Output, Session, Task, TaskId};
use super::status::SwitchState;
use super::timers::Timers;
use crate::constants::REGISTER_OP_INIT_GROUP;
use crate::topology::{SwitchIndex, Topology};

/// Procedure or request that receives the result of a task.
#[derive(Clone, Copy, Debug)]
pub(super) enum Owner {
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
    Recovery(PartKey),
    /// Check of a group's lease.
    Lease(Ipv4Addr),
    /// Read of a path's register, for a group whose ACKs the controller aggregates.
    Path(PartIndex),
    /// A change of a datagram group.
    Datagrams(Tag),
    /// The result is not needed.
    Detached,
}

/// Port of a switch whose earlier frames must have arrived at the neighbour, and the task that waits for it.
pub(super) type Flush = ((SwitchIndex, u32), TaskId);

/// Sessions with all switches, their pending tasks, and the effects that the driver has not polled.
pub(super) struct Switches {
    connections: Vec<Connection>,
    /// Switches that are not in use: they may lack the pipeline, routes or groups.
    unready: BTreeSet<SwitchIndex>,
    /// Procedure or request that waits for the result of each task.
    tasks: BTreeMap<TaskId, Owner>,
    next_task: u64,
    /// Flush tasks that are not started yet.
    flushes: VecDeque<Flush>,
    /// Switches whose sessions may have notices or output to collect.
    with_output: BTreeSet<SwitchIndex>,
    /// Time of the next timeout of each session.
    timers: Timers<SwitchIndex>,
    /// Parts of groups whose registers submitted tasks initialise, since the last [`Switches::take_initialised`].
    initialised: BTreeSet<PartIndex>,
    effects: VecDeque<Effect>,
}

/// The session with a switch, and the progress of the switch's boot procedure.
struct Connection {
    session: Session,
    phase: SwitchPhase,
}

impl Switches {
    /// Creates closed sessions with all switches of a topology.
    pub(super) fn new(topology: &Topology) -> Switches {
        let connections = topology.switches().iter().map(|switch| Connection {
            session: Session::new(switch.name.clone(), switch.device_id),
            phase: SwitchPhase::Off,
        });
        Switches {
            connections: connections.collect(),
            unready: topology.switch_indexes().collect(),
            tasks: BTreeMap::new(),
            next_task: 0,
            flushes: VecDeque::new(),
            with_output: BTreeSet::new(),
            timers: Timers::default(),
            initialised: BTreeSet::new(),
            effects: VecDeque::new(),
        }
    }

    /// Whether a switch has its pipeline, routes and groups.
    pub(super) fn is_ready(&self, switch: SwitchIndex) -> bool {
        self.connections[switch.0].phase.is_ready()
    }

    /// Whether all switches are ready.
    pub(super) fn are_all_ready(&self) -> bool {
        self.unready.is_empty()
    }

    /// State of a switch, for the status report.
    pub(super) fn state(&self, switch: SwitchIndex) -> SwitchState {
        let Connection { session, phase } = &self.connections[switch.0];
        match session.check_open() {
            _ if phase.is_ready() => SwitchState::Ready,
            Ok(()) => SwitchState::Starting,
            Err(_) if session.is_starting() => SwitchState::Starting,
            Err(why) => SwitchState::Down {
                why: why.to_owned(),
            },
        }
    }

    pub(super) fn session(&self, switch: SwitchIndex) -> &Session {
        &self.connections[switch.0].session
    }

    pub(super) fn phase(&self, switch: SwitchIndex) -> &SwitchPhase {
        &self.connections[switch.0].phase
    }

    pub(super) fn phase_mut(&mut self, switch: SwitchIndex) -> &mut SwitchPhase {
        &mut self.connections[switch.0].phase
    }

    /// Sets the phase of a switch, and returns the former one.
    pub(super) fn enter(&mut self, switch: SwitchIndex, phase: SwitchPhase) -> SwitchPhase {
        match phase.is_ready() {
            true => self.unready.remove(&switch),
            false => self.unready.insert(switch),
        };
        std::mem::replace(&mut self.connections[switch.0].phase, phase)
    }

    /// Calls a method of a session, and marks its switch as one with output.
    pub(super) fn with_session(&mut self, switch: SwitchIndex, act: impl FnOnce(&mut Session)) {
        act(&mut self.connections[switch.0].session);
        self.with_output.insert(switch);
    }

    /// Starts a task on a switch. Its result is passed to `owner`.
    pub(super) fn submit(
        &mut self,
        now: u64,
        context: &Context,
        switch: SwitchIndex,
        owner: Owner,
        task: Task,
    ) -> TaskId {
        if let Task::Registers(access) = &task {
            if access.op == REGISTER_OP_INIT_GROUP {
                self.initialised.insert((switch, access.group));
            }
        }
        self.next_task += 1;
        let id = TaskId(self.next_task);
        self.tasks.insert(id, owner);
        if let Task::Flush { port } = task {
            self.flushes.push_back(((switch, port), id));
            self.with_output.insert(switch);
            return id;
        }
        self.with_session(switch, |session| session.submit(now, context, id, task));
        id
    }

    /// Ends a task, and returns its owner; `None` if it has ended before.
    pub(super) fn end_task(&mut self, task: TaskId) -> Option<Owner> {
        self.tasks.remove(&task)
    }

    /// Returns the parts of groups whose registers the tasks submitted since the last call initialise.
    pub(super) fn take_initialised(&mut self) -> BTreeSet<PartIndex> {
        std::mem::take(&mut self.initialised)
    }

    /// Passes a timeout to the sessions whose timers are due.
    pub(super) fn timeout(&mut self, now: u64, context: &Context) {
        while let Some(switch) = self.timers.pop_due(now) {
            self.with_session(switch, |session| session.timeout(now, context));
        }
    }

    /// Time of the next timeout of a session.
    pub(super) fn poll_timeout(&self) -> Option<u64> {
        self.timers.first()
    }

    /// Takes the next switch whose session may have notices or output.
    pub(super) fn pop_with_output(&mut self) -> Option<SwitchIndex> {
        self.with_output.pop_first()
    }

    pub(super) fn pop_flush(&mut self) -> Option<Flush> {
        self.flushes.pop_front()
    }

    pub(super) fn poll_notice(&mut self, switch: SwitchIndex) -> Option<Notice> {
        self.connections[switch.0].session.poll_notice()
    }

    /// Moves the output of a session to the queue of effects, and updates its timer.
    pub(super) fn collect_output(&mut self, switch: SwitchIndex) {
        let session = &mut self.connections[switch.0].session;
        while let Some(output) = session.poll_output() {
            self.effects.push_back(match output {
                Output::Request(request, body) => Effect::Request {
                    switch,
                    request,
                    body,
                },
                Output::Stream(message) => Effect::Stream { switch, message },
            });
        }
        match session.poll_timeout() {
            Some(at) => self.timers.set(switch, at),
            None => self.timers.clear(switch),
        }
    }

    /// Queues a reply or notification to clients.
    pub(super) fn reply(&mut self, reply: ApiReply) {
        self.effects.push_back(Effect::Api(reply));
    }

    pub(super) fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// The task that was submitted last.
    pub(super) fn last_task(&self) -> TaskId {
        TaskId(self.next_task)
    }

    /// Whether a task up to this one is pending whose result nothing waits for: a change of routes.
    pub(super) fn is_detached_pending(&self, last: TaskId) -> bool {
        let mut tasks = self.tasks.range(..=last);
        tasks.any(|(_, owner)| matches!(owner, Owner::Detached))
    }

    /// Pending tasks and their owners.
    #[cfg(test)]
    pub(super) fn tasks(&self) -> &BTreeMap<TaskId, Owner> {
        &self.tasks
    }
}
