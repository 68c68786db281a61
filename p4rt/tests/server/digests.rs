//! Digest lists (P4Runtime § 9.8).

use alfirk_p4runtime::{p4::v1::*, text, Code};

use crate::fixture::*;

fn digest(config: &str) -> String {
    format!("digest_entry {{ digest_id: {DIGEST} config {{ {config} }} }}")
}

fn learning(config: &str) -> Fixture {
    let mut f = Fixture::new();
    f.insert(&format!(
        r#"table_entry {{ table_id: {L2} match {{ field_id: 1 exact {{ value: "\x05" }} }}
           action {{ action {{ action_id: {LEARN} params {{ param_id: 1 value: "\x09" }} }} }} }}"#
    ))
    .unwrap();
    f.insert(&digest(config)).unwrap();
    f
}

fn lists(messages: Vec<StreamMessageResponse>) -> Vec<DigestList> {
    let list = |message: StreamMessageResponse| match message.update {
        Some(stream_message_response::Update::Digest(list)) => list,
        other => panic!("{other:?}"),
    };
    messages.into_iter().map(list).collect()
}

#[test]
fn a_digest_arrives_with_its_fields() {
    let mut f = learning("max_list_size: 1");
    f.server.set_epoch(1_000);
    f.now = 24;
    let (frames, messages) = f.packet(1, &frame(5));
    assert_eq!(frames[0].0, 9);
    let expected: DigestList = text::parse(&format!(
        r#"digest_id: {DIGEST} list_id: 1 timestamp: 1024
           data {{ struct {{ members {{ bitstring: "\xee" }} members {{ bitstring: "\x01" }} }} }}"#
    ))
    .unwrap();
    assert_eq!(lists(messages), [expected]);
}

#[test]
fn lists_wait_for_their_timeout() {
    let mut f = learning("max_list_size: 10 max_timeout_ns: 1000");
    assert_eq!(f.packet(1, &frame(5)).1, []);
    assert_eq!(f.packet(2, &frame(5)).1, []);
    assert_eq!(f.server.poll_timeout(), Some(1000));
    f.now = 1000;
    f.server.handle_timeout(1000);
    assert_eq!(lists(f.settle().1)[0].data.len(), 2);
}

#[test]
fn a_message_is_sent_again_after_its_acknowledgement() {
    let mut f = learning("max_list_size: 1 ack_timeout_ns: 1000000000");
    assert_eq!(f.packet(1, &frame(5)).1.len(), 1);
    assert_eq!(f.packet(1, &frame(5)).1.len(), 0);
    f.message(stream_message_request::Update::DigestAck(DigestListAck {
        digest_id: DIGEST,
        list_id: 1,
    }));
    assert_eq!(f.packet(1, &frame(5)).1.len(), 1);
}

#[test]
fn configurations_are_checked_and_read() {
    let mut f = Fixture::new();
    assert_rejected(f.modify(&digest("")), Code::NotFound, "not enabled");
    assert_rejected(f.delete(&digest("")), Code::NotFound, "not enabled");
    assert_rejected(
        f.insert(&digest("max_timeout_ns: -1")),
        Code::InvalidArgument,
        "negative",
    );
    assert_rejected(
        f.insert("digest_entry { digest_id: 1 }"),
        Code::InvalidArgument,
        "no digest",
    );
    f.insert(&digest("max_list_size: 3")).unwrap();
    assert_rejected(
        f.insert(&digest("")),
        Code::AlreadyExists,
        "enabled already",
    );
    assert_eq!(
        f.read("digest_entry {}"),
        [entity(&digest("max_list_size: 3"))]
    );
    f.modify(&digest("max_list_size: 4")).unwrap();
    assert_eq!(
        f.read("digest_entry {}"),
        [entity(&digest("max_list_size: 4"))]
    );
    f.delete(&digest("")).unwrap();
    assert_eq!(f.read("digest_entry {}"), []);
}

#[test]
fn invalid_acknowledgements_get_a_stream_error() {
    let mut f = Fixture::new();
    f.message(stream_message_request::Update::DigestAck(DigestListAck {
        digest_id: 1,
        list_id: 1,
    }));
    let Some(stream_message_response::Update::Error(error)) = f.settle().1.remove(0).update else {
        panic!("no error");
    };
    assert_eq!(error.canonical_code, i32::from(Code::InvalidArgument));
    assert!(matches!(
        error.details,
        Some(stream_error::Details::DigestListAck(_))
    ));
}
