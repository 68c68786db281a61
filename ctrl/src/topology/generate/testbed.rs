//! Generator of the smallest useful network.

use super::GeneratorBuilder;
use crate::topology::{End, Topology};

/// Generates one switch, `s1`, with four hosts on its ports 1 to 4.
pub fn testbed() -> Topology {
    let mut builder = GeneratorBuilder::new("testbed".to_owned());
    let switch = builder.switch("s1".to_owned());
    for n in 1..=4 {
        let host = builder.host([10, 0, 0, n]);
        builder.link(End::host(host), End::switch(switch, u32::from(n)));
    }
    builder.build()
}
