//! What switches leave to the controller: minima, ICRCs, and news of queue pairs that have ended.
//!
//! ```text
//!  PacketIn  FEEDBACK   an ACK or NAK of a group of `MinPsn::Punt`  ──▶ aggregate ──▶ PacketOut FEEDBACK to the source
//!            PROBE      data sent again, as an ACK of its PSN       ──▶ aggregate ──▶ PacketOut FEEDBACK to who asks
//!            ICRC       a copy for a host, its ICRC as at the sender ──▶ checked, recomputed ──▶ PacketOut FORWARD
//!            FATAL_NAK  a copy of a NAK that went on to the source  ──▶ the member that sent it is taken out
//! ```
//!
//! Frames that come together are answered together: [`Controller::punted`] takes them in, and when all are there
//! [`Controller::answer_punted`] says once for each group on each switch what is new.
//!
//! Nothing here is kept over a restart, of a switch or of this controller: an aggregator begins with what the header of
//! its first frame says and asks the switch for the rest.  Until that is known it acknowledges too little, never too much;
//! and what is lost on the way to or from here, the sender's retransmission asks for again: if that cannot be answered, the
//! switch is asked, too.

mod frame;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use alfirk_aggregation::punt::Aggregator;
use alfirk_aggregation::{Feedback, Message, PacketIn, PacketOut, Point, Space};

use super::bridge::GroupMember;
use super::error::SwitchError;
use super::group::GroupPart;
use super::registers;
use super::session::{Task, TaskId};
use super::status::PuntStats;
use super::{Controller, Owner};
use crate::constants::{
    PACKET_IN_FATAL_NAK, PACKET_IN_FEEDBACK, PACKET_IN_ICRC, PACKET_IN_PROBE, PACKET_OUT_FEEDBACK,
    PACKET_OUT_FORWARD, REGISTER_ACK,
};
use crate::tables::PacketOutHeader;
use crate::topology::SwitchIndex;

use frame::{AckFrame, FeedbackHeader, Tags};

/// A group on one switch, by its index there.
pub(super) type Part = (SwitchIndex, u16);

/// One aggregator, and what is being asked about it.
#[derive(Debug)]
struct Punted {
    mcst_id: Ipv4Addr,
    aggregator: Aggregator,
    /// Reads of paths' registers that are under way, and the port of each.
    reads: BTreeMap<TaskId, u32>,
    /// Whether reads have come to their end since the last answers.
    has_read: bool,
}

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Punts {
    parts: BTreeMap<Part, Punted>,
    /// Parts of which something has come up that is not answered yet.
    news: BTreeSet<Part>,
    /// Parts whose registers this controller has set over the present connection, and of which nothing has come up yet.
    fresh: BTreeSet<Part>,
    /// Members of groups whose queue pairs have ended, and that are still to be taken out.
    ended: BTreeMap<Ipv4Addr, BTreeSet<Ipv4Addr>>,
    pub(super) stats: PuntStats,
}

impl Punts {
    /// The part's registers are set anew: nothing of before counts.
    pub(super) fn begin(&mut self, part: Part) {
        self.parts.remove(&part);
        self.fresh.insert(part);
    }

    /// The switch has lost its registers, or may have.
    pub(super) fn forget_switch(&mut self, switch: SwitchIndex) {
        self.parts.retain(|(at, _), _| *at != switch);
        self.fresh.retain(|(at, _)| *at != switch);
    }

    /// Aggregators, and reads that are under way for them.
    #[cfg(test)]
    pub(super) fn open(&self) -> (usize, usize) {
        let reads = self.parts.values().map(|punted| punted.reads.len());
        (self.parts.len(), reads.sum())
    }

    /// The group is gone.
    pub(super) fn forget_group(&mut self, mcst_id: Ipv4Addr) {
        self.parts.retain(|_, punted| punted.mcst_id != mcst_id);
        self.ended.remove(&mcst_id);
    }
}

impl Controller {
    /// A switch has handed up a frame of a group.
    pub(super) fn punted(
        &mut self,
        now: u64,
        switch: SwitchIndex,
        reason: u8,
        port: u32,
        payload: Vec<u8>,
    ) {
        let taken = match reason {
            PACKET_IN_FEEDBACK | PACKET_IN_PROBE => {
                self.feedback_in(now, switch, port, &payload, reason == PACKET_IN_PROBE)
            }
            PACKET_IN_ICRC => self.icrc_in(switch, port, payload),
            PACKET_IN_FATAL_NAK => self.fatal_nak_in(now, switch, port, &payload),
            _ => None,
        };
        if taken.is_none() {
            self.punts.stats.strays += 1;
        }
    }

    fn feedback_in(
        &mut self,
        now: u64,
        switch: SwitchIndex,
        port: u32,
        payload: &[u8],
        is_probe: bool,
    ) -> Option<()> {
        let (header, frame) = FeedbackHeader::parse(payload)?;
        let frame = AckFrame::parse(frame)?;
        let part = (switch, header.group);
        let mcst_id = frame.destination();
        let on = self.part(mcst_id, part)?;
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
        let is_other = |punted: &Punted| punted.mcst_id != mcst_id;
        if self.punts.parts.get(&part).is_none_or(is_other) {
            self.begin_aggregator(now, part, &ports, mcst_id, &header);
        }
        let punted = self.punts.parts.get_mut(&part)?;
        punted.aggregator.take(&PacketIn {
            port,
            message,
            source: header.source(),
            last_acked: header.last_acked.into(),
        });
        match message {
            Message::Feedback(_) => self.punts.stats.feedback += 1,
            Message::Probe(_) => self.punts.stats.probes += 1,
        }
        self.punts.news.insert(part);
        Some(())
    }

    /// Starts from what the frame's header says, and asks the switch what its paths have acknowledged before: copies of
    /// what they have are kept from them, so they may have nothing more to say.
    fn begin_aggregator(
        &mut self,
        now: u64,
        part: Part,
        ports: &[u32],
        mcst_id: Ipv4Addr,
        header: &FeedbackHeader,
    ) {
        let last_acked = header.last_acked.into();
        let punted = Punted {
            mcst_id,
            aggregator: Aggregator::new(Space::PSN, ports.iter().copied(), last_acked),
            reads: BTreeMap::new(),
            has_read: false,
        };
        self.punts.parts.insert(part, punted);
        if self.punts.fresh.remove(&part) {
            // All that was acknowledged since the registers were set has come here.
            return;
        }
        self.read_paths(now, part, (0..=u8::MAX).zip(ports.iter().copied()));
    }

    /// Asks a switch what paths have acknowledged.
    fn read_paths(&mut self, now: u64, part: Part, paths: impl IntoIterator<Item = (u8, u32)>) {
        let (switch, group) = part;
        for (path, port) in paths {
            let read = Task::Registers(registers::read(group, REGISTER_ACK, path));
            let id = self.submit(now, switch, Owner::Path(switch, group), read);
            if let Some(punted) = self.punts.parts.get_mut(&part) {
                punted.reads.insert(id, port);
            }
        }
    }

    /// A switch has reported what a path has acknowledged, or could not.
    pub(super) fn path_read(&mut self, part: Part, task: TaskId, result: Result<u64, SwitchError>) {
        let Some(punted) = self.punts.parts.get_mut(&part) else {
            return;
        };
        let Some(port) = punted.reads.remove(&task) else {
            // Of an aggregator that stood here before.
            return;
        };
        let Ok(value) = result else {
            // Without it the group may stand still; the next frame starts anew.
            self.punts.parts.remove(&part);
            return;
        };
        punted.aggregator.update_path(port, (value >> 8) as u32);
        if punted.reads.is_empty() {
            punted.has_read = true;
            self.punts.news.insert(part);
        }
    }

    /// Says what has become of all that came up since the last time.
    pub(super) fn answer_punted(&mut self, now: u64) {
        for part in std::mem::take(&mut self.punts.news) {
            let Some(punted) = self.punts.parts.get_mut(&part) else {
                continue;
            };
            let replies = punted.aggregator.replies();
            let stats = &mut self.punts.stats;
            stats.forwarded += u64::from(replies.forwarded.is_some());
            stats.probe_replies += replies.probe_replies.len() as u64;
            // What cannot be answered may be known to the switch: one round of reads at a time.
            let mut lagging = BTreeSet::new();
            if punted.reads.is_empty() {
                if !std::mem::take(&mut punted.has_read) {
                    lagging = punted.aggregator.lagging();
                }
                if lagging.is_empty() {
                    punted.aggregator.give_up();
                }
            }
            let mcst_id = punted.mcst_id;
            for out in replies {
                self.say_feedback(mcst_id, part, &out);
            }
            if !lagging.is_empty() {
                let on = self.part(mcst_id, part);
                let paths = on.into_iter().flat_map(|on| (0..=u8::MAX).zip(&on.paths));
                let ports = paths.map(|(number, path)| (number, path.port));
                let lagging: Vec<_> = ports.filter(|(_, port)| lagging.contains(port)).collect();
                self.read_paths(now, part, lagging);
            }
        }
    }

    /// Sends an ACK or NAK.
    fn say_feedback(&mut self, mcst_id: Ipv4Addr, part: Part, out: &PacketOut) {
        let (switch, group) = part;
        let Some(registration) = self.groups.get(&mcst_id) else {
            return;
        };
        let virtual_qpn = registration.group().virtual_qpn;
        let frame = frame::feedback(mcst_id, virtual_qpn, out.feedback);
        let payload = FeedbackHeader::of(group, out).before(&frame);
        let to = PacketOutHeader {
            kind: PACKET_OUT_FEEDBACK,
            egress_port: 0,
        };
        self.with_session(switch, |session, context| {
            session.send_packet(context, to, payload);
        });
    }

    /// A copy as it left the bridge's exit, its ICRC as it was before.
    fn icrc_in(&mut self, switch: SwitchIndex, port: u32, frame: Vec<u8>) -> Option<()> {
        let (tags, mut frame) = Tags::take(&frame);
        let mcst_id = frame::source(&frame)?;
        let member = self.member_behind(mcst_id, switch, port)?;
        let group = self.groups.get(&mcst_id)?.group();
        let own = (mcst_id, group.virtual_qpn);
        match frame::repair_icrc(&mut frame, own, &member.spec) {
            Some(true) => {
                self.punts.stats.icrcs += 1;
                let to = PacketOutHeader {
                    kind: PACKET_OUT_FORWARD,
                    egress_port: port,
                };
                self.with_session(switch, |session, context| {
                    session.send_packet(context, to, tags.put_into(&frame));
                });
            }
            Some(false) => self.punts.stats.wrong_icrcs += 1,
            None => return None,
        }
        Some(())
    }

    /// A NAK after which its sender's queue pair takes nothing more.
    ///
    /// Every switch on its way hands up a copy; the one next to the member knows who it is.  The member would never
    /// acknowledge again, so it leaves the group at once, without the wait that silent members get.  The source has had the
    /// NAK too, and decides for itself whether it can go on.
    fn fatal_nak_in(
        &mut self,
        now: u64,
        switch: SwitchIndex,
        port: u32,
        frame: &[u8],
    ) -> Option<()> {
        let frame = AckFrame::parse(frame)?;
        let mcst_id = frame.destination();
        let mut parts = self.parts_on(mcst_id, switch);
        if !parts.any(|on| on.paths.iter().any(|path| path.port == port)) {
            return None;
        }
        drop(parts);
        if let Some(member) = self.member_behind(mcst_id, switch, port) {
            self.punts.stats.fatal_naks += 1;
            let ended = self.punts.ended.entry(mcst_id).or_default();
            if ended.insert(member.spec.ip) {
                let name = &self.topology.host(member.host).name;
                let syndrome = frame.syndrome();
                tracing::warn!(%mcst_id, "the queue pair of {name} has ended with syndrome {syndrome:#04x}");
                self.prune_ended(now, mcst_id);
            }
        }
        Some(())
    }

    /// Takes out the members whose queue pairs have ended, unless the group is being changed: then it is asked again.
    pub(super) fn prune_ended(&mut self, now: u64, mcst_id: Ipv4Addr) {
        let Some(registration) = self.groups.get(&mcst_id) else {
            self.punts.ended.remove(&mcst_id);
            return;
        };
        if !registration.is_at_rest() {
            return;
        }
        let Some(ended) = self.punts.ended.remove(&mcst_id) else {
            return;
        };
        let members = registration.group().members.iter().map(|m| m.spec.ip);
        let (lost, left): (Vec<_>, Vec<_>) = members.partition(|ip| ended.contains(ip));
        // A group of which nobody is left has nobody to go on for.
        if !lost.is_empty() && !left.is_empty() {
            self.lose(now, mcst_id, lost);
        }
    }

    /// A group's part on a switch, and while it is being changed the part that takes its place.
    fn parts_on(&self, mcst_id: Ipv4Addr, switch: SwitchIndex) -> impl Iterator<Item = &GroupPart> {
        let registration = self.groups.get(&mcst_id);
        let now = registration.and_then(|r| r.group().on(switch));
        let next = registration.and_then(|r| r.coming_on(switch));
        now.into_iter().chain(next)
    }

    fn part(&self, mcst_id: Ipv4Addr, (switch, group): Part) -> Option<&GroupPart> {
        let mut parts = self.parts_on(mcst_id, switch);
        parts.find(|on| on.group_index == group)
    }

    fn member_behind(
        &self,
        mcst_id: Ipv4Addr,
        switch: SwitchIndex,
        port: u32,
    ) -> Option<GroupMember> {
        let mut parts = self.parts_on(mcst_id, switch);
        parts.find_map(|on| {
            on.paths
                .iter()
                .find(|path| path.port == port)?
                .member()
                .copied()
        })
    }
}
