//! Which ACK or NAK goes to the source, if any (`decide.p4`).

use super::{Feedback, LastAcked, Point, Space, WaitingNak};

/// Feedback looks no further: all have what comes up to `minimum`. The NAK that waited for it goes first, as it acknowledges
/// everything before it.
pub fn final_feedback(
    space: Space,
    minimum: Point,
    last_acked: &mut LastAcked,
    waiting: &mut WaitingNak,
) -> Option<Feedback> {
    let nak = waiting.take_due(space, minimum.psn);
    let advances_minimum = last_acked.advances_minimum(space, minimum.psn);
    last_acked.raise(space, minimum);
    match nak {
        Some(nak) => Some(Feedback::Nak {
            nak,
            msn: minimum.msn,
        }),
        None => advances_minimum.then(|| Feedback::ack(minimum)),
    }
}

/// Old data, or the packet that asks on its behalf, is answered when all have it. The source gets the minimum; a member that was
/// the source before gets no more than it asked about, with the messages that its path counted then, unless it asks about just
/// the minimum.
pub fn answer(is_source: bool, asked: Point, minimum: Point) -> Feedback {
    Feedback::ack(match is_source || asked.psn == minimum.psn {
        true => minimum,
        false => asked,
    })
}
