//! The application of a host: the transfers in which it takes part, and the groups that it registers.
//!
//! [`Application`] is a state machine without I/O over [`Verbs`]. It decides what an event of the host, a command of the
//! orchestrator, a failure or a timer means. Its drivers only carry these: a host of the simulator, the process `alfirk
//! host`, and the end-host library over RDMA devices.
//!
//! | input | function | output |
//! |---|---|---|
//! | commands of the orchestrator | [`Application::prepare`] to [`Application::close`] | endpoints, replies |
//! | posts that have reached the host | [`Application::start_posted`], [`Application::multicast`] | posts to the host |
//! | groups of datagrams | [`Application::join_datagrams`] | [`EndpointEvent`]s |
//! | registration of groups | [`Application::expect`], [`Application::lead`], [`Application::deregister`] | datagrams of the host |
//! | events of the host | [`Application::handle_event`] | posts to the host |
//! | time | [`Application::handle_timeout`] at [`Application::poll_timeout`] | posts and datagrams |
//! | | [`Application::poll`] | [`MemberEvent`]s for the orchestrator |
//!
//! Programs that communicate in groups without an orchestrator use [`group`], which is above this interface.

mod event;
pub mod group;

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;

pub use self::event::{MemberEvent, TransferId};
use crate::binomial_ack::{self, EndpointEvent};
use crate::collective::{
    Endpoint, ExpectedData, LegCommand, LegReply, Progress, Transfer, TransferError, TransferEvent,
    TransferSpec,
};
use crate::host::HostEvent;
use crate::registration::{ExpectedGroup, GroupSpec, LeaderTiming, Registrar};
use crate::verbs::Verbs;
use crate::wire::mrp::{Node, TooManyNodes};
use crate::wire::QpNum;

/// Reason why an application has rejected a command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The host takes no part in the transfer.
    #[error("there is no transfer {}; prepare it first", .0 .0)]
    NoTransfer(TransferId),
    /// A transfer with this number is open.
    #[error("transfer {} exists already; close it first", .0 .0)]
    DuplicateTransfer(TransferId),
    /// The transfer has rejected the command.
    #[error(transparent)]
    Transfer(#[from] TransferError),
}

/// The application of one host. All times are in nanoseconds of the driver's clock.
#[derive(Default)]
pub struct Application {
    /// Boxed, since a map has space for several, and most hosts have one.
    members: BTreeMap<TransferId, Box<Member>>,
    registrar: Registrar,
    /// Endpoint of a group of datagrams whose members acknowledge along a binomial tree; `None` if the host is in no such
    /// group. Transfers have endpoints of their own.
    datagrams: Option<binomial_ack::Endpoint>,
    /// Failures of posts that no command can return, because the command has returned before.
    failures: VecDeque<(TransferId, MemberEvent)>,
}

/// The host's part in a transfer.
struct Member {
    transfer: Transfer,
    /// Whether [`MemberEvent::Finished`] was reported for the present leg.
    has_reported_end: bool,
}

impl Application {
    // ---- Transfers ----

    /// Creates the queue pairs of a transfer, and returns their endpoints.
    pub fn prepare(
        &mut self,
        host: &mut dyn Verbs,
        id: TransferId,
        spec: TransferSpec,
    ) -> Result<Vec<Endpoint>, CommandError> {
        if self.members.contains_key(&id) {
            return Err(CommandError::DuplicateTransfer(id));
        }
        let (transfer, endpoints) = Transfer::prepare(host, spec)?;
        let member = Member {
            transfer,
            has_reported_end: false,
        };
        self.members.insert(id, Box::new(member));
        Ok(endpoints)
    }

    /// Connects the queue pairs of a transfer to the endpoints of the other members. [`MemberEvent::Ready`] follows.
    pub fn connect(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
        id: TransferId,
        peers: &[Endpoint],
    ) -> Result<(), CommandError> {
        Ok(self.transfer_mut(id)?.connect(host, now, peers)?)
    }

    /// Sets the data that the host is expected to receive in a transfer. See [`Transfer::set_expected_data`].
    pub fn set_expected_data(
        &mut self,
        host: &mut dyn Verbs,
        id: TransferId,
        data: Arc<ExpectedData>,
    ) -> Result<(), CommandError> {
        self.transfer_mut(id)?.set_expected_data(host, data);
        Ok(())
    }

    /// Posts the data of a source, or the own data in a collective to which all members contribute.
    pub fn start(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
        id: TransferId,
        data: Arc<[u8]>,
    ) -> Result<(), CommandError> {
        Ok(self.transfer_mut(id)?.start(host, now, data)?)
    }

    /// Posts data as [`Application::start`] does, when a post that the application began at `posted_at` has reached the
    /// host. A failure is reported as [`MemberEvent::Failed`]. Without effect if the transfer was closed meanwhile.
    pub fn start_posted(
        &mut self,
        host: &mut dyn Verbs,
        posted_at: u64,
        id: TransferId,
        data: Arc<[u8]>,
    ) {
        match self.start(host, posted_at, id, data) {
            Ok(()) | Err(CommandError::NoTransfer(_)) => {}
            Err(error) => self.fail(id, &error),
        }
    }

    fn fail(&mut self, id: TransferId, error: &dyn std::error::Error) {
        let why = error.to_string();
        self.failures.push_back((id, MemberEvent::Failed { why }));
    }

    /// Executes a command for the legs of a transfer. A leg is the part of a transfer that one algorithm carries.
    ///
    /// After [`LegCommand::Leave`] the driver passes the events that the host has already reported, and then takes
    /// [`Application::left`].
    pub fn act(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
        id: TransferId,
        command: LegCommand,
    ) -> Result<LegReply, CommandError> {
        let member = self.member_mut(id)?;
        member.has_reported_end &= !matches!(command, LegCommand::Resume { .. });
        Ok(member.transfer.act(host, now, command)?)
    }

    /// The event that ends a leg after [`LegCommand::Leave`]: the slices that the host holds.
    pub fn left(&self, id: TransferId) -> MemberEvent {
        let transfer = self.transfer(id);
        MemberEvent::Left {
            held: transfer.map_or(0, Transfer::held),
            beyond: transfer.map_or_else(Vec::new, Transfer::held_beyond),
        }
    }

    /// Ends a transfer: destroys its queue pairs, and deregisters its memory.
    pub fn close(&mut self, host: &mut dyn Verbs, id: TransferId) -> Result<(), CommandError> {
        let member = self.members.remove(&id);
        let member = member.ok_or(CommandError::NoTransfer(id))?;
        member.transfer.close(host);
        Ok(())
    }

    /// A transfer in which the host takes part; `None` if it takes no part in it.
    pub fn transfer(&self, id: TransferId) -> Option<&Transfer> {
        self.members.get(&id).map(|member| &member.transfer)
    }

    /// All transfers in which the host takes part, by number.
    pub fn transfers(&self) -> impl Iterator<Item = (TransferId, &Transfer)> {
        let members = self.members.iter();
        members.map(|(id, member)| (*id, &member.transfer))
    }

    /// Progress of a transfer at the host; `None` if it takes no part in it.
    pub fn progress(&self, host: &dyn Verbs, id: TransferId) -> Option<Progress> {
        Some(self.transfer(id)?.progress(host))
    }

    /// Whether a transfer may still progress: it has neither ended nor failed at the host.
    pub fn is_active(&self, id: TransferId) -> bool {
        let member = self.members.get(&id);
        member.is_some_and(|member| !member.has_reported_end && !member.transfer.has_failed())
    }

    fn transfer_mut(&mut self, id: TransferId) -> Result<&mut Transfer, CommandError> {
        Ok(&mut self.member_mut(id)?.transfer)
    }

    fn member_mut(&mut self, id: TransferId) -> Result<&mut Member, CommandError> {
        let member = self.members.get_mut(&id);
        member.map(Box::as_mut).ok_or(CommandError::NoTransfer(id))
    }

    // ---- Groups of datagrams ----

    /// Makes the host a member of a group of datagrams, in place of an earlier one.
    pub fn join_datagrams(&mut self, endpoint: binomial_ack::Endpoint) {
        self.datagrams = Some(endpoint);
    }

    /// The endpoint of the host's group of datagrams; `None` if the host is in none.
    pub fn datagrams(&self) -> Option<&binomial_ack::Endpoint> {
        self.datagrams.as_ref()
    }

    /// The endpoint of the host's group of datagrams, to change its membership.
    pub fn datagrams_mut(&mut self) -> Option<&mut binomial_ack::Endpoint> {
        self.datagrams.as_mut()
    }

    /// Posts a message to all members of the group of datagrams. A failure is reported as [`MemberEvent::Failed`] of
    /// [`TransferId::MAIN`].
    pub fn multicast(&mut self, host: &mut dyn Verbs, now: u64, data: Arc<[u8]>) {
        let Some(endpoint) = &mut self.datagrams else {
            return;
        };
        if let Err(error) = endpoint.multicast(host, now, data) {
            self.fail(TransferId::MAIN, &error);
        }
    }

    /// Removes and returns the next event of the group of datagrams.
    pub fn poll_datagrams(&mut self) -> Option<EndpointEvent> {
        self.datagrams.as_mut()?.poll()
    }

    // ---- Registration in band ----

    /// Allows the leader of a group to register a queue pair of the host. See [`Registrar::expect`].
    pub fn expect(&mut self, host: &mut dyn Verbs, qpn: QpNum, group: ExpectedGroup) {
        self.registrar.expect(host, qpn, group);
    }

    /// Registers a group with the host as its leader; [`MemberEvent::Group`] reports the result. `nodes`: addresses and
    /// queue pairs of the other members.
    pub fn lead(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
        spec: GroupSpec,
        timing: LeaderTiming,
        nodes: &[Node],
    ) -> Result<(), TooManyNodes> {
        self.registrar.lead(host, now, spec, timing, nodes)
    }

    /// Removes members from the group that the host leads; [`MemberEvent::Group`] reports the result. Returns whether
    /// the request was sent: false if the host leads no group, or while another request for the group is pending.
    pub fn remove_members(&mut self, host: &mut dyn Verbs, now: u64, members: &[Ipv4Addr]) -> bool {
        let leader = self.registrar.leader();
        leader.is_some_and(|leader| leader.leave(host, now, members).is_ok())
    }

    /// Deregisters the group that the host leads; [`MemberEvent::Group`] reports the end. Returns whether the host
    /// leads a group.
    pub fn deregister(&mut self, host: &mut dyn Verbs, now: u64) -> bool {
        let Some(leader) = self.registrar.leader() else {
            return false;
        };
        leader.deregister(host, now);
        true
    }

    /// Reports to the fabric that a group to which the host sends makes no progress.
    pub fn report_stall(&mut self, host: &mut dyn Verbs, now: u64, mcst_id: Ipv4Addr) {
        self.registrar.stalled(host, now, mcst_id);
    }

    // ---- Events ----

    /// Handles an event of the host: a completion, a connection, a failure or a datagram. `seen_at`: time at which the
    /// application has processed the event, from which its posts are counted. Returns whether the event belongs to a
    /// registration, a transfer or the group of datagrams.
    pub fn handle_event(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
        seen_at: u64,
        event: &HostEvent,
    ) -> bool {
        let mut members = self.members.values_mut();
        let datagrams = self.datagrams.as_mut();
        datagrams.is_some_and(|endpoint| endpoint.handle_event(host, now, event))
            || self.registrar.handle_event(host, now, event)
            || members.any(|member| member.transfer.handle_event(host, seen_at, event))
    }

    /// Whether an event is the arrival of data that the host forwards to other members.
    pub fn relays(&self, event: &HostEvent) -> bool {
        let mut members = self.members.values();
        members.any(|member| member.transfer.relays(event))
    }

    /// Time of the next [`Application::handle_timeout`]; `None` if no timer runs.
    pub fn poll_timeout(&self) -> Option<u64> {
        let members = self.members.values();
        let transfers = members.filter_map(|member| member.transfer.poll_timeout());
        let datagrams = self.datagrams.as_ref();
        let datagrams = datagrams.and_then(binomial_ack::Endpoint::poll_timeout);
        let others = datagrams.into_iter().chain(self.registrar.poll_timeout());
        transfers.chain(others).min()
    }

    /// Handles the timers that have expired by `now`. The driver first handles those of the host.
    pub fn handle_timeout(&mut self, host: &mut dyn Verbs, now: u64) {
        let is_due = |at: Option<u64>| at.is_some_and(|at| at <= now);
        if let Some(endpoint) = &mut self.datagrams {
            if is_due(endpoint.poll_timeout()) {
                endpoint.handle_timeout(host, now);
            }
        }
        for member in self.members.values_mut() {
            let transfer = &mut member.transfer;
            if is_due(transfer.poll_timeout()) {
                transfer.handle_timeout(host, now);
            }
        }
        if is_due(self.registrar.poll_timeout()) {
            self.registrar.handle_timeout(host, now);
        }
    }

    /// Removes and returns the next event for the orchestrator, with its transfer. A group registered in band belongs
    /// to [`TransferId::MAIN`].
    pub fn poll(&mut self) -> Option<(TransferId, MemberEvent)> {
        if let Some(failure) = self.failures.pop_front() {
            return Some(failure);
        }
        if let Some(event) = self.registrar.poll() {
            return Some((TransferId::MAIN, MemberEvent::Group(event)));
        }
        let mut members = self.members.iter_mut();
        members.find_map(|(id, member)| Some((*id, member.poll()?)))
    }
}

impl Member {
    fn poll(&mut self) -> Option<MemberEvent> {
        if let Some(event) = self.transfer.poll() {
            return Some(match event {
                TransferEvent::Ready => MemberEvent::Ready,
                TransferEvent::Done { sha256, bytes, at } => {
                    MemberEvent::Done { sha256, bytes, at }
                }
                TransferEvent::PartDone { part, at } => MemberEvent::PartDone { part, at },
                TransferEvent::Failed(error) => MemberEvent::Failed {
                    why: error.to_string(),
                },
            });
        }
        if self.has_reported_end || !self.transfer.is_finished() {
            return None;
        }
        self.has_reported_end = true;
        Some(MemberEvent::Finished)
    }
}
