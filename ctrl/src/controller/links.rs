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

use super::error::SwitchError;
use super::mrp::frame::{self, Received};
use super::session::TaskId;
use super::timers::Timers;
use super::Controller;
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
}

impl Controller {
    /// Tests whether a link carries frames in both directions; otherwise it is taken as failed.
    pub(super) fn test_link(&mut self, now: u64, link: LinkIndex) {
        if self.markers.untested_directions.contains_key(&link) {
            return;
        }
        let mut directions = 0;
        for end in self.topology.link(link).ends {
            if let Node::Switch(switch) = end.node {
                directions += u8::from(self.await_marker(now, (switch, end.port), None));
            }
        }
        // Without one of its switches the link cannot be tested.
        if directions > 0 {
            self.markers.untested_directions.insert(link, directions);
        }
    }

    /// Flushes the link at the port `from`: `task` completes once all frames sent from the port have arrived at the
    /// neighbour.
    pub(super) fn flush(&mut self, now: u64, from: SwitchPort, task: TaskId) {
        if !self.await_marker(now, from, Some(task)) {
            // No switch receives these frames.
            self.task_done(now, task, Ok(0));
        }
    }

    /// Sends a marker from a port; returns false if the port does not lead to a connected switch.
    fn await_marker(&mut self, now: u64, from: SwitchPort, task: Option<TaskId>) -> bool {
        let Some(behind) = self.topology.neighbour_at(from.0, from.1) else {
            return false;
        };
        let Node::Switch(next) = behind.peer.node else {
            return false;
        };
        let is_there = |switch: SwitchIndex| self.switches[switch.0].boot.is_ready();
        if !is_there(from.0) || !is_there(next) {
            return false;
        }
        let (at, link) = ((next, behind.peer.port), behind.link);
        let number = Psn::new(self.markers.next);
        let waiting = self.markers.waiting.entry(at).or_insert(PendingMarker {
            from,
            link,
            attempts: 0,
            flushes: BTreeMap::new(),
        });
        waiting.attempts = 0;
        if let Some(task) = task {
            waiting.flushes.insert(task, number);
        }
        self.send_marker(now, at);
        true
    }

    fn send_marker(&mut self, now: u64, at: SwitchPort) {
        let Some(waiting) = self.markers.waiting.get_mut(&at) else {
            return;
        };
        waiting.attempts += 1;
        let (switch, port) = waiting.from;
        let link = self.topology.link(waiting.link).attributes;
        let packet = Repr {
            kind: Kind::Alive,
            seq: 0,
            total: 1,
            initial_psn: Psn::new(self.markers.next),
            flags: 0,
            nodes: Vec::new(),
        };
        self.markers.next = self.markers.next.wrapping_add(1);
        let to = self.marker_address();
        let frame = frame::build(VIRTUAL_MAC, to, to, &packet);
        self.send_frame(switch, port, frame);
        let test_ns = self.config.link_test_ns.max(2 * link.longest_ns());
        let next = now + test_ns / u64::from(MAX_ATTEMPTS);
        self.markers.timers.set(at, next);
    }

    /// Destination address of markers.
    fn marker_address(&self) -> Ipv4Addr {
        self.config.group_range.network()
    }

    /// Whether a packet received over a link between switches is a marker.
    pub(super) fn is_marker(&self, received: &Received) -> bool {
        let to = self.marker_address();
        (received.source, received.destination) == (to, to) && received.packet.kind == Kind::Alive
    }

    /// Processes a received marker.
    pub(super) fn marker_received(&mut self, now: u64, at: SwitchPort, number: Psn) {
        let Some(waiting) = self.markers.waiting.get_mut(&at) else {
            return;
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
            self.markers.waiting.remove(&at);
            self.markers.timers.clear(at);
        }
        if let Some(left) = self.markers.untested_directions.get_mut(&link) {
            *left -= 1;
            if *left == 0 {
                self.markers.untested_directions.remove(&link);
            }
        }
        for task in done {
            self.task_done(now, task, Ok(0));
        }
    }

    pub(super) fn marker_timeout(&mut self, now: u64) {
        while let Some(at) = self.markers.timers.pop_due(now) {
            let Some(waiting) = self.markers.waiting.get(&at) else {
                continue;
            };
            if waiting.attempts < MAX_ATTEMPTS {
                self.send_marker(now, at);
                continue;
            }
            let (link, (switch, port)) = (waiting.link, waiting.from);
            let Some(waiting) = self.markers.waiting.remove(&at) else {
                continue;
            };
            self.markers.untested_directions.remove(&link);
            self.link_changed(now, link, false);
            let name = &self.topology.switch(switch).name;
            let error = SwitchError::LinkFailed {
                switch: name.clone(),
                port,
            };
            for task in waiting.flushes.into_keys() {
                self.task_done(now, task, Err(error.clone()));
            }
        }
    }

    /// Drops the markers from and to a switch that has disconnected.
    pub(super) fn discard_markers(&mut self, now: u64, switch: SwitchIndex) {
        let is_of = |(at, waiting): (&SwitchPort, &PendingMarker)| {
            at.0 == switch || waiting.from.0 == switch
        };
        let gone: Vec<SwitchPort> = (self.markers.waiting.iter())
            .filter(|(at, waiting)| is_of((at, waiting)))
            .map(|(at, _)| *at)
            .collect();
        for at in gone {
            self.markers.timers.clear(at);
            if let Some(waiting) = self.markers.waiting.remove(&at) {
                self.markers.untested_directions.remove(&waiting.link);
                for task in waiting.flushes.into_keys() {
                    self.task_done(now, task, Ok(0));
                }
            }
        }
    }
}
