//! Generator of m-port n-trees: fat-trees of n levels of m-port switches, used in InfiniBand clusters (Lin, Chung, Huang,
//! IPDPS 2004). Cyclic multicast is defined on them.

use std::collections::BTreeMap;

use super::{GenerateError, GeneratorBuilder};
use crate::topology::n_tree::Shape;
use crate::topology::{End, Topology};

/// Generates `2 (m/2)^n` hosts and `(2n - 1) (m/2)^(n-1)` switches of `m` ports in `n` levels, with the links of [`Shape`].
///
/// Switches are named after level and position within it, `l0s1`, top level first; hosts are in the order of their
/// digits.
pub fn m_port_n_tree(m: u32, n: u32) -> Result<Topology, GenerateError> {
    let shape = Shape::new(m, n)?;
    let mut builder = GeneratorBuilder::new(format!("m{m}-port-n{n}-tree"));
    let mut switches = BTreeMap::new();
    let mut before = 0;
    for label in shape.switches() {
        if label.digits.iter().all(|digit| *digit == 0) {
            before = switches.len();
        }
        let name = format!("l{}s{}", label.level, switches.len() + 1 - before);
        switches.insert(label, builder.switch(name));
    }
    for (number, label) in (0u32..).zip(shape.hosts()) {
        let [_, a, b, _] = ((number / 254) << 8).to_be_bytes();
        let c = u8::try_from(number % 254 + 1).expect("254 addresses per block");
        let host = builder.host([10, a, b, c]);
        let (leaf, port) = shape.leaf(&label);
        builder.link(End::host(host), End::switch(switches[&leaf], port));
    }
    for (lower, switch) in &switches {
        for port in shape.half() + 1..=m {
            if let Some(above) = shape.above(lower, port) {
                let upper = switches[&above.switch];
                builder.link(End::switch(*switch, port), End::switch(upper, above.port));
            }
        }
    }
    Ok(builder.build())
}
