//! The protocol between an orchestrator and `alfirk host`: JSON objects, one per line, over a Unix socket.
//!
//! ```text
//! > {"id":1,"request":"info"}
//! < {"id":1,"reply":"info","name":"h1","mac":"02:00:00:00:00:01","ip":"10.0.0.1","path_mtu":4096,"stats":{..}}
//! > {"id":2,"request":"prepare","transfer":7,"spec":{"algorithm":"chain","rank":0,"members":[..],"size":64,"slices":1}}
//! < {"id":2,"reply":"prepared","endpoints":[{"edge":{"pair":{"from":0,"to":1}},"rank":0,"ip":..,"qpn":..,"psn":..}]}
//! > {"id":3,"request":"connect","transfer":7,"peers":[..the endpoints of all members..]}
//! < {"id":3,"reply":"accepted"}
//! < {"event":"ready","transfer":7}
//! > {"id":4,"request":"start","transfer":7,"file":"/tmp/data"}
//! < {"id":4,"reply":"started","at":123456789}
//! < {"event":"progress","transfer":7,"bytes":32,"total":64}
//! < {"event":"done","transfer":7,"sha256":"..","bytes":64,"at":123999999}
//! < {"event":"finished","transfer":7}
//! ```
//!
//! A running transfer may continue with another algorithm. The part of a transfer under one algorithm is a leg:
//!
//! ```text
//! > {"id":5,"request":"leg","transfer":7,"verb":"leave"}         at every member; the queue pairs are gone
//! < {"event":"left","transfer":7,"held":12}
//! > {"id":6,"request":"leg","transfer":7,"verb":"resume","leg":{"algorithm":"chain","held":[64,12,15],"limit":26}}
//! < {"id":6,"reply":"acted","answer":{"endpoints":[..]}}          then `connect`, and when all are ready
//! > {"id":8,"request":"leg","transfer":7,"verb":"proceed"}
//! ```
//!
//! Every request gets one reply with its `id`: `reply` or `error`. Events go to every client. Times are nanoseconds of the
//! machine's monotonic clock, so those of different hosts on one machine are comparable.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use alfirk_roce::application::{MemberEvent, TransferId};
use alfirk_roce::collective::{
    Digest, EdgeId, Endpoint, LegCommand, LegReply, Progress, RequestTimes, TransferSpec,
};
use alfirk_roce::host::HostStats;
use alfirk_roce::hostile::Target;
use alfirk_roce::rc::QpStats;
use alfirk_roce::registration::{ExpectedGroup, GroupSpec, LeaderEvent};
use alfirk_roce::wire::mrp::Node;
use alfirk_roce::wire::{MacAddr, QpNum};
use serde::{Deserialize, Serialize};

/// A request with its number (`id`), which the reply repeats.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumberedRequest {
    #[serde(default)]
    pub id: u64,
    #[serde(flatten)]
    pub request: Request,
}

/// Requests that an orchestrator sends to a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub enum Request {
    /// Query the host's addresses and counters. Reply: [`Reply::Info`].
    Info,
    /// Query the host's clock. Reply: [`Reply::Clock`].
    Clock,
    /// Create this member's queue pairs; the client chooses the number `transfer`. Reply: [`Reply::Prepared`].
    Prepare {
        transfer: u32,
        spec: Box<TransferSpec>,
    },
    /// Connect the queue pairs of the transfer to those of the other members (`peers`). Reply: [`Reply::Accepted`];
    /// then [`Event::Ready`] or [`Event::Failed`].
    Connect { transfer: u32, peers: Vec<Endpoint> },
    /// Send the content of a file: at the root of the transfer, or at the source of its next part. Reply:
    /// [`Reply::Started`].
    Start { transfer: u32, file: PathBuf },
    /// End, start or limit a leg, which is the part of a transfer under one algorithm. Reply: [`Reply::Acted`]; after
    /// `leave` also [`Event::Left`].
    Leg {
        transfer: u32,
        #[serde(flatten)]
        verb: LegCommand,
    },
    /// Query the state of a transfer. Reply: [`Reply::Status`].
    Status { transfer: u32 },
    /// Write the data of the transfer that this host holds to a file. Reply: [`Reply::Accepted`].
    Save { transfer: u32, file: PathBuf },
    /// End the transfer: release its queue pairs and memory. Reply: [`Reply::Accepted`].
    Close { transfer: u32 },
    /// Accept that another host registers this queue pair as a member of a multicast group, in band (by packets on the network).
    /// Reply: [`Reply::Accepted`].
    Expect { qpn: QpNum, group: ExpectedGroup },
    /// Register a multicast group in band, by packets on the network; `nodes` are the other members. Reply: [`Reply::Accepted`]; then
    /// [`Event::Group`].
    Lead { group: GroupSpec, nodes: Vec<Node> },
    /// Remove the group that this host leads from the fabric. Reply: [`Reply::Accepted`]; then [`Event::Group`].
    Dissolve,
    /// Report to the fabric that a group to which this host sends makes no progress. Reply: [`Reply::Accepted`].
    Stalled { mcst_id: Ipv4Addr },
    /// Send random packets of all kinds to a group, one for each packet received, until the transfer is closed. Reply:
    /// [`Reply::Accepted`].
    TurnHostile {
        transfer: u32,
        target: Target,
        seed: u64,
    },
    /// End the process of the host. Reply: [`Reply::Accepted`].
    Stop,
}

/// A line that a host sends to the orchestrator: a reply, an error or an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Line {
    Reply {
        id: u64,
        #[serde(flatten)]
        reply: Reply,
    },
    Error {
        id: u64,
        error: String,
    },
    Event(Event),
}

/// Replies to successful requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum Reply {
    Info(Info),
    Clock {
        at: u64,
    },
    Prepared {
        endpoints: Vec<Endpoint>,
    },
    Accepted,
    Started {
        at: u64,
    },
    /// Result of [`Request::Leg`].
    Acted {
        answer: LegReply,
    },
    Status(Status),
}

/// Addresses and counters of a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Info {
    pub name: String,
    pub mac: MacAddr,
    pub ip: Ipv4Addr,
    pub prefix_len: u8,
    /// Largest IP packet of the host's interface in bytes.
    pub mtu: u32,
    /// Default path MTU of queue pairs: the maximum payload of a packet in bytes.
    pub path_mtu: u32,
    pub stats: HostStats,
}

/// The state of a transfer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    pub progress: Progress,
    /// Number of slices that the host holds; a slice is a part of the data that is sent as one message.
    #[serde(default)]
    pub held: u32,
    /// Completion times of the root's messages; `None` unless messages are counted as requests (`--queue-depth`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<Box<RequestTimes>>,
    pub ready: bool,
    /// Whether the host has received all data, and all data that it sends or relays has been acknowledged.
    pub finished: bool,
    pub failed: bool,
    /// Counters of the transfer's queue pairs.
    pub edges: Vec<EdgeStatus>,
    /// Counters of the whole host.
    pub host: HostStats,
}

/// Counters of one queue pair: the host's end of an edge of the algorithm's tree or ring.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EdgeStatus {
    pub edge: EdgeId,
    pub stats: QpStats,
}

/// Notifications that a host sends to all connected clients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// All connections of this member are established.
    Ready { transfer: u32 },
    /// The number of received or acknowledged bytes has changed; sent at most every 200 ms.
    Progress {
        transfer: u32,
        #[serde(flatten)]
        progress: Progress,
    },
    /// At a receiver, all data has been received; at the root, all data has been acknowledged. `at`: time in
    /// nanoseconds.
    Done {
        transfer: u32,
        sha256: Digest,
        bytes: u64,
        at: u64,
    },
    /// With alternating sources: this member holds the whole part; at the part's source: all members hold it.
    PartDone { transfer: u32, part: u32, at: u64 },
    /// After [`Event::Done`]: all data that this member relays has been acknowledged, too.
    Finished { transfer: u32 },
    /// The leg has ended at this member, and its queue pairs are gone. `held`: number of contiguous slices that the
    /// member has from the first one on. `beyond`: numbers of further slices that it has, after a gap.
    Left {
        transfer: u32,
        held: u32,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        beyond: Vec<u32>,
    },
    /// The transfer has failed at this member.
    Failed { transfer: u32, error: String },
    /// An event of the multicast group that this host leads: it registers and removes the group.
    Group {
        #[serde(flatten)]
        report: LeaderEvent,
    },
}

impl Event {
    /// The event that reports an event of the host's application.
    pub(super) fn of_member(TransferId(transfer): TransferId, event: MemberEvent) -> Event {
        match event {
            MemberEvent::Ready => Event::Ready { transfer },
            MemberEvent::Done { sha256, bytes, at } => Event::Done {
                transfer,
                sha256,
                bytes,
                at,
            },
            MemberEvent::PartDone { part, at } => Event::PartDone { transfer, part, at },
            MemberEvent::Finished => Event::Finished { transfer },
            MemberEvent::Left { held, beyond } => Event::Left {
                transfer,
                held,
                beyond,
            },
            MemberEvent::Failed { why: error } => Event::Failed { transfer, error },
            MemberEvent::Group(report) => Event::Group { report },
        }
    }

    /// The event of the host's application that this event reports, with its transfer; `None` if it reports progress.
    pub fn into_member_event(self) -> Option<(TransferId, MemberEvent)> {
        let (transfer, event) = match self {
            Event::Ready { transfer } => (transfer, MemberEvent::Ready),
            Event::Done {
                transfer,
                sha256,
                bytes,
                at,
            } => (transfer, MemberEvent::Done { sha256, bytes, at }),
            Event::PartDone { transfer, part, at } => {
                (transfer, MemberEvent::PartDone { part, at })
            }
            Event::Finished { transfer } => (transfer, MemberEvent::Finished),
            Event::Left {
                transfer,
                held,
                beyond,
            } => (transfer, MemberEvent::Left { held, beyond }),
            Event::Failed { transfer, error } => (transfer, MemberEvent::Failed { why: error }),
            Event::Group { report } => return Some((TransferId::MAIN, MemberEvent::Group(report))),
            Event::Progress { .. } => return None,
        };
        Some((TransferId(transfer), event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alfirk_roce::collective::{Algorithm, TransferOp};

    fn round_trip<T>(value: &T, text: &str)
    where
        T: Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
    {
        assert_eq!(serde_json::to_string(value).unwrap(), text);
        assert_eq!(&serde_json::from_str::<T>(text).unwrap(), value);
    }

    #[test]
    fn lines_are_flat_objects() {
        let request = |id, request| NumberedRequest { id, request };
        round_trip(&request(1, Request::Info), r#"{"id":1,"request":"info"}"#);
        round_trip(
            &request(
                2,
                Request::Start {
                    transfer: 7,
                    file: "/tmp/x".into(),
                },
            ),
            r#"{"id":2,"request":"start","transfer":7,"file":"/tmp/x"}"#,
        );
        round_trip(
            &Line::Reply {
                id: 2,
                reply: Reply::Started { at: 5 },
            },
            r#"{"id":2,"reply":"started","at":5}"#,
        );
        round_trip(
            &Line::Error {
                id: 3,
                error: "no".into(),
            },
            r#"{"id":3,"error":"no"}"#,
        );
        let progress = Progress { bytes: 1, total: 2 };
        round_trip(
            &Line::Event(Event::Progress {
                transfer: 7,
                progress,
            }),
            r#"{"event":"progress","transfer":7,"bytes":1,"total":2}"#,
        );
    }

    #[test]
    fn leg_verbs_round_trip() {
        let request = NumberedRequest {
            id: 3,
            request: Request::Leg {
                transfer: 7,
                verb: LegCommand::Pace { limit: 26 },
            },
        };
        round_trip(
            &request,
            r#"{"id":3,"request":"leg","transfer":7,"verb":"pace","limit":26}"#,
        );
        round_trip(
            &Line::Reply {
                id: 3,
                reply: Reply::Acted {
                    answer: LegReply::Done,
                },
            },
            r#"{"id":3,"reply":"acted","answer":"done"}"#,
        );
    }

    #[test]
    fn registration_is_one_line_each_way() {
        let text = r#"{"id":4,"request":"lead","group":{"mcst_id":"10.255.0.1","virtual_qpn":2591,"initial_psn":7,
            "leader":{"ip":"10.0.0.1","qpn":17},"members":["10.0.0.2"]},"nodes":[{"ip":"10.0.0.2","qpn":18}]}"#;
        let request: NumberedRequest = serde_json::from_str(text).unwrap();
        let Request::Lead { group, nodes } = request.request else {
            panic!("{request:?}");
        };
        assert_eq!(group.leader.qpn.get(), 17);
        assert_eq!(nodes[0].qpn.get(), 18);
        round_trip(
            &Line::Event(Event::Group {
                report: LeaderEvent::Lost {
                    members: vec![Ipv4Addr::new(10, 0, 0, 2)],
                },
            }),
            r#"{"event":"group","news":"lost","members":["10.0.0.2"]}"#,
        );
    }

    #[test]
    fn fields_with_defaults_may_be_omitted() {
        let text = r#"{"request":"prepare","transfer":1,"spec":{"algorithm":"binomial","rank":1,
            "members":["10.0.0.1","10.0.0.2"],"size":9,"slices":2}}"#;
        let request: NumberedRequest = serde_json::from_str(text).unwrap();
        let Request::Prepare { spec, .. } = request.request else {
            panic!("{request:?}");
        };
        assert_eq!(spec.algorithm, Algorithm::Binomial);
        assert_eq!(spec.op, TransferOp::Send);
        assert_eq!(
            (spec.rc, spec.group, spec.expected_sha256),
            (None, None, None)
        );
    }
}
