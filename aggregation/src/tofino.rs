//! Reference model of `p4src/tna`, as [`Group`](crate::Group) is of `p4src/v1model`. The protocol is the same, its steps are
//! divided differently: a stateful ALU has two comparisons and one result, and a register is accessed once per packet, in
//! either ingress or egress.
//!
//! The minimum is found by a tree. MSNs are stored in egress, which updates a path's MSN when a copy of its feedback (a
//! record) leaves by the path's port. The window of the source advances when such a copy has recirculated to ingress.
//! There are no selective NAKs. For the effects on members see docs/book/src/tofino.md, "What the target forces".

use std::sync::Arc;

use alfirk_contract::DEFAULT_WINDOW;

use super::waiting_nak::delay_ns;
use super::{
    Feedback, Leaves, Nak, Notice, Point, Port, RetransmissionFilter, Sender, Sent, Space, Word,
};

/// Binary logarithm of the length of a CNP window in nanoseconds.
const WINDOW_SHIFT: u32 = 20;
/// CNPs of a path that are forwarded in one window.
const CNP_LIMIT: u8 = 63;

/// State of a group on one switch. Each field is named after the step of the pipeline that owns it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TofinoGroup {
    space: Space,
    ports: Arc<[Port]>,
    /// Current source, and the newest PSN sent.
    pub sender: Sender,
    /// Newest PSN of each path. The MSNs in it are not used.
    pub leaves: Leaves,
    /// Newest minimum acknowledged to the source (`last_acked.p4`).
    pub last_acked: u32,
    /// The pending NAK (`waiting_nak.p4`).
    pub waiting: Option<Nak>,
    /// PSN of the NAK last sent to the source; `None` once the source has resent that packet.
    pub sent_nak: Option<u32>,
    /// Packets that a source may send beyond `acknowledged` (`source_window.p4`).
    window: u32,
    /// Newest PSN acknowledged to the source, as stored for its window; may be older than `last_acked`.
    pub acknowledged: u32,
    cnps: Vec<Count>,
    /// The most congested path: window, count, path.
    worst: (u16, u8, usize),
    /// Egress copy of the newest PSN of each path.
    pub filter: RetransmissionFilter,
    /// MSN of each path, stored in egress.
    pub msns: Vec<PathMsn>,
    /// MSN last acknowledged to the source.
    pub last_acked_msn: u32,
}

/// MSN of a path (`retransmission_filter.p4`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PathMsn {
    /// Messages completed.
    pub msn: u32,
    /// PSN acknowledged with this MSN, minus the MSN.
    pub slack: u32,
}

impl PathMsn {
    fn new(space: Space, Point { psn, msn }: Point) -> PathMsn {
        let slack = space.distance(msn, psn) as u32;
        let slack = space.add(0, slack);
        PathMsn { msn, slack }
    }

    /// Records an acknowledgement and returns the MSN of the path. A reported MSN is accepted if it has increased by at most
    /// the packets since the last increase.
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
struct Count {
    window: u16,
    cnps: u8,
}

/// A packet between ingress and egress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TofinoQueued {
    /// A packet that leaves the switch without further processing.
    Leave(Sent),
    /// A copy of data, which egress drops on the path of its sender and on paths that have it.
    Copy {
        /// Destination path.
        path: usize,
        /// Path of the sender.
        from: usize,
        /// PSN of the data.
        psn: u32,
        /// The PSN was not sent before, so the filter does not apply.
        is_new: bool,
    },
    /// A copy of feedback that updates the registers of its path in egress.
    Record {
        /// Path of the feedback.
        path: usize,
        /// Acknowledged PSN and MSN.
        acked: Point,
        /// The path has acknowledged a newer PSN; the MSN is ignored.
        is_old: bool,
        /// New minimum, if it has advanced; updates the window of the source.
        risen: Option<u32>,
    },
    /// An ACK of data that all paths have, to its sender.
    Answer {
        /// Path of the sender.
        path: usize,
        /// PSN of the data.
        psn: u32,
        /// The sender is the source.
        is_source: bool,
        /// The group's minimum.
        minimum: Word,
    },
    /// Feedback to the source.
    Forward {
        /// Port of the source.
        port: Port,
        /// Path of the received feedback.
        path: usize,
        /// PSN and MSN of the received feedback.
        acked: Point,
        /// The group's minimum.
        minimum: Word,
        /// NAK to send; `None` for an ACK of the minimum.
        nak: Option<Nak>,
    },
    /// A fatal NAK to the source.
    ForwardFatal {
        /// Port of the source.
        port: Port,
        /// Syndrome of the received NAK.
        syndrome: u8,
        /// The group's minimum.
        minimum: u32,
    },
}

impl TofinoGroup {
    /// See [`Group::new`](crate::Group::new).
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
            cnps: vec![Count::default(); paths],
            worst: (0, 0, 0),
            filter: RetransmissionFilter::new(paths, psn),
            msns: vec![PathMsn::new(space, Point { psn, msn }); paths],
            last_acked_msn: msn,
        }
    }

    /// Replaces the window of the source, in packets.
    pub fn with_window(self, window: u32) -> TofinoGroup {
        TofinoGroup { window, ..self }
    }

    /// The port of each path, in the order of path numbers.
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// Processes data packet `psn` from `port`.
    pub fn data(&mut self, port: Port, psn: u32) -> Vec<TofinoQueued> {
        let space = self.space;
        let Some(own) = self.path_at(port) else {
            return Vec::new();
        };
        if self.is_beyond_window(psn) {
            return Vec::new();
        }
        let (is_source, is_new) = self.sends(port, own, psn);
        if is_source {
            self.leaves.sent(space, own, psn);
        }
        let minimum = self.minimum();
        if !space.lt(minimum.psn, psn) {
            return vec![TofinoQueued::Answer {
                path: own,
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
        let copies = (0..self.ports.len()).map(|path| TofinoQueued::Copy {
            path,
            from: own,
            psn,
            is_new,
        });
        copies.collect()
    }

    /// Whether an acknowledged PSN was sent. A PSN exactly half the space away from the newest one was not.
    fn has_sent(&self, psn: u32) -> bool {
        self.space.reaches(self.sender.sent, psn)
    }

    /// Whether data `psn` is beyond the window of the source (`source_window.p4`). A window of half the PSN space or more
    /// does not limit the source.
    fn is_beyond_window(&self, psn: u32) -> bool {
        let space = self.space;
        let is_bound = u32::try_from(space.distance(0, self.window)) == Ok(self.window);
        let start = space.add(psn.wrapping_sub(self.window), 0);
        is_bound && space.lt(self.acknowledged, start)
    }

    /// Returns whether data is from the source, and whether its PSN is new (`sender.p4`).
    fn sends(&mut self, port: Port, own: usize, psn: u32) -> (bool, bool) {
        let space = self.space;
        let sender = &mut self.sender;
        let is_caught_up = !space.lt(sender.acked[own], space.previous(psn));
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

    /// Processes an ACK, or a NAK that is not fatal, from `port`.
    pub fn feedback(&mut self, port: Port, feedback: Feedback) -> Vec<TofinoQueued> {
        let space = self.space;
        let Some(own) = self.path_at(port) else {
            return Vec::new();
        };
        let acked = feedback.acked(space);
        self.sender.feedback(space, own, acked.psn);
        let is_sent = self.has_sent(acked.psn);
        let Some(source) = self.sender.source.filter(|_| is_sent) else {
            return Vec::new();
        };
        let leaf = Point { msn: 0, ..acked };
        let is_raised = self.leaves.acked(space, own, leaf);
        let minimum = self.minimum();
        let advances_minimum = space.lt(self.last_acked, minimum.psn);
        if advances_minimum {
            self.last_acked = minimum.psn;
        }
        let nak = match feedback {
            // A NAK of the next unsent PSN is an ACK of all that was sent.
            Feedback::Nak { nak, .. } if is_raised && space.lt(acked.psn, self.sender.sent) => {
                Some(nak)
            }
            _ => None,
        };
        let (is_forwarded, nak) = match nak {
            // The NAK is of the PSN after the minimum.
            Some(nak) if acked.psn == minimum.psn => {
                let is_known = self.sent_nak.replace(nak.psn) == Some(nak.psn);
                self.waiting = None;
                (!is_known, Some(nak))
            }
            Some(nak) if space.lt(minimum.psn, acked.psn) => {
                self.wait(minimum.psn, nak);
                (advances_minimum, None)
            }
            _ => {
                let due = self.due(minimum.psn);
                (advances_minimum || due.is_some(), due)
            }
        };
        let forward = is_forwarded.then_some(TofinoQueued::Forward {
            port: source,
            path: own,
            acked,
            minimum,
            nak,
        });
        let record = TofinoQueued::Record {
            path: own,
            acked,
            is_old: !is_raised,
            risen: advances_minimum.then_some(minimum.psn),
        };
        [record].into_iter().chain(forward).collect()
    }

    /// Stores a NAK as pending, unless the pending one precedes it.
    fn wait(&mut self, minimum: u32, nak: Nak) {
        let space = self.space;
        let goes_on = self.waiting.is_some_and(|waiting| {
            let is_stale = !space.lt(minimum, waiting.psn);
            let is_first = space.lt(waiting.psn, nak.psn)
                || (waiting.psn == nak.psn && delay_ns(waiting) >= delay_ns(nak));
            !is_stale && is_first
        });
        if !goes_on {
            self.waiting = Some(nak);
        }
    }

    /// Takes the pending NAK if its PSN follows the minimum, and marks it as sent. Clears it if all paths have its PSN.
    fn due(&mut self, minimum: u32) -> Option<Nak> {
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

    /// Processes feedback that is not aggregated, from `port`. `now` is in nanoseconds.
    pub fn notice(&mut self, port: Port, notice: Notice, now: u64) -> Vec<TofinoQueued> {
        let space = self.space;
        let Some(own) = self.path_at(port) else {
            return Vec::new();
        };
        let Some(source) = self.sender.source else {
            return Vec::new();
        };
        match notice {
            Notice::Cnp => {
                let sent = Sent::Notice {
                    port: source,
                    notice,
                };
                let passes = source != port && self.passes_cnp(own, now);
                passes
                    .then_some(TofinoQueued::Leave(sent))
                    .into_iter()
                    .collect()
            }
            Notice::FatalNak { nak, .. } if self.has_sent(space.previous(nak.psn)) => {
                let forward = TofinoQueued::ForwardFatal {
                    port: source,
                    syndrome: nak.syndrome,
                    minimum: self.minimum().psn,
                };
                vec![TofinoQueued::Leave(Sent::Alarm { port, notice }), forward]
            }
            Notice::FatalNak { .. } | Notice::SelectiveNak { .. } => Vec::new(),
        }
    }

    /// Whether a CNP is forwarded: only those of the most congested path are (`cnp_filter.p4`).
    fn passes_cnp(&mut self, own: usize, now: u64) -> bool {
        let window = (now >> WINDOW_SHIFT) as u16;
        let own_count = &mut self.cnps[own];
        let before = match own_count.window == window {
            true => own_count.cnps,
            false => 0,
        };
        let cnps = (before + 1).min(CNP_LIMIT + 1);
        *own_count = Count { window, cnps };
        if cnps > CNP_LIMIT {
            return false;
        }
        let (of, worst, path) = self.worst;
        let passes = of != window || (cnps, own) > (worst, path);
        if passes {
            self.worst = (window, cnps, own);
        }
        passes
    }

    /// Processes one queued packet in egress.
    pub fn dequeue(&mut self, queued: TofinoQueued) -> Option<Sent> {
        let space = self.space;
        match queued {
            TofinoQueued::Leave(sent) => Some(sent),
            TofinoQueued::Copy {
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
            TofinoQueued::Copy {
                path, psn, is_new, ..
            } => {
                let port = self.ports[path];
                let is_needed = is_new || self.filter.needs(space, path, psn);
                is_needed.then_some(Sent::Data { port, psn })
            }
            TofinoQueued::Record {
                path,
                acked,
                is_old,
                risen,
            } => {
                self.filter.update(space, path, acked.psn);
                if !is_old {
                    self.msns[path].raise(space, acked);
                }
                if let Some(minimum) = risen {
                    if space.lt(self.acknowledged, minimum) {
                        self.acknowledged = minimum;
                    }
                }
                None
            }
            TofinoQueued::Answer {
                path,
                psn,
                is_source,
                minimum,
            } => {
                let point = match is_source {
                    true => self.point_of(minimum),
                    false => Point {
                        psn,
                        msn: self.msns[path].msn,
                    },
                };
                Some(Sent::Feedback {
                    port: self.ports[path],
                    feedback: Feedback::ack(point),
                })
            }
            TofinoQueued::Forward {
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
                    self.point_of(minimum)
                };
                let feedback = match nak {
                    Some(nak) => Feedback::Nak {
                        nak,
                        msn: point.msn,
                    },
                    None => Feedback::ack(point),
                };
                Some(Sent::Feedback { port, feedback })
            }
            TofinoQueued::ForwardFatal {
                port,
                syndrome,
                minimum,
            } => {
                let nak = Nak {
                    psn: space.next(minimum),
                    syndrome,
                };
                let msn = self.last_acked_msn;
                Some(Sent::Notice {
                    port,
                    notice: Notice::FatalNak { nak, msn },
                })
            }
        }
    }

    /// The minimum with its MSN: that of the path at the minimum, or the last acknowledged one if that path is a sender.
    fn point_of(&mut self, word: Word) -> Point {
        let msn = match word.by_sender {
            true => self.last_acked_msn,
            false => self.raise_last_acked_msn(self.msns[word.path].msn),
        };
        Point { psn: word.psn, msn }
    }

    /// Advances the MSN acknowledged to the source, which never decreases, and returns it.
    fn raise_last_acked_msn(&mut self, msn: u32) -> u32 {
        if self.space.lt(self.last_acked_msn, msn) {
            self.last_acked_msn = msn;
        }
        self.last_acked_msn
    }

    fn minimum(&self) -> Word {
        let minimum = self.leaves.minimum(self.space);
        minimum.expect("a group has a path")
    }

    fn path_at(&self, port: Port) -> Option<usize> {
        self.ports.iter().position(|at| *at == port)
    }
}
