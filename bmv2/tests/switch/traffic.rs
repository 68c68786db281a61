//! What becomes of packets at the end of ingress and egress.

use crate::builder::*;
use alfirk_bmv2::*;
use serde_json::{json, Value};

/// A header of one byte; metadata `kept` (in field list 1) and `lost`.
fn traffic(ingress: &[Value], egress: &[Value]) -> Builder {
    let mut b = Builder::new();
    b.scalar("kept", 8).scalar("lost", 8);
    b.header("h_t", &["h", "trail"], json!([["a", 8, false]]));
    b.extracts(&["h"]).emits(&["h", "trail"]);
    b.add(
        "field_lists",
        json!({"id": 1, "name": "field_list1", "elements": [scalar("kept")]}),
    );
    b.add(
        "field_lists",
        json!({"id": 2, "name": "empty", "elements": []}),
    );
    b.runs("ingress", json!(ingress));
    b.runs("egress", json!(egress));
    b
}

/// Appends a byte in egress.
fn trail(value: Value) -> [Value; 2] {
    [
        call("add_header", json!([named("header", "trail")])),
        assign(field("trail", "a"), value),
    ]
}

fn mark_to_drop() -> Value {
    call(
        "mark_to_drop",
        json!([named("header", "standard_metadata")]),
    )
}

fn replica(port: u32, rid: u16) -> Replica {
    Replica { port, rid }
}

fn session(replicas: &[Replica]) -> CloneSession {
    CloneSession {
        replicas: replicas.to_vec(),
        ..CloneSession::default()
    }
}

/// Ports with so many queues.
fn queues(priority_queues: u32) -> SwitchOptions {
    SwitchOptions {
        priority_queues,
        ..SwitchOptions::default()
    }
}

fn effects(switch: &mut Switch, frame: &[u8]) -> Effects {
    let mut fx = Effects::default();
    switch.process_into(3, frame, 5_000, &mut fx);
    fx
}

#[test]
fn dropping_beats_unicast_in_both_pipelines() {
    let fx = effects(
        &mut traffic(&[send_to(1), mark_to_drop()], &[]).switch(),
        &[7],
    );
    assert_eq!(
        (fx.output.len(), fx.dropped),
        (0, vec![DropReason::Ingress])
    );
    let fx = effects(
        &mut traffic(&[send_to(1)], &[mark_to_drop()]).switch(),
        &[7],
    );
    assert_eq!((fx.output.len(), fx.dropped), (0, vec![DropReason::Egress]));
    // A later choice of a port takes the drop back.
    let fx = effects(
        &mut traffic(&[mark_to_drop(), send_to(1)], &[]).switch(),
        &[7],
    );
    assert_eq!(
        fx.output,
        [Output {
            port: 1,
            frame: vec![7]
        }]
    );
    // egress_spec does not move a packet in egress.
    let fx = effects(&mut traffic(&[send_to(1)], &[send_to(9)]).switch(), &[7]);
    assert_eq!(fx.output[0].port, 1);
}

#[test]
fn what_drops_a_copy_of_standard_metadata_drops_the_copy_alone() {
    let drop_copy = call("mark_to_drop", json!([named("header", "copy")]));
    let build = |ingress: &[Value]| {
        let mut b = traffic(ingress, &[]);
        b.add(
            "headers",
            json!({"name": "copy", "header_type": "standard_metadata", "metadata": true}),
        );
        b
    };
    let group = assign(field("copy", "mcast_grp"), num(9));
    let mut switch = build(&[send_to(1), group, drop_copy.clone()]).switch();
    assert_eq!(switch.process(0, &[7], 0), [(1, vec![7])]);

    // What compilers write for an inout parameter: the copy comes back.
    let back = |name| assign(standard(name), field("copy", name));
    let ingress = [
        send_to(1),
        assign(standard("mcast_grp"), num(9)),
        drop_copy,
        back("egress_spec"),
        back("mcast_grp"),
    ];
    for drop_port in [511, 100] {
        let mut switch = build(&ingress).switch_with(SwitchOptions {
            drop_port,
            ..SwitchOptions::default()
        });
        assert_eq!(effects(&mut switch, &[7]).dropped, [DropReason::Ingress]);
    }
}

#[test]
fn a_header_without_egress_spec_cannot_be_dropped() {
    let b = traffic(&[call("mark_to_drop", json!([named("header", "h")]))], &[]);
    let error = LoadedProgram::from_json(&b.text()).unwrap_err().to_string();
    assert!(error.contains("h has no field egress_spec"), "{error}");
}

#[test]
fn a_priority_beyond_the_queues_drops() {
    let priority = assign(standard("priority"), num(3));
    let b = traffic(&[send_to(1), priority], &[]);
    for (n, dropped) in [(1, true), (3, true), (4, false)] {
        let fx = effects(&mut b.switch_with(queues(n)), &[7]);
        assert_eq!(fx.dropped == [DropReason::Priority], dropped, "{n} queues");
        assert_eq!(fx.output.is_empty(), dropped, "{n} queues");
    }
}

#[test]
fn room_for_groups_and_nodes_is_an_option() {
    let mut switch = traffic(&[], &[]).switch_with(SwitchOptions {
        pre_limits: PreLimits {
            groups: 2,
            nodes: 3,
        },
        ..SwitchOptions::default()
    });
    let pre = switch.pre_mut().unwrap();
    let nodes = |n: u16| (0..n).map(|rid| replica(1, rid)).collect::<Vec<_>>();
    pre.set_group(1, &nodes(2)).unwrap();
    let full = |what, limit| Err(PreError::Full { what, limit });
    assert_eq!(pre.set_group(2, &nodes(2)), full("multicast nodes", 3));
    pre.set_group(2, &nodes(1)).unwrap();
    assert_eq!(pre.set_group(3, &[]), full("multicast groups", 2));
    // Groups that are there may change within the room.
    pre.set_group(1, &nodes(1)).unwrap();
    assert!(pre.create_node(7, &[1], &[]).is_ok());
    assert!(pre.create_node(8, &[1], &[]).is_err());
}

#[test]
fn the_drop_port_is_an_option() {
    let b = traffic(&[send_to(511)], &[]);
    let mut switch = Switch::new(SwitchOptions {
        drop_port: 100,
        ..SwitchOptions::default()
    });
    switch.load(std::sync::Arc::new(
        LoadedProgram::from_json(&b.text()).unwrap(),
    ));
    assert_eq!(switch.process(0, &[7], 0)[0].0, 511);
    let b = traffic(&[mark_to_drop()], &[]);
    switch.load(std::sync::Arc::new(
        LoadedProgram::from_json(&b.text()).unwrap(),
    ));
    assert_eq!(switch.process(0, &[7], 0), []);
}

#[test]
fn multicast_beats_drop_and_numbers_its_copies() {
    let egress = [
        trail(standard("egress_rid")).as_slice(),
        &trail(standard("egress_rid")),
    ]
    .concat();
    let mcast = assign(standard("mcast_grp"), field("h", "a"));
    let mut switch = traffic(&[mark_to_drop(), mcast.clone()], &egress).switch();
    let group = [replica(4, 11), replica(2, 11), replica(3, 12)];
    switch.pre_mut().unwrap().set_group(7, &group).unwrap();
    assert_eq!(
        switch.process(3, &[7], 0),
        [(2, vec![7, 11]), (4, vec![7, 11]), (3, vec![7, 12])]
    );
    assert_eq!(effects(&mut switch, &[8]).dropped, [DropReason::NoGroup]);
    // mark_to_drop after the choice of a group takes it back.
    let mut switch = traffic(&[mcast, mark_to_drop()], &[]).switch();
    switch.pre_mut().unwrap().set_group(7, &group).unwrap();
    assert_eq!(switch.process(3, &[7], 0), []);
}

#[test]
fn copies_do_not_share_their_headers() {
    let mut switch = traffic(
        &[assign(standard("mcast_grp"), num(1))],
        &[assign(
            field("h", "a"),
            operand(expr("+", field("h", "a"), standard("egress_port"))),
        )],
    )
    .switch();
    switch
        .pre_mut()
        .unwrap()
        .set_group(1, &[replica(1, 0), replica(2, 0), replica(3, 0)])
        .unwrap();
    assert_eq!(
        switch.process(0, &[10, 5], 0),
        [(1, vec![11, 5]), (2, vec![12, 5]), (3, vec![13, 5])]
    );
}

#[test]
fn instance_types_tell_where_a_packet_comes_from() {
    let of = |ingress: &[Value], setup: fn(&mut Switch)| {
        let mut switch = traffic(ingress, &trail(standard("instance_type"))).switch();
        setup(&mut switch);
        switch
            .process(0, &[7], 0)
            .into_iter()
            .map(|(port, frame)| (port, frame[1]))
            .collect::<Vec<_>>()
    };
    assert_eq!(of(&[send_to(1)], |_| {}), [(1, 0)]);
    let group = |switch: &mut Switch| {
        switch
            .pre_mut()
            .unwrap()
            .set_group(1, &[replica(4, 0)])
            .unwrap()
    };
    assert_eq!(
        of(&[assign(standard("mcast_grp"), num(1))], group),
        [(4, 5)]
    );
    let clone = call("clone_ingress_pkt_to_egress", json!([num(5), num(2)]));
    let mirror = |switch: &mut Switch| {
        switch
            .pre_mut()
            .unwrap()
            .set_session(5, session(&[replica(9, 0)]))
            .unwrap()
    };
    assert_eq!(of(&[send_to(1), clone], mirror), [(9, 1), (1, 0)]);
}

#[test]
fn ingress_clones_start_from_the_packet_as_it_came() {
    let mut switch = traffic(
        &[
            send_to(1),
            assign(scalar("kept"), num(0x55)),
            assign(scalar("lost"), num(0x66)),
            assign(field("h", "a"), num(0xee)),
            call("clone_ingress_pkt_to_egress", json!([num(4), num(2)])),
            // Only the last call counts.
            call("clone_ingress_pkt_to_egress", json!([num(5), num(1)])),
        ],
        &trail(operand(expr("+", scalar("kept"), scalar("lost")))),
    )
    .switch();
    switch
        .pre_mut()
        .unwrap()
        .set_session(5, session(&[replica(9, 0)]))
        .unwrap();
    assert_eq!(
        switch.process(0, &[7, 1], 0),
        [(9, vec![7, 0x55, 1]), (1, vec![0xee, 0xbb, 1])]
    );
    switch.pre_mut().unwrap().delete_session(5).unwrap();
    assert_eq!(
        switch.process(0, &[7, 1], 0).len(),
        1,
        "no session, no clone"
    );
}

#[test]
fn clones_survive_the_drop_of_the_original() {
    let clone = call("clone_ingress_pkt_to_egress", json!([num(5), num(2)]));
    let mut switch = traffic(&[clone, mark_to_drop()], &[]).switch_with(queues(3));
    let clones = CloneSession {
        replicas: vec![replica(9, 1), replica(10, 2)],
        truncate_bytes: 2,
        class_of_service: 3,
        group: None,
    };
    switch.pre_mut().unwrap().set_session(5, clones).unwrap();
    let mut fx = Effects::default();
    switch.ingress(0, &[7, 1, 2], 0, &mut fx);
    assert_eq!(
        fx.enqueued
            .iter()
            .map(|q| (q.port, q.priority))
            .collect::<Vec<_>>(),
        [(9, 2), (10, 2)],
        "the class is above all queues, so the highest is taken"
    );
    assert_eq!(fx.dropped, [DropReason::Ingress]);
    assert_eq!(
        switch.process(0, &[7, 1, 2], 0),
        [(9, vec![7, 1]), (10, vec![7, 1])]
    );
}

#[test]
fn clones_can_go_to_a_multicast_group() {
    let clone = call("clone_ingress_pkt_to_egress", json!([num(5), num(2)]));
    let mut switch = traffic(&[clone, mark_to_drop()], &trail(standard("egress_rid"))).switch();
    let pre = switch.pre_mut().unwrap();
    pre.set_group(3, &[replica(1, 8), replica(2, 9)]).unwrap();
    pre.set_session(
        5,
        CloneSession {
            group: Some(3),
            ..CloneSession::default()
        },
    )
    .unwrap();
    assert_eq!(
        switch.process(0, &[7], 0),
        [(1, vec![7, 8]), (2, vec![7, 9])]
    );
}

#[test]
fn egress_clones_keep_the_changes_of_egress() {
    let mut switch = traffic(
        &[
            send_to(1),
            assign(scalar("kept"), num(3)),
            assign(scalar("lost"), num(4)),
        ],
        &[
            // The clone is not cloned again, and shows what metadata it has kept.
            call(
                "_jump_if_zero",
                json!([
                    operand(expr("-", standard("instance_type"), num(2))),
                    num(4)
                ]),
            ),
            assign(field("h", "a"), num(0xee)),
            call("clone_egress_pkt_to_egress", json!([num(5), num(1)])),
            call("_jump", json!([num(6)])),
            call("add_header", json!([named("header", "trail")])),
            assign(
                field("trail", "a"),
                operand(expr("+", scalar("kept"), scalar("lost"))),
            ),
        ],
    )
    .switch();
    switch
        .pre_mut()
        .unwrap()
        .set_session(5, session(&[replica(9, 0)]))
        .unwrap();
    assert_eq!(
        switch.process(0, &[7, 1], 0),
        [(1, vec![0xee, 1]), (9, vec![0xee, 3, 1])]
    );
}

#[test]
fn resubmitted_packets_start_over_with_the_listed_fields() {
    let mut switch = traffic(
        &[
            assign(
                field("h", "a"),
                operand(expr("+", field("h", "a"), scalar("kept"))),
            ),
            assign(scalar("lost"), operand(expr("+", scalar("lost"), num(1)))),
            assign(scalar("kept"), operand(expr("+", scalar("kept"), num(1)))),
            assign(
                standard("egress_spec"),
                operand(expr("+", scalar("lost"), standard("instance_type"))),
            ),
            call(
                "_jump_if_zero",
                json!([operand(expr("-", scalar("kept"), num(3))), num(6)]),
            ),
            call("resubmit", json!([num(1)])),
        ],
        &[],
    )
    .switch();
    // Two resubmissions; the header starts afresh each time.
    assert_eq!(switch.process(0, &[7, 1], 0), [(7, vec![9, 1])]);
}

#[test]
fn resubmitting_for_ever_ends_with_a_drop() {
    let mut switch = traffic(&[call("resubmit", json!([num(1)]))], &[]).switch();
    assert_eq!(
        effects(&mut switch, &[7]).dropped,
        [DropReason::EndlessLoop]
    );
}

#[test]
fn recirculated_packets_come_back_deparsed() {
    let again = operand(
        json!({"type": "expression", "value": {"op": "?", "left": num(1), "right": num(0),
        "cond": expr("==", standard("instance_type"), num(0))}}),
    );
    let mut switch = traffic(
        &[
            assign(
                standard("egress_spec"),
                operand(expr("+", scalar("kept"), num(1))),
            ),
            // Recirculated packets are normal ones again for egress.
            assign(scalar("lost"), standard("instance_type")),
            assign(
                field("h", "a"),
                operand(expr("+", field("h", "a"), standard("instance_type"))),
            ),
        ],
        &[
            assign(
                scalar("kept"),
                operand(expr("+", standard("egress_port"), num(1))),
            ),
            call(
                "_jump_if_zero",
                json!([operand(expr("-", scalar("lost"), num(4))), num(5)]),
            ),
            call("add_header", json!([named("header", "trail")])),
            assign(field("trail", "a"), standard("packet_length")),
            call("recirculate", json!([again])),
        ],
    )
    .switch();
    // packet_length in egress was 2 before the trail.
    assert_eq!(switch.process(0, &[7, 1], 0), [(3, vec![11, 2, 1])]);
}

#[test]
fn recirculating_for_ever_ends_with_a_drop() {
    let mut switch = traffic(&[send_to(1)], &[call("recirculate", json!([num(2)]))]).switch();
    assert_eq!(
        effects(&mut switch, &[7]).dropped,
        [DropReason::EndlessLoop]
    );
}

#[test]
fn truncation_cuts_the_packet_as_it_leaves() {
    let truncate = call("truncate", json!([num(3)]));
    let egress = [trail(num(5)).as_slice(), std::slice::from_ref(&truncate)].concat();
    assert_eq!(
        traffic(&[send_to(1)], &egress)
            .switch()
            .process(0, &[7, 1, 2, 3], 0)[0]
            .1,
        [7, 5, 1]
    );
    assert_eq!(
        traffic(&[send_to(1), truncate], &[])
            .switch()
            .process(0, &[7, 1, 2, 3], 0)[0]
            .1,
        [7, 1, 2]
    );
}

#[test]
fn digests_carry_the_fields_at_the_end_of_ingress() {
    let mut b = traffic(
        &[
            send_to(1),
            call("generate_digest", json!([num(1), num(1)])),
            assign(field("h", "a"), num(0x42)),
        ],
        &[],
    );
    b.add("learn_lists", json!({"id": 1, "name": "mac_learn_t", "elements": [field("h", "a"), standard("ingress_port"), hex("0x0012")]}));
    let fx = effects(&mut b.switch(), &[7]);
    let fields = vec![vec![0x42], vec![0, 3], vec![0, 0x12]];
    assert_eq!(
        fx.digests,
        [Digest {
            list: 1,
            name: "mac_learn_t".into(),
            fields
        }]
    );
    assert_eq!(fx.output.len(), 1);
}

#[test]
fn lengths_follow_added_and_removed_headers() {
    let b = traffic(
        &[
            send_to(1),
            call("add_header", json!([named("header", "trail")])),
            assign(field("trail", "a"), standard("packet_length")),
        ],
        &[assign(field("h", "a"), standard("packet_length"))],
    );
    assert_eq!(b.switch().process(0, &[7, 1, 1], 0)[0].1, [4, 3, 1, 1]);
}

#[test]
fn times_are_in_microseconds_and_queues_report_their_depth() {
    let mut b = Builder::new();
    let fields = [
        "ingress_global_timestamp",
        "egress_global_timestamp",
        "enq_timestamp",
        "deq_timedelta",
        "enq_qdepth",
        "deq_qdepth",
        "egress_port",
    ];
    let list: Vec<Value> = fields.iter().map(|f| json!([f, 16, false])).collect();
    b.header("h_t", &["h"], json!(list))
        .extracts(&["h"])
        .emits(&["h"]);
    b.runs(
        "ingress",
        json!([send_to(6), assign(standard("priority"), num(5))]),
    );
    let copies: Vec<Value> = fields
        .iter()
        .map(|f| assign(field("h", f), standard(f)))
        .collect();
    b.runs("egress", json!(copies));
    let mut switch = b.switch_with(queues(8));
    let mut fx = Effects::default();
    switch.ingress(0, &[0; 14], 1_000_000, &mut fx);
    let packet = fx.enqueued.remove(0);
    assert_eq!((packet.port, packet.priority, packet.len), (6, 5, 14));
    let queue = QueueState {
        enq_timestamp: 1_002_999,
        enq_qdepth: 8,
        deq_qdepth: 9,
    };
    switch.egress(packet, 1_010_000, queue, &mut fx);
    let words: Vec<u16> = fx.output[0]
        .frame
        .chunks(2)
        .map(|c| u16::from_be_bytes([c[0], c[1]]))
        .collect();
    assert_eq!(words, [1000, 1010, 1002, 8, 8, 9, 6]);
}

#[test]
fn packets_of_an_older_program_are_dropped() {
    let b = traffic(&[send_to(1)], &[]);
    let mut switch = b.switch();
    let mut fx = Effects::default();
    switch.ingress(0, &[7], 0, &mut fx);
    let packet = fx.enqueued.remove(0);
    switch.load(std::sync::Arc::new(
        LoadedProgram::from_json(&b.text()).unwrap(),
    ));
    switch.egress(packet, 0, QueueState::default(), &mut fx);
    assert_eq!(fx.dropped, [DropReason::NoProgram]);
    assert_eq!(
        effects(&mut Switch::new(SwitchOptions::default()), &[7]).dropped,
        [DropReason::NoProgram]
    );
}

#[test]
fn the_same_seed_and_frames_give_the_same_run() {
    let b = traffic(
        &[call(
            "modify_field_rng_uniform",
            json!([standard("egress_spec"), num(0), num(400)]),
        )],
        &[],
    );
    let run = |seed| {
        let mut switch = Switch::new(SwitchOptions {
            seed,
            ..SwitchOptions::default()
        });
        switch.load(std::sync::Arc::new(
            LoadedProgram::from_json(&b.text()).unwrap(),
        ));
        (0..20)
            .map(|_| switch.process(0, &[7], 0)[0].0)
            .collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn one_frame_leaves_no_more_copies_than_the_switch_has_room_for() {
    let mut switch = traffic(
        &[
            call("clone_ingress_pkt_to_egress", json!([num(5), num(2)])),
            call("resubmit", json!([num(2)])),
        ],
        &[],
    )
    .switch();
    let replicas: Vec<Replica> = (0..100).map(|rid| replica(1, rid)).collect();
    switch
        .pre_mut()
        .unwrap()
        .set_session(5, session(&replicas))
        .unwrap();
    let mut fx = Effects::default();
    switch.ingress(3, &[7], 0, &mut fx);
    assert_eq!(fx.enqueued.len(), 1 << 16);
    assert!(fx.dropped.contains(&DropReason::TooManyCopies));
}

#[test]
fn packets_that_grow_without_end_are_dropped() {
    let mut b = traffic(
        &[send_to(1)],
        &[
            call("add_header", json!([named("header", "large")])),
            call("recirculate", json!([num(2)])),
        ],
    );
    b.header("large_t", &["large"], json!([["data", 65536, false]]));
    b.emits(&["large", "h"]);
    let dropped = effects(&mut b.switch(), &[7]).dropped;
    assert_eq!(dropped, [DropReason::TooLong]);
}

#[test]
fn what_one_packet_logs_is_bounded() {
    let log = call(
        "log_msg",
        json!([{"type": "string", "value": "again"}, {"type": "parameters_vector", "value": []}]),
    );
    let fx = effects(
        &mut traffic(&[log, call("_jump", json!([num(0)]))], &[]).switch(),
        &[7],
    );
    assert_eq!(fx.dropped, [DropReason::EndlessLoop]);
    assert_eq!(fx.logs.len(), 1000);
}

#[test]
fn what_one_packet_leaves_in_the_trace_is_bounded() {
    let clone = call("clone_ingress_pkt_to_egress", json!([num(5), num(2)]));
    let mut switch = traffic(&[clone, call("resubmit", json!([num(2)]))], &[]).switch();
    let replicas: Vec<Replica> = (0..100).map(|rid| replica(1, rid)).collect();
    let pre = switch.pre_mut().unwrap();
    pre.set_session(5, session(&replicas)).unwrap();
    switch.set_trace(true);
    let mut fx = Effects::default();
    switch.ingress(3, &[7], 0, &mut fx);
    assert_eq!(fx.trace.len(), 10_000);
}
