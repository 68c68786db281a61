//! `alfirk topology`: generates, checks and exports topology files, and prints the InfiniBand forwarding tables of
//! m-port n-trees.

mod containerlab;
mod kathara;
mod tables;

use std::collections::BTreeSet;

use alfirk_ctrl::controller::{Controller, ControllerConfig};
use alfirk_ctrl::topology::n_tree::{HostLabel, Shape};
use alfirk_ctrl::topology::{self, FatTreeShape, Node, Topology, GENERATOR_FORMS};
use alfirk_roce::rc::PathMtu;
use alfirk_units::{RATE, SIZE, TIME};
use clap::Subcommand;
use serde_json::json;

use crate::exit::{print, Failure, Outcome};
use crate::program::{self, Target};
use crate::run::machines::PlacementArgs;

/// Generate, check and export networks as YAML, for --topology of run, ctrl and Mininet.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  alfirk topology fat-tree --k 8 > fat-tree-k8.yaml
  alfirk topology fat-tree --k 64 --pods 16 > 16384-hosts.yaml
  alfirk topology fat-tree --k 64 --pods 4 --edges 8 > 1024-hosts.yaml
  alfirk topology leaf-spine --leaves 4 --spines 2 --hosts 4
  alfirk topology n-tree --ports 8 --levels 3 > m8-port-n3-tree.yaml
  alfirk topology n-tree --ports 4 --levels 3 --tables
  alfirk topology n-tree --ports 4 --levels 3 --multicast 000,200,201,210,211
  alfirk topology check fat-tree-k8.yaml
  alfirk topology place fat-tree:8 --machines a,b,c
  alfirk topology containerlab fat-tree:4 --machines a=192.0.2.1,b=192.0.2.2 --out lab
  alfirk topology kathara leaf-spine:4,2,4 --out lab")]
pub struct Args {
    #[command(subcommand)]
    kind: Kind,

    /// Print one JSON object instead of text: the network's size; for `check` the whole network; for `place` the nodes of each
    /// machine; with --tables or --multicast the tables
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Kind {
    /// Generate a k-ary fat-tree: k pods, k^3/4 hosts, 5k^2/4 switches of k ports
    #[command(alias = "fattree")]
    FatTree {
        /// Ports per switch, even
        #[arg(long, value_name = "PORTS", default_value_t = 4)]
        k: u32,
        /// Number of pods, if fewer than k: even, and a divisor of k. There are then pods k^2/4 hosts
        #[arg(long, value_name = "N")]
        pods: Option<u32>,
        /// Edge switches of a pod, if fewer than k/2: a divisor of k/2
        #[arg(long, value_name = "N")]
        edges: Option<u32>,
    },
    /// Generate a leaf-spine: leaves with hosts, each leaf linked to every spine
    #[command(alias = "leafspine")]
    LeafSpine {
        /// Number of leaves
        #[arg(long, value_name = "N", default_value_t = 4)]
        leaves: u32,
        /// Number of spines
        #[arg(long, value_name = "N", default_value_t = 2)]
        spines: u32,
        /// Hosts per leaf
        #[arg(long, value_name = "N", default_value_t = 4)]
        hosts: u32,
    },
    /// Generate an m-port n-tree: 2(m/2)^n hosts on n levels of m-port switches
    #[command(alias = "m-port-n-tree")]
    NTree {
        /// m: ports per switch, even
        #[arg(long, alias = "m", value_name = "M")]
        ports: u32,
        /// n: levels of switches
        #[arg(long, alias = "n", value_name = "N")]
        levels: u32,
        /// Print labels, LIDs and the forwarding table of each switch (InfiniBand) instead of the network
        #[arg(long)]
        tables: bool,
        /// Print the DLIDs that the first of these hosts chooses for the others, the paths and the multicast table, for
        /// cyclic multicast; hosts are given by their digits: 000,200,201
        #[arg(
            long,
            value_name = "HOSTS",
            value_delimiter = ',',
            conflicts_with = "tables"
        )]
        multicast: Vec<HostLabel>,
    },
    /// Generate a full mesh: one switch for each host, and a link between each pair
    Mesh {
        /// Number of hosts
        #[arg(long, value_name = "N", default_value_t = 8)]
        hosts: u32,
    },
    /// Generate the testbed: one switch with four hosts
    Testbed,
    /// Export the network for containerlab, on one machine or several
    Containerlab(containerlab::Args),
    /// Export the network for Kathara
    Kathara(kathara::Args),
    /// Print the placement of nodes on several machines, and the links between machines
    Place {
        /// The network: a file or generator, as for `alfirk run --topology`
        #[arg(value_name = "FILE")]
        file: std::path::PathBuf,
        #[command(flatten)]
        placement: PlacementArgs,
    },
    /// Check a file, and print it in the generators' form, with the buffer headroom that its links need
    Check {
        /// The topology file
        #[arg(value_name = "FILE")]
        file: std::path::PathBuf,
    },
}

/// Runs `alfirk topology`.
pub fn run(args: Args) -> Outcome {
    let generated = |result: Result<Topology, _>| result.map_err(Failure::bad_input);
    let is_checked = matches!(args.kind, Kind::Check { .. });
    let topology = match args.kind {
        Kind::FatTree { k, pods, edges } => generated(FatTreeShape::with(k, pods, edges).build())?,
        Kind::LeafSpine {
            leaves,
            spines,
            hosts,
        } => generated(topology::leaf_spine(leaves, spines, hosts))?,
        Kind::NTree {
            ports,
            levels,
            tables,
            multicast,
        } => {
            let shape = Shape::new(ports, levels).map_err(Failure::bad_input)?;
            if tables {
                return tables::print_unicast(shape, args.json);
            }
            if !multicast.is_empty() {
                return tables::print_multicast(shape, &multicast, args.json);
            }
            generated(topology::m_port_n_tree(ports, levels))?
        }
        Kind::Mesh { hosts } => generated(topology::mesh(hosts))?,
        Kind::Testbed => topology::testbed(),
        Kind::Containerlab(args) => return containerlab::run(&args),
        Kind::Kathara(args) => return kathara::run(&args),
        Kind::Place { file, placement } => {
            return print_placement(&read(&file)?, &placement, args.json);
        }
        Kind::Check { file } => {
            let topology = read(&file)?;
            check_usable(&topology)?;
            topology
        }
    };
    if args.json {
        let mut object = json!({
            "name": topology.name(),
            "hosts": topology.hosts().len(),
            "switches": topology.switches().len(),
            "links": topology.links().len(),
        });
        if is_checked {
            object["network"] = network_json(&topology);
        }
        return print(format_args!("{object}\n"));
    }
    print(topology.to_yaml())?;
    if is_checked {
        print(buffer_comments(&topology))?;
    }
    Ok(())
}

/// Returns an error for a network that `alfirk run` rejects with any flags: the controller cannot route its addresses,
/// an address is a group address, or the MTU of a link is too small for a RoCE packet.
fn check_usable(topology: &Topology) -> Result<(), Failure> {
    let links = topology.links().iter();
    let smallest = links.map(|link| link.attributes.mtu).min().unwrap_or(0);
    PathMtu::for_ip_mtu(smallest).map_err(Failure::bad_input)?;
    let program = program::compile_program(Target::V1model, None)?;
    let config = ControllerConfig::new(program.p4info, program.device_config);
    Controller::new(topology.clone(), config).map_err(Failure::bad_input)?;
    Ok(())
}

/// Prints the placement: the nodes of each machine, and the links between machines.
fn print_placement(topology: &Topology, placement: &PlacementArgs, is_json: bool) -> Outcome {
    let (machines, placement) = placement
        .check(topology)?
        .ok_or_else(|| Failure::bad_input("--machines: name the machines, such as a,b"))?;
    let nodes = (0..machines.len()).map(|number| {
        let nodes = placement.nodes_of(number);
        nodes.map(|node| topology.name_of(node)).collect::<Vec<_>>()
    });
    let crossing = placement.crossing(topology).map(|(link, _)| {
        let ends = topology
            .link(link)
            .ends
            .map(|end| topology.show_end(end).to_string());
        ends.join(" - ")
    });
    let crossing: Vec<String> = crossing.collect();
    let named = machines.iter().zip(nodes);
    if is_json {
        let machines: Vec<_> = named
            .map(|(machine, nodes)| json!({"name": machine.name, "nodes": nodes}))
            .collect();
        let object = json!({"machines": machines, "crossing": crossing});
        return print(format_args!("{object}\n"));
    }
    let lines = named.map(|(machine, nodes)| format!("{}: {}\n", machine.name, nodes.join(" ")));
    let mut text: String = lines.collect();
    text += &format!("{} links between them\n", crossing.len());
    for link in crossing {
        text += &format!("  {link}\n");
    }
    print(text)
}

/// The whole network as JSON, with all defaults, for programs that do not parse the YAML file themselves.
fn network_json(topology: &Topology) -> serde_json::Value {
    let switches = topology.switches().iter();
    let switches =
        switches.map(|switch| json!({"name": switch.name, "device_id": switch.device_id}));
    let hosts = topology.hosts().iter().map(|host| {
        let ip = format!("{}/{}", host.ip, host.prefix_len);
        json!({"name": host.name, "ip": ip, "mac": host.mac.to_string()})
    });
    let links = topology.links().iter().map(|link| {
        let ends = link.ends.map(|end| match end.node {
            Node::Switch(switch) => json!({"node": topology.switch(switch).name, "port": end.port}),
            Node::Host(host) => json!({"node": topology.host(host).name, "port": null}),
        });
        let does = &link.attributes;
        json!({
            "ends": ends,
            "rate_bps": does.rate_bps,
            "delay_ns": does.delay_ns,
            "mtu": does.mtu,
            "queue_bytes": does.queue_bytes,
        })
    });
    let switching = topology.switching();
    json!({
        "switching": (!switching.is_default()).then(|| switching.to_string()),
        "switches": switches.collect::<Vec<_>>(),
        "hosts": hosts.collect::<Vec<_>>(),
        "links": links.collect::<Vec<_>>(),
    })
}

/// Buffers, headroom and the lossless class as comments for the printed file; empty if the file sets none.
fn buffer_comments(topology: &Topology) -> String {
    let switching = topology.switching();
    let mut lines = BTreeSet::new();
    for index in topology.switch_indexes() {
        let ports = topology.neighbours(index);
        let links = ports.iter().map(|port| topology.link(port.link).attributes);
        let headroom = switching.pfc.map(|pfc| {
            let all = links.map(|link| (link, pfc.headroom(&link)));
            for (link, headroom) in all.clone() {
                lines.insert(format!(
                    "# headroom of a port on a link of {}, {}, MTU {}: {}\n",
                    RATE.show(link.rate_bps),
                    TIME.show(link.delay_ns),
                    link.mtu,
                    SIZE.show(headroom)
                ));
            }
            all.map(|(_, headroom)| headroom).sum::<u64>()
        });
        if let Some(buffer) = topology.buffer_of(index) {
            lines.insert(format!(
                "# buffer of a switch with {} ports: {}, of which {} headroom\n",
                ports.len(),
                SIZE.show(buffer.bytes),
                SIZE.show(headroom.unwrap_or(0))
            ));
        }
    }
    if let Some(pfc) = switching.pfc {
        lines.insert(format!(
            "# lossless: class {}, DSCP {}, which hosts give to RoCE packets\n",
            pfc.class,
            pfc.dscp()
        ));
    }
    lines.into_iter().collect()
}

/// Reads a topology file, or generates a topology if `file` is a generator such as `fat-tree:16`. A generator takes
/// precedence over a file of the same name.
pub fn read(file: &std::path::Path) -> Result<Topology, Failure> {
    let name = file.display().to_string();
    if topology::is_generator_spec(&name) {
        return topology::generate(&name).map_err(Failure::bad_input);
    }
    let text = std::fs::read_to_string(file).map_err(|error| {
        Failure::bad_input(format_args!(
            "cannot read the topology {name}: {error}; give a YAML file, or one of {GENERATOR_FORMS}"
        ))
    })?;
    Topology::from_yaml(&name, &text).map_err(Failure::bad_input)
}
