//! Forwarding tables of m-port n-trees: equations 1 and 2 for one destination, unions of paths for multicast (section 3.3
//! of the paper by Zhou, Lin and Chung, see [`super`]).

use std::collections::{BTreeMap, BTreeSet};

use super::{Above, Below, HostLabel, Shape, SwitchLabel};

/// One hop of a path: a switch with ingress and egress port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Label of the switch.
    pub switch: SwitchLabel,
    /// Ingress port of the packet.
    pub ingress: u32,
    /// Egress port of the packet.
    pub egress: u32,
}

impl Shape {
    /// Whether the host is in the subtree below this switch.
    pub fn is_below(self, switch: &SwitchLabel, host: &HostLabel) -> bool {
        let level = switch.level as usize;
        switch.digits[..level] == host.0[..level]
    }

    /// Output port of a switch for packets with this destination LID; `None` if no host has it.
    pub fn output_port(self, switch: &SwitchLabel, lid: u64) -> Option<u32> {
        let owner = self.owner(lid)?;
        if self.is_below(switch, &owner) {
            // Equation 1.
            return Some(owner.0[switch.level as usize] + 1);
        }
        // Equation 2.
        let half = u64::from(self.half());
        let digit = (lid - 1) / half.pow(self.levels() - 1 - switch.level) % half;
        Some(digit as u32 + self.half() + 1)
    }

    /// Path from one host to another, by the destination LID that the source selects; empty from a host to itself.
    pub fn path(self, source: &HostLabel, destination: &HostLabel) -> Vec<Hop> {
        let mut hops = Vec::new();
        if source == destination {
            return hops;
        }
        let lid = self.select_lid(source, destination);
        let (mut switch, mut ingress) = self.leaf(source);
        loop {
            let egress = self.output_port(&switch, lid);
            let egress = egress.expect("the destination has this LID");
            let hop = Hop {
                switch: switch.clone(),
                ingress,
                egress,
            };
            hops.push(hop);
            (switch, ingress) = match self.below(&switch, egress) {
                Some(Below::Host(_)) => return hops,
                Some(Below::Switch(lower, port)) => (lower, port),
                None => {
                    let above = self.above(&switch, egress);
                    let Above { switch, port } = above.expect("the ports of the top lead down");
                    (switch, port)
                }
            };
        }
    }

    /// Multicast forwarding table: output ports of each switch for packets of `source` to all `destinations` but the source.
    ///
    /// It is the union of the paths to all destinations, switch by switch. Section 3.3.2 can also be read as the ports for *all*
    /// destination LIDs in *every* switch. Then a switch on the way down would send packets up again, for members not below it.
    pub fn multicast<'a>(
        self,
        source: &HostLabel,
        destinations: impl IntoIterator<Item = &'a HostLabel>,
    ) -> BTreeMap<SwitchLabel, BTreeSet<u32>> {
        let mut table: BTreeMap<SwitchLabel, BTreeSet<u32>> = BTreeMap::new();
        for destination in destinations {
            for hop in self.path(source, destination) {
                table.entry(hop.switch).or_default().insert(hop.egress);
            }
        }
        table
    }
}
