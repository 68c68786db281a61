//! State of a group on one switch, and egress processing of its packets.
//!
//! A *path* is a port of the group's tree on this switch; paths are numbered from 0. The *minimum* is the newest PSN that
//! all paths have acknowledged or sent. The *source* is the member of the group that sends at present.

use alfirk_roce::steady::StateVisitor;

use super::cnp_filter::{CnpFilter, PathCongestion};
use super::types::GroupConstants;
use super::{
    Config, CountedGroup, LastAcked, Leaf, Leaves, Point, Port, QueuedPacket, RetransmissionFilter,
    SelectiveNak, Sender, SentPacket, Space, Strategy, WaitingNak, Walk, Work,
};

/// State of a multicast group on one switch. Each field is named after the pipeline control that owns the register.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    pub(crate) constants: GroupConstants,
    /// Current source (the member that sends at present), and the newest PSN it has sent.
    pub sender: Sender,
    /// Newest acknowledged or sent PSN of each path, with its MSN.
    pub leaves: Leaves,
    /// State of the search for the minimum by a recirculating packet, under [`Strategy::Walk`].
    pub walk: Walk,
    /// PSN and MSN last acknowledged to the source.
    pub last_acked: LastAcked,
    /// The pending NAK, which waits until all receivers have the packets before it, or the NAK last sent to the source.
    pub waiting_nak: WaitingNak,
    /// Losses that were reported to the source by selective NAKs.
    pub selective_nak: SelectiveNak,
    pub(crate) cnp_filter: CnpFilter,
    /// Newest PSN of each path, as stored in egress to filter retransmissions.
    pub filter: RetransmissionFilter,
}

/// The registers of a group under [`Strategy::Tree`], to save and restore its state. Registers
/// that can be computed from others are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedRegisters {
    /// PSN and MSN last acknowledged to the source.
    pub last_acked: LastAcked,
    /// The pending NAK, or the NAK last sent to the source.
    pub waiting_nak: WaitingNak,
    /// Losses that were reported to the source by selective NAKs.
    pub selective_nak: SelectiveNak,
    /// Port of the source; `None` before any data.
    pub source: Option<Port>,
    /// Newest PSN that the source has sent.
    pub sent: u32,
    /// Newest PSN acknowledged by each path, even if it was never sent: [`Sender::acked`]. Indexed by path, like the
    /// fields below.
    pub acked: Vec<u32>,
    /// Newest acknowledged or sent PSN of each path, with its MSN.
    pub leaves: Vec<Leaf>,
    /// Newest PSN of each path, as stored in egress to filter retransmissions.
    pub filter: Vec<u32>,
    /// CNP count of each path.
    pub congested: Vec<PathCongestion>,
    /// Path of the last forwarded CNP, and the CNP count of that path then; `None` before the first one.
    pub most_congested: Option<(usize, PathCongestion)>,
}

impl Group {
    /// Restores a group from registers saved by [`Group::saved_registers`]. `ports` must have the
    /// same length as in the saved group.
    pub fn restore(config: Config, ports: &[Port], saved: SavedRegisters) -> Group {
        let Point { psn, msn } = saved.last_acked.point;
        let fresh = Group::new(config, ports, config.space.next(psn), msn);
        Group {
            sender: Sender {
                source: saved.source,
                sent: saved.sent,
                acked: saved.acked,
            },
            leaves: Leaves::of(saved.leaves),
            last_acked: saved.last_acked,
            waiting_nak: saved.waiting_nak,
            selective_nak: saved.selective_nak,
            cnp_filter: CnpFilter::restore(saved.congested, saved.most_congested),
            filter: RetransmissionFilter {
                acked: saved.filter,
            },
            ..fresh
        }
    }

    /// Returns a copy of the registers, for [`Group::restore`].
    pub fn saved_registers(&self) -> SavedRegisters {
        let (congested, most_congested) = self.cnp_filter.saved();
        SavedRegisters {
            last_acked: self.last_acked,
            waiting_nak: self.waiting_nak,
            selective_nak: self.selective_nak.clone(),
            source: self.sender.source,
            sent: self.sender.sent,
            acked: self.sender.acked.clone(),
            leaves: self.leaves.iter().copied().collect(),
            filter: self.filter.acked.clone(),
            congested,
            most_congested,
        }
    }

    /// Creates a group whose first data packet has the number `initial_psn`, after `msn` completed messages. `ports`:
    /// the switch ports of the group's tree, at least one; path `n` is `ports[n]`.
    pub fn new(config: Config, ports: &[Port], initial_psn: u32, msn: u32) -> Group {
        let psn = config.space.previous(initial_psn);
        let paths = ports.len();
        Group {
            constants: GroupConstants {
                config,
                ports: ports.into(),
            },
            sender: Sender::new(paths, psn),
            leaves: Leaves::new(paths, Point { psn, msn }),
            walk: Walk {
                last_minimum: psn,
                ..Walk::default()
            },
            last_acked: LastAcked::new(Point { psn, msn }),
            waiting_nak: WaitingNak::default(),
            selective_nak: SelectiveNak::new(config.loss_slots),
            cnp_filter: CnpFilter::new(paths),
            filter: RetransmissionFilter::new(paths, psn),
        }
    }

    /// The port of each path, in the order of path numbers.
    pub fn ports(&self) -> &[Port] {
        &self.constants.ports
    }

    /// Processes the packets queued for egress, and the packets that they cause, until none is left. Returns the
    /// packets that leave the switch. `now` is in microseconds.
    pub fn run(&mut self, queued: Vec<QueuedPacket>, now: u64) -> Vec<SentPacket> {
        self.counted(&mut Work::default()).run(queued, now)
    }

    /// Processes one queued packet: egress, and the next ingress pass of a recirculated packet. Returns the packet that
    /// leaves the switch, if any, and the packets queued again. `now` is in microseconds.
    pub fn dequeue(
        &mut self,
        queued: QueuedPacket,
        now: u64,
    ) -> (Option<SentPacket>, Vec<QueuedPacket>) {
        self.counted(&mut Work::default()).dequeue(queued, now)
    }

    /// Adds the work of the calls on the returned value to `work`.
    pub fn counted<'a>(&'a mut self, work: &'a mut Work) -> CountedGroup<'a> {
        CountedGroup { group: self, work }
    }

    pub(crate) fn process_queued(
        &mut self,
        queued: QueuedPacket,
        now: u64,
        work: &mut Work,
    ) -> (Option<SentPacket>, Vec<QueuedPacket>) {
        let space = self.space();
        match queued {
            QueuedPacket::Transmit(sent) => (Some(sent), Vec::new()),
            QueuedPacket::Drop => (None, Vec::new()),
            QueuedPacket::UpdateFilter { path, acked } => {
                self.filter.update(space, path, acked);
                (None, Vec::new())
            }
            QueuedPacket::Copy {
                path,
                psn,
                is_retransmission,
            } => {
                let port = self.constants.ports[path];
                let is_needed = !is_retransmission || self.filter.needs(space, path, psn);
                (
                    is_needed.then_some(SentPacket::Data { port, psn }),
                    Vec::new(),
                )
            }
            QueuedPacket::Punt {
                path,
                acked,
                packet,
            } => {
                self.filter.update(space, path, acked);
                (Some(SentPacket::ToController(packet)), Vec::new())
            }
            QueuedPacket::Recirculate {
                search,
                filter_update,
            } => {
                if let Some((path, acked)) = filter_update {
                    self.filter.update(space, path, acked);
                }
                (None, self.continue_search(search, now, work))
            }
        }
    }

    /// Visits the state of the group under [`Strategy::Tree`]. The visitor's stream must be the group's. A pending NAK is not
    /// supported.
    pub fn visit_state(&mut self, visitor: &mut StateVisitor<'_>) {
        let Group {
            constants,
            sender,
            leaves,
            walk: _,
            last_acked,
            waiting_nak,
            selective_nak: _,
            cnp_filter: _,
            filter,
        } = self;
        let is_tree = constants.config.strategy == Strategy::Tree;
        // Entries of lost packets, and CNPs, are not repeated in any steady state.
        if !is_tree || waiting_nak.nak.is_some() || constants.config.is_selective {
            visitor.unsupported();
        }
        let Sender {
            source,
            sent,
            acked,
        } = sender;
        visitor.same(source.map_or(u64::MAX, u64::from));
        *sent = visitor.psn(*sent);
        for psn in acked.iter_mut().chain(&mut filter.acked) {
            *psn = visitor.psn(*psn);
        }
        leaves.visit_state(visitor);
        let LastAcked { point, msn_base } = last_acked;
        point.psn = visitor.psn(point.psn);
        visitor.same(point.msn.into());
        *msn_base = visitor.psn(*msn_base);
    }

    pub(crate) fn space(&self) -> Space {
        self.constants.config.space
    }

    pub(crate) fn path_at(&self, port: Port) -> Option<usize> {
        self.constants.ports.iter().position(|at| *at == port)
    }
}
