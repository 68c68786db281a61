//! Multicast by datagrams that are acknowledged up a binomial tree, on compiled pipelines: real packets, UD and RC queue pairs.

use std::net::Ipv4Addr;
use std::sync::Arc;

use alfirk_ctrl::topology::{fat_tree, HostIndex};
use alfirk_experiment::stream;
use alfirk_roce::binomial_ack::ConnectionLifetime;
use alfirk_roce::rc::PathMtu;
use alfirk_sim::engine::FaultProbabilities;
use alfirk_sim::DatagramGroup;

use crate::common::{good, json};
use crate::network::fabric;

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 1, 1);
const LIMIT: u64 = 10_000_000_000;

fn data(seed: u64, len: usize) -> Arc<[u8]> {
    stream::bytes(seed, "broadcast", len).into()
}

/// The members are the root in turn, and meanwhile one member joins and one leaves.
fn broadcasts(
    connections: ConnectionLifetime,
    faults: FaultProbabilities,
    members: usize,
    seed: u64,
) {
    let topology = fat_tree(4).unwrap();
    let mut fabric = fabric(&topology, faults, seed);
    let mut group = DatagramGroup::new(GROUP, PathMtu::B4096, connections, &fabric);
    let mut hosts: Vec<_> = (0..members).map(|n| HostIndex(n * 15 / members)).collect();
    for host in &hosts {
        group.join(&mut fabric, *host).unwrap();
    }
    let round = |hosts: &[HostIndex], group: &DatagramGroup, fabric: &mut _, n: usize| {
        let data = data(seed + n as u64, 1 + n * 9_000);
        let root = hosts[n % hosts.len()];
        let result = group.broadcast(fabric, root, &data, LIMIT);
        result.unwrap_or_else(|error| panic!("{members} members, seed {seed}, {n}: {error}"))
    };
    for n in 0..3 {
        round(&hosts, &group, &mut fabric, n);
    }
    group.join(&mut fabric, HostIndex(15)).unwrap();
    hosts.push(HostIndex(15));
    round(&hosts, &group, &mut fabric, 3);
    if members > 2 {
        group.leave(&mut fabric, hosts.remove(1)).unwrap();
    }
    for n in 4..6 {
        round(&hosts, &group, &mut fabric, n);
    }
}

#[test]
fn every_byte_arrives_without_loss_on_retained_and_on_new_connections() {
    for connections in [ConnectionLifetime::Retained, ConnectionLifetime::PerPacket] {
        for members in [2, 3, 8, 15] {
            broadcasts(connections, FaultProbabilities::default(), members, 1);
        }
    }
}

#[test]
fn every_byte_arrives_with_loss_of_all_packet_kinds() {
    let faults = FaultProbabilities::lossy(0.01);
    for connections in [ConnectionLifetime::Retained, ConnectionLifetime::PerPacket] {
        for seed in 1..=4 {
            broadcasts(connections, faults, 12, seed);
        }
    }
}

#[test]
fn acknowledgements_take_one_cycle_per_level_of_the_tree() {
    let topology = fat_tree(4).unwrap();
    let mut completed = Vec::new();
    for members in [2, 4, 8, 16] {
        let mut fabric = fabric(&topology, FaultProbabilities::default(), 1);
        let mut group =
            DatagramGroup::new(GROUP, PathMtu::B4096, ConnectionLifetime::Retained, &fabric);
        for host in 0..members {
            group.join(&mut fabric, HostIndex(host)).unwrap();
        }
        let data = data(1, 1_000);
        // The first broadcast also creates the connections.
        for _ in 0..2 {
            let result = group
                .broadcast(&mut fabric, HostIndex(0), &data, LIMIT)
                .unwrap();
            completed.push(result.completed);
        }
    }
    let kept: Vec<u64> = completed.iter().copied().skip(1).step_by(2).collect();
    let new: Vec<u64> = completed.iter().copied().step_by(2).collect();
    assert!(
        kept.iter().zip(&new).all(|(kept, new)| kept < new),
        "{kept:?} {new:?}"
    );
    // One more level of the tree takes one more one-way delay of an acknowledgement, not two.
    for pair in kept.windows(2) {
        let level = pair[1] - pair[0];
        assert!((1_000..15_000).contains(&level), "{kept:?}");
    }
}

/// A root that sends continuously is limited by its window, so that receivers always have buffers and no timer expires.
#[test]
fn a_long_message_without_loss_has_no_retransmissions() {
    let arguments = ["run", "--algorithms", "binomial-ack", "--json"];
    let report = json(&[&arguments[..], &["--size", "2MiB"]].concat());
    let row = &report["results"][0];
    assert_eq!(row["receivers_verified"], 15, "{row}");
    assert_eq!(row["retransmissions"], 0, "{row}");
    // 32 messages, and four children of the root.
    assert!(row["sender_acks"].as_u64() >= Some(32 * 4), "{row}");
    let sent = row["sender_payload_bytes"].as_u64().unwrap();
    assert!((2 << 20..(2 << 20) + 100_000).contains(&sent), "{row}");
}

/// Among 16 members in rank order, member 15 is a leaf of the root's tree, 12 has members below it, and 8 has half of all members below it.
#[test]
fn a_group_continues_without_failed_members() {
    let arguments = [
        "run",
        "--algorithms",
        "binomial-ack",
        "--json",
        "--size",
        "1MiB",
    ];
    for (kill, lost) in [
        ("h16@30us", vec!["h16"]),
        ("h13@30us", vec!["h13"]),
        ("h9@30us", vec!["h9"]),
        ("h9@10us,h13@40us,h14@40us", vec!["h9", "h13", "h14"]),
    ] {
        for loss in ["0", "0.01"] {
            let report = json(&[&arguments[..], &["--kill", kill, "--loss", loss]].concat());
            let row = &report["results"][0];
            assert_eq!(row["lost"], serde_json::json!(lost), "{kill}: {row}");
            assert_eq!(row["receivers_verified"], 15 - lost.len(), "{kill}: {row}");
            assert_eq!(row["failures"].as_array().unwrap().len(), lost.len());
        }
    }
}

/// The times depend on the host model, so only their order is checked.
#[test]
fn table_1_is_printed_by_one_command() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let json = json(&["reproduce", "binomial-ack-table-1", "--json", "--out", out]);
    let rows = json["binomial-ack-table-1"]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 6);
    for row in rows {
        let ns = |name: &str| row[name].as_u64().unwrap();
        // With two nodes both take one step, and datagrams have longer headers.
        let is_tree = row["nodes"].as_u64() > Some(2);
        assert!(!is_tree || ns("multicast_ns") < ns("mpi_ns"), "{row}");
        assert!(ns("multicast_ns") < ns("retained_connections_ns"), "{row}");
        assert!(
            ns("retained_connections_ns") < ns("new_connections_ns"),
            "{row}"
        );
    }
    // Multicast takes the same time with seven nodes as with two, but MPI does not.
    let (seven, two) = (&rows[0], &rows[5]);
    assert_eq!((&seven["nodes"], &two["nodes"]), (&7.into(), &2.into()));
    assert!(seven["mpi_ns"].as_u64() > two["mpi_ns"].as_u64());
    let text =
        String::from_utf8(good(&["reproduce", "binomial-ack-table-1", "--out", out])).unwrap();
    assert!(text.contains("2.3919  1.4510 (+39.3 %)"), "{text}");
}
