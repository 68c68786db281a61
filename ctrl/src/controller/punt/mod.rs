//! What switches leave to the controller: minima, ICRCs, and news of queue pairs that have ended.
//!
//! ```text
//!  PacketIn  FEEDBACK   an ACK or NAK of a group of `MinPsn::Punt`  ──▶ aggregate ──▶ PacketOut FEEDBACK to the source
//!            PROBE      data sent again, as an ACK of its PSN       ──▶ aggregate ──▶ PacketOut FEEDBACK to who asks
//!            ICRC       a copy for a host, its ICRC as at the sender ──▶ checked, recomputed ──▶ PacketOut FORWARD
//!            FATAL_NAK  a copy of a NAK that went on to the source  ──▶ the member that sent it is taken out
//! ```
//!
//! Nothing here is kept over a restart, of a switch or of this controller: an aggregate begins with what the header of
//! its first frame says and asks the switch for the rest.  Until that is known it acknowledges too little, never too much;
//! and what is lost on the way to or from here, the sender's retransmission asks for again.

mod frame;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use alfirk_roce::wire::Psn;

use super::aggregate::{Aggregate, Word};
use super::error::SwitchError;
use super::group::{GroupMember, OnSwitch};
use super::registers::RegisterControl;
use super::session::{Task, TaskId};
use super::{Controller, Owner};
use crate::constants::{
    PACKET_IN_FATAL_NAK, PACKET_IN_FEEDBACK, PACKET_IN_ICRC, PACKET_IN_PROBE, PACKET_OUT_FEEDBACK,
    PACKET_OUT_FORWARD, REGISTER_ACK,
};
use crate::tables::PacketOutHeader;
use crate::topology::SwitchIndex;

use frame::{Feedback, FeedbackHeader, Tags};

/// A group on one switch, by its index there.
pub(super) type Part = (SwitchIndex, u16);

/// What has come up so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PuntStats {
    /// ACKs and NAKs whose minimum was looked for.
    pub feedback: u64,
    /// Of these, how many had something to tell the source.
    pub told: u64,
    /// Packets sent again that asked whether everyone has them.
    pub probes: u64,
    /// Of these, how many were answered.
    pub answered: u64,
    /// Packets whose ICRC was made right.
    pub icrcs: u64,
    /// Packets whose ICRC had been wrong before a switch changed them; dropped.
    pub wrong_icrcs: u64,
    /// NAKs by which members ended their queue pairs.
    pub fatal_naks: u64,
    /// Frames that belong to no group, or are none of these; dropped.
    pub strays: u64,
}

/// One aggregate, and what is being asked about it.
#[derive(Debug)]
struct Punted {
    mcst_id: Ipv4Addr,
    aggregate: Aggregate,
    /// Reads of paths' registers that are under way, and the port of each.
    reads: BTreeMap<TaskId, u32>,
    /// The latest frame, in whose form answers to no frame are given.
    latest: Feedback,
}

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Punts {
    parts: BTreeMap<Part, Punted>,
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
        let frame = Feedback::parse(frame)?;
        let part = (switch, header.group);
        let mcst_id = frame.destination();
        let ports: Vec<u32> = {
            let mut parts = self.parts_on(mcst_id, switch);
            let on = parts.find(|on| on.group_index == header.group)?;
            on.paths.iter().map(|path| path.port).collect()
        };
        if !ports.contains(&port) {
            return None;
        }
        let is_other = |punted: &Punted| punted.mcst_id != mcst_id;
        if self.punts.parts.get(&part).is_none_or(is_other) {
            self.begin_aggregate(now, part, &ports, mcst_id, &header, &frame);
        }
        let punted = self.punts.parts.get_mut(&part)?;
        punted.latest = frame;
        let aggregate = &mut punted.aggregate;
        aggregate.see(header.source(), header.told);
        let word = frame.word();
        let stats = &mut self.punts.stats;
        let answer = if is_probe {
            stats.probes += 1;
            let answer = aggregate.ask(port, word);
            stats.answered += u64::from(answer.is_some());
            answer.map(|answer| (port, answer))
        } else {
            stats.feedback += 1;
            let told = aggregate.hear(port, word);
            stats.told += u64::from(told.is_some());
            aggregate.source().zip(told)
        };
        if let Some((to, answer)) = answer {
            self.tell(part, to, answer);
        }
        Some(())
    }

    /// Starts from what the frame's header says, and asks the switch what its paths have acknowledged before: copies of
    /// what they have are kept from them, so they may have nothing more to say.
    fn begin_aggregate(
        &mut self,
        now: u64,
        part: Part,
        ports: &[u32],
        mcst_id: Ipv4Addr,
        header: &FeedbackHeader,
        frame: &Feedback,
    ) {
        let punted = Punted {
            mcst_id,
            aggregate: Aggregate::new(ports.iter().copied(), header.told),
            reads: BTreeMap::new(),
            latest: *frame,
        };
        self.punts.parts.insert(part, punted);
        if self.punts.fresh.remove(&part) {
            // All that was acknowledged since the registers were set has come here.
            return;
        }
        let (switch, group) = part;
        for (path, port) in (0..=u8::MAX).zip(ports) {
            let read = Task::Registers(RegisterControl::read(group, REGISTER_ACK, path));
            let id = self.submit(now, switch, Owner::Path(switch, group), read);
            if let Some(punted) = self.punts.parts.get_mut(&part) {
                punted.reads.insert(id, *port);
            }
        }
    }

    /// A switch has told what a path has acknowledged, or could not.
    pub(super) fn path_read(&mut self, part: Part, task: TaskId, result: Result<u64, SwitchError>) {
        let Some(punted) = self.punts.parts.get_mut(&part) else {
            return;
        };
        let Some(port) = punted.reads.remove(&task) else {
            // Of an aggregate that stood here before.
            return;
        };
        let Ok(value) = result else {
            // Without it the group may stand still; the next frame starts anew.
            self.punts.parts.remove(&part);
            return;
        };
        let psn = Psn::new((value >> 8) as u32);
        punted.aggregate.learn(port, psn);
        if !punted.reads.is_empty() {
            return;
        }
        if let (Some(told), Some(source)) = (punted.aggregate.settle(), punted.aggregate.source()) {
            self.tell(part, source, told);
        }
    }

    /// Sends an ACK or NAK out of a port, in the form of the latest that came.
    fn tell(&mut self, part: Part, port: u32, word: Word) {
        let Some(punted) = self.punts.parts.get(&part) else {
            return;
        };
        let (switch, group) = part;
        let header = FeedbackHeader {
            group,
            port: u16::try_from(port).unwrap_or(0),
            told: punted.aggregate.told(),
        };
        let payload = header.before(&punted.latest.saying(word));
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
        let frame = Feedback::parse(frame)?;
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
                let syndrome = frame.word().syndrome;
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
    fn parts_on(&self, mcst_id: Ipv4Addr, switch: SwitchIndex) -> impl Iterator<Item = &OnSwitch> {
        let registration = self.groups.get(&mcst_id);
        let now = registration.and_then(|r| r.group().on(switch));
        let next = registration.and_then(|r| r.coming_on(switch));
        now.into_iter().chain(next)
    }

    fn member_behind(
        &self,
        mcst_id: Ipv4Addr,
        switch: SwitchIndex,
        port: u32,
    ) -> Option<GroupMember> {
        let mut parts = self.parts_on(mcst_id, switch);
        parts.find_map(|on| on.paths.iter().find(|path| path.port == port)?.member)
    }
}
