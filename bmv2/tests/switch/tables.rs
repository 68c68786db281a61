//! Lookups of every kind, profiles, direct counters and meters.

use std::sync::{Arc, OnceLock};

use crate::builder::*;
use crate::p4::{run, P4};
use alfirk_bmv2::*;
use proptest::prelude::*;
use serde_json::{json, Value};

/// A header of a byte, a signed byte and 80 bits, and a table `t` whose action `forward` sets the port.
const FORWARD: &str = "@name(\".forward\") action forward(bit<9> port) { sm.egress_spec = port; }";
const FIELDS: &str = "bit<8> a; int<8> b; bit<80> w;";

fn program(fields: &str, forward: &str, properties: &str) -> Arc<LoadedProgram> {
    let table =
        format!("{forward} @name(\".t\") table t {{ actions = {{ forward; }} {properties} }}");
    let program = P4 {
        fields,
        locals: &table,
        ingress: "t.apply();",
        ..P4::default()
    };
    program.program()
}

fn by_keys(keys: &str) -> Switch {
    run(program(FIELDS, FORWARD, &format!("key = {{ {keys} }}")))
}

/// Returns a table as JSON, for match types and forms that Alfirk's compiler generates differently.
fn lookup(match_type: &str, keys: Value, size: u64) -> Builder {
    let mut b = Builder::new();
    b.header(
        "h_t",
        &["h"],
        json!([["a", 8, false], ["b", 8, true], ["w", 80, false]]),
    );
    b.extracts(&["h"]).emits(&["h"]);
    let forward = b.action(
        "forward",
        &[("port", 9)],
        json!([assign(standard("egress_spec"), arg(0))]),
    );
    b.table("t", match_type, keys, &[("forward", forward)]);
    b.set("/pipelines/0/tables/0/max_size", json!(size));
    b
}

#[test]
fn validity_is_a_key() {
    let b = lookup(
        "exact",
        json!([{"match_type": "valid", "target": "h", "mask": null}]),
        8,
    );
    let mut switch = b.switch();
    let table = switch.table("t").unwrap();
    for (value, port) in [(true, 1), (false, 2)] {
        switch
            .insert_entry(
                table,
                &[KeyMatch::Valid { value }],
                0,
                &run_action("forward", &[port]),
                0,
                0,
            )
            .unwrap();
    }
    assert_eq!(switch.process(0, &[0; 12], 0)[0].0, 1);
    assert_eq!(switch.process(0, &[0; 3], 0)[0].0, 2);
}

#[test]
fn masks_of_the_program_are_applied_to_the_field() {
    let mut switch = by_keys("hdr.h.a & 0xf0: exact;");
    let table = switch.table("t").unwrap();
    switch
        .insert_entry(table, &[exact(0x20)], 0, &run_action("forward", &[3]), 0, 0)
        .unwrap();
    assert_eq!(
        switch.process(0, &[[0x2f].as_slice(), &[0; 11]].concat(), 0)[0].0,
        3
    );
}

#[test]
fn wide_and_signed_keys_match_bit_by_bit() {
    let mut switch = by_keys("hdr.h.b: exact; hdr.h.w: exact;");
    let table = switch.table("t").unwrap();
    let w: Vec<u8> = (1..=10).collect();
    let key = [
        KeyMatch::Exact { value: vec![0x80] },
        KeyMatch::Exact { value: w.clone() },
    ];
    switch
        .insert_entry(table, &key, 0, &run_action("forward", &[3]), 0, 0)
        .unwrap();
    assert_eq!(switch.process(0, &[&[0, 0x80], &w[..]].concat(), 0)[0].0, 3);
    assert_eq!(switch.process(0, &[&[0, 0x81], &w[..]].concat(), 0)[0].0, 0);
    assert_eq!(switch.entries(table).unwrap()[0].key, key);
}

#[test]
fn lpm_fields_may_be_combined_with_exact_fields() {
    let mut switch = by_keys("hdr.h.a: exact; hdr.h.w: lpm;");
    let table = switch.table("t").unwrap();
    let mut add = |a: u64, value: &[u8], prefix_len, port| {
        let key = [
            exact(a),
            KeyMatch::Lpm {
                value: value.to_vec(),
                prefix_len,
            },
        ];
        switch
            .insert_entry(table, &key, 0, &run_action("forward", &[port]), 0, 0)
            .unwrap();
    };
    let ten = |first: u8| [[first].as_slice(), &[0; 9]].concat();
    add(1, &ten(0xa0), 3, 1);
    add(1, &ten(0xab), 8, 2);
    add(2, &[0], 0, 3);
    let mut port = |a: u8, w: u8| switch.process(0, &[&[a, 0], &ten(w)[..]].concat(), 0)[0].0;
    assert_eq!(
        [port(1, 0xab), port(1, 0xac), port(1, 0x20), port(2, 0x20)],
        [2, 1, 0, 3]
    );
}

#[test]
fn entries_of_the_program_may_set_bits_outside_of_their_mask() {
    let mut b = lookup("lpm", json!([key("lpm", "h", "a")]), 8);
    b.set("/pipelines/0/tables/0/entries", json!([{"match_key": [{"match_type": "lpm", "key": "0xff", "prefix_length": 4}], "action_entry": {"action_id": 0, "action_data": ["0x5"]}, "priority": 1}]));
    assert_eq!(
        b.switch()
            .process(0, &[[0xf3].as_slice(), &[0; 11]].concat(), 0)[0]
            .0,
        5
    );
}

#[derive(Clone, Debug)]
struct Rule {
    a: (u8, u8),
    /// Value of the first and last byte of the field of 80 bits, and which of them are compared.
    w: (u8, [bool; 2]),
    b: (u8, u8),
    priority: i32,
}

impl Rule {
    /// Returns value and mask of the field of 80 bits.
    fn w(&self) -> [Vec<u8>; 2] {
        let (byte, compared) = self.w;
        let mask = compared.map(|is_compared| if is_compared { 0x0f } else { 0 });
        [mask.map(|mask| byte & mask), mask].map(|[first, last]| {
            let mut bytes = vec![0; 10];
            (bytes[0], bytes[9]) = (first, last);
            bytes
        })
    }
}

proptest! {
    /// Compares tuple space search with a linear scan.
    #[test]
    fn ternary_and_range_lookups_equal_a_linear_scan(
        rules in proptest::collection::vec(
            (any::<(u8, u8)>(), (0u8..3, any::<[bool; 2]>()), any::<(u8, u8)>(), 0i32..4).prop_map(|(a, w, b, priority)| {
                let mask = a.1 & 0x0f;
                Rule { a: (a.0 & mask, mask), w, b: (b.0.min(b.1), b.0.max(b.1)), priority }
            }), 1..24),
        removed in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
        packets in proptest::collection::vec((any::<u8>(), 0u8..3, 0u8..3, any::<u8>()), 12),
        is_wide in any::<bool>(),
    ) {
        static RANGES: OnceLock<[Arc<LoadedProgram>; 2]> = OnceLock::new();
        let ranges = RANGES.get_or_init(|| ["", "hdr.h.w: ternary;"].map(|wide| program(
            FIELDS,
            FORWARD,
            &format!(
                "key = {{ hdr.h.a: ternary; {wide} sm.ingress_port: range; }} default_action = forward(0x1fe); size = 64;"
            ),
        )));
        let mut switch = run(Arc::clone(&ranges[usize::from(is_wide)]));
        let table = switch.table("t").unwrap();
        let mut live: Vec<(Rule, u64, EntryHandle)> = Vec::new();
        for (i, rule) in rules.iter().enumerate() {
            let mut key = vec![
                KeyMatch::Ternary { value: vec![rule.a.0], mask: vec![rule.a.1] },
                KeyMatch::Range { low: vec![rule.b.0], high: vec![rule.b.1] },
            ];
            if is_wide {
                let [value, mask] = rule.w();
                key.insert(1, KeyMatch::Ternary { value, mask });
            }
            let target = run_action("forward", &[i as u64]);
            match switch.insert_entry(table, &key, rule.priority, &target, 0, 0) {
                Ok(handle) => live.push((rule.clone(), i as u64, handle)),
                Err(error) => prop_assert!(matches!(error, ManageError::EntryExists { .. }), "{:?}", error),
            }
        }
        for index in removed {
            if !live.is_empty() {
                let (_, _, handle) = live.remove(index.index(live.len()));
                switch.delete_entry(table, handle).unwrap();
            }
        }
        for (a, first, last, port) in packets {
            let is_right = |r: &Rule| {
                let (byte, [is_first, is_last]) = r.w;
                !is_wide || (!is_first || byte == first) && (!is_last || byte == last)
            };
            let best = live
                .iter()
                .filter(|(r, _, _)| a & r.a.1 == r.a.0 && (r.b.0..=r.b.1).contains(&port) && is_right(r))
                .min_by_key(|(r, i, _)| (r.priority, *i));
            let frame = [[a, 0, first].as_slice(), &[0; 8], &[last]].concat();
            let out = switch.process(u32::from(port), &frame, 0)[0].0;
            prop_assert_eq!(u64::from(out), best.map_or(0x1fe, |(_, i, _)| *i));
        }
    }
}

/// A prefix of a key of 80 bits, or of its first byte.
#[derive(Clone, Debug)]
struct Route {
    port: u8,
    value: [u8; 10],
    len: u32,
}

fn route() -> impl Strategy<Value = Route> {
    let value = (prop_oneof![Just(0xa5), any::<u8>()], any::<[u8; 9]>());
    (0u8..2, value, 0u32..=80).prop_map(|(port, (first, rest), len)| {
        let bytes = [[first].as_slice(), &rest].concat();
        let mut value = [0; 10];
        for (i, byte) in value.iter_mut().enumerate() {
            let kept = len.saturating_sub(8 * i as u32).min(8);
            *byte = bytes[i] & !(0xffu16 >> kept) as u8;
        }
        Route { port, value, len }
    })
}

/// The order of exact and lpm keys, and the field of the lpm key: one whose keys fit a word, or a wider one.
const ROUTED: [(&str, u32); 3] = [
    ("hdr.h.a: lpm; sm.ingress_port: exact;", 8),
    ("sm.ingress_port: exact; hdr.h.a: lpm;", 8),
    ("sm.ingress_port: exact; hdr.h.w: lpm;", 80),
];

proptest! {
    /// Compares longest prefix match with a linear scan.
    #[test]
    fn lpm_lookups_equal_a_linear_scan(
        kind in 0..ROUTED.len(),
        routes in proptest::collection::vec(route(), 1..60),
        removed in proptest::collection::vec(any::<prop::sample::Index>(), 0..30),
        packets in proptest::collection::vec((0u8..2, any::<prop::sample::Index>(), 0u32..80), 20),
    ) {
        static PROGRAMS: [OnceLock<Arc<LoadedProgram>>; 3] = [const { OnceLock::new() }; 3];
        let (keys, bits) = ROUTED[kind];
        let routed = PROGRAMS[kind].get_or_init(|| {
            let properties = format!("key = {{ {keys} }} default_action = forward(0x1fe); size = 64;");
            program(FIELDS, FORWARD, &properties)
        });
        let mut switch = run(Arc::clone(routed));
        let table = switch.table("t").unwrap();
        let mut live: Vec<(Route, u64, EntryHandle)> = Vec::new();
        for (i, route) in routes.iter().enumerate() {
            let mut route = route.clone();
            route.len = route.len * bits / 80;
            let value = match bits {
                8 => vec![route.value[0] & !(0xffu16 >> route.len) as u8],
                _ => route.value.to_vec(),
            };
            route.value[0] = value[0];
            let lpm = KeyMatch::Lpm { value, prefix_len: route.len };
            let key = match kind {
                0 => [lpm, exact(route.port.into())],
                _ => [exact(route.port.into()), lpm],
            };
            match switch.insert_entry(table, &key, 0, &run_action("forward", &[i as u64]), 0, 0) {
                Ok(handle) => live.push((route, i as u64, handle)),
                Err(error) => prop_assert!(matches!(error, ManageError::EntryExists { .. }), "{:?}", error),
            }
        }
        for index in removed {
            if !live.is_empty() {
                let (_, _, handle) = live.remove(index.index(live.len()));
                switch.delete_entry(table, handle).unwrap();
            }
        }
        for (port, near, flipped) in packets {
            // A key that differs from a prefix in one bit.
            let mut key = routes[near.index(routes.len())].value;
            key[flipped as usize / 8] ^= 1 << (flipped % 8);
            let matches = |route: &Route| {
                let same = |bit: u32| {
                    let of = |bytes: &[u8; 10]| bytes[bit as usize / 8] >> (7 - bit % 8) & 1;
                    of(&key) == of(&route.value)
                };
                route.port == port && (0..route.len).all(same)
            };
            let best = live.iter().filter(|(route, ..)| matches(route)).max_by_key(|(route, ..)| route.len);
            let frame = match bits {
                8 => [&key[..1], &[0; 11]].concat(),
                _ => [&[0; 2], &key[..]].concat(),
            };
            let out = switch.process(u32::from(port), &frame, 0)[0].0;
            prop_assert_eq!(u64::from(out), best.map_or(0x1fe, |(_, i, _)| *i));
        }
    }
}

#[test]
fn direct_counters_count_hits_and_direct_meters_mark_them() {
    let mut switch = run(program(
        "bit<8> a; bit<8> b; bit<80> w;",
        "direct_counter(CounterType.packets_and_bytes) dc;
         direct_meter<bit<8>>(MeterType.packets) dm;
         @name(\".forward\") action forward(bit<9> port) { sm.egress_spec = port; dm.read(hdr.h.b); }",
        "key = { hdr.h.a: exact; } counters = dc; meters = dm; size = 8;",
    ));
    let table = switch.table("t").unwrap();
    let handle = switch
        .insert_entry(table, &[exact(1)], 0, &run_action("forward", &[1]), 0, 0)
        .unwrap();
    let frame = [[1, 9].as_slice(), &[0; 10]].concat();
    assert_eq!(switch.process(0, &frame, 0)[0].1[1], 0);
    switch.process(0, &[0; 12], 0);
    assert_eq!(
        switch.entry(table, handle).unwrap().counter,
        Some(Counter {
            packets: 1,
            bytes: 12
        })
    );
    switch
        .set_direct_counter(
            table,
            handle,
            Counter {
                packets: 10,
                bytes: 20,
            },
        )
        .unwrap();
    let config = MeterConfig {
        cir: 0,
        cburst: 1,
        pir: 0,
        pburst: 2,
    };
    switch
        .set_direct_meter(table, handle, Some(config), 0)
        .unwrap();
    let colours: Vec<u8> = (0..3)
        .map(|_| switch.process(0, &frame, 0)[0].1[1])
        .collect();
    assert_eq!(colours, [0, 1, 2]);
    let entry = switch.entry(table, handle).unwrap();
    assert_eq!(
        (entry.counter, entry.meter),
        (
            Some(Counter {
                packets: 13,
                bytes: 56
            }),
            Some(config)
        )
    );
    assert_eq!(switch.counters()[0].table, Some(table));
}

fn switch_with_selector() -> Switch {
    let selector =
        format!("@name(\".ap\") action_selector(HashAlgorithm.identity, 32w3, 32w8) ap; {FORWARD}");
    run(program(
        "bit<8> a; bit<8> b; bit<80> w;",
        &selector,
        "key = { hdr.h.a: exact; hdr.h.b: selector; } implementation = ap; size = 8;",
    ))
}

#[test]
fn entries_may_refer_to_members_and_groups() {
    let mut switch = switch_with_selector();
    let (table, profile) = (switch.table("t").unwrap(), switch.profile("ap").unwrap());
    let member = |id, port: u8| ProfileMember {
        id,
        action: "forward".into(),
        args: vec![vec![port]],
    };
    for (id, port) in [(10, 1), (20, 2), (30, 3)] {
        switch.insert_member(profile, &member(id, port)).unwrap();
    }
    assert!(matches!(
        switch.insert_member(profile, &member(10, 1)),
        Err(ManageError::MemberExists { .. })
    ));
    let in_group = |id, weight| GroupMember {
        id,
        weight,
        active: true,
    };
    let group = ProfileGroup {
        id: 7,
        members: vec![in_group(20, 1), in_group(30, 2)],
        max_size: 0,
    };
    switch.insert_group(profile, &group).unwrap();
    let one_more = ProfileGroup {
        id: 8,
        members: vec![in_group(10, 1)],
        max_size: 0,
    };
    assert!(matches!(
        switch.insert_group(profile, &one_more),
        Err(ManageError::SelectorFull {
            sum: 4,
            size: 3,
            ..
        })
    ));
    switch
        .insert_entry(table, &[exact(1)], 0, &EntryTarget::Member(10), 0, 0)
        .unwrap();
    let by_group = switch
        .insert_entry(table, &[exact(2)], 0, &EntryTarget::Group(7), 0, 0)
        .unwrap();
    let port = |switch: &mut Switch, a: u8, b: u8| {
        switch.process(0, &[[a, b].as_slice(), &[0; 10]].concat(), 0)[0].0
    };
    assert_eq!(port(&mut switch, 1, 0), 1);
    assert_eq!([0, 1, 2, 3].map(|b| port(&mut switch, 2, b)), [2, 3, 3, 2]);
    assert_eq!(port(&mut switch, 3, 0), 0, "a miss does nothing");

    assert!(matches!(
        switch.delete_member(profile, 10),
        Err(ManageError::MemberInUse { .. })
    ));
    assert!(matches!(
        switch.delete_group(profile, 7),
        Err(ManageError::GroupInUse { .. })
    ));
    switch.modify_member(profile, &member(20, 5)).unwrap();
    assert_eq!(port(&mut switch, 2, 0), 5);
    switch
        .modify_group(
            profile,
            &ProfileGroup {
                id: 7,
                members: vec![],
                max_size: 0,
            },
        )
        .unwrap();
    assert_eq!(port(&mut switch, 2, 0), 0, "an empty group does nothing");
    switch.delete_member(profile, 20).unwrap();
    switch.set_default(table, &EntryTarget::Member(30)).unwrap();
    assert_eq!(port(&mut switch, 9, 0), 3);
    assert!(matches!(
        switch.delete_member(profile, 30),
        Err(ManageError::MemberInUse { .. })
    ));
    switch.reset_default(table).unwrap();
    switch.delete_member(profile, 30).unwrap();
    switch.delete_entry(table, by_group).unwrap();
    switch.delete_group(profile, 7).unwrap();
    assert_eq!(switch.members(profile).unwrap(), [member(10, 1)]);
    assert_eq!(switch.groups(profile).unwrap(), []);
    let rejected = switch.insert_entry(table, &[exact(9)], 0, &run_action("forward", &[1]), 0, 0);
    assert!(matches!(rejected, Err(ManageError::WrongTarget { .. })));
}
