//! Two RC queue pairs in virtual time: a message arrives although its third packet is lost.
//!
//! `cargo run -p alfirk-roce --example pair`

use std::net::Ipv4Addr;
use std::sync::Arc;

use alfirk_roce::host::{Host, HostConfig};
use alfirk_roce::rc::{MemorySlice, Payload, RecvRequest, Remote, SendOperation, SendRequest};
use alfirk_roce::wire::{MacAddr, Psn};

/// Bytes of the message: eight packets of 1,024.
const LEN: u64 = 8_192;

/// One-way delay in nanoseconds.
const DELAY: u64 = 1_000;

/// Transfers the message and checks that it arrived. A test calls this function, too.
pub fn main() {
    let ip = |i: usize| Ipv4Addr::new(10, 0, 0, i as u8 + 1);
    let mut hosts = [0, 1].map(|i| {
        let mac = MacAddr([2, 0, 0, 0, 0, i as u8]);
        Host::new(HostConfig::new("h", mac, ip(i), 8, 1_500, i as u64))
            .expect("RoCEv2 fits into 1,500 bytes")
    });
    let config = hosts[0].default_rc();
    let qps = hosts.each_mut().map(|host| host.create_qp(config));
    let keys = [
        hosts[0].register_shared(Arc::from(vec![7; LEN as usize])),
        hosts[1].register_memory(LEN, false),
    ];
    for i in 0..2 {
        let remote = Remote {
            ip: ip(1 - i),
            qpn: qps[1 - i],
        };
        hosts[i]
            .set_sq_psn(qps[i], Psn::new(100))
            .expect("it is idle");
        hosts[i]
            .connect_qp(0, qps[i], remote, Psn::new(100))
            .expect("it is new");
    }
    let slice = |i: usize| MemorySlice {
        key: keys[i],
        offset: 0,
        len: LEN,
    };
    let receive = RecvRequest {
        wr_id: 1,
        buffer: slice(1),
    };
    let send = SendRequest {
        wr_id: 2,
        operation: SendOperation::Send { immediate: None },
        payload: Payload::Memory(slice(0)),
    };
    hosts[1]
        .post_recv(qps[1], receive)
        .expect("the buffer is registered");
    hosts[0]
        .post_send(qps[0], send)
        .expect("the message is registered");

    // A host is a state machine: input is frames and the time, output is frames and the time of the next timeout.
    let (mut now, mut sent) = (0, 0);
    loop {
        let mut idle = true;
        for from in 0..2 {
            while let Some(frame) = hosts[from].poll_transmit(now) {
                idle = false;
                sent += usize::from(from == 0);
                if (from, sent) == (0, 3) {
                    println!("{now:>6} ns: the third data packet is lost");
                    continue;
                }
                now += DELAY;
                hosts[1 - from].handle_frame(now, &frame);
            }
        }
        if idle {
            // Timers run on; the last ones have no effect.
            let Some(next) = hosts.iter().filter_map(Host::poll_timeout).min() else {
                break;
            };
            now = now.max(next);
            hosts.iter_mut().for_each(|host| host.handle_timeout(now));
        }
    }
    let stats = hosts[0].qp(qps[0]).expect("it is there").stats();
    println!(
        "{now:>6} ns: done, with {} data packets for 8, {} of them retransmitted after {} NAK",
        stats.requests_sent, stats.retransmissions, stats.naks_received
    );
    assert!(
        stats.retransmissions > 0,
        "the lost packet was retransmitted"
    );
}
