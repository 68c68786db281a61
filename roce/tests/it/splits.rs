//! Frames in two parts have the same bytes as contiguous frames, and hosts handle them in the same way.

use std::sync::Arc;

use alfirk_packet_io::frame::{SharedBytes, SplitFrame, Tail};
use alfirk_roce::host::Packet;
use alfirk_roce::rc::{PathMtu, RcConfig, SendOperation};
use alfirk_roce::wire::Psn;
use alfirk_test_budget::Cost;
use proptest::prelude::*;

use crate::reliability::Pair;

const LEN: usize = 3_000;

/// Two hosts, the first of which is about to send a message of one packet or several.
fn about_to_send(len: usize, mtu: PathMtu, immediate: Option<u32>) -> Pair {
    let mut pair = Pair::new(RcConfig::new(mtu), Psn::new(7), 3);
    let key = pair.net.hosts[1].register_memory(LEN as u64, false);
    pair.post_recv(1, 0, key, 0, LEN as u64);
    let message: Vec<u8> = (0..len).map(|at| (at / 7) as u8).collect();
    pair.post_send(0, 0, SendOperation::Send { immediate }, &message);
    pair
}

/// The same bytes, split at `at`, with `end` bytes after the body of the tail.
fn split_at(bytes: &[u8], at: usize, end: usize) -> SplitFrame {
    let (head, tail) = bytes.split_at(at);
    let (body, end) = tail.split_at(tail.len() - end);
    let tail = Tail::new(SharedBytes::copy(body)).with_end(end);
    SplitFrame::new(head.to_vec(), Some(Arc::new(tail)))
}

proptest! {
    #![proptest_config(Cost::Packets.cases())]

    #[test]
    fn hosts_handle_split_frames_like_contiguous_ones(
        len in 0..=LEN,
        mtu in prop_oneof![Just(PathMtu::B256), Just(PathMtu::B1024)],
        immediate: Option<u32>,
        // Positions of flipped bits, at the front of a frame more often than later.
        faults in proptest::collection::vec(proptest::option::of((prop_oneof![0..80usize, 0..LEN], 0..8)), 12),
        cuts in proptest::collection::vec(proptest::option::weighted(0.3, (0..80usize, 0..=Tail::MAX_END)), 12),
    ) {
        let [mut split, mut whole] = [(); 2].map(|()| about_to_send(len, mtu, immediate));
        for (fault, cut) in faults.into_iter().zip(cuts) {
            let now = split.net.now;
            let sent = split.net.hosts[0].poll_split(now);
            let expected = whole.net.hosts[0].poll_transmit(now);
            prop_assert_eq!(sent.clone().map(SplitFrame::into_bytes), expected.clone());
            let (Some(mut sent), Some(mut bytes)) = (sent, expected) else {
                break;
            };
            if let Some((at, bit)) = fault {
                let at = at % bytes.len();
                bytes[at] ^= 1u8 << bit;
                let (head, end) = (sent.head().len(), sent.tail().map_or(0, |tail| tail.end().len()));
                sent = split_at(&bytes, head, end);
            }
            if let Some((at, end)) = cut {
                let at = at.min(bytes.len());
                sent = split_at(&bytes, at, end.min(bytes.len() - at));
            }
            split.net.hosts[1].handle_packet(now, &Packet::Bytes(sent));
            whole.net.hosts[1].handle_frame(now, &bytes);
            let [a, b] = [&mut split, &mut whole].map(|pair| &mut pair.net.hosts[1]);
            prop_assert_eq!(a.stats(), b.stats());
            prop_assert_eq!(a.poll_transmit(now), b.poll_transmit(now));
            prop_assert_eq!(a.poll_event(), b.poll_event());
        }
    }

    #[test]
    fn a_long_payload_is_not_copied(len in 256usize..1024) {
        let mut pair = about_to_send(len, PathMtu::B1024, None);
        let frame = pair.net.hosts[0].poll_split(0).expect("there is one");
        let tail = frame.tail().expect("a long payload is in the tail");
        prop_assert_eq!(tail.body().len(), len);
        pair.net.hosts[1].handle_packet(0, &Packet::Bytes(frame));
        prop_assert_eq!(pair.net.hosts[1].stats().drops.icrc, 0);
        prop_assert!(pair.net.hosts[1].poll_event().is_some(), "the message is there");
    }
}
