//! Every algorithm, with every operation, delivers to all members.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;

use alfirk_roce::collective::{
    blocks, Algorithm, Collective as Kind, DatagramSpec, Digest, Leg, Racks, Schedule, SpecError,
    Survivors, Transfer, TransferError, TransferEvent, TransferOp, TransferSpec,
};
use alfirk_test_budget::Cost;
use proptest::prelude::*;

use crate::net::{ip, segment, Collective, Faults, Net, Segment};

fn data(size: usize) -> Arc<[u8]> {
    (0..size).map(|i| (i * 7 + i / 251) as u8).collect()
}

fn overlays() -> impl Iterator<Item = Algorithm> {
    overlays_for(Kind::Broadcast)
}

fn overlays_for(kind: Kind) -> impl Iterator<Item = Algorithm> {
    kind.algorithms().filter(|algorithm| algorithm.is_overlay())
}

/// The specification of a member, in racks of three.
fn spec(algorithm: Algorithm, members: usize, rank: u32, size: usize) -> TransferSpec {
    TransferSpec {
        racks: (0..members as u32).map(|rank| rank / 3).collect(),
        ..TransferSpec::new(algorithm, rank, (0..members).map(ip).collect(), size as u64)
    }
}

/// Runs a collective to its end, and asserts that all members have the data.
fn delivers(net: &mut Net<Segment>, spec: impl Fn(u32) -> TransferSpec) {
    delivers_by(net, spec, drop);
}

/// As [`delivers`]; `keep` gets the members at the end.
fn delivers_by(
    net: &mut Net<Segment>,
    spec: impl Fn(u32) -> TransferSpec,
    keep: impl FnOnce(Vec<Transfer>),
) {
    let root = spec(0);
    let (algorithm, members) = (root.algorithm, root.members.len());
    let data = data(root.size as usize);
    let mut collective = Collective::prepare(net, spec, |_, _| {});
    collective.run_until(net, 10_000_000_000, Collective::ready);
    let now = net.now;
    for rank in 1..members {
        let transfer = &mut collective.transfers[rank];
        transfer.proceed(&mut net.hosts[rank], now).unwrap();
    }
    collective.transfers[0]
        .start(&mut net.hosts[0], now, data.clone())
        .unwrap();
    collective.run_until(net, 100_000_000_000, Collective::finished);
    let done = collective.events.iter().filter(
        |(_, e)| matches!(e, TransferEvent::Done { sha256, .. } if *sha256 == Digest::of(&data)),
    );
    assert_eq!(
        done.count(),
        members,
        "{algorithm} of {members}: {:?}",
        collective.events
    );
    for (transfer, host) in collective.transfers.iter().zip(&net.hosts) {
        assert_eq!(transfer.data(host), &data[..], "{algorithm}");
    }
    keep(collective.transfers);
}

#[test]
fn overlay_algorithms_deliver_to_all_members() {
    for algorithm in overlays() {
        for (members, size, slices, op) in [
            (2, 0, 1, TransferOp::Send),
            (3, 1, 4, TransferOp::Send),
            (4, 100_000, 5, TransferOp::Send),
            (7, 50_001, 3, TransferOp::Write),
            (5, 50_001, 3, TransferOp::WriteImm),
            (9, 30_000, 20, TransferOp::Send),
        ] {
            let mut net = segment(members, 1500, 1);
            delivers(&mut net, |rank| TransferSpec {
                slices,
                op,
                ..spec(algorithm, members, rank, size)
            });
            for host in &net.hosts {
                assert_eq!(host.stats().drops.total(), 0);
            }
        }
    }
}

#[test]
fn members_can_store_and_forward() {
    for algorithm in overlays().filter(|algorithm| algorithm.is_one_tree()) {
        let mut net = segment(6, 1500, 1);
        delivers(&mut net, |rank| TransferSpec {
            slices: 5,
            store_and_forward: true,
            ..spec(algorithm, 6, rank, 50_000)
        });
    }
}

#[test]
fn a_sender_that_waits_for_ready_receivers_gets_no_rnr_nak() {
    for algorithm in overlays() {
        let mut net = segment(6, 1500, 1);
        delivers(&mut net, |rank| TransferSpec {
            slices: 12,
            ready: Some(1),
            ..spec(algorithm, 6, rank, 50_000)
        });
        for host in &net.hosts {
            let rnr: u64 = host.qps().map(|qp| qp.stats().rnr_naks_sent).sum();
            assert_eq!(rnr, 0, "{algorithm}");
            let again: u64 = host.qps().map(|qp| qp.stats().retransmissions).sum();
            assert_eq!(again, 0, "{algorithm}");
        }
    }
}

/// A specification as in RDMC: receivers know only the block size.
fn announced(
    algorithm: Algorithm,
    members: usize,
    rank: u32,
    size: usize,
    block: u32,
) -> TransferSpec {
    let known = rank == 0;
    TransferSpec {
        size: if known { size as u64 } else { 0 },
        slices: if known { blocks(size as u64, block) } else { 0 },
        block: Some(block),
        announce: true,
        ready: Some(2),
        ..spec(algorithm, members, rank, size)
    }
}

#[test]
fn receivers_take_the_size_from_the_first_block() {
    for algorithm in overlays() {
        for members in [2, 3, 6, 8, 11] {
            for size in [0, 1, 1_000, 1_001, 3_500, 40_000] {
                let mut net = segment(members, 1500, 1);
                delivers(&mut net, |rank| {
                    announced(algorithm, members, rank, size, 1_000)
                });
            }
        }
    }
}

/// The specification of a member that sends datagrams.
fn datagrams(members: usize, rank: u32, size: usize, slices: u32) -> TransferSpec {
    TransferSpec {
        slices,
        datagrams: Some(DatagramSpec {
            group: Ipv4Addr::new(239, 1, 2, 3),
            qkey: 0x1234_5678,
        }),
        ..spec(Algorithm::BinomialAck, members, rank, size)
    }
}

#[test]
fn datagrams_reach_all_members_once_without_repairs_if_none_is_lost() {
    for (members, size, slices) in [(2, 0, 1), (3, 1, 4), (7, 100_000, 5), (16, 700_000, 40)] {
        let mut net = segment(members, 1500, 1);
        let mut transfers = Vec::new();
        delivers_by(
            &mut net,
            |rank| datagrams(members, rank, size, slices),
            |run| transfers = run,
        );
        for transfer in &transfers {
            let stats = transfer.datagram_stats().unwrap();
            assert_eq!(stats.retransmissions, 0, "{members} members");
        }
        let root = transfers[0].datagram_stats().unwrap();
        assert_eq!(root.request_bytes_sent, size as u64);
        // From each child of the root: as many as the tree has levels.
        let children = usize::BITS - (members - 1).leading_zeros();
        assert_eq!(root.acks_received, u64::from(slices * children));
    }
}

#[test]
fn settings_that_datagrams_do_not_support_are_rejected() {
    let good = datagrams(3, 0, 3 << 20, 3);
    let host = ip(0);
    assert_eq!(good.check(host), Ok(()));
    let without = TransferSpec {
        datagrams: None,
        ..good.clone()
    };
    let no_multicast = TransferSpec {
        datagrams: good.datagrams.map(|spec| DatagramSpec {
            group: ip(7),
            ..spec
        }),
        ..good.clone()
    };
    for spec in [without, no_multicast] {
        let refused = SpecError::MissingDatagramGroup(Algorithm::BinomialAck);
        assert_eq!(spec.check(host), Err(refused));
    }
    let write = TransferSpec {
        op: TransferOp::Write,
        ..good.clone()
    };
    let error = write.check(host).unwrap_err().to_string();
    assert_eq!(
        error,
        "algorithm binomial-ack sends datagrams, which support no WRITE"
    );
    let long = TransferSpec { slices: 2, ..good };
    let error = long.check(host).unwrap_err().to_string();
    assert!(error.ends_with("use 3 slices or more"), "{error}");
}

/// The slices that a member holds.
fn held(transfer: &Transfer) -> BTreeSet<u32> {
    let beyond = transfer.held_beyond();
    (0..transfer.held()).chain(beyond).collect()
}

#[test]
fn survivors_continue_with_the_unstable_slices() {
    let (members, size, block) = (7, 400_000, 4_096);
    let algorithm = Algorithm::Rdmc(Schedule::BinomialPipeline);
    let count = blocks(size as u64, block);
    for dead in [1, 4, 6] {
        for after in [0, 40_000, 100_000] {
            let data = data(size);
            let mut net = segment(members, 1500, 1);
            let of = |rank| announced(algorithm, members, rank, size, block);
            let mut run = Collective::prepare(&mut net, of, |_, _| {});
            run.run_until(&mut net, 1_000_000_000, Collective::ready);
            let now = net.now;
            for rank in 1..members {
                run.transfers[rank]
                    .proceed(&mut net.hosts[rank], now)
                    .unwrap();
            }
            run.transfers[0]
                .start(&mut net.hosts[0], now, data.clone())
                .unwrap();
            run.run_until_time(&mut net, now + after);
            // The members notice that a connection is closed.
            for (transfer, host) in run.transfers.iter_mut().zip(&mut net.hosts) {
                transfer.leave(host);
            }
            run.run_until_time(&mut net, now + after + 1_000);
            let alive: Vec<usize> = (0..members).filter(|rank| *rank != dead).collect();
            let stable = alive[1..].iter().map(|rank| held(&run.transfers[*rank]));
            let stable = stable.reduce(|all, has| &all & &has).unwrap();
            let leg = Leg {
                algorithm,
                group: None,
                held: Vec::new(),
                limit: None,
                survivors: Some(Survivors {
                    members: alive.iter().map(|rank| ip(*rank)).collect(),
                    racks: Racks::default(),
                    size: size as u64,
                    lacking: (0..count).filter(|slice| !stable.contains(slice)).collect(),
                }),
            };
            let refused = run.transfers[dead].resume(&mut net.hosts[dead], leg.clone());
            assert!(matches!(refused, Err(TransferError::BadSurvivors { .. })));
            let mut ends = Vec::new();
            for &rank in &alive {
                let resumed = run.transfers[rank].resume(&mut net.hosts[rank], leg.clone());
                ends.extend(resumed.unwrap());
            }
            for &rank in &alive {
                let now = net.now;
                run.transfers[rank]
                    .connect(&mut net.hosts[rank], now, &ends)
                    .unwrap();
            }
            let ready = |run: &Collective| alive.iter().all(|rank| run.transfers[*rank].is_ready());
            run.run_until(&mut net, 1_000_000_000, ready);
            for &rank in alive[1..].iter().chain(&alive[..1]) {
                let now = net.now;
                run.transfers[rank]
                    .proceed(&mut net.hosts[rank], now)
                    .unwrap();
            }
            let finished =
                |run: &Collective| alive.iter().all(|rank| run.transfers[*rank].is_finished());
            run.run_until(&mut net, 1_000_000_000, finished);
            for &rank in &alive {
                assert_eq!(end(&run, rank), Some(Digest::of(&data)), "{dead} {after}");
            }
        }
    }
}

/// The specification of a collective other than a broadcast.
fn collective(
    kind: Kind,
    algorithm: Algorithm,
    members: usize,
    rank: u32,
    size: usize,
) -> TransferSpec {
    TransferSpec {
        collective: kind,
        slices: algorithm.slices_for(kind, size as u64, members as u32),
        ..spec(algorithm, members, rank, size)
    }
}

/// The final digest of a member.
fn end(collective: &Collective, rank: usize) -> Option<Digest> {
    collective.events.iter().find_map(|(i, event)| match event {
        TransferEvent::Done { sha256, .. } if *i == rank => Some(*sha256),
        _ => None,
    })
}

fn part(data: &Arc<[u8]>, (offset, len): (u64, u64)) -> &[u8] {
    &data[offset as usize..(offset + len) as usize]
}

#[test]
fn all_members_get_their_piece_of_a_scatter() {
    for algorithm in overlays_for(Kind::Scatter) {
        for members in [2, 3, 8, 13] {
            let data = data(100_001);
            let of = |rank| collective(Kind::Scatter, algorithm, members, rank, data.len());
            let mut net = segment(members, 1500, 1);
            let mut run = Collective::prepare(&mut net, of, |_, _| {});
            run.run_until(&mut net, 1_000_000_000, Collective::ready);
            let now = net.now;
            run.transfers[0]
                .start(&mut net.hosts[0], now, data.clone())
                .unwrap();
            run.run_until(&mut net, 1_000_000_000, Collective::finished);
            for rank in 0..members {
                let piece = part(&data, of(rank as u32).final_bytes());
                assert!(rank > 0 || piece.len() == data.len());
                assert_eq!(end(&run, rank), Some(Digest::of(piece)), "{algorithm}");
            }
        }
    }
}

#[test]
fn all_members_get_every_piece_of_an_allgather() {
    for algorithm in overlays_for(Kind::Allgather) {
        for members in [2, 3, 8, 13] {
            let data = data(100_001);
            let of = |rank| collective(Kind::Allgather, algorithm, members, rank, data.len());
            let mut net = segment(members, 1500, 1);
            net.faults.loss = 5;
            let mut run = Collective::prepare(&mut net, of, |_, _| {});
            run.run_until(&mut net, 1_000_000_000, Collective::ready);
            let now = net.now;
            for rank in 0..members {
                let own = part(&data, of(rank as u32).own_bytes());
                let host = &mut net.hosts[rank];
                run.transfers[rank].start(host, now, own.into()).unwrap();
            }
            run.run_until(&mut net, 100_000_000_000, Collective::finished);
            for rank in 0..members {
                assert_eq!(end(&run, rank), Some(Digest::of(&data)), "{algorithm}");
            }
        }
    }
}

#[test]
fn no_member_leaves_a_barrier_before_all_have_entered() {
    for algorithm in overlays_for(Kind::Barrier) {
        for members in [2, 3, 8, 13] {
            for late in [0, 1, members - 1] {
                let of = |rank| collective(Kind::Barrier, algorithm, members, rank, 0);
                let mut net = segment(members, 1500, 1);
                let mut run = Collective::prepare(&mut net, of, |_, _| {});
                run.run_until(&mut net, 1_000_000_000, Collective::ready);
                let come = |run: &mut Collective, net: &mut Net<Segment>, rank: usize| {
                    let (host, now) = (&mut net.hosts[rank], net.now);
                    let nothing = Arc::from(&[][..]);
                    run.transfers[rank].start(host, now, nothing).unwrap();
                };
                for rank in (0..members).filter(|rank| *rank != late) {
                    come(&mut run, &mut net, rank);
                }
                let early = net.now + 5_000_000;
                run.run_until_time(&mut net, early);
                let done =
                    |run: &Collective| (0..members).filter(|r| end(run, *r).is_some()).count();
                assert_eq!(done(&run), 0, "{algorithm} of {members} without {late}");
                come(&mut run, &mut net, late);
                run.run_until(&mut net, 1_000_000_000, Collective::finished);
                assert_eq!(done(&run), members);
            }
        }
    }
}

proptest! {
    #![proptest_config(Cost::Packets.cases())]

    #[test]
    fn overlays_deliver_on_a_faulty_network(
        which in 0..overlays().count(),
        fan_out in 1u32..9,
        members in 2usize..20,
        size in 0usize..60_000,
        slices in 1u32..12,
        ready in prop_oneof![Just(None), (1u32..4).prop_map(Some)],
        announces in any::<bool>(),
        loss in 0u32..10,
        duplication in 0u32..10,
        reordering in 0u32..10,
        seed in 0u64..1 << 32,
    ) {
        let algorithm = match overlays().nth(which).unwrap() {
            Algorithm::Kary(_) => Algorithm::Kary(fan_out),
            other => other,
        };
        let mut net = segment(members, 1500, seed);
        net.faults = Faults { loss, duplication, reordering };
        delivers(&mut net, |rank| match announces {
            true => announced(algorithm, members, rank, size, 4_096),
            false => TransferSpec { slices, ready, ..spec(algorithm, members, rank, size) },
        });
    }

    #[test]
    fn datagrams_are_repaired_on_a_faulty_network(
        members in 2usize..20,
        size in 0usize..60_000,
        slices in 1u32..12,
        loss in 0u32..20,
        duplication in 0u32..10,
        reordering in 0u32..10,
        seed in 0u64..1 << 32,
    ) {
        let mut net = segment(members, 1500, seed);
        net.faults = Faults { loss, duplication, reordering };
        delivers(&mut net, |rank| datagrams(members, rank, size, slices));
    }
}

#[test]
fn source_keeps_its_queue_depth_of_requests_in_flight() {
    for depth in [1, 4] {
        let mut net = segment(4, 1500, 1);
        let spec = |rank| TransferSpec {
            slices: 64,
            op: TransferOp::WriteImm,
            depth: Some(depth),
            ..spec(Algorithm::Unicast, 4, rank, 64 * 1024)
        };
        delivers_by(&mut net, spec, |transfers| {
            assert!(transfers[1..].iter().all(|t| t.request_times().is_none()));
            let times = transfers[0].request_times().unwrap();
            assert_eq!(times.count, 64);
            // Average number of requests in flight, by Little's law.
            let under_way = (times.mean_ns * times.count) as f64 / times.span_ns as f64;
            let depth = f64::from(depth);
            assert!(
                (0.9 * depth..=depth).contains(&under_way),
                "{under_way} of {depth}"
            );
        });
    }
}
