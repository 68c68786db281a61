//! Driver that runs a switch until all packets were sent or dropped, or a limit of events is reached.

use alfirk_bmv2::QueueState;
use alfirk_p4rt::{Event, Server};

/// Limit of events per frame: a program may recirculate a frame endlessly.
const MAX_EVENTS: usize = 300;

/// Executes the server's events up to the limit. Returns the number of sent frames.
pub fn settle(server: &mut Server, now: u64) -> usize {
    let mut left = 0;
    for _ in 0..MAX_EVENTS {
        match server.poll() {
            Some(Event::Enqueue(packet)) => server.dequeue(packet, now, QueueState::default()),
            Some(Event::Output { .. }) => left += 1,
            Some(_) => {}
            None => return left,
        }
    }
    while server.poll().is_some() {}
    left
}
