//! `alfirk topology`: prints topology files.

use alfirk_ctrl::topology::{self, Topology};
use clap::Subcommand;
use serde_json::json;

use crate::exit::{print, Failure, Outcome};

/// Print a network as YAML, for --topology of run, ctrl and Mininet.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  alfirk topology fat-tree --k 8 > fat-tree-k8.yaml
  alfirk topology leaf-spine --leaves 4 --spines 2 --hosts 4
  alfirk topology check fat-tree-k8.yaml")]
pub struct Args {
    #[command(subcommand)]
    kind: Kind,

    /// Print one JSON object that tells the size instead of the network itself
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Kind {
    /// A k-ary fat-tree: k pods, k^3/4 hosts, 5k^2/4 switches of k ports
    FatTree {
        /// Ports per switch, even
        #[arg(long, value_name = "PORTS", default_value_t = 4)]
        k: u32,
    },
    /// Leaves with hosts, each leaf linked to every spine
    LeafSpine {
        #[arg(long, value_name = "N", default_value_t = 4)]
        leaves: u32,
        #[arg(long, value_name = "N", default_value_t = 2)]
        spines: u32,
        /// Hosts per leaf
        #[arg(long, value_name = "N", default_value_t = 4)]
        hosts: u32,
    },
    /// An m-port n-tree: 2(m/2)^n hosts on n levels of m-port switches
    MPortNTree {
        /// Ports per switch, even
        #[arg(long, value_name = "PORTS")]
        m: u32,
        /// Levels
        #[arg(long, value_name = "LEVELS")]
        n: u32,
    },
    /// One switch with four hosts
    Testbed,
    /// Read a file, check it, and print it in the form that the generators use
    Check {
        #[arg(value_name = "FILE")]
        file: std::path::PathBuf,
    },
}

pub fn run(args: Args) -> Outcome {
    let generated = |result: Result<Topology, _>| result.map_err(Failure::bad_input);
    let topology = match args.kind {
        Kind::FatTree { k } => generated(topology::fat_tree(k))?,
        Kind::LeafSpine {
            leaves,
            spines,
            hosts,
        } => generated(topology::leaf_spine(leaves, spines, hosts))?,
        Kind::MPortNTree { m, n } => generated(topology::m_port_n_tree(m, n))?,
        Kind::Testbed => topology::testbed(),
        Kind::Check { file } => read(&file)?,
    };
    if args.json {
        let object = json!({
            "name": topology.name(),
            "hosts": topology.hosts().len(),
            "switches": topology.switches().len(),
            "links": topology.links().len(),
        });
        return print(format_args!("{object}\n"));
    }
    print(topology.to_yaml())
}

/// Reads a topology file.
pub fn read(file: &std::path::Path) -> Result<Topology, Failure> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|error| {
        Failure::bad_input(format_args!("cannot read the topology {name}: {error}"))
    })?;
    Topology::from_yaml(&name, &text).map_err(Failure::bad_input)
}
