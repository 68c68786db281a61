//! Generator of full meshes: one switch per host, and a link between every two switches.

use super::{check, GenerateError, GeneratorBuilder};
use crate::topology::{End, Topology};

/// Generates `hosts` switches (`s1`, ...) with one host each, every two of them linked.
///
/// Every pair of hosts has a link of its own, as analyses of overlays assume (RDMC, section 4.5). Port 1 of a switch leads to
/// its host, the other ports to the other switches in order. Host `i` (from 0) has the address 10.0.i.1.
pub fn mesh(hosts: u32) -> Result<Topology, GenerateError> {
    let good = (2..=255).contains(&hosts);
    check("mesh", "hosts", hosts, good, "2 to 255")?;
    let mut builder = GeneratorBuilder::new(format!("mesh-{hosts}"));
    let switches: Vec<_> = (1..=hosts)
        .map(|i| builder.switch(format!("s{i}")))
        .collect();
    for (i, switch) in (0u8..).zip(&switches) {
        let host = builder.host([10, 0, i, 1]);
        builder.link(End::host(host), End::switch(*switch, 1));
    }
    for (i, a) in (0..).zip(&switches) {
        for (j, b) in (0..).zip(&switches).skip(i as usize + 1) {
            // Ports are numbered by the index of the peer, without the switch itself.
            builder.link(End::switch(*a, 1 + j), End::switch(*b, 2 + i));
        }
    }
    Ok(builder.build())
}
