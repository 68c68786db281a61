//! A model of the fabric: one switch that replicates a group's packets and aggregates acknowledgements by the rules of
//! `alfirk_aggregation`, which the pipeline implements. It bridges with neutral ICRC constants, so every host checks the solver.

use std::net::Ipv4Addr;
use std::sync::Arc;

use alfirk_aggregation::{classify, AckClass, Config, Feedback, Group, Port, SentPacket, Strategy};
use alfirk_roce::collective::{
    Algorithm, Collective as Kind, Digest, Endpoint, GroupSpec, Transfer, TransferError,
    TransferEvent, TransferOp, TransferSpec, WriteMode,
};
use alfirk_roce::host::HostEvent;
use alfirk_roce::icrc::neutral::{ExitPairs, ExitRewrite, NeutralConstants, NeutralPair};
use alfirk_roce::rc::{NakRule, PathMtu, RcConfig, Recovery};
use alfirk_roce::wire::{
    aeth, arp, bth, ethernet, ipv4, mr_info, reth, MacAddr, Opcode, Psn, QpNum,
};
use proptest::prelude::{prop_oneof, proptest, Just};
use proptest::strategy::Strategy as _;

use crate::net::{host, ip, mac, Collective, Faults, Medium, Net};

pub const MCST_ID: Ipv4Addr = Ipv4Addr::new(10, 255, 0, 1);
/// The virtual queue pair number of the group.
const VIRTUAL_QPN: QpNum = QpNum::new(0xa1f);
const VIRTUAL_MAC: MacAddr = MacAddr([2, 0xa1, 0xf1, 0x4c, 0, 1]);

/// Offsets in a frame.
const IP: usize = ethernet::HEADER_LEN;
const UDP: usize = IP + ipv4::HEADER_LEN;
const BTH: usize = UDP + 8;
const EXTENSION: usize = BTH + bth::HEADER_LEN;

struct Path {
    ip: Ipv4Addr,
    mac: MacAddr,
    qpn: QpNum,
    va_xor: u64,
    rkey_xor: u32,
    entry: NeutralPair,
    exit: ExitPairs,
    /// The announced memory region of the next WRITE.
    request: Option<mr_info::Repr>,
}

/// The switch. Port i leads to host i, and is path i.
#[derive(Default)]
pub struct OneSwitch {
    paths: Vec<Path>,
    group: Option<Group>,
}

impl OneSwitch {
    pub fn register(&mut self, group: &GroupSpec, endpoints: &[Endpoint]) {
        let ports: Vec<Port> = (0..endpoints.len() as Port).collect();
        let config = Config::pipeline(Strategy::Tree);
        self.group = Some(Group::new(config, &ports, group.initial_psn.get(), 0));
        self.paths = endpoints
            .iter()
            .map(|end| {
                let (va, rkey) = end
                    .memory
                    .map_or((group.va, group.rkey), |m| (m.va, m.rkey));
                let (va_xor, rkey_xor) = (group.va ^ va, group.rkey ^ rkey);
                let rewrite = ExitRewrite {
                    mcst_id: group.mcst_id,
                    host_ip: end.ip,
                    virtual_qpn: group.virtual_qpn,
                    host_qpn: end.qpn,
                    va_xor,
                    rkey_xor,
                };
                Path {
                    ip: end.ip,
                    mac: mac(end.rank as usize),
                    qpn: end.qpn,
                    va_xor,
                    rkey_xor,
                    entry: NeutralConstants::entry(end.ip, group.mcst_id).unwrap(),
                    exit: NeutralConstants::exit(&rewrite).unwrap(),
                    request: None,
                }
            })
            .collect();
    }

    fn group(&mut self) -> &mut Group {
        self.group.as_mut().expect("a group is registered")
    }

    fn data(&mut self, from: usize, psn: Psn, frame: Vec<u8>) -> Vec<(usize, Vec<u8>)> {
        let group = self.group();
        let queued = group.data(from as Port, psn.get(), 0);
        let sent = group.run(queued, 0);
        let (frame, info) = take_mr_info(frame);
        self.frames(sent, |path| {
            if let Some((_, info)) = info.filter(|(receiver, _)| *receiver == path.ip) {
                path.request = Some(info);
            }
            path.exit(frame.clone())
        })
    }

    fn acknowledge(&mut self, from: usize, psn: Psn, aeth: aeth::Repr) -> Vec<(usize, Vec<u8>)> {
        let Some(AckClass::Feedback(feedback)) = classify(psn.get(), aeth) else {
            panic!("a receiver sent {aeth:?}");
        };
        let group = self.group();
        let queued = group.feedback(from as Port, feedback, 0);
        let sent = group.run(queued, 0);
        self.frames(sent, |_| unreachable!("feedback makes no data"))
    }

    /// The frames that the switch sends, and their ports.
    fn frames(
        &mut self,
        sent: Vec<SentPacket>,
        mut copy: impl FnMut(&mut Path) -> Vec<u8>,
    ) -> Vec<(usize, Vec<u8>)> {
        let frame = |sent| match sent {
            SentPacket::Data { port, .. } => (port as usize, copy(&mut self.paths[port as usize])),
            SentPacket::Feedback { port, feedback } => {
                (port as usize, self.paths[port as usize].feedback(feedback))
            }
            other => panic!("a tree of ACKs and NAKs sends no {other:?}"),
        };
        sent.into_iter().map(frame).collect()
    }
}

fn xor(frame: &mut [u8], at: usize, difference: &[u8]) {
    for (byte, d) in frame[at..].iter_mut().zip(difference) {
        *byte ^= d;
    }
}

fn apply(frame: &mut [u8], pair: NeutralPair) {
    xor(frame, IP + 4, &pair.ip_id_xor.to_be_bytes());
    xor(frame, UDP, &pair.udp_sport_xor.to_be_bytes());
}

/// Takes the memory region information from a frame, with its receiver; the frame becomes a WRITE of 0 bytes.
fn take_mr_info(mut frame: Vec<u8>) -> (Vec<u8>, Option<(Ipv4Addr, mr_info::Repr)>) {
    let bth = bth::View::new_checked(&frame[BTH..]).unwrap();
    if bth.opcode() != Opcode::WriteOnly {
        return (frame, None);
    }
    let reth = reth::Repr::parse(&reth::View::new_checked(&frame[EXTENSION..]).unwrap());
    if reth.rkey != mr_info::R_KEY {
        return (frame, None);
    }
    assert_eq!(reth.dma_length as usize, mr_info::PAYLOAD_LEN);
    let payload = EXTENSION + reth::HEADER_LEN;
    let info = mr_info::Repr::parse(&mr_info::View::new_checked(&frame[payload..]).unwrap());
    frame.truncate(payload + 4);
    reth::Repr {
        dma_length: 0,
        ..reth
    }
    .emit(&mut frame[EXTENSION..]);
    let len = (frame.len() - IP) as u16;
    frame[IP + 2..IP + 4].copy_from_slice(&len.to_be_bytes());
    frame[UDP + 4..UDP + 6].copy_from_slice(&(len - 20).to_be_bytes());
    let end = frame.len() - 4;
    let icrc = alfirk_roce::icrc::compute(&frame[IP..end]).unwrap();
    alfirk_roce::wire::icrc::Repr { icrc }.emit(&mut frame[end..]);
    let receiver = Ipv4Addr::from(reth.virtual_address as u32);
    (frame, Some((receiver, info)))
}

impl Path {
    /// Entry half of the bridge: from a host into the group.
    fn enter(&self, mut frame: Vec<u8>) -> Vec<u8> {
        frame[IP + 12..IP + 16].copy_from_slice(&MCST_ID.octets());
        apply(&mut frame, self.entry);
        frame
    }

    /// Exit half of the bridge: from the group to a host.
    fn exit(&self, mut frame: Vec<u8>) -> Vec<u8> {
        let reth = bth::View::new_checked(&frame[BTH..])
            .unwrap()
            .opcode()
            .has_reth();
        frame[..6].copy_from_slice(&self.mac.0);
        frame[6..12].copy_from_slice(&VIRTUAL_MAC.0);
        frame[IP + 16..IP + 20].copy_from_slice(&self.ip.octets());
        frame[BTH + 5..BTH + 8].copy_from_slice(&self.qpn.get().to_be_bytes()[1..]);
        if reth {
            xor(&mut frame, EXTENSION, &self.va_xor.to_be_bytes());
            xor(&mut frame, EXTENSION + 8, &self.rkey_xor.to_be_bytes());
            if let Some(request) = &self.request {
                xor(&mut frame, EXTENSION, &request.va_xor.to_be_bytes());
                xor(&mut frame, EXTENSION + 8, &request.rkey_xor.to_be_bytes());
                apply(&mut frame, request.pair);
            }
        }
        apply(
            &mut frame,
            if reth {
                self.exit.reth
            } else {
                self.exit.plain
            },
        );
        frame[IP + 10..IP + 12].fill(0);
        let sum = ipv4::checksum(&frame[IP..UDP]);
        frame[IP + 10..IP + 12].copy_from_slice(&sum.to_be_bytes());
        frame
    }

    /// An acknowledgement from the group to this path's member.
    fn feedback(&self, feedback: Feedback) -> Vec<u8> {
        let (psn, aeth) = feedback.to_aeth();
        let mut frame = vec![0; EXTENSION + aeth::HEADER_LEN + 4];
        ethernet::Repr {
            destination: self.mac,
            source: VIRTUAL_MAC,
            ethertype: ethernet::ETHERTYPE_IPV4,
        }
        .emit(&mut frame);
        ipv4::Repr {
            tos: 0,
            payload_len: (frame.len() - UDP) as u16,
            identification: 1,
            dont_fragment: true,
            ttl: 64,
            protocol: ipv4::PROTOCOL_UDP,
            source: MCST_ID,
            destination: self.ip,
        }
        .emit(&mut frame[IP..]);
        alfirk_roce::wire::udp::Repr {
            source_port: 0xc000,
            destination_port: 4791,
            payload_len: (frame.len() - BTH) as u16,
        }
        .emit(&mut frame[UDP..]);
        bth::Repr::new(Opcode::Acknowledge, self.qpn, Psn::new(psn)).emit(&mut frame[BTH..]);
        aeth.emit(&mut frame[EXTENSION..]);
        let end = frame.len() - 4;
        let icrc = alfirk_roce::icrc::compute(&frame[IP..end]).unwrap();
        alfirk_roce::wire::icrc::Repr { icrc }.emit(&mut frame[end..]);
        frame
    }
}

impl Medium for OneSwitch {
    fn carry(&mut self, from: usize, frame: Vec<u8>) -> Vec<(usize, Vec<u8>)> {
        let view = ethernet::View::new_checked(&frame).unwrap();
        if view.ethertype() == ethernet::ETHERTYPE_ARP {
            let request =
                arp::Repr::parse(&arp::View::new_checked(view.payload()).unwrap()).unwrap();
            assert_eq!(request.target_ip, MCST_ID, "members talk to the group only");
            let reply = arp::Repr {
                operation: arp::Operation::Reply,
                sender_mac: VIRTUAL_MAC,
                sender_ip: MCST_ID,
                target_mac: request.sender_mac,
                target_ip: request.sender_ip,
            };
            let mut out = vec![0; IP + arp::PACKET_LEN];
            ethernet::Repr {
                destination: request.sender_mac,
                source: VIRTUAL_MAC,
                ethertype: ethernet::ETHERTYPE_ARP,
            }
            .emit(&mut out);
            reply.emit(&mut out[IP..]);
            return vec![(from, out)];
        }
        let frame = self.paths[from].enter(frame);
        let bth = bth::Repr::parse(&bth::View::new_checked(&frame[BTH..]).unwrap());
        if bth.opcode == Opcode::Acknowledge {
            let aeth = aeth::Repr::parse(&aeth::View::new_checked(&frame[EXTENSION..]).unwrap());
            self.acknowledge(from, bth.psn, aeth)
        } else {
            self.data(from, bth.psn, frame)
        }
    }
}

struct Case {
    members: usize,
    size: usize,
    slices: u32,
    op: TransferOp,
    write: WriteMode,
    /// The source of each part, with several sources.
    sources: Vec<u32>,
    /// Receives that each member keeps posted; `None` for all.
    receives: Option<u32>,
    /// Whether a source starts although the previous one still waits for acknowledgements.
    early: bool,
    initial_psn: Psn,
    rc: RcConfig,
    faults: Faults,
    seed: u64,
}

/// Runs one transfer and checks the data of every member. Returns the net for more checks.
fn transfer(case: Case) -> (Net<OneSwitch>, Collective) {
    let hosts = (0..case.members)
        .map(|i| host(i, 4200, case.seed))
        .collect();
    let mut net = Net::new(hosts, OneSwitch::default(), case.seed);
    net.faults = case.faults;
    let group = GroupSpec {
        va: match case.write {
            WriteMode::Aligned => 0x7600_0000_0000,
            WriteMode::Uniform | WriteMode::PerRequest => 0x7654_3001,
        },
        rkey: 0xbeef,
        ..GroupSpec::new(MCST_ID, VIRTUAL_QPN, case.initial_psn)
    };
    let spec = |rank| TransferSpec {
        slices: case.slices,
        op: case.op,
        write: case.write,
        sources: case.sources.as_slice().into(),
        receives: case.receives,
        rc: Some(case.rc),
        group: Some(group),
        ..TransferSpec::new(
            Algorithm::Alfirk,
            rank,
            (0..case.members).map(ip).collect(),
            case.size as u64,
        )
    };
    let data: Arc<[u8]> = (0..case.size).map(|i| (i * 31 + i / 255) as u8).collect();
    let register = |fabric: &mut OneSwitch, ends: &[Endpoint]| fabric.register(&group, ends);
    let mut collective = Collective::prepare(&mut net, spec, register);
    let deadline = 600_000_000_000;
    collective.run_until(&mut net, deadline, Collective::ready);
    for part in 0..spec(0).parts() {
        let source = spec(0).source_of(part);
        let (offset, len) = spec(0).part(part);
        let bytes = data[offset as usize..][..len as usize].into();
        let (transfer, host) = (
            &mut collective.transfers[source as usize],
            &mut net.hosts[source as usize],
        );
        transfer.start(host, net.now, bytes).unwrap();
        if spec(0).has_several_sources() {
            let spared = case.early.then_some(source);
            collective.run_until(&mut net, deadline, |c| c.part_done(part, spared));
        }
    }
    collective.run_until(&mut net, deadline, Collective::finished);
    let digest = Digest::of(&data);
    for (i, (transfer, host)) in collective.transfers.iter().zip(&net.hosts).enumerate() {
        assert_eq!(transfer.data(host), &data[..], "member {i}");
        assert_eq!(
            host.stats().implausible(),
            0,
            "member {i}: {:?}",
            host.stats()
        );
        let done = |(rank, event): &&(usize, TransferEvent)| {
            *rank == i && matches!(event, TransferEvent::Done { sha256, .. } if *sha256 == digest)
        };
        assert_eq!(
            collective.events.iter().filter(done).count(),
            1,
            "member {i}"
        );
    }
    (net, collective)
}

pub fn nak_rule(patient: bool) -> NakRule {
    if patient {
        NakRule::OncePerAck
    } else {
        NakRule::EachGap
    }
}

pub fn recovery() -> impl proptest::strategy::Strategy<Value = Recovery> {
    prop_oneof![Just(Recovery::GoBackN), Just(Recovery::SelectiveRepeat)]
}

fn rc(mtu: PathMtu) -> RcConfig {
    RcConfig {
        window: 64,
        ack_every: 16,
        ..RcConfig::new(mtu)
    }
}

#[test]
fn root_sends_each_packet_once() {
    for op in [TransferOp::Send, TransferOp::Write, TransferOp::WriteImm] {
        let (net, collective) = transfer(Case {
            members: 5,
            size: 1_000_001,
            slices: 1,
            op,
            write: WriteMode::Aligned,
            sources: Vec::new(),
            receives: None,
            early: false,
            initial_psn: Psn::new(0xff_ff80),
            rc: rc(PathMtu::B1024),
            faults: Faults::default(),
            seed: 5,
        });
        let (_, stats) = collective.transfers[0]
            .qp_stats(&net.hosts[0])
            .next()
            .unwrap();
        let notice = u64::from(op == TransferOp::Write);
        assert_eq!(stats.requests_sent, 977 + notice, "{op:?}");
        assert_eq!(stats.retransmissions, 0);
        assert_eq!(stats.timeouts, 0);
        assert_eq!(stats.inexact_msns, 0);
    }
}

#[test]
fn each_request_costs_one_small_packet_per_receiver() {
    for op in [TransferOp::Write, TransferOp::WriteImm] {
        let (net, collective) = transfer(Case {
            members: 5,
            size: 3_000,
            slices: 3,
            op,
            write: WriteMode::PerRequest,
            sources: Vec::new(),
            receives: None,
            early: false,
            initial_psn: Psn::new(0xff_fffe),
            rc: rc(PathMtu::B1024),
            faults: Faults::default(),
            seed: 5,
        });
        let (_, stats) = collective.transfers[0]
            .qp_stats(&net.hosts[0])
            .next()
            .unwrap();
        let notices = 3 * u64::from(op == TransferOp::Write);
        assert_eq!(stats.requests_sent, 3 * (4 + 1) + notices, "{op:?}");
        assert_eq!(stats.request_bytes_sent, 3_000 + 3 * 4 * 16);
        assert_eq!((stats.retransmissions, stats.timeouts), (0, 0));
    }
}

#[test]
fn regions_of_each_receiver_and_request_differ() {
    let spec = |rank| TransferSpec {
        slices: 7,
        op: TransferOp::Write,
        write: WriteMode::PerRequest,
        group: Some(GroupSpec::new(MCST_ID, VIRTUAL_QPN, Psn::new(0))),
        ..TransferSpec::new(Algorithm::Alfirk, rank, (0..4).map(ip).collect(), 100_000)
    };
    let mut regions = std::collections::BTreeSet::new();
    for rank in 1..4 {
        let mut host = host(rank as usize, 4200, 1);
        let (_, ends) = Transfer::prepare(&mut host, spec(rank)).unwrap();
        assert_eq!(ends[0].memory, None, "the group is registered without");
        assert!(ends[0].slice_windows.iter().any(|r| r.va % 4096 != 0));
        regions.extend(ends[0].slice_windows.iter().map(|r| (r.va, r.rkey)));
    }
    assert_eq!(regions.len(), 3 * 7);
}

#[test]
fn several_sources_share_the_same_queue_pairs() {
    for (op, write) in [
        (TransferOp::Send, WriteMode::Aligned),
        (TransferOp::WriteImm, WriteMode::Aligned),
        (TransferOp::Write, WriteMode::PerRequest),
    ] {
        let (net, collective) = transfer(Case {
            members: 4,
            size: 1_000_000,
            slices: 10,
            op,
            write,
            sources: vec![2, 0, 1, 3, 2],
            receives: None,
            early: false,
            initial_psn: Psn::new(0xff_ff80),
            rc: rc(PathMtu::B1024),
            faults: Faults::default(),
            seed: 5,
        });
        let mut sent = 0;
        for (transfer, host) in collective.transfers.iter().zip(&net.hosts) {
            assert_eq!(host.qps().count(), 1);
            let (_, stats) = transfer.qp_stats(host).next().unwrap();
            assert_eq!(stats.retransmissions, 0, "{op:?}");
            assert_eq!(stats.inexact_msns, 0, "{op:?}");
            sent += stats.request_bytes_sent;
        }
        let announced = 10 * 3 * 16 * u64::from(write == WriteMode::PerRequest);
        assert_eq!(sent, 1_000_000 + announced, "{op:?}");
    }
}

/// The aggregated minimum acts as a barrier: a member that has not entered has no receive for the root's signal.
#[test]
fn no_member_leaves_a_groups_barrier_before_all_have_entered() {
    let group = GroupSpec::new(MCST_ID, VIRTUAL_QPN, Psn::new(0xff_ffff));
    let members = 5;
    let spec = |rank| TransferSpec {
        collective: Kind::Barrier,
        slices: Algorithm::Alfirk.slices_for(Kind::Barrier, 0, 5),
        group: Some(group),
        ..TransferSpec::new(Algorithm::Alfirk, rank, (0..5).map(ip).collect(), 0)
    };
    for late in [0, 1, 4] {
        let hosts = (0..members).map(|i| host(i, 4200, 1)).collect();
        let mut net = Net::new(hosts, OneSwitch::default(), 1);
        let register = |fabric: &mut OneSwitch, ends: &[Endpoint]| fabric.register(&group, ends);
        let mut run = Collective::prepare(&mut net, spec, register);
        run.run_until(&mut net, 1_000_000_000, Collective::ready);
        let come = |run: &mut Collective, net: &mut Net<OneSwitch>, rank: usize| {
            let (host, now) = (&mut net.hosts[rank], net.now);
            let nothing = Arc::from(&[][..]);
            run.transfers[rank].start(host, now, nothing).unwrap();
        };
        for rank in (0..members).filter(|rank| *rank != late) {
            come(&mut run, &mut net, rank);
        }
        let early = net.now + 3_000_000;
        run.run_until_time(&mut net, early);
        let done = |run: &Collective| {
            let done = |event: &TransferEvent| matches!(event, TransferEvent::Done { .. });
            run.events.iter().filter(|(_, event)| done(event)).count()
        };
        assert_eq!(done(&run), 0, "without {late}");
        come(&mut run, &mut net, late);
        run.run_until(&mut net, 1_000_000_000, Collective::finished);
        assert_eq!(done(&run), members);
    }
}

#[test]
fn source_must_hold_all_earlier_parts() {
    let mut host = host(1, 4200, 1);
    let spec = TransferSpec {
        slices: 2,
        sources: [0, 1].into(),
        group: Some(GroupSpec::new(MCST_ID, VIRTUAL_QPN, Psn::new(0))),
        ..TransferSpec::new(Algorithm::Alfirk, 1, (0..3).map(ip).collect(), 100)
    };
    let (mut transfer, _) = Transfer::prepare(&mut host, spec).unwrap();
    transfer.connect(&mut host, 0, &[]).unwrap();
    let data: Arc<[u8]> = vec![0; 50].into();
    let error = transfer.start(&mut host, 0, data.clone()).unwrap_err();
    assert!(matches!(error, TransferError::NotReady(1)), "{error}");
    let qpn = host.qps().next().unwrap().qpn();
    transfer.handle_event(&mut host, 0, &HostEvent::Connected { qpn });
    let error = transfer.start(&mut host, 0, data).unwrap_err();
    assert_eq!(error, TransferError::TooEarly { part: 1 });
}

/// Number of members, and in most cases the sources of successive parts.
fn members_and_sources() -> impl proptest::strategy::Strategy<Value = (usize, Vec<u32>)> {
    (2usize..8).prop_flat_map(|members| {
        let steps = proptest::collection::vec(1..members as u32, 0..5);
        (Just(members), 0..members as u32, steps).prop_map(|(members, first, steps)| {
            let mut sources = vec![first];
            for step in steps {
                let last = sources[sources.len() - 1];
                sources.push((last + step) % members as u32);
            }
            if sources == [0] {
                sources.clear();
            }
            (members, sources)
        })
    })
}

proptest! {
    /// With loss, duplication and delay in the fabric, each message arrives once, in order, byte for byte, at all members.
    #[test]
    fn all_members_get_all_data_through_a_faulty_fabric(
        (members, sources) in members_and_sources(),
        early: bool,
        size in prop_oneof![0usize..2000, 0usize..60_000],
        slices in 1u32..4,
        op in prop_oneof![Just(TransferOp::Send), Just(TransferOp::Write), Just(TransferOp::WriteImm)],
        write in prop_oneof![Just(WriteMode::Aligned), Just(WriteMode::Uniform), Just(WriteMode::PerRequest)],
        behind_wrap in 0u32..60,
        receives in proptest::option::of(1u32..3),
        window in 1u32..80,
        ack_every in 1u32..40,
        patient: bool,
        loss in prop_oneof![Just(0u32), 0u32..60],
        duplication in 0u32..50,
        reordering in prop_oneof![Just(0u32), 0u32..50],
        seed: u64,
    ) {
        transfer(Case {
            members, size, op, write, receives,
            early: early && write != WriteMode::PerRequest,
            slices: slices * sources.len().max(1) as u32,
            sources,
            initial_psn: Psn::new(0u32.wrapping_sub(behind_wrap)),
            rc: RcConfig { window, ack_every, nak_rule: nak_rule(patient), ..rc(PathMtu::B256) },
            faults: Faults { loss, duplication, reordering },
            seed,
        });
    }
}
