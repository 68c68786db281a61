//! Topologies as YAML text, one line per node and link.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use super::{End, LinkAttributes, Node, Topology};
use alfirk_units::{RATE, SIZE, TIME};

impl Topology {
    /// Prints a YAML document that parses to an equal topology.
    ///
    /// Links contain only the attributes that differ from the defaults.
    pub fn to_yaml(&self) -> String {
        let mut out = String::new();
        self.write_yaml(&mut out)
            .expect("writing to a string does not fail");
        out
    }

    fn write_yaml(&self, out: &mut String) -> fmt::Result {
        let LinkAttributes {
            rate_bps,
            delay_ns,
            mtu,
            queue_bytes,
        } = self.defaults;
        writeln!(out, "name: {}", scalar(&self.name))?;
        writeln!(
            out,
            "defaults: {{rate: {}, delay: {}, mtu: {mtu}, queue: {}}}",
            RATE.show(rate_bps),
            TIME.show(delay_ns),
            SIZE.show(queue_bytes)
        )?;
        if !self.switching.is_default() {
            writeln!(out, "switch: {}", self.switching)?;
        }
        let mut machines: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for (node, number) in self.stated_machines() {
            let names = machines.entry(number).or_default();
            names.push(scalar(self.name_of(node)));
        }
        if !machines.is_empty() {
            let lists = machines.iter();
            let lists = lists.map(|(number, names)| format!("{number}: [{}]", names.join(", ")));
            let lists: Vec<String> = lists.collect();
            writeln!(out, "machines: {{{}}}", lists.join(", "))?;
        }
        writeln!(out, "switches:")?;
        for switch in &self.switches {
            let name = scalar(&switch.name);
            writeln!(out, "  - {{name: {name}, id: {}}}", switch.device_id)?;
        }
        if self.hosts.is_empty() {
            writeln!(out, "hosts: []")?;
        } else {
            writeln!(out, "hosts:")?;
        }
        for host in &self.hosts {
            writeln!(
                out,
                "  - {{name: {}, ip: {}/{}, mac: \"{}\"}}",
                scalar(&host.name),
                host.ip,
                host.prefix_len,
                host.mac
            )?;
        }
        if self.links.is_empty() {
            writeln!(out, "links: []")?;
        } else {
            writeln!(out, "links:")?;
        }
        for link in &self.links {
            let [a, b] = link.ends;
            write!(out, "  - {{ends: [{}, {}]", self.end(a), self.end(b))?;
            let own = link.attributes;
            if own.rate_bps != rate_bps {
                write!(out, ", rate: {}", RATE.show(own.rate_bps))?;
            }
            if own.delay_ns != delay_ns {
                write!(out, ", delay: {}", TIME.show(own.delay_ns))?;
            }
            if own.mtu != mtu {
                write!(out, ", mtu: {}", own.mtu)?;
            }
            if own.queue_bytes != queue_bytes {
                write!(out, ", queue: {}", SIZE.show(own.queue_bytes))?;
            }
            writeln!(out, "}}")?;
        }
        Ok(())
    }

    fn end(&self, end: End) -> String {
        match end.node {
            Node::Switch(_) => format!("\"{}\"", self.show_end(end)),
            Node::Host(_) => scalar(self.name_of(end.node)),
        }
    }
}

/// A name as a YAML scalar: plain, or quoted where a reader could take it for another type.
fn scalar(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    match lower.as_str() {
        "y" | "n" | "yes" | "no" | "on" | "off" | "true" | "false" | "null" => {
            format!("\"{name}\"")
        }
        _ => name.to_owned(),
    }
}
