//! Reference model of feedback aggregation on Tofino (`p4src/tna`). [`Group`](crate::Group) is the model of
//! `p4src/v1model`.
//!
//! The protocol is the same, but its steps are divided differently. A stateful ALU has two comparisons and one result,
//! and a register is accessed once per packet, in either ingress or egress.
//!
//! A *path* is a port of the group's tree on this switch; paths are numbered from 0. The *minimum* is the newest PSN that
//! all paths have acknowledged or sent. The *source* is the member of the group that sends at present.
//!
//! The minimum is found by a tree. MSNs are stored in egress: a copy of each ACK or NAK, the record, leaves by the port
//! of its own path and updates that path's MSN there. The window of the source advances when the record has
//! recirculated to ingress. Selective NAKs are not supported. For all differences from v1model see
//! p4src/tna/differences.md.

use std::sync::Arc;

use alfirk_contract::DEFAULT_WINDOW;

use super::waiting_nak::delay_ns;
use super::{
    Feedback, Leaves, Nak, Notice, PathPsn, Point, Port, RetransmissionFilter, Sender, SentPacket,
    Space,
};

/// Binary logarithm of the length in nanoseconds of a window, the time over which CNPs are counted.
const WINDOW_SHIFT: u32 = 20;
/// Largest number of CNPs of one path that are forwarded in one window.
const CNP_LIMIT: u8 = 63;

/// State of a multicast group on one switch. Each field is named after the pipeline control that owns the register.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TofinoGroup {
    space: Space,
    ports: Arc<[Port]>,
    /// Current source, and the newest PSN sent.
    pub sender: Sender,
    /// Newest acknowledged or sent PSN of each path. The MSNs in it are not used.
    pub leaves: Leaves,
    /// Newest minimum that was acknowledged to the source (`last_acked.p4`).
    pub last_acked: u32,
    /// The pending NAK, which waits until all receivers have the packets before it (`waiting_nak.p4`); `None` if no NAK is
    /// pending.
    pub waiting: Option<Nak>,
    /// PSN of the NAK last sent to the source; `None` once the source has resent that packet.
    pub sent_nak: Option<u32>,
    /// Number of packets that a source may send beyond `acknowledged` (`source_window.p4`).
    window: u32,
    /// Newest acknowledged PSN as stored for the check of the source's window. It may be older than `last_acked`.
    pub acknowledged: u32,
    cnps: Vec<CnpCount>,
    /// The path with the most CNPs: number of the window in which they were counted, CNP count, path number.
    most_congested: (u16, u8, usize),
    /// Newest PSN that each path has acknowledged or sent, as stored in egress to filter retransmissions.
    pub filter: RetransmissionFilter,
    /// MSN of each path, stored in egress; indexed by path number.
    pub msns: Vec<PathMsn>,
    /// MSN last acknowledged to the source.
    pub last_acked_msn: u32,
}

/// MSN that a path last acknowledged (`retransmission_filter.p4`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PathMsn {
    /// Number of messages completed (MSN), modulo 2^24.
    pub msn: u32,
    /// The PSN acknowledged with this MSN, minus the MSN. It never decreases, because a message has at least one packet.
    pub slack: u32,
}

impl PathMsn {
    fn new(space: Space, Point { psn, msn }: Point) -> PathMsn {
        let slack = space.distance(msn, psn) as u32;
        let slack = space.add(0, slack);
        PathMsn { msn, slack }
    }

    /// Records an acknowledgement, and returns the path's MSN. A reported MSN is accepted if it exceeds the stored one
    /// by at most the number of packets since that was stored.
    fn raise(&mut self, space: Space, acked: Point) -> u32 {
        let new = PathMsn::new(space, acked);
        if space.lt(self.msn, new.msn) && !space.lt(new.slack, self.slack) {
            *self = new;
        }
        self.msn
    }
}

/// Number of CNPs of a path in one window, at most [`CNP_LIMIT`] + 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct CnpCount {
    window: u16,
    cnps: u8,
}

/// A packet in the queues between ingress and egress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TofinoQueuedPacket {
    /// A packet that egress sends unchanged.
    Transmit(SentPacket),
    /// A copy of data for one path. Egress drops it on the sender's own path, and on paths that have the data.
    Copy {
        /// Destination path.
        path: usize,
        /// Path of the sender.
        from: usize,
        /// PSN of the data.
        psn: u32,
        /// Whether the PSN is sent for the first time. Then no path can have it, and the filter does not apply.
        is_new: bool,
    },
    /// The *record*: a copy of an ACK or NAK that leaves by the port of its own path, and updates that path's MSN and
    /// retransmission filter in egress.
    Record {
        /// Path at which the ACK or NAK arrived.
        path: usize,
        /// Acknowledged PSN and MSN.
        acked: Point,
        /// Whether the path has acknowledged a newer PSN. The MSN is then ignored.
        is_old: bool,
        /// The new minimum, which advances the window of the source; `None` if the minimum has not advanced.
        new_minimum: Option<u32>,
    },
    /// An ACK of retransmitted data that all paths have, to the sender of that data.
    AckOldData {
        /// Path of the data's sender.
        path: usize,
        /// PSN of the data.
        psn: u32,
        /// Whether the sender is the current source.
        is_source: bool,
        /// The minimum: the oldest of the newest PSNs that the paths have, and its path.
        minimum: PathPsn,
    },
    /// An ACK or NAK for the group's source, to be sent.
    Forward {
        /// Port of the source, to which the packet is sent.
        port: Port,
        /// Path of the received feedback.
        path: usize,
        /// PSN and MSN of the received feedback.
        acked: Point,
        /// The minimum: the oldest of the newest PSNs that the paths have, and its path.
        minimum: PathPsn,
        /// NAK to send; `None` for an ACK of the minimum.
        nak: Option<Nak>,
    },
    /// A fatal NAK to the source: a receiver's queue pair is in the error state.
    ForwardFatal {
        /// Port of the source, to which the NAK is sent.
        port: Port,
        /// Syndrome of the received NAK.
        syndrome: u8,
        /// The minimum PSN: the newest one that all paths have acknowledged or sent.
        minimum: u32,
    },
}

impl TofinoGroup {
    /// Creates a group; the parameters are those of [`Group::new`](crate::Group::new).
    pub fn new(space: Space, ports: &[Port], initial_psn: u32, msn: u32) -> TofinoGroup {
        let psn = space.previous(initial_psn);
        let paths = ports.len();
        TofinoGroup {
            space,
            ports: ports.into(),
            sender: Sender::new(paths, psn),
            leaves: Leaves::new(paths, Point { psn, msn: 0 }),
            last_acked: psn,
            waiting: None,
            sent_nak: Some(initial_psn),
            window: DEFAULT_WINDOW,
            acknowledged: psn,
            cnps: vec![CnpCount::default(); paths],
            most_congested: (0, 0, 0),
            filter: RetransmissionFilter::new(paths, psn),
            msns: vec![PathMsn::new(space, Point { psn, msn }); paths],
            last_acked_msn: msn,
        }
    }

    /// Sets the window: the number of packets that a source may send beyond the newest acknowledged one.
    pub fn with_window(self, window: u32) -> TofinoGroup {
        TofinoGroup { window, ..self }
    }

    /// The port of each path, in the order of path numbers.
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// Processes the data packet with sequence number `psn` from `port` in ingress. Returns the packets to queue for
    /// egress.
    pub fn data(&mut self, port: Port, psn: u32) -> Vec<TofinoQueuedPacket> {
        let space = self.space;
        let Some(from_path) = self.path_at(port) else {
            return Vec::new();
        };
        if self.is_beyond_window(psn) {
            return Vec::new();
        }
        let (is_source, is_new) = self.admit_data(port, from_path, psn);
        if is_source {
            self.leaves.record_sent(space, from_path, psn);
        }
        let minimum = self.minimum();
        if !space.lt(minimum.psn, psn) {
            return vec![TofinoQueuedPacket::AckOldData {
                path: from_path,
                psn,
                is_source,
                minimum,
            }];
        }
        if !is_source {
            return Vec::new();
        }
        if self.sent_nak == Some(psn) {
            self.sent_nak = None;
        }
        let copies = (0..self.ports.len()).map(|path| TofinoQueuedPacket::Copy {
            path,
            from: from_path,
            psn,
            is_new,
        });
        copies.collect()
    }

    /// Whether `psn` is at most the newest PSN sent. A PSN exactly half the number space away counts as not sent.
    fn has_sent(&self, psn: u32) -> bool {
        self.space.is_at_or_after(self.sender.sent, psn)
    }

    /// Whether data packet `psn` is beyond the window of the source (`source_window.p4`). A window of half the PSN
    /// space or more sets no limit.
    fn is_beyond_window(&self, psn: u32) -> bool {
        let space = self.space;
        let is_bound = u32::try_from(space.distance(0, self.window)) == Ok(self.window);
        let start = space.add(psn.wrapping_sub(self.window), 0);
        is_bound && space.lt(self.acknowledged, start)
    }

    /// Decides by its PSN whether data may be sent to the group, and whether its port becomes the source's
    /// (`sender.p4`). Returns whether the data is from the current source, and whether its PSN is new.
    fn admit_data(&mut self, port: Port, from_path: usize, psn: u32) -> (bool, bool) {
        let space = self.space;
        let sender = &mut self.sender;
        let is_caught_up = !space.lt(sender.acked[from_path], space.previous(psn));
        let is_from_source = sender.source == Some(port);
        let is_new = match is_caught_up {
            true => psn == space.next(sender.sent),
            false => is_from_source && space.lt(sender.sent, psn),
        };
        if is_new {
            (sender.source, sender.sent) = (Some(port), psn);
        }
        (is_from_source || is_new, is_new)
    }

    /// Processes an ACK, or a NAK that is not fatal, from `port` in ingress. Returns the packets to queue for egress.
    pub fn feedback(&mut self, port: Port, feedback: Feedback) -> Vec<TofinoQueuedPacket> {
        let space = self.space;
        let Some(from_path) = self.path_at(port) else {
            return Vec::new();
        };
        let acked = feedback.acked(space);
        self.sender.feedback(space, from_path, acked.psn);
        let is_sent = self.has_sent(acked.psn);
        let Some(source) = self.sender.source.filter(|_| is_sent) else {
            return Vec::new();
        };
        let leaf = Point { msn: 0, ..acked };
        let is_raised = self.leaves.record_acked(space, from_path, leaf);
        let minimum = self.minimum();
        let advances_minimum = space.lt(self.last_acked, minimum.psn);
        if advances_minimum {
            self.last_acked = minimum.psn;
        }
        let nak = match feedback {
            // A NAK of the next unsent PSN acknowledges all packets sent.
            Feedback::Nak { nak, .. } if is_raised && space.lt(acked.psn, self.sender.sent) => {
                Some(nak)
            }
            _ => None,
        };
        let (is_forwarded, nak) = match nak {
            // The missing packet is the one after the minimum, so the NAK need not wait.
            Some(nak) if acked.psn == minimum.psn => {
                let is_known = self.sent_nak.replace(nak.psn) == Some(nak.psn);
                self.waiting = None;
                (!is_known, Some(nak))
            }
            Some(nak) if space.lt(minimum.psn, acked.psn) => {
                self.store_pending_nak(minimum.psn, nak);
                (advances_minimum, None)
            }
            _ => {
                let due = self.take_due_nak(minimum.psn);
                (advances_minimum || due.is_some(), due)
            }
        };
        let forward = is_forwarded.then_some(TofinoQueuedPacket::Forward {
            port: source,
            path: from_path,
            acked,
            minimum,
            nak,
        });
        let record = TofinoQueuedPacket::Record {
            path: from_path,
            acked,
            is_old: !is_raised,
            new_minimum: advances_minimum.then_some(minimum.psn),
        };
        [record].into_iter().chain(forward).collect()
    }

    /// Stores a NAK as pending. A pending NAK whose PSN is after the minimum is kept instead if its PSN is older than that
    /// of the new one, or equal and its RNR delay is at least as long.
    fn store_pending_nak(&mut self, minimum: u32, nak: Nak) {
        let space = self.space;
        let is_kept = self.waiting.is_some_and(|waiting| {
            let is_stale = !space.lt(minimum, waiting.psn);
            let is_first = space.lt(waiting.psn, nak.psn)
                || (waiting.psn == nak.psn && delay_ns(waiting) >= delay_ns(nak));
            !is_stale && is_first
        });
        if !is_kept {
            self.waiting = Some(nak);
        }
    }

    /// Removes the pending NAK if its PSN is the one after the minimum or older. Returns it, marked as sent, if its PSN
    /// is the one after the minimum; otherwise all paths have that PSN.
    fn take_due_nak(&mut self, minimum: u32) -> Option<Nak> {
        let space = self.space;
        let nak = self
            .waiting
            .filter(|nak| !space.lt(space.next(minimum), nak.psn))?;
        self.waiting = None;
        let is_due = nak.psn == space.next(minimum);
        if is_due {
            self.sent_nak = Some(nak.psn);
        }
        is_due.then_some(nak)
    }

    /// Processes a CNP, a selective NAK or a fatal NAK from `port` in ingress. Returns the packets to queue for egress.
    /// `now` is in nanoseconds.
    pub fn notice(&mut self, port: Port, notice: Notice, now: u64) -> Vec<TofinoQueuedPacket> {
        let space = self.space;
        let Some(from_path) = self.path_at(port) else {
            return Vec::new();
        };
        let Some(source) = self.sender.source else {
            return Vec::new();
        };
        match notice {
            Notice::Cnp => {
                let sent = SentPacket::Notice {
                    port: source,
                    notice,
                };
                let passes = source != port && self.passes_cnp(from_path, now);
                passes
                    .then_some(TofinoQueuedPacket::Transmit(sent))
                    .into_iter()
                    .collect()
            }
            Notice::FatalNak { nak, .. } if self.has_sent(space.previous(nak.psn)) => {
                let forward = TofinoQueuedPacket::ForwardFatal {
                    port: source,
                    syndrome: nak.syndrome,
                    minimum: self.minimum().psn,
                };
                vec![
                    TofinoQueuedPacket::Transmit(SentPacket::Alarm { port, notice }),
                    forward,
                ]
            }
            Notice::FatalNak { .. } | Notice::SelectiveNak { .. } => Vec::new(),
        }
    }

    /// Counts a CNP, and decides whether it is forwarded to the source: only CNPs of the most congested path are
    /// (`cnp_filter.p4`). `now` is in nanoseconds.
    fn passes_cnp(&mut self, from_path: usize, now: u64) -> bool {
        let window = (now >> WINDOW_SHIFT) as u16;
        let own_count = &mut self.cnps[from_path];
        let before = match own_count.window == window {
            true => own_count.cnps,
            false => 0,
        };
        let cnps = (before + 1).min(CNP_LIMIT + 1);
        *own_count = CnpCount { window, cnps };
        if cnps > CNP_LIMIT {
            return false;
        }
        let (worst_window, worst_cnps, worst_path) = self.most_congested;
        let passes = worst_window != window || (cnps, from_path) > (worst_cnps, worst_path);
        if passes {
            self.most_congested = (window, cnps, from_path);
        }
        passes
    }

    /// Processes one queued packet in egress. Returns the packet that leaves the switch, if any.
    pub fn dequeue(&mut self, queued: TofinoQueuedPacket) -> Option<SentPacket> {
        let space = self.space;
        match queued {
            TofinoQueuedPacket::Transmit(sent) => Some(sent),
            TofinoQueuedPacket::Copy {
                path,
                from,
                psn,
                is_new,
            } if path == from => {
                if is_new {
                    self.filter.update(space, path, psn);
                }
                None
            }
            TofinoQueuedPacket::Copy {
                path, psn, is_new, ..
            } => {
                let port = self.ports[path];
                let is_needed = is_new || self.filter.needs(space, path, psn);
                is_needed.then_some(SentPacket::Data { port, psn })
            }
            TofinoQueuedPacket::Record {
                path,
                acked,
                is_old,
                new_minimum,
            } => {
                self.filter.update(space, path, acked.psn);
                if !is_old {
                    self.msns[path].raise(space, acked);
                }
                if let Some(minimum) = new_minimum {
                    if space.lt(self.acknowledged, minimum) {
                        self.acknowledged = minimum;
                    }
                }
                None
            }
            TofinoQueuedPacket::AckOldData {
                path,
                psn,
                is_source,
                minimum,
            } => {
                let point = match is_source {
                    true => self.minimum_point(minimum),
                    false => Point {
                        psn,
                        msn: self.msns[path].msn,
                    },
                };
                Some(SentPacket::Feedback {
                    port: self.ports[path],
                    feedback: Feedback::ack(point),
                })
            }
            TofinoQueuedPacket::Forward {
                port,
                path,
                acked,
                minimum,
                nak,
            } => {
                let point = if acked.psn == minimum.psn {
                    let msn = self.msns[path].raise(space, acked);
                    Point {
                        psn: minimum.psn,
                        msn: self.raise_last_acked_msn(msn),
                    }
                } else {
                    self.minimum_point(minimum)
                };
                let feedback = match nak {
                    Some(nak) => Feedback::Nak {
                        nak,
                        msn: point.msn,
                    },
                    None => Feedback::ack(point),
                };
                Some(SentPacket::Feedback { port, feedback })
            }
            TofinoQueuedPacket::ForwardFatal {
                port,
                syndrome,
                minimum,
            } => {
                let nak = Nak {
                    psn: space.next(minimum),
                    syndrome,
                };
                let msn = self.last_acked_msn;
                Some(SentPacket::Notice {
                    port,
                    notice: Notice::FatalNak { nak, msn },
                })
            }
        }
    }

    /// The minimum PSN with an MSN for it. `oldest_path`: the path that has the minimum. The MSN is that of this path
    /// or, if the path sent the PSN, the MSN last acknowledged to the source.
    fn minimum_point(&mut self, oldest_path: PathPsn) -> Point {
        let msn = match oldest_path.by_sender {
            true => self.last_acked_msn,
            false => self.raise_last_acked_msn(self.msns[oldest_path.path].msn),
        };
        Point {
            psn: oldest_path.psn,
            msn,
        }
    }

    /// Raises the MSN last acknowledged to the source to `msn`, unless it is newer than `msn` already. Returns the
    /// result.
    fn raise_last_acked_msn(&mut self, msn: u32) -> u32 {
        if self.space.lt(self.last_acked_msn, msn) {
            self.last_acked_msn = msn;
        }
        self.last_acked_msn
    }

    fn minimum(&self) -> PathPsn {
        let minimum = self.leaves.minimum(self.space);
        minimum.expect("a group has a path")
    }

    fn path_at(&self, port: Port) -> Option<usize> {
        self.ports.iter().position(|at| *at == port)
    }
}
