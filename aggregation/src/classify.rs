//! What an ACKNOWLEDGE packet is, in terms of the protocol (`classify.p4`).

use alfirk_roce::wire::{aeth, NakCode, Syndrome};

use super::{Feedback, Nak, Notice};

/// What an AETH says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// An ACK, or a NAK after which its receiver goes on.
    Feedback(Feedback),
    /// What acknowledges nothing: a selective NAK, or one by which a receiver has ended its queue pair.
    Notice(Notice),
}

/// Reads PSN and AETH of an ACKNOWLEDGE packet (IBTA vol. 1, 9.7.5); `None` for syndromes that the
/// specification reserves, and for a NAK code that only a reliable datagram has.
pub fn classify(psn: u32, aeth: aeth::Repr) -> Option<Answer> {
    let aeth::Repr { syndrome, msn } = aeth;
    let nak = Nak {
        psn,
        syndrome: syndrome.into(),
    };
    Some(match syndrome {
        Syndrome::Ack { .. } => Answer::Feedback(Feedback::Ack { psn, msn }),
        Syndrome::RnrNak(_) | Syndrome::Nak(NakCode::PsnSequenceError) => {
            Answer::Feedback(Feedback::Nak { nak, msn })
        }
        Syndrome::Nak(NakCode::Selective) => Answer::Notice(Notice::SelectiveNak {
            psn,
            reports: aeth.reports(),
        }),
        Syndrome::Nak(
            NakCode::InvalidRequest | NakCode::RemoteAccessError | NakCode::RemoteOperationalError,
        ) => Answer::Notice(Notice::FatalNak { nak, msn }),
        Syndrome::Nak(NakCode::InvalidRdRequest | NakCode::Reserved(_)) | Syndrome::Reserved(_) => {
            return None
        }
    })
}
