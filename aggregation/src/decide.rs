//! Which ACK or NAK goes to the source, if any (`decide.p4`).

use super::{Feedback, Point, Space, Told, WaitingNak};

/// Feedback looks no further: all have what comes up to `minimum`. The NAK that waited for it goes first, as it acknowledges
/// everything before it.
pub fn conclude(
    space: Space,
    minimum: Point,
    told: &mut Told,
    waiting: &mut WaitingNak,
) -> Option<Feedback> {
    let nak = waiting.tell(space, minimum.psn);
    let is_news = told.is_news(space, minimum.psn);
    told.raise(space, minimum);
    match nak {
        Some(nak) => Some(Feedback::Nak {
            nak,
            msn: minimum.msn,
        }),
        None => is_news.then(|| Feedback::ack(minimum)),
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
