//! Tests of memories of tables. The expected values are those of bf-p4c 9.13.4 (p4lang/p4c at 34b86e9, `--target tofino`) for one program
//! with all these tables.

use super::{step, tna};

/// A table with the memories that bf-p4c allocates for it.
struct KnownTable {
    name: &'static str,
    /// Elements of the key.
    key: &'static str,
    /// Declaration of the action.
    action: &'static str,
    /// Further table properties.
    rest: &'static str,
    /// Blocks of SRAM and of TCAM.
    blocks: (u64, u64),
}

const PORT: &str = "port(PortId_t p) { to_tm.ucast_egress_port = p; }";
const WORD: &str = "word(bit<32> w) { hdr.op.b = w; }";
const MAC: &str = "mac(bit<48> m) { hdr.op.mac = m; }";
const WIDE: &str = "wide(bit<128> w, bit<32> b) { hdr.op.wide = w; hdr.op.b = b; }";
const DROP: &str = "drop() { to_deparser.drop_ctl = 1; }";

const fn known(
    name: &'static str,
    key: &'static str,
    action: &'static str,
    rest: &'static str,
    blocks: (u64, u64),
) -> KnownTable {
    KnownTable {
        name,
        key,
        action,
        rest,
        blocks,
    }
}

const KNOWN: [KnownTable; 13] = [
    // Four ways of one block each.
    known("small", "hdr.op.a: exact", WORD, "size = 64;", (4, 0)),
    known("large", "hdr.op.a: exact", WORD, "size = 65536;", (32, 0)),
    known("macs", "hdr.op.mac: exact", PORT, "size = 16384;", (8, 0)),
    // 16 of the 48 bits of action data are in the match entry, the rest in separate rows.
    known("rewrite", "hdr.op.half: exact", MAC, "size = 8192;", (6, 0)),
    known("values", "hdr.op.half: exact", WIDE, "size = 4096;", (8, 0)),
    known("hosts6", "hdr.op.wide: exact", PORT, "size = 4096;", (5, 0)),
    // 512 entries for a key of 9 bits: the key is the address.
    known(
        "ports",
        "intr.ingress_port: exact",
        WORD,
        "size = 512;",
        (1, 0),
    ),
    known("routes", "hdr.op.a: lpm", PORT, "size = 2048;", (1, 4)),
    known("routes6", "hdr.op.wide: lpm", PORT, "size = 1024;", (1, 6)),
    known(
        "acl",
        "hdr.op.a: ternary; hdr.op.b: ternary; hdr.op.half: ternary; hdr.op.byte: ternary",
        PORT,
        "size = 1024;",
        (1, 6),
    ),
    // A quarter of the entries is assumed to have ranges of seven rows each.
    known(
        "ranges",
        "hdr.op.a: exact; hdr.op.half: range",
        DROP,
        "size = 512;",
        (1, 6),
    ),
    known("unsized", "hdr.op.a: ternary", PORT, "", (1, 1)),
    // 256 entries for a key of 8 bits: the key is the address and is not stored.
    known("direct", "hdr.op.byte: exact", WORD, "size = 256;", (1, 0)),
];

#[test]
fn table_memories_equal_those_of_bf_p4c() {
    for KnownTable {
        name,
        key,
        action,
        rest,
        blocks,
    } in KNOWN
    {
        let only = if name == "direct" { "" } else { "NoAction;" };
        let (called, _) = action.split_once('(').expect("it has parameters");
        let locals = format!(
            "action {action} table {name} {{ key = {{ {key}; }} actions = {{ {called}; {only} }} {rest} }}"
        );
        let report = tna(&locals, &format!("{name}.apply();"));
        let takes = step(&report, name).takes;
        assert_eq!((takes.sram, takes.tcam), blocks, "{name}");
    }
}

#[test]
fn direct_counters_have_the_declared_width() {
    // 4 blocks for 4,096 entries, plus the blocks of their counters including a spare one.
    for (counter, key, blocks) in [
        ("bit<32>>(CounterType_t.PACKETS)", "hdr.op.a", 4 + 2),
        (
            "bit<64>>(CounterType_t.PACKETS_AND_BYTES)",
            "hdr.op.mac",
            4 + 5,
        ),
    ] {
        let locals = format!(
            "DirectCounter<{counter} hits;
             action port(PortId_t p) {{ hits.count(); to_tm.ucast_egress_port = p; }}
             table hosts {{ key = {{ {key}: exact; }} actions = {{ port; @defaultonly NoAction; }} size = 4096; counters = hits; }}"
        );
        let report = tna(&locals, "hosts.apply();");
        let takes = step(&report, "hosts").takes;
        assert_eq!((takes.sram, takes.statistics), (blocks, 1), "{counter}");
    }
}

#[test]
fn annotations_set_ways_and_packing() {
    let sram = |annotations: &str| {
        let locals = format!(
            "action none() {{}}
             {annotations} table t {{ key = {{ hdr.op.a: exact; }} actions = {{ none; }} size = 5120; }}"
        );
        step(&tna(&locals, "t.apply();"), "t").takes.sram
    };
    // 22 key bits without the ghost bits, and 4 version bits: four entries in a row.
    assert_eq!(sram(""), 4);
    assert_eq!(sram("@pack(1)"), 5);
    assert_eq!(sram("@pragma pack 1\n"), 5);
    // The size of each way is a power of two: 2, 1, 1 and 1 blocks.
    assert_eq!(sram("@ways(4) @pack(1)"), 5);
    assert_eq!(sram("@ways(2) @pack(1)"), 4 + 1);
    assert_eq!(sram("@ways(6)"), 6);
}

#[test]
fn register_cells_are_packed_into_rows() {
    for (cell, size, result, blocks) in [
        ("bit<1>", 131_072, "31w0 ++ look", 1 + 1),
        ("bit<8>", 16_384, "24w0 ++ look", 1 + 1),
        ("bit<16>", 65_536, "16w0 ++ look", 8 + 1),
        ("bit<32>", 32_768, "look", 8 + 1),
    ] {
        let locals = format!(
            "Register<{cell}, bit<32>>({size}) cells;
             RegisterAction<{cell}, bit<32>, {cell}>(cells) look = {{
                 void apply(inout {cell} value, out {cell} old) {{ old = value; }}
             }};"
        );
        let report = tna(&locals, &format!("hdr.op.c = {result}.execute(hdr.op.a);"));
        assert_eq!(step(&report, "cells").takes.sram, blocks, "{cell}");
    }
}

#[test]
fn hashes_and_exact_matches_use_hash_bits() {
    let report = tna(
        "Hash<bit<32>>(HashAlgorithm_t.CRC32) hash;",
        "hdr.op.c = hash.get({ hdr.op.a, hdr.op.b });",
    );
    let bits: u64 = report.used.iter().map(|used| used.hash_bits).sum();
    assert_eq!(bits, 32);
    // Ten hash bits for each of four ways.
    let exact =
        "action none() {} table t { key = { hdr.op.a: exact; } actions = { none; } size = 1024; }";
    assert_eq!(step(&tna(exact, "t.apply();"), "t").takes.hash_bits, 40);
}
