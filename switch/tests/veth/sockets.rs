//! Sockets that send the frames of the switch: packet sockets and AF_XDP.

use std::time::{Duration, Instant};

use crate::{
    fixture, forward, http_get, ip, metrics_address,
    net::{self, Wire},
    process::Process,
    start, DEADLINE, FAR, NEAR,
};

/// Options by which a test waits for changes of interfaces.
const LOG: [&str; 3] = ["--log-console", "-L", "info"];

/// A frame of `len` bytes to station 5, with a number.
fn frame(len: usize, number: u32) -> Vec<u8> {
    let mut frame = fixture::frame(5);
    frame.extend(number.to_be_bytes());
    frame.resize(len, number as u8);
    frame
}

/// Frames of equal length, in numbers that justify an AF_XDP socket.
fn short_frames(from: u32) -> Vec<Vec<u8>> {
    (from..from + 40).map(|number| frame(64, number)).collect()
}

/// Sends frames while the switch is paused, so that it receives them as one batch.
fn burst(process: &Process, wire: &Wire, frames: &[Vec<u8>]) {
    process.pause();
    frames.iter().for_each(|frame| wire.send(frame));
    process.resume();
}

fn assert_arrive(wire: &Wire, frames: &[Vec<u8>]) {
    for (index, frame) in frames.iter().enumerate() {
        let arrived = wire.receive(DEADLINE).expect("all frames arrive");
        assert!(arrived == *frame, "frame {index} of {} bytes", frame.len());
    }
}

/// Checks that all frames arrive, and that an AF_XDP socket sends them sooner or later: the kernel releases the last one
/// with delay.
fn assert_xdp_is_used(process: &Process, one: &Wire, two: &Wire) {
    let deadline = Instant::now() + DEADLINE;
    loop {
        burst(process, one, &short_frames(0));
        assert_arrive(two, &short_frames(0));
        if process.has_xdp_socket() {
            return;
        }
        assert!(Instant::now() < deadline, "no AF_XDP socket");
    }
}

/// Returns the number of frames that the switch has received on the first port.
fn received(metrics: &str) -> u32 {
    let reply = http_get(metrics, "/metrics");
    let frames = "alfirk_port_frames_total{port=\"1\",way=\"in\"}";
    let value = reply.lines().find_map(|line| line.strip_prefix(frames));
    value
        .expect("the metrics count frames")
        .trim()
        .parse()
        .unwrap()
}

pub fn frames_of_all_lengths_arrive_by_each_kind_of_socket() {
    for end in NEAR.iter().chain(&FAR) {
        ip(&format!("link set {end} mtu 9000")).unwrap();
    }
    let lengths = [60, 64, 1024, 1514, 2048, 4095, 4096, 4097, 9014, 9014, 64];
    let mut frames = short_frames(0);
    for (number, len) in (40..).zip(lengths.repeat(20)) {
        frames.push(frame(len, number));
    }
    for (option, is_xdp) in [("packet", false), ("xdp", true), ("auto", true)] {
        let mut line = vec!["--send-socket", option, "--metrics", "127.0.0.1:0"];
        line.extend(LOG);
        let (runtime, mut process, mut controller) = start(&line);
        let address = metrics_address(&mut process);
        forward(&runtime, &mut controller, 5, 2);
        let (one, two) = (Wire::open(FAR[0]), Wire::open(FAR[1]));
        burst(&process, &one, &frames);
        assert_arrive(&two, &frames);
        assert_eq!(process.has_xdp_socket(), is_xdp, "{option}");
        let metrics = http_get(&address, "/metrics");
        let sent = format!(
            "alfirk_port_frames_total{{port=\"2\",way=\"out\"}} {}",
            frames.len()
        );
        assert!(metrics.lines().any(|line| line == sent), "{metrics}");
        process.stop();
    }
}

/// Inserts a VLAN tag.
fn tagged(frame: &[u8]) -> Vec<u8> {
    [&frame[..12], &[0x81, 0x00, 0x20, 77], &frame[12..]].concat()
}

pub fn vlan_tags_are_sent_by_each_kind_of_socket() {
    // The longest frame is longer than the MTU by its first tag.
    let frame_of = |number| tagged(&frame(if number == 30 { 1510 } else { 60 }, number));
    let with_one_tag: Vec<_> = (0..40).map(frame_of).collect();
    let with_two_tags: Vec<_> = with_one_tag.iter().map(|frame| tagged(frame)).collect();
    for (option, is_xdp) in [("packet", false), ("xdp", true)] {
        let (runtime, process, mut controller) = start(&["--send-socket", option]);
        forward(&runtime, &mut controller, 5, 2);
        let (one, two) = (Wire::open(FAR[0]), Wire::open(FAR[1]));
        burst(&process, &one, &with_two_tags);
        // The kernel of the receiver removes the first tag.
        assert_arrive(&two, &with_one_tag);
        assert_eq!(process.has_xdp_socket(), is_xdp, "{option}");
        process.stop();
    }
}

pub fn a_killed_switch_leaves_the_interface_to_the_next_one() {
    let one = Wire::open(FAR[0]);
    for _ in 0..3 {
        let (runtime, process, mut controller) = start(&["--send-socket", "xdp"]);
        forward(&runtime, &mut controller, 5, 2);
        let two = Wire::open(FAR[1]);
        assert_xdp_is_used(&process, &one, &two);
        // Kills the switch.
        drop(process);
    }
}

pub fn the_xdp_socket_follows_its_interface() {
    let mut line = vec!["--send-socket", "xdp", "--metrics", "127.0.0.1:0"];
    line.extend(LOG);
    let (runtime, mut process, mut controller) = start(&line);
    let address = metrics_address(&mut process);
    forward(&runtime, &mut controller, 5, 2);
    let one = Wire::open(FAR[0]);
    let two = Wire::open(FAR[1]);
    assert_xdp_is_used(&process, &one, &two);
    // Frames sent while a link is down are lost, and do not arrive later.
    for end in [NEAR[1], FAR[1]] {
        ip(&format!("link set {end} down")).unwrap();
        process.wait_for_line("interface is down");
        let before = received(&address);
        burst(&process, &one, &short_frames(100));
        let deadline = Instant::now() + DEADLINE;
        while received(&address) < before + 40 {
            assert!(Instant::now() < deadline, "the burst is not received");
        }
        ip(&format!("link set {end} up")).unwrap();
        process.wait_for_line("interface is up");
        let two = Wire::open(FAR[1]);
        burst(&process, &one, &short_frames(200));
        assert_arrive(&two, &short_frames(200));
        assert_eq!(two.receive(Duration::from_millis(50)), None);
        assert_xdp_is_used(&process, &one, &two);
    }
    // Another interface of the same name.
    ip(&format!("link del {}", NEAR[1])).unwrap();
    process.wait_for_line("interface was removed");
    net::make_pair(NEAR[1], FAR[1]);
    process.wait_for_line("interface exists again");
    let two = Wire::open(FAR[1]);
    assert_xdp_is_used(&process, &one, &two);
    process.stop();
}
