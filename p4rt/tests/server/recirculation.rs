//! Packets whose copies make copies.

use std::sync::Arc;

use alfirk_bmv2::{LoadedProgram, QueueState, Replica, Switch, SwitchOptions};
use alfirk_p4rt::{Event, Server};

use crate::fixture::compiled;

#[test]
fn copies_of_copies_are_dropped_when_too_many_wait() {
    let json = compiled("test_data/recirculate.p4").json.to_text();
    let mut switch = Switch::new(SwitchOptions::default());
    switch.load(Arc::new(LoadedProgram::from_json(&json).unwrap()));
    let replica = |rid| Replica { port: 1, rid };
    let replicas: Vec<Replica> = (0..1000).map(replica).collect();
    switch.pre_mut().unwrap().set_group(4, &replicas).unwrap();
    let mut server = Server::new(switch);
    server.frame_in(3, &[7], 0);
    // Each of a thousand copies recirculates and makes a thousand more.
    for _ in 0..80 {
        if let Some(Event::Enqueue(packet)) = server.poll() {
            server.dequeue(packet, 0, QueueState::default());
        }
    }
    assert_ne!(server.counters().drops["too_many_copies"], 0);
    let waiting = std::iter::from_fn(|| server.poll()).count();
    assert!(waiting <= 1 << 16, "{waiting} packets wait");
    // After they are gone, packets are accepted again.
    server.frame_in(3, &[7], 0);
    assert_eq!(std::iter::from_fn(|| server.poll()).count(), 1000);
}
