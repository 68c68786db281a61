//! Marker frames of the controller over links between switches. They test whether a link carries frames, and flush it: all
//! earlier frames have left the link once a marker has arrived.
//!
//! ```text
//!  controller ── PacketOut FORWARD ──▶ switch ── marker ──▶ the switch behind the port ── PacketIn MRP ──▶ controller
//! ```
//!
//! A marker is a registration packet ([`alfirk_roce::wire::mrp`]) to the first address of the group range, which is never a
//! group. Every switch passes it to the controller. It uses the same queue as data and feedback, so frames sent over the
//! link before it have arrived before it. A link that carries a marker has not failed.
//!
//! Each direction of a link has at most one pending test, and the flushes of pending changes.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use alfirk_roce::wire::mrp::{Kind, Repr};
use alfirk_roce::wire::Psn;

use super::command::Command;
use super::config::ControllerConfig;
use super::error::SwitchError;
use super::mrp::frame::{self, Received};
use super::network::Network;
use super::session::TaskId;
use super::timers::Timers;
use crate::constants::VIRTUAL_MAC;
use crate::topology::{LinkIndex, Node, SwitchIndex};

/// Number of times that a marker is sent before the link is taken as failed.
const MAX_ATTEMPTS: u32 = 4;

/// Port of a switch at which a marker is expected.
type SwitchPort = (SwitchIndex, u32);

/// Pending link tests and flushes.
#[derive(Debug, Default)]
pub(super) struct Markers {
    waiting: BTreeMap<SwitchPort, PendingMarker>,
    timers: Timers<SwitchPort>,
    /// Number of directions in which a link under test has not carried a marker yet.
    untested_directions: BTreeMap<LinkIndex, u8>,
    /// Number of the next marker.
    next: u32,
}

/// Tests and flushes that wait for a marker at a port.
#[derive(Debug)]
struct PendingMarker {
    /// Port from which the marker is sent.
    from: SwitchPort,
    link: LinkIndex,
    attempts: u32,
    /// Tasks that complete when a marker with this number or a later one arrives.
    flushes: BTreeMap<TaskId, Psn>,
}

impl Markers {
    pub(super) fn poll_timeout(&self) -> Option<u64> {
        self.timers.first()
    }

    /// Number of expected markers.
    #[cfg(test)]
    pub(super) fn open(&self) -> usize {
        self.waiting.len()
    }

    /// Tests whether a link carries frames in both directions; otherwise it is taken as failed.
    pub(super) fn test_link(&mut self, now: u64, network: &mut Network, link: LinkIndex) {
        if self.untested_directions.contains_key(&link) {
            return;
        }
        let mut directions = 0;
        for end in network.topology().link(link).ends {
            if let Node::Switch(switch) = end.node {
                directions += u8::from(self.await_marker(now, network, (switch, end.port), None));
            }
        }
        // Without one of its switches the link cannot be tested.
        if directions > 0 {
            self.untested_directions.insert(link, directions);
        }
    }

    /// Flushes the link at the port `from`: `task` completes once all frames sent from the port have arrived at the
    /// neighbour. Returns false if no switch receives these frames, so that there is nothing to wait for.
    pub(super) fn flush(
        &mut self,
        now: u64,
        network: &mut Network,
        from: SwitchPort,
        task: TaskId,
    ) -> bool {
        self.await_marker(now, network, from, Some(task))
    }

    /// Sends a marker from a port; returns false if the port does not lead to a connected switch.
    fn await_marker(
        &mut self,
        now: u64,
        network: &mut Network,
        from: SwitchPort,
        task: Option<TaskId>,
    ) -> bool {
        let Some(behind) = network.topology().neighbour_at(from.0, from.1) else {
            return false;
        };
        let Node::Switch(next) = behind.peer.node else {
            return false;
        };
        if !network.is_ready(from.0) || !network.is_ready(next) {
            return false;
        }
        let (at, link) = ((next, behind.peer.port), behind.link);
        let number = Psn::new(self.next);
        let waiting = self.waiting.entry(at).or_insert(PendingMarker {
            from,
            link,
            attempts: 0,
            flushes: BTreeMap::new(),
        });
        waiting.attempts = 0;
        if let Some(task) = task {
            waiting.flushes.insert(task, number);
        }
        self.send_marker(now, network, at);
        true
    }

    fn send_marker(&mut self, now: u64, network: &mut Network, at: SwitchPort) {
        let Some(waiting) = self.waiting.get_mut(&at) else {
            return;
        };
        waiting.attempts += 1;
        let (switch, port) = waiting.from;
        let link = network.topology().link(waiting.link).attributes;
        let packet = Repr {
            kind: Kind::Alive,
            seq: 0,
            total: 1,
            initial_psn: Psn::new(self.next),
            flags: 0,
            nodes: Vec::new(),
        };
        self.next = self.next.wrapping_add(1);
        let to = marker_address(network.config());
        let frame = frame::build(VIRTUAL_MAC, to, to, &packet);
        network.send_frame(switch, port, frame);
        let test_ns = network.config().link_test_ns.max(2 * link.longest_ns());
        let next = now + test_ns / u64::from(MAX_ATTEMPTS);
        self.timers.set(at, next);
    }

    /// Processes a received marker: ends the flushes that wait for it.
    pub(super) fn received(&mut self, at: SwitchPort, number: Psn) -> Vec<Command> {
        let Some(waiting) = self.waiting.get_mut(&at) else {
            return Vec::new();
        };
        let is_done = |since: &Psn| !number.precedes(*since);
        let done: Vec<TaskId> = (waiting.flushes.iter())
            .filter(|(_, since)| is_done(since))
            .map(|(task, _)| *task)
            .collect();
        for task in &done {
            waiting.flushes.remove(task);
        }
        let link = waiting.link;
        if waiting.flushes.is_empty() {
            self.waiting.remove(&at);
            self.timers.clear(at);
        }
        if let Some(left) = self.untested_directions.get_mut(&link) {
            *left -= 1;
            if *left == 0 {
                self.untested_directions.remove(&link);
            }
        }
        done.into_iter()
            .map(|task| Command::EndTask(task, Ok(0)))
            .collect()
    }

    /// Sends due markers again. Returns the commands that follow from one that did not arrive; `None` if no marker is due.
    pub(super) fn timeout(&mut self, now: u64, network: &mut Network) -> Option<Vec<Command>> {
        while let Some(at) = self.timers.pop_due(now) {
            let Some(waiting) = self.waiting.get(&at) else {
                continue;
            };
            if waiting.attempts < MAX_ATTEMPTS {
                self.send_marker(now, network, at);
                continue;
            }
            let (link, (switch, port)) = (waiting.link, waiting.from);
            let Some(waiting) = self.waiting.remove(&at) else {
                continue;
            };
            self.untested_directions.remove(&link);
            let error = SwitchError::LinkFailed {
                switch: network.name(switch).to_owned(),
                port,
            };
            let flushes = waiting.flushes.into_keys();
            let ends = flushes.map(|task| Command::EndTask(task, Err(error.clone())));
            return Some(
                [Command::LinkFailed(link)]
                    .into_iter()
                    .chain(ends)
                    .collect(),
            );
        }
        None
    }

    /// Drops the markers from and to a switch that has disconnected, and ends the flushes that wait for them.
    pub(super) fn discard_switch(&mut self, switch: SwitchIndex) -> Vec<Command> {
        let is_of = |(at, waiting): (&SwitchPort, &PendingMarker)| {
            at.0 == switch || waiting.from.0 == switch
        };
        let gone: Vec<SwitchPort> = (self.waiting.iter())
            .filter(|(at, waiting)| is_of((at, waiting)))
            .map(|(at, _)| *at)
            .collect();
        let mut commands = Vec::new();
        for at in gone {
            self.timers.clear(at);
            if let Some(waiting) = self.waiting.remove(&at) {
                self.untested_directions.remove(&waiting.link);
                let flushes = waiting.flushes.into_keys();
                commands.extend(flushes.map(|task| Command::EndTask(task, Ok(0))));
            }
        }
        commands
    }
}

/// Destination address of markers.
fn marker_address(config: &ControllerConfig) -> Ipv4Addr {
    config.group_range.network()
}

/// Whether a packet received over a link between switches is a marker.
pub(super) fn is_marker(config: &ControllerConfig, received: &Received) -> bool {
    let to = marker_address(config);
    (received.source, received.destination) == (to, to) && received.packet.kind == Kind::Alive
}
