//! The smallest useful network.

use super::Fabric;
use crate::topology::{End, Topology};

/// One switch, `s1`, with four hosts on its ports 1 to 4.
pub fn testbed() -> Topology {
    let mut fabric = Fabric::new("testbed".to_owned());
    let switch = fabric.switch("s1".to_owned());
    for n in 1..=4 {
        let host = fabric.host([10, 0, 0, n]);
        fabric.link(End::host(host), End::switch(switch, u32::from(n)));
    }
    fabric.build()
}
