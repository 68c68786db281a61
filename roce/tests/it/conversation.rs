//! Scripted exchanges with one queue pair, packet by packet.
//!
//! A script is text. Input lines begin with `>` (a packet arrives), `@` (time passes) or a verb such as `post` or `recv` (the user
//! posts work). Output lines begin with `<` (a packet is sent) and `!` (a work request has completed, or the queue pair has failed),
//! and must occur exactly where the queue pair produces them. The MTU is 256, both sides start at PSN 0, lengths are in bytes.

use std::fmt::Write;
use std::net::Ipv4Addr;
use std::sync::Arc;

use alfirk_roce::rc::{
    AckTimeout, MemoryKey, MemorySlice, MemoryTable, PathMtu, Payload, QpStats, QueuePair,
    RcConfig, RcHeaders, RcPacket, Recovery, RecvRequest, Remote, Retries, SendOperation,
    SendRequest,
};
use alfirk_roce::wire::{aeth, bth, reth, NakCode, Opcode, Psn, QpNum, RnrTimer, Syndrome};

const REMOTE: Remote = Remote {
    ip: Ipv4Addr::new(10, 0, 0, 2),
    qpn: QpNum::new(0x22),
};

struct Conversation {
    now: u64,
    qp: QueuePair,
    memory: MemoryTable,
    region: MemoryKey,
    posted: u64,
    transcript: String,
}

pub fn config() -> RcConfig {
    RcConfig {
        window: 4,
        ack_every: 100,
        ack_timeout: AckTimeout::new(8),
        retries: Retries::Limited(2),
        rnr_retries: Retries::Limited(1),
        ..RcConfig::new(PathMtu::B256)
    }
}

/// Asserts that the queue pair follows the script. Returns its counters at the end.
#[track_caller]
pub fn converse(config: RcConfig, script: &str) -> QpStats {
    converse_from(Psn::new(0), config, script)
}

#[track_caller]
pub fn converse_from(psn: Psn, config: RcConfig, script: &str) -> QpStats {
    let mut memory = MemoryTable::new(0);
    let region = memory.register(1024, true);
    let mut qp = QueuePair::new(QpNum::new(0x11), psn, config);
    qp.connect(REMOTE, psn).unwrap();
    let mut talk = Conversation {
        now: 0,
        qp,
        memory,
        region,
        posted: 0,
        transcript: String::new(),
    };
    let lines: Vec<&str> = script
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .collect();
    for line in lines.iter().filter(|l| !l.starts_with(['<', '!'])) {
        talk.say(line);
    }
    let expected = lines.join("\n") + "\n";
    assert!(
        talk.transcript == expected,
        "expected\n{expected}\nfound\n{}",
        talk.transcript
    );
    talk.qp.stats()
}

impl Conversation {
    fn say(&mut self, line: &str) {
        writeln!(self.transcript, "{line}").unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |name: &str| -> Option<u64> {
            let word = words
                .iter()
                .find_map(|w| w.strip_prefix(name)?.strip_prefix('='))?;
            Some(word.parse().unwrap())
        };
        let flag = |name: &str| words.contains(&name);
        match words[0] {
            "@" => {
                self.now += words[1].strip_suffix("us").unwrap().parse::<u64>().unwrap() * 1000;
                if self.qp.poll_timeout().is_some_and(|at| at <= self.now) {
                    self.qp.handle_timeout(self.now);
                }
            }
            "take-over" => self.qp.take_over_sending().unwrap(),
            "expect-next" => self.qp.expect_next_source().unwrap(),
            "conclude" => self.qp.conclude_sends(self.now),
            "recv" => {
                let buffer = MemorySlice {
                    key: self.region,
                    offset: 0,
                    len: number("len").unwrap(),
                };
                let request = RecvRequest {
                    wr_id: self.posted,
                    buffer,
                };
                self.qp.post_recv(&self.memory, request).unwrap();
                self.posted += 1;
            }
            "post" => {
                let immediate = number("imm").map(|i| i as u32);
                let operation = match words[1] {
                    "send" => SendOperation::Send { immediate },
                    _ => SendOperation::Write {
                        remote_va: 4096,
                        rkey: 9,
                        immediate,
                    },
                };
                let payload = Payload::Bytes(Arc::from(vec![0; number("len").unwrap() as usize]));
                let request = SendRequest {
                    wr_id: self.posted,
                    operation,
                    payload,
                };
                self.qp.post_send(&self.memory, request).unwrap();
                self.posted += 1;
            }
            ">" => {
                let (opcode, syndrome) = match words[1] {
                    "Ack" => {
                        let credits = number("credits").unwrap_or(31) as u8;
                        (Opcode::Acknowledge, Some(Syndrome::Ack { credits }))
                    }
                    "Acknowledge" => {
                        let syndrome = number("syndrome").unwrap() as u8;
                        (Opcode::Acknowledge, Some(syndrome.into()))
                    }
                    "Nak" => (
                        Opcode::Acknowledge,
                        Some(Syndrome::Nak(NakCode::PsnSequenceError)),
                    ),
                    "AccessNak" => (
                        Opcode::Acknowledge,
                        Some(Syndrome::Nak(NakCode::RemoteAccessError)),
                    ),
                    "Rnr" => (
                        Opcode::Acknowledge,
                        Some(Syndrome::RnrNak(RnrTimer::new(1))),
                    ),
                    name => (opcode(name), None),
                };
                let va = self.memory.region(self.region).unwrap().virtual_address();
                let psn = Psn::new(words[2].parse().unwrap());
                let headers = RcHeaders {
                    bth: bth::Repr {
                        ack_req: flag("ack"),
                        ..bth::Repr::new(opcode, QpNum::new(0x11), psn)
                    },
                    reth: opcode.has_reth().then(|| reth::Repr {
                        virtual_address: va + number("at").unwrap_or(0),
                        rkey: number("rkey").map_or(self.region.0, |key| key as u32),
                        dma_length: number("dma").or(number("len")).unwrap_or(0) as u32,
                    }),
                    aeth: syndrome.map(|syndrome| aeth::Repr {
                        syndrome,
                        msn: number("msn").unwrap_or(0) as u32,
                    }),
                    immediate: opcode.has_immediate().then_some(7),
                };
                let payload = vec![0; number("len").unwrap_or(0) as usize];
                let packet = RcPacket {
                    headers,
                    payload: &payload,
                };
                self.qp.handle_packet(self.now, &packet, &mut self.memory);
            }
            other => panic!("`{other}` in a conversation"),
        }
        self.listen();
    }

    fn listen(&mut self) {
        while let Some(out) = self.qp.poll_transmit(self.now) {
            let bth = out.headers.bth;
            assert_eq!(bth.dest_qp, REMOTE.qpn);
            let text = &mut self.transcript;
            match out.headers.aeth {
                Some(aeth) => {
                    let what = match aeth.syndrome {
                        Syndrome::Ack { credits: 31 } => "Ack".to_owned(),
                        Syndrome::Nak(code) => format!("Nak {code:?}"),
                        Syndrome::RnrNak(timer) => format!("Rnr {}", timer.code()),
                        other => format!("{other:?}"),
                    };
                    write!(text, "< {what} {} msn={}", bth.psn, aeth.msn).unwrap();
                }
                None => {
                    let len = out.payload.map_or(0, |(_, _, len)| len);
                    write!(text, "< {:?} {} len={len}", bth.opcode, bth.psn).unwrap();
                    if let Some(reth) = out.headers.reth {
                        write!(text, " va={} dma={}", reth.virtual_address, reth.dma_length)
                            .unwrap();
                    }
                    if let Some(immediate) = out.headers.immediate {
                        write!(text, " imm={immediate}").unwrap();
                    }
                    if bth.ack_req {
                        text.push_str(" ack");
                    }
                }
            }
            text.push('\n');
        }
        while let Some(done) = self.qp.poll_completion() {
            let text = &mut self.transcript;
            write!(text, "! {:?} #{}: ", done.operation, done.wr_id).unwrap();
            match done.outcome {
                Ok(ok) => write!(text, "{} bytes", ok.bytes).unwrap(),
                Err(error) => write!(text, "{error}").unwrap(),
            }
            text.push('\n');
        }
        if let Some(failure) = self.qp.take_failure() {
            writeln!(self.transcript, "! {failure}").unwrap();
        }
    }
}

fn opcode(name: &str) -> Opcode {
    (0..=255)
        .map(Opcode::from)
        .find(|o| format!("{o:?}") == name)
        .unwrap()
}

// ---- Responder ----

#[test]
fn gap_gets_one_nak_until_it_is_filled() {
    converse(
        config(),
        "recv len=1024
         > SendFirst 0 len=256
         > SendMiddle 2 len=256
         < Nak PsnSequenceError 1 msn=0
         > SendLast 3 len=256 ack
         > SendMiddle 1 len=256
         > SendLast 3 len=256 ack
         < Nak PsnSequenceError 2 msn=0
         > SendMiddle 2 len=256
         > SendLast 3 len=256 ack
         < Ack 3 msn=1
         ! Receive #0: 1024 bytes",
    );
}

#[test]
fn duplicate_is_acknowledged_with_the_newest_psn() {
    converse(
        config(),
        "recv len=10
         recv len=10
         > SendOnly 0 len=1 ack
         < Ack 0 msn=1
         ! Receive #0: 1 bytes
         > SendOnly 1 len=1
         ! Receive #1: 1 bytes
         > SendOnly 0 len=1 ack
         < Ack 1 msn=2
         > SendOnly 1 len=1",
    );
}

#[test]
fn missing_buffer_gets_an_rnr_nak_and_the_next_packet_a_nak() {
    converse(
        config(),
        "> SendOnly 0 len=1 ack
         < Rnr 12 0 msn=0
         > SendOnly 1 len=1 ack
         < Nak PsnSequenceError 0 msn=0
         recv len=1
         > SendOnly 0 len=1 ack
         < Ack 0 msn=1
         ! Receive #0: 1 bytes",
    );
}

#[test]
fn packet_out_of_opcode_sequence_is_an_invalid_request() {
    for (first, second) in [
        ("SendFirst 0 len=256", "SendOnly 1 len=1"),
        ("SendFirst 0 len=256", "WriteMiddle 1 len=256"),
        ("SendFirst 0 len=256", "SendLast 1 len=0"),
        ("SendFirst 0 len=256", "SendMiddle 1 len=255"),
        ("SendFirst 0 len=256", "ReadRequest 1 len=0"),
        ("SendFirst 0 len=256", "SendLastInvalidate 1 len=1"),
    ] {
        let script = format!(
            "recv len=1024
             > {first}
             > {second}
             < Nak InvalidRequest 1 msn=0
             ! Receive #0: flushed: the queue pair failed before the request completed
             ! responder: rejected a request of the remote side (InvalidRequest)
             > SendOnly 1 len=1 ack"
        );
        converse(config(), &script);
    }
}

#[test]
fn middle_without_first_is_an_invalid_request() {
    converse(
        config(),
        "> SendMiddle 0 len=256
         < Nak InvalidRequest 0 msn=0
         ! responder: rejected a request of the remote side (InvalidRequest)",
    );
}

#[test]
fn message_longer_than_its_buffer_is_an_invalid_request() {
    converse(
        config(),
        "recv len=300
         > SendFirst 0 len=256
         > SendLast 1 len=45
         < Nak InvalidRequest 1 msn=0
         ! Receive #0: the message is longer than the receive buffer
         ! responder: rejected a request of the remote side (InvalidRequest)",
    );
}

#[test]
fn writes_are_bounded_by_their_region() {
    for request in [
        "len=256 at=769",
        "len=1 rkey=12345",
        "len=1 at=18446744073709551",
    ] {
        let script = format!(
            "> WriteOnly 0 {request}
             < Nak RemoteAccessError 0 msn=0
             ! responder: rejected a request of the remote side (RemoteAccessError)"
        );
        converse(config(), &script);
    }
    converse(
        config(),
        "> WriteOnly 0 len=256 at=768 ack
         < Ack 0 msn=1
         > WriteOnly 1 len=0 rkey=12345 ack
         < Ack 1 msn=2",
    );
}

#[test]
fn packets_of_a_write_must_add_up_to_its_length() {
    for last in [
        "WriteLast 1 len=100",
        "WriteMiddle 1 len=256",
        "WriteLast 1 len=200",
    ] {
        let script = format!(
            "> WriteFirst 0 len=256 dma=400
             > {last}
             < Nak InvalidRequest 1 msn=0
             ! responder: rejected a request of the remote side (InvalidRequest)"
        );
        converse(config(), &script);
    }
}

#[test]
fn write_with_immediate_uses_up_a_receive() {
    converse(
        config(),
        "> WriteFirst 0 len=256 dma=300
         > WriteLastImm 1 len=44 ack
         < Rnr 12 1 msn=0
         recv len=0
         > WriteLastImm 1 len=44 ack
         < Ack 1 msn=1
         ! ReceiveWrite #0: 300 bytes",
    );
}

#[test]
fn psn_zero_follows_the_largest() {
    converse_from(
        Psn::new(0xff_fffe),
        config(),
        "recv len=1024
         > SendFirst 16777214 len=256
         > SendMiddle 16777215 len=256
         > SendLast 1 len=256
         < Nak PsnSequenceError 0 msn=0
         > SendMiddle 0 len=256
         > SendLast 1 len=256 ack
         < Ack 1 msn=1
         ! Receive #0: 1024 bytes
         > SendLast 16777215 len=256 ack
         < Ack 1 msn=1",
    );
}

// ---- Requester ----

#[test]
fn message_is_segmented_and_the_last_packet_has_ack_req() {
    converse(
        config(),
        "post send len=513 imm=5
         < SendFirst 0 len=256
         < SendMiddle 1 len=256
         < SendLastImm 2 len=1 imm=5 ack
         > Ack 2
         ! Send #0: 513 bytes
         post write len=257
         < WriteFirst 3 len=256 va=4096 dma=257
         < WriteLast 4 len=1 ack
         > Ack 4
         ! Write #1: 257 bytes
         post send len=0
         < SendOnly 5 len=0 ack
         > Ack 5
         ! Send #2: 0 bytes",
    );
}

#[test]
fn full_window_sets_ack_req_and_waits() {
    converse(
        config(),
        "post send len=1536
         < SendFirst 0 len=256
         < SendMiddle 1 len=256
         < SendMiddle 2 len=256
         < SendMiddle 3 len=256 ack
         > Ack 1
         < SendMiddle 4 len=256
         < SendLast 5 len=256 ack
         > Ack 5
         ! Send #0: 1536 bytes",
    );
}

#[test]
fn nak_acknowledges_earlier_packets_and_goes_back() {
    converse(
        config(),
        "post send len=1
         < SendOnly 0 len=1 ack
         post send len=1
         < SendOnly 1 len=1 ack
         post send len=1
         < SendOnly 2 len=1 ack
         > Nak 1
         < SendOnly 1 len=1 ack
         < SendOnly 2 len=1 ack
         ! Send #0: 1 bytes
         > Nak 1
         > Nak 2
         < SendOnly 2 len=1 ack
         ! Send #1: 1 bytes
         > Ack 2
         ! Send #2: 1 bytes",
    );
}

#[test]
fn acks_of_unsent_or_completed_psns_are_ignored() {
    converse(
        config(),
        "post send len=1
         < SendOnly 0 len=1 ack
         > Ack 1
         > Nak 1
         > Rnr 5
         > Ack 0
         ! Send #0: 1 bytes
         > Ack 0
         > Nak 0
         > AccessNak 0",
    );
}

#[test]
fn ack_before_a_retransmission_cancels_it() {
    converse(
        config(),
        "post send len=1024
         < SendFirst 0 len=256
         < SendMiddle 1 len=256
         < SendMiddle 2 len=256
         < SendLast 3 len=256 ack
         > Rnr 0
         > Ack 2
         < SendLast 3 len=256 ack
         > Ack 3
         ! Send #0: 1024 bytes",
    );
}

#[test]
fn rnr_nak_pauses_the_requester_for_its_delay() {
    converse(
        config(),
        "post send len=300
         < SendFirst 0 len=256
         < SendLast 1 len=44 ack
         > Rnr 0
         > Nak 0
         @ 9us
         @ 1us
         < SendFirst 0 len=256
         < SendLast 1 len=44 ack
         > Rnr 0
         ! Send #0: the receiver had no receive buffer within the RNR retry limit
         ! requester: the receiver had no receive buffer within the RNR retry limit",
    );
}

#[test]
fn timeouts_go_back_until_the_retries_are_used_up() {
    converse(
        config(),
        "post send len=1
         < SendOnly 0 len=1 ack
         @ 1048us
         @ 1us
         < SendOnly 0 len=1 ack
         @ 1049us
         < SendOnly 0 len=1 ack
         @ 1049us
         ! Send #0: no acknowledgement arrived within the retry limit
         ! requester: no acknowledgement arrived within the retry limit
         > Ack 0",
    );
}

#[test]
fn progress_resets_the_retry_count() {
    converse(
        config(),
        "post send len=512
         < SendFirst 0 len=256
         < SendLast 1 len=256 ack
         @ 1049us
         < SendFirst 0 len=256
         < SendLast 1 len=256 ack
         @ 1049us
         < SendFirst 0 len=256
         < SendLast 1 len=256 ack
         > Ack 0
         @ 1049us
         < SendLast 1 len=256 ack
         @ 1049us
         < SendLast 1 len=256 ack
         > Ack 1
         ! Send #0: 512 bytes
         @ 5000us",
    );
}

#[test]
fn fatal_nak_fails_its_message_and_flushes_the_others() {
    converse(
        config(),
        "post write len=1
         < WriteOnly 0 len=1 va=4096 dma=1 ack
         post write len=1
         < WriteOnly 1 len=1 va=4096 dma=1 ack
         post send len=1
         < SendOnly 2 len=1 ack
         recv len=9
         > AccessNak 1
         ! Write #0: 1 bytes
         ! Write #1: the remote side denied access to its memory
         ! Send #2: flushed: the queue pair failed before the request completed
         ! Receive #3: flushed: the queue pair failed before the request completed
         ! requester: the remote side denied access to its memory",
    );
}

#[test]
fn coalesced_acks_contain_only_the_newest_psn() {
    let config = RcConfig {
        ack_coalescing: true,
        ..config()
    };
    let mut memory = MemoryTable::new(0);
    let region = memory.register(8, false);
    let mut qp = QueuePair::new(QpNum::new(0x11), Psn::new(0), config);
    qp.connect(REMOTE, Psn::new(0)).unwrap();
    for psn in 0..4 {
        let buffer = MemorySlice {
            key: region,
            offset: 0,
            len: 8,
        };
        qp.post_recv(&memory, RecvRequest { wr_id: 0, buffer })
            .unwrap();
        let bth = bth::Repr {
            ack_req: true,
            ..bth::Repr::new(Opcode::SendOnly, QpNum::new(0x11), Psn::new(psn))
        };
        let packet = RcPacket {
            headers: RcHeaders::plain(bth),
            payload: &[],
        };
        qp.handle_packet(0, &packet, &mut memory);
    }
    let first = qp.poll_transmit(0).unwrap();
    assert_eq!(first.headers.bth.psn, Psn::new(3));
    assert_eq!(first.headers.aeth.unwrap().msn, 4);
    assert!(qp.poll_transmit(0).is_none());
}

/// Receives a message of seven packets, with those that have no visible effect together or one by one. Returns the visible state.
fn receive_seven(recovery: Recovery, together: bool) -> (Vec<u8>, QpStats, Psn, RcHeaders) {
    const LEN: usize = 256;
    let bytes: Vec<u8> = (0..7 * LEN).map(|at| (at / 3) as u8).collect();
    let config = RcConfig {
        recovery,
        window: 16,
        ..config()
    };
    let mut memory = MemoryTable::new(0);
    let region = memory.register(bytes.len() as u64, false);
    let mut qp = QueuePair::new(QpNum::new(0x11), Psn::new(0), config);
    qp.connect(REMOTE, Psn::new(0xff_fffd)).unwrap();
    let buffer = MemorySlice {
        key: region,
        offset: 0,
        len: bytes.len() as u64,
    };
    qp.post_recv(&memory, RecvRequest { wr_id: 0, buffer })
        .unwrap();
    let packet = |first: usize, count: usize| {
        let opcode = match first {
            0 => Opcode::SendFirst,
            6 => Opcode::SendLast,
            _ => Opcode::SendMiddle,
        };
        let psn = Psn::new(0xff_fffd).plus(first as u64);
        let bth = bth::Repr {
            ack_req: first == 6,
            ..bth::Repr::new(opcode, QpNum::new(0x11), psn)
        };
        RcPacket {
            headers: RcHeaders::plain(bth),
            payload: &bytes[first * LEN..(first + count) * LEN],
        }
    };
    for number in 0..2 {
        assert_eq!(
            qp.silent_followers(&packet(number, 1)),
            0,
            "not received yet"
        );
        qp.handle_packet(0, &packet(number, 1), &mut memory);
    }
    assert_eq!(qp.silent_followers(&packet(1, 1)), 4, "all but the last");
    match together {
        true => qp.handle_followers(&packet(2, 4), 4, &mut memory),
        false => (2..6).for_each(|number| qp.handle_packet(0, &packet(number, 1), &mut memory)),
    }
    assert!(qp.poll_transmit(0).is_none(), "no reply to them");
    qp.handle_packet(0, &packet(6, 1), &mut memory);
    let reply = qp.poll_transmit(0).unwrap().headers;
    let received = memory.read(buffer).unwrap().to_vec();
    assert_eq!(received, bytes);
    (received, qp.stats(), qp.rq_psn(), reply)
}

#[test]
fn silent_packets_have_the_same_effect_together_as_one_by_one() {
    for recovery in [Recovery::GoBackN, Recovery::SelectiveRepeat] {
        let one_by_one = receive_seven(recovery, false);
        assert_eq!(receive_seven(recovery, true), one_by_one);
    }
}
