//! Prints labels, LIDs (InfiniBand addresses) and forwarding tables of m-port n-trees, as text or JSON.

use std::fmt::Write as _;

use alfirk_ctrl::topology;
use alfirk_ctrl::topology::n_tree::{Hop, HostLabel, Shape, SwitchLabel};
use serde_json::{json, Value};

use crate::exit::{print, Failure, Outcome};

/// Maximum number of table entries that are printed, which limits memory use.
const MAX_ENTRIES: u64 = 20_000_000;

/// Prints the LIDs of every host, and for every switch the port to which it forwards each LID (equations 1 and 2 of the
/// paper on cyclic multicast).
pub fn print_unicast(shape: Shape, json: bool) -> Outcome {
    let entries = shape.switch_count() * shape.lid_count();
    if entries > MAX_ENTRIES {
        return Err(Failure::bad_input(format_args!(
            "--tables: {} LIDs on {} switches are {entries} entries; at most {MAX_ENTRIES} are printed, use fewer ports or levels",
            shape.lid_count(),
            shape.switch_count()
        )));
    }
    let names =
        topology::m_port_n_tree(shape.ports(), shape.levels()).map_err(Failure::bad_input)?;
    let hosts = shape.hosts().zip(names.hosts()).map(|(label, host)| {
        let first = shape.base_lid(&label);
        (
            label,
            &host.name,
            first,
            first + u64::from(shape.paths()) - 1,
        )
    });
    let switches = shape.switches().zip(names.switches());
    let table = |switch: &SwitchLabel| -> Vec<u32> {
        (1..=shape.lid_count())
            .map(|lid| {
                shape
                    .output_port(switch, lid)
                    .expect("these LIDs have owners")
            })
            .collect()
    };
    if json {
        let hosts = hosts.map(|(label, name, first, last)| {
            json!({ "label": label.to_string(), "name": name, "lids": [first, last] })
        });
        let switches = switches.map(|(label, switch)| {
            // The position in the list, from 1, is the LID.
            json!({ "label": label.to_string(), "name": switch.name, "ports": table(&label) })
        });
        let object = json!({
            "ports": shape.ports(),
            "levels": shape.levels(),
            "lmc": shape.lmc().ok(),
            "hosts": hosts.collect::<Vec<Value>>(),
            "switches": switches.collect::<Vec<Value>>(),
        });
        return print(format_args!("{object}\n"));
    }
    let mut out = String::new();
    let (ports, levels) = (shape.ports(), shape.levels());
    out += &format!("{ports}-port {levels}-tree, ");
    out += &match shape.lmc() {
        Ok(lmc) => format!("LMC {lmc}\n\n"),
        Err(why) => format!("not an InfiniBand subnet: {why}\n\n"),
    };
    for (label, name, first, last) in hosts {
        let _ = writeln!(out, "{label}  {name}  LIDs {}", range(first, last));
    }
    for (label, switch) in switches {
        let _ = write!(out, "\n{label}  {}", switch.name);
        for (lids, port) in lid_ranges(&table(&label)) {
            let _ = write!(out, "\n  {lids} -> port {port}");
        }
        out.push('\n');
    }
    print(out)
}

/// Prints the paths of the packets of a multicast from the first host of `group` to the others, and the multicast table
/// of each switch.
pub fn print_multicast(shape: Shape, group: &[HostLabel], json: bool) -> Outcome {
    for host in group {
        if !shape.has_host(host) {
            let (ports, levels) = (shape.ports(), shape.levels());
            let last = shape.host(shape.host_count() - 1);
            return Err(Failure::bad_input(format_args!(
                "--multicast: a {ports}-port {levels}-tree has no host {host}; its hosts are {} to {last}",
                shape.host(0)
            )));
        }
    }
    let [source, destinations @ ..] = group else {
        return Ok(());
    };
    if destinations.is_empty() {
        return Err(Failure::bad_input(
            "--multicast: name the source and at least one more host",
        ));
    }
    let paths: Vec<_> = destinations
        .iter()
        .map(|to| (to, shape.select_lid(source, to), shape.path(source, to)))
        .collect();
    let table = shape.multicast(source, destinations);
    if json {
        let paths = paths.iter().map(|(to, dlid, hops)| {
            json!({ "to": to.to_string(), "dlid": dlid, "ports": traversed(hops).collect::<Vec<_>>() })
        });
        let switches = table
            .iter()
            .map(|(switch, ports)| json!({ "label": switch.to_string(), "ports": ports }));
        let object = json!({
            "source": source.to_string(),
            "paths": paths.collect::<Vec<Value>>(),
            "multicast": switches.collect::<Vec<Value>>(),
        });
        return print(format_args!("{object}\n"));
    }
    let mut out = String::new();
    for (to, dlid, hops) in &paths {
        let ports: Vec<_> = traversed(hops).collect();
        let _ = writeln!(out, "{source} to {to}: DLID {dlid}, {}", ports.join(" "));
    }
    let dlids: Vec<_> = paths.iter().map(|(_, dlid, _)| dlid.to_string()).collect();
    let _ = writeln!(out, "\nDLID = {{{}}}", dlids.join(", "));
    for (switch, ports) in &table {
        let ports: Vec<_> = ports.iter().map(u32::to_string).collect();
        let _ = writeln!(out, "{switch} = {{{}}}", ports.join(", "));
    }
    print(out)
}

/// Ports on a path in the paper's notation: ingress and egress port of each switch.
fn traversed(hops: &[Hop]) -> impl Iterator<Item = String> + '_ {
    hops.iter()
        .flat_map(|hop| [hop.ingress, hop.egress].map(|port| format!("{}_{port}", hop.switch)))
}

/// Groups consecutive LIDs with the same port into ranges. `ports`: port of each LID, from LID 1 on.
fn lid_ranges(ports: &[u32]) -> Vec<(String, u32)> {
    let mut runs = Vec::new();
    let mut first = 0;
    for at in 1..=ports.len() {
        if ports.get(at) != Some(&ports[first]) {
            runs.push((range(first as u64 + 1, at as u64), ports[first]));
            first = at;
        }
    }
    runs
}

fn range(first: u64, last: u64) -> String {
    match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    }
}
