//! The work that other software switches are compared by: `cargo bench -p alfirk-bmv2 --bench peers`, with the words of some
//! cases and `--json` after `--`.
//!
//! IPv4 routing of 64-byte frames (checksum verified, TTL, LPM, MAC addresses, checksum updated) with 1,000 and 100,000
//! prefixes, IPv4 multicast, and the multicast program's data and ACKs, by the interpreter and by machine code. Times are
//! those of the processor for one thread, without I/O: the least of many short turns of both engines, which alternate, so that
//! other load on the machine affects both.

#[path = "common/engines.rs"]
mod engines;
#[path = "common/group.rs"]
#[allow(dead_code)]
mod group;

use alfirk_bmv2::{Engine, EntryTarget, KeyMatch, Replica};
use engines::{frames, Report, Work};
use group::{host, ipv4, roce, switch, Group};

/// Data packets or rounds of ACKs per pass of the multicast program.
const ROUNDS: u32 = 250;

fn main() {
    let report = Report::from_args();
    report.head();
    let cases: [(&str, &dyn Fn(Engine) -> Work); 8] = [
        ("route, 1,000 prefixes", &|engine| routing(engine, 1_000)),
        ("route, 100,000 prefixes", &|engine| {
            routing(engine, 100_000)
        }),
        ("multicast to 3", &|engine| replication(engine, 3)),
        ("multicast to 15", &|engine| replication(engine, 15)),
        ("RoCE data to 3", &|engine| data(engine, 3)),
        ("RoCE data to 15", &|engine| data(engine, 15)),
        ("ACK of 3, tree", &|engine| feedback(engine, 3, 0)),
        ("ACK of 15, walk", &|engine| feedback(engine, 15, 1)),
    ];
    for (name, work) in cases {
        report.measure(name, work);
    }
}

/// Maps numbers one-to-one to numbers spread over 32 bits.
fn scattered(i: u32) -> u32 {
    i.wrapping_mul(0x9e37_79b1)
}

/// Returns value and length of a prefix: of five lengths, in one /10 if there are few, else in all addresses.
fn prefix(i: u32, prefixes: u32) -> (u32, u32) {
    let (value, len) = match prefixes {
        ..=1000 => (0x0a00_0000 | i << 12, 16 + 4 * (i % 5)),
        _ => (scattered(i), [24, 24, 24, 22, 20][(i % 5) as usize]),
    };
    (value >> (32 - len) << (32 - len), len)
}

fn routing(engine: Engine, prefixes: u32) -> Work {
    let mut switch = switch("bmv2/test_data/routing.p4", engine);
    let table = switch.table("ingress.routes").unwrap();
    for i in 0..prefixes {
        let (value, prefix_len) = prefix(i, prefixes);
        let key = KeyMatch::Lpm {
            value: value.to_be_bytes().to_vec(),
            prefix_len,
        };
        let target = EntryTarget::Action {
            name: "ingress.forward".to_owned(),
            args: vec![vec![2, 0, 0, 0, 0, 9], vec![(i % 200) as u8]],
        };
        // Some prefixes are equal.
        let _ = switch.insert_entry(table, &[key], 0, &target, 0, 0);
    }
    let count = (prefixes / 10).clamp(1_000, 10_000);
    let routed = (0..count).map(|i| {
        let i = ((u64::from(scattered(i)) * u64::from(prefixes)) >> 32) as u32;
        let dst = prefix(i, prefixes).0 | 1;
        (1, ipv4(0x0b00_0001, dst, 17, &[0; 30]))
    });
    frames(switch, routed.collect(), 1)
}

fn replication(engine: Engine, receivers: u8) -> Work {
    let mut switch = switch("bmv2/test_data/replication.p4", engine);
    let table = switch.table("ingress.groups").unwrap();
    let key = KeyMatch::Lpm {
        value: vec![10, 0, 0, 0],
        prefix_len: 8,
    };
    let target = EntryTarget::Action {
        name: "ingress.replicate".to_owned(),
        args: vec![vec![1]],
    };
    switch
        .insert_entry(table, &[key], 0, &target, 0, 0)
        .unwrap();
    let table = switch.table("egress.replicas").unwrap();
    let mut replicas = Vec::new();
    for i in 1..=receivers {
        let args = vec![
            vec![2, 0, 0, 0, 0, i],
            vec![2, 0, 0, 0, 1, i],
            vec![10, 0, 0, i],
        ];
        let target = EntryTarget::Action {
            name: "egress.rewrite".to_owned(),
            args,
        };
        let key = KeyMatch::Exact { value: vec![i] };
        switch
            .insert_entry(table, &[key], 0, &target, 0, 0)
            .unwrap();
        replicas.push(Replica {
            port: i.into(),
            rid: i.into(),
        });
    }
    switch.pre_mut().unwrap().set_group(1, &replicas).unwrap();
    let sent = (0..1000).map(|i| (1, ipv4(0x0b00_0001, 0x0a00_0000 | i, 17, &[0; 30])));
    frames(switch, sent.collect(), receivers.into())
}

/// Data packets of 1 KiB of the multicast program, each sent once.
fn data(engine: Engine, receivers: u32) -> Work {
    let mut group = Group::new(receivers + 1, 0, engine);
    let data: Vec<Vec<u8>> = (0..ROUNDS)
        .map(|i| roce(host(0), 1, 1000 + i, &[0x5a; 1024]))
        .collect();
    group.start();
    let out = group.switch.process(1, &data[0], 0);
    assert_eq!(out.len() as u32, receivers, "copies for the receivers");
    Work {
        items: ROUNDS.into(),
        copies: receivers as usize,
        pass: Box::new(move || {
            group.start();
            data.iter().for_each(|data| group.pass(1, data));
        }),
    }
}

/// ACKs of all receivers for each packet, the last of which is forwarded to the source. `min_psn` is one of the program's
/// `MinPsn`.
fn feedback(engine: Engine, receivers: u32, min_psn: u64) -> Work {
    let mut group = Group::new(receivers + 1, min_psn, engine);
    let acks: Vec<(u32, Vec<u8>)> = (0..ROUNDS)
        .flat_map(|i| (1..=receivers).map(move |path| (i, path)))
        .map(|(i, path)| (path + 1, roce(host(path), 0x11, 1000 + i, &[0x1f, 0, 0, 1])))
        .collect();
    let data = [1000, 1000 + ROUNDS].map(|psn| roce(host(0), 1, psn, &[0x5a; 64]));
    Work {
        items: acks.len() as u64,
        copies: 1,
        pass: Box::new(move || {
            group.start();
            data.iter().for_each(|data| group.pass(1, data));
            acks.iter().for_each(|(port, ack)| group.pass(*port, ack));
        }),
    }
}
