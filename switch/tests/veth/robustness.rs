//! Replacement of the program, termination and overload of a running switch.

use std::{
    collections::BTreeSet,
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
    thread,
    time::Duration,
};

use crate::{fixture, http_get, metrics_address, net::Wire, start, DEADLINE, FAR, NEAR};
use alfirk_p4runtime::p4::v1::{
    set_forwarding_pipeline_config_request::Action, ForwardingPipelineConfig,
};

/// Traffic that runs until it is stopped.
struct Load {
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<u32>,
}

impl Load {
    /// Sends ten frames to station 5 per millisecond, numbered from 0.
    fn start() -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::spawn(move || {
            let wire = Wire::open(FAR[0]);
            let mut number = 0;
            while !stopped.load(Ordering::Relaxed) {
                for _ in 0..10 {
                    wire.send(&numbered(number));
                    number += 1;
                }
                thread::sleep(Duration::from_millis(1));
            }
            number
        });
        Load { stop, thread }
    }

    /// Stops the traffic; returns the number of frames.
    fn end(self) -> u32 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn numbered(number: u32) -> Vec<u8> {
    [&fixture::frame(5)[..], &number.to_be_bytes()].concat()
}

fn number(frame: &[u8]) -> u32 {
    let last = frame.last_chunk().expect("frames are numbered");
    u32::from_be_bytes(*last)
}

pub fn signals_end_the_switch_under_load_and_files_are_complete() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let folder = tempfile::tempdir().unwrap();
        let captures = folder.path().to_str().unwrap();
        let (runtime, process, mut controller) = start(&["--pcap", captures]);
        runtime.block_on(controller.insert(&fixture::l2(5, 2, "")));
        let two = Wire::open(FAR[1]);
        let load = Load::start();
        for _ in 0..100 {
            two.receive(DEADLINE).expect("frames pass");
        }
        // The controller's stream is open, and frames are being forwarded.
        process.stop_by(signal);
        load.end();
        for (near, way) in [(NEAR[0], "in"), (NEAR[1], "out")] {
            let capture = std::fs::read(folder.path().join(format!("{near}_{way}.pcap"))).unwrap();
            assert!(whole_records(&capture) >= 100, "{near}_{way}.pcap");
        }
    }
}

/// Returns the number of packets in a capture, which must end with a complete one.
fn whole_records(capture: &[u8]) -> usize {
    let (mut at, mut records) = (24, 0);
    while at < capture.len() {
        let stored = capture[at + 8..at + 12].try_into().expect("four bytes");
        at += 16 + u32::from_le_bytes(stored) as usize;
        records += 1;
    }
    assert_eq!(at, capture.len(), "the last packet is cut");
    records
}

pub fn bursts_stay_in_order_and_dropped_frames_are_counted() {
    /// Slots of 1,632 bytes: 40 in each of the 16 blocks of a megabyte.
    const SLOTS: u32 = 640;
    let line = [
        "--metrics",
        "127.0.0.1:0",
        "--log-console",
        "-L",
        "info",
        "--ring",
        "1",
    ];
    let (runtime, mut process, mut controller) = start(&line);
    let address = metrics_address(&mut process);
    runtime.block_on(controller.insert(&fixture::l2(5, 2, "")));
    let (one, two) = (Wire::open(FAR[0]), Wire::open(FAR[1]));
    let burst = |frames: u32| {
        process.pause();
        for number in 0..frames {
            one.send(&numbered(number));
        }
        process.resume();
    };
    let next = || number(&two.receive(DEADLINE).expect("frames pass"));

    for frames in [SLOTS - 1, 64 + 3, 200, SLOTS - 12] {
        burst(frames);
        for number in 0..frames {
            assert_eq!(next(), number, "of {frames}");
        }
    }
    let all = 2 * SLOTS - 13 + 64 + 3 + 200;
    let counted = |way: &str| {
        let reply = http_get(&address, "/metrics");
        let value = reply.lines().find_map(|line| line.strip_prefix(way));
        let value = value.unwrap_or_else(|| panic!("no {way} in {reply}"));
        value.trim().parse::<u32>().unwrap()
    };
    let received = || counted("alfirk_port_frames_total{port=\"1\",way=\"in\"}");
    let not_received = || counted("alfirk_port_lost_total{port=\"1\",by=\"not_received\"}");
    assert_eq!((received(), not_received()), (all, 0));

    burst(SLOTS + 100);
    for number in 0..SLOTS {
        assert_eq!(next(), number);
    }
    assert_eq!((received(), not_received()), (all + SLOTS, 100));
    process.stop();
}

pub fn replacing_the_program_under_load_loses_few_packets() {
    const SWAPS: usize = 5;
    /// Maximum number of frames lost during a replacement: those of one second.
    const MAX_LOST_PER_SWAP: usize = 10_000;

    let (runtime, process, mut controller) = start(&[]);
    runtime.block_on(controller.insert(&fixture::l2(5, 2, "")));
    let two = Wire::open(FAR[1]);
    let load = Load::start();
    let mut arrived = BTreeSet::new();
    for swap in 0..SWAPS {
        for _ in 0..500 {
            arrived.insert(number(&two.receive(DEADLINE).expect("frames pass")));
        }
        let next = renamed(&format!("swap {swap}"));
        runtime.block_on(controller.replace_pipeline(Action::ReconcileAndCommit, next));
    }
    // Frames sent after the swap.
    for _ in 0..500 {
        arrived.insert(number(&two.receive(DEADLINE).expect("frames pass")));
    }
    let sent = load.end();
    while let Some(frame) = two.receive(Duration::from_millis(500)) {
        arrived.insert(number(&frame));
    }
    let mut gaps = 0;
    let mut expected = *arrived.first().expect("frames have passed");
    for &number in &arrived {
        gaps += usize::from(number != expected);
        expected = number + 1;
    }
    let lost = sent as usize - arrived.len();
    assert!(
        gaps <= SWAPS && lost <= MAX_LOST_PER_SWAP * SWAPS,
        "{lost} of {sent} frames are lost in {gaps} gaps"
    );
    assert_eq!(arrived.last(), Some(&(sent - 1)));
    process.stop();
}

/// Returns the fixture's program with another name.
fn renamed(name: &str) -> ForwardingPipelineConfig {
    let mut config = fixture::config();
    let mut program: serde_json::Value = serde_json::from_slice(&config.p4_device_config).unwrap();
    program["program"] = name.into();
    config.p4_device_config = program.to_string().into_bytes().into();
    config
}
