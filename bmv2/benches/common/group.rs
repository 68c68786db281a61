//! The multicast program with one group, and packets for it.

use alfirk_bmv2::{
    CloneSession, Effects, Engine, EntryTarget, KeyMatch, LoadedProgram, QueueState, Queued,
    Replica, Switch, SwitchOptions,
};
use alfirk_bmv2_json::BmV2Json;
use alfirk_compiler::driver::{compile, CompileError, CompileOptions};
use rustix::time::{clock_gettime, ClockId};
use std::path::Path;
use std::sync::Arc;

/// Compiles and loads a P4 program of this repository.
pub fn program(source: &str) -> LoadedProgram {
    LoadedProgram::from_typed(&json(source)).unwrap_or_else(|e| panic!("{source}: {e}"))
}

/// The folder of the workspace.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the crate is in the workspace")
}

/// Compiles a program of the workspace to BMv2 JSON.
pub fn json(source: &str) -> BmV2Json {
    json_with(CompileOptions::new(root().join(source))).unwrap_or_else(|e| panic!("{e}"))
}

/// Compiles a program to BMv2 JSON, with the workspace's `p4include`.
pub fn json_with(mut options: CompileOptions) -> Result<BmV2Json, CompileError> {
    let include_dirs = &mut options.preprocessor.include_dirs;
    include_dirs.push(root().join("p4include"));
    Ok(compile(&options)?.json)
}

/// Creates a switch with a program of the workspace, whose ports have no queues. Compiles the program if the engine needs
/// it.
pub fn switch(source: &str, engine: Engine) -> Switch {
    switch_with(program(source), engine)
}

/// Creates a switch with a program, as [`switch`] does.
pub fn switch_with(program: LoadedProgram, engine: Engine) -> Switch {
    let mut switch = Switch::new(SwitchOptions {
        engine,
        ..SwitchOptions::default()
    });
    if engine == Engine::Compiled {
        program.compile().unwrap_or_else(|e| panic!("{e}"));
    }
    switch.load(Arc::new(program));
    switch.set_queued_ports([]);
    switch
}

/// Adds an entry, of which another with the same key may not exist. In tables with priorities the smallest number wins.
pub fn insert(
    switch: &mut Switch,
    table: &str,
    key: &[KeyMatch],
    priority: i32,
    action: &str,
    args: &[u64],
) {
    let table = switch.table(table).unwrap();
    let args = args.iter().map(|a| a.to_be_bytes().to_vec()).collect();
    let target = EntryTarget::Action {
        name: action.to_owned(),
        args,
    };
    switch
        .insert_entry(table, key, priority, &target, 0, 0)
        .unwrap();
}

pub fn exact(value: u64) -> KeyMatch {
    KeyMatch::Exact {
        value: value.to_be_bytes().to_vec(),
    }
}

/// Runs ingress and egress on a frame, reusing all buffers.
pub fn pass(
    switch: &mut Switch,
    fx: &mut Effects,
    waiting: &mut Vec<Queued>,
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

pub fn ipv4(src: u32, dst: u32, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let mut header = vec![0x45, 0];
    header.extend((20 + payload.len() as u16).to_be_bytes());
    header.extend([0x12, 0x34, 0x40, 0, 64, protocol, 0, 0]);
    header.extend(src.to_be_bytes());
    header.extend(dst.to_be_bytes());
    set_checksum(&mut header);
    frame.extend(header);
    frame.extend(payload);
    frame
}

/// Sets the checksum of an IPv4 header.
pub fn set_checksum(header: &mut [u8]) {
    header[10..12].fill(0);
    let sum: u32 = header
        .chunks(2)
        .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])))
        .sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    // The first addition may carry again.
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

const GROUP_IP: u32 = 0x0aff_0001;
pub const CPU_PORT: u32 = 510;
pub const MAIN_PROGRAM: &str = "p4src/v1model/main.p4";

/// Appends the ICRC as the pipeline computes it for feedback: fields that routers change are ones.
fn with_icrc(mut frame: Vec<u8>) -> Vec<u8> {
    let mut masked = vec![0xff; 8];
    masked.extend(&frame[14..]);
    for at in [9, 16, 18, 19, 34, 35, 40] {
        masked[at] = 0xff;
    }
    frame.extend(crc32fast::hash(&masked).to_le_bytes());
    frame
}

pub fn roce(src: u32, opcode: u8, psn: u32, rest: &[u8]) -> Vec<u8> {
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

/// A switch that runs the multicast program with one group: a sender at path 0, and receivers at all other paths.
pub struct Group {
    pub switch: Switch,
    paths: u32,
    pub fx: Effects,
    waiting: Vec<Queued>,
}

pub fn host(path: u32) -> u32 {
    0x0a00_0001 + path
}

/// Returns the bitmap of tree nodes without a path: bit 4 L + c is set if child c of the path's node at level L of
/// the min-PSN tree is empty.
fn absent(path: u32, paths: u32) -> u64 {
    let mut bits = 0;
    for level in 0..3 {
        for child in 0..4 {
            let first = ((path >> (2 * level + 2)) << 2 | child) << (2 * level);
            if first >= paths {
                bits |= 1 << (4 * level + child);
            }
        }
    }
    bits
}

impl Group {
    /// Creates a group; `min_psn` is one of the program's `MinPsn`.
    pub fn new(paths: u32, min_psn: u64, engine: Engine) -> Group {
        Group::on(switch(MAIN_PROGRAM, engine), paths, min_psn)
    }

    /// Creates a group on a switch that has loaded the program.
    pub fn on(mut switch: Switch, paths: u32, min_psn: u64) -> Group {
        insert(
            &mut switch,
            "ingress.group_lookup.groups",
            &[exact(GROUP_IP.into())],
            0,
            "ingress.group_lookup.set_group_with_qpn",
            &[0, paths.into(), min_psn, 0, 1],
        );
        let mut replicas = Vec::new();
        for path in 0..paths {
            let port = path + 1;
            let key = [exact(0), exact(port.into())];
            insert(
                &mut switch,
                "ingress.group_lookup.mft",
                &key,
                0,
                "ingress.group_lookup.set_path",
                &[path.into(), absent(path, paths), 1],
            );
            let member = [exact(0), exact(port.into()), exact(host(path).into())];
            insert(
                &mut switch,
                "ingress.bridge_entry.members",
                &member,
                0,
                "ingress.bridge_entry.enter",
                &[5, 6],
            );
            let deliver = [
                0x0200_0000_0000,
                host(path).into(),
                17,
                1,
                2,
                3,
                4,
                5,
                6,
                path.into(),
            ];
            insert(
                &mut switch,
                "egress.bridge_exit.receivers",
                &key,
                0,
                "egress.bridge_exit.deliver_with_slot",
                &deliver,
            );
            replicas.push(Replica {
                port,
                rid: path as u16,
            });
        }
        for port in (1..=paths).chain([CPU_PORT]) {
            let session = CloneSession {
                replicas: vec![Replica { port, rid: 0 }],
                ..CloneSession::default()
            };
            switch
                .pre_mut()
                .unwrap()
                .set_session(port, session)
                .unwrap();
        }
        switch.pre_mut().unwrap().set_group(1, &replicas).unwrap();
        Group {
            switch,
            paths,
            fx: Effects::default(),
            waiting: Vec::new(),
        }
    }

    /// Sends the PacketOut that initialises the group at PSN 1000.
    pub fn start(&mut self) {
        let mut init = vec![1, 0, 0, 1, 0, 0, self.paths as u8, 0, 0, 0, 0];
        init.extend(1000u64.to_be_bytes());
        init.extend([0; 4]);
        assert_eq!(
            self.switch.process(CPU_PORT, &init, 0)[0].0,
            CPU_PORT,
            "the reply is sent to the controller"
        );
    }

    pub fn pass(&mut self, port: u32, frame: &[u8]) {
        pass(
            &mut self.switch,
            &mut self.fx,
            &mut self.waiting,
            port,
            frame,
        );
    }
}

/// Returns the processor time of this thread in nanoseconds. The kernel updates `/proc/thread-self/schedstat` only with its
/// timer, every few milliseconds.
pub fn processor_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
