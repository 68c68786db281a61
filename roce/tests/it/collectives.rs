//! Every algorithm, with every operation, delivers to everybody.

use std::sync::Arc;

use alfirk_roce::collective::{Algorithm, Digest, TransferEvent, TransferOp, TransferSpec};

use crate::net::{ip, segment, Collective};

fn spec(
    algorithm: Algorithm,
    members: usize,
    rank: u32,
    size: u64,
    slices: u32,
    op: TransferOp,
) -> TransferSpec {
    TransferSpec {
        algorithm,
        rank,
        members: (0..members).map(ip).collect(),
        size,
        slices,
        op,
        write: Default::default(),
        sources: Vec::new(),
        receives: None,
        rc: None,
        group: None,
        expected_sha256: None,
    }
}

fn data(size: usize) -> Arc<[u8]> {
    (0..size).map(|i| (i * 7 + i / 251) as u8).collect()
}

#[test]
fn overlay_algorithms_deliver_to_everybody() {
    for algorithm in [Algorithm::Chain, Algorithm::Binomial, Algorithm::Unicast] {
        for (members, size, slices, op) in [
            (2, 0, 1, TransferOp::Send),
            (3, 1, 4, TransferOp::Send),
            (4, 100_000, 5, TransferOp::Send),
            (7, 50_001, 3, TransferOp::Write),
            (5, 50_001, 3, TransferOp::WriteImm),
        ] {
            let data = data(size);
            let mut net = segment(members, 1500, 1);
            let spec = |rank| spec(algorithm, members, rank, size as u64, slices, op);
            let mut collective = Collective::prepare(&mut net, spec, |_, _| {});
            collective.run_until(&mut net, 1_000_000_000, Collective::ready);
            let now = net.now;
            collective.transfers[0]
                .start(&mut net.hosts[0], now, data.clone())
                .unwrap();
            collective.run_until(&mut net, 1_000_000_000, Collective::finished);
            let done: Vec<_> = collective
                .events
                .iter()
                .filter(|(_, e)| matches!(e, TransferEvent::Done { sha256, .. } if *sha256 == Digest::of(&data)))
                .collect();
            assert_eq!(
                done.len(),
                members,
                "{algorithm} {op:?}: {:?}",
                collective.events
            );
            for (transfer, host) in collective.transfers.iter().zip(&net.hosts) {
                assert_eq!(transfer.data(host), &data[..]);
                assert_eq!(host.stats().drops.total(), 0);
            }
        }
    }
}
