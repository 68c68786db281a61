//! Misbehaving clients: the switch continues forwarding and serving others, and its memory stays small.

use alfirk_test_budget::Fuzz;
use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use alfirk_p4runtime::{
    p4::v1::{p4_runtime_client::P4RuntimeClient, update::Type, *},
    Message,
};
use tokio::runtime::Runtime;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    transport::Channel,
    Code, Request, Status,
};

use crate::{
    chance::Chance,
    fixture, forward,
    net::Wire,
    process::{Controller, Process},
    start, to_controller, DEADLINE, FAR,
};

/// Maximum number of streams per switch.
const MAX_STREAMS: usize = 1024;
/// Maximum number of streams per HTTP/2 connection.
const STREAMS_PER_CONNECTION: usize = 200;
/// Maximum growth of the switch's memory in MiB; a few thousand messages and connections need that much.
const MAX_GROWTH_MIB: u64 = 64;

fn still_works(runtime: &Runtime, controller: &mut Controller) {
    forward(runtime, controller, 9, 2);
    let (one, two) = (Wire::open(FAR[0]), Wire::open(FAR[1]));
    one.send(&fixture::frame(9));
    assert_eq!(two.receive(DEADLINE), Some(fixture::frame(9)));
    let entry = fixture::l2(9, 2, "");
    runtime.block_on(controller.write(vec![fixture::update(Type::Delete, &entry)]));
}

async fn connect(process: &Process) -> P4RuntimeClient<Channel> {
    let address = format!("http://{}", process.address());
    P4RuntimeClient::connect(address).await.unwrap()
}

pub fn streams_beyond_the_limit_are_rejected() {
    let (runtime, process, mut controller) = start(&[]);
    let before = process.memory();
    runtime.block_on(async {
        let mut open = Vec::new();
        let mut rejected = 0;
        for at in 0..MAX_STREAMS + 100 {
            if at % STREAMS_PER_CONNECTION == 0 {
                open.push((connect(&process).await, Vec::new()));
            }
            let (client, streams) = open.last_mut().expect("there is a connection");
            // Nothing is sent or read on this stream.
            let (requests, stream) = tokio::sync::mpsc::channel::<StreamMessageRequest>(1);
            match client.stream_channel(ReceiverStream::new(stream)).await {
                Ok(responses) => streams.push((requests, responses)),
                Err(status) => {
                    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
                    rejected += 1;
                }
            }
        }
        // One stream is the controller's.
        assert_eq!(rejected, 101);
    });
    still_works(&runtime, &mut controller);
    // After they are closed, new streams are accepted.
    runtime.block_on(async {
        let mut client = connect(&process).await;
        let deadline = Instant::now() + DEADLINE;
        loop {
            let (_requests, stream) = tokio::sync::mpsc::channel::<StreamMessageRequest>(1);
            match client.stream_channel(ReceiverStream::new(stream)).await {
                Ok(_) => break,
                Err(status) => assert!(Instant::now() < deadline, "{status}"),
            }
        }
    });
    let grown = process.memory().saturating_sub(before) >> 20;
    assert!(grown < MAX_GROWTH_MIB, "{grown} MiB more");
    process.stop();
}

pub fn clients_that_do_not_read_use_little_memory() {
    let (runtime, process, mut controller) = start(&[]);
    runtime.block_on(controller.insert(&to_controller()));
    forward(&runtime, &mut controller, 6, 2);
    let (one, two) = (Wire::open(FAR[0]), Wire::open(FAR[1]));
    let mut large = fixture::frame(5);
    large.resize(1400, 0);
    let before = process.memory();
    // More messages for the primary than the queue holds.
    for round in 0..100 {
        for _ in 0..200 {
            one.send(&large);
        }
        one.send(&numbered(round));
        assert_eq!(two.receive(DEADLINE), Some(numbered(round)));
    }
    let grown = process.memory().saturating_sub(before) >> 20;
    assert!(grown < MAX_GROWTH_MIB, "{grown} MiB more");
    still_works(&runtime, &mut controller);
    process.stop();
}

fn numbered(number: u8) -> Vec<u8> {
    [&fixture::frame(6)[..], &[number]].concat()
}

pub fn a_batch_of_failing_updates_gets_a_complete_status() {
    let (runtime, process, mut controller) = start(&[]);
    for size in [1, 100, 10_000] {
        // All entries but the first exist already, so each update has an error.
        let updates = vec![fixture::update(Type::Insert, &fixture::l2(8, 2, "")); size + 1];
        let request = WriteRequest {
            device_id: fixture::DEVICE,
            election_id: fixture::id(1),
            updates,
            ..Default::default()
        };
        let status = runtime
            .block_on(controller.client.write(request))
            .expect_err("they fail");
        assert_eq!(status.code(), Code::Unknown, "{status}");
        runtime.block_on(
            controller.write(vec![fixture::update(Type::Delete, &fixture::l2(8, 2, ""))]),
        );
    }
    still_works(&runtime, &mut controller);
    process.stop();
}

pub fn random_bytes_on_the_socket_do_not_harm_the_switch() {
    /// Start of an HTTP/2 connection: the preface, and empty settings.
    const OPENING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let (runtime, process, mut controller) = start(&[]);
    let before = process.memory();
    let Fuzz { first, time } = Fuzz::from_env();
    let start = Instant::now();
    let mut held = Vec::new();
    let mut cases = 0;
    for case in first.. {
        let mut chance = Chance::new(case);
        let mut bytes = Vec::new();
        if !chance.one_in(6) {
            bytes.extend(OPENING);
        }
        for _ in 0..chance.below(6) {
            bytes.extend(http2_frame(&mut chance));
        }
        if chance.one_in(3) {
            chance.damage(&mut bytes);
        }
        let mut stream = TcpStream::connect(process.address()).unwrap();
        // The server may have closed the connection already.
        let _ = stream.write_all(&bytes);
        match chance.below(3) {
            0 => held.push(stream),
            1 => {
                stream
                    .set_read_timeout(Some(Duration::from_millis(2)))
                    .unwrap();
                let _ = stream.read(&mut [0; 100]);
            }
            _ => {}
        }
        held.truncate(50);
        cases += 1;
        if start.elapsed() >= time {
            break;
        }
    }
    still_works(&runtime, &mut controller);
    let grown = process.memory().saturating_sub(before) >> 20;
    println!("{cases} connections from seed {first}, {grown} MiB more");
    assert!(grown < MAX_GROWTH_MIB, "{grown} MiB more");
    process.stop();
}

/// Returns an HTTP/2 frame whose length, type, flags, stream and payload may be inconsistent.
fn http2_frame(chance: &mut Chance) -> Vec<u8> {
    let most = if chance.one_in(8) { 20_000 } else { 64 };
    let len = chance.below(most);
    let payload = chance.bytes(len);
    let length = match chance.one_in(8) {
        true => chance.number() as u32,
        false => payload.len() as u32,
    };
    let mut frame = length.to_be_bytes()[1..].to_vec();
    frame.push(chance.below(12) as u8);
    frame.push(chance.number() as u8);
    let stream = if chance.one_in(4) {
        chance.number() as u32
    } else {
        chance.below(8) as u32
    };
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// A gRPC codec whose messages are raw bytes.
#[derive(Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = ();
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        bytes::BufMut::put_slice(buffer, &item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = ();
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<()>, Status> {
        let len = bytes::Buf::remaining(buffer);
        bytes::Buf::advance(buffer, len);
        Ok(Some(()))
    }
}

pub fn requests_with_random_bytes_do_not_harm_the_switch() {
    const METHODS: &[&str] = &[
        "Write",
        "Read",
        "SetForwardingPipelineConfig",
        "GetForwardingPipelineConfig",
        "StreamChannel",
        "Capabilities",
        "NoSuchMethod",
    ];
    let (runtime, process, mut controller) = start(&[]);
    let before = process.memory();
    let Fuzz { first, time } = Fuzz::from_env();
    let bodies = bodies();
    let cases = runtime.block_on(async {
        let address = format!("http://{}", process.address());
        let channel = Channel::from_shared(address)
            .unwrap()
            .connect()
            .await
            .unwrap();
        let start = Instant::now();
        let mut cases = 0;
        for case in first.. {
            let mut chance = Chance::new(case);
            let method = *chance.pick(METHODS);
            let messages: Vec<Vec<u8>> = (0..=chance.below(3))
                .map(|_| {
                    let mut body = chance.pick(&bodies).clone();
                    if !chance.one_in(4) {
                        chance.damage(&mut body);
                    }
                    body
                })
                .collect();
            let mut grpc = tonic::client::Grpc::new(channel.clone());
            grpc.ready().await.expect("the connection stays");
            let path = format!("/p4.v1.P4Runtime/{method}")
                .parse()
                .expect("it is a path");
            let call = grpc.streaming(Request::new(tokio_stream::iter(messages)), path, Raw);
            // Some calls wait for all replies, some for none, and some are cancelled.
            let reply = match chance.below(4) {
                0 => {
                    tokio::time::timeout(Duration::from_micros(chance.below(2000) as u64), call)
                        .await
                }
                _ => Ok(tokio::time::timeout(DEADLINE, call)
                    .await
                    .expect("every request gets a reply")),
            };
            if let (Ok(Ok(response)), true) = (reply, chance.one_in(2)) {
                let mut replies = response.into_inner();
                let all = async { while let Ok(Some(())) = replies.message().await {} };
                // The stream channel stays open if its requests are valid.
                let patience = if method == "StreamChannel" {
                    Duration::from_millis(5)
                } else {
                    DEADLINE
                };
                let ended = tokio::time::timeout(patience, all).await;
                assert!(
                    ended.is_ok() || method == "StreamChannel",
                    "case {case}: no end of the reply"
                );
            }
            cases += 1;
            if start.elapsed() >= time {
                break;
            }
        }
        cases
    });
    // Some requests may have been valid, and have replaced the primary or the program.
    drop(controller);
    controller = runtime.block_on(Controller::connect_as(u64::MAX, process.address()));
    runtime.block_on(controller.set_pipeline(fixture::config()));
    still_works(&runtime, &mut controller);
    let grown = process.memory().saturating_sub(before) >> 20;
    println!("{cases} calls from seed {first}, {grown} MiB more");
    assert!(grown < MAX_GROWTH_MIB, "{grown} MiB more");
    process.stop();
}

/// Returns one valid message of each type.
fn bodies() -> Vec<Vec<u8>> {
    let device_id = fixture::DEVICE;
    let election_id = fixture::id(1);
    let write = WriteRequest {
        device_id,
        election_id,
        updates: vec![fixture::update(Type::Insert, &fixture::l2(3, 2, ""))],
        ..Default::default()
    };
    let read = ReadRequest {
        device_id,
        entities: vec![fixture::entity("table_entry {}")],
        ..Default::default()
    };
    let set = SetForwardingPipelineConfigRequest {
        device_id,
        election_id,
        action: set_forwarding_pipeline_config_request::Action::VerifyAndCommit.into(),
        config: Some(fixture::config()),
        ..Default::default()
    };
    let get = GetForwardingPipelineConfigRequest {
        device_id,
        ..Default::default()
    };
    vec![
        write.encode_to_vec(),
        read.encode_to_vec(),
        set.encode_to_vec(),
        get.encode_to_vec(),
        CapabilitiesRequest { device_id }.encode_to_vec(),
        fixture::arbitration(fixture::id(1)).encode_to_vec(),
        Vec::new(),
    ]
}
