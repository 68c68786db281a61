//! The counters of the switch in Prometheus' exposition format.

use std::fmt::Display;

use super::{Engine, PortCounters};
use crate::metrics::Exposition;

impl Engine {
    pub(super) fn metrics(&self, now: u64) -> String {
        let mut out = Exposition::default();
        let name = "alfirk_switch_uptime_seconds";
        out.gauge(name, "Time since the switch started.")
            .sample(name, &[], now as f64 / 1e9);
        let name = "alfirk_switch_streams";
        out.gauge(name, "Clients with an open stream channel.")
            .sample(name, &[], self.clients.len());

        let name = "alfirk_port_up";
        out.gauge(name, "Whether the port's interface is up.");
        for port in self.ports.values() {
            let labels: [(&str, &dyn Display); 2] =
                [("port", &port.number), ("interface", &port.interface)];
            out.sample(name, &labels, u8::from(port.running));
        }
        let name = "alfirk_port_frames_total";
        out.counter(name, "Frames that came in or went out.");
        for port in self.ports.values() {
            let PortCounters { received, sent, .. } = port.counters;
            for (way, frames) in [("in", received), ("out", sent)] {
                out.sample(name, &[("port", &port.number), ("way", &way)], frames);
            }
        }
        let name = "alfirk_port_lost_total";
        out.counter(name, "Frames that a port lost, by what lost them.");
        for port in self.ports.values() {
            let lost = [
                ("emulated_link", port.link.lost),
                ("not_received", port.counters.not_received),
                ("queue_full", port.queues.dropped),
                ("not_sent", port.counters.unsent),
                ("malformed", port.counters.malformed),
            ];
            for (by, frames) in lost {
                out.sample(name, &[("port", &port.number), ("by", &by)], frames);
            }
        }

        let counters = self.server.counters();
        let name = "alfirk_dropped_total";
        out.counter(name, "Packets that the program or the switch dropped.");
        for (reason, packets) in &counters.drops {
            out.sample(name, &[("reason", reason)], packets);
        }
        let name = "alfirk_controller_packets_total";
        out.counter(
            name,
            "Packets to and from controllers, and packets that could not be delivered.",
        );
        let ways = [
            ("in", counters.packet_ins),
            ("out", counters.packet_outs),
            ("in_lost", counters.packet_ins_lost),
        ];
        for (way, packets) in ways {
            out.sample(name, &[("way", &way)], packets);
        }
        let name = "alfirk_register_accesses_total";
        out.counter(name, "Reads and writes of registers by packets.")
            .sample(name, &[], self.server.switch().register_accesses());
        out.into_text()
    }
}
