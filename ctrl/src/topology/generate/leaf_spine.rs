//! Generator of leaf-spine networks: two layers, every leaf switch linked to every spine switch.

use super::{check, GenerateError, GeneratorBuilder};
use crate::topology::{End, Topology};

/// Generates `leaves` leaf switches (`l1`, ...) with `hosts_per_leaf` hosts each, all linked to `spines` spine switches
/// (`s1`, ...).
///
/// Leaf ports: hosts first, then spines.  Spine port `i` leads to leaf `i`.  Host `j` of leaf `i` (from 0) has
/// the address 10.(i / 256).(i mod 256).(j + 1).
pub fn leaf_spine(
    leaves: u32,
    spines: u32,
    hosts_per_leaf: u32,
) -> Result<Topology, GenerateError> {
    let name = "leaf-spine";
    let one_to = |n| 1..=n;
    check(
        name,
        "leaves",
        leaves,
        one_to(End::MAX_PORT).contains(&leaves),
        "1 to 509",
    )?;
    check(
        name,
        "spines",
        spines,
        one_to(255).contains(&spines),
        "1 to 255",
    )?;
    check(
        name,
        "hosts per leaf",
        hosts_per_leaf,
        one_to(254).contains(&hosts_per_leaf),
        "1 to 254",
    )?;

    let mut builder =
        GeneratorBuilder::new(format!("leaf-spine-{leaves}x{spines}x{hosts_per_leaf}"));
    let leaf_switches: Vec<_> = (1..=leaves)
        .map(|i| builder.switch(format!("l{i}")))
        .collect();
    let spine_switches: Vec<_> = (1..=spines)
        .map(|i| builder.switch(format!("s{i}")))
        .collect();
    for (i, leaf) in (0u16..).zip(&leaf_switches) {
        let [hi, lo] = i.to_be_bytes();
        for (j, port) in (1u8..).zip(1..=hosts_per_leaf) {
            let host = builder.host([10, hi, lo, j]);
            builder.link(End::host(host), End::switch(*leaf, port));
        }
    }
    for (i, leaf) in (1..).zip(&leaf_switches) {
        for (j, spine) in (1..).zip(&spine_switches) {
            builder.link(
                End::switch(*leaf, hosts_per_leaf + j),
                End::switch(*spine, i),
            );
        }
    }
    Ok(builder.build())
}
