//! `alfirk topology containerlab`: writes a network as files for containerlab, on one machine or several.
//!
//! Switches run `alfirk switch` and hosts `alfirk host` in containers; links between machines are containerlab's VXLAN
//! links. [`files`] only generates the text of the files.

use std::fmt::Write;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use alfirk_ctrl::constants::CPU_PORT;
use alfirk_ctrl::topology::{End, LinkIndex, Node, Placement, Topology};
use alfirk_roce::wire::vxlan;

use crate::exit::{print, Failure, Outcome};
use crate::run::machines::{MachineName, PlacementArgs};

/// P4Runtime port in a container.
pub(super) const GRPC: u16 = 9559;
/// First TCP port of a machine that is mapped to the P4Runtime port of a container.
pub(super) const FIRST_PORT: usize = 20_001;
/// Path of the control socket in a container.
pub(super) const CONTROL: &str = "/run/alfirk-host.sock";

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

    #[command(flatten)]
    placement: PlacementArgs,
}

/// Runs `alfirk topology containerlab`.
pub fn run(args: &Args) -> Outcome {
    let topology = super::read(&args.file)?;
    let (machines, placement) = match args.placement.check(&topology)? {
        Some(several) => several,
        None => {
            let here = MachineName {
                name: "lab".to_owned(),
                address: Some(Ipv4Addr::LOCALHOST),
            };
            let all = Placement::new(&topology, 1, &std::collections::BTreeMap::new());
            let all = all.map_err(Failure::bad_input)?;
            (vec![here], all)
        }
    };
    let named = machines.iter().map(|machine| match machine.address {
        Some(address) => Ok((without_user(&machine.name), address)),
        None => Err(Failure::bad_input(format_args!(
            "--machines {0}: containerlab needs the machine's address; write {0}=ADDR",
            machine.name
        ))),
    });
    let named = named.collect::<Result<Vec<(&str, Ipv4Addr)>, Failure>>()?;
    save(&args.out, files(&topology, &placement, &named, &args.image))
}

/// Writes files to a folder, given their names and contents, and prints their paths.
pub(super) fn save(folder: &Path, files: Vec<(String, String)>) -> Outcome {
    for (name, content) in files {
        let path = folder.join(&name);
        let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, content));
        written.map_err(|error| {
            Failure::failed(format_args!("cannot write {}: {error}", path.display()))
        })?;
        print(format_args!("{}\n", path.display()))?;
    }
    Ok(())
}

/// Text of a Dockerfile for an image with the alfirk command.
pub(super) fn dockerfile() -> String {
    "# docker build -t alfirk . with the alfirk command beside this file\n\
     FROM debian:12-slim\n\
     RUN apt-get update && apt-get install -y --no-install-recommends ethtool iproute2 iputils-ping && rm -rf /var/lib/apt/lists/*\n\
     COPY alfirk /usr/local/bin/\n"
        .to_owned()
}

/// Name of a machine without its user, for file names: `b` for `root@b`.
fn without_user(name: &str) -> &str {
    let host = name.rsplit_once('@').map_or(name, |(_, host)| host);
    Path::new(host)
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or(host)
}

/// Names and contents of the files: a lab file for each machine, and the files for all machines.
fn files(
    topology: &Topology,
    placement: &Placement,
    machines: &[(&str, Ipv4Addr)],
    image: &str,
) -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = machines
        .iter()
        .enumerate()
        .map(|(number, (name, _))| {
            let text = lab_file(topology, placement, machines, number, image);
            (format!("{name}.clab.yml"), text)
        })
        .collect();
    let switches = topology.switch_indexes().map(|switch| {
        let (_, address) = machines[placement.machine_of(Node::Switch(switch))];
        let name = &topology.switch(switch).name;
        format!("{name}={address}:{}\n", FIRST_PORT + switch.0)
    });
    files.push(("switches.txt".to_owned(), switches.collect()));
    files.push(("topology.yaml".to_owned(), topology.to_yaml()));
    files.push(("Dockerfile".to_owned(), dockerfile()));
    files
}

/// Text of the lab file of one machine.
fn lab_file(
    topology: &Topology,
    placement: &Placement,
    machines: &[(&str, Ipv4Addr)],
    number: usize,
    image: &str,
) -> String {
    let (machine, _) = machines[number];
    let mut text = format!(
        "# Machine {machine} of {}: containerlab deploy -t {machine}.clab.yml\n\
         # When all machines have theirs: alfirk p4c p4src/v1model/main.p4 -o main.json --p4runtime-files main.p4info.txtpb\n\
         # alfirk ctrl --topology topology.yaml --switches switches.txt --p4info main.p4info.txtpb --device-config main.json\n\
         name: {}\nprefix: \"\"\ntopology:\n  defaults: {{kind: linux, image: \"{image}\"}}\n  nodes:\n",
        topology.name(),
        topology.name(),
    );
    for node in placement.nodes_of(number) {
        // Writing to a string does not fail, here and below.
        let _ = write!(text, "{}", container(topology, node));
    }
    text += "  links:\n";
    for (index, link) in topology.links().iter().enumerate() {
        let mtu = link.attributes.mtu;
        let here = link
            .ends
            .map(|end| placement.machine_of(end.node) == number);
        let [a, b] = link.ends.map(|end| endpoint(topology, end));
        let _ = match here {
            [true, true] => write!(
                text,
                "    - type: veth\n      mtu: {mtu}\n      endpoints:\n        - {a}\n        - {b}\n"
            ),
            [false, false] => Ok(()),
            [a_is_here, _] => {
                let (own, other) = if a_is_here { (a, 1) } else { (b, 0) };
                let (_, remote) = machines[placement.machine_of(link.ends[other].node)];
                let (port, vni) = (vxlan::PORT, LinkIndex(index).0 + 1);
                write!(
                    text,
                    "    - type: vxlan\n      mtu: {mtu}\n      endpoint: {own}\n      remote: {remote}\n      vni: {vni}\n      udp-port: {port}\n"
                )
            }
        };
    }
    text
}

/// Name of a node's interface at the end of a link, such as `eth1`; eth0 is containerlab's own.
fn interface(end: End) -> String {
    match end.node {
        Node::Switch(_) => format!("eth{}", end.port),
        Node::Host(_) => "eth1".to_owned(),
    }
}

fn endpoint(topology: &Topology, end: End) -> String {
    let (name, interface) = (topology.name_of(end.node), interface(end));
    match end.node {
        Node::Switch(_) => format!("{{node: \"{name}\", interface: {interface}}}"),
        Node::Host(host) => {
            let mac = topology.host(host).mac;
            format!("{{node: \"{name}\", interface: {interface}, mac: \"{mac}\"}}")
        }
    }
}

/// YAML of the container of a node. Its command waits for the interfaces, which containerlab creates after the
/// container.
fn container(topology: &Topology, node: Node) -> String {
    let name = topology.name_of(node);
    match node {
        Node::Switch(switch) => {
            let ports: Vec<u32> = (topology.neighbours(switch).iter())
                .map(|neighbour| neighbour.port)
                .collect();
            let interfaces: Vec<String> = ports.iter().map(|port| format!("eth{port}")).collect();
            let flags: String = (ports.iter())
                .map(|port| format!("-i {port}@eth{port} "))
                .collect();
            let id = topology.switch(switch).device_id;
            let command = format!(
                "alfirk switch --no-p4 --device-id {id} {flags}-- --grpc-server-addr 0.0.0.0:{GRPC} --cpu-port {CPU_PORT}"
            );
            let published = FIRST_PORT + switch.0;
            let waiting = wait_for_interfaces(&interfaces.join(" "), &command);
            format!(
                "    \"{name}\":\n      cmd: \"{waiting}\"\n      ports: [\"{published}:{GRPC}\"]\n"
            )
        }
        Node::Host(host) => {
            let about = topology.host(host);
            let (ip, mac) = (format!("{}/{}", about.ip, about.prefix_len), about.mac);
            let mtu = topology.link(topology.uplink(host).link).attributes.mtu;
            let command = format!(
                "alfirk host --name {name} --interface eth1 --ip {ip} --mac {mac} --mtu {mtu} --control {CONTROL}"
            );
            let waiting = wait_for_interfaces("eth1", &command);
            format!(
                "    \"{name}\":\n      cmd: \"{waiting}\"\n      exec: [\"ethtool -K eth1 rx off tx off sg off tso off gso off gro off\", \"ip address add {ip} dev eth1\"]\n"
            )
        }
    }
}

/// Shell command that waits for the interfaces and then runs `command`.
fn wait_for_interfaces(interfaces: &str, command: &str) -> String {
    format!(
        "sh -c 'for i in {interfaces}; do until [ -e /sys/class/net/$i ]; do sleep 0.1; done; done; exec {command}'"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use alfirk_ctrl::topology::leaf_spine;
    use serde_json::Value;

    fn parsed(text: &str) -> Value {
        serde_saphyr::from_str(text).unwrap()
    }

    #[test]
    fn each_machine_gets_its_nodes_and_link_ends() {
        let topology = leaf_spine(2, 1, 2).unwrap();
        let placement = Placement::new(&topology, 2, &std::collections::BTreeMap::new()).unwrap();
        let addresses = [1, 2].map(|last| Ipv4Addr::new(192, 0, 2, last));
        let machines = [("a", addresses[0]), ("b", addresses[1])];
        let files = files(&topology, &placement, &machines, "alfirk:1");
        let content = |name: &str| &files.iter().find(|(file, _)| file == name).unwrap().1;
        let labs = ["a.clab.yml", "b.clab.yml"].map(|name| parsed(content(name)));

        let nodes = labs
            .each_ref()
            .map(|lab| lab["topology"]["nodes"].as_object().unwrap());
        assert_eq!(nodes[0].len() + nodes[1].len(), 7);
        let host = nodes.iter().find_map(|nodes| nodes.get("h1")).unwrap();
        assert!(
            host["cmd"]
                .as_str()
                .unwrap()
                .contains("--ip 10.0.0.1/8 --mac 02:"),
            "{host}"
        );

        let links = labs
            .each_ref()
            .map(|lab| lab["topology"]["links"].as_array().unwrap());
        let crossing = |links: &[Value]| -> Vec<(u64, String)> {
            let links = links.iter().filter(|link| link["type"] == "vxlan");
            links
                .map(|l| {
                    (
                        l["vni"].as_u64().unwrap(),
                        l["remote"].as_str().unwrap().to_owned(),
                    )
                })
                .collect()
        };
        let [a, b] = links.map(|links| crossing(links));
        assert_eq!(a.len(), placement.crossing(&topology).count());
        assert!(!a.is_empty());
        // Both ends have the same VNI, and each names the other machine.
        for ((vni, remote), (same, back)) in a.iter().zip(&b) {
            assert_eq!(
                (vni, remote.as_str(), back.as_str()),
                (same, "192.0.2.2", "192.0.2.1")
            );
        }
        let inside = links.iter().flat_map(|links| links.iter());
        assert_eq!(
            inside.filter(|link| link["type"] == "veth").count() + a.len(),
            6
        );

        let switches = content("switches.txt");
        assert_eq!(switches.lines().count(), 3);
        assert!(
            switches.lines().all(|line| line.contains("=192.0.2.")),
            "{switches}"
        );
        assert_eq!(content("topology.yaml"), &topology.to_yaml());
    }

    #[test]
    fn machine_names_become_file_names() {
        assert_eq!(
            [
                without_user("root@b"),
                without_user("b"),
                without_user("x/../b")
            ],
            ["b", "b", "b"]
        );
    }
}
