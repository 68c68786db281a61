//! Packet-in and packet-out (P4Runtime § 16.1).

use alfirk_p4runtime::{p4::v1::*, text, Code};

use crate::fixture::*;

fn packet_out(port: &str) -> PacketOut {
    let mut packet: PacketOut = text::parse(&format!(
        r#"metadata {{ metadata_id: 1 value: "\x00" }} metadata {{ metadata_id: 2 value: "\x00" }}
           metadata {{ metadata_id: 3 value: "{port}" }}"#
    ))
    .unwrap();
    packet.payload = frame(5);
    packet
}

fn error(f: &mut Fixture) -> StreamError {
    match f.settle().1.remove(0).update {
        Some(stream_message_response::Update::Error(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_packet_out_leaves_through_the_port_in_its_metadata() {
    let mut f = Fixture::new();
    f.message(stream_message_request::Update::Packet(packet_out(
        r"\x01\x02",
    )));
    assert_eq!(f.settle().0, [(0x102, frame(5))]);
    assert_eq!(f.server.counters().packet_outs, 1);
}

#[test]
fn a_packet_for_the_cpu_port_reaches_the_primary_with_metadata() {
    let mut f = Fixture::new();
    let to_cpu = format!(
        r#"table_entry {{ table_id: {L2} match {{ field_id: 1 exact {{ value: "\x05" }} }}
           action {{ action {{ action_id: {FORWARD} params {{ param_id: 1 value: "\x01\xfe" }} }} }} }}"#
    );
    f.insert(&to_cpu).unwrap();
    let backup = f.server.stream_open();
    f.server.stream_message(backup, arbitration(None), 0);
    f.settle();
    let (frames, messages) = f.packet(300, &frame(5));
    assert_eq!(frames, []);
    let mut expected: PacketIn = text::parse(
        r#"metadata { metadata_id: 1 value: "\x03" } metadata { metadata_id: 2 value: "\x00" }
           metadata { metadata_id: 3 value: "\x01\x2c" }"#,
    )
    .unwrap();
    expected.payload = frame(5);
    assert_eq!(messages.len(), 1);
    assert_eq!(
        messages[0].update,
        Some(stream_message_response::Update::Packet(expected))
    );

    // Without a primary the packet is lost and counted.
    f.server.stream_close(f.primary);
    f.settle();
    assert_eq!(f.packet(300, &frame(5)).1, []);
    assert_eq!(f.server.counters().packet_ins_lost, 1);
}

#[test]
fn malformed_metadata_gets_an_error_with_the_packet() {
    let mut f = Fixture::new();
    let mut wrong = packet_out("\\x01");
    wrong.metadata[2].metadata_id = 7;
    f.message(stream_message_request::Update::Packet(wrong.clone()));
    let error = error(&mut f);
    assert_eq!(error.canonical_code, i32::from(Code::InvalidArgument));
    assert!(error.message.contains("id 7"), "{}", error.message);
    let details = stream_error::Details::PacketOut(PacketOutError {
        packet_out: Some(wrong),
    });
    assert_eq!(error.details, Some(details));
}

#[test]
fn backups_send_no_packets() {
    let mut f = Fixture::new();
    let backup = f.server.stream_open();
    f.server.stream_message(backup, arbitration(None), 0);
    f.settle();
    let message = StreamMessageRequest {
        update: Some(stream_message_request::Update::Packet(packet_out("\\x01"))),
    };
    f.server.stream_message(backup, message, 0);
    assert_eq!(
        error(&mut f).canonical_code,
        i32::from(Code::PermissionDenied)
    );
}

#[test]
fn packet_outs_are_rejected_without_a_pipeline() {
    let mut f = Fixture::without_pipeline();
    f.message(stream_message_request::Update::Packet(packet_out("\\x01")));
    assert_eq!(
        error(&mut f).canonical_code,
        i32::from(Code::FailedPrecondition)
    );
}

#[test]
fn unknown_messages_get_an_error() {
    let mut f = Fixture::new();
    f.message(stream_message_request::Update::Other(Default::default()));
    assert_eq!(error(&mut f).canonical_code, i32::from(Code::Unimplemented));
    f.server
        .stream_message(f.primary, StreamMessageRequest::default(), 0);
    assert_eq!(
        error(&mut f).canonical_code,
        i32::from(Code::InvalidArgument)
    );
}
