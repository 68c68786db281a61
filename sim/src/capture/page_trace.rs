//! Trace of a run for the interactive page of `alfirk view`, in the format of [`alfirk_view::trace`].

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Write;
use std::net::Ipv4Addr;
use std::rc::Rc;

use alfirk_aggregation::{Config, Group, Space, Strategy};
use alfirk_ctrl::topology::{HostIndex, Topology};
use alfirk_roce::wire::Syndrome;
use alfirk_view::trace::{
    Event, FeedbackState, FrameEvent, FrameKind, Header, Link, LostEvent, MftEvent, Node, NodeKind,
    NoteEvent, PathState, Writer, VERSION,
};

use super::{Record, Sink};
use crate::engine::{Observation, Observer};
use crate::frame::Frame;

/// Name of the controller's node in the trace.
pub const CONTROLLER: &str = "controller";

/// Writes the trace of a whole run, which the interactive page shows.
pub struct PageTrace<W> {
    sink: Rc<RefCell<Sink<Writer<W>>>>,
    /// Index of each node in the trace's header, by the node's name.
    nodes: BTreeMap<String, usize>,
    space: Space,
    /// State of each group as last written to the trace, by index of the switch in the header and group address.
    shown: BTreeMap<(usize, Ipv4Addr), (Vec<PathState>, Option<FeedbackState>)>,
}

/// Creates the header of a trace. Its nodes are the topology's hosts and switches, and the controller. `members`: hosts
/// of the multicast group, the source first.
pub fn header(topology: &Topology, title: &str, members: &[HostIndex]) -> Header {
    let hosts = topology.hosts().iter().map(|host| Node {
        name: host.name.clone(),
        kind: NodeKind::Host,
        ip: Some(host.ip),
    });
    let switches = topology.switches().iter().map(|switch| Node {
        name: switch.name.clone(),
        kind: NodeKind::Switch,
        ip: None,
    });
    let controller = Node {
        name: CONTROLLER.to_owned(),
        kind: NodeKind::Controller,
        ip: None,
    };
    let nodes: Vec<Node> = hosts.chain(switches).chain([controller]).collect();
    let names = nodes.iter().enumerate();
    let numbers: BTreeMap<&str, usize> = names.map(|(at, node)| (&node.name[..], at)).collect();
    let links = topology.links().iter().map(|link| Link {
        ends: link
            .ends
            .map(|end| (numbers[topology.name_of(end.node)], end.port)),
        rate_bps: link.attributes.rate_bps,
        delay_ns: link.attributes.delay_ns,
    });
    Header {
        alfirk_trace: VERSION,
        program: format!("alfirk {}", env!("CARGO_PKG_VERSION")),
        title: title.to_owned(),
        topology: topology.name().to_owned(),
        links: links.collect(),
        members: members.iter().map(|host| host.0).collect(),
        nodes,
    }
}

impl<W: Write + 'static> PageTrace<W> {
    /// Creates a trace that is written to `writer`: the header, then at most `limit` bytes of events.
    ///
    /// # Errors
    ///
    /// The header cannot be written.
    pub fn new(writer: W, header: &Header, limit: u64) -> std::io::Result<(PageTrace<W>, Record)> {
        let writer = Writer::new(writer, header, limit)?;
        let (sink, record) = Sink::new(writer, Writer::finish);
        let nodes = header.nodes.iter().enumerate();
        let watch = PageTrace {
            sink,
            nodes: nodes.map(|(at, node)| (node.name.clone(), at)).collect(),
            space: Config::pipeline(Strategy::Tree).space,
            shown: BTreeMap::new(),
        };
        Ok((watch, record))
    }

    /// Creates the event that shows a group's new state (multicast forwarding table); `None` if that equals the state
    /// last written.
    fn mft(
        &mut self,
        t: u64,
        n: usize,
        mcst_id: Ipv4Addr,
        group: Option<&Group>,
    ) -> Option<MftEvent> {
        let (paths, feedback) = match group {
            Some(group) => (paths(group), feedback(group, self.space)),
            None => (Vec::new(), None),
        };
        let count = paths.len();
        let key = (n, mcst_id);
        let before = match group {
            Some(_) => self.shown.insert(key, (paths.clone(), feedback)),
            None => self.shown.remove(&key),
        };
        let paths = match before {
            Some((before, said)) if before.len() == count => {
                let both = paths.into_iter().zip(before);
                let changed = both.filter(|(now, before)| now != before);
                let changed: Vec<PathState> = changed.map(|(now, _)| now).collect();
                if changed.is_empty() && said == feedback {
                    return None;
                }
                changed
            }
            _ => paths,
        };
        Some(MftEvent {
            t,
            n,
            group: mcst_id,
            paths,
            count,
            feedback,
        })
    }
}

fn paths(group: &Group) -> Vec<PathState> {
    let leaves = group.leaves.iter().zip(group.ports()).enumerate();
    let paths = leaves.map(|(path, (leaf, &port))| PathState {
        path,
        port,
        ack: Some(leaf.newest.psn),
    });
    paths.collect()
}

fn feedback(group: &Group, space: Space) -> Option<FeedbackState> {
    let minimum = group.leaves.minimum(space)?;
    let nak = group.waiting_nak;
    Some(FeedbackState {
        minimum: minimum.psn,
        last_acked: group.last_acked.point.psn,
        sent: group.sender.sent,
        source: group.sender.source,
        nak: nak.nak.filter(|_| !nak.is_sent).map(|nak| nak.psn),
    })
}

impl<W: Write + 'static> Observer for PageTrace<W> {
    fn observe(&mut self, now: u64, name: &str, observation: Observation<'_>) {
        let Some(&n) = self.nodes.get(name) else {
            return;
        };
        if self.sink.borrow().writer.is_cut() {
            return;
        }
        let t = now;
        let event = match observation {
            Observation::Transmit { port, frame } => {
                let len = frame.len();
                let frame = Frame::read(frame);
                let psn = match frame {
                    Frame::Roce(roce) => Some(roce.psn.get()),
                    _ => None,
                };
                Event::Tx(FrameEvent {
                    t,
                    n,
                    p: port,
                    len,
                    k: kind(&frame),
                    psn,
                    text: frame.to_string(),
                })
            }
            // The trace has a frame when it leaves a port.
            Observation::Receive { .. } => return,
            Observation::Drop {
                port,
                len,
                frame,
                reason,
            } => Event::Lost(LostEvent {
                t,
                n,
                p: port,
                len,
                why: reason.as_str().to_owned(),
                text: frame
                    .map(|frame| Frame::read(frame).to_string())
                    .unwrap_or_default(),
            }),
            Observation::Note(text) => Event::Note(NoteEvent {
                t,
                n,
                text: text.to_owned(),
            }),
            Observation::Group { mcst_id, group } => match self.mft(t, n, mcst_id, group) {
                Some(event) => Event::Mft(event),
                None => return,
            },
        };
        self.sink.borrow_mut().write(|writer| writer.event(&event));
    }

    fn wants_notes(&self) -> bool {
        true
    }

    fn wants_groups(&self) -> bool {
        true
    }
}

fn kind(frame: &Frame) -> FrameKind {
    use alfirk_roce::wire::Opcode;
    match frame {
        Frame::Roce(roce) => match (roce.opcode, roce.syndrome) {
            (Opcode::Cnp, _) => FrameKind::Cnp,
            (Opcode::Acknowledge, Some((Syndrome::Ack { .. }, _))) => FrameKind::Ack,
            (Opcode::Acknowledge, Some(_)) => FrameKind::Nak,
            _ if roce.is_request() => FrameKind::Data,
            _ => FrameKind::Other,
        },
        _ => FrameKind::Other,
    }
}
