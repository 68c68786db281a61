//! Packets that switches pass to the controller: feedback to aggregate, ICRCs to recompute, and fatal NAKs.
//!
//! ```text
//!  PacketIn  FEEDBACK   an ACK or NAK of a group of `MinPsn::Punt`  ──▶ aggregate ──▶ PacketOut FEEDBACK to the source
//!            PROBE      a retransmission, as an ACK of its PSN      ──▶ aggregate ──▶ PacketOut FEEDBACK to its sender
//!            ICRC       a copy for a host, its ICRC as at the sender ──▶ checked, recomputed ──▶ PacketOut FORWARD
//!            FATAL_NAK  a copy of a NAK forwarded to the source     ──▶ the member that sent it is removed
//! ```
//!
//! Frames received together are answered together: [`Punts::frame`] records each, then
//! [`Punts::reply_to_frames`] sends the replies once for each group on each switch.
//!
//! No state survives a restart of a switch or of this controller. An aggregator starts from the feedback header of its first
//! frame, and reads the remaining state from the switch. Until then it may acknowledge too little, but never too much. If
//! packets to or from the controller are lost, the sender retransmits, which causes a probe; if it cannot be acknowledged,
//! the registers of the switch are read again.

mod frame;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use alfirk_aggregation::punt::Aggregator;
use alfirk_aggregation::{Feedback, Message, PacketIn, PacketOut, Point, Space};

use super::command::Command;
use super::error::SwitchError;
use super::groups::Groups;
use super::network::Network;
use super::registers;
use super::session::{Task, TaskId};
use super::status::PuntStats;
use super::switches::Owner;
use crate::constants::{
    PACKET_IN_FATAL_NAK, PACKET_IN_FEEDBACK, PACKET_IN_ICRC, PACKET_IN_PROBE, PACKET_OUT_FEEDBACK,
    PACKET_OUT_FORWARD, REGISTER_ACK,
};
use crate::tables::PacketOutHeader;
use crate::topology::SwitchIndex;

use frame::{AckFrame, FeedbackHeader, Tags};

/// Key of a group's part on one switch: the switch, and the group's index there.
pub(super) type PartIndex = (SwitchIndex, u16);

/// Aggregator of a group's ACKs and NAKs on one switch, and its pending reads of registers.
#[derive(Debug)]
struct PartAggregator {
    mcst_id: Ipv4Addr,
    aggregator: Aggregator,
    /// Pending reads of path registers, with the port of each.
    reads: BTreeMap<TaskId, u32>,
    /// Whether all reads have completed since the last replies.
    has_new_reads: bool,
}

/// State that the controller keeps to process frames that switches pass to it (punted frames).
#[derive(Debug, Default)]
pub(super) struct Punts {
    aggregators: BTreeMap<PartIndex, PartAggregator>,
    /// Parts of groups from which frames were received since the last call of [`Punts::reply_to_frames`].
    unanswered: BTreeSet<PartIndex>,
    /// Parts of groups whose registers were initialised over the current connection, and from which no ACK or NAK has
    /// been received since.
    initialised: BTreeSet<PartIndex>,
    /// Members with queue pairs in the error state that are still to be removed, by group.
    members_in_error: BTreeMap<Ipv4Addr, BTreeSet<Ipv4Addr>>,
    stats: PuntStats,
}

impl Punts {
    /// Discards the aggregators of parts of groups whose registers were initialised meanwhile.
    fn discard_initialised(&mut self, network: &mut Network) {
        for part in network.switches_mut().take_initialised() {
            self.aggregators.remove(&part);
            self.initialised.insert(part);
        }
    }

    /// Discards the aggregators of a switch that may have lost its registers.
    pub(super) fn discard_switch(&mut self, network: &mut Network, switch: SwitchIndex) {
        self.discard_initialised(network);
        self.aggregators.retain(|(at, _), _| *at != switch);
        self.initialised.retain(|(at, _)| *at != switch);
    }

    /// Counters of punted frames.
    pub(super) fn stats(&self) -> &PuntStats {
        &self.stats
    }

    /// Number of aggregators, and of their pending reads.
    #[cfg(test)]
    pub(super) fn open(&self) -> (usize, usize) {
        let reads = self.aggregators.values().map(|state| state.reads.len());
        (self.aggregators.len(), reads.sum())
    }

    /// Discards the state of a removed group.
    pub(super) fn discard_group(&mut self, mcst_id: Ipv4Addr) {
        self.aggregators.retain(|_, state| state.mcst_id != mcst_id);
        self.members_in_error.remove(&mcst_id);
    }

    /// Processes a frame of a group that a switch has passed to the controller.
    pub(super) fn frame(
        &mut self,
        now: u64,
        network: &mut Network,
        groups: &Groups,
        (switch, port): (SwitchIndex, u32),
        reason: u8,
        payload: Vec<u8>,
    ) -> Option<Command> {
        self.discard_initialised(network);
        let is_probe = reason == PACKET_IN_PROBE;
        let at = (switch, port);
        // `None` for a frame that belongs to no group.
        let accepted = match reason {
            PACKET_IN_FEEDBACK | PACKET_IN_PROBE => self
                .feedback_in(now, network, groups, at, &payload, is_probe)
                .map(|()| None),
            PACKET_IN_ICRC => self.icrc_in(network, groups, at, payload).map(|()| None),
            PACKET_IN_FATAL_NAK => self.fatal_nak_in(network, groups, at, &payload),
            _ => None,
        };
        accepted.unwrap_or_else(|| {
            self.stats.strays += 1;
            None
        })
    }

    fn feedback_in(
        &mut self,
        now: u64,
        network: &mut Network,
        groups: &Groups,
        (switch, port): (SwitchIndex, u32),
        payload: &[u8],
        is_probe: bool,
    ) -> Option<()> {
        let (header, frame) = FeedbackHeader::parse(payload)?;
        let frame = AckFrame::parse(frame)?;
        let part = (switch, header.group);
        let mcst_id = frame.destination();
        let on = groups.indexed_part(mcst_id, part)?;
        let ports: Vec<u32> = on.paths.iter().map(|path| path.port).collect();
        if !ports.contains(&port) {
            return None;
        }
        let feedback = frame.feedback()?;
        let message = match (is_probe, feedback) {
            (false, _) => Message::Feedback(feedback),
            (true, Feedback::Ack { psn, msn }) => Message::Probe(Point { psn, msn }),
            (true, Feedback::Nak { .. }) => return None,
        };
        let is_other = |state: &PartAggregator| state.mcst_id != mcst_id;
        if self.aggregators.get(&part).is_none_or(is_other) {
            self.begin_aggregator(now, network, part, &ports, mcst_id, &header);
        }
        let state = self.aggregators.get_mut(&part)?;
        state.aggregator.record(&PacketIn {
            port,
            message,
            source: header.source(),
            last_acked: header.last_acked.into(),
        });
        match message {
            Message::Feedback(_) => self.stats.feedback += 1,
            Message::Probe(_) => self.stats.probes += 1,
        }
        self.unanswered.insert(part);
        Some(())
    }

    /// Creates the aggregator of a part from the header of its first frame, and reads from the switch what its paths have
    /// acknowledged before. A path may not acknowledge that data again, because the switch sends it no retransmissions of
    /// data that it has.
    fn begin_aggregator(
        &mut self,
        now: u64,
        network: &mut Network,
        part: PartIndex,
        ports: &[u32],
        mcst_id: Ipv4Addr,
        header: &FeedbackHeader,
    ) {
        let last_acked = header.last_acked.into();
        let state = PartAggregator {
            mcst_id,
            aggregator: Aggregator::new(Space::PSN, ports.iter().copied(), last_acked),
            reads: BTreeMap::new(),
            has_new_reads: false,
        };
        self.aggregators.insert(part, state);
        if self.initialised.remove(&part) {
            // All acknowledgements since the initialisation of the registers were passed up.
            return;
        }
        self.read_paths(now, network, part, (0..=u8::MAX).zip(ports.iter().copied()));
    }

    /// Reads from a switch the newest PSN that each of these paths of a group has acknowledged.
    fn read_paths(
        &mut self,
        now: u64,
        network: &mut Network,
        part: PartIndex,
        paths: impl IntoIterator<Item = (u8, u32)>,
    ) {
        let (switch, group) = part;
        for (path, port) in paths {
            let read = Task::Registers(registers::read(group, REGISTER_ACK, path));
            let id = network.submit(now, switch, Owner::Path(part), read);
            if let Some(state) = self.aggregators.get_mut(&part) {
                state.reads.insert(id, port);
            }
        }
    }

    /// Processes the newest acknowledged PSN of a path, read from a register of a switch.
    pub(super) fn path_read(
        &mut self,
        network: &mut Network,
        part: PartIndex,
        task: TaskId,
        result: Result<u64, SwitchError>,
    ) {
        self.discard_initialised(network);
        let Some(state) = self.aggregators.get_mut(&part) else {
            return;
        };
        let Some(port) = state.reads.remove(&task) else {
            // The read belongs to an earlier aggregator.
            return;
        };
        let Ok(value) = result else {
            // Without the value the group may stall; the next frame creates a new aggregator.
            self.aggregators.remove(&part);
            return;
        };
        state.aggregator.update_path(port, (value >> 8) as u32);
        if state.reads.is_empty() {
            state.has_new_reads = true;
            self.unanswered.insert(part);
        }
    }

    /// Sends the replies to all frames since the last call.
    pub(super) fn reply_to_frames(&mut self, now: u64, network: &mut Network, groups: &Groups) {
        self.discard_initialised(network);
        for part in std::mem::take(&mut self.unanswered) {
            let Some(state) = self.aggregators.get_mut(&part) else {
                continue;
            };
            let replies = state.aggregator.replies();
            let stats = &mut self.stats;
            stats.forwarded += u64::from(replies.forwarded.is_some());
            stats.probe_replies += replies.probe_replies.len() as u64;
            // Read registers of paths that lack the data of a probe; one round of reads at a time.
            let mut lagging = BTreeSet::new();
            if state.reads.is_empty() {
                if !std::mem::take(&mut state.has_new_reads) {
                    lagging = state.aggregator.lagging();
                }
                if lagging.is_empty() {
                    state.aggregator.drop_probes();
                }
            }
            let mcst_id = state.mcst_id;
            for out in replies {
                send_feedback(network, groups, mcst_id, part, &out);
            }
            if !lagging.is_empty() {
                let on = groups.indexed_part(mcst_id, part);
                let paths = on.into_iter().flat_map(|on| (0..=u8::MAX).zip(&on.paths));
                let ports = paths.map(|(number, path)| (number, path.port));
                let lagging: Vec<_> = ports.filter(|(_, port)| lagging.contains(port)).collect();
                self.read_paths(now, network, part, lagging);
            }
        }
    }

    /// Processes a frame whose headers the switch has rewritten for a member without updating the ICRC: checks the sender's
    /// ICRC, computes the new one, and sends the frame through the switch to the member.
    fn icrc_in(
        &mut self,
        network: &mut Network,
        groups: &Groups,
        (switch, port): (SwitchIndex, u32),
        frame: Vec<u8>,
    ) -> Option<()> {
        let (tags, mut frame) = Tags::take(&frame);
        let mcst_id = frame::source(&frame)?;
        let member = groups.member_at_port(mcst_id, switch, port)?;
        let group = groups.group(mcst_id)?;
        let own = (mcst_id, group.virtual_qpn);
        match frame::repair_icrc(&mut frame, own, &member.spec) {
            Some(true) => {
                self.stats.icrcs += 1;
                let to = PacketOutHeader {
                    kind: PACKET_OUT_FORWARD,
                    egress_port: port,
                };
                network.send_packet(switch, to, tags.put_into(&frame));
            }
            Some(false) => self.stats.wrong_icrcs += 1,
            None => return None,
        }
        Some(())
    }

    /// Processes a fatal NAK, whose sender's queue pair is in the error state.
    ///
    /// Every switch on its way passes a copy to the controller; only the member's own switch identifies the member. The member
    /// never acknowledges again, so it is removed at once, without the timeout of unresponsive members. The source gets the NAK
    /// as well, and decides itself whether it continues.
    fn fatal_nak_in(
        &mut self,
        network: &Network,
        groups: &Groups,
        (switch, port): (SwitchIndex, u32),
        frame: &[u8],
    ) -> Option<Option<Command>> {
        let frame = AckFrame::parse(frame)?;
        let mcst_id = frame.destination();
        let mut parts = groups.parts_on(mcst_id, switch);
        if !parts.any(|on| on.paths.iter().any(|path| path.port == port)) {
            return None;
        }
        if let Some(member) = groups.member_at_port(mcst_id, switch, port) {
            self.stats.fatal_naks += 1;
            let ended = self.members_in_error.entry(mcst_id).or_default();
            if ended.insert(member.spec.ip) {
                let name = &network.topology().host(member.host).name;
                let syndrome = frame.syndrome();
                tracing::warn!(%mcst_id, "host {name}: the queue pair is in the error state; it sent a NAK with syndrome {syndrome:#04x}");
                return Some(self.remove_members_in_error(groups, mcst_id));
            }
        }
        Some(None)
    }

    /// Removes the members whose queue pairs are in the error state. Called again after a pending change of the group.
    pub(super) fn remove_members_in_error(
        &mut self,
        groups: &Groups,
        mcst_id: Ipv4Addr,
    ) -> Option<Command> {
        let Some(registration) = groups.get(mcst_id) else {
            self.members_in_error.remove(&mcst_id);
            return None;
        };
        if !registration.is_at_rest() {
            return None;
        }
        let ended = self.members_in_error.remove(&mcst_id)?;
        let members = registration.group().members.iter().map(|m| m.spec.ip);
        let (lost, left): (Vec<_>, Vec<_>) = members.partition(|ip| ended.contains(ip));
        // A group without remaining members is not changed.
        let is_changed = !lost.is_empty() && !left.is_empty();
        is_changed.then_some(Command::RemoveMembers(mcst_id, lost))
    }
}

/// Sends an ACK or NAK of a group through the switch of one of its parts.
fn send_feedback(
    network: &mut Network,
    groups: &Groups,
    mcst_id: Ipv4Addr,
    part: PartIndex,
    out: &PacketOut,
) {
    let (switch, group) = part;
    let Some(virtual_qpn) = groups.group(mcst_id).map(|group| group.virtual_qpn) else {
        return;
    };
    let frame = frame::feedback(mcst_id, virtual_qpn, out.feedback);
    let payload = FeedbackHeader::for_packet_out(group, out).prepended_to(&frame);
    let to = PacketOutHeader {
        kind: PACKET_OUT_FEEDBACK,
        egress_port: 0,
    };
    network.send_packet(switch, to, payload);
}
