//! Runs a [`Controller`] with the system clock and with gRPC connections to switches.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use alfirk_roce::wire::{Psn, QpNum};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::connection::{self, Command, Report};
use super::files::{FileError, StateFile, SwitchAddress};
use crate::controller::{
    ApiReply, ApiRequest, Controller, Effect, Event, GroupError, GroupInfo, GroupStatus,
    MemberSpec, RegisterGroup, RouteChanges, StatusReport, SwitchError, Tag,
};
use crate::tables::Counts;
use crate::topology::{LinkIndex, SwitchIndex};

/// Maximum number of reports of connections processed in one batch. It bounds the time for which a batch delays calls of
/// clients.
const MAX_REPORT_BATCH: usize = 256;

/// Error: not all switches became ready.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A switch rejected its configuration; a retry would fail in the same way.
    #[error(transparent)]
    Switch(#[from] SwitchError),
    /// Some switches were not ready before the timeout.
    #[error("not all switches are ready after {seconds} s: {}", missing.join("; "))]
    NotReady {
        /// Time in seconds for which the command waited.
        seconds: f64,
        /// Name and state of each switch that is not ready.
        missing: Vec<String>,
    },
    /// The runner has ended.
    #[error("the controller has ended")]
    Ended,
}

/// Log of a controller's actions. Times are nanoseconds on the controller's clock.
pub trait Journal: Send {
    /// Records one effect or event of the controller as a line of text.
    fn note(&mut self, now: u64, text: String);

    /// Records the state of all groups, after a group was created, changed or removed.
    fn groups(&mut self, now: u64, groups: &[GroupStatus]);
}

/// Drives a controller on a real clock and real connections; dropping it closes the connections.
pub struct Runner {
    controller: Controller,
    started: Instant,
    /// Nanoseconds of real time per nanosecond of the controller's clock.
    time_scale: u64,
    reports: mpsc::Receiver<(SwitchIndex, Report)>,
    calls: mpsc::UnboundedReceiver<Call>,
    commands: Vec<Option<mpsc::UnboundedSender<Command>>>,
    /// Reason why each switch is not connected, by switch index; `None` while it is connected.
    connection_errors: Vec<Option<String>>,
    waiting: BTreeMap<Tag, Pending>,
    next_tag: u64,
    ready: Vec<oneshot::Sender<Result<(), SwitchError>>>,
    /// Reports of links whose changes of routes the switches have not confirmed yet, with the numbers of links.
    links: Vec<(RouteChanges, usize, oneshot::Sender<usize>)>,
    subscribers: Vec<mpsc::UnboundedSender<GroupNotification>>,
    /// File that stores the desired state, and its current content; `None` without `--state`.
    state: Option<(StateFile, String)>,
    journal: Option<Box<dyn Journal>>,
    _connections: JoinSet<()>,
}

/// Client side of a [`Runner`], usable from any task: sends it requests and waits for the replies.
#[derive(Clone, Debug)]
pub struct Handle {
    calls: mpsc::UnboundedSender<Call>,
}

/// Notification that the controller has changed a group in use on its own initiative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupNotification {
    /// Members were removed because they did not respond or cannot be reached any more.
    Lost {
        /// IPv4 address of the group (McstID).
        mcst_id: Ipv4Addr,
        /// IPv4 addresses of the removed members.
        members: Vec<Ipv4Addr>,
    },
    /// The group's tree was rerouted around a failed link or switch.
    Rerouted {
        /// IPv4 address of the group (McstID).
        mcst_id: Ipv4Addr,
    },
    /// The group was removed because its lease expired (`--lease`).
    Expired {
        /// IPv4 address of the group (McstID).
        mcst_id: Ipv4Addr,
    },
}

#[derive(Debug)]
enum Call {
    Register(
        RegisterGroup,
        oneshot::Sender<Result<GroupInfo, GroupError>>,
    ),
    Deregister(Ipv4Addr, oneshot::Sender<Result<(), GroupError>>),
    Join(
        Ipv4Addr,
        MemberSpec,
        oneshot::Sender<Result<(QpNum, Psn), GroupError>>,
    ),
    Leave(
        Ipv4Addr,
        Vec<Ipv4Addr>,
        oneshot::Sender<Result<(), GroupError>>,
    ),
    JoinDatagrams(Ipv4Addr, Ipv4Addr, oneshot::Sender<Result<(), GroupError>>),
    LeaveDatagrams(Ipv4Addr, Ipv4Addr, oneshot::Sender<Result<(), GroupError>>),
    Suspect(Ipv4Addr, oneshot::Sender<Result<(), GroupError>>),
    Refresh(Ipv4Addr, oneshot::Sender<Result<(), GroupError>>),
    /// Names of two nodes, and whether the links between them are up. The reply is the number of these links.
    Link(String, String, bool, oneshot::Sender<usize>),
    Subscribe(
        mpsc::UnboundedSender<GroupNotification>,
        oneshot::Sender<()>,
    ),
    Count(oneshot::Sender<Counts>),
    Status(oneshot::Sender<StatusReport>),
    Ready(oneshot::Sender<Result<(), SwitchError>>),
}

#[derive(Debug)]
enum Pending {
    Register(oneshot::Sender<Result<GroupInfo, GroupError>>),
    Join(oneshot::Sender<Result<(QpNum, Psn), GroupError>>),
    Count(oneshot::Sender<Counts>),
    /// A request whose reply contains only success or an error.
    Done(oneshot::Sender<Result<(), GroupError>>),
}

impl Handle {
    /// Creates a group. `None` if the runner has ended.
    pub async fn register(&self, group: RegisterGroup) -> Option<Result<GroupInfo, GroupError>> {
        self.call(|reply| Call::Register(group, reply)).await
    }

    /// Removes a group. `None` if the runner has ended.
    pub async fn deregister(&self, mcst_id: Ipv4Addr) -> Option<Result<(), GroupError>> {
        self.call(|reply| Call::Deregister(mcst_id, reply)).await
    }

    /// Adds a member to a group that is idle (between two messages). Returns the remote queue pair number and the
    /// initial PSN of its queue pair, or `None` if the runner has ended.
    pub async fn join(
        &self,
        mcst_id: Ipv4Addr,
        member: MemberSpec,
    ) -> Option<Result<(QpNum, Psn), GroupError>> {
        self.call(|reply| Call::Join(mcst_id, member, reply)).await
    }

    /// Removes members from a group. `None` if the runner has ended.
    pub async fn leave(
        &self,
        mcst_id: Ipv4Addr,
        members: Vec<Ipv4Addr>,
    ) -> Option<Result<(), GroupError>> {
        self.call(|reply| Call::Leave(mcst_id, members, reply))
            .await
    }

    /// Adds a host to a multicast group of unreliable datagrams. `None` if the runner has ended.
    pub async fn join_datagrams(
        &self,
        group: Ipv4Addr,
        host: Ipv4Addr,
    ) -> Option<Result<(), GroupError>> {
        self.call(|reply| Call::JoinDatagrams(group, host, reply))
            .await
    }

    /// Removes a host from a multicast group of unreliable datagrams. `None` if the runner has ended.
    pub async fn leave_datagrams(
        &self,
        group: Ipv4Addr,
        host: Ipv4Addr,
    ) -> Option<Result<(), GroupError>> {
        self.call(|reply| Call::LeaveDatagrams(group, host, reply))
            .await
    }

    /// Reports that a group makes no progress; the controller then searches for failed members and links. `None` if the runner
    /// has ended.
    pub async fn suspect(&self, mcst_id: Ipv4Addr) -> Option<Result<(), GroupError>> {
        self.call(|reply| Call::Suspect(mcst_id, reply)).await
    }

    /// Renews the lease of a group that is idle. `None` if the runner has ended.
    pub async fn refresh(&self, mcst_id: Ipv4Addr) -> Option<Result<(), GroupError>> {
        self.call(|reply| Call::Refresh(mcst_id, reply)).await
    }

    /// Reports that all links between two nodes are down, or up again, and waits until the switches have confirmed the changes
    /// of their routes. Returns the number of these links, 0 if a node is unknown, or `None` if the runner has ended.
    pub async fn set_link(&self, a: &str, b: &str, is_up: bool) -> Option<usize> {
        let (a, b) = (a.to_owned(), b.to_owned());
        self.call(|reply| Call::Link(a, b, is_up, reply)).await
    }

    /// Subscribes to notifications about all groups. `None` if the runner has ended.
    pub async fn subscribe(&self) -> Option<mpsc::UnboundedReceiver<GroupNotification>> {
        let (to, notification) = mpsc::unbounded_channel();
        self.call(|reply| Call::Subscribe(to, reply)).await?;
        Some(notification)
    }

    /// Reads the counters of all switches and returns their sums. `None` if the runner has ended.
    pub async fn count(&self) -> Option<Counts> {
        self.call(Call::Count).await
    }

    /// State of all switches and groups. `None` if the runner has ended.
    pub async fn status(&self) -> Option<StatusReport> {
        self.call(Call::Status).await
    }

    /// Waits until every switch is ready, at most `limit`.
    pub async fn ready(&self, limit: Duration) -> Result<(), StartError> {
        match tokio::time::timeout(limit, self.call(Call::Ready)).await {
            Ok(Some(result)) => Ok(result?),
            Ok(None) => Err(StartError::Ended),
            Err(_) => {
                let report = self.status().await.ok_or(StartError::Ended)?;
                let missing = report.switches.iter().filter_map(|switch| {
                    use crate::controller::SwitchState::{Down, Ready, Starting};
                    match &switch.state {
                        Ready => None,
                        Starting => Some(format!("switch {} is still being set up", switch.name)),
                        Down { why } => Some(format!("switch {}: {why}", switch.name)),
                    }
                });
                Err(StartError::NotReady {
                    seconds: limit.as_secs_f64(),
                    missing: missing.collect(),
                })
            }
        }
    }

    async fn call<T>(&self, call: impl FnOnce(oneshot::Sender<T>) -> Call) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.calls.send(call(reply)).ok()?;
        answer.await.ok()
    }
}

impl Runner {
    /// Creates a runner and starts a connection task per switch. Reports are processed once [`Runner::run`] is polled.
    ///
    /// Must be called inside a tokio runtime.
    pub fn new(controller: Controller, switches: Vec<SwitchAddress>) -> (Runner, Handle) {
        let (to_calls, calls) = mpsc::unbounded_channel();
        let (to_reports, reports) = mpsc::channel(connection::MAX_QUEUED_REPORTS);
        let count = controller.topology().switches().len();
        let mut connections = JoinSet::new();
        for target in switches {
            connections.spawn(connection::maintain(target, to_reports.clone()));
        }
        let runner = Runner {
            controller,
            started: Instant::now(),
            time_scale: 1,
            reports,
            calls,
            commands: (0..count).map(|_| None).collect(),
            connection_errors: vec![None; count],
            waiting: BTreeMap::new(),
            next_tag: 0,
            ready: Vec::new(),
            links: Vec::new(),
            subscribers: Vec::new(),
            state: None,
            journal: None,
            _connections: connections,
        };
        (runner, Handle { calls: to_calls })
    }

    /// Runs the controller's clock `scale` times slower than real time, for an emulated network with a slowed clock.
    ///
    /// Must be called before [`Runner::run`].
    pub fn set_time_scale(&mut self, scale: NonZeroU32) {
        self.time_scale = u64::from(scale.get());
    }

    /// Sets the journal that records the controller's actions.
    ///
    /// Must be called before [`Runner::run`].
    pub fn set_journal(&mut self, journal: Box<dyn Journal>) {
        self.journal = Some(journal);
    }

    /// Restores the groups stored in a file, and rewrites the file after every change of groups.
    ///
    /// Must be called before [`Runner::run`]. A missing file is created.
    pub fn use_state_file(&mut self, file: StateFile) -> Result<(), FileError> {
        let text = match file.read()? {
            Some(text) => {
                let restored = self.controller.restore(&text);
                restored.map_err(|error| file.unusable(&error))?;
                text
            }
            None => {
                let text = self.controller.save();
                file.write(&text)?;
                text
            }
        };
        self.state = Some((file, text));
        Ok(())
    }

    fn save_state(&mut self) {
        let Some((file, there)) = &mut self.state else {
            return;
        };
        let text = self.controller.save();
        if text == *there {
            return;
        }
        match file.write(&text) {
            Ok(()) => *there = text,
            Err(error) => tracing::error!(
                "{error}; a restarted controller will not restore the latest groups"
            ),
        }
    }

    /// Runs until every [`Handle`] is dropped.
    pub async fn run(mut self) {
        loop {
            let wake = self.controller.poll_timeout();
            let wake = wake.map(|at| Duration::from_nanos(at.saturating_mul(self.time_scale)));
            let wake = wake.map(|at| tokio::time::Instant::from_std(self.started + at));
            tokio::select! {
                report = self.reports.recv() => match report {
                    Some(first) => self.process_reports(first),
                    None => return,
                },
                call = self.calls.recv() => match call {
                    Some(call) => self.call(call),
                    None => return,
                },
                () = sleep_until(wake) => self.handle([Event::Timeout]),
            }
            self.process_effects();
        }
    }

    /// Processes a report and the reports that follow it in the queue, up to a change of a connection or
    /// [`MAX_REPORT_BATCH`].
    fn process_reports(&mut self, first: (SwitchIndex, Report)) {
        let mut events = Vec::new();
        let mut next = Some(first);
        while let Some((switch, report)) = next {
            let changes = matches!(report, Report::Up(_) | Report::Down { .. });
            if changes && !events.is_empty() {
                self.handle(std::mem::take(&mut events));
                self.process_effects();
            }
            events.push(self.event(switch, report));
            let may_take_more = !changes && events.len() < MAX_REPORT_BATCH;
            next = match may_take_more {
                true => self.reports.try_recv().ok(),
                false => None,
            };
        }
        self.handle(events);
    }

    fn event(&mut self, switch: SwitchIndex, report: Report) -> Event {
        match report {
            Report::Up(commands) => {
                self.commands[switch.0] = Some(commands);
                self.connection_errors[switch.0] = None;
                Event::SwitchUp { switch }
            }
            Report::Down { was_up, why } => {
                let name = &self.controller.topology().switch(switch).name;
                if was_up || self.connection_errors[switch.0].is_none() {
                    tracing::warn!("switch {name}: {why}");
                }
                self.commands[switch.0] = None;
                self.connection_errors[switch.0] = Some(why.clone());
                Event::SwitchDown { switch, why }
            }
            Report::Reply(request, result) => Event::Reply {
                switch,
                request,
                result,
            },
            Report::Stream(message) => Event::Stream { switch, message },
        }
    }

    fn call(&mut self, call: Call) {
        self.next_tag += 1;
        let tag = Tag(self.next_tag);
        match call {
            Call::Register(group, reply) => {
                self.waiting.insert(tag, Pending::Register(reply));
                self.handle([Event::Api(ApiRequest::Register { tag, group })]);
            }
            Call::Deregister(mcst_id, reply) => {
                self.waiting.insert(tag, Pending::Done(reply));
                self.handle([Event::Api(ApiRequest::Deregister { tag, mcst_id })]);
            }
            Call::Join(mcst_id, member, reply) => {
                self.waiting.insert(tag, Pending::Join(reply));
                self.handle([Event::Api(ApiRequest::Join {
                    tag,
                    mcst_id,
                    member,
                })]);
            }
            Call::JoinDatagrams(group, host, reply) => {
                self.waiting.insert(tag, Pending::Done(reply));
                self.handle([Event::Api(ApiRequest::JoinDatagrams { tag, group, host })]);
            }
            Call::LeaveDatagrams(group, host, reply) => {
                self.waiting.insert(tag, Pending::Done(reply));
                self.handle([Event::Api(ApiRequest::LeaveDatagrams { tag, group, host })]);
            }
            Call::Leave(mcst_id, members, reply) => {
                self.waiting.insert(tag, Pending::Done(reply));
                self.handle([Event::Api(ApiRequest::Leave {
                    tag,
                    mcst_id,
                    members,
                })]);
            }
            Call::Suspect(mcst_id, reply) => {
                self.waiting.insert(tag, Pending::Done(reply));
                self.handle([Event::Api(ApiRequest::Suspect { tag, mcst_id })]);
            }
            Call::Refresh(mcst_id, reply) => {
                self.waiting.insert(tag, Pending::Done(reply));
                self.handle([Event::Api(ApiRequest::Refresh { tag, mcst_id })]);
            }
            Call::Count(reply) => {
                self.waiting.insert(tag, Pending::Count(reply));
                self.handle([Event::Api(ApiRequest::Count { tag })]);
            }
            Call::Link(a, b, is_up, reply) => {
                let topology = self.controller.topology();
                let ends = topology.node_named(&a).zip(topology.node_named(&b));
                let links: Vec<LinkIndex> =
                    ends.map_or_else(Vec::new, |(a, b)| topology.links_between(a, b).collect());
                for link in &links {
                    self.handle([Event::Link { link: *link, is_up }]);
                }
                let changes = self.controller.route_changes();
                self.links.push((changes, links.len(), reply));
            }
            Call::Subscribe(to, reply) => {
                self.subscribers.push(to);
                let _ = reply.send(());
            }
            // The client may have stopped waiting, which is not an error, here and below.
            Call::Status(reply) => drop(reply.send(self.controller.status())),
            Call::Ready(reply) if self.controller.is_ready() => drop(reply.send(Ok(()))),
            Call::Ready(reply) => self.ready.push(reply),
        }
    }

    fn handle(&mut self, events: impl IntoIterator<Item = Event>) {
        let now = self.now();
        let events: Vec<Event> = events.into_iter().collect();
        if let Some(journal) = &mut self.journal {
            let notes = events
                .iter()
                .filter_map(|e| self.controller.describe_event(e));
            notes.for_each(|note| journal.note(now, note));
        }
        self.controller.handle_all(now, events);
    }

    /// Current time on the controller's clock, in nanoseconds since the start.
    fn now(&self) -> u64 {
        let now = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        now / self.time_scale
    }

    fn process_effects(&mut self) {
        let mut replies = Vec::new();
        let now = self.now();
        while let Some(effect) = self.controller.poll() {
            if let Some(journal) = &mut self.journal {
                if let Some(note) = self.controller.describe_effect(&effect) {
                    journal.note(now, note);
                }
            }
            match effect {
                Effect::Request {
                    switch,
                    request,
                    body,
                } => self.send(switch, Command::Request(request, body)),
                Effect::Stream { switch, message } => {
                    self.send(switch, Command::Stream(message));
                }
                Effect::Api(reply) => replies.push(reply),
            }
        }
        let waiting = std::mem::take(&mut self.links);
        for (changes, count, reply) in waiting {
            match self.controller.have_routes_changed(changes) {
                true => drop(reply.send(count)),
                false => self.links.push((changes, count, reply)),
            }
        }
        // Saved before the replies are sent, so that a confirmed group survives a restart. Written once per batch.
        if replies.iter().any(ApiReply::changes_groups) {
            self.save_state();
            if let Some(journal) = &mut self.journal {
                journal.groups(now, &self.controller.status().groups);
            }
        }
        for reply in replies {
            self.reply(reply);
        }
    }

    /// Sends a command to a switch; dropped if the connection has ended, which is reported separately.
    fn send(&mut self, switch: SwitchIndex, command: Command) {
        if let Some(commands) = &self.commands[switch.0] {
            let _ = commands.send(command);
        }
    }

    fn reply(&mut self, reply: ApiReply) {
        match reply {
            ApiReply::SwitchReady { switch } => {
                let name = &self.controller.topology().switch(switch).name;
                tracing::info!("switch {name} is ready");
            }
            ApiReply::SwitchFailed { switch, error } => self.switch_failed(switch, error),
            ApiReply::Ready => {
                tracing::info!("all switches are ready");
                for waiting in self.ready.drain(..) {
                    let _ = waiting.send(Ok(()));
                }
            }
            ApiReply::GroupReady { tag, group } => {
                if let Some(Pending::Register(reply)) = self.waiting.remove(&tag) {
                    let _ = reply.send(Ok(group));
                }
            }
            ApiReply::GroupRemoved { tag, .. }
            | ApiReply::MembersLeft { tag, .. }
            | ApiReply::DatagramGroup { tag, .. }
            | ApiReply::Refreshed { tag, .. }
            | ApiReply::Probing { tag, .. } => {
                if let Some(Pending::Done(reply)) = self.waiting.remove(&tag) {
                    let _ = reply.send(Ok(()));
                }
            }
            ApiReply::MemberJoined {
                tag,
                remote_qpn,
                psn,
                ..
            } => {
                if let Some(Pending::Join(reply)) = self.waiting.remove(&tag) {
                    let _ = reply.send(Ok((remote_qpn, psn)));
                }
            }
            ApiReply::MembersLost { mcst_id, members } => {
                let names: Vec<String> = members.iter().map(Ipv4Addr::to_string).collect();
                tracing::warn!(
                    "group {mcst_id} continues without {}, which did not respond",
                    names.join(", ")
                );
                self.publish(&GroupNotification::Lost { mcst_id, members });
            }
            ApiReply::GroupRerouted { mcst_id } => {
                tracing::info!("group {mcst_id} is rerouted around a failure");
                self.publish(&GroupNotification::Rerouted { mcst_id });
            }
            ApiReply::Failed { tag, error } => match self.waiting.remove(&tag) {
                Some(Pending::Register(reply)) => drop(reply.send(Err(error))),
                Some(Pending::Join(reply)) => drop(reply.send(Err(error))),
                Some(Pending::Done(reply)) => drop(reply.send(Err(error))),
                Some(Pending::Count(_)) | None => {}
            },
            ApiReply::GroupFormed { group } => {
                tracing::info!(
                    "group {} of {} members is registered in band",
                    group.mcst_id,
                    group.members
                );
            }
            ApiReply::GroupExpired { mcst_id } => {
                tracing::warn!(
                    "group {mcst_id} is removed: it was inactive for longer than its lease (--lease)"
                );
                self.publish(&GroupNotification::Expired { mcst_id });
            }
            ApiReply::GroupDissolved { mcst_id } => {
                tracing::info!("group {mcst_id} is deregistered in band");
            }
            ApiReply::Counted { tag, counts } => {
                if let Some(Pending::Count(reply)) = self.waiting.remove(&tag) {
                    let _ = reply.send(counts);
                }
            }
            ApiReply::Status { .. } => {}
        }
    }

    /// Sends a notification to all subscribers, and removes those that have closed their channel.
    fn publish(&mut self, notification: &GroupNotification) {
        self.subscribers
            .retain(|to| to.send(notification.clone()).is_ok());
    }

    fn switch_failed(&mut self, switch: SwitchIndex, error: SwitchError) {
        match error {
            // Already logged when the connection reported it.
            SwitchError::Lost { .. } => {}
            SwitchError::Timeout { .. } | SwitchError::Call { .. } => {
                tracing::warn!("{error}; reconnecting");
                self.commands[switch.0] = None;
            }
            // A retry would fail in the same way, so waiting clients get the error now.
            SwitchError::NotPrimary { .. }
            | SwitchError::Pipeline { .. }
            | SwitchError::Refused { .. }
            | SwitchError::Registers { .. }
            | SwitchError::LinkFailed { .. } => {
                tracing::error!("{error}");
                for waiting in self.ready.drain(..) {
                    let _ = waiting.send(Err(error.clone()));
                }
            }
        }
    }
}

async fn sleep_until(at: Option<tokio::time::Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
