//! Every algorithm, with every operation, delivers to everybody.

use std::sync::Arc;

use alfirk_roce::collective::{blocks, Algorithm, Digest, TransferEvent, TransferOp, TransferSpec};
use proptest::prelude::*;

use crate::net::{ip, segment, Collective, Faults, Net, Segment};

fn data(size: usize) -> Arc<[u8]> {
    (0..size).map(|i| (i * 7 + i / 251) as u8).collect()
}

fn overlays() -> impl Iterator<Item = Algorithm> {
    let all = Algorithm::ALL.into_iter();
    all.filter(|algorithm| !algorithm.needs_group())
}

/// A spec of some members in racks of three.
fn spec(algorithm: Algorithm, members: usize, rank: u32, size: usize) -> TransferSpec {
    TransferSpec {
        racks: (0..members as u32).map(|rank| rank / 3).collect(),
        ..TransferSpec::new(algorithm, rank, (0..members).map(ip).collect(), size as u64)
    }
}

/// Runs a collective to its end, and expects that everybody has the data.
fn delivers(net: &mut Net<Segment>, spec: impl Fn(u32) -> TransferSpec) {
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
}

#[test]
fn overlay_algorithms_deliver_to_everybody() {
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
fn members_may_wait_until_they_hold_everything() {
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
fn a_sender_that_waits_for_ready_receivers_hears_no_rnr_nak() {
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

/// A spec as RDMC has it: receivers know the size of a block, and nothing of the message.
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
fn receivers_learn_the_size_from_the_first_block() {
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn overlays_deliver_whatever_the_network_does(
        which in 0..Algorithm::ALL.len() - 1,
        fan_out in 1u32..9,
        members in 2usize..20,
        size in 0usize..60_000,
        slices in 1u32..12,
        ready in prop_oneof![Just(None), (1u32..4).prop_map(Some)],
        told in any::<bool>(),
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
        delivers(&mut net, |rank| match told {
            true => announced(algorithm, members, rank, size, 4_096),
            false => TransferSpec { slices, ready, ..spec(algorithm, members, rank, size) },
        });
    }
}
