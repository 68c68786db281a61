//! Choice of the ACK or NAK that goes to the source (`decide.p4`).

use super::{Feedback, LastAcked, Point, Space, WaitingNak};

/// Returns the feedback for the source once the minimum is known, if there is any. A NAK that waited for this
/// minimum takes precedence over an ACK, because it acknowledges all packets before it.
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

/// Returns the ACK for old data, or for the probe on its behalf, when all paths have it. The source gets an ACK of the
/// minimum. A former source gets an ACK of its own PSN with the MSN of its path, unless its PSN is the minimum.
pub fn answer(is_source: bool, asked: Point, minimum: Point) -> Feedback {
    Feedback::ack(match is_source || asked.psn == minimum.psn {
        true => minimum,
        false => asked,
    })
}
