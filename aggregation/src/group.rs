//! State of a group on one switch, and the egress half of packet processing.

use std::collections::VecDeque;

use super::cnp_filter::{CnpFilter, Congested};
use super::types::Fixed;
use super::{
    Config, LastAcked, Leaf, Leaves, Point, Port, Queued, RetransmissionFilter, SelectiveNak,
    Sender, Sent, Space, WaitingNak, Walk, Work,
};

/// State of a group on one switch. Each field is named after the step of the pipeline that owns it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    pub(crate) fixed: Fixed,
    /// Current source, and the newest PSN sent.
    pub sender: Sender,
    /// Newest PSN and MSN of each path.
    pub leaves: Leaves,
    /// State of the search under [`Strategy::Walk`](super::Strategy::Walk).
    pub walk: Walk,
    /// PSN and MSN last acknowledged to the source.
    pub last_acked: LastAcked,
    /// The pending NAK.
    pub waiting_nak: WaitingNak,
    /// Losses that were reported to the source.
    pub selective_nak: SelectiveNak,
    pub(crate) cnp_filter: CnpFilter,
    /// Egress copy of the newest PSN of each path.
    pub filter: RetransmissionFilter,
    /// Counters of packets and recirculations.
    pub work: Work,
}

/// Registers of a group under [`Strategy::Tree`](super::Strategy::Tree), without those that can be derived from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// See [`LastAcked`].
    pub last_acked: LastAcked,
    /// The pending NAK.
    pub waiting_nak: WaitingNak,
    /// See [`SelectiveNak`].
    pub selective_nak: SelectiveNak,
    /// See [`Sender::source`].
    pub source: Option<Port>,
    /// See [`Sender::sent`].
    pub sent: u32,
    /// See [`Sender::acked`]. Indexed by path, like the fields below.
    pub acked: Vec<u32>,
    /// Newest PSN and MSN of each path.
    pub leaves: Vec<Leaf>,
    /// See [`RetransmissionFilter::acked`].
    pub filter: Vec<u32>,
    /// Congestion of each path.
    pub congested: Vec<Congested>,
    /// Path of the last forwarded CNP, and its congestion then.
    pub most_congested: Option<(usize, Congested)>,
}

impl Group {
    /// Restores a group from saved registers of a group with the same number of paths.
    pub fn restore(config: Config, ports: &[Port], kept: Kept) -> Group {
        let Point { psn, msn } = kept.last_acked.point;
        let fresh = Group::new(config, ports, config.space.next(psn), msn);
        Group {
            sender: Sender {
                source: kept.source,
                sent: kept.sent,
                acked: kept.acked,
            },
            leaves: Leaves::of(kept.leaves),
            last_acked: kept.last_acked,
            waiting_nak: kept.waiting_nak,
            selective_nak: kept.selective_nak,
            cnp_filter: CnpFilter::restore(kept.congested, kept.most_congested),
            filter: RetransmissionFilter { acked: kept.filter },
            ..fresh
        }
    }

    /// Returns the registers to save.
    pub fn kept(&self) -> Kept {
        let (congested, most_congested) = self.cnp_filter.kept();
        Kept {
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

    /// Creates a group whose first packet is `initial_psn` after `msn` messages. Each of `ports` is a path; there must be at
    /// least one.
    pub fn new(config: Config, ports: &[Port], initial_psn: u32, msn: u32) -> Group {
        let psn = config.space.previous(initial_psn);
        let paths = ports.len();
        Group {
            fixed: Fixed {
                config,
                ports: ports.into(),
            },
            sender: Sender::new(paths, psn),
            leaves: Leaves::new(paths, Point { psn, msn }),
            walk: Walk {
                found: psn,
                ..Walk::default()
            },
            last_acked: LastAcked::new(Point { psn, msn }),
            waiting_nak: WaitingNak::default(),
            selective_nak: SelectiveNak::new(config.losses),
            cnp_filter: CnpFilter::new(paths),
            filter: RetransmissionFilter::new(paths, psn),
            work: Work::default(),
        }
    }

    /// The port of each path, in the order of path numbers.
    pub fn ports(&self) -> &[Port] {
        &self.fixed.ports
    }

    /// Processes queued packets until none is left, and returns the packets that leave the switch.
    pub fn run(&mut self, queued: Vec<Queued>, now: u64) -> Vec<Sent> {
        let mut sent = Vec::new();
        let mut queue = VecDeque::from(queued);
        while let Some(next) = queue.pop_front() {
            let (left, more) = self.dequeue(next, now);
            sent.extend(left);
            queue.extend(more);
        }
        sent
    }

    /// Processes one queued packet: egress, and the next pass of a recirculated packet. `now` is in microseconds.
    pub fn dequeue(&mut self, queued: Queued, now: u64) -> (Option<Sent>, Vec<Queued>) {
        let space = self.space();
        match queued {
            Queued::Leave(sent) => (Some(sent), Vec::new()),
            Queued::End => (None, Vec::new()),
            Queued::UpdateFilter { path, acked } => {
                self.filter.update(space, path, acked);
                (None, Vec::new())
            }
            Queued::Copy {
                path,
                psn,
                is_retransmission,
            } => {
                let port = self.fixed.ports[path];
                let is_needed = !is_retransmission || self.filter.needs(space, path, psn);
                (is_needed.then_some(Sent::Data { port, psn }), Vec::new())
            }
            Queued::Punt {
                path,
                acked,
                packet,
            } => {
                self.filter.update(space, path, acked);
                (Some(Sent::ToController(packet)), Vec::new())
            }
            Queued::Recirculate {
                search,
                filter_update,
            } => {
                if let Some((path, acked)) = filter_update {
                    self.filter.update(space, path, acked);
                }
                (None, self.pass(search, now))
            }
        }
    }

    pub(crate) fn space(&self) -> Space {
        self.fixed.config.space
    }

    pub(crate) fn path_at(&self, port: Port) -> Option<usize> {
        self.fixed.ports.iter().position(|at| *at == port)
    }
}
