//! IPv4 routing by SAI P4, the model of a fixed-function switch of google/sonic-pins: `cargo bench -p alfirk-bmv2 --bench sai`.
//!
//! The program is not part of this repository: `SONIC_PINS` names a checkout of sonic-net/sonic-pins. Times are measured as in
//! `peers`.

#[path = "common/engines.rs"]
mod engines;
#[path = "common/group.rs"]
#[allow(dead_code)]
mod group;

use alfirk_bmv2::{KeyMatch, LoadedProgram, Switch};
use alfirk_bmv2_json::BmV2Json;
use alfirk_compiler::driver::CompileOptions;
use alfirk_compiler::preproc::MacroOption;
use engines::{frames, Report, Work};
use group::{exact, insert, ipv4, json_with, processor_time, set_checksum, switch_with};
use std::cell::Cell;
use std::path::Path;

const CASE: &str = "SAI P4, 10,000 routes, 500 ACL entries";
/// Environment variable with the path of a checkout of sonic-net/sonic-pins.
const VARIABLE: &str = "SONIC_PINS";
/// The program of a middle block of a Clos network, in the checkout.
const PROGRAM: &str = "sai_p4/instantiations/google/middleblock.p4";

const ROUTES: u32 = 10_000;
/// Next hops, each with a neighbor.
const NEXT_HOPS: u32 = 200;
/// Router interfaces, each with a port.
const INTERFACES: u32 = 32;
/// Frames, each to another route.
const FRAMES: u32 = 2_000;
const VRF: u64 = 1;
const MY_MAC: u64 = 0x0200_0000_0001;
const UDP: u64 = 17;

/// Fields of an ACL entry with value and mask; other fields match any value.
type Fields<'a> = &'a [(&'a str, u64, u64)];
/// Masks of a field's first bits, or of all bits.
const BITS_22: u64 = 0xffff_fc00;
const BITS_24: u64 = 0xffff_ff00;
const BITS_32: u64 = 0xffff_ffff;
const ALL: u64 = u64::MAX;

fn main() {
    let report = Report::from_args();
    let json = match sai_program() {
        Ok(json) => json,
        Err(why) => return report.remark(CASE, &format!("NOT RUN: {why}")),
    };
    report.head();
    let insertion = Cell::new(0);
    report.measure(CASE, &|engine| {
        let program = LoadedProgram::from_typed(&json).unwrap_or_else(|e| panic!("{PROGRAM}: {e}"));
        let mut switch = switch_with(program, engine);
        let start = processor_time();
        insert_routing(&mut switch);
        insert_acl(&mut switch);
        insertion.set(processor_time() - start);
        routed(switch)
    });
    if insertion.get() > 0 {
        let time = insertion.get() as f64 / 1e6;
        report.remark(
            CASE,
            &format!("all entries inserted in {time:.0} ms of processor time"),
        );
    }
}

/// Compiles the program of the checkout.
fn sai_program() -> Result<BmV2Json, String> {
    let Some(checkout) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) else {
        return Err(format!(
            "set {VARIABLE} to a checkout of https://github.com/sonic-net/sonic-pins"
        ));
    };
    let source = Path::new(&checkout).join(PROGRAM);
    if !source.is_file() {
        return Err(format!(
            "{VARIABLE} is not a checkout of sonic-pins: it has no file {}",
            source.display()
        ));
    }
    let mut options = CompileOptions::new(source);
    let bmv2 = MacroOption::Define("PLATFORM_BMV2".to_owned());
    options.preprocessor.macros.push(bmv2);
    json_with(options).map_err(|error| error.to_string())
}

/// Returns the next hop of a route.
fn next_hop(route: u32) -> u32 {
    route % NEXT_HOPS
}

/// Returns the router interface of a next hop. Its port is one more.
fn interface(next_hop: u32) -> u32 {
    next_hop % INTERFACES
}

fn source_mac(interface: u32) -> u64 {
    0x0200_0000_0100 + u64::from(interface)
}

fn neighbor_mac(next_hop: u32) -> u64 {
    0x0200_0000_0200 + u64::from(next_hop)
}

/// Returns the first address of a route: routes are disjoint, and have 22 to 24 bits.
fn address(route: u32) -> u32 {
    0x0a00_0000 | route << 10
}

/// Adds a VRF with its routes, and what they refer to. Identifiers of next hops and interfaces begin with 1.
fn insert_routing(switch: &mut Switch) {
    let vrf_table = "ingress.routing_lookup.vrf_table";
    insert(switch, vrf_table, &[exact(VRF)], 0, "no_action", &[]);
    let table = "ingress.acl_pre_ingress.acl_pre_ingress_table";
    let set_vrf = "ingress.acl_pre_ingress.set_vrf";
    let ipv4 = ternary(switch, table, &[("is_ipv4", 1, ALL)]);
    insert(switch, table, &ipv4, 1, set_vrf, &[VRF]);
    let table = "ingress.l3_admit.l3_admit_table";
    let my_mac = ternary(switch, table, &[("dst_mac", MY_MAC, ALL)]);
    insert(
        switch,
        table,
        &my_mac,
        1,
        "ingress.l3_admit.admit_to_l3",
        &[],
    );
    for i in 0..INTERFACES {
        let args = [u64::from(i) + 1, source_mac(i)];
        insert(
            switch,
            "ingress.routing_resolution.router_interface_table",
            &[exact(u64::from(i) + 1)],
            0,
            "ingress.routing_resolution.set_port_and_src_mac",
            &args,
        );
    }
    for hop in 0..NEXT_HOPS {
        let (number, interface) = (u64::from(hop) + 1, u64::from(interface(hop)) + 1);
        insert(
            switch,
            "ingress.routing_resolution.neighbor_table",
            &[exact(interface), exact(number)],
            0,
            "ingress.routing_resolution.set_dst_mac",
            &[neighbor_mac(hop)],
        );
        insert(
            switch,
            "ingress.routing_resolution.nexthop_table",
            &[exact(number)],
            0,
            "ingress.routing_resolution.set_ip_nexthop",
            &[interface, number],
        );
    }
    for route in 0..ROUTES {
        let prefix = KeyMatch::Lpm {
            value: address(route).to_be_bytes().to_vec(),
            prefix_len: 22 + route % 3,
        };
        insert(
            switch,
            "ingress.routing_lookup.ipv4_table",
            &[exact(VRF), prefix],
            0,
            "set_nexthop_id",
            &[u64::from(next_hop(route)) + 1],
        );
    }
}

/// Adds 500 entries to the three tables of the ingress ACL, of which each holds 255. The last entry of each matches all frames;
/// of the others, those that drop match none of the benchmark's frames.
fn insert_acl(switch: &mut Switch) {
    let forward = "ingress.acl_ingress.acl_forward";
    let table = "ingress.acl_ingress.acl_ingress_table";
    for i in 0..200 {
        let (fields, action): (Fields, _) = match (i, i % 4) {
            (199, _) => (&[], forward),
            (_, 0) => (
                &[("is_ipv4", 1, ALL), ("src_ip", 0xac10_0000 | i, BITS_32)],
                "acl_drop",
            ),
            (_, 1) => (
                &[
                    ("is_ipv4", 1, ALL),
                    ("dst_ip", u64::from(address(i as u32)), BITS_22),
                    ("ip_protocol", UDP, ALL),
                ],
                forward,
            ),
            (_, 2) => (
                &[
                    ("is_ip", 1, ALL),
                    ("ip_protocol", 6, ALL),
                    ("l4_dst_port", i, ALL),
                ],
                "acl_drop",
            ),
            _ => (
                &[
                    ("ether_type", 0x0806, ALL),
                    ("arp_tpa", 0xac10_0000 | i, BITS_32),
                ],
                "acl_drop",
            ),
        };
        insert_ternary(switch, table, fields, i, action);
    }
    let table = "ingress.acl_ingress.acl_ingress_mirror_and_redirect_table";
    for i in 0..150 {
        let fields: Fields = match (i, i % 3) {
            (149, _) => &[],
            (_, 0) => &[
                ("is_ipv4", 1, ALL),
                ("dst_ip", 0xc0a8_0000 | i << 8, BITS_24),
            ],
            (_, 1) => &[("in_port", 100 + i, ALL)],
            _ => &[
                ("is_ipv4", 1, ALL),
                ("dst_ip", 0xc0a8_0001 | i << 8, BITS_32),
            ],
        };
        insert_ternary(switch, table, fields, i, forward);
    }
    let table = "ingress.acl_ingress.acl_ingress_security_table";
    for i in 0..150 {
        let (fields, action): (Fields, _) = match (i, i % 2) {
            (149, _) => (&[], forward),
            (_, 0) => (
                &[
                    ("is_ipv4", 1, ALL),
                    ("src_ip", 0xac11_0000 | i << 8, BITS_24),
                ],
                "acl_drop",
            ),
            _ => (
                &[("is_ipv4", 1, ALL), ("dst_ip", 0xac11_0000 | i, BITS_32)],
                "ingress.acl_ingress.acl_deny",
            ),
        };
        insert_ternary(switch, table, fields, i, action);
    }
}

/// Adds an entry of an ACL table, with an action without parameters.
fn insert_ternary(switch: &mut Switch, table: &str, fields: Fields, priority: u64, action: &str) {
    let key = ternary(switch, table, fields);
    insert(switch, table, &key, priority as i32 + 1, action, &[]);
}

/// Returns the key of an entry of a table whose fields are ternary.
fn ternary(switch: &Switch, table: &str, fields: Fields) -> Vec<KeyMatch> {
    let info = switch
        .table(table)
        .and_then(|id| switch.table_info(id))
        .unwrap_or_else(|e| panic!("{table}: {e}"));
    for (name, ..) in fields {
        assert!(
            info.keys.iter().any(|key| key.name == *name),
            "{table} has no key field {name}"
        );
    }
    let key = info.keys.iter().map(|key| {
        let field = fields.iter().find(|(name, ..)| *name == key.name);
        let (value, mask) = field.map_or((0, 0), |(_, value, mask)| (*value, *mask));
        // Masks of narrow fields have no more bits than these.
        let mask = mask & ALL >> (64 - key.bits.min(64));
        KeyMatch::Ternary {
            value: value.to_be_bytes().to_vec(),
            mask: mask.to_be_bytes().to_vec(),
        }
    });
    key.collect()
}

/// Checks that frames are routed to ports and neighbors as expected; returns the work of routing them.
fn routed(mut switch: Switch) -> Work {
    let received = (0..FRAMES).map(|i| {
        let route = i * (ROUTES / FRAMES);
        let ports = [0x0f, 0xa0, 0x12, 0xb7, 0, 30, 0, 0];
        let payload = [&ports[..], &[0; 22]].concat();
        let frame = ipv4(0x0b00_0001, address(route) | 1, UDP as u8, &payload);
        let hop = next_hop(route);
        let mut expected = frame.clone();
        expected[0..6].copy_from_slice(&neighbor_mac(hop).to_be_bytes()[2..]);
        expected[6..12].copy_from_slice(&source_mac(interface(hop)).to_be_bytes()[2..]);
        expected[22] -= 1;
        set_checksum(&mut expected[14..34]);
        let sent = switch.process(1, &frame, 0);
        assert_eq!(sent, [(interface(hop) + 1, expected)], "route {route}");
        (1, frame)
    });
    let received = received.collect();
    frames(switch, received, 1)
}
