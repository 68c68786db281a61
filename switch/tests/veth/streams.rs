//! TCP through a switch. The switch may send the segments of a burst as one super-frame; the receiver must see the
//! same segments.

use crate::{
    fixture, forward,
    net::{offloads_off, Wire},
    start, DEADLINE, FAR, NEAR,
};

const SIZE: usize = 1000;

/// Returns a numbered segment of a stream to station 5.
fn segment(number: usize, bytes: usize, flags: u8) -> Vec<u8> {
    let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0];
    ip.extend([10, 9, 0, 1, 10, 9, 0, 2]);
    ip[2..4].copy_from_slice(&(40 + bytes as u16).to_be_bytes());
    ip[4..6].copy_from_slice(&(0xffc0 + number as u32).to_be_bytes()[2..]);
    let checksum = !sum(&ip);
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());

    let mut tcp = vec![0x9c, 0x40, 0x13, 0x89];
    tcp.extend((0xffff_f000u32.wrapping_add((number * SIZE) as u32)).to_be_bytes());
    tcp.extend([1, 2, 3, 4, 0x50, flags, 0x01, 0xf6, 0, 0, 0, 0]);
    tcp.extend((0..bytes).map(|i| (number + i) as u8));
    let pseudo = [&ip[12..20], &[0, 6], &(tcp.len() as u16).to_be_bytes()].concat();
    let checksum = !sum(&[&pseudo[..], &tcp].concat());
    tcp[16..18].copy_from_slice(&checksum.to_be_bytes());
    let ethernet = fixture::frame(5)[..14].to_vec();
    [ethernet, ip, tcp].concat()
}

/// Returns the one's complement sum of the Internet checksum.
fn sum(bytes: &[u8]) -> u16 {
    let pairs = bytes.chunks(2);
    let words = pairs.map(|p| u32::from(p[0]) << 8 | u32::from(*p.get(1).unwrap_or(&0)));
    let sum: u32 = words.sum();
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + sum) as u16
}

/// Returns typical segments of a host: bursts that end short or with PSH, an acknowledgement, damaged ones.
fn stream() -> Vec<Vec<u8>> {
    const ACK: u8 = 0x10;
    const PUSH: u8 = 0x18;
    let burst = |numbers: std::ops::Range<usize>| numbers.map(|n| segment(n, SIZE, ACK));
    let mut frames: Vec<Vec<u8>> = burst(0..100).collect();
    frames.push(segment(100, SIZE / 3, PUSH));
    frames.push(segment(101, 0, ACK));
    frames.extend(burst(101..130));
    frames.push(segment(130, SIZE, PUSH));
    frames.extend(burst(131..160));
    let damaged = &mut frames[140];
    damaged[700] ^= 0x20;
    frames
}

pub fn tcp_segments_arrive_unchanged() {
    let (runtime, process, mut controller) = start(&[]);
    forward(&runtime, &mut controller, 5, 2);
    let (one, two) = (Wire::open(FAR[0]), Wire::open(FAR[1]));
    let pass = || {
        // Frames received during the pause are sent in batches.
        process.pause();
        for frame in stream() {
            one.send(&frame);
        }
        process.resume();
        for (number, frame) in stream().into_iter().enumerate() {
            assert_eq!(two.receive(DEADLINE), Some(frame), "frame {number}");
        }
    };
    pass();
    // Without offloads at the interface, the kernel segments the frames itself.
    for end in [NEAR[1], FAR[1]] {
        offloads_off(end);
    }
    pass();
    process.stop();
}
