//! Report of the machines over which a network was spread.

use serde::Serialize;

use super::report::duration;

/// The machines of a network, and the links between them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MachinesSummary {
    /// The machines, in the order of the command line.
    pub machines: Vec<MachineSummary>,
    /// Number of links whose ends are on different machines.
    pub crossing_links: usize,
    /// Maximum error of the offset between two machines' clocks, in nanoseconds of the network's clock; completion times have the same
    /// error.
    pub clock_error_ns: u64,
}

/// One of the machines over which a network was spread.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MachineSummary {
    /// Name on the command line.
    pub name: String,
    /// Address by which the other machines reach this machine.
    pub address: String,
    /// Number of switches on the machine.
    pub switches: usize,
    /// Number of hosts on the machine.
    pub hosts: usize,
    /// VXLAN implementation of the machine's links to other machines: `kernel`, or `alfirk` if the kernel has none.
    pub vxlan: String,
}

impl MachinesSummary {
    /// Formats the summary as text lines for the report.
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
    fn report_lists_machines_and_clock_error() {
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
