//! What a report says of the machines that a network was spread over.

use serde::Serialize;

use super::report::duration;

/// The machines of a network, and what lies between them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MachinesSummary {
    /// In the order in which they were named.
    pub machines: Vec<MachineSummary>,
    /// Links between two of them.
    pub crossing_links: usize,
    /// By how much the clocks of two machines may have been compared wrongly, in nanoseconds of the network's clock: times of
    /// completion are right to within that.
    pub clock_error_ns: u64,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MachineSummary {
    pub name: String,
    /// Towards the others.
    pub address: String,
    pub switches: usize,
    pub hosts: usize,
    /// What ends its links to others: `kernel`, or `alfirk` where the kernel has no VXLAN.
    pub vxlan: String,
}

impl MachinesSummary {
    /// For people.
    pub fn lines(&self) -> String {
        let machines = self.machines.iter().map(|machine| {
            let MachineSummary {
                name,
                switches,
                hosts,
                ..
            } = machine;
            format!("{name} ({switches} switches, {hosts} hosts)")
        });
        let machines: Vec<String> = machines.collect();
        format!(
            "machines: {}; {} links between them by VXLAN; their clocks were compared to within {}\n",
            machines.join(", "),
            self.crossing_links,
            duration(self.clock_error_ns)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_learn_who_had_what_and_how_well_clocks_agreed() {
        let machine = |name: &str, vxlan: &str| MachineSummary {
            name: name.to_owned(),
            address: "192.0.2.1".to_owned(),
            switches: 7,
            hosts: 5,
            vxlan: vxlan.to_owned(),
        };
        let summary = MachinesSummary {
            machines: vec![machine("a", "kernel"), machine("b", "alfirk")],
            crossing_links: 12,
            clock_error_ns: 1_500,
        };
        assert_eq!(
            summary.lines(),
            "machines: a (7 switches, 5 hosts), b (7 switches, 5 hosts); 12 links between them by VXLAN; their clocks were compared \
             to within 1.500 us\n"
        );
    }
}
