//! Packets per second through the pipeline core, on one thread, without I/O.
//!
//! `cargo bench -p alfirk-bmv2`; items are frames that enter the switch.

use alfirk_bmv2::{
    Effects, EntryTarget, KeyMatch, Program, QueueState, Replica, Switch, SwitchOptions,
};
use alfirk_compiler::driver::{compile, CompileOptions};
use divan::counter::ItemsCount;
use divan::Bencher;
use std::path::Path;
use std::sync::Arc;

fn main() {
    divan::main();
}

fn switch(source: &str) -> Switch {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the crate is in the workspace");
    let mut options = CompileOptions::new(root.join(source));
    options
        .preprocessor
        .include_dirs
        .push(root.join("p4include"));
    let compiled = compile(&options).unwrap_or_else(|e| panic!("{e}"));
    let program = Program::from_typed(&compiled.json).unwrap_or_else(|e| panic!("{source}: {e}"));
    let mut switch = Switch::new(SwitchOptions::default());
    switch.load(Arc::new(program));
    switch
}

fn insert(switch: &mut Switch, table: &str, key: &[KeyMatch], action: &str, args: &[u64]) {
    let table = switch.table(table).unwrap();
    let args = args.iter().map(|a| a.to_be_bytes().to_vec()).collect();
    let target = EntryTarget::Action {
        name: action.to_owned(),
        args,
    };
    switch.insert_entry(table, key, 0, &target, 0, 0).unwrap();
}

fn exact(value: u64) -> KeyMatch {
    KeyMatch::Exact {
        value: value.to_be_bytes().to_vec(),
    }
}

/// Ingress and egress of a frame, reusing all memory.
fn pass(
    switch: &mut Switch,
    fx: &mut Effects,
    waiting: &mut Vec<alfirk_bmv2::Queued>,
    port: u32,
    frame: &[u8],
) {
    switch.ingress(port, frame, 0, fx);
    while !fx.enqueued.is_empty() {
        std::mem::swap(&mut fx.enqueued, waiting);
        for packet in waiting.drain(..) {
            switch.egress(packet, 0, QueueState::default(), fx);
        }
    }
    fx.recycle();
    fx.clear();
}

fn ipv4(src: u32, dst: u32, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let mut header = vec![0x45, 0];
    header.extend((20 + payload.len() as u16).to_be_bytes());
    header.extend([0x12, 0x34, 0x40, 0, 64, protocol, 0, 0]);
    header.extend(src.to_be_bytes());
    header.extend(dst.to_be_bytes());
    let sum: u32 = header
        .chunks(2)
        .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])))
        .sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    frame.extend(header);
    frame.extend(payload);
    frame
}

/// One lpm table with 1,000 routes of several lengths.
#[divan::bench(args = [64, 1024])]
fn ipv4_routing(bencher: Bencher, bytes: usize) {
    let mut switch = switch("bmv2/test_data/routing.p4");
    for i in 0..1000u32 {
        let len = 16 + 4 * (i % 5);
        let value = (0x0a00_0000 | i << 12) >> (32 - len) << (32 - len);
        let key = KeyMatch::Lpm {
            value: value.to_be_bytes().to_vec(),
            prefix_len: len,
        };
        let table = switch.table("ingress.routes").unwrap();
        let args = vec![vec![2, 0, 0, 0, 0, 9], vec![(i % 200) as u8]];
        let target = EntryTarget::Action {
            name: "ingress.forward".to_owned(),
            args,
        };
        // Shorter prefixes coincide now and then.
        let _ = switch.insert_entry(table, &[key], 0, &target, 0, 0);
    }
    let frames: Vec<Vec<u8>> = (0..1000u32)
        .map(|i| {
            ipv4(
                0x0b00_0001,
                0x0a00_0000 | i << 12 | 1,
                17,
                &vec![0; bytes - 34],
            )
        })
        .collect();
    let (mut fx, mut waiting) = (Effects::default(), Vec::new());
    bencher
        .counter(ItemsCount::new(frames.len()))
        .bench_local(|| {
            for frame in &frames {
                pass(&mut switch, &mut fx, &mut waiting, 1, frame);
            }
        });
}

const GROUP_IP: u32 = 0x0aff_0001;

/// The ICRC as the pipeline computes it over feedback: routers' fields read as ones.
fn with_icrc(mut frame: Vec<u8>) -> Vec<u8> {
    let mut masked = vec![0xff; 8];
    masked.extend(&frame[14..]);
    for at in [9, 16, 18, 19, 34, 35, 40] {
        masked[at] = 0xff;
    }
    frame.extend(crc32fast::hash(&masked).to_le_bytes());
    frame
}

fn roce(src: u32, opcode: u8, psn: u32, rest: &[u8]) -> Vec<u8> {
    let mut udp = vec![0xc0, 0, 0x12, 0xb7];
    udp.extend((8 + 12 + rest.len() as u16 + 4).to_be_bytes());
    udp.extend([0, 0]);
    udp.extend([opcode, 0x40, 0xff, 0xff, 0, 0, 0, 1]);
    udp.extend((0x8000_0000 | psn & 0xff_ffff).to_be_bytes());
    udp.extend(rest);
    // The length covers the ICRC, which `with_icrc` appends.
    let mut frame = ipv4(src, GROUP_IP, 17, &[&udp[..], &[0; 4]].concat());
    frame.truncate(frame.len() - 4);
    with_icrc(frame)
}

/// The multicast program with one group: a sender at path 0, and hosts at all other paths.
struct Group {
    switch: Switch,
    paths: u32,
    fx: Effects,
    waiting: Vec<alfirk_bmv2::Queued>,
}

fn host(path: u32) -> u32 {
    0x0a00_0001 + path
}

impl Group {
    fn new(receivers: u32) -> Group {
        let mut switch = switch("p4src/v1model/main.p4");
        let paths = receivers + 1;
        insert(
            &mut switch,
            "ingress.group_lookup.groups",
            &[exact(GROUP_IP.into())],
            "ingress.group_lookup.set_group",
            &[0],
        );
        let mut replicas = Vec::new();
        for path in 0..paths {
            let port = path + 1;
            let lone = (0..6)
                .filter(|level| (path >> level ^ 1) << level >= paths)
                .map(|level| 1 << level)
                .sum();
            let key = [exact(0), exact(port.into())];
            insert(
                &mut switch,
                "ingress.group_lookup.mft",
                &key,
                "ingress.group_lookup.set_path",
                &[path.into(), lone, 1],
            );
            let member = [exact(0), exact(port.into()), exact(host(path).into())];
            insert(
                &mut switch,
                "ingress.bridge_entry.members",
                &member,
                "ingress.bridge_entry.enter",
                &[5, 6],
            );
            let deliver = [0x0200_0000_0000, host(path).into(), 17, 1, 2, 3, 4, 5, 6];
            insert(
                &mut switch,
                "egress.bridge_exit.receivers",
                &key,
                "egress.bridge_exit.deliver",
                &deliver,
            );
            replicas.push(Replica {
                port,
                rid: path as u16,
            });
        }
        switch.pre_mut().unwrap().set_group(1, &replicas).unwrap();
        Group {
            switch,
            paths,
            fx: Effects::default(),
            waiting: Vec::new(),
        }
    }

    /// PacketOut: initialise the group at PSN 1000.
    fn start(&mut self) {
        let mut init = vec![1, 0, 0, 1, 0, 0, self.paths as u8, 0, 0, 0, 0];
        init.extend(1000u64.to_be_bytes());
        init.extend([0; 4]);
        assert_eq!(
            self.switch.process(510, &init, 0)[0].0,
            510,
            "the answer goes to the controller"
        );
    }

    fn pass(&mut self, port: u32, frame: &[u8]) {
        pass(
            &mut self.switch,
            &mut self.fx,
            &mut self.waiting,
            port,
            frame,
        );
    }
}

/// Packets of each benchmark, so many that a start of the group does not count.
const ROUNDS: u32 = 250;

/// Data packets of 1 KiB. Items are the copies that leave.
#[divan::bench(args = [3, 15])]
fn multicast_replicas(bencher: Bencher, receivers: u32) {
    let mut group = Group::new(receivers);
    let data: Vec<Vec<u8>> = (0..ROUNDS)
        .map(|i| roce(host(0), 1, 1000 + i, &[0x5a; 1024]))
        .collect();
    group.start();
    let out = group.switch.process(1, &data[0], 0);
    assert_eq!(out.len() as u32, receivers, "copies for the receivers");
    bencher
        .counter(ItemsCount::new(ROUNDS * receivers))
        .bench_local(|| {
            for data in &data {
                group.pass(1, data);
            }
        });
}

/// ACKs of all receivers in turn; the last of each turn goes on to the sender. Items are the ACKs
/// that come in.
#[divan::bench(args = [3, 15])]
fn multicast_feedback(bencher: Bencher, receivers: u32) {
    let mut group = Group::new(receivers);
    let acks: Vec<(u32, Vec<u8>)> = (0..ROUNDS)
        .flat_map(|i| (1..=receivers).map(move |p| (i, p)))
        .map(|(i, p)| (p + 1, roce(host(p), 0x11, 1000 + i, &[0x1f, 0, 0, 1])))
        .collect();
    // The sender's own path counts as having what it sent.
    let last = roce(host(0), 1, 1000 + ROUNDS, &[0x5a; 64]);
    group.start();
    group.pass(1, &last);
    for (port, ack) in &acks[..receivers as usize] {
        let out = group.switch.process(*port, ack, 0);
        let is_last = *port == receivers + 1;
        assert_eq!(out.len(), usize::from(is_last), "only the last ACK passes");
    }
    bencher
        .counter(ItemsCount::new(acks.len()))
        .bench_local(|| {
            group.start();
            group.pass(1, &last);
            for (port, ack) in &acks {
                group.pass(*port, ack);
            }
        });
}
