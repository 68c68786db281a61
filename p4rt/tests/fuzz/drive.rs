//! A switch that is driven to the end of each packet, with what bounds a driver's work.

use alfirk_bmv2::QueueState;
use alfirk_p4rt::{Event, Server};

/// Events carried out for one frame: a program may send it round for ever.
const MAX_EVENTS: usize = 300;

/// Carries out what the server wants, and gives up on what goes on and on. How many frames left.
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
