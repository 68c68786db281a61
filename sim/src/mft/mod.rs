//! A plain model of one switch's multicast forwarding table: what `p4src` computes in registers, written as
//! one would explain it.
//!
//! It is the reference of two tests: the compiled pipeline must give the same packets for the same sequence
//! of packets, and the model checker explores it with loss, duplication and reordering of everything.
//! Nothing of the product runs on it.
//!
//! Like the pipeline it has two halves. What comes in goes through [`Group::data`], [`Group::feedback`],
//! [`Group::notice`] or [`Group::command`], and gives [`Queued`] things; each of them goes on through
//! [`Group::dequeue`], in whatever order the queues of a switch have. [`Group::run`] does both at once.
//!
//! Sources: Cepheus, section III-D; Gleam, algorithms 2 and 3; and the rules that both leave open (the answer
//! to acknowledged retransmissions, the sender's own path, walks that others overtake).

mod aggregate;
mod aggregator;
mod cnp;
mod serial;
mod types;
mod walk;
mod work;

pub use aggregator::Aggregator;
pub use serial::Space;
pub use types::{
    Config, Feedback, Flaw, Message, Nak, Notice, PacketIn, PacketOut, Port, Queued, Sent,
    Strategy, Walker, Word,
};

pub use walk::{Busy, Walk};
pub use work::Work;

use cnp::CnpFilter;

/// One port of the group's tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Path {
    /// Where it leads.
    pub port: Port,
    /// To a host, rather than to another switch.
    pub is_host: bool,
    /// AckPSN: the newest PSN that all below have, or that the sender behind the port has sent.
    pub ack_psn: u32,
    /// Was `ack_psn` set by data of a sender behind the port? Then `msn` does not belong to it.
    pub by_sender: bool,
    /// MSN of the newest feedback.
    pub msn: u32,
    /// The newest PSN that it has acknowledged itself, true or not.
    pub acked: u32,
    /// What the retransmission filter knows of `ack_psn`.
    pub filter: u32,
}

/// A group's state on one switch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    config: Config,
    /// In the order of path numbers.
    pub paths: Vec<Path>,
    /// PSN and MSN that the source was told last.
    pub agg: (u32, u32),
    /// The oldest NAK that waits, or the one that the source was told.
    pub waiting: Option<Nak>,
    /// Was the source told of `waiting`, and has not yet sent its PSN again?
    pub is_nak_told: bool,
    /// Who may send what: where the source is,
    pub src_port: Option<Port>,
    /// and the newest PSN that it has sent.
    pub sent: u32,
    /// Whoever looks for the minimum under [`Strategy::Walk`].
    pub walk: Walk,
    /// What all this has cost.
    pub work: Work,
    cnps: CnpFilter,
}

impl Group {
    /// A group whose first packet will be `initial_psn` after `msn` messages, with one path for each of
    /// `ports`; the flag says that a host is behind it.
    pub fn new(config: Config, ports: &[(Port, bool)], initial_psn: u32, msn: u32) -> Group {
        let before = config.space.previous(initial_psn);
        let path = |&(port, is_host)| Path {
            port,
            is_host,
            ack_psn: before,
            by_sender: false,
            msn,
            acked: before,
            filter: before,
        };
        Group {
            config,
            paths: ports.iter().map(path).collect(),
            agg: (before, msn),
            waiting: None,
            is_nak_told: false,
            src_port: None,
            sent: before,
            walk: Walk {
                found: before,
                ..Walk::default()
            },
            work: Work::default(),
            cnps: CnpFilter::new(ports.len()),
        }
    }

    /// Takes what is queued to its end, and all that follows from it. Gives what leaves the switch.
    pub fn run(&mut self, queued: Vec<Queued>, now: u64) -> Vec<Sent> {
        let mut sent = Vec::new();
        let mut queue = std::collections::VecDeque::from(queued);
        while let Some(next) = queue.pop_front() {
            let (left, more) = self.dequeue(next, now);
            sent.extend(left);
            queue.extend(more);
        }
        sent
    }

    /// The egress half: the retransmission filter, and what goes round. `now` is in microseconds.
    pub fn dequeue(&mut self, queued: Queued, now: u64) -> (Option<Sent>, Vec<Queued>) {
        match queued {
            Queued::Leave(sent) => (Some(sent), Vec::new()),
            Queued::End => (None, Vec::new()),
            Queued::Learn { path, acked } => {
                self.learn(path, acked);
                (None, Vec::new())
            }
            Queued::Copy {
                path,
                psn,
                is_retransmission,
            } => {
                let path = &self.paths[path];
                let has_it = !self.config.space.lt(path.filter, psn);
                let copy = Sent::Data {
                    port: path.port,
                    psn,
                };
                ((!is_retransmission || !has_it).then_some(copy), Vec::new())
            }
            Queued::Punt { path, acked, what } => {
                self.learn(path, acked);
                (Some(Sent::ToController(what)), Vec::new())
            }
            Queued::Round { walker, learn } => {
                if let Some((path, acked)) = learn {
                    self.learn(path, acked);
                }
                (None, self.pass(walker, now))
            }
        }
    }

    /// The retransmission filter's copy of a path's PSN rises.
    fn learn(&mut self, path: usize, acked: u32) {
        let space = self.config.space;
        let path = &mut self.paths[path];
        if space.lt(path.filter, acked) {
            path.filter = acked;
        }
    }

    /// The path whose newest PSN is the oldest of all; of equal ones a receiver's, and the first.
    pub fn minimum(&self) -> Word {
        let words = (0..self.paths.len()).map(|path| self.word(path));
        words
            .reduce(|oldest, word| {
                if word.is_before(oldest, self.config.space) {
                    word
                } else {
                    oldest
                }
            })
            .expect("a group has paths")
    }

    fn word(&self, path: usize) -> Word {
        Word {
            psn: self.paths[path].ack_psn,
            by_sender: self.paths[path].by_sender,
            path,
        }
    }

    fn path_at(&self, port: Port) -> usize {
        self.paths
            .iter()
            .position(|path| path.port == port)
            .expect("packets come through paths of the group")
    }
}

#[cfg(test)]
mod tests;
