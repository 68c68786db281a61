//! `alfirk topology kathara`: writes a network as files for Kathara, on one machine.
//!
//! Switches run `alfirk switch` and hosts `alfirk host` in devices of the lab; each link is a collision domain.
//! [`files`] only generates the text of the files.

use std::fmt::Write;
use std::path::PathBuf;

use alfirk_ctrl::constants::CPU_PORT;
use alfirk_ctrl::topology::{Node, Topology};

use super::containerlab::{dockerfile, save, CONTROL, FIRST_PORT, GRPC};
use crate::exit::{Failure, Outcome};

/// Maximum length of a Kathara device's name.
const MAX_NAME_LEN: usize = 30;
/// Name of the folder that all devices of a lab share; no device can have it.
const SHARED_FOLDER: &str = "shared";

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The network: a file or generator, as for `alfirk run --topology`
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Container image with alfirk
    #[arg(long, value_name = "NAME", default_value = "alfirk")]
    image: String,

    /// Folder to write to; created if it does not exist
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Runs `alfirk topology kathara`.
pub fn run(args: &Args) -> Outcome {
    let topology = super::read(&args.file)?;
    check_names(&topology)?;
    save(&args.out, files(&topology, &args.image))
}

/// Returns an error if a node has a name that a Kathara device cannot have.
fn check_names(topology: &Topology) -> Outcome {
    let names = nodes(topology).map(|node| topology.name_of(node));
    let is_good = |name: &str| {
        let mut letters = name.chars();
        name.len() <= MAX_NAME_LEN
            && name != SHARED_FOLDER
            && letters.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    match names.into_iter().find(|name| !is_good(name)) {
        None => Ok(()),
        Some(name) => Err(Failure::bad_input(format_args!(
            "kathara: `{name}` is not a valid device name; use lower-case letters, digits and _, at most {MAX_NAME_LEN}, and not {SHARED_FOLDER}"
        ))),
    }
}

fn nodes(topology: &Topology) -> impl Iterator<Item = Node> + '_ {
    let switches = topology.switch_indexes().map(Node::Switch);
    switches.chain(topology.host_indexes().map(Node::Host))
}

/// Names and contents of the files of the lab.
fn files(topology: &Topology, image: &str) -> Vec<(String, String)> {
    let startups = nodes(topology).map(|node| {
        let script = match node {
            Node::Switch(_) => switch_startup(topology, node),
            Node::Host(_) => host_startup(topology, node),
        };
        (format!("{}.startup", topology.name_of(node)), script)
    });
    let mut files = vec![("lab.conf".to_owned(), lab(topology, image))];
    files.extend(startups);
    let switches = topology.switch_indexes().map(|switch| {
        let name = &topology.switch(switch).name;
        format!("{name}=127.0.0.1:{}\n", FIRST_PORT + switch.0)
    });
    files.push(("switches.txt".to_owned(), switches.collect()));
    files.push(("topology.yaml".to_owned(), topology.to_yaml()));
    files.push(("Dockerfile".to_owned(), dockerfile()));
    files
}

/// Ports of a node that have a link, in order: number of the port, and index of the link. Entry N is the interface
/// ethN, since interfaces are numbered from 0 without gaps.
fn ports(topology: &Topology, node: Node) -> Vec<(u32, usize)> {
    let links = topology.links().iter().enumerate();
    let ends = links.flat_map(|(number, link)| link.ends.map(|end| (end, number)));
    let mut ports: Vec<(u32, usize)> = ends
        .filter(|(end, _)| end.node == node)
        .map(|(end, number)| (end.port, number))
        .collect();
    ports.sort_unstable();
    ports
}

fn lab(topology: &Topology, image: &str) -> String {
    let mut text = format!(
        "LAB_NAME=\"{}\"\nLAB_DESCRIPTION=\"{} switches, {} hosts, of alfirk topology kathara\"\n\n\
         # docker build -t {image} .    with the alfirk command beside the Dockerfile\n\
         # kathara lstart\n\
         # alfirk p4c p4src/v1model/main.p4 -o main.json --p4runtime-files main.p4info.txtpb\n\
         # alfirk ctrl --topology topology.yaml --switches switches.txt --p4info main.p4info.txtpb --device-config main.json\n",
        topology.name(),
        topology.switches().len(),
        topology.hosts().len(),
    );
    for node in nodes(topology) {
        let name = topology.name_of(node);
        // Writing to a string does not fail, here and below.
        let _ = writeln!(text);
        for (interface, (_, link)) in ports(topology, node).into_iter().enumerate() {
            let station = match node {
                Node::Host(host) => format!("/{}", topology.host(host).mac),
                Node::Switch(_) => String::new(),
            };
            let _ = writeln!(text, "{name}[{interface}]=\"link{link}{station}\"");
        }
        let _ = writeln!(text, "{name}[image]=\"{image}\"\n{name}[ipv6]=\"false\"");
        if let Node::Switch(switch) = node {
            let _ = writeln!(
                text,
                "{name}[port]=\"{}:{GRPC}/tcp\"",
                FIRST_PORT + switch.0
            );
        }
    }
    text
}

fn switch_startup(topology: &Topology, node: Node) -> String {
    let mut text = String::new();
    let mut flags = String::new();
    for (interface, (port, link)) in ports(topology, node).into_iter().enumerate() {
        let mtu = topology.links()[link].attributes.mtu;
        let _ = writeln!(text, "ip link set dev eth{interface} mtu {mtu} arp off up");
        let _ = write!(flags, "-i {port}@eth{interface} ");
    }
    let id = match node {
        Node::Switch(switch) => topology.switch(switch).device_id,
        Node::Host(_) => 0,
    };
    text + &format!(
        "alfirk switch --no-p4 --device-id {id} {flags}-- --grpc-server-addr 0.0.0.0:{GRPC} --cpu-port {CPU_PORT} \
         >/var/log/alfirk.log 2>&1 &\n"
    )
}

fn host_startup(topology: &Topology, node: Node) -> String {
    let Node::Host(host) = node else {
        return String::new();
    };
    let about = topology.host(host);
    let (name, ip, mac) = (
        &about.name,
        format!("{}/{}", about.ip, about.prefix_len),
        about.mac,
    );
    let mtu = topology.link(topology.uplink(host).link).attributes.mtu;
    format!(
        "ip link set dev eth0 mtu {mtu} up\n\
         ethtool -K eth0 rx off tx off sg off tso off gso off gro off\n\
         ip address replace {ip} dev eth0\n\
         alfirk host --name {name} --interface eth0 --ip {ip} --mac {mac} --mtu {mtu} --control {CONTROL} \
         >/var/log/alfirk.log 2>&1 &\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use alfirk_ctrl::topology::{leaf_spine, testbed};

    #[test]
    fn interfaces_are_numbered_from_zero_and_links_have_two_ends() {
        let topology = leaf_spine(2, 1, 2).unwrap();
        let files = files(&topology, "alfirk:1");
        let content = |name: &str| &files.iter().find(|(file, _)| file == name).unwrap().1;
        let lab = content("lab.conf");
        let places = lab.lines().filter_map(|line| {
            let (device, rest) = line.split_once('[')?;
            let (interface, domain) = rest.split_once("]=")?;
            let interface = interface.parse::<u32>().ok()?;
            Some((
                device,
                interface,
                domain.trim_matches('"').split('/').next()?,
            ))
        });
        let places: Vec<_> = places.collect();
        assert_eq!(places.len(), 2 * topology.links().len());
        for number in 0..topology.links().len() {
            let domain = format!("link{number}");
            let ends = places.iter().filter(|(_, _, link)| *link == domain);
            assert_eq!(ends.count(), 2, "{domain}");
        }
        for node in nodes(&topology) {
            let name = topology.name_of(node);
            let interfaces = places.iter().filter(|(device, _, _)| *device == name);
            let interfaces: Vec<u32> = interfaces.map(|(_, interface, _)| *interface).collect();
            let count = interfaces.len() as u32;
            assert_eq!(interfaces, (0..count).collect::<Vec<_>>(), "{name}");
        }
        assert!(lab.contains("h1[0]=\"link0/02:"), "{lab}");
        // Port 3 of a leaf, the uplink, is its third interface.
        let leaf = content(&format!("{}.startup", topology.switches()[0].name));
        assert!(leaf.contains("-i 1@eth0 -i 2@eth1 -i 3@eth2 -- "), "{leaf}");
        let host = content("h1.startup");
        assert!(host.contains("--ip 10.0.0.1/8 --mac 02:"), "{host}");
        assert_eq!(content("switches.txt").lines().count(), 3);
    }

    #[test]
    fn invalid_device_names_are_rejected() {
        assert!(check_names(&testbed()).is_ok());
        let yaml = testbed().to_yaml().replace("s1", "S-1");
        let odd = Topology::from_yaml("odd", &yaml).unwrap();
        let Err(Failure::BadInput(why)) = check_names(&odd) else {
            panic!("it is accepted");
        };
        assert!(why.to_string().contains("S-1"), "{why}");
    }
}
