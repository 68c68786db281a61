//! The example runs.

#[path = "../examples/pair.rs"]
mod pair;

#[test]
fn a_lost_packet_is_sent_again() {
    pair::main();
}
