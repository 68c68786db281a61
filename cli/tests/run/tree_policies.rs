//! Several groups in parallel on one fabric, with each tree policy: load of links, and time.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use alfirk_ctrl::controller::{MemberSpec, RegisterGroup};
use alfirk_ctrl::strategy::Strategies;
use alfirk_ctrl::topology::{m_port_n_tree, End, HostIndex, Node, Topology};
use alfirk_ctrl::tree::Policy;
use alfirk_experiment::{stream, Fabric};
use alfirk_roce::host::HostTiming;
use alfirk_roce::rc::{
    MemoryKey, MemorySlice, PathMtu, Payload, RcConfig, RecvRequest, Remote, SendOperation,
    SendRequest,
};
use alfirk_roce::wire::{Psn, QpNum};
use alfirk_sim::VirtualFabric;

use crate::common::good;
use crate::network::fabric_by;

const MTU: PathMtu = PathMtu::B4096;

/// Results of all groups that send in parallel.
#[derive(Debug)]
struct Outcome {
    /// Time from the posts to the last acknowledgement in nanoseconds.
    completion: u64,
    /// Messages' worth of bytes on the most loaded link between switches, one way: one for each group there, and what was sent again.
    messages_on_busiest: usize,
    /// Links between switches that carried data, in one direction or both.
    links_used: usize,
    retransmissions: u64,
}

/// Runs one multicast per group in parallel: the leaders are neighbours, and each group has members in the whole fabric.
fn run(policy: Policy, topology: &Topology, groups: usize, bytes: usize) -> Outcome {
    let mut fabric = fabric_by(policy, topology);
    let data: Arc<[u8]> = stream::bytes(1, "all groups", bytes).into();
    let mut members: Vec<Vec<(HostIndex, QpNum)>> = Vec::new();
    for group in 0..groups {
        let hosts = (group..topology.hosts().len())
            .step_by(groups)
            .map(HostIndex);
        let config = RcConfig {
            ack_timeout: HostTiming::FAST.ack_timeout,
            // The outstanding packets of all sources fit into one queue, so that counts do not depend on packets that a full queue
            // drops.
            window: 48,
            ..RcConfig::new(MTU)
        };
        let network = fabric.network();
        let made = hosts.map(|h| (h, network.on_nic(h, |nic, _| nic.create_qp(config))));
        let made: Vec<_> = made.collect();
        let mcst_id = Ipv4Addr::new(10, 255, 0, group as u8 + 1);
        let virtual_qpn = QpNum::new(0xa00 + group as u32);
        let specs = made.iter().map(|(host, qpn)| MemberSpec {
            ip: topology.host(*host).ip,
            qpn: *qpn,
            region: None,
            may_send: true,
        });
        let request = RegisterGroup {
            mcst_id: Some(mcst_id),
            virtual_qpn: Some(virtual_qpn),
            members: specs.collect(),
            initial_psn: Psn::new(1),
            strategies: Strategies::default(),
        };
        fabric.register(request).unwrap();
        for (host, qpn) in &made {
            let remote = Remote {
                ip: mcst_id,
                qpn: virtual_qpn,
            };
            fabric.network().on_nic(*host, |nic, now| {
                nic.join_at(*qpn, Psn::new(1), 0).unwrap();
                nic.connect_qp(now, *qpn, remote, Psn::new(1)).unwrap();
            });
        }
        members.push(made);
    }
    let before = bytes_by_link(&mut fabric, topology);
    let mut regions: Vec<(HostIndex, MemoryKey)> = Vec::new();
    for (host, qpn) in members.iter().flat_map(|group| &group[1..]) {
        fabric.network().on_nic(*host, |nic, _| {
            let key = nic.register_memory(bytes as u64, false);
            let buffer = MemorySlice {
                key,
                offset: 0,
                len: bytes as u64,
            };
            nic.post_recv(*qpn, RecvRequest { wr_id: 0, buffer })
                .unwrap();
            regions.push((*host, key));
        });
    }
    let start = fabric.now();
    for group in &members {
        let (source, qpn) = group[0];
        let request = SendRequest {
            wr_id: 0,
            operation: SendOperation::Send { immediate: None },
            payload: Payload::Bytes(Arc::clone(&data)),
        };
        let network = fabric.network();
        network.on_nic(source, |nic, _| nic.post_send(qpn, request).unwrap());
    }
    let packets = bytes.div_ceil(MTU.bytes()) as u64;
    while members
        .iter()
        .any(|g| fabric.acknowledged_packets(g[0].0).unwrap() < packets)
    {
        assert!(fabric.now() < start + 1_000_000_000, "no end");
        let soon = fabric.now() + 1_000;
        fabric.network().run_until(soon);
    }
    let completion = fabric.now() - start;
    for (host, key) in regions {
        let nic = fabric.network().host(host).host();
        assert!(nic.memory().region(key).unwrap().bytes() == &data[..]);
    }
    let after = bytes_by_link(&mut fabric, topology);
    let carried = after.iter().map(|(end, bytes)| bytes - before[end]);
    // Links that carried only acknowledgements have far fewer bytes.
    let data_links: Vec<u64> = carried
        .filter(|carried| *carried > bytes as u64 / 2)
        .collect();
    let busiest = data_links.iter().copied().max().unwrap();
    let sources: Vec<_> = members.iter().map(|group| group[0].0).collect();
    Outcome {
        completion,
        messages_on_busiest: (busiest as f64 / bytes as f64).round() as usize,
        links_used: data_links.len(),
        retransmissions: fabric.traffic(&sources, groups).unwrap().retransmissions,
    }
}

/// Bytes that every switch has sent to other switches, by port.
fn bytes_by_link(fabric: &mut VirtualFabric, topology: &Topology) -> BTreeMap<End, u64> {
    let mut bytes = BTreeMap::new();
    for switch in topology.switch_indexes() {
        for neighbour in topology.neighbours(switch) {
            if matches!(neighbour.peer.node, Node::Switch(_)) {
                let end = End::switch(switch, neighbour.port);
                let counters = fabric.network().counters(end);
                bytes.insert(end, counters.map_or(0, |counters| counters.bytes));
            }
        }
    }
    bytes
}

fn compare(ports: u32, levels: u32, groups: usize, bytes: usize) -> [Outcome; 3] {
    let topology = m_port_n_tree(ports, levels).unwrap();
    let outcomes = Policy::ALL.map(|policy| run(policy, &topology, groups, bytes));
    for (policy, outcome) in Policy::ALL.iter().zip(&outcomes) {
        println!(
            "{ports}-port {levels}-tree, {groups} groups, {bytes} bytes, {policy}: {outcome:?}"
        );
    }
    outcomes
}

/// Four groups with members in the whole 4-port 3-tree, which has four top switches.
#[test]
fn cyclic_trees_of_several_groups_share_no_link_and_spanning_trees_share_a_root() {
    let [least_loaded, cyclic, spanning] = compare(4, 3, 4, 1 << 20);
    assert_eq!(
        (cyclic.messages_on_busiest, spanning.messages_on_busiest),
        (1, 4)
    );
    assert_eq!(least_loaded.messages_on_busiest, 1);
    assert!(cyclic.links_used > spanning.links_used);
    // Four groups through one root take four times as long, except for the delay of the first packet.
    let ratio = spanning.completion as f64 / cyclic.completion as f64;
    assert!((3.0..4.5).contains(&ratio), "{cyclic:?} {spanning:?}");
    assert_eq!(cyclic.retransmissions, 0);
}

/// The paper's own fabric: 128 hosts, 80 switches; 16 groups of eight.
#[test]
#[ignore = "a measurement"]
fn sixteen_groups_on_an_8_port_3_tree() {
    let [_, cyclic, spanning] = compare(8, 3, 16, 1 << 20);
    assert_eq!(cyclic.messages_on_busiest, 1);
    assert!(spanning.messages_on_busiest >= 16);
}

#[test]
fn the_command_prints_the_example_of_section_3_3_2() {
    let text = |arguments: &[&str]| String::from_utf8(good(arguments)).unwrap();
    let tree = ["topology", "n-tree", "--ports", "4", "--levels", "3"];
    let group = ["--multicast", "000,200,201,210,211"];
    let paths = text(&[&tree[..], &group].concat());
    assert!(paths.contains("P(000) to P(210): DLID 41, SW<00,2>_1 SW<00,2>_3 SW<00,1>_1"));
    assert!(paths.contains("DLID = {33, 37, 41, 45}"));
    assert!(paths.contains("SW<20,1> = {1, 2}"));
    let tables = text(&[&tree[..], &["--tables"]].concat());
    assert!(tables.starts_with("4-port 3-tree, LMC 2\n"));
    assert!(tables.contains("\nP(300)  h13  LIDs 49-52\n"));
    let json = text(&[&tree[..], &["--tables", "--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let top = &json["switches"][0];
    assert_eq!(
        (&top["label"], &top["name"]),
        (&"SW<00,0>".into(), &"l0s1".into())
    );
    assert_eq!(top["ports"].as_array().unwrap().len(), 64);
    assert_eq!(top["ports"][32], 3);
}
