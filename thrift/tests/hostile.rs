//! Invalid bytes from a client: the server closes the connection without a panic, and allocates no more than was
//! sent.

use alfirk_thrift::{standard, Incoming, Reply, Requests};
use proptest::prelude::*;

/// Receives all requests in the bytes, replies to them, and counts them.
fn serve(bytes: &[u8]) -> (usize, Vec<u8>) {
    let mut output = Vec::new();
    let mut count = 0;
    let mut requests = Requests::new(bytes, &mut output);
    while let Ok(Incoming::Request(ticket, _)) = requests.receive() {
        count += 1;
        let reply = Reply::Standard(standard::Reply::BmResetState(()));
        requests.send_reply(&ticket, &reply).unwrap();
    }
    drop(requests);
    (count, output)
}

fn header(name: &str, kind: u8) -> Vec<u8> {
    let mut bytes = vec![0x80, 1, 0, kind];
    bytes.extend((name.len() as u32).to_be_bytes());
    bytes.extend(name.as_bytes());
    bytes.extend([0, 0, 0, 1]);
    bytes
}

/// Returns a bm_mt_add_entry request with a key of one exact field.
fn add_entry() -> Vec<u8> {
    let mut bytes = header("standard:bm_mt_add_entry", 1);
    bytes.extend([8, 0, 1, 0, 0, 0, 0]);
    bytes.extend([11, 0, 2, 0, 0, 0, 1, b't']);
    bytes.extend([15, 0, 3, 12, 0, 0, 0, 1]);
    bytes.extend([8, 0, 1, 0, 0, 0, 0, 12, 0, 2, 11, 0, 1, 0, 0, 0, 1, 7, 0, 0]);
    bytes.extend([11, 0, 4, 0, 0, 0, 1, b'a']);
    bytes.extend([15, 0, 5, 11, 0, 0, 0, 1, 0, 0, 0, 1, 9]);
    bytes.extend([12, 0, 6, 8, 0, 1, 0, 0, 0, 3, 0, 0]);
    bytes
}

#[test]
fn a_valid_message_is_accepted() {
    let mut twice = add_entry();
    twice.extend(add_entry());
    assert_eq!(serve(&twice).0, 2);
}

#[test]
fn claimed_lengths_reserve_no_memory() {
    // A name, a string and a list, each with a claimed length of two billion.
    let huge = [0x7f, 0xff, 0xff, 0xff];
    let mut name = vec![0x80, 1, 0, 1];
    name.extend(huge);
    let mut text = header("standard:bm_get_config", 1);
    text.extend([11, 0, 1]);
    text.extend(huge);
    let mut list = header("standard:bm_mt_add_entry", 1);
    list.extend([15, 0, 3, 12]);
    list.extend(huge);
    for bytes in [name, text, list] {
        assert_eq!(serve(&bytes).0, 0);
    }
}

#[test]
fn deeply_nested_structures_are_rejected() {
    let mut bytes = header("standard:bm_get_config", 1);
    for _ in 0..1_000_000 {
        bytes.extend([12, 0, 1]);
    }
    assert_eq!(serve(&bytes).0, 0);
}

#[test]
fn requests_beyond_the_limit_are_rejected() {
    let mut bytes = header("standard:bm_get_config", 1);
    for _ in 0..80 {
        bytes.extend([11, 0, 1, 0, 1, 0, 0]);
        bytes.extend(vec![b'x'; 1 << 16]);
    }
    bytes.push(0);
    assert_eq!(serve(&bytes).0, 0);
}

#[test]
fn one_way_messages_are_executed_without_a_reply() {
    let mut bytes = header("standard:bm_reset_state", 4);
    bytes.push(0);
    assert_eq!(serve(&bytes), (1, Vec::new()));
}

#[test]
fn messages_that_are_not_calls_are_rejected() {
    for kind in [2, 3, 9] {
        let mut bytes = header("standard:bm_reset_state", kind);
        bytes.push(0);
        assert_eq!(serve(&bytes).0, 0);
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        serve(&bytes);
        let mut after_a_header = header("standard:bm_mt_add_entry", 1);
        after_a_header.extend(&bytes);
        serve(&after_a_header);
    }

    #[test]
    fn damaged_messages_do_not_panic(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        end in any::<prop::sample::Index>(),
    ) {
        let mut bytes = add_entry();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        serve(&bytes);
        serve(&bytes[..end.index(bytes.len())]);
    }
}
