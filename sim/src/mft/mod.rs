//! A plain model of one switch's multicast forwarding table: what `p4src` computes in registers, written as
//! one would explain it.
//!
//! It is the reference of two tests: the compiled pipeline must give the same packets for the same sequence
//! of packets, and the model checker explores it with loss, duplication and reordering of everything.
//! Nothing of the product runs on it.
//!
//! Sources: Cepheus, section III-D; Gleam, algorithms 2 and 3; and the rules that both leave open (the answer
//! to acknowledged retransmissions, the sender's own path).

mod serial;

pub use serial::Space;

/// Number of a switch port.
pub type Port = u32;

/// One port of the group's tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Path {
    /// Where it leads.
    pub port: Port,
    /// AckPSN: the newest PSN that all below have, or that the sender behind the port has sent.
    pub ack_psn: u32,
    /// The newest PSN that feedback from the port acknowledged; what the retransmission filter knows.
    pub reported: u32,
    /// MSN of the newest feedback.
    pub msn: u32,
    /// Was `ack_psn` set by data of a sender behind the port? Then `msn` does not belong to it.
    pub by_sender: bool,
}

/// A negative acknowledgement that waits until the minimum has come to the PSN before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Nak {
    /// The PSN that the responder expects.
    pub psn: u32,
    /// AETH syndrome: a PSN sequence error, or RNR with its timer code.
    pub syndrome: u8,
}

/// What a receiver, or the switch below, reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Feedback {
    /// Everything up to `psn` has arrived.
    Ack {
        /// Newest PSN that is acknowledged.
        psn: u32,
        /// Messages completed.
        msn: u32,
    },
    /// Everything before `nak.psn` has arrived, that one has not.
    Nak {
        /// What is missing, and why.
        nak: Nak,
        /// Messages completed.
        msn: u32,
    },
}

/// The one thing that a switch does with a packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// One copy of the data through each of these ports.
    Replicate(Vec<Port>),
    /// The data is old: an acknowledgement goes back through the port it came from.
    Answer {
        /// The port of the data.
        port: Port,
        /// The minimum.
        psn: u32,
        /// Its MSN.
        msn: u32,
    },
    /// Feedback for the source.
    Tell {
        /// The port that data came from last.
        port: Port,
        /// What it is told.
        feedback: Feedback,
    },
    /// News for the registers alone.
    Record,
    /// There was something to tell, but no data has come yet.
    NoSource,
}

/// A mistake built in on purpose, to show that the checkers find it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// None: the rules as they are.
    #[default]
    None,
    /// A NAK is passed on at once, though others may lack earlier packets.
    CoveredNak,
    /// Retransmissions of what is acknowledged are dropped, as the papers have it.
    DroppedTailAck,
}

/// A group's state on one switch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    space: Space,
    flaw: Flaw,
    /// In the order of path numbers.
    pub paths: Vec<Path>,
    /// PSN and MSN that the source was told last.
    pub agg: (u32, u32),
    /// The oldest NAK not yet told.
    pub waiting: Option<Nak>,
    /// Where data came from last.
    pub src_port: Option<Port>,
}

impl Group {
    /// A group whose first packet will be `initial_psn`, with one path for each of `ports`.
    pub fn new(space: Space, ports: &[Port], initial_psn: u32, flaw: Flaw) -> Group {
        let before = space.previous(initial_psn);
        let path = |&port| Path {
            port,
            ack_psn: before,
            reported: before,
            msn: 0,
            by_sender: false,
        };
        Group {
            space,
            flaw,
            paths: ports.iter().map(path).collect(),
            agg: (before, 0),
            waiting: None,
            src_port: None,
        }
    }

    /// Data packet `psn` comes in through `port`, which must be a path of the group.
    pub fn data(&mut self, port: Port, psn: u32) -> Action {
        let space = self.space;
        let own = self.path_mut(port);
        if !space.lt(psn, own.ack_psn) {
            own.ack_psn = psn;
            own.by_sender = true;
        }
        let minimum = self.minimum();
        if space.lt(minimum, psn) {
            self.src_port = Some(port);
            let lacks = |path: &&Path| path.port != port && space.lt(path.reported, psn);
            return Action::Replicate(
                self.paths
                    .iter()
                    .filter(lacks)
                    .map(|path| path.port)
                    .collect(),
            );
        }
        if self.flaw == Flaw::DroppedTailAck {
            return Action::Record;
        }
        let msn = self.msn_of(minimum);
        if space.lt(self.agg.0, minimum) {
            self.agg = (minimum, msn);
        }
        Action::Answer {
            port,
            psn: minimum,
            msn,
        }
    }

    /// Feedback comes in through `port`, which must be a path of the group.
    pub fn feedback(&mut self, port: Port, feedback: Feedback) -> Action {
        let space = self.space;
        let (acked, own_msn, nak) = match feedback {
            Feedback::Ack { psn, msn } => (psn, msn, None),
            Feedback::Nak { nak, msn } => (space.previous(nak.psn), msn, Some(nak)),
        };
        let path = self.path_mut(port);
        let is_news = !space.lt(acked, path.ack_psn);
        if is_news {
            path.ack_psn = acked;
            path.msn = own_msn;
            path.by_sender = false;
        }
        if space.lt(path.reported, acked) {
            path.reported = acked;
        }
        let minimum = self.minimum();
        let msn = if acked == minimum {
            own_msn
        } else {
            self.msn_of(minimum)
        };

        if let Some(nak) = nak {
            if self.flaw == Flaw::CoveredNak {
                return self.tell(Feedback::Nak { nak, msn }, minimum, msn);
            }
            let is_oldest = self
                .waiting
                .is_none_or(|waiting| space.lt(nak.psn, waiting.psn));
            if is_news && space.lt(minimum, nak.psn) && is_oldest {
                self.waiting = Some(nak);
            }
        }
        let told = match self.waiting {
            Some(nak) if space.next(minimum) == nak.psn => {
                self.waiting = None;
                Some(Feedback::Nak { nak, msn })
            }
            _ if space.lt(self.agg.0, minimum) => Some(Feedback::Ack { psn: minimum, msn }),
            _ => None,
        };
        if self.waiting.is_some_and(|nak| !space.lt(minimum, nak.psn)) {
            self.waiting = None;
        }
        match told {
            Some(told) => self.tell(told, minimum, msn),
            None => Action::Record,
        }
    }

    fn tell(&mut self, feedback: Feedback, minimum: u32, msn: u32) -> Action {
        self.agg = (minimum, msn);
        match self.src_port {
            Some(port) => Action::Tell { port, feedback },
            None => Action::NoSource,
        }
    }

    /// The oldest AckPSN of all paths.
    pub fn minimum(&self) -> u32 {
        let older = |a: u32, b: u32| if self.space.lt(b, a) { b } else { a };
        self.paths
            .iter()
            .map(|path| path.ack_psn)
            .reduce(older)
            .expect("a group has paths")
    }

    /// The MSN that goes with the minimum: of the first receiver that stands there.
    fn msn_of(&self, minimum: u32) -> u32 {
        let stands_there = |path: &&Path| path.ack_psn == minimum && !path.by_sender;
        match self.paths.iter().find(stands_there) {
            Some(path) if self.agg.0 != minimum => path.msn,
            _ => self.agg.1,
        }
    }

    fn path_mut(&mut self, port: Port) -> &mut Path {
        self.paths
            .iter_mut()
            .find(|path| path.port == port)
            .expect("packets come through paths of the group")
    }
}

#[cfg(test)]
mod tests;
