//! Decisions at the end of ingress and egress: drop, unicast, multicast, clones, resubmission and recirculation.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::builder::*;
use crate::p4::{run, run_with, P4};
use alfirk_bmv2::*;
use serde_json::{json, Value};

/// Returns a program with two headers of one byte, the second of which egress may append. Its metadata are `kept`,
/// which is in field list 1, and `lost`.
fn traffic(ingress: &str, egress: &str) -> Arc<LoadedProgram> {
    let program = P4 {
        fields: "bit<8> a;",
        headers: "h_t trail;",
        metadata: "@field_list(1) bit<8> kept; bit<8> lost;",
        ingress,
        egress,
        deparser: Some("pkt.emit(hdr.h); pkt.emit(hdr.trail);"),
        ..P4::default()
    };
    program.program()
}

const SEND: &str = "sm.egress_spec = 1;";
const DROP: &str = "mark_to_drop(sm);";
const CLONE: &str = "clone(CloneType.I2E, 5);";

/// Returns statements that append a byte in egress.
fn trail(value: &str) -> String {
    format!("hdr.trail.setValid(); hdr.trail.a = (bit<8>)({value});")
}

/// Like [`traffic`], as JSON, for forms that Alfirk's compiler does not generate.
fn traffic_json(ingress: &[Value], egress: &[Value]) -> Builder {
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

fn replica(port: u32, rid: u16) -> Replica {
    Replica { port, rid }
}

fn session(replicas: &[Replica]) -> CloneSession {
    CloneSession {
        replicas: replicas.to_vec(),
        ..CloneSession::default()
    }
}

/// Returns options with this number of queues per port.
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
fn a_drop_overrides_unicast_in_both_pipelines() {
    let fx = effects(
        &mut run(traffic("sm.egress_spec = 1; mark_to_drop(sm);", "")),
        &[7],
    );
    assert_eq!(
        (fx.output.len(), fx.dropped),
        (0, vec![DropReason::Ingress])
    );
    let fx = effects(&mut run(traffic(SEND, DROP)), &[7]);
    assert_eq!((fx.output.len(), fx.dropped), (0, vec![DropReason::Egress]));
    // A later assignment of a port cancels the drop.
    let fx = effects(
        &mut run(traffic("mark_to_drop(sm); sm.egress_spec = 1;", "")),
        &[7],
    );
    assert_eq!(
        fx.output,
        [Output {
            port: 1,
            frame: vec![7].into()
        }]
    );
    // Assigning egress_spec in egress does not change the port.
    let fx = effects(&mut run(traffic(SEND, "sm.egress_spec = 9;")), &[7]);
    assert_eq!(fx.output[0].port, 1);
}

#[test]
fn mark_to_drop_on_a_copy_of_standard_metadata_changes_only_the_copy() {
    let drop_copy = call("mark_to_drop", json!([named("header", "copy")]));
    let build = |ingress: &[Value]| {
        let mut b = traffic_json(ingress, &[]);
        b.add(
            "headers",
            json!({"name": "copy", "header_type": "standard_metadata", "metadata": true}),
        );
        b
    };
    let group = assign(field("copy", "mcast_grp"), num(9));
    let mut switch = build(&[send_to(1), group, drop_copy.clone()]).switch();
    assert_eq!(switch.process(0, &[7], 0), [(1, vec![7])]);

    // As compilers write an inout parameter: the copy is assigned back.
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
    let b = traffic_json(&[call("mark_to_drop", json!([named("header", "h")]))], &[]);
    let error = LoadedProgram::from_json(&b.text()).unwrap_err().to_string();
    assert!(error.contains("h has no field egress_spec"), "{error}");
}

#[test]
fn a_priority_beyond_the_queues_drops_the_packet() {
    let program = traffic("sm.egress_spec = 1; sm.priority = 3;", "");
    for (n, dropped) in [(1, true), (3, true), (4, false)] {
        let fx = effects(&mut run_with(Arc::clone(&program), queues(n)), &[7]);
        assert_eq!(fx.dropped == [DropReason::Priority], dropped, "{n} queues");
        assert_eq!(fx.output.is_empty(), dropped, "{n} queues");
    }
}

#[test]
fn limits_of_groups_and_nodes_are_options() {
    let options = SwitchOptions {
        pre_limits: PreLimits {
            groups: 2,
            nodes: 3,
        },
        ..SwitchOptions::default()
    };
    let mut switch = run_with(traffic("", ""), options);
    let pre = switch.pre_mut().unwrap();
    let nodes = |n: u16| (0..n).map(|rid| replica(1, rid)).collect::<Vec<_>>();
    pre.set_group(1, &nodes(2)).unwrap();
    let full = |what, limit| Err(PreError::Full { what, limit });
    assert_eq!(pre.set_group(2, &nodes(2)), full("multicast nodes", 3));
    pre.set_group(2, &nodes(1)).unwrap();
    assert_eq!(pre.set_group(3, &[]), full("multicast groups", 2));
    // Existing groups may change within the limit.
    pre.set_group(1, &nodes(1)).unwrap();
    assert!(pre.create_node(7, &[1], &[]).is_ok());
    assert!(pre.create_node(8, &[1], &[]).is_err());
}

#[test]
fn the_drop_port_is_an_option() {
    let options = SwitchOptions {
        drop_port: 100,
        ..SwitchOptions::default()
    };
    let mut switch = run_with(traffic("sm.egress_spec = 511;", ""), options);
    assert_eq!(switch.process(0, &[7], 0)[0].0, 511);
    crate::builder::load(&mut switch, traffic(DROP, ""));
    assert_eq!(switch.process(0, &[7], 0), []);
}

#[test]
fn multicast_overrides_a_drop_and_numbers_its_copies() {
    let mcast = "mark_to_drop(sm); sm.mcast_grp = (bit<16>)hdr.h.a;";
    let mut switch = run(traffic(mcast, &trail("sm.egress_rid")));
    let group = [replica(4, 11), replica(2, 11), replica(3, 12)];
    switch.pre_mut().unwrap().set_group(7, &group).unwrap();
    assert_eq!(
        switch.process(3, &[7], 0),
        [(2, vec![7, 11]), (4, vec![7, 11]), (3, vec![7, 12])]
    );
    assert_eq!(effects(&mut switch, &[8]).dropped, [DropReason::NoGroup]);
    // mark_to_drop after the assignment of a group cancels the group.
    let mcast = "sm.mcast_grp = (bit<16>)hdr.h.a; mark_to_drop(sm);";
    let mut switch = run(traffic(mcast, ""));
    switch.pre_mut().unwrap().set_group(7, &group).unwrap();
    assert_eq!(switch.process(3, &[7], 0), []);
}

#[test]
fn copies_do_not_share_their_headers() {
    let add_port = "hdr.h.a = hdr.h.a + (bit<8>)sm.egress_port;";
    let mut switch = run(traffic("sm.mcast_grp = 1;", add_port));
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
fn instance_type_is_the_origin_of_a_packet() {
    let of = |ingress: &str, setup: fn(&mut Switch)| {
        let mut switch = run(traffic(ingress, &trail("sm.instance_type")));
        setup(&mut switch);
        switch
            .process(0, &[7], 0)
            .into_iter()
            .map(|(port, frame)| (port, frame[1]))
            .collect::<Vec<_>>()
    };
    assert_eq!(of(SEND, |_| {}), [(1, 0)]);
    let group = |switch: &mut Switch| {
        switch
            .pre_mut()
            .unwrap()
            .set_group(1, &[replica(4, 0)])
            .unwrap()
    };
    assert_eq!(of("sm.mcast_grp = 1;", group), [(4, 5)]);
    let mirror = |switch: &mut Switch| {
        switch
            .pre_mut()
            .unwrap()
            .set_session(5, session(&[replica(9, 0)]))
            .unwrap()
    };
    assert_eq!(of(&[SEND, CLONE].concat(), mirror), [(9, 1), (1, 0)]);
}

#[test]
fn ingress_clones_contain_the_received_packet() {
    let ingress = "
        sm.egress_spec = 1;
        meta.kept = 0x55;
        meta.lost = 0x66;
        hdr.h.a = 0xee;
        clone(CloneType.I2E, 4);
        // Only the last call has an effect.
        clone_preserving_field_list(CloneType.I2E, 5, 1);";
    let mut switch = run(traffic(ingress, &trail("meta.kept + meta.lost")));
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
fn clones_are_sent_when_the_original_is_dropped() {
    let mut switch = run_with(traffic(&[CLONE, DROP].concat(), ""), queues(3));
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
    let mut switch = run(traffic(&[CLONE, DROP].concat(), &trail("sm.egress_rid")));
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
    let ingress = "sm.egress_spec = 1; meta.kept = 3; meta.lost = 4;";
    // The clone is not cloned again, and has the metadata of the field list.
    let egress = format!(
        "if (sm.instance_type == 2) {{ {} }} else {{
            hdr.h.a = 0xee;
            clone_preserving_field_list(CloneType.E2E, 5, 1);
        }}",
        trail("meta.kept + meta.lost")
    );
    let mut switch = run(traffic(ingress, &egress));
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
fn resubmitted_packets_are_parsed_again_with_the_listed_fields() {
    let ingress = "
        hdr.h.a = hdr.h.a + meta.kept;
        meta.lost = meta.lost + 1;
        meta.kept = meta.kept + 1;
        sm.egress_spec = (bit<9>)meta.lost + (bit<9>)sm.instance_type;
        if (meta.kept != 3) { resubmit_preserving_field_list(1); }";
    let mut switch = run(traffic(ingress, ""));
    // Two resubmissions; each time the header has its original value.
    assert_eq!(switch.process(0, &[7, 1], 0), [(7, vec![9, 1])]);
}

#[test]
fn endless_resubmission_drops_the_packet() {
    let mut switch = run(traffic("resubmit_preserving_field_list(1);", ""));
    assert_eq!(
        effects(&mut switch, &[7]).dropped,
        [DropReason::EndlessLoop]
    );
}

#[test]
fn recirculated_packets_are_deparsed_and_parsed_again() {
    // In egress, recirculated packets have the instance type of normal ones.
    let ingress = "
        sm.egress_spec = (bit<9>)(meta.kept + 1);
        meta.lost = (bit<8>)sm.instance_type;
        hdr.h.a = hdr.h.a + (bit<8>)sm.instance_type;";
    let egress = format!(
        "meta.kept = (bit<8>)sm.egress_port + 1;
        if (meta.lost != 4) {{
            {}
            if (sm.instance_type == 0) {{ recirculate_preserving_field_list(1); }}
        }}",
        trail("sm.packet_length")
    );
    let mut switch = run(traffic(ingress, &egress));
    // packet_length in egress was 2 before the trailing byte was added.
    assert_eq!(switch.process(0, &[7, 1], 0), [(3, vec![11, 2, 1])]);
}

#[test]
fn endless_recirculation_drops_the_packet() {
    let mut switch = run(traffic(SEND, "recirculate_preserving_field_list(1);"));
    assert_eq!(
        effects(&mut switch, &[7]).dropped,
        [DropReason::EndlessLoop]
    );
}

#[test]
fn truncation_shortens_the_output_frame() {
    let frame = [7, 1, 2, 3];
    let egress = trail("5") + "truncate(3);";
    assert_eq!(
        run(traffic(SEND, &egress)).process(0, &frame, 0)[0].1,
        [7, 5, 1]
    );
    let ingress = "sm.egress_spec = 1; truncate(3);";
    assert_eq!(
        run(traffic(ingress, "")).process(0, &frame, 0)[0].1,
        [7, 1, 2]
    );
}

#[test]
fn digests_contain_the_fields_at_the_end_of_ingress() {
    let mut b = traffic_json(
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
fn packet_length_includes_added_and_removed_headers() {
    let ingress = SEND.to_owned() + &trail("sm.packet_length");
    let egress = "hdr.h.a = (bit<8>)sm.packet_length;";
    let out = run(traffic(&ingress, egress)).process(0, &[7, 1, 1], 0);
    assert_eq!(out[0].1, [4, 3, 1, 1]);
}

#[test]
fn queueing_metadata_has_microseconds_and_queue_depths() {
    let fields = [
        "ingress_global_timestamp",
        "egress_global_timestamp",
        "enq_timestamp",
        "deq_timedelta",
        "enq_qdepth",
        "deq_qdepth",
        "egress_port",
    ];
    let header: String = fields.iter().map(|f| format!("bit<16> {f};")).collect();
    let copy = |f: &&str| format!("hdr.h.{f} = (bit<16>)sm.{f};");
    let copies: String = fields.iter().map(copy).collect();
    let program = P4 {
        fields: &header,
        ingress: "sm.egress_spec = 6; sm.priority = 5;",
        egress: &copies,
        ..P4::default()
    };
    let mut switch = run_with(program.program(), queues(8));
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
        .bytes()
        .chunks(2)
        .map(|c| u16::from_be_bytes([c[0], c[1]]))
        .collect();
    assert_eq!(words, [1000, 1010, 1002, 8, 8, 9, 6]);
}

#[test]
fn packets_of_an_older_program_are_dropped() {
    let mut switch = run(traffic(SEND, ""));
    let mut fx = Effects::default();
    switch.ingress(0, &[7], 0, &mut fx);
    let packet = fx.enqueued.remove(0);
    crate::builder::load(&mut switch, traffic(SEND, ""));
    switch.egress(packet, 0, QueueState::default(), &mut fx);
    assert_eq!(fx.dropped, [DropReason::NoProgram]);
    assert_eq!(
        effects(&mut Switch::new(SwitchOptions::default()), &[7]).dropped,
        [DropReason::NoProgram]
    );
}

#[test]
fn equal_seeds_and_frames_have_equal_results() {
    let program = traffic(
        "bit<9> port; random(port, 9w0, 9w400); sm.egress_spec = port;",
        "",
    );
    let run = |seed| {
        let options = SwitchOptions {
            seed,
            ..SwitchOptions::default()
        };
        let mut switch = run_with(Arc::clone(&program), options);
        (0..20)
            .map(|_| switch.process(0, &[7], 0)[0].0)
            .collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn copies_of_one_frame_are_limited() {
    let ingress = CLONE.to_owned() + "resubmit_preserving_field_list(1);";
    let mut switch = run(traffic(&ingress, ""));
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
    let mut b = traffic_json(
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
fn log_messages_per_packet_are_bounded() {
    let log = call(
        "log_msg",
        json!([{"type": "string", "value": "again"}, {"type": "parameters_vector", "value": []}]),
    );
    let fx = effects(
        &mut traffic_json(&[log, call("_jump", json!([num(0)]))], &[]).switch(),
        &[7],
    );
    assert_eq!(fx.dropped, [DropReason::EndlessLoop]);
    assert_eq!(fx.logs.len(), 1000);
}

#[test]
fn trace_lines_per_packet_are_bounded() {
    let ingress = CLONE.to_owned() + "resubmit_preserving_field_list(1);";
    let mut switch = run(traffic(&ingress, ""));
    let replicas: Vec<Replica> = (0..100).map(|rid| replica(1, rid)).collect();
    let pre = switch.pre_mut().unwrap();
    pre.set_session(5, session(&replicas)).unwrap();
    switch.set_trace(true);
    let mut fx = Effects::default();
    switch.ingress(3, &[7], 0, &mut fx);
    assert_eq!(fx.trace.len(), 10_000);
}

/// Ports, frames and reasons of drops of all packets that a frame causes.
fn all_effects(switch: &mut Switch, frame: &[u8]) -> (Vec<(u32, Vec<u8>)>, Vec<DropReason>) {
    let mut fx = Effects::default();
    switch.process_into(0, frame, 0, &mut fx);
    let sent = fx.output.into_iter();
    let sent = sent.map(|output| (output.port, output.frame.into_bytes()));
    (sent.collect(), fx.dropped)
}

/// Programs with each combination of an ingress and an egress that send, copy, drop, clone, resubmit or recirculate packets,
/// with a description.
fn programs_with_copies() -> impl Iterator<Item = (String, Arc<LoadedProgram>)> {
    const GROUP: &str = "sm.mcast_grp = 1;";
    // Each frame ends with the number of earlier egress passes, and its replication id.
    let rid = "bit<8> n; passes.read(n, 0); passes.write(0, n + 1);
        hdr.trail.setValid(); hdr.trail.a = n ++ sm.egress_rid[7:0];";
    let drops = format!("{rid} if (sm.egress_rid == 2) {{ mark_to_drop(sm); }}");
    let clones = format!(
        "{rid} if (sm.instance_type != 2) {{ clone(CloneType.E2E, 5); }} else {{ hdr.h.a = 9; }}"
    );
    let recirculates = format!(
        "{rid} if (hdr.h.a < 3) {{ hdr.h.a = hdr.h.a + 1; recirculate_preserving_field_list(1); }}"
    );
    let recirculates_often =
        recirculates.replace("hdr.h.a < 3", "sm.egress_rid == 0 && hdr.h.a < 100");
    let truncates = format!("{rid} if (hdr.h.a == 1) {{ truncate(3); }}");
    let resubmits = "if (sm.instance_type != 6) { resubmit_preserving_field_list(1); }";
    let ingress = [
        SEND.to_owned(),
        DROP.to_owned(),
        GROUP.to_owned(),
        format!("{GROUP} {CLONE}"),
        resubmits.to_owned(),
        "sm.egress_spec = 2; sm.priority = 7;".to_owned(),
    ];
    let egress = [
        rid.to_owned(),
        drops,
        clones,
        recirculates,
        recirculates_often,
        truncates,
    ];
    ingress.into_iter().flat_map(move |ingress| {
        let build = move |egress: String| {
            let program = P4 {
                fields: "bit<8> a;",
                types: "header trail_t { bit<16> a; } register<bit<8>>(1) passes;",
                headers: "trail_t trail;",
                metadata: "@field_list(1) bit<8> kept;",
                ingress: &ingress,
                egress: &egress,
                deparser: Some("pkt.emit(hdr.h); pkt.emit(hdr.trail);"),
                ..P4::default()
            };
            let what = format!("ingress: {ingress}, egress: {egress}");
            (what, program.program())
        };
        egress.clone().map(build)
    })
}

/// Creates a switch with one of [`programs_with_copies`], with a multicast group and a clone session.
fn switch_with_copies(program: &Arc<LoadedProgram>) -> Switch {
    let mut switch = run(program.clone());
    let pre = switch.pre_mut().unwrap();
    let members = [replica(1, 1), replica(2, 2), replica(3, 1), replica(3, 4)];
    pre.set_group(1, &members).unwrap();
    pre.set_session(5, session(&[replica(4, 0), replica(1, 9)]))
        .unwrap();
    switch
}

#[test]
fn packets_for_ports_without_queues_have_the_same_effects() {
    for (what, program) in programs_with_copies() {
        for queued in [&[][..], &[1], &[3], &[2, 4]] {
            let [mut with_queues, mut direct] = [(); 2].map(|()| switch_with_copies(&program));
            direct.set_queued_ports(queued.iter().copied());
            for a in 0..5 {
                let frame = [a, 7, 7, 7];
                assert_eq!(
                    all_effects(&mut direct, &frame),
                    all_effects(&mut with_queues, &frame),
                    "ports with queues: {queued:?}, {what}"
                );
            }
        }
    }
}

#[test]
fn packets_that_leave_their_queues_together_have_the_same_effects() {
    let mut stops = 0;
    for (what, program) in programs_with_copies() {
        let [mut alone, mut together, mut interpreted] =
            [(); 3].map(|()| switch_with_copies(&program));
        interpreted.set_trace(true);
        // Packets of all switches in turn are in the same memory.
        let mut spare = SparePackets::default();
        for a in 0..5 {
            let frame = [a, 7, 7, 7];
            let expected = all_effects(&mut alone, &frame);
            for switch in [&mut together, &mut interpreted] {
                let mut fx = Effects::default();
                switch.exchange_packets(&mut spare);
                switch.ingress(0, &frame, 0, &mut fx);
                let mut packets: VecDeque<Queued> = fx.enqueued.drain(..).collect();
                while !packets.is_empty() {
                    let sent = switch.egress_all(&mut packets, 0, &mut fx);
                    assert_eq!(sent.is_some(), !fx.enqueued.is_empty(), "{what}");
                    // A packet sends at most one frame.
                    let earlier = fx.output.len() - sent.unwrap_or(fx.output.len());
                    assert!(earlier <= 1, "{what}");
                    stops += u32::from(sent.is_some() && !packets.is_empty());
                    packets.extend(fx.enqueued.drain(..));
                }
                switch.exchange_packets(&mut spare);
                let sent = fx.output.into_iter();
                let sent = sent.map(|output| (output.port, output.frame.into_bytes()));
                let effects = (sent.collect::<Vec<_>>(), fx.dropped);
                assert_eq!(effects, expected, "{what}");
            }
        }
    }
    assert!(stops > 0, "a copy before others has caused further packets");
}
