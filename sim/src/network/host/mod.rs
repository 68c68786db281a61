//! A host of the simulator: a NIC with RC endpoint, and an application that takes part in transfers.

mod commands;
mod multicast;
mod nic;
mod reports;

use std::collections::VecDeque;

use alfirk_experiment::{MemberEvent, TransferId};
use alfirk_roce::application::Application;
use alfirk_roce::binomial_ack::{Endpoint as Multicaster, EndpointEvent};
use alfirk_roce::collective::{Progress, Transfer};
use alfirk_roce::host::{Host, Packet};
use alfirk_roce::hostile::Hostile;
use alfirk_roce::steady::StateVisitor;

use super::pfc::PausableQueue;
use super::{Ctx, Model};

/// Number of a host's only port.
pub(super) const PORT: u32 = 0;

/// A host as a node of the simulator. The [`Model`] defines its delays.
pub struct HostNode {
    host: Host,
    application: Application,
    model: Model,
    /// State of flow control on the link; `None` without flow control.
    flow_control: Option<PausableQueue<Packet>>,
    /// Earliest time at which the NIC may start its next frame, in nanoseconds.
    next_frame_at: u64,
    /// Time in nanoseconds at which the application has processed all events that it has received so far.
    free_at: u64,
    /// Number of ACK and NAK frames received.
    acks_received: u64,
    /// Whether the host is working. A failed host neither sends nor receives.
    alive: bool,
    /// Generator of random packets, which a hostile host sends while its link is idle; `None` for a correct host.
    hostile: Option<Hostile>,
    events: VecDeque<(TransferId, MemberEvent)>,
    /// Events of the datagram endpoint, each with the time at which the application processed the event's cause.
    multicast_events: VecDeque<(u64, EndpointEvent)>,
}

impl HostNode {
    /// Creates a host. `obeys_pauses`: rate in bits per second of its link, if the host obeys PAUSE frames; `None` if
    /// it ignores them.
    pub(super) fn new(host: Host, model: Model, obeys_pauses: Option<u64>) -> HostNode {
        HostNode {
            host,
            application: Application::default(),
            model,
            flow_control: obeys_pauses.map(PausableQueue::new),
            next_frame_at: 0,
            free_at: 0,
            acks_received: 0,
            alive: true,
            hostile: None,
            events: VecDeque::new(),
            multicast_events: VecDeque::new(),
        }
    }

    /// Returns the NIC with its queue pairs.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Returns a transfer in which the host takes part.
    pub fn transfer(&self, id: TransferId) -> Option<&Transfer> {
        self.application.transfer(id)
    }

    /// All transfers in which the host takes part.
    pub fn transfers(&self) -> impl Iterator<Item = &Transfer> {
        self.application.transfers().map(|(_, transfer)| transfer)
    }

    /// The host's endpoint of a datagram group, which belongs to no transfer; `None` if the host has none.
    pub fn multicaster(&self) -> Option<&Multicaster> {
        self.application.datagrams()
    }

    /// Number of ACK and NAK frames received.
    pub fn acks_received(&self) -> u64 {
        self.acks_received
    }

    /// Progress of a transfer at this host; `None` if the host takes no part in it.
    pub fn progress(&self, id: TransferId) -> Option<Progress> {
        self.application.progress(&self.host, id)
    }

    /// Visits the state that frames change. The application must not be involved in the period that is repeated: it
    /// acts only upon messages and timers, which end a steady state.
    pub(super) fn visit_state(&mut self, visitor: &mut StateVisitor<'_>) {
        let is_usual = self.alive
            && self.flow_control.is_none()
            && self.hostile.is_none()
            && self.multicaster().is_none();
        if !is_usual {
            visitor.unsupported();
        }
        self.host.visit_state(visitor);
        self.next_frame_at = visitor.time(self.next_frame_at);
        self.free_at = visitor.time(self.free_at);
        self.acks_received = visitor.count(self.acks_received);
        let pending = self.application.poll_timeout();
        let unchanged = visitor.optional_time(pending);
        debug_assert_eq!(
            pending, unchanged,
            "a timer of the application limits the shift"
        );
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
}
