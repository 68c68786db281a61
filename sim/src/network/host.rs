//! A host of the simulator: a NIC with RC endpoint, and an application that takes part in transfers.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;

use alfirk_experiment::{MemberEvent, TransferId};
use alfirk_roce::binomial_ack::{Endpoint as Multicaster, EndpointEvent};
use alfirk_roce::collective::{
    Endpoint, ExpectedData, LegCommand, LegReply, Progress, Transfer, TransferError, TransferEvent,
    TransferSpec,
};
use alfirk_roce::host::{Host, HostEvent, Packet};
use alfirk_roce::hostile::Hostile;
use alfirk_roce::rc::QueuePair;
use alfirk_roce::registration::{ExpectedGroup, GroupSpec, LeaderTiming, Registrar};
use alfirk_roce::wire::mrp::{Node, TooManyNodes};
use alfirk_roce::wire::QpNum;

use super::message::Message;
use super::pfc::PausableQueue;
use super::Ctx;
use super::{Fidelity, Model};
use crate::frame::is_acknowledgement;

/// Number of a host's only port.
pub(super) const PORT: u32 = 0;

/// A host as a node of the simulator. The [`Model`] defines its delays.
pub struct HostNode {
    host: Host,
    /// Transfers in which the host's applications take part.
    transfers: BTreeMap<TransferId, HostTransfer>,
    model: Model,
    /// State of flow control on the link; `None` without flow control.
    flow_control: Option<PausableQueue<Packet>>,
    /// Earliest time at which the NIC may start its next frame, in nanoseconds.
    next_frame_at: u64,
    /// Time in nanoseconds at which the application has processed all events that it has received so far.
    free_at: u64,
    /// Number of ACK and NAK frames received.
    acks_received: u64,
    registrar: Registrar,
    /// Whether the host is working. A failed host neither sends nor receives.
    alive: bool,
    /// Generator of random packets, which a hostile host sends while its link is idle; `None` for a correct host.
    hostile: Option<Hostile>,
    events: VecDeque<(TransferId, MemberEvent)>,
    /// Endpoint of a datagram group whose members acknowledge along a binomial tree; `None` if the host is in no such
    /// group.
    multicaster: Option<Multicaster>,
    /// Events of the datagram endpoint, each with the time at which the application processed the event's cause.
    multicast_events: VecDeque<(u64, EndpointEvent)>,
}

/// A transfer in which the host takes part.
struct HostTransfer {
    transfer: Transfer,
    /// Whether the host has reported the end of the transfer.
    finished: bool,
}

impl HostNode {
    /// Creates a host. `obeys_pauses`: rate in bits per second of its link, if the host obeys PAUSE frames; `None` if
    /// it ignores them.
    pub(super) fn new(host: Host, model: Model, obeys_pauses: Option<u64>) -> HostNode {
        HostNode {
            host,
            transfers: BTreeMap::new(),
            model,
            flow_control: obeys_pauses.map(PausableQueue::new),
            next_frame_at: 0,
            free_at: 0,
            acks_received: 0,
            registrar: Registrar::default(),
            alive: true,
            hostile: None,
            events: VecDeque::new(),
            multicaster: None,
            multicast_events: VecDeque::new(),
        }
    }

    /// Returns the NIC with its queue pairs.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Returns a transfer in which the host takes part.
    pub fn transfer(&self, id: TransferId) -> Option<&Transfer> {
        self.transfers.get(&id).map(|part| &part.transfer)
    }

    /// All transfers in which the host takes part.
    pub fn transfers(&self) -> impl Iterator<Item = &Transfer> {
        self.transfers.values().map(|part| &part.transfer)
    }

    /// The host's endpoint of a datagram group, which belongs to no transfer; `None` if the host has none.
    pub fn multicaster(&self) -> Option<&Multicaster> {
        self.multicaster.as_ref()
    }

    /// Number of ACK and NAK frames received.
    pub fn acks_received(&self) -> u64 {
        self.acks_received
    }

    /// Progress of a transfer at this host; `None` if the host takes no part in it.
    pub fn progress(&self, id: TransferId) -> Option<Progress> {
        Some(self.transfer(id)?.progress(&self.host))
    }

    // ---- The application, driven by the orchestrator. Setting up takes no virtual time. ----

    /// Creates the queue pairs of a transfer. An earlier transfer with the same id is closed.
    pub(super) fn prepare(
        &mut self,
        id: TransferId,
        spec: TransferSpec,
    ) -> Result<Vec<Endpoint>, TransferError> {
        self.close(id);
        let (transfer, endpoints) = Transfer::prepare(&mut self.host, spec)?;
        let finished = false;
        self.transfers
            .insert(id, HostTransfer { transfer, finished });
        Ok(endpoints)
    }

    /// Connects the queue pairs of a transfer at this host.
    pub(super) fn connect(
        &mut self,
        id: TransferId,
        peers: &[Endpoint],
        ctx: &mut Ctx<'_>,
    ) -> Result<(), TransferError> {
        let Some(part) = self.transfers.get_mut(&id) else {
            return Ok(());
        };
        part.transfer.connect(&mut self.host, ctx.now(), peers)?;
        self.collect(ctx);
        self.finish_event(ctx);
        Ok(())
    }

    /// Sets the data that this host should receive, with which the received data is compared.
    pub(super) fn set_expected_data(&mut self, id: TransferId, original: &Arc<ExpectedData>) {
        let Some(HostTransfer { transfer, .. }) = self.transfers.get_mut(&id) else {
            return;
        };
        transfer.set_expected_data(&mut self.host, Arc::clone(original));
    }

    /// Makes the application begin to post the data of a transfer. The data reaches the NIC after the time that posting
    /// takes.
    pub(super) fn start(&mut self, id: TransferId, data: Arc<[u8]>, ctx: &mut Ctx<'_>) {
        ctx.note(|| format!("post {} B", data.len()));
        let delay = self.model.posting_ns(data.len() as u64);
        ctx.send(ctx.node(), Message::PostFirst { id, data }, delay);
    }

    // ---- Legs of a transfer ----

    /// Executes a command in a transfer; `None` if there is no such transfer. After [`LegCommand::Leave`],
    /// [`MemberEvent::Left`] is reported once the application has processed what the queue pairs of the leg delivered.
    /// A leg is the part of a transfer that one algorithm carries.
    pub(super) fn execute_leg_command(
        &mut self,
        id: TransferId,
        command: LegCommand,
        ctx: &mut Ctx<'_>,
    ) -> Option<Result<LegReply, TransferError>> {
        let HostTransfer { transfer, finished } = self.transfers.get_mut(&id)?;
        let (leaves, resumes) = match command {
            LegCommand::Leave => (true, false),
            LegCommand::Resume { .. } => (false, true),
            _ => (false, false),
        };
        if leaves {
            ctx.note(|| "leave".to_string());
        }
        *finished &= !resumes;
        let reply = transfer.act(&mut self.host, ctx.now(), command);
        if !leaves && !resumes {
            // A leg without connections ends at once.
            self.collect(ctx);
        }
        self.finish_event(ctx);
        if leaves {
            let seen = self.free_at.max(ctx.now()) - ctx.now();
            let message = Message::LegHandled { id };
            ctx.send(ctx.node(), message, seen + self.model.post_delay);
        }
        Some(reply)
    }

    /// Removes and returns the next event of a transfer.
    pub(super) fn next_event(&mut self) -> Option<(TransferId, MemberEvent)> {
        self.events.pop_front()
    }

    /// Ends a transfer, destroys its queue pairs and releases its memory.
    pub(super) fn close(&mut self, id: TransferId) {
        if let Some(part) = self.transfers.remove(&id) {
            part.transfer.close(&mut self.host);
        }
        self.hostile = None;
        self.events.retain(|(of, _)| *of != id);
    }

    /// Calls a function on the NIC now, outside of any transfer.
    pub(super) fn on_nic<R>(
        &mut self,
        act: impl FnOnce(&mut Host, u64) -> R,
        ctx: &mut Ctx<'_>,
    ) -> R {
        let result = act(&mut self.host, ctx.now());
        self.finish_event(ctx);
        result
    }

    // ---- Multicast by acknowledged datagrams ----

    /// Sets the endpoint of a datagram group, in place of an earlier one.
    pub(super) fn set_multicaster(&mut self, multicaster: Multicaster) {
        self.multicaster = Some(multicaster);
        self.multicast_events.clear();
    }

    /// Calls a function on the datagram endpoint now; `None` if the host has none.
    pub(super) fn on_multicaster<R>(
        &mut self,
        act: impl FnOnce(&mut Multicaster, &mut Host, u64) -> R,
        ctx: &mut Ctx<'_>,
    ) -> Option<R> {
        let result = act(self.multicaster.as_mut()?, &mut self.host, ctx.now());
        self.collect_multicast(ctx.now(), ctx);
        self.finish_event(ctx);
        Some(result)
    }

    /// Makes the application begin to post a message to all members of the datagram group.
    pub(super) fn broadcast(&mut self, data: Arc<[u8]>, ctx: &mut Ctx<'_>) {
        let delay = self.model.posting_ns(data.len() as u64);
        ctx.send(ctx.node(), Message::PostMulticast { data }, delay);
    }

    /// Processes a post of the datagram endpoint that has reached the NIC.
    fn post_multicast(&mut self, data: Arc<[u8]>, ctx: &mut Ctx<'_>) {
        let Some(multicaster) = &mut self.multicaster else {
            return;
        };
        let sent = multicaster.multicast(&mut self.host, ctx.now(), data);
        if let Err(error) = sent {
            let why = error.to_string();
            self.report(TransferId::MAIN, MemberEvent::Failed { why }, ctx);
        }
        self.collect_multicast(ctx.now(), ctx);
    }

    /// Collects the events of the datagram endpoint. `seen_at`: time at which the application processed their cause.
    fn collect_multicast(&mut self, seen_at: u64, ctx: &mut Ctx<'_>) {
        while let Some(event) = self.multicaster.as_mut().and_then(Multicaster::poll) {
            ctx.note(|| match &event {
                EndpointEvent::Delivered { id, .. } => format!("{id:?} delivered"),
                EndpointEvent::Completed { message } => format!("message {message} completed"),
                EndpointEvent::Silent { member } => format!("member {member} is silent"),
                EndpointEvent::ManagerFailed => "the manager has failed".to_owned(),
            });
            self.multicast_events.push_back((seen_at, event));
            ctx.notify();
        }
    }

    /// Removes and returns the next event of the datagram endpoint, with the time at which the application processed
    /// its cause.
    pub(super) fn next_multicast_event(&mut self) -> Option<(u64, EndpointEvent)> {
        self.multicast_events.pop_front()
    }

    // ---- Registration in band ----

    /// Allows the leader of a group (the host that registers it in band) to register one of this host's queue pairs.
    pub(super) fn allow_registration(&mut self, qpn: QpNum, group: ExpectedGroup) {
        self.registrar.expect(&mut self.host, qpn, group);
    }

    /// Registers a group with this host as the leader; [`MemberEvent::Group`] reports the result.
    pub(super) fn register_in_band(
        &mut self,
        spec: GroupSpec,
        timing: LeaderTiming,
        nodes: &[Node],
        ctx: &mut Ctx<'_>,
    ) -> Result<(), TooManyNodes> {
        let now = ctx.now();
        self.registrar
            .lead(&mut self.host, now, spec, timing, nodes)?;
        self.finish_event(ctx);
        Ok(())
    }

    /// Deregisters the in-band group that this host leads.
    pub(super) fn deregister_in_band(&mut self, ctx: &mut Ctx<'_>) {
        if let Some(leader) = self.registrar.leader() {
            leader.deregister(&mut self.host, ctx.now());
        }
        self.finish_event(ctx);
    }

    /// Reports to the fabric that a group to which this host sends makes no progress.
    pub(super) fn report_stall(&mut self, mcst_id: Ipv4Addr, ctx: &mut Ctx<'_>) {
        self.registrar.stalled(&mut self.host, ctx.now(), mcst_id);
        self.finish_event(ctx);
    }

    // ---- Failures ----

    /// Suspends the application for `lasts` nanoseconds, once it has processed its pending events.
    pub(super) fn suspend(&mut self, lasts: u64, ctx: &mut Ctx<'_>) {
        ctx.note(|| format!("application suspended for {lasts} ns"));
        self.free_at = self.free_at.max(ctx.now()).saturating_add(lasts);
    }

    /// Ends the host at once: it neither sends nor receives any more.
    pub(super) fn kill(&mut self, ctx: &mut Ctx<'_>) {
        ctx.note(|| "dies".to_string());
        self.alive = false;
    }

    /// Whether the host is working.
    pub fn is_alive(&self) -> bool {
        self.alive
    }

    /// Whether the host sends hostile packets.
    pub fn is_hostile(&self) -> bool {
        self.hostile.is_some()
    }

    /// Makes the host send random packets whenever its link is idle, until a transfer is closed.
    pub(super) fn turn_hostile(&mut self, hostile: Hostile, ctx: &mut Ctx<'_>) {
        self.hostile = Some(hostile);
        self.finish_event(ctx);
    }

    // ---- The NIC, driven by the engine. ----

    /// Delay in nanoseconds from the arrival of a frame to its delivery: the delay of the NIC, or 0 with flow control.
    pub(super) fn reception_delay(&self) -> u64 {
        match &self.flow_control {
            Some(_) => 0,
            None => self.model.nic_delay,
        }
    }

    /// Whether the host may announce followers, which are frames without visible effect: only without flow control.
    pub(super) fn expects_followers(&self) -> bool {
        self.flow_control.is_none()
    }

    /// Handles `count` followers (frames without visible effect): `first` and the next frames of its flow. All of them
    /// are packets of a reliable connection.
    pub(super) fn on_followers(&mut self, count: usize, first: &Packet) {
        if let (true, Packet::Rc(first)) = (self.alive, first) {
            self.host.handle_followers(first, count as u64);
        }
    }

    pub(super) fn on_frame(&mut self, frame: Packet, ctx: &mut Ctx<'_>) {
        if !self.alive {
            return;
        }
        if let Some(control) = &mut self.flow_control {
            if control.apply_if_pause(PORT, &frame, ctx) {
                return self.finish_event(ctx);
            }
        }
        let is_acknowledgement = match &frame {
            Packet::Rc(frame) => frame.headers.aeth.is_some(),
            Packet::Bytes(frame) => is_acknowledgement(frame),
        };
        self.acks_received += u64::from(is_acknowledgement);
        if self.flow_control.is_none() {
            let deadline = self.host.qp_deadline();
            self.host.handle_packet(ctx.now(), &frame);
            // Most packets are data without an ACK request that do not end a message.
            let nothing_follows = self.host.is_quiet() && self.host.qp_deadline() == deadline;
            if !nothing_follows {
                self.finish_event(ctx);
            }
            if let Packet::Rc(rc) = &frame {
                if rc.place.is_some() {
                    let room = self.host.silent_followers(rc);
                    ctx.expect_followers(&frame, u32::try_from(room).unwrap_or(u32::MAX));
                }
            }
            return;
        }
        let message = Message::NicReceived { frame };
        ctx.send(ctx.node(), message, self.model.nic_delay);
    }

    pub(super) fn on_idle(&mut self, ctx: &mut Ctx<'_>) {
        self.finish_event(ctx);
    }

    pub(super) fn on_wake(&mut self, ctx: &mut Ctx<'_>) {
        if !self.alive {
            return;
        }
        if let Some(multicaster) = &mut self.multicaster {
            if multicaster.poll_timeout().is_some_and(|at| at <= ctx.now()) {
                multicaster.handle_timeout(&mut self.host, ctx.now());
                self.collect_multicast(ctx.now(), ctx);
            }
        }
        let mut has_timed_out = false;
        for HostTransfer { transfer, .. } in self.transfers.values_mut() {
            if transfer.poll_timeout().is_some_and(|at| at <= ctx.now()) {
                transfer.handle_timeout(&mut self.host, ctx.now());
                has_timed_out = true;
            }
        }
        if has_timed_out {
            self.collect(ctx);
        }
        if self.host.poll_timeout().is_some_and(|at| at <= ctx.now()) {
            self.host.handle_timeout(ctx.now());
        }
        if self
            .registrar
            .poll_timeout()
            .is_some_and(|at| at <= ctx.now())
        {
            self.registrar.handle_timeout(&mut self.host, ctx.now());
            self.collect(ctx);
        }
        self.finish_event(ctx);
    }

    pub(super) fn on_message(&mut self, message: Message, ctx: &mut Ctx<'_>) {
        if !self.alive {
            return;
        }
        match message {
            Message::NicReceived { frame } => self.host.handle_packet(ctx.now(), &frame),
            Message::AppPosted { event, seen_at } => self.handled(&event, seen_at, ctx),
            Message::PostMulticast { data } => self.post_multicast(data, ctx),
            Message::PostFirst { id, data } => self.started(id, data, ctx),
            Message::LegHandled { id } => {
                let transfer = self.transfer(id);
                let held = transfer.map_or(0, Transfer::held);
                let beyond = transfer.map_or_else(Vec::new, Transfer::held_beyond);
                self.report(id, MemberEvent::Left { held, beyond }, ctx);
            }
            _ => unreachable!("no node sends this to a host"),
        }
        self.finish_event(ctx);
    }

    fn started(&mut self, id: TransferId, data: Arc<[u8]>, ctx: &mut Ctx<'_>) {
        let Some(HostTransfer { transfer, .. }) = self.transfers.get_mut(&id) else {
            return;
        };
        // The application began to post at this earlier time.
        let posting = self.model.posting_ns(data.len() as u64);
        let posted_at = ctx.now().saturating_sub(posting);
        if let Err(error) = transfer.start(&mut self.host, posted_at, data) {
            let why = error.to_string();
            self.report(id, MemberEvent::Failed { why }, ctx);
        }
        self.collect(ctx);
    }

    /// Processes an event that the application has handled at `seen_at`. The posts that result reach the NIC now.
    fn handled(&mut self, event: &HostEvent, seen_at: u64, ctx: &mut Ctx<'_>) {
        let (host, now) = (&mut self.host, ctx.now());
        if let Some(multicaster) = &mut self.multicaster {
            if multicaster.handle_event(host, now, event) {
                return self.collect_multicast(seen_at, ctx);
            }
        }
        if !self.registrar.handle_event(host, now, event) {
            let mut parts = self.transfers.values_mut();
            parts.any(|part| part.transfer.handle_event(host, seen_at, event));
        }
        self.collect(ctx);
    }

    /// Collects the events of all transfers, and of the group that this host has registered in band.
    fn collect(&mut self, ctx: &mut Ctx<'_>) {
        while let Some(event) = self.registrar.poll() {
            // A group registered in band belongs to the main transfer.
            self.report(TransferId::MAIN, MemberEvent::Group(event), ctx);
        }
        let mut reported = Vec::new();
        for (&id, part) in &mut self.transfers {
            while let Some(event) = part.transfer.poll() {
                let event = match event {
                    TransferEvent::Ready => MemberEvent::Ready,
                    TransferEvent::Done { sha256, at, .. } => MemberEvent::Done { sha256, at },
                    TransferEvent::PartDone { part, at } => MemberEvent::PartDone { part, at },
                    TransferEvent::Failed(error) => MemberEvent::Failed {
                        why: error.to_string(),
                    },
                };
                reported.push((id, event));
            }
            if !part.finished && part.transfer.is_finished() {
                part.finished = true;
                reported.push((id, MemberEvent::Finished));
            }
        }
        for (id, event) in reported {
            self.report(id, event, ctx);
        }
    }

    /// Stores an event of a transfer for the caller, and adds a note to the trace.
    fn report(&mut self, id: TransferId, event: MemberEvent, ctx: &mut Ctx<'_>) {
        ctx.note(|| {
            let text = match &event {
                MemberEvent::Ready => "ready".to_string(),
                MemberEvent::Done { at, .. } => format!("done at {at}"),
                MemberEvent::PartDone { part, at } => format!("part {part} done at {at}"),
                MemberEvent::Finished => "finished".to_string(),
                MemberEvent::Left { held, beyond } => {
                    format!("left with {} slices", *held as usize + beyond.len())
                }
                MemberEvent::Failed { why } => format!("failed: {why}"),
                MemberEvent::Group(event) => format!("group: {event:?}"),
            };
            match id {
                TransferId::MAIN => text,
                TransferId(number) => format!("transfer {number}: {text}"),
            }
        });
        self.events.push_back((id, event));
        ctx.notify();
    }

    /// Finishes the handling of any event: passes events to the application, sends frames if the link is idle, and sets
    /// the timer.
    fn finish_event(&mut self, ctx: &mut Ctx<'_>) {
        if !self.alive {
            return;
        }
        while let Some(event) = self.host.poll_event() {
            let handling = self.model.handling_ns(event.received_bytes());
            let seen_at = ctx.now().max(self.free_at) + handling;
            self.free_at = seen_at + self.relaying_ns(&event);
            let delay = self.free_at - ctx.now() + self.model.post_delay;
            let event = Box::new(event);
            ctx.send(ctx.node(), Message::AppPosted { event, seen_at }, delay);
        }
        if let Some(control) = &mut self.flow_control {
            control.handle_timeout(PORT, ctx);
        }
        while ctx.can_transmit(PORT) && self.next_frame_at <= ctx.now() {
            let Some(frame) = self.next_frame(ctx.now()) else {
                break;
            };
            self.next_frame_at = ctx.now() + self.model.packet_interval;
            ctx.transmit(PORT, frame);
        }
        if !ctx.can_transmit(PORT) && self.has_frames() {
            ctx.await_idle(PORT);
        }
        let multicaster = self.multicaster.as_ref();
        let control = self.flow_control.as_ref();
        let alarms = [
            (self.next_frame_at > ctx.now()).then_some(self.next_frame_at),
            control.and_then(|control| control.poll_timeout(ctx.now())),
            self.host.poll_timeout(),
            self.registrar.poll_timeout(),
            multicaster.and_then(Multicaster::poll_timeout),
        ];
        let parts = self.transfers.values();
        let transfers = parts.map(|part| part.transfer.poll_timeout());
        if let Some(at) = alarms.into_iter().chain(transfers).flatten().min() {
            ctx.wake_at(at);
        }
    }

    /// Whether there may be frames to send when the link is idle.
    fn has_frames(&self) -> bool {
        !self.host.is_quiet() || self.hostile.is_some() || self.flow_control.is_some()
    }

    /// Additional time in nanoseconds that the application takes if it must forward the message of this event.
    fn relaying_ns(&self, event: &HostEvent) -> u64 {
        let costs = self.model.relaying_ns(event.received_bytes());
        let mut parts = self.transfers.values();
        match costs > 0 && parts.any(|part| part.transfer.relays(event)) {
            true => costs,
            false => 0,
        }
    }

    /// Returns the next frame for an idle link: of a queue pair, or else a hostile one. `None` if there is none.
    fn next_frame(&mut self, now: u64) -> Option<Packet> {
        let (host, hostile, fidelity) = (&mut self.host, &mut self.hostile, self.model.fidelity);
        let mut next = || {
            let honest = match fidelity {
                Fidelity::Exact => host.poll_split(now).map(Packet::from),
                Fidelity::Fast => host.poll_packet(now),
            };
            honest.or_else(|| {
                let hostile = hostile.as_mut()?;
                let group = hostile.target().mcst_id;
                let is_group = |qp: &&QueuePair| qp.remote().is_some_and(|end| end.ip == group);
                if let Some(qp) = host.qps().find(is_group) {
                    hostile.set_position(qp.rq_psn().prev());
                }
                Some(hostile.frame().into())
            })
        };
        match &mut self.flow_control {
            None => next(),
            Some(control) => control.next(next, now),
        }
    }
}
