//! Benchmark: processing time of one packet at an endpoint. `cargo bench -p alfirk-roce`.

use std::net::Ipv4Addr;
use std::sync::Arc;

use alfirk_roce::host::{Host, HostConfig};
use alfirk_roce::icrc;
use alfirk_roce::icrc::neutral::{ExitRewrite, NeutralConstants};
use alfirk_roce::rc::{
    MemoryKey, MemorySlice, Payload, RecvRequest, Remote, SendOperation, SendRequest,
};
use alfirk_roce::wire::{MacAddr, Psn, QpNum};
use divan::counter::{BytesCount, ItemsCount};
use divan::{black_box, Bencher};

fn main() {
    divan::main();
}

/// The ICRC of a packet with `payload` bytes.
#[divan::bench(args = [64, 1024, 4096])]
fn icrc_of_packet(bencher: Bencher<'_, '_>, payload: usize) {
    let packet = vec![0x5a; 40 + payload];
    bencher
        .counter(BytesCount::new(packet.len()))
        .bench(|| icrc::compute(black_box(&packet)));
}

/// Both pairs of constants for one receiver's bridge.
#[divan::bench]
fn exit_constants(bencher: Bencher<'_, '_>) {
    let rewrite = ExitRewrite {
        mcst_id: Ipv4Addr::new(10, 255, 0, 1),
        host_ip: Ipv4Addr::new(10, 0, 0, 9),
        virtual_qpn: QpNum::new(1),
        host_qpn: QpNum::new(0x1234),
        va_xor: 0x0100_0000_0000,
        rkey_xor: 0x77,
    };
    bencher.bench(|| NeutralConstants::exit(black_box(&rewrite)));
}

const PACKETS: u64 = 1024;

/// Packets from sender to receiver and ACKs back without a network: the work of both ends together.
#[divan::bench(args = [1500, 4200], sample_count = 20)]
fn packet_from_end_to_end(bencher: Bencher<'_, '_>, ip_mtu: u32) {
    let mut pair = Pair::new(ip_mtu);
    let payload = PACKETS as usize * pair.hosts[0].default_rc().mtu.bytes();
    bencher
        .counter(ItemsCount::new(PACKETS))
        .counter(BytesCount::new(payload))
        .bench_local(|| pair.send(payload as u64));
}

struct Pair {
    hosts: [Host; 2],
    qps: [QpNum; 2],
    keys: [MemoryKey; 2],
    now: u64,
}

impl Pair {
    fn new(ip_mtu: u32) -> Pair {
        let ip = |i: usize| Ipv4Addr::new(10, 0, 0, i as u8 + 1);
        let mut hosts = [0, 1].map(|i| {
            let mac = MacAddr([2, 0, 0, 0, 0, i as u8]);
            Host::new(HostConfig::new("bench", mac, ip(i), 8, ip_mtu, i as u64))
                .expect("the MTU is large enough")
        });
        let config = hosts[0].default_rc();
        let size = PACKETS as usize * config.mtu.bytes();
        let qps = hosts.each_mut().map(|host| host.create_qp(config));
        let keys = [
            hosts[0].register_shared(Arc::from(vec![7; size])),
            hosts[1].register_memory(size as u64, false),
        ];
        for i in 0..2 {
            hosts[i]
                .set_sq_psn(qps[i], Psn::new(0))
                .expect("it is idle");
            let remote = Remote {
                ip: ip(1 - i),
                qpn: qps[1 - i],
            };
            hosts[i]
                .connect_qp(0, qps[i], remote, Psn::new(0))
                .expect("it is new");
        }
        Pair {
            hosts,
            qps,
            keys,
            now: 0,
        }
    }

    /// Sends one message, and returns when it is acknowledged.
    fn send(&mut self, len: u64) {
        let slice = |key| MemorySlice {
            key,
            offset: 0,
            len,
        };
        let receive = RecvRequest {
            wr_id: 0,
            buffer: slice(self.keys[1]),
        };
        let send = SendRequest {
            wr_id: 0,
            operation: SendOperation::Send { immediate: None },
            payload: Payload::Memory(slice(self.keys[0])),
        };
        self.hosts[1]
            .post_recv(self.qps[1], receive)
            .expect("the buffer is registered");
        self.hosts[0]
            .post_send(self.qps[0], send)
            .expect("the message is registered");
        loop {
            let mut idle = true;
            for from in 0..2 {
                while let Some(frame) = self.hosts[from].poll_transmit(self.now) {
                    self.now += 100;
                    self.hosts[1 - from].handle_frame(self.now, &frame);
                    idle = false;
                }
                if self.hosts[from]
                    .poll_timeout()
                    .is_some_and(|at| at <= self.now)
                {
                    self.hosts[from].handle_timeout(self.now);
                    idle = false;
                }
            }
            if idle {
                break;
            }
        }
        for host in &mut self.hosts {
            while host.poll_event().is_some() {}
        }
    }
}
