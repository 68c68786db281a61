//! A plain model of the controller's part under [`Strategy::Punt`](super::Strategy::Punt).

use super::{Feedback, Message, Nak, PacketIn, PacketOut, Port, Space};

/// What the controller knows of a group on one switch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Aggregator {
    space: Space,
    /// Port, newest PSN and its MSN.
    paths: Vec<(Port, u32, u32)>,
    waiting: Option<Nak>,
    told: (u32, u32),
}

impl Aggregator {
    /// Of a group whose first packet will be `initial_psn` after `msn` messages.
    pub fn new(space: Space, ports: &[Port], initial_psn: u32, msn: u32) -> Aggregator {
        let before = space.previous(initial_psn);
        Aggregator {
            space,
            paths: ports.iter().map(|&port| (port, before, msn)).collect(),
            waiting: None,
            told: (before, msn),
        }
    }

    /// A packet of the switch comes in. What is there to tell?
    ///
    /// Feedback that was lost on the way is known to the switch alone, whose retransmission filter rests on it,
    /// so that its path may never speak again. When a probe finds something missing, the registers of the paths
    /// are read: `read` gives the newest PSN of each in order.
    pub fn receive(
        &mut self,
        packet: &PacketIn,
        read: impl FnOnce() -> Vec<u32>,
    ) -> Option<PacketOut> {
        let space = self.space;
        if space.lt(self.told.0, packet.told.0) {
            self.told = packet.told;
        }
        // Everyone has what was told.
        for (_, psn, msn) in &mut self.paths {
            if space.lt(*psn, self.told.0) {
                (*psn, *msn) = self.told;
            }
        }
        match packet.message {
            Message::Probe { psn, msn } => {
                if !self.have_all(packet, psn) {
                    for (path, newest) in self.paths.iter_mut().zip(read()) {
                        if space.lt(path.1, newest) {
                            path.1 = newest;
                        }
                    }
                }
                if self.have_all(packet, psn) {
                    let agg = self.minimum(packet.source);
                    let is_source = packet.source == Some(packet.port);
                    let (psn, msn) = if is_source { agg } else { (psn, msn) };
                    self.told = agg;
                    return Some(PacketOut {
                        port: Some(packet.port),
                        feedback: Feedback::Ack { psn, msn },
                        agg,
                    });
                }
            }
            Message::Feedback(feedback) => {
                let (acked, msn) = feedback.acked(space);
                let path = self.paths.iter_mut().find(|path| path.0 == packet.port)?;
                let is_news = !space.lt(acked, path.1);
                if is_news {
                    (path.1, path.2) = (acked, msn);
                }
                if let Feedback::Nak { nak, .. } = feedback {
                    let is_oldest = self.waiting.is_none_or(|waiting| {
                        space.lt(nak.psn, waiting.psn)
                            || nak.psn == waiting.psn && nak.patience() > waiting.patience()
                    });
                    if is_news && is_oldest {
                        self.waiting = Some(nak);
                    }
                }
            }
        }
        let minimum = self.minimum(packet.source);
        let (psn, msn) = minimum;
        let feedback = match self.waiting {
            Some(nak) if space.next(psn) == nak.psn => Some(Feedback::Nak { nak, msn }),
            _ if space.lt(self.told.0, psn) => Some(Feedback::Ack { psn, msn }),
            _ => None,
        };
        if self
            .waiting
            .is_some_and(|nak| !space.lt(space.next(psn), nak.psn))
        {
            self.waiting = None;
        }
        let feedback = feedback?;
        self.told = minimum;
        Some(PacketOut {
            port: None,
            feedback,
            agg: minimum,
        })
    }

    /// Has everyone what a probe asks about? Its sender has, whatever that acknowledged of what others sent.
    fn have_all(&self, probe: &PacketIn, psn: u32) -> bool {
        self.paths.iter().all(|&(port, newest, _)| {
            Some(port) == probe.source || port == probe.port || !self.space.lt(newest, psn)
        })
    }

    /// What all have but the source, which has what it sends.
    fn minimum(&self, source: Option<Port>) -> (u32, u32) {
        let others = self.paths.iter().filter(|path| Some(path.0) != source);
        let words = others.map(|&(_, psn, msn)| (psn, msn));
        words
            .reduce(|a, b| if self.space.lt(b.0, a.0) { b } else { a })
            .unwrap_or(self.told)
    }
}
