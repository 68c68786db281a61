//! Choice of the ACK or NAK for the source (`decide.p4`), the member of the group that sends at present. The *minimum* is
//! the newest PSN that all paths of the group have acknowledged or sent.

use super::{Feedback, LastAcked, Point, Space, WaitingNak};

/// Returns the feedback for the source at a new minimum; `None` if there is nothing new to report. A pending NAK of the
/// next PSN takes precedence over an ACK: it also acknowledges all packets before it.
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

/// Returns the ACK of retransmitted data that all paths have. `data_point`: PSN and MSN of that data. The current source
/// gets an ACK of the minimum, a former source an ACK of `data_point`.
pub fn ack_of_old_data(is_source: bool, data_point: Point, minimum: Point) -> Feedback {
    Feedback::ack(match is_source || data_point.psn == minimum.psn {
        true => minimum,
        false => data_point,
    })
}
