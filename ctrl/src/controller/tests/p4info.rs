//! The part of P4Info that the controller looks at, as the compiler writes it for `p4src/v1model`.

use alfirk_p4runtime::p4::config::v1::{
    action, controller_packet_metadata, match_field, Action, ControllerPacketMetadata, Counter,
    MatchField, Meter, P4Info, Preamble, Register, Table,
};

fn preamble(id: u32, name: &str) -> Option<Preamble> {
    Some(Preamble {
        id,
        name: name.to_owned(),
        ..Preamble::default()
    })
}

fn table(id: u32, name: &str, size: i64, keys: &[(&str, match_field::MatchType, i32)]) -> Table {
    let fields = (1..).zip(keys).map(|(id, (name, kind, bits))| MatchField {
        id,
        name: (*name).to_owned(),
        bitwidth: *bits,
        r#match: Some(match_field::Match::MatchType((*kind).into())),
        ..MatchField::default()
    });
    Table {
        preamble: preamble(0x0200_0000 + id, name),
        match_fields: fields.collect(),
        size,
        ..Table::default()
    }
}

fn action(id: u32, name: &str, params: &[(&str, i32)]) -> Action {
    let params = (1..).zip(params).map(|(id, (name, bits))| action::Param {
        id,
        name: (*name).to_owned(),
        bitwidth: *bits,
        ..action::Param::default()
    });
    Action {
        preamble: preamble(0x0100_0000 + id, name),
        params: params.collect(),
    }
}

fn counter(id: u32, name: &str) -> Counter {
    Counter {
        preamble: preamble(0x1200_0000 + id, name),
        size: 32,
        ..Counter::default()
    }
}

fn register(id: u32, name: &str, size: i32) -> Register {
    Register {
        preamble: preamble(0x1500_0000 + id, name),
        size,
        ..Register::default()
    }
}

fn header(id: u32, name: &str, fields: &[(&str, i32)]) -> ControllerPacketMetadata {
    let fields = (1..)
        .zip(fields)
        .map(|(id, (name, bits))| controller_packet_metadata::Metadata {
            id,
            name: (*name).to_owned(),
            bitwidth: *bits,
            ..controller_packet_metadata::Metadata::default()
        });
    ControllerPacketMetadata {
        preamble: preamble(0x0400_0000 + id, name),
        metadata: fields.collect(),
    }
}

/// With the sizes of `p4src/shared/sizes.p4`.
pub(crate) fn p4info() -> P4Info {
    sized(1024, 64)
}

/// With other bounds on groups and paths.
pub(super) fn sized(groups: i64, paths: i32) -> P4Info {
    use match_field::MatchType::{Exact, Lpm};
    let groups_i32 = i32::try_from(groups).unwrap();
    P4Info {
        tables: vec![
            table(
                1,
                "ingress.arp_responder.arp_targets",
                1024,
                &[("target_ip", Lpm, 32)],
            ),
            table(
                2,
                "ingress.ipv4_routing.routes",
                4096,
                &[("dst_ip", Lpm, 32)],
            ),
            table(
                3,
                "ingress.ipv4_routing.next_hops",
                4096,
                &[("ecmp_group", Exact, 16), ("ecmp_index", Exact, 16)],
            ),
            table(
                4,
                "ingress.group_lookup.groups",
                groups,
                &[("mcst_id", Exact, 32)],
            ),
            table(
                5,
                "ingress.group_lookup.mft",
                16384,
                &[("group_index", Exact, 16), ("ingress_port", Exact, 9)],
            ),
            table(
                6,
                "ingress.bridge_entry.members",
                16384,
                &[
                    ("group_index", Exact, 16),
                    ("ingress_port", Exact, 9),
                    ("src_ip", Exact, 32),
                ],
            ),
            table(
                7,
                "egress.bridge_exit.receivers",
                16384,
                &[("group_index", Exact, 16), ("egress_port", Exact, 9)],
            ),
            table(
                8,
                "ingress.source_guard.hosts",
                512,
                &[("ingress_port", Exact, 9)],
            ),
            table(
                9,
                "egress.ecn_marking.profiles",
                512,
                &[("egress_port", Exact, 9)],
            ),
        ],
        counters: vec![
            counter(1, "ingress.ack_aggregate.work"),
            counter(2, "ingress.drops"),
            counter(3, "egress.drops"),
            counter(4, "ingress.punt_limit.limited"),
        ],
        meters: vec![Meter {
            preamble: preamble(0x1400_0001, "ingress.punt_limit.rates"),
            size: 4096,
            ..Meter::default()
        }],
        actions: vec![
            action(
                11,
                "egress.ecn_marking.profile",
                &[("min", 19), ("max", 19), ("rise", 32)],
            ),
            action(10, "ingress.source_guard.attached", &[("ip", 32)]),
            action(1, "ingress.arp_responder.reply", &[("mac", 48)]),
            action(
                2,
                "ingress.ipv4_routing.to_host",
                &[("port", 9), ("mac", 48)],
            ),
            action(3, "ingress.ipv4_routing.to_switch", &[("port", 9)]),
            action(
                4,
                "ingress.ipv4_routing.ecmp",
                &[("group", 16), ("size", 16), ("seed", 16)],
            ),
            action(5, "ingress.ipv4_routing.to_switch_hop", &[("port", 9)]),
            action(
                6,
                "ingress.group_lookup.set_group",
                &[
                    ("group_index", 16),
                    ("paths", 8),
                    ("virtual_qpn", 24),
                    ("min_psn", 2),
                    ("icrc", 2),
                ],
            ),
            action(
                7,
                "ingress.group_lookup.set_path",
                &[("path_index", 8), ("absent", 16), ("is_host", 1)],
            ),
            action(
                8,
                "ingress.bridge_entry.enter",
                &[("id_xor", 16), ("sport_xor", 16)],
            ),
            action(
                12,
                "ingress.bridge_entry.enter_receiver",
                &[("id_xor", 16), ("sport_xor", 16)],
            ),
            action(
                9,
                "egress.bridge_exit.deliver",
                &[
                    ("mac", 48),
                    ("ip", 32),
                    ("qpn", 24),
                    ("id_xor", 16),
                    ("sport_xor", 16),
                    ("reth_id_xor", 16),
                    ("reth_sport_xor", 16),
                    ("va_xor", 64),
                    ("rkey_xor", 32),
                    ("slot", 24),
                ],
            ),
        ],
        registers: vec![
            register(1, "ingress.ack_aggregate.sender.acked", paths * groups_i32),
            register(2, "egress.memory_regions.va", 16384),
        ],
        controller_packet_metadata: vec![
            header(
                1,
                "packet_in",
                &[("reason", 8), ("pad", 7), ("ingress_port", 9)],
            ),
            header(
                2,
                "packet_out",
                &[("kind", 8), ("pad", 7), ("egress_port", 9)],
            ),
        ],
        ..P4Info::default()
    }
}
