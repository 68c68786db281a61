//! Frames with a separate tail: the output equals that for contiguous frames.

use std::sync::{Arc, LazyLock};

use alfirk_bmv2::{Effects, LoadedProgram, QueueState, Replica, Switch};
use alfirk_packet_io::frame::{SharedBytes, SplitFrame, Tail};
use alfirk_test_budget::Cost;
use proptest::prelude::*;

use crate::p4::{run, P4};

/// A program whose operations on a packet are selected by bits of its first byte.
static PROGRAM: LazyLock<Arc<LoadedProgram>> = LazyLock::new(|| {
    P4 {
        fields: "bit<8> kind; bit<16> n; bit<16> sum;",
        types: "header more_t { bit<4> a; bit<20> b; }",
        headers: "more_t more;",
        states: "
    state start {
        pkt.extract(hdr.h);
        transition select(hdr.h.kind[7:7], pkt.lookahead<bit<12>>()) {
            (1, _): parse_more;
            (_, 0x100 &&& 0xf00): parse_more;
            default: accept;
        }
    }
    state parse_more { pkt.extract(hdr.more); transition accept; }",
        verify: "verify_checksum_with_payload(hdr.h.kind[0:0] == 1, { hdr.h.n }, hdr.h.sum, HashAlgorithm.csum16);",
        ingress: "
            sm.egress_spec = (bit<9>)sm.checksum_error + 1;
            if (hdr.h.kind[1:1] == 1) { sm.mcast_grp = 1; }",
        egress: "
            if (hdr.h.kind[2:2] == 1) { truncate(9); }
            if (hdr.h.kind[3:3] == 1) { hdr.more.setInvalid(); }
            if (hdr.h.kind[4:4] == 1) {
                hdr.h.kind = hdr.h.kind ^ 0x10;
                recirculate_preserving_field_list(0);
            }",
        update: "update_checksum_with_payload(hdr.h.kind[5:5] == 1, { hdr.h.n }, hdr.h.sum, HashAlgorithm.csum16);",
        deparser: Some("pkt.emit(hdr.h); pkt.emit(hdr.more);"),
        ..P4::default()
    }
    .program()
});

fn switch() -> Switch {
    let mut switch = run(Arc::clone(&PROGRAM));
    let replicas = [1, 2, 3].map(|port| Replica { port, rid: 0 });
    switch.pre_mut().unwrap().set_group(1, &replicas).unwrap();
    switch
}

/// Returns all output frames, and whether any of them shares the tail.
fn pass(switch: &mut Switch, frame: SplitFrame) -> (Vec<(u32, Vec<u8>)>, bool) {
    let tail = frame.tail().cloned();
    let mut fx = Effects::default();
    switch.ingress_owned(9, frame, 0, &mut fx);
    while !fx.enqueued.is_empty() {
        for packet in std::mem::take(&mut fx.enqueued) {
            switch.egress(packet, 0, QueueState::default(), &mut fx);
        }
    }
    let is_same = |out: &SplitFrame| match (out.tail(), &tail) {
        (Some(out), Some(tail)) => Arc::ptr_eq(out, tail),
        _ => false,
    };
    let shares = fx.output.iter().any(|out| is_same(&out.frame));
    let left = fx.output.into_iter();
    let left = left.map(|out| (out.port, out.frame.into_bytes()));
    (left.collect(), shares)
}

proptest! {
    #![proptest_config(Cost::Packets.cases())]

    #[test]
    fn output_does_not_depend_on_the_position_of_the_tail(
        kind: u8,
        rest in proptest::collection::vec(any::<u8>(), 0..30),
        end in 0..=Tail::MAX_END,
    ) {
        let bytes = [&[kind][..], &rest].concat();
        let mut switch = switch();
        let expected = switch.process(9, &bytes, 0);
        for at in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(at);
            let (body, end) = tail.split_at(tail.len() - end.min(tail.len()));
            let tail = Tail::new(SharedBytes::copy(body)).with_end(end);
            let frame = SplitFrame::new(head.to_vec(), Some(Arc::new(tail)));
            let (left, shares) = pass(&mut switch, frame);
            prop_assert_eq!(&left, &expected, "the tail begins at {}", at);
            // After all headers, unless the packet is truncated, or parsed again with fewer headers.
            let stays = at >= 8 && kind & 0b1_0100 == 0;
            prop_assert!(shares || !stays || left.is_empty());
        }
    }
}
