//! Classification of acknowledge packets (`classify.p4`).

use alfirk_roce::wire::{aeth, NakCode, Syndrome};

use super::{Feedback, Nak, Notice};

/// Class of an acknowledge packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// An ACK, a PSN sequence error or an RNR NAK: aggregated.
    Feedback(Feedback),
    /// A selective or fatal NAK: not aggregated.
    Notice(Notice),
}

/// Classifies an acknowledge packet by its PSN and AETH (IBTA vol. 1, 9.7.5). `None` for syndromes that the
/// specification reserves, and for the NAK code of reliable datagrams.
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
