//! Classification of acknowledge packets by their AETH syndrome (`classify.p4`).

use alfirk_roce::wire::{aeth, NakCode, Syndrome};

use super::{Feedback, Nak, Notice};

/// Class of an acknowledge packet: aggregated feedback, or a notice that is only filtered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckClass {
    /// An ACK, a PSN sequence error or an RNR NAK: aggregated.
    Feedback(Feedback),
    /// A selective or fatal NAK: not aggregated.
    Notice(Notice),
}

/// Classifies an acknowledge packet by its PSN and AETH (IBTA vol. 1, 9.7.5). `None` for reserved syndromes, and for
/// the NAK code of the reliable datagram service.
pub fn classify(psn: u32, aeth: aeth::Repr) -> Option<AckClass> {
    let aeth::Repr { syndrome, msn } = aeth;
    let nak = Nak {
        psn,
        syndrome: syndrome.into(),
    };
    Some(match syndrome {
        Syndrome::Ack { .. } => AckClass::Feedback(Feedback::Ack { psn, msn }),
        Syndrome::RnrNak(_) | Syndrome::Nak(NakCode::PsnSequenceError) => {
            AckClass::Feedback(Feedback::Nak { nak, msn })
        }
        Syndrome::Nak(NakCode::Selective) => AckClass::Notice(Notice::SelectiveNak {
            psn,
            reports: aeth.reports(),
        }),
        Syndrome::Nak(
            NakCode::InvalidRequest | NakCode::RemoteAccessError | NakCode::RemoteOperationalError,
        ) => AckClass::Notice(Notice::FatalNak { nak, msn }),
        Syndrome::Nak(NakCode::InvalidRdRequest | NakCode::Reserved(_)) | Syndrome::Reserved(_) => {
            return None
        }
    })
}
