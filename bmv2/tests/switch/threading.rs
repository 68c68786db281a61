//! Jump threading (`load/jump_threading.rs`) does not change the behaviour of the multicast program. Programs
//! loaded for the log are not threaded, so they are the reference.

use std::sync::{Arc, LazyLock};

use alfirk_bmv2::{LoadedProgram, Switch, SwitchOptions};
use proptest::prelude::*;

#[allow(dead_code)]
#[path = "../../benches/common/group.rs"]
pub mod group;

use group::{host, ipv4, json, roce, Group, CPU_PORT, MAIN_PROGRAM};

pub const PATHS: u32 = 6;

/// The program with and without jump threading.
static PROGRAMS: LazyLock<[Arc<LoadedProgram>; 2]> = LazyLock::new(|| {
    let json = json(MAIN_PROGRAM);
    let text = json.to_text();
    let plain = LoadedProgram::with_notes(&text).expect("it is the program");
    let threaded = LoadedProgram::from_typed(&json).expect("it is the program");
    [threaded, plain].map(Arc::new)
});

/// Generates a port, and a frame received on it.
pub fn packet() -> impl Strategy<Value = (u32, Vec<u8>)> {
    let opcode = prop_oneof![
        6 => Just(0x01), 2 => Just(0x0a), 8 => Just(0x11), 1 => Just(0x0c), 1 => Just(0x81), 1 => any::<u8>(),
    ];
    let syndrome =
        prop_oneof![6 => Just(0x1f), 2 => Just(0x60), 1 => 0x20..0x40u8, 1 => 0x61..0x65u8];
    let of_group = (0..PATHS, opcode, 996..1012u32, syndrome, 0..4u8, 0..20u32);
    let of_group = of_group.prop_map(|(path, opcode, psn, syndrome, msn, odd)| {
        let rest = match opcode {
            0x11 => vec![syndrome, 0, 0, msn],
            0x0a | 0x0c => vec![msn; 16],
            _ => vec![msn; 24],
        };
        // Some frames arrive on a wrong port.
        let port = if odd == 0 { 1 } else { path + 1 };
        let mut frame = roce(host(path), opcode, psn, &rest);
        if odd == 1 {
            frame[14 + usize::from(msn) * 7] ^= 1;
        }
        (port, frame)
    });
    let unicast = (1..=PATHS, any::<u32>(), any::<u32>(), any::<u8>());
    let unicast =
        unicast.prop_map(|(port, from, to, protocol)| (port, ipv4(from, to, protocol, &[0; 20])));
    // Control requests, such as reading and writing registers.
    let control = (0..3u8, 0..8u8, 0..20u8, any::<u64>());
    let control = control.prop_map(|(kind, op, reg, value)| {
        let mut frame = vec![kind, 0, 0, op, reg, 0, PATHS as u8, 0, 0, 0, 0];
        frame.extend(value.to_be_bytes());
        frame.extend([0; 4]);
        (CPU_PORT, frame)
    });
    prop_oneof![20 => of_group, 1 => unicast, 1 => control]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn threaded_pipelines_are_equivalent(
        packets in proptest::collection::vec(packet(), 200),
        min_psn in 0..3u64,
    ) {
        let [mut threaded, mut plain] = [0, 1].map(|which| {
            let mut switch = Switch::new(SwitchOptions::default());
            crate::builder::load(&mut switch, PROGRAMS[which].clone());
            let mut group = Group::on(switch, PATHS, min_psn);
            group.start();
            group.switch
        });
        for (at, (port, frame)) in packets.iter().enumerate() {
            let now = at as u64 * 1_000_000;
            let found = threaded.process(*port, frame, now);
            prop_assert_eq!(found, plain.process(*port, frame, now), "packet {}", at);
        }
    }
}
