//! The rules of `p4src/tna`, as [`Group`](crate::Group) has those of `p4src/v1model`: the same protocol, divided otherwise, for a
//! stateful ALU compares twice and has one result, and a register is accessed once per packet and belongs to ingress or egress.
//! What differs for the members is in docs/book/src/tofino.md, "What the target forces".
//!
//! The minimum is found by a tree. MSNs are egress's: a path's MSN is known there when a copy of its feedback (`record`)
//! has gone through its port. There are no selective NAKs. What was last acknowledged to the source is known to its window when such
//! a copy has come back to ingress.

use std::sync::Arc;

use alfirk_contract::DEFAULT_WINDOW;

use super::waiting_nak::delay_ns;
use super::{
    Feedback, Leaves, Nak, Notice, Point, Port, RetransmissionFilter, Sender, Sent, Space, Word,
};

/// A window of CNPs lasts 2 to this power nanoseconds.
const WINDOW_SHIFT: u32 = 20;
/// CNPs of a path that pass in a window of time.
const CNP_LIMIT: u8 = 63;

/// A group's state on one switch, each part named like the step of the pipeline that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TofinoGroup {
    space: Space,
    ports: Arc<[Port]>,
    /// Who may send what.
    pub sender: Sender,
    /// What each path has. MSNs are not kept here.
    pub leaves: Leaves,
    /// The newest minimum that was acknowledged to the source (`last_acked.p4`).
    pub last_acked: u32,
    /// The NAK that waits, and the PSN of the one that was sent to the source, which has not sent the packet again (`waiting_nak.p4`).
    pub waiting: Option<Nak>,
    /// See [`TofinoGroup::waiting`].
    pub sent_nak: Option<u32>,
    /// Packets that a source may be ahead of `acknowledged` (`source_window.p4`).
    window: u32,
    /// The newest PSN that was acknowledged to the source, as its window knows.
    pub acknowledged: u32,
    cnps: Vec<Count>,
    /// The most congested path.
    worst: (u16, u8, usize),
    /// What egress knows of the leaves.
    pub filter: RetransmissionFilter,
    /// What each path counts of messages, as egress knows it.
    pub msns: Vec<PathMsn>,
    /// The messages that were acknowledged to the source.
    pub last_acked_msn: u32,
}

/// Messages that a path counts (`retransmission_filter.p4`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PathMsn {
    /// Messages.
    pub msn: u32,
    /// The PSN that came with this count, minus the count.
    pub slack: u32,
}

impl PathMsn {
    fn new(space: Space, Point { psn, msn }: Point) -> PathMsn {
        let slack = space.distance(msn, psn) as u32;
        let slack = space.add(0, slack);
        PathMsn { msn, slack }
    }

    /// The path acknowledges. Its count is believed if it has risen, by at most the packets since it last rose.
    fn raise(&mut self, space: Space, acked: Point) -> u32 {
        let new = PathMsn::new(space, acked);
        if space.lt(self.msn, new.msn) && !space.lt(new.slack, self.slack) {
            *self = new;
        }
        self.msn
    }
}

/// CNPs of a path in a window of time, up to one more than [`CNP_LIMIT`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Count {
    window: u16,
    cnps: u8,
}

/// What waits between ingress and egress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TofinoQueued {
    /// It leaves.
    Leave(Sent),
    /// Data for a path, if that lacks it; of the path that it came from it ends.
    Copy {
        /// The path it goes to,
        path: usize,
        /// the one it came from.
        from: usize,
        /// Its PSN.
        psn: u32,
        /// Nothing that was sent before: the filter lets it pass.
        is_new: bool,
    },
    /// It ends, when egress has learned of it.
    Record {
        /// Of this path
        path: usize,
        /// what it has and counts.
        acked: Point,
        /// Its path had passed that already: what it counts is old, too.
        is_old: bool,
        /// The minimum, if it has risen: for the source's window.
        risen: Option<u32>,
    },
    /// An answer to data that all have.
    Answer {
        /// The path that asks,
        path: usize,
        /// with this PSN.
        psn: u32,
        /// It is that of the source.
        is_source: bool,
        /// The group's minimum.
        minimum: Word,
    },
    /// What is sent to the source.
    Forward {
        /// Through this port.
        port: Port,
        /// The path that came,
        path: usize,
        /// with this; it is at the minimum or not.
        acked: Point,
        /// The group's minimum.
        minimum: Word,
        /// What it becomes, if that is a NAK.
        nak: Option<Nak>,
    },
    /// The NAK for the source when a receiver has ended its queue pair.
    ForwardFatal {
        /// Through this port.
        port: Port,
        /// As it came.
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

    /// The same with another window, in packets.
    pub fn with_window(self, window: u32) -> TofinoGroup {
        TofinoGroup { window, ..self }
    }

    /// The port of each path, in the order of path numbers.
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// Data packet `psn` comes in through `port`.
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

    /// Was a PSN that is acknowledged sent? Just half the space away from the newest that was, it was not.
    fn has_sent(&self, psn: u32) -> bool {
        self.space.reaches(self.sender.sent, psn)
    }

    /// Must something have been acknowledged for data `psn` that was not (`source_window.p4`)? A window that is not less than half the
    /// space bounds nothing.
    fn is_beyond_window(&self, psn: u32) -> bool {
        let space = self.space;
        let is_bound = u32::try_from(space.distance(0, self.window)) == Ok(self.window);
        let start = space.add(psn.wrapping_sub(self.window), 0);
        is_bound && space.lt(self.acknowledged, start)
    }

    /// Is data the source's, and was it never sent before (`sender.p4`)?
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

    /// An ACK, or a NAK that is not fatal, comes in through `port`.
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
            // One of what comes next: nothing that was sent is missing.
            Feedback::Nak { nak, .. } if is_raised && space.lt(acked.psn, self.sender.sent) => {
                Some(nak)
            }
            _ => None,
        };
        let (is_forwarded, nak) = match nak {
            // It comes just after the minimum.
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

    /// A NAK waits, if it comes before the one that does.
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

    /// The NAK that all have just what is before of. One that all have passed is forgotten.
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

    /// What is not aggregated comes in through `port`. `now` is in nanoseconds.
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

    /// Only the most congested path's CNPs (`cnp_filter.p4`).
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

    /// The egress half.
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

    /// The MSN that goes with the minimum: that of the path that holds it, or what was acknowledged last if that is a sender.
    fn point_of(&mut self, word: Word) -> Point {
        let msn = match word.by_sender {
            true => self.last_acked_msn,
            false => self.raise_last_acked_msn(self.msns[word.path].msn),
        };
        Point { psn: word.psn, msn }
    }

    /// A count of messages may lag, but does not fall.
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
