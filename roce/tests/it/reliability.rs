//! Two queue pairs over a faulty segment: messages arrive once, in order, byte for byte.

use std::sync::Arc;

use alfirk_roce::host::HostEvent;
use alfirk_roce::rc::{
    Completion, MemoryKey, MemorySlice, Operation, PathMtu, Payload, RcConfig, RecvRequest, Remote,
    Retries, SendOperation, SendRequest,
};
use alfirk_roce::wire::{Psn, QpNum};
use proptest::prelude::*;

use crate::fabric::{nak_rule, recovery};
use crate::net::{ip, segment, Faults, Net, Segment};

pub struct Pair {
    pub net: Net<Segment>,
    pub qps: [QpNum; 2],
    /// The completions of each host, in order.
    pub done: [Vec<Completion>; 2],
}

impl Pair {
    /// Two connected hosts; `psn` is the initial PSN of both.
    pub fn new(config: RcConfig, psn: Psn, seed: u64) -> Pair {
        let mut net = segment(2, 4200, seed);
        let qps = [0, 1].map(|i: usize| {
            let qpn = net.hosts[i].create_qp(config);
            net.hosts[i].set_sq_psn(qpn, psn).unwrap();
            qpn
        });
        for i in 0..2 {
            let remote = Remote {
                ip: ip(1 - i),
                qpn: qps[1 - i],
            };
            net.hosts[i].connect_qp(0, qps[i], remote, psn).unwrap();
        }
        net.run(1_000_000);
        Pair {
            net,
            qps,
            done: [Vec::new(), Vec::new()],
        }
    }

    pub fn run(&mut self, deadline: u64) {
        for (i, event) in self.net.run(deadline) {
            if let HostEvent::Completion(completion) = event {
                self.done[i].push(completion);
            }
        }
    }

    pub fn post_send(&mut self, host: usize, wr_id: u64, operation: SendOperation, payload: &[u8]) {
        let payload = Payload::Bytes(Arc::from(payload));
        let request = SendRequest {
            wr_id,
            operation,
            payload,
        };
        self.net.hosts[host]
            .post_send(self.qps[host], request)
            .unwrap();
    }

    pub fn post_recv(&mut self, host: usize, wr_id: u64, key: MemoryKey, offset: u64, len: u64) {
        let buffer = MemorySlice { key, offset, len };
        let request = RecvRequest { wr_id, buffer };
        self.net.hosts[host]
            .post_recv(self.qps[host], request)
            .unwrap();
    }
}

#[derive(Debug, Clone)]
struct Message {
    len: usize,
    kind: u8,
}

fn message() -> impl Strategy<Value = Message> {
    let len = prop_oneof![
        Just(0usize),
        Just(1),
        Just(255),
        Just(256),
        Just(257),
        Just(512),
        0usize..3000,
        0usize..30_000
    ];
    (len, 0u8..4).prop_map(|(len, kind)| Message { len, kind })
}

proptest! {
    #[test]
    fn messages_arrive_once_in_order_byte_for_byte(
        messages in proptest::collection::vec(message(), 1..8),
        late_buffers: bool,
        patient: bool,
        recovery in recovery(),
        coalescing: bool,
        behind_wrap in 0u32..80,
        window in 1u32..80,
        ack_every in 1u32..40,
        loss in prop_oneof![Just(0u32), 0u32..150],
        duplication in 0u32..100,
        reordering in prop_oneof![Just(0u32), 0u32..100],
        seed: u64,
    ) {
        let config = RcConfig {
            window,
            ack_every,
            ack_coalescing: coalescing,
            nak_rule: nak_rule(patient),
            recovery,
            ..RcConfig::new(PathMtu::B256)
        };
        let mut pair = Pair::new(config, Psn::new(0u32.wrapping_sub(behind_wrap)), seed);
        pair.net.faults = Faults { loss, duplication, reordering };
        let total: usize = messages.iter().map(|m| m.len).sum();
        let key = pair.net.hosts[1].register_memory(total as u64, true);
        let va = pair.net.hosts[1].memory().region(key).unwrap().virtual_address();
        let sent: Vec<u8> = (0..total).map(|i| (i * 13 + i / 256 + seed as usize) as u8).collect();

        let mut offset = 0;
        let mut buffers = Vec::new();
        let mut expected = Vec::new();
        for (i, m) in messages.iter().enumerate() {
            let wr_id = i as u64;
            let immediate = (m.kind & 1 == 1).then_some(i as u32);
            let operation = if m.kind < 2 {
                SendOperation::Send { immediate }
            } else {
                SendOperation::Write { remote_va: va + offset, rkey: key.0, immediate }
            };
            pair.post_send(0, wr_id, operation, &sent[offset as usize..][..m.len]);
            let len = m.len as u64;
            if m.kind < 2 {
                buffers.push((wr_id, offset, len));
                expected.push((wr_id, Operation::Receive, len, immediate));
            } else if immediate.is_some() {
                buffers.push((wr_id, 0, 0));
                expected.push((wr_id, Operation::ReceiveWrite, len, immediate));
            }
            offset += len;
        }
        if late_buffers {
            // The first messages meet no buffer: RNR NAKs, until buffers are posted one by one.
            for (wr_id, offset, len) in buffers {
                let until = pair.net.now + 300_000;
                pair.run(until);
                pair.post_recv(1, wr_id, key, offset, len);
            }
        } else {
            for (wr_id, offset, len) in buffers {
                pair.post_recv(1, wr_id, key, offset, len);
            }
        }
        pair.run(100_000_000_000);

        let slice = MemorySlice { key, offset: 0, len: total as u64 };
        prop_assert!(pair.net.hosts[1].memory().read(slice).unwrap() == sent, "the bytes differ");
        let sent_ids: Vec<_> = pair.done[0].iter().map(|c| (c.wr_id, c.outcome.is_ok())).collect();
        prop_assert_eq!(sent_ids, (0..messages.len() as u64).map(|i| (i, true)).collect::<Vec<_>>());
        let received: Vec<_> = pair.done[1]
            .iter()
            .map(|c| {
                let done = c.outcome.unwrap();
                (c.wr_id, c.operation, done.bytes, done.immediate)
            })
            .collect();
        prop_assert_eq!(received, expected);
        for host in &pair.net.hosts {
            prop_assert_eq!(host.stats().implausible(), 0, "{:?}", host.stats());
            prop_assert_eq!(host.stats().drops.total(), 0);
        }
    }
}

#[test]
fn lossless_transfer_sends_each_packet_once() {
    let config = RcConfig::new(PathMtu::B1024);
    let mut pair = Pair::new(config, Psn::new(7), 1);
    let key = pair.net.hosts[1].register_memory(1 << 20, false);
    pair.post_recv(1, 1, key, 0, 1 << 20);
    pair.post_send(
        0,
        2,
        SendOperation::Send { immediate: None },
        &vec![7; 1 << 20],
    );
    pair.run(1_000_000_000);
    assert!(pair.done[0][0].outcome.is_ok());
    let stats = pair.net.hosts[0].qp(pair.qps[0]).unwrap().stats();
    assert_eq!(stats.requests_sent, 1024);
    assert_eq!(stats.retransmissions, 0);
    assert_eq!(stats.acks_received, 1024 / u64::from(config.ack_every));
}

#[test]
fn silent_peer_uses_up_the_retries() {
    let config = RcConfig {
        retries: Retries::Limited(3),
        ..RcConfig::new(PathMtu::B1024)
    };
    let mut pair = Pair::new(config, Psn::new(0), 1);
    pair.net.faults.loss = 1000;
    pair.post_send(0, 1, SendOperation::Send { immediate: None }, b"hello");
    pair.post_send(0, 2, SendOperation::Send { immediate: None }, b"world");
    pair.run(10_000_000_000);
    let outcomes: Vec<_> = pair.done[0]
        .iter()
        .map(|c| c.outcome.unwrap_err().to_string())
        .collect();
    assert_eq!(
        outcomes,
        [
            "no acknowledgement arrived within the retry limit",
            "flushed: the queue pair failed before the request completed"
        ]
    );
    assert_eq!(
        pair.net.hosts[0]
            .qp(pair.qps[0])
            .unwrap()
            .stats()
            .requests_sent,
        2 * 4
    );
}
